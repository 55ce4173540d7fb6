"""The files of a training run: checkpoint, policy and learning curve."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

import artix
from artix import envs
from artix.cli.text import CommandFailure
from artix.examples import policies
from artix.examples.actor_critic import run_once
from artix.examples.learners import METHODS, method_of
from artix.examples.residual import Base, Residual, begin
from artix.io.common.atomic_file import write_atomically

#: The first columns of the learning curve, which every run has; the others follow by name.
COLUMNS = ("steps", "seconds", "return", "fall", "noise")
#: Over how many episodes ``recent/return`` and ``recent/fall`` are means, at least.
RECENT = 100
#: Of the metrics of a task, those in the picture of the learning curve: how well a command is
#: followed.
_TRACKING = re.compile(r"metrics/(reward/tracking.*|.*_error)")


@dataclasses.dataclass(frozen=True)
class TrainingFiles:
    """The files in the folder of a training run."""

    folder: Path
    articulation: artix.Articulation | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    """The robot that checkpoints carry; ``None`` for the task's own."""
    base: Base | None = dataclasses.field(default=None, repr=False, compare=False)
    """The policy to whose actions those of the trained one are added; ``None`` for none."""

    @property
    def checkpoint(self) -> Path:
        """The whole training run, to continue from."""
        return self.folder / "checkpoint.npz"

    @property
    def policy(self) -> Path:
        """The policy without the training state."""
        return self.folder / "policy.npz"

    @property
    def recording(self) -> Path:
        """A recorded episode, for a browser."""
        return self.folder / "episode.html"

    @property
    def robot(self) -> Path:
        """The robot, if it is not the task's own."""
        return self.folder / "robot.npz"

    @property
    def base_policy(self) -> Path:
        """The policy to whose actions those of the trained one are added."""
        return self.folder / "base.npz"

    @property
    def plan(self) -> Path:
        """Its stages, if it has several."""
        return self.folder / "stages.json"

    @property
    def rows(self) -> Path:
        """The learning curve as a table."""
        return self.folder / "progress.csv"

    @property
    def curve(self) -> Path:
        """The learning curve as a picture."""
        return self.folder / "learning_curve.png"


def check_is_new(files: TrainingFiles) -> None:
    """Refuses a folder that has a training run.

    Raises:
      CommandFailure: it has.
    """
    if files.checkpoint.exists() or files.plan.exists():
        raise CommandFailure(
            f"{str(files.folder)!r} already has a training run: continue it with --resume, or "
            "choose another folder with --output"
        )


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keeps other training runs out of a folder, in which each would overwrite what the other
    saves.

    The lock is the operating system's and ends with the process, however it ends. Where there are
    no locks (Windows, some network file systems), nothing is kept out.

    Raises:
      CommandFailure: another process trains in it.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandFailure(
                f"another training run is at work in {str(folder)!r}: choose another folder with "
                "--output"
            ) from error
        except OSError:  # A file system without locks.
            pass
        yield
    finally:
        os.close(handle)


def header_of(task: Mapping[str, Any], config: Any, report: dict[str, float]) -> dict[str, Any]:
    """The header of a checkpoint, with what says which task it is for."""
    return {
        **task,
        "config": dataclasses.asdict(config),
        "steps": report["steps"],
        "seconds": report["seconds"],
    }


def around(environment: envs.Environment, base: Base | None) -> envs.Environment:
    """The environment in which the method learns."""
    return environment if base is None else Residual(environment, base)


def policy_of(training: Any, config: Any, base: Base | None) -> policies.Policy:
    """The current policy of a training run, with the one to whose actions its own are added."""
    policy = METHODS[method_of(config)].policy_of(training, config)
    return policy if base is None else base.plus(policy)


def load_base(header: Mapping[str, Any], folder: Path) -> Base | None:
    """The policy under a residual, which the training run has saved; ``None`` without one.

    Raises:
      CommandFailure: its file is missing or damaged.
    """
    if "residual" not in header:
        return None
    path = TrainingFiles(folder).base_policy
    try:
        return Base(policies.load(path), tuple(header["residual"]["known"]))
    except (OSError, ValueError) as error:
        raise CommandFailure(
            f"the policy under the residual is missing: copy base.npz of the training run to "
            f"{str(path)!r}: {error}"
        ) from error


