"""PhysX's Gauss-Seidel sweeps over the rows of an articulation: projected (PGS) and temporal (TGS).

Poses, Jacobians and the mass matrix are constant during a step, so the sweeps change only one
vector: the change of the generalised velocity due to constraints.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.jax_internals import scan
from artix.math.arrays import joined
from artix.model.articulation import Articulation
from artix.model.topology import Topology
from artix.physx.solver.contact_rows import (
    ContactImpulses,
    ContactRows,
    mobility_softness,
    no_contact_impulses,
    solve_pair,
    travel,
)
from artix.physx.solver.joint_rows import (
    FixedTendonRow,
    LimitRow,
    LoopRow,
    MimicRow,
    SpatialTendonRow,
    Sweep,
    drive_impulse,
    fixed_tendon_impulses,
    fixed_tendon_rows,
    friction_impulse,
    limit_impulses,
    loop_impulses,
    loop_rows,
    mimic_impulse,
    mimic_rows,
    spatial_tendon_impulses,
    spatial_tendon_rows,
    velocity_limit_impulse,
)
from artix.physx.solver.positions import drift_by_body
from artix.simulation.common.control import Commands, position_error, room
from artix.simulation.common.couplings import LoopClosures
from artix.simulation.common.drives import DriveRow, has_envelopes, within_envelope
from artix.simulation.common.step_start import HIGHEST, StepStart, axis_row

Array = jax.Array


class DofRow(NamedTuple):
    """One DOF (or all, in the order of the sweep, with a leading axis [n])."""

    place: Array
    """Index in the generalised velocity."""
    free_velocity: Array
    """Relative velocity along the axis before any impulse."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Velocity per impulse."""
    drive: DriveRow
    limit: LimitRow


class Rows(NamedTuple):
    """All rows of an articulation, in the order of a sweep; ``None`` for kinds that it does not
    have.
    """

    loops: LoopRow | None
    spatial_tendons: SpatialTendonRow | None
    fixed_tendons: FixedTendonRow | None
    mimics: MimicRow | None
    dofs: DofRow
    contacts: ContactRows | None


class DofImpulses(NamedTuple):
    """Accumulated impulses of one DOF (or of all, [n], in the order of the sweep)."""

    drive: Array
    friction: Array
    lower: Array
    upper: Array


class SweepImpulses(NamedTuple):
    """Accumulated impulses of all rows that accumulate."""

    loops: tuple[Array, Array]
    spatial_tendons: tuple[Array, Array]
    fixed_tendons: tuple[Array, Array]
    dofs: DofImpulses
    contacts: ContactImpulses | None


class Progress(NamedTuple):
    """Everything about the progress of the step that a sweep needs besides the impulses."""

    motion: Array
    """Integral of the generalised velocity since the start of the step, [nv]; 0 for PGS."""
    displacement: Array
    """Integral of the rows' velocities, in the order of the sweep, [n]."""
    path_length: Array
    """Lengths of the spatial tendons' paths, [S]."""
    link_travel: Array
    """Displacements of the links' centres of mass, and sums of their rotations, in world axes,
    [L, 6]; for the contacts of TGS, otherwise [0, 6]."""


SweepOrder: TypeAlias = "tuple[tuple[int, int, tuple[int, ...]], ...]"
"""Parts of a sweep: a range of DOFs (first, last + 1) in its order, then pairs of contacts;
static."""


def sweep_order(topology: Topology, links: tuple[int, ...]) -> SweepOrder:
    """The order of DOFs and pairs of contacts on these links: a pair follows the DOFs of its own
    link.
    """
    parts: list[tuple[int, int, tuple[int, ...]]] = []
    first = last = 0
    for link in topology.depth_first_links:
        last += len(topology.joint_axes[link])
        pairs = tuple(k for k, of in enumerate(links) if of == link)
        if pairs:
            parts.append((first, last, pairs))
            first = last
    return (*parts, (first, topology.num_dofs, ()))


