"""``load_usd`` reads back what ``save_usd`` writes, and features that USD cannot express are
reported."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import numpy as np
import pytest
from pxr import Sdf, Usd, UsdPhysics, UsdUtils

import artix
from artix.io.usd.reader import load_usd_with_state
from tests.io.test_atomic_file import full_disk
from tests.support.models import random_tree
from tests.support.usd_stages import (
    MECHANISMS,
    body_inertias,
    joint_geometry,
    numbers,
    relative_error,
)

#: Attributes of schemas are float32; angles go through degrees.
TOLERANCE = 3e-7


def saved(articulation, path, **options):
    """What is read back, its state, and the issues of writing."""
    issues = artix.save_usd(articulation, path, **options)
    return *load_usd_with_state(path), issues


@pytest.mark.parametrize("name", MECHANISMS)
def test_reading_writing_and_reading_is_the_identity(name, tmp_path):
    wanted = artix.load_usd(MECHANISMS[name])
    found, _, issues = saved(wanted, tmp_path / f"{name}.usda")
    assert issues == []
    assert found.topology == wanted.topology
    values = numbers(wanted)
    for key, value in numbers(found).items():
        assert relative_error(value, values[key]) < TOLERANCE, key
    assert [
        issue
        for issue in artix.check_usd(tmp_path / f"{name}.usda")
        if "not read:" not in issue.message
    ] == []


def everything() -> artix.Articulation:
    """An articulation with every feature, names that USD cannot spell, and inertias in no principal
    axes."""
    builder = artix.ArticulationBuilder(name="all of it", gravity=(1.0, -2.0, -9.0))
    rng = np.random.default_rng(0)

    def pose():
        quaternion = rng.normal(size=4)
        return np.concatenate([rng.normal(size=3), quaternion / np.linalg.norm(quaternion)])

    def link(parent, joint, name, **options):
        spread = rng.normal(size=(3, 5))
        second = spread @ spread.T
        inertia = np.trace(second) * np.eye(3) - second
        return builder.add_link(
            parent,
            joint,
            mass=rng.uniform(1, 3),
            com_pose=pose(),
            inertia=inertia,
            name=name,
            **options,
        )

    def options(name, count):
        return {
            "name": name,
            "parent_pose": pose(),
            "child_pose": pose(),
            "armature": list(rng.uniform(0.1, 1, count)),
        }

    root = link(
        None,
        None,
        "trunk-1",
        linear_damping=0.1,
        angular_damping=0.2,
        cfm_scale=0.5,
        gravity_scale=0.0,
    )
    drive = artix.Drive(stiffness=30, damping=2, max_force=9, target=0.3, target_velocity=-0.2)
    envelope = artix.DriveEnvelope(
        max_effort=8,
        max_actuator_velocity=5,
        velocity_dependent_resistance=0.3,
        speed_effort_gradient=0.2,
    )
    hip = artix.Joint.revolute(
        artix.Axis.SWING2, wrapped=False, limits=[(-1, 2)], drive=drive, **options("a/hip", 1)
    )
    leg = link(root, hip, "leg", max_linear_velocity=3.0, max_angular_velocity=4.0)
    push = artix.Drive(stiffness=3, damping=1, acceleration=True)
    slide = artix.Joint.prismatic(
        artix.Axis.Y, drive=push, envelope=envelope, max_velocity=2, **options("b slide", 1)
    )
    foot = link(leg, slide, "foot")
    friction = [artix.JointFriction(static=3, dynamic=2, viscous=0.5), 0.0, 1.0]
    ball = artix.Joint.spherical(
        friction=friction, limits=[None, (-0.4, 0.5), None], **options("c", 3)
    )
    link(root, ball, "tail")
    link(root, artix.Joint.spherical(name="d", parent_pose=pose()), "head")
    builder.add_frame("camera 1", foot, pose())
    builder.add_mimic("c:1", "c:0", -1.5)
    builder.add_mimic("b slide", "a/hip", 0.3, 0.2, natural_frequency=5, damping_ratio=0.7)
    chain = [
        artix.TendonJoint(dof="a/hip", coefficient=0.2, recip_coefficient=2),
        artix.TendonJoint(dof="b slide", coefficient=0.7, recip_coefficient=3, parent=0),
    ]
    builder.add_fixed_tendon(
        artix.FixedTendon(
            name="cord",
            joints=chain,
            stiffness=9,
            damping=2,
            limit_stiffness=3,
            offset=0.1,
            rest_length=0.2,
            limits=(-1, 2),
        )
    )
    points = [
        artix.Attachment(link="trunk-1", position=(1, 2, 3)),
        artix.Attachment(link="leg", position=(0, 2, 3), parent=0, coefficient=0.5),
        artix.Attachment(
            link="foot",
            position=(1, 0, 3),
            parent=1,
            rest_length=2.0,
            limits=(1.0, 3.0),
            name="tip",
        ),
        artix.Attachment(
            link="foot", position=(1, 1, 3), parent=1, coefficient=2.0, rest_length=2.5
        ),
    ]
    builder.add_spatial_tendon(
        artix.SpatialTendon(
            name="wire", attachments=points, stiffness=5, damping=1, limit_stiffness=2, offset=0.3
        )
    )
    for number, kind in enumerate(artix.LoopJointType):
        extra = (
            {"min_distance": 0.5, "max_distance": 2.0}
            if kind is artix.LoopJointType.DISTANCE
            else {}
        )
        if kind is artix.LoopJointType.D6:
            extra = {"locked_axes": (artix.Axis.TWIST, artix.Axis.Y)}
        first = None if number % 2 else "tail"
        builder.add_loop_joint(
            artix.LoopJoint(
                name=f"loop {number}",
                link_a=first,
                link_b="foot",
                pose_a=pose(),
                pose_b=pose(),
                type=kind,
                **extra,
            )
        )
    return builder.build()


def upright(x):
    """Of the two quaternions of the same rotation in a pose [7] the one with w >= 0; other arrays
    are returned."""
    x = np.asarray(x)
    return (
        x
        if x.shape[-1:] != (7,)
        else np.concatenate([x[..., :3], np.where(x[..., 6:] < 0, -1, 1) * x[..., 3:]], -1)
    )


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd", ".usdz"])
def test_every_feature_survives(suffix, tmp_path):
    wanted = everything()
    state = artix.random_state(wanted, jax.random.key(1))
    found, other, issues = saved(wanted, tmp_path / f"robot{suffix}", state=state)
    assert issues == []
    attachment_names = ("wire", "wire_1", "tip", "wire_3")
    (tendon,) = wanted.topology.spatial_tendons
    named = dataclasses.replace(tendon, attachment_names=attachment_names)
    expected = dataclasses.replace(wanted.topology, spatial_tendons=(named,))
    for field in dataclasses.fields(artix.Topology):
        if field.name != "creation_index":  # A stage has no order of creation.
            assert getattr(found.topology, field.name) == getattr(expected, field.name), field.name
    values = numbers(wanted)
    for key, value in numbers(found).items():
        if key not in ("link_com_pose", "link_inertia", "drive.max_force"):
            assert relative_error(upright(value), upright(values[key])) < TOLERANCE, key
    assert relative_error(body_inertias(found), body_inertias(wanted)) < 2e-6
    assert relative_error(joint_geometry(found), joint_geometry(wanted)) < 2e-6
    for found_leaf, wanted_leaf in zip(jax.tree.leaves(other), jax.tree.leaves(state), strict=True):
        assert np.allclose(upright(found_leaf), upright(wanted_leaf), atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_random_articulations_survive(seed, tmp_path):
    wanted = random_tree(seed, fixed_base=bool(seed % 2))
    found, _, issues = saved(wanted, tmp_path / "robot.usdc")
    one, other = found.topology, wanted.topology
    assert set(one.dof_names) == set(other.dof_names)
    if not any("sorted by type and name" in issue.message for issue in issues):
        assert one.link_names == other.link_names
    order = [one.link_names.index(name) for name in other.link_names]
    for name in ("link_mass", "link_com_pose"):
        found_rows, wanted_rows = (
            np.asarray(getattr(item, name), float) for item in (found, wanted)
        )
        assert relative_error(found_rows[order][..., :3], wanted_rows[..., :3]) < TOLERANCE
    assert relative_error(body_inertias(found)[order], body_inertias(wanted)) < 2e-6


def test_stock_usd_reads_the_same_joints(tmp_path):
    path = tmp_path / "robot.usda"
    saved(everything(), path)
    stage = Usd.Stage.Open(str(path))
    hip = UsdPhysics.RevoluteJoint.Get(stage, "/World/all_of_it/a_hip")
    assert hip.GetAxisAttr().Get() == "Z"
    assert hip.GetUpperLimitAttr().Get() == pytest.approx(np.degrees(2))
    assert UsdPhysics.DriveAPI.Get(
        hip.GetPrim(), "angular"
    ).GetStiffnessAttr().Get() == pytest.approx(np.radians(30))
    assert UsdPhysics.GetStageKilogramsPerUnit(stage) == 1.0
    body = UsdPhysics.MassAPI.Get(stage, "/World/all_of_it/leg")
    moments = np.linalg.eigvalsh(
        body_inertias(everything())[everything().topology.link_index("leg")]
    )
    assert np.allclose(np.sort(body.GetDiagonalInertiaAttr().Get()), moments, rtol=1e-6)


def test_what_usd_cannot_say_is_reported(tmp_path):
    path = tmp_path / "robot.usda"
    builder = artix.ArticulationBuilder(fixed_base=True)
    base = builder.add_link(name="base", gravity_scale=0.5, mass=1.0)
    turn = artix.Joint.revolute(name="turn", wrapped=False, max_force=3.0)
    builder.add_link(base, turn, mass=1.0, inertia=(1, 1, 1), name="z")
    builder.add_link(base, artix.Joint.revolute(name="a"), mass=1.0, inertia=(1, 1, 1), name="y")
    joints = [
        artix.TendonJoint(dof=name, coefficient=1, recip_coefficient=1) for name in ("turn", "a")
    ]
    builder.add_fixed_tendon(artix.FixedTendon(name="both", joints=joints))
    issues = artix.save_usd(builder.build(), path)
    said = "\n".join(map(str, issues))
    for words in (
        "without mass or inertia", 
        "gravity scale of 0.5", 
        "commanded joint forces", "wrapping",
                  "'both' is not written", "sorted by type and name"):  # fmt: skip
        assert words in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*a point mass: 1 kg without rotational inertia")
        found = artix.load_usd(path)
    assert not np.any(found.link_inertia[0])
    assert found.topology.link_names == ("base", "y", "z")


def test_a_file_may_be_written_again(tmp_path):
    path = tmp_path / "robot.usdc"
    for name in ("e_combo", "b_arm7", "e_combo"):
        found, _, _ = saved(artix.load_usd(MECHANISMS[name]), path)
        assert found.topology.num_dofs == artix.load_usd(MECHANISMS[name]).topology.num_dofs


def test_names_that_the_file_itself_uses(tmp_path):
    builder = artix.ArticulationBuilder(name="PhysicsScene", fixed_base=True)
    builder.add_link(name="root_joint", mass=1.0, inertia=(1, 1, 1))
    builder.add_link(
        0, artix.Joint.revolute(name="root_joint"), name="World", mass=1.0, inertia=(1, 1, 1)
    )
    found, _, _ = saved(builder.build(), tmp_path / "robot.usda")
    assert found.topology == builder.build().topology
    assert np.allclose(found.gravity, builder.gravity)


def test_a_massless_root_comes_back(tmp_path):
    arm = artix.robots.load("arm7")
    found, _, issues = saved(arm, tmp_path / "arm.usda")
    assert any("without mass" in issue.message for issue in issues) == bool(
        np.any(np.asarray(arm.link_mass) == 0)
    )
    assert np.allclose(found.link_mass, arm.link_mass, rtol=1e-6)
    assert found.topology.link_names == arm.topology.link_names


def test_load_check_and_save_choose_by_the_suffix(tmp_path):
    arm = artix.robots.load("arm7")
    for suffix in (".usda", ".usdc"):
        path = tmp_path / f"arm{suffix}"
        artix.save(arm, path)
        assert artix.load(path).topology.dof_names == arm.topology.dof_names
        assert artix.check(path) == []
    with pytest.raises(ValueError, match=r"no writer for the suffix '\.stl'"):
        artix.save(arm, tmp_path / "arm.stl")
    with pytest.raises(ValueError, match=r"ends in \.usd"):
        artix.save_usd(arm, tmp_path / "arm.urdf")
    with pytest.raises(FileNotFoundError):
        artix.save_usd(arm, tmp_path / "missing" / "arm.usda")
    with pytest.raises(ValueError, match="batch"):
        artix.save_usd(
            jax.tree.map(lambda leaf: jax.numpy.stack([leaf, leaf]), arm), tmp_path / "arm.usda"
        )


def test_the_command_line_knows_usd(tmp_path, capsys):
    from artix.cli import main

    path = tmp_path / "quadruped.usdc"
    artix.save_usd(artix.robots.load("quadruped"), path)
    assert main(["info", str(path)]) == 0
    assert "floating base" in capsys.readouterr().out
    assert main(["check", str(path), "--root", "/World/nothing"]) == 1
    assert "no prim </World/nothing>" in capsys.readouterr().out
    assert main(["info", "arm7", "--root", "/World"]) == 1
    assert "--root does not apply to the format of" in capsys.readouterr().err
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "pxr", None)
        assert main(["info", str(path)]) == 1
    assert "pip install 'artix[usd]'" in capsys.readouterr().err


def test_a_state_of_another_robot_is_refused(tmp_path):
    robot, path = artix.robots.load("cart_pole"), tmp_path / "robot.usda"
    state = artix.neutral_state(robot)
    with pytest.raises(ValueError, match=r"state.joint_position: expected shape \(2,\)"):
        artix.save_usd(robot, path, state=artix.neutral_state(artix.robots.load("arm7")))
    with pytest.raises(ValueError, match=r"state.root_pose: expected shape \(7,\)"):
        artix.save_usd(robot, path, state=jax.tree.map(lambda leaf: np.stack([leaf, leaf]), state))
    with pytest.raises(ValueError, match="must be finite"):
        artix.save_usd(
            robot, path, state=state.replace(joint_velocity=np.nan * state.joint_velocity)
        )
    assert not path.exists()


def test_tendons_whose_names_usd_spells_alike_stay_apart(tmp_path):
    builder = artix.ArticulationBuilder(fixed_base=True)
    link = builder.add_link(name="world")
    for name in ("a wire", "a_wire"):
        joint = artix.Joint.revolute(artix.Axis.TWIST, name=f"joint_{name}")
        link = builder.add_link(link, joint, mass=1.0, inertia=[1, 1, 1])
        along = [artix.TendonJoint(dof=joint.name, coefficient=2.0, recip_coefficient=3.0)]
        builder.add_fixed_tendon(
            artix.FixedTendon(name=name, joints=along, stiffness=len(name) + link)
        )
    found, _, issues = saved(builder.build(), tmp_path / "robot.usda")
    assert [tendon.name for tendon in found.topology.fixed_tendons] == ["a_wire", "a_wire_2"]
    np.testing.assert_array_equal(found.fixed_tendons.stiffness, [7.0, 8.0])
    assert sum("will be called" in issue.message for issue in issues) == 2


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd", ".usdz"])
def test_a_full_disk_keeps_the_file_that_was_there(suffix, tmp_path):
    pendulum = artix.robots.load("double_pendulum")
    path = tmp_path / f"robot{suffix}"
    artix.save_usd(pendulum, path)
    whole = path.read_bytes()
    # A package has some bytes more than the file in it, so that packaging fails at the last size.
    for free in (0, 1000, len(whole) - 50):
        with (
            full_disk(free),
            pytest.raises(OSError, match=f"File too large|failure.*robot{suffix}'") as error,
        ):
            artix.save_usd(pendulum.replace(link_mass=2 * pendulum.link_mass), path)
        assert len(str(error.value)) < 400
        assert error.value.filename == str(path) and error.value.strerror
        assert path.read_bytes() == whole
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["robot.usda", "robot.usdz"])
def test_failures_that_usd_only_returns_are_errors(name, tmp_path, monkeypatch):
    monkeypatch.setattr(Sdf.Layer, "Export", lambda *_: name.endswith("z"))
    monkeypatch.setattr(UsdUtils, "CreateNewUsdzPackage", lambda *_: False)
    with pytest.raises(OSError, match=rf"USD reports a failure without a reason.*{name}'"):
        artix.save_usd(artix.robots.load("double_pendulum"), tmp_path / name)
    assert not list(tmp_path.iterdir())
