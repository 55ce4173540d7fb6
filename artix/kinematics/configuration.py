"""The configuration manifold: integrate, difference, interpolate, distances, normalisation; and its
tangents.

A tangent is a generalised velocity, which is not always the rate of the joint positions.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import one_operation, quantity
from artix.kinematics.tree import by_body, spherical_vectors, where_spherical
from artix.math import spatial
from artix.math.arrays import masked_sum, square_root
from artix.model.articulation import Articulation, State
from artix.model.checks import any_quaternion, check_state, check_type, check_vector
from artix.model.topology import Topology

Array = jax.Array


@quantity
def generalized_velocity(articulation: Articulation, state: State) -> Array:
    """The velocity ``nu`` of ``M nu' + coriolis + gravity = tau + sum_i J_i^T w_i``, as one vector.

    Generalised forces, rows of matrices and columns of Jacobians are in the same order.

    Returns:
      Shape [nv]: for a floating base the linear velocity of the root's centre of mass [m/s] and the
      root's angular velocity [rad/s] in world axes, then the joint velocities [rad/s or m/s]; for a
      fixed base only the latter.

    Identity: ``frame_jacobian(a, s) @ generalized_velocity(a, s)`` is ``frame_velocity(a, s)``.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> moving = artix.neutral_state(robot).replace(
      ...     root_velocity=jnp.array([0.5, 0.0, 0.0, 0.0, 0.0, 1.0])
      ... )
      >>> print(artix.generalized_velocity(robot, moving)[:7])
      [0.5 0.  0.  0.  0.  1.  0. ]
    """
    check_state(articulation, state)
    if articulation.topology.fixed_base:
        return state.joint_velocity
    return jnp.concatenate([state.root_velocity, state.joint_velocity])


def with_generalized_velocity(articulation: Articulation, state: State, velocity: Array) -> State:
    """The state with another generalised velocity, the inverse of :func:`generalized_velocity`.

    Args:
      state: the state, whose configuration is kept.
      velocity: generalised velocity, shape [nv] [m/s or rad/s].

    Returns:
      The state with this velocity; the root of a fixed base stays at rest.

    Identity: ``generalized_velocity(a, with_generalized_velocity(a, s, nu)) == nu``.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.with_generalized_velocity(
      ...     robot, artix.neutral_state(robot), jnp.arange(18.0)
      ... )
      >>> print(state.root_velocity, state.joint_velocity[0])
      [0. 1. 2. 3. 4. 5.] 6.0
    """
    check_state(articulation, state)
    tree = articulation.topology
    base = tree.num_base_dofs
    check_vector("velocity", velocity, (tree.nv,), articulation.dtype, "nv")
    state = state.replace(joint_velocity=velocity[base:])
    return state.replace(root_velocity=velocity[:base]) if base else state


@quantity
def joint_velocity_from_rate(articulation: Articulation, state: State, rate: Array) -> Array:
    """Joint velocities from the rates of change of the joint positions.

    They differ for spherical joints only, whose velocity is the angular velocity in the child joint
    frame: ``J_r(q)`` times the rate of the rotation vector, with the right Jacobian J_r of SO(3).
    With one or two free axes it is the inverse of the map of :func:`joint_rate_from_velocity`.

    Args:
      rate: dq/dt, shape [n] [rad/s or m/s].

    Returns:
      Joint velocities, shape [n] [rad/s or m/s].

    Identity: the inverse of :func:`joint_rate_from_velocity`.

    Examples:
      >>> builder = artix.ArticulationBuilder(fixed_base=True)
      >>> root = builder.add_link()
      >>> _ = builder.add_link(root, artix.Joint.spherical(), mass=1.0, inertia=(0.1, 0.1, 0.1))
      >>> ball = builder.build()
      >>> turned = artix.neutral_state(ball).replace(
      ...     joint_position=jnp.array([0.0, 0.0, jnp.pi / 2])
      ... )
      >>> rate = jnp.array([0.0, 0.0, 1.0])
      >>> # along its rotation vector: the same
      >>> print(artix.kinematics.joint_velocity_from_rate(ball, turned, rate))
      [0. 0. 1.]
      >>> across = jnp.array([1.0, 0.0, 0.0])
      >>> print(artix.kinematics.joint_velocity_from_rate(ball, turned, across))
      [ 0.637 -0.637  0.   ]
    """
    tree = articulation.topology
    check_vector("rate", rate, (tree.num_dofs,), articulation.dtype, "n joint DOFs")
    if not tree.has_spherical:
        return rate
    inverse = rate_matrix(tree, state.joint_position)
    return where_spherical(tree, spatial.apply(spatial.inverse(inverse), by_body(tree, rate)), rate)


@quantity
def joint_rate_from_velocity(articulation: Articulation, state: State, velocity: Array) -> Array:
    """Rates of change of the joint positions, ``J_r(q)^-1`` times the velocity for spherical
    joints.

    With two free axes, the rate's component along the locked axis is dropped, as PhysX does when it
    reads a position.

    Args:
      velocity: joint velocities, shape [n] [rad/s or m/s].

    Returns:
      dq/dt, shape [n] [rad/s or m/s].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> rate = artix.kinematics.joint_rate_from_velocity(arm, state, jnp.full(7, 0.5))
      >>> print(rate[:2])  # only spherical joints differ
      [0.5 0.5]
    """
    tree = articulation.topology
    check_vector("velocity", velocity, (tree.num_dofs,), articulation.dtype, "n joint DOFs")
    if not tree.has_spherical:
        return velocity
    matrix = rate_matrix(tree, state.joint_position)
    return where_spherical(tree, spatial.apply(matrix, by_body(tree, velocity)), velocity)


def rate_matrix(tree: Topology, q: Array) -> Array:
    """J_r(q)^-1 restricted to the free axes, the identity elsewhere, [3, 3, B-1]."""
    matrix = spatial.inverse(spatial.right_jacobian(spherical_vectors(tree, q)))
    free = tree.body_dofs[:, 1:] < tree.num_dofs
    eye = jnp.broadcast_to(spatial.identity_like(matrix), matrix.shape)
    return jnp.where(free[:, None] & free[None], matrix, eye)


# --- the manifold -------------------------------------------------------------------------------


#: Angles this far apart are the same where they are a circle [rad], as in PhysX.
CIRCUMFERENCE = 4 * np.pi


@quantity
def integrate(articulation: Articulation, state: State, dnu: Array) -> State:
    """Moves the configuration along a tangent vector, the ``(+)`` of the manifold; velocities are
    kept.

    The root's centre of mass moves by the linear part and the root rotates by ``exp`` of the
    angular part, both in world axes. Revolute and prismatic positions add, and count turns; only
    the angles of wheels, whose turns nothing counts, stay within [-2 pi, 2 pi] by steps of 4 pi
    (see *Angles* in the conventions). A spherical joint rotates by ``exp`` of its part in the child
    joint frame. Mirrors Pinocchio's ``integrate`` in artix's tangent space.

    Args:
      state: where to start.
      dnu: displacement, a generalised velocity times time, shape [nv] [m, rad].

    Returns:
      The moved state.

    Identity: ``integrate(a, s, difference(a, s, t))`` is the configuration of t, but for spherical
    joints of two axes.

    Examples:
      >>> robot = artix.robots.load("quadruped")  # floating: six more numbers than joints
      >>> state = artix.neutral_state(robot)
      >>> # 0.2 m along x and a quarter turn about z
      >>> step = jnp.zeros(18).at[0].set(0.2).at[5].set(jnp.pi / 2)
      >>> moved = artix.integrate(robot, state, step)
      >>> print(moved.root_pose)
      [0.2   0.    0.    0.    0.    0.707 0.707]
      >>> print(jnp.allclose(artix.difference(robot, state, moved), step, atol=1e-5))
      True
    """
    end = move(articulation, state, dnu)
    return end.replace(joint_position=wrap_angles(articulation, end.joint_position))


def move(articulation: Articulation, state: State, dnu: Array) -> State:
    """The same as :func:`integrate`, but no angle is wrapped: the new positions are near the old
    ones.
    """
    check_state(articulation, state)
    tree = articulation.topology
    base = tree.num_base_dofs
    check_vector("dnu", dnu, (tree.nv,), articulation.dtype, "nv")
    q = state.joint_position + dnu[base:]
    if tree.has_spherical:
        start = spatial.quaternion_exp(by_body(tree, state.joint_position))
        turn = spatial.quaternion_exp(by_body(tree, dnu[base:]))
        vector = spatial.quaternion_log(spatial.quaternion_product(start, turn))
        q = where_spherical(tree, vector, q)
    root = state.root_pose
    if base:
        move = dnu[:6]
        center = articulation.link_com_pose[0, :3, None]
        old = spatial.normalize(root[3:, None])
        turn = spatial.quaternion_exp(move[3:, None])
        new = spatial.normalize(spatial.quaternion_product(turn, old))
        # As a difference of rotated centres, it would not vanish at rest, and a robot would creep
        # by rounding errors.
        shift = spatial.displacement(turn, spatial.rotate(old, center))
        root = jnp.concatenate([root[:3] + (move[:3] - shift[:, 0]), new[:, 0]])
    return state.replace(root_pose=root, joint_position=q)


@quantity
def difference(articulation: Articulation, start: State, end: State) -> Array:
    """The shortest tangent vector that moves one configuration to another, the ``(-)`` of the
    manifold.

    Angles of wheels that differ by 4 pi are the same, so that this is at most 2 pi for them. Other
    angles count turns, and subtract (see *Angles* in the conventions).

    Args:
      start: where to start.
      end: where to arrive.

    Returns:
      The displacement, shape [nv] [m, rad]. It is discontinuous at half turns, but its derivatives
      are finite everywhere.

    Identity: ``difference(a, s, integrate(a, s, d)) == d`` for rotations of less than a half turn,
    but for spherical joints of two axes.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> start = artix.neutral_state(robot)
      >>> # 1 m on, half turned about z
      >>> end = start.replace(root_pose=jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]))
      >>> print(artix.difference(robot, start, end)[:6])
      [1.    0.    0.    0.    0.    3.142]
    """
    check_state(articulation, start)
    check_state(articulation, end)
    tree = articulation.topology
    joints = wrap_angles(articulation, end.joint_position - start.joint_position)
    if tree.has_spherical:
        first, last = (
            spatial.quaternion_exp(by_body(tree, s.joint_position)) for s in (start, end)
        )
        vector = spatial.quaternion_log(spatial.quaternion_product(spatial.conjugate(first), last))
        joints = where_spherical(tree, vector, joints)
    if tree.num_base_dofs == 0:
        return joints
    center = articulation.link_com_pose[0, :3, None]
    old, new = (spatial.normalize(s.root_pose[3:, None]) for s in (start, end))
    angular = spatial.quaternion_log(spatial.quaternion_product(new, spatial.conjugate(old)))
    linear = (
        end.root_pose[:3, None]
        - start.root_pose[:3, None]
        + spatial.rotate(new, center)
        - spatial.rotate(old, center)
    )
    return jnp.concatenate([jnp.concatenate([linear, angular])[:, 0], joints])


@one_operation
def interpolate(
    articulation: Articulation, start: State, end: State, fraction: float | Array
) -> State:
    """A configuration on the shortest path between two others, Pinocchio's ``interpolate``.

    Joints move at constant velocity; the root rotates about an axis fixed in the world while its
    centre of mass moves on a straight line (Pinocchio moves a free-flyer's frame on a screw).

    Args:
      start: the configuration at fraction 0.
      end: the configuration at fraction 1.
      fraction: fraction of the way from ``start`` to ``end``, a number or an array of shape [].

    Returns:
      The state at that fraction, with the velocities of ``start``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> start = artix.neutral_state(arm)
      >>> end = start.replace(joint_position=jnp.full(7, 0.4))
      >>> print(artix.interpolate(arm, start, end, 0.25).joint_position[:2])
      [0.1 0.1]
    """
    check_type("articulation", articulation, Articulation)
    # A Python number would be static, and each one compiled.
    part: Any = (
        fraction if isinstance(fraction, jax.Array) else np.asarray(fraction, articulation.dtype)
    )
    return _interpolate(articulation, start, end, part)


@quantity
def _interpolate(articulation: Articulation, start: State, end: State, fraction: Array) -> State:
    part = fraction.astype(articulation.dtype)
    check_vector("fraction", part, (), articulation.dtype, "one number")
    return integrate(articulation, start, part * difference(articulation, start, end))


@quantity
def squared_distance(articulation: Articulation, start: State, end: State) -> Array:
    """Squared length of each joint's part of :func:`difference`, Pinocchio's ``squaredDistance``.

    Args:
      start: one configuration.
      end: the other.

    Returns:
      Shape [L]: the root's (squared displacement of its centre of mass [m^2] plus squared angle
      [rad^2]; zero for a fixed base), then of the inbound joint of each other link [rad^2 or m^2].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> start = artix.neutral_state(pendulum)
      >>> end = start.replace(joint_position=jnp.array([0.5, 1.0]))
      >>> print(artix.kinematics.squared_distance(pendulum, start, end))
      [0.   0.25 1.  ]
    """
    tree = articulation.topology
    base = tree.num_base_dofs
    squares = difference(articulation, start, end) ** 2
    owner = tree.dof_link[:, None] == np.arange(tree.num_links)
    return masked_sum(squares[base:], owner).at[0].add(jnp.sum(squares[:base]))


@quantity
def distance(articulation: Articulation, start: State, end: State) -> Array:
    """Length of :func:`difference`, Pinocchio's ``distance``; its gradient is finite everywhere.

    Metres and radians have equal weight; for other weights, sum the parts of
    :func:`squared_distance` yourself.

    Args:
      start: one configuration.
      end: the other.

    Returns:
      The distance, shape [], the root of a sum of [m^2] and [rad^2].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> start = artix.neutral_state(arm)
      >>> end = start.replace(joint_position=jnp.full(7, 0.1))
      >>> print(artix.distance(arm, start, end))  # 0.1 sqrt(7)
      0.265
    """
    return square_root(jnp.sum(squared_distance(articulation, start, end)))


@quantity
@any_quaternion
def normalize(articulation: Articulation, state: State) -> State:
    """The same configuration in normal form, Pinocchio's ``normalize``.

    The root's quaternion gets unit length, rotation vectors of spherical joints with three free
    axes get a length of at most pi, and angles of wheels, whose turns nothing counts, return to
    [-2 pi, 2 pi]. Velocities are kept.

    Args:
      state: its state; the quaternion may have any non-zero length.

    Returns:
      The state in normal form.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> long = state.replace(root_pose=state.root_pose.at[3:].multiply(3))
      >>> print(artix.normalize(robot, long).root_pose[3:])
      [0. 0. 0. 1.]
    """
    check_state(articulation, state)
    tree = articulation.topology
    root = state.root_pose
    q = wrap_angles(articulation, state.joint_position)
    if tree.has_spherical:
        shortest = spatial.quaternion_log(spatial.quaternion_exp(by_body(tree, q)))
        q = jnp.where(_in_full_rotation(tree), where_spherical(tree, shortest, q), q)
    return state.replace(root_pose=jnp.concatenate([root[:3], _unit(root[3:])]), joint_position=q)


def is_normalized(articulation: Articulation, state: State, tolerance: float = 1e-6) -> Array:
    """Whether :func:`normalize` would change no number by more than ``tolerance``, Pinocchio's
    ``isNormalized``.

    Args:
      tolerance: largest change [m, rad, or of a quaternion's components].

    Returns:
      Shape [], bool.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> long = state.replace(root_pose=state.root_pose.at[6].set(1.1))
      >>> print(
      ...     artix.kinematics.is_normalized(robot, state),
      ...     artix.kinematics.is_normalized(robot, long),
      ... )
      True False
    """
    normal = normalize(articulation, state)
    changes = jnp.concatenate(
        [normal.root_pose - state.root_pose, normal.joint_position - state.joint_position]
    )
    return jnp.all(jnp.abs(changes) <= tolerance)


@quantity
@any_quaternion
def is_same_configuration(
    articulation: Articulation, start: State, end: State, tolerance: float = 1e-6
) -> Array:
    """Whether no entry of :func:`difference` exceeds ``tolerance``, Pinocchio's
    ``isSameConfiguration``.

    Unlike in Pinocchio, the two quaternions of one rotation are the same, and so are rotation
    vectors a full turn apart. The poses of fixed bases are compared too.

    Args:
      start: one configuration.
      end: the other.
      tolerance: largest difference [m, rad].

    Returns:
      Shape [], bool.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> # the other quaternion of the rotation
      >>> twin = state.replace(root_pose=state.root_pose.at[3:].multiply(-1))
      >>> print(artix.kinematics.is_same_configuration(robot, state, twin))
      True
    """
    turn = spatial.quaternion_product(
        _unit(end.root_pose[3:])[:, None], spatial.conjugate(_unit(start.root_pose[3:])[:, None])
    )
    root = jnp.concatenate(
        [end.root_pose[:3] - start.root_pose[:3], spatial.quaternion_log(turn)[:, 0]]
    )
    changes = jnp.concatenate([root, difference(articulation, start, end)])
    return jnp.all(jnp.abs(changes) <= tolerance)


def wrap_angles(articulation: Articulation, q: Array) -> Array:
    """Brings the positions [n] of wheels back into [-2 pi, 2 pi] by steps of 4 pi, as PhysX does.

    A wheel is a joint of type ``REVOLUTE`` whose turns nothing counts: it has no drive stiffness,
    no limit, no mimic joint and no fixed tendon. All other positions count turns and stay as they
    are. Without wrapping, the angle of a wheel would lose its digits in float32.
    """
    wraps = articulation.topology.dof_wraps
    if not np.any(wraps):
        return q
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    is_read = (articulation.drive.stiffness != 0) | jnp.isfinite(lower) | jnp.isfinite(upper)
    wrapped = q - CIRCUMFERENCE * jnp.round(q / CIRCUMFERENCE)
    return jnp.where(jnp.asarray(wraps) & ~is_read, wrapped, q)


def _in_full_rotation(tree: Topology) -> np.ndarray:
    """Whether each DOF belongs to a spherical joint with three free axes, [n]."""
    return (tree.body_is_spherical & np.all(tree.body_dofs < tree.num_dofs, axis=0))[tree.dof_body]


def _unit(quaternion: Array) -> Array:
    return spatial.normalize(quaternion[:, None])[:, 0]
