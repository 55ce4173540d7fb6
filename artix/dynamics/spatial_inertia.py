"""Spatial inertias, 6 x 6 matrices from motions to momenta, of links, rigid subtrees and
articulated bodies; and the Coriolis matrix with other products of inertias and velocities.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.dynamics.factorization import projected_inertias
from artix.dynamics.inertia import (
    Inertias,
    link_reference_inertias,
    momentum_of_motion,
    reference_inertias,
    spatial_inertias,
    subtree_inertias,
)
from artix.dynamics.mass_matrix import generalized_armature
from artix.dynamics.newton_euler import coriolis_columns, newton_euler
from artix.kinematics.columns import generalized_columns
from artix.kinematics.forward import Kinematics, generalized_motions, kinematics, state_velocities
from artix.kinematics.frames import (
    Axes,
    Frame,
    Offset,
    check_axes,
    check_single,
    force_in_axes,
    link_frames,
    link_of_frame,
    locate_frame,
    motion_in_axes,
    origin,
)
from artix.kinematics.tree import link_subtree_sums
from artix.math import spatial
from artix.math.arrays import block_matrix, masked_sum, take
from artix.math.spatial import Motion, Transforms
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

Array = jax.Array


@quantity
def link_spatial_inertias(
    articulation: Articulation, state: State, *, axes: Axes = "world_aligned"
) -> Array:
    """Spatial inertias of the links, Pinocchio's ``oinertias`` in ``"world"`` axes.

    Args:
      state: its state; only the configuration matters, and not even that in ``"local"`` axes.
      axes: ``"local"`` for the link's frame, ``"world_aligned"`` for its origin and the world's
        axes, ``"world"`` for the world's origin and axes (in float32 ill-conditioned far away).

    Returns:
      Symmetric matrices, linear part first [kg, kg m, kg m^2], shape [L, 6, 6].

    Raises:
      ValueError: ``axes`` is not one of the three.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> inertias = artix.dynamics.link_spatial_inertias(
      ...     pendulum, artix.neutral_state(pendulum), axes="local"
      ... )
      >>> print(inertias[1, 4, 4])  # of a rod about its end: m l^2 / 3
      0.334
    """
    axes = check_axes(axes)
    kin = kinematics(articulation, state)
    return _matrices(articulation, kin, link_reference_inertias(articulation, kin), axes)


@quantity
def composite_spatial_inertias(
    articulation: Articulation, state: State, *, axes: Axes = "world_aligned"
) -> Array:
    """Spatial inertias of each link together with all links below it as one rigid body.

    Pinocchio's ``Ycrb`` (``"local"``) and ``oYcrb`` (``"world"``); Featherstone 2008, section 6.2.

    Args:
      axes: as in :func:`link_spatial_inertias`.

    Returns:
      Symmetric matrices, linear part first [kg, kg m, kg m^2], shape [L, 6, 6].

    Raises:
      ValueError: ``axes`` is not one of the three.

    Identity: with ``axes="world"`` and the columns S of :func:`artix.joint_jacobians`,
    ``S_i . I^c_j S_j`` for i above j is the mass matrix.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> inertias = artix.dynamics.composite_spatial_inertias(
      ...     pendulum, artix.neutral_state(pendulum)
      ... )
      >>> print(inertias[:, 0, 0])  # masses of each link and of all below it
      [2. 2. 1.]
    """
    axes = check_axes(axes)
    kin = kinematics(articulation, state)
    composite = subtree_inertias(articulation.topology, link_reference_inertias(articulation, kin))
    return _matrices(articulation, kin, composite, axes)


@quantity
def centroidal_inertia(articulation: Articulation, state: State) -> Array:
    """Spatial inertia of the whole articulation about its centre of mass, in world axes,
    Pinocchio's ``Ig``.

    Orin, Goswami and Lee, Autonomous Robots 2013.

    Returns:
      ``diag(m 1, I)``, shape [6, 6] [kg, kg m^2].

    Identity: its inverse times the centroidal momentum is the articulation's average velocity.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> inertia = artix.dynamics.centroidal_inertia(quadruped, artix.neutral_state(quadruped))
      >>> print(inertia[0, 0], jnp.diagonal(inertia)[3:])  # [kg] and [kg m^2]
      14.24 [0.279 0.524 0.515]
    """
    kin = kinematics(articulation, state)
    inertias = link_reference_inertias(articulation, kin)
    mass, first, second = (jnp.sum(part, axis=-1, keepdims=True) for part in inertias)
    # The first moments are exactly zero; computed as a difference of large numbers they need not
    # be.
    at_center = Inertias(
        mass, jnp.zeros_like(first), second - first[:, None] * first[None] / mass[None, None]
    )
    return spatial_inertias(at_center)[..., 0]


@quantity
def supported_inertia(
    articulation: Articulation,
    state: State,
    frame: Frame,
    offset: Offset = None,
    *,
    with_subtree: bool = True,
) -> Array:
    """Spatial inertia that a frame's link supports, in the frame: Pinocchio's
    ``computeSupportedInertiaByFrame``.

    Args:
      frame: the name of a link or additional frame, or a link's index; see
        :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      with_subtree: whether to include everything below the link, or only the links attached to it
        by fixed joints.

    Returns:
      Symmetric matrix in the frame's own axes, linear part first, shape [6, 6]
      [kg, kg m or kg m^2].

    Raises:
      KeyError: no link or frame has this name.
      TypeError: these are several frames.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> inertia = artix.dynamics.supported_inertia(arm, state, "wrist")
      >>> print(inertia[0, 0], arm.link_mass[6:].sum())
      1.8 1.8
    """
    check_single(frame)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    _, placement = locate_frame(articulation, kin, frame, offset)
    link = link_of_frame(articulation, frame)[0]
    below = jnp.asarray(tree.link_ancestors)[link[0]]
    if not with_subtree:
        body = jnp.asarray(tree.link_body)
        below = below & (body == body[link])
    inertias = link_reference_inertias(articulation, kin)
    supported = Inertias(*(masked_sum(part, below[:, None]) for part in inertias))
    return spatial_inertias(inertias_in_axes(kin, placement, supported, "local"))[..., 0]


def _matrices(articulation: Articulation, kin: Kinematics, inertias: Inertias, axes: Axes) -> Array:
    """Spatial inertias of L links in ``axes``, from their mass moments, [L, 6, 6]."""
    tree = articulation.topology
    frames: Transforms = link_frames(tree, kin)
    matrices = spatial_inertias(inertias_in_axes(kin, frames, inertias, axes))
    return jnp.moveaxis(matrices, -1, 0)


@quantity
def articulated_body_inertias(
    articulation: Articulation,
    state: State,
    *,
    axes: Axes = "world_aligned",
    armature: bool = True,
    projected: bool = False,
) -> Array:
    """Articulated-body inertias of all links, Pinocchio's ``Yaba`` (``"local"``) and ``oYaba``
    (``"world"``).

    Featherstone 2008, section 7.2: ``f = I^A a + p`` for a force f on the link with its own joint
    cut.

    Args:
      axes: ``"local"`` for the link's frame, ``"world_aligned"`` for its origin and the world's
        axes, ``"world"`` for the world's origin and axes (in float32 ill-conditioned far away).
      armature: whether to include the joints' armature, as forward dynamics does.
      projected: whether to return the inertia that the joint passes on to its parent,
        ``I^A - F D^-1 F^T``, which is what Pinocchio stores for all joints except those on the
        root.

    Returns:
      Symmetric matrices, linear part first [kg, kg m, kg m^2], shape [L, 6, 6]. The root's is never
      projected, as it has no parent.

    Raises:
      ValueError: ``axes`` is not one of the three.
      TypeError: the articulation belongs to a mixed fleet, whose tree is not known while JAX
        traces.

    Identity: with ``axes="world"`` and the columns S of :func:`artix.joint_jacobians`,
    ``S_j . I^A_j S_j`` is D_j of :func:`artix.mass_matrix_cholesky` for joints of one DOF.

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
    axes = check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    added = generalized_armature(articulation)
    motions = generalized_motions(articulation, kin)
    inertias = reference_inertias(articulation, kin)
    passed = projected_inertias(
        tree, motions, inertias, added if armature else jnp.zeros_like(added)
    )
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
    """The links and bodies that each link carries: itself, links on fixed joints, and the bodies
    jointed to those.

    Returns:
      ``[m, l]``: whether link m is link l or rigidly attached below it, [L, L]; ``[b, l]``: whether
        the parent link of
      body b + 1 is one of those, [B - 1, L]; the first entry of the generalised velocity that moves
      body b + 1, [B - 1].
    """
    within = tree.link_ancestors.T & (tree.link_body[:, None] == tree.link_body[None])
    attached = within[tree.body_parent_link[1:]]
    first = tree.num_base_dofs + np.searchsorted(tree.dof_body, np.arange(1, tree.num_bodies))
    return within, attached, first


