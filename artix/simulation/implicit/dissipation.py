"""Impulses of limits, dry friction and contacts that do not add energy.

Let the step's forces change the velocity from v to ``v + a``, and passive impulses p to ``v + a + R p``, where R is the
response. To first order in the step, energy then grows by ``v.p + p.R p / 2 - a.R^-1 a / 2``. This is negative for
impulses that satisfy the laws, unless they undo a penetration. After a few iterations it can be positive, mostly when
many joints hit their limits while hands and feet hit the ground. All passive impulses are then made smaller by one
factor, which leaves them within their cones.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.simulation.implicit.contact_rows import ContactRow
from artix.simulation.implicit.dof_rows import BoundImpulses, BoundRow
from artix.simulation.implicit.laws import Bounds, Impulses, Swept

Array = jax.Array

#: Energy that counts as rounding, as a share of what the step's forces would give a body at rest.
_TOLERANCE = 1e-3


def without_added_energy(bounds: Bounds, now: Swept) -> Swept:
    """Makes all passive impulses smaller by one factor if they add energy.

    Args:
      bounds: the bounds, with contacts, in coordinates of the change of velocity.
      now: coordinates and impulses. The impulses of drives stay as they are.
    """
    row, contacts, system = bounds.dofs, bounds.contacts, bounds.system
    assert contacts is not None
    assert system is not None
    assert row.start is not None
    assert contacts.links.start is not None
    dofs, spans, pushes = now.impulses
    on_links = contacts.on_links(pushes)
    driven = matmul(dofs.drive, row.effect)
    change = now.velocity - driven
    # Velocities at zero coordinates, and what leads from there to the velocity at the start of the step.
    work = jnp.sum((dofs.total - dofs.drive) * row.start) + jnp.sum(on_links * contacts.links.start)
    work = work + jnp.sum(change * system.start / system.weight)
    twice = jnp.sum(change**2 / system.weight)
    forced = 0.5 * jnp.sum((system.start - driven) ** 2 / system.weight)
    allowed = (1 + _TOLERANCE) * forced + _energy_of_limits(row, dofs)
    allowed = allowed + jnp.sum(jax.vmap(_energy_of_contact)(contacts.each, pushes[:, 2]))
    excessive = work + 0.5 * twice > allowed
    # The share s that solves s work + s^2 twice / 2 = allowed.
    root = jnp.sqrt(jnp.where(excessive, work**2 + 2 * twice * allowed, 1))
    share = jnp.where(excessive, (root - work) / jnp.where(excessive, twice, 1), 1)
    kept = BoundImpulses(dofs.drive, share * dofs.friction, share * dofs.limit)
    velocity = jnp.where(excessive, driven + share * change, now.velocity)
    return now._replace(velocity=velocity, impulses=Impulses(kept, spans, share * pushes))


def _energy_of_limits(row: BoundRow, impulses: BoundImpulses) -> Array:
    """What returning into the limits takes, with the inertia that each DOF alone has."""
    back = jnp.maximum(jnp.where(impulses.limit > 0, row.lower_velocity, -row.upper_velocity), 0)  # zero within them
    return jnp.sum(jnp.minimum(jnp.abs(impulses.limit) * back, 0.5 * back**2 / row.response))


def _energy_of_contact(row: ContactRow, impulse: Array) -> Array:
    """What separation takes, with the inertia that a contact alone has. A compliant one gives back what it stored."""
    apart = jnp.maximum(-row.approach, 0)
    given = impulse * apart
    return jnp.where(row.softness > 0, given, jnp.minimum(given, 0.5 * apart**2 / row.normal))
