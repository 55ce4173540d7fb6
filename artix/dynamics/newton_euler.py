"""The recursive Newton-Euler algorithm with its recursions as sums over the tree: the forces that bodies take."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation, State
from artix.bodies import Inertias
from artix.checks import check_vector
from artix.dynamics.inertia import falls_as_one, reference_inertias, weights
from artix.kinematics import Kinematics, Motion, body_accelerations, dof_motions, link_centers, staged
from artix.tree import Tree, free_root, masked_sum, stage, subtree_sums

Array = jax.Array


class NewtonEuler(NamedTuple):
    """One pass of the algorithm; about the reference point and in world axes, without the root's linear velocity."""

    motions: Motion
    """What a unit velocity of each DOF gives to what lies below it, [3, n]."""
    velocity: Motion
    """Velocities of the bodies, [3, B]."""
    acceleration: Motion
    """Spatial accelerations of the bodies, [3, B]; gravity is not among them."""
    inertias: Inertias
    """Mass moments of the bodies."""
    force: Array
    """Force and torque that each body takes: for its acceleration, against gravity, less wrenches, [6, B]."""


def newton_euler(
    articulation: Articulation,
    kin: Kinematics,
    state: State,
    acceleration: Array | None,
    external_force: Array | None = None,
    *,
    gravity: bool,
) -> NewtonEuler:
    """One pass; an acceleration of ``None`` is zero."""
    tree = articulation.topology
    motions = staged(dof_motions(tree, kin))
    velocity, rate = body_accelerations(tree, kin, motions, state, acceleration)
    inertias = reference_inertias(articulation, kin)
    pulled, felt = weights(articulation, kin) if gravity else None, rate
    if gravity and falls_as_one(articulation):
        # Known to pull all links alike, gravity is an acceleration that they feel; it takes a fifth less memory.
        pulled, felt = None, rate._replace(linear=rate.linear - articulation.gravity[:, None])
    force = forces_of_motion(articulation, velocity, felt, inertias, pulled)
    if external_force is not None:
        force = force - body_wrenches(articulation, kin, external_force)
    return NewtonEuler(motions, velocity, rate, inertias, force)


def forces_of_motion(
    articulation: Articulation,
    velocity: Motion,
    rate: Motion,
    inertias: Inertias,
    pulled: tuple[Array, Array] | None,
) -> Array:
    """Forces and torques about the reference point that the motion of each body (or link) takes, [6, k].

    ``pulled`` are the masses [k] and first moments [3, k] that gravity acts on, ``None`` for no gravity.
    """
    omega = velocity.angular
    # A point at r from the reference point accelerates by ``at_reference + turning @ r``. Multiplied by the
    # pseudo-inertia this gives the force and the matrix of moments in one product, without any nested cross product.
    at_reference = rate.linear + spatial.cross(omega, velocity.linear)
    turning = spatial.skew(rate.angular) + omega[:, None] * omega[None]
    turning = turning - spatial.dot(omega, omega)[None, None] * spatial.identity_like(omega)
    at_reference, turning = stage(at_reference, turning)
    mass, first, second = inertias
    force = mass[None] * at_reference + spatial.apply(turning, first)
    moments = spatial.multiply(turning, second) + at_reference[:, None] * first[None]
    if pulled is not None:
        weight, moment = pulled
        pull = articulation.gravity[:, None]
        force = force - weight[None] * pull
        moments = moments - pull[:, None] * moment[None]
    return stage(jnp.concatenate([force, spatial.axial(stage(moments))]))


def body_wrenches(articulation: Articulation, kin: Kinematics, external_force: Array) -> Array:
    """Wrenches on the links [L, 6], each at its centre of mass, as wrenches on the bodies about the reference point."""
    return link_sums(articulation.topology, link_wrenches(articulation, kin, external_force))


def link_sums(tree: Tree, forces: Array) -> Array:
    """Sums forces on the links [6, L] over each body: [6, B]."""
    return masked_sum(forces, tree.link_in_body) if tree.has_rigid_links else forces


def link_wrenches(articulation: Articulation, kin: Kinematics, external_force: Array) -> Array:
    """The same, still one per link, [6, L]."""
    tree = articulation.topology
    shape = (tree.num_links, 6)
    check_vector("external_force", external_force, shape, articulation.dtype, "a wrench per link")
    force, torque = external_force[:, :3].T, external_force[:, 3:].T
    center = link_centers(articulation, kin)
    return jnp.concatenate([force, torque + spatial.cross(center, force)])


def generalized_forces(tree: Tree, motions: Motion, forces: Array) -> Array:
    """Generalised forces [nv] that forces on the bodies [6, B] amount to."""
    whole, below = subtree_sums(tree, forces)
    return generalized(tree, whole, spatial.dot(jnp.concatenate(motions), below))


def generalized(tree: Tree, root: Array, joints: Array) -> Array:
    """Joins root [6, 1] and joint [n] entries to the generalised layout [nv]."""
    if tree.num_base_dofs == 0:
        return joints
    return jnp.concatenate([free_root(tree, root)[:, 0], joints])
