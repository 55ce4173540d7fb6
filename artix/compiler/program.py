"""A program of one robot: traced once, simplified, differentiated, and evaluated for batches.

Functions of a robot call each other without sharing results: each solves the kinematics again. And
differentiation writes derivatives that no result needs. Both take time wherever the program is
read.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, Literal, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from artix.compiler.jax_internals import (
    clean_context,
    long_call,
    types_of_64_bits,
    without_unused,
)
from artix.compiler.kept_values import (
    pack,
    packed_type,
    unpack,
    with_kept_arguments,
    with_kept_results,
)
from artix.compiler.random_words import has_keys, with_words, without_keys
from artix.math.traces import quickly

Array = jax.Array
Type = jax.ShapeDtypeStruct
#: For each axis of each array: the first entry and the number of entries within a larger array, and
#: its length there.
AxesOfAll: TypeAlias = tuple[tuple[tuple[int, int, int], ...], ...]

#: A program, and the axes of its arguments and of its results; see :class:`Program`.
Padded: TypeAlias = "tuple[Program, AxesOfAll, AxesOfAll]"
#: A linear program, and the indices of arguments and of results; see :class:`Program`.
Transposed: TypeAlias = "tuple[Program, tuple[int, ...], tuple[int, ...]]"
#: A program, and the indices of some of its results; see :class:`Program`.
Selected: TypeAlias = "tuple[Program, tuple[int, ...]]"

#: Number of derived programs (with known parameters, derivatives, ...) kept per program; the oldest
#: is dropped first.
_MAX_DERIVED = 256

#: Larger arrays never become constants of a program. A terrain that a compiled function closes over
#: is an operand from which the kernel reads what it needs, so that another terrain needs no new
#: kernel.
MAX_KNOWN = 4096

_numbers = itertools.count()


class Program:
    """A function of the arrays of one robot, some of whose arguments may be known.

    Programs are compared by identity and cached by their makers, see
    :mod:`artix.compiler.quantity`. Their derivatives are programs too, linear in the arguments
    after the first ``num_values``. A program is traced when its ``jaxpr`` is first needed, which is
    never if its kernel is found on disk.

    Attributes:
      name: what it computes, for messages.
      argument_types: shapes and dtypes of all arguments, known or not.
      result_types: those of its results.
      num_values: number of arguments that are not tangents (or cotangents).
      key: a digest of what it was made from, equal in all processes; ``None`` if that may have
        changed in another process, as a user's function may.
      number: unique in this process.
      has_kernel: whether a kernel may be compiled for it; otherwise XLA evaluates it.
      has_gpu_kernel: whether a kernel may be compiled for GPUs as well; ``None`` if that depends on
        the GPU, see :mod:`artix.compiler.gpu_verdict`.
      known: the arguments that are constants, by index.
      traced: the indices of the other arguments, its operands.
      transposes: if it is a transpose, the linear program, its arguments whose cotangents are the
        results, and its results whose cotangents are the last arguments.
      pads: if its arrays contain those of another program, that program and where they are.
      selects: if it has only some of the results of another program, that program and which.
      make_parts: of a function of users, returns its jaxpr with the programs that it calls as
        operations.
      kept_types: shapes and dtypes of the values that it keeps for derivatives, see
        :mod:`artix.compiler.kept_values`.
      carried: if it keeps any, the arguments that it keeps with them, since they change from call
        to call.
      digests: without a key, those of its scalars by the levels of its operands; empty if it has
        none, see :mod:`artix.compiler.compilation`.
      scalars: its scalars until there is a kernel, or the error that says why there are none.
      kernels: CPU kernels, see :mod:`artix.compiler.compilation`.
      gpu_kernels: GPU kernels, see :mod:`artix.compiler.gpu_compilation`.
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
        has_gpu_kernel: bool | None = None,
        known: Mapping[int, np.ndarray] | None = None,
        base: Program | None = None,
        transposes: Transposed | None = None,
        pads: Padded | None = None,
        selects: Selected | None = None,
        make_parts: Callable[[], ClosedJaxpr] | None = None,
        kept_types: Sequence[Type] = (),
        carried: Sequence[int] = (),
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
        self.traced = tuple(
            index for index in range(len(self.argument_types)) if index not in self.known
        )
        self.transposes = transposes
        self.pads = pads
        self.selects = selects
        self.make_parts = make_parts
        self.kept_types = tuple(kept_types)
        self.carried = tuple(carried)
        self.digests: dict[Any, bytes] = {}
        self.scalars: dict[Any, Any] = {}
        self.kernels: dict[Any, Any] = {}
        self.gpu_kernels: dict[Any, Any] = {}
        self._make = make
        self._base = base
        self._derived: dict[Any, Program] = {}
        self._lock = threading.RLock()

    @functools.cached_property
    def jaxpr(self) -> ClosedJaxpr:
        """The program's jaxpr, a function of all arguments."""
        return self._make()

    @functools.cached_property
    def in_parts(self) -> Program:
        """The program as XLA evaluates it where it has no kernel: what it calls may have some."""
        if self.make_parts is None or not self.has_kernel:
            return self
        types = self.argument_types, self.result_types
        options = {**self.switches, "known": self.known}
        return Program(self.name, self.make_parts, *types, self.num_values, **options)

    @functools.cached_property
    def num_operand_values(self) -> int:
        """Number of operands that are not tangents."""
        return sum(index < self.num_values for index in self.traced)

    def __call__(self, *operands: Any) -> list[Any]:
        """Evaluates the program operation by operation."""
        return jaxpr_as_fun(self.jaxpr)(*self.arguments(operands))

    def arguments(self, operands: Sequence[Any]) -> list[Any]:
        """All arguments, known or not."""
        arguments = dict(zip(self.traced, operands, strict=True)) | self.known
        return [arguments[index] for index in range(len(arguments))]

    def with_known(self, known: Mapping[int, np.ndarray]) -> Program:
        """The program with some arguments known."""
        if not known:
            return self
        digests = tuple((index, _digest(array)) for index, array in sorted(known.items()))
        key = _extend_key(self.key, ("known", digests))
        return self._once(
            ("known", digests), lambda: _with_options(self, key, known=known, base=self)
        )

    def derivative(self, operands: Sequence[int]) -> Program:
        """The derivative along tangents of some operands; its arguments are all operands, then the
        tangents.
        """
        return self._derived_from_base(
            ("derivative", tuple(self.traced[operand] for operand in operands))
        )

    def with_kept_results(self) -> Program:
        """The program that also returns what it keeps for derivatives, after its results."""
        return self._derived_from_base(("with_kept_results",))

    def derivative_at_kept(self, operands: Sequence[int]) -> Program:
        """The derivative along tangents of some operands; its arguments are the operands that the
        program does not keep, then what it keeps, then the tangents.
        """
        derived = (self._base or self)._derived_from_base(
            ("derivative_at_kept", tuple(self.traced[operand] for operand in operands))
        )
        unused = {index: _zeros(self.argument_types[index]) for index in self.carried}
        return derived.with_known(unused | self.known)

    @property
    def types_to_pack(self) -> list[Type]:
        """Shapes and dtypes of all that it keeps, which is one array."""
        return [*(self.argument_types[index] for index in self.carried), *self.kept_types]

    def is_linear_in(self, operands: Sequence[int]) -> bool:
        """Whether the derivative along some operands does not depend on them."""
        jaxpr = self.derivative(operands).jaxpr.jaxpr
        _, is_used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
        return not any(is_used[self.traced[operand]] for operand in operands)

    def transpose(self, operands: Sequence[int], results: Sequence[int]) -> Program:
        """The transpose of a linear program: from cotangents of some results to cotangents of some
        operands.

        Its arguments are the values of this program, then the cotangents.
        """
        return self._derived_from_base(
            ("transpose", tuple(self.traced[operand] for operand in operands), tuple(results))
        )

    def select(self, results: Sequence[int]) -> Program:
        """The program with only some of its results."""
        return self._derived_from_base(("select", tuple(results)))

    def padded(self, arguments: AxesOfAll, results: AxesOfAll) -> Program:
        """The program for larger arrays that contain its own; other entries are ignored, and zero
        in results.

        Args:
          arguments: for each axis of each argument, the first entry, the number of entries and the
            larger length.
          results: the same for each result.
        """
        return self._derived_from_base(("padded", arguments, results))

    def without_kernel(self) -> Program:
        """The program, evaluated by XLA."""
        return self if not self.has_kernel else self._derived_from_base(("without_kernel",))

    def with_gpu_kernel(self, permitted: bool) -> Program:
        """The program, with kernels on GPUs permitted or not, whatever the GPU."""
        return (
            self
            if self.has_gpu_kernel is permitted
            else self._derived_from_base(("with_gpu_kernel", permitted))
        )

    @property
    def switches(self) -> dict[str, Any]:
        """Where kernels are permitted, as keyword arguments for a derived program."""
        return {"has_kernel": self.has_kernel, "has_gpu_kernel": self.has_gpu_kernel}

    @property
    def keeps(self) -> dict[str, Any]:
        """What is kept for derivatives, as keyword arguments for a derived program."""
        return {"kept_types": self.kept_types, "carried": self.carried}

    def _derived_from_base(self, how: tuple[Any, ...]) -> Program:
        """Derives from the program without known arguments, so that robots of one topology share
        the derivation.
        """
        base = self._base
        if base is None:
            return self._once(
                how, lambda: _DERIVE[how[0]](self, _extend_key(self.key, how), *how[1:])
            )
        return self._once(how, lambda: base._derived_from_base(how).with_known(self.known))

    def _once(self, how: Any, build: Callable[[], Program]) -> Program:
        with self._lock:
            derived = self._derived.get(how)
            if derived is None:
                if len(self._derived) >= _MAX_DERIVED:
                    self._derived.pop(next(iter(self._derived)))
                derived = self._derived[how] = build()
        return derived


