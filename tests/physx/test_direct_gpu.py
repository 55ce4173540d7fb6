"""PhysX's direct-GPU compute calls: recorded numbers through a mixed fleet, and the packing against
plain NumPy loops."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import physx
from artix.physx import ArticulationGPUAPIComputeType as ComputeType
from tests.support import physx_mechanisms

TOLERANCE = 2e-6
TOLERANCE_GRAVITY = (
    5e-5  # the deprecated entry is a difference of large terms, mostly float32 noise around zero
)


@pytest.fixture(scope="module")
def fleet() -> artix.Fleet:
    """All 40 recorded mechanisms in one fleet: fixed, floating, every joint type."""
    return artix.Fleet([physx_mechanisms.build(name) for name in physx_mechanisms.NAMES])


@pytest.fixture(scope="module", params=[0, 3])
def sample(request: pytest.FixtureRequest) -> int:
    return request.param


def fleet_state(fleet: artix.Fleet, sample: int) -> artix.State:
    states = [
        jax.tree.map(lambda leaf: leaf[sample], physx_mechanisms.states(name))
        for name in physx_mechanisms.NAMES
    ]
    return fleet.stack_states(states)


def packed(dense: np.ndarray, size: int) -> np.ndarray:
    """What the documented layout says: row by row with the matrix's own column count, zeros up to
    the block's size."""
    block = np.zeros(size)
    position = 0
    for row in np.atleast_2d(dense):
        for value in row:
            block[position] = value
            position += 1
    return block


def assert_close(found, wanted, tolerance: float, what: str) -> None:
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    assert found.shape == wanted.shape, what
    assert np.max(np.abs(found - wanted)) <= tolerance * max(1.0, np.max(np.abs(wanted))), what


#: What was recorded of each entry.
RECORDED = {
    ComputeType.DENSE_JACOBIANS: "st_jacobian",
    ComputeType.MASS_MATRICES: "st_mass_matrix",
    ComputeType.CORIOLIS_AND_CENTRIFUGAL_COMPENSATION: "st_coriolis",
    ComputeType.GRAVITY_COMPENSATION: "st_gravity",
    ComputeType.ARTICULATION_COMS_WORLD_FRAME: "st_com_world",
    ComputeType.ARTICULATION_COMS_ROOT_FRAME: "st_com_root",
    ComputeType.GENERALIZED_MASS_MATRICES: "dep_mass_matrix",
    ComputeType.GENERALIZED_GRAVITY_FORCES: "dep_gravity",
    ComputeType.CORIOLIS_AND_CENTRIFUGAL_FORCES: "dep_coriolis",
}


def _one_of_each_tree() -> np.ndarray:
    """Members in no order, since each kind of member is compiled; the mechanisms' other features do
    not matter here."""
    trees = [physx_mechanisms.build(name).topology for name in physx_mechanisms.NAMES]
    shapes = [(tree.parent, tree.joint_types, tree.joint_axes, tree.fixed_base) for tree in trees]
    return np.random.default_rng(0).permutation(
        [shapes.index(shape) for shape in dict.fromkeys(shapes)]
    )


INDICES = _one_of_each_tree()


DEPRECATED = tuple(operation for operation, key in RECORDED.items() if key.startswith("dep_"))
CURRENT = tuple(operation for operation in RECORDED if operation not in DEPRECATED)


@functools.partial(jax.jit, static_argnums=(0, 1))
def compute(
    fleet: artix.Fleet, operations: tuple[ComputeType, ...], state: artix.State
) -> dict[str, jax.Array]:
    """Several entries in one program."""
    return {
        operation.name: physx.compute_articulation_data(
            fleet, state, INDICES, operation, physx_compat=True
        )
        for operation in operations
    }


@pytest.mark.slow
@pytest.mark.parametrize("operations", [CURRENT, DEPRECATED])
def test_recorded_blocks(
    fleet: artix.Fleet, operations: tuple[ComputeType, ...], sample: int
) -> None:
    """Every recorded static array, packed by hand, is the block that the call returns, in the order
    of the indices."""
    found = compute(fleet, operations, fleet_state(fleet, sample))
    maxima = physx.get_articulation_gpu_api_max_counts(fleet)
    wide, links = maxima.max_dofs + 6, maxima.max_links
    sizes = {
        ComputeType.DENSE_JACOBIANS: wide * (6 + 6 * (links - 1)),
        ComputeType.MASS_MATRICES: wide * wide,
        ComputeType.CORIOLIS_AND_CENTRIFUGAL_COMPENSATION: wide,
        ComputeType.GRAVITY_COMPENSATION: wide,
        ComputeType.ARTICULATION_COMS_WORLD_FRAME: 3,
        ComputeType.ARTICULATION_COMS_ROOT_FRAME: 3,
        ComputeType.GENERALIZED_MASS_MATRICES: maxima.max_dofs**2,
        ComputeType.GENERALIZED_GRAVITY_FORCES: maxima.max_dofs,
        ComputeType.CORIOLIS_AND_CENTRIFUGAL_FORCES: maxima.max_dofs,
    }
    for operation in operations:
        key, blocks, size = RECORDED[operation], found[operation.name], sizes[operation]
        assert blocks.shape == (len(INDICES), size), operation
        tolerance = TOLERANCE_GRAVITY if key == "dep_gravity" else TOLERANCE
        for block, index in zip(blocks, INDICES, strict=True):
            data = physx_mechanisms.recorded(physx_mechanisms.NAMES[index])
            # For a fixed base the deprecated matrix is the new one and was not recorded again.
            recorded = data.get(key, data["st_mass_matrix"])[sample]
            assert_close(
                block,
                packed(recorded, size),
                tolerance,
                f"{operation.name}, {physx_mechanisms.NAMES[index]}",
            )


