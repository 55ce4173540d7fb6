"""``artix train --stages``: the same as its training runs by hand, on a task that compiles
quickly."""

import re
import signal

import jax
import numpy as np
import pytest

from artix import envs
from artix.cli import main
from artix.cli import train as command
from artix.cli.play import load_played
from artix.cli.training_stages import read_recipe, recipes
from artix.cli.training_tasks import task_named, with_settings
from artix.envs import tasks
from artix.envs.commands import VelocityCommands
from artix.examples import policies
from tests.support.point_mass import PointMass
from tests.support.programs import each_compiled_once
from tests.support.users_types import users_types

RECIPE = """
[begin]
steps = 500
envs = 8
set = ["ppo.epochs=2", "privileged=true"]

[careful]
steps = 1_000
envs = 16
set = ["ppo.discount=0.9", "episode_length=20"]

[exact]
steps = 600
set = ["ppo.entropy_cost=0.001"]
"""


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with pytest.MonkeyPatch.context() as patch, users_types(), each_compiled_once():
        patch.setattr(envs, "make", lambda name, **options: PointMass(**options))
        patch.setattr(command, "save_episode", lambda path, *_: path.write_text("<html>"))
        patch.setattr(command, "export_policy", lambda *_: ([], []))
        patch.setattr(command, "save_curve", lambda *_: None)
        patch.setattr(jax, "devices", lambda *_: jax.local_devices()[:1])
        yield


def in_stages(path, recipe, *more):
    path.mkdir(exist_ok=True)
    (path / "recipe.toml").write_text(recipe)
    files = ["--stages", str(path / "recipe.toml"), "--output", str(path / "runs")]
    return main(["train", "cart_pole", *files, *more])


