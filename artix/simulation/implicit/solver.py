"""The solver of a step: Newton's method on all rows at once, until their laws hold.

The step in symbols, for the velocity v [nv] at its end and the impulses lambda of all rows::

    M (v - v0) = p + J^T lambda          momentum: M with springs and dampers, v0 at the start, p of forces
    lambda ~ u + r (lambda - lambda0)    the law of each row at u = J v, see resolvents

With r = 0 this is the step. Faces touch at more points than they need, and contacts of bodies that
are heaped up nearly oppose each other, so the laws leave many impulses open; which rows push would
depend on how the last iterate shared the load. Therefore rows stay near a centre ``lambda0`` until
a solution is reached: with a response r, a share of the row's own, each has a spring of its own.
The impulses at the solution are the next centre, and r becomes smaller. These are proximal points
of the laws themselves, Coulomb's law included. Where laws leave impulses open, they find those
nearest to the start: equal corners carry equal loads, whatever their order.

About a centre, Newton's method replaces laws by linear functions ``lambda = l - R u`` of what sticks,
slides, pushes and is open (a semismooth method). A Newton step adds d, then e, to v::

    (M + J^T R J) d = p + J^T l' - M (v - v0)            l' = l - R J v
    (M + J^T R J) e = J^T R r (lambda - lambda0)         at the lambda and v that the first leaves

The second equation, with the same factors, is the next Newton step if the first has solved the laws
about ``lambda0``: that about this solution as the centre, where springs do not pull. So one
factorisation is enough where the start tells which rows hold, and two or three if little changes;
sweeps guess it (:mod:`artix.simulation.implicit.first_guess`) where links have single contacts.
Steps that leave larger residuals are shortened. Where some steps reach no solution, or rounding
loses momentum since rows are too stiff, the method goes on with a larger share: softer springs let
more contacts bear a part of the load.

The step is solved once the laws hold without r. A step that is not solved after ``max_steps`` keeps
the impulses with the smallest residual, within their bounds, and the velocity that follows from
them. All but those of drives are made smaller if they would add energy.

Alart and Curnier, *A mixed formulation for frictional contact problems prone to Newton like
solution methods*, 1991; Hintermueller, Ito and Kunisch, *The primal-dual active set strategy as a
semismooth Newton method*, 2002; Rockafellar, *Monotone operators and the proximal point algorithm*,
1976; Kelley and Keyes, *Convergence analysis of pseudo-transient continuation*, 1998, for springs
that become stiffer as steps succeed; Grippo, Lampariello and Lucidi, *A nonmonotone line search
technique for Newton's method*, 1986.
"""  # noqa: E501

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import chosen, matmul, take, with_rows
from artix.math.gaussian_elimination import lu_factorize
from artix.math.traces import if_needed, while_loop
from artix.simulation.implicit.first_guess import first_guess, held_response
from artix.simulation.implicit.rows import (
    ContactRows,
    Impulses,
    Rates,
    Slopes,
    StepRows,
)
from artix.simulation.implicit.system import Response

Array = jax.Array

#: Residuals [m/s or rad/s] at which a step is solved, and those that are enough where the next
#: centre, which gains many digits or none, gains none.
_TOLERANCES = {"float64": (1e-12, 1e-9), "float32": (2e-6, 2e-6)}

#: The response about the first centre as a share of the rows' own. Less rounds more; in float32,
#: with 1e-4, a stack of 1, 100 and 10,000 kg moves by 7e-5 instead of 1e-5 m.
_FIRST_SHARE = {"float64": 1e-7, "float32": 1e-5}

#: The same after sweeps. In float32, with 1e-5 eight Newton steps leave 0.2 % of walking quadrupeds
#: unsolved, with this 0.04 %.
_GUESSED_SHARE = {"float64": 1e-7, "float32": 3e-4}

#: The smallest share. In float64 contacts that nearly oppose each other need one below 1e-6; in
#: float32 springs as stiff would round away the masses.
_LEAST_SHARE = {"float64": 1e-8, "float32": 1e-4}

