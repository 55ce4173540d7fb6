"""Contacts between an articulation and the ground, and distances of its shapes from the ground."""

from __future__ import annotations

import functools
import logging
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import one_operation, quantity
from artix.contact.candidates import (
    Candidates,
    Shapes,
    candidates_of,
    ellipsoids_of,
    lowest_of_ellipsoids,
    shapes_of,
)
from artix.contact.ground import Ground, Plane, Surface, check_ground
from artix.contact.materials import COMBINATIONS, Softness
from artix.contact.scene import Scene, accepts_ground, scene_of
from artix.contact.selection import Choice, looked_up, lowest
from artix.kinematics.contact_points import Contacts, contact_points
from artix.kinematics.forward import Kinematics, kinematics
from artix.math import spatial, struct
from artix.math.arrays import joined, matmul, take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_count, check_vector

Array = jax.Array

_log = logging.getLogger("artix")


class GroundContacts(struct.PyTreeNode):
    """The points at which an articulation may touch the ground.

    Attributes:
      contacts: K points, surface by surface of the ground and, within each, shape by shape.
      geometries: index of the shape of each point, static, length K.
      omitted: number of touching candidates that were left out, [], int32.
      choice: which candidates of their shapes the points are.
      source: in a step with more points than ``max_ground_contacts``, the points of which these are
        the nearest; otherwise ``None``. Then links and shapes are data: ``contacts.links`` and
        ``geometries`` are empty, and ``contacts.point`` is relative to the root's centre of mass,
        in world axes.
      number: the index of each point in ``source``, [K], or ``None``.
      body: the body of each point, [K], or ``None``.
      gravity_scale: that of the link of each point, [K], or ``None``.

    Examples:
      >>> robot = artix.robots.load("humanoid")
      >>> scene = artix.Scene(robot, ground=artix.Ground.flat(), max_contacts_per_geometry=4)
      >>> found = artix.ground_contacts(scene, artix.neutral_state(robot))
      >>> print(found.geometries)  # four corners of each foot
      (0, 0, 0, 0, 1, 1, 1, 1)
    """

    contacts: Contacts
    geometries: tuple[int, ...] = struct.field(pytree_node=False)
    omitted: Array
    choice: Choice
    source: GroundContacts | None = None
    number: Array | None = None
    body: Array | None = None
    gravity_scale: Array | None = None

    def looked_up(self, table: Array | np.ndarray, dtype: Any) -> Array:
        """The rows of a table of the points of ``source`` that belong to these points."""
        assert self.number is not None
        return looked_up(table, self.number, dtype)

    def spread(self, values: Array) -> Array:
        """Values [K, ...] of these points for all points of ``source``, zero for the others."""
        places = jnp.equal(self._numbers[:, None], jnp.asarray(self.number))
        if values.dtype == bool:
            return jnp.any(places & values, axis=1)
        return matmul(places.astype(values.dtype), values)

    @property
    def leaves_out(self) -> Array:
        """Which points of ``source`` are not among these, bool."""
        assert self.source is not None
        assert self.number is not None
        gap, last, numbers = self.source.contacts.gap, self.contacts.gap[-1], self._numbers
        return (gap > last) | ((gap == last) & (numbers > self.number[-1]))

    @property
    def _numbers(self) -> Array:
        assert self.source is not None
        assert self.number is not None
        return jnp.arange(len(self.source.geometries), dtype=self.number.dtype)


