"""Training in stages: training runs one after another, each of which begins with what the one
before has learned.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from artix.cli.names import did_you_mean
from artix.cli.text import CommandFailure, rate
from artix.cli.training_files import TrainingFiles, check_is_new, load_header
from artix.cli.training_tasks import (
    TrainingTask,
    check_envs,
    parse_assignments,
    to_play,
    with_settings,
)
from artix.examples.learners import METHODS, method_of
from artix.io.common.atomic_file import write_atomically

#: Where the recipes of artix are.
RECIPES = Path(__file__).parents[1] / "examples" / "stages"
#: The seed of a stage is that of the run and this number for each stage before it, so that runs
#: with seeds from 0 to 9 share no random numbers.
SEEDS_APART = 10
#: What a later stage cannot change, since it goes on with what was learned.
_OF_THE_FIRST = ("robot.", "ppo.initial_noise=")


class Stage(NamedTuple):
    """One training run of several."""

    name: str
    steps: int
    """Environment steps."""
    num_envs: int | None
    """Number of environments; ``None`` for the one of the stage before."""
    assignments: tuple[str, ...]
    """What it changes, as texts of ``--set``."""


class Part(NamedTuple):
    """What a training run needs to know if it is one of several."""

    check: Callable[[TrainingTask], None]
    """Refuses what the stages after it cannot be, before training begins."""
    played: tuple[str, ...]
    """Those of its settings with which its policy is played, too."""
    is_last: bool
    again: str
    """The command that continues an interrupted run."""


class Command(NamedTuple):
    """What the user asked for, which ``--resume`` repeats."""

    task: str | None
    assignments: tuple[str, ...]
    robot: str | None
    method: str | None
    source: str | None
    residual: str | None
    seed: int | None


def recipes() -> list[str]:
    """The names of the recipes of artix."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def read_recipe(named: str) -> tuple[Stage, ...]:
    """Reads a recipe.

    Args:
      named: one of :func:`recipes`, or a TOML file: a table for each stage with ``steps`` and, if
        it has any, ``envs`` and ``set``.

    Raises:
      CommandFailure: there is no such recipe, or it says something else.
    """
    path = RECIPES / f"{named}.toml" if named in recipes() else Path(named)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = f"artix has the stages: {', '.join(recipes())}; your own are a TOML file"
        raise CommandFailure(
            f"--stages: there is no file {named!r}{did_you_mean(named, recipes())}; {known}"
        ) from error
    except ValueError as error:  # Of TOML, or of the encoding.
        raise CommandFailure(f"--stages {named}: {error}") from error
    try:
        stages = tuple(_stage(name, table) for name, table in tables.items())
        if not stages:
            raise CommandFailure("it has no stage: expected a table such as [begin] with steps")
    except CommandFailure as failure:
        raise CommandFailure(f"--stages {named}: {failure}") from failure
    return stages


def _stage(name: str, table: Any) -> Stage:
    """A stage from its table."""
    known = ("steps", "envs", "set")
    if not isinstance(table, dict):
        raise CommandFailure(f"{name!r} is no table of a stage, such as [begin] with steps")
    if not re.fullmatch(r"[\w-]+", name):
        raise CommandFailure(
            f"the stage {name!r} cannot be the name of a folder: use letters, digits, _ and -"
        )
    for key in table:
        if key not in known:
            raise CommandFailure(
                f"the stage {name!r} has no key {key!r}{did_you_mean(key, known)}; it takes "
                f"{', '.join(known)}"
            )
    counts = {key: table[key] for key in ("steps", "envs") if key in table}
    for key, value in {"steps": None, **counts}.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CommandFailure(
                f"the stage {name!r}: expected {key} = a whole number of at least 1; found "
                f"{'none' if value is None else repr(value)}"
            )
    texts = table.get("set", [])
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise CommandFailure(
            f'the stage {name!r}: expected set = texts as for --set, such as ["rewards.pose=1"]; '
            f"found {texts!r}"
        )
    parse_assignments(texts)
    return Stage(name, table["steps"], table.get("envs"), tuple(texts))


# --- one after another --------------------------------------------------------------------------


def begin_stages(
    train: Callable[..., int],
    stages: tuple[Stage, ...],
    command: Command,
    folder: Path,
    tensorboard: bool,
) -> int:
    """Trains in stages.

    Args:
      train: trains one stage, :func:`artix.cli.train.train_once`.
      stages: the stages.
      command: what the user asked for.
      folder: for the last stage, and in it a folder of its name for each one before.
      tensorboard: whether numbers also go to TensorBoard's event files.

    Returns:
      As :func:`artix.cli.train.run_train`.

    Raises:
      CommandFailure: a stage has an unknown setting or does not fit the one before; this is said
        before any of them begins.
    """
    for place in _folders(stages, folder):
        check_is_new(TrainingFiles(place))
    return _go_on(train, stages, command, folder, tensorboard)


