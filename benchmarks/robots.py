"""The robots of the benchmark, each as one URDF text that every library reads with its own reader."""

from __future__ import annotations

import dataclasses
import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import artix
from artix import robots as built_in

#: Elements that no library needs for dynamics; without them no mesh is looked for.
_NOT_DYNAMICS = {
    "link": ("visual", "collision", "contact"),
    "joint": ("mimic", "safety_controller", "calibration", "dynamics"),
    "robot": ("material", "gazebo", "transmission", "mujoco", "sensor"),
}


@dataclasses.dataclass(frozen=True)
class Robot:
    """One robot: a name for the table, a URDF without geometry, and whether its root is fixed to the world."""

    name: str
    urdf: str
    fixed_base: bool


def benchmark_robots() -> list[Robot]:
    """An arm, a quadruped and a humanoid: of ``example-robot-data`` where it is installed, else artix's own."""
    chosen = (
        ("xArm 7 (7 DOFs, fixed)", "xarm_description/urdf/xarm7.urdf", "arm7", True),
        ("Go2 (12 DOFs, floating)", "go2_description/urdf/go2.urdf", "quadruped", False),
        ("G1 (29 DOFs, fixed)", "g1_description/urdf/g1_29dof_rev_1_0.urdf", "humanoid", True),
    )
    folder = _example_robot_data()
    robots = []
    for name, relative, own, fixed_base in chosen:
        path = None if folder is None else folder / relative
        if path is None or not path.is_file():
            name, path = f"artix {own} ({'fixed' if fixed_base else 'floating'})", Path(built_in.path(own))
        robots.append(Robot(name, _without_geometry(path.read_text(encoding="utf-8")), fixed_base))
    return robots


def articulation(robot: Robot) -> artix.Articulation:
    """The robot as artix reads it, links on fixed joints merged as in the peers."""
    return artix.load_urdf(robot.urdf, fixed_base=robot.fixed_base, merge_fixed_joints=True)


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
