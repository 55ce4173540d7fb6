"""What a robot's runtime needs to know beside the policy: a description, and a MuJoCo scene that
runs.
"""

from __future__ import annotations

import math
import tempfile
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

import artix
from artix.contact.materials import COMBINATIONS
from artix.envs import commands, observation_terms
from artix.envs.legs import described_shape, shape_points
from artix.envs.tasks.legged import LeggedVelocity

#: What forces lose with speed, and speeds with force, in a motor's envelope.
_LOSSES = ("velocity_dependent_resistance", "speed_effort_gradient")

#: Version of the description's entries.
FORMAT = "artix policy 1"
#: MuJoCo's longest step in the scene [s].
TIMESTEP = 0.002


def dividing_step(dt: float, longest: float) -> float:
    """The longest step [s] of at most ``longest`` that divides a control period [s].

    Examples:
      >>> from artix.envs.deployment import dividing_step
      >>> dividing_step(0.02, 0.002), dividing_step(0.015, 0.002)
      (0.002, 0.001875)
    """
    return dt / math.ceil(dt / longest - 1e-6)


def describe(environment: Any) -> dict[str, Any]:
    """What the policy of a legged task needs on a robot, for JSON.

    Joints, poses and gains are in the order of the action. The policy's input is the observation:
    its terms in their order, each ``scale`` times the measurement, with ``history`` of them, newest
    first. A term with a ``function`` is one of the user's, whatever its name. The output, clipped
    to [-1, 1], moves the targets of the position controllers:
    ``default_position + action_scale * action``. What a motor's force loses with its speed, the
    ``envelope``, is ``None`` if no motor has one.

    Args:
      environment: the environment, one of those whose robot follows velocity commands.

    Returns:
      Numbers, texts, lists and dictionaries. SI units, radians, quaternions wxyz as in MuJoCo.

    Raises:
      TypeError: it is no such environment.
      ValueError: a joint has several axes.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.deployment import describe
      >>> description = describe(envs.make("quadruped_velocity"))
      >>> description["joints"][8], description["dt"], description["action"]["scale"][8]
      ('front_left_knee', 0.02, 0.5)
      >>> [term["name"] for term in description["observation"]["terms"]][:3]
      ['linear_velocity', 'gyro', 'gravity']
    """
    environment = getattr(environment, "unwrapped", environment)
    if not isinstance(environment, LeggedVelocity):
        raise TypeError(
            f"{environment.name}: only tasks of legged robots that follow velocity commands, such "
            "as quadruped_velocity, have a description for robots"
        )
    robot, topology = environment.robot, environment.articulation.topology
    if any(len(axes) > 1 for axes in topology.joint_axes):
        raise ValueError(f"{topology.name}: position controllers need joints with one axis each")
    drive, size = environment.articulation.drive, environment.action_size
    lower, upper = (
        environment.articulation.joint_lower_limit,
        environment.articulation.joint_upper_limit,
    )
    envelope = environment.articulation.envelope
    has_envelope = np.isfinite(np.asarray(envelope.max_effort))
    terms: list[dict[str, Any]] = [
        {
            "name": one.name,
            "start": one.start,
            "size": one.size,
            "scale": one.scale,
            "history": one.history,
        }
        for one in environment.layout
    ]
    for term in terms:
        function = environment.observations[term["name"]].function
        if function is not observation_terms.TERMS.get(term["name"], (None,))[0]:
            term["function"] = getattr(function, "__qualname__", repr(function))
    drawn = environment.velocity_commands
    largest = list(drawn.largest) if isinstance(drawn, commands.VelocityCommands) else None
    return {
        "format": FORMAT,
        "task": environment.name,
        "robot": topology.name,
        "joints": list(topology.dof_names),
        "default_position": _numbers(robot.default_position),
        "stiffness": _numbers(drive.stiffness),
        "damping": _numbers(drive.damping),
        "armature": _numbers(environment.articulation.armature),
        "limits": {
            "lower": _numbers(lower),
            "upper": _numbers(upper),
            "force": _numbers(np.where(has_envelope, envelope.max_effort, drive.max_force)),
        },
        "envelope": {
            name: _numbers(getattr(envelope, name))
            for name in ("max_effort", "max_actuator_velocity", *_LOSSES)
        }
        if has_envelope.any()
        else None,
        "action": {
            "scale": _numbers(np.broadcast_to(np.asarray(environment.action_scale, float), size)),
            "clip": 1.0,
            "delay": None if environment.action_delay is None else list(environment.action_delay),
        },
        "dt": environment.dt,
        "physics_dt": environment.physics_dt,
        "observation": {
            "size": sum(term["size"] * term["history"] for term in terms),
            "terms": terms,
            "gait_frequency": environment.gait_frequency,
        },
        "command": {
            "names": ["forward [m/s]", "left [m/s]", "yaw rate [rad/s]"],
            "largest": largest,
        },
        "height": float(f"{robot.height:.7g}"),
        "mass": float(f"{np.sum(np.asarray(environment.articulation.link_mass, float)):.7g}"),
        "root": topology.link_names[0],
        "imu": robot.imu,
        "feet": list(robot.feet),
        "friction": _friction(environment),
    }


