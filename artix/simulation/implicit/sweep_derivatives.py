"""Tangents of what the sweeps find, from the equations that converged impulses satisfy."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul
from artix.math.tangents import directional_derivative, value_and_change
from artix.model.topology import Topology
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_derivatives import Changes
from artix.simulation.implicit.contact_rows import ContactRows
from artix.simulation.implicit.derivatives import impulse_changes
from artix.simulation.implicit.dof_rows import BoundImpulses
from artix.simulation.implicit.laws import (
    Bounds,
    Impulses,
    Sweeps,
    Swept,
    acting_bounds,
    contact_equations,
    imbalances,
    sweeps_of,
)

Array = jax.Array


def follow_bounds(
    trees: Sequence[Topology],
    options: SolverOptions,
    found: Swept,
    d_velocity: Array,
    now: tuple[Bounds, Array],
    change: tuple[Bounds, Array],
) -> Swept:
    """The tangent of the result of the sweeps.

    Args:
      trees: the topologies of the articulations.
      options: options of the solver.
      found: the result of the sweeps.
      d_velocity: tangent of the velocity at fixed impulses, [nv].
      now: the bounds, and the length of the step [s].
      change: tangents of both.
    """
    (bounds, dt), (d_bounds, d_dt) = now, change
    return followed(sweeps_of(trees, options), bounds, dt, found, d_bounds, d_dt, d_velocity)


def follow_contacts(
    trees: Sequence[Topology],
    options: SolverOptions,
    found: Swept,
    matrix: Array,
    given: Array,
    now: tuple[Bounds, Array],
    change: tuple[Bounds, Array],
) -> Swept:
    """The same where there are contacts and no hard relations, by equations that have the pattern of the tree.

    Args:
      trees: as for :func:`follow_bounds`.
      options: as for :func:`follow_bounds`.
      found: as for :func:`follow_bounds`.
      matrix: of the step's linear system, [nv, nv].
      given: change of the generalised impulse [nv] besides those of the bounds.
      now: as for :func:`follow_bounds`.
      change: as for :func:`follow_bounds`.
    """
    (bounds, dt), (d_bounds, d_dt) = now, change
    sweeps = sweeps_of(trees, options)

    def missing(now: tuple[Bounds, Array]) -> Array:
        return imbalances(sweeps, found.impulses, now[0], found.velocity, now[1])

    d_dofs, none, d_contacts = _parts(bounds, value_and_change(missing, now, (d_bounds.laws(), d_dt))[1])
    equations = contact_equations(sweeps, found.impulses, bounds, found.velocity, dt, matrix)
    tangent = equations.solve(np.array(sweeps.elimination, int), Changes(given, d_dofs, d_contacts))
    return _tangent(found, tangent.velocity, tangent.dofs, none, tangent.contacts)


def change_by_effects(contacts: ContactRows, d_contacts: ContactRows, impulse: Array) -> Array | int:
    """The change of the velocity [nv] due to a change of the contacts' effects, at fixed impulses [K, 3]."""

    def given(reach: Array, effect: Array) -> Array:
        return matmul(matmul(impulse.reshape(-1), reach.reshape(-1, reach.shape[-1])), effect)

    now = contacts.each.reach, contacts.links.effect
    change = directional_derivative(lambda x: given(*x), now, (d_contacts.each.reach, d_contacts.links.effect))
    return 0 if change is None else change


def followed(sweeps: Sweeps, bounds: Bounds, dt, found: Swept, d_bounds: Bounds, d_dt, d_velocity) -> Swept:
    """The tangent, from the equations that converged impulses satisfy. Its corrections are zero.

    ``d_velocity`` is the tangent of the velocity at fixed impulses.
    """

    def missing(now: tuple[Bounds, Array, Array]) -> Array:
        return imbalances(sweeps, found.impulses, *now)

    now, d_now = (bounds, found.velocity, dt), (d_bounds.laws(), d_velocity, d_dt)
    acting, effects = acting_bounds(sweeps, found.impulses, *now)
    change = impulse_changes(acting, value_and_change(missing, now, d_now)[1], sweeps.repetitions)
    return _tangent(found, d_velocity + matmul(change, effects), *_parts(bounds, change))


def _tangent(found: Swept, velocity: Array, dofs: Array, distances: Array, contacts: Array) -> Swept:
    """The tangent of the result, from the changes of the velocity and of the impulses."""
    zero = jnp.zeros_like(dofs)
    # The equations determine only the total of a DOF's impulses, and nothing else is used.
    impulses = Impulses(BoundImpulses(dofs, zero, zero), distances, contacts)
    return Swept(velocity, impulses, jnp.zeros_like(found.corrections))


def _parts(bounds: Bounds, change: Array) -> tuple[Array, Array, Array]:
    """Splits changes of impulses [R] into those of DOFs, distances and contacts [K, 3]."""
    first = len(bounds.dofs.response)
    second = first + (0 if bounds.distances is None else len(bounds.distances.response))
    return change[:first], change[first:second], change[second:].reshape(-1, 3)
