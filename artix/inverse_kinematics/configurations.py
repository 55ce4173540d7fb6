"""Inverse kinematics: configurations that satisfy tasks, and the same along a path."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import Articulation, State
from artix.inverse_kinematics.followers import (
    is_independent,
    moved_with_followers,
    placed,
    warn_of_loops,
)
from artix.inverse_kinematics.goals import Distances, Goals
from artix.inverse_kinematics.tasks import Task, checked_tasks, numbers
from artix.kinematics.configuration import move
from artix.math.arrays import check_finite, chosen, matmul
from artix.math.gaussian_elimination import lu_factorize
from artix.math.tangents import directional_derivative, without_derivatives
from artix.model.checks import (
    as_array,
    beyond_limits,
    check_count,
    check_quaternion,
    check_type,
    describe_beyond,
)

Array = jax.Array
MIN_DAMPING, MAX_DAMPING = 1e-7, 1e3
#: Along a path, joints move at most so many radians or metres for each metre or radian of the
#: tasks.
LONGEST_STEP = 100.0
#: Directions whose curvature is below this share of the largest, in rounding errors, do not matter
#: to any task.
_FLAT = 100


class Solution(NamedTuple):
    """The result of :func:`solve`.

    Attributes:
      state: the configuration, at rest.
      position_error: largest distance by which a task is missed [m], [].
      rotation_error: largest angle by which a task is missed [rad], [].
      room: the smallest of ``d - minimum`` of all distances [m], [], ``inf`` without any.
      solved: whether errors are within the tolerances, and distances and joint limits are kept, []
        of bool.

    The errors of a target out of reach say by how much it is missed.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> task = inverse_kinematics.FrameTask("tool", artix.frame_pose(arm, state, "tool"))
      >>> solution = inverse_kinematics.solve(
      ...     arm, [task], jax.tree.map(lambda leaf: leaf[None], state)
      ... )
      >>> solution.state.joint_position.shape, bool(solution.solved)
      ((7,), True)
    """

    state: State
    position_error: Array
    rotation_error: Array
    room: Array
    solved: Array


def solve(
    articulation: Articulation,
    tasks: Sequence[Task],
    seeds: State,
    *,
    near: State | None = None,
    distances: Distances | None = None,
    margin: float | Array = 0.0,
    iterations: int = 30,
    position_tolerance: float = 1e-4,
    rotation_tolerance: float = 1e-3,
) -> Solution:
    """Finds a configuration within the joint limits that satisfies tasks, by damped least squares
    from several seeds.

    It minimises ``sum (w e)^2`` over the errors e of all tasks with their costs w, and ``(cost
    (minimum - d))^2`` of distances d that are too small: Levenberg-Marquardt on the Gauss-Newton
    matrix of closed-form Jacobians. A joint at a limit that would leave it is held there. Of the
    seeds that solve all tasks, the one that ends nearest to a posture counts. Nakamura and
    Hanafusa, *Inverse kinematic solutions with singularity robustness for robot manipulator
    control*, 1986; Marquardt 1963. Use ``jax.vmap`` over targets, :func:`follow` along a path.

    Joints that follow others (mimic joints) are where these put them, within their own limits.

    *Derivatives*, in both modes, are implicit: the configuration is differentiated with respect to
    targets, costs and the numbers of the articulation, through the equation it solves rather than
    through the iterations. Where tasks leave joints to spare, they move by the least displacement.
    A joint at its limit moves with it, and distances that are too small by rounding are kept.
    Derivatives are right where the minimum is reached; the errors and the seeds have none.

    A limit of a spherical joint bounds a component of its rotation vector, but what is held there
    is the motion about the axis of that component. The two agree while the joint has turned about
    that axis only.

    Args:
      articulation: the articulation; a floating base moves, too.
      tasks: what to satisfy, such as :class:`FrameTask`; all are weighed against each other by
        their costs.
      seeds: S configurations to start from, each array with a leading axis [S]; ``jax.vmap`` of
        :func:`artix.random_state` makes random ones within the limits.
      near: the preferred posture; the first seed if ``None``. Nearness is the length of
        :func:`artix.difference`, in which a metre counts as a radian.
      distances: least distances between shapes, or from obstacles.
      margin: distance to keep from joint limits [rad or m], one or [n].
      iterations: number of iterations; there is no test of convergence.
      position_tolerance: distance [m] below which a target counts as reached, and by which
        distances may be too small.
      rotation_tolerance: angle [rad] below which a target counts as reached.

    Returns:
      Of the configurations that satisfy the tasks, the one nearest to ``near``; if there is none,
      the one with the least cost.

    Raises:
      KeyError: no link, frame or shape has this name.
      TypeError: an array has another dtype than the articulation, ``iterations`` is not a
        whole number, or an entry is not a task.
      ValueError: there is no task, an array has the wrong shape, or a known one has a quaternion
        not of length 1, a number that is not finite, or a negative cost.

    Warns:
      UserWarning: known seeds lie outside the joint limits; they start from the nearest position
        within. Or the articulation has loop joints, which are not kept closed.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> goal = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(0)), "tool")
      >>> seeds = jax.vmap(lambda key: artix.random_state(arm, key))(
      ...     jax.random.split(jax.random.key(1), 8)
      ... )
      >>> tool = inverse_kinematics.FrameTask("tool", goal)
      >>> bool(inverse_kinematics.solve(arm, [tool], seeds, margin=0.02).solved)
      True
    """
    _check_options(articulation, iterations, position_tolerance, rotation_tolerance)
    goals = goals_of(articulation, tasks, distances, margin)
    _check_configurations(articulation, "seeds", seeds, ("S",))
    near = jax.tree.map(lambda leaf: leaf[0], seeds) if near is None else near
    _check_configurations(articulation, "near", near, ())
    _warn_of_seeds_beyond_limits(articulation, seeds.joint_position)
    return _best(
        articulation, goals, seeds, near, iterations, position_tolerance, rotation_tolerance
    )


def follow(
    articulation: Articulation,
    tasks: Callable[[Any], Sequence[Task]],
    path: Any,
    start: State,
    *,
    max_step: float | Array | None = None,
    distances: Distances | None = None,
    margin: float | Array = 0.0,
    iterations: int = 10,
    position_tolerance: float = 1e-4,
    rotation_tolerance: float = 1e-3,
) -> Solution:
    """Solves the tasks of T points of a path in turn, each from the last configuration.

    Joints move continuously: by the least displacement that reaches a point, and by at most
    ``max_step`` after the first point. Near a singularity or behind a joint limit, a path may need
    more. Joints then go as near to it as they may; ``solved`` is false where the tolerances are
    missed, and the errors say by how much. Points should be near enough for a few iterations to get
    from one to the next. For motions within speed limits, use :func:`solve_velocity`. Use
    ``jax.vmap`` over paths.

    Args:
      articulation: the articulation.
      tasks: maps a point of the path to the tasks there, such as ``lambda target:
        [FrameTask("tool", target)]``.
      path: an array with a leading axis [T], such as poses [T, 7] [m], or a pytree of them.
      start: the configuration from which to find the first one.
      max_step: largest motion of a joint from one point to the next [rad or m], one or [n];
        ``None`` for 100 rad or m for each metre or radian by which the errors of the tasks change,
        and at least 100 times ``position_tolerance``.
      distances: as for :func:`solve`.
      margin: as for :func:`solve` [rad or m].
      iterations: number of iterations at each point.
      position_tolerance: as for :func:`solve` [m].
      rotation_tolerance: as for :func:`solve` [rad].

    Returns:
      The configurations and errors, each array with a leading axis [T].

    Raises:
      KeyError: no link, frame or shape has this name.
      TypeError: an array has another dtype than the articulation, or ``tasks`` is not a function.
      ValueError: as :func:`solve` raises it.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> bent = artix.neutral_state(arm).replace(
      ...     joint_position=jnp.array([0.0, 0.5, 0.0, 1.4, 0.0, 1.0, 0.0])
      ... )
      >>> line = (
      ...     artix.frame_pose(arm, bent, "tool")
      ...     + jnp.linspace(0, 0.1, 50)[:, None] * jnp.eye(7)[2]
      ... )
      >>> tasks = lambda target: [inverse_kinematics.FrameTask("tool", target)]
      >>> solution = inverse_kinematics.follow(arm, tasks, line, bent)
      >>> print(solution.state.joint_position.shape, solution.solved.all())
      (50, 7) True
    """
    _check_options(articulation, iterations, position_tolerance, rotation_tolerance)
    if not callable(tasks):
        raise TypeError(
            f"tasks: expected a function of a point of the path; found {type(tasks).__name__}: "
            'write lambda target: [FrameTask("tool", target)]'
        )
    for leaf in jax.tree.leaves(path):
        check_finite("path", leaf)
        check_quaternion("path", leaf)
    _check_configurations(articulation, "start", start, ())
    if max_step is not None:
        max_step = numbers(
            "max_step", max_step, (articulation.topology.num_dofs,), articulation.dtype
        )
    options = iterations, position_tolerance, rotation_tolerance

    def body(
        last: tuple[State, Any, Array], point: Any
    ) -> tuple[tuple[State, Any, Array], Solution]:
        state, last_point, is_first = last
        goals = goals_of(articulation, tasks(point), distances, margin)
        step = max_step
        if step is None:
            change = _change(
                articulation,
                goals_of(articulation, tasks(last_point), distances, margin),
                goals,
                state,
            )
            step = LONGEST_STEP * jnp.maximum(change, position_tolerance)
        step = jnp.where(is_first, jnp.inf, step)
        lower, upper = goals.limits(articulation)
        near = articulation.replace(
            joint_lower_limit=jnp.maximum(lower, state.joint_position - step),
            joint_upper_limit=jnp.minimum(upper, state.joint_position + step),
        )
        seed = jax.tree.map(lambda leaf: leaf[None], state)
        solution = _best(
            near, goals.replace(margin=jnp.zeros_like(goals.margin)), seed, state, *options
        )
        return (solution.state, point, jnp.zeros((), bool)), solution

    rest = start.replace(
        root_velocity=jnp.zeros_like(start.root_velocity),
        joint_velocity=jnp.zeros_like(start.joint_velocity),
        contact_memory=None,
    )
    path = jax.tree.map(jnp.asarray, path)
    first = rest, jax.tree.map(lambda leaf: leaf[0], path), jnp.ones((), bool)
    return jax.lax.scan(body, first, path)[1]


def goals_of(
    articulation: Articulation, tasks: Any, distances: Distances | None, margin: float | Array
) -> Goals:
    """The tasks, distances and margin, after checks."""
    if distances is not None:
        if not isinstance(distances, Distances):
            raise TypeError(
                "distances: expected inverse_kinematics.Distances; found "
                f"{type(distances).__name__}"
            )
        distances = distances._checked(articulation)
    shape, dtype = (articulation.topology.num_dofs,), articulation.dtype
    return Goals(
        checked_tasks(articulation, tasks), distances, numbers("margin", margin, shape, dtype)
    )


def _check_options(
    articulation: Articulation,
    iterations: int,
    position_tolerance: float,
    rotation_tolerance: float,
) -> None:
    check_type("articulation", articulation, Articulation)
    warn_of_loops(articulation)
    check_count("iterations", iterations)
    for name, tolerance in (
        ("position_tolerance", position_tolerance),
        ("rotation_tolerance", rotation_tolerance),
    ):
        numbers(name, tolerance, (), articulation.dtype)


def _check_configurations(
    articulation: Articulation, name: str, states: Any, axes: tuple[str, ...]
) -> None:
    """Checks configurations with these leading axes."""
    check_type(name, states, State)
    meaning = "with a leading axis over seeds" if axes else "one configuration"
    for field, size in (("root_pose", 7), ("joint_position", articulation.topology.num_dofs)):
        value = getattr(states, field)
        as_array(f"{name}.{field}", value, (*axes, size), articulation.dtype, meaning)
        if axes and (len(value) != len(states.joint_position) or not len(value)):
            raise ValueError(
                f"{name}.{field}: expected a row for each seed, at least one; found shape "
                f"{value.shape}"
            )
        check_finite(f"{name}.{field}", value)
    check_quaternion(f"{name}.root_pose", states.root_pose)


def _warn_of_seeds_beyond_limits(articulation: Articulation, positions: Array) -> None:
    """Says which seeds will start from their joints' limits instead."""
    beyond = beyond_limits(articulation, positions)
    if beyond is not None and beyond.any():
        seed, dof = (int(k) for k in np.argwhere(beyond)[0])
        warnings.warn(
            f"seeds.joint_position: {beyond.any(axis=1).sum()} of {len(beyond)} seeds lie outside "
            f"the joint limits and start from the nearest position within them; in seed {seed}, "
            f"{describe_beyond(articulation, positions[seed], dof)}",
            stacklevel=3,
        )