def scene(environment: Any) -> str:
    """A MuJoCo scene that runs, as MJCF: robot, floor, sensors, and position controllers in the
    order of the action.

    The actuators take the targets of the drives,
    ``ctrl = default_position + action_scale * action``, within what the actions reach. The keyframe
    ``default`` is the default pose on the floor. The sensors are those of the IMU (``imu_quat``,
    ``imu_gyro``, ``imu_velocity`` and ``imu_accelerometer``), and the place and velocity of each
    foot (``FOOT_position`` and ``FOOT_velocity``). The floor is level, also where the task has a
    terrain. Of the envelopes of motors, MuJoCo has the largest forces alone.

    Args:
      environment: as for :func:`describe`.

    Raises:
      TypeError, ValueError: as :func:`describe`.
      DescriptionError: MJCF cannot describe the robot.

    Examples:
      >>> import mujoco
      >>> from artix import envs
      >>> from artix.envs.deployment import scene
      >>> model = mujoco.MjModel.from_xml_string(scene(envs.make("quadruped_velocity")))
      >>> model.nu, model.actuator(0).name, model.key("default").name
      (12, 'front_left_hip_roll', 'default')
    """
    description = describe(environment)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", artix.DescriptionWarning)
        path = Path(folder) / "robot.xml"
        artix.save(environment.articulation, path)
        root = ET.parse(path).getroot()
    world, option = root.find("worldbody"), root.find("option")
    assert world is not None
    assert option is not None
    option.attrib |= {
        "timestep": str(dividing_step(environment.dt, TIMESTEP)),
        "integrator": "implicitfast",
        "cone": "elliptic",
        "impratio": "10",
    }
    _add_floor(root, world, description["friction"])
    _add_soles(world, environment)
    _add_sensors(root, world, description)
    _replace_actuators(root, description)
    _add_keyframe(root, world, description)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _add_floor(root: ET.Element, world: ET.Element, friction: float) -> None:
    asset = root.find("asset")
    asset = ET.SubElement(root, "asset") if asset is None else asset
    grid = {"rgb1": ".92 .93 .94", "rgb2": ".82 .84 .86", "width": "300", "height": "300"}
    ET.SubElement(asset, "texture", grid | {"name": "grid", "type": "2d", "builtin": "checker"})
    ET.SubElement(
        asset, "material", name="grid", texture="grid", texrepeat="1 1", texuniform="true"
    )
    ET.SubElement(world, "light", pos="0 0 4", dir="0 0 -1", directional="true")
    # With priority, its friction and softness count, whatever the robot's are.
    floor = {
        "name": "floor",
        "type": "plane",
        "size": "0 0 .05",
        "material": "grid",
        "priority": "1",
    }
    touches = {"contype": "0", "conaffinity": "1", "condim": "3"}
    ET.SubElement(world, "geom", floor | touches | {"friction": f"{friction:g} 0.005 0.0001"})


