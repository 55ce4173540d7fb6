"""PPO beside SHAC on the cart-pole: environment steps and seconds until a policy without noise earns enough.

``python -m benchmarks.learning`` prints a table. Seconds include compilation, but not the evaluations.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax

from artix import envs
from artix.examples import policies, ppo, shac
from artix.examples.ppo_settings import settings

#: Mean return of 32 episodes of 500 steps; the best policies earn about 425.
ENOUGH, EPISODES = 400.0, 32


def steps_to_learn(
    train: Callable[[], Any], policy_of: Callable[[Any], policies.Policy], every: int
) -> tuple[int, float]:
    """Environment steps and seconds until the policy, evaluated every so many iterations, earns enough."""
    environment = envs.make("cart_pole")
    keys = jax.random.split(jax.random.key(100), EPISODES)

    @jax.jit
    def earned(policy: policies.Policy) -> jax.Array:
        return jax.vmap(lambda key: policies.play(environment, policy, key).reward.sum())(keys).mean()

    spent, since = 0.0, time.perf_counter()
    for number, (training, report) in enumerate(train(), start=1):
        if number % every == 0:
            jax.block_until_ready(training)
            spent += time.perf_counter() - since
            if float(earned(policy_of(training))) >= ENOUGH:
                return report["steps"], spent
            since = time.perf_counter()
    return -1, spent


def main() -> None:
    """Prints a row for each algorithm and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=float, default=1.5e6, help="environment steps after which to give up")
    options = parser.parse_args()
    environment, most = envs.make("cart_pole"), int(options.most)
    for seed in range(options.seeds):
        by_ppo = dataclasses.replace(settings("cart_pole").config, seed=seed)
        by_shac = shac.Config(seed=seed)
        runs = {
            "PPO": (lambda c=by_ppo: ppo.train(environment, c, steps=most), lambda t, c=by_ppo: ppo.policy_of(t, c), 2),
            "SHAC": (
                lambda c=by_shac: shac.train(environment, c, steps=most),
                lambda t, c=by_shac: shac.policy_of(t, c, environment),
                10,
            ),
        }
        for name, (train, policy_of, every) in runs.items():
            steps, seconds = steps_to_learn(train, policy_of, every)
            text = f"{steps:,} steps, {seconds:.0f} s" if steps > 0 else f"not in {most:,} steps, {seconds:.0f} s"
            print(f"{name}, seed {seed}: {text}", flush=True)


if __name__ == "__main__":
    main()
