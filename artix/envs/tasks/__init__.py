"""The tasks by name; a module for each kind of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from artix.envs.environment import Environment
from artix.envs.tasks.ant import Ant
from artix.envs.tasks.arm_reach import ArmReach
from artix.envs.tasks.cart_pole import CartPole
from artix.envs.tasks.hopper import Hopper
from artix.envs.tasks.humanoid import HumanoidStand, HumanoidVelocity
from artix.envs.tasks.imitation import HumanoidDance
from artix.envs.tasks.quadruped_get_up import QuadrupedGetUp
from artix.envs.tasks.quadruped_velocity import QuadrupedRough, QuadrupedVelocity
from artix.math.deprecated import old_modules as _old_modules

_old_modules(__name__)

_TASKS: dict[str, Callable[..., Environment]] = {
    "cart_pole": CartPole,
    "arm_reach": ArmReach,
    "hopper": Hopper,
    "ant": Ant,
    "quadruped_velocity": QuadrupedVelocity,
    "quadruped_rough": QuadrupedRough,
    "quadruped_get_up": QuadrupedGetUp,
    "humanoid_stand": HumanoidStand,
    "humanoid_velocity": HumanoidVelocity,
    "humanoid_dance": HumanoidDance,
}

#: The names of all tasks.
NAMES = tuple(_TASKS)


def full_name(name: str) -> str:
    """Completes a shortened name: the first of :data:`NAMES` that starts with it.

    Args:
      name: the beginning of a name.

    Returns:
      The name.

    Raises:
      ValueError: there is no such task; the message lists all tasks.

    Examples:
      >>> from artix import envs
      >>> print(envs.full_name("quadruped"), envs.full_name("quadruped_rough"))
      quadruped_velocity quadruped_rough
    """
    for task in NAMES:
        if task == name or task.startswith(f"{name}_"):
            return task
    beginnings = {task.partition("_")[0]: task for task in reversed(NAMES)}
    close = difflib.get_close_matches(name, [*NAMES, *beginnings], n=1)
    suggestion = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"no task called {name!r}{suggestion}; choose from: {', '.join(NAMES)}")


def make(name: str, **options: Any) -> Environment:
    """Makes a task by name.

    Args:
      name: one of :data:`NAMES`, or a shortened name (:func:`full_name`).
      **options: options of the task; see its class.

    Returns:
      One environment. :func:`autoreset` restarts its episodes automatically, and ``jax.vmap`` makes
      thousands.

    Raises:
      ValueError: there is no task with this name; the message lists all tasks.

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("cart_pole")
      >>> keys = jax.random.split(jax.random.key(0), 8)
      >>> states = jax.jit(jax.vmap(environment.reset))(keys)
      >>> states.obs.shape
      (8, 5)
    """
    return _TASKS[full_name(name)](**options)
