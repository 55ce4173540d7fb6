"""Velocities of one tick: within limits, the best of what is possible, and closed in a loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear

import artix
from artix import inverse_kinematics
from artix.inverse_kinematics import Distances, FrameTask, PostureTask, solve_velocity

DT = 1e-3
BENT = jnp.array([0.0, 0.5, 0.0, 1.4, 0.0, 1.0, 0.0])


@pytest.fixture(scope="module")
def arm():
    """The arm with a ball as its hand."""
    builder = artix.builder_from_articulation(artix.robots.load("arm7"))
    builder.add_geometry("hand", artix.Geometry.sphere(0.06), name="palm")
    return builder.build(dtype=jnp.float64)


def bent(arm):
    return artix.neutral_state(arm).replace(joint_position=BENT)


@pytest.mark.slow
def test_a_tick_is_the_least_squares_solution_within_its_box(arm):
    """Beside SciPy's, with closed-form parts: errors by poses, Jacobians, limits."""
    keys = jax.random.split(jax.random.key(0), 20)
    states = jax.vmap(lambda key: artix.random_state(arm, key))(keys)
    goals = jax.vmap(lambda state: artix.frame_pose(arm, state, "tool"))(states)
    offset = 0.02 * jax.random.normal(jax.random.key(1), (20, 3), arm.dtype)
    goals = goals.at[:, :3].add(offset)

    @jax.jit
    @jax.vmap
    def tick(state, goal):
        tasks = [FrameTask("tool", goal, 1.0, 0.5, gain=0.8), PostureTask(BENT, cost=0.01)]
        return solve_velocity(
            arm, state, tasks, DT, max_velocity=2.0, margin=0.05, limit_gain=0.5, damping=1e-5
        )

    found = tick(states, goals)
    assert found.solved.all()
    lower, upper = (
        np.asarray(arm.joint_lower_limit) + 0.05,
        np.asarray(arm.joint_upper_limit) - 0.05,
    )
    for k in range(20):
        state = jax.tree.map(lambda leaf, k=k: leaf[k], states)
        q, J = (
            np.asarray(state.joint_position),
            np.asarray(artix.frame_jacobian(arm, state, "tool")),
        )
        error = np.concatenate([-offset[k], np.zeros(3)])
        rows = np.concatenate(
            [np.diag([1, 1, 1, 0.5, 0.5, 0.5]) @ J, 0.01 * np.eye(7), np.sqrt(1e-5) * np.eye(7)]
        )
        wanted = -np.concatenate(
            [0.8 * np.array([1, 1, 1, 0.5, 0.5, 0.5]) * error, 0.01 * (q - BENT), np.zeros(7)]
        )
        low = np.clip(np.where(q > lower, 0.5 * (lower - q), lower - q), -2 * DT, 2 * DT)
        high = np.clip(np.where(q < upper, 0.5 * (upper - q), upper - q), -2 * DT, 2 * DT)
        best = lsq_linear(
            rows, wanted, (low, np.maximum(high, low + 1e-12)), tol=1e-14, method="bvls"
        ).x
        np.testing.assert_allclose(found.velocity[k] * DT, best, atol=2e-9)


@pytest.mark.slow
def test_a_square_is_followed_at_1_khz_within_all_limits(arm):
    """Also beside a joint limit; speeds, accelerations and positions at every tick."""
    start = bent(arm)
    home = artix.frame_pose(arm, start, "tool")
    side, ticks = 0.1, 400  # 0.25 m/s
    along = side * jnp.linspace(0, 1, ticks, endpoint=False)
    none, full = jnp.zeros(ticks), jnp.full(ticks, side)
    y, z = (
        jnp.concatenate(parts)
        for parts in ((along, full, side - along, none), (none, along, full, side - along))
    )
    path = home + jnp.stack([none[0] * y, y, z, *[none[0] * y] * 4], axis=1)

    def body(state, target):
        tool = FrameTask("tool", target, gain=0.5)
        tasks = [tool, PostureTask(BENT, cost=1e-3)]
        found = solve_velocity(arm, state, tasks, DT, max_acceleration=300.0, max_velocity=2.0)
        error = tool.error(arm, found.state)
        return found.state, (
            found.velocity,
            found.state.joint_position,
            jnp.abs(error).max(),
            found.solved,
        )

    velocity, position, error, solved = jax.jit(lambda: jax.lax.scan(body, start, path)[1])()
    assert solved.all()
    assert jnp.abs(velocity).max() <= 2 + 1e-9
    assert jnp.abs(jnp.diff(velocity, axis=0)).max() <= 300 * DT + 1e-9
    # A tick late at a gain of a half: 0.25 mm. At corners, accelerations allow no more.
    assert jnp.median(error) < 2.6e-4
    assert error.max() < 2e-3
    np.testing.assert_allclose(jnp.diff(position, axis=0), velocity[1:] * DT, atol=1e-12)


