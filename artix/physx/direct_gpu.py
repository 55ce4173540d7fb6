"""A fleet in a scene, and the compute calls of PhysX's direct-GPU API on it, in PhysX's exact
buffer layout.

Block k of every result belongs to ``indices[k]``. The fleet's maxima set the stride of the blocks.
Within its block, an articulation's matrix is packed with its own number of columns; the rest is
zero (PhysX leaves it untouched).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
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
from artix.fleet.kinds import widths_of_state
from artix.kinematics.frames import forward_kinematics
from artix.math import struct
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology
from artix.physx.enums import ArticulationGPUAPIComputeType as ComputeType
from artix.physx.enums import of_type
from artix.physx.generalized import (
    coriolis_and_centrifugal_force,
    dense_jacobian,
    generalized_gravity_force,
    generalized_mass_matrix,
)
from artix.physx.simulation import ArticulationSimulation, check_in_scene

Array = jax.Array


class Part(NamedTuple):
    """The listed blocks of a buffer that belong to one kind."""

    topology: Topology
    blocks: np.ndarray
    """Their places among the listed indices."""
    rows: np.ndarray
    """Their members' places in the batch of the kind."""


def parts_of(fleet: Fleet, indices: np.ndarray) -> list[Part]:
    """For each kind of a fleet, which of the blocks listed by the indices of members belong to
    it.
    """
    parts = []
    for members in fleet.kinds:
        blocks = np.flatnonzero(np.isin(indices, members))
        parts.append(
            Part(fleet.topologies[members[0]], blocks, np.searchsorted(members, indices[blocks]))
        )
    return parts


def in_order(parts: Sequence[Part], blocks_of_kind: Callable[[int], Any]) -> Any:
    """The blocks of all kinds in the order of the listed indices.

    Args:
      parts: the blocks of each kind.
      blocks_of_kind: the blocks of a kind, a pytree of arrays [blocks of the kind, ...]; not called
        without need, since each call compiles.
    """
    listed = [number for number, part in enumerate(parts) if len(part.blocks)] or [0]
    results = [blocks_of_kind(number) for number in listed]
    order = np.argsort(np.concatenate([parts[number].blocks for number in listed]))
    return jax.tree.map(
        lambda *leaves: leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)[order], *results
    )


@dataclasses.dataclass(frozen=True)
class ArticulationGPUAPIMaxCounts:
    """``PxArticulationGPUAPIMaxCounts``: the maxima over a fleet that set the strides of the
    direct-GPU buffers.

    Attributes:
      max_dofs: joint degrees of freedom.
      max_links: links.
      max_fixed_tendons: fixed tendons.
      max_fixed_tendon_joints: joints of one fixed tendon, including its root, as PhysX counts.
      max_spatial_tendons: spatial tendons.
      max_spatial_tendon_attachments: attachments of one spatial tendon.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> counts = physx.get_articulation_gpu_api_max_counts(fleet)
      >>> print(counts == physx.ArticulationGPUAPIMaxCounts(max_dofs=7, max_links=9))
      True
    """

    max_dofs: int
    max_links: int
    max_fixed_tendons: int = 0
    max_fixed_tendon_joints: int = 0
    max_spatial_tendons: int = 0
    max_spatial_tendon_attachments: int = 0


def get_articulation_gpu_api_max_counts(fleet: Fleet) -> ArticulationGPUAPIMaxCounts:
    """``PxScene::getArticulationGPUAPIMaxCounts``: the fleet's maxima.

    Args:
      fleet: the articulations of the scene.

    Returns:
      The counts.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> counts = physx.get_articulation_gpu_api_max_counts(fleet)
      >>> print(counts.max_dofs, counts.max_links)
      7 9
    """
    topologies = set(fleet.topologies)
    fixed = [tendon for topology in topologies for tendon in topology.fixed_tendons]
    spatial = [tendon for topology in topologies for tendon in topology.spatial_tendons]
    return ArticulationGPUAPIMaxCounts(
        max_dofs=fleet.num_dofs,
        max_links=fleet.num_links,
        max_fixed_tendons=max(len(topology.fixed_tendons) for topology in topologies),
        max_fixed_tendon_joints=max((1 + len(tendon.dofs) for tendon in fixed), default=0),
        max_spatial_tendons=max(len(topology.spatial_tendons) for topology in topologies),
        max_spatial_tendon_attachments=max((len(tendon.links) for tendon in spatial), default=0),
    )


