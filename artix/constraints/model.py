"""Constraints as users describe them, their arrays, and the coefficients and counts that are
refused.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Sequence
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.constraints.frame_pairs import (
    AnchorStructure,
    AnchorType,
    ConstraintAxes,
    FramePairs,
    loop_anchors,
)
from artix.math import struct
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation
from artix.model.checks import check_count, check_type
from artix.model.joints import IDENTITY_POSE
from artix.model.topology import frame_index
from artix.model.validation import check_fields, is_index, unit_pose

Array = jax.Array
_ROWS = {AnchorType.POINT: 3, AnchorType.WELD: 6}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constraint:
    """A point of one frame held to a point of another (3-D), or two frames welded together (6-D).

    Pinocchio's ``RigidConstraintModel`` of type ``CONTACT_3D`` or ``CONTACT_6D``, with ``joint1``
    for a and ``joint2`` for b, Baumgarte's gains included. Equal descriptions are equal and hash
    alike, so that a compiled function may take one as a static argument.

    Attributes:
      frame_a: name of a link or of an additional frame; ``None`` for the world.
      frame_b: name of a link or of an additional frame; ``None``, the default, for the world.
      type: ``"point"`` or ``"weld"``.
      pose_a: pose of the constraint's frame a in ``frame_a``, position [m] and quaternion xyzw,
        shape [7].
      pose_b: pose of the constraint's frame b in ``frame_b``, shape [7]; if that is the world,
        where a is to be held.
      rows: which rows are held, 0 .. 2 linear along x, y, z and 3 .. 5 angular; all of them when
        ``None``.
      axes: ``"local"`` for rows along the axes of frame a, Pinocchio's ``LOCAL``;
        ``"world_aligned"`` for rows along the world's axes at the origin of frame a, Pinocchio's
        ``LOCAL_WORLD_ALIGNED``.
      position_gain: Baumgarte's gain on the error, Pinocchio's ``Kp`` [1/s^2].
      velocity_gain: Baumgarte's gain on the velocity, Pinocchio's ``Kd`` [1/s].

    Raises:
      ValueError: a pose or number is malformed, both frames are the same, or the rows do not suit
        the type.

    Examples:
      >>> foot = artix.Constraint(frame_a="front_left_foot")  # a point, held where it is
      >>> grip = artix.Constraint(
      ...     frame_a="left_hand", frame_b="right_hand", type="weld", position_gain=100.0
      ... )
      >>> print(foot.rows, grip.rows)
      (0, 1, 2) (0, 1, 2, 3, 4, 5)
    """

    frame_a: str | None
    frame_b: str | None = None
    type: str = "point"
    pose_a: npt.ArrayLike = IDENTITY_POSE
    pose_b: npt.ArrayLike = IDENTITY_POSE
    rows: Sequence[int] | None = None
    axes: ConstraintAxes = "local"
    position_gain: float = 0.0
    velocity_gain: float = 0.0

    def __post_init__(self) -> None:
        where = f"constraint between {self.frame_a!r} and {self.frame_b!r}"
        if self.type not in ("point", "weld"):
            raise ValueError(f"{where}: type must be 'point' or 'weld'; found {self.type!r}")
        if self.axes not in get_args(ConstraintAxes):
            raise ValueError(
                f"{where}: axes must be 'local' or 'world_aligned'; found {self.axes!r}"
            )
        if self.frame_a == self.frame_b:
            raise ValueError(f"{where}: frame_a and frame_b must differ")
        for field in ("pose_a", "pose_b"):
            # Values that compare and hash, as static arguments of compiled functions must.
            pose = unit_pose(getattr(self, field), f"{where}: {field}")
            object.__setattr__(self, field, tuple(pose.tolist()))
        check_fields(self, where, not_negative=("position_gain", "velocity_gain"))
        for field in ("position_gain", "velocity_gain"):
            object.__setattr__(self, field, float(getattr(self, field)))
        count = _ROWS[AnchorType(self.type)]
        rows = list(range(count)) if self.rows is None else np.asarray(self.rows).tolist()
        known = isinstance(rows, list) and all(map(is_index, rows))
        if not known or not rows or rows != sorted(set(rows)) or rows[0] < 0 or rows[-1] >= count:
            raise ValueError(
                f"{where}: rows of a {self.type} are among 0 .. {count - 1}, in this order, each "
                f"once, at least one; found {self.rows!r}"
            )
        object.__setattr__(self, "rows", tuple(rows))


class Constraints(struct.PyTreeNode):
    """Constraints of one articulation with R rows in all; all arrays may be traced and
    differentiated.

    Attributes:
      anchors: the K frame pairs, with poses in their links' frames.
      position_gain: Baumgarte's gains on the errors, [K] [1/s^2].
      velocity_gain: Baumgarte's gains on the velocities, [K] [1/s].
      desired_acceleration: desired acceleration of the rows, [R] [m/s^2 and rad/s^2], Pinocchio's
        ``contact_acceleration_desired``.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> feet = [artix.Constraint(frame_a=foot) for foot in ("front_left_foot", "rear_right_foot")]
      >>> constraints = artix.Constraints.of(robot, feet)
      >>> print(constraints.num_rows)
      6
    """

    anchors: FramePairs
    position_gain: Array
    velocity_gain: Array
    desired_acceleration: Array

    @classmethod
    def of(cls, articulation: Articulation, constraints: Sequence[Constraint]) -> Constraints:
        """Builds constraints from descriptors. Frames are looked up by name.

        Args:
          constraints: the descriptors, at least one.

        Raises:
          KeyError: no link or frame has this name.
          ValueError: there is no constraint, or both ends of one are on the same link.
          TypeError: ``constraints`` is not a sequence, or has something else in it.
        """
        if not isinstance(constraints, Sequence):
            kind = type(constraints).__name__
            raise TypeError(f"constraints: expected a list of artix.Constraint, found {kind}")
        for index, each in enumerate(constraints):
            check_type(f"constraints[{index}]", each, Constraint)
        if not constraints:
            raise ValueError(
                "no constraints were given; for dynamics without constraints, use "
                "artix.forward_dynamics"
            )
        ends = [
            [
                _end(articulation, each.frame_a, each.pose_a),
                _end(articulation, each.frame_b, each.pose_b),
            ]
            for each in constraints
        ]
        structure = []
        for each, ((link_a, _), (link_b, _)) in zip(constraints, ends, strict=True):
            if link_a == link_b:
                raise ValueError(
                    f"constraint between {each.frame_a!r} and {each.frame_b!r}: both are on one "
                    "link"
                )
            rows = tuple(each.rows or ())
            structure.append(
                AnchorStructure(link_a, link_b, AnchorType(each.type), rows, each.axes)
            )
        poses = [jnp.stack([pair[k][1] for pair in ends]) for k in (0, 1)]
        gains = [
            [each.position_gain for each in constraints],
            [each.velocity_gain for each in constraints],
        ]
        return cls._with(articulation, FramePairs(tuple(structure), *poses), gains)

    @classmethod
    def of_loop_joints(
        cls, articulation: Articulation, *, position_gain: float = 0.0, velocity_gain: float = 0.0
    ) -> Constraints:
        """The constraints of an articulation's loop joints, whose free axes may move far.

        Args:
          position_gain: Baumgarte's gain of all joints [1/s^2].
          velocity_gain: Baumgarte's gain on the velocities of all joints [1/s].

        Raises:
          ValueError: there is no loop joint, or one of them bounds a distance, which is not an
            equality.
        """
        anchors = loop_anchors(articulation)
        if anchors.has_type(AnchorType.DISTANCE).any():
            raise ValueError(
                "loop joints of type 'distance' are inequalities; constraints of constrained "
                "dynamics are equalities"
            )
        if not anchors.structure:
            raise ValueError("the articulation has no loop joints")
        count = len(anchors.structure)
        return cls._with(articulation, anchors, [[position_gain] * count, [velocity_gain] * count])

    @classmethod
    def _with(cls, articulation: Articulation, anchors: FramePairs, gains) -> Constraints:
        position, velocity = (
            jnp.asarray(np.array(gain, float), articulation.dtype) for gain in gains
        )
        return cls(anchors, position, velocity, jnp.zeros(anchors.num_rows, articulation.dtype))

    @property
    def num_rows(self) -> int:
        """R, the number of rows of all constraints."""
        return self.anchors.num_rows


def _end(articulation: Articulation, frame: str | None, pose: npt.ArrayLike) -> tuple[int, Array]:
    """The link of a frame, -1 for the world, and a pose in that frame expressed in the link's."""
    topology = articulation.topology
    pose = jnp.asarray(np.asarray(pose, float), articulation.dtype)
    if frame is None:
        return -1, pose
    link, index = frame_index(topology, frame)
    if index is None:
        return link, pose
    placed = Transforms.from_poses(
        articulation.frame_local_pose[index][None]
    ) @ Transforms.from_poses(pose[None])
    return link, placed.poses()[0]


