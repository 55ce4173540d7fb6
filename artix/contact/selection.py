"""Selects the nearest of a shape's contact candidates, and keeps track of which they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct

Array = jax.Array


class Choice(struct.PyTreeNode):
    """Which candidate of its shape each contact is, so that a remembered impulse returns to the
    same candidate.

    Attributes:
      candidate: index of each contact's candidate among those of its shape, [K].
      groups: for each shape and surface, the numbers of its contacts and of its candidates, static.
    """

    candidate: Array
    groups: tuple[tuple[int, int], ...] = struct.field(pytree_node=False)

    @classmethod
    def joined(cls, choices: Sequence[Choice]) -> Choice:
        """The choices of several groups of contacts, concatenated."""
        if len(choices) == 1:
            return choices[0]
        candidate = jnp.concatenate([one.candidate for one in choices])
        return cls(candidate, sum((one.groups for one in choices), ()))

    @property
    def num_candidates(self) -> int:
        """Number C of candidates of all shapes and surfaces."""
        return sum(candidates for _, candidates in self.groups)

    def recalled(self, remembered: Array) -> Array:
        """Looks up the contacts' values [K, 3] in those remembered for all candidates [C, 3]."""
        gathered, first_contact, first = [], 0, 0
        for contacts, candidates in self.groups:
            part = remembered[first : first + candidates]
            if contacts < candidates:
                part = looked_up(
                    part, self.candidate[first_contact : first_contact + contacts], part.dtype
                )
            gathered.append(part)
            first_contact, first = first_contact + contacts, first + candidates
        return jnp.concatenate(gathered)

    def recorded(self, values: Array) -> Array:
        """Puts the contacts' values [K, 3] in the places of their candidates [C, 3], with zeros
        elsewhere.
        """
        scattered, first_contact = [], 0
        for contacts, candidates in self.groups:
            part = values[first_contact : first_contact + contacts]
            if contacts < candidates:
                is_chosen = _is_at(
                    self.candidate[first_contact : first_contact + contacts], candidates
                )
                part = jnp.sum(jnp.where(is_chosen[:, :, None], part[:, None], 0), axis=0)
            scattered.append(part)
            first_contact += contacts
        return jnp.concatenate(scattered)


def looked_up(table: Array | np.ndarray, index: Array, dtype: Any) -> Array:
    """The rows [K, ...] of a table [C, ...] at indices [K], which may be floating-point numbers."""
    chosen = jnp.expand_dims(_is_at(index, len(table)), tuple(range(2, table.ndim + 1)))
    return jnp.sum(jnp.where(chosen, jnp.asarray(table, dtype), 0), axis=1, dtype=dtype)


def _is_at(index: Array, count: int) -> Array:
    return index[:, None] == jnp.arange(count, dtype=index.dtype)


def lowest(columns: Array, count: int) -> Array:
    """The columns with the smallest entries in row 0, in ascending order; a stable sort.

    It exchanges neighbours, as bubble sort does, and stops when ``count`` columns are in place. For
    the few candidates of one shape, this takes fewer operations than sorting indices and gathering
    the columns.

    Args:
      columns: the columns, [m, N].
      count: number of columns to select, at most N.

    Returns:
      [m, count].
    """
    each = [columns[:, k] for k in range(columns.shape[1])]
    for place in range(count):
        for k in range(len(each) - 1, place, -1):
            before, after = each[k - 1], each[k]
            is_less = after[0] < before[0]
            each[k - 1], each[k] = (
                jnp.where(is_less, after, before),
                jnp.where(is_less, before, after),
            )
    return jnp.stack(each[:count], axis=1)
