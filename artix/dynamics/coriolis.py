"""The Coriolis matrix, and products of inertias and velocities."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.force_derivatives import coriolis_columns
from artix.dynamics.inertia import link_reference_inertias, momentum_of_motion, spatial_inertias
from artix.dynamics.newton_euler import newton_euler
from artix.dynamics.spatial_inertia import inertias_in_axes
from artix.kinematics.displacements import generalized_columns
from artix.kinematics.forward import kinematics, state_velocities
from artix.kinematics.frames import link_frames, motion_in_axes
from artix.kinematics.tree import link_subtree_sums
from artix.math import spatial
from artix.math.arrays import block_matrix
from artix.math.spatial import Motion
from artix.model.articulation import Articulation, State

Array = jax.Array


@quantity
def coriolis_matrix(articulation: Articulation, state: State) -> Array:
    """The Coriolis matrix C by Christoffel symbols: ``C nu == coriolis_compensation``, ``dM/dt - 2 C`` is skew.

    Pinocchio's ``computeCoriolisMatrix``; Echeandia and Wensing, *Numerical methods to compute the Coriolis matrix and
    Christoffel symbols for rigid-body systems*, 2021. ``C = sum_b J_b^T (I_b dJ_b/dt + B_b J_b)`` over the bodies, as
    outer products of the DOFs' motions and composite bodies.

    Returns:
      Shape [nv, nv] [kg/s, kg m/s or kg m^2/s]; rows and columns follow the generalised velocity. It is linear in the
      velocities and does not depend on the root's linear velocity.

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
    """Products of inertias and velocities, summed over each link and all links below it, [L, 6, 6] each.

    About the world's origin and in its axes, linear part first [kg/s, kg m/s or kg m^2/s].

    Attributes:
      coriolis: ``B = (v x* I - I v x + (I v) xbar*) / 2``; Pinocchio's ``B``.
      right: ``v x* I``; what Pinocchio declares as ``vxI``.
      left: ``I v x``; what Pinocchio declares as ``Ivx``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> products = artix.dynamics.velocity_product_matrices(arm, artix.random_state(arm, jax.random.key(0)))
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
      For each link the sums over itself and all links below it, linear part first, in world axes, shape [L, 6, 6] each.

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
    velocity = motion_in_axes(kin, frames, state_velocities(tree, kin, state).take(tree.link_body), "world")
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
    """Rates of change of :func:`artix.composite_spatial_inertias` in ``"world"`` axes, Pinocchio's ``doYcrb``.

    Returns:
      Symmetric matrices, linear part first, shape [L, 6, 6] [kg m/s, kg m^2/s]; the block of masses is zero.

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
    """The matrices [6, 6, k] of the spatial cross product ``v x`` of motions, for velocities [6, k]."""
    linear, angular = spatial.skew(velocity[:3]), spatial.skew(velocity[3:])
    return block_matrix(angular, linear, jnp.zeros_like(angular), angular)


def _momentum_cross_matrix(momenta: Motion) -> Array:
    """The matrices [6, 6, k] of ``h xbar*``, which take motions m to ``m x* h``."""
    linear, angular = -spatial.skew(momenta.linear), -spatial.skew(momenta.angular)
    return block_matrix(jnp.zeros_like(linear), linear, linear, angular)
