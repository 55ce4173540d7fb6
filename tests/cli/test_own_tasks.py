"""``artix train`` with a robot or a task of the user's own, and with changed settings."""

import csv
import dataclasses
import json
import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.cli import main, names, training_tasks
from artix.cli import train as command
from artix.cli.names import INSTALLABLE
from artix.cli.play import load_played
from artix.cli.robot_source import description_path
from artix.cli.text import CommandFailure
from artix.cli.training_files import TrainingFiles, load_rows, save_curve
from artix.cli.training_tasks import (
    changed_config,
    parse_assignments,
    robot_options,
    split,
    task_named,
    task_of,
    task_options,
)
from artix.envs.observation_terms import ObservationTerm
from artix.envs.tasks.humanoid import humanoid
from artix.envs.tasks.legged import OBSERVATIONS
from artix.envs.tasks.quadruped_velocity import REWARDS, quadruped
from artix.examples import policies, ppo
from tests.support.oracles import ROBOTS
from tests.support.users_types import users_types

#: A pose, so that no inverse kinematics is needed.
POSE = 'robot.default_position={"hip_roll": 0, "hip_pitch": 0.9, "knee": -1.8}'

FILE = """
from artix.examples import ppo
from tests.support.point_mass import PointMass

config = ppo.Config(num_envs=8, unroll=16, minibatches=2, policy_layers=(8,), critic_layers=(8,))
steps = 256


def make(episode_length=30):
    return PointMass(episode_length=episode_length)
"""


@pytest.fixture(autouse=True)
def _as_users_have_it():
    with users_types():
        yield


def test_values_are_read():
    texts = (
        "a=1",
        "b.c=0.5",
        "d=1,0.4,0.8",
        "e=[1, 2]",
        "f=true",
        "g=FL_foot,FR_foot",
        "h=none",
        'i={"knee": 2}',
        "j=-inf",
    )
    values = [one.value for one in parse_assignments(texts)]
    assert values == [
        1,
        0.5,
        (1, 0.4, 0.8),
        [1, 2],
        True,
        ("FL_foot", "FR_foot"),
        None,
        {"knee": 2},
        -math.inf,
    ]
    for wrong in ("a", "=1", "a..b=1"):
        with pytest.raises(CommandFailure, match="expected KEY=VALUE"):
            parse_assignments([wrong])


def test_settings_of_the_learner():
    config = changed_config(
        ppo.Config(),
        parse_assignments(["ppo.epochs=2", "ppo.policy_layers=32,32", "ppo.discount=1"]),
    )
    assert config == dataclasses.replace(ppo.Config(), epochs=2, policy_layers=(32, 32), discount=1)
    for text, message in (
        ("ppo.epoch=2", "did you mean ppo.epochs"),
        ("ppo.epochs=2.5", "expected a whole number"),
        ("ppo.clip=yes", "expected a number"),
        ("ppo.unroll=0", "unroll must be at least 1"),
        ("ppo.epochs=none", "expected a whole number"),
        ("ppo.policy_layers=32,-3", "policy_layers must be whole numbers of at least 1"),
        ("ppo.critic_layers=a,b", "critic_layers must be whole numbers of at least 1"),
        ("ppo.policy_layers=none", "policy_layers must be whole numbers of at least 1"),
        ("ppo.value_cost=NaN", "value_cost must be finite"),
        ("ppo.seed=1e30", "seed must be below 2"),
    ):
        with pytest.raises(CommandFailure, match=message):
            changed_config(ppo.Config(), parse_assignments([text]))


def test_set_may_be_repeated(capsys):
    assert main(["train", "cart_pole", "--set", "ppo.epoch=1", "force=2", "--set", "force=1"]) == 1
    assert "did you mean ppo.epochs" in capsys.readouterr().err
    assert main(["train", "--set", "force=1", "cart_pole"]) == 1
    assert "--set 'cart_pole': expected KEY=VALUE" in (error := capsys.readouterr().err)
    assert "the task stands before" in error


