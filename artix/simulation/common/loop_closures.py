"""Loop joints in a step: rows held exactly, bounded distances, and the resulting forces."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.frame_pairs import (
    AnchorRows,
    AnchorType,
    FramePairs,
    Side,
    anchor_rows,
    anchor_sides,
    anchor_wrenches,
    loop_anchors,
    solved_anchor_rows,
)
from artix.kinematics.forward import kinematics
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.control import room
from artix.simulation.common.step_start import StepStart

Array = jax.Array


class LoopClosures(NamedTuple):
    """The loop joints of an articulation at the start of a step: R held rows and D distances."""

    anchors: FramePairs
    held: np.ndarray
    """Indices of the anchors' rows that are held, [R]."""
    distances: np.ndarray
    """Indices of the rows that are distances, [D]."""
    rows: AnchorRows
    sides: tuple[Side, Side]
    """The frames a and b of the joints."""
    joints: np.ndarray
    """Indices of the joints with a distance, [D]."""


def loop_closures(articulation: Articulation, state: State) -> LoopClosures:
    """The loop joints at the start of a step."""
    anchors, kin = loop_anchors(articulation), kinematics(articulation, state)
    is_distance = anchors.has_type(AnchorType.DISTANCE)
    of_row = is_distance[anchors.row_anchor]
    return LoopClosures(
        anchors=anchors,
        held=np.flatnonzero(~of_row),
        distances=np.flatnonzero(of_row),
        rows=solved_anchor_rows(articulation, state, kin, anchors),
        sides=anchor_sides(articulation, state, kin, anchors),
        joints=np.flatnonzero(is_distance),
    )


def closure_errors(articulation: Articulation, state: State, loops: LoopClosures) -> Array:
    """Errors [R] of the held rows in a state."""
    return anchor_rows(articulation, state, loops.anchors).error[loops.held]


def distance_gaps(articulation: Articulation, loops: LoopClosures) -> tuple[Array, Array]:
    """Gaps of the distances to their lower and upper bounds, [D] each; ``inf`` without a bound."""
    length, joints = loops.rows.error[loops.distances], articulation.loop_joints
    least, largest = (bound[loops.joints] for bound in (joints.min_distance, joints.max_distance))
    # Distances are never negative.
    return jnp.where(least > 0, length - least, jnp.inf), room(largest, length, 1)


def loop_wrenches(at_start: StepStart, loops: LoopClosures, force: Array) -> tuple[Array, Array]:
    """The wrenches that forces on all rows of the loop joints exert.

    Args:
      at_start: the articulation.
      loops: its loop joints.
      force: force of each row, including distances [N or N m].

    Returns:
      The wrenches on the links at their centres of mass, [L, 6], and those that each joint exerts
      on its ``link_b`` at the origin of frame b, [C, 6]; all in world axes.
    """
    wrenches = [wrench.T for wrench in anchor_wrenches(loops.anchors, *loops.sides, force)]
    total = jnp.zeros_like(at_start.center, shape=(len(at_start.mass), 6))
    for links, wrench in zip(loops.anchors.links, wrenches, strict=True):
        # Wrenches on the world are left out.
        onto = jnp.asarray(links[None] == np.arange(len(at_start.mass))[:, None], force.dtype)
        total = total + matmul(onto, wrench)
    return _moved(total, at_start.center), _moved(wrenches[1], loops.sides[1].placement.position.T)


def _moved(wrench: Array, point: Array) -> Array:
    """Wrenches [k, 6] about the root's centre of mass, moved to points [k, 3]."""
    return jnp.concatenate([wrench[:, :3], wrench[:, 3:] - jnp.cross(point, wrench[:, :3])], axis=1)
