"""The state buffers of PhysX's direct-GPU API, against a packing in plain NumPy written from the
documented layout."""

from __future__ import annotations

import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Attachment, FixedTendon, SpatialTendon, TendonJoint, physx
from artix.physx import ArticulationGPUAPIComputeType as ComputeType
from artix.physx import ArticulationGPUAPIReadType as ReadType
from artix.physx import ArticulationGPUAPIWriteType as WriteType
from tests.support.marks import slow_besides
from tests.support.models import random_pose, tree_of

#: Read type of each write type, as far as PhysX reads back what it writes.
READ_BACK = {
    WriteType.JOINT_POSITION: ReadType.JOINT_POSITION,
    WriteType.JOINT_VELOCITY: ReadType.JOINT_VELOCITY,
    WriteType.JOINT_FORCE: ReadType.JOINT_FORCE,
    WriteType.JOINT_TARGET_VELOCITY: ReadType.JOINT_TARGET_VELOCITY,
    WriteType.JOINT_TARGET_POSITION: ReadType.JOINT_TARGET_POSITION,
    WriteType.ROOT_GLOBAL_POSE: ReadType.ROOT_GLOBAL_POSE,
    WriteType.ROOT_LINEAR_VELOCITY: ReadType.ROOT_LINEAR_VELOCITY,
    WriteType.ROOT_ANGULAR_VELOCITY: ReadType.ROOT_ANGULAR_VELOCITY,
}
JOINTS = [write for write in READ_BACK if write.name.startswith("JOINT")]


def _tree(dofs: int, *, fixed_base: bool, seed: int) -> artix.Articulation:
    """A random tree with this number of DOFs."""
    rng = np.random.default_rng(seed)
    kinds: list[str] = []
    left = dofs
    while left:
        kind = str(
            rng.choice(["revolute_swing1", "prismatic_y", "spherical_12", "spherical_012", "fixed"])
        )
        count = {"spherical_12": 2, "spherical_012": 3, "fixed": 0}.get(kind, 1)
        if count <= left:
            kinds.append(kind)
            left -= count
    parents = [int(rng.integers(max(0, k - 4), k + 1)) for k in range(len(kinds))]
    if not kinds:
        kinds, parents = ["fixed"], [0]
    return tree_of(kinds, parents, fixed_base=fixed_base, seed=seed, dtype="float32")


@pytest.fixture(
    scope="module",
    params=[0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(1, 5))],
)
def fleet(request) -> artix.Fleet:
    """Random fixed and floating trees of 0 to 40 DOFs, in no order."""
    rng = np.random.default_rng(request.param)
    sizes = rng.permutation([0, 40, *rng.integers(1, 30, 5)])
    fixed = rng.permutation([True] * 3 + [False] * 4)
    return artix.Fleet(
        [
            _tree(int(n), fixed_base=bool(f), seed=7 * request.param + k)
            for k, (n, f) in enumerate(zip(sizes, fixed, strict=True))
        ]
    )


@pytest.fixture(scope="module")
def simulation(fleet: artix.Fleet) -> physx.FleetSimulation:
    """The fleet in a scene with random numbers in all arrays."""
    simulation = physx.create_fleet_simulation(fleet, fleet.random_state(jax.random.key(0)))
    rng = np.random.default_rng(1)

    def randomized(kind: physx.ArticulationSimulation) -> physx.ArticulationSimulation:
        fill = lambda x: jnp.asarray(rng.normal(size=x.shape), x.dtype)  # noqa: E731
        names = ("joint_force", "drive_target", "drive_target_velocity", "external_force")
        loads = {name: fill(getattr(kind, name)) for name in names}
        seen = ("joint_acceleration", "link_velocity", "link_acceleration", "incoming_joint_force")
        report = kind.report.replace(**{name: fill(getattr(kind.report, name)) for name in seen})
        return kind.replace(report=report, **loads)

    return simulation.replace(kinds=tuple(map(randomized, simulation.kinds)))


def _of_member(simulation: physx.FleetSimulation, index: int) -> physx.ArticulationSimulation:
    """The simulation of one member, as NumPy arrays."""
    ((kind, row),) = (
        (kind, members.index(index))
        for kind, members in zip(simulation.kinds, simulation.members, strict=True)
        if index in members
    )
    return jax.tree.map(lambda leaf: np.asarray(leaf[row]), kind)


