"""What ``artix train`` trains: a task by name or in a Python file, for any robot, with the options
of ``--set``.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.util
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import envs
from artix.cli.names import INSTALLABLE, is_built_in
from artix.cli.robot_source import description_path, load_robot
from artix.cli.text import CommandFailure
from artix.envs import (
    LeggedRobot,
    curricula,
    disturbances,
    observation_terms,
    rewards,
    starts,
    terminations,
)
from artix.envs.observation_terms import ObservationTerm
from artix.examples import ppo
from artix.examples.learners import METHODS, method_of, settings
from artix.io.load import SUFFIXES

#: Options of tasks that the command line cannot express, or that other arguments give.
_NOT_BY_NAME = (
    "self",
    "name",
    "robot",
    "dtype",
    "ground",
    "tiles",
    "randomization",
    "articulation",
)

#: The terms of options that are mappings; ``none`` leaves one out.
_TERMS: dict[str, Iterable[str]] = {
    "rewards": rewards.TERMS,
    "observations": observation_terms.TERMS,
    "privileged": observation_terms.TERMS,
    "resets": starts.TERMS,
    "terminations": terminations.TERMS,
    "curricula": curricula.TERMS,
    "noise_scales": disturbances.GO1_NOISE,
}


#: Options that say what is learned and from what, and not what a policy sees and does: while it
#: plays, they are the task's usual ones.
_FOR_TRAINING = frozenset({
    "rewards", "tracking_sigma", "max_foot_height", "least_reward", "terminations", "lowest_up",
    "velocity_commands", "pushes", "resets", "curricula", "noise_scales", "episode_length", *METHODS
})  # fmt: skip


class Assignment(NamedTuple):
    """One of ``--set a.b=1``."""

    text: str
    keys: tuple[str, ...]
    value: Any


def parse_assignments(texts: Iterable[str]) -> list[Assignment]:
    """Reads assignments. Values are JSON, or several of them with commas between, or text.

    Raises:
      CommandFailure: a text is not of the form ``key=value``.
    """
    assignments = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not all(key.split(".")):
            raise CommandFailure(
                f"--set {text!r}: expected KEY=VALUE, such as rewards.pose=1; the task stands "
                "before"
            )
        assignments.append(Assignment(text, tuple(key.strip().split(".")), _value(value.strip())))
    return assignments


def split(
    assignments: Sequence[Assignment],
) -> tuple[list[Assignment], list[Assignment], list[Assignment]]:
    """The assignments of a method of learning, such as ``ppo.``, of ``robot.``, and of the task."""
    parts: dict[str, list[Assignment]] = {"method": [], "robot": [], "": []}
    kinds = {"robot": "robot"} | dict.fromkeys(METHODS, "method")
    for one in assignments:
        parts[kinds.get(one.keys[0], "") if len(one.keys) > 1 else ""].append(one)
    return parts["method"], parts["robot"], parts[""]


def to_play(assignments: Sequence[str]) -> list[str]:
    """Of the assignments of a stage, those that hold while its policy plays."""
    read = parse_assignments(assignments)
    return [one.text for one in read if one.keys[0] not in _FOR_TRAINING]


def changed_config(config: Any, assignments: Sequence[Assignment]) -> Any:
    """The settings of a method with, for instance, ``ppo.NAME=value`` changed.

    Raises:
      CommandFailure: there is no such setting, it is one of another method, or the value is of
        another type or out of range.
    """
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    method = method_of(config)
    for one in assignments:
        head, *names = one.keys
        if head != method:
            raise CommandFailure(
                f"--set {one.text}: this training run learns with {method!r} (--method)"
            )
        known(one, ".".join(names), fields, f"{method}.")
        try:
            config = dataclasses.replace(config, **{names[0]: _like(one, fields[names[0]])})
        except ValueError as error:
            raise CommandFailure(f"--set {one.text}: {error}") from error
    return config


def robot_options(assignments: Sequence[Assignment]) -> dict[str, Any]:
    """The keywords of :meth:`artix.envs.LeggedRobot.of` from ``robot.NAME=value``.

    Raises:
      CommandFailure: there is no such keyword.
    """
    options = {}
    for one in assignments:
        _, *names = one.keys
        known(one, ".".join(names), _of_robot(), "robot.")
        is_list = names[0] == "feet" and isinstance(one.value, str)
        options[names[0]] = (one.value,) if is_list else one.value
    return options


def _of_robot() -> list[str]:
    """The keywords of :meth:`artix.envs.LeggedRobot.of` that the command line takes."""
    return [
        name
        for name in inspect.signature(LeggedRobot.of).parameters
        if name not in ("articulation", "trunk")
    ]


def task_options(
    make: Callable[..., Any], options: Mapping[str, Any], assignments: Sequence[Assignment]
) -> dict[str, Any]:
    """The options of a task with assignments.

    Args:
      make: makes the environment from options.
      options: options to start from.
      assignments: as ``tracking_sigma=0.5``, ``rewards.pose=1`` or
        ``velocity_commands.largest=1,0,1``.

    Raises:
      CommandFailure: the task has no such option, or the option no such part.
    """
    if not assignments:
        return dict(options)
    environment = make(**options)
    parameters, takes_any = _parameters(make, environment)
    names, changed = list(parameters), dict(options)
    for one in assignments:
        head, *rest = one.keys
        if not takes_any:
            terms = [
                f"{option}.{term}"
                for option in _TERMS
                if option in names
                for term in _TERMS[option]
            ]
            every = [*names, *terms]
            learner = [f"ppo.{field.name}" for field in dataclasses.fields(METHODS["ppo"].Config)]
            known(one, head, names, "", [*every, *learner])
        before = changed.get(head, getattr(environment, head, None))
        if head == "pushes" and before is None and rest:
            before = disturbances.Pushes()
        if rest:
            changed[head] = _with_part(one, before, rest)
        else:
            changed[head] = _like(one, before, parameters.get(head))
    return changed


def known(
    one: Assignment, name: str, names: Iterable[str], prefix: str, others: Iterable[str] = ()
) -> None:
    """Raises :class:`CommandFailure` with the names that are like it, unless ``name`` is one of
    ``names``.
    """
    names = list(names)
    if name in names:
        return
    every = dict.fromkeys([*(f"{prefix}{each}" for each in names), *others])
    like = difflib.get_close_matches(".".join(one.keys), every, 2, 0.6)
    hint = (
        f"did you mean {' or '.join(like)}?"
        if like
        else f"choose from: {', '.join(prefix + x for x in names)}"
    )
    raise CommandFailure(f"--set {one.text}: there is no {'.'.join(one.keys)!r}; {hint}")


def _with_part(one: Assignment, before: Any, rest: Sequence[str]) -> Any:
    """An option of which one entry or field has the value of the assignment."""
    head, *more = rest
    if isinstance(before, Mapping):
        known(one, head, dict.fromkeys([*before, *_TERMS.get(one.keys[0], ())]), f"{one.keys[0]}.")
        if (
            more
            and one.keys[0] == "observations"
            and not isinstance(before.get(head), ObservationTerm)
        ):
            before = {**before, head: ObservationTerm(scale=before.get(head) or 1.0)}
        return {**before, head: _with_part(one, before[head], more) if more else one.value}
    fields = getattr(before, "_fields", None) or tuple(getattr(before, "__dataclass_fields__", ()))
    if not fields:
        raise CommandFailure(f"--set {one.text}: {one.keys[0]!r} has no parts; set it as a whole")
    known(one, head, fields, f"{'.'.join(one.keys[: -len(rest)])}.")
    kept = getattr(before, head)
    kind = getattr(type(before), "__annotations__", {}).get(head)
    value = _with_part(one, kept, more) if more else _like(one, kept, kind)
    try:
        replaced = getattr(before, "_replace", None) or functools.partial(
            dataclasses.replace, before
        )
        return replaced(**{head: value})
    except (TypeError, ValueError) as error:
        raise CommandFailure(f"--set {one.text}: {error}") from error


def _parameters(make: Callable[..., Any], environment: Any) -> tuple[dict[str, Any], bool]:
    """The options of a task with their types, and whether it takes any: from ``make``, and from
    classes to which it passes any.
    """
    sources: list[Any] = [make, *type(environment).__mro__]
    types: dict[str, Any] = {}
    for source in sources:
        parameters = inspect.signature(source).parameters.values()
        its = {
            one.name: one.annotation
            for one in parameters
            if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        }
        types = its | types  # What comes first is what is called.
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            return {name: kind for name, kind in types.items() if name not in _NOT_BY_NAME}, False
    return types, True


def _like(one: Assignment, before: Any, kind: Any = None) -> Any:
    """The value, in the type of the one that it replaces.

    Args:
      one: the assignment.
      before: the value that it replaces.
      kind: the annotation of what may be assigned, if there is one.

    Raises:
      CommandFailure: it is of another type.
    """
    value = one.value
    may_be = [part.strip() for part in str(kind or "").split("|")]
    if "PerJoint" in may_be or (value is None and "None" in may_be):
        return value
    if isinstance(before, tuple) and not hasattr(before, "_fields"):
        value = tuple(value) if isinstance(value, list | tuple) else (value,)
    if isinstance(before, bool):
        fits = isinstance(value, bool)
    elif isinstance(before, int):
        fits = (
            isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
        )
        value = int(value) if fits else value
    elif isinstance(before, float):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        value = float(value) if fits else value  # so that 1.5 may follow 2
    else:
        return value
    if not fits:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(before)]
        raise CommandFailure(
            f"--set {one.text}: expected {kind}, as {before}; found {one.text.partition('=')[2]!r}"
        )
    return value


def _value(text: str) -> Any:
    """JSON, or values with commas between, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    if "," in text and text[0] not in "[{":
        return tuple(_value(part.strip()) for part in text.split(","))
    words = {"none": None, "None": None, "True": True, "False": False}
    return {**words, "inf": math.inf, "-inf": -math.inf}.get(text, text)


