"""Linear equations of the derivatives of a step.

The changes v of the velocity and x of the impulses of all rows obey the linear equations::

    M v - J^T x = missing momentum                   [nv]
    own x + slope J v = missing                      for each DOF and bound
    -by_impulse x - by_rate J v = missing            for each contact, three rows at once

A little is added to the rows of the laws, which makes x a function of v even where a bound holds,
and leaves the matrix of the solver's Newton steps. Proximal iterations then remove the effect of
what was added, as far as the equations can be met. Redundant rows, such as those of a table's four
feet, leave open how impulses are shared; v is well defined.

Signorini's and Coulomb's laws take the form of one equation for a contact's impulse ``x`` and
velocity ``u``, after Alart and Curnier: ``x_n = max(0, x_n - u_n / g_n)``, and ``x_t`` is the
projection of ``x_t - u_t / g_t`` onto the disc of radius ``friction x_n``. Its solutions do not
depend on the positive ``g``, and satisfy De Saxce's cone condition. It is differentiable wherever
the contact clearly sticks, slides or separates.

With smoothing, contacts push before they touch: ``x_n u_n = E`` replaces ``x_n u_n = 0``. This is
the stationarity condition of a logarithmic barrier ``-E log(gap)``, the central path of
interior-point methods.

Alart and Curnier, *A mixed formulation for frictional contact problems prone to Newton like
solution methods*, 1991.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import identity, matmul
from artix.math.gaussian_elimination import lu_by_library, lu_factorize, refined
from artix.math.tangents import without_derivatives
from artix.simulation.common.drives import Sweep
from artix.simulation.implicit.resolvents import BoundImpulses, BoundRow, ContactRow, drive_impulse
from artix.simulation.implicit.rows import (
    Impulses,
    Rates,
    Slopes,
    StepRows,
    inverses,
    product,
    times,
    times_transposed,
)

Array = jax.Array

#: Added to the laws, in units of a row's response to itself, in float64 as in float32. Corners of a
#: flat foot that is tilted by 1e-3 rad are not quite level, so sticking of all of them would forbid
#: it to tilt, by forces that the step does not find either. The iterations leave open what is as
#: weak as that; with 1e-9, derivatives took it for held.
_REGULARIZATION = 3e-5

#: They leave (3e-5 / s)^4 of a motion whose response is s times that of its rows alone: 8e-11 for s
#: = 1/100.
_ITERATIONS = 4


class Changes(NamedTuple):
    """Changes of the velocity and of impulses, or what the equations' right-hand sides are for
    them.
    """

    velocity: Array
    """[nv]."""
    dofs: Array
    """[n]."""
    bounds: Array
    """[E]."""
    contacts: Array
    """[K, 3]."""


class RowEquations(NamedTuple):
    """The linear equations of the changes."""

    matrix: Array
    """M, [nv, nv]."""
    rows: StepRows
    slope_dofs: Array
    """How a DOF's impulse answers its velocity, [n]."""
    diagonal_dofs: Array
    slope_bounds: Array
    diagonal_bounds: Array
    by_impulse: Array
    """[K, 3, 3]."""
    by_rate: Array
    """[K, 3, 3]."""

    def solve(self, order: np.ndarray | None, right: Changes) -> Changes:
        """The changes for these right-hand sides, eliminated in this order of the velocity's
        entries; ``None`` for a library's elimination, in programs of XLA's.
        """
        regularized = _Regularized.of(without_derivatives(self), order)
        shapes = [part.shape for part in right]
        ends = np.cumsum([part.size for part in right])[:-1]

        def joined(x: Changes) -> Array:
            return jnp.concatenate([part.reshape(-1) for part in x])

        def parted(x: Array) -> Changes:
            parts = zip(jnp.split(x, ends), shapes, strict=True)
            return Changes(*(part.reshape(shape) for part, shape in parts))

        def solve(_, b: Array) -> Array:
            return joined(refined(self.apply, regularized.solve, parted(b), _ITERATIONS))

        def solve_transposed(_, b: Array) -> Array:
            solve = regularized.solve_transposed
            return joined(refined(self.apply_transposed, solve, parted(b), _ITERATIONS))

        # One vector, since JAX transposes only systems whose whole right-hand side is linear in
        # what varies.
        whole = jax.lax.custom_linear_solve(
            lambda x: joined(self.apply(parted(x))), joined(right), solve, solve_transposed
        )
        return parted(whole)

    def apply(self, x: Changes) -> Changes:
        """The left-hand sides."""
        rates = self.rows.rates(x.velocity)
        return Changes(
            matmul(self.matrix, x.velocity) - self.push(x.dofs, x.bounds, x.contacts),
            self.diagonal_dofs * x.dofs + self.slope_dofs * rates.dofs,
            self.diagonal_bounds * x.bounds + self.slope_bounds * rates.bounds,
            -times(self.by_rate, rates.contacts) - times(self.by_impulse, x.contacts),
        )

    def apply_transposed(self, x: Changes) -> Changes:
        """The left-hand sides of the transposed equations."""
        rates = self.rows.rates(x.velocity)
        answer = -times_transposed(self.by_rate, x.contacts)
        pushed = self.push(self.slope_dofs * x.dofs, self.slope_bounds * x.bounds, answer)
        return Changes(
            matmul(x.velocity, self.matrix) + pushed,
            self.diagonal_dofs * x.dofs - rates.dofs,
            self.diagonal_bounds * x.bounds - rates.bounds,
            -rates.contacts - times_transposed(self.by_impulse, x.contacts),
        )

    def push(self, dofs: Array, bounds: Array, contacts: Array) -> Array:
        """The generalised impulse [nv] of impulses on the rows."""
        zero = jnp.zeros_like(dofs)
        return self.rows.force(Impulses(BoundImpulses(dofs, zero, zero), bounds, contacts))


