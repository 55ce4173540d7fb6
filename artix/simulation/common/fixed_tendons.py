"""The impulses of fixed tendons, by PhysX's law."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import matmul
from artix.model.articulation import Articulation
from artix.model.topology import Topology
from artix.simulation.common.step_start import HIGHEST, StepStart, axis_row, onto_links
from artix.simulation.common.sweep import Sweep

Array = jax.Array


class FixedTendonRow(NamedTuple):
    """One fixed tendon with up to m joints (or all, with a leading axis [T])."""

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    excess: Array
    """Length at the start of the step minus the rest length, per joint."""
    over_upper: Array
    """Length at the start of the step minus the upper limit, per joint; ``-inf`` without a limit."""
    under_lower: Array
    """Length at the start of the step minus the lower limit, per joint; ``inf`` without a limit."""
    coefficient: Array
    """Derivative of the length, per joint, by the joint positions, [n]."""
    free_rate: Array
    """Rate of the length, per joint, before any impulse."""
    rate: Array
    """Derivative of that rate by the generalised velocity, [nv]."""
    recip_coefficient: Array
    """Impulse per tendon impulse, [m]; 0 where there is no joint."""
    response: Array
    """Relative velocity at each joint per impulse, [m]."""
    effect: Array
    """Change of the generalised velocity per impulse at each joint, [m, nv]."""
    wrench: Array
    """Wrenches on the links for a unit impulse at each joint: on the joint's own link, [m, L, 6]."""
    reaction: Array
    """The same, on the tendon's root link, [m, L, 6]."""


def fixed_tendon_rows(
    articulation: Articulation, at_start: StepStart, joint_position: Array, motion: Array
) -> FixedTendonRow:
    """The rows of all fixed tendons; ``motion`` [L, 6] are the links' velocities before any impulse."""
    topology, numbers = at_start.topology, articulation.fixed_tendons
    dof, *_, table = _structure(topology)
    wrenches = tendon_joint_wrenches(at_start)
    moving = wrenches.on_link - wrenches.on_parent
    rate = jnp.einsum("jlk,lkv->jv", moving, at_start.jacobian, precision=HIGHEST)
    free_rate = jnp.sum(moving * motion[None], axis=(1, 2))
    acting = wrenches.on_link - wrenches.on_root
    force = jnp.einsum("jlk,lkv->jv", acting, at_start.jacobian, precision=HIGHEST)
    effect = matmul(force, at_start.inverse_mass)
    members = jnp.asarray(table < len(dof), rate.dtype)
    count = jnp.sum(members, axis=1)

    def grouped(values: Array) -> Array:
        """Regroups one entry per joint into [T, m], padded with zeros."""
        padded = jnp.concatenate([values, jnp.zeros_like(values[:1])])
        return padded[table]

    coefficient = grouped(numbers.coefficient)
    share = coefficient / count[:, None]
    dofs = grouped(jnp.asarray(dof))
    moved = jax.nn.one_hot(dofs, topology.num_dofs, dtype=rate.dtype) * coefficient[:, :, None]
    length = numbers.offset + jnp.sum(coefficient * joint_position[dofs], axis=1)
    return FixedTendonRow(
        stiffness=numbers.stiffness,
        damping=numbers.damping,
        limit_stiffness=numbers.limit_stiffness,
        excess=(length - numbers.rest_length) / count,
        over_upper=(length - numbers.upper_limit) / count,
        under_lower=(length - numbers.lower_limit) / count,
        coefficient=jnp.sum(moved, axis=1) / count[:, None],
        free_rate=jnp.sum(share * grouped(free_rate), axis=1),
        rate=jnp.sum(share[:, :, None] * grouped(rate), axis=1),
        recip_coefficient=grouped(numbers.recip_coefficient),
        response=grouped(jnp.sum(force * effect, axis=1)),
        effect=grouped(effect),
        wrench=grouped(wrenches.on_link),
        reaction=grouped(-wrenches.on_root),
    )


