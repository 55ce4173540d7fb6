"""The numbers of an articulation: what a builder accepts, how files write them, what a format
cannot express.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from artix.math.arrays import unmasked
from artix.model.articulation import Articulation, with_equal_parts
from artix.model.builder import STANDARD_GRAVITY
from artix.model.checks import check_type
from artix.model.geometry import GeometryType
from artix.model.topology import Topology

#: Arrays by the rule that they must satisfy; all others must be finite.
_NOT_NEGATIVE = (
    *("link_mass", "armature", "link_linear_damping", "link_angular_damping", "link_cfm_scale"),
    *(
        "drive.stiffness",
        "drive.damping",
        "friction.static",
        "friction.dynamic",
        "friction.viscous",
    ),
    *("envelope.velocity_dependent_resistance", "envelope.speed_effort_gradient"),
    *("mimic.natural_frequency", "mimic.damping_ratio", "loop_joints.min_distance"),
    *("geometry.size", "geometry.friction", "geometry.damping"),
    *("fixed_tendons.stiffness", "fixed_tendons.damping", "fixed_tendons.limit_stiffness"),
    *("spatial_tendons.stiffness", "spatial_tendons.damping", "spatial_tendons.limit_stiffness"),
)
_BOUNDS = (
    *(
        "max_joint_velocity",
        "max_joint_force",
        "max_link_linear_velocity",
        "max_link_angular_velocity",
    ),
    *(
        "drive.max_force",
        "envelope.max_effort",
        "envelope.max_actuator_velocity",
        "loop_joints.max_distance",
    ),
)
_POSES = (
    *("link_com_pose", "joint_parent_pose", "joint_child_pose", "frame_local_pose"),
    *("geometry.pose", "loop_joints.pose_a", "loop_joints.pose_b"),
)
_INTERVALS = {
    "joint_lower_limit": "joint_upper_limit",
    "fixed_tendons.lower_limit": "fixed_tendons.upper_limit",
    "spatial_tendons.lower_limit": "spatial_tendons.upper_limit",
}

_RULES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    **dict.fromkeys(
        _NOT_NEGATIVE, (lambda x: (x >= 0.0) & np.isfinite(x), "must be finite and not negative")
    ),
    **dict.fromkeys(_BOUNDS, (lambda x: x >= 0.0, "must not be negative (inf for none)")),
    **dict.fromkeys(
        (*_INTERVALS, *_INTERVALS.values()), (lambda x: ~np.isnan(x), "must not be NaN")
    ),
    **dict.fromkeys(_POSES, (lambda x: _is_pose(x), "must be finite, its quaternions of length 1")),
    "geometry.restitution": (lambda x: (x >= 0.0) & (x <= 1.0), "must lie in [0, 1]"),
    "geometry.stiffness": (lambda x: x > 0.0, "must be positive (inf for rigid)"),
    "link_inertia": (
        lambda x: _is_inertia(x),
        "must be symmetric, without negative moments of inertia",
    ),
}


def named_arrays(articulation: Articulation) -> dict[str, np.ndarray]:
    """All arrays of an articulation by names such as ``"drive.stiffness"``, with those that it
    lacks.
    """
    (every,) = with_equal_parts([articulation], articulation.absent)
    return {
        name: np.ascontiguousarray(unmasked(array)).reshape(np.shape(array))
        for name, array in every.arrays.items()
    }


def written_arrays(articulation: Articulation) -> dict[str, np.ndarray]:
    """:func:`named_arrays` of an articulation that a file can hold.

    Raises:
      TypeError: it is no articulation, or not of float32 or float64: coarser numbers have no unit
        quaternions.
      ValueError: a builder would refuse a number, as the readers would.
    """
    check_type("articulation", articulation, Articulation)
    arrays = named_arrays(articulation)
    wrong = {
        name: str(array.dtype)
        for name, array in arrays.items()
        if array.dtype.name not in ("float32", "float64", "object")  # None in a derivative
    }
    if wrong:
        raise TypeError(
            f"arrays must be of float32 or float64; found {wrong}; convert with "
            "articulation.astype(...)"
        )
    check_values(arrays)
    return arrays


def shortest(numbers: npt.ArrayLike) -> np.ndarray:
    """Numbers for a file, in float64: the fewest decimals that read back as the same numbers in
    their dtype.

    Examples:
      >>> from artix.io.common.values import shortest
      >>> print(float(np.float32(0.02)), float(shortest(np.float32(0.02))))
      0.019999999552965164 0.02
    """
    array = np.asarray(numbers)
    if array.dtype == np.float64:
        return array
    return np.array(
        [float(str(value)) for value in array.astype(np.float32).ravel()], float
    ).reshape(array.shape)


def check_values(arrays: dict[str, np.ndarray]) -> None:
    """Refuses numbers that a builder would refuse.

    Args:
      arrays: all arrays of an articulation, by names such as ``"drive.stiffness"``.

    Raises:
      ValueError: a number is invalid; the message names the array.
    """
    for name, array in arrays.items():
        rule, requirement = _RULES.get(name, (np.isfinite, "must be finite"))
        with np.errstate(all="ignore"):
            holds = np.all(rule(array.astype(float)))
        if not holds:
            raise ValueError(f"{name}: {requirement}")
    for low, high in _INTERVALS.items():
        if not np.all(arrays[low] <= arrays[high]):
            raise ValueError(f"{low}: must not exceed {high}")
    if not np.all(arrays["friction.dynamic"] <= arrays["friction.static"]):
        raise ValueError("friction.dynamic: must not exceed friction.static")


def _is_pose(poses: np.ndarray) -> np.ndarray:
    return np.isfinite(poses).all(axis=-1) & (
        np.abs(np.linalg.norm(poses[..., 3:], axis=-1) - 1.0) <= 1e-5
    )


def _is_inertia(inertia: np.ndarray) -> np.ndarray:
    size = np.abs(inertia).max(axis=(-2, -1), initial=0.0)
    if not np.all(np.isfinite(size)):
        return np.zeros(1, bool)
    # Float32 rounding is tolerated in both checks, as in the builder.
    symmetric = (
        np.abs(inertia - np.swapaxes(inertia, -1, -2)).max(axis=(-2, -1), initial=0.0)
        <= 1e-6 * size
    )
    return symmetric & (np.linalg.eigvalsh(inertia)[..., 0] >= -1e-6 * size)


# --- what a format cannot express ---------------------------------------------------------------


def writable_topology(articulation: Articulation) -> Topology:
    """Returns the topology of an articulation, which must not be batched, and checks its numbers.

    Raises:
      TypeError: as :func:`written_arrays`.
      ValueError: its arrays have leading axes, or a builder would refuse a number, as the readers
        would.
    """
    check_type("articulation", articulation, Articulation)
    if articulation.link_mass.ndim != 1:
        raise ValueError(
            "only one articulation can be written; its arrays have leading axes: pick one of the "
            "batch"
        )
    written_arrays(articulation)
    return articulation.topology


def unsupported_features(
    articulation: Articulation, supported: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yields what an articulation uses and a format cannot describe: the element, and a phrase for
    messages.

    Args:
      articulation: a single articulation.
      supported: the features, by their names in :func:`_features`, that the format expresses or the
        writer handles.
    """
    return (
        (element, what)
        for feature, element, what in _features(articulation, supported)
        if feature not in supported
    )


