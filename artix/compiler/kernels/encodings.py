"""Machine code in bytes: instructions of x86 processors, as AVX-512 and as AVX2 encode them, and
object files.

Opcodes and encodings are those of the *Intel 64 and IA-32 Architectures Software Developer's
Manual*, volume 2. Both encodings name operations alike. AVX-512 has 32 registers, and others for
flags; with AVX2, flags are vectors whose lanes are all ones or zero.

Object files are in the Executable and Linkable Format, after the *System V Application Binary
Interface*, edition 4.1 (1997), and its supplement for AMD64. To read the code as assembly, LLVM
needs as long as to compile all that surrounds it.
"""

from __future__ import annotations

import functools
import platform
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from artix.compiler.kernels.machine import has_feature
from artix.compiler.scalar_program import Kind

#: The two files of registers.
VECTOR, MASK = 0, 1


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


#: An instruction on the register of a flag and the last register, which holds nothing: its result,
#: first and last one.
Step = tuple[Form, int, int, int]
FLAG_REGISTER, SCRATCH_REGISTER, _NONE = range(3)


class FlagMoves(NamedTuple):
    """How flags are moved between memory, as bytes, and their registers."""

    load: Form
    """Loads a byte for each lane."""
    spread: Form
    """Loads one byte for all lanes."""
    loads: int
    """Into which register."""
    loaded: tuple[Step, ...]
    """What makes flags of that."""
    stored: tuple[Step, ...]
    """What makes bytes of flags, in the register that holds nothing."""
    store: Form


class Encoding:
    """Instructions for vectors of one width.

    Args:
      vector_bytes: bytes of a vector.
      size: bytes of an instruction without displacement and tail.
      registers: number of vector registers; the last one is only used for moves.
      has_masks: whether flags have registers of their own, and operands in memory can be one number
        for all lanes.
      floats: operations on floats of each kind.
      integers: operations on 32-bit integers.
      halves: moves of 32-bit integers that are 64-bit floats in registers.
      logic: operations on flags.
      flags: how flags are moved, for floats of each kind.
    """

    def __init__(
        self,
        vector_bytes: int,
        size: int,
        registers: int,
        has_masks: bool,
        floats: dict[Kind, dict[str, Form]],
        integers: dict[str, Form],
        halves: dict[str, Form],
        logic: dict[str, Form],
        flags: dict[Kind, FlagMoves],
    ) -> None:
        self.vector_bytes, self.size, self.registers, self.has_masks = (
            vector_bytes,
            size,
            registers,
            has_masks,
        )
        self.floats, self.integers, self.logic, self.flags = floats, integers, logic, flags
        self.halves = halves
        last = 8 * (size - 1)
        numbers = range(registers)
        # What registers add to the bits, as result, as first and as last operand.
        self.result = [
            (r >> 3 & 1) << 15 | (r >> 4 & 1) << 12 | (r & 7) << last + 3 for r in numbers
        ]
        self.first = [(r & 15) << 19 | (r >> 4) << 27 for r in numbers]
        self.last = [(r >> 3 & 1) << 13 | (r >> 4) << 14 | (r & 7) << last for r in numbers]
        # The same for a last operand in memory, with displacements of 1 and 4 bytes from register
        # rbx.
        self.near, self.far = 0x83 << last, 0x43 << last


def _evex(
    prefix: int,
    page: int,
    opcode: int,
    wide: int = 0,
    length: int = 2,
    tail: Sequence[int] = (),
    **traits: int,
) -> Form:
    """An instruction with the bytes 62, P0, P1, P2, opcode and ModR/M."""
    bits = 0x62 | (0xF0 | page) << 8 | (wide << 7 | 0x7C | prefix) << 16 | (length << 5 | 8) << 24
    return Form(bits | opcode << 32 | 0xC0 << 40, bytes(tail), **traits)  # type: ignore[arg-type]


