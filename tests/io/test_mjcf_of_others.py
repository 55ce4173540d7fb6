"""What the files of others have: contact parameters, elements that several readers refuse, and what
is said of them."""

from __future__ import annotations

import warnings
from pathlib import Path

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import DescriptionError, DescriptionWarning
from artix.io.common.diagnostics import Report
from artix.io.common.xml_tree import read_xml
from artix.io.mjcf.reader import load_mjcf_all
from tests.support.mujoco_oracle import SITE_PACKAGES

SLIDER = """<mujoco><option timestep="0.001" cone="elliptic" impratio="100"/><worldbody>
<geom name="floor" type="plane" size="0 0 1" {floor}/><body name="box" pos="0 0 0.1"><freejoint/>
<geom name="box" type="box" size="0.1 0.1 0.1" mass="1" {box}/></body></worldbody>{extra}</mujoco>"""


def said(text: str | Path, **options) -> list[str]:
    """The warnings of loading, which are those of checking."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_mjcf_all(text, **options)
    messages = sorted(str(one.message) for one in caught)
    assert messages == sorted(
        str(issue) for issue in artix.io.check_mjcf(text, **options) if issue.severity == "warning"
    )
    return messages


def count(messages: list[str], words: str) -> int:
    return sum(words in message for message in messages)


# --- contact ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "box", "extra", "friction"),
    [
        ('friction="0.3" priority="1"', 'friction="0.8"', "", 0.3),
        (
            'friction="0.6" priority="1"',
            'friction="0.8" condim="6"',
            "",
            0.6,
        ),  # As in a scene of Playground's Go1.
        ('friction="0.9"', 'friction="0.2" priority="1"', "", 0.2),
        ('friction="0.9" priority="2"', 'friction="0.2" priority="2"', "", 0.9),
        ('friction="0.4" condim="1"', 'friction="0.4" condim="1"', "", 0.0),
        ('friction="0.4" condim="1"', 'friction="0.5"', "", 0.5),
        ('friction="0.4" condim="1" priority="1"', 'friction="0.5" condim="3"', "", 0.0),
        (
            "",
            "",
            '<contact><pair geom1="box" geom2="floor" friction="0.4" condim="1"/></contact>',
            0.0,
        ),
        (
            "",
            "",
            '<contact><pair geom1="box" geom2="floor" friction="0.4"/><pair geom1="floor" geom2="box" friction="0.4"/>'
            "</contact>",
            0.4,
        ),
    ],
)
def test_friction_with_the_ground_is_mujocos(floor, box, extra, friction):
    text = SLIDER.format(floor=floor, box=box, extra=extra)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.contact[0].friction[0] * (data.contact[0].dim > 1) == pytest.approx(friction)
    robot = artix.load_mjcf(text)
    contacts = artix.ground_contacts(
        artix.Scene(robot, ground=artix.load_world(text)[0].ground), artix.neutral_state(robot)
    ).contacts
    np.testing.assert_allclose(contacts.friction, friction, rtol=1e-6)


@pytest.mark.slow
def test_a_box_slides_by_the_friction_of_a_floor_with_priority():
    """As the closed form to 1e-9 m/s; MuJoCo's softer friction lets it slide 4 mm/s faster."""
    text = SLIDER.format(floor='friction="0.3" priority="1"', box='friction="0.8"', extra="")
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[0] = 2.0
    robot, ground = (
        artix.load_mjcf(text, dtype="float64"),
        artix.load_world(text, dtype="float64")[0].ground,
    )
    state = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
    mujoco.mj_step(model, data, 200)
    speed = artix.rollout(
        artix.Scene(robot, ground=ground), state, None, 0.002, num_steps=100
    ).root_velocity[-1, 0]
    np.testing.assert_allclose(speed, 2.0 - 0.3 * 9.81 * 0.2, atol=1e-9)
    np.testing.assert_allclose(speed, data.qvel[0], atol=5e-3)


