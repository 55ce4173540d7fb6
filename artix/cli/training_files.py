"""The files of a training run: checkpoint, policy and learning curve."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from artix import envs
from artix.cli.text import CommandFailure
from artix.examples import policies, ppo
from artix.io.common.atomic_file import write_atomically

#: Columns of the learning curve.
COLUMNS = ("steps", "seconds", "return", "fall", "noise")


@dataclasses.dataclass(frozen=True)
class TrainingFiles:
    """The files in the folder of a training run."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        """The whole training run, to continue from."""
        return self.folder / "checkpoint.npz"

    @property
    def policy(self) -> Path:
        """The policy without the training state."""
        return self.folder / "policy.npz"

    @property
    def exported(self) -> Path:
        """The exported policy, for any program that has JAX."""
        return self.folder / "policy.stablehlo"

    @property
    def recording(self) -> Path:
        """A recorded episode, for a browser."""
        return self.folder / "episode.html"

    @property
    def rows(self) -> Path:
        """The learning curve as a table."""
        return self.folder / "progress.csv"

    @property
    def curve(self) -> Path:
        """The learning curve as a picture."""
        return self.folder / "learning_curve.png"


def header_of(task: str, config: ppo.Config, report: dict[str, float]) -> dict[str, Any]:
    """The header of a checkpoint."""
    return {"task": task, "config": dataclasses.asdict(config), "steps": report["steps"], "seconds": report["seconds"]}


def save_checkpoint(files: TrainingFiles, training: ppo.Training, header: dict[str, Any], rows: Sequence[Any]) -> None:
    """Saves the training run, its policy and the table of its learning curve.

    Raises:
      OSError: a file cannot be written. An existing checkpoint is kept.
    """
    config = config_of(header)
    policies.save(files.checkpoint, {"training": training, "policy": ppo.policy_of(training, config)}, **header)
    table = io.StringIO(newline="")
    csv.writer(table).writerows([COLUMNS, *rows])
    write_atomically(files.rows, lambda part: part.write_text(table.getvalue(), newline=""))


def load_training(files: TrainingFiles, environment: envs.Environment, config: ppo.Config) -> ppo.Training:
    """Loads the training run of a checkpoint.

    Raises:
      CommandFailure: the checkpoint is missing or damaged, or was saved with other options or devices.
    """
    like = jax.eval_shape(lambda: ppo.start(environment, config, jax.device_count()))
    try:
        return policies.load(files.checkpoint, {"training": like})["training"]
    except (OSError, ValueError) as error:
        raise CommandFailure(f"cannot resume: {error}") from error


def load_rows(files: TrainingFiles, before: float) -> list[list[float]]:
    """Loads the learning curve up to a number of steps; empty if there is none.

    Raises:
      CommandFailure: the table is damaged.
    """
    if not files.rows.exists():
        return []
    try:
        with files.rows.open(newline="") as file:
            header, *lines = csv.reader(file)
        rows = [[float(x) for x in row] for row in lines]
    except (OSError, ValueError) as error:
        raise CommandFailure(f"cannot resume: {str(files.rows)!r} is damaged: {error}; move it away") from error
    if tuple(header) != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
        raise CommandFailure(
            f"cannot resume: {str(files.rows)!r} is damaged: expected the columns {', '.join(COLUMNS)}; move it away"
        )
    return [row for row in rows if row[0] <= before]


def load_header(path: Path) -> dict[str, Any]:
    """Loads the header of a checkpoint or a policy.

    Raises:
      CommandFailure: there is no such file, or it is neither of these.
    """
    try:
        header = policies.load_header(path)
    except FileNotFoundError as error:
        raise CommandFailure(f"there is no checkpoint {str(path)!r}") from error
    except (OSError, ValueError) as error:
        raise CommandFailure(str(error)) from error
    if not {"task", "config"} <= set(header):
        raise CommandFailure(f"{str(path)!r} does not name its task; was it written by artix train?")
    return header


def load_policy(path: Path | str, environment: envs.Environment) -> policies.Policy:
    """Loads the policy from a checkpoint, from a policy file, or by the name of a task with a built-in one.

    Raises:
      CommandFailure: the file is damaged, or its policy has other observations or actions than the environment.
    """
    try:
        policy = policies.load(path)
    except (OSError, ValueError) as error:
        raise CommandFailure(str(error)) from error
    obs = jax.eval_shape(environment.reset, jax.random.key(0)).obs
    expected = ((obs["state"] if isinstance(obs, dict) else obs).shape, environment.action_size)
    if (policy.observed.mean.shape, policy.action_size) != expected:
        raise CommandFailure(
            f"the policy in {str(path)!r} does not fit {environment.name}: it takes {policy.observed.mean.size} "
            f"observations and returns {policy.action_size} actions, the task has {expected[0][0]} and {expected[1]}"
        )
    return policy


def config_of(header: dict[str, Any]) -> ppo.Config:
    """The settings of PPO from a header."""
    known = {field.name for field in dataclasses.fields(ppo.Config)}
    values: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in header["config"].items()}
    unknown = sorted(set(values) - known)
    if unknown:
        raise CommandFailure(f"the checkpoint has settings that are unknown to this version of artix: {unknown}")
    return ppo.Config(**values)


def export_results(files: TrainingFiles, training: ppo.Training, header: dict[str, Any]) -> None:
    """Saves the policy and, if the necessary package is installed, exports it as StableHLO.

    Raises:
      OSError: a file cannot be written.
    """
    policy = jax.device_get(ppo.policy_of(training, config_of(header)))
    policies.save(files.policy, {"policy": policy}, **header)
    try:
        exported = policies.export(policy)
    except ImportError as error:
        print(f"no {files.exported.name}: {error}")
        return
    write_atomically(files.exported, lambda part: part.write_bytes(exported))


def save_curve(files: TrainingFiles, rows: Sequence[Sequence[float]], title: str) -> None:
    """Draws the learning curve.

    Raises:
      OSError: the picture cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [row for row in rows if not math.isnan(row[2])]
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot([row[0] / 1e6 for row in shown], [row[2] for row in shown], color="tab:blue")
    axes.set(xlabel="environment steps [million]", ylabel="mean return of episodes", title=title)
    axes.grid(alpha=0.3)
    write_atomically(files.curve, lambda part: figure.savefig(part, dpi=120))