def test_options_of_a_task():
    def options(*texts):
        return task_options(
            lambda **more: envs.make("quadruped_velocity", **more), {}, parse_assignments(texts)
        )

    found = options(
        "rewards.pose=1",
        "rewards.alive=0.25",
        "tracking_sigma=1",
        "velocity_commands.largest=1,0,1",
    )
    assert found["rewards"] == {**REWARDS, "pose": 1, "alive": 0.25}
    assert found["tracking_sigma"] == 1
    assert found["velocity_commands"].largest == (1, 0, 1)
    found = options(
        "pushes.mean_time=2",
        "noise_scales.gyro=0",
        "solver_options.position_iterations=3",
        "episode_length=9",
    )
    assert (found["pushes"].mean_time, found["noise_scales"]["gyro"]) == (2, 0)
    assert (found["solver_options"].position_iterations, found["episode_length"]) == (3, 9)
    assert envs.make("quadruped_velocity", **found).episode_length == 9
    found = options("velocity_commands.mean_time=2", "velocity_commands.mean_time=1.5")
    assert found["velocity_commands"].mean_time == 1.5  # as --from repeats and then changes it
    found = options(
        "gait_frequency=none", 'action_scale={"knee": 0.3, "": 0.1}', "least_reward=-inf"
    )
    assert found["gait_frequency"] is None
    made = envs.make("quadruped_velocity", **found, rewards={"pose": 1.0})
    np.testing.assert_allclose(made.action_scale, 8 * [0.1] + 4 * [0.3])
    assert made.least_reward == -math.inf
    for text, message in (
        ("rewards.poze=1", "no 'rewards.poze'; did you mean rewards.pose"),
        ("traking_sigma=1", "did you mean tracking_sigma"),
        ("pose=1", "there is no 'pose'"),
        ("velocity_commands.large=1", "did you mean velocity_commands.largest"),
        ("action_scale.x=1", "'action_scale' has no parts"),
        ("episode_length=1.5", "expected a whole number"),
    ):
        with pytest.raises(CommandFailure, match=message):
            options(text)
    assert [
        len(part) for part in split(parse_assignments(["ppo.clip=1", "robot.knees=up", "pose=1"]))
    ] == [1, 1, 1]
    with pytest.raises(CommandFailure, match=r"did you mean robot\.stiffness"):
        robot_options(parse_assignments(["robot.stifness=1"]))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("pushes=1", "expected artix.envs.disturbances.Pushes or None; found 1"),
        ("velocity_commands=1,0,1", r"expected .*VelocityCommands or a function .*\(1, 0, 1\)"),
        ("rewards=0", "rewards: expected terms by name"),
        ("solver_options=3", "solver_options must be artix.SolverOptions; found 3"),
        ("action_delay=a,b", r"action_delay needs 0 <= least <= largest"),
        ("action_delay=0,0.001", "physics steps of 0.004 s, to which 0.001 s is rounded down to"),
        ("terminations.tilted=0", "'tilted' must be True, False, None or a function"),
        ("lowest_up=2", "lowest_up: expected one number, from -1 to 1"),
        (
            "ppo.minibatches=7",
            r"a multiple of minibatches, 7; .* \(--envs, --set ppo.minibatches\)",
        ),
    ],
)
def test_values_of_the_wrong_kind_are_refused_before_training(option, message, tmp_path):
    options = {"steps": 8, "num_envs": 4, "seed": None, "resume": False}
    options |= {"output": str(tmp_path / "run"), "assignments": [option]}
    with pytest.raises(CommandFailure, match=message):
        command.train_once("quadruped_velocity", **options)
    assert not (tmp_path / "run").exists()


