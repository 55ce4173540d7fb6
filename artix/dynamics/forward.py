"""Forward dynamics: accelerations from forces."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inverse import equation_of_motion_change
from artix.dynamics.newton_euler import generalized_forces, newton_euler
from artix.dynamics.solve import factorize, linear_solve
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

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> print(artix.forward_dynamics(pendulum, level, jnp.zeros(2)))  # let go
      [-12.606  16.796]
      >>> held = artix.forward_dynamics(pendulum, level, artix.gravity_compensation(pendulum, level))
      >>> print(jnp.abs(held).max() < 1e-4)
      True
    """
    return solve_acceleration(articulation, state, force, external_force)


def solve_acceleration(articulation, state, force, external_force, *, many: bool = False) -> Array:
    """:func:`forward_dynamics`; set ``many`` if the caller also solves for about as many right-hand sides as DOFs."""
    check_state(articulation, state)
    check_vector("force", force, (articulation.topology.nv,), articulation.dtype, "nv")
    return _forward_dynamics(many, articulation, state, force, external_force)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _forward_dynamics(many, articulation, state, force, external_force) -> Array:
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, None, external_force, gravity=True)
    rest = force - generalized_forces(articulation.topology, rnea.motions, rnea.force)
    return linear_solve(articulation, kin, factorize(articulation, kin, many=many), rest)


@functools.partial(_forward_dynamics.defjvp, symbolic_zeros=True)
def _forward_dynamics_jvp(many, primals, tangents):
    """Differentiates ``inverse_dynamics(forward_dynamics(force)) == force``."""
    (articulation, state, _, external_force), (d_articulation, d_state, d_force, d_external_force) = primals, tangents
    acceleration = _forward_dynamics(many, *primals)
    kin = kinematics(articulation, state)
    required = equation_of_motion_change(
        kin,
        (articulation, state, acceleration, external_force),
        (d_articulation, d_state, None, d_external_force),
    )
    change = add(None if is_zero(d_force) else d_force, None if required is None else -required)
    if change is None:
        return acceleration, jnp.zeros_like(acceleration)
    return acceleration, linear_solve(articulation, kin, factorize(articulation, kin, many=many), change)
