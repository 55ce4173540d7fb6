"""How well a robot walks: statistics of recorded motions, of any simulator or a real robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: How much of a record, from its start, is left out of what describes the steady gait.
_START = 0.2
#: A robot that moves more slowly stands [m/s].
_SLOW = 0.1


def gait_statistics(
    record: Mapping[str, Any], dt: float, weight: float, *, transient: float = _START
) -> dict[str, Any]:
    """Statistics of a gait.

    Args:
      record: arrays with a leading axis of T times: ``root_pose`` [T, 7], whose first three numbers
        are the place; ``velocity`` and ``angular_velocity`` [T, 3] in the robot's axes; ``command``
        [T, 3]; ``joint_velocity`` and ``joint_force`` [T, n]; of the feet ``contact`` [T, K],
        ``feet_position`` and ``feet_velocity`` [T, K, 3] in world axes; and, if it was recorded,
        ``joint_work`` [T, n], the work of each motor since the time before [J].
      dt: time between two of them [s].
      weight: the robot's mass times gravity [N].
      transient: the fraction of the record at its start that does not count, except for the path.

    Returns:
      ``distance``, the length of the path of the root [m]; ``velocity_error`` [m/s] and
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
      >>> found = gait_statistics(record, 0.02, weight=10.0)
      >>> round(found["cost_of_transport"], 2), found["duty"].round(1).tolist()
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
    return {
        "distance": float(
            np.sum(np.linalg.norm(np.diff(every["root_pose"][:, :2], axis=0), axis=1))
        ),
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
