"""The sweeps of the implicit solver over the bounds of DOFs and of loop joints' distances.

They are loops over rows, for which XLA would bring all rows of the whole batch into the order of the loop in every
sweep. With the batch as the last axis they have it already: stepping a 29-DOF humanoid took 28 instead of 38 us on one
core (float32, batch 4096).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.implicit_rows import BoundImpulses, BoundRow, DistanceRow, solve_bounds, solve_distance
from artix.constraints.sweep import Sweep
from artix.lanes import batch_last
from artix.simulation.implicit_system import ERROR_REDUCTION
from artix.simulation.options import SolverOptions
from artix.tangents import value_and_change
from artix.topology import Topology
from artix.tree import Tree

Array = jax.Array


class Impulses(NamedTuple):
    """What the sweeps have applied."""

    dofs: BoundImpulses
    distances: tuple[Array, Array]
    """Of the lower and upper bounds, [D] each."""


class _Sweeps(NamedTuple):
    """What is static about them: as often as ``repetitions`` say, row by row."""

    places: tuple[int, ...]
    """Of the rows in the velocity."""
    repetitions: int
    drive_limits_are_forces: bool


def sweep_over_bounds(
    topology: Tree,
    rows: BoundRow,
    distances: DistanceRow | None,
    velocity: Array,
    dt: Array,
    options: SolverOptions,
) -> tuple[Array, Impulses, Array]:
    """Projects a velocity into its bounds.

    Args:
      topology: the topology.
      rows: all DOFs in the order of the sweep.
      distances: loop joints' distances.
      velocity: the generalised velocity without bounds, [nv].
      dt: the step [s].
      options: how many sweeps.

    Returns:
      The velocity [nv], the impulses in the order of the rows, and the last sweep's corrections of their velocities.
    """
    base, order = topology.num_base_dofs, None
    places = base + np.arange(topology.num_dofs)
    if isinstance(topology, Topology):
        places = base + topology.depth_first_dofs
    else:  # The order is data: the velocity itself is put into it.
        order = jnp.concatenate([jnp.arange(base), base + topology.depth_first_dofs])
        rows, velocity = rows._replace(effect=rows.effect[:, order]), velocity[order]
    sweeps = _Sweeps(tuple(places.tolist()), options.position_iterations, options.drive_limits_are_forces)
    leaves, structure = jax.tree.flatten((rows, distances, velocity, dt))
    velocity, impulses, corrections = _ruled_sweeps(sweeps, structure, *leaves)
    return velocity if order is None else jnp.zeros_like(velocity).at[order].set(velocity), impulses, corrections


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _ruled_sweeps(sweeps: _Sweeps, structure: Any, *leaves: Array) -> tuple[Array, Impulses, Array]:
    return batch_last(_plain_sweeps, sweeps, structure, in_blocks=False)(*leaves)


@functools.partial(_ruled_sweeps.defjvp, symbolic_zeros=True)
def _sweeps_jvp(sweeps: _Sweeps, structure: Any, leaves, changes):
    """Differentiates them with the batch where it is, which can be differentiated again and reversed."""
    return value_and_change(lambda moving: _plain_sweeps(sweeps, structure, *moving), leaves, changes)


def _plain_sweeps(sweeps: _Sweeps, structure: Any, *leaves: Array) -> tuple[Array, Impulses, Array]:
    """All sweeps; every array may have one more axis, the last."""
    rows, distances, velocity, dt = structure.unflatten(leaves)
    batch = jnp.broadcast_shapes(*(leaf.shape[leaf.ndim - dt.ndim :] for leaf in leaves))
    zero = jnp.zeros((len(rows.response), *batch), dt.dtype)
    none = jnp.zeros((0 if distances is None else len(distances.response), *batch), dt.dtype)
    velocity = jnp.broadcast_to(velocity, (len(velocity), *batch))
    places = jnp.array(sweeps.places, int)
    sweep = Sweep(
        temporal=False,
        moves_positions=True,
        restarts=False,
        drive_limits_are_forces=sweeps.drive_limits_are_forces,
        dt=dt,
        h=dt,
        elapsed=jnp.zeros_like(dt),
        error_reduction=jnp.asarray(ERROR_REDUCTION, dt.dtype),
    )

    def turn(velocity: Array, inputs: tuple[Array, BoundRow, BoundImpulses]):
        place, row, old = inputs
        new, change = solve_bounds(row, old, _item(velocity, place), sweep)
        return velocity + row.effect * change, (new, _item(row.effect, place) * change)

    def turn_distance(velocity: Array, inputs: tuple[DistanceRow, tuple[Array, Array]]):
        row, old = inputs
        new, change = solve_distance(row, old, jnp.sum(row.direction * velocity, axis=0))
        return velocity + row.effect * change, (new, jnp.sum(row.direction * row.effect, axis=0) * change)

    def once(carry: tuple[Array, Impulses, Array], _) -> tuple[tuple[Array, Impulses, Array], None]:
        velocity, (dofs, spans), _ = carry
        velocity, (dofs, corrected) = jax.lax.scan(turn, velocity, (places, rows, dofs))
        if distances is not None:
            velocity, (spans, stretched) = jax.lax.scan(turn_distance, velocity, (distances, spans))
            corrected = jnp.concatenate([corrected, stretched])
        return (velocity, Impulses(dofs, spans), corrected), None

    impulses = Impulses(BoundImpulses(zero, zero, zero, zero, zero), (none, none))
    start = (velocity, impulses, jnp.concatenate([zero, none]))
    return jax.lax.scan(once, start, length=sweeps.repetitions)[0]


def _item(x: Array, index: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(x, index, keepdims=False)
