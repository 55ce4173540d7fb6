"""Rows of the table: inverse and forward dynamics, the mass matrix and its factors, and their
derivatives."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pinocchio as pin

import artix
from tests.pinocchio.reference import Reference
from tests.pinocchio.rows import DEAD, GETTER, RESULT, TEMPORARY, Row, moving
from tests.support import oracle_derivatives
from tests.support.oracle_derivatives import symmetric

SYMMETRIC = "`[L, 6, 6]` matrices, linear part first"


def _rnea(r: Reference, *bodies) -> pin.Data:
    return r.ran(pin.rnea, r.q, r.v, r.a, *bodies)


def _rnea_derivatives(r: Reference) -> pin.Data:
    return r.ran(pin.computeRNEADerivatives, r.q, r.v, r.a)


def _mass_matrix(r: Reference) -> np.ndarray:
    return r.matrix(symmetric(r.ran(pin.crba, r.q).M))


def _gravity(r: Reference) -> np.ndarray:
    return r.forces(r.ran(pin.computeGeneralizedGravity, r.q).g)


def _bias(r: Reference) -> np.ndarray:
    """``C v + g`` at nu' = 0, not at v' = 0."""
    bare = r.unarmed
    effects = pin.rnea(bare, bare.createData(), r.q, r.v, -r.inverse_map @ r.oracle.twist_map_drift)
    return r.forces(effects.copy())


def _coriolis(r: Reference) -> np.ndarray:
    """``M nu' + C nu`` in Pinocchio's coordinates: ``v' = T^-1 (nu' - dT/dt v)``."""
    found = r.ran(pin.computeCoriolisMatrix, r.q, r.v).C
    mass = symmetric(pin.crba(r.unarmed, r.unarmed.createData(), r.q))
    return r.matrix(found) - r.matrix(mass) @ r.oracle._twist_map_rate() @ r.inverse_map


def _sums(r: Reference, of_body) -> np.ndarray:
    """Sums over subtrees of the 6 x 6 matrices of bodies."""
    own = {
        joint: of_body(r.data.oMi[joint].act(r.model.inertias[joint]), r.data.ov[joint])
        for joint in r.joints
    }
    return r.of_joints(lambda j: sum(own[k] for k in r.model.subtrees[j] if k in own))


def _articulated(r: Reference) -> list[np.ndarray]:
    """``Yaba`` and ``oYaba``: projected, except for those of the first joints."""
    torque = np.zeros(r.model.nv)
    local = r.ran(pin.aba, r.q, r.v, torque, pin.Convention.LOCAL).Yaba
    world = r.ran(pin.aba, r.q, r.v, torque, pin.Convention.WORLD).oYaba
    return [r.of_joints(lambda j: local[j]), r.of_joints(lambda j: world[j])]


def _articulated_inertias(a, s, x) -> list:
    first = jnp.asarray(np.array(a.topology.parent) < (1 if a.topology.fixed_base else 0))[
        :, None, None
    ]
    return [
        moving(
            a,
            jnp.where(
                first,
                artix.articulated_body_inertias(a, s, axes=axes),
                artix.articulated_body_inertias(a, s, axes=axes, projected=True),
            ),
        )
        for axes in ("local", "world")
    ]


def _factors(a, s, x) -> list:
    upper, diagonal = artix.mass_matrix_cholesky(a, s)
    return [diagonal[a.topology.num_base_dofs :], (upper * diagonal[None]) @ upper.T]


def _pinocchio_factors(r: Reference) -> list[np.ndarray]:
    data = r.ran(pin.crba, r.q)
    pin.cholesky.decompose(r.model, data)
    return [data.D[r.oracle.dof_order][r.base :], r.matrix(data.U @ np.diag(data.D) @ data.U.T)]


def _differences(which: int, of: str):
    """Second derivatives as differences of Pinocchio's first derivatives."""

    def first(r: Reference) -> np.ndarray:
        return oracle_derivatives.inverse_dynamics_derivatives(r.oracle, r.inputs["acceleration"])[
            which
        ]

    return lambda r: (r.by_configuration if of == "configuration" else r.by_velocity)(first)


def _second(name: str):
    return lambda a, s, x: getattr(
        artix.inverse_dynamics_second_derivatives(a, s, x["acceleration"]), name
    )


