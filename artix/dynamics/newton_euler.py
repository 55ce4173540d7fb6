"""The recursive Newton-Euler algorithm (RNEA), its recursions written as sums over the tree, and
its derivatives.

Let S_d be the motion that a unit velocity of DOF d gives to the bodies below it, about one point
and in world axes::

    velocity of body b       v_b = sum of S_d qd_d over the DOFs above b                       path sum
    acceleration of body b   a_b = sum of S_d qdd_d + v x S_d qd_d over the DOFs above b, minus gravity
    force on body b          f_b = I_b a_b + v_b x* I_b v_b, minus external wrenches
    force of DOF d           tau_d = S_d . (sum of f_b over the bodies below d)                subtree sum

The first two are :func:`artix.kinematics.forward.body_accelerations`, the third
:func:`forces_of_motion`, the last :func:`generalized_forces`. Featherstone, *Rigid Body Dynamics
Algorithms* (2008), section 5.3.

The derivatives have a closed form. Let c displace a body and everything below it. Seen from the
displaced bodies, all velocities below change by the same motion ``first_c = v_above x S_c`` and all
accelerations by ``second_c - v x first_c`` with ``second_c = a_above x S_c + v_above x first_c``;
neither depends on the body. So one vector per displacement and one per composite body suffice, and
all n^2 derivatives are their outer products under the ancestor masks. Carpentier and Mansard, RSS
2018; Singh, Russell and Wensing, RA-L 2022, whose ``psi'`` and ``psi''`` are ``first`` and
``second`` and whose ``B`` matrix appears here as the moments of momentum.
"""  # noqa: E501

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from artix.compiler.linear_maps import linear_map
from artix.dynamics.inertia import (
    Inertias,
    first_moments,
    gravity_free_moments,
    moments_of_momentum,
    momentum_of_motion,
    reference_inertias,
)
from artix.kinematics.columns import (
    NUM_ROOT,
    changes_by_displacement,
    changes_by_velocity,
    displaced_sums,
    displacement_from_tangents,
    displacement_motions,
    displacements,
)
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    dof_motions,
    kinematics,
    link_centers,
    motion_rates,
    root_motion,
)
from artix.kinematics.tree import subtree_sums
from artix.math import spatial
from artix.math.arrays import masked_sum, matmul, take
from artix.math.spatial import Motion
from artix.math.tangents import add, directional_derivative, is_zero
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array


class NewtonEuler(NamedTuple):
    """One pass of the algorithm; about the reference point and in world axes, without the root's
    linear velocity.
    """

    motions: Motion
    """Unit motions S_d of the DOFs, [3, n]."""
    velocity: Motion
    """Velocities of the bodies, [3, B]."""
    acceleration: Motion
    """Spatial accelerations of the bodies, minus gravity (not scaled) if it acts, [3, B]."""
    inertias: Inertias
    """Mass moments of the bodies."""
    force: Array
    """Force and torque required on each body for its motion and against gravity, minus external
    wrenches, [6, B]."""


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

    Gravity acts as an upward acceleration of each body, scaled by the ``gravity_scale`` of the link
    that the body's joint moves, and corrected for welded links with another ``gravity_scale``.
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
            mass = articulation.link_mass * (
                take(scale, tree.link_body) - articulation.gravity_scale
            )
            force = force + gravity_wrenches(articulation, *first_moments(articulation, kin, mass))
        rate = rate._replace(linear=rate.linear - articulation.gravity[:, None])
    else:
        force = forces_of_motion(velocity, rate, inertias)
    if external_force is not None:
        force = force - body_wrenches(articulation, kin, external_force)
    return NewtonEuler(motions, velocity, rate, inertias, force)


def gravity_wrenches(articulation: Articulation, mass: Array, first: Array) -> Array:
    """Gravity's forces and torques about the reference point on masses [k] with first moments
    [3, k], [6, k].
    """
    gravity = articulation.gravity[:, None]
    return jnp.concatenate([mass[None] * gravity, spatial.cross(first, gravity)])


