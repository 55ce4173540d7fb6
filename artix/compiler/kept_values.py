"""Values that derivatives of a program take from its evaluation instead of computing them again.

Derivatives are evaluated at the arguments of a program, so that a rollout keeps only its states,
and compute again what they need of its values. Where that costs more than to keep a few numbers, as
with the solution of an iteration, the program marks them by :func:`kept`. What is evaluated where
the program is differentiated then returns them as well, and the derivative takes them as arguments.

Kept values are constants for derivatives of any order, so what computes them is never
differentiated. A function with a rule (``jax.custom_jvp``) of the solution and of its inputs says
how one depends on the other: it returns the solution, and its rule starts by calling the function
itself, which gives second derivatives.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.flatten_util import ravel_pytree

from artix.compiler.jax_internals import without_unused

Tree = TypeVar("Tree")

_NAME = "artix: kept for derivatives"


def kept(tree: Tree) -> Tree:
    """A pytree of floating-point arrays as constants that derivatives do not compute again, if a
    program calls this outside of its loops and branches.

    They are kept as one array, which loops over steps stack at once. What computes them should have
    constant arguments, or JAX differentiates it in vain.
    """
    flat, restore = ravel_pytree(tree)
    return restore(checkpoint_name(jax.lax.stop_gradient(flat), _NAME))


def kept_types(jaxpr: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shapes and dtypes of the values that a program keeps, as far as its results need them."""
    variables = _with_kept_arguments(jaxpr)[1]
    return tuple(jax.ShapeDtypeStruct(each.aval.shape, each.aval.dtype) for each in variables)


def with_kept_results(jaxpr: Any) -> Any:
    """The jaxpr that also returns what the program keeps, after its results."""
    return jaxpr.replace(outvars=[*jaxpr.outvars, *_with_kept_arguments(jaxpr)[1]])


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
