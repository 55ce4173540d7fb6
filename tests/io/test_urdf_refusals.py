"""Errors and warnings of the URDF reader: a table of mistakes with their lines, and random
mistakes."""

from __future__ import annotations

import re
import time
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artix import robots
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning, Issue
from artix.io.urdf.reader import check_urdf, load_urdf

# Line numbers in the tables below refer to this description.
ARM = """<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0 0 0.1" rpy="0 0 0"/>
      <mass value="2"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>
    </inertial>
  </link>
  <link name="lower">
    <inertial>
      <mass value="1"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>
    </inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 1" rpy="0 1.57 0"/>
    <parent link="base"/>
    <child link="upper"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="3"/>
    <dynamics damping="0.1" friction="0.1"/>
  </joint>
  <joint name="elbow" type="revolute">
    <parent link="upper"/>
    <child link="lower"/>
    <limit lower="-1" upper="1" effort="10" velocity="3"/>
    <mimic joint="shoulder" multiplier="2" offset="0.5"/>
  </joint>
</robot>
"""
UPPER_INERTIA = '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>\n    </inertial>\n  </link>\n  <link'
TYPE = 'name="elbow" type="revolute"'
DOCTYPE = '<!DOCTYPE robot [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n'

REFUSALS = {
    # what is replaced: (by what, line, words of the message)
    "not XML": ("</joint>\n</robot>", "</robot>", 29, "not well-formed XML"),
    "cut off": ("</robot>", "", 31, "not well-formed XML"),
    "an entity bomb": ("<robot", DOCTYPE + "<robot", 1, 
        "document type declarations and entities are refused"),
    "a xacro element": ('<link name="base"/>', '<xacro:arm name="base"/>', 2, 
        "this is a xacro file"),
    "a xacro expression": ("0 0 0.1", "0 0 ${length}", 5, "this is a xacro file"),
    "a xacro substitution": ('name="arm"', 'name="$(arg name)"', 1, "this is a xacro file"),
    "a link without a name": ('<link name="base"/>', "<link/>", 2, 
        "the attribute 'name' is missing or empty"),
    "a link with an empty name": ('<link name="base"/>', '<link name=" "/>', 2, 
        "'name' is missing or empty"),
    "a joint without a name": (TYPE, 'type="revolute"', 24, 
        "the attribute 'name' is missing or empty"),
    "two links of one name": ('link name="lower"', 'link name="upper"', 10, 
        "second link called 'upper'; the first is on line 3"),
    "two joints of one name": ('name="elbow"', 'name="shoulder"', 24, 
        "a second joint called 'shoulder'"),
    "a joint without a parent": ('<parent link="upper"/>', "", 24, "it has no <parent>"),
    "a joint without a child": ('<child link="lower"/>', "", 24, "it has no <child>"),
    "a parent without a link": ('<parent link="upper"/>', "<parent/>", 25, 
        "the attribute 'link' is missing"),
    "an unknown parent": ('<parent link="upper"/>', '<parent link="uper"/>', 24, 
        "there is no link called 'uper', its parent"),
    "an unknown child": ('<child link="lower"/>', '<child link="low"/>', 24, 
        "there is no link called 'low', its child"),
    "two parents": ('<child link="lower"/>', '<child link="upper"/>', 24, 
        "link 'upper' has a second parent"),
    "several roots": ('<link name="base"/>', '<link name="base"/><link name="spare"/>', 2, 
        "there are 2 root links"),
    "a cycle": ('<parent link="base"/>', '<parent link="lower"/>', 24, 
        "close a cycle of links: 'lower' -> 'upper' -> 'lower'"),
    "a link on itself": ('<parent link="base"/>', '<parent link="upper"/>', 16, 
        "close a cycle of links: 'upper' -> 'upper'"),
    "an unknown joint type": (TYPE, 'name="elbow" type="hinge"', 24, "unknown joint type 'hinge'"),
    "no joint type": (TYPE, 'name="elbow"', 24, "the joint has no type"),
    "a follower of several degrees": ('"shoulder" type="revolute"', '"shoulder" type="planar"', 28, 
        "'shoulder' is planar and can"),
    "a trailing comma": ('rpy="0 1.57 0"', 'rpy="0 1.57, 0"', 17, 
        "rpy='0 1.57, 0' is malformed: '1.57,' is not a number"),
    "two numbers for three": ('xyz="0 0 1"', 'xyz="0 1"', 17, 
        "xyz='0 1' is malformed: found 2 numbers"),
    "an empty list": ('xyz="0 0 1"', 'xyz=""', 17, "xyz='' is malformed: found 0 numbers"),
    "a number with underscores": ('value="2"', 'value="2_0"', 6, "'2_0' is not a number"),
    "a number that is not one": ('xyz="0 0 0.1"', 'xyz="0 0 nan"', 5, 
        "xyz='0 0 nan' is not finite"),
    "an infinite limit": ('upper="1"', 'upper="inf"', 21, "upper='inf' is not finite"),
    "an overflowing number": ('value="2"', 'value="1e999"', 6, "is beyond 1e+30"),
    "a number beyond reason": ('multiplier="2"', 'multiplier="1e200"', 28, "is beyond 1e+30"),
    "a negative mass": ('<mass value="2"/>', '<mass value="-2"/>', 4, "the mass -2 kg is negative"),
    "a negative moment": ('izz="0.1"', 'izz="-0.1"', 4, "the inertia is not positive definite"),
    "a negative moment beyond rounding": ('izz="0.1"', 'izz="-2e-6"', 4, 
        "the inertia is not positive definite"),
    "large products of inertia": ('ixy="0"', 'ixy="0.3"', 4, 
        "the inertia is not positive definite"),
    "an axis without length": ('xyz="0 1 0"', 'xyz="0 0 0"', 20, "the joint axis has length zero"),
    "a negative effort": ('effort="10"', 'effort="-10"', 21, 
        "effort is -10, but must not be negative"),
    "a negative velocity": ('velocity="3"', 'velocity="-3"', 21, 
        "velocity is -3, but must not be negative"),
    "negative damping": ('damping="0.1"', 'damping="-1"', 22, 
        "damping is -1, but must not be negative"),
    "negative friction": ('friction="0.1"', 'friction="-1"', 22, 
        "friction is -1, but must not be negative"),
    "a mimic of no joint": ('<mimic joint="shoulder"', "<mimic", 28, 
        "the attribute 'joint' is missing"),
    "a mimic of an unknown joint": ('mimic joint="shoulder"', 'mimic joint="wrist"', 28, 
        "no joint called 'wrist' to follow"),
    "a mimic of itself": ('mimic joint="shoulder"', 'mimic joint="elbow"', 28, 
        "the joint follows itself"),
    "a mimic of a fixed joint": ('name="shoulder" type="revolute"', 'name="shoulder" type="fixed"', 28, 
        "'shoulder' is fixed"),
    "mimics in a loop": ("<dynamics", '<mimic joint="elbow"/><dynamics', 22, 
        "in a loop: 'shoulder' -> 'elbow' -> 'shoulder'"),
}  # fmt: skip

