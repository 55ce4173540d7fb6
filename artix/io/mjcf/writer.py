"""Writes MJCF."""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from artix.contact.ground import Ground
from artix.contact.plane import Plane
from artix.contact.scene import Scene, scene_of
from artix.io.common.atomic_file import write_atomically
from artix.io.common.description import Names
from artix.io.common.diagnostics import Issue
from artix.io.common.poses import compose, inverse, principal_axes, rotation_matrix, translation
from artix.io.common.xml_tree import XmlWriter
from artix.io.mjcf.actuators import BALL_SPRING
from artix.io.mjcf.source import WORLD
from artix.model.articulation import Articulation
from artix.model.couplings import LoopJointType
from artix.model.geometry import SIZE_NUMBERS, GeometryType
from artix.model.joints import JointType


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
    if scene.friction_combination != "max" and writer.topology.geometry_pairs:
        message = f"MuJoCo takes the larger of two frictions, not {scene.friction_combination!r}"
        writer.warn(
            "scene", message, "give both shapes of a pair the friction that they should have"
        )
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


# --- bodies, joints and sites -------------------------------------------------------------------

_SUPPORTED = (
    *("armature", "max_force", "drive", "viscous", "friction", "gravity_scale", "gravity", "mimic"),
    *(
        "fixed_tendon",
        "spatial_tendon",
        "loop_joint",
        "geometry",
        "geometry_hull",
        "geometry_ellipsoid",
        "geometry_friction",
    ),
    *("geometry_pair", "geometry_paired_sensor"),
)
#: The types of joints that move and that MJCF has.
_JOINTS = (
    JointType.PRISMATIC,
    JointType.REVOLUTE,
    JointType.REVOLUTE_UNWRAPPED,
    JointType.SPHERICAL,
)
_SMALLEST = 1e-15  # MuJoCo's mjMINVAL


