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


def quaternion_from_matrix(matrix: np.ndarray) -> np.ndarray:
    """The unit quaternion xyzw [4] of a rotation matrix [3, 3], computed from its largest entry (Shepperd, 1978)."""
    m, trace = matrix, np.trace(matrix)
    largest = int(np.argmax([*np.diag(m), trace]))
    if largest == 3:
        found = np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], 1.0 + trace])
    else:
        i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
        found = np.empty(4)
        found[[i, j, k]] = 1.0 - trace + 2.0 * m[i, i], m[j, i] + m[i, j], m[k, i] + m[i, k]
        found[3] = m[k, j] - m[j, k]
    return found / np.linalg.norm(found)
