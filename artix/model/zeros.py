"""Robots of different parameters whose zeros are known, so that programs leave out what follows from them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from artix.model.articulation import Articulation, with_equal_parts, without
from artix.model.checks import check_type

Array = jax.Array


def keep_zeros(articulation: Articulation, varied: Articulation) -> Articulation:
    """``varied``, but with what is zero, infinite or a plain rotation in ``articulation``, such as absent drives.

    Most parameters of a robot are zero: offsets and axes along coordinate axes, products of inertia, drives and
    friction that it does not have. If ``articulation`` is known while JAX traces, so are these entries, and a program
    of robots whose parameters all differ (domain randomisation) has few more operations than the program of one
    known robot. For this, call it in a function decorated with :func:`~artix.quantity`, as below.

    Kept are: entries that are zero or infinite, and quaternions with a single non-zero component. **Whatever ``varied``
    has there is ignored**, and derivatives with respect to it are zero. Do not use it to vary what the robot lacks.

    Args:
      articulation: the robot with the zeros to keep.
      varied: the same robot with other parameters.

    Returns:
      The articulation, in the dtypes of ``varied``.

    Raises:
      TypeError: one of them is no articulation.
      ValueError: the two have different topologies, or their arrays different shapes.

    Identity: ``keep_zeros(a, a)`` equals ``a``.

    Examples:
      >>> @artix.quantity
      ... def step(robot, varied, state):
      ...     return artix.step(artix.keep_zeros(robot, varied), state, None, 0.005)
      ...
      >>> robot = artix.robots.load("double_pendulum")
      >>> scale = jnp.linspace(0.5, 1.5, 64)
      >>> robots = jax.vmap(lambda s: robot.replace(link_mass=s * robot.link_mass, gravity=s * robot.gravity))(scale)
      >>> state = artix.neutral_state(robot)
      >>> states = jax.vmap(lambda varied: step(robot, varied, state))(robots)
      >>> print(states.joint_position.shape)
      (64, 2)
    """
    check_type("articulation", articulation, Articulation)
    check_type("varied", varied, Articulation)
    if articulation.topology != varied.topology:
        raise ValueError("keep_zeros: the articulations differ in topology; vary parameters of the same robot")
    whole, varied = with_equal_parts([articulation, varied])
    merged = jax.tree_util.tree_map_with_path(_keep_zeros, whole, varied)
    merged = without(merged, articulation.absent)
    return merged.replace(
        **{name: _keep_rotations(getattr(articulation, name), getattr(merged, name)) for name in _POSES}
    )


_POSES = ("link_com_pose", "joint_parent_pose", "joint_child_pose", "frame_local_pose")


def _keep_zeros(path: tuple, ours: Array, varied: Array) -> Array:
    if ours.shape != varied.shape:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        raise ValueError(f"keep_zeros: expected {name} of shape {ours.shape}, found {varied.shape}")
    if ours.dtype.kind != "f":
        return varied
    ours = ours.astype(varied.dtype)
    return jnp.where((ours == 0) | jnp.isinf(ours), ours, varied)


def _keep_rotations(ours: Array, poses: Array) -> Array:
    """``poses`` with those quaternions of ``ours`` that have a single non-zero component: no turn or half a turn."""
    is_kept = jnp.sum(ours[..., 3:] != 0, axis=-1, keepdims=True, dtype=jnp.int32) == 1
    quaternions = jnp.where(is_kept, ours[..., 3:].astype(poses.dtype), poses[..., 3:])
    return jnp.concatenate([poses[..., :3], quaternions], axis=-1)
