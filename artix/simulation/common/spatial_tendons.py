"""The impulses of spatial tendons, by PhysX's law."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.bodies import Placement
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.model.tendons import SpatialTendonStructure
from artix.model.topology import Topology
from artix.simulation.common.step_start import HIGHEST, StepStart, onto_links, point_row
from artix.simulation.common.sweep import Sweep

Array = jax.Array


class SpatialTendonRow(NamedTuple):
    """One path from a root to a leaf (or all, with a leading axis [S])."""

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    rest_length: Array
    lower_limit: Array
    upper_limit: Array
    free_rate: Array
    """Rate at which the ends of the path shorten it, before any impulse."""
    direction: Array
    """Derivative of that rate by the generalised velocity, [nv]; also the generalised force of a unit impulse."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Velocity per impulse."""
    wrench: Array
    """Wrenches on the links for a unit impulse, [L, 6]."""


class _Paths(NamedTuple):
    """The attachments of all tendons as one list, and the paths through them."""

    link: np.ndarray
    parent: np.ndarray
    tendon: np.ndarray
    leaf: np.ndarray
    root: np.ndarray
    first: np.ndarray
    on_path: np.ndarray


def _paths(tendons: tuple[SpatialTendonStructure, ...]) -> _Paths:
    link: list[int] = []
    parent: list[int] = []
    ends: list[tuple[int, int, int, int]] = []
    members: list[list[int]] = []
    for number, structure in enumerate(tendons):
        start = len(link)
        for index in structure.leaves:
            path = structure.path(index)
            ends.append((number, start + index, start, start + path[-1]))
            members.append([start + point for point in path])
        link += structure.links
        parent += [start + max(above, 0) for above in structure.parents]
    on_path = np.array([[point in path for point in range(len(link))] for path in members])
    tendon, leaf, root, first = np.array(ends).T
    return _Paths(np.array(link), np.array(parent), tendon, leaf, root, first, on_path)


def _points(articulation: Articulation, link: np.ndarray, frame: Placement) -> Array:
    """Positions of the attachments relative to the frame origins, [A, 3]."""
    local = articulation.spatial_tendons.position.T
    at = frame.take(jnp.asarray(link))
    return (at.position + spatial.rotate(at.rotation, local)).T


def _segments(points: Array, parent: np.ndarray) -> tuple[Array, Array]:
    """Lengths [A] and directions [A, 3] from every attachment to its parent; zero where the two coincide."""
    to_parent = points[parent] - points
    square = jnp.sum(to_parent**2, axis=1)
    apart = square > 0
    length = jnp.sqrt(jnp.where(apart, square, 1))
    return jnp.where(apart, length, 0), jnp.where(apart[:, None], to_parent / length[:, None], 0)


def path_lengths(articulation: Articulation, topology: Topology, frame: Placement) -> Array:
    """Lengths [S] of all paths for these link frames."""
    paths, numbers = _paths(topology.spatial_tendons), articulation.spatial_tendons
    length, _ = _segments(_points(articulation, paths.link, frame), paths.parent)
    on_path = jnp.asarray(paths.on_path, length.dtype)
    total = matmul(on_path, numbers.coefficient * length)
    return numbers.offset[paths.tendon] * numbers.coefficient[paths.root] + total


