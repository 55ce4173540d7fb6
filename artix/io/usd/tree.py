"""Finds the links and joints of an articulation.

The root follows UsdPhysics' rules, and links have PhysX's order. Several joints between two bodies
are a stack.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from artix.io.common.diagnostics import Location, listed
from artix.io.common.poses import compose, inverse
from artix.io.usd.joints import UsdJoint, enclosing
from artix.io.usd.stage import UsdPrim, UsdScene

#: (parent, joint, child): the paths of the bodies, ``None`` for the world.
Edge = tuple[str | None, UsdJoint, str]

#: Tolerance for the agreement of stacked joints on the rest pose of the child
#: [m; quaternion entries].
REST_TOLERANCE = 1e-4


def is_stackable(joint: UsdJoint, adds_mobility: bool) -> bool:
    """Whether a joint may be part of a stack: the articulation's root or MuJoCo's schema must allow
    it.
    """
    return joint.kind in ("revolute", "prismatic") and (
        adds_mobility or joint.prim.has("MjcJointAPI")
    )


def is_between(path: str) -> bool:
    """Whether a link lies between the joints of a stack and thus has no prim."""
    return "#" in path


def expand_stacks(
    scene: UsdScene, edges: list[Edge], stacks: dict[str, list[UsdJoint]]
) -> list[Edge]:
    """Inserts massless links between the joints of each stack; starting at the parent, their order
    is the stage's.

    Args:
      scene: the stage.
      edges: the edges of the tree, with one joint of each stack.
      stacks: the other joints of the stacks, by the path of the child.
    """
    position = {path: number for number, path in enumerate(scene.prims)}
    expanded: list[Edge] = []
    for parent, joint, child in edges:
        stack = sorted(
            [joint, *stacks.get(child, [])], key=lambda stacked: position[stacked.prim.path]
        )
        if len(stack) == 1:
            expanded.append((parent, joint, child))
            continue
        _check_rest(stack, parent)
        above = parent
        for number, stacked in enumerate(stack, start=1):
            below = child if number == len(stack) else f"{child}#{number}"
            on_parent, on_child = stacked.frames(parent)
            # At rest the links between the joints coincide with the child.
            ends: tuple[str | None, str | None] = (above, below)
            poses = on_parent if number == 1 else on_child, on_child
            if stacked.bodies[0] != parent:
                ends, poses = ends[::-1], poses[::-1]
            expanded.append(
                (above, dataclasses.replace(stacked, bodies=ends, stack_poses=poses), below)
            )
            above = below
    return expanded


def _check_rest(stack: list[UsdJoint], parent: str | None) -> None:
    rest = [
        compose(first, inverse(second))
        for first, second in (joint.frames(parent) for joint in stack)
    ]
    for joint, pose in zip(stack, rest, strict=True):
        turn = min(float(np.abs(pose[3:] - sign * rest[0][3:]).max()) for sign in (1.0, -1.0))
        if max(float(np.abs(pose[:3] - rest[0][:3]).max()), turn) > REST_TOLERANCE:
            message = (
                f"it and the stacked joint <{stack[0].prim.path}> disagree on the rest pose of "
                "their child"
            )
            joint.scene.report.error(joint.prim, message, "correct the joints' frames")


# --- the tree -----------------------------------------------------------------------------------

ROOT_SCHEMA = "PhysicsArticulationRootAPI"


@dataclasses.dataclass(frozen=True)
class UsdTree:
    """The tree of an articulation.

    Attributes:
      root: path of the root body; ``None`` if the root is the world because the joint to it can
        move.
      fixed_base: whether the root is fixed to the world.
      edges: (parent, joint, child), breadth-first, siblings in PhysX's order; a parent of ``None``
        is the world. Links between stacked joints have no prim.
      loops: joints that close loops.
    """

    root: str | None
    fixed_base: bool
    edges: tuple[Edge, ...]
    loops: tuple[UsdJoint, ...]

    @property
    def bodies(self) -> list[str]:
        """Paths of the bodies, parents first."""
        return ([self.root] if self.root else []) + [
            child for _, _, child in self.edges if not is_between(child)
        ]


def find_root(scene: UsdScene, root: str | None) -> UsdPrim | None:
    """The root prim of the articulation: ``root``, or the only one with the schema; ``None``, and
    an error, if none.
    """
    stage = Location("stage")
    if root is not None:
        if root in scene.prims:
            return scene.prims[root]
        scene.report.error(
            stage, f"there is no prim <{root}>", "name a body, a joint or a prim above them as root"
        )
        return None
    roots = roots_of(scene)
    if len(roots) == 1:
        return roots[0]
    if roots:
        message = (
            f"there are {len(roots)} articulations, with roots "
            f"{listed((r.label for r in roots), 20)}"
        )
        scene.report.error(stage, message, "choose one with root='/its/path'")
    else:
        message = f"no prim has the {ROOT_SCHEMA}"
        fix = (
            "apply it to a body, a joint to the world or a prim above them, or name such a prim: "
            "root='/its/path'"
        )
        scene.report.error(stage, message, fix)
    return None


def roots_of(scene: UsdScene) -> list[UsdPrim]:
    """The root prims of all articulations."""
    roots = [prim for prim in scene.prims.values() if prim.has(ROOT_SCHEMA)]
    return [prim for prim in roots if prim.read_bool("physxArticulation:articulationEnabled", True)]


def is_articulation(scene: UsdScene, root: UsdPrim) -> bool:
    """Whether the bodies of a root are an articulation of PhysX, rather than bodies whose joints
    are constraints.
    """
    return any(
        enclosing(one.path, (root.path,)) or enclosing(root.path, (one.path,))
        for one in roots_of(scene)
    )


def find_tree(
    scene: UsdScene,
    root: UsdPrim,
    bodies: dict[str, UsdPrim],
    joints: list[UsdJoint],
    fixed_base: bool | None,
) -> UsdTree | None:
    """Finds the articulation with a given root prim.

    Args:
      scene: the stage.
      root: a body, which becomes the root and floats unless a joint attaches it to the world; a
        joint to the world, which fixes its body; or a prim above the bodies, below which a joint to
        the world fixes the base. A joint to the world that leaves all six axes free makes its body
        a floating root; without any joint to the world, the centre of the graph is one.
      bodies: the moving bodies by path.
      joints: all joints.
      fixed_base: whether to fix the root, through its joint to the world if it has one; ``None``
        follows these rules.

    Returns:
      The tree; ``None``, and an error in the report, if there is none.
    """
    free = [joint for joint in joints if joint.is_free]
    graph = _Graph([joint for joint in joints if not joint.is_free])
    named = next((joint for joint in joints if joint.prim is root), None)
    base: UsdJoint | None = None
    if named is not None:
        if None not in named.bodies:
            message = "the root of the articulation is a joint, but not one to the world"
            scene.report.error(
                root, message, f"apply {ROOT_SCHEMA} to a body, or clear one of the joint's bodies"
            )
            return None
        base = None if named.is_free else named
        start = named.other(None)
        component = graph.component(start)
    elif root.path in bodies:
        # PhysX keeps such a root floating and its joint to the world outside the articulation; the
        # robot is attached either way.
        start = root.path
        component = graph.component(root.path)
        base = graph.base_joint([root.path])
    else:
        island = _island_below(scene, root, bodies, graph)
        if island is None:
            return None
        component = island
        base = graph.base_joint(component)
        floating = next((joint for joint in free if joint.other(None) in component), None)
        fixing = floating if base is None else base
        start = graph.centre(component) if fixing is None else fixing.other(None)
    assert start is not None
    for joint in free:
        if joint.other(None) in component:
            _note_free_joint(joint)
    if fixed_base is False:
        base = None
    adds_mobility = root.has("NewtonArticulationRootAPI") and root.read_bool(
        "newton:jointsAddMobility", False
    )
    return _Growth(scene, graph, start, base, adds_mobility).tree(component, fixed_base)


def _note_free_joint(joint: UsdJoint) -> None:
    """Reports what a joint of six free axes would do: it only says that its body floats."""
    joint.note_missing()
    joint.note_unlimited("a floating base has", "nothing, or make a chain of joints")


def _island_below(
    scene: UsdScene, root: UsdPrim, bodies: dict[str, UsdPrim], graph: _Graph
) -> list[str] | None:
    """The connected bodies below a prim; bodies without a joint are ignored unless there is only
    one body.
    """
    inside = [path for path in bodies if path.startswith(f"{root.path}/")]
    islands = graph.islands(inside)
    jointed = [island for island in islands if graph.joints_of(island)]
    if len(jointed) == 1 or len(islands) == 1:
        island = (jointed or islands)[0]
        for other in islands:
            if other is not island:
                message = f"body {other[0]} has no joint and is not part of the articulation"
                scene.report.warning(root, message, "connect it to a link if it should be")
        return island
    if not islands:
        message = "there is no rigid body at or below the root"
        fix = "apply PhysicsRigidBodyAPI to the links"
    else:
        named = ", ".join(f"<{island[0]}>" for island in (jointed or islands)[:20])
        message = (
            f"{len(jointed or islands)} articulations are below the root, with the bodies {named}"
        )
        fix = "choose one with root='/path/of/a/body', or apply the schema to each"
    scene.report.error(root, message, fix)
    return None


class _Graph:
    """Bodies connected by joints, except those excluded from the articulation."""

    def __init__(self, joints: list[UsdJoint]) -> None:
        self.excluded = [joint for joint in joints if joint.excluded]
        self.at: dict[str | None, list[UsdJoint]] = {}
        for joint in sorted(joints, key=lambda joint: joint.order):
            if not joint.excluded:
                for body in joint.bodies:
                    self.at.setdefault(body, []).append(joint)

    def joints_of(self, component: list[str]) -> list[UsdJoint]:
        """The joints with an end in a component, without duplicates."""
        joints = {joint.prim.path: joint for body in component for joint in self.at.get(body, [])}
        return list(joints.values())

    def neighbours(self, body: str) -> list[str]:
        """The bodies that share a joint with a body."""
        others = (joint.other(body) for joint in self.at.get(body, []))
        return [other for other in others if other is not None]

    def distances(self, start: str) -> dict[str, int]:
        """The number of joints between a body and each body of its component, nearest first."""
        reached = {start: 0}
        queue = [start]
        for body in queue:
            for other in self.neighbours(body):
                if other not in reached:
                    reached[other] = reached[body] + 1
                    queue.append(other)
        return reached

    def component(self, start: str | None) -> list[str]:
        """The bodies connected to a body, nearest first."""
        return list(self.distances(start)) if start is not None else []

    def islands(self, bodies: Iterable[str]) -> list[list[str]]:
        """The components of these bodies, in the order of their first bodies."""
        seen: set[str] = set()
        islands = []
        for body in bodies:
            if body not in seen:
                islands.append(self.component(body))
                seen.update(islands[-1])
        return islands

    def base_joint(self, component: list[str]) -> UsdJoint | None:
        """The joint that fixes the base: the joint to the world whose body has the largest weight,
        as in PhysX.
        """
        candidates = [joint for joint in self.joints_of(component) if None in joint.bodies]
        return max(candidates, key=lambda joint: self._weight(joint.other(None)), default=None)

    def _weight(self, body: str | None) -> int:
        joints = self.at.get(body, [])
        excluded = sum(body in joint.bodies for joint in self.excluded)
        to_world = sum(None in joint.bodies for joint in joints)
        return 100_000 * to_world + 1_000 * excluded + 100 * (len(joints) - to_world)

    def centre(self, component: list[str]) -> str:
        """The centre of the graph, the body with the smallest eccentricity; of two, the one with
        more neighbours.
        """
        # The centre of a tree is the middle of any of its longest paths.
        end = list(self.distances(component[0]))[-1]
        path = self._path(end, list(self.distances(end))[-1])
        middle = sorted({path[(len(path) - 1) // 2], path[len(path) // 2]})
        return min(middle, key=lambda body: -len(self.neighbours(body)))

    def _path(self, start: str, end: str) -> list[str]:
        """The bodies along a shortest path."""
        distances = self.distances(start)
        path = [end]
        while path[-1] != start:
            path.append(
                next(
                    body
                    for body in self.neighbours(path[-1])
                    if distances[body] < distances[path[-1]]
                )
            )
        return path


class _Growth:
    """Grows a tree from its root; reports joints that close loops without being excluded.

    Args:
      scene: the stage.
      graph: the bodies and joints.
      start: the first body.
      base: the joint that attaches it to the world, if any.
      adds_mobility: whether several joints between two bodies are a stack.
    """

    def __init__(
        self, scene: UsdScene, graph: _Graph, start: str, base: UsdJoint | None, adds_mobility: bool
    ) -> None:
        self.scene = scene
        self.graph = graph
        self.start = start
        self.base = base
        self.adds_mobility = adds_mobility
        self.on_world = base is not None and base.kind != "fixed"
        self.edges: list[Edge] = [(None, base, start)] if base is not None and self.on_world else []
        self.stacks: dict[str, list[UsdJoint]] = {}
        self.used = {base.prim.path} if base is not None else set()
        self.reached = {start}

    def tree(self, component: list[str], fixed_base: bool | None) -> UsdTree:
        """Grows the tree; ``component`` contains all bodies connected to the first."""
        queue = [self.start]
        for body in queue:
            for joint in self.graph.at.get(body, []):
                other = joint.other(body)
                if joint.prim.path in self.used or other is None:
                    continue
                self.used.add(joint.prim.path)
                if other in self.reached:
                    self._stack_or_loop(joint, body, other)
                    continue
                self.reached.add(other)
                queue.append(other)
                self.edges.append((body, joint, other))
        loops = [
            joint
            for joint in self.graph.excluded
            if any(body in self.reached for body in joint.bodies)
        ]
        for joint in self.graph.joints_of(component):
            if None in joint.bodies and joint.prim.path not in self.used:
                self._to_world(joint, loops, fixed_base)
        loops = self._inside(loops)
        stacked = [joint for stack in self.stacks.values() for joint in stack]
        joints = [*filter(None, [self.base]), *(edge[1] for edge in self.edges), *stacked, *loops]
        for joint in {joint.prim.path: joint for joint in joints}.values():
            joint.note_missing()
        edges = tuple(expand_stacks(self.scene, self.edges, self.stacks))
        fixed = self.base is not None or bool(fixed_base)
        return UsdTree(None if self.on_world else self.start, fixed, edges, tuple(loops))

    def _stack_or_loop(self, joint: UsdJoint, body: str | None, other: str) -> None:
        """Handles a joint between two bodies that are both in the tree already."""
        for parent, first, child in self.edges:
            if {parent, child} == {body, other}:
                if all(is_stackable(stacked, self.adds_mobility) for stacked in (first, joint)):
                    self.stacks.setdefault(child, []).append(joint)
                    return
                fix = (
                    "replace stacked joints by one generic joint, or set newton:jointsAddMobility "
                    "on the root"
                )
                break
        else:
            fix = (
                "set physics:excludeFromArticulation on one joint of the loop to make it a loop "
                "joint"
            )
        self.scene.report.error(
            joint.prim, f"closes a loop between {body or 'the world'} and {other}", fix
        )

    def _to_world(self, joint: UsdJoint, loops: list[UsdJoint], fixed_base: bool | None) -> None:
        """Handles a joint to the world other than the base's: a loop joint, unless the caller chose
        the base.
        """
        if self.base is not None:
            self._stack_or_loop(joint, None, str(joint.other(None)))
        elif fixed_base is None:
            message = (
                "the articulation's root is another body; this joint to the world becomes a loop "
                "joint"
            )
            fix = (
                "name this joint as the root to fix the base, or set "
                "physics:excludeFromArticulation"
            )
            self.scene.report.warning(joint.prim, message, fix)
            loops.append(joint)
        else:
            message = f"it is ignored because of fixed_base={fixed_base}"
            self.scene.report.warning(joint.prim, message, "do not pass fixed_base")

    def _inside(self, loops: list[UsdJoint]) -> list[UsdJoint]:
        """The loop joints inside the articulation; reports the others."""
        inside = []
        for joint in loops:
            if all(body is None or body in self.reached for body in joint.bodies):
                inside.append(joint)
            else:
                message = "an excluded joint to a body outside the articulation is not supported"
                self.scene.left_out(
                    joint.prim, message, "load both articulations and couple them yourself"
                )
        return inside


def colliders_by_body(
    scene: UsdScene, bodies: dict[str, UsdPrim], all_bodies: set[str]
) -> dict[str, list[UsdPrim]]:
    """The enabled colliders of each body: those at or below its prim, but not below another body.

    Args:
      scene: the stage.
      bodies: the moving bodies by path.
      all_bodies: paths of all rigid bodies, including those that do not move.
    """
    colliders: dict[str, list[UsdPrim]] = {path: [] for path in bodies}
    for prim in scene.prims.values():
        if prim.has("PhysicsCollisionAPI") and prim.read_bool("physics:collisionEnabled", True):
            body = enclosing(prim.path, all_bodies)
            if body in colliders:
                colliders[body].append(prim)
    return colliders
