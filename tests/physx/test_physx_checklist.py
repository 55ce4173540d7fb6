"""Every row of the page *PhysX to artix*, called once, against numbers worked out by hand.

The machine is one whose mechanics fit a line: a pendulum about y and a slider along y on a base
that is fixed. That the functions are right for any machine is shown by what was recorded from PhysX
(``test_physx_golden.py`` and its neighbours).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Axis, Drive, Joint, physx
from artix.physx import ArticulationCacheFlag as Flag
from artix.physx import ArticulationFlag, ArticulationKinematicFlag
from artix.physx import ArticulationGPUAPIComputeType as ComputeType
from artix.physx import ArticulationGPUAPIReadType as ReadType
from artix.physx import ArticulationGPUAPIWriteType as WriteType
from tests.physx.test_physx_page import SECTIONS, rows_of

LENGTH, TURN, GRAVITY, DT = 0.5, 0.2, 9.81, 1e-6
BASE_MASS, PENDULUM_MASS, SLIDER_MASS = 2.0, 1.5, 3.0
ROOT = np.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0])
Q, QD = np.array([0.3, 0.1]), np.array([0.7, -0.4])
TORQUE, QDD = np.array([0.6, -0.9]), np.array([1.1, 0.5])
WRENCH = np.arange(1.0, 19.0).reshape(3, 6)

# By hand: the pendulum's centre of mass, its derivatives by the angle, and what follows from them.
POINT = LENGTH * np.array([np.cos(Q[0]), 0, -np.sin(Q[0])])
SLOPE = LENGTH * np.array([-np.sin(Q[0]), 0, -np.cos(Q[0])])
SLIDE = np.array([0.0, 1.0, 0.0])
PLACES = ROOT[:3] + np.array([np.zeros(3), POINT, Q[1] * SLIDE])
VELOCITY = np.array([np.zeros(6), [*SLOPE * QD[0], 0, QD[0], 0], [*SLIDE * QD[1], 0, 0, 0]])
JACOBIAN = np.zeros((12, 2))
JACOBIAN[:6, 0] = *SLOPE, 0, 1, 0
JACOBIAN[6:9, 1] = SLIDE
MASS = np.diag([TURN + PENDULUM_MASS * LENGTH**2, SLIDER_MASS])
# Held up by a turn against y.
WEIGHT = np.array([-PENDULUM_MASS * GRAVITY * LENGTH * np.cos(Q[0]), 0.0])
ACCELERATION = (TORQUE - WEIGHT) / np.diag(MASS)
CENTRIPETAL = -POINT * QD[0] ** 2
LINK_ACCELERATION = np.array(
    [
        np.zeros(6),
        [*SLOPE * ACCELERATION[0] + CENTRIPETAL, 0, ACCELERATION[0], 0],
        [*SLIDE * ACCELERATION[1], 0, 0, 0],
    ]
)
MASSES = np.array([BASE_MASS, PENDULUM_MASS, SLIDER_MASS])
CENTER = MASSES @ PLACES / MASSES.sum()
MOMENTUM = np.zeros((6, 2))
MOMENTUM[:3] = np.transpose([PENDULUM_MASS * SLOPE, SLIDER_MASS * SLIDE])
MOMENTUM[3:, 0] = np.array([0, TURN, 0]) + np.cross(PLACES[1] - CENTER, MOMENTUM[:3, 0])
MOMENTUM[3:, 1] = np.cross(PLACES[2] - CENTER, MOMENTUM[:3, 1])
DRIFT = np.concatenate(
    [PENDULUM_MASS * CENTRIPETAL, np.cross(PLACES[1] - CENTER, PENDULUM_MASS * CENTRIPETAL)]
)


def machine(*, coupled: bool = False) -> artix.Articulation:
    """The pendulum and the slider; with a mimic joint, tendons and two loop joints where they are
    ``coupled``."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=[0, 0, -GRAVITY], name="machine")
    builder.add_link(mass=BASE_MASS, name="base")
    swing, slide = Joint.revolute(Axis.SWING1, name="swing"), Joint.prismatic(Axis.Y, name="slide")
    builder.add_link(
        0,
        swing,
        mass=PENDULUM_MASS,
        com_pose=[LENGTH, 0, 0, 0, 0, 0, 1],
        inertia=[0.1, TURN, 0.3],
        name="pendulum",
    )
    builder.add_link(0, slide, mass=SLIDER_MASS, name="slider")
    if coupled:
        builder.add_mimic("swing", "slide", gear_ratio=2.0)
        joints = [
            artix.TendonJoint(dof=dof, coefficient=c, recip_coefficient=1 / c)
            for dof, c in (("swing", 1.0), ("slide", 2.0))
        ]
        builder.add_fixed_tendon(artix.FixedTendon(name="belt", stiffness=4.0, joints=joints))
        points = [
            artix.Attachment(link="base", parent=-1, position=[0.1, 0, 0]),
            artix.Attachment(link="slider", parent=0, position=[0, 0, 0.2], rest_length=0.1),
        ]
        builder.add_spatial_tendon(
            artix.SpatialTendon(name="rope", stiffness=5.0, attachments=points)
        )
        tip, ball = [LENGTH, 0, 0, 0, 0, 0, 1], artix.LoopJointType.SPHERICAL
        for name in ("first", "loop"):
            builder.add_loop_joint(
                artix.LoopJoint(
                    name=name,
                    type=ball,
                    link_a="base",
                    link_b="pendulum",
                    pose_a=[*POINT, 0, 0, 0, 1],
                    pose_b=tip,
                )
            )
        builder.remove_loop_joint("first")
    return builder.build()


