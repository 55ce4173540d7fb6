"""Quantities evaluated once, at the start of a step: poses, Jacobians, inertias, forces, the
inverse mass matrix; and the motions, forces and joint forces that follow from them.

Positions are relative to the root's centre of mass at the start of the step, in world axes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.dynamics.factorization import MassProduct, inverse_of_product
from artix.dynamics.forward import mass_product
from artix.dynamics.mass_matrix import mass_matrix
from artix.dynamics.newton_euler import generalized_forces, link_sums
from artix.kinematics.forward import center_velocities, dof_motions, kinematics, root_motion
from artix.kinematics.frames import frame_acceleration, frame_jacobian, link_frames
from artix.math import spatial
from artix.math.arrays import matmul, take
from artix.math.spatial import Motion, Transforms
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

Array = jax.Array
HIGHEST = jax.lax.Precision.HIGHEST


class StepStart(NamedTuple):
    """The articulation at the start of a step. L links, n joint DOFs, nv generalised velocities."""

    topology: Topology
    frame: Transforms
    """The link frames, L of them."""
    center: Array
    """Centres of mass of the links, [L, 3]."""
    mass_axes: Array
    """Orientations of the links' mass frames, [4, L]."""
    link_inertia: Array
    """Rotational inertias about the centres of mass in the mass frames [kg m^2], [3, 3, L]."""
    mass: Array
    """Masses of the links [kg], [L]."""
    motions: Motion
    """What a unit velocity of each joint DOF gives to what lies below it, [3, n]."""
    link_jacobian: Array | None
    """Velocities of the links' centres of mass per unit of ``nu``, [L, 6, nv]; see
    :func:`evaluate_step_start`."""
    accelerations: Array | None
    """Accelerations of the links at zero generalised acceleration, [L, 6]; see
    :func:`evaluate_step_start`."""
    mass_matrix: Array
    """Mass matrix without armature, [nv, nv]."""
    mass_product: MassProduct
    """The mass matrix with armature, as factors."""
    inverse: Array | None
    """Inverse of the mass matrix with armature, [nv, nv]; see :func:`evaluate_step_start`."""
    axis: Array
    """Axis of each DOF in the child joint frame, [n, 3]."""
    child_origin: Array
    """Origin of each DOF's joint frame on its link, [n, 3]."""
    parent_origin: Array
    """Origin of each DOF's joint frame on its parent link, [n, 3]."""

    @property
    def jacobian(self) -> Array:
        """The links' Jacobian, [L, 6, nv]."""
        assert self.link_jacobian is not None
        return self.link_jacobian

    @property
    def velocity_product(self) -> Array:
        """Accelerations of the links' centres of mass at zero generalised acceleration, [L, 6]."""
        assert self.accelerations is not None
        return self.accelerations

    @property
    def inverse_mass(self) -> Array:
        """The inverse of the mass matrix with armature, [nv, nv]."""
        assert self.inverse is not None
        return self.inverse


def evaluate_step_start(
    articulation: Articulation, state: State, *, with_all: bool = True
) -> StepStart:
    """Evaluates everything that stays constant during the step.

    The links' Jacobian, their accelerations and the inverse mass matrix are only evaluated
    ``with_all``; most steps of the implicit solver do not need them.
    """
    topology = articulation.topology
    kin = kinematics(articulation, state)
    frame = link_frames(topology, kin)
    mass_frame = frame @ Transforms.from_poses(articulation.link_com_pose)
    links, parents = topology.dof_link, topology.dof_parent_link
    child = frame.take(links) @ Transforms.from_poses(articulation.joint_child_pose).take(links)
    parent = frame.take(parents) @ Transforms.from_poses(articulation.joint_parent_pose).take(links)
    axis = jnp.where(jnp.asarray(topology.dof_is_linear), topology.dof_axis - 3, topology.dof_axis)
    unit = take(jnp.eye(3, dtype=articulation.dtype), axis)
    matrix, product = mass_matrix(articulation, state), mass_product(articulation, kin)
    return StepStart(
        topology=topology,
        frame=frame,
        center=mass_frame.position.T,
        mass_axes=mass_frame.rotation,
        link_inertia=jnp.moveaxis(articulation.link_inertia, 0, -1),
        mass=articulation.link_mass,
        motions=dof_motions(topology, kin),
        link_jacobian=frame_jacobian(articulation, state, offset="com") if with_all else None,
        accelerations=_velocity_products(articulation, state) if with_all else None,
        mass_matrix=matrix,
        mass_product=product,
        inverse=inverse_of_product(topology, matrix, product) if with_all else None,
        axis=spatial.rotate(child.rotation, unit).T,
        child_origin=child.position.T,
        parent_origin=parent.position.T,
    )


