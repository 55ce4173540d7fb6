"""Transposes of scalar programs, and how little is traced for a gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import artix
from artix.compiler import program as programs
from artix.compiler import quantity
from artix.compiler.operation import program_p
from artix.compiler.program import simplified
from artix.compiler.scalar_program import Op
from artix.compiler.scalar_transpose import NotLinear
from artix.compiler.scalarize import scalarize, scalarize_transpose
from tests.support.models import random_states, random_tree, state_at
from tests.support.oracle_derivatives import differences
from tests.support.scalar_interpreter import check_program, interpret

_MATRIX = np.array([[1.0, 0.0, 2.0], [0.0, -3.0, 0.0], [0.5, 0.0, 0.0]])


def _solution(v: Any, t: Any) -> Any:
    matrix = jnp.diag(v + 3) + jnp.asarray(_MATRIX, v.dtype)
    return jax.lax.custom_linear_solve(
        lambda x: matrix @ x,
        t,
        lambda _, b: jnp.stack([b[0] / v[0], b[1] - b[2], 2 * b[2]]),
        lambda _, b: jnp.stack([b[0] / v[0], b[1], 2 * b[2] - b[1]]),
    )


#: Functions of values and of tangents in which they are linear, three numbers each.
LINEAR: dict[str, Callable[[Any, Any], Any]] = {
    "products": lambda v, t: (v * t, -jnp.sin(v) * t[::-1], 3 * t),
    "sums": lambda v, t: (jnp.sum(t), jnp.cumsum(t - v * t), t[0] + t, t - t[1]),
    "quotients": lambda v, t: (t / (v**2 + 1), -t / 3, t[0] / v),
    "matrices": lambda v, t: (
        jnp.asarray(_MATRIX, v.dtype) @ t,
        jnp.outer(v, t) @ v,
        jnp.outer(t, v),
    ),
    "selections": lambda v, t: (
        jnp.where(v > 0, t, 0),
        jnp.where(v > 1, 2 * t, -t[::-1]),
        jnp.maximum(v, 0) * t,
    ),
    "movements": lambda v, t: (
        jnp.concatenate([t[1:], t]),
        jnp.pad(t, 1),
        t[None, ::-1].T,
        jnp.zeros_like(t),
    ),
    "loops": lambda v, t: jax.lax.scan(lambda c, x: (c + x[0] * x[1], c - x[1]), t[0], (v, t)),
    "solutions": _solution,
    "selected by index": lambda v, t: (t * v)[jnp.clip((2 * v[0]).astype(jnp.int32), 0, 2)],
    "other precision": lambda v, t: (
        t.astype(jnp.float32) * 2,
        t.astype(jnp.float32).astype(jnp.float64),
    ),
}


def _transposed(
    function: Callable[..., Any], v: Any, cotangents: Any, levels: list[int] | None = None
) -> Any:
    """The scalar program of the transpose of a function in its second argument."""
    leaves = lambda v, t: jax.tree.leaves(function(v, t))  # noqa: E731
    linear = jax.make_jaxpr(leaves)(v, v)
    count = len(cotangents)
    program = scalarize_transpose(
        linear, 1, (1,), tuple(range(count)), levels or [1] * (1 + count), {}
    )
    check_program(program)
    return program


@pytest.mark.parametrize("name", LINEAR)
def test_transposes_agree_with_jax(name: str, dtype: np.dtype) -> None:
    rng, function = np.random.default_rng(0), LINEAR[name]
    values = rng.uniform(-1, 2, (4, 3)).astype(dtype)
    leaves = lambda t, v: jax.tree.leaves(function(v, t))  # noqa: E731
    types = jax.eval_shape(leaves, values[0], values[0])
    cotangents = [rng.normal(size=(4, *x.shape)).astype(x.dtype) for x in types]
    (found,) = interpret(
        _transposed(function, values[0], [x[0] for x in cotangents]), [values, *cotangents]
    )
    for robot in range(4):
        of_tangents = lambda t, robot=robot: leaves(t, values[robot])  # noqa: E731
        (wanted,) = jax.linear_transpose(of_tangents, values[robot])([x[robot] for x in cotangents])
        tolerance = 2e-6 if found.dtype == np.float32 or name == "other precision" else 1e-13
        np.testing.assert_allclose(found[robot], wanted, rtol=tolerance, atol=tolerance)


def test_a_transpose_takes_as_many_products() -> None:
    """And its values, which are the same for all cotangents, are computed once."""

    def function(v: Any, t: Any) -> Any:
        return jnp.outer(jnp.sin(v), v) @ t

    v = np.ones(3)
    forward = scalarize(jax.make_jaxpr(function)(v, v), [1, 2], {})
    backward = _transposed(function, v, [v], [1, 2])
    for level in (1, 2):
        products = [
            np.sum((x.operations == Op.MUL) & (x.levels == level)) for x in (forward, backward)
        ]
        assert products[0] == products[1] == 9
        assert np.sum(backward.operations[backward.levels == level] > Op.CONSTANT) == (
            12 if level == 1 else 15
        )


@pytest.mark.parametrize(
    "function",
    [lambda v, t: t * t, lambda v, t: v + t, lambda v, t: jnp.maximum(t, 0), lambda v, t: v / t],
)
def test_what_is_not_linear_has_no_transpose(function: Callable[..., Any]) -> None:
    with pytest.raises(NotLinear):
        _transposed(function, np.ones(3), [np.ones(3)])


def test_gradients_by_entries_read_at_unknown_indices() -> None:
    """JAX transposes what scalars cannot: of a large array, the entry whose index is not known."""

    @quantity
    def entry(array: jax.Array, x: jax.Array) -> jax.Array:
        return 2 * array[jnp.clip(x[0].astype(jnp.int32), 0, 4999)] * x

    array, x = jnp.arange(5000.0), jnp.asarray([7.0, 2.0])
    found = jax.jit(jax.grad(lambda array: jnp.sum(entry(array, x))))(array)
    np.testing.assert_array_equal(np.flatnonzero(found), [7])
    assert found[7] == 18


@pytest.mark.slow
def test_a_gradient_traces_no_transpose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function, what packs the values that it keeps, and its derivative are traced, and nothing
    else: neither the transpose nor a selection of results."""
    traced = []
    trace = programs.trace
    monkeypatch.setattr(programs, "trace", lambda *given: traced.append(given) or trace(*given))
    robot = random_tree(11, 2, fixed_base=True)
    state = state_at(random_states(robot, 1), 0)

    @quantity
    def fallen(robot: artix.Articulation, state: artix.State) -> artix.State:
        return artix.step(robot, state, None, 0.01)

    def loss(state: artix.State) -> jax.Array:
        return jnp.sum(fallen(robot, state).joint_position ** 2)

    compiled, gradient = jax.jit(loss), jax.jit(jax.grad(loss))(state)
    assert len(traced) == 2  # the function itself is traced by quantity
    for name in ("joint_position", "joint_velocity"):
        start = getattr(state, name)
        wanted = differences(
            compiled,
            lambda k, h, name=name, start=start: state.replace(**{name: start.at[k].add(h)}),
            len(start),
        )
        np.testing.assert_allclose(getattr(gradient, name), wanted, rtol=1e-8, atol=1e-8)


