"""Evaluation with the batch last must be what ``jax.vmap`` of the function itself computes."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from artix.constants import is_known
from artix.lane_rules import Value, evaluate
from artix.lanes import batch_last

from artix import evaluation
from artix.evaluation import in_lanes
from tests.models import zoo

_MASK = np.triu(np.ones((5, 5)))
_PLACES = np.array([4, 0, 2, 0])
_SPARSE = (_MASK * np.tril(np.ones((5, 5)), 1))[:, :3]


def _inputs(size: int | None, dtype=float):
    generator = np.random.default_rng(0)
    lead = () if size is None else (size,)
    return tuple(
        jnp.asarray(generator.normal(size=(*lead, *shape)), dtype) for shape in ((3, 5), (5,), (5, 5), (4, 3, 5), ())
    )


@jax.custom_jvp
def _cube(x):
    return x**3


_cube.defjvp(lambda primals, tangents: (_cube(*primals), 3 * primals[0] ** 2 * tangents[0]))


def _solved(matrix, right):
    matrix = matrix @ matrix.T + 6 * jnp.eye(5, dtype=matrix.dtype)
    return jax.lax.custom_linear_solve(
        lambda x: matrix @ x, right, lambda _, b: jnp.linalg.inv(matrix) @ b, symmetric=True
    )


def _scanned(x, y, matrix):
    def turn(carry, row):
        total, count = carry
        return (total + row[0] * y, count + 1), (total * row[1], row[0][0])

    return jax.lax.scan(turn, (jnp.zeros(5, x.dtype), 0), (x, jnp.arange(3, dtype=x.dtype)), reverse=True)


OPERATIONS = {
    "elementwise": lambda x, y, m, c, s: jnp.where(x > y, jnp.sin(x) * 2 + s, jnp.arctan2(y, s + x) ** 2),
    "scalars": lambda x, y, m, c, s: jnp.where(s > 0, s * 2, 0.5) + jnp.maximum(s, 1),
    "scalar choice": lambda x, y, m, c, s: jnp.where(s > 0, x, 0),
    "broadcast": lambda x, y, m, c, s: x[:, None] * y[None, :, None] * jnp.ones((3, 5, 5), x.dtype),
    "shapes": lambda x, y, m, c, s: jnp.pad(x.T.reshape(3, 5), ((1, 0), (0, 2)))[::2, 1:],
    "stacked": lambda x, y, m, c, s: jnp.concatenate([x, jnp.stack([y, jnp.ones(5, x.dtype)]), jnp.zeros((1, 5), x.dtype)]),
    "padding that differs": lambda x, y, m, c, s: jax.lax.pad(y, s, ((1, 2, 0),)),
    "reductions": lambda x, y, m, c, s: (x.sum(0), x.max(), jnp.argmin(x, 1), jnp.cumsum(x, 1), jnp.any(x > 1, axis=1)),
    "gather": lambda x, y, m, c, s: (x[:, _PLACES], x.at[:, _PLACES].get(mode="fill", fill_value=7), c[2, 1]),
    "gather by data": lambda x, y, m, c, s: x[:, jnp.argsort(y)],
    "slice by data": lambda x, y, m, c, s: jax.lax.dynamic_slice_in_dim(y, jnp.argmax(y) % 2, 2),
    "slice": lambda x, y, m, c, s: jax.lax.dynamic_slice_in_dim(x, 1, 2, axis=1),
    "scatter": lambda x, y, m, c, s: y.at[1:3].add(s),
    "known dense matrix": lambda x, y, m, c, s: (x @ _MASK, _MASK @ y, jnp.einsum("kj,ilj->ikl", _MASK, c)),
    "known sparse matrix": lambda x, y, m, c, s: (x @ np.eye(5, k=1, dtype=x.dtype), _SPARSE.T @ m, y @ (2 * np.eye(5)[::-1]).astype(x.dtype)),
    "zero matrix": lambda x, y, m, c, s: x @ np.zeros((5, 2), x.dtype),
    "matrices": lambda x, y, m, c, s: (x @ m, m @ m, m.T @ y, y @ y, jnp.outer(y, y), jnp.tensordot(c, c, 3)),
    "matrices that share axes": lambda x, y, m, c, s: jnp.einsum("bij,bj->bi", c.transpose(1, 0, 2), x),
    "no terms": lambda x, y, m, c, s: x[:, :0] @ m[:0],
    "sort": lambda x, y, m, c, s: jnp.sort(m, axis=0),
    "triangular solve": lambda x, y, m, c, s: jax.scipy.linalg.solve_triangular(m + 9 * jnp.eye(5, dtype=m.dtype), m),
    "branches": lambda x, y, m, c, s: jax.lax.cond(s > 0, lambda x: x * 2, lambda x: -x, x),
    "loop": lambda x, y, m, c, s: _scanned(x, y, m),
    "while": lambda x, y, m, c, s: jax.lax.fori_loop(0, 3, lambda k, z: z * y + k, x),
    "functions": lambda x, y, m, c, s: (_cube(x), jax.jit(lambda z: z + 1)(y), jax.checkpoint(jnp.sin)(y)),
    "barrier": lambda x, y, m, c, s: jax.lax.optimization_barrier((x, _MASK, y))[1] @ y,
    "linear solve": lambda x, y, m, c, s: _solved(m, y),
    "nested": lambda x, y, m, c, s: jax.vmap(batch_last(lambda a, b: a * b @ _MASK), (0, None))(x, y),
    "constants": lambda x, y, m, c, s: (jnp.arange(3), 2 * jnp.ones(2), x),
}  # fmt: skip


def _agree(found, expected, tolerance: float = 1e-12) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("size", [1, 3, 130])
def test_operations(name: str, size: int) -> None:
    function, inputs = OPERATIONS[name], _inputs(size)
    _agree(jax.jit(jax.vmap(batch_last(function)))(*inputs), jax.jit(jax.vmap(function))(*inputs))


@pytest.mark.parametrize("axes", [(None, 0, None, None, None), (1, None, 2, 0, None), (None, None, None, None, 0)])
def test_what_is_not_batched(axes: tuple[int | None, ...]) -> None:
    def function(x, y, m, c, s):
        return x @ m + y * s, c @ y, jnp.concatenate([x, c[0]])

    items = _inputs(None)
    inputs = tuple(
        item if axis is None else jnp.stack([item * k for k in range(1, 71)], axis)
        for item, axis in zip(items, axes, strict=True)
    )
    _agree(jax.jit(jax.vmap(batch_last(function), axes))(*inputs), jax.vmap(function, axes)(*inputs))


def running_sums(weight: float, x: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A recursion over the items [k], and something that only the second argument decides."""
    rows = [x[0] + scale]
    for row in x[1:]:
        rows.append(weight * rows[-1] + scale * row)
    return jnp.stack(rows), 2 * scale


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize("size", [0, 1, 64, 65, 130])
def test_recursions(size: int, in_blocks: bool) -> None:
    """Blocks that are full or not, none at all, and batches of batches."""
    rng = np.random.default_rng(size)
    x, scale = jnp.asarray(rng.normal(size=(size, 4))), jnp.asarray(rng.normal(size=size))
    lanes, plain = batch_last(running_sums, 0.5, in_blocks=in_blocks), functools.partial(running_sums, 0.5)
    one = jnp.ones(4), jnp.asarray(2.0)
    _agree(lanes(*one), plain(*one))
    for axes in ((0, 0), (0, None), (None, 0)):
        inputs = [values if axis == 0 else single for values, single, axis in zip((x, scale), one, axes, strict=True)]
        _agree(jax.jit(jax.vmap(lanes, axes))(*inputs), jax.vmap(plain, axes)(*inputs))
    found, expected = (jax.jit(jax.vmap(jax.vmap(f, (None, 0)), (0, None)))(x, scale[:3]) for f in (lanes, plain))
    _agree(found, expected)


