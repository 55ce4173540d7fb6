"""A program of one robot: what is traced once, differentiated, and evaluated for batches."""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from artix.evaluation.clean_context import clean_context

Array = jax.Array
Type = jax.ShapeDtypeStruct

#: Robots of one topology, and ways to differentiate, that are kept for one program; the oldest is forgotten first.
_MOST_DERIVED = 256

_numbers = itertools.count()


class Program:
    """A function of arrays of one robot, and which of its arguments are known.

    Programs are compared by identity: whoever makes them keeps them, see :mod:`artix.evaluation.quantity`. Their
    derivatives are programs, too, linear in the arguments after the first ``num_values``. None is traced before
    somebody looks at its ``jaxpr``, which nobody does where a kernel is found on disk.

    Attributes:
      name: what it computes, for messages.
      argument_types: shapes and dtypes of all arguments, known or not.
      result_types: those of its results.
      num_values: how many of its arguments are no tangents (or cotangents).
      key: a digest of what it computes, equal in all processes; ``None`` if nothing is known to tell it from others.
      number: no other program of this process has it.
      has_kernel: whether a kernel may be written for it; else XLA evaluates it.
      has_gpu_kernel: whether one may be written for GPUs, too.
      known: the arguments that are numbers, by their places.
      traced: the places of the others, which are its operands.
      kernels: kernels by the levels of the operands, see :mod:`artix.evaluation.compilation`.
      gpu_kernels: those of GPUs, see :mod:`artix.evaluation.gpu_compilation`.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ClosedJaxpr],
        argument_types: Sequence[Type],
        result_types: Sequence[Type],
        num_values: int,
        *,
        key: bytes | None = None,
        has_kernel: bool = True,
        has_gpu_kernel: bool = False,
        known: Mapping[int, np.ndarray] | None = None,
        base: Program | None = None,
    ) -> None:
        self.name = name
        self.argument_types = tuple(argument_types)
        self.result_types = tuple(result_types)
        self.num_values = num_values
        self.key = key
        self.number = next(_numbers)
        self.has_kernel = has_kernel
        self.has_gpu_kernel = has_gpu_kernel
        self.known = dict(known or {})
        self.traced = tuple(place for place in range(len(self.argument_types)) if place not in self.known)
        self.kernels: dict[tuple[int, ...], Any] = {}
        self.gpu_kernels: dict[Any, Any] = {}
        self._make = make
        self._base = base
        self._derived: dict[Any, Program] = {}
        self._lock = threading.RLock()

    @functools.cached_property
    def jaxpr(self) -> ClosedJaxpr:
        """It, as a function of all arguments."""
        return self._make()

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
        numbers = tuple((place, _digest(array)) for place, array in sorted(known.items()))
        options: Any = {**self.switches, "known": known, "base": self}
        options["key"] = _extended(self.key, ("known", numbers))
        types = (self.argument_types, self.result_types)
        make = lambda: Program(self.name, lambda: self.jaxpr, *types, self.num_values, **options)  # noqa: E731
        return self._once(("known", numbers), make)

    def derivative(self, moving: Sequence[int]) -> Program:
        """The derivative along tangents of some operands, which follow the operands."""
        return self._derived_from_base(("derivative", tuple(self.traced[number] for number in moving)))

    def is_linear_in(self, asked: Sequence[int]) -> bool:
        """Whether the derivative along some operands, all together, is the same wherever they are."""
        jaxpr = self.derivative(asked).jaxpr.jaxpr
        _, is_used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
        return not any(is_used[self.traced[number]] for number in asked)

    def transpose(self, asked: Sequence[int], seen: Sequence[int]) -> Program:
        """Of a linear program, cotangents of the operands ``asked`` from cotangents of the results ``seen``.

        Its arguments are the values of this one, then the cotangents.
        """
        return self._derived_from_base(("transpose", tuple(self.traced[number] for number in asked), tuple(seen)))

    def selected(self, results: Sequence[int]) -> Program:
        """The program with some of its results alone."""
        return self._derived_from_base(("selected", tuple(results)))

    def without_kernel(self) -> Program:
        """The program, evaluated by XLA."""
        return self if not self.has_kernel else self._derived_from_base(("without_kernel",))

    def with_gpu_kernel(self) -> Program:
        """The program, for which there may be kernels on GPUs."""
        return self if self.has_gpu_kernel else self._derived_from_base(("with_gpu_kernel",))

    @property
    def switches(self) -> dict[str, Any]:
        """Where there may be kernels, as arguments of a program that is derived from this one."""
        return {"has_kernel": self.has_kernel, "has_gpu_kernel": self.has_gpu_kernel}

    def _derived_from_base(self, how: tuple[Any, ...]) -> Program:
        """What is derived of robots of one topology is derived once."""
        base = self._base
        if base is None:
            return self._once(how, lambda: _DERIVE[how[0]](self, _extended(self.key, how), *how[1:]))
        return self._once(how, lambda: base._derived_from_base(how).with_known(self.known))

    def _once(self, how: Any, make: Callable[[], Program]) -> Program:
        with self._lock:
            found = self._derived.get(how)
            if found is None:
                if len(self._derived) >= _MOST_DERIVED:
                    self._derived.pop(next(iter(self._derived)))
                found = self._derived[how] = make()
        return found


def trace(function: Callable[..., Any], types: Sequence[Type]) -> tuple[ClosedJaxpr, Any]:
    """The jaxpr of a function of arrays, and its results as shapes and dtypes, whatever surrounds the call."""
    before, _tracing.active = _tracing.active, True
    try:
        with clean_context():
            return jax.make_jaxpr(function, return_shape=True)(*types)
    finally:
        _tracing.active = before


class _Tracing(threading.local):
    """Whether this thread traces a program: functions that it calls are parts of it.

    So are those that rules of differentiation call, which JAX traces when a derivative is derived.
    """

    active = False


_tracing = _Tracing()


def is_tracing() -> bool:
    """Whether this thread traces a program."""
    return _tracing.active


def _differentiated(program: Program, key: bytes | None, moving: tuple[int, ...]) -> Program:
    inputs, count = program.argument_types, len(program.argument_types)
    types = [*inputs, *(inputs[place] for place in moving)]

    def change(*arguments: Array) -> list[Array]:
        values, tangents = arguments[:count], arguments[count:]

        def of_moving(*moved: Array) -> list[Array]:
            now = dict(zip(moving, moved, strict=True))
            found = jaxpr_as_fun(program.jaxpr)(*(now.get(place, value) for place, value in enumerate(values)))
            # What is no real number does not change.
            return [x if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros(x.shape, "float32") for x in found]

        return jax.jvp(of_moving, tuple(values[place] for place in moving), tangents)[1]

    results = [x if jnp.issubdtype(x.dtype, jnp.floating) else Type(x.shape, "float32") for x in program.result_types]
    name = f"derivative of {program.name}"
    return Program(name, lambda: trace(change, types)[0], types, results, count, key=key, **program.switches)


def _transposed(program: Program, key: bytes | None, asked: tuple[int, ...], seen: tuple[int, ...]) -> Program:
    count, inputs, outputs = program.num_values, program.argument_types, program.result_types

    def backward(*arguments: Array) -> Any:
        def of_asked(*tangents: Array) -> list[Array]:
            # All is linear in all tangents, so that those which are not asked for do not matter.
            whole = [*arguments[:count], *(jnp.zeros(kind.shape, kind.dtype) for kind in inputs[count:])]
            for place, tangent in zip(asked, tangents, strict=True):
                whole[place] = tangent
            results = jaxpr_as_fun(program.jaxpr)(*whole)
            return [results[number] for number in seen]

        return jax.linear_transpose(of_asked, *(inputs[place] for place in asked))([*arguments[count:]])

    types = [*inputs[:count], *(outputs[number] for number in seen)]
    results = [inputs[place] for place in asked]
    name = f"transpose of the {program.name}"
    return Program(name, lambda: trace(backward, types)[0], types, results, count, key=key, **program.switches)


def _selected(program: Program, key: bytes | None, numbers: tuple[int, ...]) -> Program:
    def some(*arguments: Array) -> list[Array]:
        found = jaxpr_as_fun(program.jaxpr)(*arguments)
        return [found[number] for number in numbers]

    types, results = program.argument_types, [program.result_types[number] for number in numbers]
    options: Any = {"key": key, **program.switches}
    return Program(program.name, lambda: trace(some, types)[0], types, results, program.num_values, **options)


def _without_kernel(program: Program, key: bytes | None) -> Program:
    types = (program.argument_types, program.result_types)
    return Program(program.name, lambda: program.jaxpr, *types, program.num_values, key=key, has_kernel=False)


def _with_gpu_kernel(program: Program, key: bytes | None) -> Program:
    types = (program.argument_types, program.result_types)
    options: Any = {"key": key, "has_kernel": program.has_kernel, "has_gpu_kernel": True}
    return Program(program.name, lambda: program.jaxpr, *types, program.num_values, **options)


_DERIVE: dict[str, Callable[..., Program]] = {
    "derivative": _differentiated,
    "transpose": _transposed,
    "selected": _selected,
    "without_kernel": _without_kernel,
    "with_gpu_kernel": _with_gpu_kernel,
}


def _extended(key: bytes | None, how: Any) -> bytes | None:
    return None if key is None else hashlib.sha256(key + repr(how).encode()).digest()


def _digest(array: np.ndarray) -> bytes:
    content = hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16)
    content.update(f"{array.dtype}{array.shape}".encode())
    return content.digest()
