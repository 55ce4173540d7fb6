"""Proximal policy optimisation (PPO), to read, copy and change.

A policy and a critic, both small networks, learn from many environments at once. Each iteration
runs ``unroll`` control steps in every environment, estimates advantages, and makes ``epochs``
passes of gradient steps over the collected experience. An iteration is one compiled program,
environments included. Several devices share the environments; they exchange one sum per gradient
step.

Schulman et al., *Proximal Policy Optimization Algorithms* (arXiv 1707.06347) and *High-Dimensional
Continuous Control Using Generalized Advantage Estimation* (arXiv 1506.02438). The learning rate
adapts to the policy's change as in Rudin et al., *Learning to Walk in Minutes* (arXiv 2109.11978).
Networks, advantages and symmetry are in :mod:`artix.examples.actor_critic`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec

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
PARTS, EVERYWHERE = PartitionSpec("devices"), PartitionSpec()


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of PPO. Numbers of environments are totals over all devices."""

    num_envs: int = 1024
    unroll: int = 24  # control steps per iteration in each environment
    epochs: int = 4  # passes over the experience of an iteration
    minibatches: int = 4  # gradient steps per pass
    discount: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2  # largest relative change of an action's probability
    entropy_cost: float = 0.005
    value_cost: float = 0.5
    reward_scale: float = 1.0
    learning_rate: float = 1e-3  # initial rate; it stays constant if ``desired_kl`` is 0
    desired_kl: float = (
        0.01  # target change of the policy per iteration (Kullback-Leibler divergence)
    )
    max_gradient_norm: float = 1.0
    policy_layers: tuple[int, ...] = (64, 64)
    critic_layers: tuple[int, ...] = (64, 64)
    mirror: bool = True  # policy and critic of symmetric robots are symmetric
    initial_noise: float = 0.6  # standard deviation of actions, which range from -1 to 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_envs", "unroll", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; found {getattr(self, name)}")
        for name, is_right, rule in (
            ("discount", 0 <= self.discount <= 1, "from 0 to 1"),
            ("gae_lambda", 0 <= self.gae_lambda <= 1, "from 0 to 1"),
            ("clip", 0 < self.clip < math.inf, "positive"),
            ("initial_noise", 0 < self.initial_noise < math.inf, "positive"),
            ("max_gradient_norm", self.max_gradient_norm > 0, "positive"),
            ("learning_rate", 0 <= self.learning_rate < math.inf, "at least 0"),
            ("desired_kl", 0 <= self.desired_kl < math.inf, "at least 0"),
        ):
            if not is_right:
                raise ValueError(f"{name} must be {rule}; found {getattr(self, name)}")
        check_config(self, ("entropy_cost", "value_cost", "reward_scale"))


class Learner(flax.struct.PyTreeNode):
    """Everything that is learned, replicated on every device."""

    parameters: dict[str, Any]  # "policy", "critic" and "log_noise" [action_size]
    optimizer: optax.OptState
    observed: Observed
    learning_rate: Array
    iteration: Array


class Actors(flax.struct.PyTreeNode):
    """The running environments. Leading axes (environments; devices for the key) are divided among
    the devices.
    """

    env: EnvState
    key: Array
    episode_return: Array


class Training(NamedTuple):
    """Everything needed to continue a training run."""

    learner: Learner
    actors: Actors


def policy_of(training: Training, config: Config) -> Policy:
    """The current policy, without exploration noise."""
    learner = training.learner
    size = learner.parameters["log_noise"].shape[0]
    return Policy(
        learner.parameters["policy"],
        learner.observed.of_policy(),
        tuple(config.policy_layers),
        size,
    )


def optimizer_of(config: Config) -> optax.GradientTransformation:
    """Adam with clipped gradients. The learning rate is applied later."""
    clip = optax.clip_by_global_norm(config.max_gradient_norm)
    # As one vector; XLA would compile it for each array of the networks.
    return optax.flatten(optax.chain(clip, optax.scale_by_adam(eps=1e-5)))


