"""Selects the pairs of shapes of an articulation that touch each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from artix.model.articulation import Articulation
from artix.model.checks import static_topology
from artix.model.geometry_pairs import candidate_pairs, checked_pairs

_PADDED = "a padded articulation has no geometry; choose the pairs of the articulation that was padded"


def select_geometry_pairs(articulation: Articulation, pairs: Sequence[tuple[str, str]]) -> Articulation:
    """The articulation with these pairs of shapes as those that touch each other, and no others.

    Pairs act in every step with ``solver="implicit"``, with or without a ground. Nothing touches that is in no pair.
    A shape that shall touch in its pairs alone, and not the ground, is a sensor.

    Args:
      articulation: the articulation; its arrays may be traced or have leading batch axes.
      pairs: names of two shapes each, spheres, capsules or boxes of links that move against each other; none for a
        robot that passes through itself.

    Returns:
      The articulation with these pairs.

    Raises:
      ValueError: a name is unknown, two shapes cannot touch, or a pair is given twice.
      TypeError: the articulation is padded.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> robot = artix.select_geometry_pairs(robot, [("front_left_foot", "front_right_foot")])
      >>> print(robot.topology.geometry_pairs)
      (('front_left_foot', 'front_right_foot'),)
    """
    topology = static_topology(articulation, _PADDED)
    return articulation.replace(topology=dataclasses.replace(topology, geometry_pairs=checked_pairs(topology, pairs)))


def possible_geometry_pairs(articulation: Articulation) -> tuple[tuple[str, str], ...]:
    """All pairs of shapes that could touch each other, to choose from.

    Left out are sensors, cylinders and hulls, shapes that do not move against each other, and neighbours: two links of
    which one is the next above the other that has shapes, since these mostly overlap at their joint.

    Args:
      articulation: the articulation.

    Returns:
      Names of two shapes each.

    Raises:
      TypeError: the articulation is padded.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> every = artix.editing.possible_geometry_pairs(robot)
      >>> print(len(every))  # of four feet
      6
      >>> front = [pair for pair in every if all("front" in name for name in pair)]
      >>> print(artix.select_geometry_pairs(robot, front).topology.geometry_pairs)
      (('front_left_foot', 'front_right_foot'),)
    """
    return candidate_pairs(static_topology(articulation, _PADDED))
