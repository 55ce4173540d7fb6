"""What the controls of a MuJoCo model command: joint forces, targets of drives and wrenches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.io.common.description import ReadOptions
from artix.io.common.diagnostics import Report
from artix.io.common.poses import IDENTITY, compose, rotation_matrix
from artix.io.mjcf.actuators import (
    acts_on_joint,
    acts_on_tendon,
    is_motor,
    is_off,
    joint_options,
    joint_transmission,
    read_actuators,
)
from artix.io.mjcf.source import BALL, MjcfSource, import_mujoco, pose_from_wxyz
from artix.kinematics.frames import forward_kinematics
from artix.math import spatial
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology
from artix.simulation.common.control import Control

if TYPE_CHECKING:
    import mujoco

Array = jax.Array


class Motors(NamedTuple):
    """The actuators whose effort depends on their control alone: with controls u within ``bounds``,
    it is ``clip(gain u + bias, *limits)``. Zero for other actuators.
    """

    gain: np.ndarray
    """[A]"""
    bias: np.ndarray
    """[A]"""
    limits: np.ndarray
    """Lowest and highest efforts, [2, A]."""
    force: np.ndarray
    """Joint forces of an effort of 1 of each, [n, A]."""
    wrench: np.ndarray
    """Wrench at a point of a link of an effort of 1 of each motor on a site, in the link's axes,
    force then torque, [sites, 6]."""
    point: np.ndarray
    """These points in the links' frames [m], [sites, 3]."""
    site_actuator: np.ndarray
    """Which motor acts on each of these sites, [sites]."""
    site_link: np.ndarray
    """The links of the sites, [sites]."""


class Servos(NamedTuple):
    """The actuators that are drives: targets are ``target @ [u, 1]``."""

    target: np.ndarray
    """[n, A + 1]"""
    target_velocity: np.ndarray
    """[n, A + 1]"""
    has_target: np.ndarray
    """Which DOFs have a servo with stiffness, [n]."""
    has_target_velocity: np.ndarray
    """Which DOFs have a servo of velocity, [n]."""


class Commands(NamedTuple):
    """What the controls of a model command in one articulation."""

    address: np.ndarray
    """The first control of each of A actuators, [A]; the others have no counterpart."""
    bounds: np.ndarray
    """Lowest and highest values of these controls, [2, A]."""
    motors: Motors
    servos: Servos
    unread: tuple[str, ...]
    """Actuators of this articulation whose controls have no counterpart."""


def read_commands(model: mujoco.MjModel, topology: Topology) -> Commands:
    """What the controls of a model command in the articulation that was read from it."""
    source = MjcfSource(model, {}, Report("the model"), ReadOptions())
    joints = {
        number: topology.dofs(name)
        for number, name in enumerate(source.names.joints)
        if name in topology.joint_names
        and topology.joint_axes[topology.joint_names.index(name) + 1]
    }
    motors, read = _motors(source, joints, topology)
    servos, drives = _servos(source, joints, topology.num_dofs)
    unread = tuple(
        source.name("actuator", actuator) or f"number {actuator}"
        for actuator in range(len(source.controls))
        if actuator not in read | drives
        and not is_off(source, actuator)
        and _is_of(source, actuator, joints, topology)
    )
    limited = np.asarray(model.actuator_ctrllimited, bool) & (not source.disables("CLAMPCTRL"))
    bounds = _bounds(model.actuator_ctrlrange, limited)[:, source.controls]
    return Commands(source.controls, bounds, motors, servos, unread)


def _bounds(ranges: np.ndarray, limited: np.ndarray) -> np.ndarray:
    """Lowest and highest values [2, nu], infinite where there is no limit."""
    return np.where(limited, np.transpose(ranges), np.array([[-np.inf], [np.inf]]))


