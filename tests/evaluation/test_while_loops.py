"""Loops whose number of iterations is data: kernels repeat them until all robots of a vector are done."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import artix
from artix.evaluation import kernels, scalar_evaluation
from artix.evaluation.compilation import scalars_of
from artix.evaluation.kernels.gpu_layout import Layout, Mapped
from artix.evaluation.operation import levels_of
from artix.evaluation.scalar_builder import UnsupportedOperation
from artix.evaluation.scalar_program import Op
from artix.evaluation.scalar_schedule import depth_first, fewest_live
from artix.evaluation.scalarize import scalarize
from tests.support.gpu_threads import run_threads
from tests.support.programs import programs_in
from tests.support.scalar_interpreter import check_program, interpret

SIZE = 5
_ROOM = np.random.default_rng(0).normal(size=(SIZE, SIZE))
_numbers = itertools.count()


# Functions of x and y, of SIZE entries each. How often they iterate does not depend on how sums are rounded.


def _count(x):
    """How often a robot iterates: 0 to 13 times."""
    return jnp.clip(jnp.floor(4 * jnp.abs(x[0])), 0, 12).astype(jnp.int32) - (x[1] > 1).astype(jnp.int32)


def _recurrence(x, y):
    """A body of several functions, which needs what is computed before the loop, as does what follows it."""
    matrix, count = (jnp.asarray(_ROOM, x.dtype) + jnp.outer(y, y)) / SIZE, _count(x)

    def body(carry):
        z, k = carry
        return jnp.tanh(matrix @ z) + y * jnp.sin(z[::-1]), k + 1

    z, k = lax.while_loop(lambda carry: carry[1] < count, body, (x, jnp.int32(0)))
    return z, -z, matrix @ z + y, k


def _swap(x, y):
    """Entries that change places, and one that stays; two conditions."""

    def body(carry):
        first, second, third, kept, k = carry
        return -second, first + 0.5 * third * kept, first - third, kept, k + 1

    start = x, y, x * y, jnp.cos(y), _count(y) - 3
    return lax.while_loop(lambda carry: (carry[4] < 3) & (carry[4] < _count(x)), body, start)


def _kinds(x, y):
    """Carries integers and bools, and indexes carried arrays, also where it writes."""

    def body(carry):
        total, is_large, order, k = carry
        place = order[jnp.clip(k, 0, SIZE - 1)]
        new = total.at[place].add(jnp.where(is_large[place], -y[place], 0.5 * x[(k & 3) + 1]))
        return new, new > 1, jnp.roll(order, 1).at[0].set(order[-1]), k + 1

    order = jnp.argsort(jnp.asarray([3, 0, 4, 1, 2])).astype(jnp.int32)
    start = x, jnp.zeros(SIZE, bool), order, jnp.int32(0)
    return lax.while_loop(lambda carry: ~carry[1].all() & (carry[3] < _count(y)), body, start)


def _nested(x, y):
    """A loop of either kind within one whose end is data, and one after the other."""

    def outer(carry):
        z, k = carry
        w, _ = lax.while_loop(lambda c: c[1] <= (k & 1), lambda c: (jnp.sin(c[0]) + z, c[1] + 1), (0.5 * z, jnp.int32(0)))
        v, _ = lax.scan(lambda v, _: (0.5 * jnp.sin(v) + w, None), w * y, length=4)
        u, _ = lax.while_loop(lambda c: c[1] < _count(y) - k, lambda c: (0.3 * c[0] + v, c[1] + 1), (v, jnp.int32(0)))
        return lax.cond((k & 1) == 0, lambda u: 0.3 * u, lambda u: x - u, u), k + 1

    return lax.while_loop(lambda carry: carry[1] < _count(x), outer, (x, jnp.int32(0)))


def _within_scan(x, y):
    """Loops whose end is data within one whose end is known."""

    def step(carry, _):
        z, n = carry
        w, k = lax.while_loop(lambda c: c[1] < n, lambda c: (0.2 * jnp.cos(c[0]) * y, c[1] + 1), (z, jnp.int32(0)))
        return (0.5 * w + x, _count(y) - k), None

    return lax.scan(step, (x, _count(x)), length=6)[0], lax.scan(step, (y, _count(y)), length=3)[0]


def _of_one(x, y):
    """A loop over one argument, whose end a loop over both needs."""
    first, k = lax.while_loop(lambda c: c[1] < _count(x), lambda c: (jnp.sin(c[0]) + x, c[1] + 1), (x, jnp.int32(0)))
    return first, lax.while_loop(lambda c: c[1] < _count(y), lambda c: (0.5 * c[0] + first, c[1] + 1), (y, k - k))[0]


_FUNCTIONS = (_recurrence, _swap, _kinds, _nested, _within_scan, _of_one)
_NUM_LOOPS = {_nested: 4, _within_scan: 4, _of_one: 2}


@pytest.fixture
def _loops_are_kept(monkeypatch):
    monkeypatch.setattr(scalar_evaluation, "_MAX_UNROLLED", 0)


def _closed(function, dtype):
    example = jax.ShapeDtypeStruct((SIZE,), dtype)
    return jax.make_jaxpr(lambda *arguments: jax.tree.leaves(function(*arguments)))(example, example)


def _arguments(batch, dtype, seed=1):
    return [2 * x for x in np.random.default_rng(seed).normal(size=(2, *batch, SIZE)).astype(dtype)]


def _assert_close(found, expected, dtype):
    tolerance = 1e-11 if dtype == "float64" else 2e-4
    for one, wanted in zip(found, jax.tree.leaves(expected), strict=True):
        assert one.dtype == wanted.dtype
        np.testing.assert_allclose(one, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", _FUNCTIONS)
@pytest.mark.usefixtures("_loops_are_kept")
def test_scalar_programs(function):
    """By NumPy, in any order."""
    with jax.enable_x64(True):
        program = scalarize(_closed(function, "float64"), [1, 1], {})
        arguments = _arguments((29,), "float64")
        expected = jax.vmap(function)(*arguments)
        assert len(program.loops) == _NUM_LOOPS.get(function, 1)
        assert any(loop.has_condition for loop in program.loops)
        for each in (program, depth_first(program), fewest_live(program)):
            check_program(each)
            assert (np.diff(each.stages[each.operations > Op.CONSTANT]) >= 0).all() or each is program
            _assert_close(interpret(each, arguments), expected, "float64")


def _run_on_cpu(program, arguments, levels, lead):
    name = f"test_while_loop_{next(_numbers)}"
    kernels.load(kernels.build(program), name)
    types = zip(program.results, program.result_types, strict=True)
    results = [jax.ShapeDtypeStruct((*lead, *x.shape), dtype) for x, dtype in types]
    return jax.ffi.ffi_call(name, results)(*arguments)


def _run_on_gpu(program, arguments, levels, lead):
    """A GPU's kernel, thread after thread."""
    mapped = [Mapped(level >= 1, level == 2) for level in levels]
    return run_threads(Layout(fewest_live(program), mapped, len(lead) == 2), arguments, *lead)


