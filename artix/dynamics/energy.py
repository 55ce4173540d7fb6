"""Kinetic, potential and mechanical energy."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.dynamics.inertia import momentum_of_motion, reference_inertias, weights
from artix.evaluation import quantity
from artix.kinematics.solve import body_velocities, dof_motions, kinematics, root_motion
from artix.model.articulation import Articulation, State

Array = jax.Array


@quantity
def kinetic_energy(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Kinetic energy of all links.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      armature: whether to count the joints' armature, as Pinocchio does.

    Returns:
      The energy [J], a scalar.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``nu @ mass_matrix(a, s) @ nu / 2``.
    """
    kin = kinematics(articulation, state)
    tree = articulation.topology
    velocity = body_velocities(
        tree, dof_motions(tree, kin), root_motion(tree, state.root_velocity), state.joint_velocity
    )
    velocity = velocity
    momenta = momentum_of_motion(reference_inertias(articulation, kin), velocity)
    energy = 0.5 * jnp.sum(jnp.concatenate(momenta) * jnp.concatenate(velocity))
    if armature:
        energy = energy + 0.5 * jnp.sum(articulation.armature * state.joint_velocity**2)
    return energy


@quantity
def potential_energy(articulation: Articulation, state: State) -> Array:
    """Potential energy of gravity, zero for a mass at the world's origin.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured.
      state: its state; only the configuration matters.

    Returns:
      The energy [J], a scalar.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: its gradient along ``integrate`` is ``gravity_compensation``.
    """
    kin = kinematics(articulation, state)
    mass, moment = weights(articulation, kin)
    total = jnp.sum(mass[None] * kin.reference[:, None] + moment, axis=1)
    return -jnp.sum(total * articulation.gravity)


@quantity
def mechanical_energy(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Kinetic and potential energy together, Pinocchio's ``computeMechanicalEnergy`` (which counts the armature).

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      armature: whether the joints' armature moves, too.

    Returns:
      The energy [J], shape [].

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: constant along motions without applied forces.
    """
    return kinetic_energy(articulation, state, armature=armature) + potential_energy(articulation, state)
