"""Solves the two problems of ``artix demo --trajectory-optimization``."""

from __future__ import annotations

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import robots
from artix.examples import reach, swing_up

REACHED = 1e-2
"""Largest final distance [m] and angle [rad] of the tool at which the reach has converged."""
UPRIGHT, SLOW = 0.95, 1.0
"""A swing-up has converged if the pendulum's tip stays above this fraction of the full height at the end, and if the
final joint speed [rad/s] is below this."""


@dataclasses.dataclass(frozen=True)
class SwingUpResult:
    """The solution of the swing-up.

    Attributes:
      task: the task.
      costs: cost of every start before every iteration, [iterations, starts].
      torques: the best torques, [T, 2].
      states: the states after each step under them.
      heights: heights of the tip above the shoulder in these states [m], [T].
      seconds: time to solve it, compilation included.
    """

    task: swing_up.SwingUp
    costs: np.ndarray
    torques: np.ndarray
    states: artix.State
    heights: np.ndarray
    seconds: float

    @property
    def lowest_held(self) -> float:
        """Lowest height of the tip over the last part of the horizon, as a fraction of the full height."""
        return float(self.heights[self.task.held].min()) / swing_up.FULL_HEIGHT

    @property
    def final_speed(self) -> float:
        """Largest joint speed at the end [rad/s]."""
        return float(np.abs(self.states.joint_velocity[-1]).max())

    @property
    def converged(self) -> bool:
        """Whether the pendulum swung up, stayed up and ends slowly."""
        return self.lowest_held > UPRIGHT and self.final_speed < SLOW


@dataclasses.dataclass(frozen=True)
class ReachResult:
    """The solution of the reach.

    Attributes:
      task: the task.
      solution: the trajectory and the costs of the iterations.
      errors: the tool's distance [m] and angle [rad] from the target after each step, [T, 2].
      seconds: time to solve it, compilation included.
    """

    task: reach.Reach
    solution: reach.Reached
    errors: np.ndarray
    seconds: float

    @property
    def effort(self) -> np.ndarray:
        """Torques relative to their limits, [T, n]."""
        return np.asarray(self.solution.forces / self.task.arm.max_joint_force[None])

    @property
    def final_speed(self) -> float:
        """Largest joint speed at the end [rad/s]."""
        return float(np.abs(self.solution.states.joint_velocity[-1]).max())

    @property
    def converged(self) -> bool:
        """Whether the tool reached its target and rests there."""
        return bool(self.errors[-1].max() < REACHED) and self.final_speed < REACHED


def solve_swing_up(seed: int) -> SwingUpResult:
    """Solves the swing-up of the built-in double pendulum."""
    begin = time.perf_counter()
    task = swing_up.SwingUp(robots.load("double_pendulum"))
    shooting = jax.block_until_ready(swing_up.solve(task, seed=seed))
    seconds = time.perf_counter() - begin
    torques = task.torques(shooting.best)
    states = jax.jit(task.states)(torques)
    heights = task.tips(states)[:, 2]
    return SwingUpResult(task, np.asarray(shooting.costs), np.asarray(torques), states, np.asarray(heights), seconds)


def solve_reach() -> ReachResult:
    """Solves the reach of the built-in seven-axis arm."""
    begin = time.perf_counter()
    task = reach.Reach(robots.load("arm7"))
    solution = reach.solve(task)
    seconds = time.perf_counter() - begin
    errors = jax.vmap(task.tool_error)(solution.states)
    distances = jnp.stack([jnp.linalg.norm(errors[:, :3], axis=1), jnp.linalg.norm(errors[:, 3:], axis=1)], axis=1)
    return ReachResult(task, solution, np.asarray(distances), seconds)
