"""Writes prims to a stage: joints with limits, drives, friction and state, mimic joints, loop
joints and tendons.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.description import Names
from artix.io.common.diagnostics import Location, Report
from artix.io.usd.couplings import ATTACHMENT, ATTACHMENT_LEAF, ATTACHMENT_ROOT, GAINS, LENGTHS
from artix.io.usd.joints import AXIS_INSTANCES, KINDS
from artix.io.usd.stage import NAME_KEY, AxisUnits, StageUnits, import_pxr
from artix.model.articulation import Articulation, State
from artix.model.couplings import FixedTendonStructure, LoopJointType, SpatialTendonStructure
from artix.model.joints import Axis, JointType
from artix.model.topology import Topology

if TYPE_CHECKING:
    from pxr import Usd


class Author:
    """Writes an articulation below one prim of a new stage in metres, kilograms and degrees, with z
    up.

    Args:
      topology: the articulation's topology.
      arrays: the articulation, with NumPy arrays.
      state: the state to write, with NumPy arrays, if any.
      report: receives what USD cannot express.

    Attributes:
      bodies: the prims of the links, once they are written.
      joints: the prims of the joints of links 1, 2, ...
    """

    def __init__(
        self, topology: Topology, arrays: Articulation, state: State | None, report: Report
    ) -> None:
        pxr = import_pxr()
        self.topology = topology
        self.arrays = arrays
        self.state = state
        self.bodies: list[Usd.Prim] = []
        self.joints: list[Usd.Prim] = []
        self.stage = pxr.Usd.Stage.CreateInMemory()
        self._report = report
        self._names: dict[str, Names] = collections.defaultdict(Names)
        self._warnings: dict[tuple[str, str], list[Usd.Prim]] = {}
        pxr.UsdGeom.SetStageUpAxis(self.stage, pxr.UsdGeom.Tokens.z)
        pxr.UsdGeom.SetStageMetersPerUnit(self.stage, 1.0)
        pxr.UsdPhysics.SetStageKilogramsPerUnit(self.stage, 1.0)
        self.world = self.stage.DefinePrim("/World", "Xform")
        self.stage.SetDefaultPrim(self.world)
        self.top = self.define("Xform", topology.name, self.world)

    @property
    def owner(self) -> Usd.Prim:
        """The prim with the articulation's schemas: the root body if it floats, else the robot's
        prim.
        """
        return self.top if self.topology.fixed_base else self.bodies[0]

    def define(self, kind: str, name: str, parent: Usd.Prim | None = None) -> Usd.Prim:
        """Creates a prim; a name that is taken or not a valid USD identifier is kept in the prim's
        custom data.
        """
        path = (self.top if parent is None else parent).GetPath()
        spelled = import_pxr().Tf.MakeValidIdentifier(name)
        unique = self._names[str(path)].new(spelled)
        prim = self.stage.DefinePrim(path.AppendChild(unique), kind)
        if unique != name:
            prim.SetCustomDataByKey(NAME_KEY, name)
        return prim

    def report_unsupported(
        self, prim: Usd.Prim, message: str, fix: str = "nothing, or set it after reading"
    ) -> None:
        """Records something that USD cannot express."""
        self._warnings.setdefault((message, fix), []).append(prim)

    def finish(self) -> Usd.Stage:
        """Returns the stage, and reports what it cannot express, in one warning for all prims with
        the same message.
        """
        for (message, fix), prims in self._warnings.items():
            names = ", ".join(f"<{prim.GetPath()}>" for prim in prims)
            self._report.left_out(Location(names), message, fix)
        return self.stage


def author(prim: Usd.Prim, type_name: str, name: str, value: Any, *, uniform: bool = False) -> None:
    """Sets an attribute; creates it with the given value type if the prim's schemas do not define
    it.
    """
    sdf = import_pxr().Sdf
    variability = sdf.VariabilityUniform if uniform else sdf.VariabilityVarying
    attribute = prim.GetAttribute(name)
    if not attribute:
        attribute = prim.CreateAttribute(
            name, sdf.ValueTypeNames.Find(type_name), False, variability
        )
    attribute.Set(value)


def author_floats(prim: Usd.Prim, space: str, **values: Any) -> None:
    """Sets float attributes in a namespace."""
    for name, value in values.items():
        author(prim, "float", f"{space}:{name}", float(value))


def relate(prim: Usd.Prim, name: str, target: Usd.Prim) -> None:
    """Points a relationship at a prim."""
    prim.CreateRelationship(name, False).SetTargets([target.GetPath()])


def quaternion(xyzw: np.ndarray, *, double: bool = False) -> Any:
    """A ``GfQuatf``, or ``GfQuatd``, of a quaternion xyzw."""
    gf = import_pxr().Gf
    x, y, z, w = map(float, xyzw)
    return gf.Quatd(w, x, y, z) if double else gf.Quatf(w, x, y, z)


def vector(numbers: np.ndarray) -> Any:
    """A ``GfVec3f``."""
    return import_pxr().Gf.Vec3f(*map(float, numbers))


def set_pose(prim: Usd.Prim, pose: np.ndarray) -> None:
    """Sets the pose of an ``Xform`` relative to its parent, shape [7]."""
    pxr = import_pxr()
    xform = pxr.UsdGeom.Xformable(prim)
    xform.AddTranslateOp(pxr.UsdGeom.XformOp.PrecisionDouble).Set(
        pxr.Gf.Vec3d(*map(float, pose[:3]))
    )
    xform.AddOrientOp(pxr.UsdGeom.XformOp.PrecisionDouble).Set(quaternion(pose[3:], double=True))


# --- joints -------------------------------------------------------------------------------------

#: The types of joints that USD has; a spherical joint is generic unless all its three axes are
#: free.
JOINT_TYPES = {
    JointType.SPHERICAL: "PhysicsJoint",
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
    topology = out.topology
    arrays = out.arrays
    kind = topology.joint_types[link]
    axes = topology.joint_axes[link]
    dofs = [int(dof) for dof in np.flatnonzero(topology.dof_link == link)]
    plain = len(axes) == 3 and not any(
        _is_limited(arrays, dof) or _features(arrays, dof) for dof in dofs
    )
    prim_type = "PhysicsSphericalJoint" if plain and out.state is None else JOINT_TYPES[kind]
    prim = out.define(prim_type, topology.joint_names[link - 1])
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
    return {JointType.PRISMATIC: "linear", JointType.SPHERICAL: INSTANCE_OF[axis]}.get(
        kind, "angular"
    )


def connect(
    prim: Usd.Prim, bodies: tuple[Usd.Prim | None, Usd.Prim], poses: tuple[Any, Any]
) -> None:
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
    return bool(
        np.isfinite(arrays.joint_lower_limit[dof]) or np.isfinite(arrays.joint_upper_limit[dof])
    )


def _features(arrays: Articulation, dof: int) -> list[str]:
    """The schemas that an axis needs."""
    drive = arrays.drive
    envelope = arrays.envelope
    friction = arrays.friction
    numbers = (
        drive.stiffness,
        drive.damping,
        drive.is_acceleration,
        drive.target_position,
        drive.target_velocity,
    )
    resistances = arrays.armature, friction.static, friction.dynamic, friction.viscous
    schemas = []
    has_envelope = bool(np.isfinite(envelope.max_effort[dof]))
    if (
        has_envelope
        or np.isfinite(drive.max_force[dof])
        or any(float(number[dof]) for number in numbers)
    ):
        schemas.append("PhysicsDriveAPI")
    if has_envelope:
        schemas.append("PhysxDrivePerformanceEnvelopeAPI")
    if np.isfinite(arrays.max_joint_velocity[dof]) or any(
        float(number[dof]) for number in resistances
    ):
        schemas.append("PhysxJointAxisAPI")
    return schemas


def _write_limits(out: Author, prim: Usd.Prim, dof: int, axis: Axis, kind: JointType) -> None:
    units = axis_units(axis)
    arrays = out.arrays
    low, high = (
        float(limit[dof]) / units.position
        for limit in (arrays.joint_lower_limit, arrays.joint_upper_limit)
    )
    limited = _is_limited(arrays, dof)
    if kind is JointType.SPHERICAL:
        if limited:
            prim.AddAppliedSchema(f"PhysicsLimitAPI:{INSTANCE_OF[axis]}")
            author_floats(prim, f"limit:{INSTANCE_OF[axis]}:physics", low=low, high=high)
    elif limited:
        author_floats(prim, "physics", lowerLimit=low, upperLimit=high)
    if limited and low == high == 0.0 and kind is JointType.SPHERICAL:
        out.report_unsupported(
            prim, f"an axis ({axis.name.lower()}) with both limits zero will be read as locked"
        )
    if limited != (kind is JointType.REVOLUTE_UNWRAPPED) and kind in (
        JointType.REVOLUTE,
        JointType.REVOLUTE_UNWRAPPED,
    ):
        limits = "has limits but wraps" if limited else "has no limits but does not wrap"
        message = (
            f"it {limits}; a revolute joint will be read as wrapping if and only if it has no "
            "limits"
        )
        out.report_unsupported(prim, message)


def _write_axis(out: Author, prim: Usd.Prim, dof: int, axis: Axis, instance: str) -> None:
    """Writes drive, envelope, friction, armature, velocity limit and state of an axis."""
    arrays = out.arrays
    state = out.state
    units = axis_units(axis)
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
        out.report_unsupported(
            prim, "USD has no limit on commanded joint forces; maxForce limits only the drive"
        )
    if state is not None:
        prim.AddAppliedSchema(f"PhysicsJointStateAPI:{instance}")
        author_floats(
            prim,
            f"state:{instance}:physics",
            position=state.joint_position[dof] / units.position,
            velocity=state.joint_velocity[dof] / units.position,
        )


def _write_drive(out: Author, prim: Usd.Prim, dof: int, instance: str, units: AxisUnits) -> None:
    drive = out.arrays.drive
    envelope = out.arrays.envelope
    space = f"drive:{instance}:physics"
    acceleration = bool(drive.is_acceleration[dof])
    gain = units.acceleration if acceleration else units.stiffness
    effort = float(drive.max_force[dof])
    if np.isfinite(envelope.max_effort[dof]):
        if np.isfinite(effort):
            out.report_unsupported(
                prim, "the drive's max_force is dropped: the performance envelope replaces it"
            )
        effort = float(envelope.max_effort[dof])
        author_floats(
            prim,
            f"physxDrivePerformanceEnvelope:{instance}",
            maxActuatorVelocity=envelope.max_actuator_velocity[dof] / units.position,
            velocityDependentResistance=envelope.velocity_dependent_resistance[dof]
            / units.stiffness,
            speedEffortGradient=envelope.speed_effort_gradient[dof] / units.gradient,
        )
    author(
        prim, "token", f"{space}:type", "acceleration" if acceleration else "force", uniform=True
    )
    author_floats(
        prim,
        space,
        stiffness=drive.stiffness[dof] / gain,
        damping=drive.damping[dof] / gain,
        maxForce=effort / units.effort,
        targetPosition=drive.target_position[dof] / units.position,
        targetVelocity=drive.target_velocity[dof] / units.position,
    )


# --- mimic joints, loop joints and tendons ------------------------------------------------------

_LOOP_PRIM_TYPES = {kind: name for name, kind in KINDS.items()}


def write_couplings(out: Author) -> None:
    """Writes mimic joints, tendons and loop joints."""
    write_mimic_joints(out)
    write_fixed_tendons(out)
    write_spatial_tendons(out)
    write_loop_joints(out)


def write_mimic_joints(out: Author) -> None:
    """Applies ``PhysxMimicJointAPI`` to the followers."""
    topology = out.topology
    arrays = out.arrays
    for index, (follower, reference) in enumerate(topology.mimic_dofs):
        prim, reference_prim = (
            out.joints[topology.dof_link[dof] - 1] for dof in (follower, reference)
        )
        axis, reference_axis = (Axis(topology.dof_axis[dof]) for dof in (follower, reference))
        unit, reference_unit = axis_units(axis).position, axis_units(reference_axis).position
        instance = _rotation_instance(axis)
        space = f"physxMimicJoint:{instance}"
        prim.AddAppliedSchema(f"PhysxMimicJointAPI:{instance}")
        relate(prim, f"{space}:referenceJoint", reference_prim)
        author(
            prim,
            "token",
            f"{space}:referenceJointAxis",
            _rotation_instance(reference_axis),
            uniform=True,
        )
        author_floats(
            prim,
            space,
            gearing=arrays.mimic.gear_ratio[index] * reference_unit / unit,
            offset=arrays.mimic.offset[index] / unit,
            naturalFrequency=arrays.mimic.natural_frequency[index],
            dampingRatio=arrays.mimic.damping_ratio[index],
        )


def _rotation_instance(axis: Axis) -> str:
    """The schema's instance name: only rotations exist, and on a prismatic joint the name has no
    effect.
    """
    return INSTANCE_OF[Axis(axis % 3)]


#: Attributes of the root of a tendon by artix's fields.
_ROOT = {**GAINS, "offset": "offset"}


def _author_fields(
    prim: Usd.Prim, space: str, numbers: Any, index: int, attributes: dict[str, str]
) -> None:
    """Sets float attributes, given by the names of the fields that have their values."""
    author_floats(
        prim, space, **{name: getattr(numbers, field)[index] for field, name in attributes.items()}
    )


def write_fixed_tendons(out: Author) -> None:
    """Applies ``PhysxTendonAxisRootAPI`` to the first joint of each tendon, ``PhysxTendonAxisAPI``
    to the others.
    """
    first = 0
    names = Names()
    for index, tendon in enumerate(out.topology.fixed_tendons):
        reason = _why_unsupported(out.topology, tendon)
        if reason:
            out.report_unsupported(
                out.top, f"fixed tendon {tendon.name!r} is not written: {reason}"
            )
        else:
            name = names.new(import_pxr().Tf.MakeValidIdentifier(tendon.name))
            if name != tendon.name:
                out.report_unsupported(
                    out.top, f"fixed tendon {tendon.name!r} will be called {name!r}", "nothing"
                )
            _write_fixed_tendon(out, index, first, name)
        first += len(tendon.dofs)


def _why_unsupported(topology: Topology, tendon: FixedTendonStructure) -> str:
    """Why USD cannot express a fixed tendon; empty if it can."""
    if tendon.parents.count(-1) != 1:
        return "USD requires exactly one joint next to its root link"
    if any(len(topology.joint_axes[topology.dof_link[dof]]) != 1 for dof in tendon.dofs):
        return "USD requires joints with one degree of freedom"
    return ""


def _write_fixed_tendon(out: Author, index: int, first: int, name: str) -> None:
    topology = out.topology
    numbers = out.arrays.fixed_tendons
    tendon = topology.fixed_tendons[index]
    space = f"physxTendon:{name}"
    for number, dof in enumerate(tendon.dofs):
        prim = out.joints[topology.dof_link[dof] - 1]
        units = axis_units(Axis(topology.dof_axis[dof]))
        root = tendon.parents[number] < 0
        prim.AddAppliedSchema(
            f"{'PhysxTendonAxisRootAPI' if root else 'PhysxTendonAxisAPI'}:{name}"
        )
        coefficient, force = (
            array[first + number] for array in (numbers.coefficient, numbers.recip_coefficient)
        )
        author(prim, "float[]", f"{space}:gearing", [float(coefficient * units.position)])
        author(prim, "float[]", f"{space}:forceCoefficient", [float(force)])
        axis = "transX" if topology.dof_axis[dof] >= Axis.X else "rotX"
        author(prim, "token[]", f"{space}:jointAxis", [axis], uniform=True)
        if root:
            _author_fields(prim, space, numbers, index, _ROOT | LENGTHS)


def write_spatial_tendons(out: Author) -> None:
    """Applies PhysX's attachment schemas to the prims of the links."""
    first = 0
    for index, tendon in enumerate(out.topology.spatial_tendons):
        _write_spatial_tendon(out, tendon, index, first)
        first += len(tendon.links)


