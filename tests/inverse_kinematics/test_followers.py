"""Joints that follow others keep to them and to their own limits, in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import artix
from artix import inverse_kinematics as ik


@pytest.fixture(scope="module")
def arm() -> artix.Articulation:
    """An arm whose wrist follows its elbow, and whose last joint follows the wrist."""
    builder = artix.builder_from_articulation(artix.robots.load("arm7"))
    names = artix.robots.load("arm7").topology.dof_names
    builder.add_mimic(names[5], names[3], gear_ratio=-0.5, offset=-0.2)
    builder.add_mimic(names[6], names[5], gear_ratio=1.0, offset=0.1)
    return builder.build("float64")


def bent(arm: artix.Articulation) -> artix.State:
    """A configuration within all limits whose followers follow."""
    mimic = artix.mimic_map(arm)
    return mimic.expand(mimic.reduce(artix.random_state(arm, jax.random.key(5))))


def seeds(arm: artix.Articulation) -> artix.State:
    keys = jax.random.split(jax.random.key(1), 16)
    return jax.vmap(lambda key: artix.random_state(arm, key))(keys)


def check_follows(arm: artix.Articulation, position: jax.Array) -> None:
    """All positions [..., n] are on the relation and within the limits."""
    mimic = artix.mimic_map(arm)
    free = position[..., np.array(mimic.independent)]
    np.testing.assert_allclose(free @ mimic.matrix.T + mimic.offset, position, atol=1e-12)
    assert (position >= arm.joint_lower_limit - 1e-12).all()
    assert (position <= arm.joint_upper_limit + 1e-12).all()


@pytest.mark.slow
def test_a_target_is_reached_by_joints_that_follow(arm):
    goal = artix.frame_pose(arm, bent(arm), "tool")
    found = ik.solve(arm, [ik.FrameTask("tool", goal)], seeds(arm), iterations=60)
    assert found.solved
    check_follows(arm, found.state.joint_position)


@pytest.mark.slow
def test_what_is_out_of_reach_is_missed_by_as_little_as_scipy_misses_it(arm):
    """Bounded least squares over the independent joints, 1e-9 m."""
    far = 3 * artix.frame_pose(arm, bent(arm), "tool")[:3]
    target = jnp.concatenate([far, jnp.array([0.0, 0.0, 0.0, 1.0])])
    task = ik.FrameTask("tool", target, orientation_cost=0.0)
    found = ik.solve(arm, [task], seeds(arm), iterations=60)
    check_follows(arm, found.state.joint_position)
    mimic = artix.mimic_map(arm)
    matrix, offset = np.asarray(mimic.matrix), np.asarray(mimic.offset)
    leaders = np.abs(matrix).argmax(axis=1)
    ratio = matrix[np.arange(7), leaders]
    limits = np.stack([arm.joint_lower_limit, arm.joint_upper_limit])
    ends = np.sort((limits - offset) / ratio, axis=0)
    lower, upper = np.full(5, -np.inf), np.full(5, np.inf)
    np.maximum.at(lower, leaders, ends[0])
    np.minimum.at(upper, leaders, ends[1])

    @jax.jit
    def missed(free):
        state = bent(arm).replace(joint_position=matrix @ free + offset)
        return artix.frame_pose(arm, state, "tool")[:3] - far

    starts = np.random.default_rng(0).uniform(lower + 1e-6, upper - 1e-6, (8, 5))
    tolerance = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-14)
    ways = [least_squares(missed, each, bounds=(lower, upper), **tolerance) for each in starts]
    expected = min(np.linalg.norm(way.fun) for way in ways)
    assert not found.solved and abs(found.position_error - expected) < 1e-9


@pytest.mark.slow
def test_derivatives_are_those_of_differences(arm):
    """By the target and by the gear ratios, at a compromise: 2e-6 of 1.3 rad; searches end where
    costs differ by rounding, which limits the differences."""
    start = bent(arm)
    goal = artix.frame_pose(arm, start, "tool").at[2].add(0.03)
    posture = ik.PostureTask(start.joint_position, cost=0.3)
    seed = jax.tree.map(lambda leaf: leaf[None], start)

    @jax.jit
    def found(by):
        robot = arm.replace(**{"mimic.gear_ratio": arm.mimic.gear_ratio + by[3:]})
        tasks = [ik.FrameTask("tool", goal.at[:3].add(by[:3])), posture]
        return ik.solve(robot, tasks, seed, iterations=80).state.joint_position

    def difference(step):
        return np.stack([(found(e) - found(-e)) / (2 * step) for e in step * np.eye(5)], axis=1)

    expected = (4 * difference(1e-3) - difference(2e-3)) / 3
    for derivative in (jax.jacfwd, jax.jacrev):
        slope = derivative(found)(jnp.zeros(5))
        np.testing.assert_allclose(slope, expected, atol=2e-6)


@pytest.mark.slow
def test_ticks_and_paths_keep_to_the_relation(arm):
    start = bent(arm)
    goal = artix.frame_pose(arm, start, "tool")
    reach = ik.FrameTask("tool", goal, orientation_cost=0.0)

    def tick(state, _):
        moved = ik.solve_velocity(arm, state, [reach], 0.01)
        return moved.state, moved

    away = artix.random_state(arm, jax.random.key(9))  # Its followers are elsewhere.
    end, moved = jax.lax.scan(tick, away, length=200)
    check_follows(arm, moved.state.joint_position)
    free = moved.velocity[:, np.array(artix.mimic_map(arm).independent)]
    np.testing.assert_allclose(free @ artix.mimic_map(arm).matrix.T, moved.velocity, atol=1e-12)
    assert (jnp.abs(moved.velocity) <= arm.max_joint_velocity + 1e-9).all()
    np.testing.assert_allclose(artix.frame_pose(arm, end, "tool")[:3], goal[:3], atol=1e-9)
    line = goal + jnp.linspace(0, 0.05, 20)[:, None] * jnp.eye(7)[2]
    path = ik.follow(arm, lambda x: [ik.FrameTask("tool", x, orientation_cost=0.0)], line, start)
    assert path.solved.all()
    check_follows(arm, path.state.joint_position)


def test_limits_of_followers_hold_those_that_they_follow(arm):
    """The last joint may turn by 0.1 rad, so the elbow by 0.2 rad."""
    narrow = arm.replace(
        joint_lower_limit=arm.joint_lower_limit.at[6].set(-0.9),
        joint_upper_limit=arm.joint_upper_limit.at[6].set(-0.8),
    )
    goal = artix.frame_pose(arm, bent(arm), "tool")
    found = ik.solve(narrow, [ik.FrameTask("tool", goal)], seeds(arm))
    check_follows(narrow, found.state.joint_position)
    assert 1.0 - 1e-9 <= found.state.joint_position[3] <= 1.2 + 1e-9


@pytest.mark.slow
def test_limits_that_cannot_hold_are_not_solved(arm):
    """The last joint would have to be where the elbow cannot put it; or no position is allowed."""
    goal = artix.frame_pose(arm, bent(arm), "tool")
    anything = ik.FrameTask("tool", goal, position_cost=0.0, orientation_cost=0.0)
    assert ik.solve(arm, [anything], seeds(arm)).solved
    apart = arm.replace(
        joint_lower_limit=arm.joint_lower_limit.at[6].set(1.0),
        joint_upper_limit=arm.joint_upper_limit.at[6].set(1.1),
    )
    crossed = arm.replace(joint_lower_limit=arm.joint_upper_limit + 0.5)
    for robot in (apart, crossed):
        solution = jax.jit(lambda robot: ik.solve(robot, [anything], seeds(arm)))(robot)
        assert not solution.solved


@pytest.mark.slow
def test_loop_joints_are_said_not_to_be_kept():
    robot = artix.robots.load("arm7")
    builder = artix.builder_from_articulation(robot)
    ball = artix.LoopJointType.SPHERICAL
    builder.add_loop_joint(artix.LoopJoint(name="strut", link_a="base", link_b="hand", type=ball))
    closed, state = builder.build(), artix.neutral_state(robot)
    task = ik.PostureTask(state.joint_position)
    with pytest.warns(UserWarning, match=r"does not keep its loop joints \('strut'\) closed"):
        ik.solve(closed, [task], jax.tree.map(lambda leaf: leaf[None], state))
    with pytest.warns(UserWarning, match="'strut'"):
        ik.solve_velocity(closed, state, [task], 0.01)
