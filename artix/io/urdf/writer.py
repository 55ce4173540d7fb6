"""Writes URDF."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from artix.io.common.atomic_file import write_atomically
from artix.io.common.diagnostics import Issue
from artix.io.common.poses import (
    compose,
    inverse,
    rotation_matrix,
    rpy_from_quaternion,
    translation,
)
from artix.io.common.xml_tree import XmlWriter
from artix.io.urdf.reader import WORLD_LINK
from artix.model.articulation import Articulation
from artix.model.geometry import GeometryType
from artix.model.joints import JointType
from artix.model.topology import Topology

#: Stands for a missing limit of effort or speed, which URDF requires and cannot be infinite.
_UNLIMITED = 1e10

_SUPPORTED = ("max_velocity", "max_force", "viscous", "friction", "mimic", "geometry")


def save_urdf(articulation: Articulation, path: str | Path) -> list[Issue]:
    """Writes an articulation as URDF.

    The file has links with inertials and shapes (except hulls and sensors), and joints with limits,
    damping, friction and mimic relations. Frames become massless links on fixed joints. URDF
    requires a joint axis to pass through the origin of the child link; where it does not, the
    link's frame is moved onto the axis.

    Args:
      articulation: a single articulation.
      path: the file.

    Returns:
      One warning for each thing that URDF cannot express.

    Raises:
      DescriptionError: URDF has no such joint, as it has none with several axes, or XML does not
        allow a name.
      TypeError, ValueError: the articulation is batched, or a builder would refuse one of its
        numbers.
      OSError: the file cannot be written.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm7.urdf"
      >>> _ = artix.io.save_urdf(artix.robots.load("arm7"), path)
      >>> print(artix.load_urdf(path, fixed_base=True).topology.num_dofs)
      7
    """
    writer = _Writer(articulation, path)
    text = writer.text()
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
    return writer.report.issues


class _Writer(XmlWriter):
    """Writes one articulation."""

    def __init__(self, articulation: Articulation, path: str | Path) -> None:
        super().__init__(articulation, "URDF", path, _SUPPORTED)
        #: Pose of the link frame in the file, in the link's own frame, by link.
        self.written_frame = [self._written_frame(link) for link in range(self.topology.num_links)]

    def text(self) -> str:
        """The whole document."""
        topology = self.topology
        self._refuse_joints()
        self._check_base()
        lines = ['<?xml version="1.0"?>', f"<robot name={quoteattr(topology.name)}>"]
        for link in range(topology.num_links):
            lines += self._link(link)
        for link in range(1, topology.num_links):
            lines += self._joint(link)
        for frame, name in enumerate(topology.frame_names):
            lines += self._frame(frame, name)
        return "\n".join([*lines, "</robot>", ""])

    def _written_frame(self, link: int) -> np.ndarray:
        """The link's frame, moved to the nearest point on the axis of its revolute joint."""
        child = self.pose("joint_child_pose", link)
        if _kind(self.topology, link) != "revolute":
            return translation(np.zeros(3))
        axis = _axis(self.topology, link, child)
        point = child[:3] - (axis @ child[:3]) * axis
        if np.linalg.norm(point) <= 1e-12:
            return translation(np.zeros(3))
        name = self.topology.link_names[link]
        message = (
            "its joint axis does not pass through its origin; its frame is moved onto the axis"
        )
        self.warn(f"link {name!r}", message, "nothing")
        return translation(point)

    def _refuse_joints(self) -> None:
        for link, name in enumerate(self.topology.joint_names, start=1):
            kind = _kind(self.topology, link)
            if kind not in ("fixed", "revolute", "prismatic"):
                self.refuse(
                    f"joint {name!r}",
                    f"URDF has no {kind} joints",
                    "write an MJCF or an .npz archive instead",
                )
        self.report.raise_errors()

    def _check_base(self) -> None:
        topology = self.topology
        if topology.fixed_base != (topology.link_names[0] == WORLD_LINK):
            message = "URDF does not say whether the base is fixed"
            self.warn("base", message, f"read it with fixed_base={topology.fixed_base}")

    def _link(self, link: int) -> list[str]:
        name = quoteattr(self.topology.link_names[link])
        mass = float(self.articulation.link_mass[link])
        inertia = np.asarray(self.articulation.link_inertia[link], float)
        geometries = self.topology.geometries
        shapes = [
            line
            for index, shape in enumerate(geometries)
            if shape.link == link
            for line in self._shape(index)
        ]
        if mass == 0.0 and not np.any(inertia):
            return (
                [f"  <link name={name}>", *shapes, "  </link>"]
                if shapes
                else [f"  <link name={name}/>"]
            )
        entries = zip(
            ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia[np.triu_indices(3)], strict=True
        )
        moments = " ".join(f'{key}="{self.number(value)}"' for key, value in entries)
        pose = compose(inverse(self.written_frame[link]), self.pose("link_com_pose", link))
        return [
            f"  <link name={name}>",
            "    <inertial>",
            f"      {self._origin(pose)}",
            f'      <mass value="{self.number(mass)}"/>',
            f"      <inertia {moments}/>",
            "    </inertial>",
            *shapes,
            "  </link>",
        ]

    def _shape(self, index: int) -> list[str]:
        """A ``<collision>``; nothing if URDF has no such shape."""
        shape = self.topology.geometries[index]
        arrays = self.articulation.geometry
        if shape.sensor or shape.type in (GeometryType.HULL, GeometryType.ELLIPSOID):
            return []
        size = np.asarray(arrays.size[index], float)
        if shape.type is GeometryType.BOX:
            attributes = f'size="{self.numbers(2.0 * size)}"'
        elif shape.type is GeometryType.SPHERE:
            attributes = f'radius="{self.number(size[0])}"'
        else:
            attributes = f'radius="{self.number(size[0])}" length="{self.number(2.0 * size[1])}"'
        if shape.type is GeometryType.CAPSULE:
            self.warn(
                f"geometry {shape.name!r}", "not every URDF reader supports <capsule>", "nothing"
            )
        pose = compose(
            inverse(self.written_frame[shape.link]), np.asarray(arrays.pose[index], float)
        )
        return [
            f"    <collision name={quoteattr(shape.name)}>",
            f"      {self._origin(pose)}",
            f"      <geometry><{shape.type.value} {attributes}/></geometry>",
            "    </collision>",
        ]

    def _joint(self, link: int) -> list[str]:
        topology = self.topology
        parent = topology.parent[link]
        child = self.pose("joint_child_pose", link)
        at_zero = compose(self.pose("joint_parent_pose", link), inverse(child))
        origin = compose(
            compose(inverse(self.written_frame[parent]), at_zero), self.written_frame[link]
        )
        kind = "fixed"
        details = list[str]()
        if topology.joint_axes[link]:
            kind, details = self._moving(link, _axis(topology, link, child))
        return [
            f'  <joint name={quoteattr(topology.joint_names[link - 1])} type="{kind}">',
            f"    {self._origin(origin)}",
            f"    <parent link={quoteattr(topology.link_names[parent])}/>",
            f"    <child link={quoteattr(topology.link_names[link])}/>",
            *details,
            "  </joint>",
        ]

    def _moving(self, link: int, axis: np.ndarray) -> tuple[str, list[str]]:
        """URDF's type of a joint with one degree of freedom, and its child elements."""
        robot = self.articulation
        name = self.topology.joint_names[link - 1]
        dof = self.topology.dofs(name).start
        damping = float(robot.friction.viscous[dof])
        friction = float(robot.friction.static[dof])
        lines = [f'    <axis xyz="{self.numbers(axis)}"/>']
        kind, limit = self._limit(link, dof)
        if limit:
            lines.append(f"    <limit {limit}/>")
        if damping or friction:
            numbers = self.number(damping), self.number(friction)
            lines.append('    <dynamics damping="{}" friction="{}"/>'.format(*numbers))
        for index, (follower, reference) in enumerate(self.topology.mimic_dofs):
            if follower == dof:
                multiplier, offset = (
                    -float(robot.mimic.gear_ratio[index]),
                    -float(robot.mimic.offset[index]),
                )
                followed = quoteattr(
                    self.topology.joint_names[self.topology.dof_link[reference] - 1]
                )
                factors = f'multiplier="{self.number(multiplier)}" offset="{self.number(offset)}"'
                lines.append(f"    <mimic joint={followed} {factors}/>")
        return kind, lines

    def _limit(self, link: int, dof: int) -> tuple[str, str]:
        """The type of a joint and the attributes of its ``<limit>``."""
        robot = self.articulation
        element = f"joint {self.topology.joint_names[link - 1]!r}"
        low, high = float(robot.joint_lower_limit[dof]), float(robot.joint_upper_limit[dof])
        bounds = {
            "effort": float(robot.max_joint_force[dof]),
            "velocity": float(robot.max_joint_velocity[dof]),
        }
        kind = _kind(self.topology, link)
        limited = np.isfinite(low) or np.isfinite(high)
        joint_type = self.topology.joint_types[link]
        if limited and not (np.isfinite(low) and np.isfinite(high)):
            message = "URDF has no joints with a limit on one side only; written as unlimited"
            self.warn(element, message, "give both limits")
            limited = False
        limit = {"lower": low, "upper": high} if limited else {}
        if kind == "prismatic" and not limited:
            self.warn(
                element,
                "URDF has no unlimited prismatic joint",
                "give it limits, or other readers may lock it",
            )
        if kind == "revolute" and (joint_type is not JointType.REVOLUTE_UNWRAPPED) == limited:
            read = "revolute_unwrapped" if limited else "revolute"
            having = "with limits" if limited else "without limits"
            message = (
                f"URDF has no {joint_type.name.lower()} joint {having}; it will be read as {read}"
            )
            self.warn(element, message, "nothing")
        if kind == "revolute" and not limited:
            kind = "continuous"
        missing = [key for key, value in bounds.items() if np.isinf(value)]
        if limit or kind == "prismatic" or len(missing) < 2:
            limit |= {
                key: _UNLIMITED if np.isinf(value) else value for key, value in bounds.items()
            }
            if missing:
                what = " and ".join(missing)
                self.warn(
                    element,
                    f"URDF requires a limit of {what}; written as {_UNLIMITED:g}",
                    "give it one",
                )
        return kind, " ".join(f'{key}="{self.number(value)}"' for key, value in limit.items())

    def _origin(self, pose: np.ndarray) -> str:
        rpy = self.numbers(rpy_from_quaternion(pose[3:]))
        return f'<origin xyz="{self.numbers(pose[:3])}" rpy="{rpy}"/>'

    def _frame(self, frame: int, name: str) -> list[str]:
        link = self.topology.frame_links[frame]
        pose = compose(inverse(self.written_frame[link]), self.pose("frame_local_pose", frame))
        self.warn(f"frame {name!r}", "written as a link", "read it with merge_fixed_joints=True")
        joint = quoteattr(_unused(f"{name}_joint", self.topology.joint_names))
        return [
            f"  <link name={quoteattr(name)}/>",
            f'  <joint name={joint} type="fixed">',
            f"    {self._origin(pose)}",
            f"    <parent link={quoteattr(self.topology.link_names[link])}/>",
            f"    <child link={quoteattr(name)}/>",
            "  </joint>",
        ]


def _kind(topology: Topology, link: int) -> str:
    """The kind of a joint in URDF's terms; ``"revolute"`` includes unlimited ones. URDF does not
    have all kinds.
    """
    kind = topology.joint_types[link]
    if kind is JointType.SPHERICAL and len(topology.joint_axes[link]) == 1:
        return "revolute"
    return {JointType.FIX: "fixed", JointType.REVOLUTE_UNWRAPPED: "revolute"}.get(
        kind, kind.name.lower()
    )


def _axis(topology: Topology, link: int, child_pose: np.ndarray) -> np.ndarray:
    """The axis of a joint with one degree of freedom in its child link's frame."""
    return rotation_matrix(child_pose[3:])[:, int(topology.joint_axes[link][0]) % 3]


def _unused(name: str, taken: tuple[str, ...]) -> str:
    while name in taken:
        name += "_"
    return name
