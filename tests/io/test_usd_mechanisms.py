"""The mechanisms that PhysX simulated, written as USD: each must give the articulation of its
specification."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
import pytest

import artix
from artix.io.usd.reader import load_usd_with_state
from tests.support import physx_mechanisms as physx
from tests.support.usd_stages import MECHANISMS, joint_geometry, numbers, relative_error

#: Float32 numbers of the specification against float32 numbers of the stage, some by way of
#: degrees.
TOLERANCE = 1e-6

#: Compared by what they mean: a stage may turn the frames of a joint, and order couplings and
#: attachments otherwise.
FRAMES = ("joint_parent_pose", "joint_child_pose")


def expected_drives(articulation) -> dict[str, np.ndarray]:
    """The specification's drives as USD can say them: an envelope is in place of a drive's limit,
    or is that limit."""
    drive, envelope = articulation.drive, articulation.envelope
    effort, limit = np.asarray(envelope.max_effort, float), np.asarray(drive.max_force, float)
    has_rates = np.isfinite(np.asarray(envelope.max_actuator_velocity))
    return {
        "drive.max_force": np.where(
            has_rates, np.inf, np.where(np.isfinite(effort), effort, limit)
        ),
        "envelope.max_effort": np.where(has_rates, effort, np.inf),
    }


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_stage_gives_the_articulation_of_its_specification(name):
    found, wanted = artix.load_usd(MECHANISMS[name]), physx.build(name)
    skipped = {"joint_axes", "name", "mimic_dofs", "fixed_tendons", "spatial_tendons"}
    for field in dataclasses.fields(artix.Topology):
        if field.name not in skipped:
            assert getattr(found.topology, field.name) == getattr(wanted.topology, field.name), (
                field.name
            )
    assert relative_error(joint_geometry(found), joint_geometry(wanted)) < TOLERANCE
    values = numbers(wanted) | expected_drives(wanted)
    for key, value in numbers(found).items():
        if key.split(".")[0] in ("mimic", "fixed_tendons", "spatial_tendons") or key in FRAMES:
            continue
        if key == "max_link_angular_velocity":
            value = np.where(value > 1e5, np.inf, value)
        assert relative_error(value, values[key]) < TOLERANCE, key


def rows(articulation, kind: str, structure: list[tuple]) -> dict[tuple, np.ndarray]:
    """The numbers of couplings by what they couple."""
    table = np.stack(
        [np.asarray(leaf, float) for leaf in jax.tree.leaves(getattr(articulation, kind))], axis=-1
    )
    assert len(table) == len(structure)
    return dict(zip(structure, table, strict=True))


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name.startswith("f_")])
def test_mimic_joints(name):
    found, wanted = artix.load_usd(MECHANISMS[name]), physx.build(name)
    tables = [rows(one, "mimic", list(one.topology.mimic_dofs)) for one in (found, wanted)]
    assert tables[0].keys() == tables[1].keys() != set()
    for pair, row in tables[0].items():
        assert relative_error(row, tables[1][pair]) < TOLERANCE


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name.startswith("g_")])
def test_fixed_tendons(name):
    found, wanted = artix.load_usd(MECHANISMS[name]), physx.build(name)
    (one,), (other,) = found.topology.fixed_tendons, wanted.topology.fixed_tendons
    assert dataclasses.replace(one, name="") == dataclasses.replace(other, name="")
    for key, value in numbers(found.fixed_tendons).items():
        assert relative_error(value, numbers(wanted.fixed_tendons)[key]) < TOLERANCE, key


def attachments(articulation) -> dict[str, tuple]:
    """Attachments of the only tendon by name: link, name of the one above, and numbers."""
    (tendon,) = articulation.topology.spatial_tendons
    arrays = articulation.spatial_tendons
    names = tendon.attachment_names
    found = {}
    for index, name in enumerate(names):
        above = names[tendon.parents[index]] if tendon.parents[index] >= 0 else None
        scalars = (arrays.coefficient, arrays.rest_length, arrays.lower_limit, arrays.upper_limit)
        row = np.array([*arrays.position[index], *(scalar[index] for scalar in scalars)], float)
        found[name] = (tendon.links[index], above, row)
    return found


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name.startswith("h_")])
def test_spatial_tendons(name):
    found, wanted = artix.load_usd(MECHANISMS[name]), physx.build(name)
    points, references = attachments(found), attachments(wanted)
    assert points.keys() == references.keys()
    for key, (link, above, row) in points.items():
        assert (link, above) == references[key][:2]
        assert relative_error(row, references[key][2]) < TOLERANCE, key
    for key in ("stiffness", "damping", "limit_stiffness", "offset"):
        found_gain, wanted_gain = (
            np.asarray(getattr(one.spatial_tendons, key), float) for one in (found, wanted)
        )
        assert relative_error(found_gain, wanted_gain) < TOLERANCE, key


def test_the_mass_matrix_is_the_one_that_physx_computed():
    name = "d_mixed_floating"
    articulation, states = artix.load_usd(MECHANISMS[name]), physx.states(name)
    found = jax.jit(jax.vmap(lambda state: artix.mass_matrix(articulation, state)))(states)
    wanted = physx.recorded(name)["st_mass_matrix"]
    assert np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)) < 2e-6  # PhysX's float32 noise


@pytest.mark.parametrize("name", ["e_combo", "d_mixed_floating"])
def test_the_state_of_a_stage_is_that_in_which_its_bodies_are(name):
    articulation, state = load_usd_with_state(MECHANISMS[name])
    pose = np.array(physx.specification(name)["links"][0]["rest_pose"], float)
    assert np.allclose(state.root_pose, physx.unit_pose(pose), atol=1e-7)
    assert not np.any(state.joint_position)
    assert state.joint_position.shape == (articulation.topology.num_dofs,)
    assert not [
        issue
        for issue in artix.check_usd(MECHANISMS[name])
        if "degrees from the pose" in issue.message
    ]


@functools.partial(jax.jit, static_argnames="options")
def steps(articulation, states, forces, options):
    """The states after one step of 1 ms, and the joint accelerations in it."""

    def one(state, force):
        end, report = artix.step_and_report(
            articulation, state, artix.Control(joint_force=force), 1e-3, options
        )
        return end, report.joint_acceleration

    return jax.vmap(one)(states, forces)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["pgs", "tgs"])
@pytest.mark.parametrize("name", ["e_prismatic", "f_mimic_compliant", "f_mimic_hard"])
def test_a_robot_from_a_stage_steps_as_physx_recorded(name, solver):
    """Drives, friction and mimic joints act as PhysX acts on its own description of the same
    mechanism."""
    data, spec, law = (
        physx.recorded_steps(name),
        physx.specification(name),
        physx.law_errors(name)["s1"][solver],
    )
    articulation, states = artix.load_usd(MECHANISMS[name], dtype=np.float64), physx.states(name)
    options = artix.SolverOptions(
        solver=solver,
        position_iterations=32,
        velocity_iterations=1,
        drive_limits_are_forces=spec["drive_limits_are_forces"],
    )
    end, acceleration = steps(
        articulation, states, np.asarray(physx.recorded(name)["in_tau"]), options
    )
    run = spec["s1_runs"].index(solver)
    first = 1 if name == "f_mimic_hard" else 0  # its first state violates a hard relation by 0.02
    found = {"q": end.joint_position, "qd": end.joint_velocity, "qdd": acceleration}
    errors = {
        key: physx.error(value[first:], data[f"s1_{key}"][run, first:])
        for key, value in found.items()
    }
    assert {key: value for key, value in errors.items() if not value <= 3 * law[key] + 1e-6} == {}
