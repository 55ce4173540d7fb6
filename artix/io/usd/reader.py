"""Reads an articulation and its state from USD with the UsdPhysics and PhysX schemas, and reports mistakes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from typing import Any

import numpy.typing as npt

from artix.io.common.collision_meshes import Meshes, check_meshes
from artix.io.common.diagnostics import Issue, Location, Report
from artix.io.common.inertias import check_inertias, chosen_repairs
from artix.io.common.links import LinkDescription, LinkPlace, add_links
from artix.io.common.poses import compose
from artix.io.usd.articulation import UsdArticulation, read_articulation
from artix.io.usd.couplings import loop_joints, mimic_joints
from artix.io.usd.pairs import self_contact_pairs
from artix.io.usd.stage import UsdScene, import_pxr, is_usd_text, note_usd_error, open_stage
from artix.io.usd.state import read_state
from artix.io.usd.tendons import fixed_tendons, spatial_tendons
from artix.model.articulation import Articulation, State
from artix.model.builder import ArticulationBuilder


def load_usd(
    path_or_text_or_stage: Any,
    *,
    root: str | None = None,
    fixed_base: bool | None = None,
    merge_fixed_joints: bool = False,
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    gravity: npt.ArrayLike | None = None,
    self_contact: bool = False,
    dtype: Any = None,
) -> Articulation:
    """Reads an articulation from USD with the package ``usd-core`` (``pip install 'artix[usd]'``), without plugins.

    The reader supports the schemas of UsdPhysics and PhysX for rigid bodies, mass properties (authored, or computed
    from colliders), joints of all types, limits, drives, friction, mimic joints, tendons and loop joints. It follows
    PhysX's rules for the choice of the root body, the joint that fixes it, and the order of links. Units are converted
    to SI and radians, with z up. What affects the motion and is not supported raises a
    :class:`~artix.DescriptionWarning`, one of a kind. :func:`check_usd` lists these and, as notes, what else was not
    read.

    A joint whose ``physics:body1`` is the parent has PhysX's coordinates, whose sign is opposite to USD's. A property
    that is not authored has PhysX's default if its schema is applied, and no effect otherwise.

    Args:
      path_or_text_or_stage: a path, USD text (a string that begins with ``#usda``), or an open ``pxr.Usd.Stage``.
      root: path of the prim to use as the root of the articulation: a body, a joint to the world (which fixes the base)
        or a prim above the bodies. Without a joint to the world the base floats. ``None`` chooses the only prim with
        the ``PhysicsArticulationRootAPI``.
      fixed_base: whether the root is fixed to the world, through its joint to the world if it has one; ``None`` follows
        the stage.
      merge_fixed_joints: whether links on fixed joints become part of their parent; each stays as a named frame.
      repair: ``("inertia",)`` raises principal moments just enough to make an inertia physically possible, each time
        with a :class:`~artix.DescriptionWarning`. Without it, impossible inertias are used as given, as in PhysX, with
        one warning for all links, and negative moments are refused.
      strict: whether to refuse what is otherwise read with a warning that says how: what is left out or assumed, and
        physically impossible inertias.
      meshes: replacement for colliders with meshes of more than 16 points: a ``"hull"`` of 16 of them or the enclosing
        ``"capsule"``; ``None`` leaves them out. :func:`check_usd` reports the distance of these shapes from the mesh.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3]; that of the stage's scene when ``None``.
      self_contact: whether shapes of links that no joint connects touch each other wherever the stage allows it, by
        ``enabledSelfCollisions`` of the articulation, filtered pairs and collision groups.
      dtype: floating-point type of the arrays; JAX's default when ``None``.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the stage is refused; its ``issues`` list all errors with file, prim and fix.
      OSError: the file cannot be read.
      TypeError: ``path_or_text_or_stage`` is none of the three.
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
    options = (root, fixed_base, merge_fixed_joints, repair, strict, meshes, gravity, self_contact, dtype)
    return _load(path_or_text_or_stage, *options)[0]


def load_usd_with_state(
    path_or_text_or_stage: Any,
    *,
    root: str | None = None,
    fixed_base: bool | None = None,
    merge_fixed_joints: bool = False,
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    gravity: npt.ArrayLike | None = None,
    self_contact: bool = False,
    dtype: Any = None,
) -> tuple[Articulation, State]:
    """Reads an articulation and its state from USD; arguments and errors are those of :func:`load_usd`.

    Joint positions and velocities come from ``PhysicsJointStateAPI``; they are zero where it is not applied, as in
    PhysX. The root link's pose is that of its body. The velocities in the root's ``PhysicsRigidBodyAPI`` are those of
    its centre of mass, in the axes of the prim above it.

    Returns:
      The articulation and its state, in world axes, SI units and radians.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "pendulum.usda"
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> bent = artix.neutral_state(pendulum).replace(joint_position=jnp.array([0.5, -0.2]))
      >>> _ = artix.io.save_usd(pendulum, path, state=bent)
      >>> _, state = artix.load_usd_with_state(path)
      >>> print(state.joint_position)
      [ 0.5 -0.2]
    """
    options = (root, fixed_base, merge_fixed_joints, repair, strict, meshes, gravity, self_contact, dtype)
    return _load(path_or_text_or_stage, *options)


