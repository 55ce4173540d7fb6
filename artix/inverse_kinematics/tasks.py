"""Tasks: what a configuration should reach, each an error with costs of its entries."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import Articulation, State
from artix.kinematics.configuration import move
from artix.math import struct
from artix.math.arrays import check_finite, matmul, square_root
from artix.math.spatial import quaternion_product, rotation_matrix
from artix.model.checks import as_array, beyond_limits, check_quaternion, describe_beyond, known
from artix.optimal_control.residuals import pose_difference

Array = jax.Array


class Task(struct.PyTreeNode):
    """An error e(q) that should vanish, and the costs w of its entries: a solver makes
    ``sum (w e)^2`` small.

    Subclass it for tasks of your own: a frozen dataclass of arrays with a method ``error``, and, if
    costs are not all one, ``costs``. Names and other fields that are not arrays need
    ``artix.math.struct.field(pytree_node=False)``. What only tasks of your own miss does not count
    for ``solved``.

    Examples:
      >>> class Manipulability(inverse_kinematics.Task):
      ...     def error(self, articulation, state):  # of a 7-axis arm, away from singularities
      ...         J = artix.frame_jacobian(articulation, state, "tool")
      ...         return 0.05 / jnp.sqrt(jnp.linalg.det(J @ J.T))[None]
      >>> arm = artix.robots.load("arm7")
      >>> print(Manipulability().jacobian(arm, artix.random_state(arm, jax.random.key(0))).shape)
      (1, 7)
    """

    #: The share of the error to remove in one tick of :func:`solve_velocity`; a task may have a
    #: field of this name.
    gain = 1.0
    #: How many numbers a target has, and which; ``None`` where that depends on the robot.
    _target_numbers: ClassVar[tuple[int, str] | None] = None

    def __post_init__(self) -> None:
        """Refuses a target of another size; other axes are of batches and derivatives.

        Raises:
          ValueError: no axis of the target has its size.
        """
        shape = getattr(getattr(self, "target", None), "shape", ())
        if (
            self._target_numbers is None or not shape
        ):  # trees of tasks may hold single numbers and placeholders
            return
        size, meaning = self._target_numbers
        if size not in shape:
            raise ValueError(
                f"{type(self).__name__}.target: expected shape [{size}], {meaning}; found {shape}"
            )

    def error(self, articulation: Articulation, state: State) -> Array:
        """The error, shape [k], each entry in its unit."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a method error(articulation, state) -> [k]"
        )

    def jacobian(self, articulation: Articulation, state: State) -> Array:
        """Its derivative with respect to the configuration, shape [k, nv] [unit per m or rad]."""
        zero = jnp.zeros(articulation.topology.nv, articulation.dtype)
        return jax.jacfwd(
            lambda change: self.error(articulation, move(articulation, state, change))
        )(zero)

    def costs(self) -> Array:
        """The costs w, shape [k] or [], in 1 per unit of the error."""
        return jnp.ones(())

    def weighted(self, articulation: Articulation, state: State) -> tuple[Array, Array]:
        """Error and Jacobian times the costs, or both turned alike, shapes [k] and [k, nv] without
        a unit.
        """
        w = jnp.atleast_1d(jnp.asarray(self.costs(), articulation.dtype))
        return w * self.error(articulation, state), w[:, None] * self.jacobian(articulation, state)

    def missed(self, articulation: Articulation, state: State) -> tuple[Any, Any]:
        """By what distance [m] and angle [rad] the task is missed, of the entries that have a
        cost.
        """
        return 0.0, 0.0

    def _checked(self, articulation: Articulation, name: str) -> Task:
        """The task with arrays of the articulation's dtype, for the tasks of this module.

        Raises:
          ValueError: an array has the wrong shape, or a known one a number that is not finite, a
            negative cost, or a quaternion not of length 1.
          TypeError: an array has another dtype.
        """
        return self


