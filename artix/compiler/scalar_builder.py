"""Builds scalars; folds constants and shares common subexpressions on the fly.

References are those of :class:`~artix.compiler.scalar_program.ScalarProgram`, except that constants
are numbered separately, from ``CONSTANTS`` on, so that one comparison identifies them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from artix.compiler.scalar_program import DTYPES, Kind, Loop, Op, array_operand, kind_of

#: The first reference of a constant. Constants sort after all other references and thus become
#: second operands.
CONSTANTS = 1 << 30

#: References of the constants 0 and 1 of each kind (False and True).
ZERO = tuple(CONSTANTS + 4 * kind for kind in Kind)
ONE = tuple(CONSTANTS + 4 * kind + 2 for kind in Kind)
FALSE, TRUE = ZERO[Kind.BOOL], ONE[Kind.BOOL]

Value: TypeAlias = np.ndarray | Sequence[int]
"""An array of a program: a NumPy array if all entries are known, else their references in row-major
order."""

_NAN = math.nan
_ADD, _SUB, _MUL, _DIV = int(Op.ADD), int(Op.SUB), int(Op.MUL), int(Op.DIV)
_INPUT, _LOAD = int(Op.INPUT), int(Op.LOAD)

#: Derivatives build many scalars that turn out not to be needed, such as 420,000 for 116,000 in the
#: gradient of a humanoid's step. Four for each operation permitted are built to find out, or two in
#: programs as large as this.
_MANY_BUILT = 1_200_000


class TooManyOperations(Exception):
    """A program has more scalars than permitted."""


class LargeArgument(Sequence[int]):
    """The references of the entries of an argument, created on access, since an argument may have
    thousands.

    Args:
      builder: builds them.
      kind: kind of the entries.
      number: number of the argument.
      size: number of entries.
    """

    def __init__(self, builder: ScalarBuilder, kind: int, number: int, size: int) -> None:
        self.number = number
        self._builder, self._kind, self._entries = builder, kind, range(size)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        entries = self._entries[index]
        if isinstance(entries, range):
            return [self._builder.make(self._kind, _INPUT, self.number, entry) for entry in entries]
        return self._builder.make(self._kind, _INPUT, self.number, entries)


class ScalarBuilder:
    """All scalars of a program under construction.

    Attributes:
      table: maps each operation with its operands to its scalar.
      operations: the operation of each scalar with its operands.
      kinds: the kind of each scalar.
      constants: the absolute values of constants.
      constant_kinds: their kinds.
      tables: the known arrays from which entries are loaded.
      loops: the loops; some may turn out not to be needed.
      loop: the number of the loop whose body is being built; -1 if there is none.
      has_linear: whether there are inputs of negative arguments, in which results are to be
        transposed.
      is_linear: of each scalar so far whether it depends on those inputs, found when it is asked
        for.

    Args:
      max_operations: largest number of operations of a program.
      num_arguments: number of arguments of the program.
    """

    def __init__(self, max_operations: int, num_arguments: int = 0) -> None:
        self.table: dict[tuple[int, ...], int] = {}
        self.kinds: list[int] = []
        self.operations: list[tuple[int, ...]] = []
        self.constants: list[float] = []
        self.constant_kinds: list[int] = []
        self.tables: list[np.ndarray] = []
        self.loops: list[Loop] = []
        self.loop = -1
        self.has_linear = False
        self.is_linear = bytearray()
        self._max_operations, self._num_arguments = max_operations, num_arguments
        self._max_built = max(min(4 * max_operations, _MANY_BUILT), 2 * max_operations)
        self._tables: dict[tuple[str, bytes], int] = {}
        self._references: list[dict[float, int]] = [{} for _ in Kind]
        for kind in Kind:
            self.constant(0, kind)
            self.constant(1, kind)

    @property
    def size(self) -> int:
        """The number of scalars."""
        return len(self.kinds)

    def check_size(self, more: int = 0) -> None:
        """Checks the number of scalars.

        Raises:
          TooManyOperations: ``more`` scalars would be too many.
        """
        if len(self.kinds) + more > self._max_built:
            raise TooManyOperations(f"more than {self._max_built:,} scalars, needed or not")

    def check_needed(self, count: int) -> None:
        """Checks the number of operations that a program consists of.

        Raises:
          TooManyOperations: there are too many.
        """
        if count > self._max_operations:
            raise TooManyOperations(
                f"{count:,} operations, which are more than {self._max_operations:,}"
            )

    # Scalars

    def make(self, kind: int, *operation: int) -> int:
        """The scalar of an operation and its operands, created if it does not exist yet."""
        reference = self.table.get(operation)
        if reference is None:
            reference = self.table[operation] = 2 * len(self.kinds)
            self.kinds.append(kind)
            self.operations.append(operation)
        return reference

    def constant(self, value: float, kind: int) -> int:
        """The reference of a constant; for floats it includes the sign."""
        references = self._references[kind]
        if value != value:
            value = _NAN  # The same object each time, so that dictionaries find it.
        reference = references.get(value)
        if reference is None:
            if value < 0 and kind >= Kind.FLOAT32:
                reference = self.constant(-value, kind) | 1
            else:
                reference = CONSTANTS + 2 * len(self.constants)
                self.constants.append(value)
                self.constant_kinds.append(kind)
            references[value] = reference
        return reference

    def entry(self, kind: int, array: int, index: int) -> int:
        """An entry of an argument or table.

        Args:
          kind: kind of the entries.
          array: number of the argument, or the result of :meth:`table_of`.
          index: reference of the entry's flat index, an integer scalar.
        """
        if index < CONSTANTS:
            return self.make(kind, _LOAD, index, array_operand(array))
        number = int(self.value(index))
        if array < self._num_arguments:
            return self.make(kind, _INPUT, array, number)
        return self.constant(self.tables[array - self._num_arguments][number].item(), kind)

    def table_of(self, array: np.ndarray) -> int:
        """The number of a known array, from which entries are loaded."""
        key = array.dtype.name, array.tobytes()
        if key not in self._tables:
            self._tables[key] = self._num_arguments + len(self.tables)
            self.tables.append(array.ravel())
        return self._tables[key]

    def new_loop(self) -> int:
        """The number of a new loop, in the body that is being built."""
        none = np.zeros(0, np.int32)
        self.loops.append(Loop(0, none, none, self.loop))
        return len(self.loops) - 1

    def end_loop(
        self, number: int, length: int, starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        """Says how often a loop is repeated, and what is carried into its first and into its next
        iteration.
        """
        parent = self.loops[number].parent
        self.loops[number] = Loop(
            length, np.array(starts, np.int32), np.array(ends, np.int32), parent
        )

    def value(self, reference: int) -> float:
        """The value of a constant."""
        value = self.constants[(reference - CONSTANTS) >> 1]
        return -value if reference & 1 else value

    def operation(self, reference: int) -> tuple[int, ...]:
        """The operation and operands of a scalar; empty for constants."""
        return () if reference >= CONSTANTS else self.operations[reference >> 1]

    def kind(self, reference: int) -> int:
        """The kind of a scalar."""
        if reference >= CONSTANTS:
            return self.constant_kinds[(reference - CONSTANTS) >> 1]
        return self.kinds[reference >> 1]

    def fold(self, function: Callable[..., Any], kind: int, result: int, *references: int) -> int:
        """The value of a function of constants, evaluated in their dtype, as a constant of kind
        ``result``.
        """
        scalar_type = DTYPES[Kind(kind)].type
        return self.constant(
            function(*(scalar_type(self.value(x)) for x in references)).item(), result
        )

    # Arrays

    def references(self, value: Value, kind: int) -> Sequence[int]:
        """The references of an array's entries, known or not."""
        if not isinstance(value, np.ndarray):
            return value
        known = self._references[kind]
        numbers = value.ravel().tolist()
        try:
            return [known[number] for number in numbers]
        except KeyError:
            return [self.constant(number, kind) for number in numbers]

    def as_value(self, references: Sequence[int], shape: tuple[int, ...], dtype: Any) -> Value:
        """The entries as a NumPy array if all are constants, else the references themselves."""
        if type(references) is LargeArgument or (references and min(references) < CONSTANTS):
            return references
        return np.array([self.value(x) for x in references], dtype).reshape(shape)

    # Elementwise sums and products of floats. Most time is spent here, so these are single loops
    # without calls.

    def add(
        self, kind: int, firsts: Iterable[int], seconds: Iterable[int], flip: int = 0
    ) -> list[int]:
        """Sums of floats.

        Args:
          kind: kind of the floats.
          firsts: the first operands.
          seconds: the second operands.
          flip: 1 for differences.
        """
        table, kinds, zero = self.table, self.kinds, ZERO[kind]
        sums: list[int] = []
        get, append = table.get, sums.append
        append_kind, append_operation = kinds.append, self.operations.append
        for a, b in zip(firsts, seconds, strict=False):
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
            else:
                if (a ^ b) & 1:
                    if a & 1:
                        a, b = b, a
                    b ^= 1
                    if (opposite := get((_SUB, b, a))) is not None:
                        append(opposite ^ 1)
                        continue
                    sign = 0
                    operation = _SUB, a, b
                else:
                    sign = a & 1
                    operation = (_ADD, a ^ sign, b ^ sign) if a < b else (_ADD, b ^ sign, a ^ sign)
                scalar = get(operation)
                if scalar is None:
                    scalar = table[operation] = 2 * len(kinds)
                    append_kind(kind)
                    append_operation(operation)
                append(scalar ^ sign)
        return sums

    def subtract(self, kind: int, firsts: Iterable[int], seconds: Iterable[int]) -> list[int]:
        """Differences of floats."""
        return self.add(kind, firsts, seconds, 1)

    def multiply(self, kind: int, firsts: Iterable[int], seconds: Iterable[int]) -> list[int]:
        """Products of floats; zero times anything is zero."""
        table, kinds, zero, one = self.table, self.kinds, ZERO[kind], ONE[kind]
        products: list[int] = []
        operations = self.operations
        get, append = table.get, products.append
        append_kind, append_operation = kinds.append, operations.append
        for a, b in zip(firsts, seconds, strict=False):
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
                factor = operations[a >> 1]
                if factor[0] == _ADD and factor[1] == factor[2]:  # c (x + x) = 2 c x, exactly
                    twice = self.constant(2 * self.value(b), kind)
                    products += self.multiply(kind, (factor[1] ^ (a & 1),), (twice,))
                    continue
            operation = _MUL, a & -2, b & -2
            scalar = get(operation)
            if scalar is None:
                scalar = table[operation] = 2 * len(kinds)
                append_kind(kind)
                append_operation(operation)
            append(scalar ^ ((a ^ b) & 1))
        return products

    def divide(self, kind: int, firsts: Iterable[int], seconds: Iterable[int]) -> list[int]:
        """Quotients of floats; zero divided by anything is zero."""
        zero = ZERO[kind]
        quotients = []
        for a, b in zip(firsts, seconds, strict=False):
            if a == zero:
                quotients.append(zero)
            elif b >= CONSTANTS:
                quotients.append(self._divide_by_constant(kind, a, b))
            else:
                quotients.append(self.make(kind, _DIV, a & -2, b & -2) ^ ((a ^ b) & 1))
        return quotients

    def _divide_by_constant(self, kind: int, a: int, b: int) -> int:
        if a >= CONSTANTS:
            return self.fold(np.divide, kind, kind, a, b)
        value = self.value(b)
        if value != 0 and abs(math.frexp(value)[0]) == 0.5 and 2.0**-100 < abs(value) < 2.0**100:
            return self.multiply(kind, (a,), (self.constant(1 / value, kind),))[0]  # Exact.
        return self.make(kind, _DIV, a & -2, b & -2) ^ ((a ^ b) & 1)

    def negate(self, kind: int, operands: Iterable[int]) -> list[int]:
        """Negatives of floats, which need no operations."""
        zero = ZERO[kind]
        return [x if x == zero else x ^ 1 for x in operands]


Rule: TypeAlias = Callable[[ScalarBuilder, Sequence[Value]], list[Value]]
"""Computes the results of an operation, some of whose arguments are unknown."""


def result_of(equation: Any) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, dtype and size of the (first) result."""
    aval = equation.outvars[0].aval
    return aval.shape, aval.dtype, math.prod(aval.shape)


def shapes_of(equation: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes of the arguments."""
    return tuple(variable.aval.shape for variable in equation.invars)


def operand_kind(equation: Any, number: int = 0) -> Kind:
    """The kind of an argument's scalars."""
    return kind_of(equation.invars[number].aval.dtype)
