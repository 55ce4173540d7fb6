"""Inverses and solutions of small unsymmetric systems, against LAPACK."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from artix.math.gaussian_elimination import inverse_with_pivoting, lu_factorize, lu_solver


@pytest.mark.parametrize("size", [1, 2, 3, 8])
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
