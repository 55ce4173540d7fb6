"""One step in time of a scene: checks the arguments and takes all substeps with the chosen
solver.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp

from artix.compiler.jax_internals import scan
from artix.compiler.quantity import one_operation, quantity
from artix.contact.ground import check_ground
from artix.contact.scene import BUDGETS, Scene, accepts_ground, scene_of
from artix.math.tangents import value_and_change
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_known_parameters, check_known_state, check_type
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import (
    Control,
    check_control,
    check_known_control,
    warn_of_missing_gains,
)
from artix.simulation.common.options import HOMES, SolverOptions, solver_of
from artix.simulation.common.report import RolloutReport, SceneReport, StepReport, summarized
from artix.simulation.contacts import (
    has_many_bodies,
    touching_of,
    whole_memory,
    with_whole_memory,
)
from artix.simulation.continuous import rk4_step
from artix.simulation.implicit.many_bodies import solve_stacks
from artix.simulation.implicit.report import stack_reports, step_reports
from artix.simulation.implicit.step import contact_memory, solve_step
from artix.simulation.many import recalled, recorded, stack_touches, stacked

Array = jax.Array

DEFAULT_OPTIONS = SolverOptions()

States = dict[str, State]
Controls = Mapping[str, Control]
S = TypeVar("S", State, States)
"""The state of one robot, or states by name."""


@one_operation
@accepts_ground
def step(
    scene: Articulation | Scene,
    state: S,
    control: Control | Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> S:
    """Advances a scene by one step, as PhysX's ``simulate`` does.

    The step includes gravity, joint forces, external wrenches, drives with limits and envelopes,
    joint friction, position and velocity limits, mimic joints, loop joints, tendons, damping and
    speed limits of links, contacts with the ground and, with ``"implicit"``, contacts between pairs
    of shapes. All contacts and bounds of a scene are solved together, with the matrix
    ``G = sum_i J_i R_i J_i^T`` of its robots' responses ``R_i``. The step is semi-implicit in time:
    velocities change first, then positions move with the new velocities.

    A state with a contact memory (:func:`artix.remember_contacts`) starts from the contacts of the
    previous step and returns the memory of this one. With ``"implicit"`` the solver then starts
    from the previous impulses: bodies at rest converge to the last digit, and fewer iterations
    suffice. The solution is the same, and so is its derivative, which does not depend on the
    memory. With ``"pgs"`` and ``"tgs"`` friction keeps its anchors. Without them, objects on a
    slope creep, as in PhysX with strong friction disabled.

    Args:
      scene: the scene, or an articulation, which is a scene of one without a ground; every
        parameter may be traced, batched and differentiated.
      state: the state at the start of the step; for robots with names, a dictionary of states.
      control: forces and targets during the step, or ``None``; for robots with names, a dictionary,
        from which robots may be left out.
      dt: length of the step [s]; negative only with ``solver="rk4"``. At zero the state does not
        change, and derivatives are the limits for ``dt -> 0``, unless a joint is beyond its limit
        or contacts hit or penetrate.
      options: solver and iterations; static. Robots with names need ``solver="implicit"`` or
        ``"newton"``.

    Returns:
      The state after the step, with the structure of ``state``.

    Raises:
      ValueError: an array has the wrong shape; a known state or control has a number that is not
        finite, or a quaternion not of length 1; ``dt`` is negative; a robot has no state, or a name
        is no robot's; the solver is ``"rk4"`` and there are mimic joints, loop joints or a ground;
        there are pairs of shapes or several robots and the solver is not ``"implicit"``; the solver
        is ``"pgs"`` or ``"tgs"``, and a surface is not a plane, a shape is not a sphere, capsule or
        box, or one of them is compliant; or the contact memory is of another scene.
      TypeError: an array has another dtype than the articulation, or the contact memory is of
        another solver.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> print(artix.step(pendulum, level, None, 0.01).joint_velocity)  # it falls
      [-0.126  0.168]
      >>> holding = artix.Control(joint_force=artix.gravity_compensation(pendulum, level))
      >>> print(jnp.abs(artix.step(pendulum, level, holding, 0.01).joint_velocity).max() < 1e-4)
      True
      >>> builder = artix.ArticulationBuilder(name="ball", gravity=(0.0, 0.0, 0.0))
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1, restitution=1.0), name="ball")
      >>> ball = builder.build()
      >>> scene = artix.Scene({"a": ball, "b": ball}, pairs=[("a/ball", "b/ball")])
      >>> state = scene.neutral_state()
      >>> state["a"] = state["a"].replace(root_velocity=state["a"].root_velocity.at[0].set(1.0))
      >>> state["b"] = state["b"].replace(root_pose=state["b"].root_pose.at[0].set(0.2))
      >>> end = artix.step(scene, state, None, 0.001)
      >>> print(end["a"].root_velocity[:1], end["b"].root_velocity[:1])  # they change velocities
      [0.] [1.]
    """
    return _step(*_checked(scene, state, control, dt, options))


@quantity
def _step(scene: Scene, state: Any, control: Any, dt: Array, options: SolverOptions) -> Any:
    return _advance(scene, state, control, dt, options)[0]


@overload
def step_and_report(
    scene: Articulation | Scene,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = ...,
) -> tuple[State, StepReport]: ...


@overload
def step_and_report(
    scene: Scene,
    state: States,
    control: Controls | None,
    dt: float | Array,
    options: SolverOptions = ...,
) -> tuple[States, SceneReport]: ...


@one_operation
@accepts_ground
def step_and_report(
    scene: Articulation | Scene,
    state: Any,
    control: Any,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> tuple[Any, Any]:
    """Takes a :func:`step` and also reports accelerations, joint forces and contacts.

    Arguments and exceptions are the same; ``solver="rk4"`` has no report and raises ``ValueError``.

    Returns:
      The state after the step, and its :class:`StepReport`; for robots with names, a
      :class:`SceneReport`.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1))
      >>> ball = builder.build()
      >>> falling = artix.neutral_state(ball).replace(
      ...     root_pose=jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
      ... )
      >>> state, report = artix.step_and_report(
      ...     artix.Scene(ball, ground=artix.Ground.flat()), falling, None, 0.005
      ... )
      >>> print(report.link_acceleration[0, :3], report.contacts.gap)
      [ 0.    0.   -9.81] [0.9]
    """
    arguments = _checked(scene, state, control, dt, options)
    if options.solver == "rk4":
        raise ValueError(
            "solver='rk4' has no report: accelerations of a smooth motion are those of "
            "artix.vector_field"
        )
    return _step_and_report(*arguments)


@quantity
def _step_and_report(
    scene: Scene, state: Any, control: Any, dt: Array, options: SolverOptions
) -> tuple[Any, StepReport | SceneReport]:
    end, reports = _advance(scene, state, control, dt, options, with_report=True)
    if not scene.names:
        return end, reports[0]
    members = scene.by_name([report.replace(link_contacts=None) for report in reports])
    return end, SceneReport(members, reports[0].link_contacts)


def step_and_summary(
    scene: Articulation | Scene, state: Any, control: Any, dt: float | Array, options: SolverOptions
) -> tuple[Any, RolloutReport]:
    """A :func:`step` with what a rollout reports of it."""
    return _step_and_summary(*_checked(scene, state, control, dt, options))


@quantity
def _step_and_summary(
    scene: Scene, state: Any, control: Any, dt: Array, options: SolverOptions
) -> tuple[Any, RolloutReport]:
    end, reports = _advance(scene, state, control, dt, options, with_report=True)
    ends = [part.replace(contact_memory=None) for _, part in scene.members_of("state", end)]
    return end, summarized(ends, reports)


def _advance(
    scene: Scene,
    state: Any,
    control: Any,
    dt: Array,
    options: SolverOptions,
    *,
    with_report: bool = False,
) -> tuple[Any, list[StepReport]]:
    """The state after all substeps, and the robots' reports of the last substep if wanted."""
    if not options.derivative_smoothing:
        return _take_substeps(scene, state, control, dt, options, with_report)
    hard = dataclasses.replace(options, derivative_smoothing=0.0)
    smooth = dataclasses.replace(hard, contact_smoothing=options.derivative_smoothing)

    def take(
        arguments: tuple[Scene, Any, Any, Array], options: SolverOptions
    ) -> tuple[Any, list[StepReport]]:
        return _take_substeps(*arguments, options, with_report)

    @jax.custom_jvp
    def advance(arguments: Any) -> Any:
        return take(arguments, hard)

    @functools.partial(advance.defjvp, symbolic_zeros=True)
    def _derivative(primals: Any, tangents: Any) -> Any:
        _, change = value_and_change(
            lambda arguments: take(arguments, smooth), primals[0], tangents[0]
        )
        return advance(*primals), change

    return advance((scene, state, control, dt))


