"""Joints, actuators, couplings and frames of an MJCF, against MuJoCo's reading."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import DescriptionError, DescriptionWarning, JointType, LoopJointType
from artix.io.mjcf.reader import load_mjcf_all
from tests.support.rigid_bodies import matrix_from_pose

BODIES = """
<body name="base" pos="0.1 0.2 1" euler="10 20 30">
  <geom size="0.1" mass="2"/>
  <site name="mark" pos="0.1 0 0.3" euler="0 40 0"/>
  <body name="upper" pos="0 0 -0.3">
    <joint name="shoulder" axis="0 1 0" ref="20" range="-90 100" damping="0.3" frictionloss="0.2" armature="0.05"/>
    <joint name="twist" axis="0.6 0 0.8" pos="0.05 0 0.1"/>
    <geom type="capsule" size="0.04" fromto="0 0 0 0.1 0 -0.3" mass="1"/>
    <body name="plate" pos="0.1 0 -0.3" euler="0 0 15">
      <geom type="box" size="0.1 0.05 0.02" mass="0.5"/>
      <site name="tip" pos="0.2 0 0"/>
      <body name="lower">
        <joint name="slide" type="slide" axis="1 0 0" ref="0.2" damping="1"/>
        <geom size="0.05" pos="0.1 0 0" mass="0.7"/>
        <site name="far" pos="0.1 0.1 0"/>
        <body name="ball" pos="0.2 0 0">
          <joint name="wrist" type="ball" pos="0 0.02 0" damping="0.1" stiffness="2"/>
          <geom type="box" size="0.05 0.02 0.03" pos="0.1 0 0" mass="0.3"/>
        </body>
      </body>
    </body>
  </body>
