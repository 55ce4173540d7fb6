"""Equality and inequality constraints on states, controls and contact forces, by augmented Lagrangians.

Each constraint becomes a residual: ``sqrt(weight) (h + multiplier / weight)`` for ``h = 0``, and its positive part for
``h <= 0``, so that constraints have Gauss-Newton Hessians as costs do. Nocedal and Wright,
*Numerical Optimization*, chapter 17; Howell, Jackson and Manchester, *ALTRO*, IROS 2019.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix.model.checks import check_count
from artix.optimal_control.checks import check_positive
from artix.optimal_control.ilqr import Solution
from artix.optimal_control.problem import Knot, Problem, Residual, residual, vector
from artix.optimal_control.sensitivity import with_implicit_derivatives
from artix.optimal_control.solver import solve

Array = jax.Array
#: Corrections of the multipliers that carry derivatives; each reduces the error by a factor of about 1 / weight.
CORRECTIONS = 3


class Multipliers(NamedTuple):
    """Lagrange multipliers of the constraints; ``None`` for each kind that the problem does not have.

    Attributes:
      equality: one row for each knot, [T, e].
      inequality: one row for each knot, never negative, [T, i].
      final_equality: at the end, [fe].
      final_inequality: at the end, never negative, [fi].

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.05)
      >>> effort, arrive = lambda knot: 0.1 * knot.control, lambda knot: knot.state.joint_position - 0.3
      >>> rest = lambda knot: 0.1 * knot.state.joint_velocity
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, rest, final_equality=arrive)
      >>> found = optimal_control.solve_constrained(problem, jnp.zeros((10, 2)), iterations=2, outer_iterations=2)
      >>> found.multipliers.final_equality.shape, found.multipliers.inequality
      ((2,), None)
    """

    equality: Array | None
    inequality: Array | None
    final_equality: Array | None
    final_inequality: Array | None


class ConstrainedSolution(NamedTuple):
    """The result of :func:`solve_constrained`.

    Attributes:
      solution: solution of the last augmented problem. Its cost includes that of the constraints; :func:`total_cost`
        leaves it out.
      multipliers: multipliers of the constraints; pass them on to warm-start.
      violation: largest violation of a constraint after each outer iteration, [outer_iterations].

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.05)
      >>> effort, arrive = lambda knot: 0.1 * knot.control, lambda knot: knot.state.joint_position - 0.3
      >>> rest = lambda knot: 0.1 * knot.state.joint_velocity
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, rest, final_equality=arrive)
      >>> found = optimal_control.solve_constrained(problem, jnp.zeros((10, 2)), iterations=2, outer_iterations=3)
      >>> found.solution.states.shape, bool(found.violation[-1] < found.violation[0])
      ((11, 4), True)
    """

    solution: Solution
    multipliers: Multipliers
    violation: Array


def solve_constrained(
    problem: Problem,
    controls: Array,
    states: Array | None = None,
    multipliers: Multipliers | None = None,
    *,
    outer_iterations: int = 8,
    weight: float = 10.0,
    weight_growth: float = 5.0,
    most_weight: float = 1e6,
    **options: Any,
) -> ConstrainedSolution:
    """Finds a trajectory of least cost under the problem's constraints.

    The method of augmented Lagrangians: each outer iteration solves the augmented problem from the previous solution,
    then updates the multipliers and raises the weight. Nocedal and Wright, *Numerical Optimization*, 2006, chapter 17;
    Howell, Jackson and Manchester, *ALTRO*, IROS 2019.

    *Derivatives.* Reverse mode is implicit, as in :func:`solve`: it gives the derivatives of the trajectory, its cost
    and the multipliers by all arrays of the problem, with the active constraints kept. A few corrections of the
    multipliers at the solution carry them; their relative error is about the factor by which the violation has fallen.
    They are right where the solution has converged and no constraint is about to become active or inactive. They need
    float64: with the weights of the last iterations, the recursion fails in float32 for many problems, which gives NaN.

    Args:
      problem: the problem, with ``equality``, ``inequality``, ``final_equality`` or ``final_inequality``.
      controls: a first guess of the forces of the actuated joints [N m or N], shape [T, nu].
      states: a first guess, shape [T + 1, nx], as for :func:`solve`.
      multipliers: a first guess; zeros by default.
      outer_iterations: number of updates of the multipliers.
      weight: weight of the squared constraints in the first outer iteration.
      weight_growth: factor on the weight from one outer iteration to the next.
      most_weight: largest weight.
      options: options of :func:`solve`, such as the number of ``iterations`` in each outer one.

    Returns:
      The trajectory, the multipliers and how far constraints are violated.

    Raises:
      ValueError: the problem has no constraints, multipliers do not fit them, a weight or its growth is not positive,
        or :func:`solve` refuses an argument.
      TypeError: as :func:`solve`, or ``outer_iterations`` is no whole number.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> dynamics = optimal_control.discrete_dynamics(pendulum, 0.05)
      >>> effort = lambda knot: 0.1 * knot.control
      >>> arrive = lambda knot: jnp.concatenate([knot.state.joint_position - 0.3, knot.state.joint_velocity])
      >>> problem = optimal_control.Problem(
      ...     dynamics, jnp.zeros(4), effort, lambda knot: 0 * knot.state.joint_position, final_equality=arrive
      ... )
      >>> find = jax.jit(lambda u: optimal_control.solve_constrained(problem, u, iterations=5, outer_iterations=5))
      >>> float(find(jnp.zeros((10, 2))).violation[-1]) < 1e-3
      True
    """
    check_count("outer_iterations", outer_iterations)
    for name, value in (("weight", weight), ("weight_growth", weight_growth), ("most_weight", most_weight)):
        check_positive(name, value, "1")
    if not problem.constraints:
        raise ValueError("the problem has no constraints: give equality, inequality, ...; or use solve")
    dtype = problem.start.dtype

    def solved(problem: Problem, controls: Array, states: Array | None, multipliers: Multipliers | None):
        first = solve(augmented(problem, None, weight), controls, states, **options | {"iterations": 1})
        violations = _constraints(problem, first.states, first.controls)
        guess = jax.tree.map(jnp.zeros_like, violations)
        if multipliers is not None:
            _check_multipliers(multipliers, guess)
            guess = multipliers

        def body(carry: Any, _: None) -> tuple[Any, tuple[Array, Solution]]:
            states, controls, multipliers, weight = carry
            solution, next_multipliers, violation = _corrected(problem, controls, states, multipliers, weight, options)
            next_weight = jnp.minimum(weight * weight_growth, most_weight).astype(dtype)
            return (solution.states, solution.controls, next_multipliers, next_weight), (violation, solution)

        start = first.states, first.controls, guess, jnp.asarray(weight, dtype)
        (_, _, final, _), (violation, solutions) = jax.lax.scan(body, start, length=outer_iterations)
        return ConstrainedSolution(jax.tree.map(lambda leaf: leaf[-1], solutions), final, violation)

    last = jnp.asarray(min(weight * weight_growth ** (outer_iterations - 1), most_weight), dtype)

    def cotangent(problem_of: Any, values: Any, optimum: ConstrainedSolution, by: ConstrainedSolution) -> Any:
        """Repeats corrections at the solution; the multipliers' derivatives converge with each of them."""
        controls, states, multipliers = optimum.solution.controls, optimum.solution.states, optimum.multipliers

        def repeated(values: Any) -> tuple[Array, Array, Array, Multipliers]:
            problem = problem_of(values)

            def correct(multipliers: Multipliers, _: None) -> tuple[Multipliers, tuple[Array, Array, Array]]:
                once = options | {"iterations": 1}
                solution, next_multipliers, _violation = _corrected(problem, controls, states, multipliers, last, once)
                return next_multipliers, (solution.states, solution.controls, solution.cost)

            multipliers_, (states_, controls_, cost) = jax.lax.scan(correct, multipliers, length=CORRECTIONS)
            return states_[-1], controls_[-1], cost[-1], multipliers_

        cotangents = by.solution.states, by.solution.controls, by.solution.cost, by.multipliers
        return jax.vjp(repeated, values)[1](cotangents)[0]

    return with_implicit_derivatives(problem, solved, cotangent, controls, states, multipliers)


