"""Refusing bad numbers while an articulation is described and built: each with what, where and what would do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def check_fields(
    owner: object,
    where: str,
    *,
    finite: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    bounds: Sequence[str] = (),
) -> None:
    """Checks numbers of a descriptor.

    Args:
      owner: the descriptor.
      where: how to name it in a message.
      finite: fields that must be finite numbers.
      not_negative: fields that must be finite and not negative.
      bounds: fields that must not be negative but may be infinite.

    Raises:
      ValueError: a field is not what it must be.
    """
    for names, low, infinite, wanted in (
        (finite, -np.inf, False, "finite"),
        (not_negative, 0.0, False, "finite and not negative"),
        (bounds, 0.0, True, "not negative (inf for none)"),
    ):
        for name in names:
            value = number(getattr(owner, name), f"{where}: {name}")
            if not (value >= low and (infinite or np.isfinite(value))):
                raise ValueError(f"{where}: {name} must be {wanted}; found {value}")


def number(value: object, where: str) -> float:
    """One real number; raises ``ValueError`` for anything else."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "fiub":
        raise ValueError(f"{where} must be one number; found {value!r}")
    return float(array)


def finite_array(value: npt.ArrayLike, shape: tuple[int, ...], where: str) -> np.ndarray:
    """An array of exactly this shape with finite numbers only."""
    array = np.asarray(value, float)
    if array.shape != shape:
        raise ValueError(f"{where}: expected shape {shape}, found {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{where}: every number must be finite; found {array.tolist()}")
    return array


def unit_pose(value: npt.ArrayLike, where: str) -> np.ndarray:
    """A pose [7] whose quaternion has unit length but for rounding, which is taken off."""
    pose = finite_array(value, (7,), where)
    norm = float(np.linalg.norm(pose[3:]))
    if abs(norm - 1.0) > 1e-5:
        raise ValueError(f"{where}: the quaternion (xyzw) must have length 1; found length {norm:.6g}")
    return np.concatenate([pose[:3], pose[3:] / norm])


def physical_inertia(value: npt.ArrayLike | None, where: str) -> np.ndarray:
    """The rotational inertia [3, 3] of some distribution of mass, from a matrix, its diagonal, or ``None`` for zero."""
    if value is None:
        return np.zeros((3, 3))
    array = np.asarray(value, float)
    array = finite_array(np.diag(array) if array.shape == (3,) else array, (3, 3), f"{where}: inertia")
    size = np.abs(array).max()
    if np.abs(array - array.T).max() > 1e-9 * size:
        raise ValueError(f"{where}: the inertia must be symmetric; found {array.tolist()}")
    least, middle, largest = np.linalg.eigvalsh(array)
    # Recorded and CAD inertias carry float32 rounding, so both bounds give way by a few units of it.
    if least < -1e-6 * size or least + middle < largest * (1.0 - 1e-6):
        raise ValueError(
            f"{where}: no mass distribution has the principal inertias "
            f"({least:.6g}, {middle:.6g}, {largest:.6g}); they "
            "must not be negative and no one may exceed the sum of the others"
        )
    return 0.5 * (array + array.T)


def interval(pair: tuple[float, float] | None, where: str) -> tuple[float, float]:
    """A (lower, upper) pair in order; ``None`` is unlimited."""
    if pair is None:
        return -np.inf, np.inf
    low, high = float(pair[0]), float(pair[1])
    if not low <= high:
        raise ValueError(f"{where}: the lower limit {low} must not exceed the upper limit {high}")
    return low, high