INERTIA_KEYS = ("xx", "xy", "xz", "yy", "yz", "zz")
DIAGONAL = 'ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"'

#: What no body can have although dynamics can be computed with it.
IMPOSSIBLE = {
    "inertia without mass": ('<mass value="2"/>', '<mass value="0"/>', 
        "a link without mass cannot have inertia"),
    "the triangle inequality": ('izz="0.1"', 'izz="0.2001"', 
        "the inertia breaks the triangle inequality"),
    "equal entries": (DIAGONAL, 'ixx="1" ixy="1" ixz="1" iyy="1" iyz="1" izz="1"', 
        "the inertia breaks the triangle"),
    "a moment beside nothing": ('ixx="0.1" ixy="0" ixz="0" iyy="0.1"', 'ixx="0" iyy="0"', 
        "the inertia breaks the triangle"),
}  # fmt: skip

#: What is taken as it stands: a moment of zero, and what rounding may leave of it or of the
#: triangle inequality.
WITHIN_ROUNDING = (
    ('iyy="0.1" iyz="0" izz="0.1"', 'iyy="0.1" iyz="0" izz="0"'),
    ('iyy="0.1" iyz="0" izz="0.1"', 'iyy="0.1" iyz="0" izz="-9e-8"'),
    ('izz="0.1"', 'izz="0.2000001"'),
    (DIAGONAL, 'ixx="0" ixy="-1.35e-20" iyy="0" izz="0"'),
)

