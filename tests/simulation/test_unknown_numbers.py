"""Numbers that are NaN: a step refuses those it knows, and does not take others for what is absent."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Ground, Plane, SolverOptions


@functools.cache
def _ball(friction: float = 0.5) -> artix.Articulation:
    builder = artix.ArticulationBuilder(name="ball")
    builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
    builder.add_geometry("ball", artix.Geometry.sphere(0.1, friction=friction), name="ball")
    return builder.build("float64")


def _landing(ball: artix.Articulation) -> artix.State:
    state = artix.neutral_state(ball)
    return state.replace(
        root_pose=state.root_pose.at[2].set(0.1), root_velocity=state.root_velocity.at[0].set(0.3)
    )


@pytest.mark.parametrize("solver", ["implicit", "pgs", "tgs"])
def test_nan_of_the_ground_is_not_an_absent_ground(solver: str) -> None:
    """With NaN as a friction or a height the ball fell through the ground, or stuck to it, with
    numbers that were finite."""
    ball, options = _ball(), SolverOptions(solver=solver)

    @jax.jit
    def land(friction, height):
        plane = Plane.of(friction=0.5).replace(friction=friction, height=height)
        end, report = artix.step_and_report(
            artix.Scene(ball, ground=Ground((plane,))), _landing(ball), None, 0.01, options
        )
        return end.root_velocity, report.is_finite

    velocity, is_finite = land(jnp.array(0.5), jnp.array(0.0))
    assert is_finite
    assert abs(velocity[2]) < 1e-5  # Falling, it would be 0.098 m/s.
    for numbers in ((jnp.nan, 0.0), (0.5, jnp.nan)):
        velocity, is_finite = land(*map(jnp.array, numbers))
        assert np.all(np.isnan(velocity)) and not is_finite


def test_a_compliance_that_is_nan_is_not_rigid() -> None:
    ball = _ball()

    @jax.jit
    def land(stiffness):
        plane = Plane.of(stiffness=1e4).replace(stiffness=stiffness)
        scene = artix.Scene(ball, ground=Ground((plane,)))
        return artix.step(scene, _landing(ball), None, 0.01).root_velocity

    assert np.all(np.isfinite(land(jnp.array(1e4))))
    assert np.all(np.isnan(land(jnp.array(jnp.nan))))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"friction": np.nan}, r"surfaces\[0\]\.friction: expected finite numbers, not negative"),
        ({"friction": -1.0}, r"surfaces\[0\]\.friction: expected finite numbers, not negative"),
        ({"restitution": 1.5}, r"surfaces\[0\]\.restitution: expected numbers from 0 to 1; found"),
        ({"stiffness": np.nan}, r"surfaces\[0\]\.stiffness: expected positive numbers"),
        ({"damping": -1.0}, r"surfaces\[0\]\.damping: expected finite numbers, not negative"),
        ({"height": np.nan}, r"surfaces\[0\]\.height: every number must be finite"),
        ({"normal": (0.0, 0.0, 2.0)}, r"surfaces\[0\]\.normal: expected a vector of length 1"),
    ],
)
def test_a_known_ground_that_is_nonsense_is_refused(numbers, message: str) -> None:
    plane = Plane.of().replace(**{name: jnp.array(value) for name, value in numbers.items()})
    with pytest.raises(ValueError, match=message):
        artix.Scene(_ball(), ground=Ground((plane,)))
    scene = artix.Scene(_ball(), ground=Ground.flat()).replace(ground=Ground((plane,)))
    with pytest.raises(ValueError, match=message):
        artix.step(scene, _landing(_ball()), None, 0.01)


def test_known_parameters_that_are_nonsense_are_refused() -> None:
    """NaN as a limit, a damping or an envelope counted as none."""
    pole = artix.robots.load("cart_pole")
    for name in ("joint_lower_limit", "max_joint_velocity", "drive.max_force"):
        lost = pole.replace(**{name: jnp.full(2, jnp.nan, pole.dtype)})
        for options in (SolverOptions(), SolverOptions(solver="pgs")):
            with pytest.raises(ValueError, match=f"articulation.{name}: every number must be fin"):
                artix.step(lost, artix.neutral_state(lost), None, 0.01, options)
    worn = _ball().replace(**{"geometry.friction": jnp.full(1, -0.5)})
    with pytest.raises(ValueError, match=r"geometry\.friction: expected .* found -0.5 at \[0\]"):
        artix.step(artix.Scene(worn, ground=Ground.flat()), _landing(worn), None, 0.01)
