"""Rigid-body kinematics in plain NumPy with 4 by 4 matrices, independent of the library, to check
its readers."""

from __future__ import annotations

import numpy as np

from artix.math.arrays import host_arrays
from artix.model.joints import JointType


def matrix_from_pose(pose) -> np.ndarray:
    """Homogeneous matrix of a pose: position, quaternion xyzw."""
    x, y, z, w = np.asarray(pose[3:], float)
    matrix = np.eye(4)
    matrix[:3, 3] = pose[:3]
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return matrix


def rotation_about(coordinate: int, angle: float) -> np.ndarray:
    """Homogeneous matrix of a turn about the x, y or z axis."""
    matrix = np.eye(4)
    i, j = (coordinate + 1) % 3, (coordinate + 2) % 3
    matrix[[i, i, j, j], [i, j, i, j]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
    return matrix


def placements(articulation, position: dict[str, float] | None = None) -> dict[str, np.ndarray]:
    """World placements of all links and frames, the root at the origin; joints not in ``position``
    are at 0."""
    topology, position, articulation = (
        articulation.topology,
        position or {},
        host_arrays(articulation),
    )
    placed = [np.eye(4)]
    for link in range(1, topology.num_links):
        motion = np.eye(4)
        if topology.joint_types[link] is not JointType.FIX:
            coordinate = int(topology.joint_axes[link][0]) % 3
            value = position.get(topology.joint_names[link - 1], 0.0)
            if topology.joint_types[link] is JointType.PRISMATIC:
                motion[coordinate, 3] = value
            else:
                motion = rotation_about(coordinate, value)
        before = matrix_from_pose(np.asarray(articulation.joint_parent_pose[link]))
        after = np.linalg.inv(matrix_from_pose(np.asarray(articulation.joint_child_pose[link])))
        placed.append(placed[topology.parent[link]] @ before @ motion @ after)
    result = dict(zip(topology.link_names, placed, strict=True))
    for name, link, pose in zip(
        topology.frame_names,
        topology.frame_links,
        np.asarray(articulation.frame_local_pose),
        strict=True,
    ):
        result[name] = placed[link] @ matrix_from_pose(pose)
    return result


def total_inertia(
    articulation, position: dict[str, float] | None = None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it, in world axes, of the whole articulation."""
    articulation = host_arrays(articulation)
    placed = placements(articulation, position)
    masses, centers, inertias = [], [], []
    for link, name in enumerate(articulation.topology.link_names):
        frame = placed[name] @ matrix_from_pose(np.asarray(articulation.link_com_pose[link]))
        masses.append(float(articulation.link_mass[link]))
        centers.append(frame[:3, 3])
        inertias.append(
            frame[:3, :3] @ np.asarray(articulation.link_inertia[link]) @ frame[:3, :3].T
        )
    center = np.average(centers, axis=0, weights=masses)
    arms = np.array(centers) - center
    about = sum(m * (a @ a * np.eye(3) - np.outer(a, a)) for m, a in zip(masses, arms, strict=True))
    return sum(masses), center, sum(inertias) + about
