"""Steps in time: artix's own step in ``implicit`` and ``continuous``, and other solvers by name."""

from typing import TYPE_CHECKING

from artix.math.deprecated import exports as _exports
from artix.simulation.common.control import Control as Control
from artix.simulation.common.options import SolverOptions as SolverOptions
from artix.simulation.common.report import ContactReport as ContactReport
from artix.simulation.common.report import LinkContactReport as LinkContactReport
from artix.simulation.common.report import Residual as Residual
from artix.simulation.common.report import RolloutReport as RolloutReport
from artix.simulation.common.report import SceneReport as SceneReport
from artix.simulation.common.report import StepReport as StepReport
from artix.simulation.continuous import vector_field as vector_field
from artix.simulation.rollout import remember_contacts as remember_contacts
from artix.simulation.rollout import rollout as rollout
from artix.simulation.step import step as step
from artix.simulation.step import step_and_report as step_and_report

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
