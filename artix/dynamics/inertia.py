"""Inertias and momenta of bodies, from which the other modules of this room are built."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.kinematics.forward import Kinematics
from artix.kinematics.tree import link_subtree_sums, subtree_sums
from artix.math import spatial
from artix.math.arrays import block_matrix, masked_sum, take
from artix.math.spatial import Motion, Transforms
from artix.math.traces import shared
from artix.model.articulation import Articulation
from artix.model.topology import Topology

Array = jax.Array


class Inertias(NamedTuple):
    """Mass moments of bodies about one point: the blocks of their 4 x 4 pseudo-inertias.

    ``mass`` is the integral of dm [B], ``first`` of r dm [3, B], ``second`` of r r^T dm [3, 3, B].
    The rotational inertia is ``trace(second) 1 - second``. The second moments are stored instead
    because they transform to another frame (R, p) as points do: ``R second R^T`` plus products with
    p (Wensing, Kim and Slotine, RA-L 2018).
    """

    mass: Array
    first: Array
    second: Array


class BodyInertias(NamedTuple):
    """Mass moments of bodies in their own axes, about the centre of mass of the link that the
    body's joint moves.

    If the body has no other links, the first moments are zero, and so are many terms that follow.
    ``center`` [3, B] is that point in the body's frame; the others are as in :class:`Inertias`.
    """

    center: Array
    mass: Array
    first: Array
    second: Array


@shared
def reference_inertias(articulation: Articulation, kin: Kinematics) -> Inertias:
    """Mass moments of the bodies about the common reference point, in world axes."""
    return _about_reference(body_inertias(articulation, kin.placements), kin.rotation, kin.position)


def link_reference_inertias(articulation: Articulation, kin: Kinematics) -> Inertias:
    """Mass moments of single links, without the links rigidly attached to them, about the reference
    point (L items).
    """
    body = articulation.topology.link_body
    bodies = link_inertias(articulation, kin.placements)
    return _about_reference(bodies, take(kin.rotation, body), take(kin.position, body))


def subtree_inertias(tree: Topology, inertias: Inertias) -> Inertias:
    """Mass moments of each link together with all links below it, from the links' own, about one
    point (L items).
    """
    return Inertias(*(link_subtree_sums(tree, part) for part in inertias))


def _about_reference(bodies: BodyInertias, rotation: Array, position: Array) -> Inertias:
    """Mass moments about the reference point and in world axes, of bodies at these rotations and
    positions.
    """
    mass = bodies.mass
    center = position + spatial.apply(rotation, bodies.center)
    about_center = spatial.apply(rotation, bodies.first)
    first = about_center + mass[None] * center
    second = spatial.rotate_symmetric(rotation, bodies.second)
    second = second + center[:, None] * about_center[None] + first[:, None] * center[None]
    return Inertias(mass, first, spatial.symmetric_from_upper(second))


def composite_inertias(tree: Topology, inertias: Inertias) -> tuple[Inertias, Inertias]:
    """Mass moments of the whole articulation (1 item) and of everything each DOF moves (n items),
    about one point.
    """
    rows = jnp.concatenate([inertias.mass[None], inertias.first, inertias.second.reshape(9, -1)])
    total, below = (
        Inertias(sums[0], sums[1:4], sums[4:].reshape(3, 3, -1))
        for sums in subtree_sums(tree, rows)
    )
    return total, below


def inertia_rates(inertias: Inertias, motion: Motion) -> Inertias:
    """Rates of change of the mass moments of moving bodies about a fixed point."""
    d_first, half = moments_of_momentum(inertias, motion)
    return Inertias(jnp.zeros_like(inertias.mass), d_first, half + half.swapaxes(0, 1))


def moments_of_momentum(inertias: Inertias, velocity: Motion) -> tuple[Array, Array]:
    """Integrals of velocity dm [3, k] and of velocity r^T dm [3, 3, k] over moving bodies."""
    mass, first, second = inertias
    linear, angular = velocity
    momentum = mass[None] * linear + spatial.cross(angular, first)
    return momentum, linear[:, None] * first[None] + spatial.multiply(spatial.skew(angular), second)


@shared
def momentum_of_motion(inertias: Inertias, motion: Motion) -> Motion:
    """Momentum of bodies with these motions, about the point of the inertias: linear [3, n],
    angular [3, n].
    """
    linear = inertias.mass[None] * motion.linear + spatial.cross(motion.angular, inertias.first)
    spin = spatial.trace(inertias.second)[None] * motion.angular - spatial.apply(
        inertias.second, motion.angular
    )
    return Motion(linear, spin + spatial.cross(inertias.first, motion.linear))


def spatial_inertias(inertias: Inertias) -> Array:
    """Inertias as matrices that map motions to momenta, linear parts first, [6, 6, n]."""
    first = inertias.first
    second = inertias.second
    unit = spatial.identity_like(first)
    moment = spatial.skew(first)
    mass = jnp.broadcast_to(inertias.mass[None, None] * unit, second.shape)
    rotational = spatial.trace(second)[None, None] * unit - second
    return block_matrix(mass, -moment, moment, rotational)


@shared
def first_moments(articulation: Articulation, kin: Kinematics, mass: Array) -> tuple[Array, Array]:
    """Masses [B] and first moments about the reference point [3, B] of the bodies, for masses [L]
    of the links.
    """
    center, lumped, first = body_masses(articulation, kin.placements, mass)
    center = kin.position + spatial.apply(kin.rotation, center)
    return lumped, lumped[None] * center + spatial.apply(kin.rotation, first)


def gravity_moments(articulation: Articulation, kin: Kinematics) -> tuple[Array, Array]:
    """:func:`first_moments` of the masses on which gravity acts, ``link_mass * gravity_scale``."""
    return first_moments(articulation, kin, articulation.link_mass * articulation.gravity_scale)


def gravity_free_moments(articulation: Articulation, kin: Kinematics) -> tuple[Array, Array]:
    """:func:`first_moments` of the masses without gravity: zero unless a link's ``gravity_scale``
    is not 1.
    """
    return first_moments(
        articulation, kin, articulation.link_mass * (1 - articulation.gravity_scale)
    )


# --- from links to bodies -----------------------------------------------------------------------


def body_inertias(articulation: Articulation, placements: Transforms) -> BodyInertias:
    """The links of each body as one."""
    tree = articulation.topology
    center, mass, _, second = link_inertias(articulation, placements)
    lever, rows = _moment_rows(tree, center, mass)
    second = second + rows[1:, None] * lever[None]
    rows = _sum_of_links(tree, jnp.concatenate([rows, second.reshape(9, tree.num_links)]))
    return BodyInertias(
        take(center, tree.body_link), rows[0], rows[1:4], rows[4:].reshape(3, 3, tree.num_bodies)
    )


def link_inertias(articulation: Articulation, placements: Transforms) -> BodyInertias:
    """Each link by itself, in the axes of its body (L items)."""
    frame = placements @ Transforms.from_poses(articulation.link_com_pose)
    inertia = jnp.moveaxis(articulation.link_inertia, 0, -1)
    # Symmetrised so that the gradient with respect to the inertia is symmetric.
    inertia = 0.5 * (inertia + inertia.swapaxes(0, 1))
    half_trace = 0.5 * spatial.trace(inertia)
    second = half_trace[None, None] * spatial.identity_like(frame.position) - inertia
    second = spatial.rotate_symmetric(frame.matrix, second)
    return BodyInertias(
        frame.position, articulation.link_mass, jnp.zeros_like(frame.position), second
    )


def body_masses(
    articulation: Articulation, placements: Transforms, mass: Array
) -> tuple[Array, Array, Array]:
    """Masses [L] of the links as masses of the bodies: ``center``, ``mass`` and ``first`` of
    :class:`BodyInertias`.
    """
    tree = articulation.topology
    center = (placements @ Transforms.from_poses(articulation.link_com_pose)).position
    _, rows = _moment_rows(tree, center, mass)
    rows = _sum_of_links(tree, rows)
    return take(center, tree.body_link), rows[0], rows[1:]


def _moment_rows(tree: Topology, center: Array, mass: Array) -> tuple[Array, Array]:
    """Centres of mass of the links relative to the centres of their bodies [3, L]; masses and first
    moments [4, L].
    """
    lever = center - take(take(center, tree.body_link), tree.link_body)
    return lever, jnp.concatenate([mass[None], mass[None] * lever])


def _sum_of_links(tree: Topology, rows: Array) -> Array:
    """Sums rows [k, L] over the links of each body, [k, B]."""
    return masked_sum(rows, tree.link_in_body) if tree.has_rigid_links else rows
