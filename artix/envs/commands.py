"""Velocity commands for a policy to follow, which change at random times."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix.envs import random_numbers
from artix.model.checks import as_number

Array = jax.Array


class VelocityCommands(NamedTuple):
    """How velocity commands are drawn, as in Playground's Go1 joystick: forward, left, and yaw
    rate.

    The command changes at exponentially distributed intervals. It is then to stand still, with a
    probability of ``chance_of_standing``; otherwise each component is kept or redrawn, with equal
    probability, and a redrawn component is either uniform or zero.
    """

    largest: tuple[float, float, float] = (1.5, 0.8, 1.2)
    """Largest magnitudes [m/s, m/s, rad/s]."""
    chance_of_motion: tuple[float, float, float] = (0.9, 0.25, 0.5)
    """Probability that a redrawn component is not zero."""
    mean_time: float = 5.0
    """Mean time between changes [s]."""
    chance_of_standing: float = 0.1
    """Probability that a command, the first one too, is to stand still."""


class DrawnCommand(NamedTuple):
    """A candidate for the next command."""

    value: Array
    """Values of components that change, [3]."""
    changes: Array
    """Which components change, [3] (bool)."""
    time: Array
    """How long it holds, [] [s]."""


def check_commands(commands: VelocityCommands | Callable[..., Any]) -> None:
    """Refuses commands that cannot be drawn. A function is not called.

    Raises:
      TypeError: they are neither :class:`VelocityCommands` nor a function.
      ValueError: there are not three components, a magnitude is negative or not finite, a chance is
        outside [0, 1], or the mean time is not positive or not finite.
    """
    if not isinstance(commands, VelocityCommands):
        if callable(commands):
            return
        raise TypeError(
            "velocity commands: expected artix.envs.commands.VelocityCommands or a function of a "
            f"key and a dtype; found {commands!r}"
        )
    largest, chance = commands.largest, commands.chance_of_motion
    if len(largest) != 3 or not all(0 <= each < math.inf for each in largest):
        raise ValueError(
            f"velocity commands: expected three largest magnitudes of at least 0, found {largest}"
        )
    if len(chance) != 3 or not all(0 <= each <= 1 for each in chance):
        raise ValueError(
            f"velocity commands: expected three chances of motion in [0, 1], found {chance}"
        )
    as_number("velocity commands: mean_time [s]", commands.mean_time, positive=True)
    as_number("velocity commands: chance_of_standing", commands.chance_of_standing, 0, 1)


def first_command(
    key: Array, commands: VelocityCommands | Callable[..., Any], dtype
) -> tuple[Array, Array]:
    """The command at the start of an episode, [3], uniform or zero, and how long it holds, [] [s].

    Args:
      key: a JAX random key.
      commands: how commands are drawn, or a function of a key and a dtype that draws one.
      dtype: dtype of the results.

    Raises:
      TypeError, ValueError: as for :func:`draw_command`.
    """
    if not isinstance(commands, VelocityCommands):
        drawn = _drawn_by(commands, key, dtype)
        return drawn.value, drawn.time
    uniform = random_numbers.uniform(key, 5, dtype)
    value = (2 * uniform[:3] - 1) * jnp.array(commands.largest, dtype)
    return jnp.where(_stands(uniform[4], commands), 0, value), _time(uniform[3], commands)


def draw_command(
    key: Array, commands: VelocityCommands | Callable[..., Any], dtype
) -> DrawnCommand:
    """Draws the next command, which takes effect once the current one expires.

    Args:
      key: a JAX random key.
      commands: how commands are drawn, or a function of a key and a dtype that draws one.
      dtype: dtype of the results.

    Raises:
      TypeError: the function returns something else than a :class:`DrawnCommand`.
      ValueError: an array that it returns has the wrong shape.

    Examples:
      >>> from artix.envs import commands
      >>> kinds = commands.VelocityCommands(largest=(1.0, 1.0, 1.0))
      >>> drawn = commands.draw_command(jax.random.key(0), kinds, jnp.float32)
      >>> bool(jnp.all(jnp.abs(drawn.value) <= 1.0))
      True
    """
    if not isinstance(commands, VelocityCommands):
        return _drawn_by(commands, key, dtype)
    uniform = random_numbers.uniform(key, 11, dtype)
    stands = _stands(uniform[10], commands)
    moves = uniform[3:6] < jnp.array(commands.chance_of_motion, dtype)
    value = jnp.where(
        moves & ~stands, (2 * uniform[:3] - 1) * jnp.array(commands.largest, dtype), 0
    )
    return DrawnCommand(value, stands | (uniform[6:9] < 0.5), _time(uniform[9], commands))


def _drawn_by(function: Callable[..., Any], key: Array, dtype) -> DrawnCommand:
    """The command that a function of the user's draws."""
    drawn = function(key, dtype)
    if not isinstance(drawn, DrawnCommand):
        raise TypeError(
            "velocity commands: the function must return an artix.envs.commands.DrawnCommand; "
            f"found {type(drawn).__name__}"
        )
    kinds = (dtype, bool, dtype)
    drawn = DrawnCommand(*(jnp.asarray(x, kind) for x, kind in zip(drawn, kinds, strict=True)))
    for name, shape in (("value", (3,)), ("changes", (3,)), ("time", ())):
        its_shape = getattr(drawn, name).shape
        if its_shape != shape:
            raise ValueError(
                f"velocity commands: {name} of the drawn command must have the shape {shape}; "
                f"found {its_shape}"
            )
    return drawn


def next_command(
    command: Array, remaining: Array, drawn: DrawnCommand, dt: float
) -> tuple[Array, Array]:
    """The command of the next control step, and how long it still holds.

    Args:
      command: the command of this step, [3].
      remaining: how long it still holds, [] [s].
      drawn: the candidate for the next one.
      dt: the control period [s].
    """
    remaining = remaining - dt
    is_over = remaining <= 0
    changed = jnp.where(drawn.changes, drawn.value, command)
    return jnp.where(is_over, changed, command), jnp.where(is_over, drawn.time, remaining)


def _stands(uniform: Array, commands: VelocityCommands) -> Array:
    return uniform < commands.chance_of_standing


def _time(uniform: Array, commands: VelocityCommands) -> Array:
    """An exponentially distributed time from a uniform number below one; at most twenty times the
    mean.
    """
    return -float(commands.mean_time) * jnp.log(jnp.maximum(1 - uniform, math.exp(-20)))
