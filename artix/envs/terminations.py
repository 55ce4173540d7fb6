"""Termination conditions: pure functions that return [] (bool)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs.terms import call, check_known, check_mapping, check_signals

Array = jax.Array

Terminations = Mapping[str, "bool | Callable[..., Array] | None"]
"""What ends an episode: ``True`` for a term by name, a function of signals for one of your own, or
``None``."""


def tilted(up: Array, lowest_up: float) -> Array:
    """Whether the robot's z axis is tilted by more than the angle with the cosine ``lowest_up``."""
    return up[2] < lowest_up


def trunk_contact(trunk_gap: Array) -> Array:
    """Whether the trunk touches the ground."""
    return trunk_gap < 0


#: All terms by name.
TERMS: dict[str, Callable[..., Array]] = {term.__name__: term for term in (tilted, trunk_contact)}


def check_terminations(
    terms: Terminations, signals: Iterable[str]
) -> dict[str, Callable[..., Array]]:
    """The terms with their functions; those that are ``None`` or ``False`` are left out.

    Raises:
      TypeError: ``terms`` is no mapping.
      ValueError: there is no term of a name, a term needs a signal that the task does not have, or
        a value is neither ``True``, ``False`` nor a function.
    """
    check_mapping("terminations", terms, "'tilted': True")
    known, functions = tuple(signals), {}
    for name, term in terms.items():
        is_switch = isinstance(term, bool | np.bool_)
        if term is None or (is_switch and not term):
            continue
        if not callable(term):
            check_known("terminations", name, TERMS, "a function of signals")
            if not is_switch:
                raise ValueError(
                    f"terminations: {name!r} must be True, False, None or a function of signals; "
                    f"found {term!r}"
                )
        functions[name] = term if callable(term) else TERMS[name]
        check_signals(f"terminations: {name!r}", functions[name], known)
    return functions


def is_over(terms: Mapping[str, Callable[..., Array]], signals: Mapping[str, Any]) -> Array:
    """Whether any of the terms from :func:`check_terminations` ends the episode, [] (bool).

    Raises:
      ValueError: a term is not one truth value.

    Examples:
      >>> from artix.envs import terminations
      >>> terms = terminations.check_terminations({"low": lambda height: height < 0.1}, ["height"])
      >>> print(terminations.is_over(terms, {"height": jnp.array(0.05)}))
      True
    """
    over = jnp.array(False)
    for name, term in terms.items():
        value = jnp.asarray(call(term, signals))
        if value.shape or value.dtype != bool:
            raise ValueError(
                f"terminations: {name!r} must return one true or false; found "
                f"{value.dtype}{list(value.shape)}; jnp.any(...) makes one of several"
            )
        over = over | value
    return over


def with_sensor(
    articulation: artix.Articulation, link: str, shape: artix.Geometry, name: str
) -> artix.Articulation:
    """Adds a shape to one of the robot's links that only measures its distance to the ground.

    Args:
      articulation: the robot.
      link: name of the link.
      shape: the shape, with ``sensor=True``.
      name: name of the shape.

    Raises:
      ValueError: the shape is not a sensor, or there is no such link.

    Examples:
      >>> from artix.envs import terminations
      >>> robot = artix.robots.load("quadruped")
      >>> trunk = artix.Geometry.box((0.21, 0.1, 0.06), sensor=True)
      >>> robot = terminations.with_sensor(robot, "trunk", trunk, "trunk")
      >>> [each.name for each in robot.topology.geometries if each.sensor]
      ['trunk']
    """
    if not shape.sensor:
        raise ValueError(
            f"the shape {name!r} must be a sensor (sensor=True), so that physics does not change"
        )
    builder = artix.builder_from_articulation(articulation)
    builder.add_geometry(link, shape, name=name)
    return builder.build(dtype=articulation.dtype)
