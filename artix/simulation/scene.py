"""Steps in time of scenes: several articulations that touch each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from artix.compiler import quantity
from artix.contact.ground import Ground, check_ground
from artix.math import struct
from artix.model.articulation import State
from artix.model.checks import as_time, check_known_state, check_type
from artix.model.scene import Scene
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control, check_control, check_known_control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import LinkContactReport, RolloutReport, StepReport, summarized
from artix.simulation.contacts import check_memory
from artix.simulation.step import DEFAULT_OPTIONS, implicit_substep, in_parts

Array = jax.Array

States = dict[str, State]
Controls = Mapping[str, Control]


class SceneReport(struct.PyTreeNode):
    """The report of a step of a scene.

    Attributes:
      members: the report of each member by name. It includes contacts with the ground, but not those between links.
        Residuals are those of the whole scene.
      link_contacts: contacts between links of all members; ``None`` if the scene has no pairs of shapes. Links and
        shapes are numbered as in ``scene.link_names`` and ``scene.geometry_names``.

    Examples:
      >>> builder = artix.ArticulationBuilder(name="ball")
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1), name="ball")
      >>> ball = builder.build()
      >>> scene = artix.Scene.of({"lower": ball, "upper": ball}, pairs=[("upper/ball", "lower/ball")])
      >>> states = scene.neutral_states()
      >>> for name, height in (("lower", 0.1), ("upper", 0.3)):
      ...     states[name] = states[name].replace(root_pose=states[name].root_pose.at[2].set(height))
      ...
      >>> _, report = artix.scene_step_and_report(scene, states, None, 0.005, ground=artix.Ground.flat())
      >>> print(report.link_contacts.force, report.members["lower"].contacts.force)  # one weight, then two [N]
      [[0.   0.   9.81]] [[ 0.    0.   19.62]]
    """

    members: dict[str, StepReport]
    link_contacts: LinkContactReport | None


def scene_step(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> States:
    """Moves all members of a scene on by one step.

    Without contact between members this is :func:`artix.step` of each. Contacts couple them: all contacts and bounds of
    the scene are solved together, with the matrix ``G = sum_i J_i R_i J_i^T`` of the members' responses ``R_i``.

    Args:
      scene: the members; every parameter may be traced, batched and differentiated.
      states: the state of each member, by name.
      controls: forces and targets of members, by name. Members that are left out get none; ``None`` for none at all.
      dt: the step [s].
      options: solver and iterations; static. The solver must be ``"implicit"``, and ``max_link_contacts`` is the
        largest number for the whole scene.
      ground: what the members may touch; ``None`` for nothing.

    Returns:
      The states a step later, by name.

    Raises:
      ValueError: a member has no state, a name is unknown, an array has the wrong shape, the solver is not
        ``"implicit"``, or nothing could touch the ground.
      TypeError: an array has another dtype than its articulation.

    Examples:
      >>> builder = artix.ArticulationBuilder(name="ball", gravity=(0.0, 0.0, 0.0))
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1, restitution=1.0), name="ball")
      >>> ball = builder.build()
      >>> scene = artix.Scene.of({"a": ball, "b": ball}, pairs=[("a/ball", "b/ball")])
      >>> states = scene.neutral_states()
      >>> states["a"] = states["a"].replace(root_velocity=states["a"].root_velocity.at[0].set(1.0))
      >>> states["b"] = states["b"].replace(root_pose=states["b"].root_pose.at[0].set(0.2))
      >>> ends = artix.scene_step(scene, states, None, 0.001)
      >>> print(ends["a"].root_velocity[:1], ends["b"].root_velocity[:1])  # they change velocities
      [0.] [1.]
    """
    return _scene_step(*_arguments(scene, states, controls, dt, options, ground))


@quantity
def _scene_step(
    scene: Scene, states: States, controls: Controls, dt: Array, options: SolverOptions, ground: Ground | None
) -> States:
    return _advance(scene, states, None, controls, dt, options, ground)[0]


def scene_step_and_report(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> tuple[States, SceneReport]:
    """A :func:`scene_step` together with accelerations, joint forces and contacts.

    Arguments and exceptions are the same.

    Examples:
      >>> arm = artix.robots.load("double_pendulum")
      >>> scene = artix.Scene.of({"left": arm, "right": arm})
      >>> states, report = artix.scene_step_and_report(scene, scene.neutral_states(), None, 0.01)
      >>> print(report.members["left"].joint_acceleration.shape, report.link_contacts)
      (2,) None
    """
    return _scene_step_and_report(*_arguments(scene, states, controls, dt, options, ground))


@quantity
def _scene_step_and_report(
    scene: Scene, states: States, controls: Controls, dt: Array, options: SolverOptions, ground: Ground | None
) -> tuple[States, SceneReport]:
    ends, _, reports = _advance(scene, states, None, controls, dt, options, ground, with_report=True)
    members = _by_name(scene, [report.replace(link_contacts=None) for report in reports])
    return ends, SceneReport(members, reports[0].link_contacts)


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
    """A :func:`scene_step` whose contacts start from the impulses of the previous step.

    Bodies that rest on others need it to come fully to rest; see :func:`artix.step_with_contact_memory`.

    Args:
      scene: as for :func:`scene_step`.
      states: as for :func:`scene_step`.
      memory: the memory after the previous step; start with ``ContactMemory.none(scene, ground)``.
      controls: as for :func:`scene_step`.
      dt: as for :func:`scene_step`.
      options: as for :func:`scene_step`.
      ground: as for :func:`scene_step`.

    Returns:
      The states a step later, and the memory that belongs to them.

    Raises:
      ValueError: as for :func:`scene_step`, or the memory has a different number of contacts.
      TypeError: as for :func:`scene_step`, or the memory is no ``ContactMemory``.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> scene, ground = artix.Scene.of({"one": quadruped, "other": quadruped}), artix.Ground.flat(friction=0.8)
      >>> memory = artix.ContactMemory.none(scene, ground)
      >>> print(memory.impulse.shape)  # eight feet
      (8, 3)
      >>> states, memory = artix.scene_step_with_contact_memory(
      ...     scene, scene.neutral_states(), memory, None, 0.005, ground=ground
      ... )
    """
    check_memory(memory, options)
    return _scene_step_with_memory(*_arguments(scene, states, controls, dt, options, ground), memory)


@quantity
def _scene_step_with_memory(
    scene: Scene,
    states: States,
    controls: Controls,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
    memory: ContactMemory,
) -> tuple[States, ContactMemory]:
    return _advance(scene, states, memory, controls, dt, options, ground)[:2]


def scene_step_and_summary(
    scene: Scene,
    states: Mapping[str, State],
    memory: ContactMemory | None,
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions,
    *,
    ground: Ground | None,
) -> tuple[States, ContactMemory | None, RolloutReport]:
    """A step of a scene, with a contact memory or without, and what a rollout reports of it."""
    return _scene_step_and_summary(*_arguments(scene, states, controls, dt, options, ground), memory)


@quantity
def _scene_step_and_summary(
    scene: Scene,
    states: States,
    controls: Controls,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
    memory: ContactMemory | None,
) -> tuple[States, ContactMemory | None, RolloutReport]:
    ends, memory, reports = _advance(scene, states, memory, controls, dt, options, ground, with_report=True)
    return ends, memory, summarized(list(ends.values()), reports)


def _advance(
    scene: Scene,
    states: States,
    memory: Any,
    controls: Controls,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
    *,
    with_report: bool = False,
) -> tuple[States, Any, list[StepReport]]:
    """The states after all substeps, the memory if there was one, and the reports of the last substep if wanted."""
    check_scene_solver(options)
    start = scene.check_states(states)
    scene.check_names("controls", controls)
    given = [controls.get(name, Control()) for name in scene.names]
    for name, articulation, control in zip(scene.names, scene.articulations, given, strict=True):
        check_control(articulation, control, f"controls[{name!r}]")

    def take(now: tuple[tuple[State, ...], Any], part: Array) -> tuple[tuple[tuple[State, ...], Any], list[StepReport]]:
        ends, remembered, reports = implicit_substep(
            scene, scene.articulations, *now, given, part, options, ground, with_report
        )
        return (ends, remembered), reports

    (ends, memory), reports = in_parts(take, (start, memory), dt, options)
    return _by_name(scene, ends), memory, reports


def _arguments(
    scene: Scene,
    states: Mapping[str, State],
    controls: Controls | None,
    dt: float | Array,
    options: SolverOptions,
    ground: Ground | None,
) -> tuple[Scene, States, Controls, Any, SolverOptions, Ground | None]:
    """Checks the types of a step's arguments and returns them."""
    check_type("scene", scene, Scene)
    check_type("options", options, SolverOptions)
    if ground is not None:
        check_ground(ground)
    starts = by_member("states", states)
    forces = {} if controls is None else by_member("controls", controls)
    check_known_members(starts, forces)
    return scene, starts, forces, as_time(scene.articulations[0], dt), options, ground


def check_known_members(states: States, controls: Controls) -> None:
    """Refuses states and controls of members that are known and are nonsense."""
    for name, state in states.items():
        check_known_state(f"states[{name!r}]", state)
    for name, control in controls.items():
        check_known_control(control, f"controls[{name!r}]")


def by_member(what: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A dictionary by the members' names; raises ``TypeError`` for anything else."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what}: expected a dictionary by the names of the members, found {type(given).__name__}")
    return dict(given)


def _by_name(scene: Scene, values: Any) -> dict[str, Any]:
    return dict(zip(scene.names, values, strict=True))


def check_scene_solver(options: SolverOptions) -> None:
    """Refuses solvers without contacts between articulations."""
    if not options.is_implicit:
        raise ValueError(
            f"solver={options.solver!r} knows no contacts between articulations: step scenes with solver='implicit'"
        )
