"""Contact schedules: which feet stand when, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.math import struct
from artix.optimal_control.checks import check_count, check_names, check_positive, known

Array = jax.Array
#: Damping of a row of the Delassus matrix that releases it: its force is 1e-12 of what would hold it.
RELEASED = 1e12


class ContactSchedule(struct.PyTreeNode):
    """Frames that stand on the world during some knots of a horizon and are free during others.

    One program serves every schedule, as which frames stand is data; it may differ from robot to robot in a batch.

    Attributes:
      constraints: what holds a frame while it stands, one constraint each of K frames.
      active: whether frame k stands during knot t, [T, K] bool.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> feet = [name for name in robot.topology.link_names if name.endswith("foot")]
      >>> trot = optimal_control.gait([0.0, 0.5, 0.5, 0.0], period=0.5, dt=0.05, num_knots=10)
      >>> schedule = optimal_control.ContactSchedule.of(robot, feet, trot)
      >>> schedule.constraints.num_rows, schedule.active.sum(axis=0).tolist()
      (12, [5, 5, 5, 5])
    """

    constraints: artix.Constraints
    active: Array

    @classmethod
    def of(
        cls,
        articulation: artix.Articulation,
        frames: Sequence[str],
        active: Any,
        *,
        type: str = "point",
        velocity_gain: float = 20.0,
    ) -> ContactSchedule:
        """A schedule for frames by their names.

        A frame that comes down is stopped as fast as ``velocity_gain`` says: with ``1 / dt`` within one step, by the
        impulse of an impact without rebound.

        Args:
          articulation: the articulation.
          frames: names of K links or additional frames.
          active: which of them stand during each knot, shape [T, K], of bool.
          type: ``"point"`` holds a frame's origin, ``"weld"`` its rotation, too.
          velocity_gain: rate at which what moves while it stands comes to rest [1/s].

        Returns:
          The schedule; forces on its rows are in world axes, force then torque.

        Raises:
          KeyError: no link or frame has such a name.
          ValueError: ``active`` has another shape than [T, K].

        Examples:
          >>> robot = artix.robots.load("quadruped")
          >>> feet = [name for name in robot.topology.link_names if name.endswith("foot")]
          >>> pattern = optimal_control.gait([0.0, 0.5, 0.5, 0.0], period=0.5, dt=0.02, num_knots=50)
          >>> optimal_control.ContactSchedule.of(robot, feet, pattern).active.shape
          (50, 4)
        """
        check_names("frames", frames)
        pattern, values = jnp.asarray(active), known(active)
        if values is not None and not np.isin(values, (0, 1)).all():
            raise ValueError("active: expected True where a frame stands and False elsewhere; found other values")
        if pattern.ndim != 2 or pattern.shape[1] != len(frames):
            raise ValueError(f"active: expected shape [T, {len(frames)}], a column for each of {list(frames)}; found "
                             f"{pattern.shape}")  # fmt: skip
        rows = [
            artix.Constraint(frame_a=frame, type=type, axes="world_aligned", velocity_gain=velocity_gain)
            for frame in frames
        ]
        # Known numbers even within jax.jit, so that kernels fold them.
        with jax.ensure_compile_time_eval():
            constraints = artix.Constraints.of(articulation, rows)
        return cls(constraints, pattern.astype(bool))

    def check_articulation(self, articulation: artix.Articulation) -> None:
        """Raises unless the schedule can be one of this articulation.

        Raises:
          TypeError: it was made for an articulation of another dtype.
          ValueError: it was made for an articulation with more links, or is a batch of schedules.
        """
        dtype = self.constraints.position_gain.dtype
        if dtype != articulation.dtype:
            raise TypeError(
                f"contact_schedule: made for an articulation of {dtype}; this one has {articulation.dtype}. Make it "
                "from the converted articulation"
            )
        if max(each.link_a for each in self.constraints.anchors.structure) >= articulation.topology.num_links:
            raise ValueError("contact_schedule: made for another articulation, which has more links than this one")

    def damping(self, active: Array) -> Array:
        """Damping of the diagonal of the Delassus matrix, [R]: large on rows of frames in the air, which carry nothing.

        Args:
          active: which frames stand, [K].

        Returns:
          The square root of the dtype's precision for rows that hold, 1e12 for the others.
        """
        dtype = self.constraints.position_gain.dtype
        rows = active[np.asarray(self.constraints.anchors.row_anchor)]
        return jnp.where(rows, jnp.asarray(jnp.finfo(dtype).eps ** 0.5, dtype), jnp.asarray(RELEASED, dtype))


def gait(
    offsets: Sequence[float] | Array,
    *,
    period: float | Array,
    dt: float | Array,
    num_knots: int,
    duty: float | Array = 0.5,
    start: float | Array = 0.0,
) -> Array:
    """The pattern of a periodic gait.

    Args:
      offsets: the part of the period by which each foot is ahead, shape [K]: ``(0, 0.5, 0.5, 0)`` for the trot of feet
        front left, front right, rear left, rear right; all equal for a jump.
      period: duration of a cycle [s].
      dt: length of a knot [s].
      num_knots: number of knots T.
      duty: part of its cycle during which a foot stands.
      start: time at the beginning of the first knot [s], which may be traced: in a receding horizon it moves on.

    Returns:
      Whether each foot stands during each knot, shape [T, K], of bool: in the first part of its cycle, by the time in
      the knot's middle.

    Examples:
      >>> optimal_control.gait([0.0, 0.5], period=0.4, dt=0.1, num_knots=4).astype(int).tolist()
      [[1, 0], [1, 0], [0, 1], [0, 1]]
    """
    check_count("num_knots", num_knots)
    check_positive("period", period, "s")
    check_positive("dt", dt, "s")
    dtype = jnp.result_type(start, dt, period, duty, jnp.float32)
    middle = start + (jnp.arange(num_knots, dtype=dtype) + 0.5) * dt
    phase = jnp.mod(middle[:, None] / period + jnp.asarray(offsets, dtype)[None], 1.0)
    return phase < duty
