"""Loops that stay loops in kernels."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import artix
from artix.compiler import kernels, scalar_evaluation
from artix.compiler.compilation import scalars_of
from artix.compiler.kernels.gpu_layout import Layout, Mapped
from artix.compiler.scalar_order import depth_first, fewest_live
from artix.compiler.scalar_program import Op
from artix.compiler.scalarize import scalarize
from tests.support.gpu_threads import run_threads
from tests.support.programs import programs_in
from tests.support.scalar_interpreter import check_program, interpret

_ROOM = np.random.default_rng(0).normal(size=(31, 31))
_numbers = itertools.count()


def _recurrence(x, y):
    """A body of several functions, which needs what is computed before the loop, as does what
    follows it."""
    matrix = (jnp.asarray(_ROOM[: len(x), : len(x)], x.dtype) + jnp.outer(y, y)) / len(x)

    def body(now, _):
        return jnp.tanh(matrix @ now) + y * jnp.sin(now[::-1]), None

    end, _ = lax.scan(body, x, length=7)
    return end, -end, matrix @ end + y


def _swap(x, y):
    def body(now, _):
        first, second, third, kept, zero = now
        return (-second, first + 0.5 * third * kept, first - third, kept, zero), None

    return lax.scan(body, (x, y, x * y, jnp.cos(y), jnp.zeros_like(x)), length=9)[0]


def _kinds(x, y):
    def body(now, k):
        total, is_large, count = now
        new = jnp.where(is_large, total - y, total + 0.3 * k.astype(x.dtype) * x)
        return (new, new > 1.0, count + jnp.where(is_large, np.int32(2), np.int32(-1))), None

    start = x, jnp.zeros(x.shape, bool), jnp.arange(len(x), dtype=jnp.int32)
    (total, is_large, count), _ = lax.scan(body, start, jnp.arange(8, dtype=jnp.int32))
    return total, is_large, count, count.astype(x.dtype) * total


def _of_items(x, y):
    """Known items, in both directions; columns that are alike; and one loop after another."""
    weights = jnp.asarray(
        np.array([[0.5, 2.0], [0.25, 2.0], [-1.0, 2.0], [3.0, 2.0], [0.1, 2.0]]), x.dtype
    )

    def body(now, row):
        return row[0] * jnp.sin(now) + row[1] * y, None

    first, _ = lax.scan(body, x, weights)
    second, _ = lax.scan(body, first - y, weights, reverse=True)
    return first, second


def _of_one(x, y):
    """A loop over one argument, whose end a shorter loop over both needs."""
    matrix = jnp.asarray(_ROOM[: len(x), : len(x)], x.dtype)
    end, _ = lax.scan(lambda now, _: (jnp.sin(matrix @ now) + x, None), x, length=6)
    return end, lax.scan(lambda now, _: (end * now + y, None), y, length=3)[0]


def _mixed(x, y):
    """Loops that collect and that read unknown items, which are unrolled, and one within
    another."""

    def collecting(now, _):
        return now * y + 0.1, jnp.sum(now)

    def nested(now, _):
        inner, _ = lax.scan(lambda z, _: (jnp.sin(z) + y, None), now, length=4)
        return now * 0.5 + inner, None

    end, sums = lax.scan(collecting, x, length=5)
    of_items, _ = lax.scan(lambda now, item: (now * item + y, None), x, sums)
    return end, of_items, lax.scan(nested, x, length=6)[0]


_FUNCTIONS = (_recurrence, _swap, _kinds, _of_items, _of_one, _mixed)


@pytest.fixture
def _short_loops_are_kept(monkeypatch):
    monkeypatch.setattr(scalar_evaluation, "_MAX_UNROLLED", 0)


@functools.cache
def _by_xla(function, num_axes):
    """The function of batches, which many tests ask for: their loops are compiled once."""
    for _ in range(num_axes):
        function = jax.vmap(function)
    return jax.jit(function)


def _made(function, levels, dtype, size):
    example = jax.ShapeDtypeStruct((size,), dtype)
    closed = jax.make_jaxpr(lambda *arguments: jax.tree.leaves(function(*arguments)))(
        example, example
    )
    return scalarize(closed, levels, {}), scalarize(closed, levels, {}, has_loops=False)


@pytest.mark.parametrize("function", _FUNCTIONS)
@pytest.mark.usefixtures("_short_loops_are_kept")
def test_loops_compute_what_unrolled_ones_do(function):
    with jax.enable_x64(True):
        kept, unrolled = _made(function, [1, 1], "float64", 4)
        assert not unrolled.loops and len(kept.loops) == {_of_items: 2, _of_one: 2, _mixed: 2}.get(
            function, 1
        )
        assert kept.size < unrolled.size
        arguments = list(np.random.default_rng(1).normal(size=(2, 9, 4)))
        expected = jax.tree.leaves(_by_xla(function, 1)(*arguments))
    for program in (kept, depth_first(kept), fewest_live(kept)):
        check_program(program)
        assert (
            np.diff(program.stages[program.operations > Op.CONSTANT]) >= 0
        ).all() or program is kept
        for found, wanted, by_xla in zip(
            interpret(program, arguments), interpret(unrolled, arguments), expected, strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(found, by_xla, rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("_short_loops_are_kept")
def test_constants_that_a_loop_sets():
    """All that is needed of the loop depends on no argument."""

    def function(x, y):
        def counting(now, _):
            return (now[0] + 1, jnp.sin(now[1]) * y), None

        def setting(now, _):
            return (jnp.ones_like(x), jnp.cos(now[1]) * y), None

        start = jnp.zeros_like(x), x
        return lax.scan(counting, start, length=5)[0][0] + x, lax.scan(setting, start, length=5)[0][
            0
        ]

    with jax.enable_x64(True):
        kept, _ = _made(function, [1, 1], "float64", 4)
        arguments = list(np.random.default_rng(1).normal(size=(2, 9, 4)))
    check_program(fewest_live(kept))
    found, ones = interpret(kept, arguments)
    np.testing.assert_array_equal(found, 5 + arguments[0])
    np.testing.assert_array_equal(ones, np.ones((9, 4)))


def test_what_a_loop_leaves_alone_is_not_carried():
    """Zeros stay known, and what does not change is computed before the loop."""
    kept, _ = _made(_swap, [1, 1], "float32", 2000)
    assert [len(loop.starts) for loop in kept.loops] == [6000]
    assert kept.loops[0].length == 9 and np.sum(kept.operations == Op.COS) == 2000


def _run_on_cpu(program, arguments, levels, lead):
    name = f"test_loop_{next(_numbers)}"
    kernels.load(kernels.build(program), name)
    types = zip(program.results, program.result_types, strict=True)
    results = [jax.ShapeDtypeStruct((*lead, *x.shape), dtype) for x, dtype in types]
    return jax.ffi.ffi_call(name, results)(*arguments)


def _run_on_gpu(program, arguments, levels, lead):
    """A GPU's kernel, thread after thread."""
    mapped = [Mapped(level >= 1, level == 2) for level in levels]
    return run_threads(Layout(fewest_live(program), mapped, len(lead) == 2), arguments, *lead)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
