"""Trajectories of least cost and model-predictive control."""

from typing import TYPE_CHECKING

from artix.math.deprecated import old_names as _old_names
from artix.optimal_control.actuators import Actuator as Actuator
from artix.optimal_control.actuators import MotorLag as MotorLag
from artix.optimal_control.actuators import SeriesElasticity as SeriesElasticity
from artix.optimal_control.approximation import FreeStart as FreeStart
from artix.optimal_control.approximation import LinearQuadratic as LinearQuadratic
from artix.optimal_control.approximation import approximate as approximate
from artix.optimal_control.constrained import ConstrainedSolution as ConstrainedSolution
from artix.optimal_control.constrained import Multipliers as Multipliers
from artix.optimal_control.constrained import solve_constrained as solve_constrained
from artix.optimal_control.dynamics import DiscreteDynamics as DiscreteDynamics
from artix.optimal_control.dynamics import TangentLinearization as TangentLinearization
from artix.optimal_control.dynamics import discrete_dynamics as discrete_dynamics
from artix.optimal_control.ilqr import Iterations as Iterations
from artix.optimal_control.ilqr import Solution as Solution
from artix.optimal_control.problem import Knot as Knot
from artix.optimal_control.problem import Problem as Problem
from artix.optimal_control.problem import rollout as rollout
from artix.optimal_control.problem import total_cost as total_cost
from artix.optimal_control.recursions import Policy as Policy
from artix.optimal_control.recursions import follow as follow
from artix.optimal_control.recursions import parallel_riccati as parallel_riccati
from artix.optimal_control.recursions import riccati as riccati
from artix.optimal_control.residuals import center_of_mass as center_of_mass
from artix.optimal_control.residuals import centroidal_momentum as centroidal_momentum
from artix.optimal_control.residuals import frame_pose as frame_pose
from artix.optimal_control.residuals import frame_position as frame_position
from artix.optimal_control.residuals import friction_cone as friction_cone
from artix.optimal_control.residuals import posture as posture
from artix.optimal_control.residuals import violation as violation
from artix.optimal_control.residuals import wrench_cone as wrench_cone
from artix.optimal_control.sampling import cross_entropy as cross_entropy
from artix.optimal_control.sampling import mppi as mppi
from artix.optimal_control.schedule import ContactSchedule as ContactSchedule
from artix.optimal_control.schedule import gait as gait
from artix.optimal_control.solver import solve as solve
from artix.optimal_control.transcription import InteriorPointSolution as InteriorPointSolution
from artix.optimal_control.transcription import QuadraticStep as QuadraticStep
from artix.optimal_control.transcription import solve_by_ipopt as solve_by_ipopt
from artix.optimal_control.transcription import (
    step_by_quadratic_program as step_by_quadratic_program,
)

if not TYPE_CHECKING:
    __getattr__ = _old_names(__name__)
