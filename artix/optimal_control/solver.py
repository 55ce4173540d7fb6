"""Solves a problem, with derivatives of the solution with respect to all arrays of the problem: the
implicit function theorem on first-order conditions.

With the Lagrangian ``L(z, y, p)`` of deviations and controls z, costates y and parameters p, an
optimum satisfies ``dL/dz = 0`` and ``dL/dy = 0``. The matrix of their derivatives with respect to
(z, y) is symmetric. Solving with it for a cotangent of z is a linear-quadratic problem with exact
Hessians whose gradient is the cotangent. Its solution (w, v) gives the cotangent of p: the gradient
of ``w dL/dz + v dL/dy``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.model.checks import check_choice, check_count, check_not_negative
from artix.optimal_control.approximation import (
    Hessian,
    LinearQuadratic,
    approximate,
    with_exact_hessians,
)
from artix.optimal_control.ilqr import Options, Riccati, Solution, iterate, settle, within_bounds
from artix.optimal_control.problem import Problem, checked, ends_cost, rollout, total_cost
from artix.optimal_control.recursions import Box, follow, riccati, trajectory_costates

Array = jax.Array


def solve(
    problem: Problem,
    controls: Array,
    states: Array | None = None,
    *,
    iterations: int = 50,
    hessian: Hessian = "gauss_newton",
    multiple_shooting: bool = False,
    riccati: Riccati = "sequential",
    step_lengths: int = 8,
    damping: float = 1e-6,
    tolerance: float = 1e-6,
    until_converged: bool = False,
) -> Solution:
    """Finds a trajectory of least cost near a guess, in a fixed number of iterations or until it
    has converged.

    Each iteration approximates the problem by a linear-quadratic one in the states' tangent spaces,
    solves that, and takes the best of several step lengths if it is an improvement; otherwise the
    damping grows. Call it under ``jax.jit``, and ``jax.vmap`` it over starts, references or robots.

    With controls only it is iLQR (single shooting). If you also give states, which need not follow
    from the controls, it closes the gaps on the way: by rolling out the policy with a part of each
    gap kept (feasibility-driven DDP), or, with ``multiple_shooting``, by moving all states along
    the linear dynamics, so that no knot waits for another.

    *Derivatives.* Reverse mode is implicit: it differentiates the equations that hold at an
    optimum, by one more Riccati recursion with exact second derivatives, and does not go through
    the iterations (Amos et al., *Differentiable MPC*, NeurIPS 2018). It gives the derivatives of
    ``states``, ``controls`` and ``cost`` by all arrays of the problem; other results and the
    guesses have none. They are right where the solution has converged; controls at a bound stay
    there. Where a trajectory is not a strict minimum, derivatives of states and controls do not
    exist and are not finite.

    Args:
      problem: the problem, without constraints, which are for :func:`solve_constrained`.
      controls: a first guess of the forces of the actuated joints [N m or N], shape [T, nu]; the
        solution of a similar problem is a good one.
      states: a first guess of the flat states, shape [T + 1, nx], whose first entry the start
        replaces; by default a rollout of the controls. Where the start is free, it is the problem's
        that is a guess.
      iterations: number of iterations.
      hessian: ``"gauss_newton"`` for products of the residuals' first derivatives, which are never
        indefinite; ``"exact"`` for all second derivatives of costs and dynamics (differential
        dynamic programming), which converges quadratically and costs more.
      multiple_shooting: whether steps follow the linear dynamics; needs ``states``.
      riccati: ``"sequential"`` or ``"parallel"``, see :func:`parallel_riccati`; bounds need the
        former.
      step_lengths: how many step lengths 1, 1/2, 1/4 ... to try, all at once.
      damping: added to the controls' Hessians in the first iteration.
      tolerance: see :class:`Solution`.
      until_converged: whether to end once the solution has converged, or no step is an improvement;
        a batch ends with its last member. By default all iterations are taken, so that each call
        takes equally long and the last ones give further digits.

    Returns:
      The trajectory, the policy about it, and the course of the iterations.

    Raises:
      TypeError: an array or a residual has another dtype than the articulation, or a count is not a
        whole number.
      ValueError: an array, the references or the contact schedule do not fit the number of knots;
        one bound is given without the other, or bounds are reversed; a known start or guess is not
        finite; a residual is not a vector; the problem has constraints; damping or tolerance is
        negative; or options are unknown or contradict each other.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> dynamics = optimal_control.discrete_dynamics(pendulum, 0.02)
      >>> running = lambda knot: 0.1 * knot.control
      >>> final = lambda knot: (
      ...     10 * jnp.concatenate([knot.state.joint_position - 0.5, knot.state.joint_velocity])
      ... )
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), running, final)
      >>> solution = jax.jit(lambda u: optimal_control.solve(problem, u, iterations=10))(
      ...     jnp.zeros((20, 2))
      ... )
      >>> solution.states.shape, solution.gain.shape
      ((21, 4), (20, 2, 4))
    """
    if problem.constraints:
        raise ValueError(
            f"the problem has constraints ({', '.join(problem.constraints)}): use "
            "solve_constrained, or leave them out by problem.replace(...=None)"
        )
    check_not_negative("damping", damping)
    check_not_negative("tolerance", tolerance)
    options = Options(iterations, step_lengths, hessian, riccati, multiple_shooting)
    run = settle if until_converged else iterate
    return optimise(*prepared(problem, controls, states, options), options, damping, tolerance, run)


def optimise(
    problem: Problem,
    controls: Array,
    states: Array,
    options: Options,
    damping: float,
    tolerance: float,
    run: Callable[..., Solution] = iterate,
) -> Solution:
    """:func:`solve` from a guess that is :func:`prepared`; the problem may be augmented."""

    def solved(each: Problem, states: Array, controls: Array) -> Solution:
        return run(each, states, controls, options, damping, tolerance)

    return with_implicit_derivatives(problem, solved, problem_cotangent, states, controls)


def prepared(
    problem: Problem, controls: Array, states: Array | None, options: Options
) -> tuple[Problem, Array, Array]:
    """The problem, and the controls and states from which iterations start; refuses what does not
    fit together.

    Raises:
      TypeError: see :func:`solve`.
      ValueError: see :func:`solve`.
    """
    check_choice("hessian", options.hessian, get_args(Hessian))
    check_choice("riccati", options.riccati, get_args(Riccati))
    check_count("iterations", options.iterations)
    check_count("step_lengths", options.step_lengths)
    problem, controls, states = checked(problem, controls, states)
    if options.riccati == "parallel":
        if problem.has_bounds:
            raise ValueError(
                "riccati='parallel' does not support bounds; use 'sequential', or replace the "
                "bounds by costs"
            )
        if problem.free_start is not None or problem.closure is not None:
            raise ValueError(
                "riccati='parallel' needs a given start and no closure; use 'sequential'"
            )
    controls = within_bounds(problem, controls)
    if states is not None:
        return problem, controls, states.at[0].set(problem.start)
    if options.multiple_shooting:
        raise ValueError("multiple_shooting needs a first guess of the states, too")
    return problem, controls, rollout(problem, controls)


# Derivatives


def with_implicit_derivatives(
    problem: Problem, solved: Callable[..., Any], rule: Callable[..., Any], *guesses: Any
) -> Any:
    """A solution with its own rule for derivatives with respect to the problem's traced arrays;
    guesses have none.

    Arrays that are known while JAX traces stay known and become constants of the kernels.

    Args:
      problem: the problem.
      solved: maps a problem and guesses to a solution.
      rule: a function like :func:`problem_cotangent`.
      guesses: pytrees of arrays.
    """
    structure: Any
    leaves, structure = jax.tree.flatten(problem)
    traced = [k for k, leaf in enumerate(leaves) if isinstance(leaf, jax.core.Tracer)]
    shapes = jax.eval_shape(lambda *each: each, *guesses)

    def problem_of(values: list[Any]) -> Problem:
        return structure.unflatten(
            [*map(dict(zip(traced, values, strict=True)).get, range(len(leaves)), leaves)]
        )

    def forward(values: list[Any], *guesses: Any) -> tuple[Any, Any]:
        solution = solved(problem_of(values), *guesses)
        return solution, (values, solution)

    def backward(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return rule(problem_of, *residuals, cotangent), *nothing

    function = jax.custom_vjp(lambda values, *guesses: solved(problem_of(values), *guesses))
    function.defvjp(forward, backward)
    return function([leaves[k] for k in traced], *jax.lax.stop_gradient(guesses))


def problem_cotangent(
    problem_of: Callable[[Any], Problem], values: Any, solution: Solution, cotangent: Solution
) -> Any:
    """The cotangent of a problem's arrays from that of its solution.

    Args:
      problem_of: maps ``values`` to the problem.
      values: a pytree; leaves may be integers.
      solution: the solution.
      cotangent: cotangent of the solution.

    Returns:
      Like ``values``.
    """
    problem = problem_of(values)
    states = solution.states
    controls = solution.controls
    dynamics = problem.dynamics
    ndx = dynamics.num_deviations
    quadratic = approximate(problem, states, controls)
    costates = trajectory_costates(quadratic)
    exact = with_exact_hessians(problem, quadratic, states, controls, costates)
    running, start = exact.hessian, exact.start

    zero = jnp.zeros((len(states), ndx), states.dtype)
    to_flat = jax.vjp(jax.vmap(dynamics.integrate), states, zero)[1]
    by_deviation = to_flat(cotangent.states)[1]
    gradient = jnp.concatenate([by_deviation[:-1], cotangent.controls], axis=1)
    if problem.has_bounds:
        gradient, running, quadratic = _without_bound(
            problem, controls, gradient, running, quadratic, ndx
        )
    adjoint = LinearQuadratic(
        quadratic.state_matrix,
        quadratic.control_matrix,
        jnp.zeros_like(quadratic.gap),
        gradient,
        running,
        by_deviation[-1],
        exact.final_hessian,
        None if start is None else start._replace(gradient=jnp.zeros_like(start.gradient)),
    )
    policy = riccati(adjoint)
    deviations, changes = follow(adjoint, policy)
    next_costates = (
        policy.value_gradient + matmul(policy.value_hessian, deviations[1:, :, None])[..., 0]
    )
    # If only the cost has a cotangent, no adjoint is needed; it would fail with indefinite
    # Hessians.
    is_wanted = jnp.any(gradient != 0) | jnp.any(by_deviation != 0)
    deviations, changes, next_costates = (
        jnp.where(is_wanted, each, jnp.zeros_like(each))
        for each in (deviations, changes, next_costates)
    )
    first = (
        by_deviation[0]
        + quadratic.state_matrix[0].T @ next_costates[0]
        + running[0, :ndx, ndx:] @ changes[0]
    )
    if start is not None:
        first = (
            first
            + (running[0, :ndx, :ndx] + start.hessian) @ deviations[0]
            + start.cross.T @ deviations[-1]
        )
        first = jnp.where(start.free, jnp.zeros_like(first), first)

    def lagrangian(values: Any, change: tuple[Array, Array], multipliers: Array) -> Array:
        task = problem_of(values)
        moved = jax.vmap(dynamics.integrate)(states, change[0])
        applied = _at_bounds(task, controls) + change[1]
        ends = jax.vmap(task.dynamics)(moved[:-1], applied, jnp.arange(len(applied)))
        gaps = jax.vmap(dynamics.difference)(states[1:], ends) - change[0][1:]
        cost = total_cost(task, moved, applied) + ends_cost(task, moved[0], moved[-1])
        return cost + jnp.sum(multipliers * gaps)

    differentiable, rebuilt = _floats(values)

    def along(floats: list[Array]) -> Array:
        at = (zero, jnp.zeros_like(controls)), costates
        value, slope = jax.jvp(
            lambda *z: lagrangian(rebuilt(floats), *z), at, ((deviations, changes), next_costates)
        )
        task = problem_of(rebuilt(floats))
        start = dynamics.difference(states[0], task.start)
        moved = jnp.sum(first * start) + jnp.sum(cotangent.controls * _at_bounds(task, controls))
        return (
            slope
            + moved
            + cotangent.cost * (value + jnp.sum(_first_costate(quadratic, costates) * start))
        )

    return _filled(values, jax.grad(along)(differentiable))


def _first_costate(quadratic: LinearQuadratic, costates: Array) -> Array:
    """The derivative of the cost with respect to the start."""
    n = quadratic.state_matrix.shape[-1]
    by_first = quadratic.gradient[0, :n] + costates[0] @ quadratic.state_matrix[0]
    if (start := quadratic.start) is None:
        return by_first
    return jnp.where(start.free, jnp.zeros_like(by_first), by_first + start.gradient)


def _at_bounds(problem: Problem, controls: Array) -> Array:
    """The controls; those at a bound are functions of the bound."""
    if problem.control_lower is None or problem.control_upper is None:
        return controls
    lower, upper = problem.control_lower, problem.control_upper
    return jnp.where(controls <= lower, lower, jnp.where(controls >= upper, upper, controls))


def _without_bound(
    problem: Problem,
    controls: Array,
    gradient: Array,
    running: Array,
    quadratic: LinearQuadratic,
    ndx: int,
) -> tuple[Array, Array, LinearQuadratic]:
    """The adjoint problem without the controls at a bound, which move only with the bound."""
    box = Box(problem.control_lower, problem.control_upper)  # type: ignore[arg-type]
    free = (controls > box.lower) & (controls < box.upper)
    free_entries = jnp.concatenate([jnp.ones((len(controls), ndx), bool), free], axis=1)
    both_free = free_entries[:, :, None] & free_entries[:, None, :]
    unit = jnp.eye(free_entries.shape[1], dtype=controls.dtype)
    return (
        jnp.where(free_entries, gradient, jnp.zeros_like(gradient)),
        jnp.where(both_free, running, unit),
        quadratic._replace(
            control_matrix=jnp.where(
                free[:, None], quadratic.control_matrix, jnp.zeros_like(quadratic.control_matrix)
            )
        ),
    )


def _floats(values: Any) -> tuple[list[Array], Callable[[list[Array]], Any]]:
    """The floating-point leaves, and a function that puts others in their place."""
    structure: Any
    leaves, structure = jax.tree.flatten(values)
    places = [k for k, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    def rebuilt(floats: list[Array]) -> Any:
        replaced = dict(zip(places, floats, strict=True))
        return structure.unflatten([replaced.get(k, leaf) for k, leaf in enumerate(leaves)])

    return [leaves[k] for k in places], rebuilt


def _filled(values: Any, floats: list[Array]) -> Any:
    """Cotangents of all leaves from those of the floating-point ones; integers get JAX's
    ``float0``.
    """
    cotangents = iter(floats)
    return jax.tree.map(
        lambda leaf: (
            next(cotangents)
            if jnp.issubdtype(leaf.dtype, jnp.floating)
            else jnp.zeros(leaf.shape, jax.dtypes.float0)
        ),
        values,
    )