def state() -> artix.State:
    return artix.State(*map(jnp.asarray, (ROOT, np.zeros(6), Q, QD)))


@jax.jit
def _computed(simulation: physx.ArticulationSimulation) -> dict[str, Any]:
    """The compute functions by PhysX's names, and the cache after a step."""
    cache = physx.create_cache(simulation)
    cache = physx.copy_internal_state_to_cache(simulation, cache, Flag.ALL)
    given = cache.replace(joint_acceleration=jnp.asarray(QDD), external_forces=jnp.asarray(WRENCH))
    forced = cache.replace(joint_force=jnp.asarray(TORQUE))
    stepped = physx.simulate(physx.apply_cache(simulation, forced, Flag.FORCE), DT)
    return {
        "computeDenseJacobian": physx.compute_dense_jacobian(simulation, cache)[0],
        "computeMassMatrix": physx.compute_mass_matrix(simulation, cache),
        "computeGeneralizedMassMatrix": physx.compute_generalized_mass_matrix(simulation, cache),
        "computeGravityCompensation": physx.compute_gravity_compensation(simulation, cache),
        "computeGeneralizedGravityForce": physx.compute_generalized_gravity_force(
            simulation, cache
        ),
        "computeCoriolisCompensation": physx.compute_coriolis_compensation(simulation, given),
        "computeCoriolisAndCentrifugalForce": physx.compute_coriolis_and_centrifugal_force(
            simulation, given
        ),
        "computeGeneralizedExternalForce": physx.compute_generalized_external_force(
            simulation, given
        ),
        "computeJointForce": physx.compute_joint_force(simulation, given),
        "computeJointAcceleration": physx.compute_joint_acceleration(simulation, forced),
        "computeCentroidalMomentumMatrix": physx.compute_centroidal_momentum_matrix(
            simulation, cache
        ),
        "computeArticulationCOM": physx.compute_articulation_com(simulation),
        "root frame": physx.compute_articulation_com(simulation, root_frame=True),
        "bounds": physx.get_world_bounds(
            simulation, jnp.asarray([[-np.ones(3), np.ones(3)]] * 3), inflation=1.0
        ),
        "stepped": stepped,
        "cache": physx.copy_internal_state_to_cache(stepped, cache, Flag(2**15 - 1)),
    }


@pytest.fixture(scope="module")
def plain() -> physx.ArticulationSimulation:
    return physx.create_simulation(machine(), state())


@pytest.fixture(scope="module")
def coupled() -> physx.ArticulationSimulation:
    return physx.create_simulation(machine(coupled=True), state())


@pytest.fixture(scope="module")
def computed(plain) -> dict[str, Any]:
    return _computed(plain)


@pytest.fixture(scope="module")
def closed(coupled) -> tuple[physx.ArticulationCache, Any, Any]:
    """The cache with the forces that hold the loop joint, whether they do, and the coefficients
    alone."""

    @jax.jit
    def compute(simulation):
        cache = physx.create_cache(simulation)
        coefficients = physx.compute_coefficient_matrix(simulation, cache).coefficient_matrix
        return *physx.compute_lambda(simulation, cache, jnp.asarray(TORQUE)), coefficients

    # The joint cannot move, so it is at rest.
    return compute(coupled.replace(state=coupled.state.replace(joint_velocity=jnp.zeros(2))))


