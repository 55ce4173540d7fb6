"""PPO beside SHAC: environment steps and seconds until a policy without noise reaches the goal of a task.

``python -m benchmarks.learning [--task quadruped_velocity]`` prints a table. Seconds include compilation but not
evaluations.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix import envs
from artix.examples import policies, ppo, shac
from artix.examples.ppo_settings import settings

Array = jax.Array
EPISODES = 32


class Goal(NamedTuple):
    """What to learn, and how."""

    measure: Callable[[envs.EnvState], Array]
    """Of the states of an episode, [T], a number."""
    is_reached: Callable[[float], bool]
    says: str
    shac: shac.Config
    shac_options: dict[str, Any]
    """Of the environment while SHAC learns in it."""
    most: int
    """Environment steps after which to give up."""
    period: int
    """Environment steps between evaluations."""


def velocity_error(states: envs.EnvState) -> Array:
    """The mean velocity error of an episode [m/s]; 1 if it ended with a fall."""
    fell = jnp.max(states.done * (1 - states.info["truncation"]))
    return jnp.where(fell > 0, 1.0, jnp.mean(states.metrics["velocity_error"]))


GOALS = {
    "cart_pole": Goal(
        lambda states: jnp.sum(states.reward),
        lambda earned: earned >= 400.0,
        "a mean return of 400 (the best policies earn about 425)",
        shac.Config(),
        {},
        1_500_000,
        20_480,
    ),
    "quadruped_velocity": Goal(
        velocity_error,
        lambda error: error < 0.3,
        "a mean error of velocity below 0.3 m/s, where a fall counts as 1 m/s",
        shac.Config(
            num_envs=128,
            horizon=16,
            discount=0.98,
            policy_rate=2e-3,
            half_life=2000,
            noise=0.2,
            policy_layers=(128, 128),
            critic_layers=(128, 128),
        ),
        {"tracking_sigma": 0.5, "least_reward": -math.inf},  # a bound has no gradient
        6_000_000,
        200_000,
    ),
}


def learn(
    task: str, goal: Goal, train: Iterator[Any], policy_of: Callable[[Any], policies.Policy]
) -> tuple[int, float, float]:
    """Environment steps (-1 if the goal is not reached) and seconds to the goal, and the best measure."""
    environment = envs.make(task, episode_length=500)
    keys = jax.random.split(jax.random.key(100), EPISODES)

    @jax.jit
    def measured(policy: policies.Policy) -> Array:
        return jax.vmap(lambda key: goal.measure(policies.play(environment, policy, key)))(keys).mean()

    spent, since, following, found = 0.0, time.perf_counter(), goal.period, math.nan
    for training, report in train:
        if report["steps"] < following:
            continue
        following += goal.period
        jax.block_until_ready(training)
        spent += time.perf_counter() - since
        found = float(measured(policy_of(training)))
        print(f"  {report['steps']:,} steps, {spent:.0f} s: {found:.3g}", flush=True)
        if goal.is_reached(found):
            return report["steps"], spent, found
        since = time.perf_counter()
    return -1, spent, found


def main() -> None:
    """Prints a row for each algorithm and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=GOALS, default="cart_pole")
    parser.add_argument("--algorithms", nargs="+", choices=("PPO", "SHAC"), default=["PPO", "SHAC"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=float, help="environment steps after which to give up")
    options = parser.parse_args()
    goal, task = GOALS[options.task], options.task
    most = int(options.most or goal.most)
    print(f"{task}: until {goal.says}")
    for seed in range(options.seeds):
        for name in options.algorithms:
            if name == "PPO":
                config = dataclasses.replace(settings(task).config, seed=seed)
                training = ppo.train(envs.make(task, **settings(task).options), config, steps=most)
                policy_of = lambda found, config=config: ppo.policy_of(found, config)  # noqa: E731
            else:
                config = dataclasses.replace(goal.shac, seed=seed)
                environment = envs.make(task, **goal.shac_options)
                training = shac.train(environment, config, steps=most)
                policy_of = lambda found, config=config, of=environment: shac.policy_of(found, config, of)  # noqa: E731
            steps, seconds, found = learn(task, goal, training, policy_of)
            text = f"{steps:,} steps" if steps > 0 else f"not in {most:,} steps"
            print(f"{name}, seed {seed}: {text}, {seconds:.0f} s ({found:.3g})", flush=True)


if __name__ == "__main__":
    main()