def inertias_in_axes(
    kin: Kinematics, frames: Transforms, inertias: Inertias, axes: Axes
) -> Inertias:
    """Converts mass moments about the reference point to ``axes``."""
    mass, first, second = inertias
    point = jnp.broadcast_to(origin(kin, frames, axes), first.shape)
    shifted = first - mass[None] * point
    second = second - first[:, None] * point[None] - point[:, None] * shifted[None]
    if axes != "local":
        return Inertias(mass, shifted, second)
    rotation = spatial.rotation_matrix(frames.rotation).swapaxes(0, 1)
    half = spatial.multiply(rotation, second)
    return Inertias(
        mass, spatial.apply(rotation, shifted), spatial.multiply_transposed(half, rotation)
    )


# --- the Coriolis matrix ------------------------------------------------------------------------


@quantity
def coriolis_matrix(articulation: Articulation, state: State) -> Array:
    """The Coriolis matrix C by Christoffel symbols: ``C nu == coriolis_compensation``,
    ``dM/dt - 2 C`` is skew.

    Pinocchio's ``computeCoriolisMatrix``; Echeandia and Wensing, *Numerical methods to compute the
    Coriolis matrix and Christoffel symbols for rigid-body systems*, 2021.
    ``C = sum_b J_b^T (I_b dJ_b/dt + B_b J_b)`` over the bodies, as outer products of the DOFs'
    motions and composite bodies.

    Returns:
      Shape [nv, nv] [kg/s, kg m/s or kg m^2/s]; rows and columns follow the generalised velocity.
      It is linear in the velocities and does not depend on the root's linear velocity.

    Identity: ``C + C.T`` is the rate of change of ``mass_matrix(a, s)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> matrix = artix.coriolis_matrix(arm, state)
      >>> force = matrix @ artix.generalized_velocity(arm, state)
      >>> print(jnp.allclose(force, artix.coriolis_compensation(arm, state), atol=1e-3))
      True
    """
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, None, gravity=False)
    return generalized_columns(articulation.topology, coriolis_columns(articulation, kin, rnea))


