"""Reads joint prims, and finds the links and joints of an articulation.

The root follows UsdPhysics' rules, and links have PhysX's order. Several joints between two bodies are a stack.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Container, Iterable

import numpy as np

from artix.io.common.diagnostics import Location, listed
from artix.io.common.poses import IDENTITY, compose, inverse
from artix.io.usd.stage import UsdPrim, UsdScene
from artix.model.joints import Axis, JointType

#: The kinds of joints, named like loop joints, by their prims' type names. PhysX's reader sorts the joints of a
#: link in this order.
KINDS = {
    "PhysicsFixedJoint": "fixed",
    "PhysicsRevoluteJoint": "revolute",
    "PhysicsPrismaticJoint": "prismatic",
    "PhysicsSphericalJoint": "spherical",
    "PhysicsJoint": "d6",
    "PhysicsDistanceJoint": "distance",
}

#: Instance names of multiple-apply schemas for the axes of a joint frame.
AXIS_INSTANCES = {
    "rotX": Axis.TWIST,
    "rotY": Axis.SWING1,
    "rotZ": Axis.SWING2,
    "transX": Axis.X,
    "transY": Axis.Y,
    "transZ": Axis.Z,
}


@dataclasses.dataclass(frozen=True)
class UsdAxis:
    """A free axis of a joint.

    Attributes:
      axis: the axis.
      instance: instance name of its schemas.
      limits: lower and upper limit, in the stage's units.
    """

    axis: Axis
    instance: str
    limits: tuple[float, float]

    @property
    def angular(self) -> bool:
        """Whether it is a rotation."""
        return self.axis < Axis.X


@dataclasses.dataclass(frozen=True)
class UsdJoint:
    """A joint prim. Its frames and axes are read on first use, so joints outside the articulation are not checked.

    Attributes:
      scene: the stage.
      prim: the prim.
      kind: one of the values of ``KINDS``.
      targets: paths of the prims of ``physics:body0`` and ``physics:body1``; ``/`` for the world.
      bodies: paths of the moving bodies at or above these prims, ``None`` for the world.
      excluded: whether it is a loop joint, excluded from the articulation.
      given_poses: frames that replace the prim's, for joints of a stack.
    """

    scene: UsdScene
    prim: UsdPrim
    kind: str
    targets: tuple[str, str]
    bodies: tuple[str | None, str | None]
    excluded: bool
    given_poses: tuple[np.ndarray, np.ndarray] | None = None

    @functools.cached_property
    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """The joint's frames in the frames of its bodies, or in the world [m], shape [7] each; reports mistakes."""
        return (self._pose(0), self._pose(1)) if self.given_poses is None else self.given_poses

    @functools.cached_property
    def axes(self) -> tuple[UsdAxis, ...]:
        """The free axes, in PhysX's order; reports mistakes."""
        return _axes(self.prim, self.kind)

    @functools.cached_property
    def type(self) -> JointType:
        """The type of the articulation's joint."""
        if not self.axes:
            return JointType.FIX
        if not self.axes[0].angular:
            return JointType.PRISMATIC
        size = np.abs(self.axes[0].limits)
        if self.kind == "revolute":
            return JointType.REVOLUTE_UNWRAPPED if np.isfinite(size).any() else JointType.REVOLUTE
        # A rotation vector cannot exceed half a turn; an unwrapped angle can.
        wide = len(self.axes) == 1 and np.any((size > 180.0) & np.isfinite(size))
        return JointType.REVOLUTE_UNWRAPPED if wide else JointType.SPHERICAL

    @property
    def order(self) -> tuple[int, str]:
        """The key by which PhysX's reader sorts the joints of a link."""
        return list(KINDS.values()).index(self.kind), self.prim.path

    @property
    def is_free(self) -> bool:
        """Whether it joins a body to the world and leaves all six axes free."""
        return self.kind == "d6" and None in self.bodies and len(self.axes) == len(AXIS_INSTANCES)

    def other(self, body: str | None) -> str | None:
        """The body at the other end."""
        return self.bodies[1] if self.bodies[0] == body else self.bodies[0]

    def sign(self, parent: str | None) -> float:
        """1, or -1 if ``physics:body1`` is the parent: positions then have the opposite sign of USD's."""
        return 1.0 if self.bodies[0] == parent else -1.0

    def frames(self, parent: str | None) -> tuple[np.ndarray, np.ndarray]:
        """The joint's frames on the parent and on the child."""
        return self.poses if self.bodies[0] == parent else self.poses[::-1]

    def dof(self, axis: UsdAxis) -> str:
        """The topology's name of the degree of freedom of a free axis."""
        return f"{self.prim.name}:{int(axis.axis)}" if self.type is JointType.SPHERICAL else self.prim.name

    def note_missing(self) -> None:
        """Reports bodies that are not in the stage, and breaking forces."""
        for side, target in enumerate(self.targets):
            if target != "/" and target not in self.scene.prims:
                fix = "name an existing rigid body, or none for the world"
                self.prim.error(f"physics:body{side}", f"there is no prim <{target}>", fix)
        for name in ("physics:breakForce", "physics:breakTorque"):
            if np.isfinite(self.prim.read_number(name, np.inf, infinite=True)):
                self.prim.left_out(name, "joints of an articulation do not break", "remove it")

    def _pose(self, side: int) -> np.ndarray:
        target = self.targets[side]
        body = self.bodies[side]
        position = self.prim.read_array(f"physics:localPos{side}", 3)
        rotation = self.prim.read_quaternion(f"physics:localRot{side}")
        position = np.zeros(3) if position is None else position
        rotation = IDENTITY[3:] if rotation is None else rotation
        if target != "/" and target not in self.scene.prims:
            return IDENTITY
        local = np.concatenate([self.scene.point(target, position), rotation])
        if body is None:
            return compose(self.scene.pose(target), local)
        return local if body == target else compose(self.scene.relative_pose(target, body), local)


