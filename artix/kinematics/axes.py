"""The point and axes in which users receive spatial vectors, Pinocchio's ``ReferenceFrame``.

Internally, spatial vectors are about one reference point and in world axes; this module converts them. ``"local"``
means the frame's own origin and axes (Pinocchio's ``LOCAL``), ``"world_aligned"`` its origin and the world's axes
(``LOCAL_WORLD_ALIGNED``), ``"world"`` the world's origin and axes (``WORLD``).
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from artix.kinematics.bodies import Inertias, Placement
from artix.kinematics.solve import Kinematics, Motion
from artix.math import spatial

Array = jax.Array
Axes = Literal["world_aligned", "local", "world"]


def check_axes(axes: str) -> None:
    """Raises ``ValueError`` unless ``axes`` is one of the three."""
    if axes not in ("world_aligned", "local", "world"):
        raise ValueError(f"axes must be 'world_aligned', 'local' or 'world'; found {axes!r}")


def origin(kin: Kinematics, frames: Placement, axes: Axes) -> Array:
    """The point that ``axes`` refers to, relative to the reference point: [3, k], or [3, 1] if it is common."""
    return -kin.reference[:, None] if axes == "world" else frames.position


def to_axes(frames: Placement, rows: Array, axes: Axes) -> Array:
    """Rotates spatial vectors [6, n] from world axes to ``axes``, for n frames or one."""
    if axes != "local":
        return rows
    rotation = spatial.rotation_matrix(frames.rotation)
    parts = [spatial.apply_transposed(rotation, rows[:3]), spatial.apply_transposed(rotation, rows[3:])]
    return jnp.concatenate(parts)


def motion_in_axes(kin: Kinematics, frames: Placement, motion: Motion, axes: Axes) -> Array:
    """Converts motions about the reference point to ``axes``, [6, n]."""
    linear = motion.linear + spatial.cross(motion.angular, origin(kin, frames, axes))
    return to_axes(frames, jnp.concatenate([linear, motion.angular]), axes)


def force_in_axes(kin: Kinematics, frames: Placement, force: Array, axes: Axes) -> Array:
    """Converts forces (or momenta) [6, n] about the reference point to ``axes``, [6, n]."""
    torque = force[3:] - spatial.cross(origin(kin, frames, axes), force[:3])
    return to_axes(frames, jnp.concatenate([force[:3], torque]), axes)


def inertias_in_axes(kin: Kinematics, frames: Placement, inertias: Inertias, axes: Axes) -> Inertias:
    """Converts mass moments about the reference point to ``axes``."""
    mass, first, second = inertias
    point = jnp.broadcast_to(origin(kin, frames, axes), first.shape)
    shifted = first - mass[None] * point
    second = second - first[:, None] * point[None] - point[:, None] * shifted[None]
    if axes != "local":
        return Inertias(mass, shifted, second)
    rotation = spatial.rotation_matrix(frames.rotation).swapaxes(0, 1)
    half = spatial.multiply(rotation, second)
    return Inertias(mass, spatial.apply(rotation, shifted), spatial.multiply_transposed(half, rotation))
