"""Constraints and contacts: their rows, their linear algebra, and the dynamics under them."""

from typing import TYPE_CHECKING

from artix.constraints.contacts import ContactForces as ContactForces
from artix.constraints.contacts import ContactProblem as ContactProblem
from artix.constraints.contacts import ContactSolution as ContactSolution
from artix.constraints.contacts import contact_forces as contact_forces
from artix.constraints.contacts import contact_problem as contact_problem
from artix.constraints.contacts import solve_contact as solve_contact
from artix.constraints.dynamics import ConstrainedAcceleration as ConstrainedAcceleration
from artix.constraints.dynamics import ConstrainedForces as ConstrainedForces
from artix.constraints.dynamics import Impact as Impact
from artix.constraints.dynamics import constrained_forward_dynamics as constrained_forward_dynamics
from artix.constraints.dynamics import constrained_inverse_dynamics as constrained_inverse_dynamics
from artix.constraints.dynamics import impulse_dynamics as impulse_dynamics
from artix.constraints.dynamics_derivatives import (
    ConstrainedForwardDynamicsDerivatives as ConstrainedForwardDynamicsDerivatives,
)
from artix.constraints.dynamics_derivatives import ConstraintDerivatives as ConstraintDerivatives
from artix.constraints.dynamics_derivatives import ImpactDerivatives as ImpactDerivatives
from artix.constraints.dynamics_derivatives import (
    constrained_forward_dynamics_derivatives as constrained_forward_dynamics_derivatives,
)
from artix.constraints.dynamics_derivatives import constraint_derivatives as constraint_derivatives
from artix.constraints.dynamics_derivatives import (
    impulse_dynamics_derivatives as impulse_dynamics_derivatives,
)
from artix.constraints.frame_pairs import AnchorRows as AnchorRows
from artix.constraints.model import Constraint as Constraint
from artix.constraints.model import Constraints as Constraints
from artix.constraints.operators import KktSolution as KktSolution
from artix.constraints.operators import constrained_solve as constrained_solve
from artix.constraints.operators import constraint_bias as constraint_bias
from artix.constraints.operators import constraint_jacobian as constraint_jacobian
from artix.constraints.operators import constraint_kinematics as constraint_kinematics
from artix.constraints.operators import delassus_matrix as delassus_matrix
from artix.constraints.operators import operational_space_inertia as operational_space_inertia
from artix.kinematics.contact_points import Contacts as Contacts
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