def no_impulses(rows: Rows) -> SweepImpulses:
    """The impulses before the first sweep."""
    zero = jnp.zeros_like(rows.dofs.free_velocity)
    loops, spatial_tendons, fixed_tendons = (
        (zero[:0], zero[:0])
        if row is None
        else (jnp.zeros_like(row.response), jnp.zeros_like(row.response))
        for row in (rows.loops, rows.spatial_tendons, rows.fixed_tendons)
    )
    contacts = None if rows.contacts is None else no_contact_impulses(rows.contacts)
    return SweepImpulses(
        loops, spatial_tendons, fixed_tendons, DofImpulses(zero, zero, zero, zero), contacts
    )


def sweep_once(
    rows: Rows,
    order: SweepOrder,
    change: Array,
    impulses: SweepImpulses,
    progress: Progress,
    free_velocity: Array,
    sweep: Sweep,
) -> tuple[Array, SweepImpulses, Array]:
    """Solves every row once, in PhysX's order: first the scene's joints, then the articulation's.

    Args:
      rows: the rows.
      order: the order of DOFs and contacts.
      change: change of the generalised velocity by impulses so far, [nv].
      impulses: impulses accumulated so far.
      progress: how far positions have moved.
      free_velocity: the generalised velocity before any impulse, [nv].
      sweep: the sweep.

    Returns:
      The new change, the new impulses, and the corrections of the rows' velocities in this sweep,
      which the previous sweeps had left: one number per loop joint row, path of a spatial tendon,
      joint of a fixed tendon, mimic joint, DOF and contact row.
    """
    loops, spatial_tendons, fixed_tendons, dofs, contacts = impulses
    corrections = []
    if rows.loops is not None:
        change, (loops, corrected) = _sweep_loops(
            rows.loops, change, loops, progress.motion, free_velocity, sweep
        )
        corrections.append(corrected)
    if rows.spatial_tendons is not None:
        change, (spatial_tendons, corrected) = _sweep_spatial_tendons(
            rows.spatial_tendons, change, spatial_tendons, progress.path_length, sweep
        )
        corrections.append(corrected)
    if rows.fixed_tendons is not None:
        change, (fixed_tendons, corrected) = _sweep_fixed_tendons(
            rows.fixed_tendons, change, fixed_tendons, progress.motion, sweep
        )
        corrections.append(jnp.ravel(corrected))
    if rows.mimics is not None:
        change, corrected = _sweep_mimics(
            rows.mimics, change, progress.motion, free_velocity, sweep
        )
        corrections.append(corrected)
    if rows.contacts is None:
        change, (dofs, corrected) = _sweep_dofs(
            rows.dofs, change, dofs, progress.displacement, sweep
        )
        corrections.append(corrected)
    else:
        assert contacts is not None
        old = contacts
        change, (dofs, corrected), contacts = _sweep_dofs_and_contacts(
            rows, order, change, dofs, old, progress, sweep
        )
        corrections += [corrected, *_contact_corrections(rows.contacts, old, contacts)]
    return (
        change,
        SweepImpulses(loops, spatial_tendons, fixed_tendons, dofs, contacts),
        jnp.concatenate(corrections),
    )


def _sweep_loops(
    rows: LoopRow, change: Array, impulses, motion: Array, free_velocity: Array, sweep: Sweep
):
    def solve(change, inputs):
        row, *old = inputs
        rate = jnp.sum(row.direction * (free_velocity + change))
        displacement = jnp.sum(row.direction * motion)
        new = loop_impulses(row, old, rate, displacement, sweep)
        added = new[0] - old[0] + new[1] - old[1]
        return change + row.effect * added, (new, row.response * added)

    return scan(solve, change, (rows, *impulses))


def _sweep_spatial_tendons(
    rows: SpatialTendonRow, change: Array, impulses, path_length: Array, sweep: Sweep
):
    def solve(change, inputs):
        row, spring, limit, length = inputs
        rate = row.free_rate + jnp.sum(row.direction * change)
        new = spatial_tendon_impulses(row, spring, limit, rate, length, sweep)
        added = new[0] - spring + new[1] - limit
        return change + row.effect * added, (new, row.response * added)

    return scan(solve, change, (rows, *impulses, path_length))


