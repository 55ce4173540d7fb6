"""Linear equations of the derivatives of a step.

The changes v of the velocity and x of the impulses of all rows obey the linear equations::

    M v - J^T x = missing momentum                   [nv]
    own x + slope J v = missing                      for each DOF and bound
    -by_impulse x - by_rate J v = missing            for each contact, three rows at once

A little is added to the rows of the laws, which makes x a function of v even where a bound holds,
and leaves the matrix of the solver's Newton steps. Proximal iterations then remove the effect of
what was added, as far as the equations can be met. Redundant rows, such as those of a table's four
feet, leave open how impulses are shared; v is well defined.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul
from artix.math.gaussian_elimination import lu_factorize, refined
from artix.simulation.implicit.contact_rows import (
    contact_imbalance,
    inverses,
    law_derivatives,
    product,
    times,
    times_transposed,
)
from artix.simulation.implicit.joint_rows import BoundImpulses, bound_imbalance
from artix.simulation.implicit.rows import Impulses, Rates, Slopes, StepRows

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
    own_dofs: Array
    slope_bounds: Array
    own_bounds: Array
    by_impulse: Array
    """[K, 3, 3]."""
    by_rate: Array
    """[K, 3, 3]."""

    def solve(self, order: np.ndarray, right: Changes) -> Changes:
        """The changes for these right-hand sides, eliminated in this order of the velocity's
        entries.
        """
        regularized = _Regularized.of(jax.lax.stop_gradient(self), order)
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
            self.own_dofs * x.dofs + self.slope_dofs * rates.dofs,
            self.own_bounds * x.bounds + self.slope_bounds * rates.bounds,
            -times(self.by_rate, rates.contacts) - times(self.by_impulse, x.contacts),
        )

    def apply_transposed(self, x: Changes) -> Changes:
        """The left-hand sides of the transposed equations."""
        rates = self.rows.rates(x.velocity)
        answer = -times_transposed(self.by_rate, x.contacts)
        pushed = self.push(self.slope_dofs * x.dofs, self.slope_bounds * x.bounds, answer)
        return Changes(
            matmul(x.velocity, self.matrix) + pushed,
            self.own_dofs * x.dofs - rates.dofs,
            self.own_bounds * x.bounds - rates.bounds,
            -rates.contacts - times_transposed(self.by_impulse, x.contacts),
        )

    def push(self, dofs: Array, bounds: Array, contacts: Array) -> Array:
        """The generalised impulse [nv] of impulses on the rows."""
        zero = jnp.zeros_like(dofs)
        return self.rows.force(Impulses(BoundImpulses(dofs, zero, zero), bounds, contacts))


class _Regularized(NamedTuple):
    """The equations with a little added, factorised."""

    equations: RowEquations
    order: np.ndarray
    inverse_dofs: Array
    inverse_bounds: Array
    inverse_law: Array
    factors: Any

    @classmethod
    def of(cls, equations: RowEquations, order: np.ndarray) -> _Regularized:
        added, by_impulse = _REGULARIZATION, equations.by_impulse
        inverse_dofs = 1 / (equations.own_dofs + added)
        inverse_bounds = 1 / (equations.own_bounds + added)
        inverse_law = by_impulse
        if len(by_impulse):
            inverse_law = inverses(added * jnp.eye(3, dtype=by_impulse.dtype) - by_impulse)
        zero = jnp.zeros_like(inverse_dofs)
        slopes = Slopes(
            BoundImpulses(inverse_dofs * equations.slope_dofs, zero, zero),
            inverse_bounds * equations.slope_bounds,
            -product(inverse_law, equations.by_rate),
        )
        matrix = equations.matrix + equations.rows.stiffness(slopes)
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
        return solve(right[self.order])[np.argsort(self.order)]


def law_residuals(rows: StepRows, impulses: Impulses, velocity: Array) -> Changes:
    """The residual of each row's law, as an impulse. Its derivatives are right; responses only
    scale them.
    """
    rates = rows.rates(velocity)
    dofs = bound_imbalance(rows.dofs, impulses.dofs, rates.dofs, rows.sweep)
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
    matrix: Array, rows: StepRows, impulses: Impulses, velocity: Array
) -> RowEquations:
    """The equations at a solution.

    Args:
      matrix: of the step's linear system, [nv, nv].
      rows: the rows.
      impulses: their impulses.
      velocity: the generalised velocity, [nv].
    """
    rates = rows.rates(velocity)

    def law(velocity: Array) -> Array:
        return bound_imbalance(rows.dofs, impulses.dofs, velocity, rows.sweep)

    slope = -jax.jvp(law, (rates.dofs,), (jnp.ones_like(rates.dofs),))[1]
    held, slope_bounds = rates.bounds, rates.bounds
    if rows.bounds is not None:
        held = _is_held(rows, impulses)
        slope_bounds = held / rows.bounds.response
    by_impulse = by_rate = jnp.zeros_like(velocity, shape=(0, 3, 3))
    if rows.contacts is not None:
        with_softness = _law_rates(rows, impulses, rates)
        by_impulse, by_rate = law_derivatives(rows.contacts.each, impulses.contacts, with_softness)
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
