"""The columns of the Jacobians of all joints, and the unit displacements of closed-form
derivatives.

Column k of the joint Jacobian is the unit motion S_k of entry k of the generalised velocity about
the world's origin; the Jacobian of a link in ``"world"`` axes consists of the columns of the DOFs
that move it. The names follow Carpentier and Mansard, RSS 2018, and Singh, Russell and Wensing,
T-RO 2024: ``dJ = v x S``, ``psi' = v_above x S``, ``psi'' = a_above x S + v_above x psi'``. Since
all are about the world's origin, float32 loses digits far away from it;
:func:`artix.frame_jacobian` does not.

The displacements of a configuration are, in this order: three rotations of the root about the
world's axes through its centre of mass, one displacement per DOF, and one per spherical joint with
two free axes, since a changing rotation vector also rotates such a joint about its locked axis.
Translations of the root do not affect the dynamics and have no column.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    generalized_motions,
    kinematics,
    motion_cross,
    motion_rates,
    root_motion,
)
from artix.kinematics.tree import by_body
from artix.math import spatial
from artix.math.arrays import identity, masked_sum, take
from artix.math.spatial import Motion
from artix.math.tangents import is_zero
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array
NUM_ROOT = 3


class Displacements(NamedTuple):
    """Where the c unit displacements act."""

    body: np.ndarray
    """The body that each displaces, along with all bodies below it, [c]."""
    above: np.ndarray
    """The parent body, which stays; 0 for the root's rotations, since its velocity keeps its world
    components, [c]."""
    sums: np.ndarray
    """Column of the subtree sums (the whole tree, then one per DOF) that covers the displaced
    bodies, [c]."""
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
    """The motions of the unit displacements, [3, c] each; ``motions`` are the motions of the
    DOFs.
    """
    unit = identity(NUM_ROOT, motions.angular.dtype)
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
    """The changes by all unit displacements, from the motions of the DOFs (``joints``) and of the
    bodies.
    """
    above = displacements(tree).above
    return changes_below(
        velocity.take(above), acceleration.take(above), displacement_motions(tree, kin, joints)
    )


def changes_below(velocity: Motion, acceleration: Motion, motions: Motion) -> Changes:
    """The changes by unit displacements ``motions``, from the motions of the bodies above them."""
    first = motion_cross(velocity, motions)
    second = map(jnp.add, motion_cross(acceleration, motions), motion_cross(velocity, first))
    return Changes(motions, first, Motion(*second))


def changes_by_velocity(tree: Topology, joints: Motion, velocity: Motion, first: Motion) -> Motion:
    """Change of all accelerations except for ``- v x S_c`` by unit velocities, the root's angular
    first, [3, 3 + n].
    """
    count = NUM_ROOT + tree.num_dofs
    if tree.has_spherical:
        rates = motion_rates(tree, velocity, joints)
    else:
        # The body of a joint's only DOF moves relative to its parent along that DOF, which
        # changes nothing.
        rates = Motion(*(part[:, NUM_ROOT:count] for part in first))
    padded = (jnp.pad(part, ((0, 0), (NUM_ROOT, 0))) for part in rates)
    return Motion(*(part[:, :count] + rate for part, rate in zip(first, padded, strict=True)))


def displacement_from_tangents(
    tree: Topology, state: State, root_pose, joint_position
) -> Array | None:
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
        root = (2 * spatial.quaternion_product(rate, spatial.conjugate(q))[:3] / spatial.dot(q, q))[
            :, 0
        ]
    if is_zero(joint_position):
        return jnp.concatenate([root, jnp.zeros(len(displacements(tree).body) - NUM_ROOT, dtype)])
    if not tree.has_spherical:
        return jnp.concatenate([root, joint_position])
    turn = spatial.apply(
        spatial.right_jacobian(by_body(tree, state.joint_position)), by_body(tree, joint_position)
    )
    width = tree.num_bodies - 1
    turns = take(turn.reshape(-1), tree.dof_column * width + tree.dof_body - 1)
    joints = jnp.where(tree.dof_is_spherical, turns, joint_position)
    bodies, locked = _two_axes(tree)
    return jnp.concatenate([root, joints, turn[locked, bodies - 1]])


def displaced_bodies(
    tree: Topology, kin: Kinematics, motions: Motion, displacement: Array
) -> Motion:
    """Motions [3, B] of all bodies along a displacement [c]; ``motions`` are the motions of the
    DOFs.
    """
    columns = jnp.concatenate(displacement_motions(tree, kin, motions)) * displacement[None]
    return Motion.from_rows(displaced_sums(tree, columns))


def displaced_sums(tree: Topology, columns: Array) -> Array:
    """For each body, the sum of those columns [k, c] whose unit displacements move it, [k, B]."""
    return masked_sum(columns, tree.bodies_below[:, displacements(tree).sums].T)


def generalized_columns(tree: Topology, columns: Array) -> Array:
    """Columns per unit displacement, or per angular and joint velocity, as columns per entry of
    ``nu``, [..., nv].

    The columns of the root's translation are zero.
    """
    count = NUM_ROOT + tree.num_dofs
    if tree.num_base_dofs == 0:
        return columns[..., NUM_ROOT:count]
    root = columns[..., :NUM_ROOT]
    return jnp.concatenate([jnp.zeros_like(root), root, columns[..., NUM_ROOT:count]], axis=-1)


# --- Jacobians of all joints --------------------------------------------------------------------


class JointMotionDerivatives(NamedTuple):
    """Derivatives of the motion of everything a DOF moves, about the world's origin, [6, nv] each.

    The columns of the DOFs that move a link with velocity v and acceleration a give its
    derivatives: its velocity changes with the configuration by
    ``velocity_by_configuration + S x v``, its acceleration by ``acceleration_by_configuration - v x
    velocity_by_configuration + S x a``; with the velocity its acceleration changes by
    ``acceleration_by_velocity - v x S``.

    Attributes:
      velocity_by_configuration: Pinocchio's ``dVdq`` and ``psid`` [m/s or 1/s].
      acceleration_by_configuration: Pinocchio's ``psidd``, and ``dAdq`` without gravity
        [m/s^2 or 1/s^2].
      acceleration_by_velocity: Pinocchio's ``dAdv`` [m/s or 1/s].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.kinematics.joint_motion_derivatives(arm, state, jnp.zeros(7))
      >>> print(derivatives.velocity_by_configuration.shape)
      (6, 7)
    """

    velocity_by_configuration: Array
    acceleration_by_configuration: Array
    acceleration_by_velocity: Array


@quantity
def joint_jacobians(articulation: Articulation, state: State) -> Array:
    """The Jacobian columns of all joints about the world's origin, Pinocchio's ``J``.

    Returns:
      Shape [6, nv] [m or 1], linear rows first, world axes.

    Identity: ``frame_jacobian(a, s, link, axes="world")`` has the columns of the DOFs that move the
    link.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> columns = artix.kinematics.joint_jacobians(arm, state)
      >>> print(
      ...     jnp.allclose(
      ...         columns, artix.frame_jacobian(arm, state, "tool", axes="world"), atol=1e-5
      ...     )
      ... )
      True
    """
    kin = kinematics(articulation, state)
    return _about_world(kin, _motions(articulation, kin))


@quantity
def joint_jacobians_rate(articulation: Articulation, state: State) -> Array:
    """Rate of change of :func:`joint_jacobians` at the state's velocity, Pinocchio's ``dJ``.

    Returns:
      Shape [6, nv] [m/s or 1/s], linear rows first, world axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> # the elbow's axis moves along -x
      >>> print(artix.kinematics.joint_jacobians_rate(pendulum, turning)[:3, 1])
      [ 0.  0. -1.]
    """
    kin = kinematics(articulation, state)
    motions = _motions(articulation, kin)
    velocity, _ = _fixed_point_motions(articulation, kin, state, None)
    carrier = _carriers(articulation, velocity, state.root_velocity)
    return _about_world(kin, motion_cross(carrier, motions))


@quantity
def joint_jacobians_second_rate(
    articulation: Articulation, state: State, acceleration: Array
) -> Array:
    """Second rate of change of :func:`joint_jacobians`, which Pinocchio declares as ``ddJ``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      Shape [6, nv] [m/s^2 or 1/s^2], linear rows first, world axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> print(
      ...     artix.kinematics.joint_jacobians_second_rate(pendulum, turning, jnp.zeros(2))[:3, 1]
      ... )
      [-1.  0.  0.]
    """
    base = articulation.topology.num_base_dofs
    kin = kinematics(articulation, state)
    motions = _motions(articulation, kin)
    velocity, rate = _fixed_point_motions(articulation, kin, state, acceleration)
    carrier = _carriers(articulation, velocity, state.root_velocity)
    root = acceleration[:base] if base else jnp.zeros_like(state.root_velocity)
    by_acceleration = motion_cross(_carriers(articulation, rate, root), motions)
    return _about_world(
        kin, _add(by_acceleration, motion_cross(carrier, motion_cross(carrier, motions)))
    )


@quantity
def joint_motion_derivatives(
    articulation: Articulation, state: State, acceleration: Array
) -> JointMotionDerivatives:
    """Derivatives of the motion of everything each DOF moves, Pinocchio's ``dVdq``, ``dAdq`` and
    ``dAdv``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      The three matrices without gravity, shape [6, nv] each; their columns of the root's
      translation are zero.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> derivatives = artix.kinematics.joint_motion_derivatives(pendulum, turning, jnp.zeros(2))
      >>> print(derivatives.acceleration_by_velocity.shape)
      (6, 2)
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    motions = _motions(articulation, kin)
    velocity, rate = _fixed_point_motions(articulation, kin, state, acceleration)
    _, first, second = changes_below(_above(tree, velocity), _above(tree, rate), motions)
    rates = motion_cross(_carriers(articulation, velocity, state.root_velocity), motions)
    return JointMotionDerivatives(
        *(_about_world(kin, x) for x in (first, second, _add(first, rates)))
    )


