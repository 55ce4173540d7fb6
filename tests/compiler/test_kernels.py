"""Kernels against NumPy: operations, shapes, levels, batch sizes, threads, and the accuracy of
elementary functions."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import os
import signal
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.compiler import kernels, scalar_evaluation
from artix.compiler.compilation import scalars_of
from artix.compiler.kernels import encodings, machine
from artix.compiler.kernels.cpu import modules
from artix.compiler.kernels.encodings import object_file
from artix.compiler.kernels.machine import vector_bytes
from artix.compiler.kernels.plan import Plan
from artix.compiler.kernels.straight_lines import Line
from artix.compiler.quantity import call_of
from artix.compiler.scalar_program import Kind, Op, ScalarProgram, array_operand
from artix.compiler.scalarize import scalarize

if kernels.available() is not None:
    pytest.skip(kernels.available(), allow_module_level=True)

KINDS = {"bool": Kind.BOOL, "int32": Kind.INT32, "float32": Kind.FLOAT32, "float64": Kind.FLOAT64}
NAMES = {kind: name for name, kind in KINDS.items()}
WIDTH = vector_bytes() // 4
_count = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def _as_users_have_it():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "_OPTIMISATION", 1)
        yield


class Builder:
    """Writes a scalar program by hand."""

    def __init__(self):
        self.rows, self.arguments, self.results = [], [], []

    def add(self, op, kind, *operands, level=None, constant=0.0):
        if level is None:
            level = max((self.rows[r >> 1][3] for r in operands), default=0)
        self.rows.append((op, (list(operands) + [-1] * 3)[:3], kind, level, constant))
        return 2 * (len(self.rows) - 1)

    def argument(self, shape, dtype, level):
        self.arguments.append((shape, np.dtype(dtype), level))
        index = len(self.arguments) - 1
        entries = []
        for entry in range(int(np.prod(shape))):
            self.rows.append(
                (Op.INPUT, [index, entry, -1], KINDS[np.dtype(dtype).name], level, 0.0)
            )
            entries.append(2 * (len(self.rows) - 1))
        return np.array(entries, np.int32).reshape(shape)

    def number(self, value, kind):
        return self.add(Op.CONSTANT, kind, constant=value)

    def result(self, references):
        self.results.append(np.array(references, np.int32))

    def kind(self, reference):
        return self.rows[reference >> 1][2]

    def program(self):
        ops, operands, kinds, levels, constants = zip(*self.rows, strict=True)
        types = tuple(np.dtype(NAMES[self.kind(int(r.flat[0]))]) for r in self.results)
        return ScalarProgram(
            np.array(ops, np.uint8), np.array(operands, np.int32), np.array(kinds, np.uint8),
            np.array(levels, np.uint8), np.array(constants, float), tuple(self.arguments), tuple(self.results), types,
        )  # fmt: skip


def load(builder, array, level, index, kind):
    """An entry of an argument."""
    return builder.add(
        Op.LOAD, kind, index, array_operand(array), level=max(level, builder.rows[index >> 1][3])
    )


def numpy_operation(op, kind, values):
    dtype = np.dtype(NAMES[kind])
    one = {
        Op.SQRT: np.sqrt, Op.RSQRT: lambda x: 1 / np.sqrt(x), Op.ABS: np.abs, Op.SIGN: np.sign, Op.FLOOR: np.floor,
        Op.CEIL: np.ceil, Op.ROUND: np.rint, Op.SIN: np.sin, Op.COS: np.cos, Op.TAN: np.tan, Op.ASIN: np.arcsin,
        Op.ACOS: np.arccos, Op.ATAN: np.arctan, Op.SINH: np.sinh, Op.COSH: np.cosh, Op.TANH: np.tanh, Op.EXP: np.exp,
        Op.EXPM1: np.expm1, Op.LOG: np.log, Op.LOG1P: np.log1p, Op.CBRT: np.cbrt, Op.IS_FINITE: np.isfinite,
        Op.NOT: np.invert, Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide,
        Op.MIN: np.minimum, Op.MAX: np.maximum, Op.POW: np.power, Op.ATAN2: np.arctan2, Op.LT: np.less,
        Op.LE: np.less_equal, Op.EQ: np.equal, Op.NE: np.not_equal, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or,
        Op.XOR: np.bitwise_xor, Op.SELECT: np.where, Op.CONVERT: lambda x: x.astype(dtype),
        Op.SHIFT_LEFT: np.left_shift, Op.SHIFT_RIGHT: np.right_shift, Op.BITCAST: lambda x: x.view(dtype),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        return np.asarray(one[op](*values)).astype(dtype)


def interpret(program, arrays, batch, items):
    """The results by NumPy, with axes [batch, items] in front of each scalar."""
    has_items = any(level == 2 for _, _, level in program.arguments)
    scalars = []
    for k, op in enumerate(program.operations):
        kind = Kind(program.kinds[k])
        if op == Op.INPUT:
            shape, _, level = program.arguments[program.operands[k][0]]
            array = np.asarray(arrays[program.operands[k][0]])
            lead = array.shape[: array.ndim - len(shape)]
            value = array.reshape(*lead, int(np.prod(shape)))[..., program.operands[k][1]]
            if level == 1:
                value = value[:, None]
            scalars.append(np.broadcast_to(value, (batch, items)))
        elif op == Op.CONSTANT:
            scalars.append(np.full((batch, items), program.constants[k], NAMES[kind]))
        elif op == Op.LOAD:
            number = array_operand(program.operands[k][1])
            index = np.minimum(scalars[program.operands[k][0] >> 1].astype(np.uint32), 1_000_000)
            if number >= len(arrays):
                table = program.tables[number - len(arrays)]
                scalars.append(table[np.minimum(index, len(table) - 1)])
                continue
            shape, _, level = program.arguments[number]
            rows = np.asarray(arrays[number]).reshape(*np.shape(arrays[number])[: -len(shape)], -1)
            rows = rows[:, None] if level == 1 else rows
            rows = np.broadcast_to(rows, (batch, items, rows.shape[-1]))
            index = np.minimum(index, rows.shape[-1] - 1)
            scalars.append(np.take_along_axis(rows, index[..., None], -1)[..., 0])
        else:
            operands = [
                -scalars[r >> 1] if r & 1 else scalars[r >> 1]
                for r in program.operands[k]
                if r >= 0
            ]
            scalars.append(numpy_operation(Op(op), kind, operands))
    results = []
    for references in program.results:
        entries = [
            -scalars[r >> 1] if r & 1 else scalars[r >> 1] for r in references.ravel().tolist()
        ]
        array = np.stack(entries, -1).reshape(batch, items, *references.shape)
        results.append(array if has_items else array[:, 0])
    return results


def caller(program):
    name = f"test_kernel_{next(_count)}"
    kernels.load(kernels.build(program), name)
    has_items = any(level == 2 for _, _, level in program.arguments)

    def call(arrays, batch, items=1):
        lead = (batch, items) if has_items else (batch,)
        shapes = [
            jax.ShapeDtypeStruct((*lead, *r.shape), t)
            for r, t in zip(program.results, program.result_types, strict=True)
        ]
        return jax.ffi.ffi_call(name, shapes)(*arrays)

    return call


def results_of(call, cases):
    """The results of a kernel for operands of several sizes, (operands, batch, items), in one
    program."""
    sizes = [size for _, *size in cases]

    @jax.jit
    def run(operands):
        return [call(each, *size) for each, size in zip(operands, sizes, strict=True)]

    return run([operands for operands, *_ in cases])


def random_array(rng, shape, dtype):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return (
        rng.integers(-9, 9, shape).astype(dtype)
        if dtype == "int32"
        else rng.normal(size=shape).astype(dtype)
    )


def random_program(rng, dtype, levels, size=150):
    """Sums and products of random entries; results with repeated and negated entries, zeros and
    constants."""
    builder, kind = Builder(), KINDS[dtype]
    pool = [
        r
        for level in levels
        for r in builder.argument((int(rng.integers(1, 20)),), dtype, level).tolist()
    ]
    pool += [builder.number(0.0, kind), builder.number(0.75, kind)]
    for _ in range(size):
        a, b = (int(pool[k]) ^ int(rng.integers(2)) for k in rng.integers(len(pool), size=2))
        op = [Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.SIN][rng.integers(6)]
        if op is Op.SIN:
            pool.append(builder.add([Op.SIN, Op.COS][rng.integers(2)], kind, a))
        else:
            pool.append(builder.add(op, kind, a, b))
            pool[-1] = builder.add(
                Op.MUL, kind, pool[-1], builder.add(Op.CONSTANT, kind, constant=0.5)
            )
    for shape in ((), (3,), (5, 5), (40,)):
        count = int(np.prod(shape))
        chosen = [int(pool[k]) ^ int(rng.integers(2)) for k in rng.integers(len(pool), size=count)]
        builder.result(np.array(chosen).reshape(shape))
    return builder.program()


@pytest.fixture(params=["machine code", "AVX2", "LLVM"])
def writer(request, monkeypatch):
    """What writes straight lines: artix, where it supports the processor, also as one without
    AVX-512, or LLVM."""
    if request.param == "LLVM":
        monkeypatch.setattr(encodings, "encoding", lambda: None)
    elif encodings.encoding() is None:
        pytest.skip("no machine code for this processor")
    elif request.param == "AVX2":
        if not machine.has_feature("avx512f"):
            pytest.skip("the processor has no AVX-512 to do without")
        without = machine.features().replace("+avx512", "-avx512")
        monkeypatch.setattr(machine, "features", lambda: without)
        machine.vector_bytes.cache_clear()
    yield request.param
    monkeypatch.undo()
    machine.vector_bytes.cache_clear()


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_of_two_programs(dtype, joined):
    """Each evaluates its rows, in any order; long runs of zeros in results are stored as such."""
    rng, numbered, total = np.random.default_rng(5), (False, True, False, True), 5 * WIDTH + 3
    width = kernels.row_lanes([dtype])
    order = rng.permutation(total).astype(np.int32)
    programs, rows, arrays, expected = [], (order[:-WIDTH], order[-WIDTH:]), [], []
    for number, own_rows in enumerate(rows):
        builder, kind = Builder(), KINDS[dtype]
        arguments = [
            builder.argument((size,), dtype, level)
            for size, level in ((3, 0), (7, 1), (2, 1), (40, 1))
        ]
        sums = [
            builder.add(Op.ADD, kind, int(a), int(b))
            for a, b in zip(arguments[1], arguments[3], strict=False)
        ]
        entries = [*sums, builder.add(Op.MUL, kind, int(arguments[0][1]), int(arguments[2][1]))]
        table = np.full((6 if joined else 5 + number, 50), builder.number(0.0, kind))
        table[number, :3], table[4, 40:48] = entries[:3], entries
        builder.result(table)
        builder.result(np.array(entries))
        programs.append(builder.program())
        arrays += [
            random_array(rng, size, dtype)
            for size in ((3,), (total, 7), (len(own_rows), 2), (total, 40))
        ]
        own = [x[own_rows] if flag else x for x, flag in zip(arrays[-4:], numbered, strict=True)]
        expected.append(interpret(programs[-1], own, len(own_rows), 1))
    if joined:
        expected = [np.concatenate(both)[np.argsort(order)] for both in zip(*expected, strict=True)]
    else:
        expected = expected[0] + expected[1]
    name = f"test_kernel_{next(_count)}"
    codes = kernels.build_programs([(program, numbered) for program in programs], width, joined)
    linked = [kernels.link_program(code, f"{name}_{number}") for number, code in enumerate(codes)]
    kernels.load(kernels.build_rows(linked, width, joined), name, kernels.addresses_of(linked))
    shapes = [jax.ShapeDtypeStruct(x.shape, dtype) for x in expected]
    first, second = (own_rows[:, None] for own_rows in rows)
    found = jax.ffi.ffi_call(name, shapes)(kernels.block_list(rows, width), first, second, *arrays)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(jax.errors.JaxRuntimeError, match="do not have the shapes"):
        jax.ffi.ffi_call(name, shapes)(kernels.block_list(rows, width), first, second[1:], *arrays)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("levels", [(1,), (0, 1), (0, 1, 2), (1, 2), (2,), (0,), (0, 2, 2)])
def test_levels_and_batch_sizes(levels, dtype, writer):
    rng = np.random.default_rng(len(levels) + sum(levels))
    program = random_program(rng, dtype, levels)
    cases = []
    for inner_only in (False, True) if 2 in levels else (False,):
        for batch, items in (
            (0, 2),
            (1, 1),
            (2, 0),
            (WIDTH - 1, 3),
            (WIDTH, 2),
            (WIDTH + 1, 3),
            (1000, 2),
        ):
            arrays = []
            for shape, kind, level in program.arguments:
                lead = {0: (), 1: (batch,), 2: (items,) if inner_only else (batch, items)}[level]
                arrays.append(random_array(rng, (*lead, *shape), kind.name))
            cases.append((arrays, batch, items))
    tolerance = 1e-4 if dtype == "float32" else 1e-13
    for case, found in zip(cases, results_of(caller(program), cases), strict=True):
        arrays, batch, items = case
        expected = interpret(program, arrays, batch, items if 2 in levels else 1)
        for got, want in zip(found, expected, strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_copy_what_they_carry(dtype, writer, monkeypatch):
    """Entries change places in loops of both kinds, within each other; more of them than there are
    registers."""
    monkeypatch.setattr(scalar_evaluation, "_MAX_UNROLLED", 0)

    def turned(carry):
        x, flags, size, _ = carry
        return -jnp.roll(x, 1), jnp.roll(flags, 1), 2 * size, jnp.ones((), bool)

    def again(carry):
        count, x, flags, _, size = carry
        x, flags, size, _ = jax.lax.while_loop(
            lambda inner: inner[2] < 16, turned, (x, flags ^ (count > 1), size, jnp.zeros((), bool))
        )
        return count + 1, jnp.roll(x, 7), flags, x[0], 0.75 * size

    def function(x, most, shared):
        x = jax.lax.scan(
            lambda y, _: (jnp.roll(y, -1).at[0].multiply(1.5), None), x, None, length=6
        )[0]
        flags = (x > 0).at[:9].set(2 * shared[1:] > 1)
        start = jnp.int32(0), x.at[5].set(2 * shared[0]), flags, 3 * shared[0], jnp.abs(x[1])
        return jax.lax.while_loop(lambda carry: carry[0] < most, again, start)

    rng = np.random.default_rng(0)
    x, most = random_array(rng, (50, 40), dtype), rng.integers(0, 5, 50).astype(np.int32)
    shared = random_array(rng, 10, dtype)
    program = scalarize(jax.make_jaxpr(function)(x[0], most[0], shared), [1, 1, 0], {})
    assert len(program.loops) == 3
    expected = jax.jit(jax.vmap(function, (0, 0, None)))(x, most, shared)
    for got, want in zip(caller(program)((x, most, shared), 50), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", list(KINDS))
def test_entries_of_arrays_are_loaded(dtype):
    """Of arrays of all levels at indices of all levels, within the array and outside; and of known
    ones."""
    rng = np.random.default_rng(0)
    builder, kind = Builder(), KINDS[dtype]
    indices = [builder.argument((3,), "int32", level) for level in (0, 1, 2)]
    arrays = [builder.argument((2, 5000), dtype, level) for level in (0, 1, 2)]
    # Nothing of the arrays is an input
    builder.rows = [row for row in builder.rows if row[1][0] < 3]
    loads = [
        [load(builder, 3 + k, k, i, kind) for i in of_level]
        for k in range(len(arrays))
        for of_level in indices
    ]
    loads.append([load(builder, 6, 0, i, kind) for of_level in indices for i in of_level])
    for references in loads:
        builder.result(references)
    tables = (random_array(rng, (700,), dtype),)
    program = builder.program()._replace(tables=tables)
    cases = []
    for inner_only in (False, True):
        for batch, items in ((1, 1), (WIDTH - 1, 3), (WIDTH, 2), (WIDTH + 1, 2)):
            lead = {0: (), 1: (batch,), 2: (items,) if inner_only else (batch, items)}
            operands = [
                rng.integers(-5, 12_000, (*lead[level], 3)).astype(np.int32) for level in (0, 1, 2)
            ]
            operands += [random_array(rng, (*lead[level], 2, 5000), dtype) for level in (0, 1, 2)]
            cases.append((operands, batch, items))
    for case, found in zip(cases, results_of(caller(program), cases), strict=True):
        for got, want in zip(found, interpret(program, *case), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", list(KINDS))
def test_arrays_of_all_sizes_move_unchanged(dtype):
    rng = np.random.default_rng(0)
    builder = Builder()
    for size in (1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 100):
        entries = builder.argument((size,), dtype, 1)
        builder.result(entries)
        builder.result(entries[::-1])
    call = caller(builder.program())
    for batch in (1, 5, WIDTH, WIDTH + 3, 100):
        arrays = [random_array(rng, (batch, *shape), dtype) for shape, _, _ in builder.arguments]
        found = call(arrays, batch)
        for k, array in enumerate(arrays):
            np.testing.assert_array_equal(found[2 * k], array)
            np.testing.assert_array_equal(found[2 * k + 1], array[:, ::-1])


UNARY = [
    Op.SQRT, Op.RSQRT, Op.ABS, Op.SIGN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN,
    Op.SINH, Op.COSH, Op.TANH, Op.EXP, Op.EXPM1, Op.LOG, Op.LOG1P, Op.CBRT,
]  # fmt: skip
BINARY = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX, Op.POW, Op.ATAN2]
COMPARISONS = [Op.LT, Op.LE, Op.EQ, Op.NE]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.5, -2.5, 0.5, 1.5, -3.0]


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_operations_of_floats_with_special_values(dtype, level, mixed, writer):
    kind, builder = KINDS[dtype], Builder()
    x, y = builder.argument((2,), dtype, level).tolist()
    for sign in (0, 1):
        builder.result([builder.add(op, kind, x ^ sign) for op in UNARY])
        builder.result([builder.add(op, kind, x ^ sign, y) for op in BINARY])
        builder.result([builder.add(op, kind, x, y ^ sign) for op in BINARY])
        builder.result([builder.add(op, Kind.BOOL, x ^ sign, y) for op in COMPARISONS])
    half = builder.number(0.5, kind)
    builder.result(
        [
            builder.add(op, kind, *pair)
            for op in (Op.MIN, Op.MAX)
            for pair in ((x, half), (half ^ 1, x))
        ]
    )
    finite = builder.add(Op.IS_FINITE, Kind.BOOL, x)
    less = builder.add(Op.LT, Kind.BOOL, x, y)
    logic = [
        builder.add(op, Kind.BOOL, finite, less) for op in (Op.AND, Op.OR, Op.XOR, Op.EQ, Op.NE)
    ]
    builder.result([finite, less, builder.add(Op.NOT, Kind.BOOL, finite), *logic])
    builder.result(
        [builder.add(Op.SELECT, kind, finite, y, x), builder.add(Op.SELECT, kind, less, x, y ^ 1)]
    )
    other = Kind.FLOAT64 if kind == Kind.FLOAT32 else Kind.FLOAT32
    if mixed:  # vectors of two lengths
        builder.result([builder.add(Op.CONVERT, other, x), builder.add(Op.CONVERT, other, less)])
    chosen = builder.add(Op.SELECT, Kind.BOOL, less, finite, builder.add(Op.NOT, Kind.BOOL, finite))
    builder.result([chosen, builder.add(Op.CONVERT, Kind.BOOL, x)])
    zero = builder.number(0.0, kind)
    builder.result(
        [builder.add(Op.CONVERT, kind, less), builder.add(Op.SELECT, kind, less, y, zero)]
    )
    program = builder.program()
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL], dtype)
    call = caller(program)
    arguments = [pairs] if level else list(pairs[::7])
    for argument in arguments:
        batch = len(pairs) if level else 3
        expected = interpret(program, [argument], batch, 1)
        for got, want in zip(call([argument], batch), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64", "both"])
def test_integers(dtype, writer):
    """Also those that no float32 has, of all robots, and between what LLVM and artix compile."""
    float_type = "float64" if dtype == "float64" else "float32"
    builder = Builder()
    shared = builder.argument((2,), "int32", 0).tolist()
    a, b = builder.argument((2,), "int32", 1).tolist()
    (x,) = builder.argument((1,), float_type, 1).tolist()
    numbers = [
        builder.add(op, Kind.INT32, first, second)
        for op in (Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX)
        for first, second in ((a, b), (shared[0], a))
    ]
    numbers += [builder.add(op, Kind.INT32, a) for op in (Op.ABS, Op.SIGN)]
    numbers.append(builder.add(Op.ADD, Kind.INT32, numbers[-1], shared[1]))
    large = builder.add(Op.MUL, Kind.INT32, a, builder.number(123_456_789, Kind.INT32))
    larger = builder.add(Op.ADD, Kind.INT32, large, b)
    of_large = [
        builder.add(op, Kind.BOOL, larger, other)
        for op in COMPARISONS
        for other in (large, builder.number(2_147_483_647, Kind.INT32))
    ]
    tests = [builder.add(op, Kind.BOOL, a, b) for op in COMPARISONS]
    chosen = builder.add(Op.SELECT, Kind.INT32, tests[0], larger, builder.number(-7, Kind.INT32))
    converted = builder.add(Op.CONVERT, Kind.INT32, x)
    builder.result([*numbers, large, larger, chosen, converted])
    builder.result([*tests, *of_large, builder.add(Op.CONVERT, Kind.BOOL, a)])
    builder.result([builder.add(Op.CONVERT, KINDS[float_type], each) for each in (a, shared[1])])
    if dtype == "both":
        builder.result([builder.add(Op.CONVERT, Kind.FLOAT64, b)])
    rng = np.random.default_rng(0)
    arrays = [
        np.array([-3, 4], np.int32),
        rng.integers(-5, 5, (50, 2)).astype(np.int32),
        rng.normal(size=(50, 1)).astype(float_type) * 9,
    ]
    found = caller(builder.program())(arrays, 50)
    for got, want in zip(found, interpret(builder.program(), arrays, 50, 1), strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_is_refused():
    none = np.zeros(0, np.uint8)
    arguments = (((1,), np.dtype("int64"), 1),)
    with pytest.raises(kernels.KernelError, match="int64"):
        kernels.build(
            ScalarProgram(
                none, np.zeros((0, 3), np.int32), none, none, np.zeros(0), arguments, (), ()
            )
        )
    with pytest.raises(kernels.KernelError):
        kernels.load(b"nothing", "test_kernel_nothing")
    builder = Builder()
    builder.result([builder.argument((2,), "float32", 1)[0]])
    call = caller(builder.program())
    for wrong in (
        np.zeros((4, 3), "f"),
        np.zeros((3, 2), "f"),
        np.zeros((4, 2)),
        np.zeros((4, 1, 2), "f"),
    ):
        with pytest.raises(Exception, match="shapes and types"):
            call([wrong], 4)


def test_large_programs_are_cut_into_functions(monkeypatch):
    monkeypatch.setattr("artix.compiler.kernels.plan.PART_OPERATIONS", 40)
    rng = np.random.default_rng(5)
    program = random_program(rng, "float32", (0, 1, 2), size=300)
    arrays = [
        random_array(rng, ((), (37,), (37, 3))[level] + shape, "float32")
        for shape, _, level in program.arguments
    ]
    for got, want in zip(
        caller(program)(arrays, 37, 3), interpret(program, arrays, 37, 3), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("several", [1000, 1], ids=["many values", "few"])
def test_registers_run_out(several, writer):
    """Floats and flags that live longer than there are registers, through calls that change all of
    them."""
    rng = np.random.default_rng(0)
    builder, kind = Builder(), Kind.FLOAT32
    entries = builder.argument((70,), "float32", 1).tolist()
    pool, flags, sums = list(entries), [], list[int]()
    for k in range(600):
        a, b, c = (int(pool[-n]) for n in rng.integers(1, min(len(pool), 3 * several) + 1, size=3))
        product = builder.add(Op.MUL, kind, a, b)
        pool.append(
            builder.add([Op.ADD, Op.SUB][k % 2], kind, *((product, c) if k % 3 else (c, product)))
        )
        pool[-1] = builder.add(Op.MIN, kind, pool[-1], builder.number(2.0, kind))
        pool[-1] = builder.add(Op.MAX, kind, pool[-1], builder.number(2.0, kind) ^ 1)
        if k % 20 == 0:
            pool += [builder.add(op, kind, pool[-1]) for op in (Op.SIN, Op.COS, Op.TANH)]
            pool.append(builder.add(Op.ATAN2, kind, pool[-1], pool[-2]))
        if k % 9 == 0:
            flags.append(builder.add(Op.LT, Kind.BOOL, pool[-1], pool[-7]))
    for k, flag in enumerate(flags):
        both = builder.add(Op.XOR, Kind.BOOL, flag, flags[-1 - k])
        sums.append(builder.add(Op.SELECT, kind, both, pool[k] ^ 1, pool[-1 - k]))
    builder.result(sums)
    builder.result(flags)
    builder.result(pool[-100:])
    array = random_array(rng, (50, 70), "float32")
    program = builder.program()
    for got, want in zip(
        caller(program)([array], 50), interpret(program, [array], 50, 1), strict=True
    ):
        # A value of another register would be far away; flags of nearly equal values may differ.
        assert np.isclose(got, want, rtol=1e-3, atol=1e-3).mean() > 0.99


def test_machine_code_is_what_llvm_makes_of_one_line(monkeypatch, writer):
    """To the last bit, fused products included."""
    if writer == "LLVM":
        pytest.skip("there is no machine code to compare")
    robot = artix.robots.load("arm7")
    (program,) = (call_of(artix.mass_matrix, robot, artix.neutral_state(robot)).program,)
    scalars = scalars_of(program, (1,) * len(program.traced))
    rng = np.random.default_rng(0)
    arrays = [random_array(rng, (30, *shape), dtype.name) for shape, dtype, _ in scalars.arguments]
    by_artix = caller(scalars)(arrays, 30)
    monkeypatch.setattr(encodings, "encoding", lambda: None)
    monkeypatch.setattr("artix.compiler.kernels.plan.PART_OPERATIONS", 10**9)
    for got, want in zip(by_artix, caller(scalars)(arrays, 30), strict=True):
        np.testing.assert_array_equal(got, want)


def test_each_line_of_the_next_block_is_requested_once(monkeypatch, writer):
    """Of arguments that depend on the robot, by all functions of a kernel together."""
    monkeypatch.setattr("artix.compiler.kernels.plan.PART_OPERATIONS", 40)
    program = random_program(np.random.default_rng(5), "float32", (0, 1), size=300)
    width, encoded = vector_bytes() // 4, []
    plan = Plan(program, width)
    monkeypatch.setattr(Line, "_request", lambda _, *request: encoded.append(request))
    texts = [module for module in modules(program) if isinstance(module, str)]
    requests = "".join(texts).count("call void @llvm.prefetch") + len(set(encoded))
    assert (len([part for part in plan.parts if part.level == 1]) > 1) == (writer == "LLVM")
    assert len(set(encoded)) == len(encoded)
    sizes = [
        4 * width * int(np.prod(program.arguments[argument][0])) for argument in plan.next_rows
    ]
    assert requests == sum(-(-size // 64) for size in sizes) > 0


def test_nothing_outside_is_written():
    """The handler is called as XLA would, with buffers that end at pages that must not be
    touched."""
    builder = Builder()
    for size in (1, 3, 15, 16, 17, 33):
        builder.result(builder.argument((size,), "float32", 1))
    program = builder.program()
    kernels.load(kernels.build(program), "test_kernel_guarded")
    handler = machine._LINKED["test_kernel_guarded"]["artix_handler"]
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(handler)
    keep = []

    def words(*values):
        keep.append((ctypes.c_int64 * len(values))(*values))
        return ctypes.addressof(keep[-1])

    for batch in (1, 7, WIDTH, WIDTH + 1, 50):
        page = 4096
        guarded, buffers = [], {}
        for kind in ("arguments", "results"):
            addresses = []
            for result in program.results:
                size = 4 * batch * result.size
                memory, start = _before_a_guard(size, page)
                ctypes.memset(start - 256, 0xAB, 256 + size)
                if kind == "arguments":
                    values = np.arange(batch * result.size, dtype="f")
                    ctypes.memmove(start, values.ctypes.data, size)
                guarded.append((memory, start, size, kind))
                addresses.append(words(48, 0, 11, start, 2, words(batch, result.size)))
            buffers[kind] = words(*addresses)
        count = len(program.results)
        api = words(16, 0, 24, 0, 0)  # too short for a pool of threads
        call(
            words(
                168,
                0,
                api,
                0,
                3,
                40,
                0,
                count,
                0,
                buffers["arguments"],
                40,
                0,
                count,
                0,
                buffers["results"],
                *[0] * 6,
            )
        )
        for _, start, size, _ in guarded:
            assert ctypes.string_at(start - 256, 256) == b"\xab" * 256
            assert ctypes.string_at(start, size) == np.arange(size // 4, dtype="f").tobytes()


def _before_a_guard(size, page):
    """Memory of so many bytes that ends where none may be touched."""
    pages = -(-(size + 256) // page) + 1
    memory = mmap.mmap(-1, pages * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    if libc.mprotect(ctypes.c_void_p(base + (pages - 1) * page), ctypes.c_size_t(page), 0) != 0:
        pytest.skip("pages cannot be protected")
    return memory, base + (pages - 1) * page - size


def test_many_threads_at_once():
    rng = np.random.default_rng(1)
    program = random_program(rng, "float32", (0, 1), size=400)
    call = caller(program)
    batch = 20_000
    arrays = [
        random_array(rng, ((), (batch,))[level] + shape, "float32")
        for shape, _, level in program.arguments
    ]
    function = jax.jit(lambda *arrays: call(arrays, batch))
    expected, errors = [np.asarray(x) for x in function(*arrays)], []

    def work():
        for _ in range(20):
            for got, want in zip(function(*arrays), expected, strict=True):
                if not np.array_equal(got, want):
                    errors.append(got)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("level", [0, 1])
def test_a_short_program_reads_far_entries_of_a_long_argument(level):
    """The operands of an input are numbers of an argument and an entry, and not of scalars."""
    long, factor = jax.ShapeDtypeStruct((100,), "float32"), jax.ShapeDtypeStruct((), "float32")
    program = call_of(lambda long, factor: factor * long[99], long, factor).program
    scalars = scalars_of(program, (level, 1))
    assert len(scalars.operations) < 50
    inputs = (
        np.arange(200, dtype=np.float32).reshape(2, 100)
        if level
        else np.arange(100, dtype=np.float32)
    )
    found = caller(scalars)([inputs, np.array([2.0, 3.0], np.float32)], 2)
    np.testing.assert_array_equal(found[0], [198.0, 597.0 if level else 297.0])


def test_several_kernels_side_by_side_in_one_program():
    rng = np.random.default_rng(2)
    program = random_program(rng, "float32", (1,), size=300)
    calls = [caller(program) for _ in range(6)]
    array = random_array(rng, (5000, *program.arguments[0][0]), "float32")
    found = jax.jit(lambda x: [call([x], 5000) for call in calls])(array)
    for results in found[1:]:
        for got, want in zip(results, found[0], strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_object_code_runs_in_another_process(tmp_path):
    builder = Builder()
    x, y = builder.argument((2,), "float32", 1).tolist()
    builder.result(builder.add(Op.MUL, Kind.FLOAT32, builder.add(Op.EXP, Kind.FLOAT32, x), y ^ 1))
    (tmp_path / "kernel").write_bytes(kernels.build(builder.program()))
    source = """
