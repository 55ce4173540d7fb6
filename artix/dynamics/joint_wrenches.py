"""Wrenches transmitted by the joints, and momenta of the links."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inertia import link_reference_inertias, momentum_of_motion
from artix.dynamics.newton_euler import forces_of_motion, gravity_wrenches, link_wrenches
from artix.kinematics.forward import Kinematics, body_accelerations, dof_motions, kinematics, state_velocities
from artix.kinematics.frames import (
    Axes,
    Frame,
    Offset,
    check_axes,
    check_single,
    force_in_axes,
    link_frames,
    link_of_frame,
    locate_frame,
)
from artix.kinematics.tree import link_subtree_sums
from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array


@quantity
def joint_wrenches(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    external_force: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Wrenches that the joints transmit to their links, Pinocchio's ``f`` (``"local"``) and ``of`` (``"world"``).

    Each is the wrench that moves the link and all links below it and holds them against gravity, minus the external
    wrenches on them. Fixed joints are included.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in world axes, shape [L,
        6].
      axes: ``"local"`` for the torque about the link frame's origin in the frame's axes, ``"world_aligned"`` for the
        same in world axes, ``"world"`` for the torque about the world's origin.

    Returns:
      Force [N], then torque [N m], shape [L, 6]; the world exerts the root's, which is zero in free fall.

    Raises:
      ValueError: ``axes`` is not one of the three.

    Identity: the components along a joint's axes are ``inverse_dynamics(a, s, acceleration, armature=False)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> wrenches = artix.joint_wrenches(arm, state, jnp.zeros(7))
      >>> carried = wrenches[arm.topology.link_index("wrist"), 2] / 9.81  # the force up, in kg
      >>> print(carried, arm.link_mass[6:].sum())
      1.8 1.8
    """
    axes = check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    forces = _transmitted(articulation, kin, state, acceleration, external_force)
    return force_in_axes(kin, link_frames(tree, kin), forces, axes).T


@quantity
def supported_force(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    frame: Frame,
    offset: Offset = None,
    external_force: Array | None = None,
) -> Array:
    """Wrench that a joint transmits to its link, in a frame of the link: Pinocchio's ``computeSupportedForceByFrame``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      external_force: wrenches on the links, as in :func:`joint_wrenches`.

    Returns:
      Force [N], then torque [N m] about the frame's origin, in its own axes, shape [6].

    Raises:
      KeyError: no link or frame has this name.
      TypeError: these are several frames.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(quadruped)
      >>> falling = jnp.zeros(18).at[2].set(-9.81)
      >>> print(jnp.abs(artix.dynamics.supported_force(quadruped, state, falling, "front_left_shank")).max() < 1e-4)
      True
      >>> held = artix.dynamics.supported_force(quadruped, state, jnp.zeros(18), "front_left_shank")
      >>> print(held[2] / 9.81)  # of the shank and the foot [kg]
      0.26
    """
    check_single(frame)
    kin = kinematics(articulation, state)
    _, placement = locate_frame(articulation, kin, frame, offset)
    forces = _transmitted(articulation, kin, state, acceleration, external_force)
    return force_in_axes(kin, placement, take(forces, link_of_frame(articulation, frame)[0]), "local")[:, 0]


@quantity
def link_momenta(
    articulation: Articulation, state: State, *, axes: Axes = "world_aligned", subtree: bool = False
) -> Array:
    """Spatial momenta of the links, Pinocchio's ``h`` (``"local"``) and ``oh`` (``"world"``).

    Args:
      axes: as in :func:`joint_wrenches`.
      subtree: whether to include all links below each link.

    Returns:
      Linear [kg m/s], then angular momentum [kg m^2/s], shape [L, 6].

    Raises:
      ValueError: ``axes`` is not one of the three.

    Identity: ``link_spatial_inertias(a, s) @ frame_velocity(a, s)`` link by link, in any axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> momenta = artix.dynamics.link_momenta(pendulum, swinging)
      >>> print(momenta[1:, 0])  # along x, of the upper and the lower rod [kg m/s]
      [-0.5 -1.5]
    """
    axes = check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    velocity = state_velocities(tree, kin, state).take(tree.link_body)
    momenta = jnp.concatenate(momentum_of_motion(link_reference_inertias(articulation, kin), velocity))
    if subtree:
        momenta = link_subtree_sums(tree, momenta)
    return force_in_axes(kin, link_frames(tree, kin), momenta, axes).T


def _transmitted(
    articulation: Articulation, kin: Kinematics, state: State, acceleration: Array, external_force: Array | None
) -> Array:
    """Wrenches through the joints about the reference point, [6, L]."""
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    bodies = body_accelerations(tree, dof_motions(tree, kin), state, acceleration)
    velocity, rate = (motion.take(tree.link_body) for motion in bodies)
    inertias = link_reference_inertias(articulation, kin)
    scale = articulation.gravity_scale
    forces = forces_of_motion(velocity, rate, inertias)
    forces = forces - gravity_wrenches(articulation, scale * inertias.mass, scale[None] * inertias.first)
    if external_force is not None:
        forces = forces - link_wrenches(articulation, kin, external_force)
    return link_subtree_sums(tree, forces)
