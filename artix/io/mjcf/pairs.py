"""Which geoms of one articulation of a compiled MJCF touch each other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from artix.io.common.diagnostics import Location
from artix.io.common.names import Names
from artix.io.mjcf.bodies import geom_type
from artix.io.mjcf.friction import excluded_bodies, ground_geoms, may_touch, mixed_friction, pair_frictions
from artix.io.mjcf.source import MjcfSource
from artix.model.geometry_pairs import PAIRED_TYPES

if TYPE_CHECKING:
    import mujoco

_TYPES = {kind.name for kind in PAIRED_TYPES}


def self_contact_pairs(source: MjcfSource, bodies: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of geoms on the given bodies that touch each other.

    These are the geoms of each ``<pair>`` and, if ``source.self_contact`` is set, all pairs that the filters of the
    model allow. They include geoms of the world if it is the root. Pairs that are left out are reported.
    """
    model = source.model
    ground = ground_geoms(model)
    own = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] in bodies and geom not in ground]
    found = _explicit_pairs(source, own)
    filtered = [pair for pair in _filtered_pairs(source, own) if pair not in found]
    if source.self_contact:
        found = found + filtered
    elif filtered:
        message = f"{len(filtered)} pairs of geoms that contype, conaffinity and <exclude> allow are left out"
        fix = "write a <pair> for those that matter, or read all with self_contact=True"
        source.report.warning(Location("<contact>"), message, fix)
    unsupported = [pair for pair in found if not all(geom_type(model, geom) in _TYPES for geom in pair)]
    if unsupported:
        kinds = sorted({geom_type(model, geom).lower() for pair in unsupported for geom in pair})
        message = f"{len(unsupported)} pairs of geoms of one articulation are left out (types {', '.join(kinds)})"
        fix = "where they matter, use spheres, capsules and boxes, which touch each other"
        source.report.warning(Location("<contact>"), message, fix)
    return [pair for pair in found if pair not in unsupported]


def geom_names(source: MjcfSource, geoms: set[int]) -> dict[int, str]:
    """Unique names of geoms: their own, or ``<body>:<k>``."""
    model = source.model
    given = {geom: source.name("geom", geom) for geom in range(model.ngeom)}
    names = Names(name for name in given.values() if name)
    found = {}
    for geom in sorted(geoms):
        body = int(model.geom_bodyid[geom])
        unnamed = f"{source.name('body', body)}:{geom - int(model.body_geomadr[body])}"
        found[geom] = given[geom] or names.new(unnamed)
    return found


def check_pair_friction(source: MjcfSource, pairs: Sequence[tuple[int, int]], touching: Mapping[int, float]) -> None:
    """Reports pairs whose friction is not the larger of their shapes', which contacts between links use."""
    model, explicit = source.model, pair_frictions(source.model)
    differ = {}
    for pair in pairs:
        wanted = explicit.get(frozenset(pair), mixed_friction(model, *pair))
        read = max(touching.get(geom, float(model.geom_friction[geom, 0])) for geom in pair)
        if wanted != read:
            differ[pair] = (wanted, read)
    if differ:
        pair, (wanted, read) = next(iter(differ.items()))
        names = " and ".join(repr(source.name("geom", geom)) for geom in pair)
        which = f"the <pair> of {names}" if frozenset(pair) in explicit else names
        message = f"the friction of {which}, {wanted:g}, is not the larger of its geoms', {read:g}"
        message += f"; the same of {len(differ) - 1} other pairs" if len(differ) > 1 else ""
        fix = "give one of the geoms this friction; contacts between links use the larger of the two"
        source.report.warning(Location("<contact>"), message, fix)


def _explicit_pairs(source: MjcfSource, own: list[int]) -> list[tuple[int, int]]:
    model = source.model
    pairs = zip(np.asarray(model.pair_geom1).tolist(), np.asarray(model.pair_geom2).tolist(), strict=True)
    unique = {frozenset(pair): pair for pair in pairs}
    return [(a, b) for a, b in unique.values() if a in own and b in own and not _moves_as_one(model, a, b)]


def _filtered_pairs(source: MjcfSource, own: list[int]) -> list[tuple[int, int]]:
    """The pairs that pass MuJoCo's filters: bit masks, excluded bodies, and bodies adjacent in the tree.

    Bodies adjacent to the world are not filtered.
    """
    model = source.model
    excluded = excluded_bodies(model)
    weld = model.body_weldid
    above = [int(weld[model.body_parentid[body]]) for body in range(model.nbody)]
    found = []
    for pair in itertools.combinations(own, 2):
        a, b = pair
        bodies = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
        first, second = (int(weld[body]) for body in bodies)
        neighbours = first and second and (above[first] == second or above[second] == first)
        if _moves_as_one(model, a, b) or frozenset(bodies) in excluded:
            continue
        if neighbours and not source.disables("FILTERPARENT"):
            continue
        if may_touch(model, a, b):
            found.append(pair)
    return found


def _moves_as_one(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether two geoms are on bodies that are welded together."""
    weld = model.body_weldid
    return bool(weld[model.geom_bodyid[a]] == weld[model.geom_bodyid[b]])
