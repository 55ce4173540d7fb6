"""The public boundary: turns functions of one robot into programs, with kernels or without."""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np

from artix.compiler.argument_types import are_carried, check_of, parameter_children
from artix.compiler.disk import program_key, read_signature, signature_of, write_signature
from artix.compiler.jax_internals import is_staging
from artix.compiler.kept_values import kept_types
from artix.compiler.operation import evaluate
from artix.compiler.program import MAX_KNOWN, Program, is_readable, is_tracing, trace
from artix.compiler.random_words import with_words

_Function = TypeVar("_Function", bound=Callable[..., Any])


#: Outside ``jax.jit``, a function is specialised to the parameters of the first few robots. All
#: further robots share a program with the parameters as operands, which has more operations.
_MAX_SPECIALIZED = 4


#: Whole numbers and names of NumPy are static, as those of Python are.
_ARRAY_TYPES = (jax.Array, np.ndarray, np.inexact, jax.ShapeDtypeStruct)


def is_array(leaf: Any) -> bool:
    """Whether part of an argument is an array or its type; everything else is static."""
    return isinstance(leaf, _ARRAY_TYPES)


class _TracedFunction:
    """A function as a program.

    Attributes:
      program: the program, none of whose arguments are known.
      structure: the pytree structure of the results.
      num_parameters: number of leading arguments that are the parameters, such as those of an
        articulation.
    """

    def __init__(self, program: Program, structure: Any, num_parameters: int) -> None:
        self.program = program
        self.structure = structure
        self.num_parameters = num_parameters
        self._specialized: dict[Program, list[Any]] = {}

    def specialize(self, arrays: Sequence[Any]) -> Program:
        """The program specialised to the robot's parameters, or the general one if many robots have
        been seen.
        """
        parameters = list(arrays[: self.num_parameters])
        for program, known in self._specialized.items():
            if all(map(operator.is_, known, parameters)):
                return program
        # NumPy arrays are mutable, so they cannot become constants.
        if not parameters or not all(
            isinstance(x, jax.Array) and is_readable(x) for x in parameters
        ):
            return self.program
        for program in self._specialized:
            if _knows(program, parameters):  # For example, the same robot loaded again.
                self._specialized = {**self._specialized, program: parameters}
                return program
        if len(self._specialized) >= _MAX_SPECIALIZED:
            return self.program
        program = self.program.with_known(_known(parameters))
        self._specialized = {**self._specialized, program: parameters}
        return program


def quantity(function: _Function) -> _Function:
    """Decorator for public functions of an articulation: each call becomes one operation, a
    :class:`Program`.

    Compiled or not, and under ``jax.vmap``, ``jax.grad`` and so on, the function is traced once per
    topology, shapes and dtypes of its arguments, and values of arguments that are not arrays.
    Arrays that are known while JAX traces the caller (such as an articulation that a compiled
    function closes over) become constants of the program. Outside ``jax.jit`` the parameters of the
    first few robots do too; those of other robots, and all other arrays, are operands. Decorated
    functions that call each other form one program. As with ``jax.jit``, what a function reads
    elsewhere, such as globals and attributes of ``self``, is what it was when it was traced.

    The contract of artix's own, which their docstrings do not repeat: arrays of another shape than
    the docstring gives raise ``ValueError`` and arrays of another dtype than the articulation's
    ``TypeError``, each naming the argument, while JAX traces. Results have the articulation's
    dtype.

    What ``jax.random`` draws within the function is part of its kernel, and compiled in a tenth of
    the time that XLA takes: words, integers and float32 numbers, but for permutations of more
    than 128 entries and draws that repeat until one fits (``gamma``, ``ball``).

    Args:
      function: a function of pytrees whose results are arrays; the only errors it raises concern
        shapes and dtypes.

    Raises:
      ValueError: from the decorated function, an argument is a :class:`~artix.State` whose values
        are known, and it has a number that is not finite or a quaternion not of length 1. Within
        ``jax.jit``, ``jax.vmap`` and ``jax.grad`` values are not known, and what follows from a NaN
        is NaN.

    Examples:
      >>> @artix.quantity
      ... def height(articulation, state):
      ...     return artix.center_of_mass(articulation, state)[2]
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> keys = jax.random.split(jax.random.key(0), 64)
      >>> states = jax.vmap(lambda key: artix.random_state(pendulum, key))(keys)
      >>> print(jax.vmap(height, in_axes=(None, 0))(pendulum, states).shape)  # by one kernel
      (64,)
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return function(*args, **kwargs)
        _check_values(function, args, kwargs)
        call = call_of(function, *args, **kwargs)
        if call is None:
            return function(*args, **kwargs)
        return jax.tree.unflatten(call.structure, evaluate(call.program, call.operands))

    setattr(wrapper, _INNER, (wrapper, function))
    return one_operation(cast(_Function, wrapper))


def subprogram(function: _Function) -> _Function:
    """Decorator for a part of a quantity that stays a program of its own within it.

    A quantity that contains one is evaluated by XLA, and its parts by kernels: so a large one has
    kernels where it repeats itself, under ``jax.vmap`` one for all repetitions.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with use_kernels(True):  # The switch for the whole counts where it is lowered.
            call = call_of(function, *args, **kwargs)
        if call is None:
            return function(*args, **kwargs)
        return jax.tree.unflatten(call.structure, evaluate(call.program, call.operands))

    return cast(_Function, wrapper)


