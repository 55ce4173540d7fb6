"""The articulations, grounds and options of the scenes with contact that were recorded from
PhysX."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from artix import (
    Articulation,
    ArticulationBuilder,
    Axis,
    Drive,
    Geometry,
    GeometryType,
    Ground,
    Joint,
    JointType,
    SolverOptions,
)
from tests.support.physx_contact_scenes import RUNS, SCENES
from tests.support.physx_mechanisms import arrays_in

DATA = Path(__file__).parents[1] / "data" / "physx" / "contact"
_SIZES = {"sphere": ("radius",), "capsule": ("radius", "half_length"), "box": ("half_extents",)}


def recorded(name: str, run: str) -> dict[str, np.ndarray]:
    """The recorded arrays of a run of a scene."""
    return arrays_in(DATA / f"{name}.npz", f"{run}/")


def _joint(spec: dict | None) -> Joint | None:
    if spec is None:
        return None
    return Joint(
        type=JointType.REVOLUTE,
        axes=(Axis.SWING1,),
        name=spec["name"],
        parent_pose=(*spec["parent_position"], 0, 0, 0, 1),
        child_pose=(*spec["child_position"], 0, 0, 0, 1),
        drive=Drive(**spec["drive"]),
    )


@functools.cache
def build(name: str, dtype=None) -> Articulation:
    """The articulation of a scene."""
    scene = SCENES[name]
    builder = ArticulationBuilder(fixed_base=False, gravity=scene["gravity"], name=name)
    for link in scene["links"]:
        parent = None if link["parent"] < 0 else link["parent"]
        still = {"linear_damping": 0.0, "angular_damping": 0.0, "cfm_scale": 0.025}
        number = builder.add_link(
            parent,
            _joint(link["joint"]),
            mass=link["mass"],
            inertia=link["inertia"],
            name=link["name"],
            **still,
        )
        for shape in link["shapes"]:
            geometry = Geometry(
                type=GeometryType(shape["type"]),
                size=np.concatenate([np.atleast_1d(shape[key]) for key in _SIZES[shape["type"]]]),
                pose=(*shape["position"], 0, 0, 0, 1),
                friction=scene["friction"],
                restitution=scene["restitution"],
            )
            builder.add_geometry(number, geometry)
    return builder.build(dtype)


def ground_of(name: str) -> Ground:
    """The plane of a scene, whose material is that of the shapes."""
    return Ground.flat(friction=SCENES[name]["friction"], restitution=SCENES[name]["restitution"])


def options_of(name: str, run: str) -> SolverOptions:
    """The solver of a run of a scene."""
    scene, (solver, position, velocity, _) = SCENES[name], RUNS[run]
    return SolverOptions(
        solver=solver,
        position_iterations=position,
        velocity_iterations=velocity,
        max_separation_speed=scene["max_depenetration_velocity"],
        restitution_threshold=scene["bounce_threshold"],
        contact_distance=2 * scene["contact_offset"],
    )
