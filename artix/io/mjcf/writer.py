"""Writes MJCF: bodies, shapes and what touches what, servos and motors, equalities, tendons."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from artix.contact.ground import Ground, Plane
from artix.contact.scene import Scene, friction_of_pairs, scene_of
from artix.io.common.atomic_file import write_atomically
from artix.io.common.diagnostics import Issue
from artix.io.mjcf.body_writer import BodyWriter, ball_spring
from artix.model.articulation import Articulation
from artix.model.couplings import LoopJointType
from artix.model.geometry import SIZE_NUMBERS, GeometryType


def save_mjcf(articulation: Articulation | Scene, path: str | Path) -> list[Issue]:
    """Writes an articulation as MJCF, or a scene of one with the planes of its ground.

    Links become bodies, but a massless link between two moving joints becomes another joint of the
    body below it. Frames become sites, drives servos, effort limits motors with a control range,
    mimic and loop joints equalities, tendons tendons, and shapes geoms.

    Args:
      articulation: a single articulation, or a scene of one.
      path: the file.

    Returns:
      One warning for each thing that MJCF cannot express.

    Raises:
      DescriptionError: MJCF cannot describe the articulation: a spherical joint with two axes, a
        joint of a type that it lacks, a moving link without mass or rotational inertia, or a name
        that XML does not allow.
      TypeError, ValueError: the articulation is batched, or a builder would refuse one of its
        numbers.
      OSError: the file cannot be written.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm7.xml"
      >>> _ = artix.io.save_mjcf(artix.robots.load("arm7"), path)
      >>> print(artix.load_mjcf(path).topology.dof_names[:2])
      ('shoulder_yaw', 'shoulder_pitch')
    """
    scene = scene_of(articulation)
    if scene.names:
        raise ValueError(
            f"{path}: the file holds one robot; save each of a scene, such as "
            f"scene[{scene.names[0]!r}]"
        )
    writer = BodyWriter(scene.articulations[0], path)
    document = writer.document()
    write_geoms(writer, document)
    _write_pairs(writer, document, scene)
    if scene.ground is not None:
        _write_ground(writer, document, scene.ground)
    write_actuators(writer, document)
    write_equalities(writer, document)
    write_tendons(writer, document)
    writer.report.raise_errors()
    ET.indent(document)
    text = ET.tostring(document, encoding="unicode") + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
    return writer.report.issues


# --- geoms --------------------------------------------------------------------------------------

#: What a size of zero is written as [m]: less than contacts notice, and more than MuJoCo's smallest
#: number.
_SMALLEST_SIZE = 1e-9


def write_geoms(writer: BodyWriter, root: ET.Element) -> None:
    """Writes the shapes of all links as massless geoms, hulls as meshes of their points.

    The geoms touch the ground and, through ``<pair>`` elements, each other; MuJoCo's filters let no
    other pairs through. Sensors are left out except for those in pairs, which touch nothing else.
    """
    arrays = writer.articulation.geometry
    first = 0
    paired = {name for pair in writer.topology.geometry_pairs for name in pair}
    for k, shape in enumerate(writer.topology.geometries):
        points = np.asarray(arrays.point[first : first + shape.num_points], float)
        first += shape.num_points
        if shape.sensor and shape.name not in paired:
            continue
        attributes = {
            "name": shape.name,
            "type": shape.type.value,
            "mass": "0",
            "contype": "0" if shape.sensor else "1",
            "conaffinity": "0",
            "friction": f"{writer.number(arrays.friction[k])} 0.005 0.0001",
            **writer.placement(np.asarray(arrays.pose[k], float)),
        }
        if shape.type is GeometryType.HULL:
            if not _is_solid(points) or float(arrays.size[k, 0]):
                writer.warn(
                    f"geometry {shape.name!r}", "MJCF has no flat or rounded hulls; it is left out"
                )
                continue
            asset = root.find("asset")
            asset = ET.SubElement(root, "asset") if asset is None else asset
            ET.SubElement(
                asset, "mesh", {"name": shape.name, "vertex": writer.numbers(points.ravel())}
            )
            attributes |= {"type": "mesh", "mesh": shape.name}
        else:
            size = np.asarray(arrays.size[k, : SIZE_NUMBERS[shape.type]])
            if np.any(size < _SMALLEST_SIZE):
                message = (
                    f"MuJoCo requires sizes above zero; a size is written as {_SMALLEST_SIZE:g} m"
                )
                writer.warn(f"geometry {shape.name!r}", message, "nothing")
            attributes["size"] = writer.numbers(np.maximum(size, _SMALLEST_SIZE))
        ET.SubElement(writer.body(shape.link), "geom", attributes)


def _write_pairs(writer: BodyWriter, root: ET.Element, scene: Scene) -> None:
    """Writes the pairs of shapes that touch each other with their friction, which MuJoCo takes to
    be 1 without one, whatever that of the geoms is.
    """
    written = {geom.get("name") for geom in root.iter("geom")}
    pairs = []
    for (a, b), friction in zip(scene.geometry_pairs, friction_of_pairs(scene), strict=True):
        if {a, b} <= written:
            one = writer.number(friction)
            attributes = {"geom1": a, "geom2": b, "friction": f"{one} {one} 0.005 0.0001 0.0001"}
            pairs.append(ET.Element("pair", attributes))
        else:
            writer.warn(f"pair of {a!r} and {b!r}", "one of these shapes is left out, so it is too")
    if pairs:
        ET.SubElement(root, "contact").extend(pairs)


def _write_ground(writer: BodyWriter, root: ET.Element, ground: Ground) -> None:
    """Writes the planes of a ground as geoms of the world, which the geoms of links touch."""
    if ground.friction_combination != "max":
        message = (
            f"MuJoCo takes the larger of two frictions, this ground {ground.friction_combination!r}"
        )
        writer.warn(
            "ground",
            message,
            "give shapes and ground the friction that their combination should have",
        )
    again = "make the ground again: artix.Scene(robot, ground=...)"
    for k, surface in enumerate(ground.surfaces):
        name = f"ground.surfaces[{k}]"
        if not isinstance(surface, Plane):
            writer.warn(name, "height fields are not written", again)
            continue
        if np.isfinite(surface.stiffness) or np.any(surface.restitution):
            writer.warn(name, "its stiffness, damping and restitution are not written", again)
        normal = np.asarray(surface.normal, float)
        attributes = {
            "type": "plane",
            "size": "0 0 1",
            "pos": writer.numbers(normal * float(surface.height)),
            "zaxis": writer.numbers(normal),
            "contype": "0",
            "conaffinity": "1",
            "friction": f"{writer.number(surface.friction)} 0.005 0.0001",
        }
        world = root.find("worldbody")
        assert world is not None
        ET.SubElement(world, "geom", attributes)


def _is_solid(points: np.ndarray) -> bool:
    """Whether the hull of the points has a volume."""
    return bool(np.linalg.matrix_rank(points - points.mean(axis=0), tol=1e-9) == 3)


# --- servos and motors, equalities and tendons --------------------------------------------------


def write_actuators(writer: BodyWriter, root: ET.Element) -> None:
    """Writes a servo for each drive and a motor for each limit of a commanded force."""
    topology = writer.topology
    robot = writer.articulation
    section = ET.SubElement(root, "actuator")
    for dof, name in enumerate(topology.dof_names):
        limit = float(robot.max_joint_force[dof])
        stiffness, damping = float(robot.drive.stiffness[dof]), float(robot.drive.damping[dof])
        joint = topology.joint_names[topology.dof_link[dof] - 1]
        dofs = topology.dofs(joint)
        is_ball = dofs.stop - dofs.start > 1
        axis = dof - dofs.start
        if limit == 0.0:
            writer.warn(f"joint {name!r}", "MJCF has no effort limit of zero; it is dropped")
        elif np.isfinite(limit):
            motor = {"name": f"{joint}_motor{'_' + 'xyz'[axis] if is_ball else ''}", "joint": joint}
            gear = " ".join("1" if k == axis else "0" for k in range(3)) if is_ball else "1"
            control = writer.numbers([-limit, limit])
            ET.SubElement(
                section,
                "motor",
                motor | {"gear": gear, "ctrllimited": "true", "ctrlrange": control},
            )
        if is_ball and (stiffness or damping) and not ball_spring(robot, dofs):
            writer.warn(
                f"joint {name!r}", "MJCF has no servo on a ball joint, only a spring towards zero"
            )
        elif (stiffness or damping) and not is_ball:
            _write_servo(writer, section, dof, joint, stiffness, damping)


def _write_servo(
    writer: BodyWriter, section: ET.Element, dof: int, joint: str, stiffness: float, damping: float
) -> None:
    drive = writer.articulation.drive
    where = f"joint {joint!r}"
    if float(drive.max_force[dof]) == 0.0:
        writer.warn(
            where,
            "MJCF has no servo with an effort limit of zero; the drive, which has no effect, is "
            "dropped",
        )
        return
    target, speed = float(drive.target_position[dof]), float(drive.target_velocity[dof])
    if float(drive.is_acceleration[dof]):
        writer.warn(where, "MJCF has no acceleration drives; written as a force drive")
    if stiffness and speed and damping:
        writer.warn(
            where, "a servo with a target position has no target velocity; the latter is dropped"
        )
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
    topology = writer.topology
    robot = writer.articulation
    section = ET.SubElement(root, "equality")
    for index, pair in enumerate(topology.mimic_dofs):
        follower, reference = (topology.joint_names[topology.dof_link[dof] - 1] for dof in pair)
        if any(len(topology.joint_axes[topology.dof_link[dof]]) > 1 for dof in pair):
            writer.warn(
                f"joint {follower!r}",
                "MJCF couples only hinges and slides; its mimic relation is dropped",
            )
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
            writer.warn(
                f"loop joint {joint.name!r}",
                f"MJCF cannot close a loop with a {joint.type.value} joint",
            )
            continue
        message = "its ends are written as sites, which will be read as frames"
        writer.warn(f"loop joint {joint.name!r}", message, "nothing")
        sites = [writer.site_names.new(f"{joint.name}:{end}") for end in "ab"]
        for site, link, pose in zip(
            sites,
            (joint.link_a, joint.link_b),
            (robot.loop_joints.pose_a, robot.loop_joints.pose_b),
            strict=True,
        ):
            writer.add_site(link, np.asarray(pose[index], float), site)
        ET.SubElement(section, tag, name=joint.name, site1=sites[0], site2=sites[1])


def write_tendons(writer: BodyWriter, root: ET.Element) -> None:
    """Writes tendons, as far as MJCF's force laws agree with PhysX's."""
    section = ET.SubElement(root, "tendon")
    _write_fixed_tendons(writer, section)
    _write_spatial_tendons(writer, section)


def _write_fixed_tendons(writer: BodyWriter, section: ET.Element) -> None:
    topology = writer.topology
    tendons = writer.articulation.fixed_tendons
    start = 0
    for index, tendon in enumerate(topology.fixed_tendons):
        members = slice(start, start + len(tendon.dofs))
        start = members.stop
        coefficient = np.asarray(tendons.coefficient[members], float)
        if not np.allclose(tendons.recip_coefficient[members], coefficient, rtol=1e-12):
            message = (
                "MJCF has no separate coefficients for the tension; it uses those of the length"
            )
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
    topology = writer.topology
    tendons = writer.articulation.spatial_tendons
    start = 0
    for index, tendon in enumerate(topology.spatial_tendons):
        first = start
        start += len(tendon.links)
        leaf = start - 1
        where = f"spatial tendon {tendon.name!r}"
        if tendon.parents != tuple(range(-1, len(tendon.links) - 1)):
            writer.warn(where, "MJCF has no branching tendons")
            continue
        if np.any(np.asarray(tendons.coefficient[first + 1 : start]) != 1.0):
            writer.warn(
                where, "MJCF has no coefficients of tendon segments; written with coefficients of 1"
            )
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
            name = writer.site_at(
                link, np.asarray(tendons.position[first + index], float), preferred
            )
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
    """Spring and damper of a tendon; limits without a spring become a spring with a deadband
    between them.
    """
    group = getattr(writer.articulation, f"{kind}_tendons")
    name = getattr(writer.topology, f"{kind}_tendons")[index].name
    stiffness, damping, limit_stiffness = (
        share * float(getattr(group, field)[index])
        for field in ("stiffness", "damping", "limit_stiffness")
    )
    # MuJoCo takes a length of exactly -1 for the tendon's length at the reference positions.
    length = writer.number(rest - offset)
    if float(length) == -1.0:
        length = "-0.9999999"
    if limit_stiffness and not stiffness and np.all(np.isfinite(limits)):
        stiffness = limit_stiffness
        length = writer.numbers([limits[0] - offset, limits[1] - offset])
    elif limit_stiffness:
        message = "MJCF has no limit stiffness in addition to a spring; its limits are dropped"
        writer.warn(f"{kind} tendon {name!r}", message)
    return {
        "stiffness": writer.number(stiffness),
        "damping": writer.number(damping),
        "springlength": length,
    }
