"""What a task needs to know about a legged robot, derived from descriptions and compared with
Pinocchio."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import artix
from artix import envs
from artix.envs import legs
from artix.envs.legged_robot import by_joint, per_joint
from artix.envs.tasks.quadruped_velocity import FEET, quadruped
from artix.io.common.poses import poses_at_zero
from tests.support.oracles import ROBOTS, load_model

if not ROBOTS.exists():
    pytest.skip("example-robot-data is not installed", allow_module_level=True)

FILES = {
    "go2": "go2_description/urdf/go2.urdf",
    "anymal_c": "anymal_c_simple_description/urdf/anymal.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "bolt": "bolt_description/robots/bolt.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
}
#: Feet, a range for the height of the root [m], which way the knees point, and where the largest
#: forces come from.
EXPECTED = {
    "go2": (("FL_foot", "FR_foot", "RL_foot", "RR_foot"), (0.27, 0.34), "backward", "file"),
    "anymal_c": (
        ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
        (0.42, 0.6),
        "forward and backward",
        "file",
    ),
    "solo12": (("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"), (0.2, 0.26), "backward", "derived"),
    "bolt": (("FL_FOOT", "FR_FOOT"), (0.35, 0.45), "forward", "derived"),
    "talos": (("leg_left_6_link", "leg_right_6_link"), (1.0, 1.1), "forward", "file"),
    "g1": (("left_ankle_roll_link", "right_ankle_roll_link"), (0.72, 0.8), "forward", "file"),
}


def load(name, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", artix.DescriptionWarning)
        return artix.load(ROBOTS / FILES[name], **options)


def note(robot, name):
    return next(one for one in robot.assumptions if one.name == name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(x, marks=pytest.mark.slow) if x in ("g1", "solo12", "talos") else x
        for x in EXPECTED
    ],
)
def test_robots_stand_on_their_feet(name):
    feet, heights, knees, forces = EXPECTED[name]
    robot = envs.LeggedRobot.of(load(name, meshes="hull"))
    assert robot.feet == feet
    assert heights[0] < robot.height < heights[1]
    assert f"knees {knees}:" in note(robot, "default pose").value
    assert note(robot, "largest forces").source == forces
    articulation, pose = robot.articulation, np.asarray(robot.default_position, float)
    assert np.all(pose >= np.asarray(articulation.joint_lower_limit))
    assert np.all(pose <= np.asarray(articulation.joint_upper_limit))
    drive = articulation.drive
    for array in (
        drive.stiffness,
        drive.damping,
        drive.max_force,
        articulation.armature,
        robot.pose_weight,
    ):
        assert np.all(np.isfinite(array))
        assert np.all(np.asarray(array) > 0)

    # Pinocchio: the trunk level and the soles of all feet on the ground, under the hips or the
    # centre of mass.
    model = load_model(FILES[name], fixed_base=False)
    data, q = model.createData(), pin.neutral(model)
    q[2] = robot.height
    for dof, value in zip(articulation.topology.dof_names, pose, strict=True):
        joint = model.joints[model.getJointId(dof)]
        q[joint.idx_q : joint.idx_q + joint.nq] = (
            value if joint.nq == 1 else (np.cos(value), np.sin(value))
        )
    pin.framesForwardKinematics(model, data, q)
    places, bottoms = [], []
    for foot in feet:
        link = articulation.topology.link_index(foot)
        k = articulation.topology.geometry_index(foot)
        placement = data.oMf[model.getFrameId(foot)]
        shape, arrays = articulation.topology.geometries[k], articulation.geometry
        assert shape.link == link
        points = np.asarray(arrays.pose[k, :3], float)[None]
        if shape.num_points:
            first = sum(one.num_points for one in articulation.topology.geometries[:k])
            points = np.asarray(arrays.point[first : first + shape.num_points], float)
        world = points @ placement.rotation.T + placement.translation
        bottoms.append(world[:, 2] - float(arrays.size[k, 0]))
        places.append(world.mean(axis=0))
    assert np.abs(np.concatenate(bottoms)).max() < 3e-3 * robot.height
    places = np.stack(places)
    if len(feet) == 2:
        mass = pin.centerOfMass(model, data, q)
        ankles = [
            data.oMi[model.frames[model.getFrameId(foot)].parentJoint].translation[0]
            for foot in feet
        ]
        ahead = 0.0 if name == "bolt" else 0.5 * (places[:, 0].mean() - np.mean(ankles))
        assert abs(places[:, 0].mean() - ahead - mass[0]) < 5e-3 * robot.height
        assert abs(places[:, 1].mean() - mass[1]) < 0.02 * robot.height
    else:
        hips = {"go2": "{}_thigh_joint", "anymal_c": "{}_HFE", "solo12": "{}_HFE"}[name]
        x = [
            data.oMi[model.getJointId(hips.format(foot.split("_")[0]))].translation[0]
            for foot in feet
        ]
        np.testing.assert_allclose(places[:, 0], x, atol=3e-3 * robot.height)


def test_lowest_points_and_axes_while_all_joints_are_at_zero():
    """By NumPy, against distances from the ground and a Jacobian; of tilted shapes of each type."""
    builder = artix.builder_from_articulation(artix.robots.load("quadruped"))
    tilted = {"pose": (0.1, -0.2, 0.05, 0.5, 0.1, -0.7, 0.5)}
    points = np.random.default_rng(0).normal(size=(5, 3))
    for name, shape in {
        "sphere": artix.Geometry.sphere(0.1, position=(0.1, -0.2, 0.05)),
        "capsule": artix.Geometry.capsule(0.1, 0.3, **tilted),
        "box": artix.Geometry.box((0.1, 0.2, 0.3), **tilted),
        "cylinder": artix.Geometry.cylinder(0.1, 0.3, **tilted),
        "ellipsoid": artix.Geometry.ellipsoid((0.1, 0.2, 0.3), **tilted),
        "hull": artix.Geometry.hull(points, radius=0.02, **tilted),
    }.items():
        builder.add_geometry("front_left_foot", shape, name=name)
    robot = builder.build(dtype="float64")
    poses = poses_at_zero(robot)
    state = artix.neutral_state(robot)
    scene = artix.Scene(robot, ground=artix.Ground.flat(dtype=robot.dtype))
    np.testing.assert_allclose(
        legs._lowest_points(robot, poses), artix.geometry_distances(scene, state), atol=1e-12
    )
    lateral = legs._lateral_parts(robot, poses)
    for foot in FEET:
        jacobian = np.asarray(artix.frame_jacobian(robot, state, foot))
        jacobian = jacobian[:, robot.topology.num_base_dofs :]
        is_above = jacobian.any(axis=0)
        assert is_above.sum() == 3
        np.testing.assert_allclose(np.where(is_above, lateral, 0.0), jacobian[4], atol=1e-12)


@pytest.mark.slow
def test_the_default_pose_of_a_biped_stands():
    robot = envs.LeggedRobot.of(load("g1", meshes="hull"))
    environment = envs.make("humanoid_velocity", robot=robot).undisturbed()
    still = jnp.zeros(environment.action_size)

    def one(state, _):
        state = environment.step(state, still)
        return state, (state.articulation_state.root_pose, state.done)

    start = environment.reset(jax.random.key(0))
    _, (pose, done) = jax.jit(lambda state: jax.lax.scan(one, state, length=250))(start)  # 5 s
    assert not done.any()
    assert np.abs(pose[:, 2] - robot.height).max() < 0.02 * robot.height
    assert np.linalg.norm(pose[:, :2], axis=1).max() < 0.03


def test_without_meshes_it_says_which_option_reads_them():
    robot = envs.LeggedRobot.of(
        load("go2"), default_position={"thigh_joint": 0.8, "calf_joint": -1.6, "": 0.0}
    )
    assert (
        "sphere of radius 0.0213 m; the file has no shape there (meshes='hull'"
        in note(robot, "contact of a foot").value
    )
    assert note(robot, "default pose").source == "given"
    stiffness = np.asarray(robot.articulation.drive.stiffness)
    # Twice the weight on a foot at the length of the leg, for the hips; the calves' largest force
    # is 45.43 / 23.7 of it.
    weight = 9.81 * float(np.sum(load("go2").link_mass)) / 4
    assert stiffness[0] == pytest.approx(2 * weight * 0.426, rel=1e-2)
    np.testing.assert_allclose(stiffness[8:] / stiffness[:4], 45.43 / 23.7, rtol=1e-6)
    table = robot.table()
    assert all(f"\n  {one.name} " in f"\n{table}" for one in robot.assumptions)
    assert max(map(len, table.splitlines())) <= 110


def test_what_the_file_says_counts():
    given = quadruped().articulation
    robot = envs.LeggedRobot.of(
        given, FEET, default_position={"hip_pitch": 0.9, "knee": -1.8, "": 0.0}
    )
    np.testing.assert_array_equal(robot.articulation.drive.stiffness, given.drive.stiffness)
    np.testing.assert_array_equal(robot.articulation.drive.damping, given.drive.damping)
    assert {
        note(robot, name).source for name in ("stiffness", "damping", "largest forces", "IMU")
    } == {"file"}
    assert robot.height == pytest.approx(quadruped().height, abs=1e-6)  # In closed form.
    assert robot.imu == "imu"


@pytest.mark.slow
def test_everything_can_be_given():
    whole = artix.robots.load("quadruped")
    robot = envs.LeggedRobot.of(
        whole,
        FEET,
        imu="trunk",
        trunk=artix.Geometry.box((0.2, 0.1, 0.05), sensor=True),
        default_position=[0.0] * 4 + [0.9] * 4 + [-1.8] * 4,
        height=0.3,
        max_force=20.0,
        stiffness={"knee": 40.0, "": 30.0},
        damping=0.6,
        armature=0.01,
        pose_weight=jnp.ones(12),
        self_collision=True,
    )
    assert robot.imu == "trunk"
    assert robot.height == 0.3
    np.testing.assert_array_equal(robot.articulation.drive.stiffness, [30.0] * 8 + [40.0] * 4)
    np.testing.assert_array_equal(robot.articulation.drive.max_force, np.full(12, 20.0))
    np.testing.assert_allclose(robot.articulation.armature, np.full(12, 0.01), rtol=1e-6)
    known = (
        "feet",
        "IMU",
        "default pose",
        "height of the root",
        "trunk",
        "largest forces",
        "stiffness",
        "damping",
    )
    assert {note(robot, name).source for name in (*known, "armature", "self-collision")} == {
        "given"
    }
    across = {("front_left_foot", "rear_right_foot"), ("front_right_foot", "rear_left_foot")}
    pairs = {
        tuple(name.removeprefix("shank of ") for name in pair)
        for pair in robot.articulation.topology.geometry_pairs
    }
    assert len(pairs) == 4
    assert not pairs & across

    # Contacts between the shanks are not contacts of feet with the ground.
    environment = envs.make("quadruped_velocity", robot=robot)
    state = artix.neutral_state(robot.articulation)
    memory = {"gait": envs.tasks.legged.Gait.standing(4, robot.articulation.dtype)}
    scene = artix.Scene(robot.articulation, ground=environment.ground)
    count = len(artix.remember_contacts(scene, state).contact_memory.impulse)
    assert count > 4
    for touching in ((), (2,)):
        impulse = jnp.ones((count, 3), robot.articulation.dtype).at[:4].set(0)
        impulse = impulse.at[jnp.array(touching, int)].set(1)
        step = envs.Transition(
            robot.articulation, environment.ground, state, state, impulse, memory, jnp.zeros(12), {}
        )
        gait, _ = environment.gait(step)
        np.testing.assert_array_equal(gait.contact, [k in touching for k in range(4)])


def test_joints_without_limits_are_said():
    dog = artix.robots.load("quadruped")
    dog = dog.replace(joint_upper_limit=dog.joint_upper_limit.at[8].set(jnp.inf))
    pose = {"hip_pitch": 0.9, "knee": -1.8, "": 0.0}
    robot = envs.LeggedRobot.of(dog, FEET, default_position=pose)
    assert note(robot, "range of joints").value == "unlimited for front_left_knee"
    assert note(robot, "largest forces").source == "file"


def test_what_is_missing_is_named():
    def refused(message, *arguments, kind=ValueError, **options):
        with pytest.raises(kind, match=message):
            envs.LeggedRobot.of(*arguments, **options)

    dog = artix.robots.load("quadruped")
    refused("load it with fixed_base=False", artix.robots.load("arm7"))
    refused("name the links of the feet with feet=", artix.robots.load("arm7", fixed_base=False))
    refused("no link called 'paw' for a foot; choose from: trunk", dog, ("paw", "front_left_foot"))
    refused("feet: expected the names of different feet", dog, ("front_left_foot",) * 2)
    refused("feet: expected the names of different feet", dog, "front_left_foot")
    refused(
        "the foot 'trunk' does not move relative to the root", dog, ("trunk", "front_left_foot")
    )
    pose = {"hip_pitch": 0.9, "knee": -1.8, "": 0.0}
    refused("knees: expected 'forward' or 'backward'; found 'up'", dog, FEET, knees="up")
    refused("leg_extension", dog, FEET, leg_extension=1.5)
    refused(
        "stiffness: no joint ends with 'wrist'",
        dog,
        FEET,
        default_position=pose,
        stiffness={"wrist": 1.0},
    )
    refused(
        "no value for the joint 'front_left_hip_roll'", dog, FEET, default_position={"knee": -1.8}
    )
    refused(
        "damping: expected one number, one for each of the 12 joints",
        dog,
        FEET,
        default_position=pose,
        damping=[1.0],
    )
    refused(
        "max_force must be positive for at least one joint; found 0",
        dog,
        FEET,
        default_position=pose,
        max_force=0,
    )
    refused(
        "the robot has no mass; give its links inertias",
        dog.replace(link_mass=jnp.zeros_like(dog.link_mass)),
    )
    box = artix.Geometry.box((0.2, 0.1, 0.5), sensor=True)
    refused(
        "touches the ground in the default pose; give trunk=",
        dog,
        FEET,
        default_position=pose,
        trunk=box,
    )
    refused(
        "no additional frame|no .*'nose'",
        dog,
        FEET,
        default_position=pose,
        imu="nose",
        kind=(KeyError, ValueError),
    )
    with pytest.raises(ValueError, match="every number must be finite"):
        per_joint(dog, "stiffness", np.inf)
    with pytest.raises(ValueError, match="no value for the joint"):
        by_joint(dog, {"knee": 1.0})
