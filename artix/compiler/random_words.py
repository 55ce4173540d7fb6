"""Random keys within a program, as the words that they consist of.

JAX's typed keys, and what draws from them, are operations of their own until JAX lowers them. With
the words of a key in its place, functions of ``jax.random`` are operations on 32-bit integers, of
which there are scalars.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from artix.compiler.array_entries import MOVEMENTS
from artix.compiler.jax_internals import generator_of
from artix.math.random_keys import threefry

Array = jax.Array

#: Operations that move keys.
_MOVED = {*MOVEMENTS, "select_n", "gather", "scatter", "dynamic_slice", "dynamic_update_slice"}
#: Equations of these are taken apart into those of the function that they call.
_CALLS = ("jit", "pjit", "closed_call")


class Words(NamedTuple):
    """The words of a random key in its place among the arguments or results of a program.

    As part of a pytree it has one leaf, the words. From arrays, JAX makes the key again.
    """

    words: Any
    generator: Any


def _of_leaves(generator: Any, leaves: Sequence[Any]) -> Any:
    (words,) = leaves
    if isinstance(words, jax.Array | np.ndarray):
        return jax.random.wrap_key_data(jnp.asarray(words), impl=generator)
    return Words(words, generator)


jax.tree_util.register_pytree_node(Words, lambda key: ((key.words,), key.generator), _of_leaves)


def with_words(tree: Any) -> Any:
    """A pytree with :class:`Words` in the place of keys."""

    def of_leaf(leaf: Any) -> Any:
        is_array = isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)
        return _words_of(leaf) if is_array and _is_key(leaf) else leaf

    return jax.tree.map(of_leaf, tree, is_leaf=lambda leaf: isinstance(leaf, Words))


def _words_of(key: Any) -> Words:
    generator = jax.random.key_impl(key)
    if isinstance(key, jax.Array):
        return Words(jax.random.key_data(key), generator)
    return Words(jax.eval_shape(jax.random.key_data, key), generator)


def has_keys(jaxpr: Any) -> bool:
    """Whether a jaxpr, or one within it, has random keys, or draws from their words."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return any(
        equation.primitive.name in _RULES or any(map(has_keys, _within(equation.params)))
        for equation in jaxpr.eqns
    )


