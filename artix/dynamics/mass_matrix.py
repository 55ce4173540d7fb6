"""The joint-space inertia matrix by the composite-rigid-body algorithm in mask form."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.dynamics.inertia import composite_inertias, momentum, reference_inertias
from artix.kinematics import Kinematics, Motion, dof_motions, kinematics
from artix.tree import free_root, stage

Array = jax.Array


def mass_matrix(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Joint-space inertia matrix M of ``M(q) nu' + coriolis + gravity = tau + sum_i J_i^T w_i``.

    Composite-rigid-body algorithm (Featherstone, *Rigid Body Dynamics Algorithms*, 2008, section 6.2) in the form
    ``M_ij = S_i . (I^c_j S_j)`` for DOF i above DOF j. Mirrors PhysX's ``computeMassMatrix`` and, with
    ``armature=True``, Pinocchio's ``crba``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      armature: whether to add the joints' armature to the diagonal; PhysX does not.

    Returns:
      The symmetric, positive definite matrix, shape [nv, nv]; rows and columns follow the generalised velocity (root
      linear, root angular, joints; world axes at the root's centre of mass) in kg, kg m and kg m^2.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``nu @ mass_matrix(a, s) @ nu / 2 == kinetic_energy(a, s)``.
    """
    matrix = inertia_matrix(articulation, kinematics(articulation, state))
    return matrix + jnp.diag(generalized_armature(articulation)) if armature else matrix


def inertia_matrix(articulation: Articulation, kin: Kinematics) -> Array:
    """The mass matrix without armature, of solved kinematics."""
    motions, forces = generalized_momenta(articulation, kin)
    upper, lower = (jnp.asarray(half, articulation.dtype) for half in articulation.topology.mass_matrix_halves)
    return upper * outer(motions, forces) + lower * outer(forces, motions)


def generalized_armature(articulation: Articulation) -> Array:
    """The armature of all entries of the generalised velocity, zero for the root's, [nv]."""
    base = articulation.topology.num_base_dofs
    return jnp.concatenate([jnp.zeros(base, articulation.dtype), articulation.armature])


def outer(rows: Array, columns: Array) -> Array:
    """Sum of the outer products of the k rows of two arrays, [k, n], [k, m] -> [n, m]."""
    return sum(rows[k][:, None] * columns[k][None] for k in range(rows.shape[0]))  # type: ignore[return-value]


def generalized_motions(articulation: Articulation, kin: Kinematics) -> Array:
    """The unit motions S_j of the generalised velocity about the reference point, linear part first, [6, nv]."""
    tree = articulation.topology
    motions = jnp.concatenate(Motion(*stage(*dof_motions(tree, kin))))
    if tree.num_base_dofs == 0:
        return motions
    return jnp.concatenate([free_root(tree, jnp.eye(6, dtype=motions.dtype)), motions], axis=1)


def generalized_momenta(articulation: Articulation, kin: Kinematics) -> tuple[Array, Array]:
    """For each entry of the generalised velocity, its unit motion S_j and the momentum ``I^c_j S_j`` of all that it
    moves.

    Both are [6, nv], linear part first, about the reference point and in world axes.
    """
    tree, base = articulation.topology, articulation.topology.num_base_dofs
    motions = generalized_motions(articulation, kin)
    whole, below = composite_inertias(tree, reference_inertias(articulation, kin))
    forces = jnp.concatenate(momentum(below, Motion(motions[:3, base:], motions[3:, base:])))
    if base:
        root = jnp.concatenate(momentum(whole, Motion(motions[:3, :base], motions[3:, :base])))
        forces = jnp.concatenate([root, forces], axis=1)
    return stage(motions, forces)
