"""What PhysX keeps of a contact from step to step: its friction anchors and its contact points.

Friction acts not at the contacts but at anchors: up to two points at which a shape holds on to a
surface, fixed both on the link and on the ground. They persist until friction slips there, the link
has rotated by 2.6 degrees relative to the surface, or the two ends have separated along the normal.
Displacement along the surface is corrected.

PhysX also remembers the pose of its last contact search. Until the shape has moved or rotated, or a
contact has slid, by more than a limit, it reuses the points that it found then, with current gaps.
A box's points stay on the ground; those of a capsule are below its axis, which they follow as it
rolls.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.ground import Ground
from artix.contact.ground_contacts import GroundContacts, ground_contacts
from artix.contact.scene import Scene
from artix.math import spatial, struct
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation
from artix.model.geometry import GeometryType
from artix.model.topology import Topology
from artix.simulation.common.step_start import StepStart

Array = jax.Array


#: PhysX's ``frictionOffsetThreshold`` and ``frictionCorrelationDistance`` [m].
OFFSET_THRESHOLD = 0.04
CORRELATION_DISTANCE = 0.025
#: PhysX's tolerances for equal normals, a cosine, and for equal points, a squared distance [m^2].
SAME_NORMAL = 0.999
SAME_POINT = 1e-8


class FrictionAnchors(struct.PyTreeNode):
    """The friction anchors of ``"pgs"`` and ``"tgs"``, carried along with the state.

    There are P pairs of a shape and a surface, ordered by surface; see
    :func:`artix.remember_contacts`.

    Attributes:
      on_link: the anchors in the links' frames, [P, 2, 3] [m].
      on_ground: their points on the ground, in world axes, [P, 2, 3] [m].
      normal: the surfaces' normals when the pairs began to touch, in the links' frames, [P, 3].
      count: number of anchors of each pair, 0 to 2, [P].
      search_poses: poses of the pairs' links at PhysX's last contact search, [P, 7].

    Examples:
      >>> robot, ground = artix.robots.load("quadruped"), artix.Ground.flat()
      >>> state = artix.neutral_state(robot)
      >>> state = state.replace(root_pose=state.root_pose.at[2].set(0.42))
      >>> scene, pgs = artix.Scene(robot, ground=ground), artix.SolverOptions(solver="pgs")
      >>> state = artix.remember_contacts(scene, state, options=pgs)
      >>> print(artix.step(scene, state, None, 0.005, pgs).contact_memory.count)
      [1. 1. 1. 1.]
    """

    on_link: Array
    on_ground: Array
    normal: Array
    count: Array
    search_poses: Array

    @classmethod
    def none(cls, articulation: Articulation, ground: Ground) -> FrictionAnchors:
        """No anchors, for the first step and after a state has been set.

        Args:
          ground: the ground.

        Raises:
          ValueError: as :func:`artix.ground_contacts`.
        """
        scene = Scene(articulation, ground=ground)
        contacts = jax.eval_shape(lambda: ground_contacts(scene, scene.neutral_state()))
        pairs = len(patches_of(articulation.topology, contacts.geometries, len(ground.surfaces)))
        points = jnp.zeros((pairs, 2, 3), articulation.dtype)
        return cls(
            points, points, points[:, 0], points[:, 0, 0], jnp.zeros((pairs, 7), articulation.dtype)
        )


def patches_of(
    topology: Topology, geometries: tuple[int, ...], surfaces: int
) -> tuple[tuple[int, ...], ...]:
    """The indices of the contacts of each pair of a shape and a surface, in PhysX's order of
    solution.

    Args:
      topology: the articulation's topology.
      geometries: the shape of each contact, as in :class:`artix.GroundContacts`.
      surfaces: number of surfaces of the ground.
    """
    each = len(geometries) // surfaces
    pairs: dict[tuple[int, int], list[int]] = {}
    for k, geometry in enumerate(geometries):
        pairs.setdefault((k // each, geometry), []).append(k)
    # PhysX starts with a box's corner of positive coordinates, artix's candidates with the negative
    # one.
    return tuple(
        tuple(
            reversed(numbers) if topology.geometries[geometry].type is GeometryType.BOX else numbers
        )
        for (_, geometry), numbers in pairs.items()
    )


def pair_of_contacts(patches: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """The pair of each contact, [K]."""
    pair = np.zeros(sum(map(len, patches)), int)
    for number, contacts in enumerate(patches):
        pair[list(contacts)] = number
    return pair


class Patch(NamedTuple):
    """The contacts of one shape with one surface, in PhysX's order."""

    touches: Array
    """Whether each is near enough to count, [c]."""
    point: Array
    """Points relative to the reference point, in world axes, [c, 3]."""
    gap: Array
    """[c]."""
    normal: Array
    """Normal of the surface, [3]."""


