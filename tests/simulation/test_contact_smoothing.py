"""Contacts that push before they touch; three points that resist spin like a patch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Ground, SolverOptions
from tests.simulation.test_contact_steps import G, ball, placed_on

SMOOTH = SolverOptions(contact_smoothing=0.02, contact_iterations=4)


@pytest.mark.slow
def test_a_ball_hovers_at_its_height() -> None:
    """``E / (m g)`` above the ground, whatever the step; and friction still makes it roll at 5/7 of its speed."""
    a, ground = ball("float64", friction=0.4), Ground.flat(friction=0.0).astype("float64")
    start = placed_on(a, 0.0, 0.1 + 0.5e-3)
    start = start.replace(root_velocity=start.root_velocity.at[0].set(1.4))
    for dt in (0.005, 0.002):
        end = artix.rollout(artix.Scene(a, ground=ground), start, None, dt, SMOOTH, num_steps=round(6 / dt))
        np.testing.assert_allclose(end.root_pose[-1, 2] - 0.1, 0.02 / G, rtol=1e-9)
        np.testing.assert_allclose(end.root_velocity[-1, 0], 1.0, rtol=1e-6)


@pytest.mark.slow
def test_slopes_before_touch() -> None:
    """The force at a gap d on a ball at rest is about E/d; its derivatives by height and friction are differences."""
    a, ground = ball("float64", friction=0.4), Ground.flat(friction=0.0).astype("float64")
    state = placed_on(a, 0.0, 0.15)
    state = state.replace(root_velocity=state.root_velocity.at[:3].set(jnp.array([1.0, 0.0, 0.0])))

    def force(x, options):
        other = a.replace(geometry=a.geometry.replace(friction=a.geometry.friction + x[1]))
        raised = state.replace(root_pose=state.root_pose.at[2].add(x[0]))
        end = artix.step(artix.Scene(other, ground=ground), raised, None, 1e-3, options)
        change = (end.root_velocity - state.root_velocity) / 1e-3
        return jnp.array([change[0], change[2] + G])

    zero = jnp.zeros(2)
    smooth = jax.jit(lambda x: force(x, SMOOTH))
    # Within the step the ball falls, by its weight, a little nearer.
    np.testing.assert_allclose(smooth(zero), [-0.4 * 0.4, 0.4], rtol=1e-3)
    slopes = jax.jit(jax.jacfwd(lambda x: force(x, SMOOTH)))(zero)
    wanted = [(smooth(zero.at[k].set(1e-6)) - smooth(zero.at[k].set(-1e-6))) / 2e-6 for k in range(2)]
    np.testing.assert_allclose(slopes, np.transpose(wanted), atol=1e-7)
    assert slopes[1, 0] < -5
    np.testing.assert_allclose(force(zero, SolverOptions()), 0, atol=1e-12)


def test_flat_bodies_can_tilt_in_derivatives() -> None:
    """Corners of a tilted box are not quite level; that all stick must not count as forbidding it to tilt further."""
    builder = artix.ArticulationBuilder(fixed_base=False)
    builder.add_link(mass=0.4, inertia=(6e-4, 6e-4, 6e-4), name="box")
    builder.add_geometry("box", artix.Geometry.box((0.05, 0.05, 0.05), friction=0.5, stiffness=1000.0))
    a, ground = builder.build("float64"), Ground.flat(friction=0.5).astype("float64")
    sunk, tilt = 0.05 - 0.4 * G / 4000, 1e-3
    pose = jnp.array([0.0, 0.0, sunk, 0.0, np.sin(tilt / 2), 0.0, np.cos(tilt / 2)])
    state = artix.neutral_state(a).replace(root_pose=pose)
    options = SolverOptions(contact_iterations=4)

    @jax.jit
    def velocity(forward):
        pushed = state.replace(root_velocity=state.root_velocity.at[0].set(forward))
        return artix.step(artix.Scene(a, ground=ground), pushed, None, 0.005, options).root_velocity[0]

    wanted = (velocity(1e-6) - velocity(-1e-6)) / 2e-6
    assert 0.5 < wanted < 0.6
    np.testing.assert_allclose(jax.jit(jax.grad(velocity))(0.0), wanted, rtol=0.05)


@pytest.mark.parametrize("kind", ["pgs", "tgs"])
def test_refusals(kind: str) -> None:
    with pytest.raises(ValueError, match="contact_smoothing needs solver='implicit'"):
        SolverOptions(solver=kind, contact_smoothing=1.0)
    with pytest.raises(ValueError, match="contact_smoothing must be finite and at least 0"):
        SolverOptions(contact_smoothing=-1.0)


@pytest.mark.slow
def test_three_points_resist_spin_as_a_disc() -> None:
    """A disc of radius R under even pressure has the torque ``2/3 mu N R``, and so have three points at 2/3 R."""
    radius, friction, inertia = 0.05, 0.6, 0.004
    turns = 2 * np.pi / 3 * np.arange(3)
    patch = 2 / 3 * radius * np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=1)
    builder = artix.ArticulationBuilder(fixed_base=False, gravity=(0.0, 0.0, -G))
    builder.add_link(mass=1.0, inertia=[0.004, 0.004, inertia], name="top")
    builder.add_geometry("top", artix.Geometry.hull(patch, friction=friction))
    a, ground = builder.build("float64"), Ground.flat(friction=0.0).astype("float64")
    spinning = artix.neutral_state(a).replace(root_velocity=jnp.array([0, 0, 0, 0, 0, 8.0]))
    end = artix.rollout(artix.Scene(a, ground=ground), spinning, None, 0.001, num_steps=400)
    lost = 2 / 3 * friction * G * radius / inertia * 0.001
    rates = np.asarray(end.root_velocity[:, 5])
    np.testing.assert_allclose(rates[:100], 8.0 - lost * np.arange(1, 101), rtol=1e-6)
    assert np.max(np.abs(rates[int(8.0 / lost) + 2 :])) <= 1e-12
