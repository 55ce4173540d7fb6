"""Differential inverse kinematics: the velocity for one tick of a control loop, by a quadratic
program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix import Articulation, State
from artix.inverse_kinematics.configurations import goals_of
from artix.inverse_kinematics.followers import (
    followers_of,
    moved_with_followers,
    placed,
    warn_of_loops,
    with_followers,
)
from artix.inverse_kinematics.goals import Distances, Goals
from artix.inverse_kinematics.quadratic_program import QuadraticProgram, minimum
from artix.inverse_kinematics.tasks import Task, numbers
from artix.kinematics.configuration import move
from artix.math.arrays import matmul, square_root
from artix.model.checks import as_number, check_state

Array = jax.Array


class VelocityStep(NamedTuple):
    """The result of :func:`solve_velocity`.

    Attributes:
      velocity: generalised velocity [m/s, rad/s], shape [nv]; the last n entries are the joints'.
      state: the state after the tick, with this velocity: the start of the next one, and the
        command for the joints.
      shortfall: by how much distances at the end of the tick are smaller than they may become, to
        first order [m], []; zero unless the speed limits prevent it.
      solved: whether the quadratic program is solved, [] of bool; false means that numbers are not
        finite or extreme.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> tool = inverse_kinematics.FrameTask(
      ...     "tool", artix.frame_pose(arm, state, "tool").at[2].add(-0.1)
      ... )
      >>> tick = inverse_kinematics.solve_velocity(arm, state, [tool], 0.01)
      >>> print(tick.velocity.shape, tick.solved, tick.shortfall)
      (7,) True 0.0
    """

    velocity: Array
    state: State
    shortfall: Array
    solved: Array


def solve_velocity(
    articulation: Articulation,
    state: State,
    tasks: Sequence[Task],
    dt: float | Array,
    *,
    distances: Distances | None = None,
    margin: float | Array = 0.0,
    limit_gain: float | Array = 0.5,
    max_velocity: float | Array | None = None,
    max_acceleration: float | Array | None = None,
    damping: float | Array = 1e-5,
) -> VelocityStep:
    """The velocity v that brings tasks nearest to their targets in one tick, within limits: pink's
    ``solve_ik``.

    With errors e, Jacobians J, costs w and gains of all tasks, it minimises over the displacement
    ``x = v dt``::

        sum |w (J x + gain e)|^2 + damping |x|^2

    subject to ``|v| <= max_velocity``, ``|v - v_last| <= max_acceleration dt``, the share
    ``limit_gain`` of the way to joint limits, and ``(dd/dq) x >= -gain (d - minimum)`` for
    distances d. With ``max_acceleration``, joints also brake early enough to stop at their limits.
    Joints that follow others (mimic joints) move with them and keep their own limits.
    All of it is one kernel, for one robot or under ``jax.vmap`` for thousands. Kanoun, Lamiraux and
    Wieber, *Kinematic control of redundant manipulators: generalizing the task-priority framework
    to inequality tasks*, IEEE T-RO 2011; Faverjon and Tournassoud, *A local based approach for path
    planning of manipulators with a high number of degrees of freedom*, ICRA 1987.

    There is always a solution: a joint beyond its limits returns as fast as it may, accelerations
    come before joint limits, and limits of joints before distances. A limit of a spherical joint
    bounds a component of its rotation vector, whose rate is not the velocity: where the joint turns
    about other axes by ``|x|`` in a tick, the component may pass its limit by half of ``|x|`` times
    the angle, and the next ticks return it. *Derivatives*, in both modes, are implicit; those of
    limits and distances that hold are included.

    Args:
      articulation: the articulation; a floating base moves without limits.
      state: the configuration, and the last velocity for ``max_acceleration``.
      tasks: what to approach, such as :class:`FrameTask`.
      dt: the length of the tick [s], such as 0.001.
      distances: least distances between shapes, or from obstacles.
      margin: distance to keep from joint limits [rad or m], one or [n].
      limit_gain: the share of the way to a joint's limit that one tick may take, from 0 to 1, one
        or [n].
      max_velocity: speed limits of the joints [rad/s or m/s], one or [n]; ``None`` for the
        articulation's own, ``max_joint_velocity``, which may be infinite.
      max_acceleration: limits of the joints' accelerations [rad/s^2 or m/s^2], one or [n]; ``None``
        for none.
      damping: cost of the displacement [1/rad^2 or 1/m^2]; more of it makes motions near
        singularities slower.

    Returns:
      The velocity, and the state after the tick.

    Raises:
      KeyError: no link, frame or shape has this name.
      TypeError: an array has another dtype than the articulation, or an entry is not a task.
      ValueError: there is no task, ``dt`` is not positive, an array has the wrong shape, or a known
        one has a quaternion not of length 1, a number that is not finite, or a negative cost or
        limit.

    Warns:
      UserWarning: the articulation has loop joints, which are not kept closed.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> bent = artix.neutral_state(arm).replace(
      ...     joint_position=jnp.array([0.0, 0.5, 0.0, 1.4, 0.0, 1.0, 0.0])
      ... )
      >>> tool = inverse_kinematics.FrameTask(
      ...     "tool", artix.frame_pose(arm, bent, "tool").at[2].add(0.02)
      ... )
      >>> posture = inverse_kinematics.PostureTask(bent.joint_position, cost=1e-3)
      >>> state = bent
      >>> for _ in range(50):  # 50 ms at 1 kHz and at most 1 rad/s
      ...     state = inverse_kinematics.solve_velocity(
      ...         arm, state, [tool, posture], 1e-3, max_velocity=1.0
      ...     ).state
      >>> print(jnp.abs(tool.error(arm, state)).max() < 1e-5)
      True
    """
    check_state(articulation, state)
    warn_of_loops(articulation)
    dtype, shape = articulation.dtype, (articulation.topology.num_dofs,)
    goals = goals_of(articulation, tasks, distances, margin)
    limits = {
        "gain": numbers("limit_gain", limit_gain, shape, dtype, most=1.0),
        "velocity": articulation.max_joint_velocity if max_velocity is None else max_velocity,
        "acceleration": max_acceleration,
    }
    if max_velocity is not None:
        limits["velocity"] = numbers("max_velocity", max_velocity, shape, dtype)
    if max_acceleration is not None:
        limits["acceleration"] = numbers("max_acceleration", max_acceleration, shape, dtype)
    tick = jnp.asarray(as_number("dt", dt, positive=True), dtype)
    cost = numbers("damping", damping, (), dtype)
    return _tick(articulation, state.replace(contact_memory=None), goals, limits, tick, cost)


@artix.quantity
def _tick(
    articulation: Articulation, state: State, goals: Goals, limits: Any, dt: Array, damping: Array
) -> VelocityStep:
    """The quadratic program of one tick, and its solution."""
    nv = articulation.topology.nv
    state = placed(articulation, state)
    wanted, slope = goals.steps(articulation, state)
    H = matmul(slope.T, slope) + damping * jnp.eye(nv, dtype=articulation.dtype)
    lower, upper = _bounds(articulation, state, goals, limits, dt)
    A, b = jnp.zeros((0, nv), dt.dtype), jnp.zeros(0, dt.dtype)
    if goals.distances is not None:
        room, rates = goals.distances.room_and_jacobian(articulation, state)
        rates = with_followers(articulation, rates)
        # Where a distance is too small already, all that is missing comes back.
        A, b = -rates, jnp.where(room > 0, goals.distances.gain * room, room)
    program = QuadraticProgram(H, -matmul(slope.T, wanted), lower, upper, A, b)
    end = minimum(program)
    displacement = moved_with_followers(articulation, end.x)
    velocity = displacement / dt
    moved = artix.with_generalized_velocity(
        articulation, move(articulation, state, displacement), velocity
    )
    shortfall = jnp.max(jnp.concatenate([end.excess, jnp.zeros(1, dt.dtype)]))
    return VelocityStep(velocity, moved, shortfall, end.is_solved)


def _bounds(
    articulation: Articulation, state: State, goals: Goals, limits: Any, dt: Array
) -> tuple[Array, Array]:
    """Bounds of the displacement in a tick, [nv] each."""
    base, position = articulation.topology.num_base_dofs, state.joint_position
    lower, upper = goals.limits(articulation)
    most = limits["velocity"] * dt * jnp.ones_like(position)
    down, up = lower - position, upper - position
    # Outside its limits, a joint may return all the way.
    down = jnp.where(down < 0, limits["gain"] * down, down)
    up = jnp.where(up > 0, limits["gain"] * up, up)
    low, high = jnp.clip(down, -most, most), jnp.clip(up, -most, most)
    if limits["acceleration"] is not None:
        change = limits["acceleration"] * dt**2
        low = jnp.maximum(low, -_stoppable(position - lower, change))
        high = jnp.minimum(high, _stoppable(upper - position, change))
        low = jnp.minimum(low, high)  # where the way back is longer than a brake's
        last = state.joint_velocity * dt
        low, high = (jnp.clip(each, last - change, last + change) for each in (low, high))
    followers = followers_of(articulation)
    if followers is not None:
        low, high = followers.narrow(low, high, 0.0)
        low, high = (jnp.where(followers.follow, 0, bound) for bound in (low, high))
    free = jnp.full(base, jnp.inf, position.dtype)
    return jnp.concatenate([-free, low]), jnp.concatenate([free, high])


def _stoppable(room: Array, change: Array) -> Array:
    """The largest displacement x in a tick after which a joint can stop within its room.

    If displacements fall by ``change`` c from tick to tick, they add up to at most ``x^2 / (2 c) +
    x / 2 + c / 8``.
    """
    is_finite = jnp.isfinite(room)
    distance = jnp.where(is_finite, jnp.maximum(room, 0), 0)
    most = jnp.maximum(
        square_root(2 * change * distance) - 0.5 * change, jnp.minimum(distance, change)
    )
    return jnp.where(is_finite, most, jnp.inf)
