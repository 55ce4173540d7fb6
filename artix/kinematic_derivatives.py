"""Closed-form derivatives of the velocities and accelerations of the links."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation, State
from artix.checks import check_vector
from artix.displacements import NUM_ROOT, displacement_motions, displacements, generalized_columns
from artix.kinematics import Kinematics, Motion, body_accelerations, dof_motions, kinematics, link_centers, motion_cross
from artix.tree import free_root, stage, take

Array = jax.Array


class LinkVelocityDerivatives(NamedTuple):
    """Derivatives of the velocities of all links, [L, 6, nv] each."""

    configuration: Array
    velocity: Array
    """The Jacobians of the links' centres of mass."""


class LinkAccelerationDerivatives(NamedTuple):
    """Derivatives of the accelerations of all links, [L, 6, nv] each."""

    configuration: Array
    velocity: Array
    acceleration: Array
    """The Jacobians of the links' centres of mass."""


class _Setting(NamedTuple):
    """Motions of the unit displacements [3, 1, c] and of the links [3, L, 1] that they move, about the reference."""

    motions: Motion
    first: Motion
    second: Motion
    rate: Motion
    center: Array
    velocity: Array
    angular: Array
    moved: Array
    """Which link moves with which displacement, [1, L, c]."""


def link_velocity_derivatives(articulation: Articulation, state: State) -> LinkVelocityDerivatives:
    """Derivatives of :func:`artix.link_velocities`, Pinocchio's ``getJointVelocityDerivatives`` for all links at once.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      The derivatives of each link's velocity (centre of mass, world axes, linear first) by the configuration and by the
      generalised velocity, shape [L, 6, nv] each.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``.velocity @ nu`` are the link velocities.
    """
    found, _, _ = _setting(articulation, state, None)
    return LinkVelocityDerivatives(_velocity_by_configuration(articulation, found), _jacobians(articulation, found))


def link_acceleration_derivatives(
    articulation: Articulation, state: State, acceleration: Array
) -> LinkAccelerationDerivatives:
    """Derivatives of :func:`artix.link_accelerations`, Pinocchio's ``getJointAccelerationDerivatives`` for all links.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv].

    Returns:
      The derivatives of each link's acceleration (classical, of the centre of mass, world axes, linear first) by the
      configuration, the generalised velocity and the generalised acceleration, shape [L, 6, nv] each.

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.
    """
    found, linear, angular = _setting(articulation, state, acceleration)
    motions, first, second, rate, center, velocity, omega, _ = found
    by_configuration = jnp.concatenate(
        [
            second.linear
            + spatial.cross(second.angular, center)
            + 2 * spatial.cross(first.angular, velocity)
            + spatial.cross(motions.angular, linear),
            second.angular - spatial.cross(omega, first.angular) + spatial.cross(motions.angular, angular),
        ]
    )
    by_velocity = jnp.concatenate(
        [
            rate.linear + spatial.cross(rate.angular, center) + 2 * spatial.cross(motions.angular, velocity),
            rate.angular - spatial.cross(omega, motions.angular),
        ]
    )
    return LinkAccelerationDerivatives(
        _columns(articulation, found, by_configuration),
        _columns(articulation, found, by_velocity),
        _jacobians(articulation, found),
    )


def _setting(articulation: Articulation, state: State, acceleration: Array | None) -> tuple[_Setting, Array, Array]:
    """What the derivatives are made of, and the accelerations of the links [3, L, 1], linear and angular."""
    tree = articulation.topology
    if acceleration is not None:
        check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    joints = Motion(*stage(*dof_motions(tree, kin)))
    velocities, accelerations = body_accelerations(tree, kin, joints, state, acceleration)
    motions, first, second, rate = moving_displacements(articulation, kin, joints, velocities, accelerations)
    center = link_centers(articulation, kin)
    v, w, a, alpha = (take(part, tree.link_body) for part in (*velocities, *accelerations))
    velocity = v + spatial.cross(w, center)
    linear = a + spatial.cross(alpha, center) + spatial.cross(w, velocity)
    moves = jnp.asarray(tree.dof_moves_link)
    moved = jnp.concatenate([jnp.ones_like(moves, shape=(NUM_ROOT, tree.num_links)), moves]).T[None]
    center, velocity, w, linear, alpha = (x[..., None] for x in (center, velocity, w, linear, alpha))
    setting = _Setting(motions, first, second, rate, center, velocity, w, moved.astype(center.dtype))
    return setting, linear, alpha


def moving_displacements(
    articulation: Articulation, kin: Kinematics, joints: Motion, velocities: Motion, accelerations: Motion
) -> list[Motion]:
    """Motions S of the root's rotations and the DOFs, and what they change, [3, 1, 3 + n] each.

    Unit displacements change the velocities by ``first`` and the accelerations by ``second - v x first``, both seen
    from the links; unit velocities change the accelerations by ``rate - v x S``.
    """
    tree = articulation.topology
    count = NUM_ROOT + tree.num_dofs
    above = displacements(tree).above[:count]
    motions = Motion(*(part[:, :count] for part in displacement_motions(tree, kin, joints)))
    still, pushed = (Motion(*(take(part, above) for part in motion)) for motion in (velocities, accelerations))
    first = motion_cross(still, motions)
    second = Motion(*map(jnp.add, motion_cross(pushed, motions), motion_cross(still, first)))
    carried = motion_cross(Motion(*(take(part, tree.dof_body) for part in velocities)), joints)
    rate = Motion(*(a + jnp.pad(b, ((0, 0), (NUM_ROOT, 0))) for a, b in zip(first, carried, strict=True)))
    return [Motion(*(part[:, None] for part in stage(*motion))) for motion in (motions, first, second, rate)]


def _velocity_by_configuration(articulation: Articulation, found: _Setting) -> Array:
    motions, first = found.motions, found.first
    linear = first.linear + spatial.cross(first.angular, found.center) + spatial.cross(motions.angular, found.velocity)
    angular = first.angular + spatial.cross(motions.angular, found.angular)
    return _columns(articulation, found, jnp.concatenate([linear, angular]))


def _jacobians(articulation: Articulation, found: _Setting) -> Array:
    linear = found.motions.linear + spatial.cross(found.motions.angular, found.center)
    angular = jnp.broadcast_to(found.motions.angular, linear.shape)
    return _columns(articulation, found, jnp.concatenate([linear, angular]), translation=True)


def _columns(articulation: Articulation, found: _Setting, rows: Array, translation: bool = False) -> Array:
    """From [6, L, 3 + n] to [L, 6, nv]; the root's translation moves all links alike, or changes nothing."""
    tree = articulation.topology
    columns = generalized_columns(tree, jnp.moveaxis(rows * found.moved, 0, 1))
    if translation and tree.num_base_dofs:
        unit = free_root(tree, jnp.eye(6, NUM_ROOT, dtype=rows.dtype))
        columns = columns.at[..., :NUM_ROOT].set(unit[None])
    return columns