_LEVELS = [(1, 1), (0, 0), (0, 1), (1, 2), (2, 1)]


@pytest.mark.parametrize("run", [_run_on_cpu, _run_on_gpu])
@pytest.mark.parametrize(
    ("function", "levels", "dtype"),
    [
        *((function, (1, 1), "float64") for function in _FUNCTIONS),
        *((_nested, levels, "float64") for levels in _LEVELS[1:]),
        *((_of_one, levels, "float64") for levels in _LEVELS[1:]),
        *((_kinds, levels, "float32") for levels in ((1, 1), (0, 1))),
        *(
            pytest.param(function, levels, dtype, marks=pytest.mark.slow)
            for function in _FUNCTIONS
            for levels in _LEVELS
            for dtype in ("float32", "float64")
        ),
    ],
)
@pytest.mark.usefixtures("_loops_are_kept")
def test_kernels(run, function, levels, dtype):
    """Also of items, whose loops may be those of their robots, of all robots, or their own."""
    with jax.enable_x64(True):
        program = scalarize(_closed(function, dtype), levels, {})
        leading = [(), (37,), (37, 3)]
        lead = leading[max(1, *levels)]
        arguments = [_arguments(leading[level], dtype)[number] for number, level in enumerate(levels)]
        found = run(program, arguments, levels, lead)
        full = [
            np.broadcast_to(x if level != 1 or len(lead) == 1 else x[:, None], (*lead, SIZE))
            for x, level in zip(arguments, levels, strict=True)
        ]
        for _ in lead:
            function = jax.vmap(function)
        _assert_close(found, function(*full), dtype)


