"""Trajectories of least cost by iterated linear-quadratic approximation: iLQR, DDP and multiple shooting.

Li and Todorov, *Iterative linear quadratic regulator design for nonlinear biological movement systems*, ICINCO 2004;
Tassa, Erez and Todorov, *Synthesis and stabilization of complex behaviors through online trajectory optimization*,
IROS 2012; Mastalli et al., *Crocoddyl: an efficient and versatile framework for multi-contact optimal control*, ICRA
2020, for gaps between knots.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import chosen, matmul
from artix.optimal_control.approximation import Hessian, LinearQuadratic, approximate, exact_hessians
from artix.optimal_control.box import Box
from artix.optimal_control.problem import Problem, final_cost, running_cost
from artix.optimal_control.recursions import Policy, follow, parallel_riccati, riccati, trajectory_costates

Array = jax.Array
Riccati = Literal["sequential", "parallel"]
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e9


class Iterations(NamedTuple):
    """The history of :func:`solve`, with arrays of shape [iterations].

    Attributes:
      cost: the cost after each iteration.
      gap: sum of the absolute gaps after each iteration; zero in single shooting.
      decrease: the decrease of the cost that the linear-quadratic problem predicts, without what closing gaps changes
        (see :class:`Policy`); where there are no gaps, half of the Newton decrement.
      step_length: length of the accepted step; zero if no step was an improvement.
      damping: value added to the diagonals of the controls' Hessians.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.02)
      >>> effort, arrive = lambda knot: 0.1 * knot.control, lambda knot: knot.state.joint_position - 0.5
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
      gain: gain of the policy ``u = controls + gain difference(states, x)`` about the trajectory, [T, nu, ndx].
      cost: cost of the trajectory, [].
      converged: whether, in the last iteration, the predicted decrease was at most ``tolerance (1 + cost)`` and the sum
        of the gaps at most ``tolerance`` or ten rounding errors of all states, [] of bool; false if anything is not
        finite.
      iterations: cost, gap, predicted decrease, step length and damping of each iteration.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.02)
      >>> effort, arrive = lambda knot: 0.1 * knot.control, lambda knot: knot.state.joint_position - 0.5
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, arrive)
      >>> solution = optimal_control.solve(problem, jnp.zeros((10, 2)), iterations=5)
      >>> deviation = dynamics.difference(solution.states[0], jnp.array([0.01, 0.0, 0.0, 0.0]))  # measured
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


def iterate(problem: Problem, states: Array, controls: Array, options: Options, damping: float, tolerance: float):
    """The iterations of :func:`artix.optimal_control.solve`, without its rule for derivatives."""
    first = evaluated(problem, states, controls)
    start = Progress(first, jnp.asarray(damping, states.dtype))

    def body(progress: Progress, _: None) -> tuple[Progress, tuple[Iterations, Array]]:
        return improved(problem, progress, options)

    progress, (iterations, gains) = jax.lax.scan(body, start, length=options.iterations)
    last = progress.trajectory
    is_flat = iterations.decrease[-1] <= tolerance * (1 + jnp.abs(last.cost))
    # Gaps are differences of states, which are rounded: single precision cannot close many of them further.
    rounding = 10 * jnp.finfo(states.dtype).eps * jnp.sum(jnp.abs(last.states))
    is_closed = iterations.gap[-1] <= jnp.maximum(tolerance, rounding)
    converged = is_flat & is_closed & jnp.isfinite(last.cost)
    gain = jax.tree.map(lambda leaf: leaf[-1], gains)
    return Solution(last.states, last.controls, gain, last.cost, converged, iterations)


