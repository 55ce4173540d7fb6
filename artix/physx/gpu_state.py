"""``getArticulationData`` and ``setArticulationData`` of PhysX's direct-GPU API: a fleet's state
and tendons in blocks.

Block k of a buffer belongs to ``indices[k]`` and has the size of the fleet's maxima. Entries beyond
an articulation's own links and DOFs are padding: zero when read (PhysX leaves them untouched),
ignored when written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.fleet.fleet import Fleet
from artix.kinematics.frames import frame_pose, frame_velocity
from artix.math.arrays import check_finite, known_values
from artix.model.articulation import Articulation, State
from artix.model.checks import check_quaternion
from artix.physx.accessors import update_kinematic
from artix.physx.direct_gpu import (
    AnyFleetSimulation,
    FleetSimulation,
    Part,
    check_indices,
    check_simulation,
    check_state,
    in_order,
    pad_to,
    parts_of,
    simulations_of_kinds,
    state_of_members,
    to_transform,
    with_kinds,
)
from artix.physx.enums import ANGULAR, FIELDS, LINEAR, of_type
from artix.physx.enums import ArticulationGPUAPIReadType as ReadType
from artix.physx.enums import ArticulationGPUAPIWriteType as WriteType
from artix.physx.gpu_tendons import read_tendons, write_tendons
from artix.physx.simulation import PHYSX_OPTIONS, ArticulationSimulation, create_simulation, wake_if
from artix.simulation.common.options import SolverOptions

Array = jax.Array


_TENDON_READS = range(ReadType.FIXED_TENDON, ReadType.SPATIAL_TENDON_ATTACHMENT + 1)
_TENDON_WRITES = range(WriteType.FIXED_TENDON, WriteType.SPATIAL_TENDON_ATTACHMENT + 1)


def create_fleet_simulation(
    fleet: Fleet, state: State | None = None, *, options: SolverOptions = PHYSX_OPTIONS
) -> AnyFleetSimulation:
    """Places all members of a fleet in one scene, ``PxScene::addArticulation`` for each; see
    :func:`create_simulation`.

    Args:
      fleet: the articulations of the scene.
      state: the fleet's state, leading axis N; neutral when ``None``.
      options: how :func:`simulate` steps; by default PhysX's default solver.

    Returns:
      The simulations of the N members: of a fleet of one topology in one batch, in which every
      array has a leading axis N, and of several topologies a :class:`FleetSimulation` with a batch
      for each.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet([artix.robots.load("cart_pole")] * 3)
      >>> scene = physx.create_fleet_simulation(fleet)
      >>> scene = jax.vmap(lambda one: physx.simulate(one, 1 / 240))(scene)
      >>> print(scene.state.joint_position.shape)
      (3, 2)
    """
    state = fleet.neutral_state() if state is None else state
    check_state(fleet, state)
    kinds = []
    for articulation, members in zip(fleet.articulations, fleet.kinds, strict=True):
        member_state = state_of_members(articulation.topology, state, members)
        kinds.append(_create(options, articulation, member_state))
    if len(kinds) == 1:
        return kinds[0]
    return FleetSimulation(
        tuple(kinds), tuple(tuple(members.tolist()) for members in fleet.kinds), fleet.num_dofs
    )


@partial(jax.jit, static_argnums=0)
def _create(
    options: SolverOptions, articulation: Articulation, state: State
) -> ArticulationSimulation:
    """The simulations of all members of a kind."""
    return jax.vmap(partial(create_simulation, options=options))(articulation, state)


def get_articulation_data(
    fleet: Fleet, simulation: AnyFleetSimulation, indices: npt.ArrayLike, data_type: ReadType
) -> Any:
    """``PxDirectGPUAPI::getArticulationData`` as a pure function.

    Args:
      fleet: the articulations of the scene.
      simulation: their simulations; see :func:`create_fleet_simulation`.
      indices: the articulations to read, in order; concrete integers, shape [nb].
      data_type: what to read.

    Returns:
      With D = maxDofs and K = maxLinks, in SI units and world axes, velocities and accelerations of
      centres of mass:

      * ``JOINT_POSITION``, ``JOINT_VELOCITY``, ``JOINT_ACCELERATION``, ``JOINT_FORCE`` (the applied
        one), ``JOINT_TARGET_VELOCITY``, ``JOINT_TARGET_POSITION``: [nb, D].
      * ``ROOT_GLOBAL_POSE``: ``PxTransform`` of the link frame, quaternion xyzw first, then
        position, [nb, 7].
      * ``ROOT_LINEAR_VELOCITY``, ``ROOT_ANGULAR_VELOCITY``: [nb, 3].
      * ``LINK_GLOBAL_POSE``: as the root's, [nb, K, 7]; ``LINK_LINEAR_VELOCITY``,
        ``LINK_ANGULAR_VELOCITY``, ``LINK_LINEAR_ACCELERATION``, ``LINK_ANGULAR_ACCELERATION``:
        [nb, K, 3].
      * ``LINK_INCOMING_JOINT_FORCE``: force, then torque, in the child joint frame, [nb, K, 6].
      * ``FIXED_TENDON``, ``FIXED_TENDON_JOINT``, ``SPATIAL_TENDON``, ``SPATIAL_TENDON_ATTACHMENT``:
        a :class:`GpuFixedTendonData`, :class:`GpuTendonJointCoefficientData`,
        :class:`GpuSpatialTendonData` or :class:`GpuTendonAttachmentData`; :func:`to_physx` converts
        them to PhysX's bytes.

      Poses and velocities of links always belong to the state; accelerations and incoming joint
      forces to the last step.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not integers, ``data_type`` is one for writing, or ``simulation``
        is not a simulation.
      ValueError: the simulation belongs to another fleet.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIReadType as Read
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> scene = physx.create_fleet_simulation(fleet)
      >>> poses = physx.get_articulation_data(fleet, scene, [1], Read.LINK_GLOBAL_POSE)
      >>> print(poses.shape, poses[0, 1])  # PxTransform: the quaternion first
      (1, 9, 7) [0. 0. 0. 1. 0. 0. 0.]
    """
    data_type = of_type(ReadType, "data_type", data_type)
    indices = check_indices(fleet, indices)
    check_simulation(fleet, simulation)
    parts = parts_of(fleet, indices)
    kinds = simulations_of_kinds(simulation)
    if data_type in _TENDON_READS:
        return read_tendons(fleet, [kind.articulation for kind in kinds], parts, data_type.name)
    shape = _block_shape(fleet, data_type)
    return in_order(parts, lambda k: _read(data_type, shape, kinds[k], parts[k].rows))


def set_articulation_data(
    fleet: Fleet,
    simulation: AnyFleetSimulation,
    data: Any,
    indices: npt.ArrayLike,
    data_type: WriteType,
) -> AnyFleetSimulation:
    """``PxDirectGPUAPI::setArticulationData`` as a pure function.

    Args:
      fleet: the articulations of the scene.
      simulation: their simulations.
      data: blocks for the listed articulations, in the layout of :func:`get_articulation_data`;
        ``LINK_FORCE`` [N] at the links' centres of mass and ``LINK_TORQUE`` [N m] have shape
        [nb, K, 3], in world axes. They act during one step, joint forces and targets until the next
        write.
      indices: the articulations to write; concrete, distinct integers, shape [nb].
      data_type: what to write.

    Returns:
      The simulations, with the listed ones changed and awake. Link poses and velocities follow at
      once.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not integers, the data has another dtype than the fleet, or
        ``data_type`` is one for reading.
      ValueError: an index appears twice, the data has the wrong shape, a number that is written is
        known and not finite, or a root's quaternion known and of length zero, the simulation is not
        that of the fleet, or a tendon joint's axis differs from the topology's.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIWriteType as Write
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> scene = physx.create_fleet_simulation(fleet)
      >>> scene = physx.set_articulation_data(
      ...     fleet, scene, jnp.full((1, 7), 0.2), [1], Write.JOINT_POSITION
      ... )
      >>> print(scene.state.joint_position[1, :2])
      [0.2 0.2]
    """
    data_type = of_type(WriteType, "data_type", data_type)
    indices = check_indices(fleet, indices, distinct=True)
    check_simulation(fleet, simulation)
    parts = parts_of(fleet, indices)
    kinds = simulations_of_kinds(simulation)
    if data_type in _TENDON_WRITES:
        articulations = write_tendons(
            fleet, [kind.articulation for kind in kinds], data, parts, data_type.name
        )
        written = [
            kind.replace(articulation=one) for kind, one in zip(kinds, articulations, strict=True)
        ]
    else:
        shape = (len(indices), *_block_shape(fleet, data_type))
        if getattr(data, "shape", None) != shape:
            raise ValueError(
                f"data for {data_type.name}: expected shape {shape}, a block of the fleet's "
                f"maxima per index, found {getattr(data, 'shape', type(data).__name__)}"
            )
        if data.dtype != fleet.dtype:
            raise TypeError(
                f"data for {data_type.name}: expected dtype {fleet.dtype}, found {data.dtype}"
            )
        if data_type is WriteType.ROOT_GLOBAL_POSE:
            check_quaternion(f"data for {data_type.name}", _from_transform(data), any_length=True)
        _check_numbers(data_type, data, parts)
        written = [
            _write(data_type, kind, jnp.asarray(data)[part.blocks], part.rows)
            if len(part.blocks)
            else kind
            for kind, part in zip(kinds, parts, strict=True)
        ]
    return with_kinds(
        simulation, [_awake(kind, part.rows) for kind, part in zip(written, parts, strict=True)]
    )


def update_articulation_kinematics(
    fleet: Fleet, simulation: AnyFleetSimulation, indices: npt.ArrayLike
) -> AnyFleetSimulation:
    """Clears what ``eUPDATE_KINEMATIC`` clears: accelerations and incoming joint forces of the
    listed articulations.

    Link poses and velocities need no update; ``compute_articulation_data(..., UPDATE_KINEMATIC)``
    returns them.

    Args:
      fleet: the articulations of the scene.
      simulation: their simulations.
      indices: the articulations to clear; concrete, distinct integers, shape [nb].

    Returns:
      The simulations, the listed ones with a report of zeros.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not integers.
      ValueError: an index appears twice, or the simulation belongs to another fleet.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet([artix.robots.load("cart_pole")] * 2)
      >>> scene = physx.create_fleet_simulation(fleet)
      >>> print(
      ...     physx.update_articulation_kinematics(
      ...         fleet, scene, [0]
      ...     ).report.joint_acceleration.shape
      ... )
      (2, 2)
    """
    indices = check_indices(fleet, indices, distinct=True)
    check_simulation(fleet, simulation)
    parts = parts_of(fleet, indices)
    return with_kinds(simulation, list(map(_clear_report, simulations_of_kinds(simulation), parts)))


def _clear_report(kind: ArticulationSimulation, part: Part) -> ArticulationSimulation:
    cleared = update_kinematic(kind).report
    report = jax.tree.map(
        lambda old, new: old.at[part.rows].set(new[part.rows]), kind.report, cleared
    )
    return kind.replace(report=report)


def _block_shape(fleet: Fleet, data_type: ReadType | WriteType) -> tuple[int, ...]:
    """The shape of a block of the fleet's maxima."""
    name = data_type.name
    if name.startswith("JOINT"):
        return (fleet.num_dofs,)
    columns = 7 if name.endswith("POSE") else 6 if name == "LINK_INCOMING_JOINT_FORCE" else 3
    return (fleet.num_links, columns) if name.startswith("LINK") else (columns,)


