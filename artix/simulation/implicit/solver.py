"""The solver of a step: Newton's method on all rows at once, until their laws hold.

The step in symbols, for the velocity v [nv] at its end and the impulses lambda of all rows::

    M (v - v0) = p + J^T lambda       momentum: M with springs and dampers, v0 at the start, p of forces
    lambda ~ u = J v                  the law of each row, see :mod:`artix.simulation.implicit.resolvents`

Laws are replaced by linear functions ``lambda = l - R u``. A Newton step solves
``(M + J^T R J) d = p + J^T lambda - M (v - v0)``, after which lambda and v satisfy the momentum
equation. The step is solved once they satisfy the laws as well, which each row's own response
measures. There are two kinds of functions, for which the same Newton steps with one factorisation
serve in turns:

* **Active sets.** What sticks, slides, pushes and is open remains so (a semismooth Newton method on
  Coulomb's law). One step suffices if the last impulses tell which is which, and two or three if
  little changes. Steps that leave larger residuals are shortened, else some contacts would stick
  and slide in turns. The method need not converge, so it ends as soon as it gets no nearer. Sweeps
  guess the first sets (:mod:`artix.simulation.implicit.first_guess`) where links have single
  contacts.
* **Proximal points.** With De Saxce's correction ``s = mu |u_t|`` held constant, the equation is
  the gradient of a convex function, whose minimum Newton's method with a line search finds. The
  impulses at the minimum are the next centre and its velocities give the next s, by Aitken's
  extrapolation. Where laws leave impulses open, this finds those nearest to the start: equal
  corners carry equal loads, whatever their order. Responses become smaller once s changes little,
  and active sets are tried from each point that is clearly better than the last one from which they
  failed.

A step that is not solved after ``max_steps`` keeps the impulses with the smallest residual, within
their bounds, and the velocity that follows from them. All but those of drives are made smaller if
they would add energy.

Hintermueller, Ito and Kunisch, *The primal-dual active set strategy as a semismooth Newton method*,
2002; Alart and Curnier, *A mixed formulation for frictional contact problems*, 1991; De Saxce and
Feng, *The bipotential method*, 1998; Acary, Bremond and Huber, *On solving contact problems with
Coulomb friction*, 2018; Castro et al., *An unconstrained convex formulation of compliant contact*
(SAP, arXiv 2110.10107); Rockafellar, *Augmented Lagrangians and applications of the proximal point
algorithm*, 1976; Irons and Tuck, *A version of the Aitken accelerator for computer iteration*,
1969.
"""  # noqa: E501

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import chosen, matmul
from artix.math.gaussian_elimination import lu_factorize
from artix.math.traces import if_needed, while_loop
from artix.simulation.implicit.first_guess import first_guess
from artix.simulation.implicit.line_search import line_search
from artix.simulation.implicit.rows import (
    ContactRows,
    Impulses,
    Lagged,
    Rates,
    Slopes,
    StepRows,
)
from artix.simulation.implicit.system import Response

Array = jax.Array

#: Residuals [m/s or rad/s] at which a step is solved: with active sets, whose last steps gain many
#: digits, and at proximal points, which gain one or two.
_TOLERANCES = {"float64": (1e-12, 1e-9), "float32": (2e-6, 2e-6)}


class _Settings(NamedTuple):
    """How active sets and proximal points take turns."""

    held_share: float
    """What is added to rows that hold, as a share of their responses. Less needs fewer steps, but
    rounds more."""
    safe_share: float
    """The share after a proximal point. Where laws leave impulses open, it keeps them from
    jumping."""
    last_share: float
    """The response of late proximal points, as a share of the rows' own."""
    first_misses: int
    """Steps with active sets that may get no nearer in a row, at the start."""


_SETTINGS = {
    "float64": _Settings(1e-6, 1e-4, 1e-4, 6),
    "float32": _Settings(1e-5, 1e-4, 1e-4, 6),
}

#: Residuals cannot be smaller than this times the largest velocity of a row, in rounding errors.
_ROUNDING = 4

#: The momentum that may be lost, as a share of the residual; in free directions it adds up.
_BALANCE = 0.01

