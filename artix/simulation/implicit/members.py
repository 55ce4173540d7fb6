"""Joint vectors and matrices of several articulations that take a step together.

Only contacts couple articulations. Without them the response to impulses is block diagonal, and each articulation's
rows involve only its own velocities. For a single articulation, arrays are returned unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import joined
from artix.model.topology import Topology

Array = jax.Array

#: DOFs in a group are as many apart on the way to the root.
_LEVELS = 4


def in_columns(array: Array, sizes: Sequence[int], number: int) -> Array:
    """Places the columns of one articulation, [..., its nv], among those of all, [..., nv]."""
    if len(sizes) == 1:
        return array
    around = [(0, 0)] * (array.ndim - 1) + [(sum(sizes[:number]), sum(sizes[number + 1 :]))]
    return jnp.pad(array, around)


def side_by_side(parts: Sequence[Array], sizes: Sequence[int]) -> Array:
    """The rows of all articulations, [R, nv], from those of each, [its R, its nv]."""
    return joined([in_columns(part, sizes, k) for k, part in enumerate(parts)])


def parted(array: Array, sizes: Sequence[int]) -> list[Array]:
    """Splits an array along its first axis into the articulations' parts."""
    if len(sizes) == 1:
        return [array]
    ends = np.cumsum([0, *sizes])
    return [array[ends[k] : ends[k + 1]] for k in range(len(sizes))]


def dof_places(trees: Sequence[Topology]) -> np.ndarray:
    """Indices of the DOFs of all articulations in their joint generalised velocity, [n]."""
    first = np.cumsum([0, *(tree.nv for tree in trees)])
    return np.concatenate([np.arange(last - tree.num_dofs, last) for tree, last in zip(trees, first[1:], strict=True)])


def elimination_order(trees: Sequence[Topology]) -> np.ndarray:
    """The entries of the velocity of all articulations, from the leaves to the root of each, [nv]."""
    found, first = [], 0
    for tree in trees:
        base = tree.num_base_dofs
        found.append(first + np.concatenate([np.arange(tree.nv - 1, base - 1, -1), np.arange(base)]))
        first += tree.nv
    return np.concatenate(found)


def loose_groups(trees: Sequence[Topology]) -> list[np.ndarray]:
    """The DOFs of all articulations in groups of which none follows another closely on the way to the root."""
    depth = np.concatenate([np.sum(np.triu(tree.dof_ancestors), axis=0) for tree in trees])
    return [group for k in range(_LEVELS) if len(group := np.flatnonzero(depth % _LEVELS == k))]
