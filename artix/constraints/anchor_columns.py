"""The entries of the generalised velocity that move the frames of an anchor; derivatives by all others are zero.

For a foot of a humanoid these are 12 of 35 entries.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.anchor_sides import moves_links
from artix.constraints.anchor_structure import Anchors
from artix.model.articulation import Articulation

Array = jax.Array


class AnchorColumns(NamedTuple):
    """C entries for each of K anchors.

    Attributes:
      entries: indices 0 .. nv - 1, ascending; padded with nv where fewer than C move an anchor, shape [K, C].
      nv: length of the generalised velocity.
    """

    entries: np.ndarray
    nv: int

    @classmethod
    def of(cls, articulation: Articulation, anchors: Anchors) -> AnchorColumns:
        """The entries that move frame a or frame b of each anchor."""
        tree = articulation.topology
        moved = np.logical_or(*(moves_links(tree, links) for links in anchors.links))
        most = int(moved.sum(axis=1).max(initial=1))  # At least one, as JAX cannot map over an empty axis.
        entries = np.full((len(moved), most), tree.nv)
        for row, mask in zip(entries, moved, strict=True):
            row[: mask.sum()] = np.flatnonzero(mask)
        return cls(entries, tree.nv)

    def gather(self, columns: Array) -> Array:
        """These entries of columns [..., K, nv], or [..., 1, nv] for all anchors: [..., K, C], with zero padding."""
        groups = columns.shape[-2]
        first = np.arange(groups)[:, None] * (self.nv + 1)
        padded = jnp.pad(columns, ((0, 0),) * (columns.ndim - 1) + ((0, 1),))
        return _at(padded.reshape(*columns.shape[:-2], -1), first + self.entries)

    def spread(self, columns: Array, anchor: np.ndarray) -> Array:
        """Columns [..., R, C] of rows that belong to anchors [R], as [..., R, nv]; all other entries are zero."""
        rows, count = columns.shape[-2:]
        indices = np.full((rows, self.nv + 1), rows * count)
        np.put_along_axis(indices, self.entries[anchor], np.arange(rows * count).reshape(rows, count), axis=1)
        flat = columns.reshape(*columns.shape[:-2], -1)
        return _at(jnp.pad(flat, ((0, 0),) * (flat.ndim - 1) + ((0, 1),)), indices[:, :-1])


def _at(x: Array, indices: np.ndarray) -> Array:
    return x.at[..., indices].get(mode="promise_in_bounds")
