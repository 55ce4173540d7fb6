"""The rows of a Gauss-Seidel sweep without contacts, and their laws: DOFs, loop joints, mimic
joints and tendons.

A DOF has a drive, friction, position limits and velocity limits. The held rows of loop joints act
like hard mimic joints, and their distances like limits.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.model.couplings import MimicJoints
from artix.model.joints import JointFrictions
from artix.simulation.common.couplings import (
    LoopClosures,
    beyond_limits,
    distance_gaps,
    end_wrenches,
    mimic_directions,
    mimic_errors,
    tendon_joint_structure,
    tendon_joint_wrenches,
    tendon_paths,
)
from artix.simulation.common.drives import DriveRow, within_limit
from artix.simulation.common.step_start import HIGHEST, StepStart

Array = jax.Array


class Sweep(NamedTuple):
    """What all rows of a sweep share: its kind (static) and its times (arrays of shape [])."""

    temporal: bool
    """Whether the solver is the temporal one (TGS), whose positions move from sweep to sweep."""
    moves_positions: bool
    """Whether this is a position sweep rather than a velocity sweep."""
    restarts: bool
    """Whether friction and envelopes account for this sweep only instead of the whole step."""
    drive_limits_are_forces: bool
    """Whether drive limits are forces instead of impulses per step."""
    dt: Array
    """The step [s]."""
    h: Array
    """The time that a sweep covers [s]: the whole step for PGS."""
    elapsed: Array
    """Time since the start of the step [s]; 0 for PGS."""
    error_reduction: Array
    """Fraction of a position error that one sweep removes."""

    @property
    def budget_time(self) -> Array:
        """The time over which friction and envelopes accumulate [s]."""
        return self.h if self.restarts else self.dt


class LimitRow(NamedTuple):
    """Friction and limits of one DOF (or of all, [n]): everything that their impulses depend on,
    except velocity.
    """

    friction: JointFrictions
    lower_gap: Array
    """Position minus lower limit at the start of the step [rad or m]; ``inf`` without a limit."""
    upper_gap: Array
    """Upper limit minus position; ``inf`` without a limit."""
    max_velocity: Array
    softened: Array
    """Impulse per velocity with the link's constraint-force mixing."""


def drive_impulse(
    row: DriveRow, accumulated: Array, velocity: Array, displacement: Array, sweep: Sweep
) -> Array:
    """The accumulated impulse of an implicit spring and damper after one more sweep.

    Converged PGS sweeps are one step of implicit Euler; TGS sweeps are explicit-in-order steps of
    ``dt / N``.

    Args:
      row: the drive.
      accumulated: impulse so far in this step.
      velocity: velocity of the DOF now.
      displacement: displacement of the DOF since the start of the step.
      sweep: the sweep.

    Returns:
      The new accumulated impulse.
    """
    drive = row.drive
    h = sweep.h
    accelerates = drive.is_acceleration > 0
    gain = h * (h * drive.stiffness + drive.damping)
    share = 1 / (1 + gain * jnp.where(accelerates, 1, row.response))
    scale = jnp.where(accelerates, row.softened, 1)
    drift = (sweep.elapsed - sweep.dt + h) * row.target_velocity
    error = row.position_error - displacement + drift
    push = -gain * velocity + h * drive.damping * row.target_velocity + h * drive.stiffness * error
    kept = accumulated if sweep.temporal else (1 - share) * accumulated
    impulse = kept + scale * share * push
    return within_limit(row, impulse, sweep)


def friction_impulse(row: LimitRow, accumulated: Array, velocity: Array, sweep: Sweep) -> Array:
    """The accumulated friction impulse: it stops the DOF, or is the sliding friction if that is
    less.
    """
    friction = row.friction
    time = sweep.budget_time
    stopping = accumulated - row.softened * velocity
    sliding = (friction.dynamic + friction.viscous * jnp.abs(velocity)) * time
    slides = jnp.abs(stopping) > friction.static * time
    impulse = jnp.where(slides, jnp.clip(stopping, -sliding, sliding), stopping)
    return jnp.where((friction.static > 0) | (friction.viscous > 0), impulse, accumulated)


