"""Shapes for robots that have none, made from their joints and inertias."""

from __future__ import annotations

import jax
import numpy as np

import artix
from artix import Articulation
from artix.io.common.poses import quaternion_from_matrix
from artix.math.arrays import host_arrays
from artix.viewer.meshes import box_mesh, capsule_mesh, sphere_mesh
from artix.viewer.transforms import compose, quaternion_from_z_to, rotate
from artix.viewer.visuals import Visual


def link_visuals(articulation: Articulation) -> tuple[Visual, ...]:
    """Draws capsules from joint to joint, and boxes for the links' inertias.

    A link gets a capsule from its own joint to each joint of its children, and the box of uniform density that has its
    mass and inertia. A robot with nothing of these is drawn as a small ball.

    Args:
      articulation: one articulation.

    Returns:
      The visuals, each posed in the frame of its link.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> sorted({visual.link for visual in viewer.link_visuals(arm)})[:3]
      [0, 1, 2]
    """
    topology = articulation.topology
    own = np.array(articulation.joint_child_pose, float)
    at_parent = np.asarray(articulation.joint_parent_pose, float)
    own[0], size = (0, 0, 0, 0, 0, 0, 1), _size(articulation)
    articulation, visuals = host_arrays(articulation), list[Visual]()
    for link in range(topology.num_links):
        children = [child for child, above in enumerate(topology.parent) if above == link]
        start, box = own[link, :3], _inertia_box(articulation, link)
        thickness = 0.03 * size
        if box is not None:
            half, pose = box
            thickness = float(np.clip(0.5 * np.sort(half)[0] + 0.25 * np.sort(half)[1], 0.012 * size, 0.05 * size))
            visuals.append(Visual(link, box_mesh(half), pose))
        for end in (at_parent[child, :3] for child in children if _has_weight(articulation, child)):
            length = float(np.linalg.norm(end - start))
            if length > 0.01 * size:
                pose = np.concatenate([0.5 * (start + end), quaternion_from_z_to(end - start)])
                visuals.append(Visual(link, capsule_mesh(0.7 * thickness, 0.5 * length), pose))
        if link and topology.joint_axes[link]:
            pose = np.array([*start, 0.0, 0.0, 0.0, 1.0])
            visuals.append(Visual(link, sphere_mesh(0.9 * thickness), pose, (0.2, 0.22, 0.25)))
    if not visuals:  # A robot without mass and joints is a place.
        visuals.append(Visual(0, sphere_mesh(0.03 * size), own[0], (0.2, 0.22, 0.25)))
    return tuple(visuals)


def _size(articulation: Articulation) -> float:
    """A typical length of the robot: the diagonal of the bounding box of its links at rest."""
    poses = np.asarray(jax.jit(artix.frame_pose)(articulation, artix.neutral_state(articulation)), float)
    points = poses[:, :3] + rotate(poses[:, 3:], np.asarray(articulation.link_com_pose, float)[:, :3])
    points = np.concatenate([points, poses[:, :3]])
    return max(float(np.linalg.norm(np.ptp(points, axis=0))), 0.05)


def _has_weight(articulation: Articulation, link: int) -> bool:
    """Whether a link is worth drawing: one with neither mass nor children only marks a place."""
    return bool(articulation.link_mass[link] > 0) or link in articulation.topology.parent


def _inertia_box(articulation: Articulation, link: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Half edges [3] and pose [7] of the uniform box with a link's mass and inertia, if there is one."""
    mass = float(articulation.link_mass[link])
    inertia = np.asarray(articulation.link_inertia[link], float)
    if not (mass > 0.0 and np.isfinite(mass) and np.isfinite(inertia).all()):
        return None
    moments, axes = np.linalg.eigh(0.5 * (inertia + inertia.T))
    squares = 1.5 * (moments.sum() - 2.0 * moments) / mass
    if not squares.max() > 0.0:
        return None
    half = np.sqrt(np.maximum(squares, 1e-4 * squares.max()))
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    turn = np.concatenate([np.zeros(3), quaternion_from_matrix(axes)])
    return half, compose(np.asarray(articulation.link_com_pose[link], float), turn)
