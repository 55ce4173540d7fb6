"""The iterative linear-quadratic regulator, on any articulation.

Li and Todorov, *Iterative linear quadratic regulator design for nonlinear biological movement systems*, ICINCO 2004;
Tassa, Erez and Todorov, *Synthesis and stabilization of complex behaviors through online trajectory optimization*,
IROS 2012. The dynamics are linearised by :func:`artix.linearize`; the cost is half a sum of squared residuals, whose
second derivatives are those of Gauss and Newton and never indefinite. States deviate in the tangent space of the
configuration, so floating bases and spherical joints need nothing special.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix.examples.rollout import rollout, step

Array = jax.Array
HIGHEST = jax.lax.Precision.HIGHEST  # a GPU's default would be TF32


@dataclasses.dataclass(frozen=True)
class Problem:
    """A trajectory of least cost ``1/2 |final|^2 + sum 1/2 |running|^2`` from a given state.

    Attributes:
      articulation: the articulation.
      dt: length of a step [s].
      running_residual: of the state and the forces [nv] at the beginning of each step, shape [r].
      final_residual: of the state after the last step, shape [f].
    """

    articulation: artix.Articulation
    dt: float
    running_residual: Callable[[artix.State, Array], Array]
    final_residual: Callable[[artix.State], Array]


class Solution(NamedTuple):
    """The result of :func:`solve`."""

    states: artix.State
    """The states after each step, leading axis T."""
    forces: Array
    """The generalised forces of each step, [T, nv]."""
    costs: list[float]
    """The cost at the start and after each iteration."""


def solve(
    problem: Problem, start: artix.State, forces: Array, *, iterations: int = 50, tolerance: float = 1e-4
) -> Solution:
    """Improves the forces until an iteration lowers the cost by less than ``tolerance`` of it.

    Args:
      problem: the problem.
      start: the state at the beginning.
      forces: a first guess of the generalised forces, shape [T, nv].
      iterations: largest number of iterations.
      tolerance: the relative decrease of the cost at which to stop.

    Returns:
      The trajectory, and the costs on the way.
    """
    improve = jax.jit(lambda states, forces, damping: _improve(problem, start, states, forces, damping))
    states = jax.jit(lambda forces: rollout(problem.articulation, start, forces, problem.dt))(forces)
    costs = [float(jax.jit(lambda *trajectory: _cost(problem, start, *trajectory))(states, forces))]
    damping = 1e-6
    for _ in range(iterations):
        found, better, cost = improve(states, forces, damping)
        decrease = costs[-1] - float(cost)
        if not decrease > 0:  # the quadratic model is not to be trusted this far
            damping *= 10
            if damping > 1e6:
                break
            continue
        states, forces, damping = found, better, max(0.1 * damping, 1e-6)
        costs.append(float(cost))
        if decrease < tolerance * costs[-1]:
            break
    return Solution(states, forces, costs)


# --- the state as a vector of deviations ----------------------------------------------------------------------------


def deviate(articulation: artix.Articulation, state: artix.State, deviation: Array) -> artix.State:
    """Moves a state by a deviation [2 nv] of configuration and velocity."""
    nv, base = articulation.topology.nv, articulation.topology.num_base_dofs
    moved = artix.integrate(articulation, state, deviation[:nv])
    return moved.replace(
        root_velocity=state.root_velocity.at[:base].add(deviation[nv : nv + base]),
        joint_velocity=state.joint_velocity + deviation[nv + base :],
    )


def deviation_between(articulation: artix.Articulation, nominal: artix.State, state: artix.State) -> Array:
    """The deviation [2 nv] that takes one state to another."""
    change = artix.generalized_velocity(articulation, state) - artix.generalized_velocity(articulation, nominal)
    return jnp.concatenate([artix.difference(articulation, nominal, state), change])


# --- one iteration --------------------------------------------------------------------------------------------------


def _improve(
    problem: Problem, start: artix.State, states: artix.State, forces: Array, damping: Array
) -> tuple[artix.State, Array, Array]:
    """A better trajectory with its cost: Riccati pass, then the best of eight step lengths."""
    before = _before(start, states)
    gains = _backward_pass(problem, before, states, forces, damping)
    lengths = 0.5 ** jnp.arange(8, dtype=forces.dtype)
    found, better = jax.vmap(lambda length: _forward_pass(problem, start, before, forces, gains, length))(lengths)
    costs = jax.vmap(lambda states, forces: _cost(problem, start, states, forces))(found, better)
    best = jnp.argmin(jnp.where(jnp.isfinite(costs), costs, jnp.inf))
    return jax.tree.map(lambda leaf: leaf[best], found), better[best], costs[best]


def _backward_pass(
    problem: Problem, before: artix.State, states: artix.State, forces: Array, damping: Array
) -> tuple[Array, Array]:
    """The feedforward [T, nv] and the gains [T, nv, 2 nv] that are best for the linearised problem."""
    articulation = problem.articulation
    nv = articulation.topology.nv
    linear = jax.vmap(lambda state, force: artix.linearize(articulation, state, force, problem.dt))(before, forces)
    dynamics = jnp.concatenate(linear, axis=2)  # of state and force together, as every matrix below
    residuals, slopes = jax.vmap(lambda state, force: _running_expansion(problem, state, force))(before, forces)
    last = jax.tree.map(lambda leaf: leaf[-1], states)
    final, final_slope = _final_expansion(problem, last)

    def body(value: tuple[Array, Array], moment: tuple[Array, Array, Array]):
        (gradient, hessian), (flow, residual, slope) = value, moment
        q = _dot(slope.T, residual) + _dot(flow.T, gradient)
        quadratic = _dot(slope.T, slope) + _dot(flow.T, _dot(hessian, flow))
        by_force = quadratic[2 * nv :, 2 * nv :] + damping * jnp.eye(nv, dtype=q.dtype)
        factor = jax.scipy.linalg.cho_factor(by_force)
        feedforward = -jax.scipy.linalg.cho_solve(factor, q[2 * nv :])
        gain = -jax.scipy.linalg.cho_solve(factor, quadratic[2 * nv :, : 2 * nv])
        # The value of following the policy du = feedforward + gain dx, substituted: valid with damping as well.
        policy = jnp.concatenate([jnp.eye(2 * nv, dtype=q.dtype), gain])
        shift = jnp.concatenate([jnp.zeros(2 * nv, q.dtype), feedforward])
        gradient = _dot(policy.T, q + _dot(quadratic, shift))
        return (gradient, _dot(policy.T, _dot(quadratic, policy))), (feedforward, gain)

    value = _dot(final_slope.T, final), _dot(final_slope.T, final_slope)
    return jax.lax.scan(body, value, (dynamics, residuals, slopes), reverse=True)[1]


def _forward_pass(
    problem: Problem, start: artix.State, before: artix.State, forces: Array, gains: tuple[Array, Array], length: Array
) -> tuple[artix.State, Array]:
    """The trajectory under the policy, its feedforward scaled by ``length``."""
    articulation = problem.articulation

    def body(state: artix.State, moment):
        nominal, force, feedforward, gain = moment
        force = force + length * feedforward + _dot(gain, deviation_between(articulation, nominal, state))
        moved = step(articulation, state, force, problem.dt)
        return moved, (moved, force)

    return jax.lax.scan(body, start, (before, forces, *gains))[1]


def _cost(problem: Problem, start: artix.State, states: artix.State, forces: Array) -> Array:
    running = jax.vmap(problem.running_residual)(_before(start, states), forces)
    final = problem.final_residual(jax.tree.map(lambda leaf: leaf[-1], states))
    return 0.5 * (jnp.sum(running**2) + jnp.sum(final**2))


def _before(start: artix.State, states: artix.State) -> artix.State:
    """The states at the beginning of each step."""
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest[:-1]]), start, states)


def _running_expansion(problem: Problem, state: artix.State, force: Array) -> tuple[Array, Array]:
    """The running residual and its Jacobian by state and force together, [r, 3 nv]."""
    nv = problem.articulation.topology.nv

    def residual(change: Array) -> Array:
        moved = deviate(problem.articulation, state, change[: 2 * nv])
        return problem.running_residual(moved, force + change[2 * nv :])

    return problem.running_residual(state, force), jax.jacfwd(residual)(jnp.zeros(3 * nv, force.dtype))


def _final_expansion(problem: Problem, state: artix.State) -> tuple[Array, Array]:
    """The final residual and its Jacobian by the state, [f, 2 nv]."""
    articulation = problem.articulation
    zero = jnp.zeros(2 * articulation.topology.nv, articulation.dtype)
    slope = jax.jacfwd(lambda change: problem.final_residual(deviate(articulation, state, change)))(zero)
    return problem.final_residual(state), slope


def _dot(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=HIGHEST)
