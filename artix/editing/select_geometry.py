"""Which shapes of an articulation touch."""

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
    has shapes all over a robot, choose the feet, and what falls to the ground as sensors for terminations::

        robot = artix.select_geometry(robot, ["left_foot", "right_foot"], sensors=["trunk"])

    Args:
      articulation: the articulation; its arrays may be traced or have leading batch axes.
      touching: names of the shapes that exert forces.
      sensors: names of the shapes that only measure their distance.

    Returns:
      The articulation with these shapes, in their order before.

    Raises:
      KeyError: there is no shape of a name; the message lists those that there are.
      ValueError: a name is among both.
      TypeError: the articulation is padded, or a single string is given for names.
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
    arrays = articulation.geometry.taken(topology.geometries, kept, axis=articulation.link_mass.ndim - 1)
    chosen = tuple(dataclasses.replace(one, sensor=one.name in sensors) for one in structures)
    return articulation.replace(topology=dataclasses.replace(topology, geometries=chosen), geometry=arrays)
