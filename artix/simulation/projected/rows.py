"""The rows of a step: what its Gauss-Seidel sweeps need to know of joints, couplings and loop joints."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.configuration import where_spherical
from artix.kinematics.tree import Tree, by_body
from artix.math import spatial
from artix.model.articulation import Articulation
from artix.simulation.common.drives import DriveRow
from artix.simulation.common.fixed_tendons import fixed_tendon_rows
from artix.simulation.common.joint_drift import drift_by_body
from artix.simulation.common.limits import LimitRow, room
from artix.simulation.common.loop_closures import LoopClosures
from artix.simulation.common.mimic import mimic_rows
from artix.simulation.common.spatial_tendons import spatial_tendon_rows
from artix.simulation.common.step_start import HIGHEST, Frozen, axis_row, static_topology
from artix.simulation.projected.gauss_seidel import DofRow, Rows
from artix.simulation.projected.loop_rows import loop_rows

Array = jax.Array


class Commands(NamedTuple):
    """What the joints are told during a step, [n] each."""

    joint_force: Array
    """Commanded forces within their limits [N m or N]."""
    target_position: Array
    """Of the drives [rad or m]."""
    target_velocity: Array
    """Of the drives [rad/s or m/s]."""


def constraint_rows(
    articulation: Articulation,
    frozen: Frozen,
    loops: LoopClosures | None,
    joint_position: Array,
    motion: Array,
    commands: Commands,
) -> Rows:
    """All rows at the start of the step; ``motion`` [L, 6] are the links' velocities before any impulse."""
    a, t = articulation, static_topology(frozen)
    return Rows(
        loops=None if loops is None else loop_rows(a, frozen, loops),
        spatial_tendons=spatial_tendon_rows(a, frozen, motion) if t.spatial_tendons else None,
        fixed_tendons=fixed_tendon_rows(a, frozen, joint_position, motion) if t.fixed_tendons else None,
        mimics=mimic_rows(a.mimic, frozen, joint_position) if t.mimic_dofs else None,
        dofs=_dof_rows(a, frozen, joint_position, motion, commands),
    )


def _dof_rows(
    articulation: Articulation, frozen: Frozen, joint_position: Array, motion: Array, commands: Commands
) -> DofRow:
    """The rows of all DOFs in the order of the sweep."""
    topology = frozen.topology
    base, n = topology.num_base_dofs, topology.num_dofs
    response = jnp.diagonal(frozen.inverse_mass)[base:]
    softened = 1 / (response + _constraint_force_mixing(articulation, frozen))
    rows = DofRow(
        place=base + jnp.arange(n),
        free_velocity=_relative_velocity(frozen, motion),
        effect=frozen.inverse_mass[base:],
        response=response,
        drive=DriveRow(
            drive=articulation.drive,
            envelope=articulation.envelope,
            position_error=position_error(topology, joint_position, commands.target_position, frozen.drift),
            target_velocity=commands.target_velocity,
            response=response,
            softened=softened,
            joint_force=commands.joint_force,
        ),
        limit=LimitRow(
            friction=articulation.friction,
            lower_gap=room(articulation.joint_lower_limit, joint_position, -1),
            upper_gap=room(articulation.joint_upper_limit, joint_position, 1),
            max_velocity=articulation.max_joint_velocity,
            softened=softened,
        ),
    )
    return jax.tree.map(lambda leaf: leaf[topology.depth_first_dofs], rows)


def _constraint_force_mixing(articulation: Articulation, frozen: Frozen) -> Array:
    """PhysX's softening of a joint's rows by the mobility of its two links, [n]."""
    linear = frozen.jacobian[:, :3]
    mobility = jnp.sum(jnp.matmul(linear, frozen.inverse_mass, precision=HIGHEST) * linear, axis=2)
    mixing = articulation.link_cfm_scale * jnp.max(mobility, axis=1)
    child, parent = frozen.topology.dof_link, frozen.topology.dof_parent_link
    return jnp.maximum(mixing[child], mixing[parent])


def _relative_velocity(frozen: Frozen, motion: Array) -> Array:
    """Velocity of each DOF's link against its parent along the axis, at the joint's two origins, [n]."""
    child, parent = frozen.topology.dof_link, frozen.topology.dof_parent_link
    dofs = np.arange(frozen.topology.num_dofs)
    rows = [
        axis_row(frozen, dofs, link, origin)
        for link, origin in ((child, frozen.child_origin), (parent, frozen.parent_origin))
    ]
    return jnp.sum(rows[0] * motion[child], axis=1) - jnp.sum(rows[1] * motion[parent], axis=1)


def position_error(topology: Tree, position: Array, target: Array, drift: Array | None = None) -> Array:
    """Target less position, [n]; for spherical joints of several axes twice the vector part of the rotation to go.

    A ``drift`` [L, 3] of the joint frames belongs to the rotation, not to its target.
    """
    error = target - position
    if not topology.has_spherical:
        return error
    wanted, now = (spatial.quaternion_exp(by_body(topology, x)) for x in (target, position))
    if drift is not None:
        now = spatial.quaternion_product(drift_by_body(topology, drift), now)
    product = spatial.quaternion_product(spatial.conjugate(wanted), now)
    product = jnp.where(product[3] < 0, -product, product)
    several = jnp.asarray(topology.dof_is_one_of_several)
    return jnp.where(several, where_spherical(topology, -2 * product[:3], error), error)