@pytest.mark.parametrize("levels", [(1, 1), (0, 0), (0, 1), (1, 0), (1, 2), (2, 1)])
@pytest.mark.parametrize(
    "function", [*_FUNCTIONS[:-1], pytest.param(_mixed, marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("_short_loops_are_kept")
@pytest.mark.parametrize("run", [_run_on_cpu, _run_on_gpu])
def test_kernels_with_loops(run, function, levels, dtype):
    with jax.enable_x64(True):
        size = 31 if run is _run_on_cpu and function is _recurrence and levels == (1, 1) else 5
        program, _ = _made(function, levels, dtype, size)
        assert program.loops
        batch, items = 37, 3
        leading = [(), (batch,), (batch, items)]
        rng, lead = np.random.default_rng(2), leading[max(1, *levels)]
        arguments = [rng.normal(size=(*leading[level], size)).astype(dtype) for level in levels]
        full = [
            np.broadcast_to(x if level != 1 or len(lead) == 1 else x[:, None], (*lead, size))
            for x, level in zip(arguments, levels, strict=True)
        ]
        found = run(program, arguments, levels, lead)
        expected = jax.tree.leaves(_by_xla(function, len(lead))(*full))
        tolerance = 1e-10 if dtype == "float64" else 2e-4
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, wanted, rtol=tolerance, atol=tolerance)


def _cart():
    return artix.robots.load("cart_pole")


@pytest.mark.slow
def test_substeps_are_a_loop():
    """A step of 200 parts is 200 steps, and its kernel no larger than that of a few."""
    robot, options = _cart(), artix.SolverOptions(substeps=200)
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(0), 5)
    )

    def parts(state):
        return artix.step(robot, state, None, 0.2, options)

    def steps(state):
        return lax.scan(
            lambda now, _: (artix.step(robot, now, None, 0.001), None), state, length=200
        )[0]

    (equation,) = programs_in(parts, jax.tree.map(lambda x: x[0], states))
    program = equation.params["program"]
    scalars = scalars_of(program, (1,) * len(program.traced))
    # Those of the solver and of fast motion end when they are done.
    assert [loop.length for loop in scalars.loops if loop.length] == [200]
    assert scalars.size < 3_000
    (cost,) = artix.explain(lambda robot, state: parts(state), robot).operations
    assert (
        sum(cost.operations)
        > 150 * scalars.size
        == 150 * sum(1 for op in scalars.operations if op > Op.CONSTANT)
    )
    found, expected = (jax.jit(jax.vmap(function))(states) for function in (parts, steps))
    for one, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("_short_loops_are_kept")
