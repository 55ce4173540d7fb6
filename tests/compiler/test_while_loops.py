"""Loops whose number of iterations is data: kernels repeat them until all robots of a vector are
done."""

from __future__ import annotations

import functools
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
from artix.compiler import compilation, kernels, scalar_evaluation
from artix.compiler.compilation import scalars_of
from artix.compiler.kernels import cpu
from artix.compiler.kernels.gpu import GpuModule
from artix.compiler.kernels.gpu_layout import Layout, Mapped
from artix.compiler.kernels.machine import binding
from artix.compiler.kernels.plan import Plan
from artix.compiler.scalar_order import depth_first, fewest_live
from artix.compiler.scalar_program import Op, UnsupportedOperation
from artix.compiler.scalarize import scalarize
from tests.support.gpu_threads import run_threads
from tests.support.programs import programs_in
from tests.support.scalar_interpreter import check_program, interpret

SIZE = 5
_ROOM = np.random.default_rng(0).normal(size=(SIZE, SIZE))
_numbers = itertools.count()


# Functions of x and y, of SIZE entries each. How often they iterate does not depend on how sums are
# rounded.


def _count(x):
    """How often a robot iterates: 0 to 13 times."""
    return jnp.clip(jnp.floor(4 * jnp.abs(x[0])), 0, 12).astype(jnp.int32) - (x[1] > 1).astype(
        jnp.int32
    )


def _recurrence(x, y):
    """A body of several functions, which needs what is computed before the loop, as does what
    follows it."""
    y = jnp.sin(y)  # Or rounding errors would grow.
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
        w, _ = lax.while_loop(
            lambda c: c[1] <= (k & 1),
            lambda c: (jnp.sin(c[0]) + z, c[1] + 1),
            (0.5 * z, jnp.int32(0)),
        )
        v, _ = lax.scan(lambda v, _: (0.5 * jnp.sin(v) + w, None), w * y, length=4)
        u, _ = lax.while_loop(
            lambda c: c[1] < _count(y) - k, lambda c: (0.3 * c[0] + v, c[1] + 1), (v, jnp.int32(0))
        )
        return lax.cond((k & 1) == 0, lambda u: 0.3 * u, lambda u: x - u, u), k + 1

    return lax.while_loop(lambda carry: carry[1] < _count(x), outer, (x, jnp.int32(0)))


def _within_scan(x, y):
    """Loops whose end is data within one whose end is known."""

    def step(carry, _):
        z, n = carry
        w, k = lax.while_loop(
            lambda c: c[1] < n, lambda c: (0.2 * jnp.cos(c[0]) * y, c[1] + 1), (z, jnp.int32(0))
        )
        return (0.5 * w + x, _count(y) - k), None

    return lax.scan(step, (x, _count(x)), length=6)[0], lax.scan(step, (y, _count(y)), length=3)[0]


def _of_one(x, y):
    """A loop over one argument, whose end a loop over both needs."""
    first, k = lax.while_loop(
        lambda c: c[1] < _count(x), lambda c: (jnp.sin(c[0]) + x, c[1] + 1), (x, jnp.int32(0))
    )
    return first, lax.while_loop(
        lambda c: c[1] < _count(y), lambda c: (0.5 * c[0] + first, c[1] + 1), (y, k - k)
    )[0]


def _chained(x, y):
    """Loops that begin with what another loop ends with, or with what only they need."""

    def turn(z, w, n):
        ends = lax.while_loop(
            lambda c: c[1] < n, lambda c: (0.5 * jnp.sin(c[0]) + y, c[1] + 1), (2 * z, n - 2)
        )
        z, m = lax.while_loop(
            lambda c: c[1] < _count(x), lambda c: (0.5 * c[0] - w, c[1] + 2), (ends[0], n - n)
        )
        begin = z, w, n - n
        return lax.while_loop(
            lambda c: c[2] < m, lambda c: (0.2 * c[0] * y, 0.5 * c[1] + x, c[2] + 3), begin
        )

    def body(carry):
        z, w, _ = turn(*carry)
        return z, 0.1 * w, carry[2] - 1

    return lax.while_loop(lambda c: c[2] > 0, body, (x, y, _count(x)))[:2]


