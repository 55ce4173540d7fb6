"""All rows of a step: their velocities, the forces of their impulses, and their laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial, struct
from artix.math.arrays import matmul, take, with_rows
from artix.simulation.common.drives import Sweep, within_envelope, within_limit
from artix.simulation.implicit.contact_stiffness import TreeContacts
from artix.simulation.implicit.resolvents import (
    BoundImpulses,
    BoundRow,
    ContactRow,
    VelocityBounds,
    drive_impulse,
    linear_bounds,
    linear_contacts,
    linear_dofs,
    tangential_length,
)

Array = jax.Array


class Impulses(NamedTuple):
    """The impulses of all rows. Derivatives are right for the total of each DOF."""

    dofs: BoundImpulses
    distances: Array
    """Impulses of bounds of other velocities, positive at the lower ones, [E]."""
    contacts: Array
    """Impulses of contacts, two tangential ones and then the normal one, [K, 3]."""


class RowImpulses(NamedTuple):
    """The impulses of all rows on one articulation."""

    dofs: Array
    """Of drives with limits, dry friction and limits, [n]."""
    bounds: tuple[Array, Array] | None
    """Of hard relations and loop joints, [E], and the velocities that they bound by the generalised
    velocity, [E, nv]."""
    contacts: tuple[Array, Array, Array] | None
    """Of contacts, [3 K], their velocities by the motions of links, [3 K, S], and these by the
    generalised velocity, [S, nv]."""

    def work(self, velocity: Array) -> Array:
        """The work [J] along a mean velocity [nv] of the articulation."""
        joints = velocity[len(velocity) - len(self.dofs) :]
        work = jnp.sum(self.dofs * joints)
        if self.bounds is not None:
            impulse, direction = self.bounds
            work = work + jnp.sum(impulse * matmul(direction, velocity))
        if self.contacts is not None:
            impulse, reach, motions = self.contacts
            work = work + jnp.sum(impulse * matmul(reach, matmul(motions, velocity)))
        return work


class Rates(NamedTuple):
    """Velocities of all rows."""

    dofs: Array
    """[n]."""
    bounds: Array
    """[E]."""
    contacts: Array
    """Two tangential ones, then the normal one, [K, 3]."""


class Slopes(NamedTuple):
    """Decreases of the rows' impulses per velocity."""

    dofs: BoundImpulses
    """Of drives, friction and limits, [n] each."""
    bounds: Array
    """[E]."""
    contacts: Array
    """[K, 3, 3]."""

    def changes(self, rates: Rates) -> Impulses:
        """The changes of all impulses for changes of the velocities."""
        return self.answers(
            Impulses(BoundImpulses(*[rates.dofs] * 3), rates.bounds, rates.contacts)
        )

    def answers(self, rates: Impulses) -> Impulses:
        """The same for changes of the velocities at which each of the laws is."""
        contacts = rates.contacts
        return Impulses(
            BoundImpulses(
                *(-slope * rate for slope, rate in zip(self.dofs, rates.dofs, strict=True))
            ),
            -self.bounds * rates.distances,
            -times(self.contacts, contacts) if contacts.size else contacts,
        )


class Law(NamedTuple):
    """The laws of all rows near impulses and velocities."""

    residual: Array
    """How far each law is from being satisfied, as a velocity, [R]."""
    change: Impulses
    """The laws as linear functions of the velocity: what they add to the impulses, and their
    slopes."""
    slopes: Slopes