def _best(
    articulation: Articulation,
    goals: Goals,
    seeds: State,
    near: State,
    iterations: int,
    position_tolerance: float,
    rotation_tolerance: float,
) -> Solution:
    """The search from all seeds, and the choice of one end."""
    robot, wanted = articulation, goals
    articulation, goals, seeds, near = without_derivatives((articulation, goals, seeds, near))
    lower, upper = goals.limits(articulation)

    def from_seed(seed: State) -> tuple[State, Array]:
        position, rest = jnp.clip(seed.joint_position, lower, upper), jnp.zeros_like
        start = State(seed.root_pose, rest(seed.root_velocity), position, rest(seed.joint_velocity))
        start = placed(articulation, start)

        def body(carry, _):
            state, damping, cost = carry
            trial = _trial(articulation, goals, state, damping)
            trial_cost = _cost(articulation, goals, trial)
            better = trial_cost < cost
            damping = jnp.clip(
                damping * jnp.where(better, 0.2, 5.0).astype(cost.dtype), MIN_DAMPING, MAX_DAMPING
            )
            return (
                chosen(better, trial, state),
                damping,
                jnp.where(better, trial_cost, cost),
            ), None

        first = start, jnp.asarray(1e-2, articulation.dtype), _cost(articulation, goals, start)
        (state, _, cost), _ = jax.lax.scan(body, first, length=iterations)
        return state, cost

    def judge(state: State) -> tuple[Array, Array, Array, Array]:
        return *_missed(articulation, goals, state), jnp.sum(
            artix.difference(articulation, near, state) ** 2
        )

    states, costs = jax.vmap(from_seed)(seeds)
    lengths, angles, rooms, away = jax.vmap(judge)(states)
    solved = (
        (lengths <= position_tolerance)
        & (angles <= rotation_tolerance)
        & (rooms >= -position_tolerance)
        & jax.vmap(lambda state: _is_within_limits(articulation, state.joint_position))(states)
    )
    # Which seed has the smallest error among those that reach the target is decided by rounding.
    order = jnp.where(jnp.any(solved), jnp.where(solved, away, jnp.inf), costs)
    best = jnp.argmin(jnp.where(jnp.isnan(order), jnp.inf, order))
    state = jax.tree.map(lambda leaf: leaf[best], states)
    return Solution(
        _optimal(robot, wanted, state), lengths[best], angles[best], rooms[best], solved[best]
    )


