"""The linear-quadratic approximation of an optimal control problem about a trajectory."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix.math.arrays import matmul
from artix.optimal_control import knots
from artix.optimal_control.dynamics import TangentLinearization
from artix.optimal_control.problem import (
    Problem,
    Residual,
    closure_rows,
    ends_cost,
    residual,
    residual_cost,
)

Array = jax.Array
Hessian = Literal["gauss_newton", "exact"]


class FreeStart(NamedTuple):
    """The cost of the first deviation, where it is free: beside that of its knot, that of the
    closure.

    Attributes:
      free: which entries are free, [n] of bool; the others vanish.
      gradient: gradient of the closure's cost with respect to the first deviation, [n].
      hessian: its Hessian, [n, n].
      cross: its second derivatives with respect to the last and the first deviation, [n, n].

    Examples:
      >>> # x' = x + u, with cost (x^2 + u^2) / 2 at each of five knots, and (x - 1)^2 / 2
      >>> one = jnp.ones((5, 1, 1))
      >>> start = optimal_control.FreeStart(
      ...     jnp.array([True]), -jnp.ones(1), jnp.eye(1), jnp.zeros((1, 1))
      ... )
      >>> costs = jnp.zeros((5, 2)), one * jnp.eye(2)[None], jnp.ones(1), jnp.eye(1)
      >>> problem = optimal_control.LinearQuadratic(one, one, jnp.zeros((5, 1)), *costs, start)
      >>> print(optimal_control.riccati(problem).start.round(3))
      [0.378]
    """

    free: Array
    gradient: Array
    hessian: Array
    cross: Array


class LinearQuadratic(NamedTuple):
    """Minimise ``sum_t g_t z_t + 1/2 z_t H_t z_t + final`` under
    ``dx_{t+1} = A_t dx_t + B_t du_t + c_t``; z is dx, du.

    Attributes:
      state_matrix: A, [T, n, n].
      control_matrix: B, [T, n, m].
      gap: c, from each given next state to the one that the step reaches, [T, n]; zero along a
        rollout.
      gradient: g, [T, n + m].
      hessian: H, symmetric, [T, n + m, n + m].
      final_gradient: gradient by the last deviation, [n].
      final_hessian: Hessian by the last deviation, [n, n].
      start: what the first deviation costs; ``None`` where it is zero.

    Examples:
      >>> one = jnp.ones((5, 1, 1))  # x' = x + u, with cost (x^2 + u^2) / 2 at each of five knots
      >>> costs = jnp.zeros((5, 2)), one * jnp.eye(2)[None], jnp.ones(1), jnp.eye(1)
      >>> problem = optimal_control.LinearQuadratic(one, one, jnp.zeros((5, 1)), *costs)
      >>> problem.state_matrix.shape, problem.hessian.shape
      ((5, 1, 1), (5, 2, 2))
    """

    state_matrix: Array
    control_matrix: Array
    gap: Array
    gradient: Array
    hessian: Array
    final_gradient: Array
    final_hessian: Array
    start: FreeStart | None = None


def approximate(problem: Problem, states: Array, controls: Array) -> LinearQuadratic:
    """The linear-quadratic approximation about a trajectory, with Gauss-Newton Hessians.

    Li and Todorov, *Iterative linear quadratic regulator design for nonlinear biological movement
    systems*, ICINCO 2004.

    Args:
      problem: the problem. Its constraints do not count, except for half the square of a closure,
        which couples the start to the end; to leave that out, too, use
        ``problem.replace(closure=None)``.
      states: flat states, shape [T + 1, nx], which need not follow from the controls.
      controls: forces of the actuated joints [N m or N], shape [T, nu].

    Returns:
      The linear-quadratic problem in deviations, vectors of the states' tangent spaces.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.02)
      >>> effort, arrive = (
      ...     lambda knot: 0.1 * knot.control,
      ...     lambda knot: knot.state.joint_position - 0.5,
      ... )
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, arrive)
      >>> controls = jnp.zeros((10, 2))
      >>> quadratic = optimal_control.approximate(
      ...     problem, optimal_control.rollout(problem, controls), controls
      ... )
      >>> quadratic.control_matrix.shape, bool(jnp.allclose(quadratic.gap, 0, atol=1e-5))
      ((10, 4, 2), True)
    """
    dynamics, ndx = problem.dynamics, problem.dynamics.num_deviations

    def at_knot(
        x: Array, next_x: Array, control: Array, time: Array
    ) -> tuple[TangentLinearization, Array, Expansion]:
        linear = dynamics.linearize_tangent(x, control, time)
        if problem.running is None:
            return (
                linear,
                dynamics.difference(next_x, linear.next_state),
                _no_expansion(ndx + len(control), x),
            )
        cost = _running_expansion(
            dynamics.articulation,
            problem.running,
            x,
            control,
            linear.contact_force,
            linear.contact_force_matrix,
            problem.reference(time),
            problem.parameters,
        )
        return linear, dynamics.difference(next_x, linear.next_state), cost

    linear, gap, running = jax.vmap(at_knot)(
        states[:-1], states[1:], controls, jnp.arange(len(controls))
    )
    final = _no_expansion(ndx, states)
    if problem.final is not None:
        final = _final_expansion(
            dynamics.articulation,
            problem.final,
            states[-1],
            problem.reference(-1),
            problem.parameters,
        )
    start = (
        None
        if problem.free_start is None
        else _free_start(problem.free_start, _no_expansion(2 * ndx, states))
    )
    if problem.closure is not None:
        first, last = (states[0], problem.reference(0)), (states[-1], problem.reference(-1))
        ends = _ends_expansion(
            dynamics.articulation, problem.closure, first, last, problem.parameters
        )
        final = Expansion(
            final.gradient + ends.gradient[ndx:], final.hessian + ends.hessian[ndx:, ndx:]
        )
        start = _free_start(
            jnp.zeros(ndx, bool) if problem.free_start is None else problem.free_start, ends
        )
    return LinearQuadratic(
        linear.state_matrix,
        linear.control_matrix,
        gap,
        running.gradient,
        running.hessian,
        final.gradient,
        final.hessian,
        start,
    )


def with_exact_hessians(
    problem: Problem, quadratic: LinearQuadratic, states: Array, controls: Array, costates: Array
) -> LinearQuadratic:
    """An approximation with Hessians of the Lagrangian instead.

    They are second derivatives of the cost and, weighted by costates, of the dynamics.

    Args:
      problem: the problem.
      quadratic: its approximation about the trajectory.
      states: flat states, shape [T + 1, nx].
      controls: shape [T, nu].
      costates: derivatives of the cost to go with respect to the states after each knot,
        shape [T, ndx].
    """
    dynamics, ndx = problem.dynamics, problem.dynamics.num_deviations

    def hamiltonian(
        change: Array, x: Array, next_x: Array, control: Array, costate: Array, time: Array
    ) -> Array:
        moved_x, moved_control = dynamics.integrate(x, change[:ndx]), control + change[ndx:]
        end, contact_force = dynamics.step(moved_x, moved_control, time)
        parts = (
            problem.running,
            moved_x,
            moved_control,
            contact_force,
            problem.reference(time),
            problem.parameters,
        )
        cost = residual_cost(dynamics.articulation, *parts)
        return cost + jnp.sum(costate * dynamics.difference(next_x, end))

    def final(change: Array) -> Array:
        moved = dynamics.integrate(states[-1], change)
        parts = (problem.final, moved, None, None, problem.reference(-1), problem.parameters)
        return residual_cost(dynamics.articulation, *parts)

    def ends(changes: Array) -> Array:
        first, last = (dynamics.integrate(states[k], changes[j]) for j, k in enumerate((0, -1)))
        return ends_cost(problem, first, last)

    zero = jnp.zeros(ndx + dynamics.num_controls, states.dtype)
    times = jnp.arange(len(controls))
    running = jax.vmap(jax.hessian(hamiltonian), in_axes=(None, 0, 0, 0, 0, 0))(
        zero, states[:-1], states[1:], controls, costates, times
    )
    exact = quadratic._replace(
        hessian=_symmetric(running), final_hessian=_symmetric(jax.hessian(final)(zero[:ndx]))
    )
    if problem.closure is None:
        return exact
    by_first, by_last = jax.hessian(ends)(jnp.zeros((2, ndx), states.dtype)).swapaxes(1, 2)
    exact = exact._replace(final_hessian=exact.final_hessian + by_last[1])
    assert exact.start is not None
    return exact._replace(start=exact.start._replace(hessian=by_first[0], cross=by_last[0]))


class Expansion(NamedTuple):
    """Half a squared residual to second order: its gradient, [k], and its Gauss-Newton Hessian,
    [k, k].
    """

    gradient: Array
    hessian: Array


def _no_expansion(size: int, like: Array) -> Expansion:
    """The expansion of no cost."""
    return Expansion(jnp.zeros(size, like.dtype), jnp.zeros((size, size), like.dtype))


@artix.quantity
def _running_expansion(
    articulation: artix.Articulation,
    function: Residual,
    x: Array,
    control: Array,
    contact_force: Array,
    contact_force_matrix: Array,
    reference: Any,
    parameters: Any,
) -> Expansion:
    ndx, nu = knots.num_deviations(articulation, x), len(control)

    def residual_at(change: Array, force_change: Array) -> Array:
        moved_x, moved_control = (
            knots.deviate(articulation, x, change[:ndx]),
            control + change[ndx:],
        )
        return residual(
            articulation,
            function,
            moved_x,
            moved_control,
            contact_force + force_change,
            reference,
            parameters,
        )

    zeros = jnp.zeros(ndx + nu, x.dtype), jnp.zeros_like(contact_force)
    by_deviation, by_force = jax.jacfwd(residual_at, argnums=(0, 1))(*zeros)
    return _squared(residual_at(*zeros), by_deviation + matmul(by_force, contact_force_matrix))


@artix.quantity
def _final_expansion(
    articulation: artix.Articulation, function: Residual, x: Array, reference: Any, parameters: Any
) -> Expansion:
    def residual_at(change: Array) -> Array:
        return residual(
            articulation,
            function,
            knots.deviate(articulation, x, change),
            None,
            None,
            reference,
            parameters,
        )

    zero = jnp.zeros(knots.num_deviations(articulation, x), x.dtype)
    return _squared(residual_at(zero), jax.jacfwd(residual_at)(zero))


@artix.quantity
def _ends_expansion(
    articulation: artix.Articulation,
    function: Any,
    first: tuple[Array, Any],
    last: tuple[Array, Any],
    parameters: Any,
) -> Expansion:
    """The expansion of a closure with respect to the first deviation, then the last one."""
    ndx = knots.num_deviations(articulation, first[0])

    def rows_at(changes: Array) -> Array:
        start = knots.deviate(articulation, first[0], changes[:ndx]), first[1]
        end = knots.deviate(articulation, last[0], changes[ndx:]), last[1]
        return closure_rows(articulation, function, start, end, parameters)

    zero = jnp.zeros(2 * ndx, first[0].dtype)
    return _squared(rows_at(zero), jax.jacfwd(rows_at)(zero))


def _free_start(free: Array, ends: Expansion) -> FreeStart:
    n = len(free)
    return FreeStart(free, ends.gradient[:n], ends.hessian[:n, :n], ends.hessian[n:, :n])


def _squared(value: Array, jacobian: Array) -> Expansion:
    return Expansion(matmul(value, jacobian), matmul(jacobian.T, jacobian))


def _symmetric(matrix: Array) -> Array:
    return 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))