def test_jacobians_compute_values_once():
    """Kept, a loop of values and tangents would compute both for every tangent."""
    robot, options = _cart(), artix.SolverOptions(substeps=4)

    def end(state, velocity):
        return artix.step(
            robot, state.replace(joint_velocity=velocity), None, 0.02, options
        ).joint_velocity

    def jacobian(robot, state):
        return jax.jacfwd(lambda velocity: end(state, velocity))(state.joint_velocity)

    shared, of_robot, of_tangent = artix.explain(jacobian, robot).operations[-1].operations
    assert shared == 0 and of_robot > of_tangent > 0


def _contact_problem(count, dtype):
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(5, 3 * count, 3 * count + 2))
    delassus = (factors @ factors.swapaxes(1, 2) / (3 * count)).astype(dtype)
    return (
        jnp.asarray(delassus),
        jnp.asarray(rng.normal(size=(5, 3 * count)), dtype),
        jnp.full(count, 0.7, dtype),
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["admm", "pgs"])
def test_contact_solvers_are_loops(method):
    """Values and all kinds of derivatives equal those by XLA, also where the loop is unknown to a
    transpose."""
    with jax.enable_x64(True):
        delassus, velocity, friction = _contact_problem(3, "float64")

        def solve(delassus, velocity):
            return artix.constraints.solve_contact(
                delassus, velocity, friction, method=method, iterations=400
            ).impulse

        def cost(delassus, velocity):
            return jnp.sum(jnp.sin(solve(delassus, velocity)))

        functions = {
            "values": solve,
            "gradient": jax.grad(cost, (0, 1)),
            "jacfwd": jax.jacfwd(solve, 1),
            "jacrev": jax.jacrev(solve, 1),
        }
        (equation,) = programs_in(solve, delassus[0], velocity[0])
        program = equation.params["program"]
        assert 400 in [loop.length for loop in scalars_of(program, (1, 1)).loops]

        def everything(*arguments):
            return {name: function(*arguments) for name, function in functions.items()}

        found = jax.jit(jax.vmap(everything))(delassus, velocity)
        with artix.use_kernels(False):
            expected = jax.jit(jax.vmap(lambda *x: everything(*x)))(delassus, velocity)
        for name in functions:
            for one, wanted in zip(
                *map(jax.tree.leaves, (found[name], expected[name])), strict=True
            ):
                np.testing.assert_allclose(one, wanted, rtol=1e-8, atol=1e-8, err_msg=name)
