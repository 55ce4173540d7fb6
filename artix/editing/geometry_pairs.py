"""Selects the pairs of shapes of an articulation that collide with each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from artix.model.articulation import Articulation
from artix.model.checks import static_topology
from artix.model.geometry_pairs import candidate_pairs, checked_pairs

_PADDED = "the shapes of a padded articulation have no names; choose the pairs before it is padded"


def select_geometry_pairs(articulation: Articulation, pairs: Sequence[tuple[str, str]]) -> Articulation:
    """The articulation with exactly these pairs of shapes colliding with each other.

    Pairs collide in every step with ``solver="implicit"``, with or without a ground; all other shapes pass through each
    other. To let a shape collide in its pairs but not with the ground, make it a sensor.

    Args:
      articulation: the articulation; its arrays may be traced or have leading batch axes.
      pairs: pairs of names of spheres, capsules or boxes on links that move relative to each other; empty for a robot
        that passes through itself.

    Returns:
      The articulation with these pairs.

    Raises:
      ValueError: a name is unknown, two shapes cannot collide, or a pair is given twice.
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
    """All pairs of shapes that could collide with each other, to choose from.

    Left out are sensors, cylinders and hulls, shapes that do not move relative to each other, and shapes on
    neighbouring links, which usually overlap at their joint. Links are neighbours if one is the nearest ancestor with
    shapes of the other. Pinocchio's ``addAllCollisionPairs`` includes neighbours.

    Args:
      articulation: the articulation.

    Returns:
      Pairs of names of shapes.

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