class TendonJointWrenches(NamedTuple):
    """Wrenches on the links for unit efforts along the axes of J tendon joints, [J, L, 6] each."""

    on_link: Array
    """Along the joint's own axis, on the link that it moves."""
    on_parent: Array
    """Along the axis of the first joint above, on the link of the tendon joint above."""
    on_root: Array
    """Along the axis of the first joint above, on the tendon's root link."""


def tendon_joint_wrenches(at_start: StepStart) -> TendonJointWrenches:
    """The wrenches of all tendon joints; PhysX pairs a joint's own axis with that of the tendon's first joint."""
    dof, parent_link, root_link, first, _ = _structure(at_start.topology)
    link, child, parent = at_start.topology.dof_link[dof], at_start.child_origin, at_start.parent_origin
    return TendonJointWrenches(
        on_link=onto_links(at_start, link, axis_row(at_start, dof, link, child[dof])),
        on_parent=onto_links(at_start, parent_link, axis_row(at_start, first, parent_link, parent[dof])),
        on_root=onto_links(at_start, root_link, axis_row(at_start, first, root_link, parent[first])),
    )


def tendon_joints(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """The tendon and the DOF of each tendon joint, [J] each."""
    pairs = [(k, dof) for k, tendon in enumerate(topology.fixed_tendons) for dof in tendon.dofs]
    tendon, dof = np.array(pairs).T
    return tendon, dof


def fixed_tendon_impulses(
    row: FixedTendonRow, spring: Array, limit: Array, rate: Array, stretch: Array, sweep: Sweep
) -> tuple[Array, Array]:
    """The accumulated impulses [m] of a tendon's spring and damper, and of its limits, after one more sweep.

    All joints of a tendon use the velocities from before the tendon is solved. In continuous time the effort at joint i
    of K is ``-recip_coefficient_i (stiffness (length - rest_length) + damping rate + limit_stiffness excess) / K``.

    Args:
      row: the tendon.
      spring: impulses of spring and damper so far, [m].
      limit: impulses of the limits so far, [m].
      rate: rate of the length, per joint.
      stretch: change of the length since the start of the step, per joint.
      sweep: the sweep.
    """
    h = sweep.h
    gain = h * (h * row.stiffness + row.damping)
    share = 1 / (1 + gain * row.response)
    limit_share = 1 / (1 + h * (h * row.limit_stiffness + row.damping) * row.response)
    over, under = (
        jnp.where(jnp.isfinite(bound), bound, 0) + jnp.where(jnp.isfinite(bound), stretch, 0)
        for bound in (row.over_upper, row.under_lower)
    )
    beyond = jnp.where(under < 0, under, jnp.maximum(over, 0))
    pull = gain * rate + h * row.stiffness * (row.excess + stretch)
    keep, keep_limit = (1, 1) if sweep.temporal else (1 - share, 1 - limit_share)
    spring = keep * spring - row.recip_coefficient * share * pull
    limit = keep_limit * limit - row.recip_coefficient * h * row.limit_stiffness * limit_share * beyond
    return spring, limit


def _structure(topology: Topology) -> tuple[np.ndarray, ...]:
    """Per tendon joint: its DOF, the link above, the tendon's root link, the DOF of the first joint above; and a table
    [T, m] of the joints of each tendon, with the number of all joints where there is none.
    """
    joints: list[tuple[int, int, int, int]] = []
    rows: list[list[int]] = []
    width = max(len(tendon.dofs) for tendon in topology.fixed_tendons)
    for tendon in topology.fixed_tendons:
        start = len(joints)
        for index, parent in enumerate(tendon.parents):
            top = index
            while tendon.parents[top] >= 0:
                top = tendon.parents[top]
            above = tendon.root_link if parent < 0 else int(topology.dof_link[tendon.dofs[parent]])
            joints.append((tendon.dofs[index], above, tendon.root_link, tendon.dofs[top]))
        rows.append(list(range(start, len(joints))) + [-1] * (width - len(tendon.dofs)))
    table = np.array(rows)
    return *np.array(joints).T, np.where(table < 0, len(joints), table)