class FrameTask(Task):
    """Puts a frame at a pose: pink's and mink's ``FrameTask``, and ``RelativeFrameTask`` with a
    ``root``.

    The error is in the target's axes: its displacement [m], then its rotation vector [rad],
    ``[R_t^T (p - p_t), log(R_t^T R)]``. So costs of ``[1, 1, 0]`` leave the position along the
    target's z axis free, and rotation costs of ``[1, 1, 0]`` the rotation about it, as of a
    screwdriver.

    Attributes:
      frame: name of a link or an additional frame, static.
      target: the pose to reach, position [m] and quaternion xyzw, in world axes or those of
        ``root``, shape [7].
      position_cost: cost of a metre [1/m], one or [3] along the target's axes; 0 for none.
      orientation_cost: cost of a radian [1/rad], one or [3] about the target's axes; 0 for none.
      gain: share of the error to remove in one tick of :func:`solve_velocity`, from 0 to 1.
      root: name of the link or frame in whose axes the target is, static; ``None`` for the world.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> target = artix.frame_pose(arm, state, "tool").at[2].add(-0.1)
      >>> print(inverse_kinematics.FrameTask("tool", target).error(arm, state))
      [0.  0.  0.1 0.  0.  0. ]
    """

    frame: str = struct.field(pytree_node=False)
    target: Array
    position_cost: Any = 1.0
    orientation_cost: Any = 0.3
    gain: Any = 1.0
    root: str | None = struct.field(pytree_node=False, default=None)

    _target_numbers = 7, "position and quaternion xyzw"

    def _poses(self, articulation: Articulation, state: State) -> tuple[Array, Array, Array]:
        """The pose, its target in world axes, and the rotation matrix of the target."""
        pose, target = artix.frame_pose(articulation, state, self.frame), self.target
        if self.root is not None:
            root = artix.frame_pose(articulation, state, self.root)
            place = root[:3] + matmul(_matrix(root), target[:3])
            turn = quaternion_product(root[3:, None], target[3:, None])[:, 0]
            target = jnp.concatenate([place, turn])
        return pose, target, _matrix(target)

    def error(self, articulation: Articulation, state: State) -> Array:
        """Displacement [m] and rotation vector [rad] from the target to the frame in the target's
        axes, shape [6].
        """
        pose, target, turn = self._poses(articulation, state)
        away = pose_difference(target, pose)
        return jnp.concatenate([matmul(turn.T, away[:3]), matmul(turn.T, away[3:])])

    def jacobian(self, articulation: Articulation, state: State) -> Array:
        """Its derivative in closed form, shape [6, nv] [m, rad per m or rad]."""
        pose, _, turn = self._poses(articulation, state)
        J = artix.frame_jacobian(articulation, state, self.frame)
        linear, angular = J[:3], J[3:]
        if self.root is not None:
            K = artix.frame_jacobian(articulation, state, self.root)
            arm = pose[:3] - artix.frame_pose(articulation, state, self.root)[:3]
            linear = linear - K[:3] - jnp.cross(K[3:].T, arm).T
            angular = angular - K[3:]
        by_turn = artix.lie.so3_left_jacobian_inverse(self.error(articulation, state)[3:])
        return jnp.concatenate([matmul(turn.T, linear), matmul(by_turn, matmul(turn.T, angular))])

    def weighted(self, articulation: Articulation, state: State) -> tuple[Array, Array]:
        """See :meth:`Task.weighted`; in world axes, which need fewer operations, where all axes
        cost the same.
        """
        if jnp.ndim(self.position_cost) or jnp.ndim(self.orientation_cost) or self.root is not None:
            return super().weighted(articulation, state)
        away = pose_difference(self.target, artix.frame_pose(articulation, state, self.frame))
        J = artix.frame_jacobian(articulation, state, self.frame)
        by_turn = artix.lie.so3_left_jacobian_inverse(away[3:])
        w = self.costs()
        return w * away, w[:, None] * jnp.concatenate([J[:3], matmul(by_turn, J[3:])])

    def costs(self) -> Array:
        """Costs of the position [1/m], then of the rotation [1/rad], shape [6]."""
        return jnp.concatenate(
            [jnp.broadcast_to(w, (3,)) for w in (self.position_cost, self.orientation_cost)]
        )

    def missed(self, articulation: Articulation, state: State) -> tuple[Array, Array]:
        """Distance [m] and angle [rad] from the target along and about the axes that have a
        cost.
        """
        error, costs = self.error(articulation, state), self.costs()
        counted = jnp.where(costs > 0, error, jnp.zeros_like(error)) ** 2
        return square_root(jnp.sum(counted[:3])), square_root(jnp.sum(counted[3:]))

    def _checked(self, articulation: Articulation, name: str) -> FrameTask:
        """See :meth:`Task._checked`; raises ``TypeError`` if a frame is no name, ``KeyError`` if
        there is none.
        """
        for field in ("frame", "root"):
            frame = getattr(self, field)
            if not isinstance(frame, str) and not (field == "root" and frame is None):
                raise TypeError(
                    f"{name}.{field}: expected the name of a link or frame; found "
                    f"{type(frame).__name__}"
                )
        target = as_array(
            f"{name}.target", self.target, (7,), articulation.dtype, "position and quaternion xyzw"
        )
        check_finite(f"{name}.target", target)
        check_quaternion(f"{name}.target", target)
        costs = {
            each: _costs(self, each, name, (3,), articulation)
            for each in ("position_cost", "orientation_cost")
        }
        return self.replace(target=target, gain=_gain(self, name, articulation), **costs)


