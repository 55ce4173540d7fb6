"""Sensors against MuJoCo's sensors of the same robot; heights against the terrain's own."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import envs
from artix.envs import observations, terrain
from artix.envs.tasks.quadruped_velocity import FEET, ROUGH_REWARDS
from benchmarks.environments import MjxQuadruped

SENSORS = {
    "velocimeter": mujoco.mjtSensor.mjSENS_VELOCIMETER,
    "gyro": mujoco.mjtSensor.mjSENS_GYRO,
    "framezaxis": mujoco.mjtSensor.mjSENS_FRAMEZAXIS,
}


@pytest.fixture(scope="module")
def robot():
    return artix.robots.load("quadruped", dtype="float64")


@pytest.fixture(scope="module")
def model(robot, tmp_path_factory):
    path = tmp_path_factory.mktemp("robot") / "quadruped.xml"
    artix.save(robot, path)
    spec = mujoco.MjSpec.from_file(str(path))
    spec.body("imu").add_site(name="imu")
    for name, kind in SENSORS.items():
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="imu")
    for foot in FEET:
        spec.body(foot).add_site(name=foot)
        kind = mujoco.mjtSensor.mjSENS_FRAMELINVEL
        spec.add_sensor(name=foot, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=foot)
    return spec.compile()


@pytest.mark.slow
def test_sensors_agree_with_those_of_mujoco(robot, model):
    coordinates = artix.MujocoCoordinates(robot, model)

    @jax.jit
    def seen(state):
        return {
            "velocimeter": observations.linear_velocity(robot, state, "imu"),
            "gyro": observations.angular_velocity(robot, state, "imu"),
            "framezaxis": observations.up_vector(robot, state, "imu"),
            "feet": observations.frame_velocities(robot, state, FEET),
            "places": observations.frame_positions(robot, state, FEET),
            "gravity": observations.projected_gravity(robot, state, "imu"),
        }

    for seed in range(5):
        state = artix.random_state(robot, jax.random.key(seed))
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = coordinates.qpos_qvel(state, model.qpos0)
        mujoco.mj_forward(model, data)
        found = seen(state)
        for name in SENSORS:
            np.testing.assert_allclose(found[name], data.sensor(name).data, atol=1e-11)
        np.testing.assert_allclose(
            found["feet"], [data.sensor(foot).data for foot in FEET], atol=1e-11
        )
        np.testing.assert_allclose(
            found["places"], [data.site(foot).xpos for foot in FEET], atol=1e-11
        )
        axes = data.site("imu").xmat.reshape(3, 3)
        np.testing.assert_allclose(found["gravity"], axes.T @ [0, 0, -1], atol=1e-11)


@pytest.mark.slow
def test_the_peer_of_the_benchmark_sees_and_rewards_the_same():
    """Of one state: ours by artix, the benchmark's by MuJoCo."""
    task = envs.make(
        "quadruped_velocity", dtype="float64", gait_frequency=None, rewards=ROUGH_REWARDS
    )
    peer, robot = MjxQuadruped(task), task.articulation
    coordinates = artix.MujocoCoordinates(robot, peer.model)
    is_compared = np.arange(119) // 3 != 51 // 3  # all but the accelerometer's

    @jax.jit
    def ours(state, impulse, memory, action, drawn):
        transition = envs.Transition(
            robot, task.ground, state, state, impulse, memory, action, drawn
        )
        gait, first_contact = task.gait(transition)
        after = memory | {"gait": gait.landed()}
        return (
            task.signals(transition, gait, first_contact),
            after,
            task.observe(transition.replace(memory=after)),
        )

    numbers_of_contacts = set()
    for seed in range(4):
        keys = jax.random.split(jax.random.key(seed), 4)
        state = artix.random_state(robot, keys[0])
        state = state.replace(root_pose=state.root_pose.at[2].set(0.1))
        action, drawn = jax.random.uniform(keys[1], (12,), minval=-1, maxval=1), task.draw(keys[3])
        memory = task.begin(keys[2])[1] | {"last_action": action}
        data = mujoco.MjData(peer.model)
        data.qpos[:], data.qvel[:] = coordinates.qpos_qvel(state, peer.model.qpos0)
        data.ctrl[:] = task.target(action)
        mujoco.mj_forward(peer.model, data)
        theirs = peer.signals(data, memory, action)
        touches = np.asarray(theirs["contact"])
        numbers_of_contacts.add(int(touches.sum()))
        impulse = np.outer(touches, [0.0, 0.0, 1.0])
        signals, after, seen = ours(state, impulse, memory, action, drawn)
        for name in set(theirs) - {"gravity"}:
            np.testing.assert_allclose(signals[name], theirs[name], atol=1e-10, err_msg=name)
        wanted = peer.observe(theirs, after, drawn["noise"], data)
        np.testing.assert_allclose(seen["state"], wanted["state"], atol=1e-10)
        one, other = (x["privileged_state"][is_compared] for x in (seen, wanted))
        np.testing.assert_allclose(one, other, atol=1e-10)
    assert len(numbers_of_contacts) > 1