Pairs = dict[str, tuple[Any, Any]]


def _walk(section: str, pairs: Pairs, tolerance: float = 1e-9) -> None:
    """Each row of a section is either answered in words or called here with the wanted result."""
    rows = rows_of(section)
    answered = {name for name, (call, _) in rows.items() if call == "none"}
    assert set(pairs) | answered == set(SECTIONS[section])
    assert not set(pairs) & answered
    for name, (found, wanted) in pairs.items():
        if isinstance(wanted, str | tuple | bool):
            assert found == wanted, name
        else:
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.slow
def test_the_cache(plain, coupled, computed, closed) -> None:
    cache, applied = computed["cache"], physx.create_cache(plain)
    link_force, link_torque = jnp.asarray(WRENCH[:, :3]), jnp.asarray(WRENCH[:, 3:])
    applied = applied.replace(link_force=link_force, link_torque=link_torque)
    applied = applied.replace(
        joint_target_positions=jnp.asarray(Q), joint_target_velocities=jnp.asarray(QD)
    )
    loaded = physx.apply_cache(plain, applied, Flag(0b1111 << 11)).control
    centroidal = computed["computeCentroidalMomentumMatrix"]
    root = cache.root_link_data
    row = np.asarray(closed[0].coefficient_matrix)
    pairs: Pairs = {
        "externalForces": (
            computed["computeGeneralizedExternalForce"].joint_force,
            -JACOBIAN.T @ WRENCH[1:].ravel(),
        ),
        "denseJacobian": (computed["computeDenseJacobian"].dense_jacobian, JACOBIAN),
        "massMatrix": (computed["computeMassMatrix"].mass_matrix, MASS),
        "jointVelocity": (cache.joint_velocity, QD + DT * ACCELERATION),
        "jointAcceleration": (cache.joint_acceleration, ACCELERATION),
        "jointPosition": (cache.joint_position, Q + DT * QD),
        "jointForce": (cache.joint_force, TORQUE),
        "jointSolverForces": (cache.joint_solver_forces, TORQUE),
        "linkVelocity": (cache.link_velocity, VELOCITY + DT * LINK_ACCELERATION),
        "linkAcceleration": (cache.link_acceleration, LINK_ACCELERATION),
        "rootLinkData": (
            np.concatenate([root.transform, *jax.tree.leaves(root)[1:]]),
            [*ROOT, *np.zeros(12)],
        ),
        "sensorForces": (cache.sensor_forces, np.zeros((0, 6))),
        "coefficientMatrix": (np.abs(row), np.abs(np.transpose([SLOPE, np.zeros(3)]))),
        "lambda": (row.T @ closed[0].lambda_, [WEIGHT[0] - TORQUE[0], 0.0]),
        "coriolisForce": (computed["computeCoriolisCompensation"].coriolis_force, np.zeros(2)),
        "gravityCompensationForce": (
            computed["computeGravityCompensation"].gravity_compensation_force,
            WEIGHT,
        ),
        "centroidalMomentumMatrix": (centroidal.centroidal_momentum_matrix, MOMENTUM),
        "centroidalMomentumBias": (centroidal.centroidal_momentum_bias, DRIFT),
        "jointTargetPositions": (loaded.drive_target, Q),
        "jointTargetVelocities": (loaded.drive_target_velocity, QD),
        "linkIncomingJointForce": (
            cache.link_incoming_joint_force[2],
            [0, TORQUE[1], SLIDER_MASS * GRAVITY, 0, 0, 0],
        ),
        "linkForce": (loaded.external_force[:, :3], link_force),
        "linkTorque": (loaded.external_force[:, 3:], link_torque),
        "version": (
            (cache.version, cache.version == physx.create_cache(coupled).version),
            (physx.create_cache(machine()).version, False),
        ),
    }
    assert set(physx.ArticulationCache.__dataclass_fields__) == {
        call.split(".")[-1].split("`")[0]
        for call, _ in rows_of("PxArticulationCache").values()
        if call != "none"
    }
    _walk("PxArticulationCache", pairs, 1e-5)


