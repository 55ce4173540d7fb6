"""Load, save, load: nothing that the format can express changes, and other programs read the files
alike."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import mujoco
import numpy as np
import pytest

import artix
from artix import (
    Articulation,
    Axis,
    DescriptionError,
    DescriptionWarning,
    FixedTendon,
    Joint,
    TendonJoint,
)
from artix.io.mjcf.reader import load_mjcf_all as reader_load_mjcf_all
from artix.math.arrays import entries
from tests.io.test_mjcf import BODIES, free, mjcf
from tests.io.test_mjcf_models import evaluate, files
from tests.io.test_urdf_robots import FILES, LOADABLE, repairs
from tests.support.models import zoo
from tests.support.mujoco_oracle import Entries, quantities, random_coordinates
from tests.support.rigid_bodies import placements, total_inertia

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")

EVERYDAY = LOADABLE[::8]
MJCF_MODELS = {
    f"{package}/{name}": path
    for package in ("gymnasium", "dm_control", "mjx")
    for name, path in files(package).items()
    if "humanoids" not in name and name not in ("actuator/arm26.xml", "constraints.xml")
}
EVERYDAY_MJCF = (
    "gymnasium/ant.xml",
    "dm_control/humanoid_CMU.xml",
    "mjx/shadow_hand/right_hand.xml",
)


def everyday_or_slow(names, everyday):
    """Names with marks: some every day, of the others every fourth with the slow tests, the rest
    with the exhaustive."""
    others = [name for name in names if name not in everyday]
    marks = {
        name: pytest.mark.exhaustive if k % 4 else pytest.mark.slow for k, name in enumerate(others)
    }
    return [pytest.param(name, marks=marks[name]) if name in marks else name for name in names]


def load_urdf(name: str, **options) -> Articulation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        return artix.load_urdf(
            FILES[name], repair=repairs(name), **{"fixed_base": False, **options}
        )


def load_mjcf_all(path) -> dict[str, Articulation]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        return reader_load_mjcf_all(path, skip="all")


def signed(array: np.ndarray) -> np.ndarray:
    """Poses with the sign of their quaternions chosen, since both signs are one rotation."""
    if array.shape[-1:] != (7,) or not array.size:
        return array
    largest = np.argmax(np.abs(array[..., 3:]).round(6), axis=-1)[..., None]
    quaternion = array[..., 3:] * np.sign(np.take_along_axis(array[..., 3:], largest, -1))
    return np.concatenate([array[..., :3], quaternion], axis=-1)


def differences(first: Articulation, second: Articulation) -> dict[str, float]:
    """The largest difference of each array, where it exceeds rounding; shapes must agree."""
    found = {}
    leaves = [jax.tree_util.tree_flatten_with_path(one)[0] for one in (first, second)]
    for (path, a), (_, b) in zip(*leaves, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, path
        same = np.isclose(signed(a), signed(b), rtol=1e-12, atol=1e-12)
        if not same.all():
            found[jax.tree_util.keystr(path, simple=True, separator=".")] = np.abs(
                signed(a) - signed(b)
            ).max()
    return found


# --- the archive --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", everyday_or_slow(LOADABLE, EVERYDAY))
def test_archives_keep_urdf_robots_bit_by_bit(name, tmp_path):
    robot = load_urdf(name)
    assert artix.save(robot, tmp_path / "robot.npz") == []
    again = artix.load(tmp_path / "robot.npz")
    assert again.topology == robot.topology
    assert all(
        a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(robot), jax.tree.leaves(again), strict=True)
    )


# --- URDF ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("merge", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", everyday_or_slow(LOADABLE, EVERYDAY))
def test_urdf_round_trip(name, merge, tmp_path):
    robot = in_order(load_urdf(name, merge_fixed_joints=merge))
    path = tmp_path / "robot.urdf"
    issues = artix.save(robot, path)
    again = in_order(artix.load(path, fixed_base=False, merge_fixed_joints=merge))
    if any(
        "written as 1e+10" in issue.message for issue in issues
    ):  # for the limits that URDF requires
        limits = {name: getattr(robot, name) for name in ("max_joint_force", "max_joint_velocity")}
        robot = robot.replace(**{name: np.minimum(limit, 1e10) for name, limit in limits.items()})
    assert differences(robot, again) == {}
    # A limited joint without limits is all that these robots say in a way that URDF itself does not
    # provide for.
    unlimited = any("revolute_unwrapped joint without limits" in issue.message for issue in issues)
    types = again.topology.joint_types if unlimited else robot.topology.joint_types
    assert again.topology == dataclasses.replace(robot.topology, joint_types=types)


def in_order(robot: Articulation) -> Articulation:
    """With mimic joints in the order of their followers and frames in that of their names, which
    formats do not keep."""
    topology = robot.topology
    mimics = np.argsort([follower for follower, _ in topology.mimic_dofs]).astype(int)
    frames = np.argsort(topology.frame_names).astype(int)
    ordered = dataclasses.replace(
        topology,
        creation_index=tuple(range(topology.num_links)),
        mimic_dofs=tuple(topology.mimic_dofs[k] for k in mimics),
        frame_names=tuple(topology.frame_names[k] for k in frames),
        frame_links=tuple(topology.frame_links[k] for k in frames),
    )
    mimic = jax.tree.map(lambda leaf: entries(leaf, mimics), robot.mimic)
    return robot.replace(
        topology=ordered, mimic=mimic, frame_local_pose=entries(robot.frame_local_pose, frames)
    )


@pytest.mark.parametrize("name", ["arm7", "quadruped", "humanoid"])
def test_pinocchio_reads_what_is_written(name, tmp_path):
    path = tmp_path / "robot.urdf"
    artix.save(artix.robots.load(name), path)
    ours, original = (
        pin.buildModelFromUrdf(str(file), pin.JointModelFreeFlyer())
        for file in (path, artix.robots.path(name))
    )
    q = pin.integrate(original, pin.neutral(original), np.linspace(-1.0, 1.0, original.nv))
    assert list(ours.names) == list(original.names)
    np.testing.assert_allclose(
        *(np.triu(pin.crba(one, one.createData(), q)) for one in (ours, original)), atol=1e-12
    )


@pytest.mark.parametrize("limit", [{}, {"max_force": 3.0}, {"max_velocity": 2.0}])
def test_pinocchio_reads_joints_without_limits_of_effort_or_speed(limit, tmp_path):
    builder = artix.ArticulationBuilder(fixed_base=True)
    at = builder.add_link(name="world")
    joints = [artix.Joint.revolute(name="a", wrapped=False, limits=[(-1.0, 2.0)], **limit)]
    joints += [artix.Joint.prismatic(name="b", **limit), artix.Joint.revolute(name="c", **limit)]
    for joint in joints:
        at = builder.add_link(at, joint, mass=1.0, inertia=[1, 1, 1], name=f"link {joint.name}")
    issues = artix.save(builder.build(), tmp_path / "robot.urdf")
    (issue,) = (issue for issue in issues if "written as 1e+10" in issue.message)
    assert issue.element == ("3 joints ('a', 'b', 'c')" if limit else "2 joints ('a', 'b')")
    model = pin.buildModelFromUrdf(str(tmp_path / "robot.urdf"))
    assert list(model.names)[1:] == ["a", "b", "c"]
    assert (model.lowerPositionLimit[0], model.upperPositionLimit[0]) == (-1.0, 2.0)
    assert model.effortLimit[0] == limit.get("max_force", 1e10)
    assert model.velocityLimit[0] == limit.get("max_velocity", 1e10)


@pytest.mark.parametrize("suffix", ["npz", "urdf", "xml", "usda"])
@pytest.mark.parametrize(
    "field", ["link_mass", "joint_lower_limit", "joint_child_pose", "drive.stiffness"]
)
def test_numbers_that_readers_would_refuse_are_not_written(field, suffix, tmp_path):
    robot, wrong = (
        artix.robots.load("cart_pole"),
        {"joint_lower_limit": np.inf, "joint_child_pose": 2.0},
    )
    owner, _, name = field.rpartition(".")
    group = getattr(robot, owner) if owner else robot
    broken = group.replace(**{name: np.full_like(getattr(group, name), wrong.get(name, np.nan))})
    with pytest.raises(ValueError, match=field):
        artix.save(
            robot.replace(**{owner: broken}) if owner else broken, tmp_path / f"robot.{suffix}"
        )
    assert not (tmp_path / f"robot.{suffix}").exists()


def test_joints_beside_the_origin_move_the_frames_of_links(tmp_path):
    robot = artix.load_mjcf(mjcf(BODIES.replace('type="ball"', 'type="hinge"')))
    issues = artix.save(robot, tmp_path / "robot.urdf")
    assert any("its frame is moved onto the axis" in issue.message for issue in issues)
    again = artix.load(tmp_path / "robot.urdf", merge_fixed_joints=False)
    position = {"shoulder": -0.7, "twist": 0.4, "slide": 0.1, "wrist": 0.9}
    expected, found = placements(robot, position), placements(again, position)
    for frame in robot.topology.frame_names:
        np.testing.assert_allclose(found[frame], expected[frame], atol=1e-12)
    for of_one, of_other in zip(
        total_inertia(robot, position), total_inertia(again, position), strict=True
    ):
        np.testing.assert_allclose(of_one, of_other, atol=1e-12)


def test_urdf_reports_what_it_cannot_say(tmp_path):
    builder = artix.ArticulationBuilder(gravity=(0, 0, -1), fixed_base=True)
    base = builder.add_link(mass=1.0, inertia=[1, 1, 1], name="base")
    joint = artix.Joint.revolute(
        name="hinge",
        armature=0.1,
        limits=[(-1.0, np.inf)],
        drive=artix.Drive(stiffness=1.0),
        friction=artix.JointFriction(static=2.0, dynamic=1.0),
        envelope=artix.DriveEnvelope(max_effort=1.0),
    )
    link = builder.add_link(
        base, joint, mass=1.0, inertia=[1, 1, 1], gravity_scale=0.5, linear_damping=0.1, name="arm"
    )
    builder.add_loop_joint(artix.LoopJoint(name="loop", link_a=None, link_b="arm"))
    builder.add_frame("tool", link)
    messages = "\n".join(map(str, artix.save(builder.build(), tmp_path / "robot.urdf")))
    for words in (
        "armature", 
            "its drive", 
            "performance envelope", 
            "static friction other", 
            "gravity scale", 
            "its damping",
        "gravity of", 
            "a loop joint", 
            "written as a link", 
            "whether the base is fixed", 
            "a limit on one side only",
    ):  # fmt: skip
        assert words in messages


def test_urdf_refuses_spherical_joints(tmp_path):
    with pytest.raises(DescriptionError, match="URDF has no spherical joints"):
        artix.save(artix.load_mjcf(mjcf()), tmp_path / "robot.urdf")


# --- MJCF ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", everyday_or_slow(MJCF_MODELS, EVERYDAY_MJCF))
def test_mjcf_round_trip(name, tmp_path):
    for robot in map(in_order, load_mjcf_all(MJCF_MODELS[name]).values()):
        issues = artix.save(robot, tmp_path / "robot.xml")
        again = in_order(artix.load(tmp_path / "robot.xml"))
        assert again.topology == robot.topology
        found = differences(robot, again)
        if any("no limit stiffness in addition to a spring" in issue.message for issue in issues):
            for field in ("limit_stiffness", "lower_limit", "upper_limit"):
                found.pop(f"fixed_tendons.{field}")
        # Reference positions within a chain of joints move frames of the massless links between
        # them. MuJoCo keeps meshes in float32, and moves them to their principal axes.
        assert found.pop("geometry.pose", 0.0) < 1e-7
        assert set(found) <= {"joint_parent_pose"}
        expected, actual = placements(robot), placements(again)
        for link in np.array(robot.topology.link_names)[np.asarray(robot.link_mass) > 0]:
            np.testing.assert_allclose(actual[link], expected[link], atol=1e-12)


@pytest.mark.parametrize("name", everyday_or_slow(LOADABLE, EVERYDAY))
def test_urdf_robots_as_mjcf(name, tmp_path):
    """MuJoCo's compiler takes what is written, and reading it back and writing it again changes
    nothing."""
    robot, paths = (
        load_urdf(name, fixed_base=True),
        [tmp_path / "first.xml", tmp_path / "second.xml"],
    )
    try:
        artix.save(robot, paths[0])
    except DescriptionError as error:
        assert {issue.message for issue in error.issues} == {
            "MuJoCo requires mass and rotational inertia of moving bodies"
        }
        return
    first = artix.load(paths[0])
    artix.save(first, paths[1])
    assert differences(first, artix.load(paths[1])) == {}
    np.testing.assert_allclose(first.link_mass.sum(), robot.link_mass.sum(), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("fixed_base", [pytest.param(True, marks=pytest.mark.slow), False])
def test_mujoco_computes_the_same_from_what_is_written(fixed_base, tmp_path):
    """Every joint type but the spherical ones with two axes, with oblique frames: mass matrix, bias
    and poses."""
    robot = zoo(fixed_base=fixed_base, two_axes=False, armature=0.1)
    # MuJoCo's ball joint has its coordinates in the axes of the body.
    balls = [k for k, axes in enumerate(robot.topology.joint_axes) if len(axes) == 3]
    robot = robot.replace(
        joint_child_pose=robot.joint_child_pose.at[np.array(balls), 3:].set([0.0, 0.0, 0.0, 1.0])
    )
    path = tmp_path / "zoo.xml"
    artix.save(robot, path)
    model = mujoco.MjModel.from_xml_path(str(path))
    names = (
        tuple(model.joint(k).name for k in range(model.njnt)),
        tuple(model.body(k).name for k in range(model.nbody)),
    )
    entries = Entries(model, robot, *names)
    rng, states, oracles = np.random.default_rng(0), [], []
    for _ in range(3):
        qpos, qvel = random_coordinates(model, rng)
        states.append(entries.state(qpos, qvel))
        oracles.append(quantities(entries, qpos, qvel))
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    for mass, bias, poses, oracle in zip(
        *jax.jit(jax.vmap(evaluate, (None, 0)))(robot, batch), oracles, strict=True
    ):
        np.testing.assert_allclose(mass, oracle.mass_matrix, atol=1e-10 * np.abs(mass).max())
        np.testing.assert_allclose(bias, oracle.bias_force, atol=1e-10 * np.abs(bias).max())
        for link, pose in zip(robot.topology.link_names, np.asarray(poses), strict=True):
            np.testing.assert_allclose(signed(pose), signed(oracle.poses[link]), atol=1e-10)


EVERYTHING = mjcf(
    free(),
    """<actuator><position joint="shoulder" kp="30" kv="2" forcerange="-50 50"/><motor joint="twist" ctrlrange="-6 6"/>
    <general joint="slide" gainprm="4" biastype="affine" biasprm="0.5 -4 -0.6"/></actuator>
    <equality><joint joint1="slide" joint2="shoulder" polycoef="0.3 -0.7 0 0 0"/>
    <weld name="glue" body1="ball" body2="base" relpose="0.3 0 0 0.5 0.5 0.5 0.5"/>
    <connect name="pin" body1="ball" anchor="0.1 0.2 0.3"/></equality>
    <tendon><fixed name="cable" stiffness="40" damping="3" springlength="0.3"><joint joint="shoulder" coef="0.5"/>
    <joint joint="twist" coef="-2"/></fixed>
    <spatial name="rope" stiffness="25" springlength="0.1 0.4"><site site="mark"/><site site="far"/></spatial></tendon>""",
    '<option gravity="1 2 -3"/>',
)


def test_mjcf_keeps_drives_and_couplings(tmp_path):
    robot = in_order(artix.load_mjcf(EVERYTHING))
    issues = artix.save(robot, tmp_path / "robot.xml")
    # A spring on a ball joint.
    said = [issue for issue in issues if issue.element != "joint 'wrist'"]
    assert [issue.message for issue in said] == [
        "its ends are written as sites, which will be read as frames"
    ]
    assert said[0].element == "2 loop joints ('glue', 'pin')"
    again = in_order(artix.load(tmp_path / "robot.xml"))
    kept = [again.topology.frame_names.index(name) for name in robot.topology.frame_names]
    assert (
        differences(robot, again.replace(frame_local_pose=again.frame_local_pose[np.array(kept)]))
        == {}
    )
    for field in ("mimic_dofs", "fixed_tendons", "spatial_tendons", "loop_joints"):
        assert getattr(robot.topology, field) == getattr(again.topology, field)


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_names_are_escaped_or_refused(suffix, tmp_path):
    def robot(name):
        builder = artix.ArticulationBuilder(name=name)
        builder.add_link(mass=1.0, inertia=[1, 1, 1], name=f"{name} link")
        return builder.build()

    path = tmp_path / f"robot.{suffix}"
    for name in ("<\"quoted\" & 'single'>", "\u00fcber", "a/b:c"):
        artix.save(robot(name), path)
        topology = artix.load(path, fixed_base=None).topology
        assert topology.link_names == (f"{name} link",)
        assert topology.name == name
    with pytest.raises(DescriptionError, match="characters that XML does not allow"):
        artix.save(robot("bell \x07"), path)


def test_a_drive_without_force_is_reported_by_mjcf(tmp_path):
    builder = artix.ArticulationBuilder(fixed_base=True)
    drive = artix.Drive(stiffness=3.0, max_force=0.0)
    joint = artix.Joint.revolute(wrapped=False, drive=drive, name="hinge")
    builder.add_link(builder.add_link(name="world"), joint, mass=1.0, inertia=[1, 1, 1])
    [issue] = artix.save(builder.build(), tmp_path / "robot.xml")
    assert (
        issue.element == "joint 'hinge'"
        and "drive, which has no effect, is dropped" in issue.message
    )
    assert artix.load(tmp_path / "robot.xml").drive.stiffness[0] == 0.0


def test_mjcf_keeps_the_gravity_of_each_link(tmp_path):
    builder = artix.ArticulationBuilder()
    base = builder.add_link(mass=1.0, inertia=[1, 1, 1], gravity_scale=0.25)
    builder.add_link(base, artix.Joint.revolute(), mass=1.0, inertia=[1, 1, 1], gravity_scale=0.0)
    artix.save(builder.build(), tmp_path / "robot.xml")
    np.testing.assert_array_equal(artix.load(tmp_path / "robot.xml").gravity_scale, [0.25, 0.0])


@pytest.mark.parametrize("suffix", ["npz", "urdf", "xml", "usda"])
def test_inertias_that_no_body_has_are_kept(suffix, tmp_path):
    path = tmp_path / f"robot.{suffix}"
    builder = artix.ArticulationBuilder(name="robot", strict=False)
    impossible = {} if suffix == "xml" else {"inertia": [1.0, 1.0, 3.0]}  # MuJoCo refuses this one.
    base = builder.add_link(**{"mass": 2.0, "inertia": [1.0, 1.0, 1.5]} | impossible, name="base")
    wrist = artix.Joint.revolute(
        artix.Axis.SWING2, wrapped=False, name="wrist", limits=[(-1.0, 1.0)]
    )
    hand = builder.add_link(base, wrist, mass=1.0, inertia=[1.0, 1.0, 1.0], name="hand")
    tip = artix.Joint.fixed(name="tip_joint", parent_pose=[0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
    builder.add_link(
        hand, tip, inertia=[0.5, 0.25, 0.5], com_pose=[0.1, 0, 0, 0, 0, 0, 1], name="tip"
    )
    robot = builder.build()
    artix.save(robot, path)
    options = {"fixed_base": False} if suffix == "urdf" else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again = artix.load(path, **options)
    said = [str(one.message) for one in caught if "physically impossible" in str(one.message)]
    assert len(said) == (suffix != "npz") and all("'tip'" in message for message in said)
    np.testing.assert_allclose(again.link_mass, robot.link_mass)
    np.testing.assert_allclose(again.link_inertia, robot.link_inertia, atol=1e-7)
    if suffix != "npz":
        with pytest.raises(DescriptionError, match="a link without mass cannot have inertia"):
            artix.load(path, strict=True)
        with pytest.warns(DescriptionWarning, match="repaired"):
            assert not np.any(artix.load(path, repair=("inertia",)).link_inertia[2])


def test_mjcf_says_that_inertia_without_mass_is_dropped(tmp_path):
    builder = artix.ArticulationBuilder(name="gimbal", strict=False)
    base = builder.add_link(mass=1.0, inertia=[1, 1, 1], name="base")
    ring = builder.add_link(
        base, Joint.revolute(wrapped=False), inertia=[0.1, 0.1, 0.1], name="ring"
    )
    builder.add_link(
        ring, Joint.revolute(Axis.SWING1, wrapped=False), mass=1.0, inertia=[1, 1, 1], name="top"
    )
    issues = artix.save(builder.build(), tmp_path / "gimbal.xml")
    assert [
        "inertia without mass" in issue.message
        for issue in issues
        if issue.element == "link 'ring'"
    ].count(True) == 1


@pytest.mark.parametrize("rest", [-1.0, -0.5])
def test_mjcf_keeps_rest_lengths_below_zero(rest, tmp_path):
    """MuJoCo reads the length -1 as that at the reference positions."""
    builder = artix.ArticulationBuilder(name="pulley", fixed_base=True)
    builder.add_link(mass=1.0, inertia=[1, 1, 1], name="world")
    builder.add_link(
        "world",
        Joint.revolute(name="wheel", wrapped=False),
        mass=1.0,
        inertia=[1, 1, 1],
        name="wheel",
    )
    member = TendonJoint(dof="wheel", coefficient=1.0, recip_coefficient=1.0, parent=-1)
    tendon = FixedTendon(
        name="belt", joints=[member], root_link="world", stiffness=3.0, rest_length=rest
    )
    builder.add_fixed_tendon(tendon)
    artix.save(builder.build(), tmp_path / "pulley.xml")
    np.testing.assert_allclose(
        artix.load(tmp_path / "pulley.xml").fixed_tendons.rest_length, rest, rtol=1e-6
    )
