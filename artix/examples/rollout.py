"""Simulates an articulation over a horizon; gradients with respect to the forces of all steps need
little memory.

It takes forces and returns states. For drives, limits, friction and tendons, use
:func:`artix.step`.
"""

from __future__ import annotations

import jax

import artix

Array = jax.Array


def step(
    articulation: artix.Articulation, state: artix.State, force: Array, dt: float
) -> artix.State:
    """One step of semi-implicit Euler, as linearised by :func:`artix.linearize`.

    Args:
      articulation: the articulation.
      state: the state at the start of the step.
      force: generalised forces, constant during the step, shape [nv] [N or N m].
      dt: length of the step [s].

    Returns:
      The state at the end of the step. The velocity is updated first, then the configuration moves
      with the new velocity.
    """
    change = dt * artix.forward_dynamics(articulation, state, force)
    velocity = artix.generalized_velocity(articulation, state) + change
    moved = artix.with_generalized_velocity(articulation, state, velocity)
    return artix.integrate(articulation, moved, dt * velocity)


def rollout(
    articulation: artix.Articulation, state: artix.State, forces: Array, dt: float
) -> artix.State:
    """Simulates T steps and returns the state after each.

    ``jax.checkpoint`` stops reverse mode from storing the intermediate results of a step. Only the
    states are kept, and the backward pass recomputes each step.

    Args:
      articulation: the articulation.
      state: the initial state.
      forces: generalised forces of each step, shape [T, nv] [N or N m].
      dt: length of a step [s].

    Returns:
      The states; every array has a leading axis of length T.
    """

    @jax.checkpoint
    def advance(state: artix.State, force: Array) -> artix.State:
        return step(articulation, state, force, dt)

    def body(state: artix.State, force: Array) -> tuple[artix.State, artix.State]:
        moved = advance(state, force)
        return moved, moved

    return jax.lax.scan(body, state, forces)[1]
