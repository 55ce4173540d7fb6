"""The impulses of mimic joints."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import matmul
from artix.model.couplings import MimicJoints
from artix.model.topology import Topology
from artix.simulation.common.step_start import StepStart
from artix.simulation.common.sweep import Sweep

Array = jax.Array


class MimicRow(NamedTuple):
    """One mimic joint (or all, with a leading axis [K])."""

    mimic: MimicJoints
    direction: Array
    """Generalised force of a unit impulse: 1 at the follower, the gear ratio at the reference, [nv]."""
    effect: Array
    """Change of the generalised velocity per unit impulse, [nv]."""
    response: Array
    """Change of the relation's rate per unit impulse."""
    error: Array
    """``q_follower + gear_ratio q_reference + offset`` at the start of the step."""


def mimic_directions(mimic: MimicJoints, topology: Topology) -> Array:
    """The generalised forces of unit impulses of all mimic joints, and the rates of their relations, [K, nv]."""
    entries = topology.num_base_dofs + jnp.asarray(topology.mimic_dofs)
    ends = jax.nn.one_hot(entries, topology.nv, dtype=mimic.gear_ratio.dtype)
    return ends[:, 0] + mimic.gear_ratio[:, None] * ends[:, 1]


def mimic_errors(mimic: MimicJoints, topology: Topology, joint_position: Array) -> Array:
    """``q_follower + gear_ratio q_reference + offset`` of all mimic joints, [K]."""
    joints = mimic_directions(mimic, topology)[:, topology.num_base_dofs :]
    return matmul(joints, joint_position) + mimic.offset


def mimic_rows(mimic: MimicJoints, at_start: StepStart, joint_position: Array) -> MimicRow:
    """The rows of all mimic joints."""
    direction = mimic_directions(mimic, at_start.topology)
    effect = matmul(direction, at_start.inverse_mass)
    error = mimic_errors(mimic, at_start.topology, joint_position)
    return MimicRow(mimic, direction, effect, jnp.sum(direction * effect, axis=1), error)


def mimic_impulse(row: MimicRow, rate: Array, error: Array, sweep: Sweep) -> Array:
    """The impulse that one sweep adds; it is not accumulated.

    A sweep corrects a fraction of a hard relation's error. A compliant relation acts like a spring and damper with the
    given natural frequency and damping ratio. In velocity sweeps both keep the rate at zero.

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