INVERSE_DYNAMICS = [
    Row(
        "`tau`, `rnea`",
        RESULT,
        "`inverse_dynamics(a, s, acc, external_force)`",
        "`tau = T^-T tau_pin`; external wrenches act at centres of mass, in world axes",
        lambda a, s, x: artix.inverse_dynamics(a, s, x["acceleration"], x["wrenches"]),
        lambda r: r.forces(_rnea(r, r.body_forces()).tau),
    ),
    Row(
        "`computeStaticTorque`",
        GETTER,
        "`static_torque(a, s, external_force)`",
        "`tau = T^-T tau_pin`; external wrenches act at centres of mass, in world axes",
        lambda a, s, x: artix.static_torque(a, s, x["wrenches"]),
        lambda r: r.forces(r.ran(pin.computeStaticTorque, r.q, r.body_forces()).tau),
    ),
    Row(
        "`nle`, `nonLinearEffects`, `computeAllTerms`",
        RESULT,
        "`bias_force(a, s)`",
        "at `nu' = 0`, which differs from `v' = 0` on a floating base",
        lambda a, s, x: artix.bias_force(a, s),
        _bias,
    ),
    Row(
        "`g`, `computeGeneralizedGravity`",
        RESULT,
        "`gravity_compensation(a, s)`",
        "",
        lambda a, s, x: artix.gravity_compensation(a, s),
        _gravity,
    ),
    Row(
        "`C`, `computeCoriolisMatrix`, `getCoriolisMatrix`",
        RESULT,
        "`coriolis_matrix(a, s)`",
        "`T^-T (C_pin - M_pin T^-1 dT/dt) T^-1`; `dM/dt - 2 C` is skew-symmetric in both",
        lambda a, s, x: artix.coriolis_matrix(a, s),
        _coriolis,
    ),
    Row(
        "`f`, `of`",
        RESULT,
        "`joint_wrenches(a, s, acc, external_force, axes=...)`",
        "`f` is `local`, `of` is `world`",
        lambda a, s, x: [
            moving(a, artix.joint_wrenches(a, s, x["acceleration"], x["wrenches"], axes="local")),
            moving(a, artix.joint_wrenches(a, s, x["acceleration"], axes="world")),
        ],
        lambda r: [
            r.items(_rnea(r, r.body_forces()).f),
            r.items(_rnea_derivatives(r).of),
        ],
    ),
    Row("`of_augmented`", TEMPORARY, "part of constrained dynamics"),
    Row(
        "`h`, `oh`",
        RESULT,
        "`link_momenta(a, s, axes=..., subtree=...)`",
        "`h` is `local`, `oh` is `world`; after `computeCentroidalMomentum`, `h` covers subtrees",
        lambda a, s, x: [
            moving(a, artix.link_momenta(a, s, axes="local")),
            moving(a, artix.link_momenta(a, s, axes="world")),
            moving(a, artix.link_momenta(a, s, subtree=True, axes="local")),
        ],
        lambda r: [
            r.items(_rnea(r).h),
            r.items(_rnea_derivatives(r).oh),
            r.items(r.ran(pin.computeCentroidalMomentum, r.q, r.v).h),
        ],
    ),
    Row(
        "`vxI`, `Ivx`",
        DEAD,
        "`velocity_product_matrices(a, s)`, `.right` and `.left`",
        "sums over subtrees in world axes; Pinocchio never writes them, so they are compared with "
        "sums of `Inertia.vxi`, `ivx`",
        lambda a, s, x: [moving(a, artix.velocity_product_matrices(a, s)[k]) for k in (1, 2)],
        lambda r: [_sums(r, lambda i, v: i.vxi(v)), _sums(r, lambda i, v: i.ivx(v))],
    ),
    Row(
        "`B`",
        TEMPORARY,
        "`velocity_product_matrices(a, s).coriolis`",
        "in world axes",
        lambda a, s, x: moving(a, artix.velocity_product_matrices(a, s).coriolis),
        lambda r: r.items(r.ran(pin.computeCoriolisMatrix, r.q, r.v).B),
    ),
]