class ComTask(Task):
    """Puts the centre of mass at a point: pink's and mink's ``ComTask``. The error is
    ``c(q) - c_t`` [m].

    Attributes:
      target: the point in world axes [m], shape [3].
      cost: cost of a metre [1/m], one or [3] along the world's axes; ``[1, 1, 0]`` leaves the
        height free.
      gain: share of the error to remove in one tick of :func:`solve_velocity`, from 0 to 1.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> lower = artix.center_of_mass(robot, state) - jnp.array([0.0, 0.0, 0.05])
      >>> print(inverse_kinematics.ComTask(lower).error(robot, state))
      [0.   0.   0.05]
    """

    target: Array
    cost: Any = 1.0
    gain: Any = 1.0

    _target_numbers = 3, "a point"

    def error(self, articulation: Articulation, state: State) -> Array:
        """The centre of mass relative to its target in world axes [m], shape [3]."""
        return artix.center_of_mass(articulation, state) - self.target

    def jacobian(self, articulation: Articulation, state: State) -> Array:
        """The Jacobian of the centre of mass, shape [3, nv] [m per m or rad]."""
        return artix.dynamics.center_of_mass_jacobian(articulation, state)

    def costs(self) -> Array:
        """The costs [1/m], shape [3]."""
        return jnp.broadcast_to(self.cost, (3,))

    def missed(self, articulation: Articulation, state: State) -> tuple[Any, Any]:
        """The distance [m] along the axes that have a cost, and no angle [rad]."""
        error = self.error(articulation, state)
        return square_root(
            jnp.sum(jnp.where(self.costs() > 0, error, jnp.zeros_like(error)) ** 2)
        ), 0.0

    def _checked(self, articulation: Articulation, name: str) -> ComTask:
        """See :meth:`Task._checked`."""
        target = as_array(f"{name}.target", self.target, (3,), articulation.dtype, "a point")
        check_finite(f"{name}.target", target)
        cost = _costs(self, "cost", name, (3,), articulation)
        return self.replace(target=target, cost=cost, gain=_gain(self, name, articulation))


