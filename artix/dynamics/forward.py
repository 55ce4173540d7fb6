"""Forward dynamics: accelerations from forces."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from artix.dynamics.inverse import force_change
from artix.dynamics.newton_euler import generalized_forces, newton_euler
from artix.dynamics.solve import factorize, linear_solve
from artix.evaluation import quantity
from artix.kinematics.displacements import has_all_displacements
from artix.kinematics.solve import kinematics
from artix.math.tangents import add, is_zero
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector

Array = jax.Array


@quantity
def forward_dynamics(
    articulation: Articulation, state: State, force: Array, external_force: Array | None = None
) -> Array:
    """Generalised acceleration of ``(M + armature) nu' = force - coriolis - gravity + sum_i J_i^T w_i``.

    The mass matrix is factorised along the tree, level by level or, where the tree is deep, by articulated bodies (see
    :mod:`artix.dynamics.factorization`). Mirrors Pinocchio's ``aba`` and, for the joints, PhysX's
    ``computeJointAcceleration``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      force: generalised forces, shape [nv]: for a floating base the force on the root's centre of mass [N] and the
        torque about it [N m] in world axes, then the joint forces [N m or N].
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in world axes, shape
        [L, 6].

    Returns:
      Generalised acceleration, shape [nv]: for a floating base the classical acceleration of the root's centre of mass
      [m/s^2] and the angular acceleration [rad/s^2] in world axes, then the joints' [rad/s^2 or m/s^2].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``inverse_dynamics(a, s, forward_dynamics(a, s, tau, w), w) == tau``.

    Example:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> acceleration = artix.forward_dynamics(arm, state, artix.gravity_compensation(arm, state))
      >>> bool(jnp.all(jnp.abs(acceleration) < 1e-3))
      True
    """
    check_state(articulation, state)
    check_vector("force", force, (articulation.topology.nv,), articulation.dtype, "nv")
    if not has_all_displacements(articulation.topology):
        return _forward_dynamics(articulation, state, force, external_force)
    return _forward_dynamics_with_jvp(articulation, state, force, external_force)


def _forward_dynamics(articulation, state, force, external_force) -> Array:
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, None, external_force, gravity=True)
    rest = force - generalized_forces(articulation.topology, rnea.motions, rnea.force)
    return linear_solve(articulation, kin, factorize(articulation, kin), rest)


@jax.custom_jvp
def _forward_dynamics_with_jvp(articulation, state, force, external_force) -> Array:
    return _forward_dynamics(articulation, state, force, external_force)


@functools.partial(_forward_dynamics_with_jvp.defjvp, symbolic_zeros=True)
def _forward_dynamics_jvp(primals, tangents):
    """Differentiates ``inverse_dynamics(forward_dynamics(force)) == force``."""
    (articulation, state, _, external_force), (d_articulation, d_state, d_force, d_external_force) = primals, tangents
    acceleration = _forward_dynamics_with_jvp(*primals)
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    moved = force_change(
        True,
        (articulation, state, acceleration, external_force),
        (d_articulation, d_state, None, d_external_force),
        kin,
        rnea,
    )
    if not is_zero(d_articulation) and not is_zero(d_articulation.armature):
        base = articulation.topology.num_base_dofs
        moved = add(moved, jnp.pad(d_articulation.armature * acceleration[base:], (base, 0)))
    change = add(None if is_zero(d_force) else d_force, None if moved is None else -moved)
    if change is None:
        return acceleration, jnp.zeros_like(acceleration)
    return acceleration, linear_solve(articulation, kin, factorize(articulation, kin), change)
