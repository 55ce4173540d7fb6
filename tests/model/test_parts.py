"""What a robot lacks is absent: leaves, constants in their place, costs, files, fleets, batches."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import subprocess
import sys
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.model.articulation import with_equal_parts
from artix.model.parts import GROUPS, OPTIONAL, PER_DOF, PER_LINK, REQUIRED, names_in, shapes_of


@pytest.fixture(scope="module")
def arm() -> artix.Articulation:
    return artix.robots.load("double_pendulum")


def _ones(robot: artix.Articulation) -> jax.Array:
    return jnp.ones(robot.topology.nv, robot.dtype)


FUNCTIONS = {
    "forward_dynamics": lambda robot, state: artix.forward_dynamics(robot, state, _ones(robot)),
    "step": lambda robot, state: artix.step(robot, state, None, 0.005),
    "step on the ground": lambda robot, state: artix.step(
        artix.Scene(robot, ground=artix.Ground.flat()), state, None, 0.005
    ),
}


def test_tables_name_every_field(arm) -> None:
    fields = {field.name for field in dataclasses.fields(artix.Articulation)} - {"topology"}
    names = {name for field in fields for name in names_in(field)}
    assert names == {*shapes_of(arm.topology)} == {*arm.arrays, *arm.absent}
    assert {*OPTIONAL, *REQUIRED} <= names and not REQUIRED & OPTIONAL.keys()
    assert {*GROUPS, *PER_LINK, *PER_DOF} <= fields


def test_what_is_absent_is_no_leaf_and_reads_as_constants(arm) -> None:
    assert jax.tree.structure(artix.robots.load("double_pendulum")) == jax.tree.structure(arm)
    assert len(jax.tree.leaves(arm)) == len(arm.arrays) < 15
    assert {"drive.stiffness", "friction.static", "gravity_scale", "link_cfm_scale"} <= {
        *arm.absent
    }
    assert arm.drive.stiffness.tolist() == [0, 0] and arm.drive.max_force.tolist() == [
        np.inf,
        np.inf,
    ]
    assert arm.gravity_scale.tolist() == [1, 1, 1] and arm.joint_lower_limit.tolist() == [
        -np.inf,
        -np.inf,
    ]
    assert arm.armature.dtype == arm.dtype and isinstance(arm.armature, jax.Array)
    assert arm.geometry.pose.shape == (0, 7)
    on_host = jax.tree.map(np.asarray, arm)
    assert isinstance(on_host.armature, np.ndarray) and not on_host.armature.flags.writeable
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), arm)
    assert batch.armature.shape == (2, 2) and batch.geometry.pose.shape == (2, 0, 7)
    assert jax.vmap(lambda robot: robot.armature)(batch).shape == (2, 2)


def test_a_replaced_array_is_a_part_of_the_robot(arm) -> None:
    rubbed = arm.replace(friction=arm.friction.replace(viscous=jnp.array([0.1, 0.2])))
    assert {*arm.absent} - {*rubbed.absent} == {"friction.viscous"}
    assert jax.tree.structure(rubbed.replace(friction=None)) == jax.tree.structure(arm)
    assert jax.tree.structure(rubbed.replace(friction=arm.friction)) == jax.tree.structure(arm)
    np.testing.assert_array_equal(
        arm.replace(**{"friction.viscous": 2.0 * _ones(arm)}).friction.viscous, 2.0
    )
    # Zeros that are given may be varied.
    assert "armature" not in arm.replace(armature=jnp.zeros(2)).absent
    # In a tree of axes, None is one.
    axes = jax.tree.map(lambda _: 0, arm).replace(gravity=None)
    assert axes.gravity is None and axes.armature is None and axes.link_mass == 0
    with pytest.raises(TypeError, match="there is no field 'drvie'"):
        arm.replace(drvie=None)
    with pytest.raises(TypeError, match="every robot has link_mass"):
        arm.replace(link_mass=None)
    with pytest.raises(TypeError, match="every robot has gravity, joint_child_pose"):
        artix.Articulation(arm.topology, link_mass=arm.link_mass)
    with pytest.raises(ValueError, match=r"articulation.drive.stiffness: expected shape \(2,\)"):
        artix.mass_matrix(arm.replace(**{"drive.stiffness": jnp.ones(3)}), artix.neutral_state(arm))


@pytest.mark.parametrize("robot", ["double_pendulum", "quadruped"])
def test_constants_are_the_zeros_that_were_there(robot: str) -> None:
    """A robot whose absent parts are arrays of zeros and infinite limits has the same results."""
    lean = artix.robots.load(robot)
    (whole,) = with_equal_parts([lean], lean.absent)
    assert whole.absent == () and len(jax.tree.leaves(whole)) > 60
    state = artix.random_state(lean, jax.random.key(0))
    for known in (lean, whole):
        ours = jax.jit(
            lambda state, known=known: artix.forward_dynamics(known, state, _ones(lean))
        )(state)
        np.testing.assert_array_equal(
            ours, jax.jit(lambda state: FUNCTIONS["forward_dynamics"](whole, state))(state)
        )


@pytest.mark.slow
def test_a_derivative_does_not_pretend_to_know_what_the_robot_lacks(arm) -> None:
    state = artix.neutral_state(arm)
    slope = jax.grad(lambda robot: artix.step(robot, state, None, 0.01).joint_velocity.sum())(arm)
    assert jnp.isfinite(slope.link_mass).all()
    assert (
        slope.armature is None
        and slope.friction.viscous is None
        and slope.joint_lower_limit is None
    )
    given = arm.replace(armature=jnp.zeros(2))
    slope = jax.grad(lambda robot: artix.inverse_dynamics(robot, state, _ones(robot)).sum())(given)
    np.testing.assert_array_equal(slope.armature, 1.0)


@pytest.mark.slow
def test_derivatives_by_a_part_that_was_given() -> None:
    """Of dampers that are zero, against differences."""
    arm = artix.robots.load("double_pendulum").astype("float64")
    state = artix.random_state(arm, jax.random.key(1))

    def speed(viscous):
        robot = arm.replace(friction=arm.friction.replace(viscous=viscous))
        return artix.step(robot, state, None, 0.01).joint_velocity.sum()

    zero, step = jnp.zeros(2), 1e-6
    slope = jax.grad(speed)(zero)
    wanted = [
        (speed(zero.at[k].set(step)) - speed(zero.at[k].set(-step))) / (2 * step) for k in range(2)
    ]
    assert abs(slope).min() > 1e-4
    np.testing.assert_allclose(slope, wanted, rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("forward_dynamics", 1.1),
        pytest.param("step", 1.05, marks=pytest.mark.slow),
        pytest.param("step on the ground", 1.05, marks=pytest.mark.slow),
    ],
)
def test_a_robot_as_an_argument_costs_what_it_has(name: str, most: float) -> None:
    """Operations of a robot whose every parameter varies, as multiples of a known one's."""
    robot = artix.robots.load("quadruped")
    kept = artix.keep_zeros(robot)
    state = artix.neutral_state(robot)
    (known,) = artix.explain(FUNCTIONS[name], robot, state).operations
    (varied,) = artix.explain(
        lambda _, varied, state: FUNCTIONS[name](varied, state), robot, kept, state
    ).operations
    assert sum(known.operations) < sum(varied.operations) < most * sum(known.operations)


