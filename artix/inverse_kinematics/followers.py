"""Mimic joints: joints that follow others move with them, and limit them by their own limits.

All vectors keep their size. The entries of followers are zero in what is solved for, and what
follows from the others in what is returned.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import Articulation, State
from artix.math.arrays import matmul

Array = jax.Array


class Followers(NamedTuple):
    """``q = G q + offset`` for the positions and ``x = G x`` for displacements, where the columns
    of followers are zero in G; see :func:`artix.mimic_map`.

    Attributes:
      matrix: G, [nv, nv].
      offset: constant part of the positions, [n], zero except for followers.
      leaders: the DOF that each DOF ultimately follows, itself if it is none, [n]; static.
    """

    matrix: Array
    offset: Array
    leaders: np.ndarray

    @property
    def follow(self) -> np.ndarray:
        """Which DOFs follow others, [n]."""
        return self.leaders != np.arange(len(self.leaders))

    @property
    def ratios(self) -> Array:
        """How far each DOF moves with the one that it ultimately follows, [n]."""
        base = len(self.matrix) - len(self.offset)
        return self.matrix[base + np.arange(len(self.leaders)), base + self.leaders]

    def narrow(self, lower: Array, upper: Array, offset: Array | float) -> tuple[Array, Array]:
        """The bounds [n] within which followers keep theirs, too; both meet where none do.

        Those of followers are infinite.
        """
        ratio = self.ratios
        is_tied = self.follow & (ratio != 0)
        divisor = jnp.where(is_tied, ratio, jnp.ones_like(ratio))
        infinite = jnp.full_like(lower, jnp.inf)

        def end(bound: Array) -> Array:
            is_finite = jnp.isfinite(bound)
            value = (jnp.where(is_finite, bound, jnp.zeros_like(bound)) - offset) / divisor
            return jnp.where(is_finite, value, jnp.where(divisor > 0, bound, -bound))

        ends = jnp.stack([end(lower), end(upper)])
        low = jnp.where(is_tied, jnp.min(ends, axis=0), -infinite)
        high = jnp.where(is_tied, jnp.max(ends, axis=0), infinite)
        free = ~self.follow
        low = jnp.where(free, lower, -infinite).at[self.leaders].max(low)
        high = jnp.where(free, upper, infinite).at[self.leaders].min(high)
        crossed = low > high
        middle = 0.5 * jnp.sum(jnp.where(crossed, jnp.stack([low, high]), 0), axis=0)
        return jnp.where(crossed, middle, low), jnp.where(crossed, middle, high)


def followers_of(articulation: Articulation) -> Followers | None:
    """The mimic joints of an articulation; ``None`` if it has none.

    Raises:
      ValueError: as :func:`artix.mimic_map` raises it.
    """
    topology = articulation.topology
    if not topology.mimic_dofs:
        return None
    mapped = artix.mimic_map(articulation)
    base, n = topology.num_base_dofs, topology.num_dofs
    independent = np.array(mapped.independent, int)
    columns = np.concatenate([np.arange(base), base + independent]).astype(int)
    matrix = jnp.zeros((base + n, base + n), articulation.dtype).at[:, columns].set(mapped.matrix)
    above = dict(topology.mimic_dofs)
    leaders = np.arange(n)
    for dof in range(n):
        while leaders[dof] in above:
            leaders[dof] = above[int(leaders[dof])]
    return Followers(matrix, mapped.offset, leaders)


def placed(articulation: Articulation, state: State) -> State:
    """The configuration with followers where the joints that they follow put them."""
    if not articulation.topology.mimic_dofs:
        return state
    mapped = artix.mimic_map(articulation)
    return state.replace(joint_position=mapped.expand(mapped.reduce(state)).joint_position)


def with_followers(articulation: Articulation, jacobian: Array) -> Array:
    """A derivative [k, nv] by displacements of the joints that follow none."""
    followers = followers_of(articulation)
    return jacobian if followers is None else matmul(jacobian, followers.matrix)


def moved_with_followers(articulation: Articulation, displacement: Array) -> Array:
    """The displacement [nv] of all joints, given those that follow none."""
    followers = followers_of(articulation)
    return displacement if followers is None else matmul(followers.matrix, displacement)


def is_independent(articulation: Articulation) -> np.ndarray:
    """Which joint DOFs follow no other, [n]."""
    mask = np.ones(articulation.topology.num_dofs, bool)
    mask[[follower for follower, _ in articulation.topology.mimic_dofs]] = False
    return mask


def warn_of_loops(articulation: Articulation) -> None:
    """Says that loop joints are not kept."""
    names = [joint.name for joint in articulation.topology.loop_joints]
    if names:
        warnings.warn(
            f"articulation: inverse kinematics does not keep its loop joints "
            f"({', '.join(map(repr, names))}) closed; add a task that does",
            stacklevel=4,
        )
