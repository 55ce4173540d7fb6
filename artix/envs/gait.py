"""The gait: what the feet do, step by step and in recorded motions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct

Array = jax.Array


class Gait(struct.PyTreeNode):
    """Contacts, times in the air and on the ground, and swing heights of K feet: what a task
    remembers of them from one control step to the next.

    Attributes:
      air_time: time since each foot last touched the ground [s], [K].
      swing_peak: peak height of each foot since then [m], [K].
      contact: whether each foot touched the ground at the last step, [K] (bool).
      contact_time: time since each foot was last in the air [s], [K].
      last_air_time: how long each foot was last in the air [s], [K]; zero before its first landing.
      last_contact_time: how long each foot last stood [s], [K]; zero before it first leaves the
        ground.
    """

    air_time: Array
    swing_peak: Array
    contact: Array
    contact_time: Array
    last_air_time: Array
    last_contact_time: Array

    @classmethod
    def standing(cls, num_feet: int, dtype) -> Gait:
        """The gait before the first step."""
        zeros = jnp.zeros(num_feet, dtype)
        return cls(zeros, zeros, jnp.zeros(num_feet, bool), zeros, zeros, zeros)

    def moved(self, contact: Array, height: Array, dt: float) -> tuple[Gait, Array]:
        """The gait one control step later, and which feet have landed, counted as in Playground's
        Go1.

        A foot lands when it has been in the air and touches the ground now or did so at the last
        step.

        Args:
          contact: whether each foot touches the ground, [K] (bool).
          height: height of each foot above the ground [m], [K].
          dt: the control period [s].

        Returns:
          The gait, whose times and peaks still include the swing that just ended (see
          :meth:`landed`), and whether each foot landed, [K] (bool).
        """
        first_contact = (self.air_time > 0) & (contact | self.contact)
        leaves = (self.contact_time > 0) & ~contact
        moved = self.replace(
            air_time=self.air_time + dt,
            swing_peak=jnp.maximum(self.swing_peak, height),
            contact=contact,
            contact_time=self.contact_time + dt,
            last_air_time=jnp.where(first_contact, self.air_time + dt, self.last_air_time),
            last_contact_time=jnp.where(leaves, self.contact_time, self.last_contact_time),
        )
        return moved, first_contact

    def landed(self) -> Gait:
        """Resets the air time and peak of feet on the ground, and the contact time of feet in the
        air.
        """
        return self.replace(
            air_time=jnp.where(self.contact, 0, self.air_time),
            swing_peak=jnp.where(self.contact, 0, self.swing_peak),
            contact_time=jnp.where(self.contact, self.contact_time, 0),
        )


#: How much of a record, from its start, is left out of what describes the steady gait.
_START = 0.2
#: A robot that moves more slowly stands [m/s].
_SLOW = 0.1


def gait_statistics(
    record: Mapping[str, Any], dt: float, weight: float, *, transient: float = _START
) -> dict[str, Any]:
    """How well a robot walks: statistics of recorded motions, of any simulator or a real robot.

    Args:
      record: arrays with a leading axis of T times: ``root_pose`` [T, 7], whose first three numbers
        are the place; ``velocity`` and ``angular_velocity`` [T, 3] in the robot's axes; ``command``
        [T, 3]; ``joint_velocity`` and ``joint_force`` [T, n]; of the feet ``contact`` [T, K],
        ``feet_position`` and ``feet_velocity`` [T, K, 3] in world axes; and, if it was recorded,
        ``joint_work`` [T, n], the work of each motor since the time before [J].
      dt: time between two of them [s].
      weight: the robot's mass times gravity [N].
      transient: the fraction of the record at its start that does not count, except for the path
        and the displacement.

    Returns:
      ``distance``, the length of the path of the root [m], in which its sway counts;
      ``displacement``, how far its end is from its start [m]; ``velocity_error`` [m/s] and
      ``yaw_rate_error`` [rad/s], means of their magnitudes; ``height``, the mean height [m];
      ``duty``, the fraction of time that each foot stands, [K]; ``stride_frequency``, mean of the
      feet's landings per second [Hz]; ``cost_of_transport``, the work that the motors put in,
      relative to weight times distance (infinite below 0.1 m/s); ``torque_peak`` [n]; ``slip``, the
      mean horizontal speed of feet on the ground [m/s]; ``clearance``, the mean over swings of the
      largest height of each foot above its lowest place [m], [K].

    Examples:
      >>> time = np.arange(0.0, 2.0, 0.02)
      >>> down = np.stack([np.sin(15 * time) > 0, np.sin(15 * time) <= 0], axis=1)
      >>> place = np.zeros((100, 2, 3))
      >>> record = {
      ...     "root_pose": np.stack([time, *6 * [0 * time]], axis=1),
      ...     "velocity": np.tile([1.0, 0, 0], (100, 1)),
      ... }
      >>> record |= {
      ...     "angular_velocity": np.zeros((100, 3)),
      ...     "command": np.tile([1.0, 0, 0], (100, 1)),
      ... }
      >>> record |= {"joint_velocity": np.ones((100, 2)), "joint_force": np.ones((100, 2))}
      >>> record |= {"contact": down, "feet_position": place, "feet_velocity": place}
      >>> statistics = gait_statistics(record, 0.02, weight=10.0)
      >>> round(statistics["cost_of_transport"], 2), statistics["duty"].round(1).tolist()
      (0.2, [0.5, 0.5])
    """
    every = {name: np.asarray(value, float) for name, value in record.items()}
    steady = {name: value[round(transient * len(value)) :] for name, value in every.items()}
    apart = steady["command"] - np.concatenate(
        [steady["velocity"][:, :2], steady["angular_velocity"][:, 2:]], axis=1
    )
    down = steady["contact"] > 0
    lands = down[1:] & ~down[:-1]
    seconds = max(len(down) * dt, dt)
    way = float(np.sum(np.linalg.norm(np.diff(steady["root_pose"][:, :2], axis=0), axis=1)))
    power = steady["joint_force"] * steady["joint_velocity"]
    work = float(np.sum(np.maximum(steady.get("joint_work", dt * power), 0)))
    speed = np.linalg.norm(steady["feet_velocity"][..., :2], axis=-1)
    is_moving = way > _SLOW * seconds
    place = every["root_pose"][:, :2]
    return {
        "distance": float(np.sum(np.linalg.norm(np.diff(place, axis=0), axis=1))),
        "displacement": float(np.linalg.norm(place[-1] - place[0])),
        "velocity_error": float(np.mean(np.linalg.norm(apart[:, :2], axis=1))),
        "yaw_rate_error": float(np.mean(np.abs(apart[:, 2]))),
        "height": float(np.mean(steady["root_pose"][:, 2])),
        "duty": down.mean(axis=0),
        "stride_frequency": float(lands.sum() / down.shape[1] / seconds),
        "cost_of_transport": work / (weight * way) if is_moving else np.inf,
        "torque_peak": np.abs(steady["joint_force"]).max(axis=0),
        "slip": float(np.sum(speed * down) / max(down.sum(), 1)),
        "clearance": np.array(
            [_clearance(down[:, k], steady["feet_position"][:, k, 2]) for k in range(down.shape[1])]
        ),
    }


def _clearance(down: np.ndarray, height: np.ndarray) -> float:
    """The mean over the swings of a foot of its largest height; 0 without a swing."""
    starts = np.flatnonzero(down[:-1] & ~down[1:]) + 1
    ends = np.flatnonzero(~down[:-1] & down[1:]) + 1
    swings = [(a, b) for a in starts for b in ends[ends > a][:1]]
    return float(np.mean([height[a:b].max() for a, b in swings]) - height.min()) if swings else 0.0
