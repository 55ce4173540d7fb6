"""What a rollout reports: steps that diverge, and contacts that a budget leaves out."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Geometry, Ground, SolverOptions


def box(half: tuple[float, float, float], mass: float = 1.0) -> artix.Articulation:
    """A homogeneous box."""
    builder = artix.ArticulationBuilder(fixed_base=False, name="box")
    x, y, z = half
    inertia = tuple(mass / 3 * np.array([y * y + z * z, x * x + z * z, x * x + y * y]))
    builder.add_link(mass=mass, inertia=inertia, name="box")
    builder.add_geometry("box", Geometry.box(half, friction=0.5), name="box")
    return builder.build("float64")


def stacked(
    half: tuple[float, float, float], count: int
) -> tuple[artix.Scene, dict[str, artix.State]]:
    """A stack of equal boxes on the ground, from the lowest."""
    names = [f"box{k}" for k in range(count)]
    pairs = [(f"{above}/box", f"{below}/box") for below, above in itertools.pairwise(names)]
    scene = artix.Scene({name: box(half) for name in names}, pairs=pairs)
    states = scene.neutral_state()
    for k, name in enumerate(names):
        pose = states[name].root_pose.at[2].set((2 * k + 1) * half[2])
        states[name] = states[name].replace(root_pose=pose)
    return scene, states


@pytest.mark.slow
@pytest.mark.parametrize(
    "half", [(0.05, 0.05, 0.05), (0.2, 0.2, 0.005)], ids=["boxes", "thin plates"]
)
def test_no_contact_of_a_stack_is_left_out_by_default(half) -> None:
    """With eight contacts for all three pairs, the boxes sank by 4 mm in two seconds and plates
    passed each other."""
    scene, states = stacked(half, 4)
    path, report = artix.rollout(
        scene.replace(ground=Ground.flat(friction=0.5)),
        states,
        None,
        0.005,
        num_steps=200,
        with_report=True,
    )
    for k, name in enumerate(scene.names):
        assert path[name].root_pose[-1, 2] == pytest.approx((2 * k + 1) * half[2], abs=1e-8)
        assert jnp.abs(path[name].root_velocity[-100:]).max() < 1e-8
    assert report.omitted.max() == 0
    assert report.residual[-1] < 1e-8
    assert report.is_finite.all()


@pytest.mark.slow
def test_what_a_budget_leaves_out_is_counted(caplog) -> None:
    scene, states = stacked((0.05, 0.05, 0.05), 3)
    for k, name in enumerate(scene.names):  # Each is a micrometre deep in the one below.
        states[name] = states[name].replace(
            root_pose=states[name].root_pose.at[2].add(-1e-6 * (k + 1))
        )
    options = SolverOptions(max_contacts_per_geometry=4, max_link_contacts=5)
    _, report = artix.rollout(
        scene.replace(ground=Ground.flat(friction=0.5)),
        states,
        None,
        0.005,
        options,
        num_steps=3,
        with_report=True,
    )
    assert "8 points of 2 pairs of shapes may touch; the nearest 5 are contacts" in caplog.text
    assert report.omitted.shape == (3,)
    assert report.omitted[0] == 3  # of eight corners that touch at the start


def test_a_rollout_that_diverges_says_when() -> None:
    """The states are not finite from then on, and the report counts them."""
    chain = artix.robots.load("double_pendulum").astype("float64")
    start = artix.neutral_state(chain).replace(joint_velocity=jnp.array([1e160, -1e160]))
    states, report = artix.rollout(chain, start, None, 0.01, num_steps=4, with_report=True)
    is_finite = np.isfinite(np.asarray(states.joint_velocity)).all(axis=1)
    np.testing.assert_array_equal(report.is_finite, is_finite)
    assert not is_finite[-1]
    end = jax.tree.map(lambda x: x[-1], states)
    assert not jax.jit(lambda state: artix.step_and_report(chain, state, None, 0.01)[1].is_finite)(
        end
    )


@pytest.mark.parametrize("solver", ["implicit", "pgs", "tgs", "rk4"])
def test_a_report_changes_no_state(solver) -> None:
    pole = artix.robots.load("cart_pole").astype("float64")
    start = artix.neutral_state(pole).replace(joint_velocity=jnp.array([0.1, 1.0]))
    options = SolverOptions(solver=solver)
    states, report = artix.rollout(pole, start, None, 0.01, options, num_steps=5, with_report=True)
    alone = artix.rollout(pole, start, None, 0.01, options, num_steps=5)
    np.testing.assert_allclose(states.joint_position, alone.joint_position, rtol=1e-14)
    assert report.is_finite.all()
    assert report.is_solved.all()
    assert report.velocity_residual.max() < 1e-4
    assert {leaf.shape for leaf in jax.tree.leaves(report)} == {(5,)}


@pytest.mark.slow
def test_steps_that_are_not_solved_are_counted() -> None:
    """A cube falls onto an edge and tumbles. A single Newton step is not always enough; 60 are, in
    each substep."""
    cube = box((0.1, 0.1, 0.1))
    scene = artix.Scene(cube, ground=Ground.flat(friction=0.5))
    turn = jnp.array([0.0, 0.0, 0.16, 0.5, 0.1, 0.0, 1.0])
    pose = turn.at[3:].divide(jnp.linalg.norm(turn[3:]))
    spin = jnp.array([2.0, 1.0, -3.0, 3.0, 2.0, 5.0])
    start = scene.neutral_state().replace(root_pose=pose, root_velocity=spin)
    for most in (1, 60):
        options = SolverOptions(max_newton_steps=most, substeps=2)
        _, report = artix.rollout(scene, start, None, 0.01, options, num_steps=20, with_report=True)
        missed = np.asarray(~report.is_solved)
        if most == 60:
            assert not missed.any()
            assert report.velocity_residual.max() < 1e-8
        else:
            assert 1 <= missed.sum() < 20  # solved in the air
            assert report.velocity_residual[missed].max() > 1e-3