class FleetSimulation(struct.PyTreeNode):
    """The members of a fleet of several topologies in one scene; see
    :func:`create_fleet_simulation`.

    Attributes:
      kinds: the simulations of each topology in one batch, with a leading axis of the members of
        this kind.
      members: the numbers of these members in the fleet, as ``fleet.kinds`` lists them; static.
      num_dofs: the fleet's largest number of joint DOFs; static.

    Examples:
      >>> from artix import physx
      >>> fleet = artix.Fleet(
      ...     [artix.robots.load("cart_pole"), artix.robots.load("double_pendulum")] * 2
      ... )
      >>> scene = physx.create_fleet_simulation(fleet)
      >>> scene = scene.map(lambda one: physx.simulate(one, 1 / 240))
      >>> print(scene.members, scene.state.joint_position.shape)
      ((0, 2), (1, 3)) (4, 2)
    """

    kinds: tuple[ArticulationSimulation, ...]
    members: tuple[tuple[int, ...], ...] = struct.field(pytree_node=False)
    num_dofs: int = struct.field(pytree_node=False)

    def map(
        self, function: Callable[[ArticulationSimulation], ArticulationSimulation]
    ) -> FleetSimulation:
        """Applies a function of one articulation's simulation, such as :func:`simulate`, to all
        members.

        Args:
          function: returns the changed simulation.
        """
        return self.replace(kinds=tuple(jax.vmap(function)(kind) for kind in self.kinds))

    @property
    def state(self) -> State:
        """The state of the fleet, leading axis N."""
        order = np.argsort(np.concatenate(self.members))

        def joined(name: str, width: int) -> Array:
            parts = [getattr(kind.state, name) for kind in self.kinds]
            return jnp.concatenate([pad_to(part, (width,)) for part in parts])[order]

        return State(
            **{name: joined(name, width) for name, width in widths_of_state(self.num_dofs).items()}
        )


#: What the direct-GPU calls accept. A fleet of one topology has its members' simulations in one
#: batch.
AnyFleetSimulation: TypeAlias = ArticulationSimulation | FleetSimulation


def simulations_of_kinds(simulation: AnyFleetSimulation) -> tuple[ArticulationSimulation, ...]:
    """The simulations of each kind."""
    return simulation.kinds if isinstance(simulation, FleetSimulation) else (simulation,)


def with_kinds(simulation: AnyFleetSimulation, kinds: Sequence[ArticulationSimulation]) -> Any:
    """The same scene with other simulations of each kind."""
    return (
        simulation.replace(kinds=tuple(kinds))
        if isinstance(simulation, FleetSimulation)
        else kinds[0]
    )


def state_of_members(topology: Topology, state: State, members: np.ndarray) -> State:
    """The state of some members of one topology, out of the fleet's state."""
    state = jax.tree.map(lambda leaf: leaf[members], state)
    joints = slice(topology.num_dofs)
    return state.replace(
        joint_position=state.joint_position[:, joints],
        joint_velocity=state.joint_velocity[:, joints],
    )


def pad_to(rows: Array, shape: Sequence[int]) -> Array:
    """Rows of arrays, [m, ...], with zeros at the end of each axis up to this shape,
    [m, *shape].
    """
    return jnp.pad(
        rows,
        [(0, 0), *((0, size - length) for length, size in zip(rows.shape[1:], shape, strict=True))],
    )