class PairAnchors(NamedTuple):
    """The anchors of one pair during a step."""

    on_link: Array
    """Points on the link relative to the reference point, in world axes, [2, 3]."""
    on_ground: Array
    """Points on the ground, relative to the reference point, in world axes, [2, 3]."""
    normal: Array
    """Normal of the surface when the pair began to touch, rotated with the link since, in world
    axes, [3]."""
    total: Array
    """Number of anchors, []."""


def present(count: Array) -> Array:
    """Which of the two anchors exist, [..., 2], for counts [...]."""
    return jnp.stack([count > 0, count > 1], axis=-1)


def update_anchors(patch: Patch, before: PairAnchors) -> PairAnchors:
    """The anchors of a step: the previous step's anchors that still hold, and new ones at contacts.

    Args:
      patch: the contacts.
      before: the anchors of the previous step, moved with the link.
    """
    apart = jnp.abs(jnp.sum((before.on_link - before.on_ground) * patch.normal, axis=1))
    separated = jnp.any((apart >= CORRELATION_DISTANCE) & present(before.total))
    holds = (jnp.sum(before.normal * patch.normal) > SAME_NORMAL) & ~separated & (before.total > 0)
    normal = jnp.where(holds, before.normal, patch.normal)
    count = jnp.where(holds, before.total, 0)
    # Two anchors that are close together in a corner of the patch are dropped.
    spread = jnp.sum((before.on_link[0] - before.on_link[1]) ** 2)
    touches = patch.touches[:, None]
    largest = jnp.max(jnp.where(touches, patch.point, -jnp.inf), axis=0)
    least = jnp.min(jnp.where(touches, patch.point, jnp.inf), axis=0)
    extent = jnp.where(jnp.any(patch.touches), largest - least, jnp.zeros_like(least))
    count = jnp.where((count == 2) & (4 * spread < jnp.sum(extent**2)), 0, count)
    grown, total = _add_anchors(patch, before.on_link, count)
    is_old = present(count)[:, None]
    on_link = jnp.where(is_old, before.on_link, grown)
    on_ground = jnp.where(is_old, before.on_ground, grown)
    return PairAnchors(on_link, on_ground, normal, jnp.where(jnp.any(patch.touches), total, 0))


def _add_anchors(patch: Patch, on_link: Array, count: Array) -> tuple[Array, Array]:
    """Adds contacts as new anchors [2, 3]: the first two, then any farther apart. Returns their
    number, too.
    """
    first, second = on_link
    total = count
    apart = jnp.zeros_like(patch.gap[0])
    complete = count == 2
    for touches, point, gap in zip(patch.touches, patch.point, patch.gap, strict=True):
        usable = touches & (gap < OFFSET_THRESHOLD) & ~complete
        to_first, to_second = jnp.sum((point - first) ** 2), jnp.sum((point - second) ** 2)
        opens = usable & (total == 0)
        pairs = usable & (total == 1) & (to_first > SAME_POINT)
        farther = to_first > to_second
        moves_second = usable & (total == 2) & farther & (to_first > apart)
        moves_first = usable & (total == 2) & ~farther & (to_second > apart)
        apart = jnp.where(pairs | moves_second, to_first, jnp.where(moves_first, to_second, apart))
        # PhysX compares with the distance to the first anchor even if there is only one.
        apart = jnp.where(usable & (total == 1) & ~pairs, to_first, apart)
        first = jnp.where(opens | moves_first, point, first)
        second = jnp.where(pairs | moves_second, point, second)
        total = total + jnp.where(opens | pairs, 1.0, 0.0).astype(total.dtype)
    return jnp.stack([first, second]), total


