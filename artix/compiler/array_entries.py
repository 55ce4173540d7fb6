"""Which entries of arrays go where: movements, and the windows of gathers, scatters and dynamic
slices.

Applied to arrays of flat indices, movements of NumPy arrays show where entries of unknown value go.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

OUTSIDE = -1
"""Stands for entries outside the array."""


def gather_numbers(
    shape: Sequence[int], indices: np.ndarray, parameters: Mapping[str, Any]
) -> np.ndarray:
    """Flat indices of the entries that a gather reads, in the shape of its result.

    Args:
      shape: shape of the array that it reads.
      indices: its indices, coordinates last.
      parameters: parameters of the gather.
    """
    numbers = parameters["dimension_numbers"]
    return _entries_of_windows(
        shape,
        indices,
        coordinates=numbers.start_index_map,
        batching=zip(
            numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
        ),
        dropped=(*numbers.collapsed_slice_dims, *numbers.operand_batching_dims),
        sizes=parameters["slice_sizes"],
        window_axes=numbers.offset_dims,
        clip=not fills(parameters["mode"]),
    )


class Windows(NamedTuple):
    """The windows that a gather reads or a scatter changes, for unknown indices."""

    offsets: np.ndarray
    """For each entry of the result (or the updates), the flat index of the entry that it reads (or
    changes) if its window starts at zero on all axes."""
    rows: np.ndarray
    """For each of them, the window to which it belongs, in the order of the indices."""
    axes: tuple[int, ...]
    """The axis along which each coordinate of an index moves a window."""
    strides: tuple[int, ...]
    """The stride of each of these axes, in entries."""
    last: tuple[int, ...]
    """The last start of a window along each of these axes."""


def gather_windows(
    shape: Sequence[int], indices: Sequence[int], parameters: Mapping[str, Any]
) -> Windows:
    """The windows of a gather.

    Args:
      shape: shape of the array that it reads.
      indices: shape of its indices, coordinates last.
      parameters: parameters of the gather.
    """
    axes, sizes = tuple(parameters["dimension_numbers"].start_index_map), parameters["slice_sizes"]
    offsets = gather_numbers(shape, np.zeros(indices, np.int64), parameters)
    last = tuple(shape[axis] - sizes[axis] for axis in axes)
    return _moving_windows(
        offsets, shape, indices, axes, last, parameters["dimension_numbers"].offset_dims
    )


def scatter_windows(
    shape: Sequence[int],
    indices: Sequence[int],
    updates: Sequence[int],
    parameters: Mapping[str, Any],
) -> Windows:
    """The windows of a scatter.

    Args:
      shape: shape of the array that is changed.
      indices: shape of its indices, coordinates last.
      updates: shape of the updates.
      parameters: parameters of the scatter.
    """
    numbers = parameters["dimension_numbers"]
    offsets = scatter_numbers(shape, np.zeros(indices, np.int64), updates, parameters)
    axes = tuple(numbers.scatter_dims_to_operand_dims)
    sizes = _sizes_of_updates(shape, updates, numbers)
    last = tuple(shape[axis] - sizes[axis] for axis in axes)
    return _moving_windows(offsets, shape, indices, axes, last, numbers.update_window_dims)


def _moving_windows(
    offsets: np.ndarray,
    shape: Sequence[int],
    indices: Sequence[int],
    axes: tuple[int, ...],
    last: tuple[int, ...],
    window_axes: Sequence[int],
) -> Windows:
    # The number of the window, broadcast over the window's entries.
    batch = indices[:-1]
    numbers = np.arange(math.prod(batch)).reshape(batch)
    rows = np.broadcast_to(np.expand_dims(numbers, tuple(window_axes)), offsets.shape)
    strides = strides_of(shape)
    return Windows(offsets, rows, axes, tuple(strides[axis] for axis in axes), last)


def strides_of(shape: Sequence[int]) -> list[int]:
    """The stride of each axis of an array, in entries."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def calls_function(name: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a scatter replaces entries by a function of them, as ``x.at[index].apply`` does, not
    by updates.
    """
    return name == "scatter" and parameters["update_jaxpr"] is not None


def scatter_numbers(
    shape: Sequence[int], indices: np.ndarray, updates: Sequence[int], parameters: Mapping[str, Any]
) -> np.ndarray:
    """Flat indices of the entries that a scatter changes, in the shape of its updates.

    Args:
      shape: shape of the array that is changed.
      indices: its indices, coordinates last.
      updates: shape of the updates.
      parameters: parameters of the scatter.
    """
    numbers = parameters["dimension_numbers"]
    return _entries_of_windows(
        shape,
        indices,
        coordinates=numbers.scatter_dims_to_operand_dims,
        batching=zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        ),
        dropped=(*numbers.inserted_window_dims, *numbers.operand_batching_dims),
        sizes=_sizes_of_updates(shape, updates, numbers),
        window_axes=numbers.update_window_dims,
        clip=clips(parameters["mode"]),
    )


def _sizes_of_updates(shape: Sequence[int], updates: Sequence[int], numbers: Any) -> list[int]:
    """The size of a scatter's windows along each axis of the array."""
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    sizes = iter(updates[axis] for axis in numbers.update_window_dims)
    return [1 if axis in dropped else next(sizes) for axis in range(len(shape))]


