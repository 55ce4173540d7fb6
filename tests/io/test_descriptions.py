"""The one description that readers of all formats produce: what is built from it, its state and its
ground."""

import dataclasses

import jax
import mujoco
import numpy as np
import pytest

import artix
from artix.io.common.description import ReadOptions, build, build_ground, build_state
from artix.io.mjcf.reader import load_mjcf_ground, read_mjcf
from artix.io.urdf.reader import read_urdf
from artix.io.usd.reader import read_usd

WORLD = """<mujoco><asset><hfield name="hills" nrow="2" ncol="3" size="2 1 0.3 0.1" elevation="0 1 2 3 4 5"/></asset>
<worldbody><geom type="plane" size="0 0 1" friction="0.7" pos="0 0 -1"/><geom type="hfield" hfield="hills" pos="3 0 0"/>
<body name="arm" pos="0 1 0"><joint name="swing" axis="0 1 0" ref="0.4"/><geom size="0.1" pos="0 0 0.3"/>
  <body name="fore" pos="0 0 0.5" quat="1 1 0 0"><joint name="slide" type="slide" ref="-0.2"/><geom size="0.1"/>
    <body name="hand" pos="0 0 0.5"><joint name="ball" type="ball"/><geom size="0.1" pos="0 0 0.1"/></body></body></body>
<body name="cube" pos="1 2 3" quat="1 0 2 0"><freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0 0.1 0"/></body>
</worldbody></mujoco>"""


def same(a, b):
    """Whether two trees have equal structures and arrays."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_state_of_an_mjcf_is_mujocos_at_its_reference_positions():
    report, robots = read_mjcf(WORLD, ReadOptions(dtype="float64"))
    assert report.num_errors == 0
    model = mujoco.MjModel.from_xml_string(WORLD)
    for robot in robots.values():
        state = build_state(*robot)
        expected = artix.MujocoCoordinates(robot.articulation, model).state(
            model.qpos0, np.zeros(model.nv)
        )
        for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-15)
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        poses = np.asarray(artix.frame_pose(robot.articulation, state))
        for link, name in enumerate(robot.articulation.topology.link_names):
            np.testing.assert_allclose(poses[link, :3], data.body(name).xpos, atol=1e-14)


def test_the_ground_of_an_mjcf_belongs_to_each_of_its_robots():
    _, robots = read_mjcf(WORLD, ReadOptions(ground=True))
    expected = load_mjcf_ground(WORLD)
    assert len(expected.surfaces) == 2
    for robot in robots.values():
        same(build_ground(robot.description.ground), expected)
    assert all(
        robot.description.ground is None for robot in read_mjcf(WORLD, ReadOptions())[1].values()
    )


@pytest.mark.parametrize("merge_fixed_joints", [False, True])
def test_a_description_is_all_that_the_robot_is_built_from(merge_fixed_joints, tmp_path):
    options = ReadOptions(merge_fixed_joints=merge_fixed_joints)
    path = artix.robots.path("quadruped")
    quadruped = artix.load_urdf(path, merge_fixed_joints=merge_fixed_joints)
    (urdf,) = read_urdf(path, options)[1].values()
    same(build(urdf.description), quadruped)
    artix.io.save_usd(quadruped, tmp_path / "quadruped.usda")
    (usd,) = read_usd(tmp_path / "quadruped.usda", options)[1].values()
    same(build(usd.description), usd.articulation)
    with pytest.raises(dataclasses.FrozenInstanceError):
        usd.description.name = "other"


def test_a_file_with_errors_has_no_description():
    text = '<robot name="r"><link name="a"/><link name="a"/></robot>'
    report, robots = read_urdf(text, ReadOptions())
    assert (report.num_errors, robots) == (1, {})
    two_in_one = WORLD.replace("<worldbody>", '<option density="1"/><worldbody>')
    report, robots = read_mjcf(two_in_one, ReadOptions(strict=True))
    assert (report.num_errors, robots) == (1, {})
