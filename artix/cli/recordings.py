"""Saves an episode of a policy as one HTML file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import artix
from artix import envs
from artix.examples import policies

#: A plot of more joints would be unreadable.
MAX_JOINTS = 12


def visuals_of(header: Mapping[str, Any], environment: envs.Environment) -> Any:
    """What the description of a checkpoint's robot draws, if the file is still there; ``None`` otherwise."""
    path = Path(header.get("robot", {}).get("description", ""))
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
    """Saves the first episode that :func:`artix.examples.policies.evaluate` plays, with plots of its rewards.

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
    from artix.viewer import save_html

    states, options = episode(environment, policy, seed)
    if visuals is not None:
        options["visuals"] = visuals
    save_html(path, environment.articulation, states, environment.dt, **options)


def episode(environment: envs.Environment, policy: policies.Policy, seed: int) -> tuple[artix.State, dict[str, Any]]:
    """The states of an episode [T], and the options of :func:`artix.viewer.save_html`: commands, plots and title.

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
    options = {"ground": environment.ground, "series": series, "commands": states.info.get("command")}
    return shown, {**options, "title": environment.name}
