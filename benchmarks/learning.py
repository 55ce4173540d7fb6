"""PPO beside SHAC: environment steps and seconds until a policy without noise reaches the goal of a task.

``python -m benchmarks.learning [--task quadruped_velocity]`` prints a table. Seconds include compilation but not
evaluations: of the clock, and of the processor, which count alike while other programs run.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix import envs
from artix.examples import policies
from artix.examples.learners import METHODS, settings

Array = jax.Array
EPISODES = 32


class Goal(NamedTuple):
    """What to learn."""

    measure: Callable[[envs.EnvState], Array]
    """Of the states of an episode, [T], a number."""
    is_reached: Callable[[float], bool]
    says: str
    length: int
    """Control steps of an episode."""
    most: dict[str, int]
    """Environment steps after which each method gives up."""
    period: int
    """Environment steps between evaluations."""


def velocity_error(states: envs.EnvState) -> Array:
    """The mean velocity error of an episode [m/s]; 10 if it ended with a fall."""
    fell = jnp.max(states.done * (1 - states.info["truncation"]))
    return jnp.where(fell > 0, 10.0, jnp.mean(states.metrics["velocity_error"]))


GOALS = {
    "cart_pole": Goal(
        lambda states: jnp.sum(states.reward),
        lambda earned: earned >= 400.0,
        "a mean return of 400 (the best policies earn about 425)",
        500,
        {"ppo": 1_500_000, "shac": 1_500_000},
        20_480,
    ),
    "arm_reach": Goal(
        lambda states: states.metrics["distance"][-1],
        lambda distance: distance < 0.02,
        "a mean distance below 2 cm at the end",
        100,
        {"ppo": 10_000_000, "shac": 3_000_000},
        102_400,
    ),
    "quadruped_velocity": Goal(
        velocity_error,
        lambda error: error < 0.15,
        "a mean velocity error below 0.15 m/s in 10 s, where a fall counts as 10 m/s: so no robot falls",
        500,
        {"ppo": 9_000_000, "shac": 3_000_000},
        102_400,
    ),
}


class Progress(NamedTuple):
    """How far a training run is."""

    steps: int
    seconds: float
    processor_seconds: float
    measure: float

    def __str__(self) -> str:
        spent = f"{self.seconds:.0f} s, {self.processor_seconds:.0f} s of a processor"
        return f"{self.steps:,} steps, {spent}: {self.measure:.3g}"


def learn(task: str, goal: Goal, method: str, seed: int, most: int, rewards: str) -> tuple[Progress, bool]:
    """Trains until the goal is reached, with the task's options for the method ``rewards``; and whether it is."""
    learner, config = METHODS[method], dataclasses.replace(settings(task, method).config, seed=seed)
    _, _, options, always = settings(task, rewards)
    environment = envs.make(task, **options, **always)
    test = envs.make(task, episode_length=goal.length, **always)
    keys = jax.random.split(jax.random.key(100), EPISODES)

    @jax.jit
    def measured(policy: policies.Policy) -> Array:
        return jax.vmap(lambda key: goal.measure(policies.play(test, policy, key)))(keys).mean()

    progress, following = Progress(0, 0.0, 0.0, math.nan), goal.period
    spent = [0.0, 0.0]
    since = time.perf_counter(), time.process_time()
    for training, report in learner.train(environment, config, steps=most):
        if report["steps"] < following:
            continue
        following += goal.period
        jax.block_until_ready(training)
        now = time.perf_counter(), time.process_time()
        spent = [total + end - begin for total, begin, end in zip(spent, since, now, strict=True)]
        progress = Progress(int(report["steps"]), *spent, float(measured(learner.policy_of(training, config))))
        print(f"  {progress}", flush=True)
        if goal.is_reached(progress.measure):
            return progress, True
        since = time.perf_counter(), time.process_time()
    return progress, False


def main() -> None:
    """Prints a row for each method and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=GOALS, default="cart_pole")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rewards", choices=METHODS, help="the rewards of this method for all of them")
    parser.add_argument("--most", type=float, help="environment steps after which to give up")
    options = parser.parse_args()
    goal = GOALS[options.task]
    print(f"{options.task}: until {goal.says}")
    for seed in options.seeds:
        for method in options.methods:
            most = int(options.most or goal.most[method])
            progress, is_reached = learn(options.task, goal, method, seed, most, options.rewards or method)
            print(f"{method}, seed {seed}: {'reached' if is_reached else 'NOT reached'} after {progress}", flush=True)


if __name__ == "__main__":
    main()