def forces_of_motion(velocity: Motion, rate: Motion, inertias: Inertias) -> Array:
    """Forces and torques about the reference point required for the motion of each body (or link),
    [6, k].
    """
    omega = velocity.angular
    # A point at r from the reference point accelerates by ``at_reference + gradient @ r``.
    # Multiplied by the pseudo-inertia this gives the force and the matrix of moments in one
    # product, without any nested cross product.
    at_reference = rate.linear + spatial.cross(omega, velocity.linear)
    turn = spatial.skew(omega)
    gradient = spatial.skew(rate.angular) + spatial.multiply(turn, turn)
    mass, first, second = inertias
    force = mass[None] * at_reference + spatial.apply(gradient, first)
    moments = spatial.multiply(gradient, second) + at_reference[:, None] * first[None]
    return jnp.concatenate([force, spatial.axial(moments)])


def body_wrenches(articulation: Articulation, kin: Kinematics, external_force: Array) -> Array:
    """Wrenches on the links [L, 6], each at its centre of mass, as wrenches on the bodies about the
    reference point.
    """
    return link_sums(articulation.topology, link_wrenches(articulation, kin, external_force))


def link_sums(tree: Topology, forces: Array) -> Array:
    """Sums forces (or other rows) on the links [k, L] over each body: [k, B]."""
    return masked_sum(forces, tree.link_in_body) if tree.has_rigid_links else forces


def link_wrenches(articulation: Articulation, kin: Kinematics, external_force: Array) -> Array:
    """Wrenches on the links [L, 6], each at its centre of mass, as wrenches about the reference
    point, [6, L].
    """
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


def generalized_wrenches(
    articulation: Articulation, kin: Kinematics, external_force: Array
) -> Array:
    """The generalised forces of external wrenches on the links, [nv]."""
    motions = dof_motions(articulation.topology, kin)
    return generalized_forces(
        articulation.topology, motions, body_wrenches(articulation, kin, external_force)
    )


def required_forces(gravity: bool, articulation, state, acceleration, external_force) -> Array:
    """The generalised forces of an acceleration: inverse dynamics without its checks, [nv]."""
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=gravity)
    return generalized_forces(articulation.topology, rnea.motions, rnea.force)


def concatenate_root_and_joints(tree: Topology, root: Array, joints: Array) -> Array:
    """A generalised force [nv] from its root entries [6, 1] and joint entries [n]."""
    if tree.num_base_dofs == 0:
        return joints
    return jnp.concatenate([root[:, 0], joints])


# --- derivatives --------------------------------------------------------------------------------


class WorldForces(NamedTuple):
    """Forces that keep their world components when a body is displaced: wrenches, and corrections
    of gravity.
    """

    force: Array
    """[3, k]"""
    moments: Array
    """Sums of f r^T over the points of application, [3, 3, k]."""
    torque: Array
    """Pure torques, [3, k]."""


class Composites(NamedTuple):
    """Sums over the bodies that each unit displacement moves."""

    inertias: Inertias
    momentum: Array
    """Integral of velocity dm, [3, c]."""
    momentum_moments: Array
    """Integral of velocity r^T dm, [3, 3, c]."""
    force: Array
    """Forces that the bodies need, [6, c]."""
    world: WorldForces | None


class ForceDerivatives(NamedTuple):
    """Derivatives of inverse dynamics."""

    configuration: Array
    """By the unit displacements of :mod:`artix.kinematics.columns`, [nv, c]."""
    velocity: Array
    """By the root's angular velocity and the joint velocities, [nv, 3 + n]."""


_Constants: TypeAlias = tuple[Articulation, Kinematics, NewtonEuler, Array | None]
"""What the derivatives depend on; the last are external wrenches."""

_Change: TypeAlias = tuple[Array | None, Array | None]
"""A displacement and a change of the velocity; at least one of them."""


class Rates(NamedTuple):
    """How each unit displacement changes the motion of everything it moves, and sums over the
    bodies moved.
    """

    motions: Motion
    first: Motion
    second: Motion
    """As :class:`artix.kinematics.columns.Changes`, [3, c] each."""
    sums: Composites


