"""MuJoCo's USD schemas: what ``MjcJointAPI`` and ``MjcActuator`` say of joints, in MuJoCo's units.

Gains and efforts are per radian in these schemas, and per degree in UsdPhysics, PhysX and Newton.
Reference positions have the unit of ``mjc:compiler:angle``. An authored attribute of MuJoCo comes
before Newton's of the same meaning, as in MuJoCo's own reader; PhysX's schemas come before both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from artix.io.mjcf.actuators import ActuatorLaw
from artix.io.usd.joints import UsdAxis, UsdJoint, enclosing
from artix.io.usd.stage import DEGREE, UsdPrim, UsdScene
from artix.model.joints import Drive, JointFriction

JOINT_SCHEMA, SCENE_SCHEMA, SITE_SCHEMA = "MjcJointAPI", "MjcSceneAPI", "MjcSiteAPI"
ACTUATOR, TENDON = "MjcActuator", "MjcTendon"

#: Flags of a scene that switch off what is read all the same.
_FLAGS = (
    *("constraint", "equality", "frictionloss", "limit", "contact"),
    *("passive", "spring", "damper", "actuation"),
)

#: Beginnings of the names of properties without effect: settings of the solver and of the compiler,
#: friction of contacts that have none by default, and what other modules read.
_HARMLESS = (
    *("mjc:sol", "mjc:group", "mjc:maxhullvert", "mjc:rollingfriction", "mjc:torsionalfriction"),
    *("mjc:condim", "mjc:shellinertia", "mjc:inertia"),
)


@dataclasses.dataclass(frozen=True)
class _Units:
    """SI values of MuJoCo's units for one axis: positions, gains and efforts."""

    position: float
    gain: float
    effort: float

    @classmethod
    def of(cls, joint: UsdJoint, axis: UsdAxis) -> _Units:
        units = joint.scene.units.axis(axis.angular)
        return cls(
            1.0 if axis.angular else units.position,
            units.effort if axis.angular else units.stiffness,
            units.effort,
        )


def affects_motion(prim: UsdPrim, name: str) -> bool:
    """Whether an unread property is one of MuJoCo's, is not zero, and is more than a setting of its
    solver.
    """
    return (
        name.startswith("mjc:") and not name.startswith(_HARMLESS) and bool(np.any(prim.read(name)))
    )


def reference(joint: UsdJoint, axis: UsdAxis) -> float:
    """``mjc:ref``: MuJoCo's coordinate where the joint's frames coincide [rad or m]; limits are in
    that coordinate.
    """
    return (
        _position(joint, axis, "mjc:ref")
        if joint.prim.has(JOINT_SCHEMA) and len(joint.axes) == 1
        else 0.0
    )


def _position(joint: UsdJoint, axis: UsdAxis, name: str) -> float:
    value = joint.prim.read_number(name)
    if value == 0.0 or not axis.angular:
        return value * joint.scene.units.length
    scenes = [prim for prim in joint.scene.prims.values() if prim.has(SCENE_SCHEMA)]
    unit = (
        scenes[0].read_token("mjc:compiler:angle", "degree", ("degree", "radian"))
        if scenes
        else "degree"
    )
    return value * (DEGREE if unit == "degree" else 1.0)


def axis_options(
    joint: UsdJoint,
    axis: UsdAxis,
    sign: float,
    options: dict[str, Any],
    actuators: Sequence[UsdPrim],
) -> dict[str, Any]:
    """The options of a :class:`~artix.Joint` for an axis, with what MuJoCo's schemas say.

    Args:
      joint: the joint.
      axis: one of its axes.
      sign: of the joint's positions relative to USD's.
      options: what the other schemas say.
      actuators: the prims of the actuators on the joint.
    """
    if joint.prim.has(JOINT_SCHEMA):
        options = options | _resistance(joint, axis, options)
    limit = _joint_limit(joint) * _Units.of(joint, axis).effort
    laws = [law for prim in actuators if (law := _law(joint, axis, prim)) is not None]
    motors = sum(law.smallest_limit for law in laws if law.is_motor) or np.inf
    options = options | {"max_force": min(limit, motors)}
    drive = _drive(joint, axis, sign, [law for law in laws if not law.is_motor], limit)
    if drive is not None and options["drive"] is not None:
        message = "its spring or servo of MuJoCo, because its PhysicsDriveAPI is read"
        joint.scene.left_out(joint.prim, message, "keep one of them")
    elif drive is not None:
        options = options | {"drive": drive}
    return options


