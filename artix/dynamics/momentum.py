"""Centre of mass, centroidal momentum, and kinetic, potential and mechanical energy; masses and
centres of subtrees.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inertia import (
    first_moments,
    gravity_moments,
    momentum_of_motion,
    reference_inertias,
)
from artix.dynamics.mass_matrix import generalized_momenta, momenta_rates
from artix.dynamics.newton_euler import (
    displacement_rates,
    force_cross,
    forces_by_configuration,
    forces_by_velocity,
    newton_euler,
)
from artix.kinematics.columns import (
    changes_by_velocity,
    displacement_from_tangents,
    displacement_motions,
    displacements,
    generalized_columns,
)
from artix.kinematics.forward import (
    Kinematics,
    dof_motions,
    generalized_motions,
    kinematics,
    link_centers,
    motion_cross,
    motion_rates,
    root_motion,
    state_velocities,
)
from artix.kinematics.frames import (
    Frame,
    check_single,
    frame_acceleration,
    frame_velocity,
    link_of_frame,
)
from artix.kinematics.tree import link_subtree_sums, subtree_sums
from artix.math import spatial
from artix.math.arrays import matmul, take
from artix.math.spatial import Motion, Transforms
from artix.math.tangents import add, directional_derivative, is_zero
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array


@quantity
def center_of_mass(
    articulation: Articulation, state: State, frame: Literal["world", "root"] = "world"
) -> Array:
    """Centre of mass of the whole articulation, PhysX's ``computeArticulationCOM``.

    Args:
      frame: ``"world"``, or ``"root"`` for the root's mass frame (origin at its centre of mass,
        axes of its ``link_com_pose``), which is what PhysX's ``rootFrame`` means.

    Returns:
      The position [m], shape [3].

    Raises:
      ValueError: ``frame`` is neither of the two.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> print(artix.center_of_mass(pendulum, artix.neutral_state(pendulum)))
      [ 0.  0. -1.]
      >>> states = jax.vmap(lambda key: artix.random_state(pendulum, key))(
      ...     jax.random.split(jax.random.key(0), 256)
      ... )
      >>> print(jax.vmap(lambda state: artix.center_of_mass(pendulum, state))(states).shape)
      (256, 3)
    """
    if frame not in ("world", "root"):
        raise ValueError(f"frame must be 'world' or 'root'; found {frame!r}")
    kin = kinematics(articulation, state)
    center = mass_center(articulation, kin)
    if frame == "world":
        return kin.reference + center[:, 0]
    axes = Transforms.from_poses(articulation.link_com_pose[:1]).rotation
    return spatial.rotate_inverse(spatial.quaternion_product(kin.quaternion[:, :1], axes), center)[
        :, 0
    ]


@quantity
def center_of_mass_jacobian(articulation: Articulation, state: State) -> Array:
    """Jacobian of the centre of mass's velocity in world axes, Pinocchio's ``Jcom``.

    Returns:
      Shape [3, nv] [m or 1].

    Identity: ``center_of_mass_jacobian(a, s) * total_mass`` is the linear part of the centroidal
    momentum matrix.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> jacobian = artix.center_of_mass_jacobian(pendulum, artix.neutral_state(pendulum))
      >>> print(jacobian[0])  # along x per unit of speed of the shoulder, of the elbow [m]
      [-1.   -0.25]
    """
    kin = kinematics(articulation, state)
    return generalized_momenta(articulation, kin)[1][:3] / jnp.sum(articulation.link_mass)


@quantity
def centroidal_momentum_matrix(articulation: Articulation, state: State) -> tuple[Array, Array]:
    """Matrix A and bias of the momentum about the centre of mass: ``h = A nu`` and
    ``dh/dt = A nu' + bias``.

    Orin, Goswami and Lee, *Centroidal dynamics of a humanoid robot*, Autonomous Robots 2013;
    Wensing and Orin 2016. Mirrors PhysX's ``computeCentroidalMomentumMatrix``, for fixed bases too.

    Returns:
      A, shape [6, nv], and the bias, shape [6]: linear [kg m/s, N], then angular about the centre
      of mass [kg m^2/s, N m], in world axes.

    Identity: ``A @ nu == centroidal_momentum(a, s)``.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.random_state(quadruped, jax.random.key(0))
      >>> matrix, bias = artix.centroidal_momentum_matrix(quadruped, state)
      >>> momentum = matrix @ artix.generalized_velocity(quadruped, state)
      >>> print(jnp.allclose(momentum, artix.centroidal_momentum(quadruped, state), atol=1e-4))
      True
    """
    kin = kinematics(articulation, state)
    _, momenta = generalized_momenta(articulation, kin)
    force = jnp.sum(
        newton_euler(articulation, kin, state, None, gravity=False).force, axis=1, keepdims=True
    )
    center = mass_center(articulation, kin)
    return about(center, momenta), about(center, force)[:, 0]


@quantity
def centroidal_momentum(articulation: Articulation, state: State) -> Array:
    """Momentum about the centre of mass, Pinocchio's ``hg``.

    Returns:
      Linear [kg m/s], then angular momentum about the centre of mass [kg m^2/s], world axes, shape
      [6].

    Identity: ``centroidal_momentum_matrix(a, s)[0] @ nu``.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(quadruped)
      >>> gliding = state.replace(root_velocity=jnp.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0]))
      >>> print(artix.centroidal_momentum(quadruped, gliding)[:3])
      [7.12 0.   0.  ]
      >>> print(0.5 * quadruped.link_mass.sum())
      7.12
    """
    kin = kinematics(articulation, state)
    velocity = state_velocities(articulation.topology, kin, state)
    momenta = jnp.concatenate(momentum_of_motion(reference_inertias(articulation, kin), velocity))
    return about(mass_center(articulation, kin), jnp.sum(momenta, axis=1, keepdims=True))[:, 0]


@quantity
def centroidal_momentum_rate(
    articulation: Articulation, state: State, acceleration: Array
) -> Array:
    """Rate of change of :func:`centroidal_momentum` for a given acceleration, Pinocchio's ``dhg``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      Force [N], then torque about the centre of mass [N m], world axes, shape [6].

    Identity: ``A nu' + bias`` of :func:`centroidal_momentum_matrix`.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.random_state(quadruped, jax.random.key(0))
      >>> free = artix.forward_dynamics(quadruped, state, jnp.zeros(18))  # flying, no motor acts
      >>> rate = artix.dynamics.centroidal_momentum_rate(quadruped, state, free)
      >>> print(rate[2] / quadruped.link_mass.sum(), jnp.abs(rate[3:]).max() < 1e-2)
      -9.81 True
    """
    check_vector(
        "acceleration", acceleration, (articulation.topology.nv,), articulation.dtype, "nv"
    )
    kin = kinematics(articulation, state)
    force = newton_euler(articulation, kin, state, acceleration, gravity=False).force
    return about(mass_center(articulation, kin), jnp.sum(force, axis=1, keepdims=True))[:, 0]


@quantity
def centroidal_momentum_matrix_rate(articulation: Articulation, state: State) -> Array:
    """Rate of change of the centroidal momentum matrix, Pinocchio's ``dAg``.

    Wensing and Orin, *Improved computation of the humanoid centroidal dynamics and application for
    whole-body control*, International Journal of Humanoid Robotics 2016.

    Returns:
      Shape [6, nv], linear rows first, in world axes [kg/s, kg m/s, kg m^2/s].

    Identity: its product with nu is the bias of :func:`centroidal_momentum_matrix`.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.random_state(quadruped, jax.random.key(0))
      >>> rate = artix.dynamics.centroidal_momentum_matrix_rate(quadruped, state)
      >>> _, bias = artix.centroidal_momentum_matrix(quadruped, state)
      >>> print(jnp.allclose(rate @ artix.generalized_velocity(quadruped, state), bias, atol=1e-3))
      True
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    # In the inertial frame that moves with the root's centre of mass, the root's own motions do not
    # change.
    rnea = newton_euler(articulation, kin, state, None, gravity=False)
    motions, momenta = generalized_momenta(articulation, kin)
    rates = jnp.concatenate(motion_rates(tree, rnea.velocity, rnea.motions))
    rates = jnp.pad(rates, ((0, 0), (tree.num_base_dofs, 0)))
    changes = momenta_rates(tree, rnea.inertias, rnea.velocity, motions, rates)
    momentum = jnp.sum(
        momentum_of_motion(rnea.inertias, rnea.velocity).linear, axis=1, keepdims=True
    )
    center_velocity = momentum / jnp.sum(articulation.link_mass)
    return about(mass_center(articulation, kin), changes) - _moment(center_velocity, momenta[:3])


