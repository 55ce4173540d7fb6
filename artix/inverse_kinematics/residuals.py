"""All tasks and distances as one least-squares problem, and joint limits."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

import artix
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

    def limits(self, articulation: artix.Articulation) -> tuple[Array, Array]:
        """Joint limits without the margin, [n] each; those of a narrow joint meet in the middle."""
        lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
        margin = jnp.minimum(self.margin, 0.5 * (upper - lower))
        return lower + margin, upper - margin

    def residual(self, articulation: artix.Articulation, state: artix.State) -> Array:
        """Errors times their costs, and distances that are missing, [k]."""
        parts = [task.weighted(articulation, state)[0] for task in self.tasks]
        if self.distances is not None:
            room = self.distances.room(articulation, state)
            parts.append(self.distances.cost * jnp.minimum(room, jnp.zeros_like(room)))
        return jnp.concatenate(parts)

    def residual_and_jacobian(self, articulation: artix.Articulation, state: artix.State) -> tuple[Array, Array]:
        """:meth:`residual` and its derivative by the generalised coordinates, [k] and [k, nv]."""
        rows = [task.weighted(articulation, state) for task in self.tasks]
        if self.distances is not None:
            room, slope = self.distances.room_and_jacobian(articulation, state)
            cost, is_near = self.distances.cost, room < 0
            errors = jnp.where(is_near, room, jnp.zeros_like(room))
            rows.append((cost * errors, cost * jnp.where(is_near[:, None], slope, jnp.zeros_like(slope))))
        errors, slopes = zip(*rows, strict=True)
        return jnp.concatenate(errors), jnp.concatenate(slopes)

    def steps(self, articulation: artix.Articulation, state: artix.State) -> tuple[Array, Array]:
        """What one tick should add to the errors of all tasks times their costs [k], and their Jacobian [k, nv]."""
        rows = [task.weighted(articulation, state) for task in self.tasks]
        wanted = [-task.gain * error for task, (error, _) in zip(self.tasks, rows, strict=True)]
        return jnp.concatenate(wanted), jnp.concatenate([slope for _, slope in rows])