def _take_substeps(
    scene: Scene, state: Any, control: Any, dt: Array, options: SolverOptions, with_report: bool
) -> tuple[Any, list[StepReport]]:
    """:func:`_advance` by the laws of these options, and with their derivatives."""
    starts = scene.check_state(state)
    controls = checked_controls(scene, control, options)
    memory = whole_memory(scene, starts, options) if scene.can_touch else None
    states = tuple(start.replace(contact_memory=None) for start in starts)

    def take(
        carry: tuple[tuple[State, ...], Any], part: Array
    ) -> tuple[tuple[tuple[State, ...], Any], Any]:
        ends, memory, reports = _substep(scene, *carry, controls, part, options, with_report)
        return (ends, memory), reports

    (ends, memory), reports = in_parts(take, (states, memory), dt, options)
    if memory is None:  # States keep the memories of what does not touch here.
        pairs = zip(ends, starts, strict=True)
        ends = tuple(end.replace(contact_memory=start.contact_memory) for end, start in pairs)
    else:
        ends = with_whole_memory(scene, ends, starts, memory)
    return scene.by_name(ends), reports


def _substep(
    scene: Scene,
    states: tuple[State, ...],
    memory: Any,
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    with_report: bool,
) -> tuple[tuple[State, ...], Any, list[StepReport]]:
    """The states after a substep, the memory if there was one, and the reports if wanted."""
    if options.is_implicit:
        return _implicit_substep(scene, states, memory, controls, dt, options, with_report)
    (articulation,), (state,), (control,) = scene.articulations, states, controls
    if options.solver == "rk4":
        return (rk4_step(articulation, state, control, dt, options.tendon_law),), memory, []
    take_step = solver_of(options.solver).step
    ground = scene.ground if scene.grounded else None
    end, memory, report = take_step(articulation, state, memory, control, dt, options, ground)
    return (end,), memory, [report] if with_report else []


