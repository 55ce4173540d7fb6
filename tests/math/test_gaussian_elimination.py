"""Inverses and solutions of small unsymmetric systems, against LAPACK."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix.math.gaussian_elimination import (
    MOST_WRITTEN_OUT,
    PivotedFactors,
    inverse_with_pivoting,
    lu_by_library,
    lu_factorize,
    lu_solver,
)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 80])
def test_inverse_with_pivoting(size) -> None:
    """Also where the first pivot is zero, without which elimination fails, and in any order of
    rows."""
    matrices = np.random.default_rng(size).normal(size=(50, size, size))
    if size > 1:
        matrices[:, 0, 0] = 0
    matrices[0] = np.roll(np.eye(size), 1, axis=0)
    found, expected = jax.jit(jax.vmap(inverse_with_pivoting))(matrices), np.linalg.inv(matrices)
    largest = np.abs(expected).max(axis=(1, 2), keepdims=True)
    conditions = np.linalg.cond(matrices)[:, None, None]
    assert np.all(np.abs(found - expected) <= 1e-14 * conditions * largest)
    if size > MOST_WRITTEN_OUT:  # Otherwise its program grows with the cube of the size.
        assert len(jax.make_jaxpr(inverse_with_pivoting)(matrices[0]).eqns) < 20


@pytest.mark.parametrize("size", [1, 2, 8, 40])
def test_solutions(size) -> None:
    """Of matrices with a dominant symmetric part, column by column and in a loop."""
    random = np.random.default_rng(size)
    roots, skew, right = (random.normal(size=(20, size, size)) for _ in range(3))
    matrices = roots @ roots.transpose(0, 2, 1) + 0.3 * (skew - skew.transpose(0, 2, 1))
    matrices += 0.1 * np.eye(size)
    expected = np.linalg.solve(matrices, right[..., :1])[..., 0]
    largest = np.abs(expected).max(axis=1, keepdims=True)
    bound = 1e-14 * np.linalg.cond(matrices)[:, None] * largest
    for solver in (lambda matrix: lu_factorize(matrix).solve, lu_solver):
        solved = jax.jit(jax.vmap(lambda a, b, solver=solver: solver(a)(b)))(
            matrices, right[..., 0]
        )
        assert np.all(np.abs(solved - expected) <= bound)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5, 41, 64])
def test_solutions_by_library(size) -> None:
    """Of any matrices, whose rows are exchanged, and of symmetric ones, which need not be definite
    although that is said."""
    random = np.random.default_rng(size)
    plain, right = random.normal(size=(2, 20, size, size))
    definite = plain @ plain.transpose(0, 2, 1) + 0.1 * np.eye(size)
    for matrices, is_symmetric in ((plain, None), (plain, False), (definite, True)):
        for sign in (1, -1):
            factors = jax.jit(jax.vmap(lambda a, is_it=is_symmetric: _by_library(a, is_it)))(
                sign * matrices
            )
            condition = np.linalg.cond(matrices)[:, None]
            for transposed in (False, True):
                axes = (0, 2, 1) if transposed else (0, 1, 2)
                expected = np.linalg.solve(sign * matrices.transpose(axes), right[..., :1])[..., 0]
                largest = np.abs(expected).max(axis=1, keepdims=True)
                solve = type(factors).solve_transposed if transposed else type(factors).solve
                solved = jax.vmap(solve)(factors, right[..., 0])
                assert np.all(np.abs(solved - expected) <= 1e-14 * condition * largest)


def _by_library(matrix: jax.Array, is_symmetric: bool | None) -> PivotedFactors:
    return lu_by_library(matrix, None if is_symmetric is None else jnp.array(is_symmetric))