#: Steps with active sets that may get no nearer in a row, from proximal points.
_MISSES = 1

#: A step with active sets is halved until it leaves less than this share of the squares of all
#: residuals, a few times.
_SMALLER, _MAX_HALVINGS = 0.9, 5

#: A step gets nearer if it leaves less than this share of the smallest residual so far. Active sets
#: are tried from proximal points with less than this share of the residual from which they were
#: tried last.
_NEARER = 0.5

#: The response at the first proximal point as a share of the rows' own, and the ratio of later
#: ones.
_FIRST_SHARE, _STIFFER = 0.1, 0.1

#: Bounds of the factor by which De Saxce's corrections change, as a multiple of what they miss.
_RELAXATION = 0.3, 10.0

#: A minimum need not be more exact than this share of what it changes.
_INEXACT = 0.1

#: Static friction is not enough where what would stop a DOF exceeds it by this share, beyond
#: rounding.
_SLIPS = 1e-5

#: Kinetic energy that may come from missing momentum, as a share of that at the start and of the
#: forces' work.
_LOST_ENERGY = 1e-4

#: The last Newton step may round velocities by this times what is uncertain anyway.
_FAR = 10

#: Energy that counts as rounding, as a share of what the step's forces would give a body at rest.
_SMALL_ENERGY = 1e-3


class StepSystem(NamedTuple):
    """The momentum equation and the rows."""

    matrix: Array
    """M, [nv, nv]."""
    push: Array
    """p, [nv]."""
    velocity: Array
    """v0, [nv]."""
    rows: StepRows
    response: Response
    """``M^-1``."""
    along_trees: Callable[[Array], Callable[[Array], Array]] | None
    """For a diagonal [nv], the function that gives ``(M + diagonal)^-1 p`` by elimination along the
    trees; ``None`` if M does not have their pattern."""
    order: np.ndarray
    """The entries of the velocity from the leaves to the root."""
    groups: Sequence[np.ndarray] | None
    """The DOFs, in groups that hardly couple, for sweeps; ``None`` if they would share loads by the
    order of rows."""
    factorize: Callable[[Array, Array], Callable[[Array], Array]] | None = None
    """Gives what solves with a large matrix, in any order of the entries, by XLA's loops; it is
    told whether the matrix is symmetric, but for rounding."""

    def factorized(self, slopes: Slopes) -> Callable[[Array], Array]:
        """The function that gives the solution d of ``(M + J^T slopes J) d = right``, [nv]."""
        if self.along_trees is not None and self.rows.is_diagonal:
            return self.along_trees(self.rows.diagonal(slopes))
        matrix = self.matrix + self.rows.stiffness(slopes)
        if self.factorize is not None:
            contacts = slopes.contacts
            return self.factorize(matrix, jnp.all(contacts == jnp.swapaxes(contacts, 1, 2)))
        solve = lu_factorize(matrix[np.ix_(self.order, self.order)]).solve
        return lambda right: solve(right[self.order])[np.argsort(self.order)]

    def imbalance(self, change: Array, impulses: Impulses) -> Array:
        """``M (v - v0) - p - J^T lambda``, [nv]."""
        return matmul(self.matrix, change) - self.push - self.rows.force(impulses)

    def newton_step(self, gradient: Array, slopes: Slopes) -> tuple[Array, Rates]:
        """The solution d of ``(M + J^T slopes J) d = -gradient``, and the rows' rates J d.

        Rows that hold are far stiffer than masses. A refinement corrects what moves without
        straining them.
        """
        rows = self.rows
        solve = self.factorized(slopes)
        first = -solve(gradient)
        moved = rows.rates(first)
        strained = rows.force(slopes.changes(moved))
        second = -solve(gradient + matmul(self.matrix, first) - strained)
        return first + second, sum_of(moved, rows.rates(second))


class Point(NamedTuple):
    """A change of the velocity with impulses."""

    change: Array
    """v - v0, [nv]."""
    rates: Rates
    """J v."""
    impulses: Impulses
    error: Array
    """How far the laws are from being satisfied, as a velocity, []."""


