"""Smooth dynamics in continuous time: the vector field for ODE solvers, and the classical
Runge-Kutta step.

A vector field has no bounds (limits, dry friction, envelopes) and no hard relations. The other
solvers of :func:`artix.step` have them.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from artix.compiler.jax_internals import scan
from artix.compiler.quantity import quantity
from artix.dynamics.forward import forward_dynamics
from artix.kinematics.configuration import generalized_velocity, integrate, joint_rate_from_velocity
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.checks import any_quaternion, check_state
from artix.simulation.common.control import (
    Control,
    check_control,
    check_known_control,
    commands_of,
    position_error,
)
from artix.simulation.common.couplings import coupling_springs, spring_efforts
from artix.simulation.common.options import check_tendon_law
from artix.simulation.common.step_start import (
    StepStart,
    evaluate_step_start,
    link_motion,
    momenta_about_centers,
)

Array = jax.Array
TendonLaw = Literal["physx", "virtual_work"]

#: Nodes and weights of the classical Runge-Kutta method (Kutta 1901).
_REACH = (0.0, 0.5, 0.5, 1.0)
_WEIGHT = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


def vector_field(
    t: float | Array,
    state: State,
    args: tuple[Articulation, Control | None],
    *,
    tendon_law: TendonLaw = "physx",
) -> State:
    """The rate of change of a state under smooth forces, in the form ``f(t, y, args)`` that
    ``diffrax`` expects.

    It includes gravity, commanded joint forces, external wrenches, springs and dampers of drives
    and tendons, viscous friction and link damping. It excludes everything that is not smooth:
    position and speed limits, dry friction, drive limits and motor envelopes.
    ``diffrax.ODETerm(artix.vector_field)`` integrates the state as a pytree.

    Args:
      t: time [s], ignored. For a control that depends on time, use
        ``lambda t, y, args: artix.vector_field(t, y, (args, control_at(t)))``.
      state: the state. The root's quaternion may have any length, which the field preserves.
      args: the articulation, and the control or ``None``.
      tendon_law: as in :class:`~artix.SolverOptions`.

    Returns:
      The rates of all arrays of the state: root pose (position and quaternion xyzw, [7]), root
      velocity [6], joint positions [n] and joint velocities [n]. For spherical joints the rate of
      the rotation vector is singular at a full turn; :func:`artix.integrate` by zero brings the
      vector back within half a turn. A fixed root has zero rates.

    Raises:
      ValueError: an array has the wrong shape, the articulation has mimic joints or loop joints, or
        ``tendon_law`` is unknown.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> rate = artix.vector_field(0.0, state, (pendulum, None))
      >>> print(rate.joint_position, rate.joint_velocity)
      [1. 0.] [ 0.  0.]
    """
    articulation, control = args
    check_tendon_law(tendon_law)
    check_known_control(control)
    return _vector_field(articulation, state, control, tendon_law)


@quantity
@any_quaternion
def _vector_field(
    articulation: Articulation, state: State, control: Control | None, tendon_law: TendonLaw
) -> State:
    control = Control() if control is None else control
    check_state(articulation, state)
    check_control(articulation, control)
    refuse_relations(articulation)
    at_start = evaluate_step_start(articulation, state)
    acceleration = _acceleration(articulation, at_start, state, control, tendon_law)
    base = at_start.topology.num_base_dofs
    joints = joint_rate_from_velocity(articulation, state, state.joint_velocity)
    memory = jax.tree.map(jnp.zeros_like, state.contact_memory)
    if base == 0:
        zero = jnp.zeros_like(state.root_pose)
        return State(zero, zero[:6], joints, acceleration, memory)
    return State(
        _root_rate(articulation, state), acceleration[:6], joints, acceleration[base:], memory
    )


def rk4_step(
    articulation: Articulation, state: State, control: Control, dt: Array, tendon_law: TendonLaw
) -> State:
    """One step of the classical fourth-order Runge-Kutta method, projected back onto the
    manifold.
    """

    def one_stage(
        carry: tuple[State, State], place: tuple[Array, Array]
    ) -> tuple[tuple[State, State], None]:
        rate, total = carry
        reach, weight = place
        moved = jax.tree.map(lambda x, dx: x + reach * dt * dx, state, rate)
        rate = vector_field(0.0, moved, (articulation, control), tendon_law=tendon_law)
        return (rate, jax.tree.map(lambda x, dx: x + weight * dx, total, rate)), None

    zero = jax.tree.map(jnp.zeros_like, state)
    places = (jnp.array(_REACH, dt.dtype), jnp.array(_WEIGHT, dt.dtype))
    mean = scan(one_stage, (zero, zero), places)[0][1]
    end = jax.tree.map(lambda x, dx: x + dt * dx, state, mean)
    # Unit quaternions, rotation vectors within half a turn, wrapped angles.
    return integrate(articulation, end, jnp.zeros_like(dt, shape=(articulation.topology.nv,)))


def refuse_relations(articulation: Articulation) -> None:
    """Refuses mimic joints and loop joints; see :func:`vector_field`."""
    topology = articulation.topology
    if len(topology.mimic_dofs):
        raise ValueError("smooth dynamics cannot have mimic joints: use solver='implicit'")
    if topology.loop_joints:
        names = ", ".join(repr(joint.name) for joint in topology.loop_joints)
        raise ValueError(
            f"articulation {topology.name!r}: smooth dynamics cannot have loop joints ({names}): "
            "use solver='implicit'"
        )


def _acceleration(
    articulation: Articulation,
    at_start: StepStart,
    state: State,
    control: Control,
    tendon_law: TendonLaw,
) -> Array:
    """The generalised acceleration [nv] under smooth forces."""
    a, base, qd = articulation, articulation.topology.num_base_dofs, state.joint_velocity
    velocity = generalized_velocity(a, state)
    damping = jnp.repeat(
        jnp.stack([a.link_linear_damping, a.link_angular_damping], axis=1), 3, axis=1
    )
    wrench = -damping * momenta_about_centers(at_start, link_motion(at_start, velocity))
    if control.external_force is not None:
        wrench = wrench + control.external_force
    commands = commands_of(a, control)
    error = position_error(a.topology, state.joint_position, commands.target_position)
    spring = a.drive.stiffness * error + a.drive.damping * (commands.target_velocity - qd)
    inertia = jnp.where(
        a.drive.is_acceleration > 0, 1 / jnp.diagonal(at_start.inverse_mass)[base:], 1
    )
    joints = commands.joint_force + inertia * spring - a.friction.viscous * qd
    force = jnp.pad(joints, (base, 0))
    for group in coupling_springs(a, at_start, state.joint_position, tendon_law):
        effort = spring_efforts(group, velocity, jnp.zeros_like(velocity, shape=()))
        force = force - matmul(effort, group.force)
    return forward_dynamics(a, state, force, wrench)


def _root_rate(articulation: Articulation, state: State) -> Array:
    """The rate of the root link's pose, [7]."""
    linear, angular = state.root_velocity[:3, None], state.root_velocity[3:, None]
    quaternion = state.root_pose[3:, None]
    arm = spatial.rotate(spatial.normalize(quaternion), articulation.link_com_pose[0, :3, None])
    spin = jnp.concatenate([0.5 * angular, jnp.zeros_like(angular[:1])])
    turned = spatial.quaternion_product(spin, quaternion)
    return jnp.concatenate([linear - spatial.cross(angular, arm), turned])[:, 0]