#: What is read otherwise than it is written, with a warning, as other readers read it;
#: ``strict=True`` refuses it.
CHANGES = {
    "no mass": ('<mass value="2"/>', "", 4, "it has no <mass>"),
    "a mass without value": ('<mass value="2"/>', "<mass/>", 6, "the attribute 'value' is missing"),
    "mass without inertia": (UPPER_INERTIA, UPPER_INERTIA[66:], 4, "it has no <inertia>"),
    "a diagonal moment missing": ('ixx="0.1" ', "", 7, "the attribute 'ixx' is missing"),
    "two inertials": ("</inertial>", "</inertial><inertial/>", 8, 
        "a second <inertial>; the first is on line 4"),
    "limits exchanged": ('lower="-1"', 'lower="2"', 21, 
        "the lower limit 2 exceeds the upper limit 1"),
    "no limit": ('<limit lower="-1" upper="1" effort="10" velocity="3"/>', "", 16, 
        "without <limit> is read as unlimited"),
    "neither lower nor upper": ('lower="-1" upper="1" ', "", 21, 
        "neither lower nor upper is given"),
    "a fixed joint that mimics": (TYPE, 'name="elbow" type="fixed"', 28, 
        "a fixed joint cannot follow another"),
    "two axes": ('<axis xyz="0 1 0"/>', '<axis xyz="0 1 0"/><axis xyz="1 0 0"/>', 20, 
        "a second <axis>; the first is on line 20"),
    "an axis without numbers": ('<axis xyz="0 1 0"/>', "<axis/>", 20, 
        "'xyz' is missing: read as the x axis"),
    "two origins": ('<parent link="base"/>', '<origin/><parent link="base"/>', 18, 
        "a second <origin>; the first is on line 17"),
    "no effort": ('effort="10" velocity="3"', 'effort="0"', 21, 
        "effort is 0, and so is velocity or it is missing; read as no"),
    "no velocity": ('velocity="3"', 'velocity="0.0"', 21, 
        "velocity is 0, which would lock the joint; read as no limit"),
    "a malformed shape": ('<link name="base"/>', '<link name="base"><collision><geometry><box size="1 1"/></geometry></collision></link>', 2, 
        "left out: size='1 1' is"),
}  # fmt: skip

#: What is only worth knowing.
NOTES = {
    "a point mass": ('ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"', 'ixx="0" iyy="0" izz="0"', 4, 
        "a point mass: 2 kg"),
}  # fmt: skip

NAMELESS_LINKS = ("a link without a name", "a link with an empty name", "two links of one name")

WARNINGS = {
    "no robot name": (' name="arm"', "", 1, "the robot has no name"),
    "equal limits": ('lower="-1"', 'lower="1"', 21, "both limits are 1, which locks the joint"),
    "a massless leaf": ('<mass value="1"/>\n      <inertia ixx="0.1"', '<mass value="0"/>\n      <inertia ixx="0"', 24, "singular"),
    "a misspelt element": ("<dynamics", "<dynamic", 22, "not read: <dynamic> in <joint>"),
    "a misspelt attribute": ('rpy="0 1.57 0"', 'rpi="0 1.57 0"', 17, 
        "not read: attribute 'rpi' of <origin>"),
    "soft limits": ("<axis", '<safety_controller soft_upper_limit="1"/><axis', 20, 
        "<safety_controller> in <joint>"),
    "limits of a continuous joint": ('"shoulder" type="revolute"', '"shoulder" type="continuous"', 21, 
        "no position limits"),
}  # fmt: skip


def test_the_description_that_the_mistakes_are_made_in_is_sound():
    assert check_urdf(ARM) == []
    assert load_urdf(ARM).topology.num_dofs == 2


@pytest.mark.parametrize("mistake", REFUSALS)
def test_refusals(mistake):
    old, new, line, words = REFUSALS[mistake]
    assert old in ARM
    with pytest.raises(DescriptionError) as caught:
        load_urdf(ARM.replace(old, new, 1))
    issues = caught.value.issues
    assert issues[0].line == line and words in issues[0].message, "\n".join(map(str, issues))
    assert all(
        issue.severity == "error" and issue.file == "<text>" and issue.fix for issue in issues
    )
    # A link that cannot be named is also missed where a joint names it; nothing else deserves a
    # second message.
    assert len(issues) == (2 if mistake in NAMELESS_LINKS else 1), "\n".join(map(str, issues))


