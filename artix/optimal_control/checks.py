"""Refuses arguments by name: shapes and dtypes while JAX traces, and values if they are known by
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


def known(value: Any) -> np.ndarray | None:
    """The values of an array, or ``None`` if JAX traces it."""
    return None if isinstance(value, jax.core.Tracer) else np.asarray(value)


def as_array(
    name: str, value: Any, shape: tuple[int | str, ...], dtype: Any, meaning: str
) -> Array:
    """An array of this shape and dtype.

    Args:
      name: what the user calls it.
      value: a JAX or NumPy array.
      shape: sizes of its axes; a name such as ``"T"`` stands for any size.
      dtype: the articulation's.
      meaning: what it holds, for the message.

    Returns:
      The array.

    Raises:
      TypeError: it is not an array, or has another dtype; nothing is promoted silently.
      ValueError: it has another shape.
    """
    wanted = f"[{', '.join(map(str, shape))}]"
    if not isinstance(value, jax.Array | np.ndarray):
        raise TypeError(
            f"{name}: expected an array of shape {wanted}, {meaning}; found {type(value).__name__}"
        )
    array = jnp.asarray(value)
    sizes = zip(shape, array.shape, strict=False)
    if array.ndim != len(shape) or any(
        size != other for size, other in sizes if not isinstance(size, str)
    ):
        hint = "; use jax.vmap over batches" if array.ndim > len(shape) else ""
        raise ValueError(f"{name}: expected shape {wanted}, {meaning}; found {array.shape}{hint}")
    if array.dtype != dtype:
        raise TypeError(
            f"{name}: expected dtype {dtype}, that of the articulation; found {array.dtype}. "
            "Convert the array, or the articulation with articulation.astype(...)"
        )
    return array


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raises unless a string is one of several."""
    if value not in choices:
        raise ValueError(
            f"{name}: expected one of {', '.join(map(repr, choices))}; found {value!r}"
        )


def check_positive(name: str, value: Any, unit: str) -> None:
    """Raises unless a number is positive and finite, if it is known."""
    values = known(value)
    if values is not None and not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"{name}: expected a positive number [{unit}]; found {value}")


def check_not_negative(name: str, value: Any) -> None:
    """Raises unless a number is finite and not negative, if it is known."""
    values = known(value)
    if values is not None and not np.all((values >= 0) & np.isfinite(values)):
        raise ValueError(f"{name}: expected a number that is not negative; found {value}")


def check_names(name: str, names: Any) -> None:
    """Raises unless names are a sequence of different strings."""
    if isinstance(names, str):
        raise TypeError(
            f"{name}: expected a sequence of names; found the string {names!r}: write [{names!r}]"
        )
    repeated = {each for each in names if list(names).count(each) > 1}
    if repeated:
        raise ValueError(f"{name}: {', '.join(map(repr, sorted(repeated)))} occurs more than once")
