"""Builds joints from joint prims, with limits, armature, friction, drives and performance envelopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from artix.io.usd import mujoco
from artix.io.usd.joints import UsdAxis, UsdJoint
from artix.io.usd.stage import UsdPrim
from artix.io.usd.units import AxisUnits
from artix.model.joint_features import Drive, DriveEnvelope, JointFriction
from artix.model.joints import Joint


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


def _axis_options(joint: UsdJoint, axis: UsdAxis, sign: float, actuators: Sequence[UsdPrim]) -> dict[str, Any]:
    """The options of a :class:`~artix.Joint` for one of its axes."""
    units, offset = joint.scene.units.axis(axis.angular), mujoco.reference(joint, axis)
    low, high = sorted(sign * (limit * units.position - offset) for limit in axis.limits)
    drive, envelope = _drive(joint.prim, axis.instance, units, sign)
    options = {
        "limits": (low, high),
        "drive": drive,
        "envelope": envelope,
        **_resistance(joint.prim, axis.instance, units),
    }
    return mujoco.axis_options(joint, axis, sign, options, actuators)


def _resistance(prim: UsdPrim, instance: str, units: AxisUnits) -> dict[str, Any]:
    """Armature, velocity limit and friction from PhysX's schema for axes or joints, or from Newton's for joints."""
    if prim.read_number("physxJoint:jointFriction"):
        message = "friction relative to the joint's constraint force is not supported"
        prim.left_out("physxJoint:jointFriction", message, "author the friction efforts of PhysxJointAxisAPI")
    if instance in prim.instances("PhysxJointAxisAPI"):
        space = f"physxJointAxis:{instance}"
    elif prim.has("NewtonJointAPI") and not prim.has("PhysxJointAPI"):
        return _newton_resistance(prim, units)
    else:
        space = "physxJoint"

    def number(name: str, fallback: float = 0.0, **options: Any) -> float:
        return prim.read_number(f"{space}:{name}", fallback, low=0.0, **options)

    static, dynamic = (number(f"{kind}FrictionEffort") * units.effort for kind in ("static", "dynamic"))
    if dynamic > static:
        prim.error(f"{space}:dynamicFrictionEffort", "exceeds staticFrictionEffort", "lower it, or raise the other")
        dynamic = static
    viscous = number("viscousFrictionCoefficient") * units.stiffness
    return {
        "armature": number("armature") * units.inertia,
        "max_velocity": number("maxJointVelocity", np.inf, infinite=True) * units.position,
        "friction": JointFriction(static=static, dynamic=dynamic, viscous=viscous),
    }


def _newton_resistance(prim: UsdPrim, units: AxisUnits) -> dict[str, Any]:
    friction = prim.read_number("newton:friction", low=0.0) * units.effort
    viscous = prim.read_number("newton:damping", low=0.0) * units.stiffness
    fastest = prim.read_number("newton:velocityLimit", np.inf, low=0.0, infinite=True)
    return {
        "armature": prim.read_number("newton:armature", low=0.0) * units.inertia,
        "max_velocity": fastest * units.position,
        "friction": JointFriction(static=friction, dynamic=friction, viscous=viscous),
    }


def _drive(prim: UsdPrim, instance: str, units: AxisUnits, sign: float) -> tuple[Drive | None, DriveEnvelope | None]:
    """The drive of an axis, and the performance envelope that replaces its effort limit."""
    if instance not in prim.instances("PhysicsDriveAPI"):
        return None, None
    space = f"drive:{instance}:physics"
    acceleration = prim.read_token(f"{space}:type", "force", ("force", "acceleration")) == "acceleration"
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


def _envelope(prim: UsdPrim, instance: str, units: AxisUnits, effort: float) -> DriveEnvelope | None:
    if instance not in prim.instances("PhysxDrivePerformanceEnvelopeAPI"):
        return None
    space = f"physxDrivePerformanceEnvelope:{instance}"
    if not np.isfinite(effort):
        message, fix = (
            "an envelope needs an effort limit; it is not read",
            f"author drive:{instance}:physics:maxForce",
        )
        prim.left_out(space, message, fix)
        return None
    fastest = prim.read_number(f"{space}:maxActuatorVelocity", np.inf, low=0.0, infinite=True)
    resistance = prim.read_number(f"{space}:velocityDependentResistance", low=0.0)
    return DriveEnvelope(
        max_effort=effort,
        max_actuator_velocity=fastest * units.position,
        velocity_dependent_resistance=resistance * units.stiffness,
        speed_effort_gradient=prim.read_number(f"{space}:speedEffortGradient", low=0.0) * units.gradient,
    )
