"""The contacts at the start of a step, and what states remember of those of the previous one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from artix.contact.ground_contacts import (
    GroundContacts,
    contacts_with_ground,
    nearest_contacts,
    say_budget,
)
from artix.contact.link_contacts import contacts_of_pairs
from artix.contact.scene import Scene
from artix.contact.selection import Choice
from artix.kinematics.forward import kinematics
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.simulation.common.contact_memory import (
    ContactMemory,
    empty_memories,
    join_memories,
    part_memory,
)
from artix.simulation.common.options import SolverOptions, solver_of
from artix.simulation.common.step_start import has_loop_joints, has_tendons
from artix.simulation.implicit.contact_motions import Touches
from artix.simulation.implicit.contact_rows import Touching
from artix.simulation.implicit.contact_stiffness import products_by_points, products_of_data

#: Without a budget, a step with more points than the first of these, on more links than the second,
#: is first solved with as many of them as the second: a humanoid stands on eight corners. Points of
#: few links share their motions and often touch together.
_MANY, _FEW = 32, 8

#: The most products of the stiffness of the nearest few, whose links are data, so that they have
#: rows of all DOFs. Solving with them takes seven operations a product: beyond 75 DOFs a third of
#: what one kernel takes, as many as 200 points whose links are known.
_MOST_PRODUCTS = 50_000


#: The longest generalised velocity of a scene that is written out: that of twelve free bodies. With
#: thirteen boxes that may all touch, a step is too much for one kernel.
MOST_VELOCITIES = 72


def has_many_bodies(scene: Scene, options: SolverOptions) -> bool:
    """Whether a step of this scene is one of stacks."""
    trees = scene.topologies
    sizes = [tree.nv for tree in trees]
    # One large robot is written out, also with a few objects.
    is_large = sum(sizes) > MOST_VELOCITIES and 2 * max(sizes) <= sum(sizes)
    if not (options.is_implicit and is_large):
        return False
    # What couples more than a tree is in none of the stacks' equations.
    is_plain = not any(
        len(tree.mimic_dofs) or has_tendons(tree) or has_loop_joints(tree) for tree in trees
    )
    return is_plain and len(scene.shape_pairs) > 0


def with_empty_memory(
    scene: Scene, states: Sequence[State], options: SolverOptions
) -> tuple[State, ...]:
    """The robots' states with memories for a first step; unchanged if nothing can touch."""
    if not scene.can_touch or options.solver == "rk4":
        return tuple(states)
    memories: list[Any] = []
    if options.is_implicit:
        memories = list(empty_memories(scene))
    elif scene.ground is not None and scene.grounded and not scene.names:
        memories = [solver_of(options.solver).memory.none(scene.articulations[0], scene.ground)]
    return with_memories(states, memories) if memories else tuple(states)


def with_memories(states: Sequence[State], memories: Sequence[Any]) -> tuple[State, ...]:
    """The states with these memories."""
    pairs = zip(states, memories, strict=True)
    return tuple(state.replace(contact_memory=memory) for state, memory in pairs)


def whole_memory(scene: Scene, states: Sequence[State], options: SolverOptions) -> Any:
    """The memory of all contacts of a scene; ``None`` if no state has one.

    Raises:
      TypeError: it is not of this solver.
    """
    memories = [state.contact_memory for state in states]
    if all(memory is None for memory in memories) or options.solver == "rk4":
        return None
    kind: type = ContactMemory if options.is_implicit else solver_of(options.solver).memory
    for memory in memories:
        if memory is not None and not isinstance(memory, kind):
            raise TypeError(
                f"solver={options.solver!r} needs a contact memory of class {kind.__name__}, and "
                f"the state has a {type(memory).__name__}: make one with "
                "artix.remember_contacts(scene, state, options=options)"
            )
    if any(memory is None for memory in memories):  # Robots without a memory start afresh.
        empty = empty_memories(scene)
        memories = [empty[k] if memory is None else memory for k, memory in enumerate(memories)]
    return join_memories(scene, memories)


