"""PhysX's cache: recorded numbers, the effect of each flag, packing of joint data, and error
messages."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Axis, Joint, physx
from artix.physx import ArticulationCacheFlag as Flag
from artix.physx import ArticulationFlag
from tests.support import physx_mechanisms as mechanisms
from tests.support.models import random_link, random_pose, random_states, state_at, tree_of

#: Those that the recording states (``tests/data/physx/README.md``).
TOLERANCES = {
    "id_joint_acceleration": 5e-6,
    "id_external_force": 5e-6,
    "id0_external_force": 5e-6,
    "dep_gravity": 5e-5,
    "dep0_gravity": 5e-5,
}
TOLERANCE = 2e-6


def _compute(simulation: physx.ArticulationSimulation, given: dict) -> dict:
    """Every recorded array of one mechanism in one state, each by the calls that recorded it."""
    cache = physx.create_cache(simulation)
    cache = physx.copy_internal_state_to_cache(simulation, cache, Flag.ALL)
    cache = cache.replace(joint_acceleration=given["in_qdd"], external_forces=given["in_ext"])
    forced = cache.replace(joint_force=given["in_tau"])
    still = physx.put_to_sleep(simulation)
    jacobian, rows, columns = physx.compute_dense_jacobian(simulation, cache)
    assert jacobian.dense_jacobian.shape == (rows, columns)
    centroidal = physx.compute_centroidal_momentum_matrix(simulation, cache)
    compat = {"physx_compat": True}
    return {
        "st_link_pose": artix.frame_pose(simulation.articulation, simulation.state),
        "st_link_velocity": cache.link_velocity,
        "st_jacobian": jacobian.dense_jacobian,
        "st_mass_matrix": physx.compute_mass_matrix(simulation, cache).mass_matrix,
        "st_coriolis": physx.compute_coriolis_compensation(simulation, cache).coriolis_force,
        "st_gravity": physx.compute_gravity_compensation(simulation, cache, **compat).gravity_compensation_force,
        "st_com_world": physx.compute_articulation_com(simulation),
        "st_com_root": physx.compute_articulation_com(simulation, root_frame=True),
        "st_centroidal_matrix": centroidal.centroidal_momentum_matrix,
        "st_centroidal_bias": centroidal.centroidal_momentum_bias,
        "dep_mass_matrix": physx.compute_generalized_mass_matrix(simulation, cache).mass_matrix,
        "dep_coriolis": physx.compute_coriolis_and_centrifugal_force(simulation, cache).joint_force,
        "dep_gravity": physx.compute_generalized_gravity_force(simulation, cache, **compat).joint_force,
        "dep0_gravity": physx.compute_generalized_gravity_force(still, cache, **compat).joint_force,
        "id_joint_force": physx.compute_joint_force(simulation, cache, **compat).joint_force,
        "id0_joint_force": physx.compute_joint_force(still, cache).joint_force,
        "id_external_force": physx.compute_generalized_external_force(simulation, cache, **compat).joint_force,
        "id0_external_force": physx.compute_generalized_external_force(still, cache).joint_force,
        "id_joint_acceleration": physx.compute_joint_acceleration(simulation, forced).joint_acceleration,
    }  # fmt: skip


def _errors(
    name: str, found: dict, groups: tuple[str, ...] = ("st_", "dep", "id")
) -> dict[str, float]:
    """Those beyond their tolerances, of arrays [4, ...] as they are recorded; every recorded array
    must be there."""
    data = mechanisms.recorded(name) | mechanisms.recorded_inverse_dynamics(name)
    expected = {key for key in data if key.startswith(groups)}
    assert len(expected) >= len(groups)
    errors = {}
    for key in expected:
        assert found[key].shape == data[key].shape, key
        if key == "st_link_pose":  # The sign of a quaternion is anybody's.
            same = np.sign(np.sum(data[key][..., 3:] * found[key][..., 3:], axis=-1, keepdims=True))
            data[key] = np.concatenate([data[key][..., :3], data[key][..., 3:] * same], axis=-1)
        error = np.max(np.abs(found[key] - data[key]), initial=0.0) / max(
            1.0, np.max(np.abs(data[key]), initial=0.0)
        )
        if not error <= TOLERANCES.get(key, TOLERANCE):
            errors[key] = error
    return errors


#: Arrays by the beginnings of their names: those that no other test holds to the recording.
INVERSE_DYNAMICS = ("id", "dep0")


#: Mechanisms whose arrays all go through the cache; test_physx_golden.py computes those of all 40
#: without it.
CHOSEN = ("b_arm7", "c_quadruped", "d_disable_gravity", "d_universal")


@pytest.mark.parametrize(
    "name", ["a_pendulum2", *(pytest.param(name, marks=pytest.mark.slow) for name in CHOSEN[2:])]
)
def test_recorded_inverse_dynamics_through_the_cache(name: str) -> None:
    """A floating and a fixed base, alone; defects where PhysX has them, on request."""
    data = {
        key: jnp.asarray(mechanisms.recorded(name)[key]) for key in ("in_qdd", "in_tau", "in_ext")
    }

    def compute(articulation, state, given):
        found = _compute(physx.create_simulation(articulation, state), given)
        return {key: value for key, value in found.items() if key.startswith(INVERSE_DYNAMICS)}

    over_states = jax.jit(jax.vmap(compute, in_axes=(None, 0, 0)))
    found = over_states(mechanisms.build(name), mechanisms.states(name), data)
    assert _errors(name, found, INVERSE_DYNAMICS) == {}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in CHOSEN else pytest.mark.exhaustive)
        for name in mechanisms.NAMES
    ],
)
def test_everything_recorded_through_the_cache(name: str) -> None:
    given = {
        key: jnp.asarray(mechanisms.recorded(name)[key]) for key in ("in_qdd", "in_tau", "in_ext")
    }
    compute = lambda *own: _compute(physx.create_simulation(*own[:2]), own[2])  # noqa: E731
    over_states = jax.jit(jax.vmap(compute, in_axes=(None, 0, 0)))
    assert _errors(name, over_states(mechanisms.build(name), mechanisms.states(name), given)) == {}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if "_mixed" in name else pytest.mark.slow)
        for name in mechanisms.NAMES
    ],
)
def test_recorded_sizes_and_places(name: str) -> None:
    spec, articulation = mechanisms.specification(name), mechanisms.build(name)
    n, links = articulation.topology.num_dofs, articulation.topology.num_links
    assert physx.get_cache_data_size(articulation) == spec["cache_data_size"]
    numbers = np.arange(1.0, 1.0 + n)
    maximum = np.zeros(6 * (links - 1))
    maximum[spec["unpacked_index"]] = numbers
    np.testing.assert_array_equal(
        physx.unpack_joint_data(articulation, jnp.asarray(numbers)), maximum
    )
    full = np.random.default_rng(0).normal(size=maximum.shape)
    packed = physx.pack_joint_data(physx.create_simulation(articulation), jnp.asarray(full))
    np.testing.assert_array_equal(packed, full[spec["unpacked_index"]])
    np.testing.assert_array_equal(
        jax.jit(lambda: physx.pack_joint_data(articulation, full))(), packed
    )


#: What each flag reads and writes: the header of PxArticulationCache, copied.
READS = {
    "VELOCITY": {"joint_velocity"},
    "ACCELERATION": {"joint_acceleration"},
    "POSITION": {"joint_position"},
    "FORCE": {"joint_force"},
    "LINK_VELOCITY": {"link_velocity"},
    "LINK_ACCELERATION": {"link_acceleration"},
    "ROOT_TRANSFORM": {"transform"},
    "ROOT_VELOCITIES": {"world_lin_vel", "world_ang_vel", "world_lin_accel", "world_ang_accel"},
    "JOINT_SOLVER_FORCES": {"joint_solver_forces"},
    "LINK_INCOMING_JOINT_FORCE": {"link_incoming_joint_force"},
}
WRITES = {
    "VELOCITY": {"joint_velocity"},
    "POSITION": {"joint_position"},
    "FORCE": {"joint_force"},
    "ROOT_TRANSFORM": {"root_pose"},
    "ROOT_VELOCITIES": {"root_velocity"},
    "JOINT_TARGET_POSITIONS": {"drive_target"},
    "JOINT_TARGET_VELOCITIES": {"drive_target_velocity"},
    "LINK_FORCE": {"external_force"},
    "LINK_TORQUE": {"external_force"},
}


def _fields(tree) -> dict[str, np.ndarray]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {path[-1].name: np.asarray(leaf) for path, leaf in leaves}


def _different(before, after) -> set[str]:
    old, new = _fields(before), _fields(after)
    return {
        name for name in old if old[name].shape != new[name].shape or np.any(old[name] != new[name])
    }


def _random_like(tree, seed: int):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: jnp.asarray(rng.normal(size=x.shape)) if x.dtype == float else x, tree
    )


@pytest.fixture(scope="module")
def scene() -> tuple[physx.ArticulationSimulation, physx.ArticulationCache]:
    """An articulation in a scene and its cache, all full of random numbers."""
    articulation = tree_of(
        ["revolute_swing1", "spherical_012", "prismatic_z"], [0, 1, 0], fixed_base=False
    )
    simulation = physx.create_simulation(articulation, state_at(random_states(articulation, 1), 0))
    simulation = simulation.replace(
        report=_random_like(simulation.report, 1),
        joint_force=_random_like(simulation.joint_force, 2),
    )
    return simulation, _random_like(physx.create_cache(articulation), 3)


@pytest.mark.slow
def test_each_flag_moves_its_fields_and_no_other(scene) -> None:
    simulation, cache = scene
    for flag in Flag.__members__.values():
        read = physx.copy_internal_state_to_cache(simulation, cache, flag)
        names = (
            Flag(flag).name.split("|") if flag is not Flag.ALL else [one.name for one in Flag.ALL]
        )
        assert _different(cache, read) == set().union(
            *(READS.get(name, set()) for name in names)
        ), flag
        written = physx.apply_cache(simulation, cache, flag, autowake=False)
        assert _different(simulation, written) == set().union(
            *(WRITES.get(name, set()) for name in names)
        ), flag
    state, report = simulation.state, simulation.report
    everything = physx.copy_internal_state_to_cache(simulation, cache, Flag(2**15 - 1))
    root = everything.root_link_data
    pairs = [
        (everything.joint_position, state.joint_position),
        (everything.joint_velocity, state.joint_velocity),
        (everything.joint_force, simulation.joint_force),
        (everything.joint_acceleration, report.joint_acceleration),
        (
            everything.link_velocity,
            artix.frame_velocity(simulation.articulation, state, offset="com"),
        ),
        (everything.link_acceleration, report.link_acceleration),
        (everything.link_incoming_joint_force, report.incoming_joint_force),
        (root.transform, state.root_pose),
        (jnp.concatenate([root.world_lin_vel, root.world_ang_vel]), state.root_velocity),
        (
            jnp.concatenate([root.world_lin_accel, root.world_ang_accel]),
            report.link_acceleration[0],
        ),
    ]
    for found, wanted in pairs:
        np.testing.assert_array_equal(found, wanted)


def test_state_returns_through_the_cache(scene) -> None:
    """Reading and applying is the identity; forces on links and targets arrive where a step takes
    them from."""
    simulation, cache = scene
    read = physx.copy_internal_state_to_cache(simulation, cache, Flag.ALL | Flag.FORCE)
    other = simulation.replace(
        state=jax.tree.map(jnp.zeros_like, simulation.state),
        joint_force=jnp.zeros_like(simulation.joint_force),
    )
    back = physx.apply_cache(other, read, Flag.ALL | Flag.FORCE, autowake=False)
    assert _different(simulation, back) == set()
    flags = (
        Flag.LINK_FORCE
        | Flag.LINK_TORQUE
        | Flag.JOINT_TARGET_POSITIONS
        | Flag.JOINT_TARGET_VELOCITIES
    )
    loaded = physx.apply_cache(simulation, cache, flags).control
    np.testing.assert_array_equal(
        loaded.external_force, np.hstack([cache.link_force, cache.link_torque])
    )
    np.testing.assert_array_equal(loaded.drive_target, cache.joint_target_positions)
    np.testing.assert_array_equal(loaded.drive_target_velocity, cache.joint_target_velocities)


def test_the_cache_wakes_whom_it_moves(scene) -> None:
    simulation, cache = scene
    asleep, zeros = physx.put_to_sleep(simulation), physx.zero_cache(cache)
    targets = zeros.replace(joint_target_positions=asleep.drive_target)
    for flag, values, autowake, wakes in (
        (Flag.VELOCITY, cache, False, True),
        (Flag.VELOCITY, zeros, False, False),
        (Flag.VELOCITY, zeros, True, True),
        (Flag.POSITION, cache, False, False),
        (Flag.FORCE, cache, False, True),
        (Flag.LINK_TORQUE, cache, False, True),
        (Flag.JOINT_TARGET_POSITIONS, targets, False, False),
        (Flag.JOINT_TARGET_POSITIONS, cache, False, True),
    ):
        after = physx.apply_cache(asleep, values, flag, autowake=autowake)
        assert bool(after.is_sleeping) is not wakes, flag
        assert float(after.wake_counter) == (0.4 if wakes else 0.0)


@pytest.mark.parametrize("fixed_base", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_dtypes_and_shapes_stay(fixed_base: bool) -> None:
    """Everything that goes through the cache keeps its dtype and, but for the deprecated mass
    matrix, its shape."""
    articulation = tree_of(
        ["revolute_swing1", "spherical_01"], [0, 1], fixed_base=fixed_base, dtype="float32"
    )
    simulation = physx.create_simulation(articulation)
    cache = physx.create_cache(articulation)
    everything = Flag(2**15 - 1)
    functions = {name: f for name, f in vars(physx).items() if name.startswith("compute_")}
    changed = {
        "compute_generalized_mass_matrix",
        "compute_articulation_data",
        "compute_articulation_com",
    }
    calls = {name: functions[name] for name in functions.keys() - changed - {"compute_lambda"}}
    calls["compute_lambda"] = lambda s, c: physx.compute_lambda(s, c, c.joint_force)
    calls["read"] = lambda s, c: physx.copy_internal_state_to_cache(s, c, everything)
    calls["apply"] = lambda s, c: physx.apply_cache(s, c, everything)
    assert len(calls) == 14
    for name, call in calls.items():
        found = jax.eval_shape(call, simulation, cache)
        found = found[0] if isinstance(found, tuple) else found
        wanted = simulation if name == "apply" else cache
        for leaf, old in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert (leaf.shape, leaf.dtype, leaf.weak_type) == (old.shape, old.dtype, False), name
    reduced = jax.eval_shape(physx.compute_generalized_mass_matrix, simulation, cache).mass_matrix
    assert (reduced.shape, reduced.dtype) == ((3, 3), "float32")
    center = jax.eval_shape(physx.compute_articulation_com, simulation)
    assert (center.shape, center.dtype) == ((3,), "float32")


def test_zero_cache_leaves_what_users_allocate_in_physx(scene) -> None:
    cache = scene[1].replace(lambda_=jnp.ones(2), coefficient_matrix=jnp.ones((2, 3)))
    left = {name for name, value in _fields(physx.zero_cache(cache)).items() if np.any(value)}
    assert left == {"lambda_", "coefficient_matrix"}
    assert not any(np.any(value) for value in _fields(physx.create_cache(scene[0])).values())


def test_defects_of_physx_only_on_request() -> None:
    """Velocities are scaled by one factor and stay so in the cache, and disabled gravity is
    ignored."""
    articulation = mechanisms.build("d_disable_gravity")
    state = state_at(mechanisms.states("d_disable_gravity"), 0)
    fast = jnp.max(jnp.abs(state.joint_velocity))
    simulation = physx.create_simulation(
        articulation.replace(
            max_joint_velocity=0.5 * fast * jnp.ones(articulation.topology.num_dofs)
        ),
        state,
    )
    cache = physx.copy_internal_state_to_cache(
        simulation, physx.create_cache(articulation), Flag.VELOCITY
    )

    @jax.jit
    def compute(simulation, cache):
        both = {"physx_compat": True}
        return (
            physx.compute_coriolis_compensation(simulation, cache),
            physx.compute_coriolis_compensation(simulation, cache, **both),
            physx.compute_coriolis_compensation(
                simulation, cache.replace(joint_velocity=0.5 * cache.joint_velocity)
            ),
            physx.compute_gravity_compensation(simulation, cache),
            physx.compute_gravity_compensation(simulation, cache, **both),
        )

    right, compatible, halved, gravity, heavy = compute(simulation, cache)
    np.testing.assert_array_equal(right.joint_velocity, state.joint_velocity)
    np.testing.assert_allclose(compatible.joint_velocity, 0.5 * state.joint_velocity, rtol=1e-12)
    np.testing.assert_allclose(compatible.coriolis_force, halved.coriolis_force, atol=1e-12)
    assert np.max(np.abs(right.coriolis_force - halved.coriolis_force)) > 1e-2
    wanted = mechanisms.recorded("d_disable_gravity")["st_gravity"][0]
    np.testing.assert_allclose(
        heavy.gravity_compensation_force, wanted, atol=2e-6 * np.max(np.abs(wanted))
    )
    assert np.max(np.abs(gravity.gravity_compensation_force - wanted)) > 1e-2


@pytest.mark.slow
def test_a_floating_root_is_free(scene) -> None:
    """Joint quantities are Schur complements in the root's block of the mass matrix."""
    simulation, cache = scene
    nv = simulation.topology.nv
    matrix = physx.compute_mass_matrix(simulation, cache).mass_matrix
    onto_joints = np.concatenate(
        [-np.linalg.solve(matrix[:6, :6], matrix[:6, 6:]).T, np.eye(nv - 6)], axis=1
    )
    reduced = physx.compute_generalized_mass_matrix(simulation, cache).mass_matrix
    np.testing.assert_allclose(reduced, onto_joints @ matrix[:, 6:], atol=1e-12)
    force = physx.compute_joint_force(simulation, cache).joint_force
    np.testing.assert_allclose(force, reduced @ cache.joint_acceleration, atol=1e-12)
    coriolis = physx.compute_coriolis_compensation(simulation, cache).coriolis_force
    force = physx.compute_coriolis_and_centrifugal_force(simulation, cache).joint_force
    np.testing.assert_allclose(force, onto_joints @ coriolis, atol=1e-12)
    wrenches = artix.generalized_external_force(
        simulation.articulation, simulation.state, cache.external_forces
    )
    force = physx.compute_generalized_external_force(simulation, cache).joint_force
    np.testing.assert_allclose(force, -onto_joints @ wrenches, atol=1e-12)
    np.testing.assert_allclose(
        physx.compute_generalized_gravity_force(simulation, cache).joint_force, 0, atol=1e-12
    )


