"""Functions traced quickly have the jaxpr of JAX, and the same results."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artix.math.traces import quickly, while_loop

BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv),
    *(operator.gt, operator.ge, operator.lt, operator.le, operator.eq, operator.ne),
    *(operator.and_, operator.or_, operator.pow, operator.floordiv),
]
UNARY = [operator.neg, operator.abs, operator.invert]
DTYPES = ["float32", "int32", "bool", "float16"]
SHAPES = [(), (3,), (1,), (2, 3), (1, 3), (2, 1)]
NUMBERS = [2, -1.5, 0.0, -0.0, True, np.float32(0.3), np.arange(3, dtype="float32")]


def jaxprs(function, *types):
    """The jaxprs by JAX and by artix; where JAX refuses the function, the kind of its error."""

    def of(each):
        try:
            return str(jax.make_jaxpr(each)(*types))
        except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
            return type(error)

    return of(function), of(quickly(function))


arrays = st.builds(jax.ShapeDtypeStruct, st.sampled_from(SHAPES), st.sampled_from(DTYPES))


@given(st.sampled_from(BINARY), arrays, arrays | st.sampled_from(NUMBERS), st.booleans())
def test_operators(operation, first, second, is_reversed):
    if isinstance(second, jax.ShapeDtypeStruct):
        expected, found = jaxprs(operation, first, second)
    elif is_reversed:
        expected, found = jaxprs(lambda x: operation(second, x), first)
    else:
        expected, found = jaxprs(lambda x: operation(x, second), first)
    assert found == expected


@given(st.sampled_from(UNARY), arrays)
def test_operators_of_one_array(operation, array):
    expected, found = jaxprs(operation, array)
    assert found == expected


parts = (
    st.none()
    | st.integers(-4, 3)
    | st.slices(3)
    | st.just(Ellipsis)
    | st.sampled_from([True, np.int32(1), np.array([0, 1])])
)


@given(st.sampled_from(SHAPES), parts | st.lists(parts, max_size=4).map(tuple))
def test_items(shape, index):
    expected, found = jaxprs(lambda x: x[index], jax.ShapeDtypeStruct(shape, "float32"))
    assert found == expected


def test_weak_types_and_keys_are_left_to_jax():
    weak = jax.make_jaxpr(quickly(lambda x: (x * 2.0, 1 - x)))(1.0)
    assert str(weak) == str(jax.make_jaxpr(lambda x: (x * 2.0, 1 - x))(1.0))
    key = jax.random.key(0)
    assert jnp.all(jax.jit(quickly(lambda k: k == k))(key))


def closing(x, y):
    """Uses arrays of the function outside in a loop, in branches and in a function with a rule."""
    a, constant = x * y, jnp.arange(3.0)

    @jax.custom_jvp
    def cube(z):
        return z * z * z

    cube.defjvp(lambda z, dz: (cube(z[0]), 3 * z[0] * z[0] * dz[0]))
    n, b = while_loop(
        lambda carry: carry[0] < 3, lambda carry: (carry[0] + 1, carry[1] * a - x), (0, y)
    )
    c, _ = jax.lax.scan(lambda c, k: (c * k + a, None), b, constant)
    d = jax.lax.cond(x[0] > 0, lambda z: z * a, lambda z: z - y[1], c)
    e, change = jax.jvp(lambda z: cube(z) * a, (d,), (x,))
    return {"a": a, "n": n, "e": e, "change": change, "constant": constant, "x": x, "two": 2.0}


def along(function, x, y):
    """The derivative along one direction, by :func:`jax.linearize`."""
    return jax.linearize(lambda x: function(x, y)["e"], x)[1](y)


TRANSFORMED = {
    "jit": lambda function, x, y: function(x, y)["e"],
    "forward": lambda function, x, y: jax.jacfwd(lambda x: function(x, y)["e"])(x),
    "along": along,
    "reverse": lambda function, x, y: jax.grad(lambda y: jnp.sum(function(x, y)["a"] ** 2))(y),
    "batch": lambda function, x, y: jax.vmap(lambda k: function(k * x, y)["e"])(jnp.arange(3.0)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_loops_branches_and_rules(name):
    x, y = jnp.array([0.3, -0.2, 0.9]), jnp.array([0.5, 0.1, -0.7])
    found, expected = (
        TRANSFORMED[name](jax.jit(function), x, y) for function in (quickly(closing), closing)
    )
    np.testing.assert_array_equal(found, expected)


def test_results_are_those_outside():
    found = jax.jit(quickly(closing))(jnp.ones(3), jnp.ones(3))
    assert found["n"] == 3
    assert found["two"] == 2.0
    np.testing.assert_array_equal(found["constant"], np.arange(3.0))


def test_within_vmap_it_is_the_function():
    x = jnp.ones((2, 3))
    np.testing.assert_array_equal(jax.vmap(quickly(lambda a: a * 2))(x), x * 2)
