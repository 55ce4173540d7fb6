"""A program of one robot: what is traced once, differentiated, and evaluated for batches."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from artix.evaluation.clean_context import clean_context

Array = jax.Array


class Program:
    """A function of arrays of one robot, as a jaxpr, and which of its arguments are known.

    Programs are compared by identity: whoever makes them keeps them, see :mod:`artix.evaluation.quantity`. Their
    derivatives are programs, too, linear in the arguments after the first ``num_values``.

    Attributes:
      name: what it computes, for messages.
      jaxpr: it, as a function of all arguments, known or not.
      num_values: how many of its arguments are no tangents (or cotangents).
      has_kernel: whether a kernel may be written for it; else XLA evaluates it.
      known: the arguments that are numbers, by their places.
      traced: the places of the others, which are its operands.
      kernels: kernels by the levels of the operands, see :mod:`artix.evaluation.compilation`.
    """

    def __init__(
        self,
        name: str,
        jaxpr: ClosedJaxpr,
        num_values: int,
        *,
        has_kernel: bool = True,
        known: Mapping[int, np.ndarray] | None = None,
        base: Program | None = None,
    ) -> None:
        self.name = name
        self.jaxpr = jaxpr
        self.num_values = num_values
        self.has_kernel = has_kernel
        self.known = dict(known or {})
        self.traced = tuple(place for place in range(len(jaxpr.in_avals)) if place not in self.known)
        self.kernels: dict[tuple[int, ...], Any] = {}
        self._base = base
        self._derived: dict[Any, Program] = {}
        self._lock = threading.Lock()

    @functools.cached_property
    def operand_types(self) -> list[Any]:
        """Shapes and dtypes of its operands."""
        return [self.jaxpr.in_avals[place] for place in self.traced]

    @property
    def result_types(self) -> list[Any]:
        """Shapes and dtypes of its results."""
        return list(self.jaxpr.out_avals)

    @functools.cached_property
    def num_operand_values(self) -> int:
        """How many of its operands are no tangents."""
        return sum(place < self.num_values for place in self.traced)

    def __call__(self, *operands: Any) -> list[Any]:
        """Its results, operation by operation."""
        given = dict(zip(self.traced, operands, strict=True)) | self.known
        return jaxpr_as_fun(self.jaxpr)(*(given[place] for place in range(len(given))))

    def with_known(self, known: Mapping[int, np.ndarray]) -> Program:
        """The same program, of which some arguments are numbers."""
        if not known:
            return self
        key = tuple((place, _digest(array)) for place, array in sorted(known.items()))
        options: Any = {"has_kernel": self.has_kernel, "known": known, "base": self}
        return self._once(("known", key), lambda: Program(self.name, self.jaxpr, self.num_values, **options))

    def derivative(self, moving: Sequence[int]) -> Program:
        """The derivative along tangents of some operands, which follow the operands."""
        return self._derived_from_base(("derivative", tuple(self.traced[number] for number in moving)), _differentiated)

    def transpose(self, asked: Sequence[int], seen: Sequence[int]) -> Program:
        """Of a linear program, cotangents of the operands ``asked`` from cotangents of the results ``seen``.

        Its arguments are the values of this one, then the cotangents.
        """
        key = ("transpose", tuple(self.traced[number] for number in asked), tuple(seen))
        return self._derived_from_base(key, _transposed)

    def selected(self, results: Sequence[int]) -> Program:
        """The program with some of its results alone."""
        return self._derived_from_base(("selected", tuple(results)), _selected)

    def _derived_from_base(self, key: Any, derive: Callable[..., Program]) -> Program:
        """What is derived of robots of one topology is derived once."""
        base = self._base
        if base is None:
            return self._once(key, lambda: derive(self, *key[1:]))
        return self._once(key, lambda: base._derived_from_base(key, derive).with_known(self.known))

    def _once(self, key: Any, make: Callable[[], Program]) -> Program:
        with self._lock:
            found = self._derived.get(key)
        if found is None:
            made = make()
            with self._lock:
                if len(self._derived) >= _MOST_DERIVED:
                    self._derived.pop(next(iter(self._derived)))
                found = self._derived.setdefault(key, made)
        return found


#: Robots of one topology, and ways to differentiate, that are kept for one program; the oldest is forgotten first.
_MOST_DERIVED = 256


def trace(function: Callable[..., Any], types: Sequence[Any]) -> tuple[ClosedJaxpr, Any]:
    """The jaxpr of a function of arrays, and the structure of its results, whatever surrounds the call."""
    with clean_context():
        jaxpr, results = jax.make_jaxpr(function, return_shape=True)(*types)
    return jaxpr, jax.tree.structure(results)


def _types(avals: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]


def _differentiated(program: Program, moving: tuple[int, ...]) -> Program:
    count = len(program.jaxpr.in_avals)
    function = jaxpr_as_fun(program.jaxpr)

    def change(*arguments: Array) -> list[Array]:
        values, tangents = arguments[:count], arguments[count:]

        def of_moving(*moved: Array) -> list[Array]:
            now = dict(zip(moving, moved, strict=True))
            return function(*(now.get(place, value) for place, value in enumerate(values)))

        return jax.jvp(of_moving, tuple(values[place] for place in moving), tangents)[1]

    inputs = program.jaxpr.in_avals
    jaxpr, _ = trace(change, _types([*inputs, *(inputs[place] for place in moving)]))
    return Program(f"derivative of {program.name}", jaxpr, count, has_kernel=program.has_kernel)


def _transposed(program: Program, asked: tuple[int, ...], seen: tuple[int, ...]) -> Program:
    count, inputs, outputs = program.num_values, program.jaxpr.in_avals, program.jaxpr.out_avals
    function = jaxpr_as_fun(program.jaxpr)

    def backward(*arguments: Array) -> Any:
        def of_asked(*tangents: Array) -> list[Array]:
            # All is linear in all tangents, so that those which are not asked for do not matter.
            whole = [*arguments[:count], *(jnp.zeros(aval.shape, aval.dtype) for aval in inputs[count:])]
            for place, tangent in zip(asked, tangents, strict=True):
                whole[place] = tangent
            results = function(*whole)
            return [results[number] for number in seen]

        return jax.linear_transpose(of_asked, *_types([inputs[place] for place in asked]))([*arguments[count:]])

    jaxpr, _ = trace(backward, _types([*inputs[:count], *(outputs[number] for number in seen)]))
    return Program(f"transpose of the {program.name}", jaxpr, count, has_kernel=program.has_kernel)


def _selected(program: Program, results: tuple[int, ...]) -> Program:
    function = jaxpr_as_fun(program.jaxpr)

    def some(*arguments: Array) -> list[Array]:
        found = function(*arguments)
        return [found[number] for number in results]

    jaxpr, _ = trace(some, _types(program.jaxpr.in_avals))
    return Program(program.name, jaxpr, program.num_values, has_kernel=program.has_kernel)


def _digest(array: np.ndarray) -> bytes:
    content = hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16)
    content.update(f"{array.dtype}{array.shape}".encode())
    return content.digest()