def path_ends(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """The tendon and the leaf attachment of each path, [S] each."""
    paths = _paths(topology.spatial_tendons)
    return paths.tendon, paths.leaf


def path_gradients(articulation: Articulation, at_start: StepStart) -> Array:
    """Derivatives of the paths' lengths by the link motions, [S, L, 6]; also the wrenches of a unit push."""
    paths = _paths(at_start.topology.spatial_tendons)
    points = _points(articulation, paths.link, at_start.frame)
    _, to_parent = _segments(points, paths.parent)
    above, own = (
        onto_links(at_start, link, point_row(at_start, link, point, to_parent))
        for link, point in ((paths.link[paths.parent], points[paths.parent]), (paths.link, points))
    )
    segments = articulation.spatial_tendons.coefficient[:, None, None] * (above - own)
    return jnp.einsum("sa,alk->slk", jnp.asarray(paths.on_path, points.dtype), segments, precision=HIGHEST)


def end_wrenches(articulation: Articulation, at_start: StepStart) -> Array:
    """The wrenches [S, L, 6] of unit tensions, by PhysX's law: on the leaf to its parent, on the root to its child."""
    paths = _paths(at_start.topology.spatial_tendons)
    points = _points(articulation, paths.link, at_start.frame)
    _, to_parent = _segments(points, paths.parent)
    leaf, root = (
        onto_links(at_start, paths.link[end], point_row(at_start, paths.link[end], points[end], direction))
        for end, direction in ((paths.leaf, to_parent[paths.leaf]), (paths.root, -to_parent[paths.first]))
    )
    return leaf + root


def beyond_limits(length: Array, lower: Array, upper: Array) -> Array:
    """How far lengths are above their upper limits, or below their lower ones (negative); infinite ones are none."""
    has_lower, has_upper = jnp.isfinite(lower), jnp.isfinite(upper)
    under = jnp.where(has_lower, length - jnp.where(has_lower, lower, 0), 0)
    over = jnp.where(has_upper, length - jnp.where(has_upper, upper, 0), 0)
    return jnp.minimum(under, 0) + jnp.maximum(over, 0)


def spatial_tendon_rows(articulation: Articulation, at_start: StepStart, motion: Array) -> SpatialTendonRow:
    """The rows of all paths; ``motion`` [L, 6] are the links' velocities before any impulse."""
    numbers = articulation.spatial_tendons
    paths = _paths(at_start.topology.spatial_tendons)
    wrench = end_wrenches(articulation, at_start)
    direction = jnp.einsum("slk,lkv->sv", wrench, at_start.jacobian, precision=HIGHEST)
    effect = matmul(direction, at_start.inverse_mass)
    return SpatialTendonRow(
        stiffness=numbers.stiffness[paths.tendon],
        damping=numbers.damping[paths.tendon],
        limit_stiffness=numbers.limit_stiffness[paths.tendon],
        rest_length=numbers.rest_length[paths.leaf],
        lower_limit=numbers.lower_limit[paths.leaf],
        upper_limit=numbers.upper_limit[paths.leaf],
        free_rate=jnp.sum(wrench * motion[None], axis=(1, 2)),
        direction=direction,
        effect=effect,
        response=jnp.sum(direction * effect, axis=1),
        wrench=wrench,
    )


def spatial_tendon_impulses(
    row: SpatialTendonRow, spring: Array, limit: Array, rate: Array, length: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses of one path's spring and damper, and of its limits, after one more sweep.

    They pull the leaf towards its parent and the root towards its child. Attachments in between feel nothing. In
    continuous time the force is ``stiffness (length - rest_length) - damping rate + limit_stiffness excess``.

    Args:
      row: the path.
      spring: impulse of spring and damper so far.
      limit: impulse of the limits so far.
      rate: rate at which the ends of the path shorten it.
      length: length of the path now.
      sweep: the sweep.
    """
    h = sweep.h
    gain = h * (h * row.stiffness + row.damping)
    share = 1 / (1 + gain * row.response)
    limit_share = 1 / (1 + h * (h * row.limit_stiffness + row.damping) * row.response)
    beyond = beyond_limits(length, row.lower_limit, row.upper_limit)
    pull = h * row.stiffness * (length - row.rest_length) - gain * rate
    keep, keep_limit = (1, 1) if sweep.temporal else (1 - share, 1 - limit_share)
    spring = keep * spring + share * pull
    limit = keep_limit * limit + h * row.limit_stiffness * limit_share * beyond
    return spring, limit