class _Regularized(NamedTuple):
    """The equations with a little added, factorised."""

    equations: RowEquations
    order: np.ndarray | None
    inverse_dofs: Array
    inverse_bounds: Array
    inverse_law: Array
    factors: Any

    @classmethod
    def of(cls, equations: RowEquations, order: np.ndarray | None) -> _Regularized:
        added, by_impulse = _REGULARIZATION, equations.by_impulse
        inverse_dofs = 1 / (equations.diagonal_dofs + added)
        inverse_bounds = 1 / (equations.diagonal_bounds + added)
        inverse_law = by_impulse
        if len(by_impulse):
            inverse_law = inverses(added * identity(3, by_impulse.dtype) - by_impulse)
        zero = jnp.zeros_like(inverse_dofs)
        slopes = Slopes(
            BoundImpulses(inverse_dofs * equations.slope_dofs, zero, zero),
            inverse_bounds * equations.slope_bounds,
            -product(inverse_law, equations.by_rate),
        )
        matrix = equations.matrix + equations.rows.stiffness(slopes)
        if order is None:
            factors: Any = lu_by_library(matrix)
        else:
            factors = lu_factorize(matrix[np.ix_(order, order)])
        return cls(equations, order, inverse_dofs, inverse_bounds, inverse_law, factors)

    def solve(self, right: Changes) -> Changes:
        """The solution of the equations with what is added to them."""
        equations = self.equations
        dofs, bounds = self.inverse_dofs * right.dofs, self.inverse_bounds * right.bounds
        contacts = times(self.inverse_law, right.contacts)
        pushed = right.velocity + equations.push(dofs, bounds, contacts)
        velocity = self._in_order(self.factors.solve, pushed)
        rates = equations.rows.rates(velocity)
        return Changes(
            velocity,
            dofs - self.inverse_dofs * (equations.slope_dofs * rates.dofs),
            bounds - self.inverse_bounds * (equations.slope_bounds * rates.bounds),
            contacts + times(self.inverse_law, times(equations.by_rate, rates.contacts)),
        )

    def solve_transposed(self, right: Changes) -> Changes:
        """The solution of the transposed equations with what is added to them."""
        equations = self.equations
        dofs, bounds = self.inverse_dofs * right.dofs, self.inverse_bounds * right.bounds
        contacts = times_transposed(self.inverse_law, right.contacts)
        answer = equations.push(
            -equations.slope_dofs * dofs,
            -equations.slope_bounds * bounds,
            times_transposed(equations.by_rate, contacts),
        )
        velocity = self._in_order(self.factors.solve_transposed, right.velocity + answer)
        rates = equations.rows.rates(velocity)
        return Changes(
            velocity,
            dofs + self.inverse_dofs * rates.dofs,
            bounds + self.inverse_bounds * rates.bounds,
            contacts + times_transposed(self.inverse_law, rates.contacts),
        )

    def _in_order(self, solve, right: Array) -> Array:
        if self.order is None:
            return solve(right)
        return solve(right[self.order])[np.argsort(self.order)]