def _member(simulation: physx.FleetSimulation, index: int) -> dict[ReadType, np.ndarray]:
    """What PhysX documents of each read type of one member, by arrays and loops."""
    one = _of_member(simulation, index)
    report = one.report
    return {
        ReadType.JOINT_POSITION: one.state.joint_position,
        ReadType.JOINT_VELOCITY: one.state.joint_velocity,
        ReadType.JOINT_ACCELERATION: report.joint_acceleration,
        ReadType.JOINT_FORCE: one.joint_force,
        ReadType.JOINT_TARGET_VELOCITY: one.drive_target_velocity,
        ReadType.JOINT_TARGET_POSITION: one.drive_target,
        ReadType.ROOT_GLOBAL_POSE: np.array(
            [one.state.root_pose[k] for k in (3, 4, 5, 6, 0, 1, 2)], "f4"
        ),
        ReadType.ROOT_LINEAR_VELOCITY: one.state.root_velocity[:3],
        ReadType.ROOT_ANGULAR_VELOCITY: one.state.root_velocity[3:],
        ReadType.LINK_LINEAR_ACCELERATION: report.link_acceleration[:, :3].ravel(),
        ReadType.LINK_ANGULAR_ACCELERATION: report.link_acceleration[:, 3:].ravel(),
        ReadType.LINK_INCOMING_JOINT_FORCE: report.incoming_joint_force.ravel(),
    }


def _padded(blocks: list[np.ndarray], size: int) -> np.ndarray:
    buffer = np.zeros(len(blocks) * size, "f4")
    for k, block in enumerate(blocks):
        for place, value in enumerate(block):
            buffer[k * size + place] = value
    return buffer


@pytest.mark.slow
def test_reading_is_bit_exact(fleet, simulation) -> None:
    indices = [5, 2, 2, 1, 0]
    members = [_member(simulation, index) for index in indices]
    for kind in members[0]:
        data = np.asarray(physx.get_articulation_data(fleet, simulation, indices, kind))
        size = int(np.prod(data.shape[1:]))
        assert data.tobytes() == _padded([member[kind] for member in members], size).tobytes(), (
            kind.name
        )


@pytest.mark.slow
def test_links_are_where_the_state_puts_them(fleet, simulation) -> None:
    indices = [3, 2, 4]
    read = {
        kind: np.asarray(physx.get_articulation_data(fleet, simulation, indices, kind))
        for kind in (
            ReadType.LINK_GLOBAL_POSE,
            ReadType.LINK_LINEAR_VELOCITY,
            ReadType.LINK_ANGULAR_VELOCITY,
        )
    }
    links = physx.compute_articulation_data(
        fleet, simulation, indices, ComputeType.UPDATE_KINEMATIC
    )
    for found, wanted in zip(read.values(), links, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6 * np.max(np.abs(wanted)))
    root = physx.get_articulation_data(fleet, simulation, indices, ReadType.ROOT_GLOBAL_POSE)
    np.testing.assert_allclose(read[ReadType.LINK_GLOBAL_POSE][:, 0], root, atol=1e-6)
    for k, index in enumerate(indices):
        n = fleet.topologies[index].num_links
        assert not any(np.any(data[k, n:]) for data in read.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "write",
    slow_besides(
        [WriteType.JOINT_POSITION, WriteType.JOINT_FORCE, WriteType.ROOT_GLOBAL_POSE], READ_BACK
    ),
)
def test_writing_and_reading_back_is_bit_exact(fleet, simulation, write) -> None:
    """Padding in the data is ignored, members that are not listed stay, and so does everything
    else."""
    indices = [6, 0, 2, 1]
    read = READ_BACK[write]
    before = physx.get_articulation_data(fleet, simulation, range(len(fleet)), read)
    data = jnp.asarray(
        np.random.default_rng(7).normal(size=(len(indices), before.shape[1])), "float32"
    )
    after = physx.set_articulation_data(fleet, simulation, data, indices, write)
    wanted = np.array(before)
    for block, index in enumerate(indices):
        own = fleet.topologies[index].num_dofs if write in JOINTS else before.shape[1]
        for place in range(own):
            wanted[index, place] = data[block, place]
    found = physx.get_articulation_data(fleet, after, range(len(fleet)), read)
    assert np.asarray(found).tobytes() == wanted.tobytes()
    back = physx.set_articulation_data(fleet, after, before, range(len(fleet)), write)
    assert all(
        np.array_equal(x, y)
        for x, y in zip(jax.tree.leaves(back), jax.tree.leaves(simulation), strict=True)
    )