#: The factor of the share after a solution, that after none, and the least share after none. Where
#: float32 loses momentum, falling ropes are left unsolved unless springs become softer.
_STIFFER, _SOFTER, _SOFT = 0.1, 10.0, 1e-3

#: Contacts that oppose each other change their impulses by the same residual over r at each centre,
#: until one of them opens. A centre should be no farther than ten times the largest impulse.
_FAR = 0.1

#: Newton steps in which a solution about a centre is reached, or else springs become softer. With 8
#: humanoids in float64 have half as many unsolved steps again.
_MAX_TRIES = 12

#: A step is halved, a few times, until it leaves less than this share of the largest sum of squares
#: after the last steps. With the last step alone, steps that settle sets are shortened, and
#: humanoids in float64 have 2.6 times as many unsolved steps; with the last four, 0.2 % of landing
#: quadrupeds need more than 12 steps.
_SMALLER, _MAX_HALVINGS, _MEMORY = 0.9, 5, 2

#: A solution about a centre need not be more exact than this share of what it leaves without r.
_INEXACT = 0.5

#: A centre gains digits if it leaves less than this share of the residual of the last one.
_NEARER = 0.5

#: Residuals cannot be smaller than this times the largest velocity of a row, in rounding errors.
_ROUNDING = 4

#: The momentum that may be lost, as a share of the residual; in free directions it adds up.
_BALANCE = 0.01

#: Static friction is not enough where what would stop a DOF exceeds it by this share, beyond
#: rounding.
_SLIPS = 1e-5

#: Kinetic energy that may come from missing momentum, as a share of that at the start and of the
#: forces' work.
_LOST_ENERGY = 1e-4

#: The last Newton step may round velocities by this times what is uncertain anyway.
_MORE_NOISE = 10

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
    moved: np.ndarray | None = None
    """Which contacts each DOF moves, [K, n]; needed with groups and contacts."""
    factorize: Callable[[Array, Array], Callable[[Array], Array]] | None = None
    """Gives what solves with a large matrix, in any order of the entries, by XLA's loops; it is
    told whether the matrix is symmetric, but for rounding."""
    first_share: float | None = None
    """The response about the first centre as a share of the rows' own; ``None`` for that of the
    dtype."""
    memory: int = _MEMORY
    """How many steps' sums of squares a step is compared with."""
    has_friction: bool = False
    """Whether DOFs may have dry friction. Then no step is solved without impulses."""
    limits_drives: bool = False
    """Whether M may contain drives that have limits."""

    def factorized(self, slopes: Slopes) -> Callable[[Array], Array]:
        """The function that gives the solution d of ``(M + J^T slopes J) d = right``, [nv]."""
        if self.along_trees is not None and self.rows.is_diagonal:
            return self.along_trees(self.rows.diagonal(slopes))
        contacts = slopes.contacts
        return self._solver(
            self.matrix + self.rows.stiffness(slopes),
            lambda: jnp.all(contacts == jnp.swapaxes(contacts, 1, 2)),
        )

    def with_diagonal(self, diagonal: Array) -> Callable[[Array], Array]:
        """The function that gives the solution d of ``(M + diagonal) d = right``, [nv]."""
        if self.along_trees is not None:
            return self.along_trees(diagonal)
        return self._solver(self.matrix + jnp.diag(diagonal), lambda: jnp.ones((), bool))

    def _solver(self, matrix: Array, is_symmetric: Callable[[], Array]) -> Callable[[Array], Array]:
        if self.factorize is not None:
            return self.factorize(matrix, is_symmetric())
        solve = lu_factorize(matrix[np.ix_(self.order, self.order)]).solve
        return lambda right: solve(right[self.order])[np.argsort(self.order)]

    def imbalance(self, change: Array, impulses: Impulses) -> Array:
        """``M (v - v0) - p - J^T lambda``, [nv]."""
        return matmul(self.matrix, change) - self.push - self.rows.force(impulses)


class Point(NamedTuple):
    """A change of the velocity with impulses."""

    change: Array
    """v - v0, [nv]."""
    rates: Rates
    """J v."""
    impulses: Impulses
    error: Array
    """How far the laws are from being satisfied, as a velocity, []."""
    imbalance: Array
    """``M (v - v0) - p - J^T lambda``, [nv]."""