def start(environment: Environment, config: Config, num_devices: int) -> Training:
    """A new training run: untrained networks and fresh environments whose time limits are spread
    out.
    """
    keys = random_keys.split(jax.random.key(config.seed), 5)
    env = fresh(environment, config.num_envs, keys[0], keys[4])
    one = jax.tree.map(lambda x: x[0], env.obs)
    parameters, observed = untrained(environment, config, one, keys[1], keys[2])
    noise = jnp.full(environment.action_size, math.log(config.initial_noise), jnp.float32)
    parameters |= {"log_noise": noise}
    rate, iteration = jnp.asarray(config.learning_rate, jnp.float32), jnp.asarray(0, jnp.int32)
    learner = Learner(parameters, optimizer_of(config).init(parameters), observed, rate, iteration)
    return Training(
        learner,
        Actors(
            env, random_keys.split(keys[3], num_devices), jnp.zeros(config.num_envs, jnp.float32)
        ),
    )


def started(environment: Environment, config: Config, num_devices: int) -> Training:
    """:func:`start` as a compiled program."""
    return run_once(lambda: start(environment, config, num_devices))


def warm_started(training: Training, load: Callable[[Any], Any]) -> Training:
    """A new training run that begins with what another one learned: networks, noise, optimiser, and
    moments.

    Args:
      training: the new training run.
      load: returns the arrays of the other one under the names of a tree, such as
        ``lambda like: policies.load(path, {"training": like})["training"]``.
    """
    kept = {
        name: getattr(training.learner, name) for name in ("parameters", "optimizer", "observed")
    }
    return training._replace(learner=training.learner.replace(**load({"learner": kept})["learner"]))


