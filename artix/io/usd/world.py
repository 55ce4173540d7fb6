"""The scene of a stage: its articulations, other rigid bodies, what stands around, and which of
their shapes touch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from artix.contact.scene import Scene
from artix.io.common.description import (
    Description,
    InitialState,
    LinkDescription,
    Names,
    ReadOptions,
    Robot,
    UsdOptions,
    build,
    build_state,
    build_world,
    takes,
)
from artix.io.common.diagnostics import Location, Report, listed
from artix.io.usd.articulation import rigid_bodies
from artix.io.usd.colliders import collider_shapes
from artix.io.usd.contacts import (
    Surface,
    UsdShape,
    pairs_across,
    read_ground,
    report_rule,
    rules_of,
    surface_of,
    touches_others,
)
from artix.io.usd.joints import enclosing, read_joint
from artix.io.usd.reader import RootReading, label_of, read_root
from artix.io.usd.stage import UsdPrim, UsdScene, open_stage
from artix.io.usd.tree import ROOT_SCHEMA, roots_of
from artix.model.articulation import Articulation

if TYPE_CHECKING:
    from pxr import Usd

#: Name of the fixed articulation of all that stands around.
WORLD = "world"


@takes(UsdOptions)
def load_usd_world(path_or_text_or_stage: Any, **options: Unpack[UsdOptions]) -> tuple[Scene, Any]:
    """The scene of a USD and its state; see :func:`artix.load_world`."""
    chosen = ReadOptions.of(UsdOptions, options)
    report = Report(label_of(path_or_text_or_stage), strict=chosen.strict)
    stage = open_stage(path_or_text_or_stage, report)
    report.raise_errors()
    assert stage is not None  # Otherwise there are errors.
    scene = UsdScene(stage, report, chosen.meshes)
    names = Names()
    robots = dict[str, Robot]()
    shapes = dict[str, list[UsdShape]]()
    for read in _articulations(stage, scene, chosen):
        # Bodies of no articulation are called after the first of them.
        usd, described = read.usd, read.robot.description
        is_other = chosen.root is None and not usd.root.has(ROOT_SCHEMA)
        name = names.new(scene.prims[usd.tree.bodies[0]].name if is_other else described.name)
        robots[name], shapes[name] = read.robot, read.shapes
    around = _standing_around(scene, next(iter(robots.values())), chosen)
    if around is not None and chosen.root is None:
        name = names.new(WORLD)
        robots[name], shapes[name] = around
    pairs = pairs_across(
        scene, shapes, {name: _standing_links(robot.articulation) for name, robot in robots.items()}
    )
    surfaces = _surfaces(scene, robots, shapes)
    inner = [
        ((name, a), (name, b))
        for name, robot in robots.items()
        for a, b in robot.articulation.topology.geometry_pairs
    ]
    every = [*inner, *pairs]
    touching = [(surfaces[a], surfaces[b]) for a, b in every]
    friction, restitution = rules_of(touching)
    report_rule(scene, touching, restitution, "restitution of bodies")
    ground = read_ground(scene, surfaces.values())
    report.finish()
    articulations = {name: robot.articulation for name, robot in robots.items()}
    states = {name: build_state(*robot) for name, robot in robots.items()}
    dtype = next(iter(articulations.values())).dtype
    return build_world(
        articulations,
        states,
        ground and ground.astype(dtype),
        pairs,
        dict(zip(map(frozenset, every), friction.values, strict=True)),
        friction_combination=friction.name,
        restitution_combination=restitution.name,
    )


def _articulations(
    stage: Usd.Stage, scene: UsdScene, options: ReadOptions
) -> Iterator[RootReading]:
    """Reads all articulations, and as such all other rigid bodies with the joints between them.

    Raises:
      DescriptionError: one of them is refused, or there is nothing that moves.
    """
    claimed = set[str]()

    def read(root: str | None, **changes: Any) -> RootReading:
        report = Report(scene.report.file, strict=options.strict)
        reading = read_root(stage, report, dataclasses.replace(options, root=root, **changes))
        report.finish()
        assert reading is not None  # Otherwise there are errors.
        claimed.update(reading.usd.tree.bodies)
        return reading

    if options.root is not None:
        yield read(options.root)
        return
    for prim in roots_of(scene):
        yield read(prim.path)
    for root, is_object in _other_roots(stage, claimed):
        # An object without shapes is of no use in a scene.
        yield read(root, meshes=options.meshes or ("hull" if is_object else None))
    if not claimed:
        yield read(None)  # Says that there is none.


def _other_roots(stage: Usd.Stage, claimed: set[str]) -> Iterator[tuple[str, bool]]:
    """Roots of the bodies that no articulation has claimed: joints to the world, then bodies; and
    whether it is a body without joints.
    """
    trial = UsdScene(stage, Report("<stage>"))
    bodies, _ = rigid_bodies(trial)
    joints = {path: read_joint(trial, prim, bodies) for path, prim in trial.prims.items()}
    jointed = {body for joint in joints.values() if joint is not None for body in joint.bodies}
    for path, joint in joints.items():
        if joint is not None and None in joint.bodies:
            body = joint.other(None)
            if body in bodies and body not in claimed:
                yield path, False
    for path in bodies:
        if path not in claimed:
            yield path, path not in jointed


def _standing_around(
    scene: UsdScene, other: Robot, options: ReadOptions
) -> tuple[Robot, list[UsdShape]] | None:
    """What touches and belongs to no body that moves, such as a table, as an articulation without
    joints; ``None`` if there is nothing.
    """
    bodies, _ = rigid_bodies(scene)
    colliders = [
        prim
        for prim in scene.prims.values()
        if prim.has("PhysicsCollisionAPI")
        and prim.read_bool("physics:collisionEnabled", True)
        and str(prim.prim.GetTypeName()) != "Plane"
        and enclosing(prim.path, bodies) is None
    ]
    origin = UsdPrim(scene.stage.GetPseudoRoot(), scene.report)
    names = Names()
    every = collider_shapes(scene, origin, colliders)
    kept = {prim.path for prim, _ in every}
    bare = [
        prim.name
        for prim in colliders
        if prim.path not in kept and str(prim.prim.GetTypeName()) == "Mesh"
    ]
    if bare:
        message = f"colliders that stand around are left out, which are meshes: {listed(bare)}"
        fix = "read the meshes with meshes='hull' or meshes='capsule'"
        scene.report.warning(Location("stage"), message, fix)
    read = [(prim, names.new(prim.name), shape) for prim, shape in every if touches_others(shape)]
    if not read:
        return None
    description = Description(
        name=WORLD,
        fixed_base=True,
        links=[LinkDescription(WORLD, geometries=[(name, shape) for _, name, shape in read])],
        gravity=other.description.gravity,
        state=InitialState(scene.stage_pose),
    )
    shapes = [UsdShape(origin.path, prim, name, WORLD) for prim, name, _ in read]
    return Robot(description, build(description, options)), shapes


def _standing_links(articulation: Articulation) -> set[str]:
    """The links that never move: those on a fixed root."""
    topology = articulation.topology
    if not topology.fixed_base:
        return set()
    return {
        name
        for name, body in zip(topology.link_names, topology.link_body, strict=True)
        if body == topology.link_body[0]
    }


def _surfaces(
    scene: UsdScene, robots: dict[str, Robot], shapes: dict[str, list[UsdShape]]
) -> dict[tuple[str, str], Surface]:
    """The surfaces of all shapes that touch others, by the names of robot and shape."""
    surfaces = {}
    for name, robot in robots.items():
        topology, geometry = robot.articulation.topology, robot.articulation.geometry
        for shape in shapes[name]:
            k = topology.geometry_index(shape.name)
            surfaces[name, shape.name] = surface_of(
                scene, shape.prim, shape.name, geometry.friction[k], geometry.restitution[k]
            )
    return surfaces
