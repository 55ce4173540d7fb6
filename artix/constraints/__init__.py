"""Constraints and contacts: their rows, their linear algebra, and the dynamics under them."""

from artix.constraints.contacts import (
    ContactForces,
    ContactProblem,
    ContactSolution,
    contact_forces,
    contact_problem,
    solve_contact,
)
from artix.constraints.dynamics import (
    ConstrainedAcceleration,
    ConstrainedForces,
    Impact,
    constrained_forward_dynamics,
    constrained_inverse_dynamics,
    impulse_dynamics,
)
from artix.constraints.dynamics_derivatives import (
    ConstrainedForwardDynamicsDerivatives,
    ConstraintDerivatives,
    ImpactDerivatives,
    constrained_forward_dynamics_derivatives,
    constraint_derivatives,
    impulse_dynamics_derivatives,
)
from artix.constraints.frame_pairs import AnchorRows
from artix.constraints.model import Constraint, Constraints
from artix.constraints.operators import (
    KktSolution,
    constrained_solve,
    constraint_bias,
    constraint_jacobian,
    constraint_kinematics,
    delassus_matrix,
    operational_space_inertia,
)
from artix.kinematics.contact_points import Contacts

__all__ = [
    "AnchorRows",
    "ConstrainedAcceleration",
    "ConstrainedForces",
    "ConstrainedForwardDynamicsDerivatives",
    "Constraint",
    "ConstraintDerivatives",
    "Constraints",
    "ContactForces",
    "ContactProblem",
    "ContactSolution",
    "Contacts",
    "Impact",
    "ImpactDerivatives",
    "KktSolution",
    "constrained_forward_dynamics",
    "constrained_forward_dynamics_derivatives",
    "constrained_inverse_dynamics",
    "constrained_solve",
    "constraint_bias",
    "constraint_derivatives",
    "constraint_jacobian",
    "constraint_kinematics",
    "contact_forces",
    "contact_problem",
    "delassus_matrix",
    "impulse_dynamics",
    "impulse_dynamics_derivatives",
    "operational_space_inertia",
    "solve_contact",
]