def limit_impulses(
    row: LimitRow | LoopRow,
    lower: Array,
    upper: Array,
    velocity: Array,
    displacement: Array,
    sweep: Sweep,
) -> tuple[Array, Array]:
    """The accumulated impulses of the lower (never negative) and upper (never positive) position
    limit.

    A limit acts if the DOF is beyond it or would be at the end of the sweep. Limits do not bounce.

    Args:
      row: the limits.
      lower: impulse of the lower limit so far.
      upper: impulse of the upper limit so far.
      velocity: velocity of the DOF now.
      displacement: displacement of the DOF since the start of the step.
      sweep: the sweep.
    """
    has_lower, has_upper = jnp.isfinite(row.lower_gap), jnp.isfinite(row.upper_gap)
    gap_below = jnp.where(has_lower, row.lower_gap, 1) + displacement
    gap_above = jnp.where(has_upper, row.upper_gap, 1) - displacement
    at_lower = has_lower & ((gap_below < 0) | (gap_below + velocity * sweep.h < 0))
    at_upper = ~at_lower & has_upper & ((gap_above < 0) | (gap_above - velocity * sweep.h < 0))
    stopped_below = jnp.maximum(
        lower + (_target_velocity(gap_below, velocity, 1, sweep) - velocity) * row.softened, 0
    )
    stopped_above = jnp.minimum(
        upper + (_target_velocity(gap_above, velocity, -1, sweep) - velocity) * row.softened, 0
    )
    # If the DOF leaves faster than required, the limit takes back impulse.
    returned_below = lower + jnp.where(
        velocity > 0, jnp.maximum(-velocity * row.softened, -lower), 0
    )
    returned_above = upper + jnp.where(
        velocity > 0, 0, jnp.minimum(-velocity * row.softened, -upper)
    )
    apart = ~at_lower & ~at_upper
    # A limit that has not pushed takes nothing back; otherwise derivatives at rest would be half
    # those of a stop.
    lower = jnp.where(
        at_lower, stopped_below, jnp.where(apart & (lower > 0), returned_below, lower)
    )
    upper = jnp.where(
        at_upper, stopped_above, jnp.where(apart & (upper < 0), returned_above, upper)
    )
    return lower, upper


def _target_velocity(gap: Array, velocity: Array, sign: int, sweep: Sweep) -> Array:
    """The velocity that a limit with this gap requires; ``sign`` is the direction away from the
    limit.
    """
    back = velocity if not sweep.moves_positions else -sign * sweep.error_reduction * gap / sweep.h
    return jnp.where(gap < 0, back, -sign * gap / sweep.h)


def velocity_limit_impulse(row: LimitRow, velocity: Array) -> Array:
    """The impulse that brings the DOF back to its speed limit."""
    limited = jnp.isfinite(row.max_velocity)
    bound = jnp.where(limited, row.max_velocity, 0)
    return jnp.where(limited, (jnp.clip(velocity, -bound, bound) - velocity) * row.softened, 0)


# --- loop joints, mimic joints and tendons ------------------------------------------------------


# A row is ignored if its mobility is below this fraction of the largest one, in units of the
# rounding error.
_FIXED = 100


class LoopRow(NamedTuple):
    """One row of a loop joint (or all, with a leading axis [R])."""

    direction: Array
    """Derivative of the row's rate with respect to the generalised velocity; also the force of a
    unit impulse, [nv]."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Rate per impulse."""
    error: Array
    """Error at the start of the step [m or rad]; for a distance, its length."""
    is_held: Array
    """Whether the row is held at zero; otherwise it is a distance."""
    lower_gap: Array
    """Distance minus its lower bound at the start of the step [m]; ``inf`` without a bound."""
    upper_gap: Array
    """Upper bound minus the distance at the start of the step [m]; ``inf`` without a bound."""

    @property
    def softened(self) -> Array:
        """Impulse per rate."""
        return 1 / self.response


