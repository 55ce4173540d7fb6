"""Inverse kinematics: reachable targets are reached within the limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import optimal_control
from artix.math.spatial import quaternion_product
from tests.support.models import random_states


def seeds_of(articulation, count: int) -> artix.State:
    return jax.vmap(lambda key: artix.random_state(articulation, key))(jax.random.split(jax.random.key(1), count))


@pytest.mark.slow
def test_an_arm_reaches_what_it_can():
    arm = artix.robots.load("arm7").astype(jnp.float32)
    keys = jax.random.split(jax.random.key(0), 200)
    targets = jax.vmap(lambda key: artix.frame_pose(arm, artix.random_state(arm, key), "tool"))(keys)
    seeds = seeds_of(arm, 16)
    find = jax.jit(
        jax.vmap(lambda target: optimal_control.inverse_kinematics(arm, ["tool"], target[None], seeds, iterations=40))
    )
    found = find(targets)
    assert np.mean(found.solved) >= 0.98  # 99.3 to 100 %, depending on the seeds
    position = found.state.joint_position
    assert np.all((position >= arm.joint_lower_limit) & (position <= arm.joint_upper_limit))
    # Judged by kinematics, not by what it says of itself.
    exact, states = arm.astype(jnp.float64), jax.tree.map(lambda x: x.astype(jnp.float64), found.state)
    poses = jax.vmap(lambda state: artix.frame_pose(exact, state, "tool"))(states)
    distance = np.linalg.norm(poses[:, :3] - targets[:, :3].astype(jnp.float64), axis=1)
    reached, wanted = (np.asarray(x[:, 3:], np.float64) for x in (poses, targets))
    units = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (reached, wanted))
    (v, w), (u, t) = ((x[:, :3], x[:, 3:]) for x in units)
    half = np.linalg.norm(t * v - w * u - np.cross(u, v), axis=1)  # the sine: exact for small angles in float32, too
    assert np.mean((distance < 1.1e-4) & (2 * half < 1.1e-3)) >= 0.98


def test_a_target_out_of_reach_is_said_to_be():
    arm = artix.robots.load("arm7").astype(jnp.float32)
    target = jnp.array([[5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], jnp.float32)
    found = jax.jit(lambda: optimal_control.inverse_kinematics(arm, ["tool"], target, seeds_of(arm, 4)))()
    assert not found.solved
    assert found.position_error > 3


@pytest.mark.slow
def test_all_feet_of_a_floating_base():
    robot = artix.robots.load("quadruped").astype(jnp.float32)
    feet = [name for name in robot.topology.link_names if name.endswith("foot")]
    seeds = jax.tree.map(lambda x: x[None], artix.neutral_state(robot))
    bent = artix.neutral_state(robot).replace(joint_position=jnp.array([0.1] * 4 + [0.8] * 4 + [-1.5] * 4, jnp.float32))
    targets = jnp.stack([artix.frame_pose(robot, bent, foot) for foot in feet])
    find = jax.jit(lambda: optimal_control.inverse_kinematics(robot, feet, targets, seeds, rotation_weight=0.0))
    found = find()
    assert found.solved
    assert found.position_error < 1e-4


def test_the_jacobian_is_that_of_the_error():
    from artix.optimal_control.inverse_kinematics import _error_jacobian

    arm = artix.robots.load("arm7").astype(jnp.float64)
    state = jax.tree.map(lambda x: x[0], random_states(arm, 1))
    target = artix.frame_pose(arm, jax.tree.map(lambda x: x[0], random_states(arm, 1, 5)), "tool")

    def error(change):
        return optimal_control.frame_pose(arm, artix.integrate(arm, state, change), "tool", target)

    wanted, found = jax.jit(lambda: (jax.jacfwd(error)(jnp.zeros(7)), _error_jacobian(arm, state, "tool", target)))()
    np.testing.assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.slow
def test_the_derivative_of_a_solution_keeps_frames_at_their_targets():
    """The reached pose moves as its target does, and stays there when the links' lengths change."""
    arm = artix.robots.load("arm7").astype(jnp.float64)
    seeds, target = seeds_of(arm, 8), artix.frame_pose(arm, artix.random_state(arm, jax.random.key(5)), "tool")

    def reached(change, scale):
        turned = quaternion_product(artix.lie.so3_exp(change[3:]), target[3:])
        goal = jnp.concatenate([target[:3] + change[:3], turned])
        longer = arm.replace(joint_parent_pose=arm.joint_parent_pose.at[:, :3].multiply(scale))
        found = optimal_control.inverse_kinematics(longer, ["tool"], goal[None], seeds, iterations=40)
        return optimal_control.frame_pose(longer, found.state, "tool", target), found.solved

    at = jnp.zeros(6), jnp.ones(())
    assert jax.jit(reached)(*at)[1]
    by_length = jax.jit(jax.jacfwd(lambda scale: reached(at[0], scale)[0]))(at[1])
    by_target = jax.jit(jax.jacrev(lambda change: reached(change, at[1])[0]))(at[0])
    np.testing.assert_allclose(by_length, 0, atol=1e-9)
    np.testing.assert_allclose(by_target, np.eye(6), atol=1e-9)


