"""Functions that transpose blocks of arrays: between rows of robots and vectors with one robot per
lane.

Columns are read in tiles as wide as a piece of 16 bytes. Pieces of several rows are loaded side by
side into one vector, and such vectors are interleaved within their pieces, first lanes, then pairs
of lanes. Squares with as many columns as a block has robots need twice as many shuffles (with
AVX-512, 30 ns instead of 23), and read up to as many columns more than an array has.

Results are written in squares: after interleaving, whole pieces are exchanged between vectors,
since stores of single pieces take longer than these shuffles. Each shuffle of two vectors is one
instruction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from artix.compiler.kernels.code import Code, Value, type_of

INTEGERS = {1: "i8", 4: "i32", 8: "i64"}
"""LLVM's integers by their bytes; data are copied as integers."""


_PIECE = 16
"""Bytes of a piece of a register: x86 shuffles lanes within pieces, or moves them whole, without a
list of lanes."""


def tile_columns(size: int, width: int) -> int:
    """The fewest columns that :func:`transpose_in` writes: entries of ``size`` bytes, vectors of
    ``width`` lanes.
    """
    return min(_PIECE // size, width)


def transpose(rows: list[Value], size: int) -> list[Value]:
    """The columns of a square with entries of ``size`` bytes, given its rows."""
    width, piece = len(rows), tile_columns(size, len(rows))
    # Piece j of vector c of these lists is what column piece * j + c has in their rows.
    of_rows = [_interleaved(rows[k : k + piece], piece) for k in range(0, width, piece)]
    columns = [_pieces_joined(list(vectors), piece) for vectors in zip(*of_rows, strict=True)]
    return [vector for vectors in zip(*columns, strict=True) for vector in vectors]


def _interleaved(rows: list[Value], piece: int) -> list[Value]:
    """Transposes the squares that rows have in each piece."""
    half = len(rows) // 2
    if not half:
        return rows
    pairs = zip(_interleaved(rows[:half], piece), _interleaved(rows[half:], piece), strict=True)
    # Lanes by piece, half of the piece, and how many stay together.
    units = np.arange(rows[0].width).reshape(-1, 2, piece // (2 * half), half)
    parts = [
        np.stack([units[:, k], units[:, k] + rows[0].width], axis=2).ravel().tolist()
        for k in range(2)
    ]
    return [first.shuffle(second, lanes) for first, second in pairs for lanes in parts]


def _pieces_joined(vectors: list[Value], piece: int) -> list[Value]:
    """Transposes the square of pieces that as many vectors as have them form."""
    half = len(vectors) // 2
    if not half:
        return vectors
    pairs = list(
        zip(
            _pieces_joined(vectors[:half], piece),
            _pieces_joined(vectors[half:], piece),
            strict=True,
        )
    )
    lanes = np.arange(2 * vectors[0].width).reshape(-1, 2, piece)
    return [
        first.shuffle(second, lanes[:, k].ravel().tolist())
        for k in range(2)
        for first, second in pairs
    ]


def _row_pointers(
    code: Code, start: Value, stride: Value, rows: Value, width: int, numbers: Value | None
) -> list[Value]:
    """The address of each row; that of the last one for missing rows. Rows follow each other unless
    numbered.
    """
    if numbers is not None:
        lanes = ((rows > k).where(code.integer(k), rows - 1) for k in range(width))
        return [start.offset(numbers.number(lane) * stride) for lane in lanes]
    pointers = [start]
    none = code.integer(0)
    for k in range(1, width):
        pointers.append(pointers[-1].offset((rows > k).where(stride, none)))
    return pointers


def _first_columns(code: Code, count: Value, width: int) -> Value:
    """A mask of the first ``count`` lanes."""
    return _lanes(code, width) < count.splat(width)


def _lanes(code: Code, width: int) -> Value:
    """The number of each lane."""
    numbers = ", ".join(f"i64 {k}" for k in range(width))
    return code.value(f"<{numbers}>", "i64", width)


def _tiles(code: Code, columns: Value, width: int):
    """A loop over tiles that cover all columns, at least ``width``, and their first column; the
    last may overlap.
    """
    last = columns - width
    return code.loop(columns, step=width), lambda index: (index < last).where(index, last)


def _declare_masked(code: Code, scalar: str, width: int) -> tuple[str, str]:
    kind, mask = type_of(scalar, width), type_of("i1", width)
    load, store = (f"llvm.masked.{what}.v{width}{scalar}.p0" for what in ("load", "store"))
    code.calls[load] = f"declare {kind} @{load}(ptr, i32, {mask}, {kind})"
    code.calls[store] = f"declare void @{store}({kind}, ptr, i32, {mask})"
    return load, store


def name_of(what: str, size: int, width: int, numbered: bool) -> str:
    """The name of a function that this module writes.

    Args:
      what: ``"transpose_in"``, ``"transpose_out"`` or ``"clear"``, the name of its writer.
      size: bytes per entry.
      width: lanes of a vector.
      numbered: whether its rows are those of a list.
    """
    return f"artix_{what}_{8 * size}_{width}{'_numbered' * numbered}"


def declarations_of(size: int, width: int, numbered: bool) -> dict[str, str]:
    """Declarations of :func:`transpose_in`, :func:`transpose_out` and :func:`clear`, by name."""
    parameters = {
        "transpose_in": "ptr, i64, i64, i64, ptr",
        "transpose_out": "ptr, ptr, i64, i64, ptr, i64",
        "clear": "i64, i64, ptr, i64",
    }
    names = {what: name_of(what, size, width, numbered) for what in parameters}
    return {
        names[what]: f"declare hidden void @{names[what]}({types}{', ptr' * numbered})"
        for what, types in parameters.items()
    }


def transpose_in(size: int, width: int, declarations: dict[str, str], numbered: bool) -> str:
    """``void (from, row stride in bytes, rows, columns, to)``: transposes rows to consecutive
    vectors of columns.

    Args:
      size: bytes per entry.
      width: lanes of a vector, and the largest number of rows.
      declarations: declarations of the intrinsics that the module calls.
      numbered: whether the rows are not the first ones, but those of a last parameter, a list of
        i32.
    """
    parameters = (
        "ptr %from, i64 %stride, i64 %rows, i64 %columns, ptr %to" + ", ptr %numbers" * numbered
    )
    code = Code(
        f"hidden void @{name_of('transpose_in', size, width, numbered)}({parameters})",
        declarations,
    )
    start, to = code.value("%from", "ptr"), code.value("%to", "ptr")
    stride, rows, columns = (code.value(name, "i64") for name in ("%stride", "%rows", "%columns"))
    scalar, numbers = INTEGERS[size], code.value("%numbers", "ptr") if numbered else None
    pointers = _row_pointers(code, start, stride, rows, width, numbers)
    if size == 1:
        with code.loop(columns) as column:
            for k, pointer in enumerate(pointers):
                to.offset(column * width + k).store(pointer.offset(column).load("i8"))
        return code.text()
    piece = tile_columns(size, width)
    with code.when(columns >= piece):
        loop, column_of = _tiles(code, columns, piece)
        with loop as index:
            column = column_of(index)
            pieces = [pointer.offset(column, scalar).load(scalar, piece) for pointer in pointers]
            _store_columns(to.offset(column * width, scalar), pieces)
    with code.when(columns < piece):
        load, _ = _declare_masked(code, scalar, piece)
        mask, kind = _first_columns(code, columns, piece), type_of(scalar, piece)
        text = f"i32 {size}, {mask.type} {mask.name}, {kind} poison"
        pieces = [
            code.emit(f"call {kind} @{load}(ptr {p.name}, {text})", scalar, piece) for p in pointers
        ]
        _store_columns(to, pieces)
    return code.text()


def _store_columns(to: Value, pieces: list[Value]) -> None:
    """Stores the columns of the pieces of all rows, with as many lanes as there are rows."""
    piece, width = pieces[0].width, len(pieces)
    rows = [_joined(pieces[k::piece]) for k in range(piece)]
    for k, vector in enumerate(_interleaved(rows, piece)):
        to.offset(k * width, vector.scalar).store(vector)


def _joined(vectors: list[Value]) -> Value:
    """Consecutive lanes of all vectors, of which there is a power of two."""
    if len(vectors) == 1:
        return vectors[0]
    half = len(vectors) // 2
    first, second = _joined(vectors[:half]), _joined(vectors[half:])
    return first.shuffle(second, list(range(2 * first.width)))


def transpose_out(size: int, width: int, declarations: dict[str, str], numbered: bool) -> str:
    """``void (memory, slots, rows, columns, to, row stride in bytes)``: transposes vectors to rows.

    ``slots`` are i32 offsets of the vectors in memory, at least ``width`` of them. Lanes beyond
    ``rows`` are not written.

    Args:
      size: bytes per entry.
      width: lanes of a vector.
      declarations: declarations of the intrinsics that the module calls.
      numbered: whether the rows are not the first ones, but those of a last parameter, a list of
        i32.
    """
    parameters = (
        "ptr %from, ptr %slots, i64 %rows, i64 %columns, ptr %to, i64 %stride"
        + ", ptr %numbers" * numbered
    )
    code = Code(
        f"hidden void @{name_of('transpose_out', size, width, numbered)}({parameters})",
        declarations,
    )
    start, slots, to = (code.value(name, "ptr") for name in ("%from", "%slots", "%to"))
    rows, columns, stride = (code.value(name, "i64") for name in ("%rows", "%columns", "%stride"))
    scalar, numbers = INTEGERS[size], code.value("%numbers", "ptr") if numbered else None
    pointers = [] if numbers is None else _row_pointers(code, to, stride, rows, width, numbers)

    def vector(index: Value, k: int) -> Value:
        return start.offset(slots.number(index + k)).load(scalar, width)

    def row_starts(column: Value) -> Iterator[Value]:
        """The address of a column in each row, computed just before it is needed."""
        if pointers:
            yield from (pointer.offset(column, scalar) for pointer in pointers)
            return
        pointer = to.offset(column, scalar)
        for k in range(width):
            if k:
                pointer = pointer.offset(stride)
            yield pointer

    if size == 1:
        with code.loop(columns) as column:
            source = start.offset(slots.number(column))
            with code.loop(rows) as row:
                number = row if numbers is None else numbers.number(row)
                to.offset(number * stride + column).store(source.offset(row).load("i8"))
        return code.text()
    _, store = _declare_masked(code, scalar, width)
    is_full, last = (columns >= width) & rows.equals(width), columns - width
    with code.loop(columns, step=width) as index:
        # Of full squares the last one may overlap.
        column = (is_full & (last < index)).where(last, index)
        lines = transpose([vector(column, k) for k in range(width)], size)
        with code.when(is_full):
            for line, pointer in zip(lines, row_starts(column), strict=True):
                pointer.store(line)
        with code.when(is_full ^ 1):
            mask = _first_columns(code, columns - index, width)
            no_lanes = code.value("zeroinitializer", "i1", width)
            for k, (line, pointer) in enumerate(zip(lines, row_starts(column), strict=True)):
                used_lanes = mask if k == 0 else (rows > k).splat(width).where(mask, no_lanes)
                text = f"{line.type} {line.name}, ptr {pointer.name}, i32 {size}"
                code.lines.append(
                    f"  call void @{store}({text}, {used_lanes.type} {used_lanes.name})"
                )
    return code.text()


def clear(size: int, width: int, declarations: dict[str, str], numbered: bool) -> str:
    """``void (rows, columns, to, row stride in bytes)``: stores zeros in columns of rows, at least
    ``width`` of them.

    Args:
      size: bytes per entry.
      width: lanes of a vector.
      declarations: declarations of the intrinsics that the module calls.
      numbered: whether the rows are not the first ones, but those of a last parameter, a list of
        i32.
    """
    parameters = "i64 %rows, i64 %columns, ptr %to, i64 %stride" + ", ptr %numbers" * numbered
    code = Code(
        f"hidden void @{name_of('clear', size, width, numbered)}({parameters})", declarations
    )
    rows, columns, stride = (code.value(name, "i64") for name in ("%rows", "%columns", "%stride"))
    scalar, zeros = INTEGERS[size], code.value("zeroinitializer", INTEGERS[size], width)
    with code.loop(rows) as row:
        number = code.value("%numbers", "ptr").number(row) if numbered else row
        start = code.value("%to", "ptr").offset(number * stride)
        loop, column_of = _tiles(code, columns, width)
        with loop as index:
            start.offset(column_of(index), scalar).store(zeros)
    return code.text()


def pointers_to_rows(code: Code, start: Value, stride: Value, rows: Value, width: int) -> Value:
    """Pointers to the array of each robot of a block; lanes without a robot get the last one's."""
    lanes, last = _lanes(code, width), (rows - 1).splat(width)
    offsets = (lanes < last).where(lanes, last) * stride.splat(width)
    return code.emit(
        f"getelementptr i8, ptr {start.name}, {offsets.type} {offsets.name}", "ptr", width
    )
