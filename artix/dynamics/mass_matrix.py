"""The composite-rigid-body algorithm (CRBA), its recursion written as sums over the tree.

Let S_j be the motion that a unit velocity of DOF j gives to the bodies below it, about one point
and in world axes::

    inertia of the composite body    I^c_j = sum of I_b over the bodies below j            composite_inertias
    its momentum                     F_j = I^c_j S_j                                       generalized_momenta
    mass matrix                      M_ij = S_i . F_j if DOF i is DOF j or above it        inertia_matrix

and zero where neither DOF lies above the other. Featherstone, *Rigid Body Dynamics Algorithms*
(2008), section 6.2.
"""  # noqa: E501

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inertia import (
    Inertias,
    composite_inertias,
    inertia_rates,
    momentum_of_motion,
    reference_inertias,
)
from artix.kinematics.columns import displaced_bodies, displacement_from_tangents
from artix.kinematics.forward import Kinematics, generalized_motions, kinematics, motion_rates
from artix.math.arrays import matmul
from artix.math.spatial import Motion
from artix.math.tangents import add, directional_derivative
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state
from artix.model.topology import Topology

Array = jax.Array


@quantity
def mass_matrix(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Joint-space inertia matrix M of ``M(q) nu' + coriolis + gravity = tau + sum_i J_i^T w_i``.

    Composite-rigid-body algorithm (Featherstone, *Rigid Body Dynamics Algorithms*, 2008, section
    6.2) in the form ``M_ij = S_i . (I^c_j S_j)`` for DOF i above DOF j. Mirrors PhysX's
    ``computeMassMatrix`` and, with ``armature=True``, Pinocchio's ``crba``.

    Args:
      armature: whether to add the joints' armature to the diagonal; PhysX does not.

    Returns:
      The symmetric, positive definite matrix, shape [nv, nv] [kg, kg m or kg m^2]; rows and columns
      follow the generalised velocity (root linear, root angular, joints; world axes at the root's
      centre of mass).

    Identity: ``nu @ mass_matrix(a, s) @ nu / 2 == kinetic_energy(a, s)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")  # two rods of 1 kg and 1 m
      >>> straight = artix.neutral_state(pendulum)
      >>> print(artix.mass_matrix(pendulum, straight))
      [[2.667 0.834]
       [0.834 0.334]]
      >>> bent = straight.replace(joint_position=jnp.array([0.0, jnp.pi / 2]))
      >>> print(artix.mass_matrix(pendulum, bent))
      [[1.667 0.334]
       [0.334 0.334]]
    """
    check_state(articulation, state)
    matrix = _mass_matrix_with_jvp(articulation, state)
    return matrix + jnp.diag(generalized_armature(articulation)) if armature else matrix


def _mass_matrix(articulation: Articulation, state: State) -> Array:
    return inertia_matrix(articulation, kinematics(articulation, state))


def inertia_matrix(articulation: Articulation, kin: Kinematics) -> Array:
    """The mass matrix without armature, from solved kinematics."""
    motions, momenta = generalized_momenta(articulation, kin)
    return _from_upper_half(articulation.topology, matmul(motions.T, momenta))


def generalized_momenta(articulation: Articulation, kin: Kinematics) -> tuple[Array, Array]:
    """Unit motions S_j of the generalised velocity and momenta ``I^c_j S_j`` of the bodies that
    they move.

    Both are [6, nv], linear part first, about the reference point and in world axes.
    """
    motions = generalized_motions(articulation, kin)
    inertias = reference_inertias(articulation, kin)
    return motions, _momenta(articulation.topology, inertias, motions)


def _momenta(tree: Topology, inertias: Inertias, motions: Array) -> Array:
    """Momenta ``I^c_j S_j`` [6, nv] of the composite bodies for motions S_j [6, nv]."""
    total, below = composite_inertias(tree, inertias)
    base = tree.num_base_dofs
    joints = jnp.concatenate(momentum_of_motion(below, Motion.from_rows(motions[:, base:])))
    if base == 0:
        return joints
    root = jnp.concatenate(momentum_of_motion(total, Motion.from_rows(motions[:, :base])))
    return jnp.concatenate([root, joints], axis=1)


def _from_upper_half(tree: Topology, matrix: Array) -> Array:
    """The symmetric matrix with the tree's pattern whose upper half ``matrix`` has."""
    upper, lower = (jnp.asarray(half, matrix.dtype) for half in tree.mass_matrix_halves)
    return upper * matrix + lower * matrix.T


def generalized_armature(articulation: Articulation) -> Array:
    """The armature of all entries of the generalised velocity, zero for the root's, [nv]."""
    base = articulation.topology.num_base_dofs
    return jnp.concatenate([jnp.zeros(base, articulation.dtype), articulation.armature])


# --- the derivative -----------------------------------------------------------------------------


@jax.custom_jvp
def _mass_matrix_with_jvp(articulation: Articulation, state: State) -> Array:
    return _mass_matrix(articulation, state)


@functools.partial(_mass_matrix_with_jvp.defjvp, symbolic_zeros=True)
def _mass_matrix_jvp(primals, tangents):
    """The inertias of the bodies and the motions of the DOFs move with the bodies, by path sums of
    displacements.
    """
    articulation, state = primals
    d_articulation, d_state = tangents
    tree = articulation.topology
    base = tree.num_base_dofs
    kin = kinematics(articulation, state)
    motions, momenta = generalized_momenta(articulation, kin)
    matrix = _from_upper_half(tree, matmul(motions.T, momenta))
    change = directional_derivative(lambda a: _mass_matrix(a, state), articulation, d_articulation)
    displacement = displacement_from_tangents(
        tree, state, d_state.root_pose, d_state.joint_position
    )
    if displacement is not None:
        joints = Motion.from_rows(motions[:, base:])
        d_bodies = displaced_bodies(tree, kin, joints, displacement)
        inertias = reference_inertias(articulation, kin)
        d_motions = jnp.pad(
            jnp.concatenate(motion_rates(tree, d_bodies, joints)), ((0, 0), (base, 0))
        )
        d_momenta = momenta_rates(tree, inertias, d_bodies, motions, d_motions)
        change = add(
            change,
            _from_upper_half(tree, matmul(d_motions.T, momenta) + matmul(motions.T, d_momenta)),
        )
    return matrix, jnp.zeros_like(matrix) if change is None else change


def momenta_rates(
    tree: Topology, inertias: Inertias, d_bodies: Motion, motions: Array, d_motions: Array
) -> Array:
    """Rates of the momenta ``I^c_j S_j`` [6, nv] for motions [3, B] of the bodies and rates [6, nv]
    of the S_j.

    The root's own motions do not change.
    """
    base = tree.num_base_dofs
    by_motions = jnp.pad(_momenta(tree, inertias, d_motions)[:, base:], ((0, 0), (base, 0)))
    return _momenta(tree, inertia_rates(inertias, d_bodies), motions) + by_motions