def _write_spatial_tendon(
    out: Author, tendon: SpatialTendonStructure, index: int, first: int
) -> None:
    bodies = out.bodies
    numbers = out.arrays.spatial_tendons
    names = _attachment_names(tendon, bodies)
    if float(numbers.coefficient[first]) != 1.0:
        out.report_unsupported(
            bodies[tendon.links[0]],
            f"the root of tendon {tendon.name!r} will be read with coefficient 1",
        )
    for number, (link, parent) in enumerate(zip(tendon.links, tendon.parents, strict=True)):
        at = first + number
        body = bodies[link]
        space = f"physxTendon:{names[number]}"
        schema = ATTACHMENT
        if parent < 0:
            schema = ATTACHMENT_ROOT
            _author_fields(body, space, numbers, index, _ROOT)
        elif number in tendon.leaves:
            schema = ATTACHMENT_LEAF
            _author_fields(body, space, numbers, at, LENGTHS)
        body.AddAppliedSchema(f"{schema}:{names[number]}")
        author(body, "point3f", f"{space}:localPos", vector(np.asarray(numbers.position[at])))
        author_floats(body, space, gearing=numbers.coefficient[at])
        if parent >= 0:
            relate(body, f"{space}:parentLink", bodies[tendon.links[parent]])
            author(body, "token", f"{space}:parentAttachment", names[parent], uniform=True)


