"""What acts on the joints of a compiled MJCF: damping and friction for now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from artix.io.mjcf_bodies import FREE
from artix.io.mjcf_source import MjcfSource


def joint_options(source: MjcfSource, joints: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Options of :class:`~artix.joints.Joint` by joint."""
    model = source.model
    options: dict[int, dict[str, Any]] = {}
    for joint in joints:
        if model.jnt_type[joint] != FREE:
            dof = int(model.jnt_dofadr[joint])
            options[joint] = {
                "damping": float(model.dof_damping[dof]),
                "friction": float(model.dof_frictionloss[dof]),
            }
    return options
