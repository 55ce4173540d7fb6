"""The recursive Newton-Euler algorithm (RNEA), its recursions written as sums over the tree.

Let S_d be the motion that a unit velocity of DOF d gives to the bodies below it, about one point and in world axes::

    velocity of body b       v_b = sum of S_d qd_d over the DOFs above b                       path sum
    acceleration of body b   a_b = sum of S_d qdd_d + v x S_d qd_d over the DOFs above b, minus gravity
    force on body b          f_b = I_b a_b + v_b x* I_b v_b, minus external wrenches
    force of DOF d           tau_d = S_d . (sum of f_b over the bodies below d)                subtree sum

The first two are :func:`artix.kinematics.forward.body_accelerations`, the third :func:`forces_of_motion`, the last
:func:`generalized_forces`. Featherstone, *Rigid Body Dynamics Algorithms* (2008), section 5.3.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.dynamics.inertia import Inertias, first_moments, reference_inertias
from artix.kinematics.forward import Kinematics, body_accelerations, dof_motions, link_centers
from artix.kinematics.tree import subtree_sums
from artix.math import spatial
from artix.math.arrays import masked_sum, take
from artix.math.spatial import Motion
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array


class NewtonEuler(NamedTuple):
    """One pass of the algorithm; about the reference point and in world axes, without the root's linear velocity."""

    motions: Motion
    """Unit motions S_d of the DOFs, [3, n]."""
    velocity: Motion
    """Velocities of the bodies, [3, B]."""
    acceleration: Motion
    """Spatial accelerations of the bodies, minus gravity (not scaled) if it acts, [3, B]."""
    inertias: Inertias
    """Mass moments of the bodies."""
    force: Array
    """Force and torque required on each body for its motion and against gravity, minus external wrenches, [6, B]."""


def newton_euler(
    articulation: Articulation,
    kin: Kinematics,
    state: State,
    acceleration: Array | None,
    external_force: Array | None = None,
    *,
    gravity: bool,
) -> NewtonEuler:
    """One pass; an acceleration of ``None`` is zero.

    Gravity acts as an upward acceleration of each body, scaled by the ``gravity_scale`` of the link that the body's
    joint moves, and corrected for welded links with another ``gravity_scale``.
    """
    tree = articulation.topology
    motions = dof_motions(tree, kin)
    velocity, rate = body_accelerations(tree, motions, state, acceleration)
    inertias = reference_inertias(articulation, kin)
    if gravity:
        scale = take(articulation.gravity_scale, tree.body_link)
        scaled = rate._replace(linear=rate.linear - articulation.gravity[:, None] * scale[None])
        force = forces_of_motion(velocity, scaled, inertias)
        if tree.has_rigid_links:
            mass = articulation.link_mass * (take(scale, tree.link_body) - articulation.gravity_scale)
            force = force + gravity_wrenches(articulation, *first_moments(articulation, kin, mass))
        rate = rate._replace(linear=rate.linear - articulation.gravity[:, None])
    else:
        force = forces_of_motion(velocity, rate, inertias)
    if external_force is not None:
        force = force - body_wrenches(articulation, kin, external_force)
    return NewtonEuler(motions, velocity, rate, inertias, force)


def gravity_wrenches(articulation: Articulation, mass: Array, first: Array) -> Array:
    """Gravity's forces and torques about the reference point on masses [k] with first moments [3, k], [6, k]."""
    gravity = articulation.gravity[:, None]
    return jnp.concatenate([mass[None] * gravity, spatial.cross(first, gravity)])


def forces_of_motion(velocity: Motion, rate: Motion, inertias: Inertias) -> Array:
    """Forces and torques about the reference point required for the motion of each body (or link), [6, k]."""
    omega = velocity.angular
    # A point at r from the reference point accelerates by ``at_reference + gradient @ r``. Multiplied by the
    # pseudo-inertia this gives the force and the matrix of moments in one product, without any nested cross product.
    at_reference = rate.linear + spatial.cross(omega, velocity.linear)
    turn = spatial.skew(omega)
    gradient = spatial.skew(rate.angular) + spatial.multiply(turn, turn)
    mass, first, second = inertias
    force = mass[None] * at_reference + spatial.apply(gradient, first)
    moments = spatial.multiply(gradient, second) + at_reference[:, None] * first[None]
    return jnp.concatenate([force, spatial.axial(moments)])


def body_wrenches(articulation: Articulation, kin: Kinematics, external_force: Array) -> Array:
    """Wrenches on the links [L, 6], each at its centre of mass, as wrenches on the bodies about the reference point."""
    return link_sums(articulation.topology, link_wrenches(articulation, kin, external_force))


def link_sums(tree: Topology, forces: Array) -> Array:
    """Sums forces (or other rows) on the links [k, L] over each body: [k, B]."""
    return masked_sum(forces, tree.link_in_body) if tree.has_rigid_links else forces


def link_wrenches(articulation: Articulation, kin: Kinematics, external_force: Array) -> Array:
    """Wrenches on the links [L, 6], each at its centre of mass, as wrenches about the reference point, [6, L]."""
    tree = articulation.topology
    shape = (tree.num_links, 6)
    check_vector("external_force", external_force, shape, articulation.dtype, "a wrench per link")
    force, torque = external_force[:, :3].T, external_force[:, 3:].T
    center = link_centers(articulation, kin)
    return jnp.concatenate([force, torque + spatial.cross(center, force)])


def generalized_forces(tree: Topology, motions: Motion, forces: Array) -> Array:
    """Generalised forces [nv] equivalent to forces on the bodies [6, B]."""
    total, below = subtree_sums(tree, forces)
    return concatenate_root_and_joints(tree, total, spatial.dot(jnp.concatenate(motions), below))


def concatenate_root_and_joints(tree: Topology, root: Array, joints: Array) -> Array:
    """A generalised force [nv] from its root entries [6, 1] and joint entries [n]."""
    if tree.num_base_dofs == 0:
        return joints
    return jnp.concatenate([root[:, 0], joints])
