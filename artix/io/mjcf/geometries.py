"""Reads geoms of a compiled MJCF as shapes on links: which touch the ground and each other, with
what friction.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from artix.io.common.description import Names, Surface
from artix.io.common.diagnostics import Location, Report, counted, listed
from artix.io.common.meshes import MeshShape, mesh_shape, report_missing_meshes, summarize_errors
from artix.io.mjcf.source import (
    MjcfSource,
    compile_mjcf,
    geom_type,
    has_dofs,
    is_free,
    pose_from_wxyz,
    welds,
)
from artix.model.geometry import SIZE_NUMBERS, SMALL_MESH, Geometry, GeometryType
from artix.model.topology import is_paired

if TYPE_CHECKING:
    import mujoco

#: MuJoCo's types, except meshes, that artix has by the same names.
_READABLE_TYPES = ("SPHERE", "CAPSULE", "BOX", "CYLINDER", "ELLIPSOID")


def describe_geoms(
    source: MjcfSource,
    body: int,
    touching: Mapping[int, float],
    paired: Mapping[int, str],
    others: Collection[int],
) -> list[tuple[str | None, Geometry]]:
    """The shapes of a body in its frame, with their names, ``None`` for unnamed geoms.

    Args:
      source: the model.
      body: the body.
      touching: friction of the geoms that touch the ground.
      paired: names of the geoms that touch others of their articulation.
      others: the geoms that touch other articulations. Those of these and of ``paired`` that do not
        touch the ground become sensors.
    """
    model = source.model
    shapes = list[tuple[str | None, Geometry]]()
    first = int(model.body_geomadr[body])
    for geom in range(first, first + int(model.body_geomnum[body])):
        if geom not in touching and geom not in paired and geom not in others:
            continue
        shape = _shape(source, geom, touching.get(geom, float(model.geom_friction[geom, 0])))
        if shape is not None:
            name = paired.get(geom) or source.name("geom", geom) or None
            sensor = geom not in touching
            shapes.append(
                (
                    name,
                    dataclasses.replace(shape.geometry, sensor=True) if sensor else shape.geometry,
                )
            )
    return shapes


def check_geoms(source: MjcfSource, bodies: list[int], touching: Collection[int]) -> None:
    """Reports geoms that may touch the ground but are left out, and replaced meshes."""
    model = source.model
    place = Location("<worldbody>")
    missing: dict[str, list[str]] = {}
    errors: dict[str, float] = {}
    others: list[str] = []
    for geom in touching:
        if model.geom_bodyid[geom] not in bodies:
            continue
        shape = _shape(source, geom, 0.0)
        name = source.names.bodies[model.geom_bodyid[geom]]
        if shape is None:
            missing.setdefault(geom_type(model, geom).lower(), []).append(name)
            continue
        others.append(name)
        if shape.error:
            errors[name] = max(errors.get(name, 0.0), shape.error)
    if errors:
        summarize_errors(source.report, place, source.options.meshes or "hull", errors)
    bare = [name for name in dict.fromkeys(missing.get("mesh", ())) if name not in others]
    if bare and others:
        report_missing_meshes(source.report, place, bare, list(dict.fromkeys(others)))
        del missing["mesh"]
    for kind, names in missing.items():
        links = sorted({*names})
        message = counted(
            len(names),
            f"geom of type {kind} is left out and touches nothing",
            f"geoms of type {kind} are left out and touch nothing",
        )
        message += f" ({'body' if len(links) == 1 else 'bodies'} {listed(links)})"
        fix = f"where contact matters, use a primitive, or a mesh of at most {SMALL_MESH} vertices"
        fix += ", or read them with meshes='hull' or 'capsule'" if kind == "mesh" else ""
        source.report.warning(place, message, fix)


def _shape(source: MjcfSource, geom: int, friction: float) -> MeshShape | None:
    """The shape of a geom, with the error of a replaced mesh; ``None`` if artix has no such
    shape.
    """
    model = source.model
    pose = pose_from_wxyz(model.geom_pos[geom], model.geom_quat[geom])
    shape = primitive(model, geom, pose=pose, friction=friction)
    if shape is not None:
        return MeshShape(shape, 0.0)
    if geom_type(model, geom) != "MESH":
        return None
    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    points = np.array(model.mesh_vert[first : first + count], float)
    if count <= SMALL_MESH:
        return MeshShape(Geometry.hull(points, pose=pose, friction=friction), 0.0)
    meshes = source.options.meshes
    if meshes is None and source.options.ground and _is_object(model, int(model.geom_bodyid[geom])):
        meshes = "hull"
    return None if meshes is None else mesh_shape(points, meshes, pose, friction=friction)


def _is_object(model: mujoco.MjModel, body: int) -> bool:
    """Whether a body belongs to something free without joints, which is of no use in a scene
    without shapes.
    """
    root = int(model.body_rootid[body])
    whole = np.asarray(model.body_rootid) == root
    return is_free(model, root) and bool(np.all(np.asarray(model.body_weldid)[whole] == root))


def primitive(model: mujoco.MjModel, geom: int, **options: Any) -> Geometry | None:
    """The shape of a geom that is neither a mesh nor of a type that artix lacks; else ``None``."""
    name = geom_type(model, geom)
    if name not in _READABLE_TYPES:
        return None
    kind = GeometryType[name]
    return Geometry(
        type=kind, size=tuple(model.geom_size[geom, : SIZE_NUMBERS[kind]].tolist()), **options
    )


# --- friction and pairs -------------------------------------------------------------------------

Combination: TypeAlias = Literal["max", "ground", "robot"]


def ground_geoms(model: mujoco.MjModel) -> list[int]:
    """The static planes and height fields, which make up the ground."""
    static = np.flatnonzero(welds(model)[model.geom_bodyid] == 0).tolist()
    return [geom for geom in static if geom_type(model, geom) in ("PLANE", "HFIELD")]


def obstacles(model: mujoco.MjModel) -> list[int]:
    """Static geoms that are not ground and may touch something that moves, such as a table.

    The base of a robot is not among them: they are on the world and on its children without joints.
    """
    body_of = np.asarray(model.geom_bodyid)
    moves = welds(model)[body_of] != 0
    tops = np.asarray(model.body_rootid)[body_of]
    stands = np.array([not has_dofs(model, body) for body in range(model.nbody)])[tops]
    types, affinities = np.asarray(model.geom_contype), np.asarray(model.geom_conaffinity)
    all_types, all_affinities = (
        np.bitwise_or.reduce(masks[moves], initial=0) for masks in (types, affinities)
    )
    touches = ((types & all_affinities) | (affinities & all_types)) != 0
    paired = np.isin(np.arange(model.ngeom), [*model.pair_geom1, *model.pair_geom2])
    ground = ground_geoms(model)
    static = (~moves & (stands | (body_of == 0))) & (touches | paired)
    return [geom for geom in np.flatnonzero(static).tolist() if geom not in ground]


def may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether the bit masks of two geoms let them touch."""
    types, affinities = model.geom_contype, model.geom_conaffinity
    return bool(types[a] & affinities[b] or types[b] & affinities[a])


