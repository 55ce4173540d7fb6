"""Closed-form Jacobians on the configuration manifold: of integrate, of difference, and of the
position rates.

All are identities except for one block per rotation: the root's, about the world's axes, and the
spherical joints', about the axes of the child joint frame.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.configuration import rate_matrix
from artix.kinematics.tree import spherical_vectors, where_spherical
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector
from artix.model.topology import Topology

Array = jax.Array


class IntegrateDerivatives(NamedTuple):
    """Derivatives of the configuration that :func:`artix.integrate` reaches, in its tangent space,
    [nv, nv] each.

    Attributes:
      start: with respect to the configuration at the start, along tangent vectors there.
      displacement: by the displacement.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> derivatives = artix.kinematics.integrate_derivatives(
      ...     arm, artix.neutral_state(arm), jnp.zeros(7)
      ... )
      >>> print([array.shape for array in derivatives])
      [(7, 7), (7, 7)]
    """

    start: Array
    displacement: Array


class DifferenceDerivatives(NamedTuple):
    """Derivatives of :func:`artix.difference` in the tangent spaces of its two configurations,
    [nv, nv] each.

    Attributes:
      start: with respect to the configuration at the start.
      end: with respect to the configuration at the end.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> derivatives = artix.kinematics.difference_derivatives(arm, state, state)
      >>> print(jnp.diagonal(derivatives.start)[:2], jnp.diagonal(derivatives.end)[:2])
      [-1. -1.] [1. 1.]
    """

    start: Array
    end: Array


@quantity
def integrate_derivatives(
    articulation: Articulation, state: State, dnu: Array
) -> IntegrateDerivatives:
    """Derivatives of :func:`artix.integrate`, Pinocchio's ``dIntegrate``.

    Args:
      state: where to start.
      dnu: displacement, shape [nv] [m, rad].

    Returns:
      The derivatives of the end with respect to the start and to the displacement, each from the
      tangent space of the start to the tangent space of the end, shape [nv, nv]. Both are
      identities except for the blocks of a floating root's rotation and of spherical joints.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> turn = jnp.zeros(18).at[5].set(jnp.pi / 2)  # a quarter turn about z
      >>> derivatives = artix.kinematics.integrate_derivatives(robot, state, turn)
      >>> print(derivatives.displacement[3:6, 3:6])  # the left Jacobian of SO(3)
      [[ 0.637 -0.637  0.   ]
       [ 0.637  0.637  0.   ]
       [ 0.     0.     1.   ]]
    """
    check_state(articulation, state)
    tree = articulation.topology
    base = tree.num_base_dofs
    check_vector("dnu", dnu, (tree.nv,), articulation.dtype, "nv")
    turn = dnu[3:6, None] if base else jnp.zeros_like(dnu, shape=(3, 1))
    roots = (_rotation(turn), spatial.right_jacobian(-turn))
    if not tree.has_spherical:
        return IntegrateDerivatives(*(_tangent_matrix(tree, root, None) for root in roots))
    q, by = (spherical_vectors(tree, vector) for vector in (state.joint_position, dnu[base:]))
    product = spatial.quaternion_product(spatial.quaternion_exp(q), spatial.quaternion_exp(by))
    at_end = _drop_locked(tree, spatial.quaternion_log(product))
    blocks = (spatial.multiply(_rotation(-by), _drop_locked(tree, q)), spatial.right_jacobian(by))
    return IntegrateDerivatives(
        *(
            _tangent_matrix(tree, root, spatial.multiply(at_end, block))
            for root, block in zip(roots, blocks, strict=True)
        )
    )


@quantity
def difference_derivatives(
    articulation: Articulation, start: State, end: State
) -> DifferenceDerivatives:
    """Derivatives of :func:`artix.difference`, Pinocchio's ``dDifference``.

    Args:
      start: where to start.
      end: where to arrive.

    Returns:
      The derivatives with respect to the start and the end, each moving along tangent vectors of
      its own (see :func:`artix.integrate`), shape [nv, nv] each. At a half turn they belong to the
      branch taken.

    Identity: ``.end`` is the inverse of ``integrate_derivatives(a, start, difference(a, start,
    end)).displacement``.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> states = [artix.random_state(robot, jax.random.key(seed)) for seed in (0, 1)]
      >>> derivatives = artix.kinematics.difference_derivatives(robot, *states)
      >>> step = artix.difference(robot, *states)
      >>> forwards = artix.kinematics.integrate_derivatives(robot, states[0], step).displacement
      >>> print(jnp.allclose(derivatives.end @ forwards, jnp.eye(18), atol=1e-3))
      True
    """
    check_state(articulation, start)
    check_state(articulation, end)
    tree = articulation.topology
    old, new = (spatial.normalize(state.root_pose[3:, None]) for state in (start, end))
    turn = spatial.quaternion_log(spatial.quaternion_product(new, spatial.conjugate(old)))
    roots = (_inverse_jacobian(turn), _inverse_jacobian(-turn))
    if not tree.has_spherical:
        by_start, by_end = (_tangent_matrix(tree, root, None) for root in roots)
        return DifferenceDerivatives(-by_start, by_end)
    first, last = (spherical_vectors(tree, state.joint_position) for state in (start, end))
    inverse = spatial.conjugate(spatial.quaternion_exp(first))
    vector = spatial.quaternion_log(
        spatial.quaternion_product(inverse, spatial.quaternion_exp(last))
    )
    at_start = spatial.multiply(_inverse_jacobian(-vector), _drop_locked(tree, first))
    at_end = spatial.multiply(_inverse_jacobian(vector), _drop_locked(tree, last))
    return DifferenceDerivatives(
        -_tangent_matrix(tree, roots[0], at_start), _tangent_matrix(tree, roots[1], at_end)
    )


@quantity
def transport(articulation: Articulation, state: State, dnu: Array, tangents: Array) -> Array:
    """Carries tangent vectors along a displacement to its end, Pinocchio's ``dIntegrateTransport``.

    Args:
      state: where to start.
      dnu: the displacement, shape [nv] [m, rad].
      tangents: tangent vectors at the start as columns, shape [nv, k], or one, shape [nv].

    Returns:
      The tangent vectors at ``integrate(articulation, state, dnu)``, in the shape and units of
      ``tangents``: the first matrix of :func:`integrate_derivatives` times them.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.random_state(robot, jax.random.key(0))
      >>> step, tangents = jnp.full(18, 0.1), jnp.eye(18)
      >>> carried = artix.kinematics.transport(robot, state, step, tangents)
      >>> print(
      ...     jnp.allclose(
      ...         carried, artix.kinematics.integrate_derivatives(robot, state, step)[0], atol=1e-5
      ...     )
      ... )
      True
    """
    shape = (articulation.topology.nv, *getattr(tangents, "shape", ())[1:2])
    check_vector("tangents", tangents, shape, articulation.dtype, "nv, and one column per vector")
    return matmul(integrate_derivatives(articulation, state, dnu).start, tangents)


@quantity
def configuration_rate_map(articulation: Articulation, state: State) -> Array:
    """The matrix T of ``dq/dt = T(q) nu``, Pinocchio's ``tangentMap``.

    Returns:
      Shape [nq, nv] [m or 1]: rows are the rates of ``root_pose`` (7, for a floating base only),
      then of ``joint_position`` (n). Rows of spherical joints are as in
      :func:`artix.joint_rate_from_velocity`.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.random_state(robot, jax.random.key(0))
      >>> rates = artix.kinematics.configuration_rate_map(
      ...     robot, state
      ... ) @ artix.generalized_velocity(robot, state)
      >>> # the quaternion keeps its length
      >>> print(rates.shape, jnp.abs(rates[3:7] @ state.root_pose[3:]) < 1e-5)
      (19,) True
    """
    check_state(articulation, state)
    tree = articulation.topology
    blocks = rate_matrix(tree, state.joint_position) if tree.has_spherical else None
    joints = _joint_matrix(tree, blocks, articulation.dtype)
    if tree.num_base_dofs == 0:
        return joints
    quaternion = spatial.normalize(state.root_pose[3:, None])
    center = spatial.rotate(quaternion, articulation.link_com_pose[0, :3, None])
    unit = jnp.eye(3, dtype=joints.dtype)
    spin = 0.5 * spatial.right_product_matrix(quaternion)[:, :3, 0]
    root = jnp.block([[unit, spatial.skew(center)[..., 0]], [jnp.zeros_like(spin), spin]])
    return _block_diagonal(root, joints)


def _rotation(vector: Array) -> Array:
    return spatial.rotation_matrix(spatial.quaternion_exp(vector))


def _inverse_jacobian(vector: Array) -> Array:
    return spatial.inverse(spatial.right_jacobian(vector))


def _drop_locked(tree: Topology, vector: Array) -> Array:
    """Effect on angular velocities of dropping the locked components of rotation vectors [3, B-1]:
    [3, 3, B-1].

    It is the identity if three axes are free; with two, dropping the third component also rotates
    the joint.
    """
    free = tree.body_dofs[:, 1:] < tree.num_dofs
    all_free = np.all(free, axis=0)
    vector = jnp.where(all_free, jnp.zeros_like(vector), vector)
    rates = _inverse_jacobian(vector)
    rates = jnp.where(free[:, None], rates, jnp.zeros_like(rates))
    jacobian = spatial.right_jacobian(jnp.where(free, vector, jnp.zeros_like(vector)))
    return jnp.where(all_free, spatial.identity_like(vector), spatial.multiply(jacobian, rates))


def _tangent_matrix(tree: Topology, root: Array, blocks: Array | None) -> Array:
    """A map of tangent vectors [nv, nv], from blocks for the root's rotation [3, 3, 1] and for
    spherical joints.
    """
    joints = _joint_matrix(tree, blocks, root.dtype)
    if tree.num_base_dofs == 0:
        return joints
    unit = jnp.eye(3, dtype=root.dtype)
    return _block_diagonal(_block_diagonal(unit, root[..., 0]), joints)


def _joint_matrix(tree: Topology, blocks: Array | None, dtype) -> Array:
    """The matrix [n, n] with blocks [3, 3, B-1] for spherical joints, ones for other DOFs."""
    n = tree.num_dofs
    together = tree.dof_body[:, None] == tree.dof_body
    if blocks is None:
        return jnp.asarray(together, dtype)
    matrix = jnp.zeros((n, n), dtype)
    for k in range(3):
        entries = where_spherical(tree, blocks[:, k], jnp.full((n,), float(k == 0), dtype))
        matrix = jnp.where(together & (tree.dof_column == k), entries[:, None], matrix)
    return matrix


def _block_diagonal(first: Array, second: Array) -> Array:
    columns = first.shape[1]
    above = jnp.pad(first, ((0, 0), (0, second.shape[1])))
    return jnp.concatenate([above, jnp.pad(second, ((0, 0), (columns, 0)))])
