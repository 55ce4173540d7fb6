"""The sweeps of the implicit solver over the bounds of DOFs and of loop joints' distances, row by row."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.evaluation.devices import scan
from artix.math.arrays import matmul, take
from artix.math.tangents import is_zero, value_and_change
from artix.model.padding import Tree
from artix.model.topology import Topology
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.sweep import Sweep, implicit_sweep
from artix.simulation.implicit.derivatives import ActingBounds, impulse_changes
from artix.simulation.implicit.impulses import (
    BoundImpulses,
    BoundRow,
    DistanceRow,
    bound_imbalance,
    distance_imbalance,
    distance_slope,
    solve_bounds,
    solve_distance,
)

Array = jax.Array


class Impulses(NamedTuple):
    """What the sweeps have applied; derivatives are right for the sum of one row's impulses."""

    dofs: BoundImpulses
    distances: tuple[Array, Array]
    """Of the lower and upper bounds, [D] each."""


class _Sweeps(NamedTuple):
    """What is static about them: as often as ``repetitions`` say, row by row."""

    places: tuple[int, ...]
    """Of the rows in the velocity."""
    repetitions: int
    drive_limits_are_forces: bool

    def over(self, dt: Array) -> Sweep:
        """One of them, over a step of length ``dt``."""
        return implicit_sweep(dt, drive_limits_are_forces=self.drive_limits_are_forces)


class Swept(NamedTuple):
    """What sweeps leave."""

    velocity: Array
    """The generalised velocity, [nv]."""
    impulses: Impulses
    """In the order of the rows."""
    corrections: Array
    """What the last sweep corrected of the rows' velocities."""


def sweep_over_bounds(
    topology: Tree,
    rows: BoundRow,
    distances: DistanceRow | None,
    velocity: Array,
    dt: Array,
    options: SolverOptions,
) -> Swept:
    """Projects a velocity into its bounds.

    Args:
      topology: the topology.
      rows: all DOFs in the order of the sweep.
      distances: loop joints' distances.
      velocity: the generalised velocity without bounds, [nv].
      dt: the step [s].
      options: how many sweeps.
    """
    order, sweeps = _order(topology, options)
    found = _ruled_sweeps(sweeps, _ordered(order, rows), distances, velocity if order is None else velocity[order], dt)
    return found if order is None else found._replace(velocity=jnp.zeros_like(velocity).at[order].set(found.velocity))


def follow_bounds(
    topology: Tree,
    rows: BoundRow,
    dt: Array,
    options: SolverOptions,
    found: Swept,
    d_rows: BoundRow,
    d_dt: Array,
    d_velocity: Array,
) -> Swept:
    """The change of what sweeps over all DOFs leave.

    Args:
      topology: the topology.
      rows: all DOFs in the order of the sweep.
      dt: the step [s].
      options: how many sweeps.
      found: what they left.
      d_rows: change of the rows.
      d_dt: change of the step.
      d_velocity: change of the velocity that would be with the impulses found, [nv].
    """
    order, sweeps = _order(topology, options)
    if order is None:
        return _followed(sweeps, rows, None, dt, found, d_rows, None, d_dt, d_velocity)
    now = found._replace(velocity=found.velocity[order])
    change = _followed(sweeps, _ordered(order, rows), None, dt, now, d_rows, None, d_dt, d_velocity[order])
    return change._replace(velocity=jnp.zeros_like(d_velocity).at[order].set(change.velocity))


def _order(topology: Tree, options: SolverOptions) -> tuple[Array | None, _Sweeps]:
    """The order of the velocity in the sweeps, where it is data, and what is static about the sweeps."""
    base, order = topology.num_base_dofs, None
    places = base + np.arange(topology.num_dofs)
    if isinstance(topology, Topology):
        places = base + topology.depth_first_dofs
    else:
        order = jnp.concatenate([jnp.arange(base), base + topology.depth_first_dofs])
    return order, _Sweeps(tuple(places.tolist()), options.position_iterations, options.drive_limits_are_forces)


def _ordered(order: Array | None, rows: BoundRow) -> BoundRow:
    return rows if order is None else rows._replace(effect=rows.effect[:, order])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _ruled_sweeps(sweeps: _Sweeps, rows: BoundRow, distances: DistanceRow | None, velocity: Array, dt: Array) -> Swept:
    return _plain_sweeps(sweeps, rows, distances, velocity, dt)


@functools.partial(_ruled_sweeps.defjvp, symbolic_zeros=True)
def _sweeps_jvp(sweeps: _Sweeps, primals, tangents):
    found = _ruled_sweeps(sweeps, *primals)
    rows, distances, velocity, dt = primals
    d_rows, d_distances, d_velocity, d_dt = tangents
    d_velocity = jnp.zeros_like(velocity) if is_zero(d_velocity) else d_velocity
    if not is_zero(d_rows.effect):
        d_velocity = d_velocity + matmul(found.impulses.dofs.total, d_rows.effect)
    if distances is not None and not is_zero(d_distances.effect):
        d_velocity = d_velocity + matmul(jnp.add(*found.impulses.distances), d_distances.effect)
    return found, _followed(sweeps, rows, distances, dt, found, d_rows, d_distances, d_dt, d_velocity)


