"""World bounds of an articulation, from the caller's box around each link."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.kinematics.links import link_poses
from artix.math import spatial
from artix.model.checks import check_vector
from artix.physx.simulation import ArticulationSimulation

Array = jax.Array


def get_world_bounds(simulation: ArticulationSimulation, link_bounds: Array, *, inflation: float = 1.01) -> Array:
    """``getWorldBounds``: an axis-aligned box around boxes attached to the links.

    Args:
      simulation: the articulation in its scene.
      link_bounds: lower and upper corner of a box around each link in its own frame [m], shape [L, 2, 3]; a link whose
        lower corner exceeds its upper one is ignored.
      inflation: factor on the size of the result about its centre; PhysX's is 1.01.

    Returns:
      Lower and upper corner in the world [m], shape [2, 3]; infinite, lower above upper, if all links are ignored.

    Raises:
      ValueError: ``link_bounds`` has the wrong shape.
      TypeError: it has another dtype than the articulation.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> boxes = jnp.array([[[-0.1, -0.1, -0.1], [0.1, 0.1, 0.1]]] * 3)  # around each link
      >>> print(physx.get_world_bounds(physx.create_simulation(pole), boxes, inflation=1.0))
      [[-0.1 -0.1 -0.1]
       [ 0.1  0.1  0.2]]
    """
    check_vector("link_bounds", link_bounds, (simulation.topology.num_links, 2, 3), simulation.dtype, "L boxes")
    poses = link_poses(simulation.articulation, simulation.state).T
    rotation = spatial.rotation_matrix(poses[3:])
    lower, upper = link_bounds[:, 0].T, link_bounds[:, 1].T
    center = poses[:3] + spatial.apply(rotation, (lower + upper) / 2)
    half_size = spatial.apply(jnp.abs(rotation), (upper - lower) / 2)
    counts = jnp.all(lower <= upper, axis=0)[None]
    lowest = jnp.min(jnp.where(counts, center - half_size, jnp.inf), axis=1)
    highest = jnp.max(jnp.where(counts, center + half_size, -jnp.inf), axis=1)
    margin = jnp.where(lowest <= highest, (inflation - 1) * (highest - lowest) / 2, 0)
    return jnp.stack([lowest - margin, highest + margin])
