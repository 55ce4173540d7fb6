"""Checks of the numbers in descriptors; messages say what is wrong, where, and what is accepted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from artix.math.arrays import unmasked


def check_fields(
    owner: object,
    where: str,
    *,
    finite: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    bounds: Sequence[str] = (),
) -> None:
    """Checks the numbers of a descriptor.

    Args:
      owner: the descriptor.
      where: what messages call it.
      finite: fields that must be finite numbers.
      not_negative: fields that must be finite and not negative.
      bounds: fields that must not be negative but may be infinite.

    Raises:
      ValueError: a field breaks its rule.
    """
    for names, low, infinite, rule in (
        (finite, -np.inf, False, "finite"),
        (not_negative, 0.0, False, "finite and not negative"),
        (bounds, 0.0, True, "not negative (inf for none)"),
    ):
        for name in names:
            value = number(getattr(owner, name), f"{where}: {name}")
            if not (value >= low and (infinite or np.isfinite(value))):
                raise ValueError(f"{where}: {name} must be {rule}; found {value}")


def is_index(value: object) -> bool:
    """Whether this is a whole number, such as the number of a link."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def number(value: object, where: str) -> float:
    """One real number; raises ``ValueError`` for anything else."""
    array = np.asarray(unmasked(value))
    if array.shape != () or array.dtype.kind not in "fiub":
        raise ValueError(f"{where} must be one number; found {value!r}")
    return float(array)


def finite_array(value: npt.ArrayLike, shape: tuple[int, ...], where: str) -> np.ndarray:
    """An array of exactly this shape with finite numbers only."""
    array = np.asarray(unmasked(value), float)
    if array.shape != shape:
        raise ValueError(f"{where}: expected shape {shape}, found {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{where}: every number must be finite; found {array.tolist()}")
    return array


def unit_pose(value: npt.ArrayLike, where: str) -> np.ndarray:
    """A pose [7] with its quaternion normalised; it may deviate from unit length only by
    rounding.
    """
    pose = finite_array(value, (7,), where)
    norm = float(np.linalg.norm(pose[3:]))
    if abs(norm - 1.0) > 1e-5:
        raise ValueError(
            f"{where}: the quaternion (xyzw) must have length 1; found length {norm:.6g}"
        )
    return np.concatenate([pose[:3], pose[3:] / norm])


def rotational_inertia(value: npt.ArrayLike | None, mass: float, where: str) -> np.ndarray:
    """A rotational inertia [3, 3] without negative moments, from a matrix, its diagonal, or
    ``None`` for zero.

    Moments that are negative only by rounding, see :func:`inertia_rounding`, become zero.

    Raises:
      ValueError: the shape is wrong, a number is not finite, the matrix is not symmetric, or it has
        a negative moment.
    """
    if value is None:
        return np.zeros((3, 3))
    array = np.asarray(unmasked(value), float)
    array = finite_array(
        np.diag(array) if array.shape == (3,) else array, (3, 3), f"{where}: inertia"
    )
    if np.abs(array - array.T).max() > inertia_rounding(mass, array):
        raise ValueError(f"{where}: the inertia must be symmetric; found {array.tolist()}")
    array = 0.5 * (array + array.T)
    if np.linalg.eigvalsh(array)[0] < -inertia_rounding(mass, array):
        raise ValueError(
            f"{where}: no mass distribution has a negative moment of inertia; "
            f"{principal_inertias(array)}; correct the inertia, whose moments and products must "
            "form a positive semi-definite matrix"
        )
    return without_negative_moments(array)


def without_negative_moments(inertia: np.ndarray) -> np.ndarray:
    """The nearest symmetric matrix without negative principal moments; the inertia itself if it has
    none.
    """
    moments, axes = np.linalg.eigh(inertia)
    if moments[0] >= 0.0:
        return inertia
    nearest = (axes * np.maximum(moments, 0.0)) @ axes.T
    return 0.5 * (nearest + nearest.T)


def inertia_rounding(mass: float, inertia: np.ndarray) -> float:
    """Tolerance within which moments of inertia may violate the laws of physics [kg m^2].

    It is a millionth of the largest entry (one unit of the sixth digit that exporters print, and a
    few float32 roundings), plus the moment of the mass at a micrometre, the size of the residues
    that CAD programs leave.
    """
    return 1e-6 * float(np.abs(inertia).max()) + 1e-12 * mass


def impossible_inertia(mass: float, inertia: np.ndarray) -> str | None:
    """Why this mass and inertia are physically impossible although dynamics are well defined, or
    ``None``.

    Args:
      mass: [kg], not negative.
      inertia: symmetric and positive semi-definite [kg m^2], shape [3, 3].
    """
    if mass == 0.0:
        return "a link without mass cannot have inertia" if np.any(inertia) else None
    least, middle, largest = np.linalg.eigvalsh(inertia)
    if least + middle < largest - inertia_rounding(mass, inertia):
        return (
            "the inertia breaks the triangle inequality (one principal moment exceeds the sum of "
            f"the others): {principal_inertias(inertia)}"
        )
    return None


def principal_inertias(inertia: np.ndarray) -> str:
    """The principal moments of an inertia, in words."""
    moments = ", ".join(f"{moment:.6g}" for moment in np.linalg.eigvalsh(inertia))
    return f"its principal inertias are ({moments}) kg m^2"


def interval(pair: tuple[float, float] | None, where: str) -> tuple[float, float]:
    """A (lower, upper) pair in order; ``None`` is unlimited."""
    if pair is None:
        return -np.inf, np.inf
    if np.shape(pair) != (2,):
        raise ValueError(f"{where}: limits must be pairs (lower, upper) or None; found {pair!r}")
    low, high = (number(limit, f"{where}: a limit") for limit in pair)
    if not low <= high:
        raise ValueError(f"{where}: the lower limit {low} must not exceed the upper limit {high}")
    if low == np.inf or high == -np.inf:
        raise ValueError(f"{where}: no position lies between the limits {low} and {high}")
    return low, high
