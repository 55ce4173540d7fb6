"""Contacts that push before they touch; three points that resist spin like a patch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Ground, SolverOptions
from tests.simulation.test_contact_steps import G, ball, placed_on

SMOOTH = SolverOptions(contact_smoothing=0.02)


@pytest.mark.slow
def test_a_ball_hovers_at_its_height() -> None:
    """``E / (m g)`` above the ground, whatever the step; and friction still makes it roll at 5/7 of
    its speed."""
    a, ground = ball("float64", friction=0.4), Ground.flat(friction=0.0).astype("float64")
    start = placed_on(a, 0.0, 0.1 + 0.5e-3)
    start = start.replace(root_velocity=start.root_velocity.at[0].set(1.4))
    for dt in (0.005, 0.002):
        end = artix.rollout(
            artix.Scene(a, ground=ground), start, None, dt, SMOOTH, num_steps=round(6 / dt)
        )
        np.testing.assert_allclose(end.root_pose[-1, 2] - 0.1, 0.02 / G, rtol=1e-9)
        np.testing.assert_allclose(end.root_velocity[-1, 0], 1.0, rtol=1e-6)


@pytest.mark.slow
def test_slopes_before_touch() -> None:
    """The force at a gap d on a ball at rest is about E/d; its derivatives by height and friction
    are differences."""
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
    wanted = [
        (smooth(zero.at[k].set(1e-6)) - smooth(zero.at[k].set(-1e-6))) / 2e-6 for k in range(2)
    ]
    np.testing.assert_allclose(slopes, np.transpose(wanted), atol=1e-7)
    assert slopes[1, 0] < -5
    np.testing.assert_allclose(force(zero, SolverOptions()), 0, atol=1e-12)


def falling_ball(height: jax.Array, options: SolverOptions) -> jax.Array:
    """The velocity [m/s] of a ball that slides and falls, after a step that starts with the gap
    ``height``."""
    a, ground = ball("float64", friction=0.4), Ground.flat(friction=0.0).astype("float64")
    state = placed_on(a, 0.0, 0.1 + height)
    state = state.replace(root_velocity=jnp.array([1.0, 0.0, -0.1, 0.0, 0.0, 0.0]))
    return artix.step(artix.Scene(a, ground=ground), state, None, 4e-3, options).root_velocity[:3]


@pytest.mark.slow
@pytest.mark.parametrize("gap", [5e-3, 2e-4])
def test_smoothing_of_derivatives_leaves_the_step_alone(gap: float) -> None:
    """The step is the hard one to the last digit, and its derivative is the smooth one, which
    becomes the hard one."""

    def slope(options: SolverOptions) -> jax.Array:
        return jax.jit(jax.jacfwd(lambda height: falling_ball(height, options)))(gap)

    smooth, hard = slope(SolverOptions(contact_smoothing=0.02)), slope(SolverOptions())
    options = SolverOptions(derivative_smoothing=0.02)
    value, pullback = jax.jit(lambda height: jax.vjp(lambda x: falling_ball(x, options), height))(
        gap
    )
    np.testing.assert_array_equal(
        value, jax.jit(lambda height: falling_ball(height, SolverOptions()))(gap)
    )
    np.testing.assert_allclose([pullback(row)[0] for row in jnp.eye(3)], smooth, rtol=1e-12)
    np.testing.assert_allclose(slope(options), smooth, rtol=1e-12)
    assert np.abs(smooth - hard).max() > 1
    np.testing.assert_allclose(slope(SolverOptions(derivative_smoothing=1e-10)), hard, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.02])
def test_slopes_of_robots_with_straight_legs(smoothing: float) -> None:
    """Reverse mode in float32, feet in the ground, at it and above it: finite and as by forward
    mode.

    Velocities that are zero but for rounding once gave infinite quotients, and gradients were NaN.
    """
    robot = artix.robots.load("quadruped").astype("float32")
    scene = artix.Scene(robot, ground=Ground.flat().astype("float32"))
    rest = artix.neutral_state(robot)
    heights = np.array([0.4399, 0.44, 0.4401, 0.46, 0.5], "float32")
    poses = jnp.broadcast_to(rest.root_pose, (5, 7)).at[:, 2].set(heights)

    def speed(pose: jax.Array, rest: artix.State, options: SolverOptions) -> jax.Array:
        return artix.step(scene, rest.replace(root_pose=pose), None, 4e-3, options).root_velocity[2]

    def values_and_slopes(differentiate, options: SolverOptions):
        function = differentiate(lambda pose, rest: speed(pose, rest, options))
        return jax.jit(jax.vmap(function, (0, None)))(poses, rest)

    options = SolverOptions(derivative_smoothing=smoothing)
    values, slopes = values_and_slopes(jax.value_and_grad, options)
    np.testing.assert_array_equal(
        values, values_and_slopes(lambda function: function, SolverOptions())
    )
    np.testing.assert_allclose(slopes, values_and_slopes(jax.jacfwd, options), atol=1e-4, rtol=1e-4)
    if smoothing:
        assert (slopes[-2:, 2] < -1e-3).all()  # In the air, where the exact derivative is zero.


@pytest.mark.slow
def test_flat_bodies_can_tilt_in_derivatives() -> None:
    """Corners of a tilted box are not quite level; that all stick must not count as forbidding it
    to tilt further."""
    builder = artix.ArticulationBuilder(fixed_base=False)
    builder.add_link(mass=0.4, inertia=(6e-4, 6e-4, 6e-4), name="box")
    builder.add_geometry(
        "box", artix.Geometry.box((0.05, 0.05, 0.05), friction=0.5, stiffness=1000.0)
    )
    a, ground = builder.build("float64"), Ground.flat(friction=0.5).astype("float64")
    sunk, tilt = 0.05 - 0.4 * G / 4000, 1e-3
    pose = jnp.array([0.0, 0.0, sunk, 0.0, np.sin(tilt / 2), 0.0, np.cos(tilt / 2)])
    state = artix.neutral_state(a).replace(root_pose=pose)
    options = SolverOptions()

    @jax.jit
    def velocity(forward):
        pushed = state.replace(root_velocity=state.root_velocity.at[0].set(forward))
        return artix.step(
            artix.Scene(a, ground=ground), pushed, None, 0.005, options
        ).root_velocity[0]

    wanted = (velocity(1e-6) - velocity(-1e-6)) / 2e-6
    assert 0.5 < wanted < 0.6
    np.testing.assert_allclose(jax.jit(jax.grad(velocity))(0.0), wanted, rtol=0.05)


@pytest.mark.parametrize("kind", ["pgs", "tgs"])
@pytest.mark.parametrize("name", ["contact_smoothing", "derivative_smoothing"])
def test_refusals(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} needs solver='implicit'"):
        SolverOptions(solver=kind, **{name: 1.0})
    with pytest.raises(ValueError, match=f"{name} must be finite and at least 0"):
        SolverOptions(**{name: -1.0})
    with pytest.raises(ValueError, match="choose one of them"):
        SolverOptions(contact_smoothing=1.0, derivative_smoothing=1.0)


@pytest.mark.slow
def test_three_points_resist_spin_as_a_disc() -> None:
    """A disc of radius R under even pressure has the torque ``2/3 mu N R``, and so have three
    points at 2/3 R."""
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