def test_a_body_excluded_from_the_world_does_not_touch_the_ground():
    exclude = '<contact><exclude body1="world" body2="box"/></contact>'
    text = SLIDER.format(floor="", box="", extra=exclude)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.ncon == 0
    assert artix.load_mjcf(text).topology.geometries == ()
    scene, state = artix.load_world(text, dtype="float64")
    mujoco.mj_step(model, data, 50)
    with pytest.warns(UserWarning, match="no shape of .* can touch the ground"):
        path = artix.rollout(scene, state, None, model.opt.timestep, num_steps=50)
    np.testing.assert_allclose(path.root_pose[-1, :3], data.qpos[:3], atol=1e-12)  # They fall.
    without_ground = text.replace('<geom name="floor" type="plane" size="0 0 1" />', "")
    assert artix.load_mjcf(without_ground).topology.geometries == ()


GRIPPED = """<mujoco><worldbody><geom name="floor" type="plane" size="0 0 1"/>
<body name="finger" pos="0 0 0.3"><joint name="lift" type="slide" axis="0 0 1"/>
  <geom name="tip" type="sphere" size="0.1" friction="0.6" {finger}/></body>
<body name="cube" pos="0 0 0.1"><freejoint/><geom name="side" type="box" size="0.1 0.1 0.1" friction="0.4"/></body>
</worldbody><contact>{contact}</contact></mujoco>"""


@pytest.mark.parametrize(
    ("finger", "contact", "touches_cube"),
    [
        ("", '<exclude body1="world" body2="finger"/>', True),
        ('contype="0" conaffinity="0"', '<pair geom1="tip" geom2="side"/>', True),
        (
            "",
            '<exclude body1="world" body2="finger"/><exclude body1="cube" body2="finger"/>',
            False,
        ),
        ('contype="0" conaffinity="0"', "", False),
    ],
)
def test_a_body_that_the_ground_does_not_touch_touches_others_as_in_mujoco(
    finger, contact, touches_cube
):
    text = GRIPPED.format(finger=finger, contact=contact)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos[0] = -0.01
    mujoco.mj_forward(model, data)
    tip, side, floor = (model.geom(name).id for name in ("tip", "side", "floor"))
    touching = {tuple(sorted(map(int, one.geom))) for one in data.contact}
    assert (tuple(sorted((tip, side))) in touching, tuple(sorted((tip, floor))) in touching) == (
        touches_cube,
        False,
    )
    robots = load_mjcf_all(text)
    assert [shape.name for shape in robots["cube"].topology.geometries] == ["side"]
    shapes = robots["world"].topology.geometries
    assert [(shape.name, shape.sensor) for shape in shapes] == (
        [("tip", True)] if touches_cube else []
    )
    scene, state = artix.load_world(text)
    assert scene.pairs == ((("world/tip", "cube/side"),) if touches_cube else ())
    if touches_cube:  # Without its shape, or its contact with the cube, the finger falls by 5 mm.
        for _ in range(3):
            state = artix.step(scene, state, None, 0.01)
        assert abs(float(state["world"].joint_position[0])) < 1e-4


def test_priorities_are_said_where_another_ground_would_ignore_them():
    floor = SLIDER.format(floor='friction="0.3" priority="1"', box="", extra="")
    assert count(said(floor), "friction_combination='ground'") == 1
    foot = SLIDER.format(floor='contype="0" conaffinity="0"', box='priority="1"', extra="")
    foot = foot.replace(
        '<geom name="floor" type="plane" size="0 0 1" contype="0" conaffinity="0"/>', ""
    )
    assert count(said(foot), "friction_combination='robot'") == 1
    assert count(said(SLIDER.format(floor="", box="", extra="")), "friction_combination") == 0


def test_a_friction_that_no_rule_gives_is_said_with_the_pair():
    feet = "".join(
        f'<body pos="{k} 0 0.1"><joint name="j{k}"/><geom name="g{k}" size="0.1" friction="0.4" priority="{k}"/></body>'
        for k in (0, 2)
    )
    text = f"""<mujoco><worldbody><geom name="floor" type="plane" size="0 0 1" friction="0.5" priority="1"/>
    <geom name="wall" type="plane" size="0 0 1" zaxis="1 0 0" friction="0.7" priority="1"/>{feet}</worldbody></mujoco>"""
    assert count(said(text), "1 differ, 'g0' and 'floor' have 0.7 instead of 0.5") == 1


