"""Rows of the table: the indices of the tree, and what types become."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from artix.dynamics.articulated_inertia import elimination
from tests.pinocchio_reference import Reference
from tests.pinocchio_rows import INDEX, TYPE, Row, moving


def _dof_rows(r: Reference, values) -> np.ndarray:
    """Entries per row of Pinocchio's v, in the order of nu."""
    return np.asarray(values)[r.oracle.dof_order]


def _parents(r: Reference) -> np.ndarray:
    """``parents_fromRow`` in the order of nu."""
    order = list(r.oracle.dof_order)
    return np.array(
        [order.index(p) if p >= 0 else -1 for p in _dof_rows(r, r.oracle.model.createData().parents_fromRow)]
    )


def _supports(r: Reference) -> np.ndarray:
    nv = r.model.nv
    mask = np.zeros((nv, nv), bool)
    for row, support in enumerate(r.model.createData().supports_fromRow):
        mask[list(support), row] = True
    return mask[np.ix_(r.oracle.dof_order, r.oracle.dof_order)]


def _above(tree) -> np.ndarray:
    """Which entry of nu is above which: of several at one joint, the earlier ones."""
    upper = np.asarray(tree.mass_matrix_halves[0])
    return np.triu(upper)


INDICES = [
    Row(
        "`lastChild`",
        INDEX,
        "`topology.link_ancestors[link]` marks the links below one; here: how many",
        "links are numbered breadth-first, so a subtree is a set, not a range",
        lambda a, s, x: jnp.asarray(moving(a, a.topology.link_ancestors.sum(axis=1))),
        lambda r: r.of_joints(lambda j: r.model.createData().lastChild[j] - j + 1),
    ),
    Row(
        "`nvSubtree`",
        INDEX,
        "DOFs at and below a link: `topology.link_ancestors[link][topology.dof_link].sum()`",
        "",
        lambda a, s, x: jnp.asarray(
            moving(a, a.topology.link_ancestors[:, a.topology.dof_link].sum(axis=1))
            + np.where(np.arange(a.topology.num_links) == 0, a.topology.num_base_dofs, 0)[a.topology.fixed_base :]
        ),
        lambda r: r.of_joints(lambda j: r.model.createData().nvSubtree[j]),
    ),
    Row(
        "`nvSubtree_fromRow`",
        INDEX,
        "`topology.mass_matrix_halves[0].sum(axis=1)`",
        "",
        lambda a, s, x: jnp.asarray(_above(a.topology).sum(axis=1)),
        lambda r: _dof_rows(r, r.model.createData().nvSubtree_fromRow),
    ),
    Row(
        "`parents_fromRow`, `non_mimic_parents_fromRow`",
        INDEX,
        "`artix.dynamics.articulated_inertia.elimination(topology).parent`",
        "",
        lambda a, s, x: jnp.asarray(elimination(a.topology).parent),
        _parents,
    ),
    Row(
        "`supports_fromRow`",
        INDEX,
        "columns of `topology.mass_matrix_halves[0]`",
        "",
        lambda a, s, x: jnp.asarray(_above(a.topology)),
        _supports,
    ),
    Row(
        "`start_idx_v_fromRow`, `end_idx_v_fromRow`",
        INDEX,
        "`topology.dofs(joint)`, plus `topology.num_base_dofs`; here: the DOFs of each joint",
        "",
        lambda a, s, x: jnp.asarray([topology_dofs(a.topology, joint) for joint in a.topology.joint_names]),
        lambda r: np.array([r.model.nvs[j] for j in r.oracle.joint_of_link[1:]]),
    ),
]


def topology_dofs(topology, joint: str) -> int:
    """How many DOFs a joint has."""
    dofs = topology.dofs(joint)
    return dofs.stop - dofs.start


TYPES = [
    Row("`Scalar`", TYPE, "the dtype of the articulation's arrays, `articulation.astype(dtype)`"),
    Row("`SE3`", TYPE, "a pose `[7]`: position, then quaternion xyzw"),
    Row("`Motion`, `Force`", TYPE, "`[6]`, linear part first"),
    Row(
        "`Inertia`",
        TYPE,
        "`link_mass`, `link_com_pose`, `link_inertia` of the articulation",
        "as a matrix `link_spatial_inertias(a, s)`, as ten numbers `dynamic_parameters(a)`",
    ),
    Row("`Frame`, `FrameIndex`", TYPE, "the name of a link or frame, or a link's index, and an offset pose in it"),
    Row("`JointModel`, `JointData`, `JointIndex`", TYPE, "`Joint`, `CompositeJoint`; `topology.link_index(name)`"),
    Row("`Model`, `Data`", TYPE, "`Articulation`, whose `topology` is static", "nothing is kept between calls"),
    Row("`ConfigVectorType`, `TangentVectorType`", TYPE, "`State`; arrays `[nv]`"),
    Row("`BodyRegressorType`, `Tensor3x`", TYPE, "arrays `[6, 10]`, `[nv, nv, nv]`"),
]
