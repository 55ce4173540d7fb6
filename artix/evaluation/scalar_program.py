"""Straight-line programs over scalars: the work of one lane of a vector, or one thread of a GPU, for one robot."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np


class Kind(enum.IntEnum):
    """The type of a scalar."""

    BOOL = 0
    INT32 = 1
    FLOAT32 = 2
    FLOAT64 = 3


#: Bytes of a scalar in memory, by kind.
BYTES = {Kind.BOOL: 1, Kind.INT32: 4, Kind.FLOAT32: 4, Kind.FLOAT64: 8}


class Op(enum.IntEnum):
    """Operations on up to three scalars.

    The operands of a comparison are of one kind; if one is NaN, ``NE`` is true and the others are false. ``MIN`` and
    ``MAX`` are NaN if an operand is. Integers have ``ADD``, ``SUB``, ``MUL``, ``MIN``, ``MAX``, ``ABS``, ``SIGN``,
    ``AND`` of bits, comparisons, ``SELECT`` and ``CONVERT``.
    """

    INPUT = 0
    """Entry ``b``, in row-major order, of argument ``a`` of the program."""
    CONSTANT = 1
    """The scalar's entry of ``constants``; never negative if it is a float."""
    ADD = 2
    SUB = 3
    MUL = 4
    DIV = 5
    MIN = 6
    MAX = 7
    POW = 8
    ATAN2 = 9
    SQRT = 10
    RSQRT = 11
    ABS = 12
    SIGN = 13
    """-1, 0, 1 or NaN."""
    FLOOR = 14
    CEIL = 15
    ROUND = 16
    """To the nearest integer, halves to the even one."""
    SIN = 17
    COS = 18
    TAN = 19
    ASIN = 20
    ACOS = 21
    ATAN = 22
    SINH = 23
    COSH = 24
    TANH = 25
    EXP = 26
    EXPM1 = 27
    LOG = 28
    LOG1P = 29
    CBRT = 30
    IS_FINITE = 31
    LT = 32
    LE = 33
    EQ = 34
    NE = 35
    AND = 36
    OR = 37
    XOR = 38
    NOT = 39
    SELECT = 40
    """``b`` if the bool ``a`` is true, else ``c``."""
    CONVERT = 41
    """``a`` converted to the scalar's own kind; floats to integers towards zero."""
    LOAD = 42
    """Entry ``a``, an integer, of an array; see :func:`array_operand`. Indices out of bounds mean the last entry."""


def array_operand(number: int) -> int:
    """Encodes an array as an operand below -1, distinct from any reference; also decodes it.

    Args:
      number: the number of an argument of the program, or of a table; tables are numbered after the arguments.
    """
    return -2 - number


class ScalarProgram(NamedTuple):
    """A program of one robot in static single assignment form.

    Operation ``k`` computes scalar ``k`` from scalars before it. An operand or result is a reference: twice the number
    of a scalar, plus one for its negative, which only floats have.

    Levels are nested loops: scalars of level 0 are the same for all robots, of level 1 for one robot, of level 2 for
    one item (such as a tangent) of one robot. The level of a scalar is the highest of its operands.
    """

    operations: np.ndarray
    """:class:`Op` of each scalar, uint8 [N]."""
    operands: np.ndarray
    """References, int32 [N, 3]; -1 where there are fewer than three. Those of ``INPUT`` are not references, and the
    second of ``LOAD`` is an array."""
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

    @property
    def size(self) -> int:
        """Number of operations, without inputs and constants."""
        return int(np.count_nonzero(self.operations > Op.CONSTANT))