def with_whole_memory(
    scene: Scene, ends: Sequence[State], starts: Sequence[State], whole: Any
) -> tuple[State, ...]:
    """The states after a step, which remember their parts of a memory if they did so at the start.

    Args:
      scene: the scene.
      ends: the states after the step.
      starts: the states before it.
      whole: the memory of all contacts.
    """
    memories = [state.contact_memory for state in starts]
    if len(memories) == 1:
        return with_memories(ends, [whole])
    empty = empty_memories(scene) if any(memory is None for memory in memories) else memories
    like = [empty[k] if memory is None else memory for k, memory in enumerate(memories)]
    parts = part_memory(scene, whole, like)
    kept = [None if memory is None else parts[k] for k, memory in enumerate(memories)]
    return with_memories(ends, kept)


def touching_of(
    scene: Scene, states: Sequence[State], options: SolverOptions, memory: ContactMemory | None
) -> Touching:
    """The contacts with the ground and between links at the start of a step."""
    touches, choice, nearest = _touches_of(scene, states, options)
    if memory is None:
        return Touching(touches, choice, None, nearest)
    candidates, dofs = (
        (choice.num_candidates, 3),
        (sum(len(state.joint_position) for state in states),),
    )
    name, dtype = "state.contact_memory", scene.dtype
    check_vector(f"{name}.impulse", memory.impulse, candidates, dtype, "C candidates of the shapes")
    check_vector(f"{name}.joint_friction", memory.joint_friction, dofs, dtype, "n")
    # Contacts that have opened, as after an impact, start from zero: few iterations cannot undo a
    # large impulse.
    impulse = choice.recalled(memory.impulse)
    if not options.contact_smoothing:
        closed = touches.gap < options.allowed_penetration
        impulse = jnp.where(closed[:, None], impulse, 0)
    return Touching(touches, choice, ContactMemory(impulse, memory.joint_friction), nearest)


def _touches_of(
    scene: Scene, states: Sequence[State], options: SolverOptions
) -> tuple[Touches, Choice, Touches | None]:
    """The contacts, which candidates they are, and the nearest of them if they are many."""
    members = scene.articulations
    kins = [kinematics(*member) for member in zip(members, states, strict=True)]
    grounds: list[GroundContacts | None] = [None] * len(members)
    nearest: list[GroundContacts | None] = [None] * len(members)
    budget = options.max_ground_contacts
    between, choices = None, []
    for k in scene.grounded:
        assert scene.ground is not None
        every = contacts_with_ground(
            members[k], kins[k], scene.ground, options.max_contacts_per_geometry
        )
        touching = every
        if budget is not None and len(every.geometries) > budget:
            say_budget(members[k].topology.name, budget, len(every.geometries))
            touching = nearest_contacts(members[k], kins[k], every, budget)
        grounds[k] = nearest[k] = touching
        if budget is None and not options.contact_smoothing and _try_few(members[k], every):
            fixed = jax.lax.stop_gradient((members[k], kins[k], every))
            nearest[k] = nearest_contacts(*fixed, _FEW)
        choices.append(touching.choice)
    pairs = scene.shape_pairs
    if len(pairs):
        most, friction = options.max_link_contacts, scene.pair_friction
        between = contacts_of_pairs(members, kins, pairs, most, friction)
        choices.append(between.choice)
    is_whole = all(some is every for some, every in zip(nearest, grounds, strict=True))
    first = None if is_whole else Touches(tuple(nearest), between, pairs)
    return Touches(tuple(grounds), between, pairs), Choice.joined(choices), first


def _try_few(articulation: Articulation, contacts: GroundContacts) -> bool:
    """Whether few of these contacts touch at a time, probably, and it pays to try those first."""
    tree = articulation.topology
    count, links = len(contacts.geometries), set(contacts.contacts.links)
    products = min(products_of_data(tree, _FEW), products_by_points(tree, _FEW))
    return count > _MANY and len(links) > _FEW and products <= _MOST_PRODUCTS