def clips(mode: Any) -> bool:
    """Whether the windows that a scatter changes are clamped to lie within their array. Otherwise
    those outside are not changed, as XLA has it even where indices are promised to be within.
    """
    return "CLIP" in str(mode).upper()


def fills(mode: Any) -> bool:
    """Whether a gather has a value for windows outside the array. Otherwise they are clamped, as
    XLA has it even where indices are promised to be within: what ``x[indices]`` promises.
    """
    return "FILL" in str(mode).upper()


def _entries_of_windows(
    shape: Sequence[int],
    indices: np.ndarray,
    *,
    coordinates: Sequence[int],
    batching: Iterable[tuple[int, int]],
    dropped: Sequence[int],
    sizes: Sequence[int],
    window_axes: Sequence[int],
    clip: bool,
) -> np.ndarray:
    """Flat indices of the entries of windows, whose axes, except dropped ones, become these axes of
    the result.

    A window that is partly outside the array counts as outside entirely.
    """
    batch = indices.shape[:-1]
    starts = np.zeros((*batch, len(shape)), np.int64)
    for position, axis in enumerate(coordinates):
        starts[..., axis] = indices[..., position]
    for axis, index_axis in batching:
        shape_along = [1] * len(batch)
        shape_along[index_axis] = batch[index_axis]
        starts[..., axis] = np.arange(batch[index_axis]).reshape(shape_along)
    last = np.array(shape, np.int64) - np.array(sizes, np.int64)
    if clip:
        starts = np.clip(starts, 0, last)
    is_inside = np.all((starts >= 0) & (starts <= last), axis=-1)
    strides = strides_of(shape)
    numbers = starts @ np.array(strides, np.int64)
    for axis in sorted({*range(len(shape))} - {*dropped}):
        numbers = np.add.outer(numbers, np.arange(sizes[axis]) * strides[axis])
    numbers = np.where(np.reshape(is_inside, (*batch, *(1 for _ in window_axes))), numbers, OUTSIDE)
    return np.moveaxis(numbers, range(len(batch), numbers.ndim), window_axes)


def fill_value(dtype: np.dtype, fill: Any) -> Any:
    """The value that a gather returns for entries outside the array."""
    if fill is not None:
        return fill
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return np.nan


def dynamic_slice_numbers(
    shape: Sequence[int], starts: Sequence[int], sizes: Sequence[int]
) -> np.ndarray:
    """Flat indices of the entries of a window at known starts, clamped to lie within the array."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    clamped = [
        min(max(start, 0), length - size)
        for start, length, size in zip(starts, shape, sizes, strict=True)
    ]
    return numbers[
        tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))
    ]


Movement: TypeAlias = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""Rearranges the entries of arrays."""

Getter: TypeAlias = Callable[[Sequence[int]], Sequence[int]]
"""Selects some of the entries."""


