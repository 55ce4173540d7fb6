"""The velocity of an implicit step within all bounds and under its hard constraints."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.kinematics.displacements import has_all_displacements
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.padding import Tree
from artix.simulation.common.loop_closures import LoopClosures
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.step_start import HIGHEST, StepStart
from artix.simulation.implicit.contact_bounds import Touching, contact_rows
from artix.simulation.implicit.laws import Bounds, Impulses
from artix.simulation.implicit.response import Response
from artix.simulation.implicit.rows import bound_rows, distance_rows
from artix.simulation.implicit.sweeps import sweep_over_bounds
from artix.simulation.implicit.system import Acting, ImplicitSystem
from artix.simulation.implicit.velocity import bounded_velocity

Array = jax.Array


class Bounded(NamedTuple):
    """The velocities within all bounds."""

    moving_velocity: Array
    """Of the positions, [nv]; it also corrects errors of hard mimic joints, which leaves no velocity behind."""
    velocity: Array
    """At the end of the step, [nv]."""
    moving_corrections: Array
    """What the last sweep corrected of the velocities of DOFs and distances, and what hard relations still lack."""
    corrections: Array
    """The same of the velocity at the end."""
    loop_impulse: Array
    """Impulses on all rows of the loop joints' anchors."""
    impulses: Impulses
    """Of all bounds at the end of the step; those of DOFs in the order of the sweep."""


def bounded(
    articulation: Articulation,
    state: State,
    at_start: StepStart,
    acting: Acting,
    system: ImplicitSystem,
    loops: LoopClosures | None,
    touching: Touching | None,
    options: SolverOptions,
) -> Bounded:
    """Sweeps over all bounds, while the hard relations hold."""
    if system.hard is None and loops is None and has_all_displacements(at_start.topology):
        swept = bounded_velocity(articulation, state, acting, system, touching, options)
        velocity, impulses, corrections = swept
        none = jnp.zeros_like(velocity, shape=0)
        return Bounded(velocity, velocity, corrections, corrections, none, impulses)
    hard, dt = system.hard, acting.dt
    response = system.response if hard is None else Response(None, hard.response_within(system.response.matrix))
    rows = bound_rows(articulation, state, acting, system.response, response)
    distances = None if loops is None else distance_rows(articulation, loops, response.matrix, dt)
    contacts = remembered = None
    if touching is not None:
        contacts = contact_rows(articulation, state, touching.touches, response, acting, options)
        remembered = touching.remembered
    bounds = Bounds(rows, distances, contacts)
    found = []
    # Without mimic joints both velocities are one.
    targets = [None] if hard is None else [hard.position_target, hard.target]
    for target in targets if len(at_start.topology.mimic_dofs) else targets[-1:]:
        start = system.velocity if target is None or hard is None else hard.held(system.velocity, target)
        velocity, impulses, corrections = sweep_over_bounds(at_start.topology, bounds, start, dt, options, remembered)
        if target is not None and hard is not None:
            corrections = jnp.concatenate([corrections, hard.missing(velocity, target)])
        found.append((velocity, corrections))
    loop_impulse = _loop_impulses(at_start.topology, system, loops, bounds, impulses)
    return Bounded(found[0][0], found[-1][0], found[0][1], found[-1][1], loop_impulse, impulses)


def _loop_impulses(
    topology: Tree,
    system: ImplicitSystem,
    loops: LoopClosures | None,
    bounds: Bounds,
    impulses: Impulses,
) -> Array:
    """Impulses on all rows of the loop joints' anchors, which hold the velocity that the bounds alone would give."""
    given = jnp.zeros_like(system.velocity)
    distances, contacts = bounds.distances, bounds.contacts
    if loops is None or distances is None:
        return given[:0]
    across = jnp.add(*impulses.distances)
    given = given.at[topology.num_base_dofs + topology.depth_first_dofs].set(impulses.dofs.total)
    given = given + jnp.matmul(across, distances.direction, precision=HIGHEST)
    if contacts is not None:
        given = given + matmul(contacts.on_links(impulses.contacts), contacts.links.direction)
    total = jnp.zeros_like(loops.rows.error).at[loops.distances].set(across)
    if len(loops.held) and system.hard is not None:
        unheld = system.velocity + system.response.to(given)
        total = total.at[loops.held].set(system.hard.impulses(unheld, system.hard.target)[-len(loops.held) :])
    return total
