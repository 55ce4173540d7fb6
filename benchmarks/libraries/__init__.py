"""A common interface to the libraries: the same states for all, and one function of one robot per
quantity."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.fleet import FleetReference
from benchmarks.libraries.base import Library
from benchmarks.reference import Reference, States
from benchmarks.robots import Robot

#: name in the tables: module and class
LIBRARIES = {
    "artix": "artix:Artix",
    "frax": "frax:Frax",
    "MJX": "mjx:Mjx",
    "Brax": "brax:Brax",
    "jaxsim": "jaxsim:Jaxsim",
    "adam": "adam:Adam",
    "Pinocchio (Python)": "pinocchio_python:PinocchioPython",
    "Pinocchio (C++)": "pinocchio_cpp:PinocchioCpp",
    "Pinocchio (generated)": "pinocchio_cpp:PinocchioGenerated",
}

#: The libraries that are compiled by XLA, artix left out.
JAX_PEERS = ("frax", "MJX", "Brax", "jaxsim", "adam")


def load(name: str, robot: Robot, batch: int, memory_limit: float) -> tuple[Library, Any, Any]:
    """A robot in a library, with its states and its reference.

    Args:
      name: one of ``LIBRARIES``.
      robot: the robot.
      batch: number of states.
      memory_limit: bytes that a program of a JAX library may need.

    Raises:
      NotImplementedError: the library has no mixed fleets.
      ImportError: the library, or a part of it, is not installed.
      Exception: whatever the library raises when it reads the robot.
    """
    reference: Reference | FleetReference
    states: States | tuple[States, ...]
    if robot.members:
        if name != "artix":
            raise NotImplementedError("one topology in a program")
        reference, where = FleetReference(robot), "artix_fleet:ArtixFleet"
    else:
        reference, where = Reference(robot), LIBRARIES[name]
    module, _, kind = where.partition(":")
    library = getattr(importlib.import_module(f"benchmarks.libraries.{module}"), kind)(
        robot, reference
    )
    states = reference.random_states(batch)
    library.hold(states)
    library.memory_limit = memory_limit
    return library, reference, states
