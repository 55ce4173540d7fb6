"""Steps of PhysX's solvers that keep the drift of spherical joints."""

from __future__ import annotations

import jax

from artix.evaluation.quantity import one_operation, quantity
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_type
from artix.physx.solver.step import physx_step
from artix.simulation.common.control import Control, check_known_control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import StepReport
from artix.simulation.step import checked_control, in_parts

Array = jax.Array


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
    check_known_control(control)
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

    def take(now: tuple[State, Array], part: Array) -> tuple[tuple[State, Array | None], StepReport]:
        outcome = physx_step(articulation, now[0], control, part, options, drift=now[1])
        return (outcome.state, outcome.drift), outcome.report

    (end, drift), report = in_parts(take, (state, drift), dt, options)
    return end, drift, report
