"""The rows of a step: everything that its Gauss-Seidel sweeps need to know of drives, friction, limits and couplings."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix import spatial
from artix.actuation.drives import DriveRow
from artix.actuation.fixed_tendons import fixed_tendon_rows
from artix.actuation.spatial_tendons import spatial_tendon_rows
from artix.articulation import Articulation
from artix.constraints.limits import LimitRow
from artix.constraints.mimic import mimic_rows
from artix.joints import JointType
from artix.simulation.frozen import HIGHEST, Frozen, angular_row, point_row
from artix.simulation.gauss_seidel import DofRow, Rows
from artix.simulation.options import Control
from artix.topology import Topology
from artix.tree import by_body
from artix.configuration import where_spherical

Array = jax.Array


def constraint_rows(
    articulation: Articulation,
    topology: Topology,
    frozen: Frozen,
    joint_position: Array,
    motion: Array,
    control: Control,
    joint_force: Array,
) -> Rows:
    """All rows at the start of the step; ``motion`` [L, 6] are the links' velocities before any impulse."""
    a, t = articulation, topology
    mimics = None
    if t.mimic_dofs:
        mimics = mimic_rows(a.mimic, jnp.asarray(t.mimic_dofs), t.num_base_dofs, joint_position, frozen.inverse_mass)
    return Rows(
        spatial_tendons=spatial_tendon_rows(a, t, frozen, motion) if t.spatial_tendons else None,
        fixed_tendons=fixed_tendon_rows(a, t, frozen, joint_position, motion) if t.fixed_tendons else None,
        mimics=mimics,
        dofs=_dof_rows(a, t, frozen, joint_position, motion, control, joint_force),
    )


def _dof_rows(
    articulation: Articulation,
    topology: Topology,
    frozen: Frozen,
    joint_position: Array,
    motion: Array,
    control: Control,
    joint_force: Array,
) -> DofRow:
    """The rows of all DOFs in the order of the sweep."""
    base, n = topology.num_base_dofs, topology.num_dofs
    index = base + jnp.arange(n)
    response = jnp.diagonal(frozen.inverse_mass)[base:]
    softened = 1 / (response + _constraint_force_mixing(articulation, topology, frozen))
    drive = articulation.drive
    target = drive.target_position if control.drive_target is None else control.drive_target
    speed = drive.target_velocity if control.drive_target_velocity is None else control.drive_target_velocity
    rows = DofRow(
        index=index,
        free_velocity=_relative_velocity(topology, frozen, motion),
        effect=frozen.inverse_mass[base:],
        response=response,
        drive=DriveRow(
            drive=drive,
            envelope=articulation.envelope,
            position_error=_position_error(topology, joint_position, target),
            target_velocity=speed,
            response=response,
            softened=softened,
            joint_force=joint_force,
        ),
        limit=LimitRow(
            friction=articulation.friction,
            lower_gap=joint_position - articulation.joint_lower_limit,
            upper_gap=articulation.joint_upper_limit - joint_position,
            max_velocity=articulation.max_joint_velocity,
            softened=softened,
        ),
    )
    return jax.tree.map(lambda leaf: leaf[topology.depth_first_dofs], rows)


def _constraint_force_mixing(articulation: Articulation, topology: Topology, frozen: Frozen) -> Array:
    """PhysX's softening of a joint's rows by the mobility of its two links, [n]."""
    linear = frozen.jacobian[:, :3]
    mobility = jnp.einsum("lkv,vw,lkw->lk", linear, frozen.inverse_mass, linear, precision=HIGHEST)
    mixing = articulation.link_cfm_scale * jnp.max(mobility, axis=1)
    links = topology.dof_link
    return jnp.maximum(mixing[links], mixing[jnp.asarray([topology.parent[link] for link in links], int)])


def _relative_velocity(topology: Topology, frozen: Frozen, motion: Array) -> Array:
    """Velocity of each DOF's link against its parent along the axis, at the joint's two origins, [n]."""
    child = jnp.asarray(topology.dof_link)
    parent = jnp.asarray([topology.parent[link] for link in topology.dof_link], int)
    linear = jnp.asarray(topology.dof_is_linear)[:, None]
    rows = [
        jnp.where(linear, point_row(frozen, link, origin, frozen.axis), angular_row(frozen.axis))
        for link, origin in ((child, frozen.child_origin), (parent, frozen.parent_origin))
    ]
    return jnp.sum(rows[0] * motion[child], axis=1) - jnp.sum(rows[1] * motion[parent], axis=1)


def _position_error(topology: Topology, position: Array, target: Array) -> Array:
    """Target less position, [n]; for spherical joints of several axes twice the vector part of the rotation to go."""
    error = target - position
    if not topology.has_spherical:
        return error
    wanted, now = (spatial.quaternion_exp(by_body(topology, x)) for x in (target, position))
    product = spatial.quaternion_product(spatial.conjugate(wanted), now)
    product = jnp.where(product[3] < 0, -product, product)
    several = jnp.asarray(
        [topology.joint_types[link] is JointType.SPHERICAL and len(topology.joint_axes[link]) > 1 for link in topology.dof_link]
    )
    return jnp.where(several, where_spherical(topology, -2 * product[:3], error), error)
