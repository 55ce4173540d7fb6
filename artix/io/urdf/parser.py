"""Parses the XML of a URDF into plain records, reporting every mistake with its line.

Malformed shapes cause only a warning, because dynamics does not need them.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from artix.io.common.description import LinkDescription, ReadOptions, Surface
from artix.io.common.diagnostics import Location, Report
from artix.io.common.meshes import (
    Meshes,
    MeshShape,
    Packages,
    find_file,
    mesh_shape,
    read_vertices,
    summarize_errors,
)
from artix.io.common.poses import quaternion_from_rpy
from artix.io.common.xml_tree import (
    Element,
    origin,
    read_child,
    read_name,
    read_number,
    read_numbers,
    read_xml,
)
from artix.model.geometry import Geometry

#: Joints with one degree of freedom.
MOVING_TYPES = ("revolute", "continuous", "prismatic")
#: Joints with several degrees of freedom, for which URDF defines no limits and no dynamics.
COMPOSITE_TYPES = ("planar", "floating")

_XACRO = re.compile(r"\$[{(]")


@dataclasses.dataclass(frozen=True)
class UrdfLink:
    """A ``<link>``.

    Attributes:
      body: its name, mass properties and shapes, not yet joined to its parent.
      element: the XML element.
      inertial: the ``<inertial>`` element that its mass properties come from, if there is one.
      lost: whether a mesh of its ``<collision>`` is left out.
    """

    body: LinkDescription
    element: Element
    inertial: Element | None = None
    lost: bool = False


@dataclasses.dataclass(frozen=True)
class UrdfMimic:
    """A ``<mimic>``: the position is ``multiplier`` times the position of ``joint``, plus
    ``offset``.
    """

    element: Element
    joint: str
    multiplier: float
    offset: float


@dataclasses.dataclass(frozen=True)
class UrdfJoint:
    """A ``<joint>``; units are metres or radians, the origin is a pose in the parent link's frame,
    shape [7].
    """

    name: str
    element: Element
    type: str
    parent: str
    child: str
    origin: np.ndarray
    axis: np.ndarray
    limits: tuple[float, float] | None = None
    max_force: float = np.inf
    max_velocity: float = np.inf
    damping: float = 0.0
    friction: float = 0.0
    mimic: UrdfMimic | None = None


@dataclasses.dataclass(frozen=True)
class UrdfRobot:
    """A ``<robot>``: its links and joints by name, in the order of the file."""

    name: str
    element: Element
    links: dict[str, UrdfLink]
    joints: dict[str, UrdfJoint]

    @property
    def is_complete(self) -> bool:
        """Whether every link and joint of the file has a unique name, and every joint a parent and
        a child.
        """
        elements = self.element.all("link"), self.element.all("joint")
        return (len(self.links), len(self.joints)) == tuple(map(len, elements))


def parse_urdf(path_or_text: str | Path, report: Report, options: ReadOptions) -> UrdfRobot | None:
    """Reads links and joints one by one.

    :mod:`artix.io.urdf.reader` checks that they are consistent.

    Args:
      path_or_text: a path, or the URDF itself.
      report: receives the issues.
      options: of the reader.

    Returns:
      The robot, ``None`` if the document is not a URDF. Values that could not be read are
      placeholders.
    """
    element = read_xml(path_or_text, report)
    if element is None or not _is_urdf(element, report):
        return None
    folder = MeshFolder(origin(path_or_text)[1], options.meshes, options.packages)
    links: dict[str, UrdfLink] = {}
    for child in element.all("link"):
        name = _unique_name(child, links, report)
        if name is not None:
            links[name] = _link(name, child, report, folder)
    if options.meshes is not None:
        summarize_errors(report, element, options.meshes, folder.errors)
    joints: dict[str, UrdfJoint] = {}
    for child in element.all("joint"):
        name = _unique_name(child, joints, report)
        joint = None if name is None else _joint(name, child, report)
        if joint is not None:
            joints[joint.name] = joint
    if not element.all("link"):
        report.error(element, "it has no <link>", "describe at least one link")
    return UrdfRobot(element.attributes.get("name", "").strip() or "robot", element, links, joints)


def _is_urdf(robot: Element, report: Report) -> bool:
    xacro = _find_xacro(robot)
    if xacro is not None:
        message = "this is a xacro file, which must be expanded to a URDF first"
        report.error(
            xacro, message, "read it with load_xacro, or run `xacro robot.urdf.xacro > robot.urdf`"
        )
        return False
    if robot.tag != "robot":
        fix = (
            "read it with load_mjcf" if robot.tag == "mujoco" else "check that this file is a URDF"
        )
        report.error(robot, "the outermost element of a URDF is <robot>", fix)
        return False
    if not robot.attributes.get("name", "").strip():
        report.warning(
            robot, "the robot has no name; it will be called 'robot'", 'write <robot name="...">'
        )
    return True


def _find_xacro(robot: Element) -> Element | None:
    """The first element that uses xacro, not counting the namespace declaration, which expanded
    files keep.
    """
    pending = [robot]
    while pending:
        element = pending.pop()
        if element.tag.startswith("xacro:") or any(map(_XACRO.search, element.attributes.values())):
            return element
        pending += reversed(element.children)
    return None


def _unique_name(element: Element, known: dict, report: Report) -> str | None:
    name = read_name(report, element)
    if name is None:
        return None
    if name in known:
        line = known[name].element.line
        message = f"a second {element.tag} called {name!r}; the first is on line {line}"
        report.error(element, message, f"give every {element.tag} its own name")
        return None
    return name


# --- links --------------------------------------------------------------------------------------


def _link(name: str, element: Element, report: Report, folder: MeshFolder) -> UrdfLink:
    mass, inertial = _inertial(element, report)
    shapes = read_collisions(element, report, folder)
    lost = folder.meshes is None and has_mesh(element)
    return UrdfLink(LinkDescription(name, **mass, geometries=shapes), element, inertial, lost)


def _inertial(element: Element, report: Report) -> tuple[dict[str, Any], Element | None]:
    """The mass properties of a link, as arguments of its description, and the ``<inertial>`` that
    has them.
    """
    inertial = read_child(report, element, "inertial")
    if inertial is None:
        return {}, None
    com_pose = read_origin(inertial, report)
    before = report.num_errors
    mass = read_number(report, read_child(report, inertial, "mass"), "value", 0.0)
    moments = read_child(report, inertial, "inertia")
    xx, yy, zz = (read_number(report, moments, key, 0.0) for key in ("ixx", "iyy", "izz"))
    xy, xz, yz = (read_number(report, moments, key, 0.0) for key in ("ixy", "ixz", "iyz"))
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if report.num_errors > before or _lacks(
        inertial, "mass", ("value",), "read as massless", report
    ):
        return {}, None
    if _lacks(
        inertial, "inertia", ("ixx", "iyy", "izz"), "read without rotational inertia", report
    ):
        return {"mass": mass, "com_pose": com_pose}, inertial if mass < 0.0 else None
    return {"mass": mass, "com_pose": com_pose, "inertia": inertia}, inertial


def _lacks(
    inertial: Element, tag: str, attributes: tuple[str, ...], reading: str, report: Report
) -> bool:
    """Whether an ``<inertial>`` lacks an element or one of its attributes; if so, what it is read
    as is reported.
    """
    present = inertial.all(tag)
    missing = [name for name in attributes if present and name not in present[0].attributes]
    if present and not missing:
        return False
    what = f"the attribute {missing[0]!r} is missing" if missing else f"it has no <{tag}>"
    place = present[0] if missing else inertial
    wanted = " ".join(f'{name}="..."' for name in attributes)
    report.changed(place, f"{what}: {reading}, as Pinocchio does", f"write <{tag} {wanted}/>")
    return True


# --- joints -------------------------------------------------------------------------------------


def _joint(name: str, element: Element, report: Report) -> UrdfJoint | None:
    """The joint; ``None`` if its parent or child cannot be read."""
    kind = _joint_type(element, report)
    ends = [read_child(report, element, tag, required=True) for tag in ("parent", "child")]
    parent, child = (None if end is None else read_name(report, end, "link") for end in ends)
    origin = read_origin(element, report)
    mimic = _mimic(element, report)
    joint = UrdfJoint(
        name,
        element,
        kind,
        parent or "",
        child or "",
        origin,
        np.array([1.0, 0.0, 0.0]),
        mimic=mimic,
    )
    if kind == "planar":
        joint = dataclasses.replace(joint, axis=_axis(element, report))
    if kind in COMPOSITE_TYPES:
        for tag in ("limit", "dynamics"):
            ignored = read_child(report, element, tag)
            if ignored is not None:
                report.warning(
                    ignored, f"URDF defines no <{tag}> for a {kind} joint; ignored", "remove it"
                )
    if kind in MOVING_TYPES:
        limits, max_force, max_velocity = _limit(element, kind, report)
        dynamics = read_child(report, element, "dynamics")
        joint = dataclasses.replace(
            joint,
            axis=_axis(element, report),
            limits=limits,
            max_force=max_force,
            max_velocity=max_velocity,
            damping=_not_negative(report, dynamics, "damping", 0.0),
            friction=_not_negative(report, dynamics, "friction", 0.0),
        )
    return joint if parent is not None and child is not None else None


def _joint_type(element: Element, report: Report) -> str:
    kind = element.attributes.get("type")
    known = ("fixed", *MOVING_TYPES, *COMPOSITE_TYPES)
    if kind is not None and kind in known:
        return kind
    message = "the joint has no type" if kind is None else f"unknown joint type {kind[:60]!r}"
    report.error(element, message, f"choose one of: {', '.join(known)}")
    return "fixed"


def _axis(element: Element, report: Report) -> np.ndarray:
    axis_element = read_child(report, element, "axis")
    axis = np.array(read_numbers(report, axis_element, "xyz", (1.0, 0.0, 0.0)))
    if axis_element is not None and "xyz" not in axis_element.attributes:
        report.changed(
            axis_element, "the attribute 'xyz' is missing: read as the x axis", 'write xyz="..."'
        )
    length = float(np.linalg.norm(axis))
    if axis_element is not None and length < 1e-9:
        report.error(
            axis_element,
            "the joint axis has length zero",
            'give the axis a direction, such as xyz="0 0 1"',
        )
        return np.array([1.0, 0.0, 0.0])
    return axis / length


def _limit(
    element: Element, kind: str, report: Report
) -> tuple[tuple[float, float] | None, float, float]:
    """Position limits, effort limit and velocity limit."""
    limit = read_child(report, element, "limit")
    if limit is None:
        if kind != "continuous":
            report.changed(
                element, f"a {kind} joint without <limit> is read as unlimited", "add its <limit>"
            )
        return None, np.inf, np.inf
    max_force, max_velocity = _bounds(limit, report)
    if kind == "continuous":
        if "lower" in limit.attributes or "upper" in limit.attributes:
            message = "a continuous joint has no position limits; lower and upper are ignored"
            report.warning(limit, message, "make it a revolute joint if they should hold")
        return None, max_force, max_velocity
    if "lower" not in limit.attributes and "upper" not in limit.attributes:
        message = (
            "neither lower nor upper is given: read as unlimited, though URDF's defaults of 0 "
            "would lock the joint"
        )
        report.changed(limit, message, "give both, or make a revolute joint continuous")
        return None, max_force, max_velocity
    lower, upper = (read_number(report, limit, key, 0.0) for key in ("lower", "upper"))
    if lower > upper:
        unlimited = "read as unlimited, as in Bullet and MuJoCo"
        message = f"the lower limit {lower:g} exceeds the upper limit {upper:g}; {unlimited}"
        several = f"the lower limit exceeds the upper one; {unlimited}"
        report.changed(
            limit, message, "swap or correct them, or make a revolute joint continuous", several
        )
        return None, max_force, max_velocity
    if lower == upper:
        message = f"both limits are {lower:g}, which locks the joint"
        fix = "widen them if it is to move"
        report.warning(limit, message, fix, "both limits are equal, which locks the joint")
    return (lower, upper), max_force, max_velocity


def _bounds(limit: Element, report: Report) -> tuple[float, float]:
    """The limits of effort and velocity. Zeros that exporters write for unknown limits are none.

    With a velocity, an effort of zero makes sense: the joint is passive.
    """
    effort, velocity = (
        _not_negative(report, limit, name, np.inf) for name in ("effort", "velocity")
    )
    if velocity == 0.0:
        fix = "write the joint's velocity, or remove the attribute"
        report.changed(
            limit, "velocity is 0, which would lock the joint; read as no limit, as in MuJoCo", fix
        )
    if effort == 0.0 and velocity in (0.0, np.inf):
        fix = "write the joint's effort, or remove the attribute"
        report.changed(
            limit,
            "effort is 0, and so is velocity or it is missing; read as no limit, as in MuJoCo",
            fix,
        )
        effort = np.inf
    return effort, velocity or np.inf


def _not_negative(
    report: Report, element: Element | None, attribute: str, fallback: float
) -> float:
    value = read_number(report, element, attribute, fallback)
    if element is not None and value < 0.0:
        report.error(
            element,
            f"{attribute} is {value:g}, but must not be negative",
            "remove the sign or the attribute",
        )
        return fallback
    return value


def _mimic(element: Element, report: Report) -> UrdfMimic | None:
    mimic = read_child(report, element, "mimic")
    reference = None if mimic is None else read_name(report, mimic, "joint")
    if mimic is None or reference is None:
        return None
    multiplier = read_number(report, mimic, "multiplier", 1.0)
    return UrdfMimic(mimic, reference, multiplier, read_number(report, mimic, "offset", 0.0))


# --- shapes -------------------------------------------------------------------------------------

KINDS = ("sphere", "capsule", "box", "cylinder", "mesh")


@dataclasses.dataclass
class MeshFolder:
    """Where the meshes of a description are, and how to replace them.

    Attributes:
      base: the folder that paths are relative to.
      meshes: the replacement; ``None`` leaves meshes out.
      packages: folders of ROS packages by name.
      errors: :attr:`~artix.io.common.meshes.MeshShape.error` by link name.
    """

    base: Path
    meshes: Meshes | None
    packages: Packages | None = None
    errors: dict[str, float] = dataclasses.field(default_factory=dict)


def read_collisions(
    link: Element, report: Report, folder: MeshFolder
) -> tuple[tuple[str | None, Geometry], ...]:
    """The shapes of a link with their names, ``None`` for unnamed ones.

    Args:
      link: the ``<link>``.
      report: receives a warning for each malformed shape, and an error for each unreadable mesh.
      folder: where meshes are and how to replace them.
    """
    shapes: list[tuple[str | None, Geometry]] = []
    for element in link.all("collision"):
        trial = Report(report.file)
        shape = read_shape(element, trial)
        if trial.num_errors:
            for issue in trial.errors:
                report.changed(element, f"left out: {issue.message}", issue.fix)
        else:
            for issue in trial.issues:
                report.changed(Location(issue.element, issue.line), issue.message, issue.fix)
        if shape is None and not trial.num_errors and folder.meshes is not None:
            replacement = _mesh(element, report, folder, folder.meshes)
            name = link.attributes.get("name", "")
            if replacement is not None:
                folder.errors[name] = max(folder.errors.get(name, 0.0), replacement.error)
                shape = replacement.geometry
        if shape is not None and not trial.num_errors:
            shapes.append((element.attributes.get("name", "").strip() or None, shape))
    return tuple(shapes)


def _mesh(
    collision: Element, report: Report, folder: MeshFolder, meshes: Meshes
) -> MeshShape | None:
    """The shape that replaces the mesh of a ``<collision>``; ``None``, and an error, if the mesh
    cannot be read.
    """
    (geometry,) = collision.all("geometry")
    (element,) = geometry.all("mesh")
    name = element.attributes.get("filename", "")
    fix = "correct the file, or leave meshes out (meshes=None)"
    path = find_file(name, folder.base, packages=folder.packages) if name else None
    if path is None:
        fix = (
            "paths are relative to the folder of the URDF; package:// is searched above it and in "
            "ROS_PACKAGE_PATH, "
        )
        fix += "and packages={name: folder} says where a package is"
        report.error(
            element, f"there is no file {name!r}", f"{fix}; or leave meshes out (meshes=None)"
        )
        return None
    scale = read_numbers(report, element, "scale", (1.0, 1.0, 1.0))
    try:
        points = read_vertices(path) * np.asarray(scale)
        return mesh_shape(points, meshes, read_origin(collision, report))
    except ValueError as error:
        report.error(element, str(error), fix)
        return None


def has_mesh(link: Element) -> bool:
    """Whether a ``<collision>`` of a link is a mesh."""
    return any(
        geometry.all("mesh")
        for collision in link.all("collision")
        for geometry in collision.all("geometry")
    )


def read_shape(collision: Element, report: Report) -> Geometry | None:
    """The shape of a ``<collision>`` or ``<visual>``; ``None`` for a mesh or after an error."""
    geometry = read_child(report, collision, "geometry", required=True)
    shapes = (
        [child for child in geometry.children if child.tag in KINDS] if geometry is not None else []
    )
    if geometry is None or len(shapes) != 1:
        report.error(
            collision, f"its <geometry> must be one of {', '.join(KINDS)}", "write exactly one"
        )
        return None
    (shape,) = shapes
    if shape.tag == "mesh":
        return None
    pose = read_origin(collision, report)
    if shape.tag == "box":
        size = tuple(
            0.5 * edge
            for edge in read_numbers(report, shape, "size", (0.0, 0.0, 0.0), required=True)
        )
    elif shape.tag == "sphere":
        size = (read_number(report, shape, "radius", 0.0, required=True),)
    else:
        radius, length = (
            read_number(report, shape, key, 0.0, required=True) for key in ("radius", "length")
        )
        size = (radius, 0.5 * length)
    if min(size) < 0.0:
        report.error(shape, "a size is negative", "drop the sign")
        return None
    return Geometry(type=shape.tag, size=size, pose=pose)  # type: ignore[arg-type]


def read_origin(element: Element, report: Report) -> np.ndarray:
    """The pose given by an element's ``<origin>``, shape [7]; the identity if it has none."""
    origin = read_child(report, element, "origin")
    position = read_numbers(report, origin, "xyz", (0.0, 0.0, 0.0))
    angles = read_numbers(report, origin, "rpy", (0.0, 0.0, 0.0))
    return np.concatenate([position, quaternion_from_rpy(*angles)])


