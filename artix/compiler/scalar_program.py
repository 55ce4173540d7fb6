"""Straight-line programs over scalars: the work of one lane of a vector, or one thread of a GPU,
for one robot.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np


class Kind(enum.IntEnum):
    """The type of a scalar."""

    BOOL = 0
    INT32 = 1
    UINT32 = 2
    FLOAT32 = 3
    FLOAT64 = 4


DTYPES = {kind: np.dtype(kind.name.lower()) for kind in Kind}

#: The kinds of the entries of arrays; there are none of other dtypes.
KINDS = {dtype: kind for kind, dtype in DTYPES.items()}

#: Bytes of a scalar in memory, by kind.
BYTES = {kind: dtype.itemsize for kind, dtype in DTYPES.items()}


class UnsupportedOperation(Exception):
    """An operation of a program cannot be converted to scalars."""


def kind_of(dtype: Any) -> Kind:
    """The kind of scalars of a dtype.

    Args:
      dtype: dtype of an array of the program.

    Raises:
      UnsupportedOperation: there are no scalars of this dtype.
    """
    # The dtypes of random keys are not NumPy dtypes.
    kind = KINDS.get(dtype) if isinstance(dtype, np.dtype) else None
    if kind is None:
        raise UnsupportedOperation(f"scalars of {dtype}")
    return kind


class Op(enum.IntEnum):
    """Operations on up to three scalars.

    The operands of a comparison are of one kind; if one is NaN, ``NE`` is true and the others are
    false. ``MIN`` and ``MAX`` are NaN if an operand is. Integers have ``ADD``, ``SUB``, ``MUL``,
    ``MIN``, ``MAX``, ``ABS``, ``SIGN``, ``AND`` of bits, comparisons, ``SELECT`` and ``CONVERT``;
    words (``UINT32``) have sums, differences and products that wrap around, logical operations
    on bits, shifts, ``EQ``, ``NE``, ``SELECT`` and ``BITCAST``.
    """

    INPUT = 0
    """Entry ``b``, in row-major order, of argument ``a`` of the program."""
    CARRIED = 1
    """Entry ``b`` of what loop ``a`` carries: at the start of an iteration if ``c`` is 0, after the
    loop if it is 1."""
    CONSTANT = 2
    """The scalar's entry of ``constants``; never negative if it is a float."""
    ADD = 3
    SUB = 4
    MUL = 5
    DIV = 6
    MIN = 7
    MAX = 8
    POW = 9
    ATAN2 = 10
    SQRT = 11
    RSQRT = 12
    ABS = 13
    SIGN = 14
    """-1, 0, 1 or NaN."""
    FLOOR = 15
    CEIL = 16
    ROUND = 17
    """To the nearest integer, halves to the even one."""
    SIN = 18
    COS = 19
    TAN = 20
    ASIN = 21
    ACOS = 22
    ATAN = 23
    SINH = 24
    COSH = 25
    TANH = 26
    EXP = 27
    EXPM1 = 28
    LOG = 29
    LOG1P = 30
    CBRT = 31
    IS_FINITE = 32
    LT = 33
    LE = 34
    EQ = 35
    NE = 36
    AND = 37
    OR = 38
    XOR = 39
    NOT = 40
    SELECT = 41
    """``b`` if the bool ``a`` is true, else ``c``."""
    CONVERT = 42
    """``a`` converted to the scalar's own kind; floats to integers towards zero."""
    LOAD = 43
    """Entry ``a``, an integer, of an array; see :func:`array_operand`. Indices out of bounds mean
    the last entry."""
    SHIFT_LEFT = 44
    """The word ``a`` shifted by the constant ``b``, below 32, to higher bits."""
    SHIFT_RIGHT = 45
    """The word ``a`` shifted by the constant ``b``, below 32, to lower bits."""
    BITCAST = 46
    """``a`` as the scalar of its own kind that has the same 32 bits."""
    LANE = 47
    """The number of the thread among those of its robot, an integer; see
    :mod:`artix.compiler.lanes`."""
    SHUFFLE = 48
    """``a`` of the thread whose number differs in the bits of ``-2 - b``."""
    OF_LANE = 49
    """``a`` of the thread with the number ``-2 - b``."""


