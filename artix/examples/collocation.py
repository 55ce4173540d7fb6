"""Trajectories of least effort by direct collocation: states and torques are unknowns, the dynamics
are constraints.

Hermite-Simpson collocation of :func:`artix.forward_dynamics`, whose error falls as the step to the
fourth. IPOPT (extra ``ipopt``) solves it, as in :func:`artix.optimal_control.solve_by_ipopt`, whose
constraints are steps instead. Kelly, *An introduction to trajectory optimization*, SIAM Review
2017.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import artix
from artix.optimal_control.sparse_program import Program, Stages, minimise

Array = jax.Array


class Collocated(NamedTuple):
    """The result of :func:`collocate`."""

    times: np.ndarray
    """Times of the knots, [N + 1] [s]."""
    states: np.ndarray
    """Joint positions and velocities, [N + 1, 2 n]; cubic in time between knots."""
    controls: np.ndarray
    """Joint forces, [N + 1, n] [N m or N]; quadratic in time between knots."""
    middle_controls: np.ndarray
    """Joint forces in the middle of each segment, [N, n]."""
    cost: float
    """The integral of half the sum of squared joint forces."""
    status: int
    """IPOPT's return code; 0 if it converged."""


def segment(data: tuple[artix.Articulation, Array], z: Array, _: Array) -> tuple[Array, Array]:
    """The effort of a segment, and the defect of its dynamics, [2 n].

    Args:
      data: the articulation, and the length of the segment [s].
      z: state and control at the beginning, control in the middle, state and control at the end,
        [7 n].
    """
    (robot, step), n = data, data[0].topology.num_dofs
    x0, u0, middle, x1, u1 = jnp.split(z, [2 * n, 3 * n, 4 * n, 6 * n])

    def rate(x: Array, control: Array) -> Array:
        state = artix.neutral_state(robot).replace(joint_position=x[:n], joint_velocity=x[n:])
        return jnp.concatenate([x[n:], artix.forward_dynamics(robot, state, control)])

    f0, f1 = rate(x0, u0), rate(x1, u1)
    f = rate((x0 + x1) / 2 + step / 8 * (f0 - f1), middle)
    effort = step / 12 * jnp.sum(u0**2 + 4 * middle**2 + u1**2)
    return effort, x1 - x0 - step / 6 * (f0 + 4 * f + f1)


def nothing(_: Any, z: Array) -> tuple[Array, Array]:
    """The end costs nothing and has no rows: its state is bounded to the goal."""
    return jnp.zeros((), z.dtype), z[:0]


def collocate(
    robot: artix.Articulation,
    start: ArrayLike,
    end: ArrayLike,
    seconds: float,
    limits: ArrayLike,
    segments: int = 40,
) -> Collocated:
    """Finds the motion of least effort between two states, with bounded joint forces.

    Args:
      robot: an articulation on a fixed base in float64, with revolute and prismatic joints.
      start: joint positions and velocities at the beginning, [2 n].
      end: joint positions and velocities at the end, [2 n].
      seconds: duration [s].
      limits: largest joint forces, [n] [N m or N].
      segments: number N of segments.

    Raises:
      TypeError: the robot is not in float64, which IPOPT needs.
      ValueError: the robot has a floating base or a spherical joint, whose configuration is not a
        vector.
    """
    topology, start, end, limits = (
        robot.topology,
        np.asarray(start),
        np.asarray(end),
        np.asarray(limits),
    )
    if robot.dtype != jnp.float64:
        raise TypeError(
            f"collocation needs float64, found {robot.dtype}: enable x64 in JAX and use "
            "robot.astype(float)"
        )
    if topology.num_base_dofs or topology.has_spherical:
        raise ValueError("collocate supports a fixed base with revolute and prismatic joints only")
    n, step = topology.num_dofs, jnp.asarray(seconds / segments, robot.dtype)
    # Unknowns by knot: state, control, and the control in mid-segment. A segment also sees the next
    # knot.
    stages = Stages(segment, nothing, segments, 4 * n, 3 * n)
    bound = np.tile(np.concatenate([np.full(2 * n, np.inf), limits, limits]), segments + 1)[:-n]
    least, most = -bound, bound.copy()
    ends = [slice(0, 2 * n), slice(-3 * n, -n)]
    for part, value in zip(ends, (start, end), strict=True):
        least[part] = most[part] = value
    share = np.linspace(0, 1, segments + 1)[:, None]
    line = np.concatenate(
        [(1 - share) * start + share * end, np.zeros((segments + 1, 2 * n))], axis=1
    )
    rows = np.zeros(2 * n * segments)
    program = Program(stages, (robot, step), line.ravel()[:-n], (least, most), rows)
    minimum = minimise(program, {"tol": 1e-9})
    unknowns = np.append(minimum.unknowns, np.zeros(n)).reshape(-1, 4 * n)
    states, controls, middle = np.split(unknowns, [2 * n, 3 * n], axis=1)
    times = np.linspace(0, seconds, segments + 1)
    return Collocated(times, states, controls, middle[:-1], minimum.cost, minimum.status)


def main() -> None:
    """Makes a double pendulum with weak motors stand up within 2.5 s."""
    jax.config.update("jax_enable_x64", True)
    pendulum = artix.robots.load("double_pendulum", dtype="float64")
    solution = collocate(
        pendulum, np.zeros(4), np.array([np.pi, 0, 0, 0]), 2.5, np.array([10.0, 6.0])
    )
    largest = np.abs(solution.controls).max(0)
    print(
        f"IPOPT returned {solution.status}; effort {solution.cost:.3f}, largest torques {largest}"
    )


if __name__ == "__main__":
    main()