@quantity
def joint_kinematic_hessians(articulation: Articulation, state: State) -> Array:
    """Derivatives of :func:`joint_jacobians` with respect to the configuration, Pinocchio's
    ``kinematic_hessians``.

    Returns:
      Shape [6, nv, nv] [m or 1]: ``[:, i, j]`` is the derivative of column i as the configuration
      moves along entry j, which is ``S_j x S_i`` if j carries joint i and zero otherwise.

    Identity: its product with nu over the last axis is :func:`joint_jacobians_rate`.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> hessians = artix.kinematics.joint_kinematic_hessians(arm, state)
      >>> rate = hessians @ artix.generalized_velocity(arm, state)
      >>> print(jnp.allclose(rate, artix.kinematics.joint_jacobians_rate(arm, state), atol=1e-4))
      True
    """
    kin = kinematics(articulation, state)
    columns = _about_world(kin, _motions(articulation, kin))
    return hessian_columns(articulation.topology, Motion.from_rows(columns))


def hessian_columns(tree: Topology, motions: Motion) -> Array:
    """``S_j x S_i`` where entry j moves the axis of entry i, zero elsewhere: ``[..., i, j]`` of
    [6, ..., nv, nv].
    """
    of_i = Motion(*(part[..., :, None] for part in motions))
    by_j = Motion(*(part[..., None, :] for part in motions))
    return jnp.concatenate(motion_cross(by_j, of_i)) * _carries(tree).astype(motions.linear.dtype)