def law_residuals(
    rows: StepRows, impulses: Impulses, friction: Array | None, velocity: Array
) -> Changes:
    """The residual of each row's law, as an impulse. Its derivatives are right; responses only
    scale them.
    """
    rates = rows.rates(velocity)
    dofs = bound_imbalance(rows.dofs, impulses.dofs, friction, rates.dofs, rows.sweep)
    bounds = rates.bounds
    if rows.bounds is not None:
        bound = rows.bounds
        target = jnp.where(impulses.distances < 0, bound.upper, bound.lower)
        bounds = _is_held(rows, impulses) * (target - rates.bounds) / bound.response
    contacts = rates.contacts
    if rows.contacts is not None:
        each = rows.contacts.each
        with_softness = _law_rates(rows, impulses, rates)
        contacts = jax.vmap(contact_imbalance)(each, impulses.contacts, with_softness)
    return Changes(velocity[:0], dofs, bounds, contacts)


def row_equations(
    matrix: Array, rows: StepRows, impulses: Impulses, friction: Array | None, velocity: Array
) -> RowEquations:
    """The equations at a solution.

    Args:
      matrix: of the step's linear system, [nv, nv].
      rows: the rows.
      impulses: their impulses.
      friction: the largest friction impulses of DOFs, [n]; ``None`` without dry friction.
      velocity: the generalised velocity, [nv].
    """
    rates = rows.rates(velocity)

    def law(velocity: Array) -> Array:
        return bound_imbalance(rows.dofs, impulses.dofs, friction, velocity, rows.sweep)

    slope = -jax.jvp(law, (rates.dofs,), (jnp.ones_like(rates.dofs),))[1]
    held, slope_bounds = rates.bounds, rates.bounds
    if rows.bounds is not None:
        held = _is_held(rows, impulses)
        slope_bounds = held / rows.bounds.response
    by_impulse = by_rate = jnp.zeros_like(velocity, shape=(0, 3, 3))
    if rows.contacts is not None:
        with_softness = _law_rates(rows, impulses, rates)
        by_impulse, by_rate = _law_derivatives(rows.contacts.each, impulses.contacts, with_softness)
    rest = 1 - slope * rows.dofs.response
    return RowEquations(matrix, rows, slope, rest, slope_bounds, 1 - held, by_impulse, by_rate)


def _is_held(rows: StepRows, impulses: Impulses) -> Array:
    """1 for bounds that push and for hard relations, else 0, [E]."""
    bound = rows.bounds
    assert bound is not None
    held = (impulses.distances != 0) | (bound.lower == bound.upper)
    return held.astype(impulses.distances.dtype)


def _law_rates(rows: StepRows, impulses: Impulses, rates: Rates) -> Array:
    """The contacts' velocities in their laws, with what softness and gaps add, [K, 3]."""
    assert rows.contacts is not None
    each = rows.contacts.each
    added = each.approach + each.softness * impulses.contacts[:, 2]
    return rates.contacts.at[:, 2].add(added)


