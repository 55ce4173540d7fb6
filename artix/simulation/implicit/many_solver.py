"""The solver of a step of many bodies: Newton's method about centres.

In a heap, faces touch at more points than they need, and some contacts nearly oppose each other, so
the laws leave many impulses open. Active sets that keep each row near its last impulse
(:mod:`artix.simulation.implicit.solver`) then alternate: which rows push depends on how the last
step shared the load. Here contacts stay near a centre ``lambda0`` until a solution is reached::

    M (v - v0) = p + J^T lambda
    lambda ~ u + r (lambda - lambda0)     Coulomb's law of each contact, see resolvents; u = J v

With a response r, a share of the row's own, each contact has a spring of its own, so Newton's
method finds a solution in a few steps, most of them whole. The impulses there are the next centre,
and the share becomes smaller: these are proximal points of Coulomb's law itself, without De Saxce's
corrections. Where some steps reach no solution, the share was too small, and the method starts
again from the centre with a larger one. The step is solved once the laws hold without r.

Rockafellar, *Monotone operators and the proximal point algorithm*, 1976; Alart and Curnier, *A
mixed formulation for frictional contact problems*, 1991; Kelley and Keyes, *Convergence analysis of
pseudo-transient continuation*, 1998, for springs that become stiffer as steps succeed; Grippo,
Lampariello and Lucidi, *A nonmonotone line search technique for Newton's method*, 1986.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import chosen
from artix.math.traces import if_needed, while_loop
from artix.simulation.implicit.rows import Impulses, Rates, StepRows
from artix.simulation.implicit.solver import (
    Exactness,
    Point,
    StepSystem,
    cut_off,
    exactness_of,
    kinetic_budget,
    largest,
    static_budget,
    sum_of,
    with_closed_contacts,
    without_impulses,
)

Array = jax.Array

#: The response about the first centre as a share of the rows' own, the factor after a solution, and
#: that after none. Of 37 steps of a heap of twenty boxes, Newton's method solved all with a share
#: of 1e-2, 36 with 1e-3, 35 with 1e-4 and 28 with 1e-5, in 8 to 12 steps; but each solution with
#: 1e-2 leaves more to the next centres: 18.6 Newton steps a step in float32 instead of 16.
_FIRST_SHARE, _STIFFER, _SOFTER = 1e-3, 0.1, 3.0

#: The smallest share. In float64 contacts that nearly oppose each other need one below 1e-6; in
#: float32 springs as stiff would round away the masses.
_LEAST = {"float64": 1e-8, "float32": 1e-4}

#: Contacts that oppose each other change their impulses by the same residual over r at each centre,
#: until one of them opens. A centre should be no farther than ten times the largest impulse.
_FAR = 0.1

#: Newton steps in which a solution is reached, or else the method starts again.
_MAX_STEPS = 12

#: A step is halved, a few times, until it leaves less than this share of the largest sum of squares
#: after the last steps. A smaller one after each step would shorten steps that settle sets.
_SMALLER, _MAX_HALVINGS, _MEMORY = 0.9, 5, 4

#: A solution about a centre need not be more exact than this share of what it leaves without r.
_INEXACT = 0.5


class _Loop(NamedTuple):
    """The state between Newton steps."""

    current: Point
    center: Point
    best: Point
    """The point with the smallest error so far."""
    share: Array
    """The response r as a share of the rows' own."""
    squares: Array
    """The sums of the squares of all residuals after the last steps about this centre."""
    tries: Array
    """The Newton steps about this centre."""
    friction: Array
    """The largest friction impulse of each DOF, [n]."""
    is_loose: Array
    """Whether the point is exact enough, but for one step more."""
    steps: Array
    """All Newton steps."""
    is_solved: Array


def solve_many(
    system: StepSystem, start: Impulses, tolerance: float | None, max_steps: int
) -> tuple[Point, Array, Array, Array]:
    """Solves a step; see :func:`artix.simulation.implicit.solver.solve_system`."""
    rows, dtype = system.rows, system.matrix.dtype
    at_start = rows.rates(system.velocity)
    exactness = exactness_of(dtype, at_start, tolerance)
    budget = static_budget(rows)
    free, is_solved = without_impulses(system, budget, exactness)
    start = with_closed_contacts(rows.contacts, start, exactness.enough)
    center = Point(jnp.zeros_like(system.push), at_start, start, jnp.full((), jnp.inf, dtype))
    begin = _Loop(
        current=chosen(is_solved, free, center),
        center=center,
        best=center,
        share=jnp.full((), _FIRST_SHARE, dtype),
        squares=jnp.full(_MEMORY, jnp.inf, dtype),
        tries=jnp.zeros((), jnp.int32),
        friction=budget,
        is_loose=jnp.zeros((), bool),
        steps=jnp.zeros((), jnp.int32),
        is_solved=is_solved,
    )

    def goes_on(loop: _Loop) -> Array:
        return ~loop.is_solved & (loop.steps < max_steps)

    end = while_loop(goes_on, lambda loop: _after_step(system, loop, exactness), begin)
    point, friction = chosen(end.is_solved, end.current, end.best), end.friction
    cut = if_needed(~end.is_solved, lambda best: cut_off(system, friction, best), point, point)
    return cut, friction, end.steps, end.is_solved


