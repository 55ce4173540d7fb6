"""Straight lines of a program as instructions on values, for x86 processors with AVX2 or AVX-512.

LLVM would take most of a first call, since its passes expect more than straight lines in an order
that is chosen already. Here each operation becomes one instruction or a few. Products that only a
sum needs become one instruction with it, as LLVM would have it.

Beside float64, 32-bit integers are held as float64, which has all of them, so that each lane is as
wide as the others. Sums and products that exceed 32 bits would not wrap around; numbers of rows,
points and turns do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.kernels import encodings, x86
from artix.compiler.kernels.encodings import MASK, VECTOR, Encoding, Form
from artix.compiler.kernels.program_lists import SCALARS, ProgramLists
from artix.compiler.kernels.x86 import (
    FLAG,
    FLAGS,
    HALF_ONCE,
    HALVES,
    LANES,
    NOWHERE,
    ONCE,
    Scratch,
    Values,
)
from artix.compiler.scalar_program import BYTES, Kind, Op

_ARITHMETIC = {
    Op.ADD: "add",
    Op.SUB: "sub",
    Op.MUL: "mul",
    Op.DIV: "div",
    Op.MIN: "min",
    Op.MAX: "max",
}
_COMPARED = {Op.LT: "lt", Op.LE: "le", Op.EQ: "eq", Op.NE: "ne"}
_ONE_TO_ONE = {Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.ROUND: "round"}
_LOGIC = {Op.AND: "and", Op.OR: "or", Op.XOR: "xor", Op.NOT: "not"}
_OTHERS = {Op.ABS, Op.SIGN, Op.RSQRT, Op.IS_FINITE, Op.SELECT, Op.CONVERT}
_FUNCTIONS = {
    op: op.name.lower() for op in Op if Op.SIN <= op <= Op.CBRT or op in (Op.POW, Op.ATAN2)
}
_OF_BITS = {
    Op.AND: "and",
    Op.OR: "or",
    Op.XOR: "xor",
    Op.SHIFT_LEFT: "shift_left",
    Op.SHIFT_RIGHT: "shift_right",
}
_OF_INTEGERS = {*_ARITHMETIC, Op.ABS, Op.SELECT, Op.CONVERT} - {Op.DIV}
_OF_WORDS = {Op.ADD, Op.SUB, Op.MUL, *_OF_BITS, Op.SELECT, Op.CONVERT, Op.BITCAST}
_WHOLE = {Kind.INT32, Kind.UINT32}
_OF_FLOATS = {*_ARITHMETIC, *_ONE_TO_ONE, *_OTHERS, *_FUNCTIONS} - {Op.IS_FINITE}
_OF_BOOLS = {*_LOGIC, *_COMPARED, Op.IS_FINITE, Op.SELECT, Op.CONVERT}


def encodable(lists: ProgramLists, width: int) -> np.ndarray:
    """Which of a program's scalars have machine code here, bool [N]: floats of one kind, and 32-bit
    integers.
    """
    program = lists.program
    encoding = encodings.encoding()
    kind = None if encoding is None else _kind_of(encoding, width)
    if encoding is None or kind is None:
        return np.zeros(len(program.operations), bool)
    operations, kinds, operands = program.operations, program.kinds, program.operands
    of_kind = {kind: _OF_FLOATS, Kind.BOOL: _OF_BOOLS, Kind.INT32: _OF_INTEGERS}
    if kind == Kind.FLOAT32:
        of_kind[kind] = _OF_FLOATS | {Op.BITCAST}
        of_kind[Kind.INT32] = _OF_INTEGERS | {Op.AND, Op.BITCAST}
        of_kind[Kind.UINT32] = _OF_WORDS
    permitted = np.zeros((len(Kind), len(Op)), bool)
    for each, ops in of_kind.items():
        permitted[each, [int(op) for op in ops]] = True
    result = permitted[kinds, operations] & (program.levels > 0)
    references = np.where((operands < 0) | (operations <= Op.CONSTANT)[:, None], 0, operands)
    source, is_operand = references >> 1, (operands >= 0) & (operations > Op.CONSTANT)[:, None]
    source_kinds = np.where(is_operand, kinds[source], kinds[:, None])
    result &= ~np.any(
        is_operand & (source_kinds == Kind.BOOL) & (operations[source] == Op.CONSTANT), axis=1
    )
    compares = np.isin(operations, [int(op) for op in _COMPARED])
    result &= ~(compares & (source_kinds[:, 0] == Kind.BOOL))
    to_integers = (source_kinds[:, 0] == kind) & (kinds == Kind.INT32)
    result &= ~((operations == Op.CONVERT) & ((source_kinds[:, 0] == kinds) | to_integers))
    return result & ~np.any(is_operand & ~np.isin(source_kinds, [int(k) for k in of_kind]), axis=1)


def copyable(lists: ProgramLists, width: int) -> list[bool]:
    """For each loop of a program, whether there is machine code here that copies all that it
    carries.
    """
    program, encoding = lists.program, encodings.encoding()
    kind = None if encoding is None else _kind_of(encoding, width)
    kinds = {kind, Kind.BOOL, Kind.INT32} | ({Kind.UINT32} if kind == Kind.FLOAT32 else set())
    copied = [{Kind(x) for x in program.kinds[loop.starts >> 1].tolist()} for loop in program.loops]
    return [
        kind is not None and level > 0 and carried <= kinds
        for level, carried in zip(program.levels_of_loops, copied, strict=True)
    ]


def _kind_of(encoding: Encoding, width: int) -> Kind | None:
    """The kind of floats of which a vector has so many."""
    return next(
        (kind for kind in encoding.floats if width * BYTES[kind] == encoding.vector_bytes), None
    )


class Places(NamedTuple):
    """Where the scalars of a program are in memory."""

    slot: Callable[[int], int]
    """The slot of all lanes of a scalar or its negative."""
    scalar_slot: Callable[[int], int]
    """That of a scalar of level 0."""
    kept: Collection[int]
    """The scalars that are needed outside the function that computes them."""
    uses: np.ndarray
    """How often each scalar is needed, [N]."""


class Line:
    """A function ``void (memory)`` that computes some operations of a program.

    Args:
      lists: the program.
      width: lanes of vectors.
      places: where values are in memory.
      scratch: more memory.
      function: gives the name of an elementary function, which it adds to the module.
    """

    def __init__(
        self,
        lists: ProgramLists,
        width: int,
        places: Places,
        scratch: Scratch,
        function: Callable[[str, str, int], str],
    ) -> None:
        self._lists, self._width, self._places = lists, width, places
        self._scratch, self._function = scratch, function
        encoding = encodings.encoding()
        assert encoding is not None
        kind = _kind_of(encoding, width)
        assert kind is not None
        self._encoding, self._kind = encoding, kind
        self._floats, self._size = encoding.floats[kind], BYTES[kind]
        self._has_integers = kind == Kind.FLOAT32
        self._code: list[int] = []
        """Of each instruction the number of its form, its result, and up to three operands; -1 for
        none."""
        self._forms: list[Form] = []
        self._numbers: dict[Form, int] = {}
        self._value_of: dict[int, int] = {}
        """The value of each reference."""
        self._sines: dict[int, tuple[int, int]] = {}
        self._values = Values()

    def compute(
        self,
        operations: Sequence[int],
        requests: Mapping[int, Sequence[tuple[int, int]]],
    ) -> None:
        """Appends operations.

        Args:
          operations: their numbers.
          requests: what to request with some of them, by their places: slots of addresses, and
            offsets in bytes.
        """
        lists, places, value_of = self._lists, self._places, self._value_of
        append, get, value = self._code.extend, value_of.get, self._value
        values, kept = self._values, places.kept
        file, home, how = values.file.append, values.home.append, values.how.append
        due = sorted(requests, reverse=True)
        for place, number, form, first, second, third in self._fused(operations):
            while due and due[-1] <= place:
                for slot, byte in requests[due.pop()]:
                    self._request(slot, byte)
            if form >= 0:  # Most operations are these, so they call little.
                if (x := get(first)) is None:
                    x = value(first)
                if (y := get(second)) is None:
                    y = value(second)
                if (z := get(third) if third >= 0 else -1) is None:
                    z = value(third)
                result = len(values.file)
                file(VECTOR)
                home(0)
                how(NOWHERE)
                append((form, result, x, y, z))
            else:
                code, kind = Op(lists.operations[number]), Kind(lists.kinds[number])
                result = self._other(code, first, second, third, kind)
            value_of[2 * number] = result
            if number in kept:
                self._keep(result, places.slot(2 * number), lists.kinds[number])

    def _fused(self, operations: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Operations with their places: number, form and the references of operands.

        Sums, differences and products of floats without negatives have a form, others have -1. A
        product with one use, which is in such a sum or difference, is one with it: its operands
        are the factors, then the other one. Of two products, the first has precedence, as in LLVM.
        """
        program = self._lists.program
        add, sub, mul = map(self._form, ("add", "sub", "mul"))
        numbers = np.array(operations, np.int64)
        codes, rows = program.operations[numbers], program.operands[numbers]
        is_plain = (codes <= Op.MUL) & (program.kinds[numbers] >= Kind.FLOAT32)
        is_plain &= ~np.any(rows[:, :2] & 1, axis=1)
        is_product = is_plain & (codes == Op.MUL)
        may_be_part = np.zeros(len(program.operations) + 1, bool)
        may_be_part[numbers[is_product & (self._places.uses[numbers] == 1)]] = True
        with_first, with_second = (
            is_plain & ~is_product & may_be_part[rows[:, k] >> 1] for k in range(2)
        )
        with_second &= ~with_first
        is_sum = codes == Op.ADD
        forms = np.where(is_product, mul, np.where(is_sum, add, sub))
        is_part = np.zeros(len(program.operations), bool)
        for fused, factors, other, difference in (
            (with_first, 0, 1, "times_minus"),
            (with_second, 1, 0, "minus_times"),
        ):
            forms[fused] = np.where(is_sum[fused], self._form("times_plus"), self._form(difference))
            products = rows[fused, factors] >> 1
            is_part[products] = True
            rows[fused, 2] = rows[fused, other]
            rows[fused, :2] = program.operands[products, :2]
        forms[~is_plain] = -1
        stays = np.flatnonzero(~is_part[numbers])
        columns = stays, numbers[stays], forms[stays], *rows[stays].T
        return zip(*(column.tolist() for column in columns), strict=True)

    def store(self, reference: int, slot: int) -> None:
        """Stores the negative of a scalar, which is computed for that."""
        result = self._append("xor", self._value(reference ^ 1), self._pattern(self._sign))
        self._value_of[reference] = result
        self._values.kept[result] = slot

    def _keep(self, value: int, slot: int, kind: int) -> None:
        """Stores a value of this kind as soon as it is computed."""
        self._values.kept[value] = slot
        if kind == Kind.INT32 and not self._has_integers:
            self._values.integers.add(value)

    def _lanes_at(self, slot: int, kind: int) -> int:
        """The value of a slot of all lanes."""
        if kind == Kind.BOOL:
            return self._flags_at(slot)
        is_half = kind == Kind.INT32 and not self._has_integers
        return self._values.new(VECTOR, slot, HALVES if is_half else LANES)

    def start(self, starts: Sequence[tuple[int, int]], outer: int | None) -> None:
        """Stores what a loop carries into its first iteration, given the slot of the flags of the
        loop around it.
        """
        for place, (reference, slot) in enumerate(starts):
            which = self._flags_at(outer) if outer is not None and not place else None
            kind = self._lists.kinds[reference >> 1]
            self._copy(self._copied(reference), slot, kind, which)

    def carry(self, references: Sequence[int], slots: Sequence[int], has_condition: bool) -> None:
        """Stores what an iteration carries into the next; lanes whose flag is not set keep what
        they have.

        All values are read before any is written, and the flags, which come first, are written
        last.
        """
        lists = self._lists
        values = list[int]()
        for reference in references:
            value = self._copied(reference)
            if lists.operations[reference >> 1] == Op.CARRIED and not reference & 1:
                value = self._both("or", value, value)
            values.append(value)
        which = self._flags_at(slots[0]) if has_condition else None
        kinds = [lists.kinds[reference >> 1] for reference in references]
        for value, slot, kind in reversed(list(zip(values, slots, kinds, strict=True))):
            self._copy(value, slot, kind, which, keeps=slot != slots[0])

    def _copied(self, reference: int) -> int:
        """The value of a reference, also of a constant flag."""
        lists, number = self._lists, reference >> 1
        if lists.operations[number] != Op.CONSTANT or lists.kinds[number] != Kind.BOOL:
            return self._value(reference)
        zero = self._constant(0.0, self._kind)
        return self._append("eq" if lists.constants[number] else "ne", zero, zero)

    def _flags_at(self, slot: int) -> int:
        return self._values.new(MASK, slot, FLAGS)

    def _both(self, name: str, x: int, y: int) -> int:
        """An operation on the bits of two values of a kind."""
        return self._emit(
            (self._encoding.logic if self._values.file[x] == MASK else self._floats)[name], x, y
        )

    def _copy(
        self, value: int, slot: int, kind: int, which: int | None, keeps: bool = False
    ) -> None:
        """Stores a value, or where flags are not set what is there already, or, of flags, none."""
        is_flag = self._values.file[value] == MASK
        if which is None:
            result = self._both("or", value, value)
        elif is_flag:
            result = self._both("and", value, which)
            if keeps:
                kept = self._both("but_not", which, self._flags_at(slot))
                result = self._both("or", result, kept)
        else:
            result = self._append("blend", self._lanes_at(slot, kind), value, which)
        self._keep(result, slot, kind)

    def _request(self, slot: int, byte: int) -> None:
        """Requests the line of the cache at an offset from the address in a slot."""
        address, line = slot - self._scratch.base, byte
        # Mov rax, [rbx + address]
        text = b"\x48\x8b\x83" + address.to_bytes(4, "little", signed=True)
        text += b"\x0f\x18\x88" + line.to_bytes(4, "little", signed=True)  # prefetcht0 [rax + line]
        self._code.extend((self._number(Form(0, text)), -1, -1, -1, -1))

    @property
    def _sign(self) -> int:
        return 1 << (8 * self._size - 1)

    def _number(self, form: Form) -> int:
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = len(self._forms)
            self._forms.append(form)
        return number

    def _emit(self, form: Form, a: int = -1, b: int = -1, mask: int = -1) -> int:
        result = self._values.new(form.result)
        self._code.extend((self._number(form), result, a, b, mask))
        return result

    def _form(self, name: str) -> int:
        return self._number(self._floats[name])

    def _append(self, name: str, a: int = -1, b: int = -1, mask: int = -1) -> int:
        return self._emit(self._floats[name], a, b, mask)

    def _pattern(self, bits: int) -> int:
        """The value of a constant of these bits."""
        return self._at(self._scratch.pattern(bits, self._size))

    def _constant(self, value: float, kind: Kind) -> int:
        kind = kind if self._has_integers else self._kind
        return self._at(self._scratch.constant(value, kind))

    def _at(self, slot: int) -> int:
        key = -1 - slot
        value = self._value_of.get(key)
        if value is None:
            value = self._value_of[key] = self._values.new(VECTOR, slot, ONCE)
        return value

    def _value(self, reference: int) -> int:
        value = self._value_of.get(reference)
        if value is None:
            value = self._value_of[reference] = self._resolve(reference)
        return value

    def _resolve(self, reference: int) -> int:
        """A constant, the negative of a value, or what is computed elsewhere."""
        lists, number = self._lists, reference >> 1
        kind = Kind(lists.kinds[number])
        if lists.operations[number] == Op.CONSTANT:
            constant = lists.constants[number]
            return self._constant(-constant if reference & 1 else constant, kind)
        if reference & 1:
            return self._append("xor", self._value(reference ^ 1), self._pattern(self._sign))
        if lists.levels[number] == 0:
            once = HALF_ONCE if kind == Kind.INT32 and not self._has_integers else ONCE
            file, how = (MASK, FLAG) if kind == Kind.BOOL else (VECTOR, once)
            return self._values.new(file, self._places.scalar_slot(number), how)
        return self._lanes_at(self._places.slot(reference), kind)

    def _other(self, op: Op, a: int, b: int, c: int, kind: Kind) -> int:
        """Appends an operation that is not a sum or product of floats without negatives."""
        lists, value = self._lists, self._value
        if op in _FUNCTIONS:
            return self._call(op, a, b)
        if op in _COMPARED:
            return self._compare(op, Kind(lists.kinds[a >> 1]), value(a), value(b))
        if op is Op.SELECT:
            return self._select(kind, value(a), b, c)
        if op in _LOGIC and kind == Kind.BOOL:
            return self._logic(op, value(a), b)
        if op is Op.BITCAST:
            return self._append("move", -1, value(a))
        if kind in _WHOLE and self._has_integers and op is not Op.CONVERT:
            x = value(a)
            if op is Op.ABS:
                return self._emit(self._encoding.integers["abs"], -1, x)
            name = _OF_BITS[op] if op in _OF_BITS else _ARITHMETIC[op]
            return self._emit(self._encoding.integers[name], x, value(b))
        if op in (Op.MIN, Op.MAX):
            return self._extremum(op, a, b)
        if op in _ARITHMETIC:
            return self._append(_ARITHMETIC[op], value(a), value(b))
        if op in _ONE_TO_ONE:
            return self._append(_ONE_TO_ONE[op], -1, value(a))
        if op is Op.CONVERT:
            return self._convert(a, kind)
        if op is Op.RSQRT:
            root = self._append("sqrt", -1, value(a))
            return self._append("div", self._constant(1.0, self._kind), root)
        if op is Op.ABS:
            return self._magnitude(a)
        if op is Op.IS_FINITE:
            return self._append("lt", self._magnitude(a), self._constant(float("inf"), self._kind))
        x = value(a)  # its sign; zero and NaN are unchanged
        one = self._append("and", x, self._pattern(self._sign))
        one = self._append("or", one, self._constant(1.0, self._kind))
        return self._append(
            "blend", x, one, self._append("apart", x, self._constant(0.0, self._kind))
        )

    def _compare(self, op: Op, kind: Kind, a: int, b: int) -> int:
        name = _COMPARED[op]
        if kind not in _WHOLE or not self._has_integers:
            return self._append(name, a, b)
        integers = self._encoding.integers
        if name in integers:
            return self._emit(integers[name], a, b)
        # There are only "equal" and "greater".
        if op is Op.LT:
            return self._emit(integers["gt"], b, a)
        other = self._emit(integers["eq" if op is Op.NE else "gt"], a, b)
        return self._logic(Op.NOT, other, -1)

    def _magnitude(self, reference: int) -> int:
        return self._append("and", self._value(reference & -2), self._pattern(self._sign - 1))

    def _logic(self, op: Op, x: int, b: int) -> int:
        logic = self._encoding.logic
        if op is not Op.NOT:
            return self._emit(logic[_LOGIC[op]], x, self._value(b))
        if "not" in logic:
            return self._emit(logic["not"], -1, x)
        return self._emit(logic["xor"], x, self._pattern(2 * self._sign - 1))

    def _select(self, kind: Kind, which: int, yes: int, no: int) -> int:
        if kind == Kind.BOOL:
            logic = self._encoding.logic
            first = self._emit(logic["and"], which, self._value(yes))
            return self._emit(
                logic["or"], first, self._emit(logic["but_not"], which, self._value(no))
            )
        lists, number = self._lists, no >> 1
        if lists.operations[number] == Op.CONSTANT and lists.constants[number] == 0 and not no & 1:
            return self._masked(self._value(yes), which)
        return self._append("blend", self._value(no), self._value(yes), which)

    def _masked(self, value: int, which: int) -> int:
        """A value where flags are set, zero elsewhere."""
        if not self._encoding.has_masks:
            return self._append("and", which, value)
        return self._append(
            "spread_in_mask" if self._values.how[value] == ONCE else "in_mask", -1, value, which
        )

    def _extremum(self, op: Op, a: int, b: int) -> int:
        """The minimum or maximum of two, NaN if one is NaN."""
        lists = self._lists
        if lists.operations[b >> 1] == Op.CONSTANT:
            a, b = b, a
        first, second = self._value(a), self._value(b)
        # Processors return the second operand if one is NaN: the one that is not constant.
        result = self._append("min" if op is Op.MIN else "max", first, second)
        if lists.operations[a >> 1] == Op.CONSTANT:
            return result
        return self._append("blend", result, first, self._append("unordered", first, first))

    def _convert(self, a: int, kind: Kind) -> int:
        source, x = Kind(self._lists.kinds[a >> 1]), self._value(a)
        if kind == Kind.BOOL:
            return self._compare(Op.NE, source, x, self._constant(0, source))
        if source == Kind.BOOL:
            return self._masked(self._constant(1, kind), x)
        if not self._has_integers:
            return self._append("or", x, x)
        return self._emit(self._encoding.integers["convert"], -1, x)

    def _call(self, op: Op, a: int, b: int) -> int:
        scalar = SCALARS[self._kind]
        if op in (Op.SIN, Op.COS) and a >> 1 in self._lists.sincos_angles:
            angle = a & -2
            if angle not in self._sines:
                form = Form(0, call=self._function("sincos", scalar, self._width))
                x = self._value(angle)
                sine, cosine = self._values.new(VECTOR), self._values.new(VECTOR)
                self._code.extend((self._number(form), sine, x, -1, cosine))
                self._sines[angle] = sine, cosine
            result = self._sines[angle][op is Op.COS]
            if a & 1 and op is Op.SIN:
                return self._append("xor", result, self._pattern(self._sign))
            return self._append("move", -1, result) if result in self._values.kept else result
        form = Form(0, call=self._function(_FUNCTIONS[op], scalar, self._width))
        return self._emit(form, self._value(a), self._value(b) if b >= 0 else -1)

    def encode(self) -> list[bytes | str]:
        """The function's code; texts are names of functions that it calls."""
        return x86.encode(
            self._code, self._forms, self._values, self._scratch, self._kind, self._encoding
        )