def _motors(
    source: MjcfSource, joints: Mapping[int, slice], topology: Topology
) -> tuple[Motors, set[int]]:
    """The motors, and which actuators they are."""
    model = source.model
    count = len(source.controls)
    force = np.zeros((topology.num_dofs, count))
    sites: list[tuple[np.ndarray, np.ndarray, int, int]] = []
    read = set[int]()
    for actuator in range(count):
        if is_off(source, actuator) or not is_motor(source, actuator):
            continue
        gear = np.asarray(model.actuator_gear[actuator])
        effects = _joint_effects(source, actuator, gear, joints)
        for dof, effect in effects:
            force[dof, actuator] += effect
        place = _site_place(source, actuator, topology)
        if place is not None:
            link, pose = place
            axes = rotation_matrix(pose[3:])
            sites.append((np.r_[axes @ gear[:3], axes @ gear[3:]], pose[:3], actuator, link))
        if effects or place is not None:
            read.add(actuator)
    is_read = np.isin(np.arange(count), list(read))
    affine = np.asarray(model.actuator_biastype) != 0
    wrenches, points, actuators, links = zip(*sites, strict=True) if sites else ((), (), (), ())
    motors = Motors(
        gain=np.where(is_read, model.actuator_gainprm[:, 0], 0.0),
        bias=np.where(is_read & affine, model.actuator_biasprm[:, 0], 0.0),
        limits=_bounds(model.actuator_forcerange, np.asarray(model.actuator_forcelimited, bool)),
        force=force,
        wrench=np.array(wrenches, float).reshape(-1, 6),
        point=np.array(points, float).reshape(-1, 3),
        site_actuator=np.array(actuators, int),
        site_link=np.array(links, int),
    )
    return motors, read


def _joint_effects(
    source: MjcfSource, actuator: int, gear: np.ndarray, joints: Mapping[int, slice]
) -> list[tuple[slice | int, np.ndarray | float]]:
    """The joint forces of a motor for an effort of 1: DOFs, and forces there. Empty if it does not
    act on joints of the articulation alone, or not along coordinates.
    """
    model = source.model
    target = int(model.actuator_trnid[actuator, 0])
    if acts_on_joint(source, actuator):
        if target not in joints:
            return []
        if model.jnt_type[target] != BALL:
            return [(joints[target], gear[0])]
        in_parent = import_mujoco().mjtTrn.mjTRN_JOINTINPARENT
        is_along = model.actuator_trntype[actuator] != in_parent
        return [(joints[target], gear[:3])] if is_along else []
    path = source.tendon_path(target) if acts_on_tendon(source, actuator) else []
    if any(kind != "joint" or joint not in joints for kind, joint, _ in path):
        return []
    return [(joints[joint], gear[0] * factor) for _, joint, factor in path]


def _site_place(
    source: MjcfSource, actuator: int, topology: Topology
) -> tuple[int, np.ndarray] | None:
    """The link on which a motor on a site acts, and the site's pose in its frame; ``None`` if it
    does not act on a site, acts relative to another one, or acts on another articulation.
    """
    model = source.model
    site, reference = map(int, model.actuator_trnid[actuator])
    is_site = int(model.actuator_trntype[actuator]) == int(import_mujoco().mjtTrn.mjTRN_SITE)
    if not is_site or reference >= 0:
        return None
    body = int(model.site_bodyid[site])
    pose = pose_from_wxyz(model.site_pos[site], model.site_quat[site])
    return _link_of(source, body, topology, pose)


def _link_of(
    source: MjcfSource, body: int, topology: Topology, pose: np.ndarray = IDENTITY
) -> tuple[int, np.ndarray] | None:
    """The link of which a body is a part, and a pose of the body's frame in the link's; ``None`` if
    it belongs to another articulation.
    """
    model = source.model
    while source.names.bodies[body] not in topology.link_names:
        if body == 0 or model.body_jntnum[body]:
            return None
        pose = compose(pose_from_wxyz(model.body_pos[body], model.body_quat[body]), pose)
        body = int(model.body_parentid[body])
    return topology.link_names.index(source.names.bodies[body]), pose


