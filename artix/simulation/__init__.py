"""Steps in time: artix's own step in ``implicit`` and ``continuous``, and other solvers by name."""

from typing import TYPE_CHECKING

from artix.math.deprecated import old_names
from artix.simulation.common.control import Control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import (
    ContactReport,
    LinkContactReport,
    Residual,
    RolloutReport,
    SceneReport,
    StepReport,
)
from artix.simulation.continuous import vector_field
from artix.simulation.rollout import remember_contacts, rollout
from artix.simulation.step import step, step_and_report

__all__ = [
    "ContactReport",
    "Control",
    "LinkContactReport",
    "Residual",
    "RolloutReport",
    "SceneReport",
    "SolverOptions",
    "StepReport",
    "remember_contacts",
    "rollout",
    "step",
    "step_and_report",
    "vector_field",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
