"""Meshes of colliders as shapes that have few candidates: hulls of their outermost points, or bounding capsules."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from artix.io.common.diagnostics import Place, Report
from artix.io.common.names import listed
from artix.io.common.poses import IDENTITY, compose
from artix.model.geometry import MAX_HULL_POINTS, Geometry

Meshes: TypeAlias = Literal["hull", "capsule"]
"""What a reader takes large meshes for, when it is asked to."""

#: Directions of the planes against which a shape is compared with its mesh.
_DIRECTIONS = 4000


class MeshShape(NamedTuple):
    """What stands for a mesh."""

    geometry: Geometry
    error: float
    """The largest difference of the distances to a plane of any direction [m]."""


def check_meshes(meshes: Meshes | None) -> None:
    """Raises ``ValueError`` unless this is ``"hull"``, ``"capsule"`` or ``None``."""
    if meshes not in (None, "hull", "capsule"):
        raise ValueError(f"meshes must be 'hull', 'capsule' or None, which leaves them out; found {meshes!r}")


def mesh_shape(points: np.ndarray, meshes: Meshes, pose: np.ndarray, **material: Any) -> MeshShape:
    """The shape of a mesh with these vertices.

    Args:
      points: vertices in the mesh's frame [m], [V, 3], V at least 1.
      meshes: what it becomes. A ``"hull"`` is that of vertices which are chosen one after another, each where a plane
        would touch the mesh the farthest before those chosen so far: deterministic, inside the mesh, and exact for
        meshes whose hull has 16 vertices. A ``"capsule"`` encloses the mesh, along that of its principal axes which
        makes it the smallest.
      pose: of the mesh's frame in the link's, [7].
      **material: of the geometry.
    """
    directions = _directions()
    farthest = np.concatenate([np.argmax(part @ points.T, axis=1) for part in np.split(directions, 40)])
    reach = np.sum(directions * points[farthest], axis=1)
    if meshes == "capsule":
        center, axis, radius, half_length = _bounding_capsule(points, points[np.unique(farthest)])
        ends = half_length * np.abs(directions @ axis)
        error = float(np.max(directions @ center + ends + radius - reach))
        placed = compose(pose, np.concatenate([center, _turn_from_z(axis)]))
        return MeshShape(Geometry.capsule(radius, half_length, pose=placed, **material), error)
    size, chosen = np.ptp(points, axis=0).max(), [int(farthest[0])]
    while True:
        lacking = reach - (directions @ points[chosen].T).max(axis=1)
        worst = int(np.argmax(lacking))
        if len(chosen) == MAX_HULL_POINTS or lacking[worst] <= 1e-9 * size:
            return MeshShape(Geometry.hull(points[chosen], pose=pose, **material), float(max(lacking[worst], 0)))
        chosen.append(int(farthest[worst]))


def tell_errors(report: Report, place: Place, meshes: Meshes, errors: dict[str, float]) -> None:
    """Sums up in a warning what meshes have become.

    Args:
      report: receives it.
      place: what it points at.
      meshes: what they are taken for.
      errors: see :attr:`MeshShape.error`, by the names of the links.
    """
    if not errors:
        return
    worst = max(errors, key=lambda name: errors[name])
    kind = f"hulls of at most {MAX_HULL_POINTS} points" if meshes == "hull" else "the capsules around them"
    message = f"meshes of colliders are taken as {kind} (links {listed(list(errors))})"
    found = f"planes touch them up to {1e3 * errors[worst]:.2g} mm elsewhere, at most on {worst!r}"
    report.warning(place, f"{message}; {found}", "where that matters, describe the shape by primitives")


def _directions() -> np.ndarray:
    """Unit vectors all over the sphere, on a Fibonacci spiral, [D, 3]."""
    turn = np.pi * (1 + np.sqrt(5)) * np.arange(_DIRECTIONS)
    z = 1 - (2 * np.arange(_DIRECTIONS) + 1) / _DIRECTIONS
    return np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)


def _bounding_capsule(points: np.ndarray, outermost: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Centre [3], axis [3], radius and half length of the smallest capsule along a principal axis of the outermost."""
    axes = np.linalg.svd(outermost - outermost.mean(axis=0))[2]
    return min((_capsule_along(points, np.roll(axes, k, axis=0)) for k in range(3)), key=_volume)


def _capsule_along(points: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The capsule along the first of three axes, its line in the middle of the points across it."""
    along, across = points @ axes[0], points @ axes[1:].T
    middle = 0.5 * (across.min(axis=0) + across.max(axis=0))
    distance = np.linalg.norm(across - middle, axis=1)
    radius = float(distance.max())
    cap = np.sqrt(np.maximum(radius**2 - distance**2, 0))
    low, high = (along + cap).min(), (along - cap).max()
    half_length = float(max(0.5 * (high - low), 0))
    return 0.5 * (low + high) * axes[0] + middle @ axes[1:], axes[0], radius, half_length


def _volume(capsule: tuple[np.ndarray, np.ndarray, float, float]) -> float:
    _, _, radius, half_length = capsule
    return radius**2 * (half_length + 2 / 3 * radius)


def _turn_from_z(axis: np.ndarray) -> np.ndarray:
    """The quaternion that takes z, or its opposite, to an axis."""
    x, y, z = axis if axis[2] >= 0 else -axis
    turn = np.array([-y, x, 0.0, 1.0 + z])
    return turn / np.linalg.norm(turn) if x or y else IDENTITY[3:]