def check_indices(fleet: Fleet, indices: npt.ArrayLike, *, distinct: bool = False) -> np.ndarray:
    """The indices of articulations as an array [nb], checked before anything is traced.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not a list of concrete integers.
      ValueError: ``distinct`` and an index appears twice.
    """
    try:
        array = np.asarray(indices)
    except jax.errors.JAXTypeError:
        raise TypeError(
            "indices must be known when the call is traced, so that they can be checked; pass a "
            "list or a NumPy array that is not an argument of jax.jit, or a tuple listed in "
            "static_argnums"
        ) from None
    if array.size == 0 and array.ndim == 1:
        return array.astype(np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"indices must be a list of integers; found shape {array.shape}, dtype {array.dtype}"
        )
    bad = array[(array < 0) | (array >= fleet.num_members)]
    if bad.size:
        raise IndexError(f"indices must lie in [0, {fleet.num_members}); found {bad.tolist()[:8]}")
    numbers, counts = np.unique(array, return_counts=True)
    if distinct and np.any(counts > 1):
        raise ValueError(
            f"indices to write must be distinct; found {numbers[counts > 1].tolist()[:8]} more "
            "than once"
        )
    return array.astype(np.int32)


def check_state(fleet: Fleet, state: State) -> None:
    """Raises ``ValueError`` or ``TypeError`` unless the arrays of a state have a row for each
    member of the fleet.
    """
    _check_widths(
        state, fleet.num_members, fleet.num_dofs, fleet.dtype, "a row for each member of the fleet"
    )


def check_simulation(fleet: Fleet, simulation: AnyFleetSimulation) -> None:
    """Raises ``ValueError`` or ``TypeError`` unless the simulations are the fleet's."""
    if not isinstance(simulation, FleetSimulation):
        check_in_scene(simulation)
    simulations = simulations_of_kinds(simulation)
    expected = [(len(members), fleet.topologies[members[0]]) for members in fleet.kinds]
    batches = [
        (len(one.state.root_pose), one.topology)
        for one in simulations
        if one.state.root_pose.ndim == 2
    ]
    if batches != expected:
        shapes = [one.state.joint_position.shape for one in simulations]
        raise ValueError(
            "the simulation is not that of the fleet: joint positions of its kinds must have the "
            f"shapes {[(count, topology.num_dofs) for count, topology in expected]}, found "
            f"{shapes}; create it with artix.physx.create_fleet_simulation(fleet)"
        )
    for one in simulations:
        rows = len(one.state.root_pose)
        _check_widths(
            one.state, rows, one.topology.num_dofs, fleet.dtype, "a row for each member of the kind"
        )


def _check_widths(state: State, rows: int, dofs: int, dtype: Any, meaning: str) -> None:
    for name, width in widths_of_state(dofs).items():
        check_vector(f"state.{name}", getattr(state, name), (rows, width), dtype, meaning)


# --- what is computed ---------------------------------------------------------------------------


def to_transform(pose: jax.Array) -> jax.Array:
    """Poses [..., 7] with the quaternion first, as ``PxTransform``."""
    return jnp.concatenate([pose[..., 3:], pose[..., :3]], axis=-1)


Index: TypeAlias = jax.Array | np.ndarray | int


