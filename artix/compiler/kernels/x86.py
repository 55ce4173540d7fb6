"""Machine code of straight lines of vector operations, for x86 processors with AVX-512.

LLVM would take most of a first call, since its passes expect more than straight lines in an order that is chosen
already. Here each operation becomes one instruction or a few. Where registers run out, the value leaves that is needed
last, as in L. A. Belady, *A study of replacement algorithms for a virtual-storage computer* (1966). Values in memory
that are not needed again soon are operands from there. Products that only a sum needs become one instruction with it,
as LLVM would have it. Encodings are those of the *Intel 64 and IA-32 Architectures Software Developer's Manual*,
volume 2.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from artix.compiler.kernels.machine import has_feature, vector_bytes
from artix.compiler.kernels.program_lists import SCALARS, ProgramLists
from artix.compiler.scalar_program import BYTES, DTYPES, Kind, Op

if TYPE_CHECKING:
    from artix.compiler.kernels.plan import Plan

#: Bytes of a vector.
_BYTES = 64
#: A value in memory stays there if its next use is so many instructions away.
_NEAR = 24
#: The place of a next use that does not exist.
_NEVER = 1 << 40
#: The two files of registers. The last vector register is only used for moves; mask 0 means no mask.
_VECTOR, _MASK = 0, 1
_SCRATCH = 31
#: Where a value is in memory: nowhere; in all lanes of a vector; once for all lanes; and flags as bits, as a byte for
#: each lane, or as one byte for all lanes.
_NOWHERE, _LANES, _ONCE, _BITS, _FLAGS, _FLAG = range(6)


def available() -> bool:
    """Whether this processor, and the format of object files, are supported."""
    needed = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
    return sys.platform == "linux" and platform.machine() == "x86_64" and all(map(has_feature, needed))


class Form(NamedTuple):
    """An instruction without its operands."""

    bits: int
    """Its bytes, the first one lowest, with all registers 0."""
    tail: bytes = b""
    """What follows the operands."""
    commutes: bool = False
    result: int = _VECTOR
    """The file of its result."""
    operands: int = _VECTOR
    """The file of its operands."""
    into_factor: int = 0
    """Of ``c = a * b + c``, the bits of ``a = a * b + c``."""
    call: str = ""
    """The name of a function, if it is a call."""


def _evex(
    prefix: int, page: int, opcode: int, wide: int = 0, length: int = 2, tail: Sequence[int] = (), **traits: int
) -> Form:
    """An instruction with the bytes 62, P0, P1, P2, opcode and ModR/M."""
    bits = 0x62 | (0xF0 | page) << 8 | (wide << 7 | 0x7C | prefix) << 16 | (length << 5 | 8) << 24
    return Form(bits | opcode << 32 | 0xC0 << 40, bytes(tail), **traits)  # type: ignore[arg-type]


def _of_masks(opcode: int, length: int = 1, commutes: bool = False) -> Form:
    """An instruction with the bytes C4, two more, opcode and ModR/M."""
    bits = 0xC4 | 0xE1 << 8 | (0x78 | length << 2) << 16 | opcode << 24 | 0xC0 << 32
    return Form(bits, commutes=commutes, result=_MASK, operands=_MASK)


#: What registers add to the bits, as result, as first and as last operand.
_RESULT = [(r >> 3 & 1) << 15 | (r >> 4 & 1) << 12 | (r & 7) << 43 for r in range(32)]
_FIRST = [(r & 15) << 19 | (r >> 4) << 27 for r in range(32)]
_LAST = [(r >> 3 & 1) << 13 | (r >> 4) << 14 | (r & 7) << 40 for r in range(32)]
#: The same for a last operand in memory, with displacements of 1 and 4 bytes from register rbx; and if it has one lane.
_NEAR_MEMORY, _FAR_MEMORY, _ONE_LANE = 0x83 << 40, 0x43 << 40, 1 << 28
_ZEROING = 1 << 31

_PREDICATES = {"lt": 17, "le": 18, "eq": 0, "ne": 4, "unordered": 3, "apart": 12}


def _of_floats(wide: int) -> dict[str, Form]:
    opcodes = {"sub": 0x5C, "min": 0x5D, "div": 0x5E, "max": 0x5F, "sqrt": 0x51, "or": 0x56, "move": 0x28}
    commuting = {"add": 0x58, "mul": 0x59, "and": 0x54, "xor": 0x57}
    products = {"times_plus": 0xB8, "times_minus": 0xBA, "minus_times": 0xBC}
    roundings = {"floor": 9, "ceil": 10, "round": 8}
    return {
        **{name: _evex(wide, 1, code, wide) for name, code in opcodes.items()},
        **{name: _evex(wide, 1, code, wide, commutes=True) for name, code in commuting.items()},
        **{
            name: _evex(1, 2, code, wide, into_factor=_evex(1, 2, code - 16, wide).bits)
            for name, code in products.items()
        },
        **{name: _evex(1, 3, 8 + wide, wide, tail=[how]) for name, how in roundings.items()},
        **{name: _evex(wide, 1, 0xC2, wide, tail=[how], result=_MASK) for name, how in _PREDICATES.items()},
        "store": _evex(wide, 1, 0x29, wide),
        "spread": _evex(1, 2, 0x18 + wide, wide),
        "blend": _evex(1, 2, 0x65, wide),
        "in_mask": _evex(wide, 1, 0x28, wide)._replace(bits=_evex(wide, 1, 0x28, wide).bits | _ZEROING),
        "spread_in_mask": _evex(1, 2, 0x18 + wide, wide)._replace(bits=_evex(1, 2, 0x18 + wide, wide).bits | _ZEROING),
    }


_FLOATS = {Kind.FLOAT32: _of_floats(0), Kind.FLOAT64: _of_floats(1)}
_INTEGERS = {
    "add": _evex(1, 1, 0xFE, commutes=True),
    "sub": _evex(1, 1, 0xFA),
    "mul": _evex(1, 2, 0x40, commutes=True),
    "min": _evex(1, 2, 0x39, commutes=True),
    "max": _evex(1, 2, 0x3D, commutes=True),
    "and": _evex(1, 1, 0xDB, commutes=True),
    "abs": _evex(1, 2, 0x1E),
    "convert": _evex(0, 1, 0x5B),
    **{name: _evex(1, 3, 0x1F, tail=[how], result=_MASK) for name, how in {"eq": 0, "lt": 1, "le": 2, "ne": 4}.items()},
}
_MASKS = {
    "and": _of_masks(0x41, commutes=True),
    "but_not": _of_masks(0x42),  # not a, and b
    "or": _of_masks(0x45, commutes=True),
    "xor": _of_masks(0x47, commutes=True),
    "not": _of_masks(0x44, length=0),
}
_LOAD_MASK, _STORE_MASK = _of_masks(0x90, length=0), _of_masks(0x91, length=0)
_MASK_OF_FLAGS, _FLAGS_OF_MASK = _evex(1, 2, 0x26, length=0), _evex(2, 2, 0x28, length=0)
_ONES_OF_FLAGS, _SPREAD_FLAG = _evex(1, 2, 0x1C, length=0), _evex(1, 2, 0x78, length=0)
#: Loads and stores of 16 and of 8 flags.
_MOVES_OF_FLAGS = {
    16: (_evex(3, 1, 0x6F, length=0), _evex(3, 1, 0x7F, length=0)),
    8: (_evex(2, 1, 0x7E, 1, length=0), _evex(1, 1, 0xD6, 1, length=0)),
}

_ARITHMETIC = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.DIV: "div", Op.MIN: "min", Op.MAX: "max"}
_COMPARED = {Op.LT: "lt", Op.LE: "le", Op.EQ: "eq", Op.NE: "ne"}
_ONE_TO_ONE = {Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.ROUND: "round"}
_LOGIC = {Op.AND: "and", Op.OR: "or", Op.XOR: "xor", Op.NOT: "not"}
_OTHERS = {Op.ABS, Op.SIGN, Op.RSQRT, Op.IS_FINITE, Op.SELECT, Op.CONVERT}
_FUNCTIONS = {op: op.name.lower() for op in Op if Op.SIN <= op <= Op.CBRT or op in (Op.POW, Op.ATAN2)}
_OF_INTEGERS = {*_ARITHMETIC, Op.ABS, Op.SELECT, Op.CONVERT, Op.AND} - {Op.DIV}
_OF_FLOATS = {*_ARITHMETIC, *_ONE_TO_ONE, *_OTHERS, *_FUNCTIONS} - {Op.IS_FINITE}
_OF_BOOLS = {*_LOGIC, *_COMPARED, Op.IS_FINITE, Op.SELECT, Op.CONVERT}


def encodable(lists: ProgramLists, width: int) -> np.ndarray:
    """Which of a program's scalars have machine code here, bool [N]: floats of one kind, and 32-bit integers."""
    program = lists.program
    kind = next((k for k in _FLOATS if width * BYTES[k] == _BYTES == vector_bytes()), None)
    if kind is None or not available():
        return np.zeros(len(program.operations), bool)
    operations, kinds, operands = program.operations, program.kinds, program.operands
    of_kind = {kind: _OF_FLOATS, Kind.BOOL: _OF_BOOLS}
    if kind == Kind.FLOAT32:
        of_kind[Kind.INT32] = _OF_INTEGERS
    permitted = np.zeros((len(Kind), len(Op)), bool)
    for each, ops in of_kind.items():
        permitted[each, [int(op) for op in ops]] = True
    result = permitted[kinds, operations] & (program.levels > 0)
    references = np.where((operands < 0) | (operations <= Op.CONSTANT)[:, None], 0, operands)
    source, is_operand = references >> 1, (operands >= 0) & (operations > Op.CONSTANT)[:, None]
    source_kinds = np.where(is_operand, kinds[source], kinds[:, None])
    result &= ~np.any(is_operand & (source_kinds == Kind.BOOL) & (operations[source] == Op.CONSTANT), axis=1)
    compares = np.isin(operations, [int(op) for op in _COMPARED])
    result &= ~(compares & (source_kinds[:, 0] == Kind.BOOL))
    to_integers = (source_kinds[:, 0] == kind) & (kinds == Kind.INT32)
    result &= ~((operations == Op.CONVERT) & ((source_kinds[:, 0] == kinds) | to_integers))
    return result & ~np.any(is_operand & ~np.isin(source_kinds, [int(k) for k in of_kind]), axis=1)


