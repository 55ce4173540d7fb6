"""Reads couplings outside the tree: mimic joints and loop joints."""

from __future__ import annotations

from typing import Any

import numpy as np

from artix.io.common.links import LinkPlace
from artix.io.common.poses import IDENTITY, compose, quaternion_from_x_to
from artix.io.usd.articulation import UsdArticulation
from artix.io.usd.joints import AXIS_INSTANCES, UsdAxis, UsdJoint
from artix.io.usd.stage import UsdPrim
from artix.model.couplings import LoopJoint, LoopJointType, MimicJoint

#: One end of a coupling: name of the degree of freedom, its axis, and the sign of its positions relative to USD's.
_Dof = tuple[str, UsdAxis, float]


def mimic_joints(description: UsdArticulation) -> list[MimicJoint]:
    """Reads the relations of ``PhysxMimicJointAPI`` and ``NewtonMimicAPI``, and reports mistakes in them."""
    joints = {joint.prim.path: (joint, joint.sign(parent)) for parent, joint, _ in description.tree.edges}
    mimics = []
    for joint, sign in joints.values():
        for instance in joint.prim.instances("PhysxMimicJointAPI"):
            space = f"physxMimicJoint:{instance}"
            follower = _dof(joint, sign, instance, f"{space}:referenceJoint")
            target = joint.prim.read_target(f"{space}:referenceJoint")
            axis = joint.prim.read_token(f"{space}:referenceJointAxis", "rotX")
            reference = _reference(joint.prim, joints, target, axis, f"{space}:referenceJoint")
            if follower and reference:
                mimics.append(_physx_mimic(description, joint.prim, space, follower, reference))
        # MuJoCo's schema includes Newton's.
        applied = joint.prim.has("NewtonMimicAPI") or joint.prim.has("MjcEqualityJointAPI")
        if applied and joint.prim.read_bool("newton:mimicEnabled", True):
            follower = _dof(joint, sign, "rotX", "newton:mimicJoint")
            target = joint.prim.read_target("mjc:target") or joint.prim.read_target("newton:mimicJoint")
            reference = _reference(joint.prim, joints, target, "rotX", "newton:mimicJoint")
            if follower and reference:
                mimics.append(_newton_mimic(description, joint.prim, follower, reference))
    return [mimic for mimic in mimics if mimic is not None]


def _dof(joint: UsdJoint, sign: float, instance: str, name: str, prim: UsdPrim | None = None) -> _Dof | None:
    """The degree of freedom of a joint by instance name; a joint with a single one ignores the name."""
    axes = joint.axes if len(joint.axes) == 1 else [axis for axis in joint.axes if axis.instance == instance]
    if axes:
        return joint.dof(axes[0]), axes[0], sign
    message = f"joint <{joint.prim.path}> has no degree of freedom {instance}"
    (prim or joint.prim).error(name, message, "name a free axis of a joint of the articulation")
    return None


def _reference(
    prim: UsdPrim, joints: dict[str, tuple[UsdJoint, float]], target: str | None, axis: str, name: str
) -> _Dof | None:
    if target not in joints:
        what = "nothing" if target is None else f"<{target}>"
        prim.error(name, f"points at {what}, which is not a joint of the articulation", "name one of its joints")
        return None
    joint, sign = joints[target]
    return _dof(joint, sign, axis, name, prim)


def _physx_mimic(
    description: UsdArticulation, prim: UsdPrim, space: str, follower: _Dof, reference: _Dof
) -> MimicJoint | None:
    """``q_follower + gearing q_reference + offset = 0`` in the stage's units."""
    own, other = (description.scene.units.axis(axis.angular).position for _, axis, _ in (follower, reference))
    return _mimic(
        prim,
        follower,
        reference,
        prim.read_number(f"{space}:gearing", 1.0) * own / other,
        prim.read_number(f"{space}:offset") * own,
        natural_frequency=prim.read_number(f"{space}:naturalFrequency", low=0.0),
        damping_ratio=prim.read_number(f"{space}:dampingRatio", low=0.0),
    )