def test_feet_whose_meshes_are_left_out_are_named():
    ball = " ".join(f"{x:.3f}" for x in np.random.default_rng(0).normal(size=90) * 0.1)
    text = f"""<mujoco><asset><mesh name="m" vertex="{ball}"/></asset><worldbody><geom type="plane" size="0 0 1"/>
    <body name="hips" pos="0 0 1"><freejoint/><geom size="0.1"/><body name="foot" pos="0 0 -0.9">
    <joint name="ankle"/><geom type="mesh" mesh="m"/></body></body></worldbody></mujoco>"""
    (message,) = [one for one in said(text) if "meshes" in one]
    assert "touch nothing without them: foot; only these keep shapes: hips" in message
    assert "meshes='hull'" in message
    assert count(said(text, meshes="hull"), "touch nothing without them") == 0
    assert {shape.link for shape in artix.load_mjcf(text, meshes="hull").topology.geometries} == {
        0,
        1,
    }


# --- elements -----------------------------------------------------------------------------------


def test_a_free_joint_that_inherits_damping_is_loaded():
    text = """<mujoco><default><joint damping="1" armature="0.1" frictionloss="0.2"/></default><worldbody>
    <body name="trunk"><joint name="root" type="free"/><geom size="0.1"/><body name="leg"><joint name="hip"/>
    <geom size="0.1"/></body></body></worldbody></mujoco>"""
    messages = said(text)
    for field in ("armature", "damping", "frictionloss"):
        assert count(messages, f'<joint name="root">: left out: its {field}') == 1
    robot = artix.load_mjcf(text)
    np.testing.assert_allclose(
        [robot.armature[0], robot.friction.viscous[0]], [0.1, 1.0], rtol=1e-6
    )
    with pytest.raises(DescriptionError, match="a free root has none"):
        artix.load_mjcf(text, strict=True)
    with pytest.warns(DescriptionWarning, match="a free root has none"):
        artix.load_mjcf(text, strict=True, skip=("free_joint",))


HANGING = """<mujoco><option timestep="0.0025"/><worldbody><body><joint name="a" type="slide" axis="0 0 1"/>
<geom size="0.02" mass="30"/></body></worldbody><tendon><fixed name="t" limited="true" range="-0.1 1" {law}>
<joint joint="a" coef="2"/></fixed></tendon></mujoco>"""


@pytest.mark.parametrize(
    "law",
    [
        'solimplimit="0.8 0.8 0.001"',
        'solimplimit="0.9 0.9 0.001" solreflimit="0.05 2"',
        'solimplimit="0.9 0.9 0.001" solreflimit="-3000 -100"',
        'stiffness="50" springlength="0.3" solimplimit="0.8 0.8 0.001"',
    ],
)
def test_a_limited_tendon_gives_way_as_in_mujoco(law):
    """Where a weight hangs in the limit, in MuJoCo after 8 s and by the spring's law, to 1e-9 m."""
    text = HANGING.format(law=law)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 3200)
    assert count(said(text), "its range is kept by a spring") == 1
    tendons = artix.load_mjcf(text, dtype="float64").fixed_tendons
    length = 2.0 * data.qpos[0]
    beyond = float(length - tendons.lower_limit[0])
    pull = (
        tendons.stiffness[0] * (length - tendons.rest_length[0])
        + tendons.limit_stiffness[0] * beyond
    )
    np.testing.assert_allclose(-2.0 * pull, 30 * 9.81, rtol=1e-5)
    assert -2e-2 < beyond < -1e-4


def test_a_limit_of_a_tendon_that_no_joint_stretches_is_left_out():
    text = """<mujoco><worldbody><body><joint axis="0 0 1"/><geom size="0.1"/><site name="a"/></body><site name="b"/>
    </worldbody><tendon><spatial name="t" limited="true" range="0 1"><site site="a"/><site site="b"/></spatial></tendon>
    </mujoco>"""
    assert count(said(text), "left out: its range: no joint changes its length at qpos0") == 1