def test_a_fleet_of_one_topology(tendons) -> None:
    """Without padding the blocks are the members' arrays; the same calls under jit."""
    fleet = artix.Fleet([_with_tendons(seed=0, fixed=2, spatial=True)] * 3)
    simulation = physx.create_fleet_simulation(fleet, fleet.random_state(jax.random.key(1)))
    assert simulation.options.solver == "pgs"
    data = jnp.asarray(np.random.default_rng(2).normal(size=(2, 6)), "float32")

    @jax.jit
    def write_and_read(simulation, data):
        after = physx.set_articulation_data(
            fleet, simulation, data, [2, 0], WriteType.JOINT_TARGET_POSITION
        )
        return after, physx.get_articulation_data(
            fleet, after, [0, 1, 2], ReadType.JOINT_TARGET_POSITION
        )

    after, found = write_and_read(simulation, data)
    np.testing.assert_array_equal(found, [data[1], simulation.drive_target[1], data[0]])
    np.testing.assert_array_equal(after.drive_target, found)
    mixed = tendons[0].articulations[0].fixed_tendons
    read = physx.get_articulation_data(fleet, simulation, [1], ReadType.FIXED_TENDON)
    np.testing.assert_array_equal(read.stiffness[0], mixed.stiffness[0])
    np.testing.assert_array_equal(read.high_limit[0], mixed.upper_limit[0])


def test_joint_data(fleet) -> None:
    """Reduced joint data of a DOF is at its axis among the six of its joint."""
    for index in (0, 2):
        one, topology = fleet.member(index), fleet.topologies[index]
        reduced = np.random.default_rng(0).normal(size=topology.num_dofs).astype("f4")
        full = np.asarray(physx.unpack_joint_data(one, jnp.asarray(reduced)))
        np.testing.assert_array_equal(physx.pack_joint_data(one, jnp.asarray(full)), reduced)
        wanted = np.zeros(full.shape, "f4")
        dof = 0
        for link, axes in enumerate(topology.joint_axes):
            for axis in axes:
                wanted[6 * (link - 1) + int(axis)] = reduced[dof]
                dof += 1
        np.testing.assert_array_equal(full, wanted)


@pytest.mark.parametrize(
    ("write", "part"), [(WriteType.LINK_FORCE, slice(0, 3)), (WriteType.LINK_TORQUE, slice(3, 6))]
)
def test_forces_on_links(fleet, simulation, write, part) -> None:
    """They arrive where a step takes them from, the other half stays, padding is ignored."""
    data = np.random.default_rng(3).normal(size=(2, fleet.num_links, 3)).astype("f4")
    loaded = physx.set_articulation_data(fleet, simulation, jnp.asarray(data), [5, 1], write)
    for index in range(len(fleet)):
        wanted, links = (
            _of_member(simulation, index).external_force.copy(),
            fleet.topologies[index].num_links,
        )
        if index in (5, 1):
            wanted[:, part] = data[(5, 1).index(index), :links]
        assert _of_member(loaded, index).control.external_force.tobytes() == wanted.tobytes()


@pytest.mark.slow
def test_updated_kinematics_forget_the_last_step(fleet, simulation) -> None:
    cleared = physx.update_articulation_kinematics(fleet, simulation, [4, 1])
    for index in range(len(fleet)):
        old, new = _of_member(simulation, index).report, _of_member(cleared, index).report
        if index in (1, 4):
            assert new.is_finite and new.is_solved
            new = new.replace(is_finite=0 * new.is_finite, is_solved=0 * new.is_solved)
        for leaf, other in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True):
            np.testing.assert_array_equal(other, 0 * leaf if index in (1, 4) else leaf)
    assert np.any(_of_member(simulation, 4).report.link_acceleration)
    np.testing.assert_array_equal(cleared.state.joint_position, simulation.state.joint_position)


