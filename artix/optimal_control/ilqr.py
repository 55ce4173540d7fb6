"""Trajectories of least cost by iterated linear-quadratic approximation: iLQR, DDP and multiple
shooting.

Li and Todorov, *Iterative linear quadratic regulator design for nonlinear biological movement
systems*, ICINCO 2004; Tassa, Erez and Todorov, *Synthesis and stabilization of complex behaviors
through online trajectory optimization*, IROS 2012; Mastalli et al., *Crocoddyl: an efficient and
versatile framework for multi-contact optimal control*, ICRA 2020, for gaps between knots.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import chosen, matmul
from artix.optimal_control.approximation import (
    Hessian,
    LinearQuadratic,
    approximate,
    with_exact_hessians,
)
from artix.optimal_control.problem import Problem, bounds_meet, ends_cost, final_cost, running_cost
from artix.optimal_control.recursions import (
    Box,
    Policy,
    follow,
    parallel_riccati,
    riccati,
    trajectory_costates,
)

Array = jax.Array
Riccati = Literal["sequential", "parallel"]
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e9


class Iterations(NamedTuple):
    """The history of :func:`solve`, with arrays of shape [iterations]; after an early end, the last
    entries repeat.

    Attributes:
      cost: the cost after each iteration.
      gap: sum of the absolute gaps after each iteration; zero in single shooting.
      decrease: the decrease of the cost that the linear-quadratic problem predicts, without what
        closing gaps changes (see :class:`Policy`); where there are no gaps, half of the Newton
        decrement.
      step_length: length of the accepted step; zero if no step was an improvement.
      damping: value added to the diagonals of the controls' Hessians.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.02)
      >>> effort, arrive = (
      ...     lambda knot: 0.1 * knot.control,
      ...     lambda knot: knot.state.joint_position - 0.5,
      ... )
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, arrive)
      >>> iterations = optimal_control.solve(problem, jnp.zeros((10, 2)), iterations=5).iterations
      >>> iterations.cost.shape, bool(iterations.cost[-1] < iterations.cost[0])
      ((5,), True)
    """

    cost: Array
    gap: Array
    decrease: Array
    step_length: Array
    damping: Array


class Solution(NamedTuple):
    """The result of :func:`solve`.

    Attributes:
      states: flat states, [T + 1, nx].
      controls: [T, nu].
      gain: gain of the policy ``u = controls + gain difference(states, x)`` about the trajectory,
        [T, nu, ndx].
      cost: cost of the trajectory, [].
      converged: whether, in the last iteration, the predicted decrease was at most
        ``tolerance (1 + cost)`` and the sum of the gaps at most ``tolerance`` or ten rounding
        errors of all states, [] of bool; false if anything is not finite.
      iterations: cost, gap, predicted decrease, step length and damping of each iteration.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.02)
      >>> effort, arrive = (
      ...     lambda knot: 0.1 * knot.control,
      ...     lambda knot: knot.state.joint_position - 0.5,
      ... )
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, arrive)
      >>> solution = optimal_control.solve(problem, jnp.zeros((10, 2)), iterations=5)
      >>> # measured
      >>> deviation = dynamics.difference(solution.states[0], jnp.array([0.01, 0.0, 0.0, 0.0]))
      >>> (solution.controls[0] + solution.gain[0] @ deviation).shape
      (2,)
    """

    states: Array
    controls: Array
    gain: Array
    cost: Array
    converged: Array
    iterations: Iterations


class Trajectory(NamedTuple):
    """A trajectory, whose states need not follow from its controls."""

    states: Array
    controls: Array
    gaps: Array
    """[T, ndx]"""
    cost: Array


class Progress(NamedTuple):
    """What one iteration hands to the next."""

    trajectory: Trajectory
    damping: Array


class Options(NamedTuple):
    """Static arguments of :func:`solve`."""

    iterations: int
    step_lengths: int
    hessian: Hessian
    riccati: Riccati
    multiple_shooting: bool


def iterate(
    problem: Problem,
    states: Array,
    controls: Array,
    options: Options,
    damping: float,
    tolerance: float,
):
    """The iterations of :func:`artix.optimal_control.solve`, without its rule for derivatives."""
    first = evaluated(problem, states, controls)
    start = Progress(first, jnp.asarray(damping, states.dtype))

    def body(progress: Progress, _: None) -> tuple[Progress, tuple[Iterations, Array]]:
        return improved(problem, progress, options)

    progress, (iterations, gains) = jax.lax.scan(body, start, length=options.iterations)
    return _solution(problem, progress.trajectory, iterations, gains[-1], tolerance)


def settle(
    problem: Problem,
    states: Array,
    controls: Array,
    options: Options,
    damping: float,
    tolerance: Array | float,
):
    """As :func:`iterate`, but ends once the solution has converged, or when even the largest
    damping gives no step.

    Entries of the history after the end repeat the last one.
    """
    num_knots, dtype = len(controls), states.dtype
    start = Progress(evaluated(problem, states, controls), jnp.asarray(damping, dtype))
    history = Iterations(*jnp.zeros((len(Iterations._fields), options.iterations), dtype))
    gain = jnp.zeros(
        (num_knots, problem.dynamics.num_controls, problem.dynamics.num_deviations), dtype
    )

    def goes_on(carry: tuple[Array, Array, Progress, Iterations, Array]) -> Array:
        count, is_over, *_ = carry
        return (count < options.iterations) & ~is_over

    def body(carry: tuple[Array, Array, Progress, Iterations, Array]):
        count, _, progress, history, _ = carry
        progress, (report, gain) = improved(problem, progress, options)
        history = Iterations(
            *(many.at[count].set(one) for many, one in zip(history, report, strict=True))
        )
        end = progress.trajectory
        is_over = has_converged(problem, end.states, end.cost, report, tolerance) | is_stuck(
            report, MAX_DAMPING
        )
        return count + 1, is_over, progress, history, gain

    first = jnp.zeros((), jnp.int32), jnp.zeros((), bool), start, history, gain
    count, _, progress, history, gain = jax.lax.while_loop(goes_on, body, first)
    past = jnp.minimum(jnp.arange(options.iterations, dtype=jnp.int32), count - 1)
    iterations = Iterations(*(leaf[past] for leaf in history))
    return _solution(problem, progress.trajectory, iterations, gain, tolerance)


def has_converged(
    problem: Problem, states: Array, cost: Array, report: Iterations, tolerance: Array | float
) -> Array:
    """Whether the last iteration, of which this is the report, found nothing to gain.

    It is false if no control satisfies both bounds.
    """
    is_flat = report.decrease <= tolerance * (1 + jnp.abs(cost))
    # Gaps are differences of states, which are rounded: single precision cannot close many of them
    # further.
    rounding = 10 * jnp.finfo(states.dtype).eps * jnp.sum(jnp.abs(states))
    is_closed = report.gap <= jnp.maximum(tolerance, rounding)
    return is_flat & is_closed & jnp.isfinite(cost) & bounds_meet(problem)


def is_stuck(report: Iterations, damping: float) -> Array:
    """Whether no step was an improvement, although at least so much damping made them short."""
    return (report.step_length == 0) & (report.damping >= damping)


def last_of(iterations: Iterations) -> Iterations:
    """The last entry of each history."""
    return Iterations(*(each[-1] for each in iterations))


def _solution(
    problem: Problem,
    end: Trajectory,
    iterations: Iterations,
    gain: Array,
    tolerance: Array | float,
) -> Solution:
    converged = has_converged(problem, end.states, end.cost, last_of(iterations), tolerance)
    return Solution(end.states, end.controls, gain, end.cost, converged, iterations)


def improved(
    problem: Problem, progress: Progress, options: Options
) -> tuple[Progress, tuple[Iterations, Array]]:
    """One iteration: approximate, solve, and take the best of several step lengths if it is an
    improvement.
    """
    current, damping = progress
    quadratic = approximate(problem, current.states, current.controls)
    box = _changes(problem, current.controls)
    policy = _policy(problem, quadratic, current, damping, box, options)
    deviations, _ = follow(quadratic, policy, box=box)
    costates = policy.value_gradient + matmul(policy.value_hessian, deviations[1:, :, None])[..., 0]

    def merit(trajectory: Trajectory) -> Array:
        # An exact penalty: a gap costs more than closing it can.
        return trajectory.cost + 1.5 * jnp.sum(jnp.abs(costates * trajectory.gaps))

    lengths = 0.5 ** jnp.arange(options.step_lengths, dtype=current.cost.dtype)
    attempt = _linear_attempt if options.multiple_shooting else _rollout_attempt
    attempts = jax.vmap(lambda length: attempt(problem, current, quadratic, policy, length))(
        lengths
    )
    merits = jax.vmap(merit)(attempts)
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    # Steps whose merits differ only by rounding are equally good; taking the longest converges to
    # the last digit.
    rounding = 10 * jnp.finfo(current.cost.dtype).eps * jnp.abs(current.cost)
    best = jnp.argmax(merits <= jnp.min(merits) + rounding)
    better = merits[best] <= merit(current) + rounding
    accepted = jax.tree.map(lambda new, old: jnp.where(better, new[best], old), attempts, current)
    next_damping = jnp.where(better, 0.1 * damping, jnp.maximum(10 * damping, 1e-6))
    report = Iterations(
        accepted.cost,
        jnp.sum(jnp.abs(accepted.gaps)),
        policy.decrease,
        jnp.where(better, lengths[best], 0.0),
        damping,
    )
    return Progress(accepted, jnp.clip(next_damping, MIN_DAMPING, MAX_DAMPING)), (
        report,
        policy.gain,
    )


def _policy(
    problem: Problem,
    quadratic: LinearQuadratic,
    current: Trajectory,
    damping: Array,
    box: Box | None,
    options: Options,
) -> Policy:
    def backward(problem: LinearQuadratic) -> Policy:
        return (
            parallel_riccati(problem, damping)
            if options.riccati == "parallel"
            else riccati(problem, damping, box)
        )

    policy = backward(quadratic)
    if options.hessian == "gauss_newton":
        return policy
    # Costates of the current trajectory. Near an optimum the Gauss-Newton approximation is good
    # enough for them.
    costates = trajectory_costates(quadratic)
    exact = backward(
        with_exact_hessians(problem, quadratic, current.states, current.controls, costates)
    )
    # Far from an optimum the exact Hessians may be indefinite; fall back on the Gauss-Newton
    # policy.
    return chosen(jnp.isfinite(exact.decrease), exact, policy)


def _rollout_attempt(
    problem: Problem, current: Trajectory, quadratic: LinearQuadratic, policy: Policy, length: Array
) -> Trajectory:
    """A rollout under the policy with scaled feedforward; gaps shrink by the step length, as in
    Crocoddyl's FDDP.
    """
    dynamics = problem.dynamics
    remaining = (1 - length) * current.gaps

    def body(x: Array, knot: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        nominal, control, feedforward, gain, gap, time = knot
        applied = control + length * feedforward + matmul(gain, dynamics.difference(nominal, x))
        applied = within_bounds(problem, applied)
        end, contact_force = dynamics.step(x, applied, time)
        return dynamics.integrate(end, -gap), (x, applied, contact_force)

    knots = (
        current.states[:-1],
        current.controls,
        policy.feedforward,
        policy.gain,
        remaining,
        jnp.arange(len(current.controls)),
    )
    start = problem.start
    if policy.start is not None:
        start = dynamics.integrate(current.states[0], length * policy.start)
    last, (states, controls, contact_forces) = jax.lax.scan(body, start, knots)
    return Trajectory(
        jnp.concatenate([states, last[None]]),
        controls,
        remaining,
        _cost(problem, states, controls, contact_forces, last),
    )


def _linear_attempt(
    problem: Problem, current: Trajectory, quadratic: LinearQuadratic, policy: Policy, length: Array
) -> Trajectory:
    """Multiple shooting: states and controls move along the linear dynamics, and all knots are
    evaluated at once.
    """
    deviations, changes = follow(quadratic, policy, length, _changes(problem, current.controls))
    states = jax.vmap(problem.dynamics.integrate)(current.states, deviations)
    return evaluated(problem, states, within_bounds(problem, current.controls + changes))


def _changes(problem: Problem, controls: Array) -> Box | None:
    """Bounds of the changes of controls, if the problem has some."""
    if problem.control_lower is None or problem.control_upper is None:
        return None
    return Box(problem.control_lower - controls, problem.control_upper - controls)


def evaluated(problem: Problem, states: Array, controls: Array) -> Trajectory:
    """A trajectory with its cost and its gaps."""
    dynamics = problem.dynamics
    ends, contact_forces = jax.vmap(dynamics.step)(states[:-1], controls, jnp.arange(len(controls)))
    gaps = jax.vmap(dynamics.difference)(states[1:], ends)
    return Trajectory(
        states, controls, gaps, _cost(problem, states[:-1], controls, contact_forces, states[-1])
    )


def _cost(
    problem: Problem, states: Array, controls: Array, contact_forces: Array, last: Array
) -> Array:
    references = jax.tree.map(lambda leaf: leaf[: len(controls)], problem.references)
    running = jax.vmap(lambda *knot: running_cost(problem, *knot))(
        states, controls, contact_forces, references
    )
    cost = jnp.sum(running) + final_cost(problem, last)
    return cost if problem.closure is None else cost + ends_cost(problem, states[0], last)


def within_bounds(problem: Problem, controls: Array) -> Array:
    """Controls clipped to the bounds of a problem, if it has some."""
    if problem.control_lower is None or problem.control_upper is None:
        return controls
    return jnp.clip(controls, problem.control_lower, problem.control_upper)
