"""The points and axes of docs/conventions.md."""

import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.math import spatial


def functions_with_axes() -> dict:
    found = {name: value for name, value in vars(artix).items() if inspect.isfunction(value)}
    return {name: value for name, value in found.items() if "axes" in inspect.signature(value).parameters}


def test_world_aligned_is_the_default_of_every_function():
    defaults = {name: inspect.signature(f).parameters["axes"].default for name, f in functions_with_axes().items()}
    assert len(defaults) >= 15
    assert set(defaults.values()) == {"world_aligned"}, defaults


@pytest.fixture(scope="module")
def robot_and_state():
    robot = artix.robots.load("quadruped").astype(np.float64)
    return robot, artix.random_state(robot, jax.random.key(5))


@pytest.mark.parametrize("axes", ["world_aligned", "local", "world"])
def test_links_and_frames_agree(robot_and_state, axes):
    robot, state = robot_and_state
    acceleration = jax.random.normal(jax.random.key(1), (robot.topology.nv,), robot.dtype)
    velocity = artix.frame_velocity(robot, state, 5, axes=axes)
    np.testing.assert_allclose(artix.link_frame_velocities(robot, state, axes=axes)[5], velocity, atol=1e-12)
    for classical in (False, True):
        options = {"axes": axes, "classical": classical}
        rate = artix.frame_acceleration(robot, state, acceleration, 5, **options)
        of_links = artix.link_frame_accelerations(robot, state, acceleration, **options)[5]
        np.testing.assert_allclose(of_links, rate, atol=1e-11)


def test_velocity_of_a_point_against_differences_of_its_position(robot_and_state):
    """Every kind of axes is what the table says, by finite differences of poses in float64."""
    robot, state = robot_and_state
    nu, step = artix.generalized_velocity(robot, state), 1e-6

    def moved(sign):
        return artix.integrate(robot, state, sign * step * nu)

    def speed(function):
        return (function(moved(1)) - function(moved(-1))) / (2 * step)

    pose = artix.frame_pose(robot, state, 5)
    aligned = artix.link_frame_velocities(robot, state)[5]
    np.testing.assert_allclose(aligned[:3], speed(lambda s: artix.frame_pose(robot, s, 5)[:3]), atol=1e-8)
    center = robot.link_com_pose[5]
    of_center = speed(lambda s: artix.frame_pose(robot, s, 5, center)[:3])
    np.testing.assert_allclose(artix.link_velocities(robot, state)[5, :3], of_center, atol=1e-8)
    rotation = np.asarray(spatial.rotation_matrix(pose[3:, None])[..., 0])
    local = artix.link_frame_velocities(robot, state, axes="local")[5]
    np.testing.assert_allclose(local, np.concatenate([rotation.T @ aligned[:3], rotation.T @ aligned[3:]]), atol=1e-12)
    world = artix.link_frame_velocities(robot, state, axes="world")[5]
    np.testing.assert_allclose(world[:3], aligned[:3] + np.cross(pose[:3], aligned[3:]), atol=1e-12)


def test_the_example_of_the_conventions(robot_and_state):
    robot, state = robot_and_state
    page = (Path(__file__).parents[2] / "docs" / "conventions.md").read_text()
    example = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "of_center" in block)
    found = {"artix": artix, "jnp": jnp, "robot": robot, "state": state}
    exec(compile(example, "conventions.md", "exec"), found)
    np.testing.assert_allclose(found["of_center"], artix.link_velocities(robot, state)[5, :3], atol=1e-12)
    np.testing.assert_allclose(found["of_frame"], artix.link_frame_velocities(robot, state)[5], atol=1e-12)