def _vex(
    prefix: int,
    page: int,
    opcode: int,
    wide: int = 0,
    length: int = 1,
    tail: Sequence[int] = (),
    **traits: int,
) -> Form:
    """An instruction with the bytes C4, two more, opcode and ModR/M."""
    bits = 0xC4 | (0xE0 | page) << 8 | (wide << 7 | 0x78 | length << 2 | prefix) << 16
    return Form(bits | opcode << 24 | 0xC0 << 32, bytes(tail), **traits)  # type: ignore[arg-type]


_PREDICATES = {"lt": 17, "le": 18, "eq": 0, "ne": 4, "unordered": 3, "apart": 12}


def _of_floats(form: Callable[..., Form], wide: int) -> dict[str, Form]:
    """Operations that both encodings have."""
    opcodes = {
        "sub": 0x5C,
        "min": 0x5D,
        "div": 0x5E,
        "max": 0x5F,
        "sqrt": 0x51,
        "or": 0x56,
        "move": 0x28,
    }
    commuting = {"add": 0x58, "mul": 0x59, "and": 0x54, "xor": 0x57}
    products = {"times_plus": 0xB8, "times_minus": 0xBA, "minus_times": 0xBC}
    roundings = {"floor": 9, "ceil": 10, "round": 8}
    return {
        **{name: form(wide, 1, code, wide) for name, code in opcodes.items()},
        **{name: form(wide, 1, code, wide, commutes=True) for name, code in commuting.items()},
        **{
            name: form(1, 2, code, wide, into_factor=form(1, 2, code - 16, wide).bits)
            for name, code in products.items()
        },
        **{name: form(1, 3, 8 + wide, wide, tail=[how]) for name, how in roundings.items()},
        **{
            name: form(wide, 1, 0xC2, wide, tail=[how], result=MASK)
            for name, how in _PREDICATES.items()
        },
        "store": form(wide, 1, 0x29, wide),
    }


def _of_integers(form: Callable[..., Form]) -> dict[str, Form]:
    return {
        "add": form(1, 1, 0xFE, commutes=True),
        "sub": form(1, 1, 0xFA),
        "mul": form(1, 2, 0x40, commutes=True),
        "min": form(1, 2, 0x39, commutes=True),
        "max": form(1, 2, 0x3D, commutes=True),
        "and": form(1, 1, 0xDB, commutes=True),
        "or": form(1, 1, 0xEB, commutes=True),
        "xor": form(1, 1, 0xEF, commutes=True),
        "shift_left": form(1, 2, 0x47),
        "shift_right": form(1, 2, 0x45),
        "abs": form(1, 2, 0x1E),
        "convert": form(0, 1, 0x5B),
    }


@functools.cache
def avx512() -> Encoding:
    """Of vectors of 64 bytes."""
    zeroing = 1 << 31

    def of_floats(wide: int) -> dict[str, Form]:
        moves = {
            "in_mask": _evex(wide, 1, 0x28, wide),
            "spread_in_mask": _evex(1, 2, 0x18 + wide, wide),
        }
        return {
            **_of_floats(_evex, wide),
            "spread": moves["spread_in_mask"],
            "blend": _evex(1, 2, 0x65, wide),
            **{name: form._replace(bits=form.bits | zeroing) for name, form in moves.items()},
        }

    def of_masks(opcode: int, length: int = 1, commutes: bool = False) -> Form:
        return _vex(0, 1, opcode, length=length, commutes=commutes, result=MASK, operands=MASK)

    flag, scratch = FLAG_REGISTER, SCRATCH_REGISTER
    traits: dict[str, Any] = {
        "spread": _evex(1, 2, 0x78, length=0),
        "loads": scratch,
        "loaded": ((_evex(1, 2, 0x26, length=0), flag, scratch, scratch),),
        "stored": (
            (_evex(2, 2, 0x28, length=0), scratch, _NONE, flag),
            (_evex(1, 2, 0x1C, length=0), scratch, _NONE, scratch),
        ),
    }
    predicates = {"eq": 0, "lt": 1, "le": 2, "ne": 4}
    return Encoding(
        vector_bytes=64,
        size=6,
        registers=32,
        has_masks=True,
        floats={Kind.FLOAT32: of_floats(0), Kind.FLOAT64: of_floats(1)},
        integers=_of_integers(_evex)
        | {name: _evex(1, 3, 0x1F, tail=[how], result=MASK) for name, how in predicates.items()},
        halves={
            "widen": _evex(2, 1, 0xE6),
            "narrow": _evex(3, 1, 0xE6, 1),
            "spread": _evex(1, 2, 0x58, length=1),
            "store": _evex(0, 1, 0x11, length=1),
        },
        logic={
            "and": of_masks(0x41, commutes=True),
            "but_not": of_masks(0x42),  # not a, and b
            "or": of_masks(0x45, commutes=True),
            "xor": of_masks(0x47, commutes=True),
            "not": of_masks(0x44, length=0),
        },
        flags={
            Kind.FLOAT32: FlagMoves(
                _evex(3, 1, 0x6F, length=0), store=_evex(3, 1, 0x7F, length=0), **traits
            ),
            Kind.FLOAT64: FlagMoves(
                _evex(2, 1, 0x7E, 1, length=0), store=_evex(1, 1, 0xD6, 1, length=0), **traits
            ),
        },
    )