def test_a_joint_at_its_limit_moves_with_it():
    """The other joints keep the tool where it is, by the least displacement."""
    arm = artix.robots.load("arm7").astype(jnp.float64)
    lower, upper = arm.joint_lower_limit, arm.joint_upper_limit
    position = artix.random_state(arm, jax.random.key(2)).joint_position.at[1].set(lower[1]).at[5].set(upper[5])
    state = artix.neutral_state(arm).replace(joint_position=position)
    goal, seeds = artix.frame_pose(arm, state, "tool"), jax.tree.map(lambda x: x[None], state)

    def found(lower, upper):
        moved = arm.replace(joint_lower_limit=lower, joint_upper_limit=upper)
        found = optimal_control.inverse_kinematics(moved, ["tool"], goal[None], seeds, rotation_weight=0, iterations=1)
        return found.state.joint_position

    jacobian, free = np.asarray(artix.frame_jacobian(arm, state, "tool"))[:3], [0, 2, 3, 4, 6]
    by_lower, by_upper = jax.jit(jax.jacrev(found, (0, 1)))(lower, upper)
    for joint, by_limit in ((1, by_lower), (5, by_upper)):
        wanted = np.zeros((7, 7))
        wanted[joint, joint] = 1
        wanted[free, joint] = -np.linalg.pinv(jacobian[:, free]) @ jacobian[:, joint]
        np.testing.assert_allclose(by_limit, wanted, atol=1e-9)


def test_what_is_asked_is_checked():
    arm = artix.robots.load("arm7")
    with pytest.raises(ValueError, match=r"targets: expected shape \[1, 7\]"):
        optimal_control.inverse_kinematics(arm, ["tool"], jnp.zeros(7), artix.neutral_state(arm))
    with pytest.raises(ValueError, match="a leading axis over seeds"):
        optimal_control.inverse_kinematics(arm, ["tool"], jnp.ones((1, 7)), artix.neutral_state(arm))
    with pytest.raises(ValueError, match="targets: expected a quaternion"):
        optimal_control.inverse_kinematics(arm, ["tool"], jnp.zeros((1, 7)), seeds_of(arm, 2))
    seeds = seeds_of(arm, 2)
    target, seeds = jnp.eye(7)[6:], seeds.replace(root_pose=seeds.root_pose.at[1].set(0))
    with pytest.raises(ValueError, match=r"seeds\.root_pose: expected a quaternion"):
        optimal_control.inverse_kinematics(arm, ["tool"], target, seeds)
    with pytest.raises(TypeError, match=r"frames: .* write \['tool'\]"):
        optimal_control.inverse_kinematics(arm, "tool", jnp.ones((1, 7)), seeds_of(arm, 2))