@pytest.mark.slow
def test_centroidal_regions(fleet: artix.Fleet, sample: int) -> None:
    """The four regions follow each other in one buffer; blocks of fixed bases stay zero."""
    state = fleet_state(fleet, sample)
    indices = np.arange(len(fleet))[::-1]
    wide, count = physx.get_articulation_gpu_api_max_counts(fleet).max_dofs + 6, len(indices)
    data = physx.compute_articulation_data(
        fleet, state, indices, ComputeType.CENTROIDAL_MOMENTUM_MATRICES
    )
    sizes = (wide * wide, wide, 6 * wide, 6)
    assert data.shape == (count * sum(sizes),)
    regions = np.split(np.asarray(data), np.cumsum([count * size for size in sizes])[:-1])
    keys = ("st_mass_matrix", "st_coriolis", "st_centroidal_matrix", "st_centroidal_bias")
    floating = 0
    for key, size, region in zip(keys, sizes, regions, strict=True):
        for block, index in zip(region.reshape(count, size), indices, strict=True):
            name = physx_mechanisms.NAMES[index]
            if fleet.topologies[index].fixed_base:
                assert not np.any(block), (key, name)
            else:
                wanted = packed(physx_mechanisms.recorded(name)[key][sample], size)
                assert_close(block, wanted, TOLERANCE, f"{key}, {name}")
                floating += 1
    assert floating >= 4 * 5


@pytest.mark.slow
def test_update_kinematic(fleet: artix.Fleet, sample: int) -> None:
    """Poses come as PxTransform, quaternion first; velocities are of the centres of mass."""
    state = fleet_state(fleet, sample)
    indices = [7, 2, 2, 11]
    links = physx.compute_articulation_data(fleet, state, indices, ComputeType.UPDATE_KINEMATIC)
    for k, index in enumerate(indices):
        data = physx_mechanisms.recorded(physx_mechanisms.NAMES[index])
        n = fleet.topologies[index].num_links
        pose, velocity = data["st_link_pose"][sample], data["st_link_velocity"][sample]
        quaternion = np.asarray(links.link_global_pose[k, :n, :4])
        quaternion = quaternion * np.sign(np.sum(quaternion * pose[:, 3:], axis=1, keepdims=True))
        assert_close(quaternion, pose[:, 3:], TOLERANCE, "orientation")
        assert_close(links.link_global_pose[k, :n, 4:], pose[:, :3], TOLERANCE, "position")
        assert_close(links.link_linear_velocity[k, :n], velocity[:, :3], TOLERANCE, "linear")
        assert_close(links.link_angular_velocity[k, :n], velocity[:, 3:], TOLERANCE, "angular")
        assert not any(np.any(part[k, n:]) for part in links)


@pytest.mark.slow
def test_unpacking_inverts_the_packing(fleet: artix.Fleet) -> None:
    state = fleet_state(fleet, 0)
    indices = np.array([5, 0, 39, 12])
    evaluated = {
        ComputeType.DENSE_JACOBIANS: fleet.evaluate(artix.physx.dense_jacobian, state),
        ComputeType.MASS_MATRICES: fleet.evaluate(artix.mass_matrix, state),
    }
    for operation, dense in evaluated.items():
        data = physx.compute_articulation_data(fleet, state, indices, operation)
        views = np.asarray(physx.unpack_articulation_data(fleet, data, indices, operation))
        for view, index in zip(views, indices, strict=True):
            topology = fleet.topologies[index]
            skip = 6 - topology.num_base_dofs
            rows = 6 * (topology.num_links - (1 if topology.fixed_base else 0))
            rows = topology.nv if operation is ComputeType.MASS_MATRICES else rows
            wanted = np.zeros_like(view)
            wanted[:rows, : topology.nv] = dense[index][
                skip : skip + rows, skip : skip + topology.nv
            ]
            # Two compilations may round differently, by a unit in the last place; zeros stay zeros.
            np.testing.assert_allclose(view, wanted, rtol=1e-12, atol=1e-15)
            np.testing.assert_array_equal(view[rows:], 0.0)


