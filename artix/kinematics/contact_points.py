"""Contact points between links and fixed surfaces: their data, axes, positions and Jacobians."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.forward import Kinematics, generalized_motions
from artix.math import spatial, struct
from artix.math.arrays import take
from artix.model.articulation import Articulation
from artix.model.topology import Topology

Array = jax.Array


class Contacts(struct.PyTreeNode):
    """K contact points, at which links touch or nearly touch fixed surfaces.

    Attributes:
      links: indices of the links, static.
      point: the points in the links' frames, [K, 3] [m].
      normal: unit vectors from the surface towards the link, in world axes, [K, 3].
      friction: coefficients of friction, [K].
      gap: distances to the surface, [K] [m]; a contact may close its gap within a step. Zero or
        negative for touching contacts; penetration is not corrected.
      restitution: ratios of the normal speeds after and before an impact, [K]; ``None`` for zero.
      compliance: penetration per force, [K] [m/N]; ``None`` or 0 for rigid contacts.
      relaxation_time: damping over stiffness of compliant contacts, [K] [s]; ``None`` for zero.

    :func:`contact_problem` and :func:`contact_forces` ignore the last three.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> scene = artix.Scene(robot, ground=artix.Ground.flat(friction=0.7))
      >>> feet = artix.ground_contacts(scene, artix.neutral_state(robot)).contacts
      >>> print([robot.topology.link_names[link] for link in feet.links])
      ['front_left_foot', 'front_right_foot', 'rear_left_foot', 'rear_right_foot']
      >>> print(feet.normal[0], feet.friction[0])
      [0. 0. 1.] 0.7
    """

    links: tuple[int, ...] = struct.field(pytree_node=False)
    point: Array
    normal: Array
    friction: Array
    gap: Array
    restitution: Array | None = None
    compliance: Array | None = None
    relaxation_time: Array | None = None


def contact_frames(normal: Array) -> Array:
    """Two tangents and the normal for unit normals [K, 3], as rows of matrices [K, 3, 3].

    Duff et al., *Building an Orthonormal Basis, Revisited*, JCGT 2017.
    """
    x, y, z = normal.T
    sign = jnp.where(z >= 0, 1.0, -1.0).astype(normal.dtype)
    a = -1 / (sign + z)
    b = x * y * a
    first = jnp.stack([1 + sign * x * x * a, sign * b, -sign * x], axis=1)
    second = jnp.stack([b, sign + y * y * a, -y], axis=1)
    return jnp.stack([first, second, normal], axis=1)


def contact_points(
    articulation: Articulation, kin: Kinematics, links: np.ndarray, point: Array
) -> Array:
    """Points [K, 3] in the links' frames, relative to the root's centre of mass in world axes,
    [3, K].
    """
    body = articulation.topology.link_body[links]
    placements = kin.placements.take(links)
    in_body = placements.position + spatial.rotate(placements.rotation, point.T)
    return take(kin.position, body) + spatial.apply(take(kin.rotation, body), in_body)


def contact_jacobian(
    articulation: Articulation, kin: Kinematics, links: np.ndarray, point: Array, frames: Array
) -> Array:
    """Jacobians of points of links along the axes of frames.

    Args:
      kin: its kinematics.
      links: indices of K links.
      point: points in the links' frames, [K, 3].
      frames: axes in the world, as rows, [K, 3, 3].

    Returns:
      Shape [K, 3, nv].
    """
    linear = motions_at(articulation, kin, links, contact_points(articulation, kin, links, point))[
        :3
    ]
    # A sum instead of a matrix product: batched products of many small matrices are slow.
    return jnp.sum(frames[:, :, :, None] * jnp.moveaxis(linear, 0, 1)[:, None], axis=2)


def motions_at(
    articulation: Articulation, kin: Kinematics, links: np.ndarray, point: Array
) -> Array:
    """Velocities of points of links per generalised velocity.

    Args:
      kin: its kinematics.
      links: indices of K links.
      point: points fixed to the links, relative to the root's centre of mass in world axes, [3, K].

    Returns:
      The velocities of the points, then the links' angular velocities, in world axes, [6, K, nv].
    """
    return motions_by(articulation, kin, moves_links(articulation.topology, links), point)


def motions_by(articulation: Articulation, kin: Kinematics, moves: Any, point: Array) -> Array:
    """The same for points that the entries of the generalised velocity move by the factors
    ``moves`` [K, nv].
    """
    motions = generalized_motions(articulation, kin)[:, None]
    moves = jnp.asarray(moves, point.dtype)
    linear = moves[None] * (motions[:3] + spatial.cross(motions[3:], point[..., None]))
    return jnp.concatenate([linear, moves[None] * motions[3:]])


def moves_links(tree: Topology, links: np.ndarray) -> np.ndarray:
    """Which entries of the generalised velocity move each link, -1 for the world, [K, nv]."""
    joints = tree.dof_moves_link[:, np.maximum(links, 0)].T
    root = np.ones((len(links), tree.num_base_dofs), bool)
    return np.concatenate([root, joints], axis=1) & (links >= 0)[:, None]