def test_a_hamstring_as_in_the_humanoid_of_mujoco_is_read():
    text = """<mujoco><worldbody><body><joint name="hip" axis="0 1 0"/><geom size="0.1" pos="0 0 -0.2"/>
    <body pos="0 0 -0.4"><joint name="knee" axis="0 -1 0"/><geom size="0.1" pos="0 0 -0.2"/></body></body></worldbody>
    <tendon><fixed name="hamstring" limited="true" range="-0.3 2"><joint joint="hip" coef="0.5"/>
    <joint joint="knee" coef="-0.5"/></fixed></tendon></mujoco>"""
    tendons = artix.load_mjcf(text).fixed_tendons
    np.testing.assert_allclose(
        [tendons.lower_limit[0], tendons.upper_limit[0]], [-0.3, 2.0], rtol=1e-6
    )
    assert tendons.stiffness[0] == 0.0 and tendons.limit_stiffness[0] > 1e3


def test_a_pair_of_links_given_twice_touches_once():
    text = """<mujoco><worldbody><body><joint axis="0 1 0"/><geom name="a" size="0.1"/><body pos="0 0 0.3">
    <joint axis="0 1 0"/><geom name="b" size="0.1"/><body pos="0 0 0.3"><joint axis="0 1 0"/><geom name="c" size="0.1"/>
    </body></body></body></worldbody><contact><pair geom1="a" geom2="c"/><pair geom1="c" geom2="a" friction="0.5"/>
    </contact></mujoco>"""
    ((first, second),) = artix.load_mjcf(text).topology.geometry_pairs
    assert {first, second} == {"a", "c"}
    assert (
        count(said(text), "the friction of the <pair> of 'a' and 'c', 0.75, is not the larger") == 1
    )


HELD = """<mujoco><worldbody><body><joint name="a" axis="0 1 0" ref="10"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="1"/></body></worldbody>{}</mujoco>"""


@pytest.mark.parametrize(
    "equality",
    [
        '<equality><joint joint1="a" polycoef="-0.3 0 0 0 0"/></equality>',
        '<tendon><fixed name="t"><joint joint="a" coef="2"/></fixed></tendon>'
        '<equality><tendon tendon1="t" polycoef="-0.6 0 0 0 0"/></equality>',
    ],
)
def test_an_equality_that_holds_one_joint_is_a_pair_of_equal_limits(equality, tmp_path):
    text = HELD.format(equality)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 2000)
    robot = artix.load_mjcf(text, dtype="float64")
    assert (
        robot.joint_lower_limit[0]
        == robot.joint_upper_limit[0]
        == pytest.approx(np.radians(10) - 0.3, abs=1e-12)
    )
    # MuJoCo's equality is soft.
    np.testing.assert_allclose(robot.joint_lower_limit[0], data.qpos[0], atol=2e-3)
    assert count(said(text), "holds one joint at a position") == 1
    artix.save(robot, tmp_path / "held.xml")
    again = artix.load_mjcf(tmp_path / "held.xml", dtype="float64")
    assert again.joint_lower_limit[0] == again.joint_upper_limit[0] == robot.joint_lower_limit[0]


def test_motors_that_are_left_out_are_said_once_a_kind():
    text = """<mujoco><worldbody><body><joint name="a"/><geom size="0.1"/><site name="s"/><body pos="1 0 0">
    <joint name="b"/><geom size="0.1"/></body></body></worldbody><tendon><fixed name="t"><joint joint="a" coef="1"/>
    <joint joint="b" coef="1"/></fixed></tendon><actuator><motor name="grasp" tendon="t"/><motor name="pull" tendon="t"/>
    <motor name="thrust" site="s"/></actuator></mujoco>"""
    messages = said(text)
    assert (
        count(messages, "2 <motor> elements ('grasp', 'pull'): a motor on a tendon is not read")
        == 1
    )
    assert count(messages, '<motor name="thrust">: a motor on a site is not read') == 1


def test_joints_without_actuators_are_said_once():
    body = '<body name="b{0}"><joint name="j{0}" {1}/><geom size="0.1" pos="0 0 1"/></body>'
    bare = "".join(body.format(k, "") for k in range(3))
    robot = f"<mujoco><worldbody>{bare}</worldbody>{{}}</mujoco>"
    (message,) = [one for one in said(robot.format("")) if "no actuator" in one]
    assert (
        "acts on its 3 joints: their drives have no gains, efforts are unlimited, armature is zero"
        in message
    )
    assert count(said(robot.format('<actuator><motor joint="j1"/></actuator>')), "no actuator") == 0
    springs = robot.replace('name="j1"', 'name="j1" stiffness="3"')
    assert count(said(springs.format("")), "no actuator") == 0


