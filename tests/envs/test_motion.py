"""Reference motions: files, rates and velocities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

import artix
from artix import envs
from artix.envs.motion import Motion


@pytest.fixture(scope="module")
def humanoid():
    return envs.make("humanoid_dance").articulation


def swinging(robot: artix.Articulation, rate: float, *, loops: bool = True) -> Motion:
    """Two seconds in which all joints swing and the root turns and moves on a circle."""
    time = np.arange(round(2 * rate)) / rate
    angle = np.pi * time
    root = np.zeros((len(time), 7))
    root[:, :3] = np.stack([0.2 * np.cos(angle), 0.2 * np.sin(angle), 1 + 0 * angle], axis=1)
    root[:, 3:] = Rotation.from_rotvec(
        0.4 * np.sin(angle)[:, None] * np.array([0.6, 0.0, 0.8])
    ).as_quat()
    joints = 0.3 * np.sin(angle)[:, None] * np.linspace(-1, 1, robot.topology.num_dofs)
    return Motion.of(robot, rate, root, joints, loops=loops)


@pytest.mark.slow
def test_velocities_are_derivatives(humanoid):
    # The second differences of sin(pi t) at 100 Hz are (pi / 100)^2 / 6 = 1.6e-4 of the velocity
    # off.
    motion = swinging(humanoid, 100.0)
    angle = np.pi * np.arange(200) / 100
    expected = 0.3 * np.pi * np.cos(angle)[:, None] * np.linspace(-1, 1, humanoid.topology.num_dofs)
    np.testing.assert_allclose(motion.joint_velocity, expected, atol=5e-4)
    turn = 0.4 * np.pi * np.cos(angle)[:, None] * np.array([0.6, 0.0, 0.8])
    np.testing.assert_allclose(motion.root_velocity[:, 3:], turn, atol=5e-4)
    # The velocity is that of the centre of mass of the root link.
    com = np.array(humanoid.link_com_pose[0, :3])
    arm = Rotation.from_quat(np.asarray(motion.root_pose[:, 3:])).apply(com)
    circle = 0.2 * np.pi * np.stack([-np.sin(angle), np.cos(angle), 0 * angle], axis=1)
    np.testing.assert_allclose(motion.root_velocity[:, :3], circle + np.cross(turn, arm), atol=5e-4)


def test_a_motion_that_does_not_loop_has_one_sided_velocities_at_its_ends(humanoid):
    time = np.arange(10) / 10
    root = np.tile(np.asarray(artix.neutral_state(humanoid).root_pose), (10, 1))
    joints = np.tile(time[:, None], (1, humanoid.topology.num_dofs))
    motion = Motion.of(humanoid, 10.0, root, joints, loops=False)
    np.testing.assert_allclose(motion.joint_velocity, 1.0, rtol=1e-5)
    assert motion.length == pytest.approx(0.9)
    with pytest.raises(ValueError, match="end near its start"):
        Motion.of(humanoid, 10.0, root, joints, loops=True)


@pytest.mark.parametrize("loops", [True, False])
def test_resampled_as_scipy_does(humanoid, loops):
    coarse = swinging(humanoid, 20.0, loops=loops)
    fine = coarse.resampled(humanoid, 50.0)
    assert fine.num_frames == (100 if loops else 98)
    assert fine.rate == 50.0
    times = np.arange(fine.num_frames) / 50
    inside = times <= 39 / 20  # SciPy does not know what comes after the last frame.
    rotations = Slerp(np.arange(40) / 20, Rotation.from_quat(np.asarray(coarse.root_pose[:, 3:])))(
        times[inside]
    )
    apart = (
        rotations.inv() * Rotation.from_quat(np.asarray(fine.root_pose[inside, 3:]))
    ).magnitude()
    assert apart.max() < 2e-6
    joint = np.interp(times[inside], np.arange(40) / 20, np.asarray(coarse.joint_position[:, 0]))
    np.testing.assert_allclose(fine.joint_position[inside, 0], joint, atol=1e-6)
    assert inside.sum() == 98


def test_files(humanoid, tmp_path):
    motion = swinging(humanoid, 50.0)
    motion.save(tmp_path / "swing.npz")
    again = Motion.load(tmp_path / "swing.npz", humanoid)
    assert jax.tree.all(
        jax.tree.map(lambda one, other: jnp.allclose(one, other, atol=1e-5), motion, again)
    )
    names = list(motion.joint_names)
    rows = np.concatenate([motion.root_pose, motion.joint_position[:, ::-1]], axis=1)
    header = ",".join([*("x", "y", "z", "qx", "qy", "qz", "qw"), *names[::-1]])
    np.savetxt(tmp_path / "swing.csv", rows, delimiter=",", header=header, comments="", fmt="%.9g")
    again = Motion.load(tmp_path / "swing.csv", humanoid, rate=50, loops=True)
    np.testing.assert_allclose(again.joint_position, motion.joint_position, atol=1e-6)
    np.savetxt(tmp_path / "plain.csv", rows, delimiter=",", fmt="%.9g")
    again = Motion.load(
        tmp_path / "plain.csv", humanoid, rate=50, loops=True, joint_names=names[::-1]
    )
    np.testing.assert_allclose(again.joint_position, motion.joint_position, atol=1e-6)


def test_refusals(humanoid, tmp_path):
    motion = swinging(humanoid, 50.0)
    motion.save(tmp_path / "swing.npz")
    with pytest.raises(ValueError, match="lacks the joints 'shoulder_yaw'"):
        Motion.load(tmp_path / "swing.npz", artix.robots.load("arm7"))
    np.savetxt(tmp_path / "plain.csv", np.ones((3, 32)), delimiter=",")
    with pytest.raises(ValueError, match="how many frames a second"):
        Motion.load(tmp_path / "plain.csv", humanoid)
    names = humanoid.topology.dof_names
    with pytest.raises(ValueError, match=f"has the joint '{names[0]}' more than once"):
        Motion.load(
            tmp_path / "plain.csv",
            humanoid,
            rate=30,
            joint_names=(*names[1:], *names[:1], names[0]),
        )
    with pytest.raises(ValueError, match="quaternion of frame 0 has length 2"):
        Motion.load(tmp_path / "plain.csv", humanoid, rate=30)
    joints = np.zeros((5, 25))
    joints[3, 2] = np.nan
    root = np.tile(np.asarray(artix.neutral_state(humanoid).root_pose), (5, 1))
    with pytest.raises(ValueError, match="joint_position: frame 3 is not finite"):
        Motion.of(humanoid, 50.0, root, joints, loops=False)
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(ValueError, match=r"text.npz: not a motion: it is no .npz archive"):
        Motion.load(tmp_path / "text.npz", humanoid)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="not a motion: there is no joint_names"):
        Motion.load(tmp_path / "other.npz", humanoid)
