"""Rollouts: many steps in time, and the contacts that the first one starts from."""

from __future__ import annotations

from typing import Any, Literal, overload

import jax

from artix.compiler.jax_internals import scan
from artix.contact.scene import Scene, accepts_ground, scene_of
from artix.math.tangents import without_derivatives
from artix.model.articulation import Articulation, State
from artix.model.checks import check_count
from artix.simulation.common.control import Control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import RolloutReport
from artix.simulation.contacts import with_empty_memory, with_memories
from artix.simulation.step import (
    DEFAULT_OPTIONS,
    Controls,
    S,
    check_known_states,
    known_controls,
    step,
    step_and_summary,
)

Array = jax.Array


@overload
def rollout(
    scene: Articulation | Scene,
    state: S,
    control: Control | Controls | None,
    dt: float | Array,
    options: SolverOptions = ...,
    *,
    num_steps: int | None = ...,
    with_report: Literal[False] = ...,
) -> S: ...


@overload
def rollout(
    scene: Articulation | Scene,
    state: S,
    control: Control | Controls | None,
    dt: float | Array,
    options: SolverOptions = ...,
    *,
    num_steps: int | None = ...,
    with_report: Literal[True],
) -> tuple[S, RolloutReport]: ...


@accepts_ground
def rollout(
    scene: Articulation | Scene,
    state: Any,
    control: Any,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    num_steps: int | None = None,
    with_report: bool = False,
) -> Any:
    """Takes many steps of a scene in one ``jax.lax.scan``.

    Each step starts from the contacts of the previous one. A state with a contact memory goes on
    from it, and so do the states of the result; a state without one gets its first memory from
    :func:`remember_contacts`.

    Args:
      scene: the scene, or an articulation, as for :func:`step`.
      state: the initial state; for robots with names, a dictionary of states.
      control: with ``num_steps``, the control for all steps, or ``None``. Without, one per step:
        every array has a leading axis [T].
      dt: length of a step [s].
      options: solver and iterations; static.
      num_steps: number of steps T under a constant control.
      with_report: whether to return a report as well: which steps diverged, left out contacts or
        were not solved.

    Returns:
      The states after each step, with the structure of ``state`` and a leading axis [T] of every
      array; with a report, also a :class:`RolloutReport` of the whole scene. A rollout that
      diverges ends in states that are not finite.

    Raises:
      ValueError: as :func:`step`, ``num_steps`` is negative, or neither it nor an array in
        ``control`` gives the number of steps.
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
      >>> pole = artix.robots.load("cart_pole")
      >>> scene = artix.Scene({"one": pole, "other": pole})
      >>> push = artix.Control(joint_force=jnp.array([1.0, 0.0]))
      >>> path = artix.rollout(scene, scene.neutral_state(), {"one": push}, 0.01, num_steps=50)
      >>> print(path["one"].joint_position[-1, 0] > 0.1, path["other"].joint_position[-1, 0])
      True 0.0
    """
    if num_steps is None and not jax.tree.leaves(control):
        raise ValueError("give num_steps, or a control with a leading axis over the steps")
    if num_steps is not None:
        check_count("num_steps", num_steps, 0)
    scene = scene_of(scene)
    check_known_states(scene, state)
    known_controls(scene, control)
    _check_axes(control, num_steps)
    is_constant = num_steps is not None
    remembers = any(part.contact_memory is not None for _, part in scene.members_of("state", state))
    if not remembers:
        if is_constant or all(map(len, jax.tree.leaves(control))):
            first = control if is_constant else jax.tree.map(lambda x: x[0], control)
            state = remember_contacts(scene, state, first, dt, options)
        else:
            state = remember_contacts(scene, state, None, None, options)

    def advance(start: Any, step_control: Any) -> tuple[Any, Any]:
        applied = control if is_constant else step_control
        if not with_report:
            end = step(scene, start, applied, dt, options)
            return end, seen(end)
        end, report = step_and_summary(scene, start, applied, dt, options)
        return end, (seen(end), report)

    def seen(end: Any) -> Any:
        return end if remembers else scene.by_name(_forgetful(scene, end))

    return scan(advance, state, None if is_constant else control, length=num_steps)[1]


def _forgetful(scene: Scene, state: Any) -> tuple[State, ...]:
    """The robots' states without contact memories."""
    states = [part for _, part in scene.members_of("state", state)]
    return with_memories(states, [None] * len(states))


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
                    fix = (
                        "an axis over the steps: leave num_steps out, or give one control for all "
                        "steps"
                    )
                raise ValueError(f"control.{name}: shape {shape} has {fix}")


@accepts_ground
def remember_contacts(
    scene: Articulation | Scene,
    state: S,
    control: Control | Controls | None = None,
    dt: float | Array | None = None,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    repetitions: int = 2,
) -> S:
    """Gives a state a contact memory, so that each step starts from the contacts of the previous
    one.

    A state that has a memory keeps it through :func:`step` and :func:`rollout`; in a
    ``jax.lax.scan``, give the initial state one. Use this again whenever you set a state anew, as
    after a reset.

    With ``"implicit"`` the first step after a reset has no previous contacts, and with few
    iterations from zero, flat feet get spurious velocities. This function therefore repeats that
    step from the same state, each time starting from the last memory. The memory of ``"pgs"`` and
    ``"tgs"`` starts without friction anchors.

    Args:
      scene: as for :func:`step`.
      state: the state before the first step.
      control: the control of the first step.
      dt: the length of the first step [s]; ``None`` for an empty memory.
      options: as for :func:`step`; a memory belongs to one solver.
      repetitions: number of repetitions. Each costs one step and adds ``contact_iterations``
        iterations to the first step.

    Returns:
      The state with its memory, which has no derivatives; without a memory if nothing can touch.

    Raises:
      ValueError: as :func:`step`, or ``repetitions`` is negative.
      TypeError: as :func:`step`, or ``repetitions`` is no whole number.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=2.0, inertia=(0.05, 0.03, 0.07), name="box")
      >>> builder.add_geometry("box", artix.Geometry.box((0.2, 0.3, 0.1), friction=0.7))
      >>> scene = artix.Scene(builder.build(), ground=artix.Ground.flat())
      >>> state = scene.neutral_state().replace(
      ...     root_pose=jnp.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
      ... )
      >>> state = artix.remember_contacts(scene, state, None, 0.005)
      >>> for _ in range(2):
      ...     state = artix.step(scene, state, None, 0.005)
      >>> print(jnp.abs(state.root_velocity).max() < 1e-6)
      True
    """
    check_count("repetitions", repetitions, 0)
    scene = scene_of(scene)
    start: Any = scene.by_name(with_empty_memory(scene, scene.check_state(state), options))
    if not scene.can_touch or not options.is_implicit or dt is None:
        return start
    # What is known stays known, so that this is the program of the steps that follow.
    here, begin, forces, time = without_derivatives((scene, start, control, dt))

    def again(memories: list[Any], _: None) -> tuple[list[Any], None]:
        parts = [part for _, part in here.members_of("state", begin)]
        # The whole state is not needed, but without it this would be a program of its own to
        # compile.
        end = step(here, here.by_name(with_memories(parts, memories)), forces, time, options)
        end = jax.lax.optimization_barrier(end)
        return [part.contact_memory for _, part in here.members_of("state", end)], None

    first = [part.contact_memory for _, part in here.members_of("state", begin)]
    memories, _ = scan(again, first, length=repetitions)
    parts = [part for _, part in scene.members_of("state", state)]
    return scene.by_name(with_memories(parts, memories))
