"""All bounds of an implicit step's velocity, and the residuals of their laws."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul, take
from artix.simulation.common.sweep import Sweep, implicit_sweep
from artix.simulation.implicit.contact_derivatives import ContactEquations
from artix.simulation.implicit.contact_newton import law_derivatives
from artix.simulation.implicit.contact_rows import ContactRows, contact_imbalance, contact_rates
from artix.simulation.implicit.derivatives import ActingBounds
from artix.simulation.implicit.impulses import (
    BoundImpulses,
    BoundRow,
    DistanceRow,
    bound_imbalance,
    distance_imbalance,
    distance_slope,
)
from artix.simulation.implicit.response import Response

Array = jax.Array


class Bounds(NamedTuple):
    """The rows, in the order of the sweep."""

    dofs: BoundRow
    """All DOFs."""
    distances: DistanceRow | None = None
    """Of loop joints."""
    contacts: ContactRows | None = None

    def in_coordinates(self, response: Response, velocity: Array, places: np.ndarray | Array) -> Bounds:
        """As coordinates of the velocity's change see them.

        Args:
          response: to impulses, whose coordinates these are.
          velocity: the generalised velocity where they are zero, [nv].
          places: of the DOFs in it.
        """
        contacts = self.contacts
        if contacts is not None:
            links = contacts.links
            reading, start = response.reading(links.direction), links.of(velocity)
            contacts = contacts._replace(links=links._replace(direction=reading, start=start))
        assert response.left is not None
        dofs = self.dofs._replace(reading=take(response.left, places, 0), start=take(velocity, places))
        return self._replace(dofs=dofs, contacts=contacts)

    def laws(self) -> Bounds:
        """Of changes of the rows those of the laws, which contain no response: it only says how far a sweep goes."""
        dofs: Any = self.dofs
        distances: Any = self.distances
        contacts: Any = self.contacts
        dofs = dofs._replace(effect=None, response=None, drive=dofs.drive._replace(response=None, softened=None))
        if distances is not None:
            distances = distances._replace(effect=None, response=None)
        if contacts is not None:
            links = contacts.links._replace(effect=None, coupling=None)
            each = contacts.each._replace(block=None, sticking=None, tangential=None, normal=None)
            contacts = ContactRows(links, each)
        return Bounds(dofs, distances, contacts)


class Impulses(NamedTuple):
    """What the sweeps have applied; derivatives are right for the sum of one row's impulses."""

    dofs: BoundImpulses
    distances: tuple[Array, Array]
    """Of the lower and upper bounds, [D] each."""
    contacts: Array
    """Two tangential ones, then the normal one, [K, 3]."""


class Sweeps(NamedTuple):
    """What is static about them: as often as ``repetitions`` say, row by row."""

    places: tuple[int, ...]
    """Of the DOFs in the velocity."""
    repetitions: int
    newton_steps: int
    """On the laws of all contacts after these sweeps, each followed by one more sweep."""
    drive_limits_are_forces: bool

    def over(self, dt: Array) -> Sweep:
        """One of them, over a step of length ``dt``."""
        return implicit_sweep(dt, drive_limits_are_forces=self.drive_limits_are_forces)

    def dofs(self, velocity: Array) -> Array:
        """The DOFs' own entries of a generalised velocity."""
        return velocity[jnp.array(self.places, int)]


def imbalances(sweeps: Sweeps, impulses: Impulses, bounds: Bounds, velocity: Array, dt: Array) -> Array:
    """The residual of each row's law, as an impulse, [R]."""
    missing = [bound_imbalance(bounds.dofs, impulses.dofs, sweeps.dofs(velocity), sweeps.over(dt))]
    if bounds.distances is not None:
        rates = matmul(bounds.distances.direction, velocity)
        missing.append(distance_imbalance(bounds.distances, impulses.distances, rates))
    if bounds.contacts is not None:
        each = bounds.contacts.each
        rates = contact_rates(each, impulses.contacts, bounds.contacts.links.of(velocity))
        missing.append(jax.vmap(contact_imbalance)(each, impulses.contacts, rates).reshape(-1))
    return jnp.concatenate(missing)


def acting_bounds(
    sweeps: Sweeps, impulses: Impulses, bounds: Bounds, velocity: Array, dt: Array
) -> tuple[ActingBounds, Array]:
    """The equation of the changes of all rows' impulses, and these rows' effects, [R, nv]."""
    places, response = np.array(sweeps.places, int), bounds.dofs.response
    slope = _slope_of_dofs(sweeps, impulses, bounds, velocity, dt)
    effects, others = [bounds.dofs.effect], []
    if bounds.distances is not None:
        response = jnp.concatenate([response, bounds.distances.response])
        slope = jnp.concatenate([slope, distance_slope(bounds.distances, impulses.distances)])
        effects.append(bounds.distances.effect)
        others.append(bounds.distances.direction)
    by_contact = None
    if bounds.contacts is not None:
        by_contact = _law_derivatives(bounds.contacts, impulses, velocity)
        effects.append(bounds.contacts.effect)
        others.append(bounds.contacts.direction)
    effect = jnp.concatenate(effects)
    coupling = take(effect, places)
    if others:
        coupling = jnp.concatenate([coupling, matmul(effect, jnp.concatenate(others).T)], axis=1)
    return ActingBounds(coupling, slope, response, by_contact), effect


def contact_equations(
    sweeps: Sweeps, impulses: Impulses, bounds: Bounds, velocity: Array, dt: Array, matrix: Array
) -> ContactEquations:
    """The equations of all changes where there are contacts, and DOFs move by the step's linear system alone."""
    assert bounds.contacts is not None
    slope = _slope_of_dofs(sweeps, impulses, bounds, velocity, dt)
    by_contact = _law_derivatives(bounds.contacts, impulses, velocity)
    own = 1 - slope * bounds.dofs.response
    return ContactEquations(matrix, np.array(sweeps.places, int), own, slope, bounds.contacts, *by_contact)


def _slope_of_dofs(sweeps: Sweeps, impulses: Impulses, bounds: Bounds, velocity: Array, dt: Array) -> Array:
    """How the impulses of DOFs answer their velocities, [n]."""
    own = sweeps.dofs(velocity)

    def law(own: Array) -> Array:
        return bound_imbalance(bounds.dofs, impulses.dofs, own, sweeps.over(dt))

    return -jax.jvp(law, (own,), (jnp.ones_like(own),))[1]


def _law_derivatives(contacts: ContactRows, impulses: Impulses, velocity: Array) -> tuple[Array, Array]:
    """See :func:`law_derivatives`."""
    rates = contact_rates(contacts.each, impulses.contacts, contacts.links.of(velocity))
    return law_derivatives(contacts.each, impulses.contacts, rates)