def test_an_accelerometer_feels_what_accelerates(robot):
    """Between two states of a root that accelerates, turned by 90 degrees about z."""
    half = np.sqrt(0.5)
    turned = artix.neutral_state(robot).replace(root_pose=jnp.array([0.0, 0, 0, 0, 0, half, half]))
    later = turned.replace(root_velocity=jnp.array([0.02, 0.0, 0.01, 0, 0, 0]))
    found = observations.accelerometer(robot, turned, later, 0.01, "imu")
    np.testing.assert_allclose(found, [0.0, -2.0, 1.0 + 9.81], atol=1e-12)


def test_drives_are_springs_and_dampers_with_limits(robot):
    every = jnp.ones(12)
    drive = robot.drive.replace(stiffness=30 * every, damping=2 * every, max_force=10 * every)
    state = artix.neutral_state(robot).replace(joint_velocity=0.5 * every)
    found = observations.drive_forces(robot.replace(drive=drive), state, jnp.linspace(-1, 1, 12))
    np.testing.assert_allclose(found, np.clip(30 * np.linspace(-1, 1, 12) - 1, -10, 10), atol=1e-12)


@pytest.mark.parametrize(
    ("resistance", "fastest", "gradient"), [(0, np.inf, 0), (0.5, 1.5, 0.2), (0, 0.6, 0.1)]
)
def test_forces_of_motors_are_within_their_envelopes(resistance, fastest, gradient):
    """The momentum that a step adds, over its length, is the force of the only motor."""
    pole = artix.robots.load("cart_pole", dtype="float64")
    numbers = {
        "max_effort": [4.0, np.inf],
        "max_actuator_velocity": [fastest, np.inf],
        "velocity_dependent_resistance": [resistance, 0.0],
        "speed_effort_gradient": [gradient, 0.0],
    }
    gains = {"stiffness": [200.0, 0.0], "damping": [3.0, 0.0], "max_force": [30.0, 1.0]}
    pole = pole.replace(
        gravity=jnp.zeros(3),
        drive=pole.drive.replace(**{name: jnp.array(each) for name, each in gains.items()}),
        envelope=pole.envelope.replace(**{name: jnp.array(each) for name, each in numbers.items()}),
    )
    target, dt, state = jnp.array([1.0, 0.0]), 1e-3, artix.neutral_state(pole)
    forces = []
    for _ in range(100):
        end = artix.step(pole, state, artix.Control(drive_target=target), dt)
        momenta = [
            (artix.mass_matrix(pole, each) @ each.joint_velocity)[0] for each in (state, end)
        ]
        forces.append(
            ((momenta[1] - momenta[0]) / dt, observations.drive_forces(pole, end, target)[0])
        )
        state = end
    forces = np.array(forces)
    np.testing.assert_allclose(forces[:, 1], forces[:, 0], rtol=1e-3)
    assert forces[:, 1].max() <= 4
    assert resistance == gradient == 0 or forces.min() < 3.9


def test_a_scan_sees_the_slope_that_the_robot_faces(robot):
    field = artix.HeightField.of(
        0.2 * np.arange(40)[:, None] * np.ones(40), spacing=(0.1, 0.1), dtype="float64"
    )
    ground = artix.Ground((field,))
    half = np.sqrt(0.5)
    state = artix.neutral_state(robot).replace(
        root_pose=jnp.array([2.0, 2.0, 5.0, 0, 0, half, half])
    )
    points = jnp.array([[0.3, 0.0], [0.0, 0.3]])  # turned by 90 degrees: along y, and against x
    np.testing.assert_allclose(
        observations.height_scan(ground, state, points),
        [5 - 2 * 2.0, 5 - 2 * (2.0 - 0.3)],
        atol=1e-12,
    )


@pytest.mark.parametrize("kind", terrain.KINDS)
def test_tiles_are_level_where_robots_begin_and_become_harder(kind):
    field = terrain.tiles((kind,), levels=3, columns=2, size=6.0, dtype="float64")
    heights = np.asarray(field.field.heights).reshape(3, 60, 2, 60)
    spread = np.ptp(heights, axis=(1, 3))
    assert np.all((spread[0] < spread[1]) & (spread[1] < spread[2]) & (spread[2] < 2.0))
    if kind != "rough":  # Neighbours meet without cliffs.
        edges = heights[:, [0, -1]], heights[..., [0, -1]]
        assert all(np.abs(edge).max() <= (0.15 if kind == "obstacles" else 1e-12) for edge in edges)
    middle = np.ptp(heights[:, 27:33, :, 27:33], axis=(1, 3))
    assert np.all(middle <= (0.16 + 1e-9 if kind == "rough" else 1e-12))
    assert field.centers[2, 1].tolist() == pytest.approx([2 * 6.0 + 2.95, 6.0 + 2.95])


def test_unknown_terrain_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no terrain called 'lava'.*stairs"):
        terrain.tiles(("lava",))


@pytest.mark.parametrize("given", [{"levels": 0}, {"columns": 0}, {"kinds": ()}, {"size": 0.05}])
def test_terrain_without_tiles_is_refused(given):
    with pytest.raises(ValueError, match=r"at least one kind|two spacings"):
        terrain.tiles(**given)