import sys, time, jax, numpy as np
from artix.compiler import kernels, scalar_evaluation
code = open(sys.argv[1], "rb").read()
kernels.machine_key()
start = time.process_time()
kernels.load(code, "other")
taken = time.process_time() - start
got = jax.ffi.ffi_call("other", jax.ShapeDtypeStruct((3,), "float32"))(np.ones((3, 2), "f"))
np.testing.assert_allclose(got, -np.exp(np.ones(3)), rtol=1e-6)
assert taken < 0.2, taken
"""
    subprocess.run([sys.executable, "-c", source, str(tmp_path / "kernel")], check=True)


# Ranges (or powers of ten of magnitudes) and the largest error in units in the last place that is
# allowed, of floats and of doubles. Subnormal numbers count as zero, as XLA's threads flush them.
FUNCTIONS = {
    Op.SIN: (np.sin, [(-4, 4), (-1e6, 1e6)], 2, 4),
    Op.COS: (np.cos, [(-4, 4), (-1e6, 1e6)], 2, 4),
    Op.TAN: (np.tan, [(-4, 4), (-1e6, 1e6)], 4, 4),
    Op.ASIN: (np.arcsin, [(-1, 1), (-1e-3, 1e-3)], 2, 4),
    Op.ACOS: (np.arccos, [(-1, 1), (-1, -0.9999), (0.9999, 1)], 2, 4),
    Op.ATAN: (np.arctan, [(-2, 2), (-1e3, 1e3)], 2, 4),
    Op.SINH: (np.sinh, [(-2, 2), (-89, 89), (-700, 700)], 4, 4),
    Op.COSH: (np.cosh, [(-2, 2), (-89, 89), (-700, 700)], 4, 4),
    Op.TANH: (np.tanh, [(-2, 2), (-30, 30)], 4, 4),
    Op.EXP: (np.exp, [(-2, 2), (-87, 88), (-700, 700)], 2, 4),
    Op.EXPM1: (np.expm1, [(-2, 2), (-1e-3, 1e-3), (-87, 88), (-700, 700)], 4, 4),
    Op.LOG: (np.log, [(1e-37, 1e-30), (0.3, 3), (0.99, 1.01), (1, 1e30)], 2, 4),
    Op.LOG1P: (np.log1p, [(-0.99, 3), (-1e-3, 1e-3), (1, 1e30)], 4, 4),
    Op.CBRT: (np.cbrt, [(-2, 2), (1.2e-38, 1e-36), (-1e30, 1e30)], 4, 4),
    Op.SQRT: (np.sqrt, [(0, 4)], 0.51, 0.51),
    Op.RSQRT: (lambda x: 1 / np.sqrt(x), [(1e-3, 4)], 2, 2),
    Op.ATAN2: (np.arctan2, [(-2, 2), (-1e10, 1e10)], 2, 4),
    Op.POW: (np.power, [(0.01, 4), (1.0, 20.0)], 4, 4),
}


def num_operands(op):
    return 2 if op in (Op.ATAN2, Op.POW) else 1


@functools.cache
def values_of_functions(dtype):
    """For each function and range: the range, 100,000 operands in it, and a kernel's results.

    One kernel has them all.
    """
    builder = Builder()
    for op in FUNCTIONS:
        operands = builder.argument((2,), dtype, 1).tolist()
        builder.result(builder.add(op, KINDS[dtype], *operands[: num_operands(op)]))
    call = caller(builder.program())
    values = {op: [] for op in FUNCTIONS}
    for turn in range(max(len(ranges) for _, ranges, *_ in FUNCTIONS.values())):
        chosen = [ranges[turn % len(ranges)] for _, ranges, *_ in FUNCTIONS.values()]
        rng = np.random.default_rng(turn)
        operands = [rng.uniform(*each, (100_000, 2)).astype(dtype) for each in chosen]
        results = call(operands, 100_000)
        for op, limits, x, result in zip(FUNCTIONS, chosen, operands, results, strict=True):
            if turn < len(FUNCTIONS[op][1]):
                values[op].append((limits, x, np.asarray(result)))
    return values


@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="needs floats of more digits than doubles"
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_accuracy(op, dtype):
    function, _, *limits = FUNCTIONS[op]
    for (low, high), x, results in values_of_functions(dtype)[op]:
        got = results.astype(np.longdouble)
        with np.errstate(all="ignore"):
            want = function(*x.astype(np.longdouble).T[: num_operands(op)])
            unit = np.maximum(np.spacing(np.abs(want.astype(dtype))), np.finfo(dtype).tiny).astype(
                np.longdouble
            )
            known = np.isfinite(want.astype(dtype)) & (abs(want) > np.finfo(dtype).tiny)
            error = (abs(got - want) / unit)[known].max()
        assert error <= limits[dtype == "float64"], (low, high, float(error))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sines_of_huge_angles_are_bounded(dtype):
    builder = Builder()
    (x,) = builder.argument((1,), dtype, 1).tolist()
    builder.result([builder.add(Op.SIN, KINDS[dtype], x), builder.add(Op.COS, KINDS[dtype], x)])
    angles = (10 ** np.random.default_rng(0).uniform(6, 15, (10_000, 1))).astype(dtype)
    got = np.asarray(caller(builder.program())([angles], len(angles))[0])
    want = np.concatenate(
        [np.sin(angles.astype(np.longdouble)), np.cos(angles.astype(np.longdouble))], 1
    )
    assert np.abs(got).max() <= 1 + 1e-5
    assert (np.abs(got - want) <= angles * np.finfo(dtype).eps).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cube_roots_of_the_largest_numbers(dtype):
    builder = Builder()
    (x,) = builder.argument((1,), dtype, 1).tolist()
    builder.result([builder.add(Op.CBRT, KINDS[dtype], x)])
    numbers = np.finfo(dtype).max * np.linspace(-1, 1, 1000, dtype=dtype)[:, None]
    got = np.asarray(caller(builder.program())([numbers], len(numbers))[0])
    np.testing.assert_allclose(got, np.cbrt(numbers), rtol=4 * np.finfo(dtype).eps)


def test_results_in_jitted_and_differentiated_programs_follow_inputs():
    builder = Builder()
    x = builder.argument((), "float32", 1)
    builder.result(builder.add(Op.MUL, Kind.FLOAT32, int(x), int(x)))
    call = caller(builder.program())
    total = jax.jit(lambda x: jnp.sum(call([x * 2], 8)[0]))(jnp.arange(8, dtype=jnp.float32))
    assert total == 4 * 140


@pytest.mark.skipif(encodings.encoding() is None, reason="no machine code for this processor")
def test_functions_of_an_object_file_call_each_other_and_others() -> None:
    """In any order, in the file and outside of it."""
    push, copy, add = b"\x53", b"\x89\xc3", b"\x01\xd8\x5b\xc3"  # of rbx, from and to eax
    number = b"\xb8\x28\0\0\0\xc3"  # mov eax, 40; ret
    code = object_file({"both": [push, "forty", copy, "another", add], "forty": [number]})
    module = """
declare i32 @both()
define hidden i32 @another() { ret i32 2 }
define i32 @result() {
  %x = call i32 @both()
  ret i32 %x
}"""
    objects = machine.compile_modules([code, module])
    assert objects[0] == code
    (address,) = machine.link_functions(objects, "functions_of_an_object_file", ["result"])
    assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == 42


def test_llvm_runs_in_the_same_threads_for_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of threads that ended is not reused, so that new ones for each kernel took gigabytes
    in the end."""
    threads = set[int]()

    def compile_module(_: object, text: str) -> bytes:
        threads.add(threading.get_ident())
        return text.encode()

    monkeypatch.setattr(machine._Compiler, "compile", compile_module)
    for _ in range(20):
        assert machine.compile_modules(["first", "second"]) == [b"first", b"second"]
    assert len(threads) <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of this system do not fork")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
def test_a_forked_child_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine._Compiler, "compile", lambda _, text: text.encode())
    machine.compile_modules(["code"])
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if machine.compile_modules(["code"]) == [b"code"] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
