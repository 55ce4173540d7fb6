"""Contact schedules: which feet stand when, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.math import struct
from artix.model.checks import check_count, check_names, check_positive, known

Array = jax.Array
#: Damping of a row of the Delassus matrix that releases it: its force is 1e-12 of what would hold
#: it.
RELEASED = 1e12


class ContactSchedule(struct.PyTreeNode):
    """Frames that stand on the world during some knots of a horizon and are free during others.

    Which frames stand is data, so one program serves every schedule, and the robots of a batch may
    have different ones.

    Attributes:
      constraints: K constraints, one for each frame, that hold it while it stands.
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
        """A schedule for frames given by name.

        ``velocity_gain`` sets how fast a frame that comes down is stopped. With ``1 / dt`` it stops
        within one step, by the impulse of an impact without rebound.

        Args:
          articulation: the articulation.
          frames: names of K links or additional frames.
          active: which of them stand during each knot, shape [T, K], of bool.
          type: ``"point"`` holds a frame's origin; ``"weld"`` holds its rotation, too.
          velocity_gain: rate at which the velocity of a standing frame decays [1/s].

        Returns:
          The schedule. Forces on its rows are in world axes, force then torque.

        Raises:
          KeyError: no link or frame has this name.
          TypeError: ``frames`` is a single string.
          ValueError: a frame occurs twice, or ``active`` does not have shape [T, K], or has values
            besides 0 and 1.

        Examples:
          >>> robot = artix.robots.load("quadruped")
          >>> feet = [name for name in robot.topology.link_names if name.endswith("foot")]
          >>> pattern = optimal_control.gait(
          ...     [0.0, 0.5, 0.5, 0.0], period=0.5, dt=0.02, num_knots=50
          ... )
          >>> optimal_control.ContactSchedule.of(robot, feet, pattern).active.shape
          (50, 4)
        """
        check_names("frames", frames)
        pattern, values = jnp.asarray(active), known(active)
        if values is not None and not np.isin(values, (0, 1)).all():
            raise ValueError(
                "active: expected True where a frame stands and False elsewhere; found other values"
            )
        if pattern.ndim != 2 or pattern.shape[1] != len(frames):
            raise ValueError(
                f"active: expected shape [T, {len(frames)}], a column for each of {list(frames)}; "
                f"found {pattern.shape}")  # fmt: skip
        rows = [
            artix.Constraint(
                frame_a=frame, type=type, axes="world_aligned", velocity_gain=velocity_gain
            )
            for frame in frames
        ]
        # These stay known numbers within jax.jit, so that kernels can fold them.
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
                f"contact_schedule: made for an articulation of {dtype}; this one has "
                f"{articulation.dtype}. Make it from the converted articulation"
            )
        if (
            max(each.link_a for each in self.constraints.anchors.structure)
            >= articulation.topology.num_links
        ):
            raise ValueError(
                "contact_schedule: made for another articulation, which has more links than this "
                "one"
            )

    def damping(self, active: Array) -> Array:
        """Damping of the Delassus matrix's diagonal, [R]: large for frames in the air, which then
        carry nothing.

        Args:
          active: which frames stand, [K].

        Returns:
          The square root of the dtype's precision on rows that hold, 1e12 on the others.
        """
        dtype = self.constraints.position_gain.dtype
        rows = active[np.asarray(self.constraints.anchors.row_anchor)]
        return jnp.where(
            rows, jnp.asarray(jnp.finfo(dtype).eps ** 0.5, dtype), jnp.asarray(RELEASED, dtype)
        )


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
      offsets: fraction of the period by which each foot is ahead, shape [K]: ``(0, 0.5, 0.5, 0)``
        for the trot of feet front left, front right, rear left, rear right; all equal for a jump.
      period: duration of a cycle [s].
      dt: length of a knot [s].
      num_knots: number of knots T.
      duty: fraction of the cycle during which a foot stands.
      start: time at the beginning of the first knot [s]. It may be traced: in a receding horizon it
        moves on.

    Returns:
      Whether each foot stands during each knot, shape [T, K], of bool. A foot stands in the first
      part of its cycle; the time at the middle of the knot decides.

    Raises:
      ValueError: ``num_knots``, ``period`` or ``dt`` is not positive, or a fraction is more than
        the whole.
      TypeError: ``num_knots`` is not a whole number.

    Examples:
      >>> optimal_control.gait([0.0, 0.5], period=0.4, dt=0.1, num_knots=4).astype(int).tolist()
      [[1, 0], [1, 0], [0, 1], [0, 1]]
    """
    check_count("num_knots", num_knots)
    check_positive("period", period, "s")
    check_positive("dt", dt, "s")
    dtype = jnp.result_type(start, dt, period, duty, jnp.float32)
    for name, share, least in (("offsets", offsets, -1.0), ("duty", duty, 0.0)):
        shares = known(jnp.asarray(share, dtype))
        if shares is not None and not np.all((shares >= least) & (shares <= 1)):
            raise ValueError(
                f"{name}: expected fractions of the period, from {least:g} to 1; found {share}"
            )
    middle = start + (jnp.arange(num_knots, dtype=dtype) + 0.5) * dt
    phase = jnp.mod(middle[:, None] / period + jnp.asarray(offsets, dtype)[None], 1.0)
    return phase < duty
