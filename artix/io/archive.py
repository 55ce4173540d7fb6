"""artix's own lossless file format: ``.npz`` with a JSON header.

An archive is an uncompressed ZIP file: ``header.json`` describes the structure, and every array of
the articulation is a ``.npy`` member named after its field, such as ``drive.stiffness.npy``.
Reading one never executes code from the file and takes no more memory than the size of the file.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import math
import os
import re
import unicodedata
import warnings
import zipfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from artix.io.common.atomic_file import write_atomically
from artix.io.common.description import Description, Frame, LinkDescription, build
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning, Issue
from artix.io.common.values import check_values, named_arrays, written_arrays
from artix.math.arrays import device_array
from artix.model import zeros
from artix.model.articulation import Articulation, without, without_zeros
from artix.model.couplings import (
    Attachment,
    FixedTendon,
    LoopJoint,
    LoopJointType,
    MimicJoint,
    SpatialTendon,
    TendonJoint,
)
from artix.model.geometry import (
    LARGEST_HULL,
    SIZE_NUMBERS,
    Geometries,
    Geometry,
    GeometryStructure,
    GeometryType,
)
from artix.model.hull_faces import HullFaces, hull_faces
from artix.model.joints import Axis, Joint, JointType
from artix.model.topology import Topology

_HEADER = "header.json"
_LARGEST_HEADER = 2**21  # bytes: some ten thousand links

#: Arrays missing from older files; they are read as zeros.
_ADDED = frozenset({"joint_pitch"})
#: Arrays that may be missing from the file of an articulation without geometry.
_GEOMETRY = frozenset(f"geometry.{field.name}" for field in dataclasses.fields(Geometries))

#: A header of version 1.0 of the .npy format as NumPy writes it: its length, the type of number,
#: the shape.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '(<f[248])', 'fortran_order': False, "
    rb"'shape': \(([0-9]{0,12}(?:, ?[0-9]{1,12}){0,8},?)\), \} *\n",
    re.DOTALL,
)


def save_archive(articulation: Articulation, path: str | os.PathLike[str]) -> list[Issue]:
    """Writes an articulation without loss: :func:`load_archive` restores it bit for bit.

    Args:
      articulation: any articulation; its arrays may have leading batch axes.
      path: the file, usually ``*.npz``.

    Returns:
      An empty list: the format expresses everything.

    Raises:
      TypeError: its arrays are not of float32 or float64, or it is no articulation.
      ValueError: a builder would refuse one of the numbers, such as a NaN or a negative mass.
      OSError: the file cannot be written.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm.npz"
      >>> print(artix.io.save_archive(artix.robots.load("arm7"), path), path.exists())
      [] True
    """
    arrays = written_arrays(articulation)
    topology = articulation.topology
    header = write_header(topology, articulation.absent)
    if read_header(header)[0].topology != topology:
        raise ValueError(
            "two of its joints and degrees of freedom share a name; rename one before saving"
        )
    write_atomically(path, lambda part: _write(part, header, arrays))
    return []


def _write(path: Path, header: str, arrays: dict[str, np.ndarray]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), header)
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())


def load_archive(
    path: str | os.PathLike[str], *, dtype: Any = None, keep_zeros: bool = False
) -> Articulation:
    """Reads an articulation that :func:`save_archive` wrote; safe on files of unknown origin.

    Args:
      path: the file.
      dtype: floating-point type of the arrays; ``None`` keeps the file's if JAX's x64 mode allows
        it.
      keep_zeros: as for :func:`artix.load`; the zeros of a batch are those that all its robots
        have.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the file is not such an archive, is damaged or of a later version, or holds
        numbers that a builder would refuse.
      OSError: the file cannot be read.

    Identity: ``load_archive`` of what ``save_archive(a, path)`` wrote equals ``a``, bit for bit.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm.npz"
      >>> arm = artix.robots.load("arm7")
      >>> _ = artix.io.save_archive(arm, path)
      >>> print(artix.io.load_archive(path).topology == arm.topology)
      True
    """
    try:
        articulation = _read(Path(path))
    except (ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        fix = "write the file again with artix.save"
        raise DescriptionError(
            [Issue("error", os.fspath(path), 1, "archive", str(error), fix)]
        ) from None
    for issue in _odd_names(articulation, os.fspath(path)):
        warnings.warn(str(issue), DescriptionWarning, stacklevel=2)
    robot = jax.tree.map(lambda array: device_array(array, dtype), articulation)
    return zeros.keep_zeros(robot) if keep_zeros else robot


def check_archive(
    path: str | os.PathLike[str], *, dtype: Any = None, keep_zeros: bool = False
) -> list[Issue]:
    """Checks an archive.

    Args:
      path: the file.
      dtype: as for :func:`load_archive`.
      keep_zeros: as for :func:`load_archive`.

    Returns:
      A single error; or, if :func:`load_archive` reads the file, its warnings.

    Raises:
      OSError: the file cannot be read.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm.npz"
      >>> _ = artix.io.save_archive(artix.robots.load("arm7"), path)
      >>> print(artix.io.check_archive(path))  # no issues
      []
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        try:
            return _odd_names(
                load_archive(path, dtype=dtype, keep_zeros=keep_zeros), os.fspath(path)
            )
        except DescriptionError as error:
            return list(error.issues)