def _of_rows(x, y):
    """As often for each row as that one asks for: ``vmap`` makes a loop of three conditions."""
    counts = _count(x) + jnp.arange(3, dtype=jnp.int32)

    def of_row(row, count):
        return lax.while_loop(
            lambda carry: carry[1] < count,
            lambda carry: (jnp.tanh(carry[0] + row), carry[1] + 1),
            (row * y, jnp.int32(0)),
        )

    return jax.vmap(of_row)(jnp.stack([x, y, x - y]), counts)


def _of_known_rows(x, y):
    """The same, where how often is known before it is computed, in two dimensions."""

    def of_entry(entry, count, other):
        return lax.while_loop(
            lambda carry: carry[1] < count,
            lambda carry: (jnp.tanh(carry[0] + entry), carry[1] + other),
            (entry, jnp.int32(0)),
        )

    of_row = jax.vmap(of_entry, (0, 0, None))
    counts = np.array([0, 3, 1, 5, 2], np.int32)
    return jax.vmap(of_row, (None, None, 0))(x * y, counts, np.array([1, 2], np.int32))


_FUNCTIONS = (
    _recurrence,
    _swap,
    _kinds,
    _nested,
    _within_scan,
    _of_one,
    _chained,
    _of_rows,
    _of_known_rows,
)
_NUM_LOOPS = {_nested: 4, _within_scan: 4, _of_one: 2, _chained: 4}


@pytest.fixture
def _loops_are_kept(monkeypatch):
    monkeypatch.setattr(scalar_evaluation, "_MAX_UNROLLED", 0)


def _closed(function, dtype):
    example = jax.ShapeDtypeStruct((SIZE,), dtype)
    return jax.make_jaxpr(lambda *arguments: jax.tree.leaves(function(*arguments)))(
        example, example
    )


def _arguments(batch, dtype, seed=1):
    return [2 * x for x in np.random.default_rng(seed).normal(size=(2, *batch, SIZE)).astype(dtype)]


@functools.cache
def _by_xla(function, num_axes):
    """The function of batches, which many tests ask for: their loops are compiled once."""
    for _ in range(num_axes):
        function = jax.vmap(function)
    return jax.jit(function)


