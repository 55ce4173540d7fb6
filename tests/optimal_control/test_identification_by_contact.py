"""Friction, mass and height of the ground from a recorded slide, by gradients through the laws of
contact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Geometry

STEPS, DT = 80, 0.005


def sled() -> artix.Articulation:
    builder = artix.ArticulationBuilder(name="sled")
    builder.add_link(mass=1.5, inertia=(0.01, 0.02, 0.02), name="sled")
    corners = [(x, y, -0.05) for x in (-0.2, 0.2) for y in (-0.1, 0.1)]
    builder.add_geometry("sled", Geometry.hull(corners))
    return builder.build(jnp.float64)


@pytest.mark.slow
def test_friction_mass_and_height_of_the_ground_are_found():
    """The sled falls 3 mm, slides, is pulled for a while with 6 N, and slides on: the numbers to 1
    %, from 30 % off."""
    robot = sled()
    start = artix.neutral_state(robot)
    start = start.replace(
        root_pose=start.root_pose.at[2].set(0.063), root_velocity=start.root_velocity.at[0].set(1.2)
    )
    pull = np.zeros((STEPS, 1, 6))
    pull[30:60, 0, 0] = 6.0
    controls = artix.Control(external_force=jnp.asarray(pull))

    def slide(theta):
        friction, mass, height = theta
        heavy = robot.replace(
            link_mass=robot.link_mass.at[0].set(mass),
            link_inertia=robot.link_inertia * (mass / 1.5),
        )
        plane = artix.Plane.of().replace(height=height, friction=friction)
        ground = artix.Ground((jax.tree.map(lambda x: x.astype(jnp.float64), plane),))
        return artix.rollout(artix.Scene(heavy, ground=ground), start, controls, DT).root_pose[
            :, :3
        ]

    true = jnp.array([0.35, 2.0, 0.01])
    recorded = jax.jit(slide)(true)
    error = jax.jit(lambda theta: (slide(theta) - recorded).ravel())
    slope = jax.jit(jax.jacfwd(lambda theta: slide(theta).ravel()))
    theta = true * jnp.array([1.3, 0.7, 0.7])
    for _ in range(8):
        theta = theta - jnp.linalg.lstsq(slope(theta), error(theta))[0]
    np.testing.assert_allclose(theta, true, rtol=1e-2)