def _sweep_fixed_tendons(
    rows: FixedTendonRow, change: Array, impulses, motion: Array, sweep: Sweep
):
    def solve(change, inputs):
        row, spring, limit = inputs
        rate = row.free_rate + jnp.sum(row.rate * change)
        stretch = jnp.sum(row.coefficient * motion[-row.coefficient.shape[-1] :])
        new = fixed_tendon_impulses(row, spring, limit, rate, stretch, sweep)
        added = new[0] - spring + new[1] - limit
        return change + jnp.sum(row.effect * added[:, None], axis=0), (new, row.response * added)

    return scan(solve, change, (rows, *impulses))


def _sweep_mimics(rows: MimicRow, change: Array, motion: Array, free_velocity: Array, sweep: Sweep):
    def solve(change, row):
        rate = jnp.sum(row.direction * (free_velocity + change))
        error = row.error + jnp.sum(row.direction * motion)
        added = mimic_impulse(row, rate, error, sweep)
        return change + row.effect * added, row.response * added

    return scan(solve, change, rows)


def _sweep_dofs(
    rows: DofRow, change: Array, impulses: DofImpulses, displacement: Array, sweep: Sweep
):
    if not displacement.size:
        return change, (impulses, displacement)

    def solve(change, inputs):
        row, old, moved = inputs
        velocity = row.free_velocity + change[row.place]
        new, total = _solve_dof(row, old, velocity, moved, sweep)
        return change + row.effect * total, (new, row.response * total)

    return scan(solve, change, (rows, impulses, displacement))


def _sweep_dofs_and_contacts(
    rows: Rows,
    order: SweepOrder,
    change: Array,
    dofs: DofImpulses,
    contacts: ContactImpulses,
    progress: Progress,
    sweep: Sweep,
):
    """Sweeps over the links: the DOFs of each, then its contacts."""
    assert rows.contacts is not None
    moved = travel(rows.contacts, progress.link_travel) if sweep.temporal else None
    solved = []
    for first, last, pairs in order:
        part = jax.tree.map(
            lambda leaf, a=first, b=last: leaf[a:b], (rows.dofs, dofs, progress.displacement)
        )
        change, swept = _sweep_dofs(part[0], change, part[1], part[2], sweep)
        solved.append(swept)
        for pair in pairs:
            change, contacts = solve_pair(rows.contacts, pair, change, contacts, moved, sweep)
    return change, joined(solved), contacts


def _contact_corrections(
    rows: ContactRows, old: ContactImpulses, new: ContactImpulses
) -> list[Array]:
    normal = rows.normal.response * (new.normal - old.normal)
    return [normal, jnp.ravel(rows.friction.response * (new.friction - old.friction))]


def _solve_dof(
    row: DofRow, old: DofImpulses, velocity: Array, displacement: Array, sweep: Sweep
) -> tuple[DofImpulses, Array]:
    """Solves drive, friction, limits and velocity limit of one DOF, in this order."""
    drive = old.drive
    if sweep.moves_positions or not sweep.temporal:
        drive = drive_impulse(row.drive, drive, velocity, displacement, sweep)
    drive = within_envelope(row.drive, drive, old.drive, velocity, sweep)
    velocity = velocity + row.response * (drive - old.drive)
    friction_so_far = jnp.zeros_like(old.friction) if sweep.restarts else old.friction
    braked = friction_impulse(row.limit, friction_so_far, velocity, sweep) - friction_so_far
    # If position sweeps have separate budgets, velocity sweeps still account for the whole step.
    friction = old.friction + braked
    velocity = velocity + row.response * braked
    lower, upper = limit_impulses(row.limit, old.lower, old.upper, velocity, displacement, sweep)
    velocity = velocity + row.response * (lower - old.lower + upper - old.upper)
    capped = velocity_limit_impulse(row.limit, velocity)
    total = drive - old.drive + braked + lower - old.lower + upper - old.upper + capped
    return DofImpulses(drive, friction, lower, upper), total