def _assert_close(computed, expected, dtype):
    tolerance = 1e-11 if dtype == "float64" else 2e-4
    for one, wanted in zip(computed, jax.tree.leaves(expected), strict=True):
        assert one.dtype == wanted.dtype
        np.testing.assert_allclose(one, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", _FUNCTIONS)
@pytest.mark.usefixtures("_loops_are_kept")
def test_scalar_programs(function):
    """By NumPy, in any order."""
    with jax.enable_x64(True):
        program = scalarize(_closed(function, "float64"), [1, 1], {})
        arguments = _arguments((29,), "float64")
        expected = _by_xla(function, 1)(*arguments)
        assert len(program.loops) == _NUM_LOOPS.get(function, 1)
        assert any(loop.has_condition for loop in program.loops)
        for each in (program, depth_first(program), fewest_live(program)):
            check_program(each)
            assert (
                np.diff(each.stages[each.operations > Op.CONSTANT]) >= 0
            ).all() or each is program
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
        arguments = [
            _arguments(leading[level], dtype)[number] for number, level in enumerate(levels)
        ]
        computed = run(program, arguments, levels, lead)
        full = [
            np.broadcast_to(x if level != 1 or len(lead) == 1 else x[:, None], (*lead, SIZE))
            for x, level in zip(arguments, levels, strict=True)
        ]
        _assert_close(computed, _by_xla(function, len(lead))(*full), dtype)


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.usefixtures("_loops_are_kept")
def test_narrower_vectors(size, monkeypatch):
    """Flags of 2 to 8 lanes."""
    monkeypatch.setattr(cpu, "vector_bytes", lambda: size)
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            arguments = _arguments((11,), dtype)
            computed = _run_on_cpu(
                scalarize(_closed(_nested, dtype), (1, 1), {}), arguments, (1, 1), (11,)
            )
            _assert_close(computed, _by_xla(_nested, 1)(*arguments), dtype)


@pytest.mark.usefixtures("_loops_are_kept")
def test_modules_are_well_formed():
    """LLVM does not check modules unless asked to: whether values are computed wherever they are
    needed."""
    llvm = binding()
    for function, levels in itertools.product((_nested, _within_scan), ((1, 1), (1, 2))):
        program = fewest_live(scalarize(_closed(function, "float32"), levels, {}))
        mapped = [Mapped(level >= 1, level == 2) for level in levels]
        texts = [module for module in cpu.modules(program) if isinstance(module, str)]
        for text in [*texts, GpuModule(Layout(program, mapped, 2 in levels)).text()]:
            llvm.parse_assembly(text, llvm.create_context()).verify()


# Functions of users


def _kepler(mean_anomaly, eccentricity, cap=20):
    """The eccentric anomaly by Newton's method, the last correction and the number of
    iterations."""

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


def _calls(function, *arguments):
    """How many kernels a function calls, and how many loops are XLA's."""
    text = jax.jit(function).lower(*arguments).as_text()
    return text.count("custom_call @artix_"), text.count("stablehlo.while")


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


def test_programs_too_large_for_a_kernel(monkeypatch):
    """XLA evaluates them block by block."""
    orbits = _orbits(3000, "float32")
    expected = jax.jit(jax.vmap(artix.quantity(_kepler)))(*orbits)
    monkeypatch.setattr(compilation, "MAX_OPERATIONS", 3)
    function = jax.vmap(artix.quantity(lambda *orbit: _kepler(*orbit)))
    assert _calls(function, *orbits)[0] == 0
    np.testing.assert_allclose(jax.jit(function)(*orbits)[0], expected[0], rtol=0, atol=2e-6)


def test_lanes_end_by_themselves():
    """After 0, 1 or many iterations, at the cap or with NaN; what did not iterate is unchanged."""

    @artix.quantity
    def halve(x):
        return lax.while_loop(
            lambda c: (c[0] > 1) & (c[1] < 40), lambda c: (c[0] / 2, c[1] + 1), (x, jnp.int32(0))
        )

    x = np.tile(
        np.array([-3, 0.5, 1, 1.5, 2, 1e6, np.nan, np.inf, 2.0**39, 2.0**41], np.float32), 10
    )
    expected = np.tile(np.array([0, 0, 0, 1, 1, 20, 0, 40, 39, 40], np.int32), 10)
    for count in (100, 17, 1):
        halved, iterations = jax.jit(jax.vmap(halve))(x[:count])
        np.testing.assert_array_equal(iterations, expected[:count])
        np.testing.assert_array_equal(halved, x[:count] / np.float32(2) ** expected[:count])


def test_lanes_past_the_end_do_not_iterate():
    """A block's missing robots have the numbers of its last one. With others, this loop would not
    end."""

    @artix.quantity
    def down(x):
        return lax.while_loop(lambda c: c != 0, lambda c: c - 1, x)

    for count in (1, 3, 17):
        np.testing.assert_array_equal(
            jax.jit(jax.vmap(down))(jnp.full(count, 5.0, "float32")), np.zeros(count)
        )


@pytest.mark.parametrize("run", [_run_on_cpu, _run_on_gpu])
def test_branches_not_taken_do_not_iterate(run):
    """In none of these would the loop end."""

    def endless(x):
        return lax.while_loop(lambda c: c != 0, lambda c: c - jnp.sign(c), x)

    def function(x, n):
        of_two = lax.cond(x == jnp.floor(x), endless, lambda x: 2 * x, x)
        of_three = lax.switch(
            n, [lambda x: -x, lambda x: 2 * endless(endless(jnp.floor(x)) + 3) + x, jnp.abs], x
        )
        return of_two, of_three

    x = np.array([3, 0.5, -2.25, 0, 5, 1e-3, 7], np.float32)
    n = np.array([-1, 0, 1, 2, 3, 1, 0], np.int32)
    closed = jax.make_jaxpr(function)(x[0], n[0])
    of_two, of_three = run(scalarize(closed, [1, 1], {}), [x, n], [1, 1], (7,))
    np.testing.assert_array_equal(of_two, np.where(x == np.floor(x), 0, 2 * x))
    np.testing.assert_array_equal(of_three, np.where(n <= 0, -x, np.where(n == 1, x, np.abs(x))))


def test_where_derivatives_have_their_own_rule():
    """Values are a loop, derivatives are not; all of it is one kernel, also within a loop whose end
    is known."""
    solve = artix.quantity(lambda mean_anomaly, eccentricity: _anomaly(mean_anomaly, eccentricity))

    def after_some(mean_anomaly, eccentricity):
        return lax.scan(lambda m, _: (_anomaly(m, eccentricity) / 2, None), mean_anomaly, length=5)[
            0
        ]

    kept = artix.quantity(after_some)
    with jax.enable_x64(True):
        orbits = _orbits(37, "float64")
        anomaly = np.asarray(jax.vmap(solve)(*orbits))
        slope = 1 - np.asarray(orbits[1]) * np.cos(anomaly)
        exact = [1 / slope, np.sin(anomaly) / slope]
        functions = {
            "grad": jax.grad(solve, (0, 1)),
            "jacfwd": jax.jacfwd(solve, (0, 1)),
            "checkpoint": jax.grad(jax.checkpoint(solve), (0, 1)),
        }
        for name, function in functions.items():
            assert _calls(jax.vmap(function), *orbits) == (1, 0), name
            for computed, wanted in zip(jax.jit(jax.vmap(function))(*orbits), exact, strict=True):
                np.testing.assert_allclose(computed, wanted, rtol=1e-12, atol=1e-12, err_msg=name)
        assert _calls(jax.vmap(jax.hessian(solve, (0, 1))), *orbits) == (1, 0)
        changes = jax.vmap(lambda *x: jax.jvp(solve, x, (1.0, 2.0))[1])(*orbits)
        np.testing.assert_allclose(changes, exact[0] + 2 * exact[1], rtol=1e-12, atol=1e-12)

        def rollout(*x):
            return lax.scan(lambda m, _: (solve(m, x[1]) / 2, None), x[0], length=5)[0]

        gradient = jax.vmap(jax.grad(kept, (0, 1)))
        assert _calls(gradient, *orbits) == (1, 0)
        assert _calls(jax.vmap(jax.grad(rollout, (0, 1))), *orbits) == (
            2,
            2,
        )  # XLA's loops around a kernel each
        gradients = gradient(*orbits), jax.vmap(jax.grad(rollout, (0, 1)))(*orbits)
        for place, (one, other) in enumerate(zip(*gradients, strict=True)):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            more, less = (
                kept(*(x[3] + h * (k == place) for k, x in enumerate(orbits)))
                for h in (1e-6, -1e-6)
            )
            np.testing.assert_allclose(one[3], (more - less) / 2e-6, rtol=1e-7)


def _fixed_point(function, start, tolerance):
    """Where a contraction leads to."""

    def body(carry):
        x = function(carry[0])
        return x, jnp.max(jnp.abs(x - carry[0])), carry[2] + 1

    def condition(carry):
        return (carry[1] > tolerance) & (carry[2] < 100)

    return lax.while_loop(condition, body, (start, jnp.full_like(start[0], jnp.inf), jnp.int32(0)))[
        0
    ]


def _residual(x, y):
    return x + 0.3 * jnp.tanh(x[::-1]) * y - jnp.sin(y)


@jax.custom_jvp
def _root(y):
    return _fixed_point(lambda x: x - _residual(x, y), jnp.zeros_like(y), 1e-14)


@_root.defjvp
def _root_jvp(primals, tangents):
    x = _root(*primals)
    jacobian = jax.jacfwd(_residual)(x, *primals)
    change = jax.jvp(lambda y: _residual(x, y), primals, tangents)[1]

    def solve(matvec, right):
        return _fixed_point(lambda z: z + right - matvec(z), right, 1e-15)

    return x, lax.custom_linear_solve(lambda z: jacobian @ z, -change, solve, solve)


def test_values_of_a_jacobian_iterate_once():
    """The loop is one of the robot, not of its tangents."""
    solve = artix.quantity(lambda mean_anomaly, eccentricity: _anomaly(mean_anomaly, eccentricity))
    equation = programs_in(jax.jacfwd(solve, (0, 1)), jnp.float32(1), jnp.float32(0.5))[-1]
    program = scalars_of(equation.params["program"], (1, 1, 2, 2))
    assert program.levels_of_loops == [1] and set(program.levels.tolist()) >= {1, 2}


def test_tangents_that_iterate():
    """A linear equation whose solution, forwards and transposed, is a loop as well."""
    with jax.enable_x64(True):
        solve, points = (
            artix.quantity(lambda y: _root(y)),
            jnp.asarray(_arguments((19,), "float64")[0]),
        )
        jacobian, gradient = (
            jax.vmap(jax.jacfwd(solve)),
            jax.vmap(jax.grad(lambda y: jnp.sum(solve(y)))),
        )
        assert _calls(jacobian, points) == _calls(gradient, points) == (1, 0)
        computed = np.asarray(jacobian(points))
        np.testing.assert_allclose(gradient(points), computed.sum(axis=1), rtol=1e-11, atol=1e-12)
        more, less = (jax.vmap(solve)(points + h * np.eye(SIZE)[1]) for h in (1e-5, -1e-5))
        np.testing.assert_allclose(computed[:, :, 1], (more - less) / 2e-5, rtol=1e-7, atol=1e-8)


def test_without_a_rule():
    """As in JAX, tangents go forward through a loop, and nothing goes back."""
    plain = artix.quantity(lambda *orbit: _kepler(*orbit)[0])
    orbits = _orbits(9, "float32")
    slope = 1 - orbits[1] * jnp.cos(jax.vmap(plain)(*orbits))
    assert _calls(jax.vmap(jax.jacfwd(plain)), *orbits) == (1, 0)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(plain))(*orbits), 1 / slope, rtol=1e-4)
    with pytest.raises(
        ValueError, match=r"Reverse-mode differentiation does not work for lax\.while_loop"
    ):
        jax.vmap(jax.grad(plain))(*orbits)


