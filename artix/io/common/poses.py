"""Poses and inertias in NumPy, for the readers: position [m] and quaternion xyzw, shape [7].

Readers compute in double precision whatever JAX's x64 mode is, so they cannot use
:mod:`artix.math.spatial`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from artix.model.articulation import Articulation
from artix.model.joints import IDENTITY_POSE, Axis

IDENTITY = np.array(IDENTITY_POSE)


def quaternion_from_rpy(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Quaternion xyzw of URDF's roll, pitch and yaw [rad]: rotations about the fixed x, then y,
    then z axis.
    """
    turns = [np.array([0.0, 0.0, 0.0, np.cos(0.5 * angle)]) for angle in (roll, pitch, yaw)]
    for axis, angle in enumerate((roll, pitch, yaw)):
        turns[axis][axis] = np.sin(0.5 * angle)
    return quaternion_product(turns[2], quaternion_product(turns[1], turns[0]))


def rpy_from_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """URDF's roll, pitch and yaw [rad] of a unit quaternion xyzw, exact even where pitch is a right
    angle.
    """
    matrix = rotation_matrix(quaternion)
    yaw = np.arctan2(matrix[1, 0], matrix[0, 0])
    # Undo the yaw first: near the singularity, the roll then absorbs its error.
    cos, sin = np.cos(yaw), np.sin(yaw)
    rest = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]]) @ matrix
    return np.array([np.arctan2(-rest[1, 2], rest[1, 1]), np.arctan2(-rest[2, 0], rest[0, 0]), yaw])


def translation(vector: np.ndarray) -> np.ndarray:
    """The pose of a frame translated by ``vector`` [m], without rotation."""
    return np.concatenate([vector, IDENTITY[3:]])


def rotation_pose(quaternion: npt.ArrayLike) -> np.ndarray:
    """The pose [7] that rotates by a quaternion xyzw."""
    return np.concatenate([IDENTITY[:3], quaternion])


def quaternion_from_x_to(axis: np.ndarray) -> np.ndarray:
    """The shortest rotation, as a quaternion xyzw, that takes the x axis onto a unit vector."""
    x, y, z = axis
    # Near the negative x axis, 1 + x would suffer from cancellation.
    real_part = 1.0 + x if x > 0.0 else (y * y + z * z) / (1.0 - x)
    quaternion = np.array([0.0, -z, y, real_part])
    norm = np.linalg.norm(quaternion)
    return np.array([0.0, 0.0, 1.0, 0.0]) if norm == 0.0 else quaternion / norm


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rotation ``b`` followed by the rotation ``a``, quaternions xyzw."""
    vector = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
    return np.append(vector, a[3] * b[3] - a[:3] @ b[:3])


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """Rotation matrix of a unit quaternion xyzw, shape [3, 3]."""
    x, y, z, w = quaternion
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross


def quaternion_from_matrix(matrix: np.ndarray) -> np.ndarray:
    """Unit quaternion xyzw of a rotation matrix, shape [3, 3]."""
    trace = np.trace(matrix)
    table = np.empty((4, 4))  # 4 q q^T
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        table[k, k] = 1.0 + 2.0 * matrix[k, k] - trace
        table[k, i] = table[i, k] = matrix[k, i] + matrix[i, k]
        table[k, 3] = table[3, k] = matrix[j, i] - matrix[i, j]
    table[3, 3] = 1.0 + trace
    # The row of the largest component has no cancellation.
    row = table[int(np.argmax(np.diag(table)))]
    return row / np.linalg.norm(row)


def principal_axes(inertia: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Principal moments [3] and axes of an inertia in axes of a given orientation; quaternions
    xyzw.
    """
    if not np.any(inertia - np.diag(np.diag(inertia))):
        return np.diag(inertia).copy(), axes
    moments, vectors = np.linalg.eigh(inertia)
    vectors[:, 2] *= np.sign(np.linalg.det(vectors))
    return moments, quaternion_from_matrix(rotation_matrix(axes) @ vectors)


def compose(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """The product of two poses: ``inner`` relative to ``outer``, expressed in the frame that
    ``outer`` refers to.
    """
    quaternion = quaternion_product(outer[3:], inner[3:])
    position = outer[:3] + rotation_matrix(outer[3:]) @ inner[:3]
    return np.concatenate([position, quaternion / np.linalg.norm(quaternion)])


def inverse(pose: np.ndarray) -> np.ndarray:
    """The inverse of a pose."""
    quaternion = np.append(-pose[3:6], pose[6])
    return np.concatenate([-rotation_matrix(quaternion) @ pose[:3], quaternion])


def joint_motion(axes: Sequence[Axis], position: npt.ArrayLike) -> np.ndarray:
    """The pose ``J(q)`` of a joint's child frame in its parent frame.

    Args:
      axes: the free axes.
      position: the positions along them [rad or m]; rotations form a rotation vector.
    """
    rotation, translation = np.zeros(3), np.zeros(3)
    for axis, value in zip(axes, np.asarray(position, float), strict=True):
        (rotation if axis < Axis.X else translation)[axis % int(Axis.X)] = value
    angle = float(np.linalg.norm(rotation))
    turn = np.append(0.5 * np.sinc(0.5 * angle / np.pi) * rotation, np.cos(0.5 * angle))
    return np.concatenate([translation, turn])


def poses_at_zero(articulation: Articulation) -> np.ndarray:
    """Poses of the links in the root's axes while all joints are at zero [L, 7].

    They are those of ``frame_pose`` in the neutral state, which would compile a kernel.
    """
    parents, children = (
        np.asarray(each, float)
        for each in (articulation.joint_parent_pose, articulation.joint_child_pose)
    )
    poses = [IDENTITY]
    for link, above in enumerate(articulation.topology.parent[1:], start=1):
        poses.append(compose(compose(poses[above], parents[link]), inverse(children[link])))
    return np.stack(poses)


def point_inertia(mass: float, arm: np.ndarray) -> np.ndarray:
    """The inertia of a point mass at ``arm`` [m] from the reference point, shape [3, 3]: the
    parallel axis theorem.
    """
    return mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))


def combine_inertias(
    parts: list[tuple[float, np.ndarray, np.ndarray]],
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, mass frame and inertia of several rigidly connected bodies.

    Args:
      parts: for each body, its mass [kg], its mass frame in a common frame, shape [7], and its
        inertia about the centre of mass in the axes of the mass frame [kg m^2], shape [3, 3].

    Returns:
      The same three quantities of the composite body. If only one part has mass or inertia, its
      mass frame is kept; otherwise the mass frame has the axes of the common frame.
    """
    parts = [part for part in parts if part[0] > 0.0 or np.any(part[2])]
    if not parts:
        return 0.0, IDENTITY, np.zeros((3, 3))
    if len(parts) == 1:
        return parts[0]
    total = sum(mass for mass, _, _ in parts)
    # Without mass, any point can serve as the centre.
    weights = [mass / total if total > 0.0 else 1.0 / len(parts) for mass, _, _ in parts]
    center = np.sum(
        [weight * pose[:3] for weight, (_, pose, _) in zip(weights, parts, strict=True)], axis=0
    )
    inertia = np.zeros((3, 3))
    for mass, pose, part_inertia in parts:
        rotation, arm = rotation_matrix(pose[3:]), pose[:3] - center
        inertia += rotation @ part_inertia @ rotation.T + point_inertia(mass, arm)
    return total, translation(center), 0.5 * (inertia + inertia.T)
