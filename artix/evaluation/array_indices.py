"""Where gathers, scatters and dynamic slices read and write, for indices that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

OUTSIDE = -1
"""In the place of an entry's number: there is no such entry."""


def gather_numbers(shape: Sequence[int], indices: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    """Numbers of the entries that a gather takes, in the shape of its result.

    Args:
      shape: of the array that it takes from.
      indices: where it takes, coordinates last.
      parameters: of the gather.
    """
    numbers, sizes = parameters["dimension_numbers"], parameters["slice_sizes"]
    batching = tuple(getattr(numbers, "operand_batching_dims", ()))
    batching_of_indices = tuple(getattr(numbers, "start_indices_batching_dims", ()))
    gone = {*numbers.collapsed_slice_dims, *batching}
    kept = [axis for axis in range(len(shape)) if axis not in gone]
    windows = _windows(
        shape, indices, numbers.start_index_map, batching, batching_of_indices, sizes, kept, _clips(parameters["mode"])
    )
    offsets, batch = list(numbers.offset_dims), indices.ndim - 1
    others = [axis for axis in range(windows.ndim) if axis not in offsets]
    order = [0] * windows.ndim
    for place, axis in enumerate([*others, *offsets]):
        order[axis] = place
    assert len(others) == batch
    return windows.transpose(order)


def scatter_numbers(
    shape: Sequence[int], indices: np.ndarray, updates: Sequence[int], parameters: Mapping[str, Any]
) -> np.ndarray:
    """Numbers of the entries that a scatter changes, in the shape of what it changes them by.

    Args:
      shape: of the array that is changed.
      indices: where it is changed, coordinates last.
      updates: the shape of what changes it.
      parameters: of the scatter.
    """
    numbers = parameters["dimension_numbers"]
    batching = tuple(getattr(numbers, "operand_batching_dims", ()))
    batching_of_indices = tuple(getattr(numbers, "scatter_indices_batching_dims", ()))
    gone = {*numbers.inserted_window_dims, *batching}
    kept = [axis for axis in range(len(shape)) if axis not in gone]
    sizes = [1] * len(shape)
    for axis, window in zip(kept, numbers.update_window_dims, strict=True):
        sizes[axis] = updates[window]
    windows = _windows(
        shape,
        indices,
        numbers.scatter_dims_to_operand_dims,
        batching,
        batching_of_indices,
        sizes,
        kept,
        _clips(parameters["mode"]),
    )
    others = [axis for axis in range(windows.ndim) if axis not in numbers.update_window_dims]
    order = [0] * windows.ndim
    for place, axis in enumerate([*others, *numbers.update_window_dims]):
        order[axis] = place
    return windows.transpose(order)


def _clips(mode: Any) -> bool:
    return "CLIP" in str(mode).upper()


def _windows(
    shape: Sequence[int],
    indices: np.ndarray,
    coordinates: Sequence[int],
    batching: Sequence[int],
    batching_of_indices: Sequence[int],
    sizes: Sequence[int],
    kept: Sequence[int],
    clip: bool,
) -> np.ndarray:
    """Numbers of the entries of windows, [*axes of the indices, *kept axes]; all of a window are there or none."""
    batch = indices.shape[:-1]
    starts = np.zeros((*batch, len(shape)), np.int64)
    for position, axis in enumerate(coordinates):
        starts[..., axis] = indices[..., position]
    for axis, of_indices in zip(batching, batching_of_indices, strict=True):
        along = [1] * len(batch)
        along[of_indices] = batch[of_indices]
        starts[..., axis] = np.arange(batch[of_indices]).reshape(along)
    last = np.array(shape, np.int64) - np.array(sizes, np.int64)
    if clip:
        starts = np.clip(starts, 0, last)
    inside = np.all((starts >= 0) & (starts <= last), axis=-1)
    strides = np.ones(len(shape), np.int64)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    found = np.reshape(starts @ strides, (*batch, *(1 for _ in kept)))
    for place, axis in enumerate(kept):
        along = [1] * (len(batch) + len(kept))
        along[len(batch) + place] = sizes[axis]
        found = found + (np.arange(sizes[axis]) * strides[axis]).reshape(along)
    return np.where(np.reshape(inside, (*batch, *(1 for _ in kept))), found, OUTSIDE)


def fill_value(dtype: np.dtype, given: Any) -> Any:
    """What a gather has outside of its array."""
    if given is not None:
        return given
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return np.nan


def dynamic_slice_numbers(shape: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Numbers of the entries of a window at known starts, which is moved to lie within the array."""
    numbers = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    first = [min(max(start, 0), whole - size) for start, whole, size in zip(starts, shape, sizes, strict=True)]
    return numbers[tuple(slice(start, start + size) for start, size in zip(first, sizes, strict=True))]
