"""The robots of the benchmark, each as one URDF text that every library reads with its own
reader."""

from __future__ import annotations

import dataclasses
import importlib.util
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import artix
from artix import robots as built_in

#: Elements that dynamics do not need. Without them no library looks for meshes.
_NOT_DYNAMICS = {
    "link": ("visual", "collision", "contact"),
    "joint": ("mimic", "safety_controller", "calibration", "dynamics"),
    "robot": ("material", "gazebo", "transmission", "mujoco", "sensor"),
}

CHAIN_LENGTHS = (8, 16, 32, 64)


@dataclasses.dataclass(frozen=True)
class Robot:
    """One robot.

    Attributes:
      key: what the command line calls it.
      name: what the tables call it.
      urdf: its description without geometry; empty for a mixed fleet.
      fixed_base: whether its root is fixed to the world.
      members: the robots that share a batch, for a mixed fleet; otherwise empty.
    """

    key: str
    name: str
    urdf: str
    fixed_base: bool
    members: tuple[Robot, ...] = ()


#: key, name, file of example-robot-data, artix's own robot if that is not installed, fixed base
_DESCRIBED = (
    ("arm", "xArm 7 (7 DOFs, fixed)", "xarm_description/urdf/xarm7.urdf", "arm7", True),
    ("quadruped", "Go2 (12 DOFs, floating)", "go2_description/urdf/go2.urdf", "quadruped", False),
    (
        "humanoid",
        "G1 (29 DOFs, fixed)",
        "g1_description/urdf/g1_29dof_rev_1_0.urdf",
        "humanoid",
        True,
    ),
    (
        "humanoid-floating",
        "G1 (29 DOFs, floating)",
        "g1_description/urdf/g1_29dof_rev_1_0.urdf",
        "humanoid",
        False,
    ),
    (
        "humanoid-44",
        "Talos (44 DOFs, floating)",
        "talos_data/robots/talos_full_v2.urdf",
        None,
        False,
    ),
)
_FLEET = ("arm", "quadruped", "humanoid-floating")

ROBOTS = (*(row[0] for row in _DESCRIBED), *(f"chain-{n}" for n in CHAIN_LENGTHS), "fleet")


def benchmark_robots() -> Iterator[Robot]:
    """All robots: those of ``example-robot-data`` if installed, otherwise artix's own, of which
    none has 44 DOFs."""
    folder = _example_robot_data()
    members = []
    for key, name, relative, own, fixed_base in _DESCRIBED:
        path = None if folder is None else folder / relative
        if path is None or not path.is_file():
            if own is None:
                continue
            name, path = (
                f"artix {own} ({'fixed' if fixed_base else 'floating'})",
                Path(built_in.path(own)),
            )
        robot = Robot(key, name, _without_geometry(path.read_text(encoding="utf-8")), fixed_base)
        members += [robot] if key in _FLEET else []
        yield robot
    for links in CHAIN_LENGTHS:
        yield Robot(f"chain-{links}", f"chain ({links} links, fixed)", chain_urdf(links), True)
    yield Robot(
        "fleet",
        "fleet of " + " + ".join(robot.name.split()[0] for robot in members),
        "",
        False,
        tuple(members),
    )


def articulation(robot: Robot) -> artix.Articulation:
    """The robot as artix reads it, links on fixed joints merged as in the peers."""
    return artix.load_urdf(robot.urdf, fixed_base=robot.fixed_base, merge_fixed_joints=True)


def chain_urdf(links: int) -> str:
    """A serial chain: ``links`` bodies of 10 cm and 0.5 kg on revolute joints about x, y and z in
    turn."""
    inertial = (
        '<inertial><origin xyz="0.01 0.0 0.05"/><mass value="0.5"/>'
        '<inertia ixx="6e-4" iyy="5e-4" izz="2e-4" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    parts = [f'<robot name="chain{links}"><link name="link0">{inertial}</link>']
    for k in range(1, links + 1):
        axis = ("1 0 0", "0 1 0", "0 0 1")[k % 3]
        parts.append(
            f'<link name="link{k}">{inertial}</link>'
            f'<joint name="joint{k}" type="revolute"><parent link="link{k - 1}"/>'
            f'<child link="link{k}"/><origin xyz="0 0 {0.1 if k > 1 else 0}"/><axis xyz="{axis}"/>'
            '<limit lower="-3" upper="3" effort="100" velocity="10"/></joint>'
        )
    return "".join([*parts, "</robot>"])


def _example_robot_data() -> Path | None:
    found = importlib.util.find_spec("pinocchio")
    if found is None or found.origin is None:
        return None
    for parent in Path(found.origin).parents:
        folder = parent / "share" / "example-robot-data" / "robots"
        if folder.is_dir():
            return folder
    return None


def _without_geometry(text: str) -> str:
    root = ElementTree.fromstring(text)
    for element in [root, *root.findall("link"), *root.findall("joint")]:
        for tag in _NOT_DYNAMICS[element.tag]:
            for child in element.findall(tag):
                element.remove(child)
    return ElementTree.tostring(root, encoding="unicode")
