"""The contacts of an implicit step of one or several articulations: with the ground, and between links."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.constraints.contact_points import Contacts
from artix.contact.ground_contacts import GroundContacts
from artix.contact.link_contacts import LinkContacts
from artix.contact.shape_pairs import ShapePairs
from artix.math import struct

Array = jax.Array


class Touches(struct.PyTreeNode):
    """The contacts with the ground, articulation after articulation, then those between links; K of them in all."""

    found: tuple[GroundContacts | None, ...]
    """Of each articulation with the ground."""
    between: LinkContacts | None
    """Their points are relative to the reference point of the first articulation."""
    pairs: ShapePairs = struct.field(pytree_node=False)
    """The pairs of shapes that touch each other."""

    @property
    def grounds(self) -> tuple[Contacts | None, ...]:
        """The contacts of each articulation with the ground."""
        return tuple(None if found is None else found.contacts for found in self.found)

    def is_external(self, number: int) -> bool:
        """Whether something else than itself may touch an articulation."""
        return self.found[number] is not None or (len(self.grounds) > 1 and self.between is not None)

    @property
    def normal(self) -> Array:
        """[K, 3]."""
        return self._joined("normal")

    @property
    def gap(self) -> Array:
        """[K]."""
        return self._joined("gap")

    @property
    def friction(self) -> Array:
        """[K]."""
        return self._joined("friction")

    @property
    def restitution(self) -> Array:
        """[K]."""
        return self._joined("restitution")

    @property
    def compliance(self) -> Array:
        """[K]."""
        return self._joined("compliance")

    @property
    def relaxation_time(self) -> Array:
        """[K]."""
        return self._joined("relaxation_time")

    def _joined(self, name: str) -> Array:
        parts = [getattr(part, name) for part in (*self.grounds, self.between) if part is not None]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
