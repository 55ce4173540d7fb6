"""The state that PhysX keeps of an articulation in a scene, as one pytree."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from artix.math import struct
from artix.math.arrays import entries
from artix.model.articulation import Articulation, State
from artix.model.checks import check_known_state, check_state, check_type
from artix.model.states import neutral_state
from artix.physx.enums import ArticulationFlag
from artix.physx.solver.sleeping import (
    SLEEP_THRESHOLD,
    SleepState,
    is_sleeping,
    wake_up,
    woken_if,
)
from artix.simulation.common.control import Control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import Residual, StepReport

Array = jax.Array

#: PhysX's default solver.
PHYSX_OPTIONS = SolverOptions(solver="pgs")


class ArticulationSimulation(struct.PyTreeNode):
    """One articulation in a scene: ``PxArticulationReducedCoordinate`` as a value.

    Functions of :mod:`artix.physx` that change something return a new simulation. Create one with
    :func:`create_simulation`; batch it with ``jax.vmap``.

    Attributes:
      articulation: the parameters, and the static topology.
      state: root pose and velocity, joint positions and velocities.
      joint_force: applied joint forces [N m or N], which persist, shape [n].
      drive_target: target positions of the drives [rad or m], which persist, shape [n].
      drive_target_velocity: target velocities of the drives [rad/s or m/s], which persist, shape
        [n].
      external_force: forces [N] and torques [N m] on the links during the next step only, world
        axes, at the centres of mass, shape [L, 6].
      report: accelerations and incoming joint forces of the last step, zero before the first one.
      sleep: how close the links are to falling asleep; see :class:`artix.SleepState`.
      sleep_threshold: mass-normalised kinetic energy below which the articulation may fall asleep
        [m^2/s^2], shape [].
      max_com_linear_velocity: speed limit of the whole articulation's centre of mass [m/s], shape
        []; ``None`` for none. Floating bases only; removed in PhysX 5.6.
      max_com_angular_velocity: limit of its overall angular velocity [rad/s], shape []; ``None``
        for none. Floating bases only; removed in PhysX 5.6.
      options: solver, iteration counts and ``drive_limits_are_forces``; static.
      disable_self_collision: PhysX's ``eDISABLE_SELF_COLLISION``: whether :func:`simulate` ignores
        the articulation's pairs of shapes (``topology.geometry_pairs``); static.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("cart_pole"))
      >>> simulation = simulation.replace(joint_force=jnp.array([12.0, 0.0]))
      >>> print(physx.simulate(simulation, 0.01).state.joint_velocity[0])  # [m/s]
      0.114
    """

    articulation: Articulation
    state: State
    joint_force: Array
    drive_target: Array
    drive_target_velocity: Array
    external_force: Array
    report: StepReport
    sleep: SleepState
    sleep_threshold: Array
    max_com_linear_velocity: Array | None = None
    max_com_angular_velocity: Array | None = None
    options: SolverOptions = struct.field(pytree_node=False, default=PHYSX_OPTIONS)
    disable_self_collision: bool = struct.field(pytree_node=False, default=False)

    @property
    def topology(self):
        """The articulation's topology."""
        return self.articulation.topology

    @property
    def dtype(self):
        """The floating-point type of the articulation."""
        return self.articulation.dtype

    @property
    def control(self) -> Control:
        """What acts during the next step, for :func:`artix.step`."""
        return Control(
            self.joint_force, self.drive_target, self.drive_target_velocity, self.external_force
        )

    @property
    def articulation_flags(self) -> ArticulationFlag:
        """The flags that are set."""
        flags = ArticulationFlag(0)
        if self.topology.fixed_base:
            flags |= ArticulationFlag.FIX_BASE
        if self.options.drive_limits_are_forces:
            flags |= ArticulationFlag.DRIVE_LIMITS_ARE_FORCES
        if self.disable_self_collision:
            flags |= ArticulationFlag.DISABLE_SELF_COLLISION
        return flags

    @property
    def solver_iteration_counts(self) -> tuple[int, int]:
        """Numbers of position iterations and of velocity iterations; see
        :class:`artix.SolverOptions`.
        """
        return self.options.position_iterations, self.options.velocity_iterations

    @property
    def solver_residual(self) -> tuple[Residual, Residual]:
        """Corrections of rows' velocities in the last position and the last velocity iteration
        [rad/s or m/s].
        """
        return self.report.position_residual, self.report.velocity_residual

    @property
    def com_linear_velocity_limit(self) -> Array:
        """Speed limit of the whole articulation's centre of mass [m/s], ``inf`` for none, shape
        [].
        """
        return self._limit(self.max_com_linear_velocity)

    @property
    def com_angular_velocity_limit(self) -> Array:
        """Limit of the articulation's angular velocity as a whole [rad/s], ``inf`` for none, shape
        [].
        """
        return self._limit(self.max_com_angular_velocity)

    def _limit(self, limit: Array | None) -> Array:
        return jnp.asarray(jnp.inf, self.dtype) if limit is None else limit

    @property
    def root_global_pose(self) -> Array:
        """World pose of the root link's frame, position [m] and quaternion xyzw, shape [7]."""
        return self.state.root_pose

    @property
    def root_linear_velocity(self) -> Array:
        """Velocity of the root link's centre of mass in world axes [m/s], shape [3]."""
        return self.state.root_velocity[..., :3]

    @property
    def root_angular_velocity(self) -> Array:
        """Angular velocity of the root link in world axes [rad/s], shape [3]."""
        return self.state.root_velocity[..., 3:]

    @property
    def wake_counter(self) -> Array:
        """How long the articulation stays awake without moving [s]: the largest counter of its
        links, shape [].
        """
        return jnp.max(self.sleep.wake_counter, axis=-1)

    @property
    def is_sleeping(self) -> Array:
        """Whether the wake counters of all links are zero; bool, shape []."""
        return is_sleeping(self.sleep)


