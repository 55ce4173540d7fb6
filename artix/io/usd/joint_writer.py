"""Writes joints as joint prims with limits, drives, friction and state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.usd.authoring import Author, author, author_floats, quaternion, relate, vector
from artix.io.usd.joints import AXIS_INSTANCES
from artix.io.usd.units import AxisUnits, StageUnits
from artix.model.articulation import Articulation
from artix.model.joints import Axis, JointType

if TYPE_CHECKING:
    from pxr import Usd

_PRIM_TYPES = {
    JointType.FIX: "PhysicsFixedJoint",
    JointType.PRISMATIC: "PhysicsPrismaticJoint",
    JointType.REVOLUTE: "PhysicsRevoluteJoint",
    JointType.REVOLUTE_UNWRAPPED: "PhysicsRevoluteJoint",
}
INSTANCE_OF = {axis: instance for instance, axis in AXIS_INSTANCES.items()}


def axis_units(axis: Axis) -> AxisUnits:
    """The units of an axis in a stage with metres, kilograms and degrees."""
    return StageUnits().axis(axis < Axis.X)


def write_joint(out: Author, link: int) -> Usd.Prim:
    """Writes the joint between a link and its parent."""
    topology, arrays = out.topology, out.arrays
    kind, axes = topology.joint_types[link], topology.joint_axes[link]
    dofs = [int(dof) for dof in np.flatnonzero(topology.dof_link == link)]
    plain = len(axes) == 3 and not any(_is_limited(arrays, dof) or _features(arrays, dof) for dof in dofs)
    generic = "PhysicsSphericalJoint" if plain and out.state is None else "PhysicsJoint"
    prim = out.define(_PRIM_TYPES.get(kind, generic), topology.joint_names[link - 1])
    poses = arrays.joint_parent_pose[link], arrays.joint_child_pose[link]
    connect(prim, (out.bodies[topology.parent[link]], out.bodies[link]), poses)
    if prim.GetTypeName() == "PhysicsJoint":
        lock(prim, [axis for axis in INSTANCE_OF if axis not in axes])
    elif axes:
        author(prim, "token", "physics:axis", "XYZ"[axes[0] % 3], uniform=True)
    for dof, axis in zip(dofs, axes, strict=True):
        _write_limits(out, prim, dof, axis, kind)
        _write_axis(out, prim, dof, axis, axis_instance(kind, axis))
    return prim


def axis_instance(kind: JointType, axis: Axis) -> str:
    """The instance name of schemas for a joint's axis."""
    return {JointType.PRISMATIC: "linear", JointType.SPHERICAL: INSTANCE_OF[axis]}.get(kind, "angular")


def connect(prim: Usd.Prim, bodies: tuple[Usd.Prim | None, Usd.Prim], poses: tuple[Any, Any]) -> None:
    """Sets a joint's bodies and its frames in them; ``None`` is the world."""
    for side, body, pose in zip("01", bodies, poses, strict=True):
        if body is not None:
            relate(prim, f"physics:body{side}", body)
        author(prim, "point3f", f"physics:localPos{side}", vector(pose[:3]))
        author(prim, "quatf", f"physics:localRot{side}", quaternion(pose[3:]))


def lock(prim: Usd.Prim, axes: list[Axis]) -> None:
    """Locks axes of a generic joint by a low limit above the high one."""
    for axis in axes:
        prim.AddAppliedSchema(f"PhysicsLimitAPI:{INSTANCE_OF[axis]}")
        author_floats(prim, f"limit:{INSTANCE_OF[axis]}:physics", low=1.0, high=-1.0)


def _is_limited(arrays: Articulation, dof: int) -> bool:
    return bool(np.isfinite(arrays.joint_lower_limit[dof]) or np.isfinite(arrays.joint_upper_limit[dof]))


def _features(arrays: Articulation, dof: int) -> list[str]:
    """The schemas that an axis needs."""
    drive, envelope, friction = arrays.drive, arrays.envelope, arrays.friction
    numbers = drive.stiffness, drive.damping, drive.is_acceleration, drive.target_position, drive.target_velocity
    resistances = arrays.armature, friction.static, friction.dynamic, friction.viscous
    schemas = []
    has_envelope = bool(np.isfinite(envelope.max_effort[dof]))
    if has_envelope or np.isfinite(drive.max_force[dof]) or any(float(number[dof]) for number in numbers):
        schemas.append("PhysicsDriveAPI")
    if has_envelope:
        schemas.append("PhysxDrivePerformanceEnvelopeAPI")
    if np.isfinite(arrays.max_joint_velocity[dof]) or any(float(number[dof]) for number in resistances):
        schemas.append("PhysxJointAxisAPI")
    return schemas


