"""One step in time."""

from __future__ import annotations

from typing import Any

import jax

from artix.contact.ground import Ground
from artix.evaluation import quantity
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_state, check_type, check_vector
from artix.model.topology import Topology
from artix.simulation.common.options import Control, SolverOptions, check_control
from artix.simulation.common.report import StepReport
from artix.simulation.continuous import rk4_step
from artix.simulation.implicit.step import implicit_step, implicit_step_and_report
from artix.simulation.in_parts import in_parts
from artix.simulation.projected.contact_checks import check_rigid
from artix.simulation.projected.step import physx_step
from artix.simulation.remembered import Memory, has_pairs, held_by, touching_of

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
    limits, mimic joints, loop joints, tendons, damping and speed limits of links, contacts with the ground and, with
    ``"implicit"``, contacts between the pairs of shapes ``topology.geometry_pairs`` act.
    Semi-implicit in time: velocities first, then positions along the new velocities.

    Args:
      articulation: the articulation; every parameter may be traced, batched and differentiated.
      state: where it is.
      control: forces and targets during the step; ``None`` for none.
      dt: the step [s]; negative only with ``solver="rk4"``. At zero the state stays where it is, and its derivative is
        the limit that it has there.
      options: solver and iterations; static.
      ground: what its shapes may touch, but with ``solver="rk4"``; ``None`` for nothing.

    Returns:
      The state a step later.

    Raises:
      ValueError: an array has the wrong shape, ``dt`` is negative, the solver is ``"rk4"`` and there are mimic or loop
        joints or a ground, nothing could touch the ground, shapes touch each other and the solver is not
        ``"implicit"``, or it is ``"pgs"`` or ``"tgs"`` and a surface is not a plane, a shape that may touch it is not a
        sphere, capsule or box, or one of them is compliant.
      TypeError: an array has another dtype than the articulation, or a padded articulation needs a static topology for
        what it has or for the solver.

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
    control = _checked(articulation, state, control, options, ground)

    def take_step(now: State, part: Array) -> tuple[State, Any]:
        if options.solver == "rk4":
            return rk4_step(articulation, now, control, part, options.tendon_law), ()
        if options.solver == "implicit":
            touching = touching_of(articulation, [now], ground, options)
            return implicit_step([articulation], [now], [control], part, options, touching)[0][0], ()
        held = held_by(articulation, now, ground, None)
        return physx_step(articulation, now, control, part, options, touching=held).state, ()

    return in_parts(take_step, state, dt, options)[0]


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
    control = _checked(articulation, state, control, options, ground)

    def take_step(now: State, part: Array) -> tuple[State, StepReport]:
        if options.solver == "implicit":
            touching = touching_of(articulation, [now], ground, options)
            (end,), (report,) = implicit_step_and_report([articulation], [now], [control], part, options, touching)
            return end, report
        held = held_by(articulation, now, ground, None)
        outcome = physx_step(articulation, now, control, part, options, touching=held)
        return outcome.state, outcome.report

    return in_parts(take_step, state, dt, options)


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
    """A :func:`step` whose contacts remember the step before.

    With ``"implicit"`` they begin with its impulses: what rests so finds its contact forces to the last digit, and
    fewer iterations suffice. The solution is the same, and so is its derivative, which knows nothing of the memory.
    With ``"pgs"`` and ``"tgs"`` friction keeps its anchors, without which what stands on a slope creeps, as in PhysX
    where strong friction is disabled.

    Args:
      articulation: as for :func:`step`.
      state: as for :func:`step`.
      memory: of the step before; to begin with :meth:`ContactMemory.none`, or with ``"pgs"`` and ``"tgs"``
        :meth:`FrictionAnchors.none`.
      control: as for :func:`step`.
      dt: as for :func:`step`.
      options: as for :func:`step`.
      ground: what its shapes may touch.

    Returns:
      The state a step later, and the memory that belongs to it.

    Raises:
      ValueError: as :func:`step`, or the memory is of another number of contacts.
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
    control = _checked(articulation, state, control, options, ground)

    def take_step(now: tuple[State, Any], part: Array) -> tuple[Any, Any]:
        if options.solver in ("pgs", "tgs"):
            held = held_by(articulation, now[0], ground, now[1])
            outcome = physx_step(articulation, now[0], control, part, options, touching=held)
            return (outcome.state, outcome.anchors), ()
        touching = touching_of(articulation, [now[0]], ground, options, now[1])
        (end,), remembered = implicit_step([articulation], [now[0]], [control], part, options, touching)
        return (end, now[1] if remembered is None else remembered), ()

    return in_parts(take_step, (state, memory), dt, options)[0]


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
        outcome = physx_step(articulation, now[0], control, part, options, drift=now[1])
        return (outcome.state, outcome.drift), outcome.report

    (end, drift), report = in_parts(one, (state, drift), dt, options)
    return end, drift, report


def _checked(
    articulation: Articulation, state: State, control: Control | None, options: SolverOptions, ground: Ground | None
) -> Control:
    """The control, once all arguments are found to be right."""
    control = Control() if control is None else control
    check_state(articulation, state)
    check_type("control", control, Control)
    check_type("options", options, SolverOptions)
    if ground is not None:
        check_type("ground", ground, Ground)
    if ground is not None and options.solver == "rk4":
        raise ValueError(
            "solver='rk4' knows no ground: contacts need solver='implicit', 'pgs' or 'tgs'; leave ground out to step "
            "without contact"
        )
    if options.solver != "implicit" and has_pairs(articulation):
        raise ValueError(
            f"solver={options.solver!r} knows no contacts between links, for which the articulation has pairs of "
            "shapes: step with solver='implicit', or take them out by artix.select_geometry_pairs(articulation, ())"
        )
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
