"""Momentum and centre of mass of a floating articulation at the end of a step, which would drift
otherwise.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.dynamics.inertia import Inertias, inertia_rates, momentum_of_motion, reference_inertias
from artix.dynamics.momentum import about
from artix.dynamics.newton_euler import force_cross
from artix.kinematics.columns import (
    displaced_sums,
    displacement_from_tangents,
    displacement_motions,
    displacements,
)
from artix.kinematics.forward import (
    body_velocities,
    dof_motions,
    kinematics,
    motion_cross,
    root_motion,
    state_velocities,
)
from artix.math import spatial
from artix.math.spatial import Motion
from artix.math.tangents import directional_derivative
from artix.math.traces import shared
from artix.model.articulation import Articulation, State

Array = jax.Array


class Momentum(NamedTuple):
    """Linear momentum [3] and angular momentum about the centre of mass [3]."""

    linear: Array
    angular: Array


def with_momentum(
    articulation: Articulation,
    end: State,
    center: Array,
    travelled: Array,
    target: Momentum,
    carried: Array,
    dt: Array,
    *,
    magnitude_only: bool,
) -> State:
    """Sets the root velocity that gives a momentum at the new poses, and moves the centre of mass
    to its place.

    Args:
      articulation: the articulation.
      end: the state at the end of the step.
      center: the centre of mass at the start of the step, relative to the root's [m], [3, 1].
      travelled: displacement of the root's centre of mass [m], [3].
      target: the desired momentum.
      carried: the linear momentum that moved the centre of mass during the step [kg m/s], [3].
      dt: the step [s].
      magnitude_only: as for :func:`turn_to_momentum`.
    """
    root = root_motion(articulation.topology, end.root_velocity)
    (mass, first, second), carrying = mass_and_momentum(articulation, end)
    middle = first / mass
    present = about(middle, carrying)
    spread = second - first[:, None] * middle[None]
    locked = spatial.trace(spread)[None, None] * spatial.identity_like(first) - spread
    turn = turn_to_momentum(
        locked, present[3:], target.angular[:, None], magnitude_only=magnitude_only
    )
    # Rotating about the centre of mass does not change the linear momentum.
    push = (target.linear[:, None] - present[:3]) / mass
    corrected = jnp.concatenate(
        [root.linear - spatial.cross(turn, middle) + push, root.angular + turn]
    )[:, 0]
    shift = (center + dt * carried[:, None] / mass - middle)[:, 0] - travelled
    # Two evaluations of the same centre differ by rounding; a robot at rest would creep by it, step
    # after step. The derivatives of the shift are those of what it rounds.
    rounding = 4 * jnp.finfo(shift.dtype).eps * jnp.max(jnp.abs(center))
    shift = shift - jax.lax.stop_gradient(jnp.where(jnp.abs(shift) <= rounding, shift, 0))
    return end.replace(
        root_pose=jnp.concatenate([end.root_pose[:3] + shift, end.root_pose[3:]]),
        root_velocity=corrected,
    )


def turn_to_momentum(
    inertia: Array, angular: Array, target: Array, *, magnitude_only: bool
) -> Array:
    """The angular velocity [3, 1] that changes the angular momentum of the rigid whole to a target.

    Args:
      inertia: total inertia about the centre of mass [kg m^2], [3, 3, 1].
      angular: current angular momentum about the centre of mass, [3, 1].
      target: the desired one, [3, 1].
      magnitude_only: whether to correct only the magnitude, as PhysX does.
    """
    wanted = _with_magnitude(angular, target) if magnitude_only else target
    return spatial.apply(spatial.inverse_of_inertia(inertia), wanted - angular)


def _with_magnitude(vector: Array, other: Array) -> Array:
    """A vector scaled to the length of another."""
    square, wanted = jnp.sum(vector**2), jnp.sum(other**2)
    both = (square > 0) & (wanted > 0)
    return vector * jnp.where(
        both, jnp.sqrt(jnp.where(both, wanted, 1) / jnp.where(both, square, 1)), 0
    )


@shared
def mass_and_momentum(articulation: Articulation, state: State) -> tuple[Inertias, Array]:
    """Mass moments (one item) and momentum [6, 1] of all bodies, about the root's centre of mass in
    world axes.
    """
    return _mass_and_momentum_with_jvp(articulation, state)


def _mass_and_momentum(articulation: Articulation, state: State) -> tuple[Inertias, Array]:
    tree, kin = articulation.topology, kinematics(articulation, state)
    inertias = reference_inertias(articulation, kin)
    return _summed(inertias, state_velocities(tree, kin, state))


def _summed(inertias: Inertias, velocity: Motion) -> tuple[Inertias, Array]:
    return Inertias(*(_total(part) for part in inertias)), _carried(inertias, velocity)


@jax.custom_jvp
def _mass_and_momentum_with_jvp(articulation: Articulation, state: State) -> tuple[Inertias, Array]:
    return _mass_and_momentum(articulation, state)


@functools.partial(_mass_and_momentum_with_jvp.defjvp, symbolic_zeros=True)
def _mass_and_momentum_jvp(primals, tangents):
    (articulation, state), (d_articulation, d_state) = primals, tangents
    tree, kin = articulation.topology, kinematics(articulation, state)
    inertias, motions = reference_inertias(articulation, kin), dof_motions(tree, kin)
    root, qd = root_motion(tree, state.root_velocity), state.joint_velocity
    velocity = body_velocities(tree, motions, root, qd)
    momentum = _summed(inertias, velocity)
    by_parameters = directional_derivative(
        lambda a: _mass_and_momentum(a, state), articulation, d_articulation
    )
    moments, d_momentum = (
        jax.tree.map(jnp.zeros_like, momentum) if by_parameters is None else by_parameters
    )
    d_velocity = directional_derivative(
        lambda carry: body_velocities(tree, motions, root_motion(tree, carry[0]), carry[1]),
        (state.root_velocity, qd),
        (d_state.root_velocity, d_state.joint_velocity),
    )
    if d_velocity is not None:
        d_momentum = d_momentum + _carried(inertias, d_velocity)
    displacement = displacement_from_tangents(
        tree, state, d_state.root_pose, d_state.joint_position
    )
    if displacement is not None:
        columns = displacement_motions(tree, kin, motions)
        first = motion_cross(velocity.take(displacements(tree).above), columns)
        rows = jnp.concatenate([*columns, *first]) * displacement[None]
        of_bodies = displaced_sums(tree, rows)
        moved, change = Motion.from_rows(of_bodies[:6]), Motion.from_rows(of_bodies[6:])
        d_inertias = inertia_rates(inertias, moved)
        # Momenta turn with the bodies, whose velocities change as seen from them.
        momenta = jnp.concatenate(momentum_of_motion(inertias, velocity))
        by_configuration = _total(force_cross(moved, momenta)) + _carried(inertias, change)
        moments = Inertias(*(x + _total(dx) for x, dx in zip(moments, d_inertias, strict=True)))
        d_momentum = d_momentum + by_configuration
    return momentum, (moments, d_momentum)


def _carried(inertias: Inertias, velocity: Motion) -> Array:
    """The momentum of all bodies, [6, 1]."""
    return _total(jnp.concatenate(momentum_of_motion(inertias, velocity)))


def _total(x: Array) -> Array:
    """The sum over bodies, with an axis of length one."""
    return jnp.sum(x, axis=-1, keepdims=True)
