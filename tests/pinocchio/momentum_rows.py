"""Rows of the table: centres of mass, centroidal momentum, energies and regressors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin

import artix
from tests.pinocchio.reference import Reference
from tests.pinocchio.rows import GETTER, RESULT, TEMPORARY, Row, moving

ROOT = "the mass of a fixed root counts; Pinocchio leaves it out"
LINKS = f"ten columns per link, the root first; {ROOT}"


def _centers(r: Reference, field: str) -> np.ndarray:
    """Quantities of subtrees, in world axes."""
    data = r.ran(pin.centerOfMass, r.q, r.v, r.a)
    turn = {j: data.oMi[j].rotation for j in r.joints}
    return r.of_joints(
        lambda j: (
            data.oMi[j].act(data.com[j]) if field == "com" else turn[j] @ getattr(data, field)[j]
        )
    )


def _subtree_jacobians(r: Reference) -> np.ndarray:
    return r.of_joints(
        lambda j: r.columns(pin.jacobianSubtreeCenterOfMass(r.model, r.model.createData(), r.q, j))
    )


def _links(a):
    return jnp.arange(1 if a.topology.fixed_base else 0, a.topology.num_links)


def _centroidal(r: Reference) -> pin.Data:
    data = r.ran(pin.dccrba, r.q, r.v)
    pin.ccrba(r.model, data, r.q, r.v)
    return data


def _centroidal_derivatives(r: Reference) -> list[np.ndarray]:
    data = r.model.createData()
    h_q, rate_q, rate_v, matrix = pin.computeCentroidalDynamicsDerivatives(
        r.model, data, r.q, r.v, r.a
    )
    momentum, rate = r.derivatives(h_q, matrix), r.derivatives(rate_q, rate_v, matrix)
    return [momentum[0], momentum[1], *rate]


def _blocks(r: Reference, regressor: np.ndarray, width: int) -> np.ndarray:
    """Blocks of columns in link order, zero for a fixed root."""
    regressor = np.atleast_2d(regressor)
    order = np.concatenate([width * (j - 1) + np.arange(width) for j in r.joints])
    return np.pad(regressor[:, order], ((0, 0), (width if r.oracle.fixed_base else 0, 0)))


def _without_root(a, regressor, width: int):
    """Zero if the root is fixed, because Pinocchio has no such body."""
    if not a.topology.fixed_base:
        return regressor
    return jnp.concatenate(
        [jnp.zeros_like(regressor[..., :width]), regressor[..., width:]], axis=-1
    )


def _body_regressors(r: Reference) -> np.ndarray:
    data = r.ran(pin.rnea, r.q, r.v, r.a)
    return r.of_joints(lambda j: pin.jointBodyRegressor(r.model, data, j).copy())


def _frame_regressor(r: Reference) -> np.ndarray:
    return pin.frameBodyRegressor(r.model, r.ran(pin.rnea, r.q, r.v, r.a), r.frame).copy()


def _torque_regressor(r: Reference) -> np.ndarray:
    return r.forces(
        _blocks(r, r.ran(pin.computeJointTorqueRegressor, r.q, r.v, r.a).jointTorqueRegressor, 10)
    )


def _static_regressor(r: Reference) -> np.ndarray:
    return _blocks(r, r.ran(pin.computeStaticRegressor, r.q).staticRegressor, 4)


def _energy(algorithm, *names: str):
    return lambda r: np.array(
        algorithm(r.unarmed, r.unarmed.createData(), *(getattr(r, name) for name in names))
    )


CENTERS = [
    Row(
        "`mass`, `computeSubtreeMasses`, `computeTotalMass`",
        RESULT,
        "`subtree_masses(a)`",
        f"per link; {ROOT}",
        lambda a, s, x: moving(a, artix.subtree_masses(a)),
        lambda r: r.items(r.ran(pin.computeSubtreeMasses).mass),
    ),
    Row(
        "`com`, `centerOfMass`",
        RESULT,
        "`center_of_mass(a, s)`, `subtree_centers_of_mass(a, s)`",
        f"always world positions; {ROOT}",
        lambda a, s, x: [
            artix.center_of_mass(a, s),
            moving(a, artix.subtree_centers_of_mass(a, s)),
        ],
        lambda r: [r.ran(pin.centerOfMass, r.q).com[0], _centers(r, "com")],
    ),
    Row(
        "`vcom`",
        RESULT,
        "`center_of_mass_velocity(a, s)`, `subtree_center_of_mass_velocities(a, s)`",
        "always world axes",
        lambda a, s, x: [
            artix.center_of_mass_velocity(a, s),
            moving(a, artix.subtree_center_of_mass_velocities(a, s)),
        ],
        lambda r: [r.ran(pin.centerOfMass, r.q, r.v).vcom[0], _centers(r, "vcom")],
    ),
    Row(
        "`acom`",
        RESULT,
        "`center_of_mass_acceleration(a, s, acc)`, `subtree_center_of_mass_accelerations(a, s, "
        "acc)`",
        "always world axes",
        lambda a, s, x: [
            artix.center_of_mass_acceleration(a, s, x["acceleration"]),
            moving(a, artix.subtree_center_of_mass_accelerations(a, s, x["acceleration"])),
        ],
        lambda r: [r.ran(pin.centerOfMass, r.q, r.v, r.a).acom[0], _centers(r, "acom")],
    ),
    Row(
        "`Jcom`, `jacobianCenterOfMass`",
        RESULT,
        "`center_of_mass_jacobian(a, s)`",
        ROOT,
        lambda a, s, x: artix.center_of_mass_jacobian(a, s),
        lambda r: r.columns(r.ran(pin.jacobianCenterOfMass, r.q).Jcom),
    ),
    Row(
        "`jacobianSubtreeCenterOfMass`, `getJacobianSubtreeCenterOfMass`",
        GETTER,
        "`subtree_center_of_mass_jacobian(a, s, link)`",
        "",
        lambda a, s, x: jax.vmap(lambda link: artix.subtree_center_of_mass_jacobian(a, s, link))(
            _links(a)
        ),
        _subtree_jacobians,
    ),
    Row(
        "`getCenterOfMassVelocityDerivatives`",
        GETTER,
        "`centroidal_derivatives(a, s, acc).momentum_by_configuration[:3] / subtree_masses(a)[0]`",
        "`nu` is held in world axes",
        lambda a, s, x: (
            artix.centroidal_derivatives(a, s, x["acceleration"])[0][:3]
            / artix.subtree_masses(a)[0]
        ),
        lambda r: r.derivatives(
            pin.getCenterOfMassVelocityDerivatives(r.model, r.ran(pin.computeAllTerms, r.q, r.v)),
            r.ran(pin.jacobianCenterOfMass, r.q).Jcom,
        )[0],
    ),
]

MOMENTUM = [
    Row(
        "`Ag`, `ccrba`, `computeCentroidalMap`",
        RESULT,
        "`centroidal_momentum_matrix(a, s)[0]`",
        "",
        lambda a, s, x: artix.centroidal_momentum_matrix(a, s)[0],
        lambda r: r.columns(_centroidal(r).Ag),
    ),
    Row(
        "`dAg`, `dccrba`, `computeCentroidalMapTimeVariation`",
        RESULT,
        "`centroidal_momentum_matrix_rate(a, s)`",
        "the rate of the matrix that multiplies `nu`",
        lambda a, s, x: artix.centroidal_momentum_matrix_rate(a, s),
        lambda r: r.rate_of_columns(_centroidal(r).dAg, _centroidal(r).Ag),
    ),
    Row(
        "`hg`, `computeCentroidalMomentum`",
        RESULT,
        "`centroidal_momentum(a, s)`",
        "",
        lambda a, s, x: artix.centroidal_momentum(a, s),
        lambda r: _centroidal(r).hg.vector,
    ),
    Row(
        "`dhg`, `computeCentroidalMomentumTimeVariation`",
        RESULT,
        "`centroidal_momentum_rate(a, s, acc)`",
        "without gravity; `computeAllTerms` includes gravity",
        lambda a, s, x: artix.centroidal_momentum_rate(a, s, x["acceleration"]),
        lambda r: r.ran(pin.computeCentroidalMomentumTimeVariation, r.q, r.v, r.a).dhg.vector,
    ),
    Row(
        "`Ig`",
        RESULT,
        "`centroidal_inertia(a, s)`",
        "a `[6, 6]` matrix",
        lambda a, s, x: artix.centroidal_inertia(a, s),
        lambda r: _centroidal(r).Ig.matrix(),
    ),
    Row(
        "`dHdq`, `computeCentroidalDynamicsDerivatives`, `getCentroidalDynamicsDerivatives`",
        TEMPORARY,
        "`centroidal_derivatives(a, s, acc)`",
        "`nu` is held in world axes",
        lambda a, s, x: list(artix.centroidal_derivatives(a, s, x["acceleration"])),
        _centroidal_derivatives,
    ),
    Row(
        "`dFda`",
        TEMPORARY,
        "`centroidal_momentum_matrix(a, s)[0]`, but about the centre of mass",
    ),
    Row(
        "`kinetic_energy`, `computeKineticEnergy`",
        RESULT,
        "`kinetic_energy(a, s, armature=True)`",
        "compared without armature, because Pinocchio 4.1 forgets that of unaligned revolute "
        "joints",
        lambda a, s, x: artix.kinetic_energy(a, s),
        _energy(pin.computeKineticEnergy, "q", "v"),
    ),
    Row(
        "`potential_energy`, `computePotentialEnergy`",
        RESULT,
        "`potential_energy(a, s)`",
        ROOT,
        lambda a, s, x: artix.potential_energy(a, s),
        _energy(pin.computePotentialEnergy, "q"),
    ),
    Row(
        "`mechanical_energy`, `computeMechanicalEnergy`",
        RESULT,
        "`mechanical_energy(a, s, armature=True)`",
        "compared without armature, as for kinetic energy",
        lambda a, s, x: artix.mechanical_energy(a, s),
        _energy(pin.computeMechanicalEnergy, "q", "v"),
    ),
]

REGRESSORS = [
    Row(
        "`bodyRegressor`, `jointBodyRegressor`",
        RESULT,
        "`body_regressor(v, a_minus_g)`; for all links `frame_body_regressor(a, s, acc)`",
        "parameters as in `Inertia.toDynamicParameters`: `dynamic_parameters(a)`",
        lambda a, s, x: moving(a, artix.frame_body_regressor(a, s, x["acceleration"])),
        _body_regressors,
    ),
    Row(
        "`frameBodyRegressor`",
        GETTER,
        "`frame_body_regressor(a, s, acc, frame, offset)`",
        "",
        lambda a, s, x: artix.frame_body_regressor(a, s, x["acceleration"], x["link"], x["offset"]),
        _frame_regressor,
    ),
    Row(
        "`jointTorqueRegressor`, `computeJointTorqueRegressor`",
        RESULT,
        "`joint_torque_regressor(a, s, acc)`",
        "ten columns per link, the root first (zero if it is fixed)",
        lambda a, s, x: artix.joint_torque_regressor(a, s, x["acceleration"]),
        _torque_regressor,
    ),
    Row(
        "`staticRegressor`, `computeStaticRegressor`",
        RESULT,
        "`static_regressor(a, s)`",
        f"four columns per link, the root first; {ROOT}",
        lambda a, s, x: _without_root(a, artix.static_regressor(a, s), 4),
        _static_regressor,
    ),
    Row(
        "`kineticEnergyRegressor`, `computeKineticEnergyRegressor`",
        RESULT,
        "`kinetic_energy_regressor(a, s)`",
        LINKS,
        lambda a, s, x: _without_root(a, artix.kinetic_energy_regressor(a, s), 10),
        lambda r: _blocks(
            r, r.ran(pin.computeKineticEnergyRegressor, r.q, r.v).kineticEnergyRegressor, 10
        )[0],
    ),
    Row(
        "`potentialEnergyRegressor`, `computePotentialEnergyRegressor`",
        RESULT,
        "`potential_energy_regressor(a, s)`",
        LINKS,
        lambda a, s, x: _without_root(a, artix.potential_energy_regressor(a, s), 10),
        lambda r: _blocks(
            r, r.ran(pin.computePotentialEnergyRegressor, r.q).potentialEnergyRegressor, 10
        )[0],
    ),
    Row(
        "`Inertia.toDynamicParameters`",
        GETTER,
        "`dynamic_parameters(a)`; the inverse is `with_dynamic_parameters(a, parameters)`",
        "",
        lambda a, s, x: moving(a, artix.dynamic_parameters(a)),
        lambda r: r.of_joints(lambda j: r.model.inertias[j].toDynamicParameters()),
    ),
    Row(
        "`computeSupportedInertiaByFrame`, `computeSupportedForceByFrame`",
        GETTER,
        "`supported_inertia(a, s, frame, offset)`, `supported_force(a, s, acc, frame, offset)`",
        "for the frame's link. Pinocchio's force needs `forwardKinematics(q, v, a)` as well as "
        "`rnea`, and both Pinocchio functions include everything that moves with the same body. "
        "Compared in `tests/house/test_supported.py` on a robot with fixed joints, 1e-12",
    ),
    Row(
        "`LogCholeskyParameters`, `PseudoInertia`",
        GETTER,
        "`inertia_from_log_cholesky(theta)`, `log_cholesky_from_inertia(...)`, "
        "`with_log_cholesky(a, theta)`",
        "the same ten numbers in the same order; the pseudo-inertia is internal",
        check="`tests/model/test_inertial_parameters.py`, 1e-12",
    ),
]