def test_loops_over_whole_batches() -> None:
    found = jax.jit(jax.vmap(batch_last(OPERATIONS["loop"], in_blocks=False)))(*_inputs(130))
    _agree(found, jax.vmap(OPERATIONS["loop"])(*_inputs(130)))


def test_batches_of_batches() -> None:
    """One larger batch, whichever of them an argument depends on."""

    def function(x, y, z):
        return x @ _MASK + y, z * 2

    x, y, z = (jnp.asarray(np.random.default_rng(1).normal(size=shape)) for shape in ((6, 3, 5), (50, 5), ()))

    def nested(function):
        return jax.vmap(jax.vmap(function, (None, 0, None)), (0, None, None))

    lanes = nested(batch_last(function))
    _agree(jax.jit(lanes)(x, y, z), nested(function)(x, y, z))
    assert "[5,60,3,5]" in str(jax.make_jaxpr(lanes)(x, y, z))  # 300 items are five blocks of 60 lanes.
    _agree(lanes(x, y, z), nested(function)(x, y, z))  # Of these nothing is compiled.


def test_derivatives() -> None:
    """Forward, backward and again, outside and inside of the batch."""

    def function(x, m):
        return jnp.sin(x @ m) @ _MASK

    x, m = (jnp.asarray(np.random.default_rng(2).normal(size=shape)) for shape in ((70, 5), (5, 5)))

    def loss(function, x, m):
        return jnp.sum(jax.vmap(function, (0, None))(x, m) ** 2)

    lanes = batch_last(function)
    for wrapped in (jax.jit, lambda function: function):
        gradient = wrapped(jax.grad(functools.partial(loss, lanes), (0, 1)))
        _agree(gradient(x, m), jax.grad(functools.partial(loss, function), (0, 1))(x, m))
    _agree(
        jax.jit(jax.vmap(jax.hessian(lambda x: jnp.sum(lanes(x, m)))))(x),
        jax.jit(jax.vmap(jax.hessian(lambda x: jnp.sum(function(x, m)))))(x),
    )
    _agree(jax.jvp(lambda x: lanes(x, m), (x[0],), (x[1],)), jax.jvp(lambda x: function(x, m), (x[0],), (x[1],)))