#: Loads and stores of a register of flags' bits.
LOAD_MASK, STORE_MASK = _vex(0, 1, 0x90, length=0), _vex(0, 1, 0x91, length=0)


@functools.cache
def avx2() -> Encoding:
    """Of vectors of 32 bytes, with fused products."""

    def of_floats(wide: int) -> dict[str, Form]:
        return _of_floats(_vex, wide) | {
            "spread": _vex(1, 2, 0x18 + wide),
            "blend": _vex(1, 3, 0x4A + wide),
        }

    def flags(wide: int) -> FlagMoves:
        flag, scratch = FLAG_REGISTER, SCRATCH_REGISTER
        greater = _vex(1, 2, 0x37) if wide else _vex(1, 1, 0x66)
        words = (_vex(1, 1, 0x6B, length=0), scratch, scratch, scratch)
        return FlagMoves(
            load=_vex(1, 2, 0x31 + wide),
            spread=_vex(1, 2, 0x78),
            loads=flag,
            loaded=((_vex(1, 1, 0xEF), scratch, scratch, scratch), (greater, flag, flag, scratch)),
            stored=(
                (
                    _vex(1, 3, 0x19, tail=[1]),
                    flag,
                    _NONE,
                    scratch,
                ),  # The upper half; the last operand is the result.
                (_vex(1, 1, 0x6B, length=0), scratch, flag, scratch),
                *([words] if wide else []),
                (_vex(1, 1, 0x63, length=0), scratch, scratch, scratch),
                (_vex(1, 2, 0x1C, length=0), scratch, _NONE, scratch),
            ),
            store=_vex(1, 1, 0x7E if wide else 0xD6, length=0),
        )

    return Encoding(
        vector_bytes=32,
        size=5,
        registers=16,
        has_masks=False,
        floats={Kind.FLOAT32: of_floats(0), Kind.FLOAT64: of_floats(1)},
        integers=_of_integers(_vex)
        | {
            "eq": _vex(1, 1, 0x76, commutes=True, result=MASK),
            "gt": _vex(1, 1, 0x66, result=MASK),
        },
        halves={
            "widen": _vex(2, 1, 0xE6),
            "narrow": _vex(3, 1, 0xE6),
            "spread": _vex(1, 2, 0x58, length=0),
            "store": _vex(0, 1, 0x11, length=0),
        },
        logic={
            "and": _vex(0, 1, 0x54, commutes=True, result=MASK),
            "but_not": _vex(0, 1, 0x55, result=MASK),  # not a, and b
            "or": _vex(0, 1, 0x56, commutes=True, result=MASK),
            "xor": _vex(0, 1, 0x57, commutes=True, result=MASK),
        },
        flags={Kind.FLOAT32: flags(0), Kind.FLOAT64: flags(1)},
    )