@long_call
def trace(
    function: Callable[..., Any], types: Sequence[Type], in_parts: bool = False
) -> tuple[ClosedJaxpr, Any]:
    """The jaxpr of a function of arrays and the types of its results, independent of the caller's
    context. Random keys among the results are words.

    Args:
      function: the function.
      types: those of its arguments.
      in_parts: whether the programs that it calls stay operations, instead of being drawn in.
    """
    quick = quickly(function)
    before, _tracing.active = _tracing.active, not in_parts
    try:
        with (
            clean_context(not in_parts),
            types_of_64_bits(any(x.dtype.itemsize == 8 for x in types)),
        ):
            make = jax.make_jaxpr(lambda *arrays: with_words(quick(*arrays)), return_shape=True)
            program, results = make(*types)
            if has_keys(program):
                program = without_keys(program)
        return simplified(program), results
    finally:
        _tracing.active = before


class _Tracing(threading.local):
    """Whether this thread is tracing a program, into which the functions that it calls are inlined.

    That includes functions called by differentiation rules, which JAX traces when it differentiates
    the program.
    """

    active = False


_tracing = _Tracing()


def is_tracing() -> bool:
    """Whether this thread is tracing a program."""
    return _tracing.active


def is_readable(array: Any) -> bool:
    """Whether this process knows the values of an array, while JAX traces or at all."""
    if isinstance(array, jax.core.Tracer | jax.ShapeDtypeStruct):
        return False
    return (
        not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_fully_replicated
    )


