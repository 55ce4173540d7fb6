"""``--set key=value``: changes settings of the learner and options of a task by dotted names."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from artix.cli.text import CommandFailure
from artix.envs import LeggedRobot, curricula, disturbances, noise, observation_terms, rewards, starts, terminations
from artix.envs.observation_terms import ObservationTerm
from artix.examples.learners import METHODS, method_of

#: Options of tasks that the command line cannot express, or that other arguments give.
_NOT_BY_NAME = ("self", "name", "robot", "dtype", "ground", "tiles", "randomization", "articulation")

#: The terms of options that are mappings; ``none`` leaves one out.
_TERMS: dict[str, Iterable[str]] = {
    "rewards": rewards.TERMS,
    "observations": observation_terms.TERMS,
    "privileged": observation_terms.TERMS,
    "resets": starts.TERMS,
    "terminations": terminations.TERMS,
    "curricula": curricula.TERMS,
    "noise_scales": noise.GO1,
}


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
            raise CommandFailure(f"--set {text!r}: expected KEY=VALUE, such as rewards.pose=1; the task stands before")
        assignments.append(Assignment(text, tuple(key.strip().split(".")), _value(value.strip())))
    return assignments


def split(assignments: Sequence[Assignment]) -> tuple[list[Assignment], list[Assignment], list[Assignment]]:
    """The assignments of a method of learning, such as ``ppo.``, of ``robot.``, and of the task."""
    parts: dict[str, list[Assignment]] = {"method": [], "robot": [], "": []}
    kinds = {"robot": "robot"} | dict.fromkeys(METHODS, "method")
    for one in assignments:
        parts[kinds.get(one.keys[0], "") if len(one.keys) > 1 else ""].append(one)
    return parts["method"], parts["robot"], parts[""]


def changed_config(config: Any, assignments: Sequence[Assignment]) -> Any:
    """The settings of a method with, for instance, ``ppo.NAME=value`` changed.

    Raises:
      CommandFailure: there is no such setting, it is one of another method, or the value is of another type or out of
        range.
    """
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    method = method_of(config)
    for one in assignments:
        head, *names = one.keys
        if head != method:
            raise CommandFailure(f"--set {one.text}: this training run learns with {method!r} (--method)")
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
    keywords = [name for name in inspect.signature(LeggedRobot.of).parameters if name not in ("articulation", "trunk")]
    options = {}
    for one in assignments:
        _, *names = one.keys
        known(one, ".".join(names), keywords, "robot.")
        is_list = names[0] == "feet" and isinstance(one.value, str)
        options[names[0]] = (one.value,) if is_list else one.value
    return options


def task_options(
    make: Callable[..., Any], options: Mapping[str, Any], assignments: Sequence[Assignment]
) -> dict[str, Any]:
    """The options of a task with assignments.

    Args:
      make: makes the environment from options.
      options: options to start from.
      assignments: as ``tracking_sigma=0.5``, ``rewards.pose=1`` or ``velocity_commands.largest=1,0,1``.

    Raises:
      CommandFailure: the task has no such option, or the option no such part.
    """
    if not assignments:
        return dict(options)
    environment = make(**options)
    names, takes_any = _parameters(make, environment)
    changed = dict(options)
    for one in assignments:
        head, *rest = one.keys
        if not takes_any:
            terms = [f"{option}.{term}" for option in _TERMS if option in names for term in _TERMS[option]]
            every = [*names, *terms]
            learner = [f"ppo.{field.name}" for field in dataclasses.fields(METHODS["ppo"].Config)]
            known(one, head, names, "", [*every, *learner])
        before = changed.get(head, getattr(environment, head, None))
        if head == "pushes" and before is None and rest:
            before = disturbances.Pushes()
        changed[head] = _with_part(one, before, rest) if rest else _like(one, before)
    return changed


def known(one: Assignment, name: str, names: Iterable[str], prefix: str, others: Iterable[str] = ()) -> None:
    """Raises :class:`CommandFailure` with the names that are like it, unless ``name`` is one of ``names``."""
    names = list(names)
    if name in names:
        return
    every = dict.fromkeys([*(f"{prefix}{each}" for each in names), *others])
    like = difflib.get_close_matches(".".join(one.keys), every, 2, 0.6)
    hint = f"did you mean {' or '.join(like)}?" if like else f"choose from: {', '.join(prefix + x for x in names)}"
    raise CommandFailure(f"--set {one.text}: there is no {'.'.join(one.keys)!r}; {hint}")


def _with_part(one: Assignment, before: Any, rest: Sequence[str]) -> Any:
    """An option of which one entry or field has the value of the assignment."""
    head, *more = rest
    if isinstance(before, Mapping):
        known(one, head, dict.fromkeys([*before, *_TERMS.get(one.keys[0], ())]), f"{one.keys[0]}.")
        if more and one.keys[0] == "observations" and not isinstance(before.get(head), ObservationTerm):
            before = {**before, head: ObservationTerm(scale=before.get(head) or 1.0)}
        return {**before, head: _with_part(one, before[head], more) if more else one.value}
    fields = getattr(before, "_fields", None) or tuple(getattr(before, "__dataclass_fields__", ()))
    if not fields:
        raise CommandFailure(f"--set {one.text}: {one.keys[0]!r} has no parts; set it as a whole")
    known(one, head, fields, f"{'.'.join(one.keys[: -len(rest)])}.")
    value = _with_part(one, getattr(before, head), more) if more else _like(one, getattr(before, head))
    try:
        replaced = getattr(before, "_replace", None) or functools.partial(dataclasses.replace, before)
        return replaced(**{head: value})
    except (TypeError, ValueError) as error:
        raise CommandFailure(f"--set {one.text}: {error}") from error


def _parameters(make: Callable[..., Any], environment: Any) -> tuple[list[str], bool]:
    """The options of a task, and whether it takes any: those of ``make``, and of classes to which it passes any."""
    sources: list[Any] = [make, *type(environment).__mro__]
    names: dict[str, None] = {}
    for source in sources:
        parameters = inspect.signature(source).parameters.values()
        names |= {one.name: None for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            return [name for name in names if name not in _NOT_BY_NAME], False
    return list(names), True


def _like(one: Assignment, before: Any) -> Any:
    """The value, in the type of the one that it replaces.

    Raises:
      CommandFailure: it is of another type.
    """
    value = one.value
    if isinstance(before, tuple) and not hasattr(before, "_fields"):
        value = tuple(value) if isinstance(value, list | tuple) else (value,)
    if isinstance(before, bool):
        fits = isinstance(value, bool)
    elif isinstance(before, int):
        fits = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
        value = int(value) if fits else value
    elif isinstance(before, float):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        return value
    if not fits:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(before)]
        raise CommandFailure(f"--set {one.text}: expected {kind}, as {before}; found {one.text.partition('=')[2]!r}")
    return value


def _value(text: str) -> Any:
    """JSON, or values with commas between, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    if "," in text and text[0] not in "[{":
        return tuple(_value(part.strip()) for part in text.split(","))
    return {"none": None, "None": None, "True": True, "False": False}.get(text, text)