def test_joints_brake_before_their_limits(arm):
    """From full speed, with accelerations of 20 rad/s^2 and a margin; without braking it would
    overshoot by 0.1 rad."""
    upper = arm.joint_upper_limit
    start = bent(arm).replace(joint_position=BENT.at[1].set(upper[1] - 0.4))
    aim = PostureTask(start.joint_position.at[1].set(upper[1] - 1e-6), cost=1.0)

    def body(state, _):
        found = solve_velocity(
            arm,
            state,
            [aim],
            DT,
            margin=0.05,
            limit_gain=1.0,
            max_velocity=2.0,
            max_acceleration=20.0,
        )
        return found.state, (found.state.joint_position[1], found.velocity[1])

    position, velocity = jax.jit(lambda: jax.lax.scan(body, start, length=1500)[1])()
    assert velocity.max() > 1.99
    assert jnp.abs(jnp.diff(velocity)).max() <= 20 * DT * (1 + 1e-9)
    assert position.max() <= upper[1] - 0.05 + 1e-9
    assert abs(position[-1] - upper[1] + 0.05) < 1e-4


def test_a_joint_beyond_its_limits_returns(arm):
    start = bent(arm).replace(joint_position=BENT.at[1].set(arm.joint_upper_limit[1] + 0.01))
    found = solve_velocity(
        arm, start, [PostureTask(BENT.at[1].set(arm.joint_upper_limit[1]))], DT, max_velocity=2.0
    )
    np.testing.assert_allclose(found.velocity[1], -2.0, atol=1e-9)
    options = {"max_velocity": 2.0, "max_acceleration": 20.0}
    found = solve_velocity(
        arm, start, [PostureTask(BENT.at[1].set(arm.joint_upper_limit[1]))], DT, **options
    )
    assert found.solved
    np.testing.assert_allclose(found.velocity[1], -20.0 * DT, atol=1e-9)


def test_an_obstacle_that_moves_is_avoided_and_the_tool_goes_round(arm):
    """The hand is sent through a ball that comes nearer; the distance never falls below its
    least."""
    start = bent(arm)
    home = artix.frame_pose(arm, start, "tool")
    palm = artix.frame_pose(arm, start, "hand")[:3]
    ball = artix.Geometry.sphere(0.05)

    def away(k):
        pose = jnp.concatenate(
            [palm + jnp.array([0.03, 0.15 - 1e-5 * k, 0.0]), jnp.array([0.0, 0.0, 0.0, 1.0])]
        )
        return Distances([("palm", "ball")], {"ball": ball}, {"ball": pose}, minimum=0.01, gain=0.1)

    goal = home.at[1].add(0.3)

    def body(state, k):
        tasks = [
            FrameTask("tool", goal, orientation_cost=0.05, gain=0.02),
            PostureTask(BENT, cost=1e-3),
        ]
        found = solve_velocity(arm, state, tasks, 5e-3, distances=away(k), max_velocity=2.0)
        return found.state, (away(k).room(arm, found.state)[0], found.shortfall, found.solved)

    end, (room, shortfall, solved) = jax.jit(
        lambda: jax.lax.scan(body, start, jnp.arange(800.0))[1::-1]
    )()[::-1]
    assert solved.all()
    assert shortfall.max() < 1e-9
    assert room.min() > -1e-4  # a ball of 2 mm/s, which a tick does not foresee
    assert room.min() < 2e-3
    reached = artix.frame_pose(arm, end, "tool")
    assert jnp.linalg.norm(reached[:3] - goal[:3]) < 5e-3


