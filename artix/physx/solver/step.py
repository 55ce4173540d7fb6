"""One step by PhysX's articulation solver: its sweeps, and the motion of positions with them.

``solver="pgs"`` and ``"tgs"`` of :func:`artix.step`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler.jax_internals import scan
from artix.compiler.quantity import one_operation, quantity
from artix.contact.ground import Ground
from artix.contact.scene import scene_of
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.forward import kinematics
from artix.kinematics.frames import frame_pose, frame_velocity, link_frames
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation, State
from artix.model.checks import as_number, as_time, check_state, check_type
from artix.physx.solver.contact_rows import (
    AnchoredContacts,
    StepContacts,
    check_rigid,
    contact_report,
    contact_rows,
    contact_wrenches,
    find_contacts,
)
from artix.physx.solver.friction_anchors import FrictionAnchors, remember_anchors
from artix.physx.solver.gauss_seidel import (
    Progress,
    Rows,
    SweepImpulses,
    constraint_rows,
    no_impulses,
    sweep_once,
    sweep_order,
    tendon_wrenches,
)
from artix.physx.solver.joint_rows import Sweep
from artix.physx.solver.positions import (
    Configuration,
    Unconstrained,
    advance,
    clamp_joint_velocities,
    momentum_of,
    restore_momentum,
    start_configuration,
    to_state,
    unconstrained_velocities,
    with_drift_of,
    with_joint_drift,
)
from artix.physx.solver.sleeping import (
    SLEEP_THRESHOLD,
    SleepState,
    check_sleep,
    sleep_after_step,
)
from artix.simulation.common.control import Control, check_known_control, commands_of
from artix.simulation.common.couplings import loop_closures, loop_wrenches, path_lengths
from artix.simulation.common.momentum_end import with_momentum
from artix.simulation.common.options import SolverOptions, register_solver
from artix.simulation.common.report import ContactReport, StepReport, all_finite, residual_of
from artix.simulation.common.step_start import (
    StepStart,
    evaluate_step_start,
    generalized_force,
    gravity_and_loads,
    has_loop_joints,
    incoming_joint_forces,
    link_motion,
    link_resistance,
    response,
    world_inertias,
)
from artix.simulation.step import DEFAULT_OPTIONS, checked_controls, in_parts, step

Array = jax.Array


class Solution(NamedTuple):
    """The result of the sweeps."""

    change: Array
    """Change of the generalised velocity by impulses, [nv]."""
    mean_change: Array
    """The same for the velocities that moved the positions, [nv]."""
    impulses: SweepImpulses
    configuration: Configuration
    """Configuration at the end of the step."""
    position_corrections: Array
    """Corrections of the rows' velocities in the last position sweep; see :func:`sweep_once`."""
    velocity_corrections: Array
    """The same for the last velocity sweep, or the last position sweep if there are no velocity
    sweeps."""


class _Carry(NamedTuple):
    """The carry of the position sweeps."""

    change: Array
    total_change: Array
    """Sum over all sweeps so far."""
    impulses: SweepImpulses
    configuration: Configuration
    progress: Progress