def _is_within_limits(articulation: Articulation, position: Array) -> Array:
    """Whether joints are within their limits, as always unless no position satisfies all."""
    slack = 1e-5 * (1 + jnp.abs(position))
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    return jnp.all((position >= lower - slack) & (position <= upper + slack))


@artix.quantity
def _missed(articulation: Articulation, goals: Goals, state: State) -> tuple[Array, Array, Array]:
    """The largest distance and angle by which a task is missed, and the smallest room."""
    dtype = articulation.dtype
    missed = [task.missed(articulation, state) for task in goals.tasks]
    length, angle = (
        jnp.max(jnp.stack([jnp.asarray(x, dtype) for x in each]))
        for each in zip(*missed, strict=True)
    )
    rooms = jnp.full(1, jnp.inf, dtype)
    if goals.distances is not None:
        rooms = goals.distances.room(articulation, state)
    return length, angle, jnp.min(rooms)


@artix.quantity
def _change(articulation: Articulation, before: Goals, after: Goals, state: State) -> Array:
    """The largest change of an entry of the tasks' errors [m or rad], []."""
    pairs = zip(before.tasks, after.tasks, strict=True)
    changes = [
        new.error(articulation, state) - old.error(articulation, state) for old, new in pairs
    ]
    return jnp.max(jnp.abs(jnp.concatenate(changes)))


