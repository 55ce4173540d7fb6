"""One Gauss-Seidel sweep over the contacts of a shape with a surface: normal rows first, then friction."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.physx.solver.contact_rows import ContactRows, NormalRow
from artix.physx.solver.dof_laws import Sweep

Array = jax.Array


class ContactImpulses(NamedTuple):
    """Accumulated impulses of all contacts."""

    normal: Array
    """[K]."""
    friction: Array
    """Impulses along the tangents of the anchors, [P, 2, 2]."""
    slips: Array
    """Whether an anchor of each pair slipped in the last sweep, [P]."""


def no_contact_impulses(rows: ContactRows) -> ContactImpulses:
    """The impulses before the first sweep."""
    friction = jnp.zeros_like(rows.friction.error)
    return ContactImpulses(jnp.zeros_like(rows.normal.gap), friction, jnp.zeros(friction.shape[:1], bool))


class Travel(NamedTuple):
    """Displacements of the rows since the start of the step."""

    normal: Array
    """[K]."""
    friction: Array
    """[P, 2, 2]."""


def travel(rows: ContactRows, link_travel: Array) -> Travel:
    """The displacements of all rows for link displacements [L, 6]; see :class:`Progress`."""
    of_contact, of_pair = rows.contact_links, np.array(rows.links, int)
    normal = jnp.sum(rows.normal.wrench * link_travel[of_contact], axis=1)
    return Travel(normal, jnp.sum(rows.friction.wrench * link_travel[of_pair][:, None, None], axis=3))


def solve_pair(
    rows: ContactRows, pair: int, change: Array, impulses: ContactImpulses, moved: Travel | None, sweep: Sweep
) -> tuple[Array, ContactImpulses]:
    """Solves the rows of one pair once.

    Args:
      rows: rows of all contacts.
      pair: index of the pair.
      change: change of the generalised velocity by impulses so far, [nv].
      impulses: impulses of all contacts so far.
      moved: displacements of the rows with TGS; ``None`` with PGS.
      sweep: the sweep.
    """
    normal = impulses.normal
    for contact in rows.patches[pair]:
        row = jax.tree.map(lambda leaf, k=contact: leaf[k], rows.normal)
        wanted = _wanted_rate(row, None if moved is None else moved.normal[contact], rows.max_separation_speed, sweep)
        rate = row.free_rate + jnp.sum(row.direction * change)
        new = jnp.maximum(normal[contact] + row.softened * (wanted - rate), 0)
        change = change + row.effect * (new - normal[contact])
        normal = normal.at[contact].set(new)
    pressed = jnp.maximum(sum(normal[contact] for contact in rows.patches[pair]), rows.friction.floor[pair])
    largest = rows.friction.friction[pair] * pressed
    dragged = rows.friction.error[pair] if moved is None else rows.friction.error[pair] + moved.friction[pair]
    solve = _friction_together if sweep.temporal else _friction_by_axis
    change, friction, slips = solve(rows, pair, change, impulses.friction[pair], dragged, largest, sweep)
    return change, ContactImpulses(normal, impulses.friction.at[pair].set(friction), impulses.slips.at[pair].set(slips))


def _wanted_rate(row: NormalRow, moved: Array | None, max_separation_speed: float, sweep: Sweep) -> Array:
    """The smallest separation rate that a sweep allows."""
    gap = row.gap if moved is None else row.gap + moved - row.target_rate * sweep.elapsed
    closing = jnp.maximum(row.error_reduction * gap / sweep.h, -max_separation_speed)
    if not sweep.moves_positions:
        closing = jnp.maximum(closing, 0)
    if not sweep.temporal:
        closing = jnp.where(row.bounces, 0, closing)
    return row.target_rate - closing


def _friction_by_axis(
    rows: ContactRows, pair: int, change: Array, old: Array, dragged: Array, largest: Array, sweep: Sweep
):
    """PGS: one tangent after the other, each within the friction limit. Only position sweeps correct errors."""
    friction = jax.tree.map(lambda leaf: leaf[pair], rows.friction)
    new, slips = [], []
    for anchor in range(2):
        for axis in range(2):
            bias = dragged[anchor, axis] / sweep.h if sweep.moves_positions else 0
            rate = friction.free_rate[anchor, axis] + jnp.sum(friction.direction[anchor, axis] * change)
            total = old[anchor, axis] - friction.softened[anchor, axis] * (bias + rate)
            slips.append(jnp.abs(total) > largest)
            new.append(jnp.clip(total, -largest, largest))
            change = change + friction.effect[anchor, axis] * (new[-1] - old[anchor, axis])
    return change, jnp.stack(new).reshape(2, 2), jnp.any(jnp.stack(slips))


def _friction_together(
    rows: ContactRows, pair: int, change: Array, old: Array, dragged: Array, largest: Array, sweep: Sweep
):
    """TGS: both tangents of an anchor together, within a disc. Errors include the motion during the step."""
    friction = jax.tree.map(lambda leaf: leaf[pair], rows.friction)
    new, slips = [], []
    for anchor in range(2):
        bias = dragged[anchor] / sweep.h
        rate = friction.free_rate[anchor] + jnp.sum(friction.direction[anchor] * change, axis=1)
        total = old[anchor] - friction.softened[anchor] * (bias + rate)
        square = jnp.sum(total**2)
        slides = square > largest**2
        scale = jnp.where(slides, largest * jax.lax.rsqrt(jnp.where(slides, square, jnp.ones_like(square))), 1)
        new.append(scale * total)
        slips.append(slides)
        change = change + jnp.sum(friction.effect[anchor] * (new[-1] - old[anchor])[:, None], axis=0)
    return change, jnp.stack(new), jnp.any(jnp.stack(slips))
