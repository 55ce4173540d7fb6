"""Forward dynamics: the acceleration that forces cause."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.checks import check_state, check_vector
from artix.constants import split_known
from artix.displacements import has_all_displacements
from artix.dynamics.factorization import Factors
from artix.dynamics.inverse import force_change
from artix.dynamics.newton_euler import generalized_forces, newton_euler
from artix.dynamics.solve import factorize, linear_solve, single_solution
from artix.evaluation import in_lanes, quantity
from artix.kinematics import kinematics
from artix.tangents import add, is_zero

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
    """
    acceleration = functools.partial(rigid_body_acceleration, alone=True)
    return in_lanes(acceleration, articulation, state, force, external_force)


def rigid_body_acceleration(
    articulation: Articulation, state: State, force: Array, external_force: Array | None = None, *, alone: bool = False
) -> Array:
    """:func:`forward_dynamics` for programs that also need its kinematics and, unless it is ``alone``, its factors."""
    tree = articulation.topology
    check_state(articulation, state)
    check_vector("force", force, (tree.nv,), articulation.dtype, "nv")
    if not has_all_displacements(tree):
        return _plain_forward_dynamics(articulation, state, force, external_force)
    known, traced = split_known(articulation)
    return _ruled_forward_dynamics(alone, known, traced, state, force, external_force)


def _plain_forward_dynamics(articulation, state, force, external_force) -> Array:
    kin = kinematics(articulation, state)
    factors, rest = factorized_equation(articulation, kin, state, force, external_force)
    return linear_solve(articulation, kin, factors, rest)


def factorized_equation(articulation, kin, state, force, external_force) -> tuple[Factors, Array]:
    """The factors of the mass matrix and the forces that are left for it."""
    rest = _rest(articulation, kin, state, force, external_force)
    return factorize(articulation, kin, rest), rest


def _rest(articulation, kin, state, force, external_force) -> Array:
    found = newton_euler(articulation, kin, state, None, external_force, gravity=True)
    return force - generalized_forces(articulation.topology, found.motions, found.force)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _ruled_forward_dynamics(alone: bool, known, traced, state, force, external_force) -> Array:
    """Of the same articulation and state nothing else is to be solved where it is ``alone``."""
    articulation = traced if known is None else known
    if not alone:
        return _plain_forward_dynamics(articulation, state, force, external_force)
    kin = kinematics(articulation, state)
    return single_solution(articulation, kin, _rest(articulation, kin, state, force, external_force))


@functools.partial(_ruled_forward_dynamics.defjvp, symbolic_zeros=True)
def _forward_dynamics_jvp(_, known, primals, tangents):
    """Differentiates ``inverse_dynamics(forward_dynamics(force)) == force``."""
    (state, _, external_force), (d_articulation, d_state, d_force, d_external_force) = primals[1:], tangents
    articulation = primals[0] if known is None else known
    acceleration = _ruled_forward_dynamics(False, known, *primals)
    kin = kinematics(articulation, state)
    found = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    moved = force_change(
        True,
        (articulation, state, acceleration, external_force),
        (d_articulation, d_state, None, d_external_force),
        kin,
        found,
    )
    if not is_zero(d_articulation) and not is_zero(d_articulation.armature):
        base = articulation.topology.num_base_dofs
        by_armature = d_articulation.armature * acceleration[base:]
        moved = add(moved, jnp.concatenate([jnp.zeros(base, by_armature.dtype), by_armature]))
    change = add(None if is_zero(d_force) else d_force, None if moved is None else -moved)
    if change is None:
        return acceleration, jnp.zeros_like(acceleration)
    # The very factors that the acceleration was found with: XLA computes them once.
    factors, _ = factorized_equation(articulation, kin, state, primals[2], external_force)
    return acceleration, linear_solve(articulation, kin, factors, change)
