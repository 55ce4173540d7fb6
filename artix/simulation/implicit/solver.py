"""The solver of a step: Newton's method on all rows at once, until their laws hold.

The step in symbols, for the velocity v [nv] at its end and the impulses lambda of all rows::

    M (v - v0) = p + J^T lambda       momentum: M with springs and dampers, v0 at the start, p of forces
    lambda ~ u = J v                  the law of each row, see :mod:`artix.simulation.implicit.rows`

A law's resolvent R gives lambda for u, with a centre lambda0 and a small response r. One Newton step on
``g(v) = M (v - v0) - p - J^T R(u)`` solves ``(M + J^T R' J) d = -g``, where R' are the slopes of R, and
``lambda = R - R' J d`` satisfies the momentum equation exactly. This pair is the solution once the laws
hold for it, which is measured with each row's own response instead of r. There are two ways to get there:

* **Active sets.** Coulomb's resolvents, whole steps, and each lambda is the next centre (a primal-dual
  active set method). One or two steps suffice if the last impulses tell what sticks, slides and
  separates. It need not converge, so it gets only a few steps.
* **Proximal points.** With De Saxce's correction ``s = mu |u_t|`` held constant, g is the gradient of
  a convex function, and Newton's method with a line search cannot fail. Its minimum is the next centre.
  This proximal point method makes contact rigid and, where the laws leave lambda open, finds the one
  nearest to its start: equal corners carry equal loads, whatever their order. Each minimum is tried as
  a start of active sets, with a new s.

With s held constant, impulses are maximally dissipative. So steps that are cut off add no energy.

Hintermueller, Ito and Kunisch, *The primal-dual active set strategy as a semismooth Newton method*, 2002;
Castro et al., *An unconstrained convex formulation of compliant contact*, 2022 (SAP); Rockafellar,
*Augmented Lagrangians and applications of the proximal point algorithm*, 1976; De Saxce and Feng, *The
bipotential method*, 1998.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import chosen, matmul
from artix.math.gaussian_elimination import lu_factorize
from artix.simulation.implicit.laws import Impulses
from artix.simulation.implicit.rows import Lagged, Rates, StepRows

Array = jax.Array

#: Responses of the resolvents as shares of the rows' own, and residuals [m/s or rad/s] at which a step
#: is solved. Smaller shares mean fewer proximal steps, but more rounding.
_SHARE = {"float64": 1e-6, "float32": 1e-5}
_TOLERANCE = {"float64": 1e-8, "float32": 2e-5}

#: Residuals cannot be smaller than this times the largest velocity of a row, in rounding errors.
_ROUNDING = 4

#: The momentum that may be lost, as a share of the residual. What is lost in free directions adds up.
_BALANCE = 0.01

#: Steps with active sets at the start and from each proximal point.
_FIRST_TRIES, _TRIES = 4, 3

#: The first share of convex resolvents, and the factor by which it becomes smaller at each proximal point.
_FIRST_SHARE, _STIFFER = 1.0, 0.5

_TRY_SHARE, _LEAST_SHARE = 1.0, 1e-6

#: Static friction is not enough where what would stop a DOF exceeds it by this share, beyond rounding.
_SLIPS = 1e-5

#: A proximal point is reached where Newton's method is nearer by this factor than the laws.
_INEXACT = 0.1

_NEARER = 0.5

#: The line search ends where the slope is this part of the first one.
_FLATTER = 0.1
_MAX_SEARCHES = 15

#: Larger systems are solved by LAPACK instead of by operations of the robot's own program.
_MAX_UNROLLED = 40


class StepSystem(NamedTuple):
    """The momentum equation and the rows."""

    matrix: Array
    """M, [nv, nv]."""
    push: Array
    """p, [nv]."""
    velocity: Array
    """v0, [nv]."""
    rows: StepRows
    order: np.ndarray
    """The entries of the velocity from the leaves to the root."""

    def factorized(self, matrix: Array) -> Callable[[Array], Array]:
        """The function that gives the solution d of ``(matrix + M) d = right``, [nv]."""
        matrix = self.matrix + matrix
        if len(matrix) > _MAX_UNROLLED:
            factors = jax.scipy.linalg.lu_factor(matrix)
            return lambda right: jax.scipy.linalg.lu_solve(factors, right)
        order, back = self.order, np.argsort(self.order)
        solve = lu_factorize(matrix[np.ix_(order, order)]).solve
        return lambda right: solve(right[order])[back]

    def lost_momentum(self, change: Array, impulses: Impulses) -> Array:
        """The largest residual of the momentum equation, as a velocity."""
        return self.speed_of(matmul(self.matrix, change) - self.push - self.rows.force(impulses))

    def speed_of(self, momentum: Array) -> Array:
        """The largest velocity that a momentum [nv] gives to the masses on the diagonal."""
        return jnp.max(jnp.abs(momentum) / jnp.diagonal(self.matrix))


class Point(NamedTuple):
    """A change of the velocity with impulses."""

    change: Array
    """v - v0, [nv]."""
    impulses: Impulses
    lagged: Lagged
    residual: Array
    """How far each law is from being satisfied, as a velocity, [R]."""

    @property
    def error(self) -> Array:
        """The largest residual."""
        return jnp.max(jnp.abs(self.residual), initial=0)


class _Loop(NamedTuple):
    """The state of the iterations."""

    now: Point
    """The current iterate; its impulses are the centre."""
    proximal: Point
    """The last proximal point, or the start."""
    tries: Array
    """Steps with active sets that remain before proximal points are next."""
    steps: Array
    """Newton steps so far."""
    is_solved: Array
    has_minimum: Array
    """Whether ``proximal`` is a proximal point."""
    share: Array
    """Responses of convex resolvents as shares of the rows' own."""