def _acceleration(robot, state):
    """Of a robot without forces: steepest descent with as many steps as its mass matrix needs, and
    their number."""
    matrix, force = artix.mass_matrix(robot, state), -artix.bias_force(robot, state)

    def body(carry):
        x, rest, k = carry
        along = matrix @ rest
        length = rest @ rest / (rest @ along)
        return x + length * rest, rest - length * along, k + 1

    start = jnp.zeros_like(force), force, jnp.int32(0)
    x, _, k = lax.while_loop(lambda c: (c[1] @ c[1] > 1e-18) & (c[2] < 500), body, start)
    return x, k


def test_fleets_of_kinds():
    """Robots of two kinds in one kernel, each with its own number of iterations."""
    robots = [artix.robots.load(name, dtype="float64") for name in ("cart_pole", "double_pendulum")]
    fleet = artix.Fleet([robots[k % 2] for k in range(21)])
    state = fleet.random_state(jax.random.key(0))
    computed, iterations = jax.jit(lambda state: fleet.evaluate(_acceleration, state))(state)
    assert _calls(lambda state: fleet.evaluate(_acceleration, state), state) == (1, 0)
    expected = fleet.evaluate(artix.forward_dynamics, state, jnp.zeros((21, computed.shape[1])))
    np.testing.assert_allclose(computed, expected, rtol=1e-6, atol=1e-7)
    assert len(np.unique(iterations)) > 2 and iterations.max() < 500


