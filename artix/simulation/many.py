"""Scenes of many bodies: bodies of one kind as stacks, and their contacts.

A step of few bodies is written out, body by body and pair by pair, and becomes one kernel. Beyond
what a kernel can hold, bodies of one kind are stacked, and
:mod:`artix.simulation.implicit.many_bodies` takes the step. The laws, the solver and its options
are the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import subprogram
from artix.contact.ground import Ground
from artix.contact.ground_contacts import (
    GroundContacts,
    contacts_with_ground,
    nearest_contacts,
    say_budget,
)
from artix.contact.link_contacts import ShapeTable, nearest_of_pairs, shape_cores
from artix.contact.scene import Scene
from artix.kinematics.forward import kinematics
from artix.math.arrays import joined
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.many_rows import Layout, ManyTouches, SolvedStacks

Array = jax.Array


class Stacks(NamedTuple):
    """The bodies of a scene by kinds."""

    members: tuple[tuple[int, ...], ...]
    """The numbers of the bodies in each stack, in the scene."""
    articulations: tuple[Articulation, ...]
    states: tuple[State, ...]
    controls: tuple[Control, ...]

    @property
    def layout(self) -> Layout:
        """The numbers and sizes of the stacks."""
        sizes = tuple(one.topology.nv for one in self.articulations)
        return Layout(tuple(map(len, self.members)), sizes)

    def links(self, scene: Scene) -> list[np.ndarray]:
        """The numbers in the scene of each stack's links, [n, L] each."""
        firsts = np.cumsum([0, *(tree.num_links for tree in scene.topologies)])
        return [
            firsts[list(numbers)][:, None] + np.arange(one.topology.num_links)
            for numbers, one in zip(self.members, self.articulations, strict=True)
        ]

    def in_order(self, stacks: Sequence[Any]) -> list[Any]:
        """One value of each body, in the order of the scene, from stacks of them."""
        every: dict[int, Any] = {}
        for numbers, stack in zip(self.members, stacks, strict=True):
            for k, number in enumerate(numbers):
                every[number] = jax.tree.map(lambda x, k=k: x[k], stack)
        return [every[number] for number in range(len(every))]


def stacked(scene: Scene, states: Sequence[State], controls: Sequence[Control]) -> Stacks:
    """The bodies of a scene by kinds: those that differ in numbers alone are of one."""
    kinds: dict[Any, list[tuple[int, Any]]] = {}
    for k, member in enumerate(zip(scene.articulations, states, controls, strict=True)):
        member = member[0].replace(topology=_nameless(member[0].topology)), *member[1:]
        leaves, structure = jax.tree.flatten(member)
        key = structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        kinds.setdefault(key, []).append((k, member))
    members, stacks = [], []
    for kind in kinds.values():
        members.append(tuple(k for k, _ in kind))
        stacks.append(jax.tree.map(lambda *x: jnp.stack(x), *(member for _, member in kind)))
    articulations, states, controls = zip(*stacks, strict=True)
    return Stacks(tuple(members), articulations, states, controls)


@functools.lru_cache(maxsize=256)
def _nameless(tree: Topology) -> Topology:
    """The same tree without names and pairs, equal for bodies that differ in nothing else."""
    return dataclasses.replace(
        tree,
        name="body",
        link_names=tuple(f"link {k}" for k in range(tree.num_links)),
        joint_names=tuple(f"joint {k}" for k in range(len(tree.joint_names))),
        frame_names=tuple(f"frame {k}" for k in range(len(tree.frame_names))),
        geometries=tuple(
            dataclasses.replace(shape, name=f"shape {k}") for k, shape in enumerate(tree.geometries)
        ),
        geometry_pairs=(),
        drawn_shapes=(),
    )


@subprogram
def _ground_contacts(
    articulation: Articulation,
    state: State,
    ground: Ground,
    of_geometry: int | None,
    most: int | None,
) -> GroundContacts:
    kin = kinematics(articulation, state)
    every = contacts_with_ground(articulation, kin, ground, of_geometry)
    if most is None or len(every.geometries) <= most:
        return every
    return nearest_contacts(articulation, kin, every, most)


def _near_ground(
    ground: Ground,
    budgets: tuple[int | None, int | None],
    articulation: Articulation,
    state: State,
) -> GroundContacts:
    return _ground_contacts(articulation, state, ground, *budgets)


def stack_touches(scene: Scene, stacks: Stacks, options: SolverOptions) -> ManyTouches:
    """The contacts with the ground and between shapes at the start of a step."""
    grounds: list[GroundContacts | None] = []
    grounded = scene.grounded
    for k, numbers in enumerate(stacks.members):
        surface = scene.ground
        if surface is None or numbers[0] not in grounded:
            grounds.append(None)
            continue
        budgets = options.max_contacts_per_geometry, options.max_ground_contacts
        near = jax.vmap(functools.partial(_near_ground, surface, budgets))
        ground = near(stacks.articulations[k], stacks.states[k])
        if ground.source is not None:
            name = scene.topologies[numbers[0]].name
            say_budget(name, budgets[1], len(ground.source.geometries))
        grounds.append(ground)
    return _with_pairs(scene, stacks, options, tuple(grounds))