class SweepInputs(NamedTuple):
    """What does not change during the sweeps of a step."""

    articulation: Articulation
    state: State
    """At the start of the step, like ``at_start``."""
    at_start: StepStart
    rows: Rows
    free: Unconstrained
    late: Array | None
    """Generalised acceleration by forces that act in every sweep, [nv]."""
    keeps_drift: bool
    """Whether spherical joints keep their drift off their free axes."""

    def advance(
        self, change: Array, configuration: Configuration, progress: Progress, time: Array
    ) -> tuple[Configuration, Progress]:
        """Moves positions with the current velocities for a time."""
        velocity = self.free.velocity + change
        motion = self.free.motion + link_motion(self.at_start, change)
        row_velocity = self.rows.dofs.free_velocity + change[self.rows.dofs.place]
        progress = progress._replace(
            motion=progress.motion + time * velocity,
            displacement=progress.displacement + time * row_velocity,
        )
        topology = self.at_start.topology
        joints = velocity[topology.num_base_dofs :]
        return advance(topology, configuration, joints, motion, time), progress

    def measure(self, progress: Progress, moved: Configuration, elapsed: Array) -> Progress:
        """The progress with tendon lengths and link displacements for the configuration."""
        if not self.at_start.topology.spatial_tendons and self.rows.contacts is None:
            return progress
        frame = self.moved_frames(moved)
        progress = progress._replace(path_length=self.lengths(frame))
        if self.rows.contacts is None:
            return progress
        center = frame @ Transforms.from_poses(self.articulation.link_com_pose)
        # PhysX moves centres of mass with the links, and sums rotations in the initial axes.
        caused = link_motion(self.at_start, progress.motion - elapsed * self.free.velocity)
        turned = elapsed * self.free.motion[:, 3:] + caused[:, 3:]
        travel = jnp.concatenate([center.position.T - self.at_start.center, turned], axis=1)
        return progress._replace(link_travel=travel)

    def moved_frames(self, moved: Configuration) -> Transforms:
        """The frames of the moved links, relative to the root's centre of mass at the start of the
        step.
        """
        articulation = self.articulation
        topology = self.at_start.topology
        # The root's initial position is left out: far from the origin it would cost digits.
        origin = self.state.root_pose.at[:3].set(self.at_start.frame.position[:, 0])
        end = to_state(articulation, topology, moved, self.state.replace(root_pose=origin))
        if self.keeps_drift:
            articulation, _ = with_drift_of(articulation, topology, moved, end)
        return Transforms.from_poses(frame_pose(articulation, end))

    def lengths(self, frame: Transforms) -> Array:
        """Lengths [S] of the spatial tendons' paths for these link frames."""
        topology = self.at_start.topology
        if not topology.spatial_tendons:
            return jnp.zeros_like(self.state.joint_position, shape=(0,))
        return path_lengths(self.articulation, topology, frame)


def iterate(inputs: SweepInputs, dt: Array, options: SolverOptions) -> Solution:
    """Takes all position and velocity sweeps of a step of length ``dt`` [s]."""
    rows = inputs.rows
    late = inputs.late
    free_velocity = inputs.free.velocity
    temporal = options.solver == "tgs"
    count = options.position_iterations
    h = dt / count if temporal else dt
    zero = jnp.zeros_like(free_velocity)
    order = sweep_order(
        inputs.at_start.topology, () if rows.contacts is None else rows.contacts.links
    )

    def position_sweep(carry: _Carry, number: Array) -> tuple[_Carry, Array]:
        change = carry.change if late is None else carry.change + h * late
        configuration = carry.configuration
        progress = carry.progress
        if temporal:
            progress = inputs.measure(progress, configuration, number * h)
        sweep = _sweep(
            options, dt, h, number * h if temporal else jnp.zeros_like(h), moves_positions=True
        )
        change, impulses, corrected = sweep_once(
            rows, order, change, carry.impulses, progress, free_velocity, sweep
        )
        if temporal:
            configuration, progress = inputs.advance(change, configuration, progress, h)
        return _Carry(
            change, carry.total_change + change, impulses, configuration, progress
        ), corrected

    configuration = start_configuration(inputs.at_start, inputs.state)
    unmoved = jnp.zeros(
        (0, 6) if rows.contacts is None or not temporal else inputs.free.motion.shape, zero.dtype
    )
    lengths = inputs.lengths(inputs.at_start.frame)
    progress = Progress(zero, jnp.zeros_like(inputs.state.joint_position), lengths, unmoved)
    start = _Carry(zero, zero, no_impulses(rows), configuration, progress)
    carry, corrections = scan(position_sweep, start, jnp.arange(count).astype(dt.dtype))
    change = carry.change
    impulses = carry.impulses
    configuration = carry.configuration
    if temporal:
        mean_change = carry.total_change / count
        progress = inputs.measure(carry.progress, configuration, dt)
    else:
        mean_change = change
        configuration, _ = inputs.advance(change, configuration, progress, dt)
    last = corrections
    if options.velocity_iterations:
        sweep = _sweep(
            options, dt, h, dt if temporal else jnp.zeros_like(dt), moves_positions=False
        )

        def velocity_sweep(
            carry: tuple[Array, SweepImpulses], _
        ) -> tuple[tuple[Array, SweepImpulses], Array]:
            change, impulses, corrected = sweep_once(
                rows, order, *carry, progress, free_velocity, sweep
            )
            return (change, impulses), corrected

        (change, impulses), last = scan(
            velocity_sweep, (change, impulses), length=options.velocity_iterations
        )
    return Solution(change, mean_change, impulses, configuration, corrections[-1], last[-1])


