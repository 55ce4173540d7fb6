"""What couples the DOFs of an articulation in a step: mimic joints, tendons and loop joints.

Hard mimic and loop joints are relations that hold exactly, equations ``J nu = target`` of the
velocity at the end of the step. Compliant mimic joints and tendons are springs with dampers: each
acts along a direction of the generalised velocity with an effort that is linear in the position and
velocity at the end of the step, so together they give ``(Mh + dt D + dt^2 K) nu = ...``. Tendons
follow either PhysX's law or virtual work. With virtual work their forces are gradients of an
energy, which an undamped tendon conserves.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.constraints.frame_pairs import (
    AnchorRows,
    AnchorType,
    FramePairs,
    Side,
    anchor_rows,
    anchor_sides,
    anchor_wrenches,
    loop_anchors,
    solved_anchor_rows,
)
from artix.dynamics.factorization import inverse_of_unsymmetric
from artix.kinematics.forward import kinematics
from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation, State
from artix.model.couplings import (
    FixedTendons,
    MimicJoints,
    SpatialTendons,
    SpatialTendonStructure,
)
from artix.model.topology import Topology
from artix.simulation.common.control import room
from artix.simulation.common.step_start import HIGHEST, StepStart, axis_row, onto_links, point_row

Array = jax.Array

#: Fraction of a position error that hard mimic joints and loop joints correct per step (Baumgarte),
#: as in PhysX.
ERROR_REDUCTION = 0.8

#: Regularisation in units of the rounding error of the matrix's largest entry.
_REGULARIZATION = 10


# --- loop joints ----------------------------------------------------------------------------------


class LoopClosures(NamedTuple):
    """The loop joints of an articulation at the start of a step: R held rows and D distances."""

    anchors: FramePairs
    held: np.ndarray
    """Indices of the anchors' rows that are held, [R]."""
    distances: np.ndarray
    """Indices of the rows that are distances, [D]."""
    rows: AnchorRows
    sides: tuple[Side, Side]
    """The frames a and b of the joints."""
    joints: np.ndarray
    """Indices of the joints with a distance, [D]."""


def loop_closures(articulation: Articulation, state: State) -> LoopClosures:
    """The loop joints at the start of a step."""
    anchors, kin = loop_anchors(articulation), kinematics(articulation, state)
    is_distance = anchors.has_type(AnchorType.DISTANCE)
    of_row = is_distance[anchors.row_anchor]
    return LoopClosures(
        anchors=anchors,
        held=np.flatnonzero(~of_row),
        distances=np.flatnonzero(of_row),
        rows=solved_anchor_rows(articulation, state, kin, anchors),
        sides=anchor_sides(articulation, state, kin, anchors),
        joints=np.flatnonzero(is_distance),
    )


def closure_errors(articulation: Articulation, state: State, loops: LoopClosures) -> Array:
    """Errors [R] of the held rows in a state."""
    return anchor_rows(articulation, state, loops.anchors).error[loops.held]


def distance_gaps(articulation: Articulation, loops: LoopClosures) -> tuple[Array, Array]:
    """Gaps of the distances to their lower and upper bounds, [D] each; ``inf`` without a bound."""
    length, joints = loops.rows.error[loops.distances], articulation.loop_joints
    least, largest = (bound[loops.joints] for bound in (joints.min_distance, joints.max_distance))
    # Distances are never negative.
    return jnp.where(least > 0, length - least, jnp.inf), room(largest, length, 1)


def loop_wrenches(at_start: StepStart, loops: LoopClosures, force: Array) -> tuple[Array, Array]:
    """The wrenches that forces on all rows of the loop joints exert.

    Args:
      at_start: the articulation.
      loops: its loop joints.
      force: force of each row, including distances [N or N m].

    Returns:
      The wrenches on the links at their centres of mass, [L, 6], and those that each joint exerts
      on its ``link_b`` at the origin of frame b, [C, 6]; all in world axes.
    """
    wrenches = [wrench.T for wrench in anchor_wrenches(loops.anchors, *loops.sides, force)]
    total = jnp.zeros_like(at_start.center, shape=(len(at_start.mass), 6))
    for links, wrench in zip(loops.anchors.links, wrenches, strict=True):
        # Wrenches on the world are left out.
        onto = jnp.asarray(links[None] == np.arange(len(at_start.mass))[:, None], force.dtype)
        total = total + matmul(onto, wrench)
    return _moved(total, at_start.center), _moved(wrenches[1], loops.sides[1].placement.position.T)


def _moved(wrench: Array, point: Array) -> Array:
    """Wrenches [k, 6] about the root's centre of mass, moved to points [k, 3]."""
    return jnp.concatenate([wrench[:, :3], wrench[:, 3:] - jnp.cross(point, wrench[:, :3])], axis=1)