def check_constraints(constraints: object) -> None:
    """Raises ``TypeError`` unless these are the arrays of constraints; descriptors are none."""
    if not isinstance(constraints, Constraints):
        raise TypeError(
            f"constraints: expected artix.Constraints, found {type(constraints).__name__}; make "
            "them with artix.Constraints.of(articulation, [...])"
        )


def check_proximal(damping: float | Array | None, iterations: int, rows: int) -> None:
    """Raises unless these are a damping and a number of proximal iterations."""
    check_count("iterations", iterations)
    if damping is not None:
        check_coefficient("damping", damping, rows)


def check_coefficient(
    name: str, value: float | Array, rows: int | None, most: float = np.inf
) -> None:
    """Raises ``ValueError`` unless this is one number or, with ``rows``, one each; Python numbers
    within 0 .. most.
    """
    shapes = [()] if rows is None else [(), (rows,)]
    if np.shape(value) not in shapes:
        raise ValueError(
            f"{name}: expected shape {' or '.join(map(str, shapes))}, found {np.shape(value)}"
        )
    if isinstance(value, numbers.Real) and not 0 <= value <= most:
        expected = "zero or more" if most == np.inf else f"a number between 0 and {most:g}"
        raise ValueError(f"{name}: expected {expected}, found {value}")
