"""Inverse dynamics, the compensation forces that it contains, and the wrenches that joints
transmit.

The algorithm itself is :mod:`artix.dynamics.newton_euler`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inertia import gravity_moments, link_reference_inertias, momentum_of_motion
from artix.dynamics.mass_matrix import generalized_armature, inertia_matrix
from artix.dynamics.newton_euler import (
    concatenate_root_and_joints,
    force_change,
    forces_of_motion,
    generalized_forces,
    generalized_wrenches,
    gravity_wrenches,
    link_wrenches,
    newton_euler,
    required_forces,
)
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    dof_motions,
    kinematics,
    state_velocities,
)
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
from artix.kinematics.tree import link_subtree_sums, subtree_sums
from artix.math import spatial
from artix.math.arrays import matmul, take
from artix.math.tangents import add, is_zero
from artix.math.traces import shared
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector

Array = jax.Array


@quantity
def inverse_dynamics(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    external_force: Array | None = None,
    *,
    armature: bool = True,
) -> Array:
    """Generalised forces that produce a given acceleration:
    ``tau = M nu' + coriolis + gravity - sum_i J_i^T w_i``.

    Recursive Newton-Euler algorithm (Featherstone 2008, section 5.3) with all recursions written as
    path and subtree sums. Mirrors Pinocchio's ``rnea``.

    Args:
      acceleration: generalised acceleration, shape [nv]: for a floating base the classical
        acceleration of the root's centre of mass [m/s^2] and the angular acceleration [rad/s^2] in
        world axes, then the joints'.
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6].
      armature: whether to include the joints' armature, as forward dynamics does.

    Returns:
      Generalised forces, shape [nv]: root force [N] and torque about the root's centre of mass
      [N m] in world axes for a floating base, then the joint forces [N m or N].

    Identity: ``inverse_dynamics(a, s, acc) == mass_matrix(a, s, armature=True) @ acc +
    bias_force(a, s)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> # level
      >>> state = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> print(artix.inverse_dynamics(pendulum, state, jnp.zeros(2)))  # at rest: only gravity
      [19.62   4.905]
      >>> # lifted at 2 rad/s^2
      >>> print(artix.inverse_dynamics(pendulum, state, jnp.array([2.0, 0.0])))
      [24.954  6.572]
    """
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    force = rigid_body_forces(articulation, state, acceleration, external_force, gravity=True)
    if armature:
        force = force + generalized_armature(articulation) * acceleration
    return force


@quantity
def bias_force(articulation: Articulation, state: State) -> Array:
    """Coriolis, centrifugal and gravity forces to apply:
    ``coriolis_compensation + gravity_compensation``.

    Pinocchio's ``nonLinearEffects``, MuJoCo's ``qfrc_bias``.

    Returns:
      Generalised forces, shape [nv]; layout and units as of :func:`inverse_dynamics`.

    Identity: ``bias_force(a, s) == inverse_dynamics(a, s, 0)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.random_state(pendulum, jax.random.key(0))
      >>> both = artix.coriolis_compensation(pendulum, state) + artix.gravity_compensation(
      ...     pendulum, state
      ... )
      >>> print(jnp.allclose(artix.bias_force(pendulum, state), both, atol=1e-4))
      True
    """
    return rigid_body_forces(articulation, state, None, gravity=True)


@quantity
def coriolis_compensation(articulation: Articulation, state: State) -> Array:
    """Forces to apply so that velocities alone cause no acceleration, PhysX's
    ``computeCoriolisCompensation``.

    Returns:
      Generalised forces, shape [nv]; layout and units as of :func:`inverse_dynamics`. Unlike
      PhysX's, they are not computed with joint velocities clipped to ``max_joint_velocity``.

    Identity: quadratic in the velocities, and independent of the root's linear velocity.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> bent = artix.neutral_state(pendulum).replace(joint_position=jnp.array([0.0, jnp.pi / 2]))
      >>> turning = bent.replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> # the elbow holds the lower rod back
      >>> print(artix.coriolis_compensation(pendulum, turning))
      [0. 2.]
      >>> print(
      ...     artix.coriolis_compensation(
      ...         pendulum, bent.replace(joint_velocity=jnp.array([4.0, 0.0]))
      ...     )
      ... )
      [0. 8.]
    """
    return rigid_body_forces(articulation, state, None, gravity=False)


@quantity
def gravity_compensation(articulation: Articulation, state: State) -> Array:
    """Forces to apply so that gravity causes no acceleration, PhysX's
    ``computeGravityCompensation``.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured (PhysX's function ignores
        ``eDISABLE_GRAVITY``).

    Returns:
      Generalised forces, shape [nv]; layout and units as of :func:`inverse_dynamics`.

    Identity: the gradient of ``potential_energy`` along ``integrate``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> print(artix.gravity_compensation(pendulum, level))  # 9.81 (0.5 + 1.5) and 9.81 * 0.5 N m
      [19.62   4.905]
    """
    kin = kinematics(articulation, state)
    tree = articulation.topology
    mass, moment = gravity_moments(articulation, kin)
    total, below = subtree_sums(tree, jnp.concatenate([mass[None], moment]))
    gravity = -articulation.gravity[:, None]
    root = jnp.concatenate([total[:1] * gravity, spatial.cross(total[1:], gravity)])
    motions = dof_motions(tree, kin)
    joints = spatial.dot(motions.linear, below[:1] * gravity) + spatial.dot(
        motions.angular, spatial.cross(below[1:], jnp.broadcast_to(gravity, below[1:].shape))
    )
    return concatenate_root_and_joints(tree, root, joints)


@quantity
def static_torque(
    articulation: Articulation, state: State, external_force: Array | None = None
) -> Array:
    """Forces that hold the articulation at rest against gravity and wrenches, Pinocchio's
    ``computeStaticTorque``.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured.
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6].

    Returns:
      Generalised forces, shape [nv]; layout and units as of :func:`inverse_dynamics`.

    Identity: ``gravity_compensation(a, s) - generalized_external_force(a, s, external_force)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> lift = jnp.zeros((3, 6)).at[2, 2].set(9.81)  # a hand that carries the lower rod
      >>> print(
      ...     artix.dynamics.static_torque(pendulum, level),
      ...     artix.dynamics.static_torque(pendulum, level, lift)[0],
      ... )
      [19.62   4.905] 4.905
    """
    force = gravity_compensation(articulation, state)
    return (
        force
        if external_force is None
        else force - generalized_external_force(articulation, state, external_force)
    )


@quantity
def generalized_external_force(
    articulation: Articulation, state: State, external_force: Array
) -> Array:
    """The generalised force ``sum_i J_i^T w_i`` of wrenches on the links.

    PhysX's ``computeGeneralizedExternalForce`` returns the negative, the joint force that
    counteracts the wrenches.

    Args:
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6].

    Returns:
      Generalised forces, shape [nv]; layout and units as of :func:`inverse_dynamics`.

    Identity: the sum of ``J_l^T w_l`` with J_l of ``frame_jacobian(a, s, offset="com")``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> hanging = artix.neutral_state(pendulum)
      >>> push = jnp.zeros((3, 6)).at[2, 0].set(10.0)  # 10 N along x at the centre of the lower rod
      >>> # levers of 1.5 m and 0.5 m
      >>> print(artix.generalized_external_force(pendulum, hanging, push))
      [-15.  -5.]
    """
    kin = kinematics(articulation, state)
    return generalized_wrenches(articulation, kin, external_force)


def rigid_body_forces(
    articulation: Articulation,
    state: State,
    acceleration: Array | None,
    external_force: Array | None = None,
    *,
    gravity: bool,
) -> Array:
    """:func:`inverse_dynamics` without armature, with or without gravity; an acceleration of
    ``None`` is zero.
    """
    check_state(articulation, state)
    arguments = articulation, state, acceleration, external_force
    return (_forces_with_gravity if gravity else _forces_without_gravity)(*arguments)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _inverse_dynamics_with_jvp(
    gravity: bool, articulation, state, acceleration, external_force
) -> Array:
    return required_forces(gravity, articulation, state, acceleration, external_force)


_forces_with_gravity = shared(functools.partial(_inverse_dynamics_with_jvp, True))
_forces_without_gravity = shared(functools.partial(_inverse_dynamics_with_jvp, False))


@functools.partial(_inverse_dynamics_with_jvp.defjvp, symbolic_zeros=True)
def _inverse_dynamics_jvp(gravity: bool, primals, tangents):
    articulation, state, acceleration, external_force = primals
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=gravity)
    force = generalized_forces(articulation.topology, rnea.motions, rnea.force)
    change = force_change(gravity, primals, tangents, kin, rnea)
    d_acceleration = tangents[2]
    if not is_zero(d_acceleration):
        change = add(change, matmul(inertia_matrix(articulation, kin), d_acceleration))
    return force, jnp.zeros_like(force) if change is None else change


# --- wrenches through the joints ----------------------------------------------------------------


@quantity
def joint_wrenches(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    external_force: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Wrenches that the joints transmit to their links, Pinocchio's ``f`` (``"local"``) and ``of``
    (``"world"``).

    Each is the wrench that moves the link and all links below it and holds them against gravity,
    minus the external wrenches on them. Fixed joints are included.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6].
      axes: ``"local"`` for the torque about the link frame's origin in the frame's axes,
        ``"world_aligned"`` for the same in world axes, ``"world"`` for the torque about the world's
        origin.

    Returns:
      Force [N], then torque [N m], shape [L, 6]; the world exerts the root's, which is zero in free
      fall.

    Raises:
      ValueError: ``axes`` is not one of the three.

    Identity: the components along a joint's axes are
    ``inverse_dynamics(a, s, acceleration, armature=False)``.

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
    forces = _transmit(articulation, kin, state, acceleration, external_force)
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
    """Wrench that a joint transmits to its link, in a frame of the link: Pinocchio's
    ``computeSupportedForceByFrame``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      frame: the name of a link or additional frame, or a link's index; see
        :func:`artix.frame_pose`.
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
      >>> print(
      ...     jnp.abs(
      ...         artix.dynamics.supported_force(quadruped, state, falling, "front_left_shank")
      ...     ).max()
      ...     < 1e-4
      ... )
      True
      >>> held = artix.dynamics.supported_force(quadruped, state, jnp.zeros(18), "front_left_shank")
      >>> print(held[2] / 9.81)  # of the shank and the foot [kg]
      0.26
    """
    check_single(frame)
    kin = kinematics(articulation, state)
    _, placement = locate_frame(articulation, kin, frame, offset)
    forces = _transmit(articulation, kin, state, acceleration, external_force)
    return force_in_axes(
        kin, placement, take(forces, link_of_frame(articulation, frame)[0]), "local"
    )[:, 0]


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
    momenta = jnp.concatenate(
        momentum_of_motion(link_reference_inertias(articulation, kin), velocity)
    )
    if subtree:
        momenta = link_subtree_sums(tree, momenta)
    return force_in_axes(kin, link_frames(tree, kin), momenta, axes).T


def _transmit(
    articulation: Articulation,
    kin: Kinematics,
    state: State,
    acceleration: Array,
    external_force: Array | None,
) -> Array:
    """Wrenches through the joints about the reference point, [6, L]."""
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    bodies = body_accelerations(tree, dof_motions(tree, kin), state, acceleration)
    velocity, rate = (motion.take(tree.link_body) for motion in bodies)
    inertias = link_reference_inertias(articulation, kin)
    scale = articulation.gravity_scale
    forces = forces_of_motion(velocity, rate, inertias)
    forces = forces - gravity_wrenches(
        articulation, scale * inertias.mass, scale[None] * inertias.first
    )
    if external_force is not None:
        forces = forces - link_wrenches(articulation, kin, external_force)
    return link_subtree_sums(tree, forces)
