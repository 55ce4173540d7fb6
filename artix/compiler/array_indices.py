"""Which entries gathers, scatters and dynamic slices read and write."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

OUTSIDE = -1
"""Stands for entries outside the array."""


def gather_numbers(shape: Sequence[int], indices: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
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
        batching=zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True),
        dropped=(*numbers.collapsed_slice_dims, *numbers.operand_batching_dims),
        sizes=parameters["slice_sizes"],
        window_axes=numbers.offset_dims,
        clip=clips(parameters["mode"]),
    )


class Windows(NamedTuple):
    """The windows that a gather reads or a scatter changes, for unknown indices."""

    offsets: np.ndarray
    """For each entry of the result (or the updates), the flat index of the entry that it reads (or changes) if its
    window starts at zero on all axes."""
    rows: np.ndarray
    """For each of them, the window to which it belongs, in the order of the indices."""
    axes: tuple[int, ...]
    """The axis along which each coordinate of an index moves a window."""
    strides: tuple[int, ...]
    """The stride of each of these axes, in entries."""
    last: tuple[int, ...]
    """The last start of a window along each of these axes."""


def gather_windows(shape: Sequence[int], indices: Sequence[int], parameters: Mapping[str, Any]) -> Windows:
    """The windows of a gather.

    Args:
      shape: shape of the array that it reads.
      indices: shape of its indices, coordinates last.
      parameters: parameters of the gather.
    """
    axes, sizes = tuple(parameters["dimension_numbers"].start_index_map), parameters["slice_sizes"]
    offsets = gather_numbers(shape, np.zeros(indices, np.int64), parameters)
    last = tuple(shape[axis] - sizes[axis] for axis in axes)
    return _moving_windows(offsets, shape, indices, axes, last, parameters["dimension_numbers"].offset_dims)


def scatter_windows(
    shape: Sequence[int], indices: Sequence[int], updates: Sequence[int], parameters: Mapping[str, Any]
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
    """Whether a scatter replaces entries by a function of them, as ``x.at[index].apply`` does, not by updates."""
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
        batching=zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True),
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
    """Whether windows are clamped to lie within their array."""
    return "CLIP" in str(mode).upper()


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
    """Flat indices of the entries of windows, whose axes, except dropped ones, become these axes of the result.

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


def dynamic_slice_numbers(shape: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Flat indices of the entries of a window at known starts, clamped to lie within the array."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    clamped = [min(max(start, 0), length - size) for start, length, size in zip(starts, shape, sizes, strict=True)]
    return numbers[tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))]