# Functions of users


def _kepler(mean_anomaly, eccentricity, cap=20):
    """The eccentric anomaly by Newton's method, the last correction and the number of iterations."""

    def body(carry):
        anomaly, _, k = carry
        slope = 1 - eccentricity * jnp.cos(anomaly)
        step = (anomaly - eccentricity * jnp.sin(anomaly) - mean_anomaly) / slope
        return anomaly - step, jnp.abs(step), k + 1

    tolerance = 4 * jnp.finfo(mean_anomaly.dtype).eps
    start = mean_anomaly, jnp.full_like(mean_anomaly, jnp.inf), jnp.int32(0)
    return lax.while_loop(lambda carry: (carry[1] > tolerance) & (carry[2] < cap), body, start)


@jax.custom_jvp
def _anomaly(mean_anomaly, eccentricity):
    return _kepler(mean_anomaly, eccentricity)[0]


@_anomaly.defjvp
def _anomaly_jvp(primals, tangents):
    eccentricity, anomaly = primals[1], _anomaly(*primals)
    change = (tangents[0] + jnp.sin(anomaly) * tangents[1]) / (1 - eccentricity * jnp.cos(anomaly))
    return anomaly, change


def _orbits(count, dtype):
    rng = np.random.default_rng(5)
    mean_anomaly, eccentricity = rng.uniform(-3, 3, count), rng.uniform(0, 0.9, count)
    eccentricity[::7] = 0  # Two iterations: the second finds that the first was enough.
    return jnp.asarray(mean_anomaly, dtype), jnp.asarray(eccentricity, dtype)


def _is_kernel(function, *arguments):
    programs = [equation.params for equation in programs_in(function, *arguments)]
    return bool(programs) and all(
        scalars_of(each["program"], levels_of(each["axes"], len(each["program"].traced))) for each in programs
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 3, 16, 31, 1024])
def test_batches(count, dtype):
    """Each robot gets, bit for bit, what it gets alone."""
    with jax.enable_x64(dtype == "float64"):
        solve = artix.quantity(_kepler)
        orbits = _orbits(count, dtype)
        together = jax.jit(jax.vmap(solve))(*orbits)
        alone = jax.jit(solve)
        for k in [*range(min(count, 4)), *range(max(0, count - 3), count)]:
            for one, all_ in zip(alone(*(x[k] for x in orbits)), together, strict=True):
                np.testing.assert_array_equal(one, all_[k])
        anomaly, _, iterations = map(np.asarray, together)
        residual = anomaly - np.asarray(orbits[1]) * np.sin(anomaly) - np.asarray(orbits[0])
        assert np.abs(residual).max() < 8 * np.finfo(dtype).eps and iterations.max() < 20
        assert count < 16 or len(np.unique(iterations)) > 2
        with artix.use_kernels(False):
            by_xla = jax.jit(jax.vmap(artix.quantity(_kepler)))(*orbits)
        np.testing.assert_allclose(anomaly, by_xla[0], rtol=0, atol=16 * np.finfo(dtype).eps)
