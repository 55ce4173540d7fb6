"""The linear system of an implicit step: springs, dampers and hard relations, and its response to
impulses.

The inverse of a mass matrix is dense, but its factors are sparse: an impulse on one leg reaches
another leg only through the root. Sweeps therefore carry coordinates of the change of velocity, in
which a row reads and writes only entries between its link and the root. If hard relations or
tendons couple everything, the coordinates are the change of the generalised velocity itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.dynamics.factorization import (
    MassProduct,
    inverse_of_unsymmetric,
    split_inverse,
)
from artix.dynamics.inverse import rigid_body_forces
from artix.kinematics.configuration import generalized_velocity
from artix.math import spatial, struct
from artix.math.arrays import identity, joined, matmul
from artix.math.tangents import add, without_derivatives
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology
from artix.simulation.common.control import Commands, position_error
from artix.simulation.common.couplings import (
    HardRows,
    LoopClosures,
    Springs,
    hard_rows,
    spring_efforts,
)
from artix.simulation.common.step_start import StepStart, inverse_with

Array = jax.Array

#: DOFs in a group are as many apart on the way to the root.
_LEVELS = 4


class Acting(struct.PyTreeNode):
    """Everything that acts on an articulation during a step, except bounds and hard relations."""

    commands: Commands
    wrench: Array
    """Wrenches on the links at their centres of mass, without gravity, [L, 6]."""
    springs: list[Springs]
    drive_inertia: Array
    """Inertias that scale the efforts of acceleration drives; 1 for force drives, [n]."""
    in_matrix: Array
    """The share of each drive that is in the linear system, [n]; rows have the rest, and what
    limits take away."""
    dt: Array
    """Length of the step [s]."""
    fast_impulse: Array
    """What the Coriolis forces of fast motion add to the missing impulse, [nv]."""
    smooth_friction: float = struct.field(pytree_node=False)
    """As in :class:`artix.SolverOptions`."""


class Response(struct.PyTreeNode):
    """The change of the generalised velocity per generalised impulse: ``left diag(weight) left^T``,
    or a dense matrix.

    A generalised impulse p changes the coordinates by ``diag(weight) left^T p``, and coordinates y
    change the velocity by ``left y``. With a dense matrix, coordinates are the velocity's change
    itself.
    """

    left: Array | None
    """[nv, nv]; ``None`` if the matrix is dense."""
    weight: Array
    """[nv]; or the dense matrix, [nv, nv]."""

    @classmethod
    def joined(cls, parts: Sequence[Response]) -> Response:
        """The joint response of several articulations, none of which responds to impulses on
        another.
        """
        if len(parts) == 1:
            return parts[0]
        sizes = [len(part.weight) for part in parts]
        if any(part.left is None for part in parts):
            return cls(None, side_by_side([part.matrix for part in parts], sizes))
        left = [part.left for part in parts if part.left is not None]
        return cls(side_by_side(left, sizes), joined([part.weight for part in parts]))

    @property
    def matrix(self) -> Array:
        """The response as a matrix, [nv, nv]."""
        return (
            self.weight
            if self.left is None
            else spatial.symmetric_from_upper(matmul(self.left * self.weight, self.left.T))
        )

    @property
    def diagonal(self) -> Array:
        """Diagonal of the matrix, [nv]."""
        if self.left is None:
            return jnp.diagonal(self.weight)
        return jnp.sum(self.left * (self.left * self.weight), axis=1)

    @property
    def effects(self) -> Array:
        """Changes of the coordinates per unit impulse, [nv, nv]."""
        return self.weight.T if self.left is None else self.left * self.weight

    def reading(self, direction: Array) -> Array:
        """Derivatives by the coordinates of velocities along directions [S, nv], [S, nv]."""
        return direction if self.left is None else matmul(direction, self.left)

    def effect(self, direction: Array) -> Array:
        """Changes of the coordinates per unit impulse along directions [S, nv], [S, nv]."""
        return (
            matmul(direction, self.weight.T)
            if self.left is None
            else self.reading(direction) * self.weight
        )

    def velocity(self, coordinates: Array) -> Array:
        """The change of the generalised velocity [nv] for coordinates [nv]."""
        return coordinates if self.left is None else matmul(self.left, coordinates)

    def energy(self, impulse: Array, coordinates: Array) -> Array:
        """Twice the energy that an impulse [nv] gives to a body at rest, from the coordinates [nv]
        of its effect.
        """
        if self.left is None:
            return jnp.sum(impulse * coordinates)
        return jnp.sum(coordinates**2 / self.weight)

    def to(self, impulse: Array) -> Array:
        """The change of the generalised velocity due to a generalised impulse [nv]."""
        return self.velocity(self.effect(impulse[None])[0])


class ImplicitSystem(NamedTuple):
    """The velocity with springs and dampers, its response to impulses, and the hard relations."""

    velocity: Array
    """Generalised velocity before the hard relations act, [nv]."""
    start: Array
    """Coordinates of the velocity at the start of the step, relative to this one, [nv]."""
    response: Response
    """Response to impulses without the hard relations."""
    hard: HardRows | None
    """The hard relations; ``None`` without any."""
    matrix: Array
    """The system's matrix, of which the response is the inverse, [nv, nv]."""
    product: MassProduct | None
    """The same as a product with the pattern of the tree; ``None`` if springs, loops or mimic
    joints fill it."""