def test_seeds_that_are_not_finite():
    arm = artix.robots.load("arm7").astype("float64")
    keys = jax.random.split(jax.random.key(0), 9)
    states = jax.vmap(lambda key: artix.random_state(arm, key))(keys)
    goal = artix.frame_pose(arm, jax.tree.map(lambda x: x[8], states), "tool")[None]
    seeds = jax.tree.map(lambda x: x[:8], states)
    spoiled = seeds.replace(joint_position=seeds.joint_position.at[3, 2].set(jnp.nan))
    with pytest.raises(ValueError, match=r"seeds\.joint_position: every number must be finite"):
        optimal_control.inverse_kinematics(arm, ["tool"], goal, spoiled)
    traced = jax.jit(lambda seeds: optimal_control.inverse_kinematics(arm, ["tool"], goal, seeds))
    assert traced(spoiled).solved
    with pytest.raises(ValueError, match=r"seeds\.root_pose: expected"):
        optimal_control.inverse_kinematics(arm, ["tool"], goal, seeds.replace(root_pose=seeds.root_pose[0]))


def test_one_weight_for_all_rotations():
    arm = artix.robots.load("arm7")
    seeds = jax.tree.map(lambda leaf: leaf[None], artix.neutral_state(arm))
    targets = jnp.zeros((2, 7), arm.dtype).at[:, 6].set(1.0)
    with pytest.raises(ValueError, match=r"rotation_weight: expected one number for all frames; found shape \(2,\)"):
        optimal_control.inverse_kinematics(
            arm, ["tool", "hand"], targets, seeds, rotation_weight=jnp.array([0.3, 0.0], arm.dtype)
        )


def test_the_posture_follows_the_target_without_jumps(arm7_searches):
    """Which seed had the least error was decided by rounding: 1e-9 m moved joints by 1.3 rad."""
    arm, seeds, find = arm7_searches
    state = jax.tree.map(lambda x: x[0], seeds)
    target = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(5)), "tool")
    here = find(target, seeds, state)
    assert here.solved
    moved = find(target.at[0].add(1e-9), seeds, state)
    assert jnp.abs(moved.state.joint_position - here.state.joint_position).max() < 1e-6
    last, first = here.state, lambda one: jax.tree.map(lambda a, b: jnp.concatenate([a[None], b[1:]]), one, seeds)
    for k in range(1, 20):
        end = find(target.at[2].add(1e-4 * k), first(last), last)
        assert end.solved
        assert jnp.abs(end.state.joint_position - last.joint_position).max() < 2e-2
        last = end.state


def test_the_nearest_of_the_postures_that_reach_is_returned(arm7_searches):
    """Beside all seeds, one by one."""
    arm, seeds, find = arm7_searches
    target = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(6)), "tool")
    near = jax.tree.map(lambda x: x[3], seeds)
    alone = jax.tree.map(lambda x: jnp.stack([x] * len(seeds.joint_position)), seeds)
    ends = [find(target, jax.tree.map(lambda x, k=k: x[:, k], alone), near) for k in range(len(seeds.joint_position))]
    away = [float(jnp.linalg.norm(artix.difference(arm, near, end.state))) if end.solved else np.inf for end in ends]
    best = ends[int(np.argmin(away))].state
    np.testing.assert_allclose(find(target, seeds, near).state.joint_position, best.joint_position, atol=1e-9)


@pytest.fixture(scope="module")
def arm7_searches():
    """The arm, eight seeds, and the compiled search."""
    arm = artix.robots.load("arm7").astype("float64")
    seeds = jax.vmap(lambda key: artix.random_state(arm, key))(jax.random.split(jax.random.key(1), 8))

    @jax.jit
    def find(target, seeds, near):
        return optimal_control.inverse_kinematics(arm, ["tool"], target[None], seeds, near=near)

    return arm, seeds, find
