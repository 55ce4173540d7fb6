"""The step that advances an articulation in a scene, with PhysX's sleeping and its limits of the
velocity as a whole.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.dynamics.momentum import centroidal_momentum_matrix
from artix.editing.surgery import select_geometry_pairs
from artix.kinematics.configuration import generalized_velocity
from artix.math.arrays import chosen, matmul
from artix.model.articulation import State
from artix.model.checks import check_vector
from artix.physx.simulation import ArticulationSimulation, check_in_scene
from artix.physx.solver.sleeping import is_sleeping, sleep_after_step, woken_by
from artix.simulation.common.control import lacks_gains
from artix.simulation.common.report import all_finite, cleared
from artix.simulation.step import step_and_report

Array = jax.Array


def simulate(simulation: ArticulationSimulation, dt: float | Array) -> ArticulationSimulation:
    """One step, ``PxScene::simulate`` and ``fetchResults`` for one articulation:
    :func:`artix.step_and_report`.

    Joint forces and drive targets persist; link forces and torques are cleared. The articulation
    falls asleep by the rules of :func:`artix.step_with_sleep` unless the sleep threshold is zero. A
    sleeping articulation does not move and has no accelerations; applied forces and functions that
    set its state wake it.

    Args:
      simulation: the articulation in its scene.
      dt: the step [s].

    Returns:
      The simulation a step later.

    Raises:
      ValueError: :func:`artix.step` does not support the articulation.
      TypeError: ``simulation`` is not an :class:`ArticulationSimulation`.

    Examples:
      >>> from artix import physx
      >>> simulation = physx.create_simulation(artix.robots.load("double_pendulum"))
      >>> bent = simulation.state.replace(joint_position=jnp.array([0.5, 0.0]))
      >>> simulation = simulation.replace(state=bent)
      >>> for _ in range(10):
      ...     simulation = physx.simulate(simulation, 1 / 240)
      >>> print(simulation.state.joint_position[0] < 0.5)  # it swings back
      True
    """
    check_in_scene(simulation)
    before = simulation.state
    control = simulation.control
    articulation = simulation.articulation
    if simulation.disable_self_collision and articulation.topology.geometry_pairs:
        articulation = select_geometry_pairs(articulation, ())
    if lacks_gains(
        articulation
    ):  # A simulation always has targets, of which a step would warn in vain.
        control = control.replace(drive_target=None, drive_target_velocity=None)
    sleeps = is_sleeping(woken_by(control, simulation.sleep))
    end, report = step_and_report(articulation, before, control, dt, simulation.options)
    end = limit_com_velocity(simulation, end)
    state, sleep = sleep_after_step(
        articulation, before, end, simulation.sleep, control, dt, simulation.sleep_threshold
    )
    report = chosen(sleeps, cleared(report).replace(is_finite=all_finite(state)), report)
    unloaded = jnp.zeros_like(simulation.external_force)
    return simulation.replace(state=state, sleep=sleep, report=report, external_force=unloaded)


def limit_com_velocity(simulation: ArticulationSimulation, state: State) -> State:
    """Scales the overall velocity of the articulation down to the simulation's limits.

    Only the root's velocity changes, and all links move with it as one rigid body. A fixed base has
    no overall velocity.
    """
    linear, angular = simulation.max_com_linear_velocity, simulation.max_com_angular_velocity
    tree = simulation.topology
    if (linear is None and angular is None) or tree.num_base_dofs == 0:
        return state
    matrix, _ = centroidal_momentum_matrix(simulation.articulation, state)
    velocity = generalized_velocity(simulation.articulation, state)
    momentum = matmul(matrix, velocity)
    mass = jnp.sum(simulation.articulation.link_mass)
    change = _excess(momentum[:3] / mass, linear)
    turn = _excess(jnp.linalg.solve(matrix[3:, 3:6], momentum[3:]), angular)
    # Rotating the root about its own centre of mass also moves the articulation's centre of mass.
    induced = matmul(matrix[:3, 3:6], turn) / mass
    return state.replace(
        root_velocity=state.root_velocity - jnp.concatenate([change - induced, turn])
    )


def _excess(velocity: Array, limit: Array | None) -> Array:
    """The part of a velocity [3] that exceeds a limit on its magnitude."""
    if limit is None:
        return jnp.zeros_like(velocity)
    check_vector(
        "limit of the velocity of the centre of mass", limit, (), velocity.dtype, "a number"
    )
    square = jnp.sum(velocity**2)
    fast = square > limit**2
    return velocity * jnp.where(fast, 1 - limit / jnp.sqrt(jnp.where(fast, square, 1)), 0)
