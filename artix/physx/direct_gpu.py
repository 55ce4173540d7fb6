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
from artix.fleet.batches import vmap_in_blocks
from artix.fleet.fleet import Fleet
from artix.kinematics.links import dense_jacobian, forward_kinematics
from artix.model.articulation import Articulation, State
from artix.physx.enums import ArticulationGPUAPIComputeType as ComputeType
from artix.physx.generalized import coriolis_and_centrifugal_force, generalized_gravity_force, generalized_mass_matrix
from artix.physx.gpu_layout import (
    ArticulationGPUAPIMaxCounts,
    check_indices,
    check_simulation,
    check_state,
    get_articulation_gpu_api_max_counts,
    of_type,
    to_transform,
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
    state: State | ArticulationSimulation,
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
    articulation = fleet.articulation
    if isinstance(state, ArticulationSimulation):
        check_simulation(fleet, state)
        articulation, state = state.articulation, state.state
    check_state(fleet, state)
    return _compute(operation, physx_compat, articulation, state, indices, _counts(fleet, indices))


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
      root: root entries of its generalised vectors, 6 or 0.
    """

    columns: np.ndarray
    dofs: np.ndarray
    jacobian_rows: np.ndarray
    root: np.ndarray


def _counts(fleet: Fleet, indices: np.ndarray) -> _Counts:
    table = {
        topology: (
            topology.nv,
            topology.num_dofs,
            6 * (topology.num_links - (1 if topology.fixed_base else 0)),
            topology.num_base_dofs,
        )
        for topology in set(fleet.topologies)
    }
    rows = np.array([table[fleet.topologies[index]] for index in indices], np.int32).reshape(-1, 4)
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


def _pack(dense: Array, rows: Index, columns: Index, first: tuple[Index, Index], size: int) -> Array:
    """Packs the block [rows, columns] of ``dense`` that begins at ``first`` into ``size`` floats, row by row."""
    index = jnp.arange(size, dtype=jnp.int32)
    row, column = index // columns, index % columns
    inside = row < rows
    row, column = jnp.where(inside, row + first[0], 0), jnp.where(inside, column + first[1], 0)
    return jnp.where(inside, dense[row, column], jnp.zeros_like(dense, shape=(size,)))


def _spread(packed: Array, rows: Index, columns: Index, shape: tuple[int, int]) -> Array:
    """The inverse of :func:`_pack`: a packed block as a dense array of the given shape, padded with zeros."""
    row = jnp.arange(shape[0], dtype=jnp.int32)[:, None]
    column = jnp.arange(shape[1], dtype=jnp.int32)[None]
    inside = (row < rows) & (column < columns)
    return jnp.where(inside, packed[jnp.where(inside, row * columns + column, 0)], jnp.zeros_like(packed, shape=shape))


@partial(jax.jit, static_argnums=(0, 1))
def _compute(
    operation: ComputeType, compat: bool, articulation: Articulation, state: State, indices: Array, counts: _Counts
) -> Any:
    articulation, state = jax.tree.map(lambda leaf: leaf[indices], (articulation, state))
    blocks = vmap_in_blocks(partial(_block, operation, compat))(articulation, state, counts)
    if operation is ComputeType.CENTROIDAL_MOMENTUM_MATRICES:
        return jnp.concatenate([region.reshape(-1) for region in blocks])
    return blocks


def _block(operation: ComputeType, compat: bool, articulation: Articulation, state: State, counts: _Counts) -> Any:
    """One articulation's block."""
    tree = articulation.topology
    wide, columns, n = tree.num_dofs + 6, counts.columns, counts.dofs
    # A fixed-base member of a fleet with floating bases has no root entries: skip those of the padded vectors.
    skip = tree.num_base_dofs - counts.root
    clipped, unscaled = state, articulation
    if compat:
        clipped = state.replace(joint_velocity=jnp.minimum(state.joint_velocity, articulation.max_joint_velocity))
        unscaled = articulation.replace(gravity_scale=jnp.ones_like(articulation.gravity_scale))

    def vector(dense: Array) -> Array:
        return _pack(dense[None], 1, columns, (0, skip), wide)

    match operation:
        case ComputeType.UPDATE_KINEMATIC:
            links = forward_kinematics(articulation, state)
            return LinkKinematics(to_transform(links.pose), links.velocity[:, :3], links.velocity[:, 3:])
        case ComputeType.DENSE_JACOBIANS:
            rows = dense_jacobian(articulation, state)
            return _pack(rows, counts.jacobian_rows, columns, (skip, skip), wide * 6 * tree.num_links)
        case ComputeType.MASS_MATRICES:
            return _pack(mass_matrix(articulation, state), columns, columns, (skip, skip), wide * wide)
        case ComputeType.CORIOLIS_AND_CENTRIFUGAL_COMPENSATION:
            return vector(coriolis_compensation(articulation, clipped))
        case ComputeType.GRAVITY_COMPENSATION:
            return vector(gravity_compensation(unscaled, state))
        case ComputeType.ARTICULATION_COMS_WORLD_FRAME:
            return center_of_mass(articulation, state, "world")
        case ComputeType.ARTICULATION_COMS_ROOT_FRAME:
            return center_of_mass(articulation, state, "root")
        case ComputeType.GENERALIZED_MASS_MATRICES:
            return _pack(generalized_mass_matrix(articulation, state), n, n, (0, 0), tree.num_dofs**2)
        case ComputeType.GENERALIZED_GRAVITY_FORCES:
            return generalized_gravity_force(articulation, state, physx_compat=compat)
        case ComputeType.CORIOLIS_AND_CENTRIFUGAL_FORCES:
            return coriolis_and_centrifugal_force(articulation, clipped)
        case ComputeType.CENTROIDAL_MOMENTUM_MATRICES:
            matrix, bias = centroidal_momentum_matrix(articulation, clipped)
            regions = (
                _pack(mass_matrix(articulation, state), columns, columns, (skip, skip), wide * wide),
                vector(coriolis_compensation(articulation, clipped)),
                _pack(matrix, 6, columns, (0, skip), 6 * wide),
                bias,
            )
            return tuple(jnp.where(counts.root > 0, region, jnp.zeros_like(region)) for region in regions)


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