class Exactness(NamedTuple):
    """What counts as solved."""

    enough: Array
    """The largest residual of a solution with active sets."""
    loose: Array
    """The same at a proximal point."""
    rounding: float
    """Rounding error of velocities, as a share of their changes."""
    settings: _Settings

    def accepted(
        self, system: StepSystem, point: Point, imbalance: Array, enough: Array, step: Array
    ) -> Array:
        """The largest error of a solution at a point after a Newton step, []; negative if momentum
        is missing.

        Ill-conditioned matrices hide large velocities from the momentum, but not from its energy.
        """
        weights, rounding = jnp.diagonal(system.matrix), self.rounding
        impulsive = largest(system.rows.velocities(point.impulses))
        # The momentum equation rounds what p gives to an entry by itself.
        pushed = largest(system.push / weights)
        noise = rounding * jnp.maximum(largest(step), impulsive)
        lost = largest(imbalance / weights)
        rounded = jnp.maximum(noise, rounding * jnp.maximum(pushed, largest(point.change)))
        # The energy that the missing momentum adds: it works along the mean velocity.
        mean = system.velocity + 0.5 * point.change
        kinetic = 0.5 * jnp.sum(weights * system.velocity**2)
        worked = kinetic + jnp.abs(jnp.sum(system.push * mean))
        certain = enough + rounding * jnp.maximum(pushed, impulsive)
        adds = jnp.sum(imbalance * mean) > _LOST_ENERGY * worked + certain**2 * jnp.sum(weights)
        holds = (lost <= _BALANCE * enough + 4 * rounded) & ~adds & (noise <= _FAR * certain)
        return jnp.where(holds, enough + noise, -1)


def exactness_of(dtype: Any, at_start: Rates, tolerance: float | None) -> Exactness:
    """What counts as solved, for the rows' velocities at the start and the residual at which to
    stop, ``None`` for that of the dtype.
    """
    rounding = _ROUNDING * float(jnp.finfo(dtype).eps)
    usual = _TOLERANCES.get(dtype.name, (2e-5, 2e-5))
    exact, loose = usual if tolerance is None else (tolerance, tolerance)
    return Exactness(
        enough=exact + rounding * largest(at_start),
        loose=loose + rounding * largest(at_start),
        rounding=rounding,
        settings=_SETTINGS.get(dtype.name, _SETTINGS["float32"]),
    )


class _Loop(NamedTuple):
    """The state between active sets and proximal points."""

    current: Point
    center: Point
    """The last proximal point, or the start."""
    best: Point
    """The proximal point with the smallest residual. Before the first one, the best iterate so
    far."""
    is_convex: Array
    """Whether the next proximal point is to be found; else active sets are."""
    lagged: Lagged
    missed: Array
    """What De Saxce's corrections missed at the last proximal point, [K]."""
    relaxation: Array
    """The multiple of it by which they changed, []."""
    tried: Array
    """The residual of the last proximal point from which active sets were tried."""
    share: Array
    """Responses of proximal points as shares of the rows' own."""
    misses: Array
    """Steps with active sets that may get no nearer."""
    steps: Array
    """Newton steps so far."""
    is_solved: Array

    @property
    def has_point(self) -> Array:
        """Whether there is a proximal point."""
        return self.share < 0.9 * _FIRST_SHARE


