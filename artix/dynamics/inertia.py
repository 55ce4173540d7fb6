"""Inertias of the bodies in world axes, and what they make of motions: the shared ground of all dynamics."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation
from artix.bodies import Inertias, body_inertias
from artix.kinematics import Kinematics, Motion
from artix.tree import Tree, subtree_sums

Array = jax.Array


def world_inertias(articulation: Articulation, kin: Kinematics) -> Inertias:
    """Inertias about the origins of the bodies' frames, in world axes."""
    body = body_inertias(articulation, kin.placements)
    rotated = spatial.multiply_transposed(spatial.multiply(kin.rotation, body.rotational), kin.rotation)
    return Inertias(body.mass, spatial.apply(kin.rotation, body.first_moment), rotated)


def body_weights(articulation: Articulation, kin: Kinematics) -> tuple[Array, Array]:
    """Masses [B] and first moments about the bodies' origins in world axes [3, B] on which gravity acts."""
    body = body_inertias(articulation, kin.placements, weights=articulation.gravity_scale)
    return body.mass, spatial.apply(kin.rotation, body.first_moment)


def about_reference(inertias: Inertias, kin: Kinematics) -> Inertias:
    """Moves inertias from the origins of the bodies' frames to the common reference point."""
    mass, moment, position = inertias.mass, inertias.first_moment, kin.position
    half = moment + 0.5 * mass[None] * position
    product = position[:, None] * half[None]
    square = 2 * spatial.dot(position, half)[None, None]
    shift = square * spatial.identity_like(position) - product - jnp.swapaxes(product, 0, 1)
    return Inertias(mass, moment + mass[None] * position, inertias.rotational + shift)


_ROWS, _COLUMNS = (0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)
_ENTRY = ((0, 1, 2), (1, 3, 4), (2, 4, 5))


def composite_inertias(tree: Tree, inertias: Inertias) -> tuple[Inertias, Inertias]:
    """Inertias of the whole articulation (1 item) and of what each DOF moves (n items); all about one point."""
    six = jnp.stack([inertias.rotational[i, j] for i, j in zip(_ROWS, _COLUMNS, strict=True)])
    mass = jnp.broadcast_to(inertias.mass, six.shape[-1:])
    rows = jnp.concatenate([mass[None], inertias.first_moment, six])

    def unpack(rows: Array) -> Inertias:
        rotational = jnp.stack([jnp.stack([rows[4 + k] for k in line]) for line in _ENTRY])
        return Inertias(rows[0], rows[1:4], rotational)

    whole, below = subtree_sums(tree, rows)
    return unpack(whole), unpack(below)


def momentum(inertias: Inertias, motion: Motion) -> Motion:
    """Spatial momentum about the point of the inertias: linear [3, n], angular [3, n]."""
    linear = inertias.mass[None] * motion.linear + spatial.cross(motion.angular, inertias.first_moment)
    angular = spatial.apply(inertias.rotational, motion.angular) + spatial.cross(inertias.first_moment, motion.linear)
    return Motion(linear, angular)
