"""What a stage says of contacts: which shapes touch each other, by PhysX's filters (filtered pairs,
collision groups, and bodies that a joint connects), and their materials, whose coefficients combine
in pairs, also with the ground.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from artix.contact.ground import Ground, Plane
from artix.contact.materials import COMBINATIONS_OF_SHAPES
from artix.io.common.diagnostics import Location, counted
from artix.io.common.poses import rotation_matrix
from artix.io.usd.joints import KINDS, enclosing
from artix.io.usd.stage import UsdPrim, UsdScene, import_pxr
from artix.io.usd.tree import ROOT_SCHEMA, UsdTree, is_articulation
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
    scene: UsdScene, root: UsdPrim, tree: UsdTree, shapes: Sequence[UsdShape], self_contact: bool
) -> list[tuple[str, str]]:
    """The names of an articulation's shapes that touch each other.

    These are all pairs on links that no joint connects, unless the articulation's
    ``enabledSelfCollisions`` is off, or filtered pairs or collision groups exclude them. Without
    ``self_contact``, the pairs are reported and left out.

    Args:
      scene: the stage.
      root: the articulation's root prim.
      tree: its links and joints.
      shapes: its shapes.
      self_contact: whether they touch each other.
    """
    root = scene.prims[root.path]
    if not root.read_bool("physxArticulation:enabledSelfCollisions", True):
        return []
    # PhysX keeps the neighbours in an articulation apart, whatever their joint says.
    reduced = is_articulation(scene, root)
    joined = {
        frozenset((parent, child))
        for parent, joint, child in tree.edges
        if reduced or not joint.prim.read_bool("physics:collisionEnabled", False)
    }
    allowed = _filters(scene)
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
        scene.report.warning(root, message, fix)
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
    """A function that tells whether filtered pairs, collision groups and joints let two shapes
    touch.
    """
    bodies, colliders = (
        {
            path
            for path, prim in scene.prims.items()
            if prim.has(schema) and prim.read_bool(on, True)
        }
        for schema, on in (
            ("PhysicsRigidBodyAPI", "physics:rigidBodyEnabled"),
            ("PhysicsCollisionAPI", "physics:collisionEnabled"),
        )
    )
    roots = [path for path, prim in scene.prims.items() if prim.has(ROOT_SCHEMA)]
    filtered = _jointed(scene, bodies, colliders)
    for path, prim in scene.prims.items():
        relation = prim.prim.GetRelationship("physics:filteredPairs")
        if relation and prim.has("PhysicsFilteredPairsAPI"):
            filtered |= {frozenset((path, str(target))) for target in relation.GetTargets()}
    grouped = _collision_groups(scene)

    @functools.cache
    def known_as(collider: str) -> list[str]:
        # Shapes are filtered by their own paths and by those of their bodies and articulations.
        above = enclosing(collider, bodies), enclosing(collider, roots)
        return [collider, *filter(None, above)]

    scenes = [p for p, prim in scene.prims.items() if prim.prim.GetTypeName() == "PhysicsScene"]

    @functools.cache
    def simulated_by(collider: str) -> str | None:
        # Bodies of different scenes do not meet.
        prim = scene.prims[enclosing(collider, bodies) or collider]
        owner = prim.read_target("physics:simulationOwner") if len(scenes) > 1 else None
        return owner if owner in scenes else next(iter(scenes), None)

    def allowed(a: UsdShape, b: UsdShape) -> bool:
        pairs = itertools.product(known_as(a.prim.path), known_as(b.prim.path))
        if simulated_by(a.prim.path) != simulated_by(b.prim.path):
            return False
        return not any(frozenset(pair) in filtered for pair in pairs) and grouped(a.prim, b.prim)

    return allowed


def _jointed(
    scene: UsdScene, bodies: Container[str], colliders: Container[str]
) -> set[frozenset[str]]:
    """The bodies, and colliders that stand around, that a joint connects and thereby keeps from
    touching each other: a door does not touch its frame.
    """
    apart = set()
    for prim in scene.prims.values():
        if (
            str(prim.prim.GetTypeName()) in KINDS
            and prim.read_bool("physics:jointEnabled", True)
            and not prim.read_bool("physics:collisionEnabled", False)
        ):
            targets = [prim.read_target(f"physics:body{side}") or "/" for side in "01"]
            ends = [enclosing(path, bodies) or enclosing(path, colliders) for path in targets]
            if all(ends):
                apart.add(frozenset(map(str, ends)))
    return apart


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


# Materials


class Surface(NamedTuple):
    """What a collider's material says of contacts with another."""

    name: str
    coefficients: tuple[float, float]
    """Friction and restitution."""
    rules: tuple[int, int]
    """The numbers of the rules that combine them with those of another."""


def physics_material(scene: UsdScene, collider: UsdPrim) -> UsdPrim | None:
    """The physics material bound to a collider."""
    bound, _ = (
        import_pxr().UsdShade.MaterialBindingAPI(collider.prim).ComputeBoundMaterial("physics")
    )
    prim = UsdPrim(bound.GetPrim(), scene.report) if bound else None
    return prim if prim is not None and prim.has("PhysicsMaterialAPI") else None