@one_operation
@accepts_ground
@quantity
def ground_contacts(scene: Articulation | Scene, state: Any) -> Any:
    """Finds the points at which a robot touches the ground, or would touch it next.

    Their number, order and links are static and do not depend on the state: candidates far from the
    ground have a large gap. Sensors and shapes on a fixed root are left out. With
    ``max_contacts_per_geometry`` of the scene, each shape keeps as many of its candidates with a
    surface, those with the smallest gaps, in ascending order. For a box on a plane, 4 suffice. The
    limit applies to each shape separately, because the links of contacts are static.

    Args:
      scene: the scene.
      state: its state; only the configuration matters.

    Returns:
      The contacts, their shapes, and how many touching candidates were left out:
      :class:`GroundContacts`, or a dictionary of those robots with names that can touch the ground.

    Raises:
      ValueError: an array has the wrong shape, there is no ground or it has no surface, or no shape
        of the only robot can touch it.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> state = state.replace(root_pose=state.root_pose.at[2].set(0.43))
      >>> contacts = artix.ground_contacts(
      ...     artix.Scene(robot, ground=artix.Ground.flat()), state
      ... ).contacts
      >>> print(contacts.gap, (contacts.gap <= 0).all())  # all feet touch
      [-0.01 -0.01 -0.01 -0.01] True
    """
    scene = scene_of(scene)
    ground, most = _ground_of(scene), scene.max_contacts_per_geometry
    states = scene.check_state(state)
    members = scene.articulations
    if not scene.names:
        return contacts_with_ground(members[0], kinematics(members[0], states[0]), ground, most)
    return {
        scene.names[k]: contacts_with_ground(
            members[k], kinematics(members[k], states[k]), ground, most
        )
        for k in scene.grounded
    }


@one_operation
@accepts_ground
@quantity
def geometry_distances(scene: Articulation | Scene, state: Any) -> Any:
    """Distances of all shapes, sensors included, from the ground; negative for penetration.

    Args:
      scene: the scene.
      state: its state; only the configuration matters.

    Returns:
      The smallest distance over a shape's candidates and the ground's surfaces [m], [G]; for robots
      with names a dictionary of them.

    Raises:
      ValueError: an array has the wrong shape, or there is no ground or it has no surface.
      TypeError: an array has another dtype than the articulation.

    Identity: for a shape that can touch, it is the smallest gap of its points in
    :func:`artix.ground_contacts`.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> raised = state.replace(root_pose=state.root_pose.at[2].set(0.5))
      >>> scene = artix.Scene(robot, ground=artix.Ground.flat())
      >>> print(artix.geometry_distances(scene, raised))  # of the four feet [m]
      [0.06 0.06 0.06 0.06]
    """
    scene = scene_of(scene)
    ground, states = _ground_of(scene), scene.check_state(state)
    pairs = zip(scene.articulations, states, strict=True)
    return scene.by_name([_distances(member, part, ground) for member, part in pairs])


def _ground_of(scene: Scene) -> Ground:
    if scene.ground is None:
        raise ValueError(
            "the scene has no ground; give it one: artix.Scene(robot, ground=artix.Ground.flat())"
        )
    return scene.ground


def _distances(articulation: Articulation, state: State, ground: Ground) -> Array:
    _check_surfaces(articulation, ground)
    topology, kin = articulation.topology, kinematics(articulation, state)
    if not topology.geometries:
        return jnp.zeros(0, articulation.dtype)
    shapes = shapes_of(articulation, kin, range(len(topology.geometries)))
    least = []
    for surface in ground.surfaces:
        touch = _touch(kin, shapes, surface, 1)
        groups = [touch.gap[touch.owner == k] for k in range(len(shapes.numbers))]
        least.append(jnp.stack([jnp.min(group) for group in groups]))
    return jnp.min(jnp.stack(least), axis=0)


