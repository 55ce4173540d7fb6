"""Linear-quadratic problems solved by dynamic programming: knot by knot, or all knots at once, with
the control of least cost at each, free or within bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul
from artix.optimal_control.approximation import FreeStart, LinearQuadratic

Array = jax.Array


class Policy(NamedTuple):
    """The optimal policy of a linear-quadratic problem, ``du = feedforward + gain dx``, and its
    value function.

    Attributes:
      feedforward: constant part, [T, m].
      gain: factor on the deviation, [T, m, n].
      value_gradient: gradient of the cost to go from the states after each knot, at ``dx = 0``,
        [T, n].
      value_hessian: its Hessian, [T, n, n].
      decrease: by how much the feedforward lowers the cost, summed over knots, []. Without gaps,
        the cost falls by as much. What closing gaps changes is not included. Where damping leaves
        less of it than a step along the gradient would bring, it is that of such steps.
      start: the first deviation, where it is free, [n]; ``None`` where it is zero.

    Examples:
      >>> one = jnp.ones((5, 1, 1))  # x' = x + u, with cost (x^2 + u^2) / 2 at each of five knots
      >>> costs = jnp.zeros((5, 2)), one * jnp.eye(2)[None], jnp.ones(1), jnp.eye(1)
      >>> problem = optimal_control.LinearQuadratic(one, one, jnp.zeros((5, 1)), *costs)
      >>> policy = optimal_control.riccati(problem)
      >>> # minimises u^2 + (2 + u + 1)^2
      >>> print(policy.feedforward[-1] + policy.gain[-1] @ jnp.array([2.0]))
      [-1.5]
    """

    feedforward: Array
    gain: Array
    value_gradient: Array
    value_hessian: Array
    decrease: Array
    start: Array | None = None


class _Stage(NamedTuple):
    """A knot of a :class:`LinearQuadratic` problem."""

    state_matrix: Array
    control_matrix: Array
    gap: Array
    gradient: Array
    hessian: Array


class _Expanded(NamedTuple):
    """A knot's cost plus the cost to go after it, of ``z = (dx, du)``:
    ``gradient z + 1/2 z hessian z``.
    """

    gradient: Array
    hessian: Array


def riccati(
    problem: LinearQuadratic, damping: Array | float = 0.0, box: Box | None = None
) -> Policy:
    """Solves a linear-quadratic problem by the Riccati recursion, backwards from knot to knot.

    Args:
      problem: the linear-quadratic problem.
      damping: added to the diagonal of the controls' Hessians; the value function is that of the
        damped policy.
      box: bounds on the changes of controls; ``None`` for none. Controls at a bound have no gain:
        Tassa, Mansard and Todorov, *Control-limited differential dynamic programming*, ICRA 2014.

    Returns:
      The policy; it is not finite if a Hessian is not positive definite.

    Examples:
      >>> one = jnp.ones((5, 1, 1))
      >>> problem = optimal_control.LinearQuadratic(
      ...     one,
      ...     one,
      ...     one[..., 0],
      ...     jnp.zeros((5, 2)),
      ...     jnp.eye(2)[None] * jnp.ones((5, 1, 1)),
      ...     jnp.zeros(1),
      ...     jnp.eye(1),
      ... )
      >>> optimal_control.riccati(problem).gain[0].round(4).tolist()
      [[-0.618]]
    """
    if problem.start is None:
        return _backward(problem, damping, box)[1]
    return _started(
        problem.start, damping, *_backward(_with_start(problem, problem.start), damping, box)
    )


def _backward(
    problem: LinearQuadratic, damping: Array | float, box: Box | None
) -> tuple[tuple[Array, Array], Policy]:
    """Gradient and Hessian of the value function before the first knot, and the policy."""
    num_deviations = problem.state_matrix.shape[-1]

    def body(value: tuple[Array, Array], knot: tuple[_Stage, Box | None]):
        stage, bounds = knot
        expanded = _expanded(stage, *value)
        (gradient, hessian), (feedforward, gain, decrease) = _minimised(
            expanded, num_deviations, damping, bounds
        )
        return (gradient, hessian), (feedforward, gain, decrease, *value)

    final = problem.final_gradient, problem.final_hessian
    first, policies = jax.lax.scan(body, final, (_Stage(*problem[:5]), box), reverse=True)
    feedforward, gain, decrease, *value = policies
    return first, Policy(feedforward, gain, value[0], value[1], jnp.sum(decrease))


def _with_start(problem: LinearQuadratic, start: FreeStart) -> LinearQuadratic:
    """The same problem in ``(dx, s)``, where s is the first deviation, which stays as it is."""
    count, n = problem.gap.shape
    m = problem.control_matrix.shape[-1]
    dtype = problem.gap.dtype
    kept = np.r_[:n, 2 * n : 2 * n + m]
    after = (0, n)
    final = jnp.block([[problem.final_hessian, start.cross], [start.cross.T, start.hessian]])
    return LinearQuadratic(
        jnp.zeros((count, 2 * n, 2 * n), dtype).at[:, :n, :n].set(problem.state_matrix)
        + jnp.diag(jnp.repeat(jnp.array([0, 1], dtype), n)),
        jnp.pad(problem.control_matrix, ((0, 0), after, (0, 0))),
        jnp.pad(problem.gap, ((0, 0), after)),
        jnp.zeros((count, 2 * n + m), dtype).at[:, kept].set(problem.gradient),
        jnp.zeros((count, 2 * n + m, 2 * n + m), dtype)
        .at[:, kept[:, None], kept]
        .set(problem.hessian),
        jnp.concatenate([problem.final_gradient, start.gradient]),
        final,
    )


def _started(
    start: FreeStart, damping: Array | float, value: tuple[Array, Array], policy: Policy
) -> Policy:
    """The policy in dx of that in ``(dx, s)``, with the s of least cost."""
    n = len(start.free)
    unit = jnp.eye(n, dtype=start.gradient.dtype)
    both = jnp.concatenate([unit, unit])  # before the first knot, dx is s
    gradient, hessian = matmul(value[0], both), matmul(both.T, matmul(value[1], both))
    slope = jnp.where(start.free, gradient, jnp.zeros_like(gradient))
    first = free_gains(free_block(hessian + damping * unit, start.free), slope, unit[:, :0])[0]
    decrease = -(jnp.sum(first * slope) + 0.5 * jnp.sum(first * matmul(hessian, first)))
    return Policy(
        policy.feedforward + matmul(policy.gain[..., n:], first[:, None])[..., 0],
        policy.gain[..., :n],
        policy.value_gradient[:, :n]
        + matmul(policy.value_hessian[:, :n, n:], first[:, None])[..., 0],
        policy.value_hessian[:, :n, :n],
        policy.decrease + decrease,
        first,
    )


def parallel_riccati(problem: LinearQuadratic, damping: Array | float = 0.0) -> Policy:
    """Solves a linear-quadratic problem by an associative scan over all knots, in ``log2 T``
    rounds.

    Särkkä and García-Fernández, *Temporal parallelization of dynamic programming and linear
    quadratic control*, IEEE TAC 2023. It takes about four times the operations of :func:`riccati`,
    so it pays off where processors would be idle: on a GPU with few robots and long horizons. The
    Hessian of each knot's cost by its controls must be positive definite.

    Args:
      problem: the linear-quadratic problem.
      damping: added to the diagonal of the controls' Hessians, as if it were part of the problem.

    Returns:
      The policy of :func:`riccati`; with damping a slightly different one.

    Examples:
      >>> one = jnp.ones((5, 1, 1))  # x' = x + u, with cost (x^2 + u^2) / 2 at each of five knots
      >>> costs = jnp.zeros((5, 2)), one * jnp.eye(2)[None], jnp.ones(1), jnp.eye(1)
      >>> problem = optimal_control.LinearQuadratic(one, one, jnp.zeros((5, 1)), *costs)
      >>> print(optimal_control.parallel_riccati(problem).gain[0])
      [[-0.618]]
    """
    n = problem.state_matrix.shape[-1]
    m = problem.control_matrix.shape[-1]
    stages = _Stage(*problem[:5])
    damped = problem.hessian.at[:, n:, n:].add(damping * jnp.eye(m, dtype=problem.gap.dtype))
    elements = jax.vmap(_element)(stages._replace(hessian=damped))
    zero = jnp.zeros((n, n), problem.gap.dtype)
    last = _Element(zero, problem.gap[0] * 0, zero, -problem.final_gradient, problem.final_hessian)
    joined = jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), elements, last)
    # Reversed, an associative scan hands over the later element first.
    to_go = jax.lax.associative_scan(
        jax.vmap(lambda later, earlier: _combined(earlier, later)), joined, reverse=True
    )
    value = -to_go.slope[1:], to_go.curvature[1:]

    def policy(stage: _Stage, gradient: Array, hessian: Array) -> tuple[Array, Array, Array]:
        return _minimised(_expanded(stage, gradient, hessian), n, damping, None)[1]

    feedforward, gain, decrease = jax.vmap(policy)(stages, *value)
    return Policy(feedforward, gain, *value, jnp.sum(decrease))


def follow(
    problem: LinearQuadratic,
    policy: Policy,
    step_length: Array | float = 1.0,
    box: Box | None = None,
) -> tuple[Array, Array]:
    """Rolls out the linear dynamics under a policy.

    From ``dx_0 = 0``, or ``step_length start``, on, ``du = step_length feedforward + gain dx`` and
    ``dx' = A dx + B du + step_length gap``.

    Args:
      problem: the linear-quadratic problem.
      policy: its policy.
      step_length: factor on the feedforward and on the gaps.
      box: bounds within which changes of controls are clipped; ``None`` for none.

    Returns:
      Deviations of the states [T + 1, n] and changes of the controls [T, m], in the units of
      the problem.

    Examples:
      >>> one = jnp.ones((5, 1, 1))  # x' = x + u, with cost (x^2 + u^2) / 2 at each of five knots
      >>> costs = jnp.zeros((5, 2)), one * jnp.eye(2)[None], jnp.ones(1), jnp.eye(1)
      >>> problem = optimal_control.LinearQuadratic(one, one, jnp.zeros((5, 1)), *costs)
      >>> deviations, changes = optimal_control.follow(problem, optimal_control.riccati(problem))
      >>> print(deviations[-1], changes.sum(axis=0))  # x' = x + u from zero
      [-0.618] [-0.618]
    """

    def body(deviation: Array, knot: Any) -> tuple[Array, tuple[Array, Array]]:
        (state_matrix, control_matrix, gap, feedforward, gain), bounds = knot
        change = step_length * feedforward + matmul(gain, deviation)
        if bounds is not None:
            change = jnp.clip(change, bounds.lower, bounds.upper)
        next_deviation = (
            matmul(state_matrix, deviation) + matmul(control_matrix, change) + step_length * gap
        )
        return next_deviation, (next_deviation, change)

    parts = (
        problem.state_matrix,
        problem.control_matrix,
        problem.gap,
        policy.feedforward,
        policy.gain,
    )
    first = jnp.zeros_like(problem.gap[0]) if policy.start is None else step_length * policy.start
    deviations, changes = jax.lax.scan(body, first, (parts, box))[1]
    return jnp.concatenate([first[None], deviations]), changes


def trajectory_costates(quadratic: LinearQuadratic) -> Array:
    """Derivatives of the cost by the state after each knot, with the controls fixed, [T, ndx]."""
    n = quadratic.state_matrix.shape[-1]

    def body(costate: Array, knot: tuple[Array, Array]) -> tuple[Array, Array]:
        state_matrix, gradient = knot
        return gradient[:n] + matmul(costate, state_matrix), costate

    return jax.lax.scan(
        body, quadratic.final_gradient, (quadratic.state_matrix, quadratic.gradient), reverse=True
    )[1]


# --- a knot -------------------------------------------------------------------------------------


def _expanded(stage: _Stage, gradient: Array, hessian: Array) -> _Expanded:
    """A knot's cost plus the cost to go, with the linear dynamics substituted."""
    flow = jnp.concatenate([stage.state_matrix, stage.control_matrix], axis=1)
    next_gradient = gradient + matmul(hessian, stage.gap)
    return _Expanded(
        stage.gradient + matmul(next_gradient, flow),
        stage.hessian + matmul(flow.T, matmul(hessian, flow)),
    )


