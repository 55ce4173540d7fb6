"""Time stepping: one step, and many of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from artix.contact.ground import Ground
from artix.contact.ground_contacts import contacts_with_ground
from artix.evaluation import quantity
from artix.evaluation.devices import scan
from artix.kinematics.solve import kinematics
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_state, check_vector
from artix.model.topology import Topology
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import Control, SolverOptions, check_control
from artix.simulation.common.report import StepReport
from artix.simulation.continuous import rk4_step
from artix.simulation.implicit.contact_bounds import Touching
from artix.simulation.implicit.step import implicit_step, implicit_step_and_report
from artix.simulation.projected.step import drifting_step, physx_step

Array = jax.Array

DEFAULT_OPTIONS = SolverOptions()


def step(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> State:
    """Moves an articulation on by one step, as PhysX's ``simulate`` does.

    Gravity, joint forces, external wrenches, drives with limits and envelopes, joint friction, position and velocity
    limits, mimic joints, loop joints, tendons, damping and speed limits of links, and contacts with the ground act.
    Semi-implicit in time: velocities first, then positions along the new velocities.

    Args:
      articulation: the articulation; every parameter may be traced, batched and differentiated.
      state: where it is.
      control: forces and targets during the step; ``None`` for none.
      dt: the step [s]. At zero the state stays where it is, and its derivative is the limit that it has there.
      options: solver and iterations; static.
      ground: what its shapes may touch, with ``solver="implicit"``; ``None`` for nothing.

    Returns:
      The state a step later.

    Raises:
      ValueError: an array has the wrong shape, the solver is ``"rk4"`` and there are mimic or loop joints, or there is
        a ground and another solver than ``"implicit"`` or nothing that could touch it.
      TypeError: an array has another dtype than the articulation, or a padded articulation needs a static topology for
        what it has or for the solver.
    """
    return _step(articulation, state, control, as_time(articulation, dt), options, ground)


@quantity
def _step(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground | None,
) -> State:
    control = _checked(articulation, state, control, options, ground)

    def take_step(now: State, part: Array) -> tuple[State, Any]:
        if options.solver == "rk4":
            return rk4_step(articulation, now, control, part, options.tendon_law), ()
        if options.solver == "implicit":
            touching = _touching(articulation, now, ground, options)
            return implicit_step(articulation, now, control, part, options, touching)[0], ()
        return physx_step(articulation, now, control, part, options)

    return _in_parts(take_step, state, dt, options)[0]


def step_and_report(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground | None = None,
) -> tuple[State, StepReport]:
    """A :func:`step` together with accelerations, joint forces and contacts.

    Arguments and exceptions are the same; ``solver="rk4"`` has no report and raises ``ValueError``.
    """
    if options.solver == "rk4":
        raise ValueError("solver='rk4' has no report: accelerations of a smooth motion are those of artix.vector_field")
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
    control = _checked(articulation, state, control, options, ground)

    def take_step(now: State, part: Array) -> tuple[State, StepReport]:
        if options.solver == "implicit":
            touching = _touching(articulation, now, ground, options)
            return implicit_step_and_report(articulation, now, control, part, options, touching)
        return physx_step(articulation, now, control, part, options)

    return _in_parts(take_step, state, dt, options)


def step_with_contact_memory(
    articulation: Articulation,
    state: State,
    memory: ContactMemory,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    ground: Ground,
) -> tuple[State, ContactMemory]:
    """A :func:`step` whose contacts begin with the impulses of the step before.

    What rests so finds its contact forces to the last digit, and fewer iterations suffice. The solution is the same,
    and so is its derivative, which knows nothing of the memory.

    Args:
      articulation: as for :func:`step`.
      state: as for :func:`step`.
      memory: of the step before; :meth:`ContactMemory.none` to begin with.
      control: as for :func:`step`.
      dt: as for :func:`step`.
      options: as for :func:`step`; the solver must be ``"implicit"``.
      ground: what its shapes may touch.

    Returns:
      The state a step later, and the memory that belongs to it.

    Raises:
      ValueError: as :func:`step`, or the memory is of another number of contacts.
      TypeError: as :func:`step`.
    """
    return _step_with_contact_memory(articulation, state, memory, control, as_time(articulation, dt), options, ground)


@quantity
def _step_with_contact_memory(
    articulation: Articulation,
    state: State,
    memory: ContactMemory,
    control: Control | None,
    dt: Array,
    options: SolverOptions,
    ground: Ground,
) -> tuple[State, ContactMemory]:
    control = _checked(articulation, state, control, options, ground)

    def take_step(now: tuple[State, ContactMemory], part: Array) -> tuple[Any, Any]:
        touching = _touching(articulation, now[0], ground, options, now[1])
        return implicit_step(articulation, now[0], control, part, options, touching), ()

    return _in_parts(take_step, (state, memory), dt, options)[0]


def step_with_joint_drift(
    articulation: Articulation,
    state: State,
    drift: Array,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions,
) -> tuple[State, Array, StepReport]:
    """A :func:`step_and_report` with ``"pgs"`` or ``"tgs"`` that keeps how far spherical joints with locked axes drift.

    PhysX locks axes in velocity alone. A spherical joint with two free axes, or with one below a turning parent, so
    turns about its locked axes as well; its positions are the components of its rotation along the free axes, and PhysX
    remembers the rotation. :func:`step` puts the joint back onto its free axes. No other joint drifts.

    Args:
      articulation: the articulation as it was built.
      state: where it is.
      drift: rotation vectors [rad] by which the inbound joint frames have turned on their parents' links, shape [L, 3];
        zeros to begin with and whenever joint positions are set anew, as in PhysX.
      control: as for :func:`step`.
      dt: the step [s].
      options: as for :func:`step`.

    Returns:
      The state a step later, the drift that belongs to it, and the report. Other functions take them as
      ``artix.link_poses(artix.with_joint_drift(articulation, drift), state)``.

    Raises:
      ValueError: as :func:`step`, or the solver is another one.
      TypeError: as :func:`step`.
    """
    if options.solver not in ("pgs", "tgs"):
        raise ValueError(
            f"solver={options.solver!r} keeps spherical joints on their free axes and has no drift: use artix.step, or "
            "solver='pgs' or 'tgs'"
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
    control = _checked(articulation, state, control, options, None)
    check_vector("drift", drift, (articulation.topology.num_links, 3), articulation.dtype, "L, rotation vectors")

    def one(now: tuple[State, Array], part: Array) -> tuple[tuple[State, Array | None], StepReport]:
        end, after, report = drifting_step(articulation, *now, control, part, options)
        return (end, after), report

    (end, drift), report = _in_parts(one, (state, drift), dt, options)
    return end, drift, report


def rollout(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    num_steps: int | None = None,
    ground: Ground | None = None,
) -> State:
    """Many steps in one ``jax.lax.scan``.

    Args:
      articulation: the articulation.
      state: where it starts.
      control: with ``num_steps``, the control that holds during all steps (or ``None``); without, one control per
        step, every array with a leading axis [T].
      dt: the step [s].
      options: solver and iterations; static.
      num_steps: number of steps T under a constant control.
      ground: as for :func:`step`; the steps remember their contacts, as by :func:`step_with_contact_memory`.

    Returns:
      The states after each step, every array with a leading axis [T].

    Raises:
      ValueError: neither ``num_steps`` nor an array in ``control`` says how many steps there are; and as :func:`step`.
      TypeError: as :func:`step`.
    """
    if num_steps is None and not jax.tree.leaves(control):
        raise ValueError("give num_steps, or a control with a leading axis over the steps")

    memory = None if ground is None else ContactMemory.none(articulation, ground, options.max_contacts_per_geometry)

    def advance(
        now: tuple[State, ContactMemory | None], now_control: Control | None
    ) -> tuple[tuple[State, ContactMemory | None], State]:
        given = control if num_steps is not None else now_control
        before, remembered = now
        if ground is None or remembered is None:
            end = step(articulation, before, given, dt, options)
        else:
            end, remembered = step_with_contact_memory(
                articulation, before, remembered, given, dt, options, ground=ground
            )
        return (end, remembered), end

    return scan(advance, (state, memory), None if num_steps is not None else control, length=num_steps)[1]


def _touching(
    articulation: Articulation,
    state: State,
    ground: Ground | None,
    options: SolverOptions,
    memory: ContactMemory | None = None,
) -> Touching | None:
    """The contacts with the ground at the start of a step."""
    if ground is None:
        return None
    kin = kinematics(articulation, state)
    found = contacts_with_ground(articulation, kin, ground, options.max_contacts_per_geometry)
    if memory is None:
        return Touching(found.contacts)
    check_vector("memory.impulse", memory.impulse, found.contacts.point.shape, articulation.dtype, "K contacts")
    check_vector("memory.joint_friction", memory.joint_friction, state.joint_position.shape, articulation.dtype, "n")
    return Touching(found.contacts, memory)


def _in_parts(
    take_step: Callable[[Any, Array], tuple[Any, Any]], state: Any, dt: Array, options: SolverOptions
) -> tuple[Any, Any]:
    """The state after all parts of a step, and what the last one reports."""
    part = dt / options.substeps
    if options.substeps == 1:
        return take_step(state, part)
    end, reports = scan(lambda now, _: take_step(now, part), state, length=options.substeps)
    return end, jax.tree.map(lambda each: each[-1], reports)


def _checked(
    articulation: Articulation, state: State, control: Control | None, options: SolverOptions, ground: Ground | None
) -> Control:
    """The control, once all arguments are found to be right."""
    if ground is not None and options.solver != "implicit":
        raise ValueError(
            f"solver={options.solver!r} knows no ground: contacts need solver='implicit'; leave ground out to step "
            "without contact"
        )
    control = Control() if control is None else control
    check_state(articulation, state)
    check_control(articulation, control)
    _check_topology(articulation, options)
    return control


def _check_topology(articulation: Articulation, options: SolverOptions) -> None:
    topology = articulation.topology
    if isinstance(topology, Topology):
        return
    if options.solver in ("pgs", "tgs"):
        raise TypeError(
            f"solver={options.solver!r} needs a static topology: put articulations of one topology into a fleet of "
            "their own, or step this one, which is padded, with solver='implicit'"
        )
    padding = topology.padding
    if padding.fixed_tendons or padding.spatial_tendons or padding.loop_joints:
        raise TypeError(
            "tendons and loop joints need a static topology to step: put articulations that have them into fleets of "
            "one topology each, without padding"
        )