def contacts_with_ground(
    articulation: Articulation, kin: Kinematics, ground: Ground, max_per_geometry: int | None = None
) -> GroundContacts:
    """:func:`ground_contacts` for known kinematics."""
    _check_surfaces(articulation, ground)
    topology = articulation.topology
    if max_per_geometry is not None:
        check_count(
            "max_per_geometry", max_per_geometry, hint="; to exclude a shape, make it a sensor"
        )
    touching = topology.touching_geometries
    if not touching:
        raise ValueError(
            f"{topology.name!r} has no geometry that can touch the ground; it has "
            f"{len(topology.geometries)} shapes, but sensors and shapes on a fixed root do not "
            "count; load its collision meshes with meshes='hull', or add shapes with "
            "ArticulationBuilder.add_geometry (artix.builder_from_articulation turns a loaded "
            "robot into a builder)"
        )
    shapes = shapes_of(articulation, kin, touching)
    each = [
        _contacts_with(articulation, kin, shapes, ground, surface, max_per_geometry)
        for surface in ground.surfaces
    ]
    if len(each) == 1:
        return each[0]
    every = joined([one.contacts.replace(links=()) for one in each])
    return GroundContacts(
        every.replace(links=sum((one.contacts.links for one in each), ())),
        sum((one.geometries for one in each), ()),
        jnp.sum(jnp.stack([one.omitted for one in each]), dtype=jnp.int32),
        Choice.joined([one.choice for one in each]),
    )


def nearest_contacts(
    articulation: Articulation, kin: Kinematics, candidates: GroundContacts, most: int
) -> GroundContacts:
    """The nearest of an articulation's contacts with the ground, which are more, as data."""
    contacts, count = candidates.contacts, len(candidates.geometries)
    links = articulation.topology.geometry_links(candidates.geometries)
    material = ("friction", "restitution", "compliance", "relaxation_time")
    place = contact_points(articulation, kin, links, contacts.point)
    number = jnp.arange(count, dtype=contacts.gap.dtype)
    body = jnp.asarray(articulation.topology.link_body[links], contacts.gap.dtype)
    pull = take(articulation.gravity_scale, links)
    values = jnp.stack([*(getattr(contacts, name) for name in material), body, pull, number])
    rows = lowest(jnp.concatenate([contacts.gap[None], place, contacts.normal.T, values]), most)
    kept = Contacts(
        (), rows[1:4].T, rows[4:7].T, gap=rows[0], **dict(zip(material, rows[7:-3], strict=True))
    )
    groups = candidates.choice.groups
    firsts = np.cumsum([0, *(size for _, size in groups)])[:-1]
    offset = np.repeat(firsts, [chosen for chosen, _ in groups])
    candidate = candidates.choice.candidate + jnp.asarray(offset, rows.dtype)
    choice = Choice(
        looked_up(candidate, rows[-1], rows.dtype), ((most, candidates.choice.num_candidates),)
    )
    omitted = candidates.omitted + _count_touching(contacts.gap) - _count_touching(kept.gap)
    return GroundContacts(kept, (), omitted, choice, candidates, rows[-1], rows[-3], rows[-2])


@functools.cache
def say_budget(name: str, most: int, count: int) -> None:
    """Logs, once, that not all points can become contacts."""
    _log.warning(
        "artix: %r has %d points that may touch the ground; max_ground_contacts=%d keeps the "
        "nearest, and reports count the touching ones that are left out (omitted)",
        name,
        count,
        most,
    )


def _check_surfaces(articulation: Articulation, ground: Ground) -> None:
    check_ground(ground)
    if not ground.surfaces:
        raise ValueError("the ground has no surface; for level ground, use artix.Ground.flat()")
    for k, surface in enumerate(ground.surfaces):
        shapes = surface.shapes | dict.fromkeys(
            ("friction", "restitution", "stiffness", "damping"), ()
        )
        for name, shape in shapes.items():
            check_vector(
                f"ground.surfaces[{k}].{name}",
                getattr(surface, name),
                shape,
                articulation.dtype,
                "one surface",
            )


class _Touch(NamedTuple):
    """K places where shapes touch a surface."""

    owner: np.ndarray
    """Indices of the shapes, static, [K]."""
    number: np.ndarray
    """Which of the places where its shape may touch each one is, static, [K]."""
    counts: list[int]
    """How many these are for each shape."""
    candidates: Candidates
    gap: Array
    """[K]."""
    normal: Array
    """Of the surface, [3, K]."""


