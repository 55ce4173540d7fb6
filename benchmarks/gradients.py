"""The gradient of a walking quadruped's return: its size, its noise, and whether it says what
happens.

``python -m benchmarks.gradients`` trains ``quadruped_velocity`` for a while with SHAC, then, from
the states that its robots are in, plays horizons of several lengths. It prints a table and saves a
picture.

``python -m benchmarks.gradients --cost [--task hopper]`` measures what the gradient costs beside
the steps.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from artix import envs
from artix.examples import policies, shac
from artix.examples.actor_critic import networks
from artix.examples.learners import SHAC_SETTINGS, settings

Array = jax.Array
HORIZONS = (4, 8, 16, 32, 64)
#: How often each horizon is played, with other noise.
REPEATS = 4
#: Root mean squares of the changes of actions in which slopes are measured.
CHANGES = (0.003, 0.01, 0.03)
ESTIMATES = ("plain", "limited", "trials")


def trained(steps: int) -> tuple[envs.Environment, shac.Config, shac.Training]:
    """A training run after so many environment steps."""
    config, _, options, always = settings("quadruped_velocity", "shac")
    environment = envs.make("quadruped_velocity", **options, **always)
    ((training, _),) = collections.deque(shac.train(environment, config, steps=steps), maxlen=1)
    return environment, config, training


def measure(
    environment: envs.Environment, config: shac.Config, training: shac.Training, horizon: int
) -> dict:
    """Norms of the gradients, how well two halves of the robots agree, and slopes foretold and
    found."""
    config = dataclasses.replace(config, horizon=horizon)
    play, shape = (
        shac.make_play(environment, config),
        (horizon, config.num_envs, environment.action_size),
    )
    policy, _ = networks(config, environment)
    parameters, still = training.parameters["policy"], jnp.zeros(shape, jnp.float32)
    normalize = training.observed.normalize

    def by_parameters(gradient: Array, obs: Any) -> Any:
        """The gradient by the policy's parameters, from those of actions at observations."""
        return jax.vjp(lambda p: policy.at(p, normalize(obs)[0]), parameters)[1](gradient)[0]

    def flat(tree: Any) -> Array:
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(tree)])

    def by_trials(experience: Any) -> Array:
        """The gradients of actions by likelihood ratios, as PPO has them: noise that paid off was
        good."""

        def back(later: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
            reward, done, terminated, value = now
            rest = (1 - done) * later + done * (1 - terminated) * value
            return (reward + config.discount * rest,) * 2

        parts = experience.reward, experience.done, experience.terminated, experience.next_value
        returns = jax.lax.scan(back, experience.next_value[-1], parts, reverse=True)[1]
        surprise = returns - experience.value
        return (experience.action - experience.mean) / config.noise**2 * surprise[..., None]

    @jax.jit
    def estimates(key: Array) -> tuple[Array, dict[str, tuple[Array, Array]], Array]:
        """Norms by robot, gradients of two halves of the robots, and how far the limited one moves
        actions."""
        gradient, (_, _, experience, _) = jax.grad(play, has_aux=True)(still, training, key)
        norms = jnp.sqrt(jnp.sum(gradient**2, axis=(0, 2)))
        every = {
            "plain": gradient,
            "limited": shac.limited(gradient, config.most_gradient)[0],
            "trials": by_trials(experience),
        }
        half, halves = config.num_envs // 2, {}
        for name, each in every.items():
            parts = [slice(0, half), slice(half, None)]
            obs = [jax.tree.map(lambda x, part=part: x[:, part], experience.obs) for part in parts]
            grads = [
                flat(by_parameters(each[:, part], one))
                for part, one in zip(parts, obs, strict=True)
            ]
            halves[name] = (grads[0], grads[1])
        act = lambda p: policy.at(p, normalize(experience.obs)[0])  # noqa: E731
        moved = jax.jvp(act, (parameters,), (unflat(halves["limited"]),))[1]
        return norms, halves, jnp.sqrt(jnp.mean(moved**2))

    def unflat(halves: tuple[Array, Array]) -> Any:
        return ravel_pytree(parameters)[1](halves[0] + halves[1])

    @jax.jit
    def found(change: Array, direction: Any, key: Array) -> Array:
        def at(sign: float) -> Array:
            moved = jax.tree.map(lambda p, d: p + sign * change * d, parameters, direction)
            return play(
                still, training._replace(parameters=training.parameters | {"policy": moved}), key
            )[0]

        return (at(1.0) - at(-1.0)) / (2 * change)

    keys = jax.random.split(jax.random.key(1), REPEATS)
    norms, halves, scales = zip(*(estimates(key) for key in keys), strict=True)
    agree = {}
    for name in ESTIMATES:
        pairs = [tuple(np.asarray(x, np.float64) for x in each[name]) for each in halves]
        agree[name] = float(np.mean([a @ b / math.sqrt((a @ a) * (b @ b)) for a, b in pairs]))
    slopes = []
    direction = unflat(halves[0]["limited"])
    foretold = float((halves[0]["plain"][0] + halves[0]["plain"][1]) @ flat(direction))
    for change in CHANGES:
        slopes.append(float(found(jnp.float32(change / scales[0]), direction, keys[0])) / foretold)
    norms = np.concatenate([np.asarray(each) for each in norms])
    quantiles = np.quantile(norms[np.isfinite(norms)], (0.5, 0.99, 1.0))
    return {
        "norms": quantiles,
        "lost": int(np.sum(~np.isfinite(norms))),
        "agree": agree,
        "slopes": slopes,
    }


def share_at_the_floor(noise: float) -> float:
    """The share of steps of random robots whose reward is the bound of the task's own rewards, and
    has no slope."""
    environment = envs.autoreset(envs.make("quadruped_velocity"))

    @jax.jit
    def rewards(key: Array) -> Array:
        first = jax.vmap(environment.reset)(jax.random.split(key, 256))

        def advance(state: envs.EnvState, key: Array) -> tuple[envs.EnvState, Array]:
            action = jnp.clip(noise * jax.random.normal(key, (256, 12), jnp.float32), -1, 1)
            moved = jax.vmap(environment.step)(state, action)
            return moved, moved.reward

        return jax.lax.scan(advance, first, jax.random.split(key, 60))[1]

    return float(jnp.mean(rewards(jax.random.key(0)) == 0))


def cost(task: str, robots: int = 256, horizon: int = 16, repeats: int = 40) -> None:
    """Prints processor time and memory of control steps with rewards, resets and observations, and
    of their gradient by the actions, in turn.

    Robots walk by the policy that comes with artix, on the task's own commands and starts; without
    one, actions are small and random. They have taken 100 control steps before.
    """
    _, _, options, always = settings(task, "shac")
    options = {
        name: value
        for name, value in options.items()
        if name not in ("velocity_commands", "resets", "episode_length")
    }
    environment = envs.autoreset(envs.make(task, **options, **always))
    noise = 0.2 * jax.random.normal(
        jax.random.key(0), (100 + horizon, robots, environment.action_size), jnp.float32
    )
    policy = policies.load(task) if task in policies.built_in() else None

    def advance(state: envs.EnvState, action: Array) -> tuple[envs.EnvState, Array]:
        after = jax.vmap(environment.step)(state, action.astype(state.reward.dtype))
        return after, after.reward

    def play(actions: Array, first: envs.EnvState) -> tuple[Array, envs.EnvState]:
        last, rewards = jax.lax.scan(advance, first, actions)
        return jnp.sum(rewards), last

    def act(state: envs.EnvState, noise: Array) -> tuple[envs.EnvState, Array]:
        action = noise if policy is None else jax.vmap(policy)(state.obs)
        return advance(state, action)[0], action

    reset = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(1), robots))
    first, _ = jax.jit(lambda state, noise: jax.lax.scan(act, state, noise))(reset, noise[:100])
    _, actions = jax.jit(lambda state, noise: jax.lax.scan(act, state, noise))(first, noise[100:])
    functions, spent = {"steps": play, "gradient": jax.grad(play, has_aux=True)}, {}
    compiled = {}
    for name, function in functions.items():
        begin = time.process_time()
        compiled[name] = jax.jit(function).lower(actions, first).compile()
        jax.block_until_ready(compiled[name](actions, first))
        spent[name] = time.process_time() - begin
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in compiled.items():
            begin = time.process_time()
            jax.block_until_ready(function(actions, first))
            times[name].append(time.process_time() - begin)
    for name, each in times.items():
        memory = compiled[name].memory_analysis().temp_size_in_bytes / robots / horizon
        micro = 1e6 / robots / horizon
        print(
            f"{task}, {name}: {micro * np.median(each):.2f} us of a processor per robot and "
            f"control step (fastest {micro * min(each):.2f}), {memory / 1e3:.1f} kB, first call "
            f"{spent[name]:.1f} s"
        )
    ratios = np.asarray(times["gradient"]) / np.asarray(times["steps"])
    fastest = min(times["gradient"]) / min(times["steps"])
    print(f"{task}: {np.median(ratios):.2f} times the steps (of the fastest runs: {fastest:.2f})")


