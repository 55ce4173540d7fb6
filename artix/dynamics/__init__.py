"""Mass matrix, inverse and forward dynamics, momentum, energy, regressors, and their
derivatives.
"""

from typing import TYPE_CHECKING

from artix.dynamics.derivatives import ForwardDynamicsDerivatives as ForwardDynamicsDerivatives
from artix.dynamics.derivatives import InverseDynamicsDerivatives as InverseDynamicsDerivatives
from artix.dynamics.derivatives import (
    InverseDynamicsSecondDerivatives as InverseDynamicsSecondDerivatives,
)
from artix.dynamics.derivatives import Linearization as Linearization
from artix.dynamics.derivatives import forward_dynamics_derivatives as forward_dynamics_derivatives
from artix.dynamics.derivatives import gravity_derivatives as gravity_derivatives
from artix.dynamics.derivatives import inverse_dynamics_derivatives as inverse_dynamics_derivatives
from artix.dynamics.derivatives import (
    inverse_dynamics_second_derivatives as inverse_dynamics_second_derivatives,
)
from artix.dynamics.derivatives import linearize as linearize
from artix.dynamics.forward import forward_dynamics as forward_dynamics
from artix.dynamics.forward import mass_matrix_cholesky as mass_matrix_cholesky
from artix.dynamics.forward import mass_matrix_inverse as mass_matrix_inverse
from artix.dynamics.forward import mass_matrix_solve as mass_matrix_solve
from artix.dynamics.inverse import bias_force as bias_force
from artix.dynamics.inverse import coriolis_compensation as coriolis_compensation
from artix.dynamics.inverse import generalized_external_force as generalized_external_force
from artix.dynamics.inverse import gravity_compensation as gravity_compensation
from artix.dynamics.inverse import inverse_dynamics as inverse_dynamics
from artix.dynamics.inverse import joint_wrenches as joint_wrenches
from artix.dynamics.inverse import link_momenta as link_momenta
from artix.dynamics.inverse import static_torque as static_torque
from artix.dynamics.inverse import supported_force as supported_force
from artix.dynamics.mass_matrix import mass_matrix as mass_matrix
from artix.dynamics.momentum import CentroidalDerivatives as CentroidalDerivatives
from artix.dynamics.momentum import center_of_mass as center_of_mass
from artix.dynamics.momentum import center_of_mass_acceleration as center_of_mass_acceleration
from artix.dynamics.momentum import center_of_mass_jacobian as center_of_mass_jacobian
from artix.dynamics.momentum import center_of_mass_velocity as center_of_mass_velocity
from artix.dynamics.momentum import centroidal_derivatives as centroidal_derivatives
from artix.dynamics.momentum import centroidal_momentum as centroidal_momentum
from artix.dynamics.momentum import centroidal_momentum_matrix as centroidal_momentum_matrix
from artix.dynamics.momentum import (
    centroidal_momentum_matrix_rate as centroidal_momentum_matrix_rate,
)
from artix.dynamics.momentum import centroidal_momentum_rate as centroidal_momentum_rate
from artix.dynamics.momentum import kinetic_energy as kinetic_energy
from artix.dynamics.momentum import mechanical_energy as mechanical_energy
from artix.dynamics.momentum import potential_energy as potential_energy
from artix.dynamics.momentum import (
    subtree_center_of_mass_accelerations as subtree_center_of_mass_accelerations,
)
from artix.dynamics.momentum import (
    subtree_center_of_mass_jacobian as subtree_center_of_mass_jacobian,
)
from artix.dynamics.momentum import (
    subtree_center_of_mass_velocities as subtree_center_of_mass_velocities,
)
from artix.dynamics.momentum import subtree_centers_of_mass as subtree_centers_of_mass
from artix.dynamics.momentum import subtree_masses as subtree_masses
from artix.dynamics.regressors import body_regressor as body_regressor
from artix.dynamics.regressors import dynamic_parameters as dynamic_parameters
from artix.dynamics.regressors import frame_body_regressor as frame_body_regressor
from artix.dynamics.regressors import joint_torque_regressor as joint_torque_regressor
from artix.dynamics.regressors import kinetic_energy_regressor as kinetic_energy_regressor
from artix.dynamics.regressors import potential_energy_regressor as potential_energy_regressor
from artix.dynamics.regressors import static_regressor as static_regressor
from artix.dynamics.regressors import with_dynamic_parameters as with_dynamic_parameters
from artix.dynamics.spatial_inertia import VelocityProducts as VelocityProducts
from artix.dynamics.spatial_inertia import articulated_body_inertias as articulated_body_inertias
from artix.dynamics.spatial_inertia import centroidal_inertia as centroidal_inertia
from artix.dynamics.spatial_inertia import (
    composite_spatial_inertia_rates as composite_spatial_inertia_rates,
)
from artix.dynamics.spatial_inertia import composite_spatial_inertias as composite_spatial_inertias
from artix.dynamics.spatial_inertia import coriolis_matrix as coriolis_matrix
from artix.dynamics.spatial_inertia import link_spatial_inertias as link_spatial_inertias
from artix.dynamics.spatial_inertia import supported_inertia as supported_inertia
from artix.dynamics.spatial_inertia import velocity_product_matrices as velocity_product_matrices
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
