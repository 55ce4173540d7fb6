"""The pushes that unbalance a walking policy most, by gradients through policy and contacts.

The quadruped walks with the policy that comes with artix. Four pushes within 0.4 s change its
horizontal velocity; all together have a limited size. The gradient of how far the trunk tilts, with
respect to the pushes, leads to worse ones; random pushes of the same size are what it has to beat.

``python -m artix.examples.pushes`` compares both, from several moments of the walk.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import artix
from artix.envs import EnvState, observations
from artix.envs.disturbances import pushed
from artix.envs.tasks.legged import LeggedVelocity
from artix.envs.tasks.quadruped_velocity import QuadrupedVelocity
from artix.examples import policies

Array = jax.Array
Slope = Callable[[Array], tuple[Array, Array]]
#: Pushes, control steps (0.02 s) from one to the next, and control steps that are watched.
PUSHES, APART, HORIZON = 4, 5, 40
#: Enough Newton steps to solve every physics step: derivatives are those of the solution.
OPTIONS = artix.SolverOptions(max_newton_steps=60)


def walker() -> tuple[LeggedVelocity, policies.Policy]:
    """The task without noise and random pushes, and its policy, both in float64."""
    environment = QuadrupedVelocity(dtype="float64", solver_options=OPTIONS).undisturbed()
    policy = policies.load("quadruped_velocity")
    return environment, jax.tree.map(lambda x: x.astype("float64"), policy)


def advance(environment: LeggedVelocity, policy: policies.Policy, state: EnvState) -> EnvState:
    """One control step of the policy. Unlike the policy itself, it stays in float64."""
    seen = policy.observed
    inputs = (state.obs["state"] - seen.mean) / jnp.sqrt(seen.variance + 1e-6)
    return environment.step(
        state, policies.Network(policy.layers, policy.action_size).at(policy.parameters, inputs)
    )


def walk(
    environment: LeggedVelocity, policy: policies.Policy, command: Array, count: int
) -> EnvState:
    """The states of ``count`` control steps from rest; every array has a leading axis."""
    start = environment.reset(jax.random.key(0))
    info = start.info | {"command": command, "command_time_left": jnp.full_like(command[0], 1e6)}

    def body(state: EnvState, _: None) -> tuple[EnvState, EnvState]:
        after = advance(environment, policy, state)
        return after, after

    return jax.lax.scan(body, start.replace(info=info), length=count)[1]


def tilts(
    environment: LeggedVelocity, policy: policies.Policy, start: EnvState, push: Array
) -> Array:
    """Tilt of the trunk after each control step: 1 minus the cosine of the angle, [HORIZON].

    Args:
      environment: the task.
      policy: its policy.
      start: a state of the walk.
      push: changes of the root's horizontal velocity [m/s], [PUSHES, 2].
    """
    still = jnp.zeros((HORIZON, 3), push.dtype)
    changes = still.at[: PUSHES * APART : APART, :2].set(push)
    robot, imu = environment.articulation, environment.robot.imu

    def body(state: EnvState, change: Array) -> tuple[EnvState, Array]:
        moved = pushed(state.articulation_state, change)
        after = advance(environment, policy, state.replace(articulation_state=moved))
        return after, 1 - observations.up_vector(robot, after.articulation_state, imu)[2]

    return jax.lax.scan(body, start, changes)[1]


def random_pushes(key: Array, count: int, size: float | Array) -> Array:
    """Pushes in all directions, uniformly distributed, [count, PUSHES, 2] [m/s]."""
    return limited(jax.random.normal(key, (count, PUSHES, 2)), size)


def limited(push: Array, size: float | Array) -> Array:
    """The pushes [..., PUSHES, 2] scaled to the size, the root of the sum of squares [m/s]."""
    return size * push / jnp.linalg.norm(push, axis=(-2, -1), keepdims=True)


def ascend(slope: Slope, push: Array, size: float | Array, steps: int) -> tuple[Array, Array]:
    """Follows the gradient from ``push``, in steps that become smaller.

    Args:
      slope: maps pushes to the mean tilt [] and its gradient.
      push: where to begin, [PUSHES, 2] [m/s].
      size: the size of the pushes [m/s].
      steps: the number of gradients.

    Returns:
      The pushes that were tried, [steps, PUSHES, 2], and the mean tilt after each, [steps].
    """

    def body(push: Array, rate: Array) -> tuple[Array, tuple[Array, Array]]:
        value, gradient = slope(push)
        return limited(push + rate * limited(gradient, size), size), (push, value)

    return jax.lax.scan(body, push, jnp.linspace(1.0, 0.2, steps))[1]


def worst(
    environment: LeggedVelocity, policy: policies.Policy, start: EnvState, size: float | Array
) -> Array:
    """The worst of 80 random pushes, and of 8 gradients from each of the first two.

    A gradient costs as much as five simulations, so both cost the same.

    Returns:
      The pushes [2, PUSHES, 2] [m/s], first the random ones.
    """

    def value(push: Array) -> Array:
        return jnp.mean(tilts(environment, policy, start, push))

    pushes = random_pushes(jax.random.key(1), 80, size)
    tried, values = jax.vmap(lambda push: ascend(jax.value_and_grad(value), push, size, 8))(
        pushes[:2]
    )
    climbed = tried.reshape(pushes[:16].shape)[jnp.argmax(values)]
    return jnp.stack([pushes[jnp.argmax(jax.vmap(value)(pushes))], climbed])


def moments(environment: LeggedVelocity, policy: policies.Policy) -> EnvState:
    """8 states of a walk at 0.6 m/s, 0.1 s apart; every array has a leading axis."""
    states = walk(environment, policy, jnp.array([0.6, 0.0, 0.0]), 90)
    return jax.tree.map(lambda x: x[50::5], states)


def main() -> None:
    """Prints what the worst pushes do from 8 moments of a walk."""
    jax.config.update("jax_enable_x64", True)
    environment, policy = walker()

    @jax.jit
    def answers(starts: EnvState, size: Array) -> Array:
        def one(start: EnvState) -> Array:
            pushes = worst(environment, policy, start, size)
            return jax.vmap(lambda push: tilts(environment, policy, start, push))(pushes)

        return jax.vmap(one)(starts)

    starts = jax.jit(lambda: moments(environment, policy))()
    for size in (1.0, 1.2, 1.4, 1.6, 1.8, 2.0):
        angles = jnp.rad2deg(jnp.arccos(1 - jnp.max(answers(starts, size), axis=2)))
        print(f"pushes of {size} m/s")
        for name, largest in zip(("random", "gradients"), angles.T, strict=True):
            falls = jnp.sum(largest > 60)
            print(f"  {name:9}  tilts by {jnp.median(largest):.0f} degrees, {falls} of 8 fall")


if __name__ == "__main__":
    main()