def excluded_bodies(model: mujoco.MjModel) -> set[frozenset[int]]:
    """The pairs of bodies that ``<exclude>`` keeps apart."""
    return {
        frozenset((int(both) >> 16, int(both) & 0xFFFF))
        for both in np.asarray(model.exclude_signature)
    }


def pair_frictions(model: mujoco.MjModel) -> dict[frozenset[int], float]:
    """The friction of the geoms of each ``<pair>``; the mean of several, each of which has contacts
    of its own.
    """
    every: dict[frozenset[int], list[float]] = {}
    for pair in range(model.npair):
        friction = float(model.pair_friction[pair, 0]) if model.pair_dim[pair] > 1 else 0.0
        geoms = frozenset((int(model.pair_geom1[pair]), int(model.pair_geom2[pair])))
        every.setdefault(geoms, []).append(friction)
    return {geoms: float(np.mean(frictions)) for geoms, frictions in every.items()}


def geoms_touching_others(model: mujoco.MjModel, bodies: Collection[int]) -> set[int]:
    """The moving geoms on some bodies that MuJoCo lets touch the moving geoms of other
    articulations.
    """
    excluded = excluded_bodies(model)
    body_of = np.asarray(model.geom_bodyid)
    moving = np.flatnonzero(welds(model)[body_of])
    is_inside = np.isin(body_of[moving], list(bodies))
    inside, outside = set(moving[is_inside].tolist()), moving[~is_inside]
    types, affinities = np.asarray(model.geom_contype), np.asarray(model.geom_conaffinity)

    def touches(geom: int) -> bool:
        matches = (types[geom] & affinities[outside]) | (types[outside] & affinities[geom])
        others = body_of[outside[matches != 0]].tolist()
        return any(frozenset((int(body_of[geom]), other)) not in excluded for other in others)

    across = [
        both for both in pair_frictions(model) if both & inside and both & set(outside.tolist())
    ]
    return {geom for both in across for geom in both & inside} | set(filter(touches, inside))


