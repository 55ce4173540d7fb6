"""The ten dynamic parameters of each link, in which the dynamics are linear.

``(m, m c_x, m c_y, m c_z, I_xx, I_xy, I_yy, I_xz, I_yz, I_zz)``, with the first moments and the rotational inertia
about the origin of the link's frame, in its axes: Pinocchio's ``toDynamicParameters`` in the same order. Not every set
of values is that of a physical body; with the parameters of :mod:`artix.model.inertial_parameters` it is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.kinematics.bodies import Placement
from artix.math import spatial
from artix.math.compiled import compiled
from artix.model.articulation import Articulation
from artix.model.checks import check_vector

Array = jax.Array
NUM_PARAMETERS = 10
_ROWS, _COLUMNS = (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)


@quantity
def dynamic_parameters(articulation: Articulation) -> Array:
    """Dynamic parameters of all links, Pinocchio's ``toDynamicParameters`` of each inertia.

    Args:
      articulation: the articulation.

    Returns:
      ``(m, m c, I_xx, I_xy, I_yy, I_xz, I_yz, I_zz)`` [kg, kg m, kg m^2] about the origins of the link frames, shape
      [L, 10].

    Identity: ``joint_torque_regressor(a, s, acc) @ dynamic_parameters(a).ravel()`` is the inverse dynamics.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> print(artix.dynamic_parameters(pendulum)[1, :4])  # 1 kg, its centre half a metre below the joint
      [ 1.   0.   0.  -0.5]
    """
    frames = Placement.from_poses(articulation.link_com_pose)
    mass, center = articulation.link_mass, frames.position
    rotation = spatial.rotation_matrix(frames.rotation)
    inertia = jnp.moveaxis(articulation.link_inertia, 0, -1)
    inertia = 0.5 * (inertia + inertia.swapaxes(0, 1))
    inertia = spatial.multiply_transposed(spatial.multiply(rotation, inertia), rotation)
    inertia = inertia + mass[None, None] * _point_inertia(center)
    entries = [inertia[i, j] for i, j in zip(_ROWS, _COLUMNS, strict=True)]
    return jnp.stack([mass, *(mass[None] * center), *entries], axis=1)


def with_dynamic_parameters(articulation: Articulation, parameters: Array) -> Articulation:
    """The articulation with these dynamic parameters, Pinocchio's ``FromDynamicParameters``.

    Args:
      articulation: the articulation.
      parameters: as :func:`dynamic_parameters` returns them, shape [L, 10]. They are not checked for physical
        consistency, which unconstrained least squares does not guarantee.

    Returns:
      The articulation with ``link_mass``, ``link_com_pose`` (in the links' axes) and ``link_inertia`` replaced. The
      centre of mass of a massless link is at the origin of its frame.

    Raises:
      ValueError: the parameters have the wrong shape.
      TypeError: the parameters have another dtype than the articulation.

    Identity: ``dynamic_parameters`` of the result are the parameters.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> parameters = artix.dynamic_parameters(pendulum)
      >>> heavier = artix.with_dynamic_parameters(pendulum, 2 * parameters)
      >>> print(heavier.link_mass, heavier.link_com_pose[1, :3])
      [0. 2. 2.] [ 0.   0.  -0.5]
    """
    shape = (articulation.topology.num_links, NUM_PARAMETERS)
    check_vector("parameters", parameters, shape, articulation.dtype, "ten per link")
    mass, pose, inertia = _moments(parameters)
    return articulation.replace(link_mass=mass, link_com_pose=pose, link_inertia=inertia)


@compiled
def _moments(parameters: Array) -> tuple[Array, Array, Array]:
    """Mass [L], pose of the centre of mass [L, 7] and inertia about it [L, 3, 3]."""
    mass, moment = parameters[:, 0], parameters[:, 1:4].T
    massless = mass[None] == 0
    divisor = jnp.where(massless, jnp.ones_like(mass)[None], mass[None])
    center = jnp.where(massless, jnp.zeros_like(moment), moment / divisor)
    xx, xy, yy, xz, yz, zz = parameters[:, 4:].T
    inertia = jnp.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz]).reshape(3, 3, -1) - mass[None, None] * _point_inertia(
        center
    )
    axes = jnp.zeros_like(parameters[:, :4]).at[:, 3].set(1)
    return mass, jnp.concatenate([center.T, axes], axis=1), jnp.moveaxis(inertia, -1, 0)


def _point_inertia(center: Array) -> Array:
    """Rotational inertia of unit point masses at [3, k] about the origin, [3, 3, k]."""
    square = spatial.dot(center, center)[None, None]
    return square * spatial.identity_like(center) - center[:, None] * center[None]
