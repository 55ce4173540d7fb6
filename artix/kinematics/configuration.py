"""The configuration manifold: neutral and random states, integrate, difference, distances, and position rates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.evaluation import quantity
from artix.kinematics.tree import Tree, by_body, free_root, masked_sum, take
from artix.math import spatial
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector

Array = jax.Array


def neutral_state(articulation: Articulation) -> State:
    """The state at rest with the root's frame at the world's origin and all joint positions zero."""
    n, dtype = articulation.topology.num_dofs, articulation.dtype
    root = jnp.zeros(7, dtype).at[6].set(1)
    return State(root, jnp.zeros(6, dtype), jnp.zeros(n, dtype), jnp.zeros(n, dtype))


def random_state(articulation: Articulation, key: Array, *, velocity_scale: float | Array = 1.0) -> State:
    """A random state: joint positions uniform within their limits, velocities normal.

    Unlimited angles are drawn from [-pi, pi], unlimited translations from [-1, 1] m, unlimited spherical components
    from [-pi, pi] / sqrt(3), so that the rotation stays below a half turn. A floating root gets a uniform orientation
    and a position in [-1, 1]^3 m; a fixed one stays at the origin, at rest.

    Args:
      articulation: the articulation.
      key: a JAX random key.
      velocity_scale: standard deviation of all velocities [m/s, rad/s].
    """
    tree, dtype = articulation.topology, articulation.dtype
    limits = articulation.joint_lower_limit, articulation.joint_upper_limit
    live = tree.num_base_dofs > 0 if tree.base_is_free is None else tree.base_is_free, tree.dof_is_live
    return _drawn(limits, _widths(tree).astype(dtype), live, key, jnp.asarray(velocity_scale, dtype))


def _widths(tree: Tree) -> Array:
    """How far unlimited joint positions are drawn from zero, [n]."""
    wide = jnp.where(tree.dof_is_linear, 1.0, np.pi)
    if tree.has_spherical:
        wide = jnp.where(take(jnp.asarray(tree.body_is_spherical), tree.dof_body), np.pi / 3**0.5, wide)
    return wide


@jax.jit  # One program for all topologies of so many DOFs: one by one, its operations take two seconds to compile.
def _drawn(limits, wide: Array, live, key: Array, scale: Array) -> State:
    """A random state; ``live`` says whether the root is free, and which DOFs there are if not all."""
    (lower, upper), (root_is_free, dof_is_live) = limits, live
    dtype, keys = lower.dtype, jax.random.split(key, 5)
    low, high = jnp.minimum(jnp.maximum(lower, -wide), upper), jnp.maximum(jnp.minimum(upper, wide), lower)
    q = low + (high - low) * jax.random.uniform(keys[0], low.shape, dtype)
    qd = scale * jax.random.normal(keys[1], low.shape, dtype)
    position = jax.random.uniform(keys[2], (3,), dtype, -1.0, 1.0)
    quaternion = spatial.normalize(jax.random.normal(keys[3], (4, 1), dtype))[:, 0]
    velocity = scale * jax.random.normal(keys[4], (6,), dtype)
    root = jnp.where(root_is_free, jnp.concatenate([position, quaternion]), jnp.array([0, 0, 0, 0, 0, 0, 1], dtype))
    velocity = jnp.where(root_is_free, velocity, jnp.zeros_like(velocity))
    if dof_is_live is not None:
        q, qd = (jnp.where(dof_is_live, x, jnp.zeros_like(x)) for x in (q, qd))
    return State(root, velocity, q, qd)


@quantity
def generalized_velocity(articulation: Articulation, state: State) -> Array:
    """The velocity ``nu`` of ``M nu' + coriolis + gravity = tau + sum_i J_i^T w_i``, as one vector.

    Forces, rows of matrices and columns of Jacobians follow it.

    Args:
      articulation: the articulation.
      state: its state.

    Returns:
      Shape [nv]: for a floating base the linear velocity of the root's centre of mass [m/s] and the root's angular
      velocity [rad/s] in world axes, then the joint velocities; for a fixed base these alone. Where a padded fleet has
      both, the root's six are zero for a fixed base.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``dense_jacobian(a, s) @ generalized_velocity(a, s)`` are the velocities of the links.
    """
    check_state(articulation, state)
    tree = articulation.topology
    if tree.num_base_dofs == 0:
        return state.joint_velocity
    return jnp.concatenate([free_root(tree, state.root_velocity), state.joint_velocity])


def with_generalized_velocity(articulation: Articulation, state: State, velocity: Array) -> State:
    """The state with another generalised velocity, the inverse of :func:`generalized_velocity`.

    Args:
      articulation: the articulation.
      state: the state, whose configuration is kept.
      velocity: generalised velocity, shape [nv].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``generalized_velocity(a, with_generalized_velocity(a, s, nu)) == nu``.
    """
    check_state(articulation, state)
    tree, base = articulation.topology, articulation.topology.num_base_dofs
    check_vector("velocity", velocity, (tree.nv,), articulation.dtype, "nv")
    moved = state.replace(joint_velocity=velocity[base:])
    return moved.replace(root_velocity=free_root(tree, velocity[:base])) if base else moved


@quantity
def integrate(articulation: Articulation, state: State, dnu: Array) -> State:
    """Moves the configuration along a tangent vector, the ``(+)`` of the manifold; velocities are kept.

    The root's centre of mass moves by the linear part and the root turns by ``exp`` of the angular part, both in world
    axes; revolute and prismatic positions add (angles of wrapped joints stay within [-2 pi, 2 pi] by steps of
    4 pi, as in PhysX); a spherical joint turns by ``exp`` of its part in the child joint frame. Mirrors Pinocchio's
    ``integrate`` in artix's tangent space.

    Args:
      articulation: the articulation.
      state: where to start.
      dnu: displacement, generalised velocity times time, shape [nv] [m, rad].

    Returns:
      The moved state.

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``integrate(a, s, difference(a, s, t))`` is the configuration of t.
    """
    check_state(articulation, state)
    tree, base = articulation.topology, articulation.topology.num_base_dofs
    check_vector("dnu", dnu, (tree.nv,), articulation.dtype, "nv")
    q = wrap_angles(tree, state.joint_position + dnu[base:])
    if tree.has_spherical:
        before = spatial.quaternion_exp(by_body(tree, state.joint_position))
        by = spatial.quaternion_exp(by_body(tree, dnu[base:]))
        vector = spatial.quaternion_log(spatial.quaternion_product(before, by))
        q = where_spherical(tree, vector, q)
    root = state.root_pose
    if base:
        move = dnu[:6] if tree.base_is_free is None else jnp.where(tree.base_is_free, dnu[:6], jnp.zeros_like(dnu[:6]))
        center = articulation.link_com_pose[0, :3, None]
        old = spatial.normalize(root[3:, None])
        new = spatial.normalize(spatial.quaternion_product(spatial.quaternion_exp(move[3:, None]), old))
        shift = spatial.rotate(old, center) - spatial.rotate(new, center)
        root = jnp.concatenate([root[:3] + move[:3] + shift[:, 0], new[:, 0]])
    return state.replace(root_pose=root, joint_position=q)


@quantity
def difference(articulation: Articulation, start: State, end: State) -> Array:
    """The shortest tangent vector that moves one configuration to another, the ``(-)`` of the manifold.

    Args:
      articulation: the articulation.
      start: where to start.
      end: where to arrive.

    Returns:
      The displacement, shape [nv] [m, rad]; its derivatives are finite everywhere, also at a half turn, where it is
      discontinuous.

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``difference(a, s, integrate(a, s, d)) == d`` for rotations below a half turn.
    """
    check_state(articulation, start)
    check_state(articulation, end)
    tree = articulation.topology
    joints = end.joint_position - start.joint_position
    if tree.has_spherical:
        first, last = (spatial.quaternion_exp(by_body(tree, s.joint_position)) for s in (start, end))
        vector = spatial.quaternion_log(spatial.quaternion_product(spatial.conjugate(first), last))
        joints = where_spherical(tree, vector, joints)
    if tree.num_base_dofs == 0:
        return joints
    center = articulation.link_com_pose[0, :3, None]
    old, new = (spatial.normalize(s.root_pose[3:, None]) for s in (start, end))
    angular = spatial.quaternion_log(spatial.quaternion_product(new, spatial.conjugate(old)))
    linear = (
        end.root_pose[:3, None] - start.root_pose[:3, None] + spatial.rotate(new, center) - spatial.rotate(old, center)
    )
    root = jnp.concatenate([linear, angular])[:, 0]
    if tree.base_is_free is not None:
        root = jnp.where(tree.base_is_free, root, jnp.zeros_like(root))
    return jnp.concatenate([root, joints])


@quantity
def interpolate(articulation: Articulation, start: State, end: State, fraction: float | Array) -> State:
    """The configuration part of the way along the shortest path between two, Pinocchio's ``interpolate``.

    Joints move at constant velocity; the root turns about an axis fixed in the world while its centre of mass moves on
    a straight line (Pinocchio moves a free-flyer's frame on a screw).

    Args:
      articulation: the articulation.
      start: the configuration at fraction 0.
      end: the configuration at fraction 1.
      fraction: part of the way, a number or an array of shape [].

    Returns:
      The state there, with the velocities of ``start``.

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.
    """
    part = jnp.asarray(fraction, articulation.dtype)
    check_vector("fraction", part, (), articulation.dtype, "one number")
    return integrate(articulation, start, part * difference(articulation, start, end))


@quantity
def squared_distance(articulation: Articulation, start: State, end: State) -> Array:
    """Squared lengths of the joints' parts of :func:`difference`, Pinocchio's ``squaredDistance``.

    Args:
      articulation: the articulation.
      start: one configuration.
      end: the other.

    Returns:
      Shape [L]: of the root (squared displacement of its centre of mass [m^2] plus squared angle [rad^2]; zero for a
      fixed base), then of the inbound joint of each other link [rad^2 or m^2].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.
    """
    tree, base = articulation.topology, articulation.topology.num_base_dofs
    squares = difference(articulation, start, end) ** 2
    link = jnp.asarray(tree.dof_link)
    owner = link[:, None] == jnp.arange(tree.num_links, dtype=link.dtype)[None]
    if tree.dof_is_live is not None:
        owner = owner & tree.dof_is_live[:, None]
    return masked_sum(squares[base:], owner).at[0].add(jnp.sum(squares[:base]))


@quantity
def distance(articulation: Articulation, start: State, end: State) -> Array:
    """Length of :func:`difference`, Pinocchio's ``distance``; shape [], its gradient finite everywhere.

    Metres and radians count alike; weigh the parts of :func:`squared_distance` otherwise. Arguments and what is raised
    are those of :func:`squared_distance`.
    """
    square = jnp.sum(squared_distance(articulation, start, end))
    apart = square > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, square, jnp.ones_like(square))), jnp.zeros_like(square))


@quantity
def normalize(articulation: Articulation, state: State) -> State:
    """The same configuration in its normal form, Pinocchio's ``normalize``.

    The root's quaternion gets length 1, rotation vectors of spherical joints with three free axes become the shortest
    ones, at most pi long, and wrapped angles come back within [-2 pi, 2 pi]. Velocities are kept.

    Args:
      articulation: the articulation.
      state: its state; the quaternion has any non-zero length.

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.
    """
    check_state(articulation, state)
    tree, root, span = articulation.topology, state.root_pose, 4 * jnp.pi
    q = state.joint_position
    q = jnp.where(jnp.asarray(tree.dof_wraps), q - span * jnp.round(q / span), q)
    if tree.has_spherical:
        shortest = spatial.quaternion_log(spatial.quaternion_exp(by_body(tree, q)))
        q = jnp.where(_in_full_rotation(tree), where_spherical(tree, shortest, q), q)
    return state.replace(root_pose=jnp.concatenate([root[:3], _unit(root[3:])]), joint_position=q)


def is_normalized(articulation: Articulation, state: State, tolerance: float = 1e-6) -> Array:
    """Whether :func:`normalize` would change no number by more than ``tolerance``, shape [], bool.

    Pinocchio's ``isNormalized``. Arguments and what is raised are those of :func:`normalize`.
    """
    there = normalize(articulation, state)
    changes = jnp.concatenate([there.root_pose - state.root_pose, there.joint_position - state.joint_position])
    return jnp.all(jnp.abs(changes) <= tolerance)


@quantity
def is_same_configuration(articulation: Articulation, start: State, end: State, tolerance: float = 1e-6) -> Array:
    """Whether no entry of :func:`difference` exceeds ``tolerance`` [m, rad], shape [], bool.

    Pinocchio's ``isSameConfiguration``, but the two quaternions of one rotation, and rotation vectors a whole turn
    apart, are the same here. The poses of fixed bases are compared too.

    Args:
      articulation: the articulation.
      start: one configuration.
      end: the other.
      tolerance: largest difference [m, rad].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.
    """
    turn = spatial.quaternion_product(
        _unit(end.root_pose[3:])[:, None], spatial.conjugate(_unit(start.root_pose[3:])[:, None])
    )
    root = jnp.concatenate([end.root_pose[:3] - start.root_pose[:3], spatial.quaternion_log(turn)[:, 0]])
    changes = jnp.concatenate([root, difference(articulation, start, end)])
    return jnp.all(jnp.abs(changes) <= tolerance)


@quantity
def joint_velocity_from_rate(articulation: Articulation, state: State, rate: Array) -> Array:
    """Joint velocities from the rates of change of the joint positions.

    They differ for spherical joints only: the velocity is the angular velocity in the child joint frame, ``J_r(q)``
    times the rate of the rotation vector, with J_r the right Jacobian of SO(3); with one or two free axes the inverse
    of the map of :func:`joint_rate_from_velocity`.

    Args:
      articulation: the articulation.
      state: its state; only joint positions matter.
      rate: dq/dt, shape [n] [rad/s or m/s].

    Returns:
      Joint velocities, shape [n] [rad/s or m/s].
    """
    tree = articulation.topology
    check_vector("rate", rate, (tree.num_dofs,), articulation.dtype, "n joint DOFs")
    if not tree.has_spherical:
        return rate
    inverse = rate_matrix(tree, state.joint_position)
    return where_spherical(tree, spatial.apply(spatial.inverse(inverse), by_body(tree, rate)), rate)


@quantity
def joint_rate_from_velocity(articulation: Articulation, state: State, velocity: Array) -> Array:
    """Rates of change of the joint positions, ``J_r(q)^-1`` times the velocity for spherical joints.

    With two free axes the rate's component along the locked axis, which PhysX drops when it reads a position, is
    dropped too.

    Args:
      articulation: the articulation.
      state: its state; only joint positions matter.
      velocity: joint velocities, shape [n] [rad/s or m/s].

    Returns:
      dq/dt, shape [n] [rad/s or m/s].
    """
    tree = articulation.topology
    check_vector("velocity", velocity, (tree.num_dofs,), articulation.dtype, "n joint DOFs")
    if not tree.has_spherical:
        return velocity
    matrix = rate_matrix(tree, state.joint_position)
    return where_spherical(tree, spatial.apply(matrix, by_body(tree, velocity)), velocity)


def wrap_angles(tree: Tree, q: Array) -> Array:
    """Brings wrapped angles among positions [n] back within [-2 pi, 2 pi] by a step of 4 pi, as PhysX does."""
    turn = 2 * jnp.pi
    wrapped = jnp.where(q > turn, q - 2 * turn, jnp.where(q < -turn, q + 2 * turn, q))
    return jnp.where(jnp.asarray(tree.dof_wraps), wrapped, q)


def where_spherical(tree: Tree, vectors: Array, other: Array) -> Array:
    """Takes the DOFs of spherical joints from vectors [3, B-1], the rest from ``other`` [n]."""
    width = tree.num_bodies - 1
    values = take(vectors.reshape(-1), tree.dof_column * width + tree.dof_body - 1)
    return jnp.where(take(jnp.asarray(tree.body_is_spherical), tree.dof_body), values, other)


def spherical_vectors(tree: Tree, q: Array) -> Array:
    """The DOF values [n] of spherical joints by place within the joint, zero for other joints, [3, B-1]."""
    values = by_body(tree, q)
    return jnp.where(jnp.asarray(tree.body_is_spherical)[1:], values, jnp.zeros_like(values))


def rate_matrix(tree: Tree, q: Array) -> Array:
    """J_r(q)^-1 restricted to the free axes, the identity elsewhere, [3, 3, B-1]."""
    matrix = spatial.inverse(spatial.right_jacobian(spherical_vectors(tree, q)))
    free = jnp.asarray(tree.body_dofs)[:, 1:] < tree.num_dofs
    eye = jnp.broadcast_to(spatial.identity_like(matrix), matrix.shape)
    return jnp.where(free[:, None] & free[None], matrix, eye)


def _in_full_rotation(tree: Tree) -> Array:
    """Whether each DOF belongs to a spherical joint with three free axes, [n]."""
    spherical = jnp.asarray(tree.body_is_spherical) & jnp.all(jnp.asarray(tree.body_dofs) < tree.num_dofs, axis=0)
    return take(spherical, tree.dof_body)


def _unit(quaternion: Array) -> Array:
    return spatial.normalize(quaternion[:, None])[:, 0]