def read_joint(scene: UsdScene, prim: UsdPrim, bodies: Container[str]) -> UsdJoint | None:
    """Reads the joint of a prim; ``None`` if it is disabled, not a physics joint, or connects nothing (reported).

    Args:
      scene: the stage.
      prim: the prim.
      bodies: paths of the moving rigid bodies.
    """
    kind = KINDS.get(str(prim.prim.GetTypeName()))
    if kind is None or not prim.read_bool("physics:jointEnabled", True):
        return None
    first, second = (prim.read_target(f"physics:body{side}") or "/" for side in "01")
    ends = enclosing(first, bodies), enclosing(second, bodies)
    if ends[0] == ends[1]:
        what = "both ends on one body" if ends[0] else "no end on a dynamic rigid body"
        scene.report.warning(prim, f"the joint has {what} and is skipped", "set physics:body0 and physics:body1")
        return None
    prim.read("physics:collisionEnabled")
    excluded = prim.read_bool("physics:excludeFromArticulation", False)
    return UsdJoint(scene, prim, kind, (first, second), ends, excluded)


def enclosing(path: str, prims: Container[str]) -> str | None:
    """The nearest path out of ``prims`` at or above a path; ``None`` if there is none."""
    while path not in prims and path not in ("", "/"):
        path = path.rpartition("/")[0]
    return path if path in prims else None


def _axes(prim: UsdPrim, kind: str) -> tuple[UsdAxis, ...]:
    free = (-np.inf, np.inf)
    if kind in ("fixed", "distance"):
        return ()
    if kind == "d6":
        return _generic_axes(prim)
    letter = prim.read_token("physics:axis", "X", ("X", "Y", "Z"))
    if kind == "spherical":
        # PhysX's angle 0 limits the rotation about the next axis, angle 1 about the one after; negative means free.
        limits = dict.fromkeys("XYZ", free)
        angles = [prim.read_number(f"physics:coneAngle{k}Limit", -1.0, infinite=True) for k in (0, 1)]
        following = "YZX"["XYZ".index(letter)], "ZXY"["XYZ".index(letter)]
        if min(angles) >= 0.0:
            limits |= {axis: (-angle, angle) for axis, angle in zip(following, angles, strict=True)}
        elif max(angles) >= 0.0:
            prim.left_out("physics:coneAngle*Limit", "a cone limit needs both angles", "author both")
        return tuple(UsdAxis(AXIS_INSTANCES[f"rot{axis}"], f"rot{axis}", limits[axis]) for axis in "XYZ")
    lower = prim.read_number("physics:lowerLimit", -np.inf, infinite=True)
    upper = prim.read_number("physics:upperLimit", np.inf, infinite=True)
    if lower > upper:
        prim.error("physics:lowerLimit", f"{lower:g} exceeds the upper limit {upper:g}", "swap the limits")
    if kind == "revolute":
        return (UsdAxis(AXIS_INSTANCES[f"rot{letter}"], "angular", (lower, upper)),)
    return (UsdAxis(AXIS_INSTANCES[f"trans{letter}"], "linear", (lower, upper)),)


def _generic_axes(prim: UsdPrim) -> tuple[UsdAxis, ...]:
    """The axes of a D6 joint that are not locked; a ``PhysicsLimitAPI`` with low > high or low = high = 0 locks one."""
    limited = prim.instances("PhysicsLimitAPI")
    axes = []
    for instance, axis in AXIS_INSTANCES.items():
        limits = -np.inf, np.inf
        if instance in limited:
            low = prim.read_number(f"limit:{instance}:physics:low", -np.inf, infinite=True)
            limits = low, prim.read_number(f"limit:{instance}:physics:high", np.inf, infinite=True)
        if limits[0] <= limits[1] and limits != (0.0, 0.0):
            axes.append(UsdAxis(axis, instance, limits))
    return tuple(axes)


