"""One articulation of a stage: its tree, the names and descriptions of its links and joints, and
gravity.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import posixpath
from collections.abc import Sequence
from typing import Any

import numpy as np

from artix.io.common.description import LinkDescription
from artix.io.common.meshes import report_missing_meshes
from artix.io.common.poses import rotation_matrix
from artix.io.usd import mujoco
from artix.io.usd.colliders import collider_shapes
from artix.io.usd.contacts import physics_material
from artix.io.usd.joints import KINDS, UsdAxis, UsdJoint, enclosing, is_supported, read_joint
from artix.io.usd.mass_properties import mass_properties
from artix.io.usd.stage import DEGREE, AxisUnits, UsdPrim, UsdScene
from artix.io.usd.tree import (
    UsdTree,
    colliders_by_body,
    find_root,
    find_tree,
    is_articulation,
    is_between,
)
from artix.model.joints import Drive, DriveEnvelope, Joint, JointFriction

#: Name of the root link that represents the world if the first joint to the world can move.
WORLD_LINK = "world"

#: Key of a prim's custom data by which ``save_usd`` marks it as an additional frame.
FRAME_KEY = "artix:frame"

EARTH_GRAVITY = 9.81

#: PhysX's defaults for links with a ``PhysxRigidBodyAPI`` [1/s, degrees/s, 1].
PHYSX_ANGULAR_DAMPING = 0.05
PHYSX_MAX_ANGULAR_VELOCITY = 100.0 / DEGREE
PHYSX_CFM_SCALE = 0.025
#: Schemas of forces on bodies, and the attributes that enable them.
_FORCES = {
    "PhysxForceAPI": "physxForce:forceEnabled",
    "PhysxSurfaceVelocityAPI": "physxSurfaceVelocity:surfaceVelocityEnabled",
}


@dataclasses.dataclass(frozen=True)
class UsdArticulation:
    """An articulation of a stage.

    Attributes:
      scene: the stage.
      root: the articulation's root prim.
      tree: its links and joints.
      names: link names by the paths of their bodies; the key ``None`` is the world, if that is a
        link.
      colliders: the colliders of each body, by path.
      actuators: MuJoCo's actuators of each joint, by path.
      shapes: the colliders of each body that become shapes of its link, by path; filled by
        :meth:`links`.
    """

    scene: UsdScene
    root: UsdPrim
    tree: UsdTree
    names: dict[str | None, str]
    colliders: dict[str, list[UsdPrim]]
    actuators: dict[str, list[UsdPrim]] = dataclasses.field(default_factory=dict)
    shapes: dict[str, list[UsdPrim]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def is_articulation(self) -> bool:
        """Whether it is one of PhysX, rather than bodies whose joints are constraints."""
        return is_articulation(self.scene, self.root)

    @property
    def name(self) -> str:
        """The name of the root, or of the nearest prim above it that is not a link, a joint or a
        scope.
        """
        path = self.root.path
        while path in self.names or str(self.scene.prims[path].prim.GetTypeName()) in (
            *KINDS,
            "Scope",
        ):
            path = path.rpartition("/")[0]
            if path not in self.scene.prims:
                return self.root.name
        return self.scene.prims[path].name

    def links(self) -> list[LinkDescription]:
        """Reads the links, parents first, and reports mistakes in them."""
        links = []
        if self.tree.root is None:
            links.append(LinkDescription(self.names[None]))
        else:
            links.append(self._link(self.tree.root, None, None))
        for parent, joint, child in self.tree.edges:
            links.append(self._link(child, parent, joint))
        if self.scene.meshes is None and not self.tree.fixed_base:
            self._note_meshes()
        return links

    def _note_meshes(self) -> None:
        """Reports links of a floating robot that lost all their shapes because they are meshes."""
        bare = [
            self.names[path]
            for path, colliders in self.colliders.items()
            if not self.shapes[path]
            and any(str(prim.prim.GetTypeName()) == "Mesh" for prim in colliders)
        ]
        kept = [self.names[path] for path, shapes in self.shapes.items() if shapes]
        report_missing_meshes(self.scene.report, self.root, bare, kept)

    def _link(self, path: str, parent: str | None, joint: UsdJoint | None) -> LinkDescription:
        name = self.names[path]
        parent_name = None if joint is None else self.names[parent]
        inbound = None
        if joint is not None and is_supported(joint):
            inbound = make_joint(joint, parent, self.actuators.get(joint.prim.path, ()))
        if is_between(path):
            return LinkDescription(name, parent_name, inbound)
        body = self.scene.prims[path]
        colliders = self.colliders[path]
        mass = mass_properties(self.scene, body, colliders)
        shapes = collider_shapes(self.scene, body, colliders)
        self.shapes[path] = [prim for prim, _ in shapes]
        named = [(prim.name, shape) for prim, shape in shapes]
        return LinkDescription(name, parent_name, inbound, *mass, self._link_options(body), named)

    def _link_options(self, body: UsdPrim) -> dict[str, float]:
        """The properties of ``PhysxRigidBodyAPI``; PhysX's defaults apply only if the schema is
        applied.
        """
        applied = body.has("PhysxRigidBodyAPI")

        def number(name: str, fallback: float, **options: Any) -> float:
            return body.read_number(f"physxRigidBody:{name}", fallback, low=0.0, **options)

        fastest = number(
            "maxAngularVelocity", PHYSX_MAX_ANGULAR_VELOCITY if applied else np.inf, infinite=True
        )
        return {
            "gravity_scale": 0.0 if body.read_bool("physxRigidBody:disableGravity", False) else 1.0,
            "linear_damping": number("linearDamping", 0.0),
            "angular_damping": number("angularDamping", PHYSX_ANGULAR_DAMPING if applied else 0.0),
            "max_linear_velocity": number("maxLinearVelocity", np.inf, infinite=True)
            * self.scene.units.length,
            "max_angular_velocity": fastest * DEGREE,
            "cfm_scale": number("cfmScale", PHYSX_CFM_SCALE, high=1.0),
        }

    def frames(self) -> list[tuple[str, str, np.ndarray]]:
        """The additional frames: name, path of the body, and pose in its frame [7]."""
        marked = [
            prim
            for prim in self.scene.prims.values()
            if prim.prim.GetCustomDataByKey(FRAME_KEY) is True
        ]
        places = [(prim, enclosing(prim.path, self.colliders)) for prim in marked]
        return [
            (prim.name, body, self.scene.relative_pose(prim.path, body))
            for prim, body in places
            if body is not None
        ]

    def gravity(self) -> np.ndarray:
        """Gravity of the root body's scene, or of the first scene, in world axes [m/s^2], shape
        [3].
        """
        prims = [
            prim
            for prim in self.scene.prims.values()
            if str(prim.prim.GetTypeName()) == "PhysicsScene"
        ]
        owner = self.scene.prims[self.tree.bodies[0]].read_target("physics:simulationOwner")
        owned = [prim for prim in prims if prim.path == owner] or prims
        down = np.array([0.0, 0.0, -1.0])
        if not owned:
            return EARTH_GRAVITY * down
        scene = owned[0]
        if len(owned) > 1:
            message = f"there are {len(owned)} scenes; gravity is taken from this one"
            self.scene.report.warning(
                scene, message, "name one in physics:simulationOwner of the root body"
            )
        mujoco.note_scene(scene)
        off = scene.has("MjcSceneAPI") and not scene.read_bool("mjc:flag:gravity", True)
        if off or (
            scene.has("NewtonSceneAPI") and not scene.read_bool("newton:gravityEnabled", True)
        ):
            return 0.0 * down
        magnitude = scene.read_number("physics:gravityMagnitude", -np.inf, infinite=True)
        direction = scene.read_array("physics:gravityDirection", 3)
        size = magnitude * self.scene.units.length if magnitude >= 0.0 else EARTH_GRAVITY
        if not np.isfinite(size):
            scene.error("physics:gravityMagnitude", f"must be finite, found {magnitude:g}")
            return EARTH_GRAVITY * down
        if direction is None or not np.any(direction):
            return size * down
        in_world = rotation_matrix(self.scene.stage_pose[3:]) @ direction
        return size * in_world / np.linalg.norm(in_world)

    def note_unread(self) -> None:
        """Reports properties of the prims that the reader does not use, at once for all prims of a
        kind.
        """
        bodies = [self.scene.prims[path] for path in self.tree.bodies]
        joints = [joint.prim for _, joint, _ in self.tree.edges] + [
            joint.prim for joint in self.tree.loops
        ]
        if not self.is_articulation:
            self._note_constrained(bodies)
        for prims in ([self.root], bodies, joints):
            self._note_unread({prim.path: prim for prim in prims}, "")
        shapes = [prim for prims in self.shapes.values() for prim in prims]
        materials = [
            material
            for prim in shapes
            if (material := physics_material(self.scene, prim)) is not None
        ]
        for prims in (shapes, materials):
            self._note_unread({prim.path: prim for prim in prims}, "mjc:")

    def _note_constrained(self, bodies: Sequence[UsdPrim]) -> None:
        """Reports what PhysX reads of bodies that are no links of an articulation, and artix does
        not.
        """
        for prim in bodies:
            for name in ("physxRigidBody:lockedPosAxis", "physxRigidBody:lockedRotAxis"):
                if prim.read(name):
                    fix = "join the body to the world by a PhysicsJoint with these axes locked"
                    self.scene.left_out(prim, f"{name}: the body is free to move along all", fix)
            is_root = prim.path == self.tree.root and not self.tree.fixed_base
            for name in () if is_root else ("physics:velocity", "physics:angularVelocity"):
                if np.any(prim.read(name)):
                    fix = "give its joint a PhysicsJointStateAPI with the velocity"
                    self.scene.left_out(prim, f"{name}: speeds are those of joints", fix)

    def _note_unread(self, prims: dict[str, UsdPrim], space: str) -> None:
        """Reports unread properties in a namespace: those that affect the motion as left out,
        others as notes.
        """
        settings: dict[str, list[UsdPrim]] = {}
        others: dict[str, list[UsdPrim]] = {}
        for prim in prims.values():
            for name in prim.unread():
                if name.startswith(space):
                    names = others if mujoco.affects_motion(prim, name) else settings
                    names.setdefault(name, []).append(prim)
        for prim in {prim.path: prim for unread in settings.values() for prim in unread}.values():
            message = f"not read: {', '.join(sorted(settings))}"
            self.scene.report.note(prim, message, "nothing, if they do not matter")
        for prim in {prim.path: prim for unread in others.values() for prim in unread}.values():
            self.scene.left_out(prim, ", ".join(sorted(others)), "nothing, if they do not matter")


def read_articulation(
    scene: UsdScene, root: str | None, fixed_base: bool | None
) -> UsdArticulation | None:
    """Finds the articulation with the given root, or the only one; ``None``, and an error, if there
    is none.
    """
    bodies, kinematic = rigid_bodies(scene)
    joints = [
        joint
        for prim in scene.prims.values()
        if (joint := read_joint(scene, prim, bodies)) is not None
    ]
    prim = find_root(scene, root)
    tree = None if prim is None else find_tree(scene, prim, bodies, joints, fixed_base)
    if prim is None or tree is None:
        return None
    _note_other_joints(scene, tree)
    names = _names(scene, tree)
    colliders = colliders_by_body(
        scene, {path: bodies[path] for path in tree.bodies}, {*bodies, *kinematic}
    )
    joint_paths = {joint.prim.path for _, joint, _ in tree.edges}
    mujoco.note_tendons(scene, joint_paths, tree.bodies)
    actuators = mujoco.joint_actuators(scene, joint_paths, tree.bodies)
    return UsdArticulation(scene, prim, tree, names, colliders, actuators)


def rigid_bodies(scene: UsdScene) -> tuple[dict[str, UsdPrim], list[str]]:
    """The dynamic bodies by path, but for disabled ones, and the paths of kinematic bodies."""
    moving = {}
    kinematic = []
    for path, prim in scene.prims.items():
        if prim.has("PhysicsRigidBodyAPI") and prim.read_bool("physics:rigidBodyEnabled", True):
            if prim.read_bool("physics:kinematicEnabled", False):
                kinematic.append(path)
            else:
                moving[path] = prim
    return moving, kinematic


def _note_other_joints(scene: UsdScene, tree: UsdTree) -> None:
    """Reports prims that act on the articulation but are not read: other and disabled joints,
    actuators, forces.
    """
    bodies = set(tree.bodies)
    joints = {joint.prim.path for _, joint, _ in tree.edges}
    for prim in scene.prims.values():
        if str(prim.prim.GetTypeName()) in KINDS and not prim.read_bool(
            "physics:jointEnabled", True
        ):
            _note_disabled_joint(prim, bodies)
        for schema in filter(prim.has, _FORCES):
            if enclosing(prim.path, bodies) and prim.read_bool(_FORCES[schema], True):
                message = f"its {schema} acts on the articulation and is not supported"
                scene.left_out(
                    prim, message, "nothing, unless it matters; wrenches are part of artix.Control"
                )
        kind = str(prim.prim.GetTypeName())
        if kind in (*KINDS, mujoco.ACTUATOR, mujoco.TENDON, "") or prim.path in bodies:
            continue
        ends = [prim.read_target(f"physics:body{side}") or "/" for side in "01"]
        targets = {
            str(path) for relation in prim.prim.GetRelationships() for path in relation.GetTargets()
        }
        if any(enclosing(end, bodies) for end in ends) or targets & joints:
            message = f"a prim of type {kind} acts on the articulation and is not supported"
            scene.left_out(prim, message, "use joints, drives, mimic joints and tendons")


def _note_disabled_joint(prim: UsdPrim, bodies: set[str]) -> None:
    """Reports a disabled joint of the articulation."""
    ends = [prim.read_target(f"physics:body{side}") or "/" for side in "01"]
    inside = [enclosing(end, bodies) is not None for end in ends]
    if not any(inside):
        return
    message = "the joint is disabled and not read"
    if not all(inside):
        message += "; bodies that only it connects are no part of the articulation, as in PhysX"
    prim.left_out("physics:jointEnabled", message, "enable it, or nothing if it should do nothing")


def _names(scene: UsdScene, tree: UsdTree) -> dict[str | None, str]:
    """Link names by the paths of the bodies; makes the names of bodies and joints unique."""
    _disambiguate([scene.prims[path] for path in tree.bodies])
    _disambiguate([joint.prim for _, joint, _ in tree.edges])
    _disambiguate([joint.prim for joint in tree.loops])
    names: dict[str | None, str] = {path: scene.prims[path].name for path in tree.bodies}
    for _, joint, child in tree.edges:
        if is_between(child):
            names[child] = f"{names[child.partition('#')[0]]}:{joint.prim.name}"
    if tree.root is None:
        name = WORLD_LINK
        while name in names.values():
            name += "_"
        names[None] = name
    return names


def _disambiguate(prims: list[UsdPrim]) -> None:
    """Renames prims that share a name to their paths, without the parents that all prims have in
    common.
    """
    counts = collections.Counter(prim.name for prim in prims)
    ambiguous = [prim for prim in prims if counts[prim.name] > 1]
    if ambiguous:
        shared = posixpath.commonpath([posixpath.dirname(prim.path) for prim in prims])
        for prim in ambiguous:
            prim.name = posixpath.relpath(prim.path, shared)


# --- joints with their limits, friction and drives ----------------------------------------------


def make_joint(joint: UsdJoint, parent: str | None, actuators: Sequence[UsdPrim] = ()) -> Joint:
    """Builds a joint from its parent body to its child, and reports mistakes in it.

    Args:
      joint: the joint.
      parent: path of the parent's body, ``None`` for the world.
      actuators: the prims of MuJoCo's actuators on the joint.
    """
    first, second = joint.frames(parent)
    axes = [_axis_options(joint, axis, joint.sign(parent), actuators) for axis in joint.axes]
    options: dict[str, Any] = {key: [axis[key] for axis in axes] for key in axes[0]} if axes else {}
    return Joint(
        type=joint.type,
        axes=tuple(axis.axis for axis in joint.axes),
        name=joint.prim.name,
        parent_pose=first,
        child_pose=second,
        **options,
    )


def _axis_options(
    joint: UsdJoint, axis: UsdAxis, sign: float, actuators: Sequence[UsdPrim]
) -> dict[str, Any]:
    """The options of a :class:`~artix.Joint` for one of its axes."""
    units = joint.scene.units.axis(axis.angular)
    offset = mujoco.reference(joint, axis)
    low, high = sorted(sign * (limit * units.position - offset) for limit in axis.limits)
    drive, envelope = _drive(joint.prim, axis.instance, units, sign)
    options = {
        "limits": (low, high),
        "drive": drive,
        "envelope": envelope,
        **_resistance(joint.prim, axis.instance, units),
    }
    return mujoco.axis_options(joint, axis, sign, options, actuators)


#: Attributes of static, dynamic and viscous friction, and of the largest velocity.
_PHYSX_RESISTANCE = (
    "staticFrictionEffort",
    "dynamicFrictionEffort",
    "viscousFrictionCoefficient",
    "maxJointVelocity",
)
_NEWTON_RESISTANCE = ("friction", "friction", "damping", "velocityLimit")


def _resistance(prim: UsdPrim, instance: str, units: AxisUnits) -> dict[str, Any]:
    """Armature, velocity limit and friction from PhysX's schema for axes or joints, or from
    Newton's for joints.
    """
    if prim.read_number("physxJoint:jointFriction"):
        message = "friction relative to the joint's constraint force is not supported"
        prim.left_out(
            "physxJoint:jointFriction", message, "author the friction efforts of PhysxJointAxisAPI"
        )
    space = "physxJoint"
    names = _PHYSX_RESISTANCE
    if instance in prim.instances("PhysxJointAxisAPI"):
        space = f"physxJointAxis:{instance}"
    elif prim.has("NewtonJointAPI") and not prim.has("PhysxJointAPI"):
        space = "newton"
        names = _NEWTON_RESISTANCE

    def number(name: str, fallback: float = 0.0, **options: Any) -> float:
        return prim.read_number(f"{space}:{name}", fallback, low=0.0, **options)

    static = number(names[0]) * units.effort
    dynamic = number(names[1]) * units.effort if names[1] != names[0] else static
    if dynamic > static:
        prim.error(f"{space}:{names[1]}", f"exceeds {names[0]}", "lower it, or raise the other")
        dynamic = static
    viscous = number(names[2]) * units.stiffness
    return {
        "armature": number("armature") * units.inertia,
        "max_velocity": number(names[3], np.inf, infinite=True) * units.position,
        "friction": JointFriction(static=static, dynamic=dynamic, viscous=viscous),
    }


def _drive(
    prim: UsdPrim, instance: str, units: AxisUnits, sign: float
) -> tuple[Drive | None, DriveEnvelope | None]:
    """The drive of an axis, and the performance envelope that replaces its effort limit."""
    if instance not in prim.instances("PhysicsDriveAPI"):
        return None, None
    space = f"drive:{instance}:physics"
    acceleration = (
        prim.read_token(f"{space}:type", "force", ("force", "acceleration")) == "acceleration"
    )
    gain = units.acceleration if acceleration else units.stiffness
    effort = prim.read_number(f"{space}:maxForce", np.inf, low=0.0, infinite=True) * units.effort
    envelope = _envelope(prim, instance, units, effort)
    drive = Drive(
        stiffness=prim.read_number(f"{space}:stiffness", low=0.0) * gain,
        damping=prim.read_number(f"{space}:damping", low=0.0) * gain,
        max_force=effort if envelope is None else np.inf,
        acceleration=acceleration,
        target=prim.read_number(f"{space}:targetPosition") * units.position * sign,
        target_velocity=prim.read_number(f"{space}:targetVelocity") * units.position * sign,
    )
    return drive, envelope


def _envelope(
    prim: UsdPrim, instance: str, units: AxisUnits, effort: float
) -> DriveEnvelope | None:
    if instance not in prim.instances("PhysxDrivePerformanceEnvelopeAPI"):
        return None
    space = f"physxDrivePerformanceEnvelope:{instance}"
    if not np.isfinite(effort):
        message = "an envelope needs an effort limit; it is not read"
        prim.left_out(space, message, f"author drive:{instance}:physics:maxForce")
        return None
    fastest = prim.read_number(f"{space}:maxActuatorVelocity", np.inf, low=0.0, infinite=True)
    resistance = prim.read_number(f"{space}:velocityDependentResistance", low=0.0)
    return DriveEnvelope(
        max_effort=effort,
        max_actuator_velocity=fastest * units.position,
        velocity_dependent_resistance=resistance * units.stiffness,
        speed_effort_gradient=prim.read_number(f"{space}:speedEffortGradient", low=0.0)
        * units.gradient,
    )
