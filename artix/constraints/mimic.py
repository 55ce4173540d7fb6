"""The impulses of mimic joints."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.constraints.sweep import Sweep
from artix.couplings import MimicJoints

Array = jax.Array


class MimicRow(NamedTuple):
    """One mimic joint (or all, with a leading axis [K])."""

    mimic: MimicJoints
    direction: Array
    """The generalised force of a unit impulse: 1 at the follower, the gear ratio at the reference, [nv]."""
    effect: Array
    """The change of the generalised velocity by a unit impulse, [nv]."""
    response: Array
    """Change of the relation's rate by a unit impulse."""
    error: Array
    """``q_follower + gear_ratio q_reference + offset`` at the start of the step."""


def mimic_rows(mimic: MimicJoints, dofs: Array, base: int, joint_position: Array, inverse_mass: Array) -> MimicRow:
    """The rows of all mimic joints, ``dofs`` [K, 2] being their followers and references."""
    nv = inverse_mass.shape[0]
    follower, reference = (jax.nn.one_hot(base + dofs[:, k], nv, dtype=inverse_mass.dtype) for k in (0, 1))
    direction = follower + mimic.gear_ratio[:, None] * reference
    effect = jnp.matmul(direction, inverse_mass, precision=jax.lax.Precision.HIGHEST)
    error = joint_position[dofs[:, 0]] + mimic.gear_ratio * joint_position[dofs[:, 1]] + mimic.offset
    return MimicRow(mimic, direction, effect, jnp.sum(direction * effect, axis=1), error)


def mimic_impulse(row: MimicRow, rate: Array, error: Array, sweep: Sweep) -> Array:
    """The impulse that one sweep adds; it is not accumulated.

    A hard relation is corrected by a part of its error, a compliant one moves as a spring and damper of the given
    natural frequency and damping ratio would. In velocity sweeps both hold the rate at zero.

    Args:
      row: the mimic joint.
      rate: ``qd_follower + gear_ratio qd_reference``.
      error: ``q_follower + gear_ratio q_reference + offset``.
      sweep: the sweep.
    """
    if not sweep.moves_positions:
        return -rate / row.response
    h, frequency = sweep.h, row.mimic.natural_frequency
    compliant = (frequency > 0) & (row.mimic.damping_ratio > 0)
    stiffness = frequency**2 / row.response
    damping = 2 * row.mimic.damping_ratio * frequency / row.response
    gain = jnp.where(compliant, h * stiffness + damping, 1)
    softness = jnp.where(compliant, 1 / (h * gain), 0)
    part = jnp.where(compliant, h * stiffness / gain, sweep.error_reduction)
    return -(part * error / h + rate) / (row.response + softness)
