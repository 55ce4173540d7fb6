"""Inverses of small unsymmetric matrices, against LAPACK."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from artix.math.gaussian_elimination import inverse_with_pivoting


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
