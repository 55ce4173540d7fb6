"""Instructions of x86 processors with AVX-512, and registers for their operands.

Where registers run out, the value leaves that is needed last, as in L. A. Belady, *A study of replacement algorithms
for a virtual-storage computer* (1966). Values in memory that are not needed again soon are operands from there.
Encodings are those of the *Intel 64 and IA-32 Architectures Software Developer's Manual*, volume 2.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from artix.compiler.kernels.machine import has_feature
from artix.compiler.scalar_program import BYTES, DTYPES, Kind

#: Bytes of a vector.
VECTOR_BYTES = 64
#: A value in memory stays there if its next use is so many instructions away.
_NEAR = 24
#: The place of a next use that does not exist.
_NEVER = 1 << 40
#: The two files of registers. The last vector register is only used for moves; mask 0 means no mask.
VECTOR, MASK = 0, 1
_SCRATCH = 31
#: Where a value is in memory: nowhere; in all lanes of a vector; once for all lanes; and flags as bits, as a byte for
#: each lane, or as one byte for all lanes.
NOWHERE, LANES, ONCE, BITS, FLAGS, FLAG = range(6)


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
    result: int = VECTOR
    """The file of its result."""
    operands: int = VECTOR
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
    return Form(bits, commutes=commutes, result=MASK, operands=MASK)


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
        **{name: _evex(wide, 1, 0xC2, wide, tail=[how], result=MASK) for name, how in _PREDICATES.items()},
        "store": _evex(wide, 1, 0x29, wide),
        "spread": _evex(1, 2, 0x18 + wide, wide),
        "blend": _evex(1, 2, 0x65, wide),
        "in_mask": _evex(wide, 1, 0x28, wide)._replace(bits=_evex(wide, 1, 0x28, wide).bits | _ZEROING),
        "spread_in_mask": _evex(1, 2, 0x18 + wide, wide)._replace(bits=_evex(1, 2, 0x18 + wide, wide).bits | _ZEROING),
    }


FLOATS = {Kind.FLOAT32: _of_floats(0), Kind.FLOAT64: _of_floats(1)}
INTEGERS = {
    "add": _evex(1, 1, 0xFE, commutes=True),
    "sub": _evex(1, 1, 0xFA),
    "mul": _evex(1, 2, 0x40, commutes=True),
    "min": _evex(1, 2, 0x39, commutes=True),
    "max": _evex(1, 2, 0x3D, commutes=True),
    "and": _evex(1, 1, 0xDB, commutes=True),
    "abs": _evex(1, 2, 0x1E),
    "convert": _evex(0, 1, 0x5B),
    **{name: _evex(1, 3, 0x1F, tail=[how], result=MASK) for name, how in {"eq": 0, "lt": 1, "le": 2, "ne": 4}.items()},
}
MASKS = {
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
        self._vectors = -(-(start + 8 * constants) // VECTOR_BYTES) * VECTOR_BYTES
        self.end = self._vectors
        self.base = self._vectors + 128 * VECTOR_BYTES
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
        slot = self._vectors + number * VECTOR_BYTES
        self.end = max(self.end, slot + VECTOR_BYTES)
        return slot


class Values:
    """The values on which instructions operate, by number."""

    def __init__(self) -> None:
        self.file: list[int] = []
        """The file of registers of each."""
        self.home: list[int] = []
        """Where each is in memory."""
        self.how: list[int] = []
        """How it is there."""
        self.kept: dict[int, int] = {}
        """Where values are stored as soon as they are computed."""

    def new(self, file: int, home: int = 0, how: int = NOWHERE) -> int:
        """The number of a new value."""
        self.file.append(file)
        self.home.append(home)
        self.how.append(how)
        return len(self.file) - 1


def encode(
    instructions: Sequence[int], forms: Sequence[Form], values: Values, scratch: Scratch, kind: Kind
) -> list[bytes | str]:
    """The code of a function ``void (memory)``; texts are names of functions that it calls.

    Args:
      instructions: of each, the number of its form, its result, and three operands, -1 where there are fewer; the last
        one is a mask, the summand of a product, or the second result of a call.
      forms: the forms.
      values: the values.
      scratch: memory for values without registers.
      kind: the kind of floats.
    """
    start = b"\x53\x48\x8d\x9f" + scratch.base.to_bytes(4, "little", signed=True)  # push rbx; lea rbx, [rdi + base]
    end = b"\xc5\xf8\x77\x5b\xc3"  # vzeroupper; pop rbx; ret
    return [start, *_Allocator(values, scratch, kind).encode(instructions, forms), end]


class _Allocator:
    """Chooses registers for values, and writes instructions."""

    def __init__(self, values: Values, scratch: Scratch, kind: Kind) -> None:
        self._home, self._how, self._file, self._kept = values.home, values.how, values.file, values.kept
        self._scratch, self._base = scratch, scratch.base
        self._floats, self._size = FLOATS[kind], BYTES[kind]
        self._width = VECTOR_BYTES // self._size
        self._register = [-1] * len(self._file)
        self._free = [list(range(_SCRATCH - 1, -1, -1)), list(range(7, 0, -1))]
        self._held = [[-1] * _SCRATCH, [-1] * 8]
        self._next = [[-1] * _SCRATCH, [-1] * 8]
        self._slots: list[int] = []
        self._num_slots = 0
        self._is_spilled = bytearray(len(self._file))
        self._out: list[bytes | str] = []

    def encode(self, instructions: Sequence[int], forms: Sequence[Form]) -> list[bytes | str]:
        """The code of instructions."""
        code = np.array(instructions, np.int64).reshape(-1, 5)
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
                    next_[MASK][mask] = place
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
                    self._used(c, nc, mask, MASK)
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
        slot = self._kept.get(result)
        if slot is not None:
            self._home[result] = slot
            self._how[result] = FLAGS if file else LANES
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
        self._used(value, use, register, VECTOR)
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
        if self._how[value] == NOWHERE:
            self._spill(value, register, file)
        self._register[value] = -1
        return register

    def _spill(self, value: int, register: int, file: int) -> None:
        if self._slots:
            slot = self._slots.pop()
        else:
            slot = self._scratch.vector(self._num_slots)
            self._num_slots += 1
        self._home[value], self._how[value] = slot, BITS if file else LANES
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
        if how == LANES:
            self._at(self._floats["move"].bits ^ _RESULT[register], offset, VECTOR_BYTES)
        elif how == ONCE:
            self._at(self._floats["spread"].bits ^ _RESULT[register], offset, self._size)
        elif how == BITS:
            bits = _LOAD_MASK.bits ^ register << 35 ^ 0x43 << 32
            self._out.append(bits.to_bytes(5, "little") + offset.to_bytes(4, "little", signed=True))
        else:
            load = _SPREAD_FLAG if how == FLAG else _MOVES_OF_FLAGS[self._width][0]
            self._at(load.bits ^ _RESULT[_SCRATCH], offset, 0)
            bits = _MASK_OF_FLAGS.bits ^ _RESULT[register] ^ _FIRST[_SCRATCH] ^ _LAST[_SCRATCH]
            self._out.append(bits.to_bytes(6, "little"))

    def _store(self, register: int, slot: int, how: int) -> None:
        offset = slot - self._base
        if how == LANES:
            self._at(self._floats["store"].bits ^ _RESULT[register], offset, VECTOR_BYTES)
        elif how == BITS:
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
        if self._how[value] == LANES:
            self._at(bits, offset, VECTOR_BYTES, tail)
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
        register, following = self._register, self._next[VECTOR]
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
        target = self._take(VECTOR)
        following[target] = place
        self._held[VECTOR][target] = -1
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
        for file in (VECTOR, MASK):
            for number, value in enumerate(self._held[file]):
                if self._next[file][number] >= 0 and self._how[value] == NOWHERE:
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
        for file, count, lowest in ((VECTOR, _SCRATCH, 0), (MASK, 8, 1)):
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
            self._free[VECTOR].remove(number)
            self._define(value, number, VECTOR, first[value])


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
