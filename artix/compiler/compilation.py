"""Compiles, caches and loads the CPU kernels of programs."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import jaxprs_in_params

from artix.compiler import kernels
from artix.compiler.disk import KernelFiles, source_digest
from artix.compiler.jax_internals import long_call
from artix.compiler.program import Program
from artix.compiler.scalar_builder import TooManyOperations
from artix.compiler.scalar_program import ScalarProgram, UnsupportedOperation
from artix.compiler.scalar_transpose import NotLinear
from artix.compiler.scalarize import scalarize, scalarize_transpose

_log = logging.getLogger("artix")

#: Larger programs are left to XLA. Machine code takes time and memory in proportion to the number
#: of operations: the forward dynamics derivatives of a chain of 64 links, 785,602 operations,
#: compile in 8.3 s of processor time and 1.0 GB (two busy cores with AVX-512, jax 0.10, November
#: 2026). LLVM takes three times as long, as does XLA, and the code of XLA is tens of times slower.
MAX_OPERATIONS = 1_000_000
#: Programs of several items, such as tangents, have no loops below this size.
_MAX_WITHOUT_LOOPS = 300_000
#: A program of more operations than this does not only move data.
_MOST_MOVES = 100


files = KernelFiles()
_lock = threading.Lock()
_loaded: set[str] = set()
_refused: set[str] = set()
_linked: dict[str, kernels.LinkedProgram] = {}
#: Precedes, in a file, the reason why there is no object code.
REFUSAL = b"refused: "


def cpu_kernel(program: Program, levels: tuple[int, ...]) -> str | None:
    """The name of a program's kernel as a target of :mod:`jax.ffi`; ``None`` if XLA has to evaluate
    it.

    Args:
      program: the program.
      levels: levels of its operands, see :class:`~artix.compiler.scalar_program.ScalarProgram`.
    """
    if not program.has_kernel:
        return None

    def build() -> bytes:
        if has_parts(program):
            return REFUSAL
        scalars = _made_scalars(program, levels)
        return REFUSAL if only_moves_data(program, scalars) else kernels.build(scalars)

    with _lock:
        if levels not in program.kernels:
            program.kernels[levels] = _load_or_build([program], [levels], repr(levels), build)
            program.scalars.clear()
        return program.kernels[levels]


def only_moves_data(program: Program, scalars: ScalarProgram) -> bool:
    """Whether a program is left to XLA, which can fuse it with its neighbours.

    Of one with many operations, which leave no scalar since all they need is known, XLA would
    compile every one: a ball's first contacts with a height field took it four seconds.
    """
    if scalars.size:
        return False
    return sum(1 for _ in itertools.islice(_equations(program), _MOST_MOVES + 1)) <= _MOST_MOVES


def has_parts(program: Program) -> bool:
    """Whether programs are operations of this one, so that XLA evaluates it, and kernels those."""
    return any(each.primitive.name == "artix_program" for each in _equations(program))


def _equations(program: Program) -> Iterator[Any]:
    """The operations of a program and of what it calls, each of these once."""
    while program.transposes is not None:  # has the same ones, and is not traced yet.
        program = program.transposes[0]
    stack, seen, plain = [program.jaxpr.jaxpr], set[int](), set[Any]()
    while stack:
        jaxpr = stack.pop()
        if id(jaxpr) in seen:  # Functions that are called again and again are one jaxpr.
            continue
        seen.add(id(jaxpr))
        for equation in jaxpr.eqns:
            yield equation
            if equation.primitive in plain:
                continue
            inner = [*jaxprs_in_params(equation.params)]
            stack += inner
            if not inner:  # Most operations are of a few dozen kinds, none of which calls any.
                plain.add(equation.primitive)


class RowProgram(NamedTuple):
    """The program of some rows of a batch.

    Attributes:
      program: the program of one row.
      rows: indices of its rows in the batch, ascending.
      operands: indices of its operands among those of the operation.
      levels: for each operand, 0 if all rows share it, 1 if each has its own.
      numbered: for each operand, whether it has the rows of the whole batch rather than only the
        program's own.
    """

    program: Program
    rows: np.ndarray
    operands: tuple[int, ...]
    levels: tuple[int, ...]
    numbered: tuple[bool, ...]


def cpu_kernel_of_rows(
    row_programs: Sequence[RowProgram], width: int, results_are_joined: bool
) -> str | None:
    """The name of a kernel of several programs, see :func:`artix.compiler.kernels.build_rows`.

    ``None`` if XLA has to evaluate them. Only programs that are new are compiled, side by side.
    """
    programs = [each.program for each in row_programs]
    if not all(program.has_kernel for program in programs):
        return None
    how = (width, results_are_joined)
    linked = list[kernels.LinkedProgram]()

    def build() -> bytes:
        linked.extend(_linked_programs(row_programs, *how))
        return kernels.build_rows(linked, *how)

    def load(code: bytes, target: str) -> None:
        kernels.load(
            code, target, kernels.addresses_of(linked or _linked_programs(row_programs, *how))
        )

    all_levels = [each.levels for each in row_programs]
    with _lock:
        target = _load_or_build(
            programs,
            all_levels,
            repr(([(each.levels, each.numbered) for each in row_programs], *how)),
            build,
            load,
        )
        for program in programs:
            program.scalars.clear()
        return target


def _linked_programs(
    row_programs: Sequence[RowProgram], width: int, results_are_joined: bool
) -> list[kernels.LinkedProgram]:
    """The programs in memory, where this process has used them before, or else from disk, or
    compiled.
    """
    names = [
        _name(
            [each.program],
            [each.levels],
            repr((each.levels, each.numbered, width, results_are_joined)),
        )
        for each in row_programs
    ]
    missing = dict[str, RowProgram]()
    for name, each in zip(names, row_programs, strict=True):
        if name not in _linked:
            code = files.read(name)
            if code is None:
                missing[name] = each
            else:
                _linked[name] = kernels.link_program(code, name)
    # While LLVM compiles some programs, the next is prepared.
    scalars = (
        (_made_scalars(each.program, each.levels), each.numbered) for each in missing.values()
    )
    for name, code in zip(
        missing, kernels.build_programs(scalars, width, results_are_joined), strict=True
    ):
        files.write(name, code)
        _linked[name] = kernels.link_program(code, name)
    return [_linked[name] for name in names]


@long_call
def _load_or_build(
    programs: Sequence[Program],
    all_levels: Sequence[tuple[int, ...]],
    how: str,
    build: Callable[[], bytes],
    load: Callable[[bytes, str], None] = kernels.load,
) -> str | None:
    """The name of a kernel, which is loaded, or built first; ``None`` if there is none."""
    missing = kernels.available()
    if missing is not None:
        refuse("every function", missing)
        return None
    what, target = programs[0].name, _name(programs, all_levels, how)
    if target in _loaded:
        return target
    code = files.read(target)
    if code is None:
        try:
            code = build()
        except (UnsupportedOperation, TooManyOperations, kernels.KernelError) as error:
            code = REFUSAL + f"{type(error).__name__}: {error}".encode()
        # XLA evaluates the program. The error may be transient, so it is not stored.
        except Exception as error:
            refuse(what, f"{type(error).__name__}: {error}")
            return None
        if all(map(is_identified, programs, all_levels)):
            files.write(target, code)
    if code.startswith(REFUSAL):
        refuse(what, code.removeprefix(REFUSAL).decode())
        return None
    try:
        load(code, target)
    except kernels.KernelError as error:
        refuse(what, str(error))
        return None
    _loaded.add(target)
    return target


def _name(programs: Sequence[Program], all_levels: Sequence[tuple[int, ...]], how: str) -> str:
    """A name that is equal for programs that compute the same on machines of this kind."""
    keys = map(key_of, programs, all_levels)
    content = hashlib.sha256(b"".join(keys) + how.encode() + kernels.machine_key().encode())
    return f"artix_{content.hexdigest()[:40]}"


def key_of(program: Program, levels: tuple[int, ...]) -> bytes:
    """Identifies a program in all processes: by what it was made from, or else by its scalars. One
    that has no scalars is identified in this process alone.
    """
    if not is_identified(program, levels):
        return f"{os.getpid()} {program.number}".encode()
    return program.key or source_digest() + program.digests[levels]


def is_identified(program: Program, levels: tuple[int, ...]) -> bool:
    """Whether other processes can know this program by its key, so its kernel can be stored."""
    if program.key is not None:
        return True
    if levels not in program.digests:
        try:
            known = not has_parts(program)
            program.digests[levels] = _made_scalars(program, levels).digest if known else b""
        except Exception:  # Whoever builds the kernel says why there is none.
            program.digests[levels] = b""
    return program.digests[levels] != b""


def _made_scalars(program: Program, levels: tuple[int, ...]) -> ScalarProgram:
    """:func:`scalars_of`, made once until there is a kernel."""
    if levels not in program.scalars:
        try:
            program.scalars[levels] = scalars_of(program, levels)
        except (UnsupportedOperation, TooManyOperations) as error:
            program.scalars[levels] = error
    made = program.scalars[levels]
    if isinstance(made, Exception):
        raise made
    return made


def scalars_of(
    program: Program,
    levels: tuple[int, ...],
    has_loops: bool = True,
    max_operations: int | None = None,
) -> ScalarProgram:
    """The scalar program of a program whose operands have these levels.

    Args:
      program: the program.
      levels: levels of its operands.
      has_loops: whether long loops stay loops.
      max_operations: largest number of its operations, by default ``MAX_OPERATIONS``.

    Raises:
      UnsupportedOperation: there is no rule for one of its operations.
      TooManyOperations: it is too large for a kernel.
    """
    all_levels = [0] * len(program.argument_types)
    for index, level in zip(program.traced, levels, strict=True):
        all_levels[index] = level
    most = MAX_OPERATIONS if max_operations is None else max_operations
    if has_loops and 2 in all_levels:
        # A loop that carries values and tangents would compute the values again for every tangent.
        try:
            return scalars_of(program, levels, False, min(most, _MAX_WITHOUT_LOOPS))
        except TooManyOperations:
            pass
    options: Any = {
        "max_operations": most,
        "has_loops": has_loops,
        # Tangents of one direction change from robot to robot, as values do; others oftener.
        "one_direction": max(all_levels[: program.num_values], default=0) == max(all_levels),
    }
    scalars = _scalars_of_transpose(program, all_levels, options)
    if scalars is not None:
        return scalars
    inner, *axes = (program, None, None) if program.pads is None else program.pads
    return scalarize(inner.jaxpr, all_levels, program.known, *axes, **options)


def _scalars_of_transpose(
    program: Program, levels: Sequence[int], options: dict[str, Any]
) -> ScalarProgram | None:
    """The scalar program of a transpose, from that of the linear program; ``None`` if JAX has to
    transpose it.
    """
    if program.transposes is None:
        return None
    linear, arguments, results = program.transposes
    try:
        return scalarize_transpose(
            linear.jaxpr, linear.num_values, arguments, results, levels, program.known, **options
        )
    except NotLinear:
        return None


#: What operations without a kernel are called that draws of random numbers need, such as those of
#: float64, long permutations, and what is drawn until it fits.
_OF_DRAWS = "random_", "of uint64", "sort", "rem by", "erf_inv"


def refuse(what: str, why: str) -> None:
    """Logs, once, what is evaluated by XLA and why; without a reason nothing is logged."""
    if why.startswith(TooManyOperations.__name__):
        why += (
            "; smaller ones have kernels: leave loops over steps to jax.lax.scan, and contacts "
            "out that do not matter"
        )
    elif any(name in why for name in _OF_DRAWS):
        why += (
            "; if this is of random numbers, draw them outside of the function, and pass them as "
            "an argument"
        )
    if why and what not in _refused:
        _refused.add(what)
        _log.warning("artix: %s is evaluated by XLA, not by a kernel: %s", what, why)
