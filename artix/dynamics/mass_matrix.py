"""The joint-space inertia matrix by the composite-rigid-body algorithm in mask form."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.dynamics.inertia import composite_inertias, momentum, reference_inertias
from artix.kinematics import Kinematics, Motion, dof_motions, kinematics
from artix.tree import stage

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
    tree = articulation.topology
    kin = kinematics(articulation, state)
    motions, forces = generalized_momenta(articulation, kin)
    upper, lower = (jnp.asarray(half, articulation.dtype) for half in tree.mass_matrix_halves)
    above = sum(motions[k][:, None] * forces[k][None] for k in range(6))
    below = sum(forces[k][:, None] * motions[k][None] for k in range(6))
    matrix = upper * above + lower * below
    if armature:
        matrix = matrix + jnp.diag(
            jnp.concatenate([jnp.zeros(tree.num_base_dofs, matrix.dtype), articulation.armature])
        )
    return matrix


def generalized_momenta(articulation: Articulation, kin: Kinematics) -> tuple[Array, Array]:
    """For each entry of the generalised velocity, its unit motion S_j and the momentum ``I^c_j S_j`` of all that it
    moves.

    Both are [6, nv], linear part first, about the reference point and in world axes.
    """
    tree = articulation.topology
    joints = Motion(*stage(*dof_motions(tree, kin)))
    whole, below = composite_inertias(tree, reference_inertias(articulation, kin))
    motions, forces = jnp.concatenate(joints), jnp.concatenate(momentum(below, joints))
    if tree.num_base_dofs:
        unit = jnp.eye(6, dtype=motions.dtype)
        root = jnp.concatenate(momentum(whole, Motion(unit[:3], unit[3:])))
        if tree.base_is_free is not None:
            root, unit = (jnp.where(tree.base_is_free, x, jnp.zeros_like(x)) for x in (root, unit))
        motions, forces = jnp.concatenate([unit, motions], axis=1), jnp.concatenate([root, forces], axis=1)
    return stage(motions, forces)