@pytest.mark.parametrize("mistake", IMPOSSIBLE)
def test_what_no_body_has_is_computed_as_given_or_refused_or_mended(mistake):
    old, new, words = IMPOSSIBLE[mistake]
    text = ARM.replace(old, new, 1)
    (issue,) = check_urdf(text)
    assert (issue.severity, issue.line) == ("warning", 4) and words in issue.message
    with pytest.warns(DescriptionWarning) as caught:
        given = load_urdf(text)
    (warning,) = caught
    assert "'upper'" in str(warning.message) and "repair=('inertia',)" in str(warning.message)
    xx, xy, xz, yy, yz, zz = (
        float(re.search(f' i{key}="([^"]*)"', text)[1]) for key in INERTIA_KEYS
    )
    np.testing.assert_allclose(
        given.link_inertia[1], [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], rtol=1e-6
    )
    with pytest.raises(DescriptionError, match=re.escape(words)) as refusal:
        load_urdf(text, strict=True)
    assert [(issue.severity, issue.line) for issue in refusal.value.issues] == [("error", 4)]
    with pytest.warns(DescriptionWarning, match="repaired"):
        mended = load_urdf(text, repair="inertia", strict=True)
    moments = np.linalg.eigvalsh(mended.link_inertia[1])
    assert moments[0] >= 0.0 and moments[0] + moments[1] >= moments[2] * (1.0 - 1e-6)


@pytest.mark.parametrize(("old", "new"), WITHIN_ROUNDING)
def test_rounding_is_taken_silently(old, new):
    text = ARM.replace(old, new, 1)
    assert text != ARM and check_urdf(text, strict=True) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot = load_urdf(text, strict=True, dtype=np.float32)
    assert (
        np.linalg.eigvalsh(np.asarray(robot.link_inertia[1], float))[0]
        >= -1e-7 * np.abs(robot.link_inertia[1]).max()
    )


def test_long_lists_of_impossible_links_are_told_briefly():
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="3"/></inertial>'
    links = "".join(f'<link name="l{k}">{inertial}</link>' for k in range(500))
    joints = (
        f'<joint name="j{k}" type="fixed"><parent link="l0"/><child link="l{k}"/></joint>'
        for k in range(1, 500)
    )
    with pytest.warns(
        DescriptionWarning, match="500 links have physically impossible inertias"
    ) as caught:
        load_urdf(f'<robot name="many">{links}{"".join(joints)}</robot>')
    assert len(caught) == 1 and len(str(caught[0].message)) < 400


@pytest.mark.parametrize("oddity", WARNINGS)
def test_warnings(oddity):
    old, new, line, words = WARNINGS[oddity]
    assert old in ARM
    text = ARM.replace(old, new, 1)
    if oddity == "a massless leaf":
        text = text.replace(
            'ixx="0" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"', 'ixx="0" iyy="0" izz="0"'
        )
    issues = check_urdf(text)
    assert [(issue.severity, issue.line) for issue in issues] == [("warning", line)]
    assert words in issues[0].message
    with pytest.warns(DescriptionWarning) as caught:
        assert load_urdf(text).topology.num_links == 3
    assert [str(one.message) for one in caught] == [str(issue) for issue in issues]


@pytest.mark.parametrize("change", CHANGES)
def test_what_others_read_is_read_with_a_warning_or_refused_if_strict(change):
    old, new, line, words = CHANGES[change]
    assert old in ARM
    text = ARM.replace(old, new, 1)
    (issue,) = (issue for issue in check_urdf(text) if issue.severity == "warning")
    assert issue.line == line and words in issue.message and issue.fix
    with pytest.warns(DescriptionWarning) as caught:
        assert load_urdf(text).topology.num_links == 3
    assert [str(one.message) for one in caught] == [str(issue)]
    with pytest.raises(DescriptionError) as refusal:
        load_urdf(text, strict=True)
    assert [(issue.severity, issue.line) for issue in refusal.value.issues] == [("error", line)]
    assert words in refusal.value.issues[0].message


@pytest.mark.parametrize("note", NOTES)
def test_what_is_only_worth_knowing_is_said_by_the_checker_alone(note):
    old, new, line, words = NOTES[note]
    text = ARM.replace(old, new, 1)
    (issue,) = check_urdf(text, strict=True)
    assert (issue.severity, issue.line) == ("note", line) and words in issue.message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_urdf(text, strict=True).topology.num_links == 3