class ContactRows(struct.PyTreeNode):
    """All K contacts."""

    motions: Array
    """Derivatives of the S motions of touching links by the generalised velocity, [S, nv]."""
    each: ContactRow
    groups: tuple[tuple[int, ...], ...] = struct.field(pytree_node=False)
    """The contacts that share motions, group by group in the order of these."""
    coupled: tuple[tuple[int, ...], ...] | None = struct.field(pytree_node=False, default=None)
    """For each velocity those that contacts can couple it with, where links are data; ``None`` for
    all."""
    trees: tuple[TreeContacts | None, ...] = ()
    """For each articulation whose contacts with the ground touch many of its bodies, where they are
    on its tree."""
    places: tuple[tuple[int, int, int], ...] = struct.field(pytree_node=False, default=())
    """For each articulation its first velocity and its first contact with the ground, and the
    number of those."""

    @property
    def num_contacts(self) -> int:
        """K."""
        return len(self.each.approach)

    def rates(self, velocity: Array) -> Array:
        """The contacts' velocities for a generalised velocity [nv], [K, 3]."""
        return matmul(self.each.reach, matmul(self.motions, velocity))

    def force(self, impulse: Array) -> Array:
        """The generalised impulse [nv] of impulses [K, 3]."""
        on_links = matmul(impulse.reshape(-1), self.each.reach.reshape(impulse.size, -1))
        return matmul(on_links, self.motions)

    def stiffness(self, slopes: Array) -> Array:
        """``J^T slopes J`` for slopes [K, 3, 3], [nv, nv]: many contacts of one link add up to one
        matrix for its six motions.
        """
        total = jnp.zeros_like(slopes, shape=(self.motions.shape[1],) * 2)
        is_done = np.zeros(self.num_contacts, bool)
        for tree, (velocity, first, count) in zip(self.trees, self.places, strict=True):
            if tree is not None:
                is_done[first : first + count] = True
                end = velocity + tree.topology.nv
                block = tree.stiffness(slopes[first : first + count])
                total = total.at[velocity:end, velocity:end].set(block)
        return total if np.all(is_done) else total + self._of_groups(slopes, is_done)

    def _of_groups(self, slopes: Array, is_done: np.ndarray) -> Array:
        """The same for all contacts but some, group by group."""
        pulled: list[Array] = []
        parts: list[Array] = []
        groups = [np.array(which) for which in self.groups]
        for which, part in zip(groups, motion_slices(groups), strict=True):
            if is_done[which[0]]:
                continue
            parts.append(self.motions[part])
            along = take(self.each.reach[:, :, part], which, axis=0)
            yielding = product(take(slopes, which, axis=0), along)
            width = part.stop - part.start
            on_motions = matmul(along.reshape(-1, width).T, yielding.reshape(-1, width))
            pulled.append(matmul(on_motions, self.motions[part]))
        forces, motions = jnp.concatenate(pulled), jnp.concatenate(parts)
        if self.coupled is None:
            return matmul(motions.T, forces)
        # The zeros of links that are data are not known, so only the others are computed.
        columns = []
        for number, coupled in enumerate(self.coupled):
            rows = np.array(coupled)
            entries = matmul(take(motions, rows).T, forces[:, number])
            columns.append(jnp.zeros_like(forces[0]).at[rows].set(entries))
        return jnp.stack(columns, axis=1)


