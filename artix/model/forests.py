"""Index arrays of forests, from the parent of each node (negative for a root)."""

from __future__ import annotations

import numpy as np


def read_only(values, dtype) -> np.ndarray:
    """A read-only array."""
    array = np.asarray(values, dtype)
    array.setflags(write=False)
    return array


def level_schedule(parent: np.ndarray) -> tuple[np.ndarray, ...]:
    """Groups the nodes of a forest by depth: one index array per depth below the roots, ascending."""
    depth = np.zeros(len(parent), int)
    for node, above in enumerate(parent):
        depth[node] = 0 if above < 0 else depth[above] + 1
    return tuple(np.flatnonzero(depth == level) for level in range(1, depth.max(initial=0) + 1))


def pointer_table(parent: np.ndarray) -> np.ndarray:
    """The node with which each node is composed in each round of pointer jumping, shape [rounds, N].

    Entries are node numbers plus one; 0 stands for "no ancestor". After ceil(log2(depth + 1)) rounds of
    ``x[i] = x[table[round, i]] * x[i]`` every node holds the product along its path from the root.
    """
    pointer, rounds = np.asarray(parent, int) + 1, []
    while np.any(pointer):
        rounds.append(pointer)
        pointer = np.concatenate([[0], pointer])[pointer]
    return np.array(rounds, int).reshape(len(rounds), len(parent))


def ancestor_mask(parent: np.ndarray) -> np.ndarray:
    """``mask[a, b]``: whether node a is node b or one of its ancestors."""
    mask = np.eye(len(parent), dtype=bool)
    for node, above in enumerate(parent):
        if above >= 0:
            mask[:, node] |= mask[:, above]
    return mask