@pytest.mark.slow
def test_joint_solver_forces_are_what_the_joints_carry() -> None:
    """A resting arm: the efforts along the DOFs are those that hold it against gravity, whatever
    holds it."""
    joints = [
        Joint.revolute(Axis.SWING1),
        Joint.prismatic(Axis.Y),
        Joint.spherical((Axis.SWING1, Axis.SWING2)),
        Joint.helical(Axis.SWING2, pitch=0.3),
    ]
    rng = np.random.default_rng(0)
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(mass=1.0)
    for parent, joint in zip((0, 1, 1, 1), joints, strict=True):
        placed = dataclasses.replace(
            joint, parent_pose=random_pose(rng), child_pose=random_pose(rng)
        )
        builder.add_link(parent, placed, **random_link(rng))
    articulation = builder.build()
    state = state_at(random_states(articulation, 1, speed=0.0), 0)
    holding = artix.gravity_compensation(articulation, state)
    simulation = physx.create_simulation(articulation, state, options=artix.SolverOptions())
    simulation = physx.simulate(simulation.replace(joint_force=holding), 1e-3)
    cache = physx.copy_internal_state_to_cache(
        simulation, physx.create_cache(articulation), Flag.JOINT_SOLVER_FORCES
    )
    np.testing.assert_allclose(cache.joint_solver_forces, holding, atol=1e-9)
    assert np.min(np.abs(holding)) > 1e-3


