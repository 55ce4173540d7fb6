"""Where PhysX has the contacts of a step: those of boxes and capsules are kept until the shape has moved a little.

PhysX remembers where it last looked for contacts. Until the shape has moved or turned, or a contact has slid, by more
than some limit, it takes the points that it found then, with the gaps of now.
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
from artix.simulation.common.step_start import StepStart, static_topology

Array = jax.Array

#: How far, over the radius, capsules may move and their contacts slide; the same of boxes over the least half of an
#: edge; the largest of those [m]; and the cosine of half the angle by which a shape may turn.
_CAPSULE_MOVES, _CAPSULE_SLIDES, _BOX, _BOX_MOST, _TURN = 0.02, 0.05, 0.03, 0.03, 0.99996


class Manifolds(NamedTuple):
    """The contacts as PhysX has them."""

    point: Array
    """Where they act, [K, 3], relative to the reference point, in world axes."""
    near: Array
    """Whether they count, [K]."""
    found_at: Array
    """The poses of the pairs' links when the contacts were found, in the world, [P, 7]."""


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
      at_start: it at the start of the step.
      found: where it is near the ground.
      patches: the contacts of each pair of a shape and a surface.
      before: ``found_at`` of the step before; ``None`` to look anew.
      reference: the reference point in the world, [3].
      distance: the gap from which on contacts count [m].
    """
    contacts, pair = found.contacts, np.zeros(len(found.geometries), int)
    for p, numbers in enumerate(patches):
        pair[list(numbers)] = p
    now = at_start.frame.take(np.array(contacts.links, int))
    first = np.array([numbers[0] for numbers in patches])
    poses = jnp.concatenate([now.position + reference[:, None], now.rotation]).T[first]
    # Not normalised: before the first step they are zeros, which turn by more than any limit.
    past = (poses if before is None else before)[pair].T
    then = Placement(past[3:], past[:3] - reference[:, None])
    normal, shape = contacts.normal.T, np.array(found.geometries)
    kinds = [static_topology(at_start).geometries[k].type for k in shape]
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
