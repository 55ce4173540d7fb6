"""Initial states: at rest in the neutral configuration, or random."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.argument_types import register_carried, register_parameters
from artix.math import random_keys, spatial
from artix.math.arrays import device_array
from artix.model.articulation import Articulation, State
from artix.model.checks import as_number, check_key, check_one

Array = jax.Array

#: Joint positions from here on are resolved to no better than a milliradian in float32; files that
#: write such limits (1e16, for example) mean none.
_FAR = 1e4


def neutral_state(articulation: Articulation) -> State:
    """The state at rest with the root's frame at the world's origin and all joints at zero;
    Pinocchio's ``neutral``.

    Returns:
      The state, in the articulation's dtype.

    Raises:
      ValueError: the articulation is a batch.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> print(state.root_pose, state.joint_position.shape)
      [0. 0. 0. 0. 0. 0. 1.] (7,)
    """
    check_one(articulation)
    return neutral_states(articulation.topology.num_dofs, articulation.dtype, ())


def neutral_states(num_dofs: int, dtype: Any, shape: tuple[int, ...]) -> State:
    """Neutral states with leading axes of this shape."""
    root = np.zeros((*shape, 7))
    root[..., 6] = 1
    others = (np.zeros((*shape, size)) for size in (6, num_dofs, num_dofs))
    return State(*(device_array(x, dtype) for x in (root, *others)))


def random_state(
    articulation: Articulation, key: Array, *, velocity_scale: float | Array = 1.0
) -> State:
    """A random state: joint positions uniform within their limits, velocities normal.

    Unlimited angles are drawn from [-pi, pi], unlimited translations from [-1, 1] m, unlimited
    spherical components from [-pi, pi] / sqrt(3), so that the rotation stays below a half turn.
    With one limit only, the other end is that of the same interval, or half the interval away from
    the limit if it lies outside. Limits of 1e4 and more, which some files write for none, count as
    none. A floating root gets a uniform orientation and a position in [-1, 1]^3 m; a fixed one
    stays at the origin, at rest. Pinocchio's ``randomConfiguration`` draws positions only.

    Args:
      key: a JAX random key.
      velocity_scale: standard deviation of all velocities [m/s, rad/s].

    Returns:
      The state, in the articulation's dtype.

    Raises:
      TypeError: ``key`` is not a random key, for instance a seed.
      ValueError: ``key`` is an array of keys, ``velocity_scale`` is not one number that is finite
        and not negative, or the articulation is a batch.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> keys = jax.random.split(jax.random.key(0), 1000)
      >>> states = jax.vmap(lambda key: artix.random_state(arm, key))(keys)
      >>> print(states.joint_position.shape)
      (1000, 7)
      >>> print((arm.joint_lower_limit <= states.joint_position).all())
      True
    """
    check_key(key)
    check_one(articulation)
    velocity_scale = as_number("velocity_scale", velocity_scale, 0)
    return sample_state(
        ranges_of(articulation), key, device_array(velocity_scale, articulation.dtype)
    )


def at_rest(state: State) -> State:
    """The state with all velocities zero."""
    zero = jnp.zeros_like
    return state.replace(
        root_velocity=zero(state.root_velocity), joint_velocity=zero(state.joint_velocity)
    )


class Ranges(NamedTuple):
    """What random states are drawn from."""

    lower: Array
    """Lower position limits, [n]."""
    upper: Array
    """Upper position limits, [n]."""
    width: Array
    """Half the width of the intervals about zero from which unlimited joint positions are drawn,
    [n]."""
    root_is_free: Array
    """Whether the base is floating."""


def ranges_of(articulation: Articulation) -> Ranges:
    """What the random states of an articulation are drawn from."""
    tree = articulation.topology
    width = np.where(tree.dof_is_linear, 1.0, np.pi)
    width = np.where(tree.dof_is_spherical, np.pi / 3**0.5, width)
    limits = articulation.joint_lower_limit, articulation.joint_upper_limit
    return Ranges(
        *limits, device_array(width, articulation.dtype), device_array(not tree.fixed_base)
    )


@jax.jit  # One program per number of DOFs; otherwise JAX would compile each operation separately.
def sample_state(ranges: Ranges, key: Array, scale: Array) -> State:
    """A random state, see :func:`random_state`."""
    lower, upper, width, root_is_free = ranges
    dtype = lower.dtype
    n = lower.shape[0]
    # Its ends are left out, where normal numbers would be infinite.
    least = np.nextafter(dtype.type(-1), dtype.type(0))
    uniform = jax.random.uniform(random_keys.quick(key), (2 * n + 13,), dtype, least, 1)
    normal = math.sqrt(2) * jax.scipy.special.erfinv(uniform[n + 3 :])
    known_lower = jnp.where(jnp.abs(lower) < _FAR, lower, -jnp.inf)
    known_upper = jnp.where(jnp.abs(upper) < _FAR, upper, jnp.inf)
    low = jnp.where(jnp.isfinite(known_lower), lower, jnp.minimum(-width, known_upper - width))
    high = jnp.where(jnp.isfinite(known_upper), upper, jnp.maximum(width, known_lower + width))
    q = jnp.clip(low + (high - low) * (0.5 + 0.5 * uniform[:n]), lower, upper)
    qd = scale * normal[10:]
    position = uniform[n : n + 3]
    quaternion = spatial.normalize(normal[:4, None])[:, 0]
    velocity = scale * normal[4:10]
    root = jnp.where(
        root_is_free,
        jnp.concatenate([position, quaternion]),
        jnp.array([0, 0, 0, 0, 0, 0, 1], dtype),
    )
    velocity = jnp.where(root_is_free, velocity, jnp.zeros_like(velocity))
    return State(root, velocity, q, qd)


def _examples(articulation: Articulation) -> Mapping[str, Callable[[], Any]]:
    """Examples of the arguments of functions of an articulation, by their names in artix."""
    topology = articulation.topology
    dtype = articulation.dtype
    return {
        "state": lambda: neutral_state(articulation),
        "external_force": lambda: jnp.zeros((topology.num_links, 6), dtype),
        "control": lambda: None,
        "dt": lambda: jnp.asarray(0.01, dtype),
    } | dict.fromkeys(("force", "acceleration", "right"), lambda: jnp.zeros(topology.nv, dtype))


register_parameters(Articulation, _examples)
register_carried(State)
