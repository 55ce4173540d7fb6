"""Commands to the joints, and position errors."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.kinematics.tree import by_body, where_spherical
from artix.math import spatial
from artix.model.articulation import Articulation
from artix.model.padded_topology import Tree
from artix.simulation.common.joint_drift import drift_by_body
from artix.simulation.common.options import Control

Array = jax.Array


class Commands(NamedTuple):
    """Commands to the joints during a step, [n] each."""

    joint_force: Array
    """Commanded forces within their limits [N m or N]."""
    target_position: Array
    """Position targets of the drives [rad or m]."""
    target_velocity: Array
    """Velocity targets of the drives [rad/s or m/s]."""


def commands_of(articulation: Articulation, control: Control) -> Commands:
    """The commands of a control: forces clipped to their limits, and targets."""
    drive, limit = articulation.drive, articulation.max_joint_force
    force = jnp.zeros_like(limit) if control.joint_force is None else control.joint_force
    target, velocity = control.drive_target, control.drive_target_velocity
    return Commands(
        joint_force=jnp.clip(force, -limit, limit),
        target_position=drive.target_position if target is None else target,
        target_velocity=drive.target_velocity if velocity is None else velocity,
    )


def position_error(topology: Tree, position: Array, target: Array, drift: Array | None = None) -> Array:
    """Target minus position, [n]; for spherical joints with several axes, twice the vector part of the rotation left.

    A ``drift`` [L, 3] of the joint frames is part of the rotation, not of its target.
    """
    error = target - position
    if not topology.has_spherical:
        return error
    wanted, now = (spatial.quaternion_exp(by_body(topology, x)) for x in (target, position))
    if drift is not None:
        now = spatial.quaternion_product(drift_by_body(topology, drift), now)
    product = spatial.quaternion_product(spatial.conjugate(wanted), now)
    product = jnp.where(product[3] < 0, -product, product)
    several = jnp.asarray(topology.dof_is_one_of_several)
    return jnp.where(several, where_spherical(topology, -2 * product[:3], error), error)