def encoding() -> Encoding | None:
    """That of this processor; ``None`` if it, or its format of object files, is not supported."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    if has_feature("avx512f"):
        return avx512() if all(map(has_feature, ("avx512bw", "avx512dq", "avx512vl"))) else None
    return avx2() if has_feature("avx2") and has_feature("fma") else None


# Object files

_RELOCATABLE, _AMD64 = 1, 62
_CONTENT, _SYMBOLS, _STRINGS, _RELOCATIONS = 1, 2, 3, 4  # types of sections
_CODE, _ABOUT_A_SECTION = 2 | 4, 64  # flags of sections: allocated and executable
_GLOBAL, _FUNCTION, _HIDDEN = 1 << 4, 2, 2
_CALL = 4  # R_X86_64_PLT32, a type of relocations
_ALIGNMENT = 16


def object_file(functions: Mapping[str, Sequence[bytes | str]]) -> bytes:
    """The object file of functions for x86-64, which are visible where it is linked. Their code is
    complete but for the distances to the functions that they call.

    Args:
      functions: the code of each, by name; texts in it are names of functions that it calls.
    """
    code, calls, symbols, names = bytearray(), bytearray(), bytearray(24), bytearray(1)
    numbers = dict[str, int]()

    def number_of(name: str) -> int:
        """The number of a symbol. Unless its function follows, it is in another file."""
        if name not in numbers:
            numbers[name] = len(symbols) // 24
            symbols.extend(struct.pack("<IBBHQQ", len(names), _GLOBAL, 0, 0, 0, 0))
            names.extend(name.encode() + b"\0")
        return numbers[name]

    for name, pieces in functions.items():
        code.extend(b"\xcc" * (-len(code) % _ALIGNMENT))
        start, symbol = len(code), number_of(name)
        for piece in pieces:
            if isinstance(piece, bytes):
                code.extend(piece)
                continue
            code.extend(b"\xe8\0\0\0\0")  # call; its distance counts from its end
            calls.extend(struct.pack("<QIIq", len(code) - 4, _CALL, number_of(piece), -4))
        place = 1, start, len(code) - start
        struct.pack_into("<BBHQQ", symbols, 24 * symbol + 4, _GLOBAL | _FUNCTION, _HIDDEN, *place)
    return _file(
        (b".text", _CONTENT, _CODE, code, 0, 0, _ALIGNMENT, 0),
        (b".rela.text", _RELOCATIONS, _ABOUT_A_SECTION, calls, 3, 1, 8, 24),
        (b".symtab", _SYMBOLS, 0, symbols, 4, 1, 8, 24),
        (b".strtab", _STRINGS, 0, names, 0, 0, 1, 0),
    )


def _file(*sections: tuple[bytes, int, int, bytearray, int, int, int, int]) -> bytes:
    """The file of sections: the name of each, its type, flags and content, the number of another
    one, a number that depends on the type, the alignment, and the size of an entry. The last one
    has all names.
    """
    content, headers, names = bytearray(64), bytearray(64), sections[-1][3]
    places = []
    for name, *_ in sections:
        places.append(len(names))
        names.extend(name + b"\0")
    for place, (_, kind, flags, data, *others) in zip(places, sections, strict=True):
        content.extend(bytes(-len(content) % _ALIGNMENT))
        header = place, kind, flags, 0, len(content), len(data), *others
        headers.extend(struct.pack("<IIQQQQIIQQ", *header))
        content.extend(data)
    content.extend(bytes(-len(content) % _ALIGNMENT))
    identity = b"\x7fELF\2\1\1"  # 64 bits, the lowest byte first
    fields = _RELOCATABLE, _AMD64, 1, 0, 0, len(content), 0, 64, 0, 0, 64
    count = len(sections)
    struct.pack_into("<16sHHIQQQIHHHHHH", content, 0, identity, *fields, 1 + count, count)
    return bytes(content + headers)
