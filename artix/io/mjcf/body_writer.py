"""Writes the bodies of an MJCF: their joints, inertias and sites."""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from artix.io.common.description import Names
from artix.io.common.poses import compose, inverse, principal_axes, rotation_matrix, translation
from artix.io.common.xml_tree import XmlWriter
from artix.io.mjcf.actuators import BALL_SPRING
from artix.io.mjcf.source import WORLD
from artix.model.articulation import Articulation
from artix.model.joints import JointType

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
