"""Minimises sums over stages, each of which sees its own unknowns and the first of the next stage.

By IPOPT, or as one quadratic program. Derivatives are exact: of every stage at once, by JAX, as
dense blocks of sparse matrices. Wächter and Biegler, *On the implementation of an interior-point
filter line-search algorithm for large-scale nonlinear programming*, Mathematical Programming 2006.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

Array = jax.Array


class Stages(NamedTuple):
    """``sum_k cost(z_k, head of z_{k+1}) + end cost``, with rows of constraints at each stage and
    the end.

    Attributes:
      stage: cost [] and rows [r] of a stage, of data, its unknowns with the head of the next
        [width + head], and its number; a function at the top level of a module, so that it is
        compiled once.
      end: cost [] and rows of the end, of data and the unknowns there, [head]; or, in a ring, of
        the head of the first stage and of these, [2 head].
      num_stages: number of stages.
      width: number of unknowns of a stage.
      head: number of unknowns at the end, which are as the first ones of a stage.
      is_ring: whether the end sees the first stage.
    """

    stage: Callable[[Any, Array, Array], tuple[Array, Array]]
    end: Callable[[Any, Array], tuple[Array, Array]]
    num_stages: int
    width: int
    head: int
    is_ring: bool = False

    @property
    def seen(self) -> np.ndarray:
        """The unknowns that each stage sees, [num_stages, width + head]."""
        return self.width * np.arange(self.num_stages)[:, None] + np.arange(self.width + self.head)

    @property
    def seen_at_end(self) -> np.ndarray:
        """The unknowns that the end sees, [head] or [2 head]."""
        last = np.arange(self.size - self.head, self.size)
        return np.concatenate([np.arange(self.head), last]) if self.is_ring else last

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return self.width * self.num_stages + self.head


class Program(NamedTuple):
    """A program of stages with its data.

    Attributes:
      stages: the program.
      data: the pytree of arrays that its functions see.
      guess: first unknowns, [size].
      bounds: least and largest unknowns.
      least_rows: zero for each row that must vanish, minus infinity for each that must not be
        positive.
    """

    stages: Stages
    data: Any
    guess: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray]
    least_rows: np.ndarray


class Minimum(NamedTuple):
    """What a solver returns: unknowns, their cost, the multiplier of each row, and its return code,
    0 if solved.
    """

    unknowns: np.ndarray
    cost: float
    multipliers: np.ndarray
    status: int


_compiled = functools.partial(jax.jit, static_argnames=("stages",))


@_compiled
def values(stages: Stages, data: Any, z: Array) -> tuple[Array, Array]:
    """The cost [], and the rows of all stages, then of the end."""
    by_stage = jax.vmap(stages.stage, in_axes=(None, 0, 0))
    costs, rows = by_stage(data, z[stages.seen], jnp.arange(stages.num_stages))
    cost, last = stages.end(data, z[stages.seen_at_end])
    return jnp.sum(costs) + cost, jnp.concatenate([rows.reshape(-1), last])


@_compiled
def slopes(stages: Stages, data: Any, z: Array) -> tuple[Array, Array]:
    """The gradient, and the entries of the Jacobian."""
    by_stage = jax.vmap(jax.jacfwd(stages.stage, argnums=1), in_axes=(None, 0, 0))
    costs, rows = by_stage(data, z[stages.seen], jnp.arange(stages.num_stages))
    cost, last = jax.jacfwd(stages.end, argnums=1)(data, z[stages.seen_at_end])
    gradient = jnp.zeros_like(z).at[stages.seen].add(costs).at[stages.seen_at_end].add(cost)
    return gradient, jnp.concatenate([rows.reshape(-1), last.reshape(-1)])


@_compiled
def _curvatures(stages: Stages, data: Any, z: Array, multipliers: Array, factor: Array) -> Array:
    """The entries of the Hessian of the Lagrangian, lower triangles of its blocks."""

    def of_stage(data: Any, z: Array, multiplier: Array, time: Array) -> Array:
        cost, rows = stages.stage(data, z, time)
        return factor * cost + jnp.sum(multiplier * rows)

    def of_end(data: Any, z: Array, multiplier: Array) -> Array:
        cost, rows = stages.end(data, z)
        return factor * cost + jnp.sum(multiplier * rows)

    last = z[stages.seen_at_end]
    split = len(multipliers) - _num_last(stages, data, z)
    along = multipliers[:split].reshape(stages.num_stages, -1)
    by_stage = jax.vmap(jax.hessian(of_stage, argnums=1), in_axes=(None, 0, 0, 0))
    blocks = by_stage(data, z[stages.seen], along, jnp.arange(stages.num_stages))
    block = jax.hessian(of_end, argnums=1)(data, last, multipliers[split:])
    lower, lower_end = np.tril_indices(blocks.shape[-1]), np.tril_indices(len(last))
    return jnp.concatenate([blocks[:, lower[0], lower[1]].reshape(-1), block[lower_end]])


def _num_last(stages: Stages, data: Any, z: Array | np.ndarray) -> int:
    """The number of rows at the end."""
    return jax.eval_shape(stages.end, data, z[stages.seen_at_end])[1].size


def jacobian_pattern(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the Jacobian's entries, in the order of :func:`slopes`."""
    stages, num_last = program.stages, _num_last(*program[:3])
    seen, head = stages.seen, stages.seen_at_end
    each = (len(program.least_rows) - num_last) // stages.num_stages
    rows = each * np.arange(stages.num_stages)[:, None] + np.arange(each)
    last_rows = each * stages.num_stages + np.arange(num_last)
    return (
        np.concatenate([np.repeat(rows, seen.shape[1]), np.repeat(last_rows, len(head))]),
        np.concatenate([np.repeat(seen, each, axis=0).ravel(), np.tile(head, num_last)]),
    )