def test_terms_of_observations_starts_and_ends():
    def made(*texts):
        def make(**more):
            return envs.make("quadruped_velocity", **more)

        return make(**task_options(make, {}, parse_assignments(texts)))

    task = made(
        "observations.linear_velocity=none",
        "observations.gyro.history=3",
        "observations.gyro.scale=0.25",
        "observations.contact=1",
        "privileged.height=2",
        "resets.tilt=0.3",
        "resets.velocity=none",
        "terminations.tilted=none",
        "rewards.pose=none",
        "gait_frequency=2",
    )
    layout = {one.name: (one.start, one.size, one.scale, one.history) for one in task.layout}
    assert (*layout,) == (*list(OBSERVATIONS)[1:], "clock", "contact")
    assert layout["gyro"] == (0, 3, 0.25, 3) and layout["gravity"] == (9, 3, 1.0, 1)
    assert task.observation_size["state"] == 48 - 3 + 6 + 4 + 2
    assert task.observation_size["privileged_state"] == 57 + 71 + 1
    assert task.resets["tilt"][0] == 0.3 and "velocity" not in task.resets
    assert set(task.terminations) == {"trunk_contact"}
    state = jax.eval_shape(task.reset, jax.random.key(0))
    assert "reward/pose" not in state.metrics and state.info["seen"]["gyro"].shape == (3, 3)
    for text, message in (
        ("observations.giro=1", r"did you mean observations\.gyro"),
        ("observations.gyro.histry=1", r"did you mean observations\.gyro\.history"),
        ("resets.tlt=1", r"did you mean resets\.tilt"),
        ("terminations.tilt=true", r"did you mean terminations\.tilted"),
    ):
        with pytest.raises(CommandFailure, match=message):
            made(text)


def test_terms_that_do_not_exist_are_refused_by_name():
    def late(phase):
        return phase[None]

    none = {"gait_frequency": None}
    for options, kind, message in (
        (
            {"observations": {"gyroo": 1.0}},
            ValueError,
            "observations: 'gyroo' is no term; did you mean 'gyro'",
        ),
        (
            {"observations": {"mine": ObservationTerm(function=late)}, **none},
            ValueError,
            "'mine' needs phase, which this task",
        ),
        ({"observations": {"gyro": ObservationTerm(history=0)}}, ValueError, "'gyro': history"),
        (
            {"observations": {"gyro": ObservationTerm(mirror="up")}},
            ValueError,
            "mirror must be one of scalar, vector",
        ),
        ({"observations": ["gyro"]}, TypeError, "observations: expected terms by name"),
        (
            {"privileged": {"gyro": ObservationTerm(history=2)}},
            ValueError,
            "only what the policy sees has a history",
        ),
        ({"resets": {"tilts": 1.0}}, ValueError, "resets: 'tilts' is no term; did you mean 'tilt'"),
        (
            {"resets": {"tilt": -1.0}},
            ValueError,
            "resets: 'tilt': expected one number, finite and not negative",
        ),
        (
            {"terminations": {"tilt": True}},
            ValueError,
            "terminations: 'tilt' is no term; did you mean 'tilted'",
        ),
        ({"terminations": {"late": late}, **none}, ValueError, "terminations: 'late' needs phase"),
        ({"noise_scales": {"giro": 1.0}}, ValueError, "no measurement called 'giro'"),
        (
            {"curricula": {"command": 0.3}},
            ValueError,
            "curricula: 'command' is no term; did you mean 'commands'",
        ),
        (
            {"curricula": {"commands": 3.0}},
            ValueError,
            "curricula: 'commands': expected one number, from 0 to 1",
        ),
        (
            {"curricula": {"height": (0.1, late)}},
            ValueError,
            "curricula: 'height' is a signal of the task",
        ),
        ({"gait_frequency": 0.0}, ValueError, "gait_frequency .* positive"),
        (
            {"action_scale": [0.5, 0.5]},
            ValueError,
            "action_scale: expected one number, one for each of the 12",
        ),
        ({"physics_dt": 0.003}, ValueError, "dt must be a multiple of physics_dt"),
    ):
        with pytest.raises(kind, match=message):
            envs.make("quadruped_velocity", **options)
    robot = quadruped("float32")
    drive = robot.articulation.drive
    still = robot.articulation.replace(drive=drive.replace(stiffness=0 * drive.stiffness))
    with pytest.raises(ValueError, match="the drives of quadruped have no stiffness"):
        envs.make("quadruped_velocity", robot=robot._replace(articulation=still))
    each = envs.make("quadruped_velocity", action_scale={"knee": 0.25, "": 0.5})
    assert each.target(np.ones(12, np.float32))[8] == np.float32(-1.55)


