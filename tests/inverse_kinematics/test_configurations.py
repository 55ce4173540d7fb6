"""Inverse kinematics: reachable targets are reached within the limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import inverse_kinematics, optimal_control
from artix.inverse_kinematics import ComTask, Distances, FrameTask, LookAtTask, PostureTask
from artix.math.spatial import quaternion_product


def seeds_of(articulation, count: int) -> artix.State:
    return jax.vmap(lambda key: artix.random_state(articulation, key))(
        jax.random.split(jax.random.key(1), count)
    )


@pytest.mark.slow
def test_an_arm_reaches_what_it_can():
    arm = artix.robots.load("arm7").astype(jnp.float32)
    keys = jax.random.split(jax.random.key(0), 200)
    targets = jax.vmap(lambda key: artix.frame_pose(arm, artix.random_state(arm, key), "tool"))(
        keys
    )
    seeds = seeds_of(arm, 16)
    find = jax.jit(
        jax.vmap(
            lambda target: inverse_kinematics.solve(
                arm, [FrameTask("tool", target)], seeds, iterations=40
            )
        )
    )
    found = find(targets)
    assert np.mean(found.solved) >= 0.98  # 99.3 to 100 %, depending on the seeds
    position = found.state.joint_position
    assert np.all((position >= arm.joint_lower_limit) & (position <= arm.joint_upper_limit))
    # Judged by kinematics, not by what it says of itself.
    exact, states = (
        arm.astype(jnp.float64),
        jax.tree.map(lambda x: x.astype(jnp.float64), found.state),
    )
    poses = jax.vmap(lambda state: artix.frame_pose(exact, state, "tool"))(states)
    distance = np.linalg.norm(poses[:, :3] - targets[:, :3].astype(jnp.float64), axis=1)
    reached, wanted = (np.asarray(x[:, 3:], np.float64) for x in (poses, targets))
    units = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (reached, wanted))
    (v, w), (u, t) = ((x[:, :3], x[:, 3:]) for x in units)
    # The sine: exact for small angles in float32, too
    half = np.linalg.norm(t * v - w * u - np.cross(u, v), axis=1)
    assert np.mean((distance < 1.1e-4) & (2 * half < 1.1e-3)) >= 0.98


@pytest.mark.slow
def test_a_target_out_of_reach_is_said_to_be():
    arm = artix.robots.load("arm7").astype(jnp.float32)
    target = jnp.array([5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], jnp.float32)
    found = jax.jit(
        lambda: inverse_kinematics.solve(arm, [FrameTask("tool", target)], seeds_of(arm, 4))
    )()
    assert not found.solved
    assert found.position_error > 3


@pytest.mark.slow
@pytest.mark.parametrize("entries", [slice(0, 1), slice(3, 7)])
def test_a_target_that_is_not_finite_is_not_reached(entries):
    """The values are unknown under ``vmap``; such a target counted as reached, with errors of
    zero.
    """
    arm = artix.robots.load("arm7").astype(jnp.float32)
    start = artix.neutral_state(arm)
    reached = artix.frame_pose(arm, start, "tool")
    targets = jnp.stack([reached, reached.at[entries].set(jnp.nan), reached.at[3:].set(0)])
    seeds = jax.tree.map(lambda leaf: leaf[None], start)

    def find(target):
        tasks = [FrameTask("tool", target), ComTask(target[:3], cost=0.0)]
        return inverse_kinematics.solve(arm, tasks, seeds, iterations=1)

    found = jax.vmap(find)(targets)
    assert found.solved.tolist() == [True, False, False]
    errors = jnp.stack([found.position_error, found.rotation_error])
    assert jnp.isnan(errors).any(axis=0).tolist() == [False, True, True]


@pytest.mark.slow
def test_all_feet_of_a_floating_base():
    robot = artix.robots.load("quadruped").astype(jnp.float32)
    feet = [name for name in robot.topology.link_names if name.endswith("foot")]
    seeds = jax.tree.map(lambda x: x[None], artix.neutral_state(robot))
    bent = artix.neutral_state(robot).replace(
        joint_position=jnp.array([0.1] * 4 + [0.8] * 4 + [-1.5] * 4, jnp.float32)
    )
    tasks = [
        FrameTask(foot, artix.frame_pose(robot, bent, foot), orientation_cost=0.0) for foot in feet
    ]
    find = jax.jit(lambda: inverse_kinematics.solve(robot, tasks, seeds))
    found = find()
    assert found.solved
    assert found.position_error < 1e-4


@pytest.mark.slow
def test_the_derivative_of_a_solution_keeps_frames_at_their_targets():
    """The reached pose moves as its target does, and stays there when the links' lengths change."""
    arm = artix.robots.load("arm7").astype(jnp.float64)
    seeds, target = (
        seeds_of(arm, 8),
        artix.frame_pose(arm, artix.random_state(arm, jax.random.key(5)), "tool"),
    )

    def reached(change, scale):
        turned = quaternion_product(artix.lie.so3_exp(change[3:]), target[3:])
        goal = jnp.concatenate([target[:3] + change[:3], turned])
        longer = arm.replace(joint_parent_pose=arm.joint_parent_pose.at[:, :3].multiply(scale))
        found = inverse_kinematics.solve(longer, [FrameTask("tool", goal)], seeds, iterations=40)
        return optimal_control.frame_pose(longer, found.state, "tool", target), found.solved

    at = jnp.zeros(6), jnp.ones(())
    assert jax.jit(reached)(*at)[1]
    by_length = jax.jit(jax.jacfwd(lambda scale: reached(at[0], scale)[0]))(at[1])
    by_target = jax.jit(jax.jacrev(lambda change: reached(change, at[1])[0]))(at[0])
    np.testing.assert_allclose(by_length, 0, atol=1e-9)
    np.testing.assert_allclose(by_target, np.eye(6), atol=1e-9)


