"""The solver of a step: Newton's method on all rows at once, until their laws hold.

The step in symbols, for the velocity v [nv] at its end and the impulses lambda of all rows::

    M (v - v0) = p + J^T lambda       momentum: M with springs and dampers, v0 at the start, p of forces
    lambda ~ u = J v                  the law of each row, see :mod:`artix.simulation.implicit.resolvents`

Laws are replaced by functions ``lambda = R(u)`` with slopes R' = -dR/du. A Newton step solves
``(M + J^T R' J) d = p + J^T R - M (v - v0)``, and ``lambda = R - R' J d`` satisfies the momentum equation.
The step is solved once this pair satisfies the laws as well, which each row's own response measures.
There are two kinds of functions:

* **Active sets.** What sticks, slides, pushes and is open remains so, and each lambda is the next centre
  (a semismooth Newton method on Coulomb's law). One step suffices if the last impulses tell which is
  which, and two or three if little changes. The method need not converge, so it gets a few tries.
* **Proximal points.** With De Saxce's correction ``s = mu |u_t|`` held constant, the equation is the
  gradient of a convex function, whose minimum Newton's method with a line search finds. The impulses at
  the minimum are the next centre and its velocities give the next s. Where laws leave impulses open, this
  finds those nearest to the start: equal corners carry equal loads, whatever their order. The responses
  become smaller from point to point, and active sets are tried from each.

With a constant s, impulses are maximally dissipative, so steps that are cut off hardly add energy.

Hintermueller, Ito and Kunisch, *The primal-dual active set strategy as a semismooth Newton method*, 2002;
Alart and Curnier, *A mixed formulation for frictional contact problems*, 1991; De Saxce and Feng, *The
bipotential method*, 1998; Castro et al., *An unconstrained convex formulation of compliant contact*, 2022;
Rockafellar, *Augmented Lagrangians and applications of the proximal point algorithm*, 1976.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import chosen, matmul
from artix.math.gaussian_elimination import lu_factorize
from artix.simulation.implicit.laws import Impulses
from artix.simulation.implicit.rows import Lagged, Rates, StepRows

Array = jax.Array

#: Residual [m/s or rad/s] at which a step is solved.
_TOLERANCE = {"float64": 1e-8, "float32": 2e-5}

#: Response of rows that hold, as a share of their own. Smaller ones need fewer steps, but round more.
_HELD_SHARE = {"float64": 1e-6, "float32": 1e-5}

#: Residuals cannot be smaller than this times the largest velocity of a row, in rounding errors.
_ROUNDING = 4

#: The momentum that may be lost, as a share of the residual: what is lost in free directions adds up.
_BALANCE = 0.01

#: Steps with active sets that get no nearer, at the start and from each proximal point.
_FIRST_TRIES, _TRIES = 4, 3

#: A step gets nearer if it leaves less than this share of the residual.
_NEARER = 0.5

#: Responses at the first proximal point and at late ones as shares of the rows' own, and their ratio.
_FIRST_SHARE, _LAST_SHARE, _STIFFER = 0.1, 1e-3, 0.1

#: A minimum need not be more exact than this share of what it changes.
_INEXACT = 0.1

#: Static friction is not enough where what would stop a DOF exceeds it by this share, beyond rounding.
_SLIPS = 1e-5

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

    def factorized(self, stiffness: Array) -> Callable[[Array], Array]:
        """The function that gives the solution d of ``(M + stiffness) d = right``, [nv]."""
        matrix = self.matrix + stiffness
        if len(matrix) > _MAX_UNROLLED:
            factors = jax.scipy.linalg.lu_factor(matrix)
            return lambda right: jax.scipy.linalg.lu_solve(factors, right)
        order, back = self.order, np.argsort(self.order)
        solve = lu_factorize(matrix[np.ix_(order, order)]).solve
        return lambda right: solve(right[order])[back]

    def imbalance(self, change: Array, impulses: Impulses) -> Array:
        """``M (v - v0) - p - J^T lambda``, [nv]."""
        return matmul(self.matrix, change) - self.push - self.rows.force(impulses)


class Point(NamedTuple):
    """A change of the velocity with impulses."""

    change: Array
    """v - v0, [nv]."""
    impulses: Impulses
    lagged: Lagged
    residual: Array
    """How far each law is from being satisfied, as a velocity, [R]."""


class _Loop(NamedTuple):
    """The state of the iterations."""

    now: Point
    """The current iterate; its impulses are the centre."""
    proximal: Point
    """The last proximal point, or the start."""
    has_proximal: Array
    """Whether there is a proximal point."""
    share: Array
    """Responses of proximal points as shares of the rows' own."""
    tries: Array
    """Steps with active sets before the next proximal point is sought."""
    steps: Array
    """Newton steps so far."""
    is_solved: Array


