"""The compute calls of PhysX's direct-GPU API, on a fleet, in PhysX's exact buffer layout.

Block k of every result belongs to ``indices[k]``. The fleet's maxima set the stride of the blocks. Within its block, an
articulation's matrix is packed with its own number of columns; the rest is zero (PhysX leaves it untouched).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.dynamics.inverse import coriolis_compensation, gravity_compensation
from artix.dynamics.mass_matrix import mass_matrix
from artix.dynamics.momentum import center_of_mass, centroidal_momentum_matrix
from artix.fleet.fleet import Fleet, vmap_in_blocks
from artix.kinematics.frames import forward_kinematics
from artix.model.articulation import Articulation, State
from artix.physx.enums import ArticulationGPUAPIComputeType as ComputeType
from artix.physx.fleet_simulation import (
    AnyFleetSimulation,
    ArticulationGPUAPIMaxCounts,
    FleetSimulation,
    check_indices,
    check_simulation,
    check_state,
    get_articulation_gpu_api_max_counts,
    in_order,
    of_type,
    own_state,
    parts_of,
    simulations_of_kinds,
    to_transform,
)
from artix.physx.generalized import (
    coriolis_and_centrifugal_force,
    dense_jacobian,
    generalized_gravity_force,
    generalized_mass_matrix,
)
from artix.physx.simulation import ArticulationSimulation

Array = jax.Array
Index: TypeAlias = jax.Array | np.ndarray | int


class LinkKinematics(NamedTuple):
    """The data that ``eUPDATE_KINEMATIC`` refreshes, in the layout of PhysX's read calls; padded links are zero.

    Attributes:
      link_global_pose: world poses of the link frames as ``PxTransform``, quaternion xyzw first, then position [m],
        shape [nb, maxLinks, 7].
      link_linear_velocity: velocities of the links' centres of mass [m/s], world axes, shape [nb, maxLinks, 3].
      link_angular_velocity: angular velocities of the links [rad/s], world axes, shape [nb, maxLinks, 3].

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIComputeType as Compute
      >>> fleet = artix.Fleet([artix.robots.load("cart_pole")] * 2)
      >>> links = physx.compute_articulation_data(fleet, fleet.neutral_state(), [0, 1], Compute.UPDATE_KINEMATIC)
      >>> print(links.link_global_pose.shape, links.link_linear_velocity.shape)
      (2, 3, 7) (2, 3, 3)
    """

    link_global_pose: Array
    link_linear_velocity: Array
    link_angular_velocity: Array


def compute_articulation_data(
    fleet: Fleet,
    state: State | AnyFleetSimulation,
    indices: npt.ArrayLike,
    operation: ComputeType,
    *,
    physx_compat: bool = False,
) -> Any:
    """``PxDirectGPUAPI::computeArticulationData`` as a pure function.

    Args:
      fleet: the articulations of the scene.
      state: the fleet's state, or its simulation, whose parameters are then used; leading axis N.
      indices: the articulations to compute, in order; concrete integers, shape [nb].
      operation: what to compute.
      physx_compat: whether to reproduce PhysX 5.6.1 where it departs from its documentation: gravity compensation
        ignores ``gravity_scale``, velocities above ``max_joint_velocity`` are clipped in the Coriolis entries, and the
        deprecated gravity entry of a floating base is that of
        :func:`~artix.physx.generalized.generalized_gravity_force`.

    Returns:
      With D = maxDofs and K = maxLinks, in the units and axes of the functions on caches (:func:`compute_mass_matrix`
      and so on):

      * ``UPDATE_KINEMATIC``: a :class:`LinkKinematics`.
      * ``DENSE_JACOBIANS``: [nb, (6 + D) (6 + 6 (K - 1))], packed with the articulation's own column count.
      * ``MASS_MATRICES``: [nb, (D + 6)^2], packed with stride n (fixed base) or n + 6.
      * ``CORIOLIS_AND_CENTRIFUGAL_COMPENSATION``, ``GRAVITY_COMPENSATION``: [nb, D + 6]; six root entries first for a
        floating base, joints from entry 0 for a fixed one.
      * ``ARTICULATION_COMS_WORLD_FRAME``, ``ARTICULATION_COMS_ROOT_FRAME``: [nb, 3].
      * ``CENTROIDAL_MOMENTUM_MATRICES``: one flat buffer of four consecutive regions, [nb (D + 6)^2] mass matrices,
        [nb (D + 6)] Coriolis compensation, [nb 6 (D + 6)] momentum matrices with stride n + 6, [nb 6] biases; zero
        for a fixed base. PhysX expects the caller to have filled the first two regions; here they are computed.
      * ``GENERALIZED_MASS_MATRICES``: [nb, D^2] with stride n; ``GENERALIZED_GRAVITY_FORCES`` and
        ``CORIOLIS_AND_CENTRIFUGAL_FORCES``: [nb, D] (all deprecated).

      :func:`unpack_articulation_data` turns any of them into dense arrays.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not integers, ``operation`` is a type of data, or the state has another dtype than the
        fleet.
      ValueError: the state or the simulation is not that of the fleet.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIComputeType as Compute
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> blocks = physx.compute_articulation_data(fleet, fleet.neutral_state(), [1, 0], Compute.MASS_MATRICES)
      >>> print(blocks.shape)  # (7 + 6)^2 numbers each, those of the pole at the front
      (2, 169)
    """
    operation, indices = of_type(ComputeType, "operation", operation), check_indices(fleet, indices)
    parts = parts_of(fleet, indices)
    if isinstance(state, ArticulationSimulation | FleetSimulation):
        check_simulation(fleet, state)
        kinds = [(kind.articulation, kind.state) for kind in simulations_of_kinds(state)]
    else:
        check_state(fleet, state)
        states = [own_state(fleet.topologies[members[0]], state, members) for members in fleet.kinds]
        kinds = list(zip(fleet.articulations, states, strict=True))
    maxima = get_articulation_gpu_api_max_counts(fleet)
    joined = in_order(parts, lambda k: _compute(operation, physx_compat, maxima, *kinds[k], parts[k].rows))
    if operation is ComputeType.CENTROIDAL_MOMENTUM_MATRICES:
        return jnp.concatenate([region.reshape(-1) for region in joined])
    return joined


def unpack_articulation_data(fleet: Fleet, data: Array, indices: npt.ArrayLike, operation: ComputeType) -> Any:
    """Unpacks the blocks of :func:`compute_articulation_data` into dense arrays.

    Args:
      fleet: the fleet passed to ``compute_articulation_data``.
      data: its result.
      indices: the indices passed to it.
      operation: the operation passed to it.

    Returns:
      Arrays with each articulation's own layout in the leading corner and zeros beyond: Jacobians [nb, 6 K, 6 + D],
      mass matrices [nb, 6 + D, 6 + D] or [nb, D, D] (deprecated entry), the four arrays (M, c, A, bias) of the
      centroidal entry. All other results are dense already.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not integers, or ``operation`` is a type of data.
      ValueError: the data has another shape than the result for these indices.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIComputeType as Compute
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> blocks = physx.compute_articulation_data(fleet, fleet.neutral_state(), [1], Compute.MASS_MATRICES)
      >>> dense = physx.unpack_articulation_data(fleet, blocks, [1], Compute.MASS_MATRICES)
      >>> print(dense.shape, dense[0, :2, :2])  # that of the pole
      (1, 13, 13) [[1.2   0.1  ]
       [0.1   0.067]]
    """
    operation, indices = of_type(ComputeType, "operation", operation), check_indices(fleet, indices)
    maxima = get_articulation_gpu_api_max_counts(fleet)
    shape = _data_shape(operation, maxima, len(indices))
    if shape is not None and data.shape != shape:
        raise ValueError(
            f"data of {operation.name} for {len(indices)} indices: expected shape {shape}, found {data.shape}"
        )
    return _unpack(operation, maxima, data, _counts(fleet, indices))


# --- packing --------------------------------------------------------------------------------------------------------


class _Counts(NamedTuple):
    """Sizes of one articulation's quantities, one array entry per block.

    Attributes:
      columns: entries of its generalised vectors.
      dofs: joint DOFs.
      jacobian_rows: rows of its dense Jacobian.
    """

    columns: np.ndarray
    dofs: np.ndarray
    jacobian_rows: np.ndarray


def _counts(fleet: Fleet, indices: np.ndarray) -> _Counts:
    table = {
        topology: (topology.nv, topology.num_dofs, 6 * topology.num_links - (6 if topology.fixed_base else 0))
        for topology in set(fleet.topologies)
    }
    rows = np.array([table[fleet.topologies[index]] for index in indices], np.int32).reshape(-1, 3)
    return _Counts(*rows.T)


def _data_shape(operation: ComputeType, maxima: ArticulationGPUAPIMaxCounts, blocks: int) -> tuple[int, ...] | None:
    """The shape of a packed result for this number of blocks; ``None`` for results that are not packed."""
    dofs, wide = maxima.max_dofs, maxima.max_dofs + 6
    match operation:
        case ComputeType.DENSE_JACOBIANS:
            return (blocks, wide * 6 * maxima.max_links)
        case ComputeType.MASS_MATRICES:
            return (blocks, wide * wide)
        case ComputeType.GENERALIZED_MASS_MATRICES:
            return (blocks, dofs * dofs)
        case ComputeType.CENTROIDAL_MOMENTUM_MATRICES:
            return (blocks * (wide * wide + wide + 6 * wide + 6),)
    return None


def _spread(packed: Array, rows: Index, columns: Index, shape: tuple[int, int]) -> Array:
    """A block packed row by row, [rows, columns], as a dense array of the given shape, padded with zeros."""
    row = jnp.arange(shape[0], dtype=jnp.int32)[:, None]
    column = jnp.arange(shape[1], dtype=jnp.int32)[None]
    inside = (row < rows) & (column < columns)
    return jnp.where(inside, packed[jnp.where(inside, row * columns + column, 0)], jnp.zeros_like(packed, shape=shape))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _compute(
    operation: ComputeType,
    compat: bool,
    maxima: ArticulationGPUAPIMaxCounts,
    articulation: Articulation,
    state: State,
    rows: np.ndarray,
) -> Any:
    """The blocks of some members of a kind."""
    articulation, state = jax.tree.map(lambda leaf: leaf[rows], (articulation, state))
    return vmap_in_blocks(partial(_block, operation, compat, maxima))(articulation, state)


def _block(
    operation: ComputeType,
    compat: bool,
    maxima: ArticulationGPUAPIMaxCounts,
    articulation: Articulation,
    state: State,
) -> Any:
    """One articulation's block."""
    dofs, wide, clipped, unscaled = maxima.max_dofs, maxima.max_dofs + 6, state, articulation
    if compat:
        clipped = state.replace(joint_velocity=jnp.minimum(state.joint_velocity, articulation.max_joint_velocity))
        unscaled = articulation.replace(gravity_scale=jnp.ones_like(articulation.gravity_scale))

    def packed(dense: Array, size: int) -> Array:
        """An array row by row, then zeros."""
        return jnp.pad(dense.reshape(-1), (0, size - dense.size))

    match operation:
        case ComputeType.UPDATE_KINEMATIC:
            links = forward_kinematics(articulation, state)
            kinematics = LinkKinematics(to_transform(links.pose), links.velocity[:, :3], links.velocity[:, 3:])
            more = (0, maxima.max_links - articulation.topology.num_links)
            return jax.tree.map(lambda part: jnp.pad(part, (more, (0, 0))), kinematics)
        case ComputeType.DENSE_JACOBIANS:
            return packed(dense_jacobian(articulation, state), wide * 6 * maxima.max_links)
        case ComputeType.MASS_MATRICES:
            return packed(mass_matrix(articulation, state), wide * wide)
        case ComputeType.CORIOLIS_AND_CENTRIFUGAL_COMPENSATION:
            return packed(coriolis_compensation(articulation, clipped), wide)
        case ComputeType.GRAVITY_COMPENSATION:
            return packed(gravity_compensation(unscaled, state), wide)
        case ComputeType.ARTICULATION_COMS_WORLD_FRAME:
            return center_of_mass(articulation, state, "world")
        case ComputeType.ARTICULATION_COMS_ROOT_FRAME:
            return center_of_mass(articulation, state, "root")
        case ComputeType.GENERALIZED_MASS_MATRICES:
            return packed(generalized_mass_matrix(articulation, state), dofs**2)
        case ComputeType.GENERALIZED_GRAVITY_FORCES:
            return packed(generalized_gravity_force(articulation, state, physx_compat=compat), dofs)
        case ComputeType.CORIOLIS_AND_CENTRIFUGAL_FORCES:
            return packed(coriolis_and_centrifugal_force(articulation, clipped), dofs)
        case ComputeType.CENTROIDAL_MOMENTUM_MATRICES:
            sizes = wide * wide, wide, 6 * wide, 6
            if articulation.topology.fixed_base:
                return tuple(jnp.zeros(size, articulation.dtype) for size in sizes)
            matrix, bias = centroidal_momentum_matrix(articulation, clipped)
            regions = mass_matrix(articulation, state), coriolis_compensation(articulation, clipped), matrix, bias
            return tuple(map(packed, regions, sizes))


