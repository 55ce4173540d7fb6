"""Kinetic, potential and mechanical energy."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.inertia import gravity_moments, momentum_of_motion, reference_inertias
from artix.kinematics.forward import kinematics, state_velocities
from artix.model.articulation import Articulation, State

Array = jax.Array


@quantity
def kinetic_energy(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Kinetic energy of all links.

    Args:
      armature: whether to include the joints' armature, as Pinocchio does.

    Returns:
      The energy [J], a scalar.

    Identity: ``nu @ mass_matrix(a, s) @ nu / 2``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> print(artix.kinetic_energy(pendulum, swinging))  # a rod of 2 kg and 2 m: m l^2 / 6 [J]
      1.334
    """
    kin = kinematics(articulation, state)
    velocity = state_velocities(articulation.topology, kin, state)
    momenta = momentum_of_motion(reference_inertias(articulation, kin), velocity)
    energy = 0.5 * jnp.sum(jnp.concatenate(momenta) * jnp.concatenate(velocity))
    if armature:
        energy = energy + 0.5 * jnp.sum(articulation.armature * state.joint_velocity**2)
    return energy


@quantity
def potential_energy(articulation: Articulation, state: State) -> Array:
    """Potential energy of gravity, zero for a mass at the world's origin; Pinocchio's ``computePotentialEnergy``.

    Args:
      articulation: the articulation; ``gravity_scale`` is honoured.

    Returns:
      The energy [J], a scalar.

    Identity: its gradient along ``integrate`` is ``gravity_compensation``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> print(artix.potential_energy(pendulum, artix.neutral_state(pendulum)))  # -9.81 (0.5 + 1.5) J
      -19.62
    """
    kin = kinematics(articulation, state)
    mass, moment = gravity_moments(articulation, kin)
    total = jnp.sum(mass[None] * kin.reference[:, None] + moment, axis=1)
    return -jnp.sum(total * articulation.gravity)


@quantity
def mechanical_energy(articulation: Articulation, state: State, *, armature: bool = False) -> Array:
    """Sum of kinetic and potential energy, Pinocchio's ``computeMechanicalEnergy`` (which includes the armature).

    Args:
      armature: whether to include the kinetic energy of the joints' armature.

    Returns:
      The energy [J], shape [].

    Identity: constant along motions without applied forces.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.random_state(pendulum, jax.random.key(0))
      >>> falling = artix.forward_dynamics(pendulum, state, jnp.zeros(2))
      >>> moving = (state.replace(joint_position=state.joint_velocity, joint_velocity=falling),)
      >>> _, power = jax.jvp(lambda s: artix.mechanical_energy(pendulum, s), (state,), moving)
      >>> print(jnp.abs(power) < 1e-3)  # nothing drives it: its energy stays [W]
      True
    """
    return kinetic_energy(articulation, state, armature=armature) + potential_energy(articulation, state)
