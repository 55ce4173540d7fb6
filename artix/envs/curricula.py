"""Curricula: numbers from 0 to 1 that a robot earns from episode to episode, and that make its task
harder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp

from artix.envs.control_step import EnvState
from artix.envs.terms import check_known, check_mapping, pair_of
from artix.model.checks import as_number

Array = jax.Array

#: The number for the next episode, from the one of the episode that ended, [], and the state in
#: which it ended.
Curriculum: TypeAlias = Callable[[Array, EnvState], Array]

Curricula = Mapping[str, "float | tuple[float, Curriculum] | None"]
"""Curricula by name: where each starts, from 0 to 1; one of your own is ``(start, function)``."""

#: By how much an episode changes a number.
_STEP = 0.1


def commands(level: Array, ended: EnvState) -> Array:
    """The size of the commanded velocities: a tenth more after an episode without a fall, a tenth
    less after a fall.
    """
    return level + _STEP * (2 * ended.info["truncation"] - 1).astype(level.dtype)


#: All curricula by name.
TERMS: dict[str, Curriculum] = {"commands": commands}


def check_curricula(
    curricula: Curricula, taken: Iterable[str]
) -> dict[str, tuple[float, Curriculum]]:
    """The curricula with their functions; those that are ``None`` are left out.

    Args:
      curricula: where they start, by name.
      taken: names of the task's signals, which one of the user's must not have.

    Raises:
      TypeError: ``curricula`` is no mapping.
      ValueError: there is no curriculum of a name, a name is that of a signal, or a start is not
        from 0 to 1.
    """
    check_mapping("curricula", curricula, "'commands': 0.3")
    every: dict[str, tuple[float, Curriculum]] = {}
    for name, one in curricula.items():
        if one is None:
            continue
        if not isinstance(one, tuple):
            check_known("curricula", name, TERMS, "(start, function)")
        if name in taken:
            raise ValueError(f"curricula: {name!r} is a signal of the task; give it another name")
        start, function = pair_of("curricula", name, one, TERMS, "(start, function)")
        every[name] = (as_number(f"curricula: {name!r}", start, 0, 1), function)
    return every


def first(curricula: Mapping[str, tuple[float, Curriculum]], dtype) -> dict[str, Array]:
    """The numbers of a new robot."""
    return {name: jnp.asarray(start, dtype) for name, (start, _) in curricula.items()}


def after(
    curricula: Mapping[str, tuple[float, Curriculum]], levels: Mapping[str, Array], ended: EnvState
) -> dict[str, Array]:
    """The numbers of the next episode, kept between where they started and 1.

    Raises:
      ValueError: one is not a scalar.

    Examples:
      >>> from artix import envs
      >>> from artix.envs import curricula
      >>> terms = curricula.check_curricula({"commands": 0.3}, [])
      >>> fell = envs.make("cart_pole").reset(jax.random.key(0))
      >>> levels = curricula.after(terms, {"commands": jnp.array(0.5, "float32")}, fell)
      >>> print(levels["commands"])
      0.4
    """
    later = {}
    for name, (start, function) in curricula.items():
        level = jnp.asarray(function(levels[name], ended), levels[name].dtype)
        if level.shape:
            raise ValueError(
                f"curricula: {name!r} must return one number; its shape is {level.shape}"
            )
        later[name] = jnp.clip(level, start, 1)
    return later