def solve_system(
    system: StepSystem, start: Impulses, tolerance: float | None, max_steps: int
) -> tuple[Point, Array, Array, Array]:
    """Solves a step.

    Args:
      system: the equations.
      start: impulses from which to start.
      tolerance: the residual [m/s or rad/s] at which to stop; ``None`` for that of the dtype.
      max_steps: the largest number of Newton steps.

    Returns:
      The solution, the largest friction impulse of each DOF there, the number of Newton steps, and
      whether they were enough.
    """
    rows, dtype = system.rows, system.matrix.dtype
    at_start = rows.rates(system.velocity)
    exactness = exactness_of(dtype, at_start, tolerance)
    settings = exactness.settings

    def goes_on(loop: _Loop) -> Array:
        return ~loop.is_solved & (loop.steps < max_steps)

    budget = static_budget(rows)
    free, is_solved = without_impulses(system, budget, exactness)
    infinite = jnp.full((), jnp.inf, dtype)
    if system.groups is None and rows.contacts is not None:
        start = with_closed_contacts(rows.contacts, start, exactness.enough)
    center = Point(jnp.zeros_like(system.push), at_start, start, infinite)
    point = center
    if system.groups is not None:
        point = _guessed(system, system.groups, center, budget, is_solved)
    slip = rows.correction(at_start)
    begin = _Loop(
        current=chosen(is_solved, free, point),
        center=center,
        best=point,
        is_convex=jnp.zeros((), bool),
        lagged=Lagged(slip, budget),
        missed=jnp.zeros_like(slip),
        relaxation=jnp.ones((), dtype),
        tried=infinite,
        share=jnp.full((), _FIRST_SHARE, dtype),
        misses=jnp.full((), settings.first_misses, jnp.int32),
        steps=jnp.zeros((), jnp.int32),
        is_solved=is_solved,
    )
    end = while_loop(goes_on, lambda loop: _after_method(system, loop, exactness, max_steps), begin)
    point, friction = chosen(end.is_solved, end.current, end.best), end.lagged.friction
    point = if_needed(~end.is_solved, functools.partial(cut_off, system, friction), point, point)
    return point, friction, end.steps, end.is_solved


def without_impulses(
    system: StepSystem, budget: Array, exactness: Exactness
) -> tuple[Point, Array]:
    """The velocity without impulses of rows, and whether it is the solution, as where nothing
    touches or limits.

    Else it is not what to start from: Newton steps from the velocity at the start are fewer, since
    it is nearer to what sticks.
    """
    rows = system.rows
    change = system.response.to(system.push)
    rates = rows.rates(system.velocity + change)
    law = rows.linear(rows.none(), rates, budget, exactness.settings.held_share)
    point = Point(change, rates, rows.none(), largest(law.residual))
    accepted = exactness.accepted(system, point, jnp.zeros_like(change), exactness.enough, change)
    return point, point.error <= accepted


def with_closed_contacts(contacts: ContactRows, start: Impulses, enough: Array) -> Impulses:
    """The impulses from which to start, with those at which closed contacts push if none does.

    Else rounding errors of gaps would choose the contacts that push first, and which of those that
    are open would be needed again: a part of them may be enough to carry the load.
    """
    normal = start.contacts[:, 2]
    least = jnp.where(jnp.any(normal > 0), 0, enough / contacts.each.normal)
    return start._replace(contacts=start.contacts.at[:, 2].add(least))


def _guessed(
    system: StepSystem, groups: Sequence[np.ndarray], start: Point, budget: Array, is_solved: Array
) -> Point:
    """The point after a few sweeps."""
    arguments = system.push, start.rates, start.impulses, budget, is_solved
    change, impulses = first_guess(system.rows, system.response, groups, *arguments)
    rates = sum_of(start.rates, system.rows.rates(change))
    return Point(change, rates, impulses, start.error)


class _Run(NamedTuple):
    """The state of Newton's method, on active sets or on a convex function."""

    current: Point
    imbalance: Array
    """What is missing in the momentum equation, [nv]."""
    added: Impulses
    """What the laws add to the impulses at this velocity."""
    slopes: Slopes
    squares: Array
    """The sum of the squares of all residuals, []."""
    nearest: Point
    """The point with the smallest error in this run of active sets."""
    misses: Array
    steps: Array
    accepted: Array
    """The largest error of a solution here, []."""
    is_whole: Array
    """Whether the last step was whole: on a convex function, the momentum equation then holds."""
    holds: Array
    """Whether the laws hold, with the present bounds of friction."""
    is_minimum: Array
    """Whether the convex function is minimal."""


