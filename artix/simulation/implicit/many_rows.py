"""Contacts of many bodies as rows of the implicit solver, by blocks.

A contact touches one or two bodies out of many, so its velocities depend on a block of the
generalised velocity for each of them, and on nothing else. Bodies of one kind, such as twenty equal
boxes, are one stack of arrays with a leading axis [n], and one program evaluates them all. The
generalised velocity goes through the stacks one after another.

Sums over a few entries are plain additions here, which XLA joins with what comes before and after
them. Its reductions of such arrays take up to 100 times as long on a CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import subprogram
from artix.contact.ground_contacts import GroundContacts
from artix.contact.link_contacts import LinkContacts
from artix.contact.scene import ShapePairs
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.contact_points import contact_frames, motions_at
from artix.kinematics.forward import kinematics
from artix.math import spatial, struct
from artix.math.arrays import joined, matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_motions import JoinedContacts, Touches, contact_directions
from artix.simulation.implicit.contact_rows import (
    contact_row,
    fall_on_ground,
)
from artix.simulation.implicit.resolvents import (
    ContactRow,
)
from artix.simulation.implicit.rows import StepRows
from artix.simulation.implicit.solution import Bounded, Outcome, StepVelocity
from artix.simulation.implicit.system import Prepared

Array = jax.Array


class Layout(NamedTuple):
    """The stacks of a scene; static."""

    counts: tuple[int, ...]
    """Number of bodies in each stack."""
    sizes: tuple[int, ...]
    """Length of the generalised velocity of each of them."""

    @property
    def num_bodies(self) -> int:
        """Number N of bodies."""
        return sum(self.counts)

    @property
    def width(self) -> int:
        """The largest length m of a velocity."""
        return max(self.sizes)

    @property
    def is_uniform(self) -> bool:
        """Whether all velocities have this length."""
        return len(set(self.sizes)) == 1

    @property
    def places(self) -> np.ndarray:
        """Where each velocity stands among padded ones, [nv]."""
        owner = np.repeat(np.arange(self.num_bodies), np.repeat(self.sizes, self.counts))
        within = [
            np.tile(np.arange(size), n) for n, size in zip(self.counts, self.sizes, strict=True)
        ]
        return owner * self.width + np.concatenate(within)

    def padded(self, velocity: Array) -> Array:
        """A generalised velocity [nv] as rows of bodies, [N, m]."""
        if self.is_uniform:
            return velocity.reshape(self.num_bodies, self.width)
        parts = zip(self.parts(velocity), self.sizes, strict=True)
        return joined([jnp.pad(part, ((0, 0), (0, self.width - size))) for part, size in parts])

    def plain(self, rows: Array) -> Array:
        """The generalised velocity [nv] of rows of bodies [N, m]."""
        flat = rows.reshape(-1)
        return flat if self.is_uniform else flat[self.places]

    def plain_matrix(self, blocks: Array) -> Array:
        """The matrix [nv, nv] of blocks [N, N, m, m]."""
        size = self.num_bodies * self.width
        matrix = jnp.swapaxes(blocks, 1, 2).reshape(size, size)
        return matrix if self.is_uniform else matrix[np.ix_(self.places, self.places)]

    def parts(self, velocity: Array) -> list[Array]:
        """The velocities [n, its nv] of each stack."""
        lengths = np.multiply(self.counts, self.sizes)
        split = jnp.split(velocity, np.cumsum(lengths)[:-1].tolist())
        shapes = zip(split, self.counts, self.sizes, strict=True)
        return [part.reshape(count, size) for part, count, size in shapes]

    def stacks(self, blocks: Array) -> list[Array]:
        """The blocks [n, its nv, its nv] of each stack, from padded ones of all bodies."""
        parts = jnp.split(blocks, np.cumsum(self.counts)[:-1].tolist())
        return [part[:, :size, :size] for part, size in zip(parts, self.sizes, strict=True)]

    def diagonal(self, stacks: Sequence[Array]) -> Array:
        """The block-diagonal matrix [nv, nv] of stacks of matrices, [n, its nv, its nv]."""
        total = sum(np.multiply(self.counts, self.sizes).tolist())
        rows, first = [], 0
        for stack, count, size in zip(stacks, self.counts, self.sizes, strict=True):
            unit = np.eye(count, dtype=stack.dtype)
            block = (stack[:, :, None] * unit[:, None, :, None]).reshape(count * size, -1)
            end = first + count * size
            rows.append(jnp.pad(block, ((0, 0), (first, total - end))))
            first = end
        return joined(rows)


class ManyTouches(JoinedContacts, struct.PyTreeNode):
    """All K contacts of a scene of stacks: those with the ground, stack by stack and body by body,
    then those between shapes.
    """

    grounds: tuple[GroundContacts | None, ...]
    """Of each stack, with a leading axis [n]."""
    between: LinkContacts
    """Their points are relative to ``origin``."""
    origin: Array
    """The point to which those are relative, [3]."""
    pairs: ShapePairs = struct.field(pytree_node=False)
    layout: Layout = struct.field(pytree_node=False)
    shapes: tuple[tuple[int, ...], ...] = struct.field(pytree_node=False)
    """Of each stack the numbers of the shapes that may touch others."""
    rows: tuple[int, ...] = struct.field(pytree_node=False)
    """The row of each shape of the scene among those of all stacks."""

    def _joined(self, name: str) -> Array:
        parts = [getattr(one.contacts, name) for one in self.grounds if one is not None]
        flat = [part.reshape(-1, *part.shape[2:]) for part in parts]
        return joined([*flat, getattr(self.between, name)])

    @property
    def num_ground(self) -> int:
        """The number of contacts with the ground."""
        return sum(one.contacts.gap.size for one in self.grounds if one is not None)


class BlockRows(struct.PyTreeNode):
    """All K contacts, by blocks; see :class:`artix.simulation.implicit.rows.ContactRows`."""

    each: ContactRow
    on_ground: tuple[Array | None, ...]
    """Velocities of the contacts of each body with the ground, [n, its contacts, 3, its nv]."""
    sides: Array
    """Velocities of contacts between shapes by those of the first bodies, then by those of the
    second ones, [2 C, 3, m]."""
    bodies: Array
    """Their numbers, [2 C]."""
    onto: Array
    """One where a contact is on a body, [N, 2 C]: a product with it is quicker than to look up."""
    layout: Layout = struct.field(pytree_node=False)

    @property
    def num_contacts(self) -> int:
        """K."""
        return len(self.each.approach)

    def rates(self, velocity: Array) -> Array:
        """The contacts' velocities for a generalised velocity [nv], [K, 3]."""
        parts = []
        for direction, part in zip(self.on_ground, self.layout.parts(velocity), strict=True):
            if direction is not None:
                rate = jnp.sum(direction * part[:, None, None], axis=3)
                parts.append(rate.reshape(-1, 3))
        moving = matmul(self.layout.padded(velocity).T, self.onto)
        each = [self.sides[:, :, k] * part[:, None] for k, part in enumerate(moving)]
        first, second = jnp.split(functools.reduce(jnp.add, each), 2)
        return joined([*parts, first + second])

    def force(self, impulse: Array) -> Array:
        """The generalised impulse [nv] of impulses [K, 3]."""
        each, pushes = self._parted(impulse)
        stacks = [
            jnp.zeros((count, size), impulse.dtype)
            if direction is None or push is None
            else jnp.sum(direction * push[..., None], axis=(1, 2))
            for direction, push, count, size in zip(self.on_ground, each, *self.layout, strict=True)
        ]
        on_ground = jnp.concatenate([stack.reshape(-1) for stack in stacks])
        both = jnp.tile(pushes, (2, 1))
        pushed = functools.reduce(jnp.add, [both[:, k, None] * self.sides[:, k] for k in range(3)])
        return on_ground + self.layout.plain(matmul(self.onto, pushed))

    def stiffness(self, slopes: Array) -> Array:
        """``J^T slopes J`` for slopes [K, 3, 3], [nv, nv]."""
        each, between = self._parted(slopes)
        sides, count = self.sides, len(between)
        bodies, width = self.layout.num_bodies, self.layout.width
        yielding = _products(jnp.tile(between, (2, 1, 1)), sides)
        alone = _squares(sides, yielding).reshape(2 * count, -1)
        alone = matmul(self.onto, alone).reshape(bodies, width, width)
        stacks = self.layout.stacks(alone)
        for k, (direction, slope) in enumerate(zip(self.on_ground, each, strict=True)):
            if direction is not None and slope is not None:
                flat = len(stacks[k]), -1, self.layout.sizes[k]
                pushed = _products(slope, direction)
                stacks[k] = stacks[k] + _squares(direction.reshape(flat), pushed.reshape(flat))
        # Each body by the other one.
        others = jnp.roll(self.bodies, count), jnp.roll(yielding, count, axis=0)
        mutual = _squares(sides, others[1]).reshape(2 * count, -1)
        blocks = jnp.zeros((bodies**2, width**2), slopes.dtype)
        blocks = blocks.at[self.bodies * bodies + others[0]].add(mutual)
        blocks = blocks.reshape(bodies, bodies, width, width)
        return self.layout.diagonal(stacks) + self.layout.plain_matrix(blocks)

    def _parted(self, values: Array) -> tuple[list[Array | None], Array]:
        """Values [K, ...] of each stack's contacts with the ground and of those between shapes."""
        parts: list[Array | None] = []
        first = 0
        for direction in self.on_ground:
            if direction is None:
                parts.append(None)
                continue
            count = direction.shape[0] * direction.shape[1]
            part = values[first : first + count]
            parts.append(part.reshape(*direction.shape[:2], *part.shape[1:]))
            first += count
        return parts, values[first:]


