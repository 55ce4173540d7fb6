"""Short-horizon actor-critic (SHAC): a policy learns from the gradient of its rewards through the simulation.

PPO estimates this gradient from thousands of trials; here the derivatives of the step give it directly. Each iteration
runs ``horizon`` control steps in a few environments, and the policy follows the gradient of their rewards plus the
critic's value of the final states. The short horizon and the smooth critic keep gradients small where a long simulation
is chaotic.

Xu et al., *Accelerated Policy Learning with Parallel Differentiable Simulation* (ICLR 2022, arXiv 2204.07137).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from artix.envs import Environment, EnvState, autoreset
from artix.examples.policies import Network, Observed, Policy
from artix.examples.ppo import Experience, advantages

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of SHAC."""

    num_envs: int = 64
    horizon: int = 32  # control steps per iteration, which gradients flow through
    discount: float = 0.99
    gae_lambda: float = 0.95  # for the critic's targets
    policy_rate: float = 5e-3
    half_life: int = 500  # iterations after which the policy's learning rate has halved
    critic_rate: float = 1e-3
    critic_epochs: int = 4
    minibatches: int = 4
    target_rate: float = 0.1  # how far the target critic moves towards the critic per iteration
    max_gradient_norm: float = 1.0
    noise: float = 0.3  # standard deviation of actions
    policy_layers: tuple[int, ...] = (64, 64)
    critic_layers: tuple[int, ...] = (64, 64)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_envs", "horizon", "critic_epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; found {getattr(self, name)}")


class Training(NamedTuple):
    """Everything needed to continue a training run."""

    policy: Any
    critic: Any
    target: Any  # parameters of the target critic, which follow the critic slowly
    optimizers: tuple[optax.OptState, optax.OptState]
    observed: Observed
    env: EnvState
    episode_return: Array
    key: Array
    iteration: Array


def networks(config: Config, environment: Environment) -> tuple[Network, Network]:
    """The policy, which returns the mean action, and the critic, which returns the value of a state."""
    return Network(config.policy_layers, environment.action_size), Network(config.critic_layers, 1)


def policy_of(training: Training, config: Config, environment: Environment) -> Policy:
    """The current policy, without exploration noise."""
    return Policy(training.policy, training.observed.of_policy(), tuple(config.policy_layers), environment.action_size)


def optimizers_of(config: Config) -> tuple[optax.GradientTransformation, optax.GradientTransformation]:
    """The optimisers of policy and critic: Adam with clipped gradients and a short memory."""

    def one(rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optax.adam(rate, b1=0.7, b2=0.95))

    falling = optax.exponential_decay(config.policy_rate, config.half_life, 0.5)
    return one(falling), one(config.critic_rate)


def start(environment: Environment, config: Config) -> Training:
    """A new training run: untrained networks and fresh environments whose time limits are spread out."""
    keys = jax.random.split(jax.random.key(config.seed), 5)
    env = jax.vmap(autoreset(environment).reset)(jax.random.split(keys[0], config.num_envs))
    steps = jax.random.randint(keys[1], (config.num_envs,), 0, environment.episode_length, jnp.int32)
    env = env.replace(info={**env.info, "steps": steps})
    one = jax.tree.map(lambda x: x[0], env.obs)
    observed = Observed.nothing(one)
    seen, known = observed.normalize(one)
    policy, critic = networks(config, environment)
    parameters = policy.init(keys[2], seen), critic.init(keys[3], known)
    states = tuple(optimizer.init(p) for optimizer, p in zip(optimizers_of(config), parameters, strict=True))
    returns, iteration = jnp.zeros(config.num_envs, jnp.float32), jnp.asarray(0, jnp.int32)
    return Training(*parameters, parameters[1], states, observed, env, returns, keys[4], iteration)


