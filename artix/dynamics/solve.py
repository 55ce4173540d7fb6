"""Solves with the mass matrix, by the factorisation that suits the topology, differentiable by the implicit rule."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.checks import check_vector
from artix.dynamics.factorization import (
    LAPACK_IS_SAFE,
    Factors,
    TreeFactors,
    dense_factors,
    factorize_along_tree,
    factorize_dense,
    follows_tree,
    solve_along_tree,
    solve_dense,
)
from artix.dynamics.inertia import reference_inertias
from artix.dynamics.mass_matrix import generalized_armature, inertia_matrix
from artix.kinematics import Kinematics, generalized_motions, kinematics
from artix.tangents import times
from artix.topology import Topology
from artix.tree import Tree

Array = jax.Array


def mass_matrix_cholesky(articulation: Articulation, state: State, *, armature: bool = True) -> tuple[Array, Array]:
    """The factors of ``M = U diag(D) U^T`` that keep the tree's sparsity, Pinocchio's ``cholesky::decompose``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      armature: whether M contains the joints' armature, as in forward dynamics.

    Returns:
      U, unit upper triangular, zero where neither DOF moves the other, shape [nv, nv], and D, shape [nv].

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``U @ diag(D) @ U.T == mass_matrix(a, s, armature=True)``.
    """
    kin = kinematics(articulation, state)
    factors = _factorize(articulation, kin, armature=armature)
    if isinstance(factors, TreeFactors):
        factors = dense_factors(articulation.topology, factors)
    return factors.upper, factors.diagonal


def mass_matrix_solve(articulation: Articulation, state: State, right: Array, *, armature: bool = True) -> Array:
    """The solution x of ``M x = right``, without forming the inverse.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      right: a generalised force, shape [nv]; use ``jax.vmap`` for several.
      armature: whether M contains the joints' armature, as in forward dynamics.

    Returns:
      A generalised acceleration, shape [nv].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``mass_matrix(a, s, armature=True) @ mass_matrix_solve(a, s, b) == b``.
    """
    check_vector("right", right, (articulation.topology.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    return linear_solve(articulation, kin, factorize(articulation, kin, armature=armature), right, armature=armature)


def mass_matrix_inverse(articulation: Articulation, state: State, *, armature: bool = True) -> Array:
    """The inverse of the mass matrix, Pinocchio's ``computeMinverse``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      armature: whether M contains the joints' armature, as in forward dynamics.

    Returns:
      The symmetric inverse, shape [nv, nv].

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``mass_matrix(a, s, armature=True) @ mass_matrix_inverse(a, s) == 1``.
    """
    return inverse_matrix(articulation, kinematics(articulation, state), armature=armature)


def inverse_matrix(
    articulation: Articulation, kin: Kinematics, *, armature: bool = True, after: Array | None = None
) -> Array:
    """The inverse of the mass matrix, of solved kinematics; for ``after`` see :func:`factorize`."""
    factors = factorize(articulation, kin, armature=armature, after=after)
    eye = jnp.eye(articulation.topology.nv, dtype=articulation.dtype)
    return jax.vmap(lambda right: linear_solve(articulation, kin, factors, right, armature=armature))(eye)


def factorize(
    articulation: Articulation, kin: Kinematics, *, armature: bool = True, after: Array | None = None
) -> Factors:
    """Factors of the mass matrix for :func:`linear_solve`, which knows their derivatives.

    ``after`` is an earlier solution, which dense factors then wait for (see :mod:`artix.dynamics.factorization`).
    """
    return jax.lax.stop_gradient(_factorize(articulation, kin, armature=armature, after=after))


def linear_solve(
    articulation: Articulation, kin: Kinematics, factors: Factors, right: Array, *, armature: bool = True
) -> Array:
    """Solves with the mass matrix; its derivative is ``M^-1 (d right - dM x)``, which needs no other factorisation."""
    # Only derivatives of the solution look at the matrix; in programs without them it is dead code.
    matrix = inertia_matrix(articulation, kin)
    if armature:
        matrix = matrix + jnp.diag(generalized_armature(articulation))

    return jax.lax.custom_linear_solve(
        lambda x: times(matrix, x),
        right,
        solve=lambda _, b: _solver(articulation.topology)(factors, b),
        symmetric=True,
    )


def _solver(tree: Tree) -> Callable[[Factors, Array], Array]:
    """A function of factors and a right side; many right sides of one matrix are cheaper with the inverse.

    ``jacfwd`` asks for them: by configuration, velocity and force 30 us instead of 47 (29 DOFs, batch 2048, CPU).
    """
    solve = functools.partial(_solve, tree)
    if not isinstance(tree, Topology):
        return solve
    function = jax.custom_batching.custom_vmap(solve)

    @function.def_vmap
    def _solve_many(axis_size: int, batched, factors: Factors, right: Array) -> tuple[Array, bool]:
        one_matrix = not any(jax.tree.leaves(batched[0]))
        if one_matrix and axis_size >= tree.nv:
            return jnp.matmul(right, _inverse(tree, factors), precision=jax.lax.Precision.HIGHEST), True
        axes = (jax.tree.map(lambda x: 0 if x else None, batched[0]), 0 if batched[1] else None)
        return jax.vmap(solve, axes, axis_size=axis_size)(factors, right), True

    return function


def _factorize(articulation: Articulation, kin: Kinematics, *, armature: bool, after: Array | None = None) -> Factors:
    tree = articulation.topology
    added = generalized_armature(articulation)
    added = added if armature else jnp.zeros_like(added)
    if follows_tree(tree):
        motions = generalized_motions(articulation, kin)
        return factorize_along_tree(tree, motions, reference_inertias(articulation, kin), added)
    matrix = inertia_matrix(articulation, kin) + jnp.diag(added)
    if tree.dof_is_live is not None:
        # Padded entries have zero rows; a one on the diagonal makes them solvable.
        matrix = matrix + jnp.diag((jnp.diagonal(matrix) == 0).astype(matrix.dtype))
    if after is not None and not LAPACK_IS_SAFE:
        matrix = matrix + 0 * jnp.sum(after)
    return factorize_dense(matrix)


def _inverse(tree: Tree, factors: Factors) -> Array:
    inverse = jax.vmap(lambda right: _solve(tree, factors, right))(jnp.eye(tree.nv, dtype=_dtype(factors)))
    return 0.5 * (inverse + inverse.T)


def _dtype(factors: Factors):
    return jax.tree.leaves(factors)[0].dtype


def _solve(tree: Tree, factors: Factors, right: Array) -> Array:
    if isinstance(factors, TreeFactors):
        return solve_along_tree(tree, factors, right)
    solution = solve_dense(factors, right)
    if tree.dof_is_live is None:
        return solution
    live = jnp.asarray(tree.dof_is_live)
    if tree.num_base_dofs:
        live = jnp.concatenate([jnp.broadcast_to(tree.base_is_free, (6,)), live])
    return jnp.where(live, solution, jnp.zeros_like(solution))
