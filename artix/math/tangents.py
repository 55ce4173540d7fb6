"""Helpers for ``custom_jvp`` rules with symbolic zeros, so that tangents known to be zero cost
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.custom_derivatives import SymbolicZero

Array = jax.Array
Tree = TypeVar("Tree")


def is_zero(tangent: Any) -> bool:
    """Whether a tangent is known to be zero."""
    return tangent is None or isinstance(tangent, SymbolicZero)


def without_derivatives(tree: Tree) -> Tree:
    """The same arrays as constants; those that are known while JAX traces stay known, for kernels
    to fold.
    """
    return jax.tree.map(
        lambda leaf: jax.lax.stop_gradient(leaf) if isinstance(leaf, jax.core.Tracer) else leaf,
        tree,
    )


def add(a: Array | None, b: Array | None) -> Array | None:
    """The sum of two tangents; ``None`` is zero."""
    return b if a is None else a if b is None else a + b


def directional_derivative(function: Callable[[Any], Any], primal: Any, tangent: Any) -> Any | None:
    """The derivative of a function of one pytree along a tangent; ``None`` where the tangent is
    known to be zero.

    Leaves with zero tangents are constants of the differentiated program, which keeps it small.
    """
    if is_zero(tangent):
        return None
    structure: Any = jax.tree.structure(primal)
    if all(is_zero(change) for change in structure.flatten_up_to(tangent)):
        return None
    return value_and_change(function, primal, tangent)[1]


def value_and_change(function: Callable[[Any], Any], primal: Any, tangent: Any) -> tuple[Any, Any]:
    """A function's value and its derivative along a tangent, at least one leaf of which is not a
    symbolic zero.
    """
    structure: Any
    leaves, structure = jax.tree.flatten(primal)
    changes = structure.flatten_up_to(tangent)
    moving = [k for k, change in enumerate(changes) if not is_zero(change)]

    def of_moving(*values):
        replaced = dict(zip(moving, values, strict=True))
        return function(
            structure.unflatten([replaced.get(k, leaf) for k, leaf in enumerate(leaves)])
        )

    return jax.jvp(of_moving, tuple(leaves[k] for k in moving), tuple(changes[k] for k in moving))
