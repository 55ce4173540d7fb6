"""Robots that public converters made into USD: the same as the originals, read directly or by MuJoCo."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import artix
from tests.usd_stages import CONVERTED, DATA, body_inertias

TOLERANCE = 2e-7  # Most numbers of a stage are float32.
ROBOTS = sorted(set(CONVERTED) - {"creature"})


@pytest.mark.parametrize("name", ROBOTS)
def test_robots_of_the_urdf_converter_are_those_of_the_urdf_reader(name):
    wanted, found = artix.robots.load(name, fixed_base=True), artix.load_usd(CONVERTED[name])
    assert found.topology.fixed_base
    assert set(found.topology.dof_names) == set(wanted.topology.dof_names)
    # The converter makes links without mass prims without a body.
    massive = [link for link, mass in zip(wanted.topology.link_names, wanted.link_mass, strict=True) if mass]
    assert set(massive) == set(found.topology.link_names) - {"world"}
    ours, theirs = ([one.topology.link_index(link) for link in massive] for one in (found, wanted))
    assert np.allclose(found.link_mass[np.array(ours)], wanted.link_mass[np.array(theirs)], rtol=TOLERANCE)
    assert np.allclose(body_inertias(found)[ours], body_inertias(wanted)[theirs], rtol=1e-5, atol=1e-8)
    order = np.array([wanted.topology.dof_names.index(dof) for dof in found.topology.dof_names])
    for key in ("joint_lower_limit", "joint_upper_limit", "max_joint_velocity", "armature"):
        assert np.allclose(getattr(found, key), getattr(wanted, key)[order], rtol=TOLERANCE), key
    assert np.allclose(found.friction.viscous, wanted.friction.viscous[order], rtol=TOLERANCE)
    assert np.allclose(found.friction.static, wanted.friction.static[order], rtol=TOLERANCE)


@pytest.mark.parametrize("name", ["arm7", pytest.param("humanoid", marks=pytest.mark.slow)])
def test_their_mass_matrices_are_the_same(name):
    wanted, found = artix.robots.load(name, fixed_base=True), artix.load_usd(CONVERTED[name])
    state = artix.random_state(wanted, jax.random.key(0))
    order = np.array([wanted.topology.dof_names.index(dof) for dof in found.topology.dof_names])
    reordered = state.replace(joint_position=state.joint_position[order], joint_velocity=state.joint_velocity[order])
    reference = np.asarray(artix.mass_matrix(wanted, state))[np.ix_(order, order)]
    difference = np.asarray(artix.mass_matrix(found, reordered)) - reference
    assert np.max(np.abs(difference)) < TOLERANCE * np.max(np.abs(reference))


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_a_model_of_the_mujoco_converter_is_that_of_mujoco():
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(DATA / "creature.xml"))
    data = mujoco.MjData(model)
    articulation, start = artix.load_usd_with_state(CONVERTED["creature"], fixed_base=True)
    assert np.allclose(start.root_pose[:3], model.qpos0[:3])
    assert np.isclose(abs(start.root_pose[3:] @ model.qpos0[[4, 5, 6, 3]]), 1.0)
    rng = np.random.default_rng(0)
    vector = rng.normal(size=3)
    angle = np.linalg.norm(vector)
    data.qpos[:] = model.qpos0
    # MuJoCo counts depth-first: hip, shin, then the ball joint of the tail.
    data.qpos[7:9] = 0.3, 0.05
    data.qpos[9:] = np.cos(angle / 2), *(np.sin(angle / 2) * vector / angle)
    mujoco.mj_forward(model, data)
    dense = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, dense) if mujoco.mj_versionString() >= "4" else mujoco.mj_fullM(model, dense, data.qM)
    names = articulation.topology.dof_names
    theirs = ["hip", "shin", "tail_1:0", "tail_1:1", "tail_1:2"]
    assert set(names) == set(theirs)
    values = dict(zip(theirs, [0.3, 0.05, *vector], strict=True))
    state = start.replace(joint_position=jax.numpy.array([values[name] for name in names]))
    found = np.asarray(artix.mass_matrix(articulation, state, armature=True))
    order = [6 + theirs.index(name) for name in names]
    assert np.allclose(found, dense[np.ix_(order, order)], atol=2e-6)
    assert np.allclose(articulation.joint_lower_limit[0], np.radians(-60))


def test_an_actuator_of_mujoco_is_said_not_to_be_carried():
    with pytest.warns(artix.DescriptionWarning, match="MjcActuator acts on the articulation"):
        artix.load_usd(CONVERTED["creature"])
