"""The ten dynamic parameters of each link, and regressors: the dynamics as linear functions of
them.

The parameters are ``(m, m c_x, m c_y, m c_z, I_xx, I_xy, I_yy, I_xz, I_yz, I_zz)``, the root first,
with the first moments and the rotational inertia about the origin of the link's frame, in its axes:
Pinocchio's ``toDynamicParameters`` in the same order. Not every set of values belongs to a physical
body; with the parameters of :mod:`artix.model.inertial_parameters` it does. Atkeson, An and
Hollerbach, *Estimation of inertial parameters of manipulator loads and links*, 1986; Khalil and
Dombre, *Modeling, Identification and Control of Robots*, 2002.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.kinematics.forward import Kinematics, generalized_motions, kinematics
from artix.kinematics.frames import (
    Frames,
    Offset,
    frame_acceleration,
    frame_velocity,
    is_single,
    link_frames,
    link_of_frame,
    locate_frame,
)
from artix.math import spatial
from artix.math.arrays import matmul, take
from artix.math.spatial import Transforms
from artix.math.traces import compiled
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array
NUM_PARAMETERS = 10
_ROWS, _COLUMNS = (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)


@quantity
def dynamic_parameters(articulation: Articulation) -> Array:
    """Dynamic parameters of all links, Pinocchio's ``toDynamicParameters`` of each inertia.

    Returns:
      ``(m, m c, I_xx, I_xy, I_yy, I_xz, I_yz, I_zz)`` [kg, kg m, kg m^2] about the origins of the
      link frames, shape [L, 10].

    Identity: ``joint_torque_regressor(a, s, acc) @ dynamic_parameters(a).ravel()`` is the inverse
    dynamics.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> # 1 kg, its centre half a metre below the joint
      >>> print(artix.dynamic_parameters(pendulum)[1, :4])
      [ 1.   0.   0.  -0.5]
    """
    frames = Transforms.from_poses(articulation.link_com_pose)
    mass = articulation.link_mass
    center = frames.position
    rotation = spatial.rotation_matrix(frames.rotation)
    inertia = jnp.moveaxis(articulation.link_inertia, 0, -1)
    inertia = 0.5 * (inertia + inertia.swapaxes(0, 1))
    inertia = spatial.multiply_transposed(spatial.multiply(rotation, inertia), rotation)
    inertia = inertia + mass[None, None] * _point_inertia(center)
    entries = [inertia[i, j] for i, j in zip(_ROWS, _COLUMNS, strict=True)]
    return jnp.stack([mass, *(mass[None] * center), *entries], axis=1)


def with_dynamic_parameters(articulation: Articulation, parameters: Array) -> Articulation:
    """The articulation with these dynamic parameters, Pinocchio's ``FromDynamicParameters``.

    Args:
      parameters: as :func:`dynamic_parameters` returns them, shape [L, 10]. They are not checked
        for physical consistency, which unconstrained least squares does not guarantee.

    Returns:
      The articulation with ``link_mass``, ``link_com_pose`` (in the links' axes) and
      ``link_inertia`` replaced. The centre of mass of a massless link is at the origin of its
      frame.

    Identity: ``dynamic_parameters`` of the result are the parameters.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> parameters = artix.dynamic_parameters(pendulum)
      >>> heavier = artix.with_dynamic_parameters(pendulum, 2 * parameters)
      >>> print(heavier.link_mass, heavier.link_com_pose[1, :3])
      [0. 2. 2.] [ 0.   0.  -0.5]
    """
    shape = (articulation.topology.num_links, NUM_PARAMETERS)
    check_vector("parameters", parameters, shape, articulation.dtype, "ten per link")
    mass, pose, inertia = _moments(parameters)
    return articulation.replace(link_mass=mass, link_com_pose=pose, link_inertia=inertia)


@compiled
def _moments(parameters: Array) -> tuple[Array, Array, Array]:
    """Mass [L], pose of the centre of mass [L, 7] and inertia about it [L, 3, 3]."""
    mass = parameters[:, 0]
    moment = parameters[:, 1:4].T
    massless = mass[None] == 0
    divisor = jnp.where(massless, jnp.ones_like(mass)[None], mass[None])
    center = jnp.where(massless, jnp.zeros_like(moment), moment / divisor)
    xx, xy, yy, xz, yz, zz = parameters[:, 4:].T
    inertia = jnp.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz]).reshape(3, 3, -1) - mass[
        None, None
    ] * _point_inertia(center)
    axes = jnp.zeros_like(parameters[:, :4]).at[:, 3].set(1)
    return mass, jnp.concatenate([center.T, axes], axis=1), jnp.moveaxis(inertia, -1, 0)


def _point_inertia(center: Array) -> Array:
    """Rotational inertia of unit point masses at [3, k] about the origin, [3, 3, k]."""
    square = spatial.dot(center, center)[None, None]
    return square * spatial.identity_like(center) - center[:, None] * center[None]


@quantity
def body_regressor(velocity: Array, acceleration: Array) -> Array:
    """Regressor of the wrench that the motion of one body requires, Pinocchio's ``bodyRegressor``.

    Args:
      velocity: spatial velocity in the body's frame, linear [m/s] first, then angular [rad/s],
        shape [6].
      acceleration: spatial acceleration in the body's frame minus the acceleration of gravity
        [m/s^2, rad/s^2], shape [6].

    Returns:
      Shape [6, 10]: its product with the dynamic parameters is the force [N], then the torque
      [N m], at the frame's origin and in its axes.

    Examples:
      >>> # held still: zero minus gravity
      >>> acceleration = jnp.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0])
      >>> regressor = artix.dynamics.body_regressor(jnp.zeros(6), acceleration)
      >>> # 2 kg, the centre of mass 0.1 m along x
      >>> parameters = jnp.zeros(10).at[0].set(2.0).at[1].set(0.2)
      >>> print(regressor @ parameters)
      [ 0.     0.    19.62   0.    -1.962  0.   ]
    """
    dtype = jnp.asarray(velocity).dtype
    check_vector("velocity", velocity, (6,), dtype, "linear, angular")
    check_vector("acceleration", acceleration, (6,), dtype, "linear, angular")
    return _body_regressors(velocity[:, None], acceleration[:, None])[..., 0]


@quantity
def frame_body_regressor(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    frame: Frames = None,
    offset: Offset = None,
) -> Array:
    """:func:`body_regressor` of bodies fixed to frames: Pinocchio's ``frameBodyRegressor``,
    ``jointBodyRegressor``.

    ``gravity_scale`` of the frame's link is honoured.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      frame: which frame, every link by default; see :func:`artix.frame_velocity`.
      offset: a pose in it; see :func:`artix.frame_velocity`.

    Returns:
      Shape [6, 10], for dynamic parameters about the frame's origin in its axes; [L, 6, 10] for
      every link, [k, 6, 10] for several frames. As for :func:`body_regressor`, its product with
      them is the force [N], then the torque [N m].

    Raises:
      KeyError: no link or frame has this name.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> regressor = artix.dynamics.frame_body_regressor(arm, state, jnp.zeros(7), "tool")
      >>> # the force on each kilogram that the tool carries
      >>> print(regressor.shape, regressor[2, 0])
      (6, 10) 9.81
      >>> regressors = artix.dynamics.frame_body_regressor(arm, state, jnp.zeros(7))
      >>> # on each link by itself
      >>> wrenches = jnp.einsum("lij,lj->li", regressors, artix.dynamic_parameters(arm))
      >>> print(regressors.shape, wrenches.shape)
      (9, 6, 10) (9, 6)
    """
    kin = kinematics(articulation, state)
    velocity = frame_velocity(articulation, state, frame, offset, axes="local")
    rate = frame_acceleration(articulation, state, acceleration, frame, offset, axes="local")
    _, placement = locate_frame(articulation, kin, frame, offset)
    scale = articulation.gravity_scale
    if frame is not None:
        scale = take(scale, link_of_frame(articulation, frame)[0])
    gravity = spatial.rotate_inverse(
        placement.rotation, scale[None] * articulation.gravity[:, None]
    )
    felt = rate.reshape(-1, 6).T - jnp.pad(gravity, ((0, 3), (0, 0)))
    regressors = _body_regressors(velocity.reshape(-1, 6).T, felt)
    return regressors[..., 0] if is_single(frame) else jnp.moveaxis(regressors, -1, 0)


@quantity
def joint_torque_regressor(articulation: Articulation, state: State, acceleration: Array) -> Array:
    """Regressor of inverse dynamics without armature, Pinocchio's ``computeJointTorqueRegressor``.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured.
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      Shape [nv, 10 L]; its product with the parameters is in N m or N. The ten columns of a fixed
      root are zero.

    Identity: its product with ``dynamic_parameters(a).ravel()`` is
    ``inverse_dynamics(..., armature=False)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> acceleration = jnp.ones(7)
      >>> regressor = artix.joint_torque_regressor(arm, state, acceleration)
      >>> torque = regressor @ artix.dynamic_parameters(arm).ravel()
      >>> print(regressor.shape)
      (7, 90)
      >>> print(
      ...     jnp.allclose(
      ...         torque,
      ...         artix.inverse_dynamics(arm, state, acceleration, armature=False),
      ...         atol=1e-3,
      ...     )
      ... )
      True
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    local = jnp.moveaxis(frame_body_regressor(articulation, state, acceleration), 0, -1)
    frames = link_frames(tree, kin)
    rotation = spatial.rotation_matrix(frames.rotation)
    force = spatial.multiply(rotation, local[:3])
    torque = spatial.multiply(rotation, local[3:]) + spatial.multiply(
        spatial.skew(frames.position), force
    )
    wrenches = jnp.moveaxis(jnp.concatenate([force, torque]), -1, 1).reshape(6, -1)
    motions = generalized_motions(articulation, kin)
    powers = matmul(motions.T, wrenches)
    moves = jnp.asarray(tree.dof_moves_link, powers.dtype)
    moves = jnp.concatenate(
        [jnp.ones_like(moves, shape=(tree.num_base_dofs, tree.num_links)), moves]
    )
    return (powers.reshape(tree.nv, tree.num_links, 10) * moves[..., None]).reshape(
        tree.nv, 10 * tree.num_links
    )