@pytest.mark.slow
def test_a_joint_at_its_limit_moves_with_it():
    """The other joints keep the tool where it is, by the least displacement."""
    arm = artix.robots.load("arm7").astype(jnp.float64)
    lower, upper = arm.joint_lower_limit, arm.joint_upper_limit
    position = (
        artix.random_state(arm, jax.random.key(2))
        .joint_position.at[1]
        .set(lower[1])
        .at[5]
        .set(upper[5])
    )
    state = artix.neutral_state(arm).replace(joint_position=position)
    goal, seeds = artix.frame_pose(arm, state, "tool"), jax.tree.map(lambda x: x[None], state)

    def found(lower, upper):
        moved = arm.replace(joint_lower_limit=lower, joint_upper_limit=upper)
        tool = FrameTask("tool", goal, orientation_cost=0.0)
        return inverse_kinematics.solve(moved, [tool], seeds, iterations=1).state.joint_position

    jacobian, free = np.asarray(artix.frame_jacobian(arm, state, "tool"))[:3], [0, 2, 3, 4, 6]
    by_lower, by_upper = jax.jit(jax.jacrev(found, (0, 1)))(lower, upper)
    for joint, by_limit in ((1, by_lower), (5, by_upper)):
        wanted = np.zeros((7, 7))
        wanted[joint, joint] = 1
        wanted[free, joint] = -np.linalg.pinv(jacobian[:, free]) @ jacobian[:, joint]
        np.testing.assert_allclose(by_limit, wanted, atol=1e-9)


@pytest.mark.slow
def test_the_function_of_the_last_release_still_works():
    arm = artix.robots.load("arm7")
    seeds = seeds_of(arm, 1)
    goal = artix.frame_pose(arm, jax.tree.map(lambda leaf: leaf[0], seeds), "tool")
    with pytest.warns(DeprecationWarning, match=r"artix.inverse_kinematics.solve"):
        assert optimal_control.inverse_kinematics(
            arm, ["tool"], goal[None], seeds, iterations=1
        ).solved
    with (
        pytest.warns(DeprecationWarning, match="solve"),
        pytest.raises(ValueError, match=r"targets: expected shape \[1, 7\]"),
    ):
        optimal_control.inverse_kinematics(arm, ["tool"], goal, seeds)


@pytest.mark.slow
def test_seeds_that_are_not_finite():
    arm = artix.robots.load("arm7").astype("float64")
    keys = jax.random.split(jax.random.key(0), 9)
    states = jax.vmap(lambda key: artix.random_state(arm, key))(keys)
    goal = artix.frame_pose(arm, jax.tree.map(lambda x: x[8], states), "tool")
    tasks, seeds = [FrameTask("tool", goal)], jax.tree.map(lambda x: x[:8], states)
    spoiled = seeds.replace(joint_position=seeds.joint_position.at[3, 2].set(jnp.nan))
    with pytest.raises(ValueError, match=r"seeds\.joint_position: every number must be finite"):
        inverse_kinematics.solve(arm, tasks, spoiled)
    traced = jax.jit(lambda seeds: inverse_kinematics.solve(arm, tasks, seeds))
    assert traced(spoiled).solved
    with pytest.raises(ValueError, match=r"seeds\.root_pose: expected"):
        inverse_kinematics.solve(arm, tasks, seeds.replace(root_pose=seeds.root_pose[0]))