class _Step(NamedTuple):
    """A Newton step."""

    length: Array
    """1 for the whole step."""
    change: Array
    """v - v0 after it, [nv]."""
    rates: Rates
    """Velocities of the rows after it."""
    impulses: Impulses
    """The impulses that the linear functions give after it."""
    resolvents: Impulses
    """Those of the convex laws."""


def solve_system(system: StepSystem, start: Impulses, tolerance: float | None, max_steps: int) -> tuple[Point, Array]:
    """Solves a step.

    Args:
      system: the equations.
      start: impulses from which to start.
      tolerance: the residual [m/s or rad/s] at which to stop; ``None`` for that of the dtype.
      max_steps: the largest number of Newton steps.

    Returns:
      The solution, and the number of Newton steps. If those were not enough, the last proximal point.
    """
    rows, dtype = system.rows, system.matrix.dtype
    held_share = _HELD_SHARE.get(dtype.name, 1e-5)
    at_start = rows.rates(system.velocity)
    rounding = _ROUNDING * jnp.finfo(dtype).eps
    least = _TOLERANCE.get(dtype.name, 2e-5) if tolerance is None else tolerance
    enough = jnp.asarray(least, dtype) + rounding * _largest(at_start)
    weights = jnp.diagonal(system.matrix)

    def body(loop: _Loop) -> _Loop:
        now, seeks_point = loop.now, loop.tries <= 0
        step = _newton_step(system, loop, at_start, held_share, 0.1 * enough)
        residual = rows.residual(step.impulses, step.rates, now.lagged)
        error = _largest(residual)
        noise = rounding * jnp.maximum(_largest(step.change), _largest(rows.velocities(step.impulses)))
        lost = _largest(system.imbalance(step.change, step.impulses) / weights)
        holds = (step.length == 1) & (error <= enough + noise)
        holds = holds & (lost <= _BALANCE * enough + 4 * noise)

        # A minimum of the convex function need not be more exact than what it changes.
        slip = rows.correction(step.rates)
        mismatch = loop.share * _distance(rows, step.resolvents, step.impulses)
        changes = loop.share * _distance(rows, step.resolvents, now.impulses)
        changes = jnp.maximum(changes, _largest(slip - now.lagged.slip))
        is_minimum = mismatch <= jnp.maximum(0.1 * enough, _INEXACT * changes)
        is_minimum = is_minimum & seeks_point & (step.length == 1)

        budget = _kinetic_budget(rows, now.lagged.friction, step)
        budget = jnp.where(holds | is_minimum, budget, now.lagged.friction)
        is_solved = holds & jnp.all(budget == now.lagged.friction)
        # Centres of convex laws are within their sets; until the minimum is reached, they stay.
        keeps = seeks_point & ~is_solved
        center = chosen(keeps, chosen(is_minimum, step.resolvents, now.impulses), step.impulses)
        lagged = chosen(keeps & ~is_minimum, now.lagged, Lagged(slip, budget))
        end = Point(step.change, center, lagged, residual)

        proximal = chosen(is_minimum, end, loop.proximal)
        fails = ~seeks_point & (error > _NEARER * _largest(now.residual))
        tries = jnp.where(is_minimum, _TRIES, loop.tries - (fails | seeks_point).astype(jnp.int32))
        gives_up = ~seeks_point & (tries <= 0) & ~is_solved
        stiffer = jnp.maximum(_STIFFER * loop.share, _LAST_SHARE)
        return _Loop(
            now=chosen(gives_up, proximal, end),
            proximal=proximal,
            has_proximal=loop.has_proximal | is_minimum,
            share=jnp.where(is_minimum, stiffer, loop.share),
            tries=tries,
            steps=loop.steps + 1,
            is_solved=is_solved,
        )

    def goes_on(loop: _Loop) -> Array:
        return ~loop.is_solved & (loop.steps < max_steps)

    lagged = Lagged(rows.correction(at_start), _static_budget(rows))
    # Drives are soft: what they do at the first velocity is near to what they will do.
    first, _ = rows.active_sets(start, at_start, lagged, held_share)
    start = start._replace(dofs=start.dofs._replace(drive=first.dofs.drive))
    unknown = jnp.full_like(rows.velocities(start), jnp.inf)
    point = Point(jnp.zeros_like(system.push), start, lagged, unknown)
    begin = _Loop(
        now=point,
        proximal=point,
        has_proximal=jnp.zeros((), bool),
        share=jnp.full((), _FIRST_SHARE, dtype),
        tries=jnp.full((), _FIRST_TRIES, jnp.int32),
        steps=jnp.zeros((), jnp.int32),
        is_solved=jnp.zeros((), bool),
    )
    end = jax.lax.while_loop(goes_on, body, begin)
    best = chosen(end.is_solved | ~end.has_proximal, end.now, end.proximal)
    return best._replace(impulses=rows.admissible(best.impulses, best.lagged)), end.steps


