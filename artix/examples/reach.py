"""An arm moves its tool to a target pose and stops there, with little torque, by iLQR."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix import optimal_control

Array = jax.Array


@dataclasses.dataclass(frozen=True, eq=False)  # residuals are compared by identity
class Reach:
    """The task of reaching a pose.

    Attributes:
      arm: an arm whose joints have effort limits.
      start: joint positions at the beginning, at rest [rad], shape [n].
      target: world pose of the tool at the end, position [m] and quaternion xyzw, shape [7].
      tool: the name of the tool's link or frame.
      dt: length of a step [s].
      steps: number of steps.
      effort_weight: weight of the torques, relative to their limits.
      speed_weight: weight of the joint velocities, relative to their limits.
      pose_weight: weight of the tool's distance [1/m] and angle [1/rad] to the target at the end.
      rest_weight: weight of the joint velocities at the end [s/rad].
    """

    arm: artix.Articulation
    start: tuple[float, ...] = (0.0, -0.3, 0.0, 1.2, 0.0, 0.9, 0.0)
    target: tuple[float, ...] = (0.25, 0.45, 0.35, 0.6532815, 0.6532815, -0.2705981, 0.2705981)
    tool: str = "tool"
    dt: float = 0.02
    steps: int = 100
    effort_weight: float = 0.5
    speed_weight: float = 0.2
    pose_weight: float = 100.0
    rest_weight: float = 10.0

    def start_state(self) -> artix.State:
        """The state at the beginning."""
        return artix.neutral_state(self.arm).replace(
            joint_position=jnp.asarray(self.start, self.arm.dtype)
        )

    def tool_error(self, state: artix.State) -> Array:
        """Position [m] and rotation vector [rad] from the target to the tool, shape [6]."""
        return optimal_control.frame_pose(
            self.arm, state, self.tool, jnp.asarray(self.target, self.arm.dtype)
        )

    def running_residual(self, knot: optimal_control.Knot) -> Array:
        """Torques and velocities relative to their limits."""
        speed = self.speed_weight * knot.state.joint_velocity / self.arm.max_joint_velocity
        return jnp.concatenate(
            [self.effort_weight * knot.control / self.arm.max_joint_force, speed]
        )

    def final_residual(self, knot: optimal_control.Knot) -> Array:
        """Distance and angle to the target, and the remaining velocity."""
        at_rest = self.rest_weight * knot.state.joint_velocity
        return jnp.concatenate([self.pose_weight * self.tool_error(knot.state), at_rest])


class Reached(NamedTuple):
    """The result of :func:`solve`.

    Attributes:
      states: the states after each step, leading axis T.
      forces: the torques of each step, [T, n].
      costs: the cost at the start and after each iteration, [iterations + 1].
    """

    states: artix.State
    forces: Array
    costs: Array


def solve(task: Reach, iterations: int = 15) -> Reached:
    """Solves the task, starting from the torques that hold the arm in its initial position."""
    start = task.start_state()
    hold = artix.gravity_compensation(task.arm, start)
    dynamics = optimal_control.discrete_dynamics(task.arm, task.dt)
    problem = optimal_control.Problem(
        dynamics, dynamics.pack(start), task.running_residual, task.final_residual
    )

    @jax.jit
    def reached(controls: Array) -> Reached:
        solution = optimal_control.solve(problem, controls, iterations=iterations)
        states = jax.vmap(dynamics.unpack)(solution.states[1:])
        first = optimal_control.total_cost(
            problem, optimal_control.rollout(problem, controls), controls
        )
        return Reached(
            states, solution.controls, jnp.concatenate([first[None], solution.iterations.cost])
        )

    return reached(jnp.tile(hold, (task.steps, 1)))
