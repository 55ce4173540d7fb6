"""The URDF reader, element by element."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

from artix.io.common.description import repaired_inertia
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning
from artix.io.common.poses import rotation_matrix
from artix.io.urdf.reader import check_urdf, load_urdf
from artix.model.joints import Axis, JointType
from tests.support.rigid_bodies import placements, total_inertia

BODY = '<inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'


def two_links(joint: str, kind: str = "revolute", root: str = "base") -> str:
    """A root, a link, and between them a joint with the given content."""
    return (
        f'<robot name="two"><link name="{root}">{BODY}</link><link name="tip">{BODY}</link>'
        f'<joint name="hinge" type="{kind}"><parent link="{root}"/><child link="tip"/>{joint}</joint></robot>'
    )


LIMIT = '<limit lower="-1" upper="2" effort="30" velocity="4"/>'


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("fixed", JointType.FIX),
        ("revolute", JointType.REVOLUTE_UNWRAPPED),
        ("continuous", JointType.REVOLUTE),
        ("prismatic", JointType.PRISMATIC),
    ],
)
def test_joint_types(kind, expected):
    articulation = load_urdf(two_links(LIMIT, kind))
    assert articulation.topology.joint_types == (JointType.FIX, expected)
    assert articulation.topology.num_dofs == (0 if kind == "fixed" else 1)
    assert articulation.topology.joint_names == ("hinge",)


@pytest.mark.parametrize(
    ("kind", "xyz", "axis"),
    [
        ("revolute", "1 0 0", Axis.TWIST),
        ("revolute", "0 1 0", Axis.SWING1),
        ("revolute", "0 0 2", Axis.SWING2),
        ("prismatic", "3 0 0", Axis.X),
        ("prismatic", "0 1 0", Axis.Y),
        ("prismatic", "0 0 1", Axis.Z),
    ],
)
def test_coordinate_axes_keep_the_joint_frame_exact(kind, xyz, axis):
    articulation = load_urdf(two_links(f'<origin xyz="1 2 3"/><axis xyz="{xyz}"/>{LIMIT}', kind))
    assert articulation.topology.joint_axes[1] == (axis,)
    np.testing.assert_array_equal(articulation.joint_parent_pose[1], [1, 2, 3, 0, 0, 0, 1])
    np.testing.assert_array_equal(articulation.joint_child_pose[1], [0, 0, 0, 0, 0, 0, 1])


def test_a_joint_without_axis_has_the_x_axis():
    assert load_urdf(two_links(LIMIT)).topology.joint_axes[1] == (Axis.TWIST,)
    assert load_urdf(two_links(LIMIT, "prismatic")).topology.joint_axes[1] == (Axis.X,)


@pytest.mark.parametrize("xyz", ["-1 0 0", "0 -1 0", "0 0 -1", "1 2 -2", "-1 1e-9 0", "-3 0.1 0.2"])
@pytest.mark.parametrize("kind", ["continuous", "prismatic"])
def test_any_axis_moves_the_child_along_or_about_it(kind, xyz):
    with jax.enable_x64(True):
        articulation = load_urdf(
            two_links(f'<origin xyz="1 2 3" rpy="0.1 -0.2 0.3"/><axis xyz="{xyz}"/>{LIMIT}', kind)
        )
    axis = np.array(xyz.split(), float)
    axis /= np.linalg.norm(axis)
    at_zero, moved = (
        placements(articulation)["tip"],
        placements(articulation, {"hinge": 0.7})["tip"],
    )
    motion = np.linalg.inv(at_zero) @ moved
    if kind == "prismatic":
        expected_translation, expected_rotation = 0.7 * axis, np.eye(3)
    else:
        expected_translation = np.zeros(3)
        expected_rotation = rotation_matrix(np.append(np.sin(0.35) * axis, np.cos(0.35)))
    np.testing.assert_allclose(motion[:3, 3], expected_translation, atol=1e-12)
    np.testing.assert_allclose(motion[:3, :3], expected_rotation, atol=1e-12)
    np.testing.assert_allclose(at_zero[:3, 3], [1, 2, 3], atol=1e-12)


def test_rpy_turns_about_fixed_axes_x_then_y_then_z():
    roll, pitch, yaw = 0.3, -0.5, 1.1
    articulation = load_urdf(two_links(f'<origin rpy="{roll} {pitch} {yaw}"/>', "fixed"))
    cos, sin = np.cos, np.sin
    turn_x = np.array([[1, 0, 0], [0, cos(roll), -sin(roll)], [0, sin(roll), cos(roll)]])
    turn_y = np.array([[cos(pitch), 0, sin(pitch)], [0, 1, 0], [-sin(pitch), 0, cos(pitch)]])
    turn_z = np.array([[cos(yaw), -sin(yaw), 0], [sin(yaw), cos(yaw), 0], [0, 0, 1]])
    np.testing.assert_allclose(
        placements(articulation)["tip"][:3, :3], turn_z @ turn_y @ turn_x, atol=1e-6
    )


def test_limits_and_dynamics():
    dynamics = '<dynamics damping="0.5" friction="0.25"/>'
    articulation = load_urdf(two_links(LIMIT + dynamics))
    names = (
        "joint_lower_limit",
        "joint_upper_limit",
        "max_joint_force",
        "max_joint_velocity",
        "armature",
    )
    assert [float(getattr(articulation, name)[0]) for name in names] == [-1, 2, 30, 4, 0]
    friction = articulation.friction
    assert [float(x[0]) for x in (friction.static, friction.dynamic, friction.viscous)] == [
        0.25,
        0.25,
        0.5,
    ]


def test_limits_that_are_not_given_are_infinite():
    for text in (two_links(""), two_links('<limit effort="30"/>'), two_links(LIMIT, "continuous")):
        articulation = load_urdf(text)
        assert float(articulation.joint_lower_limit[0]) == -np.inf
        assert float(articulation.joint_upper_limit[0]) == np.inf
    assert float(load_urdf(two_links("")).max_joint_force[0]) == np.inf
    assert float(load_urdf(two_links('<limit upper="2"/>')).joint_lower_limit[0]) == 0


def test_a_rotated_inertial_keeps_its_own_axes():
    inertial = (
        '<inertial><origin xyz="0.1 0.2 0.3" rpy="0 0 1.5707963267948966"/><mass value="3"/>'
        '<inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0.01" ixz="0.02" iyz="0.03"/></inertial>'
    )
    articulation = load_urdf(f'<robot name="one"><link name="base">{inertial}</link></robot>')
    half = np.sqrt(0.5)
    np.testing.assert_allclose(
        articulation.link_com_pose[0], [0.1, 0.2, 0.3, 0, 0, half, half], atol=1e-7
    )
    given = [[0.1, 0.01, 0.02], [0.01, 0.2, 0.03], [0.02, 0.03, 0.25]]
    np.testing.assert_allclose(articulation.link_inertia[0], given, rtol=1e-6)
    _, _, turned = total_inertia(articulation)
    np.testing.assert_allclose(np.diag(turned), [0.2, 0.1, 0.25], rtol=1e-6)


def test_mimic_joints_follow_with_multiplier_and_offset():
    text = two_links(LIMIT).replace(
        "</robot>",
        f'<link name="finger">{BODY}</link><joint name="follower" type="prismatic"><parent link="tip"/>'
        f'<child link="finger"/>{LIMIT}<mimic joint="hinge" multiplier="-2" offset="0.5"/></joint></robot>',
    )
    articulation = load_urdf(text)
    assert articulation.topology.mimic_dofs == ((1, 0),)
    # q_follower = -2 q_hinge + 0.5, written as q_follower + G q_hinge + offset = 0.
    assert (float(articulation.mimic.gear_ratio[0]), float(articulation.mimic.offset[0])) == (
        2,
        -0.5,
    )


def test_the_base_is_fixed_if_the_root_is_called_world():
    assert load_urdf(two_links("", root="world")).topology.fixed_base
    assert not load_urdf(two_links("", root="base")).topology.fixed_base
    assert load_urdf(two_links("", root="base"), fixed_base=True).topology.fixed_base
    assert not load_urdf(two_links("", root="world"), fixed_base=False).topology.fixed_base


def test_options_reach_the_articulation():
    with jax.enable_x64(True):
        articulation = load_urdf(two_links(""), gravity=(0, 0, -1.62), dtype="float64")
        assert articulation.dtype == "float64"
    np.testing.assert_array_equal(articulation.gravity, [0, 0, -1.62])


def test_siblings_keep_the_order_of_their_joints_in_the_file():
    links = "".join(f'<link name="{name}"/>' for name in "abcd")
    joints = "".join(
        f'<joint name="to_{child}" type="fixed"><parent link="{parent}"/><child link="{child}"/></joint>'
        for parent, child in (("c", "d"), ("a", "c"), ("a", "b"))
    )
    assert load_urdf(f'<robot name="r">{links}{joints}</robot>').topology.link_names == (
        "a",
        "c",
        "b",
        "d",
    )


def test_what_is_not_dynamics_is_ignored():
    extras = (
        '<visual><geometry><mesh filename="package://nowhere/none.dae"/></geometry></visual>'
        '<collision><geometry><mesh filename="package://nowhere/none.stl"/></geometry></collision>'
        '<collision><geometry><box size="1 1"/></geometry></collision>'
    )
    text = two_links(
        LIMIT + '<safety_controller k_velocity="nan"/><calibration rising="x"/>'
    ).replace(
        "</robot>", "<gazebo><plugin/></gazebo><transmission/><ros2_control/><material/></robot>"
    )
    text = text.replace('<link name="tip">', '<link name="tip">' + extras)
    issues = check_urdf(text)
    [controller] = [issue for issue in issues if "<safety_controller> in <joint>" in issue.message]
    box, meshes = (issue for issue in issues if issue is not controller)
    assert (
        meshes.message == "collision meshes are left out, and links touch nothing without them: tip"
    )
    assert box.message == "left out: size='1 1' is malformed: found 2 numbers"
    assert {meshes.severity, box.severity} == {"warning"}
    assert float(load_urdf(text).link_mass.sum()) == 4
    assert not load_urdf(text).topology.geometries


def test_a_path_may_be_a_string_or_a_path_and_names_the_file_in_messages(tmp_path):
    path = tmp_path / "two.urdf"
    path.write_text(
        '<?xml version="1.0" encoding="latin-1"?>\n' + two_links('<axis xyz="0 0"/>'),
        encoding="latin-1",
    )
    for given in (path, str(path)):
        with pytest.raises(DescriptionError) as caught:
            load_urdf(given)
        assert str(caught.value.issues[0]).startswith(f"{path}:2: error: <axis> of <joint name=")
    with pytest.raises(FileNotFoundError):
        load_urdf(tmp_path / "absent.urdf")


def test_text_may_have_an_xml_declaration_after_blanks():
    text = '\n\n <?xml version="1.0" encoding="utf-16"?>\n' + two_links('<axis xyz="0 0"/>')
    assert [issue.line for issue in check_urdf(text) if issue.severity == "error"] == [4]


def test_wrong_arguments():
    with pytest.raises(TypeError, match="path or the text"):
        load_urdf(12)
    with pytest.raises(ValueError, match="unknown repair 'paint'; known repairs: inertia, mimic"):
        load_urdf(two_links(""), repair=("paint",))
    with pytest.raises(ValueError, match="gravity"):
        load_urdf(two_links(""), gravity=(0, 0))


# --- merging ------------------------------------------------------------------------------------

INERTIAL = (
    '<inertial><origin xyz="{x} 0.1 -0.2" rpy="0.1 {x} 0.3"/><mass value="{mass}"/>'
    '<inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0.01" ixz="0.02" iyz="0.03"/></inertial>'
)


def branched() -> str:
    """base -fixed- plate -fixed- bracket -hinge- arm -fixed- tool -fixed- tip, and plate -slide-
    drawer."""
    links = "".join(
        f'<link name="{name}">{"" if name == "tip" else INERTIAL.format(x=0.1 * k, mass=k + 1)}</link>'
        for k, name in enumerate(("base", "plate", "bracket", "arm", "tool", "tip", "drawer"))
    )
    joints = "".join(
        f'<joint name="{parent}_{child}" type="{kind}"><origin xyz="0.3 {k} 0.1" rpy="{k} 0.4 -0.2"/>'
        f'<parent link="{parent}"/><child link="{child}"/><axis xyz="1 2 3"/>{LIMIT}</joint>'
        for k, (parent, child, kind) in enumerate(
            (
                ("base", "plate", "fixed"),
                ("plate", "bracket", "fixed"),
                ("bracket", "arm", "revolute"),
                ("arm", "tool", "fixed"),
                ("tool", "tip", "fixed"),
                ("plate", "drawer", "prismatic"),
            )
        )
    )
    return f'<robot name="branched">{links}{joints}</robot>'


def test_merging_fixed_joints_keeps_places_and_inertia():
    position = {"bracket_arm": 0.4, "plate_drawer": -0.7}
    with jax.enable_x64(True):
        whole, merged = load_urdf(branched()), load_urdf(branched(), merge_fixed_joints=True)
    assert set(merged.topology.link_names) == {"base", "arm", "drawer"}
    assert set(merged.topology.frame_names) == {"plate", "bracket", "tool", "tip"}
    assert set(merged.topology.joint_names) == set(position)
    expected, found = placements(whole, position), placements(merged, position)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-12)
    for one, other in zip(
        total_inertia(whole, position), total_inertia(merged, position), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_merging_massless_links_keeps_the_inertia_of_the_rest_exact():
    text = two_links('<origin xyz="1 0 0"/>', "fixed").replace(
        f'<link name="base">{BODY}', '<link name="base">'
    )
    merged = load_urdf(text, merge_fixed_joints=True)
    np.testing.assert_array_equal(merged.link_com_pose[0], [1, 0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(merged.link_inertia[0], np.asarray(0.1 * np.eye(3), merged.dtype))


# --- repairs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ((1.0, 1.0, 10.0), (5.0, 5.0, 10.0)),
        ((1.0, 3.0, 10.0), (4.0, 6.0, 10.0)),
        ((0.0, 2.0, 2.0), (2e-6, 2.0, 2.0)),
        ((-1.0, 4.0, 4.0), (4e-6, 4.0, 4.0)),
    ],
)
def test_repaired_inertias_have_the_same_axes_and_moments_raised_as_little_as_needed(
    moments, expected
):
    axes = rotation_matrix(np.array([0.1, 0.5, -0.7, 0.5]))
    repaired = repaired_inertia(axes @ np.diag(moments) @ axes.T)
    np.testing.assert_allclose(axes.T @ repaired @ axes, np.diag(expected), atol=1e-12)


def test_repairs_are_reported_and_only_made_on_request():
    text = (
        two_links(LIMIT)
        .replace('izz="0.1"', 'izz="0.5"', 1)
        .replace("</joint>", '<mimic joint="nobody"/></joint>')
    )
    with pytest.raises(DescriptionError) as caught:
        load_urdf(text)
    (issue,) = caught.value.issues
    assert "'nobody'" in issue.message
    with pytest.warns(DescriptionWarning) as reported:
        articulation = load_urdf(text, repair=("inertia", "mimic"))
    messages = [
        str(warning.message) for warning in reported if warning.category is DescriptionWarning
    ]
    assert len(messages) == 2
    assert "its principal inertias are (0.25, 0.25, 0.5) kg m^2" in messages[0]
    assert "'nobody'" in messages[1]
    np.testing.assert_allclose(np.diagonal(articulation.link_inertia[0]), [0.25, 0.25, 0.5])
    assert articulation.topology.mimic_dofs == ()
    assert {issue.severity for issue in check_urdf(text, repair=("inertia", "mimic"))} == {
        "warning"
    }


def test_repair_drops_inertia_without_mass():
    text = two_links("").replace('<mass value="2"/>', '<mass value="0"/>', 1)
    with pytest.warns(DescriptionWarning, match="without mass cannot have inertia"):
        assert not np.any(load_urdf(text, repair="inertia").link_inertia[0])


def test_loading_a_sound_description_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_urdf(two_links(LIMIT), repair=("inertia", "mimic"))