def same_training(one, other):
    one, other = (np.load(folder / "checkpoint.npz") for folder in (one, other))
    names = [name for name in one.files if name.startswith("training/")]
    assert len(names) > 20
    for name in names:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a training in stages."""
    path = tmp_path_factory.mktemp("stages")
    assert in_stages(path, RECIPE, "--seed", "3", "--set", "ppo.gae_lambda=0.9") == 0
    return path / "runs"


@pytest.mark.slow
def test_they_are_the_same_as_by_hand(trained, tmp_path):
    begin, careful, exact = (tmp_path / name for name in ("begin", "careful", "exact"))
    everywhere = "ppo.gae_lambda=0.9"
    for line in (
        f"cart_pole --steps 500 --envs 8 --seed 3 --output {begin} --set ppo.epochs=2 privileged=true "
        f"{everywhere}",
        f"--from {begin} --steps 1k --envs 16 --seed 13 --output {careful} "
        f"--set ppo.discount=0.9 episode_length=20 {everywhere}",
        f"--from {careful} --steps 600 --seed 23 --output {exact} "
        f"--set ppo.entropy_cost=0.001 {everywhere}",
    ):
        assert main(["train", *line.split()]) == 0
    same_training(trained / "begin", begin)
    same_training(trained / "careful", careful)
    same_training(trained, exact)
    by_stages, by_hand = (policies.load_header(one / "checkpoint.npz") for one in (trained, exact))
    assert by_stages["set"] == by_hand["set"] and by_stages["config"] == by_hand["config"]


def test_what_is_for_training_alone_is_not_played(trained):
    header, environment, _ = load_played(str(trained))
    assert (environment.episode_length, environment.privileged) == (30, True)
    assert header["played"] == ["privileged=true", *["ppo.gae_lambda=0.9"] * 3]
    assert (trained / "episode.html").exists()
    assert not (trained / "careful" / "episode.html").exists()


@pytest.mark.slow
def test_a_run_from_it_is_played_with_what_it_sets(trained, tmp_path):
    line = f"--from {trained} --steps 100 --output {tmp_path / 'more'} --set episode_length=12"
    assert main(["train", *line.split()]) == 0
    assert load_played(str(tmp_path / "more"))[1].episode_length == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    "interrupted",
    [
        pytest.param("begin", marks=pytest.mark.slow),
        "careful",
        pytest.param("runs", marks=pytest.mark.slow),
    ],
)
def test_it_goes_on_after_an_interruption(trained, tmp_path, monkeypatch, capsys, interrupted):
    """In the middle of a stage: after one of its two iterations."""
    begin, stages = command._train, []

    def begun(*arguments):
        stages.append(arguments[5].folder.name)
        return begin(*arguments)

    def shown(*_):
        if stages == [*to_do[: to_do.index(interrupted)], interrupted]:
            signal.raise_signal(signal.SIGTERM)

    to_do = ["begin", "careful", "runs"]
    monkeypatch.setattr(command, "_train", begun)
    monkeypatch.setattr(command._Progress, "show", shown)
    assert in_stages(tmp_path, RECIPE, "--seed", "3", "--set", "ppo.gae_lambda=0.9") == 143
    folder = tmp_path / "runs"
    assert f"continue with: artix train --resume --output {folder}" in capsys.readouterr().out
    stages.append("resumed")
    assert main(["train", "--resume", "--output", str(folder)]) == 0
    assert stages[stages.index("resumed") + 1 :] == to_do[to_do.index(interrupted) :]
    assert "stage 3 of 3, exact, after 1.5 k of 2.1 k steps" in capsys.readouterr().out
    same_training(folder, trained)
    assert main(["train", "--resume", "--output", str(folder)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]  # Nothing but the sum
    assert re.fullmatch(r"2.1 k steps in 3 stages, \d\.\d minutes", last)


def test_a_finished_or_other_run_is_not_begun_or_continued(trained, tmp_path, capsys):
    recipe = trained.parent / "recipe.toml"
    line = ["train", "cart_pole", "--output", str(trained)]
    assert main([*line, "--stages", str(recipe)]) == 1
    assert "already has a training run" in capsys.readouterr().err
    assert main(line) == 1
    assert "already has a training run" in capsys.readouterr().err
    again = [*line, "--resume"]
    assert main([*again, "--stages", str(recipe), "--seed", "3"]) == 0
    assert "2.1 k steps in 3 stages" in capsys.readouterr().out
    other = tmp_path / "other.toml"
    other.write_text(RECIPE.replace("0.9", "0.8"))
    for options, message in (
        (["--stages", str(other)], "stages (--stages)"),
        (["--seed", "4"], "seed (--seed)"),
        (["--set", "ppo.gae_lambda=0.8"], "settings (--set)"),
        (["--robot", "go2"], "robot (--robot)"),
        (["--method", "shac"], "method (--method)"),
        (["--steps", "1k"], "--steps: each stage has its own"),
        (["--envs", "8"], "--envs: each stage has its own"),
    ):
        assert main([*again, *options]) == 1
        assert message in capsys.readouterr().err
    (tmp_path / "stages.json").write_text("{}")
    assert main(["train", "cart_pole", "--resume", "--output", str(tmp_path)]) == 1
    assert "is missing or damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount=0.9": "discuont=0.9"}, "stage 'careful': --set ppo.discuont=0.9: there is no"),
        ({"discount=0.9": "discount=2"}, "stage 'careful': --set ppo.discount=2: discount must be"),
        ({"entropy_cost=0.001": "epochs=x"}, "stage 'exact': --set ppo.epochs=x: expected a whole"),
        ({"episode_length=20": "episode_lenght=20"}, "did you mean episode_length"),
        ({"episode_length=20": "privileged=false"}, "stage 'careful': it sees other observations"),
        ({"ppo.discount=0.9": "ppo.policy_layers=[8]"}, "networks of other sizes"),
        ({"ppo.discount=0.9": "ppo.initial_noise=0.1"}, "only the first stage can set that"),
        ({"ppo.discount=0.9": "robot.stiffness=1"}, "only the first stage can set that"),
        ({"ppo.epochs=2": "ppo.epoch=2"}, "stage 'begin': --set ppo.epoch=2"),
        ({"steps = 500": "step = 500"}, "'begin' has no key 'step'; did you mean 'steps'?"),
        ({"steps = 500": ""}, "the stage 'begin': expected steps"),
        ({"steps = 500": "steps = 0"}, "a whole number of at least 1; found 0"),
        ({"envs = 16": "envs = '16'"}, "'careful': expected envs = a whole number"),
        ({'["ppo.entropy_cost=0.001"]': "[1]"}, "'exact': expected set = texts as for --set"),
        ({"ppo.epochs=2": "ppo.epochs"}, "expected KEY=VALUE"),
        ({"[careful]": '["c/a"]'}, "the stage 'c/a' cannot be the name of a folder"),
        ({"[begin]": "play = 1\n[begin]"}, "'play' is no table of a stage"),
        ({"[careful]": "[careful"}, "recipe.toml: Expected"),
        ({RECIPE: ""}, "it has no stage"),
    ],
)
def test_what_a_stage_cannot_be_is_refused_before_training(tmp_path, capsys, change, message):
    ((old, new),) = change.items()
    assert old in RECIPE
    assert in_stages(tmp_path, RECIPE.replace(old, new)) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_recipe_and_a_folder_that_are_missing(tmp_path, capsys):
    assert main(["train", "--stages", "walk"]) == 1
    assert "--stages needs --output, the folder of the training run" in capsys.readouterr().err
    assert main(["train", "--stages", "walk", "--output", str(tmp_path)]) == 1
    assert "give a task" in capsys.readouterr().err
    assert main(["train", "cart_pole", "--stages", "wakl"]) == 1
    error = capsys.readouterr().err
    assert "there is no file 'wakl'; did you mean 'walk'?; artix has the stages: walk" in error


@pytest.mark.parametrize("name", recipes())
def test_the_settings_of_recipes_exist(name, monkeypatch):
    monkeypatch.setattr(envs, "make", tasks.make)
    stages = read_recipe(name)
    first, *others = stages
    told = task_named("quadruped_velocity", None, first.assignments)
    for stage in others:
        told = with_settings(told, stage.assignments)
    assert isinstance(told.environment.velocity_commands, VelocityCommands)
    assert sum(stage.steps for stage in stages) > 1_000_000
