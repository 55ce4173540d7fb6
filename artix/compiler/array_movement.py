"""Operations that only move the entries of arrays, as functions of NumPy arrays.

Applied to arrays of flat indices, they show where entries of unknown value go.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Movement: TypeAlias = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""Rearranges the entries of arrays."""

Getter: TypeAlias = Callable[[Sequence[int]], Sequence[int]]
"""Selects some of the entries."""


def _broadcast_in_dim(shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> Movement:
    shape = tuple(shape)

    def move(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        (x,) = arrays
        sizes = [1] * len(shape)
        for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
            sizes[axis] = size
        return [np.broadcast_to(x.reshape(sizes), shape)]

    return move


def _reshape(new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, **_: Any) -> Movement:
    return lambda arrays: [(arrays[0] if dimensions is None else arrays[0].transpose(dimensions)).reshape(new_sizes)]


def _squeeze(dimensions: Sequence[int]) -> Movement:
    return lambda arrays: [np.squeeze(arrays[0], tuple(dimensions))]


def _expand_dims(dimensions: Sequence[int], **_: Any) -> Movement:
    return lambda arrays: [np.expand_dims(arrays[0], tuple(dimensions))]


def _transpose(permutation: Sequence[int]) -> Movement:
    return lambda arrays: [arrays[0].transpose(permutation)]


def _slice(start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None) -> Movement:
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


def getters(name: str, parameters: Mapping[str, Any], shapes: tuple[tuple[int, ...], ...]) -> list[Getter]:
    """For each result of a movement, the getter of its entries from the concatenated entries of all arguments.

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
