"""The ways to learn by name, and their settings for a task."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from artix.examples import ppo, ppo_settings, shac, shac_settings
from artix.examples.ppo_settings import Settings

#: Modules with ``Config``, ``start``, ``warm_started``, ``train`` and ``policy_of``.
METHODS: dict[str, ModuleType] = {"ppo": ppo, "shac": shac}


def method_of(config: Any) -> str:
    """The name of the method that these are settings of.

    Raises:
      TypeError: they are settings of none.

    Example:
      >>> from artix.examples import learners, shac
      >>> learners.method_of(shac.Config())
      'shac'
    """
    for name, method in METHODS.items():
        if isinstance(config, method.Config):
            return name
    kinds = " or ".join(f"artix.examples.{name}.Config" for name in METHODS)
    raise TypeError(f"config must be an {kinds}; found {config!r}")


def settings(task: str, method: str = "ppo") -> Settings:
    """Settings of a method for a task.

    Raises:
      ValueError: the method is SHAC, which has no settings for the task: its rewards may have no
        slope.

    Example:
      >>> from artix.examples.learners import settings
      >>> settings("quadruped_velocity", "shac").always
      {'gait_frequency': 2.5}
    """
    if method == "ppo":
        return ppo_settings.settings(task)
    if task not in shac_settings.SETTINGS:
        raise ValueError(
            f"SHAC has settings for {', '.join(shac_settings.SETTINGS)} only; found {task!r}"
        )
    return shac_settings.SETTINGS[task]