def test_a_checkpoint_carries_its_robot(tmp_path, capsys):
    feet = "robot.feet=front_left_foot,front_right_foot,rear_left_foot,rear_right_foot"
    texts = [feet, POSE, "robot.stiffness=40", "lowest_up=0.4", "episode_length=7", "ppo.epochs=2"]
    trained = task_named(None, "quadruped", texts)
    assert "stiffness" in capsys.readouterr().out
    assert (trained.name, trained.folder, trained.config.epochs) == (
        "quadruped_velocity",
        "quadruped",
        2,
    )
    assert (trained.environment.lowest_up, trained.environment.tracking_sigma) == (0.4, 0.35)
    header = json.loads(json.dumps(trained.header))
    with pytest.raises(CommandFailure, match=r"its robot is missing: copy robot\.npz"):
        task_of(header, tmp_path, for_training=True)
    artix.save(trained.articulation, tmp_path / "robot.npz")
    again = task_of(header, tmp_path, for_training=True)
    same = jax.tree.map(
        np.array_equal, trained.environment.robot[:-1], again.environment.robot[:-1]
    )
    assert all(jax.tree.leaves(same))
    assert again.environment.robot.articulation.topology == trained.articulation.topology
    assert (again.config, again.header) == (trained.config, trained.header)
    played = task_of(header, tmp_path, for_training=False).environment
    assert (played.episode_length, played.lowest_up, played.tracking_sigma) == (7, 0.4, 0.25)
    # As artix view and info find it.
    assert description_path(str(tmp_path)) == tmp_path / "robot.npz"


def test_robots_are_found_by_name(monkeypatch, capsys):
    if ROBOTS.exists():
        assert all(description_path(name).is_file() for name in INSTALLABLE)
    monkeypatch.setattr(names.sys, "path", [])
    monkeypatch.setattr(names.sys, "prefix", "nowhere")
    for words in (["train", "--robot", "go2"], ["play", "g1_velocity"], ["verify", "go2_velocity"]):
        assert main(words) == 1
        assert (
            "is in the package example-robot-data: pip install example-robot-data"
            in capsys.readouterr().err
        )
    assert main(["train", "--robot", "go3"]) == 1
    assert "did you mean 'go" in capsys.readouterr().err


def test_a_built_in_policy_needs_the_robot_that_it_was_trained_with(monkeypatch, capsys):
    kept, same = policies.load_header("go2_velocity")["robot"], quadruped()
    for legged in (same, same._replace(default_position=jnp.zeros(13))):
        monkeypatch.setattr(training_tasks, "legged_robot", lambda *_, legged=legged, **__: legged)
        assert main(["play", "go2_velocity"]) == 1
        message = (
            "description of 'go2' is another one than its policy was trained with: pip install "
        )
        assert message + kept["package"] in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "trimesh", None)
    if ROBOTS.exists():
        assert main(["play", "go2_velocity"]) == 1
        assert "trimesh" in (error := capsys.readouterr().err)
        assert "are left out" not in error


def test_tasks_of_any_robot_take_one():
    robots = {"quadruped": quadruped(), "humanoid": humanoid()}
    for task in training_tasks.OF_ANY_ROBOT:
        robot = robots[task.split("_")[0]]
        assert envs.make(task, robot=robot).robot is robot


def test_a_policy_that_must_be_trained_first_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["play", "cart_pole"]) == 1
    assert "; artix train cart_pole makes one; artix has built-in" in capsys.readouterr().err
    (tmp_path / "runs" / "go2").mkdir(parents=True)
    (tmp_path / "runs" / "go2" / "policy.npz").write_text("")
    for word in ("play", "verify", "export"):
        assert main([word, "go2"]) == 1
        folder = str(Path("runs", "go2"))
        assert f"no checkpoint 'go2'; did you mean {folder!r}?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", policies.built_in())
def test_policies_that_come_with_artix_fit_their_tasks(name):
    robot = policies.load_header(name).get("robot")
    assert (Path(policies.__file__).parent / "checkpoints" / f"{name}.npz").stat().st_size < 150_000
    if robot is not None and not ROBOTS.exists():
        pytest.skip("example-robot-data is not installed")
    header, environment, policy = load_played(name)
    assert name == (header["task"] if robot is None else f"{robot['description']}_velocity")
    obs = jax.tree.map(lambda x: jnp.zeros(x, jnp.float32), environment.observation_size)
    action = policy(obs)
    assert action.shape == (environment.action_size,)
    assert np.isfinite(action).all()


