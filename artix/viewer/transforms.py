"""Operations on batches of poses in NumPy: position [m] and quaternion xyzw on the last axis, [..., 7]."""

from __future__ import annotations

import numpy as np


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Rotates vectors [..., 3] by unit quaternions xyzw [..., 4]; leading axes broadcast."""
    imaginary, real = quaternion[..., :3], quaternion[..., 3:]
    return vector + 2.0 * np.cross(imaginary, np.cross(imaginary, vector) + real * vector)


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rotations ``b`` followed by ``a``, quaternions xyzw [..., 4]; leading axes broadcast."""
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    real = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    return np.concatenate([vector, real], axis=-1)


def compose(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Composes poses: ``inner`` [..., 7] in the frames ``outer`` [..., 7], expressed in the frames of ``outer``."""
    position = outer[..., :3] + rotate(outer[..., 3:], inner[..., :3])
    return np.concatenate([position, quaternion_product(outer[..., 3:], inner[..., 3:])], axis=-1)


def transform(pose: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Transforms points [..., 3] from the frames ``pose`` [..., 7] to their parent frames."""
    return pose[..., :3] + rotate(pose[..., 3:], point)


def quaternion_from_z_to(direction: np.ndarray) -> np.ndarray:
    """The shortest rotations, quaternions xyzw [..., 4], from z to nonzero directions [..., 3]."""
    unit = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
    x, y, z = np.moveaxis(unit, -1, 0)
    opposite = z < -1.0 + 1e-12
    quaternion = np.stack([np.where(opposite, 1.0, -y), np.where(opposite, 0.0, x), 0.0 * z, 1.0 + z], axis=-1)
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
