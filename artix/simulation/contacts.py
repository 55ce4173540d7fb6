"""The contacts at the start of a step, and what they remember from the previous one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import jax.numpy as jnp

from artix.contact.ground import Ground
from artix.contact.ground_contacts import GroundContacts, contacts_with_ground, nearest_contacts
from artix.contact.link_contacts import contacts_of_pairs
from artix.contact.selection import Choice
from artix.kinematics.solve import kinematics
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.scene import Scene
from artix.simulation.common.contact_memory import ContactMemory, grounded, pairs_of
from artix.simulation.common.options import SolverOptions
from artix.simulation.common.solvers import HOMES, solver_of
from artix.simulation.implicit.contact_bounds import Touching
from artix.simulation.implicit.touches import Touches

Memory = TypeVar("Memory")
"""What contacts remember: a :class:`ContactMemory` with ``"implicit"``, or the class of memory of another solver."""


def no_memory(articulation: Articulation | Scene, ground: Ground | None, options: SolverOptions) -> Any:
    """The memory for a first step; ``None`` if nothing can touch."""
    if options.solver in HOMES and not isinstance(articulation, Scene):
        return None if ground is None else solver_of(options.solver).memory.none(articulation, ground)
    if ground is None and not has_pairs(articulation):
        return None
    return ContactMemory.none(articulation, ground, options.max_contacts_per_geometry)


def check_memory(memory: object, options: SolverOptions) -> None:
    """Raises ``TypeError`` unless this is a memory of the solver's contacts."""
    kind: type = solver_of(options.solver).memory if options.solver in HOMES else ContactMemory
    if not isinstance(memory, kind):
        raise TypeError(
            f"solver={options.solver!r} needs an artix.{kind.__name__}; found a {type(memory).__name__}: start with "
            f"artix.{kind.__name__}.none(articulation, ground)"
        )


def has_pairs(articulation: Articulation | Scene) -> bool:
    """Whether an articulation or a scene has pairs of shapes that can touch each other."""
    if isinstance(articulation, Scene):
        return bool(articulation.pairs) or any(has_pairs(one) for one in articulation.articulations)
    return bool(articulation.topology.geometry_pairs)


def touching_of(
    articulation: Articulation | Scene,
    states: Sequence[State],
    ground: Ground | None,
    options: SolverOptions,
    memory: ContactMemory | None,
) -> Touching | None:
    """The contacts with the ground and between links at the start of a step; ``None`` if nothing can touch."""
    if ground is None and not has_pairs(articulation):
        return None
    found = _touches_of(articulation, states, ground, options)
    if found is None:
        return None
    touches, choice = found
    if memory is None:
        return Touching(touches, choice)
    candidates, dofs = (choice.num_candidates, 3), (sum(len(state.joint_position) for state in states),)
    check_vector("memory.impulse", memory.impulse, candidates, articulation.dtype, "C candidates of the shapes")
    check_vector("memory.joint_friction", memory.joint_friction, dofs, articulation.dtype, "n")
    # Contacts that have opened, as after an impact, start from zero: few iterations cannot undo a large impulse.
    impulse = choice.recalled(memory.impulse)
    if not options.contact_smoothing:
        closed = touches.gap < options.allowed_penetration
        impulse = jnp.where(closed[:, None], impulse, 0)
    return Touching(touches, choice, ContactMemory(impulse, memory.joint_friction))


def _touches_of(
    articulation: Articulation | Scene, states: Sequence[State], ground: Ground | None, options: SolverOptions
) -> tuple[Touches, Choice] | None:
    """The contacts, and which candidates they are; ``None`` if nothing can touch."""
    members = articulation.articulations if isinstance(articulation, Scene) else (articulation,)
    kins = [kinematics(*member) for member in zip(members, states, strict=True)]
    grounds: list[GroundContacts | None] = [None] * len(members)
    between, choices = None, []
    if ground is not None:
        for k in grounded(articulation):
            every = contacts_with_ground(members[k], kins[k], ground, options.max_contacts_per_geometry)
            grounds[k] = found = nearest_contacts(members[k], kins[k], every, options.max_ground_contacts)
            choices.append(found.choice)
    pairs = pairs_of(articulation)
    if len(pairs):
        between = contacts_of_pairs(members, kins, pairs, options.max_link_contacts)
        choices.append(between.choice)
    return (Touches(tuple(grounds), between, pairs), Choice.joined(choices)) if choices else None
