"""One concept of the motion of a point: which frame, which point, which axes, as
docs/conventions.md has them."""

import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.math import spatial
from tests.support.models import random_states, state_at, tree_of


def functions_with_axes() -> dict:
    found = {name: value for name, value in vars(artix).items() if inspect.isfunction(value)}
    return {
        name: value
        for name, value in found.items()
        if "axes" in inspect.signature(value).parameters
    }


def test_world_aligned_is_the_default_of_every_function():
    defaults = {
        name: inspect.signature(f).parameters["axes"].default
        for name, f in functions_with_axes().items()
    }
    of_frames = (
        "velocity",
        "acceleration",
        "jacobian",
        "jacobian_rate",
        "velocity_derivatives",
        "acceleration_derivatives",
    )
    assert {f"frame_{name}" for name in of_frames} < set(defaults)
    assert len(defaults) >= 13
    assert set(defaults.values()) == {"world_aligned"}, defaults


@pytest.fixture(scope="module")
def robot_and_state():
    robot = artix.robots.load("quadruped").astype(np.float64)
    return robot, artix.random_state(robot, jax.random.key(5))


@pytest.fixture(scope="module")
def tree_and_state():
    """A floating tree with a branch, a ball and named frames."""
    kinds = ["revolute_twist", "spherical_012", "prismatic_y", "revolute_swing1"]
    tree = tree_of(kinds, [0, 1, 1, 2], fixed_base=False, dtype="float64")
    return tree, state_at(random_states(tree, 1), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "axes",
    ["local", *(pytest.param(axes, marks=pytest.mark.slow) for axes in ("world_aligned", "world"))],
)
def test_one_frame_several_frames_and_every_link_agree(tree_and_state, axes):
    """The functions of one frame are compared with Pinocchio in tests/pinocchio."""
    tree, state = tree_and_state
    acceleration = jnp.linspace(-1, 1, tree.topology.nv, dtype=tree.dtype)
    offset = jnp.array([0.1, -0.2, 0.3, 0.0, 0.6, 0.0, 0.8], tree.dtype)

    @jax.jit
    def motions(state):
        def of(frame, offset, axes=axes):
            options = {"frame": frame, "offset": offset}
            classical = artix.frame_acceleration(
                tree, state, acceleration, **options, axes=axes, classical=True
            )
            return [
                artix.frame_pose(tree, state, **options),
                artix.frame_velocity(tree, state, **options, axes=axes),
                artix.frame_acceleration(tree, state, acceleration, **options, axes=axes),
                classical,
                artix.frame_jacobian(tree, state, **options, axes=axes),
                artix.frame_jacobian_rate(tree, state, **options, axes=axes),
                *artix.frame_velocity_derivatives(tree, state, **options, axes=axes),
                *artix.frame_acceleration_derivatives(
                    tree, state, acceleration, **options, axes=axes
                ),
                artix.frame_kinematic_hessian(tree, state, **options, axes=axes),
            ]

        every, several = of(None, "com"), of(["middle", 3], offset)
        return (every, [of(k, "com") for k in (0, 4)], [0, 4]), (
            several,
            [of(k, offset) for k in ("middle", 3)],
            [0, 1],
        )

    for together, alone, rows in motions(state):
        for values, *single in zip(together, *alone, strict=True):
            np.testing.assert_allclose(values[np.array(rows)], np.stack(single), rtol=0, atol=1e-12)


def test_indices_of_links_may_be_data(tree_and_state):
    tree, state = tree_and_state
    links = np.array([4, 2], np.int32)
    velocities = artix.frame_velocity(tree, state, links)
    np.testing.assert_allclose(
        velocities, artix.frame_velocity(tree, state)[links], rtol=0, atol=1e-14
    )