def is_supported(joint: UsdJoint) -> bool:
    """Whether the joint can be in the tree; reports distance joints, and several free axes with a translation."""
    if joint.kind == "distance":
        fix = "make it a loop joint: set physics:excludeFromArticulation"
        joint.scene.report.error(joint.prim, "a distance joint cannot connect links", fix)
        return False
    sliding = [axis.instance for axis in joint.axes if not axis.angular]
    if sliding and len(joint.axes) > 1:
        names = ", ".join(axis.instance for axis in joint.axes)
        message = f"the joint has the free axes {names}; supported are rotations, or a single translation"
        fix = "lock axes with PhysicsLimitAPI (low > high), or make a chain of bodies with one joint each"
        joint.scene.report.error(joint.prim, message, fix)
        return False
    return True


# --- stacks: several single-DOF joints between two bodies ----------------------------------------

#: (parent, joint, child): the paths of the bodies, ``None`` for the world.
Edge = tuple[str | None, UsdJoint, str]

#: Tolerance for the agreement of stacked joints on the rest pose of the child [m; quaternion entries].
REST_TOLERANCE = 1e-4


def is_stackable(joint: UsdJoint, adds_mobility: bool) -> bool:
    """Whether a joint may be part of a stack: the articulation's root or MuJoCo's schema must allow it."""
    return joint.kind in ("revolute", "prismatic") and (adds_mobility or joint.prim.has("MjcJointAPI"))


def is_between(path: str) -> bool:
    """Whether a link lies between the joints of a stack and thus has no prim."""
    return "#" in path


def expand_stacks(scene: UsdScene, edges: list[Edge], stacks: dict[str, list[UsdJoint]]) -> list[Edge]:
    """Inserts massless links between the joints of each stack; starting at the parent, their order is the stage's.

    Args:
      scene: the stage.
      edges: the edges of the tree, with one joint of each stack.
      stacks: the other joints of the stacks, by the path of the child.
    """
    position = {path: number for number, path in enumerate(scene.prims)}
    expanded: list[Edge] = []
    for parent, joint, child in edges:
        stack = sorted([joint, *stacks.get(child, [])], key=lambda stacked: position[stacked.prim.path])
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
            expanded.append((above, dataclasses.replace(stacked, bodies=ends, given_poses=poses), below))
            above = below
    return expanded


def _check_rest(stack: list[UsdJoint], parent: str | None) -> None:
    rest = [compose(first, inverse(second)) for first, second in (joint.frames(parent) for joint in stack)]
    for joint, pose in zip(stack, rest, strict=True):
        turn = min(float(np.abs(pose[3:] - sign * rest[0][3:]).max()) for sign in (1.0, -1.0))
        if max(float(np.abs(pose[:3] - rest[0][:3]).max()), turn) > REST_TOLERANCE:
            message = f"it and the stacked joint <{stack[0].prim.path}> disagree on the rest pose of their child"
            joint.scene.report.error(joint.prim, message, "correct the joints' frames")


# --- the tree ------------------------------------------------------------------------------------

ROOT_SCHEMA = "PhysicsArticulationRootAPI"


@dataclasses.dataclass(frozen=True)
class UsdTree:
    """The tree of an articulation.

    Attributes:
      root: path of the root body; ``None`` if the root is the world because the joint to it can move.
      fixed_base: whether the root is fixed to the world.
      edges: (parent, joint, child), breadth-first, siblings in PhysX's order; a parent of ``None`` is the world. Links
        between stacked joints have no prim.
      loops: joints that close loops.
    """

    root: str | None
    fixed_base: bool
    edges: tuple[Edge, ...]
    loops: tuple[UsdJoint, ...]

    @property
    def bodies(self) -> list[str]:
        """Paths of the bodies, parents first."""
        return ([self.root] if self.root else []) + [child for _, _, child in self.edges if not is_between(child)]


def find_root(scene: UsdScene, root: str | None) -> UsdPrim | None:
    """The root prim of the articulation: ``root``, or the only one with the schema; ``None``, and an error, if none."""
    stage = Location("stage")
    if root is not None:
        if root in scene.prims:
            return scene.prims[root]
        scene.report.error(stage, f"there is no prim <{root}>", "name a body, a joint or a prim above them as root")
        return None
    roots = roots_of(scene)
    if len(roots) == 1:
        return roots[0]
    if roots:
        message = f"there are {len(roots)} articulations, with roots {listed((r.label for r in roots), 20)}"
        scene.report.error(stage, message, "choose one with root='/its/path'")
    else:
        message = f"no prim has the {ROOT_SCHEMA}"
        fix = "apply it to a body, a joint to the world or a prim above them, or name such a prim: root='/its/path'"
        scene.report.error(stage, message, fix)
    return None