class BodyWriter(XmlWriter):
    """Writes the bodies of one articulation.

    Attributes:
      site_names: names of sites already in use.
    """

    def __init__(self, articulation: Articulation, path: str | Path) -> None:
        super().__init__(articulation, "MJCF", path, _SUPPORTED)
        self.site_names = Names(self.topology.frame_names)
        self._bodies: dict[int, ET.Element] = {}
        self._children: list[list[int]] = [[] for _ in self.topology.parent]
        for link, above in enumerate(self.topology.parent[1:], start=1):
            self._children[above].append(link)

    def document(self) -> ET.Element:
        """The document with bodies, joints and sites; incomplete if there were errors."""
        root = ET.Element("mujoco", model=self.topology.name)
        ET.SubElement(root, "compiler", angle="radian", autolimits="false")
        ET.SubElement(root, "option", gravity=self.numbers(self.articulation.gravity))
        self._write_root(ET.SubElement(root, "worldbody"))
        tree = self.topology
        joints = zip(tree.joint_names, tree.link_names[1:], tree.joint_axes[1:], strict=True)
        if any(not axes and name != f"{link}_joint" for name, link, axes in joints):
            self.warn(
                "fixed joints", "MJCF has no names for them; they will be named after their links"
            )
        for frame, (name, link) in enumerate(zip(tree.frame_names, tree.frame_links, strict=True)):
            self.add_site(link, self.pose("frame_local_pose", frame), name)
        return root

    def body(self, link: int) -> ET.Element:
        """The body of a link."""
        return self._bodies[link]

    def add_site(self, link: int, pose: np.ndarray, name: str) -> None:
        """Adds a site to the body of a link, -1 for the world."""
        ET.SubElement(self._bodies[link], "site", {"name": name, **self.placement(pose)})

    def placement(self, pose: np.ndarray) -> dict[str, str]:
        """A pose as the attributes ``pos`` and ``quat``."""
        return {"pos": self.numbers(pose[:3]), "quat": self.numbers(np.roll(pose[3:], 1))}

    def site_at(self, link: int, position: np.ndarray, name: str) -> str:
        """The name of a site at a point of a link: an existing frame with that name and position,
        or a new site.
        """
        if name in self.topology.frame_names:
            frame = self.topology.frame_names.index(name)
            if self.topology.frame_links[frame] == link and np.array_equal(
                self.articulation.frame_local_pose[frame, :3], position
            ):
                return name
        name = self.site_names.new(name)
        self.add_site(link, translation(position), name)
        return name

    def _write_root(self, world: ET.Element) -> None:
        topology = self.topology
        mass = float(self.articulation.link_mass[0])
        self._bodies[-1] = world
        if topology.fixed_base and topology.link_names[0] == WORLD:
            if mass:
                self.warn(
                    "link 'world'",
                    f"the world has no mass in MJCF; the fixed root's {mass:g} kg are dropped",
                )
            self._bodies[0] = world
        else:
            body = self._add_body(0, world, translation(np.zeros(3)))
            if topology.fixed_base:
                message = "the root of a fixed base will be read as a child of 'world'"
                self.warn(f"link {topology.link_names[0]!r}", message)
            else:
                ET.SubElement(body, "freejoint")
            self._write_inertial(0, moves=not topology.fixed_base)
        pending = [(child, 0) for child in self._children[0]]
        for link, above in pending:
            last = self._write_body(link, above)
            pending += [(child, last) for child in self._children[last]]

    def _add_body(self, link: int, around: ET.Element, pose: np.ndarray) -> ET.Element:
        name = self.topology.link_names[link]
        if name == WORLD:
            self.refuse(
                f"link {WORLD!r}", "MJCF reserves the name 'world' for the world", "rename the link"
            )
        body = ET.SubElement(around, "body", {"name": name, **self.placement(pose)})
        if compensation := 1.0 - float(self.articulation.gravity_scale[link]):
            body.set("gravcomp", self.number(compensation))
        self._bodies[link] = body
        return body

    def _write_body(self, link: int, above: int) -> int:
        """Writes the body whose chain of joints starts at a link; returns the last link of the
        chain.
        """
        chain = [link]
        while self._continues(chain[-1]):
            chain.append(self._children[chain[-1]][0])
        # Displacement across each joint of the chain, with all joints at zero.
        steps = [
            compose(self.pose("joint_parent_pose", k), inverse(self.pose("joint_child_pose", k)))
            for k in chain
        ]
        pose = functools.reduce(compose, steps)
        last = chain[-1]
        names = self.topology.link_names
        body = self._add_body(last, self._bodies[above], pose)
        for index, member in enumerate(chain):
            in_last = translation(np.zeros(3))
            for step in reversed(steps[index + 1 :]):
                in_last = compose(in_last, inverse(step))
            self._write_joint(body, member, compose(in_last, self.pose("joint_child_pose", member)))
            if member != last and names[member] != f"{names[last]}:{self._joint(member)}":
                self.warn(
                    f"link {names[member]!r}",
                    "it becomes a joint of the body below; its name is lost",
                )
            if member != last and np.any(self.articulation.link_inertia[member]):
                self.warn(
                    f"link {names[member]!r}", "MJCF has no inertia without mass; it is dropped"
                )
        self._write_inertial(last, moves=bool(self.topology.joint_axes[last]))
        return last

    def _continues(self, link: int) -> bool:
        """Whether a link only separates two joints, as in a joint composed of several axes."""
        children = self._children[link]
        topology = self.topology
        used = {*topology.frame_links, *(shape.link for shape in topology.geometries)}
        used |= {attached for tendon in topology.spatial_tendons for attached in tendon.links}
        used |= {end for joint in topology.loop_joints for end in (joint.link_a, joint.link_b)}
        moving = (
            bool(topology.joint_axes[link])
            and len(children) == 1
            and bool(topology.joint_axes[children[0]])
        )
        return moving and float(self.articulation.link_mass[link]) == 0.0 and link not in used

    def _joint(self, link: int) -> str:
        return self.topology.joint_names[link - 1]

    def _write_joint(self, body: ET.Element, link: int, frame: np.ndarray) -> None:
        """Writes a joint, whose frame at position zero is given in the body's frame."""
        topology = self.topology
        robot = self.articulation
        name = self._joint(link)
        axes = topology.joint_axes[link]
        kind = topology.joint_types[link]
        if not axes:
            return
        if len(axes) == 2 or kind not in _JOINTS:
            unsupported = (
                "spherical joint with two axes" if len(axes) == 2 else f"{kind.name.lower()} joint"
            )
            self.refuse(f"joint {name!r}", f"MJCF has no {unsupported}")
            return
        dofs = topology.dofs(name)
        first = dofs.start
        attributes = {
            "name": name,
            "armature": self.number(robot.armature[first]),
            "damping": self.number(robot.friction.viscous[first]),
            "frictionloss": self.number(robot.friction.static[first]),
        }
        limits = np.array([robot.joint_lower_limit[dofs], robot.joint_upper_limit[dofs]], float)
        if len(axes) == 3:
            attributes |= {
                "type": "ball",
                "pos": self.numbers(frame[:3]),
                "stiffness": self.number(ball_spring(robot, dofs)),
            }
            self._check_ball(name, frame, limits, dofs)
        else:
            axis = rotation_matrix(frame[3:])[:, int(axes[0]) % 3]
            attributes |= {
                "type": "slide" if kind is JointType.PRISMATIC else "hinge",
                "axis": self.numbers(axis),
            }
            attributes["pos"] = self.numbers(
                frame[:3] if kind is not JointType.PRISMATIC else np.zeros(3)
            )
            attributes |= self._limits(name, *limits[:, 0])
            if kind in (JointType.REVOLUTE, JointType.SPHERICAL):
                self.warn(
                    f"joint {name!r}",
                    f"a {kind.name.lower()} joint becomes a hinge, which never wraps",
                    "nothing",
                )
        ET.SubElement(body, "joint", attributes)

    def _limits(self, name: str, low: float, high: float) -> dict[str, str]:
        if np.isinf(low) and np.isinf(high):
            return {}
        if low == high:
            return {}  # MJCF does not allow equal limits; an equality holds the joint.
        if np.isinf(low) or np.isinf(high):
            self.warn(
                f"joint {name!r}",
                "MJCF limits both sides of a joint; the missing limit is written as 1e10",
            )
        return {"limited": "true", "range": self.numbers(np.clip([low, high], -1e10, 1e10))}

    def _check_ball(self, name: str, frame: np.ndarray, limits: np.ndarray, dofs: slice) -> None:
        where = f"joint {name!r}"
        if ball_spring(self.articulation, dofs):
            fix = "nothing, if the joint turns little: at 1 rad they differ by 4 %"
            self.warn(where, BALL_SPRING, fix)
        if np.any(np.isfinite(limits)):
            message = "MJCF limits the angle of a ball joint, not its components; the limits are"
            self.warn(where, f"{message} dropped")
        if np.abs(frame[3:6]).max() > 1e-12:
            message = "its coordinates will refer to the axes of the body, not of its joint frame"
            self.warn(where, message)
        friction = self.articulation.friction
        arrays = (self.articulation.armature, friction.static, friction.dynamic, friction.viscous)
        if any(np.ptp(np.asarray(array[dofs], float)) > 0.0 for array in arrays):
            message = "MJCF has a single armature and friction for all axes of a ball joint"
            self.warn(where, message)

    def _write_inertial(self, link: int, *, moves: bool) -> None:
        name = self.topology.link_names[link]
        mass = float(self.articulation.link_mass[link])
        if moves and not self._carries_mass(link):
            fix = "give it both" + (
                "" if link else ", or read the robot with fixed_base=True if its base is fixed"
            )
            self.refuse(
                f"link {name!r}",
                "MuJoCo requires mass and rotational inertia of moving bodies",
                fix,
            )
        inertia = np.asarray(self.articulation.link_inertia[link], float)
        if mass == 0.0 and not np.any(inertia):
            return
        com_pose = self.pose("link_com_pose", link)
        moments, axes = principal_axes(inertia, com_pose[3:])
        moments = np.array([float(self.number(moment)) for moment in moments])
        excess = 2.0 * moments.max() - moments.sum()
        if excess > 0.0:
            # MuJoCo refuses impossible inertias without tolerance for rounding.
            rounding = (
                np.finfo(np.promote_types(self.articulation.dtype, np.float32)).eps * moments.max()
            )
            moments[np.argsort(moments)[:2]] += 0.5 * excess + 2.0 * rounding
            if excess > 4.0 * rounding:
                message = (
                    "its smaller moments of inertia are raised to satisfy the triangle inequality"
                )
                self.warn(f"link {name!r}", message)
        place = self.placement(np.concatenate([com_pose[:3], axes]))
        inertial = {"mass": self.number(mass), "diaginertia": self.numbers(moments), **place}
        ET.SubElement(self._bodies[link], "inertial", inertial)

    def _carries_mass(self, link: int) -> bool:
        """Whether MuJoCo accepts the mass and inertia of a link, or of a body rigidly attached to
        it.
        """
        inertia = np.asarray(self.articulation.link_inertia[link], float)
        if (
            float(self.articulation.link_mass[link]) > _SMALLEST
            and np.linalg.eigvalsh(inertia)[0] > _SMALLEST
        ):
            return True
        rigid = [child for child in self._children[link] if not self.topology.joint_axes[child]]
        return any(self._carries_mass(child) for child in rigid)


