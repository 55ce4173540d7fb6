"""Steps in time: ``step`` calls one of the solvers in ``implicit``, ``projected`` and ``continuous``."""

from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control
from artix.simulation.common.joint_drift import with_joint_drift
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import ContactReport, LinkContactReport, Residual, RolloutReport, StepReport
from artix.simulation.continuous import vector_field
from artix.simulation.joint_drift import step_with_joint_drift
from artix.simulation.projected.friction_anchors import FrictionAnchors
from artix.simulation.rollout import rollout, scene_rollout, settled_contact_memory
from artix.simulation.scene import (
    SceneReport,
    scene_step,
    scene_step_and_report,
    scene_step_with_contact_memory,
)
from artix.simulation.sleeping import SleepState, is_sleeping, put_to_sleep, step_with_sleep, wake_up
from artix.simulation.step import step, step_and_report, step_with_contact_memory

__all__ = [
    "ContactMemory",
    "ContactReport",
    "Control",
    "FrictionAnchors",
    "LinkContactReport",
    "Residual",
    "RolloutReport",
    "SceneReport",
    "SleepState",
    "SolverOptions",
    "StepReport",
    "is_sleeping",
    "put_to_sleep",
    "rollout",
    "scene_rollout",
    "scene_step",
    "scene_step_and_report",
    "scene_step_with_contact_memory",
    "settled_contact_memory",
    "step",
    "step_and_report",
    "step_with_contact_memory",
    "step_with_joint_drift",
    "step_with_sleep",
    "vector_field",
    "wake_up",
    "with_joint_drift",
]