def _after_method(system: StepSystem, loop: _Loop, exactness: Exactness, max_steps: int) -> _Loop:
    """The state after Newton's method on active sets, until it gets no nearer, or after a proximal
    point.
    """
    rows, current, center, friction = system.rows, loop.current, loop.center, loop.lagged.friction
    settings = exactness.settings
    share = jnp.where(loop.has_point, settings.safe_share, settings.held_share)
    law = rows.linear(current.impulses, current.rates, friction, share)
    added = law.change
    if system.groups is not None:  # Sweeps tell the sets, but not how to share loads.
        added = sum_of(added, rows.towards(law.slopes, center.impulses, current.impulses, share))

    def at_center(rates: Rates) -> tuple[Impulses, Slopes]:
        resolved, slopes = rows.resolvent(center.impulses, rates, loop.lagged, loop.share)
        return jax.tree.map(jnp.subtract, resolved, center.impulses), slopes

    added, slopes = if_needed(loop.is_convex, at_center, current.rates, (added, law.slopes))
    begin = _Run(
        current=current,
        imbalance=system.imbalance(current.change, current.impulses),
        added=added,
        slopes=slopes,
        squares=jnp.full_like(current.error, jnp.inf),
        nearest=current,
        misses=loop.misses,
        steps=loop.steps,
        accepted=current.error,
        is_whole=jnp.zeros((), bool),
        holds=jnp.zeros((), bool),
        is_minimum=jnp.zeros((), bool),
    )

    def goes_on(run: _Run) -> Array:
        return ~(run.holds | run.is_minimum) & (run.misses > 0) & (run.steps < max_steps)

    run = while_loop(goes_on, lambda run: _after_step(system, loop, run, share, exactness), begin)
    return _with_next_method(rows, loop, run, exactness.settings.last_share)


class _Step(NamedTuple):
    """A whole Newton step."""

    change: Array
    rates: Rates
    impulses: Impulses


def _after_step(
    system: StepSystem, loop: _Loop, run: _Run, share: Array, exactness: Exactness
) -> _Run:
    """The state after a Newton step."""
    rows, current = system.rows, run.current
    change, rates = system.newton_step(run.imbalance - rows.force(run.added), run.slopes)
    step = _Step(change, rates, sum_of(run.added, run.slopes.changes(rates)))
    trial = _shortened(system, loop, run, step, share)
    falls = functools.partial(_on_convex_function, system, loop, run.slopes, trial, exactness)
    trial = if_needed(loop.is_convex, falls, (current, run.added, step), trial)
    length, error = trial.length, trial.error
    change = length * step.change
    rates = sum_of(current.rates, _times(length, step.rates))
    end = Point(
        current.change + change,
        rates,
        sum_of(current.impulses, _times(length, step.impulses)),
        error,
    )
    imbalance = system.imbalance(end.change, end.impulses)
    is_miss = ~loop.is_convex & ~(error < _NEARER * run.nearest.error)
    enough = jnp.where(loop.is_convex, exactness.loose, exactness.enough)
    accepted = exactness.accepted(system, end, imbalance, enough, change)
    return _Run(
        current=end,
        imbalance=imbalance,
        added=trial.added,
        slopes=trial.slopes,
        squares=trial.squares,
        nearest=chosen(error < run.nearest.error, end, run.nearest),
        misses=jnp.where(is_miss, run.misses - 1, run.misses),
        steps=run.steps + 1,
        accepted=accepted,
        is_whole=length == 1,
        holds=~loop.is_convex & (error <= accepted),
        is_minimum=trial.is_minimum,
    )


class _Trial(NamedTuple):
    """The laws after a step of some length."""

    length: Array
    error: Array
    """How far they are from being satisfied, as a velocity, []; on a convex function after the
    whole step."""
    squares: Array
    """The sum of the squares of all residuals, []."""
    added: Impulses
    slopes: Slopes
    is_minimum: Array