def _touch(kin: Kinematics, shapes: Shapes, surface: Surface, most: int | None) -> _Touch:
    """Where shapes touch a surface, at most ``most`` places of each candidate."""
    each = candidates_of(shapes, surface, kin.reference)
    sides = shapes.sides if most is None else np.minimum(shapes.sides, most)
    ellipsoids, reach = ellipsoids_of(shapes, surface), each.radius
    if ellipsoids is not None:
        longest = jnp.max(take(shapes.size, shapes.owner), axis=0)
        reach = jnp.where(ellipsoids.are_round, longest, reach)
    gap, normal = surface.distances(kin.reference, each.position, reach, sides, ellipsoids)
    places = np.maximum(shapes.sides, 1)
    if isinstance(surface, Plane):
        places = np.ones_like(places)
    index = np.repeat(np.arange(len(places)), places)
    owner = shapes.owner[index]
    counts = np.bincount(owner, minlength=len(shapes.numbers)).tolist()
    number, side = (np.concatenate([np.arange(n) for n in lengths]) for lengths in (counts, places))
    if most is not None:
        index, number, owner = (one[side < most] for one in (index, number, owner))
    candidates = Candidates(*(take(one, index) for one in each))
    return _Touch(owner, number, counts, candidates, gap - candidates.radius, normal)


def _contacts_with(
    articulation: Articulation,
    kin: Kinematics,
    shapes: Shapes,
    ground: Ground,
    surface: Surface,
    most: int | None,
) -> GroundContacts:
    """The contacts of shapes with one surface."""
    owner, number, counts, candidates, gap, normal = _touch(kin, shapes, surface, most)
    topology = articulation.topology
    inward = spatial.apply_transposed(shapes.rotation[:, :, owner], normal)
    turn = take(shapes.local.rotation, owner)
    point = candidates.link_point - candidates.radius * spatial.rotate(turn, inward)
    are_round = shapes.are_ellipsoids[owner]
    if np.any(are_round) and not isinstance(surface, Plane):
        lowest_point = lowest_of_ellipsoids(take(shapes.size, owner), inward)
        on_ellipsoid = candidates.link_point + spatial.rotate(turn, lowest_point)
        point = jnp.where(are_round, on_ellipsoid, point)
    numbers = jnp.asarray(number, gap.dtype)
    columns = jnp.concatenate([gap[None], point, normal, numbers[None]])
    if most is not None:
        parts = [columns[:, owner == k] for k in range(len(shapes.numbers))]
        kept = [part if part.shape[1] <= most else lowest(part, most) for part in parts]
        owner = np.repeat(np.arange(len(kept)), [part.shape[1] for part in kept])
        columns = jnp.concatenate(kept, axis=1)
    geometries = tuple(shapes.numbers[k] for k in owner)
    omitted = _count_touching(gap) - _count_touching(columns[0])
    contacts = Contacts(
        links=tuple(topology.geometry_links(geometries).tolist()),
        point=columns[1:4].T,
        normal=columns[4:7].T,
        gap=columns[0],
        **_materials(articulation, ground, surface, np.array(geometries)),
    )
    kept_counts = np.bincount(owner, minlength=len(counts)).tolist()
    choice = Choice(columns[7], tuple(zip(kept_counts, counts, strict=True)))
    return GroundContacts(contacts, geometries, omitted, choice)


def _count_touching(gap: Array) -> Array:
    return jnp.sum(gap <= 0, dtype=jnp.int32)


def _materials(
    articulation: Articulation, ground: Ground, surface: Surface, index: np.ndarray
) -> dict[str, Array]:
    """The materials of pairs of shapes with a surface."""
    shape = articulation.geometry
    softness = Softness.of(shape.stiffness, shape.damping) + Softness.of(
        surface.stiffness, surface.damping
    )
    every = {
        "friction": COMBINATIONS[ground.friction_combination](shape.friction, surface.friction),
        "restitution": COMBINATIONS[ground.restitution_combination](
            shape.restitution, surface.restitution
        ),
        "compliance": softness.compliance,
        "relaxation_time": softness.relaxation_time,
    }
    return {name: values[index] for name, values in every.items()}