def _minimised(expanded: _Expanded, n: int, damping: Array | float, box: Box | None):
    """The value function before a knot, the policy there, and the decrease that it brings."""
    gradient, hessian = expanded
    by_control = hessian[n:, n:] + damping * jnp.eye(len(gradient) - n, dtype=gradient.dtype)
    rights = gradient[n:], hessian[n:, :n]
    feedforward, gain = (
        free_gains(by_control, *rights) if box is None else box_gains(by_control, *rights, box)
    )
    # The cost under this policy; exact with damping and at bounds, too.
    curvature = matmul(hessian[n:, n:], feedforward)
    decrease = -(jnp.sum(feedforward * gradient[n:]) + 0.5 * jnp.sum(feedforward * curvature))
    decrease = jnp.maximum(decrease, _decrease_by_gradient(hessian[n:, n:], gradient[n:], box))
    cross = matmul(gain.T, hessian[n:, :n])
    value_gradient = (
        gradient[:n] + matmul(feedforward, hessian[n:, :n]) + matmul(gradient[n:] + curvature, gain)
    )
    value_hessian = (
        hessian[:n, :n] + cross + cross.T + matmul(gain.T, matmul(hessian[n:, n:], gain))
    )
    return (value_gradient, 0.5 * (value_hessian + value_hessian.T)), (feedforward, gain, decrease)