def _write_limits(out: Author, prim: Usd.Prim, dof: int, axis: Axis, kind: JointType) -> None:
    units, arrays = axis_units(axis), out.arrays
    low, high = (float(limit[dof]) / units.position for limit in (arrays.joint_lower_limit, arrays.joint_upper_limit))
    limited = _is_limited(arrays, dof)
    if kind is JointType.SPHERICAL:
        if limited:
            prim.AddAppliedSchema(f"PhysicsLimitAPI:{INSTANCE_OF[axis]}")
            author_floats(prim, f"limit:{INSTANCE_OF[axis]}:physics", low=low, high=high)
    elif limited:
        author_floats(prim, "physics", lowerLimit=low, upperLimit=high)
    if limited and low == high == 0.0 and kind is JointType.SPHERICAL:
        out.report_unsupported(prim, f"an axis ({axis.name.lower()}) with both limits zero will be read as locked")
    if limited != (kind is JointType.REVOLUTE_UNWRAPPED) and kind in (JointType.REVOLUTE, JointType.REVOLUTE_UNWRAPPED):
        limits = "has limits but wraps" if limited else "has no limits but does not wrap"
        message = f"it {limits}; a revolute joint will be read as wrapping if and only if it has no limits"
        out.report_unsupported(prim, message)


def _write_axis(out: Author, prim: Usd.Prim, dof: int, axis: Axis, instance: str) -> None:
    """Writes drive, envelope, friction, armature, velocity limit and state of an axis."""
    arrays, state, units = out.arrays, out.state, axis_units(axis)
    schemas = _features(arrays, dof)
    for schema in schemas:
        prim.AddAppliedSchema(f"{schema}:{instance}")
    if "PhysicsDriveAPI" in schemas:
        _write_drive(out, prim, dof, instance, units)
    if "PhysxJointAxisAPI" in schemas:
        friction = arrays.friction
        author_floats(
            prim,
            f"physxJointAxis:{instance}",
            armature=arrays.armature[dof] / units.inertia,
            maxJointVelocity=arrays.max_joint_velocity[dof] / units.position,
            staticFrictionEffort=friction.static[dof] / units.effort,
            dynamicFrictionEffort=friction.dynamic[dof] / units.effort,
            viscousFrictionCoefficient=friction.viscous[dof] / units.stiffness,
        )
    if np.isfinite(arrays.max_joint_force[dof]):
        out.report_unsupported(prim, "USD has no limit on commanded joint forces; maxForce limits only the drive")
    if state is not None:
        prim.AddAppliedSchema(f"PhysicsJointStateAPI:{instance}")
        author_floats(
            prim,
            f"state:{instance}:physics",
            position=state.joint_position[dof] / units.position,
            velocity=state.joint_velocity[dof] / units.position,
        )


def _write_drive(out: Author, prim: Usd.Prim, dof: int, instance: str, units: AxisUnits) -> None:
    drive, envelope, space = out.arrays.drive, out.arrays.envelope, f"drive:{instance}:physics"
    acceleration = bool(drive.is_acceleration[dof])
    gain = units.acceleration if acceleration else units.stiffness
    effort = float(drive.max_force[dof])
    if np.isfinite(envelope.max_effort[dof]):
        if np.isfinite(effort):
            out.report_unsupported(prim, "the drive's max_force is dropped: the performance envelope replaces it")
        effort = float(envelope.max_effort[dof])
        author_floats(
            prim,
            f"physxDrivePerformanceEnvelope:{instance}",
            maxActuatorVelocity=envelope.max_actuator_velocity[dof] / units.position,
            velocityDependentResistance=envelope.velocity_dependent_resistance[dof] / units.stiffness,
            speedEffortGradient=envelope.speed_effort_gradient[dof] / units.gradient,
        )
    author(prim, "token", f"{space}:type", "acceleration" if acceleration else "force", uniform=True)
    author_floats(
        prim,
        space,
        stiffness=drive.stiffness[dof] / gain,
        damping=drive.damping[dof] / gain,
        maxForce=effort / units.effort,
        targetPosition=drive.target_position[dof] / units.position,
        targetVelocity=drive.target_velocity[dof] / units.position,
    )
