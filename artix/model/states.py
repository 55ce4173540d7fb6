"""Initial states: at rest in the neutral configuration, or random."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial
from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.model.padded_topology import Tree

Array = jax.Array


def neutral_state(articulation: Articulation) -> State:
    """The state at rest with the root's frame at the world's origin and all joints at zero; Pinocchio's ``neutral``.

    Args:
      articulation: the articulation.

    Returns:
      The state, in the articulation's dtype.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> print(state.root_pose, state.joint_position.shape)
      [0. 0. 0. 0. 0. 0. 1.] (7,)
    """
    n, dtype = articulation.topology.num_dofs, articulation.dtype
    root = jnp.zeros(7, dtype).at[6].set(1)
    return State(root, jnp.zeros(6, dtype), jnp.zeros(n, dtype), jnp.zeros(n, dtype))


def random_state(articulation: Articulation, key: Array, *, velocity_scale: float | Array = 1.0) -> State:
    """A random state: joint positions uniform within their limits, velocities normal.

    Unlimited angles are drawn from [-pi, pi], unlimited translations from [-1, 1] m, unlimited spherical components
    from [-pi, pi] / sqrt(3), so that the rotation stays below a half turn. A floating root gets a uniform orientation
    and a position in [-1, 1]^3 m; a fixed one stays at the origin, at rest. Pinocchio's ``randomConfiguration`` draws
    positions only.

    Args:
      articulation: the articulation.
      key: a JAX random key.
      velocity_scale: standard deviation of all velocities [m/s, rad/s].

    Returns:
      The state, in the articulation's dtype.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> keys = jax.random.split(jax.random.key(0), 1000)
      >>> states = jax.vmap(lambda key: artix.random_state(arm, key))(keys)
      >>> print(states.joint_position.shape)
      (1000, 7)
      >>> print((arm.joint_lower_limit <= states.joint_position).all())
      True
    """
    tree, dtype = articulation.topology, articulation.dtype
    limits = articulation.joint_lower_limit, articulation.joint_upper_limit
    live = tree.num_base_dofs > 0 if tree.base_is_free is None else tree.base_is_free, tree.dof_is_live
    return _sample(limits, _widths(tree).astype(dtype), live, key, jnp.asarray(velocity_scale, dtype))


def at_rest(state: State) -> State:
    """The state with all velocities zero."""
    zero = jnp.zeros_like
    return state.replace(root_velocity=zero(state.root_velocity), joint_velocity=zero(state.joint_velocity))


def _widths(tree: Tree) -> Array:
    """Half the width of the interval about zero from which unlimited joint positions are drawn, [n]."""
    width = jnp.where(tree.dof_is_linear, 1.0, np.pi)
    if tree.has_spherical:
        width = jnp.where(take(jnp.asarray(tree.body_is_spherical), tree.dof_body), np.pi / 3**0.5, width)
    return width


@jax.jit  # One program per number of DOFs; otherwise JAX would compile each operation separately.
def _sample(limits, width: Array, live, key: Array, scale: Array) -> State:
    """A random state; ``live`` holds whether the root is free and which DOFs are not padding."""
    (lower, upper), (root_is_free, dof_is_live) = limits, live
    dtype, keys = lower.dtype, jax.random.split(key, 5)
    low, high = jnp.minimum(jnp.maximum(lower, -width), upper), jnp.maximum(jnp.minimum(upper, width), lower)
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