def about(center: Array, rows: Array) -> Array:
    """Moves momenta or forces [6, k] from the reference point to ``center`` [3, 1]."""
    return jnp.concatenate(
        [rows[:3], rows[3:] - spatial.cross(jnp.broadcast_to(center, rows[:3].shape), rows[:3])]
    )


def mass_center(articulation: Articulation, kin: Kinematics) -> Array:
    """Centre of mass relative to the reference point, [3, 1]."""
    mass, moment = first_moments(articulation, kin, articulation.link_mass)
    return jnp.sum(moment, axis=1, keepdims=True) / jnp.sum(mass)


class CentroidalDerivatives(NamedTuple):
    """Derivatives of the momentum h about the centre of mass and of its rate of change, [6, nv]
    each.

    Rows are linear [kg m/s, N], then angular [kg m^2/s, N m], in world axes.

    Attributes:
      momentum_by_configuration: of h, per m or rad along :func:`artix.integrate`.
      momentum_by_velocity: of h, the centroidal momentum matrix.
      rate_by_configuration: of ``dh/dt``, per m or rad.
      rate_by_velocity: of ``dh/dt``, per m/s or rad/s.
      rate_by_acceleration: of ``dh/dt``, the centroidal momentum matrix.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(quadruped)
      >>> derivatives = artix.dynamics.centroidal_derivatives(quadruped, state, jnp.zeros(18))
      >>> print([array.shape for array in derivatives][:2])
      [(6, 18), (6, 18)]
    """

    momentum_by_configuration: Array
    momentum_by_velocity: Array
    rate_by_configuration: Array
    rate_by_velocity: Array
    rate_by_acceleration: Array


