"""All bounds on the velocity of an implicit step, and the residuals of their laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul, take
from artix.model.topology import Topology
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.sweep import Sweep, implicit_sweep
from artix.simulation.implicit.contact_derivatives import ContactEquations
from artix.simulation.implicit.contact_newton import law_derivatives
from artix.simulation.implicit.contact_rows import ContactRows, contact_imbalance, contact_rates
from artix.simulation.implicit.derivatives import ActingBounds
from artix.simulation.implicit.distance_rows import DistanceRow, distance_imbalance, distance_slope
from artix.simulation.implicit.dof_rows import BoundImpulses, BoundRow, bound_imbalance
from artix.simulation.implicit.members import dof_places, elimination_order
from artix.simulation.implicit.system import Response

Array = jax.Array


class TreeSystem(NamedTuple):
    """The step's linear system, where its matrix has the pattern of the tree."""

    matrix: Array
    """[nv, nv]."""
    weight: Array
    """Change of each coordinate per unit impulse on it, [nv]; see :mod:`artix.simulation.implicit.system`."""
    start: Array
    """Coordinates of the velocity at the start of the step, [nv]."""
    motion: Array
    """Derivatives of the link motions by the generalised velocity, [S, nv]."""


class Bounds(NamedTuple):
    """All rows."""

    dofs: BoundRow
    """Rows of all DOFs."""
    distances: DistanceRow | None = None
    """Rows of loop joints' distances."""
    contacts: ContactRows | None = None
    system: TreeSystem | None = None
    """``None`` without contacts, or if hard relations or tendons couple everything."""

    def in_coordinates(
        self, response: Response, velocity: Array, places: np.ndarray, matrix: Array, at_start: Array
    ) -> Bounds:
        """The rows in terms of coordinates of the change of velocity.

        Args:
          response: the response to impulses, which defines the coordinates.
          velocity: the generalised velocity at zero coordinates, [nv].
          places: indices of the DOFs in the generalised velocity.
          matrix: of the step's linear system, [nv, nv].
          at_start: coordinates of the velocity at the start of the step, [nv].
        """
        contacts, system = self.contacts, None
        if contacts is not None:
            links = contacts.links
            system = TreeSystem(matrix, response.weight, at_start, links.direction)
            reading, start = response.reading(links.direction), links.of(velocity)
            contacts = contacts._replace(links=links.replace(direction=reading, start=start))
        assert response.left is not None
        dofs = self.dofs._replace(reading=take(response.left, places, 0), start=take(velocity, places))
        return self._replace(dofs=dofs, contacts=contacts, system=system)

    def laws(self) -> Bounds:
        """The parts of the rows that enter the laws. Responses do not: they only scale the corrections of sweeps."""
        dofs: Any = self.dofs
        distances: Any = self.distances
        contacts: Any = self.contacts
        dofs = dofs._replace(effect=None, response=None, drive=dofs.drive._replace(response=None, softened=None))
        if distances is not None:
            distances = distances._replace(effect=None, response=None)
        if contacts is not None:
            links = contacts.links.replace(effect=None, coupling=None)
            each = contacts.each._replace(block=None, sticking=None, tangential=None, normal=None)
            contacts = ContactRows(links, each)
        return Bounds(dofs, distances, contacts)


class Impulses(NamedTuple):
    """The impulses of all rows. Derivatives are right for the total of each row."""

    dofs: BoundImpulses
    distances: Array
    """Impulses of distances, positive at the lower bounds, [D]."""
    contacts: Array
    """Impulses of contacts, two tangential ones and then the normal one, [K, 3]."""


class Swept(NamedTuple):
    """The result of the sweeps."""

    velocity: Array
    """The generalised velocity, or coordinates of its change, [nv]."""
    impulses: Impulses
    """The impulses, in the order of the rows."""
    corrections: Array
    """Corrections of the rows' velocities in the last sweep."""


class Sweeps(NamedTuple):
    """The static parameters of the sweeps: ``repetitions`` over all rows."""

    places: tuple[int, ...]
    """Indices of the DOFs in the generalised velocity."""
    repetitions: int
    newton_steps: int
    """Number of Newton steps on the laws of all rows after these sweeps."""
    drive_limits_are_forces: bool
    elimination: tuple[int, ...]
    """The entries of the velocity from the leaves to the root."""

    def over(self, dt: Array) -> Sweep:
        """One sweep over a step of length ``dt``."""
        return implicit_sweep(dt, drive_limits_are_forces=self.drive_limits_are_forces)

    def dofs(self, velocity: Array) -> Array:
        """The DOFs' entries of a generalised velocity."""
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
    """The equation for the changes of all rows' impulses, and the rows' effects, [R, nv]."""
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


def sweeps_of(trees: Sequence[Topology], options: SolverOptions) -> Sweeps:
    """The static parameters of the sweeps."""
    places, elimination = (tuple(order(trees).tolist()) for order in (dof_places, elimination_order))
    newton_steps = 2 if options.contact_iterations is None else options.contact_iterations
    counts = (options.position_iterations, newton_steps)
    return Sweeps(places, *counts, options.drive_limits_are_forces, elimination)
