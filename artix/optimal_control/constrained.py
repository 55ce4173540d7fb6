"""Equality and inequality constraints on states, controls and contact forces, by augmented
Lagrangians.

Each constraint becomes a residual: ``sqrt(weight) (h + multiplier / weight)`` for ``h = 0``, and
its positive part for ``h <= 0``, so that constraints have Gauss-Newton Hessians as costs do.
Nocedal and Wright, *Numerical Optimization*, chapter 17; Howell, Jackson and Manchester, *ALTRO*,
IROS 2019. When multipliers move and when the weight rises is decided as in Birgin and Martínez,
*Practical augmented Lagrangian methods*, SIAM 2014: each augmented problem is solved to a
precision, the merit is its own cost, and the weight rises only where the multipliers alone do not
bring the violation down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import check_finite
from artix.model.checks import check_count, check_not_negative, check_positive
from artix.optimal_control.ilqr import (
    Iterations,
    Options,
    Solution,
    has_converged,
    is_stuck,
    last_of,
    settle,
)
from artix.optimal_control.problem import Knot, Problem, Residual, closure, residual, vector
from artix.optimal_control.solver import optimise, prepared, with_implicit_derivatives

Array = jax.Array
#: Corrections of the multipliers that carry derivatives; each reduces the error by a factor of
#: about 1 / weight.
CORRECTIONS = 3
#: Weight of those corrections where the solution's own is smaller.
CORRECTION_WEIGHT = 1e5
#: First weights by default, and with multipliers of a similar problem.
WEIGHTS, WARM_WEIGHT = (1.0, 1000.0), 100.0
#: Relative precision of the first augmented problem, and the factor on it from one to the next.
PRECISION, SHARPENING = 1e-3, 0.1
#: The weight rises where the violation falls by less than this factor.
FALL = 0.1
#: An augmented problem ends where no step is an improvement at this damping: a kink, or all digits
#: are spent.
STUCK_DAMPING = 1e6


class Multipliers(NamedTuple):
    """Lagrange multipliers of the constraints; ``None`` for each kind that the problem does not
    have.

    Attributes:
      equality: one row for each knot, [T, e].
      inequality: one row for each knot, never negative, [T, i].
      final_equality: at the end, [fe].
      final_inequality: at the end, never negative, [fi].
      closure: of the first and the last state, [c].

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.05)
      >>> effort, arrive = (
      ...     lambda knot: 0.1 * knot.control,
      ...     lambda knot: knot.state.joint_position - 0.3,
      ... )
      >>> rest = lambda knot: 0.1 * knot.state.joint_velocity
      >>> problem = optimal_control.Problem(
      ...     dynamics, jnp.zeros(4), effort, rest, final_equality=arrive
      ... )
      >>> solution = optimal_control.solve_constrained(
      ...     problem, jnp.zeros((10, 2)), iterations=2, outer_iterations=2
      ... )
      >>> solution.multipliers.final_equality.shape, solution.multipliers.inequality
      ((2,), None)
    """

    equality: Array | None
    inequality: Array | None
    final_equality: Array | None
    final_inequality: Array | None
    closure: Array | None = None


class ConstrainedSolution(NamedTuple):
    """The result of :func:`solve_constrained`.

    Attributes:
      solution: solution of the last augmented problem. Its cost includes the cost of the
        constraints; its ``converged`` is about the whole problem.
      multipliers: multipliers of the constraints; pass them on to warm-start.
      violation: largest violation of a constraint after each outer iteration, [outer_iterations];
        once the solution has converged, entries repeat the last one.
      cost: cost of the trajectory without constraints, :func:`total_cost`, [].
      feasible: whether the last violation is at most ``feasibility_tolerance``, [] of bool. If not,
        the trajectory breaks constraints: more iterations, another start or a higher
        ``most_weight`` may help, or there is none that keeps them.
      converged: whether the trajectory is feasible and stationary: constraints are kept, inactive
        ones have no multipliers, and the predicted decrease is at most ``tolerance (1 + cost)``, []
        of bool.
      weight: weight of the squared constraints in the end, []; pass it on with the multipliers.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.05)
      >>> effort, arrive = (
      ...     lambda knot: 0.1 * knot.control,
      ...     lambda knot: knot.state.joint_position - 0.3,
      ... )
      >>> rest = lambda knot: 0.1 * knot.state.joint_velocity
      >>> problem = optimal_control.Problem(
      ...     dynamics, jnp.zeros(4), effort, rest, final_equality=arrive
      ... )
      >>> solution = optimal_control.solve_constrained(problem, jnp.zeros((10, 2)))
      >>> solution.solution.states.shape, bool(solution.feasible), bool(solution.converged)
      ((11, 4), True, True)
    """

    solution: Solution
    multipliers: Multipliers
    violation: Array
    cost: Array
    feasible: Array
    converged: Array
    weight: Array


class _Search(NamedTuple):
    """What one outer iteration hands to the next."""

    rounds: Array
    is_over: Array
    solution: Solution
    multipliers: Multipliers
    weight: Array
    precision: Array
    unmet: Array
    """:func:`_unmet` of the last augmented problem that was solved."""
    violation: Array
    cost: Array


def solve_constrained(
    problem: Problem,
    controls: Array,
    states: Array | None = None,
    multipliers: Multipliers | None = None,
    *,
    outer_iterations: int = 50,
    weight: float | Sequence[float] | Array | None = None,
    weight_growth: float = 5.0,
    most_weight: float = 1e6,
    feasibility_tolerance: float | None = None,
    tolerance: float | None = None,
    damping: float = 1e-6,
    **options: Any,
) -> ConstrainedSolution:
    """Finds a trajectory of least cost under the problem's constraints.

    The method of augmented Lagrangians. Each outer iteration solves the augmented problem from the
    previous solution, more precisely each time and with the damping of the start. If that succeeds,
    the multipliers move, and the weight rises where the violation has not fallen to a tenth;
    otherwise the next outer iteration goes on. It ends once the solution has converged. Nocedal and
    Wright, *Numerical Optimization*, 2006, chapter 17; Birgin and Martínez, *Practical augmented
    Lagrangian methods*, SIAM 2014; Howell, Jackson and Manchester, *ALTRO*, IROS 2019.

    The result is a local optimum, and which one depends on the guess. A small ``weight`` lets the
    first iterations pass through obstacles and miss the end; with a large one they keep to the
    constraints and take shorter steps. With several weights, all are tried at once, and the
    cheapest trajectory that has converged is returned. So it is by default, unless there are
    multipliers from which to go on; one weight, such as 100, takes a third to a half of the time.

    *Derivatives.* Reverse mode is implicit, as in :func:`solve`: it gives the derivatives of the
    trajectory, its cost and the multipliers by all arrays of the problem, with the active
    constraints kept. A few corrections of the multipliers at the solution carry them; their
    relative error is about the factor by which the violation has fallen. They are right where the
    solution has converged and no constraint is about to become active or inactive. They need
    float64: with the weights of these corrections, the recursion fails in float32 for many
    problems, which gives NaN.

    Args:
      problem: the problem, with ``equality``, ``inequality``, ``final_equality``,
        ``final_inequality`` or ``closure``.
      controls: a first guess of the forces of the actuated joints [N m or N], shape [T, nu].
      states: a first guess, shape [T + 1, nx], as for :func:`solve`.
      multipliers: a first guess, such as those of a similar problem; zeros by default.
      outer_iterations: largest number of augmented problems.
      weight: weight of the squared constraints in the first outer iteration, [], or several to
        choose from, [k]; ``None`` for both 1 and 1000, or for 100 with ``multipliers``.
      weight_growth: factor by which the weight rises.
      most_weight: largest weight.
      feasibility_tolerance: largest violation of a feasible trajectory, in the units of the
        constraints, which should be of order one; ``None`` for 1e-8 in float64 and 1e-4 in float32.
      tolerance: largest predicted decrease of a converged trajectory, relative to one plus its
        cost; ``None`` for 1e-8 in float64 and 1e-6 in float32.
      damping: added to the controls' Hessians at the start of each outer iteration.
      options: other options of :func:`solve`, such as the largest number of ``iterations`` in each
        outer one.

    Returns:
      The trajectory, the multipliers, how far constraints are violated, and whether it has
      converged.

    Raises:
      ValueError: the problem has no constraints, multipliers do not fit them, a weight, its growth
        or a tolerance is not positive, or :func:`solve` refuses an argument.
      TypeError: as :func:`solve`, or ``outer_iterations`` is not a whole number.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> dynamics = optimal_control.discrete_dynamics(pendulum, 0.05)
      >>> effort = lambda knot: 0.1 * knot.control
      >>> arrive = lambda knot: jnp.concatenate(
      ...     [knot.state.joint_position - 0.3, knot.state.joint_velocity]
      ... )
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, final_equality=arrive)
      >>> solution = jax.jit(lambda u: optimal_control.solve_constrained(problem, u))(
      ...     jnp.zeros((10, 2))
      ... )
      >>> bool(solution.converged), float(solution.violation[-1]) < 1e-4
      (True, True)
    """
    if weight is None:
        weight = WEIGHTS if multipliers is None else WARM_WEIGHT
    is_double = problem.start.dtype == jnp.float64
    if feasibility_tolerance is None:
        feasibility_tolerance = 1e-8 if is_double else 1e-4
    if tolerance is None:
        tolerance = 1e-8 if is_double else 1e-6
    check_count("outer_iterations", outer_iterations)
    positive = {
        "weight": weight,
        "weight_growth": weight_growth,
        "most_weight": most_weight,
        "feasibility_tolerance": feasibility_tolerance,
        "tolerance": tolerance,
    }
    for name, value in positive.items():
        check_positive(name, value, "1")
    check_not_negative("damping", damping)
    if np.ndim(weight) > 1 or not np.size(weight):
        raise ValueError(
            f"weight: expected a number, or several, [k]; found shape {np.shape(weight)}"
        )
    if not problem.constraints:
        raise ValueError(
            "the problem has no constraints: give equality, inequality, ...; or use solve"
        )
    steps = _options(**options)
    problem, controls, states = prepared(problem, controls, states, steps)
    shapes = jax.eval_shape(lambda: constraints_along(problem, states, controls))
    if multipliers is None:
        multipliers = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    _check_multipliers(multipliers, shapes)
    method = _AugmentedLagrangians(
        steps,
        outer_iterations,
        weight_growth,
        most_weight,
        feasibility_tolerance,
        tolerance,
        damping,
    )
    weights = jnp.asarray(weight, problem.start.dtype)
    return with_implicit_derivatives(
        problem,
        method.cheapest if weights.ndim else method.solution,
        method.cotangent,
        controls,
        states,
        multipliers,
        weights,
    )


@dataclasses.dataclass(frozen=True)
class _AugmentedLagrangians:
    """The method of :func:`solve_constrained` with its settings."""

    steps: Options
    outer_iterations: int
    weight_growth: float
    most_weight: float
    feasibility_tolerance: float
    tolerance: float
    damping: float

    def solution(
        self,
        problem: Problem,
        controls: Array,
        states: Array,
        multipliers: Multipliers,
        weight: Array,
    ) -> ConstrainedSolution:
        """Outer iterations until one converges."""
        dtype = states.dtype
        start = _Search(
            jnp.zeros((), jnp.int32),
            jnp.zeros((), bool),
            _unsolved(problem, states, controls, self.steps.iterations),
            multipliers,
            weight,
            jnp.asarray(PRECISION, dtype),
            jnp.asarray(jnp.inf, dtype),
            jnp.zeros(self.outer_iterations, dtype),
            jnp.zeros((), dtype),
        )
        end = jax.lax.while_loop(
            lambda search: (search.rounds < self.outer_iterations) & ~search.is_over,
            lambda search: self._improved(problem, search),
            start,
        )
        rounds = jnp.arange(self.outer_iterations, dtype=jnp.int32)
        violation = end.violation[jnp.minimum(rounds, end.rounds - 1)]
        return ConstrainedSolution(
            end.solution._replace(converged=end.is_over),
            end.multipliers,
            violation,
            end.cost,
            violation[-1] <= self.feasibility_tolerance,
            end.is_over,
            end.weight,
        )

    def cheapest(
        self,
        problem: Problem,
        controls: Array,
        states: Array,
        multipliers: Multipliers,
        weights: Array,
    ) -> ConstrainedSolution:
        """Of the solutions with several first weights the cheapest that has converged; if none has,
        the one that violates constraints least.
        """
        each = jax.vmap(self.solution, in_axes=(None, None, None, None, 0))(
            problem, controls, states, multipliers, weights
        )
        cost = jnp.where(each.converged, each.cost, jnp.inf)
        missed = jnp.nan_to_num(each.violation[:, -1], nan=jnp.inf)
        k = jnp.where(jnp.any(each.converged), jnp.argmin(cost), jnp.argmin(missed))
        return jax.tree.map(lambda leaf: leaf[k], each)

    def _improved(self, problem: Problem, search: _Search) -> _Search:
        """One outer iteration: solves the augmented problem, then moves multipliers and weight."""
        multipliers, weight, trajectory = search.multipliers, search.weight, search.solution
        dtype = weight.dtype
        solution = settle(
            augmented(problem, multipliers, weight),
            trajectory.states,
            trajectory.controls,
            self.steps,
            self.damping,
            search.precision,
        )
        values = constraints_along(problem, solution.states, solution.controls)
        report = last_of(solution.iterations)
        unmet = _unmet(values, multipliers, weight)
        is_flat = has_converged(problem, solution.states, solution.cost, report, self.tolerance)
        is_sharp = solution.converged | (is_flat & (search.precision < self.tolerance))
        is_solved = is_sharp | is_stuck(report, STUCK_DAMPING) | (unmet < 0.1 * search.unmet)

        def changed(new: Array, old: Array) -> Array:
            return jnp.where(is_solved, new, old).astype(dtype)

        raised = jnp.minimum(weight * self.weight_growth, jnp.maximum(weight, self.most_weight))
        sharper = jnp.maximum(SHARPENING * search.precision, 4 * jnp.finfo(dtype).eps)
        return _Search(
            search.rounds + 1,
            is_flat & (unmet <= self.feasibility_tolerance),
            solution,
            jax.tree.map(changed, _moved(multipliers, values, weight), multipliers),
            changed(jnp.where(unmet > FALL * search.unmet, raised, weight), weight),
            changed(sharper, search.precision),
            changed(unmet, search.unmet),
            search.violation.at[search.rounds].set(largest_violation(values)),
            solution.cost - _penalty(values, multipliers, weight),
        )

    def cotangent(
        self,
        problem_of: Callable[[Any], Problem],
        values: Any,
        optimum: ConstrainedSolution,
        by: ConstrainedSolution,
    ) -> Any:
        """The cotangent of a problem's arrays, from that of its solution: the reverse mode of
        :meth:`_corrected`.
        """
        cotangents = (
            by.solution.states,
            by.solution.controls,
            by.solution.cost,
            by.multipliers,
            by.cost,
        )

        def corrected(values: Any) -> tuple[Array, Array, Array, Multipliers, Array]:
            return self._corrected(problem_of(values), optimum)

        return jax.vjp(corrected, values)[1](cotangents)[0]

    def _corrected(
        self, problem: Problem, optimum: ConstrainedSolution
    ) -> tuple[Array, Array, Array, Multipliers, Array]:
        """States, controls, augmented cost, multipliers and cost after a few corrections at the
        solution; the multipliers' derivatives converge with each of them.
        """
        controls, states = optimum.solution.controls, optimum.solution.states
        least = min(CORRECTION_WEIGHT, self.most_weight)
        weight = jnp.maximum(optimum.weight, jnp.asarray(least, states.dtype))
        once = self.steps._replace(iterations=1)

        def correct(
            multipliers: Multipliers, _: None
        ) -> tuple[Multipliers, tuple[Array, Array, Array, Array]]:
            each = augmented(problem, multipliers, weight)
            solution = optimise(each, controls, states, once, self.damping, self.tolerance)
            missed = constraints_along(problem, solution.states, solution.controls)
            cost = solution.cost - _penalty(missed, multipliers, weight)
            return _moved(multipliers, missed, weight), (
                solution.states,
                solution.controls,
                solution.cost,
                cost,
            )

        multipliers, corrected = jax.lax.scan(correct, optimum.multipliers, length=CORRECTIONS)
        states, controls, augmented_cost, cost = (each[-1] for each in corrected)
        return states, controls, augmented_cost, multipliers, cost


def _options(
    iterations: int = 50,
    step_lengths: int = 8,
    hessian: Any = "gauss_newton",
    riccati: Any = "sequential",
    multiple_shooting: bool = False,
) -> Options:
    return Options(iterations, step_lengths, hessian, riccati, multiple_shooting)


def _unsolved(problem: Problem, states: Array, controls: Array, iterations: int) -> Solution:
    """A guess in the place of a solution."""
    dynamics, dtype = problem.dynamics, states.dtype
    gain = jnp.zeros((len(controls), dynamics.num_controls, dynamics.num_deviations), dtype)
    history = Iterations(*jnp.zeros((len(Iterations._fields), iterations), dtype))
    return Solution(states, controls, gain, jnp.zeros((), dtype), jnp.zeros((), bool), history)


def _check_multipliers(multipliers: Multipliers, wanted: Multipliers) -> None:
    """Raises unless multipliers fit the constraints."""
    for name, value, needed in zip(wanted._fields, multipliers, wanted, strict=True):
        shapes = [None if each is None else jnp.shape(each) for each in (needed, value)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"multipliers.{name}: expected shape {shapes[0]}; found {shapes[1]}")
        check_finite(f"multipliers.{name}", value)


def augmented(problem: Problem, multipliers: Multipliers | None, weight: Array | float) -> Problem:
    """The problem without constraints, whose residuals include what violating them costs.

    Args:
      problem: the problem.
      multipliers: multipliers of its constraints; zeros when ``None``.
      weight: weight of the squared constraints.

    Returns:
      A problem for :func:`optimise`, for which half the square of the closure is a cost.
    """
    start = Multipliers(None, None, None, None) if multipliers is None else multipliers
    padded = [
        each if each is None else jnp.concatenate([each, each[-1:]])
        for each in (start.equality, start.inequality)
    ]
    final = start.final_equality, start.final_inequality, start.closure
    return problem.replace(
        running=_augmented(problem.running, problem.equality, problem.inequality, False),
        final=_augmented(problem.final, problem.final_equality, problem.final_inequality, True),
        references=(problem.references, *padded),
        equality=None,
        inequality=None,
        final_equality=None,
        final_inequality=None,
        closure=None if problem.closure is None else _AugmentedClosure(problem.closure),
        parameters=(problem.parameters, *final, jnp.asarray(weight, problem.start.dtype)),
    )


@dataclasses.dataclass(frozen=True)
class _Augmented:
    """A residual with those of constraints; compared by its parts, so that compiled programs are
    reused.
    """

    cost: Residual | None
    equality: Residual | None
    inequality: Residual | None
    is_final: bool

    def __call__(self, knot: Knot) -> Array:
        reference, *of_knot = knot.reference
        parameters, *at_end, _, weight = knot.parameters
        equality, inequality = at_end if self.is_final else of_knot
        inner = knot._replace(reference=reference, parameters=parameters)
        root = jnp.sqrt(weight)
        parts = [] if self.cost is None else [vector(self.cost, inner)]
        if self.equality is not None:
            parts.append(root * _shifted(vector(self.equality, inner), equality, weight))
        if self.inequality is not None:
            parts.append(
                root * jnp.maximum(_shifted(vector(self.inequality, inner), inequality, weight), 0)
            )
        return jnp.concatenate(parts)


@dataclasses.dataclass(frozen=True)
class _AugmentedClosure:
    """What violating a closure costs; compared by its function."""

    closure: Callable[[Knot, Knot], Array]

    def __call__(self, first: Knot, last: Knot) -> Array:
        parameters, *_, multiplier, weight = last.parameters
        inner = [
            each._replace(reference=each.reference[0], parameters=parameters)
            for each in (first, last)
        ]
        return jnp.sqrt(weight) * _shifted(vector(self.closure, *inner), multiplier, weight)


def _augmented(
    cost: Residual | None, equality: Residual | None, inequality: Residual | None, is_final: bool
) -> _Augmented | None:
    is_empty = cost is None and equality is None and inequality is None
    return None if is_empty else _Augmented(cost, equality, inequality, is_final)


def _shifted(value: Array, multiplier: Array | None, weight: Array) -> Array:
    return value if multiplier is None else value + multiplier / weight


def constraints_along(problem: Problem, states: Array, controls: Array) -> Multipliers:
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
        None if problem.closure is None else closure(problem, states[0], states[-1]),
    )


def largest_violation(violations: Multipliers) -> Array:
    """The largest violation of a constraint, from the values of all."""
    equalities = violations._replace(inequality=None, final_inequality=None)
    inequalities = violations.inequality, violations.final_inequality
    sizes = [jnp.abs(each) for each in jax.tree.leaves(equalities)]
    sizes += [jnp.maximum(each, 0) for each in jax.tree.leaves(inequalities)]
    return jnp.max(jnp.concatenate([each.reshape(-1) for each in sizes]))


def _unmet(values: Multipliers, multipliers: Multipliers, weight: Array) -> Array:
    """The largest violation of a constraint, or, in the same unit, multiplier of one that is not
    active.
    """

    def kept(value: Array | None, multiplier: Array | None) -> Array | None:
        return (
            None
            if value is None or multiplier is None
            else jnp.abs(jnp.maximum(value, -multiplier / weight))
        )

    return largest_violation(
        values._replace(
            inequality=kept(values.inequality, multipliers.inequality),
            final_inequality=kept(values.final_inequality, multipliers.final_inequality),
        )
    )


def _moved(multipliers: Multipliers, values: Multipliers, weight: Array) -> Multipliers:
    """The multipliers that a solution of an augmented problem suggests."""
    moved = jax.tree.map(lambda each, value: each + weight * value, multipliers, values)
    return moved._replace(
        inequality=_positive(moved.inequality), final_inequality=_positive(moved.final_inequality)
    )


def _penalty(values: Multipliers, multipliers: Multipliers, weight: Array) -> Array:
    """The constraints' part of the augmented cost."""
    return (
        0.5
        / weight
        * sum(jnp.sum(each**2) for each in jax.tree.leaves(_moved(multipliers, values, weight)))
    )


def _positive(multiplier: Array | None) -> Array | None:
    return None if multiplier is None else jnp.maximum(multiplier, 0)