@pytest.mark.slow
def test_the_posture_follows_the_target_without_jumps(arm7_searches):
    """Which seed had the least error was decided by rounding: 1e-9 m moved joints by 1.3 rad."""
    arm, seeds, find = arm7_searches
    state = jax.tree.map(lambda x: x[0], seeds)
    target = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(5)), "tool")
    here = find(target, seeds, state)
    assert here.solved
    moved = find(target.at[0].add(1e-9), seeds, state)
    assert jnp.abs(moved.state.joint_position - here.state.joint_position).max() < 1e-6
    last, first = (
        here.state,
        lambda one: jax.tree.map(lambda a, b: jnp.concatenate([a[None], b[1:]]), one, seeds),
    )
    for k in range(1, 31):  # 3 mm
        end = find(target.at[2].add(1e-4 * k), first(last), last)
        assert end.solved
        assert jnp.abs(end.state.joint_position - last.joint_position).max() < 1e-2
        last = end.state


def test_the_nearest_of_the_postures_that_reach_is_returned(arm7_searches):
    """Beside all seeds, one by one."""
    arm, seeds, find = arm7_searches
    target = artix.frame_pose(arm, artix.random_state(arm, jax.random.key(6)), "tool")
    near = jax.tree.map(lambda x: x[3], seeds)
    alone = jax.tree.map(lambda x: jnp.stack([x] * len(seeds.joint_position)), seeds)
    ends = [
        find(target, jax.tree.map(lambda x, k=k: x[:, k], alone), near)
        for k in range(len(seeds.joint_position))
    ]
    away = [
        float(jnp.linalg.norm(artix.difference(arm, near, end.state))) if end.solved else np.inf
        for end in ends
    ]
    best = ends[int(np.argmin(away))].state
    np.testing.assert_allclose(
        find(target, seeds, near).state.joint_position, best.joint_position, atol=1e-9
    )


@pytest.fixture(scope="module")
def arm7_searches():
    """The arm, eight seeds, and the compiled search."""
    arm = artix.robots.load("arm7").astype("float64")
    seeds = jax.vmap(lambda key: artix.random_state(arm, key))(
        jax.random.split(jax.random.key(1), 8)
    )

    @jax.jit
    def find(target, seeds, near):
        return inverse_kinematics.solve(arm, [FrameTask("tool", target)], seeds, near=near)

    return arm, seeds, find


