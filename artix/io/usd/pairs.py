"""Which shapes of an articulation in USD touch each other, by PhysX's filters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from artix.io.common.links import LinkPlace
from artix.io.usd.articulation import UsdArticulation
from artix.io.usd.colliders import TRIGGER_SCHEMA
from artix.io.usd.stage import UsdPrim, import_pxr
from artix.model.geometry_pairs import PAIRED_TYPES

#: Types of prims whose shapes support contact with each other.
_KINDS = tuple({"sphere": "Sphere", "capsule": "Capsule", "box": "Cube"}[kind.value] for kind in PAIRED_TYPES)


def self_contact_pairs(
    description: UsdArticulation, places: Mapping[str, LinkPlace], self_contact: bool
) -> list[tuple[str, str]]:
    """The names of shapes that touch each other.

    These are all pairs on links that no joint connects, unless the articulation's ``enabledSelfCollisions`` is off, or
    filtered pairs or collision groups exclude them. Triggers touch nothing. Without ``self_contact``, the pairs are
    reported and left out.
    """
    root = description.scene.prims[description.root.path]
    if not root.read_bool("physxArticulation:enabledSelfCollisions", True):
        return []
    named = [
        (body, prim, name)
        for body, prims in description.shapes.items()
        for prim, name in zip(prims, places[description.names[body]].geometries, strict=True)
        if str(prim.prim.GetTypeName()).removesuffix("_1") in _KINDS and not prim.has(TRIGGER_SCHEMA)
    ]
    joined = {frozenset((parent, child)) for parent, _, child in description.tree.edges}
    filtered, grouped = _filtered_pairs(description), _collision_groups(description)
    found = [
        (one[2], other[2])
        for one, other in itertools.combinations(named, 2)
        if places[description.names[one[0]]].number != places[description.names[other[0]]].number
        and frozenset((one[0], other[0])) not in joined
        and not any(frozenset(pair) in filtered for pair in itertools.product(_lineage(one), _lineage(other)))
        and grouped(one[1], other[1])
    ]
    if found and not self_contact:
        message = f"{len(found)} pairs of its shapes that touch each other in PhysX are left out"
        fix = "choose those that matter with artix.select_geometry_pairs, or read all with self_contact=True"
        description.scene.report.warning(root, message, fix)
        return []
    return found


def _lineage(shape: tuple[str, UsdPrim, str]) -> tuple[str, str]:
    """The paths by which a shape can be filtered: its own and its body's."""
    return shape[1].path, shape[0]


def _filtered_pairs(description: UsdArticulation) -> set[frozenset[str]]:
    """Pairs of paths of bodies or shapes that ``PhysicsFilteredPairsAPI`` excludes."""
    found = set()
    for path, prim in description.scene.prims.items():
        relation = prim.prim.GetRelationship("physics:filteredPairs")
        if relation and prim.has("PhysicsFilteredPairsAPI"):
            found |= {frozenset((path, str(target))) for target in relation.GetTargets()}
    return found


def _collision_groups(description: UsdArticulation) -> Callable[[UsdPrim, UsdPrim], bool]:
    """A function that tells whether the collision groups of two colliders allow contact."""
    physics = import_pxr().UsdPhysics
    stage = description.root.prim.GetStage()
    groups = [physics.CollisionGroup(prim) for prim in stage.Traverse() if prim.IsA(physics.CollisionGroup)]
    if not groups:
        return lambda a, b: True
    table = physics.CollisionGroup.ComputeCollisionGroupTable(stage)
    members = [(group.GetPath(), group.GetCollidersCollectionAPI().ComputeMembershipQuery()) for group in groups]

    def own(prim: UsdPrim) -> list:
        return [path for path, query in members if query.IsPathIncluded(prim.prim.GetPath())]

    return lambda a, b: all(table.IsCollisionEnabled(*paths) for paths in itertools.product(own(a), own(b)))