# --- tasks --------------------------------------------------------------------------------------


#: The tasks of robots with two feet, and with more.
_BIPED, _QUADRUPED = "humanoid_velocity", "quadruped_velocity"
#: The tasks that a robot from ``--robot`` can learn; the others have robots of their own.
OF_ANY_ROBOT = (_QUADRUPED, "quadruped_rough", _BIPED, "humanoid_stand")
#: What of a robot its checkpoint keeps besides the articulation.
_OF_ROBOT = ("imu", "feet", "trunk", "default_position", "pose_weight", "height")


class TrainingTask(NamedTuple):
    """A task, and how it is trained."""

    name: str
    environment: envs.Environment
    config: Any
    """Settings of the method that learns it, such as :class:`artix.examples.ppo.Config`."""
    steps: int
    header: dict[str, Any]
    """What checkpoints say of the task: ``"task"``, ``"set"`` and, where they apply, ``"robot"``,
    ``"file"`` and ``"played"``, the settings to play with in the place of ``"set"``."""
    folder: str
    """Name of the folder for results."""
    articulation: artix.Articulation | None = None
    """The robot that checkpoints carry."""


def task_named(
    task: str | None, robot: str | None, assignments: Sequence[str] = (), method: str | None = None
) -> TrainingTask:
    """A task from the command line.

    Args:
      task: name of a task, or its beginning, or a Python file; ``None`` for the one that fits the
        robot.
      robot: a robot description for the task, a name of one, or ``None`` for the task's own robot.
      assignments: texts of ``--set``.
      method: how it is learned, one of :data:`artix.examples.learners.METHODS`; ``None`` for PPO,
        or for that of the Python file.

    Raises:
      CommandFailure: there is no such task, file, robot or option, or they do not fit each other.
    """
    _, of_robot, _ = split(parse_assignments(assignments))
    if task is not None and task.endswith(".py"):
        if robot is not None:
            raise CommandFailure("a task in a Python file makes its own robot: leave out --robot")
        return _from_file(Path(task), list(assignments), method)
    method, folder = method or "ppo", folder_named(task, robot)
    if robot is None:
        return _make_task(folder, list(assignments), {"method": method}, folder)
    if robot.endswith(".py"):
        raise CommandFailure(
            f"--robot takes the description of a robot; for a task in Python: artix train {robot}"
        )
    if task is not None and (name := _full_name(task)) not in OF_ANY_ROBOT:
        raise CommandFailure(
            f"{name} has a robot of its own; --robot is for {', '.join(OF_ANY_ROBOT)}"
        )
    legged = legged_robot(robot, robot_options(of_robot))
    print(
        f"{robot}: what is known and assumed (--set robot.NAME=VALUE changes "
        f"it)\n{legged.table()}\n"
    )
    name = (_BIPED if len(legged.feet) == 2 else _QUADRUPED) if task is None else _full_name(task)
    path = description_path(robot)
    numbers = {field: _json(getattr(legged, field)) for field in _OF_ROBOT}
    kept = {"method": method, "robot": {"description": str(path.resolve()), **numbers}}
    return _make_task(name, list(assignments), kept, folder, legged)


