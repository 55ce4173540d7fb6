"""Evaluates scalar programs with NumPy, on batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from artix.compiler.scalar_program import DTYPES, Kind, Op, ScalarProgram, array_operand

_EVALUATED: dict[int, Callable[..., Any]] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.divide,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
    Op.POW: np.power,
    Op.ATAN2: np.arctan2,
    Op.SQRT: np.sqrt,
    Op.RSQRT: lambda x: 1 / np.sqrt(x),
    Op.ABS: np.abs,
    Op.SIGN: np.sign,
    Op.FLOOR: np.floor,
    Op.CEIL: np.ceil,
    Op.ROUND: np.round,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TAN: np.tan,
    Op.ASIN: np.arcsin,
    Op.ACOS: np.arccos,
    Op.ATAN: np.arctan,
    Op.SINH: np.sinh,
    Op.COSH: np.cosh,
    Op.TANH: np.tanh,
    Op.EXP: np.exp,
    Op.EXPM1: np.expm1,
    Op.LOG: np.log,
    Op.LOG1P: np.log1p,
    Op.CBRT: np.cbrt,
    Op.IS_FINITE: np.isfinite,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.AND: np.bitwise_and,
    Op.OR: np.logical_or,
    Op.XOR: np.logical_xor,
    Op.NOT: np.logical_not,
    Op.SELECT: np.where,
}


def check_program(program: ScalarProgram) -> None:
    """Checks every scalar program: operands come first, levels and signs are right, nothing is
    unused."""
    operations, operands = program.operations, program.operands
    size = len(operations)
    is_input, is_constant = operations == Op.INPUT, operations == Op.CONSTANT
    is_leaf = operations <= Op.CARRIED
    assert operands.shape == (size, 3) and program.kinds.shape == program.levels.shape == (size,)
    for number in np.flatnonzero(is_input):
        shape, dtype, level = program.arguments[operands[number, 0]]
        assert 0 <= operands[number, 1] < int(np.prod(shape))
        assert program.levels[number] == level and DTYPES[Kind(program.kinds[number])] == dtype
    arrays = [level for *_, level in program.arguments] + [0] * len(program.tables)
    there = (operands >= 0) & ~is_leaf[:, None]
    used = np.where(there, operands >> 1, 0)
    assert (np.where(there, used, -1) < np.arange(size)[:, None]).all()
    assert (
        np.where(there & (operands & 1 == 1), program.kinds[used], Kind.FLOAT32) >= Kind.FLOAT32
    ).all()
    highest = np.where(there, program.levels[used], 0).max(axis=1, initial=0)
    for number in np.flatnonzero(operations == Op.LOAD):
        assert program.kinds[used[number, 0]] == Kind.INT32
        highest[number] = max(highest[number], arrays[array_operand(operands[number, 1])])
    highest[operations == Op.LANE] = 1
    assert (is_leaf | (program.levels == highest)).all()
    assert not program.constants[~is_constant].any()
    assert not (np.signbit(program.constants) & (program.kinds >= Kind.FLOAT32)).any()
    of_two = np.isin(
        operations, [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX, Op.LT, Op.LE, Op.EQ, Op.NE]
    )
    assert (program.kinds[used[of_two, 0]] == program.kinds[used[of_two, 1]]).all()
    live = np.zeros(size, bool)
    live[used[there]] = True
    assert all(loop.parent < number for number, loop in enumerate(program.loops))
    for number, (loop, (first, after)) in enumerate(
        zip(program.loops, program.bodies, strict=True)
    ):
        own = np.flatnonzero((operations == Op.CARRIED) & (operands[:, 0] == number))
        live[np.array(loop.references) >> 1] = True
        assert (loop.length > 1 or loop.has_condition) and loop.starts.shape == loop.ends.shape
        assert len(loop.starts) == operands[own, 1].max() + 1
        assert program.nests[first] == (*program.nests[first - 1], number)
        assert (
            program.nests[after]
            == program.nests[first - 1]
            == (() if loop.parent < 0 else program.nests[first][:-1])
        )
        assert (program.stages[loop.starts >> 1] < first).all()
        assert (program.stages[loop.ends >> 1] < after).all()
        if loop.has_condition:
            assert (
                program.kinds[loop.starts[0] >> 1] == program.kinds[loop.ends[0] >> 1] == Kind.BOOL
            )
        for references in (loop.starts, loop.ends):
            entry = references[operands[own, 1]] >> 1
            assert (program.kinds[entry] == program.kinds[own]).all()
            assert (program.levels[entry] <= program.levels[own]).all()
    for result, dtype in zip(program.results, program.result_types, strict=True):
        live[result.ravel() >> 1] = True
        assert all(
            DTYPES[Kind(kind)] == dtype for kind in np.unique(program.kinds[result.ravel() >> 1])
        )
    assert live.all()


def interpret(program: ScalarProgram, arguments: Sequence[Any], lanes: int = 1) -> list[np.ndarray]:
    """The results [batch, ...] of a program for arguments [batch, ...]; the lanes of a robot are
    neighbouring rows."""
    flat = [np.asarray(x).reshape(len(x), -1) for x in arguments]
    assert [x.dtype for x in flat] == [dtype for _, dtype, _ in program.arguments]
    batch = len(flat[0]) if flat else 1
    values: dict[int, np.ndarray] = {}
    carried: dict[int, list[np.ndarray]] = {}

    def read(reference: int) -> np.ndarray:
        return -values[reference >> 1] if reference & 1 else values[reference >> 1]

    def evaluate(number: int) -> None:
        operation, dtype = int(program.operations[number]), DTYPES[Kind(program.kinds[number])]
        operands = program.operands[number].tolist()
        if operation == Op.INPUT:
            value = flat[operands[0]][:, operands[1]]
        elif operation == Op.CARRIED:
            value = carried[operands[0]][operands[1]]
        elif operation == Op.CONSTANT:
            value = np.full(batch, program.constants[number]).astype(dtype)
        elif operation == Op.LOAD:
            array = array_operand(operands[1])
            tables = program.tables[array - len(flat)][None] if array >= len(flat) else flat[array]
            index = read(operands[0]).astype(np.uint32)
            value = tables[np.arange(batch) % len(tables), np.minimum(index, tables.shape[1] - 1)]
        elif operation == Op.LANE:
            value = np.arange(batch, dtype=dtype) % lanes
        elif operation in (Op.SHUFFLE, Op.OF_LANE):
            rows, lane = np.arange(batch), np.arange(batch) % lanes
            other = lane ^ (-2 - operands[1]) if operation == Op.SHUFFLE else -2 - operands[1]
            value = read(operands[0])[rows - lane + other]
        else:
            operands = [read(x) for x in operands if x >= 0]
            value = (
                operands[0].astype(dtype)
                if operation == Op.CONVERT
                else _EVALUATED[operation](*operands)
            )
        assert value.dtype == dtype, (Op(operation), value.dtype, dtype)
        values[number] = value

    stages, nests = program.stages, program.nests

    def run(first: int, after: int, depth: int) -> None:
        """Evaluates stages that are within so many loops."""
        stage = first
        while stage < after:
            if len(nests[stage]) == depth:
                for number in np.flatnonzero(stages == stage).tolist():
                    evaluate(number)
                stage += 1
            else:
                stage = repeat(nests[stage][depth], depth + 1)

    def repeat(number: int, depth: int) -> int:
        loop, (first, after) = program.loops[number], program.bodies[number]
        carried[number] = [read(x).copy() for x in loop.starts.tolist()]
        if loop.parent >= 0 and loop.has_condition and program.loops[loop.parent].has_condition:
            carried[number][0] &= carried[loop.parent][0]
        iteration = 0
        while carried[number][0].any() if loop.has_condition else iteration < loop.length:
            run(first, after, depth)
            ends = [read(x) for x in loop.ends.tolist()]
            if loop.has_condition:
                ends = [
                    np.where(carried[number][0], *pair)
                    for pair in zip(ends, carried[number], strict=True)
                ]
            carried[number] = ends
            iteration += 1
        return after

    with np.errstate(all="ignore"):
        run(0, len(nests), 0)
    results = []
    for result, dtype in zip(program.results, program.result_types, strict=True):
        found = np.empty((batch, result.size), dtype)
        for entry, reference in enumerate(result.ravel().tolist()):
            found[:, entry] = read(reference)
        results.append(found.reshape(batch, *result.shape))
    return results