def displacement_rates(
    articulation: Articulation,
    kin: Kinematics,
    rnea: NewtonEuler,
    external_force: Array | None,
    *,
    gravity: bool,
) -> Rates:
    """The rates of all unit displacements."""
    sums = _composites(articulation, kin, rnea, external_force, gravity=gravity)
    changes = changes_by_displacement(
        articulation.topology, kin, rnea.motions, rnea.velocity, rnea.acceleration
    )
    return Rates(*changes, sums)


def forces_by_configuration(rates: Rates) -> Array:
    """Change of the force on the bodies that each unit displacement moves, in world axes,
    [6, c].
    """
    motions, first, second, sums = rates
    forces = jnp.concatenate(momentum_of_motion(sums.inertias, second)) + twice_coriolis(
        sums, first.angular
    )
    forces = forces + force_cross(motions, sums.force)
    return (
        forces if sums.world is None else forces + world_force_changes(sums.world, motions.angular)
    )


def forces_by_velocity(rates: Rates, changes: Motion) -> Array:
    """Change of the force on the bodies that unit velocities move, [6, 3 + n], from
    :func:`changes_by_velocity`.
    """
    sums, angular = jax.tree.map(
        lambda x: x[..., : changes.linear.shape[1]], (rates.sums, rates.motions.angular)
    )
    return jnp.concatenate(momentum_of_motion(sums.inertias, changes)) + twice_coriolis(
        sums, angular
    )


def force_derivatives(
    articulation: Articulation,
    kin: Kinematics,
    rnea: NewtonEuler,
    external_force: Array | None = None,
    *,
    gravity: bool,
) -> ForceDerivatives:
    """Derivatives of the generalised forces of one pass of the Newton-Euler algorithm."""
    tree = articulation.topology
    count = NUM_ROOT + tree.num_dofs
    rates = displacement_rates(articulation, kin, rnea, external_force, gravity=gravity)
    dofs = jax.tree.map(lambda x: x[..., NUM_ROOT:count], rates.sums)
    momenta = jnp.concatenate(momentum_of_motion(dofs.inertias, rnea.motions))
    coriolis = twice_coriolis_transposed(dofs, rnea.motions)
    rows = [momenta, coriolis]
    columns = [*rates.second, rates.first.angular]
    if dofs.world is not None:
        rows.append(world_force_changes_transposed(dofs.world, rnea.motions))
        columns.append(rates.motions.angular)
    by_configuration = _assemble(
        articulation, rnea.motions, forces_by_configuration(rates), rows, columns
    )
    changes = changes_by_velocity(tree, rnea.motions, rnea.velocity, rates.first)
    columns = [*changes, rates.motions.angular[:, :count]]
    forces = forces_by_velocity(rates, changes)
    by_velocity = _assemble(articulation, rnea.motions, forces, [momenta, coriolis], columns)
    return ForceDerivatives(by_configuration, by_velocity)


def _force_change_along_many(constants: _Constants, change: _Change, *, gravity: bool) -> Array:
    """The change of the generalised forces [nv] along a displacement [c] and a change of the
    velocity [3 + n], by the matrices of derivatives.
    """
    articulation, kin, rnea, external_force = constants
    displacement, d_velocity = change
    by = force_derivatives(articulation, kin, rnea, external_force, gravity=gravity)
    if d_velocity is None:
        assert displacement is not None
        return matmul(by.configuration, displacement)
    by_velocity = matmul(by.velocity, d_velocity)
    if displacement is None:
        return by_velocity
    return matmul(by.configuration, displacement) + by_velocity