def test_a_cache_of_another_articulation_is_refused(scene) -> None:
    simulation, cache = scene
    other = physx.create_cache(tree_of(["fixed"], [0], fixed_base=True))
    assert other.joint_position.shape == (0,)
    for call in (
        lambda: physx.apply_cache(simulation, other, Flag.ALL),
        lambda: physx.copy_internal_state_to_cache(simulation, other, Flag.ALL),
        lambda: physx.compute_mass_matrix(simulation, other),
        lambda: physx.compute_joint_acceleration(simulation, other),
    ):
        with pytest.raises(ValueError, match="made for another articulation"):
            call()
    wrong = cache.replace(
        joint_velocity=jnp.zeros(3), joint_force=jnp.zeros(cache.joint_force.shape, "float32")
    )
    with pytest.raises(ValueError, match=r"cache.joint_velocity: expected shape"):
        physx.apply_cache(simulation, wrong, Flag.VELOCITY)
    with pytest.raises(TypeError, match=r"cache.joint_force: expected dtype float64"):
        physx.compute_joint_acceleration(
            simulation, wrong.replace(joint_velocity=cache.joint_velocity)
        )
    with pytest.raises(
        ValueError, match=r"cache.root_link_data.transform: expected a quaternion .* of length zero"
    ):
        physx.apply_cache(simulation, physx.create_cache(simulation), Flag.ROOT_TRANSFORM)
    lost = cache.root_link_data.replace(transform=jnp.full(7, jnp.nan, simulation.dtype))
    with pytest.raises(ValueError, match=r"transform: expected a quaternion .* of length nan"):
        physx.apply_cache(simulation, cache.replace(root_link_data=lost), Flag.ROOT_TRANSFORM)
    with pytest.raises(ValueError, match=r"pose: expected a quaternion .* of length zero"):
        physx.set_root_global_pose(simulation, jnp.zeros(7))
    state = simulation.state.replace(root_pose=jnp.zeros(7))
    with pytest.raises(
        ValueError, match=r"state.root_pose: expected a quaternion .* of length zero"
    ):
        physx.create_simulation(simulation.articulation, state)
    with pytest.raises(ValueError, match="maximum: expected shape"):
        physx.pack_joint_data(simulation, jnp.zeros(4))
    with pytest.raises(ValueError, match="reduced: expected shape"):
        physx.unpack_joint_data(simulation, jnp.zeros(4))