# --- mimic joints ---------------------------------------------------------------------------------


def mimic_directions(mimic: MimicJoints, topology: Topology) -> Array:
    """The generalised forces of unit impulses of all mimic joints, and the rates of their
    relations, [K, nv].
    """
    entries = topology.num_base_dofs + jnp.asarray(topology.mimic_dofs)
    ends = jax.nn.one_hot(entries, topology.nv, dtype=mimic.gear_ratio.dtype)
    return ends[:, 0] + mimic.gear_ratio[:, None] * ends[:, 1]


def mimic_errors(mimic: MimicJoints, topology: Topology, joint_position: Array) -> Array:
    """``q_follower + gear_ratio q_reference + offset`` of all mimic joints, [K]."""
    joints = mimic_directions(mimic, topology)[:, topology.num_base_dofs :]
    return matmul(joints, joint_position) + mimic.offset


# --- hard relations -------------------------------------------------------------------------------


class HardRows(NamedTuple):
    """H hard relations."""

    direction: Array
    """J, [H, nv]."""
    target: Array
    """Target velocities of the relations at the end of the step, [H]."""
    position_target: Array
    """Target velocities of the motion of the positions, which also corrects errors of mimic joints,
    [H]."""
    back: Array
    """Change of the generalised velocity per missing velocity, ``R J^T (J R J^T)^-1``, regularised,
    [nv, H]."""


def hard_rows(
    articulation: Articulation,
    state: State,
    at_start: StepStart,
    loops: LoopClosures | None,
    response: Array,
    dt: Array,
) -> HardRows | None:
    """The hard relations of an articulation; ``None`` if its topology has none.

    Args:
      articulation: the articulation.
      state: its state at the start of the step.
      at_start: the articulation at the start of the step.
      loops: its loop joints at the start of the step.
      response: change of the generalised velocity per generalised impulse, [nv, nv].
      dt: the step [s].
    """
    directions, targets, corrections = [], [], []
    mimic, topology = articulation.mimic, at_start.topology
    if len(topology.mimic_dofs):
        hard = (mimic.natural_frequency == 0) | (mimic.damping_ratio == 0)
        # Compliant joints have empty rows.
        directions.append(jnp.where(hard[:, None], mimic_directions(mimic, topology), 0))
        error = jnp.where(hard, mimic_errors(mimic, topology, state.joint_position), 0)
        targets.append(jnp.zeros_like(error))
        corrections.append(-ERROR_REDUCTION / dt * error)
    if loops is not None and len(loops.held):
        directions.append(loops.rows.jacobian[loops.held])
        # Chosen so that the velocity is zero in the rows as they are after the step.
        targets.append(-dt * loops.rows.bias[loops.held])
        corrections.append(jnp.zeros_like(targets[-1]))
    if not directions:
        return None
    direction, target, correction = map(jnp.concatenate, (directions, targets, corrections))
    effect = matmul(response, direction.T)
    coupling = matmul(direction, effect)
    largest = jnp.max(jnp.abs(coupling))
    regularization = jnp.where(largest > 0, _REGULARIZATION * jnp.finfo(dt.dtype).eps * largest, 1)
    solve = inverse_of_unsymmetric(
        coupling + regularization * jnp.eye(len(coupling), dtype=dt.dtype)
    )
    return HardRows(direction, target, target + correction, matmul(effect, solve))


# --- tendons --------------------------------------------------------------------------------------


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


# --- springs --------------------------------------------------------------------------------------


class Springs(NamedTuple):
    """k springs with dampers, on stretches ``x`` with rates ``rate @ nu`` (arrays [k], [k, nv] and
    [k, L, 6]).
    """

    stiffness: Array
    damping: Array
    stretch: Array
    """Stretch at the start of the step."""
    rate: Array
    """Derivative of the stretch's rate by the generalised velocity."""
    force: Array
    """Generalised force of a unit effort against the stretch; equal to ``rate`` with virtual
    work."""
    wrench: Array | None = None
    """The same as wrenches on the links, for springs that act on links instead of DOFs."""
    transmitted: Array | None = None
    """The part of these wrenches that PhysX counts as transmitted by the joints of those links."""


def coupling_springs(
    articulation: Articulation,
    at_start: StepStart,
    joint_position: Array,
    tendon_law: Literal["physx", "virtual_work"],
) -> list[Springs]:
    """Collects all springs that couple DOFs."""
    topology, virtual_work = at_start.topology, tendon_law == "virtual_work"
    springs = []
    if len(topology.mimic_dofs):
        springs.append(mimic_springs(articulation, at_start, joint_position))
    if topology.fixed_tendons:
        springs.append(
            fixed_tendon_springs(articulation, at_start, joint_position, virtual_work=virtual_work)
        )
    if topology.spatial_tendons:
        springs.append(spatial_tendon_springs(articulation, at_start, virtual_work=virtual_work))
    return springs