class LinkKinematics(NamedTuple):
    """The data that ``eUPDATE_KINEMATIC`` refreshes, in the layout of PhysX's read calls; padded
    links are zero.

    Attributes:
      link_global_pose: world poses of the link frames as ``PxTransform``, quaternion xyzw first,
        then position [m], shape [nb, maxLinks, 7].
      link_linear_velocity: velocities of the links' centres of mass [m/s], world axes, shape
        [nb, maxLinks, 3].
      link_angular_velocity: angular velocities of the links [rad/s], world axes, shape
        [nb, maxLinks, 3].

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIComputeType as Compute
      >>> fleet = artix.Fleet([artix.robots.load("cart_pole")] * 2)
      >>> links = physx.compute_articulation_data(
      ...     fleet, fleet.neutral_state(), [0, 1], Compute.UPDATE_KINEMATIC
      ... )
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
      physx_compat: whether to reproduce PhysX 5.6.1 where it departs from its documentation:
        gravity compensation ignores ``gravity_scale``, velocities above ``max_joint_velocity`` are
        clipped in the Coriolis entries, and the deprecated gravity entry of a floating base is that
        of :func:`~artix.physx.generalized.generalized_gravity_force`.

    Returns:
      With D = maxDofs and K = maxLinks, in the units and axes of the functions on caches
      (:func:`compute_mass_matrix` and so on):

      * ``UPDATE_KINEMATIC``: a :class:`LinkKinematics`.
      * ``DENSE_JACOBIANS``: [nb, (6 + D) (6 + 6 (K - 1))], packed with the articulation's own
        column count.
      * ``MASS_MATRICES``: [nb, (D + 6)^2], packed with stride n (fixed base) or n + 6.
      * ``CORIOLIS_AND_CENTRIFUGAL_COMPENSATION``, ``GRAVITY_COMPENSATION``: [nb, D + 6]; six root
        entries first for a floating base, joints from entry 0 for a fixed one.
      * ``ARTICULATION_COMS_WORLD_FRAME``, ``ARTICULATION_COMS_ROOT_FRAME``: [nb, 3].
      * ``CENTROIDAL_MOMENTUM_MATRICES``: one flat buffer of four consecutive regions,
        [nb (D + 6)^2] mass matrices, [nb (D + 6)] Coriolis compensation, [nb 6 (D + 6)] momentum
        matrices with stride n + 6, [nb 6] biases; zero for a fixed base. PhysX expects the caller
        to have filled the first two regions; here they are computed.
      * ``GENERALIZED_MASS_MATRICES``: [nb, D^2] with stride n; ``GENERALIZED_GRAVITY_FORCES`` and
        ``CORIOLIS_AND_CENTRIFUGAL_FORCES``: [nb, D] (all deprecated).

      :func:`unpack_articulation_data` turns any of them into dense arrays.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not integers, ``operation`` is a type of data, or the state has
        another dtype than the fleet.
      ValueError: the state or the simulation belongs to another fleet.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIComputeType as Compute
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> blocks = physx.compute_articulation_data(
      ...     fleet, fleet.neutral_state(), [1, 0], Compute.MASS_MATRICES
      ... )
      >>> print(blocks.shape)  # (7 + 6)^2 numbers each, those of the pole at the front
      (2, 169)
    """
    operation = of_type(ComputeType, "operation", operation)
    indices = check_indices(fleet, indices)
    parts = parts_of(fleet, indices)
    if isinstance(state, ArticulationSimulation | FleetSimulation):
        check_simulation(fleet, state)
        kinds = [(kind.articulation, kind.state) for kind in simulations_of_kinds(state)]
    else:
        check_state(fleet, state)
        states = [
            state_of_members(fleet.topologies[members[0]], state, members)
            for members in fleet.kinds
        ]
        kinds = list(zip(fleet.articulations, states, strict=True))
    maxima = get_articulation_gpu_api_max_counts(fleet)
    joined = in_order(
        parts, lambda k: _compute(operation, physx_compat, maxima, *kinds[k], parts[k].rows)
    )
    if operation is ComputeType.CENTROIDAL_MOMENTUM_MATRICES:
        return jnp.concatenate([region.reshape(-1) for region in joined])
    return joined