@artix.quantity
def _cost(articulation: Articulation, goals: Goals, state: State) -> Array:
    """The sum of squares."""
    return jnp.sum(goals.residual(articulation, state) ** 2)


@artix.quantity
def _trial(articulation: Articulation, goals: Goals, state: State, damping: Array) -> State:
    """A damped Gauss-Newton step, within the limits."""
    residual, slope = goals.residual_and_jacobian(articulation, state)
    base, position = articulation.topology.num_base_dofs, state.joint_position
    lower, upper = goals.limits(articulation)
    gradient = matmul(residual, slope)
    out = ((position <= lower) & (gradient[base:] > 0)) | (
        (position >= upper) & (gradient[base:] < 0)
    )
    free = jnp.concatenate([jnp.ones(base, bool), ~out & is_independent(articulation)])
    slope = jnp.where(free[None], slope, jnp.zeros_like(slope))
    gradient = jnp.where(free, gradient, jnp.zeros_like(gradient))
    matrix = matmul(slope.T, slope) + damping * jnp.eye(len(free), dtype=articulation.dtype)
    moved = move(articulation, state, -lu_factorize(matrix).solve(gradient))
    position = jnp.clip(moved.joint_position, lower, upper)
    return placed(articulation, moved.replace(joint_position=position))


# --- derivatives --------------------------------------------------------------------------------


