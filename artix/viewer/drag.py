"""Moves joints so that a frame follows where it is dragged."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import artix
from artix import Articulation, State, optimal_control

Array = jax.Array

#: Damping of motions that hardly move the frame [m].
DAMPING = 0.03


def dragged(articulation: Articulation, state: State, frame: str, target: Array, *, iterations: int = 15) -> State:
    """Moves the joints within their limits, but not the root, to bring a frame as close to a pose as possible.

    Damped least squares (Nakamura and Hanafusa, 1986) from the current joint positions, which is well-behaved even for
    a stretched arm. The damping fades with the error, so reachable targets are reached. To search for a posture, use
    :func:`artix.optimal_control.inverse_kinematics`.

    Args:
      articulation: one articulation.
      state: the initial state.
      frame: the name of a link or an additional frame.
      target: the target pose in world axes: position [m], quaternion xyzw, shape [7].
      iterations: number of iterations, static.

    Returns:
      The state with new joint positions. If the pose is out of reach, the frame ends close to it.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape.
    """
    base = articulation.topology.num_base_dofs
    low, high = articulation.joint_lower_limit, articulation.joint_upper_limit

    def advance(state: State, _: None) -> tuple[State, None]:
        error = -optimal_control.frame_pose(articulation, state, frame, target)
        jacobian = artix.frame_jacobian(articulation, state, frame)[:, base:]
        size = jnp.sqrt(jnp.sum(error**2) + 1e-12)
        error = error * jnp.minimum(1.0, 0.3 / size)
        held_back = DAMPING**2 * jnp.minimum(size / 0.1, 1.0) + 1e-7
        system = jacobian @ jacobian.T + held_back * jnp.eye(6, dtype=articulation.dtype)
        move = jacobian.T @ jnp.linalg.solve(system, error)
        moved = artix.integrate(articulation, state, jnp.concatenate([jnp.zeros(base, move.dtype), move]))
        return moved.replace(joint_position=jnp.clip(moved.joint_position, low, high)), None

    return jax.lax.scan(advance, state, None, length=iterations)[0]
