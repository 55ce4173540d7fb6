"""A mixed fleet in artix: several topologies in one compiled function, results padded to common
maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from benchmarks.fleet import FleetReference
from benchmarks.libraries.artix import Artix
from benchmarks.libraries.base import JaxProgram
from benchmarks.reference import States
from benchmarks.robots import Robot, articulation

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "link poses": lambda articulation, state, a, f: artix.frame_pose(articulation, state),
    "mass matrix": lambda articulation, state, a, f: artix.mass_matrix(articulation, state),
    "bias force": lambda articulation, state, a, f: artix.bias_force(articulation, state),
    "inverse dynamics": lambda articulation, state, a, f: artix.inverse_dynamics(
        articulation, state, a
    ),
    "forward dynamics": lambda articulation, state, a, f: artix.forward_dynamics(
        articulation, state, f
    ),
}


class ArtixFleet:
    """The members alternate: articulation k of a batch is member k modulo the number of members.

    Results of padded members are cut to the member's own entries, then compared like those of a
    single robot.
    """

    version = Artix.version
    quantities = tuple(_FUNCTIONS)

    def __init__(self, robot: Robot, reference: FleetReference) -> None:
        self.members = [
            Artix(member, one) for member, one in zip(robot.members, reference.members, strict=True)
        ]
        self.articulations = [articulation(member) for member in robot.members]
        self.floating = any(member.base for member in self.members)
        self.memory_limit = float("inf")

    def hold(self, states: tuple[States, ...]) -> None:
        """Sets the states of all later programs; each member gets its share of the batch, rounded
        up."""
        fleet = self._fleet(len(states[0].q) * len(states))
        self.width = fleet.num_dofs
        inputs = [member.inputs(own) for member, own in zip(self.members, states, strict=True)]
        accelerations = _interleaved(
            [self._padded(m, a) for m, (_, a) in zip(self.members, inputs, strict=True)]
        )
        force = accelerations.at[:, : 6 if self.floating else 0].set(0)
        state = artix.State(
            _interleaved([own.root_pose for own, _ in inputs]),
            _interleaved([own.root_velocity for own, _ in inputs]),
            _interleaved([self._widened(own.joint_position) for own, _ in inputs]),
            _interleaved([self._widened(own.joint_velocity) for own, _ in inputs]),
        )
        self._inputs = (state, accelerations, force)

    def program(self, quantity: str, batch: int) -> JaxProgram:
        function, fleet = _FUNCTIONS[quantity], self._fleet(batch)
        inputs = jax.tree.map(lambda leaf: leaf[:batch], self._inputs)
        program = JaxProgram(
            lambda *inputs: fleet.evaluate(function, *inputs), inputs, self.memory_limit
        )
        operations = [_operations(function, articulation) for articulation in self.articulations]
        program.facts["operations"] = float(
            sum(operations[k % len(operations)] for k in range(batch))
        )
        return program

    def _fleet(self, count: int) -> artix.Fleet:
        return artix.Fleet([self.articulations[k % len(self.articulations)] for k in range(count)])

    def convert(self, quantity: str, value: np.ndarray) -> list[np.ndarray]:
        return [
            self._cut(quantity, value[k], self.members[k % len(self.members)])
            for k in range(len(value))
        ]

    def coordinates(
        self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.members[0].coordinates(rotation, twist, center)

    def _cut(self, quantity: str, value: np.ndarray, member: Artix) -> np.ndarray:
        n, links = member.nv - member.base, member.articulation.topology.num_links
        root = 6 if self.floating else 0
        own = [*range(member.base), *range(root, root + n)]
        if quantity == "link poses":
            value = value[:links]
        elif quantity == "mass matrix":
            value = value[np.ix_(own, own)]
        else:
            value = value[own]
        return member.convert(quantity, value[None])[0]

    def _padded(self, member: Artix, acceleration: jax.Array) -> jax.Array:
        """Entries of the root first (zero for a fixed base), then the joints, then zeros."""
        root = jnp.zeros(
            (len(acceleration), (6 if self.floating else 0) - member.base), acceleration.dtype
        )
        joints = self._widened(acceleration[:, member.base :])
        return jnp.concatenate([acceleration[:, : member.base], root, joints], axis=1)

    def _widened(self, joints: jax.Array) -> jax.Array:
        return jnp.pad(joints, ((0, 0), (0, self.width - joints.shape[1])))


def _operations(function: Callable[..., Any], articulation: artix.Articulation) -> int:
    """Scalar operations of a function of one articulation; XLA does not look into kernels."""
    vector = jnp.zeros(articulation.topology.nv, articulation.dtype)
    costs = artix.explain(
        function, articulation, artix.neutral_state(articulation), vector, vector
    ).operations
    return sum(sum(cost.operations) for cost in costs)


def _interleaved(parts: list[jax.Array]) -> jax.Array:
    """Interleaves the arrays [N, ...] of the members."""
    return jnp.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])
