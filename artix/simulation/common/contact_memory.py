"""What a step remembers of its contacts, so that the next one starts near its solution."""

from __future__ import annotations

import jax
import numpy as np

from artix.contact.ground import Ground
from artix.contact.ground_contacts import ground_contacts
from artix.contact.shape_pairs import ShapePairs
from artix.math import struct
from artix.math.arrays import device_array
from artix.model.articulation import Articulation
from artix.model.scene import Scene
from artix.model.states import neutral_state

Array = jax.Array


class ContactMemory(struct.PyTreeNode):
    """The impulses of the previous step, carried along with the state; see :func:`artix.step_with_contact_memory`.

    Attributes:
      impulse: impulse of each contact candidate, two tangential components and then the normal one, [C, 3] [N s]; zero
        for candidates that are not in contact. Candidates with the ground come first, surface by surface and shape by
        shape, then those of pairs of shapes.
      joint_friction: impulse of the joints' dry friction, which shares loads with sticking contacts, [n] [N s or
        N m s].

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
        cls, articulation: Articulation | Scene, ground: Ground | None = None, max_per_geometry: int | None = None
    ) -> ContactMemory:
        """An empty memory, for the first step and after a state has been set.

        Args:
          articulation: the articulation, or the scene.
          ground: the ground, if any.
          max_per_geometry: ``max_contacts_per_geometry`` of the step's :class:`SolverOptions`.

        Raises:
          ValueError: as :func:`artix.ground_contacts`.
        """
        members = articulation.articulations if isinstance(articulation, Scene) else (articulation,)
        count = len(pairs_of(articulation).candidate_pairs)
        if ground is not None:
            for k in grounded(articulation):
                found = jax.eval_shape(
                    lambda one=members[k]: (
                        ground_contacts(one, neutral_state(one), ground, max_per_geometry=max_per_geometry).choice
                    )
                )
                count += found.num_candidates
        dofs = sum(one.topology.num_dofs for one in members)
        return cls(*(device_array(np.zeros(shape), articulation.dtype) for shape in ((count, 3), dofs)))


def pairs_of(articulation: Articulation | Scene) -> ShapePairs:
    """The pairs of shapes that can touch each other."""
    if not isinstance(articulation, Scene):
        return ShapePairs.of([articulation.topology])
    names = articulation.geometry_names
    across = [(names.index(a), names.index(b)) for a, b in articulation.pairs]
    return ShapePairs.of(articulation.topologies, across)


def grounded(articulation: Articulation | Scene) -> tuple[int, ...]:
    """Indices of the members that can touch the ground.

    Raises:
      ValueError: no member of a scene can.
    """
    if not isinstance(articulation, Scene):
        return (0,)
    found = tuple(k for k, tree in enumerate(articulation.topologies) if tree.touching_geometries)
    if not found:
        raise ValueError(
            f"no member of the scene ({', '.join(articulation.names)}) has geometry that can touch the ground; "
            "sensors and shapes on a fixed root do not count"
        )
    return found
