"""Reads joint prims: their kinds, free axes, limits and frames."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Container

import numpy as np

from artix.io.common.poses import IDENTITY, compose
from artix.io.usd.stage import UsdPrim, UsdScene
from artix.model.joints import Axis, JointType

#: The kinds of joints, named like loop joints, by their prims' type names. PhysX's reader sorts the
#: joints of a link in this order.
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
    """A joint prim. Its frames and axes are read on first use, so joints outside the articulation
    are not checked.

    Attributes:
      scene: the stage.
      prim: the prim.
      kind: one of the values of ``KINDS``.
      targets: paths of the prims of ``physics:body0`` and ``physics:body1``; ``/`` for the world.
      bodies: paths of the moving bodies at or above these prims, ``None`` for the world.
      excluded: whether it is a loop joint, excluded from the articulation.
      stack_poses: frames that replace the prim's, for joints of a stack.
    """

    scene: UsdScene
    prim: UsdPrim
    kind: str
    targets: tuple[str, str]
    bodies: tuple[str | None, str | None]
    excluded: bool
    stack_poses: tuple[np.ndarray, np.ndarray] | None = None

    @functools.cached_property
    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """The joint's frames in the frames of its bodies, or in the world [m], shape [7] each;
        reports mistakes.
        """
        return (self._pose(0), self._pose(1)) if self.stack_poses is None else self.stack_poses

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
        """1, or -1 if ``physics:body1`` is the parent: positions then have the opposite sign of
        USD's.
        """
        return 1.0 if self.bodies[0] == parent else -1.0

    def frames(self, parent: str | None) -> tuple[np.ndarray, np.ndarray]:
        """The joint's frames on the parent and on the child."""
        return self.poses if self.bodies[0] == parent else self.poses[::-1]

    def dof(self, axis: UsdAxis) -> str:
        """The topology's name of the degree of freedom of a free axis."""
        return (
            f"{self.prim.name}:{int(axis.axis)}"
            if self.type is JointType.SPHERICAL
            else self.prim.name
        )

    def note_missing(self) -> None:
        """Reports bodies that are not in the stage, and breaking forces."""
        for side, target in enumerate(self.targets):
            if target != "/" and target not in self.scene.prims:
                fix = "name an existing rigid body, or none for the world"
                self.prim.error(f"physics:body{side}", f"there is no prim <{target}>", fix)
        for name in ("physics:breakForce", "physics:breakTorque"):
            if np.isfinite(self.prim.read_number(name, np.inf, infinite=True)):
                self.prim.left_out(name, "joints of an articulation do not break", "remove it")

    def note_unlimited(self, what: str, fix: str) -> None:
        """Reports limits and drives of a joint that has none in artix.

        Args:
          what: the joints that have none, or what stands for the joint, as a subject and a verb.
          fix: where to put ``{}``, limits or drives, instead.
        """
        if any(np.isfinite(axis.limits).any() for axis in self.axes):
            self.prim.left_out("limits", f"{what} no limits", fix.format("the limits"))
        if self.prim.instances("PhysicsDriveAPI"):
            self.prim.left_out("drives", f"{what} no drives", fix.format("the drives"))

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
    """Reads the joint of a prim; ``None`` if it is disabled, not a physics joint, or connects
    nothing (reported).

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
        scene.report.warning(
            prim, f"the joint has {what} and is skipped", "set physics:body0 and physics:body1"
        )
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
        # PhysX's angle 0 limits the rotation about the next axis, angle 1 about the one after;
        # negative means free.
        limits = dict.fromkeys("XYZ", free)
        angles = [
            prim.read_number(f"physics:coneAngle{k}Limit", -1.0, infinite=True) for k in (0, 1)
        ]
        following = "YZX"["XYZ".index(letter)], "ZXY"["XYZ".index(letter)]
        if min(angles) >= 0.0:
            limits |= {axis: (-angle, angle) for axis, angle in zip(following, angles, strict=True)}
        elif max(angles) >= 0.0:
            prim.left_out(
                "physics:coneAngle*Limit", "a cone limit needs both angles", "author both"
            )
        return tuple(
            UsdAxis(AXIS_INSTANCES[f"rot{axis}"], f"rot{axis}", limits[axis]) for axis in "XYZ"
        )
    lower = prim.read_number("physics:lowerLimit", -np.inf, infinite=True)
    upper = prim.read_number("physics:upperLimit", np.inf, infinite=True)
    if lower > upper:
        prim.error(
            "physics:lowerLimit", f"{lower:g} exceeds the upper limit {upper:g}", "swap the limits"
        )
    if kind == "revolute":
        return (UsdAxis(AXIS_INSTANCES[f"rot{letter}"], "angular", (lower, upper)),)
    return (UsdAxis(AXIS_INSTANCES[f"trans{letter}"], "linear", (lower, upper)),)


def _generic_axes(prim: UsdPrim) -> tuple[UsdAxis, ...]:
    """The axes of a D6 joint that are not locked; a ``PhysicsLimitAPI`` with low > high or low =
    high = 0 locks one.
    """
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
    """Whether the joint can be in the tree; reports distance joints, and several free axes with a
    translation.
    """
    if joint.kind == "distance":
        fix = "make it a loop joint: set physics:excludeFromArticulation"
        joint.scene.report.error(joint.prim, "a distance joint cannot connect links", fix)
        return False
    sliding = [axis.instance for axis in joint.axes if not axis.angular]
    if sliding and len(joint.axes) > 1:
        names = ", ".join(axis.instance for axis in joint.axes)
        message = (
            f"the joint has the free axes {names}; supported are rotations, or a single translation"
        )
        fix = (
            "lock axes with PhysicsLimitAPI (low > high), or make a chain of bodies with one "
            "joint each"
        )
        joint.scene.report.error(joint.prim, message, fix)
        return False
    return True