def _resistance(joint: UsdJoint, axis: UsdAxis, options: dict[str, Any]) -> dict[str, Any]:
    """Armature, damping and friction loss, unless PhysX's schemas are applied."""
    prim = joint.prim
    units = _Units.of(joint, axis)
    prim.read("mjc:group")
    if np.any(_numbers(prim, "mjc:springdamper", (0.0, 0.0))):
        message = "a spring by time constant and damping ratio is not read"
        prim.left_out("mjc:springdamper", message, "author mjc:stiffness and mjc:damping")
    if prim.has("PhysxJointAPI") or axis.instance in prim.instances("PhysxJointAxisAPI"):
        return {}
    friction = options["friction"]
    viscous = prim.read_number("mjc:damping", friction.viscous / units.gain, low=0.0) * units.gain
    loss = (
        prim.read_number("mjc:frictionloss", friction.static / units.effort, low=0.0) * units.effort
    )
    inertia = joint.scene.units.axis(axis.angular).inertia
    return {
        "armature": prim.read_number("mjc:armature", options["armature"] / inertia, low=0.0)
        * inertia,
        "friction": JointFriction(static=loss, dynamic=loss, viscous=viscous),
    }


def _drive(
    joint: UsdJoint, axis: UsdAxis, sign: float, servos: list[ActuatorLaw], limit: float
) -> Drive | None:
    """The drive that stands for the joint's servo or its passive spring; ``None`` if it has
    neither.
    """
    prim = joint.prim
    units = _Units.of(joint, axis)
    offset = reference(joint, axis)
    stiffness = (
        prim.read_number("mjc:stiffness", low=0.0) * units.gain if prim.has(JOINT_SCHEMA) else 0.0
    )
    if len(servos) > 1:
        joint.scene.left_out(
            prim, "all its servos but one: a joint has only one drive", "join them"
        )
    if servos:
        if stiffness:
            prim.left_out(
                "mjc:stiffness",
                "the joint has a spring and a servo, but only one drive",
                "keep one of them",
            )
        servo = servos[0]
        held = servo.constant / servo.stiffness - offset if servo.stiffness else 0.0
        speed = 0.0 if servo.stiffness or not servo.constant else servo.constant / servo.damping
        return Drive(
            stiffness=servo.stiffness,
            damping=servo.damping,
            max_force=min(servo.smallest_limit, limit),
            target=sign * held,
            target_velocity=sign * speed,
        )
    if not stiffness:
        return None
    # The spring of a ball joint pulls towards the rest orientation.
    rest = 0.0 if len(joint.axes) > 1 else _position(joint, axis, "mjc:springref") - offset
    return Drive(stiffness=stiffness, target=sign * rest)


def _joint_limit(joint: UsdJoint) -> float:
    """The limit on the total effort of all actuators of a joint, in MuJoCo's unit; ball joints have
    none.
    """
    prim = joint.prim
    bounds = (
        _range(prim, "mjc:actuatorfrc") if prim.has(JOINT_SCHEMA) and len(joint.axes) == 1 else None
    )
    if bounds is None:
        return np.inf
    if bounds[0] != -bounds[1]:
        message = "it is not symmetric; the larger side limits both directions"
        prim.left_out("mjc:actuatorfrcrange:max", message, "author a symmetric range")
    return max(-bounds[0], bounds[1], 0.0)


def _range(prim: UsdPrim, kind: str) -> tuple[float, float] | None:
    """An authored range that is in force, or ``None``; with ``auto``, an authored range is."""
    spelled = ("range", "limited") if kind.endswith("frc") else ("Range", "Limited")
    names = [f"{kind}{spelled[0]}:{side}" for side in ("min", "max")]
    authored = any(prim.read(name) is not None for name in names)
    limited = prim.read_token(f"{kind}{spelled[1]}", "auto", ("false", "true", "auto"))
    if limited == "false" or not authored:
        return None
    low, high = (prim.read_number(name) for name in names)
    return (low, high) if low < high else None


def _law(joint: UsdJoint, axis: UsdAxis, prim: UsdPrim) -> ActuatorLaw | None:
    """The force law of an actuator at its joint; reports an unsupported one and returns
    ``None``.
    """
    units = _Units.of(joint, axis)
    if len(joint.axes) != 1:
        if axis is joint.axes[0]:
            prim.left_out(
                "mjc:target",
                "an actuator of a ball joint is not read",
                "apply its torque as joint forces",
            )
        return None
    forms = (("dynType", ("none",)), ("gainType", ("fixed",)), ("biasType", ("none", "affine")))
    for name, known in forms:
        kind = prim.read_token(f"mjc:{name}", known[0])
        if kind not in known:
            prim.left_out(
                f"mjc:{name}",
                f"an actuator with the {name} {kind!r} is not read",
                "make it a motor or a servo",
            )
            return None
    gear = _numbers(prim, "mjc:gear", (1.0,))[0]
    gain = _numbers(prim, "mjc:gainPrm", (1.0,))[0]
    if gear == 0.0:
        return None  # It does nothing.
    bias = np.zeros(3)
    if prim.read_token("mjc:biasType", "none") == "affine":
        authored = _numbers(prim, "mjc:biasPrm", (0.0, 0.0, 0.0))[:3]
        bias[: len(authored)] = authored
    law = ActuatorLaw.affine(gear, bias)
    if law.is_negative:
        prim.left_out(
            "mjc:biasPrm",
            "an actuator of negative stiffness or damping is not read",
            "correct its sign",
        )
        return None
    limit = _actuator_limit(prim, abs(gain), motor=law.is_motor) * abs(gear)
    if law.constant and law.is_motor:
        prim.left_out("mjc:biasPrm", "the constant force of a motor is not read", "command it")
    return ActuatorLaw(
        constant=law.constant * units.effort,
        stiffness=law.stiffness * units.gain,
        damping=law.damping * units.gain,
        limit=np.full(1, limit * units.effort),
    )


