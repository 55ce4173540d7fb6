"""The mechanisms recorded from PhysX (``tests/data/physx``): their specifications, arrays and
articulations."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from artix import (
    Articulation,
    ArticulationBuilder,
    Attachment,
    Axis,
    Drive,
    DriveEnvelope,
    FixedTendon,
    Joint,
    JointFriction,
    JointType,
    SpatialTendon,
    State,
    TendonJoint,
)

DATA = Path(__file__).parents[1] / "data" / "physx"
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
def arrays_in(path: Path, group: str = "") -> dict[str, np.ndarray]:
    """The arrays of a file whose names begin with ``group``, by the rest of their names, in
    float64."""
    with np.load(path) as data:
        return {
            key.removeprefix(group): data[key].astype(float)
            for key in data
            if key.startswith(group)
        }


def recorded(name: str) -> dict[str, np.ndarray]:
    """The recorded arrays of a mechanism."""
    return arrays_in(DATA / f"{name}.npz")


def recorded_steps(name: str) -> dict[str, np.ndarray]:
    """The recorded steps of a mechanism."""
    return arrays_in(DATA / f"{name}_steps.npz")


def recorded_inverse_dynamics(name: str) -> dict[str, np.ndarray]:
    """The recorded arrays of inverse dynamics of a mechanism."""
    return arrays_in(DATA / "inverse_dynamics.npz", f"{name}/")


@functools.cache
def law_errors(name: str) -> dict[str, dict]:
    """The distance between PhysX and a float64 evaluation of its law, due to rounding; see the
    README of the data."""
    return json.loads((DATA / "law_errors" / "errors.json").read_text())[name]


def error(found, wanted) -> float:
    """The error measure that the recording uses for its accuracy."""
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    assert found.shape == wanted.shape
    return float(
        np.max(np.abs(found - wanted), initial=0.0) / max(1.0, np.max(np.abs(wanted), initial=0.0))
    )


def unit_pose(pose) -> np.ndarray:
    """The pose with its quaternion rounded to unit length in float64 instead of float32."""
    pose = np.asarray(pose, float)
    return np.concatenate([pose[:3], pose[3:] / np.linalg.norm(pose[3:])])


def _bound(value: float | None) -> float:
    """A recorded bound; ``None`` means no bound."""
    return np.inf if value is None else value


def drive_of(spec: dict) -> tuple[Drive | None, DriveEnvelope | None]:
    """The drive and the envelope that a recorded DOF describes."""
    if spec["drive"] is None:
        return None, None
    values = dict(spec["drive"])
    envelope = values.pop("envelope")
    values["acceleration"] = values.pop("type") == "acceleration"
    values["max_force"] = _bound(values["max_force"])
    if envelope is not None:
        envelope = DriveEnvelope(**{key: _bound(value) for key, value in envelope.items()})
    return Drive(**values), envelope


def joint_of(spec: dict) -> Joint:
    """The joint that a recorded joint describes."""
    dofs = spec["dofs"]
    drives = [drive_of(dof) for dof in dofs]
    return Joint(
        type=_TYPES[spec["type"]],
        axes=tuple(Axis[dof["axis"].upper()] for dof in dofs),
        name=spec["name"],
        parent_pose=unit_pose(spec["parent_pose"]),
        child_pose=unit_pose(spec["child_pose"]),
        limits=[None if dof["limit"] is None else tuple(dof["limit"]) for dof in dofs],
        armature=[dof["armature"] for dof in dofs],
        max_velocity=[_bound(dof["max_velocity"]) for dof in dofs],
        drive=[drive for drive, _ in drives],
        envelope=[envelope for _, envelope in drives],
        friction=[JointFriction(**(dof["friction"] or {})) for dof in dofs],
    )


def _fixed_tendon(spec: dict, index: int, names: dict) -> FixedTendon:
    keys = ("stiffness", "damping", "limit_stiffness", "offset", "rest_length", "limits")
    root, *joints = spec["tendon_joints"]
    return FixedTendon(
        name=f"tendon_{index}",
        root_link=names["links"][root["link"]],
        joints=[
            TendonJoint(
                dof=names["dofs"][joint["dof"]],
                coefficient=joint["coefficient"],
                recip_coefficient=joint["recip_coefficient"],
                parent=joint["parent"] - 1,
            )
            for joint in joints
        ],
        **{key: spec[key] for key in keys},
    )


def _spatial_tendon(spec: dict, index: int, names: dict) -> SpatialTendon:
    keys = ("stiffness", "damping", "limit_stiffness", "offset")
    fields = ("name", "parent", "coefficient", "position", "rest_length", "limits")
    return SpatialTendon(
        name=f"tendon_{index}",
        attachments=[
            Attachment(link=names["links"][point["link"]], **{key: point[key] for key in fields})
            for point in spec["attachments"]
        ],
        **{key: spec[key] for key in keys},
    )


def build(name: str, dtype=None) -> Articulation:
    """The articulation of a recorded mechanism; its links keep their recorded numbers."""
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
            linear_damping=link["linear_damping"],
            angular_damping=link["angular_damping"],
            max_linear_velocity=_bound(link["max_linear_velocity"]),
            max_angular_velocity=_bound(link["max_angular_velocity"]),
            cfm_scale=link["cfm_scale"],
            name=link["name"],
        )
    names = {"links": spec["link_names"], "dofs": spec["dof_names"]}
    for mimic in spec["mimic_joints"]:
        keys = ("gear_ratio", "offset", "natural_frequency", "damping_ratio")
        follower, reference = (spec["dof_names"][mimic[f"dof_{side}"]] for side in "ab")
        builder.add_mimic(follower, reference, **{key: mimic[key] for key in keys})
    for index, tendon in enumerate(spec["fixed_tendons"]):
        builder.add_fixed_tendon(_fixed_tendon(tendon, index, names))
    for index, tendon in enumerate(spec["spatial_tendons"]):
        builder.add_spatial_tendon(_spatial_tendon(tendon, index, names))
    return builder.build(dtype)


def states(name: str, dtype=None) -> State:
    """The recorded states of a mechanism in one batch."""
    data = recorded(name)
    arrays = [data[key] for key in ("in_root_pose", "in_root_velocity", "in_q", "in_qd")]
    return State(*(jnp.asarray(array, dtype) for array in arrays))
