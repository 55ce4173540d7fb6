"""``artix export`` and ``artix verify``: a policy in other runtimes and another simulator."""

import functools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import onnxruntime
import pytest

import artix
from artix import envs
from artix.cli import main, verify
from artix.cli.play import load_played
from artix.envs import deployment, observations
from artix.envs.gait import gait_statistics
from artix.envs.observation_terms import ObservationTerm
from artix.envs.tasks.humanoid import humanoid
from artix.envs.tasks.legged import OBSERVATIONS
from artix.examples import deploy_mujoco, policies
from tests.support.oracles import ROBOTS
from tests.support.users_types import users_types

FILES = {"policy.stablehlo", "policy.onnx", "policy.json", "scene.xml", "deploy_mujoco.py"}


@pytest.fixture(scope="module", autouse=True)
def _as_users_have_it():
    with users_types():
        yield


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    assert main(["export", "quadruped_velocity", "--output", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_what_is_exported(exported):
    assert {path.name for path in exported.iterdir()} == FILES
    description = json.loads((exported / "policy.json").read_text())
    task = envs.make("quadruped_velocity")
    assert description["joints"] == list(task.articulation.topology.dof_names)
    assert description["observation"]["size"] == task.observation_size["state"] == 50
    assert description["limits"]["force"][0] == 28.0
    assert (description["dt"], description["friction"], description["imu"]) == (0.02, 0.8, "imu")


def test_the_onnx_policy_is_the_policy(exported):
    """On observations as in training; ONNX Runtime and XLA sum in different orders."""
    policy = policies.load("quadruped_velocity")
    mean, deviation = (
        np.asarray(policy.observed.mean),
        np.sqrt(np.asarray(policy.observed.variance)),
    )
    obs = mean + deviation * np.random.default_rng(0).normal(size=(256, 50)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(exported / "policy.onnx"))
    (found,) = session.run(None, {"obs": obs})
    np.testing.assert_allclose(found, policy(obs), atol=1e-6)
    assert np.abs(found).max() > 0.5


def test_the_scene_runs_in_the_order_of_the_action(exported):
    model = mujoco.MjModel.from_xml_path(str(exported / "scene.xml"))
    description = json.loads((exported / "policy.json").read_text())
    assert [model.actuator(k).name for k in range(model.nu)] == description["joints"]
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("default").id)
    np.testing.assert_allclose(data.ctrl, description["default_position"])
    for _ in range(2000):  # 4 s
        mujoco.mj_step(model, data)
    # It stands; its drives give way.
    assert data.qpos[2] == pytest.approx(description["height"], abs=0.06)
    up = deploy_mujoco.rotated_back(data.sensor("imu_quat").data, np.array([0, 0, 9.81]))
    np.testing.assert_allclose(data.sensor("imu_accelerometer").data, up, atol=0.2)
    assert data.sensor("front_left_foot_position").data[2] == pytest.approx(0.02, abs=0.02)
    ends = [model.actuator(k).ctrlrange for k in range(model.nu)]
    np.testing.assert_allclose(
        np.ptp(ends, axis=1), 2 * np.array(description["action"]["scale"]), rtol=1e-6
    )


def test_the_script_needs_neither_artix_nor_jax(exported):
    code = (
        "import runpy, sys; sys.argv = ['deploy', '--command', '1', '0', '0', '--seconds', '2'];"
        "runpy.run_path('deploy_mujoco.py', run_name='__main__');"
        "assert not {'artix', 'jax', 'jaxlib'} & set(sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=exported,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "it did not fall" in run.stdout
    assert 1.5 < float(run.stdout.split(" at x ")[1].split()[0]) < 2.2


@pytest.mark.slow
def test_the_script_walks_as_artix_does(exported):
    """The exported policy in MuJoCo with stiff contacts, and artix's own rollout of the policy that
    was exported."""
    task, policy = envs.make("quadruped_velocity"), policies.load("quadruped_velocity")
    told = {"forward": np.tile([1.0, 0.0, 0.0], (100, 1)), "stand": np.zeros((100, 3))}
    artix = verify.in_artix(task, policy, told)
    description = json.loads((exported / "policy.json").read_text())
    model = deploy_mujoco.load_scene(exported / "scene.xml", 0.001, stiff=True)
    act = deploy_mujoco.onnx_policy(exported / "policy.onnx")
    for run, commands in told.items():
        found = deploy_mujoco.run(model, description, act, lambda _, c=commands: c[0], 2.0)
        wanted = artix[run]
        assert {name: value.shape for name, value in found.items()} == {
            k: v.shape for k, v in wanted.items()
        }
        # The first control step, before any chaos of contacts: 2 mm and 0.05 rad.
        np.testing.assert_allclose(found["root_pose"][0, :3], wanted["root_pose"][0, :3], atol=2e-3)
        np.testing.assert_allclose(
            found["joint_position"][0], wanted["joint_position"][0], atol=0.05
        )
        ways = [gait_statistics(each, 0.02, 137.0)["distance"] for each in (found, wanted)]
        assert ways[0] == pytest.approx(ways[1], rel=0.03, abs=0.1)
        heights = [each["root_pose"][25:, 2].mean() for each in (found, wanted)]
        assert heights[0] == pytest.approx(heights[1], abs=0.005)
    work = [np.maximum(each["joint_work"], 0).sum() for each in (found, wanted)]
    assert work[0] == pytest.approx(work[1], rel=0.5)


@pytest.mark.slow
def test_the_script_sees_what_the_task_observes():
    """Every term, with scale, history and clock, over some steps of random actions."""
    seen = {
        **OBSERVATIONS,
        "gyro": ObservationTerm(scale=0.25, history=3),
        "last_action": ObservationTerm(history=2),
    }
    task = envs.make("quadruped_velocity", observations=seen, gait_frequency=1.7).undisturbed()
    robot, reset, step = task.articulation, jax.jit(task.reset), jax.jit(task.step)
    state = reset(jax.random.key(0))
    actions = iter(np.random.default_rng(0).uniform(-0.3, 0.3, (6, 12)))
    wrong = []

    def policy(obs):
        wrong.append(float(np.abs(obs - np.asarray(state.obs["state"])).max()))
        return next(actions)

    controller = deploy_mujoco.Controller(deployment.describe(task), policy)
    for _ in range(6):
        where = state.articulation_state
        measured = {
            "linear_velocity": observations.linear_velocity(robot, where, "imu"),
            "gyro": observations.angular_velocity(robot, where, "imu"),
            "quaternion": where.root_pose[jnp.array([6, 3, 4, 5])],
            "joint_position": where.joint_position,
            "joint_velocity": where.joint_velocity,
        }
        command = np.asarray(state.info["command"])
        target = controller.targets(
            {name: np.asarray(value, float) for name, value in measured.items()}, command
        )
        np.testing.assert_allclose(
            target, task.target(jnp.asarray(controller.last_action)), atol=1e-6
        )
        state = step(state, jnp.asarray(controller.last_action, robot.dtype))
    assert max(wrong) < 1e-5


@pytest.mark.slow
def test_verify_prints_a_table_and_draws(tmp_path, capsys):
    assert (
        main(
            [
                "verify",
                "quadruped_velocity",
                "--seconds",
                "1",
                "--output",
                str(tmp_path / "out.png"),
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert all(
        word in out for word in ("forward", "in turn", "MuJoCo, stiff", "duty FL FR RL RR", "CoT")
    )
    assert out.count("artix, 1 ms") == 9  # eight commands, and what paths are compared with
    assert "paths of forward, fast, backward, left" in out
    assert (tmp_path / "out.png").stat().st_size > 30_000


@pytest.mark.slow
def test_with_short_steps_a_policy_walks_as_far_as_in_mujoco():
    """1 m/s ahead for 4 s: artix's steps of 4 ms make a difference, MuJoCo hardly any."""
    environment, policy = envs.make("quadruped_velocity"), policies.load("quadruped_velocity")
    runs = {"forward": np.tile([1.0, 0.0, 0.0], (200, 1))}
    finer = verify.with_physics_step(environment, 0.001)
    assert (finer.physics_dt, environment.physics_dt) == (0.001, 0.004)
    results = [verify.in_artix(each, policy, runs)["forward"] for each in (environment, finer)]
    there = verify.in_mujoco(environment, policy, runs)["MuJoCo, stiff"]["forward"]
    long, short, elsewhere = (verify._length(each) for each in (*results, there))
    assert abs(long - short) > abs(elsewhere - short)
    assert elsewhere == pytest.approx(short, rel=0.02)


def test_paths_are_compared_in_percent():
    def walks(*lengths):
        names = ("forward", "left", "stand")
        return {
            name: {"root_pose": np.linspace([0.0] * 7, [0.6 * way, 0.8 * way, *[0.0] * 5], 5)}
            for name, way in zip(names, lengths, strict=True)
        }

    results = {
        "artix": walks(10.0, 4.0, 1.0),
        "artix, 1 ms": walks(10.5, 4.0, 1.0),
        "MuJoCo, stiff": walks(10.5, 4.2, 2.0),
        "MuJoCo, default": walks(9.0, 4.0, 0.5),
    }
    head, _, stiff, default = verify.path_differences(results).splitlines()
    assert head.split("  ")[1] == "paths of forward, left"
    assert " ".join(stiff.split()) == "MuJoCo, stiff +5.0 to +5.0 % +0.0 to +5.0 %"
    assert " ".join(default.split()) == "MuJoCo, default -10.0 to +0.0 % -14.3 to +0.0 %"
    del results["artix, 1 ms"]
    assert "1 ms" not in verify.path_differences(results)
    results["artix"] = walks(0.0, 0.05, 0.0)
    assert verify.path_differences(results) == ""


@pytest.mark.slow
def test_a_g1_turns_on_the_spot_in_both_simulators():
    if not ROBOTS.exists():
        pytest.skip("example-robot-data is not installed")
    _, environment, policy = load_played("g1_velocity")
    runs = {"turn": np.tile([0.0, 0.0, 0.64], (300, 1))}
    results = {
        "artix": verify.in_artix(environment, policy, runs),
        **verify.in_mujoco(environment, policy, runs),
    }
    for where, records in results.items():
        record = records["turn"]
        assert not verify.has_fallen(environment, record), where
        assert 0.3 < np.mean(record["angular_velocity"][100:, 2]) < 0.8, where
        assert np.linalg.norm(record["root_pose"][-1, :2]) < 0.6, where


@pytest.mark.slow
def test_a_former_export_does_not_stay_beside_another_policy(tmp_path, monkeypatch):
    """What was there for a robot would drive it with a policy that is another one's."""
    (tmp_path / "scene.xml").write_text("my own")
    assert main(["export", "arm_reach", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "scene.xml").read_text() == "my own"
    assert main(["export", "quadruped_velocity", "--output", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == FILES
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", "arm_reach", "--output", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"policy.stablehlo"}


def test_motors_with_an_envelope_have_its_largest_force():
    """Their drives have no other limit."""
    robot = envs.make("quadruped_velocity").robot
    effort = jnp.where(jnp.arange(12) < 4, 9.0, jnp.inf)
    envelope = robot.articulation.envelope.replace(
        max_effort=effort.astype("float32"),
        speed_effort_gradient=jnp.full(12, 0.5, "float32"),
    )
    robot = robot._replace(articulation=robot.articulation.replace(envelope=envelope))
    task = envs.make("quadruped_velocity", robot=robot)
    description = deployment.describe(task)
    assert description["limits"]["force"] == 4 * [9.0] + 4 * [28.0] + 4 * [40.0]
    assert description["envelope"]["max_effort"] == 4 * [9.0] + 8 * [None]
    assert description["envelope"]["speed_effort_gradient"] == 12 * [0.5]
    model = mujoco.MjModel.from_xml_string(deployment.scene(task))
    np.testing.assert_allclose(model.actuator_forcerange[:, 1], description["limits"]["force"])
    assert deployment.describe(envs.make("quadruped_velocity"))["envelope"] is None


@pytest.mark.slow
def test_a_scene_has_steps_that_divide_the_control_period():
    task = envs.make("quadruped_velocity", dt=0.015, physics_dt=0.005)
    model = mujoco.MjModel.from_xml_string(deployment.scene(task))
    assert model.opt.timestep == 0.001875
    told = deployment.describe(task), lambda _: np.zeros(12), lambda _: np.zeros(3)
    assert len(deploy_mujoco.run(model, *told, 0.15)["time"]) == 10
    still = {"stand": np.zeros((2, 3))}
    policy = functools.partial(jnp.zeros, 12, "float32")
    there = verify.in_mujoco(task, lambda _: policy(), still)
    fine = verify.with_physics_step(task, deployment.dividing_step(task.dt, verify.FINE_STEP))
    here = verify.in_artix(fine, lambda _: policy(), still)
    for each in (*there.values(), here):
        assert len(each["stand"]["time"]) == 2


def test_a_term_of_the_users_is_no_sensor_of_its_name():
    """The script would measure artix's term of that name, in silence."""

    def gyro(angular_velocity):
        return 0.1 * angular_velocity

    seen = {**OBSERVATIONS, "gyro": ObservationTerm(function=gyro)}
    description = deployment.describe(envs.make("quadruped_velocity", observations=seen))
    told = {each["name"]: each.get("function") for each in description["observation"]["terms"]}
    assert told.pop("gyro").endswith("gyro")
    assert not any(told.values())
    with pytest.raises(ValueError, match=r"the policy sees gyro, which deploy_mujoco\.py"):
        deploy_mujoco.Controller(description, lambda obs: obs)


@pytest.mark.slow
def test_a_history_of_commands_is_that_of_the_robot():
    """In artix, the policy remembered a command that no one gave, and one less of each new one."""
    seen = {"command": ObservationTerm(scale=2.0, history=3)}
    task = envs.make("quadruped_velocity", observations=seen, gait_frequency=None, rewards={})
    told = {"in turn": np.repeat([[1.0, 0, 0], [0, 0.5, 0]], 3, axis=0)}
    controller = deploy_mujoco.Controller(deployment.describe(task), lambda _: np.zeros(12))
    rest = {"joint_position": np.zeros(12), "joint_velocity": np.zeros(12), "gyro": np.zeros(3)}
    rest |= {"linear_velocity": np.zeros(3), "quaternion": np.array([1.0, 0, 0, 0])}
    wanted = [controller.observation(rest, command) for command in told["in turn"]]

    def policy(obs):
        return 0.05 * jnp.concatenate([obs["state"], jnp.zeros(3, "float32")])

    record = verify.in_artix(task, policy, told)["in turn"]
    drive, rest = task.articulation.drive, np.asarray(task.robot.default_position)
    # What the policy saw, from its targets, and those from the forces of the drives.
    target = record["joint_position"] + (
        record["joint_force"] + np.asarray(drive.damping) * record["joint_velocity"]
    ) / np.asarray(drive.stiffness)
    shown = (target - rest) / 0.5 / 0.05
    np.testing.assert_allclose(shown[:, :9], wanted, atol=1e-3)


def test_feet_with_flat_soles_are_balls_at_their_corners():
    robot = humanoid("float32")
    kept = [
        shape.name for shape in robot.articulation.topology.geometries if shape.name != "left_foot"
    ]
    builder = artix.builder_from_articulation(artix.select_geometry(robot.articulation, kept))
    corners = [[0.1, 0.04, -0.03], [0.1, -0.04, -0.03], [-0.05, 0.04, -0.03], [-0.05, -0.04, -0.03]]
    builder.add_geometry("left_foot", artix.Geometry.hull(corners), name="left_foot")
    robot = robot._replace(articulation=builder.build(dtype="float32"))
    model = mujoco.MjModel.from_xml_string(
        deployment.scene(envs.make("humanoid_velocity", robot=robot))
    )
    assert model.nu == 25
    names = {model.geom(k).name for k in range(model.ngeom)}
    assert {f"left_foot_{k}" for k in range(4)} | {"right_foot", "floor"} <= names
    np.testing.assert_allclose(model.geom("left_foot_0").pos, corners[0])
    body = deploy_mujoco.body_of(model, "left_foot")
    assert (
        model.body(body).name == "left_foot" == model.body(model.geom("left_foot_2").bodyid[0]).name
    )


@pytest.mark.slow
def test_what_has_no_scene_is_said(tmp_path, capsys, monkeypatch):
    assert main(["verify", "arm_reach"]) == 1
    assert "only legged robots that follow velocity commands" in capsys.readouterr().err
    assert main(["verify", "quadruped_rough", "--seconds", "1"]) == 1
    assert (
        "the policy sees height_scan, which deploy_mujoco.py does not measure"
        in capsys.readouterr().err
    )
    assert main(["export", "arm_reach", "--output", str(tmp_path / "arm")]) == 0
    assert {path.name for path in (tmp_path / "arm").iterdir()} == {
        "policy.onnx",
        "policy.stablehlo",
    }
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert main(["verify", "quadruped_velocity"]) == 1
    assert "MuJoCo is not installed: pip install 'artix[mjcf]'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", "arm_reach", "--output", str(tmp_path / "other")]) == 0
    assert (
        "no policy.onnx: the export as ONNX needs onnx: pip install 'artix[rl]'"
        in capsys.readouterr().out
    )
    (tmp_path / "file").write_text("")
    assert main(["export", "arm_reach", "--output", str(tmp_path / "file")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["verify", "quadruped_velocity", "--seconds", "-1"])
    assert "must be a time in seconds" in capsys.readouterr().err
    with pytest.raises(TypeError, match="only tasks of legged robots"):
        deployment.describe(envs.make("cart_pole"))


def test_statistics_of_a_gait_that_is_known():
    dt, time = 0.01, np.arange(0.0, 4.0, 0.01)
    phase = 2 * np.pi * 2.5 * time[:, None] + np.array([0.0, np.pi])
    down = np.sin(phase) > 0.0
    lift = np.where(down, 0.0, -0.08 * np.sin(phase))
    place, speed = np.zeros((400, 2, 3)), np.zeros((400, 2, 3))
    place[..., 2], speed[..., 0] = 0.02 + lift, np.where(down, 0.03, 1.0)
    pose = np.zeros((400, 7))
    pose[:, 0], pose[:, 2] = 0.8 * time, 0.3
    record = {
        "root_pose": pose,
        "velocity": np.tile([0.8, 0.0, 0.0], (400, 1)),
        "angular_velocity": np.tile([0.0, 0.0, 0.1], (400, 1)),
        "command": np.tile([1.0, 0.0, 0.0], (400, 1)),
        "joint_velocity": np.tile([2.0, -2.0], (400, 1)),
        "joint_force": np.tile([10.0, 5.0], (400, 1)),
        "contact": down,
        "feet_position": place,
        "feet_velocity": speed,
    }
    found = gait_statistics(record, dt, weight=100.0, transient=0.0)
    assert found["distance"] == pytest.approx(0.8 * 3.99)
    assert found["displacement"] == pytest.approx(0.8 * 3.99)
    assert (found["velocity_error"], found["yaw_rate_error"]) == (
        pytest.approx(0.2),
        pytest.approx(0.1),
    )
    np.testing.assert_allclose(found["duty"], 0.5, atol=0.02)
    assert found["stride_frequency"] == pytest.approx(2.5, rel=0.06)
    # 20 W of positive work at 0.8 m/s and 100 N.
    assert found["cost_of_transport"] == pytest.approx(20.0 / (100.0 * 0.8), rel=0.01)
    assert found["torque_peak"].tolist() == [10.0, 5.0]
    assert found["slip"] == pytest.approx(0.03)
    np.testing.assert_allclose(found["clearance"], 0.08, atol=1e-3)
    still = gait_statistics(
        {**record, "root_pose": 0 * pose, "contact": np.ones((400, 2))}, dt, weight=100.0
    )
    assert np.isinf(still["cost_of_transport"]) and still["clearance"].tolist() == [0.0, 0.0]
    # A trunk that sways by 5 mm where it stands has a path, but ends where it began.
    sway = 0 * pose
    sway[:, 1] = 0.005 * np.sin(2 * np.pi * np.arange(400) / 399 * 5)
    swaying = gait_statistics({**record, "root_pose": sway}, dt, weight=100.0)
    assert swaying["distance"] == pytest.approx(20 * 0.005, rel=1e-2)
    assert swaying["displacement"] < 1e-12