@quantity
def centroidal_derivatives(
    articulation: Articulation, state: State, acceleration: Array
) -> CentroidalDerivatives:
    """Derivatives of the centroidal momentum and of its rate, Pinocchio's
    ``computeCentroidalDynamicsDerivatives``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      The derivatives of h and of ``dh/dt = A nu' + bias``, linear part first, in world axes, shape
      [6, nv] each.

    Identity: ``.momentum_by_velocity == centroidal_momentum_matrix(a, s)[0]``.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> state = artix.random_state(quadruped, jax.random.key(0))
      >>> derivatives = artix.dynamics.centroidal_derivatives(quadruped, state, jnp.zeros(18))
      >>> print(derivatives.rate_by_configuration.shape)
      (6, 18)
      >>> matrix, _ = artix.centroidal_momentum_matrix(quadruped, state)
      >>> print(jnp.allclose(derivatives.momentum_by_velocity, matrix, atol=1e-4))
      True
    """
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, gravity=False)
    rates = displacement_rates(articulation, kin, rnea, None, gravity=False)
    sums = rates.sums
    motions = rates.motions
    momenta = jnp.concatenate([sums.momentum, spatial.axial(sums.momentum_moments)])
    by_configuration = jnp.concatenate(
        momentum_of_motion(sums.inertias, rates.first)
    ) + force_cross(motions, momenta)
    forces = forces_by_configuration(rates)
    by_velocity = forces_by_velocity(
        rates, changes_by_velocity(tree, rnea.motions, rnea.velocity, rates.first)
    )
    # Momenta and forces are about the centre of mass, which moves as well.
    center = mass_center(articulation, kin)
    mass = jnp.sum(articulation.link_mass)
    center_changes = momentum_of_motion(sums.inertias, motions).linear / mass
    momentum = momenta[:3, :1]
    force = jnp.sum(rnea.force, axis=1, keepdims=True)[:3]
    rows = [
        about(center, by_configuration) - _moment(center_changes, momentum),
        about(center, forces) - _moment(center_changes, force),
        about(center, by_velocity),
    ]
    matrix = about(center, generalized_momenta(articulation, kin)[1])
    configuration, rate, velocity = (generalized_columns(tree, x) for x in rows)
    return CentroidalDerivatives(configuration, matrix, rate, velocity, matrix)