def test_explain():
    """Operations of a loop count once, and are named."""
    (cost,) = artix.explain(
        artix.quantity(_acceleration), artix.robots.load("cart_pole")
    ).operations
    assert cost.refusal is None and 0 < cost.until_done < sum(cost.operations)
    assert f"until done: {cost.until_done} of these" in str(cost)
    (cost,) = artix.explain(artix.mass_matrix, artix.robots.load("cart_pole")).operations
    assert cost.until_done == 0 and "until done" not in str(cost)


def test_bodies_are_evaluated_few_times(monkeypatch):
    """Loops three deep: the innermost body four times, not once for each trial of each loop around
    it."""
    counts = {"innermost": 0}

    def loop(body, x):
        def step(carry):
            new = body(carry[0])
            return new, jnp.max(jnp.abs(new - carry[0])), carry[2] + 1

        start = x, jnp.asarray(jnp.inf, x.dtype), jnp.int32(0)
        return lax.while_loop(lambda carry: (carry[1] > 1e-6) & (carry[2] < 20), step, start)[0]

    def function(x, y):
        def middle(z):
            return 0.3 * loop(lambda w: 0.5 * jnp.tan(jnp.sin(w)) + y, z) + 0.2 * z

        return loop(lambda z: 0.3 * loop(middle, z) + x, x)

    rule = scalar_evaluation.symbolic_rule

    def counted(equation):
        apply = rule(equation)
        if equation.primitive.name != "tan":
            return apply

        def counting(*arguments):
            counts["innermost"] += 1
            return apply(*arguments)

        return counting

    monkeypatch.setattr(scalar_evaluation, "symbolic_rule", counted)
    program = scalarize(_closed(function, "float32"), [1, 1], {})
    assert [loop.parent for loop in program.loops] == [-1, 0, 1] and np.sum(
        program.operations == Op.TAN
    ) == SIZE
    assert counts["innermost"] == 4