class SolvedStacks(NamedTuple):
    """A step of stacks, solved for velocities."""

    parts: list[Prepared]
    """With a leading axis [n] each."""
    solution: StepVelocity
    outcome: Outcome
    bounded: list[Bounded]
    ends: list[State]
    energy_corrections: list[Array]
    """[n] each."""
    rows: StepRows


@subprogram
def _ground_rows(
    articulation: Articulation, state: State, ground: GroundContacts
) -> tuple[Array, Array]:
    """The velocities of a body's contacts with the ground, [its contacts, 3, its nv], and the
    accelerations with which gravity closes them, [its contacts].
    """
    touches = Touches((ground,), None, ShapePairs.of([articulation.topology]))
    direction = contact_directions([articulation], [state], touches)
    return direction, fall_on_ground(articulation, ground)


@subprogram
def _shape_motions(
    articulation: Articulation, state: State, numbers: tuple[int, ...]
) -> tuple[Array, Array]:
    """Motions of the links of shapes per generalised velocity, at the reference point of an
    articulation, [G, 6, nv], and that point, [3].
    """
    kin = kinematics(articulation, state)
    links = articulation.topology.geometry_links(numbers)
    at = jnp.zeros_like(kin.reference, shape=(3, len(links)))
    return jnp.moveaxis(motions_at(articulation, kin, links, at), 0, 1), kin.reference