def test_a_joint_with_a_velocity_and_without_effort_is_passive():
    """As the pole of a cart: it moves, and no force is commanded."""
    text = ARM.replace('effort="10"', 'effort="0"', 1)
    assert check_urdf(text) == []
    robot = load_urdf(text, strict=True)
    np.testing.assert_array_equal(robot.max_joint_force, [0.0, 10.0])
    np.testing.assert_array_equal(robot.max_joint_velocity, [3.0, 3.0])
    for zeros in ('effort="0" velocity="0"', 'effort="0"'):
        with pytest.warns(DescriptionWarning):
            robot = load_urdf(ARM.replace('effort="10" velocity="3"', zeros, 1))
        np.testing.assert_array_equal(robot.max_joint_force, [np.inf, 10.0])
        np.testing.assert_array_equal(robot.max_joint_velocity, [np.inf, 3.0])


def test_warnings_of_one_kind_are_one_and_name_all():
    """At most ten names, and their number."""
    joint = '<joint name="j{k}" type="revolute"><parent link="l0"/><child link="l{k}"/><limit lower="-1" upper="1" '
    joint += 'effort="0" velocity="0"/></joint>'
    inertial = '<inertial><mass value="1"/></inertial>'
    for count in (2, 30):
        links = "".join(f'<link name="l{k}">{inertial}</link>' for k in range(count + 1))
        joints = "".join(joint.format(k=k) for k in range(1, count + 1))
        issues = check_urdf(f'<robot name="many">{links}{joints}</robot>')
        issues = [issue for issue in issues if issue.severity == "warning"]
        effort, inertia, velocity = sorted(issues, key=lambda issue: issue.message)
        assert effort.message.startswith(
            "effort is 0, and so is velocity or it is missing; read as no limit"
        )
        assert velocity.message.startswith(
            "velocity is 0, which would lock the joint; read as no limit"
        )
        assert (
            inertia.message
            == "it has no <inertia>: read without rotational inertia, as Pinocchio does"
        )
        names = "'j1', 'j2'" if count == 2 else ", ".join(f"'j{k}'" for k in range(1, 11)) + ", ..."
        assert effort.element == velocity.element == f"{count} <limit> elements ({names})"
        assert inertia.element.startswith(f"{count + 1} <inertial> elements ('l0', 'l1'")


def test_a_joint_that_moves_only_what_further_joints_carry_is_warned_of():
    start, end = ARM.index(
        "    <inertial>"), ARM.index(
        "  </link>\n  <link name=\"lower\"")  # fmt: skip
    issues = check_urdf(ARM[:start] + ARM[end:])
    assert [issue.severity for issue in issues] == ["note"]
    assert "link 'upper' has no mass of its own" in issues[0].message


def test_mass_on_a_fixed_child_counts_as_the_links_own():
    text = (
        ARM.replace(TYPE, 'name="elbow" type="fixed"')
        .replace("<mimic", "<!-- mimic")
        .replace('offset="0.5"/>', "-->")
    )
    start, end = text.index("    <inertial>"), text.index('  </link>\n  <link name="lower"')
    assert check_urdf(text[:start] + text[end:]) == []


