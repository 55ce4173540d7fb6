"""Every model that gymnasium, dm_control and mujoco-mjx ship, against MuJoCo itself in float64."""

from __future__ import annotations

import dataclasses
import importlib.util
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import artix
from artix import DescriptionWarning, Fleet
from artix.io.mjcf.reader import load_mjcf_all
from artix.io.mjcf.source import SKIPPABLE, MjcfNames
from tests.support.mujoco_oracle import (
    SITE_PACKAGES,
    Entries,
    mujoco,
    quantities,
    random_coordinates,
)

FOLDERS = {
    "gymnasium": "gymnasium/envs/mujoco/assets",
    "dm_control": "dm_control/suite",
    "mjx": "mujoco/mjx/test_data",
}
NUM_STATES = 20


def files(package: str) -> dict[str, Path]:
    root = SITE_PACKAGES / FOLDERS[package]
    return {
        str(path.relative_to(root)): path
        for path in sorted(root.rglob("*.xml"))
        if path.parent.name != "common"
    }


def evaluate(articulation, state):
    mass = artix.mass_matrix(articulation, state, armature=True)
    return mass, artix.bias_force(articulation, state), artix.frame_pose(articulation, state)


def agree(found, expected, what: str) -> None:
    size = max(np.abs(expected).max(initial=0.0), 1e-3)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10 * size, err_msg=what)


def check(models: dict[str, Path]) -> None:
    """Mass matrix, bias and poses of all articulations of the models at random states."""
    cases = []
    for name, path in models.items():
        model = mujoco.MjModel.from_xml_path(str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DescriptionWarning)
            articulations = load_mjcf_all(path, skip="all")
        names = MjcfNames.of(model)
        cases += [(f"{name}: {root}", model, names, one) for root, one in articulations.items()]
        assert sum(one.topology.nv for one in articulations.values()) == model.nv
    rng, states, expected = np.random.default_rng(0), [], []
    for _, model, names, one in cases:
        entries = Entries(model, one, names.joints, names.bodies)
        for _ in range(NUM_STATES):
            qpos, qvel = random_coordinates(model, rng)
            states.append(entries.state(qpos, qvel))
            expected.append(quantities(entries, qpos, qvel))
    robots = [without_couplings(one) for *_, one in cases]
    fleet = Fleet([robot for robot in robots for _ in range(NUM_STATES)])
    found = jax.tree.map(np.asarray, fleet.evaluate_kinds(evaluate, fleet.stack_states(states)))
    for members, (mass, bias, poses) in zip(fleet.kinds, found, strict=True):
        for row, member in enumerate(members.tolist()):
            (label, *_, one), oracle = cases[member // NUM_STATES], expected[member]
            agree(mass[row], oracle.mass_matrix, f"{label} mass matrix")
            agree(bias[row], oracle.bias_force, f"{label} bias force")
            for link, body in enumerate(one.topology.link_names):
                if body in oracle.poses:
                    pose, other = np.asarray(poses[row, link]), oracle.poses[body]
                    other[3:] *= np.sign(other[3:] @ pose[3:])
                    agree(pose, other, f"{label} pose of {body}")


def without_couplings(articulation):
    """The articulation without tendons and loop joints, on which none of the quantities here
    depends."""
    bare = dataclasses.replace(
        articulation.topology, fixed_tendons=(), spatial_tendons=(), loop_joints=()
    )
    empty = artix.ArticulationBuilder()
    empty.add_link(mass=1.0)
    nothing = empty.build(articulation.dtype)
    groups = {
        name: getattr(nothing, name) for name in ("fixed_tendons", "spatial_tendons", "loop_joints")
    }
    return articulation.replace(topology=bare, **groups)


#: Not compiled by MuJoCo 4 itself: kept to see that artix says so.
UNCOMPILED = {"actuator/arm26.xml", "constraints.xml"}

#: The humanoids of mjx again, two to ten of them in one world.
CROWDS = [f"humanoid/{count:02}_humanoids.xml" for count in range(3, 11)]

#: Tendons with armature are part of MuJoCo's mass matrix, which no articulation can hold.
TENDON_ARMATURE = {"tendon/armature.xml"}


@pytest.mark.slow
def test_models_of_gymnasium():
    models = files("gymnasium")
    assert len(models) == 14
    check(models)


@pytest.mark.exhaustive
def test_models_of_dm_control():
    pytest.importorskip(
        "dm_control", reason="dm_control is not installed (it has no wheels for Python 3.13)"
    )
    models = files("dm_control")
    assert len(models) == 19
    check(models)


@pytest.mark.slow
def test_models_of_mjx():
    models = files("mjx")
    assert UNCOMPILED | TENDON_ARMATURE | set(CROWDS) <= set(models)
    check(
        {
            name: path
            for name, path in models.items()
            if name not in {*UNCOMPILED, *TENDON_ARMATURE, *CROWDS}
        }
    )


@pytest.mark.slow
def test_models_of_mjlab():
    """Unitree's G1 and Go1 among them; the package is large and only its files are needed."""
    package = importlib.util.find_spec("mjlab")
    if package is None or package.origin is None:
        pytest.skip("mjlab (pip install --no-deps mjlab) is not installed")
    root = Path(package.origin).parent
    check(
        {
            str(path.relative_to(root)): path
            for path in sorted(root.rglob("*.xml"))
            if path.name != "scene.xml"
        }
    )


@pytest.mark.slow
def test_what_strict_refuses_without_skip():
    """The table of docs/formats.md."""
    expected = {
        "gymnasium": {"swimmer.xml": {"fluid"}},
        "dm_control": {
            "dog.xml": {"actuator"},
            "fish.xml": {"fluid", "actuator"},
            "quadruped.xml": {"equality", "actuator"},
            "swimmer.xml": {"fluid"},
        },
    }
    for package, refused in expected.items():
        for name, path in files(package).items():
            assert not any(issue.severity == "error" for issue in artix.check_mjcf(path))
            errors = [
                issue for issue in artix.check_mjcf(path, strict=True) if issue.severity == "error"
            ]
            kinds = {
                kind for issue in errors for kind in SKIPPABLE if f"skip=({kind!r},)" in issue.fix
            }
            assert kinds == refused.get(name, set()), name
            assert bool(errors) == bool(kinds)
