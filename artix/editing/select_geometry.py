"""Selects the shapes of an articulation that make contact with the ground."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from artix.model.articulation import Articulation
from artix.model.checks import static_topology


def select_geometry(
    articulation: Articulation, touching: Collection[str], *, sensors: Collection[str] = ()
) -> Articulation:
    """The articulation with only some of its shapes.

    Every candidate of every shape is a contact in each step, near the ground or not. If a description has shapes all
    over a robot, keep the feet, and as sensors for terminations those that touch the ground when it falls.

    Args:
      articulation: the articulation; its arrays may be traced or have leading batch axes.
      touching: names of the shapes that exert forces.
      sensors: names of the shapes that only measure their distance.

    Returns:
      The articulation with these shapes, in the previous order, and the previous pairs among them.

    Raises:
      KeyError: there is no shape with one of the names; the message lists the shapes.
      ValueError: a name is in both collections.
      TypeError: the articulation is padded, or a single string is passed for names.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> front = artix.select_geometry(robot, ["front_left_foot", "front_right_foot"], sensors=["rear_left_foot"])
      >>> print([(shape.name, shape.sensor) for shape in front.topology.geometries])
      [('front_left_foot', False), ('front_right_foot', False), ('rear_left_foot', True)]
    """
    topology = static_topology(
        articulation,
        "the shapes of a padded articulation have no names; choose those of the articulation it was made of",
    )
    for names in (touching, sensors):
        if isinstance(names, str):
            raise TypeError(f"names of shapes must be a sequence; found the one string {names!r}")
    twice = sorted(set(touching) & set(sensors))
    if twice:
        raise ValueError(f"{', '.join(twice)}: a shape is either touching or a sensor")
    kept = np.array(sorted({topology.geometry_index(name) for name in (*touching, *sensors)}), int)
    structures = [topology.geometries[k] for k in kept]
    arrays = articulation.geometry.select(topology.geometries, kept, axis=articulation.link_mass.ndim - 1)
    selected = tuple(dataclasses.replace(shape, sensor=shape.name in sensors) for shape in structures)
    names = {shape.name for shape in selected}
    pairs = tuple((a, b) for a, b in topology.geometry_pairs if a in names and b in names)
    kept_topology = dataclasses.replace(topology, geometries=selected, geometry_pairs=pairs)
    return articulation.replace(topology=kept_topology, geometry=arrays)