def material_of(scene: UsdScene, collider: UsdPrim) -> dict[str, float]:
    """The parameters of the physics material bound to a collider, in SI units; empty if there is
    none.
    """
    prim = physics_material(scene, collider)
    if prim is None:
        return {}
    numbers = {
        "friction": prim.read_number("physics:dynamicFriction", low=0.0),
        "restitution": prim.read_number("physics:restitution", low=0.0, high=1.0),
    }
    at_rest = prim.read_number("physics:staticFriction", low=0.0)
    if at_rest > numbers["friction"]:
        message = f"contacts have the dynamic friction at rest, too, instead of {at_rest:g}"
        prim.left_out("physics:staticFriction", message, "give both the same value")
    # In PhysX a stiffness of zero means rigid contact. Units are force per length and force per
    # speed.
    stiffness = (
        prim.read_number("physxMaterial:compliantContactStiffness", low=0.0) * scene.units.mass
    )
    if stiffness > 0.0:
        name = "physxMaterial:compliantContactAccelerationSpring"
        if prim.read_bool(name, False):
            message = "the spring acts as one of force, whatever masses touch"
            prim.left_out(name, message, "give the stiffness in N/m, without it")
        damping = (
            prim.read_number("physxMaterial:compliantContactDamping", low=0.0) * scene.units.mass
        )
        numbers |= {"stiffness": stiffness, "damping": damping}
    return numbers


def surface_of(
    scene: UsdScene, collider: UsdPrim, name: str, friction: Any, restitution: Any
) -> Surface:
    """The surface of a collider with these coefficients."""
    prim = physics_material(scene, collider)
    rules = (0, 0)
    if prim is not None:
        names = tuple(COMBINATIONS_OF_SHAPES)
        rules = tuple(  # type: ignore[assignment]
            names.index(prim.read_token(f"physxMaterial:{which}CombineMode", names[0], names))
            for which in ("friction", "restitution")
        )
    return Surface(name, (float(friction), float(restitution)), rules)


class Rule(NamedTuple):
    """How the coefficients of most pairs combine."""

    name: str
    values: np.ndarray
    """The coefficients of all pairs in PhysX."""
    is_wrong: np.ndarray
    """Which pairs have others by this rule."""


def rules_of(pairs: Sequence[tuple[Surface, Surface]]) -> tuple[Rule, Rule]:
    """The rules of friction and of restitution that are right for most pairs; of those that are,
    the one that most pairs have.
    """
    rules = []
    for k in (0, 1):
        a, b = (np.array([pair[side].coefficients[k] for pair in pairs]) for side in (0, 1))
        numbers = np.array([max(pair[0].rules[k], pair[1].rules[k]) for pair in pairs], int)
        every = np.array([rule(a, b) for rule in COMBINATIONS_OF_SHAPES.values()])
        values = every[numbers, np.arange(len(pairs))]
        is_wrong = np.abs(every - values) > 1e-6
        named = np.bincount(numbers, minlength=len(COMBINATIONS_OF_SHAPES))
        best = int(np.lexsort((-named, is_wrong.sum(axis=1)))[0])
        rules.append(Rule(list(COMBINATIONS_OF_SHAPES)[best], values, is_wrong[best]))
    return rules[0], rules[1]


def report_rule(
    scene: UsdScene, pairs: Sequence[tuple[Surface, Surface]], rule: Rule, what: str
) -> None:
    """Reports pairs whose coefficients a rule does not combine as PhysX does."""
    if rule.is_wrong.any():
        first, second = pairs[int(np.argmax(rule.is_wrong))]
        message = (
            f"the {what} is combined by {rule.name!r}, which is not PhysX's for "
            f"{rule.is_wrong.sum()} of {len(pairs)} pairs, such as {first.name!r} and "
            f"{second.name!r}"
        )
        kind = what.split()[0]
        fix = f"give all physics materials the same physxMaterial:{kind}CombineMode"
        scene.report.warning(Location("stage"), message, fix)


def read_ground(scene: UsdScene, surfaces: Iterable[Surface]) -> Ground | None:
    """The planes of a stage outside its bodies, for robots with these surfaces; ``None`` without
    one.
    """
    planes = []
    materials = []
    for prim in scene.prims.values():
        if str(prim.prim.GetTypeName()) != "Plane" or not prim.has("PhysicsCollisionAPI"):
            continue
        above = [scene.prims.get(str(path)) for path in prim.prim.GetPath().GetPrefixes()]
        is_on_body = any(one is not None and one.has("PhysicsRigidBodyAPI") for one in above)
        if is_on_body or not prim.read_bool("physics:collisionEnabled", True):
            continue
        pose = scene.pose(prim.path)
        axis = "XYZ".index(prim.read_token("axis", "Z", ("X", "Y", "Z")))
        normal = rotation_matrix(pose[3:])[:, axis]
        plane = Plane.of(normal=normal, point=pose[:3], **material_of(scene, prim))
        planes.append(plane)
        materials.append(surface_of(scene, prim, prim.name, plane.friction, plane.restitution))
    if not planes:
        return None
    pairs = list(itertools.product(surfaces, materials))
    rules = rules_of(pairs)
    for rule, what in zip(rules, ("friction", "restitution"), strict=True):
        report_rule(scene, pairs, rule, f"{what} of shapes and the ground")
    names: list[Any] = [rule.name for rule in rules]
    return Ground(tuple(planes), *names)