def _sweep(
    options: SolverOptions, dt: Array, h: Array, elapsed: Array, *, moves_positions: bool
) -> Sweep:
    temporal = options.solver == "tgs"
    return Sweep(
        temporal=temporal,
        moves_positions=moves_positions,
        restarts=moves_positions and options.external_forces_every_iteration,
        drive_limits_are_forces=options.drive_limits_are_forces,
        dt=dt,
        h=h,
        elapsed=elapsed,
        error_reduction=jnp.asarray(
            2 / options.position_iterations**0.5 if temporal else 0.8, dt.dtype
        ),
    )


# --- the step -----------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """The result of a step."""

    state: State
    drift: Array | None
    """Drifts of joints, [L, 3]; ``None`` if they are not kept."""
    anchors: FrictionAnchors | None
    """Friction anchors for the next step; ``None`` without a ground."""
    report: StepReport


def physx_step(
    articulation: Articulation,
    state: State,
    control: Control,
    dt: Array,
    options: SolverOptions,
    *,
    drift: Array | None = None,
    touching: AnchoredContacts | None = None,
) -> Outcome:
    """One step by PhysX's law.

    Args:
      state: its state.
      control: forces and targets.
      dt: length of the step [s].
      options: the solver and the numbers of sweeps.
      drift: drifts of its joints, [L, 3]; see :func:`artix.step_with_joint_drift`.
      touching: its contacts with the ground.
    """
    state = clamp_joint_velocities(articulation, state)
    placed = articulation if drift is None else with_joint_drift(articulation, drift)
    at_start = evaluate_step_start(placed, state)
    topology = at_start.topology
    velocity = generalized_velocity(articulation, state)
    motion = link_motion(at_start, velocity)
    loads = gravity_and_loads(articulation, control.external_force)
    damping, brake = link_resistance(articulation, at_start, motion, loads, dt)
    applied = loads - damping
    commands = commands_of(articulation, control)
    free, late = _free_motion(at_start, velocity, applied, brake, commands.joint_force, dt, options)
    loops = loop_closures(placed, state) if has_loop_joints(topology) else None
    contacts = None
    if touching is not None:
        contacts = contact_rows(articulation, at_start, touching, free.motion, dt, options)
    contact_part = None if contacts is None else contacts.rows
    rows = constraint_rows(
        articulation,
        at_start,
        loops,
        state.joint_position,
        free.motion,
        commands,
        contact_part,
        drift,
    )
    inputs = SweepInputs(
        articulation, state, at_start, rows, free, late, keeps_drift=drift is not None
    )
    solution = iterate(inputs, dt, options)
    configuration = _within_limits(articulation, solution.configuration)
    end = to_state(articulation, topology, configuration, state)
    drifted = articulation
    if drift is not None:
        drifted, drift = with_drift_of(articulation, topology, configuration, end)
    end, link_velocity = _end(drifted, end, at_start, free, solution, dt)
    wrench = applied + brake
    on_link_b = applied[:0]
    if loops is not None:
        on_links, on_link_b = loop_wrenches(at_start, loops, sum(solution.impulses.loops) / dt)
        wrench = wrench + on_links
    contacts_after = anchors_after = None
    if touching is not None and contacts is not None:
        by_contacts, contacts_after, anchors_after = _contact_results(
            at_start, touching, contacts, solution, dt
        )
        wrench = wrench + by_contacts
    acceleration = free.acceleration + solution.change / dt
    link_acceleration = link_motion(at_start, acceleration) + at_start.velocity_product
    end_frame = link_frames(topology, kinematics(drifted, end))
    tendons = tendon_wrenches(rows, solution.impulses, dt, topology.num_links)
    joint_forces = incoming_joint_forces(
        articulation, at_start, end_frame, motion, link_acceleration, wrench, tendons
    )
    report = StepReport(
        joint_acceleration=acceleration[topology.num_base_dofs :],
        link_velocity=link_velocity,
        link_acceleration=link_acceleration,
        incoming_joint_force=joint_forces,
        loop_joint_force=on_link_b,
        position_residual=residual_of(solution.position_corrections),
        velocity_residual=residual_of(solution.velocity_corrections),
        is_finite=all_finite(end),
        is_solved=jnp.ones((), bool),
        energy_correction=jnp.zeros_like(dt),
        contacts=contacts_after,
    )
    return Outcome(end, drift, anchors_after, report)