def test_equal_equations_become_one() -> None:
    mask = np.array([1.0, 0.0, 1.0])

    def function(x: jax.Array) -> Any:
        unused = jnp.sin(x) / 3
        first, second = jnp.cos(x) * mask, jnp.cos(x) * np.array(mask)
        with_signs = x * 0.0, x * -0.0
        return (
            first + second,
            *with_signs,
            unused.shape[0] * x,
            jnp.where(x > 0, x, 1.0),
            jnp.where(x > 0, x, 1.0),
        )

    x = np.array([0.3, -0.4, 0.5])
    whole = jax.make_jaxpr(function)(x)
    short = simplified(whole)
    counts = [Counter(each.primitive.name for each in each.jaxpr.eqns) for each in (whole, short)]
    assert counts[0]["cos"] == 2 and counts[0]["sin"] == 1
    assert counts[1]["cos"] == 1 and counts[1]["sin"] == 0 and counts[1]["gt"] == 1
    assert counts[1]["mul"] == counts[0]["mul"] - 1
    found, wanted = (jaxpr_as_fun(each)(x) for each in (short, whole))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.slow
def test_few_equations_are_differentiated() -> None:
    """Operations of arrays in a step of the quadruped on the ground and in its derivative."""
    robot, ground = artix.robots.load("quadruped"), artix.Ground.flat()
    state = artix.neutral_state(robot)
    (operation,) = jax.make_jaxpr(
        lambda s: artix.step(artix.Scene(robot, ground=ground), s, None, 0.005)
    )(state).eqns[-1:]
    assert operation.primitive is program_p
    program = operation.params["program"]
    operands = range(len(program.traced))
    derivative = program.derivative(
        [k for k in operands if program.argument_types[program.traced[k]].dtype.kind == "f"]
    )
    # Measured with JAX 0.10, and some percent. What fast motion and the solver do in loops is among
    # them.
    assert len(program.jaxpr.jaxpr.eqns) <= 2_700
    assert len(derivative.jaxpr.jaxpr.eqns) <= 14_800
