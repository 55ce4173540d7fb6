"""Articulated-body inertias: the inertia of a link when everything below it is free to move."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.dynamics.articulated_bodies import projected_inertias
from artix.dynamics.inertia import link_reference_inertias, reference_inertias, spatial_inertias
from artix.dynamics.mass_matrix import generalized_armature
from artix.kinematics.axes import Axes, check_axes, force_in_axes
from artix.kinematics.links import link_frames
from artix.kinematics.solve import generalized_motions, kinematics
from artix.math.arrays import masked_sum, take
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

Array = jax.Array


@quantity
def articulated_body_inertias(
    articulation: Articulation,
    state: State,
    *,
    axes: Axes = "world_aligned",
    armature: bool = True,
    projected: bool = False,
) -> Array:
    """Articulated-body inertias of all links, Pinocchio's ``Yaba`` (``"local"``) and ``oYaba`` (``"world"``).

    Featherstone 2008, section 7.2: ``f = I^A a + p`` for a force f on the link with its own joint cut.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      axes: ``"local"`` for the link's frame, ``"world_aligned"`` for its origin and the world's axes, ``"world"`` for
        the world's origin and axes (in float32 ill-conditioned far away).
      armature: whether to include the joints' armature, as forward dynamics does.
      projected: whether to return the inertia that the joint passes on to its parent, ``I^A - F D^-1 F^T``, which is
        what Pinocchio stores for all joints except those on the root.

    Returns:
      Symmetric matrices, linear part first [kg, kg m, kg m^2], shape [L, 6, 6]. The root's is never projected, as it
      has no parent.

    Raises:
      ValueError: an array of the state has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array of the state has another dtype than the articulation, or the articulation belongs to a mixed
        fleet, whose tree is not known while JAX traces.

    Identity: with ``axes="world"`` and the columns S of :func:`artix.joint_jacobians`, ``S_j . I^A_j S_j`` is D_j of
    :func:`artix.mass_matrix_cholesky` for joints of one DOF.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum)
      >>> lower = artix.dynamics.articulated_body_inertias(pendulum, state)[2]
      >>> upper = artix.dynamics.articulated_body_inertias(pendulum, state)[1]
      >>> print(lower[2, 2], upper[2, 2])  # to lift the upper rod is to lift both
      1.0 2.0
      >>> print(upper[0, 0])  # but the lower one gives way to what pushes it sideways
      1.251
    """
    check_axes(axes)
    tree, kin = articulation.topology, kinematics(articulation, state)
    added = generalized_armature(articulation)
    motions = generalized_motions(articulation, kin)
    inertias = reference_inertias(articulation, kin)
    passed = projected_inertias(tree, motions, inertias, added if armature else jnp.zeros_like(added))
    rigid = spatial_inertias(link_reference_inertias(articulation, kin))
    within, attached, first = _attachments(tree)
    below = take(passed, first)
    matrices = masked_sum(rigid, within) + masked_sum(below, attached)
    if projected:
        places = np.arange(tree.num_links)
        places[tree.body_link[1:]] = tree.num_links + np.arange(tree.num_bodies - 1)
        matrices = take(jnp.concatenate([matrices, below], axis=-1), places)
    frames = link_frames(tree, kin)
    for _ in range(2):  # The columns are forces, and by symmetry so are the rows.
        columns = jax.vmap(lambda force: force_in_axes(kin, frames, force, axes), 1, 1)(matrices)
        matrices = jnp.swapaxes(columns, 0, 1)
    return jnp.moveaxis(matrices, -1, 0)


@functools.lru_cache(maxsize=256)
def _attachments(tree: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The links and bodies that each link carries: itself, links on fixed joints, and the bodies jointed to those.

    Returns:
      ``[m, l]``: whether link m is link l or rigidly attached below it, [L, L]; ``[b, l]``: whether the parent link of
      body b + 1 is one of those, [B - 1, L]; the first entry of the generalised velocity that moves body b + 1,
      [B - 1].
    """
    within = tree.link_ancestors.T & (tree.link_body[:, None] == tree.link_body[None])
    attached = within[tree.body_parent_link[1:]]
    first = tree.num_base_dofs + np.searchsorted(tree.dof_body, np.arange(1, tree.num_bodies))
    return within, attached, first