def folder_named(task: str | None, robot: str | None) -> str:
    """The name of the folder for the results of a task from the command line.

    Raises:
      CommandFailure: there is neither a task nor a robot, or no task of that name.
    """
    if robot is not None:
        return Path(robot).stem if Path(robot).suffix else robot
    if task is None:
        raise CommandFailure(
            f"give a task ({', '.join(envs.NAMES)}), a Python file with one, or --robot"
        )
    return Path(task).stem if task.endswith(".py") else _full_name(task)


def task_of(header: Mapping[str, Any], folder: Path, *, for_training: bool) -> TrainingTask:
    """The task of a checkpoint.

    Args:
      header: the header of the checkpoint.
      folder: where the robot that it carries is.
      for_training: whether the task has the options for training, rather than its usual ones, to
        play.

    Raises:
      CommandFailure: this version has no such task, or the robot or the Python file is missing.
    """
    assignments, method = header.get("set", []), header.get("method", "ppo")
    if not for_training:
        assignments = header.get("played", assignments)
    if "file" in header:
        return _from_file(Path(header["file"]), assignments, method)
    name = header["task"]
    if name not in envs.NAMES:
        raise CommandFailure(f"it is for the task {name!r}, which this version does not have")
    if "robot" not in header:
        return _make_task(name, assignments, {"method": method}, name, for_training=for_training)
    kept = header["robot"]
    if kept["description"] in INSTALLABLE:  # The policy comes with artix, its robot does not.
        legged, place = _installed_robot(kept, assignments), kept["description"]
    else:
        legged, place = _saved_robot(kept, folder / "robot.npz"), folder.name
    kept = {"method": method, "robot": kept}
    return _make_task(name, assignments, kept, place, legged, for_training=for_training)


