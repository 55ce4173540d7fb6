"""Stacked joints: several single-DOF joints between the same two bodies, as MJCF converters write them."""

from __future__ import annotations

import dataclasses

import numpy as np

from artix.io.common.poses import compose, inverse
from artix.io.usd.joints import UsdJoint
from artix.io.usd.stage import UsdScene

#: (parent, joint, child): the paths of the bodies, ``None`` for the world.
Edge = tuple[str | None, UsdJoint, str]

#: Tolerance for the agreement of stacked joints on the rest pose of the child [m; quaternion entries].
REST_TOLERANCE = 1e-4


def is_stackable(joint: UsdJoint, adds_mobility: bool) -> bool:
    """Whether a joint may be part of a stack: the articulation's root or MuJoCo's schema must allow it."""
    return joint.kind in ("revolute", "prismatic") and (adds_mobility or joint.prim.has("MjcJointAPI"))


def is_between(path: str) -> bool:
    """Whether a link lies between the joints of a stack and thus has no prim."""
    return "#" in path


def expand_stacks(scene: UsdScene, edges: list[Edge], stacks: dict[str, list[UsdJoint]]) -> list[Edge]:
    """Inserts massless links between the joints of each stack; starting at the parent, their order is the stage's.

    Args:
      scene: the stage.
      edges: the edges of the tree, with one joint of each stack.
      stacks: the other joints of the stacks, by the path of the child.
    """
    position = {path: number for number, path in enumerate(scene.prims)}
    expanded: list[Edge] = []
    for parent, joint, child in edges:
        stack = sorted([joint, *stacks.get(child, [])], key=lambda stacked: position[stacked.prim.path])
        if len(stack) == 1:
            expanded.append((parent, joint, child))
            continue
        _check_rest(stack, parent)
        above = parent
        for number, stacked in enumerate(stack, start=1):
            below = child if number == len(stack) else f"{child}#{number}"
            on_parent, on_child = stacked.frames(parent)
            # At rest the links between the joints coincide with the child.
            ends: tuple[str | None, str | None] = (above, below)
            poses = on_parent if number == 1 else on_child, on_child
            if stacked.bodies[0] != parent:
                ends, poses = ends[::-1], poses[::-1]
            expanded.append((above, dataclasses.replace(stacked, bodies=ends, given_poses=poses), below))
            above = below
    return expanded


def _check_rest(stack: list[UsdJoint], parent: str | None) -> None:
    rest = [compose(first, inverse(second)) for first, second in (joint.frames(parent) for joint in stack)]
    for joint, pose in zip(stack, rest, strict=True):
        turn = min(float(np.abs(pose[3:] - sign * rest[0][3:]).max()) for sign in (1.0, -1.0))
        if max(float(np.abs(pose[:3] - rest[0][:3]).max()), turn) > REST_TOLERANCE:
            message = f"it and the stacked joint <{stack[0].prim.path}> disagree on the rest pose of their child"
            joint.scene.report.error(joint.prim, message, "correct the joints' frames")
