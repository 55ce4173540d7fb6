"""The joint-space inertia matrix by the composite-rigid-body algorithm in mask form."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.bodies import Inertias
from artix.dynamics.inertia import about_reference, composite_inertias, momentum, world_inertias
from artix.kinematics import Kinematics, Motion, dof_motions, kinematics
from artix.spatial import skew
from artix.tree import Tree, stage

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
    motions, forces, whole = unit_momenta(articulation, kin)
    joints = _joint_block(tree, motions, forces)
    if armature:
        joints = joints + jnp.diag(articulation.armature)
    if tree.num_base_dofs == 0:
        return joints
    root, coupling = root_block(whole), jnp.concatenate(forces)
    if tree.base_is_free is not None:
        root, coupling = (jnp.where(tree.base_is_free, x, jnp.zeros_like(x)) for x in (root, coupling))
    upper = jnp.concatenate([root, coupling], axis=1)
    return jnp.concatenate([upper, jnp.concatenate([coupling.T, joints], axis=1)])


def unit_momenta(articulation: Articulation, kin: Kinematics) -> tuple[Motion, Motion, Inertias]:
    """The motion S_j of each DOF, the momentum ``I^c_j S_j`` of all that it moves, and the composite inertia of the whole.

    All are about the reference point and in world axes.
    """
    tree = articulation.topology
    motions = Motion(*stage(*dof_motions(tree, kin)))
    inertias = about_reference(world_inertias(articulation, kin), kin)
    whole, below = composite_inertias(tree, Inertias(inertias.mass, *stage(*inertias[1:])))
    return motions, Motion(*stage(*momentum(below, motions))), whole


def root_block(whole: Inertias) -> Array:
    """The 6 x 6 inertia of the whole articulation about the root's centre of mass."""
    moment = skew(whole.first_moment)[:, :, 0]
    mass = jnp.eye(3, dtype=moment.dtype) * whole.mass[0]
    return jnp.block([[mass, -moment], [moment, whole.rotational[:, :, 0]]])


def _joint_block(tree: Tree, motions: Motion, forces: Motion) -> Array:
    s, f = jnp.concatenate(motions), jnp.concatenate(forces)
    upper, lower = (jnp.asarray(half, s.dtype) for half in tree.mass_matrix_halves)
    above = sum(s[k][:, None] * f[k][None, :] for k in range(6))
    below = sum(f[k][:, None] * s[k][None, :] for k in range(6))
    return upper * above + lower * below