def with_settings(told: TrainingTask, assignments: Sequence[str]) -> TrainingTask:
    """The task with further settings, as ``artix train --from`` has it.

    Raises:
      CommandFailure: there is no such option or setting.
    """
    of_method, _, _ = split(parse_assignments(assignments))
    config = changed_config(told.config, of_method)
    changed = _made_again(told, [*told.header["set"], *assignments], for_training=True)
    return changed._replace(config=config)


def as_played(told: TrainingTask) -> envs.Environment:
    """The task as its policy will be played, if other settings than those of training are named for
    that.
    """
    if "played" not in told.header:
        return told.environment
    return _made_again(told, told.header["played"], for_training=False).environment


def _made_again(told: TrainingTask, assignments: list[str], *, for_training: bool) -> TrainingTask:
    """The task of the same robot with other settings."""
    header = told.header
    if "file" in header:
        return _from_file(Path(header["file"]), assignments, header["method"])
    environment: Any = getattr(told.environment, "unwrapped", told.environment)
    kept: dict[str, Any] = {name: header[name] for name in ("method", "robot") if name in header}
    robot = environment.robot if "robot" in header else None
    return _make_task(
        header["task"], assignments, kept, told.folder, robot, for_training=for_training
    )


def check_envs(config: Any) -> None:
    """Refuses a number of environments that the devices cannot share, or experience that gradient
    steps cannot.

    Raises:
      CommandFailure: it is no multiple of the number of devices, or the experience none of the
        number of minibatches.
    """
    if not isinstance(config, ppo.Config):
        return  # One device learns, and the settings have been checked.
    if config.num_envs % jax.device_count():
        raise CommandFailure(
            f"--envs must be a multiple of the number of devices, {jax.device_count()}; found "
            f"{config.num_envs}"
        )
    try:
        ppo.check_shares(config, jax.device_count())
    except ValueError as error:
        raise CommandFailure(f"{error} (--envs, --set ppo.minibatches)") from error


def _installed_robot(kept: Mapping[str, Any], assignments: Sequence[str]) -> envs.LeggedRobot:
    """The robot of a policy that comes with artix, from its installed description."""
    name = kept["description"]
    _, of_robot, _ = split(parse_assignments(assignments))
    legged = legged_robot(name, robot_options(of_robot), needs_meshes=True)
    numbers, expected = (
        np.hstack([get("default_position"), get("pose_weight"), get("height")])
        for get in (functools.partial(getattr, legged), kept.__getitem__)
    )
    is_same = numbers.shape == expected.shape and np.allclose(numbers, expected, atol=1e-3)
    if not is_same or legged.feet != tuple(kept["feet"]):
        raise CommandFailure(
            f"the installed description of {name!r} is another one than its policy was trained "
            f"with: pip install {kept['package']}"
        )
    return legged


