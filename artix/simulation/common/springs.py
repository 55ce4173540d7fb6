"""Springs and dampers that couple DOFs, for the implicit solver: compliant mimic joints and
tendons.

Every spring acts along a direction of the generalised velocity with an effort that is linear in the
position and velocity at the end of the step, so together they give
``(Mh + dt D + dt^2 K) nu = ...``. Tendons follow either PhysX's law or virtual work. With virtual
work their forces are gradients of an energy, which an undamped tendon conserves.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.model.couplings import FixedTendons, MimicJoints, SpatialTendons
from artix.model.topology import Topology
from artix.simulation.common.step_start import HIGHEST, StepStart
from artix.simulation.common.tendons import (
    beyond_limits,
    end_wrenches,
    path_ends,
    path_gradients,
    path_lengths,
    tendon_joint_wrenches,
    tendon_joints,
)

Array = jax.Array


def mimic_directions(mimic: MimicJoints, topology: Topology) -> Array:
    """The generalised forces of unit impulses of all mimic joints, and the rates of their
    relations, [K, nv].
    """
    entries = topology.num_base_dofs + jnp.asarray(topology.mimic_dofs)
    ends = jax.nn.one_hot(entries, topology.nv, dtype=mimic.gear_ratio.dtype)
    return ends[:, 0] + mimic.gear_ratio[:, None] * ends[:, 1]


def mimic_errors(mimic: MimicJoints, topology: Topology, joint_position: Array) -> Array:
    """``q_follower + gear_ratio q_reference + offset`` of all mimic joints, [K]."""
    joints = mimic_directions(mimic, topology)[:, topology.num_base_dofs :]
    return matmul(joints, joint_position) + mimic.offset


class Springs(NamedTuple):
    """k springs with dampers, on stretches ``x`` with rates ``rate @ nu`` (arrays [k], [k, nv] and
    [k, L, 6]).
    """

    stiffness: Array
    damping: Array
    stretch: Array
    """Stretch at the start of the step."""
    rate: Array
    """Derivative of the stretch's rate by the generalised velocity."""
    force: Array
    """Generalised force of a unit effort against the stretch; equal to ``rate`` with virtual
    work."""
    wrench: Array | None = None
    """The same as wrenches on the links, for springs that act on links instead of DOFs."""
    transmitted: Array | None = None
    """The part of these wrenches that PhysX counts as transmitted by the joints of those links."""


def coupling_springs(
    articulation: Articulation,
    at_start: StepStart,
    joint_position: Array,
    tendon_law: Literal["physx", "virtual_work"],
) -> list[Springs]:
    """Collects all springs that couple DOFs."""
    topology, virtual_work = at_start.topology, tendon_law == "virtual_work"
    springs = []
    if len(topology.mimic_dofs):
        springs.append(mimic_springs(articulation, at_start, joint_position))
    if topology.fixed_tendons:
        springs.append(
            fixed_tendon_springs(articulation, at_start, joint_position, virtual_work=virtual_work)
        )
    if topology.spatial_tendons:
        springs.append(spatial_tendon_springs(articulation, at_start, virtual_work=virtual_work))
    return springs


def spring_efforts(springs: Springs, velocity: Array, dt: Array) -> Array:
    """The efforts of springs and dampers after ``dt`` with a generalised velocity."""
    rate = matmul(springs.rate, velocity)
    return springs.stiffness * (springs.stretch + dt * rate) + springs.damping * rate


def mimic_springs(
    articulation: Articulation, at_start: StepStart, joint_position: Array
) -> Springs:
    """Springs with the given natural frequency and damping ratio, for the inertia that the relation
    sees.
    """
    mimic = articulation.mimic
    direction = mimic_directions(mimic, at_start.topology)
    response = jnp.sum(matmul(direction, at_start.inverse_mass) * direction, axis=1)
    inertia = 1 / response
    return Springs(
        stiffness=mimic.natural_frequency**2 * inertia,
        damping=2 * mimic.damping_ratio * mimic.natural_frequency * inertia,
        stretch=mimic_errors(mimic, at_start.topology, joint_position),
        rate=direction,
        force=direction,
    )