def block_rows(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    touches: ManyTouches,
    responses: Sequence[Array],
    dt: Array,
    options: SolverOptions,
) -> BlockRows:
    """The rows of all contacts.

    Args:
      articulations: the bodies, a stack of each kind.
      states: their states.
      touches: the contacts.
      responses: changes of the generalised velocity per impulse, [n, its nv, its nv] each.
      dt: length of the step [s].
      options: options of the solver.
    """
    layout = touches.layout
    directions: list[Array | None] = []
    falls, blocks, closing, met, rates = [], [], [], [], []
    velocities = [
        jax.vmap(generalized_velocity)(*one) for one in zip(articulations, states, strict=True)
    ]
    for k, ground in enumerate(touches.grounds):
        if ground is None:
            directions.append(None)
            continue
        direction, fall = jax.vmap(_ground_rows)(articulations[k], states[k], ground)
        directions.append(direction)
        falls.append(fall.reshape(-1))
        moved = matmul(direction.reshape(len(direction), -1, layout.sizes[k]), responses[k])
        moved = moved.reshape(direction.shape)
        blocks.append(_dots(moved[:, :, :, None], direction[:, :, None]).reshape(-1, 3, 3))
        closing.append(_dots(direction[:, :, 2], velocities[k][:, None]).reshape(-1))
    sides, bodies, is_one = _sides(articulations, states, touches)
    rows = layout.padded(jnp.concatenate([one.reshape(-1) for one in velocities]))
    margin = [(0, layout.width - size) for size in layout.sizes]
    padded = joined(
        [jnp.pad(one, ((0, 0), edge, edge)) for one, edge in zip(responses, margin, strict=True)]
    )
    shared = [] if is_one is None else [is_one[:, None, None]]
    for number, (side, body) in enumerate(zip(sides, bodies, strict=True)):
        moved = _products(side, padded[body])
        met.append(_dots(moved[:, :, None], side[:, None]))
        met += [one * _dots(moved[:, :, None], sides[1 - number][:, None]) for one in shared]
        rates.append(_dots(side[:, 2], rows[body]))
    blocks.append(sum(met[1:], start=met[0]))
    closing.append(rates[0] + rates[1])
    falls.append(jnp.zeros_like(rates[0]))
    largest = jnp.max(jnp.stack([jnp.max(_diagonals(one)) for one in responses]))
    # Velocities are those of the blocks, without a reach.
    laws = joined(blocks), joined(closing), joined(falls)
    each = contact_row(touches, None, *laws, largest, dt, options)
    both = joined(list(bodies))
    numbers = jnp.arange(layout.num_bodies, dtype=both.dtype)
    onto = (numbers[:, None] == both).astype(dt.dtype)
    return BlockRows(each, tuple(directions), joined(list(sides)), both, onto, layout)