@pytest.mark.usefixtures("_loops_are_kept")
def test_what_only_starts_a_loop_is_not_copied():
    """It is in the loop's memory from the beginning, also if it comes from another loop; conditions
    and counters are copied."""
    plan = Plan(depth_first(scalarize(_closed(_chained, "float32"), [1, 1], {})), 8)
    copied = [len(plan.starts(number)) for number in range(len(plan.program.loops))]
    assert [len(loop.starts) for loop in plan.program.loops] == [
        2 + 2 * SIZE,
        2 + SIZE,
        2 + SIZE,
        2 + 2 * SIZE,
    ]
    assert copied == [2 + 2 * SIZE, 2, 2, 2 + SIZE]


def test_long_known_loops_are_kept(monkeypatch):
    """A condition that is known is evaluated, and the loop unrolled, as long as that makes few
    scalars."""

    def function(x, y):
        return lax.while_loop(
            lambda c: c[1] < 50, lambda c: (jnp.sin(c[0]) + y, c[1] + 1), (x, jnp.int32(0))
        )[0]

    closed = _closed(function, "float32")
    unrolled = scalarize(closed, [1, 1], {})
    monkeypatch.setattr(scalar_evaluation, "_MAX_UNROLLED", 100)
    kept = scalarize(closed, [1, 1], {})
    assert not unrolled.loops and unrolled.size == 50 * 2 * SIZE
    assert len(kept.loops) == 1 and kept.size == 2 * SIZE + 2
    arguments = _arguments((3,), "float32")
    for one, other in zip(interpret(kept, arguments), interpret(unrolled, arguments), strict=True):
        np.testing.assert_array_equal(one, other)


def test_counters_of_64_bits_have_no_kernel():
    with jax.enable_x64(True):
        function = partial(lax.while_loop, lambda c: c[1] > 2.0, lambda c: (c[0] + 1, 0.5 * c[1]))
        closed = jax.make_jaxpr(lambda x: function((jnp.int64(0), x)))(np.float64(1))
        with pytest.raises(UnsupportedOperation, match="scalars of int64"):
            scalarize(closed, [1], {})


# Random programs. Their arithmetic is exact, so that conditions may compare its results.


