"""``artix train`` and ``artix play`` on a task that compiles quickly, and their error messages."""

import errno
import json
import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.cli import main
from artix.cli import train as command
from artix.cli.training_files import alone_in, recent
from artix.examples import policies, ppo
from artix.examples.residual import Base
from tests.support.point_mass import PointMass
from tests.support.programs import each_compiled_once
from tests.support.users_types import users_types


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with pytest.MonkeyPatch.context() as patch, users_types(), each_compiled_once():
        patch.setattr(envs, "make", lambda name, **_: PointMass())
        # The point mass has no body to show; the recordings of real tasks have tests below.
        patch.setattr(command, "save_episode", lambda path, *_: path.write_text("<html>"))
        patch.setattr(jax, "devices", lambda *_: jax.local_devices()[:1])
        yield


def train(folder, *more):
    return main(["train", "cart_pole", "--envs", "8", "--output", str(folder), *more])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a training of two iterations of 8 x 32 steps."""
    folder = tmp_path_factory.mktemp("training") / "runs"
    assert train(folder, "--steps", "0.5k") == 0
    return folder


@pytest.mark.slow
def test_what_a_training_leaves(trained):
    files = {path.name for path in trained.iterdir()}
    assert files == {
        "checkpoint.npz",
        "policy.npz",
        "policy.onnx",
        "policy.stablehlo",
        "progress.csv",
        "learning_curve.png",
        "episode.html",
    }
    header = policies.load_header(trained / "checkpoint.npz")
    assert (header["task"], header["steps"], header["config"]["num_envs"]) == ("cart_pole", 512, 8)
    assert len((trained / "progress.csv").read_text().splitlines()) == 3
    assert (trained / "policy.npz").stat().st_size < 100_000


def test_without_the_viewer_there_is_no_recording(tmp_path, monkeypatch, capsys):
    def missing(*_):
        raise ImportError("the viewer shows scenes with viser: pip install 'artix[viewer]'")

    monkeypatch.setattr(command, "save_episode", missing)
    assert not command._record(command.TrainingFiles(tmp_path), None, None, 0)
    assert "no episode.html: the viewer shows scenes with viser" in capsys.readouterr().out


def test_the_exported_policy_is_the_policy(trained):
    policy = policies.load(trained / "policy.npz")
    exported = jax.export.deserialize(bytearray((trained / "policy.stablehlo").read_bytes()))
    obs = jnp.linspace(-1, 1, 10, dtype=jnp.float32).reshape(5, 2)
    np.testing.assert_allclose(exported.call(obs), policy(obs), rtol=1e-6, atol=1e-7)


def test_it_goes_on(trained, capsys):
    assert train(trained) == 1
    assert "continue it with --resume" in capsys.readouterr().err
    assert main(["train", "cart_pole", "--resume", "--steps", "768", "--output", str(trained)]) == 0
    assert policies.load_header(trained / "checkpoint.npz")["steps"] == 768
    rows = (trained / "progress.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["256", "512", "768"]
    seconds = [float(row.split(",")[1]) for row in rows]
    assert seconds == sorted(seconds)
    assert main(["train", "cart_pole", "--resume", "--seed", "4", "--output", str(trained)]) == 1
    assert "keeps the checkpoint's seed (--seed)" in capsys.readouterr().err


@pytest.mark.slow
def test_two_training_runs_do_not_share_a_folder(trained, tmp_path, capsys):
    """Each would overwrite the checkpoints of the other."""
    new = tmp_path / "new"
    new.mkdir()
    for folder, more in ((new, []), (trained, ["--resume"])):
        before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
        with alone_in(folder):
            assert main(["train", "cart_pole", "--output", str(folder), *more]) == 1
        assert f"another training run is at work in {str(folder)!r}" in capsys.readouterr().err
        assert before == sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    assert train(new, "--steps", "256") == 0


@pytest.mark.slow
def test_it_begins_with_what_another_run_learned(trained, tmp_path, capsys):
    folder, source = tmp_path / "runs", trained / "checkpoint.npz"
    still = ["--set", "ppo.learning_rate=0", "ppo.desired_kl=0"]
    command_line = [
        "train",
        "--from",
        str(trained),
        "--output",
        str(folder),
        "--envs",
        "16",
        "--seed",
        "5",
    ]
    assert main([*command_line, "--steps", "512", *still]) == 0
    assert f"begins with what {source} learned" in capsys.readouterr().out
    before, after = (np.load(path / "checkpoint.npz") for path in (trained, folder))
    learned = [name for name in before.files if name.startswith("training/learner/parameters")]
    assert len(learned) > 8
    for name in learned:
        np.testing.assert_array_equal(after[name], before[name])
    rounds = "training/learner/optimizer/1/count"
    assert after[rounds] == before[rounds] + 16  # one iteration of four times four steps
    assert (
        after["training/learner/observed/count"] == before["training/learner/observed/count"] + 512
    )
    header = policies.load_header(folder / "checkpoint.npz")
    assert (header["steps"], header["config"]["num_envs"], header["set"]) == (512, 16, still[1:])
    for options, message in (
        (["--resume"], "--resume continues a training run, --from begins a new one"),
        (["cart_pole"], "--from takes a task from its checkpoint"),
        (["--set", "robot.stiffness=3"], "--from keeps the robot"),
        (["--set", "ppo.initial_noise=0.3"], "keeps the noise"),
        (
            ["--set", "ppo.policy_layers=[8]", "--output", str(tmp_path / "new")],
            "should be float32",
        ),
        ([], "already has a training run"),
    ):
        assert main([*command_line, *options]) == 1
        assert message in capsys.readouterr().err
    assert main(["train", "--from", str(tmp_path), "--output", str(folder)]) == 1
    assert "there is no checkpoint" in capsys.readouterr().err


def test_returns_are_those_of_a_hundred_episodes(trained):
    rows = [
        {"episodes": n, "return": r, "fall": f}
        for n, r, f in [(500, 9, 1), (60, 1, 0.5), (0, np.nan, np.nan), (50, 3, 0)]
    ]
    found = recent(rows)
    assert found["recent/return"] == pytest.approx((60 * 1 + 50 * 3) / 110)
    assert found["recent/fall"] == pytest.approx(60 * 0.5 / 110)
    assert np.isnan(recent(rows[2:3])["recent/return"])
    assert "recent/return" in (trained / "progress.csv").read_text().splitlines()[0]


@pytest.mark.slow
def test_tensorboard_gets_the_numbers(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tensorboardX")
    folder = tmp_path / "runs"
    assert train(folder, "--steps", "256", "--tensorboard") == 0
    (events,) = folder.glob("events.out.tfevents.*")
    written = events.read_bytes()
    for name in (b"loss", b"recent/return", b"metrics/distance", b"learning_rate"):
        assert name in written
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert train(tmp_path / "other", "--steps", "256", "--tensorboard") == 1
    assert "pip install 'artix[tensorboard]'" in capsys.readouterr().err


@pytest.mark.slow
def test_it_learns_by_gradients(trained, tmp_path, capsys):
    folder = tmp_path / "runs"
    small = "--set", "shac.policy_layers=[8]", "shac.critic_layers=[8]"
    assert train(folder, "--method", "shac", "--steps", "0.5k", *small) == 0
    header = policies.load_header(folder / "checkpoint.npz")
    assert (header["method"], header["config"]["horizon"], header["steps"]) == ("shac", 32, 512)
    assert policies.load_header(trained / "checkpoint.npz")["method"] == "ppo"
    assert policies.load(folder / "policy.npz").layers == (8,)
    assert main(["train", "--resume", "--steps", "768", "--output", str(folder)]) == 0
    assert policies.load_header(folder / "checkpoint.npz")["steps"] == 768
    capsys.readouterr()
    for options, message in (
        (["--output", str(folder), "--resume", "--method", "ppo"], "keeps the checkpoint's method"),
        (
            ["--method", "shac", "--set", "ppo.epochs=1"],
            "ppo.epochs=1: this training run learns with 'shac'",
        ),
        (["--set", "shac.epochs=1"], "shac.epochs=1: this training run learns with 'ppo'"),
    ):
        assert main(["train", "cart_pole", *options]) == 1
        assert message in capsys.readouterr().err
    assert main(["train", "humanoid_velocity", "--method", "shac"]) == 1
    assert "SHAC has settings for cart_pole, arm_reach" in capsys.readouterr().err


@pytest.mark.slow
def test_it_learns_a_residual(trained, tmp_path, capsys, monkeypatch):
    """Which begins with the trained policy, is saved with it as one, and can be resumed."""
    folder, source = tmp_path / "runs", str(trained)
    small = "--set", "shac.policy_layers=[8,8]", "shac.critic_layers=[8]"
    options = "--method", "shac", "--steps", "0.5k", *small
    assert train(folder, *options, "--residual", source) == 1
    assert "a residual is for legged robots that follow commands" in capsys.readouterr().err
    # The point mass has no names for what it observes.
    monkeypatch.setattr(command, "base_for", lambda _, policy, __: Base(policy, (0, 1)))
    assert train(folder, *options, "--set", "shac.policy_layers=[8]", "--residual", source) == 1
    error = capsys.readouterr().err
    assert "needs 2 hidden layers" in error
    named = error.partition("(on the command line: --set ")[2].rstrip().removesuffix(")")
    assert named == "shac.policy_layers=[64,64]"
    assert train(folder, *options, "--residual", source) == 0
    assert f"begins with what {source} does" in capsys.readouterr().out
    base, both = policies.load(trained / "policy.npz"), policies.load(folder / "policy.npz")
    assert both.layers == tuple(8 + size for size in base.layers)
    assert "base.npz" in {path.name for path in folder.iterdir()}
    header = policies.load_header(folder / "policy.npz")
    assert header["residual"] == {"policy": source, "known": [0, 1]}
    obs = jax.random.normal(jax.random.key(0), (9, 2), jnp.float32)
    changed = np.abs(both(obs) - base(obs)).max()
    assert 1e-4 < changed < 0.5
    assert main(["play", str(folder), "--episodes", "4"]) == 0
    assert main(["train", "--resume", "--steps", "2k", "--output", str(folder)]) == 0
    later = policies.load(folder / "checkpoint.npz")
    assert np.abs(later(obs) - base(obs)).max() > changed
    np.testing.assert_array_equal(
        policies.load(folder / "base.npz").parameters["params"]["Dense_0"]["kernel"],
        base.parameters["params"]["Dense_0"]["kernel"],
    )
    other = tmp_path / "other"
    assert main(["train", "--from", str(folder), "--steps", "0.3k", "--output", str(other)]) == 0
    assert policies.load(other / "policy.npz").layers == both.layers
    capsys.readouterr()
    again = ["train", "cart_pole", "--resume", "--output", str(folder), "--residual", "arm_reach"]
    assert main(again) == 1
    assert "keeps the checkpoint's" in capsys.readouterr().err
    assert main(["train", "--from", str(folder), "--residual", source]) == 1
    assert "--from takes --residual from its checkpoint" in capsys.readouterr().err
    (folder / "base.npz").unlink()
    assert main(["train", "--resume", "--steps", "3k", "--output", str(folder)]) == 1
    assert "copy base.npz of the training run" in capsys.readouterr().err


def test_play_prints_statistics(trained, capsys):
    assert main(["play", str(trained), "--episodes", "4"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("4 episodes", "return", "terminated", "final/distance"))


def test_a_policy_of_numbers_that_are_not_finite_is_not_played(trained, tmp_path, capsys):
    with np.load(trained / "policy.npz") as archive:
        arrays = dict(archive)
    name = next(
        name for name, array in arrays.items() if array.dtype.kind == "f" and array.size > 1
    )
    arrays[name] = np.full_like(arrays[name], np.nan)
    np.savez(tmp_path / "policy.npz", **arrays)
    assert main(["play", str(tmp_path / "policy.npz"), "--episodes", "4"]) == 1
    captured = capsys.readouterr()
    assert "holds numbers that are not finite" in captured.err and captured.out == ""


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint(tmp_path, monkeypatch, capsys):
    whole = ppo.train

    def interrupted(*arguments, **options):
        yield next(whole(*arguments, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(ppo, "train", interrupted)
    assert train(tmp_path / "runs", "--steps", "10k") == 130
    assert "--resume --steps 10000 --output" in capsys.readouterr().out
    assert not (tmp_path / "runs" / "episode.html").exists()
    assert policies.load_header(tmp_path / "runs" / "checkpoint.npz")["steps"] == 256


@pytest.mark.slow
def test_sigterm_leaves_a_checkpoint(tmp_path, monkeypatch, capsys):
    whole, before = ppo.train, signal.getsignal(signal.SIGTERM)

    def terminated(*arguments, **options):
        yield next(whole(*arguments, **options))
        os.kill(os.getpid(), signal.SIGTERM)
        yield from whole(*arguments, **options)

    monkeypatch.setattr(ppo, "train", terminated)
    assert train(tmp_path / "runs", "--steps", "10k") == 143
    assert "--resume --steps 10000 --output" in capsys.readouterr().out
    assert policies.load_header(tmp_path / "runs" / "checkpoint.npz")["steps"] == 256
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_full_disk_is_said_and_what_was_there_stays(trained, tmp_path, monkeypatch, capsys):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(policies.os, "fsync", full)
    before, files = (trained / "checkpoint.npz").read_bytes(), sorted(trained.iterdir())
    with pytest.raises(OSError, match="No space left"):
        policies.save(trained / "checkpoint.npz", {"x": jnp.zeros(3)})
    assert (trained / "checkpoint.npz").read_bytes() == before
    assert sorted(trained.iterdir()) == files  # Nothing unfinished is left.
    monkeypatch.setattr(command, "CHECKPOINT_PERIOD", 0.0)
    monkeypatch.setattr(command.tempfile, "tempdir", str(tmp_path))
    assert train(tmp_path / "runs", "--steps", "256") == 1
    error = capsys.readouterr().err
    assert "no checkpoint was saved: No space left on device; training continues" in error
    assert "runs' cannot be written" in error
    assert "the temporary folder" in error


@pytest.mark.slow
def test_a_full_disk_at_the_end_of_training_loses_nothing(tmp_path, monkeypatch, capsys):
    whole = command.save_checkpoint

    def full(files, *more):
        if files.folder == tmp_path / "runs":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(files, *more)

    monkeypatch.setattr(command, "save_checkpoint", full)
    monkeypatch.setattr(command.tempfile, "tempdir", str(tmp_path))
    assert train(tmp_path / "runs", "--steps", "256") == 0
    (folder,) = tmp_path.glob("artix-cart_pole-*")
    assert policies.load_header(folder / "checkpoint.npz")["steps"] == 256
    assert {"policy.npz", "progress.csv", "episode.html"} <= {
        path.name for path in folder.iterdir()
    }
    captured = capsys.readouterr()
    assert "runs' cannot be written: No space left on device" in captured.err
    assert str(folder) in captured.out


def test_a_damaged_learning_curve_is_met_before_training(trained, tmp_path, capsys):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "checkpoint.npz").write_bytes((trained / "checkpoint.npz").read_bytes())
    rows = (trained / "progress.csv").read_text().splitlines()
    for damaged in (
        ["garbage", *rows[1:]],
        [*rows[:-1], "1,2"],
        [*rows[:-1], rows[-1].replace(",", ",x", 1)],
        [],
    ):
        (folder / "progress.csv").write_text("\n".join(damaged))
        assert (
            main(["train", "cart_pole", "--resume", "--steps", "1k", "--output", str(folder)]) == 1
        )
        assert "progress.csv' is damaged" in capsys.readouterr().err


def test_policies_are_loaded_by_path_and_by_name_and_compiled(trained):
    alone, beside = policies.load(trained / "policy.npz"), policies.load(trained / "checkpoint.npz")
    assert jax.tree.structure(alone) == jax.tree.structure(beside)
    obs = jnp.linspace(-1, 1, 10, dtype=jnp.float32).reshape(5, 2)
    np.testing.assert_array_equal(alone(obs), beside(obs))
    np.testing.assert_allclose(jax.jit(alone)(obs), alone(obs), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        jax.jit(policies.Policy.__call__)(alone, obs), alone(obs), rtol=1e-6, atol=1e-7
    )
    built_in = policies.load("quadruped_velocity")
    assert built_in.action_size == 12
    with pytest.raises(FileNotFoundError):
        policies.load(trained / "none.npz")
    policies.save(trained.parent / "tree.npz", {"x": jnp.zeros(3)})
    with pytest.raises(ValueError, match="holds no policy; name the structure"):
        policies.load(trained.parent / "tree.npz")


def test_a_bad_checkpoint_is_said(trained, tmp_path, capsys):
    bad = tmp_path / "bad.npz"
    whole = (trained / "checkpoint.npz").read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 0xFF
    for content in (b"", b"no archive", whole[: len(whole) // 2], bytes(changed)):
        bad.write_bytes(content)
        assert main(["play", str(bad)]) == 1
        assert "is not a checkpoint, or is damaged" in capsys.readouterr().err
    bad.write_bytes(b"Plain text, which NumPy takes for a pickle.")
    assert main(["play", str(bad)]) == 1
    assert capsys.readouterr().err.endswith("it is not a NumPy archive (.npz)\n")
    np.savez(bad, x=np.array([{}]))
    assert main(["play", str(bad)]) == 1
    assert "it holds Python objects" in capsys.readouterr().err
    np.savez(bad, x=np.zeros(3))
    assert main(["play", str(bad)]) == 1
    assert "is not a checkpoint: it has no" in capsys.readouterr().err
    artix.save(artix.robots.load("cart_pole"), tmp_path / "robot.npz")
    assert main(["play", str(tmp_path / "robot.npz")]) == 1
    assert "robot.npz' is not a checkpoint: it has no array" in capsys.readouterr().err
    assert main(["play", str(tmp_path / "none.npz")]) == 1
    assert "there is no checkpoint" in (error := capsys.readouterr().err)
    assert "quadruped_velocity" in error


def test_a_checkpoint_of_other_options_is_said(trained, capsys, tmp_path):
    header = policies.load_header(trained / "checkpoint.npz")
    policies.save(tmp_path / "other.npz", {}, **header)
    assert main(["play", str(tmp_path / "other.npz")]) == 1
    assert "holds no policy" in capsys.readouterr().err
    policies.save(tmp_path / "other.npz", {"policy": policies.load("arm_reach")}, **header)
    assert main(["play", str(tmp_path / "other.npz")]) == 1
    assert (
        "takes 43 observations and returns 7 actions, the task has 2 and 1"
        in capsys.readouterr().err
    )
    header["config"]["unheard_of"] = 1
    policies.save(tmp_path / "checkpoint.npz", {}, **json.loads(json.dumps(header)))
    assert main(["train", "cart_pole", "--resume", "--output", str(tmp_path)]) == 1
    assert "unheard_of" in capsys.readouterr().err


def test_unknown_tasks_and_numbers(capsys, monkeypatch):
    assert main(["train", "chess"]) == 1
    assert "cart_pole" in capsys.readouterr().err
    monkeypatch.setattr(command.jax, "device_count", lambda: 8)
    assert main(["train", "cart_pole", "--envs", "7"]) == 1
    assert "multiple of the number of devices, 8; found 7" in capsys.readouterr().err
    for steps in ("many", "0", "-3k"):
        with pytest.raises(SystemExit):
            main(["train", "cart_pole", "--steps", steps])
        assert "--steps" in capsys.readouterr().err
