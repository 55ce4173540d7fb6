"""Registers for the operands of x86 instructions, and their code.

Where registers run out, the value leaves that is needed last, as in L. A. Belady, *A study of
replacement algorithms for a virtual-storage computer* (1966). Values in memory that are not needed
again soon are operands from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from artix.compiler.kernels.encodings import (
    LOAD_MASK,
    MASK,
    SCRATCH_REGISTER,
    STORE_MASK,
    VECTOR,
    Encoding,
    Form,
    Step,
)
from artix.compiler.kernels.machine import vector_bytes
from artix.compiler.scalar_program import BYTES, DTYPES, Kind

#: The place of a next use that does not exist.
_NEVER = 1 << 40
#: Where a value is in memory: nowhere; in all lanes of a vector; once for all lanes; flags as bits,
#: as a byte for each lane, or as one byte for all lanes; and integers that are floats of twice the
#: size in registers, in all lanes of half a vector, or once for all lanes.
NOWHERE, LANES, ONCE, BITS, FLAGS, FLAG, HALVES, HALF_ONCE = range(8)
#: Of an operand in memory that has one lane.
_ONE_LANE = 1 << 28


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
        self._size = vector_bytes()
        self._vectors = -(-(start + 8 * constants) // self._size) * self._size
        self.end = self._vectors
        self.base = self._vectors + 128 * self._size
        """The address in the base register: with AVX-512, short displacements reach 128 vectors to
        each side."""

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
        slot = self._vectors + number * self._size
        self.end = max(self.end, slot + self._size)
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
        self.integers = set[int]()
        """Which of these are stored as integers of half their size."""

    def new(self, file: int, home: int = 0, how: int = NOWHERE) -> int:
        """The number of a new value."""
        self.file.append(file)
        self.home.append(home)
        self.how.append(how)
        return len(self.file) - 1


def encode(
    instructions: Sequence[int],
    forms: Sequence[Form],
    values: Values,
    scratch: Scratch,
    kind: Kind,
    encoding: Encoding,
) -> list[bytes | str]:
    """The code of a function ``void (memory)``; texts are names of functions that it calls.

    Args:
      instructions: of each, the number of its form, its result, and three operands, -1 where there
        are fewer; the last one is a mask, the summand of a product, or the second result of a call.
      forms: the forms.
      values: the values.
      scratch: memory for values without registers.
      kind: the kind of floats.
      encoding: the encoding of the forms.
    """
    # Push rbx; lea rbx, [rdi + base]
    start = b"\x53\x48\x8d\x9f" + scratch.base.to_bytes(4, "little", signed=True)
    end = b"\xc5\xf8\x77\x5b\xc3"  # vzeroupper; pop rbx; ret
    return [start, *_Allocator(values, scratch, kind, encoding).encode(instructions, forms), end]


class _Allocator:
    """Chooses registers for values, and writes instructions."""

    def __init__(self, values: Values, scratch: Scratch, kind: Kind, encoding: Encoding) -> None:
        self._home, self._how, self._file, self._kept = (
            values.home,
            values.how,
            values.file,
            values.kept,
        )
        self._integers = values.integers
        self._scratch, self._base = scratch, scratch.base
        self._encoding, self._bytes, self._has_masks = encoding, encoding.size, encoding.has_masks
        self._floats, self._flags, self._size = (
            encoding.floats[kind],
            encoding.flags[kind],
            BYTES[kind],
        )
        self._last_register = encoding.registers - 1
        self._in_place = (LANES, ONCE) if encoding.has_masks else (LANES,)
        """How values are in memory that are operands from there."""
        self._near = 3 * encoding.registers // 4
        """A value in memory stays there if its next use is so many instructions away."""
        self._register = [-1] * len(self._file)
        # Mask 0 means no mask. Without masks, flags have the registers of vectors.
        self._ranges = [range(self._last_register), range(1, 8)][: 1 + encoding.has_masks]
        files = [number if number < len(self._ranges) else VECTOR for number in (VECTOR, MASK)]
        free = [list(reversed(numbers)) for numbers in self._ranges]
        held, following = ([[-1] * numbers.stop for numbers in self._ranges] for _ in range(2))
        self._free, self._held, self._next = (
            [lists[file] for file in files] for lists in (free, held, following)
        )
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
        register, free, next_, how = self._register, self._free, self._next, self._how
        out, size, near, in_place, has_masks = (
            self._out,
            self._bytes,
            self._near,
            self._in_place,
            self._has_masks,
        )
        results, firsts, lasts = self._encoding.result, self._encoding.first, self._encoding.last
        held, kept, home, is_spilled = self._held, self._kept, self._home, self._is_spilled
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
                file, bits, tail, mask, ra = form.operands, form.bits, form.tail, 0, 0
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
                    if has_masks:
                        bits |= mask << 24
                    else:
                        tail = bytes([mask << 4])
                rb = register[b]
                if rb < 0 and (file or nb - place < near or how[b] not in in_place):
                    rb = self._load(b)
                if rb >= 0:
                    next_[file][rb] = place
                # Most time is spent here, so what has more uses is noted without a call.
                if a >= 0:
                    if na != _NEVER:
                        next_[file][ra] = na
                    else:
                        self._free_register(a, ra, file)
                if a != b:
                    if nb == _NEVER:
                        self._free_register(b, rb, file)
                    elif rb >= 0:
                        next_[file][rb] = nb
                if c >= 0:
                    if nc != _NEVER:
                        next_[MASK][mask] = nc
                    else:
                        self._free_register(c, mask, MASK)
                target = free[form.result].pop() if free[form.result] else self._take(form.result)
                if rb >= 0:
                    if file:
                        bits ^= target << 35 ^ firsts[ra] ^ rb << 32
                        out.append(bits.to_bytes(5, "little"))
                    else:
                        bits ^= results[target] ^ firsts[ra] ^ lasts[rb]
                        out.append(bits.to_bytes(size, "little") + tail)
                else:
                    self._from_memory(bits ^ results[target] ^ firsts[ra], b, tail)
                if nb == _NEVER and is_spilled[b]:
                    self._slots.append(home[b])
                if na == _NEVER and a >= 0 and a != b and is_spilled[a]:
                    self._slots.append(home[a])
                if nc == _NEVER and c >= 0 and is_spilled[c]:
                    self._slots.append(home[c])
            use, file = first[result], form.result
            if result in kept or use == _NEVER:
                self._define(result, target, file, use)
            else:
                register[result] = target
                held[file][target] = result
                next_[file][target] = use
        return out

    def _define(self, result: int, register: int, file: int, use: int) -> None:
        """A register has a new value, which is stored if it is needed elsewhere."""
        slot = self._kept.get(result)
        if slot is not None:
            self._home[result] = slot
            self._how[result] = FLAGS if file else HALVES if result in self._integers else LANES
            self._store(register, slot, self._how[result])
        if use == _NEVER:
            self._free[file].append(register)
            self._next[file][register] = -1
            return
        self._register[result] = register
        self._held[file][register] = result
        self._next[file][register] = use

    def _free_register(self, value: int, register: int, file: int) -> None:
        """An operand that is not needed any more has been read; its register is free, if any."""
        if register >= 0:
            self._register[value] = -1
            self._next[file][register] = -1
            self._free[file].append(register)

    def _used(self, value: int, use: int, register: int) -> None:
        """A vector has been read by an instruction that is complete."""
        if use == _NEVER:
            self._free_register(value, register, VECTOR)
            self._forget(value)
        elif register >= 0:
            self._next[VECTOR][register] = use

    def _forget(self, value: int) -> None:
        """A value is not needed any more; its memory is free, if no instruction before reads it
        later.
        """
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
        self._home[value], self._how[value] = slot, BITS if file and self._has_masks else LANES
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
        how, offset, result = (
            self._how[value],
            self._home[value] - self._base,
            self._encoding.result,
        )
        if how == LANES:
            self._at(
                self._floats["move"].bits ^ result[register], offset, self._encoding.vector_bytes
            )
        elif how == ONCE:
            self._at(self._floats["spread"].bits ^ result[register], offset, self._size)
        elif how == HALVES:
            half = self._encoding.vector_bytes // 2
            self._at(self._encoding.halves["widen"].bits ^ result[register], offset, half)
        elif how == HALF_ONCE:
            halves = self._encoding.halves
            self._at(halves["spread"].bits ^ result[register], offset, self._size // 2)
            self._write(halves["widen"].bits, register, 0, register)
        elif how == BITS:
            self._move_mask(LOAD_MASK, register, offset)
        else:
            moves = self._flags
            load = moves.spread if how == FLAG else moves.load
            target = self._last_register if moves.loads == SCRATCH_REGISTER else register
            self._at(load.bits ^ result[target], offset, 0)
            self._steps(moves.loaded, register)

    def _store(self, register: int, slot: int, how: int) -> None:
        offset, result = slot - self._base, self._encoding.result
        if how == LANES:
            self._at(
                self._floats["store"].bits ^ result[register], offset, self._encoding.vector_bytes
            )
        elif how == HALVES:
            halves, last = self._encoding.halves, self._last_register
            self._write(halves["narrow"].bits, last, 0, register)
            self._at(halves["store"].bits ^ result[last], offset, self._encoding.vector_bytes // 2)
        elif how == BITS:
            self._move_mask(STORE_MASK, register, offset)
        else:
            self._steps(self._flags.stored, register)
            self._at(self._flags.store.bits ^ result[self._last_register], offset, 0)

    def _move_mask(self, form: Form, register: int, offset: int) -> None:
        """Loads or stores a register of flags."""
        bits = form.bits ^ register << 35 ^ 0x43 << 32
        self._out.append(bits.to_bytes(5, "little") + offset.to_bytes(4, "little", signed=True))

    def _steps(self, steps: Sequence[Step], flag: int) -> None:
        """Instructions on a register of flags and the last one."""
        registers = flag, self._last_register, 0
        for form, result, first, last in steps:
            self._write(form.bits, registers[result], registers[first], registers[last], form.tail)

    def _write(self, bits: int, result: int, first: int, last: int, tail: bytes = b"") -> None:
        """An instruction on registers."""
        encoding = self._encoding
        bits ^= encoding.result[result] ^ encoding.first[first] ^ encoding.last[last]
        self._out.append(bits.to_bytes(self._bytes, "little") + tail)

    def _from_memory(self, bits: int, value: int, tail: bytes = b"") -> None:
        """An instruction whose last operand is in memory."""
        offset = self._home[value] - self._base
        if self._how[value] == LANES:
            self._at(bits, offset, self._encoding.vector_bytes, tail)
        elif bits >> 32 & 0xFE == 0x18:  # which spreads one lane itself
            self._at(bits, offset, self._size, tail)
        else:
            self._at(bits | _ONE_LANE, offset, self._size, tail)

    def _at(self, bits: int, offset: int, unit: int, tail: bytes = b"") -> None:
        """An instruction with an operand at an offset; with AVX-512, short offsets are multiples of
        a unit.
        """
        size, unit = self._bytes, unit if self._has_masks else 1
        if unit and offset % unit == 0 and -128 <= offset // unit < 128:
            bits ^= self._encoding.near
            self._out.append(
                (bits | (offset // unit & 0xFF) << 8 * size).to_bytes(size + 1, "little") + tail
            )
        else:
            bits ^= self._encoding.far
            self._out.append(
                (bits | (offset & 0xFFFFFFFF) << 8 * size).to_bytes(size + 4, "little") + tail
            )

    def _product(
        self, form: Form, a: int, b: int, c: int, na: int, nb: int, nc: int, place: int
    ) -> int:
        """``a * b + c``, in the register of an operand that is not needed any more, if there is
        one.
        """
        register, following, encoding = self._register, self._next[VECTOR], self._encoding
        in_place, near = self._in_place, self._near
        ra, rb, rc = register[a], register[b], register[c]
        if ra < 0 and rb >= 0:
            a, b, na, nb, ra, rb = b, a, nb, na, rb, ra
        if ra < 0:
            ra = self._load(a)
            rb = register[b]
        following[ra] = place
        if rb < 0 and self._how[b] not in in_place:
            rb = self._load(b)
        if rb >= 0:
            following[rb] = place
        if rc >= 0:
            following[rc] = place
        elif nc - place < near:
            rc = self._load(c)
            following[rc] = place
            rb = register[b]
        # Into the sum's own register, if it is not needed any more.
        if rc >= 0 and nc == _NEVER:
            if rb < 0 and nb - place < near:
                rb = self._load(b)
                following[rb] = place
            bits = form.bits ^ encoding.result[rc] ^ encoding.first[ra]
            if rb >= 0:
                self._out.append((bits ^ encoding.last[rb]).to_bytes(self._bytes, "little"))
            else:
                self._from_memory(bits, b)
            register[c] = -1
            self._forget(c)
            if na != _NEVER:
                following[ra] = na
            elif a != c:
                self._used(a, na, ra)
            if b not in (a, c):
                self._used(b, nb, rb)
            return rc
        # Into a factor's register, if that is not needed any more.
        if rb >= 0 and nb == _NEVER and na != _NEVER:
            a, b, na, nb, ra, rb = b, a, nb, na, rb, ra
        if (
            na == _NEVER
            and a != c
            and (rc >= 0 or ((rb >= 0 or nb - place < near) and self._how[c] in in_place))
        ):
            if rb < 0:
                rb = self._load(b)
                following[rb] = place
            if rc >= 0:
                self._write(form.into_factor, ra, rb, rc)
            else:
                self._from_memory(form.into_factor ^ encoding.result[ra] ^ encoding.first[rb], c)
            register[a] = -1
            self._forget(a)
            if b != a:
                self._used(b, nb, rb)
            if c != b:
                self._used(c, nc, rc)
            return ra
        # Into a copy of the summand.
        target = self._take(VECTOR)
        following[target] = place
        self._held[VECTOR][target] = -1
        if rc >= 0:
            rc = register[c]
        if rc >= 0:
            self._write(self._floats["move"].bits, target, 0, rc)
        else:
            self._move(c, target)
        if rb >= 0:
            self._write(form.bits, target, ra, rb)
        else:
            self._from_memory(form.bits ^ encoding.result[target] ^ encoding.first[ra], b)
        self._used(a, na, ra)
        if b != a:
            self._used(b, nb, rb)
        if c not in (a, b):
            self._used(c, nc, rc)
        return target

    def _call(
        self,
        form: Form,
        result: int,
        a: int,
        b: int,
        second: int,
        na: int,
        nb: int,
        place: int,
        first: list[int],
    ) -> None:
        """Calls a function, which may change all registers."""
        register = self._register
        if a == b:
            na = nb
        for file, _ in enumerate(self._ranges):
            for number, value in enumerate(self._held[file]):
                if self._next[file][number] >= 0 and self._how[value] == NOWHERE:
                    is_last = (value == a and na == _NEVER) or (value == b and nb == _NEVER)
                    if not is_last:
                        self._spill(value, number, file)
        ra, rb = register[a], register[b] if b >= 0 else -1
        move = self._floats["move"].bits
        if rb == 0 and ra != 0:
            self._write(move, self._last_register, 0, rb)
            rb = self._last_register
        for value, source, target in ((a, ra, 0), (b, rb, 1)):
            if value < 0 or source == target:
                continue
            if source >= 0:
                self._write(move, target, 0, source)
            else:
                self._move(value, target)
        for file, numbers in enumerate(self._ranges):
            for number in numbers:
                if self._next[file][number] >= 0:
                    register[self._held[file][number]] = -1
            self._next[file][:] = [-1] * numbers.stop
            self._free[file][:] = reversed(numbers)
        for value, use in ((a, na), (b, nb)):
            if value >= 0 and use == _NEVER and (value is a or a != b):
                self._forget(value)
        self._out.append(form.call)
        for number, value in enumerate((result,) if second < 0 else (result, second)):
            self._free[VECTOR].remove(number)
            self._define(value, number, VECTOR, first[value])


def _next_uses(operands: np.ndarray, count: int) -> tuple[np.ndarray, list[int]]:
    """For each operand, the place of the next use of its value; for each value, that of the
    first.
    """
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
