"""The rows of the Gauss-Seidel sweeps: joints, couplings and loop joints."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.articulation import Articulation
from artix.physx.solver.contact_rows import ContactRows, mobility_softness
from artix.physx.solver.couplings import fixed_tendon_rows, loop_rows, mimic_rows, spatial_tendon_rows
from artix.physx.solver.dof_laws import LimitRow
from artix.physx.solver.gauss_seidel import DofRow, Rows
from artix.physx.solver.joint_drift import drift_by_body
from artix.simulation.common.control import Commands, position_error, room
from artix.simulation.common.drives import DriveRow
from artix.simulation.common.loop_closures import LoopClosures
from artix.simulation.common.step_start import StepStart, axis_row

Array = jax.Array


def constraint_rows(
    articulation: Articulation,
    at_start: StepStart,
    loops: LoopClosures | None,
    joint_position: Array,
    motion: Array,
    commands: Commands,
    contacts: ContactRows | None,
    drift: Array | None,
) -> Rows:
    """All rows at the start of the step.

    ``motion`` [L, 6] is the links' velocity before any impulse, ``drift`` [L, 3] that of their joints if it is kept.
    """
    a, t = articulation, at_start.topology
    return Rows(
        loops=None if loops is None else loop_rows(a, at_start, loops),
        spatial_tendons=spatial_tendon_rows(a, at_start, motion) if t.spatial_tendons else None,
        fixed_tendons=fixed_tendon_rows(a, at_start, joint_position, motion) if t.fixed_tendons else None,
        mimics=mimic_rows(a.mimic, at_start, joint_position) if t.mimic_dofs else None,
        dofs=_dof_rows(a, at_start, joint_position, motion, commands, drift),
        contacts=contacts,
    )


def _dof_rows(
    articulation: Articulation,
    at_start: StepStart,
    joint_position: Array,
    motion: Array,
    commands: Commands,
    drift: Array | None,
) -> DofRow:
    """The rows of all DOFs in the order of the sweep."""
    topology = at_start.topology
    base, n = topology.num_base_dofs, topology.num_dofs
    response = jnp.diagonal(at_start.inverse_mass)[base:]
    softened = 1 / (response + _constraint_force_mixing(articulation, at_start))
    turn = None if drift is None else drift_by_body(topology, drift)
    rows = DofRow(
        place=base + jnp.arange(n),
        free_velocity=_relative_velocity(at_start, motion),
        effect=at_start.inverse_mass[base:],
        response=response,
        drive=DriveRow(
            drive=articulation.drive,
            envelope=articulation.envelope,
            position_error=position_error(topology, joint_position, commands.target_position, turn),
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


def _constraint_force_mixing(articulation: Articulation, at_start: StepStart) -> Array:
    """PhysX's softening of a joint's rows, which depends on the mobility of its two links, [n]."""
    mixing = mobility_softness(articulation, at_start)
    child, parent = at_start.topology.dof_link, at_start.topology.dof_parent_link
    return jnp.maximum(mixing[child], mixing[parent])


def _relative_velocity(at_start: StepStart, motion: Array) -> Array:
    """Velocity of each DOF's link relative to its parent along the axis, at the joint's two origins, [n]."""
    child, parent = at_start.topology.dof_link, at_start.topology.dof_parent_link
    dofs = np.arange(at_start.topology.num_dofs)
    rows = [
        axis_row(at_start, dofs, link, origin)
        for link, origin in ((child, at_start.child_origin), (parent, at_start.parent_origin))
    ]
    return jnp.sum(rows[0] * motion[child], axis=1) - jnp.sum(rows[1] * motion[parent], axis=1)