def test_reference_positions_other_than_zero_are_said():
    path = SITE_PACKAGES / "gymnasium" / "envs" / "mujoco" / "assets" / "hopper.xml"
    assert count(said(path), "is not MuJoCo's qpos0 (ref of rootz)") == 1
    model, hopper = mujoco.MjModel.from_xml_path(str(path)), artix.load_mjcf(path)
    state = artix.MujocoCoordinates(hopper, model).state(model.qpos0, np.zeros(model.nv))
    assert state.joint_position[hopper.topology.dof_index("rootz")] == 1.25


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param("mujoco/mjx/test_data", marks=pytest.mark.slow),
        "gymnasium/envs/mujoco/assets",
        pytest.param("dm_control/suite", marks=pytest.mark.slow),
    ],
)
def test_models_of_others_load_and_say_what_checking_says(folder):
    """Every model of three packages that MuJoCo compiles, in at most 13 warnings, one a kind (as of MJX's pendula,
    whose mocap bodies stand in the way of others)."""
    if not (SITE_PACKAGES / folder).is_dir():
        pytest.skip(f"{folder.partition('/')[0]} is not installed")
    for path in sorted((SITE_PACKAGES / folder).glob("*.xml")):
        try:
            mujoco.MjModel.from_xml_path(str(path))
        except ValueError:
            continue
        assert len(said(path)) <= 13, path.name


# --- XML ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '<mujoco><worldbody>\n<geom name="box2"size="1"/></worldbody></mujoco>',
        ' \n<?xml version="1.0"?>\n<mujoco><worldbody><geom name="box2" size="1"/></worldbody></mujoco>',
        '<mujoco><!-- a -- b -->\n<worldbody><geom name="box2" size="1"/></worldbody></mujoco>',
        '<mujoco model="a & b < c"><!---\n---><worldbody><geom name="box2" size="1"/></worldbody></mujoco>',
        '<mujoco model="&nbsp;">\n< worldbody><geom name="box2" size="1"/></worldbody></mujoco>',
        '<mujoco model="caf\xe9">\n<worldbody><geom name="box2" size="1"/></worldbody></mujoco>',
    ],
)
def test_xml_that_only_lenient_parsers_accept_is_read(text, tmp_path):
    path, report = tmp_path / "robot.xml", Report("robot.xml")
    path.write_bytes(text.encode("latin-1"))
    assert mujoco.MjModel.from_xml_path(str(path)).geom("box2").size[0] == 1.0
    root = read_xml(path, report)
    assert root is not None
    (geom,) = root.children[0].children
    assert geom.attributes == {"name": "box2", "size": "1"}
    assert geom.line == text[: text.index("box2")].count("\n") + 1
    (issue,) = report.issues
    assert (issue.severity, "lenient parsers" in issue.message) == ("warning", True)
    assert count(said(path), "not well-formed XML") == 1


@pytest.mark.parametrize(
    "text",
    [
        '<mujoco a="1" a="2"/>',
        "<mujoco><a></mujoco>",
        "<mujoco a=1/>",
        "<mujoco><!-- ",
        '<mujoco a="b',
        "<a b='",
    ],
)
def test_xml_that_mujoco_refuses_is_refused(text):
    with pytest.raises(ValueError, match="XML"):
        mujoco.MjModel.from_xml_string(text)
    with pytest.raises(DescriptionError, match="not well-formed XML"):
        artix.load_mjcf(text)


# --- writing ------------------------------------------------------------------------------------


def build(base: dict, *links: dict, fixed_base: bool = True) -> artix.Articulation:
    builder = artix.ArticulationBuilder(fixed_base=fixed_base, strict=False)
    builder.add_link(name="root", **base)
    for k, link in enumerate(links):
        builder.add_link(name=f"link{k}", **link)
    return builder.build(jnp.float32)