class VelocityProducts(NamedTuple):
    """Products of inertias and velocities, summed over each link and all links below it, [L, 6, 6]
    each.

    About the world's origin and in its axes, linear part first [kg/s, kg m/s or kg m^2/s].

    Attributes:
      coriolis: ``B = (v x* I - I v x + (I v) xbar*) / 2``; Pinocchio's ``B``.
      right: ``v x* I``; what Pinocchio declares as ``vxI``.
      left: ``I v x``; what Pinocchio declares as ``Ivx``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> products = artix.dynamics.velocity_product_matrices(
      ...     arm, artix.random_state(arm, jax.random.key(0))
      ... )
      >>> print(products.coriolis.shape, products.right.shape, products.left.shape)
      (9, 6, 6) (9, 6, 6) (9, 6, 6)
    """

    coriolis: Array
    right: Array
    left: Array


@quantity
def velocity_product_matrices(articulation: Articulation, state: State) -> VelocityProducts:
    """Products of the links' inertias and velocities, about the world's origin and in its axes.

    Returns:
      For each link the sums over itself and all links below it, linear part first, in world axes,
      shape [L, 6, 6] each.

    Identity: ``right - left`` is :func:`composite_spatial_inertia_rates`, and ``right == -left.T``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> products = artix.dynamics.velocity_product_matrices(arm, state)
      >>> rates = artix.dynamics.composite_spatial_inertia_rates(arm, state)
      >>> print(jnp.allclose(products.right - products.left, rates, atol=1e-3))
      True
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    frames = link_frames(tree, kin)
    velocity = motion_in_axes(
        kin, frames, state_velocities(tree, kin, state).take(tree.link_body), "world"
    )
    inertias = inertias_in_axes(kin, frames, link_reference_inertias(articulation, kin), "world")
    matrix = spatial_inertias(inertias)
    momenta = momentum_of_motion(inertias, Motion.from_rows(velocity))
    left = spatial.multiply(matrix, _motion_cross_matrix(velocity))
    right = -jnp.swapaxes(left, 0, 1)  # v x* = -(v x)^T, and inertias are symmetric
    coriolis = 0.5 * (right - left + _momentum_cross_matrix(momenta))
    sums = (link_subtree_sums(tree, part) for part in (coriolis, right, left))
    return VelocityProducts(*(jnp.moveaxis(part, -1, 0) for part in sums))


@quantity
def composite_spatial_inertia_rates(articulation: Articulation, state: State) -> Array:
    """Rates of change of :func:`artix.composite_spatial_inertias` in ``"world"`` axes, Pinocchio's
    ``doYcrb``.

    Returns:
      Symmetric matrices, linear part first, shape [L, 6, 6] [kg m/s, kg m^2/s]; the block of masses
      is zero.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> rates = artix.dynamics.composite_spatial_inertia_rates(arm, state)
      >>> print(rates.shape, jnp.abs(rates[:, 0, 0]).max() < 1e-4)  # masses do not change
      (9, 6, 6) True
    """
    products = velocity_product_matrices(articulation, state)
    return products.right - products.left


def _motion_cross_matrix(velocity: Array) -> Array:
    """The matrices [6, 6, k] of the spatial cross product ``v x`` of motions, for velocities
    [6, k].
    """
    linear, angular = spatial.skew(velocity[:3]), spatial.skew(velocity[3:])
    return block_matrix(angular, linear, jnp.zeros_like(angular), angular)


def _momentum_cross_matrix(momenta: Motion) -> Array:
    """The matrices [6, 6, k] of ``h xbar*``, which take motions m to ``m x* h``."""
    linear, angular = -spatial.skew(momenta.linear), -spatial.skew(momenta.angular)
    return block_matrix(jnp.zeros_like(linear), linear, linear, angular)