def solve_system(
    system: StepSystem, start: Impulses, tolerance: float | None, max_steps: int
) -> tuple[Point, Array]:
    """Solves a step.

    Args:
      system: the equations.
      start: impulses from which to start.
      tolerance: the residual [m/s or rad/s] at which to stop; ``None`` for that of the dtype.
      max_steps: the largest number of Newton steps.

    Returns:
      The solution, and the number of Newton steps. If the largest number was not enough, the best that is known to add
      no energy.
    """
    rows, dtype = system.rows, system.matrix.dtype
    least_share = _SHARE.get(dtype.name, 1e-5)
    at_start = rows.rates(system.velocity)
    speed = jnp.max(jnp.abs(jnp.concatenate([x.reshape(-1) for x in at_start])), initial=0)
    least = _TOLERANCE.get(dtype.name, 2e-5) if tolerance is None else tolerance
    rounding = _ROUNDING * jnp.finfo(dtype).eps
    enough = jnp.asarray(least, dtype) + rounding * speed

    def body(loop: _Loop) -> _Loop:
        now, is_convex = loop.now, loop.tries <= 0
        share = loop.share
        rates = _sum(at_start, rows.rates(now.change))
        convex = rows.resolvent(now.impulses, rates, now.lagged, share)
        linear = rows.active_sets(now.impulses, rates, now.lagged, least_share)
        impulses, slopes = chosen(is_convex, convex, linear)
        gradient = matmul(system.matrix, now.change) - system.push - rows.force(impulses)
        solve = system.factorized(rows.stiffness(slopes))
        step = -solve(gradient)
        # Rows are far stiffer than masses: what moves without straining them is right after a refinement.
        pulled = rows.force(slopes.changes(rows.rates(step)))
        step = step - solve(gradient + matmul(system.matrix, step) - pulled)
        moved = rows.rates(step)

        def ahead(length: Array) -> tuple[Impulses, Array]:
            """The resolvents after part of the step, and the slope of the convex function along the step."""
            there = _sum(rates, jax.tree.map(lambda x: length * x, moved))
            pushed, _ = rows.resolvent(now.impulses, there, now.lagged, share)
            return pushed, jnp.sum(step * (flat + length * curved)) - _work(pushed, moved)

        flat = matmul(system.matrix, now.change) - system.push
        curved = matmul(system.matrix, step)
        first = jnp.sum(step * gradient)
        beyond, last = ahead(jnp.ones_like(first))
        size = jnp.max(jnp.abs(jnp.concatenate([x.reshape(-1) for x in (step, *moved)])))
        is_whole = ~is_convex | (last <= -_FLATTER * first) | (size <= 0.1 * enough)
        length = _line_search(lambda x: ahead(x)[1], first, last, is_whole)
        lengthened = jax.tree.map(lambda x: length * x, moved)
        linear = jax.tree.map(jnp.add, impulses, slopes.changes(lengthened))
        change = now.change + length * step
        there = _sum(rates, lengthened)
        residual = rows.residual(linear, there, now.lagged)
        error = jnp.max(jnp.abs(residual), initial=0)
        lost = system.lost_momentum(change, linear)
        noise = rounding * jnp.maximum(
            jnp.max(jnp.abs(change)), jnp.max(jnp.abs(rows.velocities(linear)), initial=0)
        )
        balances = is_whole & (lost <= _BALANCE * enough + 4 * noise)
        holds = balances & (error <= enough + noise)
        # A minimum of the convex function need not be more exact than what it changes.
        mismatch = share * _largest(rows, beyond, linear)
        shift = share * _largest(rows, beyond, now.impulses)
        turn = jnp.max(jnp.abs(rows.correction(there) - now.lagged.slip), initial=0)
        allowed = jnp.maximum(0.1 * enough, _INEXACT * jnp.maximum(shift, turn))
        is_minimum = is_convex & is_whole & (mismatch <= allowed)
        budget = _kinetic_budget(rows, now.lagged.friction, linear, there)
        budget = jnp.where(holds | is_minimum, budget, now.lagged.friction)
        is_solved = holds & jnp.all(budget == now.lagged.friction)
        # Centres of convex laws are within their sets.
        center = chosen(is_convex & ~is_solved, beyond, linear)
        whole = Point(change, center, Lagged(rows.correction(there), budget), residual)
        # Active sets go on while they get nearer.
        is_nearer = ~is_convex & (error <= _NEARER * now.error)
        granted = _TRIES * (loop.share <= _TRY_SHARE).astype(jnp.int32)
        tries = jnp.where(is_minimum, granted, loop.tries - (~is_nearer).astype(jnp.int32))
        proximal = chosen(is_minimum, whole, loop.proximal)
        fails = ~is_convex & (tries <= 0)
        partly = Point(change, now.impulses, now.lagged, residual)  # The centre stays until the minimum is reached.
        now = chosen(is_convex & ~is_minimum, partly, whole)
        now = chosen(fails & ~is_solved, proximal, now)
        return _Loop(now, proximal, tries, loop.steps + 1, is_solved, loop.has_minimum | is_minimum, jnp.where(is_minimum, jnp.maximum(_STIFFER * loop.share, jnp.maximum(least_share, _LEAST_SHARE)), loop.share))

    def goes_on(loop: _Loop) -> Array:
        return ~loop.is_solved & (loop.steps < max_steps)

    slips = Lagged(rows.correction(at_start), _static_budget(rows))
    # Drives are soft: what they do at the first velocity is near to what they will do.
    first, _ = rows.active_sets(start, at_start, slips, least_share)
    start = start._replace(dofs=start.dofs._replace(drive=first.dofs.drive))
    none = Point(jnp.zeros_like(system.push), start, slips, jnp.full_like(rows.velocities(start), jnp.inf))
    begin = _Loop(
        now=none,
        proximal=none,
        tries=jnp.full((), _FIRST_TRIES, jnp.int32),
        steps=jnp.zeros((), jnp.int32),
        is_solved=jnp.zeros((), bool),
        has_minimum=jnp.zeros((), bool),
        share=jnp.full((), _FIRST_SHARE, dtype),
    )
    end = jax.lax.while_loop(goes_on, body, begin)
    best = chosen(end.is_solved | ~end.has_minimum, end.now, end.proximal)
    return best._replace(impulses=rows.admissible(best.impulses, best.lagged)), end.steps


