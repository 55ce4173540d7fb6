"""Logs: names of columns, filters beside closed forms, and what is refused."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

import artix
from artix.identification import Log, read_log

ARM = artix.robots.load("double_pendulum")
JOINTS = ARM.topology.dof_names


def log_of(signal: np.ndarray, period: float = 0.001, **columns: np.ndarray) -> Log:
    """A log in which both joints follow a signal."""
    both = {name: np.stack([value, value], axis=1) for name, value in columns.items()}
    return Log(ARM, period * np.arange(len(signal)), np.stack([signal, -signal], axis=1), **both)


TIME = 0.001 * np.arange(5000)


def test_a_sine_is_differentiated_and_not_delayed() -> None:
    signal = np.sin(2 * np.pi * 1.5 * TIME)
    log = log_of(signal, torque=signal).filtered(cutoff=15.0).between(0.5, 4.5)
    rate = 2 * np.pi * 1.5
    exact = np.sin(rate * log.time)
    np.testing.assert_allclose(log.position[:, 0], exact, atol=1e-6)
    np.testing.assert_allclose(log.velocity[:, 0], rate * np.cos(rate * log.time), atol=1e-5)
    np.testing.assert_allclose(log.acceleration[:, 0], -(rate**2) * exact, atol=1e-4)
    np.testing.assert_allclose(log.torque[:, 1], exact, atol=1e-6)
    assert log.states.joint_position.shape == (len(log), 2) and log.states.root_pose.shape == (
        len(log),
        7,
    )


def test_without_a_cutoff_only_derivatives_are_added() -> None:
    log = log_of(TIME**3).filtered(None)
    np.testing.assert_allclose(log.velocity[:, 0], 3 * TIME**2, atol=1e-9)
    np.testing.assert_allclose(log.acceleration[:, 1], -6 * TIME, atol=1e-6)


@pytest.mark.parametrize(("frequency", "gain"), [(5.0, 1.0), (20.0, 0.5), (80.0, 0.0)])
def test_amplitudes_about_the_cutoff(frequency: float, gain: float) -> None:
    """Butterworth's formula, squared because the filter runs twice: 1 / (1 + (f / f_c)^8) for order
    4."""
    log = (
        log_of(np.sin(2 * np.pi * frequency * TIME))
        .filtered(cutoff=20.0, order=4)
        .between(1.0, 4.0)
    )
    assert abs(np.abs(log.position).max() - gain) < 5e-3


def test_resampling_a_jittered_clock() -> None:
    time = TIME + 2e-4 * np.random.default_rng(0).uniform(-1, 1, len(TIME))
    signal = np.sin(2 * np.pi * time)
    log = Log(ARM, time, np.stack([signal, signal], axis=1)).resampled(0.002)
    assert np.allclose(np.diff(log.time), 0.002)
    np.testing.assert_allclose(log.position[:, 0], np.sin(2 * np.pi * log.time), atol=1e-8)
    assert len(log_of(np.zeros(101), 0.01).resampled(0.1)) == 11


@pytest.mark.parametrize(
    "change", [lambda log: log.resampled(0.004), lambda log: log.filtered(None)]
)
def test_a_log_knows_the_filter_that_its_torques_have_passed(change) -> None:
    """Signs of velocities pass it, too: without it, friction came out 9 to 16 % too low."""
    log = Log(ARM, TIME, np.zeros((len(TIME), 2)), torque=np.ones((len(TIME), 2)))
    changed = change(log.filtered(5.0, order=2))
    assert changed.filter == (5.0, 2)
    since = changed.time - changed.time.mean()
    jump = changed.like_torque(np.sign(since)[:, None])
    assert 0.1 < jump[np.searchsorted(since, 0.02), 0] < 0.9


def write(
    path: Path, head: list[str], rows: list[list[str]], separator: str = ",", start: str = ""
) -> Path:
    lines = [separator.join(row) for row in [head, *rows]]
    path.write_text(start + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("separator", "start"), [(",", ""), (";", ""), ("\t", ""), (",", "\ufeff")]
)
def test_csv_files(tmp_path: Path, separator: str, start: str) -> None:
    head = ["stamp", *(f"tau/{name}" for name in JOINTS), *(f"q{k}" for k in (1, 0)), "note"]
    # Nanoseconds since 1970, which a floating-point number does not resolve.
    stamps = [1732750000000000001, 1732750000005000001, 1732750000010000001]
    rows = [[str(stamp), "1", "2", "0.4", "0.3", "x"] for stamp in stamps]
    file = write(tmp_path / "log.csv", head, rows, separator, start)
    log = read_log(
        ARM, file, time="stamp", position="q{index}", torque="tau/{joint}", time_unit=1e-9
    )
    np.testing.assert_allclose(log.time, [0, 0.005, 0.01], rtol=1e-12)
    np.testing.assert_array_equal(log.position[0], [0.3, 0.4])
    np.testing.assert_array_equal(log.torque[0], [1, 2])


def test_parquet_files(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    columns = {"time": [0.0, 0.1], **{f"position_{name}": [0.1, 0.2] for name in JOINTS}}
    parquet.write_table(pyarrow.table(columns), tmp_path / "log.parquet")
    assert read_log(ARM, tmp_path / "log.parquet").position.tolist() == [[0.1, 0.1], [0.2, 0.2]]


BAGS = {"ros1.bag": "", "sqlite": "", "mcap": "mcap.mcap", "sqlite.db3": "sqlite.db3.db3"}


def write_bag(path: Path, topics: tuple[str, ...] = ("/joint_states",), damaged: int = 0) -> None:
    """Three joint states of the arm and a hand, the last two swapped, one of the hand alone, and
    what cannot be read."""
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore

    old = path.suffix == ".bag"
    store = get_typestore(Stores.ROS1_NOETIC if old else Stores.ROS2_HUMBLE)
    Header, Time = (
        store.types[name] for name in ("std_msgs/msg/Header", "builtin_interfaces/msg/Time")
    )
    JointState = store.types["sensor_msgs/msg/JointState"]
    plugin = rosbag2.StoragePlugin.MCAP if "mcap" in path.name else rosbag2.StoragePlugin.SQLITE3
    with (
        rosbag1.Writer(path)
        if old
        else rosbag2.Writer(path, version=9, storage_plugin=plugin) as writer
    ):
        for topic in topics:
            to = writer.add_connection(topic, JointState.__msgtype__, typestore=store)
            stamped = [
                (0, ["hand", *JOINTS[::-1]]),
                (2, ["hand"]),
                (5, [*JOINTS, "hand"]),
                (2, [*JOINTS, "hand"]),
            ]
            for order, (number, names) in enumerate(stamped):
                values = np.array([10.0 * number + len(name) for name in names])
                stamp = Time(sec=1732750000, nanosec=number * 1_000_001)
                header = {"seq": 0} if old else {}
                state = JointState(
                    Header(stamp=stamp, frame_id="", **header), names, values, np.array([]), -values
                )
                data = (
                    store.serialize_ros1(state, state.__msgtype__)
                    if old
                    else store.serialize_cdr(state, state.__msgtype__)
                )
                writer.write(to, order, data)
            for number in range(damaged):
                writer.write(to, 10 + number, data[:20])


@pytest.mark.parametrize("name", BAGS)
def test_bags_of_ros(tmp_path: Path, name: str) -> None:
    pytest.importorskip("rosbags")
    write_bag(tmp_path / name)
    file = tmp_path / name / BAGS[name] if BAGS[name] else tmp_path / name
    passed = (
        r"topic /joint_states: 1 of 4 messages are passed over: 1 without all joints of the robot"
    )
    with (
        pytest.warns(UserWarning, match=passed),
        pytest.warns(UserWarning, match="stamps go back 1 times"),
    ):
        log = read_log(ARM, file, torque="effort_{joint}")
    np.testing.assert_allclose(log.time, [0, 0.002000002, 0.005000005], rtol=1e-12)
    expected = np.array([[10.0 * number + len(joint) for joint in JOINTS] for number in (0, 2, 5)])
    np.testing.assert_array_equal(log.position, expected)
    np.testing.assert_array_equal(log.torque, -expected)
    with pytest.raises(ValueError, match=r"no column 'velocity_.*columns are: time, position_"):
        read_log(ARM, file, velocity="velocity_{joint}")


@pytest.mark.filterwarnings("ignore:.*stamps go back")
def test_damaged_messages_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    write_bag(tmp_path / "bag", damaged=3)
    with pytest.warns(
        UserWarning,
        match=r"bag, topic /joint_states: 4 of 7 messages are passed over: 3 damaged, 1 w",
    ):
        assert len(read_log(ARM, tmp_path / "bag")) == 3
    file = tmp_path / "bag" / "bag.db3"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"bag.db3: it cannot be read as a bag of ROS: "):
        read_log(ARM, file)


@pytest.mark.filterwarnings("ignore:.*(stamps go back|passed over)")
def test_which_bags_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rosbags")
    bag = tmp_path / "two"
    write_bag(bag, ("/arm", "/left"))
    with pytest.raises(ValueError, match="/arm, /left; choose one by topic="):
        read_log(ARM, bag)
    assert len(read_log(ARM, bag, topic="/left")) == 3
    with pytest.raises(ValueError, match=r"no message names all joints.*messages name: .*hand"):
        read_log(artix.robots.load("arm7"), bag, topic="/left")
    with pytest.raises(ValueError, match="only bags have topics"):
        read_log(ARM, {"time": TIME}, topic="/left")
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(b"no bag")
    with pytest.raises(ValueError, match=r"damaged.mcap: it cannot be read as a bag of ROS: "):
        read_log(ARM, damaged)
    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    with pytest.raises(ImportError, match=r"artix\[bags\]"):
        read_log(ARM, bag)


def test_what_is_refused(tmp_path: Path) -> None:
    zero = np.zeros((5, 2))
    time = np.arange(5.0)
    for arguments, message in (
        ((time, np.zeros((5, 3))), r"position: expected shape \(5, 2\)"),
        ((np.array([0, 1, 1, 2, 3.0]), zero), "sample 2 is not later"),
        ((np.array([0, 1, np.nan, 2, 3.0]), zero), "time: sample 2 is not finite"),
        (
            (time, np.where(np.arange(10).reshape(5, 2) == 7, np.inf, 0)),
            "position: sample 3 is not finite",
        ),
        ((time[:1], zero[:1]), "at least two samples"),
    ):
        with pytest.raises(ValueError, match=message):
            Log(ARM, *arguments)
    arm = artix.robots.load("arm7")
    with pytest.warns(
        UserWarning, match=r"position: 'shoulder_pitch' is at 40, outside .*in radians and metres"
    ):
        Log(arm, time, np.where(np.arange(35).reshape(5, 7) == 8, 40.0, 0.0))
    with pytest.raises(ValueError, match="fixed base"):
        Log(artix.robots.load("quadruped"), time, np.zeros((5, 12)))
    log = Log(ARM, time, zero)
    with pytest.raises(ValueError, match=r"velocity; call filtered\(cutoff\)"):
        _ = log.states
    with pytest.raises(ValueError, match="half the sampling frequency, 500 Hz"):
        log_of(TIME).filtered(cutoff=600.0)
    with pytest.raises(ValueError, match=r"resampled\(period\)"):
        Log(ARM, np.cumsum(np.linspace(1, 2, 9)), np.zeros((9, 2))).filtered(0.1)
    with pytest.raises(ValueError, match="missing after sample 4"):
        Log(ARM, np.append(np.arange(5.0), 20.0), np.zeros((6, 2))).resampled(0.5)
    with pytest.raises(ValueError, match="period: must be positive"):
        log.resampled(0.0)
    with pytest.raises(ValueError, match=r"no column 'position_.*columns are: time, q"):
        read_log(ARM, {"time": time, "q": time})
    file = write(tmp_path / "bad.csv", ["time", "q0", "q1"], [["0", "1", "oops"], ["1", "2", "3"]])
    with pytest.raises(ValueError, match=r"column 'q1'.*oops"):
        read_log(ARM, file, position="q{index}")
    file = write(tmp_path / "ragged.csv", ["time", "q0", "q1"], [["0", "1", "1"], ["1", "2"]])
    with pytest.raises(ValueError, match="line 3: expected 3 cells"):
        read_log(ARM, file, position="q{index}")


def test_numbers_that_can_hardly_be_right_are_pointed_out(recwarn: pytest.WarningsRecorder) -> None:
    angle = np.stack([np.sin(TIME), np.cos(TIME)], axis=1)
    rate = np.stack([np.cos(TIME), -np.sin(TIME)], axis=1)

    def read(time: np.ndarray = TIME, angle: np.ndarray = angle, rate: np.ndarray = rate) -> Log:
        columns = {
            "time": time,
            "q0": angle[:, 0],
            "q1": angle[:, 1],
            "v0": rate[:, 0],
            "v1": rate[:, 1],
        }
        return read_log(ARM, columns, position="q{index}", velocity="v{index}")

    noise = np.random.default_rng(0).normal(size=rate.shape)
    read(rate=rate + 0.2 * noise)
    assert not recwarn.list
    for changed, message in (
        (
            {"time": 1e3 * TIME, "rate": 1e-3 * rate},
            "time: samples are .* s apart; if it is in milliseconds",
        ),
        (
            {"rate": np.rad2deg(rate)},
            "velocity: its integral misses the position of 'elbow' by 113, .* check units",
        ),
        ({"rate": rate[:, ::-1]}, "velocity: its integral misses"),
        (
            {"angle": angle + 2 * np.pi * (angle < -0.5)},
            "position: 'shoulder' jumps by 6.28 after sample",
        ),
    ):
        with pytest.warns(UserWarning, match=message):
            read(**changed)


def test_a_log_is_not_changed() -> None:
    log = log_of(np.sin(TIME))
    before = dataclasses.replace(log, position=log.position.copy())
    log.filtered(10.0)
    log.resampled(0.01)
    np.testing.assert_array_equal(log.position, before.position)
