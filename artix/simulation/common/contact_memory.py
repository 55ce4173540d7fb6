"""What steps remember of their contacts, so that the next one begins near its solution."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.contact.ground import Ground
from artix.contact.ground_contacts import ground_contacts
from artix.contact.link_contacts import candidate_pairs_of
from artix.math import struct
from artix.model.articulation import Articulation
from artix.model.states import neutral_state
from artix.model.topology import Topology

Array = jax.Array


class ContactMemory(struct.PyTreeNode):
    """The impulses of the last step, carried beside the state; see :func:`artix.step_with_contact_memory`.

    Attributes:
      impulse: of each candidate of the shapes that may touch, surface by surface and shape by shape, then of the pairs
        of shapes, two tangential components, then the normal one, [C, 3] [N s]; zero of those that are no contacts.
      joint_friction: of the joints' dry friction, which shares loads with contacts that stick, [n] [N s or N m s].

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1))
      >>> memory = artix.ContactMemory.none(builder.build(), artix.Ground.flat())
      >>> print(memory.impulse, memory.joint_friction.shape)
      [[0. 0. 0.]] (0,)
    """

    impulse: Array
    joint_friction: Array

    @classmethod
    def none(
        cls, articulation: Articulation, ground: Ground | None = None, max_per_geometry: int | None = None
    ) -> ContactMemory:
        """Zeros: what to begin with, and whenever a state is set anew.

        Args:
          articulation: the articulation.
          ground: what it stands on, if anything.
          max_per_geometry: ``SolverOptions.max_contacts_per_geometry``.

        Raises:
          ValueError: as :func:`artix.ground_contacts`.
        """
        count = 0
        if ground is not None:
            found = jax.eval_shape(
                lambda: (
                    ground_contacts(
                        articulation, neutral_state(articulation), ground, max_per_geometry=max_per_geometry
                    ).choice
                )
            )
            count = found.num_candidates
        if isinstance(articulation.topology, Topology):
            count += len(candidate_pairs_of(articulation.topology))
        return cls(jnp.zeros((count, 3), articulation.dtype), jnp.zeros_like(articulation.armature))