def ball_spring(articulation: Articulation, dofs: slice) -> float:
    """The stiffness of a spherical joint's drive if that is just an isotropic spring towards zero;
    else 0.
    """
    drive = articulation.drive
    stiffness = np.asarray(drive.stiffness[dofs], float)
    others = (drive.damping, drive.is_acceleration, drive.target_position, drive.target_velocity)
    is_spring = np.ptp(stiffness) == 0.0 and not any(
        np.any(np.asarray(array[dofs])) for array in others
    )
    return (
        float(stiffness[0])
        if is_spring and np.all(np.isinf(np.asarray(drive.max_force[dofs])))
        else 0.0
    )


# --- geoms --------------------------------------------------------------------------------------

#: What a size of zero is written as [m]: less than contacts notice, and more than MuJoCo's smallest
#: number.
_SMALLEST_SIZE = 1e-9


def write_geoms(writer: BodyWriter, root: ET.Element) -> None:
    """Writes the shapes of all links as massless geoms, hulls as meshes of their points, and
    contact pairs.

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
    if writer.topology.geometry_pairs:
        contact = ET.SubElement(root, "contact")
        for a, b in writer.topology.geometry_pairs:
            ET.SubElement(contact, "pair", {"geom1": a, "geom2": b})


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
    for k, surface in enumerate(ground.surfaces):
        name = f"ground.surfaces[{k}]"
        if not isinstance(surface, Plane):
            writer.warn(name, "height fields are not written")
            continue
        if np.isfinite(surface.stiffness) or np.any(surface.restitution):
            writer.warn(name, "its stiffness, damping and restitution are not written")
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
