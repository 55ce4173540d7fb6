"""Robots of different parameters whose zeros are known, so that programs leave out what follows
from them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.model.articulation import (
    Articulation,
    checked_leaves,
    with_equal_parts,
    with_known_entries,
    without,
)
from artix.model.checks import check_type

Array = jax.Array


def keep_zeros(articulation: Articulation, varied: Articulation | None = None) -> Articulation:
    """The robot with its zeros as part of its structure, such as offsets and axes along coordinate
    axes.

    Most numbers of a robot are zero: components of offsets and axes, products of inertia, limits of
    some joints. A robot that JAX traces (an argument of a compiled function, or one of a batch of
    robots whose parameters all differ) hides them, and its program has up to twice the operations
    of a known robot's. In the result, entries that are zero or infinite and quaternions with a
    single non-zero component are no longer among the leaves, which hold the other entries only: no
    ``jax.tree.map`` and no optimiser changes them, and there are no derivatives with respect to
    them. Reading an array gives the whole array; replacing one frees its zeros.

    Args:
      articulation: the robot with the zeros to keep.
      varied: the same robot with other parameters, whose entries there **are ignored**; the robot
        itself when ``None``.

    Returns:
      The articulation, in the dtypes of ``varied``.

    Raises:
      TypeError: one of them is not an articulation, or there is one only and JAX traces it.
      ValueError: the two have different topologies, or their arrays different shapes.

    Identity: every array of ``keep_zeros(a)`` equals that of ``a``.

    Examples:
      >>> robot = artix.keep_zeros(artix.robots.load("double_pendulum"))
      >>> def randomised(key):  # 10 % of everything
      ...     noise = lambda x: x * jax.random.uniform(key, x.shape, minval=0.9, maxval=1.1)
      ...     return jax.tree.map(noise, robot)
      >>> robots = jax.vmap(randomised)(jax.random.split(jax.random.key(0), 64))
      >>> step = jax.jit(
      ...     jax.vmap(
      ...         lambda robot, state: artix.step(robot, state, None, 0.005), in_axes=(0, None)
      ...     )
      ... )
      >>> print(step(robots, artix.neutral_state(robot)).joint_position.shape)
      (64, 2)
    """
    check_type("articulation", articulation, Articulation)
    is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(articulation))
    if varied is None and is_traced:
        raise TypeError(
            "keep_zeros: JAX traces this robot, which hides its zeros; call it outside of jax.jit"
        )
    varied = articulation if varied is None else varied
    check_type("varied", varied, Articulation)
    if articulation.topology != varied.topology:
        raise ValueError(
            "keep_zeros: the articulations differ in topology; vary parameters of the same robot"
        )
    whole, varied = with_equal_parts([articulation, varied])
    for (name, ours, _), (_, theirs, _) in zip(
        checked_leaves(whole), checked_leaves(varied), strict=True
    ):
        if ours.shape != theirs.shape[max(theirs.ndim - ours.ndim, 0) :]:
            raise ValueError(
                f"keep_zeros: expected {name} of shape {ours.shape}, found {theirs.shape}"
            )
    if not is_traced:
        return without(with_known_entries(varied, whole), articulation.absent)
    merged = jax.tree.map(_keep_zeros, whole, varied)
    merged = merged.replace(
        **{
            name: _keep_rotations(getattr(articulation, name), getattr(merged, name))
            for name in _POSES
        }
    )
    return without(merged, articulation.absent)


_POSES = ("link_com_pose", "joint_parent_pose", "joint_child_pose", "frame_local_pose")


def _keep_zeros(ours: Array, varied: Array) -> Array:
    if ours.dtype.kind != "f":
        return varied
    ours = ours.astype(varied.dtype)
    return jnp.where((ours == 0) | jnp.isinf(ours), ours, varied)


def _keep_rotations(ours: Array, poses: Array) -> Array:
    """``poses`` with those quaternions of ``ours`` that have a single non-zero component: no turn
    or half a turn.
    """
    is_kept = jnp.sum(ours[..., 3:] != 0, axis=-1, keepdims=True, dtype=jnp.int32) == 1
    quaternions = jnp.where(is_kept, ours[..., 3:].astype(poses.dtype), poses[..., 3:])
    return jnp.concatenate([poses[..., :3], quaternions], axis=-1)