def _decrease_by_gradient(hessian: Array, gradient: Array, box: Box | None) -> Array:
    """By how much a step along the gradient lowers ``1/2 u hessian u + gradient u`` at least, [].

    It knows no damping, which makes the decrease of a damped step as small as one likes, far from
    an optimum, too. The largest row sum of a symmetric matrix is not below its largest eigenvalue.
    """
    curvature = jnp.max(jnp.sum(jnp.abs(hessian), axis=1)) + LEAST_CURVATURE
    step = -gradient / curvature
    if box is not None:
        step = jnp.clip(step, box.lower, box.upper)
    return -jnp.sum(step * (gradient + 0.5 * curvature * step))


# --- elements of the associative scan -----------------------------------------------------------


class _Element(NamedTuple):
    """The least cost between two moments as a function of the states at both, by its dual.

    ``max_y 1/2 x curvature x - slope x - 1/2 y spread y - y (x' - matrix x - shift)``.
    """

    matrix: Array
    shift: Array
    spread: Array
    slope: Array
    curvature: Array


def _element(stage: _Stage) -> _Element:
    n = stage.state_matrix.shape[-1]
    feedforward, gain = free_gains(stage.hessian[n:, n:], stage.gradient[n:], stage.hessian[n:, :n])
    _, spread = free_gains(stage.hessian[n:, n:], stage.gradient[n:], stage.control_matrix.T)
    return _Element(
        stage.state_matrix + matmul(stage.control_matrix, gain),
        stage.gap + matmul(stage.control_matrix, feedforward),
        -matmul(stage.control_matrix, spread),
        -(stage.gradient[:n] + matmul(stage.hessian[:n, n:], feedforward)),
        stage.hessian[:n, :n] + matmul(stage.hessian[:n, n:], gain),
    )


