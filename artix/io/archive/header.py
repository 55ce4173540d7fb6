"""The structure of an articulation as JSON; it is read back through the builder, which refuses inconsistent input."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from artix.model.articulation import Articulation
from artix.model.builder import ArticulationBuilder
from artix.model.couplings import LoopJoint, LoopJointType
from artix.model.geometry import LARGEST_HULL, SIZE_NUMBERS, Geometry, GeometryType
from artix.model.joints import Axis, Joint, JointType
from artix.model.tendons import Attachment, FixedTendon, SpatialTendon, TendonJoint
from artix.model.topology import Topology

FORMAT, VERSION = "artix articulation", 1

Value = TypeVar("Value")


class MalformedHeaderError(ValueError):
    """The header is malformed; the message says where and why."""


def write_header(topology: Topology) -> str:
    """Encodes a topology as JSON text: links in the order of their creation, all references by name."""
    joints = ("", *topology.joint_names)
    links = [
        {
            "name": topology.link_names[link],
            "parent": None if topology.parent[link] < 0 else topology.link_names[topology.parent[link]],
            "joint": joints[link],
            "joint_type": topology.joint_types[link].name.lower(),
            "axes": [axis.name.lower() for axis in topology.joint_axes[link]],
        }
        for link in sorted(range(topology.num_links), key=lambda link: topology.creation_index[link])
    ]
    names, dofs = topology.link_names, topology.dof_names
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": topology.name,
        "fixed_base": topology.fixed_base,
        "links": links,
        "frames": [
            {"name": name, "link": names[link]}
            for name, link in zip(topology.frame_names, topology.frame_links, strict=True)
        ],
        "mimics": [
            {"follower": dofs[follower], "reference": dofs[reference]} for follower, reference in topology.mimic_dofs
        ],
        "fixed_tendons": [
            {
                "name": tendon.name,
                "root_link": names[tendon.root_link],
                "dofs": [dofs[dof] for dof in tendon.dofs],
                "parents": list(tendon.parents),
            }
            for tendon in topology.fixed_tendons
        ],
        "spatial_tendons": [
            {
                "name": tendon.name,
                "links": [names[link] for link in tendon.links],
                "parents": list(tendon.parents),
                "attachment_names": list(tendon.attachment_names),
            }
            for tendon in topology.spatial_tendons
        ],
        "loop_joints": [
            {
                "name": joint.name,
                "type": joint.type.value,
                "link_a": None if joint.link_a < 0 else names[joint.link_a],
                "link_b": names[joint.link_b],
                "locked_axes": [axis.name.lower() for axis in joint.locked_axes],
            }
            for joint in topology.loop_joints
        ],
        "geometries": [
            {
                "name": shape.name,
                "link": names[shape.link],
                "type": shape.type.value,
                "num_points": shape.num_points,
                "sensor": shape.sensor,
            }
            for shape in topology.geometries
        ],
        "geometry_pairs": [list(pair) for pair in topology.geometry_pairs],
    }
    return json.dumps(header, indent=1)


def read_header(text: str) -> Articulation:
    """Builds an articulation with the structure that a header describes; its numbers are placeholders.

    Raises:
      ValueError: the header is malformed, of another format or version, or describes an invalid structure.
    """
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedHeaderError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise MalformedHeaderError(f"the header is not of the format {FORMAT!r}")
    version = _get(header, "version", int)
    if version != VERSION:
        raise MalformedHeaderError(f"the file has version {version}; this artix reads version {VERSION}")
    builder = ArticulationBuilder(name=_get(header, "name", str), fixed_base=_get(header, "fixed_base", bool))
    number: dict[str, int] = {}
    for record in _records(header, "links"):
        _add_link(builder, record, number)
    for record in _records(header, "frames"):
        builder.add_frame(_get(record, "name", str), _link(number, _get(record, "link", str)))
    for record in _records(header, "mimics"):
        builder.add_mimic(_get(record, "follower", str), _get(record, "reference", str), gear_ratio=1.0)
    for record in _records(header, "fixed_tendons"):
        builder.add_fixed_tendon(_fixed_tendon(record))
    for record in _records(header, "spatial_tendons"):
        builder.add_spatial_tendon(_spatial_tendon(record))
    for record in _records(header, "loop_joints"):
        builder.add_loop_joint(_loop_joint(record))
    # Files written by earlier versions have no geometries, or no pairs of them.
    for record in _records(header, "geometries") if "geometries" in header else ():
        builder.add_geometry(_get(record, "link", str), _geometry(record), _get(record, "name", str))
    for pair in _list(header, "geometry_pairs", list) if "geometry_pairs" in header else ():
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise MalformedHeaderError(f"'geometry_pairs' has an entry that is not a pair of names: {pair!r:.60}")
        builder.add_geometry_pair(*pair)
    return builder.build()


def _add_link(builder: ArticulationBuilder, record: dict[str, Any], number: dict[str, int]) -> None:
    name, parent = _get(record, "name", str), _get(record, "parent", str, optional=True)
    joint = None
    if parent is not None:
        kind = _member(JointType, _get(record, "joint_type", str))
        joint = Joint(type=kind, axes=_axes(record, "axes"), name=_get(record, "joint", str))
    above = None if parent is None else _link(number, parent)
    number[name] = builder.add_link(above, joint, name=name)


def _fixed_tendon(record: dict[str, Any]) -> FixedTendon:
    dofs, parents = _list(record, "dofs", str), _list(record, "parents", int)
    joints = [
        TendonJoint(dof=dof, coefficient=1.0, recip_coefficient=1.0, parent=parent)
        for dof, parent in _pairs(record, dofs, parents)
    ]
    return FixedTendon(name=_get(record, "name", str), joints=joints, root_link=_get(record, "root_link", str))


def _spatial_tendon(record: dict[str, Any]) -> SpatialTendon:
    links, parents = _list(record, "links", str), _list(record, "parents", int)
    names = _list(record, "attachment_names", (str, type(None)))
    points = [
        Attachment(
            link=link, position=(0.0, 0.0, 0.0), parent=parent, name=name, rest_length=None if k in parents else 0.0
        )
        for k, ((link, parent), name) in enumerate(_pairs(record, list(_pairs(record, links, parents)), names))
    ]
    return SpatialTendon(name=_get(record, "name", str), attachments=points)


def _loop_joint(record: dict[str, Any]) -> LoopJoint:
    kind, axes = LoopJointType(_get(record, "type", str)), _axes(record, "locked_axes")
    joint = LoopJoint(
        name=_get(record, "name", str),
        link_a=_get(record, "link_a", str, optional=True),
        link_b=_get(record, "link_b", str),
        type=kind,
        locked_axes=axes if kind is LoopJointType.D6 else None,
    )
    if tuple(joint.locked_axes or ()) != axes:
        raise MalformedHeaderError(f"loop joint {joint.name!r}: its locked axes are not those of its type")
    return joint


def _geometry(record: dict[str, Any]) -> Geometry:
    kind, count = GeometryType(_get(record, "type", str)), _get(record, "num_points", int)
    # A damaged count must not allocate memory; one point too many is enough for the builder to refuse it.
    points = [[0.0, 0.0, 0.0]] * min(count, LARGEST_HULL + 1) if kind is GeometryType.HULL else None
    if count and points is None:
        raise MalformedHeaderError(f"geometry {record.get('name')!r:.60}: only a hull has points")
    return Geometry(type=kind, size=(1.0,) * SIZE_NUMBERS[kind], points=points, sensor=_get(record, "sensor", bool))


# --- typed access --------------------------------------------------------------------------------


def _get(record: dict[str, Any], key: str, kind: Any, *, optional: bool = False) -> Any:
    value = record.get(key)
    if value is None and optional:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise MalformedHeaderError(f"{key!r} must be of type {getattr(kind, '__name__', kind)}; found {value!r:.60}")
    return value


def _list(record: dict[str, Any], key: str, kind: Any) -> list:
    values = _get(record, key, list)
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise MalformedHeaderError(f"{key!r} has an entry of the wrong type: {value!r:.60}")
    return values


def _records(header: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return _list(header, key, dict)


def _pairs(record: dict[str, Any], first: list, second: list) -> list[tuple[Any, Any]]:
    if len(first) != len(second):
        raise MalformedHeaderError(f"{record.get('name')!r:.60}: its lists differ in length")
    return list(zip(first, second, strict=True))


def _member(enumeration: Any, name: str) -> Any:
    known = {member.name.lower(): member for member in enumeration}
    if name not in known:
        raise MalformedHeaderError(f"{name!r:.60} is not one of {', '.join(known)}")
    return known[name]


def _axes(record: dict[str, Any], key: str) -> tuple[Axis, ...]:
    return tuple(_member(Axis, name) for name in _list(record, key, str))


def _link(number: dict[str, int], name: str) -> int:
    if name not in number:
        raise MalformedHeaderError(f"there is no link called {name!r:.60}")
    return number[name]
