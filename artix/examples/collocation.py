"""Trajectories of least effort by direct collocation: states and torques are unknowns, the dynamics are constraints.

Hermite-Simpson collocation of :func:`artix.forward_dynamics`, solved by IPOPT (``pip install ipyopt``). JAX gives it
sparse derivatives and exact Hessians, one block per segment, all segments in one kernel. Kelly, *An introduction
to trajectory optimization*, SIAM Review 2017. Use this for hard bounds and long horizons, and
:mod:`artix.optimal_control` for batches and control loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import artix

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


def segment(robot: artix.Articulation, step: Array, z: Array) -> tuple[Array, Array]:
    """The dynamics defect of a segment, [2 n], and its effort.

    Args:
      robot: the articulation.
      step: length of the segment [s].
      z: state and control at the beginning, control in the middle, state and control at the end, [7 n].
    """
    n = robot.topology.num_dofs
    x0, u0, middle, x1, u1 = jnp.split(z, [2 * n, 3 * n, 4 * n, 6 * n])

    def rate(x: Array, control: Array) -> Array:
        state = artix.neutral_state(robot).replace(joint_position=x[:n], joint_velocity=x[n:])
        return jnp.concatenate([x[n:], artix.forward_dynamics(robot, state, control)])

    f0, f1 = rate(x0, u0), rate(x1, u1)
    f = rate((x0 + x1) / 2 + step / 8 * (f0 - f1), middle)
    effort = step / 12 * jnp.sum(u0**2 + 4 * middle**2 + u1**2)
    return x1 - x0 - step / 6 * (f0 + 4 * f + f1), effort


def collocate(
    robot: artix.Articulation, start: ArrayLike, end: ArrayLike, seconds: float, limits: ArrayLike, segments: int = 40
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
      ValueError: the robot has a floating base or a spherical joint, whose configuration is not a vector.
    """
    import ipyopt

    topology, start, end, limits = robot.topology, np.asarray(start), np.asarray(end), np.asarray(limits)
    if robot.dtype != jnp.float64:
        raise TypeError(
            f"collocation needs float64, found {robot.dtype}: enable x64 in JAX and use robot.astype(float)"
        )
    if topology.num_base_dofs or topology.has_spherical:
        raise ValueError("collocate supports a fixed base with revolute and prismatic joints only")
    n, step = topology.num_dofs, jnp.asarray(seconds / segments, robot.dtype)
    width, seen, count = 4 * n, 7 * n, segments * 2 * n
    # Unknowns by knot: state, control, and the control in mid-segment. A segment also reads the next knot.
    window = width * np.arange(segments)[:, None] + np.arange(seen)
    rows = 2 * n * np.arange(segments)[:, None] + np.arange(2 * n)

    def each(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
        batch = jax.jit(jax.vmap(function))
        return lambda z, *rest: np.asarray(batch(z[window], *rest))

    def lagrangian(z: Array, multiplier: Array, factor: Array) -> Array:
        missed, effort = segment(robot, step, z)
        return multiplier @ missed + factor * effort

    defect, effort = each(lambda z: segment(robot, step, z)[0]), each(lambda z: segment(robot, step, z)[1])
    defect_slope = each(jax.jacfwd(lambda z: segment(robot, step, z)[0]))
    effort_slope = each(jax.grad(lambda z: segment(robot, step, z)[1]))
    hessian = each(jax.hessian(lagrangian))
    lower = np.tril_indices(seen)

    def put(out: np.ndarray, values: np.ndarray) -> None:
        out[:] = values.ravel()

    def gradient(z: np.ndarray, out: np.ndarray) -> None:
        out[:] = 0
        np.add.at(out, window, effort_slope(z))

    def curvature(z: np.ndarray, multipliers: np.ndarray, factor: float, out: np.ndarray) -> None:
        blocks = hessian(z, multipliers.reshape(segments, -1), np.full(segments, factor))
        put(out, blocks[:, lower[0], lower[1]])

    bound = np.tile(np.concatenate([np.full(2 * n, np.inf), limits, limits]), segments + 1)[:-n]
    least, most = -bound, bound.copy()
    ends = [slice(0, 2 * n), slice(-3 * n, -n)]
    for part, value in zip(ends, (start, end), strict=True):
        least[part] = most[part] = value
    problem = ipyopt.Problem(
        n=len(least),
        x_l=least,
        x_u=most,
        m=count,
        g_l=np.zeros(count),
        g_u=np.zeros(count),
        sparsity_indices_jac_g=(np.repeat(rows, seen), np.repeat(window, 2 * n, axis=0).ravel()),
        sparsity_indices_h=(window[:, lower[0]].ravel(), window[:, lower[1]].ravel()),
        eval_f=lambda z: float(np.sum(effort(z))),
        eval_grad_f=gradient,
        eval_g=lambda z, out: put(out, defect(z)),
        eval_jac_g=lambda z, out: put(out, defect_slope(z)),
        eval_h=curvature,
        ipopt_options={"print_level": 0, "sb": "yes", "tol": 1e-9},
    )
    share = np.linspace(0, 1, segments + 1)[:, None]
    line = np.concatenate([(1 - share) * start + share * end, np.zeros((segments + 1, 2 * n))], axis=1)
    found, cost, status = problem.solve(line.ravel()[:-n])
    states, controls, middle = np.split(np.append(found, np.zeros(n)).reshape(-1, width), [2 * n, 3 * n], axis=1)
    return Collocated(np.linspace(0, seconds, segments + 1), states, controls, middle[:-1], cost, status)


def main() -> None:
    """Makes a double pendulum with weak motors stand up within 2.5 s."""
    jax.config.update("jax_enable_x64", True)
    pendulum = artix.robots.load("double_pendulum", dtype="float64")
    found = collocate(pendulum, np.zeros(4), np.array([np.pi, 0, 0, 0]), 2.5, np.array([10.0, 6.0]))
    print(f"IPOPT returned {found.status}; effort {found.cost:.3f}, largest torques {np.abs(found.controls).max(0)}")


if __name__ == "__main__":
    main()
