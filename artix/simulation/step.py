"""One step in time: checks the arguments and calls the chosen solver."""

from __future__ import annotations

from typing import Any

import jax

from artix.contact.ground import Ground
from artix.evaluation.quantity import one_operation, quantity
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_type, check_vector
from artix.simulation.common.options import Control, SolverOptions
from artix.simulation.common.report import StepReport
from artix.simulation.continuous import rk4_step
from artix.simulation.implicit.step import implicit_step, implicit_step_and_report
from artix.simulation.in_parts import in_parts
from artix.simulation.projected.contact_checks import check_rigid
from artix.simulation.projected.step import physx_step
from artix.simulation.remembered import Memory, held_by, touching_of
from artix.simulation.step_checks import checked_control

Array = jax.Array

DEFAULT_OPTIONS = SolverOptions()


@one_operation
def step(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> State:
    """Advances an articulation by one step, as PhysX's ``simulate`` does.

    The step includes gravity, joint forces, external wrenches, drives with limits and envelopes, joint friction,
    position and velocity limits, mimic joints, loop joints, tendons, damping and speed limits of links, contacts with
    the ground and, with ``"implicit"``, contacts between the pairs of shapes in ``topology.geometry_pairs``. It is
    semi-implicit in time: velocities change first, then positions move with the new velocities.

    Args:
      articulation: the articulation; every parameter may be traced, batched and differentiated.
      state: the state at the start of the step.
      control: forces and targets during the step, or ``None``.
      dt: length of the step [s]; negative only with ``solver="rk4"``. At zero the state does not change, and
        derivatives are the limits for ``dt -> 0``.
      options: solver and iterations; static.
      ground: the ground that the shapes may touch, or ``None``. Not available with ``solver="rk4"``.

    Returns:
      The state after the step.

    Raises:
      ValueError: an array has the wrong shape; ``dt`` is negative; the solver is ``"rk4"`` and there are mimic joints,
        loop joints or a ground; no shape can touch the ground; there are pairs of shapes and the solver is not
        ``"implicit"``; or the solver is ``"pgs"`` or ``"tgs"``, and a surface is not a plane, a shape is not a sphere,
        capsule or box, or one of them is compliant.
      TypeError: an array has another dtype than the articulation, or the articulation is padded but the solver or one
        of its features needs a static topology.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> print(artix.step(pendulum, level, None, 0.01).joint_velocity)  # it falls
      [-0.126  0.168]
      >>> holding = artix.Control(joint_force=artix.gravity_compensation(pendulum, level))
      >>> print(jnp.abs(artix.step(pendulum, level, holding, 0.01).joint_velocity).max() < 1e-4)
      True
    """
    check_type("options", options, SolverOptions)
    check_rigid(articulation, ground, options)
    time = as_time(articulation, dt, backward=options.solver == "rk4")
    return _step(articulation, state, control, time, options, ground)


@quantity
def _step(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> State:
    control = checked_control(articulation, state, control, options, ground)
    if options.substeps == 1:
        return _substep(articulation, state, control, dt, options, ground)

    def take(now: State, part: Array) -> tuple[State, Any]:
        return _substep(articulation, now, control, part, options, ground), ()

    return in_parts(take, state, dt, options)[0]


def _substep(
    articulation: Articulation, state: State, control: Control, dt: Array, options: SolverOptions, ground: Ground | None
) -> State:
    if options.solver == "rk4":
        return rk4_step(articulation, state, control, dt, options.tendon_law)
    if options.solver == "implicit":
        touching = touching_of(articulation, [state], ground, options)
        return implicit_step([articulation], [state], [control], dt, options, touching)[0][0]
    held = held_by(articulation, state, ground, None)
    return physx_step(articulation, state, control, dt, options, touching=held).state


@one_operation
def step_and_report(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> tuple[State, StepReport]:
    """Takes a :func:`step` and also reports accelerations, joint forces and contacts.

    Arguments and exceptions are the same; ``solver="rk4"`` has no report and raises ``ValueError``.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1))
      >>> ball = builder.build()
      >>> falling = artix.neutral_state(ball).replace(root_pose=jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]))
      >>> state, report = artix.step_and_report(ball, falling, None, 0.005, ground=artix.Ground.flat())
      >>> print(report.link_acceleration[0, :3], report.contacts.gap)
      [ 0.    0.   -9.81] [0.9]
    """
    check_type("options", options, SolverOptions)
    if options.solver == "rk4":
        raise ValueError("solver='rk4' has no report: accelerations of a smooth motion are those of artix.vector_field")
    check_rigid(articulation, ground, options)
    return _step_and_report(articulation, state, control, as_time(articulation, dt), options, ground)


@quantity
def _step_and_report(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> tuple[State, StepReport]:
    control = checked_control(articulation, state, control, options, ground)

    if options.substeps == 1:
        return _substep_and_report(articulation, state, control, dt, options, ground)

    def take(now: State, part: Array) -> tuple[State, StepReport]:
        return _substep_and_report(articulation, now, control, part, options, ground)

    return in_parts(take, state, dt, options)


def _substep_and_report(
    articulation: Articulation, state: State, control: Control, dt: Array, options: SolverOptions, ground: Ground | None
) -> tuple[State, StepReport]:
    if options.solver == "implicit":
        touching = touching_of(articulation, [state], ground, options)
        (end,), (report,) = implicit_step_and_report([articulation], [state], [control], dt, options, touching)
        return end, report
    held = held_by(articulation, state, ground, None)
    outcome = physx_step(articulation, state, control, dt, options, touching=held)
    return outcome.state, outcome.report


@one_operation
def step_with_contact_memory(
    articulation: Articulation,
    state: State,
    memory: Memory,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> tuple[State, Memory]:
    """Takes a :func:`step` whose contacts start from those of the previous step.

    With ``"implicit"`` the solver starts from the previous impulses. Bodies at rest then converge to the last digit,
    and fewer iterations suffice. The solution is the same, and so is its derivative, which does not depend on the
    memory. With ``"pgs"`` and ``"tgs"`` friction keeps its anchors. Without them, objects on a slope creep, as in PhysX
    with strong friction disabled.

    Args:
      articulation: as for :func:`step`.
      state: as for :func:`step`.
      memory: the memory that the previous step returned. To start, use :meth:`ContactMemory.none` or, with ``"pgs"``
        and ``"tgs"``, :meth:`FrictionAnchors.none`.
      control: as for :func:`step`.
      dt: as for :func:`step`.
      options: as for :func:`step`.
      ground: as for :func:`step`.

    Returns:
      The state after the step, and its memory.

    Raises:
      ValueError: as :func:`step`, or the memory has another number of contacts.
      TypeError: as :func:`step`.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1))
      >>> ball, ground = builder.build(), artix.Ground.flat()
      >>> state = artix.neutral_state(ball).replace(root_pose=jnp.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]))
      >>> memory = artix.ContactMemory.none(ball, ground)
      >>> for _ in range(2):
      ...     state, memory = artix.step_with_contact_memory(ball, state, memory, None, 0.005, ground=ground)
      ...
      >>> print(memory.impulse)  # 9.81 N for 0.005 s
      [[0.    0.    0.049]]
    """
    return _step_with_contact_memory(articulation, state, memory, control, as_time(articulation, dt), options, ground)


@quantity
def _step_with_contact_memory(
    articulation: Articulation,
    state: State,
    memory: Memory,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> tuple[State, Memory]:
    control = checked_control(articulation, state, control, options, ground)

    if options.substeps == 1:
        return _substep_with_memory(articulation, state, memory, control, dt, options, ground)

    def take(now: tuple[State, Any], part: Array) -> tuple[Any, Any]:
        return _substep_with_memory(articulation, *now, control, part, options, ground), ()

    return in_parts(take, (state, memory), dt, options)[0]


def _substep_with_memory(
    articulation: Articulation,
    state: State,
    memory: Any,
    control: Control,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> tuple[State, Any]:
    if options.solver in ("pgs", "tgs"):
        held = held_by(articulation, state, ground, memory)
        outcome = physx_step(articulation, state, control, dt, options, touching=held)
        return outcome.state, outcome.anchors
    touching = touching_of(articulation, [state], ground, options, memory)
    (end,), remembered = implicit_step([articulation], [state], [control], dt, options, touching)
    return end, memory if remembered is None else remembered


@one_operation
def step_with_joint_drift(
    articulation: Articulation,
    state: State,
    drift: Array,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions,
) -> tuple[State, Array, StepReport]:
    """Takes a :func:`step_and_report` with ``"pgs"`` or ``"tgs"`` and keeps the drift of spherical joints.

    PhysX locks the axes of a spherical joint in velocity only. A joint with two free axes, or with one free axis on a
    rotating parent, therefore also turns about its locked axes. Its joint positions are the components of its rotation
    along the free axes, and PhysX remembers the whole rotation. :func:`step` puts the joint back onto its free axes. No
    other joints drift.

    Args:
      articulation: the articulation as it was built.
      state: the state at the start of the step.
      drift: rotation vectors [rad] by which the inbound joint frames have turned on their parents' links, shape [L, 3];
        zeros at the start and after joint positions have been set, as in PhysX.
      control: as for :func:`step`.
      dt: length of the step [s].
      options: as for :func:`step`.

    Returns:
      The state after the step, its drift, and the report. To evaluate other quantities with the drift, use
      ``artix.link_poses(artix.with_joint_drift(articulation, drift), state)``.

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
      ...     state, drift, _ = artix.simulation.step_with_joint_drift(ball, state, drift, None, 0.05, options)
      ...
      >>> print(jnp.abs(drift[1, 0]) > 0)  # turned about its locked axis
      True
    """
    check_type("options", options, SolverOptions)
    if options.solver not in ("pgs", "tgs"):
        raise ValueError(
            f"solver={options.solver!r} keeps spherical joints on their free axes, so there is no drift: use "
            "artix.step, or solver='pgs' or 'tgs'"
        )
    return _step_with_joint_drift(articulation, state, drift, control, as_time(articulation, dt), options)


@quantity
def _step_with_joint_drift(
    articulation: Articulation,
    state: State,
    drift: Array,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
) -> tuple[State, Array, StepReport]:
    control = checked_control(articulation, state, control, options, None)
    check_vector("drift", drift, (articulation.topology.num_links, 3), articulation.dtype, "L, rotation vectors")

    def take(now: tuple[State, Array], part: Array) -> tuple[tuple[State, Array | None], StepReport]:
        outcome = physx_step(articulation, now[0], control, part, options, drift=now[1])
        return (outcome.state, outcome.drift), outcome.report

    (end, drift), report = in_parts(take, (state, drift), dt, options)
    return end, drift, report
