"""Termination conditions: pure functions that return [] (bool)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import artix
from artix.envs import observations

Array = jax.Array


def is_tilted(up: Array, cosine: float) -> Array:
    """Whether a robot's z axis ``up`` [3] is tilted by more than the angle with this cosine."""
    return up[2] < cosine


def touches_ground(
    articulation: artix.Articulation, state: artix.State, ground: artix.Ground, names: tuple[str, ...]
) -> Array:
    """Whether any of these shapes touches the ground.

    Args:
      articulation: the robot.
      state: its configuration.
      ground: the ground.
      names: names of the shapes, for instance sensors (:func:`with_sensor`).
    """
    distances = artix.geometry_distances(artix.Scene(articulation, ground=ground), state)
    return jnp.any(distances[observations.geometry_numbers(articulation, names)] < 0)


def with_sensor(articulation: artix.Articulation, link: str, shape: artix.Geometry, name: str) -> artix.Articulation:
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
        raise ValueError(f"the shape {name!r} must be a sensor (sensor=True), so that physics does not change")
    builder = artix.builder_from_articulation(articulation)
    builder.add_geometry(link, shape, name=name)
    return builder.build(dtype=articulation.dtype)
