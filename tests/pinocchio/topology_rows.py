"""Rows of the table: indices of the tree, types, members of Pinocchio 4 and features."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from artix.dynamics.factorization import Paths
from tests.pinocchio.reference import Reference
from tests.pinocchio.rows import GETTER, INDEX, TEMPORARY, TYPE, Row, moving


def _dof_rows(r: Reference, values) -> np.ndarray:
    """Entries per row of Pinocchio's v, in the order of nu."""
    return np.asarray(values)[r.oracle.dof_order]


def _parents(r: Reference) -> np.ndarray:
    """``parents_fromRow`` in the order of nu."""
    order = list(r.oracle.dof_order)
    return np.array(
        [
            order.index(p) if p >= 0 else -1
            for p in _dof_rows(r, r.oracle.model.createData().parents_fromRow)
        ]
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
        "`topology.link_ancestors[link]` marks the links below one; their number is compared",
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
            + np.where(np.arange(a.topology.num_links) == 0, a.topology.num_base_dofs, 0)[
                a.topology.fixed_base :
            ]
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
        "`artix.dynamics.factorization.Paths.of(topology).parent`",
        "",
        lambda a, s, x: jnp.asarray(Paths.of(a.topology).parent),
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
        "`topology.dofs(joint)`, plus `topology.num_base_dofs`; the number of DOFs of each joint "
        "is compared",
        "",
        lambda a, s, x: jnp.asarray(
            [topology_dofs(a.topology, joint) for joint in a.topology.joint_names]
        ),
        lambda r: np.array([r.model.nvs[j] for j in r.oracle.joint_of_link[1:]]),
    ),
]


def topology_dofs(topology, joint: str) -> int:
    """How many DOFs a joint has."""
    dofs = topology.dofs(joint)
    return dofs.stop - dofs.start


TYPES = [
    Row(
        "`Scalar`, `Options`, `cast`",
        TYPE,
        "the dtype of the articulation's arrays, `articulation.astype(dtype)`",
    ),
    Row("`SE3`", TYPE, "a pose `[7]`: position, then quaternion xyzw"),
    Row("`Motion`, `Force`", TYPE, "`[6]`, linear part first"),
    Row(
        "`Inertia`",
        TYPE,
        "`link_mass`, `link_com_pose`, `link_inertia` of the articulation",
        "as a matrix `link_spatial_inertias(a, s)`, as ten numbers `dynamic_parameters(a)`",
    ),
    Row(
        "`Frame`, `FrameIndex`, `addFrame`",
        TYPE,
        "the name of a link or frame, or a link's index, and an offset pose in it",
    ),
    Row(
        "`JointModel`, `JointData`, `JointCollection`, `JointIndex`, `Index`",
        TYPE,
        "`Joint`, `CompositeJoint`; `topology.link_index(name)`",
    ),
    Row(
        "`Model`, `Data`",
        TYPE,
        "`Articulation`, whose `topology` is static",
        "nothing is kept between calls",
    ),
    Row("`ConfigVectorType`, `TangentVectorType`, `nq`, `nv`", TYPE, "`State`; arrays `[nv]`"),
    Row("`BodyRegressorType`, `Tensor3x`", TYPE, "arrays `[6, 10]`, `[nv, nv, nv]`"),
    Row(
        "`Vector3`, `Vector6`, `Matrix3x`, `Matrix6x`, `MatrixXs`, `VectorXs` and their row-major "
        "and column-major kin",
        TYPE,
        "`jax.Array`",
    ),
    Row("`ContactCholeskyDecomposition`", TYPE, "`constrained_solve(a, s, c, force, target)`"),
    Row(
        "`GeomIndex`, `GeometryModel`, `computeCollisions`, `computeDistances`",
        TYPE,
        "`Geometry`, `geometry_distances`, `geometry_pair_distances`",
        "shapes for contact; meshes only as hulls or capsules",
    ),
]

#: Members of 4.x that its documentation page does not list.
LATER = [
    Row("`q_in`, `v_in`, `a_in`, `tau_in`", TEMPORARY, "the arguments themselves"),
    Row(
        "`idx_vExtended_to_idx_v_fromRow`, `mimic_parents_fromRow`, `mimic_subtree_joint`",
        INDEX,
        "`mimic_map(a)`",
        "a matrix from the independent DOFs to all DOFs replaces them",
        check="`tests/editing/test_surgery.py`",
    ),
]

FEATURES = [
    Row(
        "`buildModelFromUrdf`", GETTER, "`load_urdf(path)`", check="`tests/io/test_urdf_robots.py`"
    ),
    Row(
        "`buildModelFromMJCF`",
        GETTER,
        "`load_mjcf(path)`",
        check="`tests/io/test_mjcf_models.py`, MuJoCo",
    ),
    Row("`buildModelFromSdf`", GETTER, "-", "SDF is not read"),
    Row(
        "`loadReferenceConfigurations`, `removeCollisionPairs`",
        GETTER,
        "`load_srdf(a, path)`",
        "postures as states, and the pairs of shapes that remain",
        check="`tests/io/test_srdf.py`",
    ),
    Row(
        "`loadRotorParameters`, `armature`, `rotorInertia`, `rotorGearRatio`",
        GETTER,
        "`a.armature`",
        "`Ir gear^2`",
    ),
    Row(
        "`friction`, `damping`, `effortLimit`, `velocityLimit`, `lowerPositionLimit`",
        GETTER,
        "arrays of the articulation",
        "they act in `step`; in Pinocchio they are only data",
    ),
    Row("`buildSampleModelManipulator`, `buildSampleModelHumanoid`", GETTER, "`robots.load(name)`"),
    Row("`rneaInParallel`, `abaInParallel`, `ModelPool`", GETTER, "`jax.vmap`, `Fleet`"),
    Row("`pinocchio.casadi`, `cppad`", GETTER, "`jax.jit`, `jax.grad`, `jax.jvp`"),
    Row(
        "`saveToXML`, `saveToText`, `saveToBinary`",
        GETTER,
        "`save_archive(a, path)`, `load_archive(path)`",
    ),
    Row(
        "`reachableWorkspace`, `MeshcatVisualizer`, `RobotWrapper`",
        GETTER,
        "-",
        "tools rather than quantities; artix has its own `viewer`",
    ),
]
