"""Solving a problem, with derivatives of its solution by all its arrays."""

from __future__ import annotations

from typing import get_args

import jax

from artix.optimal_control.approximation import Hessian
from artix.optimal_control.checks import check_choice, check_count
from artix.optimal_control.ilqr import Options, Riccati, Solution, iterate
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
) -> Solution:
    """A trajectory of least cost near a guess, by a fixed number of iterations.

    Each iteration approximates the problem by a linear-quadratic one in the states' tangent spaces, solves that, and
    takes the best of several step lengths if that is an improvement; else the damping grows. Call it under
    ``jax.jit``, and ``jax.vmap`` it over starts, references or robots.

    From controls alone it is iLQR (single shooting). From states as well, which need not follow from the controls, gaps
    are closed on the way: by rolling out the policy with a part of each gap kept (feasibility-driven DDP), or, with
    ``multiple_shooting``, by moving all states along the linear dynamics, so that no knot waits for another.

    *Derivatives.* Reverse mode is implicit: of the equations that hold at an optimum, by one more Riccati recursion
    with exact second derivatives, whatever the iterations were (Amos et al., *Differentiable MPC*, NeurIPS 2018). They
    are those of ``states``, ``controls`` and ``cost`` by all arrays of the problem; the other results have none, and
    guesses do not matter. They are right where the solution has converged, and controls at a bound stay there;
    where a trajectory is no strict minimum those of states and controls do not exist, and are not finite.

    Args:
      problem: the problem; its constraints are for :func:`solve_constrained` and have no part here.
      controls: a first guess, shape [T, nu]; the solution of a similar problem is a good one.
      states: a first guess of the flat states, shape [T + 1, nx], of which the first is replaced by the start; by
        default a rollout of the controls.
      iterations: number of iterations.
      hessian: ``"gauss_newton"`` for the squares of the residuals' derivatives, which is never indefinite; ``"exact"``
        for all second derivatives of costs and dynamics (differential dynamic programming), which converges
        quadratically and costs more.
      multiple_shooting: whether steps follow the linear dynamics; wants ``states``.
      riccati: ``"sequential"`` or ``"parallel"``, see :func:`parallel_riccati`; bounds need the former.
      step_lengths: how many step lengths 1, 1/2, 1/4 ... are tried, all at once.
      damping: added to the controls' Hessians in the first iteration.
      tolerance: see :class:`Solution`.

    Returns:
      The trajectory, the policy about it, and how the iterations proceeded.

    Raises:
      ValueError: an array has the wrong shape, one bound is given without the other, or options contradict each other.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> dynamics = optimal_control.discrete_dynamics(pendulum, 0.02)
      >>> running = lambda knot: 0.1 * knot.control
      >>> final = lambda knot: 10 * jnp.concatenate([knot.state.joint_position - 0.5, knot.state.joint_velocity])
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), running, final)
      >>> solution = jax.jit(lambda u: optimal_control.solve(problem, u, iterations=10))(jnp.zeros((20, 2)))
      >>> solution.states.shape, solution.gain.shape
      ((21, 4), (20, 2, 4))
    """
    check_choice("hessian", hessian, get_args(Hessian))
    check_choice("riccati", riccati, get_args(Riccati))
    check_count("iterations", iterations)
    check_count("step_lengths", step_lengths)
    problem, controls, states = checked(problem, controls, states)
    if problem.constraints:
        raise ValueError(
            f"the problem has constraints ({', '.join(problem.constraints)}): use solve_constrained, or leave them out "
            "by problem.replace(...=None)"
        )
    if problem.has_bounds and riccati == "parallel":
        raise ValueError("riccati='parallel' knows no bounds; use 'sequential', or leave the bounds to costs")
    if states is None:
        if multiple_shooting:
            raise ValueError("multiple_shooting starts from states, too; give a first guess of them")
        states = rollout(problem, controls)
    else:
        states = states.at[0].set(problem.start)
    options = Options(iterations, step_lengths, hessian, riccati, multiple_shooting)

    def solved(each: Problem, states: Array, controls: Array) -> Solution:
        return iterate(each, states, controls, options, damping, tolerance)

    return with_implicit_derivatives(problem, solved, problem_cotangent, states, controls)