def _with_tendons(*, seed: int, fixed: int, spatial: bool) -> artix.Articulation:
    """A star of three chains of two joints with fixed tendons that branch, and a spatial tendon
    listed depth-first."""
    rng = np.random.default_rng(seed)
    builder = artix.ArticulationBuilder(fixed_base=True, name=f"tendons_{seed}")
    builder.add_link(mass=1.0, name="root")
    axes = [
        artix.Axis.TWIST,
        artix.Axis.SWING2,
        artix.Axis.SWING1,
        artix.Axis.TWIST,
        artix.Axis.SWING2,
        artix.Axis.SWING1,
    ]
    parents = [0, 0, 1, 1, 2, 3]
    for k, (axis, parent) in enumerate(zip(axes, parents, strict=True), start=1):
        joint = artix.Joint.revolute(axis, name=f"joint_{k}")
        builder.add_link(
            parent,
            joint,
            mass=1.0,
            com_pose=random_pose(rng),
            inertia=[1.0, 1.0, 1.0],
            name=f"link_{k}",
        )
    for k in range(fixed):
        numbers = rng.uniform(0.5, 2.0, 8)
        # Depth-first: joint 1, joint 3 below it, joint 6 below that, joint 4 below joint 1.
        joints = [(1, -1), (3, 0), (6, 1), (4, 0)][: 4 - k]
        builder.add_fixed_tendon(
            FixedTendon(
                name=f"fixed_{k}",
                stiffness=numbers[0],
                damping=numbers[1],
                limit_stiffness=numbers[2],
                offset=numbers[3],
                rest_length=numbers[4],
                limits=(-numbers[5], numbers[6]) if k else None,
                joints=[
                    TendonJoint(
                        dof=f"joint_{j}",
                        parent=p,
                        coefficient=10 * j + k,
                        recip_coefficient=-(j + k),
                    )
                    for j, p in joints
                ],
            )
        )
    if spatial:
        points = [("root", -1, None), ("link_1", 0, None), ("link_3", 1, 0.7), ("link_2", 0, 0.9)]
        builder.add_spatial_tendon(
            SpatialTendon(
                name="spatial",
                stiffness=3.0,
                damping=0.5,
                limit_stiffness=2.0,
                offset=0.1,
                attachments=[
                    Attachment(
                        link=link,
                        parent=parent,
                        position=rng.normal(size=3),
                        coefficient=1.0 + k,
                        rest_length=rest,
                    )
                    for k, (link, parent, rest) in enumerate(points)
                ],
            )
        )
    return builder.build("float32")


@pytest.fixture(scope="module")
def tendons() -> tuple[artix.Fleet, physx.FleetSimulation]:
    members = [
        _with_tendons(seed=0, fixed=2, spatial=True),
        _with_tendons(seed=1, fixed=0, spatial=False),
        _with_tendons(seed=2, fixed=1, spatial=True),
    ]
    fleet = artix.Fleet(members)
    return fleet, physx.create_fleet_simulation(fleet)


