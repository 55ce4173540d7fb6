"""Distances between shapes, against MuJoCo."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import Geometry
from tests.support.marks import slow_besides

SHAPES = {
    "sphere": (Geometry.sphere(0.2), 'type="sphere" size="0.2"'),
    "capsule": (Geometry.capsule(0.1, 0.4), 'type="capsule" size="0.1 0.4"'),
    "cylinder": (Geometry.cylinder(0.15, 0.25), 'type="cylinder" size="0.15 0.25"'),
    "box": (Geometry.box((0.3, 0.2, 0.1)), 'type="box" size="0.3 0.2 0.1"'),
}
PAIRS = [
    ("sphere", "sphere"),
    ("sphere", "capsule"),
    ("capsule", "capsule"),
    ("sphere", "box"),
    ("box", "capsule"),
]


def two_shapes(a: Geometry, b: Geometry) -> artix.Articulation:
    """A free link with a shape and one that slides along x, y and z and turns about all axes of
    it."""
    builder = artix.ArticulationBuilder(fixed_base=False, name="pair")
    parent = builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1), name="first")
    for k, axis in enumerate((artix.Axis.X, artix.Axis.Y, artix.Axis.Z)):
        joint = artix.Joint.prismatic(axis)
        parent = builder.add_link(
            parent, joint, mass=0.1, inertia=(0.1, 0.1, 0.1), name=f"slide_{k}"
        )
    builder.add_link(
        parent, artix.Joint.spherical(), mass=1.0, inertia=(0.1, 0.1, 0.1), name="second"
    )
    builder.add_geometry("first", a, name="a")
    builder.add_geometry("second", b, name="b")
    return builder.build("float64")


@pytest.mark.parametrize(
    "kinds",
    slow_besides([("capsule", "capsule"), ("sphere", "box"), ("box", "capsule")], PAIRS),
    ids="-".join,
)
def test_distances_are_those_of_mujoco(kinds: tuple[str, str]) -> None:
    """Apart and in touch; where the middle line of a capsule enters a box, both say that they
    penetrate."""
    robot = two_shapes(*(SHAPES[kind][0] for kind in kinds))
    bodies = "".join(
        f'<body name="{n}" mocap="true"><geom {SHAPES[k][1]}/></body>' for n, k in enumerate(kinds)
    )
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(1), 300)
    )
    reach = jnp.array([0.9, 0.9, 0.9, 0, 0, 0]) * jax.random.uniform(
        jax.random.key(2), (300, 6), minval=-1
    )
    states = states.replace(joint_position=states.joint_position.at[:, :3].set(reach[:, :3]))
    found = jax.vmap(lambda s: artix.geometry_pair_distances(robot, s, (("a", "b"),)))(states)
    frames = jax.vmap(lambda s: artix.frame_pose(robot, s))(states)
    compared = 0
    for k in range(300):
        for body, link in enumerate((0, -1)):
            pose = np.asarray(frames[k, link])
            data.mocap_pos[body], data.mocap_quat[body] = pose[:3], pose[[6, 3, 4, 5]]
        mujoco.mj_forward(model, data)
        ends = np.zeros(6)
        wanted = mujoco.mj_geomDistance(model, data, 0, 1, 10.0, ends)
        distance = float(found.distance[k, 0])
        if "box" in kinds and distance < (-0.2 if "sphere" in kinds else -0.1) + 1e-3:
            assert wanted < -0.05 or enters(data, model)  # MuJoCo misses a few: two of 3,000.
            continue
        compared += 1
        np.testing.assert_allclose(distance, wanted, atol=1e-6)
        if abs(wanted) > 1e-2 and kinds != ("capsule", "capsule"):
            np.testing.assert_allclose(found.point[k, 0], 0.5 * (ends[:3] + ends[3:]), atol=1e-4)
            np.testing.assert_allclose(
                found.normal[k, 0], (ends[:3] - ends[3:]) / wanted, atol=1e-4
            )
    assert compared > 200


def enters(data: mujoco.MjData, model: mujoco.MjModel) -> bool:
    """Whether the middle line of a capsule, the second shape, passes through a box, the first."""
    line = (
        data.geom_xpos[1]
        + np.linspace(-1, 1, 2001)[:, None] * model.geom_size[1, 1] * data.geom_xmat[1, 2::3]
    )
    inside = (
        np.abs((line - data.geom_xpos[0]) @ data.geom_xmat[0].reshape(3, 3)) <= model.geom_size[0]
    )
    return model.geom_type[1] == mujoco.mjtGeom.mjGEOM_CAPSULE and bool(inside.all(axis=1).any())


@pytest.mark.slow
def test_derivatives_of_distances() -> None:
    """Against differences; finite where two centres are at the same place."""
    robot = two_shapes(SHAPES["capsule"][0], SHAPES["box"][0])
    state = artix.random_state(robot, jax.random.key(3))
    place = state.joint_position.at[:3].set(jnp.array([0.7, 0.5, -0.4]))

    def gap(q):
        return artix.geometry_pair_distances(
            robot, state.replace(joint_position=q), (("a", "b"),)
        ).distance[0]

    step = 1e-6 * jnp.eye(6)
    near = jax.vmap(gap)(jnp.concatenate([place + step, place - step]))
    np.testing.assert_allclose(jax.grad(gap)(place), (near[:6] - near[6:]) / 2e-6, atol=1e-8)
    balls = two_shapes(SHAPES["sphere"][0], SHAPES["sphere"][0])
    at_rest = artix.neutral_state(balls)

    def depth(q):
        found = artix.geometry_pair_distances(
            balls, at_rest.replace(joint_position=q), (("a", "b"),)
        )
        return found.distance[0]

    value, slope = jax.value_and_grad(depth)(at_rest.joint_position)
    np.testing.assert_allclose(value, -0.4)
    assert np.all(np.isfinite(slope))


@pytest.mark.slow
def test_distances_of_boxes() -> None:
    """Those of MuJoCo, but for the preference of faces; where they overlap, a way out."""
    robot = two_shapes(SHAPES["box"][0], Geometry.box((0.1, 0.25, 0.15)))
    bodies = "".join(
        f'<body mocap="true"><geom type="box" size="{size}"/></body>'
        for size in ("0.3 0.2 0.1", "0.1 0.25 0.15")
    )
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(1), 300)
    )
    reach = 0.9 * jax.random.uniform(jax.random.key(2), (300, 3), minval=-1)
    states = states.replace(joint_position=states.joint_position.at[:, :3].set(reach))
    gaps = jax.vmap(lambda s: artix.geometry_pair_distances(robot, s, (("a", "b"),)).distance)(
        states
    )
    frames = np.asarray(jax.vmap(lambda s: artix.frame_pose(robot, s))(states))
    wanted = np.zeros(300)
    for k in range(300):
        for body, link in enumerate((0, -1)):
            pose = frames[k, link]
            data.mocap_pos[body], data.mocap_quat[body] = pose[:3], pose[[6, 3, 4, 5]]
        mujoco.mj_forward(model, data)
        wanted[k] = mujoco.mj_geomDistance(model, data, 0, 1, 10.0, np.zeros(6))
    errors, is_apart = np.asarray(gaps[:, 0]) - wanted, wanted > 1e-6
    assert np.sum(is_apart) > 150
    assert np.max(np.abs(errors[is_apart])) < 1e-4
    assert np.quantile(np.abs(errors[is_apart]), 0.9) < 1e-6
    np.testing.assert_array_equal(gaps[:, 0] > 0, is_apart)


def test_refusals() -> None:
    line = Geometry.hull(np.array([(0.0, 0.0, 0.0), (0.1, 0.0, 0.0)]))
    robot = two_shapes(SHAPES["box"][0], line)
    state = artix.neutral_state(robot)
    with pytest.raises(ValueError, match="'b' is a hull whose points are on a line"):
        artix.geometry_pair_distances(robot, state, (("a", "b"),))
    with pytest.raises(ValueError, match="'a' and 'a' do not move relative to each other"):
        artix.geometry_pair_distances(robot, state, (("a", "a"),))
    with pytest.raises(ValueError, match="a pair is two names"):
        artix.geometry_pair_distances(robot, state, (("a", "b", "a"),))
    assert artix.geometry_pair_distances(robot, state, ()).distance.shape == (0,)


def test_obstacles_are_like_shapes_of_a_fixed_link() -> None:
    """Also where they move, and for a base that floats; what cannot be is refused by name."""
    arm = artix.robots.load("arm7")
    builder = artix.builder_from_articulation(arm)
    builder.add_geometry("hand", Geometry.capsule(0.03, 0.1), name="palm")
    pose = np.array([0.4, 0.3, 0.5, 0.6, 0.0, 0.0, 0.8])
    wall = Geometry.box((0.1, 0.2, 0.3), pose=pose)
    builder.add_geometry("base", wall, name="built_in")
    arm = builder.build("float64")
    state = artix.random_state(arm, jax.random.key(0))
    wanted = artix.geometry_pair_distances(arm, state, [("palm", "built_in")])
    elsewhere = Geometry.box((0.1, 0.2, 0.3))
    for obstacles, poses in (
        ({"wall": wall}, None),
        ({"wall": elsewhere}, {"wall": jnp.asarray(pose)}),
    ):
        found = artix.geometry_pair_distances(
            arm, state, [("palm", "wall")], obstacles=obstacles, obstacle_poses=poses
        )
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
    with pytest.raises(ValueError, match="do not move relative to each other"):
        artix.geometry_pair_distances(arm, state, [("built_in", "wall")], obstacles={"wall": wall})
    with pytest.raises(ValueError, match="'palm' is the name of a shape"):
        artix.geometry_pair_distances(arm, state, [("palm", "palm")], obstacles={"palm": wall})
    with pytest.raises(KeyError, match="there is no obstacle 'door'; choose from: wall"):
        artix.geometry_pair_distances(
            arm,
            state,
            [("palm", "wall")],
            obstacles={"wall": wall},
            obstacle_poses={"door": jnp.asarray(pose)},
        )
