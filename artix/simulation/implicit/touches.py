"""The contacts of an implicit step: with the ground, and between links."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.constraints.contact_points import Contacts
from artix.contact.link_contacts import LinkContacts
from artix.math import struct

Array = jax.Array


class Touches(struct.PyTreeNode):
    """The contacts with the ground, then those between links; K of them in all."""

    ground: Contacts | None
    between: LinkContacts | None
    """Their points are relative to the reference point."""

    @property
    def num_on_ground(self) -> int:
        """How many of them are with the ground."""
        return 0 if self.ground is None else len(self.ground.gap)

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
        parts = [getattr(part, name) for part in (self.ground, self.between) if part is not None]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
