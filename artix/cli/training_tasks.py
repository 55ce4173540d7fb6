"""What ``artix train`` trains: a task by name, with artix's robot or the user's own, or a task in a Python file."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp

import artix
from artix import envs
from artix.cli.assignments import changed_config, parse_assignments, robot_options, split, task_options
from artix.cli.robot_source import description_path, load_robot
from artix.cli.text import CommandFailure
from artix.examples.learners import METHODS, method_of, settings

#: The tasks of robots with two feet, and with more.
_BIPED, _QUADRUPED = "humanoid_velocity", "quadruped_velocity"
#: What of a robot its checkpoint keeps besides the articulation.
_OF_ROBOT = ("imu", "feet", "trunk", "default_position", "pose_weight", "height")


class TrainingTask(NamedTuple):
    """A task, and how it is trained."""

    name: str
    environment: envs.Environment
    config: Any
    """Settings of the method that learns it, :class:`artix.examples.ppo.Config` or that of another."""
    steps: int
    header: dict[str, Any]
    """What checkpoints say of the task: ``"task"``, ``"set"`` and, where they apply, ``"robot"`` and ``"file"``."""
    folder: str
    """Name of the folder for results."""
    articulation: artix.Articulation | None = None
    """The robot that checkpoints carry."""


def task_named(
    task: str | None, robot: str | None, assignments: Sequence[str] = (), method: str | None = None
) -> TrainingTask:
    """A task from the command line.

    Args:
      task: name of a task, or its beginning, or a Python file; ``None`` for the one that fits the robot.
      robot: a robot description for the task, a name of one, or ``None`` for the task's own robot.
      assignments: texts of ``--set``.
      method: how it is learned, one of :data:`artix.examples.learners.METHODS`; ``None`` for PPO, or for that of the
        Python file.

    Raises:
      CommandFailure: there is no such task, file, robot or option, or they do not fit each other.
    """
    _, of_robot, _ = split(parse_assignments(assignments))
    if task is not None and task.endswith(".py"):
        if robot is not None:
            raise CommandFailure("a task in a Python file makes its own robot: leave out --robot")
        return _from_file(Path(task), list(assignments), method)
    method = method or "ppo"
    if robot is None:
        if task is None:
            raise CommandFailure(f"give a task ({', '.join(envs.NAMES)}), a Python file with one, or --robot")
        name = _full_name(task)
        return _made(name, list(assignments), {"method": method}, name)
    legged = legged_robot(robot, robot_options(of_robot))
    print(f"{robot}: what is known and assumed (--set robot.NAME=VALUE changes it)\n{legged.table()}\n")
    name = (_BIPED if len(legged.feet) == 2 else _QUADRUPED) if task is None else _full_name(task)
    path = description_path(robot)
    numbers = {field: _json(getattr(legged, field)) for field in _OF_ROBOT}
    kept = {"method": method, "robot": {"description": str(path.resolve()), **numbers}}
    return _made(name, list(assignments), kept, path.stem if Path(robot).suffix else robot, legged)


def task_of(header: Mapping[str, Any], folder: Path, *, for_training: bool) -> TrainingTask:
    """The task of a checkpoint.

    Args:
      header: the header of the checkpoint.
      folder: where the robot that it carries is.
      for_training: whether the task has the options for training, rather than its usual ones, to play.

    Raises:
      CommandFailure: this version has no such task, or the robot or the Python file is missing.
    """
    assignments, method = header.get("set", []), header.get("method", "ppo")
    if "file" in header:
        return _from_file(Path(header["file"]), assignments, method)
    name = header["task"]
    if name not in envs.NAMES:
        raise CommandFailure(f"it is for the task {name!r}, which this version does not have")
    if "robot" not in header:
        return _made(name, assignments, {"method": method}, name, for_training=for_training)
    path = folder / "robot.npz"
    if not path.exists():
        raise CommandFailure(f"its robot is missing: copy robot.npz of the training run to {str(path)!r}")
    kept = header["robot"]
    try:
        articulation = artix.load(path)
    except ValueError as error:  # Of which a DescriptionError is one.
        raise CommandFailure(f"its robot is damaged: {error}") from error
    legged = envs.LeggedRobot(
        articulation,
        imu=kept["imu"],
        feet=tuple(kept["feet"]),
        trunk=tuple(kept["trunk"]),
        default_position=jnp.asarray(kept["default_position"], articulation.dtype),
        pose_weight=jnp.asarray(kept["pose_weight"], articulation.dtype),
        height=kept["height"],
    )
    kept = {"method": method, "robot": kept}
    return _made(name, assignments, kept, folder.name, legged, for_training=for_training)


def legged_robot(robot: str, options: Mapping[str, Any]) -> envs.LeggedRobot:
    """What a task needs to know about the robot that ``robot`` names. The meshes of its feet are read.

    Raises:
      CommandFailure: it cannot be read, or it is no legged robot.
      DescriptionError: the description has errors.
    """
    path = description_path(robot)
    reading = {} if path.suffix.lower() == ".npz" else {"meshes": "hull"}
    try:
        articulation = load_robot(robot, **reading)
    except CommandFailure as failure:
        if "trimesh" not in str(failure):
            raise
        print(f"artix: its meshes are left out: {failure}", file=sys.stderr)
        reading, articulation = {}, load_robot(robot)
    if articulation.topology.fixed_base and path.suffix.lower() != ".npz":
        print("artix: the description fixes the root to the world; here it floats", file=sys.stderr)
        articulation = load_robot(robot, fixed_base=False, **reading)
    try:
        return envs.LeggedRobot.of(articulation, **options)
    except (ValueError, TypeError, KeyError) as error:
        text = str(error.args[0]) if isinstance(error, KeyError) else str(error)
        raise CommandFailure(f"{text} (on the command line: --set robot.NAME=VALUE)") from error


def _made(
    name: str,
    assignments: list[str],
    kept: dict[str, Any],
    folder: str,
    robot: envs.LeggedRobot | None = None,
    *,
    for_training: bool = True,
) -> TrainingTask:
    """A task of artix, with its settings."""
    config, steps, options, always = _refused(functools.partial(settings, name, kept["method"]), {})
    of_method, of_robot, of_task = split(parse_assignments(assignments))
    if robot is None and of_robot:
        raise CommandFailure(f"--set {of_robot[0].text}: only a robot from --robot has such options")
    if not for_training:  # A trained robot has passed its curricula.
        of_task = [one for one in of_task if one.keys[0] != "curricula"]
    options = (options if for_training else {}) | always | ({} if robot is None else {"robot": robot})
    make = functools.partial(envs.make, name)
    environment = _refused(make, task_options(make, options, of_task))
    return TrainingTask(
        name,
        environment,
        changed_config(config, of_method),
        steps,
        {"task": name, "set": assignments, **kept},
        folder,
        None if robot is None else robot.articulation,
    )


def _from_file(path: Path, assignments: list[str], method: str | None = None) -> TrainingTask:
    """The task that a Python file makes."""
    if not path.is_file():
        raise CommandFailure(f"there is no Python file {str(path)!r} with a task")
    module = _module(path)
    make = getattr(module, "make", None)
    if not callable(make):
        raise CommandFailure(
            f"{str(path)!r} defines no make(): a function that returns an artix.envs.Environment; `config`, an "
            "artix.examples.ppo.Config or another method's, and `steps` may stand beside it"
        )
    usual = settings(path.stem)
    config = getattr(module, "config", usual.config if method in (None, "ppo") else METHODS[method].Config())
    try:
        its = method_of(config)
    except TypeError as error:
        raise CommandFailure(f"{str(path)!r}: {error}") from error
    if method not in (None, its):
        raise CommandFailure(f"{str(path)!r} has a config for the method {its!r}, not {method!r}")
    of_method, of_robot, of_task = split(parse_assignments(assignments))
    environment = _refused(make, task_options(make, {}, [*of_task, *of_robot]))
    if not (callable(getattr(environment, "reset", None)) and callable(getattr(environment, "step", None))):
        raise CommandFailure(f"make() of {str(path)!r} must return an artix.envs.Environment; found {environment!r}")
    steps = getattr(module, "steps", usual.steps)
    header = {"task": environment.name, "set": assignments, "method": its, "file": str(path.resolve())}
    config = changed_config(config, of_method)
    return TrainingTask(environment.name, environment, config, steps, header, path.stem)


def _module(path: Path) -> Any:
    """Runs a Python file as a module, which finds its neighbours."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandFailure(f"{str(path)!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandFailure(f"{str(path)!r} raised {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def _refused(make: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """The environment; what it refuses is for the user."""
    try:
        return make(**options)
    except (ValueError, TypeError) as error:
        raise CommandFailure(str(error)) from error


def _full_name(task: str) -> str:
    try:
        return envs.full_name(task)
    except ValueError as error:
        hint = "; a robot goes to --robot, and a task of your own is a Python file" if "." in task else ""
        raise CommandFailure(f"{error}{hint}") from error


def _json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value
