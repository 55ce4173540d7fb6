"""Which shapes of a stage touch each other, by PhysX's filters: filtered pairs, collision groups,
and bodies that a joint connects.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from artix.io.common.diagnostics import counted
from artix.io.usd.articulation import UsdArticulation
from artix.io.usd.stage import UsdPrim, UsdScene, import_pxr
from artix.model.geometry import Geometry
from artix.model.topology import is_paired


class UsdShape(NamedTuple):
    """A collider that touches others."""

    body: str
    """The path of its body."""
    prim: UsdPrim
    name: str
    """The name of its shape."""
    link: str
    """The link that the shape is on."""


def touches_others(shape: Geometry) -> bool:
    """Whether a shape touches others: triggers do not."""
    return is_paired(shape) and not shape.sensor


def self_contact_pairs(
    usd: UsdArticulation, shapes: Sequence[UsdShape], self_contact: bool
) -> list[tuple[str, str]]:
    """The names of an articulation's shapes that touch each other.

    These are all pairs on links that no joint connects, unless the articulation's
    ``enabledSelfCollisions`` is off, or filtered pairs or collision groups exclude them. Without
    ``self_contact``, the pairs are reported and left out.
    """
    root = usd.scene.prims[usd.root.path]
    if not root.read_bool("physxArticulation:enabledSelfCollisions", True):
        return []
    joined = {frozenset((parent, child)) for parent, _, child in usd.tree.edges}
    allowed = _filters(usd.scene)
    pairs = [
        (a.name, b.name)
        for a, b in itertools.combinations(shapes, 2)
        if a.link != b.link and frozenset((a.body, b.body)) not in joined and allowed(a, b)
    ]
    if pairs and not self_contact:
        message = counted(
            len(pairs),
            "pair of its shapes that touch each other in PhysX is left out",
            "pairs of its shapes that touch each other in PhysX are left out",
        )
        fix = (
            "choose those that matter with artix.select_geometry_pairs, or read all with "
            "self_contact=True"
        )
        usd.scene.report.warning(root, message, fix)
        return []
    return pairs


def pairs_across(
    scene: UsdScene, shapes: Mapping[str, Sequence[UsdShape]], standing: Mapping[str, set[str]]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The robots and shapes that touch each other, of different robots.

    Args:
      scene: the stage.
      shapes: the shapes of each robot.
      standing: the links of each robot that never move, which do not touch each other.
    """
    allowed = _filters(scene)
    return [
        ((first, a.name), (second, b.name))
        for first, second in itertools.combinations(shapes, 2)
        for a, b in itertools.product(shapes[first], shapes[second])
        if not (a.link in standing[first] and b.link in standing[second]) and allowed(a, b)
    ]


def _filters(scene: UsdScene) -> Callable[[UsdShape, UsdShape], bool]:
    """A function that tells whether filtered pairs and collision groups let two shapes touch."""
    filtered = set()
    for path, prim in scene.prims.items():
        relation = prim.prim.GetRelationship("physics:filteredPairs")
        if relation and prim.has("PhysicsFilteredPairsAPI"):
            filtered |= {frozenset((path, str(target))) for target in relation.GetTargets()}
    grouped = _collision_groups(scene)

    def allowed(a: UsdShape, b: UsdShape) -> bool:
        # Shapes are filtered by their own paths and by those of their bodies.
        pairs = itertools.product((a.prim.path, a.body), (b.prim.path, b.body))
        return not any(frozenset(pair) in filtered for pair in pairs) and grouped(a.prim, b.prim)

    return allowed


def _collision_groups(scene: UsdScene) -> Callable[[UsdPrim, UsdPrim], bool]:
    """A function that tells whether the collision groups of two colliders allow contact."""
    physics = import_pxr().UsdPhysics
    groups = [
        physics.CollisionGroup(prim)
        for prim in scene.stage.Traverse()
        if prim.IsA(physics.CollisionGroup)
    ]
    if not groups:
        return lambda a, b: True
    table = physics.CollisionGroup.ComputeCollisionGroupTable(scene.stage)
    members = [
        (group.GetPath(), group.GetCollidersCollectionAPI().ComputeMembershipQuery())
        for group in groups
    ]

    @functools.cache
    def groups_of(path: str) -> tuple[Any, ...]:
        return tuple(group for group, query in members if query.IsPathIncluded(path))

    @functools.cache
    def are_enabled(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
        return all(table.IsCollisionEnabled(*pair) for pair in itertools.product(a, b))

    def allowed(a: UsdPrim, b: UsdPrim) -> bool:
        return are_enabled(groups_of(a.path), groups_of(b.path))

    return allowed