def _odd_names(articulation: Articulation, file: str) -> list[Issue]:
    """A warning if names have characters that are not printed, such as those with which terminals
    are commanded.
    """
    topology = articulation.topology
    names = (
        topology.name,
        *topology.link_names,
        *topology.joint_names,
        *topology.frame_names,
        *(tendon.name for tendon in topology.fixed_tendons),
        *(tendon.name for tendon in topology.spatial_tendons),
        *(joint.name for joint in topology.loop_joints),
        *(shape.name for shape in topology.geometries),
    )
    odd = [
        name
        for name in names
        if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name)
    ]
    if not odd:
        return []
    message = (
        "names with control characters: "
        f"{', '.join(map(repr, odd[:3]))}{', ...' if odd[3:] else ''}"
    )
    return [
        Issue(
            "warning", file, 1, "archive", message, "rename them in the program that wrote the file"
        )
    ]


def _read(path: Path) -> Articulation:
    """The articulation in a file, with arrays of NumPy."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        members = {info.filename: info for info in entries}
        # Without compression and overlaps, the content cannot exceed the file.
        if any(info.compress_type != zipfile.ZIP_STORED for info in entries):
            raise ValueError("its members must not be compressed")
        too_much = sum(info.file_size for info in members.values()) > size
        if (
            too_much
            or len(members) != len(entries)
            or any(info.header_offset < 0 for info in entries)
        ):
            raise ValueError("its table of contents is damaged")
        if _HEADER not in members or members[_HEADER].file_size > _LARGEST_HEADER:
            raise ValueError(f"it has no {_HEADER}, or one of more than {_LARGEST_HEADER} bytes")
        articulation, absent = read_header(archive.read(_HEADER).decode("utf-8"))
        expected = named_arrays(articulation)
        required = {_HEADER, *(f"{name}.npy" for name in expected)}
        optional = _ADDED if articulation.geometry.size.size else _ADDED | _GEOMETRY
        wrong = (required ^ set(members)) - {f"{name}.npy" for name in optional}
        if wrong:
            raise ValueError(f"its members do not match its header: {', '.join(sorted(wrong)[:5])}")
        arrays = {
            name: _array(name, archive.read(f"{name}.npy"), like.shape)
            for name, like in expected.items()
            if f"{name}.npy" in members
        }
    mass = arrays["link_mass"]
    for name in optional - set(arrays):
        arrays[name] = np.zeros((*mass.shape[:-1], *expected[name].shape), mass.dtype)
    check_values(arrays)
    read = _with_computed_faces(articulation.replace(**arrays))
    lean = without_zeros(read)
    if absent is None:
        return lean
    if false := sorted({*absent} - {*lean.absent}):
        raise ValueError(f"its robot lacks what has numbers: {', '.join(false[:5])}")
    return without(read, absent)


def _array(name: str, content: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Parses one ``.npy`` member in the exact form that artix writes; NumPy's reader would evaluate
    the header.
    """
    match = _NPY.match(content)
    if match is None or int.from_bytes(match[1], "little") != match.end() - 10:
        raise ValueError(f"{name}: it is not an array of floats in the form that artix writes")
    dtype = np.dtype(match[2].decode())
    stored = tuple(int(size) for size in match[3].split(b",") if size.strip())
    leading = len(stored) - len(shape)
    if leading < 0 or stored[leading:] != shape:
        raise ValueError(
            f"{name}: expected shape (..., {', '.join(map(str, shape))}), found {stored}"
        )
    if math.prod(stored) * dtype.itemsize != len(content) - match.end():
        raise ValueError(f"{name}: its length does not match its shape")
    return np.frombuffer(content, dtype, offset=match.end()).reshape(stored)