def mixed_friction(model: mujoco.MjModel, a: int, b: int) -> float:
    """The friction of two geoms without a ``<pair>``: the one of higher ``priority``, else the
    larger.

    The same holds for ``condim``, and contacts with a ``condim`` of 1 are frictionless.
    """
    ranks = [int(model.geom_priority[geom]) for geom in (a, b)]
    winners = [geom for geom, rank in zip((a, b), ranks, strict=True) if rank == max(ranks)]
    has_friction = max(int(model.geom_condim[geom]) for geom in winners) > 1
    return max(float(model.geom_friction[geom, 0]) for geom in winners) if has_friction else 0.0


@dataclasses.dataclass(frozen=True)
class GroundFriction:
    """Which geoms touch the ground, and coefficients of both surfaces whose combination is MuJoCo's
    friction.

    Attributes:
      combination: how the two coefficients combine, see :class:`artix.Ground`.
      shapes: coefficients by geom, of those that touch the ground.
      surfaces: coefficients by geom of the ground.
      outranks: whether a ``priority`` decides the friction of some of these contacts.
      inexact: geoms of shapes and surfaces whose combination is not MuJoCo's friction, with both
        coefficients.
      apart: geoms that MuJoCo keeps apart from some of the ground's surfaces, but not from all.
    """

    combination: Combination
    shapes: dict[int, float]
    surfaces: dict[int, float]
    outranks: bool
    inexact: dict[tuple[int, int], tuple[float, float]]
    apart: list[int]


def ground_friction(model: mujoco.MjModel) -> GroundFriction:
    """Friction between the geoms of a model and its ground.

    As in MuJoCo, two geoms touch if ``contype`` and ``conaffinity`` match and no ``<exclude>``
    names their bodies, or if a ``<pair>`` names them. In a model without ground, all geoms that
    touch anything would touch it.
    """
    ground = ground_geoms(model)
    pairs = pair_frictions(model)
    excluded = excluded_bodies(model)
    frictions: dict[tuple[int, int], float] = {}
    touching: list[int] = []
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        if body == 0 or geom in ground:
            continue
        mine = {}
        for surface in ground:
            if (both := frozenset((geom, surface))) in pairs:
                mine[geom, surface] = pairs[both]
            elif frozenset((body, int(model.geom_bodyid[surface]))) not in excluded and may_touch(
                model, geom, surface
            ):
                mine[geom, surface] = mixed_friction(model, geom, surface)
        frictions |= mine
        collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
        if mine or (not ground and collides and frozenset((0, body)) not in excluded):
            touching.append(geom)
    moves = welds(model)[model.geom_bodyid] != 0
    moving = {pair: mu for pair, mu in frictions.items() if moves[pair[0]]}
    combination, shapes, surfaces = _coefficients(model, touching, ground, moving or frictions)
    inexact = {
        pair: (wanted, read)
        for pair, wanted in moving.items()
        if (read := _combine(combination, shapes[pair[0]], surfaces[pair[1]])) != wanted
    }
    ranks = {int(model.geom_priority[geom]) for geom in [*touching, *ground]}
    apart = [
        geom for geom in touching if any((geom, surface) not in frictions for surface in ground)
    ]
    return GroundFriction(combination, shapes, surfaces, len(ranks | {0}) > 1, inexact, apart)