def make_iteration(environment: Environment, config: Config) -> Callable[[Learner, Actors], tuple]:
    """Makes one iteration on the environments of one device in a mesh with the axis ``"devices"``.

    Returns:
      A function that takes learner and actors and returns both after the iteration, with this
      device's report, a dictionary of scalars.
    """
    environment, mirror = autoreset(environment), mirror_of(environment, config)
    (policy, critic), optimizer = networks(config, environment), optimizer_of(config)

    def play(
        learner: Learner, actors: Actors, key: Array
    ) -> tuple[Actors, tuple[Experience, dict[str, Array]]]:
        seen, known = learner.observed.normalize(actors.env.obs)
        mean = policy.at(learner.parameters["policy"], seen)
        action = mean + jnp.exp(learner.parameters["log_noise"]) * jax.random.normal(
            random_keys.quick(key), mean.shape, mean.dtype
        )
        env = jax.vmap(environment.step)(
            actors.env, jnp.clip(action, -1, 1).astype(actors.env.reward.dtype)
        )
        _, after = learner.observed.normalize(env.info["final_obs"])
        value, next_value = (
            critic.at(learner.parameters["critic"], x)[..., 0] for x in (known, after)
        )
        reward, done, out_of_time = (
            x.astype(jnp.float32) for x in (env.reward, env.done, env.info["truncation"])
        )
        terminated = done * (1 - out_of_time)
        scaled = config.reward_scale * reward
        experience = Experience(
            actors.env.obs, action, mean, value, next_value, scaled, done, terminated
        )
        total = actors.episode_return + reward
        report = step_report(env.metrics, done, terminated, total)
        return actors.replace(env=env, episode_return=(1 - done) * total), (experience, report)

    def loss(
        parameters: dict[str, Any],
        learner: Learner,
        experience: Experience,
        advantage: Array,
        old_noise: Array,
    ):
        seen, known = learner.observed.normalize(experience.obs)
        mean, noise = policy.at(parameters["policy"], seen), parameters["log_noise"]

        def log_density(mean: Array, noise: Array) -> Array:
            return -jnp.sum(
                0.5 * ((experience.action - mean) / jnp.exp(noise)) ** 2 + noise, axis=-1
            )

        ratio = jnp.exp(log_density(mean, noise) - log_density(experience.mean, old_noise))
        normal = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-6)
        gain = jnp.mean(
            jnp.minimum(ratio * normal, jnp.clip(ratio, 1 - config.clip, 1 + config.clip) * normal)
        )
        value = critic.at(parameters["critic"], known)[..., 0]
        error = jnp.mean((value - experience.value - advantage) ** 2)
        spread = jnp.exp(2 * (old_noise - noise)) + ((experience.mean - mean) / jnp.exp(noise)) ** 2
        kl = jnp.mean(jnp.sum(noise - old_noise + 0.5 * (spread - 1), axis=-1))
        total = config.value_cost * error - gain - config.entropy_cost * jnp.sum(noise)
        return total, {"loss": total, "value_error": error, "kl": kl}

    def descend(learner: Learner, experience: Experience, advantage: Array, old_noise: Array):
        arguments = (learner.parameters, learner, experience, advantage, old_noise)
        gradient, losses = jax.grad(loss, has_aux=True)(*arguments)
        local, unravel = ravel_pytree((gradient, losses, learner.observed.moments(experience.obs)))
        # The only communication between devices
        gradient, losses, moments = unravel(jax.lax.pmean(local, "devices"))
        gradient = symmetric_learner(mirror, gradient)
        moments = symmetric_moments(mirror, moments)
        rate = learner.learning_rate
        if config.desired_kl:
            factor = jnp.where(losses["kl"] > 2 * config.desired_kl, 1 / 1.5, 1.0)
            factor = jnp.where(losses["kl"] < config.desired_kl / 2, 1.5, factor)
            rate = jnp.clip(rate * factor, 1e-5, 1e-2)
        with jax.numpy_dtype_promotion(
            "standard"
        ):  # Optax mixes the types of its counters and rates
            update, state = optimizer.update(gradient, learner.optimizer)
        parameters = jax.tree.map(lambda p, u: p - rate * u, learner.parameters, update)
        return learner.replace(parameters=parameters, optimizer=state, learning_rate=rate), (
            losses,
            moments,
        )

    def iteration(learner: Learner, actors: Actors) -> tuple[Learner, Actors, dict[str, Array]]:
        play_key, shuffle_key, next_key = random_keys.split(actors.key[0], 3)
        play_keys = random_keys.split(play_key, config.unroll)
        actors, (experience, report) = jax.lax.scan(
            lambda a, key: play(learner, a, key), actors, play_keys
        )
        advantage = advantages(experience, config.discount, config.gae_lambda)
        happened = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (experience, advantage))
        old_noise = learner.parameters["log_noise"]

        def descend_on(learner: Learner, rows: Array):
            chosen, advantage = jax.tree.map(lambda x: x[rows], happened)
            return descend(learner, chosen, advantage, old_noise)

        shuffles = random_keys.split(shuffle_key, config.epochs)
        rows = jax.vmap(lambda key: random_keys.shuffled(key, happened[1].size))(shuffles)
        rows = rows.reshape(config.epochs * config.minibatches, -1)
        learner, (losses, moments) = jax.lax.scan(descend_on, learner, rows)
        mean = jax.tree.map(lambda x: jnp.mean(x, axis=0), moments)
        observed = learner.observed.after(mean, config.num_envs * config.unroll)
        learner = learner.replace(observed=observed, iteration=learner.iteration + 1)
        sums = {name: jnp.sum(report.pop(name)) for name in ("episodes", "returns", "falls")}
        means = jax.tree.map(jnp.mean, {**report, **losses})
        report = {
            **sums,
            **means,
            "learning_rate": learner.learning_rate,
            "noise": jnp.mean(jnp.exp(old_noise)),
        }
        return learner, actors.replace(key=next_key[None]), jax.tree.map(lambda x: x[None], report)

    return iteration


def on_mesh(
    mesh: jax.sharding.Mesh, environment: Environment, config: Config
) -> Callable[[Learner, Actors], tuple]:
    """:func:`make_iteration` on all devices of a mesh with the axis ``"devices"``.

    Each device has the learner, and its part of the environments.
    """
    return jax.shard_map(
        make_iteration(environment, config),
        mesh=mesh,
        in_specs=(EVERYWHERE, PARTS),
        out_specs=(EVERYWHERE, PARTS, PARTS),
        check_vma=False,
    )