#: Operations with a single reference, their first operand, as plain integers.
ONE_REFERENCE = (int(Op.CONVERT), int(Op.BITCAST), int(Op.LOAD))
#: Operations with two, which most scalars are.
TWO_REFERENCES = (int(Op.MUL), int(Op.ADD), int(Op.SUB))


def array_operand(number: int) -> int:
    """Encodes an array as an operand below -1, distinct from any reference; also decodes it.

    Args:
      number: the number of an argument of the program, or of a table; tables are numbered after the
        arguments.
    """
    return -2 - number


class Loop(NamedTuple):
    """Scalars computed again and again.

    The body of a loop is what depends on what it carries. If the end of the loop is data, its first
    entry, a bool, says whether there is an iteration, or another one. Otherwise a loop has a known
    number of iterations.
    """

    length: int
    """Number of iterations; 0 if it is data."""
    starts: np.ndarray
    """References of what is carried into the first iteration, int32 [n]."""
    ends: np.ndarray
    """References of what an iteration carries into the next, int32 [n]."""
    parent: int = -1
    """The loop whose body this one is in; -1 if there is none."""

    @property
    def has_condition(self) -> bool:
        """Whether its number of iterations is data."""
        return not self.length

    @property
    def references(self) -> list[int]:
        """Those of the starts and of the ends."""
        return [*self.starts.tolist(), *self.ends.tolist()]


class _Scalars(NamedTuple):
    """The fields of a :class:`ScalarProgram`."""

    operations: np.ndarray
    """:class:`Op` of each scalar, uint8 [N]."""
    operands: np.ndarray
    """References, int32 [N, 3]; -1 where there are fewer than three. Those of ``INPUT`` and
    ``CARRIED`` are not references, and the second of ``LOAD`` is an array."""
    kinds: np.ndarray
    """:class:`Kind` of each scalar, uint8 [N]."""
    levels: np.ndarray
    """Level of each scalar, uint8 [N]."""
    constants: np.ndarray
    """Value of each constant, float64 [N], exact for all kinds; 0 for other scalars."""
    arguments: tuple[tuple[tuple[int, ...], np.dtype, int], ...]
    """Shape, dtype and level of each argument, without the axes of the levels."""
    results: tuple[np.ndarray, ...]
    """References, int32, one array in the shape of each result."""
    result_types: tuple[np.dtype, ...]
    """Dtype of each result."""
    tables: tuple[np.ndarray, ...] = ()
    """Known arrays from which entries are loaded, flattened."""
    loops: tuple[Loop, ...] = ()
    """In the order in which their bodies begin. Each only needs the results of those before and of
    those within it."""