def draw(found: dict[int, dict], path: str) -> None:
    """The picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    size, noise, truth = figure.subplots(1, 3)
    horizons = list(found)
    for k, name in enumerate(("median", "99 %", "largest")):
        size.loglog(horizons, [found[h]["norms"][k] for h in horizons], "o-", label=name)
    size.set_title("Norm of a robot's gradient by its actions", fontsize=10)
    labels = {
        "plain": "sum over robots",
        "limited": "limited, action by action",
        "trials": "trials (likelihood ratios)",
    }
    for name in ESTIMATES:
        noise.semilogx(
            horizons, [found[h]["agree"][name] for h in horizons], "o-", label=labels[name]
        )
    noise.set_title("Cosine between the gradients of two halves", fontsize=10)
    for k, change in enumerate(CHANGES):
        truth.semilogx(
            horizons,
            [found[h]["slopes"][k] for h in horizons],
            "o-",
            label=f"actions moved by {change}",
        )
    truth.axhline(1.0, color="black", linewidth=0.8)
    truth.set_title("Slope found / slope foretold", fontsize=10)
    truth.set_ylim(-0.5, 2.0)
    for axes in (size, noise, truth):
        axes.set_xlabel("horizon [control steps of 20 ms]")
        axes.set_xticks(horizons, [str(h) for h in horizons])
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Prints the table and saves the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--steps", type=float, default=204_800, help="environment steps of training before"
    )
    parser.add_argument("--output", default="gradients.png")
    parser.add_argument("--cost", action="store_true", help="measure time and memory instead")
    parser.add_argument(
        "--task", choices=SHAC_SETTINGS, default="quadruped_velocity", help="of --cost"
    )
    options = parser.parse_args()
    if options.cost:
        cost(options.task)
        return
    for noise in (0.0, 0.2, 0.3, 0.6):
        print(
            f"noise {noise}: {100 * share_at_the_floor(noise):.0f} % of steps at the floor of the "
            "reward",
            flush=True,
        )
    environment, config, training = trained(int(options.steps))
    found = {}
    for horizon in HORIZONS:
        found[horizon] = each = measure(environment, config, training, horizon)
        size = ", ".join(f"{x:.3g}" for x in each["norms"])
        agree = ", ".join(f"{name} {x:.2f}" for name, x in each["agree"].items())
        slopes = ", ".join(f"{x:.2f}" for x in each["slopes"])
        print(
            f"horizon {horizon}: norm {size} ({each['lost']} not finite); halves agree: {agree}; "
            f"slopes {slopes}",
            flush=True,
        )
    draw(found, options.output)


if __name__ == "__main__":
    main()