def _servos(
    source: MjcfSource, joints: Mapping[int, slice], num_dofs: int
) -> tuple[Servos, set[int]]:
    """The servos, and which actuators they are."""
    model = source.model
    target, target_velocity = np.zeros((2, num_dofs, len(source.controls) + 1))
    options = joint_options(source, joints)
    read = set[int]()
    for joint, actuation in read_actuators(source, joints).items():
        if not actuation.servos:
            continue
        drive, dofs = options[joint]["drive"], joints[joint]
        target[dofs, -1], target_velocity[dofs, -1] = drive.target, drive.target_velocity
        for actuator, law in actuation.servos.items():
            transmission = joint_transmission(source, actuator)
            assert transmission is not None  # Only those with one are read.
            effort = transmission.gear * float(model.actuator_gainprm[actuator, 0])
            if law.stiffness:
                target[dofs, actuator] = effort / drive.stiffness
            else:
                target_velocity[dofs, actuator] = effort / drive.damping
            read.add(actuator)
    of_servos = [np.asarray(each[:, :-1].any(axis=1)) for each in (target, target_velocity)]
    return Servos(target, target_velocity, *of_servos), read


def _is_of(
    source: MjcfSource, actuator: int, joints: Mapping[int, slice], topology: Topology
) -> bool:
    """Whether an actuator that is not read acts on this articulation, as far as its transmission
    says.
    """
    model = source.model
    target = int(model.actuator_trnid[actuator, 0])
    if acts_on_joint(source, actuator):
        body = int(model.jnt_bodyid[target])
        return target in joints or _link_of(source, body, topology) is not None
    path = source.tendon_path(target) if acts_on_tendon(source, actuator) else []
    bodies = [int(model.site_bodyid[number]) for kind, number, _ in path if kind == "site"]
    kinds = import_mujoco().mjtTrn
    kind = int(model.actuator_trntype[actuator])
    if kind in (int(kinds.mjTRN_SITE), int(kinds.mjTRN_SLIDERCRANK)):
        bodies.append(int(model.site_bodyid[target]))
    elif kind == int(kinds.mjTRN_BODY):
        bodies.append(target)
    return any(kind == "joint" and number in joints for kind, number, _ in path) or any(
        _link_of(source, body, topology) is not None for body in bodies
    )


def control_of(
    commands: Commands, articulation: Articulation, ctrl: Array, state: State | None
) -> Control:
    """The control of an articulation for the controls of its model, shape [nu].

    Args:
      commands: of the model.
      articulation: the articulation.
      ctrl: the controls, in its dtype.
      state: its state, which wrenches of motors on sites depend on; needed if there are any.
    """
    if len(commands.address) != len(ctrl):
        ctrl = ctrl[commands.address]
    u = jnp.clip(ctrl, *_cast(commands.bounds, ctrl))
    servos, motors = commands.servos, commands.motors
    force, wrench = None, None
    effort = jnp.clip(_cast(motors.gain, u) * u + _cast(motors.bias, u), *_cast(motors.limits, u))
    if motors.force.any():
        force = _cast(motors.force, u) @ effort
    if len(motors.site_link):
        assert state is not None
        wrench = _site_wrenches(motors, articulation, state, effort)
    drive, numbers = articulation.drive, jnp.append(u, 1.0)
    position, velocity = (
        jnp.where(is_servo, _cast(matrix, u) @ numbers, default) if is_servo.any() else None
        for matrix, is_servo, default in (
            (servos.target, servos.has_target, drive.target_position),
            (servos.target_velocity, servos.has_target_velocity, drive.target_velocity),
        )
    )
    return Control(
        joint_force=force,
        drive_target=position,
        drive_target_velocity=velocity,
        external_force=wrench,
    )


def _cast(numbers: np.ndarray, like: Array) -> Array:
    return jnp.asarray(numbers, like.dtype)


def _site_wrenches(
    motors: Motors, articulation: Articulation, state: State, effort: Array
) -> Array:
    """The wrenches of the motors on sites on each link at its centre of mass, in world axes,
    shape [L, 6].
    """
    links = motors.site_link
    pull = (_cast(motors.wrench, effort) * effort[motors.site_actuator, None]).T
    arm = (_cast(motors.point, effort) - articulation.link_com_pose[links, :3]).T
    quaternion = forward_kinematics(articulation, state).pose[links, 3:].T
    force = spatial.rotate(quaternion, pull[:3])
    torque = spatial.rotate(quaternion, pull[3:] + spatial.cross(arm, pull[:3]))
    wrenches = jnp.zeros((articulation.topology.num_links, 6), effort.dtype)
    return wrenches.at[links].add(jnp.concatenate([force, torque]).T)
