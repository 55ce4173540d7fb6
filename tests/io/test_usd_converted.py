"""Robots converted to USD by public converters equal the originals, read directly or by MuJoCo."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import artix
from artix.io.usd.reader import load_usd_with_state
from tests.support.usd_stages import CONVERTED, DATA, body_inertias

TOLERANCE = 2e-7  # Most numbers of a stage are float32.
ROBOTS = sorted(set(CONVERTED) - {"creature"})


@pytest.mark.parametrize("name", ROBOTS)
def test_robots_of_the_urdf_converter_are_those_of_the_urdf_reader(name):
    wanted, found = artix.robots.load(name, fixed_base=True), artix.load_usd(CONVERTED[name])
    assert found.topology.fixed_base
    assert set(found.topology.dof_names) == set(wanted.topology.dof_names)
    # The converter makes links without mass prims without a body.
    massive = [
        link
        for link, mass in zip(wanted.topology.link_names, wanted.link_mass, strict=True)
        if mass
    ]
    assert set(massive) == set(found.topology.link_names) - {"world"}
    ours, theirs = ([one.topology.link_index(link) for link in massive] for one in (found, wanted))
    assert np.allclose(
        found.link_mass[np.array(ours)], wanted.link_mass[np.array(theirs)], rtol=TOLERANCE
    )
    assert np.allclose(
        body_inertias(found)[ours], body_inertias(wanted)[theirs], rtol=1e-5, atol=1e-8
    )
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
    reordered = state.replace(
        joint_position=state.joint_position[order], joint_velocity=state.joint_velocity[order]
    )
    mass_matrix = jax.jit(artix.mass_matrix)
    reference = np.asarray(mass_matrix(wanted, state))[np.ix_(order, order)]
    difference = np.asarray(mass_matrix(found, reordered)) - reference
    assert np.max(np.abs(difference)) < TOLERANCE * np.max(np.abs(reference))


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_a_model_of_the_mujoco_converter_is_that_of_mujoco():
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(DATA / "creature.xml"))
    data = mujoco.MjData(model)
    articulation, start = load_usd_with_state(CONVERTED["creature"], fixed_base=True)
    assert np.allclose(start.root_pose[:3], model.qpos0[:3])
    assert np.isclose(abs(start.root_pose[3:] @ model.qpos0[[4, 5, 6, 3]]), 1.0)
    rng = np.random.default_rng(0)
    values = dict(
        zip(["hip", "shin", "yaw", "nod", "neck"], rng.uniform(-0.3, 0.3, 5), strict=True)
    )
    vector = rng.normal(size=3)
    angle = np.linalg.norm(vector)
    data.qpos[:] = model.qpos0
    for name, value in values.items():
        data.qpos[model.joint(name).qposadr] = value
    ball = model.joint("tail")
    data.qpos[ball.qposadr[0] :][:4] = np.cos(angle / 2), *(np.sin(angle / 2) * vector / angle)
    mujoco.mj_forward(model, data)
    dense = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, dense) if mujoco.mj_versionString() >= "4" else mujoco.mj_fullM(
        model, dense, data.qM
    )
    values |= {f"tail_1:{k}": vector[k] for k in range(3)}
    column = {name: model.joint(name).dofadr[0] for name in ("hip", "shin", "yaw", "nod", "neck")}
    column |= {f"tail_1:{k}": ball.dofadr[0] + k for k in range(3)}
    names = articulation.topology.dof_names
    assert set(names) == set(values)
    assert articulation.topology.link_names[-1] == "head"
    state = start.replace(joint_position=jax.numpy.array([values[name] for name in names]))
    found = np.asarray(
        jax.jit(artix.mass_matrix, static_argnames="armature")(articulation, state, armature=True)
    )
    order = [column[name] for name in names]
    assert np.allclose(found, dense[np.ix_(order, order)], atol=2e-6)
    limits = dict(zip(names, np.degrees(articulation.joint_lower_limit), strict=True))
    assert [limits[name] for name in ("hip", "yaw", "nod")] == pytest.approx([-60, -90, -30])


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_resistances_and_actuators_of_the_mujoco_converter_are_those_of_the_mjcf():
    wanted, found = artix.load_mjcf(DATA / "creature.xml"), artix.load_usd(CONVERTED["creature"])
    names = ["hip", "shin", "yaw", "nod", "neck"]
    ours, theirs = ([one.topology.dof_index(name) for name in names] for one in (found, wanted))
    pairs = [
        (getattr(found.drive, key), getattr(wanted.drive, key))
        for key in ("stiffness", "damping", "max_force")
    ]
    pairs += [(found.armature, wanted.armature), (found.friction.viscous, wanted.friction.viscous)]
    for mine, other in pairs:
        assert np.allclose(mine[np.array(ours)], other[np.array(theirs)], rtol=TOLERANCE)
    assert float(found.drive.stiffness[found.topology.dof_index("hip")]) == 40.0
