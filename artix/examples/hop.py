"""A leg hops along by a motion that repeats: a stride is given; its duration, start and forces are
not.

A trunk that does not turn, as on a boom, stands on a leg of two rods. The foot stands during the
first half of the knots and is in the air during the others. The state after the last knot is that
at the start, a stride further. ``python -m artix.examples.hop`` prints how long the phases take. It
needs the extra ``ipopt``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import optimal_control

Array = jax.Array
FRICTION, MOST_TORQUE = 0.7, 30.0
#: Shortest and longest length of a knot, in those of even knots.
SHORTEST, LONGEST = 0.5, 1.5
#: First guess of the duration of a stride [s], and the bend of the leg [rad].
DURATION, BEND = 0.35, 0.6


def hopper() -> artix.Articulation:
    """A trunk of 3.5 kg, guided in the x-z plane by a carriage of 0.5 kg, on a leg of two rods of
    0.25 m.
    """
    builder = artix.ArticulationBuilder(fixed_base=True, name="hopper")
    slide, hinge = artix.Joint.prismatic, artix.Joint.revolute
    along = builder.add_link(
        builder.add_link(), slide(artix.Axis.X, name="along"), mass=0.5, inertia=[0.01] * 3
    )
    parent = builder.add_link(along, slide(artix.Axis.Z, name="up"), mass=3.5, inertia=[0.05] * 3)
    for name, mass, depth in (("hip", 0.6, 0.0), ("knee", 0.3, 0.25)):
        joint = hinge(
            artix.Axis.SWING1, wrapped=False, name=name, parent_pose=[0, 0, -depth, 0, 0, 0, 1]
        )
        moment = mass * 0.25**2 / 12
        parent = builder.add_link(
            parent,
            joint,
            mass=mass,
            com_pose=[0, 0, -0.125, 0, 0, 0, 1],
            inertia=[moment, moment, 1e-3],
        )
    builder.add_frame("foot", parent, [0, 0, -0.25, 0, 0, 0, 1])
    return builder.build(jnp.float64)


def effort(knot: optimal_control.Knot) -> Array:
    """Half of its square is the integral of squared torques over the knot, and a little of its
    length.
    """
    return jnp.concatenate(
        [jnp.sqrt(knot.control[-1]) * knot.control[:-1], jnp.sqrt(knot.control[-1:])]
    )


def kept(knot: optimal_control.Knot) -> Array:
    """What must not be positive: by how much the force leaves its cone, the foot the air, and the
    knee its range.
    """
    height = artix.frame_pose(knot.articulation, knot.state, "foot")[2:3]
    stands = knot.reference
    cone = 0.02 * optimal_control.friction_cone(knot.contact_force, FRICTION)
    knee = knot.state.joint_position[3:]
    return jnp.concatenate(
        [stands * (cone + 1) - 1, (1 - stands) * (1 - height) - 1, knee + 0.2, -2.0 - knee]
    )


def repeats(first: optimal_control.Knot, last: optimal_control.Knot) -> Array:
    """The last state is the first one, a stride further, and the foot comes down at rest."""
    stride = jnp.zeros(4, first.articulation.dtype).at[0].set(first.parameters)
    moved = last.state.joint_position - first.state.joint_position - stride
    foot = artix.frame_pose(first.articulation, first.state, "foot")[:3]
    velocity = artix.frame_velocity(first.articulation, first.state, "foot")[:3]
    return jnp.concatenate(
        [moved, last.state.joint_velocity - first.state.joint_velocity, foot[2:], velocity[::2]]
    )


def problem(robot: artix.Articulation, stride: float, knots: int) -> optimal_control.Problem:
    """The stride of least effort; the trunk starts above the origin."""
    stands = np.arange(knots) < knots // 2
    schedule = optimal_control.ContactSchedule.of(robot, ["foot"], stands[:, None])
    dynamics = optimal_control.discrete_dynamics(
        robot, None, contact_schedule=schedule, actuated=["hip", "knee"]
    )
    even, torque = DURATION / knots, MOST_TORQUE
    bent = jnp.array([0.0, 0.5 * np.cos(BEND), BEND, -2 * BEND])
    return optimal_control.Problem(
        dynamics,
        dynamics.pack(artix.neutral_state(robot).replace(joint_position=bent)),
        effort,
        references=jnp.asarray(np.append(stands, 0.0)),
        parameters=jnp.asarray(stride),
        control_lower=jnp.array([-torque, -torque, SHORTEST * even]),
        control_upper=jnp.array([torque, torque, LONGEST * even]),
        inequality=kept,
        closure=repeats,
        free_start=jnp.ones(8, bool).at[0].set(False),
    )


def solve(
    robot: artix.Articulation, stride: float = 0.25, knots: int = 40
) -> optimal_control.InteriorPointSolution:
    """The hop of least effort near an even motion on a bent leg."""
    task = problem(robot, stride, knots)
    share = jnp.linspace(0.0, 1.0, knots + 1)[:, None]
    states = task.start + share * stride * jnp.eye(8)[0] + stride / DURATION * jnp.eye(8)[4]
    controls = jnp.tile(jnp.array([0.0, 0.0, DURATION / knots]), (knots, 1))
    return optimal_control.solve_by_ipopt(task, controls, states)


def main() -> None:
    """Prints the duration of the phases and the largest torques."""
    jax.config.update("jax_enable_x64", True)
    solution = solve(hopper())
    torques, lengths = solution.controls[:, :2], solution.controls[:, 2]
    stance, flight = jnp.split(lengths, 2)
    print(
        f"stands for {jnp.sum(stance):.3f} s, flies for {jnp.sum(flight):.3f} s; converged: "
        f"{solution.converged}"
    )
    print(
        "largest torques: "
        + ", ".join(f"{each:.1f} N m" for each in jnp.max(jnp.abs(torques), axis=0))
    )


if __name__ == "__main__":
    main()
