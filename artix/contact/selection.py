"""Selects the nearest of a shape's contact candidates, and keeps track of which they were."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct
from artix.math.arrays import take

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
    """The columns with the smallest entries in row 0, in ascending order; of equal ones, those with
    the smallest in the last row come first.

    A sorting network exchanges columns, many at a time. For the candidates of a robot, this takes
    fewer operations than sorting indices and looking up the columns.

    Args:
      columns: the columns, [m, N].
      count: number of columns to select, at most N.

    Returns:
      [m, count].
    """
    for firsts, seconds in _sorting_network(columns.shape[1], count):
        before, after = take(columns, firsts), take(columns, seconds)
        is_equal, is_earlier = after[0] == before[0], after[-1] < before[-1]
        is_less = (after[0] < before[0]) | (is_equal & is_earlier)
        places = np.arange(columns.shape[1])
        places[firsts] = columns.shape[1] + np.arange(len(firsts))
        places[seconds] = columns.shape[1] + len(firsts) + np.arange(len(firsts))
        exchanged = jnp.where(is_less, after, before), jnp.where(is_less, before, after)
        columns = take(jnp.concatenate([columns, *exchanged], axis=1), places)
    return columns[:, :count]


@functools.cache
def _sorting_network(length: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Where columns are exchanged if the second is smaller, stage by stage, until the first
    ``count`` places hold the smallest.

    Blocks of at least ``count`` columns are sorted by Batcher's odd-even merges. Of two sorted
    blocks, the smaller of the first and the last, the second and the last but one, and so on, are
    the smallest; they rise and then fall, so that exchanges at halving distances sort them.

    Batcher, *Sorting networks and their applications*, 1968; Knuth, *The Art of Computer
    Programming*, volume 3, section 5.3.4.
    """
    width = 1 << (count - 1).bit_length()
    halves = [width >> k for k in range(1, width.bit_length())]
    places, stages = np.arange(length), []
    for merged in reversed(halves):
        for step in (half for half in halves if half <= merged):
            offset = places - step % merged
            is_first = (offset >= 0) & (offset // step % 2 == 0)
            is_first &= places // (2 * merged) == (places + step) // (2 * merged)
            stages.append((places[is_first], places[is_first] + step))
    span, within = width, np.arange(width)
    while span < length:
        blocks = np.arange(0, length - span, 2 * span)[:, None]
        stages.append(((blocks + within).ravel(), (blocks + span + within[::-1]).ravel()))
        for step in halves:
            firsts = (blocks + within[within // step % 2 == 0]).ravel()
            stages.append((firsts, firsts + step))
        span *= 2
    is_needed, network = places < count, []
    for firsts, seconds in reversed(stages):
        chosen = seconds < length
        chosen[chosen] &= is_needed[firsts[chosen]] | is_needed[seconds[chosen]]
        if np.any(chosen):
            network.append((firsts[chosen], seconds[chosen]))
            is_needed[firsts[chosen]] = is_needed[seconds[chosen]] = True
    return network[::-1]
