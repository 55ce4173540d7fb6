"""Reads MJCF, MuJoCo's model format, with MuJoCo's own compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import numpy as np

from artix.io.common.collision_meshes import Meshes, check_meshes
from artix.io.common.diagnostics import Issue, Location, Place, Report
from artix.io.common.inertias import check_inertias, chosen_repairs
from artix.io.common.links import add_links
from artix.io.common.names import Names
from artix.io.common.poses import compose
from artix.io.common.values import check_values, named_arrays
from artix.io.common.xml_tree import origin
from artix.io.mjcf.actuators import joint_options, springs_beside_drives
from artix.io.mjcf.bodies import (
    WORLD,
    describe_bodies,
    has_dofs,
    is_free,
    joints_of,
    pose_from_wxyz,
    top_bodies,
)
from artix.io.mjcf.contacts import (
    check_friction,
    check_pair_friction,
    geom_names,
    ground_friction,
    self_contact_pairs,
)
from artix.io.mjcf.couplings import Members, add_equalities, held_joints
from artix.io.mjcf.geometries import check_geoms, describe_geoms
from artix.io.mjcf.source import SKIPPABLE, MjcfSource, compile_mjcf
from artix.io.mjcf.tendons import add_joint_springs, add_tendons
from artix.io.mjcf.world import check_joints, check_world
from artix.model.articulation import Articulation
from artix.model.builder import ArticulationBuilder

Skip = Collection[str] | Literal["all"]


def load_mjcf(
    path_or_text: str | Path,
    *,
    body: str | None = None,
    fixed_base: bool | None = None,
    merge_fixed_joints: bool = False,
    skip: Skip = (),
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    self_contact: bool = False,
    dtype: Any = None,
) -> Articulation:
    """Reads one articulation of an MJCF model.

    Each body with a free joint is the root of an articulation; everything else that moves forms another one, whose root
    link is ``world``. The reader supports masses; hinge, slide and ball joints (several joints of one body become a
    chain with massless links ``<body>:<joint>``) with reference position, range, armature, damping and friction loss;
    gravity and gravity compensation; springs; actuators; joint, connect and weld equalities; tendons; the geoms of
    bodies that may touch the ground; and named sites, which become frames. Joint positions are MuJoCo's ``qpos``, see
    :class:`~artix.MujocoCoordinates`. :func:`artix.load_mjcf_ground` reads the ground. Whatever changes the motion and
    is left out or read otherwise is said in one :class:`~artix.DescriptionWarning` a kind; :func:`check_mjcf` lists the
    same. Sensors, cameras, lights and simulation options are skipped. docs/formats.md describes how each element is
    read.

    Args:
      path_or_text: a path, or the MJCF itself (a string whose first visible character is ``<``). MuJoCo opens the files
        and meshes that it refers to.
      body: root of the articulation: ``"world"`` or a child of the world; optional if the model has only one.
      fixed_base: ``True`` fixes a body with a free joint at its pose in the file, ``False`` frees a body that has no
        joint; ``None`` follows the file.
      merge_fixed_joints: whether bodies without joints become part of their parent; each stays as a named frame.
      skip: kinds of elements that a strict reader leaves out with a warning instead of refusing the model: any of
        ``"actuator"``, ``"equality"``, ``"flex"``, ``"fluid"``, ``"free_joint"``, ``"limit"``, ``"spring"``,
        ``"tendon"``, or ``"all"``.
      repair: ``("inertia",)`` drops the inertia of bodies without mass. MuJoCo uses such inertias, and so does this
        reader by default, with one :class:`~artix.DescriptionWarning`. MuJoCo's compiler handles all other impossible
        inertias, see its ``balanceinertia``.
      strict: whether to refuse a model that cannot be read completely, and what ``repair`` would repair.
      meshes: replacement for geoms with meshes of more than 16 vertices: a ``"hull"`` of 16 of them or the enclosing
        ``"capsule"``; ``None`` leaves them out. :func:`check_mjcf` reports the distance of these shapes from the mesh.
      self_contact: whether geoms of one articulation touch each other wherever ``contype``, ``conaffinity`` and
        ``<exclude>`` allow it; otherwise only the geoms of a ``<pair>`` do.
      dtype: floating-point type of the arrays; JAX's default when ``None``.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the model is refused; its ``issues`` list all errors with file, line, element and fix.
      OSError: the file cannot be read.
      ImportError: ``mujoco`` (extra ``mjcf``) is not installed.
      ValueError: a kind to skip or a repair is unknown; the body is unknown, or missing although there are several.
      TypeError: ``path_or_text`` is neither a string nor a path.

    Examples:
      >>> model = '''
      ... <mujoco>
      ...   <worldbody>
      ...     <body name="rod">
      ...       <joint name="hinge" axis="0 1 0"/>
      ...       <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -1" mass="1"/>
      ...     </body>
      ...   </worldbody>
      ...   <actuator><motor joint="hinge" ctrlrange="-5 5"/></actuator>
      ... </mujoco>'''
      >>> rod = artix.load_mjcf(model)
      >>> print(rod.topology.dof_names, rod.link_mass)
      ('hinge',) [0. 1.]
    """
    report, source = _read(path_or_text, skip, repair, strict, meshes, self_contact)
    report.raise_errors()
    assert source is not None  # An unreadable document is an error.
    articulation = _articulation(source, _choose_root(source, body), fixed_base, merge_fixed_joints, dtype)
    report.finish()
    assert articulation is not None
    return articulation


def load_mjcf_all(
    path_or_text: str | Path,
    *,
    merge_fixed_joints: bool = False,
    skip: Skip = (),
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    self_contact: bool = False,
    dtype: Any = None,
) -> dict[str, Articulation]:
    """Reads every articulation of an MJCF model.

    Args:
      path_or_text: as for :func:`load_mjcf`.
      merge_fixed_joints: as for :func:`load_mjcf`.
      skip: as for :func:`load_mjcf`.
      repair: as for :func:`load_mjcf`.
      strict: as for :func:`load_mjcf`.
      meshes: as for :func:`load_mjcf`.
      self_contact: as for :func:`load_mjcf`.
      dtype: as for :func:`load_mjcf`.

    Returns:
      The articulations by the name of their root: ``"world"`` if anything without a free joint moves, and the bodies
      with free joints, in the order of the file. Couplings between two of them are left out.

    Raises:
      DescriptionError, OSError, ImportError, ValueError, TypeError: as :func:`load_mjcf`.

    Examples:
      >>> model = '''
      ... <mujoco>
      ...   <worldbody>
      ...     <body name="ball"><freejoint/><geom size="0.1" mass="1"/></body>
      ...     <body name="box"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="2"/></body>
      ...   </worldbody>
      ... </mujoco>'''
      >>> print({name: float(one.link_mass.sum()) for name, one in artix.io.load_mjcf_all(model).items()})
      {'ball': 1.0, 'box': 2.0}
    """
    report, source = _read(path_or_text, skip, repair, strict, meshes, self_contact)
    report.raise_errors()
    assert source is not None
    roots = _roots(source)
    read = {name: _articulation(source, root, None, merge_fixed_joints, dtype) for name, root in roots.items()}
    report.finish()
    return {name: articulation for name, articulation in read.items() if articulation is not None}


def check_mjcf(
    path_or_text: str | Path,
    *,
    skip: Skip = (),
    repair: Collection[str] = (),
    strict: bool = False,
    meshes: Meshes | None = None,
    self_contact: bool = False,
) -> list[Issue]:
    """Lists all errors and warnings of an MJCF, by line; its content never makes this raise.

    Args:
      path_or_text: as for :func:`load_mjcf`.
      skip: as for :func:`load_mjcf`.
      repair: repairs to apply, as for :func:`load_mjcf`.
      strict: as for :func:`load_mjcf`.
      meshes: as for :func:`load_mjcf`.
      self_contact: as for :func:`load_mjcf`.

    Returns:
      The issues, none for a model without errors and warnings.

    Raises:
      OSError: the file cannot be read.
      ImportError: ``mujoco`` (extra ``mjcf``) is not installed.
      ValueError: a kind to skip or a repair is unknown.
      TypeError: ``path_or_text`` is neither a string nor a path.

    Examples:
      >>> model = '''
      ... <mujoco>
      ...   <worldbody>
      ...     <body name="rod">
      ...       <joint name="hinge" axis="0 1 0"/>
      ...       <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -1"/>
      ...     </body>
      ...   </worldbody>
      ...   <actuator><motor joint="hinge"/></actuator>
      ... </mujoco>'''
      >>> print([issue.severity for issue in artix.io.check_mjcf(model)])
      []
    """
    report, source = _read(path_or_text, skip, repair, strict, meshes, self_contact)
    if source is not None:
        for root in _roots(source).values():
            _articulation(source, root, None, False, None)
    return sorted(report.issues, key=lambda issue: issue.line)


@dataclasses.dataclass(frozen=True)
class _Root:
    """One articulation of a model: its root body (the world, 0, for a fixed base) and its children of the world."""

    name: str
    body: int
    tops: tuple[int, ...]


def _read(
    path_or_text: str | Path,
    skip: Skip,
    repair: Collection[str],
    strict: bool,
    meshes: Meshes | None,
    self_contact: bool,
) -> tuple[Report, MjcfSource | None]:
    check_meshes(meshes)
    kinds = (skip,) if isinstance(skip, str) else tuple(skip)
    unknown = [kind for kind in kinds if kind not in (*SKIPPABLE, "all")]
    if unknown:
        raise ValueError(f"nothing called {unknown[0]!r} can be skipped; choose from: {', '.join(SKIPPABLE)}, or 'all'")
    kinds = SKIPPABLE if "all" in kinds else kinds
    repairs = bool(chosen_repairs(repair))
    report = Report(origin(path_or_text)[0], strict=strict)
    source = compile_mjcf(path_or_text, report)
    if source is not None:
        source.skip, source.repair, source.strict = frozenset(kinds), repairs, strict
        source.meshes, source.self_contact = meshes, self_contact
        check_world(source)
    return report, source


def _roots(source: MjcfSource) -> dict[str, _Root]:
    """The articulations of a model by name; only the static world if nothing moves."""
    model, names = source.model, source.names
    tops = top_bodies(model)
    fixed = tuple(top for top in tops if not is_free(model, top))
    free = [_Root(names.bodies[top], top, (top,)) for top in tops if is_free(model, top)]
    moves = any(has_dofs(model, top) for top in fixed)
    world = [_Root(WORLD, 0, fixed)] if moves or not free else []
    return {root.name: root for root in [*world, *free]}


def _choose_root(source: MjcfSource, body: str | None) -> _Root:
    """The articulation of this name, or the only one.

    Raises:
      ValueError: there is none of this name, or several and no name.
    """
    roots = _roots(source)
    if body is None:
        if len(roots) > 1:
            listed = ", ".join(map(repr, roots))
            raise ValueError(
                f"{source.report.file}: the model has {len(roots)} articulations ({listed}); choose one with "
                "body=..., or read all with load_mjcf_all"
            )
        return next(iter(roots.values()))
    tops = {source.names.bodies[top]: top for top in top_bodies(source.model)}
    if body in roots:
        return roots[body]
    if body == WORLD:
        return _Root(WORLD, 0, tuple(top for top in tops.values() if not is_free(source.model, top)))
    if body not in tops:
        known = ", ".join(map(repr, [WORLD, *tops]))
        raise ValueError(f"{source.report.file}: no child of the world is called {body!r}; choose from: {known}")
    return _Root(body, 0, (tops[body],))


def _with_base(source: MjcfSource, root: _Root, fixed_base: bool | None) -> _Root:
    """The root with its base fixed or freed as requested.

    Raises:
      ValueError: it cannot float.
    """
    if fixed_base is True:
        return dataclasses.replace(root, body=0)
    if fixed_base is False and root.body == 0:
        if len(root.tops) != 1 or source.model.body_jntnum[root.tops[0]]:
            raise ValueError(
                f"{source.report.file}: {root.name!r} cannot float: only a single body without a joint to the world "
                "can; choose it with body=..."
            )
        return dataclasses.replace(root, body=root.tops[0])
    return root


def _articulation(
    source: MjcfSource, root: _Root, fixed_base: bool | None, merge_fixed_joints: bool, dtype: Any
) -> Articulation | None:
    """Builds one articulation; ``None`` if the report has errors."""
    root = _with_base(source, root, fixed_base)
    gravity = np.zeros(3) if source.disables("GRAVITY") else np.array(source.model.opt.gravity)
    name = _articulation_name(source, root)
    builder = ArticulationBuilder(fixed_base=root.body == 0, gravity=gravity, name=name, strict=False)
    try:
        _fill(builder, source, root, merge_fixed_joints)
        if source.report.num_errors:
            return None
        articulation = builder.build(dtype)
        check_values(named_arrays(articulation))
        return articulation
    except ValueError as error:
        source.report.error(Location("<mujoco>"), str(error), "correct the element that it names")
        return None


def _fill(builder: ArticulationBuilder, source: MjcfSource, root: _Root, merge_fixed_joints: bool) -> None:
    """Adds the links, frames and couplings of an articulation to a builder."""
    model, names = source.model, source.names
    bodies = [body for body in range(model.nbody) if body == root.body or model.body_rootid[body] in root.tops]
    options = joint_options(source, [joint for body in bodies for joint in joints_of(model, body)])
    check_joints(source, options)
    for joint, position in held_joints(source).items():
        if joint in options:
            options[joint]["limits"] = [(position, position)]
    friction = ground_friction(model)
    check_geoms(source, bodies, friction.shapes)
    check_friction(source, bodies, friction)
    pairs = self_contact_pairs(source, bodies)
    check_pair_friction(source, pairs, friction.shapes)
    paired = geom_names(source, {geom for pair in pairs for geom in pair})
    shapes = {body: describe_geoms(source, body, friction.shapes, paired) for body in bodies}
    described = describe_bodies(source, bodies, root.body, options, shapes)
    files: dict[str, Place] = {names.bodies[body]: source.place("body", body) for body in bodies}
    links = check_inertias(described, files, source.report, repair=source.repair, strict=source.strict)
    places = add_links(builder, links, merge_fixed_joints=merge_fixed_joints)
    for first, second in pairs:
        builder.add_geometry_pair(paired[first], paired[second])
    frames = Names(place for place in places)
    for site in np.flatnonzero(np.isin(model.site_bodyid, bodies)).tolist():
        if source.name("site", site):
            place = places[names.bodies[model.site_bodyid[site]]]
            pose = pose_from_wxyz(model.site_pos[site], model.site_quat[site])
            builder.add_frame(frames.new(source.name("site", site)), place.number, compose(place.pose, pose))
    members = Members(frozenset(bodies), frozenset(options), places, {link.name: link for link in links})
    add_equalities(builder, source, members)
    add_tendons(builder, source, members)
    add_joint_springs(builder, source, members, springs_beside_drives(source, options))


def _articulation_name(source: MjcfSource, root: _Root) -> str:
    """The model's name if it has a single articulation, else the root's."""
    model_name = source.model.names.split(b"\0", 1)[0].decode("utf-8", "replace")
    return model_name or "articulation" if len(_roots(source)) == 1 else root.name
