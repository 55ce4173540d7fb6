"""Evaluates scalar programs with NumPy, on batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from artix.evaluation.scalar_builder import DTYPES
from artix.evaluation.scalar_program import Kind, Op, ScalarProgram

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
    Op.AND: np.logical_and,
    Op.OR: np.logical_or,
    Op.XOR: np.logical_xor,
    Op.NOT: np.logical_not,
    Op.SELECT: np.where,
}


def check_program(program: ScalarProgram) -> None:
    """What holds of every scalar program: operands come first, levels and signs are right, nothing is left over."""
    used = np.zeros(len(program.operations), bool)
    for number, operation in enumerate(program.operations):
        operands = program.operands[number]
        if operation == Op.INPUT:
            shape, dtype, level = program.arguments[operands[0]]
            assert 0 <= operands[1] < max(int(np.prod(shape)), 1)
            assert program.levels[number] == level and DTYPES[Kind(program.kinds[number])] == dtype
            continue
        references = operands[operands >= 0]
        assert (references >> 1 < number).all()
        used[references >> 1] = True
        assert (program.kinds[(references >> 1)[references & 1 == 1]] >= Kind.FLOAT32).all()
        assert program.levels[number] == max(program.levels[references >> 1], default=0)
        if operation == Op.CONSTANT:
            assert program.kinds[number] < Kind.FLOAT32 or not np.signbit(program.constants[number])
        else:
            assert program.constants[number] == 0
        if operation in (Op.LT, Op.LE, Op.EQ, Op.NE, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX):
            assert program.kinds[references[0] >> 1] == program.kinds[references[1] >> 1]
    for result, dtype in zip(program.results, program.result_types, strict=True):
        used[result.ravel() >> 1] = True
        assert all(DTYPES[Kind(kind)] == dtype for kind in program.kinds[result.ravel() >> 1])
    assert used.all()


def interpret(program: ScalarProgram, arguments: Sequence[Any]) -> list[np.ndarray]:
    """Results of a program, [batch, ...]; of arguments that are [batch, ...], too."""
    flat = [np.asarray(x).reshape(len(x), -1) for x in arguments]
    assert [x.dtype for x in flat] == [dtype for _, dtype, _ in program.arguments]
    batch = len(flat[0]) if flat else 1
    values: list[np.ndarray] = []

    def read(reference: int) -> np.ndarray:
        return -values[reference >> 1] if reference & 1 else values[reference >> 1]

    with np.errstate(all="ignore"):
        for number, operation in enumerate(program.operations.tolist()):
            dtype = DTYPES[Kind(program.kinds[number])]
            operands = program.operands[number].tolist()
            if operation == Op.INPUT:
                value = flat[operands[0]][:, operands[1]]
            elif operation == Op.CONSTANT:
                value = np.full(batch, program.constants[number]).astype(dtype)
            else:
                operands = [read(x) for x in operands if x >= 0]
                value = operands[0].astype(dtype) if operation == Op.CONVERT else _EVALUATED[operation](*operands)
            assert value.dtype == dtype, (Op(operation), value.dtype, dtype)
            values.append(value)
    results = []
    for result, dtype in zip(program.results, program.result_types, strict=True):
        found = np.empty((batch, result.size), dtype)
        for entry, reference in enumerate(result.ravel().tolist()):
            found[:, entry] = read(reference)
        results.append(found.reshape(batch, *result.shape))
    return results
