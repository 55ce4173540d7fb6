"""Spatial inertias of links and subtrees, 6 x 6 matrices that map motions to momenta."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inertia import link_reference_inertias, spatial_inertias, subtree_inertias
from artix.kinematics.axes import Axes, check_axes, inertias_in_axes
from artix.kinematics.bodies import Inertias, Placement
from artix.kinematics.frames import link_of_frame, locate_frame
from artix.kinematics.links import link_frames
from artix.kinematics.solve import Kinematics, kinematics
from artix.math.arrays import masked_sum
from artix.model.articulation import Articulation, State

Array = jax.Array


@quantity
def link_spatial_inertias(articulation: Articulation, state: State, *, axes: Axes = "world_aligned") -> Array:
    """Spatial inertias of the links, Pinocchio's ``oinertias`` in ``"world"`` axes.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters, and not even that in ``"local"`` axes.
      axes: ``"local"`` for the link's frame, ``"world_aligned"`` for its origin and the world's axes, ``"world"`` for
        the world's origin and axes (in float32 ill-conditioned far away).

    Returns:
      Symmetric matrices, linear part first [kg, kg m, kg m^2], shape [L, 6, 6].

    Raises:
      ValueError: an array of the state has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array of the state has another dtype than the articulation.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> inertias = artix.dynamics.link_spatial_inertias(pendulum, artix.neutral_state(pendulum), axes="local")
      >>> print(inertias[1, 4, 4])  # of a rod about its end: m l^2 / 3
      0.334
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    return _matrices(articulation, kin, link_reference_inertias(articulation, kin), axes)


@quantity
def composite_spatial_inertias(articulation: Articulation, state: State, *, axes: Axes = "world_aligned") -> Array:
    """Spatial inertias of each link together with all links below it as one rigid body.

    Pinocchio's ``Ycrb`` (``"local"``) and ``oYcrb`` (``"world"``); Featherstone 2008, section 6.2.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      axes: as in :func:`link_spatial_inertias`.

    Returns:
      Symmetric matrices, linear part first [kg, kg m, kg m^2], shape [L, 6, 6].

    Raises:
      ValueError: an array of the state has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: with ``axes="world"`` and the columns S of :func:`artix.joint_jacobians`, ``S_i . I^c_j S_j`` for i above
    j is the mass matrix.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> inertias = artix.dynamics.composite_spatial_inertias(pendulum, artix.neutral_state(pendulum))
      >>> print(inertias[:, 0, 0])  # masses of each link and of all below it
      [2. 2. 1.]
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    composite = subtree_inertias(articulation.topology, link_reference_inertias(articulation, kin))
    return _matrices(articulation, kin, composite, axes)


@quantity
def centroidal_inertia(articulation: Articulation, state: State) -> Array:
    """Spatial inertia of the whole articulation about its centre of mass, in world axes, Pinocchio's ``Ig``.

    Orin, Goswami and Lee, Autonomous Robots 2013.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      ``diag(m 1, I)``, shape [6, 6] [kg, kg m^2].

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

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
    # The first moments are exactly zero; computed as a difference of large numbers they need not be.
    at_center = Inertias(mass, jnp.zeros_like(first), second - first[:, None] * first[None] / mass[None, None])
    return spatial_inertias(at_center)[..., 0]


@quantity
def supported_inertia(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    with_subtree: bool = True,
) -> Array:
    """Spatial inertia that a frame's link supports, in the frame: Pinocchio's ``computeSupportedInertiaByFrame``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      with_subtree: whether to include everything below the link, or only the links attached to it by fixed joints.

    Returns:
      Symmetric matrix in the frame's own axes, linear part first, shape [6, 6]
      [kg, kg m or kg m^2].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> inertia = artix.dynamics.supported_inertia(arm, state, "wrist")
      >>> print(inertia[0, 0], arm.link_mass[6:].sum())
      1.8 1.8
    """
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
    frames: Placement = link_frames(tree, kin)
    matrices = spatial_inertias(inertias_in_axes(kin, frames, inertias, axes))
    return jnp.moveaxis(matrices, -1, 0)
