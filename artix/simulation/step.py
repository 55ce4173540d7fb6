"""One step in time: checks the arguments and takes all substeps with the chosen solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from artix.compiler.jax_internals import scan
from artix.compiler.quantity import one_operation, quantity
from artix.contact.ground import Ground, check_ground
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_state, check_type
from artix.model.scene import Scene
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control, check_control, check_known_control, warn_of_missing_gains
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import RolloutReport, StepReport, summarized
from artix.simulation.common.solvers import HOMES, solver_of
from artix.simulation.contacts import Memory, check_memory, has_pairs, touching_of
from artix.simulation.continuous import rk4_step
from artix.simulation.implicit.step import contact_memory, end_states, solve_step
from artix.simulation.implicit.step_report import step_reports

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
        derivatives are the limits for ``dt -> 0``, unless a joint is beyond its limit or contacts hit or penetrate.
      options: solver and iterations; static.
      ground: the ground that the shapes may touch, or ``None``. Not available with ``solver="rk4"``.

    Returns:
      The state after the step.

    Raises:
      ValueError: an array has the wrong shape; a known state or control has a number that is not finite, or a
        quaternion not of length 1; ``dt`` is negative; the solver is ``"rk4"`` and there are mimic joints, loop joints
        or a ground; no shape can touch the ground; there are pairs of shapes and the solver is not
        ``"implicit"``; or the solver is ``"pgs"`` or ``"tgs"``, and a surface is not a plane, a shape is not a sphere,
        capsule or box, or one of them is compliant.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> print(artix.step(pendulum, level, None, 0.01).joint_velocity)  # it falls
      [-0.126  0.168]
      >>> holding = artix.Control(joint_force=artix.gravity_compensation(pendulum, level))
      >>> print(jnp.abs(artix.step(pendulum, level, holding, 0.01).joint_velocity).max() < 1e-4)
      True
    """
    warn_of_missing_gains(articulation, control)
    return _step(articulation, state, control, _time(articulation, control, dt, options, ground), options, ground)


@quantity
def _step(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> State:
    return _advance(articulation, state, None, control, dt, options, ground)[0]


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
    warn_of_missing_gains(articulation, control)
    time = _time(articulation, control, dt, options, ground)
    if options.solver == "rk4":
        raise ValueError("solver='rk4' has no report: accelerations of a smooth motion are those of artix.vector_field")
    return _step_and_report(articulation, state, control, time, options, ground)


@quantity
def _step_and_report(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> tuple[State, StepReport]:
    end, _, report = _advance(articulation, state, None, control, dt, options, ground, with_report=True)
    return end, report


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
      ValueError: as :func:`step`, the solver is ``"rk4"``, or the memory has another number of contacts.
      TypeError: as :func:`step`, or the memory is not one of this solver.

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
    warn_of_missing_gains(articulation, control)
    time = _time(articulation, control, dt, options, ground)
    if options.solver == "rk4":
        raise ValueError("solver='rk4' has no contacts: use artix.step, or solver='implicit', 'pgs' or 'tgs'")
    check_memory(memory, options)
    return _step_with_contact_memory(articulation, state, memory, control, time, options, ground)


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
    return _advance(articulation, state, memory, control, dt, options, ground)[:2]


def step_and_summary(
    articulation: Articulation,
    state: State,
    memory: Memory | None,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions,
    *,
    ground: Ground | None,
) -> tuple[State, Memory | None, RolloutReport]:
    """A :func:`step_with_contact_memory`, or a :func:`step` without a memory, with what a rollout reports of it."""
    time = _time(articulation, control, dt, options, ground)
    return _step_and_summary(articulation, state, memory, control, time, options, ground)


@quantity
def _step_and_summary(
    articulation: Articulation,
    state: State,
    memory: Memory | None,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> tuple[State, Memory | None, RolloutReport]:
    end, memory, report = _advance(articulation, state, memory, control, dt, options, ground, with_report=True)
    return end, memory, summarized([end], [] if report is None else [report])


def _advance(
    articulation: Articulation,
    state: State,
    memory: Any,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
    *,
    with_report: bool = False,
) -> tuple[State, Any, Any]:
    """The state after all substeps, the memory if there was one, and the report of the last substep if wanted."""
    control = checked_control(articulation, state, control, options, ground)
    if options.substeps == 1:
        return _substep(articulation, state, memory, control, dt, options, ground, with_report)

    def take(now: tuple[State, Any], part: Array) -> tuple[tuple[State, Any], Any]:
        end, remembered, report = _substep(articulation, *now, control, part, options, ground, with_report)
        return (end, remembered), report

    (end, memory), report = in_parts(take, (state, memory), dt, options)
    return end, memory, report


def _substep(
    articulation: Articulation,
    state: State,
    memory: Any,
    control: Control,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
    with_report: bool,
) -> tuple[State, Any, Any]:
    if options.solver == "rk4":
        return rk4_step(articulation, state, control, dt, options.tendon_law), memory, None
    if options.solver in HOMES:
        take_step = solver_of(options.solver).step
        after, memory, report = take_step(articulation, state, memory, control, dt, options, ground)
        return after, memory, report if with_report else None
    (end,), memory, reports = implicit_substep(
        articulation, [articulation], [state], memory, [control], dt, options, ground, with_report
    )
    return end, memory, reports[0] if with_report else None


def implicit_substep(
    model: Articulation | Scene,
    articulations: Sequence[Articulation],
    states: Sequence[State],
    memory: ContactMemory | None,
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
    with_report: bool,
) -> tuple[tuple[State, ...], ContactMemory | None, list[StepReport]]:
    """The states after a substep of a model's articulations, the memory if there was one, and the reports if wanted."""
    touching = touching_of(model, states, ground, options, memory)
    solved = solve_step(articulations, states, controls, dt, options, touching)
    ends = end_states(solved)
    if memory is not None and touching is not None:
        memory = contact_memory(solved)
    return tuple(ends), memory, step_reports(solved, ends, options) if with_report else []


def in_parts(
    take_step: Callable[[Any, Array], tuple[Any, Any]], state: Any, dt: Array, options: SolverOptions
) -> tuple[Any, Any]:
    """Takes all substeps of a step. Returns the final state and the report of the last substep."""
    if options.substeps == 1:
        return take_step(state, dt)
    part = dt / options.substeps
    end, reports = scan(lambda now, _: take_step(now, part), state, length=options.substeps)
    return end, jax.tree.map(lambda each: each[-1], reports)


def _time(
    articulation: Articulation,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions,
    ground: Ground | None,
) -> Array:
    """Checks what must be known outside of the program, and returns the length of the step."""
    check_type("options", options, SolverOptions)
    check_known_control(control)
    if ground is not None:
        check_ground(ground)
        if options.solver in HOMES:
            solver_of(options.solver).check(articulation, ground, options)
    return as_time(articulation, dt, backward=options.solver == "rk4")


def checked_control(
    articulation: Articulation, state: State, control: Control | None, options: SolverOptions, ground: Ground | None
) -> Control:
    """Checks all arguments and returns the control."""
    control = Control() if control is None else control
    check_state(articulation, state)
    if ground is not None and options.solver == "rk4":
        raise ValueError("solver='rk4' has no contacts: use solver='implicit', 'pgs' or 'tgs', or leave out ground")
    if has_pairs(articulation) and not options.is_implicit:
        raise ValueError(
            f"solver={options.solver!r} has no contacts between links, but the articulation has pairs of shapes: use "
            "solver='implicit', or remove the pairs with artix.select_geometry_pairs(articulation, ())"
        )
    check_control(articulation, control)
    return control
