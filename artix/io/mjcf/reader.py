"""Reads MJCF, MuJoCo's model format, with MuJoCo's own compiler: articulations and the ground."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from artix.contact.ground import Ground, Plane
from artix.contact.height_field import HeightField
from artix.contact.scene import Scene
from artix.io.common.description import (
    Description,
    Frame,
    GroundDescription,
    InitialState,
    MjcfOptions,
    Names,
    ReadOptions,
    Robot,
    build,
    build_ground,
    build_state,
    build_world,
    check_inertias,
    merge_links,
    takes,
)
from artix.io.common.diagnostics import Issue, Location, Place, Report, counted, listed
from artix.io.common.poses import compose, rotation_matrix
from artix.io.common.values import check_values, named_arrays
from artix.io.common.xml_tree import origin
from artix.io.mjcf import geometries
from artix.io.mjcf.actuators import (
    acts_on_joint,
    acts_on_tendon,
    check_transmissions,
    joint_options,
    springs_beside_drives,
)
from artix.io.mjcf.bodies import describe_bodies
from artix.io.mjcf.couplings import Members, check_equalities, held_joints, read_couplings
from artix.io.mjcf.source import (
    BALL,
    SKIPPABLE,
    WORLD,
    MjcfSource,
    compile_mjcf,
    geom_type,
    has_dofs,
    is_free,
    joints_of,
    pose_from_wxyz,
    top_bodies,
)
from artix.model.articulation import Articulation


@takes(MjcfOptions)
def load_mjcf(path_or_text: str | Path, **options: Unpack[MjcfOptions]) -> Articulation:
    """Reads one articulation of an MJCF model.

    Each body with a free joint is the root of an articulation; everything else that moves forms
    another one, whose root link is ``world``. The reader supports masses; hinge, slide and ball
    joints (several joints of one body become a chain with massless links ``<body>:<joint>``) with
    reference position, range, armature, damping and friction loss; gravity and gravity
    compensation; springs; actuators; joint, connect and weld equalities; tendons; the geoms of
    bodies that may touch the ground; and named sites, which become frames. Joint positions are
    MuJoCo's ``qpos``, see :class:`~artix.MujocoCoordinates`. :func:`artix.load_world` reads the
    ground and all articulations. Whatever changes the motion and is left out or read otherwise is
    said in one :class:`~artix.DescriptionWarning` a kind; :func:`check_mjcf` lists the same.
    Sensors, cameras, lights and simulation options are skipped. docs/formats.md describes how each
    element is read.

    Args:
      path_or_text: a path, or the MJCF itself (a string whose first visible character is ``<``).
        MuJoCo opens the files and meshes that it refers to.
      **options: keywords that :func:`artix.load` describes, and two more. ``body`` is the root of
        the articulation: ``"world"`` or a child of the world; it is optional if the model has only
        one. ``skip`` has the kinds of elements that a strict reader leaves out with a warning
        instead of refusing the model: any of ``"actuator"``, ``"equality"``, ``"flex"``,
        ``"fluid"``, ``"free_joint"``, ``"limit"``, ``"spring"``, ``"tendon"``, or ``"all"``.
        ``fixed_base=True`` fixes a body with a free joint at its pose in the file, ``False`` frees
        a body that has no joint. The repair ``"inertia"`` drops the inertia of bodies without mass;
        MuJoCo uses such inertias, and so does this reader by default. MuJoCo's compiler handles all
        other impossible inertias, see its ``balanceinertia``. ``meshes`` replace geoms with more
        than 16 vertices. ``self_contact`` follows ``contype``, ``conaffinity`` and ``<exclude>``;
        without it only the geoms of a ``<pair>`` touch each other.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the model is refused; its ``issues`` list all errors with file, line,
        element and fix.
      OSError: the file cannot be read.
      ImportError: ``mujoco`` (extra ``mjcf``) is not installed.
      ValueError: a kind to skip or a repair is unknown; the body is unknown, or missing although
        there are several.
      TypeError: ``path_or_text`` is neither a string nor a path, or a keyword is unknown.

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
    report, robots = read_mjcf(path_or_text, _read_options(options), one=True)
    report.finish()
    (robot,) = robots.values()
    return robot.articulation


