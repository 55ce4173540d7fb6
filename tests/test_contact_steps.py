"""Contact with the ground in steps: against closed forms, against the laws themselves, and by finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Ground, Plane

G = 9.81


def box(dtype, half=(0.2, 0.3, 0.1), mass: float = 2.0, friction: float = 0.7, **material) -> artix.Articulation:
    """A free box that touches with its eight corners."""
    x, y, z = half
    builder = artix.ArticulationBuilder(fixed_base=False, gravity=(0.0, 0.0, -G), name="box")
    inertia = [mass / 3 * (y * y + z * z), mass / 3 * (x * x + z * z), mass / 3 * (x * x + y * y)]
    builder.add_link(mass=mass, inertia=inertia, name="box")
    builder.add_geometry("box", artix.Geometry.box(half, friction=friction, **material))
    return builder.build(dtype)


def ball(dtype, radius: float = 0.1, **material) -> artix.Articulation:
    """A free solid ball of one kilogram."""
    builder = artix.ArticulationBuilder(fixed_base=False, gravity=(0.0, 0.0, -G), name="ball")
    builder.add_link(mass=1.0, inertia=[0.4 * radius**2] * 3, name="ball")
    builder.add_geometry("ball", artix.Geometry.sphere(radius, **material))
    return builder.build(dtype)


def incline(degrees: float, dtype, friction: float = 0.0) -> Ground:
    """A plane through the origin that falls towards positive x."""
    angle = np.deg2rad(degrees)
    normal = (np.sin(angle), 0.0, np.cos(angle))
    return Ground(surfaces=(Plane.of(normal=normal, friction=friction),)).astype(dtype)


def placed_on(a: artix.Articulation, degrees: float, height: float) -> artix.State:
    """A state that lies on the incline, the root's frame this high above it."""
    angle = np.deg2rad(degrees)
    pose = [height * np.sin(angle), 0.0, height * np.cos(angle), 0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)]
    return artix.neutral_state(a).replace(root_pose=jnp.asarray(pose, a.dtype))


def downhill(degrees: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    return np.array([np.cos(angle), 0.0, -np.sin(angle)])


@pytest.mark.parametrize("degrees", [20.0, 30.0, 34.0])
def test_a_block_sticks_to_an_incline(degrees: float, dtype) -> None:
    """Below the friction angle of 35 degrees it does not even creep."""
    a, ground = box(dtype), incline(degrees, dtype)
    start = placed_on(a, degrees, 0.1)
    end = artix.rollout(a, start, None, 0.005, num_steps=200, ground=ground)
    moved = np.asarray(end.root_pose[-1, :3] - start.root_pose[:3], float)
    assert np.linalg.norm(moved) <= (1e-8 if degrees <= 30 else 1e-6)
    assert np.max(np.abs(end.root_velocity[-1])) <= (1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("degrees", [36.0, 40.0, 50.0])
def test_a_block_slides_down_an_incline(degrees: float, dtype) -> None:
    """Its velocity is ``g (sin - mu cos) t``."""
    a, ground = box(dtype), incline(degrees, dtype)
    end = artix.rollout(a, placed_on(a, degrees, 0.1), None, 0.005, num_steps=200, ground=ground)
    angle = np.deg2rad(degrees)
    wanted = G * (np.sin(angle) - 0.7 * np.cos(angle))
    np.testing.assert_allclose(np.asarray(end.root_velocity[-1, :3]) @ downhill(degrees), wanted, rtol=1e-4)
    np.testing.assert_allclose(end.root_velocity[-1, 3:], 0, atol=1e-4)


def stop(dtype, v0, mu, dt: float = 0.002, steps: int = 200):
    """How far a block slides on level ground that starts with a velocity, until it has stopped."""
    a = box(dtype)
    a = a.replace(geometry=a.geometry.replace(friction=jnp.full_like(a.geometry.friction, mu)))
    start = placed_on(a, 0.0, 0.1)
    start = start.replace(root_velocity=start.root_velocity.at[0].set(v0))
    ground = Ground.flat(friction=0.0).astype(dtype)
    return artix.rollout(a, start, None, dt, num_steps=steps, ground=ground).root_pose[-1, 0]


def test_slide_to_a_stop_and_its_derivatives() -> None:
    """``v0^2 / (2 mu g) - v0 dt / 2``: of steps of length dt, each with the velocity at its end."""
    v0, mu = jnp.float64(1.4), jnp.float64(0.5)
    run = jax.jit(jax.value_and_grad(lambda v, m: stop("float64", v, m), (0, 1)))
    distance, (by_speed, by_friction) = run(v0, mu)
    np.testing.assert_allclose(distance, v0**2 / (2 * mu * G) - v0 * 0.001, rtol=2e-3)
    np.testing.assert_allclose(by_speed, v0 / (mu * G) - 0.001, rtol=2e-3)
    np.testing.assert_allclose(by_friction, -(v0**2) / (2 * mu**2 * G), rtol=2e-3)
    h = 1e-6
    near = [(run(v0 + h, mu)[0] - run(v0 - h, mu)[0]) / (2 * h), (run(v0, mu + h)[0] - run(v0, mu - h)[0]) / (2 * h)]
    np.testing.assert_allclose([by_speed, by_friction], near, rtol=1e-8)
    forward = jax.jit(jax.jacfwd(lambda v, m: stop("float64", v, m), (0, 1)))(v0, mu)
    np.testing.assert_allclose(forward, [by_speed, by_friction], rtol=1e-10)