def test_an_articulation_is_no_simulation() -> None:
    pole = artix.robots.load("cart_pole")
    cache, fleet = physx.create_cache(pole), artix.Fleet([pole])
    for refused in (
        lambda: physx.simulate(pole, 0.01),  # type: ignore[arg-type]
        lambda: physx.compute_mass_matrix(pole, cache),  # type: ignore[arg-type]
        lambda: physx.apply_cache(pole, cache, Flag.ALL),  # type: ignore[arg-type]
        lambda: physx.get_articulation_data(fleet, fleet.neutral_state(), [0], 0),  # type: ignore[arg-type]
        lambda: physx.compute_articulation_com(pole),  # type: ignore[arg-type]
        lambda: physx.wake_up(pole),  # type: ignore[arg-type]
        lambda: physx.put_to_sleep(pole),  # type: ignore[arg-type]
        lambda: physx.set_root_linear_velocity(pole, jnp.zeros(3)),  # type: ignore[arg-type]
    ):
        with pytest.raises(
            TypeError, match=r"simulation: expected .*, found (Articulation|State); make one with"
        ):
            refused()


def test_flags_of_another_enumeration_are_refused() -> None:
    """The bits of one mean something else in another, and bits that are none meant nothing."""
    simulation = physx.create_simulation(artix.robots.load("cart_pole"))
    cache = physx.create_cache(simulation)
    for other in (
        lambda: physx.apply_cache(simulation, cache, ArticulationFlag.FIX_BASE),  # type: ignore[arg-type]
        lambda: physx.copy_internal_state_to_cache(simulation, cache, 2.0),  # type: ignore[arg-type]
        lambda: physx.set_articulation_flag(simulation, Flag.ACCELERATION, True),  # type: ignore[arg-type]
        lambda: physx.set_articulation_flags(simulation, Flag.ACCELERATION),  # type: ignore[arg-type]
        lambda: physx.update_kinematic(simulation, Flag.POSITION),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"flags?: expected Articulation(Cache|Kinematic)?Flag"):
            other()
    for none in (
        lambda: physx.apply_cache(simulation, cache, 1 << 20),  # type: ignore[arg-type]
        lambda: physx.set_articulation_flags(simulation, 9),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=r"flags: 0x\w+ has bits that are no Articulation"):
            none()
    number = int(Flag.VELOCITY | Flag.ACCELERATION)
    assert not physx.apply_cache(simulation, cache, number).is_sleeping  # type: ignore[arg-type]


