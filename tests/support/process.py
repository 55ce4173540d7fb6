"""One of several processes that evaluate one batch; ``tests/fleet/test_processes.py`` starts them.

Usage: ``python -m tests.support.process NUMBER PROCESSES PORT DEVICES RESULTS``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

_COLLECTIVE = re.compile(
    r"\b(all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all)(?:-start)?\("
)


def main(number: int, processes: int, port: int, devices: int, results: Path) -> None:
    """Evaluates, and writes this process's part of the results and the communication of the
    programs."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    # XLA takes the last of two flags. The others are those of the suite, which compile fast.
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    )
    os.environ.setdefault("ARTIX_KERNEL_LEVEL", "0")
    import jax

    jax.config.update("jax_enable_x64", True)
    if processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", processes, number)

    import jax.numpy as jnp
    import numpy as np

    import artix

    quadruped = artix.robots.load("quadruped", dtype=jnp.float64)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("robots",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("robots"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    keys = jax.random.split(jax.random.key(0), 16)
    states = jax.jit(jax.vmap(lambda key: artix.random_state(quadruped, key)), out_shardings=split)(
        keys
    )
    force = jnp.zeros(quadruped.topology.nv)

    def loss(mass: Any, state: artix.State) -> Any:
        heavier = quadruped.replace(link_mass=mass)
        after = jax.vmap(lambda one: artix.rollout(heavier, one, None, 0.005, num_steps=3))(state)
        return jnp.mean(after.joint_position[:, -1] ** 2)

    functions = {
        "mass matrix": lambda state: artix.mass_matrix(quadruped, state),
        "forward dynamics": lambda state: artix.forward_dynamics(quadruped, state, force),
        "step": lambda state: artix.step(quadruped, state, None, 0.005).joint_velocity,
    }
    found: dict[str, Any] = {}
    for name, function in functions.items():
        compiled = jax.jit(jax.vmap(function)).lower(states).compile()
        found[name] = {
            "collectives": _COLLECTIVE.findall(compiled.as_text()),
            "parts": _parts(compiled(states)),
        }
    mass = jax.device_put(quadruped.link_mass, whole)
    gradient = jax.jit(jax.grad(loss), out_shardings=whole).lower(mass, states).compile()
    result = gradient(mass, states)
    found["gradient"] = {
        "collectives": _COLLECTIVE.findall(gradient.as_text()),
        "parts": _parts(result),
    }
    found["training"] = _training_step(mesh)
    found["fleet"] = _mixed_fleet(split)
    found["member elsewhere"] = _refusal_of_a_member_elsewhere(split)
    results.write_text(json.dumps(found))


def _mixed_fleet(split: Any) -> dict[str, Any]:
    """Mass matrices of two kinds in turn, of which every device has the same."""
    import jax

    import artix

    kinds = [artix.robots.load(name) for name in ("cart_pole", "double_pendulum")]
    locked = artix.lock_joints(
        kinds[1], artix.neutral_state(kinds[1]), kinds[1].topology.dof_names[1:]
    )
    fleet = artix.Fleet([kinds[0], locked] * 8).shard(split)
    states = fleet.random_state(jax.random.key(1))
    evaluate = jax.jit(lambda states: fleet.evaluate(artix.mass_matrix, states))
    compiled = evaluate.lower(states).compile()
    return {
        "collectives": _COLLECTIVE.findall(compiled.as_text()),
        "parts": _parts(compiled(states)),
    }


def _refusal_of_a_member_elsewhere(split: Any) -> str:
    """What a fleet says of a robot whose masses lie on all processes; nothing where there is but
    one."""
    import jax

    import artix
    from tests.support.models import random_tree

    tree = random_tree(0, 7, fixed_base=True)
    try:
        artix.Fleet([tree.replace(link_mass=jax.device_put(tree.link_mass, split))])
    except ValueError as error:
        return str(error)
    return ""


def _training_step(mesh: Any) -> dict[str, Any]:
    """The policy after one iteration of PPO in which every device runs its own environments."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from artix import envs
    from artix.examples import ppo

    config = ppo.Config(
        num_envs=16, unroll=4, minibatches=2, epochs=1, policy_layers=(8,), critic_layers=(8,)
    )
    environment = envs.make("cart_pole")
    mesh = jax.sharding.Mesh(mesh.devices, ("devices",))
    shared, own = (jax.sharding.NamedSharding(mesh, spec) for spec in (ppo.EVERYWHERE, ppo.PARTS))
    begin = jax.jit(
        lambda: ppo.start(environment, config, mesh.size), out_shardings=ppo.Training(shared, own)
    )
    learner, actors = begin()
    iterate = ppo.on_mesh(mesh, environment, config)
    compiled = jax.jit(iterate).lower(learner, actors).compile()
    policy = compiled(learner, actors)[0].parameters["policy"]
    moved = [jnp.ravel(leaf) for leaf in jax.tree.leaves(policy)]
    whole = np.concatenate([np.asarray(leaf.addressable_shards[0].data) for leaf in moved])
    return {"collectives": _COLLECTIVE.findall(compiled.as_text()), "parts": {"0": whole.tolist()}}


def _parts(array: Any) -> dict[str, list[Any]]:
    """The parts on this process, by their first row."""
    import numpy as np

    return {
        str(part.index[0].start or 0): np.asarray(part.data).tolist()
        for part in array.addressable_shards
    }


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]), Path(sys.argv[5]))