def _force_change_along_one(constants: _Constants, change: _Change, *, gravity: bool) -> Array:
    """:func:`_force_change_along_many`, by sums over the tree.

    Body b moves by the sum of the displacements above it, and so do the changes of its velocity and
    of its acceleration. Its force changes by what its change of motion needs, and turns with it; a
    DOF feels how it turns relative to the DOF.
    """
    articulation, kin, rnea, external_force = constants
    displacement, d_velocity = change
    tree = articulation.topology
    masks = displacements(tree)
    count, total = NUM_ROOT + tree.num_dofs, len(masks.body)
    motions, first, second = changes_by_displacement(
        tree, kin, rnea.motions, rnea.velocity, rnea.acceleration
    )
    rows = []
    if displacement is not None:
        moved = jnp.concatenate([*second, first.angular, *motions]) * displacement[None]
        rows.append(moved)
    if d_velocity is not None:
        rates = changes_by_velocity(tree, rnea.motions, rnea.velocity, first)
        faster = jnp.concatenate([*rates, motions.angular[:, :count]]) * d_velocity[None]
        rows.append(jnp.pad(faster, ((0, (0 if displacement is None else 6)), (0, total - count))))
    of_columns = rows[0] if len(rows) == 1 else rows[0] + rows[1]
    of_bodies = displaced_sums(tree, of_columns)
    acceleration, turn = Motion.from_rows(of_bodies[:6]), of_bodies[6:9]
    momentum, moments = moments_of_momentum(rnea.inertias, rnea.velocity)
    bodies = Composites(rnea.inertias, momentum, moments, rnea.force, None)
    forces = jnp.concatenate(momentum_of_motion(rnea.inertias, acceleration)) + twice_coriolis(
        bodies, turn
    )
    if displacement is None:
        return generalized_forces(tree, rnea.motions, forces)
    motion = Motion.from_rows(of_bodies[9:])
    forces = forces + force_cross(motion, rnea.force)
    world = _world_forces(articulation, kin, external_force, lambda x: x, gravity=gravity)
    if world is not None:
        forces = forces + world_force_changes(world, motion.angular)
    # What turns with the DOF is no change for it.
    _, below = subtree_sums(tree, jnp.concatenate([forces, rnea.force]))
    of_dofs = Motion.from_rows(masked_sum(moved[9:], masks.carries_dof.T))
    relative = below[:6] - force_cross(of_dofs, below[6:])
    joints = spatial.dot(jnp.concatenate(rnea.motions), relative)
    return concatenate_root_and_joints(tree, jnp.sum(forces, axis=1, keepdims=True), joints)


def coriolis_columns(articulation: Articulation, kin: Kinematics, rnea: NewtonEuler) -> Array:
    """The Coriolis matrix's columns of the root's angular velocity and the joint velocities,
    [nv, 3 + n].

    In the inertial frame that moves with the root's centre of mass, where the root's own motions do
    not change.
    """
    tree = articulation.topology
    count = NUM_ROOT + tree.num_dofs
    sums = _composites(articulation, kin, rnea, None, gravity=False)
    motions = Motion(*(part[:, :count] for part in displacement_motions(tree, kin, rnea.motions)))
    rates = motion_rates(tree, rnea.velocity, rnea.motions)
    rates = Motion(*(jnp.pad(part, ((0, 0), (NUM_ROOT, 0))) for part in rates))
    sums, dofs = (jax.tree.map(lambda x, k=first: x[..., k:count], sums) for first in (0, NUM_ROOT))
    forces = jnp.concatenate(momentum_of_motion(sums.inertias, rates)) + 0.5 * twice_coriolis(
        sums, motions.angular
    )
    rows = [
        *momentum_of_motion(dofs.inertias, rnea.motions),
        0.5 * twice_coriolis_transposed(dofs, rnea.motions),
    ]
    return _assemble(articulation, rnea.motions, forces, rows, [*rates, motions.angular])


def _assemble(
    articulation: Articulation, motions: Motion, forces: Array, rows: list, columns: list
) -> Array:
    """The matrix [nv, c]: the power of the force changes for DOFs above a displacement, rows times
    columns below it.
    """
    tree = articulation.topology
    masks = displacements(tree)
    count = forces.shape[1]
    above, below = (
        jnp.asarray(mask, forces.dtype)[:, :count]
        for mask in (masks.dof_is_above, masks.carries_dof)
    )
    upper = matmul(jnp.concatenate(motions).T, forces)
    lower = matmul(jnp.concatenate(rows).T, jnp.concatenate(columns))
    joints = above * upper + below * lower
    if tree.num_base_dofs == 0:
        return joints
    return jnp.concatenate([forces, joints])


