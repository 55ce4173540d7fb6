"""The quantities that ``artix demo`` compiles and times for a whole fleet."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

import artix

Array = jax.Array


class Quantity(NamedTuple):
    """A function of one robot, its state and, if ``accelerated``, a generalised acceleration."""

    name: str
    function: Callable[..., Any]
    group: str
    accelerated: bool = False


class Measurement(NamedTuple):
    """A quantity evaluated for the whole fleet, with the times of a usual and of the first call [s]."""

    quantity: Quantity
    value: Any
    seconds: float
    compile_seconds: float

    @property
    def shape(self) -> str:
        """Shapes of the results, the members' axis included."""
        return " ".join("[" + ", ".join(map(str, leaf.shape)) + "]" for leaf in jax.tree.leaves(self.value))


def energies(articulation: artix.Articulation, state: artix.State) -> tuple[Array, Array]:
    """Kinetic and potential energy."""
    return artix.kinetic_energy(articulation, state), artix.potential_energy(articulation, state)


def potential_energy_slope(articulation: artix.Articulation, state: artix.State) -> Array:
    """Derivative of the potential energy by the joint positions, by autodiff, shape [n]."""

    def energy(position: Array) -> Array:
        return artix.potential_energy(articulation, state.replace(joint_position=position))

    return jax.grad(energy)(state.joint_position)


QUANTITIES = (
    Quantity("link poses, velocities", artix.forward_kinematics, "kinematics"),
    Quantity("dense Jacobian", artix.physx.dense_jacobian, "kinematics"),
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


def measured(fleet: artix.Fleet, state: artix.State, acceleration: Array) -> list[Measurement]:
    """Compiles every quantity for the whole fleet, two at a time, and then times each."""

    def timed(quantity: Quantity) -> tuple[Any, float]:
        begin = time.perf_counter()
        arguments = (state, acceleration) if quantity.accelerated else (state,)
        value = jax.block_until_ready(fleet.evaluate(quantity.function, *arguments))
        return value, time.perf_counter() - begin

    first = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for number, (quantity, (_, seconds)) in enumerate(zip(QUANTITIES, pool.map(timed, QUANTITIES), strict=True)):
            print(f"  {number + 1:2d}/{len(QUANTITIES)}  {quantity.name:<25} compiled in {seconds:5.2f} s", flush=True)
            first.append(seconds)
    results = []
    for quantity, compile_seconds in zip(QUANTITIES, first, strict=True):
        value, seconds = timed(quantity)
        repeats = min(10, max(3, math.ceil(0.2 / seconds)))
        seconds = float(np.median([timed(quantity)[1] for _ in range(repeats)]))
        results.append(Measurement(quantity, value, seconds, compile_seconds))
    return results
