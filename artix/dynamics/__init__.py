"""Mass matrix, inverse and forward dynamics, momentum, energy, regressors, and their derivatives."""

from typing import TYPE_CHECKING

from artix.dynamics.derivatives import (
    ForwardDynamicsDerivatives,
    InverseDynamicsDerivatives,
    Linearization,
    forward_dynamics_derivatives,
    gravity_derivatives,
    inverse_dynamics_derivatives,
    linearize,
)
from artix.dynamics.forward import forward_dynamics, mass_matrix_cholesky, mass_matrix_inverse, mass_matrix_solve
from artix.dynamics.inverse import (
    bias_force,
    coriolis_compensation,
    generalized_external_force,
    gravity_compensation,
    inverse_dynamics,
    static_torque,
)
from artix.dynamics.joint_wrenches import joint_wrenches, link_momenta, supported_force
from artix.dynamics.mass_matrix import mass_matrix
from artix.dynamics.momentum import (
    CentroidalDerivatives,
    center_of_mass,
    center_of_mass_jacobian,
    centroidal_derivatives,
    centroidal_momentum,
    centroidal_momentum_matrix,
    centroidal_momentum_matrix_rate,
    centroidal_momentum_rate,
    kinetic_energy,
    mechanical_energy,
    potential_energy,
)
from artix.dynamics.regressors import (
    body_regressor,
    dynamic_parameters,
    frame_body_regressor,
    joint_torque_regressor,
    kinetic_energy_regressor,
    potential_energy_regressor,
    static_regressor,
    with_dynamic_parameters,
)
from artix.dynamics.second_derivatives import InverseDynamicsSecondDerivatives, inverse_dynamics_second_derivatives
from artix.dynamics.spatial_inertia import (
    VelocityProducts,
    articulated_body_inertias,
    centroidal_inertia,
    composite_spatial_inertia_rates,
    composite_spatial_inertias,
    coriolis_matrix,
    link_spatial_inertias,
    supported_inertia,
    velocity_product_matrices,
)
from artix.dynamics.subtree import (
    center_of_mass_acceleration,
    center_of_mass_velocity,
    subtree_center_of_mass_accelerations,
    subtree_center_of_mass_jacobian,
    subtree_center_of_mass_velocities,
    subtree_centers_of_mass,
    subtree_masses,
)
from artix.math.deprecated import old_names

__all__ = [
    "CentroidalDerivatives",
    "ForwardDynamicsDerivatives",
    "InverseDynamicsDerivatives",
    "InverseDynamicsSecondDerivatives",
    "Linearization",
    "VelocityProducts",
    "articulated_body_inertias",
    "bias_force",
    "body_regressor",
    "center_of_mass",
    "center_of_mass_acceleration",
    "center_of_mass_jacobian",
    "center_of_mass_velocity",
    "centroidal_derivatives",
    "centroidal_inertia",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "centroidal_momentum_matrix_rate",
    "centroidal_momentum_rate",
    "composite_spatial_inertia_rates",
    "composite_spatial_inertias",
    "coriolis_compensation",
    "coriolis_matrix",
    "dynamic_parameters",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "frame_body_regressor",
    "generalized_external_force",
    "gravity_compensation",
    "gravity_derivatives",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_second_derivatives",
    "joint_torque_regressor",
    "joint_wrenches",
    "kinetic_energy",
    "kinetic_energy_regressor",
    "linearize",
    "link_momenta",
    "link_spatial_inertias",
    "mass_matrix",
    "mass_matrix_cholesky",
    "mass_matrix_inverse",
    "mass_matrix_solve",
    "mechanical_energy",
    "potential_energy",
    "potential_energy_regressor",
    "static_regressor",
    "static_torque",
    "subtree_center_of_mass_accelerations",
    "subtree_center_of_mass_jacobian",
    "subtree_center_of_mass_velocities",
    "subtree_centers_of_mass",
    "subtree_masses",
    "supported_force",
    "supported_inertia",
    "velocity_product_matrices",
    "with_dynamic_parameters",
]

if not TYPE_CHECKING:  # Old names, for one release.
    __getattr__ = old_names(__name__)