def _expression(rng, kind, depth):
    """A random expression of a float, integer or bool: an operation with its operands."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(
            {"f": ["a", "b", "x", 0.5, -1.0, 0.0], "i": ["n", "n", 1, -2], "b": ["p", "p", True]}[
                kind
            ]
        )
    name, kinds = rng.choice(
        {
            "f": [
                ("add", "ff"),
                ("sub", "ff"),
                ("half", "f"),
                ("min", "ff"),
                ("max", "ff"),
                ("where", "bff"),
            ],
            "i": [("add", "ii"), ("sub", "ii"), ("where", "bii"), ("clip", "i")],
            "b": [
                ("less", "ff"),
                ("less", "ii"),
                ("and", "bb"),
                ("or", "bb"),
                ("not", "b"),
                ("where", "bbb"),
            ],
        }[kind]
    )
    return name, *(_expression(rng, each, depth - 1) for each in kinds)


_OPERATIONS = {
    "add": lambda xp, x, y: x + y,
    "sub": lambda xp, x, y: x - y,
    "half": lambda xp, x: x * 0.5,
    "min": lambda xp, x, y: xp.minimum(x, y),
    "max": lambda xp, x, y: xp.maximum(x, y),
    "clip": lambda xp, x: xp.clip(x, np.int32(-2), np.int32(3)),
    "where": lambda xp, x, y, z: xp.where(x, y, z),
    "less": lambda xp, x, y: x < y,
    "and": lambda xp, x, y: x & y,
    "or": lambda xp, x, y: x | y,
    "not": lambda xp, x: ~x,
}
_TYPES = {float: np.float64, int: np.int32, bool: np.bool_}


def _value(xp, expression, values):
    if isinstance(expression, str):
        return values[expression]
    if not isinstance(expression, tuple):
        return xp.asarray(expression, _TYPES[type(expression)])
    name, *operands = expression
    return _OPERATIONS[name](xp, *(_value(xp, each, values) for each in operands))


def _random_loop(rng, depth):
    """A cap, a condition, the loops in the body, and what follows them there."""
    loops = [
        _random_loop(rng, depth - 1)
        for _ in range(rng.choice([1, 2] if depth == 2 else [0, 1]) if depth else 0)
    ]
    body = {name: _expression(rng, kind, 3) for name, kind in zip("abnp", "ffib", strict=True)}
    return rng.randrange(1, 5), _expression(rng, "b", 2), loops, body


def _run(xp, loop, values):
    cap, condition, loops, body = loop
    names = [*"abnp"]

    def continues(carry):
        return (carry[4] < cap) & _value(
            xp, condition, values | dict(zip(names, carry, strict=False))
        )

    def following(carry):
        new = values | dict(zip(names, carry, strict=False))
        for inner in loops:
            new = _run(xp, inner, new)
        return [*(_value(xp, body[name], new) for name in names), carry[4] + np.int32(1)]

    carry = [*(values[name] for name in names), xp.asarray(0, np.int32)]
    if xp is jnp:
        carry = lax.while_loop(continues, following, carry)
    else:
        while continues(carry):
            carry = following(carry)
    return values | dict(zip(names, carry, strict=False))


def _check_random_loops(rng):
    loop, count = _random_loop(rng, 2), 21
    draws = np.random.default_rng(rng.randrange(1 << 30))
    rows = [
        *(draws.integers(-12, 12, (3, count)) / 4),
        draws.integers(-3, 3, count).astype("int32"),
    ]
    rows.append(draws.random(count) < 0.5)

    def function(a, b, x, n, p):
        values = _run(jnp, loop, {"a": a, "b": b, "x": x, "n": n, "p": p})
        return [values[name] for name in "abnp"]

    with jax.enable_x64(True):
        program = scalarize(jax.make_jaxpr(function)(*(x[0] for x in rows)), [1] * 5, {})
        check_program(fewest_live(program))
        computed = [run(program, rows, [1] * 5, (count,)) for run in (_run_on_cpu, _run_on_gpu)]
    alone = [
        _run(np, loop, dict(zip("abxnp", row, strict=True))) for row in zip(*rows, strict=True)
    ]
    for place, name in enumerate("abnp"):
        expected = np.array([values[name] for values in alone])
        for results in computed:
            np.testing.assert_array_equal(results[place], expected)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)  # The slow test below has a hundred.
@given(st.randoms(use_true_random=True))
def test_random_loops(rng):
    """Loops in loops with conditions on anything, in kernels and, robot by robot, in Python."""
    _check_random_loops(rng)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=True))
def test_many_random_loops(rng):
    _check_random_loops(rng)