# --- the structure, as JSON that the builder reads, which refuses what is inconsistent ----------

FORMAT, VERSION = "artix articulation", 1


class MalformedHeaderError(ValueError):
    """The header is malformed; the message says where and why."""


def write_header(topology: Topology, absent: Sequence[str]) -> str:
    """Encodes a topology as JSON text: links in the order of their creation, all references by
    name.

    ``absent`` are the names of the arrays that the robot lacks; their numbers are in the file too.
    """
    joints = ("", *topology.joint_names)
    names = topology.link_names
    dofs = topology.dof_names
    order = sorted(range(topology.num_links), key=lambda link: topology.creation_index[link])
    frames = zip(topology.frame_names, topology.frame_links, strict=True)
    links = [
        {
            "name": names[link],
            "parent": _encode(topology, "link", topology.parent[link]),
            "joint": joints[link],
            "joint_type": topology.joint_types[link].name.lower(),
            "axes": _encode(topology, "axes", topology.joint_axes[link]),
        }
        for link in order
    ]
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": topology.name,
        "fixed_base": topology.fixed_base,
        "links": links,
        "frames": [{"name": name, "link": names[link]} for name, link in frames],
        "mimics": [
            {"follower": dofs[one], "reference": dofs[other]} for one, other in topology.mimic_dofs
        ],
    }
    for section in ("fixed_tendons", "spatial_tendons", "loop_joints", "geometries"):
        header[section] = [
            {
                field.name: _encode(topology, field.name, getattr(part, field.name))
                for field in dataclasses.fields(part)
            }
            for part in getattr(topology, section)
        ]
    header["absent"] = list(absent)
    header["geometry_pairs"] = [list(pair) for pair in topology.geometry_pairs]
    return json.dumps(header, indent=1)


def _encode(topology: Topology, name: str, value: Any) -> Any:
    """The value of a field as JSON has it: links and degrees of freedom by name, kinds and axes in
    words.
    """
    if isinstance(value, HullFaces):
        return [value.loops, value.corners]
    if isinstance(value, tuple):
        return [_encode(topology, name, entry) for entry in value]
    if name in ("link", "links", "root_link", "link_a", "link_b"):
        return None if value < 0 else topology.link_names[value]
    if name == "dofs":
        return topology.dof_names[value]
    if isinstance(value, Axis):
        return value.name.lower()
    return value.value if isinstance(value, enum.Enum) else value


