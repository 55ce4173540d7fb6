"""Articulated-body inertias: what a force on a link meets when everything below it is free to move.

The DOFs are eliminated from the leaves upwards, level by level (Featherstone 2008, section 7.3): each takes its share
``U D^-1 U^T`` off the inertia of what it moves, and the rest is passed on to what moves it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix import spatial
from artix.articulation import Articulation, State
from artix.bodies import Inertias
from artix.dynamics.inertia import link_reference_inertias, reference_inertias, spatial_inertias
from artix.dynamics.mass_matrix import generalized_armature
from artix.frames import link_frames
from artix.kinematics import generalized_motions, kinematics
from artix.reference_frames import Axes, check_axes, force_in_axes
from artix.topology import Topology, level_schedule
from artix.tree import masked_sum, stage, take

Array = jax.Array


def articulated_body_inertias(
    articulation: Articulation,
    state: State,
    *,
    axes: Axes = "local",
    armature: bool = True,
    projected: bool = False,
) -> Array:
    """Articulated-body inertias of all links, Pinocchio's ``Yaba`` (``"local"``) and ``oYaba`` (``"world"``).

    Featherstone 2008, section 7.2: ``f = I^A a + p`` for a force f on the link alone, its own joint cut.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      axes: ``"local"`` for the link's frame, ``"world_aligned"`` for its origin and the world's axes, ``"world"`` for
        the world's origin and axes (in float32 ill-conditioned far away).
      armature: whether the joints' armature resists, as in forward dynamics.
      projected: whether of what the joint passes on to the parent, ``I^A - U D^-1 U^T``; that is what Pinocchio keeps
        of all joints but those on the root.

    Returns:
      Symmetric matrices, linear part first, shape [L, 6, 6]. The root's is never projected: it has no parent.

    Raises:
      ValueError: an array of the state has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array of the state has another dtype than the articulation, or the articulation belongs to a mixed
        fleet, whose tree is not known while JAX traces.

    Identity: ``S_j . I^A_j S_j`` is D_j of :func:`artix.mass_matrix_cholesky` for joints of one DOF.
    """
    check_axes(axes)
    tree = articulation.topology
    if not isinstance(tree, Topology):
        raise TypeError("articulated-body inertias need one topology; evaluate the kinds of a mixed fleet one by one")
    kin = kinematics(articulation, state)
    added = generalized_armature(articulation)
    motions = generalized_motions(articulation, kin)
    inertias = reference_inertias(articulation, kin)
    passed = _passed_on(tree, motions, inertias, added if armature else jnp.zeros_like(added))
    own = spatial_inertias(link_reference_inertias(articulation, kin))
    within, attached, first = _attachments(tree)
    below = take(passed, first)
    matrices = masked_sum(own, within) + masked_sum(below, attached)
    if projected:
        places = np.arange(tree.num_links)
        places[tree.body_link[1:]] = tree.num_links + np.arange(tree.num_bodies - 1)
        matrices = take(jnp.concatenate([matrices, below], axis=-1), places)
    frames = link_frames(tree, kin)
    for _ in range(2):  # The columns are forces and, by symmetry, the rows.
        columns = jax.vmap(lambda force: force_in_axes(kin, frames, force, axes), 1, 1)(matrices)
        matrices = jnp.swapaxes(columns, 0, 1)
    return jnp.moveaxis(matrices, -1, 0)


@functools.lru_cache(maxsize=256)
def _attachments(tree: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of what the links are made up: themselves, links that fixed joints hold, and bodies that hang on those.

    Returns:
      ``[m, l]``: whether link m is link l or rigidly below it, [L, L]; ``[b, l]``: whether body b + 1 hangs on one of
      those, [B - 1, L]; the first entry of the generalised velocity that moves body b + 1, [B - 1].
    """
    within = tree.link_ancestors.T & (tree.link_body[:, None] == tree.link_body[None])
    attached = within[tree.body_parent_link[1:]]
    first = tree.num_base_dofs + np.searchsorted(tree.dof_body, np.arange(1, tree.num_bodies))
    return within, attached, first


class Elimination(NamedTuple):
    """The tree of the generalised velocity's entries: every entry hangs below the one that moves it."""

    parent: np.ndarray
    """The entry above each, -1 at the top, [nv]."""
    body: np.ndarray
    """The body that each entry is the last to move, -1 for none, [nv]."""
    levels: tuple[np.ndarray, ...]
    """Entries by depth."""


@functools.lru_cache(maxsize=256)
def elimination(tree: Topology) -> Elimination:
    """The elimination tree of a topology's mass matrix."""
    base = tree.num_base_dofs
    parent = list(range(-1, base - 1))
    last = {0: base - 1}
    for dof, body in enumerate(tree.dof_body.tolist()):
        first = tree.dof_column[dof] == 0
        parent.append(last[int(tree.body_parent[body])] if first else base + dof - 1)
        last[body] = base + dof
    bodies = np.full(tree.nv, -1)
    for body, entry in last.items():
        if entry >= 0:
            bodies[entry] = body
    # level_schedule lists what hangs below a first item; a virtual one above the tops serves as such.
    levels = level_schedule(np.concatenate([[-1], np.array(parent, int) + 1]))
    return Elimination(np.array(parent, int), bodies, tuple(level - 1 for level in levels))


def _passed_on(tree: Topology, motions: Array, inertias: Inertias, armature: Array) -> Array:
    """The articulated inertia that each entry passes on to the one above, ``I^A - U D^-1 U^T``, [6, 6, nv].

    Args:
      tree: the topology.
      motions: unit motions of the generalised velocity, [6, nv].
      inertias: the bodies' inertias about the reference point.
      armature: what each entry has besides, [nv].
    """
    order = elimination(tree)
    own = _padded(spatial_inertias(inertias))
    passed: list[Array] = []
    for depth in reversed(range(len(order.levels))):
        level = order.levels[depth]
        inertia = take(own, np.where(order.body[level] < 0, tree.num_bodies, order.body[level]))
        if passed:
            inertia = inertia + _sum_by_parent(order, depth + 1, passed[-1])
        motion = take(motions, level)
        force = spatial.apply(inertia, motion)
        inverse = 1 / (spatial.dot(motion, force) + take(armature, level))
        force, inverse, inertia = stage(force, inverse, inertia)
        passed.append(inertia - force[:, None] * (force * inverse[None])[None])
    return take(jnp.concatenate(passed[::-1], axis=-1), np.argsort(np.concatenate(order.levels)))


def _padded(x: Array) -> Array:
    """With one item of zeros more."""
    return jnp.concatenate([x, jnp.zeros_like(x[..., :1])], axis=-1)


def _sum_by_parent(order: Elimination, depth: int, x: Array) -> Array:
    """Sums what the entries at a depth pass on, over the entries with one parent: items of the level above."""
    above, parents = order.levels[depth - 1], order.parent[order.levels[depth]]
    if np.array_equal(parents, above):
        return x
    children = [np.flatnonzero(parents == parent) for parent in above]
    padded, most = _padded(x), max(map(len, children))
    places = np.array([np.pad(found, (0, most - len(found)), constant_values=len(parents)) for found in children])
    return sum(take(padded, places[:, k]) for k in range(most))  # type: ignore[return-value]
