"""Masses and centres of mass of subtrees, their motion and their Jacobians; the root's is the whole articulation."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.kinematics.forward import (
    generalized_motions,
    kinematics,
    link_centers,
    root_motion,
)
from artix.kinematics.frames import Frame, check_single, frame_acceleration, frame_velocity, link_of_frame
from artix.kinematics.tree import link_subtree_sums
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State

Array = jax.Array


@quantity
def subtree_masses(articulation: Articulation) -> Array:
    """Masses of each link together with all links below it, Pinocchio's ``mass``.

    Unlike Pinocchio's, they include a fixed root's own mass.

    Returns:
      Masses [kg], shape [L]; the first is the whole articulation's.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> masses = artix.dynamics.subtree_masses(quadruped)
      >>> print(masses[0], masses[quadruped.topology.link_index("front_left_hip")])  # whole, a leg
      14.24 1.96
    """
    return link_subtree_sums(articulation.topology, articulation.link_mass)


@quantity
def subtree_centers_of_mass(articulation: Articulation, state: State) -> Array:
    """Centres of mass of each link together with all links below it, Pinocchio's ``com``.

    Returns:
      World positions [m], shape [L, 3]; for a massless subtree, the origin of its link's mass frame.

    Identity: the root's is ``center_of_mass(a, s)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> print(artix.dynamics.subtree_centers_of_mass(pendulum, artix.neutral_state(pendulum))[:, 2])  # heights [m]
      [-1.  -1.  -1.5]
    """
    kin = kinematics(articulation, state)
    centers = kin.reference[:, None] + _mean(articulation, link_centers(articulation, kin))
    return centers.T


@quantity
def subtree_center_of_mass_velocities(articulation: Articulation, state: State) -> Array:
    """Velocities of :func:`subtree_centers_of_mass` in world axes, Pinocchio's ``vcom``.

    Returns:
      The velocities [m/s], shape [L, 3].

    Identity: ``subtree_center_of_mass_jacobian(a, s, link) @ nu``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> velocities = artix.dynamics.subtree_center_of_mass_velocities(pendulum, swinging)
      >>> print(velocities[1:, 0])  # of both rods, of the lower one
      [-1.  -1.5]
    """
    root = root_motion(articulation.topology, state.root_velocity).linear
    return (root + _mean(articulation, _center_velocities(articulation, state))).T


@quantity
def subtree_center_of_mass_accelerations(articulation: Articulation, state: State, acceleration: Array) -> Array:
    """Accelerations of :func:`subtree_centers_of_mass` in world axes, without gravity; Pinocchio's ``acom``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      Classical accelerations [m/s^2], shape [L, 3].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> accelerations = artix.dynamics.subtree_center_of_mass_accelerations(pendulum, turning, jnp.zeros(2))
      >>> print(accelerations[1:, 2])  # centripetal, of both rods and of the lower one [m/s^2]
      [1.  1.5]
    """
    return _mean(articulation, _center_accelerations(articulation, state, acceleration)).T


@quantity
def subtree_center_of_mass_jacobian(articulation: Articulation, state: State, link: Frame) -> Array:
    """Jacobian of one subtree's centre of mass, Pinocchio's ``jacobianSubtreeCenterOfMass``.

    Args:
      link: the link at the top of the subtree, by name or by index, which may be traced.

    Returns:
      Shape [3, nv] [m or 1], world axes.

    Raises:
      KeyError: no link or frame has this name.
      TypeError: these are several frames.

    Identity: the root's is ``center_of_mass_jacobian(a, s)``.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(quadruped)
      >>> whole = artix.dynamics.subtree_center_of_mass_jacobian(quadruped, state, "trunk")
      >>> print(jnp.allclose(whole, artix.center_of_mass_jacobian(quadruped, state), atol=1e-5))
      True
      >>> leg = artix.dynamics.subtree_center_of_mass_jacobian(quadruped, state, "front_left_hip")
      >>> print(leg.shape)
      (3, 18)
    """
    check_single(link, "link")
    tree = articulation.topology
    kin = kinematics(articulation, state)
    motions = generalized_motions(articulation, kin)
    top = link_of_frame(articulation, link)[0][0]
    weight = articulation.link_mass * jnp.asarray(tree.link_ancestors)[top].astype(articulation.dtype)
    weight = jnp.where(jnp.sum(weight) > 0, weight, jnp.zeros_like(weight).at[top].set(1))
    weight = weight / jnp.sum(weight)
    # The fraction of the subtree's mass that each DOF moves, and the first moment of that fraction.
    moved = jnp.asarray(tree.dof_moves_link, weight.dtype)
    moved = jnp.concatenate([jnp.ones_like(moved, shape=(tree.num_base_dofs, tree.num_links)), moved]) * weight[None]
    moment = matmul(link_centers(articulation, kin), moved.T)
    return jnp.sum(moved, axis=1)[None] * motions[:3] + spatial.cross(motions[3:], moment)


@quantity
def center_of_mass_velocity(articulation: Articulation, state: State) -> Array:
    """Velocity of the whole articulation's centre of mass in world axes, Pinocchio's ``vcom[0]``.

    Returns:
      The velocity [m/s], shape [3].

    Identity: ``center_of_mass_jacobian(a, s) @ nu``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> print(artix.center_of_mass_velocity(pendulum, swinging)[0])
      -1.0
    """
    root = root_motion(articulation.topology, state.root_velocity).linear[:, 0]
    return root + _total_mean(articulation, _center_velocities(articulation, state))


@quantity
def center_of_mass_acceleration(articulation: Articulation, state: State, acceleration: Array) -> Array:
    """Acceleration of the articulation's centre of mass in world axes, without gravity; Pinocchio's ``acom[0]``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      Classical acceleration [m/s^2], shape [3].

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.random_state(quadruped, jax.random.key(0))
      >>> free = artix.forward_dynamics(quadruped, state, jnp.zeros(18))  # flying, no motor acts
      >>> print(artix.dynamics.center_of_mass_acceleration(quadruped, state, free)[2])
      -9.81
    """
    return _total_mean(articulation, _center_accelerations(articulation, state, acceleration))


def _center_velocities(articulation: Articulation, state: State) -> Array:
    """Velocities of the links' centres of mass relative to the root's, [3, L]."""
    still = state.replace(root_velocity=state.root_velocity.at[:3].set(0))
    return frame_velocity(articulation, still, offset="com")[:, :3].T


def _center_accelerations(articulation: Articulation, state: State, acceleration: Array) -> Array:
    """Accelerations of the links' centres of mass, [3, L]."""
    return frame_acceleration(articulation, state, acceleration, offset="com", classical=True)[:, :3].T


def _mean(articulation: Articulation, of_links: Array) -> Array:
    """Mass-weighted averages of vectors [3, L] over subtrees; the link's own vector where a subtree has no mass."""
    mass = articulation.link_mass
    total = link_subtree_sums(articulation.topology, mass)
    sums = link_subtree_sums(articulation.topology, mass[None] * of_links)
    massive = total > 0
    return jnp.where(massive[None], sums / jnp.where(massive, total, jnp.ones_like(total))[None], of_links)


def _total_mean(articulation: Articulation, of_links: Array) -> Array:
    """Mass-weighted average of vectors [3, L] over all links, [3]."""
    mass = articulation.link_mass
    return jnp.sum(mass[None] * of_links, axis=1) / jnp.sum(mass)