def without_keys(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with words in the place of keys.

    One that returns keys, or does with them what has no rule here, is left as it is.
    """
    if any(_is_key(variable.aval) for variable in program.jaxpr.outvars):
        return program
    try:
        return _of_words(program)
    except _NoRule:
        return program


class _NoRule(Exception):
    """An operation on keys has no rule."""


def _is_key(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jax.dtypes.prng_key) if hasattr(aval, "dtype") else False


def _within(parameters: Mapping[str, Any]) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for value in parameters.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, Jaxpr | ClosedJaxpr):
                yield each


def _of_words(program: Any) -> ClosedJaxpr:
    """A jaxpr that takes and returns the words of keys."""
    types = [_type_of_words(variable.aval) for variable in program.jaxpr.invars]
    return jax.make_jaxpr(functools.partial(_evaluate, program))(*types)


def _type_of_words(aval: Any) -> jax.ShapeDtypeStruct:
    if not _is_key(aval):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
    return jax.ShapeDtypeStruct((*aval.shape, *generator_of(aval).key_shape), jnp.uint32)


def _evaluate(program: Any, *arguments: Array) -> list[Any]:
    """The results of a closed jaxpr for the words of its arguments."""
    jaxpr, values = program.jaxpr, dict[Any, Any]()

    def value_of(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    constants = [jax.random.key_data(x) if _is_key(x) else x for x in program.consts]
    values.update(zip(jaxpr.constvars, constants, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        results = _results(equation, [value_of(atom) for atom in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [value_of(atom) for atom in jaxpr.outvars]


def _results(equation: Any, operands: list[Any]) -> Sequence[Any]:
    """The results of an equation of keys or without, for the words of its operands."""
    primitive, parameters = equation.primitive, dict(equation.params)
    if (rule := _RULES.get(primitive.name)) is not None:
        return rule(equation, *operands)
    keys = [_is_key(variable.aval) for variable in equation.invars]
    programs = [*_within(parameters)]
    if any(map(has_keys, programs)) or (any(keys) and programs):
        if primitive.name in _CALLS:
            return _evaluate(parameters["jaxpr"], *operands)
        parameters = {name: _with_words(value) for name, value in parameters.items()}
    elif any(keys):
        if primitive.name not in _MOVED:
            raise _NoRule(primitive.name)
        return _of_each_word(primitive, parameters, keys, operands)
    results = primitive.bind(*operands, **primitive.get_bind_params(parameters))
    return results if primitive.multiple_results else [results]


def _with_words(parameter: Any) -> Any:
    """A parameter of an equation, with all jaxprs in it of words."""
    if isinstance(parameter, ClosedJaxpr):
        return _of_words(parameter)
    if isinstance(parameter, tuple | list):
        return type(parameter)(map(_with_words, parameter))
    return parameter


def _of_each_word(
    primitive: Any, parameters: Mapping[str, Any], keys: Sequence[bool], operands: Sequence[Any]
) -> Sequence[Any]:
    """The results of a movement of whole keys, the same for each of their words."""
    axes = [-1 if is_key else None for is_key in keys]
    move = jax.vmap(lambda *words: primitive.bind(*words, **parameters), axes, -1)
    results = move(*operands)
    return results if primitive.multiple_results else [results]


# What the operations on keys are on words


def _of_generator(draw: Callable[..., Array]) -> Callable[..., Sequence[Array]]:
    """A function of the generator, of one key's words, for keys of any shape."""

    def rule(equation: Any, words: Array, *others: Array) -> Sequence[Array]:
        aval = equation.invars[0].aval
        function = functools.partial(draw, generator_of(aval), equation.params)
        for _ in aval.shape:
            function = jax.vmap(function)
        return [_inlined(function, words, *others)]

    return rule


def _inlined(function: Callable[..., Array], *arguments: Array) -> Array:
    """The results of a function of words that JAX implements by operations with rules here."""
    program = jax.make_jaxpr(function)(*arguments)
    return _evaluate(program, *arguments)[0]


def _seeded(equation: Any, seeds: Array) -> Sequence[Array]:
    function = generator_of(equation.outvars[0].aval).seed
    for _ in equation.invars[0].aval.shape:
        function = jax.vmap(function)
    return [_inlined(function, seeds)]


def _threefry(_: Any, *operands: Array) -> Sequence[Array]:
    first_key, second_key, first, second = jnp.broadcast_arrays(*operands)
    return threefry(jnp.stack([first_key, second_key]), first, second)


def _counters(equation: Any) -> Sequence[Array]:
    """The numbers of all entries of an array, as two words each."""
    shape = equation.params["shape"]
    numbers = jax.lax.iota(jnp.uint32, equation.outvars[1].aval.size).reshape(shape)
    return [jnp.zeros_like(numbers), numbers]


_RULES: Mapping[str, Callable[..., Sequence[Any]]] = {
    "random_wrap": lambda _, words: [words],
    "random_unwrap": lambda _, words: [words],
    "random_clone": lambda _, words: [words],
    "random_seed": _seeded,
    "random_bits": _of_generator(
        lambda generator, parameters, words: generator.random_bits(
            words, parameters["bit_width"], parameters["shape"]
        )
    ),
    "random_split": _of_generator(
        lambda generator, parameters, words: generator.split(words, parameters["shape"])
    ),
    "random_fold_in": _of_generator(
        lambda generator, _, words, number: generator.fold_in(words, number)
    ),
    "threefry2x32": _threefry,
    "iota_2x32_shape": _counters,
}