def loop_rows(articulation: Articulation, at_start: StepStart, loops: LoopClosures) -> LoopRow:
    """The rows of all loop joints."""
    direction, error = loops.rows.jacobian, loops.rows.error
    effect = matmul(direction, at_start.inverse_mass)
    response = jnp.sum(direction * effect, axis=1)
    moves = response > _FIXED * jnp.finfo(error.dtype).eps * jnp.max(response, initial=0)
    lower_gap, upper_gap = (
        jnp.full_like(error, jnp.inf).at[loops.distances].set(gap)
        for gap in distance_gaps(articulation, loops)
    )
    return LoopRow(
        direction=direction,
        effect=jnp.where(moves[:, None], effect, 0),
        response=jnp.where(moves, response, 1),
        error=error,
        is_held=jnp.ones_like(error, bool).at[loops.distances].set(False),
        lower_gap=lower_gap,
        upper_gap=upper_gap,
    )


def loop_impulses(
    row: LoopRow, old: tuple[Array, Array], rate: Array, displacement: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses of a held row or of a distance's lower bound, and of its upper
    bound.

    Args:
      row: the row.
      old: the impulses so far.
      rate: rate of the row now.
      displacement: displacement of the row since the start of the step.
      sweep: the sweep. A position sweep removes a fraction of the error; a velocity sweep brings
        the rate to zero.
    """
    error = row.error + displacement
    wanted = -sweep.error_reduction * error / sweep.h if sweep.moves_positions else 0
    held = old[0] + (wanted - rate) * row.softened
    lower, upper = limit_impulses(row, *old, rate, displacement, sweep)
    return jnp.where(row.is_held, held, lower), jnp.where(row.is_held, 0, upper)


class MimicRow(NamedTuple):
    """One mimic joint (or all, with a leading axis [K])."""

    mimic: MimicJoints
    direction: Array
    """Generalised force of a unit impulse: 1 at the follower, the gear ratio at the reference,
    [nv]."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Change of the relation's rate per unit impulse."""
    error: Array
    """``q_follower + gear_ratio q_reference + offset`` at the start of the step."""


def mimic_rows(mimic: MimicJoints, at_start: StepStart, joint_position: Array) -> MimicRow:
    """The rows of all mimic joints."""
    direction = mimic_directions(mimic, at_start.topology)
    effect = matmul(direction, at_start.inverse_mass)
    error = mimic_errors(mimic, at_start.topology, joint_position)
    return MimicRow(mimic, direction, effect, jnp.sum(direction * effect, axis=1), error)


def mimic_impulse(row: MimicRow, rate: Array, error: Array, sweep: Sweep) -> Array:
    """The impulse that one sweep adds; it is not accumulated.

    A sweep corrects a fraction of a hard relation's error. A compliant relation acts like a spring
    and damper with the given natural frequency and damping ratio. In velocity sweeps both keep the
    rate at zero.

    Args:
      row: the mimic joint.
      rate: ``qd_follower + gear_ratio qd_reference``.
      error: ``q_follower + gear_ratio q_reference + offset``.
      sweep: the sweep.
    """
    if not sweep.moves_positions:
        return -rate / row.response
    h = sweep.h
    frequency = row.mimic.natural_frequency
    compliant = (frequency > 0) & (row.mimic.damping_ratio > 0)
    stiffness = frequency**2 / row.response
    damping = 2 * row.mimic.damping_ratio * frequency / row.response
    gain = jnp.where(compliant, h * stiffness + damping, 1)
    softness = jnp.where(compliant, 1 / (h * gain), 0)
    part = jnp.where(compliant, h * stiffness / gain, sweep.error_reduction)
    return -(part * error / h + rate) / (row.response + softness)


class FixedTendonRow(NamedTuple):
    """One fixed tendon with up to m joints (or all, with a leading axis [T])."""

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    excess: Array
    """Length at the start of the step minus the rest length, per joint."""
    over_upper: Array
    """Length at the start of the step minus the upper limit, per joint; ``-inf`` without a
    limit."""
    under_lower: Array
    """Length at the start of the step minus the lower limit, per joint; ``inf`` without a limit."""
    coefficient: Array
    """Derivative of the length, per joint, with respect to the joint positions, [n]."""
    free_rate: Array
    """Rate of the length, per joint, before any impulse."""
    rate: Array
    """Derivative of that rate with respect to the generalised velocity, [nv]."""
    recip_coefficient: Array
    """Impulse per tendon impulse, [m]; 0 where there is no joint."""
    response: Array
    """Relative velocity at each joint per impulse, [m]."""
    effect: Array
    """Change of the generalised velocity per impulse at each joint, [m, nv]."""
    wrench: Array
    """Wrenches on the links for a unit impulse at each joint: on the joint's own link,
    [m, L, 6]."""
    reaction: Array
    """The same, on the tendon's root link, [m, L, 6]."""


def fixed_tendon_rows(
    articulation: Articulation, at_start: StepStart, joint_position: Array, motion: Array
) -> FixedTendonRow:
    """The rows of all fixed tendons; ``motion`` [L, 6] are the links' velocities before any
    impulse.
    """
    topology = at_start.topology
    numbers = articulation.fixed_tendons
    dof, *_, table = tendon_joint_structure(topology)
    wrenches = tendon_joint_wrenches(at_start)
    moving = wrenches.on_link - wrenches.on_parent
    rate = jnp.einsum("jlk,lkv->jv", moving, at_start.jacobian, precision=HIGHEST)
    free_rate = jnp.sum(moving * motion[None], axis=(1, 2))
    acting = wrenches.on_link - wrenches.on_root
    force = jnp.einsum("jlk,lkv->jv", acting, at_start.jacobian, precision=HIGHEST)
    effect = matmul(force, at_start.inverse_mass)
    members = jnp.asarray(table < len(dof), rate.dtype)
    count = jnp.sum(members, axis=1)

    def group(values: Array) -> Array:
        """Regroups one entry per joint into [T, m], padded with zeros."""
        padded = jnp.concatenate([values, jnp.zeros_like(values[:1])])
        return padded[table]

    coefficient = group(numbers.coefficient)
    share = coefficient / count[:, None]
    dofs = group(jnp.asarray(dof))
    moved = jax.nn.one_hot(dofs, topology.num_dofs, dtype=rate.dtype) * coefficient[:, :, None]
    length = numbers.offset + jnp.sum(coefficient * joint_position[dofs], axis=1)
    return FixedTendonRow(
        stiffness=numbers.stiffness,
        damping=numbers.damping,
        limit_stiffness=numbers.limit_stiffness,
        excess=(length - numbers.rest_length) / count,
        over_upper=(length - numbers.upper_limit) / count,
        under_lower=(length - numbers.lower_limit) / count,
        coefficient=jnp.sum(moved, axis=1) / count[:, None],
        free_rate=jnp.sum(share * group(free_rate), axis=1),
        rate=jnp.sum(share[:, :, None] * group(rate), axis=1),
        recip_coefficient=group(numbers.recip_coefficient),
        response=group(jnp.sum(force * effect, axis=1)),
        effect=group(effect),
        wrench=group(wrenches.on_link),
        reaction=group(-wrenches.on_root),
    )


def fixed_tendon_impulses(
    row: FixedTendonRow, spring: Array, limit: Array, rate: Array, stretch: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses [m] of a tendon's spring and damper, and of its limits, after one
    more sweep.

    All joints of a tendon use the velocities from before the tendon is solved. In continuous time
    the effort at joint i of K is ``-recip_coefficient_i (stiffness (length - rest_length) + damping
    rate + limit_stiffness excess) / K``.

    Args:
      row: the tendon.
      spring: impulses of spring and damper so far, [m].
      limit: impulses of the limits so far, [m].
      rate: rate of the length, per joint.
      stretch: change of the length since the start of the step, per joint.
      sweep: the sweep.
    """
    h = sweep.h
    gain, share, limit_share, keep, keep_limit = _tendon_shares(row, sweep)
    over, under = (
        jnp.where(jnp.isfinite(bound), bound, 0) + jnp.where(jnp.isfinite(bound), stretch, 0)
        for bound in (row.over_upper, row.under_lower)
    )
    beyond = jnp.where(under < 0, under, jnp.maximum(over, 0))
    pull = gain * rate + h * row.stiffness * (row.excess + stretch)
    spring = keep * spring - row.recip_coefficient * share * pull
    limit = (
        keep_limit * limit - row.recip_coefficient * h * row.limit_stiffness * limit_share * beyond
    )
    return spring, limit


class _TendonShares(NamedTuple):
    """How a sweep weighs the impulses of a tendon's implicit spring and damper."""

    gain: Array
    """Impulse per rate of the length."""
    spring: Array
    """Fraction of an explicit spring's impulse that an implicit one has."""
    limit: Array
    """The same of the limits' spring."""
    keep: Array | int
    """Fraction of the spring's impulse so far that stays."""
    keep_limit: Array | int
    """The same of the limits' impulse."""


def _tendon_shares(row: FixedTendonRow | SpatialTendonRow, sweep: Sweep) -> _TendonShares:
    h = sweep.h
    gain = h * (h * row.stiffness + row.damping)
    spring = 1 / (1 + gain * row.response)
    limit = 1 / (1 + h * (h * row.limit_stiffness + row.damping) * row.response)
    if sweep.temporal:
        return _TendonShares(gain, spring, limit, 1, 1)
    return _TendonShares(gain, spring, limit, 1 - spring, 1 - limit)


class SpatialTendonRow(NamedTuple):
    """One path from a root to a leaf (or all, with a leading axis [S])."""

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    rest_length: Array
    lower_limit: Array
    upper_limit: Array
    free_rate: Array
    """Rate at which the ends of the path shorten it, before any impulse."""
    direction: Array
    """Derivative of that rate with respect to the generalised velocity; also the force of a unit
    impulse, [nv]."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Velocity per impulse."""
    wrench: Array
    """Wrenches on the links for a unit impulse, [L, 6]."""


def spatial_tendon_rows(
    articulation: Articulation, at_start: StepStart, motion: Array
) -> SpatialTendonRow:
    """The rows of all paths; ``motion`` [L, 6] are the links' velocities before any impulse."""
    numbers = articulation.spatial_tendons
    paths = tendon_paths(at_start.topology.spatial_tendons)
    wrench = end_wrenches(articulation, at_start)
    direction = jnp.einsum("slk,lkv->sv", wrench, at_start.jacobian, precision=HIGHEST)
    effect = matmul(direction, at_start.inverse_mass)
    return SpatialTendonRow(
        stiffness=numbers.stiffness[paths.tendon],
        damping=numbers.damping[paths.tendon],
        limit_stiffness=numbers.limit_stiffness[paths.tendon],
        rest_length=numbers.rest_length[paths.leaf],
        lower_limit=numbers.lower_limit[paths.leaf],
        upper_limit=numbers.upper_limit[paths.leaf],
        free_rate=jnp.sum(wrench * motion[None], axis=(1, 2)),
        direction=direction,
        effect=effect,
        response=jnp.sum(direction * effect, axis=1),
        wrench=wrench,
    )


def spatial_tendon_impulses(
    row: SpatialTendonRow, spring: Array, limit: Array, rate: Array, length: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses of one path's spring and damper, and of its limits, after one more
    sweep.

    They pull the leaf towards its parent and the root towards its child. Attachments in between
    feel nothing. In continuous time the force is ``stiffness (length - rest_length) - damping rate
    + limit_stiffness excess``.

    Args:
      row: the path.
      spring: impulse of spring and damper so far.
      limit: impulse of the limits so far.
      rate: rate at which the ends of the path shorten it.
      length: length of the path now.
      sweep: the sweep.
    """
    h = sweep.h
    gain, share, limit_share, keep, keep_limit = _tendon_shares(row, sweep)
    beyond = beyond_limits(length, row.lower_limit, row.upper_limit)
    pull = h * row.stiffness * (length - row.rest_length) - gain * rate
    spring = keep * spring + share * pull
    limit = keep_limit * limit + h * row.limit_stiffness * limit_share * beyond
    return spring, limit