def _check_multipliers(multipliers: Multipliers, wanted: Multipliers) -> None:
    """Raises unless multipliers fit the constraints."""
    for name, found, needed in zip(wanted._fields, multipliers, wanted, strict=True):
        shapes = [None if each is None else jnp.shape(each) for each in (needed, found)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"multipliers.{name}: expected shape {shapes[0]}; found {shapes[1]}")


def _corrected(
    problem: Problem, controls: Array, states: Array, multipliers: Multipliers, weight: Array, options: dict[str, Any]
) -> tuple[Solution, Multipliers, Array]:
    """The augmented problem's solution, the multipliers that it suggests, and how far constraints are violated."""
    solution = solve(augmented(problem, multipliers, weight), controls, states, **options)
    violations = _constraints(problem, solution.states, solution.controls)
    next_multipliers = jax.tree.map(lambda each, by: each + weight * by, multipliers, violations)
    next_multipliers = next_multipliers._replace(
        inequality=_positive(next_multipliers.inequality), final_inequality=_positive(next_multipliers.final_inequality)
    )
    return solution, next_multipliers, _violation(violations)


def augmented(problem: Problem, multipliers: Multipliers | None, weight: Array | float) -> Problem:
    """The problem without constraints, whose residuals include what violating them costs.

    Args:
      problem: the problem.
      multipliers: multipliers of its constraints; zeros when ``None``.
      weight: weight of the squared constraints.

    Returns:
      A problem for :func:`solve`.
    """
    given = Multipliers(None, None, None, None) if multipliers is None else multipliers
    padded = [
        each if each is None else jnp.concatenate([each, each[-1:]]) for each in (given.equality, given.inequality)
    ]
    final = given.final_equality, given.final_inequality
    return problem.replace(
        running=_augmented(problem.running, problem.equality, problem.inequality, False),
        final=_augmented(problem.final, problem.final_equality, problem.final_inequality, True),
        references=(problem.references, *padded),
        equality=None,
        inequality=None,
        final_equality=None,
        final_inequality=None,
        parameters=(problem.parameters, *final, jnp.asarray(weight, problem.start.dtype)),
    )