def bound_imbalance(
    row: BoundRow,
    impulses: BoundImpulses,
    largest: Array | None,
    velocity: Array,
    sweep: Sweep,
) -> Array:
    """The residual of a DOF's laws with its active bounds, as an impulse; zero at a solution.

    The laws are one equation for the DOF's velocity and total impulse, which together determine how
    both change. If a bound holds the DOF (sticking friction counts as one), its velocity equals the
    bound. Otherwise its impulse is that of the drive at this velocity plus that of sliding
    friction.

    Args:
      row: the DOF.
      impulses: its impulses, which tell which bounds are active.
      largest: its largest friction impulse; ``None`` without dry friction.
      velocity: its velocity with these impulses.
      sweep: the sweep.
    """
    budget, friction = row.friction.dynamic * sweep.dt, impulses.friction
    sticks = _sticks(row, impulses, largest, velocity)
    slides = jnp.where(sticks, 0, jnp.sign(friction)) * budget
    held = sticks | (impulses.limit != 0)
    # If friction and a limit hold it, the limit counts.
    bound = _active_bound(impulses.limit, row.lower_velocity, row.upper_velocity)
    drive = impulses.drive + friction - slides
    wanted = drive_impulse(row, velocity - row.response * drive, sweep)
    return jnp.where(held, (bound - velocity) / row.response, wanted - drive)


def _sticks(
    row: BoundRow, impulses: BoundImpulses, largest: Array | None, velocity: Array
) -> Array:
    """Whether dry friction holds a DOF.

    What static friction could stop slides all the same once the solver has taken it for sliding:
    a joint and its follower, of which one sticks no more, say.
    """
    if largest is None:
        return jnp.zeros(velocity.shape, bool)
    return jnp.abs(impulses.friction - velocity / row.response) < largest


def _active_bound(impulse: Array, lower: Array, upper: Array) -> Array:
    """The bound of a velocity at which its limit pushes; zero where none does."""
    return jnp.where(impulse < 0, upper, jnp.where(impulse > 0, lower, 0))


def contact_imbalance(row: ContactRow, impulse: Array, rate: Array) -> Array:
    """The residual [3] of the contact laws, as an impulse, at an impulse [3] and its velocity
    [3].
    """
    normal = _normal(row, impulse[2], rate[2])
    tangents = _within_disc(impulse[:2] - rate[:2] / row.tangential, row.friction * normal)
    return jnp.concatenate([tangents, normal[None]]) - impulse


def _law_derivatives(rows: ContactRow, impulse: Array, rate: Array) -> tuple[Array, Array]:
    """Derivatives of :func:`contact_imbalance` by the impulses, softness included, and by the
    rates, [K, 3, 3] each.
    """
    by_impulse, by_rate = jax.vmap(jax.jacfwd(contact_imbalance, (1, 2)))(rows, impulse, rate)
    return by_impulse.at[:, :, 2].add(by_rate[:, :, 2] * rows.softness[:, None]), by_rate


def _normal(row: ContactRow, impulse: Array, rate: Array) -> Array:
    """Solves the normal law, given that the rate changes by ``row.normal`` per impulse."""
    wanted = impulse - rate / row.normal
    if row.smoothing is None:
        return jnp.maximum(wanted, 0)
    # The positive root of x (x - wanted) = E / g, without cancellation.
    share = row.smoothing / row.normal
    root = jnp.sqrt(wanted**2 + 4 * share)
    return jnp.where(
        wanted > 0, 0.5 * (wanted + root), 2 * share / jnp.where(wanted > 0, 1, root - wanted)
    )


def _within_disc(vector: Array, radius: Array) -> Array:
    """Projects a vector [2] onto a disc around zero."""
    square = jnp.sum(vector**2)
    outside = square > radius**2
    length = jnp.sqrt(jnp.where(outside, square, 1))
    return vector * jnp.where(outside, radius / length, 1)
