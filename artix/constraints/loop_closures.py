"""Loop joints in a step: what is held exactly, what is bounded, and the forces that result."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.articulation import Articulation, State
from artix.bodies import Placement
from artix.constraints.anchors import AnchorRows, Anchors, AnchorType, anchor_rows, loop_anchors
from artix.constraints.frozen import HIGHEST, Frozen
from artix.topology import Topology

Array = jax.Array


class LoopClosures(NamedTuple):
    """The loop joints of an articulation at the start of a step: R held rows and D distances."""

    anchors: Anchors
    held: np.ndarray
    """Which of the anchors' rows are held, [R]."""
    distances: np.ndarray
    """Which of them are distances, [D]."""
    rows: AnchorRows
    joints: np.ndarray
    """The joints with a distance, [D]."""


def loop_closures(articulation: Articulation, state: State) -> LoopClosures | None:
    """The loop joints at the start of a step; ``None`` if there is none."""
    topology = articulation.topology
    if not isinstance(topology, Topology) or not topology.loop_joints:
        return None
    anchors = loop_anchors(articulation)
    is_distance = np.array([one.type is AnchorType.DISTANCE for one in anchors.structure])
    of_row = is_distance[anchors.row_anchor]
    rows = anchor_rows(articulation, state, anchors)
    return LoopClosures(anchors, np.flatnonzero(~of_row), np.flatnonzero(of_row), rows, np.flatnonzero(is_distance))


def closure_errors(articulation: Articulation, state: State, loops: LoopClosures) -> Array:
    """Errors [R] of the held rows in a state."""
    return anchor_rows(articulation, state, loops.anchors).error[loops.held]


def loop_wrenches(frozen: Frozen, loops: LoopClosures, force: Array) -> tuple[Array, Array]:
    """What forces on all rows of the loop joints do.

    Args:
      frozen: the articulation.
      loops: its loop joints.
      force: of each row, those of distances among them [N or N m].

    Returns:
      The wrenches on the links at their centres of mass, [L, 6], and those that each joint exerts on its ``link_b`` at
      the origin of frame b, [C, 6]; all in world axes.
    """
    structure, of_row = loops.anchors.structure, loops.anchors.row_anchor
    total = jnp.zeros_like(frozen.center, shape=(len(frozen.mass), 6))
    for name, wrench in (("a", loops.rows.wrench_a), ("b", loops.rows.wrench_b)):
        links = np.array([getattr(one, f"link_{name}") for one in structure])
        total = total + _summed(links[of_row], len(frozen.mass), force, wrench)
    on_b = _summed(of_row, len(structure), force, loops.rows.wrench_b)
    ends = np.array([one.link_b for one in structure])
    origin = (frozen.frame.take(ends) @ Placement.from_poses(loops.anchors.pose_b)).position.T
    return _moved(total, frozen.center), _moved(on_b, origin)


def _summed(group: np.ndarray, count: int, force: Array, wrench: Array) -> Array:
    """Sums the wrenches [R, 6] of forces [R] by groups 0 .. count-1, to [count, 6]; other groups are left out."""
    members = jnp.asarray(group[None] == np.arange(count)[:, None], force.dtype)
    return jnp.matmul(members, force[:, None] * wrench, precision=HIGHEST)


def _moved(wrench: Array, point: Array) -> Array:
    """Wrenches [k, 6] about the root's centre of mass as seen at points [k, 3]."""
    return jnp.concatenate([wrench[:, :3], wrench[:, 3:] - jnp.cross(point, wrench[:, :3])], axis=1)