def _velocity_products(articulation: Articulation, state: State) -> Array:
    return frame_acceleration(
        articulation,
        state,
        jnp.zeros(articulation.topology.nv, articulation.dtype),
        offset="com",
        classical=True,
    )


def has_tendons(topology: Topology) -> bool:
    """Whether the articulation has tendons."""
    return bool(topology.fixed_tendons or topology.spatial_tendons)


def has_loop_joints(topology: Topology) -> bool:
    """Whether the articulation has loop joints."""
    return bool(topology.loop_joints)


def inverse_with(at_start: StepStart, added: Array) -> Array:
    """The inverse of the mass matrix with ``added`` [nv] on its diagonal, [nv, nv]."""
    return inverse_of_product(
        at_start.topology, at_start.mass_matrix, at_start.mass_product._replace(added=added)
    )


def world_inertias(at_start: StepStart) -> Array:
    """Rotational inertias about the centres of mass in world axes [kg m^2], [L, 3, 3]."""
    axes = spatial.rotation_matrix(at_start.mass_axes)
    turned = spatial.multiply_transposed(spatial.multiply(axes, at_start.link_inertia), axes)
    return jnp.moveaxis(turned, -1, 0)


def link_motion(at_start: StepStart, velocity: Array) -> Array:
    """The link velocities [L, 6] for a generalised velocity [nv]; also for displacements and
    effects of impulses.
    """
    # Sums over the tree: solvers without tendons need no Jacobian.
    tree, base = at_start.topology, at_start.topology.num_base_dofs
    root = root_motion(tree, velocity[:base] if base else jnp.zeros_like(velocity, shape=6))
    return center_velocities(tree, at_start.motions, root, velocity[base:], at_start.center.T).T


def response(at_start: StepStart, impulse: Array) -> Array:
    """The change of the generalised velocity [nv] due to a generalised impulse [nv]."""
    return matmul(at_start.inverse_mass, impulse)


def inertial_wrenches(at_start: StepStart, motion: Array, acceleration: Array) -> Array:
    """The wrenches [L, 6] at the links' centres of mass required for their motion
    (Newton-Euler).
    """
    omega, alpha = motion[:, 3:].T, acceleration[:, 3:].T
    moment = spins(at_start, alpha) + spatial.cross(omega, spins(at_start, omega))
    return jnp.concatenate([at_start.mass[:, None] * acceleration[:, :3], moment.T], axis=1)


def incoming_joint_forces(
    articulation: Articulation,
    at_start: StepStart,
    end_frame: Transforms,
    motion: Array,
    acceleration: Array,
    wrench: Array,
    tendon_wrench: tuple[Array, Array],
) -> Array:
    """The wrenches that links receive from their parents through their joints: PhysX's incoming
    joint forces.

    Args:
      articulation: the articulation.
      at_start: the articulation at the start of the step.
      end_frame: the links' frames at the end of the step, in whose joint frames PhysX expresses the
        result.
      motion: the links' velocities at the start of the step, [L, 6].
      acceleration: the links' accelerations during the step, [L, 6].
      wrench: external wrenches on the links, without those of tendons, [L, 6].
      tendon_wrench: wrenches of all tendons on the links, and of fixed tendons on the links that
        their joints move, [L, 6] each. PhysX counts the latter as transmitted by those joints.

    Returns:
      Force [N], then torque [N m] at the origin and in the axes of the child joint frame, shape
      [L, 6]; zero for the root.
    """
    everything, transmitted = tendon_wrench
    needed = inertial_wrenches(at_start, motion, acceleration) - wrench - everything
    moment = needed[:, 3:] + jnp.cross(at_start.center, needed[:, :3])
    below = jnp.asarray(at_start.topology.link_ancestors, needed.dtype)
    sums = matmul(below, jnp.concatenate([needed[:, :3], moment], axis=1))
    force = sums[:, :3] + transmitted[:, :3]
    torque = sums[:, 3:] - jnp.cross(at_start.center, sums[:, :3]) + transmitted[:, 3:]
    joint = Transforms.from_poses(articulation.joint_child_pose)
    arm = joint.position - articulation.link_com_pose[:, :3].T
    axes = spatial.quaternion_product(end_frame.rotation, joint.rotation)
    arm = spatial.rotate(end_frame.rotation, arm)
    local = [
        spatial.rotate_inverse(axes, vector)
        for vector in (force.T, torque.T - spatial.cross(arm, force.T))
    ]
    return jnp.concatenate(local).T.at[0].set(0)