@jax.custom_jvp
def _optimal(articulation: Articulation, goals: Goals, state: State) -> State:
    """A minimum, as a function of the articulation and the goals."""
    return state


def _optimal_change(primals: Any, tangents: Any) -> tuple[State, State]:
    """The implicit function theorem: the gradient of the cost stays zero in the joints that no
    limit holds.

    A joint at a limit is a function of that limit. Flat directions do not move.
    """
    articulation, goals, state = primals
    problem, by = (articulation, goals), tuple(tangents[:2])
    zero = jnp.zeros(articulation.topology.nv, articulation.dtype)

    def limited(problem: Any) -> Array:
        robot, wanted = problem
        return _at_limits(robot, wanted, state)

    def gradient_of(problem: Any) -> Array:
        robot, wanted = problem
        return _gradient(robot, wanted, state.replace(joint_position=limited(problem)))

    with_limit = directional_derivative(limited, problem, by)
    gradient = directional_derivative(gradient_of, problem, by)
    gradient = zero if gradient is None else gradient
    position, (lower, upper) = state.joint_position, goals.limits(articulation)
    base = jnp.ones(articulation.topology.num_base_dofs, bool)
    inside = (position > lower) & (position < upper)
    free = jnp.concatenate([base, inside & is_independent(articulation)])
    curvature = _curvature(articulation, goals, state)
    curvature = jnp.where(free[:, None] & free[None], curvature, jnp.zeros_like(curvature))
    values, vectors = jnp.linalg.eigh(0.5 * (curvature + curvature.T))
    flat = jnp.abs(values) <= _FLAT * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))
    inverse = jnp.where(flat, 0, 1 / jnp.where(flat, 1, values))
    right = jnp.where(free, gradient, jnp.zeros_like(gradient))
    moved = -matmul(vectors, inverse * matmul(vectors.T, right))
    moved = moved_with_followers(articulation, moved)
    end = jax.jvp(lambda step: move(articulation, state, step), (zero,), (moved,))[1]
    if with_limit is not None:
        end = end.replace(joint_position=end.joint_position + with_limit)
    return state, end


_optimal.defjvp(_optimal_change, symbolic_zeros=True)


def _at_limits(articulation: Articulation, goals: Goals, state: State) -> Array:
    """The joint positions, those at a limit as functions of it, [n]."""
    position = state.joint_position
    lower, upper = goals.limits(articulation)
    held = jnp.where(position <= lower, lower, jnp.where(position >= upper, upper, position))
    return placed(articulation, state.replace(joint_position=held)).joint_position


@artix.quantity
def _gradient(articulation: Articulation, goals: Goals, state: State) -> Array:
    """Half the gradient of the cost by the generalised coordinates, [nv]."""
    residual, slope = goals.residual_and_jacobian(articulation, state)
    return matmul(residual, slope)


@artix.quantity
def _curvature(articulation: Articulation, goals: Goals, state: State) -> Array:
    """Its derivative with respect to the configuration, [nv, nv]."""
    zero = jnp.zeros(articulation.topology.nv, articulation.dtype)

    def along(step: Array) -> Array:
        step = moved_with_followers(articulation, step)
        return _gradient(articulation, goals, move(articulation, state, step))

    return jax.jacfwd(along)(zero)
