"""Checks that arrays read from a file, batched or not, contain only numbers that a builder would accept."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import numpy.typing as npt

from artix.math.arrays import unmasked
from artix.model.articulation import Articulation

#: Arrays by the rule that they must satisfy; all others must be finite.
_NOT_NEGATIVE = (
    *("link_mass", "armature", "link_linear_damping", "link_angular_damping", "link_cfm_scale"),
    *("drive.stiffness", "drive.damping", "friction.static", "friction.dynamic", "friction.viscous"),
    *("envelope.velocity_dependent_resistance", "envelope.speed_effort_gradient"),
    *("mimic.natural_frequency", "mimic.damping_ratio", "loop_joints.min_distance"),
    *("geometry.size", "geometry.friction", "geometry.damping"),
    *("fixed_tendons.stiffness", "fixed_tendons.damping", "fixed_tendons.limit_stiffness"),
    *("spatial_tendons.stiffness", "spatial_tendons.damping", "spatial_tendons.limit_stiffness"),
)
_BOUNDS = (
    *("max_joint_velocity", "max_joint_force", "max_link_linear_velocity", "max_link_angular_velocity"),
    *("drive.max_force", "envelope.max_effort", "envelope.max_actuator_velocity", "loop_joints.max_distance"),
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
    **dict.fromkeys(_NOT_NEGATIVE, (lambda x: (x >= 0.0) & np.isfinite(x), "must be finite and not negative")),
    **dict.fromkeys(_BOUNDS, (lambda x: x >= 0.0, "must not be negative (inf for none)")),
    **dict.fromkeys((*_INTERVALS, *_INTERVALS.values()), (lambda x: ~np.isnan(x), "must not be NaN")),
    **dict.fromkeys(_POSES, (lambda x: _is_pose(x), "must be finite, its quaternions of length 1")),
    "geometry.restitution": (lambda x: (x >= 0.0) & (x <= 1.0), "must lie in [0, 1]"),
    "geometry.stiffness": (lambda x: x > 0.0, "must be positive (inf for rigid)"),
    "link_inertia": (lambda x: _is_inertia(x), "must be symmetric, without negative moments of inertia"),
}


def named_arrays(articulation: Articulation) -> dict[str, np.ndarray]:
    """The arrays of an articulation by names such as ``"drive.stiffness"``, in the order of the pytree's leaves."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(articulation)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.ascontiguousarray(unmasked(leaf)).reshape(
            np.shape(leaf)
        )
        for path, leaf in leaves
    }


def shortest(numbers: npt.ArrayLike) -> np.ndarray:
    """Numbers for a file, in float64: the fewest decimals that read back as the same numbers in their dtype.

    Examples:
      >>> from artix.io.common.values import shortest
      >>> print(float(np.float32(0.02)), float(shortest(np.float32(0.02))))
      0.019999999552965164 0.02
    """
    array = np.asarray(numbers)
    if array.dtype == np.float64:
        return array
    return np.array([float(str(value)) for value in array.astype(np.float32).ravel()], float).reshape(array.shape)


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
    return np.isfinite(poses).all(axis=-1) & (np.abs(np.linalg.norm(poses[..., 3:], axis=-1) - 1.0) <= 1e-5)


def _is_inertia(inertia: np.ndarray) -> np.ndarray:
    size = np.abs(inertia).max(axis=(-2, -1), initial=0.0)
    if not np.all(np.isfinite(size)):
        return np.zeros(1, bool)
    # Float32 rounding is tolerated in both checks, as in the builder.
    symmetric = np.abs(inertia - np.swapaxes(inertia, -1, -2)).max(axis=(-2, -1), initial=0.0) <= 1e-6 * size
    return symmetric & (np.linalg.eigvalsh(inertia)[..., 0] >= -1e-6 * size)