class _Best(NamedTuple):
    """What is kept of the point with the smallest error so far."""

    impulses: Impulses
    rates: Array
    """The velocities of the DOFs, [n]."""
    error: Array

    @classmethod
    def of(cls, point: Point) -> _Best:
        return cls(point.impulses, point.rates.dofs, point.error)


class Exactness(NamedTuple):
    """What counts as solved."""

    enough: Array
    """The largest residual of a solution."""
    loose: Array | None
    """By how much it may be larger where no more digits are gained; ``None`` if by nothing."""
    rounding: float
    """Rounding error of velocities, as a share of their changes."""

    def accepted(self, system: StepSystem, point: Point, step: Array) -> Array:
        """The largest error of a solution at a point after a Newton step, []; negative if momentum
        is missing.

        Ill-conditioned matrices hide large velocities from the momentum, but not from its energy.
        """
        weights, rounding, enough = jnp.diagonal(system.matrix), self.rounding, self.enough
        imbalance, impulsive = point.imbalance, largest(system.rows.velocities(point.impulses))
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
        holds = (lost <= _BALANCE * enough + 4 * rounded) & ~adds & (noise <= _MORE_NOISE * certain)
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
        loose=jnp.asarray(loose - exact, dtype) if loose > exact else None,
        rounding=rounding,
    )


class _Loop(NamedTuple):
    """The state between Newton steps."""

    current: Point
    center: Point
    best: _Best
    share: Array
    """The response r as a share of the rows' own."""
    squares: Array
    """The sums of the squares of all residuals after the last steps about this centre."""
    tries: Array
    """The Newton steps about this centre."""
    friction: Array
    """The largest friction impulse of each DOF, [n]."""
    is_loose: Array
    """Whether the centre is exact enough, unless the next one gains more digits."""
    steps: Array
    """All Newton steps."""
    is_solved: Array


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
    budget = static_budget(rows)
    free, is_solved = None, jnp.zeros((), bool)
    if not system.has_friction:
        free, is_solved = without_impulses(system, budget, exactness)
    if system.groups is None and rows.contacts is not None:
        start = with_closed_contacts(rows.contacts, start, exactness.enough)
    share = system.first_share
    if share is None:
        shares = _FIRST_SHARE if system.groups is None else _GUESSED_SHARE
        share = shares.get(dtype.name, shares["float32"])
    still, infinite = jnp.zeros_like(system.push), jnp.full((), jnp.inf, dtype)
    center = Point(still, at_start, start, infinite, -system.push - rows.force(start))
    point = center
    if system.groups is not None:
        point = _guessed(system, system.groups, center, budget, is_solved)
        if system.has_friction and system.moved is not None:
            held = held_response(rows, system.response, system.moved, point.impulses.contacts)
            rows = rows._replace(dofs=rows.dofs._replace(held_response=held))
            system = system._replace(rows=rows)
        # Sweeps tell the impulses of limits, but not how contacts and friction share loads.
        dofs = start.dofs._replace(limit=point.impulses.dofs.limit)
        start = start._replace(dofs=dofs)
        center = center._replace(impulses=start, imbalance=-system.push - rows.force(start))
    begin = _Loop(
        current=point if free is None else chosen(is_solved, free, point),
        center=center,
        best=_Best.of(center),
        share=jnp.full((), share, dtype),
        squares=jnp.full(system.memory, jnp.inf, dtype),
        tries=jnp.zeros((), jnp.int32),
        friction=budget,
        is_loose=jnp.zeros((), bool),
        steps=jnp.zeros((), jnp.int32),
        is_solved=is_solved,
    )

    def goes_on(loop: _Loop) -> Array:
        return ~loop.is_solved & (loop.steps < max_steps)

    end = while_loop(goes_on, lambda loop: _after_step(system, loop, exactness), begin)
    cut = functools.partial(cut_off, system, end.friction)
    point = if_needed(~end.is_solved, cut, (end.best, *rows.limited_drives()), end.current)
    return point, end.friction, end.steps, end.is_solved


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
    law = rows.linear(rows.none(), rates, budget, 1)
    still = jnp.zeros_like(change)
    point = Point(change, rates, rows.none(), largest(law.residual), still)
    accepted = exactness.accepted(system, point, change)
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
    """The point after a few sweeps, which keep the momentum but for rounding."""
    arguments = system.push, start.rates, start.impulses, budget, is_solved
    change, impulses = first_guess(system.rows, system.response, groups, *arguments)
    rates = sum_of(start.rates, system.rows.rates(change))
    return Point(change, rates, impulses, start.error, jnp.zeros_like(change))


