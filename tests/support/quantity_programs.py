"""Functions of what Pinocchio's ``Data`` holds; :mod:`tests.evaluation.test_programs` counts their operations."""

from __future__ import annotations

import artix

#: As ``FUNCTIONS`` there, of articulation, state, an [nv] array and wrenches.
QUANTITIES = {
    "joint_placements": lambda a, s, x, w: artix.joint_placements(a, s),
    "link_frame_velocities": lambda a, s, x, w: artix.link_frame_velocities(a, s, axes="local"),
    "link_frame_accelerations": lambda a, s, x, w: artix.link_frame_accelerations(a, s, x, axes="local"),
    "frame_acceleration": lambda a, s, x, w: artix.frame_acceleration(a, s, x, "tool"),
    "joint_jacobians": lambda a, s, x, w: artix.joint_jacobians(a, s),
    "joint_jacobians_rate": lambda a, s, x, w: artix.joint_jacobians_rate(a, s),
    "joint_jacobians_second_rate": lambda a, s, x, w: artix.joint_jacobians_second_rate(a, s, x),
    "joint_kinematic_hessians": lambda a, s, x, w: artix.joint_kinematic_hessians(a, s),
    "joint_motion_derivatives": lambda a, s, x, w: artix.joint_motion_derivatives(a, s, x),
    "frame_velocity_derivatives": lambda a, s, x, w: artix.frame_velocity_derivatives(a, s, "tool"),
    "frame_acceleration_derivatives": lambda a, s, x, w: artix.frame_acceleration_derivatives(a, s, x, "tool"),
    "frame_kinematic_hessian": lambda a, s, x, w: artix.frame_kinematic_hessian(a, s, "tool"),
    "frame_kinematic_regressor": lambda a, s, x, w: artix.frame_kinematic_regressor(a, s, "tool"),
    "subtree_masses": lambda a, s, x, w: artix.subtree_masses(a),
    "subtree_centers_of_mass": lambda a, s, x, w: artix.subtree_centers_of_mass(a, s),
    "subtree_center_of_mass_velocities": lambda a, s, x, w: artix.subtree_center_of_mass_velocities(a, s),
    "subtree_center_of_mass_accelerations": lambda a, s, x, w: artix.subtree_center_of_mass_accelerations(a, s, x),
    "subtree_center_of_mass_jacobian": lambda a, s, x, w: artix.subtree_center_of_mass_jacobian(a, s, 3),
    "center_of_mass_velocity": lambda a, s, x, w: artix.center_of_mass_velocity(a, s),
    "center_of_mass_acceleration": lambda a, s, x, w: artix.center_of_mass_acceleration(a, s, x),
    "link_spatial_inertias": lambda a, s, x, w: artix.link_spatial_inertias(a, s, axes="local"),
    "composite_spatial_inertias": lambda a, s, x, w: artix.composite_spatial_inertias(a, s, axes="local"),
    "composite_spatial_inertia_rates": lambda a, s, x, w: artix.composite_spatial_inertia_rates(a, s),
    "centroidal_inertia": lambda a, s, x, w: artix.centroidal_inertia(a, s),
    "supported_inertia": lambda a, s, x, w: artix.supported_inertia(a, s, "tool"),
    "supported_force": lambda a, s, x, w: artix.supported_force(a, s, x, "tool"),
    "coriolis_matrix": lambda a, s, x, w: artix.coriolis_matrix(a, s),
    "velocity_product_matrices": lambda a, s, x, w: artix.velocity_product_matrices(a, s),
    "articulated_body_inertias": lambda a, s, x, w: artix.articulated_body_inertias(a, s, axes="local"),
    "joint_wrenches": lambda a, s, x, w: artix.joint_wrenches(a, s, x, w, axes="local"),
    "link_momenta": lambda a, s, x, w: artix.link_momenta(a, s, axes="local"),
    "centroidal_momentum_rate": lambda a, s, x, w: artix.centroidal_momentum_rate(a, s, x),
    "centroidal_momentum_matrix_rate": lambda a, s, x, w: artix.centroidal_momentum_matrix_rate(a, s),
    "mechanical_energy": lambda a, s, x, w: artix.mechanical_energy(a, s),
    "static_torque": lambda a, s, x, w: artix.static_torque(a, s, w),
    "link_body_regressors": lambda a, s, x, w: artix.link_body_regressors(a, s, x),
    "frame_body_regressor": lambda a, s, x, w: artix.frame_body_regressor(a, s, x, "tool"),
    "body_regressor": lambda a, s, x, w: artix.body_regressor(w[0], w[1]),
    "joint_torque_regressor": lambda a, s, x, w: artix.joint_torque_regressor(a, s, x),
    "static_regressor": lambda a, s, x, w: artix.static_regressor(a, s),
    "kinetic_energy_regressor": lambda a, s, x, w: artix.kinetic_energy_regressor(a, s),
    "potential_energy_regressor": lambda a, s, x, w: artix.potential_energy_regressor(a, s),
    "dynamic_parameters": lambda a, s, x, w: artix.dynamic_parameters(a),
    "with_dynamic_parameters": lambda a, s, x, w: (
        artix.with_dynamic_parameters(a, artix.dynamic_parameters(a)).link_mass
    ),
}
