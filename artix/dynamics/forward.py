"""Forward dynamics and other solves with the mass matrix; derivatives are implicit."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.factorization import (
    Factors,
    MassProduct,
    factorize_product,
    inverse_of_product,
    solve,
)
from artix.dynamics.inertia import reference_inertias
from artix.dynamics.mass_matrix import generalized_armature, generalized_momenta, inertia_matrix
from artix.dynamics.newton_euler import (
    equation_of_motion_change,
    generalized_forces,
    newton_euler,
)
from artix.kinematics.forward import Kinematics, kinematics
from artix.math.arrays import matmul
from artix.math.tangents import add, is_zero
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector

Array = jax.Array


@quantity
def mass_matrix_cholesky(
    articulation: Articulation, state: State, *, armature: bool = True
) -> tuple[Array, Array]:
    """The factors of ``M = U diag(D) U^T`` that keep the tree's sparsity, Pinocchio's
    ``cholesky::decompose``.

    Args:
      armature: whether M includes the joints' armature, as in forward dynamics.

    Returns:
      U, unit upper triangular, zero where neither DOF moves the other, shape [nv, nv]
      [1, m or 1/m], and D, shape [nv] [kg or kg m^2].

    Identity: ``U @ diag(D) @ U.T == mass_matrix(a, s, armature=True)``.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(quadruped)
      >>> upper, diagonal = artix.mass_matrix_cholesky(quadruped, state)
      >>> matrix = artix.mass_matrix(quadruped, state, armature=True)
      >>> print(jnp.allclose(upper * diagonal @ upper.T, matrix, atol=1e-4))
      True
      >>> left, right = (
      ...     6 + quadruped.topology.dofs(name).start
      ...     for name in ("front_left_knee", "front_right_knee")
      ... )
      >>> print(upper[left, right])  # legs do not fill each other in
      0.0
    """
    kin = kinematics(articulation, state)
    factors = factorize_product(
        articulation.topology, mass_product(articulation, kin, armature=armature)
    )
    return factors.upper, 1 / factors.inverse_diagonal


@quantity
def mass_matrix_solve(
    articulation: Articulation, state: State, right: Array, *, armature: bool = True
) -> Array:
    """The solution x of ``M x = right``, without forming the inverse.

    Args:
      right: a generalised force, shape [nv] [N or N m]; use ``jax.vmap`` for several.
      armature: whether M includes the joints' armature, as in forward dynamics.

    Returns:
      A generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Identity: ``mass_matrix(a, s, armature=True) @ mass_matrix_solve(a, s, b) == b``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum)
      >>> # 1 N m at the shoulder
      >>> print(artix.mass_matrix_solve(pendulum, state, jnp.array([1.0, 0.0])))
      [ 1.712 -4.279]
    """
    check_vector("right", right, (articulation.topology.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    factors = factorize(articulation, kin, armature=armature)
    return linear_solve(articulation, kin, factors, right, armature=armature)


@quantity
def mass_matrix_inverse(
    articulation: Articulation, state: State, *, armature: bool = True
) -> Array:
    """The inverse of the mass matrix, Pinocchio's ``computeMinverse``.

    Args:
      armature: whether M includes the joints' armature, as in forward dynamics.

    Returns:
      The symmetric inverse, shape [nv, nv] [1/kg, 1/(kg m) or 1/(kg m^2)].

    Identity: ``mass_matrix(a, s, armature=True) @ mass_matrix_inverse(a, s) == 1``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum)
      >>> inverse = artix.mass_matrix_inverse(pendulum, state)
      >>> print(artix.mass_matrix(pendulum, state, armature=True) @ inverse)
      [[ 1.  0.]
       [ 0.  1.]]
    """
    return inverse_matrix(articulation, kinematics(articulation, state), armature=armature)


def inverse_matrix(articulation: Articulation, kin: Kinematics, *, armature: bool = True) -> Array:
    """The inverse of the mass matrix, from solved kinematics."""
    product = mass_product(articulation, kin, armature=armature)
    return inverse_of_product(articulation.topology, inertia_matrix(articulation, kin), product)


def factorize(
    articulation: Articulation, kin: Kinematics, *, armature: bool = True, many: bool = False
) -> Factors:
    """Factors of the mass matrix for one or ``many`` uses of :func:`linear_solve`, which
    differentiates implicitly.
    """
    product = mass_product(articulation, kin, armature=armature)
    return factorize_product(articulation.topology, jax.lax.stop_gradient(product), many=many)


def linear_solve(
    articulation: Articulation,
    kin: Kinematics,
    factors: Factors,
    right: Array,
    *,
    armature: bool = True,
) -> Array:
    """Solves with the mass matrix; its derivative ``M^-1 (d right - dM x)`` needs no further
    factorisation.
    """
    # Only derivatives use the matrix itself; elsewhere it is dead code.
    matrix = inertia_matrix(articulation, kin)
    matrix = matrix + jnp.diag(generalized_armature(articulation)) if armature else matrix
    return jax.lax.custom_linear_solve(
        lambda x: matmul(matrix, x), right, solve=lambda _, b: solve(factors, b), symmetric=True
    )


def mass_product(
    articulation: Articulation, kin: Kinematics, *, armature: bool = True
) -> MassProduct:
    """The mass matrix as the product of its factors."""
    motions, momenta = generalized_momenta(articulation, kin)
    added = generalized_armature(articulation)
    added = added if armature else jnp.zeros_like(added)
    return MassProduct(motions, momenta, reference_inertias(articulation, kin), added)


@quantity
def forward_dynamics(
    articulation: Articulation, state: State, force: Array, external_force: Array | None = None
) -> Array:
    """Generalised acceleration of ``(M + armature) nu' = force - coriolis - gravity + sum_i J_i^T
    w_i``.

    The mass matrix is factorised along the tree, level by level or, where the tree is deep, by
    articulated bodies (see :mod:`artix.dynamics.factorization`). Mirrors Pinocchio's ``aba`` and,
    for the joints, PhysX's ``computeJointAcceleration``.

    Args:
      force: generalised forces, shape [nv]: for a floating base the force on the root's centre of
        mass [N] and the torque about it [N m] in world axes, then the joint forces [N m or N].
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6].

    Returns:
      Generalised acceleration, shape [nv]: for a floating base the classical acceleration of the
      root's centre of mass [m/s^2] and the angular acceleration [rad/s^2] in world axes, then the
      joints' [rad/s^2 or m/s^2].

    Identity: ``inverse_dynamics(a, s, forward_dynamics(a, s, tau, w), w) == tau``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> print(artix.forward_dynamics(pendulum, level, jnp.zeros(2)))  # let go
      [-12.606  16.796]
      >>> held = artix.forward_dynamics(
      ...     pendulum, level, artix.gravity_compensation(pendulum, level)
      ... )
      >>> print(jnp.abs(held).max() < 1e-4)
      True
    """
    return solve_acceleration(articulation, state, force, external_force)


def solve_acceleration(articulation, state, force, external_force, *, many: bool = False) -> Array:
    """:func:`forward_dynamics`; set ``many`` if the caller also solves for about as many right-hand
    sides as DOFs.
    """
    check_state(articulation, state)
    check_vector("force", force, (articulation.topology.nv,), articulation.dtype, "nv")
    return _forward_dynamics(many, articulation, state, force, external_force)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _forward_dynamics(many, articulation, state, force, external_force) -> Array:
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, None, external_force, gravity=True)
    rest = force - generalized_forces(articulation.topology, rnea.motions, rnea.force)
    return linear_solve(articulation, kin, factorize(articulation, kin, many=many), rest)


@functools.partial(_forward_dynamics.defjvp, symbolic_zeros=True)
def _forward_dynamics_jvp(many, primals, tangents):
    """Differentiates ``inverse_dynamics(forward_dynamics(force)) == force``."""
    articulation, state, _, external_force = primals
    d_articulation, d_state, d_force, d_external_force = tangents
    acceleration = _forward_dynamics(many, *primals)
    kin = kinematics(articulation, state)
    required = equation_of_motion_change(
        kin,
        (articulation, state, acceleration, external_force),
        (d_articulation, d_state, None, d_external_force),
    )
    change = add(None if is_zero(d_force) else d_force, None if required is None else -required)
    if change is None:
        return acceleration, jnp.zeros_like(acceleration)
    return acceleration, linear_solve(
        articulation, kin, factorize(articulation, kin, many=many), change
    )
