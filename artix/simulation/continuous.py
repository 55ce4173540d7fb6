"""Smooth dynamics in continuous time: the vector field for ODE solvers, and the classical Runge-Kutta step.

Bounds (limits, dry friction, envelopes) and hard relations have no part in a vector field; :func:`artix.step` with its
other solvers has them.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from artix.dynamics.forward import forward_dynamics
from artix.evaluation import quantity
from artix.evaluation.devices import scan
from artix.kinematics.configuration import integrate
from artix.kinematics.tree import free_root
from artix.kinematics.velocities import generalized_velocity, joint_rate_from_velocity
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state
from artix.model.topology import Topology
from artix.simulation.common.commands import commands_of, position_error
from artix.simulation.common.options import Control, check_control
from artix.simulation.common.springs import coupling_springs, spring_efforts
from artix.simulation.common.step_start import StepStart, evaluate_step_start, link_motion
from artix.simulation.common.unconstrained import momenta_about_centers

Array = jax.Array
TendonLaw = Literal["physx", "virtual_work"]

#: Nodes and weights of the classical Runge-Kutta method (Kutta 1901).
_REACH = (0.0, 0.5, 0.5, 1.0)
_WEIGHT = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


def vector_field(
    t: float | Array, state: State, args: tuple[Articulation, Control | None], *, tendon_law: TendonLaw = "physx"
) -> State:
    """The rate of change of a state under smooth forces, in the form ``f(t, y, args)`` that ``diffrax`` wants.

    Gravity, commanded joint forces, external wrenches, springs and dampers of drives and tendons, viscous friction and
    the damping of links act. What is not smooth has no part in it: position and speed limits, dry friction, limits of
    drives and envelopes of motors. In ``diffrax.ODETerm(artix.vector_field)`` the state is the pytree that is
    integrated.

    Args:
      t: time [s]; nothing depends on it. Close over a control that does:
        ``lambda t, y, args: artix.vector_field(t, y, (args, control_at(t)))``.
      state: where the articulation is. The root's quaternion may have any length; the field keeps it.
      args: the articulation and the control, ``None`` for none.
      tendon_law: as in :class:`~artix.SolverOptions`.

    Returns:
      The rates of all arrays of the state: of the root's pose (position and quaternion xyzw, [7]) and velocity [6], of
      the joint positions [n] (for spherical joints, those of the rotation vector, which are singular at a whole turn;
      :func:`artix.integrate` by zero brings it back within half of one) and of the joint velocities [n]. Zero for the
      root of a fixed base.

    Raises:
      ValueError: an array has the wrong shape; or the articulation has mimic joints or loop joints, which are hard
        relations.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> rate = artix.vector_field(0.0, state, (pendulum, None))
      >>> print(rate.joint_position, rate.joint_velocity)
      [1. 0.] [ 0.  0.]
    """
    articulation, control = args
    return _vector_field(articulation, state, control, tendon_law)


@quantity
def _vector_field(articulation: Articulation, state: State, control: Control | None, tendon_law: TendonLaw) -> State:
    control = Control() if control is None else control
    check_state(articulation, state)
    check_control(articulation, control)
    refuse_relations(articulation)
    at_start = evaluate_step_start(articulation, state)
    acceleration = _acceleration(articulation, at_start, state, control, tendon_law)
    base = at_start.topology.num_base_dofs
    joints = joint_rate_from_velocity(articulation, state, state.joint_velocity)
    if base == 0:
        zero = jnp.zeros_like(state.root_pose)
        return State(zero, zero[:6], joints, acceleration)
    return State(_root_rate(articulation, state), acceleration[:6], joints, acceleration[base:])


def rk4_step(articulation: Articulation, state: State, control: Control, dt: Array, tendon_law: TendonLaw) -> State:
    """One step of the classical Runge-Kutta method of order 4, back on the manifold; see :func:`artix.step`."""

    def one_stage(carry: tuple[State, State], place: tuple[Array, Array]) -> tuple[tuple[State, State], None]:
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
    """Raises for relations between coordinates, by name; see :func:`vector_field`."""
    topology = articulation.topology
    if len(topology.mimic_dofs):
        raise ValueError("smooth dynamics has no mimic joints, which are relations: step with solver='implicit'")
    if not isinstance(topology, Topology):
        return
    if topology.loop_joints:
        names = ", ".join(repr(joint.name) for joint in topology.loop_joints)
        raise ValueError(
            f"articulation {topology.name!r}: smooth dynamics has no loop joints ({names}): step with solver='implicit'"
        )


def _acceleration(
    articulation: Articulation, at_start: StepStart, state: State, control: Control, tendon_law: TendonLaw
) -> Array:
    """The generalised acceleration [nv] under smooth forces."""
    a, base, qd = articulation, articulation.topology.num_base_dofs, state.joint_velocity
    velocity = generalized_velocity(a, state)
    damping = jnp.repeat(jnp.stack([a.link_linear_damping, a.link_angular_damping], axis=1), 3, axis=1)
    wrench = -damping * momenta_about_centers(at_start, link_motion(at_start, velocity))
    if control.external_force is not None:
        wrench = wrench + control.external_force
    commands = commands_of(a, control)
    error = position_error(a.topology, state.joint_position, commands.target_position)
    spring = a.drive.stiffness * error + a.drive.damping * (commands.target_velocity - qd)
    inertia = jnp.where(a.drive.is_acceleration > 0, 1 / jnp.diagonal(at_start.inverse_mass)[base:], 1)
    joints = commands.joint_force + inertia * spring - a.friction.viscous * qd
    force = jnp.pad(joints, (base, 0))
    for group in coupling_springs(a, at_start, state.joint_position, tendon_law):
        effort = spring_efforts(group, velocity, jnp.zeros_like(velocity, shape=()))
        force = force - matmul(effort, group.force)
    return forward_dynamics(a, state, force, wrench)


def _root_rate(articulation: Articulation, state: State) -> Array:
    """The rate of the root link's pose, [7]."""
    velocity = free_root(articulation.topology, state.root_velocity)
    linear, angular = velocity[:3, None], velocity[3:, None]
    quaternion = state.root_pose[3:, None]
    arm = spatial.rotate(spatial.normalize(quaternion), articulation.link_com_pose[0, :3, None])
    spin = jnp.concatenate([0.5 * angular, jnp.zeros_like(angular[:1])])
    turned = spatial.quaternion_product(spin, quaternion)
    return jnp.concatenate([linear - spatial.cross(angular, arm), turned])[:, 0]
