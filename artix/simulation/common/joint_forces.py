"""The wrenches that joints transmit: PhysX's incoming joint forces."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation
from artix.simulation.common.step_start import StepStart, inertial_wrenches

Array = jax.Array


def incoming_joint_forces(
    articulation: Articulation,
    at_start: StepStart,
    end_frame: Transforms,
    motion: Array,
    acceleration: Array,
    wrench: Array,
    tendon_wrench: tuple[Array, Array],
) -> Array:
    """The wrenches that links receive from their parents through their joints.

    Args:
      articulation: the articulation.
      at_start: the articulation at the start of the step.
      end_frame: the links' frames at the end of the step, in whose joint frames PhysX expresses the
        result.
      motion: the links' velocities at the start of the step, [L, 6].
      acceleration: the links' accelerations during the step, [L, 6].
      wrench: external wrenches on the links, without those of tendons, [L, 6].
      tendon_wrench: wrenches of all tendons on the links, and of fixed tendons on the links that
        their joints move, [L, 6] each. PhysX counts the latter as transmitted by those joints.

    Returns:
      Force [N], then torque [N m] at the origin and in the axes of the child joint frame, shape
      [L, 6]; zero for the root.
    """
    everything, transmitted = tendon_wrench
    needed = inertial_wrenches(at_start, motion, acceleration) - wrench - everything
    moment = needed[:, 3:] + jnp.cross(at_start.center, needed[:, :3])
    below = jnp.asarray(at_start.topology.link_ancestors, needed.dtype)
    sums = matmul(below, jnp.concatenate([needed[:, :3], moment], axis=1))
    force = sums[:, :3] + transmitted[:, :3]
    torque = sums[:, 3:] - jnp.cross(at_start.center, sums[:, :3]) + transmitted[:, 3:]
    joint = Transforms.from_poses(articulation.joint_child_pose)
    arm = joint.position - articulation.link_com_pose[:, :3].T
    axes = spatial.quaternion_product(end_frame.rotation, joint.rotation)
    arm = spatial.rotate(end_frame.rotation, arm)
    local = [
        spatial.rotate_inverse(axes, vector)
        for vector in (force.T, torque.T - spatial.cross(arm, force.T))
    ]
    return jnp.concatenate(local).T.at[0].set(0)
