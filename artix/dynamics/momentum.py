"""Centre of mass and centroidal momentum."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation, State
from artix.bodies import Placement, body_inertias
from artix.dynamics.inertia import world_inertias
from artix.dynamics.inverse import body_forces
from artix.dynamics.mass_matrix import root_block, unit_momenta
from artix.kinematics import Kinematics, Motion, body_velocities, dof_motions, kinematics, root_motion

Array = jax.Array


def center_of_mass(articulation: Articulation, state: State, frame: Literal["world", "root"] = "world") -> Array:
    """Centre of mass of the whole articulation, PhysX's ``computeArticulationCOM``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: ``"world"``, or ``"root"`` for the root's mass frame (origin at its centre of mass, axes of its
        ``link_com_pose``), as PhysX's ``rootFrame`` means it.

    Returns:
      The position [m], shape [3].

    Raises:
      ValueError: an array has the wrong shape, or ``frame`` is neither of the two.
      TypeError: an array has another dtype than the articulation.
    """
    if frame not in ("world", "root"):
        raise ValueError(f"frame must be 'world' or 'root'; found {frame!r}")
    kin = kinematics(articulation, state)
    center = _center(articulation, kin)
    if frame == "world":
        return kin.reference + center[:, 0]
    axes = Placement.from_poses(articulation.link_com_pose[:1]).rotation
    return spatial.rotate_inverse(spatial.quaternion_product(kin.quaternion[:, :1], axes), center)[:, 0]


def center_of_mass_jacobian(articulation: Articulation, state: State) -> Array:
    """Jacobian of the centre of mass's velocity in world axes, Pinocchio's ``Jcom``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      Shape [3, nv].

    Identity: ``center_of_mass_jacobian(a, s) * total_mass`` is the linear part of the centroidal momentum matrix.
    """
    kin = kinematics(articulation, state)
    matrix, whole = _momentum_matrix(articulation, kin)
    return matrix[:3] / whole.mass[None]


def centroidal_momentum_matrix(articulation: Articulation, state: State) -> tuple[Array, Array]:
    """Matrix A and bias of the momentum about the centre of mass: ``h = A nu`` and ``dh/dt = A nu' + bias``.

    Orin, Goswami and Lee, *Centroidal dynamics of a humanoid robot*, Autonomous Robots 2013; Wensing and Orin 2016. Mirrors
    PhysX's ``computeCentroidalMomentumMatrix``, for fixed bases too.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      A, shape [6, nv], and the bias, shape [6]: linear [kg m/s, N], then angular about the centre of mass
      [kg m^2/s, N m], in world axes.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``A @ nu == centroidal_momentum(a, s)``.
    """
    kin = kinematics(articulation, state)
    matrix, whole = _momentum_matrix(articulation, kin)
    motions = dof_motions(articulation.topology, kin)
    force = jnp.sum(body_forces(articulation, kin, motions, state, None, gravity=False), axis=1, keepdims=True)
    center = whole.first_moment / whole.mass[None]
    return matrix, jnp.concatenate([force[:3], force[3:] - spatial.cross(center, force[:3])])[:, 0]


def centroidal_momentum(articulation: Articulation, state: State) -> Array:
    """Momentum about the centre of mass.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      Linear [kg m/s], then angular momentum about the centre of mass [kg m^2/s], world axes, shape [6].

    Identity: ``centroidal_momentum_matrix(a, s)[0] @ nu``.
    """
    kin = kinematics(articulation, state)
    linear, angular = body_momenta(articulation, kin, state)
    whole = Motion(jnp.sum(linear, axis=1, keepdims=True), jnp.sum(angular, axis=1, keepdims=True))
    center = _center(articulation, kin)
    return jnp.concatenate([whole.linear, whole.angular - spatial.cross(center, whole.linear)])[:, 0]


def body_momenta(articulation: Articulation, kin: Kinematics, state: State) -> Motion:
    """Momenta of the bodies about the reference point, linear and angular [3, B]."""
    tree = articulation.topology
    motions = dof_motions(tree, kin)
    velocity = body_velocities(tree, motions, root_motion(tree, state.root_velocity), state.joint_velocity)
    mass, moment, rotational = world_inertias(articulation, kin)
    origin = velocity.linear + spatial.cross(velocity.angular, kin.position)
    linear = mass[None] * origin + spatial.cross(velocity.angular, moment)
    angular = spatial.apply(rotational, velocity.angular) + spatial.cross(moment, origin)
    return Motion(linear, angular + spatial.cross(kin.position, linear))


def _center(articulation: Articulation, kin: Kinematics) -> Array:
    """Centre of mass relative to the reference point, [3, 1]."""
    body = body_inertias(articulation, kin.placements)
    moment = body.mass[None] * kin.position + spatial.apply(kin.rotation, body.first_moment)
    return jnp.sum(moment, axis=1, keepdims=True) / jnp.sum(body.mass)


def _momentum_matrix(articulation: Articulation, kin: Kinematics):
    tree = articulation.topology
    _, joints, whole = unit_momenta(articulation, kin)
    rows = jnp.concatenate(joints)
    if tree.num_base_dofs:
        root = root_block(whole)
        if tree.base_is_free is not None:
            root = jnp.where(tree.base_is_free, root, jnp.zeros_like(root))
        rows = jnp.concatenate([root, rows], axis=1)
    center = jnp.broadcast_to(whole.first_moment / whole.mass[None], rows[:3].shape)
    return jnp.concatenate([rows[:3], rows[3:] - spatial.cross(center, rows[:3])]), whole