class StepRows(NamedTuple):
    """The rows of all articulations of a step."""

    still: Array
    """Zero velocity, [nv]."""
    places: np.ndarray
    """Indices of the DOFs in the generalised velocity, [n]."""
    dofs: BoundRow
    bounds: VelocityBounds | None
    contacts: Any
    """The contacts: :class:`ContactRows`, another class with the same methods, or ``None``."""
    sweep: Sweep

    def rates(self, velocity: Array) -> Rates:
        """The rows' velocities ``J v`` for a generalised velocity [nv]."""
        none, dofs = velocity[:0], take(velocity, self.places)
        bounds = none if self.bounds is None else matmul(self.bounds.direction, velocity)
        if self.contacts is None:
            return Rates(dofs, bounds, none.reshape(0, 3))
        return Rates(dofs, bounds, self.contacts.rates(velocity))

    def force(self, impulses: Impulses) -> Array:
        """The generalised impulse ``J^T lambda``, [nv]."""
        total = with_rows(self.still, self.places, impulses.dofs.total)
        if self.bounds is not None:
            total = total + matmul(impulses.distances, self.bounds.direction)
        if self.contacts is not None:
            total = total + self.contacts.force(impulses.contacts)
        return total

    @property
    def is_diagonal(self) -> bool:
        """Whether all rows are those of DOFs."""
        return self.bounds is None and self.contacts is None

    def diagonal(self, slopes: Slopes) -> Array:
        """``J^T diag(slopes) J`` of the rows of DOFs, a diagonal [nv]."""
        return with_rows(self.still, self.places, slopes.dofs.total)

    def stiffness(self, slopes: Slopes) -> Array:
        """``J^T diag(slopes) J``, [nv, nv]."""
        matrix = jnp.diag(self.diagonal(slopes))
        if self.bounds is not None:
            direction = self.bounds.direction
            matrix = matrix + matmul(direction.T * slopes.bounds, direction)
        if self.contacts is not None:
            matrix = matrix + self.contacts.stiffness(slopes.contacts)
        return matrix

    def none(self) -> Impulses:
        """No impulses."""
        zero = jnp.zeros_like(self.dofs.response)
        bounds = zero[:0] if self.bounds is None else jnp.zeros_like(self.bounds.lower)
        count = 0 if self.contacts is None else self.contacts.num_contacts
        contacts = jnp.zeros_like(zero, shape=(count, 3))
        return Impulses(BoundImpulses(zero, zero, zero), bounds, contacts)

    def driven(self, rates: Rates) -> Impulses:
        """The impulses of drives at these velocities, and no others."""
        row, still = self.dofs, jnp.zeros_like(self.dofs.response)
        alone = row._replace(response=still, drive=row.drive._replace(response=still))
        none = self.none()
        return none._replace(
            dofs=none.dofs._replace(drive=drive_impulse(alone, rates.dofs, self.sweep))
        )

    def linear(
        self,
        impulses: Impulses,
        rates: Rates,
        budget: Array,
        share: Array | float,
        center: Impulses | None = None,
    ) -> Law:
        """The laws near impulses and velocities: what holds, slides and is open there remains so.

        Args:
          impulses: the impulses lambda.
          rates: the rows' velocities u.
          budget: the largest friction impulse of each DOF, [n].
          share: the response r of each row's spring as a share of the row's own.
          center: the impulses lambda0 about which laws hold at ``u + r (lambda - lambda0)``;
            ``None`` for lambda.
        """
        at = Impulses(BoundImpulses(*[rates.dofs] * 3), rates.bounds, rates.contacts)
        if center is not None:
            springs = self.rates_of_rows(self.apart(impulses, center))
            at = jax.tree.map(lambda rate, spring: rate + share * spring, at, springs)
        row, bounds, contacts = self.dofs, impulses.distances, impulses.contacts
        errors, parts = linear_dofs(row, self.sweep, impulses.dofs, at.dofs, budget, share)
        missing = Impulses(errors, bounds, contacts)
        change = missing._replace(dofs=BoundImpulses(*(part.change for part in parts)))
        slope = Slopes(
            BoundImpulses(*(part.slope for part in parts)),
            bounds,
            jnp.zeros_like(contacts, shape=(0, 3, 3)),
        )
        if self.bounds is not None:
            error, part = linear_bounds(self.bounds, bounds, at.distances, share)
            missing = missing._replace(distances=error)
            change = change._replace(distances=part.change)
            slope = slope._replace(bounds=part.slope)
        if self.contacts is not None:
            wrong, each = linear_contacts(self.contacts.each, contacts, at.contacts, share)
            missing = missing._replace(contacts=wrong)
            change = change._replace(contacts=each.change)
            slope = slope._replace(contacts=each.slope)
        return Law(self.velocities(missing), change, slope)

    def apart(self, impulses: Impulses, center: Impulses) -> Impulses:
        """How far impulses are from a centre. Drives are nowhere open, so they have no springs."""
        apart = jax.tree.map(jnp.subtract, impulses, center)
        drive = jnp.zeros_like(apart.dofs.drive)
        return apart._replace(dofs=apart.dofs._replace(drive=drive))

    def rates_of_rows(self, impulses: Impulses) -> Impulses:
        """Impulses as the velocities that they give to their own rows."""
        dofs, bounds, contacts = impulses
        on_dofs = BoundImpulses(*(impulse * self.dofs.response for impulse in dofs))
        if self.bounds is not None:
            bounds = bounds * self.bounds.response
        if self.contacts is not None:
            each = self.contacts.each
            scale = jnp.stack([each.tangential, each.tangential, each.normal], axis=1)
            contacts = contacts * scale
        return Impulses(on_dofs, bounds, contacts)

    def velocities(self, impulses: Impulses) -> Array:
        """The same as one array, [R]."""
        dofs, bounds, contacts = self.rates_of_rows(impulses)
        parts = [*dofs]
        if self.bounds is not None:
            parts.append(bounds)
        if self.contacts is not None:
            parts.append(contacts.reshape(-1))
        return jnp.concatenate(parts)

    def admissible(self, impulses: Impulses, rates: Array, budget: Array) -> Impulses:
        """The impulses cut to what drives and friction can give at these velocities of the DOFs,
        [n]; contacts do not pull. Those of drives with limits contain what is in the matrix.
        """
        drive, friction, limit = impulses.dofs
        row = self.dofs.drive._replace(response=jnp.zeros_like(drive))
        gain, pushed = self.limited_drives()
        drive = drive + pushed - gain * rates
        drive = within_envelope(row, within_limit(row, drive, self.sweep), drive, rates, self.sweep)
        dofs = BoundImpulses(drive, jnp.clip(friction, -budget, budget), limit)
        contacts = impulses.contacts
        if self.contacts is not None:
            normal = jnp.maximum(contacts[:, 2], 0)
            reach = self.contacts.each.friction * normal
            length = tangential_length(contacts)
            factor = jnp.where(length > reach, reach / jnp.where(length > reach, length, 1), 1)
            contacts = jnp.concatenate([contacts[:, :2] * factor[:, None], normal[:, None]], axis=1)
        return Impulses(dofs, impulses.distances, contacts)

    def limited_drives(self) -> tuple[Array, Array]:
        """The parts of drives with limits that are in the matrix: decreases of their impulses per
        velocity, and impulses at zero velocity, [n] each.
        """
        row = self.dofs
        inside = jnp.where(jnp.isfinite(row.drive.drive.max_force), row.in_matrix, 0)
        return inside * row.gain, inside * row.push

    def driving(self, impulses: Impulses) -> Impulses:
        """The impulses of the drives alone, which may add energy."""
        none = self.none()
        return none._replace(dofs=none.dofs._replace(drive=impulses.dofs.drive))

    def returned_energy(self, impulses: Impulses) -> Array:
        """The energy that limits and contacts may add, as they undo what lies beyond them.

        It is counted with the inertia that each row alone has. A compliant contact gives back what
        it stored.
        """
        row, limit = self.dofs, impulses.dofs.limit
        back = jnp.where(limit > 0, row.lower_velocity, -row.upper_velocity)
        back = jnp.where(limit != 0, jnp.maximum(back, 0), 0)
        energy = jnp.sum(jnp.minimum(jnp.abs(limit) * back, 0.5 * back**2 / row.response))
        if self.contacts is not None:
            each = self.contacts.each
            apart = jnp.maximum(-each.approach, 0)
            returned = impulses.contacts[:, 2] * apart
            rigid = jnp.minimum(returned, 0.5 * apart**2 / each.normal)
            energy = energy + jnp.sum(jnp.where(each.softness > 0, returned, rigid))
        return energy


