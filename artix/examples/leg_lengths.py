"""Leg lengths that cost a walking policy less energy, by gradients through policy and contacts.

The quadruped walks with the policy that comes with artix, which stays as it is. Thighs and shanks
become longer or shorter, with masses and inertias to match; the derivative of the cost of transport
(energy per weight and distance) with respect to both lengths says how to change them.

``python -m artix.examples.leg_lengths`` prints the costs along a descent.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import artix
from artix import envs
from artix.envs import EnvState, observations
from artix.envs.tasks.legged import LeggedVelocity
from artix.envs.tasks.quadruped_velocity import QuadrupedVelocity
from artix.examples import policies
from artix.examples.pushes import OPTIONS, advance

Array = jax.Array
#: What depends on the lengths. The environment takes these arrays from its state, like random ones.
LEAVES = ("link_mass", "link_com_pose", "link_inertia", "joint_parent_pose")
#: Commanded speeds [m/s], control steps (0.02 s) until the walk is steady, and those that count:
#: four strides.
SPEEDS, BEFORE, COUNTED = (0.4, 0.6, 0.8), 40, 80
#: Price of a speed that is not the commanded one [s^2/m^2]: walking faster is cheaper, too.
PRICE = 5.0


class Metered(QuadrupedVelocity):
    """The task, with the work of all motors since the start in its memory [J].

    What a motor brakes counts as what it drives: both are lost.
    """

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """As the task, without work so far."""
        state, memory = super().begin(key)
        return state, memory | {"work": jnp.zeros((), self.articulation.dtype)}

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Any],
        action: Array,
    ) -> tuple[artix.Control, dict[str, Any]]:
        """As the task, and adds the work of this physics step."""
        control, memory = super().actuate(articulation, state, memory, action)
        power = (
            observations.drive_forces(articulation, state, self.target(action))
            * state.joint_velocity
        )
        return control, memory | {
            "work": memory["work"] + self.physics_dt * jnp.sum(jnp.abs(power))
        }


def walker() -> tuple[LeggedVelocity, policies.Policy]:
    """The task without noise, and its policy, both in float64."""
    changes = [envs.Change(leaf, "absolute", (1.0, 1.0)) for leaf in LEAVES]
    environment = Metered(
        dtype="float64", solver_options=OPTIONS, randomization=changes, noise_scales={}, resets={}
    )
    return environment, jax.tree.map(
        lambda x: x.astype("float64"), policies.load("quadruped_velocity")
    )


def designed(robot: artix.Articulation, lengths: Array) -> artix.Articulation:
    """The robot with thighs and shanks of these lengths [2], relative to its own, equally thick."""
    names = robot.topology.link_names
    scale = jnp.ones(len(names), lengths.dtype)
    parent = scale
    for length, part, child in zip(lengths, ("thigh", "shank"), ("shank", "foot"), strict=True):
        scale = jnp.where(jnp.array([part in name for name in names]), length, scale)
        parent = jnp.where(jnp.array([child in name for name in names]), length, parent)
    across = jnp.stack([scale**3, scale**3, scale], axis=1)  # of rods along z
    return robot.replace(
        link_mass=robot.link_mass * scale,
        link_com_pose=robot.link_com_pose.at[:, 2].multiply(scale),
        link_inertia=robot.link_inertia * across[:, :, None],
        joint_parent_pose=robot.joint_parent_pose.at[:, 2].multiply(parent),
    )


def cost(
    environment: LeggedVelocity, policy: policies.Policy, lengths: Array, speed: Array
) -> tuple[Array, Array]:
    """Cost of transport [] and mean speed [m/s] of a walk with these lengths."""
    robot = designed(environment.articulation, lengths)
    height = environment.robot.height + (jnp.sum(lengths) - 2) * 0.21 * jnp.cos(0.9)
    start = environment.reset(jax.random.key(0))
    pose = start.articulation_state.root_pose.at[2].set(height)
    info = start.info | {
        "command": jnp.zeros(3, speed.dtype).at[0].set(speed),
        "command_time_left": jnp.full_like(speed, 1e6),
        "randomized": tuple(getattr(robot, leaf) for leaf in LEAVES),
    }
    standing = start.articulation_state.replace(root_pose=pose)
    start = start.replace(articulation_state=standing, info=info)

    def body(state: EnvState, _: None) -> tuple[EnvState, tuple[Array, Array]]:
        after = advance(environment, policy, state)
        return after, (after.info["work"], after.articulation_state.root_pose[0])

    work, place = (
        x[-1] - x[BEFORE - 1] for x in jax.lax.scan(body, start, length=BEFORE + COUNTED)[1]
    )
    weight = jnp.sum(robot.link_mass) * jnp.linalg.norm(robot.gravity)
    return work / (weight * place), place / (COUNTED * environment.dt)


def improve(
    environment: LeggedVelocity,
    policy: policies.Policy,
    lengths: Array,
    steps: int,
    most: float = 0.1,
) -> tuple[Array, Array]:
    """Descends along the gradient by 2 % a step, at most to ``most`` from the robot's own lengths.

    A footfall more or less changes the cost of a walk, so its gradient at one design says little
    about the next ones. This is the mean over 24 designs nearby, at all :data:`SPEEDS`, of the
    cost and of the squared error of the speed at its :data:`PRICE`.

    Returns:
      The designs [steps, 2], and the mean costs nearby [steps].
    """
    around = 0.02 * jax.random.normal(jax.random.key(2), (24, 2), lengths.dtype)

    def mean(lengths: Array) -> tuple[Array, Array]:
        def one(shift: Array, speed: Array) -> tuple[Array, Array]:
            value, mean_speed = cost(environment, policy, lengths + shift, speed)
            return value, (mean_speed - speed) ** 2

        speeds = jnp.array(SPEEDS, lengths.dtype)
        values, errors = jax.vmap(lambda shift: jax.vmap(lambda speed: one(shift, speed))(speeds))(
            around
        )
        return jnp.mean(values) + PRICE * jnp.mean(errors), jnp.mean(values)

    def body(lengths: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        gradient, value = jax.jacfwd(mean, has_aux=True)(lengths)
        ahead = lengths - 0.02 * gradient / jnp.linalg.norm(gradient)
        return jnp.clip(ahead, 1 - most, 1 + most), (lengths, value)

    return jax.lax.scan(body, lengths, length=steps)[1]


def main() -> None:
    """Prints the designs of a descent and their costs."""
    jax.config.update("jax_enable_x64", True)
    environment, policy = walker()
    for lengths, value in zip(
        *jax.jit(lambda: improve(environment, policy, jnp.ones(2), 11))(), strict=True
    ):
        print(f"thigh {lengths[0]:.3f}, shank {lengths[1]:.3f}: cost of transport {value:.3f}")


if __name__ == "__main__":
    main()
