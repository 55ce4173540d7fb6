"""Solves a problem, with derivatives of the solution by all arrays of the problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import jax

from artix.model.checks import check_count
from artix.optimal_control.approximation import Hessian
from artix.optimal_control.checks import check_choice
from artix.optimal_control.ilqr import Options, Riccati, Solution, iterate, settle, within_bounds
from artix.optimal_control.problem import Problem, checked, rollout
from artix.optimal_control.sensitivity import problem_cotangent, with_implicit_derivatives

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
        finite; a residual is not a vector; the problem has constraints; or options are unknown or
        contradict each other.

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
