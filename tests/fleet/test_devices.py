"""Costs per device: the same work and memory however many devices there are, and no copies of
donated arrays."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import artix
from artix import robots

COLLECTIVE = re.compile(
    r"\b(all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all)(?:-start)?\("
)


def types_of_states(robot: artix.Articulation, count: int, devices: int) -> artix.State:
    """The types of a batch of states that is divided among devices."""
    mesh = Mesh(np.array(jax.devices("cpu")[:devices]), ("robots",))
    split = NamedSharding(mesh, PartitionSpec("robots"))
    as_type = lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype, sharding=split)  # noqa: E731
    return jax.tree.map(as_type, artix.neutral_state(robot))


def cost(compiled: Any) -> dict[str, float]:
    """What each device does and holds."""
    memory, work = compiled.memory_analysis(), compiled.cost_analysis()
    return {
        "operations": work.get("flops", 0),
        "transcendentals": work.get("transcendentals", 0),
        "bytes moved": work.get("bytes accessed", 0),
        "arguments": memory.argument_size_in_bytes,
        "results": memory.output_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
    }


@pytest.mark.slow
@pytest.mark.parametrize("by_kernels", [True, False])
def test_each_device_does_and_holds_the_same(by_kernels: bool) -> None:
    """Weak scaling, read from compiled programs: XLA counts the operations of what is not a
    kernel."""
    if len(jax.devices("cpu")) < 2:
        pytest.skip("needs several devices; tests/conftest.py asks XLA for them")
    pendulum = robots.load("double_pendulum")
    costs = []

    def accelerations(state):
        return artix.forward_dynamics(pendulum, state, state.joint_velocity)

    for devices in (1, 2):

        def of_batch(
            states,
        ):  # a new function each time, since JAX would remember how the first was evaluated
            # Without kernels, a step takes as many Newton steps on all devices as the slowest robot
            # needs.
            one = (
                (lambda state: artix.step(pendulum, state, None, 0.01))
                if by_kernels
                else accelerations
            )
            return jax.vmap(one)(states), jax.vmap(
                lambda state: artix.mass_matrix(pendulum, state)
            )(states)

        with artix.use_kernels(by_kernels):
            compiled = (
                jax.jit(of_batch).lower(types_of_states(pendulum, 64 * devices, devices)).compile()
            )
        assert not COLLECTIVE.search(compiled.as_text())
        costs.append(cost(compiled))
    assert costs[0] == costs[1]
    # Poses, velocities and two joints' positions and velocities
    assert costs[0]["arguments"] == 64 * 17 * 8
    if not by_kernels:
        assert costs[0]["operations"] > 64 * 100


@pytest.mark.parametrize("donated", [True, False])
def test_donation_saves_a_copy_of_the_states(donated: bool) -> None:
    """A rollout holds the states that it reads and those that it writes; the caller's own too
    unless they are donated."""
    pendulum = robots.load("double_pendulum")

    def advance(states):
        def after(states, _):
            return jax.vmap(lambda one: artix.step(pendulum, one, None, 0.01))(states), None

        return jax.lax.scan(after, states, None, length=50)[0]

    types = types_of_states(pendulum, 100_000, 1)
    memory = (
        jax.jit(advance, donate_argnums=(0,) if donated else ())
        .lower(types)
        .compile()
        .memory_analysis()
    )
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    copies = (held - memory.alias_size_in_bytes) / memory.argument_size_in_bytes
    assert copies == pytest.approx(2 if donated else 3, abs=0.01)


def test_shardings_that_do_not_fit_are_refused() -> None:
    if len(jax.devices("cpu")) < 2:
        pytest.skip("needs several devices; tests/conftest.py asks XLA for them")
    mesh = Mesh(np.array(jax.devices("cpu")[:2]), ("robots",))
    split = NamedSharding(mesh, PartitionSpec("robots"))
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    with pytest.raises(
        ValueError, match=r"3 members cannot be divided equally.*'robots': 2.*add members"
    ):
        artix.Fleet([cart, pendulum, cart]).shard(split)
    with pytest.raises(ValueError, match="3 members cannot be divided equally"):
        artix.Fleet([cart] * 3).shard(split)
    with pytest.raises(TypeError, match=r"expected a sharding, found Mesh; give .*NamedSharding"):
        artix.Fleet([cart] * 2).shard(mesh)
    with pytest.raises(ValueError, match="would hold different kinds"):
        artix.Fleet([cart, cart, pendulum, pendulum]).shard(split)
    for all_members in (
        NamedSharding(mesh, PartitionSpec()),
        jax.sharding.SingleDeviceSharding(mesh.devices[1]),
    ):
        fleet = artix.Fleet([cart, pendulum]).shard(all_members)
        assert fleet.neutral_state().joint_position.sharding == all_members


def test_fleets_of_one_kind_stay_on_their_devices() -> None:
    """Masses that differ lie with their members; what all share is a constant everywhere."""
    if len(jax.devices("cpu")) < 2:
        pytest.skip("needs several devices; tests/conftest.py asks XLA for them")
    mesh = Mesh(np.array(jax.devices("cpu")[:2]), ("robots",))
    split = NamedSharding(mesh, PartitionSpec("robots"))
    pendulum = robots.load("double_pendulum")
    fleet = artix.Fleet(
        [pendulum.replace(link_mass=scale * pendulum.link_mass) for scale in (1.0, 2.0, 3.0, 4.0)]
    )
    force = fleet.shard(split).evaluate(
        artix.gravity_compensation, fleet.shard(split).neutral_state()
    )
    assert force.sharding.is_equivalent_to(split, 2)
    tilted = fleet.neutral_state().replace(joint_position=jnp.full((4, 2), 0.3))
    found = fleet.shard(split).evaluate(artix.gravity_compensation, jax.device_put(tilted, split))
    np.testing.assert_allclose(found, jnp.arange(1.0, 5.0)[:, None] * found[0], rtol=1e-12)


@pytest.mark.slow
def test_meshes_of_explicit_axes() -> None:
    """Those of ``jax.make_mesh``, which JAX asks to know where each array lies: numbers and random
    keys, too."""
    if len(jax.devices("cpu")) < 2:
        pytest.skip("needs several devices; tests/conftest.py asks XLA for them")
    kind = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((2,), ("robots",), kind, devices=jax.devices("cpu")[:2])
    split = NamedSharding(mesh, PartitionSpec("robots"))
    fleet = artix.Fleet([robots.load("cart_pole"), robots.load("double_pendulum")] * 2)
    state = fleet.shard(split).random_state(jax.random.key(0))
    wanted = fleet.evaluate(artix.step, fleet.random_state(jax.random.key(0)), None, 0.01)

    def advance(state, dt):
        return fleet.shard(split).evaluate(artix.step, state, None, dt)

    for found in (advance(state, 0.01), jax.jit(advance)(state, 0.01)):
        assert found.joint_position.sharding.is_equivalent_to(split, 2)
        for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(leaf, other, atol=1e-12)