#: Attributes and relationships of attachments: no instance of the schema may have such a name.
_ATTACHMENT_PROPERTIES = {
    *("gearing", "localPos", "parentAttachment", "parentLink", "tendonEnabled"),
    *_ROOT.values(),
    *LENGTHS.values(),
}


def _attachment_names(tendon: SpatialTendonStructure, bodies: list[Usd.Prim]) -> list[str]:
    """Instance names, unique on each body: the tendon's name for the root, else the attachment's,
    or a number.
    """
    valid = import_pxr().Tf.MakeValidIdentifier
    names: list[str] = []
    taken = {link: _applied_attachments(bodies[link]) for link in tendon.links}
    for number, (link, attachment) in enumerate(
        zip(tendon.links, tendon.attachment_names, strict=True)
    ):
        base = valid(tendon.name if number == 0 else attachment or f"{tendon.name}_{number}")
        name = base
        copy = 1
        while name in taken[link] or name in _ATTACHMENT_PROPERTIES:
            copy += 1
            name = f"{base}_{copy}"
        taken[link].add(name)
        names.append(name)
    return names


def _applied_attachments(body: Usd.Prim) -> set[str]:
    """The names of the attachments on a body."""
    applied = (
        str(schema).partition(":") for schema in body.GetPrimTypeInfo().GetAppliedAPISchemas()
    )
    return {
        name
        for schema, _, name in applied
        if schema in (ATTACHMENT, ATTACHMENT_ROOT, ATTACHMENT_LEAF)
    }


def write_loop_joints(out: Author) -> None:
    """Writes loop joints as joints that are excluded from the articulation."""
    numbers: Any = out.arrays.loop_joints
    for index, joint in enumerate(out.topology.loop_joints):
        prim = out.define(_LOOP_PRIM_TYPES[joint.type.value], joint.name)
        ends = (None if joint.link_a < 0 else out.bodies[joint.link_a], out.bodies[joint.link_b])
        connect(prim, ends, (numbers.pose_a[index], numbers.pose_b[index]))
        author(prim, "bool", "physics:excludeFromArticulation", True)
        # By default a joint keeps the bodies that it connects from touching each other.
        author(prim, "bool", "physics:collisionEnabled", True)
        if joint.type is LoopJointType.D6:
            lock(prim, list(joint.locked_axes))
        elif joint.type is LoopJointType.DISTANCE:
            low, high = (
                float(bound[index]) for bound in (numbers.min_distance, numbers.max_distance)
            )
            author_floats(
                prim, "physics", minDistance=low, maxDistance=high if np.isfinite(high) else -1.0
            )
        elif joint.type in (LoopJointType.REVOLUTE, LoopJointType.PRISMATIC):
            author(prim, "token", "physics:axis", "X", uniform=True)
