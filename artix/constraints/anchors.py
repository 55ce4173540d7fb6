"""The kinematics of pairs of frames that constraints hold together: errors, velocities, Jacobians and drifts.

An anchor is a pair of frames, a and b, each on a link or in the world. All quantities are of a relative to b: an error,
its velocity ``J nu`` and its acceleration ``J nu' + bias``. A force ``lambda`` on the rows acts on a, and with opposite
sign on b; it enters the equation of motion as ``+ J^T lambda``. These are Pinocchio's signs, with ``joint1`` for a.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.constraints.anchor_sides import anchor_jacobian, anchor_sides, relative_motion
from artix.constraints.anchor_structure import Anchors, AnchorStructure, AnchorType
from artix.kinematics.solve import Kinematics, kinematics
from artix.model.articulation import Articulation, State
from artix.model.couplings import LoopJointType

Array = jax.Array


class AnchorRows(NamedTuple):
    """The R rows of anchors, anchor by anchor, each anchor's in the order of its ``rows``; in m, rad and s.

    Attributes:
      error: what should be zero, [R]: ``R_a^T (p_a - p_b)`` and ``-log(R_a^T R_b)``; for a weld ``-log6`` of the
        placement of b in a. In the axes of frame a unless the rows are ``world_aligned``. A distance row has the
        distance itself.
      velocity: ``jacobian @ nu``, [R].
      jacobian: [R, nv].
      bias: the acceleration of the rows at zero generalised acceleration, [R].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> constraints = artix.Constraints.of(arm, [artix.Constraint(frame_a="tool")])
      >>> rows = artix.constraints.constraint_kinematics(arm, artix.neutral_state(arm), constraints)
      >>> print(rows.error.shape, rows.jacobian.shape)
      (3,) (3, 7)
    """

    error: Array
    velocity: Array
    jacobian: Array
    bias: Array


def loop_anchors(articulation: Articulation) -> Anchors:
    """The loop joints of an articulation as anchors, one each, in the same order.

    The rows of a joint are its locked axes, translations before rotations, along the axes of frame a. The row of a
    ``distance`` joint is the distance, whose bounds are ``articulation.loop_joints.min_distance`` and ``max_distance``.

    Args:
      articulation: the articulation.
    """
    structure = []
    for joint in articulation.topology.loop_joints:
        kind = AnchorType.DISTANCE if joint.type is LoopJointType.DISTANCE else AnchorType.JOINT
        # artix.Axis counts rotations first.
        rows = tuple(sorted((int(axis) + 3) % 6 for axis in joint.locked_axes))
        if kind is AnchorType.DISTANCE:
            rows = (0,)
        structure.append(AnchorStructure(joint.link_a, joint.link_b, kind, rows))
    joints = articulation.loop_joints
    return Anchors(tuple(structure), joints.pose_a, joints.pose_b)


def anchor_rows(articulation: Articulation, state: State, anchors: Anchors) -> AnchorRows:
    """Errors, velocities, Jacobian and drift of anchors.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      anchors: K pairs of frames.

    Returns:
      The R selected rows.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identities: ``velocity == jacobian @ nu``; for :attr:`AnchorType.JOINT` near a vanishing error, ``velocity`` and
    ``jacobian @ nu' + bias`` are the first and second time derivatives of ``error``.
    """
    return solved_anchor_rows(articulation, state, kinematics(articulation, state), anchors)


def solved_anchor_rows(articulation: Articulation, state: State, kin: Kinematics, anchors: Anchors) -> AnchorRows:
    """:func:`anchor_rows`, from solved kinematics."""
    if not anchors.structure:
        empty = jnp.zeros(0, articulation.dtype)
        return AnchorRows(empty, empty, jnp.zeros((0, articulation.topology.nv), articulation.dtype), empty)
    last = max(max(each.link_a, each.link_b) for each in anchors.structure)
    if last >= articulation.topology.num_links:
        raise ValueError(
            f"constraints: there is no link {last} in this articulation; make them of it by artix.Constraints.of(...)"
        )
    sides = anchor_sides(articulation, state, kin, anchors)
    error, velocity, bias = relative_motion(anchors, *sides)
    return AnchorRows(error, velocity, anchor_jacobian(articulation, kin, anchors, *sides), bias)
