"""Drives an exported policy in MuJoCo, as a robot's runtime would: without artix and without JAX.

``artix export POLICY`` writes this file beside ``policy.onnx``, ``policy.json`` and ``scene.xml``.
It needs ``pip install mujoco onnxruntime``. In that folder::

    python deploy_mujoco.py --command 0.5 0 0 --seconds 10
    python -m mujoco.viewer --mjcf scene.xml    # to look at the scene

On a robot, :class:`Controller` stays as it is; what MuJoCo's sensors say comes from the robot's.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Controller:
    """From measurements to targets of the joints, one control step after another.

    Args:
      description: what ``policy.json`` says.
      policy: maps an observation [size] (float32) to an action [n].
    """

    def __init__(
        self, description: Mapping[str, Any], policy: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        terms = {
            *("linear_velocity", "gyro", "gravity", "joint_position"),
            *("joint_velocity", "last_action", "command", "clock"),
        }
        unknown = [
            each["name"]
            for each in description["observation"]["terms"]
            if each["name"] not in terms or "function" in each
        ]
        if unknown:
            raise ValueError(
                f"the policy sees {', '.join(unknown)}, which deploy_mujoco.py does not measure"
            )
        self.description, self.policy = description, policy
        self.default = np.array(description["default_position"])
        self.scale = np.array(description["action"]["scale"])
        self.last_action = np.zeros(len(self.default))
        self.time = 0.0
        self.past: dict[str, np.ndarray] = {}

    def observation(self, measured: Mapping[str, np.ndarray], command: np.ndarray) -> np.ndarray:
        """What the policy sees [size]; with ``history``, the newest first."""
        phase = 2 * math.pi * (self.description["observation"]["gait_frequency"] or 0.0) * self.time
        values = {
            "linear_velocity": measured["linear_velocity"],
            "gyro": measured["gyro"],
            "gravity": rotated_back(measured["quaternion"], np.array([0.0, 0.0, -1.0])),
            "joint_position": measured["joint_position"] - self.default,
            "joint_velocity": measured["joint_velocity"],
            "last_action": self.last_action,
            "command": command,
            "clock": np.array([math.cos(phase), math.sin(phase)]),
        }
        parts = []
        for term in self.description["observation"]["terms"]:
            value, name = term["scale"] * values[term["name"]], term["name"]
            past = self.past.get(name, np.tile(value, (term["history"], 1)))
            self.past[name] = (
                np.concatenate([value[None], past[:-1]]) if name in self.past else past
            )
            parts.append(self.past[name].ravel())
        return np.concatenate(parts).astype(np.float32)

    def targets(self, measured: Mapping[str, np.ndarray], command: np.ndarray) -> np.ndarray:
        """The targets of the joints for the next control step [rad], [n]."""
        clip = self.description["action"]["clip"]
        self.last_action = np.clip(self.policy(self.observation(measured, command)), -clip, clip)
        self.time += self.description["dt"]
        return self.default + self.scale * self.last_action


def rotated_back(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector of the world in the axes of a frame, whose orientation is the quaternion wxyz."""
    w, axis = quaternion[0], -quaternion[1:]
    twice = 2 * np.cross(axis, vector)
    return vector + w * twice + np.cross(axis, twice)


