"""Arrays padded to larger shapes, and masks as bits."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import numpy.typing as npt

Array = jax.Array

_BITS = (np.uint32(1) << np.arange(32, dtype=np.uint32)).view(np.int32)


def pack_bits(mask: np.ndarray) -> np.ndarray:
    """Packs the rows of a mask [m, n] into bits, int32 [m, ceil(n / 32)], since every member of a fleet reads them."""
    words = -(-mask.shape[1] // 32)
    bits = np.pad(mask, ((0, 0), (0, 32 * words - mask.shape[1]))).reshape(len(mask), words, 32)
    return np.asarray(np.sum(bits * _BITS.view(np.uint32), axis=-1, dtype=np.uint32)).view(np.int32)


def unpack_bits(words: Array, columns: int) -> Array:
    """The mask [m, n] that :func:`pack_bits` packed."""
    return ((words[:, :, None] & _BITS) != 0).reshape(len(words), 32 * words.shape[1])[:, :columns]


def padded(array: np.ndarray, shape: Sequence[int], fill: npt.ArrayLike = 0) -> np.ndarray:
    """Pads an array at the end of every axis with ``fill``."""
    kind = np.int32 if array.dtype.kind == "i" else array.dtype
    result = np.full(shape, fill, kind)
    result[tuple(slice(size) for size in array.shape)] = array
    return result
