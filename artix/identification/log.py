"""Recordings of a robot: columns by name, filtered, differentiated and resampled."""

from __future__ import annotations

import csv
import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.signal import butter, sosfiltfilt

from artix import Articulation, State, neutral_state
from artix.model.checks import check_one, warn_of_positions

#: Samples further apart are most likely not in seconds [s].
_LONGEST_PERIOD = 0.5
#: Angles that differ by more from one sample to the next have most likely been wrapped [rad].
_LARGEST_JUMP = 3.0
#: Velocities may miss the position by this share of its extent, and by so much in any case
#: [rad or m].
_MISSED, _LEAST_MISSED = 0.3, 0.05
#: A longer gap between samples, in usual periods, is a hole that no filter should bridge.
_LONGEST_GAP = 5.0


@dataclasses.dataclass(frozen=True)
class Log:
    """A recording of a robot's joints.

    Attributes:
      robot: the robot; its degrees of freedom give the columns their order.
      time: times of the samples, increasing, shape [N] [s].
      position: joint positions, shape [N, n] [rad or m].
      velocity: joint velocities, shape [N, n] [rad/s or m/s], or ``None``.
      acceleration: joint accelerations, shape [N, n] [rad/s^2 or m/s^2], or ``None``.
      torque: joint torques or forces that the motors apply, shape [N, n] [N m or N], or ``None``.
      current: motor currents, shape [N, n] [A], or ``None``.
      filter: cutoff [Hz] and order of the filter that the torques have passed, or ``None``.

    Raises:
      ValueError: the robot has a floating base or a spherical joint, whose positions cannot be
        filtered one by one; an array has the wrong shape or a number that is not finite; or times
        do not increase.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> time = jnp.linspace(0.0, 2.0, 201)
      >>> position = jnp.outer(jnp.sin(time), jnp.linspace(0.2, 0.8, 7))
      >>> log = artix.identification.Log(arm, time, position).filtered(cutoff=20.0)
      >>> print(log.states.joint_velocity.shape, log.acceleration.shape)
      (201, 7) (201, 7)
    """

    robot: Articulation
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray | None = None
    acceleration: np.ndarray | None = None
    torque: np.ndarray | None = None
    current: np.ndarray | None = None
    filter: tuple[float, int] | None = None

    def __post_init__(self) -> None:
        _check_robot(self.robot)
        time = np.asarray(self.time, float)
        if time.ndim != 1 or len(time) < 2:
            raise ValueError(
                f"time: expected shape (N,) with at least two samples; found {time.shape}"
            )
        object.__setattr__(self, "time", time)
        shape = (len(time), self.robot.topology.num_dofs)
        for name in _COLUMNS:
            value = getattr(self, name)
            if value is None:
                continue
            array = np.asarray(value, float)
            if array.shape != shape:
                raise ValueError(
                    f"{name}: expected shape {shape}, samples by degrees of freedom; found "
                    f"{array.shape}"
                )
            object.__setattr__(self, name, array)
        for name in ("time", *_COLUMNS):
            array = getattr(self, name)
            if array is not None and not np.isfinite(array).all():
                row = int(np.argmin(np.isfinite(array).reshape(len(time), -1).all(axis=1)))
                raise ValueError(
                    f"{name}: sample {row} is not finite; drop such samples, or interpolate them"
                )
        steps = np.diff(time)
        if not (steps > 0).all():
            row = int(np.argmax(steps <= 0)) + 1
            raise ValueError(
                f"time: sample {row} is not later than the one before; drop repeated samples, or "
                "sort them"
            )
        warn_of_positions("position", self.robot, self.position)

    def __len__(self) -> int:
        return len(self.time)

    @property
    def period(self) -> float:
        """The usual time between samples [s]."""
        return float(np.median(np.diff(self.time)))

    @property
    def states(self) -> State:
        """The states of all samples; every array has a leading axis [N].

        Raises:
          ValueError: the log has no velocities.
        """
        velocity = self.need("velocity")
        rest = neutral_state(self.robot)
        root_pose, root_velocity = (
            jnp.broadcast_to(x, (len(self), *x.shape)) for x in (rest.root_pose, rest.root_velocity)
        )
        dtype = self.robot.dtype
        return State(
            root_pose,
            root_velocity,
            jnp.asarray(self.position, dtype),
            jnp.asarray(velocity, dtype),
        )

    def resampled(self, period: float) -> Log:
        """The log at equal intervals, by a cubic spline through each column.

        Args:
          period: time between samples [s]. Filter first if it is longer than the log's, or faster
            motion appears as slower motion.

        Raises:
          ValueError: the period is not positive, or longer than the log.
        """
        duration = self.time[-1] - self.time[0]
        if not 0 < period <= duration:
            raise ValueError(
                f"period: must be positive and at most the duration, {duration:g} s; found {period}"
            )
        _check_gaps(self.time, self.period)
        # A duration that is a multiple of the period but for rounding has its last sample.
        time = self.time[0] + period * np.arange(math.floor(duration / period * (1 + 1e-12)) + 1)
        time = np.minimum(time, self.time[-1])
        degree = min(3, len(self) - 1)
        columns: dict[str, Any] = {
            name: make_interp_spline(self.time, value, k=degree)(time)
            for name in _COLUMNS
            if (value := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, time=time, **columns)

    def filtered(self, cutoff: float | None, order: int = 4) -> Log:
        """The log without what is faster than a cutoff, and with velocities and accelerations to go
        with it.

        Every column passes a Butterworth filter forwards and backwards, which does not delay it and
        damps the amplitude at the cutoff by half. Velocities and accelerations are the derivatives
        of a quintic spline through the filtered positions; measured velocities are replaced, since
        a consistent set predicts torques better. Samples must be equally spaced, see
        :meth:`resampled`.

        Args:
          cutoff: frequency [Hz], for instance five times the highest frequency of the reference
            motion; ``None`` only differentiates.
          order: order of the filter in one direction.

        Raises:
          ValueError: samples are not equally spaced, the cutoff is not below half the sampling
            frequency, or the log is too short.
        """
        steps = np.diff(self.time)
        if np.abs(steps - self.period).max() > 1e-3 * self.period:
            raise ValueError("time: samples are not equally spaced; call resampled(period) first")
        if len(self) < 6:
            raise ValueError(f"a quintic spline needs six samples; found {len(self)}")

        columns = {name: getattr(self, name) for name in ("position", "torque", "current")}
        if cutoff is not None:
            columns = {
                name: None if value is None else _low_pass(value, self.period, cutoff, order)
                for name, value in columns.items()
            }
        position = columns.pop("position")
        spline = make_interp_spline(self.time, position, k=5)
        return dataclasses.replace(
            self,
            position=position,
            velocity=spline.derivative(1)(self.time),
            acceleration=spline.derivative(2)(self.time),
            **columns,
            filter=self.filter if cutoff is None else (cutoff, order),
        )

    def like_torque(self, value: np.ndarray) -> np.ndarray:
        """A column that has passed the filter of the torques, shape [N, n]."""
        return value if self.filter is None else _low_pass(value, self.period, *self.filter)

    def between(self, start: float, end: float) -> Log:
        """The samples with ``start <= time <= end`` [s], for instance without the ends, where
        filters are worst.
        """
        chosen = (self.time >= start) & (self.time <= end)
        columns = {
            name: value[chosen] for name in _COLUMNS if (value := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, time=self.time[chosen], **columns)

    def need(self, name: str) -> np.ndarray:
        """A column.

        Raises:
          ValueError: the log does not have it.
        """
        value = getattr(self, name)
        if value is None:
            how = "; call filtered(cutoff) first" if name in ("velocity", "acceleration") else ""
            raise ValueError(f"the log has no column {name}{how}")
        return value


_COLUMNS = ("position", "velocity", "acceleration", "torque", "current")
#: Bags of ROS, and the messages that are read from them.
_BAGS = (".bag", ".mcap", ".db3")
_KINDS = ("position", "velocity", "effort")
_JOINT_STATE = "sensor_msgs/msg/JointState"


def read_log(
    robot: Articulation,
    table: str | Path | Mapping[str, Any],
    *,
    time: str = "time",
    position: str = "position_{joint}",
    velocity: str | None = None,
    acceleration: str | None = None,
    torque: str | None = None,
    current: str | None = None,
    time_unit: float = 1.0,
    topic: str | None = None,
) -> Log:
    """Reads a recording whose columns have names.

    In bags of ROS 1 and 2, these are ``position_{joint}``, ``velocity_{joint}`` and
    ``effort_{joint}`` of the messages ``sensor_msgs/JointState`` that name all joints of the robot,
    at the ``time`` of their stamps [s]. Messages are sorted by their stamps, and of equal stamps
    the first one counts. A warning says how many messages were passed over, and why.

    Args:
      robot: the robot.
      table: a CSV or Parquet file (the latter with ``pip install 'artix[logs]'``), a bag of ROS (a
        file ``.bag``, ``.mcap`` or ``.db3``, or a folder; ``pip install 'artix[bags]'``), or a
        mapping of columns, such as a DataFrame of pandas.
      time: the column of times.
      position: the columns of positions; ``{joint}`` stands for the name of a joint or degree of
        freedom and ``{index}`` for its number from 0 in the robot's order.
      velocity: columns of velocities, if any.
      acceleration: columns of accelerations, if any.
      torque: columns of torques, if any.
      current: columns of motor currents, if any.
      time_unit: seconds in a unit of time, for instance ``1e-9`` for nanoseconds.
      topic: the topic of a bag that has joint states on several ones.

    Returns:
      The log; time starts at zero.

    Raises:
      ValueError: a column is missing (the message lists the columns that there are), or a cell is
        not a number; a bag has no joint states, several topics with them, or none that name all
        joints; see also :class:`Log`.
      ImportError: Parquet files and bags need another package.

    Warns:
      UserWarning: messages of a bag are passed over, or numbers can hardly be right: positions far
        outside limits, as those in degrees, angles that jump by a turn, velocities that do not add
        up to the motion, or times that are not in seconds.

    Examples:
      >>> arm = artix.robots.load("double_pendulum")
      >>> names = arm.topology.dof_names
      >>> table = {"t": [0, 10, 20], **{f"q_{name}": [0.0, 0.1, 0.2] for name in names}}
      >>> log = artix.identification.read_log(
      ...     arm, table, time="t", position="q_{joint}", time_unit=1e-3
      ... )
      >>> print(log.time, log.position.shape)
      [0.   0.01 0.02] (3, 2)
    """
    _check_robot(robot)
    names = robot.topology.dof_names
    columns = _columns_of(table, names, topic)
    patterns = {
        "position": position,
        "velocity": velocity,
        "acceleration": acceleration,
        "torque": torque,
        "current": current,
    }
    values: dict[str, Any] = {
        kind: np.stack(
            [_column(columns, _name(pattern, joint, k)) for k, joint in enumerate(names)], axis=1
        )
        for kind, pattern in patterns.items()
        if pattern is not None
    }
    stamps = _column(columns, time)
    # Before they become floating-point numbers: nanoseconds since 1970 have more digits.
    seconds = (stamps - stamps[0]).astype(float) * time_unit
    log = Log(robot, seconds, **values)
    _warn_of_doubts(log)
    return log


def _warn_of_doubts(log: Log) -> None:
    """Points out times, angles and velocities that can hardly be in seconds, unwrapped, and of the
    same joints.
    """
    names = log.robot.topology.dof_names
    if log.period > _LONGEST_PERIOD:
        warnings.warn(
            f"time: samples are {log.period:g} s apart; if it is in milliseconds, use "
            "time_unit=1e-3",
            stacklevel=3,
        )
    jumps = np.abs(np.diff(log.position, axis=0))
    if jumps.size and jumps.max() > _LARGEST_JUMP:
        row, dof = np.unravel_index(int(np.argmax(jumps)), jumps.shape)
        warnings.warn(
            f"position: {names[dof]!r} jumps by {jumps[row, dof]:.3g} after sample {row}, at "
            f"{log.time[row]:g} s, where derivatives will be wrong; unwrap angles that start "
            "again at pi",
            stacklevel=3,
        )
    if log.velocity is None:
        return
    travel = 0.5 * (log.velocity[1:] + log.velocity[:-1]) * np.diff(log.time)[:, None]
    missed = np.abs(log.position[1:] - log.position[0] - np.cumsum(travel, axis=0)).max(axis=0)
    extent = np.ptp(log.position, axis=0)
    worst = int(np.argmax(missed - _MISSED * extent))
    if missed[worst] > max(_MISSED * extent[worst], _LEAST_MISSED):
        warnings.warn(
            f"velocity: its integral misses the position of {names[worst]!r} by "
            f"{missed[worst]:.3g}, where that moves by {extent[worst]:.3g}; check units, signs "
            "and columns",
            stacklevel=3,
        )


def _low_pass(value: np.ndarray, period: float, cutoff: float, order: int) -> np.ndarray:
    highest = 0.5 / period
    if not 0 < cutoff < highest:
        raise ValueError(
            f"cutoff: must be between 0 and half the sampling frequency, {highest:g} Hz; found "
            f"{cutoff}"
        )
    sections = butter(order, cutoff, fs=1 / period, output="sos")
    # The ends are continued over three periods of the cutoff, so that the filter has settled where
    # the log begins.
    padding = min(len(value) - 1, math.ceil(3 / (cutoff * period)))
    return sosfiltfilt(sections, value, axis=0, padlen=padding)


def _name(pattern: str, joint: str, index: int) -> str:
    return pattern.replace("{joint}", joint).replace("{index}", str(index))


def _columns_of(
    table: str | Path | Mapping[str, Any], joints: Sequence[str], topic: str | None
) -> Mapping[str, Any]:
    path = Path(table) if isinstance(table, str | Path) else Path()
    is_bag = isinstance(table, str | Path) and (path.suffix.lower() in _BAGS or path.is_dir())
    if topic is not None and not is_bag:
        raise ValueError(f"topic: only bags have topics; found {topic!r} for a table")
    if not isinstance(table, str | Path):
        return table
    if is_bag:
        return _bag_columns(path, joints, topic)
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError("Parquet files need pyarrow: pip install 'artix[logs]'") from error
        content = parquet.read_table(path)
        return {name: content[name].to_numpy() for name in content.column_names}
    with path.open(newline="", encoding="utf-8-sig") as file:
        sample = file.read(65536)
        file.seek(0)
        try:
            dialect: Any = csv.Sniffer().sniff(sample.splitlines()[0], delimiters=",;\t")
        except (csv.Error, IndexError):
            dialect = "excel"
        rows = [row for row in csv.reader(file, dialect) if row]
    if len(rows) < 2:
        raise ValueError(
            f"{path}: expected a line of names and lines of numbers; found {len(rows)} lines"
        )
    head = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(head):
            raise ValueError(
                f"{path}, line {number}: expected {len(head)} cells, as in the first; found "
                f"{len(row)}"
            )
    return {name: np.array([row[k] for row in rows[1:]]) for k, name in enumerate(head)}


def _bag_columns(path: Path, joints: Sequence[str], topic: str | None) -> dict[str, np.ndarray]:
    """The columns of the joint states in a bag."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise ImportError("bags of ROS need rosbags: pip install 'artix[bags]'") from error
    # Older bags of ROS 2 do not define their messages.
    default = get_typestore(Stores.ROS2_HUMBLE)
    try:
        with AnyReader([path], default_typestore=default) as reader:
            topic, parsed = _joint_states(path, reader, topic)
    except ValueError:
        raise
    except Exception as error:  # those of SQLite, MCAP and rosbags have nothing in common
        raise ValueError(f"{path}: it cannot be read as a bag of ROS: {error}") from error
    messages = [each for each in parsed if each is not None]
    named = [each for each in messages if set(joints) <= set(each.name)]
    if not named:
        names = sorted({name for each in messages for name in each.name})
        raise ValueError(
            f"{path}: no message names all joints of the robot ({', '.join(joints)}); messages "
            f"name: {', '.join(names)}"
        )
    # A publisher leaves out what it does not know, but always the same.
    kinds = [kind for kind in _KINDS if 2 * sum(_has(each, kind) for each in named) > len(named)]
    complete = [each for each in named if all(_has(each, kind) for kind in kinds)]
    if not complete:
        raise ValueError(f"{path}: no message has a number for each name in {', '.join(kinds)}")
    stamps = np.array(
        [each.header.stamp.sec * 10**9 + each.header.stamp.nanosec for each in complete], "int64"
    )
    stamp, first = np.unique(stamps, return_index=True)
    _warn_of_messages(
        f"{path}, topic {topic}",
        len(parsed),
        {
            "damaged": len(parsed) - len(messages),
            "without all joints of the robot": len(messages) - len(named),
            f"without a number for each name in {', '.join(kinds)}": len(named) - len(complete),
            "with the stamp of another": len(complete) - len(stamp),
        },
        int(np.sum(np.diff(stamps) < 0)),
    )
    columns = {"time": (stamp - stamp[0]) * 1e-9}
    for kind in kinds:
        for joint in joints:
            column = [getattr(each, kind)[each.name.index(joint)] for each in complete]
            columns[f"{kind}_{joint}"] = np.array(column)[first]
    return columns


def _has(message: Any, kind: str) -> bool:
    return len(getattr(message, kind)) == len(message.name) > 0


def _warn_of_messages(where: str, total: int, counts: Mapping[str, int], back: int) -> None:
    """Says how many messages of a bag are passed over, and how often stamps go back."""
    over = [f"{count} {reason}" for reason, count in counts.items() if count]
    if over:
        passed = f"{sum(counts.values())} of {total} messages are passed over"
        warnings.warn(f"{where}: {passed}: {', '.join(over)}", stacklevel=5)
    if back:
        warnings.warn(
            f"{where}: stamps go back {back} times, and messages are sorted by them; if a clock "
            "was set, two motions may be mixed: record the part before or after it alone",
            stacklevel=5,
        )


def _joint_states(path: Path, reader: Any, topic: str | None) -> tuple[str, list[Any]]:
    """A topic with joint states, or the only one, and its messages; ``None`` for those that are
    damaged.
    """
    chosen = [each for each in reader.connections if each.msgtype == _JOINT_STATE]
    topics = sorted({each.topic for each in chosen})
    if topic not in topics and (topic is not None or len(topics) != 1):
        fix = "choose one by topic=" if topics else "record one, such as /joint_states"
        raise ValueError(
            f"{path}: topics with {_JOINT_STATE}: {', '.join(topics) or 'none'}; {fix}"
        )
    chosen = [each for each in chosen if topic in (None, each.topic)]

    def parsed(kind: str, data: bytes) -> Any:
        try:
            return reader.deserialize(data, kind)
        except Exception:  # of many kinds: what follows depends on the bytes
            return None

    return topics[0] if topic is None else topic, [
        parsed(each.msgtype, data) for each, _, data in reader.messages(chosen)
    ]


def _column(columns: Mapping[str, Any], name: str) -> np.ndarray:
    if name not in columns:
        known = ", ".join(map(str, columns.keys()))
        raise ValueError(f"there is no column {name!r}; the columns are: {known}")
    array = np.asarray(columns[name])
    if array.dtype.kind in "iu":
        return array.astype("int64")
    if array.dtype.kind in "US" and _are_whole(array):
        return array.astype("int64")
    try:
        return array.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _are_whole(cells: np.ndarray) -> bool:
    return all(cell.strip().lstrip("+-").isdigit() for cell in cells.astype(str))


def _check_robot(robot: Articulation) -> None:
    check_one(robot)
    topology = robot.topology
    if not topology.fixed_base:
        raise ValueError("a log needs a robot with a fixed base; load an arm with fixed_base=True")
    if topology.has_spherical:
        joints = sorted(
            {topology.dof_names[k].split(":")[0] for k in np.flatnonzero(topology.dof_is_spherical)}
        )
        raise ValueError(
            f"positions of spherical joints cannot be filtered one by one: {', '.join(joints)}"
        )


def _check_gaps(time: np.ndarray, period: float) -> None:
    steps = np.diff(time)
    longest = int(np.argmax(steps))
    if steps[longest] > _LONGEST_GAP * period:
        raise ValueError(
            f"time: {steps[longest]:.3g} s are missing after sample {longest}, at "
            f"{time[longest]:.6g} s, where samples are {period:.3g} s apart; take the part before "
            "or after it by between(start, end)"
        )
