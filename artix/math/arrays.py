"""Matrix products in full float32 precision, indexing without bounds checks, and arrays that are
made.

Outside ``jax.jit`` JAX compiles each operation for each shape; here arrays that are known are made
by NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
Tree = TypeVar("Tree")


def is_known(*arrays: Any) -> bool:
    """Whether NumPy may compute with all the arrays: none is traced, and none has been placed on
    devices of its own.
    """
    return not any(
        isinstance(x, jax.core.Tracer) or (isinstance(x, Array) and x.committed) for x in arrays
    )


def known_values(value: Any) -> np.ndarray | None:
    """The values of an array of floating-point numbers if this process can read them now; ``None``
    if JAX traces it.

    In a function under ``jax.vmap``, they count as traced.
    """
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind == "f" else None
    if (
        isinstance(value, jax.core.Tracer)
        or not isinstance(value, jax.Array)
        or value.dtype.kind != "f"
    ):
        return None
    if not (value.is_fully_addressable or value.is_fully_replicated):
        return None
    return np.asarray(value)


def check_finite(name: str, value: Any, fix: str = "", *, infinite: bool = False) -> None:
    """Raises ``ValueError`` if an array has a number that is not finite, unless JAX traces it.

    Args:
      name: what the user calls it.
      value: the array; what is not an array is not checked.
      fix: what to do about it, for the message.
      infinite: whether numbers may be infinite.
    """
    values = known_values(value)
    # The square of all numbers is cheap, and finite unless one of them is not, or is huge.
    if values is None or np.vdot(values, values) < np.inf:
        return
    wrong = np.isnan(values) if infinite else ~np.isfinite(values)
    config: Any = jax.config  # JAX declares its options from 0.12 on.
    # There JAX calls the functions inside of a compiled one with values, and reports NaNs itself.
    if not wrong.any() or config.jax_debug_nans or config.jax_disable_jit:
        return
    where = tuple(int(index) for index in np.argwhere(wrong)[0])
    at = f" at [{', '.join(map(str, where))}]" if where else ""
    raise ValueError(f"{name}: every number must be finite; found {values[where]}{at}{fix}")


def one_array(x: Any) -> Any:
    """Sequences of numbers of which some are traced as one traced array; everything else as it
    is.
    """
    return (
        jnp.asarray(x)
        if any(isinstance(number, jax.core.Tracer) for number in jax.tree.leaves(x))
        else x
    )


def check_floating(dtype: Any) -> None:
    """Raises ``TypeError`` unless ``dtype`` is one that artix computes in, and JAX has it now: it
    would make float32 of float64 with nothing but a warning for each array.
    """
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"dtype: expected a floating-point type such as float32, found {dtype}")
    kind = np.dtype(dtype)
    if kind.name not in ("float32", "float64"):
        raise TypeError(f"dtype: artix computes in float32 or float64, found {kind.name}")
    if jax.dtypes.canonicalize_dtype(kind) != kind:
        raise TypeError(
            "dtype: float64 needs JAX's x64 mode: call jax.config.update('jax_enable_x64', True) "
            "first, or enter `with jax.enable_x64(True):`"
        )


def unmasked(x: Any) -> Any:
    """The argument; raises ``TypeError`` if it is a masked array of NumPy, whose mask every
    conversion drops.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            "masked arrays are refused, as their masks would be lost; convert them with "
            "array.filled(value)"
        )
    return x


def device_array(x: Any, dtype: Any = None) -> Array:
    """``jnp.asarray`` of a copy, without compiling anything for values that are known.

    JAX compiles a program for each shape to convert a value to another dtype, or a NumPy array of
    which it is not told the dtype. A robot has some 70 arrays: loading one took ten times as long
    with ``jnp.asarray``.

    Args:
      x: an array of JAX (traced or not) or NumPy, a number, or nested sequences of numbers.
      dtype: as for ``jnp.asarray``.

    Raises:
      TypeError: it is a masked array of NumPy.
    """
    if not is_known(unmasked(x)) or (isinstance(x, Array) and dtype in (None, x.dtype)):
        return jnp.asarray(x, dtype)
    with np.errstate(
        over="ignore"
    ):  # What is beyond the range of dtype becomes infinite, as in JAX.
        known = np.array(x, dtype)  # A copy, which JAX may keep without another one.
        known = known.astype(jax.dtypes.canonicalize_dtype(known.dtype), copy=False)
    return jnp.asarray(known, known.dtype if dtype is None else dtype)


def host_arrays(tree: Tree) -> Tree:
    """The same tree with NumPy arrays, of which single entries can be read without compiling
    anything.
    """
    return jax.tree.map(np.asarray, tree)


def entries(x: Array, index: Any) -> Array:
    """``x[index]``, without compiling anything where ``x`` is known (see :func:`is_known`)."""
    return device_array(np.asarray(x)[index]) if is_known(x) else x[index]


def with_entries(x: Array, index: Any, values: Array | float) -> Array:
    """``x.at[index].set(values)``, without compiling anything where both are known."""
    if not is_known(x, values):
        return x.at[index].set(values)
    known = np.array(x)
    known[index] = values
    return device_array(known)


