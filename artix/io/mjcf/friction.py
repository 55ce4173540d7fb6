"""The friction of contacts of a compiled MJCF, by MuJoCo's rules, and the coefficients that give the same in artix."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from artix.io.mjcf.bodies import geom_type

if TYPE_CHECKING:
    import mujoco


Combination: TypeAlias = Literal["max", "ground", "robot"]


def ground_geoms(model: mujoco.MjModel) -> list[int]:
    """The static planes and height fields, which make up the ground."""
    static = np.flatnonzero(np.asarray(model.body_weldid)[model.geom_bodyid] == 0).tolist()
    return [geom for geom in static if geom_type(model, geom) in ("PLANE", "HFIELD")]


def may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether the bit masks of two geoms let them touch."""
    types, affinities = model.geom_contype, model.geom_conaffinity
    return bool(types[a] & affinities[b] or types[b] & affinities[a])


def excluded_bodies(model: mujoco.MjModel) -> set[frozenset[int]]:
    """The pairs of bodies that ``<exclude>`` keeps apart."""
    return {frozenset((int(both) >> 16, int(both) & 0xFFFF)) for both in np.asarray(model.exclude_signature)}


def pair_frictions(model: mujoco.MjModel) -> dict[frozenset[int], float]:
    """The friction of the geoms of each ``<pair>``; the mean of several, each of which has contacts of its own."""
    given: dict[frozenset[int], list[float]] = {}
    for pair in range(model.npair):
        friction = float(model.pair_friction[pair, 0]) if model.pair_dim[pair] > 1 else 0.0
        geoms = frozenset((int(model.pair_geom1[pair]), int(model.pair_geom2[pair])))
        given.setdefault(geoms, []).append(friction)
    return {geoms: float(np.mean(frictions)) for geoms, frictions in given.items()}


def mixed_friction(model: mujoco.MjModel, a: int, b: int) -> float:
    """The friction of two geoms without a ``<pair>``: that of higher ``priority``, else the larger.

    The same holds for ``condim``, and contacts with a ``condim`` of 1 are frictionless.
    """
    ranks = [int(model.geom_priority[geom]) for geom in (a, b)]
    winners = [geom for geom, rank in zip((a, b), ranks, strict=True) if rank == max(ranks)]
    has_friction = max(int(model.geom_condim[geom]) for geom in winners) > 1
    return max(float(model.geom_friction[geom, 0]) for geom in winners) if has_friction else 0.0


@dataclasses.dataclass(frozen=True)
class GroundFriction:
    """Which geoms touch the ground, and coefficients of both surfaces whose combination is MuJoCo's friction.

    Attributes:
      combination: how the two coefficients combine, see :class:`artix.Ground`.
      shapes: coefficients by geom, of those that touch the ground.
      surfaces: coefficients by geom of the ground.
      outranks: whether a ``priority`` decides the friction of some of these contacts.
      inexact: geoms of shapes and surfaces whose combination is not MuJoCo's friction, with both coefficients.
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

    As in MuJoCo, two geoms touch if ``contype`` and ``conaffinity`` match and no ``<exclude>`` names their bodies, or
    if a ``<pair>`` names them. In a model without ground, all geoms that touch anything would touch it.
    """
    ground, pairs, excluded = ground_geoms(model), pair_frictions(model), excluded_bodies(model)
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
            elif frozenset((body, int(model.geom_bodyid[surface]))) not in excluded and may_touch(model, geom, surface):
                mine[geom, surface] = mixed_friction(model, geom, surface)
        frictions |= mine
        collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
        if mine or (not ground and collides and frozenset((0, body)) not in excluded):
            touching.append(geom)
    combination, shapes, surfaces = _coefficients(model, touching, ground, frictions)
    inexact = {
        pair: (wanted, read)
        for pair, wanted in frictions.items()
        if (read := _combined(combination, shapes[pair[0]], surfaces[pair[1]])) != wanted
    }
    ranks = {int(model.geom_priority[geom]) for geom in [*touching, *ground]}
    apart = [geom for geom in touching if any((geom, surface) not in frictions for surface in ground)]
    return GroundFriction(combination, shapes, surfaces, len(ranks | {0}) > 1, inexact, apart)


def _coefficients(
    model: mujoco.MjModel, touching: list[int], ground: list[int], frictions: Mapping[tuple[int, int], float]
) -> tuple[Combination, dict[int, float], dict[int, float]]:
    """The combination and the coefficients of shapes and surfaces that come closest to the friction of all pairs.

    The coefficients of the file come first, as ``max`` or, where the ground has the higher priority, as ``ground``. A
    single surface can leave everything to the shapes. Several surfaces need the smallest friction of each.
    """
    own = {geom: float(model.geom_friction[geom, 0]) for geom in [*touching, *ground]}
    shapes, surfaces = ({geom: own[geom] for geom in geoms} for geoms in (touching, ground))
    of_shape = {geom: [mu for (one, _), mu in frictions.items() if one == geom] or [own[geom]] for geom in touching}
    of_surface = {geom: [mu for (_, one), mu in frictions.items() if one == geom] or [own[geom]] for geom in ground}
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
            (abs(_combined(combination, a[shape], b[surface]) - mu) for (shape, surface), mu in frictions.items()),
            default=0.0,
        )

    return min(choices, key=error)  # The first of the best.


def _combined(combination: Combination, shape: float, surface: float) -> float:
    return {"max": max(shape, surface), "ground": surface, "robot": shape}[combination]
