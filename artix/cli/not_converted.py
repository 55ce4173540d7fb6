"""What a description has beyond its articulation, and no conversion keeps: visuals, sensors, cameras."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from artix.cli.text import counted
from artix.io.common.diagnostics import Report
from artix.io.common.xml_tree import Element, read_xml
from artix.io.load import MJCF, USD
from artix.io.mjcf.source import compile_mjcf
from artix.io.urdf.reader import expand_xacro
from artix.io.usd.stage import import_pxr, open_stage

#: Elements of a URDF that are no part of an articulation.
_URDF = {
    "visual": "visual",
    "sensor": "sensor",
    "transmission": "transmission",
    "ros2_control": "ros2_control element",
    "gazebo": "gazebo element",
}


def not_converted(path: Path) -> list[str]:
    """What a description that loads has beyond its articulation, as counted nouns such as ``"9 visuals"``."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return []
    if suffix in MJCF.suffixes:
        nouns = _of_mjcf(path)
    elif suffix in USD.suffixes:
        nouns = _of_usd(path)
    else:
        robot = read_xml(expand_xacro(path) if suffix == ".xacro" else path, Report(str(path)))
        nouns = iter(()) if robot is None else _of_urdf(robot)
    return [counted(number, noun) for noun, number in Counter(nouns).items()]


def _of_urdf(robot: Element) -> Iterator[str]:
    for element in [*(part for link in robot.all("link") for part in link.children), *robot.children]:
        if element.tag in _URDF:
            yield _URDF[element.tag]


def _of_mjcf(path: Path) -> Iterator[str]:
    source = compile_mjcf(path, Report(str(path)))
    if source is None:
        return
    model = source.model
    for geom in range(model.ngeom):
        if not model.geom_contype[geom] and not model.geom_conaffinity[geom]:
            yield "visual"
    for noun, number in (("sensor", model.nsensor), ("camera", model.ncam), ("light", model.nlight)):
        yield from [noun] * int(number)


def _of_usd(path: Path) -> Iterator[str]:
    stage = open_stage(path, Report(str(path)))
    if stage is None:
        return
    pxr = import_pxr()
    from pxr import UsdLux

    for prim in stage.Traverse(pxr.Usd.TraverseInstanceProxies()):
        if prim.IsA(pxr.UsdGeom.Gprim) and not prim.HasAPI(pxr.UsdPhysics.CollisionAPI):
            yield "visual"
        elif prim.IsA(pxr.UsdGeom.Camera):
            yield "camera"
        elif prim.HasAPI(UsdLux.LightAPI):
            yield "light"