def spins(at_start: StepStart, angular: Array) -> Array:
    """Angular momenta of the links about their own centres of mass, for angular velocities [3, L]
    in world axes.
    """
    axes = at_start.mass_axes
    return spatial.rotate(
        axes, spatial.apply(at_start.link_inertia, spatial.rotate_inverse(axes, angular))
    )


def momenta_about_centers(at_start: StepStart, motion: Array) -> Array:
    """Linear and angular momenta [L, 6] of the links about their own centres of mass."""
    return jnp.concatenate(
        [at_start.mass[:, None] * motion[:, :3], spins(at_start, motion[:, 3:].T).T], axis=1
    )


def generalized_force(at_start: StepStart, wrench: Array) -> Array:
    """The generalised force [nv] of wrenches [L, 6] at the links' centres of mass."""
    force, torque = wrench[:, :3].T, wrench[:, 3:].T
    moved = jnp.concatenate([force, torque + spatial.cross(at_start.center.T, force)])
    return generalized_forces(
        at_start.topology, at_start.motions, link_sums(at_start.topology, moved)
    )


def point_row(
    at_start: StepStart, link: np.ndarray | Array, point: Array, direction: Array
) -> Array:
    """Rows that map link motions to the velocities of points along directions.

    Args:
      at_start: the articulation at the start of the step.
      link: the links of k points, [k].
      point: the points, [k, 3].
      direction: the directions, [k, 3].

    Returns:
      Shape [k, 6]. The product of a row with the motion of its ``link`` is the velocity; as a
      wrench, the row is a unit force at the point.
    """
    return jnp.concatenate(
        [direction, jnp.cross(point - at_start.center[link], direction)], axis=-1
    )


def angular_row(direction: Array) -> Array:
    """Rows for the angular velocity about directions [k, 3]; as a wrench, a unit torque."""
    return jnp.concatenate([jnp.zeros_like(direction), direction], axis=-1)


def axis_row(at_start: StepStart, dof: np.ndarray, link: np.ndarray | Array, point: Array) -> Array:
    """Rows for the axes of DOFs [k]: velocities of points for translations, angular velocities for
    rotations.
    """
    axis = at_start.axis[dof]
    linear = jnp.asarray(at_start.topology.dof_is_linear[dof])[:, None]
    return jnp.where(linear, point_row(at_start, link, point, axis), angular_row(axis))


def onto_links(at_start: StepStart, link: np.ndarray | Array, row: Array) -> Array:
    """Rows [k, 6] for the motions of links [k] as rows for those of all links, or wrenches on them,
    [k, L, 6].
    """
    places = jnp.eye(at_start.topology.num_links, dtype=row.dtype)
    return places[link][:, :, None] * row[:, None]


def gravity_and_loads(articulation: Articulation, load: Array | None) -> Array:
    """Wrenches of gravity and of external loads on the links at their centres of mass, [L, 6]."""
    a = articulation
    linear = (a.link_mass * a.gravity_scale)[:, None] * a.gravity[None]
    weight = jnp.concatenate([linear, jnp.zeros_like(linear)], axis=1)
    return weight if load is None else weight + load


def link_resistance(
    articulation: Articulation, at_start: StepStart, motion: Array, wrench: Array, dt: Array
) -> tuple[Array, Array]:
    """Wrenches at the links' centres of mass, [L, 6] each: what damping takes away from the given
    ones, and brakes.

    Link damping also attenuates gravity and loads by ``1 - damping dt``, as in PhysX. A link beyond
    its speed limit is braked to it within the step.
    """
    a = articulation
    taken, brakes = [], []
    for k, damping, limit in (
        (0, a.link_linear_damping, a.max_link_linear_velocity),
        (3, a.link_angular_damping, a.max_link_angular_velocity),
    ):
        velocity = motion[:, k : k + 3].T
        momentum = spins(at_start, velocity) if k else at_start.mass[None] * velocity
        square = spatial.dot(velocity, velocity)
        fast = square > limit**2
        speed = jnp.sqrt(jnp.where(fast, square, 1))
        excess = jnp.where(fast, 1 - jnp.where(fast, limit, 1) / speed, 0)
        rate = jnp.where(damping > 0, jnp.minimum(damping, 1 / dt), 0)
        brakes.append(-momentum * (rate + excess / dt)[None])
        taken.append(wrench[:, k : k + 3].T * (rate * dt)[None])
    return jnp.concatenate(taken).T, jnp.concatenate(brakes).T