def _moment(arm: Array, force: Array) -> Array:
    """Moments of forces [3, k] at arms [3, k] (either may be a single column), below three rows of
    zeros, [6, k].
    """
    return jnp.pad(spatial.cross(arm, force), ((3, 0), (0, 0)))


# --- energy -------------------------------------------------------------------------------------


@quantity
def kinetic_energy(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Kinetic energy of all links.

    Args:
      armature: whether to include the joints' armature, as Pinocchio does.

    Returns:
      The energy [J], a scalar.

    Identity: ``nu @ mass_matrix(a, s) @ nu / 2``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> print(artix.kinetic_energy(pendulum, swinging))  # a rod of 2 kg and 2 m: m l^2 / 6 [J]
      1.334
    """
    energy = _kinetic_energy_with_jvp(articulation, state)
    if armature:
        energy = energy + 0.5 * jnp.sum(articulation.armature * state.joint_velocity**2)
    return energy


def _kinetic_energy(articulation: Articulation, state: State) -> Array:
    kin = kinematics(articulation, state)
    velocity = state_velocities(articulation.topology, kin, state)
    return _energy(velocity, _momenta(articulation, kin, velocity))


def _momenta(articulation: Articulation, kin: Kinematics, velocity: Motion) -> Array:
    """Momenta of the bodies about the reference point, [6, B]."""
    return jnp.concatenate(momentum_of_motion(reference_inertias(articulation, kin), velocity))


def _energy(velocity: Motion, momenta: Array) -> Array:
    return 0.5 * jnp.sum(momenta * jnp.concatenate(velocity))


@jax.custom_jvp
def _kinetic_energy_with_jvp(articulation: Articulation, state: State) -> Array:
    return _kinetic_energy(articulation, state)


@functools.partial(_kinetic_energy_with_jvp.defjvp, symbolic_zeros=True)
def _kinetic_energy_jvp(primals, tangents):
    """Seen from the bodies that a displacement moves, only their velocities change, by the same
    motion: the energy changes by its product with their momentum.
    """
    (articulation, state), (d_articulation, d_state) = primals, tangents
    tree, kin = articulation.topology, kinematics(articulation, state)
    velocity, motions = state_velocities(tree, kin, state), dof_motions(tree, kin)
    momenta = _momenta(articulation, kin, velocity)
    total, below = subtree_sums(tree, momenta)
    change = directional_derivative(
        lambda a: _kinetic_energy(a, state), articulation, d_articulation
    )
    displacement = displacement_from_tangents(
        tree, state, d_state.root_pose, d_state.joint_position
    )
    if displacement is not None:
        masks = displacements(tree)
        moved = displacement_motions(tree, kin, motions)
        first = jnp.concatenate(motion_cross(velocity.take(masks.above), moved))
        carried = take(jnp.concatenate([total, below], axis=1), masks.sums)
        change = add(change, jnp.sum(spatial.dot(first, carried) * displacement))
    if not is_zero(d_state.root_velocity):
        d_root = jnp.concatenate(root_motion(tree, d_state.root_velocity))
        change = add(change, jnp.sum(total * d_root))
    if not is_zero(d_state.joint_velocity):
        momentum = spatial.dot(jnp.concatenate(motions), below)
        change = add(change, jnp.sum(momentum * d_state.joint_velocity))
    energy = _energy(velocity, momenta)
    return energy, jnp.zeros_like(energy) if change is None else change


@quantity
def potential_energy(articulation: Articulation, state: State) -> Array:
    """Potential energy of gravity, zero for a mass at the world's origin; Pinocchio's
    ``computePotentialEnergy``.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured.

    Returns:
      The energy [J], a scalar.

    Identity: its gradient along ``integrate`` is ``gravity_compensation``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> # -9.81 (0.5 + 1.5) J
      >>> print(artix.potential_energy(pendulum, artix.neutral_state(pendulum)))
      -19.62
    """
    kin = kinematics(articulation, state)
    mass, moment = gravity_moments(articulation, kin)
    total = jnp.sum(mass[None] * kin.reference[:, None] + moment, axis=1)
    return -jnp.sum(total * articulation.gravity)


@quantity
def mechanical_energy(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Sum of kinetic and potential energy, Pinocchio's ``computeMechanicalEnergy`` (which includes
    the armature).

    Args:
      armature: whether to include the kinetic energy of the joints' armature.

    Returns:
      The energy [J], shape [].

    Identity: constant along motions without applied forces.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.random_state(pendulum, jax.random.key(0))
      >>> falling = artix.forward_dynamics(pendulum, state, jnp.zeros(2))
      >>> moving = (state.replace(joint_position=state.joint_velocity, joint_velocity=falling),)
      >>> _, power = jax.jvp(lambda s: artix.mechanical_energy(pendulum, s), (state,), moving)
      >>> print(jnp.abs(power) < 1e-3)  # nothing drives it: its energy stays [W]
      True
    """
    return kinetic_energy(articulation, state, armature=armature) + potential_energy(
        articulation, state
    )


# --- subtrees -----------------------------------------------------------------------------------


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
      World positions [m], shape [L, 3]; for a massless subtree, the origin of its link's mass
      frame.

    Identity: the root's is ``center_of_mass(a, s)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> print(
      ...     artix.dynamics.subtree_centers_of_mass(pendulum, artix.neutral_state(pendulum))[:, 2]
      ... )  # heights [m]
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
def subtree_center_of_mass_accelerations(
    articulation: Articulation, state: State, acceleration: Array
) -> Array:
    """Accelerations of :func:`subtree_centers_of_mass` in world axes, without gravity; Pinocchio's
    ``acom``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].

    Returns:
      Classical accelerations [m/s^2], shape [L, 3].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> accelerations = artix.dynamics.subtree_center_of_mass_accelerations(
      ...     pendulum, turning, jnp.zeros(2)
      ... )
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
    weight = articulation.link_mass * jnp.asarray(tree.link_ancestors)[top].astype(
        articulation.dtype
    )
    weight = jnp.where(jnp.sum(weight) > 0, weight, jnp.zeros_like(weight).at[top].set(1))
    weight = weight / jnp.sum(weight)
    # The fraction of the subtree's mass that each DOF moves, and the first moment of that fraction.
    moved = jnp.asarray(tree.dof_moves_link, weight.dtype)
    moved = (
        jnp.concatenate([jnp.ones_like(moved, shape=(tree.num_base_dofs, tree.num_links)), moved])
        * weight[None]
    )
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
def center_of_mass_acceleration(
    articulation: Articulation, state: State, acceleration: Array
) -> Array:
    """Acceleration of the articulation's centre of mass in world axes, without gravity; Pinocchio's
    ``acom[0]``.

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
    return frame_acceleration(articulation, state, acceleration, offset="com", classical=True)[
        :, :3
    ].T


def _mean(articulation: Articulation, of_links: Array) -> Array:
    """Mass-weighted averages of vectors [3, L] over subtrees; the link's own vector where a subtree
    has no mass.
    """
    mass = articulation.link_mass
    total = link_subtree_sums(articulation.topology, mass)
    sums = link_subtree_sums(articulation.topology, mass[None] * of_links)
    massive = total > 0
    return jnp.where(
        massive[None], sums / jnp.where(massive, total, jnp.ones_like(total))[None], of_links
    )


def _total_mean(articulation: Articulation, of_links: Array) -> Array:
    """Mass-weighted average of vectors [3, L] over all links, [3]."""
    mass = articulation.link_mass
    return jnp.sum(mass[None] * of_links, axis=1) / jnp.sum(mass)