class Scratch:
    """Memory of a task for the constants of machine code, and for values without registers.

    Args:
      start: where it begins.
      constants: how many constants there are at most.
    """

    def __init__(self, start: int, constants: int) -> None:
        self.constants: dict[tuple[int, int], int] = {}
        """The slot of each constant, by its bits and its bytes."""
        self._constants, self._capacity = start, constants
        self._vectors = -(-(start + 8 * constants) // _BYTES) * _BYTES
        self.end = self._vectors
        self.base = self._vectors + 128 * _BYTES
        """The address in the base register: short displacements reach 128 vectors to each side."""

    def constant(self, value: float, kind: Kind) -> int:
        """The slot of a constant."""
        with np.errstate(over="ignore"):
            content = np.array(value).astype(DTYPES[kind]).tobytes()
        return self.pattern(int.from_bytes(content, "little"), len(content))

    def pattern(self, bits: int, size: int) -> int:
        """The slot of a constant of these bits."""
        slot = self._constants + 8 * len(self.constants)
        slot = self.constants.setdefault((bits, size), slot)
        assert len(self.constants) <= self._capacity
        return slot

    def vector(self, number: int) -> int:
        """A slot for a vector."""
        slot = self._vectors + number * _BYTES
        self.end = max(self.end, slot + _BYTES)
        return slot


class Line:
    """A function ``void (memory)`` that computes some operations of a program.

    Args:
      plan: says where values are in memory.
      scratch: more memory.
      function: gives the name of an elementary function, which it adds to the module.
    """

    def __init__(self, plan: Plan, scratch: Scratch, function: Callable[[str, str, int], str]) -> None:
        self._plan, self._lists, self._scratch, self._function = plan, plan.lists, scratch, function
        self._width = plan.width
        self._kind = Kind.FLOAT32 if 4 * plan.width == _BYTES else Kind.FLOAT64
        self._floats, self._size = _FLOATS[self._kind], BYTES[self._kind]
        self._code: list[int] = []
        """Of each instruction the number of its form, its result, and up to three operands; -1 for none."""
        self._forms: list[Form] = []
        self._numbers: dict[Form, int] = {}
        self._value_of: dict[int, int] = {}
        """The value of each reference."""
        self._sines: dict[int, tuple[int, int]] = {}
        self._home: list[int] = []
        """Where each value is in memory, and how."""
        self._how: list[int] = []
        self._slot_of_result: dict[int, int] = {}
        """Where values are stored when they are computed."""
        self._file: list[int] = []

    # Instructions on values

    def compute(
        self, operations: Sequence[int], requests: Callable[[], Sequence[tuple[int, int]]] | None = None
    ) -> None:
        """Appends operations.

        Args:
          operations: their numbers.
          requests: what to request after each of them: slots of addresses, and offsets in bytes.
        """
        lists, plan = self._lists, self._plan
        products = self._single_products(operations)
        codes, operands, kinds, value_of = lists.operations, lists.operands, lists.kinds, self._value_of
        append, new, value = self._code.extend, self._new, self._value
        number_of = {name: self._number(self._floats[name]) for name in ("add", "sub", "mul")}
        add, sub, mul = (number_of[name] for name in ("add", "sub", "mul"))
        plus, minus, from_ = (self._number(self._floats[name]) for name in ("times_plus", "times_minus", "minus_times"))
        for number in operations:
            for slot, byte in requests() if requests is not None else ():
                self._request(slot, byte)
            code, (a, b, c) = codes[number], operands[number]
            if code <= Op.MUL and kinds[number] >= Kind.FLOAT32 and not (a | b) & 1:
                if number in products:
                    continue
                if code == Op.MUL:
                    form, x, y, z = mul, value(a), value(b), -1
                elif a >> 1 in products:
                    x, y = map(value, operands[a >> 1][:2])
                    form, z = plus if code == Op.ADD else minus, value(b)
                elif b >> 1 in products:
                    x, y = map(value, operands[b >> 1][:2])
                    form, z = plus if code == Op.ADD else from_, value(a)
                else:
                    form, x, y, z = add if code == Op.ADD else sub, value(a), value(b), -1
                result = new(_VECTOR)
                append((form, result, x, y, z))
            else:
                result = self._other(Op(code), a, b, c, Kind(kinds[number]), number)
            value_of[2 * number] = result
            if number in plan.kept:
                self._keep(result, plan.slot(2 * number))

    def store(self, reference: int, slot: int) -> None:
        """Stores a scalar or its negative, which is computed for that."""
        result = self._append("xor", self._value(reference ^ 1), self._pattern(self._sign))
        self._value_of[reference] = result
        self._keep(result, slot)

    def _request(self, slot: int, byte: int) -> None:
        """Requests the line of the cache at an offset from the address in a slot."""
        address, line = slot - self._scratch.base, byte
        text = b"\x48\x8b\x83" + address.to_bytes(4, "little", signed=True)  # mov rax, [rbx + address]
        text += b"\x0f\x18\x88" + line.to_bytes(4, "little", signed=True)  # prefetcht0 [rax + line]
        self._code.extend((self._number(Form(0, text)), -1, -1, -1, -1))

    def _single_products(self, operations: Sequence[int]) -> set[int]:
        """Products with one use, which is in a sum or difference; of two, the first has precedence, as in LLVM."""
        program = self._lists.program
        numbers = np.array(operations, np.int64)
        codes, rows = program.operations[numbers], program.operands[numbers]
        of_floats = program.kinds[numbers] >= Kind.FLOAT32
        uses = self._plan.uses
        sums = of_floats & ((codes == Op.ADD) | (codes == Op.SUB)) & ~np.any(rows[:, :2] & 1, axis=1)
        here = np.zeros(len(program.operations), bool)
        here[numbers[of_floats & (codes == Op.MUL)]] = True
        single = here & (uses == 1)
        single &= ~np.any(program.operands[:, :2] & 1, axis=1)
        a, b = rows[sums, 0] >> 1, rows[sums, 1] >> 1
        first = single[a]
        return {*a[first].tolist(), *b[~first & single[b]].tolist()}

    @property
    def _sign(self) -> int:
        return 1 << (8 * self._size - 1)

    def _new(self, file: int, home: int = 0, how: int = _NOWHERE) -> int:
        self._file.append(file)
        self._home.append(home)
        self._how.append(how)
        return len(self._file) - 1

    def _number(self, form: Form) -> int:
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = len(self._forms)
            self._forms.append(form)
        return number

    def _emit(self, form: Form, a: int = -1, b: int = -1, mask: int = -1) -> int:
        result = self._new(form.result)
        self._code.extend((self._number(form), result, a, b, mask))
        return result

    def _append(self, name: str, a: int = -1, b: int = -1, mask: int = -1) -> int:
        return self._emit(self._floats[name], a, b, mask)

    def _keep(self, value: int, slot: int) -> None:
        self._slot_of_result[value] = slot

    def _pattern(self, bits: int) -> int:
        """The value of a constant of these bits."""
        return self._at(self._scratch.pattern(bits, self._size))

    def _constant(self, value: float, kind: Kind) -> int:
        return self._at(self._scratch.constant(value, kind))

    def _at(self, slot: int) -> int:
        key = -1 - slot
        value = self._value_of.get(key)
        if value is None:
            value = self._value_of[key] = self._new(_VECTOR, slot, _ONCE)
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
            file, how = (_MASK, _FLAG) if kind == Kind.BOOL else (_VECTOR, _ONCE)
            return self._new(file, self._plan.scalar_slot(number), how)
        slot = self._plan.slot(reference)
        return self._new(_MASK, slot, _FLAGS) if kind == Kind.BOOL else self._new(_VECTOR, slot, _LANES)

    def _other(self, op: Op, a: int, b: int, c: int, kind: Kind, number: int) -> int:
        """Appends an operation that is not a sum or product of floats without negatives."""
        lists, value = self._lists, self._value
        if op in _FUNCTIONS:
            return self._call(op, a, b)
        if op in _COMPARED:
            forms = _INTEGERS if lists.kinds[a >> 1] == Kind.INT32 else self._floats
            return self._emit(forms[_COMPARED[op]], value(a), value(b))
        if op is Op.SELECT:
            return self._select(kind, value(a), b, c)
        if op in _LOGIC and kind == Kind.BOOL:
            return self._logic(op, value(a), b)
        if kind == Kind.INT32 and op is not Op.CONVERT:
            x = value(a)
            if op is Op.ABS:
                return self._emit(_INTEGERS["abs"], -1, x)
            return self._emit(_INTEGERS["and" if op is Op.AND else _ARITHMETIC[op]], x, value(b))
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
        return self._append("blend", x, one, self._append("apart", x, self._constant(0.0, self._kind)))

    def _magnitude(self, reference: int) -> int:
        return self._append("and", self._value(reference & -2), self._pattern(self._sign - 1))

    def _logic(self, op: Op, x: int, b: int) -> int:
        if op is Op.NOT:
            return self._emit(_MASKS["not"], -1, x)
        return self._emit(_MASKS[_LOGIC[op]], x, self._value(b))

    def _select(self, kind: Kind, which: int, yes: int, no: int) -> int:
        if kind == Kind.BOOL:
            first = self._emit(_MASKS["and"], which, self._value(yes))
            return self._emit(_MASKS["or"], first, self._emit(_MASKS["but_not"], which, self._value(no)))
        lists, number = self._lists, no >> 1
        if lists.operations[number] == Op.CONSTANT and lists.constants[number] == 0 and not no & 1:
            return self._append("spread_in_mask" if self._is_once(yes) else "in_mask", -1, self._value(yes), which)
        return self._append("blend", self._value(no), self._value(yes), which)

    def _is_once(self, reference: int) -> bool:
        return self._how[self._value(reference)] == _ONCE

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
        if source == kind:
            return x
        if kind == Kind.BOOL:
            forms = _INTEGERS if source == Kind.INT32 else self._floats
            return self._emit(forms["ne"], x, self._constant(0, source))
        if source == Kind.BOOL:
            return self._append("spread_in_mask", -1, self._constant(1, kind), x)
        return self._emit(_INTEGERS["convert"], -1, x)

    def _call(self, op: Op, a: int, b: int) -> int:
        scalar = SCALARS[self._kind]
        if op in (Op.SIN, Op.COS) and a >> 1 in self._lists.sincos_angles:
            angle = a & -2
            if angle not in self._sines:
                form = Form(0, call=self._function("sincos", scalar, self._width))
                x = self._value(angle)
                sine, cosine = self._new(_VECTOR), self._new(_VECTOR)
                self._code.extend((self._number(form), sine, x, -1, cosine))
                self._sines[angle] = sine, cosine
            result = self._sines[angle][op is Op.COS]
            if a & 1 and op is Op.SIN:
                return self._append("xor", result, self._pattern(self._sign))
            return self._append("move", -1, result) if result in self._slot_of_result else result
        form = Form(0, call=self._function(_FUNCTIONS[op], scalar, self._width))
        return self._emit(form, self._value(a), self._value(b) if b >= 0 else -1)

    # Registers

    def encode(self) -> list[bytes | str]:
        """The function's code; names are those of functions that it calls."""
        base = self._scratch.base.to_bytes(4, "little", signed=True)
        start = b"\x53\x48\x8d\x9f" + base  # push rbx; lea rbx, [rdi + base]
        end = b"\xc5\xf8\x77\x5b\xc3"  # vzeroupper; pop rbx; ret
        return [start, *_Allocator(self).encode(), end]


class _Allocator:
    """Chooses registers for the values of a line, and writes its instructions."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._home, self._how, self._file = line._home, line._how, line._file
        self._scratch, self._width = line._scratch, line._width
        self._floats, self._size = line._floats, line._size
        self._base = self._scratch.base
        self._register = [-1] * len(self._file)
        self._free = [list(range(_SCRATCH - 1, -1, -1)), list(range(7, 0, -1))]
        self._held = [[-1] * _SCRATCH, [-1] * 8]
        self._next = [[-1] * _SCRATCH, [-1] * 8]
        self._slots: list[int] = []
        self._num_slots = 0
        self._is_spilled = bytearray(len(self._file))
        self._out: list[bytes | str] = []

    def encode(self) -> list[bytes | str]:
        line, forms = self._line, self._line._forms
        code = np.array(line._code, np.int64).reshape(-1, 5)
        is_call = np.array([bool(form.call) for form in forms], bool)[code[:, 0]]
        operands = np.where(is_call[:, None] & (np.arange(3) == 2), -1, code[:, 2:])
        following, first = _next_uses(operands, len(self._file))
        register, free, next_ = self._register, self._free, self._next
        out = self._out
        for place, ((number, result, a, b, c), (na, nb, nc)) in enumerate(
            zip(code.tolist(), following.tolist(), strict=True)
        ):
            form = forms[number]
            if form.into_factor:
                if b == c:
                    nb = nc
                if a == b:
                    na = nb
                if a == c:
                    na = nc
                target = self._product(form, a, b, c, na, nb, nc, place)
            elif form.call:
                self._call(form, result, a, b, c, na, nb, place, first)
                continue
            elif result < 0:
                out.append(form.tail)
                continue
            else:
                if a == b:
                    na = nb
                file, mask, ra = form.operands, 0, 0
                rb = register[b]
                if a >= 0:
                    ra = register[a]
                    if ra < 0:
                        if form.commutes and rb >= 0:
                            a, b, na, nb, ra, rb = b, a, nb, na, rb, ra
                        else:
                            ra = self._load(a)
                    next_[file][ra] = place
                if c >= 0:
                    mask = register[c]
                    if mask < 0:
                        mask = self._load(c)
                    next_[_MASK][mask] = place
                bits = form.bits | mask << 24 if mask else form.bits
                rb = register[b]
                if rb < 0 and (file or nb - place < _NEAR):
                    rb = self._load(b)
                if rb >= 0:
                    next_[file][rb] = place
                if a >= 0:
                    self._used(a, na, ra, file)
                if a != b:
                    self._used(b, nb, rb, file)
                if c >= 0:
                    self._used(c, nc, mask, _MASK)
                target = free[form.result].pop() if free[form.result] else self._take(form.result)
                if rb >= 0:
                    if file:
                        bits ^= (target & 7) << 35 ^ _FIRST[ra] ^ rb << 32
                        out.append(bits.to_bytes(5, "little"))
                    else:
                        bits ^= _RESULT[target] ^ _FIRST[ra] ^ _LAST[rb]
                        out.append(bits.to_bytes(6, "little") + form.tail)
                else:
                    self._from_memory(bits ^ _RESULT[target] ^ _FIRST[ra], b, form.tail)
                if nb == _NEVER:
                    self._forget(b)
                if a >= 0 and a != b and na == _NEVER:
                    self._forget(a)
                if c >= 0 and nc == _NEVER:
                    self._forget(c)
            self._define(result, target, form.result, first[result])
        return out

    def _define(self, result: int, register: int, file: int, use: int) -> None:
        """A register has a new value, which is stored if it is needed elsewhere."""
        slot = self._line._slot_of_result.get(result)
        if slot is not None:
            self._home[result] = slot
            self._how[result] = _FLAGS if file else _LANES
            self._store(register, slot, self._how[result])
        if use == _NEVER:
            self._free[file].append(register)
            self._next[file][register] = -1
            return
        self._register[result] = register
        self._held[file][register] = result
        self._next[file][register] = use

    def _used(self, value: int, use: int, register: int, file: int) -> None:
        """An operand has been read; its register is free if it is not needed any more."""
        if use != _NEVER:
            if register >= 0:
                self._next[file][register] = use
            return
        if register >= 0:
            self._register[value] = -1
            self._next[file][register] = -1
            self._free[file].append(register)

    def _used_up(self, value: int, use: int, register: int) -> None:
        """The same after the instruction, when its memory is free, too."""
        self._used(value, use, register, _VECTOR)
        if use == _NEVER:
            self._forget(value)

    def _forget(self, value: int) -> None:
        """A value is not needed any more; its memory is free, if no instruction before reads it later."""
        if self._is_spilled[value]:
            self._slots.append(self._home[value])

    def _take(self, file: int) -> int:
        """A register, from the value that is needed last if none is free."""
        free = self._free[file]
        if free:
            return free.pop()
        following = self._next[file]
        register = following.index(max(following))
        value = self._held[file][register]
        if self._how[value] == _NOWHERE:
            self._spill(value, register, file)
        self._register[value] = -1
        return register

    def _spill(self, value: int, register: int, file: int) -> None:
        if self._slots:
            slot = self._slots.pop()
        else:
            slot = self._scratch.vector(self._num_slots)
            self._num_slots += 1
        self._home[value], self._how[value] = slot, _BITS if file else _LANES
        self._is_spilled[value] = 1
        self._store(register, slot, self._how[value])

    def _load(self, value: int) -> int:
        """Loads a value into a register."""
        file = self._file[value]
        register = self._take(file)
        self._move(value, register)
        self._register[value] = register
        self._held[file][register] = value
        return register

    def _move(self, value: int, register: int) -> None:
        """Copies a value from memory to a register."""
        how, offset = self._how[value], self._home[value] - self._base
        if how == _LANES:
            self._at(self._floats["move"].bits ^ _RESULT[register], offset, _BYTES)
        elif how == _ONCE:
            self._at(self._floats["spread"].bits ^ _RESULT[register], offset, self._size)
        elif how == _BITS:
            bits = _LOAD_MASK.bits ^ register << 35 ^ 0x43 << 32
            self._out.append(bits.to_bytes(5, "little") + offset.to_bytes(4, "little", signed=True))
        else:
            load = _SPREAD_FLAG if how == _FLAG else _MOVES_OF_FLAGS[self._width][0]
            self._at(load.bits ^ _RESULT[_SCRATCH], offset, 0)
            bits = _MASK_OF_FLAGS.bits ^ _RESULT[register] ^ _FIRST[_SCRATCH] ^ _LAST[_SCRATCH]
            self._out.append(bits.to_bytes(6, "little"))

    def _store(self, register: int, slot: int, how: int) -> None:
        offset = slot - self._base
        if how == _LANES:
            self._at(self._floats["store"].bits ^ _RESULT[register], offset, _BYTES)
        elif how == _BITS:
            bits = _STORE_MASK.bits ^ register << 35 ^ 0x43 << 32
            self._out.append(bits.to_bytes(5, "little") + offset.to_bytes(4, "little", signed=True))
        else:
            bits = _FLAGS_OF_MASK.bits ^ _RESULT[_SCRATCH] ^ _LAST[register]
            self._out.append(bits.to_bytes(6, "little"))
            bits = _ONES_OF_FLAGS.bits ^ _RESULT[_SCRATCH] ^ _LAST[_SCRATCH]
            self._out.append(bits.to_bytes(6, "little"))
            _, store = _MOVES_OF_FLAGS[self._width]
            self._at(store.bits ^ _RESULT[_SCRATCH], offset, 0)

    def _from_memory(self, bits: int, value: int, tail: bytes = b"") -> None:
        """An instruction whose last operand is in memory."""
        offset = self._home[value] - self._base
        if self._how[value] == _LANES:
            self._at(bits, offset, _BYTES, tail)
        elif bits >> 32 & 0xFE == 0x18:  # which spreads one lane itself
            self._at(bits, offset, self._size, tail)
        else:
            self._at(bits | _ONE_LANE, offset, self._size, tail)

    def _at(self, bits: int, offset: int, unit: int, tail: bytes = b"") -> None:
        """An instruction with an operand at an offset; short offsets are multiples of a unit."""
        if unit and offset % unit == 0 and -128 <= offset // unit < 128:
            bits ^= _NEAR_MEMORY
            self._out.append((bits | (offset // unit & 0xFF) << 48).to_bytes(7, "little") + tail)
        else:
            bits ^= _FAR_MEMORY
            self._out.append((bits | (offset & 0xFFFFFFFF) << 48).to_bytes(10, "little") + tail)

    def _product(self, form: Form, a: int, b: int, c: int, na: int, nb: int, nc: int, place: int) -> int:
        """``a * b + c``, in the register of an operand that is not needed any more, if there is one."""
        register, following = self._register, self._next[_VECTOR]
        ra, rb, rc = register[a], register[b], register[c]
        if ra < 0 and rb >= 0:
            a, b, na, nb, ra, rb = b, a, nb, na, rb, ra
        if ra < 0:
            ra = self._load(a)
            rb = register[b]
        following[ra] = place
        if rb >= 0:
            following[rb] = place
        if rc >= 0:
            following[rc] = place
        elif nc - place < _NEAR:
            rc = self._load(c)
            following[rc] = place
            rb = register[b]
        # Into the sum's own register, if it is not needed any more.
        if rc >= 0 and nc == _NEVER:
            if rb < 0 and nb - place < _NEAR:
                rb = self._load(b)
                following[rb] = place
            bits = form.bits ^ _RESULT[rc] ^ _FIRST[ra]
            if rb >= 0:
                self._out.append((bits ^ _LAST[rb]).to_bytes(6, "little"))
            else:
                self._from_memory(bits, b)
            register[c] = -1
            self._forget(c)
            if a != c:
                self._used_up(a, na, ra)
            if b not in (a, c):
                self._used_up(b, nb, rb)
            return rc
        # Into a factor's register, if that is not needed any more.
        if rb >= 0 and nb == _NEVER and na != _NEVER:
            a, b, na, nb, ra, rb = b, a, nb, na, rb, ra
        if na == _NEVER and a != c and (rc >= 0 or rb >= 0 or nb - place < _NEAR):
            if rb < 0:
                rb = self._load(b)
                following[rb] = place
            bits = form.into_factor ^ _RESULT[ra] ^ _FIRST[rb]
            if rc >= 0:
                self._out.append((bits ^ _LAST[rc]).to_bytes(6, "little"))
            else:
                self._from_memory(bits, c)
            register[a] = -1
            self._forget(a)
            if b != a:
                self._used_up(b, nb, rb)
            if c != b:
                self._used_up(c, nc, rc)
            return ra
        # Into a copy of the summand.
        target = self._take(_VECTOR)
        following[target] = place
        self._held[_VECTOR][target] = -1
        if rc >= 0:
            rc = register[c]
        if rc >= 0:
            bits = self._floats["move"].bits ^ _RESULT[target] ^ _LAST[rc]
            self._out.append(bits.to_bytes(6, "little"))
        else:
            self._move(c, target)
        bits = form.bits ^ _RESULT[target] ^ _FIRST[ra]
        if rb >= 0:
            self._out.append((bits ^ _LAST[rb]).to_bytes(6, "little"))
        else:
            self._from_memory(bits, b)
        self._used_up(a, na, ra)
        if b != a:
            self._used_up(b, nb, rb)
        if c not in (a, b):
            self._used_up(c, nc, rc)
        return target

    def _call(
        self, form: Form, result: int, a: int, b: int, second: int, na: int, nb: int, place: int, first: list[int]
    ) -> None:
        """Calls a function, which may change all registers."""
        register = self._register
        if a == b:
            na = nb
        for file in (_VECTOR, _MASK):
            for number, value in enumerate(self._held[file]):
                if self._next[file][number] >= 0 and self._how[value] == _NOWHERE:
                    is_last = (value == a and na == _NEVER) or (value == b and nb == _NEVER)
                    if not is_last:
                        self._spill(value, number, file)
        ra, rb = register[a], register[b] if b >= 0 else -1
        move = self._floats["move"].bits
        if rb == 0 and ra != 0:
            self._out.append((move ^ _RESULT[_SCRATCH] ^ _LAST[rb]).to_bytes(6, "little"))
            rb = _SCRATCH
        for value, source, target in ((a, ra, 0), (b, rb, 1)):
            if value < 0 or source == target:
                continue
            if source >= 0:
                self._out.append((move ^ _RESULT[target] ^ _LAST[source]).to_bytes(6, "little"))
            else:
                self._move(value, target)
        for file, count, lowest in ((_VECTOR, _SCRATCH, 0), (_MASK, 8, 1)):
            for number in range(lowest, count):
                if self._next[file][number] >= 0:
                    register[self._held[file][number]] = -1
            self._next[file] = [-1] * count
            self._free[file] = list(range(count - 1, lowest - 1, -1))
        for value, use in ((a, na), (b, nb)):
            if value >= 0 and use == _NEVER and (value is a or a != b):
                self._forget(value)
        self._out.append(form.call)
        for number, value in enumerate((result,) if second < 0 else (result, second)):
            self._free[_VECTOR].remove(number)
            self._define(value, number, _VECTOR, first[value])


def _next_uses(operands: np.ndarray, count: int) -> tuple[np.ndarray, list[int]]:
    """For each operand, the place of the next use of its value; for each value, that of the first."""
    values = operands.ravel()
    used = np.flatnonzero(values >= 0)
    order = used[np.argsort(values[used], kind="stable")]
    following = np.full(len(values), _NEVER)
    again = values[order[1:]] == values[order[:-1]]
    following[order[:-1][again]] = order[1:][again] // 3
    first = np.full(count, _NEVER)
    is_first = np.concatenate([[True], ~again])[: len(order)]
    first[values[order[is_first]]] = order[is_first] // 3
    return following.reshape(-1, 3), first.tolist()


def assembly(name: str, code: Sequence[bytes | str]) -> str:
    """A function as assembly within a module in LLVM IR."""
    lines = [f".globl {name}", f".hidden {name}", f".type {name},@function", ".p2align 4", f"{name}:"]
    pieces: list[bytes] = []

    def write() -> None:
        content = b"".join(pieces)
        pieces.clear()
        whole = len(content) // 16 * 16
        digits = np.frombuffer(content[:whole], np.uint8).reshape(-1, 16)[:, ::-1].tobytes().hex()
        words = ["0x" + digits[first : first + 32] for first in range(0, len(digits), 32)]
        lines.extend(".octa " + ",".join(words[first : first + 32]) for first in range(0, len(words), 32))
        if content[whole:]:
            lines.append(".byte " + ",".join(map(str, content[whole:])))

    for piece in code:
        if isinstance(piece, bytes):
            pieces.append(piece)
            continue
        write()
        lines.append(f"call {piece}")
    write()
    return "\n".join(f'module asm "{line}"' for line in lines)
