"""What steps remember of their contacts, so that the next one begins near its solution."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.contact.ground import Ground
from artix.contact.ground_contacts import ground_contacts, touching_shapes
from artix.contact.shape_pairs import ShapePairs
from artix.math import struct
from artix.model.articulation import Articulation
from artix.model.scene import Scene
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
        cls, articulation: Articulation | Scene, ground: Ground | None = None, max_per_geometry: int | None = None
    ) -> ContactMemory:
        """Zeros: what to begin with, and whenever a state is set anew.

        Args:
          articulation: the articulation, or the scene.
          ground: what it stands on, if anything.
          max_per_geometry: ``SolverOptions.max_contacts_per_geometry``.

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
        friction = [jnp.zeros_like(one.armature) for one in members]
        total = friction[0] if len(friction) == 1 else jnp.concatenate(friction)
        return cls(jnp.zeros((count, 3), articulation.dtype), total)


def pairs_of(articulation: Articulation | Scene) -> ShapePairs:
    """The pairs of shapes that touch each other."""
    if not isinstance(articulation, Scene):
        tree = articulation.topology
        return ShapePairs.of([tree] if isinstance(tree, Topology) else [])
    names = articulation.geometry_names
    across = [(names.index(a), names.index(b)) for a, b in articulation.pairs]
    return ShapePairs.of(articulation.topologies, across)


def grounded(articulation: Articulation | Scene) -> tuple[int, ...]:
    """Numbers of the members that may touch the ground.

    Raises:
      ValueError: there is none in a scene.
    """
    if not isinstance(articulation, Scene):
        return (0,)
    found = tuple(k for k, tree in enumerate(articulation.topologies) if touching_shapes(tree))
    if not found:
        raise ValueError(
            f"no member of the scene ({', '.join(articulation.names)}) has geometry that could touch the ground; "
            "sensors and shapes on a fixed root do not count"
        )
    return found
