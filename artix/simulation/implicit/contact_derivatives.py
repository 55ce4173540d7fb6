"""Linear equations of steps with contacts, solved along the tree: derivatives and Newton steps.

The changes v of the velocity and x of the impulses of all rows obey the linear equations::

    M v - J^T x = given                      the step's linear system, [nv]
    own x + slope v = missing                for each DOF
    -by_impulse x - by_rate J v = missing    for each contact, three rows at once

with the laws' derivatives of :mod:`artix.simulation.implicit.laws`. A little is added to the rows of the laws, which
makes x a function of v even where a bound holds. What is left has the pattern of M, because a contact with the ground
couples only what lies between its link and the root. Eliminated from the leaves to the root, a humanoid on two feet
takes a tenth of the operations that the dense matrix of its rows would. Proximal iterations then remove the effect of
what was added, as far as the equations can be met. Redundant rows, such as those of a table's four feet, leave open how
impulses are shared; v is well defined.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul
from artix.math.gaussian_elimination import LuFactors, lu_factorize, refined
from artix.simulation.implicit.blocks import inverses, product, times, times_transposed
from artix.simulation.implicit.contact_rows import ContactRows

Array = jax.Array

#: Added to the laws, in units of a row's response to itself, in float64 as in float32. Corners of a flat foot that is
#: tilted by 1e-3 rad are not quite level, so sticking of all of them would forbid it to tilt, by forces that the step
#: does not find either. The iterations leave open what is as weak as that; with 1e-9, derivatives took it for held.
_REGULARIZATION = 3e-5

#: They leave (3e-5 / s)^4 of a motion whose response is s times that of its rows alone: 8e-11 for s = 1/100.
_ITERATIONS = 4

#: Of Newton steps, whose residuals are computed without it.
_NEWTON_REGULARIZATION = 1e-3


class Changes(NamedTuple):
    """Changes of the velocity and of impulses, or what the equations' right-hand sides are for them."""

    velocity: Array
    """[nv]."""
    dofs: Array
    """[n]."""
    contacts: Array
    """[K, 3]."""

    @property
    def joined(self) -> Array:
        """As one vector."""
        return jnp.concatenate([self.velocity, self.dofs, self.contacts.reshape(-1)])


class ContactEquations(NamedTuple):
    """The linear equations of the changes."""

    matrix: Array
    """M, [nv, nv]."""
    places: np.ndarray
    """Of the DOFs in the velocity."""
    own: Array
    """[n]."""
    slope: Array
    """How a DOF's impulse answers its velocity, [n]."""
    contacts: ContactRows
    by_impulse: Array
    """[K, 3, 3]."""
    by_rate: Array
    """[K, 3, 3]."""

    def newton_change(self, order: np.ndarray, right: Changes) -> Changes:
        """An approximation of :meth:`solve` that is good enough for a Newton step."""
        return _Regularized.of(self, order, _NEWTON_REGULARIZATION).solve(right)

    def solve(self, order: np.ndarray, right: Changes) -> Changes:
        """The changes for these right-hand sides, eliminated in this order of the velocity's entries."""
        regularized = _Regularized.of(jax.lax.stop_gradient(self), order, _REGULARIZATION)
        ends = np.cumsum([len(right.velocity), len(right.dofs)])

        def parted(x: Array) -> Changes:
            velocity, dofs, contacts = jnp.split(x, ends)
            return Changes(velocity, dofs, contacts.reshape(-1, 3))

        def solve(_, b: Array) -> Array:
            return refined(self.apply, regularized.solve, parted(b), _ITERATIONS).joined

        def solve_transposed(_, b: Array) -> Array:
            return refined(self.apply_transposed, regularized.solve_transposed, parted(b), _ITERATIONS).joined

        # One vector, since JAX transposes only systems whose whole right-hand side is linear in what varies.
        whole = jax.lax.custom_linear_solve(
            lambda x: self.apply(parted(x)).joined, right.joined, solve, solve_transposed
        )
        return parted(whole)

    def apply(self, x: Changes) -> Changes:
        """The left-hand sides."""
        return Changes(
            matmul(self.matrix, x.velocity) - self.on_velocity(x.dofs, x.contacts),
            self.own * x.dofs + self.slope * x.velocity[self.places],
            -times(self.by_rate, self.rates(x.velocity)) - times(self.by_impulse, x.contacts),
        )

    def apply_transposed(self, x: Changes) -> Changes:
        """The left-hand sides of the transposed equations."""
        taken = self.on_velocity(self.slope * x.dofs, -times_transposed(self.by_rate, x.contacts))
        return Changes(
            matmul(x.velocity, self.matrix) + taken,
            self.own * x.dofs - x.velocity[self.places],
            -self.rates(x.velocity) - times_transposed(self.by_impulse, x.contacts),
        )

    def rates(self, velocity: Array) -> Array:
        """What a change of the velocity [nv] changes of those of contacts, [K, 3]."""
        return matmul(self.contacts.each.reach, matmul(self.contacts.links.direction, velocity))

    def on_velocity(self, dofs: Array, contacts: Array) -> Array:
        """The generalised impulse [nv] of impulses on DOFs [n] and on contacts [K, 3]."""
        on_links = self.contacts.on_links(contacts)
        return matmul(on_links, self.contacts.links.direction).at[self.places].add(dofs)