def make_iteration(environment: Environment, config: Config) -> Callable[[Training], tuple[Training, dict[str, Array]]]:
    """Makes one iteration: a function that returns the next training state and a report, a dictionary of scalars."""
    environment = autoreset(environment)
    policy, critic = networks(config, environment)
    policy_optimizer, critic_optimizer = optimizers_of(config)

    def play(parameters: Any, training: Training, key: Array):
        """Minus the return of one horizon, and its experience."""

        def value_of(obs: Any) -> Array:
            return critic.at(training.target, training.observed.normalize(obs)[1])[..., 0]

        def advance(carry: tuple[EnvState, Array, Array], key: Array):
            env, weight, total = carry
            mean = policy.at(parameters, training.observed.normalize(env.obs)[0])
            action = mean + config.noise * jax.random.normal(key, mean.shape, mean.dtype)
            # Clipped, but with the gradient of the unclipped action.
            bounded = action + jax.lax.stop_gradient(jnp.clip(action, -1, 1) - action)
            after = jax.vmap(environment.step)(env, bounded.astype(env.reward.dtype))
            reward, done, out_of_time = (
                x.astype(jnp.float32) for x in (after.reward, after.done, after.info["truncation"])
            )
            terminated, next_value = done * (1 - out_of_time), value_of(after.info["final_obs"])
            gain = weight * (reward + config.discount * done * (1 - terminated) * next_value)
            experience = Experience(env.obs, action, mean, value_of(env.obs), next_value, reward, done, terminated)
            returns = total + reward
            ended = {"episodes": jnp.sum(done), "returns": jnp.sum(done * returns)}
            weight = jnp.where(done > 0, 1.0, config.discount * weight)  # a new episode starts undiscounted
            return (after, weight, (1 - done) * returns), (gain, experience, ended)

        begin = (training.env, jnp.ones(config.num_envs, jnp.float32), training.episode_return)
        (env, weight, total), (gains, experience, ended) = jax.lax.scan(
            advance, begin, jax.random.split(key, config.horizon)
        )
        last = weight * (1 - experience.done[-1]) * experience.next_value[-1]
        earned = (jnp.sum(gains) + jnp.sum(last)) / (config.num_envs * config.horizon)
        return -earned, (env, total, experience, ended)

    def critic_loss(parameters: Any, known: Array, target: Array) -> Array:
        return jnp.mean((critic.at(parameters, known)[..., 0] - target) ** 2)

    def iteration(training: Training) -> tuple[Training, dict[str, Array]]:
        play_key, shuffle_key, key = jax.random.split(training.key, 3)
        gradient, (env, total, experience, ended) = jax.grad(play, has_aux=True)(training.policy, training, play_key)
        with jax.numpy_dtype_promotion("standard"):  # Optax mixes the types of its counters and rates
            update, policy_state = policy_optimizer.update(gradient, training.optimizers[0])
        moved = optax.apply_updates(training.policy, update)

        wanted = experience.value + advantages(experience, config.discount, config.gae_lambda)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (experience.obs, wanted))
        known = training.observed.normalize(flat[0])[1]

        def improve(carry: tuple[Any, optax.OptState], rows: Array):
            parameters, state = carry
            error, gradient = jax.value_and_grad(critic_loss)(parameters, known[rows], flat[1][rows])
            with jax.numpy_dtype_promotion("standard"):
                update, state = critic_optimizer.update(gradient, state)
            return (optax.apply_updates(parameters, update), state), error

        shuffles = jax.random.split(shuffle_key, config.critic_epochs)
        rows = jax.vmap(lambda key: jax.random.permutation(key, flat[1].size))(shuffles)
        rows = rows.reshape(config.critic_epochs * config.minibatches, -1)
        (critic_now, critic_state), errors = jax.lax.scan(improve, (training.critic, training.optimizers[1]), rows)
        target = optax.incremental_update(critic_now, training.target, config.target_rate)
        observed = training.observed.after(training.observed.moments(flat[0]), flat[1].size)
        states = policy_state, critic_state
        report = {name: jnp.sum(x) for name, x in ended.items()}
        report |= {"reward": jnp.mean(experience.reward), "value_error": jnp.mean(errors)}
        report |= {"gradient": optax.global_norm(gradient)}
        after = Training(moved, critic_now, target, states, observed, env, total, key, training.iteration + 1)
        return after, report

    return iteration


def train(
    environment: Environment, config: Config, *, steps: int, training: Training | None = None
) -> Iterator[tuple[Training, dict[str, float]]]:
    """Trains a policy on one device, iteration by iteration.

    Args:
      environment: one environment, without automatic resets, whose rewards are differentiable.
      config: settings of SHAC.
      steps: environment steps after which no further iteration starts, counted from the start of the training run.
      training: a training run to continue (default: a new one).

    Yields:
      After each iteration, the training run and a report: ``"steps"`` and ``"seconds"`` so far; ``"return"``, the mean
      return of the episodes that ended (NaN if none ended); ``"reward"``, the mean reward per step; and ``"gradient"``,
      the norm of the policy's gradient.

    Raises:
      FloatingPointError: the gradient is not finite.

    Example::

        environment, config = envs.make("cart_pole"), shac.Config(num_envs=64, horizon=32)
        for training, report in shac.train(environment, config, steps=500_000):
            print(report["steps"], report["return"])
        policy = shac.policy_of(training, config, environment)
    """
    iterate = jax.jit(make_iteration(environment, config))
    if training is None:
        training = jax.jit(lambda: start(environment, config))()
    begin, per_iteration = time.perf_counter(), config.num_envs * config.horizon
    for iteration in range(int(training.iteration), math.ceil(steps / per_iteration)):
        training, values = iterate(training)
        report = {name: float(value) for name, value in values.items()}
        if not math.isfinite(report["gradient"]):
            raise FloatingPointError(
                f"the gradient of iteration {iteration} is not finite: check the environment's rewards"
            )
        returns, episodes = report.pop("returns"), report["episodes"]
        report["return"] = returns / episodes if episodes else math.nan
        report["steps"], report["seconds"] = (iteration + 1) * per_iteration, time.perf_counter() - begin
        yield training, report
