"""The linear system of the implicit solver: what springs, dampers and hard relations leave of the velocity."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.constraints.frozen import HIGHEST, Frozen, inverse_with
from artix.constraints.hard_rows import HardRows, hard_rows
from artix.constraints.loop_closures import LoopClosures
from artix.constraints.rows import Commands, position_error
from artix.constraints.springs import Springs, spring_efforts
from artix.dynamics.factorization import inverse_of_matrix

Array = jax.Array

#: Part of a position error that a hard mimic joint or a limit corrects in one step (Baumgarte); PhysX's too.
ERROR_REDUCTION = 0.8


class ImplicitSystem(NamedTuple):
    """The velocity that springs and dampers leave, how impulses change it, and the hard relations."""

    velocity: Array
    """[nv], before the hard relations act."""
    response: Array
    """Change of the generalised velocity [nv] per generalised impulse [nv], without the hard relations."""
    drive_gain: Array
    """Impulse that each drive takes back per velocity, [n]."""
    drive_push: Array
    """Impulse of each drive at zero velocity, [n]."""
    hard: HardRows | None
    """The hard relations; ``None`` if there can be none."""


def implicit_system(
    articulation: Articulation,
    state: State,
    frozen: Frozen,
    commands: Commands,
    springs: list[Springs],
    loops: LoopClosures | None,
    velocity: Array,
    force: Array,
    dt: Array,
    smooth_friction: float,
) -> ImplicitSystem:
    """Solves ``(Mh + dt D + dt^2 K) (nu' - nu) = dt (force + forces of springs and dampers at nu)``."""
    topology, drive, base = frozen.topology, articulation.drive, frozen.topology.num_base_dofs
    inertia = _drive_inertia(articulation, frozen)
    error = position_error(topology, state.joint_position, commands.target_position)
    gain = dt * inertia * (dt * drive.stiffness + drive.damping)
    push = dt * inertia * (drive.stiffness * error + drive.damping * commands.target_velocity)
    diagonal = gain + dt * _friction_gain(articulation, state.joint_velocity, smooth_friction)
    matrix, stiffening = frozen.mass_matrix, frozen.diagonal + jnp.pad(diagonal, (base, 0))
    impulse = dt * force + jnp.pad(push - diagonal * velocity[base:], (base, 0))
    for group in springs:
        impulse = impulse - dt * jnp.matmul(spring_efforts(group, velocity, dt), group.force, precision=HIGHEST)
        stiffened = dt * (dt * group.stiffness + group.damping)
        matrix = matrix + jnp.einsum("s,sv,sw->vw", stiffened, group.force, group.rate, precision=HIGHEST)
    if any(group.transmitted is not None for group in springs):  # PhysX's fixed tendons: the matrix is not symmetric.
        response = jnp.linalg.inv(matrix + jnp.diag(stiffening))
    elif springs:
        response = inverse_of_matrix(matrix, stiffening)
    else:  # It has the pattern of the mass matrix.
        response = inverse_with(frozen, stiffening)
    hard = hard_rows(articulation, state, frozen, loops, response, dt, ERROR_REDUCTION)
    free = velocity + jnp.matmul(response, impulse, precision=HIGHEST)
    return ImplicitSystem(free, response, gain, push, hard)


def _friction_gain(articulation: Articulation, velocity: Array, smooth_friction: float) -> Array:
    """The force of viscous and of smooth dry friction per velocity, [n]."""
    friction = articulation.friction
    if not smooth_friction:
        return friction.viscous
    # With the speed at the start of the step, the force at its end is linear in the velocity there.
    return friction.viscous + friction.dynamic / jnp.sqrt(velocity**2 + smooth_friction**2)


def _drive_inertia(articulation: Articulation, frozen: Frozen) -> Array:
    """The inertias by which acceleration drives multiply their efforts, 1 for force drives, [n]."""
    base, accelerates = frozen.topology.num_base_dofs, articulation.drive.is_acceleration > 0

    def felt(inverse: Array) -> Array:
        return jnp.where(accelerates, 1 / jnp.diagonal(inverse)[base:], 1)

    if len(frozen.topology.mimic_dofs):  # Their springs need the inverse anyway.
        return felt(frozen.inverse_mass)
    # Robots without acceleration drives save the inverse.
    return jax.lax.cond(
        jnp.any(accelerates),
        lambda diagonal: felt(inverse_with(frozen, diagonal)),
        lambda diagonal: jnp.ones_like(diagonal, shape=accelerates.shape),
        frozen.diagonal,
    )