def _newton_step(system: StepSystem, loop: _Loop, at_start: Rates, held_share: float, small: Array) -> _Step:
    """A Newton step. Steps to proximal points are searched along unless they are ``small`` velocities."""
    rows, now, seeks_point = system.rows, loop.now, loop.tries <= 0
    rates = _sum(at_start, rows.rates(now.change))
    convex = rows.resolvent(now.impulses, rates, now.lagged, loop.share)
    linear = rows.active_sets(now.impulses, rates, now.lagged, held_share)
    impulses, slopes = chosen(seeks_point, convex, linear)
    gradient = system.imbalance(now.change, impulses)
    solve = system.factorized(rows.stiffness(slopes))
    step = -solve(gradient)
    # Rows that hold are far stiffer than masses. A refinement corrects what moves without straining them.
    strained = rows.force(slopes.changes(rows.rates(step)))
    step = step - solve(gradient + matmul(system.matrix, step) - strained)
    moved = rows.rates(step)
    steady = matmul(system.matrix, now.change) - system.push
    curvature = matmul(system.matrix, step)

    def ahead(length: Array) -> tuple[Impulses, Array]:
        """The resolvents after part of the step, and the derivative of the convex function along it."""
        pushed, _ = rows.resolvent(now.impulses, _sum(rates, _times(length, moved)), now.lagged, loop.share)
        return pushed, jnp.sum(step * (steady + length * curvature)) - _work(pushed, moved)

    first = jnp.sum(step * gradient)
    resolvents, last = ahead(jnp.ones_like(first))
    is_small = _largest((step, moved)) <= small
    is_whole = ~seeks_point | (last <= -_FLATTER * first) | is_small
    length = _line_search(lambda length: ahead(length)[1], first, last, is_whole)
    moved = _times(length, moved)
    return _Step(
        length=length,
        change=now.change + length * step,
        rates=_sum(rates, moved),
        impulses=_sum(impulses, slopes.changes(moved)),
        resolvents=resolvents,
    )


def _line_search(slope: Callable[[Array], Array], first: Array, last: Array, is_whole: Array) -> Array:
    """The length of a step, at most 1, where the slope along it vanishes: a safeguarded regula falsi.

    Args:
      slope: the derivative of a convex function along the step, increasing.
      first: the slope at 0, negative.
      last: the slope at 1.
      is_whole: whether to take the whole step.
    """

    def goes_on(search) -> Array:
        _, slopes, _, count = search
        return ~is_whole & (jnp.abs(slopes[2]) > -_FLATTER * first) & (count < _MAX_SEARCHES)

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


def _static_budget(rows: StepRows) -> Array:
    friction = rows.dofs.friction
    return jnp.maximum(friction.static, friction.dynamic) * rows.sweep.dt


def _kinetic_budget(rows: StepRows, budget: Array, step: _Step) -> Array:
    """The largest impulses of friction, which are dynamic where the static ones were not enough."""
    stopping = step.impulses.dofs.friction - step.rates.dofs / rows.dofs.response
    slips = jnp.abs(stopping) > budget * (1 + _SLIPS)
    return jnp.where(slips, rows.dofs.friction.dynamic * rows.sweep.dt, budget)


def _distance(rows: StepRows, impulses: Impulses, others: Impulses) -> Array:
    """The largest difference of impulses, as a velocity of its row."""
    return _largest(rows.velocities(jax.tree.map(jnp.subtract, impulses, others)))


def _largest(arrays: Any) -> Any:
    """The largest magnitude in a pytree; zero if it is empty."""
    parts = [jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(arrays) if leaf.size]
    return functools.reduce(jnp.maximum, parts) if parts else 0.0


def _sum(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def _times(length: Array, rates: Rates) -> Rates:
    return jax.tree.map(lambda rate: length * rate, rates)


def _work(impulses: Impulses, rates: Rates) -> Array:
    """The sum of the products of impulses and velocities of all rows."""
    work = jnp.sum(impulses.dofs.total * rates.dofs) + jnp.sum(impulses.distances * rates.bounds)
    return work + jnp.sum(impulses.contacts * rates.contacts)