def _products(blocks: Array, sides: Array) -> Array:
    """The products of blocks [..., 3, k] and sides [..., k, m]."""
    terms = [blocks[..., k, None] * sides[..., k, None, :] for k in range(blocks.shape[-1])]
    return functools.reduce(jnp.add, terms)


def _dots(rows: Array, others: Array) -> Array:
    """The products of the rows of two arrays, [..., m] each."""
    terms = [rows[..., k] * others[..., k] for k in range(rows.shape[-1])]
    return functools.reduce(jnp.add, terms)


def _squares(sides: Array, others: Array) -> Array:
    """The products ``sides^T others`` of blocks, [..., m, m]."""
    return matmul(jnp.swapaxes(sides, 1, 2), others)


def _diagonals(matrices: Array) -> Array:
    return jnp.diagonal(matrices, axis1=1, axis2=2)


def _sides(
    articulations: Sequence[Articulation], states: Sequence[State], touches: ManyTouches
) -> tuple[tuple[Array, Array], tuple[Array, Array], Array | None]:
    """The velocities of contacts between shapes by those of both bodies, [C, 3, m], the numbers of
    these, [C], and whether they are one, or ``None`` if they never are.
    """
    layout, between = touches.layout, touches.between
    motions, references, owners, first = [], [], [], 0
    for k, numbers in enumerate(touches.shapes):
        if numbers:
            one = jax.vmap(lambda a, s, numbers=numbers: _shape_motions(a, s, numbers))
            motion, reference = one(articulations[k], states[k])
            motion = motion.reshape(-1, 6, layout.sizes[k])
            margin = (0, layout.width - layout.sizes[k])
            motions.append(jnp.pad(motion, ((0, 0), (0, 0), margin)))
            references.append(jnp.repeat(reference, len(numbers), axis=0))
            owner = np.repeat(np.arange(first, first + layout.counts[k]), len(numbers))
            owners.append(owner)
        first += layout.counts[k]
    motion, reference, owner = joined(motions), joined(references), np.concatenate(owners)
    rows = np.array(touches.rows)[touches.pairs.numbers]
    can_be_one = bool(np.any(owner[rows[:, 0]] == owner[rows[:, 1]]))
    both = jnp.asarray(rows, jnp.int32)[between.pair]
    frames = contact_frames(between.normal)
    sides, bodies = [], []
    for side, sign in ((0, 1), (1, -1)):
        row = both[:, side]
        place = between.point + touches.origin - reference[row]
        moving = motion[row]
        turned = spatial.cross(jnp.moveaxis(moving[:, 3:], 1, 0), place.T[:, :, None])
        linear = moving[:, :3] + jnp.moveaxis(turned, 0, 1)
        sides.append(sign * _products(frames, linear))
        bodies.append(jnp.asarray(owner, jnp.int32)[row])
    is_one = None
    if can_be_one:
        is_one = (bodies[0] == bodies[1]).astype(between.gap.dtype)
    return (sides[0], sides[1]), (bodies[0], bodies[1]), is_one