@takes(MjcfOptions)
def load_mjcf_all(
    path_or_text: str | Path, **options: Unpack[MjcfOptions]
) -> dict[str, Articulation]:
    """All articulations of an MJCF by the names of their roots, as former releases read them."""
    report, robots = read_mjcf(path_or_text, _read_options(options))
    report.finish()
    return {name: robot.articulation for name, robot in robots.items()}


@takes(MjcfOptions)
def check_mjcf(path_or_text: str | Path, **options: Unpack[MjcfOptions]) -> list[Issue]:
    """Lists all errors and warnings of an MJCF, by line; its content never makes this raise.

    Arguments and errors are those of :func:`load_mjcf`, which raises the warnings of this list and
    refuses a model with errors. Without ``body``, all articulations of the model are checked.

    Returns:
      The issues, none for a model without errors and warnings.

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
    report, _ = read_mjcf(path_or_text, _read_options(options))
    return sorted(report.issues, key=lambda issue: issue.line)


def read_mjcf(
    path_or_text: str | Path, options: ReadOptions, *, one: bool = False
) -> tuple[Report, dict[str, Robot]]:
    """Reads an MJCF: what there is to say of it, and its articulations by the names of their roots.

    Articulations with errors are missing.

    Args:
      path_or_text: a path, or the MJCF itself.
      options: of the reader.
      one: whether the model must have a single articulation unless ``options.root`` chooses one.

    Raises:
      ValueError: the root is unknown, missing or cannot float.
    """
    report, robots, _ = _read(path_or_text, options, one=one)
    return report, robots


#: The robot and the shape of both sides of a contact.
_Pair = tuple[tuple[str, str], tuple[str, str]]


def _read(
    path_or_text: str | Path, options: ReadOptions, *, one: bool = False
) -> tuple[Report, dict[str, Robot], dict[_Pair, float]]:
    """:func:`read_mjcf`, with the pairs of shapes of different robots that touch each other, and
    their friction.
    """
    report = Report(origin(path_or_text)[0], strict=options.strict)
    source = compile_mjcf(path_or_text, report, options)
    robots: dict[str, Robot] = {}
    named: dict[_Pair, float] = {}
    if source is not None:
        check_world(source)
        if one:
            report.raise_errors()
        roots = _chosen_roots(source, one=one)
        bodies = {name: _bodies(source, root) for name, root in roots.items()}
        pairs = geometries.pairs_across(source, bodies) if options.ground else []
        for name, root in roots.items():
            robot = _read_robot(source, root, pairs)
            robots |= {name: robot} if robot is not None else {}
        names = geometries.geom_names(source, {geom for pair in pairs for geom in pair})
        owner = {body: name for name in roots for body in bodies[name]}
        robot_of = {geom: owner[int(source.model.geom_bodyid[geom])] for geom in names}
        frictions = geometries.friction_of_pairs(source.model, pairs)
        named = {
            ((robot_of[a], names[a]), (robot_of[b], names[b])): friction
            for (a, b), friction in zip(pairs, frictions, strict=True)
        }
    return report, robots, named


def load_mjcf_world(path_or_text: str | Path, **options: Unpack[MjcfOptions]) -> tuple[Scene, Any]:
    """The scene of an MJCF and its state at ``qpos0``; see :func:`artix.load_world`."""
    chosen = dataclasses.replace(_read_options(options), ground=True)
    report, robots, pairs = _read(path_or_text, chosen)
    report.finish()
    described = next(iter(robots.values())).description.ground
    ground = None if described is None else build_ground(described, chosen.dtype)
    states = {name: build_state(*robot) for name, robot in robots.items()}
    friction = {frozenset(pair): value for pair, value in pairs.items()}
    for name, (description, _) in robots.items():
        of_robot = zip(description.contact_pairs, description.pair_friction, strict=True)
        friction |= {frozenset(((name, a), (name, b))): value for (a, b), value in of_robot}
    members = {name: robot.articulation for name, robot in robots.items()}
    return build_world(members, states, ground, pairs, friction)


@dataclasses.dataclass(frozen=True)
class _Root:
    """One articulation of a model: its root body (the world, 0, for a fixed base) and its children
    of the world.
    """

    name: str
    body: int
    tops: tuple[int, ...]


def _read_options(keywords: MjcfOptions) -> ReadOptions:
    """The options of the reader.

    Raises:
      TypeError: a keyword is unknown.
      ValueError: so is a repair or a kind of elements to skip.
    """
    skip = keywords.get("skip", ())
    kinds = (skip,) if isinstance(skip, str) else tuple(skip)
    for kind in kinds:
        if kind not in (*SKIPPABLE, "all"):
            known = ", ".join(SKIPPABLE)
            raise ValueError(
                f"nothing called {kind!r} can be skipped; choose from: {known}, or 'all'"
            )
    others = {name: value for name, value in keywords.items() if name != "body"}
    others["skip"] = frozenset(SKIPPABLE if "all" in kinds else kinds)
    return ReadOptions.of(MjcfOptions, others, root=keywords.get("body"))


def _roots(source: MjcfSource) -> dict[str, _Root]:
    """The articulations of a model by name; the static world if nothing else moves, or if in a
    scene something may touch it.
    """
    model = source.model
    names = source.names
    tops = top_bodies(model)
    fixed = tuple(top for top in tops if not is_free(model, top))
    free = [_Root(names.bodies[top], top, (top,)) for top in tops if is_free(model, top)]
    moves = any(has_dofs(model, top) for top in fixed)
    moves = moves or (source.options.ground and bool(geometries.obstacles(model)))
    world = [_Root(WORLD, 0, fixed)] if moves or not free else []
    return {root.name: root for root in [*world, *free]}


def _chosen_roots(source: MjcfSource, *, one: bool) -> dict[str, _Root]:
    """The articulations to read: the one that the options name, or all.

    Raises:
      ValueError: there is none of this name; or there are several, and ``one`` is wanted.
    """
    body = source.options.root
    roots = _roots(source)
    if body is None:
        if one and len(roots) > 1:
            listed = ", ".join(map(repr, roots))
            raise ValueError(
                f"{source.report.file}: the model has {len(roots)} articulations ({listed}); "
                "choose one with body=..., or read all with artix.load_world"
            )
        return roots
    tops = {source.names.bodies[top]: top for top in top_bodies(source.model)}
    if body in roots:
        return {body: roots[body]}
    if body == WORLD:
        return {
            body: _Root(
                WORLD, 0, tuple(top for top in tops.values() if not is_free(source.model, top))
            )
        }
    if body not in tops:
        known = ", ".join(map(repr, [WORLD, *tops]))
        raise ValueError(
            f"{source.report.file}: no child of the world is called {body!r}; choose from: {known}"
        )
    return {body: _Root(body, 0, (tops[body],))}


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
                f"{source.report.file}: {root.name!r} cannot float: only a single body without a "
                "joint to the world can; choose it with body=..."
            )
        return dataclasses.replace(root, body=root.tops[0])
    return root


def _bodies(source: MjcfSource, root: _Root) -> list[int]:
    """The bodies of one articulation."""
    model = source.model
    return [
        body
        for body in range(model.nbody)
        if body == root.body or model.body_rootid[body] in root.tops
    ]


def _read_robot(source: MjcfSource, root: _Root, across: Sequence[tuple[int, int]]) -> Robot | None:
    """Reads and builds one articulation; ``None`` if the report has errors."""
    root = _with_base(source, root, source.options.fixed_base)
    try:
        description = _describe(source, root, across)
        if source.report.num_errors:
            return None
        articulation = build(description, source.options)
        check_values(named_arrays(articulation))
        return Robot(description, articulation)
    except ValueError as error:
        source.report.error(Location("<mujoco>"), str(error), "correct the element that it names")
        return None


def _describe(source: MjcfSource, root: _Root, across: Sequence[tuple[int, int]]) -> Description:
    """The description of one articulation; its pairs of shapes include those ``across``
    articulations.
    """
    model = source.model
    names = source.names
    bodies = _bodies(source, root)
    options = joint_options(source, [joint for body in bodies for joint in joints_of(model, body)])
    check_joints(source, options)
    for joint, position in held_joints(source).items():
        if joint in options:
            options[joint]["limits"] = [(position, position)]
    friction = geometries.ground_friction(model)
    others = geometries.geoms_touching_others(model, frozenset(bodies))
    geometries.check_geoms(source, bodies, dict.fromkeys([*friction.shapes, *others]))
    geometries.check_friction(source, bodies, friction)
    pairs = geometries.self_contact_pairs(source, bodies)
    if not source.options.ground:  # A scene knows the friction of its pairs.
        geometries.check_pair_friction(source, pairs, friction.shapes)
    paired = geometries.geom_names(source, {geom for pair in [*pairs, *across] for geom in pair})
    shapes = {
        body: geometries.describe_geoms(source, body, friction.shapes, paired, others)
        for body in bodies
    }
    described = describe_bodies(source, bodies, root.body, options, shapes)
    files: dict[str, Place] = {names.bodies[body]: source.place("body", body) for body in bodies}
    links = check_inertias(
        described, files, source.report, repair="inertia" in source.options.repair
    )
    merged, frames, places = merge_links(
        links, merge_fixed_joints=source.options.merge_fixed_joints
    )
    unique = Names(places)
    for site in np.flatnonzero(np.isin(model.site_bodyid, bodies)).tolist():
        if source.name("site", site):
            place = places[names.bodies[model.site_bodyid[site]]]
            pose = pose_from_wxyz(model.site_pos[site], model.site_quat[site])
            frames.append(
                Frame(unique.new(source.name("site", site)), place.link, compose(place.pose, pose))
            )
    members = Members(
        frozenset(bodies), frozenset(options), places, {link.name: link for link in links}
    )
    return Description(
        name=_articulation_name(source, root),
        fixed_base=root.body == 0,
        links=merged,
        gravity=np.zeros(3) if source.disables("GRAVITY") else np.array(model.opt.gravity),
        frames=frames,
        contact_pairs=[(paired[first], paired[second]) for first, second in pairs],
        pair_friction=geometries.friction_of_pairs(model, pairs),
        couplings=read_couplings(source, members, springs_beside_drives(source, options)),
        state=_initial_state(source, root.body, options),
        ground=describe_ground(source) if source.options.ground else None,
    )


def _initial_state(source: MjcfSource, root: int, joints: Mapping[int, Any]) -> InitialState:
    """The state at MuJoCo's ``qpos0``: the root where the file puts it, the joints at their
    reference positions.
    """
    model = source.model
    scalars = [joint for joint in joints if model.jnt_type[joint] != BALL]
    position = {
        source.names.joints[joint]: float(model.qpos0[model.jnt_qposadr[joint]])
        for joint in scalars
    }
    return InitialState(
        pose_from_wxyz(model.body_pos[root], model.body_quat[root]), position=position
    )


def _articulation_name(source: MjcfSource, root: _Root) -> str:
    """The model's name if it has a single articulation, else the root's."""
    model_name = source.model.names.split(b"\0", 1)[0].decode("utf-8", "replace")
    return model_name or "articulation" if len(_roots(source)) == 1 else root.name


# --- what an articulation does not have ---------------------------------------------------------

#: Attributes of geoms and pairs that artix's contacts do not have, with the largest values that say
#: nothing. Contacts with a ``condim`` of 1 are read as frictionless; 4 and 6 add torsional and
#: rolling friction.
_CONTACT_PARAMETERS = {"condim": 3, "margin": 0.0, "gap": 0.0, "adhesion": 0.0, "surfacevel": 0.0}


def check_world(source: MjcfSource) -> None:
    """Reports features of the whole model that an articulation cannot represent or does not
    need.
    """
    model = source.model
    place = Location("<mujoco>")
    if model.opt.density > 0.0 or model.opt.viscosity > 0.0:
        source.report_unsupported(
            "fluid", Location("<option>"), "its density and viscosity: artix has no fluid forces"
        )
    if model.nflex:
        bodies = counted(int(model.nflex), "flexible body", "flexible bodies")
        source.report_unsupported("flex", place, f"{bodies}: artix has rigid links only")
    if source.disables("CONTACT"):
        message = "its <flag> disables contacts; artix reads shapes all the same"
        source.report.warning(
            Location("<option>"), message, "nothing; without a ground and pairs nothing touches"
        )
    if np.any(model.body_plugin >= 0):
        source.report_unsupported("flex", place, "plugins that act on bodies")
    for body in np.flatnonzero(model.body_mocapid >= 0):
        source.report.warning(
            source.place("body", int(body)), "a mocap body is read as a fixed one", "nothing"
        )
    check_transmissions(source)
    check_equalities(source)
    _check_obstacles(source)
    _check_contact_parameters(source)
    if model.nkey:
        message = counted(int(model.nkey), "keyframe is a state", "keyframes are states")
        message += ", which an articulation does not contain"
        source.report.note(
            Location("<keyframe>"), message, "convert their qpos with MujocoCoordinates"
        )


def check_joints(source: MjcfSource, options: Mapping[int, Mapping[str, Any]]) -> None:
    """Reports joints that nothing drives, and those whose reference position is not zero.

    Args:
      source: the model.
      options: drive, limits and armature of the joints of one articulation, as for
        :class:`~artix.Joint`.
    """
    model = source.model
    driven = _driven_joints(source)
    if (
        options
        and not driven.intersection(options)
        and not any(one["drive"].stiffness for one in options.values())
    ):
        lacking = ["their drives have no gains"]
        if all(np.all(np.isinf(one["max_force"])) for one in options.values()):
            lacking += ["efforts are unlimited"]
        if not any(one["armature"] for one in options.values()):
            lacking += ["armature is zero"]
        joints = "its joint" if len(options) == 1 else f"its {len(options)} joints"
        message = f"no actuator acts on {joints}: {', '.join(lacking)}"
        fix = (
            "nothing for passive joints; else set articulation.drive, max_joint_force and armature"
        )
        source.report.warning(Location("<actuator>"), message, fix)
    moved = [
        joint
        for joint in options
        if model.jnt_type[joint] != BALL and model.qpos0[model.jnt_qposadr[joint]]
    ]
    if moved:
        names = listed(source.names.joints[joint] for joint in moved)
        message = (
            f"the neutral state, with all joints at zero, is not MuJoCo's qpos0 (ref of {names})"
        )
        fix = (
            "start from MujocoCoordinates(articulation, model).state(model.qpos0, "
            "np.zeros(model.nv))"
        )
        source.report.warning(Location("<joint>"), message, fix)


def _driven_joints(source: MjcfSource) -> set[int]:
    """The joints on which actuators act, by themselves or through tendons."""
    model = source.model
    driven = set[int]()
    for actuator, target in enumerate(np.asarray(model.actuator_trnid)[:, 0].tolist()):
        if acts_on_joint(source, actuator):
            driven.add(target)
        elif acts_on_tendon(source, actuator):
            driven |= {joint for what, joint, _ in source.tendon_path(target) if what == "joint"}
    return driven


def _check_obstacles(source: MjcfSource) -> None:
    """Reports static geoms that would touch a floating articulation, but are not ground."""
    model = source.model
    floats = any(is_free(model, body) for body in top_bodies(model))
    obstacles = geometries.obstacles(model)
    if floats and obstacles and not source.options.ground:
        kinds = ", ".join(sorted({geom_type(model, geom).lower() for geom in obstacles}))
        geoms = counted(len(obstacles), "static geom", "static geoms")
        message = f"floating articulations do not touch the {geoms} of type {kinds}"
        fix = "nothing, unless they matter: artix.load_world reads the scene with these"
        source.report.warning(source.place("geom", obstacles[0]), message, fix)


def _check_contact_parameters(source: MjcfSource) -> None:
    """Reports attributes of geoms and pairs that change contacts and are not read."""
    model = source.model
    collides = (np.asarray(model.geom_contype) | np.asarray(model.geom_conaffinity)) != 0
    collides[[*model.pair_geom1, *model.pair_geom2]] = True
    used = []
    for name, largest in _CONTACT_PARAMETERS.items():
        # Some of them do not exist in earlier versions of MuJoCo.
        of_geoms = np.asarray(getattr(model, f"geom_{name}", ()))
        of_pairs = np.asarray(getattr(model, f"pair_{'dim' if name == 'condim' else name}", ()))
        if (of_geoms.size and np.any(np.abs(of_geoms[collides]) > largest)) or np.any(
            np.abs(of_pairs) > largest
        ):
            used.append(name)
    has_friction = np.asarray(model.pair_dim) > 1
    if np.ptp(np.asarray(model.pair_friction)[has_friction, :2], axis=1).any():
        used.append("friction that differs from one direction to the other")
    if used:
        message = (
            f"{', '.join(used)} of geoms and pairs: artix's contacts do not have these, and they "
            "are not read"
        )
        source.report.warning(
            Location("<contact>"), message, "nothing, unless they matter; see docs/contact.md"
        )


# --- ground -------------------------------------------------------------------------------------

_TOLERANCE = 1e-9


def load_mjcf_ground(path_or_text: str | Path, *, dtype: Any = None) -> Ground:
    """The ground of an MJCF, as former releases read it; raises ``ValueError`` if there is none."""
    report = Report(origin(path_or_text)[0])
    source = compile_mjcf(path_or_text, report)
    ground = None if source is None else describe_ground(source)
    report.raise_errors()
    if ground is None:
        raise ValueError(
            f"{report.file}: it has no plane and no height field; artix.Ground.flat() is level "
            "ground"
        )
    return build_ground(ground, dtype)


def describe_ground(source: MjcfSource) -> GroundDescription | None:
    """The ground of a model, ``None`` if it has none; reports what cannot be read."""
    friction = geometries.ground_friction(source.model)
    surfaces = [_surface(source, geom, mu) for geom, mu in friction.surfaces.items()]
    return GroundDescription(surfaces, friction.combination) if surfaces else None


def _surface(
    source: MjcfSource, geom: int, friction: float
) -> tuple[type[Plane] | type[HeightField], dict[str, Any]]:
    model = source.model
    pose = pose_from_wxyz(model.geom_pos[geom], model.geom_quat[geom])
    body = int(model.geom_bodyid[geom])
    while body:
        pose = compose(pose_from_wxyz(model.body_pos[body], model.body_quat[body]), pose)
        body = int(model.body_parentid[body])
    axes = rotation_matrix(pose[3:])
    if geom_type(model, geom) == "PLANE":
        return Plane, {"normal": axes[:, 2], "point": pose[:3], "friction": friction}
    quarters = _quarter_turns(axes)
    if quarters is None:
        message = "the height field is not aligned with the world axes"
        source.report.error(
            source.place("geom", geom),
            message,
            "write its heights along x and y, or turn it about z by quarters",
        )
    field = int(model.geom_dataid[geom])
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    first = int(model.hfield_adr[field])
    size = model.hfield_size[field]
    data = np.array(model.hfield_data[first : first + rows * columns], float)
    heights = np.rot90(data.reshape(rows, columns).T * size[2], quarters or 0)
    half = np.roll(size[:2], quarters or 0)
    return HeightField, {
        "heights": heights,
        "spacing": 2.0 * half / (np.array(heights.shape) - 1),
        "origin": pose[:3] - [*half, 0.0],
        "friction": friction,
    }


def _quarter_turns(axes: np.ndarray) -> int | None:
    """By how many quarters of a turn about z some axes are turned; ``None`` for other turns."""
    whole = np.rint(axes)
    if whole[2, 2] != 1.0 or np.abs(axes - whole).max() > _TOLERANCE:
        return None
    return int(np.rint(np.arctan2(whole[1, 0], whole[0, 0]) / (np.pi / 2))) % 4