def read_header(text: str) -> tuple[Articulation, list[str] | None]:
    """Builds an articulation with the structure that a header describes; its numbers are
    placeholders.

    Also returns the names of the arrays that the robot lacks, ``None`` in files of earlier
    versions.

    Raises:
      ValueError: the header is malformed, of another format or version, or describes an invalid
        structure.
    """
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedHeaderError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise MalformedHeaderError(f"the header is not of the format {FORMAT!r}")
    version = _get(header, "version", int)
    if version != VERSION:
        raise MalformedHeaderError(
            f"the file has version {version}; this artix reads version {VERSION}"
        )
    # Files written by earlier versions have no geometries, or no pairs of them.
    shapes: dict[str, list[tuple[str | None, Geometry]]] = {}
    for record in _records(header, "geometries") if "geometries" in header else ():
        shapes.setdefault(_get(record, "link", str), []).append(
            (_get(record, "name", str), _geometry(record))
        )
    pairs = _list(header, "geometry_pairs", list) if "geometry_pairs" in header else []
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise MalformedHeaderError(
                f"'geometry_pairs' has an entry that is not a pair of names: {pair!r:.60}"
            )
    links: list[LinkDescription] = []
    names: set[str] = set()
    for record in _records(header, "links"):
        link = _link(record, names)
        if link.name in names:
            raise MalformedHeaderError(f"link {link.name!r:.60}: the name is taken")
        links.append(dataclasses.replace(link, geometries=shapes.get(link.name, ())))
        names.add(link.name)
    for name in shapes:
        _check_link(names, name)
    description = Description(
        name=_get(header, "name", str),
        fixed_base=_get(header, "fixed_base", bool),
        links=links,
        frames=[
            Frame(_get(record, "name", str), _get(record, "link", str))
            for record in _records(header, "frames")
        ],
        contact_pairs=pairs,
        couplings=[
            *(_mimic(record) for record in _records(header, "mimics")),
            *(_fixed_tendon(record) for record in _records(header, "fixed_tendons")),
            *(_spatial_tendon(record) for record in _records(header, "spatial_tendons")),
            *(_loop_joint(record) for record in _records(header, "loop_joints")),
        ],
    )
    absent = _list(header, "absent", str) if "absent" in header else None
    records = _records(header, "geometries") if "geometries" in header else []
    return _with_faces(build(description), records), absent


def _link(record: dict[str, Any], above: Collection[str]) -> LinkDescription:
    name = _get(record, "name", str)
    parent = _get(record, "parent", str, optional=True)
    if parent is None:
        return LinkDescription(name)
    kind = _member(JointType, _get(record, "joint_type", str))
    joint = Joint(type=kind, axes=_axes(record, "axes"), name=_get(record, "joint", str))
    return LinkDescription(name, _check_link(above, parent), joint)


def _mimic(record: dict[str, Any]) -> MimicJoint:
    return MimicJoint(
        follower=_get(record, "follower", str),
        reference=_get(record, "reference", str),
        gear_ratio=1.0,
    )


def _fixed_tendon(record: dict[str, Any]) -> FixedTendon:
    dofs = _list(record, "dofs", str)
    parents = _list(record, "parents", int)
    joints = [
        TendonJoint(dof=dof, coefficient=1.0, recip_coefficient=1.0, parent=parent)
        for dof, parent in _pairs(record, dofs, parents)
    ]
    return FixedTendon(
        name=_get(record, "name", str), joints=joints, root_link=_get(record, "root_link", str)
    )


def _spatial_tendon(record: dict[str, Any]) -> SpatialTendon:
    links = _list(record, "links", str)
    parents = _list(record, "parents", int)
    names = _list(record, "attachment_names", (str, type(None)))
    points = [
        Attachment(
            link=link,
            position=(0.0, 0.0, 0.0),
            parent=parent,
            name=name,
            rest_length=None if k in parents else 0.0,
        )
        for k, ((link, parent), name) in enumerate(
            _pairs(record, list(_pairs(record, links, parents)), names)
        )
    ]
    return SpatialTendon(name=_get(record, "name", str), attachments=points)