def placed(mesh: jax.sharding.Mesh, training: Training) -> Training:
    """A training run on the devices of a mesh, as :func:`on_mesh` needs it."""
    places = (NamedSharding(mesh, spec) for spec in (EVERYWHERE, PARTS))
    return Training(*map(jax.device_put, training, places))


def check_shares(config: Config, num_devices: int) -> None:
    """Refuses environments or experience that devices and gradient steps cannot share evenly.

    Raises:
      ValueError: they cannot.
    """
    if (
        config.num_envs % num_devices
        or config.num_envs // num_devices * config.unroll % config.minibatches
    ):
        raise ValueError(
            f"num_envs must be a multiple of the number of devices, {num_devices}, and num_envs * "
            f"unroll / devices a multiple of minibatches, {config.minibatches}; found "
            f"num_envs={config.num_envs}, unroll={config.unroll}"
        )


def train(
    environment: Environment,
    config: Config,
    *,
    steps: int,
    training: Training | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> Iterator[tuple[Training, dict[str, float]]]:
    """Trains a policy, iteration by iteration.

    Args:
      environment: one environment, without automatic resets.
      config: settings of PPO.
      steps: number of environment steps after which no further iteration starts, counted from the
        start of the training run.
      training: a training run to continue (default: a new one).
      devices: the devices of this process that share the environments (default: all).

    Yields:
      After each iteration, the training run, which you may keep, and a report: ``"steps"`` and
      ``"seconds"`` so far; ``"return"`` and ``"fall"``, the mean return of the episodes that ended
      and the fraction of them that terminated early (NaN if none ended); means of the environment's
      metrics (``"metrics/..."``); and statistics of the learner.

    Raises:
      ValueError: the environments cannot be divided evenly, a device belongs to another process, or
        the training run to continue has another number of environments or networks that are not
        symmetric.
      FloatingPointError: the loss is not finite.

    Example:
      >>> from artix import envs
      >>> from artix.examples import ppo
      >>> config = ppo.Config(num_envs=4, unroll=2, minibatches=1, epochs=1)
      >>> for training, report in ppo.train(envs.make("cart_pole"), config, steps=8):
      ...     print(report["steps"])
      8
    """
    devices = jax.devices() if devices is None else devices
    check_shares(config, len(devices))
    if any(device.process_index != jax.process_index() for device in devices):
        raise ValueError(
            "ppo.train uses the devices of one process: pass devices=jax.local_devices(), or use "
            "ppo.on_mesh with a mesh of all processes and keep checkpoints as "
            "artix.examples.many_hosts does"
        )
    mirror = mirror_of(environment, config)
    if training is not None and len(training.actors.episode_return) != config.num_envs:
        raise ValueError(
            f"the training run to continue has {len(training.actors.episode_return)} environments; "
            f"found num_envs={config.num_envs}"
        )
    if training is not None and mirror is not None:
        before = training.learner.parameters
        after = jax.jit(functools.partial(symmetric_learner, mirror))(before)
        same = jax.tree.map(lambda x, y: np.allclose(x, y, atol=1e-4), before, after)
        if not all(jax.tree.leaves(same)):
            raise ValueError(
                f"{environment.name}: the networks of this training run are not symmetric, as "
                "those of a symmetric robot are here; continue it with mirror=False (--set "
                "ppo.mirror=false)"
            )
    mesh = jax.sharding.Mesh(np.array(devices), ("devices",))
    iterate = jax.jit(on_mesh(mesh, environment, config))
    if training is None:
        training = started(environment, config, len(devices))
    learner, actors = placed(mesh, training)
    begin, per_iteration = time.perf_counter(), config.num_envs * config.unroll
    for iteration in range(int(learner.iteration), math.ceil(steps / per_iteration)):
        learner, actors, parts = iterate(learner, actors)
        means = {name: np.mean(value) for name, value in jax.device_get(parts).items()}
        report = mean_report(means)
        if not math.isfinite(report["loss"]):
            raise FloatingPointError(
                f"the loss of iteration {iteration} is {report['loss']}: check the environment"
            )
        report["steps"], report["seconds"] = (
            (iteration + 1) * per_iteration,
            time.perf_counter() - begin,
        )
        yield Training(learner, actors), report