def test_what_is_no_legged_robot_or_task_is_said(tmp_path, capsys):
    assert main(["train", "--robot", "arm7"]) == 1
    assert "here it floats" in (error := capsys.readouterr().err)
    assert "name the links of the feet with feet=" in error
    assert error.endswith("(on the command line: --set robot.feet=VALUE)\n")
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=np.eye(3), name="block")
    artix.save(builder.build(), tmp_path / "block.npz")
    assert main(["train", "--robot", str(tmp_path / "block.npz")]) == 1
    assert "no joints" in (error := capsys.readouterr().err)
    assert "--set" not in error
    assert main(["train"]) == 1
    assert "give a task (cart_pole" in capsys.readouterr().err
    for robot in ("walker.urdf", "go2", "robot.usd"):
        assert main(["train", robot]) == 1
        assert f"to train it: artix train --robot {robot}" in capsys.readouterr().err
    assert main(["train", "walker.txt"]) == 1
    assert "a task of your own is a Python file" in capsys.readouterr().err
    assert main(["train", "--resume"]) == 1
    assert "--resume needs --output" in capsys.readouterr().err
    for task in set(envs.NAMES) - set(training_tasks.OF_ANY_ROBOT):
        assert main(["train", task, "--robot", "quadruped"]) == 1
        assert f"{task} has a robot of its own" in capsys.readouterr().err
    assert main(["train", "cart_pole", "--set", "robot.stiffness=1"]) == 1
    assert "only a robot from --robot" in capsys.readouterr().err
    path = tmp_path / "mine.py"
    for text, message in (
        (None, "no Python file"),
        ("config = 1", "defines no make()"),
        ("def make():\n    return 1\nconfig = 1", "config must be an artix.examples.ppo.Config"),
        ("def make():\n    return 1", "must return an artix.envs.Environment; found 1"),
        ("1 / 0", "raised ZeroDivisionError"),
    ):
        if text is not None:
            path.write_text(text)
        assert main(["train", str(path)]) == 1
        assert message in capsys.readouterr().err
    path.write_text(FILE)
    assert main(["train", "--robot", str(path)]) == 1
    assert f"for a task in Python: artix train {path}" in capsys.readouterr().err
    assert main(["train", "--from", "quadruped_velocity", "--output", str(tmp_path / "runs")]) == 1
    assert "that is a policy alone; training goes on with" in capsys.readouterr().err
    assert main(["train", str(path), "--robot", "quadruped"]) == 1
    assert "makes its own robot" in capsys.readouterr().err
    assert main(["train", str(path), "--set", "episode=3"]) == 1
    assert "did you mean episode_length" in capsys.readouterr().err


@pytest.mark.slow
def test_a_task_in_a_python_file_is_trained_continued_and_played(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda *_: jax.local_devices()[:1])
    # It has no body to show.
    monkeypatch.setattr(command, "save_episode", lambda path, *_: path.write_text("<html>"))
    path, folder = tmp_path / "mine.py", tmp_path / "runs"
    path.write_text(FILE)
    mine = ["train", str(path), "--output", str(folder), "--set", "episode_length=20"]
    assert main([*mine, "--steps", "128"]) == 0
    header = policies.load_header(folder / "checkpoint.npz")
    assert (header["task"], header["file"], header["set"]) == (
        "point_mass",
        str(path),
        ["episode_length=20"],
    )
    # To the file's own number of steps.
    assert main(["train", "--resume", "--output", str(folder)]) == 0
    assert policies.load_header(folder / "checkpoint.npz")["steps"] == 256
    capsys.readouterr()
    assert main([*mine[:-1], "episode_length=21", "--resume"]) == 1
    assert "keeps the checkpoint's settings (--set)" in capsys.readouterr().err
    with (folder / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["steps"]) for row in rows] == [128, 256]
    assert {
        "kl",
        "learning_rate",
        "value_error",
        "metrics/distance",
        "metrics/nan",
        "episodes",
    } <= {*rows[0]}
    assert all(math.isfinite(float(row["metrics/distance"])) for row in rows)
    assert main(["play", str(folder), "--episodes", "2"]) == 0
    assert "point_mass after 256 steps" in capsys.readouterr().out
    path.unlink()
    assert main(["play", str(folder), "--episodes", "2"]) == 1
    assert "no Python file" in capsys.readouterr().err