def unpack_articulation_data(
    fleet: Fleet, data: Array, indices: npt.ArrayLike, operation: ComputeType
) -> Any:
    """Unpacks the blocks of :func:`compute_articulation_data` into dense arrays.

    Args:
      fleet: the fleet passed to ``compute_articulation_data``.
      data: its result.
      indices: the indices passed to it.
      operation: the operation passed to it.

    Returns:
      Arrays with each articulation's own layout in the leading corner and zeros beyond: Jacobians
      [nb, 6 K, 6 + D], mass matrices [nb, 6 + D, 6 + D] or [nb, D, D] (deprecated entry), the four
      arrays (M, c, A, bias) of the centroidal entry. All other results are dense already.

    Raises:
      IndexError: an index is not a member of the fleet.
      TypeError: the indices are not integers, or ``operation`` is a type of data.
      ValueError: the data has another shape than the result for these indices.

    Examples:
      >>> from artix import physx
      >>> from artix.physx import ArticulationGPUAPIComputeType as Compute
      >>> fleet = artix.Fleet([artix.robots.load("arm7"), artix.robots.load("cart_pole")])
      >>> blocks = physx.compute_articulation_data(
      ...     fleet, fleet.neutral_state(), [1], Compute.MASS_MATRICES
      ... )
      >>> dense = physx.unpack_articulation_data(fleet, blocks, [1], Compute.MASS_MATRICES)
      >>> print(dense.shape, dense[0, :2, :2])  # the pole's
      (1, 13, 13) [[1.2   0.1  ]
       [0.1   0.067]]
    """
    operation = of_type(ComputeType, "operation", operation)
    indices = check_indices(fleet, indices)
    maxima = get_articulation_gpu_api_max_counts(fleet)
    shape = _data_shape(operation, maxima, len(indices))
    if shape is not None and data.shape != shape:
        raise ValueError(
            f"data of {operation.name} for {len(indices)} indices: expected shape {shape}, found "
            f"{data.shape}"
        )
    return _unpack(operation, maxima, data, _counts(fleet, indices))


# --- packing ------------------------------------------------------------------------------------


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
        topology: (
            topology.nv,
            topology.num_dofs,
            6 * topology.num_links - (6 if topology.fixed_base else 0),
        )
        for topology in set(fleet.topologies)
    }
    rows = np.array([table[fleet.topologies[index]] for index in indices], np.int32).reshape(-1, 3)
    return _Counts(*rows.T)


def _data_shape(
    operation: ComputeType, maxima: ArticulationGPUAPIMaxCounts, blocks: int
) -> tuple[int, ...] | None:
    """The shape of a packed result for this number of blocks; ``None`` for results that are not
    packed.
    """
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
    """A block packed row by row, [rows, columns], as a dense array of the given shape, padded with
    zeros.
    """
    row = jnp.arange(shape[0], dtype=jnp.int32)[:, None]
    column = jnp.arange(shape[1], dtype=jnp.int32)[None]
    inside = (row < rows) & (column < columns)
    return jnp.where(
        inside,
        packed[jnp.where(inside, row * columns + column, 0)],
        jnp.zeros_like(packed, shape=shape),
    )


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
    dofs = maxima.max_dofs
    wide = dofs + 6
    clipped = state
    unscaled = articulation
    if compat:
        clipped = state.replace(
            joint_velocity=jnp.minimum(state.joint_velocity, articulation.max_joint_velocity)
        )
        unscaled = articulation.replace(gravity_scale=jnp.ones_like(articulation.gravity_scale))

    def packed(dense: Array, size: int) -> Array:
        """An array row by row, then zeros."""
        return jnp.pad(dense.reshape(-1), (0, size - dense.size))

    match operation:
        case ComputeType.UPDATE_KINEMATIC:
            links = forward_kinematics(articulation, state)
            kinematics = LinkKinematics(
                to_transform(links.pose), links.velocity[:, :3], links.velocity[:, 3:]
            )
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
            regions = (
                mass_matrix(articulation, state),
                coriolis_compensation(articulation, clipped),
                matrix,
                bias,
            )
            return tuple(map(packed, regions, sizes))


@partial(jax.jit, static_argnums=(0, 1))
def _unpack(
    operation: ComputeType, maxima: ArticulationGPUAPIMaxCounts, data: Array, counts: _Counts
) -> Any:
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
        widths = (wide * wide, wide, 6 * wide, 6)
        regions = jnp.split(data, np.cumsum([blocks * width for width in widths[:-1]]))
        mass, coriolis, matrix, bias = (
            region.reshape(blocks, width) for region, width in zip(regions, widths, strict=True)
        )
        six = jnp.full_like(columns, 6)
        return (
            jax.vmap(partial(_spread, shape=(wide, wide)))(mass, columns, columns),
            coriolis,
            jax.vmap(partial(_spread, shape=(6, wide)))(matrix, six, columns),
            bias,
        )
    return data