def resume_stages(
    train: Callable[..., int],
    stages: tuple[Stage, ...] | None,
    command: Command,
    folder: Path,
    board: bool,
) -> int:
    """Continues what :func:`begin_stages` began, with what the folder knows of it.

    Args:
      train: as for :func:`begin_stages`.
      stages: the stages, if they are named once more.
      command: what else is said once more.
      folder: as for :func:`begin_stages`.
      board: as ``tensorboard`` there.

    Raises:
      CommandFailure: the folder has other stages or settings than those named.
    """
    try:
        kept = json.loads(TrainingFiles(folder).plan.read_text(encoding="utf-8"))
        planned = tuple(
            Stage(name, steps, num_envs, tuple(texts))
            for name, steps, num_envs, texts in kept["stages"]
        )
        settings = {**kept["command"], "assignments": tuple(kept["command"]["assignments"])}
        asked = Command(**settings)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandFailure(
            f"cannot resume: {str(TrainingFiles(folder).plan)!r} is missing or damaged: {error!r}"
        ) from error
    other = [] if stages in (None, planned) else ["stages (--stages)"]
    for name, value in command._asdict().items():
        if value not in (None, (), getattr(asked, name)):
            other.append(_SAID.get(name, f"{name} (--{name})"))
    if other:
        raise CommandFailure(
            f"--resume keeps the run's {' and '.join(other)}: leave out the options that differ"
        )
    return _go_on(train, planned, asked, folder, board)


#: How what differs is said, where the option has another name.
_SAID = {"task": "task", "assignments": "settings (--set)", "source": "begin (--from)"}


def _go_on(
    train: Callable[..., int],
    stages: tuple[Stage, ...],
    command: Command,
    folder: Path,
    tensorboard: bool,
) -> int:
    """The stages that are not complete."""
    before, total = 0, sum(stage.steps for stage in stages)
    folders = _folders(stages, folder)
    for k, (stage, place) in enumerate(zip(stages, folders, strict=True)):
        checkpoint = TrainingFiles(place).checkpoint
        is_begun = checkpoint.exists()
        if is_begun and load_header(checkpoint)["steps"] >= stage.steps:
            before += stage.steps
            continue
        print(
            f"stage {k + 1} of {len(stages)}, {stage.name}, after {rate(before)} of "
            f"{rate(total)} steps"
        )
        part = Part(
            check=_check(stages, command, folder) if k == 0 else _nothing,
            played=(*to_play(stage.assignments), *command.assignments),
            is_last=place == folder,
            again=f"artix train --resume --output {folder}",
        )
        options = (
            {"task": None, "num_envs": None, "seed": None, "resume": True}
            if is_begun
            else {"resume": False, **_begun(stage, k, command, folders)}
        )
        try:
            status = train(
                **options, steps=stage.steps, output=str(place), tensorboard=tensorboard, part=part
            )
        except CommandFailure as failure:
            is_its = k > 0 or any(one in str(failure) for one in stage.assignments)
            raise (_in_stage(stage, failure) if is_its else failure) from failure
        if status:
            return status
        before += stage.steps
    seconds = sum(load_header(TrainingFiles(place).checkpoint)["seconds"] for place in folders)
    print(f"{rate(total)} steps in {len(folders)} stages, {seconds / 60:.1f} minutes")
    return 0


def _folders(stages: tuple[Stage, ...], folder: Path) -> list[Path]:
    """Where the stages are saved."""
    return [*(folder / stage.name for stage in stages[:-1]), folder]


def _begun(stage: Stage, k: int, command: Command, folders: Sequence[Path]) -> dict[str, Any]:
    """The options with which a stage begins. What the user has set holds in all of them."""
    options: dict[str, Any] = {
        "num_envs": stage.num_envs,
        "seed": (command.seed or 0) + SEEDS_APART * k,
    }
    if k == 0:
        names = ("task", "robot", "method", "source", "residual")
        options |= {name: getattr(command, name) for name in names}
        return {**options, "assignments": (*stage.assignments, *command.assignments)}
    its = (one for one in command.assignments if not one.startswith(_OF_THE_FIRST))
    options |= {"task": None, "source": str(folders[k - 1])}
    return {**options, "assignments": (*stage.assignments, *its)}


def _check(
    stages: tuple[Stage, ...], command: Command, folder: Path
) -> Callable[[TrainingTask], None]:
    """Refuses stages that cannot follow the first one, and keeps the plan if all can."""

    def check(first: TrainingTask) -> None:
        learned, told = _kept(first), first
        for k, stage in enumerate(stages[1:], 1):
            try:
                fixed = [one for one in stage.assignments if one.startswith(_OF_THE_FIRST)]
                if fixed:
                    raise CommandFailure(f"{fixed[0]}: only the first stage can set that")
                its = _begun(stage, k, command, [folder] * (k + 1))["assignments"]
                told = with_settings(told, its)
                if stage.num_envs is not None:
                    config = dataclasses.replace(told.config, num_envs=stage.num_envs)
                    told = told._replace(config=config)
                check_envs(told.config)
                if _kept(told) != learned:
                    raise CommandFailure(
                        "it sees other observations or has networks of other sizes than the stage "
                        "before, and could not go on with what that one learned"
                    )
            except CommandFailure as failure:
                raise _in_stage(stage, failure) from failure
        folder.mkdir(parents=True, exist_ok=True)
        plan = json.dumps({"stages": stages, "command": command._asdict()}, indent=1)
        path = TrainingFiles(folder).plan
        write_atomically(path, lambda part: part.write_text(plan, encoding="utf-8"))

    return check


def _kept(told: TrainingTask) -> Any:
    """The shapes of what a stage takes over: networks, optimiser and moments of observations."""
    config, environment = told.config, told.environment
    start = METHODS[method_of(config)].start
    learner = jax.eval_shape(lambda: start(environment, config, jax.device_count())).learner
    kept = (learner.parameters, learner.optimizer, learner.observed)
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), kept)


def _in_stage(stage: Stage, failure: CommandFailure) -> CommandFailure:
    return CommandFailure(f"stage {stage.name!r}: {failure}")


def _nothing(_: TrainingTask) -> None:
    """Of a stage that has been checked with the first one."""
