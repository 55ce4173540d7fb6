"""The contacts of an implicit step, with the ground and between links, for one or several articulations."""

from __future__ import annotations

import jax

from artix.contact.ground_contacts import GroundContacts
from artix.contact.link_contacts import LinkContacts
from artix.contact.shape_pairs import ShapePairs
from artix.kinematics.contact_points import Contacts
from artix.math import struct
from artix.math.arrays import joined

Array = jax.Array


class Touches(struct.PyTreeNode):
    """All K contacts: those with the ground, articulation by articulation, then those between links."""

    found: tuple[GroundContacts | None, ...]
    """Contacts of each articulation with the ground, and the shapes they belong to."""
    between: LinkContacts | None
    """Contacts between links. Their points are relative to the first articulation's reference point."""
    pairs: ShapePairs = struct.field(pytree_node=False)
    """The pairs of shapes that can touch each other."""

    @property
    def grounds(self) -> tuple[Contacts | None, ...]:
        """Contacts of each articulation with the ground."""
        return tuple(None if found is None else found.contacts for found in self.found)

    @property
    def is_spread(self) -> bool:
        """Whether it is known that no link has more than one contact."""
        grounds = [ground for ground in self.found if ground is not None]
        if self.between is not None or any(ground.source is not None for ground in grounds):
            return False
        links = [ground.contacts.links or ground.geometries for ground in grounds]
        return all(len(set(each)) == len(each) for each in links)

    def is_external(self, number: int) -> bool:
        """Whether an articulation can touch anything other than itself."""
        return self.found[number] is not None or (len(self.grounds) > 1 and self.between is not None)

    @property
    def normal(self) -> Array:
        """Normals, [K, 3]."""
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
        return joined([getattr(part, name) for part in (*self.grounds, self.between) if part is not None])