class SlowStep(NamedTuple):
    """A step before measures for fast motion."""

    motion: Array
    """Velocities of the links' centres of mass, [L, 6]."""
    mass_matrix: Array
    """Without armature, [nv, nv]."""
    system: ImplicitSystem
    share: Array
    """The share of the measures that it takes: 0 for slow motion, 1 for fast motion, []."""


class Prepared(NamedTuple):
    """An articulation at the start of a step, up to its linear system."""

    articulation: Articulation
    state: State
    at_start: StepStart
    motion: Array
    """Velocities of the links' centres of mass, [L, 6]."""
    wrench: Array
    """Gravity, loads and brakes on the links at their centres of mass, [L, 6]."""
    acting: Acting
    loops: LoopClosures | None
    slow: SlowStep
    system: ImplicitSystem
    """With Coriolis forces at the middle of the step, if the motion is fast."""


#: Up to how many times the inertia of its joint a drive that has a limit is in the linear system.
#: More of it would be rounded where the limit takes it away.
_STIFFEST = 8.0


class DriveImpulses(NamedTuple):
    """Drives as impulses that are linear in the velocity at the end of the step, [n] each."""

    gain: Array
    """Decrease of a drive's impulse per velocity."""
    push: Array
    """Impulse at zero velocity."""


def drive_impulses(articulation: Articulation, state: State, acting: Acting) -> DriveImpulses:
    """The drives without their limits."""
    drive, dt, commands = articulation.drive, acting.dt, acting.commands
    error = position_error(articulation.topology, state.joint_position, commands.target_position)
    gain = dt * acting.drive_inertia * (dt * drive.stiffness + drive.damping)
    push = (
        dt
        * acting.drive_inertia
        * (drive.stiffness * error + drive.damping * commands.target_velocity)
    )
    return DriveImpulses(gain, push)


def share_in_matrix(
    articulation: Articulation, state: State, at_start: StepStart, acting: Acting
) -> Array:
    """The share of each drive that is in the linear system, [n]: all of it without limits, and up
    to some stiffness with a limit; none with an envelope, which depends on the velocity.

    Drives that are rows are solved one after the other with what else moves their joints: of 16
    walking quadrupeds the slowest then takes 2.6 instead of 2.0 Newton steps after five sweeps.
    Solutions do not depend on this share, so it has no derivative.
    """
    base = articulation.topology.num_base_dofs
    gain = drive_impulses(articulation, state, acting).gain
    inertia = jnp.diagonal(at_start.mass_matrix)[base:] + articulation.armature
    share = jnp.minimum(_STIFFEST * inertia / jnp.maximum(gain, _STIFFEST * inertia), 1)
    share = jnp.where(jnp.isfinite(articulation.envelope.max_effort), 0, share)
    return without_derivatives(jnp.where(is_unlimited(articulation), 1, share))


def is_unlimited(articulation: Articulation) -> Array:
    """Whether DOFs have drives with neither a limit nor an envelope, [n]."""
    has_limit = jnp.isfinite(articulation.drive.max_force)
    return ~(has_limit | jnp.isfinite(articulation.envelope.max_effort))