AnyArticulation: TypeAlias = Articulation | ArticulationSimulation


def create_simulation(
    articulation: Articulation,
    state: State | None = None,
    *,
    options: SolverOptions = PHYSX_OPTIONS,
) -> ArticulationSimulation:
    """Places an articulation in a scene: awake, without forces, with the drives at the
    articulation's own targets.

    Args:
      state: its initial state; the neutral state when ``None``.
      options: how :func:`simulate` steps; PhysX's default solver PGS with 4 position and 1 velocity
        iterations.

    Returns:
      The simulation; its thresholds and its wake counter have PhysX's defaults.

    Raises:
      ValueError: an array of the state is known and has a number that is not finite or a quaternion
        not of length 1.

    Examples:
      >>> from artix import physx
      >>> pole = artix.robots.load("cart_pole")
      >>> simulation = physx.create_simulation(pole, options=artix.SolverOptions(solver="tgs"))
      >>> print(simulation.solver_iteration_counts, simulation.is_sleeping)
      (4, 1) False
    """
    tree = articulation.topology
    dtype = articulation.dtype
    check_type("options", options, SolverOptions)
    state = neutral_state(articulation) if state is None else state
    check_state(articulation, state)
    check_known_state("state", state)
    drive = articulation.drive
    return ArticulationSimulation(
        articulation=articulation,
        state=state,
        joint_force=jnp.zeros(tree.num_dofs, dtype),
        drive_target=entries(drive.target_position, ...),  # Copies, which the caller may donate.
        drive_target_velocity=entries(drive.target_velocity, ...),
        external_force=jnp.zeros((tree.num_links, 6), dtype),
        report=StepReport.zeros(articulation),
        sleep=wake_up(articulation),
        sleep_threshold=jnp.asarray(SLEEP_THRESHOLD, dtype),
        options=options,
    )


def check_in_scene(simulation: Any) -> None:
    """Raises ``TypeError`` for what is not a simulation, such as an articulation, and says how to
    make one.
    """
    if not isinstance(simulation, ArticulationSimulation):
        raise TypeError(
            "simulation: expected artix.physx.ArticulationSimulation, found "
            f"{type(simulation).__name__}; make one with "
            "artix.physx.create_simulation(articulation, state), or with "
            "create_fleet_simulation(fleet, state)"
        )


def check_alone(simulation: Any) -> None:
    """Raises ``TypeError`` for what is not a simulation, and ``ValueError`` for a batch of them."""
    check_in_scene(simulation)
    if simulation.state.root_pose.ndim != 1:
        raise ValueError(
            "simulation: expected that of one articulation, found a batch of shape "
            f"{simulation.state.root_pose.shape[:-1]}; use jax.vmap over batches"
        )


def wake_if(simulation: ArticulationSimulation, condition: bool | Array) -> ArticulationSimulation:
    """PhysX's ``autowake``: where the condition holds, raises the wake counters to at least their
    reset value.
    """
    return simulation.replace(sleep=woken_if(condition, simulation.sleep))