def _broadcast_in_dim(
    shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any
) -> Movement:
    shape = tuple(shape)

    def move(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        (x,) = arrays
        sizes = [1] * len(shape)
        for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
            sizes[axis] = size
        return [np.broadcast_to(x.reshape(sizes), shape)]

    return move


def _reshape(
    new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, **_: Any
) -> Movement:
    return lambda arrays: [
        (arrays[0] if dimensions is None else arrays[0].transpose(dimensions)).reshape(new_sizes)
    ]


def _squeeze(dimensions: Sequence[int]) -> Movement:
    return lambda arrays: [np.squeeze(arrays[0], tuple(dimensions))]


def _expand_dims(dimensions: Sequence[int], **_: Any) -> Movement:
    return lambda arrays: [np.expand_dims(arrays[0], tuple(dimensions))]


def _transpose(permutation: Sequence[int]) -> Movement:
    return lambda arrays: [arrays[0].transpose(permutation)]


def _slice(
    start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None
) -> Movement:
    steps = strides or (1,) * len(start_indices)
    part = tuple(map(slice, start_indices, limit_indices, steps))
    return lambda arrays: [arrays[0][part]]


def _rev(dimensions: Sequence[int]) -> Movement:
    return lambda arrays: [np.flip(arrays[0], tuple(dimensions))]


def _concatenate(dimension: int) -> Movement:
    return lambda arrays: [np.concatenate(arrays, dimension)]


def _stack(axis: int) -> Movement:
    return lambda arrays: [np.stack(arrays, axis)]


def _unstack(axis: int) -> Movement:
    return lambda arrays: list(np.moveaxis(arrays[0], axis, 0))


def _split(sizes: Sequence[int], axis: int) -> Movement:
    ends = np.cumsum(sizes)[:-1]
    return lambda arrays: np.split(arrays[0], ends, axis)


def _pad(padding_config: Sequence[tuple[int, int, int]]) -> Movement:
    def move(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        x, fill = arrays
        for axis, (low, high, interior) in enumerate(padding_config):
            size = x.shape[axis]
            targets = low + np.arange(size) * (interior + 1)
            length = low + high + max(size + (size - 1) * interior, 0)
            is_inside = (targets >= 0) & (targets < length)
            shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
            padded = np.full(shape, fill, x.dtype)
            np.moveaxis(padded, axis, 0)[targets[is_inside]] = np.moveaxis(x, axis, 0)[is_inside]
            x = padded
        return [x]

    return move


def _identity(**_: Any) -> Movement:
    return list


MOVEMENTS: dict[str, Callable[..., Movement]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "transpose": _transpose,
    "slice": _slice,
    "rev": _rev,
    "concatenate": _concatenate,
    "stack": _stack,
    "unstack": _unstack,
    "split": _split,
    "pad": _pad,
    "copy": _identity,
    "copy_p": _identity,
    "stop_gradient": _identity,
    "optimization_barrier": _identity,
    "pvary": _identity,
    "pcast": _identity,
    "sharding_constraint": _identity,
    "name": _identity,
}

_getters: dict[Any, list[Getter]] = {}
_MAX_GETTERS = 20_000


def getters(
    name: str, parameters: Mapping[str, Any], shapes: tuple[tuple[int, ...], ...]
) -> list[Getter]:
    """For each result of a movement, the getter of its entries from the concatenated entries of all
    arguments.

    Args:
      name: the primitive's name.
      parameters: its parameters.
      shapes: shapes of its arguments.
    """
    key = name, shapes, *(_hashable(x) for x in parameters.values())
    result = _getters.get(key)
    if result is None:
        if len(_getters) > _MAX_GETTERS:
            _getters.clear()
        numbers = entry_numbers(shapes)
        moved = MOVEMENTS[name](**parameters)(numbers)
        total = sum(x.size for x in numbers)
        result = _getters[key] = [getter(x, total) for x in moved]
    return result


def _hashable(parameter: Any) -> Any:
    return tuple(map(_hashable, parameter)) if isinstance(parameter, (list, tuple)) else parameter


def entry_numbers(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Arrays of the given shapes whose entries are numbered consecutively."""
    numbers, first = [], 0
    for shape in shapes:
        size = int(np.prod(shape, dtype=int))
        numbers.append(np.arange(first, first + size).reshape(shape))
        first += size
    return numbers


def getter(numbers: np.ndarray, total: int) -> Getter:
    """The getter of the entries with these numbers out of ``total``."""
    flat = numbers.ravel().tolist()
    if len(flat) == total and flat == list(range(total)):
        return lambda entries: entries
    if len(flat) == 1:
        return lambda entries, number=flat[0]: (entries[number],)  # type: ignore[misc]
    return operator.itemgetter(*flat) if flat else lambda _: ()
