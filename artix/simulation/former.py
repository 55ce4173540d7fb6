"""The steps and rollouts of the last release, by those of this one. They leave with the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from artix.contact.ground import Ground
from artix.contact.scene import Scene, scene_of
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.simulation.common.contact_memory import (
    ContactMemory,
    empty_memories,
    join_memories,
    part_memory,
)
from artix.simulation.common.control import Control
from artix.simulation.common.options import HOMES, SolverOptions, solver_of
from artix.simulation.common.report import SceneReport
from artix.simulation.contacts import with_memories
from artix.simulation.rollout import remember_contacts, rollout
from artix.simulation.step import DEFAULT_OPTIONS, Controls, States, step, step_and_report

Array = jax.Array


def step_with_contact_memory(
    articulation: Articulation,
    state: State,
    memory: Any,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> tuple[State, Any]:
    """:func:`artix.step` of a state that remembers ``memory``, and the memory after it."""
    if options.solver == "rk4":
        raise ValueError(
            "solver='rk4' has no contacts: use artix.step, or solver='implicit', 'pgs' or 'tgs'"
        )
    _check_memory(memory, options)
    scene = _on(articulation, ground)
    end = step(scene, state.replace(contact_memory=memory), control, dt, options)
    return end.replace(contact_memory=None), end.contact_memory


def settled_contact_memory(
    articulation: Articulation | Scene,
    state: Any,
    control: Any,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
    repetitions: int = 2,
) -> ContactMemory:
    """The memory that :func:`artix.remember_contacts` gives a state."""
    scene = _on(articulation, ground)
    if not scene.can_touch or not options.is_implicit:
        raise ValueError(
            "there are no contacts to remember: settled_contact_memory needs solver='implicit', "
            "and a ground or pairs of shapes"
        )
    settled = remember_contacts(scene, state, control, dt, options, repetitions=repetitions)
    return join_memories(scene, [part.contact_memory for part in scene.check_state(settled)])


def scene_step(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> States:
    """:func:`artix.step`."""
    return step(_on(scene, ground), dict(states), controls, dt, options)


def scene_step_and_report(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> tuple[States, SceneReport]:
    """:func:`artix.step_and_report`."""
    return step_and_report(_on(scene, ground), dict(states), controls, dt, options)


def scene_step_with_contact_memory(
    scene: Scene,
    states: Mapping[str, State],
    memory: ContactMemory,
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> tuple[States, ContactMemory]:
    """:func:`artix.step` of states that remember ``memory``, and the memory after it."""
    _check_memory(memory, options)
    scene = _on(scene, ground)
    empty = empty_memories(scene)
    candidates = sum(len(part.impulse) for part in empty)
    check_vector(
        "memory.impulse", memory.impulse, (candidates, 3), scene.dtype, "C candidates of the shapes"
    )
    starts = with_memories(scene.check_state(states), part_memory(scene, memory, empty))
    ends = scene.check_state(step(scene, scene.by_name(starts), controls, dt, options))
    forgetful = scene.by_name(with_memories(ends, [None] * len(ends)))
    return forgetful, join_memories(scene, [end.contact_memory for end in ends])


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
) -> Any:
    """:func:`artix.rollout`."""
    keywords: dict[str, Any] = {"num_steps": num_steps, "with_report": with_report}
    return rollout(_on(scene, ground), states, controls, dt, options, **keywords)


def _on(scene: Articulation | Scene, ground: Ground | None) -> Scene:
    """The scene on this ground; on its own if there is none."""
    scene = scene_of(scene)
    return scene if ground is None else scene.replace(ground=ground)


def _check_memory(memory: object, options: SolverOptions) -> None:
    """Raises ``TypeError`` unless this is a memory of the solver's contacts."""
    kind: type = solver_of(options.solver).memory if options.solver in HOMES else ContactMemory
    if not isinstance(memory, kind):
        raise TypeError(
            f"solver={options.solver!r} needs an artix.{kind.__name__}; found a "
            f"{type(memory).__name__}: start with artix.{kind.__name__}.none(articulation, ground)"
        )
