"""Falls from random states: finite, without energy from nowhere, and what is not solved is
reported."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from benchmarks.random_contacts import measured, scaled, scenes

#: State 5,600 of the rope with the first seed before its 84th step: one ball touches the ground.
ROPE = Path(__file__).parents[1] / "data" / "rope_touches.npz"


@pytest.mark.slow
def test_falls_from_random_states() -> None:
    """Speeds, masses and steps over several decades; ``python -m benchmarks.random_contacts`` has
    many more."""
    found = measured(
        scenes()["quadruped"].astype("float32"), count=128, steps=50, seed=1, chunk=128
    )
    assert found["finite"].all()
    is_slow = found["angle"] < 1  # Limbs that turn further in a step may end in the ground.
    assert is_slow.sum() > 60
    assert found["gain"][is_slow].max() < 1e-5
    assert found["depth"][is_slow].max() < 1.0
    assert found["unsolved"].mean() < 0.02 * 50
    assert found["hidden"][is_slow].max() < 5e-3
    assert np.min(found["gain"]) < -0.1  # They hit the ground.


@pytest.mark.slow
def test_a_fast_turn_on_the_ground_adds_hardly_any_energy() -> None:
    """Quadrupeds that turn by radians in a step; one of these states gained 9,500 times its energy
    in its first step."""
    found = measured(
        scenes()["quadruped"].astype("float32"), count=1000, steps=2, seed=0, chunk=1000
    )
    assert found["finite"].all()
    assert (found["angle"] > 1).sum() > 150
    assert found["gain"].max() < 0.02


@pytest.mark.slow
def test_a_newton_step_too_far_is_no_solution() -> None:
    """A light rope of ball joints, whose mass matrix is ill-conditioned: once a Newton step of
    2e5 rad/s was rounded, float32 took 90 rad/s without an impulse for a solution, and the rope
    gained 2.6 times its kinetic energy."""
    with np.load(ROPE) as file:
        numbers = dict(file)
    dt, scale, impulse = (jnp.asarray(numbers.pop(name)) for name in ("dt", "scale", "impulse"))
    scene = scaled(scenes()["rope, 12 links"].astype("float32"), scale)
    (rope,) = scene.articulations
    state = artix.remember_contacts(scene, artix.neutral_state(rope))
    memory = state.contact_memory.replace(impulse=impulse)
    state = state.replace(contact_memory=memory, **{k: jnp.asarray(x) for k, x in numbers.items()})
    end, report = jax.jit(lambda state: artix.step_and_report(scene, state, None, dt))(state)

    def energies(state):
        kinetic = float(artix.kinetic_energy(rope, state, armature=True))
        return kinetic, kinetic + float(artix.potential_energy(rope, state))

    (kinetic, before), (_, after) = energies(state), energies(end)
    assert after - before < 1e-4 * kinetic
    assert report.is_solved
    assert report.velocity_residual.max < 1e-5
    assert jnp.sum(report.contacts.impulse[:, 2] > 0) == 1