def test_what_cannot_be_avoided_in_a_tick_is_said(arm):
    start = bent(arm)
    pose = artix.frame_pose(arm, start, "hand")[:3]
    ball = artix.Geometry.sphere(0.05, position=pose + jnp.array([0.08, 0.0, 0.0]))
    inside = Distances([("palm", "ball")], {"ball": ball}, minimum=0.02)
    found = solve_velocity(arm, start, [PostureTask(BENT)], DT, distances=inside, max_velocity=1.0)
    assert found.solved
    missing = float(
        -inside.room(arm, start)[0]
        - (inside.room(arm, found.state)[0] - inside.room(arm, start)[0])
    )
    np.testing.assert_allclose(found.shortfall, missing, atol=1e-5)
    assert found.shortfall > 0.04


@pytest.mark.slow
def test_a_humanoid_stands_and_looks(arm):
    """A floating base: feet stay at 1 kHz while the centre of mass moves, in single precision."""
    robot = artix.robots.load("humanoid").astype("float32")
    start = artix.neutral_state(robot)
    feet = [
        name
        for name in robot.topology.frame_names + robot.topology.link_names
        if name.endswith("foot")
    ]
    poses = [artix.frame_pose(robot, start, foot) for foot in feet]
    center = artix.center_of_mass(robot, start)

    def body(state, k):
        target = center + 2e-5 * k * jnp.array([0.0, 1.0, -1.0], jnp.float32)
        tasks = [
            *(FrameTask(foot, pose, 10.0, 3.0) for foot, pose in zip(feet, poses, strict=True)),
            inverse_kinematics.ComTask(target),
            PostureTask(start.joint_position, cost=1e-3),
        ]
        found = solve_velocity(robot, state, tasks, DT)
        missed = [tasks[0].error(robot, found.state), tasks[2].error(robot, found.state)]
        return found.state, (jnp.abs(jnp.concatenate(missed)).max(), found.solved)

    missed, solved = jax.jit(
        lambda: jax.lax.scan(body, start, jnp.arange(1000.0, dtype=jnp.float32))[1]
    )()
    assert solved.all()
    assert missed[10:].max() < 5e-4


@pytest.mark.slow
def test_derivatives_of_a_tick_are_those_of_differences(arm):
    """By state, target and link lengths, with a speed limit and a distance that hold."""
    start = bent(arm)
    home = artix.frame_pose(arm, start, "tool")
    ball = artix.Geometry.sphere(
        0.05, position=artix.frame_pose(arm, start, "hand")[:3] + jnp.array([0.0, 0.1205, 0.0])
    )
    away = Distances([("palm", "ball")], {"ball": ball}, minimum=0.01)

    def tick(change):
        longer = arm.replace(
            joint_parent_pose=arm.joint_parent_pose.at[:, :3].multiply(1 + change[0])
        )
        state = start.replace(joint_position=BENT.at[2].add(change[1]))
        tasks = [FrameTask("tool", home.at[1].add(1e-3 + change[2])), PostureTask(BENT, cost=0.1)]
        limit = jnp.array([0.1, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0])
        return solve_velocity(longer, state, tasks, DT, distances=away, max_velocity=limit).velocity

    compiled = jax.jit(tick)
    at, step = jnp.zeros(3), 1e-6
    still = compiled(at)
    assert abs(abs(still[0]) - 0.1) < 1e-9
    columns = [
        (compiled(at.at[k].set(step)) - compiled(at.at[k].set(-step))) / (2 * step)
        for k in range(3)
    ]
    differences = jnp.stack(columns, axis=1)
    forward = jax.jit(jax.jacfwd(tick))(at)
    np.testing.assert_allclose(forward, differences, atol=1e-5 * np.abs(differences).max())
    reverse = jax.jit(jax.grad(lambda change: tick(change)[3]))(at)
    assert jnp.abs(forward).max(axis=0).min() > 0.1
    np.testing.assert_allclose(reverse, forward[3], rtol=1e-8, atol=1e-8)