def move_anchors(
    before: FrictionAnchors, pair: int, frame: Transforms, reference: Array
) -> PairAnchors:
    """The anchors of a pair, moved with its link.

    Args:
      before: the anchors of the previous step.
      pair: index of the pair.
      frame: frame of the link relative to the reference point, one item.
      reference: the reference point in the world, [3].
    """
    on_link = (spatial.rotate(frame.rotation, before.on_link[pair].T) + frame.position).T
    normal = spatial.rotate(frame.rotation, before.normal[pair][:, None])[:, 0]
    return PairAnchors(on_link, before.on_ground[pair] - reference, normal, before.count[pair])


def remember_anchors(
    anchors: list[PairAnchors],
    slips: Array,
    frames: list[Transforms],
    reference: Array,
    search_poses: Array,
) -> FrictionAnchors:
    """The anchors to remember after a step, of the pairs that did not slip.

    Args:
      anchors: anchors of each pair during the step.
      slips: whether friction slipped at any anchor of a pair in the last sweep, [P].
      frames: frames of the pairs' links at the start of the step, relative to the reference point,
        one item each.
      reference: the reference point in the world, [3].
      search_poses: poses of the contact search, stored unchanged.
    """
    on_link = [
        spatial.rotate_inverse(frame.rotation, one.on_link.T - frame.position).T
        for one, frame in zip(anchors, frames, strict=True)
    ]
    normal = [
        spatial.rotate_inverse(frame.rotation, one.normal[:, None])[:, 0]
        for one, frame in zip(anchors, frames, strict=True)
    ]
    count = jnp.where(slips, 0, jnp.stack([one.total for one in anchors]))
    on_ground = jnp.stack([one.on_ground + reference for one in anchors])
    return FrictionAnchors(jnp.stack(on_link), on_ground, jnp.stack(normal), count, search_poses)


#: How far a capsule may move and its contacts may slide before they are searched again, relative to
#: its radius.
_CAPSULE_MOVES = 0.02
_CAPSULE_SLIDES = 0.05
#: The same for both of a box, relative to its smallest half edge, and the upper bound of that
#: length [m].
_BOX = 0.03
_BOX_MOST = 0.03
#: The cosine of half the angle by which a shape may rotate.
_TURN = 0.99996


class Manifolds(NamedTuple):
    """The contacts that PhysX uses."""

    point: Array
    """Points relative to the reference point, in world axes, [K, 3]."""
    near: Array
    """Whether they count, [K]."""
    search_poses: Array
    """World poses of the pairs' links when the contacts were found, [P, 7]."""


