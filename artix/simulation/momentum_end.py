"""A floating articulation's momentum and centre of mass at the end of a step."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.articulation import Articulation, State
from artix.constraints.frozen import Frozen, inertial_wrenches, link_bodies
from artix.frames import link_velocities
from artix.simulation.momentum_correction import Momentum, momentum_of, restore_momentum

Array = jax.Array


def momentum_after(frozen: Frozen, motion: Array, acceleration: Array, dt: Array) -> Momentum:
    """The momentum after a time by Newton's and Euler's laws: that of the links' velocities, and what the loads add.

    Args:
      frozen: the articulation at the start of the step.
      motion: the links' velocities then, [L, 6].
      acceleration: their accelerations, [L, 6].
      dt: the step [s].
    """
    start = momentum_of(frozen.mass, frozen.inertia, frozen.center, motion)
    load = inertial_wrenches(frozen, motion, acceleration)
    middle = jnp.sum(frozen.mass[:, None] * frozen.center, axis=0) / jnp.sum(frozen.mass)
    moment = load[:, 3:] + jnp.cross(frozen.center - middle[None], load[:, :3])
    return Momentum(start.linear + dt * jnp.sum(load[:, :3], axis=0), start.angular + dt * jnp.sum(moment, axis=0))


def with_momentum(
    articulation: Articulation,
    frozen: Frozen,
    end: State,
    travelled: Array,
    target: Momentum,
    carried: Array,
    dt: Array,
    *,
    magnitude_only: bool,
) -> tuple[State, Array]:
    """Gives the root the velocity that makes up a momentum at the new poses, and moves the whole to where it belongs.

    Args:
      articulation: the articulation.
      frozen: it at the start of the step.
      end: the state at the end of the step.
      travelled: displacement of the root's centre of mass [m], [3].
      target: the momentum to have.
      carried: the linear momentum that moved the centre of mass during the step [kg m/s], [3].
      dt: the step [s].
      magnitude_only: as for :func:`restore_momentum`.

    Returns:
      The corrected state, and the links' velocities [L, 6] in it.
    """
    _, center, inertia = link_bodies(articulation, end)
    motion = link_velocities(articulation, end)
    motion = restore_momentum(frozen.mass, inertia, center, motion, target, magnitude_only=magnitude_only)
    mass, total = frozen.mass[:, None], jnp.sum(frozen.mass)
    # Centres are relative to the root's centre of mass, which has travelled in between.
    wanted = (jnp.sum(mass * frozen.center, axis=0) + dt * carried) / total
    shift = wanted - travelled - jnp.sum(mass * center, axis=0) / total
    pose = jnp.concatenate([end.root_pose[:3] + shift, end.root_pose[3:]])
    return end.replace(root_pose=pose, root_velocity=motion[0]), motion