def _settings(plain: physx.ArticulationSimulation) -> Pairs:
    """Getters and setters of settings, sleep and the root."""
    vector, pose = jnp.array([1.0, -2.0, 3.0]), jnp.asarray([*POINT, 0, 0, 0, 1])
    asleep = physx.put_to_sleep(plain)
    self_collision, everything = ArticulationFlag.DISABLE_SELF_COLLISION, ArticulationFlag(7)
    one = physx.set_articulation_flag(plain, self_collision, True)
    iterations = physx.set_solver_iteration_counts(plain, 8, 2)
    moved = physx.set_root_global_pose(plain, pose)
    linear, angular = (
        physx.set_root_linear_velocity(plain, vector),
        physx.set_root_angular_velocity(plain, vector),
    )
    limited = physx.set_max_com_angular_velocity(physx.set_max_com_linear_velocity(plain, 4.0), 5.0)
    threshold = physx.set_sleep_threshold(plain, 0.25)
    cleared = physx.update_kinematic(plain, ArticulationKinematicFlag.POSITION)
    return {
        "setSolverIterationCounts": (
            (iterations.options.position_iterations, iterations.options.velocity_iterations),
            (8, 2),
        ),
        "getSolverIterationCounts": (plain.solver_iteration_counts, (4, 1)),
        "isSleeping": (plain.is_sleeping, False),
        "putToSleep": (bool(asleep.is_sleeping), True),
        "wakeUp": (bool(physx.wake_up(asleep).is_sleeping), False),
        "setWakeCounter": (physx.set_wake_counter(plain, 0.1).sleep.wake_counter, np.full(3, 0.1)),
        "getWakeCounter": (plain.wake_counter, 0.4),
        "setSleepThreshold": (threshold.sleep_threshold, 0.25),
        "getSleepThreshold": (plain.sleep_threshold, 5e-3),
        "setMaxCOMLinearVelocity": (limited.max_com_linear_velocity, 4.0),
        "getMaxCOMLinearVelocity": (limited.com_linear_velocity_limit, 4.0),
        "setMaxCOMAngularVelocity": (limited.max_com_angular_velocity, 5.0),
        "getMaxCOMAngularVelocity": (plain.com_angular_velocity_limit, np.inf),
        "setArticulationFlags": (
            physx.set_articulation_flags(plain, everything).articulation_flags == everything,
            True,
        ),
        "setArticulationFlag": (one.disable_self_collision, True),
        "getArticulationFlags": (plain.articulation_flags == ArticulationFlag(3), True),
        "setRootGlobalPose": (moved.state.root_pose, pose),
        "getRootGlobalPose": (plain.root_global_pose, ROOT),
        "setRootLinearVelocity": (linear.state.root_velocity, [*vector, 0, 0, 0]),
        "getRootLinearVelocity": (linear.root_linear_velocity, vector),
        "setRootAngularVelocity": (angular.state.root_velocity, [0, 0, 0, *vector]),
        "getRootAngularVelocity": (angular.root_angular_velocity, vector),
        "updateKinematic": (
            sum(float(jnp.sum(jnp.abs(leaf))) for leaf in jax.tree.leaves(cleared.report)),
            2.0,  # It is finite and solved; all else is zero.
        ),
    }


def _structure(plain: physx.ArticulationSimulation, coupled: physx.ArticulationSimulation) -> Pairs:
    """What an articulation consists of, built and asked for."""
    tree, ties = plain.topology, coupled.topology
    renamed = artix.builder_from_articulation(plain.articulation)
    renamed.name = "renamed"
    fleet = artix.Fleet([plain.articulation, renamed.build()])
    tendons = coupled.articulation.fixed_tendons, coupled.articulation.spatial_tendons
    return {
        "getScene": (type(plain).__name__, "ArticulationSimulation"),
        "PxArticulationReducedCoordinate": (plain.state.joint_position, Q),
        "createLink": (tree.link_names, ("base", "pendulum", "slider")),
        "getNbLinks": (tree.num_links, 3),
        "getLinks": (physx.get_links(plain), (0, 1, 2)),
        "setName": (renamed.build().topology.name, "renamed"),
        "getName": (tree.name, "machine"),
        "getDofs": (tree.num_dofs, 2),
        "addLoopJoint": (tuple(joint.name for joint in ties.loop_joints), ("loop",)),
        "removeLoopJoint": ("first" in {joint.name for joint in ties.loop_joints}, False),
        "getNbLoopJoints": (len(ties.loop_joints), 1),
        "getLoopJoints": (ties.loop_joints[0].locked_axes, (Axis.X, Axis.Y, Axis.Z)),
        "getCoefficientMatrixSize": (physx.get_coefficient_matrix_size(coupled), 3 * 2),
        "getGpuArticulationIndex": (fleet.topologies[1].name, "renamed"),
        "getGPUIndex": (fleet.topologies[0].name, "machine"),
        "createSpatialTendon": (tendons[1].stiffness, [5.0]),
        "createFixedTendon": (tendons[0].stiffness, [4.0]),
        "getSpatialTendons": (ties.spatial_tendons[0].links, (0, 2)),
        "getNbSpatialTendons": (len(ties.spatial_tendons), 1),
        "getFixedTendons": (ties.fixed_tendons[0].dofs, (0, 1)),
        "getNbFixedTendons": (len(ties.fixed_tendons), 1),
        "createMimicJoint": (coupled.articulation.mimic.gear_ratio, [2.0]),
        "getMimicJoints": (ties.mimic_dofs, ((0, 1),)),
        "getNbMimicJoints": (len(ties.mimic_dofs), 1),
    }