def _combined(earlier: _Element, later: _Element) -> _Element:
    """The least cost over two spans as one."""
    unit = jnp.eye(len(earlier.shift), dtype=earlier.shift.dtype)
    coupling = unit + matmul(earlier.spread, later.curvature)
    rights = [
        earlier.matrix,
        earlier.spread,
        (earlier.shift + matmul(earlier.spread, later.slope))[:, None],
    ]
    solved = jnp.linalg.solve(coupling, jnp.concatenate(rights, axis=1))
    n = len(unit)
    matrix, spread, shift = solved[:, :n], solved[:, n : 2 * n], solved[:, 2 * n]
    # (1 + J C)^-1 = 1 - J (1 + C J)^-1 C, so that one factorisation serves both.
    rest = later.slope - matmul(later.curvature, earlier.shift)
    slope = rest - matmul(later.curvature, matmul(spread, rest))
    carried = matmul(later.matrix, spread)
    return _Element(
        matmul(later.matrix, matrix),
        matmul(later.matrix, shift) + later.shift,
        matmul(carried, later.matrix.T) + later.spread,
        matmul(earlier.matrix.T, slope) + earlier.slope,
        matmul(earlier.matrix.T, matmul(later.curvature, matrix)) + earlier.curvature,
    )


# --- the control of a knot ----------------------------------------------------------------------

#: Keeps a step along the gradient finite where controls cost nothing.
LEAST_CURVATURE = 1e-9
#: Projected Newton steps, of which a dozen controls need five.
_STEPS = 8
#: Step lengths tried in each.
_LENGTHS = 6
#: Rows of a triangular system that LAPACK solves at once.
_BLOCK = 12


class Box(NamedTuple):
    """Bounds of changes of controls, [m] or with a leading axis over knots."""

    lower: Array
    upper: Array