class _Regularized(NamedTuple):
    """The equations with a little added, factorised."""

    equations: ContactEquations
    order: np.ndarray
    inverse_own: Array
    inverse_law: Array
    factors: LuFactors

    @classmethod
    def of(cls, equations: ContactEquations, order: np.ndarray, added: float) -> _Regularized:
        by_impulse, contacts = equations.by_impulse, equations.contacts
        inverse_own = 1 / (equations.own + added)
        inverse_law = inverses(added * jnp.eye(3, dtype=by_impulse.dtype) - by_impulse)
        answer = -product(inverse_law, equations.by_rate)
        reach, direction = contacts.each.reach, contacts.links.direction
        size = len(direction)
        on_links = matmul(reach.reshape(-1, size).T, product(answer, reach).reshape(-1, size))
        matrix = equations.matrix + matmul(direction.T, matmul(on_links, direction))
        matrix = matrix.at[equations.places, equations.places].add(inverse_own * equations.slope)
        factors = lu_factorize(matrix[np.ix_(order, order)])
        return cls(equations, order, inverse_own, inverse_law, factors)

    def solve(self, right: Changes) -> Changes:
        """The solution of the equations with what is added to them."""
        equations = self.equations
        dofs, contacts = self.inverse_own * right.dofs, times(self.inverse_law, right.contacts)
        pushed = right.velocity + equations.on_velocity(dofs, contacts)
        velocity = self._in_order(self.factors.solve, pushed)
        answer = times(equations.by_rate, equations.rates(velocity))
        return Changes(
            velocity,
            dofs - self.inverse_own * (equations.slope * velocity[equations.places]),
            contacts + times(self.inverse_law, answer),
        )

    def solve_transposed(self, right: Changes) -> Changes:
        """The solution of the transposed equations with what is added to them."""
        equations = self.equations
        dofs = self.inverse_own * right.dofs
        contacts = times_transposed(self.inverse_law, right.contacts)
        answer = equations.on_velocity(-equations.slope * dofs, times_transposed(equations.by_rate, contacts))
        velocity = self._in_order(self.factors.solve_transposed, right.velocity + answer)
        moved = times_transposed(self.inverse_law, equations.rates(velocity))
        return Changes(velocity, dofs + self.inverse_own * velocity[equations.places], contacts + moved)

    def _in_order(self, solve, right: Array) -> Array:
        return solve(right[self.order])[np.argsort(self.order)]