def _after_step(system: StepSystem, loop: _Loop, exactness: Exactness) -> _Loop:
    """The state after a Newton step."""
    rows, center, share = system.rows, loop.center, loop.share
    step = _newton_step(system, loop)
    accepted = exactness.accepted(system, step.next, step.change)
    ends_there, tries = step.next.error <= accepted, loop.tries + 1
    try_length = functools.partial(_trial, system, loop, exactness, step)
    trial = _shortened(try_length, loop.squares, ~ends_there)
    is_exact = (trial.length == 1) & (
        trial.error <= jnp.maximum(_INEXACT * step.pulled, exactness.enough)
    )
    # Where contacts oppose each other, others may hold about the next centre.
    is_nearer = step.next.error <= jnp.maximum(step.pulled, exactness.enough)
    takes_next = ends_there | is_exact & is_nearer
    end = chosen(takes_next, step.next, step.part(trial.length, trial.error + step.pulled))
    accepted = jnp.where(takes_next, accepted, trial.accepted)
    holds, loses = ends_there | is_exact & (end.error <= accepted), accepted < 0
    is_center = ends_there | is_exact
    fails = ~is_center & (tries >= _MAX_TRIES)
    is_last, returns, is_loose = holds, fails, loop.is_loose
    if exactness.loose is not None:
        is_loose = ~loses & (end.error <= accepted + exactness.loose)
        gains = is_loose & (end.error < _NEARER * center.error)
        is_last = holds | loop.is_loose & (fails | is_center & ~gains)
        returns = fails | is_last & ~holds
    friction = jnp.where(is_center, kinetic_budget(rows, loop.friction, end), loop.friction)
    # What was solved with other bounds of friction is not a solution.
    changes = jnp.any(friction != loop.friction)
    best = chosen(end.error < loop.best.error, _Best.of(end), loop.best)
    squares = jnp.concatenate([loop.squares[1:], trial.squares[None]])
    squares = jnp.where(tries == 1, trial.squares, squares)
    # Stiffer rows than rounding allows lose momentum.
    softer = jnp.minimum(_SOFTER * share, 1)
    after_center = jnp.where(loses, softer, _next_share(rows, end, share))
    after_none = jnp.where(fails, jnp.maximum(softer, _SOFT), share)
    return _Loop(
        current=chosen(returns, center, end),
        center=chosen(is_center, end, center),
        best=best._replace(error=jnp.where(changes, jnp.inf, best.error)),
        share=jnp.where(is_center, after_center, after_none),
        squares=jnp.where(is_center | fails, jnp.inf, squares),
        tries=jnp.where(is_center | fails, 0, tries),
        friction=friction,
        is_loose=jnp.where(is_center, is_loose & ~changes, loop.is_loose),
        steps=loop.steps + 1,
        is_solved=is_last & ~changes,
    )


def _next_share(rows: StepRows, point: Point, share: Array) -> Array:
    """The share about the next centre, after a solution."""
    least = _LEAST_SHARE.get(share.dtype.name, _LEAST_SHARE["float32"])
    scale = _FAR * largest(rows.velocities(point.impulses))
    far = point.error / jnp.where(scale > 0, scale, jnp.inf)
    stiffer = jnp.clip(far, _STIFFER * share, share)
    return jnp.maximum(stiffer, jnp.minimum(least, share))