class ScalarProgram(_Scalars):
    """A program of one robot in static single assignment form.

    Operation ``k`` computes scalar ``k`` from scalars before it. An operand or result is a
    reference: twice the number of a scalar, plus one for its negative, which only floats have.

    Levels are nested loops: scalars of level 0 are the same for all robots, of level 1 for one
    robot, of level 2 for one item (such as a tangent) of one robot. The level of a scalar is the
    highest of its operands.

    Within a level, scalars are computed in the order of their stages: a new stage begins where the
    body of a loop begins or ends. The stage of a scalar is the highest of its operands. That of
    what a loop carries is the first of its body, and after the loop the one that follows its body.
    """

    @functools.cached_property
    def nests(self) -> list[tuple[int, ...]]:
        """For each stage, the loops that repeat it, the outermost first."""
        nests: list[tuple[int, ...]] = [()]
        for number, loop in enumerate(self.loops):
            while nests[-1] and nests[-1][-1] != loop.parent:
                nests.append(nests[-1][:-1])
            nests.append((*nests[-1], number))
        while nests[-1]:
            nests.append(nests[-1][:-1])
        return nests

    @functools.cached_property
    def bodies(self) -> list[tuple[int, int]]:
        """For each loop, the first stage of its body and the stage that follows it."""
        stages: list[list[int]] = [[] for _ in self.loops]
        for stage, nest in enumerate(self.nests):
            for number in nest:
                stages[number].append(stage)
        return [(within[0], within[-1] + 1) for within in stages]

    @functools.cached_property
    def levels_of_loops(self) -> list[int]:
        """The level of all that each loop carries."""
        levels = [0] * len(self.loops)
        for number in np.flatnonzero(self.operations == Op.CARRIED).tolist():
            loop = int(self.operands[number, 0])
            levels[loop] = max(levels[loop], int(self.levels[number]))
        return levels

    @functools.cached_property
    def stages(self) -> np.ndarray:
        """Stage of each scalar, int32 [N]."""
        stages = np.zeros(len(self.operations), np.int32)
        if not self.loops:
            return stages
        bodies = self.bodies
        for number in np.flatnonzero(self.operations == Op.CARRIED).tolist():
            loop, _, is_after = self.operands[number].tolist()
            stages[number] = bodies[loop][is_after]
        computed = np.flatnonzero(self.operations > Op.CARRIED)
        stage_of = [*stages.tolist(), 0]  # The last one is for operands that do not exist.
        sources = np.maximum(self.operands[computed], -1) >> 1  # Arrays of loads are below -1.
        raise_to_operands(stage_of, computed.tolist(), sources)
        return np.array(stage_of[:-1], np.int32)

    @functools.cached_property
    def digest(self) -> bytes:
        """Equal in all processes for programs that are equal, and for no others."""
        content = hashlib.sha256()
        _add_content(content, tuple(self))
        return content.digest()

    @property
    def size(self) -> int:
        """Number of operations, without inputs, constants and what loops carry."""
        return int(np.count_nonzero(self.operations > Op.CONSTANT))

    @property
    def repetitions(self) -> np.ndarray:
        """How often each scalar is computed for one item of one robot, int64 [N].

        Of loops whose end is data, one iteration is counted.
        """
        times = [
            np.prod([max(self.loops[number].length, 1) for number in nest], dtype=int)
            for nest in self.nests
        ]
        return np.array(times)[self.stages]


def _add_content(content: Any, value: Any) -> None:
    """Adds arrays, dtypes, numbers and tuples of them to a digest."""
    if isinstance(value, tuple | list):
        content.update(f"{len(value)} of".encode())
        for item in value:
            _add_content(content, item)
    elif isinstance(value, np.ndarray):
        content.update(f"{value.dtype.str}{value.shape}".encode())
        content.update(np.ascontiguousarray(value))
    else:
        content.update(f"{value!r};".encode())


def raise_to_operands(values: list[int], numbers: Sequence[int], operands: np.ndarray) -> None:
    """Raises a value of each scalar to the largest one of its operands, in place.

    Args:
      values: those of all scalars.
      numbers: the scalars, each after its operands.
      operands: the numbers of the three operands of each, [N, 3].
    """
    # Three long lists are made in less time than a list for each scalar.
    for number, a, b, c in zip(numbers, *operands.T.tolist(), strict=True):
        most = values[number]
        if values[a] > most:
            most = values[a]
        if values[b] > most:
            most = values[b]
        if values[c] > most:
            most = values[c]
        values[number] = most


def visit(
    nests: Sequence[tuple[int, ...]],
    compute: Callable[[int], None],
    repeat: Callable[[int], AbstractContextManager[Any]],
) -> None:
    """Visits all stages of a program in order, each within the loops that repeat it.

    Args:
      nests: those of the program.
      compute: is called with each stage.
      repeat: what surrounds the stages of a loop, given its number.
    """
    around: list[AbstractContextManager[Any]] = []
    for stage, nest in enumerate(nests):
        if len(nest) < len(around):
            around.pop().__exit__(None, None, None)
        elif len(nest) > len(around):
            around.append(repeat(nest[-1]))
            around[-1].__enter__()
        compute(stage)