def onnx_policy(path: str | Path) -> Callable[[np.ndarray], np.ndarray]:
    """The policy of an ONNX file."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda obs: session.run(None, {"obs": obs[None]})[0][0]


def load_scene(path: str | Path, timestep: float | None = None, stiff: bool = False) -> Any:
    """The MuJoCo model of the scene.

    Args:
      path: the file.
      timestep: the physics step [s]; that of the scene if ``None``.
      stiff: whether contacts are as stiff as the step allows, rather than MuJoCo's default ones.
    """
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(path))
    if timestep is not None:
        model.opt.timestep = timestep
    if stiff:
        model.geom("floor").solref[:] = [2.0 * model.opt.timestep, 1.0]
        model.geom("floor").solimp[:2] = [0.99, 0.999]
    return model


def body_of(model: Any, foot: str) -> int:
    """The body of a foot: its own, or that of the site of its name."""
    import mujoco

    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, foot)
    return body if body >= 0 else int(model.site(foot).bodyid[0])


def run(
    model: Any,
    description: Mapping[str, Any],
    policy: Callable[[np.ndarray], np.ndarray],
    command: Callable[[float], Any],
    seconds: float,
) -> dict[str, np.ndarray]:
    """Drives the robot from its default pose.

    Args:
      model: the scene.
      description: what ``policy.json`` says.
      policy: maps an observation to an action.
      command: the command [3] at a time.
      seconds: how long.

    Returns:
      What happened, after each control step: ``time``, ``root_pose`` (position, quaternion wxyz),
      ``velocity`` and ``angular_velocity`` of the IMU in its axes, ``joint_position``,
      ``joint_velocity``, ``joint_force``, ``joint_work`` in the step, ``command``, and of the feet
      ``contact``, ``feet_position`` and ``feet_velocity``; arrays with a leading axis of control
      steps.
    """
    import mujoco

    data, dt = mujoco.MjData(model), description["dt"]
    mujoco.mj_resetDataKeyframe(model, data, model.key("default").id)
    mujoco.mj_forward(model, data)
    joints = [model.joint(name) for name in description["joints"]]
    positions, velocities = (np.array([int(x[0]) for x in each]) for each in (
        [joint.qposadr for joint in joints], [joint.dofadr for joint in joints]))  # fmt: skip
    feet, floor = description["feet"], model.geom("floor").id
    bodies = [body_of(model, foot) for foot in feet]
    controller = Controller(description, policy)
    substeps = round(dt / model.opt.timestep)
    if substeps < 1 or abs(substeps * model.opt.timestep - dt) > 1e-9:
        raise ValueError(
            f"the control period {dt} s is no multiple of the scene's timestep "
            f"{model.opt.timestep} s"
        )
    rows = []
    for step in range(round(seconds / dt)):
        wanted = np.asarray(command(step * dt), float)
        measured = {
            "linear_velocity": data.sensor("imu_velocity").data.copy(),
            "gyro": data.sensor("imu_gyro").data.copy(),
            "quaternion": data.sensor("imu_quat").data.copy(),
            "joint_position": data.qpos[positions].copy(),
            "joint_velocity": data.qvel[velocities].copy(),
        }
        data.ctrl[:] = controller.targets(measured, wanted)
        work = np.zeros(len(joints))
        for _ in range(substeps):
            mujoco.mj_step(model, data)
            work += data.actuator_force * data.qvel[velocities] * model.opt.timestep
        mujoco.mj_forward(model, data)  # so that the sensors are those of the end of the step
        touching = {
            int(model.geom_bodyid[g])
            for c in data.contact
            for g in c.geom
            if floor in c.geom and c.dist < 0
        }
        rows.append({
            "time": (step + 1) * dt,
            "root_pose": data.qpos[:7].copy(),
            "velocity": data.sensor("imu_velocity").data.copy(),
            "angular_velocity": data.sensor("imu_gyro").data.copy(),
            "joint_position": data.qpos[positions].copy(),
            "joint_velocity": data.qvel[velocities].copy(),
            "joint_force": data.actuator_force.copy(),
            "joint_work": work,
            "command": wanted,
            "contact": np.array([body in touching for body in bodies]),
            "feet_position": np.stack([data.sensor(f"{foot}_position").data for foot in feet]),
            "feet_velocity": np.stack([data.sensor(f"{foot}_velocity").data for foot in feet]),
        })  # fmt: skip
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def main() -> None:
    """Runs the policy and says where the robot went."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Drives an exported policy in MuJoCo.")
    parser.add_argument(
        "--folder",
        type=Path,
        default=here,
        help="folder with policy.onnx, policy.json and scene.xml",
    )
    parser.add_argument(
        "--command", type=float, nargs=3, default=[0.5, 0, 0], metavar=("VX", "VY", "YAW")
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    description = json.loads((options.folder / "policy.json").read_text())
    model, policy = (
        load_scene(options.folder / "scene.xml"),
        onnx_policy(options.folder / "policy.onnx"),
    )
    record = run(model, description, policy, lambda _: options.command, options.seconds)
    x, y, z = record["root_pose"][-1, :3]
    speed = np.mean(record["velocity"][len(record["velocity"]) // 2 :], axis=0)
    lowest = record["root_pose"][:, 2].min() / description["height"]
    print(f"after {options.seconds:g} s at x {x:.3f} m, y {y:.3f} m, height {z:.3f} m")
    print(
        f"mean velocity of the second half {speed[0]:.3f} m/s forward, {speed[1]:.3f} m/s to the "
        "left"
    )
    print("it fell" if lowest < 0.5 else "it did not fall")


if __name__ == "__main__":
    main()