def _features(
    articulation: Articulation, supported: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """Yields each feature in use, but for those of shapes that a format does not support: its name,
    the element that uses it, and a phrase for messages.
    """
    topology = articulation.topology
    drive = articulation.drive
    friction = articulation.friction
    envelope = articulation.envelope
    per_dof: dict[str, tuple[Any, str]] = {
        "armature": (articulation.armature != 0.0, "armature"),
        "max_velocity": (articulation.max_joint_velocity < np.inf, "its speed limit"),
        "max_force": (articulation.max_joint_force < np.inf, "its effort limit"),
        "drive": ((drive.stiffness != 0.0) | (drive.damping != 0.0), "its drive"),
        "envelope": (envelope.max_effort < np.inf, "its performance envelope"),
        "viscous": (friction.viscous != 0.0, "viscous friction"),
        "friction": (friction.static != 0.0, "dry friction"),
        "stiction": (
            friction.static != friction.dynamic,
            "static friction other than dynamic friction",
        ),
    }
    for feature, (used, what) in per_dof.items():
        for dof in np.flatnonzero(np.asarray(used)):
            yield feature, f"joint {topology.dof_names[dof]!r}", what
    per_link: dict[str, tuple[Any, str]] = {
        "gravity_scale": (articulation.gravity_scale != 1.0, "its gravity scale"),
        "link_damping": (
            (articulation.link_linear_damping + articulation.link_angular_damping) != 0.0,
            "its damping",
        ),
        "link_velocity": (
            np.minimum(
                articulation.max_link_linear_velocity, articulation.max_link_angular_velocity
            )
            < np.inf,
            "its speed limits",
        ),
        "cfm_scale": (~np.isclose(articulation.link_cfm_scale, 0.025), "its cfm scale"),
    }
    for feature, (used, what) in per_link.items():
        for link in np.flatnonzero(np.asarray(used)):
            yield feature, f"link {topology.link_names[link]!r}", what
    if not np.allclose(articulation.gravity, STANDARD_GRAVITY):
        yield "gravity", "gravity", f"a gravity of {np.asarray(articulation.gravity).tolist()}"
    for index, (follower, _) in enumerate(topology.mimic_dofs):
        yield "mimic", f"joint {topology.dof_names[follower]!r}", "its mimic relation"
        if articulation.mimic.natural_frequency[index] > 0:
            yield (
                "mimic_compliance",
                f"joint {topology.dof_names[follower]!r}",
                "the compliance of its mimic relation",
            )
    yield from _geometry_features(articulation, topology, supported)
    for kind in ("fixed_tendon", "spatial_tendon", "loop_joint"):
        for coupling in getattr(topology, f"{kind}s"):
            yield kind, f"{kind.replace('_', ' ')} {coupling.name!r}", f"a {kind.replace('_', ' ')}"


#: Shapes that not all formats have, and what reports call them.
_OF_SOME_FORMATS = {GeometryType.HULL: "a hull of points", GeometryType.ELLIPSOID: "an ellipsoid"}


def _geometry_features(
    articulation: Articulation, topology: Topology, supported: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """The same for shapes: each shape itself, and each material parameter that differs from its
    default.
    """
    arrays = articulation.geometry
    materials = {
        "friction": (arrays.friction != 0.0, "its friction"),
        "restitution": (arrays.restitution != 0.0, "its restitution"),
        "stiffness": (arrays.stiffness < np.inf, "its stiffness"),
    }
    paired = {name for pair in topology.geometry_pairs for name in pair}
    for a, b in topology.geometry_pairs:
        yield "geometry_pair", f"geometry {a!r}", f"its contact with {b!r}"
    for k, shape in enumerate(topology.geometries):
        where = f"geometry {shape.name!r}"
        feature, what = "geometry", shape.type.noun
        if shape.sensor:
            feature += "_paired_sensor" if shape.name in paired else "_sensor"
            what = "a sensor shape"
        elif shape.type in _OF_SOME_FORMATS:
            feature, what = f"geometry_{shape.type.value}", _OF_SOME_FORMATS[shape.type]
        yield feature, where, what
        if feature in supported:
            for material, (used, of_material) in materials.items():
                if used[k]:
                    yield f"geometry_{material}", where, of_material
