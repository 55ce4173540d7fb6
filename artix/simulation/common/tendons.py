"""Tendons: the joints, links and points on which they act, by PhysX's laws."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation
from artix.model.couplings import SpatialTendonStructure
from artix.model.topology import Topology
from artix.simulation.common.step_start import HIGHEST, StepStart, axis_row, onto_links, point_row

Array = jax.Array


class TendonJointWrenches(NamedTuple):
    """Wrenches on the links for unit efforts along the axes of J tendon joints, [J, L, 6] each."""

    on_link: Array
    """Along the joint's own axis, on the link that it moves."""
    on_parent: Array
    """Along the axis of the first joint above, on the link of the tendon joint above."""
    on_root: Array
    """Along the axis of the first joint above, on the tendon's root link."""


def tendon_joint_wrenches(at_start: StepStart) -> TendonJointWrenches:
    """The wrenches of all tendon joints; PhysX pairs a joint's own axis with that of the tendon's
    first joint.
    """
    dof, parent_link, root_link, first, _ = tendon_joint_structure(at_start.topology)
    link, child, parent = (
        at_start.topology.dof_link[dof],
        at_start.child_origin,
        at_start.parent_origin,
    )
    return TendonJointWrenches(
        on_link=onto_links(at_start, link, axis_row(at_start, dof, link, child[dof])),
        on_parent=onto_links(
            at_start, parent_link, axis_row(at_start, first, parent_link, parent[dof])
        ),
        on_root=onto_links(
            at_start, root_link, axis_row(at_start, first, root_link, parent[first])
        ),
    )


def tendon_joints(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """The tendon and the DOF of each tendon joint, [J] each."""
    pairs = [(k, dof) for k, tendon in enumerate(topology.fixed_tendons) for dof in tendon.dofs]
    tendon, dof = np.array(pairs).T
    return tendon, dof


def tendon_joint_structure(topology: Topology) -> tuple[np.ndarray, ...]:
    """Per tendon joint: its DOF, the link above, the tendon's root link, the DOF of the first joint
    above; and a table [T, m] of the joints of each tendon, with the number of all joints where
    there is none.
    """
    joints: list[tuple[int, int, int, int]] = []
    rows: list[list[int]] = []
    width = max(len(tendon.dofs) for tendon in topology.fixed_tendons)
    for tendon in topology.fixed_tendons:
        start = len(joints)
        for index, parent in enumerate(tendon.parents):
            top = index
            while tendon.parents[top] >= 0:
                top = tendon.parents[top]
            above = tendon.root_link if parent < 0 else int(topology.dof_link[tendon.dofs[parent]])
            joints.append((tendon.dofs[index], above, tendon.root_link, tendon.dofs[top]))
        rows.append(list(range(start, len(joints))) + [-1] * (width - len(tendon.dofs)))
    table = np.array(rows)
    return *np.array(joints).T, np.where(table < 0, len(joints), table)


class TendonPaths(NamedTuple):
    """The attachments of all tendons as one list, and the paths through them."""

    link: np.ndarray
    parent: np.ndarray
    tendon: np.ndarray
    leaf: np.ndarray
    root: np.ndarray
    first: np.ndarray
    on_path: np.ndarray


def tendon_paths(tendons: tuple[SpatialTendonStructure, ...]) -> TendonPaths:
    """The attachments and paths of these tendons."""
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
    return TendonPaths(np.array(link), np.array(parent), tendon, leaf, root, first, on_path)


def _points(articulation: Articulation, link: np.ndarray, frame: Transforms) -> Array:
    """Positions of the attachments relative to the frame origins, [A, 3]."""
    local = articulation.spatial_tendons.position.T
    at = frame.take(jnp.asarray(link))
    return (at.position + spatial.rotate(at.rotation, local)).T


def _segments(points: Array, parent: np.ndarray) -> tuple[Array, Array]:
    """Lengths [A] and directions [A, 3] from every attachment to its parent; zero where the two
    coincide.
    """
    to_parent = points[parent] - points
    square = jnp.sum(to_parent**2, axis=1)
    apart = square > 0
    length = jnp.sqrt(jnp.where(apart, square, 1))
    return jnp.where(apart, length, 0), jnp.where(apart[:, None], to_parent / length[:, None], 0)


def path_lengths(articulation: Articulation, topology: Topology, frame: Transforms) -> Array:
    """Lengths [S] of all paths for these link frames."""
    paths, numbers = tendon_paths(topology.spatial_tendons), articulation.spatial_tendons
    length, _ = _segments(_points(articulation, paths.link, frame), paths.parent)
    on_path = jnp.asarray(paths.on_path, length.dtype)
    total = matmul(on_path, numbers.coefficient * length)
    return numbers.offset[paths.tendon] * numbers.coefficient[paths.root] + total


def path_ends(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """The tendon and the leaf attachment of each path, [S] each."""
    paths = tendon_paths(topology.spatial_tendons)
    return paths.tendon, paths.leaf


def path_gradients(articulation: Articulation, at_start: StepStart) -> Array:
    """Derivatives of the paths' lengths by the link motions, [S, L, 6]; also the wrenches of a unit
    push.
    """
    paths = tendon_paths(at_start.topology.spatial_tendons)
    points = _points(articulation, paths.link, at_start.frame)
    _, to_parent = _segments(points, paths.parent)
    above, below = (
        onto_links(at_start, link, point_row(at_start, link, point, to_parent))
        for link, point in ((paths.link[paths.parent], points[paths.parent]), (paths.link, points))
    )
    segments = articulation.spatial_tendons.coefficient[:, None, None] * (above - below)
    return jnp.einsum(
        "sa,alk->slk", jnp.asarray(paths.on_path, points.dtype), segments, precision=HIGHEST
    )


def end_wrenches(articulation: Articulation, at_start: StepStart) -> Array:
    """The wrenches [S, L, 6] of unit tensions, by PhysX's law: on the leaf to its parent, on the
    root to its child.
    """
    paths = tendon_paths(at_start.topology.spatial_tendons)
    points = _points(articulation, paths.link, at_start.frame)
    _, to_parent = _segments(points, paths.parent)
    leaf, root = (
        onto_links(
            at_start, paths.link[end], point_row(at_start, paths.link[end], points[end], direction)
        )
        for end, direction in (
            (paths.leaf, to_parent[paths.leaf]),
            (paths.root, -to_parent[paths.first]),
        )
    )
    return leaf + root


def beyond_limits(length: Array, lower: Array, upper: Array) -> Array:
    """How far lengths are above their upper limits, or below their lower ones (negative); infinite
    ones are none.
    """
    has_lower, has_upper = jnp.isfinite(lower), jnp.isfinite(upper)
    under = jnp.where(has_lower, length - jnp.where(has_lower, lower, 0), 0)
    over = jnp.where(has_upper, length - jnp.where(has_upper, upper, 0), 0)
    return jnp.minimum(under, 0) + jnp.maximum(over, 0)
