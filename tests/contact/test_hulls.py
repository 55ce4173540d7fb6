"""Hulls of many points: their extreme points against all points, and how they rest against
MuJoCo."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy.spatial.transform import Rotation

import artix

BALL = np.random.default_rng(1).normal(size=(300, 3))
BALL = BALL / np.linalg.norm(BALL, axis=1, keepdims=True) * (0.1, 0.08, 0.06)
LATTICE = np.array(
    list(itertools.product(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9), (-1.0, 0.0, 1.0)))
)
PYRAMID = (
    LATTICE
    * (0.1, 0.1, 0.08)
    * np.column_stack([1 - 0.18 * LATTICE[:, 2]] * 2 + [np.ones(len(LATTICE))])
)


def body(points, **options) -> artix.Articulation:
    builder = artix.ArticulationBuilder()
    still = {"linear_damping": 0.0, "angular_damping": 0.0}
    builder.add_link(mass=1.0, inertia=(0.002, 0.003, 0.004), name="body", **still)
    builder.add_geometry("body", artix.Geometry.hull(points, friction=0.5, **options))
    return builder.build(jnp.float64)


def states_of(robot: artix.Articulation, count: int) -> artix.State:
    return jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(0), count)
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_the_lowest_point_is_among_the_extreme_ones(count: int) -> None:
    """So distances are those of all points; kernels find them, and XLA finds the same."""
    points, tilt = BALL[:count], np.array([0.28, -0.21, 0.94])
    tilt /= np.linalg.norm(tilt)
    robot, ground = body(points, radius=0.01), artix.Ground((artix.Plane.of(normal=tilt),))
    states = states_of(robot, 64)
    found = jax.jit(
        jax.vmap(
            lambda state: artix.ground_contacts(artix.Scene(robot, ground=ground), state).contacts
        )
    )(states)
    poses = np.asarray(states.root_pose)
    heights = np.array(
        [(Rotation.from_quat(pose[3:]).apply(points) + pose[:3]) @ tilt for pose in poses]
    )
    assert found.gap.shape == (64, 8)
    np.testing.assert_allclose(
        np.min(found.gap, axis=1), np.min(heights, axis=1) - 0.01, atol=1e-14
    )
    with artix.use_kernels(False):
        plain = jax.jit(
            jax.vmap(
                lambda state: (
                    artix.ground_contacts(artix.Scene(robot, ground=ground), state).contacts
                )
            )
        )(states)
    np.testing.assert_allclose(found.point, plain.point, atol=1e-13)
    one = jax.tree.map(lambda x: x[0], states)
    assert "one kernel" in str(
        artix.explain(
            lambda _, s: artix.ground_contacts(artix.Scene(robot, ground=ground), s), robot, one
        )
    )


def test_a_face_of_many_points_rests_on_its_corners() -> None:
    """A plate with 3 x 11 x 11 points: the four corners of a face are among the eight points that
    touch or nearly do."""
    grid = np.linspace(-1, 1, 11)
    points = np.array(list(itertools.product(grid, grid, (-1.0, 0.0, 1.0)))) * (0.1, 0.07, 0.01)
    robot, ground = body(points), artix.Ground.flat()
    state = artix.neutral_state(robot)
    for turn in ((0, 0, 0), (0.01, -0.02, 0.4), (np.pi + 0.02, 0.01, 1.0)):
        pose = np.concatenate([[0, 0, 0.02], Rotation.from_euler("xyz", turn).as_quat()])
        found = artix.ground_contacts(
            artix.Scene(robot, ground=ground), state.replace(root_pose=jnp.asarray(pose))
        )
        low = np.asarray(found.contacts.point)[np.asarray(found.contacts.gap) < 0.03]
        for corner in itertools.product((-0.1, 0.1), (-0.07, 0.07)):
            assert np.min(np.linalg.norm(low[:, :2] - corner, axis=1)) < 1e-12


@pytest.mark.slow
def test_single_precision_remains(dtype: np.dtype) -> None:
    """The nearest three of the eight candidates, as of a hull in both precisions."""
    robot, ground = body(PYRAMID).astype(dtype), artix.Ground.flat(dtype=dtype)
    state = artix.neutral_state(robot)
    contacts = [
        artix.ground_contacts(
            artix.Scene(robot, ground=ground, max_contacts_per_geometry=most), state
        ).contacts
        for most in (None, 3)
    ]
    assert {leaf.dtype for leaf in jax.tree.leaves(contacts)} == {np.dtype(dtype)}
    np.testing.assert_array_equal(contacts[1].gap, np.sort(contacts[0].gap)[:3])


@pytest.mark.slow
def test_hulls_rest_as_in_mujoco() -> None:
    """A truncated pyramid of 243 points falls, tilted by 0.02, onto its base and two of its sides,
    and rests there."""
    robot, ground = body(PYRAMID), artix.Ground.flat(friction=0.5)
    fall = jax.jit(
        lambda state: artix.rollout(
            artix.Scene(robot, ground=ground), state, None, 0.002, num_steps=1500
        )
    )
    for side in ([0, 0, -1.0], [1, 0, 0.225], [0, -1, 0.225]):
        normal = np.array(side) / np.linalg.norm(side)
        turn = (
            Rotation.from_rotvec([0.02, 0.01, 0])
            * Rotation.align_vectors([[0, 0, -1]], [normal])[0]
        )
        pose = np.concatenate([[0, 0, 0], turn.as_quat()])
        pose[2] = 1e-3 - np.min(turn.apply(PYRAMID)[:, 2])
        path = fall(artix.neutral_state(robot).replace(root_pose=jnp.asarray(pose)))
        end, wanted = np.asarray(path.root_pose[-1]), rest_in_mujoco(pose)
        assert end[2] == pytest.approx(np.max(PYRAMID @ normal), abs=2e-5)
        assert np.linalg.norm(path.root_velocity[-1]) < 1e-6
        assert end[2] == pytest.approx(wanted[2], abs=2e-4)  # MuJoCo's contacts are soft.
        downs = [Rotation.from_quat(one[3:]).inv().apply([0, 0, -1]) for one in (end, wanted)]
        np.testing.assert_allclose(downs, [normal] * 2, atol=2e-3)


def rest_in_mujoco(pose: np.ndarray) -> np.ndarray:
    """The pose after three seconds from this one, quaternion xyzw."""
    vertices = " ".join(f"{x:.17g}" for x in PYRAMID.ravel())
    text = f"""<mujoco><option timestep="0.002"/><asset><mesh name="m" vertex="{vertices}" inertia="legacy"/></asset>
    <worldbody><geom type="plane" size="0 0 1" friction="0.5"/><body><freejoint/>
    <inertial pos="0 0 0" mass="1" diaginertia="0.002 0.003 0.004"/>
    <geom type="mesh" mesh="m" friction="0.5" solref="0.005 1"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    # MuJoCo moves a mesh to its own centre and axes, and its geom with it.
    data.qpos[:3], data.qpos[3:] = pose[:3], pose[[6, 3, 4, 5]]
    for _ in range(1500):
        mujoco.mj_step(model, data)
    return np.concatenate([data.qpos[:3], data.qpos[[4, 5, 6, 3]]])


@pytest.mark.slow
def test_derivatives_of_extreme_points() -> None:
    """By the pose and by the points, against differences."""
    robot, ground = body(BALL[:40]), artix.Ground.flat()
    state = jax.tree.map(lambda x: x[0], states_of(robot, 1))

    def lowest(points, pose):
        moved = robot.replace(geometry=robot.geometry.replace(point=points))
        return artix.geometry_distances(
            artix.Scene(moved, ground=ground), state.replace(root_pose=pose)
        )[0]

    at = (robot.geometry.point, state.root_pose)
    check_grads(lowest, at, order=1, modes=("fwd", "rev"), atol=1e-7, rtol=1e-7, eps=1e-6)
