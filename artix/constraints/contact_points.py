"""Contact points on links: their positions and Jacobians."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.anchor_sides import moves_links
from artix.kinematics.bodies import Placement
from artix.kinematics.solve import Kinematics, generalized_motions
from artix.math import spatial
from artix.math.arrays import take
from artix.model.articulation import Articulation

Array = jax.Array


def contact_points(articulation: Articulation, kin: Kinematics, links: np.ndarray, point: Array) -> Array:
    """Points [K, 3] of links' frames relative to the root's centre of mass in world axes, [3, K]."""
    body = articulation.topology.link_body[links]
    frames = Placement(take(kin.quaternion, body), take(kin.position, body)) @ kin.placements.take(links)
    return spatial.rotate(frames.rotation, point.T) + frames.position


def contact_jacobian(
    articulation: Articulation, kin: Kinematics, links: tuple[int, ...], point: Array, frames: Array
) -> Array:
    """Jacobians of points of links along the axes of frames.

    Args:
      articulation: the articulation.
      kin: its kinematics.
      links: numbers of K links.
      point: in the links' frames, [K, 3].
      frames: axes in the world, as rows, [K, 3, 3].

    Returns:
      Shape [K, 3, nv].
    """
    indices = np.array(links, int)
    linear = motions_at(articulation, kin, indices, contact_points(articulation, kin, indices, point))[:3]
    # A sum rather than a matrix product: batched products of many small matrices are slow.
    return jnp.sum(frames[:, :, :, None] * jnp.moveaxis(linear, 0, 1)[:, None], axis=2)


def motions_at(articulation: Articulation, kin: Kinematics, links: np.ndarray, point: Array) -> Array:
    """Velocities of points of links per generalised velocity.

    Args:
      articulation: the articulation.
      kin: its kinematics.
      links: numbers of K links.
      point: points fixed to them, relative to the root's centre of mass in world axes, [3, K].

    Returns:
      The velocities of the points, then the links' angular velocities, in world axes, [6, K, nv].
    """
    return motions_by(articulation, kin, moves_links(articulation.topology, links), point)


def motions_by(articulation: Articulation, kin: Kinematics, moves: Any, point: Array) -> Array:
    """The same of what the entries of the generalised velocity move by these factors, [K, nv]."""
    motions = generalized_motions(articulation, kin)[:, None]
    moves = jnp.asarray(moves, point.dtype)
    linear = moves[None] * (motions[:3] + spatial.cross(motions[3:], point[..., None]))
    return jnp.concatenate([linear, moves[None] * motions[3:]])
