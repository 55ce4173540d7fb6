"""Writes mimic joints, tendons and loop joints with the schemas of PhysX and UsdPhysics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.names import Names
from artix.io.usd.authoring import Author, author, author_floats, relate, vector
from artix.io.usd.joint_writer import INSTANCE_OF, axis_units, connect, lock
from artix.io.usd.joints import KINDS
from artix.io.usd.stage import import_pxr
from artix.io.usd.tendons import ATTACHMENT, ATTACHMENT_LEAF, ATTACHMENT_ROOT
from artix.model.couplings import LoopJointType
from artix.model.joints import Axis
from artix.model.tendons import FixedTendonStructure, SpatialTendonStructure
from artix.model.topology import Topology

if TYPE_CHECKING:
    from pxr import Usd

_PRIM_TYPES = {kind: name for name, kind in KINDS.items()}


def write_mimic_joints(out: Author) -> None:
    """Applies ``PhysxMimicJointAPI`` to the followers."""
    topology, arrays = out.topology, out.arrays
    for index, (follower, reference) in enumerate(topology.mimic_dofs):
        prim, reference_prim = (out.joints[topology.dof_link[dof] - 1] for dof in (follower, reference))
        axis, reference_axis = (Axis(topology.dof_axis[dof]) for dof in (follower, reference))
        unit, reference_unit = axis_units(axis).position, axis_units(reference_axis).position
        instance = _rotation_instance(axis)
        space = f"physxMimicJoint:{instance}"
        prim.AddAppliedSchema(f"PhysxMimicJointAPI:{instance}")
        relate(prim, f"{space}:referenceJoint", reference_prim)
        author(prim, "token", f"{space}:referenceJointAxis", _rotation_instance(reference_axis), uniform=True)
        author_floats(
            prim,
            space,
            gearing=arrays.mimic.gear_ratio[index] * reference_unit / unit,
            offset=arrays.mimic.offset[index] / unit,
            naturalFrequency=arrays.mimic.natural_frequency[index],
            dampingRatio=arrays.mimic.damping_ratio[index],
        )


def _rotation_instance(axis: Axis) -> str:
    """The schema's instance name: only rotations exist, and on a prismatic joint the name has no effect."""
    return INSTANCE_OF[Axis(axis % 3)]


def write_fixed_tendons(out: Author) -> None:
    """Applies ``PhysxTendonAxisRootAPI`` to the first joint of each tendon, ``PhysxTendonAxisAPI`` to the others."""
    first, names = 0, Names()
    for index, tendon in enumerate(out.topology.fixed_tendons):
        reason = _why_unsupported(out.topology, tendon)
        if reason:
            out.report_unsupported(out.top, f"fixed tendon {tendon.name!r} is not written: {reason}")
        else:
            name = names.new(import_pxr().Tf.MakeValidIdentifier(tendon.name))
            if name != tendon.name:
                out.report_unsupported(out.top, f"fixed tendon {tendon.name!r} will be called {name!r}", "nothing")
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
    topology, numbers = out.topology, out.arrays.fixed_tendons
    tendon = topology.fixed_tendons[index]
    space = f"physxTendon:{name}"
    for number, dof in enumerate(tendon.dofs):
        prim, units = out.joints[topology.dof_link[dof] - 1], axis_units(Axis(topology.dof_axis[dof]))
        root = tendon.parents[number] < 0
        prim.AddAppliedSchema(f"{'PhysxTendonAxisRootAPI' if root else 'PhysxTendonAxisAPI'}:{name}")
        coefficient, force = (array[first + number] for array in (numbers.coefficient, numbers.recip_coefficient))
        author(prim, "float[]", f"{space}:gearing", [float(coefficient * units.position)])
        author(prim, "float[]", f"{space}:forceCoefficient", [float(force)])
        axis = "transX" if topology.dof_axis[dof] >= Axis.X else "rotX"
        author(prim, "token[]", f"{space}:jointAxis", [axis], uniform=True)
        if root:
            author_floats(
                prim,
                space,
                stiffness=numbers.stiffness[index],
                damping=numbers.damping[index],
                limitStiffness=numbers.limit_stiffness[index],
                offset=numbers.offset[index],
                restLength=numbers.rest_length[index],
                lowerLimit=numbers.lower_limit[index],
                upperLimit=numbers.upper_limit[index],
            )