def fixed_tendon_springs(
    articulation: Articulation, at_start: StepStart, joint_position: Array, *, virtual_work: bool
) -> Springs:
    """Springs on the tendons' lengths.

    With PhysX's law, joint i of K gets ``recip_coefficient_i / K`` of the tension, the root link
    gets the reaction, and the rate of the length is that of the links along the same axes. With
    virtual work, the joint's effort is ``coefficient_i / K`` of the tension, and the rate is the
    true one.
    """
    numbers, topology = articulation.fixed_tendons, at_start.topology
    tendon, dof = tendon_joints(topology)
    members = jax.nn.one_hot(tendon, len(topology.fixed_tendons), dtype=joint_position.dtype).T
    share = members / jnp.sum(members, axis=1, keepdims=True)
    joints = jax.nn.one_hot(topology.num_base_dofs + dof, topology.nv, dtype=joint_position.dtype)
    length = numbers.offset + matmul(members, numbers.coefficient * joint_position[dof])
    stiffness, stretch = _with_limits(
        numbers, length, numbers.rest_length, numbers.lower_limit, numbers.upper_limit
    )
    if virtual_work:
        rate = matmul(members * numbers.coefficient, joints)
        force = matmul(share * numbers.coefficient, joints)
        return Springs(stiffness, numbers.damping, stretch, rate, force)
    wrenches = tendon_joint_wrenches(at_start)
    moving = _force(at_start, wrenches.on_link - wrenches.on_parent)
    rate = matmul(members * numbers.coefficient, moving)
    wrench, transmitted = (
        jnp.einsum("tj,jlk->tlk", share * numbers.recip_coefficient, one, precision=HIGHEST)
        for one in (wrenches.on_link - wrenches.on_root, wrenches.on_link)
    )
    return Springs(
        stiffness, numbers.damping, stretch, rate, _force(at_start, wrench), wrench, transmitted
    )


def spatial_tendon_springs(
    articulation: Articulation, at_start: StepStart, *, virtual_work: bool
) -> Springs:
    """Springs on the lengths of the paths.

    With PhysX's law only the ends of a path feel its tension, and its damper uses their velocities.
    With virtual work every segment pulls with its coefficient.
    """
    numbers, topology = articulation.spatial_tendons, at_start.topology
    tendon, leaf = path_ends(topology)
    wrench = (
        path_gradients(articulation, at_start)
        if virtual_work
        else -end_wrenches(articulation, at_start)
    )
    length = path_lengths(articulation, topology, at_start.frame)
    gains = jax.tree.map(
        lambda gain: gain[tendon], (numbers.stiffness, numbers.damping, numbers.limit_stiffness)
    )
    stiffness, stretch = _with_limits(
        numbers.replace(stiffness=gains[0], limit_stiffness=gains[2]),
        length,
        numbers.rest_length[leaf],
        numbers.lower_limit[leaf],
        numbers.upper_limit[leaf],
    )
    force = _force(at_start, wrench)
    return Springs(stiffness, gains[1], stretch, force, force, wrench)


def _force(at_start: StepStart, wrench: Array) -> Array:
    return jnp.einsum("slk,lkv->sv", wrench, at_start.jacobian, precision=HIGHEST)


def _with_limits(
    tendons: FixedTendons | SpatialTendons, length: Array, rest: Array, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Combines a tendon's spring with that of the limit it exceeds: stiffness and stretch of one
    spring.
    """
    beyond = beyond_limits(length, lower, upper)
    limit = jnp.where(beyond == 0, 0, tendons.limit_stiffness)
    total = tendons.stiffness + limit
    stretched = total > 0
    pull = tendons.stiffness * (length - rest) + limit * beyond
    return total, jnp.where(stretched, pull / jnp.where(stretched, total, 1), 0)