def check_usd(
    path_or_text_or_stage: Any,
    *,
    root: str | None = None,
    fixed_base: bool | None = None,
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    self_contact: bool = False,
) -> list[Issue]:
    """Lists all errors and warnings of an articulation in USD, errors first; its content never makes this raise.

    Args:
      path_or_text_or_stage: as for :func:`load_usd`.
      root: as for :func:`load_usd`.
      fixed_base: as for :func:`load_usd`.
      repair: repairs to apply, as for :func:`load_usd`.
      strict: as for :func:`load_usd`.
      meshes: as for :func:`load_usd`.
      self_contact: as for :func:`load_usd`.

    Returns:
      The issues, none for a stage without errors and warnings.

    Raises:
      OSError: the file cannot be read.
      ValueError: a repair is unknown.
      TypeError: ``path_or_text_or_stage`` is neither a path, USD text nor a stage.
      ModuleNotFoundError: ``usd-core`` is not installed.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "pendulum.usda"
      >>> _ = artix.io.save_usd(artix.robots.load("double_pendulum"), path)
      >>> print([issue.severity for issue in artix.io.check_usd(path) if issue.severity == "error"])
      []
    """
    report, _ = _read(path_or_text_or_stage, root, fixed_base, False, repair, strict, meshes, None, self_contact, None)
    return sorted(report.issues, key=lambda issue: issue.severity)


def _load(source: Any, *arguments: Any) -> tuple[Articulation, State]:
    report, reading = _read(source, *arguments)
    report.finish(stacklevel=4)
    assert reading is not None  # Otherwise there are errors.
    return reading


def _read(
    source: Any,
    root: str | None,
    fixed_base: bool | None,
    merge_fixed_joints: bool,
    repair: Collection[str],
    strict: bool,
    meshes: Meshes | None,
    gravity: npt.ArrayLike | None,
    self_contact: bool,
    dtype: Any,
) -> tuple[Report, tuple[Articulation, State] | None]:
    """The report, and the articulation with its state if there are no errors."""
    check_meshes(meshes)
    repairs = bool(chosen_repairs(repair))
    is_path = isinstance(source, str | os.PathLike) and not is_usd_text(source)
    file = os.fspath(source) if is_path else "<text>" if is_usd_text(source) else "<stage>"
    report = Report(file, strict=strict)
    stage = open_stage(source, report)
    if stage is None:
        return report, None
    reading = None
    try:
        description = read_articulation(UsdScene(stage, report, meshes), root, fixed_base)
        if description is not None:
            links = description.links()
            places = {description.names[path]: description.scene.prims[path] for path in description.tree.bodies}
            links = check_inertias(links, places, report, repair=repairs, strict=strict)
            articulation = _build(report, description, links, merge_fixed_joints, gravity, self_contact, dtype)
            if articulation is not None:
                reading = articulation, read_state(description, articulation)
                description.note_unread()
    except import_pxr().Tf.ErrorException as error:  # USD detects some errors only when the content is used.
        note_usd_error(report, error)
    return report, reading


def _build(
    report: Report,
    description: UsdArticulation,
    links: list[LinkDescription],
    merge_fixed_joints: bool,
    gravity: npt.ArrayLike | None,
    self_contact: bool,
    dtype: Any,
) -> Articulation | None:
    """Builds the articulation; ``None`` if the report has errors."""
    stage_gravity = description.gravity()
    if report.num_errors:
        return None
    builder = ArticulationBuilder(
        fixed_base=description.tree.fixed_base,
        gravity=stage_gravity if gravity is None else gravity,
        name=description.name,
        strict=False,
    )
    try:
        places = add_links(builder, links, merge_fixed_joints=merge_fixed_joints)
        _add_couplings(builder, description, places)
        for pair in self_contact_pairs(description, places, self_contact):
            builder.add_geometry_pair(*pair)
        return None if report.num_errors else builder.build(dtype)
    except ValueError as error:  # The builder's message names the link or joint.
        report.error(Location(description.root.label), str(error), "correct the prim of this name")
        return None


def _add_couplings(builder: ArticulationBuilder, description: UsdArticulation, places: dict[str, LinkPlace]) -> None:
    """Adds additional frames, mimic joints, tendons and loop joints."""
    hosts: dict[int, str] = {}
    for name, place in places.items():  # Parents first, so that a link comes before those merged into it.
        hosts.setdefault(place.number, name)
    names = [hosts[number] for number in range(len(hosts))]
    for name, body, pose in description.frames():
        place = places[description.names[body]]
        builder.add_frame(name, place.number, compose(place.pose, pose))
    for mimic in mimic_joints(description):
        builder.add_mimic(**dataclasses.asdict(mimic))
    for tendon in fixed_tendons(description):
        builder.add_fixed_tendon(tendon)
    for spatial in spatial_tendons(description, places, names):
        builder.add_spatial_tendon(spatial)
    for joint in loop_joints(description, places, names):
        builder.add_loop_joint(joint)
