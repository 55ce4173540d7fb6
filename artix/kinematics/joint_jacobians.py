"""The Jacobian columns of all joints about the world's origin, their rates and their derivatives.

Column k is the unit motion S_k of entry k of the generalised velocity; the Jacobian of a link in ``"world"`` axes
consists of the columns of the DOFs that move it. The names follow Carpentier and Mansard, RSS 2018, and Singh,
Russell and Wensing, T-RO 2024: ``dJ = v x S``, ``psi' = v_above x S``, ``psi'' = a_above x S + v_above x psi'``. Since
all are about the world's origin, float32 loses digits far away from it; :func:`artix.frame_jacobian` does not.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.displacements import NUM_ROOT, changes_below, displacements
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    generalized_motions,
    kinematics,
    motion_cross,
    root_motion,
)
from artix.math import spatial
from artix.math.spatial import Motion
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array


class JointMotionDerivatives(NamedTuple):
    """Derivatives of the motion of everything a DOF moves, about the world's origin, [6, nv] each.

    The columns of the DOFs that move a link with velocity v and acceleration a give its derivatives: its velocity
    changes with the configuration by ``velocity_by_configuration + S x v``, its acceleration by
    ``acceleration_by_configuration - v x velocity_by_configuration + S x a``; with the velocity its acceleration
    changes by ``acceleration_by_velocity - v x S``.

    Attributes:
      velocity_by_configuration: Pinocchio's ``dVdq`` and ``psid`` [m/s or 1/s].
      acceleration_by_configuration: Pinocchio's ``psidd``, and ``dAdq`` without gravity [m/s^2 or 1/s^2].
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

    Identity: ``frame_jacobian(a, s, link, axes="world")`` has the columns of the DOFs that move the link.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> columns = artix.kinematics.joint_jacobians(arm, state)
      >>> print(jnp.allclose(columns, artix.frame_jacobian(arm, state, "tool", axes="world"), atol=1e-5))
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
      >>> print(artix.kinematics.joint_jacobians_rate(pendulum, turning)[:3, 1])  # the elbow's axis moves along -x
      [ 0.  0. -1.]
    """
    kin = kinematics(articulation, state)
    motions = _motions(articulation, kin)
    velocity, _ = _fixed_point_motions(articulation, kin, state, None)
    carrier = _carriers(articulation, velocity, state.root_velocity)
    return _about_world(kin, motion_cross(carrier, motions))


@quantity
def joint_jacobians_second_rate(articulation: Articulation, state: State, acceleration: Array) -> Array:
    """Second rate of change of :func:`joint_jacobians`, which Pinocchio declares as ``ddJ``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      Shape [6, nv] [m/s^2 or 1/s^2], linear rows first, world axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> print(artix.kinematics.joint_jacobians_second_rate(pendulum, turning, jnp.zeros(2))[:3, 1])
      [-1.  0.  0.]
    """
    base = articulation.topology.num_base_dofs
    kin = kinematics(articulation, state)
    motions = _motions(articulation, kin)
    velocity, rate = _fixed_point_motions(articulation, kin, state, acceleration)
    carrier = _carriers(articulation, velocity, state.root_velocity)
    root = acceleration[:base] if base else jnp.zeros_like(state.root_velocity)
    by_acceleration = motion_cross(_carriers(articulation, rate, root), motions)
    return _about_world(kin, _add(by_acceleration, motion_cross(carrier, motion_cross(carrier, motions))))


@quantity
def joint_motion_derivatives(articulation: Articulation, state: State, acceleration: Array) -> JointMotionDerivatives:
    """Derivatives of the motion of everything each DOF moves, Pinocchio's ``dVdq``, ``dAdq`` and ``dAdv``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      The three matrices without gravity, shape [6, nv] each; their columns of the root's translation are zero.

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
    return JointMotionDerivatives(*(_about_world(kin, x) for x in (first, second, _add(first, rates))))


@quantity
def joint_kinematic_hessians(articulation: Articulation, state: State) -> Array:
    """Derivatives of :func:`joint_jacobians` with respect to the configuration, Pinocchio's ``kinematic_hessians``.

    Returns:
      Shape [6, nv, nv] [m or 1]: ``[:, i, j]`` is the derivative of column i as the configuration moves along entry j,
      which is ``S_j x S_i`` if j carries joint i and zero otherwise.

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
    """``S_j x S_i`` where entry j moves the axis of entry i, zero elsewhere: ``[..., i, j]`` of [6, ..., nv, nv]."""
    of_i = Motion(*(part[..., :, None] for part in motions))
    by_j = Motion(*(part[..., None, :] for part in motions))
    return jnp.concatenate(motion_cross(by_j, of_i)) * _carries(tree).astype(motions.linear.dtype)


def _carries(tree: Topology) -> np.ndarray:
    """``[i, j]``: whether a displacement along entry j moves the axis of entry i, [nv, nv].

    The root's own axes are the world's: only a translation moves them, with their origin, the root's centre of mass.
    """
    base = tree.num_base_dofs
    joints = tree.dof_ancestors.T
    if base == 0:
        return joints
    root = np.arange(tree.nv) < np.full((base, 1), NUM_ROOT)
    return np.concatenate([root, np.concatenate([np.ones((tree.num_dofs, base), bool), joints], axis=1)])


def _motions(articulation: Articulation, kin: Kinematics) -> Motion:
    """The unit motions of the generalised velocity about the reference point, [3, nv] each."""
    return Motion.from_rows(generalized_motions(articulation, kin))


def _about_world(kin: Kinematics, motion: Motion) -> Array:
    """Converts motions about the reference point to motions about the world's origin, [6, n]."""
    return jnp.concatenate([motion.linear + spatial.cross(kin.reference[:, None], motion.angular), motion.angular])


def _add(a: Motion, b: Motion) -> Motion:
    return Motion(a.linear + b.linear, a.angular + b.angular)


def _fixed_point_motions(
    articulation: Articulation, kin: Kinematics, state: State, acceleration: Array | None
) -> tuple[Motion, Motion]:
    """Velocities and spatial accelerations of the bodies about the reference point, in the world frame, [3, B] each."""
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
    """The motion that carries each column: the root's centre of mass for the root's, else the body, [3, nv] each."""
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
    return Motion(*(jnp.pad(part, ((0, 0), (tree.nv - len(above), 0))) for part in bodies.take(above)))
