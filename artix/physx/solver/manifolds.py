"""PhysX's contact points: those of boxes and capsules are reused until the shape has moved a little.

PhysX remembers the pose of its last contact search. Until the shape has moved or rotated, or a contact has slid, by
more than a limit, it reuses the points that it found then, with current gaps.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.contact.ground_contacts import GroundContacts
from artix.kinematics.bodies import Placement
from artix.math import spatial
from artix.model.articulation import Articulation
from artix.model.geometry import GeometryType
from artix.physx.solver.friction_anchors import pair_of_contacts
from artix.simulation.common.step_start import StepStart

Array = jax.Array

#: How far capsules may move and their contacts may slide, relative to the radius; the same for boxes, relative to the
#: smallest half edge; upper bounds of these lengths [m]; and the cosine of half the angle by which a shape may rotate.
_CAPSULE_MOVES, _CAPSULE_SLIDES, _BOX, _BOX_MOST, _TURN = 0.02, 0.05, 0.03, 0.03, 0.99996


class Manifolds(NamedTuple):
    """The contacts that PhysX uses."""

    point: Array
    """Points relative to the reference point, in world axes, [K, 3]."""
    near: Array
    """Whether they count, [K]."""
    found_at: Array
    """World poses of the pairs' links when the contacts were found, [P, 7]."""


def manifolds(
    articulation: Articulation,
    at_start: StepStart,
    found: GroundContacts,
    patches: tuple[tuple[int, ...], ...],
    before: Array | None,
    reference: Array,
    distance: float,
) -> Manifolds:
    """The contacts of a step.

    Args:
      articulation: the articulation.
      at_start: the articulation at the start of the step.
      found: the current contacts.
      patches: the contacts of each pair of a shape and a surface.
      before: ``found_at`` of the previous step; ``None`` for a new search.
      reference: the reference point in the world, [3].
      distance: the gap below which contacts count [m].
    """
    contacts, pair = found.contacts, pair_of_contacts(patches)
    now = at_start.frame.take(np.array(contacts.links, int))
    first = np.array([numbers[0] for numbers in patches])
    poses = jnp.concatenate([now.position + reference[:, None], now.rotation]).T[first]
    # Not normalised: before the first step they are zeros, which count as a rotation beyond any limit.
    past = (poses if before is None else before)[pair].T
    then = Placement(past[3:], past[:3] - reference[:, None])
    normal, shape = contacts.normal.T, np.array(found.geometries)
    kinds = [at_start.topology.geometries[k].type for k in shape]
    is_sphere, is_box = (
        jnp.asarray([kind is one for kind in kinds]) for one in (GeometryType.SPHERE, GeometryType.BOX)
    )
    size = articulation.geometry.size[shape].T
    radius = jnp.where(is_box, 0, size[0])
    core = contacts.point.T + radius * spatial.rotate_inverse(now.rotation, normal)
    here, there = (spatial.rotate(frame.rotation, core) + frame.position for frame in (now, then))
    moved = here - there
    gap_there = contacts.gap - spatial.dot(normal, moved)
    slid = moved - spatial.dot(normal, moved) * normal
    least = jnp.minimum(_BOX * jnp.min(size, axis=0), _BOX_MOST)
    may_move = jnp.where(is_box, least, _CAPSULE_MOVES * radius)
    may_slide = jnp.where(is_box, least, _CAPSULE_SLIDES * radius)
    center = articulation.geometry.pose[shape, :3].T
    shift = [spatial.rotate(frame.rotation, center) + frame.position for frame in (now, then)]
    invalid = jnp.max(jnp.abs(shift[0] - shift[1]), axis=0) > may_move
    invalid = invalid | (jnp.abs(spatial.dot(now.rotation, then.rotation)) < _TURN) | is_sphere
    invalid = invalid | ((gap_there < distance) & (spatial.dot(slid, slid) > may_slide**2))
    looks = jnp.stack([jnp.any(invalid[np.array(numbers)]) for numbers in patches])
    if before is None:
        looks = jnp.ones_like(looks)
    fresh = looks[pair]
    gap_when_found = jnp.where(fresh, contacts.gap, gap_there)
    on_plane = jnp.where(fresh, here, there) - (gap_when_found + radius) * normal
    point = jnp.where(is_box, on_plane, on_plane + contacts.gap * normal)
    near = (gap_when_found < distance) & (contacts.gap < distance)
    return Manifolds(point.T, near, poses if before is None else jnp.where(looks[:, None], poses, before))
