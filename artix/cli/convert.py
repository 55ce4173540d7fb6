"""``artix convert``: converts a robot description to another format, and says what no conversion
keeps.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import jax

from artix.cli.names import did_you_mean, naming
from artix.cli.robot_source import check_robot, description_path, load_robot
from artix.cli.text import CommandFailure, counted, refused
from artix.io.common.diagnostics import DescriptionError, Report
from artix.io.common.diagnostics import counted as numbered
from artix.io.common.xml_tree import Element, read_xml
from artix.io.load import MJCF, SUFFIXES, USD, save
from artix.io.mjcf.geometries import ground_geoms, obstacles
from artix.io.mjcf.source import compile_mjcf, geom_type
from artix.io.urdf.xacro import expand_xacro
from artix.io.usd.joints import enclosing
from artix.io.usd.stage import import_pxr, open_stage
from artix.model.topology import Topology


def run_convert(robot: str, output: str, **options: Any) -> int:
    """Reads a robot in double precision, writes it, and prints all warnings and what is lost.

    Args:
      robot: path of a robot description, or the name of a built-in robot.
      output: the file to write; its suffix names the format.
      **options: options of the reader.

    Returns:
      0, or 1 if the description has errors or the format cannot describe the robot; both are
      printed.

    Raises:
      CommandFailure: the robot cannot be read, or the output cannot be written.
    """
    suffix = Path(output).suffix.lower()
    if suffix not in SUFFIXES:
        known = [one for one in SUFFIXES if one != ".xacro"]
        raise CommandFailure(
            f"{output}: no writer for the suffix {suffix!r}{did_you_mean(suffix, known)}; choose "
            f"from: {', '.join(known)}"
        )
    issues = check_robot(robot, **options)
    if any(issue.severity == "error" for issue in issues):
        return refused(issues, f"{robot!r} has errors and was not converted")
    with _double_precision():
        articulation = load_robot(robot, **options)
        # Before the output may replace it.
        kept_out = not_converted(description_path(robot), articulation.topology)
        try:
            with naming(output):
                warnings = save(articulation, output)
        except DescriptionError as error:
            return refused(error.issues, f"{robot!r} was not written")
        except (ValueError, ImportError) as error:
            raise CommandFailure(str(error)) from error
    for issue in [*issues, *warnings]:
        print(issue)
    topology = articulation.topology
    links, dofs = topology.num_links, topology.num_dofs
    sizes = numbered(links, "link", "links"), numbered(dofs, "DOF", "DOFs")
    print(f"{output}: {', '.join(sizes)}", end="")
    lost = (
        [f"{counted(len(warnings), 'feature')} cannot be expressed in {suffix}"] if warnings else []
    )
    lost += [f"not converted: {', '.join(kept_out)}"] if kept_out else []
    print("; ".join(["", *lost]) if lost else ", nothing lost")
    return 0


@contextlib.contextmanager
def _double_precision() -> Iterator[None]:
    """Enables double precision, so that conversion keeps all digits."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


#: Types of geoms of MJCF that are the ground of a scene.
_GROUND = {"PLANE": "ground plane", "HFIELD": "height field"}

#: Elements of a URDF that are not part of an articulation.
_URDF = {
    "visual": "visual",
    "sensor": "sensor",
    "transmission": "transmission",
    "ros2_control": "ros2_control element",
    "gazebo": "gazebo element",
}


def not_converted(path: Path, topology: Topology) -> list[str]:
    """What a description that loads has beyond the articulation with this topology, as counted
    nouns such as ``"9 visuals"``.
    """
    kept = {*topology.link_names, *topology.frame_names}
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return []
    if suffix in MJCF.suffixes:
        nouns = _of_mjcf(path, kept)
    elif suffix in USD.suffixes:
        nouns = _of_usd(path, kept)
    else:
        robot = read_xml(expand_xacro(path) if suffix == ".xacro" else path, Report(str(path)))
        nouns = iter(()) if robot is None else _of_urdf(robot)
    return [counted(number, noun) for noun, number in Counter(nouns).items()]


def _of_urdf(robot: Element) -> Iterator[str]:
    for element in [
        *(part for link in robot.all("link") for part in link.children),
        *robot.children,
    ]:
        if element.tag in _URDF:
            yield _URDF[element.tag]


def _of_mjcf(path: Path, kept: Set[str]) -> Iterator[str]:
    source = compile_mjcf(path, Report(str(path)))
    if source is None:
        return
    model = source.model
    ground = {geom: geom_type(model, geom) for geom in ground_geoms(model)}
    for geom in range(model.ngeom):
        if not model.geom_contype[geom] and not model.geom_conaffinity[geom]:
            yield "visual"
        elif geom in ground:
            yield _GROUND[ground[geom]]
    yield from ["geom beside the robot"] * len(obstacles(model))
    bodies = [name for name in source.names.bodies[1:] if name not in kept]
    yield from ["other body"] * len(bodies)
    for noun, number in (
        ("sensor", model.nsensor),
        ("camera", model.ncam),
        ("light", model.nlight),
    ):
        yield from [noun] * int(number)


def _of_usd(path: Path, kept: Set[str]) -> Iterator[str]:
    stage = open_stage(path, Report(str(path)))
    if stage is None:
        return
    pxr = import_pxr()
    from pxr import UsdLux

    above = set[str]()  # Paths of the bodies so far, which come before what is on them.
    for prim in stage.Traverse(pxr.Usd.TraverseInstanceProxies()):
        if prim.HasAPI(pxr.UsdPhysics.RigidBodyAPI):
            above.add(str(prim.GetPath()))
            if not {prim.GetName(), str(prim.GetPath())} & kept:
                yield "other body"
        if prim.HasAPI(pxr.UsdPhysics.CollisionAPI) and not enclosing(str(prim.GetPath()), above):
            yield "ground plane" if prim.IsA(pxr.UsdGeom.Plane) else "collider beside the robot"
        if prim.IsA(pxr.UsdGeom.Gprim) and not prim.HasAPI(pxr.UsdPhysics.CollisionAPI):
            yield "visual"
        elif prim.IsA(pxr.UsdGeom.Camera):
            yield "camera"
        elif prim.HasAPI(UsdLux.LightAPI):
            yield "light"