def _newton_mimic(description: UsdArticulation, prim: UsdPrim, follower: _Dof, reference: _Dof) -> MimicJoint | None:
    """``q_follower = coef0 + coef1 q_reference``: ``coef0`` in the stage's units, or in MuJoCo's if its is authored."""
    scene, angular = description.scene, follower[1].angular
    own, other = (1.0 if axis.angular else scene.units.length for _, axis, _ in (follower, reference))
    offset = prim.read_number("newton:mimicCoef0") * scene.units.axis(angular).position
    slope = prim.read_number("newton:mimicCoef1", 1.0)
    if prim.has("MjcEqualityJointAPI"):
        offset = prim.read_number("mjc:coef0", offset / own) * own
        slope = prim.read_number("mjc:coef1", slope)
        if any(prim.read_number(f"mjc:coef{power}") for power in (2, 3, 4)):
            prim.left_out("mjc:coef2", "a relation of joints is linear; higher powers are not read", "linearize it")
    return _mimic(prim, follower, reference, -slope * own / other, -offset)


def _mimic(
    prim: UsdPrim, follower: _Dof, reference: _Dof, gear_ratio: float, offset: float, **compliance: float
) -> MimicJoint | None:
    try:
        return MimicJoint(
            follower=follower[0],
            reference=reference[0],
            gear_ratio=gear_ratio * follower[2] * reference[2],
            offset=offset * follower[2],
            **compliance,
        )
    except ValueError as error:
        prim.error("mimic joint", str(error))
        return None


def loop_joints(description: UsdArticulation, places: dict[str, LinkPlace], links: list[str]) -> list[LoopJoint]:
    """Reads the joints that close loops, without their limits and drives.

    Args:
      description: the articulation.
      places: the place of each link in the builder, by name.
      links: names of the builder's links, by number.
    """
    joints = []
    for joint in description.tree.loops:
        _note_loop_limits(joint)
        bodies, poses = (joint.bodies, joint.poses) if joint.bodies[1] else (joint.bodies[::-1], joint.poses[::-1])
        turn = _turn_to_x(joint)
        ends: list[tuple[str | None, np.ndarray]] = []
        for body, pose in zip(bodies, poses, strict=True):
            frame = compose(pose, turn)
            if body is None:
                ends.append((None, frame))
            else:
                place = places[description.names[body]]
                ends.append((links[place.number], compose(place.pose, frame)))
        options: dict[str, Any] = {}
        if joint.kind == "d6":
            free = [axis.axis for axis in joint.axes]
            options["locked_axes"] = [axis for axis in AXIS_INSTANCES.values() if axis not in free]
        if joint.kind == "distance":
            options |= _distances(description, joint.prim)
        (link_a, pose_a), (link_b, pose_b) = ends
        name, kind = joint.prim.name, LoopJointType(joint.kind)
        try:
            made = LoopJoint(
                name=name, link_a=link_a, link_b=str(link_b), pose_a=pose_a, pose_b=pose_b, type=kind, **options
            )
        except ValueError as error:
            description.scene.report.error(joint.prim, str(error), "correct the joint")
            continue
        joints.append(made)
    return joints


def _turn_to_x(joint: UsdJoint) -> np.ndarray:
    """The rotation of a loop joint's frames that makes its free axis the x axis."""
    if joint.kind not in ("revolute", "prismatic"):
        return IDENTITY
    return np.concatenate([IDENTITY[:3], quaternion_from_x_to(np.eye(3)[joint.axes[0].axis % 3])])


def _distances(description: UsdArticulation, prim: UsdPrim) -> dict[str, float]:
    """The bounds of a distance joint [m]; negative values mean unbounded."""
    low, high = (prim.read_number(f"physics:{side}Distance", -1.0, infinite=True) for side in ("min", "max"))
    unit = description.scene.units.length
    return {"min_distance": max(low, 0.0) * unit, "max_distance": high * unit if high >= 0.0 else np.inf}


def _note_loop_limits(joint: UsdJoint) -> None:
    if any(np.isfinite(axis.limits).any() for axis in joint.axes):
        joint.prim.left_out("limits", "loop joints have no limits", "move the limits to a joint of the tree")
    if joint.prim.instances("PhysicsDriveAPI"):
        joint.prim.left_out("drives", "loop joints have no drives", "move the drives to a joint of the tree")
