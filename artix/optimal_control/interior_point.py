"""The problems of this room by IPOPT: states and controls are unknowns, and steps are equations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.checks import check_count
from artix.optimal_control.checks import check_positive, known
from artix.optimal_control.constrained import Multipliers, constraints_along, largest_violation
from artix.optimal_control.problem import Problem, checked, closure_rows, residual, residual_cost, rollout
from artix.optimal_control.sparse_program import Stages, minimise

Array = jax.Array


class InteriorPointSolution(NamedTuple):
    """The result of :func:`solve_by_ipopt`.

    Attributes:
      states: flat states, [T + 1, nx].
      controls: [T, nu].
      cost: cost of the trajectory, :func:`total_cost`, [].
      multipliers: multipliers of the constraints, as those of :func:`solve_constrained`.
      violation: largest violation of a constraint or a step, [].
      feasible: whether the violation is at most ``feasibility_tolerance``, [] of bool.
      converged: whether IPOPT found a local optimum, and it is feasible, [] of bool.
      status: IPOPT's return code: 0 solved, 2 no feasible point nearby, -1 out of iterations.

    Examples:
      >>> optimal_control.InteriorPointSolution._fields[:3]
      ('states', 'controls', 'cost')
    """

    states: Array
    controls: Array
    cost: Array
    multipliers: Multipliers
    violation: Array
    feasible: Array
    converged: Array
    status: int


def solve_by_ipopt(
    problem: Problem,
    controls: Array,
    states: Array | None = None,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-9,
    feasibility_tolerance: float = 1e-8,
    options: Mapping[str, str | int | float] | None = None,
) -> InteriorPointSolution:
    """Finds a trajectory of least cost under the problem's constraints by IPOPT.

    Direct multiple shooting: the unknowns are controls, and deviations of states from the guess in
    their tangent spaces; each step is an equation. The start may be unknown, too, as of a motion that
    repeats (``closure`` and ``free_start`` of the problem). Use it for hard constraints and poor guesses, and
    :func:`solve_constrained`, which takes the same problem, for batches, control loops and
    derivatives of solutions. Wächter and Biegler, *On the implementation of an interior-point filter
    line-search algorithm for large-scale nonlinear programming*, Mathematical Programming 2006.

    Args:
      problem: the problem, in float64, with or without constraints and bounds. Constraints must be
        differentiable twice; steps through contact are differentiated once.
      controls: a first guess of the forces of the actuated joints [N m or N], shape [T, nu].
      states: a first guess of the flat states, shape [T + 1, nx], which need not follow from the
        controls; by default a rollout. No body may turn by half a revolution from it.
      iterations: largest number of iterations.
      tolerance: IPOPT's ``tol``.
      feasibility_tolerance: largest violation of a feasible trajectory, in the units of constraints.
      options: further options of IPOPT, by name.

    Returns:
      The trajectory, multipliers, and whether it is feasible and an optimum.

    Raises:
      ImportError: ``ipyopt`` (extra ``ipopt``) is not installed.
      TypeError: the articulation is not in float64; or an argument is traced, as within ``jax.jit``.
      ValueError: an array does not fit the problem, or a tolerance is not positive.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.05)
      >>> effort = lambda knot: 0.1 * knot.control
      >>> arrive = lambda knot: knot.state.joint_position - 0.3
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, final_equality=arrive)
      >>> if problem.start.dtype == jnp.float64:
      ...     assert optimal_control.solve_by_ipopt(problem, jnp.zeros((10, 2))).converged
    """
    dynamics, dtype = problem.dynamics, problem.dynamics.articulation.dtype
    leaves = jax.tree.leaves((problem, controls, states))
    if any(known(leaf) is None for leaf in leaves):
        raise TypeError("solve_by_ipopt cannot be traced: call it outside jax.jit, vmap and grad")
    if dtype != jnp.float64:
        raise TypeError(
            f"solve_by_ipopt needs float64; the articulation has {dtype}: enable x64 in JAX and use "
            "articulation.astype(float)"
        )
    check_count("iterations", iterations)
    check_positive("tolerance", tolerance, "1")
    check_positive("feasibility_tolerance", feasibility_tolerance, "1")
    problem, controls, states = checked(problem, controls, states)
    nominal = jax.jit(rollout)(problem, controls) if states is None else states
    nominal = nominal.at[0].set(problem.start)
    (count, nu), n = controls.shape, dynamics.num_deviations
    sizes = jax.eval_shape(constraints_along, problem, nominal, controls)
    equal, unequal, last_equal, last_unequal = (0 if each is None else each.shape[-1] for each in sizes)
    joins = jax.eval_shape(_closure, problem, nominal[0], nominal[-1]).size
    stages = Stages(_knot, _end, count, n + nu, n, problem.closure is not None)
    least, most = (np.full((count + 1, n + nu), sign * np.inf) for sign in (-1.0, 1.0))
    is_given = np.ones(n, bool) if problem.free_start is None else ~np.asarray(problem.free_start)
    least[0, :n][is_given] = most[0, :n][is_given] = 0.0  # the start
    if problem.control_lower is not None and problem.control_upper is not None:
        least[:-1, n:], most[:-1, n:] = problem.control_lower, problem.control_upper
    guess = np.zeros((count + 1, n + nu))
    guess[:-1, n:] = controls
    of_knot = np.repeat([0.0, -np.inf], [n + equal, unequal])
    of_end = np.repeat([0.0, -np.inf, 0.0], [last_equal, last_unequal, joins])
    settings: dict[str, Any] = {
        "tol": tolerance,
        "constr_viol_tol": feasibility_tolerance,
        "max_iter": iterations,
        "bound_relax_factor": 0.0,
        "acceptable_iter": 0,
    }
    if dynamics.options is not None:
        settings["hessian_approximation"] = "limited-memory"
    size = stages.size
    minimum = minimise(
        stages,
        (problem, nominal),
        guess.ravel()[:size],
        (least.ravel()[:size], most.ravel()[:size]),
        np.concatenate([np.tile(of_knot, count), of_end]),
        settings | dict(options or {}),
    )
    changes = jnp.append(minimum.unknowns, np.zeros(nu)).reshape(count + 1, n + nu)
    states, controls = jax.vmap(dynamics.integrate)(nominal, changes[:, :n]), changes[:-1, n:]
    along, last = np.split(minimum.multipliers, [count * len(of_knot)])
    along = along.reshape(count, -1)[:, n:]
    parts = along[:, :equal], along[:, equal:], last[:last_equal], last[last_equal : len(last) - joins]
    multipliers = Multipliers(
        *(None if size is None else jnp.asarray(part) for size, part in zip(sizes, parts, strict=True))
    )
    violation = _violation(problem, states, controls)
    feasible = violation <= feasibility_tolerance
    return InteriorPointSolution(
        states, controls, jnp.asarray(minimum.cost), multipliers, violation, feasible,
        feasible & (minimum.status == 0), minimum.status,
    )  # fmt: skip


@jax.jit
def _violation(problem: Problem, states: Array, controls: Array) -> Array:
    """The largest violation of a constraint or a step."""
    dynamics = problem.dynamics
    ends = jax.vmap(dynamics)(states[:-1], controls, jnp.arange(len(controls)))
    gap = jnp.max(jnp.abs(jax.vmap(dynamics.difference)(states[1:], ends)))
    gap = jnp.max(jnp.abs(_closure(problem, states[0], states[-1])), initial=gap)
    if not problem.constraints:
        return gap
    return jnp.maximum(gap, largest_violation(constraints_along(problem, states, controls)))


def _knot(data: tuple[Problem, Array], z: Array, time: Array) -> tuple[Array, Array]:
    """The cost of a knot, and its rows: the step's gap, equalities, inequalities."""
    (problem, nominal), dynamics = data, data[0].dynamics
    n = dynamics.num_deviations
    change, control, next_change = jnp.split(z, [n, len(z) - n])
    x = dynamics.integrate(nominal[time], change)
    end, force = dynamics.step(x, control, time)
    gap = dynamics.difference(dynamics.integrate(nominal[time + 1], next_change), end)
    seen = (x, control, force, problem.reference(time), problem.parameters)
    functions = [each for each in (problem.equality, problem.inequality) if each is not None]
    rows = [residual(dynamics.articulation, each, *seen) for each in functions]
    cost = residual_cost(dynamics.articulation, problem.running, *seen)
    return cost, jnp.concatenate([gap, *rows])


def _closure(problem: Problem, first: Array, last: Array) -> Array:
    """What should vanish of the first and the last state, [c]."""
    if problem.closure is None:
        return first[:0]
    ends = (first, problem.reference(0)), (last, problem.reference(-1))
    return closure_rows(problem.dynamics.articulation, problem.closure, *ends, problem.parameters)


def _end(data: tuple[Problem, Array], changes: Array) -> tuple[Array, Array]:
    """The cost of the last state, and its rows: equalities, inequalities, closure."""
    (problem, nominal), dynamics = data, data[0].dynamics
    start, change = changes[: dynamics.num_deviations], changes[-dynamics.num_deviations :]
    x = dynamics.integrate(nominal[-1], change)
    seen = (x, None, None, problem.reference(-1), problem.parameters)
    functions = (problem.final_equality, problem.final_inequality)
    rows = [residual(dynamics.articulation, each, *seen) for each in functions if each is not None]
    cost = residual_cost(dynamics.articulation, problem.final, *seen)
    if problem.closure is not None:
        rows.append(_closure(problem, dynamics.integrate(nominal[0], start), x))
    return cost, jnp.concatenate([change[:0], *rows])