def _implicit_substep(
    scene: Scene,
    states: Sequence[State],
    memory: ContactMemory | None,
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    with_report: bool,
) -> tuple[tuple[State, ...], ContactMemory | None, list[StepReport]]:
    if scene.can_touch and has_many_bodies(scene, options):
        return _stacks_substep(scene, states, controls, dt, options, memory, with_report)
    touching = touching_of(scene, states, options, memory) if scene.can_touch else None
    solved = solve_step(scene.articulations, states, controls, dt, options, touching)
    if memory is not None and touching is not None:
        memory = contact_memory(solved)
    return tuple(solved.ends), memory, step_reports(solved, options) if with_report else []


def _stacks_substep(
    scene: Scene,
    states: Sequence[State],
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    memory: ContactMemory | None,
    with_report: bool,
) -> tuple[tuple[State, ...], ContactMemory | None, list[StepReport]]:
    """The same of many bodies, by stacks."""
    stacks = stacked(scene, states, controls)
    touches = stack_touches(scene, stacks, options)
    start = None if memory is None else recalled(scene, stacks, touches, memory, options)
    solved = solve_stacks(*stacks[1:], dt, options, touches, start)
    if memory is not None:
        memory = recorded(scene, stacks, touches, solved, memory)
    reports: list[StepReport] = []
    if with_report:
        each, between = stack_reports(solved, touches, stacks.links(scene), dt)
        reports = [one.replace(link_contacts=between) for one in stacks.in_order(each)]
    return tuple(stacks.in_order(solved.ends)), memory, reports