@dataclasses.dataclass(frozen=True)
class _Augmented:
    """A residual with those of constraints; compared by its parts, so that compiled programs are reused."""

    cost: Residual | None
    equality: Residual | None
    inequality: Residual | None
    is_final: bool

    def __call__(self, knot: Knot) -> Array:
        reference, *of_knot = knot.reference
        parameters, *at_end, weight = knot.parameters
        equality, inequality = at_end if self.is_final else of_knot
        inner = knot._replace(reference=reference, parameters=parameters)
        root = jnp.sqrt(weight)
        parts = [] if self.cost is None else [vector(self.cost, inner)]
        if self.equality is not None:
            parts.append(root * _shifted(vector(self.equality, inner), equality, weight))
        if self.inequality is not None:
            parts.append(root * jnp.maximum(_shifted(vector(self.inequality, inner), inequality, weight), 0))
        return jnp.concatenate(parts)


def _augmented(
    cost: Residual | None, equality: Residual | None, inequality: Residual | None, is_final: bool
) -> _Augmented | None:
    is_empty = cost is None and equality is None and inequality is None
    return None if is_empty else _Augmented(cost, equality, inequality, is_final)


def _shifted(value: Array, multiplier: Array | None, weight: Array) -> Array:
    return value if multiplier is None else value + multiplier / weight


def _constraints(problem: Problem, states: Array, controls: Array) -> Multipliers:
    """Values of the constraint functions along a trajectory."""
    dynamics = problem.dynamics

    def running(function: Residual | None) -> Array | None:
        if function is None:
            return None

        def one(x: Array, control: Array, time: Array) -> Array:
            force = dynamics.step(x, control, time)[1]
            seen = (x, control, force, problem.reference(time), problem.parameters)
            return residual(dynamics.articulation, function, *seen)

        return jax.vmap(one)(states[:-1], controls, jnp.arange(len(controls)))

    def final(function: Residual | None) -> Array | None:
        if function is None:
            return None
        seen = (states[-1], None, None, problem.reference(-1), problem.parameters)
        return residual(dynamics.articulation, function, *seen)

    return Multipliers(
        running(problem.equality),
        running(problem.inequality),
        final(problem.final_equality),
        final(problem.final_inequality),
    )


def _violation(violations: Multipliers) -> Array:
    equalities = [jnp.abs(each) for each in (violations.equality, violations.final_equality) if each is not None]
    inequalities = [
        jnp.maximum(each, 0) for each in (violations.inequality, violations.final_inequality) if each is not None
    ]
    return jnp.max(jnp.concatenate([each.reshape(-1) for each in equalities + inequalities]))


def _positive(multiplier: Array | None) -> Array | None:
    return None if multiplier is None else jnp.maximum(multiplier, 0)
