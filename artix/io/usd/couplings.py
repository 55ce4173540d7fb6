"""Reads couplings outside the tree: mimic joints, loop joints and PhysX's tendons."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from artix.io.common.description import Coupling, LinkPlace
from artix.io.common.poses import (
    IDENTITY,
    compose,
    quaternion_from_x_to,
    rotation_matrix,
    rotation_pose,
    translation,
)
from artix.io.usd.articulation import UsdArticulation
from artix.io.usd.joints import AXIS_INSTANCES, UsdAxis, UsdJoint
from artix.io.usd.stage import UsdPrim
from artix.model.couplings import (
    Attachment,
    FixedTendon,
    LoopJoint,
    LoopJointType,
    MimicJoint,
    SpatialTendon,
    TendonJoint,
)

#: One end of a coupling: name of the degree of freedom, its axis, and the sign of its positions
#: relative to USD's.
_Dof = tuple[str, UsdAxis, float]


def read_couplings(description: UsdArticulation, places: Mapping[str, LinkPlace]) -> list[Coupling]:
    """The mimic joints, tendons and loop joints of an articulation, with the places of its links by
    name.
    """
    return [
        *mimic_joints(description),
        *fixed_tendons(description),
        *spatial_tendons(description, places),
        *loop_joints(description, places),
    ]


def mimic_joints(description: UsdArticulation) -> list[MimicJoint]:
    """Reads the relations of ``PhysxMimicJointAPI`` and ``NewtonMimicAPI``, and reports mistakes in
    them.
    """
    joints = {
        joint.prim.path: (joint, joint.sign(parent)) for parent, joint, _ in description.tree.edges
    }
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
            target = joint.prim.read_target("mjc:target") or joint.prim.read_target(
                "newton:mimicJoint"
            )
            reference = _reference(joint.prim, joints, target, "rotX", "newton:mimicJoint")
            if follower and reference:
                mimics.append(_newton_mimic(description, joint.prim, follower, reference))
    return [mimic for mimic in mimics if mimic is not None]


def _dof(
    joint: UsdJoint, sign: float, instance: str, name: str, prim: UsdPrim | None = None
) -> _Dof | None:
    """The degree of freedom of a joint by instance name; a joint with a single one ignores the
    name.
    """
    axes = (
        joint.axes
        if len(joint.axes) == 1
        else [axis for axis in joint.axes if axis.instance == instance]
    )
    if axes:
        return joint.dof(axes[0]), axes[0], sign
    message = f"joint <{joint.prim.path}> has no degree of freedom {instance}"
    (prim or joint.prim).error(name, message, "name a free axis of a joint of the articulation")
    return None


def _reference(
    prim: UsdPrim,
    joints: dict[str, tuple[UsdJoint, float]],
    target: str | None,
    axis: str,
    name: str,
) -> _Dof | None:
    if target not in joints:
        what = "nothing" if target is None else f"<{target}>"
        prim.error(
            name,
            f"points at {what}, which is not a joint of the articulation",
            "name one of its joints",
        )
        return None
    joint, sign = joints[target]
    return _dof(joint, sign, axis, name, prim)


def _physx_mimic(
    description: UsdArticulation, prim: UsdPrim, space: str, follower: _Dof, reference: _Dof
) -> MimicJoint | None:
    """``q_follower + gearing q_reference + offset = 0`` in the stage's units."""
    units = description.scene.units
    follower_unit = units.axis(follower[1].angular).position
    reference_unit = units.axis(reference[1].angular).position
    return _mimic(
        prim,
        follower,
        reference,
        prim.read_number(f"{space}:gearing", 1.0) * follower_unit / reference_unit,
        prim.read_number(f"{space}:offset") * follower_unit,
        natural_frequency=prim.read_number(f"{space}:naturalFrequency", low=0.0),
        damping_ratio=prim.read_number(f"{space}:dampingRatio", low=0.0),
    )


def _newton_mimic(
    description: UsdArticulation, prim: UsdPrim, follower: _Dof, reference: _Dof
) -> MimicJoint | None:
    """``q_follower = coef0 + coef1 q_reference``: ``coef0`` in the stage's units, or in MuJoCo's if
    its is authored.
    """
    units = description.scene.units
    follower_unit = 1.0 if follower[1].angular else units.length
    reference_unit = 1.0 if reference[1].angular else units.length
    offset = prim.read_number("newton:mimicCoef0") * units.axis(follower[1].angular).position
    slope = prim.read_number("newton:mimicCoef1", 1.0)
    if prim.has("MjcEqualityJointAPI"):
        offset = prim.read_number("mjc:coef0", offset / follower_unit) * follower_unit
        slope = prim.read_number("mjc:coef1", slope)
        if any(prim.read_number(f"mjc:coef{power}") for power in (2, 3, 4)):
            prim.left_out(
                "mjc:coef2",
                "a relation of joints is linear; higher powers are not read",
                "linearize it",
            )
    return _mimic(prim, follower, reference, -slope * follower_unit / reference_unit, -offset)