def _composites(
    articulation: Articulation,
    kin: Kinematics,
    rnea: NewtonEuler,
    external_force: Array | None,
    *,
    gravity: bool,
) -> Composites:
    tree = articulation.topology
    mass, first, second = rnea.inertias
    momentum, moments = moments_of_momentum(rnea.inertias, rnea.velocity)
    rows = [first, momentum, second.reshape(9, -1), moments.reshape(9, -1), rnea.force, mass[None]]
    sums = _sums(tree, jnp.concatenate(rows))
    second, moments = (sums[start : start + 9].reshape(3, 3, -1) for start in (6, 15))
    summed = functools.partial(_sums, tree)
    world = _world_forces(articulation, kin, external_force, summed, gravity=gravity)
    return Composites(Inertias(sums[30], sums[:3], second), sums[3:6], moments, sums[24:30], world)


def _world_forces(
    articulation: Articulation,
    kin: Kinematics,
    external_force: Array | None,
    summed: Callable[[Array], Array],
    *,
    gravity: bool,
) -> WorldForces | None:
    """Sums of the forces on bodies that keep their world components; ``None`` without any.

    ``summed`` are the sums, of rows [k, B].
    """
    world = _gravity_corrections(articulation, kin, summed) if gravity else None
    if external_force is None:
        return world
    wrench = _wrenches(articulation, kin, external_force, summed)
    return wrench if world is None else WorldForces(*map(jnp.add, world, wrench))


def _sums(tree: Topology, rows: Array) -> Array:
    """Sums of rows [k, B] over the bodies that each unit displacement moves, [k, c]."""
    return take(jnp.concatenate(subtree_sums(tree, rows), axis=1), displacements(tree).sums)


def _gravity_corrections(
    articulation: Articulation, kin: Kinematics, summed: Callable[[Array], Array]
) -> WorldForces:
    """The forces that cancel gravity on links with a ``gravity_scale`` of their own."""
    mass, moment = gravity_free_moments(articulation, kin)
    mass, moment = summed(mass[None]), summed(moment)
    gravity = articulation.gravity[:, None]
    return WorldForces(gravity * mass, gravity[:, None] * moment[None], jnp.zeros_like(moment))


def _wrenches(
    articulation: Articulation,
    kin: Kinematics,
    external_force: Array,
    summed: Callable[[Array], Array],
) -> WorldForces:
    """The external wrenches, negated."""
    force, torque = -external_force[:, :3].T, -external_force[:, 3:].T
    moments = force[:, None] * link_centers(articulation, kin)[None]
    rows = jnp.concatenate([force, torque, moments.reshape(9, -1)])
    sums = summed(link_sums(articulation.topology, rows))
    return WorldForces(sums[:3], sums[6:].reshape(3, 3, -1), sums[3:6])


def force_cross(motion: Motion, force: Array) -> Array:
    """Rate of change of forces [6, k] that move along with motions: the spatial cross product
    ``motion x* force``.
    """
    linear = spatial.cross(motion.angular, force[:3])
    torque = spatial.cross(motion.angular, force[3:]) + spatial.cross(motion.linear, force[:3])
    return jnp.concatenate([linear, torque])


# Changing all velocities by a motion with angular part w changes the acceleration of each point by
# twice the cross product of w and its velocity. The forces for this are linear in w, with the
# moments of momentum as coefficients.


def twice_coriolis(sums: Composites, angular: Array) -> Array:
    """Forces [6, k] on composites whose points accelerate by twice ``angular x velocity``."""
    moments = sums.momentum_moments
    torque = spatial.trace(moments)[None] * angular - spatial.apply(moments, angular)
    return 2 * jnp.concatenate([spatial.cross(angular, sums.momentum), torque])