@pytest.mark.slow
def test_the_articulation(plain, coupled, computed, closed) -> None:
    cache, stepped = physx.create_cache(plain), computed["stepped"]
    read = physx.copy_internal_state_to_cache(plain, cache, Flag.POSITION)
    turned = physx.apply_cache(plain, cache.replace(joint_position=jnp.asarray(QD)), Flag.POSITION)
    corners = PLACES - np.array([np.zeros(3), POINT, np.zeros(3)])  # Where the links' frames are.
    reach = np.ones((3, 3))
    reach[1] = np.cos(Q[0]) + np.sin(Q[0]), 1, np.cos(Q[0]) + np.sin(Q[0])
    six = np.zeros(12)
    six[[1, 10]] = Q
    pairs: Pairs = _settings(plain) | _structure(plain, coupled) | {
        "getWorldBounds": (computed["bounds"], [np.min(corners - reach, axis=0), np.max(corners + reach, axis=0)]),
        "createCache": (sum(np.sum(np.abs(leaf)) for leaf in jax.tree.leaves(cache)), 0.0),
        "getCacheDataSize": (
            physx.get_cache_data_size(plain),
            128 * 3 + 24 * 3 * 8 + 4 * 8**2 + 8 * 8 + 24 * 8 + 24 + 24 * 2 + 24 * 3 + 76,
        ),
        "zeroCache": (physx.zero_cache(read).joint_position, np.zeros(2)),
        "applyCache": (turned.state.joint_position, QD),
        "copyInternalStateToCache": (read.joint_position, Q),
        "packJointData": (physx.pack_joint_data(plain, jnp.asarray(six)), Q),
        "unpackJointData": (physx.unpack_joint_data(plain, jnp.asarray(Q)), six),
        "computeGeneralizedGravityForce": (computed["computeGeneralizedGravityForce"].joint_force, WEIGHT),
        "computeGravityCompensation": (computed["computeGravityCompensation"].gravity_compensation_force, WEIGHT),
        "computeCoriolisAndCentrifugalForce": (computed["computeCoriolisAndCentrifugalForce"].joint_force, np.zeros(2)),
        "computeCoriolisCompensation": (computed["computeCoriolisCompensation"].coriolis_force, np.zeros(2)),
        "computeGeneralizedExternalForce": (
            computed["computeGeneralizedExternalForce"].joint_force,
            -JACOBIAN.T @ WRENCH[1:].ravel(),
        ),
        "computeJointAcceleration": (computed["computeJointAcceleration"].joint_acceleration, ACCELERATION),
        "computeJointForce": (computed["computeJointForce"].joint_force, MASS @ QDD),
        "computeDenseJacobian": (computed["computeDenseJacobian"].dense_jacobian, JACOBIAN),
        "computeCoefficientMatrix": (np.abs(closed[2]), np.abs(np.transpose([SLOPE, np.zeros(3)]))),
        "computeLambda": (bool(closed[1]), True),
        "computeGeneralizedMassMatrix": (computed["computeGeneralizedMassMatrix"].mass_matrix, MASS),
        "computeMassMatrix": (computed["computeMassMatrix"].mass_matrix, MASS),
        "computeArticulationCOM": (computed["computeArticulationCOM"] - computed[
            "root frame"], ROOT[:3]),
        "computeCentroidalMomentumMatrix": (
            computed["computeCentroidalMomentumMatrix"].centroidal_momentum_matrix @ QD,
            MOMENTUM @ QD,
        ),
        "getLinkAcceleration": (physx.get_link_acceleration(stepped, 1), LINK_ACCELERATION[1]),
        "getSolverResidual": (stepped.solver_residual[0].max, 0.0),
    }  # fmt: skip
    _walk("PxArticulationReducedCoordinate", pairs, 1e-5)


