"""Public functions by name, as functions of articulation, state, an [nv] array and wrenches [L, 6].

Names that end in "of links" or "of link frames" are of all links at once.

``tests.compiler.test_programs`` counts the operations of all of them, ``test_sharding`` splits them
over devices, and ``tests.dynamics.test_check_grads`` names those whose derivatives it checks.
"""

from __future__ import annotations

import artix

#: The functions that most users call; the articulation has a frame ``"tool"``.
FUNCTIONS = {
    "frame_pose of links": lambda a, s, x, w: artix.frame_pose(a, s),
    "frame_velocity of links": lambda a, s, x, w: artix.frame_velocity(a, s, offset="com"),
    "forward_kinematics": lambda a, s, x, w: artix.forward_kinematics(a, s),
    "frame_acceleration of links": lambda a, s, x, w: artix.frame_acceleration(
        a, s, x, offset="com", classical=True
    ),
    "frame_jacobian of links": lambda a, s, x, w: artix.frame_jacobian(a, s, offset="com"),
    "frame_pose": lambda a, s, x, w: artix.frame_pose(a, s, "tool"),
    "frame_velocity": lambda a, s, x, w: artix.frame_velocity(a, s, "tool"),
    "frame_jacobian": lambda a, s, x, w: artix.frame_jacobian(a, s, "tool"),
    "frame_jacobian_rate": lambda a, s, x, w: artix.frame_jacobian_rate(a, s, "tool"),
    "mass_matrix": lambda a, s, x, w: artix.mass_matrix(a, s),
    "gravity_compensation": lambda a, s, x, w: artix.gravity_compensation(a, s),
    "coriolis_compensation": lambda a, s, x, w: artix.coriolis_compensation(a, s),
    "bias_force": lambda a, s, x, w: artix.bias_force(a, s),
    "inverse_dynamics": lambda a, s, x, w: artix.inverse_dynamics(a, s, x, w),
    "forward_dynamics": lambda a, s, x, w: artix.forward_dynamics(a, s, x, w),
    "generalized_external_force": lambda a, s, x, w: artix.generalized_external_force(a, s, w),
    "center_of_mass": lambda a, s, x, w: artix.center_of_mass(a, s),
    "center_of_mass_jacobian": lambda a, s, x, w: artix.center_of_mass_jacobian(a, s),
    "centroidal_momentum_matrix": lambda a, s, x, w: artix.centroidal_momentum_matrix(a, s),
    "centroidal_momentum": lambda a, s, x, w: artix.centroidal_momentum(a, s),
    "kinetic_energy": lambda a, s, x, w: artix.kinetic_energy(a, s),
    "potential_energy": lambda a, s, x, w: artix.potential_energy(a, s),
    "integrate": lambda a, s, x, w: artix.integrate(a, s, x),
    "difference": lambda a, s, x, w: artix.difference(
        a, s, s.replace(joint_position=2 * s.joint_position)
    ),
    "interpolate": lambda a, s, x, w: artix.interpolate(a, s, artix.integrate(a, s, x), 0.5),
    "distance": lambda a, s, x, w: artix.distance(
        a, s, s.replace(joint_position=2 * s.joint_position)
    ),
    "difference_derivatives": lambda a, s, x, w: artix.difference_derivatives(
        a, s, artix.integrate(a, s, x)
    ),
    "configuration_rate_map": lambda a, s, x, w: artix.configuration_rate_map(a, s),
    "mass_matrix_cholesky": lambda a, s, x, w: artix.mass_matrix_cholesky(a, s),
    "mass_matrix_solve": lambda a, s, x, w: artix.mass_matrix_solve(a, s, x),
    "mass_matrix_inverse": lambda a, s, x, w: artix.mass_matrix_inverse(a, s),
    "inverse_dynamics_derivatives": lambda a, s, x, w: artix.inverse_dynamics_derivatives(
        a, s, x, w
    ),
    "forward_dynamics_derivatives": lambda a, s, x, w: artix.forward_dynamics_derivatives(
        a, s, x, w
    ),
    "gravity_derivatives": lambda a, s, x, w: artix.gravity_derivatives(a, s),
    "centroidal_derivatives": lambda a, s, x, w: artix.centroidal_derivatives(a, s, x),
    "frame_velocity_derivatives of links": lambda a, s, x, w: artix.frame_velocity_derivatives(
        a, s, offset="com"
    ),
    "frame_acceleration_derivatives of links": lambda a, s, x, w: (
        artix.frame_acceleration_derivatives(a, s, x, offset="com", classical=True)
    ),
    "integrate_derivatives": lambda a, s, x, w: artix.integrate_derivatives(a, s, x),
    "linearize": lambda a, s, x, w: artix.linearize(a, s, x, 0.01),
    "inverse_dynamics_second_derivatives": lambda a, s, x, w: (
        artix.inverse_dynamics_second_derivatives(a, s, x)
    ),
}
#: The other quantities of Pinocchio's ``Data``.
QUANTITIES = {
    "joint_placements": lambda a, s, x, w: artix.joint_placements(a, s),
    "frame_velocity of link frames": lambda a, s, x, w: artix.frame_velocity(a, s, axes="local"),
    "frame_acceleration of link frames": lambda a, s, x, w: artix.frame_acceleration(
        a, s, x, axes="local"
    ),
    "frame_acceleration": lambda a, s, x, w: artix.frame_acceleration(a, s, x, "tool"),
    "joint_jacobians": lambda a, s, x, w: artix.joint_jacobians(a, s),
    "joint_jacobians_rate": lambda a, s, x, w: artix.joint_jacobians_rate(a, s),
    "joint_jacobians_second_rate": lambda a, s, x, w: artix.joint_jacobians_second_rate(a, s, x),
    "joint_kinematic_hessians": lambda a, s, x, w: artix.joint_kinematic_hessians(a, s),
    "joint_motion_derivatives": lambda a, s, x, w: artix.joint_motion_derivatives(a, s, x),
    "frame_velocity_derivatives": lambda a, s, x, w: artix.frame_velocity_derivatives(a, s, "tool"),
    "frame_acceleration_derivatives": lambda a, s, x, w: artix.frame_acceleration_derivatives(
        a, s, x, "tool"
    ),
    "frame_kinematic_hessian": lambda a, s, x, w: artix.frame_kinematic_hessian(a, s, "tool"),
    "frame_kinematic_regressor": lambda a, s, x, w: artix.frame_kinematic_regressor(a, s, "tool"),
    "subtree_masses": lambda a, s, x, w: artix.subtree_masses(a),
    "subtree_centers_of_mass": lambda a, s, x, w: artix.subtree_centers_of_mass(a, s),
    "subtree_center_of_mass_velocities": lambda a, s, x, w: artix.subtree_center_of_mass_velocities(
        a, s
    ),
    "subtree_center_of_mass_accelerations": lambda a, s, x, w: (
        artix.subtree_center_of_mass_accelerations(a, s, x)
    ),
    "subtree_center_of_mass_jacobian": lambda a, s, x, w: artix.subtree_center_of_mass_jacobian(
        a, s, 3
    ),
    "center_of_mass_velocity": lambda a, s, x, w: artix.center_of_mass_velocity(a, s),
    "center_of_mass_acceleration": lambda a, s, x, w: artix.center_of_mass_acceleration(a, s, x),
    "link_spatial_inertias": lambda a, s, x, w: artix.link_spatial_inertias(a, s, axes="local"),
    "composite_spatial_inertias": lambda a, s, x, w: artix.composite_spatial_inertias(
        a, s, axes="local"
    ),
    "composite_spatial_inertia_rates": lambda a, s, x, w: artix.composite_spatial_inertia_rates(
        a, s
    ),
    "centroidal_inertia": lambda a, s, x, w: artix.centroidal_inertia(a, s),
    "supported_inertia": lambda a, s, x, w: artix.supported_inertia(a, s, "tool"),
    "supported_force": lambda a, s, x, w: artix.supported_force(a, s, x, "tool"),
    "coriolis_matrix": lambda a, s, x, w: artix.coriolis_matrix(a, s),
    "velocity_product_matrices": lambda a, s, x, w: artix.velocity_product_matrices(a, s),
    "articulated_body_inertias": lambda a, s, x, w: artix.articulated_body_inertias(
        a, s, axes="local"
    ),
    "joint_wrenches": lambda a, s, x, w: artix.joint_wrenches(a, s, x, w, axes="local"),
    "link_momenta": lambda a, s, x, w: artix.link_momenta(a, s, axes="local"),
    "centroidal_momentum_rate": lambda a, s, x, w: artix.centroidal_momentum_rate(a, s, x),
    "centroidal_momentum_matrix_rate": lambda a, s, x, w: artix.centroidal_momentum_matrix_rate(
        a, s
    ),
    "mechanical_energy": lambda a, s, x, w: artix.mechanical_energy(a, s),
    "static_torque": lambda a, s, x, w: artix.static_torque(a, s, w),
    "frame_body_regressor of links": lambda a, s, x, w: artix.frame_body_regressor(a, s, x),
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