def _shortened(system: StepSystem, loop: _Loop, run: _Run, step: _Step, share: Array) -> _Trial:
    """A step that leaves clearly smaller residuals than the last one, or the best of those that
    were tried.
    """
    least = 0.5 ** (_MAX_HALVINGS - 0.5)

    def at(length: Array) -> _Trial:
        impulses = sum_of(run.current.impulses, _times(length, step.impulses))
        rates = sum_of(run.current.rates, _times(length, step.rates))
        law = system.rows.linear(impulses, rates, loop.lagged.friction, share)
        sizes = largest(law.residual), jnp.sum(law.residual**2)
        return _Trial(length, *sizes, law.change, law.slopes, jnp.zeros((), bool))

    def is_long(tried: tuple[_Trial, Array]) -> Array:
        best, length = tried
        return ~loop.is_convex & (best.squares > _SMALLER * run.squares) & (length > least)

    def halve(tried: tuple[_Trial, Array]) -> tuple[_Trial, Array]:
        best, length = tried
        half = at(0.5 * length)
        return chosen(half.squares < best.squares, half, best), half.length

    whole = at(jnp.ones_like(run.squares))
    return while_loop(is_long, halve, (whole, whole.length))[0]


def _on_convex_function(
    system: StepSystem,
    loop: _Loop,
    slopes: Slopes,
    whole: _Trial,
    exactness: Exactness,
    step_from: tuple[Point, Impulses, _Step],
) -> _Trial:
    """A step as long as the convex function falls, from a point with what the laws add there."""
    (start, added, step), rates = step_from, step_from[0].rates
    rows, center, lagged, share = system.rows, loop.center.impulses, loop.lagged, loop.share
    steady = matmul(system.matrix, start.change) - system.push
    curvature = matmul(system.matrix, step.change)

    def at(length: Array) -> tuple[tuple[Impulses, Slopes], Array]:
        """The resolvents and the derivative of the convex function along the step."""
        resolved = rows.resolvent(center, sum_of(rates, _times(length, step.rates)), lagged, share)
        return resolved, jnp.sum(step.change * (steady + length * curvature)) - _work(
            resolved[0], step.rates
        )

    is_small = largest((step.change, step.rates)) <= 0.1 * exactness.loose
    before = sum_of(start.impulses, added)
    first = jnp.sum(step.change * steady) - _work(before, step.rates)
    length, (resolved, slopes) = line_search(at, first, is_small, (before, slopes))
    # A minimum of the convex function need not be more exact than what it changes.
    added = jax.tree.map(
        jnp.subtract, resolved, sum_of(start.impulses, _times(length, step.impulses))
    )
    mismatch = share * largest(rows.velocities(added))
    slip = rows.correction(sum_of(rates, _times(length, step.rates)))
    changes = jnp.maximum(share * _distance(rows, resolved, center), largest(slip - lagged.slip))
    is_exact = mismatch <= jnp.maximum(0.1 * exactness.loose, _INEXACT * changes)
    return whole._replace(
        length=length, added=added, slopes=slopes, is_minimum=is_exact & (length == 1)
    )


def _with_next_method(rows: StepRows, loop: _Loop, run: _Run, last_share: float) -> _Loop:
    """The state for the next method: proximal points from the last one once active sets get no
    nearer, or sets.
    """
    point, is_point, lagged, share = run.current, loop.is_convex, loop.lagged, loop.share
    slower = kinetic_budget(rows, lagged.friction, point)
    friction = jnp.where(run.holds | is_point, slower, lagged.friction)
    holds = run.holds | run.is_minimum & (point.error <= run.accepted)
    is_better = run.is_whole & (point.error < loop.best.error) | run.is_minimum & ~loop.has_point
    is_better = jnp.where(is_point, is_better, ~loop.has_point)
    tries_sets = is_point & (point.error < _NEARER * loop.tried)
    missed = rows.correction(point.rates) - lagged.slip
    relaxation = _relaxation(loop, missed)
    slip = jnp.maximum(lagged.slip + relaxation * missed, 0)
    # Each change of s moves stiff rows far, and costs many steps.
    is_early = largest(missed) > share * _distance(rows, point.impulses, loop.center.impulses)
    stiffer = jnp.maximum(_STIFFER * share, last_share)
    stiffer = jnp.where(is_early & loop.has_point, share, stiffer)
    return _Loop(
        current=chosen(holds | is_point, point, loop.center),
        center=chosen(is_point, point, loop.center),
        best=chosen(is_better, chosen(is_point, point, run.nearest), loop.best),
        is_convex=~(tries_sets | run.holds),
        lagged=Lagged(jnp.where(is_point, slip, lagged.slip), friction),
        missed=jnp.where(is_point, missed, loop.missed),
        relaxation=jnp.where(is_point, relaxation, loop.relaxation),
        tried=jnp.where(tries_sets, point.error, loop.tried),
        share=jnp.where(is_point, stiffer, share),
        misses=jnp.full_like(loop.misses, _MISSES),
        steps=run.steps,
        is_solved=holds & jnp.all(friction == lagged.friction),
    )