def _saved_robot(kept: Mapping[str, Any], path: Path) -> envs.LeggedRobot:
    """The robot that a training run has saved."""
    if not path.exists():
        raise CommandFailure(
            f"its robot is missing: copy robot.npz of the training run to {str(path)!r}"
        )
    try:
        articulation = artix.load(path)
    except ValueError as error:  # Of which a DescriptionError is one.
        raise CommandFailure(f"its robot is damaged: {error}") from error
    return envs.LeggedRobot(
        articulation,
        imu=kept["imu"],
        feet=tuple(kept["feet"]),
        trunk=tuple(kept["trunk"]),
        default_position=jnp.asarray(kept["default_position"], articulation.dtype),
        pose_weight=jnp.asarray(kept["pose_weight"], articulation.dtype),
        height=kept["height"],
    )


def legged_robot(
    robot: str, options: Mapping[str, Any], *, needs_meshes: bool = False
) -> envs.LeggedRobot:
    """What a task needs to know about the robot that ``robot`` names.

    Args:
      robot: a robot description, or the name of one.
      options: keywords of :meth:`artix.envs.LeggedRobot.of`.
      needs_meshes: whether the meshes of its feet must be read, rather than left out without the
        package for them.

    Raises:
      CommandFailure: it cannot be read, or it is not a legged robot.
      DescriptionError: the description has errors.
    """
    path = description_path(robot)
    reading = {} if path.suffix.lower() == ".npz" else {"meshes": "hull"}
    try:
        articulation = load_robot(robot, **reading)
    except CommandFailure as failure:
        if needs_meshes or "trimesh" not in str(failure):
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
        # Some mistakes are in the description, and no option mends them.
        named = [name for name in _of_robot() if re.search(rf"\b{name}(=|:| must)", text)]
        hint = " ".join(f"robot.{name}=VALUE" for name in named)
        raise CommandFailure(
            f"{text} (on the command line: --set {hint})" if named else text
        ) from error


def _make_task(
    name: str,
    assignments: list[str],
    kept: dict[str, Any],
    folder: str,
    robot: envs.LeggedRobot | None = None,
    *,
    for_training: bool = True,
) -> TrainingTask:
    """A task of artix, with its settings."""
    config, steps, options, always = _make_or_explain(
        functools.partial(settings, name, kept["method"]), {}
    )
    of_method, of_robot, of_task = split(parse_assignments(assignments))
    if robot is None and of_robot:
        raise CommandFailure(
            f"--set {of_robot[0].text}: only a robot from --robot has such options"
        )
    if not for_training:  # A trained robot has passed its curricula.
        of_task = [one for one in of_task if one.keys[0] != "curricula"]
    options = (
        (options if for_training else {}) | always | ({} if robot is None else {"robot": robot})
    )
    make = functools.partial(envs.make, name)
    environment = _make_or_explain(make, task_options(make, options, of_task))
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
            f"{str(path)!r} defines no make(): a function that returns an artix.envs.Environment; "
            "`config`, an artix.examples.ppo.Config or another method's, and `steps` may stand "
            "beside it"
        )
    usual = settings(path.stem)
    config = getattr(
        module, "config", usual.config if method in (None, "ppo") else METHODS[method].Config()
    )
    try:
        its = method_of(config)
    except TypeError as error:
        raise CommandFailure(f"{str(path)!r}: {error}") from error
    if method not in (None, its):
        raise CommandFailure(f"{str(path)!r} has a config for the method {its!r}, not {method!r}")
    of_method, of_robot, of_task = split(parse_assignments(assignments))
    environment = _make_or_explain(make, task_options(make, {}, [*of_task, *of_robot]))
    if not (
        callable(getattr(environment, "reset", None))
        and callable(getattr(environment, "step", None))
    ):
        raise CommandFailure(
            f"make() of {str(path)!r} must return an artix.envs.Environment; found {environment!r}"
        )
    steps = getattr(module, "steps", usual.steps)
    header = {
        "task": environment.name,
        "set": assignments,
        "method": its,
        "file": str(path.resolve()),
    }
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


def _make_or_explain(make: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """The environment; what it refuses is for the user."""
    try:
        return make(**options)
    except (ValueError, TypeError) as error:
        raise CommandFailure(str(error)) from error


def _full_name(task: str) -> str:
    try:
        return envs.full_name(task)
    except ValueError as error:
        is_description = Path(task).suffix.lower() in SUFFIXES
        if is_description or task in INSTALLABLE or is_built_in(task):
            raise CommandFailure(
                f"{task!r} is a robot and not a task; to train it: artix train --robot {task}"
            ) from error
        hint = "; a task of your own is a Python file" if "." in task else ""
        raise CommandFailure(f"{error}{hint}") from error


def _json(value: Any) -> Any:
    return (
        value.tolist()
        if hasattr(value, "tolist")
        else list(value)
        if isinstance(value, tuple)
        else value
    )
