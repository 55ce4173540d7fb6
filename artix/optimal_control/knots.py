"""One step of an articulation on flat vectors, and its closed-form derivatives; each is one
kernel.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.math.arrays import matmul
from artix.model.checks import as_array

Array = jax.Array
#: Proximal iterations on the Delassus matrix: forces are then as exact as the dtype.
ITERATIONS = 2


def pack(articulation: artix.Articulation, state: artix.State) -> Array:
    """A state as a flat vector, [nx]."""
    root = [state.root_pose] if articulation.topology.num_base_dofs else []
    return jnp.concatenate(
        [*root, state.joint_position, artix.generalized_velocity(articulation, state)]
    )


def unpack(articulation: artix.Articulation, x: Array) -> artix.State:
    """The state of a flat vector."""
    tree = articulation.topology
    base, n = tree.num_base_dofs, tree.num_dofs
    length = (7 if base else 0) + n + tree.nv
    x = as_array("x", x, (length,), articulation.dtype, "configuration and generalised velocity")
    if not base:
        neutral = artix.neutral_state(articulation)
        return neutral.replace(joint_position=x[:n], joint_velocity=x[n:])
    return artix.State(x[:7], x[7 + n : 13 + n], x[7 : 7 + n], x[13 + n :])


def split(articulation: artix.Articulation, x: Array) -> tuple[Array, Array]:
    """The robot's part of a flat state, and the actuators'."""
    tree = articulation.topology
    size = (7 if tree.num_base_dofs else 0) + tree.num_dofs + tree.nv
    return x[:size], x[size:]


def num_deviations(articulation: artix.Articulation, x: Array) -> int:
    """Length ndx of deviations from a flat state."""
    return 2 * articulation.topology.nv + len(split(articulation, x)[1])


@artix.quantity
def deviate(articulation: artix.Articulation, x: Array, deviation: Array) -> Array:
    """A flat state moved by a deviation of configuration, velocity and actuators, [nx]."""
    nv, (body, motors) = articulation.topology.nv, split(articulation, x)
    size = num_deviations(articulation, x)
    deviation = as_array(
        "deviation", deviation, (size,), articulation.dtype, "of configuration and velocity"
    )
    moved = pack(
        articulation, artix.integrate(articulation, unpack(articulation, body), deviation[:nv])
    )
    moved = moved.at[-nv:].set(body[-nv:] + deviation[nv : 2 * nv])
    return jnp.concatenate([moved, motors + deviation[2 * nv :]])


@artix.quantity
def deviation_between(articulation: artix.Articulation, nominal: Array, x: Array) -> Array:
    """The deviation that takes one flat state to another, [ndx]."""
    nv, start, end = articulation.topology.nv, split(articulation, nominal), split(articulation, x)
    states = unpack(articulation, start[0]), unpack(articulation, end[0])
    faster = end[0][-nv:] - start[0][-nv:]
    return jnp.concatenate([artix.difference(articulation, *states), faster, end[1] - start[1]])


@artix.quantity
def advance(
    articulation: artix.Articulation,
    constraints: artix.Constraints | None,
    damping: Array | None,
    x: Array,
    control: Array,
    dt: Array | None,
    actuated: tuple[int, ...],
) -> tuple[Array, Array]:
    """A step of smooth or scheduled dynamics, [nx], and the forces on the schedule's rows, [R]."""
    joint_force, length = (control[:-1], control[-1]) if dt is None else (control, dt)
    state, force = unpack(articulation, x), generalized_force(articulation, joint_force, actuated)

    def accelerated(state: artix.State) -> tuple[Array, Array]:
        if constraints is None:
            return artix.forward_dynamics(articulation, state, force), jnp.zeros(0, x.dtype)
        return artix.constrained_forward_dynamics(
            articulation, state, force, constraints, damping=damping, iterations=ITERATIONS
        )[:2]

    acceleration, contact_force = accelerated(state)
    if dt is not None:
        return _moved(articulation, state, acceleration, dt), contact_force
    middle = _moved_evenly(articulation, state, acceleration, 0.5 * length)
    acceleration, contact_force = accelerated(unpack(articulation, middle))
    return _moved_evenly(articulation, state, acceleration, length), contact_force


