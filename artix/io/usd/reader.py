"""Reads an articulation and its state from USD with the UsdPhysics and PhysX schemas, and reports
mistakes.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Unpack

import numpy as np

from artix.io.common.description import (
    Description,
    Frame,
    InitialState,
    LinkDescription,
    Reading,
    ReadOptions,
    Robot,
    Surface,
    UsdOptions,
    build,
    build_state,
    check_inertias,
    merge_links,
    takes,
)
from artix.io.common.diagnostics import Issue, Location, Report
from artix.io.common.poses import IDENTITY, compose, inverse, joint_motion, rotation_matrix
from artix.io.usd.articulation import UsdArticulation, read_articulation
from artix.io.usd.colliders import read_shape
from artix.io.usd.contacts import UsdShape, self_contact_pairs, touches_others
from artix.io.usd.couplings import read_couplings
from artix.io.usd.joints import UsdJoint, enclosing
from artix.io.usd.mass_properties import triangulate
from artix.io.usd.stage import (
    DEGREE,
    UsdPrim,
    UsdScene,
    import_pxr,
    is_usd_text,
    note_usd_error,
    open_stage,
)
from artix.io.usd.tree import is_between
from artix.model.articulation import Articulation, State


@takes(UsdOptions)
def load_usd(path_or_text_or_stage: Any, **options: Unpack[UsdOptions]) -> Articulation:
    """Reads an articulation from USD with the package ``usd-core`` (``pip install 'artix[usd]'``),
    without plugins.

    The reader supports the schemas of UsdPhysics and PhysX for rigid bodies, mass properties
    (authored, or computed from colliders), joints of all types, limits, drives, friction, mimic
    joints, tendons and loop joints. It follows PhysX's rules for the choice of the root body, the
    joint that fixes it, and the order of links. Units are converted to SI and radians, with z up.
    What affects the motion and is not supported raises a :class:`~artix.DescriptionWarning`, one of
    a kind. :func:`check_usd` lists these and, as notes, what else was not read.

    A joint whose ``physics:body1`` is the parent has PhysX's coordinates, whose sign is opposite to
    USD's. A property that is not authored has PhysX's default if its schema is applied, and no
    effect otherwise.

    Args:
      path_or_text_or_stage: a path, USD text (a string that begins with ``#usda``), or an open
        ``pxr.Usd.Stage``.
      **options: keywords that :func:`artix.load` describes, and ``root``, the path of the prim to
        use as the root of the articulation: a body, a joint to the world (which fixes the base) or
        a prim above the bodies. Without a joint to the world the base floats. ``root=None`` chooses
        the only prim with the ``PhysicsArticulationRootAPI``. With ``fixed_base=True`` a base is
        fixed through its joint to the world if it has one. PhysX uses impossible inertias, too,
        which a ``repair`` raises. ``meshes`` replace colliders with more than 16 points.
        ``self_contact`` is for shapes of links that no joint connects, wherever
        ``enabledSelfCollisions`` of the articulation, filtered pairs and collision groups allow it.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the stage is refused; its ``issues`` list all errors with file, prim and
        fix.
      OSError: the file cannot be read.
      TypeError: ``path_or_text_or_stage`` is none of the three, or a keyword is unknown.
      ValueError: ``gravity`` is malformed, or a repair is unknown.
      ModuleNotFoundError: ``usd-core`` is not installed.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "pendulum.usda"
      >>> _ = artix.io.save_usd(artix.robots.load("double_pendulum"), path)
      >>> pendulum = artix.load_usd(path)
      >>> print(pendulum.topology.dof_names, pendulum.link_mass)
      ('shoulder', 'elbow') [0. 1. 1.]
    """
    report, robots = read_usd(path_or_text_or_stage, ReadOptions.of(UsdOptions, options))
    report.finish()
    (robot,) = robots.values()
    return robot.articulation


@takes(UsdOptions)
def load_usd_with_state(
    path_or_text_or_stage: Any, **options: Unpack[UsdOptions]
) -> tuple[Articulation, State]:
    """The articulation of a USD and its state, as former releases read them."""
    report, robots = read_usd(path_or_text_or_stage, ReadOptions.of(UsdOptions, options))
    report.finish()
    (robot,) = robots.values()
    return robot.articulation, build_state(*robot)


@takes(UsdOptions)
def check_usd(path_or_text_or_stage: Any, **options: Unpack[UsdOptions]) -> list[Issue]:
    """Lists all errors and warnings of an articulation in USD, errors first; its content never
    makes this raise.

    Arguments and errors are those of :func:`load_usd`, which raises the warnings of this list and
    refuses a stage with errors.

    Returns:
      The issues, none for a stage without errors and warnings.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "pendulum.usda"
      >>> _ = artix.io.save_usd(artix.robots.load("double_pendulum"), path)
      >>> print([issue.severity for issue in artix.io.check_usd(path) if issue.severity == "error"])
      []
    """
    report, _ = read_usd(path_or_text_or_stage, ReadOptions.of(UsdOptions, options))
    return sorted(report.issues, key=lambda issue: issue.severity)


def read_usd(source: Any, options: ReadOptions) -> Reading:
    """Reads USD: what there is to say of it, and its articulation if there are no errors."""
    report = Report(label_of(source), strict=options.strict)
    stage = open_stage(source, report)
    read = None if stage is None else read_root(stage, report, options)
    return report, {} if read is None else {read.robot.description.name: read.robot}


def label_of(source: Any) -> str:
    """What reports call a source: its path, if it is one."""
    is_path = isinstance(source, str | os.PathLike) and not is_usd_text(source)
    return os.fspath(source) if is_path else "<text>" if is_usd_text(source) else "<stage>"


class RootReading(NamedTuple):
    """One articulation of a stage as read."""

    usd: UsdArticulation
    robot: Robot
    shapes: list[UsdShape]
    """Those that touch others."""


def read_root(stage: Any, report: Report, options: ReadOptions) -> RootReading | None:
    """Reads the articulation of a root, or the only one of a stage; ``None`` if it has errors."""
    # USD detects some errors only when the content is used.
    try:
        scene = UsdScene(stage, report, options.meshes)
        usd = read_articulation(scene, options.root, options.fixed_base)
        return None if usd is None else _read_robot(usd, options)
    except import_pxr().Tf.ErrorException as error:
        note_usd_error(report, error)
        return None


def _read_robot(usd: UsdArticulation, options: ReadOptions) -> RootReading | None:
    """Reads and builds an articulation; ``None`` if the report has errors."""
    report = usd.scene.report
    links = usd.links()
    prims = {usd.names[path]: usd.scene.prims[path] for path in usd.tree.bodies}
    links = check_inertias(links, prims, report, repair="inertia" in options.repair)
    gravity = usd.gravity()
    if report.num_errors:
        return None
    try:
        description, shapes = _describe(usd, links, gravity, options)
        if report.num_errors:
            return None
        articulation = build(description, options)
    except ValueError as error:  # The builder's message names the link or joint.
        report.error(Location(usd.root.label), str(error), "correct the prim of this name")
        return None
    description = dataclasses.replace(description, state=read_state(usd))
    usd.note_unread()
    return RootReading(usd, Robot(description, articulation), shapes)


def _describe(
    usd: UsdArticulation, links: list[LinkDescription], gravity: np.ndarray, options: ReadOptions
) -> tuple[Description, list[UsdShape]]:
    """The description of an articulation, without its state, and its shapes that touch others."""
    merged, frames, places = merge_links(links, merge_fixed_joints=options.merge_fixed_joints)
    for name, body, pose in usd.frames():
        place = places[usd.names[body]]
        frames.append(Frame(name, place.link, compose(place.pose, pose)))
    geometries = {str(name): shape for link in merged for name, shape in link.geometries}
    shapes = [
        UsdShape(body, prim, name, places[usd.names[body]].link)
        for body, prims in usd.shapes.items()
        for prim, name in zip(prims, places[usd.names[body]].geometries, strict=True)
        if touches_others(geometries[name])
    ]
    description = Description(
        name=usd.name,
        fixed_base=usd.tree.fixed_base,
        links=merged,
        gravity=gravity if options.gravity is None else options.gravity,
        frames=frames,
        couplings=read_couplings(usd, places),
        contact_pairs=self_contact_pairs(
            usd.scene, usd.root, usd.tree, shapes, options.self_contact
        ),
    )
    return description, shapes


# --- state --------------------------------------------------------------------------------------

#: Largest tolerated distance of a body from the pose given by its joint's state
#: [m; chord of unit quaternions].
PLACE_TOLERANCE = 1e-3


def read_state(description: UsdArticulation) -> InitialState:
    """Reads the state of an articulation; warns if poses of bodies contradict the positions of
    their joints.
    """
    state = InitialState(_root_pose(description), _root_velocity(description), {}, {})
    misplaced = []
    for parent, joint, child in description.tree.edges:
        local = _joint_state(description, joint, parent, child, state)
        if not is_between(child) and not is_between(parent or ""):
            error = _place_error(description, joint, parent, child, local)
            if max(error) > PLACE_TOLERANCE:
                misplaced.append((error, joint, child))
    _note_misplaced(description, misplaced)
    return state


def _joint_state(
    description: UsdArticulation,
    joint: UsdJoint,
    parent: str | None,
    child: str,
    state: InitialState,
) -> np.ndarray:
    """Stores a joint's state under the names of its degrees of freedom; returns the joint motion
    ``J(q)`` as a pose.

    A joint of an articulation without a state is at zero, as in PhysX. Bodies that are no
    articulation start where they are.
    """
    sign = joint.sign(parent)
    applied = joint.prim.instances("PhysicsJointStateAPI")
    where_bodies_are = np.zeros(len(joint.axes))
    between = is_between(child) or is_between(parent or "")
    if not applied and not between and not description.is_articulation:
        where_bodies_are = _measured_position(description, joint, parent, child)
    for axis, place in zip(joint.axes, where_bodies_are, strict=True):
        unit = sign * description.scene.units.axis(axis.angular).position
        space = f"state:{axis.instance}:physics"
        for numbers, quantity in ((state.position, "position"), (state.velocity, "velocity")):
            is_applied = axis.instance in applied
            numbers[joint.dof(axis)] = (
                joint.prim.read_number(f"{space}:{quantity}") * unit if is_applied else 0.0
            )
        if axis.instance not in applied:
            state.position[joint.dof(axis)] = float(place)
    return joint_motion(
        [axis.axis for axis in joint.axes], [state.position[joint.dof(axis)] for axis in joint.axes]
    )


def _parent_frame(description: UsdArticulation, joint: UsdJoint, parent: str | None) -> np.ndarray:
    """The joint's frame on its parent in the world."""
    first = joint.frames(parent)[0]
    return first if parent is None else compose(description.scene.pose(parent), first)


def _measured_position(
    description: UsdArticulation, joint: UsdJoint, parent: str | None, child: str
) -> np.ndarray:
    """The position of a joint of one axis, or of all rotations, from the poses of its bodies; zero
    for others.
    """
    child_frame = compose(description.scene.pose(child), joint.frames(parent)[1])
    motion = compose(inverse(_parent_frame(description, joint, parent)), child_frame)
    if len(joint.axes) == 1 and not joint.axes[0].angular:
        return motion[[joint.axes[0].axis % 3]]
    vector, scalar = motion[3:6] * np.sign(motion[6] or 1.0), abs(motion[6])
    if len(joint.axes) == 1:
        return np.array([2.0 * np.arctan2(vector[joint.axes[0].axis], scalar)])
    if len(joint.axes) == 3:
        size = float(np.linalg.norm(vector))
        return vector * (2.0 * np.arctan2(size, scalar) / size if size else 2.0)
    return np.zeros(len(joint.axes))


def _place_error(
    description: UsdArticulation,
    joint: UsdJoint,
    parent: str | None,
    child: str,
    motion: np.ndarray,
) -> tuple[float, float]:
    """How far a body is from the pose given by its joint's state [m; chord of unit quaternions]."""
    scene = description.scene
    parent_frame, second = _parent_frame(description, joint, parent), joint.frames(parent)[1]
    expected = compose(compose(parent_frame, motion), inverse(second))
    actual = scene.pose(child)
    distance = float(np.linalg.norm(expected[:3] - actual[:3]))
    return distance, min(
        float(np.linalg.norm(expected[3:] - sign * actual[3:])) for sign in (1.0, -1.0)
    )


def _note_misplaced(
    description: UsdArticulation, misplaced: list[tuple[tuple[float, float], UsdJoint, str]]
) -> None:
    """Reports the bodies that are not where their joints put them, in one warning that shows the
    worst.
    """
    if not misplaced:
        return
    (distance, chord), joint, child = max(misplaced, key=lambda entry: max(entry[0]))
    turn = 4.0 * np.arcsin(min(1.0, 0.5 * chord)) / DEGREE
    others = f" ({len(misplaced)} bodies differ, this one the most)" if len(misplaced) > 1 else ""
    message = (
        f"body <{child}> is {distance:.3g} m and {turn:.3g} degrees from the pose given by the "
        f"joint's frames and state{others}; the articulation follows the joint, as in PhysX"
    )
    fix = "nothing, or author PhysicsJointStateAPI or the body's transform"
    description.scene.report.warning(joint.prim, message, fix)


def _root_pose(description: UsdArticulation) -> np.ndarray:
    path = description.tree.root
    return description.scene.pose(path) if path is not None else IDENTITY


def _root_velocity(description: UsdArticulation) -> np.ndarray:
    """Velocity of the root's centre of mass and its angular velocity, in world axes; zero for a
    fixed base.
    """
    path = description.tree.root
    if path is None or description.tree.fixed_base:
        return np.zeros(6)
    scene = description.scene
    prim = scene.prims[path]
    above = path.rpartition("/")[0] or "/"
    linear, angular = (
        prim.read_array(f"physics:{name}", 3) for name in ("velocity", "angularVelocity")
    )
    rotation = rotation_matrix(scene.pose(above)[3:])
    linear = np.zeros(3) if linear is None else rotation @ scene.point(above, linear)
    angular = np.zeros(3) if angular is None else rotation @ angular * DEGREE
    return np.concatenate([linear, angular])


# --- visuals ------------------------------------------------------------------------------------

_DRAWN = ("Mesh", "Cube", "Sphere", "Capsule", "Cylinder", "Capsule_1", "Cylinder_1")


def usd_visuals(source: Any, root: str | None) -> list[Surface]:
    """The visible meshes, cubes, spheres, capsules and cylinders of the bodies or, without any,
    their colliders.

    Args:
      source: the stage.
      root: path of the articulation root prim; ``None`` for the only one.

    Raises:
      DescriptionError: the stage cannot be opened, or has no such articulation.
      ModuleNotFoundError: ``usd-core`` is not installed.
    """
    report = Report(str(source))
    stage = open_stage(source, report)
    report.raise_errors()
    assert stage is not None  # Otherwise there are errors.
    usd = read_articulation(UsdScene(stage, report), root, None)
    report.raise_errors()
    assert usd is not None
    visible = list(_surfaces(usd, only_visible=True))
    bare = {usd.names[body] for body in usd.tree.bodies} - {one.link for one in visible}
    return visible + [one for one in _surfaces(usd, only_visible=False) if one.link in bare]


def _surfaces(usd: UsdArticulation, *, only_visible: bool) -> Iterator[Surface]:
    scene = usd.scene
    bodies = dict.fromkeys(usd.tree.bodies)
    for prim in scene.prims.values():
        body = enclosing(prim.path, bodies)
        kind = str(prim.prim.GetTypeName())
        if body is None or kind not in _DRAWN or (only_visible and not _is_visible(prim)):
            continue
        trial = Report(scene.report.file)
        if kind == "Mesh":
            triangles = _triangles(prim, np.abs(scene.scale(prim.path)))
            if triangles is not None:
                pose = scene.relative_pose(prim.path, body)
                yield Surface(usd.names[body], triangles, pose, _color(prim))
            continue
        shape = read_shape(scene, UsdPrim(prim.prim, trial), scene.prims[body])
        if shape is not None and not trial.num_errors:
            yield Surface(usd.names[body], shape, np.asarray(shape.pose), _color(prim))


def _is_visible(prim: UsdPrim) -> bool:
    """Whether a prim is drawn: it is visible and not a guide shape for physics."""
    geom = import_pxr().UsdGeom
    imageable = geom.Imageable(prim.prim)
    purposes = (geom.Tokens.default_, geom.Tokens.render)
    return (
        imageable.ComputeVisibility() != geom.Tokens.invisible
        and imageable.ComputePurpose() in purposes
    )


def _triangles(prim: UsdPrim, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Vertices and triangles of a mesh; ``None`` if it has none, or refers to vertices that do not
    exist.
    """
    points, counts, indices = (
        prim.read(name) for name in ("points", "faceVertexCounts", "faceVertexIndices")
    )
    if points is None or counts is None or indices is None:
        return None
    faces = triangulate(np.asarray(counts, int), np.asarray(indices, int))
    vertices = np.asarray(points, float).reshape(-1, 3) * scale
    valid = (
        len(faces)
        and faces.min() >= 0
        and faces.max() < len(vertices)
        and np.isfinite(vertices).all()
    )
    return (vertices, faces) if valid else None


def _color(prim: UsdPrim) -> tuple[float, float, float] | None:
    """The colour of a prim: of its material's surface, or its own ``displayColor``."""
    pxr = import_pxr()
    material, _ = pxr.UsdShade.MaterialBindingAPI(prim.prim).ComputeBoundMaterial()
    if material:
        shader = material.ComputeSurfaceSource()[0] or material.ComputeSurfaceSource("mdl")[0]
        for name in ("diffuseColor", "diffuse_color_constant"):
            value = shader.GetInput(name).Get() if shader and shader.GetInput(name) else None
            if value is not None:
                return _rgb(value)
    display = pxr.UsdGeom.Gprim(prim.prim).GetDisplayColorAttr().Get()
    return _rgb(display[0]) if display else None


def _rgb(value: Any) -> tuple[float, float, float]:
    red, green, blue = (min(max(float(part), 0.0), 1.0) for part in value)
    return red, green, blue
