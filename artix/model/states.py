"""States to start from: at rest in the neutral configuration, or random."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial
from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.model.padding import Tree

Array = jax.Array


def neutral_state(articulation: Articulation) -> State:
    """The state at rest with the root's frame at the world's origin and all joint positions zero.

    Args:
      articulation: the articulation.

    Returns:
      The state, in the articulation's dtype.

    Example:
      >>> arm = artix.robots.load("arm7")
      >>> artix.neutral_state(arm).root_pose.tolist()
      [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """
    n, dtype = articulation.topology.num_dofs, articulation.dtype
    root = jnp.zeros(7, dtype).at[6].set(1)
    return State(root, jnp.zeros(6, dtype), jnp.zeros(n, dtype), jnp.zeros(n, dtype))


def random_state(articulation: Articulation, key: Array, *, velocity_scale: float | Array = 1.0) -> State:
    """A random state: joint positions uniform within their limits, velocities normal.

    Unlimited angles are drawn from [-pi, pi], unlimited translations from [-1, 1] m, unlimited spherical components
    from [-pi, pi] / sqrt(3), so that the rotation stays below a half turn. A floating root gets a uniform orientation
    and a position in [-1, 1]^3 m; a fixed one stays at the origin, at rest.

    Args:
      articulation: the articulation.
      key: a JAX random key.
      velocity_scale: standard deviation of all velocities [m/s, rad/s].

    Returns:
      The state, in the articulation's dtype.

    Example:
      >>> arm = artix.robots.load("arm7")
      >>> q = artix.random_state(arm, jax.random.key(0)).joint_position
      >>> bool(jnp.all((arm.joint_lower_limit <= q) & (q <= arm.joint_upper_limit)))
      True
    """
    tree, dtype = articulation.topology, articulation.dtype
    limits = articulation.joint_lower_limit, articulation.joint_upper_limit
    live = tree.num_base_dofs > 0 if tree.base_is_free is None else tree.base_is_free, tree.dof_is_live
    return _drawn(limits, _widths(tree).astype(dtype), live, key, jnp.asarray(velocity_scale, dtype))


def _widths(tree: Tree) -> Array:
    """How far unlimited joint positions are drawn from zero, [n]."""
    wide = jnp.where(tree.dof_is_linear, 1.0, np.pi)
    if tree.has_spherical:
        wide = jnp.where(take(jnp.asarray(tree.body_is_spherical), tree.dof_body), np.pi / 3**0.5, wide)
    return wide


@jax.jit  # Compiled as one program per number of DOFs; otherwise JAX would compile each of its operations.
def _drawn(limits, wide: Array, live, key: Array, scale: Array) -> State:
    """A random state; ``live`` tells whether the root is free, and which DOFs are not padding."""
    (lower, upper), (root_is_free, dof_is_live) = limits, live
    dtype, keys = lower.dtype, jax.random.split(key, 5)
    low, high = jnp.minimum(jnp.maximum(lower, -wide), upper), jnp.maximum(jnp.minimum(upper, wide), lower)
    q = low + (high - low) * jax.random.uniform(keys[0], low.shape, dtype)
    qd = scale * jax.random.normal(keys[1], low.shape, dtype)
    position = jax.random.uniform(keys[2], (3,), dtype, -1.0, 1.0)
    quaternion = spatial.normalize(jax.random.normal(keys[3], (4, 1), dtype))[:, 0]
    velocity = scale * jax.random.normal(keys[4], (6,), dtype)
    root = jnp.where(root_is_free, jnp.concatenate([position, quaternion]), jnp.array([0, 0, 0, 0, 0, 0, 1], dtype))
    velocity = jnp.where(root_is_free, velocity, jnp.zeros_like(velocity))
    if dof_is_live is not None:
        q, qd = (jnp.where(dof_is_live, x, jnp.zeros_like(x)) for x in (q, qd))
    return State(root, velocity, q, qd)
