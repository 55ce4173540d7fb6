"""Factorises a dense symmetric matrix, ``M = U D U^T``, by splitting it in halves.

With blocks A, B and C,

    [A  B ]   [U_A  W  ] [D_A    ]   [U_A  W  ]^T     W = B U_C^-T D_C^-1
    [B' C ] = [     U_C] [    D_C] . [     U_C]       U_A D_A U_A^T = A - W D_C W^T

so each half takes only a few matrix products.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct
from artix.math.arrays import block_matrix, matmul

Array = jax.Array


class DenseFactors(struct.PyTreeNode):
    """The factors of ``M = U D U^T`` as full matrices."""

    upper: Array
    """U, unit upper triangular, [n, n]."""
    inverse_upper: Array
    """U^-1, [n, n]."""
    inverse_diagonal: Array
    """1 / D, [n]."""

    def solve_upper(self, rights: Array) -> Array:
        """``U^-1 rights``, [n, m]."""
        return matmul(self.inverse_upper, rights)

    def solve_upper_transposed(self, rights: Array) -> Array:
        """``U^-T rights``, [n, m]."""
        return matmul(self.inverse_upper.T, rights)


def factorize_dense(matrix: Array, added: Array) -> DenseFactors:
    """The factors of a symmetric positive definite matrix.

    Args:
      matrix: the matrix, [n, n]; only its upper half is read.
      added: what to add to its diagonal, [n].
    """
    size = len(added)
    if size <= 1:
        eye = jnp.asarray(np.eye(size), matrix.dtype)
        return DenseFactors(eye, eye, 1 / (jnp.sum(eye * matrix, axis=0) + added))
    cut = size // 2
    lower = factorize_dense(matrix[cut:, cut:], added[cut:])
    # The U of a single entry is the identity.
    coupling = matrix[:cut, cut:]
    if cut < size - 1:
        coupling = matmul(coupling, lower.inverse_upper.T)
    corner = coupling * lower.inverse_diagonal[None]
    rest = matrix[:cut, :cut] - matmul(corner, coupling.T)
    upper = factorize_dense(rest, added[:cut])
    inverse = corner if cut == size - 1 else matmul(corner, lower.inverse_upper)
    inverse = inverse if cut == 1 else matmul(upper.inverse_upper, inverse)
    zero = jnp.zeros_like(matrix, shape=(size - cut, cut))
    return DenseFactors(
        block_matrix(upper.upper, corner, zero, lower.upper),
        block_matrix(upper.inverse_upper, -inverse, zero, lower.inverse_upper),
        jnp.concatenate([upper.inverse_diagonal, lower.inverse_diagonal]),
    )
