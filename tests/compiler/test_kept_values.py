"""Kept values: derivatives take a solution from the evaluation, and have the derivatives of closed
forms at every order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.compiler import disk, quantity
from artix.compiler.argument_types import register_carried
from artix.compiler.kept_values import kept
from artix.compiler.operation import program_p
from tests.support.programs import programs_in


def _by_newton(x: jax.Array) -> jax.Array:
    """The cube root."""
    return jax.lax.while_loop(
        lambda root: jnp.max(jnp.abs(root**3 / x - 1)) > 1e-13,
        lambda root: (2 * root + x / root**2) / 3,
        1 + jnp.zeros_like(x),
    )


@jax.custom_jvp
def _with_derivative(root: jax.Array, x: jax.Array) -> jax.Array:
    return root


@_with_derivative.defjvp
def _with_derivative_jvp(primals: Any, tangents: Any) -> Any:
    root = _with_derivative(*primals)
    return root, tangents[1] / (3 * root**2)


def _roots(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    root = _with_derivative(kept(_by_newton(jax.lax.stop_gradient(x))), x)
    return root, x**2


roots = quantity(_roots)


def cube_root(x: jax.Array) -> jax.Array:
    return roots(x)[0]


class _Carried(NamedTuple):
    """What loops carry."""

    x: jax.Array


register_carried(_Carried)


@quantity
def roots_of_carried(at: _Carried, others: jax.Array) -> tuple[jax.Array, jax.Array]:
    root, _ = _roots(at.x)
    return root, root * (others + at.x)


def carried_root(x: jax.Array) -> jax.Array:
    return roots_of_carried(_Carried(x), jnp.flip(x))[0]


def exact(x: jax.Array) -> jax.Array:
    return x ** (1 / 3)


def twice(f: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """A loop of two turns."""
    return lambda x: jax.lax.scan(lambda x, _: (f(x) + x, None), x, None, length=2)[0]


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "gradient": lambda f: jax.grad(lambda x: jnp.sum(f(x) ** 2)),
    "forward mode": jax.jacfwd,
    "reverse mode": jax.jacrev,
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "hessian": lambda f: jax.hessian(lambda x: jnp.sum(f(x) ** 2)),
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(lambda x: jnp.sum(f(x) ** 2))),
    "third order": lambda f: jax.jacfwd(jax.hessian(lambda x: jnp.sum(f(x) ** 2))),
    "gradient of a loop": lambda f: jax.grad(lambda x: jnp.sum(twice(f)(x) ** 2)),
    "hessian of a loop": lambda f: jax.hessian(lambda x: jnp.sum(twice(f)(x) ** 2)),
    "checkpoint": lambda f: jax.grad(lambda x: jnp.sum(twice(jax.checkpoint(f))(x) ** 2)),
    "compiled": lambda f: jax.jit(jax.grad(lambda x: jnp.sum(twice(f)(x) ** 2))),
    "batch": lambda f: (
        lambda x: jax.vmap(jax.hessian(lambda x: jnp.sum(f(x) ** 2)))(jnp.stack([x, 2 * x]))
    ),
    "batches within": lambda f: (
        lambda x: jax.grad(lambda x: jnp.sum(jax.vmap(f)(x)))(jnp.stack([x, 2 * x]))
    ),
}


@functools.cache
def transformed_closed_form(name: str) -> np.ndarray:
    """What four tests expect."""
    return np.asarray(jax.jit(TRANSFORMATIONS[name](exact))(jnp.array([0.3, 2.0, 5.0], "float64")))


@pytest.mark.parametrize("function", [cube_root, carried_root])
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_derivatives_are_those_of_a_closed_form(name: str, kernels: bool, function: Any) -> None:
    transform, x = TRANSFORMATIONS[name], jnp.array([0.3, 2.0, 5.0], "float64")
    with artix.use_kernels(kernels):
        result = transform(function)(x)
    np.testing.assert_allclose(result, transformed_closed_form(name), rtol=1e-12, atol=1e-14)


def _primitives(jaxpr: Any) -> set[str]:
    names = {each.primitive.name for each in jaxpr.eqns}
    inner = [each.params["jaxpr"].jaxpr for each in jaxpr.eqns if each.primitive.name == "jit"]
    return names.union(*map(_primitives, inner))


def test_derivatives_do_not_solve_again() -> None:
    """Neither first nor second ones; what is evaluated for them returns the solution as well."""
    x = jnp.array([0.3, 2.0, 5.0], "float64")
    solve, derivative = programs_in(lambda x: jax.jvp(cube_root, (x,), (x,)), x)
    assert "while" in _primitives(solve.params["program"].jaxpr.jaxpr)
    assert "while" not in _primitives(derivative.params["program"].jaxpr.jaxpr)
    assert (len(solve.outvars), len(derivative.invars)) == (3, 3)
    programs = programs_in(jax.hessian(lambda x: jnp.sum(cube_root(x) ** 2)), x)
    solving = ["while" in _primitives(each.params["program"].jaxpr.jaxpr) for each in programs]
    assert sum(solving) == 1


@pytest.mark.slow
def test_what_a_loop_carries_is_kept_in_the_same_array() -> None:
    """A loop stacks one array, and what does not change is none of it."""
    x = jnp.array([0.3, 2.0, 5.0], "float64")

    def after(x: jax.Array, others: jax.Array) -> jax.Array:
        def turn(at: _Carried, _: None) -> tuple[_Carried, None]:
            return _Carried(roots_of_carried(at, others)[1]), None

        return jnp.sum(jax.lax.scan(turn, _Carried(x), None, length=4)[0].x ** 2)

    def exactly(x: jax.Array, others: jax.Array) -> jax.Array:
        for _ in range(4):
            x = exact(x) * (others + x)
        return jnp.sum(x**2)

    gradient = jax.grad(after, argnums=(0, 1))
    forwards, backwards = (
        each for each in jax.make_jaxpr(gradient)(x, x).eqns if each.primitive.name == "scan"
    )
    stacks = [each.aval.shape for each in forwards.outvars if each.aval.shape[:1] == (4,)]
    assert stacks == [(4, 6)]
    assert [each.aval.shape for each in backwards.invars if each.aval.ndim > 1] == stacks
    for derivative in (gradient, jax.hessian(after, argnums=(0, 1))):
        expected = {gradient: jax.grad}.get(derivative, jax.hessian)(exactly, argnums=(0, 1))
        for got, want in zip(
            jax.tree.leaves(derivative(x, x + 1)), jax.tree.leaves(expected(x, x + 1)), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_only_what_results_need_is_kept() -> None:
    """A derivative of results that do not depend on the solution, selected before or after."""
    x = jnp.array([0.3, 2.0, 5.0], "float64")
    square = quantity(lambda x: _roots(x)[1])
    (program,) = programs_in(square, x)
    assert program.params["program"].kept_types == ()
    for function in (square, lambda x: roots(x)[1], jax.jit(lambda x: roots(x)[1])):
        np.testing.assert_allclose(jax.jacrev(function)(x), np.diag(2 * x), rtol=1e-14)
    _, tangents = jax.linearize(lambda x: roots(x)[1], x)
    np.testing.assert_allclose(tangents(x), 2 * x**2, rtol=1e-14)


def test_selected_results_have_second_derivatives() -> None:
    """JAX drops results that a loop does not use, then differentiates what it kept."""
    x = jnp.array([0.3, 2.0, 5.0], "float64")

    def only(f: Callable[[jax.Array], Any], index: int) -> Callable[[jax.Array], jax.Array]:
        def dropped(x: jax.Array) -> jax.Array:
            closed = jax.make_jaxpr(lambda x: f(x)[index])(x)
            jaxpr, _ = jax.interpreters.partial_eval.dce_jaxpr(closed.jaxpr, [True])
            (equation,) = [each for each in jaxpr.eqns if each.primitive is program_p]
            assert len(equation.outvars) == 1
            return jax.extend.core.jaxpr_as_fun(closed.replace(jaxpr=jaxpr))(x)[0]

        return dropped

    for index, formula in enumerate((exact, jnp.square)):
        function = only(roots, index)
        for derivative in (jax.jacrev, jax.jacfwd, lambda f: jax.jacfwd(jax.jacrev(f))):
            np.testing.assert_allclose(
                derivative(function)(x), derivative(formula)(x), rtol=1e-12, atol=1e-14
            )


def test_signatures_tell_other_processes_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTIX_CACHE", str(tmp_path / "artix-kernels"))
    monkeypatch.setattr(disk, "_files", disk.KernelFiles())
    kind = jax.ShapeDtypeStruct((3,), np.dtype("float32"))
    signature = disk.signature_of({"a": kind, "b": (kind,)}, (kind,))
    disk.write_signature(b"key", signature)
    assert disk.read_signature(b"key") == signature
    assert disk.read_signature(b"another key") is None
