"""``artix train``: trains a policy, with progress, checkpoints, a learning curve and a recorded
episode.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax

from artix import envs
from artix.cli.export import export_policy
from artix.cli.play import load_played, save_episode, visuals_of
from artix.cli.text import CommandFailure, rate
from artix.cli.training_files import (
    EventFiles,
    TrainingFiles,
    alone_in,
    around,
    check_is_new,
    config_of,
    header_of,
    load_base,
    load_header,
    load_rows,
    load_training,
    new_training,
    policy_of,
    recent,
    save_checkpoint,
    save_curve,
    title_of,
    warm_start,
)
from artix.cli.training_stages import (
    Command,
    Part,
    begin_stages,
    read_recipe,
    resume_stages,
)
from artix.cli.training_tasks import (
    TrainingTask,
    as_played,
    changed_config,
    check_envs,
    folder_named,
    parse_assignments,
    split,
    task_named,
    task_of,
)
from artix.examples import policies
from artix.examples.learners import METHODS, method_of
from artix.examples.residual import Base, OptionsDifferError, base_for

_Item = TypeVar("_Item")

#: Time between checkpoints, and between progress lines if the output is not a terminal [s].
CHECKPOINT_PERIOD, LINE_PERIOD = 60.0, 10.0


def run_train(task: str | None, *, stages: str | None = None, **options: Any) -> int:
    """Trains a policy, in one training run or in several.

    Args:
      task: as for :func:`train_once`.
      stages: a recipe of training runs one after another, for
        :func:`artix.cli.training_stages.read_recipe`; ``None`` for one run, or for those that the
        folder to be resumed knows.
      **options: as for :func:`train_once`; of stages, each has its own ``steps`` and ``num_envs``.

    Returns:
      As :func:`train_once`.

    Raises:
      CommandFailure: as :func:`train_once`; or a stage has unknown settings, or cannot follow the
        one before.
    """
    names = ("robot", "method", "source", "residual", "seed")
    asked = Command(task, tuple(options.get("assignments", ())), *map(options.get, names))
    resume, output, board = map(options.get, ("resume", "output", "tensorboard"))
    if stages is None and not resume:
        return train_once(task, **options)
    if output is None and task is None and asked.robot is None:
        what = "--resume" if resume else "--stages"
        raise CommandFailure(f"{what} needs --output, the folder of the training run, or the task")
    folder = Path(output or f"runs/{folder_named(task, asked.robot)}")
    if stages is None and not TrainingFiles(folder).plan.exists():
        return train_once(task, **options)
    for name, option in (("steps", "--steps"), ("num_envs", "--envs")):
        if options.get(name) is not None:
            raise CommandFailure(f"{option}: each stage has its own; leave it out")
    named = None if stages is None else read_recipe(stages)
    if resume:
        return resume_stages(train_once, named, asked, folder, bool(board))
    assert named is not None  # Else the folder could only be resumed.
    return begin_stages(train_once, named, asked, folder, bool(board))


def train_once(
    task: str | None,
    *,
    steps: int | None,
    num_envs: int | None,
    seed: int | None,
    output: str | None,
    resume: bool,
    robot: str | None = None,
    assignments: Sequence[str] = (),
    tensorboard: bool = False,
    method: str | None = None,
    source: str | None = None,
    residual: str | None = None,
    part: Part | None = None,
) -> int:
    """Trains a policy in one training run.

    Args:
      task: name of a task of :mod:`artix.envs`, or the beginning of one, or a Python file with a
        task; ``None`` for the one that fits the robot, or for the checkpoint's.
      steps: environment steps, counted from the start of the training run; ``None`` for the task's
        usual number.
      num_envs: number of parallel environments; ``None`` for the task's usual number.
      seed: seed of all random numbers; ``None`` for 0.
      output: folder for the results; ``None`` for ``runs/TASK`` or ``runs/ROBOT``.
      resume: whether to continue from the checkpoint in the folder.
      robot: a robot description, or the name of one, to learn the task; ``None`` for the task's own
        robot.
      assignments: changed options, ``"rewards.pose=1"`` or ``"ppo.epochs=2"``.
      tensorboard: whether the numbers of each iteration also go to TensorBoard's event files in the
        folder.
      method: ``"ppo"`` or ``"shac"``; ``None`` for PPO, or for the method of the Python file or the
        checkpoint.
      source: the folder of another training run, or its ``checkpoint.npz``. A new one begins with
        what that one learned; task, robot, method and settings are its own, unless ``assignments``
        change them.
      residual: a policy to whose actions those of the trained one are added, as for
        :func:`artix.cli.play.run_play`; ``None`` for none.
      part: what else it needs to know if it is one of several; ``None`` if it is not.

    Returns:
      0 if all steps were taken; 130 if Ctrl-C, and 143 if SIGTERM, interrupted training and a
      checkpoint was saved.

    Raises:
      CommandFailure: the task or robot is unknown, the checkpoint cannot be used, or the results
        cannot be written.
      DescriptionError: the robot's description has errors.
    """
    start = (
        None
        if source is None
        else _start(
            source,
            resume,
            {"a task": task, "--robot": robot, "--method": method, "--residual": residual},
        )
    )
    base = None
    if start is not None:
        chosen, base = _changed(*start, assignments), load_base(start[0], start[1].parent)
    elif resume and output is not None and task is None and robot is None:
        header = load_header(TrainingFiles(Path(output)).checkpoint)
        chosen = _of_checkpoint(header, Path(output))
    else:
        chosen = task_named(task, robot, assignments, method)
    if residual is not None and not resume:
        base = _base(residual, chosen.environment)
        kept = {"policy": residual, "known": list(base.known)}
        chosen = chosen._replace(header=chosen.header | {"residual": kept})
    files = TrainingFiles(Path(output or f"runs/{chosen.folder}"), chosen.articulation, base)
    changes: dict[str, Any] = {"num_envs": num_envs, "seed": seed}
    changes = {name: value for name, value in changes.items() if value is not None}
    config, training, rows = dataclasses.replace(chosen.config, **changes), None, []
    if resume:
        header = load_header(files.checkpoint)
        if header["task"] != chosen.name:
            raise CommandFailure(
                f"{str(files.checkpoint)!r} is for the task {header['task']!r}, not {chosen.name!r}"
            )
        said = {"num_envs": "number of environments (--envs)", "seed": "seed (--seed)"}
        its = header["config"]
        other = [said[name] for name, value in changes.items() if value != its.get(name)]
        for what in ("robot", "file"):
            mine, its = (each.get(what) for each in (chosen.header, header))
            other += [what] if mine != its else []
        its_residual = header.get("residual", {}).get("policy")
        other += ["residual (--residual)"] if residual not in (None, its_residual) else []
        other += ["method (--method)"] if method not in (None, header.get("method", "ppo")) else []
        if assignments and list(assignments) != header.get("set", []):
            other.append("settings (--set)")
        if other:
            raise CommandFailure(
                f"--resume keeps the checkpoint's {' and '.join(other)}: leave out the options "
                "that differ"
            )
        chosen, config = _of_checkpoint(header, files.folder), config_of(header)
        files = dataclasses.replace(files, base=load_base(header, files.folder))
        training = load_training(files, chosen.environment, config)
        rows = load_rows(files, header["steps"])
    else:
        check_envs(config)
        if part is None:
            check_is_new(files)
    if part is not None:
        if not resume:
            before = [] if start is None else start[0].get("played", start[0].get("set", []))
            played = {"played": [*before, *part.played]}
            chosen = chosen._replace(header=chosen.header | played)
        part.check(chosen._replace(config=config))
    if start is not None:
        training = warm_start(start[1], chosen.environment, config, base)
        print(f"begins with what {start[1]} learned in {rate(start[0]['steps'])} steps")
    elif base is not None:
        training = new_training(chosen.environment, config, base)
        print(f"begins with what {residual} does, and learns what to add to its actions")
    try:
        files.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandFailure(
            f"the folder {str(files.folder)!r} cannot be created: {error.strerror}"
        ) from error
    with alone_in(files.folder):
        events = EventFiles(files.folder) if tensorboard else None
        return _train(chosen, config, steps or chosen.steps, training, rows, files, events, part)


def _start(source: str, resume: bool, others: dict[str, str | None]) -> tuple[dict[str, Any], Path]:
    """The header and the path of the checkpoint that a new training run begins with."""
    if resume:
        raise CommandFailure(
            "--resume continues a training run, --from begins a new one: give one of them"
        )
    if fixed := [name for name, value in others.items() if value is not None]:
        raise CommandFailure(
            f"--from takes {' and '.join(fixed)} from its checkpoint: leave that out"
        )
    path = Path(source)
    path = TrainingFiles(path).checkpoint if path.is_dir() else path
    header = load_header(path)
    is_built_in = not path.exists()
    if is_built_in or not any("training/" in name for name in zipfile.ZipFile(path).namelist()):
        raise CommandFailure(
            f"--from {source}: that is a policy alone; training goes on with the critic, the "
            "optimiser and the noise of a checkpoint.npz: give the folder of a training run, or "
            f"learn what to add to the policy with --residual {source}"
        )
    return header, path


def _changed(header: dict[str, Any], path: Path, assignments: Sequence[str]) -> TrainingTask:
    """The task of a checkpoint, with its settings and further ones."""
    of_method, of_robot, _ = split(parse_assignments(assignments))
    if of_robot:
        raise CommandFailure(f"--set {of_robot[0].text}: --from keeps the robot of its checkpoint")
    config = changed_config(config_of(header), of_method)
    if getattr(config, "initial_noise", None) != header["config"].get("initial_noise"):
        raise CommandFailure(
            "--set ppo.initial_noise: --from keeps the noise that its checkpoint has learned"
        )
    changed: dict[str, Any] = {
        name: [*header[name], *assignments] for name in ("set", "played") if name in header
    }
    return _of_checkpoint({**header, **changed}, path.parent)._replace(config=config)


def _of_checkpoint(header: dict[str, Any], folder: Path) -> TrainingTask:
    try:
        chosen = task_of(header, folder, for_training=True)
    except CommandFailure as failure:
        raise CommandFailure(f"{str(folder)!r} cannot be used: {failure}") from failure
    kept = {name: header[name] for name in ("residual", "played") if name in header}
    return chosen._replace(header=chosen.header | kept)


def _base(residual: str, environment: envs.Environment) -> Base:
    """The policy to whose actions those of the trained one are added."""
    _, level, policy = load_played(residual)
    try:
        return base_for(environment, policy, level)
    except OptionsDifferError as error:
        mend = f"(on the command line: --set {' '.join(error.assignments)})"
        raise CommandFailure(f"--residual {residual}: {error} {mend}") from error
    except ValueError as error:
        raise CommandFailure(f"--residual {residual}: {error}") from error


def _train(
    chosen: TrainingTask,
    config: Any,
    steps: int,
    training: Any,
    rows: list[dict[str, float]],
    files: TrainingFiles,
    events: EventFiles | None = None,
    part: Part | None = None,
) -> int:
    task, environment = chosen.name, chosen.environment
    before = rows[-1]["seconds"] if rows else 0.0
    print(
        f"{task}: {rate(steps)} steps in {config.num_envs} environments on {_devices()}, saved in "
        f"{files.folder}/"
    )
    print("compiling ...", flush=True)
    if config.mirror and (reason := getattr(environment, "asymmetry", "")):
        print(f"no symmetry is used: {reason}")
    progress = _Progress(steps)
    last_saved = time.perf_counter()
    report = None
    status = 0
    try:
        iterations = METHODS[method_of(config)].train(
            around(environment, files.base), config, steps=steps, training=training
        )
        for training, report in _until_terminated(iterations):
            report["seconds"] += before
            rows.append(report)
            report |= recent(rows)
            progress.show(report)
            if events is not None:
                events.add(report)
            if time.perf_counter() - last_saved > CHECKPOINT_PERIOD:
                _save_or_say(
                    files, training, header_of(chosen.header, config, report), rows, progress
                )
                last_saved = time.perf_counter()
    except KeyboardInterrupt as interrupt:
        status = 143 if isinstance(interrupt, _Terminated) else 130
    except FloatingPointError as error:
        raise CommandFailure(str(error)) from error
    progress.end()
    if events is not None:
        events.close()
    if training is None or report is None:
        print("interrupted before the first iteration" if status else "nothing left to do")
        return status
    header = header_of(chosen.header, config, report)
    environment = as_played(chosen)
    files = _save_somewhere(files, training, header, rows, environment)
    if status:
        # The checkpoint knows its robot and its settings.
        named = "" if files.articulation is not None or "file" in chosen.header else f" {task}"
        again = f"artix train{named} --resume --steps {steps} --output {files.folder}"
        print(f"interrupted; continue with: {again if part is None else part.again}")
        return status
    if part is not None and not part.is_last:
        return status
    visuals = visuals_of(chosen.header, environment)
    policy = policy_of(training, config, files.base)
    is_recorded = _record(files, environment, policy, config.seed, visuals)
    print(
        "to see the result: "
        f"{f'open {files.recording}' if is_recorded else f'artix play {files.policy}'}"
    )
    return 0


def _devices() -> str:
    """What it trains on, such as ``2 x NVIDIA H100``."""
    kinds = [device.device_kind for device in jax.devices()]
    name = kinds[0] if kinds[0] != "cpu" else "the CPU"
    return name if len(kinds) == 1 else f"{len(kinds)} x {name.removeprefix('the ')}"


class _Terminated(KeyboardInterrupt):
    """SIGTERM, by which batch systems and containers end a process, asks for the same as Ctrl-C."""


def _until_terminated(iterations: Iterator[_Item]) -> Iterator[_Item]:
    """The items, until SIGTERM raises :class:`_Terminated`. Only the main thread may handle
    signals.
    """

    def terminate(*_: Any) -> None:
        raise _Terminated

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if is_main else None
    try:
        yield from iterations
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _save_somewhere(
    files: TrainingFiles,
    training: Any,
    header: dict[str, Any],
    rows: list[dict[str, float]],
    environment: envs.Environment,
) -> TrainingFiles:
    """Saves the results of a training run. If its folder cannot be written, a new temporary one
    takes its place.

    Returns:
      The files that were written.

    Raises:
      CommandFailure: neither folder can be written.
    """
    try:
        _save_all(files, training, header, rows, environment)
        return files
    except OSError as error:
        print(
            f"artix: {str(files.folder)!r} cannot be written: {error.strerror or error}",
            file=sys.stderr,
        )
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"artix-{header['task']}-"))
        files = dataclasses.replace(files, folder=folder)
        _save_all(files, training, header, rows, environment)
        return files
    except OSError as error:
        where = f"the temporary folder {tempfile.gettempdir()!r} cannot be written either"
        raise CommandFailure(f"{where}: {error.strerror or error}; TMPDIR names another") from error


def _save_all(
    files: TrainingFiles,
    training: Any,
    header: dict[str, Any],
    rows: list[dict[str, float]],
    environment: envs.Environment,
) -> None:
    save_checkpoint(files, training, header, rows)
    config = config_of(header)
    policy = jax.device_get(policy_of(training, config, files.base))
    policies.save(files.policy, {"policy": policy}, **header)
    _, missing = export_policy(files.folder, policy, environment)
    for reason in missing:
        print(f"no {reason}")
    save_curve(files, rows, f"{title_of(header)}, {method_of(config).upper()}")
    print(
        f"saved in {files.folder}/: "
        f"{', '.join(sorted(path.name for path in files.folder.iterdir()))}"
    )


def _record(
    files: TrainingFiles,
    environment: envs.Environment,
    policy: policies.Policy,
    seed: int,
    visuals: Any = None,
) -> bool:
    """Records an episode of the policy, if the viewer is installed."""
    try:
        save_episode(files.recording, environment, policy, seed + 1, visuals)
    except (ImportError, OSError) as error:
        print(f"no {files.recording.name}: {getattr(error, 'strerror', None) or error}")
        return False
    return True


def _save_or_say(
    files: TrainingFiles, training: Any, header: Any, rows: Any, progress: _Progress
) -> None:
    """Saves a checkpoint during training. A full disk must not end the training run."""
    try:
        save_checkpoint(files, training, header, rows)
    except OSError as error:
        progress.end()
        print(
            f"artix: no checkpoint was saved: {error.strerror or error}; training continues",
            file=sys.stderr,
        )


class _Progress:
    """Progress: one line that is overwritten in a terminal, and a new line now and then
    elsewhere.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.shown, self.speed = steps, -math.inf, math.nan
        self.last: dict[str, float] | None = None

    def show(self, report: dict[str, float]) -> None:
        if self.last is not None:  # the first iteration includes compilation
            speed = (report["steps"] - self.last["steps"]) / max(
                report["seconds"] - self.last["seconds"], 1e-9
            )
            self.speed = speed if math.isnan(self.speed) else 0.95 * self.speed + 0.05 * speed
        clock = time.perf_counter()
        live = sys.stdout.isatty()
        if clock - self.shown > (0.2 if live else LINE_PERIOD) or report["steps"] >= self.steps:
            print(("\r" if live else "") + self._text(report), end="" if live else "\n", flush=True)
            self.shown = clock
        self.last = report

    def _text(self, report: dict[str, float]) -> str:
        parts = [f"{rate(report['steps'])} of {rate(self.steps)} steps"]
        if not math.isnan(self.speed):
            minutes, seconds = divmod(
                round(max(self.steps - report["steps"], 0) / max(self.speed, 1e-9)), 60
            )
            parts += [f"{rate(self.speed)} steps/s", f"{minutes}:{seconds:02d} left"]
        if not math.isnan(report["recent/return"]):
            parts += [
                f"return {report['recent/return']:.4g}",
                f"{100 * report['recent/fall']:.0f} % terminated",
            ]
        if report.get("metrics/nan"):
            parts.append(f"{report['metrics/nan']:.1g} of the steps were not finite")
        return " | ".join(parts).ljust(100)

    def end(self) -> None:
        if self.last is not None and sys.stdout.isatty():
            print()
