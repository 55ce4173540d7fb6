"""Solvers of a step that rooms above provide: what they offer, and how :func:`artix.step` finds
them by name.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import jax

from artix.contact.ground import Ground
from artix.model.articulation import Articulation, State
from artix.simulation.common.control import Control
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.report import StepReport

Array = jax.Array

#: The modules that register these solvers when they are imported. They live in a room above, which
#: this one cannot import, and are imported when the first step asks for them.
HOMES = {"pgs": "artix.physx.solver.step", "tgs": "artix.physx.solver.step"}


class Memory(Protocol):
    """The class of what a solver remembers of its contacts from step to step."""

    @classmethod
    def none(cls, articulation: Articulation, ground: Ground) -> Any:
        """The memory for a first step."""
        ...


class Solver(Protocol):
    """A solver for one articulation."""

    @property
    def memory(self) -> type[Memory]:
        """The class of its memory of contacts."""
        ...

    def check(self, articulation: Articulation, ground: Ground, options: SolverOptions) -> None:
        """Raises ``ValueError`` for contacts that it does not support, before the step is
        traced.
        """
        ...

    def step(
        self,
        articulation: Articulation,
        state: State,
        memory: Any,
        control: Control,
        dt: Array,
        options: SolverOptions,
        ground: Ground | None,
    ) -> tuple[State, Any, StepReport]:
        """One substep with checked arguments: the state after it, the memory if there was one, and
        the report.
        """
        ...


_solvers: dict[str, Solver] = {}


def register_solver(name: str, solver: Solver) -> None:
    """Makes a solver available to :func:`artix.step` under a name of :data:`HOMES`."""
    _solvers[name] = solver


def solver_of(name: str) -> Solver:
    """The solver with a name of :data:`HOMES`."""
    if name not in _solvers:
        importlib.import_module(HOMES[name])
    return _solvers[name]
