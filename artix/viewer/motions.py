"""Poses of all links of all robots in all frames, for still states, motions and batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import Articulation, Fleet, State, Topology
from artix.math.arrays import host_arrays

#: What the viewer shows: robots of one kind, a fleet, or several articulations in one world.
Robots = Articulation | Fleet | artix.Scene


@dataclasses.dataclass(frozen=True)
class Kind:
    """The robots of one topology.

    Attributes:
      articulation: parameters of the first robot, which define the shapes.
      members: indices of the K robots among all robots, shape [K].
      poses: poses of their links: position [m], quaternion xyzw, shape [T, K, L, 7].
    """

    articulation: Articulation
    members: np.ndarray
    poses: np.ndarray

    @property
    def topology(self) -> Topology:
        """Their static topology."""
        return self.articulation.topology


@dataclasses.dataclass(frozen=True)
class Motion:
    """Robots and their states at T times.

    Attributes:
      robots: one articulation, whose arrays may have a leading axis [N], or a fleet.
      states: every leaf with leading axes [T, N].
    """

    robots: Articulation | Fleet
    states: State

    @classmethod
    def of(cls, robots: Articulation | Fleet, states: State) -> Motion:
        """Makes a motion from states with any of the allowed leading axes.

        Args:
          robots: one articulation, whose arrays may have a leading axis [N] of robots, or a fleet.
          states: of one articulation: leaves ``joint_position`` of shape [n] for a still, [T, n] for a motion,
            [T, N, n] for motions of a batch; of N articulations or of a fleet: [N, n] or [T, N, n].

        Raises:
          ValueError: a leaf of the states has a wrong shape, or a state is not finite.
        """
        if isinstance(robots, Fleet):
            return cls(robots, _arranged(states, robots.num_members, robots.num_dofs, "the fleet"))
        topology = robots.topology
        count = len(robots.link_mass) if robots.link_mass.ndim == 2 else None
        return cls(robots, _arranged(states, count, topology.num_dofs, repr(topology.name)))

    @property
    def num_frames(self) -> int:
        """Number T of times."""
        return int(self.states.joint_position.shape[0])

    @property
    def num_robots(self) -> int:
        """Number N of robots."""
        return int(self.states.joint_position.shape[1])

    def evaluate(self, function: Callable[..., Any]) -> Any:
        """Evaluates a function of one articulation and its state for all robots at all times: NumPy leaves [T, N, ...].

        Args:
          function: a function such as ``artix.frame_pose``.
        """
        robots = self.robots
        states = jax.tree.map(lambda leaf: jnp.asarray(leaf, robots.dtype), self.states)
        if isinstance(robots, Fleet):  # A fleet's programs take its members at one time.
            frames = [jax.tree.map(lambda leaf, t=t: leaf[t], states) for t in range(self.num_frames)]
            results = [host_arrays(robots.evaluate(function, frame)) for frame in frames]
            return jax.tree.map(lambda *leaves: np.stack(leaves), *results)
        over_robots = jax.vmap(function, in_axes=(0 if robots.link_mass.ndim == 2 else None, 0))
        return host_arrays(jax.jit(jax.vmap(over_robots, in_axes=(None, 0)))(robots, states))

    def kinds(self) -> list[Kind]:
        """The robots by topology, with the motion of their links."""
        poses = self.evaluate(artix.frame_pose).astype(float)
        robots = self.robots
        if not isinstance(robots, Fleet):
            first = jax.tree.map(lambda leaf: leaf[0], robots) if robots.link_mass.ndim == 2 else robots
            return [Kind(first, np.arange(self.num_robots), poses)]
        kinds = list[Kind]()
        for topology in dict.fromkeys(robots.topologies):
            members = np.array([k for k, one in enumerate(robots.topologies) if one == topology])
            kinds.append(Kind(robots.member(int(members[0])), members, poses[:, members, : topology.num_links]))
        return kinds


def _arranged(states: State, count: int | None, width: int, owner: str) -> State:
    """Arranges states as NumPy arrays [T, N, ...].

    Args:
      states: the states from the user.
      count: the number of robots; ``None`` for one articulation with any number of robots.
      width: the number of joint coordinates.
      owner: how messages name the robots.
    """
    if not isinstance(states, State):
        raise ValueError(f"states must be an artix.State, such as artix.rollout returns; found {type(states).__name__}")
    widths = {"root_pose": 7, "root_velocity": 6, "joint_position": width, "joint_velocity": width}
    arrays = {name: np.asarray(getattr(states, name)) for name in widths}
    leading = arrays["joint_position"].shape[:-1]
    for name, array in arrays.items():
        if array.shape != (*leading, widths[name]):
            raise ValueError(
                f"states of {owner}: {name} must have shape [..., {widths[name]}] with the leading axes {leading} of "
                f"joint_position; found {array.shape}"
            )
        if not np.isfinite(array).all():
            frame = np.argwhere(~np.isfinite(array))[0][: len(leading)].tolist()
            raise ValueError(f"states of {owner}: {name} is not finite at {frame}; cut the motion there")
    axes = {0: (1, 1), 1: (leading[0], 1) if leading else (), 2: leading}
    if count is not None:
        axes = {1: (1, count), 2: leading}
        if len(leading) not in axes or leading[-1] != count:
            raise ValueError(f"states of {owner}: expected leading axes [{count}] or [T, {count}]; found {leading}")
    if len(leading) not in axes or 0 in leading:
        raise ValueError(
            f"states of {owner}: expected no leading axes (a still), [T] (a motion) or [T, N] (motions of a batch), "
            f"none of them empty; found {leading}"
        )
    return State(*(array.reshape(*axes[len(leading)], -1) for array in arrays.values()))  # type: ignore[arg-type]  # NumPy's