def test_numbers_that_are_not_finite_are_not_written() -> None:
    """A step under jax.vmap sees no numbers, so it could not refuse them."""
    simulation = physx.create_simulation(artix.robots.load("quadruped"))
    cache = physx.create_cache(simulation)
    lost = cache.replace(
        joint_velocity=jnp.full_like(cache.joint_velocity, jnp.nan),
        link_force=jnp.full_like(cache.link_force, jnp.inf),
    )
    for flag, name in ((Flag.VELOCITY, "joint_velocity"), (Flag.LINK_FORCE, "link_force")):
        with pytest.raises(ValueError, match=rf"cache\.{name}: every number must be finite"):
            physx.apply_cache(simulation, lost, flag)
    physx.apply_cache(simulation, lost, Flag.FORCE)  # What is not written may be anything.
    pose = simulation.root_global_pose.at[0].set(jnp.nan)
    none = jnp.full(3, jnp.nan, pose.dtype)
    for write in (
        lambda: physx.set_root_global_pose(simulation, pose),
        lambda: physx.set_root_linear_velocity(simulation, none),
        lambda: physx.set_root_angular_velocity(simulation, none),
    ):
        with pytest.raises(ValueError, match="every number must be finite; found nan"):
            write()


def test_batches_are_refused_by_what_takes_one_articulation() -> None:
    """The acceleration of a link was that of all links of a member of the batch."""
    fleet = artix.Fleet([artix.robots.load("cart_pole")] * 3)
    batch: Any = physx.create_fleet_simulation(fleet)
    velocity = jnp.zeros(3, fleet.dtype)
    for call in (
        lambda: physx.get_link_acceleration(batch, 1),
        lambda: physx.set_sleep_threshold(batch, 0.1),
        lambda: physx.set_max_com_linear_velocity(batch, 1.0),
        lambda: physx.set_root_linear_velocity(batch, velocity),
    ):
        with pytest.raises(ValueError, match=r"simulation: .* found a batch of shape \(3,\)"):
            call()
    assert jax.vmap(lambda one: physx.get_link_acceleration(one, 1))(batch).shape == (3, 6)
