"""An environment over eight devices and on one; ``tests/envs/test_environments.py`` starts it in a
process of its own."""

from __future__ import annotations

import os
import re


def main() -> None:
    """Says how many collectives the compiled program has, and whether the numbers agree."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    # XLA takes the last of two flags. The others are those of the suite, which compile fast.
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    )
    os.environ.setdefault("ARTIX_KERNEL_LEVEL", "0")
    import jax
    import numpy as np

    from artix import envs

    environment = envs.autoreset(envs.make("cart_pole", episode_length=3))
    reset, step = jax.vmap(environment.reset), jax.vmap(environment.step)

    def episode(keys: jax.Array, actions: jax.Array) -> envs.EnvState:
        def advance(state: envs.EnvState, action: jax.Array) -> tuple[envs.EnvState, jax.Array]:
            state = step(state, action)
            return state, state.reward

        state, rewards = jax.lax.scan(advance, reset(keys), actions)
        return state.obs, state.done, rewards

    keys = jax.random.split(jax.random.key(0), 32)
    actions = jax.random.uniform(jax.random.key(1), (5, 32, 1), minval=-1, maxval=1)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("robots",))
    place = lambda *axes: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))  # noqa: E731
    there = jax.device_put(keys, place("robots")), jax.device_put(actions, place(None, "robots"))
    compiled = jax.jit(episode).lower(*there).compile()
    names = r"\b(all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all)(?:-start)?\("
    found, wanted = compiled(*there), jax.jit(episode)(keys, actions)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    collectives = len(re.findall(names, compiled.as_text()))
    print(f"{len(jax.devices())} devices, {collectives} collectives, equal")


if __name__ == "__main__":
    main()