def _check_values(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Runs the checks of the classes of these arguments."""
    for index, value in enumerate((*args, *kwargs.values())):
        check = check_of(value)
        if check is not None:
            names = _parameter_names(function)
            name = (
                [*kwargs][index - len(args)]
                if index >= len(args)
                else names[min(index, len(names) - 1)]
            )
            check(name, value, function)


@functools.cache
def _parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


# Functions that decorate one of these or transform it (:func:`functools.wraps`, :func:`jax.vmap`)
# get its attributes and compute something else, so each attribute names the function it is about.

#: The attribute of a decorated function, with the original.
_INNER = "function_of_quantity"
#: The attribute that marks functions as one operation.
_IS_ONE = "is_one_operation"


def _without_decorator(function: Callable[..., Any]) -> Callable[..., Any]:
    """The original of a :func:`quantity`; other functions as they are."""
    decorated, original = getattr(function, _INNER, (None, None))
    return function if original is None or decorated is not function else original


def one_operation(function: _Function) -> _Function:
    """Marks a function that checks its arguments, then returns the results of one quantity."""
    setattr(function, _IS_ONE, function)
    return function


def is_one_operation(function: Callable[..., Any]) -> bool:
    """Whether a function is a :func:`quantity` or marked as :func:`one_operation`."""
    return getattr(function, _IS_ONE, None) is function


class Call(NamedTuple):
    """A call of a function as a program.

    Attributes:
      program: the program, some of whose arguments are known.
      operands: the other arguments.
      structure: the pytree structure of the results.
    """

    program: Program
    operands: list[Any]
    structure: Any


def call_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Call | None:
    """The program and operands of a call of a function; ``None`` if no argument is an array.

    Args:
      function: the function, which is traced unless it was traced before.
      *args: its arguments; ``jax.ShapeDtypeStruct`` may replace arrays.
      **kwargs: its keyword arguments.

    Raises:
      TypeError: an array has 64 bits where JAX's x64 mode is off.
    """
    function = _without_decorator(function)
    leaves, structure = jax.tree.flatten((args, kwargs))
    flags = [is_array(leaf) for leaf in leaves]
    arrays = list(itertools.compress(leaves, flags))
    if not arrays:
        return None
    dtypes = [array.dtype for array in arrays]
    different = {*dtypes}
    if not all(isinstance(dtype, np.dtype) for dtype in different):  # Some are random keys.
        args, kwargs = with_words((args, kwargs))
        return call_of(function, *args, **kwargs)
    canonical_of = {dtype: jax.dtypes.canonicalize_dtype(dtype) for dtype in different}
    canonical = [canonical_of[dtype] for dtype in dtypes]
    if dtypes != canonical:
        _check_x64(function, args, kwargs, arrays, canonical)
    types = tuple(zip([array.shape for array in arrays], canonical, strict=True))
    # With their types and signs, since 1 == True and 0.0 == -0.0.
    others = [leaf for leaf, is_one in zip(leaves, flags, strict=True) if not is_one]
    static = tuple(
        [(type(leaf), str(leaf) if isinstance(leaf, float) else "", leaf) for leaf in others]
    )
    config: Any = jax.config  # JAX declares its options from 0.12 on.
    try:
        modes = config.jax_enable_x64, config.jax_threefry_partitionable
        traced = _traced(function, structure, tuple(flags), static, types, modes)
    except TypeError:
        _check_hashable(function, args, kwargs)
        raise
    program = (
        traced.program.with_known(_known(arrays)) if is_staging() else traced.specialize(arrays)
    )
    program = _with_switches(program)
    return Call(program, [arrays[index] for index in program.traced], traced.structure)


def _check_x64(
    function: Any, args: Any, kwargs: Any, arrays: Sequence[Any], dtypes: Sequence[Any]
) -> None:
    """Refuses JAX's arrays of 64 bits where its x64 mode is off (JAX itself converts NumPy's, as
    everywhere).
    """
    for array, dtype in zip(arrays, dtypes, strict=True):
        if array.dtype != dtype and isinstance(array, jax.Array):
            leaves, _ = jax.tree_util.tree_flatten_with_path((args, kwargs))
            path = next(path for path, leaf in leaves if leaf is array)
            raise TypeError(
                f"{function.__name__}: argument {_path_name(function, path)} has dtype "
                f"{array.dtype}, but JAX's x64 mode is off; switch it on with "
                f'jax.config.update("jax_enable_x64", True), or convert the argument to {dtype}'
            )


def _check_hashable(function: Any, args: Any, kwargs: Any) -> None:
    """Refuses arguments that are neither arrays nor can be compared with those of an earlier
    call.
    """
    for path, leaf in jax.tree_util.tree_flatten_with_path((args, kwargs))[0]:
        try:
            hash(None if is_array(leaf) else leaf)
        except TypeError as error:
            raise TypeError(
                f"{function.__name__}: argument {_path_name(function, path)} is neither an array "
                f"nor hashable; found {type(leaf).__name__}: {error}"
            ) from None


def _path_name(function: Any, path: Sequence[Any]) -> str:
    """A path within ``(args, kwargs)`` as a reader of the function would write it, such as
    ``state.joint_position`` or ``constraints[0]``.
    """
    first, *others = path[1:]
    name = getattr(first, "key", None)
    if name is None:
        names = _parameter_names(function)
        name = names[min(first.idx, len(names) - 1)]
    return str(name) + jax.tree_util.keystr(tuple(others))


@functools.lru_cache(maxsize=1024)
def _traced(
    function: Callable[..., Any],
    structure: Any,
    is_array: tuple[bool, ...],
    static: tuple[tuple[Any, str, Any], ...],
    types: tuple[tuple[tuple[int, ...], Any], ...],
    modes: tuple[bool, ...],
) -> _TracedFunction:
    def call_with_arrays(*arrays: Any) -> Any:
        values, others = iter(arrays), (leaf for *_, leaf in static)
        leaves = [next(values if is_one else others) for is_one in is_array]
        args, kwargs = jax.tree.unflatten(structure, leaves)
        return function(*args, **kwargs)

    argument_types = [jax.ShapeDtypeStruct(*type_) for type_ in types]
    make_jaxpr = functools.partial(_jaxpr, call_with_arrays, argument_types)
    key = program_key(
        function,
        structure,
        (is_array, static, [(shape, str(dtype)) for shape, dtype in types], modes),
    )
    signature, jaxpr = read_signature(key), None
    if signature is None:
        jaxpr, results = make_jaxpr()
        signature = signature_of(results, kept_types(jaxpr.jaxpr))
        write_signature(key, signature)
    carried = []
    if signature.kept:
        flags = itertools.compress(are_carried(structure), is_array)
        carried = [
            index
            for index, (flag, type_) in enumerate(zip(flags, argument_types, strict=True))
            if flag and type_.dtype == signature.kept[0].dtype
        ]
    named = function.func if isinstance(function, functools.partial) else function
    name = getattr(named, "__name__", "function").lstrip("_")
    program = Program(
        name,
        lambda: make_jaxpr()[0],
        argument_types,
        signature.types,
        len(types),
        key=key,
        kept_types=signature.kept,
        carried=carried,
        # artix's own calls are few, and their derivatives would be of other programs.
        make_parts=None if key else lambda: trace(call_with_arrays, argument_types, True)[0],
    )
    if jaxpr is not None:
        program.jaxpr = jaxpr
    return _TracedFunction(program, signature.structure, _num_parameters(structure))


def _jaxpr(function: Callable[..., Any], types: Sequence[Any]) -> tuple[Any, Any]:
    """The jaxpr of a function, and its results as shapes and dtypes."""
    try:
        return trace(function, types)
    except (ValueError, TypeError, LookupError) as error:
        # Raise errors of the function's own checks without JAX's note about its internal frames.
        error.__notes__ = [
            note for note in getattr(error, "__notes__", []) if "internal frames" not in note
        ]
        raise


def _known(arrays: Sequence[Any]) -> dict[int, np.ndarray]:
    """The arrays whose values this process can read while JAX traces."""
    return {
        index: array.copy() if isinstance(array, np.ndarray) else np.asarray(array)
        for index, array in enumerate(arrays)
        if array.size <= MAX_KNOWN and is_readable(array)
    }


def _knows(program: Program, arrays: Sequence[Any]) -> bool:
    """Whether the values that a program knows are those of these arrays."""
    return all(
        np.asarray(arrays[index]).tobytes() == value.tobytes()
        for index, value in program.known.items()
    )


def _num_parameters(structure: Any) -> int:
    """The number of arrays in the first argument if these are parameters, otherwise 0."""
    for first in structure.children()[0].children()[:1]:
        kind, *_ = first.node_data() or [None]
        parameters = first.children()[: parameter_children(kind)]
        return sum(child.num_leaves for child in parameters)
    return 0


_switch: ContextVar[bool | None] = ContextVar("artix_kernels", default=None)
_gpu_switch: ContextVar[bool | None] = ContextVar("artix_gpu_kernels", default=None)


def kernels_are_on() -> bool:
    """Whether functions traced now may use kernels; by default they may unless ``ARTIX_KERNELS`` is
    ``0``.
    """
    chosen = _switch.get()
    return _switch_in_environment("ARTIX_KERNELS", True) if chosen is None else chosen


def gpu_kernels_are_on() -> bool | None:
    """Whether functions traced now may use kernels on GPUs; ``None``, the default, where the GPU
    has proved them.
    """
    chosen = _gpu_switch.get()
    return _switch_in_environment("ARTIX_GPU_KERNELS", None) if chosen is None else chosen


_Default = TypeVar("_Default", bool, None)


def _switch_in_environment(name: str, default: _Default) -> bool | _Default:
    text = os.environ.get(name, "")
    if text not in ("", "0", "1"):
        raise ValueError(f"the environment variable {name} must be 0 or 1, found {text!r}")
    return text == "1" if text else default


@contextmanager
def use_kernels(enabled: bool, gpu: bool | None = None) -> Iterator[None]:
    """Switches kernels on or off for functions traced within the context.

    Functions compiled earlier are unaffected. The environment variables ``ARTIX_KERNELS=0`` and
    ``ARTIX_GPU_KERNELS``, which is ``0`` or ``1``, do the same for a whole process.

    Args:
      enabled: whether to use kernels; without them XLA evaluates everything.
      gpu: whether to use kernels on NVIDIA GPUs (compute capability 8.0 or newer) as well; ``None``
        leaves this unchanged. By default they are used where the GPU has proved them, see
        ``artix gpu``.

    Raises:
      TypeError: a switch is neither ``True`` nor ``False``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> with artix.use_kernels(False):
      ...     by_xla = artix.gravity_compensation(arm, state)
      >>> print(jnp.allclose(by_xla, artix.gravity_compensation(arm, state), atol=1e-4))
      True
    """
    for name, switch in (("enabled", enabled), ("gpu", gpu)):
        if not isinstance(switch, bool) and not (name == "gpu" and switch is None):
            raise TypeError(f"{name}: expected True or False, found {switch!r}")
    token = _switch.set(enabled)
    gpu_token = _gpu_switch.set(_gpu_switch.get() if gpu is None else gpu)
    try:
        yield
    finally:
        _gpu_switch.reset(gpu_token)
        _switch.reset(token)


def _with_switches(program: Program) -> Program:
    """The program with kernels permitted where they are switched on."""
    if not kernels_are_on():
        return program.without_kernel()
    on_gpus = gpu_kernels_are_on()
    return program if on_gpus is None else program.with_gpu_kernel(on_gpus)
