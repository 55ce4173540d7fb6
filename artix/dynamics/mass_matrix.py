"""The joint-space inertia matrix by the composite-rigid-body algorithm in mask form.

With S_j the motion that a unit velocity of DOF j gives to what lies below it, and I^c_j the inertia of all that as one
rigid body, ``M_ij = S_i . (I^c_j S_j)`` where DOF i is DOF j or lies above it, and zero where neither lies above the
other. Featherstone, *Rigid Body Dynamics Algorithms* (2008), section 6.2.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from artix.dynamics.inertia import composite_inertias, displaced_inertias, momentum_of_motion, reference_inertias
from artix.evaluation import quantity
from artix.kinematics.bodies import Inertias
from artix.kinematics.displacements import displaced_bodies, displacement_of, has_all_displacements
from artix.kinematics.solve import Kinematics, Motion, generalized_motions, kinematics, motion_cross
from artix.math.arrays import matmul, take
from artix.math.tangents import add, along
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state
from artix.model.padding import Tree

Array = jax.Array


@quantity
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

    Example:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> artix.mass_matrix(arm, state).shape
      (7, 7)
    """
    check_state(articulation, state)
    has_rule = has_all_displacements(articulation.topology)
    matrix = _mass_matrix_with_jvp(articulation, state) if has_rule else _mass_matrix(articulation, state)
    return matrix + jnp.diag(generalized_armature(articulation)) if armature else matrix


def _mass_matrix(articulation: Articulation, state: State) -> Array:
    return inertia_matrix(articulation, kinematics(articulation, state))


def inertia_matrix(articulation: Articulation, kin: Kinematics) -> Array:
    """The mass matrix without armature, of solved kinematics."""
    return _symmetric_product(articulation.topology, *generalized_momenta(articulation, kin))


def generalized_momenta(articulation: Articulation, kin: Kinematics) -> tuple[Array, Array]:
    """For each entry of the generalised velocity, its unit motion S_j and the momentum ``I^c_j S_j`` of all that it
    moves.

    Both are [6, nv], linear part first, about the reference point and in world axes.
    """
    motions = generalized_motions(articulation, kin)
    inertias = reference_inertias(articulation, kin)
    return motions, _momenta(articulation.topology, inertias, motions)


def _momenta(tree: Tree, inertias: Inertias, motions: Array) -> Array:
    """Momenta [6, nv] that motions [6, nv] give to all that the entries of the generalised velocity move."""
    total, below = composite_inertias(tree, inertias)
    base = tree.num_base_dofs
    forces = jnp.concatenate(momentum_of_motion(below, Motion(motions[:3, base:], motions[3:, base:])))
    if base == 0:
        return forces
    root = jnp.concatenate(momentum_of_motion(total, Motion(motions[:3, :base], motions[3:, :base])))
    return jnp.concatenate([root, forces], axis=1)


def _symmetric_product(tree: Tree, motions: Array, forces: Array) -> Array:
    """The mass matrix from unit motions [6, nv] and the momenta [6, nv] that they give to all that they move."""
    return _from_upper_half(tree, matmul(motions.T, forces))


def _from_upper_half(tree: Tree, above: Array) -> Array:
    upper, lower = (jnp.asarray(half, above.dtype) for half in tree.mass_matrix_halves)
    return upper * above + lower * above.T


def generalized_armature(articulation: Articulation) -> Array:
    """The armature of all entries of the generalised velocity, zero for the root's, [nv]."""
    base = articulation.topology.num_base_dofs
    return jnp.concatenate([jnp.zeros(base, articulation.dtype), articulation.armature])


# --- the derivative ---------------------------------------------------------------------------------------------------


@jax.custom_jvp
def _mass_matrix_with_jvp(articulation: Articulation, state: State) -> Array:
    return _mass_matrix(articulation, state)


@functools.partial(_mass_matrix_with_jvp.defjvp, symbolic_zeros=True)
def _mass_matrix_jvp(primals, tangents):
    """Bodies and DOFs move by path sums of displacements; their inertias and motions move along."""
    (articulation, state), (d_articulation, d_state) = primals, tangents
    tree, base = articulation.topology, articulation.topology.num_base_dofs
    kin = kinematics(articulation, state)
    motions, forces = generalized_momenta(articulation, kin)
    matrix = _symmetric_product(tree, motions, forces)
    change = along(lambda a: _mass_matrix(a, state), articulation, d_articulation)
    displacement = displacement_of(tree, state, d_state.root_pose, d_state.joint_position)
    if displacement is not None:
        joints = Motion(motions[:3, base:], motions[3:, base:])
        moved = displaced_bodies(tree, kin, joints, displacement)
        inertias = reference_inertias(articulation, kin)
        d_joints = motion_cross(Motion(*(take(part, tree.dof_body) for part in moved)), joints)
        d_motions = jnp.pad(jnp.concatenate(d_joints), ((0, 0), (base, 0)))
        d_forces = momenta_rates(tree, inertias, moved, motions, d_motions)
        change = add(change, _from_upper_half(tree, matmul(d_motions.T, forces) + matmul(motions.T, d_forces)))
    return matrix, jnp.zeros_like(matrix) if change is None else change


def momenta_rates(tree: Tree, inertias: Inertias, moved: Motion, motions: Array, d_motions: Array) -> Array:
    """Changes of the momenta ``I^c_j S_j`` [6, nv] with motions [3, B] of the bodies and changes [6, nv] of the S_j.

    The root's own motions do not change.
    """
    base = tree.num_base_dofs
    turned = jnp.pad(_momenta(tree, inertias, d_motions)[:, base:], ((0, 0), (base, 0)))
    return _momenta(tree, displaced_inertias(inertias, moved), motions) + turned