def _zeros(kind: Type) -> np.ndarray:
    return np.zeros(kind.shape, kind.dtype)


def replaced(values: Sequence[Any], indices: Sequence[int], new_values: Sequence[Any]) -> list[Any]:
    """The values, with new ones at some indices."""
    new = dict(zip(indices, new_values, strict=True))
    return [new.get(index, value) for index, value in enumerate(values)]


def _differentiate(program: Program, key: bytes | None, varied: tuple[int, ...]) -> Program:
    return _derivative_of(program, key, varied, program.argument_types, lambda: program.jaxpr)


def _differentiate_at_kept(program: Program, key: bytes | None, varied: tuple[int, ...]) -> Program:
    if program.selects is not None:
        whole, indices = program.selects
        selected = _select(_differentiate_at_kept(whole, None, varied), key, indices)
        return _with_options(selected, key, **program.switches)

    def at_kept() -> ClosedJaxpr:
        return closed(with_kept_arguments(program.jaxpr.jaxpr), program.jaxpr.consts)

    def unpacked(*arguments: Array) -> list[Array]:
        *values, packed = arguments
        parts, count = unpack(packed, program.types_to_pack), len(program.carried)
        return [*replaced(values, program.carried, parts[:count]), *parts[count:]]

    types = [*program.argument_types, packed_type(program.types_to_pack)]
    return _derivative_of(program, key, varied, types, at_kept, unpacked)


def _derivative_of(
    program: Program,
    key: bytes | None,
    varied: tuple[int, ...],
    value_types: Sequence[Type],
    jaxpr: Callable[[], ClosedJaxpr],
    arguments_of: Callable[..., Sequence[Array]] = lambda *values: values,
) -> Program:
    """The derivative of a jaxpr, with the results of a program, along some of its arguments, which
    are functions of values of these types.
    """
    count = len(value_types)
    types = [*value_types, *(value_types[index] for index in varied)]

    def derivative(*arguments: Array) -> list[Array]:
        values, tangents = arguments_of(*arguments[:count]), arguments[count:]

        def of_varied(*new_values: Array) -> list[Array]:
            outputs = jaxpr_as_fun(jaxpr())(*replaced(values, varied, new_values))
            # Integers and booleans have zero derivatives.
            return [
                x if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros(x.shape, "float32")
                for x in outputs
            ]

        return jax.jvp(of_varied, tuple(values[index] for index in varied), tangents)[1]

    results = [
        x if jnp.issubdtype(x.dtype, jnp.floating) else Type(x.shape, "float32")
        for x in program.result_types
    ]
    name = f"derivative of {program.name}"
    return Program(
        name,
        lambda: trace(derivative, types)[0],
        types,
        results,
        count,
        key=key,
        **program.switches,
    )