def hinge(parent: int, mass: float = 0.0, inertia: float = 0.0) -> dict:
    joint = artix.Joint.revolute(name=f"hinge on {parent}", wrapped=False)
    return {"parent": parent, "joint": joint, "mass": mass, "inertia": [inertia] * 3}


def welded(parent: int, mass: float = 0.0, inertia: float = 0.0) -> dict:
    joint = artix.Joint.fixed(
        name=f"weld {mass} on {parent}", parent_pose=[0.02, 0.3, 0.1, 0, 0, 0, 1]
    )
    return {"parent": parent, "joint": joint, "mass": mass, "inertia": [inertia] * 3}


@pytest.mark.parametrize(
    "links",
    [
        (hinge(0), welded(1, 1.0, 0.1)),
        (hinge(0, 1.0), welded(1, 1.0, 0.1)),
        (hinge(0), welded(1), welded(2, 2.0, 0.1)),
        (hinge(0), welded(1, 1.0), welded(1, 2.0, 0.1)),
    ],
)
def test_links_with_the_mass_of_a_welded_child_are_written(links, tmp_path):
    robot = build({}, *links)
    artix.save(robot, tmp_path / "robot.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    data, mass = mujoco.MjData(model), np.zeros(1)
    mujoco.mj_forward(model, data)
    mujoco.mj_mulM(model, data, mass, np.ones(1))
    np.testing.assert_allclose(
        artix.mass_matrix(robot, artix.neutral_state(robot))[0], mass, rtol=1e-6
    )


def test_a_floating_root_without_mass_is_refused_with_the_base_as_the_fix(tmp_path):
    with pytest.raises(DescriptionError, match="fixed_base=True"):
        artix.save(build({}, hinge(0, 1.0, 0.1), fixed_base=False), tmp_path / "robot.xml")


def test_points_compile_and_sensors_are_said(tmp_path):
    builder = artix.builder_from_articulation(build({}, hinge(0, 1.0, 0.1)))
    builder.add_geometry("link0", artix.Geometry.sphere(0.0), name="point")
    builder.add_geometry("link0", artix.Geometry.sphere(0.1, sensor=True), name="eye")
    builder.add_geometry("link0", artix.Geometry.box((0.1, 0.1, 0.1), sensor=True), name="ear")
    issues = artix.save(builder.build(), tmp_path / "robot.xml")
    elements = {issue.element: issue.message for issue in issues}
    assert elements["2 geometries ('eye', 'ear')"] == "MJCF cannot express a sensor shape"
    assert "above zero" in elements["geometry 'point'"]
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    assert model.geom_size[0, 0] == 1e-9


@pytest.mark.parametrize("suffix", [".xml", ".urdf"])
def test_numbers_are_the_shortest_that_read_back(suffix, tmp_path):
    robot = build({}, hinge(0, 0.02, 0.1), welded(1, 0.3, 0.7))
    path = tmp_path / f"robot{suffix}"
    artix.save(robot, path)
    text = path.read_text()
    assert '0.02"' in text and "0.0199" not in text and "000000" not in text
    again = artix.load(path, dtype="float32", **({"fixed_base": True} if suffix == ".urdf" else {}))
    mass = [
        float(again.link_mass[again.topology.link_names.index(name)])
        for name in robot.topology.link_names
    ]
    np.testing.assert_array_equal(np.array(mass, np.float32), robot.link_mass)
    double = artix.load(
        path, dtype="float64", **({"fixed_base": True} if suffix == ".urdf" else {})
    )
    artix.save(double.replace(link_mass=double.link_mass + 1e-12), path)
    assert "0.020000000001" in path.read_text()


def test_doubles_of_usd_are_the_shortest_that_read_back(tmp_path):
    path, robot = tmp_path / "robot.usda", build({}, hinge(0, 0.02, 0.1), welded(1, 0.3, 0.7))
    artix.save(robot, path)
    assert "double3 xformOp:translate = (0.02, 0.3, 0.1)" in path.read_text()
    again = artix.load(path, dtype="float32")
    link = again.topology.link_names.index("link1")
    np.testing.assert_array_equal(again.joint_parent_pose[link], robot.joint_parent_pose[2])
