"""Converts an articulation back to a builder, to change its structure: couplings, frames, links,
joint types.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from artix.model.articulation import Articulation
from artix.model.builder import LINK_NUMBERS, ArticulationBuilder
from artix.model.couplings import (
    Attachment,
    FixedTendon,
    FixedTendons,
    LoopJoint,
    LoopJoints,
    LoopJointType,
    SpatialTendon,
    SpatialTendons,
    TendonJoint,
)
from artix.model.geometry import SIZE_NUMBERS, Geometries, Geometry, GeometryStructure, GeometryType
from artix.model.joints import Drive, DriveEnvelope, Joint, JointFriction
from artix.model.topology import Topology


def builder_from_articulation(articulation: Articulation) -> ArticulationBuilder:
    """A builder that describes an existing articulation.

    Use it to add links, frames, tendons or mimic joints to a robot loaded from a file. To join two
    articulations or to lock joints, see :mod:`artix.editing.surgery`. The builder is not strict:
    physically impossible inertias, for which a reader has warned, stay as they are.

    Args:
      articulation: one articulation; its numbers are read, so none may be traced.

    Returns:
      The builder; its link numbers, as ``add_link`` returns them, are ``topology.creation_index``.

    Raises:
      ValueError: it is a batch, or a builder would refuse one of its numbers.

    Identity: ``builder_from_articulation(a).build(a.dtype)`` equals ``a``.

    Examples:
      >>> builder = artix.builder_from_articulation(artix.robots.load("arm7"))
      >>> builder.add_frame("camera", 7, (0.05, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0))
      >>> arm = builder.build()
      >>> print(
      ...     arm.topology.frame_names,
      ...     artix.frame_pose(arm, artix.neutral_state(arm), "camera").shape,
      ... )
      ('camera',) (7,)
    """
    topology = articulation.topology
    if articulation.link_mass.ndim != 1:
        raise ValueError("a batch of articulations is not one robot; take one of them")
    arrays = jax.tree.map(lambda leaf: np.asarray(leaf, float), articulation)
    builder = ArticulationBuilder(
        fixed_base=topology.fixed_base, gravity=arrays.gravity, name=topology.name, strict=False
    )
    for link in np.argsort(topology.creation_index):
        above = topology.parent[link]
        builder.add_link(
            None if above < 0 else topology.creation_index[above],
            None if above < 0 else _joint(topology, arrays, int(link)),
            mass=arrays.link_mass[link],
            com_pose=arrays.link_com_pose[link],
            inertia=arrays.link_inertia[link],
            name=topology.link_names[link],
            **{
                argument: getattr(arrays, field)[link]
                for argument, (field, *_) in LINK_NUMBERS.items()
            },
        )
    for name, link, pose in zip(
        topology.frame_names, topology.frame_links, arrays.frame_local_pose, strict=True
    ):
        builder.add_frame(name, topology.creation_index[link], pose)
    _add_couplings(builder, topology, arrays)
    for k, shape in enumerate(topology.geometries):
        geometry = geometry_at(topology.geometries, arrays.geometry, k)
        builder.add_geometry(topology.creation_index[shape.link], geometry, shape.name)
    for pair in topology.geometry_pairs:
        builder.add_geometry_pair(*pair)
    return builder


def _joint(topology: Topology, arrays: Articulation, link: int) -> Joint:
    """The inbound joint of a link."""
    dofs = np.flatnonzero(topology.dof_link == link).tolist()
    envelope = arrays.envelope
    return Joint(
        type=topology.joint_types[link],
        axes=topology.joint_axes[link],
        name=topology.joint_names[link - 1],
        parent_pose=arrays.joint_parent_pose[link],
        child_pose=arrays.joint_child_pose[link],
        limits=[_interval(arrays.joint_lower_limit, arrays.joint_upper_limit, dof) for dof in dofs],
        armature=arrays.armature[dofs].tolist(),
        max_velocity=arrays.max_joint_velocity[dofs].tolist(),
        max_force=arrays.max_joint_force[dofs].tolist(),
        drive=[_descriptor(Drive, arrays.drive, dof) for dof in dofs],
        friction=[_descriptor(JointFriction, arrays.friction, dof) for dof in dofs],
        envelope=[
            _descriptor(DriveEnvelope, envelope, dof)
            if np.isfinite(envelope.max_effort[dof])
            else None
            for dof in dofs
        ],
        pitch=float(arrays.joint_pitch[dofs].sum()),
    )


def _descriptor(kind: Any, group: Any, index: int) -> Any:
    """The descriptor of one DOF or coupling; its fields and the arrays of its group are in the same
    order.
    """
    names = zip(dataclasses.fields(kind), dataclasses.fields(group), strict=True)
    return kind(**{field.name: float(getattr(group, array.name)[index]) for field, array in names})


def _numbers(group: Any, index: int, *names: str) -> dict[str, Any]:
    return {name: float(getattr(group, name)[index]) for name in names}


def _interval(lower: Any, upper: Any, index: int) -> tuple[float, float]:
    return float(lower[index]), float(upper[index])


def _add_couplings(builder: ArticulationBuilder, topology: Topology, arrays: Articulation) -> None:
    """Mimic joints, tendons and loop joints."""
    dofs = topology.dof_names
    for k, (follower, reference) in enumerate(topology.mimic_dofs):
        numbers = _numbers(
            arrays.mimic, k, "gear_ratio", "offset", "natural_frequency", "damping_ratio"
        )
        builder.add_mimic(dofs[follower], dofs[reference], **numbers)
    for k in range(len(topology.fixed_tendons)):
        builder.add_fixed_tendon(_fixed_tendon(topology, arrays.fixed_tendons, k))
    for k in range(len(topology.spatial_tendons)):
        builder.add_spatial_tendon(_spatial_tendon(topology, arrays.spatial_tendons, k))
    for k in range(len(topology.loop_joints)):
        builder.add_loop_joint(_loop_joint(topology, arrays.loop_joints, k))


def _fixed_tendon(topology: Topology, arrays: FixedTendons, number: int) -> FixedTendon:
    tendon = topology.fixed_tendons[number]
    first = sum(len(other.dofs) for other in topology.fixed_tendons[:number])
    return FixedTendon(
        name=tendon.name,
        root_link=topology.link_names[tendon.root_link],
        joints=[
            TendonJoint(
                dof=topology.dof_names[dof],
                parent=parent,
                **_numbers(arrays, first + k, "coefficient", "recip_coefficient"),
            )
            for k, (dof, parent) in enumerate(zip(tendon.dofs, tendon.parents, strict=True))
        ],
        limits=_interval(arrays.lower_limit, arrays.upper_limit, number),
        **_numbers(
            arrays, number, "stiffness", "damping", "limit_stiffness", "offset", "rest_length"
        ),
    )


def _spatial_tendon(topology: Topology, arrays: SpatialTendons, number: int) -> SpatialTendon:
    tendon = topology.spatial_tendons[number]
    first = sum(len(other.links) for other in topology.spatial_tendons[:number])
    points = []
    for k, link in enumerate(tendon.links):
        of_leaf: dict[str, Any] = {}
        if k in tendon.leaves:
            of_leaf["rest_length"] = float(arrays.rest_length[first + k])
            of_leaf["limits"] = _interval(arrays.lower_limit, arrays.upper_limit, first + k)
        points.append(
            Attachment(
                link=topology.link_names[link],
                position=arrays.position[first + k],
                parent=tendon.parents[k],
                coefficient=float(arrays.coefficient[first + k]),
                name=tendon.attachment_names[k],
                **of_leaf,
            )
        )
    gains = _numbers(arrays, number, "stiffness", "damping", "limit_stiffness", "offset")
    return SpatialTendon(name=tendon.name, attachments=points, **gains)


def _loop_joint(topology: Topology, arrays: LoopJoints, number: int) -> LoopJoint:
    joint = topology.loop_joints[number]
    return LoopJoint(
        name=joint.name,
        link_a=None if joint.link_a < 0 else topology.link_names[joint.link_a],
        link_b=topology.link_names[joint.link_b],
        pose_a=arrays.pose_a[number],
        pose_b=arrays.pose_b[number],
        type=joint.type,
        locked_axes=joint.locked_axes if joint.type is LoopJointType.D6 else None,
        **_numbers(arrays, number, "min_distance", "max_distance"),
    )


def geometry_at(
    structures: tuple[GeometryStructure, ...], arrays: Geometries, number: int
) -> Geometry:
    """The description of one shape, from its structure and the arrays of all."""
    shape = structures[number]
    first = sum(other.num_points for other in structures[:number])
    return Geometry(
        type=shape.type,
        size=tuple(arrays.size[number, : SIZE_NUMBERS[shape.type]].tolist()),
        pose=arrays.pose[number],
        points=arrays.point[first : first + shape.num_points]
        if shape.type is GeometryType.HULL
        else None,
        sensor=shape.sensor,
        **_numbers(arrays, number, "friction", "restitution", "stiffness", "damping"),
    )