def has_limited_drives(articulation: Articulation) -> bool:
    """Whether any drive that has a limit is in the linear system."""
    absent = {*articulation.absent}
    has_gains = not {"drive.stiffness", "drive.damping"} <= absent
    return has_gains and "drive.max_force" not in absent


def joint_gains(articulation: Articulation, state: State, acting: Acting) -> Array:
    """Decreases of the joints' impulses per velocity, by drives in the linear system and friction,
    [n].
    """
    drives = acting.in_matrix * drive_impulses(articulation, state, acting).gain
    return drives + acting.dt * _friction_gain(articulation, state, acting)


def missing_impulse(
    articulation: Articulation, state: State, acting: Acting, change: Array | None
) -> Array:
    """The generalised impulse [nv] that bounds and hard relations must supply for a change of
    velocity.

    ``M change + dt (bias - wrenches - joint forces) + drives, friction and springs at the new
    velocity``. A ``change`` of ``None`` is zero.
    """
    dt, base = acting.dt, articulation.topology.num_base_dofs
    acceleration = None if change is None else change / dt
    velocity = generalized_velocity(articulation, state)
    velocity = velocity if change is None else velocity + change
    taken = rigid_body_forces(articulation, state, acceleration, acting.wrench, gravity=True)
    joints = joint_impulse(articulation, state, acting, velocity)
    if change is not None:
        joints = joints + articulation.armature * change[base:]
    missing = dt * taken + jnp.pad(joints, (base, 0)) + acting.fast_impulse
    springs = spring_impulse(acting, velocity)
    return missing if springs is None else missing + springs


def joint_impulse(
    articulation: Articulation, state: State, acting: Acting, velocity: Array
) -> Array:
    """The impulse [n] that drives in the linear system, friction and joint forces take at a
    velocity [nv] at the end of the step.
    """
    base = articulation.topology.num_base_dofs
    drives = drive_impulses(articulation, state, acting)
    joints = joint_gains(articulation, state, acting) * velocity[base:]
    return joints - acting.in_matrix * drives.push - acting.dt * acting.commands.joint_force


def spring_impulse(acting: Acting, velocity: Array) -> Array | None:
    """The generalised impulse [nv] that tendons and soft mimic joints take at a velocity at the end
    of the step; ``None`` without any.
    """
    impulse = None
    for group in acting.springs:
        effort = spring_efforts(group, velocity, acting.dt)
        impulse = add(impulse, acting.dt * matmul(effort, group.force))
    return impulse


def implicit_system(
    articulation: Articulation,
    state: State,
    at_start: StepStart,
    acting: Acting,
    loops: LoopClosures | None,
) -> ImplicitSystem:
    """Solves ``(Mh + dt D + dt^2 K) (nu' - nu) = dt (force + forces of springs and dampers at
    nu)``.
    """
    matrix, diagonal = _matrix(articulation, state, at_start, acting)
    topology, hard, product = at_start.topology, None, None
    if not (acting.springs or loops or len(topology.mimic_dofs)):
        # It has the sparsity pattern of the mass matrix.
        product = at_start.mass_product._replace(added=diagonal)
        response = Response(*split_inverse(topology, product))
    else:
        inverse = inverse_with(at_start, diagonal)
        for group in acting.springs:
            inverse = _with_springs(inverse, group, acting.dt)
        response = Response(None, inverse)
        hard = hard_rows(articulation, state, at_start, loops, inverse, acting.dt)
    start = response.effect(missing_impulse(articulation, state, acting, None)[None])[0]
    velocity = generalized_velocity(articulation, state) - response.velocity(start)
    return ImplicitSystem(velocity, start, response, hard, matrix + jnp.diag(diagonal), product)


def _gains(group: Springs, dt: Array) -> Array:
    """The decreases of springs' impulses per rate of their stretch, [S]."""
    return dt * (dt * group.stiffness + group.damping)


def _with_springs(inverse: Array, group: Springs, dt: Array) -> Array:
    """The inverse [nv, nv] of a matrix to which springs are added, by Woodbury's formula: there are
    fewer springs than DOFs, whose matrices would be inverted densely.
    """
    effect = matmul(inverse, group.force.T)
    gains = _gains(group, dt)
    coupling = identity(len(gains), dt.dtype) + gains[:, None] * matmul(group.rate, effect)
    taken = matmul(inverse_of_unsymmetric(coupling) * gains, matmul(group.rate, inverse))
    return inverse - matmul(effect, taken)


