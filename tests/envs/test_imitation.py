"""Tasks that imitate a motion: their references, rewards, starts and ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.envs.control_step import Transition
from artix.envs.motion import Motion
from artix.envs.tasks.imitation import POINTS, REWARDS, Imitation


@pytest.fixture(scope="module")
def dance():
    return envs.make("humanoid_dance").undisturbed()


def at(environment: Imitation, frame: int, **changes) -> Transition:
    """A step that ends in a frame of the motion."""
    state = environment.motion.state(frame).replace(**changes)
    zero = jnp.zeros(environment.action_size, environment.articulation.dtype)
    target = environment.motion.joint_position[frame]
    memory = {"frame": jnp.asarray(frame), "target": target, "last_action": zero}
    return Transition(
        environment.articulation, environment.ground, state, state, None, memory, zero, {}
    )


@pytest.mark.slow
def test_the_motion_itself_gets_the_largest_reward(dance):
    outcome = dance.outcome(at(dance, 150))
    most = sum(each[0] for each in REWARDS.values() if isinstance(each, tuple))
    assert float(outcome.reward) == pytest.approx(most * dance.dt, rel=1e-5)
    assert not bool(outcome.terminated)
    assert float(outcome.metrics["points_error"]) < 1e-5


def test_errors_are_those_of_the_robot(dance):
    joints = dance.motion.joint_position[150].at[3].add(0.2)
    pose = dance.motion.root_pose[150].at[:3].add(jnp.array([0.03, 0.0, 0.04]))
    signals = dance.signals(at(dance, 150, joint_position=joints, root_pose=pose))
    assert float(signals["joint_error"][3]) == pytest.approx(0.2, abs=1e-6)
    assert float(jnp.linalg.norm(signals["root_error"])) == pytest.approx(0.05, abs=1e-6)
    # The left hip rolls: the left foot moves relative to the root, the right one does not.
    foot = {
        name: float(jnp.linalg.norm(signals["point_error"][k])) for k, name in enumerate(POINTS)
    }
    assert foot["left_sole"] > 0.1
    assert foot["right_sole"] < 1e-5


def test_an_episode_ends_far_from_the_motion(dance):
    pose = dance.motion.root_pose[10].at[0].add(0.5)
    assert bool(dance.outcome(at(dance, 10, root_pose=pose)).terminated)


def test_starts_are_frames_of_the_motion():
    environment = envs.make("humanoid_dance", resets={"joint_position": 0.01})
    states = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), 64))
    frame = np.asarray(states.info["frame"])
    assert frame.min() < 60
    assert frame.max() > 340
    place = states.articulation_state
    np.testing.assert_allclose(
        place.joint_position, environment.motion.joint_position[frame], atol=0.0101
    )
    np.testing.assert_allclose(
        place.root_velocity, environment.motion.root_velocity[frame], atol=1e-6
    )


@pytest.mark.slow
def test_frames_follow_each_other_and_loop(dance):
    state = jax.jit(dance.reset)(jax.random.key(0))
    last = dance.motion.num_frames - 1
    state = state.replace(info=state.info | {"frame": jnp.asarray(last)})
    state = jax.jit(dance.step)(state, jnp.zeros(dance.action_size))
    assert int(state.info["frame"]) == 0
    assert state.obs.shape == (17 + 5 * dance.action_size,)


def test_the_dance_could_be_danced(dance):
    """Feet stay where they stand, joints within their limits, and the centre of mass over the feet
    that stand."""
    robot, motion = dance.articulation, dance.motion
    states = jax.vmap(motion.state)(np.arange(motion.num_frames))
    soles = [
        np.asarray(jax.vmap(lambda s, foot=foot: artix.frame_pose(robot, s, foot))(states))
        for foot in ("left_sole", "right_sole")
    ]
    com = np.asarray(jax.vmap(lambda s: artix.center_of_mass(robot, s))(states))
    height = np.stack([sole[:, 2] for sole in soles])
    assert height.min() > -1e-3
    assert np.all(height.min(axis=0) < 1e-3)  # One foot is always on the ground.
    for sole, other in (soles, soles[::-1]):
        stands = sole[:, 2] < 1e-3
        assert np.ptp(sole[stands, :2], axis=0).max() < 1e-3
        alone = other[:, 2] > 0.01
        apart = np.abs(com[alone, :2] - sole[alone, :2])
        assert np.all(apart < [0.12, 0.05])  # The sole is 24 cm long and 10 cm wide.
    positions = np.asarray(motion.joint_position)
    assert np.all(positions > np.asarray(robot.joint_lower_limit) + 0.02)
    assert np.all(positions < np.asarray(robot.joint_upper_limit) - 0.02)
    assert np.abs(np.asarray(motion.joint_velocity)).max() < 10


def test_refusals(dance):
    quadruped = envs.make("quadruped_velocity").robot
    with pytest.raises(ValueError, match="the motion's joints are not the robot's"):
        Imitation(quadruped, dance.motion)
    with pytest.raises(ValueError, match="largest_errors"):
        envs.make("humanoid_dance", largest_errors={"hands": 0.1})
    with pytest.raises(ValueError, match="no reward called 'jump'"):
        envs.make("humanoid_dance", rewards={"jump": 1.0})


def test_a_motion_at_another_rate_is_resampled(dance):
    frames = slice(None, None, 2)
    slow = Motion.of(
        dance.articulation,
        25.0,
        dance.motion.root_pose[frames],
        dance.motion.joint_position[frames],
        loops=True,
    )
    environment = envs.make("humanoid_dance", motion=slow)
    assert environment.motion.num_frames == dance.motion.num_frames
    apart = environment.motion.joint_position - dance.motion.joint_position
    # Between frames it is linear; without the loop it would be 0.3.
    assert float(jnp.abs(apart).max()) < 0.015