def _free_motion(
    at_start: StepStart,
    velocity: Array,
    applied: Array,
    brake: Array,
    joint_force: Array,
    dt: Array,
    options: SolverOptions,
) -> tuple[Unconstrained, Array | None]:
    """The motion without constraints, and the acceleration [nv] by forces that act in every sweep
    instead.

    Args:
      velocity: generalised velocity at the start of the step, [nv].
      applied: wrenches of gravity, loads and damping on the links, [L, 6].
      brake: wrenches that slow links down to their speed limits, [L, 6].
      joint_force: commanded joint forces, [n].
      dt: length of the step [s].
      options: whether external forces act in every sweep.
    """
    force = jnp.pad(joint_force, (at_start.topology.num_base_dofs, 0))
    late = None
    if options.external_forces_every_iteration:
        late = response(at_start, generalized_force(at_start, applied) + force)
        free = unconstrained_velocities(at_start, velocity, brake, jnp.zeros_like(force), dt)
    else:
        free = unconstrained_velocities(at_start, velocity, applied + brake, force, dt)
    return _correct_momentum(at_start, free), late


def _contact_results(
    at_start: StepStart,
    touching: AnchoredContacts,
    contacts: StepContacts,
    solution: Solution,
    dt: Array,
) -> tuple[Array, ContactReport, FrictionAnchors]:
    """Mean wrenches of contacts on the links [L, 6], the report on them, and the anchors for the
    next step.
    """
    rows = contacts.rows
    impulses = solution.impulses.contacts
    assert impulses is not None
    wrench = contact_wrenches(rows, impulses, dt, at_start.topology.num_links)
    last = solution.velocity_corrections[-(rows.normal.gap.size + rows.friction.error.size) :]
    report = contact_report(at_start, touching, rows, impulses, last, solution.change, dt)
    frames = [at_start.frame.take([link]) for link in rows.links]
    anchors = remember_anchors(
        contacts.anchors, impulses.slips, frames, touching.reference, contacts.search_poses
    )
    return wrench, report, anchors


def _correct_momentum(at_start: StepStart, free: Unconstrained) -> Unconstrained:
    """Gives a floating articulation the momentum that results from the external forces only."""
    if at_start.topology.fixed_base:
        return free
    bodies = (at_start.mass, world_inertias(at_start), at_start.center)
    target = momentum_of(*bodies, free.loaded_motion)
    motion = restore_momentum(*bodies, free.motion, target, magnitude_only=True)
    return free._replace(motion=motion, velocity=jnp.concatenate([motion[0], free.velocity[6:]]))


