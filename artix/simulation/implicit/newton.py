"""Newton's method on the laws of all DOFs and contacts at once.

Gauss-Seidel sweeps pass impulses from row to row. Where a light arm is caught between the ground and its joint limits,
that takes hundreds of sweeps. A Newton step solves the laws of all rows together, each linearised as its row would act
alone: a limit that pushes, a joint that sticks, a contact that sticks, slides or separates. The equations are those of
:mod:`artix.simulation.implicit.contact_derivatives`, so they are eliminated along the tree.

This is the primal-dual active set method, a semismooth Newton method. It need not converge from everywhere, so sweeps
come first, and the best iterate is kept.

Hintermueller, Ito, Kunisch, *The primal-dual active set strategy as a semismooth Newton method*, 2002; Alart and
Curnier, *A mixed formulation for frictional contact problems prone to Newton like solution methods*, 1991.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul
from artix.simulation.implicit.contact_derivatives import Changes, ContactEquations
from artix.simulation.implicit.contact_newton import law_derivatives
from artix.simulation.implicit.contact_rows import contact_residuals
from artix.simulation.implicit.dof_rows import BoundImpulses, bound_imbalance, solve_bounds, with_change
from artix.simulation.implicit.laws import Bounds, Impulses, Sweeps, Swept

Array = jax.Array


class Residuals(NamedTuple):
    """What the rows would change by themselves."""

    dofs: BoundImpulses
    """Impulses of each DOF that satisfy its laws while all other impulses stay as they are."""
    change: Array
    """The change to these of each DOF's total, [n]."""
    velocity: Array
    """The DOFs' velocities with this change of their own impulse, [n]."""
    rates: Array
    """Rates of the contacts in their laws, [K, 3]."""
    contacts: Array
    """Residuals of the contacts' laws, [K, 3]."""
    size: Array
    """The sum of the squares of all, as velocities."""


def residuals(sweeps: Sweeps, bounds: Bounds, dt: Array, now: Swept) -> Residuals:
    """How far velocity and impulses are from the laws.

    Args:
      sweeps: the kind of sweeps.
      bounds: the bounds, with contacts, in coordinates of the change of velocity.
      dt: the step [s].
      now: coordinates and impulses.
    """
    row, contacts, sweep = bounds.dofs, bounds.contacts, sweeps.over(dt)
    assert contacts is not None
    assert row.reading is not None
    assert row.start is not None
    velocity = row.start + matmul(row.reading, now.velocity)
    alone = jax.vmap(lambda row, old, own: solve_bounds(row, old, own, sweep))
    dofs, change = alone(row, now.impulses.dofs, velocity)
    rates, imbalance, speeds = contact_residuals(contacts, now.impulses.contacts, now.velocity)
    moved = row.response * change
    size = jnp.sum(moved**2) + jnp.sum(speeds**2)
    return Residuals(dofs, change, velocity + moved, rates, imbalance, size)


def newton_step(sweeps: Sweeps, bounds: Bounds, dt: Array, now: Swept, found: Residuals) -> Swept:
    """The coordinates and impulses that solve the linearised laws; ``found`` are the :func:`residuals` of ``now``."""
    row, contacts, system, sweep = bounds.dofs, bounds.contacts, bounds.system, sweeps.over(dt)
    impulses = now.impulses
    assert contacts is not None
    assert system is not None

    def law(velocity: Array) -> Array:
        return bound_imbalance(row, found.dofs, velocity, sweep)

    missing, rise = jax.jvp(law, (found.velocity,), (jnp.ones_like(found.velocity),))
    by_impulse, by_rate = law_derivatives(contacts.each, impulses.contacts, found.rates)
    equations = ContactEquations(
        matrix=system.matrix,
        places=np.array(sweeps.places, int),
        own=1 + rise * row.response,
        slope=-rise,
        contacts=contacts._replace(links=contacts.links.replace(direction=system.motion)),
        by_impulse=by_impulse,
        by_rate=by_rate,
    )
    # The unknowns are changes since before the DOFs' own. At those, a DOF's law holds up to what is ``missing``.
    right = Changes(jnp.zeros_like(now.velocity), missing + found.change, found.contacts)
    change = equations.newton_change(np.array(sweeps.elimination, int), right)
    dofs = with_change(row, found.dofs, found.velocity, change.dofs - found.change, sweep)
    # The velocity follows from the impulses, not from the equations, which are regularised.
    moved = matmul(contacts.on_links(change.contacts), contacts.links.effect)
    moved = moved + matmul(dofs.total - impulses.dofs.total, row.effect)
    impulses = Impulses(dofs, impulses.distances, impulses.contacts + change.contacts)
    return now._replace(velocity=now.velocity + moved, impulses=impulses)
