"""The reference for a mixed fleet: Pinocchio on each member."""

from __future__ import annotations

import numpy as np

from benchmarks.reference import Coordinates, Reference, States
from benchmarks.robots import Robot


class FleetReference:
    """Several robots that alternate in a batch: state k belongs to member k modulo the number of
    members."""

    def __init__(self, robot: Robot) -> None:
        self.members = [Reference(member) for member in robot.members]

    def random_states(self, count: int, seed: int = 0) -> tuple[States, ...]:
        """States of every member: its share of ``count``, rounded up."""
        share = -(-count // len(self.members))
        return tuple(member.random_states(share, seed + k) for k, member in enumerate(self.members))

    def values(
        self, states: tuple[States, ...], k: int, coordinates: Coordinates
    ) -> dict[str, np.ndarray]:
        """The quantities of articulation k of a batch, from :meth:`Reference.values` of its
        member."""
        member = k % len(self.members)
        return self.members[member].values(states[member], k // len(self.members), coordinates)
