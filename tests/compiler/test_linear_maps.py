"""Linear maps with two formulas: kernels take the cheaper one, and derivatives of every kind are
those of a closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.compiler import quantity
from artix.compiler.compilation import scalars_of
from artix.compiler.linear_maps import linear_map
from tests.support.programs import programs_in

SIZE = 24
X = np.linspace(0.3, 2.0, SIZE)


def _sums(x: jax.Array, dx: jax.Array) -> jax.Array:
    """Partial sums of products: few operations for one direction."""
    return jnp.cumsum(jnp.cos(x) * dx)


def _matrix(x: jax.Array, dx: jax.Array) -> jax.Array:
    below = jnp.asarray(np.tril(np.ones((SIZE, SIZE))), x.dtype)
    return below * jnp.exp(jnp.sin(x))[:, None] * (jnp.cos(x) * jnp.exp(-jnp.sin(x))[:, None]) @ dx


@jax.custom_jvp
def _partial_sums(x: jax.Array) -> jax.Array:
    return jnp.cumsum(jnp.sin(x))


@_partial_sums.defjvp
def _partial_sums_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return _partial_sums(x), linear_map(_sums, _matrix, result, x, dx)


partial_sums = quantity(lambda x: _partial_sums(x))


def exact(x: jax.Array) -> jax.Array:
    return jnp.cumsum(jnp.sin(x))


def square(f: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jnp.sum(f(x) ** 2)


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "gradient": lambda f: jax.grad(square(f)),
    "forward mode": lambda f: lambda x: jax.jvp(f, (x,), (x**2,))[1],
    "Jacobian forwards": jax.jacfwd,
    "Jacobian backwards": jax.jacrev,
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x**2),
    "Hessian": lambda f: jax.hessian(square(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(square(f))),
    "gradient of a product with the Hessian": lambda f: jax.grad(
        lambda x: jnp.sum(jax.jvp(jax.grad(square(f)), (x,), (x**2,))[1] ** 2)
    ),
    "batch": lambda f: lambda x: jax.vmap(jax.grad(square(f)))(jnp.stack([x, 2 * x])),
    "batch of Jacobians": lambda f: lambda x: jax.vmap(jax.jacfwd(f))(jnp.stack([x, 2 * x])),
    "compiled": lambda f: jax.jit(jax.grad(square(f))),
}


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_derivatives_are_those_of_a_closed_form(name: str, kernels: bool) -> None:
    transform = TRANSFORMATIONS[name]
    with artix.use_kernels(kernels):
        result = transform(partial_sums)(jnp.asarray(X))
    np.testing.assert_allclose(result, transform(exact)(jnp.asarray(X)), rtol=1e-12, atol=1e-12)


def test_within_functions_of_jax() -> None:
    """Without a program: a rule run by JAX alone, in a batch, and transposed by JAX."""
    x = jnp.asarray(X)
    for transform in (jax.jacfwd, jax.jacrev, lambda f: jax.jit(jax.grad(square(f)))):
        np.testing.assert_allclose(
            transform(_partial_sums)(x), transform(exact)(x), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("backwards", [True, False])
def test_one_direction_takes_sums_and_many_the_matrix(backwards: bool) -> None:
    x = jnp.asarray(X)
    function = jax.grad(square(partial_sums)) if backwards else TRANSFORMATIONS["forward mode"]
    derivative = function if backwards else function(partial_sums)
    program = programs_in(derivative, x)[-1].params["program"]
    sizes = {levels: scalars_of(program, levels).size for levels in ((1, 1), (1, 2), (0, 1))}
    assert sizes[1, 1] < 5 * SIZE
    assert min(sizes[1, 2], sizes[0, 1]) > SIZE**2 / 2