def spring_efforts(springs: Springs, velocity: Array, dt: Array) -> Array:
    """The efforts of springs and dampers after ``dt`` with a generalised velocity."""
    rate = matmul(springs.rate, velocity)
    return springs.stiffness * (springs.stretch + dt * rate) + springs.damping * rate


def mimic_springs(
    articulation: Articulation, at_start: StepStart, joint_position: Array
) -> Springs:
    """Springs with the given natural frequency and damping ratio, for the inertia that the relation
    sees.
    """
    mimic = articulation.mimic
    direction = mimic_directions(mimic, at_start.topology)
    response = jnp.sum(matmul(direction, at_start.inverse_mass) * direction, axis=1)
    inertia = 1 / response
    return Springs(
        stiffness=mimic.natural_frequency**2 * inertia,
        damping=2 * mimic.damping_ratio * mimic.natural_frequency * inertia,
        stretch=mimic_errors(mimic, at_start.topology, joint_position),
        rate=direction,
        force=direction,
    )


def fixed_tendon_springs(
    articulation: Articulation, at_start: StepStart, joint_position: Array, *, virtual_work: bool
) -> Springs:
    """Springs on the tendons' lengths.

    With PhysX's law, joint i of K gets ``recip_coefficient_i / K`` of the tension, the root link
    gets the reaction, and the rate of the length is that of the links along the same axes. With
    virtual work, the joint's effort is ``coefficient_i / K`` of the tension, and the rate is the
    true one.
    """
    numbers, topology = articulation.fixed_tendons, at_start.topology
    tendon, dof = tendon_joints(topology)
    members = jax.nn.one_hot(tendon, len(topology.fixed_tendons), dtype=joint_position.dtype).T
    share = members / jnp.sum(members, axis=1, keepdims=True)
    joints = jax.nn.one_hot(topology.num_base_dofs + dof, topology.nv, dtype=joint_position.dtype)
    length = numbers.offset + matmul(members, numbers.coefficient * joint_position[dof])
    stiffness, stretch = _with_limits(
        numbers, length, numbers.rest_length, numbers.lower_limit, numbers.upper_limit
    )
    if virtual_work:
        rate = matmul(members * numbers.coefficient, joints)
        force = matmul(share * numbers.coefficient, joints)
        return Springs(stiffness, numbers.damping, stretch, rate, force)
    wrenches = tendon_joint_wrenches(at_start)
    moving = _force(at_start, wrenches.on_link - wrenches.on_parent)
    rate = matmul(members * numbers.coefficient, moving)
    wrench, transmitted = (
        jnp.einsum("tj,jlk->tlk", share * numbers.recip_coefficient, one, precision=HIGHEST)
        for one in (wrenches.on_link - wrenches.on_root, wrenches.on_link)
    )
    return Springs(
        stiffness, numbers.damping, stretch, rate, _force(at_start, wrench), wrench, transmitted
    )


def spatial_tendon_springs(
    articulation: Articulation, at_start: StepStart, *, virtual_work: bool
) -> Springs:
    """Springs on the lengths of the paths.

    With PhysX's law only the ends of a path feel its tension, and its damper uses their velocities.
    With virtual work every segment pulls with its coefficient.
    """
    numbers, topology = articulation.spatial_tendons, at_start.topology
    tendon, leaf = path_ends(topology)
    wrench = (
        path_gradients(articulation, at_start)
        if virtual_work
        else -end_wrenches(articulation, at_start)
    )
    length = path_lengths(articulation, topology, at_start.frame)
    gains = jax.tree.map(
        lambda gain: gain[tendon], (numbers.stiffness, numbers.damping, numbers.limit_stiffness)
    )
    stiffness, stretch = _with_limits(
        numbers.replace(stiffness=gains[0], limit_stiffness=gains[2]),
        length,
        numbers.rest_length[leaf],
        numbers.lower_limit[leaf],
        numbers.upper_limit[leaf],
    )
    force = _force(at_start, wrench)
    return Springs(stiffness, gains[1], stretch, force, force, wrench)


def _force(at_start: StepStart, wrench: Array) -> Array:
    return jnp.einsum("slk,lkv->sv", wrench, at_start.jacobian, precision=HIGHEST)


def _with_limits(
    tendons: FixedTendons | SpatialTendons, length: Array, rest: Array, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Combines a tendon's spring with that of the limit it exceeds: stiffness and stretch of one
    spring.
    """
    beyond = beyond_limits(length, lower, upper)
    limit = jnp.where(beyond == 0, 0, tendons.limit_stiffness)
    total = tendons.stiffness + limit
    stretched = total > 0
    pull = tendons.stiffness * (length - rest) + limit * beyond
    return total, jnp.where(stretched, pull / jnp.where(stretched, total, 1), 0)
