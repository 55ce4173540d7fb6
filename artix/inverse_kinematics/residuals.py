"""All tasks and distances as one least-squares problem, and joint limits."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from artix import Articulation, State
from artix.inverse_kinematics.distances import Distances
from artix.inverse_kinematics.tasks import Task
from artix.math import struct

Array = jax.Array


class Goals(struct.PyTreeNode):
    """What a configuration should satisfy."""

    tasks: Sequence[Task]
    distances: Distances | None
    margin: Array
    """Distance from joint limits [rad or m], [] or [n]."""

    def limits(self, articulation: Articulation) -> tuple[Array, Array]:
        """Joint limits without the margin, [n] each; those of a narrow joint meet in the middle."""
        lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
        margin = jnp.minimum(self.margin, 0.5 * (upper - lower))
        return lower + margin, upper - margin

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
        """:meth:`residual` and its derivative with respect to the configuration, [k], [k, nv]."""
        rows = [task.weighted(articulation, state) for task in self.tasks]
        if self.distances is not None:
            room, slope = self.distances.room_and_jacobian(articulation, state)
            cost, is_near = self.distances.cost, room < 0
            missing = jnp.where(is_near, room, jnp.zeros_like(room))
            slope = jnp.where(is_near[:, None], slope, jnp.zeros_like(slope))
            rows.append((cost * missing, cost * slope))
        return _stacked(rows)

    def steps(self, articulation: Articulation, state: State) -> tuple[Array, Array]:
        """What one tick should add to the errors of all tasks times their costs [k], and their
        Jacobian [k, nv].
        """
        rows = [task.weighted(articulation, state) for task in self.tasks]
        return _stacked(
            [(-task.gain * e, J) for task, (e, J) in zip(self.tasks, rows, strict=True)]
        )


def _stacked(rows: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """All errors and all Jacobians below each other."""
    return jnp.concatenate([e for e, _ in rows]), jnp.concatenate([J for _, J in rows])
