"""Selects the shapes of an articulation that make contact."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from artix.model.articulation import Articulation
from artix.model.topology import Topology


def select_geometry(
    articulation: Articulation, touching: Collection[str], *, sensors: Collection[str] = ()
) -> Articulation:
    """The articulation with some of its shapes alone, all others gone.

    Every candidate of every shape is a contact of each step, whether it is near the ground or not. Where a description
    has shapes all over a robot, choose the feet, and what falls to the ground as sensors for terminations.

    Args:
      articulation: the articulation; its arrays may be traced or have leading batch axes.
      touching: names of the shapes that exert forces.
      sensors: names of the shapes that only measure their distance.

    Returns:
      The articulation with these shapes, in their order before, and with the pairs of them that there were.

    Raises:
      KeyError: there is no shape of a name; the message lists those that there are.
      ValueError: a name is among both.
      TypeError: the articulation is padded, or a single string is given for names.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> front = artix.select_geometry(robot, ["front_left_foot", "front_right_foot"], sensors=["rear_left_foot"])
      >>> print([(shape.name, shape.sensor) for shape in front.topology.geometries])
      [('front_left_foot', False), ('front_right_foot', False), ('rear_left_foot', True)]
    """
    topology = articulation.topology
    if not isinstance(topology, Topology):
        raise TypeError("a padded articulation has no geometry; choose that of the articulation that was padded")
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