def singular_starts(arm, count):
    """Random postures, half of which have the elbow nearly straight or the wrist's axes nearly
    aligned."""
    states = seeds_of(arm, count)
    angles = 0.02 * jax.random.normal(jax.random.key(4), (count // 4, 2), arm.dtype)
    position = states.joint_position.at[: count // 4, 3].set(
        jnp.maximum(angles[:, 0], arm.joint_lower_limit[3])
    )
    return states.replace(joint_position=position.at[count // 4 : count // 2, 5].set(angles[:, 1]))


@pytest.fixture(scope="module")
def short_paths(arm7_searches):
    """3 mm in steps of 0.1 mm, from 80 postures towards random directions: the starts, the paths
    and what follows them."""
    arm, _, _ = arm7_searches
    starts = singular_starts(arm, 80)
    directions = jax.random.normal(jax.random.key(3), (80, 3), arm.dtype)
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)

    @jax.jit
    @jax.vmap
    def followed(start, direction):
        line = 1e-4 * jnp.arange(31.0)[:, None] * jnp.pad(direction, (0, 4))
        path = artix.frame_pose(arm, start, "tool") + line
        return path, inverse_kinematics.follow(
            arm, lambda target: [FrameTask("tool", target)], path, start
        )

    return arm, starts, *followed(starts, directions)


@pytest.mark.slow
def test_a_path_of_short_steps_is_followed_without_jumps(short_paths):
    """No joint moves by more than 0.01 rad in a step, near singularities and limits, too."""
    arm, starts, _, end = short_paths
    jumps = jnp.abs(jnp.diff(end.state.joint_position, axis=1)).max(axis=(1, 2))
    assert jumps.max() <= 1e-2 + 1e-12
    assert jumps.max() > 9e-3  # some need all of it
    assert end.solved[:, 0].all()
    solved = end.solved.all(axis=1)
    assert solved.sum() >= 75
    jacobians = jax.vmap(lambda state: artix.frame_jacobian(arm, state, "tool"))(starts)
    regular = np.linalg.svd(jacobians, compute_uv=False)[:, -1] > 0.03
    assert jumps[regular & solved].max() < 3e-3


def test_where_a_path_cannot_be_followed_no_permitted_motion_does(short_paths):
    """Beside SciPy's bounded least squares of the linearised task, within limits and 0.01 rad of
    the last point."""
    lsq_linear = pytest.importorskip("scipy.optimize").lsq_linear
    arm, _, paths, end = short_paths

    @jax.jit
    def weighted(state, target):
        return FrameTask("tool", target).weighted(arm, state)

    missed = np.argwhere(~np.asarray(end.solved))
    assert len(missed) > 5
    for path, k in missed:
        last, here = (
            jax.tree.map(lambda leaf, at=at: leaf[at], end.state)
            for at in ((path, k - 1), (path, k))
        )
        error, jacobian = weighted(last, paths[path, k])
        q = last.joint_position
        lower, upper = (
            jnp.maximum(arm.joint_lower_limit - q, -0.01),
            jnp.minimum(arm.joint_upper_limit - q, 0.01),
        )
        best = lsq_linear(jacobian, -error, (lower - 1e-9, upper + 1e-9), tol=1e-12)
        least = np.sqrt(2 * best.cost)
        assert least > 1e-4
        assert np.linalg.norm(weighted(here, paths[path, k])[0]) < 1.02 * least + 1.5e-5


@pytest.mark.slow
def test_a_given_step_is_kept_and_derivatives_know_it(arm7_searches):
    """A target that leaves at once: joints go as far as they may, and by the derivatives of their
    last positions."""
    arm, _, _ = arm7_searches
    start = artix.neutral_state(arm).replace(
        joint_position=jnp.array([0.0, 0.5, 0.0, 1.4, 0.0, 1.0, 0.0])
    )
    first = artix.frame_pose(arm, start, "tool")

    def followed(height):
        path = jnp.stack([first.at[2].add(height), first.at[2].add(-0.5)])
        tasks = lambda target: [FrameTask("tool", target, orientation_cost=0.0)]  # noqa: E731
        return inverse_kinematics.follow(
            arm, tasks, path, start, max_step=jnp.full(7, 0.02), iterations=20
        )

    end, tangent = jax.jit(lambda height: jax.jvp(followed, (height,), (1.0,)))(1e-3)
    np.testing.assert_array_equal(end.solved, [True, False])
    steps = jnp.diff(end.state.joint_position, axis=0)[0]
    np.testing.assert_allclose(jnp.abs(steps[jnp.array([1, 3])]), 0.02, atol=1e-12)
    by_height = tangent.state.joint_position
    assert jnp.abs(by_height[0, 3]) > 0.1
    np.testing.assert_allclose(
        by_height[1, jnp.array([1, 3])], by_height[0, jnp.array([1, 3])], atol=1e-12
    )


@pytest.fixture(scope="module")
def hand_and_ball():
    """The arm with a ball as its hand, and tasks that lead past an obstacle."""
    builder = artix.builder_from_articulation(artix.robots.load("arm7"))
    builder.add_geometry("hand", artix.Geometry.sphere(0.06), name="palm")
    builder.add_geometry("base", artix.Geometry.capsule(0.1, 0.2), name="pedestal")
    arm = builder.build(dtype=jnp.float64)
    return arm, artix.neutral_state(arm).replace(
        joint_position=jnp.array([0.0, 0.5, 0.0, 1.4, 0.0, 1.0, 0.0])
    )


@pytest.mark.slow
def test_the_center_of_mass_a_posture_and_an_axis_are_reached():
    """Judged by kinematics; a quadruped that bends its legs looks at a point while all its feet
    stay."""
    robot = artix.robots.load("quadruped").astype("float64")
    feet = [name for name in robot.topology.link_names if name.endswith("foot")]
    legs = jnp.array([0.0] * 4 + [0.7] * 4 + [-1.4] * 4)
    start = artix.neutral_state(robot).replace(joint_position=legs)
    poses = [artix.frame_pose(robot, start, foot) for foot in feet]
    point, center = (
        jnp.array([2.0, 0.3, 0.2]),
        artix.center_of_mass(robot, start) + jnp.array([0.02, 0.01, 0.0]),
    )
    trunk = robot.topology.link_names[0]

    def find(center):
        tasks = [
            *(
                FrameTask(foot, pose, orientation_cost=0.0)
                for foot, pose in zip(feet, poses, strict=True)
            ),
            ComTask(center, cost=jnp.array([1.0, 1.0, 0.0])),
            LookAtTask(trunk, point, axis=(1.0, 0.0, 0.0)),
            PostureTask(legs, cost=1e-3),
        ]
        return inverse_kinematics.solve(
            robot, tasks, jax.tree.map(lambda leaf: leaf[None], start), margin=0.05
        )

    found = jax.jit(find)(center)
    assert found.solved
    state = found.state
    for foot, pose in zip(feet, poses, strict=True):
        np.testing.assert_allclose(artix.frame_pose(robot, state, foot)[:3], pose[:3], atol=2e-5)
    np.testing.assert_allclose(artix.center_of_mass(robot, state)[:2], center[:2], atol=2e-5)
    pose = artix.frame_pose(robot, state, trunk)
    # Of a floating root: the identity
    turn = np.asarray(artix.frame_jacobian(robot, state, trunk))[3:, 3:6]
    np.testing.assert_allclose(turn, np.eye(3), atol=1e-12)
    x, y, z, w = pose[3:]
    axis = jnp.array([1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)])
    np.testing.assert_allclose(jnp.cross(axis, point - pose[:3]), 0, atol=2e-4)
    lower, upper = robot.joint_lower_limit, robot.joint_upper_limit
    assert jnp.all((state.joint_position >= lower + 0.05) & (state.joint_position <= upper - 0.05))


@pytest.mark.slow
def test_obstacles_and_the_robot_itself_are_avoided(hand_and_ball):
    """A target behind a ball is reached around it; one within it is missed, and the distance is
    kept."""
    arm, bent = hand_and_ball
    goal = artix.frame_pose(arm, bent, "tool")
    palm = artix.frame_pose(arm, bent, "hand")[:3]
    seeds = seeds_of(arm, 8)

    @jax.jit
    def find(goal, ball):
        shape = artix.Geometry.sphere(0.1)
        pose = jnp.concatenate([ball, jnp.array([0.0, 0.0, 0.0, 1.0])])
        away = Distances(
            [("palm", "ball"), ("palm", "pedestal")], {"ball": shape}, {"ball": pose}, minimum=0.02
        )
        tool = FrameTask("tool", goal, orientation_cost=0.0)
        return inverse_kinematics.solve(
            arm, [tool], seeds, near=bent, distances=away, iterations=60
        )

    beside = find(goal, palm + jnp.array([0.0, 0.12, 0.0]))
    assert beside.solved
    reached = artix.frame_pose(arm, beside.state, "hand")[:3]
    assert jnp.linalg.norm(reached - palm - jnp.array([0.0, 0.12, 0.0])) > 0.18 - 1e-4
    within = find(goal, goal[:3])
    assert not within.solved


@pytest.mark.slow
def test_derivatives_of_a_compromise_are_those_of_differences(hand_and_ball):
    """By target, posture and link lengths, while a posture weighs against the tool, both with
    errors left."""
    arm, bent = hand_and_ball
    seed = jax.tree.map(lambda leaf: leaf[None], bent)
    goal = artix.frame_pose(arm, bent, "tool").at[:3].add(jnp.array([0.05, 0.1, -0.05]))

    def find(change):
        longer = arm.replace(
            joint_parent_pose=arm.joint_parent_pose.at[:, :3].multiply(1 + change[0])
        )
        tasks = [
            FrameTask("tool", goal.at[0].add(change[1]), 1.0, jnp.array([0.3, 0.3, 0.0])),
            PostureTask(bent.joint_position.at[0].add(change[2]), cost=0.1 + change[3]),
        ]
        return inverse_kinematics.solve(longer, tasks, seed, iterations=60).state.joint_position

    compiled = jax.jit(find)
    at, step = jnp.zeros(4), 1e-3

    def difference(k, length):
        return (compiled(at.at[k].set(length)) - compiled(at.at[k].set(-length))) / (2 * length)

    # Exact to step^4
    columns = [(4 * difference(k, step) - difference(k, 2 * step)) / 3 for k in range(4)]
    forward = jax.jit(jax.jacfwd(find))(at)
    np.testing.assert_allclose(forward, jnp.stack(columns, axis=1), atol=2e-6)
    assert jnp.abs(forward).max(axis=0).min() > 0.05
    reverse = jax.jit(jax.grad(lambda change: find(change)[3]))(at)
    np.testing.assert_allclose(reverse, forward[3], atol=1e-10)