def test_declaring_the_namespace_of_xacro_is_no_mistake():
    assert (
        check_urdf(ARM.replace("<robot", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"'))
        == []
    )


def test_another_format():
    (issue,) = check_urdf('<mujoco model="arm"><worldbody/></mujoco>')
    assert issue.message == "the outermost element of a URDF is <robot>"
    assert issue.fix == "read it with load_mjcf"


def test_no_link():
    issues = check_urdf('<robot name="nothing"/>')
    assert [issue.message for issue in issues] == ["it has no <link>"]


def test_an_empty_file(tmp_path):
    path = tmp_path / "empty.urdf"
    path.write_text("")
    assert "not well-formed XML (no element found)" in str(check_urdf(path)[0])


def test_an_unknown_encoding(tmp_path):
    path = tmp_path / "odd.urdf"
    path.write_bytes(b'<?xml version="1.0" encoding="klingon"?><robot/>')
    assert [issue.severity for issue in check_urdf(path)] == ["error"]


def test_all_errors_are_reported_at_once_in_the_order_of_the_file():
    text = ARM
    for old, new in (
        ('izz="0.1"', 'izz="-0.5"'),
        ('xyz="0 1 0"', 'xyz="0 0 0"'),
        ('"lower"/>', '"upper"/>'),
    ):
        text = text.replace(old, new, 1)
    with pytest.raises(DescriptionError, match="the description has 3 errors") as caught:
        load_urdf(text)
    assert [issue.line for issue in caught.value.issues] == [4, 20, 24]


def test_an_issue_prints_like_a_compilers_message():
    issue = Issue("error", "arm.urdf", 7, '<link name="x">', "what is wrong", "what to do")
    assert str(issue) == 'arm.urdf:7: error: <link name="x">: what is wrong; fix: what to do'


# --- size ---------------------------------------------------------------------------------------


def chain(count: int, kind: str) -> str:
    links = "".join(f'<link name="l{k}"/>' for k in range(count))
    joints = "".join(
        f'<joint name="j{k}" type="{kind}"><parent link="l{k - 1}"/><child link="l{k}"/></joint>'
        for k in range(1, count)
    )
    return f'<robot name="chain">{links}{joints}</robot>'


@pytest.mark.slow
@pytest.mark.parametrize("merge", [False, True])
def test_a_chain_of_5000_links_loads(merge):
    articulation = load_urdf(
        chain(5000, "fixed" if merge else "continuous"), merge_fixed_joints=merge
    )
    assert articulation.topology.num_links == (1 if merge else 5000)
    assert len(articulation.topology.frame_names) == (4999 if merge else 0)


def test_a_long_cycle_is_told_briefly():
    text = chain(5000, "fixed").replace(
        "</robot>",
        '<joint name="x" type="fixed"><parent link="l4999"/><child link="l0"/></joint></robot>',
    )
    start = time.process_time()
    (issue,) = check_urdf(text)
    assert "close a cycle" in issue.message and len(issue.message) < 300
    assert time.process_time() - start < 10


def test_deep_nesting_is_no_problem():
    depth = 30_000
    assert [
        issue.line for issue in check_urdf("<robot>" + "<a>" * depth + "</a>" * depth + "</robot>")
    ] == [1, 1, 1]
    assert (
        check_urdf(ARM.replace("</robot>", "<gazebo>" * depth + "</gazebo>" * depth + "</robot>"))
        == []
    )


# --- random mistakes ----------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    ["", "-", "0", "1e400", "1e30", "1e-320", "nan", "<", '"', "/>", "&lt;", "&#0;", "upper", "base", "lower", "fixed", "\ud800", "é"]
    + ["prismatic", "<inertial>", "</link>", '<link name="base">', "xacro:", "${x}", "<!--", "]]>", "\n", "\x00", "٣", "1_0", "0x1"]
)  # fmt: skip
SOURCES = [ARM, robots.path("cart_pole").read_text(), robots.path("arm7").read_text()[:4000]]


def loads_or_is_refused(text: str) -> None:
    """Any other exception fails the test."""
    for merge, repair in ((False, ()), (True, ("inertia", "mimic"))):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DescriptionWarning)
                load_urdf(text, merge_fixed_joints=merge, repair=repair)
        except DescriptionError as refusal:
            assert refusal.issues


@pytest.mark.slow
@settings(
    max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(
    source=st.sampled_from(SOURCES),
    edits=st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 12), FRAGMENTS), max_size=4),
)
def test_random_edits_are_refused_or_load(source, edits):
    for place, length, fragment in edits:
        place = 1 + place % (len(source) - 1)
        source = source[:place] + fragment + source[place + length :]
    loads_or_is_refused(source)


@pytest.mark.slow
@settings(
    max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(data=st.data())
def test_random_attribute_values_are_refused_or_load(data):
    pieces = data.draw(st.sampled_from(SOURCES[:2])).split('"')
    value = st.one_of(
        st.floats(-1e30, 1e30).map(repr),
        st.tuples(*[st.floats(-1e30, 1e30)] * 3).map(lambda v: " ".join(map(repr, v))),
        st.sampled_from(
            [
                "1e-300",
                "5e-324",
                "0",
                "-0",
                "world",
                "fixed",
                "prismatic",
                "base",
                "upper",
                "elbow",
                "floating",
            ]
        ),
    )
    for _ in range(data.draw(st.integers(1, 3))):
        place = 1 + 2 * data.draw(st.integers(0, len(pieces) // 2 - 1))
        pieces[place] = data.draw(value)
    text = '"'.join(pieces)
    loads_or_is_refused(text)
