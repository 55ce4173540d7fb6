"""Fixed tendons: their joints, and the links on which they act by PhysX's law."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from artix.model.topology import Topology
from artix.simulation.common.step_start import StepStart, axis_row, onto_links

Array = jax.Array


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
    dof, parent_link, root_link, first, _ = tendon_joint_structure(at_start.topology)
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


def tendon_joint_structure(topology: Topology) -> tuple[np.ndarray, ...]:
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