def test_the_centre_of_mass_and_a_pose_each(tree_and_state):
    tree, state = tree_and_state
    center = artix.frame_velocity(tree, state, 3, tree.link_com_pose[3])
    np.testing.assert_allclose(
        artix.frame_velocity(tree, state, 3, "com"), center, rtol=0, atol=1e-13
    )
    # "tool" is a frame of the last link, elsewhere and turned.
    of_tool, of_link = (artix.frame_pose(tree, state, frame, "com") for frame in ("tool", 4))
    np.testing.assert_allclose(of_tool[:3], of_link[:3], rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        of_tool[3:], artix.frame_pose(tree, state, "tool")[3:], rtol=0, atol=1e-13
    )
    each = artix.frame_pose(tree, state, [1, 2], tree.link_com_pose[1:3])
    np.testing.assert_allclose(
        each[1], artix.frame_pose(tree, state, 2, tree.link_com_pose[2]), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("name", ["LOCAL", "WORLD", "LOCAL_WORLD_ALIGNED"])
def test_the_axes_have_pinocchios_names_too(tree_and_state, name):
    tree, state = tree_and_state
    pinocchio = pytest.importorskip("pinocchio")
    axes = {"LOCAL": "local", "WORLD": "world", "LOCAL_WORLD_ALIGNED": "world_aligned"}[name]
    for function in (artix.frame_velocity, artix.link_momenta):
        wanted = function(tree, state, axes=axes)
        np.testing.assert_array_equal(function(tree, state, axes=name), wanted)
        np.testing.assert_array_equal(function(tree, state, axes=getattr(pinocchio, name)), wanted)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"axes": "body"},
            ValueError,
            "axes must be 'world_aligned', 'local' or 'world'; found 'body'",
        ),
        (
            {"frame": 1, "offset": "center"},
            ValueError,
            r"offset must be 'com' or a pose of shape \(7,\); found 'center'",
        ),
        (
            {"frame": []},
            ValueError,
            "frame: expected one frame or more, found none; leave it out for every link",
        ),
        (
            {"frame": np.ones((2, 2), int)},
            ValueError,
            r"frame: expected an index or a vector .* found shape \(2, 2\)",
        ),
        (
            {"frame": ["tool", "hand"]},
            KeyError,
            "no link or frame called 'hand'; choose from: link_0, .*, tool",
        ),
        (
            {"frame": [1, 5]},
            IndexError,
            "frame: there is no link 5; links are numbered from 0 to 4",
        ),
        ({"frame": 1, "offset": np.ones((1, 7))}, ValueError, r"offset: expected shape \(7,\)"),
        (
            {"frame": [1, 2], "offset": np.ones((3, 7))},
            ValueError,
            r"offset: expected shape \(2, 7\)",
        ),
    ],
)
def test_what_is_no_frame_point_or_axes_is_refused(tree_and_state, options, error, message):
    tree, state = tree_and_state
    with pytest.raises(error, match=message):
        artix.frame_velocity(tree, state, **options)


@pytest.mark.slow
def test_velocity_of_a_point_against_differences_of_its_position(robot_and_state):
    """Every kind of axes is what the table says, by finite differences of poses in float64."""
    robot, state = robot_and_state
    nu, step = artix.generalized_velocity(robot, state), 1e-6

    def moved(sign):
        return artix.integrate(robot, state, sign * step * nu)

    def speed(function):
        return (function(moved(1)) - function(moved(-1))) / (2 * step)

    pose = artix.frame_pose(robot, state, 5)
    aligned = artix.frame_velocity(robot, state)[5]
    np.testing.assert_allclose(
        aligned[:3], speed(lambda s: artix.frame_pose(robot, s, 5)[:3]), atol=1e-8
    )
    center = robot.link_com_pose[5]
    of_center = speed(lambda s: artix.frame_pose(robot, s, 5, center)[:3])
    np.testing.assert_allclose(
        artix.frame_velocity(robot, state, offset="com")[5, :3], of_center, atol=1e-8
    )
    rotation = np.asarray(spatial.rotation_matrix(pose[3:, None])[..., 0])
    local = artix.frame_velocity(robot, state, axes="local")[5]
    np.testing.assert_allclose(
        local, np.concatenate([rotation.T @ aligned[:3], rotation.T @ aligned[3:]]), atol=1e-12
    )
    world = artix.frame_velocity(robot, state, axes="world")[5]
    np.testing.assert_allclose(world[:3], aligned[:3] + np.cross(pose[:3], aligned[3:]), atol=1e-12)


def test_the_example_of_the_conventions(robot_and_state):
    robot, state = robot_and_state
    page = (Path(__file__).parents[2] / "docs" / "conventions.md").read_text()
    example = next(
        block
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "of_center" in block
    )
    found = {"artix": artix, "jnp": jnp, "robot": robot, "state": state}
    exec(compile(example, "conventions.md", "exec"), found)
    np.testing.assert_allclose(
        found["of_center"], artix.frame_velocity(robot, state, offset="com")[5, :3], atol=1e-12
    )
    np.testing.assert_allclose(found["of_frame"], artix.frame_velocity(robot, state)[5], atol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, s, frame: artix.supported_inertia(a, s, frame),
        lambda a, s, frame: artix.supported_force(a, s, jnp.zeros(a.topology.nv, a.dtype), frame),
        lambda a, s, frame: artix.subtree_center_of_mass_jacobian(a, s, frame),
        lambda a, s, frame: artix.frame_kinematic_regressor(a, s, frame),
    ],
)
def test_functions_of_one_frame_refuse_several(tree_and_state, function):
    for frames in (None, ["link_1", "link_2"], np.array([1, 2], np.int32)):
        with pytest.raises(TypeError, match=r"(frame|link): expected one name or index, found"):
            function(*tree_and_state, frames)