def _coefficients(
    model: mujoco.MjModel,
    touching: list[int],
    ground: list[int],
    frictions: Mapping[tuple[int, int], float],
) -> tuple[Combination, dict[int, float], dict[int, float]]:
    """The combination and the coefficients of shapes and surfaces that come closest to the friction
    of all pairs.

    The coefficients of the file come first, as ``max`` or, where the ground has the higher
    priority, as ``ground``. A single surface can leave everything to the shapes. Several surfaces
    need the smallest friction of each.
    """
    shapes, surfaces = (
        {geom: float(model.geom_friction[geom, 0]) for geom in geoms}
        for geoms in (touching, ground)
    )
    of_shape = {
        a: [mu for (one, _), mu in frictions.items() if one == a] or [shapes[a]] for a in touching
    }
    of_surface = {
        b: [mu for (_, one), mu in frictions.items() if one == b] or [surfaces[b]] for b in ground
    }
    largest = {geom: max(values) for geom, values in of_shape.items()}
    smallest = {geom: min(values) for geom, values in of_shape.items()}
    choices: tuple[tuple[Combination, dict[int, float], dict[int, float]], ...] = (
        ("max", shapes, surfaces),
        ("ground", shapes, surfaces),
        ("robot", largest, surfaces),
        ("max", smallest, {geom: min(values) for geom, values in of_surface.items()}),
    )

    def error(choice) -> float:
        combination, a, b = choice
        return max(
            (
                abs(_combine(combination, a[shape], b[surface]) - mu)
                for (shape, surface), mu in frictions.items()
            ),
            default=0.0,
        )

    return min(choices, key=error)  # The first of the best.


def _combine(combination: Combination, shape: float, surface: float) -> float:
    return {"max": max(shape, surface), "ground": surface, "robot": shape}[combination]


def check_friction(source: MjcfSource, bodies: list[int], friction: GroundFriction) -> None:
    """Reports what artix's contacts with the ground have otherwise than MuJoCo's."""
    model = source.model
    place = Location("<contact>")
    inside = [geom for geom in friction.shapes if model.geom_bodyid[geom] in bodies]
    inexact = {pair: values for pair, values in friction.inexact.items() if pair[0] in inside}
    apart = [geom for geom in friction.apart if geom in inside]
    if not inside or not np.any(welds(model)[model.geom_bodyid[inside]]):
        return  # Shapes on a fixed root touch nothing.
    if friction.combination != "max" or (friction.outranks and not friction.surfaces):
        rule = "ground" if friction.combination == "ground" else "robot"
        whose = "the ground's friction" if rule == "ground" else "their own friction"
        message = (
            f"by priority, condim or <pair>, contacts of its geoms with the ground have {whose} "
            "only"
        )
        fix = (
            f"use the ground of artix.load_world, or another one with friction_combination={rule!r}"
        )
        source.report.warning(place, message, fix)
    if inexact:
        (shape, surface), (wanted, read) = max(
            inexact.items(), key=lambda item: abs(item[1][0] - item[1][1])
        )
        names = " and ".join(repr(source.name("geom", geom)) for geom in (shape, surface))
        message = (
            "artix has no rule that gives all of its geoms MuJoCo's friction with all surfaces of "
            "the ground: "
        )
        message += f"{len(inexact)} differ, {names} have {read:g} instead of {wanted:g}"
        fix = "nothing, unless it matters; else give the ground's geoms one priority"
        source.report.warning(place, message, fix)
    if apart:
        message = counted(
            len(apart),
            "geom touches all of the ground, also where contype or <exclude> keep it from it",
            "geoms touch all of the ground, also where contype or <exclude> keep them from it",
        )
        fix = "nothing, if they do not get there; else remove that surface from the ground"
        source.report.warning(place, message, fix)


# --- pairs of geoms -----------------------------------------------------------------------------