# --- visuals ------------------------------------------------------------------------------------

Color = tuple[float, float, float]


def urdf_visuals(path_or_text: str | Path) -> list[Surface]:
    """The visuals of a URDF, and the collision shapes that replace those whose meshes cannot be
    read.

    A URDF without visuals is drawn by its collision shapes.

    Raises:
      DescriptionError: the document is not XML.
      OSError: it cannot be read.
    """
    report = Report(origin(path_or_text)[0])
    robot = read_xml(path_or_text, report)
    report.raise_errors()
    assert robot is not None  # Otherwise there are errors.
    materials = {
        element.attributes.get("name", ""): _color(element, report)
        for element in robot.all("material")
    }
    bare = not any(link.all("visual") for link in robot.all("link"))
    surfaces: list[Surface] = []
    for link in robot.all("link"):
        parts = [_surface(link, visual, materials, report) for visual in link.all("visual")]
        surfaces += filter(None, parts)
        if bare or parts:
            role: Any = "collision" if bare or not all(parts) else "substitute"
            shapes = [_surface(link, shape, {}, report) for shape in link.all("collision")]
            surfaces += [shape._replace(role=role) for shape in shapes if shape is not None]
    return surfaces


def _surface(
    link: Element, visual: Element, materials: dict[str, Color | None], report: Report
) -> Surface | None:
    """The surface of a ``<visual>`` or ``<collision>``; ``None`` if it is malformed."""
    name = link.attributes.get("name", "")
    pose = read_origin(visual, report)
    material = read_child(report, visual, "material")
    color = None
    if material is not None:
        color = _color(material, report) or materials.get(material.attributes.get("name", ""))
    meshes = [mesh for geometry in visual.all("geometry") for mesh in geometry.all("mesh")]
    if meshes:
        scale = read_numbers(report, meshes[0], "scale", (1.0, 1.0, 1.0))
        return Surface(name, meshes[0].attributes.get("filename", ""), pose, color, scale=scale)
    shape = read_shape(visual, report)
    return None if shape is None else Surface(name, shape, np.asarray(shape.pose), color)


def _color(material: Element, report: Report) -> Color | None:
    color = read_child(report, material, "color")
    if color is None:
        return None
    red, green, blue, _ = read_numbers(report, color, "rgba", (0.7, 0.7, 0.7, 1.0))
    return red, green, blue
