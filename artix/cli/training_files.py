"""The files of a training: what it goes on from, what it has learned, and how it went."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from artix import envs
from artix.cli.errors import TrainingFailure
from artix.examples import policies, ppo

#: Policies that come with artix.
LEARNED = Path(policies.__file__).parent / "checkpoints"

#: What a row of the learning curve has.
COLUMNS = ("steps", "seconds", "return", "fall", "noise")


@dataclasses.dataclass(frozen=True)
class TrainingFiles:
    """The files in the folder of a training."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        """The whole training, to go on with, and its policy."""
        return self.folder / "checkpoint.npz"

    @property
    def policy(self) -> Path:
        """The policy alone."""
        return self.folder / "policy.npz"

    @property
    def exported(self) -> Path:
        """The policy for any program with JAX."""
        return self.folder / "policy.stablehlo"

    @property
    def recording(self) -> Path:
        """An episode of the policy, to be opened in a browser."""
        return self.folder / "episode.html"

    @property
    def rows(self) -> Path:
        """The learning curve as numbers."""
        return self.folder / "progress.csv"

    @property
    def curve(self) -> Path:
        """The learning curve as a picture."""
        return self.folder / "learning_curve.png"


def header_of(task: str, config: ppo.Config, report: dict[str, float]) -> dict[str, Any]:
    """What is written beside the arrays of a checkpoint."""
    return {"task": task, "config": dataclasses.asdict(config), "steps": report["steps"], "seconds": report["seconds"]}


def save_checkpoint(files: TrainingFiles, training: ppo.Training, header: dict[str, Any], rows: Sequence[Any]) -> None:
    """Writes the training, its policy and its curve as numbers.

    Raises:
      OSError: something could not be written; the checkpoint that was there is still there.
    """
    config = config_of(header)
    policies.save(files.checkpoint, {"training": training, "policy": ppo.policy_of(training, config)}, **header)
    with files.rows.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def load_training(files: TrainingFiles, environment: envs.Environment, config: ppo.Config) -> ppo.Training:
    """The training of a checkpoint.

    Raises:
      TrainingFailure: the checkpoint is not there, damaged, or of other options or devices.
    """
    like = jax.eval_shape(lambda: ppo.start(environment, config, jax.device_count()))
    try:
        return policies.load(files.checkpoint, {"training": like})["training"]
    except (OSError, ValueError) as error:
        raise TrainingFailure(f"cannot go on: {error}") from error


def load_rows(files: TrainingFiles, before: float) -> list[list[float]]:
    """The learning curve until a number of steps; empty if there is none."""
    if not files.rows.exists():
        return []
    with files.rows.open(newline="") as file:
        rows = [[float(x) for x in row] for row in list(csv.reader(file))[1:]]
    return [row for row in rows if row[0] <= before]


def load_header(path: Path) -> dict[str, Any]:
    """What is written beside the arrays of a checkpoint or a policy.

    Raises:
      TrainingFailure: there is no such file, or it is none of these.
    """
    try:
        header = policies.load_header(path)
    except FileNotFoundError as error:
        raise TrainingFailure(f"there is no checkpoint {str(path)!r}") from error
    except (OSError, ValueError) as error:
        raise TrainingFailure(str(error)) from error
    if not {"task", "config"} <= set(header):
        raise TrainingFailure(f"{str(path)!r} does not say of which task it is; was it written by artix train?")
    return header


def load_policy(path: Path, environment: envs.Environment, config: ppo.Config) -> policies.Policy:
    """The policy of a checkpoint, or of a file with a policy alone.

    Raises:
      TrainingFailure: the file is damaged, or of another task.
    """
    like = jax.eval_shape(lambda: ppo.policy_of(ppo.start(environment, config, 1), config))
    try:
        return policies.load(path, {"policy": like})["policy"]
    except (OSError, ValueError) as error:
        raise TrainingFailure(str(error)) from error


def config_of(header: dict[str, Any]) -> ppo.Config:
    """The settings in a header."""
    known = {field.name for field in dataclasses.fields(ppo.Config)}
    values: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in header["config"].items()}
    unknown = sorted(set(values) - known)
    if unknown:
        raise TrainingFailure(f"the checkpoint has settings that this version of artix does not know: {unknown}")
    return ppo.Config(**values)


def export_results(files: TrainingFiles, training: ppo.Training, header: dict[str, Any]) -> None:
    """Writes the policy alone and, if JAX can here, the policy as StableHLO.

    Raises:
      OSError: something could not be written.
    """
    policy = jax.device_get(ppo.policy_of(training, config_of(header)))
    policies.save(files.policy, {"policy": policy}, **header)
    try:
        files.exported.write_bytes(policies.export(policy))
    except ImportError as error:
        print(f"no {files.exported.name}: {error}")


def save_curve(files: TrainingFiles, rows: Sequence[Sequence[float]], title: str) -> None:
    """Draws the learning curve.

    Raises:
      OSError: the picture could not be written.
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
    figure.savefig(files.curve, dpi=120)