@artix.quantity
def linearized(
    articulation: artix.Articulation,
    constraints: artix.Constraints | None,
    damping: Array | None,
    x: Array,
    control: Array,
    dt: Array,
    actuated: tuple[int, ...],
) -> tuple[Array, Array, Array, Array, Array]:
    """A step [nx], A, B, the forces on the schedule's rows [R] and their derivatives with respect
    to deviation and control.
    """
    nv, columns = (
        articulation.topology.nv,
        np.asarray(actuated) + articulation.topology.num_base_dofs,
    )
    state, force = unpack(articulation, x), generalized_force(articulation, control, actuated)
    if constraints is None:
        acceleration = artix.forward_dynamics(articulation, state, force)
        by = artix.forward_dynamics_derivatives(articulation, state, force)
        contact_force, contact_force_matrix = (
            jnp.zeros(0, x.dtype),
            jnp.zeros((0, 2 * nv + len(actuated)), x.dtype),
        )
    else:
        options: Any = {"damping": damping, "iterations": ITERATIONS}
        acceleration, contact_force, _ = artix.constrained_forward_dynamics(
            articulation, state, force, constraints, **options
        )
        derivatives = artix.constrained_forward_dynamics_derivatives(
            articulation, state, force, constraints, **options
        )
        by, contact_force_by = derivatives.acceleration, derivatives.constraint_force
        contact_force_matrix = jnp.concatenate(
            [
                contact_force_by.configuration,
                contact_force_by.velocity,
                contact_force_by.force[:, columns],
            ],
            axis=1,
        )
    velocity = x[-nv:] + dt * acceleration
    by_start, by_displacement = artix.integrate_derivatives(articulation, state, dt * velocity)
    unit = jnp.eye(nv, dtype=x.dtype)
    lower = jnp.concatenate(
        [dt * by.configuration, unit + dt * by.velocity, dt * by.force[:, columns]], axis=1
    )
    upper = dt * matmul(by_displacement, lower)
    matrix = jnp.concatenate([upper.at[:, :nv].add(by_start), lower])
    end = _moved(articulation, state, acceleration, dt)
    return end, matrix[:, : 2 * nv], matrix[:, 2 * nv :], contact_force, contact_force_matrix


def simulated(
    articulation: artix.Articulation,
    x: Array,
    control: Array,
    dt: Array,
    actuated: tuple[int, ...],
    options: artix.SolverOptions,
    ground: artix.Ground | None,
) -> Array:
    """A step of :func:`artix.step` under joint forces, [nx]."""
    base = articulation.topology.num_base_dofs
    force = generalized_force(articulation, control, actuated)[base:]
    state = artix.step(
        artix.Scene(articulation, ground=ground),
        unpack(articulation, x),
        artix.Control(joint_force=force),
        dt,
        options,
    )
    return pack(articulation, state)


def generalized_force(
    articulation: artix.Articulation, control: Array, actuated: tuple[int, ...]
) -> Array:
    """The generalised force of a control, [nv]."""
    control = as_array(
        "control", control, (len(actuated),), articulation.dtype, "a force for each actuated DOF"
    )
    tree = articulation.topology
    if actuated == tuple(range(tree.num_dofs)):
        return jnp.pad(control, (tree.num_base_dofs, 0))
    return (
        jnp.zeros(tree.nv, control.dtype).at[np.asarray(actuated) + tree.num_base_dofs].set(control)
    )


def _moved(
    articulation: artix.Articulation, state: artix.State, acceleration: Array, dt: Array
) -> Array:
    """Semi-implicit Euler: the velocity moves, then the configuration along it."""
    velocity = artix.generalized_velocity(articulation, state) + dt * acceleration
    moved = artix.with_generalized_velocity(articulation, state, velocity)
    return pack(articulation, artix.integrate(articulation, moved, dt * velocity))


def _moved_evenly(
    articulation: artix.Articulation, state: artix.State, acceleration: Array, length: Array
) -> Array:
    """A motion of constant acceleration, whose mean velocity is that at its middle."""
    velocity = artix.generalized_velocity(articulation, state)
    moved = artix.with_generalized_velocity(articulation, state, velocity + length * acceleration)
    shift = length * (velocity + 0.5 * length * acceleration)
    return pack(articulation, artix.integrate(articulation, moved, shift))
