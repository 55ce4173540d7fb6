"""Points of links that touch: where they are, and their velocities per generalised velocity."""

from __future__ import annotations

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
    """The velocities of points of links along the axes of frames, per generalised velocity.

    Args:
      articulation: the articulation.
      kin: its kinematics.
      links: numbers of K links.
      point: in the links' frames, [K, 3].
      frames: axes in the world, as rows, [K, 3, 3].

    Returns:
      Shape [K, 3, nv].
    """
    numbers = np.array(links, int)
    lever = contact_points(articulation, kin, numbers, point)
    motions = generalized_motions(articulation, kin)[:, None]
    moves = jnp.asarray(moves_links(articulation.topology, numbers), point.dtype)
    linear = moves[None] * (motions[:3] + spatial.cross(motions[3:], lever[..., None]))
    # Not a matrix product: those of many small matrices are slow.
    return jnp.sum(frames[:, :, :, None] * jnp.moveaxis(linear, 0, 1)[:, None], axis=2)