def twice_coriolis_transposed(sums: Composites, motion: Motion) -> Array:
    """The transposed map: rows [3, k] that map ``angular`` to the power of these forces along
    motions.
    """
    moments = sums.momentum_moments
    torque = spatial.trace(moments)[None] * motion.angular - spatial.apply_transposed(
        moments, motion.angular
    )
    return 2 * (spatial.cross(sums.momentum, motion.linear) + torque)


def world_force_changes(world: WorldForces, angular: Array) -> Array:
    """Change of world forces as seen from composites that rotate by ``angular``, [6, k]."""
    torque = spatial.apply(world.moments, angular) - spatial.trace(world.moments)[None] * angular
    return jnp.concatenate(
        [spatial.cross(world.force, angular), torque + spatial.cross(world.torque, angular)]
    )


def world_force_changes_transposed(world: WorldForces, motion: Motion) -> Array:
    """Rows [3, k] that map ``angular`` to the power of these changes along motions."""
    torque = (
        spatial.apply_transposed(world.moments, motion.angular)
        - spatial.trace(world.moments)[None] * motion.angular
    )
    return (
        torque
        + spatial.cross(motion.linear, world.force)
        + spatial.cross(motion.angular, world.torque)
    )


_FORCE_CHANGES = tuple(
    tuple(
        functools.partial(formula, gravity=gravity)
        for formula in (_force_change_along_one, _force_change_along_many)
    )
    for gravity in (False, True)
)
"""Without and with gravity, the formulas along one direction and along many."""


def force_change(
    gravity: bool, primals, tangents, kin: Kinematics, rnea: NewtonEuler
) -> Array | None:
    """Tangent of the generalised forces for tangents of articulation, state and wrenches, at
    constant acceleration.
    """
    articulation, state, acceleration, external_force = primals
    d_articulation, d_state, _, d_external_force = tangents
    tree = articulation.topology
    displacement = displacement_from_tangents(
        tree, state, d_state.root_pose, d_state.joint_position
    )
    d_velocity = _velocity_change(articulation, d_state)
    change = None
    if displacement is not None or d_velocity is not None:
        along_one, along_many = _FORCE_CHANGES[gravity]
        change = linear_map(
            along_one,
            along_many,
            jax.ShapeDtypeStruct((tree.nv,), rnea.force.dtype),
            (articulation, kin, rnea, external_force),
            (displacement, d_velocity),
        )
    if not is_zero(d_external_force):
        change = add(change, -generalized_wrenches(articulation, kin, d_external_force))
    by_parameters = directional_derivative(
        lambda a: required_forces(gravity, a, state, acceleration, external_force),
        articulation,
        d_articulation,
    )
    return add(change, by_parameters)


def equation_of_motion_change(kin: Kinematics, primals, tangents) -> Array | None:
    """:func:`force_change` under gravity plus the armature's part: the tangent of forward dynamics'
    right-hand side.
    """
    articulation, state, acceleration, external_force = primals
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    change = force_change(True, primals, tangents, kin, rnea)
    d_articulation = tangents[0]
    has_armature = not is_zero(d_articulation) and "armature" not in d_articulation.absent
    if has_armature and not is_zero(d_articulation.armature):
        base = articulation.topology.num_base_dofs
        change = add(change, jnp.pad(d_articulation.armature * acceleration[base:], (base, 0)))
    return change


def _velocity_change(articulation: Articulation, tangent: State) -> Array | None:
    """Change of the root's angular velocity and of the joint velocities, [3 + n]."""
    root, joints = tangent.root_velocity, tangent.joint_velocity
    if is_zero(root) and is_zero(joints):
        return None
    zero = jnp.zeros(6 + articulation.topology.num_dofs, articulation.dtype)
    root = zero[:3] if is_zero(root) else root_motion(articulation.topology, root).angular[:, 0]
    return jnp.concatenate([root, zero[6:] if is_zero(joints) else joints])