def improved(problem: Problem, progress: Progress, options: Options) -> tuple[Progress, tuple[Iterations, Array]]:
    """One iteration: approximate, solve, and take the best of several step lengths if it is an improvement."""
    current, damping = progress
    quadratic = approximate(problem, current.states, current.controls)
    policy = _policy(problem, quadratic, current, damping, options)
    deviations, _ = follow(quadratic, policy)
    costates = policy.value_gradient + matmul(policy.value_hessian, deviations[1:, :, None])[..., 0]

    def merit(trajectory: Trajectory) -> Array:
        # An exact penalty: a gap costs more than closing it can.
        return trajectory.cost + 1.5 * jnp.sum(jnp.abs(costates * trajectory.gaps))

    lengths = 0.5 ** jnp.arange(options.step_lengths, dtype=current.cost.dtype)
    attempt = _linear_attempt if options.multiple_shooting else _rollout_attempt
    attempts = jax.vmap(lambda length: attempt(problem, current, quadratic, policy, length))(lengths)
    merits = jax.vmap(merit)(attempts)
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    # Steps whose merits differ only by rounding are equally good; taking the longest converges to the last digit.
    rounding = 10 * jnp.finfo(current.cost.dtype).eps * jnp.abs(current.cost)
    best = jnp.argmax(merits <= jnp.min(merits) + rounding)
    better = merits[best] <= merit(current) + rounding
    accepted = jax.tree.map(lambda new, old: jnp.where(better, new[best], old), attempts, current)
    next_damping = jnp.where(better, 0.1 * damping, jnp.maximum(10 * damping, 1e-6))
    report = Iterations(
        accepted.cost, jnp.sum(jnp.abs(accepted.gaps)), policy.decrease, jnp.where(better, lengths[best], 0.0), damping
    )
    return Progress(accepted, jnp.clip(next_damping, MIN_DAMPING, MAX_DAMPING)), (report, policy.gain)


def _policy(
    problem: Problem, quadratic: LinearQuadratic, current: Trajectory, damping: Array, options: Options
) -> Policy:
    box = None
    if problem.control_lower is not None and problem.control_upper is not None:
        box = Box(problem.control_lower - current.controls, problem.control_upper - current.controls)

    def backward(problem: LinearQuadratic) -> Policy:
        return parallel_riccati(problem, damping) if options.riccati == "parallel" else riccati(problem, damping, box)

    policy = backward(quadratic)
    if options.hessian == "gauss_newton":
        return policy
    # Costates of the current trajectory. Near an optimum the Gauss-Newton approximation is good enough for them.
    costates = trajectory_costates(quadratic)
    running, final = exact_hessians(problem, current.states, current.controls, costates)
    exact = backward(quadratic._replace(hessian=running, final_hessian=final))
    # Far from an optimum the exact Hessians may be indefinite; fall back on the Gauss-Newton policy.
    return chosen(jnp.isfinite(exact.decrease), exact, policy)


def _rollout_attempt(
    problem: Problem, current: Trajectory, quadratic: LinearQuadratic, policy: Policy, length: Array
) -> Trajectory:
    """A rollout under the policy with scaled feedforward; gaps shrink by the step length, as in Crocoddyl's FDDP."""
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
    last, (states, controls, contact_forces) = jax.lax.scan(body, problem.start, knots)
    return Trajectory(
        jnp.concatenate([states, last[None]]),
        controls,
        remaining,
        _cost(problem, states, controls, contact_forces, last),
    )


def _linear_attempt(
    problem: Problem, current: Trajectory, quadratic: LinearQuadratic, policy: Policy, length: Array
) -> Trajectory:
    """Multiple shooting: states and controls move along the linear dynamics, and all knots are evaluated at once."""
    deviations, changes = follow(quadratic, policy, length)
    states = jax.vmap(problem.dynamics.integrate)(current.states, deviations)
    return evaluated(problem, states, within_bounds(problem, current.controls + changes))


def evaluated(problem: Problem, states: Array, controls: Array) -> Trajectory:
    """A trajectory with its cost and its gaps."""
    dynamics = problem.dynamics
    ends, contact_forces = jax.vmap(dynamics.step)(states[:-1], controls, jnp.arange(len(controls)))
    gaps = jax.vmap(dynamics.difference)(states[1:], ends)
    return Trajectory(states, controls, gaps, _cost(problem, states[:-1], controls, contact_forces, states[-1]))


def _cost(problem: Problem, states: Array, controls: Array, contact_forces: Array, last: Array) -> Array:
    references = jax.tree.map(lambda leaf: leaf[: len(controls)], problem.references)
    running = jax.vmap(lambda *knot: running_cost(problem, *knot))(states, controls, contact_forces, references)
    return jnp.sum(running) + final_cost(problem, last)


def within_bounds(problem: Problem, controls: Array) -> Array:
    """Controls clipped to the bounds of a problem, if it has some."""
    if problem.control_lower is None or problem.control_upper is None:
        return controls
    return jnp.clip(controls, problem.control_lower, problem.control_upper)