def roots_of(scene: UsdScene) -> list[UsdPrim]:
    """The root prims of all articulations."""
    roots = [prim for prim in scene.prims.values() if prim.has(ROOT_SCHEMA)]
    return [prim for prim in roots if prim.read_bool("physxArticulation:articulationEnabled", True)]


def find_tree(
    scene: UsdScene, root: UsdPrim, bodies: dict[str, UsdPrim], joints: list[UsdJoint], fixed_base: bool | None
) -> UsdTree | None:
    """Finds the articulation with a given root prim.

    Args:
      scene: the stage.
      root: a body, which becomes the root and floats unless a joint attaches it to the world; a joint to the world,
        which fixes its body; or a prim above the bodies, below which a joint to the world fixes the base. A joint to
        the world that leaves all six axes free makes its body a floating root; without any joint to the world, the
        centre of the graph is one.
      bodies: the moving bodies by path.
      joints: all joints.
      fixed_base: whether to fix the root, through its joint to the world if it has one; ``None`` follows these rules.

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
            scene.report.error(root, message, f"apply {ROOT_SCHEMA} to a body, or clear one of the joint's bodies")
            return None
        base = None if named.is_free else named
        start = named.other(None)
        component = graph.component(start)
    elif root.path in bodies:
        # PhysX keeps such a root floating and its joint to the world outside the articulation; the robot is attached
        # either way.
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
    adds_mobility = root.has("NewtonArticulationRootAPI") and root.read_bool("newton:jointsAddMobility", False)
    return _Growth(scene, graph, start, base, adds_mobility).tree(component, fixed_base)


def _note_free_joint(joint: UsdJoint) -> None:
    """Reports what a joint of six free axes would do: it only says that its body floats."""
    joint.note_missing()
    if any(np.isfinite(axis.limits).any() for axis in joint.axes):
        joint.prim.left_out("limits", "a floating base has no limits", "nothing, or make a chain of joints")
    if joint.prim.instances("PhysicsDriveAPI"):
        joint.prim.left_out("drives", "a floating base has no drives", "nothing, or make a chain of joints")


def _island_below(scene: UsdScene, root: UsdPrim, bodies: dict[str, UsdPrim], graph: _Graph) -> list[str] | None:
    """The connected bodies below a prim; bodies without a joint are ignored unless there is only one body."""
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
        message = f"{len(jointed or islands)} articulations are below the root, with the bodies {named}"
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
        """The joint that fixes the base: the joint to the world whose body has the largest weight, as in PhysX."""
        candidates = [joint for joint in self.joints_of(component) if None in joint.bodies]
        return max(candidates, key=lambda joint: self._weight(joint.other(None)), default=None)

    def _weight(self, body: str | None) -> int:
        joints = self.at.get(body, [])
        excluded = sum(body in joint.bodies for joint in self.excluded)
        to_world = sum(None in joint.bodies for joint in joints)
        return 100_000 * to_world + 1_000 * excluded + 100 * (len(joints) - to_world)

    def centre(self, component: list[str]) -> str:
        """The centre of the graph, the body with the smallest eccentricity; of two, the one with more neighbours."""
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
            path.append(next(body for body in self.neighbours(path[-1]) if distances[body] < distances[path[-1]]))
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

    def __init__(self, scene: UsdScene, graph: _Graph, start: str, base: UsdJoint | None, adds_mobility: bool) -> None:
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
        loops = [joint for joint in self.graph.excluded if any(body in self.reached for body in joint.bodies)]
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
                fix = "replace stacked joints by one generic joint, or set newton:jointsAddMobility on the root"
                break
        else:
            fix = "set physics:excludeFromArticulation on one joint of the loop to make it a loop joint"
        self.scene.report.error(joint.prim, f"closes a loop between {body or 'the world'} and {other}", fix)

    def _to_world(self, joint: UsdJoint, loops: list[UsdJoint], fixed_base: bool | None) -> None:
        """Handles a joint to the world other than the base's: a loop joint, unless the caller chose the base."""
        if self.base is not None:
            self._stack_or_loop(joint, None, str(joint.other(None)))
        elif fixed_base is None:
            message = "the articulation's root is another body; this joint to the world becomes a loop joint"
            fix = "name this joint as the root to fix the base, or set physics:excludeFromArticulation"
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
                self.scene.left_out(joint.prim, message, "load both articulations and couple them yourself")
        return inside


def colliders_by_body(scene: UsdScene, bodies: dict[str, UsdPrim], all_bodies: set[str]) -> dict[str, list[UsdPrim]]:
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