@pytest.mark.slow
def test_defects_only_on_request() -> None:
    """By default a disabled gravity is honoured and velocities are not clipped."""
    name = "d_disable_gravity"
    articulation = physx_mechanisms.build(name).replace(
        max_joint_velocity=jnp.full(physx_mechanisms.build(name).topology.num_dofs, 1e-3)
    )
    fleet = artix.Fleet([articulation])
    state = fleet.stack_states([jax.tree.map(lambda leaf: leaf[0], physx_mechanisms.states(name))])
    operations = (
        ComputeType.GRAVITY_COMPENSATION,
        ComputeType.CORIOLIS_AND_CENTRIFUGAL_COMPENSATION,
        ComputeType.GENERALIZED_GRAVITY_FORCES,
    )

    @jax.jit
    def both(state):
        blocks = {
            operation.name: [
                physx.compute_articulation_data(fleet, state, [0], operation, physx_compat=compat)[
                    0
                ]
                for compat in (False, True)
            ]
            for operation in operations
        }
        one = jax.tree.map(lambda leaf: leaf[0], state)
        return (
            blocks,
            artix.gravity_compensation(articulation, one),
            artix.coriolis_compensation(articulation, one),
        )

    blocks, gravity, coriolis = both(state)
    for name, (right, compatible) in blocks.items():
        assert np.max(np.abs(right - compatible)) > 1e-3, name
    np.testing.assert_allclose(blocks["GRAVITY_COMPENSATION"][0], gravity, atol=1e-12)
    np.testing.assert_allclose(
        blocks["CORIOLIS_AND_CENTRIFUGAL_COMPENSATION"][0], coriolis, atol=1e-12
    )


def test_bad_indices_are_refused_before_anything_is_traced(fleet: artix.Fleet) -> None:
    state = fleet.neutral_state()
    for bad in ([40], [-1, 0]):
        with pytest.raises(IndexError, match=r"indices must lie in \[0, 40\)"):
            physx.compute_articulation_data(fleet, state, bad, ComputeType.MASS_MATRICES)
    for bad in ([0.5], [[0]], [True]):
        with pytest.raises(TypeError, match="list of integers"):
            physx.compute_articulation_data(fleet, state, bad, ComputeType.MASS_MATRICES)


def test_states_and_data_of_another_fleet_are_refused(fleet: artix.Fleet) -> None:
    """Else a gather beyond the end would silently repeat the last member."""
    state, operation = fleet.neutral_state(), ComputeType.MASS_MATRICES
    for name, bad, error in (
        ("root_pose", state.root_pose[:39], ValueError),
        ("joint_position", state.joint_position[:, :-1], ValueError),
        ("joint_velocity", state.joint_velocity.astype("float32"), TypeError),
    ):
        with pytest.raises(error, match=f"state.{name}: expected"):
            physx.compute_articulation_data(fleet, state.replace(**{name: bad}), [0], operation)
    pair = artix.Fleet([physx_mechanisms.build("a_pendulum1")] * 2)
    with pytest.raises(ValueError, match="the simulation is not that of the fleet"):
        physx.compute_articulation_data(fleet, physx.create_fleet_simulation(pair), [0], operation)
    sizes = {  # One DOF and two links, two blocks.
        ComputeType.DENSE_JACOBIANS: (2, 7 * 12),
        ComputeType.MASS_MATRICES: (2, 49),
        ComputeType.GENERALIZED_MASS_MATRICES: (2, 1),
        ComputeType.CENTROIDAL_MOMENTUM_MATRICES: (2 * (49 + 7 + 42 + 6),),
    }
    for operation, (*blocks, size) in sizes.items():
        with pytest.raises(
            ValueError,
            match=rf"data of {operation.name} for 2 indices: expected shape \(.*{size},?\)",
        ):
            physx.unpack_articulation_data(pair, jnp.zeros((*blocks, size + 1)), [0, 1], operation)


def test_a_type_of_data_is_no_operation(fleet: artix.Fleet) -> None:
    """``JOINT_POSITION`` has the number of ``UPDATE_KINEMATIC``."""
    read, state = physx.ArticulationGPUAPIReadType.JOINT_POSITION, fleet.neutral_state()
    for refused in (
        lambda: physx.compute_articulation_data(fleet, state, [0], read),  # type: ignore[arg-type]
        lambda: physx.unpack_articulation_data(fleet, jnp.zeros(1), [0], read),  # type: ignore[arg-type]
    ):
        with pytest.raises(
            TypeError, match="operation: expected ArticulationGPUAPIComputeType, found <Art"
        ):
            refused()


def test_enumeration_has_the_values_of_physx() -> None:
    assert [entry.value for entry in ComputeType] == list(range(11))
    assert ComputeType.MASS_MATRICES == 5
    assert ComputeType.CENTROIDAL_MOMENTUM_MATRICES == 10


def test_no_blocks_unpack_to_no_blocks(fleet: artix.Fleet) -> None:
    """Also those of the buffer with four regions, which divided by their number."""
    for operation in (ComputeType.MASS_MATRICES, ComputeType.CENTROIDAL_MOMENTUM_MATRICES):
        blocks = physx.compute_articulation_data(fleet, fleet.neutral_state(), [], operation)
        dense = physx.unpack_articulation_data(fleet, blocks, [], operation)
        assert {len(part) for part in jax.tree.leaves(dense)} == {0}