def _loop_joint(record: dict[str, Any]) -> LoopJoint:
    kind = LoopJointType(_get(record, "type", str))
    axes = _axes(record, "locked_axes")
    joint = LoopJoint(
        name=_get(record, "name", str),
        link_a=_get(record, "link_a", str, optional=True),
        link_b=_get(record, "link_b", str),
        type=kind,
        locked_axes=axes if kind is LoopJointType.D6 else None,
    )
    if tuple(joint.locked_axes or ()) != axes:
        raise MalformedHeaderError(
            f"loop joint {joint.name!r}: its locked axes are not those of its type"
        )
    return joint


def _geometry(record: dict[str, Any]) -> Geometry:
    kind = GeometryType(_get(record, "type", str))
    count = _get(record, "num_points", int)
    # A damaged count must not allocate memory; one point too many is enough for the builder to
    # refuse it. Points of a curve are corners of a hull, so that it may touch others.
    places = np.arange(min(count, LARGEST_HULL + 1))[:, None] / max(count, 1)
    points = places ** (1, 2, 3) if kind is GeometryType.HULL else None
    if count and points is None:
        raise MalformedHeaderError(f"geometry {record.get('name')!r:.60}: only a hull has points")
    return Geometry(
        type=kind,
        size=(1.0,) * SIZE_NUMBERS[kind],
        points=points,
        sensor=_get(record, "sensor", bool),
    )


def _with_faces(articulation: Articulation, records: Sequence[dict[str, Any]]) -> Articulation:
    """The articulation with the faces of hulls as a file has them."""
    faces = {_get(record, "name", str): _faces(record) for record in records}
    return _replaced_faces(articulation, lambda shape, _: faces[shape.name])


def _with_computed_faces(articulation: Articulation) -> Articulation:
    """The articulation with faces of those hulls of which files of earlier versions have none."""
    points = np.asarray(articulation.geometry.point, float)
    points = points.reshape(-1, *points.shape[-2:])[0] if points.size else np.zeros((0, 3))
    return _replaced_faces(
        articulation,
        lambda shape, first: (
            shape.faces
            if shape.faces.loops
            else hull_faces(points[first : first + shape.num_points])
        ),
    )


def _replaced_faces(
    articulation: Articulation, faces: Callable[[GeometryStructure, int], HullFaces]
) -> Articulation:
    """The articulation with other faces of each shape, given the index of its first point."""
    topology = articulation.topology
    first, shapes = 0, []
    for shape in topology.geometries:
        shapes.append(dataclasses.replace(shape, faces=faces(shape, first)))
        first += shape.num_points
    topology = dataclasses.replace(topology, geometries=tuple(shapes))
    return articulation.replace(topology=topology)


def _faces(record: dict[str, Any]) -> HullFaces:
    value, count = record.get("faces", [[], []]), _get(record, "num_points", int)
    try:
        loops, corners = ([tuple(one) for one in part] for part in value)
        numbers = [number for one in (*loops, *corners) for number in one]
        is_good = len(loops) == len(corners) and all(len(one) == 4 for one in corners)
        is_good &= all(len(loop) > 2 for loop in loops)
        is_good &= all(type(number) is int and 0 <= number < count for number in numbers)
    except (TypeError, ValueError):
        is_good = False
    if not is_good:
        raise MalformedHeaderError(f"geometry {record.get('name')!r:.60}: its faces are malformed")
    return HullFaces(tuple(loops), tuple(corners))


# --- typed access -------------------------------------------------------------------------------


def _get(record: dict[str, Any], key: str, kind: Any, *, optional: bool = False) -> Any:
    value = record.get(key)
    if value is None and optional:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise MalformedHeaderError(
            f"{key!r} must be of type {getattr(kind, '__name__', kind)}; found {value!r:.60}"
        )
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


def _check_link(links: Collection[str], name: str) -> str:
    if name not in links:
        raise MalformedHeaderError(f"there is no link called {name!r:.60}")
    return name