def manifolds(
    articulation: Articulation,
    at_start: StepStart,
    ground_contacts: GroundContacts,
    patches: tuple[tuple[int, ...], ...],
    before: Array | None,
    reference: Array,
    distance: float,
) -> Manifolds:
    """The contacts of a step.

    Args:
      at_start: the articulation at the start of the step.
      ground_contacts: the current contacts.
      patches: the contacts of each pair of a shape and a surface.
      before: ``search_poses`` of the previous step; ``None`` for a new search.
      reference: the reference point in the world, [3].
      distance: the gap below which contacts count [m].
    """
    contacts = ground_contacts.contacts
    pair = pair_of_contacts(patches)
    first = np.array([numbers[0] for numbers in patches])
    current = at_start.frame.take(np.array(contacts.links, int))
    poses = jnp.concatenate([current.position + reference[:, None], current.rotation]).T[first]
    # Not normalised: before the first step they are zeros, which count as a rotation beyond any
    # limit.
    past = (poses if before is None else before)[pair].T
    earlier = Transforms(past[3:], past[:3] - reference[:, None])
    shapes = _shapes_of(articulation, at_start.topology, ground_contacts.geometries)
    normal = contacts.normal.T
    core = contacts.point.T + shapes.radius * spatial.rotate_inverse(current.rotation, normal)
    here = _place(current, core)
    there = _place(earlier, core)
    moved = here - there
    gap_there = contacts.gap - spatial.dot(normal, moved)
    slid = moved - spatial.dot(normal, moved) * normal
    is_stale = _is_stale(shapes, current, earlier, slid, gap_there < distance)
    looks = jnp.stack([jnp.any(is_stale[np.array(numbers)]) for numbers in patches])
    if before is None:
        looks = jnp.ones_like(looks)
    fresh = looks[pair]
    gap_at_search = jnp.where(fresh, contacts.gap, gap_there)
    # Of boxes, the point on the plane; of spheres and capsules, the one on the shape, below the
    # core where it is now.
    on_plane = jnp.where(fresh, here, there) - gap_at_search * normal
    point = jnp.where(shapes.is_box, on_plane, here - shapes.radius * normal)
    near = (gap_at_search < distance) & (contacts.gap < distance)
    return Manifolds(
        point.T, near, poses if before is None else jnp.where(looks[:, None], poses, before)
    )


class _Shapes(NamedTuple):
    """The shape of each contact."""

    is_sphere: Array
    is_box: Array
    size: Array
    """Its numbers, [3, K] [m]."""
    radius: Array
    """Distance of its surface from its core; zero for boxes, [K] [m]."""
    center: Array
    """Its origin in the link's frame, [3, K] [m]."""


def _shapes_of(
    articulation: Articulation, topology: Topology, geometries: tuple[int, ...]
) -> _Shapes:
    index = np.array(geometries)
    kinds = [topology.geometries[k].type for k in geometries]
    is_sphere = jnp.asarray([kind is GeometryType.SPHERE for kind in kinds])
    is_box = jnp.asarray([kind is GeometryType.BOX for kind in kinds])
    size = articulation.geometry.size[index].T
    center = articulation.geometry.pose[index, :3].T
    return _Shapes(is_sphere, is_box, size, jnp.where(is_box, 0, size[0]), center)


def _place(frame: Transforms, points: Array) -> Array:
    """Points of frames relative to the reference point, in world axes, [3, K]."""
    return spatial.rotate(frame.rotation, points) + frame.position


def _is_stale(
    shapes: _Shapes, current: Transforms, earlier: Transforms, slid: Array, was_near: Array
) -> Array:
    """Whether a shape has moved so far since its contact was searched that it is searched again,
    [K].

    A contact that ``was_near`` [K] also is if it ``slid`` [3, K] too far along the surface.
    """
    least = jnp.minimum(_BOX * jnp.min(shapes.size, axis=0), _BOX_MOST)
    may_move = jnp.where(shapes.is_box, least, _CAPSULE_MOVES * shapes.radius)
    may_slide = jnp.where(shapes.is_box, least, _CAPSULE_SLIDES * shapes.radius)
    shift = jnp.abs(_place(current, shapes.center) - _place(earlier, shapes.center))
    has_moved = jnp.max(shift, axis=0) > may_move
    has_turned = jnp.abs(spatial.dot(current.rotation, earlier.rotation)) < _TURN
    has_slid = was_near & (spatial.dot(slid, slid) > may_slide**2)
    return has_moved | has_turned | shapes.is_sphere | has_slid