def _after_step(system: StepSystem, loop: _Loop, exactness: Exactness) -> _Loop:
    """The state after a Newton step."""
    start, center, share = loop.current, loop.center, loop.share
    trial, step = _stepped(system, loop)
    end, tries = trial.end, loop.tries + 1
    imbalance = system.imbalance(end.change, end.impulses)
    holds, is_loose = (
        end.error <= exactness.accepted(system, end, imbalance, enough, step)
        for enough in (exactness.enough, exactness.loose)
    )
    # Where the laws nearly hold, one step more gains many digits, or none.
    is_last = holds | loop.is_loose
    is_better = holds | is_loose & (end.error < start.error)
    end = chosen(loop.is_loose & ~is_better, start, end)
    apart = jax.tree.map(jnp.subtract, end.impulses, center.impulses)
    leaves = share * largest(system.rows.velocities(apart))
    is_exact = trial.error <= jnp.maximum(_INEXACT * leaves, exactness.enough)
    is_center = is_last | is_exact & (trial.length == 1)
    fails = ~is_center & (tries >= _MAX_STEPS)
    slower = kinetic_budget(system.rows, loop.friction, end)
    friction = jnp.where(is_center, slower, loop.friction)
    squares = jnp.concatenate([loop.squares[1:], trial.squares[None]])
    squares = jnp.where(tries == 1, trial.squares, squares)
    stiffer = jnp.where(fails, jnp.minimum(_SOFTER * share, 1), share)
    return _Loop(
        current=chosen(fails, center, end),
        center=chosen(is_center, end, center),
        best=chosen(end.error < loop.best.error, end, loop.best),
        share=jnp.where(is_center, _next_share(system.rows, end, share), stiffer),
        squares=jnp.where(is_center | fails, jnp.inf, squares),
        tries=jnp.where(is_center | fails, 0, tries),
        friction=friction,
        is_loose=is_loose & ~is_last,
        steps=loop.steps + 1,
        is_solved=is_last & jnp.all(friction == loop.friction),
    )


def _next_share(rows: StepRows, point: Point, share: Array) -> Array:
    """The share about the next centre, after a solution."""
    least = _LEAST.get(share.dtype.name, _LEAST["float32"])
    scale = _FAR * largest(rows.velocities(point.impulses))
    far = point.error / jnp.where(scale > 0, scale, jnp.inf)
    return jnp.clip(far, jnp.maximum(_STIFFER * share, least), share)


class _Trial(NamedTuple):
    """A Newton step of some length."""

    length: Array
    end: Point
    error: Array
    """The largest residual about the centre, as a velocity, []."""
    squares: Array
    """The sum of the squares of all residuals about it, []."""


def _stepped(system: StepSystem, loop: _Loop) -> tuple[_Trial, Array]:
    """A Newton step that leaves residuals clearly smaller than the largest after the last steps, or
    the best of those that were tried, and its change of the velocity.
    """
    rows, start = system.rows, loop.current
    law = rows.linear(start.impulses, _about(rows, loop, start), loop.friction, loop.share)
    imbalance = system.imbalance(start.change, start.impulses)
    # The force of their sum would round away small changes of large impulses.
    change, moved = system.newton_step(imbalance - rows.force(law.change), law.slopes)
    whole = change, moved, sum_of(law.change, law.slopes.changes(moved))

    def at(length: Array) -> _Trial:
        step = jax.tree.map(lambda part: length * part, whole)
        change, rates, impulses = sum_of((start.change, start.rates, start.impulses), step)
        end = Point(change, rates, impulses, start.error)
        wrong = rows.linear(end.impulses, _about(rows, loop, end), loop.friction, 1).residual
        return _Trial(length, end, largest(wrong), jnp.sum(wrong**2))

    trial = _shortened(at, jnp.max(loop.squares))
    end = trial.end
    error = largest(rows.linear(end.impulses, end.rates, loop.friction, 1).residual)
    return trial._replace(end=end._replace(error=error)), trial.length * change


def _shortened(at: Callable[[Array], _Trial], most: Array) -> _Trial:
    """A step of half the length, until it leaves less than ``most``."""
    least = 0.5 ** (_MAX_HALVINGS - 0.5)

    def is_long(tried: tuple[_Trial, Array]) -> Array:
        best, length = tried
        return (best.squares > _SMALLER * most) & (length > least)

    def halve(tried: tuple[_Trial, Array]) -> tuple[_Trial, Array]:
        best, length = tried
        half = at(0.5 * length)
        return chosen(half.squares < best.squares, half, best), half.length

    whole = at(jnp.ones_like(most))
    return while_loop(is_long, halve, (whole, whole.length))[0]


def _about(rows: StepRows, loop: _Loop, point: Point) -> Rates:
    """The rates at which contacts obey their laws about the centre, u + r (lambda - lambda0)."""
    each = rows.contacts.each
    apart = point.impulses.contacts - loop.center.impulses.contacts
    response = jnp.stack([each.tangential, each.tangential, each.normal], axis=1)
    return point.rates._replace(contacts=point.rates.contacts + loop.share * response * apart)
