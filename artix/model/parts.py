"""The arrays of an articulation by name: their shapes, and what a robot that lacks one has in its
place.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import device_array, entries, is_known, take
from artix.model.couplings import FixedTendons, LoopJoints, MimicJoints, SpatialTendons
from artix.model.geometry import Geometries
from artix.model.joints import DriveEnvelopes, Drives, JointFrictions
from artix.model.topology import Topology

#: The fields of an articulation with one row per link, and those with one per DOF.
PER_LINK = (
    *(
        "link_mass",
        "link_com_pose",
        "link_inertia",
        "joint_parent_pose",
        "joint_child_pose",
        "gravity_scale",
    ),
    *(
        "link_linear_damping",
        "link_angular_damping",
        "max_link_linear_velocity",
        "max_link_angular_velocity",
    ),
    "link_cfm_scale",
)
PER_DOF = (
    *(
        "joint_pitch",
        "armature",
        "joint_lower_limit",
        "joint_upper_limit",
        "max_joint_velocity",
        "max_joint_force",
    ),
    *("drive", "envelope", "friction"),
)

#: The fields that are groups of arrays.
GROUPS: Mapping[str, type] = {
    "drive": Drives,
    "envelope": DriveEnvelopes,
    "friction": JointFrictions,
    "mimic": MimicJoints,
    "fixed_tendons": FixedTendons,
    "spatial_tendons": SpatialTendons,
    "loop_joints": LoopJoints,
    "geometry": Geometries,
}

#: The arrays that every articulation has.
REQUIRED = frozenset(
    (
        "link_mass",
        "link_com_pose",
        "link_inertia",
        "joint_parent_pose",
        "joint_child_pose",
        "gravity",
    )
)

#: The arrays that a robot may lack, and the number that stands for what it lacks. Of couplings and
#: shapes that it does not have, it lacks all arrays.
OPTIONAL: Mapping[str, float] = {
    **dict.fromkeys(
        ("joint_pitch", "armature", "link_linear_damping", "link_angular_damping"), 0.0
    ),
    **dict.fromkeys(("drive.stiffness", "drive.damping", "drive.is_acceleration"), 0.0),
    **dict.fromkeys(("drive.target_position", "drive.target_velocity"), 0.0),
    **dict.fromkeys(("friction.static", "friction.dynamic", "friction.viscous"), 0.0),
    **dict.fromkeys(
        ("envelope.velocity_dependent_resistance", "envelope.speed_effort_gradient"), 0.0
    ),
    **dict.fromkeys(("mimic.offset", "mimic.natural_frequency", "mimic.damping_ratio"), 0.0),
    **dict.fromkeys(("geometry.friction", "geometry.restitution", "geometry.damping"), 0.0),
    **dict.fromkeys(
        ("max_joint_velocity", "max_joint_force", "drive.max_force", "joint_upper_limit"), np.inf
    ),
    **dict.fromkeys(
        ("max_link_linear_velocity", "max_link_angular_velocity", "geometry.stiffness"), np.inf
    ),
    **dict.fromkeys(("envelope.max_effort", "envelope.max_actuator_velocity"), np.inf),
    "joint_lower_limit": -np.inf,
    "gravity_scale": 1.0,
    "link_cfm_scale": 0.025,
}

_INNER = {"link_inertia": (3, 3), "gravity": (3,), "geometry.size": (3,), "geometry.point": (3,)}
_INNER |= {"spatial_tendons.position": (3,), "loop_joints.pose_a": (7,), "loop_joints.pose_b": (7,)}


def names_in(field: str) -> tuple[str, ...]:
    """The names of the arrays of a field: its own, or its group's, such as
    ``"drive.stiffness"``.
    """
    group = GROUPS.get(field)
    return (
        (field,)
        if group is None
        else tuple(f"{field}.{one.name}" for one in dataclasses.fields(group))
    )


@functools.lru_cache(maxsize=256)
def shapes_of(topology: Topology) -> Mapping[str, tuple[int, ...]]:
    """The shapes of the arrays of an articulation of this topology, by their names."""
    fixed = topology.fixed_tendons
    spatial = topology.spatial_tendons
    lengths = dict.fromkeys(PER_LINK, topology.num_links) | dict.fromkeys(
        PER_DOF, topology.num_dofs
    )
    lengths |= {
        "frame_local_pose": len(topology.frame_names),
        "mimic": len(topology.mimic_dofs),
        "fixed_tendons": len(fixed),
        "spatial_tendons": len(spatial),
        "loop_joints": len(topology.loop_joints),
        "geometry": len(topology.geometries),
    }
    rows = {name: length for field, length in lengths.items() for name in names_in(field)}
    joints = sum(len(tendon.dofs) for tendon in fixed)
    points = sum(len(tendon.links) for tendon in spatial)
    rows |= dict.fromkeys(("fixed_tendons.coefficient", "fixed_tendons.recip_coefficient"), joints)
    per_point = ("position", "coefficient", "rest_length", "lower_limit", "upper_limit")
    rows |= {f"spatial_tendons.{name}": points for name in per_point}
    rows["geometry.point"] = sum(shape.num_points for shape in topology.geometries)
    shapes = {name: (count, *_inner_axes(name)) for name, count in rows.items()}
    return shapes | {"gravity": (3,)}


def _inner_axes(name: str) -> tuple[int, ...]:
    return _INNER.get(name, (7,) if name.endswith("pose") else ())


#: What :func:`constant` made, and the number in it by its identity.
_constants: dict[Any, Any] = {}
_numbers: dict[int, float] = {}
_MOST_CONSTANTS = 1024


def constant(shape: tuple[int, ...], dtype: Any, number: float, on_host: bool) -> Any:
    """An array of one number that stands for what a robot lacks, the same object whenever it is
    read.

    So a robot to which such an array is given still lacks it.
    """
    config: Any = jax.config
    key = shape, np.dtype(dtype), number, on_host, bool(config.jax_enable_x64)
    array = _constants.get(key)
    if array is not None and (on_host or not array.is_deleted()):  # It may have been donated.
        return array
    if len(_constants) >= _MOST_CONSTANTS:
        _constants.clear()
        _numbers.clear()
    _numbers.pop(id(array), None)
    array = np.full(shape, number, dtype)
    array.setflags(write=False)
    if not on_host:
        with jax.ensure_compile_time_eval():
            array = device_array(array)
    _constants[key] = array
    _numbers[id(array)] = number
    return array


def is_absent(topology: Topology, name: str, value: Any) -> bool:
    """Whether an array says that the robot lacks it: ``None``, the constant that stands for it, or
    without rows.
    """
    if value is None:
        return True
    if name in OPTIONAL and id(value) in _numbers:
        return _numbers[id(value)] == OPTIONAL[name]
    return getattr(value, "size", None) == 0 and 0 in shapes_of(topology)[name]


def is_known_to_be_absent(name: str, value: Any) -> bool:
    """Whether all numbers of an array are known, and are what stands for it in a robot that lacks
    it.
    """
    return (
        name in OPTIONAL and is_known(value) and bool(np.all(np.asarray(value) == OPTIONAL[name]))
    )


@dataclasses.dataclass(frozen=True)
class KnownEntries:
    """The entries of an array that belong to the structure of a robot: zeros, infinite limits,
    plain rotations.

    Attributes:
      shape: the shape of the array.
      places: for each of its entries, the place of its number among all that vary, then the known
        ones; as bytes.
      numbers: the known numbers.
    """

    shape: tuple[int, ...]
    places: bytes
    numbers: tuple[float, ...]

    @classmethod
    def of(cls, name: str, arrays: np.ndarray) -> KnownEntries | None:
        """The known entries of the array of this name, ``None`` if there are none.

        Args:
          name: its name; of poses, quaternions of no turn and half a turn are known as a whole.
          arrays: the arrays of several robots [N, ...], which must agree in what is known.
        """
        first = arrays[0]
        alike = np.all(arrays == first, axis=0)
        known = alike & ((first == 0) | np.isinf(first))
        if "pose" in name:
            plain = np.sum(first[..., 3:] != 0, axis=-1, keepdims=True) == 1
            known[..., 3:] |= plain & np.all(alike[..., 3:], axis=-1, keepdims=True)
        if not known.any():
            return None
        numbers, which = np.unique(first[known], return_inverse=True)
        places = np.zeros(first.shape, np.int32)
        places[~known] = np.arange(np.sum(~known))
        places[known] = np.sum(~known) + which.ravel()
        return cls(first.shape, places.tobytes(), tuple(numbers.tolist()))

    @functools.cached_property
    def _places(self) -> np.ndarray:
        return np.frombuffer(self.places, np.int32)

    @functools.cached_property
    def _varying(self) -> np.ndarray:
        """The entries that vary, in the flat array, [k]."""
        return np.flatnonzero(self._places <= self._places.max() - len(self.numbers))

    @property
    def varying_shape(self) -> tuple[int]:
        """The shape of the entries that vary."""
        return self._varying.shape

    def whole(self, varying: Any) -> Any:
        """The array, given the entries that vary [..., k]."""
        if not hasattr(varying, "dtype"):  # An axis or a flag.
            return varying
        xp: Any = np if isinstance(varying, np.ndarray) or is_known(varying) else jnp
        known = xp.broadcast_to(
            np.asarray(self.numbers, varying.dtype), (*varying.shape[:-1], len(self.numbers))
        )
        every = xp.concatenate([xp.asarray(varying), known], axis=-1)
        flat = every[..., self._places] if xp is np else take(every, self._places)
        array = flat.reshape(*varying.shape[:-1], *self.shape)
        if isinstance(varying, np.ndarray) or xp is jnp:
            return array
        with jax.ensure_compile_time_eval():
            return device_array(array)

    def varying(self, array: Any) -> Any:
        """The entries of an array [..., *shape] that vary, [..., k]."""
        flat = array.reshape(*array.shape[: array.ndim - len(self.shape)], -1)
        return entries(flat, (..., self._varying))