def test_robots_are_copied_and_pickled(arm) -> None:
    for robot in (arm, artix.keep_zeros(arm)):
        for again in (
            pickle.loads(pickle.dumps(robot)),
            copy.deepcopy(robot),
            dataclasses.replace(robot),
        ):
            assert again.absent == robot.absent
            np.testing.assert_array_equal(again.joint_parent_pose, robot.joint_parent_pose)
    with pytest.raises(AttributeError, match="no attribute 'mass'"):
        arm.mass  # noqa: B018
    with pytest.raises(dataclasses.FrozenInstanceError):
        arm.link_mass = jnp.zeros(3)


@pytest.mark.slow
def test_a_robot_from_another_process_has_an_equal_topology() -> None:
    """Python hashes names by a seed of the process; a worker compiled for the robot it was sent
    once more, and did not find it among its own."""
    topology = artix.robots.load("double_pendulum").topology
    hash(topology)
    received = f"""
import pickle
import artix
topology = pickle.loads({pickle.dumps(topology)!r})
mine = artix.robots.load("double_pendulum").topology
assert topology == mine and {{mine: 0}}[topology] == 0
"""
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", received],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu"},
        )


@pytest.mark.slow
def test_members_of_a_fleet_may_lack_what_others_have(arm) -> None:
    damped = arm.replace(friction=arm.friction.replace(viscous=jnp.array([0.3, 0.3])))
    fleet = artix.Fleet([arm, damped, arm])
    assert len(fleet.kinds) == 1 and "friction.viscous" not in fleet.articulation.absent
    assert fleet.articulation.friction.viscous[:, 0].tolist() == pytest.approx([0, 0.3, 0])
    states = fleet.random_state(jax.random.key(0))
    ends = fleet.evaluate(artix.step, states, None, 0.01)
    for member, robot in enumerate((arm, damped, arm)):
        wanted = artix.step(robot, fleet.member_state(states, member), None, 0.01)
        np.testing.assert_allclose(
            ends.joint_velocity[member], wanted.joint_velocity, rtol=1e-5, atol=1e-6
        )


def test_surgery_adds_no_parts(arm) -> None:
    both = artix.attach_articulation(artix.robots.load("arm7"), "tool", arm, prefix="load_")
    assert {*both.absent} == {*artix.robots.load("arm7").absent} & {*arm.absent}
    locked = artix.lock_joints(arm, artix.neutral_state(arm), ["elbow"])
    assert {*arm.absent} <= {*locked.absent}


def test_archives_keep_what_is_absent(arm, tmp_path) -> None:
    path, old = tmp_path / "new.npz", tmp_path / "old.npz"
    robot = arm.replace(armature=jnp.zeros(2))  # To be varied.
    artix.save(robot, path)
    assert jax.tree.structure(artix.load(path)) == jax.tree.structure(robot)
    kept = artix.load(path, keep_zeros=True)
    assert jax.tree.structure(kept) == jax.tree.structure(artix.keep_zeros(robot))
    _with_header(path, old, lambda header: header.pop("absent"))
    assert jax.tree.structure(artix.load(old)) == jax.tree.structure(arm)
    _with_header(path, old, lambda header: header["absent"].append("link_mass"))
    with pytest.raises(artix.DescriptionError, match="its robot lacks what has numbers: link_mass"):
        artix.load(old)


def _with_header(path, new, change) -> None:
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as after:
        for name in before.namelist():
            content = before.read(name)
            if name == "header.json":
                header = json.loads(content)
                change(header)
                content = json.dumps(header)
            after.writestr(name, content)


def test_constants_may_be_donated(arm) -> None:
    jax.jit(lambda x: x + 1, donate_argnums=0)(arm.armature)
    assert arm.armature.tolist() == [0, 0]
    simulation = artix.physx.create_simulation(arm)
    assert simulation.drive_target is not simulation.drive_target_velocity