def tendon_wrenches(
    rows: Rows, impulses: SweepImpulses, dt: Array, links: int
) -> tuple[Array, Array]:
    """Mean wrenches of all tendons on the links, and of fixed tendons on the links that their
    joints move, [L, 6].
    """
    total = transmitted = jnp.zeros_like(dt, shape=(links, 6))
    if rows.spatial_tendons is not None:
        force = (impulses.spatial_tendons[0] + impulses.spatial_tendons[1]) / dt
        total = total + jnp.einsum(
            "s,slk->lk", force, rows.spatial_tendons.wrench, precision=HIGHEST
        )
    if rows.fixed_tendons is not None:
        force = (impulses.fixed_tendons[0] + impulses.fixed_tendons[1]) / dt
        transmitted = jnp.einsum("tm,tmlk->lk", force, rows.fixed_tendons.wrench, precision=HIGHEST)
        reaction = jnp.einsum("tm,tmlk->lk", force, rows.fixed_tendons.reaction, precision=HIGHEST)
        total = total + transmitted + reaction
    return total, transmitted


def constraint_rows(
    articulation: Articulation,
    at_start: StepStart,
    loops: LoopClosures | None,
    joint_position: Array,
    motion: Array,
    commands: Commands,
    contacts: ContactRows | None,
    drift: Array | None,
) -> Rows:
    """All rows at the start of the step.

    ``motion`` [L, 6] is the links' velocity before any impulse, ``drift`` [L, 3] their joints'
    drift if it is kept.
    """
    topology = at_start.topology
    spatial = fixed = mimics = None
    if topology.spatial_tendons:
        spatial = spatial_tendon_rows(articulation, at_start, motion)
    if topology.fixed_tendons:
        fixed = fixed_tendon_rows(articulation, at_start, joint_position, motion)
    if topology.mimic_dofs:
        mimics = mimic_rows(articulation.mimic, at_start, joint_position)
    dofs = _dof_rows(articulation, at_start, joint_position, motion, commands, drift)
    loop_part = None if loops is None else loop_rows(articulation, at_start, loops)
    return Rows(loop_part, spatial, fixed, mimics, dofs, contacts)


def _dof_rows(
    articulation: Articulation,
    at_start: StepStart,
    joint_position: Array,
    motion: Array,
    commands: Commands,
    drift: Array | None,
) -> DofRow:
    """The rows of all DOFs in the order of the sweep."""
    topology = at_start.topology
    base = topology.num_base_dofs
    response = jnp.diagonal(at_start.inverse_mass)[base:]
    softened = 1 / (response + _constraint_force_mixing(articulation, at_start))
    turn = None if drift is None else drift_by_body(topology, drift)
    rows = DofRow(
        place=base + jnp.arange(topology.num_dofs),
        free_velocity=_relative_velocity(at_start, motion),
        effect=at_start.inverse_mass[base:],
        response=response,
        drive=DriveRow(
            drive=articulation.drive,
            envelope=articulation.envelope if has_envelopes(articulation) else None,
            position_error=position_error(topology, joint_position, commands.target_position, turn),
            target_velocity=commands.target_velocity,
            response=response,
            softened=softened,
            joint_force=commands.joint_force,
        ),
        limit=LimitRow(
            friction=articulation.friction,
            lower_gap=room(articulation.joint_lower_limit, joint_position, -1),
            upper_gap=room(articulation.joint_upper_limit, joint_position, 1),
            max_velocity=articulation.max_joint_velocity,
            softened=softened,
        ),
    )
    return jax.tree.map(lambda leaf: leaf[topology.depth_first_dofs], rows)


def _constraint_force_mixing(articulation: Articulation, at_start: StepStart) -> Array:
    """PhysX's softening of a joint's rows, which depends on the mobility of its two links, [n]."""
    mixing = mobility_softness(articulation, at_start)
    topology = at_start.topology
    return jnp.maximum(mixing[topology.dof_link], mixing[topology.dof_parent_link])


def _relative_velocity(at_start: StepStart, motion: Array) -> Array:
    """Velocity of each DOF's link relative to its parent along the axis, at the joint's two
    origins, [n].
    """
    topology = at_start.topology
    dofs = np.arange(topology.num_dofs)

    def velocity(link: np.ndarray, origin: Array) -> Array:
        return jnp.sum(axis_row(at_start, dofs, link, origin) * motion[link], axis=1)

    child = velocity(topology.dof_link, at_start.child_origin)
    return child - velocity(topology.dof_parent_link, at_start.parent_origin)