def write_spatial_tendons(out: Author) -> None:
    """Applies PhysX's attachment schemas to the prims of the links."""
    first = 0
    for index, tendon in enumerate(out.topology.spatial_tendons):
        _write_spatial_tendon(out, tendon, index, first)
        first += len(tendon.links)


def _write_spatial_tendon(out: Author, tendon: SpatialTendonStructure, index: int, first: int) -> None:
    bodies, numbers = out.bodies, out.arrays.spatial_tendons
    names = _attachment_names(tendon, bodies)
    if float(numbers.coefficient[first]) != 1.0:
        out.report_unsupported(
            bodies[tendon.links[0]], f"the root of tendon {tendon.name!r} will be read with coefficient 1"
        )
    for number, (link, parent) in enumerate(zip(tendon.links, tendon.parents, strict=True)):
        at, body, space = first + number, bodies[link], f"physxTendon:{names[number]}"
        schema = ATTACHMENT
        if parent < 0:
            schema = ATTACHMENT_ROOT
            author_floats(
                body,
                space,
                stiffness=numbers.stiffness[index],
                damping=numbers.damping[index],
                limitStiffness=numbers.limit_stiffness[index],
                offset=numbers.offset[index],
            )
        elif number in tendon.leaves:
            schema = ATTACHMENT_LEAF
            author_floats(
                body,
                space,
                restLength=numbers.rest_length[at],
                lowerLimit=numbers.lower_limit[at],
                upperLimit=numbers.upper_limit[at],
            )
        body.AddAppliedSchema(f"{schema}:{names[number]}")
        author(body, "point3f", f"{space}:localPos", vector(np.asarray(numbers.position[at])))
        author_floats(body, space, gearing=numbers.coefficient[at])
        if parent >= 0:
            relate(body, f"{space}:parentLink", bodies[tendon.links[parent]])
            author(body, "token", f"{space}:parentAttachment", names[parent], uniform=True)


#: Attributes and relationships of attachments: no instance of the schema may have such a name.
_ATTACHMENT_PROPERTIES = {
    *("gearing", "localPos", "parentAttachment", "parentLink"),
    *("tendonEnabled", "stiffness", "damping", "limitStiffness", "offset"),
    *("restLength", "lowerLimit", "upperLimit"),
}


def _attachment_names(tendon: SpatialTendonStructure, bodies: list[Usd.Prim]) -> list[str]:
    """Instance names, unique on each body: the tendon's name for the root, else the attachment's, or a number."""
    valid = import_pxr().Tf.MakeValidIdentifier
    names: list[str] = []
    taken = {link: _applied_attachments(bodies[link]) for link in tendon.links}
    for number, (link, attachment) in enumerate(zip(tendon.links, tendon.attachment_names, strict=True)):
        base = valid(tendon.name if number == 0 else attachment or f"{tendon.name}_{number}")
        name, copy = base, 2
        while name in taken[link] or name in _ATTACHMENT_PROPERTIES:
            name, copy = f"{base}_{copy}", copy + 1
        taken[link].add(name)
        names.append(name)
    return names


def _applied_attachments(body: Usd.Prim) -> set[str]:
    """The names of the attachments on a body."""
    applied = (str(schema).partition(":") for schema in body.GetPrimTypeInfo().GetAppliedAPISchemas())
    return {name for schema, _, name in applied if schema in (ATTACHMENT, ATTACHMENT_ROOT, ATTACHMENT_LEAF)}


def write_loop_joints(out: Author) -> None:
    """Writes loop joints as joints that are excluded from the articulation."""
    numbers: Any = out.arrays.loop_joints
    for index, joint in enumerate(out.topology.loop_joints):
        prim = out.define(_PRIM_TYPES[joint.type.value], joint.name)
        ends = (None if joint.link_a < 0 else out.bodies[joint.link_a], out.bodies[joint.link_b])
        connect(prim, ends, (numbers.pose_a[index], numbers.pose_b[index]))
        author(prim, "bool", "physics:excludeFromArticulation", True)
        if joint.type is LoopJointType.D6:
            lock(prim, list(joint.locked_axes))
        elif joint.type is LoopJointType.DISTANCE:
            low, high = (float(bound[index]) for bound in (numbers.min_distance, numbers.max_distance))
            author_floats(prim, "physics", minDistance=low, maxDistance=high if np.isfinite(high) else -1.0)
        elif joint.type in (LoopJointType.REVOLUTE, LoopJointType.PRISMATIC):
            author(prim, "token", "physics:axis", "X", uniform=True)
