"""Reads bodies and joints of a compiled MJCF."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.description import LinkDescription, Names, joint_frame
from artix.io.common.poses import IDENTITY, compose, translation
from artix.io.mjcf.source import (
    BALL,
    FREE,
    HINGE,
    NOT_SAME,
    SAME_AS_BODY,
    SLIDE,
    MjcfSource,
    joints_of,
    pose_from_wxyz,
)
from artix.model.geometry import Geometry
from artix.model.joints import ROTATIONS, TRANSLATIONS, Joint

if TYPE_CHECKING:
    import mujoco


def describe_bodies(
    source: MjcfSource,
    bodies: list[int],
    root: int,
    options: Mapping[int, Mapping[str, Any]],
    shapes: Mapping[int, Sequence[tuple[str | None, Geometry]]],
) -> list[LinkDescription]:
    """The links for the bodies of one articulation.

    A body with several joints becomes a chain of links; all but the last are massless and called
    ``<body>:<joint>``. A free joint of the root does not count as a joint.

    Args:
      source: the model.
      bodies: the bodies, parents first.
      root: the root body, one of ``bodies``.
      options: further options of :class:`~artix.Joint`, by joint; ``limits`` replace the model's.
      shapes: named shapes, by body.
    """
    chain_names = Names(source.names.bodies)
    fixed_names = Names(source.names.joints)
    links: list[LinkDescription] = []
    for body in bodies:
        joints = [
            joint for joint in joints_of(source.model, body) if source.model.jnt_type[joint] != FREE
        ]
        chain: list[Joint | None] = [_joint(source, joint, options[joint]) for joint in joints]
        if body == root:
            chain = [None]
        elif not chain:
            chain = [Joint.fixed(name=fixed_names.new(f"{source.names.bodies[body]}_joint"))]
        *above, last = _links(source, body, root, chain, chain_names)
        links += [*above, dataclasses.replace(last, geometries=shapes[body])]
    return links


def _links(
    source: MjcfSource, body: int, root: int, chain: Sequence[Joint | None], chain_names: Names
) -> list[LinkDescription]:
    """The links for one body, one for each joint of its chain."""
    model = source.model
    names = source.names
    links = list[LinkDescription]()
    # MuJoCo applies gravity compensation as a force; scaling the link's gravity is equivalent.
    options = (
        {"gravity_scale": 1.0 - float(model.body_gravcomp[body])}
        if model.body_gravcomp[body]
        else {}
    )
    parent = None if body == root else names.bodies[model.body_parentid[body]]
    pose = pose_from_wxyz(model.body_pos[body], model.body_quat[body])
    for index, joint in enumerate(chain):
        if joint is not None:
            joint = dataclasses.replace(
                joint, parent_pose=compose(pose, np.asarray(joint.parent_pose))
            )
        if index == len(chain) - 1:
            links.append(
                LinkDescription(names.bodies[body], parent, joint, *_mass(model, body), options)
            )
        else:
            assert joint is not None  # Only the root has no joint, and its chain has one entry.
            name = chain_names.new(f"{names.bodies[body]}:{joint.name}")
            links.append(LinkDescription(name, parent, joint, options=options))
            parent = name
            pose = IDENTITY
    return links


def _mass(model: mujoco.MjModel, body: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, mass frame and inertia of a body as MuJoCo uses them."""
    mass = float(model.body_mass[body])
    position = model.body_ipos[body]
    same = int(model.body_sameframe[body])
    inertia = np.diag(model.body_inertia[body])
    if same == NOT_SAME:
        return mass, pose_from_wxyz(position, model.body_iquat[body]), inertia
    # MuJoCo treats frames that differ only by rounding as the same.
    return mass, translation(np.zeros(3) if same == SAME_AS_BODY else position), inertia


def _joint(source: MjcfSource, number: int, options: Mapping[str, Any]) -> Joint:
    """A joint whose parent frame is expressed in the body's frame at the reference position."""
    model = source.model
    kind = model.jnt_type[number]
    anchor = translation(model.jnt_pos[number])
    merged: dict[str, Any] = {"name": source.names.joints[number], **options}
    limited = bool(model.jnt_limited[number]) and not source.disables("LIMIT")
    if kind == BALL:
        if limited:
            message = (
                "its range limits the angle of a ball joint; artix limits each component of the "
                "rotation vector"
            )
            source.report_unsupported("limit", source.place("jnt", number), message)
        return Joint.spherical(parent_pose=anchor, child_pose=anchor, **merged)
    coordinate, turn = joint_frame(np.asarray(model.jnt_axis[number]))
    frame = compose(anchor if kind == HINGE else IDENTITY, turn)
    # At the body's pose in the file, MuJoCo's joint is at its reference position, not at zero.
    reference = float(model.qpos0[model.jnt_qposadr[number]])
    zero = IDENTITY.copy()
    if kind == HINGE:
        zero[3 + coordinate] = np.sin(-0.5 * reference)
        zero[6] = np.cos(-0.5 * reference)
    else:
        zero[coordinate] = -reference
    merged |= {
        "parent_pose": compose(frame, zero),
        "child_pose": frame,
        "limits": merged.get(
            "limits", [tuple(map(float, model.jnt_range[number])) if limited else None]
        ),
    }
    if kind == SLIDE:
        return Joint.prismatic(TRANSLATIONS[coordinate], **merged)
    return Joint.revolute(ROTATIONS[coordinate], wrapped=False, **merged)
