"""``artix play``: plays episodes of a task with a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from artix import envs
from artix.cli.names import did_you_mean, naming
from artix.cli.recordings import save_episode, visuals_of
from artix.cli.text import CommandFailure, quantity, table
from artix.cli.training_files import TrainingFiles, load_header, load_policy
from artix.cli.training_tasks import task_of
from artix.examples import policies


def run_play(checkpoint: str, *, episodes: int, seed: int, html: str | None) -> int:
    """Plays episodes and prints their statistics.

    Args:
      checkpoint: a file from ``artix train``, its folder, or a task for which artix has a built-in policy.
      episodes: number of episodes.
      seed: seed of all random numbers.
      html: file for an animation of the first episode, or ``None``.

    Returns:
      0.

    Raises:
      CommandFailure: the checkpoint cannot be read, or the animation cannot be made.
    """
    header, environment, policy = load_played(checkpoint)
    found = policies.evaluate(environment, policy, jax.random.key(seed), episodes=episodes)
    print(f"{header['task']} after {header['steps']:,} steps: {episodes} episodes without noise\n")
    print(_statistics({name: np.asarray(value) for name, value in found.items()}))
    if html is not None:
        _save_html(html, environment, policy, seed, visuals_of(header, environment))
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
        raise CommandFailure(f"{str(path)!r} holds numbers that are not finite: its training diverged; train again")
    return header, environment, policy


def _file_of(checkpoint: str) -> Path:
    """The file of a policy; the name of a task stands for its built-in one."""
    path = Path(checkpoint)
    if path.exists():
        return TrainingFiles(path).policy if path.is_dir() else path
    task = _task(checkpoint)
    if task not in policies.built_in():
        known = policies.built_in()
        raise CommandFailure(
            f"there is no checkpoint {checkpoint!r}{did_you_mean(checkpoint, known)}; artix has built-in policies for: "
            f"{', '.join(known)}"
        )
    return Path(task)


def _task(name: str) -> str:
    try:
        return envs.full_name(name)
    except ValueError:
        return name


def _statistics(found: dict[str, np.ndarray]) -> str:
    first = ("return", "length", "terminated")
    others = sorted(name for name in found if name not in first and not name.startswith("final/reward/"))
    names = [*first, *others]
    rows = [
        (name, *(quantity(float(f(found[name]))) for f in (np.mean, np.std, np.min, np.median, np.max)))
        for name in names
    ]
    return table(("per episode", "mean", "deviation", "min", "median", "max"), rows, align="l")


def _save_html(path: str, environment: envs.Environment, policy: policies.Policy, seed: int, visuals: Any) -> None:
    try:
        with naming(path):
            save_episode(path, environment, policy, seed, visuals)
    except ImportError as error:
        raise CommandFailure(f"no animation: {error}") from error
    print(f"\nanimation saved to {path}")