@partial(jax.jit, static_argnums=(0, 1))
def _unpack(operation: ComputeType, maxima: ArticulationGPUAPIMaxCounts, data: Array, counts: _Counts) -> Any:
    wide = maxima.max_dofs + 6
    columns = counts.columns
    if operation is ComputeType.DENSE_JACOBIANS:
        spread = partial(_spread, shape=(6 * maxima.max_links, wide))
        return jax.vmap(spread)(data, counts.jacobian_rows, columns)
    if operation is ComputeType.MASS_MATRICES:
        return jax.vmap(partial(_spread, shape=(wide, wide)))(data, columns, columns)
    if operation is ComputeType.GENERALIZED_MASS_MATRICES:
        shape = (maxima.max_dofs, maxima.max_dofs)
        return jax.vmap(partial(_spread, shape=shape))(data, counts.dofs, counts.dofs)
    if operation is ComputeType.CENTROIDAL_MOMENTUM_MATRICES:
        blocks = len(columns)
        sizes = np.cumsum([blocks * wide * wide, blocks * wide, blocks * 6 * wide])
        mass, coriolis, matrix, bias = (region.reshape(blocks, -1) for region in jnp.split(data, sizes))
        six = jnp.full_like(columns, 6)
        return (
            jax.vmap(partial(_spread, shape=(wide, wide)))(mass, columns, columns),
            coriolis,
            jax.vmap(partial(_spread, shape=(6, wide)))(matrix, six, columns),
            bias,
        )
    return data
