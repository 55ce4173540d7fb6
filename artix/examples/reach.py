"""An arm reaches for a pose of its tool and comes to rest there, with little torque, by iLQR."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

import artix
from artix.examples import ilqr

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Reach:
    """The task.

    Attributes:
      arm: an arm whose joints have effort limits.
      start: joint positions at the beginning, at rest [rad], shape [n].
      target: world pose of the tool at the end, position [m] and quaternion xyzw, shape [7].
      tool: the name of the tool's link or frame.
      dt: length of a step [s].
      steps: number of steps.
      effort_weight: weight of the torques, relative to their limits.
      speed_weight: weight of the joint velocities, relative to their limits.
      pose_weight: weight of the tool's distance [1/m] and angle [1/rad] from the target at the end.
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
        return artix.neutral_state(self.arm).replace(joint_position=jnp.asarray(self.start, self.arm.dtype))

    def tool_error(self, state: artix.State) -> Array:
        """Position [m] and rotation vector [rad, for small angles] from the target to the tool, shape [6]."""
        target = jnp.asarray(self.target, self.arm.dtype)
        pose = artix.frame_pose(self.arm, state, self.tool)
        (x, w), (x0, w0) = (pose[3:6], pose[6]), (target[3:6], target[6])
        turn = w0 * x - w * x0 - jnp.cross(x0, x)  # the vector part of conj(target) * pose
        shorter = jnp.where(w * w0 + jnp.sum(x * x0) < 0, -2.0, 2.0).astype(pose.dtype)
        return jnp.concatenate([pose[:3] - target[:3], shorter * turn])

    def running_residual(self, state: artix.State, force: Array) -> Array:
        """Torques and velocities relative to their limits."""
        speed = self.speed_weight * state.joint_velocity / self.arm.max_joint_velocity
        return jnp.concatenate([self.effort_weight * force / self.arm.max_joint_force, speed])

    def final_residual(self, state: artix.State) -> Array:
        """Distance and angle from the target, and what is left of the velocity."""
        return jnp.concatenate([self.pose_weight * self.tool_error(state), self.rest_weight * state.joint_velocity])


def solve(task: Reach) -> ilqr.Solution:
    """Solves the task from the torques that hold the arm where it starts."""
    start = task.start_state()
    hold = artix.gravity_compensation(task.arm, start)
    problem = ilqr.Problem(task.arm, task.dt, task.running_residual, task.final_residual)
    return ilqr.solve(problem, start, jnp.tile(hold, (task.steps, 1)))
