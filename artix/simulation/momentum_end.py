"""A floating articulation's momentum and centre of mass at the end of a step."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix import spatial
from artix.articulation import Articulation, State
from artix.bodies import Inertias
from artix.dynamics.inertia import momentum, reference_inertias
from artix.dynamics.momentum import about
from artix.kinematics import Kinematics, Motion, body_velocities, dof_motions, kinematics, root_motion
from artix.simulation.momentum_correction import Momentum, turn_to_momentum
from artix.tree import stage

Array = jax.Array


def with_momentum(
    articulation: Articulation,
    end: State,
    center: Array,
    travelled: Array,
    target: Momentum,
    carried: Array,
    dt: Array,
    *,
    magnitude_only: bool,
) -> State:
    """Gives the root the velocity that makes up a momentum at the new poses, and moves the whole to where it belongs.

    Args:
      articulation: the articulation.
      end: the state at the end of the step.
      center: the centre of mass at its start, from the root's [m], [3, 1].
      travelled: displacement of the root's centre of mass [m], [3].
      target: the momentum to have.
      carried: the linear momentum that moved the centre of mass during the step [kg m/s], [3].
      dt: the step [s].
      magnitude_only: as for :func:`turn_to_momentum`.
    """
    tree = articulation.topology
    kin = kinematics(articulation, end)
    root = root_motion(tree, end.root_velocity)
    inertias = reference_inertias(articulation, kin)
    mass, first, second = Inertias(*(jnp.sum(part, axis=-1, keepdims=True) for part in inertias))
    middle = first / mass
    now = about(middle, total_momentum(articulation, kin, end)[:, None])
    spread = second - first[:, None] * middle[None]
    locked = spatial.trace(spread)[None, None] * spatial.identity_like(first) - spread
    turn = turn_to_momentum(locked, now[3:], target.angular[:, None], magnitude_only=magnitude_only)
    # Turning about the centre of mass leaves the linear momentum as it is.
    push = (target.linear[:, None] - now[:3]) / mass
    corrected = jnp.concatenate([root.linear - spatial.cross(turn, middle) + push, root.angular + turn])[:, 0]
    shift = (center + dt * carried[:, None] / mass - middle)[:, 0] - travelled
    return end.replace(
        root_pose=jnp.concatenate([end.root_pose[:3] + shift, end.root_pose[3:]]), root_velocity=corrected
    )


def total_momentum(articulation: Articulation, kin: Kinematics, state: State) -> Array:
    """Linear momentum, then angular momentum about the root's centre of mass, in world axes, [6]."""
    tree = articulation.topology
    root = root_motion(tree, state.root_velocity)
    velocity = body_velocities(tree, dof_motions(tree, kin), root, state.joint_velocity)
    momenta = momentum(reference_inertias(articulation, kin), Motion(*stage(*velocity)))
    return jnp.sum(jnp.concatenate(momenta), axis=1)
