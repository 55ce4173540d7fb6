"""Linear maps with two formulas: a matrix for many directions, and sums for one.

The derivative of a function of many numbers along one direction, or its transpose, often takes
fewer operations than the matrix of all derivatives, which pays only if it is used for many
directions. A rule (``jax.custom_jvp``) is traced before anyone knows for how many it will be used.
It gives both formulas, and whoever compiles the program takes one: a kernel that evaluates one
direction for each robot the sums, everything else the matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from artix.compiler.program import trace

Array = jax.Array
Type = jax.ShapeDtypeStruct

#: A function of constants and a direction, linear in the latter.
Formula: TypeAlias = Callable[[Any, Any], Array]

linear_map_p = Primitive("artix_linear_map")


class _Traced:
    """A formula, traced when it is first needed: most programs need one of the two.

    Args:
      formula: the formula.
      structure: that of its arguments as a pytree.
      types: shapes and dtypes of their leaves.
    """

    def __init__(self, formula: Formula, structure: Any, types: Sequence[Type]) -> None:
        self._formula, self._structure, self._types = formula, structure, types

    @functools.cached_property
    def closed(self) -> ClosedJaxpr:
        return trace(lambda *each: self._formula(*self._structure.unflatten(each)), self._types)[0]

    @property
    def jaxpr(self) -> Any:
        return self.closed.jaxpr

    @property
    def consts(self) -> Any:
        return self.closed.consts


# Equal maps of a program are one operation, and are traced once.
_traced = functools.lru_cache(maxsize=256)(_Traced)


def linear_map(
    along_one: Formula, along_many: Formula, result: Type, constants: Any, direction: Any
) -> Array:
    """``along_many(constants, direction)``, an array that is linear in the direction; a kernel for
    one direction a robot evaluates ``along_one``.

    Args:
      along_one: takes the fewest operations for one direction.
      along_many: the same, with the fewest if what depends on the constants alone is computed once.
        Both depend on no other arrays that are traced, and are functions of a module, since they
        are traced later, and once for all arguments of these types.
      result: shape and dtype of the array.
      constants: a pytree of arrays.
      direction: another one.
    """
    leaves, structure = jax.tree.flatten((constants, direction))
    types = tuple(Type(leaf.shape, leaf.dtype) for leaf in leaves)
    one, many = (_traced(formula, structure, types) for formula in (along_one, along_many))
    return linear_map_p.bind(*leaves, one=one, many=many, result=result)


def _along_many(*operands: Array, one: _Traced, many: _Traced, result: Type) -> Array:
    return jaxpr_as_fun(many.closed)(*operands)[0]


def _jvp(primals: Sequence[Array], tangents: Sequence[Any], **params: Any) -> tuple[Array, Any]:
    moving = [k for k, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

    def of_moving(*values: Array) -> Array:
        operands = list(primals)
        for k, value in zip(moving, values, strict=True):
            operands[k] = value
        return _along_many(*operands, **params)

    return jax.jvp(of_moving, [primals[k] for k in moving], [tangents[k] for k in moving])


def _transpose(cotangent: Any, *operands: Any, **params: Any) -> list[Any]:
    places = [k for k, operand in enumerate(operands) if ad.is_undefined_primal(operand)]
    types = [jax.ShapeDtypeStruct(operands[k].aval.shape, operands[k].aval.dtype) for k in places]

    def of_directions(*directions: Array) -> Array:
        values = list(operands)
        for k, direction in zip(places, directions, strict=True):
            values[k] = direction
        return _along_many(*values, **params)

    results: list[Any] = [None] * len(operands)
    for k, result in zip(
        places, jax.linear_transpose(of_directions, *types)(cotangent), strict=True
    ):
        results[k] = result
    return results


def _batch(operands: Sequence[Array], dims: Sequence[Any], **params: Any) -> tuple[Array, int]:
    """Of many directions, or of many constants."""

    def along_many(*each: Array) -> Array:
        return _along_many(*each, **params)

    return jax.vmap(along_many, in_axes=tuple(dims))(*operands), 0


linear_map_p.def_impl(jax.jit(_along_many, static_argnames=("one", "many", "result")))
linear_map_p.def_abstract_eval(
    lambda *_, result, **__: jax.core.ShapedArray(result.shape, result.dtype)
)
ad.primitive_jvps[linear_map_p] = _jvp
ad.primitive_transposes[linear_map_p] = _transpose
batching.primitive_batchers[linear_map_p] = _batch
mlir.register_lowering(linear_map_p, mlir.lower_fun(_along_many, multiple_results=False))