def in_parts(
    take_step: Callable[[Any, Array], tuple[Any, Any]],
    state: Any,
    dt: Array,
    options: SolverOptions,
) -> tuple[Any, Any]:
    """Takes all substeps of a step. Returns the final state and the report of the last substep.

    A step is solved if all of its substeps are.
    """
    if options.substeps == 1:
        return take_step(state, dt)
    part = dt / options.substeps
    end, reports = scan(lambda start, _: take_step(start, part), state, length=options.substeps)

    def last(every: StepReport) -> StepReport:
        one = jax.tree.map(lambda each: each[-1], every)
        return one.replace(is_solved=jnp.all(every.is_solved))

    return end, jax.tree.map(last, reports, is_leaf=lambda part: isinstance(part, StepReport))


def _checked(
    scene: Articulation | Scene, state: Any, control: Any, dt: float | Array, options: SolverOptions
) -> tuple[Scene, Any, Any, Any, SolverOptions]:
    """Checks what must be known outside of the program, and returns the arguments of a step."""
    scene = scene_of(scene)
    check_type("options", options, SolverOptions)
    if scene.names:  # The quantity checks the state of one robot.
        check_known_states(scene, state)
    for member, part in zip(scene.articulations, known_controls(scene, control), strict=True):
        warn_of_missing_gains(member, part)
    for robot in scene.articulations:
        check_known_parameters(robot)
    if scene.ground is not None:
        check_ground(scene.ground)
        _warn_of_missing_shapes(scene)
        if options.solver in HOMES and not scene.names:
            solver_of(options.solver).check(scene.articulations[0], scene.ground, options)
    options = with_budgets(scene, options)
    time = as_time(scene.articulations[0], dt, backward=options.solver == "rk4")
    if scene.names:  # Other mappings are no pytrees.
        state, control = dict(state), control if control is None else dict(control)
    return scene, state, control, time, options


def with_budgets(scene: Scene, options: SolverOptions) -> SolverOptions:
    """The options with the scene's budgets of contacts, if it has any."""
    budgets = {name: getattr(scene, name) for name in BUDGETS if getattr(scene, name) is not None}
    return dataclasses.replace(options, **budgets) if budgets else options


def _warn_of_missing_shapes(scene: Scene) -> None:
    """Warns of a ground that nothing can touch."""
    if scene.grounded:
        return
    names = ", ".join(repr(tree.name) for tree in scene.topologies)
    warnings.warn(
        f"no shape of {names} can touch the ground, so the scene moves as if there were none: "
        "sensors and shapes on a fixed root do not count; load collision meshes with "
        "meshes='hull', or add shapes with ArticulationBuilder.add_geometry "
        "(artix.builder_from_articulation turns a loaded robot into a builder)",
        stacklevel=5,
    )


def check_known_states(scene: Scene, state: Any) -> None:
    """Refuses a state that is known and is nonsense."""
    for name, part in scene.members_of("state", state):
        check_known_state(name, part)


def known_controls(scene: Scene, control: Any) -> list[Control | None]:
    """The robots' controls, unless one is known and is nonsense."""
    parts = scene.members_of(
        "control", {} if scene.names and control is None else control, lambda: None
    )
    for name, part in parts:
        check_known_control(part, name)
    return [part for _, part in parts]


def checked_controls(scene: Scene, control: Any, options: SolverOptions) -> list[Control]:
    """Checks that the solver suits the scene and the controls its robots, and returns the
    controls.
    """
    if scene.names and not options.is_implicit:
        raise ValueError(
            f"solver={options.solver!r} does not support contact between robots: step a scene of "
            "robots with names with solver='implicit'"
        )
    if scene.ground is not None and options.solver == "rk4":
        raise ValueError(
            "solver='rk4' has no contacts: use solver='implicit', 'pgs' or 'tgs', or leave out "
            "the ground"
        )
    if any(tree.geometry_pairs for tree in scene.topologies) and not options.is_implicit:
        raise ValueError(
            f"solver={options.solver!r} has no contacts between links, but the articulation has "
            "pairs of shapes: use solver='implicit', or remove the pairs with "
            "artix.select_geometry_pairs(articulation, ())"
        )
    parts = scene.members_of(
        "control", {} if scene.names and control is None else control, lambda: None
    )
    controls = []
    for member, (name, part) in zip(scene.articulations, parts, strict=True):
        controls.append(Control() if part is None else part)
        check_control(member, controls[-1], name)
    return controls