def _relaxation(loop: _Loop, missed: Array) -> Array:
    """The multiple of what De Saxce's corrections miss by which to change them: Aitken's
    extrapolation.
    """
    change = missed - loop.missed
    square = jnp.sum(change**2)
    extrapolates = loop.has_point & (square > 0)
    secant = -loop.relaxation * jnp.sum(loop.missed * change) / jnp.where(square > 0, square, 1)
    return jnp.where(extrapolates, jnp.clip(secant, *_RELAXATION), 1)


def cut_off(system: StepSystem, friction: Array, point: Point) -> Point:
    """A point that is not solved, with impulses within their bounds, of which only drives add
    energy.
    """
    rows = system.rows
    impulses = rows.admissible(point.impulses, point.rates, friction)
    driving = rows.driving(impulses)
    driven = system.response.to(system.push + rows.force(driving))
    passive = jax.tree.map(jnp.subtract, impulses, driving)
    force = rows.force(passive)
    change = system.response.to(force)
    # Impulses work along the mean of the velocities before and after.
    work = jnp.sum(force * (system.velocity + 0.5 * driven))
    twice = jnp.sum(force * change)
    forced = 0.5 * jnp.sum(driven * matmul(system.matrix, driven))
    allowed = _SMALL_ENERGY * forced + rows.returned_energy(impulses)
    excessive = work + 0.5 * twice > allowed
    # The share that leaves least energy. Twice of it would leave what there was: a bounce.
    least = jnp.clip(-work / jnp.where(excessive, twice, 1), 0, 1)
    share = jnp.where(excessive, least, 1)
    impulses = sum_of(driving, jax.tree.map(lambda part: share * part, passive))
    change = driven + share * change
    return Point(change, rows.rates(system.velocity + change), impulses, point.error)


def static_budget(rows: StepRows) -> Array:
    """The largest impulses of friction of DOFs at rest, [n]."""
    friction = rows.dofs.friction
    return jnp.maximum(friction.static, friction.dynamic) * rows.sweep.dt


def kinetic_budget(rows: StepRows, budget: Array, point: Point) -> Array:
    """The largest impulses of friction, which are dynamic where the static ones were not enough."""
    stopping = point.impulses.dofs.friction - point.rates.dofs / rows.dofs.response
    slips = jnp.abs(stopping) > budget * (1 + _SLIPS)
    return jnp.where(slips, rows.dofs.friction.dynamic * rows.sweep.dt, budget)


def _distance(rows: StepRows, impulses: Impulses, others: Impulses) -> Array:
    """The largest difference of impulses, as a velocity of its row."""
    return largest(rows.velocities(jax.tree.map(jnp.subtract, impulses, others)))


def largest(arrays: Any) -> Any:
    """The largest magnitude in a pytree; zero if it is empty."""
    leaves = jax.tree.leaves(arrays)
    parts = [jnp.max(jnp.abs(leaf)) for leaf in leaves if leaf.size]
    return functools.reduce(jnp.maximum, parts) if parts else jnp.zeros((), leaves[0].dtype)


def sum_of(a: Any, b: Any) -> Any:
    """The sum of two pytrees."""
    return jax.tree.map(jnp.add, a, b)


def _times(length: Array, arrays: Any) -> Any:
    return jax.tree.map(lambda array: length * array, arrays)


def _work(impulses: Impulses, rates: Rates) -> Array:
    """The sum of the products of impulses and velocities of all rows."""
    work = jnp.sum(impulses.dofs.total * rates.dofs) + jnp.sum(impulses.distances * rates.bounds)
    return work + jnp.sum(impulses.contacts * rates.contacts)
