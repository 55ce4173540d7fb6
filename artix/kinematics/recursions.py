"""Recursions along trees that are data, link by link.

Links are in breadth-first order, so a link's parent is at most ``padding.reach`` places before it. Each recursion
carries a window of so many links along, and the tree only decides which of them the parent is, among those that the
padding admits. A link costs one step and a selection for each of these; products with the masks of a tree would cost
the square of the number of links.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from artix.model.padded_topology import PaddedTopology

Array = jax.Array


def outwards(tree: PaddedTopology, step: Callable[[Any, Any], tuple[Any, Any]], root: Any, items: Any) -> Any:
    """Evaluates links 1 .. L-1 in order, each after its parent.

    Args:
      tree: the tree.
      step: the value of a link and an output, from the value of its parent and the link's own item.
      root: the value of link 0, a pytree of arrays.
      items: those of links 1 .. L-1, a pytree of arrays with the link axis last.

    Returns:
      The outputs, with the link axis last.
    """

    def evaluate(window: Any, given: Any) -> tuple[Any, Any]:
        is_parent, item = given
        value, output = step(jax.tree.map(functools.partial(_chosen, is_parent), window), item)
        return jax.tree.map(lambda x, new: jnp.concatenate([new[None], x[:-1]]), window, value), output

    # Places before the root are never chosen.
    window = jax.tree.map(lambda x: jnp.broadcast_to(x[None], (tree.padding.reach, *x.shape)), root)
    _, outputs = jax.lax.scan(evaluate, window, (tree.parent_choices, _links_first(items)))
    return _links_last(outputs)


def inwards(tree: PaddedTopology, step: Callable[[Any, Any], tuple[Any, Any]], nothing: Any, items: Any) -> Any:
    """Evaluates links L-1 .. 1 in order, each after its children.

    Args:
      tree: the tree.
      step: what a link passes on to its parent and an output, from the sum of what its children passed on and the
        link's own item.
      nothing: what a link without children gets, a pytree of zeros.
      items: those of links 1 .. L-1, a pytree of arrays with the link axis last.

    Returns:
      The sum of what the children of link 0 passed on, and the outputs, with the link axis last.
    """

    def evaluate(window: Any, given: Any) -> tuple[Any, Any]:
        is_parent, item = given
        passed, output = step(jax.tree.map(lambda x: x[0], window), item)
        return jax.tree.map(functools.partial(_added, is_parent), window, passed), output

    window = jax.tree.map(lambda x: jnp.broadcast_to(x[None], (tree.padding.reach, *x.shape)), nothing)
    window, outputs = jax.lax.scan(evaluate, window, (tree.parent_places, _links_first(items)), reverse=True)
    return jax.tree.map(lambda x: x[0], window), _links_last(outputs)


def _chosen(is_parent: Array, window: Array) -> Array:
    """The parent's entry of a window [reach, ...] whose place k holds the link k + 1 places before."""
    chosen = window[0]
    for place in range(1, len(window)):
        chosen = jnp.where(is_parent[place], window[place], chosen)
    return chosen


def of_parents(tree: PaddedTopology, x: Array) -> Array:
    """The entries of x [..., L] that belong to the parents of links 1 .. L-1, [..., L-1]."""
    chosen, count = x[..., :-1], x.shape[-1] - 1
    for place in range(1, min(tree.padding.reach, count)):
        before = jnp.concatenate([x[..., :place], x[..., : count - place]], axis=-1)
        chosen = jnp.where(tree.parent_choices[:, place], before, chosen)
    return chosen


def _added(is_parent: Array, window: Array, passed: Array) -> Array:
    """The sums [reach, ...] for the links before this one, with what it passes on; the window begins with its own."""
    sums = jnp.concatenate([window[1:], jnp.zeros_like(window[:1])])
    flags = is_parent.reshape(-1, *(1 for _ in passed.shape))
    return jnp.where(flags, sums + passed[None], sums)


def _links_first(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), tree)


def _links_last(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), tree)
