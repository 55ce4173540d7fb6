"""Swing-up of a double pendulum by gradient descent through its simulation (single shooting).

The motors are too weak to lift the pendulum in one go: the shoulder would need 20 N m to hold both
rods level and has 8, so the optimiser must discover that rocking helps. The unknowns are torques at
a few knots in time. Several random starts are optimised at once under ``jax.vmap``, and the best is
kept.

Gradients with respect to the forces of all steps need little memory. Steps here take forces and
return states; for drives, limits, friction and tendons, use :func:`artix.step`.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

import artix

Array = jax.Array
TIP = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
"""The free end of the lower rod in the frame of its link."""
FULL_HEIGHT = 2.0
"""Height of the tip above the shoulder when both rods stand upright [m]."""


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


@dataclasses.dataclass(frozen=True)
class SwingUp:
    """The task: a pendulum that hangs at rest has to stand upright and still over the last part of
    the horizon.

    Attributes:
      pendulum: a double pendulum whose rods hang down at position zero.
      torque_limits: the largest torques of shoulder and elbow [N m].
      dt: length of a step [s].
      steps: number of steps.
      knots: number of knots between which the torques are linear in time.
      hold: fraction of the horizon, at its end, over which the pendulum has to stand.
      velocity_weight: cost of a squared joint velocity there, relative to the tip's distance below
        the top [s^2 m].
      effort_weight: cost of the mean squared torque, relative to its limit [m].
    """

    pendulum: artix.Articulation
    torque_limits: tuple[float, float] = (8.0, 4.0)
    dt: float = 0.02
    steps: int = 150
    knots: int = 25
    hold: float = 0.2
    velocity_weight: float = 0.05
    effort_weight: float = 1e-3

    @property
    def held(self) -> slice:
        """The steps over which the pendulum has to stand."""
        return slice(round((1 - self.hold) * self.steps), None)

    def torques(self, knots: Array) -> Array:
        """Torques of each step [steps, 2] from unbounded values at the knots [knots, 2]; always
        within the limits.
        """
        time = jnp.linspace(0, self.knots - 1, self.steps, dtype=knots.dtype)
        first = jnp.clip(time.astype(int), 0, self.knots - 2)
        part = (time - first.astype(knots.dtype))[:, None]
        limits = jnp.asarray(self.torque_limits, knots.dtype)
        return limits[None] * jnp.tanh((1 - part) * knots[first] + part * knots[first + 1])

    def states(self, torques: Array) -> artix.State:
        """The states after each step."""
        return rollout(self.pendulum, artix.neutral_state(self.pendulum), torques, self.dt)

    def tips(self, states: artix.State) -> Array:
        """Position of the free end in each state, shape [steps, 3]."""
        tip = jnp.asarray(TIP, self.pendulum.dtype)
        return jax.vmap(lambda state: artix.frame_pose(self.pendulum, state, "lower", tip)[:3])(
            states
        )

    def cost(self, knots: Array) -> Array:
        """The cost to minimise [m]."""
        torques = self.torques(knots)
        states = self.states(torques)
        below = FULL_HEIGHT - self.tips(states)[self.held, 2]
        speed = jnp.sum(states.joint_velocity[self.held] ** 2, axis=1)
        effort = jnp.mean((torques / jnp.asarray(self.torque_limits, torques.dtype)[None]) ** 2)
        return jnp.mean(below + self.velocity_weight * speed) + self.effort_weight * effort


class Shooting(NamedTuple):
    """The result of :func:`shoot`."""

    best: Array
    """The unknowns of the best start."""
    costs: Array
    """The cost of every start before every iteration, [iterations, starts]."""


def shoot(cost, starts: Array, iterations: int, learning_rate: float) -> Shooting:
    """Gradient descent (Adam) from several starts at once.

    Args:
      cost: the function of an array to minimise.
      starts: first guesses, one row for each.
      iterations: number of iterations.
      learning_rate: the rate at the beginning; it falls to zero along a cosine.

    Returns:
      The best unknowns after the last iteration, and the costs along the way.
    """
    optimizer = optax.chain(
        # A pendulum near the top is chaotic, and its gradients may be huge
        optax.clip_by_global_norm(1.0),
        optax.adam(optax.cosine_decay_schedule(learning_rate, iterations)),
    )

    def improve(carry, _):
        unknowns, memory = carry
        value, gradient = jax.value_and_grad(cost)(unknowns)
        update, memory = optimizer.update(gradient, memory)
        return (optax.apply_updates(unknowns, update), memory), value

    def descend(start: Array) -> tuple[Array, Array]:
        (end, _), costs = jax.lax.scan(improve, (start, optimizer.init(start)), length=iterations)
        return end, costs

    ends, costs = jax.jit(jax.vmap(descend))(starts)
    return Shooting(ends[jnp.nanargmin(costs[:, -1])], costs.T)


def solve(task: SwingUp, *, starts: int = 8, iterations: int = 600, seed: int = 0) -> Shooting:
    """Solves the swing-up; see :func:`shoot`."""
    key = jax.random.key(seed)
    dtype = task.pendulum.dtype
    return shoot(task.cost, jax.random.normal(key, (starts, task.knots, 2), dtype), iterations, 0.1)