def _check_numbers(data_type: WriteType, data: Any, parts: Sequence[Part]) -> None:
    """Refuses numbers that are known and not finite, but for those of padding, which may be
    anything.
    """
    values = known_values(data)
    if values is None:
        return
    name = data_type.name
    for part in parts:
        tree = part.topology
        width = tree.num_dofs if name.startswith("JOINT") else tree.num_links
        rows = values[part.blocks]
        check_finite(f"data for {name}", rows if name.startswith("ROOT") else rows[:, :width])


def _awake(simulation: ArticulationSimulation, indices: np.ndarray) -> ArticulationSimulation:
    """Wakes the listed simulations, so that none ignores the written data because it is asleep."""
    if not len(indices):
        return simulation
    listed = np.zeros((len(simulation.sleep_threshold), 1), bool)
    listed[indices] = True
    return wake_if(simulation, jnp.asarray(listed))


@partial(jax.jit, static_argnums=(0, 1))
def _read(
    data_type: ReadType, shape: tuple[int, ...], kind: ArticulationSimulation, rows: np.ndarray
) -> Array:
    """The blocks [rows, *shape] of some members of a kind."""
    kind = jax.tree.map(lambda leaf: leaf[rows], kind)
    if data_type is ReadType.LINK_GLOBAL_POSE:
        return pad_to(to_transform(jax.vmap(frame_pose)(kind.articulation, kind.state)), shape)
    if data_type in (ReadType.LINK_LINEAR_VELOCITY, ReadType.LINK_ANGULAR_VELOCITY):
        velocities = jax.vmap(partial(frame_velocity, offset="com"))(kind.articulation, kind.state)
        return pad_to(
            velocities[..., LINEAR if data_type is ReadType.LINK_LINEAR_VELOCITY else ANGULAR],
            shape,
        )
    values = FIELDS[data_type.name].read(kind)
    return pad_to(to_transform(values) if data_type is ReadType.ROOT_GLOBAL_POSE else values, shape)


def _from_transform(data: Any) -> Any:
    """Poses [nb, 7] with the position first, of known numbers without a call of JAX."""
    values = known_values(data)
    if values is None:
        return jnp.concatenate([data[:, 4:], data[:, :4]], axis=1)
    return np.concatenate([values[:, 4:], values[:, :4]], axis=1)


@partial(jax.jit, static_argnums=0)
def _write(
    data_type: WriteType, kind: ArticulationSimulation, data: Array, rows: np.ndarray
) -> ArticulationSimulation:
    """The simulations of a kind with the blocks of some members written, without their padding."""
    field = FIELDS[data_type.name]
    before = field.read(kind)
    if data_type is WriteType.ROOT_GLOBAL_POSE:
        data = _from_transform(data)
    return field.write(kind, before.at[rows].set(data[:, : before.shape[1]]))