class PostureTask(Task):
    """Keeps joints near positions: pink's and mink's ``PostureTask``. The error is ``q - q_t``
    [rad or m].

    A small cost, such as 1e-3, decides what joints to spare do, and gives up little of the other
    tasks. It does not count for ``solved``.

    Attributes:
      target: the joint positions [rad or m], shape [n], such as ``state.joint_position``.
      cost: cost of a radian or metre, one or [n] by joint; 0 for a joint that is free.
      gain: share of the error to remove in one tick of :func:`solve_velocity`, from 0 to 1.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> bent = artix.neutral_state(arm).replace(joint_position=jnp.full(7, 0.5))
      >>> print(inverse_kinematics.PostureTask(jnp.zeros(7), cost=1e-3).error(arm, bent))
      [0.5 0.5 0.5 0.5 0.5 0.5 0.5]
    """

    target: Array
    cost: Any = 1e-3
    gain: Any = 1.0

    def error(self, articulation: Articulation, state: State) -> Array:
        """Displacements of the joints from their targets [rad or m], shape [n]."""
        start = state.replace(joint_position=self.target)
        return artix.difference(articulation, start, state)[articulation.topology.num_base_dofs :]

    def jacobian(self, articulation: Articulation, state: State) -> Array:
        """Ones on the diagonal of the joints, but for spherical joints, shape [n, nv] [1]."""
        topology = articulation.topology
        if topology.has_spherical:
            return super().jacobian(articulation, state)
        return jnp.eye(topology.num_dofs, topology.nv, topology.num_base_dofs, articulation.dtype)

    def costs(self) -> Array:
        """The costs [1/rad or 1/m], shape [n]."""
        return jnp.broadcast_to(self.cost, self.target.shape)

    def _checked(self, articulation: Articulation, name: str) -> PostureTask:
        """See :meth:`Task._checked`; raises ``ValueError`` if a known target is outside the joint
        limits, too.
        """
        shape, dtype = (articulation.topology.num_dofs,), articulation.dtype
        target = as_array(
            f"{name}.target", self.target, shape, dtype, "a position for each joint DOF"
        )
        check_finite(f"{name}.target", target)
        beyond = beyond_limits(articulation, target[None])
        if beyond is not None and beyond.any():
            dof = int(np.argmax(beyond[0]))
            raise ValueError(f"{name}.target: {describe_beyond(articulation, target, dof)}")
        cost = _costs(self, "cost", name, shape, articulation)
        return self.replace(target=target, cost=cost, gain=_gain(self, name, articulation))


class LookAtTask(Task):
    """Turns an axis of a frame towards a point, as a camera or a head: the rotation about the axis
    is free.

    With the axis a and the direction d to the point, both in world axes, the error is the rotation
    vector from d to a, ``angle (d x a) / |d x a|`` [rad].

    Attributes:
      frame: name of a link or an additional frame, static.
      target: the point in world axes [m], shape [3].
      axis: unit vector in the frame's axes, shape [3]; the optical axis of a camera is z.
      cost: cost of a radian [1/rad].
      gain: share of the error to remove in one tick of :func:`solve_velocity`, from 0 to 1.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> x, y, z = artix.frame_pose(arm, state, "tool")[:3]
      >>> # its z axis points upwards
      >>> task = inverse_kinematics.LookAtTask("tool", jnp.array([x, y + 1.0, z]))
      >>> print(task.error(arm, state))  # a quarter turn about x
      [1.571 0.    0.   ]
    """

    frame: str = struct.field(pytree_node=False)
    target: Array
    axis: Any = (0.0, 0.0, 1.0)
    cost: Any = 0.3
    gain: Any = 1.0

    _target_numbers = 3, "a point"

    def error(self, articulation: Articulation, state: State) -> Array:
        """The rotation vector from the direction of the point to the axis, in world axes [rad],
        shape [3].
        """
        return self._turn(
            artix.frame_pose(articulation, state, self.frame), jnp.zeros(6, articulation.dtype)
        )

    def _turn(self, pose: Array, motion: Array) -> Array:
        """The error after a small displacement and rotation [6] of the frame, in world axes."""
        axis = matmul(_matrix(pose), jnp.asarray(self.axis, pose.dtype))
        axis = axis + jnp.cross(motion[3:], axis)
        away = self.target - pose[:3] - motion[:3]
        length = square_root(jnp.sum(away**2))
        is_there = length == 0
        direction = jnp.where(is_there, axis, away / jnp.where(is_there, 1, length))
        # This quaternion, but for its length, turns d into a. Opposite ones turn about any axis
        # across.
        vector, scalar = jnp.cross(direction, axis), 1 + jnp.sum(direction * axis)
        opposite = scalar < 10 * jnp.finfo(pose.dtype).eps
        least = jnp.abs(axis) == jnp.min(jnp.abs(axis))
        across = jnp.cross(axis, least.astype(pose.dtype))
        quaternion = jnp.concatenate([vector, scalar[None]])
        turned = jnp.concatenate([across, jnp.zeros(1, pose.dtype)])
        quaternion = jnp.where(opposite, turned, quaternion)
        return artix.lie.so3_log(quaternion / square_root(jnp.sum(quaternion**2)))

    def jacobian(self, articulation: Articulation, state: State) -> Array:
        """Its derivative, shape [3, nv] [rad per m or rad]."""
        pose = artix.frame_pose(articulation, state, self.frame)
        by_motion = jax.jacfwd(lambda motion: self._turn(pose, motion))(jnp.zeros(6, pose.dtype))
        return matmul(by_motion, artix.frame_jacobian(articulation, state, self.frame))

    def costs(self) -> Array:
        """The cost [1/rad], shape [3]."""
        return jnp.broadcast_to(self.cost, (3,))

    def missed(self, articulation: Articulation, state: State) -> tuple[Any, Any]:
        """No distance [m], and the angle between axis and direction [rad]."""
        return 0.0, jnp.where(
            self.cost > 0, square_root(jnp.sum(self.error(articulation, state) ** 2)), 0.0
        )

    def _checked(self, articulation: Articulation, name: str) -> LookAtTask:
        """See :meth:`Task._checked`; the axis must be a unit vector."""
        if not isinstance(self.frame, str):
            raise TypeError(
                f"{name}.frame: expected the name of a link or frame; found "
                f"{type(self.frame).__name__}"
            )
        dtype = articulation.dtype
        target = as_array(f"{name}.target", self.target, (3,), dtype, "a point")
        check_finite(f"{name}.target", target)
        axis = self.axis if isinstance(self.axis, jax.Array) else np.asarray(self.axis, dtype)
        axis = as_array(f"{name}.axis", axis, (3,), dtype, "a unit vector")
        values = known(axis)
        if values is not None and not abs(np.linalg.norm(values) - 1) < 1e-3:
            raise ValueError(
                f"{name}.axis: expected a unit vector; found length {np.linalg.norm(values):.6g}"
            )
        cost = _costs(self, "cost", name, (), articulation)
        return self.replace(
            target=target, axis=axis, cost=cost, gain=_gain(self, name, articulation)
        )


