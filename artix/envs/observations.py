"""Sensor models: IMU, joints, frames, feet, and the height of the terrain around the robot.

Each is a pure function of one robot. Those called in a task's ``observe`` or ``outcome`` become
part of one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix

Array = jax.Array


def rotation(articulation: artix.Articulation, state: artix.State, frame: str) -> Array:
    """The rotation matrix [3, 3] of a frame, whose columns are the frame's axes in world axes.

    Args:
      articulation: the robot.
      state: its configuration.
      frame: name of a link or of an additional frame.
    """
    return rotation_of(artix.frame_pose(articulation, state, frame)[3:])


def rotation_of(quaternion: Array) -> Array:
    """The rotation matrix [3, 3] of a unit quaternion xyzw [4]."""
    x, y, z, w = quaternion
    return jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def up_vector(articulation: artix.Articulation, state: artix.State, frame: str) -> Array:
    """The z axis of a frame in world axes, [3]: (0, 0, 1) upright. MuJoCo's sensor
    ``framezaxis``.
    """
    return rotation(articulation, state, frame)[:, 2]


def projected_gravity(articulation: artix.Articulation, state: artix.State, frame: str) -> Array:
    """The world's downward direction in the axes of a frame, [3]: (0, 0, -1) upright.

    Examples:
      >>> from artix.envs import observations
      >>> robot = artix.robots.load("quadruped")
      >>> observations.projected_gravity(robot, artix.neutral_state(robot), "imu").tolist()
      [-0.0, -0.0, -1.0]
    """
    return -rotation(articulation, state, frame)[2]


def linear_velocity(articulation: artix.Articulation, state: artix.State, frame: str) -> Array:
    """Velocity of a frame's origin in its own axes [m/s], [3]: MuJoCo's ``velocimeter``."""
    return artix.frame_velocity(articulation, state, frame, axes="local")[:3]


def angular_velocity(articulation: artix.Articulation, state: artix.State, frame: str) -> Array:
    """Angular velocity of a frame in its own axes [rad/s], [3]: MuJoCo's ``gyro``."""
    return artix.frame_velocity(articulation, state, frame, axes="local")[3:]


def accelerometer(
    articulation: artix.Articulation, before: artix.State, state: artix.State, dt: float, frame: str
) -> Array:
    """An accelerometer reading [m/s^2], [3]: mean acceleration minus gravity, in the frame's axes
    at the end.

    Args:
      articulation: the robot.
      before: its state ``dt`` earlier.
      state: its state now.
      dt: the time in between [s].
      frame: name of the sensor's frame.

    Returns:
      (0, 0, 9.81) at rest and upright.
    """
    current, earlier = (
        artix.frame_velocity(articulation, each, frame, axes="world_aligned")
        for each in (state, before)
    )
    acceleration = (current - earlier)[:3] / dt - articulation.gravity
    return rotation(articulation, state, frame).T @ acceleration


def frame_positions(
    articulation: artix.Articulation, state: artix.State, frames: Sequence[str]
) -> Array:
    """Origins of several frames in world axes [m], [K, 3]."""
    return jnp.stack([artix.frame_pose(articulation, state, frame)[:3] for frame in frames])


def frame_velocities(
    articulation: artix.Articulation, state: artix.State, frames: Sequence[str]
) -> Array:
    """Velocities of the origins of several frames in world axes [m/s], [K, 3]."""
    velocities = [
        artix.frame_velocity(articulation, state, frame, axes="world_aligned") for frame in frames
    ]
    return jnp.stack(velocities)[:, :3]


def drive_forces(articulation: artix.Articulation, state: artix.State, target: Array) -> Array:
    """Forces with which the drives act towards position targets [N m or N], [n], within their
    limits, or within the envelopes of motors that have one, ``articulation.envelope``.

    Of an envelope, the force that keeps a speed at ``max_actuator_velocity`` is only known with a
    ``speed_effort_gradient``; without, it can be less.

    Args:
      articulation: the robot, whose drives are of the force type.
      state: its state. With ``solver="implicit"`` the state after a step gives the forces that
        acted in it.
      target: position targets of the drives, [n].
    """
    drive = articulation.drive
    force = drive.stiffness * (target - state.joint_position) - drive.damping * state.joint_velocity
    most = drive.max_force
    if "envelope.max_effort" not in articulation.absent:
        most = _most_force(articulation.envelope, state.joint_velocity, most)
    return jnp.clip(force, -most, most)