@quantity
def static_regressor(articulation: Articulation, state: State) -> Array:
    """Regressor of the centre of mass, Pinocchio's ``computeStaticRegressor``.

    Args:
      articulation: the articulation; its total mass, including a fixed root's, is taken as known.

    Returns:
      Shape [3, 4 L], in world axes; its product with masses [kg] and first moments [kg m] is a
      position [m].

    Identity: its product with ``dynamic_parameters(a)[:, :4].ravel()`` is ``center_of_mass(a, s)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> center = (
      ...     artix.dynamics.static_regressor(arm, state)
      ...     @ artix.dynamic_parameters(arm)[:, :4].ravel()
      ... )
      >>> print(jnp.allclose(center, artix.center_of_mass(arm, state), atol=1e-4))
      True
    """
    kin = kinematics(articulation, state)
    rows = _first_moment_regressor(articulation, kin) / jnp.sum(articulation.link_mass)
    return rows.reshape(3, -1)


@quantity
def kinetic_energy_regressor(articulation: Articulation, state: State) -> Array:
    """Regressor of the kinetic energy without armature, Pinocchio's
    ``computeKineticEnergyRegressor``.

    Returns:
      Shape [10 L]; its product with the parameters is in J.

    Identity: its product with ``dynamic_parameters(a).ravel()`` is ``kinetic_energy(a, s)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> energy = (
      ...     artix.dynamics.kinetic_energy_regressor(arm, state)
      ...     @ artix.dynamic_parameters(arm).ravel()
      ... )
      >>> print(jnp.allclose(energy, artix.kinetic_energy(arm, state), rtol=1e-4))
      True
    """
    velocity = frame_velocity(articulation, state, axes="local").T
    v = velocity[:3]
    x, y, z = velocity[3:]
    moments = spatial.cross(v, velocity[3:])
    rows = [
        0.5 * spatial.dot(v, v),
        *moments,
        0.5 * x * x,
        x * y,
        0.5 * y * y,
        x * z,
        y * z,
        0.5 * z * z,
    ]
    return jnp.stack(rows, axis=1).reshape(-1)


