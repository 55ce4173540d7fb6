"""PhysX's generalised quantities of the joints only: a floating root is free and carries no force.

With root rows r and joint rows j of the equation of motion, eliminating the root's acceleration
leaves the Schur complement ``Sch(y) = y_j - M_jr M_rr^-1 y_r``. For a fixed base each function
returns the ordinary quantity.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inverse import (
    coriolis_compensation,
    generalized_external_force,
    gravity_compensation,
)
from artix.dynamics.mass_matrix import mass_matrix
from artix.kinematics.forward import root_motion
from artix.kinematics.frames import frame_jacobian, frame_pose
from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation, State

Array = jax.Array


@quantity
def dense_jacobian(articulation: Articulation, state: State) -> Array:
    """``computeDenseJacobian``: ``artix.frame_jacobian(a, s, offset="com")`` link by link, without
    a fixed root.

    Returns:
      Shape [6 L', nv] [m or 1], with L' = L for a floating base and L' = L - 1 for a fixed one. The
      six rows of a link are the velocity of its centre of mass and its angular velocity, both in
      world axes.

    Examples:
      >>> from artix import physx
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> velocities = physx.dense_jacobian(arm, state) @ artix.generalized_velocity(arm, state)
      >>> centers = artix.frame_velocity(arm, state, offset="com")[1:]
      >>> print(jnp.allclose(velocities.reshape(8, 6), centers, atol=1e-5))
      True
    """
    tree = articulation.topology
    jacobian = frame_jacobian(articulation, state, offset="com")
    jacobian = jacobian[0 if tree.num_base_dofs else 1 :]
    return jacobian.reshape(6 * len(jacobian), tree.nv)


@quantity
def generalized_mass_matrix(articulation: Articulation, state: State) -> Array:
    """``computeGeneralizedMassMatrix``: joint inertia with the root free, shape [n, n]
    [kg, kg m or kg m^2].
    """
    base = articulation.topology.num_base_dofs
    return _eliminate_root(articulation, state, mass_matrix(articulation, state)[:, base:])


@quantity
def coriolis_and_centrifugal_force(articulation: Articulation, state: State) -> Array:
    """``computeCoriolisAndCentrifugalForce``: joint forces that cancel velocity effects, root free
    [N m or N], [n].
    """
    return _eliminate_root(
        articulation, state, coriolis_compensation(articulation, state)[:, None]
    )[:, 0]


@quantity
def generalized_gravity_force(
    articulation: Articulation, state: State, *, physx_compat: bool = False
) -> Array:
    """``computeGeneralizedGravityForce``: joint forces [N m or N] that cancel gravity with the root
    free, shape [n].

    A free root falls with its links, so the result is zero unless ``gravity_scale`` differs between
    links. PhysX 5.6.1 ignores ``gravity_scale`` for a fixed base; for a floating base it returns
    the opposite sign and adds the gyroscopic torques of all links at the root's angular velocity.
    ``physx_compat=True`` reproduces this.
    """
    fixed_base = articulation.topology.fixed_base
    if physx_compat and fixed_base:
        articulation = articulation.replace(gravity_scale=jnp.ones_like(articulation.gravity_scale))
    gravity = gravity_compensation(articulation, state)
    if physx_compat and not fixed_base:
        gravity = _leaked_gyroscopic_force(articulation, state) - gravity
    return _eliminate_root(articulation, state, gravity[:, None])[:, 0]


@quantity
def joint_force_for(
    articulation: Articulation,
    state: State,
    joint_acceleration: Array,
    *,
    physx_compat: bool = False,
) -> Array:
    """``computeJointForce``: joint forces [N m or N] for joint accelerations, at rest, without
    gravity, root free, [n].

    ``physx_compat=True`` adds, as PhysX 5.6.1 does for a floating base, the gyroscopic torques of
    all links at the root's angular velocity.
    """
    base = articulation.topology.num_base_dofs
    inertia = mass_matrix(articulation, state)[:, base:]
    force = matmul(inertia, joint_acceleration)
    if physx_compat:
        force = force + _leaked_gyroscopic_force(articulation, state)
    return _eliminate_root(articulation, state, force[:, None])[:, 0]


@quantity
def counteracting_joint_force(
    articulation: Articulation, state: State, external_force: Array, *, physx_compat: bool = False
) -> Array:
    """``computeGeneralizedExternalForce``: joint forces [N m or N] that cancel wrenches [L, 6],
    root free, [n].

    ``physx_compat`` as for :func:`joint_force_for`.
    """
    force = -generalized_external_force(articulation, state, external_force)
    if physx_compat:
        force = force + _leaked_gyroscopic_force(articulation, state)
    return _eliminate_root(articulation, state, force[:, None])[:, 0]


def _eliminate_root(articulation: Articulation, state: State, rows: Array) -> Array:
    """The Schur complement of rows [nv, k] in the root: [n, k].

    Six steps of Gaussian elimination, without pivoting because the composite inertia is positive
    definite.
    """
    tree = articulation.topology
    base = tree.num_base_dofs
    if base == 0:
        return rows
    system = jnp.concatenate([mass_matrix(articulation, state)[:, :base], rows], axis=1)
    for pivot in range(base):
        step = system[pivot] / system[pivot, pivot]
        factor = jnp.where(jnp.arange(tree.nv) > pivot, system[:, pivot], 0)
        system = system - factor[:, None] * step[None]
    return system[base:, base:]


def _leaked_gyroscopic_force(articulation: Articulation, state: State) -> Array:
    """Generalised force [nv] of ``w x I_i w`` on each link at the angular velocity w of a floating
    root, else zero.
    """
    tree = articulation.topology
    omega = root_motion(tree, state.root_velocity).angular
    frames = Transforms.from_poses(frame_pose(articulation, state))
    rotation = spatial.rotation_matrix(
        (frames @ Transforms.from_poses(articulation.link_com_pose)).rotation
    )
    omega = jnp.broadcast_to(omega, frames.position.shape)
    inertia = jnp.moveaxis(articulation.link_inertia, 0, -1)
    momentum = spatial.apply(
        rotation, spatial.apply(inertia, spatial.apply_transposed(rotation, omega))
    )
    torque = spatial.cross(omega, momentum).T
    wrenches = jnp.concatenate([jnp.zeros_like(torque), torque], axis=1)
    return generalized_external_force(articulation, state, wrenches)
