"""Scalars under construction: equal ones are one, and what is known of them is folded at once.

References are those of :class:`~artix.evaluation.scalar_program.ScalarProgram`, but that constants have numbers of
their own, from ``CONSTANTS`` on, so that one comparison tells them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from artix.evaluation.scalar_program import Kind, Op

#: References from here on are constants. They sort after all others, so that constants are second operands.
CONSTANTS = 1 << 30

DTYPES = {
    Kind.BOOL: np.dtype(bool),
    Kind.INT32: np.dtype(np.int32),
    Kind.FLOAT32: np.dtype(np.float32),
    Kind.FLOAT64: np.dtype(np.float64),
}
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}

#: References of the constants 0 and 1 of each kind (False and True).
ZERO = tuple(CONSTANTS + 4 * kind for kind in Kind)
ONE = tuple(CONSTANTS + 4 * kind + 2 for kind in Kind)
FALSE, TRUE = ZERO[Kind.BOOL], ONE[Kind.BOOL]

Value: TypeAlias = np.ndarray | Sequence[int]
"""An array of a program: its numbers if all are known, else the reference of each entry, in row-major order."""

_NOT_A_NUMBER = math.nan
_ADD, _SUB, _MUL, _DIV = int(Op.ADD), int(Op.SUB), int(Op.MUL), int(Op.DIV)


class UnsupportedOperation(Exception):
    """An operation of a program has no rule that makes scalars of it."""


class TooManyOperations(Exception):
    """A program has more scalars than it is worth to have."""


def kind_of(dtype: Any) -> Kind:
    """The kind of scalars of a dtype.

    Args:
      dtype: of an array of the program.

    Raises:
      UnsupportedOperation: if there are no scalars of this dtype.
    """
    # Keys of random numbers have dtypes that are none of NumPy's.
    kind = _KINDS.get(dtype) if isinstance(dtype, np.dtype) else None
    if kind is None:
        raise UnsupportedOperation(f"scalars of {dtype}")
    return kind


class ScalarBuilder:
    """All scalars of a program that is being made.

    ``table`` has the operation of each scalar, in order, with its operands; ``kinds`` its kind.
    """

    def __init__(self, most_operations: int) -> None:
        self.table: dict[tuple[int, ...], int] = {}
        self.kinds: list[int] = []
        self.operations: list[tuple[int, ...]] = []
        self.constants: list[float] = []
        self.constant_kinds: list[int] = []
        self._most = most_operations
        self._references: list[dict[float, int]] = [{} for _ in Kind]
        for kind in Kind:
            self.constant(0, kind)
            self.constant(1, kind)

    def check_size(self, more: int = 0) -> None:
        """Gives up where so many more scalars would be too many.

        Raises:
          TooManyOperations: if they are.
        """
        if len(self.kinds) + more > self._most:
            raise TooManyOperations(f"more than {self._most:,} scalars")

    # Scalars

    def make(self, kind: int, *operation: int) -> int:
        """The scalar of an operation and its operands, which is made if there is none yet."""
        found = self.table.get(operation)
        if found is None:
            found = self.table[operation] = 2 * len(self.kinds)
            self.kinds.append(kind)
            self.operations.append(operation)
        return found

    def constant(self, value: float, kind: int) -> int:
        """The reference of a number; floats have their sign in it."""
        references = self._references[kind]
        if value != value:
            value = _NOT_A_NUMBER  # Equal to itself in a dictionary, as it is the same object.
        found = references.get(value)
        if found is None:
            if value < 0 and kind >= Kind.FLOAT32:
                found = self.constant(-value, kind) | 1
            else:
                found = CONSTANTS + 2 * len(self.constants)
                self.constants.append(value)
                self.constant_kinds.append(kind)
            references[value] = found
        return found

    def value(self, reference: int) -> float:
        """The number of a constant."""
        value = self.constants[(reference - CONSTANTS) >> 1]
        return -value if reference & 1 else value

    def operation(self, reference: int) -> tuple[int, ...]:
        """The operation and operands of a scalar; nothing of constants."""
        return () if reference >= CONSTANTS else self.operations[reference >> 1]

    def kind(self, reference: int) -> int:
        """The kind of a scalar."""
        if reference >= CONSTANTS:
            return self.constant_kinds[(reference - CONSTANTS) >> 1]
        return self.kinds[reference >> 1]

    def fold(self, function: Callable[..., Any], kind: int, result: int, *references: int) -> int:
        """A function of constants, evaluated in their dtype, as a constant."""
        of_kind = DTYPES[Kind(kind)].type
        return self.constant(function(*(of_kind(self.value(x)) for x in references)).item(), result)

    # Arrays

    def references(self, value: Value, kind: int) -> Sequence[int]:
        """The references of an array's entries, be they known or not."""
        if not isinstance(value, np.ndarray):
            return value
        known = self._references[kind]
        numbers = value.ravel().tolist()
        try:
            return [known[number] for number in numbers]
        except KeyError:
            return [self.constant(number, kind) for number in numbers]

    def settled(self, references: Sequence[int], shape: tuple[int, ...], dtype: Any) -> Value:
        """The same entries as numbers, if all are known by now."""
        if references and min(references) < CONSTANTS:
            return references
        return np.array([self.value(x) for x in references], dtype).reshape(shape)

    # Sums and products of floats, entry by entry: most of the time goes here, hence the loops written out.

    def add(self, kind: int, left: Iterable[int], right: Iterable[int], flip: int = 0) -> list[int]:
        """Sums of floats.

        Args:
          kind: of the floats.
          left: the first operands.
          right: the second operands.
          flip: 1 for differences.
        """
        table, zero = self.table, ZERO[kind]
        found: list[int] = []
        get, append = table.get, found.append
        for a, b in zip(left, right, strict=False):
            if b == zero:
                append(a)
                continue
            b ^= flip
            if a == zero:
                append(b)
            elif a >= CONSTANTS and b >= CONSTANTS:
                append(self.fold(np.add, kind, kind, a, b))
            elif (a ^ b) == 1:
                append(zero)
            elif (a ^ b) & 1:
                if a & 1:
                    a, b = b, a
                b ^= 1
                scalar = get((_SUB, a, b))
                if scalar is None:
                    opposite = get((_SUB, b, a))
                    scalar = self.make(kind, _SUB, a, b) if opposite is None else opposite ^ 1
                append(scalar)
            else:
                sign = a & 1
                a, b = (a ^ sign, b ^ sign) if a < b else (b ^ sign, a ^ sign)
                scalar = get((_ADD, a, b))
                append((self.make(kind, _ADD, a, b) if scalar is None else scalar) ^ sign)
        return found

    def subtract(self, kind: int, left: Iterable[int], right: Iterable[int]) -> list[int]:
        """Differences of floats."""
        return self.add(kind, left, right, 1)

    def multiply(self, kind: int, left: Iterable[int], right: Iterable[int]) -> list[int]:
        """Products of floats; zero times anything is zero."""
        table, zero, one = self.table, ZERO[kind], ONE[kind]
        found: list[int] = []
        get, append = table.get, found.append
        for a, b in zip(left, right, strict=False):
            if a > b:
                a, b = b, a
            if b >= CONSTANTS:
                if b == zero or a == zero:
                    append(zero)
                    continue
                if a >= CONSTANTS:
                    append(self.fold(np.multiply, kind, kind, a, b))
                    continue
                if b | 1 == one | 1:
                    append(a ^ (b & 1))
                    continue
            sign = (a ^ b) & 1
            a &= -2
            b &= -2
            scalar = get((_MUL, a, b))
            append((self.make(kind, _MUL, a, b) if scalar is None else scalar) ^ sign)
        return found

    def divide(self, kind: int, left: Iterable[int], right: Iterable[int]) -> list[int]:
        """Quotients of floats; zero by anything is zero."""
        zero = ZERO[kind]
        found = []
        for a, b in zip(left, right, strict=False):
            if a == zero:
                found.append(zero)
            elif b >= CONSTANTS:
                found.append(self._divide_by_constant(kind, a, b))
            else:
                found.append(self.make(kind, _DIV, a & -2, b & -2) ^ ((a ^ b) & 1))
        return found

    def _divide_by_constant(self, kind: int, a: int, b: int) -> int:
        if a >= CONSTANTS:
            return self.fold(np.divide, kind, kind, a, b)
        value = self.value(b)
        if value != 0 and abs(math.frexp(value)[0]) == 0.5 and 2.0**-100 < abs(value) < 2.0**100:
            return self.multiply(kind, (a,), (self.constant(1 / value, kind),))[0]  # Exactly the same.
        return self.make(kind, _DIV, a & -2, b & -2) ^ ((a ^ b) & 1)

    def negate(self, kind: int, operands: Iterable[int]) -> list[int]:
        """Negatives of floats, which cost nothing."""
        zero = ZERO[kind]
        return [x if x == zero else x ^ 1 for x in operands]