def free_gains(hessian: Array, gradient: Array, cross: Array) -> tuple[Array, Array]:
    """The control ``feedforward + gain dx`` at which ``1/2 u hessian u + u (gradient + cross dx)``
    is least.

    Args:
      hessian: [m, m], positive definite.
      gradient: [m].
      cross: [m, n].

    Returns:
      feedforward [m] and gain [m, n].
    """
    solution = _solve(hessian, jnp.concatenate([gradient[:, None], cross], axis=1))
    return -solution[:, 0], -solution[:, 1:]


def box_gains(hessian: Array, gradient: Array, cross: Array, box: Box) -> tuple[Array, Array]:
    """:func:`free_gains` within bounds: a control that its bound holds has no gain.

    Args:
      hessian: [m, m], positive definite.
      gradient: [m].
      cross: [m, n].
      box: bounds [m], with zero within.

    Returns:
      feedforward [m] and gain [m, n].
    """
    feedforward, free = box_minimum(hessian, gradient, box)
    free_rows = jnp.where(free[:, None], cross, jnp.zeros_like(cross))
    return feedforward, -_solve(free_block(hessian, free), free_rows)


def box_minimum(hessian: Array, gradient: Array, box: Box) -> tuple[Array, Array]:
    """The minimum of ``1/2 u hessian u + gradient u`` within bounds, by projected Newton steps.

    Bertsekas, *Projected Newton methods for optimization problems with simple constraints*, SIAM
    1982.

    Args:
      hessian: [m, m], positive definite.
      gradient: [m].
      box: bounds [m].

    Returns:
      The minimiser, [m], and which of its entries are free of bounds, [m] of bool.
    """

    def value(point: Array) -> Array:
        return jnp.sum(point * (gradient + 0.5 * matmul(hessian, point)))

    def improved(point: Array, _: None) -> tuple[Array, None]:
        slope, free = _slope_and_free(hessian, gradient, point, box)
        step = -_solve(
            free_block(hessian, free), jnp.where(free, slope, jnp.zeros_like(slope))[:, None]
        )[:, 0]
        lengths = 0.5 ** jnp.arange(_LENGTHS, dtype=point.dtype)
        points = jnp.clip(point + lengths[:, None] * step, box.lower, box.upper)
        values = jax.vmap(value)(points)
        best = jnp.argmin(values)
        return jnp.where(values[best] < value(point), points[best], point), None

    start = jnp.clip(-_solve(hessian, gradient[:, None])[:, 0], box.lower, box.upper)
    point = jax.lax.scan(improved, start, length=_STEPS)[0]
    return point, _slope_and_free(hessian, gradient, point, box)[1]


def _slope_and_free(hessian: Array, gradient: Array, point: Array, box: Box) -> tuple[Array, Array]:
    slope = gradient + matmul(hessian, point)
    held = ((point <= box.lower) & (slope > 0)) | ((point >= box.upper) & (slope < 0))
    return slope, ~held


def free_block(hessian: Array, free: Array) -> Array:
    """The Hessian, with rows and columns of the identity for controls that a bound holds."""
    return jnp.where(
        free[:, None] & free[None], hessian, jnp.eye(len(hessian), dtype=hessian.dtype)
    )


def _solve(matrix: Array, rights: Array) -> Array:
    """Solves a positive definite system [m, m] for right sides [m, k], by Cholesky and block
    substitution.

    LAPACK starts its own threads for larger triangular systems, which costs more than they save and
    ten times as much when processors are busy. Blocks stay below that size.
    """
    factor = jnp.linalg.cholesky(matrix)
    blocks = [slice(k, k + _BLOCK) for k in range(0, len(factor), _BLOCK)]

    def substituted(right: Array, transposed: bool) -> Array:
        known: list[Array] = []
        for block in blocks[::-1] if transposed else blocks:
            part = right[block]
            if known and transposed:
                part = part - matmul(factor[block.stop :, block].T, jnp.concatenate(known[::-1]))
            elif known:
                part = part - matmul(factor[block, : block.start], jnp.concatenate(known))
            known.append(
                jax.scipy.linalg.solve_triangular(
                    factor[block, block], part, lower=True, trans=int(transposed)
                )
            )
        return jnp.concatenate(known[::-1] if transposed else known)

    return substituted(substituted(rights, False), True)