@quantity
def potential_energy_regressor(articulation: Articulation, state: State) -> Array:
    """Regressor of gravity's potential energy, Pinocchio's ``computePotentialEnergyRegressor``.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured.

    Returns:
      Shape [10 L]; its product with the parameters is in J.

    Identity: its product with ``dynamic_parameters(a).ravel()`` is ``potential_energy(a, s)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> energy = (
      ...     artix.dynamics.potential_energy_regressor(arm, state)
      ...     @ artix.dynamic_parameters(arm).ravel()
      ... )
      >>> print(jnp.allclose(energy, artix.potential_energy(arm, state), rtol=1e-4))
      True
    """
    moments = _first_moment_regressor(articulation, kinematics(articulation, state))
    rows = (
        -jnp.sum(articulation.gravity[:, None, None] * moments, axis=0)
        * articulation.gravity_scale[:, None]
    )
    return jnp.pad(rows, ((0, 0), (0, 6))).reshape(-1)


def _first_moment_regressor(articulation: Articulation, kin: Kinematics) -> Array:
    """Regressor of the first moment of mass about the world's origin, [3, L, 4]."""
    tree = articulation.topology
    frames = link_frames(tree, kin)
    position = kin.reference[:, None] + frames.position
    rows = jnp.concatenate([position[:, None], spatial.rotation_matrix(frames.rotation)], axis=1)
    return jnp.moveaxis(rows, -1, 1)


def _body_regressors(velocity: Array, acceleration: Array) -> Array:
    """Body regressors [6, 10, k] of velocities and spatial accelerations [6, k]."""
    omega, alpha = velocity[3:], acceleration[3:]
    classical = acceleration[:3] + spatial.cross(omega, velocity[:3])
    spin = spatial.skew(omega)
    moment = spatial.skew(alpha) + spatial.multiply(spin, spin)
    inertia = _inertia_columns(alpha) + spatial.multiply(spin, _inertia_columns(omega))
    zero = jnp.zeros_like(inertia)
    upper = jnp.concatenate([classical[:, None], moment, zero], axis=1)
    return jnp.concatenate(
        [upper, jnp.concatenate([zero[:, :1], -spatial.skew(classical), inertia], axis=1)],
    )


def _inertia_columns(w: Array) -> Array:
    """The matrices [3, 6, k] that map (I_xx, I_xy, I_yy, I_xz, I_yz, I_zz) to ``I w``."""
    x, y, z = w
    zero = jnp.zeros_like(w[0])
    rows = [x, y, zero, z, zero, zero, zero, x, y, zero, z, zero, zero, zero, zero, x, y, z]
    return jnp.stack(rows).reshape(3, 6, *w.shape[1:])