def num_motions(num_contacts: int) -> int:
    """How many motions of a link with so many contacts matter."""
    return 3 if num_contacts == 1 else 6


def motion_slices(groups: Sequence[np.ndarray]) -> list[slice]:
    """The motions of each group of contacts among all motions."""
    ends = np.cumsum([0, *(num_motions(len(which)) for which in groups)]).tolist()
    return [slice(*ends[k : k + 2]) for k in range(len(groups))]


def inverses(blocks: Array) -> Array:
    """The inverse of each block."""
    return jnp.moveaxis(spatial.inverse(jnp.moveaxis(blocks, 0, -1)), -1, 0)


def times(blocks: Array, vectors: Array) -> Array:
    """Blocks times vectors, [K, 3].

    XLA takes long for reductions of three entries, so these are plain additions.
    """
    first, second, third = (blocks[:, :, k] * vectors[:, k, None] for k in range(3))
    return first + second + third


def times_transposed(blocks: Array, vectors: Array) -> Array:
    """Transposed blocks times vectors, [K, 3]."""
    return jnp.sum(blocks * vectors[:, :, None], axis=1)


def product(blocks: Array, others: Array) -> Array:
    """Blocks times others, [K, 3, S]."""
    return jnp.sum(blocks[:, :, :, None] * others[:, None], axis=2)