def _followed(sweeps: _Sweeps, rows, distances, dt, found: Swept, d_rows, d_distances, d_dt, d_velocity) -> Swept:
    """The change by the equations that the impulses obey once the sweeps have converged; none is left to correct then.

    ``d_velocity`` is the change of the velocity with the impulses found.
    """
    # The equations do not contain the responses, which only say how far the sweeps go at a time.
    d_law = d_rows._replace(effect=None, response=None, drive=d_rows.drive._replace(response=None, softened=None))
    d_spans = None if d_distances is None else d_distances._replace(effect=None, response=None)

    def imbalances(now: tuple[BoundRow, DistanceRow | None, Array, Array]) -> Array:
        return _imbalances(sweeps, found.impulses, *now)

    now, d_now = (rows, distances, found.velocity, dt), (d_law, d_spans, d_velocity, d_dt)
    acting, effects = _acting(sweeps, found.impulses, *now)
    change = impulse_changes(acting, value_and_change(imbalances, now, d_now)[1], sweeps.repetitions)
    d_dofs, d_lengths = jnp.split(change, [len(rows.response)])
    zero, none = jnp.zeros_like(d_dofs), jnp.zeros_like(d_lengths)
    # Of one DOF's impulses the equations know the sum alone, and so does everybody else.
    d_impulses = Impulses(BoundImpulses(d_dofs, zero, zero, zero, zero), (d_lengths, none))
    return Swept(d_velocity + matmul(change, effects), d_impulses, jnp.zeros_like(found.corrections))


def _imbalances(
    sweeps: _Sweeps, impulses: Impulses, rows: BoundRow, distances: DistanceRow | None, velocity: Array, dt: Array
) -> Array:
    """What each row's impulses lack, [R]."""
    missing = bound_imbalance(rows, impulses.dofs, velocity[jnp.array(sweeps.places, int)], sweeps.over(dt))
    if distances is None:
        return missing
    rates = matmul(distances.direction, velocity)
    return jnp.concatenate([missing, distance_imbalance(distances, impulses.distances, rates)])


def _acting(
    sweeps: _Sweeps, impulses: Impulses, rows: BoundRow, distances: DistanceRow | None, velocity: Array, dt: Array
) -> tuple[ActingBounds, Array]:
    """The equation of the changes of all rows' impulses, and these rows' effects, [R, nv]."""
    own, places = velocity[jnp.array(sweeps.places, int)], np.array(sweeps.places, int)

    def law(own: Array) -> Array:
        return bound_imbalance(rows, impulses.dofs, own, sweeps.over(dt))

    slope, response, effects = -jax.jvp(law, (own,), (jnp.ones_like(own),))[1], rows.response, rows.effect
    if distances is None:
        return ActingBounds(take(effects, places), slope, response), effects
    effects = jnp.concatenate([effects, distances.effect])
    response = jnp.concatenate([response, distances.response])
    slope = jnp.concatenate([slope, distance_slope(distances, impulses.distances)])
    coupling = jnp.concatenate([take(effects, places), matmul(effects, distances.direction.T)], axis=1)
    return ActingBounds(coupling, slope, response), effects


def _plain_sweeps(sweeps: _Sweeps, rows: BoundRow, distances: DistanceRow | None, velocity: Array, dt: Array) -> Swept:
    zero = jnp.zeros_like(rows.response)
    none = jnp.zeros(0 if distances is None else len(distances.response), zero.dtype)
    places = jnp.array(sweeps.places, int)

    def turn(velocity: Array, inputs: tuple[Array, BoundRow, BoundImpulses]):
        place, row, old = inputs
        new, change = solve_bounds(row, old, _item(velocity, place), sweeps.over(dt))
        return velocity + row.effect * change, (new, _item(row.effect, place) * change)

    def turn_distance(velocity: Array, inputs: tuple[DistanceRow, tuple[Array, Array]]):
        row, old = inputs
        new, change = solve_distance(row, old, jnp.sum(row.direction * velocity))
        return velocity + row.effect * change, (new, jnp.sum(row.direction * row.effect) * change)

    def once(carry: tuple[Array, Impulses, Array], _) -> tuple[tuple[Array, Impulses, Array], None]:
        velocity, (dofs, spans), _ = carry
        velocity, (dofs, corrected) = scan(turn, velocity, (places, rows, dofs))
        if distances is not None:
            velocity, (spans, stretched) = scan(turn_distance, velocity, (distances, spans))
            corrected = jnp.concatenate([corrected, stretched])
        return (velocity, Impulses(dofs, spans), corrected), None

    impulses = Impulses(BoundImpulses(zero, zero, zero, zero, zero), (none, none))
    start = (velocity, impulses, jnp.concatenate([zero, none]))
    return Swept(*scan(once, start, length=sweeps.repetitions)[0])


def _item(x: Array, index: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(x, index, keepdims=False)