def test_learning_curves_of_other_columns_are_continued(tmp_path):
    files = TrainingFiles(tmp_path)
    files.rows.write_text("steps,seconds,return,fall,noise\n1,1,2,0,0.5\n2,2,3,0,0.5\n")
    rows = load_rows(files, 1)
    assert rows == [{"steps": 1, "seconds": 1, "return": 2, "fall": 0, "noise": 0.5}]
    rows.append(
        {
            **rows[0],
            "steps": 2.0,
            "metrics/velocity_error": 0.3,
            "metrics/reward/tracking_lin_vel": 0.9,
        }
    )
    save_curve(files, rows, "curve")
    assert files.curve.stat().st_size > 10_000


@pytest.mark.slow
def test_a_go2_from_its_urdf_is_trained_and_played(tmp_path, capsys, monkeypatch):
    if not ROBOTS.exists():
        pytest.skip("example-robot-data is not installed")
    monkeypatch.setattr(jax, "devices", lambda *_: jax.local_devices()[:1])
    folder, urdf = tmp_path / "runs", str(ROBOTS / "go2_description/urdf/go2.urdf")
    options = ["ppo.epochs=1", "ppo.policy_layers=16", "ppo.critic_layers=16", "episode_length=100"]
    mine = ["train", "--robot", urdf, "--envs", "16", "--output", str(folder), "--set", *options]
    assert main([*mine, "--steps", "384"]) == 0
    assert "FL_foot, FR_foot, RL_foot, RR_foot" in capsys.readouterr().out
    assert {"robot.npz", "policy.npz", "progress.csv", "learning_curve.png"} <= {
        path.name for path in folder.iterdir()
    }
    assert main([*mine, "--steps", "1k", "--resume"]) == 0
    assert policies.load_header(folder / "checkpoint.npz")["steps"] == 1152
    assert main(["play", str(folder), "--episodes", "2"]) == 0
    out = capsys.readouterr().out
    assert "quadruped_velocity of go2 after 1,152 steps" in out
    assert "velocity_error" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "level",
    [
        {},
        {"action_scale": 0.25},
        {"dt": 0.04},
        {"observations": {"gyro": 2.0, "joint_velocity": ObservationTerm(0.5, history=3)}},
    ],
)
def test_options_that_a_base_policy_needs_are_named_as_the_command_line_takes_them(
    level, monkeypatch
):
    """One after the other, until it fits. Where no option would help, none is named."""
    task = envs.make("quadruped_velocity", **level)
    monkeypatch.setattr(command, "load_played", lambda _: ({}, task, None))
    given: list[str] = []
    for _ in range(4):
        chosen = task_named("quadruped_rough", None, given)
        try:
            base = command._base("mine", chosen.environment)
            break
        except CommandFailure as failure:
            start, _, named = str(failure).partition(" (on the command line: --set ")
            assert start.startswith("--residual mine: ")
            given += named.removesuffix(")").split()
    assert f"gait_frequency={task.gait_frequency}" in given
    assert len(base.known) == task.observation_size["state"]


def test_no_option_is_named_where_none_helps(monkeypatch):
    rough = envs.make("quadruped_rough", gait_frequency=2.5)
    knees = ObservationTerm(function=lambda joint_position: joint_position[8:], mirror="scalar")
    for level, message in (
        (envs.make("humanoid_stand"), "other joints"),
        (envs.make("cart_pole"), "cart_pole is another task"),
        (
            envs.make("quadruped_velocity", observations={"knees": knees}),
            "'knees', which quadruped_rough does not show",
        ),
    ):
        monkeypatch.setattr(command, "load_played", lambda _, level=level: ({}, level, None))
        with pytest.raises(CommandFailure, match=message) as caught:
            command._base("mine", rough)
        assert "--set" not in str(caught.value)