def _matrix(
    articulation: Articulation, state: State, at_start: StepStart, acting: Acting
) -> tuple[Array, Array]:
    """The matrix of the linear system, and a diagonal to add to it."""
    dt = acting.dt
    diagonal = joint_gains(articulation, state, acting)
    matrix = at_start.mass_matrix
    for group in acting.springs:
        matrix = matrix + matmul(group.force.T * _gains(group, dt), group.rate)
    return matrix, at_start.mass_product.added + jnp.pad(
        diagonal, (at_start.topology.num_base_dofs, 0)
    )


def _friction_gain(articulation: Articulation, state: State, acting: Acting) -> Array:
    """The force of viscous and smooth dry friction per velocity, [n]."""
    friction = articulation.friction
    if not acting.smooth_friction:
        return friction.viscous
    # With the speed at the start of the step in the denominator, the force is linear in the
    # velocity at its end.
    return friction.viscous + friction.dynamic / jnp.sqrt(
        state.joint_velocity**2 + acting.smooth_friction**2
    )


def drive_inertia(articulation: Articulation, at_start: StepStart) -> Array:
    """Inertias that scale the efforts of acceleration drives; 1 for force drives, [n]."""
    is_acceleration = articulation.drive.is_acceleration
    if "drive.is_acceleration" in articulation.absent:
        return jnp.ones_like(is_acceleration)
    inverse = (
        inverse_with(at_start, at_start.mass_product.added)
        if at_start.inverse is None
        else at_start.inverse
    )
    felt = 1 / jnp.diagonal(inverse)[at_start.topology.num_base_dofs :]
    return jnp.where(is_acceleration > 0, felt, 1)


# --- several articulations that take a step together: only contacts couple them ---


def in_columns(array: Array, sizes: Sequence[int], number: int) -> Array:
    """Places the columns of one articulation, [..., its nv], among those of all, [..., nv]."""
    if len(sizes) == 1:
        return array
    around = [(0, 0)] * (array.ndim - 1) + [(sum(sizes[:number]), sum(sizes[number + 1 :]))]
    return jnp.pad(array, around)


def side_by_side(parts: Sequence[Array], sizes: Sequence[int]) -> Array:
    """The rows of all articulations, [R, nv], from those of each, [its R, its nv]."""
    return joined([in_columns(part, sizes, k) for k, part in enumerate(parts)])


def parted(array: Array, sizes: Sequence[int]) -> list[Array]:
    """Splits an array along its first axis into the articulations' parts."""
    if len(sizes) == 1:
        return [array]
    ends = np.cumsum([0, *sizes])
    return [array[ends[k] : ends[k + 1]] for k in range(len(sizes))]


def dof_places(trees: Sequence[Topology]) -> np.ndarray:
    """Indices of the DOFs of all articulations in their joint generalised velocity, [n]."""
    first = np.cumsum([0, *(tree.nv for tree in trees)])
    return np.concatenate(
        [np.arange(last - tree.num_dofs, last) for tree, last in zip(trees, first[1:], strict=True)]
    )


def elimination_order(trees: Sequence[Topology]) -> np.ndarray:
    """The entries of the velocity of all articulations, from the leaves to the root of each,
    [nv].
    """
    groups, first = [], 0
    for tree in trees:
        base = tree.num_base_dofs
        groups.append(
            first + np.concatenate([np.arange(tree.nv - 1, base - 1, -1), np.arange(base)])
        )
        first += tree.nv
    return np.concatenate(groups)


def elimination_products(trees: Sequence[Topology]) -> int:
    """Products of an elimination in this order, if no velocity couples to others than those on its
    way to the root.
    """
    bases = [np.arange(tree.num_base_dofs) for tree in trees]
    joints = [np.sum(np.triu(tree.dof_ancestors, 1), axis=0) + tree.num_base_dofs for tree in trees]
    return int(np.sum(np.concatenate([*bases, *joints]) ** 2))


def loose_groups(trees: Sequence[Topology]) -> list[np.ndarray]:
    """The DOFs of all articulations in groups of which none follows another closely on the way to
    the root.
    """
    depth = np.concatenate([np.sum(np.triu(tree.dof_ancestors), axis=0) for tree in trees])
    return [group for k in range(_LEVELS) if len(group := np.flatnonzero(depth % _LEVELS == k))]
