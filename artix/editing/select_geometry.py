"""Selects the shapes of an articulation that make contact with the ground, and the pairs of them that collide."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import jax
import numpy as np

from artix.editing.to_builder import geometry_at
from artix.model.articulation import Articulation
from artix.model.geometry import Geometry
from artix.model.geometry_pairs import candidate_pairs, checked_pairs
from artix.model.topology import Topology


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
      The articulation with these shapes, in the previous order, and the previous pairs among them. A viewer still draws
      all the shapes that it had.

    Raises:
      KeyError: there is no shape with one of the names; the message lists the shapes.
      ValueError: a name is in both collections.
      TypeError: a single string is passed for names.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> front = artix.select_geometry(robot, ["front_left_foot", "front_right_foot"], sensors=["rear_left_foot"])
      >>> print([(shape.name, shape.sensor) for shape in front.topology.geometries])
      [('front_left_foot', False), ('front_right_foot', False), ('rear_left_foot', True)]
    """
    topology = articulation.topology
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
    drawn = topology.drawn_shapes or _shapes(articulation, topology)
    kept_topology = dataclasses.replace(topology, geometries=selected, geometry_pairs=pairs, drawn_shapes=drawn)
    return articulation.replace(topology=kept_topology, geometry=arrays)


def _shapes(articulation: Articulation, topology: Topology) -> tuple[tuple[str, Geometry], ...]:
    """All shapes with the names of their links, of the first robot of a batch; none if their numbers are traced."""
    arrays = articulation.geometry
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arrays)):
        return ()
    arrays = jax.tree.map(lambda leaf: np.asarray(leaf)[(0,) * (articulation.link_mass.ndim - 1)], arrays)
    shapes = [geometry_at(topology.geometries, arrays, k) for k in range(len(topology.geometries))]
    return tuple((topology.link_names[one.link], shape) for one, shape in zip(topology.geometries, shapes, strict=True))


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

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> robot = artix.select_geometry_pairs(robot, [("front_left_foot", "front_right_foot")])
      >>> print(robot.topology.geometry_pairs)
      (('front_left_foot', 'front_right_foot'),)
    """
    topology = articulation.topology
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

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> every = artix.editing.possible_geometry_pairs(robot)
      >>> print(len(every))  # of four feet
      6
      >>> front = [pair for pair in every if all("front" in name for name in pair)]
      >>> print(artix.select_geometry_pairs(robot, front).topology.geometry_pairs)
      (('front_left_foot', 'front_right_foot'),)
    """
    return candidate_pairs(articulation.topology)
