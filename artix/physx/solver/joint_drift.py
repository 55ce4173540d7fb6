"""The drift of spherical joints off their free axes, which PhysX keeps from step to step.

PhysX rotates a link on a spherical joint by the link's own angular velocity and locks axes in velocity only. Steps of
finite length therefore leave the set of rotations ``exp(sum_k q_k e_k)`` that positions q can express. The drift D is
the remainder: the child's joint frame relative to the parent's is ``D exp(sum_k q_k e_k)``. This equals a rotation of
the joint frame on the parent's link, which is a parameter of the articulation. No other function needs to know of it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math import spatial
from artix.model.articulation import Articulation
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array


def with_joint_drift(articulation: Articulation, drift: Array) -> Articulation:
    """The articulation with joint frames rotated on their parents' links by a drift.

    Use it with the results of :func:`artix.simulation.step_with_joint_drift`:
    ``link_poses(with_joint_drift(a, drift), state)``.

    Args:
      articulation: the articulation.
      drift: rotation vectors [rad] of the inbound joint frames in their own axes (twist, swing1, swing2), shape [L, 3];
        zero for links without such a joint.

    Returns:
      The articulation with a new ``joint_parent_pose``.

    Raises:
      ValueError: ``drift`` has another shape.
      TypeError: ``drift`` has another dtype than the articulation.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> drift = jnp.zeros((9, 3)).at[1, 0].set(0.1)
      >>> turned = artix.simulation.with_joint_drift(arm, drift)
      >>> print((turned.joint_parent_pose != arm.joint_parent_pose).any(axis=1).sum())  # the frames that turned
      1
    """
    check_vector("drift", drift, (articulation.topology.num_links, 3), articulation.dtype, "L, rotation vectors")
    pose = articulation.joint_parent_pose
    rotation = spatial.quaternion_product(pose[:, 3:].T, spatial.quaternion_exp(drift.T))
    return articulation.replace(joint_parent_pose=jnp.concatenate([pose[:, :3], rotation.T], axis=1))


def drift_by_body(tree: Topology, drift: Array) -> Array:
    """Drifts [L, 3] as quaternions [4, B-1] in the axes of the frames of bodies 1 .. B-1."""
    return spatial.quaternion_exp(drift[tree.body_link[1:]].T)


def drift_by_link(topology: Topology, quaternion: Array) -> Array:
    """The inverse of :func:`drift_by_body`; zero for links without a spherical joint."""
    vector = spatial.quaternion_log(quaternion)
    vector = jnp.where(topology.body_is_spherical[1:], vector, jnp.zeros_like(vector))
    return jnp.zeros_like(vector, shape=(topology.num_links, 3)).at[topology.body_link[1:]].set(vector.T)
