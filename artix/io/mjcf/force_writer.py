"""Writes MJCF: servos and motors, equalities and tendons."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from artix.io.mjcf.body_writer import BodyWriter, ball_spring
from artix.model.couplings import LoopJointType


def write_actuators(writer: BodyWriter, root: ET.Element) -> None:
    """Writes a servo for each drive and a motor for each limit of a commanded force."""
    topology, robot = writer.topology, writer.articulation
    section = ET.SubElement(root, "actuator")
    for dof, name in enumerate(topology.dof_names):
        limit = float(robot.max_joint_force[dof])
        stiffness, damping = float(robot.drive.stiffness[dof]), float(robot.drive.damping[dof])
        joint = topology.joint_names[topology.dof_link[dof] - 1]
        dofs = topology.dofs(joint)
        is_ball, axis = dofs.stop - dofs.start > 1, dof - dofs.start
        if limit == 0.0:
            writer.warn(f"joint {name!r}", "MJCF has no effort limit of zero; it is dropped")
        elif np.isfinite(limit):
            motor = {"name": f"{joint}_motor{'_' + 'xyz'[axis] if is_ball else ''}", "joint": joint}
            gear = " ".join("1" if k == axis else "0" for k in range(3)) if is_ball else "1"
            control = writer.numbers([-limit, limit])
            ET.SubElement(section, "motor", motor | {"gear": gear, "ctrllimited": "true", "ctrlrange": control})
        if is_ball and (stiffness or damping) and not ball_spring(robot, dofs):
            writer.warn(f"joint {name!r}", "MJCF has no servo on a ball joint, only a spring towards zero")
        elif (stiffness or damping) and not is_ball:
            _write_servo(writer, section, dof, joint, stiffness, damping)


def _write_servo(
    writer: BodyWriter, section: ET.Element, dof: int, joint: str, stiffness: float, damping: float
) -> None:
    drive, where = writer.articulation.drive, f"joint {joint!r}"
    if float(drive.max_force[dof]) == 0.0:
        writer.warn(where, "MJCF has no servo with an effort limit of zero; the drive, which has no effect, is dropped")
        return
    target, speed = float(drive.target_position[dof]), float(drive.target_velocity[dof])
    if float(drive.is_acceleration[dof]):
        writer.warn(where, "MJCF has no acceleration drives; written as a force drive")
    if stiffness and speed and damping:
        writer.warn(where, "a servo with a target position has no target velocity; the latter is dropped")
        speed = 0.0
    bias = stiffness * target + damping * speed
    attributes = {
        "name": f"{joint}_servo",
        "joint": joint,
        "gaintype": "fixed",
        "gainprm": writer.number(stiffness or damping),
        "biastype": "affine",
        "biasprm": writer.numbers([bias, -stiffness, -damping]),
    }
    if np.isfinite(limit := float(drive.max_force[dof])):
        attributes |= {"forcelimited": "true", "forcerange": writer.numbers([-limit, limit])}
    ET.SubElement(section, "general", attributes)


def write_equalities(writer: BodyWriter, root: ET.Element) -> None:
    """Writes mimic joints, joints with equal limits and loop joints."""
    topology, robot = writer.topology, writer.articulation
    section = ET.SubElement(root, "equality")
    for index, pair in enumerate(topology.mimic_dofs):
        follower, reference = (topology.joint_names[topology.dof_link[dof] - 1] for dof in pair)
        if any(len(topology.joint_axes[topology.dof_link[dof]]) > 1 for dof in pair):
            writer.warn(f"joint {follower!r}", "MJCF couples only hinges and slides; its mimic relation is dropped")
            continue
        slope, constant = -float(robot.mimic.gear_ratio[index]), -float(robot.mimic.offset[index])
        polynomial = writer.numbers([constant, slope, 0, 0, 0])
        ET.SubElement(section, "joint", joint1=follower, joint2=reference, polycoef=polynomial)
        if float(robot.mimic.natural_frequency[index]):
            writer.warn(f"joint {follower!r}", "the compliance of its mimic relation is dropped")
    for dof, name in enumerate(topology.dof_names):
        low, high = float(robot.joint_lower_limit[dof]), float(robot.joint_upper_limit[dof])
        if low == high and name in topology.joint_names:
            ET.SubElement(section, "joint", joint1=name, polycoef=writer.numbers([low, 0, 0, 0, 0]))
    for index, joint in enumerate(topology.loop_joints):
        tag = {LoopJointType.FIXED: "weld", LoopJointType.SPHERICAL: "connect"}.get(joint.type)
        if tag is None:
            writer.warn(f"loop joint {joint.name!r}", f"MJCF cannot close a loop with a {joint.type.value} joint")
            continue
        message = "its ends are written as sites, which will be read as frames"
        writer.warn(f"loop joint {joint.name!r}", message, "nothing")
        sites = [writer.site_names.new(f"{joint.name}:{end}") for end in "ab"]
        for site, link, pose in zip(
            sites, (joint.link_a, joint.link_b), (robot.loop_joints.pose_a, robot.loop_joints.pose_b), strict=True
        ):
            writer.add_site(link, np.asarray(pose[index], float), site)
        ET.SubElement(section, tag, name=joint.name, site1=sites[0], site2=sites[1])


def write_tendons(writer: BodyWriter, root: ET.Element) -> None:
    """Writes tendons, as far as MJCF's force laws agree with PhysX's."""
    section = ET.SubElement(root, "tendon")
    _write_fixed_tendons(writer, section)
    _write_spatial_tendons(writer, section)


def _write_fixed_tendons(writer: BodyWriter, section: ET.Element) -> None:
    topology, tendons, start = writer.topology, writer.articulation.fixed_tendons, 0
    for index, tendon in enumerate(topology.fixed_tendons):
        members = slice(start, start + len(tendon.dofs))
        start = members.stop
        coefficient = np.asarray(tendons.coefficient[members], float)
        if not np.allclose(tendons.recip_coefficient[members], coefficient, rtol=1e-12):
            message = "MJCF has no separate coefficients for the tension; it uses those of the length"
            writer.warn(f"fixed tendon {tendon.name!r}", message)
        numbers = _springs(
            writer,
            "fixed",
            index,
            float(tendons.offset[index]),
            float(tendons.rest_length[index]),
            (float(tendons.lower_limit[index]), float(tendons.upper_limit[index])),
            # MuJoCo applies the full tension to each joint, PhysX divides it among them.
            share=1.0 / len(tendon.dofs),
        )
        element = ET.SubElement(section, "fixed", {"name": tendon.name, **numbers})
        for dof, factor in zip(tendon.dofs, coefficient, strict=True):
            if factor:
                joint = topology.joint_names[topology.dof_link[dof] - 1]
                ET.SubElement(element, "joint", joint=joint, coef=writer.number(factor))


def _write_spatial_tendons(writer: BodyWriter, section: ET.Element) -> None:
    topology, tendons, start = writer.topology, writer.articulation.spatial_tendons, 0
    for index, tendon in enumerate(topology.spatial_tendons):
        first, start = start, start + len(tendon.links)
        leaf, where = start - 1, f"spatial tendon {tendon.name!r}"
        if tendon.parents != tuple(range(-1, len(tendon.links) - 1)):
            writer.warn(where, "MJCF has no branching tendons")
            continue
        if np.any(np.asarray(tendons.coefficient[first + 1 : start]) != 1.0):
            writer.warn(where, "MJCF has no coefficients of tendon segments; written with coefficients of 1")
        offset = float(tendons.offset[index] * tendons.coefficient[first])
        numbers = _springs(
            writer,
            "spatial",
            index,
            offset,
            float(tendons.rest_length[leaf]),
            (float(tendons.lower_limit[leaf]), float(tendons.upper_limit[leaf])),
        )
        element = ET.SubElement(section, "spatial", {"name": tendon.name, **numbers})
        for index, link in enumerate(tendon.links):
            preferred = tendon.attachment_names[index] or f"{tendon.name}:{index}"
            name = writer.site_at(link, np.asarray(tendons.position[first + index], float), preferred)
            ET.SubElement(element, "site", site=name)


def _springs(
    writer: BodyWriter,
    kind: str,
    index: int,
    offset: float,
    rest: float,
    limits: tuple[float, float],
    share: float = 1.0,
) -> dict[str, str]:
    """Spring and damper of a tendon; limits without a spring become a spring with a deadband between them."""
    group = getattr(writer.articulation, f"{kind}_tendons")
    name = getattr(writer.topology, f"{kind}_tendons")[index].name
    stiffness, damping, limit_stiffness = (
        share * float(getattr(group, field)[index]) for field in ("stiffness", "damping", "limit_stiffness")
    )
    # MuJoCo reads a length of exactly -1 as that of the tendon at the reference positions.
    length = writer.number(rest - offset)
    if float(length) == -1.0:
        length = "-0.9999999"
    if limit_stiffness and not stiffness and np.all(np.isfinite(limits)):
        stiffness, length = limit_stiffness, writer.numbers([limits[0] - offset, limits[1] - offset])
    elif limit_stiffness:
        message = "MJCF has no limit stiffness in addition to a spring; its limits are dropped"
        writer.warn(f"{kind} tendon {name!r}", message)
    return {"stiffness": writer.number(stiffness), "damping": writer.number(damping), "springlength": length}