def _within_limits(articulation: Articulation, configuration: Configuration) -> Configuration:
    """PhysX 5.6.1 clips the positions of limited prismatic joints."""
    q = configuration.joint_position
    clipped = jnp.clip(q, articulation.joint_lower_limit, articulation.joint_upper_limit)
    return configuration._replace(
        joint_position=jnp.where(articulation.topology.dof_is_linear, clipped, q)
    )


def _end(
    articulation: Articulation,
    moved: State,
    at_start: StepStart,
    free: Unconstrained,
    solution: Solution,
    dt: Array,
) -> tuple[State, Array]:
    """The state after the step, with the positions of ``moved``, and the links' velocities
    [L, 6].
    """
    base = at_start.topology.num_base_dofs
    velocity = free.velocity + solution.change
    motion = free.motion + link_motion(at_start, solution.change)
    end = moved.replace(joint_velocity=velocity[base:])
    if base == 0:
        return end, motion
    end = end.replace(root_velocity=velocity[:6])
    target = momentum_of(at_start.mass, world_inertias(at_start), at_start.center, motion)
    moved_by = free.motion + link_motion(at_start, solution.mean_change)
    carried = jnp.sum(at_start.mass[:, None] * moved_by[:, :3], axis=0)
    travelled = solution.configuration.root_center[:, 0]
    center = jnp.sum(at_start.mass[:, None] * at_start.center, axis=0)[:, None] / jnp.sum(
        at_start.mass
    )
    end = with_momentum(
        articulation, end, center, travelled, target, carried, dt, magnitude_only=True
    )
    return end, frame_velocity(articulation, end, offset="com")


@one_operation
def step_with_joint_drift(
    articulation: Articulation,
    state: State,
    drift: Array,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions,
) -> tuple[State, Array, StepReport]:
    """Takes a :func:`step_and_report` with ``"pgs"`` or ``"tgs"`` and keeps the drift of spherical
    joints.

    PhysX locks the axes of a spherical joint in velocity only. A joint with two free axes, or with
    one free axis on a rotating parent, therefore also turns about its locked axes. Its joint
    positions are the components of its rotation along the free axes, and PhysX remembers the whole
    rotation. :func:`step` puts the joint back onto its free axes. No other joints drift.

    Args:
      articulation: the articulation as it was built.
      state: the state at the start of the step.
      drift: rotation vectors [rad] by which the inbound joint frames have turned on their parents'
        links, shape [L, 3]; zeros at the start and after joint positions have been set, as in
        PhysX.
      control: as for :func:`step`.
      dt: length of the step [s].
      options: as for :func:`step`.

    Returns:
      The state after the step, its drift, and the report. To evaluate other quantities with the
      drift, use ``artix.frame_pose(artix.with_joint_drift(articulation, drift), state)``.

    Raises:
      ValueError: as :func:`step`, or the solver is not ``"pgs"`` or ``"tgs"``.
      TypeError: as :func:`step`.

    Examples:
      >>> builder = artix.ArticulationBuilder(fixed_base=True)
      >>> root = builder.add_link()
      >>> joint = artix.Joint.spherical((artix.Axis.SWING1, artix.Axis.SWING2))
      >>> _ = builder.add_link(root, joint, mass=1.0, inertia=(0.1, 0.2, 0.3))
      >>> ball = builder.build()
      >>> state = artix.neutral_state(ball).replace(joint_velocity=jnp.array([3.0, 2.0]))
      >>> options = artix.SolverOptions(solver="tgs")
      >>> drift = jnp.zeros((2, 3))
      >>> for _ in range(5):
      ...     state, drift, _ = artix.step_with_joint_drift(ball, state, drift, None, 0.05, options)
      >>> print(jnp.abs(drift[1, 0]) > 0)  # turned about its locked axis
      True
    """
    check_type("options", options, SolverOptions)
    if options.solver not in ("pgs", "tgs"):
        raise ValueError(
            f"solver={options.solver!r} keeps spherical joints on their free axes, so there is no "
            "drift: use artix.step, or solver='pgs' or 'tgs'"
        )
    check_known_control(control)
    return _step_with_joint_drift(
        articulation, state, drift, control, as_time(articulation, dt), options
    )