MASS_MATRIX = [
    Row(
        "`M`, `crba`",
        RESULT,
        "`mass_matrix(a, s, armature=True)`",
        "both triangles are filled; Pinocchio always adds the armature",
        lambda a, s, x: artix.mass_matrix(a, s, armature=True),
        _mass_matrix,
    ),
    Row(
        "`Minv`, `computeMinverse`, `cholesky.computeMinv`",
        RESULT,
        "`mass_matrix_inverse(a, s)`",
        "",
        lambda a, s, x: artix.mass_matrix_inverse(a, s),
        lambda r: r.map @ symmetric(r.ran(pin.computeMinverse, r.q).Minv) @ r.map.T,
    ),
    Row(
        "`Ycrb`, `oYcrb`",
        RESULT,
        "`composite_spatial_inertias(a, s, axes=...)`",
        f"{SYMMETRIC}; `Ycrb` is `local`, `oYcrb` is `world`",
        lambda a, s, x: [
            moving(a, artix.composite_spatial_inertias(a, s, axes=k)) for k in ("local", "world")
        ],
        lambda r: [
            r.items(r.ran(pin.crba, r.q, pin.Convention.LOCAL).Ycrb),
            r.items(r.ran(pin.crba, r.q, pin.Convention.WORLD).oYcrb),
        ],
    ),
    Row(
        "`oinertias`",
        TEMPORARY,
        "`link_spatial_inertias(a, s, axes='world')`",
        f"{SYMMETRIC}; compared with `oMi.act(model.inertias)`",
        lambda a, s, x: moving(a, artix.link_spatial_inertias(a, s, axes="world")),
        lambda r: r.of_joints(lambda j: r.data.oMi[j].act(r.model.inertias[j]).matrix()),
    ),
    Row("`dYcrb`", DEAD, "`composite_spatial_inertia_rates(a, s)`"),
    Row(
        "`doYcrb`",
        TEMPORARY,
        "`composite_spatial_inertia_rates(a, s)`",
        "as written by `dccrba`; compared with sums of `Inertia.variation`",
        lambda a, s, x: moving(a, artix.composite_spatial_inertia_rates(a, s)),
        lambda r: _sums(r, lambda i, v: i.variation(v)),
    ),
    Row("`Fcrb`", TEMPORARY, "`mass_matrix(a, s)`"),
    Row(
        "`Yaba`, `oYaba`",
        TEMPORARY,
        "`articulated_body_inertias(a, s, axes=..., projected=...)`",
        "Pinocchio's are projected, except for joints on the root",
        _articulated_inertias,
        _articulated,
    ),
    Row("`u`", TEMPORARY, "`forward_dynamics(a, s, force)`"),
    Row(
        "`ddq`, `aba`",
        RESULT,
        "`forward_dynamics(a, s, force, external_force)`",
        "`nu' = T v' + b`",
        lambda a, s, x: artix.forward_dynamics(a, s, x["force"], x["wrenches"]),
        lambda r: r.oracle.forward_dynamics(r.inputs["force"], r.inputs["wrenches"]),
    ),
    Row(
        "`U`, `D`, `cholesky.decompose`",
        RESULT,
        "`mass_matrix_cholesky(a, s)`",
        "for the joints, U and D are Pinocchio's, permuted; the product and D are compared",
        _factors,
        _pinocchio_factors,
    ),
    Row(
        "`Dinv`, `tmp`, `SDinv`, `cholesky.solve`",
        TEMPORARY,
        "`mass_matrix_solve(a, s, right)`, `mass_matrix_inverse(a, s)`",
    ),
    Row("`UDinv`, `IS`", DEAD, "-"),
]

DERIVATIVES = [
    Row(
        "`dtau_dq`, `dtau_dv`, `computeRNEADerivatives`",
        RESULT,
        "`inverse_dynamics_derivatives(a, s, acc)`",
        "`nu` and `tau` are held in world axes; Pinocchio holds them in base axes",
        lambda a, s, x: list(artix.inverse_dynamics_derivatives(a, s, x["acceleration"])),
        lambda r: list(
            oracle_derivatives.inverse_dynamics_derivatives(r.oracle, r.inputs["acceleration"])
        ),
    ),
    Row(
        "`computeStaticTorqueDerivatives`, `computeGeneralizedGravityDerivatives`",
        GETTER,
        "`gravity_derivatives(a, s)`; with wrenches, `inverse_dynamics_derivatives` at rest",
        "`tau` and the wrenches are held in world axes",
        lambda a, s, x: artix.gravity_derivatives(a, s),
        lambda r: r.by_configuration(_gravity),
        check="differences of `g`",
    ),
    Row(
        "`ddq_dq`, `ddq_dv`, `ddq_dtau`, `computeABADerivatives`",
        RESULT,
        "`forward_dynamics_derivatives(a, s, force)`",
        "`nu` and its rate are held in world axes; Pinocchio holds them in base axes",
        lambda a, s, x: list(artix.forward_dynamics_derivatives(a, s, x["force"])),
        lambda r: list(
            oracle_derivatives.forward_dynamics_derivatives(r.oracle, r.inputs["force"])
        ),
    ),
    Row(
        "`dFdq`, `dFdv`",
        TEMPORARY,
        "`inverse_dynamics_derivatives(a, s, acc)`, `centroidal_derivatives(a, s, acc)`",
    ),
    Row("`Itmp`, `M6tmp`, `M6tmpR`, `M6tmpR2`", DEAD, "-"),
]

SECOND_DERIVATIVES = [
    Row(
        member,
        RESULT,
        f"`inverse_dynamics_second_derivatives(a, s, acc).{name}`",
        "Pinocchio has it in C++ only",
        _second(name),
        _differences(which, of),
        check=f"differences of Pinocchio's {first}",
    )
    for member, name, which, of, first in (
        ("`d2tau_dqdq`", "configuration_configuration", 0, "configuration", "`dtau_dq`"),
        ("`d2tau_dvdv`", "velocity_velocity", 1, "velocity", "`dtau_dv`"),
        ("`d2tau_dqdv`", "configuration_velocity", 0, "velocity", "`dtau_dq`"),
        ("`d2tau_dadq`", "acceleration_configuration", 2, "configuration", "`M`"),
    )
]