def concatenate(arrays: Sequence[Array]) -> Array:
    """``jnp.concatenate``, without compiling anything where all arrays are known."""
    return device_array(np.concatenate(arrays)) if is_known(*arrays) else jnp.concatenate(arrays)


def identity(size: int, dtype: Any) -> Array:
    """The identity matrix, known. What JAX traces for ``jnp.eye`` takes ten times as long."""
    return jnp.asarray(np.eye(size, dtype=dtype))


def block_matrix(a: Array, b: Array, c: Array, d: Array) -> Array:
    """The matrix of the blocks ``[[a, b], [c, d]]`` over the first two axes."""
    return jnp.concatenate([jnp.concatenate([a, b], axis=1), jnp.concatenate([c, d], axis=1)])


def joined(parts: Sequence[Any]) -> Any:
    """Concatenates arrays, or pytrees of them, along their first axes; a single part is returned
    unchanged.
    """
    return (
        parts[0]
        if len(parts) == 1
        else jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    )


def chosen(condition: Array, yes: Tree, no: Tree) -> Tree:
    """``jnp.where`` for pytrees."""

    def of_arrays(a: Array, b: Array) -> Array:
        is_plain = jnp.shape(condition) in ((), a.shape) and (a.shape, a.dtype) == (
            b.shape,
            b.dtype,
        )
        return jax.lax.select(condition, a, b) if is_plain else jnp.where(condition, a, b)

    return jax.tree.map(of_arrays, yes, no)


def square_root(square: Array, least: float = 0.0) -> Array:
    """The square root; up to the least number, zero with zero derivative. NaN stays NaN."""
    is_least = square <= least
    return jnp.where(is_least, 0, jnp.sqrt(jnp.where(is_least, 1, square)))


def smallest(x: Array, most: float) -> Array:
    """The least entry of an array, at most ``most``, which is also that of an empty array.

    It is ``jnp.min(x, initial=most)``, of which JAX makes the tangent NaN where ``x`` is empty.
    """
    return jnp.min(x, initial=most) if x.size else jnp.asarray(most, x.dtype)


def largest_magnitude(x: Array) -> Array:
    """The largest magnitude of an array's entries; zero, with the tangent zero, if it is empty (see
    :func:`smallest`).
    """
    return jnp.max(jnp.abs(x)) if x.size else jnp.zeros((), x.dtype)


def matmul(a: Array, b: Array) -> Array:
    """``jnp.matmul`` in full precision: by default a GPU would round float32 operands to TF32, with
    3 digits.

    Examples:
      >>> a, b = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.eye(2)
      >>> print(artix.lie.matmul(a, b))
      [[1. 2.]
       [3. 4.]]
    """
    # What JAX traces for ``jnp.matmul`` takes four times as long.
    is_plain = 0 < a.ndim <= 2 and 0 < b.ndim <= 2 and a.dtype == b.dtype
    product = jax.lax.dot if is_plain else jnp.matmul
    return product(a, b, precision=jax.lax.Precision.HIGHEST)


def masked_sum(x: Array, mask) -> Array:
    """Sums of the columns of ``x`` [..., m] that a mask [m, n] selects, ``matmul(x, mask)``:
    [..., n].
    """
    return matmul(x, jnp.asarray(mask, x.dtype))


def take(x: Array, index, axis: int = -1) -> Array:
    """``jnp.take`` for indices in bounds and not negative; becomes a slice, or ``x`` itself, where
    that suffices.
    """
    axis = axis % x.ndim
    is_plain = isinstance(index, np.ndarray) and index.ndim == 1
    if is_plain and _is_run(index):
        first = int(index[0]) if len(index) else 0
        if len(index) == x.shape[axis]:
            return x
        return jax.lax.slice_in_dim(jnp.asarray(x), first, first + len(index), axis=axis)
    if not is_plain:
        return (
            jnp.asarray(x)
            .at[(*(slice(None),) * axis, index)]
            .get(mode="promise_in_bounds", wrap_negative_indices=False)
        )
    # What JAX traces for ``x.at[index]`` takes ten times as long.
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=tuple(k for k in range(x.ndim) if k != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return jax.lax.gather(
        jnp.asarray(x),
        index.astype(np.int32)[:, None],
        numbers,
        (*x.shape[:axis], 1, *x.shape[axis + 1 :]),
        mode="promise_in_bounds",
    )


def with_rows(x: Array, index: np.ndarray, rows: Array) -> Array:
    """``x.at[index].set(rows)`` for different indices in bounds and not negative.

    Rows that follow each other are put between those around them, which JAX traces in a fifth of
    the time. Others are known to be different, or JAX could not transpose this.
    """
    if not _is_run(index):
        return x.at[index].set(rows, unique_indices=True)
    first = int(index[0]) if len(index) else 0
    end = first + len(index)
    ranges = [(0, first), (end, len(x))]
    before, after = (
        [jax.lax.slice_in_dim(x, *each)] if each[0] < each[1] else [] for each in ranges
    )
    return jax.lax.concatenate([*before, rows, *after], 0) if before or after else rows


def _is_run(index: np.ndarray) -> bool:
    """Whether each index is the one before plus one."""
    return bool(np.all(np.diff(index) == 1))
