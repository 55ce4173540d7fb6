"""A robot as SDF text, for readers that need Gazebo's tools to read URDF."""

from __future__ import annotations

import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import artix
from benchmarks.robots import Robot, articulation

_ROOT = "benchmark_base"


def sdf(robot: Robot) -> str:
    """The robot with links on fixed joints merged; every pose is relative to the same frame as in
    URDF."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "merged.urdf"
        artix.save_urdf(articulation(robot), path)
        merged = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    root = ElementTree.Element("sdf", version="1.10")
    model = ElementTree.SubElement(root, "model", name="robot")
    # What is left are frames
    joints = [joint for joint in merged.findall("joint") if joint.get("type") != "fixed"]
    above = {joint.find("child").get("link"): joint for joint in joints}
    children = {joint.find("child").get("link") for joint in merged.findall("joint")}
    base = next(
        link.get("name") for link in merged.findall("link") if link.get("name") not in children
    )
    for element in merged.iter():  # some call it "world", which SDF keeps for itself
        for attribute in ("name", "link"):
            if element.tag in ("link", "parent") and element.get(attribute) == base:
                element.set(attribute, _ROOT)
    base = _ROOT
    model.set("canonical_link", base)
    for link in merged.findall("link"):
        if link.get("name") == base or link.get("name") in above:
            _add_link(model, link, above.get(link.get("name")))
    for joint in joints:
        _add_joint(model, joint)
    if robot.fixed_base:
        fixed = ElementTree.SubElement(model, "joint", name="benchmark_root", type="fixed")
        _text(fixed, "parent", "world")
        _text(fixed, "child", base)
    return ElementTree.tostring(root, encoding="unicode")


def _add_link(
    model: ElementTree.Element, link: ElementTree.Element, above: ElementTree.Element | None
) -> None:
    element = ElementTree.SubElement(model, "link", name=link.get("name"))
    if above is not None:
        _text(element, "pose", "0 0 0 0 0 0").set("relative_to", above.get("name"))
    inertial = link.find("inertial")
    out = ElementTree.SubElement(element, "inertial")
    if (
        inertial is None
    ):  # a root without mass; the number does not matter, for only a fixed base can lack one
        _text(out, "mass", "1")
        values = {"ixx": "1", "iyy": "1", "izz": "1", "ixy": "0", "ixz": "0", "iyz": "0"}
    else:
        _text(out, "pose", _pose(inertial.find("origin")))
        _text(out, "mass", inertial.find("mass").get("value"))
        values = dict(inertial.find("inertia").attrib)
    matrix = ElementTree.SubElement(out, "inertia")
    for name, value in values.items():
        _text(matrix, name, value)


def _add_joint(model: ElementTree.Element, joint: ElementTree.Element) -> None:
    kind = joint.get("type")
    element = ElementTree.SubElement(model, "joint", name=joint.get("name"), type=kind)
    parent = joint.find("parent").get("link")
    _text(element, "pose", _pose(joint.find("origin"))).set("relative_to", parent)
    _text(element, "parent", parent)
    _text(element, "child", joint.find("child").get("link"))
    axis = ElementTree.SubElement(element, "axis")
    _text(axis, "xyz", joint.find("axis").get("xyz") if joint.find("axis") is not None else "1 0 0")


def _pose(origin: ElementTree.Element | None) -> str:
    if origin is None:
        return "0 0 0 0 0 0"
    return f"{origin.get('xyz', '0 0 0')} {origin.get('rpy', '0 0 0')}"


def _text(parent: ElementTree.Element, tag: str, text: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, tag)
    element.text = text
    return element