def minimise(program: Program, options: Mapping[str, str | int | float]) -> Minimum:
    """Finds a local minimum.

    Args:
      program: the program.
      options: IPOPT's, by name.

    Raises:
      ImportError: ``ipyopt`` is not installed.
    """
    try:
        import ipyopt
    except ImportError as error:
        raise ImportError("IPOPT needs ipyopt: pip install 'artix[ipopt]'") from error
    stages, data, guess, bounds, least_rows = program
    seen, head = stages.seen, stages.seen_at_end
    triangles = zip(np.tril_indices(seen.shape[1]), np.tril_indices(len(head)), strict=True)
    first, second = (np.concatenate([seen[:, k].ravel(), head[e]]) for k, e in triangles)

    def put(out: np.ndarray, value: Array) -> None:
        out[:] = value

    def curvatures(z: np.ndarray, multipliers: np.ndarray, factor: float, out: np.ndarray) -> None:
        put(out, _curvatures(stages, data, z, multipliers, factor))

    ipopt = ipyopt.Problem(
        n=stages.size,
        x_l=bounds[0],
        x_u=bounds[1],
        m=len(least_rows),
        g_l=least_rows,
        g_u=np.zeros(len(least_rows)),
        sparsity_indices_jac_g=jacobian_pattern(program),
        sparsity_indices_h=(first, second),
        eval_f=lambda z: float(values(stages, data, z)[0]),
        eval_grad_f=lambda z, out: put(out, slopes(stages, data, z)[0]),
        eval_g=lambda z, out: put(out, values(stages, data, z)[1]),
        eval_jac_g=lambda z, out: put(out, slopes(stages, data, z)[1]),
        eval_h=curvatures,
        ipopt_options={"print_level": 0, "sb": "yes", **options},
    )
    multipliers = np.zeros(len(least_rows))
    z, cost, status = ipopt.solve(np.array(guess, float), mult_g=multipliers)
    return Minimum(z, cost, multipliers, status)


def minimise_quadratic(
    program: Program, hessian: scipy.sparse.spmatrix, solver: str, options: Mapping[str, Any]
) -> Minimum:
    """Finds the minimum with linear rows and a quadratic cost about the guess.

    Args:
      program: the program.
      hessian: of the cost, positive semidefinite, [size, size].
      solver: its name in qpsolvers.
      options: the solver's, by name.

    Raises:
      ImportError: ``qpsolvers`` or the solver is not installed.
      ValueError: cost, rows or a derivative are not finite at the guess.
    """
    try:
        import qpsolvers
    except ImportError as error:
        raise ImportError("quadratic programs need qpsolvers: pip install 'artix[qp]'") from error
    if solver not in qpsolvers.available_solvers:
        installed = ", ".join(qpsolvers.available_solvers) or "none"
        raise ImportError(
            f"the solver {solver!r} is not installed; installed are: {installed}. artix[qp] has "
            "osqp and proxqp"
        )
    stages, data, guess, bounds, least_rows = program
    z = jnp.asarray(guess)
    cost, rows = (np.asarray(each, float) for each in values(stages, data, z))
    gradient, entries = (np.asarray(each, float) for each in slopes(stages, data, z))
    # With such numbers, ProxQP does not end.
    if not all(np.isfinite(each).all() for each in (rows, gradient, entries, hessian.data)):
        raise ValueError(
            "costs, constraints or their derivatives are not finite about the guess: a residual "
            "is not finite there, or the rollout of the controls diverges; give states, too"
        )
    indices, shape = jacobian_pattern(program), (len(rows), stages.size)
    jacobian = scipy.sparse.csr_matrix((entries, indices), shape=shape)
    is_equal = least_rows == 0
    least, most = bounds[0] - guess, bounds[1] - guess
    # Solvers are more exact about equations than about bounds that meet.
    fixed = np.flatnonzero(least == most)
    unit = scipy.sparse.identity(stages.size, format="csr")[fixed]
    equations = scipy.sparse.vstack([jacobian[is_equal], unit], format="csc")
    rights = np.concatenate([-rows[is_equal], least[fixed]])
    least[fixed], most[fixed] = -np.inf, np.inf
    limits: tuple[Any, Any] = (None, None)
    if not is_equal.all():
        limits = jacobian[~is_equal].tocsc(), -rows[~is_equal]
    linear = qpsolvers.Problem(hessian.tocsc(), gradient, *limits, equations, rights, least, most)
    solution: Any = qpsolvers.solve_problem(linear, solver, **options)
    if not solution.found:
        return Minimum(guess, float(cost), np.zeros(len(rows)), 1)
    multipliers = np.zeros(len(rows))
    multipliers[is_equal] = solution.y[: is_equal.sum()]
    if not is_equal.all():
        multipliers[~is_equal] = solution.z
    step = solution.x
    least_cost = cost + gradient @ step + 0.5 * step @ (hessian @ step)
    # Bounds hold to the tolerance; here they hold exactly.
    return Minimum(np.clip(guess + step, *bounds), float(least_cost), multipliers, 0)
