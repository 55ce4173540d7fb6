"""Vectors and matrices of several articulations that one step moves, put side by side.

Only contacts couple articulations. Without them the response to impulses is block diagonal, and each articulation's
rows see its own velocities alone. One articulation's arrays stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.padding import Tree
from artix.model.topology import Topology

Array = jax.Array


def joined(parts: Sequence[Any]) -> Any:
    """Arrays, or pytrees of them, one after another along their first axes."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def in_columns(array: Array, sizes: Sequence[int], number: int) -> Array:
    """The columns of one articulation, [..., nv of it], among those of all, [..., nv]."""
    if len(sizes) == 1:
        return array
    around = [(0, 0)] * (array.ndim - 1) + [(sum(sizes[:number]), sum(sizes[number + 1 :]))]
    return jnp.pad(array, around)


def side_by_side(parts: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Rows of all articulations, [R, nv], out of each one's own, [R of it, nv of it]."""
    return joined([in_columns(part, sizes, k) for k, part in enumerate(parts)])


def parted(array: Array, sizes: Sequence[int]) -> list[Array]:
    """Each articulation's part along the first axis."""
    if len(sizes) == 1:
        return [array]
    ends = np.cumsum([0, *sizes])
    return [array[ends[k] : ends[k + 1]] for k in range(len(sizes))]


def dof_places(trees: Sequence[Tree]) -> Any:
    """Where the DOFs are in the velocity of all, in the order of the sweep; static unless a tree is data."""
    if not all(isinstance(tree, Topology) for tree in trees):
        (tree,) = trees
        return tree.num_base_dofs + tree.depth_first_dofs
    first = np.cumsum([0, *(tree.nv for tree in trees)])
    return np.concatenate(
        [first[k] + tree.num_base_dofs + tree.depth_first_dofs for k, tree in enumerate(trees)]
    ).astype(int)


def dof_order(trees: Sequence[Tree]) -> Any:
    """The same in the joint arrays [n] of all."""
    if len(trees) == 1:
        return trees[0].depth_first_dofs
    first = np.cumsum([0, *(tree.num_dofs for tree in trees)])
    return np.concatenate([first[k] + tree.depth_first_dofs for k, tree in enumerate(trees)]).astype(int)
