"""PhysX's deprecated generalised quantities: what joints feel when a floating root is free and carries no force.

With root rows r and joint rows j of the equation of motion, eliminating the root's acceleration leaves the Schur
complement ``Sch(y) = y_j - M_jr M_rr^-1 y_r``. For a fixed base each function is the plain one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation, State
from artix.bodies import Placement
from artix.dynamics.inverse import coriolis_compensation, generalized_external_force, gravity_compensation
from artix.dynamics.mass_matrix import mass_matrix
from artix.frames import link_poses

Array = jax.Array


def generalized_mass_matrix(articulation: Articulation, state: State) -> Array:
    """``computeGeneralizedMassMatrix``: joint inertia with the root free, shape [n, n]."""
    base = articulation.topology.num_base_dofs
    return _eliminate_root(articulation, state, mass_matrix(articulation, state)[:, base:])


def coriolis_and_centrifugal_force(articulation: Articulation, state: State) -> Array:
    """``computeCoriolisAndCentrifugalForce``: joint forces that cancel velocity effects, the root free, shape [n]."""
    return _eliminate_root(articulation, state, coriolis_compensation(articulation, state)[:, None])[:, 0]


def generalized_gravity_force(articulation: Articulation, state: State, *, physx_compat: bool = False) -> Array:
    """``computeGeneralizedGravityForce``: joint forces that cancel gravity, the root free, shape [n].

    A free root falls with its links, so the result is zero unless some link's ``gravity_scale`` differs. PhysX 5.6.1
    returns the opposite sign for a floating base and adds the gyroscopic torques of all links at the root's angular
    velocity; ``physx_compat=True`` does the same.
    """
    gravity = gravity_compensation(articulation, state)
    tree = articulation.topology
    if physx_compat and tree.num_base_dofs:
        wrong = (
            generalized_external_force(articulation, state, _root_gyroscopic_wrenches(articulation, state)) - gravity
        )
        free = tree.base_is_free
        gravity = wrong if free is None else jnp.where(free, wrong, gravity)
    return _eliminate_root(articulation, state, gravity[:, None])[:, 0]


def _eliminate_root(articulation: Articulation, state: State, rows: Array) -> Array:
    """The Schur complement of rows [nv, k] in the root: [n, k]."""
    tree = articulation.topology
    base = tree.num_base_dofs
    if base == 0:
        return rows
    matrix = mass_matrix(articulation, state)
    root = matrix[:base, :base]
    if tree.base_is_free is not None:
        root = jnp.where(tree.base_is_free, root, jnp.eye(base, dtype=root.dtype))
    solved = jnp.linalg.solve(root, rows[:base])
    return rows[base:] - jnp.matmul(matrix[base:, :base], solved, precision=jax.lax.Precision.HIGHEST)


def _root_gyroscopic_wrenches(articulation: Articulation, state: State) -> Array:
    """``w x I_i w`` of each link at the root's angular velocity w, as wrenches [L, 6]."""
    frames = Placement.from_poses(_with_unit_padding(link_poses(articulation, state)))
    axes = frames @ Placement.from_poses(articulation.link_com_pose)
    rotation = spatial.rotation_matrix(axes.rotation)
    omega = jnp.broadcast_to(state.root_velocity[3:, None], frames.position.shape)
    inertia = jnp.moveaxis(articulation.link_inertia, 0, -1)
    momentum = spatial.apply(rotation, spatial.apply(inertia, spatial.apply_transposed(rotation, omega)))
    torque = spatial.cross(omega, momentum).T
    return jnp.concatenate([jnp.zeros_like(torque), torque], axis=1)


def _with_unit_padding(poses: Array) -> Array:
    """Poses [L, 7] in which the zero quaternions of padded links became units."""
    padded = jnp.sum(jnp.abs(poses[:, 3:]), axis=1) == 0
    return poses.at[:, 6].set(jnp.where(padded, jnp.ones_like(poses[:, 6]), poses[:, 6]))
