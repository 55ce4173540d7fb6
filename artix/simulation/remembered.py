"""The contacts of a step, with what they remember of the step before."""

from __future__ import annotations

from typing import TypeVar

import jax.numpy as jnp

from artix.contact.ground import Ground
from artix.contact.ground_contacts import contacts_with_ground
from artix.kinematics.solve import kinematics
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_bounds import Touching
from artix.simulation.projected.contact_checks import check_solvable
from artix.simulation.projected.contact_rows import Touching as Held
from artix.simulation.projected.friction_anchors import FrictionAnchors

Memory = TypeVar("Memory", ContactMemory, FrictionAnchors)
"""What contacts remember: the one with ``"implicit"``, the other with ``"pgs"`` and ``"tgs"``."""


def no_memory(articulation: Articulation, ground: Ground, options: SolverOptions) -> ContactMemory | FrictionAnchors:
    """What the contacts of a first step remember."""
    if options.solver in ("pgs", "tgs"):
        return FrictionAnchors.none(articulation, ground)
    return ContactMemory.none(articulation, ground, options.max_contacts_per_geometry)


def touching_of(
    articulation: Articulation,
    state: State,
    ground: Ground | None,
    options: SolverOptions,
    memory: ContactMemory | None = None,
) -> Touching | None:
    """The contacts with the ground at the start of a step."""
    if ground is None:
        return None
    kin = kinematics(articulation, state)
    found = contacts_with_ground(articulation, kin, ground, options.max_contacts_per_geometry)
    if memory is None:
        return Touching(found.contacts, found.choice)
    if not isinstance(memory, ContactMemory):
        raise TypeError(
            f"solver='implicit' remembers artix.ContactMemory; the memory is a {type(memory).__name__}: begin with "
            "artix.ContactMemory.none(articulation, ground)"
        )
    candidates = (found.choice.num_candidates, 3)
    check_vector("memory.impulse", memory.impulse, candidates, articulation.dtype, "C candidates of the shapes")
    check_vector("memory.joint_friction", memory.joint_friction, state.joint_position.shape, articulation.dtype, "n")
    # What has opened since, as after an impact, begins with nothing: few iterations do not undo a large impulse.
    impulse = found.choice.recalled(memory.impulse)
    if not options.contact_smoothing:
        closed = found.contacts.gap < options.allowed_penetration
        impulse = jnp.where(closed[:, None], impulse, 0)
    return Touching(found.contacts, found.choice, ContactMemory(impulse, memory.joint_friction))


def held_by(
    articulation: Articulation, state: State, ground: Ground | None, anchors: FrictionAnchors | None
) -> Held | None:
    """The contacts with the ground at the start of a step by PhysX's law."""
    if ground is None:
        return None
    kin = kinematics(articulation, state)
    found = contacts_with_ground(articulation, kin, ground)
    check_solvable(articulation, ground, found, anchors)
    return Held(found, ground, kin.reference, anchors)
