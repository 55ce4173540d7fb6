"""Reads fixed and spatial tendons from PhysX's tendon schemas."""

from __future__ import annotations

import dataclasses

import numpy as np

from artix.io.common.links import LinkPlace
from artix.io.common.poses import compose, rotation_matrix, translation
from artix.io.usd.articulation import UsdArticulation
from artix.io.usd.joints import UsdJoint
from artix.io.usd.stage import UsdPrim
from artix.model.tendons import Attachment, FixedTendon, SpatialTendon, TendonJoint

AXIS_ROOT, AXIS = "PhysxTendonAxisRootAPI", "PhysxTendonAxisAPI"
ATTACHMENT_ROOT, ATTACHMENT_LEAF = "PhysxTendonAttachmentRootAPI", "PhysxTendonAttachmentLeafAPI"
ATTACHMENT = "PhysxTendonAttachmentAPI"


def fixed_tendons(description: UsdArticulation) -> list[FixedTendon]:
    """Reads ``PhysxTendonAxisRootAPI`` and ``PhysxTendonAxisAPI``; instances with the same name form one tendon."""
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
        report.error(edges[0][1].prim, message, f"apply {AXIS_ROOT}:{name} to the joint next to its root link only")
        return None
    root = roots[0][1].prim
    number_of: dict[str | None, int] = {}
    joints: list[TendonJoint] = []
    for parent, joint, child in sorted(edges, key=lambda edge: edge is not roots[0]):
        above = number_of.get(parent, -1)
        if len(joint.axes) != 1 or (above < 0 and joints):
            what = (
                "does not have one degree of freedom" if len(joint.axes) != 1 else "is not next to another of its axes"
            )
            message = f"fixed tendon {name!r} has an axis here, but the joint {what}"
            report.error(joint.prim, message, "lay the tendon along consecutive revolute or prismatic joints")
            return None
        number_of[child] = len(joints)
        joints.append(_tendon_joint(description, name, joint, joint.sign(parent), above))
    space, unit = f"physxTendon:{name}", description.scene.units
    limits = [root.read_number(f"{space}:{side}Limit", bound, infinite=True) for side, bound in _BOUNDS]
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


def _tendon_joint(description: UsdArticulation, tendon: str, joint: UsdJoint, sign: float, above: int) -> TendonJoint:
    axis = joint.axes[0]
    units = description.scene.units.axis(axis.angular)
    joint.prim.read(f"physxTendon:{tendon}:jointAxis")
    gearing, force = (_first(joint.prim, f"physxTendon:{tendon}:{name}") for name in ("gearing", "forceCoefficient"))
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
    """Gains and offset on the root of a tendon of either kind; the gains of a disabled tendon are zero."""
    space, unit = f"physxTendon:{name}", description.scene.units
    gains = {
        key: root.read_number(f"{space}:{attribute}", low=0.0) * unit.mass
        for key, attribute in (
            ("stiffness", "stiffness"),
            ("damping", "damping"),
            ("limit_stiffness", "limitStiffness"),
        )
    }
    if not root.read_bool(f"{space}:tendonEnabled", True):
        root.left_out(space, "the tendon is not enabled; its gains are zero", "nothing, or set tendonEnabled")
        gains = dict.fromkeys(gains, 0.0)
    return gains | {"offset": root.read_number(f"{space}:offset") * unit.length}


@dataclasses.dataclass(frozen=True)
class _Point:
    """An attachment: the prim of its body, its instance name, and the key of its parent attachment."""

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
    description: UsdArticulation, places: dict[str, LinkPlace], links: list[str]
) -> list[SpatialTendon]:
    """Reads PhysX's attachment schemas, whose instances are named after the attachment.

    Args:
      description: the articulation.
      places: the place of each link in the builder, by name.
      links: names of the builder's links, by number.
    """
    points = _points(description)
    below: dict[tuple[str, str], list[_Point]] = {}
    for point in points.values():
        if point.above is not None:
            if point.above in points:
                below.setdefault(point.above, []).append(point)
            else:
                named = f"{point.above[1] or 'nothing'!r} on <{point.above[0]}>"
                message = f"the parent of attachment {point.name!r}, {named}, does not exist"
                description.scene.report.error(point.body, message, "correct its parentLink and parentAttachment")
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
        tendon = _spatial_tendon(description, name, tree, places, links)
        tendons += [tendon] if tendon is not None else []
    for key, point in points.items():
        if key not in seen and point.above in points:
            message = f"attachment {point.name!r} belongs to no tendon: none above it has the {ATTACHMENT_ROOT}"
            description.scene.report.error(point.body, message, f"apply {ATTACHMENT_ROOT} to the first attachment")
    return tendons


def _points(description: UsdArticulation) -> dict[tuple[str, str], _Point]:
    points = {}
    for path in description.tree.bodies:
        body = description.scene.prims[path]
        instances = [
            name for schema in (ATTACHMENT_ROOT, ATTACHMENT, ATTACHMENT_LEAF) for name in body.instances(schema)
        ]
        for name in dict.fromkeys(instances):
            above = None
            if name not in body.instances(ATTACHMENT_ROOT):
                target = body.read_target(f"physxTendon:{name}:parentLink")
                above = target or "", body.read_token(f"physxTendon:{name}:parentAttachment", "")
            points[path, name] = _Point(body, name, above)
    return points


def _spatial_tendon(
    description: UsdArticulation, name: str, tree: list[_Point], places: dict[str, LinkPlace], links: list[str]
) -> SpatialTendon | None:
    """Reads one tendon from its attachments, parents first."""
    scene, index = description.scene, {point.key: number for number, point in enumerate(tree)}
    local = [_position(description, point) for point in tree]
    world = [_world_point(description, point, position) for point, position in zip(tree, local, strict=True)]
    lengths: list[float] = []
    attachments = []
    try:
        for number, point in enumerate(tree):
            above = -1 if point.above is None else index[point.above]
            # PhysX's reader gives the root coefficient 1, whatever its gearing.
            coefficient = 1.0 if above < 0 else point.body.read_number(f"{point.space}:gearing", 1.0)
            segment = 0.0 if above < 0 else coefficient * float(np.linalg.norm(world[number] - world[above]))
            lengths.append(segment + (lengths[above] if above >= 0 else 0.0))
            leaf = point.name in point.body.instances(ATTACHMENT_LEAF)
            place = places[description.names[point.body.path]]
            attachment = Attachment(
                link=links[place.number],
                position=place.pose[:3] + rotation_matrix(place.pose[3:]) @ local[number],
                parent=above,
                coefficient=coefficient,
                rest_length=_rest_length(description, point, lengths[-1]) if leaf else None,
                limits=_leaf_limits(description, point) if leaf else None,
                name=point.name,
            )
            attachments.append(attachment)
        return SpatialTendon(name=name, attachments=attachments, **_gains(description, tree[0].body, tree[0].name))
    except ValueError as error:
        fix = f"apply {ATTACHMENT_LEAF} to the last attachment of each path, and correct its attributes"
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
    """The authored rest length of a leaf; if that is negative or missing, the current length without offset."""
    authored = point.body.read_number(f"{point.space}:restLength", -np.inf, infinite=True)
    return authored * description.scene.units.length if authored >= 0.0 else length


def _leaf_limits(description: UsdArticulation, point: _Point) -> tuple[float, float]:
    unit = description.scene.units.length
    low, high = (point.body.read_number(f"{point.space}:{side}Limit", bound, infinite=True) for side, bound in _BOUNDS)
    return low * unit, high * unit