def _mimic(
    prim: UsdPrim,
    follower: _Dof,
    reference: _Dof,
    gear_ratio: float,
    offset: float,
    **compliance: float,
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


def loop_joints(description: UsdArticulation, places: Mapping[str, LinkPlace]) -> list[LoopJoint]:
    """Reads the joints that close loops, without their limits and drives."""
    joints = []
    for joint in description.tree.loops:
        joint.note_unlimited("loop joints have", "move {} to a joint of the tree")
        bodies, poses = (
            (joint.bodies, joint.poses)
            if joint.bodies[1]
            else (joint.bodies[::-1], joint.poses[::-1])
        )
        turn = _turn_to_x(joint)
        ends: list[tuple[str | None, np.ndarray]] = []
        for body, pose in zip(bodies, poses, strict=True):
            frame = compose(pose, turn)
            if body is None:
                ends.append((None, frame))
            else:
                place = places[description.names[body]]
                ends.append((place.link, compose(place.pose, frame)))
        options: dict[str, Any] = {}
        if joint.kind == "d6":
            free = [axis.axis for axis in joint.axes]
            options["locked_axes"] = [axis for axis in AXIS_INSTANCES.values() if axis not in free]
        if joint.kind == "distance":
            options |= _distances(description, joint.prim)
        (link_a, pose_a), (link_b, pose_b) = ends
        name = joint.prim.name
        kind = LoopJointType(joint.kind)
        try:
            made = LoopJoint(
                name=name,
                link_a=link_a,
                link_b=str(link_b),
                pose_a=pose_a,
                pose_b=pose_b,
                type=kind,
                **options,
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
    return rotation_pose(quaternion_from_x_to(np.eye(3)[joint.axes[0].axis % 3]))


def _distances(description: UsdArticulation, prim: UsdPrim) -> dict[str, float]:
    """The bounds of a distance joint [m]; negative values mean unbounded."""
    low, high = (
        prim.read_number(f"physics:{side}Distance", -1.0, infinite=True) for side in ("min", "max")
    )
    unit = description.scene.units.length
    return {
        "min_distance": max(low, 0.0) * unit,
        "max_distance": high * unit if high >= 0.0 else np.inf,
    }


# --- tendons ------------------------------------------------------------------------------------

AXIS_ROOT, AXIS = "PhysxTendonAxisRootAPI", "PhysxTendonAxisAPI"
ATTACHMENT_ROOT, ATTACHMENT_LEAF = "PhysxTendonAttachmentRootAPI", "PhysxTendonAttachmentLeafAPI"
ATTACHMENT = "PhysxTendonAttachmentAPI"

#: Attributes of the root of a tendon, and of the places where one ends, by the names of artix's
#: fields.
GAINS = {"stiffness": "stiffness", "damping": "damping", "limit_stiffness": "limitStiffness"}
LENGTHS = {"rest_length": "restLength", "lower_limit": "lowerLimit", "upper_limit": "upperLimit"}


def fixed_tendons(description: UsdArticulation) -> list[FixedTendon]:
    """Reads ``PhysxTendonAxisRootAPI`` and ``PhysxTendonAxisAPI``; instances with the same name
    form one tendon.
    """
    tendons: dict[str, list[tuple[str | None, UsdJoint, str]]] = {}
    for edge in description.tree.edges:
        prim = edge[1].prim
        for name in dict.fromkeys([*prim.instances(AXIS_ROOT), *prim.instances(AXIS)]):
            tendons.setdefault(name, []).append(edge)
    made = (_fixed_tendon(description, name, edges) for name, edges in tendons.items())
    return [tendon for tendon in made if tendon is not None]


def _fixed_tendon(
    description: UsdArticulation, name: str, edges: list[tuple[str | None, UsdJoint, str]]
) -> FixedTendon | None:
    """Reads one tendon, axes parents first, like the joints of the tree."""
    roots = [edge for edge in edges if name in edge[1].prim.instances(AXIS_ROOT)]
    report = description.scene.report
    if len(roots) != 1:
        message = f"fixed tendon {name!r} has {len(roots)} axes with the {AXIS_ROOT}; it needs one"
        report.error(
            edges[0][1].prim,
            message,
            f"apply {AXIS_ROOT}:{name} to the joint next to its root link only",
        )
        return None
    root = roots[0][1].prim
    number_of: dict[str | None, int] = {}
    joints: list[TendonJoint] = []
    for parent, joint, child in sorted(edges, key=lambda edge: edge is not roots[0]):
        above = number_of.get(parent, -1)
        if len(joint.axes) != 1 or (above < 0 and joints):
            what = (
                "does not have one degree of freedom"
                if len(joint.axes) != 1
                else "is not next to another of its axes"
            )
            message = f"fixed tendon {name!r} has an axis here, but the joint {what}"
            report.error(
                joint.prim, message, "lay the tendon along consecutive revolute or prismatic joints"
            )
            return None
        number_of[child] = len(joints)
        joints.append(_tendon_joint(description, name, joint, joint.sign(parent), above))
    space = f"physxTendon:{name}"
    unit = description.scene.units
    limits = [
        root.read_number(f"{space}:{side}Limit", bound, infinite=True) for side, bound in _BOUNDS
    ]
    try:
        return FixedTendon(
            name=name,
            joints=joints,
            **_gains(description, root, name),
            rest_length=root.read_number(f"{space}:restLength") * unit.length,
            limits=(limits[0] * unit.length, limits[1] * unit.length),
            root_link=None,  # The link above the first axis.
        )
    except ValueError as error:
        report.error(root, str(error), "correct the tendon's attributes")
        return None


_BOUNDS = (("lower", -np.inf), ("upper", np.inf))


def _tendon_joint(
    description: UsdArticulation, tendon: str, joint: UsdJoint, sign: float, above: int
) -> TendonJoint:
    axis = joint.axes[0]
    units = description.scene.units.axis(axis.angular)
    joint.prim.read(f"physxTendon:{tendon}:jointAxis")
    gearing, force = (
        _first(joint.prim, f"physxTendon:{tendon}:{name}")
        for name in ("gearing", "forceCoefficient")
    )
    return TendonJoint(
        dof=joint.dof(axis),
        coefficient=sign * gearing * description.scene.units.length / units.position,
        recip_coefficient=sign * force * units.lever,
        parent=above,
    )


def _first(prim: UsdPrim, name: str) -> float:
    """The first number of an array, the only one that PhysX uses; 1 if it is not authored."""
    value = prim.read(name)
    try:
        numbers = np.ones(1) if value is None else np.asarray(value, float).ravel()
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if len(numbers) == 0 or not np.isfinite(numbers[0]):
        prim.error(name, f"must be an array of finite numbers, found {str(value)[:60]!r}")
        return 1.0
    if len(numbers) > 1:
        prim.left_out(name, "only the first number is used, as in PhysX", "give one number")
    return float(numbers[0])


def _gains(description: UsdArticulation, root: UsdPrim, name: str) -> dict[str, float]:
    """Gains and offset on the root of a tendon of either kind; the gains of a disabled tendon are
    zero.
    """
    space = f"physxTendon:{name}"
    unit = description.scene.units
    gains = {
        field: root.read_number(f"{space}:{attribute}", low=0.0) * unit.mass
        for field, attribute in GAINS.items()
    }
    if not root.read_bool(f"{space}:tendonEnabled", True):
        root.left_out(
            space, "the tendon is not enabled; its gains are zero", "nothing, or set tendonEnabled"
        )
        gains = dict.fromkeys(gains, 0.0)
    return gains | {"offset": root.read_number(f"{space}:offset") * unit.length}


@dataclasses.dataclass(frozen=True)
class _Point:
    """An attachment: the prim of its body, its instance name, and the key of its parent
    attachment.
    """

    body: UsdPrim
    name: str
    above: tuple[str, str] | None

    @property
    def key(self) -> tuple[str, str]:
        return self.body.path, self.name

    @property
    def space(self) -> str:
        return f"physxTendon:{self.name}"


def spatial_tendons(
    description: UsdArticulation, places: Mapping[str, LinkPlace]
) -> list[SpatialTendon]:
    """Reads PhysX's attachment schemas, whose instances are named after the attachment."""
    points = _points(description)
    below: dict[tuple[str, str], list[_Point]] = {}
    for point in points.values():
        if point.above is not None:
            if point.above in points:
                below.setdefault(point.above, []).append(point)
            else:
                named = f"{point.above[1] or 'nothing'!r} on <{point.above[0]}>"
                message = f"the parent of attachment {point.name!r}, {named}, does not exist"
                description.scene.report.error(
                    point.body, message, "correct its parentLink and parentAttachment"
                )
    roots = [point for point in points.values() if point.above is None]
    tendons: list[SpatialTendon] = []
    seen: set[tuple[str, str]] = set()
    for root in roots:
        tree = [root]
        for point in tree:
            tree += below.get(point.key, [])
        seen.update(point.key for point in tree)
        several = sum(other.name == root.name for other in roots) > 1
        name = f"{root.body.name}:{root.name}" if several else root.name
        tendon = _spatial_tendon(description, name, tree, places)
        tendons += [tendon] if tendon is not None else []
    for key, point in points.items():
        if key not in seen and point.above in points:
            message = (
                f"attachment {point.name!r} belongs to no tendon: none above it has the "
                f"{ATTACHMENT_ROOT}"
            )
            description.scene.report.error(
                point.body, message, f"apply {ATTACHMENT_ROOT} to the first attachment"
            )
    return tendons


def _points(description: UsdArticulation) -> dict[tuple[str, str], _Point]:
    points = {}
    for path in description.tree.bodies:
        body = description.scene.prims[path]
        instances = [
            name
            for schema in (ATTACHMENT_ROOT, ATTACHMENT, ATTACHMENT_LEAF)
            for name in body.instances(schema)
        ]
        for name in dict.fromkeys(instances):
            above = None
            if name not in body.instances(ATTACHMENT_ROOT):
                target = body.read_target(f"physxTendon:{name}:parentLink")
                above = target or "", body.read_token(f"physxTendon:{name}:parentAttachment", "")
            points[path, name] = _Point(body, name, above)
    return points


def _spatial_tendon(
    description: UsdArticulation, name: str, tree: list[_Point], places: Mapping[str, LinkPlace]
) -> SpatialTendon | None:
    """Reads one tendon from its attachments, parents first."""
    scene = description.scene
    index = {point.key: number for number, point in enumerate(tree)}
    local = [_position(description, point) for point in tree]
    world = [
        _world_point(description, point, position)
        for point, position in zip(tree, local, strict=True)
    ]
    lengths: list[float] = []
    attachments = []
    try:
        for number, point in enumerate(tree):
            above = -1 if point.above is None else index[point.above]
            # PhysX's reader gives the root coefficient 1, whatever its gearing.
            coefficient = (
                1.0 if above < 0 else point.body.read_number(f"{point.space}:gearing", 1.0)
            )
            segment = (
                0.0
                if above < 0
                else coefficient * float(np.linalg.norm(world[number] - world[above]))
            )
            lengths.append(segment + (lengths[above] if above >= 0 else 0.0))
            leaf = point.name in point.body.instances(ATTACHMENT_LEAF)
            place = places[description.names[point.body.path]]
            attachment = Attachment(
                link=place.link,
                position=place.pose[:3] + rotation_matrix(place.pose[3:]) @ local[number],
                parent=above,
                coefficient=coefficient,
                rest_length=_rest_length(description, point, lengths[-1]) if leaf else None,
                limits=_leaf_limits(description, point) if leaf else None,
                name=point.name,
            )
            attachments.append(attachment)
        return SpatialTendon(
            name=name, attachments=attachments, **_gains(description, tree[0].body, tree[0].name)
        )
    except ValueError as error:
        fix = (
            f"apply {ATTACHMENT_LEAF} to the last attachment of each path, and correct its "
            "attributes"
        )
        scene.report.error(tree[0].body, str(error), fix)
        return None


def _position(description: UsdArticulation, point: _Point) -> np.ndarray:
    """The attachment in its body's frame [m]."""
    value = point.body.read_array(f"{point.space}:localPos", 3)
    return description.scene.point(point.body.path, np.zeros(3) if value is None else value)


def _world_point(description: UsdArticulation, point: _Point, position: np.ndarray) -> np.ndarray:
    pose = description.scene.pose(point.body.path)
    return compose(pose, translation(position))[:3]


def _rest_length(description: UsdArticulation, point: _Point, length: float) -> float:
    """The authored rest length of a leaf; if that is negative or missing, the current length
    without offset.
    """
    authored = point.body.read_number(f"{point.space}:restLength", -np.inf, infinite=True)
    return authored * description.scene.units.length if authored >= 0.0 else length


def _leaf_limits(description: UsdArticulation, point: _Point) -> tuple[float, float]:
    unit = description.scene.units.length
    low, high = (
        point.body.read_number(f"{point.space}:{side}Limit", bound, infinite=True)
        for side, bound in _BOUNDS
    )
    return low * unit, high * unit
