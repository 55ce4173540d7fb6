"""Inverse dynamics by the recursive Newton-Euler algorithm in mask form, and the compensation forces it contains."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation, State
from artix.checks import check_vector
from artix.dynamics.inertia import reference_inertias, weights
from artix.kinematics import Kinematics, Motion, body_accelerations, dof_motions, kinematics, link_centers
from artix.tree import masked_sum, stage, subtree_sums

Array = jax.Array


def inverse_dynamics(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    external_force: Array | None = None,
    *,
    armature: bool = True,
) -> Array:
    """Generalised forces that produce a given acceleration: ``tau = M nu' + coriolis + gravity - sum_i J_i^T w_i``.

    Recursive Newton-Euler algorithm (Featherstone 2008, section 5.3) with all recursions written as path and subtree
    sums. Mirrors Pinocchio's ``rnea``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv]: for a floating base the classical acceleration of the root's
        centre of mass [m/s^2] and the angular acceleration [rad/s^2] in world axes, then the joints'.
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in world axes, shape [L,
        6].
      armature: whether the joints' armature resists the acceleration, as in forward dynamics.

    Returns:
      Generalised forces, shape [nv]: root force [N] and torque about the root's centre of mass [N m] in world axes
      for a floating base, then the joint forces [N m or N].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``inverse_dynamics(a, s, acc) == mass_matrix(a, s, armature=True) @ acc + bias_force(a, s)``.
    """
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    force = _newton_euler(articulation, kin, state, acceleration, gravity=True)
    if external_force is not None:
        force = force - _wrench_sums(articulation, kin, external_force)
    if armature:
        force = force.at[tree.num_base_dofs :].add(articulation.armature * acceleration[tree.num_base_dofs :])
    return force


def bias_force(articulation: Articulation, state: State) -> Array:
    """Coriolis, centrifugal and gravity forces to apply: ``coriolis_compensation + gravity_compensation``.

    Pinocchio's ``nonLinearEffects``, MuJoCo's ``qfrc_bias``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      Generalised forces, shape [nv]; layout, units and exceptions as :func:`inverse_dynamics`.

    Identity: ``bias_force(a, s) == inverse_dynamics(a, s, 0)``.
    """
    kin = kinematics(articulation, state)
    return _newton_euler(articulation, kin, state, None, gravity=True)


def coriolis_compensation(articulation: Articulation, state: State) -> Array:
    """Forces to apply so that velocities alone cause no acceleration, PhysX's ``computeCoriolisCompensation``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      Generalised forces, shape [nv]; layout, units and exceptions as :func:`inverse_dynamics`. Unlike PhysX's, they
      are not computed with joint velocities clipped to ``max_joint_velocity``.

    Identity: quadratic in the velocities, and independent of the root's linear velocity.
    """
    kin = kinematics(articulation, state)
    return _newton_euler(articulation, kin, state, None, gravity=False)


def gravity_compensation(articulation: Articulation, state: State) -> Array:
    """Forces to apply so that gravity causes no acceleration, PhysX's ``computeGravityCompensation``.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured (PhysX's function ignores ``eDISABLE_GRAVITY``).
      state: its state; only the configuration matters.

    Returns:
      Generalised forces, shape [nv]; layout, units and exceptions as :func:`inverse_dynamics`.

    Identity: the gradient of ``potential_energy`` along ``integrate``.
    """
    kin = kinematics(articulation, state)
    tree = articulation.topology
    mass, moment = weights(articulation, kin)
    whole, below = subtree_sums(tree, jnp.concatenate([mass[None], moment]))
    gravity = -articulation.gravity[:, None]
    root = jnp.concatenate([whole[:1] * gravity, spatial.cross(whole[1:], gravity)])
    motions = dof_motions(tree, kin)
    joints = spatial.dot(motions.linear, below[:1] * gravity) + spatial.dot(
        motions.angular, spatial.cross(below[1:], jnp.broadcast_to(gravity, below[1:].shape))
    )
    return generalized(articulation, root, joints)


def generalized_external_force(articulation: Articulation, state: State, external_force: Array) -> Array:
    """The generalised force ``sum_i J_i^T w_i`` of wrenches on the links.

    PhysX's ``computeGeneralizedExternalForce`` returns the opposite, the joint force that counteracts the wrenches.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in world axes, shape [L,
        6].

    Returns:
      Generalised forces, shape [nv]; layout, units and exceptions as :func:`inverse_dynamics`.

    Identity: ``dense_jacobian(a, s).T @ external_force.ravel()`` (for a fixed base without the root's wrench).
    """
    kin = kinematics(articulation, state)
    return _wrench_sums(articulation, kin, external_force)


def generalized(articulation: Articulation, root: Array, joints: Array) -> Array:
    """Joins root [6, 1] and joint [n] entries to the generalised layout [nv]."""
    tree = articulation.topology
    if tree.num_base_dofs == 0:
        return joints
    if tree.base_is_free is not None:
        root = jnp.where(tree.base_is_free, root, jnp.zeros_like(root))
    return jnp.concatenate([root[:, 0], joints])


def body_forces(
    articulation: Articulation,
    kin: Kinematics,
    motions: Motion,
    state: State,
    acceleration: Array | None,
    *,
    gravity: bool,
) -> Array:
    """Forces and torques about the reference point that the motion of each body takes, [6, B]."""
    velocity, rate = body_accelerations(articulation.topology, kin, motions, state, acceleration)
    omega = velocity.angular
    # A point at r from the reference point accelerates by ``at_reference + turning @ r``. Multiplied by the
    # pseudo-inertia this gives the force and the matrix of moments in one product, without any nested cross product.
    at_reference = rate.linear + spatial.cross(omega, velocity.linear)
    turning = spatial.skew(rate.angular) + omega[:, None] * omega[None]
    turning = turning - spatial.dot(omega, omega)[None, None] * spatial.identity_like(omega)
    at_reference, turning = stage(at_reference, turning)
    mass, first, second = reference_inertias(articulation, kin)
    force = mass[None] * at_reference + spatial.apply(turning, first)
    moments = spatial.multiply(turning, second) + at_reference[:, None] * first[None]
    if gravity:
        weight, moment = weights(articulation, kin)
        pull = articulation.gravity[:, None]
        force = force - weight[None] * pull
        moments = moments - pull[:, None] * moment[None]
    return stage(jnp.concatenate([force, spatial.axial(stage(moments))]))


def _newton_euler(
    articulation: Articulation, kin: Kinematics, state: State, acceleration: Array | None, *, gravity: bool
) -> Array:
    tree = articulation.topology
    motions = Motion(*stage(*dof_motions(tree, kin)))
    forces = body_forces(articulation, kin, motions, state, acceleration, gravity=gravity)
    whole, below = subtree_sums(tree, forces)
    return generalized(articulation, whole, spatial.dot(jnp.concatenate(motions), below))


def _wrench_sums(articulation: Articulation, kin: Kinematics, external_force: Array) -> Array:
    tree = articulation.topology
    shape = (tree.num_links, 6)
    check_vector("external_force", external_force, shape, articulation.dtype, "a wrench per link")
    force, torque = external_force[:, :3].T, external_force[:, 3:].T
    center = link_centers(articulation, kin)
    wrench = jnp.concatenate([force, torque + spatial.cross(center, force)])
    if tree.has_rigid_links:
        wrench = masked_sum(wrench, tree.link_in_body)
    whole, below = subtree_sums(tree, wrench)
    motions = jnp.concatenate(dof_motions(tree, kin))
    return generalized(articulation, whole, spatial.dot(motions, below))
