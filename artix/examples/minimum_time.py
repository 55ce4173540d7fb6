"""A double pendulum stands up in the least time that its motors allow.

The length of each knot is a control with bounds, so time is free. At the optimum the motors are at
their limits nearly always, and switch between them. ``python -m artix.examples.minimum_time``
prints when. It needs the extra ``ipopt``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import artix
from artix import optimal_control

Array = jax.Array
#: Largest torques of shoulder and elbow [N m].
LIMITS = (18.0, 6.0)
#: Shortest, first and longest duration of the motion, in equal knots [s].
SHORTEST, FIRST, LONGEST = 0.16, 1.2, 1.6


def duration(knot: optimal_control.Knot) -> Array:
    """A residual half of whose square is the length of the knot."""
    return jnp.sqrt(2 * knot.control[-1:])


def arrive(knot: optimal_control.Knot) -> Array:
    """Upright, at rest."""
    missed = knot.state.joint_position - jnp.array([jnp.pi, 0.0], knot.articulation.dtype)
    return jnp.concatenate([missed, 0.3 * knot.state.joint_velocity])


def problem(pendulum: artix.Articulation, knots: int) -> optimal_control.Problem:
    """The time is the cost, and the end is a constraint."""
    dynamics = optimal_control.discrete_dynamics(pendulum, None)
    most = jnp.array([*LIMITS, LONGEST / knots], pendulum.dtype)
    return optimal_control.Problem(
        dynamics,
        jnp.zeros(4, pendulum.dtype),
        duration,
        final_equality=arrive,
        control_lower=(-most).at[-1].set(SHORTEST / knots),
        control_upper=most,
    )


def solve(pendulum: artix.Articulation, knots: int = 80) -> optimal_control.InteriorPointSolution:
    """The motion of least time near the straight way up, for a pendulum in float64."""
    controls = jnp.tile(jnp.array([0.0, 0.0, FIRST / knots]), (knots, 1))
    way = jnp.linspace(0.0, 1.0, knots + 1)[:, None] * jnp.array([jnp.pi, 0.0, 0.0, 0.0])
    return optimal_control.solve_by_ipopt(problem(pendulum, knots), controls, way)


def main() -> None:
    """Prints the least time, and when the torques change."""
    jax.config.update("jax_enable_x64", True)
    solution = solve(artix.robots.load("double_pendulum", dtype="float64"))
    print(f"upright after {float(solution.cost):.3f} s; converged: {bool(solution.converged)}")
    torques, lengths = jnp.split(solution.controls, [2], axis=1)
    moments, last = jnp.cumsum(lengths) - lengths[:, 0], jnp.zeros(2)
    for moment, torque in zip(moments, torques, strict=True):
        if jnp.max(jnp.abs(torque - last)) > 0.1:
            print(f"{moment:.3f} s: " + ", ".join(f"{each:6.2f} N m" for each in torque))
        last = torque


if __name__ == "__main__":
    main()