def self_contact_pairs(source: MjcfSource, bodies: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of geoms on the given bodies that touch each other.

    These are the geoms of each ``<pair>``; in a scene, those with what stands around, such as a
    table; and, with the option ``self_contact``, all pairs that the filters of the model allow.
    They include geoms of the world if it is the root. Pairs that are left out are reported.
    """
    candidates = _candidates(source, bodies)
    pairs = _explicit_pairs(source, candidates)
    filtered = [pair for pair in _filtered_pairs(source, candidates) if pair not in pairs]
    around = obstacles(source.model) if source.options.ground else []
    pairs += [pair for pair in filtered if not set(pair).isdisjoint(around)]
    filtered = [pair for pair in filtered if pair not in pairs]
    if source.options.self_contact:
        pairs = pairs + filtered
    elif filtered:
        message = counted(
            len(filtered),
            "pair of geoms that contype, conaffinity and <exclude> allow is left out",
            "pairs of geoms that contype, conaffinity and <exclude> allow are left out",
        )
        fix = "write a <pair> for those that matter, or read all with self_contact=True"
        source.report.warning(Location("<contact>"), message, fix)
    return _supported(source, pairs, "one articulation")


def pairs_across(source: MjcfSource, robots: Mapping[str, Sequence[int]]) -> list[tuple[int, int]]:
    """The pairs of geoms on different robots that touch each other in MuJoCo, except what artix
    cannot pair.

    Args:
      source: the model.
      robots: the bodies of each robot.
    """
    owner = {body: name for name, bodies in robots.items() for body in bodies}
    candidates = _candidates(source, owner)
    pairs = dict.fromkeys(
        [*_explicit_pairs(source, candidates), *_filtered_pairs(source, candidates)]
    )
    body = source.model.geom_bodyid
    across = [(a, b) for a, b in pairs if owner[body[a]] != owner[body[b]]]
    return _supported(source, across, "two robots")


def _candidates(source: MjcfSource, bodies: Container[int]) -> list[int]:
    """The geoms on these bodies, except the geoms of the ground."""
    model = source.model
    ground = ground_geoms(model)
    return [
        geom
        for geom in range(model.ngeom)
        if model.geom_bodyid[geom] in bodies and geom not in ground
    ]


def _supported(
    source: MjcfSource, pairs: Sequence[tuple[int, int]], owners: str
) -> list[tuple[int, int]]:
    """The pairs of shapes that artix can pair; reports how many others there are, and of which
    types.
    """
    geoms = sorted({geom for pair in pairs for geom in pair})
    read = {geom: _shape(source, geom, 0.0) for geom in geoms}
    shapes = {geom: shape.geometry for geom, shape in read.items() if shape is not None}
    supported: list[tuple[int, int]] = []
    others: set[str] = set()
    for pair in pairs:
        alone = [geom for geom in pair if geom not in shapes or not is_paired(shapes[geom])]
        if alone:
            others |= {geom_type(source.model, geom).lower() for geom in alone}
        else:
            supported.append(pair)
    if len(supported) < len(pairs):
        message = counted(
            len(pairs) - len(supported),
            f"pair of geoms of {owners} is left out",
            f"pairs of geoms of {owners} are left out",
        )
        message += f" (types {', '.join(sorted(others))})"
        fix = (
            "where they matter, use spheres, capsules, boxes, cylinders, ellipsoids and meshes, "
            "which touch each other"
        )
        if "mesh" in others:
            fix += f"; read meshes of more than {SMALL_MESH} vertices with meshes='hull'"
        source.report.warning(Location("<contact>"), message, fix)
    return supported


def geom_names(source: MjcfSource, geoms: set[int]) -> dict[int, str]:
    """Unique names of geoms: their own, or ``<body>:<k>``."""
    model = source.model
    file_names = {geom: source.name("geom", geom) for geom in range(model.ngeom)}
    names = Names(name for name in file_names.values() if name)
    unique_names = {}
    for geom in sorted(geoms):
        body = int(model.geom_bodyid[geom])
        unnamed = f"{source.name('body', body)}:{geom - int(model.body_geomadr[body])}"
        unique_names[geom] = file_names[geom] or names.new(unnamed)
    return unique_names


def friction_of_pairs(model: mujoco.MjModel, pairs: Sequence[tuple[int, int]]) -> list[float]:
    """The friction of pairs of geoms: that of their ``<pair>``, or of their materials."""
    explicit = pair_frictions(model)
    return [explicit.get(frozenset(pair), mixed_friction(model, *pair)) for pair in pairs]


def check_pair_friction(
    source: MjcfSource, pairs: Sequence[tuple[int, int]], touching: Mapping[int, float]
) -> None:
    """Reports pairs whose friction is not the larger of their shapes', which contacts between links
    use.
    """
    model = source.model
    explicit = pair_frictions(model)
    differ = {}
    for pair, wanted in zip(pairs, friction_of_pairs(model, pairs), strict=True):
        read = max(touching.get(geom, float(model.geom_friction[geom, 0])) for geom in pair)
        if wanted != read:
            differ[pair] = (wanted, read)
    if differ:
        pair, (wanted, read) = next(iter(differ.items()))
        names = " and ".join(repr(source.name("geom", geom)) for geom in pair)
        which = f"the <pair> of {names}" if frozenset(pair) in explicit else names
        message = f"the friction of {which}, {wanted:g}, is not the larger of its geoms', {read:g}"
        message += f"; the same of {len(differ) - 1} other pairs" if len(differ) > 1 else ""
        fix = (
            "read it with artix.load_world, whose scene has the friction of each pair; contacts of "
            "a robot by itself use the larger of the two"
        )
        source.report.warning(Location("<contact>"), message, fix)


def _explicit_pairs(source: MjcfSource, candidates: list[int]) -> list[tuple[int, int]]:
    model = source.model
    pairs = zip(
        np.asarray(model.pair_geom1).tolist(), np.asarray(model.pair_geom2).tolist(), strict=True
    )
    unique = {frozenset(pair): pair for pair in pairs}
    return [
        (a, b)
        for a, b in unique.values()
        if a in candidates and b in candidates and not _moves_as_one(model, a, b)
    ]


def _filtered_pairs(source: MjcfSource, candidates: list[int]) -> list[tuple[int, int]]:
    """The pairs that pass MuJoCo's filters: bit masks, excluded bodies, and bodies adjacent in the
    tree.

    Bodies adjacent to the world are not filtered.
    """
    model = source.model
    excluded = excluded_bodies(model)
    weld = model.body_weldid
    above = [int(weld[model.body_parentid[body]]) for body in range(model.nbody)]
    pairs = []
    for pair in itertools.combinations(candidates, 2):
        a, b = pair
        bodies = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
        first, second = (int(weld[body]) for body in bodies)
        neighbours = first and second and (above[first] == second or above[second] == first)
        if _moves_as_one(model, a, b) or frozenset(bodies) in excluded:
            continue
        if neighbours and not source.disables("FILTERPARENT"):
            continue
        if may_touch(model, a, b):
            pairs.append(pair)
    return pairs


def _moves_as_one(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether two geoms are on bodies that are welded together."""
    weld = welds(model)
    return bool(weld[model.geom_bodyid[a]] == weld[model.geom_bodyid[b]])


# --- visuals ------------------------------------------------------------------------------------

#: MuJoCo's own viewer shows geoms of groups 0 to 2; models keep collision shapes in group 3.
SHOWN_GROUPS = 3


def mjcf_visuals(path_or_text: str | Path) -> list[Surface]:
    """The geoms that MuJoCo's viewer draws for moving bodies: groups 0 to 2, or all geoms of a body
    without these.

    Raises:
      DescriptionError: MuJoCo's compiler refuses the file.
      OSError: it cannot be read.
      ImportError: ``mujoco`` is not installed.
    """
    report = Report(str(path_or_text))
    source = compile_mjcf(path_or_text, report)
    report.raise_errors()
    assert source is not None  # Without one there are errors.
    model = source.model
    names = source.names
    meshes = [_triangles(model, mesh) for mesh in range(model.nmesh)]
    surfaces: list[Surface] = []
    for body in range(1, model.nbody):
        first = int(model.body_geomadr[body])
        geoms = range(first, first + int(model.body_geomnum[body]))
        shown = [
            geom
            for geom in geoms
            if model.geom_group[geom] < SHOWN_GROUPS and _rgba(model, geom)[3] > 0.0
        ]
        for geom in shown or geoms:
            kind = geom_type(model, geom)
            shape: Any = (
                meshes[int(model.geom_dataid[geom])] if kind == "MESH" else primitive(model, geom)
            )
            if shape is not None:
                pose = pose_from_wxyz(model.geom_pos[geom], model.geom_quat[geom])
                red, green, blue, opacity = _rgba(model, geom)
                opacity = opacity if shown else 1.0
                surfaces.append(
                    Surface(names.bodies[body], shape, pose, (red, green, blue), opacity)
                )
    return surfaces


def _triangles(model: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a mesh."""
    vertex, face = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
    vertices = model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[mesh])]
    return np.array(vertices), np.array(
        model.mesh_face[face : face + int(model.mesh_facenum[mesh])]
    )


def _rgba(model: mujoco.MjModel, geom: int) -> tuple[float, float, float, float]:
    """The colour of a geom or, without one, of its material."""
    color = np.asarray(model.geom_rgba[geom], float)
    material = int(model.geom_matid[geom])
    if material >= 0 and np.allclose(color, [0.5, 0.5, 0.5, 1.0]):
        color = np.asarray(model.mat_rgba[material], float)
    red, green, blue, opacity = color.tolist()
    return red, green, blue, opacity
