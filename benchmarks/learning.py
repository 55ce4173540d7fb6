"""PPO beside SHAC: environment steps and seconds until a policy without noise reaches the goal of a
task.

``python -m benchmarks.learning [--task quadruped_velocity [--robot go2]]`` prints a table. Seconds
include compilation but not evaluations: of the clock, and of the processor, which count alike while
other programs run.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from artix import envs
from artix.cli.play import load_played
from artix.cli.training_tasks import legged_robot
from artix.examples import policies, residual
from artix.examples.actor_critic import run_once
from artix.examples.learners import METHODS, settings

Array = jax.Array


class Goal(NamedTuple):
    """What to learn."""

    measure: str
    """What of the statistics of episodes counts: the name of a metric,
    :func:`artix.examples.policies.evaluate`."""
    is_reached: Callable[[float, int], bool]
    """Of the mean of that, and of the number of episodes that ended early."""
    says: str
    length: int
    """Control steps of an episode."""
    most: dict[str, int]
    """Environment steps after which each method gives up."""
    period: dict[str, int]
    """Environment steps between evaluations."""


GOALS = {
    "cart_pole": Goal(
        "return",
        lambda earned, _: earned >= 400.0,
        "a mean return of 400 (the best policies earn about 425)",
        500,
        {"ppo": 1_500_000, "shac": 1_500_000},
        {"ppo": 20_480, "shac": 20_480},
    ),
    "arm_reach": Goal(
        "final/distance",
        lambda distance, _: distance < 0.02,
        "a mean distance below 2 cm at the end",
        100,
        {"ppo": 10_000_000, "shac": 3_000_000},
        {"ppo": 102_400, "shac": 51_200},
    ),
    "hopper": Goal(
        "return",
        lambda earned, falls: earned >= 4000.0 and falls == 0,
        "a mean return of 4,000 in 1,000 steps, and no fall",
        1000,
        {"ppo": 30_000_000, "shac": 6_000_000},
        {"ppo": 983_040, "shac": 524_288},
    ),
    "ant": Goal(
        "return",
        lambda earned, falls: earned >= 5000.0 and falls == 0,
        "a mean return of 5,000 in 1,000 steps, and no fall",
        1000,
        {"ppo": 30_000_000, "shac": 6_000_000},
        {"ppo": 983_040, "shac": 524_288},
    ),
    "quadruped_velocity": Goal(
        "velocity_error",
        lambda error, falls: error < 0.15 and falls == 0,
        "a mean velocity error below 0.15 m/s in 20 s, and no fall",
        1000,
        {"ppo": 16_000_000, "shac": 1_000_000},
        {"ppo": 491_520, "shac": 102_400},
    ),
    "quadruped_rough": Goal(
        "velocity_error",
        lambda error, falls: error < 0.15 and falls == 0,
        "a mean velocity error below 0.15 m/s in 10 s, and no fall",
        500,
        {"ppo": 13_000_000, "shac": 1_000_000},
        {"ppo": 491_520, "shac": 204_800},
    ),
}


class Progress(NamedTuple):
    """How far a training run is."""

    steps: int
    seconds: float
    processor_seconds: float
    measure: float
    falls: int

    def __str__(self) -> str:
        spent = f"{self.seconds:.0f} s, {self.processor_seconds:.0f} s of a processor"
        return f"{self.steps:,} steps, {spent}: {self.measure:.3g}, {self.falls} ended early"


def learn(
    task: str, method: str, seed: int, options: argparse.Namespace
) -> tuple[Progress | None, bool]:
    """Trains until the goal is reached, with the task's options for the method ``options.rewards``;
    and whether it is.

    With ``options.all`` training continues to its end, and the first time at the goal counts.
    """
    goal, learner = GOALS[task], METHODS[method]
    config = dataclasses.replace(settings(task, method).config, seed=seed)
    _, _, changes, always = settings(task, options.rewards or method)
    if options.robot:
        always = {**always, "robot": legged_robot(options.robot, {})}
    environment, begun, base = envs.make(task, **changes, **always), None, None
    if options.residual:
        _, level, policy = load_played(options.residual)
        base = residual.base_for(environment, policy, level)
        environment = residual.Residual(environment, base)
        start = functools.partial(learner.start, environment, config, jax.device_count())
        begun = residual.begin(base, run_once(start))
    test = envs.make(task, episode_length=goal.length, **always)

    @jax.jit
    def evaluated(policy: policies.Policy) -> dict[str, Array]:
        return policies.evaluate(test, policy, jax.random.key(100), episodes=options.episodes)

    progress, first, following = None, None, goal.period[method]
    spent = [0.0, 0.0]
    since = time.perf_counter(), time.process_time()
    for training, report in learner.train(
        environment, config, steps=int(options.most or goal.most[method]), training=begun
    ):
        if report["steps"] < following:
            continue
        following += goal.period[method]
        jax.block_until_ready(training)
        here = time.perf_counter(), time.process_time()
        spent = [total + end - begin for total, begin, end in zip(spent, since, here, strict=True)]
        policy = learner.policy_of(training, config)
        statistics = evaluated(policy if base is None else base.plus(policy))
        measure, falls = (
            float(np.mean(statistics[goal.measure])),
            int(np.sum(statistics["terminated"])),
        )
        progress = Progress(int(report["steps"]), *spent, measure, falls)
        print(f"  {progress}", flush=True)
        if first is None and goal.is_reached(measure, falls):
            first = progress
        if (first is not None and not options.all) or spent[0] > options.seconds:
            break
        since = time.perf_counter(), time.process_time()
    return first or progress, first is not None


def main() -> None:
    """Prints a row for each method and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=GOALS, default="cart_pole")
    parser.add_argument("--robot", help="another legged robot than the task's own")
    parser.add_argument("--residual", help="learn what to add to the actions of this policy")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--rewards", choices=METHODS, help="the rewards and starts of this method for all of them"
    )
    parser.add_argument("--episodes", type=int, default=256, help="episodes of an evaluation")
    parser.add_argument("--all", action="store_true", help="go on when the goal is reached")
    parser.add_argument("--most", type=float, help="environment steps after which to give up")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="seconds after which to give up"
    )
    options = parser.parse_args()
    print(f"{options.task}: until {GOALS[options.task].says}, of {options.episodes} episodes")
    for seed in options.seeds:
        for method in options.methods:
            progress, is_reached = learn(options.task, method, seed, options)
            print(
                f"{method}, seed {seed}: {'reached' if is_reached else 'NOT reached'} after "
                f"{progress}",
                flush=True,
            )


if __name__ == "__main__":
    main()
