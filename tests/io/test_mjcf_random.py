"""Random MJCF models against MuJoCo's own compiled models and forces, in float64."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NamedTuple

import jax
import mujoco
import numpy as np
import pytest

import artix
from artix.contact.materials import COMBINATIONS
from artix.io.mjcf.source import MjcfNames
from tests.support.mujoco_oracle import (
    Entries,
    Quantities,
    joint_efforts,
    quantities,
    random_coordinates,
)
from tests.support.random_mjcf import BALL, SCALARS, RandomMjcf

#: Random models of each base, every day and in the slow suite.
FEW_CASES, MANY_CASES = 40, 160


class Case(NamedTuple):
    """A model as MuJoCo and artix read it, and one state of both."""

    text: str
    model: mujoco.MjModel
    data: mujoco.MjData
    robot: artix.Articulation
    ground: artix.Ground
    state: artix.State
    expected: Quantities
    said: str


def random_case(seed: int, floating: bool) -> Case:
    text = RandomMjcf(seed, floating=floating).text()
    model = mujoco.MjModel.from_xml_string(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = artix.load_mjcf(text, dtype="float64")
        ground = artix.load_world(text, dtype="float64")[0].ground
    said = "\n".join(str(one.message) for one in caught)
    names, rng = MjcfNames.of(model), np.random.default_rng(seed)
    entries = Entries(model, robot, names.joints, names.bodies)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = random_coordinates(model, rng)
    mujoco.mj_forward(model, data)
    robot = jax.tree.map(np.asarray, robot)
    state, expected = entries.state(data.qpos, data.qvel), quantities(entries, data.qpos, data.qvel)
    return Case(text, model, data, robot, ground, state, expected, said)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((count, base == "floating"), id=f"{count} {base}", marks=marks)
        for count, marks in ((FEW_CASES, ()), (MANY_CASES, pytest.mark.slow))
        for base in ("floating", "fixed")
    ],
)
def cases(request) -> list[Case]:
    count, floating = request.param
    return [random_case(seed, floating) for seed in range(count)]


def of_one_topology(robot: artix.Articulation) -> artix.Articulation:
    """The articulation without couplings and shapes, on which none of the dynamics here depends."""
    empty = artix.ArticulationBuilder()
    empty.add_link(mass=1.0)
    nothing = empty.build(robot.dtype)
    groups = ("fixed_tendons", "spatial_tendons", "loop_joints", "mimic", "geometry")
    names = (
        "fixed_tendons",
        "spatial_tendons",
        "loop_joints",
        "mimic_dofs",
        "geometries",
        "geometry_pairs",
    )
    topology = dataclasses.replace(robot.topology, **dict.fromkeys(names, ()))
    return robot.replace(
        topology=topology,
        **{name: jax.tree.map(np.asarray, getattr(nothing, name)) for name in groups},
    )


@pytest.mark.slow
def test_dynamics_are_mujocos(cases):
    """Mass matrix, bias force and poses, to 1e-10 of the largest entry; one program evaluates all
    models."""
    robots = [of_one_topology(case.robot) for case in cases]
    stacked = artix.Fleet(robots).articulation  # They differ in what they have.
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *(case.state for case in cases))

    def evaluate(robot: artix.Articulation, state: artix.State) -> tuple[Any, ...]:
        mass = artix.mass_matrix(robot, state, armature=True)
        return mass, artix.bias_force(robot, state), artix.frame_pose(robot, state)

    mass, bias, poses = jax.tree.map(np.asarray, jax.jit(jax.vmap(evaluate))(stacked, states))
    for k, case in enumerate(cases):
        links = case.robot.topology.link_names
        placed = [(link, name) for link, name in enumerate(links) if name in case.expected.poses]
        for number, name in placed:
            pose, other = poses[k, number], case.expected.poses[name]
            pose = np.concatenate([pose[:3], pose[3:] * np.sign(other[3:] @ pose[3:])])
            np.testing.assert_allclose(pose, other, atol=1e-12, err_msg=case.text)
        for found, wanted in (
            (mass[k], case.expected.mass_matrix),
            (bias[k], case.expected.bias_force),
        ):
            atol = 1e-10 * max(np.abs(wanted).max(), 1e-3)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=atol, err_msg=case.text)


def test_springs_dampers_servos_and_tendons_pull_as_in_mujoco(cases):
    """Their sum at each joint with all controls at zero, to 1e-12."""
    combined = beside = 0
    for case in cases:
        names, data = MjcfNames.of(case.model).joints, case.data
        force = data.qfrc_actuator + data.qfrc_passive - data.qfrc_gravcomp
        found = joint_efforts(case.robot, case.state)
        for joint in (*SCALARS, BALL):
            first, number = case.model.jnt_dofadr[names.index(joint)], 3 if joint == BALL else 1
            wanted = force[first : first + number]
            dofs = case.robot.topology.dofs(joint)
            np.testing.assert_allclose(
                found[dofs], wanted, rtol=1e-12, atol=1e-12, err_msg=f"{joint} of {case.text}"
            )
        combined += "combines its spring and its servo" in case.said
        beside += any(one.name.endswith("_spring") for one in case.robot.topology.fixed_tendons)
    assert min(combined, beside) > len(cases) // 20


@pytest.mark.slow
def test_controls_exert_what_mujocos_exert(cases):
    """Efforts of servos and motors together at random controls within and beyond their ranges, to
    1e-12."""
    commanded = 0
    for number, case in enumerate(cases):
        model, data, robot = case.model, mujoco.MjData(case.model), case.robot
        data.qpos[:], data.qvel[:] = case.data.qpos, case.data.qvel
        data.ctrl[:] = np.random.default_rng(number).normal(0.0, 2.0, model.nu)
        mujoco.mj_forward(model, data)
        with jax.disable_jit():  # Each model would compile its own program.
            control = artix.MujocoCoordinates(robot, model).control(data.ctrl)
        found = joint_efforts(robot, case.state, control)
        force = data.qfrc_actuator + data.qfrc_passive - data.qfrc_gravcomp
        names = MjcfNames.of(model).joints
        for joint in SCALARS:
            wanted = force[model.jnt_dofadr[names.index(joint)]]
            dofs = robot.topology.dofs(joint)
            np.testing.assert_allclose(
                found[dofs], wanted, rtol=1e-12, atol=1e-11, err_msg=f"{joint} of {case.text}"
            )
        commanded += model.nu > 0
    assert commanded > len(cases) // 2


def test_numbers_of_joints_are_those_of_the_compiled_model(cases):
    for case in cases:
        model, robot, names = case.model, case.robot, MjcfNames.of(case.model).joints
        held = {0: 1, 1: 0}
        for joint in SCALARS:
            number, dof = names.index(joint), case.robot.topology.dof_index(joint)
            address = int(model.jnt_dofadr[number])
            assert robot.armature[dof] == model.dof_armature[address]
            assert (
                robot.friction.static[dof]
                == robot.friction.dynamic[dof]
                == model.dof_frictionloss[address]
            )
            motors = [
                abs(model.actuator_gear[k, 0]) * 2.0
                for k in range(model.nu)
                if model.actuator_trnid[k, 0] == number and not model.actuator_biastype[k]
            ]
            assert robot.max_joint_force[dof] == pytest.approx(sum(motors) or np.inf), case.text
            limits = (robot.joint_lower_limit[dof], robot.joint_upper_limit[dof])
            if limits[0] == limits[1]:
                held = {0: 0, 1: 1}
            elif model.jnt_limited[number]:
                assert limits == tuple(model.jnt_range[number])
            else:
                assert limits == (-np.inf, np.inf)
        assert held[1] == sum(model.eq_obj2id[k] < 0 for k in range(model.neq))
        if model.ntendon and model.tendon_limited[0]:
            (belt,) = (
                k for k, one in enumerate(robot.topology.fixed_tendons) if one.name == "belt"
            )
            bounds = (robot.fixed_tendons.lower_limit[belt], robot.fixed_tendons.upper_limit[belt])
            assert bounds == tuple(model.tendon_range[0])


def test_equalities_err_by_as_much_as_in_mujoco(cases):
    for case in cases:
        robot, q, residuals = case.robot, case.state.joint_position, list[float]()
        for k, (follower, reference) in enumerate(robot.topology.mimic_dofs):
            residuals.append(
                q[follower] + robot.mimic.gear_ratio[k] * q[reference] + robot.mimic.offset[k]
            )
        rail = robot.topology.dof_index("rail")
        if robot.joint_lower_limit[rail] == robot.joint_upper_limit[rail]:
            residuals.append(q[rail] - robot.joint_lower_limit[rail])
        rows = case.data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
        np.testing.assert_allclose(
            residuals, case.data.efc_pos[rows], atol=1e-12, err_msg=case.text
        )


def test_the_same_geoms_touch_the_ground_with_the_same_friction(cases):
    """All of MuJoCo's contacts with the ground; margins are so wide that all that may touch
    does."""
    inexact, combinations = 0, set[str]()
    for case in cases:
        model, robot, ground = case.model, case.robot, case.ground
        planes = [
            k for k in range(model.ngeom) if model.geom_type[k] == mujoco.mjtGeom.mjGEOM_PLANE
        ]
        shapes = {shape.name: k for k, shape in enumerate(robot.topology.geometries)}
        touching = {robot.topology.geometries[k].name for k in robot.topology.touching_geometries}
        frictions: dict[tuple[str, int], list[float]] = {}
        for contact in case.data.contact:
            surface, geom = sorted(contact.geom.tolist())
            # A <pair> may be of static geoms.
            moves = model.body_weldid[model.geom_bodyid[geom]] != 0
            if surface in planes and moves:
                key = model.geom(geom).name, planes.index(surface)
                frictions.setdefault(key, []).append(
                    float(contact.friction[0]) if contact.dim > 1 else 0.0
                )
        assert touching == {name for name, _ in frictions}, case.text
        if "no rule" in case.said:
            inexact += 1
            continue
        combinations.add(ground.friction_combination)
        combine = COMBINATIONS[ground.friction_combination]
        for (name, surface), wanted in frictions.items():
            found = combine(
                robot.geometry.friction[shapes[name]], ground.surfaces[surface].friction
            )
            assert float(found) == pytest.approx(np.mean(wanted), abs=1e-12), case.text
    assert combinations == {"max", "robot", "ground"}
    assert inexact < len(cases) // 6  # An eighth of the first forty, fewer of all.
