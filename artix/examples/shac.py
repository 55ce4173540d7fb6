"""Short-horizon actor-critic (SHAC): a policy learns from the gradient of its rewards through the
simulation.

PPO estimates this gradient from thousands of trials; here the derivatives of the step give it
directly. Each iteration runs ``horizon`` control steps in a few environments. Reverse mode returns,
for each action of each robot, how the robot's later rewards and the critic's value of its final
state change with that action. The policy then moves its actions a small way along these gradients,
as a regression over a few passes.

A robot that is about to fall can have a gradient that is many orders of magnitude above that of the
others. So each action's gradient is limited to a few times the median. Gradients of actions do not
mix robots; in a sum over all of them, such as the gradient by the policy's parameters, that robot
would drown the others.

Xu et al., *Accelerated Policy Learning with Parallel Differentiable Simulation* (ICLR 2022, arXiv
2204.07137). Networks, advantages and symmetry are in :mod:`artix.examples.actor_critic`.
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
from artix.examples.actor_critic import (
    Experience,
    advantages,
    check_config,
    fresh,
    mean_report,
    mirror_of,
    networks,
    run_once,
    step_report,
    symmetric_learner,
    symmetric_moments,
    untrained,
)
from artix.examples.policies import Observed, Policy
from artix.math import random_keys

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of SHAC."""

    num_envs: int = 64
    horizon: int = 32  # control steps per iteration, which gradients flow through
    discount: float = 0.99
    gae_lambda: float = 0.95  # for the critic's targets
    action_step: float = 0.1  # root mean square of the changes of actions in an iteration
    half_life: int = 500  # iterations after which this step has halved
    most_gradient: float = 3.0  # largest gradient of an action, relative to the median
    learning_rate: float = 1e-3
    epochs: int = 4  # passes over the experience of an iteration
    minibatches: int = 4  # gradient steps per pass
    target_rate: float = 0.2  # how far the target critic moves towards the critic per iteration
    max_gradient_norm: float = 1.0
    mirror: bool = True  # policy and critic of symmetric robots are symmetric
    noise: float = 0.2  # standard deviation of actions, which range from -1 to 1
    policy_layers: tuple[int, ...] = (64, 64)
    critic_layers: tuple[int, ...] = (64, 64)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_envs", "horizon", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; found {getattr(self, name)}")
        for name in ("action_step", "half_life", "most_gradient"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive; found {getattr(self, name)}")
        for name in ("discount", "gae_lambda", "target_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1; found {getattr(self, name)}")
        for name in ("learning_rate", "noise"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0; found {getattr(self, name)}")
        if not self.max_gradient_norm > 0:
            raise ValueError(f"max_gradient_norm must be positive; found {self.max_gradient_norm}")
        check_config(self)
        if self.num_envs * self.horizon % self.minibatches:
            raise ValueError(
                f"num_envs * horizon must be a multiple of minibatches, {self.minibatches}; found "
                f"num_envs={self.num_envs}, horizon={self.horizon}"
            )


class Training(NamedTuple):
    """Everything needed to continue a training run."""

    parameters: dict[str, Any]  # "policy" and "critic"
    target: Any  # parameters of the target critic, which follow the critic slowly
    optimizer: optax.OptState
    observed: Observed
    env: EnvState
    episode_return: Array
    key: Array
    iteration: Array


def policy_of(training: Training, config: Config) -> Policy:
    """The current policy, without exploration noise."""
    parameters, layers = training.parameters["policy"], tuple(config.policy_layers)
    size = parameters["params"][f"Dense_{len(layers)}"]["bias"].shape[0]
    return Policy(parameters, training.observed.of_policy(), layers, size)


def optimizer_of(config: Config) -> optax.GradientTransformation:
    """Adam with clipped gradients."""
    clip = optax.clip_by_global_norm(config.max_gradient_norm)
    return optax.flatten(optax.chain(clip, optax.adam(config.learning_rate)))


def start(environment: Environment, config: Config, num_devices: int = 1) -> Training:
    """A new training run: untrained networks and fresh environments. Only one device learns."""
    del num_devices
    keys = random_keys.split(jax.random.key(config.seed), 5)
    env = fresh(environment, config.num_envs, keys[0], keys[1])
    one = jax.tree.map(lambda x: x[0], env.obs)
    parameters, observed = untrained(environment, config, one, keys[2], keys[3])
    critic, optimizer = parameters["critic"], optimizer_of(config).init(parameters)
    returns, iteration = jnp.zeros(config.num_envs, jnp.float32), jnp.asarray(0, jnp.int32)
    return Training(parameters, critic, optimizer, observed, env, returns, keys[4], iteration)


def warm_started(training: Training, load: Callable[[Any], Any]) -> Training:
    """A new training run with what another one learned: :func:`artix.examples.ppo.warm_started`."""
    learned = ("parameters", "target", "optimizer", "observed")
    return training._replace(**load({name: getattr(training, name) for name in learned}))


def limited(gradient: Array, most: float) -> tuple[Array, dict[str, Array]]:
    """Gradients [..., actions] whose norms are at most ``most`` times the median, in units of it,
    and a report: the median, the largest, and the fraction of actions that have lost theirs.

    What is not finite becomes zero, for its robot and moment alone. It does not count for the
    median.
    """
    norm = jnp.sqrt(jnp.sum(gradient**2, axis=-1, keepdims=True))
    is_finite = jnp.isfinite(norm)
    median = jnp.nan_to_num(jnp.nanmedian(jnp.where(is_finite & (norm > 0), norm, jnp.nan)))
    finite = jnp.where(is_finite, norm, 0)
    unit = jnp.maximum(finite / most, median)
    report = {
        "gradient": median,
        "largest_gradient": jnp.max(finite),
        "lost": jnp.mean(~is_finite, dtype=jnp.float32),
    }
    return jnp.where(is_finite, gradient, 0) / jnp.where(unit > 0, unit, 1), report


def make_play(environment: Environment, config: Config) -> Callable[..., Any]:
    """Makes the function that plays one horizon, which is what gradients flow through.

    Returns:
      A function that takes how much each action is moved [horizon, environments, actions], the
      training run and a random key. It returns the discounted rewards plus the critic's value of
      the last states, summed over the robots; and the environments afterwards, the returns of their
      episodes so far, the experience, and sums for the report.
    """
    environment = autoreset(environment)
    policy, critic = networks(config, environment)

    def play(moves: Array, training: Training, key: Array):
        def value_of(obs: Any) -> Array:
            return critic.at(training.target, training.observed.normalize(obs)[1])[..., 0]

        def advance(carry: tuple[EnvState, Array, Array], step: tuple[Array, Array]):
            (env, weight, total), (noise, move) = carry, step
            mean = policy.at(training.parameters["policy"], training.observed.normalize(env.obs)[0])
            action = mean + noise + move
            # Clipped, but with the gradient of the unclipped action.
            bounded = action + jax.lax.stop_gradient(jnp.clip(action, -1, 1) - action)
            after = jax.vmap(environment.step)(env, bounded.astype(env.reward.dtype))
            reward, done, out_of_time = (
                x.astype(jnp.float32) for x in (after.reward, after.done, after.info["truncation"])
            )
            terminated, next_value = done * (1 - out_of_time), value_of(after.info["final_obs"])
            # A fall ends what could be earned, but the critic's slope there leads away from it.
            kept = next_value - terminated * jax.lax.stop_gradient(next_value)
            gain = weight * (reward + config.discount * done * kept)
            experience = Experience(
                env.obs, action, mean, value_of(env.obs), next_value, reward, done, terminated
            )
            returns = total + reward
            report = step_report(after.metrics, done, terminated, returns)
            # A new episode starts undiscounted
            weight = jnp.where(done > 0, 1.0, config.discount * weight)
            return (after, weight, (1 - done) * returns), (gain, experience, report)

        begin = (training.env, jnp.ones(moves.shape[1], jnp.float32), training.episode_return)
        noise = config.noise * jax.random.normal(random_keys.quick(key), moves.shape, jnp.float32)
        (env, weight, total), (gains, experience, report) = jax.lax.scan(
            advance, begin, (noise, moves)
        )
        last = weight * (1 - experience.done[-1]) * experience.next_value[-1]
        return jnp.sum(gains) + jnp.sum(last), (env, total, experience, report)

    return play


def make_iteration(
    environment: Environment, config: Config
) -> Callable[[Training], tuple[Training, dict[str, Array]]]:
    """Makes one iteration: a function that returns the next training state and a report, a
    dictionary of scalars.
    """
    mirror = mirror_of(environment, config)
    (policy, critic), optimizer = networks(config, environment), optimizer_of(config)
    shape = (config.horizon, config.num_envs, environment.action_size)
    play = make_play(environment, config)

    def loss(parameters: dict[str, Any], observed: Observed, experience: Experience, wanted: Array):
        """How far actions are from where their gradients lead, and values from returns."""
        seen, known = observed.normalize(experience.obs)
        apart = policy.at(parameters["policy"], seen) - experience.action
        error = jnp.mean((critic.at(parameters["critic"], known)[..., 0] - wanted) ** 2)
        return jnp.mean(apart**2) / config.action_step + error / (jnp.var(wanted) + 1e-6), error

    def iteration(training: Training) -> tuple[Training, dict[str, Array]]:
        play_key, shuffle_key, key = random_keys.split(training.key, 3)
        gradient, (env, total, experience, report) = jax.grad(play, has_aux=True)(
            jnp.zeros(shape, jnp.float32), training, play_key
        )
        direction, gradients = limited(gradient, config.most_gradient)
        halvings = training.iteration.astype(jnp.float32) / config.half_life
        step = config.action_step * 0.5**halvings
        move = step * direction / jnp.sqrt(jnp.mean(direction**2) + 1e-30)
        better = experience._replace(action=jnp.clip(experience.mean + move, -1, 1))
        wanted = experience.value + advantages(experience, config.discount, config.gae_lambda)
        happened = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (better, wanted))

        def descend(carry: tuple[dict[str, Any], optax.OptState], rows: Array):
            parameters, state = carry
            chosen, wanted = jax.tree.map(lambda x: x[rows], happened)
            gradient, error = jax.grad(loss, has_aux=True)(
                parameters, training.observed, chosen, wanted
            )
            gradient = symmetric_learner(mirror, gradient)
            with jax.numpy_dtype_promotion("standard"):  # Optax mixes types of counters and rates
                update, state = optimizer.update(gradient, state)
            return (optax.apply_updates(parameters, update), state), error

        shuffles = random_keys.split(shuffle_key, config.epochs)
        rows = jax.vmap(lambda key: random_keys.shuffled(key, happened[1].size))(shuffles)
        rows = rows.reshape(config.epochs * config.minibatches, -1)
        (parameters, optimizer_state), errors = jax.lax.scan(
            descend, (training.parameters, training.optimizer), rows
        )
        target = optax.incremental_update(parameters["critic"], training.target, config.target_rate)
        moments = symmetric_moments(mirror, training.observed.moments(happened[0].obs))
        observed = training.observed.after(moments, happened[1].size)
        sums = {name: jnp.sum(report.pop(name)) for name in ("episodes", "returns", "falls")}
        report = {**sums, **jax.tree.map(jnp.mean, report), "reward": jnp.mean(experience.reward)}
        report |= {"value_error": jnp.mean(errors), **gradients}
        after = Training(
            parameters, target, optimizer_state, observed, env, total, key, training.iteration + 1
        )
        return after, report

    return iteration


def train(
    environment: Environment, config: Config, *, steps: int, training: Training | None = None
) -> Iterator[tuple[Training, dict[str, float]]]:
    """Trains a policy on one device, iteration by iteration.

    Args:
      environment: one environment, without automatic resets, whose rewards are differentiable.
      config: settings of SHAC.
      steps: environment steps after which no further iteration starts, counted from the start of
        the training run.
      training: a training run to continue (default: a new one).

    Yields:
      After each iteration, the training run and a report: ``"steps"`` and ``"seconds"`` so far;
      ``"return"`` and ``"fall"``, the mean return of the episodes that ended and the fraction of
      them that terminated early (NaN if none ended); ``"reward"``, the mean reward per step; means
      of the environment's metrics (``"metrics/..."``); ``"gradient"`` and ``"largest_gradient"``,
      the median and largest norm of an action's gradient; and ``"lost"``, the fraction of actions
      whose gradient was not finite.

    Example::

        environment, config = envs.make("cart_pole"), shac.Config(num_envs=64, horizon=32)
        for training, report in shac.train(environment, config, steps=500_000):
            print(report["steps"], report["return"])
        policy = shac.policy_of(training, config)
    """
    iterate = jax.jit(make_iteration(environment, config))
    if training is None:
        training = run_once(lambda: start(environment, config))
    begin, per_iteration = time.perf_counter(), config.num_envs * config.horizon
    for iteration in range(int(training.iteration), math.ceil(steps / per_iteration)):
        training, values = iterate(training)
        report = mean_report(values) | {"noise": config.noise}
        report["steps"] = (iteration + 1) * per_iteration
        report["seconds"] = time.perf_counter() - begin
        yield training, report