def _read_and_written(fleet: artix.Fleet, scene: physx.ArticulationSimulation) -> Pairs:
    """Every write type of the second of two machines, every read type of what became of it."""
    rng = np.random.default_rng(0)
    shapes = {"ROOT_GLOBAL_POSE": (1, 7), "LINK_FORCE": (1, 3, 3), "LINK_TORQUE": (1, 3, 3)}
    written: dict[str, Any] = {}
    for write in list(WriteType)[:10]:
        shape = shapes.get(write.name, (1, 3) if write.name.startswith("ROOT") else (1, 2))
        numbers = rng.normal(size=shape)
        if write.name == "ROOT_GLOBAL_POSE":  # A quaternion, then a position.
            numbers[:, :4] /= np.linalg.norm(numbers[:, :4])
        written[write.name] = jnp.asarray(numbers)
        scene = physx.set_articulation_data(fleet, scene, written[write.name], [1], write)
    for write in list(WriteType)[10:]:
        data = physx.get_articulation_data(fleet, scene, [1], ReadType[write.name])
        name = "coefficient" if hasattr(data, "coefficient") else "stiffness"
        written[write.name] = data._replace(**{name: 2 * getattr(data, name)})
        scene = physx.set_articulation_data(fleet, scene, written[write.name], [1], write)
    report = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), scene.report)
    scene = scene.replace(report=report)
    member = jax.tree.map(lambda leaf: leaf[1], scene)
    kinematics = artix.forward_kinematics(member.articulation, member.state)
    unread = {
        "JOINT_ACCELERATION": report.joint_acceleration[1],
        # PxTransform has the quaternion first.
        "LINK_GLOBAL_POSE": np.roll(kinematics.pose, 4, axis=1),
        "LINK_LINEAR_VELOCITY": kinematics.velocity[:, :3],
        "LINK_ANGULAR_VELOCITY": kinematics.velocity[:, 3:],
        "LINK_LINEAR_ACCELERATION": report.link_acceleration[1, :, :3],
        "LINK_ANGULAR_ACCELERATION": report.link_acceleration[1, :, 3:],
        "LINK_INCOMING_JOINT_FORCE": report.incoming_joint_force[1],
    }
    pairs: Pairs = {}
    for read in list(ReadType)[:15]:
        found = physx.get_articulation_data(fleet, scene, [1], read)[0]
        pairs[f"e{read.name}"] = (
            found,
            written[read.name][0] if read.name in written else unread[read.name],
        )
    for read in list(ReadType)[15:]:
        found = physx.get_articulation_data(fleet, scene, [1], read)
        pairs[f"e{read.name}"] = tuple(
            np.concatenate([np.ravel(x) for x in data]) for data in (found, written[read.name])
        )
    loads = scene.control.external_force
    pairs["eLINK_FORCE"] = (loads[..., :3], [np.zeros((3, 3)), written["LINK_FORCE"][0]])
    pairs["eLINK_TORQUE"] = (loads[..., 3:], [np.zeros((3, 3)), written["LINK_TORQUE"][0]])
    pairs["setArticulationData"] = (scene.state.joint_position, [Q, written["JOINT_POSITION"][0]])
    pairs["getArticulationData"] = (
        physx.get_articulation_data(fleet, scene, [1, 0], ReadType.JOINT_POSITION),
        [written["JOINT_POSITION"][0], Q],
    )
    return pairs


