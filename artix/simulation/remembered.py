"""The contacts of a step, with what they remember of the step before."""

from __future__ import annotations

from typing import TypeVar

import jax.numpy as jnp

from artix.contact.ground import Ground
from artix.contact.ground_contacts import contacts_with_ground
from artix.contact.link_contacts import contacts_between_links
from artix.contact.selection import Choice
from artix.kinematics.solve import kinematics
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_bounds import Touching
from artix.simulation.implicit.touches import Touches
from artix.simulation.projected.contact_checks import check_solvable
from artix.simulation.projected.contact_rows import Touching as Held
from artix.simulation.projected.friction_anchors import FrictionAnchors

Memory = TypeVar("Memory", ContactMemory, FrictionAnchors)
"""What contacts remember: the one with ``"implicit"``, the other with ``"pgs"`` and ``"tgs"``."""


def no_memory(
    articulation: Articulation, ground: Ground | None, options: SolverOptions
) -> ContactMemory | FrictionAnchors | None:
    """What the contacts of a first step remember; ``None`` where nothing can touch."""
    if options.solver in ("pgs", "tgs"):
        return None if ground is None else FrictionAnchors.none(articulation, ground)
    if ground is None and not has_pairs(articulation):
        return None
    return ContactMemory.none(articulation, ground, options.max_contacts_per_geometry)


def has_pairs(articulation: Articulation) -> bool:
    """Whether any shapes of an articulation touch each other."""
    return isinstance(articulation.topology, Topology) and bool(articulation.topology.geometry_pairs)


def touching_of(
    articulation: Articulation,
    state: State,
    ground: Ground | None,
    options: SolverOptions,
    memory: ContactMemory | None = None,
) -> Touching | None:
    """The contacts with the ground and between links at the start of a step."""
    touches, choice = _touches_of(articulation, state, ground, options)
    if choice is None:
        return None
    if memory is None:
        return Touching(touches, choice)
    if not isinstance(memory, ContactMemory):
        raise TypeError(
            f"solver='implicit' remembers artix.ContactMemory; the memory is a {type(memory).__name__}: begin with "
            "artix.ContactMemory.none(articulation, ground)"
        )
    candidates = (choice.num_candidates, 3)
    check_vector("memory.impulse", memory.impulse, candidates, articulation.dtype, "C candidates of the shapes")
    check_vector("memory.joint_friction", memory.joint_friction, state.joint_position.shape, articulation.dtype, "n")
    # What has opened since, as after an impact, begins with nothing: few iterations do not undo a large impulse.
    impulse = choice.recalled(memory.impulse)
    if not options.contact_smoothing:
        closed = touches.gap < options.allowed_penetration
        impulse = jnp.where(closed[:, None], impulse, 0)
    return Touching(touches, choice, ContactMemory(impulse, memory.joint_friction))


def _touches_of(
    articulation: Articulation, state: State, ground: Ground | None, options: SolverOptions
) -> tuple[Touches, Choice | None]:
    """The contacts, and which candidates they are; ``None`` where nothing can touch."""
    on_ground = between = None
    choices = []
    kin = kinematics(articulation, state)
    if ground is not None:
        found = contacts_with_ground(articulation, kin, ground, options.max_contacts_per_geometry)
        on_ground = found.contacts
        choices.append(found.choice)
    if has_pairs(articulation):
        between = contacts_between_links(articulation, kin, options.max_link_contacts)
        choices.append(between.choice)
    touches = Touches(on_ground, between)
    return touches, Choice.joined(choices) if choices else None


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