class _NewtonStep(NamedTuple):
    """A Newton step about a centre, and another one with the same factors."""

    begin: Point
    whole: tuple[Array, Rates, Impulses]
    """What a step of length one adds to the velocity, the rates and the impulses."""
    imbalance: Array
    """The imbalance after it, [nv]."""
    pulled: Array
    """How far springs move their rows at its end, as a velocity, []."""
    next: Point
    """The end of both, with the laws' own residual."""
    change: Array
    """The change of the velocity from the beginning to this end, [nv]."""

    def part(self, length: Array, error: Array) -> Point:
        """The end of the first one with another length."""
        begin, step = self.begin, jax.tree.map(lambda part: length * part, self.whole)
        change, rates, impulses = sum_of((begin.change, begin.rates, begin.impulses), step)
        # The difference of both would be rounded as the larger one is.
        imbalance = (1 - length) * begin.imbalance + length * self.imbalance
        return Point(change, rates, impulses, error, imbalance)


def _newton_step(system: StepSystem, loop: _Loop) -> _NewtonStep:
    """A Newton step about the centre, and then one about its end as the next centre, from which
    springs do not pull: if the same rows hold, this is nearly always the solution.

    The second one also corrects what is rounded, since rows that hold are far stiffer than masses.
    """
    rows, begin, center, share = system.rows, loop.current, loop.center.impulses, loop.share
    law = rows.linear(begin.impulses, begin.rates, loop.friction, share, center)
    slopes, solve = law.slopes, system.factorized(law.slopes)
    # The force of their sum would round away small changes of large impulses.
    first = -solve(begin.imbalance - rows.force(law.change))
    moved = rows.rates(first)
    added = sum_of(law.change, slopes.changes(moved))
    change, rates, impulses = sum_of(
        (begin.change, begin.rates, begin.impulses), (first, moved, added)
    )
    imbalance = system.imbalance(change, impulses)
    whole = first, moved, added
    springs = rows.rates_of_rows(rows.apart(impulses, center))
    released = slopes.answers(jax.tree.map(lambda rate: -share * rate, springs))
    second = -solve(imbalance - rows.force(released))
    moved = rows.rates(second)
    added = sum_of(released, slopes.changes(moved))
    change, rates, impulses = sum_of((change, rates, impulses), (second, moved, added))
    error = largest(rows.linear(impulses, rates, loop.friction, 1).residual)
    end = Point(change, rates, impulses, error, system.imbalance(change, impulses))
    pulled = share * largest(springs)
    return _NewtonStep(begin, whole, imbalance, pulled, end, first + second)


class _Trial(NamedTuple):
    """A Newton step of some length."""

    length: Array
    error: Array
    """The largest residual about the centre, as a velocity, []."""
    squares: Array
    """The sum of the squares of all residuals about it, []."""
    accepted: Array
    """See :class:`Exactness`, []."""


def _trial(
    system: StepSystem, loop: _Loop, exactness: Exactness, step: _NewtonStep, length: Array
) -> _Trial:
    point, center = step.part(length, jnp.zeros_like(length)), loop.center.impulses
    law = system.rows.linear(point.impulses, point.rates, loop.friction, loop.share, center)
    accepted = exactness.accepted(system, point, length * step.whole[0])
    return _Trial(length, largest(law.residual), jnp.sum(law.residual**2), accepted)


def _shortened(trial_of: Callable[[Array], _Trial], squares: Array, is_needed: Array) -> _Trial:
    """A step of the length one, half of it and so on, which leaves residuals clearly smaller than
    the largest after the last steps, or the best of those that were tried.
    """
    least, most = 0.5 ** (_MAX_HALVINGS - 0.5), jnp.max(squares)
    one, infinite = jnp.ones_like(most), jnp.full_like(most, jnp.inf)

    def is_long(tried: tuple[_Trial, Array]) -> Array:
        best, length = tried
        is_large = (length == 1) | (best.squares > _SMALLER * most)
        return is_needed & is_large & (length > 0.5 * least)

    def halve(tried: tuple[_Trial, Array]) -> tuple[_Trial, Array]:
        best, length = tried
        trial = trial_of(length)
        return chosen(trial.squares < best.squares, trial, best), 0.5 * length

    begin = _Trial(one, infinite, infinite, -one)
    return while_loop(is_long, halve, (begin, one))[0]