@pytest.mark.slow
def test_the_direct_gpu_api() -> None:
    articulation = machine(coupled=True)
    fleet = artix.Fleet([articulation] * 2)
    states = fleet.stack_states([state()] * 2)
    maxima = physx.get_articulation_gpu_api_max_counts(fleet)
    counts = physx.ArticulationGPUAPIMaxCounts(2, 3, 1, 3, 1, 2)

    @jax.jit
    def compute(states):
        return {
            operation.name: physx.compute_articulation_data(fleet, states, [1], operation)
            for operation in ComputeType
        }

    found = compute(states)
    links = found["UPDATE_KINEMATIC"]
    wide, center = np.zeros(8), CENTER[None]
    wide[:2] = WEIGHT
    pairs = _read_and_written(fleet, physx.create_fleet_simulation(fleet, states)) | {
        "computeArticulationData": (found["MASS_MATRICES"].shape, (1, 64)),
        "getArticulationGPUAPIMaxCounts": (maxima == counts, True),
        "PxArticulationGPUAPIMaxCounts": (maxima.max_links, 3),
        "eUPDATE_KINEMATIC": (
            jnp.concatenate([links.link_linear_velocity, links.link_angular_velocity], axis=-1)[0],
            VELOCITY,
        ),
        "eDENSE_JACOBIANS": (
            found["DENSE_JACOBIANS"],
            np.pad(JACOBIAN.ravel(), (0, 8 * 18 - 24))[None],
        ),
        "eGENERALIZED_MASS_MATRICES": (found["GENERALIZED_MASS_MATRICES"], MASS.ravel()[None]),
        "eGENERALIZED_GRAVITY_FORCES": (found["GENERALIZED_GRAVITY_FORCES"], WEIGHT[None]),
        "eCORIOLIS_AND_CENTRIFUGAL_FORCES": (
            found["CORIOLIS_AND_CENTRIFUGAL_FORCES"],
            np.zeros((1, 2)),
        ),
        "eMASS_MATRICES": (found["MASS_MATRICES"], np.pad(MASS.ravel(), (0, 60))[None]),
        "eCORIOLIS_AND_CENTRIFUGAL_COMPENSATION": (
            found["CORIOLIS_AND_CENTRIFUGAL_COMPENSATION"],
            np.zeros((1, 8)),
        ),
        "eGRAVITY_COMPENSATION": (found["GRAVITY_COMPENSATION"], wide[None]),
        "eARTICULATION_COMS_WORLD_FRAME": (found["ARTICULATION_COMS_WORLD_FRAME"], center),
        "eARTICULATION_COMS_ROOT_FRAME": (found["ARTICULATION_COMS_ROOT_FRAME"], center - ROOT[:3]),
        "eCENTROIDAL_MOMENTUM_MATRICES": (
            found["CENTROIDAL_MOMENTUM_MATRICES"],
            np.zeros(64 + 8 + 48 + 6),
        ),
    }
    _walk("Direct-GPU API", pairs)


def test_the_enumerations() -> None:
    """Each entry does something: what it names is what a call that takes or gives it means by
    it."""
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(mass=1.0)
    drives = [Drive(stiffness=1.0), None, Drive(damping=1.0, acceleration=True)]
    builder.add_link(
        0, Joint.spherical(limits=[None, (-1, 1), None], drive=drives, name="ball"), mass=1.0
    )
    articulation = builder.build()
    motions = tuple(
        physx.get_motion(articulation, "ball", axis).name for axis in physx.ArticulationAxis
    )
    types = tuple(
        physx.get_drive_type(articulation, "ball", axis).name for axis in physx.ArticulationAxis
    )
    simulation = physx.create_simulation(articulation)
    pairs: Pairs = {
        "PxArticulationAxis": (articulation.topology.dof_axis, [0, 1, 2]),
        "PxArticulationMotion": (
            motions,
            ("FREE", "LIMITED", "FREE", "LOCKED", "LOCKED", "LOCKED"),
        ),
        "PxArticulationJointType": (articulation.topology.joint_types[1].name, "SPHERICAL"),
        "PxArticulationFlag": (
            simulation.articulation_flags.name,
            "FIX_BASE|DRIVE_LIMITS_ARE_FORCES",
        ),
        "PxArticulationDriveType": (
            types,
            ("FORCE", "NONE", "ACCELERATION", "NONE", "NONE", "NONE"),
        ),
        "PxArticulationKinematicFlag": (
            physx.update_kinematic(
                simulation, ArticulationKinematicFlag(3)
            ).report.joint_acceleration,
            np.zeros(3),
        ),
        "PxArticulationCacheFlag": (Flag.ALL & Flag.FORCE == 0, True),
        "PxArticulationGPUAPIReadType": (len(ReadType), 19),
        "PxArticulationGPUAPIWriteType": (len(WriteType), 14),
        "PxArticulationGPUAPIComputeType": (len(ComputeType), 11),
    }
    _walk("Enumerations", pairs)