</body>"""


def mjcf(bodies: str = BODIES, extra: str = "", option: str = "") -> str:
    return f'<mujoco model="arm">{option}<worldbody>{bodies}</worldbody>{extra}</mujoco>'


def free(bodies: str = BODIES) -> str:
    return bodies.replace('euler="10 20 30">', 'euler="10 20 30"><freejoint name="root"/>', 1)


def compiled(text: str, seed: int = 0):
    """MuJoCo's model and data at a random state, and the articulation's state there."""
    model = mujoco.MjModel.from_xml_string(text)
    data, rng = mujoco.MjData(model), np.random.default_rng(seed)
    mujoco.mj_integratePos(model, data.qpos, rng.uniform(-0.8, 0.8, model.nv), 1.0)
    data.qvel[:] = rng.normal(size=model.nv)
    data.ctrl[:] = rng.normal(size=model.nu)
    mujoco.mj_forward(model, data)
    return model, data


def refusals(text: str) -> list[str]:
    return [
        str(issue) for issue in artix.check_mjcf(text, strict=True) if issue.severity == "error"
    ]


def test_inertia_without_mass_is_computed_with_as_mujoco_does():
    sensor = '<body name="sensor" pos="0 0 1" euler="0 30 0"><inertial pos="0.1 0 0" mass="0" diaginertia="1 2 2"/></body>'
    text = mjcf(f'<body><joint name="hip" axis="1 0 0"/><geom size="0.1" mass="2"/>{sensor}</body>')
    model, data = compiled(text)
    expected = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, expected)
    for merge in (False, True):
        with pytest.warns(DescriptionWarning, match="'sensor'") as caught:
            robot = artix.load_mjcf(text, merge_fixed_joints=merge)
        assert ["inertia" in str(one.message) for one in caught] == [
            False,
            True,
        ]  # The first: no actuators.
        np.testing.assert_allclose(
            artix.mass_matrix(robot, artix.neutral_state(robot)), expected, rtol=1e-6
        )
    with pytest.raises(DescriptionError, match="without mass cannot have inertia"):
        artix.load_mjcf(text, strict=True)
    with pytest.warns(DescriptionWarning, match="repaired"):
        mended = artix.load_mjcf(text, repair="inertia")
    np.testing.assert_allclose(
        artix.mass_matrix(mended, artix.neutral_state(mended)), 0.008, rtol=1e-6
    )
    with pytest.raises(ValueError, match="unknown repair 'mimic'"):
        artix.load_mjcf(text, repair=("mimic",))


# --- coordinates, links and frames --------------------------------------------------------------


@pytest.mark.parametrize("merge", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bodies", [BODIES, free()], ids=["fixed", "floating"])
def test_poses_velocities_and_frames(bodies, merge):
    model, data = compiled(mjcf(bodies))
    robot = artix.load_mjcf(mjcf(bodies), merge_fixed_joints=merge)
    coordinates = artix.MujocoCoordinates(robot, model)
    state = coordinates.state(data.qpos, data.qvel)
    poses, velocities = (
        artix.frame_pose(robot, state),
        artix.frame_velocity(robot, state, offset="com"),
    )
    for link, name in enumerate(robot.topology.link_names):
        if name in ("world", "upper:shoulder"):
            continue
        body, velocity = model.body(name).id, np.zeros(6)
        np.testing.assert_allclose(poses[link, :3], data.xpos[body], atol=1e-12)
        np.testing.assert_allclose(
            matrix_from_pose(poses[link])[:3, :3], data.xmat[body].reshape(3, 3), atol=1e-12
        )
        if not merge:
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 0)
            np.testing.assert_allclose(velocities[link], np.roll(velocity, 3), atol=1e-12)
    assert ("plate" in robot.topology.frame_names) == merge
    for frame in ("mark", "tip", "far"):
        at = robot.topology.frame_names.index(frame)
        pose = artix.frame_pose(
            robot, state, robot.topology.frame_links[at], robot.frame_local_pose[at]
        )
        np.testing.assert_allclose(pose[:3], data.site(frame).xpos, atol=1e-12)
    qpos, qvel = coordinates.qpos_qvel(state, model.qpos0)
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-12)
    again = coordinates.state(qpos, qvel)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), again, state)


def test_coordinates_work_in_batches_and_refuse_another_model():
    model, _ = compiled(mjcf(free()))
    robot = artix.load_mjcf(mjcf(free()))
    coordinates = artix.MujocoCoordinates(robot, model)
    qpos = jnp.stack([jnp.asarray(model.qpos0)] * 3)
    states = jax.jit(jax.vmap(coordinates.state))(qpos, jnp.ones((3, model.nv)))
    assert states.joint_velocity.shape == (3, 6)
    with pytest.raises(ValueError, match="no joint called 'shoulder'"):
        artix.MujocoCoordinates(robot, mujoco.MjModel.from_xml_string("<mujoco/>"))
    with pytest.raises(TypeError, match=r"model: expected a mujoco\.MjModel, found str"):
        artix.MujocoCoordinates(robot, "robot.xml")


def test_coordinates_refuse_a_model_without_the_root():
    """Whose floating root would stay at the origin."""
    xml = """<mujoco><worldbody><body name="{}"><freejoint/><geom size="1"/></body></worldbody></mujoco>"""
    robot = artix.load_mjcf(xml.format("ball"))
    with pytest.raises(ValueError, match="no body called 'ball', the root of the articulation"):
        artix.MujocoCoordinates(robot, mujoco.MjModel.from_xml_string(xml.format("other")))


def test_coordinates_refuse_wrong_shapes_and_zero_quaternions():
    model = mujoco.MjModel.from_xml_string(mjcf(free()))
    robot = artix.load_mjcf(mjcf(free()))
    coordinates, rest = artix.MujocoCoordinates(robot, model), np.zeros(model.nv)
    for qpos, qvel, message in (
        (model.qpos0[1:], rest, r"qpos: expected shape \(14,\)"),
        (model.qpos0, rest[1:], r"qvel: expected shape \(12,\)"),
        (np.stack([model.qpos0] * 2), rest, r"qpos: expected shape \(14,\).*vmap"),
        (np.zeros(model.nq), rest, r"qpos\[10:14\]: expected a quaternion"),
        (jnp.zeros(model.nq), rest, r"qpos\[10:14\]: expected a quaternion"),
        (np.full(model.nq, np.nan), rest, r"qpos: every number must be finite"),
        (model.qpos0, rest + np.inf, r"qvel: every number must be finite"),
        (np.where(np.arange(model.nq) < 7, 0.0, 1.0), rest, r"qpos\[3:7\]: expected a quaternion"),
    ):
        with pytest.raises(ValueError, match=message):
            coordinates.state(qpos, qvel)
    with pytest.raises(ValueError, match=r"qpos: expected shape"):
        coordinates.qpos_qvel(artix.neutral_state(robot), rest)
    with pytest.raises(ValueError, match=r"state.joint_position: expected shape"):
        coordinates.qpos_qvel(
            artix.neutral_state(artix.load_mjcf(mjcf())).replace(joint_position=rest), model.qpos0
        )
    other = mujoco.MjModel.from_xml_string(
        mjcf(free().replace('name="slide" type="slide"', 'name="slide" type="ball"'))
    )
    with pytest.raises(ValueError, match="joint 'slide' is of another kind"):
        artix.MujocoCoordinates(robot, other)


def test_joints_have_the_numbers_of_the_file():
    robot = artix.load_mjcf(mjcf())
    topology = robot.topology
    assert topology.fixed_base
    assert topology.name == "arm"
    assert topology.link_names == (
        "world",
        "base",
        "upper:shoulder",
        "upper",
        "plate",
        "lower",
        "ball",
    )
    assert topology.joint_types[2] is JointType.REVOLUTE_UNWRAPPED
    shoulder, twist, wrist = (
        topology.dof_index("shoulder"),
        topology.dof_index("twist"),
        topology.dofs("wrist"),
    )
    np.testing.assert_allclose(robot.joint_lower_limit[shoulder], -np.pi / 2)
    np.testing.assert_allclose(robot.joint_upper_limit[shoulder], np.deg2rad(100))
    assert robot.joint_upper_limit[twist] == np.inf
    assert robot.armature[shoulder] == 0.05
    assert robot.friction.static[shoulder] == robot.friction.dynamic[shoulder] == 0.2
    assert robot.friction.viscous[shoulder] == 0.3
    np.testing.assert_array_equal(robot.friction.viscous[wrist], [0.1] * 3)
    np.testing.assert_array_equal(robot.drive.stiffness[wrist], [2.0] * 3)


def test_gravity_and_its_compensation():
    heavy = mjcf(
        BODIES.replace('name="lower"', 'name="lower" gravcomp="0.75"'),
        option='<option gravity="1 2 -3"/>',
    )
    robot = artix.load_mjcf(heavy)
    np.testing.assert_array_equal(robot.gravity, [1, 2, -3])
    assert robot.gravity_scale[robot.topology.link_index("lower")] == 0.25
    assert robot.gravity_scale[robot.topology.link_index("upper")] == 1.0
    springs = "spring" if hasattr(mujoco.mjtDisableBit, "mjDSBL_SPRING") else "passive"
    weightless = mjcf(option=f'<option><flag gravity="disable" {springs}="disable"/></option>')
    robot = artix.load_mjcf(weightless)
    assert not np.any(robot.gravity)
    assert not np.any(robot.drive.stiffness)


# --- forces -------------------------------------------------------------------------------------

ACTUATORS = """<actuator>
  <position name="servo" joint="shoulder" kp="30" kv="2" gear="2" forcerange="-50 50"/>
  <velocity name="speed" joint="twist" kv="5" gear="3"/>
  <general name="affine" joint="slide" gainprm="7" biastype="affine" biasprm="0.5 -4 -0.6" gear="1.5"/>