def _largest(rows: StepRows, impulses: Impulses, others: Impulses) -> Array:
    """The largest difference of impulses, as a velocity of its row."""
    difference = rows.velocities(jax.tree.map(jnp.subtract, impulses, others))
    return jnp.max(jnp.abs(difference), initial=0)


def _static_budget(rows: StepRows) -> Array:
    friction, dt = rows.dofs.friction, rows.sweep.dt
    return jnp.maximum(friction.static, friction.dynamic) * dt


def _kinetic_budget(rows: StepRows, budget: Array, impulses: Impulses, rates: Rates) -> Array:
    """The largest impulses of friction, which are dynamic where the static ones were not enough."""
    stopping = impulses.dofs.friction - rates.dofs / rows.dofs.response
    slips = jnp.abs(stopping) > budget * (1 + _SLIPS)
    return jnp.where(slips, rows.dofs.friction.dynamic * rows.sweep.dt, budget)


def _line_search(slope, first: Array, last: Array, is_whole: Array) -> Array:
    """The length of a step, at most 1, where the slope along it vanishes: a safeguarded regula falsi.

    Args:
      slope: the derivative of a convex function along the step, increasing.
      first: the slope at 0, negative.
      last: the slope at 1.
      is_whole: whether to take the whole step.
    """

    def goes_on(search) -> Array:
        _, slopes, _, count = search
        return (jnp.abs(slopes[2]) > -_FLATTER * first) & (count < _MAX_SEARCHES) & ~is_whole

    def body(search):
        (low, high, _), (down, up, _), side, count = search
        middle = low - down * (high - low) / (up - down)
        there = slope(middle)
        is_high = there > 0
        # The Illinois variant halves the slope at an end that stays twice.
        down = jnp.where(is_high & (side > 0), 0.5 * down, down)
        up = jnp.where(~is_high & (side < 0), 0.5 * up, up)
        low, down = jnp.where(is_high, low, middle), jnp.where(is_high, down, there)
        high, up = jnp.where(is_high, middle, high), jnp.where(is_high, there, up)
        side = jnp.where(is_high, one, -one)
        return (low, high, middle), (down, up, there), side, count + 1

    one = jnp.ones_like(first)
    start = (0 * one, one, one), (first, last, last), 0 * one, jnp.zeros((), jnp.int32)
    (_, _, length), _, _, _ = jax.lax.while_loop(goes_on, body, start)
    return jnp.where(is_whole, 1, length)


def _sum(rates: Rates, others: Rates) -> Rates:
    return jax.tree.map(jnp.add, rates, others)


def _work(impulses: Impulses, rates: Rates) -> Array:
    """The sum of the products of impulses and velocities of all rows."""
    work = jnp.sum(impulses.dofs.total * rates.dofs) + jnp.sum(impulses.distances * rates.bounds)
    return work + jnp.sum(impulses.contacts * rates.contacts)
