"""Converts descriptions of joints to the arrays of an articulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from artix.model.joint_features import Drive, DriveEnvelope, DriveEnvelopes, Drives, JointFriction, JointFrictions
from artix.model.joints import Joint, JointType
from artix.model.validation import interval


def joint_parameters(joints: Sequence[Joint]) -> dict[str, Any]:
    """The per-joint and per-DOF arrays of an articulation, as NumPy arrays.

    Raises:
      ValueError: a number is out of range, or their count differs from the joint's free axes.
    """
    limits = np.array([pair for joint in joints for pair in _limits(joint)]).reshape(-1, 2)
    return {
        "joint_parent_pose": np.array([joint.parent_pose for joint in joints]),
        "joint_child_pose": np.array([joint.child_pose for joint in joints]),
        "joint_pitch": np.array([joint.pitch for joint in joints for _ in joint.axes], float),
        "armature": _per_dof(joints, "armature"),
        "max_joint_velocity": _per_dof(joints, "max_velocity"),
        "max_joint_force": _per_dof(joints, "max_force"),
        "joint_lower_limit": limits[:, 0],
        "joint_upper_limit": limits[:, 1],
        "drive": Drives.of(_per_axis(joints, "drive", Drive)),
        "envelope": DriveEnvelopes.of(_per_axis(joints, "envelope", DriveEnvelope)),
        "friction": JointFrictions.of(_frictions(joints)),
    }


def _per_dof(joints: Sequence[Joint], field: str) -> np.ndarray:
    """Expands a non-negative number per joint, or one per axis, to one per DOF."""
    values = []
    for joint in joints:
        count = len(joint.axes)
        value = np.asarray(getattr(joint, field), float)
        if value.shape not in ((), (count,)):
            raise ValueError(f"joint {joint.name!r}: {field} must be a number or have length {count}")
        if not np.all(value >= 0.0):
            raise ValueError(f"joint {joint.name!r}: {field} must lie in [0, inf]; found {value.tolist()}")
        values.append(np.broadcast_to(value, (count,)))
    return np.concatenate(values)


def _per_axis(joints: Sequence[Joint], field: str, *kinds: type) -> list:
    """Expands a descriptor per joint, or one per axis, to one per DOF."""
    values: list = []
    for joint in joints:
        value, count = getattr(joint, field), len(joint.axes)
        entries = list(value) if isinstance(value, (list, tuple)) else [value] * count
        if len(entries) != count or not all(entry is None or isinstance(entry, kinds) for entry in entries):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(
                f"joint {joint.name!r}: {field} must be one {names} or a sequence with one per free axis ({count}); "
                f"found {value!r}"
            )
        values += entries
    return values


def _frictions(joints: Sequence[Joint]) -> list[JointFriction]:
    values = _per_axis(joints, "friction", JointFriction, float, int)
    return [
        value if isinstance(value, JointFriction) else JointFriction(static=value or 0.0, dynamic=value or 0.0)
        for value in values
    ]


def _limits(joint: Joint) -> list[tuple[float, float]]:
    if joint.limits is not None and not isinstance(joint.limits, Iterable):
        raise ValueError(f"joint {joint.name!r}: limits must have one pair per free axis; found {joint.limits!r}")
    limits = [None] * len(joint.axes) if joint.limits is None else list(joint.limits)
    if len(limits) != len(joint.axes):
        raise ValueError(f"joint {joint.name!r}: limits must have one entry per free axis; found {len(limits)}")
    pairs = [interval(pair, f"joint {joint.name!r}") for pair in limits]
    for pair in pairs:
        if joint.type is JointType.SPHERICAL and any(np.pi + 1e-6 < abs(x) < np.inf for x in pair):
            raise ValueError(f"joint {joint.name!r}: limits of a spherical joint must lie within [-pi, pi]")
    return pairs