</actuator>"""


def test_drives_give_the_forces_of_mujoco():
    text = mjcf(
        BODIES.replace('frictionloss="0.2"', ""), ACTUATORS.replace('forcerange="-50 50"', "")
    )
    model, data = compiled(text)
    robot = artix.load_mjcf(text)
    state = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
    drive, n = robot.drive, robot.topology.num_dofs
    target, target_velocity = np.array(drive.target_position), np.zeros(n)
    dof = {name: robot.topology.dof_index(name) for name in ("shoulder", "twist", "slide")}
    # docs/formats.md: the target of a control, for a gain, a gear and the stiffness or damping of
    # the actuator.
    target[dof["shoulder"]] += data.ctrl[0] / 2
    target_velocity[dof["twist"]] += data.ctrl[1] / 3
    target[dof["slide"]] += 7 * data.ctrl[2] / (4 * 1.5)
    force = drive.stiffness * (target - state.joint_position) + drive.damping * (
        target_velocity - state.joint_velocity
    )
    force = force - robot.friction.viscous * state.joint_velocity
    order = np.concatenate(
        [[model.joint(name).dofadr[0]] for name in ("shoulder", "twist", "slide")]
    )
    expected = np.concatenate([order, model.joint("wrist").dofadr[0] + np.arange(3)])
    np.testing.assert_allclose(
        force, (data.qfrc_actuator + data.qfrc_passive)[expected], rtol=1e-12, atol=1e-12
    )
    limited = artix.load_mjcf(mjcf(extra=ACTUATORS))
    assert limited.drive.max_force[dof["shoulder"]] == 100.0
    assert np.all(limited.max_joint_force == np.inf)


def test_motors_limit_the_commanded_force():
    text = mjcf(
        BODIES.replace('name="twist"', 'name="twist" actuatorfrcrange="-6 6"'),
        """<actuator><motor joint="shoulder" gear="20" ctrlrange="-1 1"/><motor joint="twist" gear="10"/>
        <motor joint="slide" gear="2" forcerange="-3 4"/></actuator>""",
    )
    robot = artix.load_mjcf(text)
    limits = [
        float(robot.max_joint_force[robot.topology.dof_index(name)])
        for name in ("shoulder", "twist", "slide")
    ]
    assert limits == [20.0, 6.0, 8.0]
    assert np.all(robot.drive.stiffness[:3] == 0.0)


def test_motors_without_clamped_controls_are_limited_by_their_force_only():
    motors = '<actuator><motor joint="twist" gear="3" ctrlrange="-1 1"/><motor joint="slide" forcerange="-3 4"/></actuator>'
    limits = artix.load_mjcf(
        mjcf(extra=motors, option='<option><flag clampctrl="disable"/></option>')
    ).max_joint_force
    topology = artix.load_mjcf(mjcf()).topology
    np.testing.assert_array_equal(
        [limits[topology.dof_index(name)] for name in ("twist", "slide")], [np.inf, 4.0]
    )


@pytest.mark.parametrize("actuators", ['<position joint="twist"/>', '<motor joint="twist"/>'])
def test_a_limit_on_the_sum_of_a_servo_and_a_motor_is_reported(actuators):
    bodies = BODIES.replace('name="twist"', 'name="twist" actuatorfrcrange="-6 6"')
    both = '<position joint="twist"/><motor joint="twist"/>'
    for text, said in ((actuators, 0), (both, 1)):
        issues = artix.check_mjcf(mjcf(bodies, f"<actuator>{text}</actuator>"))
        assert sum("limits the sum" in issue.message for issue in issues) == said


@pytest.mark.parametrize("limit", ['ctrlrange="0 2"', 'forcerange="-3 2"'])
def test_motors_that_pull_harder_in_one_direction_are_reported(limit):
    text = mjcf(extra=f'<actuator><motor joint="twist" {limit}/></actuator>')
    assert sum("is not symmetric" in issue.message for issue in artix.check_mjcf(text)) == 1


@pytest.mark.parametrize(
    ("motors", "unlimited"),
    [
        ('<motor joint="wrist" gear="0 0 -20" ctrlrange="-1 1"/>', [0, 1]),
        (
            '<motor joint="wrist" gear="0 7" ctrlrange="-1 1"/><motor joint="wrist" gear="2" forcerange="-3 4"/>',
            [2],
        ),
        (
            '<motor joint="wrist" gear="0 7" ctrlrange="-1 1"/><motor joint="wrist" gear="0 7"/>',
            [0, 1, 2],
        ),
    ],
)
def test_motors_on_a_ball_joint_limit_its_components(motors, unlimited, tmp_path):
    text = mjcf(extra=f"<actuator>{motors}</actuator>")
    model, robot = mujoco.MjModel.from_xml_string(text), artix.load_mjcf(text)
    data, limits = (
        mujoco.MjData(model),
        np.array(robot.max_joint_force[robot.topology.dofs("wrist")]),
    )
    data.ctrl[:] = 1e3
    mujoco.mj_forward(model, data)
    np.testing.assert_array_equal(np.flatnonzero(limits == np.inf), unlimited)
    limited = np.setdiff1d(np.arange(3), unlimited)
    np.testing.assert_allclose(
        limits[limited], np.abs(data.joint("wrist").qfrc_actuator[limited]), rtol=1e-12
    )
    artix.save(robot, tmp_path / "again.xml")
    np.testing.assert_array_equal(
        artix.load(tmp_path / "again.xml").max_joint_force, robot.max_joint_force
    )


@pytest.mark.parametrize(
    ("motor", "message"),
    [
        (
            '<motor joint="root" gear="1 0 0 0 0 0" ctrlrange="-1 1"/>',
            "a motor on a free joint is not read",
        ),
        (
            '<motor joint="wrist" gear="1 2 0" ctrlrange="-1 1"/>',
            "not one of a component of the ball joint's torque",
        ),
        (
            '<motor jointinparent="wrist" gear="1" forcerange="-1 1"/>',
            "not one of a component of the ball joint",
        ),
    ],
)
def test_motors_whose_limit_is_not_read_are_reported(motor, message):
    text = mjcf(free(), f"<actuator>{motor}</actuator>")
    assert sum(message in issue.message for issue in artix.check_mjcf(text)) == 1
    assert np.all(artix.load_mjcf(text).max_joint_force == np.inf)


def test_springs_pull_to_their_reference():
    text = mjcf(BODIES.replace('name="twist"', 'name="twist" stiffness="9" springref="-30"'))
    robot = artix.load_mjcf(text)
    dof = robot.topology.dof_index("twist")
    assert robot.drive.stiffness[dof] == 9.0
    np.testing.assert_allclose(robot.drive.target_position[dof], np.deg2rad(-30))


def test_springs_of_ball_joints_are_reported_as_they_pull_differently(tmp_path):
    text = """<mujoco><worldbody><body><joint name="wrist" type="ball" stiffness="2"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody></mujoco>"""
    model, robot = mujoco.MjModel.from_xml_string(text), artix.load_mjcf(text)
    data, angle = mujoco.MjData(model), 1.0
    data.qpos[:] = [np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0]
    mujoco.mj_forward(model, data)
    state = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
    torque = artix.vector_field(0.0, state, (robot, None)).joint_velocity[0]
    np.testing.assert_allclose(
        [data.qacc[0], torque], [-2 * angle, -4 * np.sin(angle / 2)], rtol=1e-6
    )
    issues = [*artix.check_mjcf(text), *artix.save(robot, tmp_path / "again.xml")]
    assert sum("2 sin(a/2)" in issue.message for issue in issues) == 2


def test_tendons_have_the_lengths_of_mujoco():
    merged = mjcf(
        extra="""<tendon><fixed name="cable" stiffness="40" damping="3" springlength="0.3">
        <joint joint="shoulder" coef="0.5"/><joint joint="slide" coef="-2"/></fixed>
        <spatial name="rope" stiffness="25"><site site="mark"/><site site="far"/></spatial>
        <spatial name="slack" stiffness="25" springlength="0.1 0.4"><site site="mark"/><site site="tip"/></spatial>
        </tendon>"""
    )
    model, data = compiled(merged)
    robot = artix.load_mjcf(merged, merge_fixed_joints=True)
    topology, fixed, spatial = robot.topology, robot.fixed_tendons, robot.spatial_tendons
    state = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
    cable = topology.fixed_tendons[0]
    assert [topology.dof_names[dof] for dof in cable.dofs] == ["shoulder", "twist", "slide"]
    assert topology.link_names[cable.root_link] == "world"  # into which the base is merged
    length = np.sum(fixed.coefficient * state.joint_position[np.array(cable.dofs)])
    np.testing.assert_allclose(length, data.ten_length[0], rtol=1e-12)

    poses = artix.frame_pose(robot, state)
    links = np.array([link for one in topology.spatial_tendons for link in one.links])
    points = [
        matrix_from_pose(poses[k])[:3] @ [*at, 1.0]
        for k, at in zip(links, spatial.position, strict=True)
    ]
    np.testing.assert_allclose(
        np.linalg.norm(points[0] - points[1]), data.ten_length[1], rtol=1e-12
    )
    np.testing.assert_allclose(spatial.rest_length[1], model.tendon_lengthspring[1, 0], rtol=1e-12)
    assert (spatial.stiffness[1], spatial.limit_stiffness[1]) == (0.0, 25.0)
    np.testing.assert_allclose([spatial.lower_limit[3], spatial.upper_limit[3]], [0.1, 0.4])
    # Without merging, a rigid body is between the joints of the cable
    assert refusals(merged) != []


HAND = """<body name="palm" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.05" mass="2"/>
<site name="a" pos="0.2 0 0.1"/>
<body name="left" pos="0.1 0.1 0"><joint name="left" axis="0 1 0.3"/><geom size="0.1" pos="0 0 0.3" mass="1"/>
<body name="tip" pos="0 0 0.4"><joint name="tip" axis="0 1 0"/><geom size="0.1" pos="0 0 0.3" mass="0.5"/>
<site name="c" pos="0.1 0 0.2"/></body><site name="b" pos="0.2 0.1 0.2"/></body>
<body name="right" pos="0.1 -0.1 0"><joint name="right" axis="0.2 1 0" pos="0.02 0 0"/>
<geom size="0.1" pos="0 0 0.3" mass="1"/><body name="nail" pos="0 0 0.4"><joint name="nail" type="slide" axis="0 0 1"/>
<geom size="0.05" mass="0.2"/></body></body></body>"""
GAINS = 'stiffness="40" damping="3"'


def joints(*coefficients: tuple[str, float], springlength: str = "0.1") -> str:
    wraps = "".join(
        f'<joint joint="{joint}" coef="{coefficient}"/>' for joint, coefficient in coefficients
    )
    return f'<fixed name="t" {GAINS} springlength="{springlength}">{wraps}</fixed>'


def sites(names: str, springlength: str = "0.1") -> str:
    wraps = "".join(f'<site site="{name}"/>' for name in names)
    return f'<spatial name="t" {GAINS} springlength="{springlength}">{wraps}</spatial>'


@pytest.mark.parametrize(
    ("tendon", "by_physx"),
    [
        (joints(("left", 2.0)), True),
        pytest.param(joints(("left", 1.0), ("right", -1.5)), True, marks=pytest.mark.slow),
        (joints(("left", 1.0), ("right", -1.5), springlength="-0.1 0.1"), True),
        pytest.param(joints(("left", 1.0), ("tip", -2.0)), False, marks=pytest.mark.slow),
        (joints(("tip", 1.0), ("nail", 3.0), springlength="-0.1 0.1"), False),
        (sites("ac"), True),
        pytest.param(sites("abc"), False, marks=pytest.mark.slow),
        (sites("abc", "0 0.1"), False),
    ],
)
def test_accelerations_with_tendons_are_those_of_mujoco(tendon, by_physx, tmp_path):
    """Where PhysX's law differs from MuJoCo's, a warning says which law to simulate with."""
    text = mjcf(
        HAND.replace("<geom", '<geom contype="0" conaffinity="0"'), f"<tendon>{tendon}</tendon>"
    )
    robot = artix.load_mjcf(text)
    assert any("virtual_work" in issue.fix for issue in artix.check_mjcf(text)) != by_physx
    artix.save(robot, tmp_path / "again.xml")
    rewritten = mujoco.MjModel.from_xml_path(str(tmp_path / "again.xml"))
    for seed in range(3):
        model, data = compiled(text, seed)
        again = mujoco.MjData(rewritten)
        again.qpos[:], again.qvel[:] = data.qpos, data.qvel
        mujoco.mj_forward(rewritten, again)
        np.testing.assert_allclose(again.qacc, data.qacc, rtol=1e-9, atol=1e-9)
        state = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
        order = [int(model.joint(name).dofadr[0]) for name in robot.topology.dof_names]
        for law in ("virtual_work", "physx") if by_physx else ("virtual_work",):
            rate = artix.vector_field(0.0, state, (robot, None), tendon_law=law)
            np.testing.assert_allclose(rate.joint_velocity, data.qacc[order], rtol=1e-9, atol=1e-9)


# --- equalities ---------------------------------------------------------------------------------


CABLE = """<tendon><fixed name="cable"><joint joint="slide" coef="2"/><joint joint="shoulder" coef="-3"/></fixed></tendon>
<equality><tendon tendon1="cable" polycoef="0.4 0 0 0 0"/></equality>"""


@pytest.mark.parametrize(
    ("equality", "factor"),
    [
        (
            '<equality><joint joint1="slide" joint2="shoulder" polycoef="0.3 -0.7 0 0 0"/></equality>',
            1.0,
        ),
        (CABLE, 2.0),
    ],
)
def test_an_equality_of_two_joints_is_a_mimic_joint(equality, factor):
    text = mjcf(extra=equality)
    model, data = compiled(text)
    robot = artix.load_mjcf(text)
    state = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
    [(follower, reference)] = robot.topology.mimic_dofs
    q = state.joint_position
    residual = q[follower] + robot.mimic.gear_ratio[0] * q[reference] + robot.mimic.offset[0]
    [row] = np.flatnonzero(data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    np.testing.assert_allclose(factor * residual, data.efc_pos[row], rtol=1e-12)


@pytest.mark.parametrize(
    ("equality", "kind"),
    [
        ('<connect body1="ball" body2="base" anchor="0.1 0.2 0.3"/>', LoopJointType.SPHERICAL),
        ('<connect body1="ball" anchor="0.1 0.2 0.3"/>', LoopJointType.SPHERICAL),
        ('<connect site1="far" site2="mark"/>', LoopJointType.SPHERICAL),
        ('<weld body1="ball" body2="base" anchor="0.1 0.2 0.3"/>', LoopJointType.FIXED),
        ('<weld body1="ball" relpose="0.3 0 0 0.5 0.5 0.5 0.5"/>', LoopJointType.FIXED),
        ('<weld site1="far" site2="mark"/>', LoopJointType.FIXED),
        ('<weld site1="far" site2="mark" torquescale="0"/>', LoopJointType.SPHERICAL),
    ],
)
def test_connect_and_weld_are_loop_joints(equality, kind):
    text = mjcf(extra=f"<equality>{equality}</equality>")
    model, data = compiled(text)
    robot = artix.load_mjcf(text, merge_fixed_joints=True)
    state = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
    poses, [joint], numbers = (
        artix.frame_pose(robot, state),
        robot.topology.loop_joints,
        robot.loop_joints,
    )
    assert joint.type is kind
    frame_a = matrix_from_pose(numbers.pose_a[0])
    frame_a = frame_a if joint.link_a < 0 else matrix_from_pose(poses[joint.link_a]) @ frame_a
    frame_b = matrix_from_pose(poses[joint.link_b]) @ matrix_from_pose(numbers.pose_b[0])
    rows = np.flatnonzero(data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    gap = np.linalg.norm(frame_a[:3, 3] - frame_b[:3, 3])
    np.testing.assert_allclose(gap, np.linalg.norm(data.efc_pos[rows[:3]]), rtol=1e-12)
    if kind is LoopJointType.FIXED:
        # MuJoCo's angular residual is the vector part of the relative quaternion.
        turn = frame_a[:3, :3].T @ frame_b[:3, :3]
        half_angle = 0.5 * np.arccos(np.clip(0.5 * (np.trace(turn) - 1.0), -1.0, 1.0))
        np.testing.assert_allclose(
            np.sin(half_angle), np.linalg.norm(data.efc_pos[rows[3:6]]), rtol=1e-9
        )


# --- several articulations ----------------------------------------------------------------------

WORLD = mjcf(
    free()
    + '<body name="cube"><freejoint/><geom size="0.1"/><site name="on_cube"/></body>'
    + '<body name="door"><joint name="hinge"/><geom size="1"/></body>'
)


def test_a_model_of_several_articulations():
    robots = load_mjcf_all(WORLD)
    assert list(robots) == ["world", "base", "cube"]
    assert [one.topology.fixed_base for one in robots.values()] == [True, False, False]
    assert robots["world"].topology.link_names == ("world", "door")
    assert artix.load_mjcf(WORLD, body="base").topology == robots["base"].topology
    with pytest.raises(ValueError, match=r"3 articulations \('world', 'base', 'cube'\)"):
        artix.load_mjcf(WORLD)
    with pytest.raises(ValueError, match="no child of the world is called 'lower'"):
        artix.load_mjcf(WORLD, body="lower")


def test_a_base_may_be_fixed_or_freed():
    fixed = artix.load_mjcf(WORLD, body="base", fixed_base=True)
    assert fixed.topology.link_names[:2] == ("world", "base")
    np.testing.assert_allclose(fixed.joint_parent_pose[1, :3], [0.1, 0.2, 1.0])
    freed = artix.load_mjcf(mjcf(), body="base", fixed_base=False)
    assert not freed.topology.fixed_base
    assert freed.topology.link_names[0] == "base"
    with pytest.raises(ValueError, match="'door' cannot float"):
        artix.load_mjcf(WORLD, body="door", fixed_base=False)


@pytest.mark.parametrize(
    ("coupling", "kind"),
    [
        ('<equality><weld body1="cube" body2="ball"/></equality>', "equality"),
        ('<equality><weld body1="ball" body2="cube"/></equality>', "equality"),
        ('<equality><connect site1="far" site2="on_cube"/></equality>', "equality"),
        ('<equality><joint joint1="hinge" joint2="slide"/></equality>', "equality"),
        ('<equality><joint joint1="slide" joint2="hinge"/></equality>', "equality"),
        (
            '<tendon><spatial stiffness="1"><site site="far"/><site site="on_cube"/></spatial></tendon>',
            "tendon",
        ),
        (
            '<tendon><spatial stiffness="1"><site site="origin"/><site site="on_cube"/></spatial></tendon>',
            "tendon",
        ),
        (
            '<tendon><fixed stiffness="1"><joint joint="hinge" coef="1"/><joint joint="slide" coef="1"/></fixed></tendon>',
            "tendon",
        ),
    ],
)
def test_couplings_across_articulations_are_refused_once(coupling, kind):
    text = WORLD.replace("</worldbody>", f'<site name="origin"/></worldbody>{coupling}')
    with pytest.raises(DescriptionError, match="it couples two articulations"):
        load_mjcf_all(text, strict=True)
    assert len(refusals(text)) == 1
    for options in ({}, {"strict": True, "skip": kind}):
        with pytest.warns(DescriptionWarning, match="left out: it couples two"):
            assert len(load_mjcf_all(text, **options)) == 3
    ends = {"hinge": "world", "slide": "base", "far": "base", "ball": "base", "origin": "world"}
    for end, root in ends.items():
        if f'"{end}"' in coupling:
            with pytest.raises(DescriptionError, match="it couples two articulations"):
                artix.load_mjcf(text, body=root, strict=True)


@pytest.mark.parametrize(
    "ends", ['body1="world" body2="cube"', 'body1="cube" body2="world"', 'body1="cube"']
)
def test_a_coupling_to_the_world_belongs_to_what_it_holds(ends):
    text = WORLD.replace(
        "</worldbody>", f'</worldbody><equality><connect {ends} anchor="0 0 0"/></equality>'
    )
    loops = {name: len(robot.topology.loop_joints) for name, robot in load_mjcf_all(text).items()}
    assert loops == {"world": 0, "base": 0, "cube": 1}


MODEL = mujoco.MjModel.from_xml_string(mjcf())
PID = '<config key="kp" value="40"/><config key="kd" value="2"/>'

# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (mjcf(option='<option density="1000"/>'), "fluid", "no fluid forces"),
        (
            mjcf(BODIES.replace('name="wrist"', 'name="wrist" range="0 30"')),
            "limit",
            "angle of a ball joint",
        ),
        (
            mjcf(free().replace("<freejoint", '<joint type="free" damping="1"')),
            "free_joint",
            "its damping",
        ),
        (
            mjcf(BODIES.replace('name="shoulder"', 'name="shoulder" stiffness="-1"')),
            "spring",
            "its stiffness is negative",
        ),
        (
            mjcf(extra='<actuator><intvelocity joint="twist" actrange="-1 1"/></actuator>'),
            "actuator",
            "integrator",
        ),
        (
            mjcf(extra='<actuator><muscle joint="twist" lengthrange="0 1"/></actuator>'),
            "actuator",
            "muscle",
        ),
        (
            mjcf(extra='<actuator><position joint="twist"/><position joint="twist"/></actuator>'),
            "actuator",
            "another servo",
        ),
        (
            mjcf(extra='<actuator><position joint="twist" forcerange="-1 2"/></actuator>'),
            "actuator",
            "forcerange is not symmetric",
        ),
        (
            mjcf(
                extra='<equality><joint joint1="slide" joint2="twist" polycoef="0 0 1 0 0"/></equality>'
            ),
            "equality",
            "not linear",
        ),
        pytest.param(
            mjcf(extra='<actuator><motor joint="twist" damping="0 1"/></actuator>'),
            "actuator",
            "an actuator with dampingpoly",
            marks=pytest.mark.skipif(
                not hasattr(MODEL, "actuator_dampingpoly"), reason="a later MuJoCo has it"
            ),
        ),
        (
            mjcf(
                extra=f'<extension><plugin plugin="mujoco.pid"><instance name="pid">{PID}</instance></plugin></extension>'
                '<actuator><plugin joint="twist" plugin="mujoco.pid" instance="pid"/></actuator>'
            ),
            "actuator",
            "a plugin computes its force",
        ),
        (
            mjcf(
                extra='<tendon><fixed name="t" actuatorfrcrange="-1 1"><joint joint="twist" coef="1"/>'
                '</fixed></tendon><actuator><motor tendon="t" gear="10"/></actuator>'
            ),
            "tendon",
            "its actuatorfrcrange",
        ),
        (
            mjcf(
                extra='<tendon><spatial name="p"><site site="mark"/><site site="tip"/><pulley divisor="2"/>'
                '<site site="mark"/><site site="far"/></spatial></tendon>'
            ),
            "tendon",
            '<spatial name="p">: artix does not support this element of its path: pulley',
        ),
    ],
)
def test_what_cannot_be_carried_over_is_refused_or_left_out(text, kind, message):
    with pytest.raises(DescriptionError, match=message) as caught:
        artix.load_mjcf(text, strict=True)
    assert f"skip=('{kind}',)" in str(caught.value)
    for options in ({}, {"strict": True, "skip": (kind,)}):
        with pytest.warns(DescriptionWarning, match=message.split(": ")[-1]):
            artix.load_mjcf(text, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco>\n<worldbody>\n<body>\n</mujoco>", ":4: error: XML: not well-formed"),
        ("<robot/>", "read it with load_urdf"),
        (
            "<mujoco>\n<worldbody>\n<geom sise='1'/></worldbody></mujoco>",
            ":3: error: <mujoco>: MuJoCo's compiler",
        ),
        (
            "\n\ufeff\n<?xml version='1.0'?>\n<mujoco>\n<geom/></mujoco>",
            ":5: error: <mujoco>: MuJoCo's compiler",
        ),
        (mjcf("<body><joint/></body>"), "mass and inertia of moving bodies"),
        (
            mjcf(BODIES.replace('pos="0 0 -0.3"', 'pos="nan 0 0"')),
            '<body name="upper">: body_pos is not finite',
        ),
        (mjcf(option='<option gravity="inf 0 0"/>'), "gravity is not finite"),
        (
            mjcf(extra='<custom><numeric name="n" size="2000000000"/></custom>'),
            "would take much memory",
        ),
        (
            mjcf(
                '<replicate count="9999"><replicate count="9999"><geom size="1"/></replicate></replicate>'
            ),
            "copies",
        ),
        ('<!DOCTYPE a [<!ENTITY b "c">]><mujoco/>', "document type declarations"),
    ],
)
def test_broken_models_are_refused_with_their_place(text, message):
    with pytest.raises(DescriptionError) as caught:
        artix.load_mjcf(text)
    assert message in str(caught.value)
    assert any(issue.severity == "error" for issue in artix.check_mjcf(text))


def test_an_issue_names_the_included_file_and_line(tmp_path):
    (tmp_path / "joints.xml").write_text(
        "<mujoco>\n<actuator>\n<muscle name='m' joint='twist' lengthrange='0 "
        "1'/>\n</actuator>\n</mujoco>",
        encoding="utf-8",
    )
    path = tmp_path / "robot.xml"
    path.write_text(mjcf(extra='<include file="joints.xml"/>'), encoding="utf-8")
    [issue] = [issue for issue in artix.check_mjcf(path, strict=True) if issue.severity == "error"]
    assert (issue.file, issue.line, issue.element) == (
        str(tmp_path / "joints.xml"),
        3,
        '<muscle name="m">',
    )
    assert artix.load(path, skip="actuator").topology.num_dofs == 6


def test_keyframes_and_mocap_bodies_are_reported():
    text = mjcf(
        BODIES + '<body name="hand" mocap="true"/>', '<keyframe><key name="home"/></keyframe>'
    )
    messages = [issue.message for issue in artix.check_mjcf(text)]
    assert any("1 keyframe is a state" in message for message in messages)
    assert any("mocap" in message for message in messages)
    with pytest.warns(DescriptionWarning) as caught:
        artix.load_mjcf(text)
    issues = [issue for issue in artix.check_mjcf(text) if issue.severity == "warning"]
    assert [str(one.message) for one in caught] == [str(issue) for issue in issues]


def test_unnamed_elements_get_names():
    text = mjcf(
        '<body><joint/><joint axis="0 1 0"/><geom size="1"/><body><geom size="1"/></body></body>'
    )
    topology = artix.load_mjcf(text).topology
    assert topology.link_names == ("world", "body1:body1_joint", "body1", "body2")
    assert topology.joint_names == ("body1_joint", "body1_joint_2", "body2_joint")


def test_without_mujoco_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"pip install 'artix\[mjcf\]'"):
        artix.load_mjcf(mjcf())


def test_a_disabled_solver_of_constraints_has_no_limits_equalities_and_friction():
    extra = '<equality><joint joint1="slide" joint2="twist"/></equality>'
    text = mjcf(extra=extra, option='<option><flag constraint="disable"/></option>')
    robot, kept = artix.load_mjcf(text), artix.load_mjcf(mjcf(extra=extra))
    assert np.all(robot.joint_upper_limit == np.inf) and not np.all(
        kept.joint_upper_limit == np.inf
    )
    assert not np.any(robot.friction.static) and np.any(kept.friction.static)
    assert (robot.topology.mimic_dofs, len(kept.topology.mimic_dofs)) == ((), 1)
    assert sum("disables contacts" in issue.message for issue in artix.check_mjcf(text)) == 1


def test_all_among_the_kinds_to_skip_skips_all():
    text = mjcf(option='<option density="1000"/>')
    for skip in ("all", ("all",), ["actuator", "all"]):
        with pytest.warns(DescriptionWarning, match="left out"):
            artix.load_mjcf(text, skip=skip)


def test_unknown_kinds_to_skip_are_refused():
    with pytest.raises(ValueError, match="nothing called 'muscle' can be skipped"):
        artix.load_mjcf(mjcf(), skip="muscle")


def test_what_is_switched_off_or_counted_elsewhere_is_reported():
    text = mjcf(
        BODIES.replace('name="twist"', 'name="twist" actuatorgravcomp="true"'),
        '<actuator><position joint="slide" kp="3" group="2"/><muscle joint="twist" group="2"/></actuator>',
        '<option actuatorgroupdisable="2"/>',
    ).replace("<muscle", '<muscle lengthrange="0 1"')
    messages = [issue.message for issue in artix.check_mjcf(text)]
    (issue,) = (issue for issue in artix.check_mjcf(text) if "it is disabled" in issue.message)
    assert issue.element == "2 <actuator> elements (number 0, number 1)"
    assert (
        sum("counts its gravity compensation as actuator effort" in message for message in messages)
        == 1
    )
    robot = artix.load_mjcf(text)
    assert robot.drive.stiffness[robot.topology.dof_index("slide")] == 0.0


def test_links_with_other_gravity_are_not_merged_through_one_without_mass() -> None:
    text = """<mujoco><worldbody><body name="host"><joint name="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -1" mass="1" diaginertia=".1 .1 .1"/><body name="mount" gravcomp="1"><body name="balloon"
    gravcomp="1" pos="0 0 -1"><inertial pos="0 0 0" mass="2" diaginertia=".1 .1 .1"/></body></body></body></worldbody>
    </mujoco>"""
    for merge in (False, True):
        robot = artix.load_mjcf(text, merge_fixed_joints=merge)
        state = artix.neutral_state(robot).replace(joint_position=jnp.array([0.5]))
        np.testing.assert_allclose(
            artix.gravity_compensation(robot, state), 9.81 * np.sin(0.5), rtol=1e-5
        )


def test_dampers_beside_a_servo_pull_as_in_mujoco() -> None:
    text = """<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><inertial pos="0 0 0" mass="1"
    diaginertia="1 1 1"/></body></worldbody><actuator>
    <general joint="a" biastype="affine" gainprm="0" biasprm="3 0 -1"/>
    <general joint="a" biastype="affine" gainprm="0" biasprm="2 -5 -4"/></actuator></mujoco>"""
    robot, model = artix.load_mjcf(text), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos[0], data.qvel[0] = 0.2, 0.3
    mujoco.mj_forward(model, data)
    drive = robot.drive
    force = drive.stiffness * (drive.target_position - 0.2) + drive.damping * (
        drive.target_velocity - 0.3
    )
    np.testing.assert_allclose(force, data.qfrc_actuator, rtol=1e-6)


@pytest.mark.parametrize(
    ("geoms", "said"),
    [
        (1, "1 geom of type mesh is left out and touches nothing (body ball)"),
        (2, "2 geoms of type mesh are left out and touch nothing (body ball)"),
    ],
)
def test_messages_count_one_thing_as_one(geoms: int, said: str):
    text = f"""<mujoco><asset><mesh name="round" builtin="sphere" params="2"/></asset>
      <worldbody><geom type="plane" size="1 1 1"/>
      <body name="ball"><freejoint/>{geoms * '<geom type="mesh" mesh="round"/>'}</body>
    </worldbody><keyframe><key/></keyframe></mujoco>"""
    messages = [issue.message for issue in artix.io.check_mjcf(text)]
    assert said in messages
    assert "1 keyframe is a state, which an articulation does not contain" in messages