def checked_tasks(articulation: Articulation, tasks: Any) -> tuple[Task, ...]:
    """The tasks with arrays of the articulation's dtype.

    Raises:
      TypeError: ``tasks`` is not a sequence.
      ValueError: there is no task, or one is wrong; the message names it as ``tasks[k]``.
    """
    if not isinstance(tasks, list | tuple):
        raise TypeError(f"tasks: expected a list of tasks; found {type(tasks).__name__}")
    if not tasks:
        raise ValueError("tasks: give at least one task")
    for k, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise TypeError(
                f"tasks[{k}]: expected a task, such as FrameTask; found {type(task).__name__}"
            )
    return tuple(task._checked(articulation, f"tasks[{k}]") for k, task in enumerate(tasks))


def numbers(
    name: str,
    value: Any,
    shape: tuple[int, ...],
    dtype: Any,
    least: float = 0.0,
    most: float = np.inf,
) -> Any:
    """One number or an array of this shape, in this dtype; raises ``ValueError`` if it is out of
    bounds.
    """
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    if array.dtype.kind not in "fiu" or array.shape not in ((), shape):
        wanted = f"one number or shape {list(shape)}" if shape else "one number"
        raise ValueError(f"{name}: expected {wanted}; found {_describe(value, array)}")
    values = known(array)
    if values is not None and not np.all(
        (values >= least) & (values <= most) & np.isfinite(values)
    ):
        upper = f" and at most {most:g}" if most < np.inf else ""
        raise ValueError(
            f"{name}: expected finite numbers of at least {least:g}{upper}; found {value}"
        )
    return array.astype(dtype)


def _describe(value: Any, array: Any) -> str:
    return f"shape {array.shape}" if array.dtype.kind in "fiu" else repr(value)


def _matrix(pose: Array) -> Array:
    """The rotation matrix of a pose."""
    return rotation_matrix(pose[3:, None])[..., 0]


def _costs(
    task: Any, field: str, name: str, shape: tuple[int, ...], articulation: Articulation
) -> Any:
    return numbers(f"{name}.{field}", getattr(task, field), shape, articulation.dtype)


def _gain(task: Any, name: str, articulation: Articulation) -> Any:
    return numbers(f"{name}.gain", task.gain, (), articulation.dtype, most=1.0)
