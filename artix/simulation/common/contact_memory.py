"""What steps remember of their contacts, so that the next one begins near its solution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from artix.contact.ground import Ground
from artix.contact.ground_contacts import ground_contacts
from artix.model.articulation import Articulation
from artix.model.states import neutral_state

Array = jax.Array


class ContactMemory(struct.PyTreeNode):
    """The impulses of the last step, carried beside the state; see :func:`artix.step_with_contact_memory`.

    Attributes:
      impulse: of each contact two tangential components, then the normal one, [K, 3] [N s].
      joint_friction: of the joints' dry friction, which shares loads with contacts that stick, [n] [N s or N m s].
    """

    impulse: Array
    joint_friction: Array

    @classmethod
    def none(cls, articulation: Articulation, ground: Ground, max_per_geometry: int | None = None) -> ContactMemory:
        """Zeros: what to begin with, and whenever a state is set anew.

        Args:
          articulation: the articulation.
          ground: what it stands on.
          max_per_geometry: ``SolverOptions.max_contacts_per_geometry``.

        Raises:
          ValueError: as :func:`artix.ground_contacts`.
        """

        def points() -> Array:
            state = neutral_state(articulation)
            return ground_contacts(articulation, state, ground, max_per_geometry=max_per_geometry).contacts.point

        found = jax.eval_shape(points)
        return cls(jnp.zeros(found.shape, found.dtype), jnp.zeros_like(articulation.armature))
