"""Values that derivatives of a program take from its evaluation instead of computing them again.

Derivatives are evaluated at the arguments of a program, so that a rollout keeps only its states,
and compute again what they need of its values. Where that costs more than to keep a few numbers, as
with the solution of an iteration, the program marks them by :func:`kept`. What is evaluated where
the program is differentiated then returns them as well, and the derivative takes them as arguments.

Kept values are constants for derivatives of any order, so what computes them is never
differentiated. A function with a rule (``jax.custom_jvp``) of the solution and of its inputs says
how one depends on the other: it returns the solution, and its rule starts by calling the function
itself, which gives second derivatives.

All that a program keeps is one array, which a loop over steps stacks at once: XLA takes 50 ms to
compile what stacks an array and takes its rows again. So the arguments that change from step to
step are in it, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.flatten_util import ravel_pytree

from artix.compiler.jax_internals import without_unused

Array = jax.Array
Tree = TypeVar("Tree")

_NAME = "artix: kept for derivatives"


def kept(tree: Tree) -> Tree:
    """A pytree of floating-point arrays as constants that derivatives do not compute again, if a
    program calls this outside of its loops and branches.

    What computes them should have constant arguments, or JAX differentiates it in vain.
    """
    flat, restore = ravel_pytree(tree)
    return restore(checkpoint_name(jax.lax.stop_gradient(flat), _NAME))


def kept_types(jaxpr: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shapes and dtypes of the values that a program keeps, as far as its results need them."""
    variables = _with_kept_arguments(jaxpr)[1]
    return tuple(jax.ShapeDtypeStruct(each.aval.shape, each.aval.dtype) for each in variables)


def packed_type(types: Sequence[Any]) -> jax.ShapeDtypeStruct:
    """The type of the array that has all entries of arrays of these types."""
    size = sum(math.prod(each.shape) for each in types)
    return jax.ShapeDtypeStruct((size,), np.result_type(*(each.dtype for each in types)))


def pack(arrays: Sequence[Array]) -> Array:
    """All entries of the arrays."""
    dtype = packed_type(arrays).dtype
    return jnp.concatenate([jax.lax.convert_element_type(x, dtype).reshape(-1) for x in arrays])


def unpack(packed: Array, types: Sequence[jax.ShapeDtypeStruct]) -> list[Array]:
    """The arrays of these types whose entries were packed."""
    ends = np.cumsum([math.prod(each.shape) for each in types]).tolist()
    return [
        jax.lax.convert_element_type(part, each.dtype).reshape(each.shape)
        for part, each in zip(jnp.split(packed, ends[:-1]), types, strict=True)
    ]


def with_kept_results(jaxpr: Any, arguments: Sequence[int], packing: Any) -> Any:
    """The jaxpr that also returns what the program keeps, after its results.

    Args:
      jaxpr: that of the program.
      arguments: those that it keeps, by index.
      packing: an equation that packs these arguments and all :func:`kept` values.
    """
    kept = [*(jaxpr.invars[index] for index in arguments), *_with_kept_arguments(jaxpr)[1]]
    return jaxpr.replace(
        outvars=[*jaxpr.outvars, *packing.outvars],
        eqns=[*jaxpr.eqns, packing.replace(invars=kept)],
    )


def with_kept_arguments(jaxpr: Any) -> Any:
    """The jaxpr whose last arguments are what the program keeps, without what computes that."""
    return _with_kept_arguments(jaxpr)[0]


def _with_kept_arguments(jaxpr: Any) -> tuple[Any, list[Any]]:
    """:func:`with_kept_arguments`, and the variables that it makes arguments."""
    are_kept = [equation.params.get("name") == _NAME for equation in jaxpr.eqns]
    variables = [
        equation.outvars[0]
        for equation, is_kept in zip(jaxpr.eqns, are_kept, strict=True)
        if is_kept
    ]
    count = len(jaxpr.invars)
    others = jaxpr.replace(
        invars=[*jaxpr.invars, *variables],
        eqns=[
            equation for equation, is_kept in zip(jaxpr.eqns, are_kept, strict=True) if not is_kept
        ],
    )
    instantiate = [index < count for index in range(len(others.invars))]
    shorter, is_used = without_unused(others, [True] * len(jaxpr.outvars), instantiate)
    used = [each for each, is_it in zip(variables, is_used[count:], strict=True) if is_it]
    return shorter, used
