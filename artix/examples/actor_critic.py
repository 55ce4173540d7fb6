"""What actor-critic methods share: networks, the experience of an iteration, symmetry, and the
report on the episodes that ended.

Truncated episodes are bootstrapped as in Pardo et al., *Time Limits in Reinforcement Learning*
(arXiv 1712.00378). Where the robot is symmetric, policy and critic are so by their construction, as
in Su et al., *Leveraging Symmetry in RL-based Legged Locomotion Control* (arXiv 2403.17320).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix.envs import Environment, EnvState, autoreset
from artix.examples.policies import Network, Observed, symmetrized, unsigned
from artix.math import random_keys

Array = jax.Array


def networks(config: Any, environment: Environment) -> tuple[Network, Network]:
    """The policy, which returns the mean action, and the critic, which returns the value of a
    state.
    """
    return Network(config.policy_layers, environment.action_size), Network(config.critic_layers, 1)


def check_config(config: Any, finite: Sequence[str] = ()) -> None:
    """Refuses settings that actor-critic methods share, and of which nothing could be learned.

    Args:
      config: the settings.
      finite: names of further numbers that must be finite.

    Raises:
      ValueError: a layer has no size, the seed is larger than random keys take, or a number is not
        finite.
    """
    for name in ("policy_layers", "critic_layers"):
        sizes = getattr(config, name)
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError(f"{name} must be whole numbers of at least 1; found {sizes}")
    if abs(config.seed) >= 2**62:
        raise ValueError(
            f"seed must be below 2^62, the most that random keys take; found {config.seed}"
        )
    for name in finite:
        if not math.isfinite(getattr(config, name)):
            raise ValueError(f"{name} must be finite; found {getattr(config, name)}")


class Experience(NamedTuple):
    """The experience of one iteration, with leading axes [unroll, environments]."""

    obs: Any
    action: Array
    mean: Array  # of the policy that acted
    value: Array
    next_value: Array  # of the next observation, before any reset
    reward: Array
    done: Array
    terminated: Array  # done, but not by the time limit


def advantages(experience: Experience, discount: float, gae_lambda: float) -> Array:
    """Generalised advantage estimates [unroll, environments].

    If an episode ends at the time limit, the value of its last observation counts. After a
    termination it does not.
    """
    surprise = (
        experience.reward
        + discount * (1 - experience.terminated) * experience.next_value
        - experience.value
    )

    def back(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        advantage = step[0] + discount * gae_lambda * (1 - step[1]) * later
        return advantage, advantage

    return jax.lax.scan(
        back, jnp.zeros_like(surprise[0]), (surprise, experience.done), reverse=True
    )[1]


def mirror_of(
    environment: Environment, config: Any
) -> Mapping[str, Callable[[Array], Array]] | None:
    """How the robot's mirror image acts and observes, :attr:`artix.envs.Environment.mirror`, if
    that is made use of.
    """
    return getattr(environment, "mirror", None) if config.mirror else None


def symmetric_learner(
    mirror: Mapping[str, Callable[[Array], Array]] | None, parameters: dict[str, Any]
) -> dict[str, Any]:
    """The parameters of symmetric networks closest to these, or their gradient; without a mirror,
    these.
    """
    if mirror is None:
        return parameters
    seen, known = (
        mirror[name]
        for name in (("state", "privileged_state") if "state" in mirror else ("obs", "obs"))
    )
    symmetric = {
        "policy": symmetrized(parameters["policy"], seen, mirror["action"]),
        "critic": symmetrized(parameters["critic"], known, lambda value: value),
    }
    if "log_noise" in parameters:
        noise = parameters["log_noise"]
        symmetric["log_noise"] = 0.5 * (noise + unsigned(mirror["action"], noise))
    return symmetric


def symmetric_moments(
    mirror: Mapping[str, Callable[[Array], Array]] | None, moments: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Moments of observations (:meth:`Observed.moments`) and their mirror images; without a mirror,
    theirs alone.
    """
    if mirror is None:
        return moments

    def one(reflect: Callable[[Array], Array], first: Array, second: Array) -> tuple[Array, Array]:
        return 0.5 * (first + reflect(first)), 0.5 * (second + unsigned(reflect, second))

    if not isinstance(moments[0], dict):
        return one(mirror["obs"], *moments)
    both = {name: one(mirror[name], first, moments[1][name]) for name, first in moments[0].items()}
    return {name: each[0] for name, each in both.items()}, {
        name: each[1] for name, each in both.items()
    }


def fresh(environment: Environment, num_envs: int, key: Array, steps_key: Array) -> EnvState:
    """New environments whose time limits are spread out, so that they do not end in step."""
    env = jax.vmap(autoreset(environment).reset)(random_keys.split(key, num_envs))
    steps_key, length = random_keys.quick(steps_key), environment.episode_length
    steps = jax.random.randint(steps_key, (num_envs,), 0, length, jnp.int32)
    return env.replace(info={**env.info, "steps": steps})


def run_once(function: Callable[[], Any]) -> Any:
    """The result of a function, compiled with :func:`options_of_one_run`."""
    return jax.jit(function).lower().compile(compiler_options=options_of_one_run())()


def options_of_one_run() -> dict[str, str | bool] | None:
    """How XLA compiles what runs once: on a CPU without optimisation, which takes half the time."""
    return {"xla_backend_optimization_level": "0"} if jax.default_backend() == "cpu" else None


def untrained(
    environment: Environment, config: Any, obs: Any, policy_key: Array, critic_key: Array
) -> tuple[dict[str, Any], Observed]:
    """Parameters of ``"policy"`` and ``"critic"``, which are symmetric if the robot is, and the
    statistics of no observation. ``obs`` is the observation of one environment.
    """
    observed = Observed.nothing(obs)
    seen, known = observed.normalize(obs)
    policy, critic = networks(config, environment)
    keys = random_keys.quick(policy_key), random_keys.quick(critic_key)
    parameters = {"policy": policy.init(keys[0], seen), "critic": critic.init(keys[1], known)}
    mirror = mirror_of(environment, config)
    if mirror is not None:  # of half as many independent numbers: hence the factor
        parameters = jax.tree.map(lambda x: 2**0.5 * x, symmetric_learner(mirror, parameters))
    return parameters, observed


def step_report(
    metrics: Mapping[str, Array], done: Array, terminated: Array, returns: Array
) -> dict[str, Array]:
    """The report on a step of all environments: means of their metrics (``"metrics/..."``), and
    sums over the episodes that ended: ``"episodes"``, ``"returns"`` and ``"falls"``.
    """
    ended = {
        "episodes": jnp.sum(done),
        "returns": jnp.sum(done * returns),
        "falls": jnp.sum(terminated),
    }
    return {f"metrics/{name}": jnp.mean(x) for name, x in metrics.items()} | ended


def mean_report(values: Mapping[str, Any]) -> dict[str, float]:
    """A report whose sums over episodes (:func:`step_report`) have become means.

    ``"return"`` is the mean return of the episodes that ended, and ``"fall"`` the fraction of them
    that terminated early; NaN if none ended.
    """
    report = {name: float(value) for name, value in values.items()}
    returns, falls, episodes = report.pop("returns"), report.pop("falls"), report["episodes"]
    report["return"] = returns / episodes if episodes else math.nan
    report["fall"] = falls / episodes if episodes else math.nan
    return report
