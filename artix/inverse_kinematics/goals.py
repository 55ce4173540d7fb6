"""What a configuration should satisfy: tasks to reach, distances to keep and joint limits, as one
least-squares problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import artix
from artix import Articulation, State
from artix.inverse_kinematics.followers import followers_of, with_followers
from artix.inverse_kinematics.tasks import Task, numbers
from artix.math import struct
from artix.math.arrays import check_finite, matmul
from artix.model.checks import check_quaternion

Array = jax.Array


class Distances(struct.PyTreeNode):
    """Least distances between shapes: mink's ``CollisionAvoidanceLimit``, pink's
    ``SelfCollisionBarrier``.

    Distances d are those of :func:`artix.geometry_pair_distances`.

    Attributes:
      pairs: names of the two shapes of each of P pairs, the robot's shapes or obstacles, static.
        ``artix.editing.possible_geometry_pairs`` lists the robot's own.
      obstacles: shapes in the world by names of their own, with poses in world axes; static.
      obstacle_poses: poses of obstacles that move, by their names, each position [m] and quaternion
        xyzw, shape [7].
      minimum: the least distance [m], one or [P].
      gain: the share of ``d - minimum`` that may be lost in one tick of :func:`solve_velocity`,
        from 0 to 1. Small ones slow down early.
      cost: cost of a metre that is missing [1/m] in :func:`solve`.

    Raises:
      TypeError: ``pairs`` is a string.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> builder = artix.builder_from_articulation(arm)
      >>> builder.add_geometry("hand", artix.Geometry.sphere(0.08), name="palm")
      >>> arm = builder.build()
      >>> wall = artix.Geometry.box((0.1, 2.0, 2.0), pose=(0.6, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
      >>> away = inverse_kinematics.Distances([("palm", "wall")], {"wall": wall}, minimum=0.02)
      >>> print(away.room(arm, artix.neutral_state(arm)).shape)
      (1,)
    """

    pairs: Sequence[tuple[str, str]] = struct.field(pytree_node=False)
    obstacles: Any = struct.field(pytree_node=False, default=())
    obstacle_poses: Mapping[str, Array] | None = None
    minimum: Any = 0.01
    gain: Any = 0.2
    cost: Any = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.pairs, str):
            raise TypeError(f"pairs: expected pairs of names; found the string {self.pairs!r}")
        object.__setattr__(self, "pairs", tuple(tuple(pair) for pair in self.pairs))
        object.__setattr__(self, "obstacles", tuple(dict(self.obstacles).items()))

    def room(self, articulation: Articulation, state: State) -> Array:
        """By how much distances exceed their least ones, ``d - minimum`` [m], shape [P]."""
        return self._measured(articulation, state).distance - self.minimum

    def room_and_jacobian(self, articulation: Articulation, state: State) -> tuple[Array, Array]:
        """:meth:`room` [m], [P], and its derivative with respect to the configuration, [P, nv]
        [m per m or rad].

        A row is ``n (J_a - J_b)`` at the nearest points, with the normal n from the second shape to
        the first.
        """
        closest = self._measured(articulation, state)
        topology = articulation.topology
        names = [shape.name for shape in topology.geometries]
        half = 0.5 * closest.distance[:, None] * closest.normal
        rows = []
        for k, pair in enumerate(self.pairs):
            row = jnp.zeros(topology.nv, articulation.dtype)
            for name, sign in zip(pair, (1, -1), strict=True):
                if name in names:
                    link = topology.geometries[names.index(name)].link
                    J = artix.frame_jacobian(articulation, state, link)
                    arm = (
                        closest.point[k]
                        + sign * half[k]
                        - artix.frame_pose(articulation, state, link)[:3]
                    )
                    normal = sign * closest.normal[k]
                    row = row + matmul(normal, J[:3]) + matmul(jnp.cross(arm, normal), J[3:])
            rows.append(row)
        return closest.distance - self.minimum, jnp.stack(rows)

    def _measured(self, articulation: Articulation, state: State) -> artix.contact.PairDistances:
        return artix.geometry_pair_distances(
            articulation,
            state,
            self.pairs,
            obstacles=dict(self.obstacles),
            obstacle_poses=self.obstacle_poses,
        )

    def _checked(self, articulation: Articulation) -> Distances:
        """The same with arrays of the articulation's dtype.

        Raises:
          ValueError: there is no pair, an array has the wrong shape, or a known number is wrong.
        """
        if not self.pairs:
            raise ValueError("distances.pairs: give at least one pair of names of shapes")
        dtype = articulation.dtype
        shape = (len(self.pairs),)
        for name, pose in (self.obstacle_poses or {}).items():
            check_finite(f"distances.obstacle_poses[{name!r}]", pose)
            check_quaternion(f"distances.obstacle_poses[{name!r}]", pose)
        return self.replace(
            minimum=numbers("distances.minimum", self.minimum, shape, dtype),
            gain=numbers("distances.gain", self.gain, (), dtype, most=1.0),
            cost=numbers("distances.cost", self.cost, (), dtype),
        )


class Goals(struct.PyTreeNode):
    """What a configuration should satisfy."""

    tasks: Sequence[Task]
    distances: Distances | None
    margin: Array
    """Distance from joint limits [rad or m], [] or [n]."""

    def limits(self, articulation: Articulation) -> tuple[Array, Array]:
        """Joint limits without the margin, [n] each; those of a narrow joint meet in the middle.

        Joints that others follow keep within the limits of these, whose own are infinite here.
        """
        lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
        margin = jnp.minimum(self.margin, 0.5 * (upper - lower))
        lower, upper = lower + margin, upper - margin
        followers = followers_of(articulation)
        if followers is None:
            return lower, upper
        return followers.narrow(lower, upper, followers.offset)

    def residual(self, articulation: Articulation, state: State) -> Array:
        """Errors times their costs, and distances that are missing, [k]."""
        parts = [task.weighted(articulation, state)[0] for task in self.tasks]
        if self.distances is not None:
            room = self.distances.room(articulation, state)
            parts.append(self.distances.cost * jnp.minimum(room, jnp.zeros_like(room)))
        return jnp.concatenate(parts)

    def residual_and_jacobian(
        self, articulation: Articulation, state: State
    ) -> tuple[Array, Array]:
        """:meth:`residual` and its derivative with respect to the configuration, [k], [k, nv].

        Joints that follow others have no columns of their own, but move with these.
        """
        rows = [task.weighted(articulation, state) for task in self.tasks]
        if self.distances is not None:
            room, slope = self.distances.room_and_jacobian(articulation, state)
            cost = self.distances.cost
            is_near = room < 0
            missing = jnp.where(is_near, room, jnp.zeros_like(room))
            slope = jnp.where(is_near[:, None], slope, jnp.zeros_like(slope))
            rows.append((cost * missing, cost * slope))
        return _stacked(articulation, rows)

    def steps(self, articulation: Articulation, state: State) -> tuple[Array, Array]:
        """What one tick should add to the errors of all tasks times their costs [k], and their
        Jacobian [k, nv].
        """
        rows = [task.weighted(articulation, state) for task in self.tasks]
        shares = [(-task.gain * e, J) for task, (e, J) in zip(self.tasks, rows, strict=True)]
        return _stacked(articulation, shares)


def _stacked(
    articulation: Articulation, rows: Sequence[tuple[Array, Array]]
) -> tuple[Array, Array]:
    """All errors and all Jacobians below each other."""
    slope = jnp.concatenate([J for _, J in rows])
    return jnp.concatenate([e for e, _ in rows]), with_followers(articulation, slope)
