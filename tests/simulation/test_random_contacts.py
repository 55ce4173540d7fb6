"""Falls from random states: finite, without energy from nowhere, and what is not solved is
reported."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.random_contacts import measured, scenes


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