@quantity
def _step_with_joint_drift(
    articulation: Articulation,
    state: State,
    drift: Array,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
) -> tuple[State, Array, StepReport]:
    check_state(articulation, state)
    (control,) = checked_controls(scene_of(articulation), control, options)

    def take(
        start: tuple[State, Array], part: Array
    ) -> tuple[tuple[State, Array | None], StepReport]:
        outcome = physx_step(articulation, start[0], control, part, options, drift=start[1])
        return (outcome.state, outcome.drift), outcome.report

    (end, drift), report = in_parts(take, (state, drift), dt, options)
    return end, drift, report


def step_with_sleep(
    articulation: Articulation,
    state: State,
    sleep: SleepState,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    sleep_threshold: float | Array = SLEEP_THRESHOLD,
) -> tuple[State, SleepState]:
    """Takes an :func:`artix.step` if the articulation is awake; otherwise the articulation stays at
    rest.

    This is PhysX's rule. Half a wake time before a link would fall asleep, its velocities start to
    be summed. When the kinetic energy per mass of the sum (not of the mean) reaches the threshold,
    the link stays awake for up to another wake time. The articulation falls asleep as a whole, once
    all links are ready. A nonzero joint force or external wrench wakes it; after other changes
    (drive targets, parameters) call :func:`wake_up`. This function is not differentiable. Under
    ``jax.vmap`` a sleeping articulation costs as much as a step.

    Args:
      state: its state.
      sleep: its counters; start with :func:`wake_up`.
      control: as for :func:`artix.step`.
      dt: length of the step [s].
      options: as for :func:`artix.step`.
      sleep_threshold: kinetic energy per mass below which a link may sleep [m^2/s^2], PhysX's
        ``setSleepThreshold``.

    Returns:
      The state after the step, and its counters.

    Raises:
      ValueError: as :func:`artix.step`; the counters belong to another number of links, or known
        ones are not finite; or the threshold is not one number, negative or not finite.
      TypeError: as :func:`artix.step`.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> hanging = artix.neutral_state(pole).replace(joint_position=jnp.array([0.0, jnp.pi]))
      >>> state, sleep = hanging, artix.wake_up(pole, 0.02)
      >>> for _ in range(4):
      ...     state, sleep = artix.step_with_sleep(pole, state, sleep, None, 0.01)
      >>> print(artix.is_sleeping(sleep))  # nothing moved for 0.02 s
      True
    """
    check_sleep(articulation, sleep)
    sleep_threshold = as_number("sleep_threshold", sleep_threshold, 0)
    end = step(articulation, state, control, dt, options)
    return sleep_after_step(articulation, state, end, sleep, control, dt, sleep_threshold)


class _PhysxSolver:
    """What :func:`artix.step` calls."""

    memory = FrictionAnchors

    def check(self, articulation: Articulation, ground: Ground, options: SolverOptions) -> None:
        """Refuses compliant contacts."""
        check_rigid(articulation, ground, options)

    def step(
        self,
        articulation: Articulation,
        state: State,
        memory: Any,
        control: Control,
        dt: Array,
        options: SolverOptions,
        ground: Ground | None,
    ) -> tuple[State, Any, StepReport]:
        """One substep, whose memory is friction anchors."""
        touching = find_contacts(articulation, state, ground, memory)
        outcome = physx_step(articulation, state, control, dt, options, touching=touching)
        remembered = memory if memory is None or touching is None else outcome.anchors
        return outcome.state, remembered, outcome.report


register_solver("pgs", _PhysxSolver())
register_solver("tgs", _PhysxSolver())
