"""The joint-space inertia matrix by the composite-rigid-body algorithm in mask form."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation, State
from artix.bodies import Inertias
from artix.checks import check_state
from artix.constants import split_known
from artix.displacements import displaced_bodies, displacement_of, has_all_displacements
from artix.dynamics.inertia import composite_inertias, displaced_inertias, momentum, reference_inertias
from artix.evaluation import MOST_DOFS_OF_MATRICES, in_lanes, quantity
from artix.kinematics import Kinematics, Motion, generalized_motions, kinematics, motion_cross
from artix.tangents import add, along, times
from artix.tree import Tree, after, stage, take

Array = jax.Array
Product: TypeAlias = Callable[[Array, Array], Array]
Evaluation: TypeAlias = Callable[..., Any]
"""How a function of an articulation and a state is evaluated: plainly, or :func:`artix.evaluation.in_lanes`."""


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
    """
    check_state(articulation, state)
    if articulation.topology.nv > MOST_DOFS_OF_MATRICES:
        matrix = _mass_matrix(outer, in_lanes, articulation, state)
    else:
        matrix = in_lanes(functools.partial(_mass_matrix, outer, _plainly), articulation, state)
    return matrix + jnp.diag(generalized_armature(articulation)) if armature else matrix


def shared_mass_matrix(articulation: Articulation, state: State) -> Array:
    """:func:`mass_matrix` for programs that use it in many places.

    A matrix product, unlike a sum of six outer products, is computed once and not again in each of its consumers:
    a step of a quadruped has a third fewer instructions with it.
    """
    return _mass_matrix(_matrix_product, _plainly, articulation, state)


def _plainly(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _mass_matrix(product: Product, evaluated: Evaluation, articulation: Articulation, state: State) -> Array:
    if has_all_displacements(articulation.topology):
        return _ruled_mass_matrix(product, evaluated, *split_known(articulation), state)
    return _product_of_momenta(product, evaluated, articulation, state)


def _product_of_momenta(product: Product, evaluated: Evaluation, articulation: Articulation, state: State) -> Array:
    motions, forces = evaluated(momenta_of_state, articulation, state)
    return symmetric_product(articulation.topology, motions, forces, product)


def momenta_of_state(articulation: Articulation, state: State) -> tuple[Array, Array]:
    """:func:`generalized_momenta` with kinematics of its own."""
    return generalized_momenta(articulation, kinematics(articulation, state))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _ruled_mass_matrix(product: Product, evaluated: Evaluation, known, traced, state: State) -> Array:
    return _product_of_momenta(product, evaluated, traced if known is None else known, state)


@functools.partial(_ruled_mass_matrix.defjvp, symbolic_zeros=True)
def _mass_matrix_jvp(product: Product, evaluated: Evaluation, known, primals, tangents):
    """Bodies and DOFs move by path sums of displacements; their inertias and motions move along."""
    (traced, state), (d_articulation, d_state) = primals, tangents
    articulation = traced if known is None else known
    tree, base = articulation.topology, articulation.topology.num_base_dofs
    kin = kinematics(articulation, state)
    motions, forces = generalized_momenta(articulation, kin)
    matrix = symmetric_product(tree, motions, forces, product)
    change = along(lambda a: inertia_matrix(a, kinematics(a, state)), articulation, d_articulation)
    displacement = displacement_of(tree, state, d_state.root_pose, d_state.joint_position)
    if displacement is not None:
        joints = Motion(motions[:3, base:], motions[3:, base:])
        moved = displaced_bodies(tree, kin, joints, displacement)
        inertias = reference_inertias(articulation, kin)
        d_joints = motion_cross(Motion(*(take(part, tree.dof_body) for part in moved)), joints)
        d_motions = jnp.pad(jnp.concatenate(d_joints), ((0, 0), (base, 0)))
        d_motions, d_forces = stage(d_motions, momenta_rates(tree, inertias, moved, motions, d_motions))
        above = outer(d_motions, forces) + outer(motions, d_forces)
        change = add(change, _from_halves(tree, above, above.T))
    return matrix, jnp.zeros_like(matrix) if change is None else change


def outer(rows: Array, columns: Array) -> Array:
    """Sum of the outer products of the k rows of two arrays, [k, n], [k, m] -> [n, m]."""
    return spatial.sum_of_products(rows[:, :, None], columns[:, None], axis=0)


def _matrix_product(rows: Array, columns: Array) -> Array:
    return times(rows.T, columns)


def inertia_matrix(articulation: Articulation, kin: Kinematics, product: Product = outer) -> Array:
    """The mass matrix without armature, of solved kinematics; ``product`` sums outer products, as :func:`outer`."""
    return symmetric_product(articulation.topology, *generalized_momenta(articulation, kin), product)


def symmetric_product(tree: Tree, motions: Array, forces: Array, product: Product = outer) -> Array:
    """The mass matrix from unit motions [6, nv] and the momenta [6, nv] that they give to all that they move."""
    return _from_halves(tree, product(motions, forces), product(forces, motions))


def _from_halves(tree: Tree, above: Array, below: Array) -> Array:
    upper, lower = (jnp.asarray(half, above.dtype) for half in tree.mass_matrix_halves)
    return upper * above + lower * below


def generalized_armature(articulation: Articulation) -> Array:
    """The armature of all entries of the generalised velocity, zero for the root's, [nv]."""
    base = articulation.topology.num_base_dofs
    return jnp.concatenate([jnp.zeros(base, articulation.dtype), articulation.armature])


def generalized_momenta(articulation: Articulation, kin: Kinematics, *earlier: Array) -> tuple[Array, Array]:
    """For each entry of the generalised velocity, its unit motion S_j and the momentum ``I^c_j S_j`` of all that it
    moves.

    Both are [6, nv], linear part first, about the reference point and in world axes, and computed after ``earlier``.
    """
    motions = generalized_motions(articulation, kin)
    inertias = reference_inertias(articulation, kin)
    inertias = inertias._replace(first=after(inertias.first, *earlier))
    return stage(motions, _momenta(articulation.topology, inertias, motions))


def momenta_rates(tree: Tree, inertias: Inertias, moved: Motion, motions: Array, d_motions: Array) -> Array:
    """Changes of the momenta ``I^c_j S_j`` [6, nv] with motions [3, B] of the bodies and changes [6, nv] of the S_j.

    The root's own motions do not change.
    """
    base = tree.num_base_dofs
    turned = jnp.pad(_momenta(tree, inertias, d_motions)[:, base:], ((0, 0), (base, 0)))
    return _momenta(tree, displaced_inertias(inertias, moved), motions) + turned


def _momenta(tree: Tree, inertias: Inertias, motions: Array) -> Array:
    """Momenta [6, nv] that motions [6, nv] give to all that the entries of the generalised velocity move."""
    whole, below = composite_inertias(tree, inertias)
    base = tree.num_base_dofs
    forces = jnp.concatenate(momentum(below, Motion(motions[:3, base:], motions[3:, base:])))
    if base == 0:
        return forces
    root = jnp.concatenate(momentum(whole, Motion(motions[:3, :base], motions[3:, :base])))
    return jnp.concatenate([root, forces], axis=1)