def _add_soles(world: ET.Element, environment: LeggedVelocity) -> None:
    """Balls at the corners of feet that MJCF does not have as shapes, such as a flat sole."""
    articulation = environment.articulation
    topology: Any = articulation.topology
    written = {each.get("name") for each in world.iter("geom")}
    for foot in environment.robot.feet:
        if foot in written:
            continue
        k = topology.geometry_index(foot)
        points, radius = shape_points(described_shape(articulation, k))
        link = topology.link_names[topology.geometries[k].link]
        body = next(each for each in world.iter("body") if each.get("name") == link)
        for number, point in enumerate(points):
            place = " ".join(_text(x) for x in point)
            ball = {
                "name": f"{foot}_{number}",
                "type": "sphere",
                "size": _text(max(radius, 1e-3)),
                "pos": place,
            }
            ET.SubElement(body, "geom", ball | {"mass": "0", "contype": "1", "conaffinity": "0"})


def _add_sensors(root: ET.Element, world: ET.Element, description: dict[str, Any]) -> None:
    imu, kind = _place_of(world, description["imu"])
    if kind == "xbody":  # A link: the gyro needs a site on it.
        body = next(each for each in world.iter("body") if each.get("name") == imu)
        imu = f"{imu}_site"
        ET.SubElement(body, "site", name=imu)
    section = root.find("sensor")
    section = ET.SubElement(root, "sensor") if section is None else section
    ET.SubElement(section, "framequat", name="imu_quat", objtype="site", objname=imu)
    for name, tag in (
        ("gyro", "gyro"),
        ("velocity", "velocimeter"),
        ("accelerometer", "accelerometer"),
    ):
        ET.SubElement(section, tag, name=f"imu_{name}", site=imu)
    for foot in description["feet"]:
        where, kind = _place_of(world, foot)
        for name, tag in (("position", "framepos"), ("velocity", "framelinvel")):
            ET.SubElement(section, tag, name=f"{foot}_{name}", objtype=kind, objname=where)


def _place_of(world: ET.Element, name: str) -> tuple[str, str]:
    """The frame of a name in the scene, and its kind: a site or a body."""
    for tag, kind in (("site", "site"), ("body", "xbody")):
        if any(each.get("name") == name for each in world.iter(tag)):
            return name, kind
    raise ValueError(f"the scene has no body or site called {name!r}")


def _replace_actuators(root: ET.Element, description: dict[str, Any]) -> None:
    if (old := root.find("actuator")) is not None:
        root.remove(old)
    section = ET.SubElement(root, "actuator")
    scale, limits = description["action"]["scale"], description["limits"]
    for k, joint in enumerate(description["joints"]):
        middle, reach = (
            description["default_position"][k],
            abs(scale[k]) * description["action"]["clip"],
        )
        servo = {
            "name": joint,
            "joint": joint,
            "kp": _text(description["stiffness"][k]),
            "kv": _text(description["damping"][k]),
            "ctrllimited": "true",
            "ctrlrange": f"{_text(middle - reach)} {_text(middle + reach)}",
        }
        if limits["force"][k] is not None:
            force = _text(limits["force"][k])
            servo |= {"forcelimited": "true", "forcerange": f"-{force} {force}"}
        ET.SubElement(section, "position", servo)


def _add_keyframe(root: ET.Element, world: ET.Element, description: dict[str, Any]) -> None:
    """The default pose, in the order of MuJoCo's joints, which is that of the file."""
    position = dict(zip(description["joints"], description["default_position"], strict=True))
    order = [each.get("name", "") for each in world.iter("joint")]
    angles = " ".join(_text(position[name]) for name in order)
    targets = " ".join(map(_text, description["default_position"]))
    pose = f"0 0 {_text(description['height'])} 1 0 0 0 {angles}"
    ET.SubElement(ET.SubElement(root, "keyframe"), "key", name="default", qpos=pose, ctrl=targets)


def _friction(environment: LeggedVelocity) -> float:
    """The coefficient of friction between the first foot and the ground."""
    assert environment.ground is not None
    foot = environment.articulation.topology.geometry_index(environment.robot.feet[0])
    mine = environment.articulation.geometry.friction[foot]
    combination = COMBINATIONS[environment.ground.friction_combination]
    return float(f"{float(combination(mine, environment.ground.surfaces[0].friction)):.4g}")


def _numbers(values: Any) -> list[float | None]:
    """Numbers with as many digits as their dtype has; ``None`` for those that are infinite."""
    array = np.asarray(values)
    return [float(str(x)) if np.isfinite(x) else None for x in array]


def _text(number: float) -> str:
    return f"{number:.9g}"
