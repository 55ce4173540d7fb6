"""Trajectory optimisation: both examples converge, and their derivatives are correct and cheap."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.cli import main
from artix.examples.swing_up import rollout, step
from tests.support.models import random_states, state_at, tree_of
from tests.support.users_types import users_types


def floating_tree():
    return tree_of(["spherical_012", "revolute_swing1"], [0, 0], fixed_base=False)


def loops(program: str) -> int:
    return len(re.findall(r" while\(", program))


@pytest.mark.slow
def test_gradients_of_a_rollout_have_no_loop_but_the_scan() -> None:
    a = artix.robots.load("quadruped").astype(jnp.float32)
    state, forces = artix.neutral_state(a), jnp.zeros((4, a.topology.nv), jnp.float32)

    def one(state, force):
        return jnp.sum(artix.generalized_velocity(a, step(a, state, force, 0.01)) ** 2)

    def many(state, forces):
        return jnp.sum(rollout(a, state, forces, 0.01).joint_position ** 2)

    by_force = jax.jit(jax.grad(one, argnums=1)).lower(state, forces[0]).compile().as_text()
    assert loops(by_force) == 0
    # The scan forwards and the scan backwards; the step that is computed again is in the latter.
    assert loops(jax.jit(jax.grad(many, argnums=1)).lower(state, forces).compile().as_text()) == 2


@pytest.mark.slow
def test_gradient_of_a_rollout_by_forces_and_masses_against_differences() -> None:
    a = floating_tree()
    rng, state = np.random.default_rng(0), state_at(random_states(a, 1), 0)
    forces = jnp.asarray(rng.normal(size=(6, a.topology.nv)))

    def cost(forces, mass):
        states = rollout(a.replace(link_mass=mass), state, forces, 0.02)
        return jnp.sum(states.root_pose[-1, :3] ** 2) + jnp.sum(states.joint_velocity**2)

    evaluate, point, change = jax.jit(cost), (forces, a.link_mass), 1e-5
    gradients = jax.jit(jax.grad(cost, argnums=(0, 1)))(*point)
    for k, gradient in enumerate(gradients):
        direction = jnp.asarray(rng.normal(size=gradient.shape))
        ends = [
            evaluate(*(x + sign * change * direction if i == k else x for i, x in enumerate(point)))
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * change)
        np.testing.assert_allclose(jnp.sum(gradient * direction), slope, rtol=1e-7)


@pytest.mark.slow
def test_the_demonstration_converges_and_draws(tmp_path, capsys) -> None:
    picture = tmp_path / "trajectories.png"
    # Optax mixes the types of its counters and rates, and users have 32-bit types.
    with users_types():
        assert main(["demo", "--trajectory-optimization", "--output", str(picture)]) == 0
    out = capsys.readouterr().out
    # Tip above 95 % of full height to the end and slow, tool within 1e-2 and at rest
    assert "both converged" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_demonstration_refuses_an_output_that_cannot_be_written(tmp_path, capsys) -> None:
    missing = str(tmp_path / "missing" / "t.png")
    assert main(["demo", "--trajectory-optimization", "--output", missing]) == 1
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_result_that_did_not_arrive_fails_the_command(tmp_path, capsys, monkeypatch) -> None:
    from artix.cli import demo

    def solved(converged):
        return demo.Solved(converged, [("cost", "0")], {}, np.ones((2, 1)), 0.1)

    monkeypatch.setattr(demo, "solve_swing_up", lambda seed: solved(False))
    monkeypatch.setattr(demo, "solve_reach", lambda: solved(True))
    assert main(["demo", "--trajectory-optimization", "--output", str(tmp_path / "t.png")]) == 1
    assert "did not converge: the swing-up" in capsys.readouterr().err
