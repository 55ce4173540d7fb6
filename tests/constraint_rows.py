"""Pinocchio's names of constrained dynamics, with the call of artix that answers each and how it differs.

Temporaries of one algorithm are answered by the function that yields that algorithm's result.
"""

from __future__ import annotations

_FORWARD = "constrained_forward_dynamics(a, s, tau, c)"
_DERIVATIVES = "constrained_forward_dynamics_derivatives(a, s, tau, c)"
_IMPACT = "impulse_dynamics(a, s, c, restitution)"
_ROWS = "constraint_derivatives(a, s, acceleration, c)"
_DELASSUS = "delassus_matrix(a, s, c)"
_INERTIA = "operational_space_inertia(a, s, c)"
_SOLVE = "constrained_solve(a, s, c, force, target)"
_KINEMATICS = "constraint_kinematics(a, s, c)"
_STATIC = "topology.dof_moves_body"
_TANGENT = "columns in the tangent space of nu"
_TEMPORARY = "a temporary; the function yields the result"
_INDEX = "a static index of the sparse algorithm; the mask serves instead"
_DEAD = "never written by Pinocchio; the function yields what its name says"

#: (name in Pinocchio, call in artix, difference in convention)
ROWS: list[tuple[str, str, str]] = [
    # Constrained dynamics, impulses
    ("contact_chol", _SOLVE, "4.x: constraint_chol; the factors are not returned, solves with them are"),
    ("lambda_c", f"{_FORWARD}.constraint_force", ""),
    ("lambda_c_prox", f"{_FORWARD}.constraint_force", _TEMPORARY),
    ("diff_lambda_c", f"{_FORWARD}.residual", _DEAD),
    ("impulse_c", f"{_IMPACT}.impulse", "Pinocchio ignores the velocity of frame b"),
    ("dq_after", f"{_IMPACT}.velocity", "in the layout of nu"),
    ("primal_dual_contact_solution", _SOLVE, "x, then lambda; Pinocchio holds -lambda, then x"),
    ("primal_rhs_contact", "constraint_bias(a, s, c)", "the opposite sign: J nu' + bias vanishes"),
    ("osim", _INERTIA, ""),
    ("osim_llt", _INERTIA, _TEMPORARY),
    ("oYaba_contact", _FORWARD, _TEMPORARY),
    ("JMinvJt", _DELASSUS, ""),
    ("llt_JMinvJt", _INERTIA, _TEMPORARY),
    ("sDUiJt", _DELASSUS, _TEMPORARY),
    ("torque_residual", f"{_FORWARD}.acceleration", _TEMPORARY),
    ("dlambda_dq", f"{_DERIVATIVES}.constraint_force.configuration", _TANGENT),
    ("dlambda_dv", f"{_DERIVATIVES}.constraint_force.velocity", _TANGENT),
    ("dlambda_dtau", f"{_DERIVATIVES}.constraint_force.force", _TANGENT),
    ("dlambda_dx_prox", f"{_DERIVATIVES}.constraint_force", _TEMPORARY),
    ("drhs_prox", f"{_DERIVATIVES}.constraint_force", _TEMPORARY),
    ("dvc_dq", f"{_ROWS}.velocity_by_configuration", _TANGENT),
    ("dac_dq", f"{_ROWS}.acceleration_by_configuration", f"{_TANGENT}; Baumgarte's terms included"),
    ("dac_dv", f"{_ROWS}.acceleration_by_velocity", f"{_TANGENT}; Baumgarte's terms included"),
    ("dac_da", "constraint_jacobian(a, s, c)", _TANGENT),
    ("oa_drift", f"{_KINEMATICS}.bias", "of the constrained rows instead of all links"),
    ("oa_augmented", f"{_FORWARD}.acceleration", _TEMPORARY),
    # Constrained ABA family
    ("KA", _DELASSUS, _TEMPORARY),
    ("LA", _DELASSUS, "LA[0] is the matrix"),
    ("lA", _FORWARD, _TEMPORARY),
    ("lambdaA", f"{_FORWARD}.constraint_force", "lambdaA[0] is -lambda, blocks in reverse tree order"),
    ("KAS", _DELASSUS, _TEMPORARY),
    ("a_bias", f"{_KINEMATICS}.bias", "of the constrained rows instead of all links"),
    ("par_cons_ind", _STATIC, _INDEX),
    ("constraint_ind", _STATIC, _DEAD),
    ("constraints_supported_dim", _STATIC, _INDEX),
    # Delassus matrix
    ("oK", _DELASSUS, _TEMPORARY),
    ("oL", _DELASSUS, _TEMPORARY),
    ("extended_motion_propagator", _DELASSUS, _TEMPORARY),
    ("extended_motion_propagator2", _DELASSUS, _TEMPORARY),
    ("spatial_inv_inertia", _DELASSUS, _TEMPORARY),
    ("accumulation_descendant", _STATIC, _INDEX),
    ("accumulation_ancestor", _STATIC, _INDEX),
    ("accumulation_joints", _STATIC, _INDEX),
    ("joints_supporting_constraints", _STATIC, _INDEX),
    ("constraints_supported", _STATIC, _INDEX),
    ("constraints_on_joint", _STATIC, _INDEX),
    # Algorithms and features
    ("RigidConstraintModel", "Constraint, Constraints.of(a, constraints)", "frames by name; joint1 is a, joint2 is b"),
    ("m_baumgarte_parameters", "Constraint(position_gain=Kp, velocity_gain=Kd)", ""),
    ("contact_placement_error", f"{_KINEMATICS}.error", "in the rows' axes; Pinocchio's is always in those of frame a"),
    ("contact_velocity_error", f"{_KINEMATICS}.velocity", "in the rows' axes"),
    ("ProximalSettings", "damping=, iterations=", "a fixed number of iterations; residual tells"),
    ("constraintDynamics", _FORWARD, ""),
    ("computeConstraintDynamicsDerivatives", _DERIVATIVES, _TANGENT),
    ("impulseDynamics", _IMPACT, "Pinocchio ignores the velocity of frame b"),
    ("computeImpulseDynamicsDerivatives", "impulse_dynamics_derivatives(a, s, c, r)", "the identity is included"),
    ("contactABA", _FORWARD, ""),
    ("constrainedABA", _FORWARD, ""),
    ("pv", _FORWARD, "Pinocchio's ignores Baumgarte's gains"),
    ("lcaba", _FORWARD, ""),
    ("proxLTLs", _FORWARD, ""),
    ("computeDelassusMatrix", _DELASSUS, "pin 4.1 takes all rows for LOCAL ones"),
    ("computePvDelassusMatrix", _DELASSUS, ""),
    ("computeDampedDelassusMatrixInverse", "operational_space_inertia(a, s, c, damping=mu)", "pin 4.1 returns 1 / mu"),
    ("DelassusOperatorDense", "delassus_matrix(a, s, c, damping=mu)", "an array"),
    ("PointContactConstraintModel", "Contacts(links, point, normal, friction, gap)", "the normal is in world axes"),
    ("FrameAnchorConstraintModel", 'Constraint(type="weld")', ""),
    ("PointAnchorConstraintModel", 'Constraint(type="point")', ""),
    ("ADMMConstraintSolver", 'solve_contact(G, g, mu, method="admm")', "a fixed number of iterations"),
    ("PGSConstraintSolver", 'solve_contact(G, g, mu, method="pgs")', "a fixed number of iterations"),
    ("contactInverseDynamics", "constrained_inverse_dynamics(a, s, acceleration, c)", "smallest forces, no cones"),
    ("computeKKTContactDynamicMatrixInverse", _SOLVE, "solves instead of the inverse"),
    ("getConstraintsJacobian", "constraint_jacobian(a, s, c)", _TANGENT),
]
