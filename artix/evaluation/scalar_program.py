"""Straight-line programs over scalars: what one lane of a vector, or one thread of a GPU, does for one robot."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np


class Kind(enum.IntEnum):
    """What a scalar is."""

    BOOL = 0
    INT32 = 1
    FLOAT32 = 2
    FLOAT64 = 3


class Op(enum.IntEnum):
    """What makes a scalar of up to three others.

    Comparisons have operands of one kind and are false if one is not a number, but for ``NE``, which is true. ``MIN``
    and ``MAX`` are not a number if one operand is not. Integers know ``ADD``, ``SUB``, ``MUL``, ``MIN``, ``MAX``,
    ``ABS``, ``SIGN``, comparisons, ``SELECT`` and ``CONVERT``.
    """

    INPUT = 0
    """Entry ``b`` of argument ``a`` of the program, in row-major order."""
    CONSTANT = 1
    """A number of ``constants``; never negative if it is a float."""
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
    """-1, 0 or 1, and not a number of what is not."""
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
    """``b`` if the bool ``a`` holds, else ``c``."""
    CONVERT = 41
    """``a`` as a scalar of the operation's own kind; floats to integers towards zero."""


class ScalarProgram(NamedTuple):
    """A program of one robot, every scalar of which is computed once.

    Operation ``k`` makes scalar ``k`` of scalars before it. An operand or result is a reference: twice the number of a
    scalar, plus one if its negative is meant; only floats are negated so.

    Levels are nested loops: what is of level 0 is the same for all robots, of level 1 it is of one robot, of level 2 of
    one item of one robot (of one tangent, for instance). A scalar is of the highest level of its operands.
    """

    operations: np.ndarray
    """:class:`Op` of each scalar, uint8 [N]."""
    operands: np.ndarray
    """References, int32 [N, 3]; -1 where there are fewer than three. Those of ``INPUT`` are no references."""
    kinds: np.ndarray
    """:class:`Kind` of each scalar, uint8 [N]."""
    levels: np.ndarray
    """Uint8 [N]."""
    constants: np.ndarray
    """The number of each scalar that is a constant, float64 [N], exact for all kinds; elsewhere 0."""
    arguments: tuple[tuple[tuple[int, ...], np.dtype, int], ...]
    """Shape, dtype and level of each argument, without the axes of the levels."""
    results: tuple[np.ndarray, ...]
    """References, int32, one array in the shape of each result."""
    result_types: tuple[np.dtype, ...]
    """Dtype of each result."""

    @property
    def size(self) -> int:
        """How many operations there are, without inputs and constants."""
        return int(np.count_nonzero(self.operations > Op.CONSTANT))
