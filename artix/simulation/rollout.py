"""Rollouts: many steps in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, overload

import jax

from artix.compiler.jax_internals import scan
from artix.contact.ground import Ground
from artix.math.tangents import without_derivatives
from artix.model.articulation import Articulation, State
from artix.model.checks import check_count, check_known_state, check_type
from artix.model.scene import Scene
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control, check_known_control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import RolloutReport
from artix.simulation.contacts import no_memory
from artix.simulation.scene import (
    Controls,
    States,
    by_member,
    check_known_members,
    check_scene_solver,
    scene_step,
    scene_step_and_summary,
    scene_step_with_contact_memory,
)
from artix.simulation.step import DEFAULT_OPTIONS, step, step_and_summary, step_with_contact_memory

Array = jax.Array


class _Steps(NamedTuple):
    """The steps of an articulation or of a scene."""

    plain: Callable[..., Any]
    with_memory: Callable[..., Any]
    with_summary: Callable[..., Any]


_OF_ARTICULATION = _Steps(step, step_with_contact_memory, step_and_summary)
_OF_SCENE = _Steps(scene_step, scene_step_with_contact_memory, scene_step_and_summary)


@overload
def rollout(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = ...,
    *,
    num_steps: int | None = ...,
    ground: Ground | None = ...,
    with_report: Literal[False] = ...,
) -> State: ...


@overload
def rollout(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = ...,
    *,
    num_steps: int | None = ...,
    ground: Ground | None = ...,
    with_report: Literal[True],
) -> tuple[State, RolloutReport]: ...


def rollout(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    num_steps: int | None = None,
    ground: Ground | None = None,
    with_report: bool = False,
) -> State | tuple[State, RolloutReport]:
    """Takes many steps of an articulation in one ``jax.lax.scan``.

    Args:
      articulation: the articulation.
      state: the initial state.
      control: with ``num_steps``, one control for all steps, or ``None``. Without, one per step: every array has a
        leading axis [T].
      dt: length of a step [s].
      options: solver and iterations; static.
      num_steps: number of steps T under a constant control.
      ground: as for :func:`step`. Each step starts from the contacts of the previous one, and the first from
        :func:`settled_contact_memory`.
      with_report: whether to return a report as well: which steps diverged, left out contacts or did not converge.

    Returns:
      The states after each step, every array with a leading axis [T]; with a report, also a :class:`RolloutReport`. A
      rollout that diverges ends in states that are not finite.

    Raises:
      ValueError: as :func:`step`, ``num_steps`` is negative, or neither it nor an array in ``control`` gives the number
        of steps.
      TypeError: as :func:`step`, or ``num_steps`` is no whole number.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> start = artix.neutral_state(pendulum).replace(joint_position=jnp.array([0.3, 0.0]))
      >>> states = artix.rollout(pendulum, start, None, 0.01, num_steps=200)
      >>> print(states.joint_position.shape, jnp.abs(states.joint_position[:, 0]).max() < 0.4)
      (200, 2) True
      >>> torques = artix.Control(joint_force=jnp.zeros((50, 2)))  # or a control for each step
      >>> print(artix.rollout(pendulum, start, torques, 0.01).joint_position.shape)
      (50, 2)
    """
    if num_steps is None and not jax.tree.leaves(control):
        raise ValueError("give num_steps, or a control with a leading axis over the steps")
    check_known_state("state", state)
    check_known_control(control)
    return _rollout(_OF_ARTICULATION, articulation, state, control, dt, options, num_steps, ground, with_report)


@overload
def scene_rollout(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = ...,
    *,
    num_steps: int | None = ...,
    ground: Ground | None = ...,
    with_report: Literal[False] = ...,
) -> States: ...


@overload
def scene_rollout(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = ...,
    *,
    num_steps: int | None = ...,
    ground: Ground | None = ...,
    with_report: Literal[True],
) -> tuple[States, RolloutReport]: ...


def scene_rollout(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    num_steps: int | None = None,
    ground: Ground | None = None,
    with_report: bool = False,
) -> States | tuple[States, RolloutReport]:
    """Takes many steps of a scene in one ``jax.lax.scan``, with contact memory; see :func:`artix.rollout`.

    Args:
      scene: as for :func:`scene_step`.
      states: the initial states of the members, by name.
      controls: with ``num_steps``, the controls for all steps. Without, controls for each step: every array has a
        leading axis [T].
      dt: length of a step [s].
      options: as for :func:`scene_step`.
      num_steps: number of steps T under constant controls.
      ground: as for :func:`scene_step`.
      with_report: whether to return a report of the whole scene as well, as :func:`artix.rollout` does.

    Returns:
      The states after each step by name, every array with a leading axis [T]; with a report, also a
      :class:`RolloutReport`.

    Raises:
      ValueError: as :func:`scene_step`, ``num_steps`` is negative, or neither it nor an array in ``controls`` gives the
        number of steps.
      TypeError: as :func:`scene_step`, or ``num_steps`` is no whole number.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> scene = artix.Scene.of({"one": pole, "other": pole})
      >>> push = artix.Control(joint_force=jnp.array([1.0, 0.0]))
      >>> path = artix.scene_rollout(scene, scene.neutral_states(), {"one": push}, 0.01, num_steps=50)
      >>> print(path["one"].joint_position.shape, path["one"].joint_position[-1, 0] > 0.1)
      (50, 2) True
      >>> print(path["other"].joint_position[-1, 0])
      0.0
    """
    if num_steps is None and not jax.tree.leaves(controls):
        raise ValueError("give num_steps, or controls with a leading axis over the steps")
    check_type("scene", scene, Scene)
    check_scene_solver(options)
    starts = by_member("states", states)
    forces = None if controls is None else by_member("controls", controls)
    check_known_members(starts, forces or {})
    return _rollout(_OF_SCENE, scene, starts, forces, dt, options, num_steps, ground, with_report)


def _rollout(
    steps: _Steps,
    model: Articulation | Scene,
    start: Any,
    control: Any,
    dt: float | Array,
    options: SolverOptions,
    num_steps: int | None,
    ground: Ground | None,
    with_report: bool,
) -> Any:
    """Takes many steps of an articulation or a scene."""
    if num_steps is not None:
        check_count("num_steps", num_steps, 0)
    _check_axes(control, num_steps)
    memory = no_memory(model, ground, options)
    if isinstance(memory, ContactMemory) and (num_steps is not None or all(map(len, jax.tree.leaves(control)))):
        first = control if num_steps is not None else _first(control)
        memory = settled_contact_memory(model, start, first, dt, options, ground=ground)

    def advance(start: tuple[Any, Any], step_control: Any) -> tuple[tuple[Any, Any], Any]:
        state, memory = start
        applied = control if num_steps is not None else step_control
        if with_report:
            state, memory, report = steps.with_summary(model, state, memory, applied, dt, options, ground=ground)
            return (state, memory), (state, report)
        if memory is None:
            state = steps.plain(model, state, applied, dt, options)
        else:
            state, memory = steps.with_memory(model, state, memory, applied, dt, options, ground=ground)
        return (state, memory), state

    return scan(advance, (start, memory), None if num_steps is not None else control, length=num_steps)[1]


def _check_axes(controls: Any, num_steps: int | None) -> None:
    """Refuses controls for each step along with ``num_steps``, and constant ones without."""
    for control in jax.tree.leaves(controls, is_leaf=lambda each: isinstance(each, Control)):
        if not isinstance(control, Control):
            continue
        for name, axes in (
            ("joint_force", 1),
            ("drive_target", 1),
            ("drive_target_velocity", 1),
            ("external_force", 2),
        ):
            shape = getattr(getattr(control, name), "shape", None)
            if shape is not None and len(shape) == axes + (num_steps is not None):
                fix = "no axis over the steps: add one, or give num_steps"
                if num_steps is not None:
                    fix = "an axis over the steps: leave num_steps out, or give one control for all steps"
                raise ValueError(f"control.{name}: shape {shape} has {fix}")


def settled_contact_memory(
    articulation: Articulation | Scene,
    state: State | States,
    control: Control | Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
    repetitions: int = 2,
) -> ContactMemory:
    """Computes a contact memory for a first step.

    The first step after a reset has no previous contacts, and with few iterations from zero, flat feet get spurious
    velocities. This function repeats that step from the same state, each time starting from the last result.

    Args:
      articulation: the articulation, or a scene.
      state: the state before the first step; for a scene, the states by name.
      control: the control of the first step; for a scene, the controls by name.
      dt: as for :func:`step`.
      options: as for :func:`step`, with ``solver="implicit"``.
      ground: as for :func:`step`.
      repetitions: number of repetitions. Each costs one step and adds ``contact_iterations`` iterations to the first
        step.

    Returns:
      The memory. It has no derivatives.

    Raises:
      ValueError: as :func:`step`, the solver is not ``"implicit"``, nothing can touch, or ``repetitions`` is negative.
      TypeError: as :func:`step`, or ``repetitions`` is no whole number.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=2.0, inertia=(0.05, 0.03, 0.07), name="box")
      >>> builder.add_geometry("box", artix.Geometry.box((0.2, 0.3, 0.1), friction=0.7))
      >>> box, ground = builder.build(), artix.Ground.flat()
      >>> state = artix.neutral_state(box).replace(root_pose=jnp.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]))
      >>> memory = artix.settled_contact_memory(box, state, None, 0.005, ground=ground)
      >>> print(memory.impulse[:, 2].sum() / 0.005)  # its weight [N]
      19.62
    """
    check_count("repetitions", repetitions, 0)
    memory = no_memory(articulation, ground, options)
    if not isinstance(memory, ContactMemory):
        raise ValueError(
            "there are no contacts to remember: settled_contact_memory needs solver='implicit', and a ground or pairs "
            "of shapes"
        )
    # What is known stays known, so that this is the program of the steps that follow.
    given = without_derivatives((articulation, state, control, dt, ground))

    def again(found: ContactMemory, _: None) -> tuple[ContactMemory, None]:
        here, start, forces, time, floor = given
        take_step: Any = scene_step_with_contact_memory if isinstance(here, Scene) else step_with_contact_memory
        # The state is not needed, but without it this would be a program of its own to compile.
        whole = take_step(here, start, found, forces, time, options, ground=floor)
        return jax.lax.optimization_barrier(whole)[1], None

    return scan(again, memory, length=repetitions)[0]


def _first(controls: Any) -> Any:
    """The controls of the first step."""
    return jax.tree.map(lambda x: x[0], controls)
