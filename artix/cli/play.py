"""``artix play``: plays episodes of a task with a policy, and saves one as an HTML file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import artix
from artix import envs
from artix.cli.names import INSTALLABLE, did_you_mean, naming, robot_file
from artix.cli.text import CommandFailure, quantity, table
from artix.cli.training_files import TrainingFiles, load_header, load_policy, title_of
from artix.cli.training_tasks import task_of
from artix.examples import policies


def run_play(
    checkpoint: str, *, episodes: int, seed: int, html: str | None, video: str | None = None
) -> int:
    """Plays episodes and prints their statistics.

    Args:
      checkpoint: a file from ``artix train``, its folder, or the name of a built-in policy.
      episodes: number of episodes.
      seed: seed of all random numbers.
      html: file for an animation of the first episode, or ``None``.
      video: GIF or MP4 file for the first episode, or ``None``.

    Returns:
      0.

    Raises:
      CommandFailure: the checkpoint cannot be read, or the animation cannot be made.
    """
    header, environment, policy = load_played(checkpoint)
    results = policies.evaluate(environment, policy, jax.random.key(seed), episodes=episodes)
    print(
        f"{title_of(header)} after {header['steps']:,} steps: {episodes} episodes without noise\n"
    )
    print(_statistics({name: np.asarray(value) for name, value in results.items()}))
    if html is None and video is None:
        return 0
    states, shown = episode(environment, policy, seed)
    shown["visuals"] = visuals_of(header, environment)
    if html is not None:
        _save(html, _save_html, environment, states, shown)
    if video is not None:
        _save(video, _save_video, environment, states, shown)
    return 0


def load_played(checkpoint: str) -> tuple[dict[str, Any], envs.Environment, policies.Policy]:
    """The header, the environment and the policy of a checkpoint, to be played.

    Args:
      checkpoint: as for :func:`run_play`.

    Raises:
      CommandFailure: one of them cannot be read, or the policy's numbers are not finite.
    """
    path = _file_of(checkpoint)
    header = load_header(path)
    try:
        environment = task_of(header, path.parent, for_training=False).environment
    except CommandFailure as failure:
        raise CommandFailure(f"{str(path)!r} cannot be played: {failure}") from failure
    policy = load_policy(path, environment)
    if not all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(policy)):
        raise CommandFailure(
            f"{str(path)!r} holds numbers that are not finite: its training diverged; train again"
        )
    return header, environment, policy


def _file_of(checkpoint: str) -> Path:
    """The file of a policy, or the name of a built-in one."""
    path = Path(checkpoint)
    if path.exists():
        return TrainingFiles(path).policy if path.is_dir() else path
    task = _task(checkpoint)
    if task not in policies.built_in():
        known, trained = policies.built_in(), Path("runs", checkpoint)
        hint = did_you_mean(checkpoint, known)
        if TrainingFiles(trained).policy.exists():
            hint = f"; did you mean {str(trained)!r}?"
        elif task in envs.NAMES:
            hint = f"; artix train {task} makes one"
        raise CommandFailure(
            f"there is no checkpoint {checkpoint!r}{hint}; artix has built-in policies for: "
            f"{', '.join(known)}"
        )
    return Path(task)


def _task(name: str) -> str:
    try:
        return envs.full_name(name)
    except ValueError:
        return name


def _statistics(results: dict[str, np.ndarray]) -> str:
    first = ("return", "length", "terminated")
    others = sorted(
        name for name in results if name not in first and not name.startswith("final/reward/")
    )
    names = [*first, *others]
    rows = [
        (
            name,
            *(
                quantity(float(f(results[name])))
                for f in (np.mean, np.std, np.min, np.median, np.max)
            ),
        )
        for name in names
    ]
    return table(("per episode", "mean", "deviation", "min", "median", "max"), rows, align="l")


def _save(path: str, save: Callable[..., None], *shown: Any) -> None:
    try:
        with naming(path):
            save(path, *shown)
    except ImportError as error:
        raise CommandFailure(f"no animation: {error}") from error
    print(f"\nanimation saved to {path}")


#: A plot of more joints would be unreadable.
MAX_JOINTS = 12

#: Videos have 25 frames a second, each of which takes half a second or so to draw.
FILM_SECONDS = 10.0


def visuals_of(header: Mapping[str, Any], environment: envs.Environment) -> Any:
    """What the description of a checkpoint's robot draws, if the file is still there; ``None``
    otherwise.
    """
    description = header.get("robot", {}).get("description", "")
    path = robot_file(description) if description in INSTALLABLE else Path(description)
    if path.suffix in ("", ".npz") or not path.is_file():
        return None
    try:
        from artix.viewer import load_visuals

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", artix.DescriptionWarning)
            return load_visuals(path, environment.articulation)
    except (ImportError, OSError, ValueError):
        return None  # The robot is drawn by its shapes and links.


def save_episode(
    path: str | os.PathLike[str],
    environment: envs.Environment,
    policy: policies.Policy,
    seed: int,
    visuals: Any = None,
) -> None:
    """Saves the first episode that :func:`artix.examples.policies.evaluate` plays, with plots of
    its rewards.

    Args:
      path: the file to write.
      environment: the environment.
      policy: the policy that acts.
      seed: seed of all random numbers.
      visuals: what is drawn of the robot; its shapes if ``None``.

    Raises:
      ImportError: viser is not installed.
      OSError: the file cannot be written.
    """
    states, shown = episode(environment, policy, seed)
    _save_html(path, environment, states, {**shown, "visuals": visuals})


def _save_html(
    path: str | os.PathLike[str],
    environment: envs.Environment,
    states: artix.State,
    shown: Mapping[str, Any],
) -> None:
    from artix.viewer import save_html

    save_html(path, environment.articulation, states, environment.dt, **shown)


def _save_video(
    path: str | os.PathLike[str],
    environment: envs.Environment,
    states: artix.State,
    shown: Mapping[str, Any],
) -> None:
    """Saves the start of an episode as a GIF or MP4 video."""
    from artix.viewer import save_video

    options = {name: shown[name] for name in ("ground", "visuals")}
    length = round(FILM_SECONDS / environment.dt)
    states, commands = jax.tree.map(lambda leaf: leaf[:length], (states, shown["commands"]))
    seconds = len(states.joint_position) * environment.dt
    print(f"\ndrawing {seconds:.0f} s of video, which takes some minutes ...", flush=True)
    save_video(path, environment.articulation, states, environment.dt, commands=commands, **options)


def episode(
    environment: envs.Environment, policy: policies.Policy, seed: int
) -> tuple[artix.State, dict[str, Any]]:
    """The states of an episode [T], and the options of :func:`artix.viewer.save_html`: commands,
    plots and title.

    The arguments are those of :func:`save_episode`.
    """
    key = jax.random.split(jax.random.key(seed), 1)[0]
    states = jax.jit(lambda key: policies.play(environment, policy, key))(key)
    ended = np.flatnonzero(np.asarray(states.done))
    # The last state of an episode that ended is the first of the next one.
    frames = max(int(ended[0]) if ended.size else environment.episode_length, 1)
    states = jax.tree.map(lambda leaf: leaf[:frames], states)
    shown = states.articulation_state
    series: dict[str, Any] = {"reward": states.reward}
    if shown.joint_position.shape[1] <= MAX_JOINTS:
        series["joint position"] = shown.joint_position
    options = {
        "ground": environment.ground,
        "series": series,
        "commands": states.info.get("command"),
    }
    return shown, {**options, "title": environment.name}