def save_checkpoint(
    files: TrainingFiles, training: Any, header: dict[str, Any], rows: Sequence[Mapping[str, float]]
) -> None:
    """Saves the training run, its policy, its robot and the table of its learning curve.

    Raises:
      OSError: a file cannot be written. An existing checkpoint is kept.
    """
    config = config_of(header)
    if files.articulation is not None:
        artix.save(files.articulation, files.robot)
    if files.base is not None:
        policies.save(files.base_policy, {"policy": files.base.policy})
    policy = policy_of(training, config, files.base)
    policies.save(files.checkpoint, {"training": training, "policy": policy}, **header)
    columns = [*COLUMNS, *sorted({name for row in rows for name in row} - {*COLUMNS})]
    table = io.StringIO(newline="")
    csv.writer(table).writerows(
        [columns, *([row.get(name, math.nan) for name in columns] for row in rows)]
    )
    write_atomically(files.rows, lambda part: part.write_text(table.getvalue(), newline=""))


def recent(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean return and fraction of falls of the latest iterations in which at least :data:`RECENT`
    episodes ended.

    The episodes of one iteration are few, and long ones are missing where all environments run in
    step.
    """
    episodes = returns = falls = 0.0
    for row in reversed(rows):
        if count := row.get("episodes", 0.0):
            episodes, returns = episodes + count, returns + count * row["return"]
            falls += count * row["fall"]
        if episodes >= RECENT:
            break
    nothing = math.nan
    return {
        "recent/return": returns / episodes if episodes else nothing,
        "recent/fall": falls / episodes if episodes else nothing,
    }


class EventFiles:
    """TensorBoard's event files of a training run, in its folder.

    Raises:
      CommandFailure: tensorboardX is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise CommandFailure(
                "--tensorboard needs tensorboardX: pip install 'artix[tensorboard]'"
            ) from error
        self._writer = SummaryWriter(str(folder), write_to_disk=True)

    def add(self, row: Mapping[str, float]) -> None:
        """Adds the numbers of an iteration that are finite."""
        for name, value in row.items():
            if name != "steps" and math.isfinite(value):
                self._writer.add_scalar(name, value, int(row["steps"]))

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


def new_training(environment: envs.Environment, config: Any, base: Base | None) -> Any:
    """A new training run; that of a residual begins with what its base policy does.

    Raises:
      CommandFailure: the residual has another number of layers than its base policy.
    """
    learned_in, method = around(environment, base), METHODS[method_of(config)]
    training = run_once(lambda: method.start(learned_in, config, jax.device_count()))
    if base is None:
        return training
    try:
        return begin(base, training)
    except ValueError as error:
        layers = ",".join(str(size) for size in base.policy.layers)
        mend = f"(on the command line: --set {method_of(config)}.policy_layers=[{layers}])"
        raise CommandFailure(f"--residual: {error} {mend}") from error


def load_training(files: TrainingFiles, environment: envs.Environment, config: Any) -> Any:
    """Loads the training run of a checkpoint.

    Raises:
      CommandFailure: the checkpoint is missing or damaged, or was saved with other options or
        devices.
    """
    like = jax.eval_shape(
        lambda: METHODS[method_of(config)].start(environment, config, jax.device_count())
    )
    try:
        return policies.load(files.checkpoint, {"training": like})["training"]
    except (OSError, ValueError) as error:
        raise CommandFailure(f"cannot resume: {error}") from error


def warm_start(
    checkpoint: Path, environment: envs.Environment, config: Any, base: Base | None = None
) -> Any:
    """A new training run that begins with the networks, the optimiser and the moments of a
    checkpoint.

    Raises:
      CommandFailure: the checkpoint is missing or damaged, or its networks have other sizes.
    """
    training = new_training(environment, config, base)
    try:
        return METHODS[method_of(config)].warm_started(
            training, lambda like: policies.load(checkpoint, {"training": like})["training"]
        )
    except (OSError, ValueError) as error:
        raise CommandFailure(f"--from: {error}") from error


def load_rows(files: TrainingFiles, before: float) -> list[dict[str, float]]:
    """Loads the learning curve up to a number of steps; empty if there is none. Its columns may be
    any.

    Raises:
      CommandFailure: the table is damaged.
    """
    if not files.rows.exists():
        return []
    try:
        with files.rows.open(newline="") as file:
            columns, *lines = csv.reader(file)
        rows = [dict(zip(columns, map(_number, row), strict=True)) for row in lines]
    except (OSError, ValueError) as error:
        raise CommandFailure(
            f"cannot resume: {str(files.rows)!r} is damaged: {error}; move it away"
        ) from error
    if not {*COLUMNS} <= {*columns}:
        raise CommandFailure(
            f"cannot resume: {str(files.rows)!r} is damaged: expected the columns "
            f"{', '.join(COLUMNS)}; move it away"
        )
    return [row for row in rows if row["steps"] <= before]


def _number(text: str) -> float:
    """A number as it was written: numbers of steps are whole."""
    return int(text) if text.isdecimal() else float(text)


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
        raise CommandFailure(
            f"{str(path)!r} does not name its task; was it written by artix train?"
        )
    return header


def title_of(header: Mapping[str, Any]) -> str:
    """The task of a checkpoint and, if it is not the task's own, its robot."""
    robot = Path(header.get("robot", {}).get("description", "")).stem
    return f"{header['task']} of {robot}" if robot else header["task"]


def load_policy(path: Path | str, environment: envs.Environment) -> policies.Policy:
    """Loads the policy from a checkpoint, from a policy file, or by the name of a task with a
    built-in one.

    Raises:
      CommandFailure: the file is damaged, or its policy has other observations or actions than the
        environment.
    """
    try:
        policy = policies.load(path)
    except (OSError, ValueError) as error:
        raise CommandFailure(str(error)) from error
    obs = jax.eval_shape(environment.reset, jax.random.key(0)).obs
    expected = ((obs["state"] if isinstance(obs, dict) else obs).shape, environment.action_size)
    if (policy.observed.mean.shape, policy.action_size) != expected:
        raise CommandFailure(
            f"the policy in {str(path)!r} does not fit {environment.name}: it takes "
            f"{policy.observed.mean.size} observations and returns {policy.action_size} actions, "
            f"the task has {expected[0][0]} and {expected[1]}"
        )
    return policy


def config_of(header: dict[str, Any]) -> Any:
    """The settings of the method from a header."""
    kind = METHODS[header.get("method", "ppo")].Config
    known = {field.name for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {
        name: tuple(x) if isinstance(x, list) else x for name, x in header["config"].items()
    }
    unknown = sorted(set(values) - known)
    if unknown:
        raise CommandFailure(
            f"the checkpoint has settings that are unknown to this version of artix: {unknown}"
        )
    return kind(**values)


def save_curve(files: TrainingFiles, rows: Sequence[Mapping[str, float]], title: str) -> None:
    """Draws the learning curve: the return and, for tasks with commands, how well they are
    followed.

    Raises:
      OSError: the picture cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tracking = sorted({name for row in rows for name in row if _TRACKING.fullmatch(name)})
    figure = Figure(figsize=(7, 7 if tracking else 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2 if tracking else 1, squeeze=False, sharex=True)[:, 0]
    for name in ("return", "recent/return", *tracking):
        shown = [row for row in rows if not math.isnan(row.get(name, math.nan))]
        label = name.removeprefix("metrics/").removeprefix("reward/").replace("_", " ")
        place = panels[-1] if name in tracking else panels[0]
        style = (
            {"color": "tab:blue", "alpha": 0.3 if name == "return" else 1.0}
            if name not in tracking
            else {}
        )
        label = {
            "return": "of each iteration",
            "recent/return": f"of the last {RECENT} episodes",
        }.get(name, label)
        place.plot(
            [row["steps"] / 1e6 for row in shown],
            [row[name] for row in shown],
            label=label,
            **style,
        )
    panels[0].set(ylabel="mean return of episodes", title=title)
    panels[0].legend()
    panels[-1].set(xlabel="environment steps [million]")
    if tracking:
        panels[-1].set(ylabel="mean over all steps, with noise")
        panels[-1].legend()
    for place in panels:
        place.grid(alpha=0.3)
    write_atomically(files.curve, lambda part: figure.savefig(part, dpi=120))
