"""The velocity of an implicit step within its bounds, with hard relations: hard mimic joints and loop joints."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from artix.kinematics.configuration import integrate
from artix.math.arrays import joined, matmul
from artix.model.articulation import State
from artix.simulation.common.loop_closures import closure_errors
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.bounds import AllBounded, Bounded
from artix.simulation.implicit.contact_bounds import Touching, contact_rows
from artix.simulation.implicit.distance_rows import distance_rows
from artix.simulation.implicit.dof_rows import all_bound_rows
from artix.simulation.implicit.laws import Bounds, Impulses
from artix.simulation.implicit.members import dof_places, in_columns, parted
from artix.simulation.implicit.sweeps import sweep_over_bounds
from artix.simulation.implicit.system import ImplicitSystem, Prepared, Response

Array = jax.Array

#: Newton steps that bring loop joints back onto their closures after the positions have moved. They use the Jacobian at
#: the start of the step, so each leaves a fraction of the error equal to the relative change of the Jacobian.
_CLOSING_STEPS = 2


def bounded_with_relations(parts: Sequence[Prepared], touching: Touching | None, options: SolverOptions) -> AllBounded:
    """Sweeps over all bounds while keeping the hard relations."""
    trees, sizes = [one.at_start.topology for one in parts], [len(one.system.velocity) for one in parts]
    bounds, remembered = _all_bounds(parts, touching, options), None if touching is None else touching.remembered
    # Without mimic joints both velocities are the same.
    targets = ("position_target", "target") if any(len(tree.mimic_dofs) for tree in trees) else ("target",)
    found = []
    for target in targets:
        start = joined([_held(one.system, target) for one in parts])
        dt = parts[0].acting.dt
        velocity, impulses, corrections = sweep_over_bounds(trees, bounds, start, dt, options, remembered)
        for one, own in zip(parts, parted(velocity, sizes), strict=True):
            if one.system.hard is not None:
                missing = one.system.hard.missing(own, getattr(one.system.hard, target))
                corrections = jnp.concatenate([corrections, missing])
        found.append((velocity, corrections))
    moving, end = (parted(found[k][0], sizes) for k in (0, -1))
    loops = _loop_impulses(parts, bounds, impulses)
    each = [Bounded(*one) for one in zip(moving, end, loops, strict=True)]
    return AllBounded(each, found[-1][0], found[0][1], found[-1][1], impulses)


def close_loops(part: Prepared, end: State, displacement: Array) -> tuple[State, Array]:
    """Closes the loops of an articulation after its positions have moved; also the total displacement, [nv]."""
    loops, hard = part.loops, part.system.hard
    if loops is None or hard is None or not len(loops.held):
        return end, displacement
    back = hard.back[:, -len(loops.held) :]
    for _ in range(_CLOSING_STEPS):
        correction = -matmul(back, closure_errors(part.articulation, end, loops))
        end, displacement = integrate(part.articulation, end, correction), displacement + correction
    return end, displacement


def _all_bounds(parts: Sequence[Prepared], touching: Touching | None, options: SolverOptions) -> Bounds:
    """The rows of all articulations, in terms of the generalised velocity."""
    articulations, states, acting = zip(*((one.articulation, one.state, one.acting) for one in parts), strict=True)
    free = [Response(None, one.system.response.matrix) for one in parts]
    within = [response if one.system.hard is None else one.response for response, one in zip(free, parts, strict=True)]
    rows = all_bound_rows(articulations, states, acting, free, within)
    distances, sizes = [], [len(response.weight) for response in within]
    for k, (one, response) in enumerate(zip(parts, within, strict=True)):
        if one.loops is not None:
            own = distance_rows(one.articulation, one.loops, response.matrix, one.acting.dt)
            distances.append(
                own._replace(direction=in_columns(own.direction, sizes, k), effect=in_columns(own.effect, sizes, k))
            )
    contacts = None
    if touching is not None:
        response = Response.joined(within)
        contacts = contact_rows(articulations, states, touching.touches, response, acting, options)
    return Bounds(rows, joined(distances) if distances else None, contacts)


def _held(system: ImplicitSystem, target: str) -> Array:
    """The velocity [nv] before the sweeps, corrected to satisfy the hard relations."""
    return system.velocity if system.hard is None else system.hard.held(system.velocity, getattr(system.hard, target))


def _loop_impulses(parts: Sequence[Prepared], bounds: Bounds, impulses: Impulses) -> list[Array]:
    """Impulses on all rows of each articulation's loop anchors, given the impulses of the bounds."""
    sizes = [len(one.system.velocity) for one in parts]
    given = jnp.zeros_like(parts[0].system.velocity, shape=sum(sizes))
    distances, contacts = bounds.distances, bounds.contacts
    if distances is None:
        return [given[:0]] * len(parts)
    across = impulses.distances
    given = given.at[dof_places([one.at_start.topology for one in parts])].set(impulses.dofs.total)
    given = given + matmul(across, distances.direction)
    if contacts is not None:
        given = given + matmul(contacts.on_links(impulses.contacts), contacts.links.direction)
    spans = iter(parted(across, [len(one.loops.distances) for one in parts if one.loops is not None]))
    found = []
    for one, own in zip(parts, parted(given, sizes), strict=True):
        if one.loops is None:
            found.append(given[:0])
            continue
        system, loops = one.system, one.loops
        total = jnp.zeros_like(loops.rows.error).at[loops.distances].set(next(spans))
        if len(loops.held) and system.hard is not None:
            unheld = system.velocity + system.response.to(own)
            total = total.at[loops.held].set(system.hard.impulses(unheld, system.hard.target)[-len(loops.held) :])
        found.append(total)
    return found
