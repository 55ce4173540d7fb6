"""The KKT system of constrained dynamics: ``M x = force + J^T lambda`` under ``J x = target``.

It is solved by the Schur complement: M is factorised with its sparsity, then the Delassus matrix ``G = J M^-1 J^T``.
Where rows are redundant or contradictory, G is singular; the proximal iteration
``(G + mu) lambda_k = rest + mu lambda_{k-1}`` from ``lambda_0 = 0`` then converges to the smallest forces that satisfy
the rows as well as possible. Without redundancy, each iteration multiplies the error by at most
``mu / (mu + smallest eigenvalue of G)``.

The default damping is relative to G's diagonal, separately for linear and angular rows because their units differ: in
SI units, the entries of a hand's angular rows are a thousand times those of its linear rows, so that a damping relative
to the mean of all would drown the linear ones.

Carpentier, Budhiraja and Mansard, *Proximal and sparse resolution of constrained dynamic equations*, RSS 2021.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.dynamics.factorization import Factors, factorize_dense, finish_solve, half_solve, solve_columns
from artix.dynamics.forward import factorize
from artix.dynamics.mass_matrix import generalized_armature, inertia_matrix
from artix.kinematics.forward import Kinematics
from artix.math.arrays import matmul
from artix.model.articulation import Articulation

Array = jax.Array
DEFAULT_ITERATIONS = 6
#: The default damping over the mean of G's diagonal, in square roots of the dtype's precision. More of it leaves errors
#: in accelerations where rows are nearly dependent, less gives noise in the forces on redundant rows. In float32 with
#: four iterations, 1, 1/4 and 1/16: accelerations of an arm with a welded tool err by up to 2e-2, 4e-4 and 1e-5 in 8
#: random states, and forces on two welds in one place by 1e-3, 4e-3 and 1e-2.
_DAMPING = 0.25
#: Linear or angular rows cannot move if their mean is less than this many units of precision of the mean of all rows.
_IMMOBILE = 100


class KktFactors(NamedTuple):
    """Factors for any number of solves with one configuration and one set of constraints."""

    mass: Factors
    half: Array
    """``J U^-T D^-1/2``, [R, nv]."""
    delassus: Array
    """G without damping, [R, R]."""
    damped: Factors
    """Factors of G with damping."""


class KktSolution(NamedTuple):
    """The solution of a KKT system.

    Attributes:
      solution: x, [nv].
      multipliers: lambda, [R].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", rows=[0])])
      >>> state = artix.neutral_state(pendulum)
      >>> solved = artix.constraints.constrained_solve(pendulum, state, constraints, jnp.ones(2), jnp.zeros(1))
      >>> print(solved.solution.shape, solved.multipliers.shape)
      (2,) (1,)
    """

    solution: Array
    multipliers: Array


def factorize_kkt(
    articulation: Articulation, kin: Kinematics, jacobian: Array, is_angular: np.ndarray, damping: float | Array | None
) -> KktFactors:
    """Factorises M and the Delassus matrix of rows that are angular or linear."""
    jacobian = jax.lax.stop_gradient(jacobian)
    mass = factorize(articulation, kin, many=True)
    half = half_solve(mass, jacobian)
    delassus = matmul(half, half.T)
    damped = factorize_damped(delassus, is_angular, damping)
    return jax.lax.stop_gradient(KktFactors(mass, half, delassus, damped))


def kkt_solve_value(factors: KktFactors, force: Array, target: Array, iterations: int) -> KktSolution:
    """One solve; not differentiable."""
    half = half_solve(factors.mass, force[None])[0]
    multipliers = proximal_iterations(factors.delassus, factors.damped, target - matmul(factors.half, half), iterations)
    return KktSolution(finish_solve(factors.mass, half + matmul(multipliers, factors.half)), multipliers)


def proximal_iterations(delassus: Array, damped: Factors, rest: Array, iterations: int) -> Array:
    """Forces on the rows that satisfy ``G lambda = rest``, for right-hand sides [R] or [R, m]."""
    columns = rest.reshape(len(rest), -1)
    multipliers = solve_columns(damped, columns)
    for _ in range(iterations - 1):
        # Written this way the correction is small, and so is its rounding error.
        multipliers = multipliers + solve_columns(damped, columns - matmul(delassus, multipliers))
    return multipliers.reshape(rest.shape)


def factorize_damped(delassus: Array, is_angular: np.ndarray, damping: float | Array | None) -> Factors:
    """Factors of ``G + mu``, by default with :func:`default_damping`."""
    if damping is None:
        damping = default_damping(delassus, is_angular)
    damping = jax.lax.stop_gradient(jnp.asarray(damping, delassus.dtype))
    return factorize_dense(delassus, jnp.broadcast_to(damping, (len(delassus),)))


def default_damping(delassus: Array, is_angular: np.ndarray) -> Array:
    """A small multiple of the mean of G's diagonal over the linear rows and over the angular rows, [R]."""
    eps = float(jnp.finfo(delassus.dtype).eps)
    diagonal = jnp.diagonal(delassus)
    mean = jnp.mean(diagonal)
    mean = jnp.where(mean > 0, mean, 1)  # No row can move, as between a fixed base and the world.

    def scale(rows: np.ndarray) -> Array:
        if not rows.any():
            return mean
        of_rows = jnp.mean(diagonal[rows])
        # With a damping of their own, rows that cannot move would turn rounding errors of their targets into forces.
        return jnp.where(of_rows > _IMMOBILE * eps * mean, of_rows, mean)

    return _DAMPING * eps**0.5 * jnp.where(is_angular, scale(is_angular), scale(~is_angular))


def kkt_solve(
    articulation: Articulation,
    kin: Kinematics,
    jacobian: Array,
    factors: KktFactors,
    force: Array,
    target: Array,
    iterations: int,
) -> KktSolution:
    """One solve, differentiable to any order.

    Its derivative is the solution of the differentiated equations by the same proximal iteration, as if it had
    converged.
    """
    # Only derivatives use the matrix itself; elsewhere it is dead code.
    matrix = inertia_matrix(articulation, kin) + jnp.diag(generalized_armature(articulation))

    def equations(unknown: KktSolution) -> KktSolution:
        x, negative = unknown
        return KktSolution(matmul(matrix, x) + matmul(negative, jacobian), matmul(jacobian, x))

    def solve(_, right: tuple[Array, Array]) -> KktSolution:
        x, multipliers = kkt_solve_value(factors, *right, iterations)
        return KktSolution(x, -multipliers)

    # In reverse mode, JAX requires both right-hand sides to depend on the differentiated inputs, even constant ones.
    zero = 0 * (jnp.sum(force) + jnp.sum(target))
    force, target = force + zero, target + zero
    # Symmetric in x and the negated multipliers.
    x, negative = jax.lax.custom_linear_solve(equations, KktSolution(force, target), solve, symmetric=True)
    return KktSolution(x, -negative)
