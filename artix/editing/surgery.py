"""Makes articulations from others: locks joints, attaches one articulation to a link of another,
selects shapes.

The first two operate on arrays that may be traced: gradients flow through the pose of a locked
joint and through every parameter of the parts. Mimic joints become a linear map from the
independent coordinates to all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.editing.to_builder import geometry_at
from artix.kinematics.forward import screw_pitches
from artix.math import spatial, struct
from artix.math.arrays import concatenate, entries, masked_sum, matmul, with_entries
from artix.math.spatial import Transforms
from artix.math.traces import compiled
from artix.model.articulation import Articulation, State, without
from artix.model.builder import ArticulationBuilder
from artix.model.checks import check_state
from artix.model.geometry import Geometry
from artix.model.joints import Joint, JointType
from artix.model.parts import PER_DOF, PER_LINK
from artix.model.topology import Topology, candidate_pairs, checked_pairs, moving_pairs

Array = jax.Array

#: Arrays listed item by item, independently of the order of links and DOFs.
_LISTED = (
    "frame_local_pose",
    "mimic",
    "fixed_tendons",
    "spatial_tendons",
    "loop_joints",
    "geometry",
)


def lock_joints(articulation: Articulation, state: State, joints: Sequence[str]) -> Articulation:
    """The articulation with some joints fixed at their position, Pinocchio's ``buildReducedModel``.

    Links keep their names, numbers and parameters; those that no longer move relative to each other
    form one body and cost nothing. Limits, drives, friction, armature and speed limits of locked
    joints are dropped, and so are mimic joints and fixed tendons between locked joints. Spatial
    tendons and loop joints stay.

    Args:
      state: its state; only the positions of the locked joints matter.
      joints: names of the joints to lock.

    Returns:
      An articulation with as many links and fewer DOFs; look the remaining DOFs up by name.

    Raises:
      KeyError: there is no joint with one of the names.
      ValueError: a mimic joint or fixed tendon couples a locked joint to one that is not.
      TypeError: ``joints`` is one string.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> rolls = ["shoulder_yaw", "upper_arm_roll", "forearm_roll"]
      >>> planar = artix.lock_joints(arm, artix.neutral_state(arm), rolls)
      >>> print(planar.topology.dof_names)
      ('shoulder_pitch', 'elbow', 'wrist_pitch', 'wrist_roll')
    """
    topology = articulation.topology
    check_state(articulation, state)
    if isinstance(joints, str):
        raise TypeError(f"joints must be a sequence of names; found the one string {joints!r}")
    dofs = [np.arange(topology.num_dofs)[topology.dofs(joint)] for joint in joints]
    kept = np.setdiff1d(np.arange(topology.num_dofs), np.concatenate([np.zeros(0, int), *dofs]))
    locked = [k > 0 and topology.joint_names[k - 1] in joints for k in range(topology.num_links)]
    number = np.full(topology.num_dofs, -1)
    number[kept] = np.arange(len(kept))
    structure, listed = _kept_couplings(articulation, topology, number)
    reduced = dataclasses.replace(
        topology,
        joint_types=tuple(
            JointType.FIX if fix else kind
            for kind, fix in zip(topology.joint_types, locked, strict=True)
        ),
        joint_axes=tuple(
            () if fix else axes for axes, fix in zip(topology.joint_axes, locked, strict=True)
        ),
        **structure,
    )
    reduced = dataclasses.replace(reduced, geometry_pairs=moving_pairs(reduced))
    arrays = {name: _take(getattr(articulation, name), kept) for name in PER_DOF}
    poses = _locked_poses(articulation, np.array(locked), state.joint_position)
    changed = articulation.replace(topology=reduced, joint_parent_pose=poses, **arrays, **listed)
    return without(changed, articulation.absent)


def attach_articulation(
    parent: Articulation,
    link: str,
    child: Articulation,
    joint: Joint | None = None,
    *,
    prefix: str = "",
) -> Articulation:
    """Attaches the root of one articulation to a link of another, Pinocchio's ``appendModel``.

    The child's root, whether its base was fixed or floating, becomes a link on ``joint``.
    Everything else is kept, except that the parent's gravity applies to the child. Links are
    renumbered breadth-first, with the child's last among siblings, so address links, joints and
    DOFs by name.

    Args:
      parent: the articulation to attach to.
      link: name of the parent's link that carries the child.
      child: the articulation to attach.
      joint: the joint between them: ``parent_pose`` in the link's frame, ``child_pose`` in the
        child's root frame. When ``None``, a fixed joint with coinciding frames;
        ``Joint.fixed(parent_pose=...)`` places the child.
      prefix: prepended to every name of the child, for example to tell two hands apart.

    Returns:
      One articulation with the parent's name.

    Raises:
      KeyError: the parent has no link with this name.
      ValueError: two parts would share a name, one of the joint's numbers is out of range, or a
        loop joint ties the child to the world.
      TypeError: their dtypes differ, or the joint is a composite one.

    Examples:
      >>> arm, pendulum = artix.robots.load("arm7"), artix.robots.load("double_pendulum")
      >>> both = artix.attach_articulation(arm, "tool", pendulum, prefix="load_")
      >>> print(both.topology.num_dofs, both.topology.dof_names[-2:])
      9 ('load_shoulder', 'load_elbow')
    """
    above = parent.topology
    below = _prefix(child.topology, prefix)
    if parent.dtype != child.dtype:
        raise TypeError(
            f"parent and child must have one dtype; found {parent.dtype} and {child.dtype}; "
            "convert with astype(...)"
        )
    if not isinstance(joint, Joint | None):
        raise TypeError(
            f"joint must be one Joint, found {joint!r}; begin the child with the links of a "
            "composite one"
        )
    bridge = _bridge(Joint.fixed() if joint is None else joint, below.link_names[0], parent.dtype)
    topology, order, dof_order = _breadth_first(
        _concatenate(above, bridge.topology, below, above.link_index(link))
    )
    child = child.replace(
        joint_parent_pose=with_entries(
            child.joint_parent_pose, 0, entries(bridge.joint_parent_pose, 1)
        ),
        joint_child_pose=with_entries(
            child.joint_child_pose, 0, entries(bridge.joint_child_pose, 1)
        ),
    )
    arrays = {name: _join_arrays(name, (parent, child), order) for name in PER_LINK}
    arrays |= {name: _join_arrays(name, (parent, bridge, child), dof_order) for name in PER_DOF}
    arrays |= {name: _join_arrays(name, (parent, child), None) for name in _LISTED}
    shapes = np.argsort([shape.link for shape in topology.geometries], kind="stable").astype(int)
    arrays["geometry"] = arrays["geometry"].select(topology.geometries, shapes)
    topology = dataclasses.replace(
        topology,
        geometries=tuple(topology.geometries[k] for k in shapes),
        drawn_shapes=_drawn_together((parent, above), (child, below)),
    )
    lacking = {*parent.absent}.intersection(bridge.absent, child.absent)
    return without(parent.replace(topology=topology, **arrays), lacking)


def _take(group: Any, index: np.ndarray) -> Any:
    """Entries of an array, or of all arrays of a group, along their first axes."""
    return jax.tree.map(lambda leaf: entries(leaf, index), group)


# --- locking ------------------------------------------------------------------------------------


@compiled
def _locked_poses(articulation: Articulation, locked: np.ndarray, q: Array) -> Array:
    """The parent poses of all joints, [L, 7], displaced where a joint is ``locked`` [L] at its
    position in ``q``.
    """
    parent = articulation.joint_parent_pose
    displaced = Transforms.from_poses(parent) @ _joint_placements(articulation, q)
    return jnp.where(locked[:, None], displaced.poses(), parent)


def _joint_placements(articulation: Articulation, q: Array) -> Transforms:
    """The displacement J(q) of every joint (L items)."""
    topology = articulation.topology
    dofs = np.arange(topology.num_dofs)

    def by_axis(values: Array) -> Array:
        rows = (
            jnp.zeros((3, topology.num_dofs), q.dtype).at[topology.dof_axis % 3, dofs].set(values)
        )
        return masked_sum(rows, topology.dof_link[:, None] == np.arange(topology.num_links)[None])

    linear = topology.dof_is_linear
    slide = jnp.where(linear, q, screw_pitches(articulation) * q)
    turn = jnp.where(linear, jnp.zeros_like(q), q)
    return Transforms(spatial.quaternion_exp(by_axis(turn)), by_axis(slide))


def _kept_couplings(
    articulation: Articulation, topology: Topology, number: np.ndarray
) -> tuple[dict, dict]:
    """The static structure and the arrays of the mimic joints and fixed tendons without locked
    joints.

    ``number`` [n] holds the new numbers of the DOFs, -1 for locked ones.
    """
    mimics = topology.mimic_dofs
    tendons = topology.fixed_tendons
    mimic_names = [f"mimic joint {topology.dof_names[follower]!r}" for follower, _ in mimics]
    kept_mimics = [
        k for k, pair in enumerate(mimics) if _is_free(mimic_names[k], topology, pair, number)
    ]
    free = [
        _is_free(f"fixed tendon {tendon.name!r}", topology, tendon.dofs, number)
        for tendon in tendons
    ]
    kept_tendons = [k for k, is_free in enumerate(free) if is_free]
    owner = np.array([k for k, tendon in enumerate(tendons) for _ in tendon.dofs], int)
    kept_joints = np.flatnonzero(np.isin(owner, kept_tendons))
    arrays = articulation.fixed_tendons
    per_joint = {"coefficient", "recip_coefficient"}
    kept_arrays = {
        field.name: entries(
            getattr(arrays, field.name),
            kept_joints if field.name in per_joint else np.array(kept_tendons, int),
        )
        for field in dataclasses.fields(arrays)
    }
    structure = {
        "mimic_dofs": tuple(
            (int(number[mimics[k][0]]), int(number[mimics[k][1]])) for k in kept_mimics
        ),
        "fixed_tendons": tuple(
            dataclasses.replace(tendons[k], dofs=tuple(int(number[dof]) for dof in tendons[k].dofs))
            for k in kept_tendons
        ),
    }
    listed = {
        "mimic": _take(articulation.mimic, np.array(kept_mimics, int)),
        "fixed_tendons": arrays.replace(**kept_arrays),
    }
    return structure, listed


def _is_free(what: str, topology: Topology, dofs: Sequence[int], number: np.ndarray) -> bool:
    """Whether none of the DOFs is locked; raises where some are and some are not."""
    locked = [topology.dof_names[dof] for dof in dofs if number[dof] < 0]
    free = [topology.dof_names[dof] for dof in dofs if number[dof] >= 0]
    if locked and free:
        raise ValueError(
            f"{what} couples {locked}, to be locked, to {free}; lock all of them or none"
        )
    return not locked


# --- attaching ----------------------------------------------------------------------------------


def _bridge(joint: Joint, link: str, dtype: Any) -> Articulation:
    """Two links and the joint between them, checked by a builder."""
    builder = ArticulationBuilder(fixed_base=True)
    builder.add_link(name=f"parent of {link}")
    builder.add_link(0, joint, name=link)
    return builder.build(dtype)


def _prefix(topology: Topology, prefix: str) -> Topology:
    """The topology with a prefix before every name."""

    def renamed(items: Sequence) -> tuple:
        return tuple(dataclasses.replace(item, name=prefix + item.name) for item in items)

    return dataclasses.replace(
        topology,
        link_names=tuple(prefix + name for name in topology.link_names),
        joint_names=tuple(prefix + name for name in topology.joint_names),
        frame_names=tuple(prefix + name for name in topology.frame_names),
        fixed_tendons=renamed(topology.fixed_tendons),
        spatial_tendons=renamed(topology.spatial_tendons),
        loop_joints=renamed(topology.loop_joints),
        geometries=renamed(topology.geometries),
        geometry_pairs=tuple((prefix + a, prefix + b) for a, b in topology.geometry_pairs),
        drawn_shapes=tuple((prefix + link, shape) for link, shape in topology.drawn_shapes),
    )


def _concatenate(above: Topology, bridge: Topology, below: Topology, at: int) -> Topology:
    """The links of the parent, then the links of the child, numbered in this order, which is not
    breadth-first.

    The joint of the two-link ``bridge`` attaches the child's root to link ``at`` of the parent.
    """
    count = above.num_links
    first = above.num_dofs + bridge.num_dofs
    for joint in below.loop_joints:
        if joint.link_a < 0:
            raise ValueError(
                f"loop joint {joint.name!r} ties the child to the world, which is undefined once "
                "it is attached; remove it first"
            )
    couplings = _renumber(
        below, count + np.arange(below.num_links), first + np.arange(below.num_dofs)
    )
    for kind in ("fixed_tendons", "spatial_tendons", "loop_joints"):
        _check_names(
            kind[:-1].replace("_", " "),
            [item.name for item in (*getattr(above, kind), *couplings[kind])],
        )
    _check_names(
        "geometry", [shape.name for shape in (*above.geometries, *couplings["geometries"])]
    )
    joined = dataclasses.replace(
        above,
        parent=(*above.parent, at, *(count + number for number in below.parent[1:])),
        joint_types=(*above.joint_types, bridge.joint_types[1], *below.joint_types[1:]),
        joint_axes=(*above.joint_axes, bridge.joint_axes[1], *below.joint_axes[1:]),
        link_names=above.link_names + below.link_names,
        joint_names=above.joint_names + bridge.joint_names + below.joint_names,
        creation_index=(
            *above.creation_index,
            *(count + number for number in below.creation_index),
        ),
        **{kind: getattr(above, kind) + parts for kind, parts in couplings.items()},
    )
    _check_names("link or frame", joined.link_names + joined.frame_names)
    _check_names("joint", joined.joint_names)
    return joined


def _check_names(kind: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{kind} names of parent and child must differ; both have {', '.join(twice)}; give a "
            "prefix="
        )


def _breadth_first(topology: Topology) -> tuple[Topology, np.ndarray, np.ndarray]:
    """A topology with its links in breadth-first order, siblings in the order of their creation.

    Returns:
      The topology, and the previous numbers of its links [L] and of its DOFs [n].
    """
    children: list[list[int]] = [[] for _ in topology.parent]
    for link in sorted(
        range(1, topology.num_links), key=lambda link: topology.creation_index[link]
    ):
        children[topology.parent[link]].append(link)
    order = [0]
    for link in order:
        order += children[link]
    links = np.argsort(order)
    dof_order = (
        np.argsort(links[topology.dof_link], kind="stable")
        if topology.num_dofs
        else np.zeros(0, int)
    )
    ordered = dataclasses.replace(
        topology,
        parent=tuple(-1 if link == 0 else int(links[topology.parent[link]]) for link in order),
        joint_types=tuple(topology.joint_types[link] for link in order),
        joint_axes=tuple(topology.joint_axes[link] for link in order),
        link_names=tuple(topology.link_names[link] for link in order),
        joint_names=tuple(topology.joint_names[link - 1] for link in order[1:]),
        creation_index=tuple(topology.creation_index[link] for link in order),
        **_renumber(topology, links, np.argsort(dof_order)),
    )
    return ordered, np.array(order), dof_order


def _renumber(topology: Topology, links: np.ndarray, dofs: np.ndarray) -> dict[str, Any]:
    """Frames and couplings of a topology with new numbers of its links and DOFs."""
    return {
        "frame_names": topology.frame_names,
        "frame_links": tuple(int(links[link]) for link in topology.frame_links),
        "mimic_dofs": tuple((int(dofs[a]), int(dofs[b])) for a, b in topology.mimic_dofs),
        "fixed_tendons": tuple(
            dataclasses.replace(
                tendon,
                root_link=int(links[tendon.root_link]),
                dofs=tuple(int(dofs[dof]) for dof in tendon.dofs),
            )
            for tendon in topology.fixed_tendons
        ),
        "spatial_tendons": tuple(
            dataclasses.replace(tendon, links=tuple(int(links[link]) for link in tendon.links))
            for tendon in topology.spatial_tendons
        ),
        "loop_joints": tuple(
            dataclasses.replace(
                joint,
                link_a=joint.link_a if joint.link_a < 0 else int(links[joint.link_a]),
                link_b=int(links[joint.link_b]),
            )
            for joint in topology.loop_joints
        ),
        "geometries": tuple(
            dataclasses.replace(shape, link=int(links[shape.link])) for shape in topology.geometries
        ),
        "geometry_pairs": topology.geometry_pairs,
    }


def _drawn_together(
    *parts: tuple[Articulation, Topology],
) -> tuple[tuple[str, Geometry], ...]:
    """What is drawn of all parts, where it is not the shapes of the whole."""
    if not any(topology.drawn_shapes for _, topology in parts):
        return ()
    every = [topology.drawn_shapes or _shapes(robot, topology) for robot, topology in parts]
    return tuple(one for shapes in every for one in shapes)


def _join_arrays(name: str, parts: Sequence[Articulation], order: np.ndarray | None) -> Any:
    """Concatenates the arrays called ``name`` of all parts and permutes them by ``order``, if
    any.
    """
    joined = jax.tree.map(
        lambda *leaves: concatenate(leaves), *(getattr(part, name) for part in parts)
    )
    return joined if order is None else _take(joined, order)


def select_geometry(
    articulation: Articulation, touching: Collection[str], *, sensors: Collection[str] = ()
) -> Articulation:
    """The articulation with only some of its shapes.

    Every candidate of every shape is a contact in each step, near the ground or not. If a
    description has shapes all over a robot, keep the feet, and as sensors for terminations those
    that touch the ground when it falls.

    Args:
      articulation: the articulation; its arrays may be traced or have leading batch axes.
      touching: names of the shapes that exert forces.
      sensors: names of the shapes that only measure their distance.

    Returns:
      The articulation with these shapes, in the previous order, and the previous pairs among them.
      A viewer still draws all the shapes that it had.

    Raises:
      KeyError: there is no shape with one of the names; the message lists the shapes.
      ValueError: a name is in both collections.
      TypeError: a single string is passed for names.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> front = artix.select_geometry(
      ...     robot, ["front_left_foot", "front_right_foot"], sensors=["rear_left_foot"]
      ... )
      >>> print([(shape.name, shape.sensor) for shape in front.topology.geometries])
      [('front_left_foot', False), ('front_right_foot', False), ('rear_left_foot', True)]
    """
    topology = articulation.topology
    for names in (touching, sensors):
        if isinstance(names, str):
            raise TypeError(f"names of shapes must be a sequence; found the one string {names!r}")
    twice = sorted(set(touching) & set(sensors))
    if twice:
        raise ValueError(f"{', '.join(twice)}: a shape is either touching or a sensor")
    kept = np.array(sorted({topology.geometry_index(name) for name in (*touching, *sensors)}), int)
    structures = [topology.geometries[k] for k in kept]
    arrays = articulation.geometry.select(
        topology.geometries, kept, axis=articulation.link_mass.ndim - 1
    )
    selected = tuple(
        dataclasses.replace(shape, sensor=shape.name in sensors) for shape in structures
    )
    names = {shape.name for shape in selected}
    pairs = tuple((a, b) for a, b in topology.geometry_pairs if a in names and b in names)
    drawn = topology.drawn_shapes or _shapes(articulation, topology)
    kept_topology = dataclasses.replace(
        topology, geometries=selected, geometry_pairs=pairs, drawn_shapes=drawn
    )
    return without(
        articulation.replace(topology=kept_topology, geometry=arrays), articulation.absent
    )


def _shapes(articulation: Articulation, topology: Topology) -> tuple[tuple[str, Geometry], ...]:
    """All shapes with the names of their links, of the first robot of a batch; none if their
    numbers are traced.
    """
    arrays = articulation.geometry
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arrays)):
        return ()
    arrays = jax.tree.map(
        lambda leaf: np.asarray(leaf)[(0,) * (articulation.link_mass.ndim - 1)], arrays
    )
    shapes = [geometry_at(topology.geometries, arrays, k) for k in range(len(topology.geometries))]
    return tuple(
        (topology.link_names[one.link], shape)
        for one, shape in zip(topology.geometries, shapes, strict=True)
    )


def select_geometry_pairs(
    articulation: Articulation, pairs: Sequence[tuple[str, str]]
) -> Articulation:
    """The articulation with exactly these pairs of shapes colliding with each other.

    Pairs collide in every step with ``solver="implicit"``, with or without a ground; all other
    shapes pass through each other. To let a shape collide in its pairs but not with the ground,
    make it a sensor.

    Args:
      articulation: the articulation; its arrays may be traced or have leading batch axes.
      pairs: pairs of names of shapes on links that move relative to each other; empty for a robot
        that passes through itself.

    Returns:
      The articulation with these pairs.

    Raises:
      ValueError: a name is unknown, two shapes cannot collide, or a pair is given twice.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> robot = artix.select_geometry_pairs(robot, [("front_left_foot", "front_right_foot")])
      >>> print(robot.topology.geometry_pairs)
      (('front_left_foot', 'front_right_foot'),)
    """
    topology = articulation.topology
    return articulation.replace(
        topology=dataclasses.replace(topology, geometry_pairs=checked_pairs(topology, pairs))
    )


def possible_geometry_pairs(articulation: Articulation) -> tuple[tuple[str, str], ...]:
    """All pairs of shapes that could collide with each other, to choose from.

    Left out are sensors, hulls of more than 64 points, shapes that do not move relative to each
    other, and shapes on neighbouring links, which usually overlap at their joint. Links are
    neighbours if one is the nearest ancestor with shapes of the other.
    Pinocchio's ``addAllCollisionPairs`` includes neighbours.

    Returns:
      Pairs of names of shapes.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> every = artix.editing.possible_geometry_pairs(robot)
      >>> print(len(every))  # of four feet
      6
      >>> front = [pair for pair in every if all("front" in name for name in pair)]
      >>> print(artix.select_geometry_pairs(robot, front).topology.geometry_pairs)
      (('front_left_foot', 'front_right_foot'),)
    """
    return candidate_pairs(articulation.topology)


class MimicMap(struct.PyTreeNode):
    """``nu = G nu_r`` and ``q = G_j q_r + offset``, with G_j the rows and columns of G that belong
    to joints.

    It reduces quantities of the full articulation to those of the articulation without its
    followers: the mass matrix is ``G^T M G``, generalised forces are ``G^T tau``, Jacobians
    ``J G``. G is constant, so accelerations map like velocities, and Coriolis forces like other
    forces.

    Attributes:
      matrix: G, shape [nv, nr].
      offset: constant part of the positions, shape [n] [rad or m]; zero except for followers.
      independent: indices of the DOFs that follow no other, ascending: the entries of ``q_r``;
        static.

    Examples:
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> # the elbow turns back what the shoulder turns
      >>> builder.add_mimic("elbow", "shoulder", gear_ratio=1.0)
      >>> pendulum = builder.build()
      >>> following = artix.mimic_map(pendulum)
      >>> whole = artix.mass_matrix(pendulum, artix.neutral_state(pendulum))
      >>> print(following.matrix.T @ whole @ following.matrix)  # the lower rod keeps its direction
      [[1.334]]
    """

    matrix: Array
    offset: Array
    independent: tuple[int, ...] = struct.field(pytree_node=False)

    def expand(self, state: State) -> State:
        """The full state of a reduced state, whose joint arrays have only the independent DOFs,
        shape [nr - base].
        """
        base = self.matrix.shape[0] - self.offset.shape[0]
        joints = self.matrix[base:, base:]
        return state.replace(
            joint_position=matmul(joints, state.joint_position) + self.offset,
            joint_velocity=matmul(joints, state.joint_velocity),
        )

    def reduce(self, state: State) -> State:
        """The reduced state of a full state; the positions and velocities of followers are
        ignored.
        """
        index = np.array(self.independent, int)
        return state.replace(
            joint_position=state.joint_position[index], joint_velocity=state.joint_velocity[index]
        )


def mimic_map(articulation: Articulation) -> MimicMap:
    """The linear map that an articulation's mimic joints define, Pinocchio's ``JointModelMimic``.

    Every relation ``q_follower + gear_ratio q_reference + offset = 0`` holds exactly, even one that
    is compliant in stepping. A follower may be followed in turn.

    Args:
      articulation: the articulation; without mimic joints the map is the identity.

    Returns:
      The map ``q = G q_r + offset`` from the independent DOFs to all.

    Raises:
      ValueError: joints follow each other in a circle, or one of them has several DOFs, as
        spherical joints do.

    Identity: ``inverse_dynamics`` of an expanded state, for the acceleration ``G a``, times ``G^T``
    is ``G^T M G a + G^T bias_force``.

    Examples:
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> builder.add_mimic("elbow", "shoulder", gear_ratio=-0.5)
      >>> following = artix.mimic_map(builder.build())
      >>> print(following.matrix, following.independent)
      [[1. ]
       [0.5]] (0,)
    """
    topology = articulation.topology
    return MimicMap(*_map(articulation), _independent(topology))


@compiled
def _map(articulation: Articulation) -> tuple[Array, Array]:
    """G and the constant part of the positions. Raises as :func:`mimic_map`."""
    topology = articulation.topology
    mimic = articulation.mimic
    dtype = articulation.dtype
    n = topology.num_dofs
    base = topology.num_base_dofs
    above = dict(topology.mimic_dofs)
    followers, references = (
        np.array([pair[side] for pair in topology.mimic_dofs], int) for side in (0, 1)
    )
    follow = jnp.zeros((n, n), dtype).at[followers, references].set(-mimic.gear_ratio)
    shift = jnp.zeros(n, dtype).at[followers].set(-mimic.offset)
    identity = jnp.eye(n, dtype=dtype)[:, np.array(_independent(topology), int)]
    joints, offset = identity, shift
    for _ in range(max((_depth(topology, above, follower) for follower in above), default=0)):
        joints, offset = identity + matmul(follow, joints), shift + matmul(follow, offset)
    root = jnp.pad(jnp.eye(base, dtype=dtype), ((0, 0), (0, joints.shape[1])))
    return jnp.concatenate([root, jnp.pad(joints, ((0, 0), (base, 0)))]), offset


def _independent(topology: Topology) -> tuple[int, ...]:
    """The DOFs that follow no other."""
    followers = {follower for follower, _ in topology.mimic_dofs}
    return tuple(dof for dof in range(topology.num_dofs) if dof not in followers)


def _depth(topology: Topology, above: dict[int, int], follower: int) -> int:
    """The number of relations between a follower and the independent DOF that it ultimately
    follows.
    """
    path = [follower]
    while path[-1] in above:
        path.append(above[path[-1]])
        names = [topology.dof_names[dof] for dof in path]
        if topology.dof_is_one_of_several[path[-2:]].any():
            raise ValueError(
                f"mimic joint {names[-2]!r}: a joint of several DOFs has no linear map; see "
                f"{names[-1]!r}"
            )
        if path[-1] in path[:-1]:
            raise ValueError(
                f"mimic joints follow each other in a circle: {' -> '.join(names)}; drop one "
                "relation"
            )
    return len(path) - 1
