"""Object files in the Executable and Linkable Format, for machine code that is complete but for the
distances to the functions that it calls.

After the *System V Application Binary Interface*, edition 4.1 (1997), and its supplement for AMD64.
To read the code as assembly, LLVM needs as long as to compile all that surrounds it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_RELOCATABLE, _AMD64 = 1, 62
_CONTENT, _SYMBOLS, _STRINGS, _RELOCATIONS = 1, 2, 3, 4  # types of sections
_CODE, _ABOUT_A_SECTION = 2 | 4, 64  # flags of sections: allocated and executable
_GLOBAL, _FUNCTION, _HIDDEN = 1 << 4, 2, 2
_CALL = 4  # R_X86_64_PLT32, a type of relocations
_ALIGNMENT = 16


def object_file(functions: Mapping[str, Sequence[bytes | str]]) -> bytes:
    """The object file of functions for x86-64, which are visible where it is linked.

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
