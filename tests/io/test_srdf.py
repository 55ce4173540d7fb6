"""SRDF beside Pinocchio's reader, and the warning of arms whose base floats."""

import warnings

import numpy as np
import pytest

import artix
from tests.support.oracles import ROBOTS

PENDULUM = artix.robots.load("double_pendulum")
SRDF = """<robot name="double_pendulum">
  <group name="all"><joint name="shoulder"/></group>
  <group_state name="bent" group="all"><joint name="{first}" value="0.25"/></group_state>
  <group_state name="bent" group="rest"><joint name="{second}" value="-0.5"/></group_state>
  <disable_collisions link1="{links[0]}" link2="{links[1]}" reason="Adjacent"/>
</robot>"""
NAMES = {
    "first": PENDULUM.topology.joint_names[0],
    "second": PENDULUM.topology.joint_names[1],
    "links": PENDULUM.topology.link_names[1:3],
}


def test_postures_and_pairs(tmp_path):
    file = tmp_path / "pendulum.srdf"
    file.write_text(SRDF.format(**NAMES))
    found = artix.load_srdf(PENDULUM, file)
    np.testing.assert_allclose(found.states["bent"].joint_position, [0.25, -0.5])
    assert found.disabled_links == (tuple(NAMES["links"]),)


def test_disabled_links_have_no_pairs():
    robot = artix.robots.load("quadruped")
    feet = [name for name in robot.topology.link_names if name.endswith("foot")]
    text = (
        f'<robot name="quadruped"><disable_collisions link1="{feet[1]}" link2="{feet[0]}"/></robot>'
    )
    every = artix.editing.possible_geometry_pairs(robot)
    kept = artix.load_srdf(robot, text).geometry_pairs
    links = {
        shape.name: robot.topology.link_names[shape.link] for shape in robot.topology.geometries
    }
    assert {frozenset(map(links.get, pair)) for pair in {*every} - {*kept}} == {frozenset(feet[:2])}
    assert artix.select_geometry_pairs(robot, kept).topology.geometry_pairs == kept


def test_links_without_default_collisions_keep_those_that_are_enabled():
    """As in MoveIt, whose setup assistant writes these elements."""
    robot = artix.robots.load("quadruped")
    feet = [shape.name for shape in robot.topology.geometries]
    text = f"""<robot name="quadruped"><disable_default_collisions link="{feet[0]}"/>
      <enable_collisions link1="{feet[2]}" link2="{feet[0]}"/></robot>"""
    every = artix.editing.possible_geometry_pairs(robot)
    srdf = artix.load_srdf(robot, text)
    wanted = [pair for pair in every if feet[0] not in pair or feet[2] in pair]
    assert [*srdf.geometry_pairs] == wanted
    assert (feet[0], "trunk") in srdf.disabled_links


def test_mistakes_are_said():
    with pytest.warns(artix.DescriptionWarning, match="of a robot called 'arm', not 'double_pend"):
        artix.load_srdf(PENDULUM, '<robot name="arm"/>')
    misspelt = (
        '<robot name="double_pendulum"><disable_collision link1="upper" link2="lower"/></robot>'
    )
    with pytest.warns(artix.DescriptionWarning, match="SRDF has no such element"):
        artix.load_srdf(PENDULUM, misspelt)
    with pytest.warns(
        artix.DescriptionWarning,
        match=r"<joint name=\"knee\">: left out: 'double_pendulum' has no joint",
    ):
        artix.load_srdf(PENDULUM, SRDF.format(**NAMES | {"first": "knee"}))
    with pytest.warns(artix.DescriptionWarning, match=r"has no link 'sole'"):
        artix.load_srdf(PENDULUM, SRDF.format(**NAMES | {"links": ("sole", "lower")}))
    with pytest.raises(artix.DescriptionError, match=r"value='0.2 5' is malformed"):
        artix.load_srdf(PENDULUM, SRDF.format(**NAMES).replace("0.25", "0.2 5"))
    with pytest.raises(artix.DescriptionError, match="an SRDF has <robot>"):
        artix.load_srdf(PENDULUM, "<mujoco/>")


def test_postures_are_those_of_pinocchio():
    pin = pytest.importorskip("pinocchio")
    folder = ROBOTS / "talos_data"
    if not folder.exists():
        pytest.skip("example-robot-data is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = artix.load_urdf(folder / "robots/talos_reduced.urdf")
    found = artix.load_srdf(robot, folder / "srdf/talos.srdf").states["half_sitting"]
    model = pin.buildModelFromUrdf(
        str(folder / "robots/talos_reduced.urdf"), pin.JointModelFreeFlyer()
    )
    pin.loadReferenceConfigurations(model, str(folder / "srdf/talos.srdf"), False)
    q = model.referenceConfigurations["half_sitting"]
    np.testing.assert_allclose(found.root_pose, q[:7], atol=1e-6)
    compared = 0
    for name in list(map(str, model.names))[2:]:  # after the world and the floating root
        joint = model.joints[model.getJointId(name)]
        if joint.nq == 1:
            np.testing.assert_allclose(
                found.joint_position[robot.topology.dofs(name)], q[joint.idx_q], atol=1e-6
            )
            compared += abs(q[joint.idx_q]) > 0.1
    assert compared > 5


def test_mimic_joints_follow_unless_they_are_named():
    """MoveIt's postures name the joint of one finger. URDF: q = multiplier q_reference + offset."""
    robot = chain(4)
    for k, (reference, multiplier, offset) in {1: ("j0", -2, 0.1), 2: ("j1", 0.5, 0)}.items():
        joint = f'<joint name="j{k}" type="continuous">'
        mimic = f'<mimic joint="{reference}" multiplier="{multiplier}" offset="{offset}"/>'
        robot = robot.replace(joint, joint + mimic)
    hand = artix.load_urdf(robot, fixed_base=True, dtype="float64")

    def posture(**values: float) -> np.ndarray:
        joints = "".join(f'<joint name="{name}" value="{x}"/>' for name, x in values.items())
        state = f'<group_state name="closed" group="hand">{joints}</group_state>'
        found = artix.load_srdf(hand, f'<robot name="arm">{state}</robot>')
        return found.states["closed"].joint_position

    np.testing.assert_allclose(posture(j0=0.3), [0.3, -0.5, -0.25, 0.0], atol=1e-15)
    np.testing.assert_allclose(posture(j0=0.3, j1=0.2), [0.3, 0.2, 0.1, 0.0], atol=1e-15)
    np.testing.assert_allclose(posture(j3=0.3), [0.0, 0.1, 0.05, 0.3], atol=1e-15)


def chain(count: int) -> str:
    """An arm of so many joints on a link that is not called world."""
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = [f'<link name="l{k}">{mass}</link>' for k in range(count + 1)]
    joints = [
        f'<joint name="j{k}" type="continuous"><parent link="l{k}"/><child link="l{k + 1}"/></joint>'
        for k in range(count)
    ]
    return f'<robot name="arm">{"".join(links + joints)}</robot>'


def test_an_arm_that_floats_is_said():
    words = "the base floats, though a single chain of 6 joints"
    with pytest.warns(artix.DescriptionWarning, match=words):
        assert not artix.load_urdf(chain(6)).topology.fixed_base
    for options in ({"fixed_base": True}, {"fixed_base": False}):
        assert not [
            issue for issue in artix.io.check_urdf(chain(6), **options) if words in issue.message
        ]
    assert not [issue for issue in artix.io.check_urdf(chain(2)) if "floats" in issue.message]
