"""The mechanisms recorded from PhysX (``tests/data/physx``): their specifications, arrays and articulations."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from artix import Articulation, ArticulationBuilder, Axis, Joint, JointType, State

DATA = Path(__file__).parent / "data" / "physx"
NAMES = tuple(sorted(path.stem for path in DATA.glob("*.json")))

_TYPES = {
    "fix": JointType.FIX,
    "prismatic": JointType.PRISMATIC,
    "revolute": JointType.REVOLUTE,
    "revolute_unwrapped": JointType.REVOLUTE_UNWRAPPED,
    "spherical": JointType.SPHERICAL,
}


@functools.cache
def specification(name: str) -> dict:
    """The recorded description of a mechanism."""
    return json.loads((DATA / f"{name}.json").read_text())


@functools.cache
def recorded(name: str) -> dict[str, np.ndarray]:
    """The recorded arrays of a mechanism, in float64."""
    with np.load(DATA / f"{name}.npz") as data:
        return {key: data[key].astype(float) for key in data}


def unit_pose(pose) -> np.ndarray:
    """The pose with its quaternion rounded to unit length in float64 instead of float32."""
    pose = np.asarray(pose, float)
    return np.concatenate([pose[:3], pose[3:] / np.linalg.norm(pose[3:])])


def joint_of(spec: dict) -> Joint:
    """The joint that a recorded joint describes."""
    dofs = spec["dofs"]
    unlimited = lambda value: np.inf if value is None else value  # noqa: E731
    return Joint(
        type=_TYPES[spec["type"]],
        axes=tuple(Axis[dof["axis"].upper()] for dof in dofs),
        name=spec["name"],
        parent_pose=unit_pose(spec["parent_pose"]),
        child_pose=unit_pose(spec["child_pose"]),
        limits=[None if dof["limit"] is None else tuple(dof["limit"]) for dof in dofs],
        armature=[dof["armature"] for dof in dofs],
        max_velocity=[unlimited(dof["max_velocity"]) for dof in dofs],
    )


def build(name: str, dtype=None) -> Articulation:
    """The articulation of a recorded mechanism; its links keep the recorded numbers."""
    spec = specification(name)
    builder = ArticulationBuilder(fixed_base=spec["fixed_base"], gravity=spec["gravity"], name=name)
    for link in spec["links"]:
        root = link["parent"] < 0
        builder.add_link(
            None if root else link["parent"],
            None if root else joint_of(link["joint"]),
            mass=link["mass"],
            com_pose=unit_pose(np.concatenate([link["com"], link["principal_axes"]])),
            inertia=link["principal_inertia"],
            gravity_scale=0.0 if link["disable_gravity"] else 1.0,
            name=link["name"],
        )
    for mimic in spec["mimic_joints"]:
        follower, reference = (spec["links"][mimic[f"link_{side}"]]["joint"]["name"] for side in "ab")
        builder.add_mimic(follower, reference, mimic["gear_ratio"], mimic["offset"])
    return builder.build(dtype)


def states(name: str, dtype=None) -> State:
    """The recorded states of a mechanism in one batch."""
    data = recorded(name)
    arrays = [data[key] for key in ("in_root_pose", "in_root_velocity", "in_q", "in_qd")]
    return State(*(jnp.asarray(array, dtype) for array in arrays))