def _most_force(envelope: Any, velocity: Array, limit: Array) -> Array:
    """The largest forces at these velocities; the limits of drives without an envelope."""
    speed = jnp.abs(velocity)
    has_one = jnp.isfinite(envelope.max_effort)
    most = (
        jnp.where(has_one, envelope.max_effort, 0) - envelope.velocity_dependent_resistance * speed
    )
    fastest, gradient = envelope.max_actuator_velocity, envelope.speed_effort_gradient
    is_sloped = (gradient > 0) & jnp.isfinite(fastest)
    sloped = (jnp.where(is_sloped, fastest, 0) - speed) / jnp.where(is_sloped, gradient, 1)
    most = jnp.maximum(jnp.where(is_sloped, jnp.minimum(most, sloped), most), 0)
    return jnp.where(has_one, most, limit)


def geometry_numbers(articulation: artix.Articulation, names: Sequence[str]) -> np.ndarray:
    """The indices of shapes, by name.

    Raises:
      KeyError: there is no shape with this name; the message lists the valid names.
    """
    topology: Any = articulation.topology
    return np.array([topology.geometry_index(name) for name in names])


def contacts_of_shapes(
    articulation: artix.Articulation, ground: artix.Ground, names: Sequence[str]
) -> list[np.ndarray]:
    """The rows of the contact impulses [K, 3] that belong to each shape, with any surface of the
    ground.

    Contacts are in the order of the robot's own shapes, which need not be that of the names, and
    those with the ground come first.

    Raises:
      KeyError: there is no shape of a name; the message lists the valid names.

    Examples:
      >>> from artix.envs import observations
      >>> robot, ground = artix.robots.load("quadruped"), artix.Ground.flat()
      >>> feet = ("rear_left_foot", "front_left_foot")
      >>> [rows.tolist() for rows in observations.contacts_of_shapes(robot, ground, feet)]
      [[2], [0]]
    """
    scene = artix.Scene(articulation, ground=ground)
    start = artix.neutral_state(articulation)
    owners = jax.eval_shape(lambda: artix.ground_contacts(scene, start)).geometries
    shapes = geometry_numbers(articulation, names)
    return [np.flatnonzero(np.asarray(owners) == shape) for shape in shapes]


def in_contact(impulse: Array) -> Array:
    """Whether contacts carry load, [K] (bool), from their impulses [K, 3], normal component
    last.
    """
    return impulse[:, 2] > 0


def height_scan(ground: artix.Ground, state: artix.State, points: Array) -> Array:
    """Heights of the root above the terrain at points around it [m], [P].

    Args:
      ground: planes and height fields; where they overlap, the highest counts.
      state: where the robot is.
      points: x and y of the points, in axes that turn only with the root's heading [m], [P, 2].

    Returns:
      The root's height minus the terrain's at each point.

    Examples:
      >>> from artix.envs import observations
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> state = state.replace(root_pose=state.root_pose.at[2].set(0.25))
      >>> observations.height_scan(artix.Ground.flat(), state, jnp.zeros((1, 2))).tolist()
      [0.25]
    """
    x, y, z, w = state.root_pose[3:]
    forward = jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z)])
    cos, sin = forward * jax.lax.rsqrt(jnp.maximum(forward @ forward, 1e-12))
    turned = points @ jnp.array([[cos, sin], [-sin, cos]])
    above = jnp.concatenate([turned, jnp.zeros_like(turned[:, :1])], axis=1).T
    heights = [surface.heights_below(state.root_pose[:3], above) for surface in ground.surfaces]
    return jnp.min(jnp.stack(heights), axis=0)