def _transpose(
    program: Program, key: bytes | None, linear: tuple[int, ...], used: tuple[int, ...]
) -> Program:
    """Maps cotangents of the results ``used`` to those of the arguments ``linear``."""
    count, argument_types, result_types = (
        program.num_values,
        program.argument_types,
        program.result_types,
    )

    def transposed(*arguments: Array) -> Any:
        def of_tangents(*tangents: Array) -> list[Array]:
            # The program is linear in all tangents together, so the others can be zero.
            zeros = [jnp.zeros(x.shape, x.dtype) for x in argument_types[count:]]
            outputs = jaxpr_as_fun(program.jaxpr)(
                *replaced([*arguments[:count], *zeros], linear, tangents)
            )
            return [outputs[index] for index in used]

        return jax.linear_transpose(of_tangents, *(argument_types[index] for index in linear))(
            [*arguments[count:]]
        )

    types = [*argument_types[:count], *(result_types[index] for index in used)]
    results = [argument_types[index] for index in linear]
    name = f"transpose of the {program.name}"
    options: Any = {**program.switches, "transposes": (program, linear, used)}
    return Program(
        name, lambda: trace(transposed, types)[0], types, results, count, key=key, **options
    )


def _select(program: Program, key: bytes | None, indices: tuple[int, ...]) -> Program:
    if program.transposes is not None:
        transposed, linear, used = program.transposes
        return _transpose(transposed, key, tuple(linear[index] for index in indices), used)
    if program.pads is not None:
        inner, argument_axes, result_axes = program.pads
        return _padded(
            inner.select(indices),
            key,
            argument_axes,
            tuple(result_axes[index] for index in indices),
        )

    def selected() -> ClosedJaxpr:
        whole = program.jaxpr
        is_used = [index in indices for index in range(len(program.result_types))]
        return closed(dce_jaxpr(whole.jaxpr, is_used, instantiate=True)[0], whole.consts)

    results = [program.result_types[index] for index in indices]
    types = program.argument_types
    options: Any = {**program.switches, **program.keeps}
    if program.kept_types:  # What it keeps may not be needed for these results.
        options["selects"] = (program, indices)
    return Program(program.name, selected, types, results, program.num_values, key=key, **options)


def _with_kept_results(program: Program, key: bytes | None) -> Program:
    if program.selects is not None:
        whole, indices = program.selects
        count = len(whole.result_types)
        selected = _select(_with_kept_results(whole, None), key, (*indices, count))
        return _with_options(selected, key, **program.switches)

    def with_kept() -> ClosedJaxpr:
        packing = trace(jax.jit(lambda *arrays: pack(arrays)), program.types_to_pack)[0].jaxpr
        whole = with_kept_results(program.jaxpr.jaxpr, program.carried, *packing.eqns)
        return closed(whole, program.jaxpr.consts)

    results = [*program.result_types, packed_type(program.types_to_pack)]
    types = program.argument_types, results
    # Second derivatives differentiate this program, and keep the same.
    options: Any = {**program.switches, **program.keeps}
    return Program(program.name, with_kept, *types, program.num_values, key=key, **options)


def _padded(
    program: Program, key: bytes | None, arguments: AxesOfAll, results: AxesOfAll
) -> Program:
    def of_padded(*values: Array) -> list[Array]:
        parts = [
            lax.slice(
                value, [start for start, *_ in axes], [start + size for start, size, _ in axes]
            )
            for value, axes in zip(values, arguments, strict=True)
        ]
        return [
            lax.pad(
                result,
                result.dtype.type(0),
                [(start, length - start - size, 0) for start, size, length in axes],
            )
            for result, axes in zip(jaxpr_as_fun(program.jaxpr)(*parts), results, strict=True)
        ]

    types, result_types = (
        [
            Type([length for *_, length in axes], x.dtype)
            for x, axes in zip(old, all_axes, strict=True)
        ]
        for old, all_axes in ((program.argument_types, arguments), (program.result_types, results))
    )
    make = lambda: trace(of_padded, types)[0]  # noqa: E731
    options: Any = {**program.switches, "pads": (program, arguments, results)}
    return Program(program.name, make, types, result_types, program.num_values, key=key, **options)


