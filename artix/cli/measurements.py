"""The quantities that ``artix demo`` compiles and times for a whole fleet."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

import artix

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Quantity:
    """One function of the library as the demonstration shows it.

    Attributes:
      name: how to print it.
      function: a function of one articulation, its state and, if ``accelerated``, a generalised acceleration.
      group: the group that it belongs to.
      accelerated: whether the function takes an acceleration.
    """

    name: str
    function: Callable[..., Any]
    group: str
    accelerated: bool = False

    def arguments(self, state: artix.State, acceleration: Array) -> tuple[Any, ...]:
        """The function's arguments for the whole fleet, besides the articulations."""
        return (state, acceleration) if self.accelerated else (state,)


@dataclasses.dataclass(frozen=True)
class Program:
    """A quantity compiled for the whole fleet, and the time that took."""

    quantity: Quantity
    evaluate: Callable[..., Any]
    compile_seconds: float


def energies(articulation: artix.Articulation, state: artix.State) -> tuple[Array, Array]:
    """Kinetic and potential energy."""
    return artix.kinetic_energy(articulation, state), artix.potential_energy(articulation, state)


def potential_energy_slope(articulation: artix.Articulation, state: artix.State) -> Array:
    """Derivative of the potential energy with respect to the joint positions, by autodiff, shape [n]."""

    def energy(joint_position: Array) -> Array:
        return artix.potential_energy(articulation, dataclasses.replace(state, joint_position=joint_position))

    return jax.grad(energy)(state.joint_position)


QUANTITIES = (
    Quantity("link poses, velocities", artix.forward_kinematics, "kinematics"),
    Quantity("dense Jacobian", artix.dense_jacobian, "kinematics"),
    Quantity("mass matrix", artix.mass_matrix, "dynamics"),
    Quantity("gravity compensation", artix.gravity_compensation, "dynamics"),
    Quantity("Coriolis compensation", artix.coriolis_compensation, "dynamics"),
    Quantity("bias force", artix.bias_force, "dynamics"),
    Quantity("inverse dynamics", artix.inverse_dynamics, "dynamics", accelerated=True),
    Quantity("center of mass", artix.center_of_mass, "momentum"),
    Quantity("centroidal matrix, bias", artix.centroidal_momentum_matrix, "momentum"),
    Quantity("centroidal momentum", artix.centroidal_momentum, "momentum"),
    Quantity("kinetic, potential energy", energies, "energy"),
    Quantity("gradient of the potential", potential_energy_slope, "energy"),
)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A quantity evaluated for the whole fleet.

    Attributes:
      quantity: what was evaluated.
      value: the result, leading axis N.
      seconds: time of one evaluation of the whole fleet, the median of several.
      compile_seconds: time of the first call, which traces and compiles it, two quantities at a time.
    """

    quantity: Quantity
    value: Any
    seconds: float
    compile_seconds: float

    @property
    def shape(self) -> str:
        """Shapes of the results, the members' axis included."""
        leaves = jax.tree.leaves(self.value)
        return " ".join("[" + ", ".join(map(str, leaf.shape)) + "]" for leaf in leaves)


def compile_all(fleet: artix.Fleet, state: artix.State, acceleration: Array) -> list[Program]:
    """Compiles every quantity for the whole fleet, two at a time, and prints progress."""

    def compiled(quantity: Quantity) -> Program:
        begin = time.perf_counter()
        evaluate = functools.partial(fleet.evaluate, quantity.function)
        jax.block_until_ready(evaluate(*quantity.arguments(state, acceleration)))
        return Program(quantity, evaluate, time.perf_counter() - begin)

    programs = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for number, program in enumerate(pool.map(compiled, QUANTITIES), start=1):
            programs.append(program)
            name, seconds = program.quantity.name, program.compile_seconds
            print(f"  {number:2d}/{len(QUANTITIES)}  {name:<25} compiled in {seconds:5.2f} s", flush=True)
    return programs


def measure(program: Program, state: artix.State, acceleration: Array) -> Measurement:
    """Evaluates a compiled quantity several times to time it."""
    arguments = program.quantity.arguments(state, acceleration)

    def timed() -> tuple[Any, float]:
        begin = time.perf_counter()
        value = jax.block_until_ready(program.evaluate(*arguments))
        return value, time.perf_counter() - begin

    timed()
    value, seconds = timed()
    repeats = [seconds] + [timed()[1] for _ in range(min(9, max(2, math.ceil(0.2 / seconds))))]
    return Measurement(program.quantity, value, float(np.median(repeats)), program.compile_seconds)