def cut_off(system: StepSystem, friction: Array, unsolved: tuple[_Best, Array, Array]) -> Point:
    """A point that is not solved, with impulses within their bounds, of which only drives add
    energy.
    """
    rows, (point, gain, pushed) = system.rows, unsolved
    impulses = rows.admissible(point.impulses, point.rates, friction)
    # Drives with limits act as forces that are known: what else changes the velocity must not make
    # them larger.
    gains = with_rows(rows.still, rows.places, gain)
    answer = system.with_diagonal(-gains) if system.limits_drives else system.response.to
    driving = rows.driving(impulses)
    before = pushed - gain * take(system.velocity, rows.places)
    whole = driving._replace(dofs=driving.dofs._replace(drive=driving.dofs.drive - before))
    driven = answer(system.push + rows.force(whole))
    passive = jax.tree.map(jnp.subtract, impulses, driving)
    force = rows.force(passive)
    change = answer(force)
    # Impulses work along the mean of the velocities before and after.
    work = jnp.sum(force * (system.velocity + 0.5 * driven))
    twice = jnp.sum(force * change)
    forced = 0.5 * jnp.sum(driven * (matmul(system.matrix, driven) - gains * driven))
    allowed = _SMALL_ENERGY * forced + rows.returned_energy(impulses)
    excessive = work + 0.5 * twice > allowed
    # The share that leaves least energy. Twice of it would leave what there was: a bounce.
    least = jnp.clip(-work / jnp.where(excessive, twice, 1), 0, 1)
    share = jnp.where(excessive, least, 1)
    impulses = sum_of(driving, jax.tree.map(lambda part: share * part, passive))
    change = driven + share * change
    rates = rows.rates(system.velocity + change)
    drive = impulses.dofs.drive - (pushed - gain * rates.dofs)
    impulses = impulses._replace(dofs=impulses.dofs._replace(drive=drive))
    change = jnp.where(_is_known(rows, impulses, rates, friction), change, jnp.nan)
    return Point(change, rates, impulses, point.error, jnp.zeros_like(change))


def _is_known(rows: StepRows, impulses: Impulses, rates: Rates, friction: Array) -> Array:
    """Whether all numbers of the laws are known, [].

    With NaN as a gap or a friction no Newton step is better than none, as if nothing touched.
    """
    residual = largest(rows.linear(impulses, rates, friction, 1).residual)
    if rows.contacts is None:
        return ~jnp.isnan(residual)
    return ~jnp.isnan(residual) & jnp.all(rows.contacts.each.friction < jnp.inf)


def static_budget(rows: StepRows) -> Array:
    """The largest impulses of friction of DOFs at rest, [n]."""
    friction = rows.dofs.friction
    return jnp.maximum(friction.static, friction.dynamic) * rows.sweep.dt


def friction_budget(system: StepSystem, budget: Array) -> Array | None:
    """The largest impulses of friction at a solution, known to be zero for DOFs without friction;
    ``None`` if none has any.
    """
    if not system.has_friction:
        return None
    return jnp.where(static_budget(system.rows) > 0, budget, 0)


def kinetic_budget(rows: StepRows, budget: Array, point: Point) -> Array:
    """The largest impulses of friction, which are dynamic where the static ones were not enough."""
    stopping = point.impulses.dofs.friction - point.rates.dofs / rows.dofs.response
    slips = jnp.abs(stopping) > budget * (1 + _SLIPS)
    return jnp.where(slips, rows.dofs.friction.dynamic * rows.sweep.dt, budget)


def largest(arrays: Any) -> Any:
    """The largest magnitude in a pytree; zero if it is empty."""
    leaves = jax.tree.leaves(arrays)
    parts = [jnp.max(jnp.abs(leaf)) for leaf in leaves if leaf.size]
    return functools.reduce(jnp.maximum, parts) if parts else jnp.zeros((), leaves[0].dtype)


def sum_of(a: Any, b: Any) -> Any:
    """The sum of two pytrees."""
    return jax.tree.map(jnp.add, a, b)