def _with_options(program: Program, key: bytes | None, **options: Any) -> Program:
    """The same function, with other options."""
    options = {
        **program.switches,
        "transposes": program.transposes,
        "pads": program.pads,
        "selects": program.selects,
        "make_parts": program.make_parts,
        **program.keeps,
        **options,
    }
    types = (program.argument_types, program.result_types)
    return Program(
        program.name, lambda: program.jaxpr, *types, program.num_values, key=key, **options
    )


_DERIVE: dict[str, Callable[..., Program]] = {
    "derivative": _differentiate,
    "derivative_at_kept": _differentiate_at_kept,
    "with_kept_results": _with_kept_results,
    "transpose": _transpose,
    "select": _select,
    "padded": _padded,
    "without_kernel": functools.partial(_with_options, has_kernel=False),
    "with_gpu_kernel": lambda program, key, permitted: _with_options(
        program, key, has_gpu_kernel=permitted
    ),
}


def _extend_key(key: bytes | None, how: Any) -> bytes | None:
    return None if key is None else hashlib.sha256(key + repr(how).encode()).digest()


def _digest(array: np.ndarray) -> bytes:
    content = hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16)
    content.update(f"{array.dtype}{array.shape}".encode())
    return content.digest()


def simplified(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with equal equations evaluated once, and without those that no result depends
    on.
    """
    program = ClosedJaxpr(program.jaxpr, [_on_host(constant) for constant in program.consts])
    jaxpr: Any = program.jaxpr
    new_names = _equal_constants(jaxpr.constvars, program.consts)
    first_of: dict[Any, Any] = {}
    equations = []
    for equation in jaxpr.eqns:
        operands = [_renamed(variable, new_names) for variable in equation.invars]
        key = _key(equation, operands)
        before = None if key is None else first_of.setdefault(key, equation)
        if before is None or before is equation:
            equations.append(
                equation if operands == equation.invars else equation.replace(invars=operands)
            )
            continue
        new_names.update(zip(equation.outvars, before.outvars, strict=True))
    results = [_renamed(variable, new_names) for variable in jaxpr.outvars]
    shorter = jaxpr.replace(eqns=equations, outvars=results)
    everything = [True] * len(results), [True] * len(jaxpr.invars)
    needed, _ = without_unused(shorter, *everything)
    return closed(needed, program.consts)


def _on_host(constant: Any) -> Any:
    """A copy of a constant that nobody can donate or delete while the program lives; large ones are
    not copied.
    """
    is_small = (
        isinstance(constant, jax.Array) and constant.size <= MAX_KNOWN and is_readable(constant)
    )
    is_key = is_small and jnp.issubdtype(constant.dtype, jax.dtypes.extended)
    return np.array(constant) if is_small and not is_key else constant


def closed(jaxpr: Any, constants: Any) -> ClosedJaxpr:
    """A jaxpr with its constants, which since JAX 0.12 every jaxpr has."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, constants)


def _renamed(variable: Any, new_names: dict[Any, Any]) -> Any:
    return variable if isinstance(variable, Literal) else new_names.get(variable, variable)


def _equal_constants(variables: Any, constants: Any) -> dict[Any, Any]:
    """For each constant that is the same array as one before, the variable of that one."""
    new_names: dict[Any, Any] = {}
    first_of: dict[Any, Any] = {}
    for variable, constant in zip(variables, constants, strict=True):
        is_known = isinstance(constant, np.ndarray) and not constant.dtype.hasobject
        key = (variable.aval, constant.tobytes()) if is_known else id(constant)
        before = first_of.setdefault(key, variable)
        if before is not variable:
            new_names[variable] = before
    return new_names


def _key(equation: Any, operands: Sequence[Any]) -> Any:
    """Equal for equations that compute the same; ``None`` if this one has effects or cannot be
    compared.
    """
    if equation.effects or any(isinstance(variable, DropVar) for variable in equation.outvars):
        return None
    key = (
        equation.primitive,
        tuple(map(_operand_key, operands)),
        tuple(sorted((name, _parameter_key(value)) for name, value in equation.params.items())),
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _operand_key(variable: Any) -> Any:
    if not isinstance(variable, Literal):
        return variable
    value: Any = variable.val
    return variable.aval, np.asarray(value).tobytes()  # Bytes tell -0.0 from 0.0.


def _parameter_key(value: Any) -> Any:
    """Programs are the same only if they are one object, as those of functions that JAX has traced
    before.
    """
    if isinstance(value, Jaxpr | ClosedJaxpr):
        return id(value)
    if isinstance(value, tuple | list):
        return type(value), *map(_parameter_key, value)
    return type(value), value