def _with_pairs(
    scene: Scene,
    stacks: Stacks,
    options: SolverOptions,
    grounds: tuple[GroundContacts | None, ...],
) -> ManyTouches:
    pairs, trees = scene.shape_pairs, scene.topologies
    firsts = np.cumsum([0, *(len(tree.geometries) for tree in trees)])
    used = np.zeros(firsts[-1], bool)
    used[pairs.numbers] = True
    cores, points, materials, shapes = [], [], [], []
    rows, first = np.full(firsts[-1], -1), 0
    for k, numbers in enumerate(stacks.members):
        count = firsts[numbers[0] + 1] - firsts[numbers[0]]
        mine = firsts[list(numbers)][:, None] + np.arange(count)
        wanted = tuple(np.flatnonzero(np.any(used[mine], axis=0)).tolist())
        shapes.append(wanted)
        one = jax.vmap(lambda a, s, wanted=wanted: shape_cores(a, s, wanted))
        if not wanted:
            continue
        core, hulls, reference = one(stacks.articulations[k], stacks.states[k])
        rows[mine[:, wanted]] = first + np.arange(mine[:, wanted].size).reshape(len(numbers), -1)
        first += mine[:, wanted].size
        cores.append((core, reference))
        for n in range(len(numbers)):
            points += [None if hull is None else hull[n] for hull in hulls]
        geometry = stacks.articulations[k].geometry
        names = "friction", "restitution", "stiffness", "damping"
        materials.append(
            [getattr(geometry, name)[:, np.array(wanted)].reshape(-1) for name in names]
        )
    origin = cores[0][1][0]
    tables = []
    for core, reference in cores:
        center = core.center + (reference - origin)[:, None]
        moved = core._replace(center=center)
        tables.append(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), moved))
    friction, restitution, stiffness, damping = (
        joined(list(parts)) for parts in zip(*materials, strict=True)
    )
    material = stacks.articulations[0].geometry.replace(
        friction=friction, restitution=restitution, stiffness=stiffness, damping=damping
    )
    table = ShapeTable(joined(tables), points, material)
    between = nearest_of_pairs(
        table, pairs, rows, options.max_link_contacts, len(trees), scene.pair_friction
    )
    return ManyTouches(
        grounds, between, origin, pairs, stacks.layout, tuple(shapes), tuple(rows.tolist())
    )


def _ground_places(scene: Scene, stacks: Stacks, sizes: Sequence[int]) -> list[np.ndarray]:
    """Where the candidates with the ground of each stack stand among those of the scene, [n, its
    candidates], for the numbers of candidates of each stack's bodies.
    """
    of_body = np.zeros(len(scene.topologies), int)
    for numbers, size in zip(stacks.members, sizes, strict=True):
        of_body[list(numbers)] = size
    firsts = np.cumsum([0, *of_body])
    return [
        firsts[list(numbers)][:, None] + np.arange(size)
        for numbers, size in zip(stacks.members, sizes, strict=True)
    ]


def _num_candidates(touches: ManyTouches) -> list[int]:
    return [0 if one is None else one.choice.num_candidates for one in touches.grounds]


def _dof_places(scene: Scene, stacks: Stacks) -> np.ndarray:
    """The place of each DOF of the stacks among those of the scene, [n]."""
    firsts = np.cumsum([0, *(tree.num_dofs for tree in scene.topologies)])
    every = [np.arange(firsts[k], firsts[k + 1]) for numbers in stacks.members for k in numbers]
    return np.concatenate(every)


def recalled(
    scene: Scene,
    stacks: Stacks,
    touches: ManyTouches,
    memory: ContactMemory,
    options: SolverOptions,
) -> ContactMemory:
    """The impulses from which to start, in the order of the stacks' rows."""
    sizes = _num_candidates(touches)
    places, parts = _ground_places(scene, stacks, sizes), []
    for ground, place in zip(touches.grounds, places, strict=True):
        if ground is not None:
            recall = jax.vmap(lambda choice, values: choice.recalled(values))
            parts.append(recall(ground.choice, memory.impulse[place]).reshape(-1, 3))
    between = memory.impulse[sum(place.size for place in places) :]
    parts.append(between[_candidates(touches)])
    impulse = joined(parts)
    if not options.contact_smoothing:
        closed = touches.gap < options.allowed_penetration
        impulse = jnp.where(closed[:, None], impulse, 0)
    return ContactMemory(impulse, memory.joint_friction[_dof_places(scene, stacks)])


def recorded(
    scene: Scene,
    stacks: Stacks,
    touches: ManyTouches,
    solved: SolvedStacks,
    memory: ContactMemory,
) -> ContactMemory:
    """The impulses of a step, in the order of the scene's memory."""
    dofs, _, contacts = jax.lax.stop_gradient(solved.solution.impulses)
    whole = jnp.zeros_like(memory.impulse)
    places, first = _ground_places(scene, stacks, _num_candidates(touches)), 0
    for ground, place in zip(touches.grounds, places, strict=True):
        if ground is not None:
            count, each = ground.contacts.gap.shape
            part = contacts[first : first + count * each].reshape(count, each, 3)
            record = jax.vmap(lambda choice, values: choice.recorded(values))
            whole = whole.at[place].set(record(ground.choice, part))
            first += count * each
    start = sum(place.size for place in places)
    whole = whole.at[start + _candidates(touches)].set(contacts[first:])
    order = _dof_places(scene, stacks)
    return ContactMemory(whole, dofs.friction[np.argsort(order)])


def _candidates(touches: ManyTouches) -> Array:
    """Which candidates of all pairs the contacts between shapes are, [C]."""
    return touches.between.choice.candidate.astype(jnp.int32)
