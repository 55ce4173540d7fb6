"""The problems of this room as sparse programs: states and controls are unknowns, and steps are
equations.

By IPOPT, or one step of sequential quadratic programming by OSQP, ProxQP and others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from artix.model.checks import check_count, check_positive, known
from artix.optimal_control.approximation import approximate
from artix.optimal_control.constrained import Multipliers, constraints_along, largest_violation
from artix.optimal_control.problem import (
    Problem,
    checked,
    closure,
    residual,
    residual_cost,
    rollout,
)
from artix.optimal_control.sparse_program import (
    Minimum,
    Program,
    Stages,
    minimise,
    minimise_quadratic,
)

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
    their tangent spaces; each step is an equation. The start may be unknown, too, as of a motion
    that repeats (``closure`` and ``free_start`` of the problem). Use it for hard constraints and
    poor guesses, and :func:`solve_constrained`, which takes the same problem, for batches, control
    loops and derivatives of solutions. Wächter and Biegler, *On the implementation of an
    interior-point filter line-search algorithm for large-scale nonlinear programming*, Mathematical
    Programming 2006.

    Args:
      problem: the problem, in float64, with or without constraints and bounds. Constraints must be
        differentiable twice; steps through contact are differentiated once.
      controls: a first guess of the forces of the actuated joints [N m or N], shape [T, nu].
      states: a first guess of the flat states, shape [T + 1, nx], which need not follow from the
        controls; by default a rollout. No body may turn by half a revolution from it.
      iterations: largest number of iterations.
      tolerance: IPOPT's ``tol``.
      feasibility_tolerance: largest violation of a feasible trajectory, in the units of
        constraints.
      options: further options of IPOPT, by name.

    Returns:
      The trajectory, multipliers, and whether it is feasible and an optimum.

    Raises:
      ImportError: ``ipyopt`` (extra ``ipopt``) is not installed.
      TypeError: the articulation is not in float64; or an argument is traced, as within
        ``jax.jit``.
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
    _check_not_traced("solve_by_ipopt", problem, controls, states)
    if dtype != jnp.float64:
        raise TypeError(
            f"solve_by_ipopt needs float64; the articulation has {dtype}: enable x64 in JAX and "
            "use articulation.astype(float)"
        )
    check_count("iterations", iterations)
    check_positive("tolerance", tolerance, "1")
    check_positive("feasibility_tolerance", feasibility_tolerance, "1")
    problem, controls, states = checked(problem, controls, states)
    transcription = transcribed(problem, controls, states)
    settings: dict[str, Any] = {
        "tol": tolerance,
        "constr_viol_tol": feasibility_tolerance,
        "max_iter": iterations,
        "bound_relax_factor": 0.0,
        "acceptable_iter": 0,
    }
    if dynamics.options is not None:
        settings["hessian_approximation"] = "limited-memory"
    minimum = minimise(transcription.program, settings | dict(options or {}))
    states, controls, multipliers = transcription.solution(minimum)
    violation = _violation(problem, states, controls)
    feasible = violation <= feasibility_tolerance
    return InteriorPointSolution(
        states, controls, jnp.asarray(minimum.cost), multipliers, violation, feasible,
        feasible & (minimum.status == 0), minimum.status,
    )  # fmt: skip


class QuadraticStep(NamedTuple):
    """The result of :func:`step_by_quadratic_program`.

    Attributes:
      states: flat states, [T + 1, nx].
      controls: [T, nu].
      cost: cost of the trajectory in the quadratic program, [].
      multipliers: multipliers of the linear constraints, as those of :func:`solve_constrained`.
      is_solved: whether the program has been solved; if not, states and controls are those given.

    Examples:
      >>> optimal_control.QuadraticStep._fields[:3]
      ('states', 'controls', 'cost')
    """

    states: Array
    controls: Array
    cost: Array
    multipliers: Multipliers
    is_solved: bool


def step_by_quadratic_program(
    problem: Problem,
    controls: Array,
    states: Array | None = None,
    *,
    solver: str = "proxqp",
    tolerance: float = 1e-9,
    options: Mapping[str, Any] | None = None,
) -> QuadraticStep:
    """Takes one full step of sequential quadratic programming, by OSQP, ProxQP or another solver.

    The quadratic program has the linear dynamics and constraints about a trajectory, the bounds,
    and the Gauss-Newton Hessian of the cost. Where dynamics and constraints are linear and costs
    quadratic, its minimum is the optimum. Otherwise repeat the step, or take one in each tick, as
    in Diehl, Bock and Schlöder, *A real-time iteration scheme for nonlinear optimization in optimal
    feedback control*, SIAM 2005. Full steps converge near an optimum only;
    :func:`solve_constrained` and :func:`solve_by_ipopt` come from further away.

    Args:
      problem: the problem, as for :func:`solve_by_ipopt`, in either precision; solvers use float64.
      controls: forces of the actuated joints [N m or N], shape [T, nu].
      states: flat states, shape [T + 1, nx], which need not follow from the controls; by default a
        rollout.
      solver: ``"proxqp"``, ``"osqp"``, or another that ``qpsolvers`` has, with its own tolerance.
      tolerance: largest residual of the conditions of a minimum.
      options: further options of the solver, by name.

    Returns:
      The trajectory after the step, which need not be feasible, and the multipliers.

    Raises:
      ImportError: ``qpsolvers`` (extra ``qp``) or the solver is not installed.
      TypeError: an argument is traced, as within ``jax.jit``, or has another dtype than the
        articulation.
      ValueError: an array does not fit the problem, the tolerance is not positive, or costs or
        constraints are not finite about the guess.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.05)
      >>> effort = lambda knot: 0.1 * knot.control
      >>> arrive = lambda knot: knot.state.joint_position - 0.3
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, final_equality=arrive)
      >>> step = optimal_control.step_by_quadratic_program(
      ...     problem, jnp.zeros((10, 2)), solver="osqp"
      ... )
      >>> print(step.controls.shape, step.is_solved)
      (10, 2) True
    """
    _check_not_traced("step_by_quadratic_program", problem, controls, states)
    check_positive("tolerance", tolerance, "1")
    problem, controls, states = checked(problem, controls, states)
    transcription = transcribed(problem, controls, states)
    running, final = _hessians(problem, transcription.program.data[1], controls)
    hessian = scipy.sparse.block_diag([*np.asarray(running, float), np.asarray(final, float)])
    exact = {"eps_abs": tolerance, "eps_rel": 0.0}
    # OSQP takes many short steps to many digits.
    defaults = {"proxqp": exact, "osqp": exact | {"polishing": True, "max_iter": 100_000}}
    settings = defaults.get(solver, {}) | dict(options or {})
    minimum = minimise_quadratic(transcription.program, hessian, solver, settings)
    states, controls, multipliers = transcription.solution(minimum)
    return QuadraticStep(
        states,
        controls,
        jnp.asarray(minimum.cost, controls.dtype),
        multipliers,
        minimum.status == 0,
    )


@jax.jit
def _hessians(problem: Problem, states: Array, controls: Array) -> tuple[Array, Array]:
    """Gauss-Newton Hessians of the knots and of the end."""
    quadratic = approximate(problem.replace(closure=None), states, controls)
    return quadratic.hessian, quadratic.final_hessian


class Transcription(NamedTuple):
    """A problem as a sparse program.

    Attributes:
      program: its unknowns are deviations of the states from a guess, and controls; its data are
        the problem and the guess of the states.
      sizes: shapes of the multipliers.
    """

    program: Program
    sizes: Multipliers

    def solution(self, minimum: Minimum) -> tuple[Array, Array, Multipliers]:
        """States, controls and multipliers."""
        (problem, nominal), stages = self.program.data, self.program.stages
        n, count = stages.head, stages.num_stages
        nu, dtype = stages.width - n, nominal.dtype
        changes = jnp.asarray(np.append(minimum.unknowns, np.zeros(nu)), dtype).reshape(
            count + 1, n + nu
        )
        states = jax.vmap(problem.dynamics.integrate)(nominal, changes[:, :n])
        equal, unequal, *at_end = map(_width, self.sizes)
        along, last = np.split(minimum.multipliers, [count * (n + equal + unequal)])
        along = along.reshape(count, -1)[:, n:]
        parts = along[:, :equal], along[:, equal:], *np.split(last, np.cumsum(at_end[:-1]))
        multipliers = Multipliers(
            *(
                None if size is None else jnp.asarray(part, dtype)
                for size, part in zip(self.sizes, parts, strict=True)
            )
        )
        return states, changes[:-1, n:], multipliers


def _width(size: Any) -> int:
    """The number of constraints at a knot."""
    return 0 if size is None else size.shape[-1]


def transcribed(problem: Problem, controls: Array, states: Array | None) -> Transcription:
    """A checked problem as a sparse program about a guess; ``None`` for a rollout."""
    dynamics = problem.dynamics
    nominal = jax.jit(rollout)(problem, controls) if states is None else states
    nominal = nominal.at[0].set(problem.start)
    (count, nu), n = controls.shape, dynamics.num_deviations
    sizes = jax.eval_shape(constraints_along, problem, nominal, controls)
    equal, unequal, last_equal, last_unequal, joins = map(_width, sizes)
    stages = Stages(_knot, _end, count, n + nu, n, problem.closure is not None)
    least, most = (np.full((count + 1, n + nu), sign * np.inf) for sign in (-1.0, 1.0))
    is_fixed = np.ones(n, bool) if problem.free_start is None else ~np.asarray(problem.free_start)
    least[0, :n][is_fixed] = most[0, :n][is_fixed] = 0.0  # the start
    if problem.control_lower is not None and problem.control_upper is not None:
        least[:-1, n:], most[:-1, n:] = problem.control_lower, problem.control_upper
    guess = np.zeros((count + 1, n + nu), nominal.dtype)
    guess[:-1, n:] = controls
    of_knot = np.repeat([0.0, -np.inf], [n + equal, unequal])
    of_end = np.repeat([0.0, -np.inf, 0.0], [last_equal, last_unequal, joins])
    guess, least, most = (each.ravel()[: stages.size] for each in (guess, least, most))
    rows = np.concatenate([np.tile(of_knot, count), of_end])
    return Transcription(Program(stages, (problem, nominal), guess, (least, most), rows), sizes)


def _check_not_traced(name: str, *arguments: Any) -> None:
    if any(known(leaf) is None for leaf in jax.tree.leaves(arguments)):
        raise TypeError(f"{name} cannot be traced: call it outside jax.jit, vmap and grad")


@jax.jit
def _violation(problem: Problem, states: Array, controls: Array) -> Array:
    """The largest violation of a constraint or a step."""
    dynamics = problem.dynamics
    ends = jax.vmap(dynamics)(states[:-1], controls, jnp.arange(len(controls)))
    gap = jnp.max(jnp.abs(jax.vmap(dynamics.difference)(states[1:], ends)))
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
        rows.append(closure(problem, dynamics.integrate(nominal[0], start), x))
    return cost, jnp.concatenate([change[:0], *rows])
