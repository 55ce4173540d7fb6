"""Steps in time: artix's own step in ``implicit`` and ``continuous``, and other solvers by name."""

from typing import TYPE_CHECKING

from artix.math.deprecated import old_names
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import ContactReport, LinkContactReport, Residual, RolloutReport, StepReport
from artix.simulation.continuous import vector_field
from artix.simulation.rollout import rollout, scene_rollout, settled_contact_memory
from artix.simulation.scene import (
    SceneReport,
    scene_step,
    scene_step_and_report,
    scene_step_with_contact_memory,
)
from artix.simulation.step import step, step_and_report, step_with_contact_memory

__all__ = [
    "ContactMemory",
    "ContactReport",
    "Control",
    "LinkContactReport",
    "Residual",
    "RolloutReport",
    "SceneReport",
    "SolverOptions",
    "StepReport",
    "rollout",
    "scene_rollout",
    "scene_step",
    "scene_step_and_report",
    "scene_step_with_contact_memory",
    "settled_contact_memory",
    "step",
    "step_and_report",
    "step_with_contact_memory",
    "vector_field",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