def test_known_matrices_stay_known() -> None:
    """A mask is followed along its zeros: a product with few of them, or a gather, and nothing of n squared."""
    mask = np.eye(64, k=1)
    program = jax.make_jaxpr(lambda x: jax.lax.optimization_barrier((x, mask))[0] @ mask)(jnp.ones((3, 64)))
    x = jnp.arange(3 * 64 * 4.0).reshape(3, 64, 4)
    traced = jax.make_jaxpr(lambda x: evaluate(program, [Value(x, True)], 4)[0].array)(x)
    assert "dot_general" not in str(traced) and "gather" in str(traced)
    np.testing.assert_array_equal(evaluate(program, [Value(x, True)], 4)[0].array, jnp.einsum("knl,nm->kml", x, mask))


def test_functions_of_articulations(monkeypatch) -> None:
    """Known parameters stay known, calls of one articulation compile nothing, large trees have the batch first."""
    arm, calls = zoo(fixed_base=True), []

    def summed(articulation, x):
        calls.append(is_known(articulation))
        return jnp.sum(articulation.link_mass) * x

    x = jnp.ones(3, arm.dtype)
    for most in (20, 2):
        monkeypatch.setattr(evaluation, "_MOST_BODIES", most)
        moved = functools.partial(in_lanes, summed, arm)
        assert moved(x).shape == (3,)
        _agree(jax.vmap(moved)(x), jnp.sum(arm.link_mass) * x)
        stage = "optimization_barrier" in str(jax.make_jaxpr(jax.vmap(moved))(x))
        assert stage == (most == 20)
    assert all(calls)
