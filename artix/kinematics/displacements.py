"""The unit displacements of a configuration: the columns of every closed-form derivative.

They are, in this order: three rotations of the root about the world's axes through its centre of mass, one displacement
per DOF, and one per spherical joint with two free axes, since a changing rotation vector also rotates such a joint
about its locked axis. Translations of the root do not affect the dynamics and have no column.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.forward import Kinematics, motion_cross, motion_rates
from artix.kinematics.tree import by_body
from artix.math import spatial
from artix.math.arrays import masked_sum, take
from artix.math.spatial import Motion
from artix.math.tangents import is_zero
from artix.model.articulation import State
from artix.model.topology import Topology

Array = jax.Array
NUM_ROOT = 3


class Displacements(NamedTuple):
    """Where the c unit displacements act."""

    body: np.ndarray
    """The body that each displaces, along with all bodies below it, [c]."""
    above: np.ndarray
    """The parent body, which stays; 0 for the root's rotations, since its velocity keeps its world components, [c]."""
    sums: np.ndarray
    """Column of the subtree sums (the whole tree, then one per DOF) that covers the displaced bodies, [c]."""
    dof_is_above: np.ndarray
    """``[d, c]``: whether DOF d lies strictly above displacement c, [n, c]."""
    carries_dof: np.ndarray
    """``[d, c]``: whether displacement c moves the joint of DOF d, [n, c]."""


@functools.lru_cache(maxsize=256)
def displacements(tree: Topology) -> Displacements:
    """The unit displacements of a tree."""
    first = [int(np.flatnonzero(tree.dof_body == body)[0]) for body in _two_axes(tree)[0]]
    dofs = np.concatenate([np.arange(tree.num_dofs), np.array(first, int)]).astype(int)
    ancestors = tree.dof_ancestors
    root = np.zeros((tree.num_dofs, NUM_ROOT), bool)
    zero = np.zeros(NUM_ROOT, int)
    return Displacements(
        body=np.concatenate([zero, tree.dof_body[dofs]]),
        above=np.concatenate([zero, tree.body_parent[tree.dof_body[dofs]]]),
        sums=np.concatenate([zero, 1 + dofs]),
        dof_is_above=np.concatenate([root, (ancestors & ~ancestors.T)[:, dofs]], axis=1),
        carries_dof=np.concatenate([~root, ancestors.T[:, dofs]], axis=1),
    )


def _two_axes(tree: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Bodies whose spherical joints have two free axes, and the locked one of each."""
    locked = tree.body_dofs == tree.num_dofs
    bodies = np.flatnonzero(tree.body_is_spherical & (locked.sum(axis=0) == 1))
    return bodies, np.argmax(locked[:, bodies], axis=0)


def displacement_motions(tree: Topology, kin: Kinematics, motions: Motion) -> Motion:
    """The motions of the unit displacements, [3, c] each; ``motions`` are the motions of the DOFs."""
    unit = jnp.eye(NUM_ROOT, dtype=motions.angular.dtype)
    linear = [jnp.zeros_like(unit), motions.linear]
    angular = [unit, motions.angular]
    bodies, locked = _two_axes(tree)
    if bodies.size:
        axis = kin.rotation[:, locked, bodies]
        linear.append(spatial.cross(take(kin.position, bodies), axis))
        angular.append(axis)
    return Motion(jnp.concatenate(linear, axis=1), jnp.concatenate(angular, axis=1))


class Changes(NamedTuple):
    """How unit displacements change the motion of everything they move, [3, c] each.

    ``first`` and ``second`` are psi' and psi'' of Singh, Russell and Wensing (RA-L 2022).
    """

    motions: Motion
    """S_c, the unit displacements themselves."""
    first: Motion
    """Change of all velocities, seen from the moving bodies."""
    second: Motion
    """Change of all accelerations except for ``- v x first``, seen from the moving bodies."""


def changes_by_displacement(
    tree: Topology, kin: Kinematics, joints: Motion, velocity: Motion, acceleration: Motion
) -> Changes:
    """The changes by all unit displacements, from the motions of the DOFs (``joints``) and of the bodies."""
    above = displacements(tree).above
    return changes_below(velocity.take(above), acceleration.take(above), displacement_motions(tree, kin, joints))


def changes_below(velocity: Motion, acceleration: Motion, motions: Motion) -> Changes:
    """The changes by unit displacements ``motions``, from the motions of the bodies above them."""
    first = motion_cross(velocity, motions)
    second = map(jnp.add, motion_cross(acceleration, motions), motion_cross(velocity, first))
    return Changes(motions, first, Motion(*second))


def changes_by_velocity(tree: Topology, joints: Motion, velocity: Motion, first: Motion) -> Motion:
    """Change of all accelerations except for ``- v x S_c`` by unit velocities, the root's angular first, [3, 3 + n]."""
    count = NUM_ROOT + tree.num_dofs
    if tree.has_spherical:
        rates = motion_rates(tree, velocity, joints)
    else:  # the body of the only DOF of a joint moves relative to its parent along that DOF, which changes nothing
        rates = Motion(*(part[:, NUM_ROOT:count] for part in first))
    padded = (jnp.pad(part, ((0, 0), (NUM_ROOT, 0))) for part in rates)
    return Motion(*(part[:, :count] + rate for part, rate in zip(first, padded, strict=True)))


def displacement_from_tangents(tree: Topology, state: State, root_pose, joint_position) -> Array | None:
    """The displacement [c] equivalent to tangents of ``root_pose`` and ``joint_position``.

    Either tangent may be a symbolic zero; if both are, the result is ``None``.
    """
    if is_zero(root_pose) and is_zero(joint_position):
        return None
    dtype = state.root_pose.dtype
    root = jnp.zeros(NUM_ROOT, dtype)
    if not is_zero(root_pose):
        q = state.root_pose[3:, None]
        rate = root_pose[3:, None]
        root = (2 * spatial.quaternion_product(rate, spatial.conjugate(q))[:3] / spatial.dot(q, q))[:, 0]
    if is_zero(joint_position):
        return jnp.concatenate([root, jnp.zeros(len(displacements(tree).body) - NUM_ROOT, dtype)])
    if not tree.has_spherical:
        return jnp.concatenate([root, joint_position])
    turn = spatial.apply(spatial.right_jacobian(by_body(tree, state.joint_position)), by_body(tree, joint_position))
    width = tree.num_bodies - 1
    turns = take(turn.reshape(-1), tree.dof_column * width + tree.dof_body - 1)
    joints = jnp.where(tree.dof_is_spherical, turns, joint_position)
    bodies, locked = _two_axes(tree)
    return jnp.concatenate([root, joints, turn[locked, bodies - 1]])


def displaced_bodies(tree: Topology, kin: Kinematics, motions: Motion, displacement: Array) -> Motion:
    """Motions [3, B] of all bodies along a displacement [c]; ``motions`` are the motions of the DOFs."""
    columns = jnp.concatenate(displacement_motions(tree, kin, motions)) * displacement[None]
    return Motion.from_rows(masked_sum(columns, tree.bodies_below[:, displacements(tree).sums].T))


def generalized_columns(tree: Topology, columns: Array) -> Array:
    """Columns per unit displacement, or per angular and joint velocity, as columns per entry of ``nu``, [..., nv].

    The columns of the root's translation are zero.
    """
    count = NUM_ROOT + tree.num_dofs
    if tree.num_base_dofs == 0:
        return columns[..., NUM_ROOT:count]
    root = columns[..., :NUM_ROOT]
    return jnp.concatenate([jnp.zeros_like(root), root, columns[..., NUM_ROOT:count]], axis=-1)
