"""Simulating an articulation over a horizon, so that gradients by the forces of every step are cheap in memory.

Forces in, states out, and nothing else: for drives, limits, friction and tendons see :func:`artix.step`.
"""

from __future__ import annotations

import jax

import artix

Array = jax.Array


def step(articulation: artix.Articulation, state: artix.State, force: Array, dt: float) -> artix.State:
    """One step of semi-implicit Euler, the one that :func:`artix.linearize` linearises.

    Args:
      articulation: the articulation.
      state: the state at the beginning of the step.
      force: generalised forces, constant over the step, shape [nv].
      dt: length of the step [s].

    Returns:
      The state at its end: first the velocity moves, then the configuration with the new velocity.
    """
    change = dt * artix.forward_dynamics(articulation, state, force)
    velocity = artix.generalized_velocity(articulation, state) + change
    moved = artix.with_generalized_velocity(articulation, state, velocity)
    return artix.integrate(articulation, moved, dt * velocity)


def rollout(articulation: artix.Articulation, state: artix.State, forces: Array, dt: float) -> artix.State:
    """The states after each of T steps.

    ``jax.checkpoint`` keeps reverse mode from storing what a step computed: only the states are kept, and each step is
    computed once more on the way back.

    Args:
      articulation: the articulation.
      state: the state at the beginning.
      forces: generalised forces of each step, shape [T, nv].
      dt: length of a step [s].

    Returns:
      The states, each array with a leading axis T.
    """

    @jax.checkpoint
    def advance(state: artix.State, force: Array) -> artix.State:
        return step(articulation, state, force, dt)

    def body(state: artix.State, force: Array) -> tuple[artix.State, artix.State]:
        moved = advance(state, force)
        return moved, moved

    return jax.lax.scan(body, state, forces)[1]