def _actuator_limit(prim: UsdPrim, gain: float, *, motor: bool) -> float:
    """The largest force of an actuator; a motor's may follow from its control range."""
    limit = np.inf
    ranges = [(_range(prim, "mjc:force"), 1.0)] + (
        [(_range(prim, "mjc:ctrl"), gain)] if motor else []
    )
    for bounds, factor in ranges:
        if bounds is not None:
            if bounds[0] != -bounds[1]:
                message = (
                    "its range is not symmetric; the larger side limits the effort in both "
                    "directions"
                )
                prim.left_out("mjc:target", message, "clip its command")
            limit = min(limit, factor * max(abs(bounds[0]), abs(bounds[1])))
    return limit


def _numbers(prim: UsdPrim, name: str, fallback: tuple[float, ...]) -> np.ndarray:
    """An array of numbers, not empty; reports anything else."""
    value = prim.read(name)
    try:
        numbers = np.asarray(fallback if value is None else value, float).ravel()
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if not len(numbers) or not np.isfinite(numbers).all():
        prim.error(name, f"must be finite numbers, found {str(value)[:60]!r}")
        return np.asarray(fallback)
    return numbers


# --- prims that act on the articulation ---------------------------------------------------------


def joint_actuators(
    scene: UsdScene, joints: Collection[str], bodies: Collection[str]
) -> dict[str, list[UsdPrim]]:
    """The ``MjcActuator`` prims of joints, by path; reports those that act on the articulation
    otherwise.

    Args:
      scene: the stage.
      joints: paths of the joints of the tree.
      bodies: paths of the bodies.
    """
    actuators: dict[str, list[UsdPrim]] = {}
    for prim in scene.prims.values():
        if str(prim.prim.GetTypeName()) != ACTUATOR:
            continue
        target = prim.read_target("mjc:target")
        if target in joints:
            actuators.setdefault(str(target), []).append(prim)
        elif target is not None and _acts(scene, target, joints, bodies):
            kind = _kind(scene.prims[target])
            message = (
                f"an {ACTUATOR} on a {kind} is not read: drives and limits of effort are of joints"
            )
            prim.left_out(
                "mjc:target", message, "apply its force as joint forces or as wrenches on links"
            )
    return actuators


def note_tendons(scene: UsdScene, joints: Collection[str], bodies: Collection[str]) -> None:
    """Reports the tendons of MuJoCo that act on the articulation."""
    for path, prim in scene.prims.items():
        if str(prim.prim.GetTypeName()) == TENDON and _acts(scene, path, joints, bodies):
            message = f"an {TENDON} acts on the articulation and is not read"
            scene.left_out(prim, message, "use PhysX's tendons, or load the MJCF")


def _acts(scene: UsdScene, path: str, joints: Collection[str], bodies: Collection[str]) -> bool:
    """Whether a joint, site, body or tendon belongs to the articulation."""
    if path not in scene.prims:
        return False
    if str(scene.prims[path].prim.GetTypeName()) != TENDON:
        return path in joints or enclosing(path, bodies) is not None
    relation = scene.prims[path].prim.GetRelationship("mjc:path")
    wraps = map(str, relation.GetTargets()) if relation else ()
    return any(_acts(scene, target, joints, bodies) for target in wraps)


def _kind(prim: UsdPrim) -> str:
    if prim.has(SITE_SCHEMA):
        return "site"
    if str(prim.prim.GetTypeName()) == TENDON:
        return "tendon"
    return "body" if prim.has("PhysicsRigidBodyAPI") else "joint outside the tree"


def note_scene(scene: UsdPrim) -> None:
    """Reports options of ``MjcSceneAPI`` that change the motion and are not read."""
    if not scene.has(SCENE_SCHEMA):
        return
    for flag in _FLAGS:
        if not scene.read_bool(f"mjc:flag:{flag}", True):
            message = "what the flag switches off is read all the same"
            scene.left_out(f"mjc:flag:{flag}", message, "remove it from the stage")
    for name in ("density", "viscosity"):
        if scene.read_number(f"mjc:option:{name}"):
            scene.left_out(
                f"mjc:option:{name}", "the drag of a medium is not read", "use the damping of links"
            )