@pytest.mark.slow
def test_tendon_structures_have_the_layout_of_physx(tendons) -> None:
    """The bytes are those of the C structures, packed here field by field."""
    fleet, simulation = tendons
    maxima = physx.get_articulation_gpu_api_max_counts(fleet)
    assert (maxima.max_fixed_tendons, maxima.max_fixed_tendon_joints) == (2, 5)
    assert (maxima.max_spatial_tendons, maxima.max_spatial_tendon_attachments) == (1, 4)
    indices = [2, 1, 0]
    members = [_of_member(simulation, index).articulation for index in range(3)]
    data = {
        kind: physx.get_articulation_data(fleet, simulation, indices, kind)
        for kind in list(ReadType)[15:]
    }
    read = {kind: physx.to_physx(arrays) for kind, arrays in data.items()}
    for kind, arrays in data.items():
        for back, field in zip(physx.from_physx(read[kind]), arrays, strict=True):
            np.testing.assert_array_equal(back, field, strict=True)
    zero = {kind: bytes(data.dtype.itemsize) for kind, data in read.items()}
    assert [len(block) for block in zero.values()] == [32, 16, 16, 32]

    wanted: dict[ReadType, list[bytes]] = {kind: [] for kind in read}
    for index in indices:
        topology = fleet.topologies[index]
        fixed = members[index].fixed_tendons
        for t in range(2):
            if t >= len(topology.fixed_tendons):
                wanted[ReadType.FIXED_TENDON].append(zero[ReadType.FIXED_TENDON])
                wanted[ReadType.FIXED_TENDON_JOINT] += 5 * [zero[ReadType.FIXED_TENDON_JOINT]]
                continue
            fields = (
                "stiffness",
                "damping",
                "limit_stiffness",
                "offset",
                "lower_limit",
                "upper_limit",
                "rest_length",
            )
            values = [float(getattr(fixed, field)[t]) for field in fields]
            wanted[ReadType.FIXED_TENDON].append(struct.pack("<7fI", *values, 0))
            # The root, then breadth-first: joints 1, 3, 4, 6 of the first tendon, 1, 3, 6 of the
            # second.
            blocks = [zero[ReadType.FIXED_TENDON_JOINT]]
            for j in ((1, 3, 4, 6), (1, 3, 6))[t]:
                axis = {1: 0, 3: 1, 4: 0, 6: 1}[j]
                blocks.append(struct.pack("<2f2I", 10 * j + t, -(j + t), axis, 0))
            blocks += (5 - len(blocks)) * [zero[ReadType.FIXED_TENDON_JOINT]]
            wanted[ReadType.FIXED_TENDON_JOINT] += blocks
        if not topology.spatial_tendons:
            wanted[ReadType.SPATIAL_TENDON].append(zero[ReadType.SPATIAL_TENDON])
            wanted[ReadType.SPATIAL_TENDON_ATTACHMENT] += 4 * [
                zero[ReadType.SPATIAL_TENDON_ATTACHMENT]
            ]
            continue
        wanted[ReadType.SPATIAL_TENDON].append(struct.pack("<4f", 3.0, 0.5, 2.0, 0.1))
    for kind in (ReadType.FIXED_TENDON, ReadType.FIXED_TENDON_JOINT, ReadType.SPATIAL_TENDON):
        assert read[kind].tobytes() == b"".join(wanted[kind]), kind.name

    points = read[ReadType.SPATIAL_TENDON_ATTACHMENT]
    assert points.shape == (3, 1, 4)
    assert points[1].tobytes() == 4 * zero[ReadType.SPATIAL_TENDON_ATTACHMENT]
    for block, index in ((0, 2), (2, 0)):
        for place, entry in enumerate((0, 1, 3, 2)):  # breadth-first
            assert points[block, 0, place]["coefficient"] == 1 + entry
            assert points[block, 0, place]["rest_length"] == np.float32([0, 0, 0.7, 0.9][entry])
            link = fleet.topologies[index].spatial_tendons[0].links[entry]
            a = members[index]
            x, y, z, w = a.link_com_pose[link, 3:]
            turn = np.array(
                [
                    [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                    [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                    [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
                ]
            )
            offset = turn.T @ (a.spatial_tendons.position[entry] - a.link_com_pose[link, :3])
            np.testing.assert_allclose(
                points[block, 0, place]["relative_offset"], offset, atol=2e-6
            )


@pytest.mark.parametrize(
    ("write", "read"), list(zip(list(WriteType)[10:], list(ReadType)[15:], strict=True))
)
def test_tendons_are_written_where_they_are_read(tendons, write, read) -> None:
    """New numbers arrive wherever there is something, through PhysX's bytes; padding is ignored,
    all else stays."""
    fleet, simulation = tendons
    before = physx.get_articulation_data(fleet, simulation, [0, 1, 2], read)
    # What exists has a stiffness or a coefficient.
    exists = (
        np.asarray(before.coefficient if hasattr(before, "coefficient") else before.stiffness) != 0
    )
    assert exists[0].any()
    assert not exists[1].any()
    # Its points turn from one frame into another.
    exact = read is not ReadType.SPATIAL_TENDON_ATTACHMENT
    data = physx.get_articulation_data(fleet, simulation, [2, 1], read)
    doubled = jax.tree.map(lambda x: x if x.dtype == "uint32" else 2 * x + 1, data)
    bytes_of_physx = physx.to_physx(doubled).tobytes()
    structured = np.frombuffer(bytes_of_physx, physx.to_physx(data).dtype).reshape(
        doubled[-1].shape
    )
    after = physx.set_articulation_data(
        fleet, simulation, physx.from_physx(structured), [2, 1], write
    )
    found = physx.get_articulation_data(fleet, after, [0, 1, 2], read)
    for name, old, new in zip(before._fields, before, found, strict=True):
        wanted = np.array(old)
        if name != "axis":
            wanted[2][exists[2]] = 2 * wanted[2][exists[2]] + 1
        np.testing.assert_allclose(
            new, wanted, atol=0.0 if exact or name != "relative_offset" else 5e-6, err_msg=name
        )
    same = physx.set_articulation_data(fleet, simulation, data, [2, 1], write)
    assert all(
        np.array_equal(*pair)
        for pair in zip(jax.tree.leaves(same), jax.tree.leaves(simulation), strict=True)
    )
    back = physx.set_articulation_data(fleet, after, data, [2, 1], write)
    for old, new in zip(jax.tree.leaves(simulation), jax.tree.leaves(back), strict=True):
        np.testing.assert_allclose(new, old, atol=0.0 if exact else 5e-6)


def test_nothing_is_written_through_bad_arguments(fleet, simulation, tendons) -> None:
    wide = fleet.num_dofs

    def write(data, indices, kind=WriteType.JOINT_POSITION):
        return physx.set_articulation_data(fleet, simulation, data, indices, kind)

    with pytest.raises(ValueError, match=r"indices to write must be distinct; found \[3\]"):
        write(jnp.zeros((3, wide), "float32"), [3, 1, 3])
    with pytest.raises(IndexError, match=r"\[0, 7\)"):
        write(jnp.zeros((1, wide), "float32"), [7])
    with pytest.raises(TypeError, match="list of integers"):
        write(jnp.zeros((1, wide), "float32"), [0.0])
    with pytest.raises(ValueError, match=r"JOINT_POSITION: expected shape \(1, 40\)"):
        write(jnp.zeros((1, wide - 1), "float32"), [0])
    with pytest.raises(ValueError, match=r"ROOT_GLOBAL_POSE: expected shape \(2, 7\)"):
        write(jnp.zeros((1, 7), "float32"), [0, 1], WriteType.ROOT_GLOBAL_POSE)
    for quaternion, length in ((0.0, "zero"), (np.nan, "nan")):  # PxTransform has it first.
        poses = jnp.array([[0, 0, 0, 1, 1, 2, 3], [*4 * [quaternion], 1, 2, 3]], "float32")
        with pytest.raises(ValueError, match=f"ROOT_GLOBAL_POSE: expected a .* length {length}"):
            write(poses, [0, 1], WriteType.ROOT_GLOBAL_POSE)
    own = fleet.topologies[0].num_dofs
    lost = jnp.zeros((1, wide), "float32").at[0, own:].set(jnp.nan)  # Padding may be anything.
    write(lost, [0])
    with pytest.raises(ValueError, match="JOINT_POSITION: every number must be finite; found nan"):
        write(lost.at[0, own - 1].set(jnp.nan), [0])
    with pytest.raises(TypeError, match="expected dtype float32, found float64"):
        write(jnp.zeros((1, wide)), [0])
    with pytest.raises(ValueError, match="is not a valid ArticulationGPUAPIWriteType"):
        write(jnp.zeros((1, wide), "float32"), [0], 14)
    other, its_simulation = tendons
    with pytest.raises(ValueError, match="the simulation is not that of the fleet"):
        physx.get_articulation_data(fleet, its_simulation, [0], ReadType.JOINT_POSITION)
    data = physx.get_articulation_data(other, its_simulation, [0], ReadType.FIXED_TENDON_JOINT)
    for field, wrong in (("stiffness", -1.0), ("offset", np.nan)):
        tendon = physx.get_articulation_data(other, its_simulation, [0], ReadType.FIXED_TENDON)
        tendon = tendon._replace(**{field: jnp.full_like(tendon.stiffness, wrong)})
        with pytest.raises(ValueError, match=f"data for FIXED_TENDON: {field}"):
            physx.set_articulation_data(other, its_simulation, tendon, [0], WriteType.FIXED_TENDON)
    turned = data._replace(axis=data.axis + jnp.asarray(1, "uint32"))
    with pytest.raises(ValueError, match="block 0, tendon 0, joint 1 has another axis"):
        physx.set_articulation_data(
            other, its_simulation, turned, [0], WriteType.FIXED_TENDON_JOINT
        )
    with pytest.raises(TypeError, match=r"expected artix\.physx\.GpuFixedTendonData"):
        physx.set_articulation_data(other, its_simulation, data, [0], WriteType.FIXED_TENDON)
    with pytest.raises(ValueError, match="coefficient must have shape"):
        physx.set_articulation_data(
            other, its_simulation, data, [0, 1], WriteType.FIXED_TENDON_JOINT
        )
    wide_numbers = data._replace(coefficient=data.coefficient.astype(float))
    with pytest.raises(TypeError, match="coefficient must have dtype float32; found float64"):
        physx.set_articulation_data(
            other, its_simulation, wide_numbers, [0], WriteType.FIXED_TENDON_JOINT
        )
    with pytest.raises(TypeError, match="indices must be known when the call is traced"):
        jax.jit(lambda indices: write(jnp.zeros((1, wide), "float32"), indices))(jnp.array([0]))
    with pytest.raises(TypeError, match="expected one of the structures"):
        physx.from_physx(np.zeros(3, "f4"))


def test_who_is_written_to_wakes(tendons) -> None:
    """Nobody sleeps through new targets, states or parameters; the others go on sleeping."""
    fleet, simulation = tendons
    asleep = simulation.map(physx.put_to_sleep)
    for write in (WriteType.JOINT_TARGET_POSITION, WriteType.SPATIAL_TENDON):
        data = physx.get_articulation_data(fleet, asleep, [2, 0], ReadType[write.name])
        after = physx.set_articulation_data(fleet, asleep, data, [2, 0], write)
        members = [_of_member(after, index) for index in range(3)]
        np.testing.assert_array_equal([one.is_sleeping for one in members], [False, True, False])
        np.testing.assert_array_equal(
            [one.wake_counter for one in members], np.float32([0.4, 0, 0.4])
        )


def test_reading_no_one_gives_nothing(fleet, simulation) -> None:
    data = physx.get_articulation_data(fleet, simulation, [], ReadType.JOINT_POSITION)
    assert data.shape == (0, fleet.num_dofs)


def test_types_and_simulations_that_are_not_meant(fleet, simulation) -> None:
    with pytest.raises(
        TypeError,
        match="data_type: expected ArticulationGPUAPIWriteType, found <ArticulationGPUAPIRead",
    ):
        physx.set_articulation_data(fleet, simulation, jnp.zeros((1, 1)), [0], ReadType.JOINT_FORCE)
    with pytest.raises(
        TypeError,
        match="data_type: expected ArticulationGPUAPIReadType, found <ArticulationGPUAPIWrite",
    ):
        physx.get_articulation_data(fleet, simulation, [0], WriteType.JOINT_FORCE)
    other = "float32" if fleet.dtype == np.float64 else "float64"
    wide = [kind.replace(state=kind.state.astype(other)) for kind in simulation.kinds]
    with pytest.raises(TypeError, match=rf"state\.root_pose: expected dtype .*found {other}"):
        physx.get_articulation_data(
            fleet, simulation.replace(kinds=tuple(wide)), [0], ReadType.JOINT_POSITION
        )


@pytest.mark.slow
def test_a_fixed_body_without_joints() -> None:
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1))
    body = builder.build()
    assert artix.physx.dense_jacobian(body, artix.neutral_state(body)).shape == (0, 0)
    after = physx.simulate(physx.create_simulation(body), 0.01)
    np.testing.assert_array_equal(after.state.root_pose, [0, 0, 0, 0, 0, 0, 1])
    for solver in ("pgs", "tgs"):
        options = artix.SolverOptions(solver=solver)
        np.testing.assert_array_equal(
            artix.step(body, artix.neutral_state(body), None, 0.01, options).root_velocity, 0
        )