def _carries(tree: Topology) -> np.ndarray:
    """``[i, j]``: whether a displacement along entry j moves the axis of entry i, [nv, nv].

    The root's own axes are the world's: only a translation moves them, with their origin, the
    root's centre of mass.
    """
    base = tree.num_base_dofs
    joints = tree.dof_ancestors.T
    if base == 0:
        return joints
    root = np.arange(tree.nv) < np.full((base, 1), NUM_ROOT)
    return np.concatenate(
        [root, np.concatenate([np.ones((tree.num_dofs, base), bool), joints], axis=1)]
    )


def _motions(articulation: Articulation, kin: Kinematics) -> Motion:
    """The unit motions of the generalised velocity about the reference point, [3, nv] each."""
    return Motion.from_rows(generalized_motions(articulation, kin))


def _about_world(kin: Kinematics, motion: Motion) -> Array:
    """Converts motions about the reference point to motions about the world's origin, [6, n]."""
    return jnp.concatenate(
        [motion.linear + spatial.cross(kin.reference[:, None], motion.angular), motion.angular]
    )


def _add(a: Motion, b: Motion) -> Motion:
    return Motion(a.linear + b.linear, a.angular + b.angular)


def _fixed_point_motions(
    articulation: Articulation, kin: Kinematics, state: State, acceleration: Array | None
) -> tuple[Motion, Motion]:
    """Velocities and spatial accelerations of the bodies about the reference point, in the world
    frame, [3, B] each.
    """
    tree = articulation.topology
    if acceleration is not None:
        check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    motions = _motions(articulation, kin)
    joints = Motion(*(part[:, tree.num_base_dofs :] for part in motions))
    velocity, rate = body_accelerations(tree, joints, state, acceleration)
    # From the inertial frame that moves with the root's centre of mass to the world.
    root = root_motion(tree, state.root_velocity).linear
    rate = Motion(rate.linear + spatial.cross(root, velocity.angular), rate.angular)
    return Motion(velocity.linear + root, velocity.angular), rate


def _carriers(articulation: Articulation, bodies: Motion, root: Array) -> Motion:
    """The motion that carries each column: the root's centre of mass for the root's, else the body,
    [3, nv] each.
    """
    tree = articulation.topology
    joints = bodies.take(tree.dof_body)
    if tree.num_base_dofs == 0:
        return joints
    linear = jnp.broadcast_to(root[:3, None], (3, tree.num_base_dofs))
    return Motion(
        jnp.concatenate([linear, joints.linear], axis=1),
        jnp.concatenate([jnp.zeros_like(linear), joints.angular], axis=1),
    )


def _above(tree: Topology, bodies: Motion) -> Motion:
    """Motion of the body above each entry, zero for the root's translation, [3, nv] each."""
    above = displacements(tree).above[: NUM_ROOT + tree.num_dofs]
    if tree.num_base_dofs == 0:
        above = above[NUM_ROOT:]
    return Motion(
        *(jnp.pad(part, ((0, 0), (tree.nv - len(above), 0))) for part in bodies.take(above))
    )
