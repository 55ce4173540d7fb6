"""Errors and Jacobians of tasks, beside Pinocchio and differences, and what is refused by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import inverse_kinematics
from artix.inverse_kinematics import ComTask, Distances, FrameTask, LookAtTask, PostureTask
from tests.support.models import random_states

ARM = artix.robots.load("arm7").astype("float64")
SEEDS = jax.tree.map(lambda leaf: leaf[None], artix.neutral_state(ARM))
POSE = artix.frame_pose(ARM, artix.random_state(ARM, jax.random.key(5)), "tool")


def balls():
    """The quadruped with shapes on its trunk, and an obstacle."""
    builder = artix.builder_from_articulation(artix.robots.load("quadruped"))
    builder.add_geometry("trunk", artix.Geometry.box((0.2, 0.1, 0.05)), name="chest")
    builder.add_geometry("front_left_shank", artix.Geometry.capsule(0.02, 0.08), name="shank")
    robot = builder.build(dtype=jnp.float64)
    wall = artix.Geometry.capsule(0.1, 0.5, pose=(0.9, 0.4, 0.1, 0.6, 0.0, 0.0, 0.8))
    return robot, Distances(
        [("shank", "front_right_foot"), ("wall", "chest"), ("shank", "wall")], {"wall": wall}
    )


def tasks_of(robot):
    """One of each kind; the frame's root is a link that moves, too."""
    first, last = robot.topology.link_names[1], robot.topology.link_names[-1]
    target = jnp.array([0.1, -0.2, 0.3, 0.0, 0.6, 0.0, 0.8])
    n = robot.topology.num_dofs
    return {
        "frame": FrameTask(last, target),
        "relative frame": FrameTask(last, target, root=first),
        "centre of mass": ComTask(jnp.array([0.1, 0.2, 0.3])),
        "posture": PostureTask(0.1 * jnp.arange(float(n))),
        "axis": LookAtTask(last, jnp.array([1.0, 2.0, 3.0]), axis=(0.6, 0.0, 0.8)),
    }


@pytest.mark.slow
def test_jacobians_are_derivatives_of_errors():
    """Of every kind of task, and of distances, of a robot that floats."""
    robot, distances = balls()
    states = random_states(robot, 4)
    tasks = tasks_of(robot)

    def both(state):
        zero = jnp.zeros(robot.topology.nv)

        def along(function):
            return jax.jacfwd(lambda step: function(robot, artix.integrate(robot, state, step)))(
                zero
            )

        room, rates = distances.room_and_jacobian(robot, state)
        pairs = {
            name: (task.jacobian(robot, state), along(task.error)) for name, task in tasks.items()
        }
        return pairs | {
            "distances": (rates, along(distances.room)),
            "room": (room, distances.room(robot, state)),
        }

    for name, (closed, wanted) in jax.jit(jax.vmap(both))(states).items():
        np.testing.assert_allclose(closed, wanted, atol=1e-9, err_msg=name)


def test_errors_are_those_of_pinocchio():
    pin = pytest.importorskip("pinocchio")
    state = jax.tree.map(lambda leaf: leaf[0], random_states(ARM, 1))
    pose, root = (
        pin.XYZQUATToSE3(np.asarray(artix.frame_pose(ARM, state, name)))
        for name in ("tool", "forearm")
    )
    target = pin.XYZQUATToSE3(np.asarray(POSE))
    for away, task in (
        (target.actInv(pose), FrameTask("tool", POSE)),
        (target.actInv(root.actInv(pose)), FrameTask("tool", POSE, root="forearm")),
    ):
        wanted = np.concatenate([away.translation, pin.log3(away.rotation)])
        np.testing.assert_allclose(task.error(ARM, state), wanted, atol=1e-12)


def test_an_axis_that_points_away_or_at_its_own_origin():
    """Errors and derivatives are finite; the opposite direction is half a turn away."""
    state = artix.neutral_state(ARM)
    pose = artix.frame_pose(ARM, state, "tool")
    axis = (
        artix.frame_pose(ARM, state, "tool", jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]))[:3]
        - pose[:3]
    )

    @jax.jit
    def at(point):
        task = LookAtTask("tool", point)
        return task.error(ARM, state), task.jacobian(ARM, state)

    (behind, by_behind), (there, by_there) = at(pose[:3] - 2 * axis), at(pose[:3])
    np.testing.assert_allclose(jnp.linalg.norm(behind), np.pi, atol=1e-7)
    np.testing.assert_allclose(there, 0, atol=1e-12)
    assert jnp.isfinite(by_behind).all()
    assert jnp.isfinite(by_there).all()


def test_a_task_of_ones_own():
    class Height(inverse_kinematics.Task):
        def error(self, articulation, state):
            return artix.frame_pose(articulation, state, "tool")[2:3] - 0.9

    found = jax.jit(
        lambda: inverse_kinematics.solve(ARM, [Height(), PostureTask(jnp.full(7, 0.2))], SEEDS)
    )()
    np.testing.assert_allclose(artix.frame_pose(ARM, found.state, "tool")[2], 0.9, atol=1e-5)


WRONG = {
    "frames instead of tasks": (["tool"], TypeError, r"tasks\[0\]: expected a task, such as FrameTask; found str"),
    "one task": (FrameTask("tool", POSE), TypeError, r"tasks: expected a list of tasks; found FrameTask"),
    "none": ([], ValueError, r"tasks: give at least one task"),
    "an unknown frame": ([FrameTask("toll", POSE)], KeyError, r"toll"),
    "an unknown root": ([FrameTask("tool", POSE, root="bass")], KeyError, r"bass"),
    "a list": ([FrameTask("tool", [0.0] * 7)], TypeError, r"tasks\[0\].target: expected an array .*found list"),
    "a batch": ([FrameTask("tool", POSE[None])], ValueError, r"target: expected shape \[7\].*use jax.vmap over batches"),
    "a quaternion of length 2": ([FrameTask("tool", POSE.at[3:].multiply(2))], ValueError, r"target: expected a quaternion"),
    "no quaternion": ([FrameTask("tool", POSE.at[3:].set(0))], ValueError, r"target: expected a quaternion"),
    "a target of NaN": ([FrameTask("tool", POSE.at[0].set(jnp.nan))], ValueError, r"tasks\[0\].target: every number"),
    "another dtype": ([FrameTask("tool", POSE.astype("float32"))], TypeError, r"target: expected dtype float64"),
    "a negative cost": ([FrameTask("tool", POSE, -1.0)], ValueError, r"tasks\[0\].position_cost: expected finite numbers"),
    "six costs": ([FrameTask("tool", POSE, jnp.ones(6))], ValueError, r"position_cost: expected one number or shape \[3\]"),
    "a cost as text": ([FrameTask("tool", POSE, "high")], ValueError, r"position_cost: expected one number .*'high'"),
    "a gain of 2": ([FrameTask("tool", POSE, gain=2.0)], ValueError, r"gain: expected .* at least 0 and at most 1"),
    "a frame by index": ([FrameTask(3, POSE)], TypeError, r"tasks\[0\].frame: expected the name"),
    "a posture of another robot": ([PostureTask(jnp.zeros(6))], ValueError, r"tasks\[0\].target: expected shape \[7\]"),
    "a posture in degrees": (
        [PostureTask(jnp.full(7, 45.0))], ValueError, r"'shoulder_yaw' is at 45, outside .*positions are in radians"
    ),
    "an axis of length 2": ([LookAtTask("tool", POSE[:3], axis=(0, 0, 2.0))], ValueError, r"axis: expected a unit vector"),
    "a second wrong one": (
        [FrameTask("tool", POSE), ComTask(POSE[None, :3])], ValueError, r"tasks\[1\].target: expected shape \[3\]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tasks_are_refused(name):
    tasks, kind, words = WRONG[name]
    with pytest.raises(kind, match=words):
        inverse_kinematics.solve(ARM, tasks, SEEDS, iterations=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: FrameTask("tool", POSE[:3]),
            r"FrameTask.target: expected shape \[7\], position and quaternion",
        ),
        (
            lambda: FrameTask("tool", np.eye(4)),
            r"FrameTask.target: expected shape \[7\].* found \(4, 4\)",
        ),
        (
            lambda: FrameTask("tool", POSE).replace(target=POSE[3:]),
            r"FrameTask.target: expected shape \[7\]",
        ),
        (lambda: ComTask(POSE), r"ComTask.target: expected shape \[3\], a point; found \(7,\)"),
        (lambda: LookAtTask("tool", POSE), r"LookAtTask.target: expected shape \[3\], a point"),
    ],
)
def test_targets_of_another_size_are_refused_where_the_task_is_made(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_trees_of_tasks_are_not_mistaken_for_tasks():
    """Batches, derivatives, norms and shapes of tasks are trees of the same class."""
    task = FrameTask("tool", POSE)
    assert jax.tree.map(jnp.linalg.norm, task).target.shape == ()
    assert jax.tree.map(jnp.shape, task).target == (7,)
    by_turn = jax.jacrev(lambda change: FrameTask("tool", POSE + jnp.sum(change)))(jnp.zeros(3))
    assert by_turn.target.shape == (7, 3)
    assert jax.vmap(lambda target: FrameTask("tool", target))(POSE[None]).target.shape == (1, 7)


TOOL = [FrameTask("tool", POSE)]
ONE = artix.neutral_state(ARM)
WRONG_CALLS = {
    "seeds without an axis": (lambda: inverse_kinematics.solve(ARM, TOOL, ONE), ValueError, 
        "a leading axis over seeds"),
    "seeds of NaN": (
        lambda: inverse_kinematics.solve(ARM, TOOL, SEEDS.replace(joint_position=jnp.full((1, 7), jnp.nan))),
        ValueError, r"seeds.joint_position: every number must be finite",
    ),
    "seeds as an array": (lambda: inverse_kinematics.solve(ARM, TOOL, jnp.zeros((1, 7))), TypeError, 
        "seeds: expected artix.State"),
    "a root pose of no rotation": (
        lambda: inverse_kinematics.solve(ARM, TOOL, SEEDS.replace(root_pose=jnp.zeros((1, 7)))),
        ValueError, r"seeds.root_pose: expected a quaternion",
    ),
    "a negative margin": (lambda: inverse_kinematics.solve(ARM, TOOL, SEEDS, margin=-1.0), ValueError, 
        "margin: expected finite"),
    "distances as pairs": (
        lambda: inverse_kinematics.solve(ARM, TOOL, SEEDS, distances=[("a", "b")]), TypeError, 
            "distances: expected .*Distances"
    ),
    "an unknown shape": (
        lambda: inverse_kinematics.solve(ARM, TOOL, SEEDS, distances=Distances([("palm", "wall")])), KeyError, "palm"
    ),
    "no tick": (lambda: inverse_kinematics.solve_velocity(ARM, ONE, TOOL, 0.0), ValueError, 
        "dt: expected one number"),
    "a batch of ticks": (lambda: inverse_kinematics.solve_velocity(ARM, ONE, TOOL, jnp.ones(3)), ValueError, 
        "dt: expected one number"),
    "a batch of states": (lambda: inverse_kinematics.solve_velocity(ARM, SEEDS, TOOL, 1e-3), ValueError, 
        "use jax.vmap over batches"),
    "a state of NaN": (
        lambda: inverse_kinematics.solve_velocity(ARM, ONE.replace(joint_position=jnp.full(7, jnp.nan)), TOOL, 1e-3),
        ValueError, r"state.joint_position: every number must be finite",
    ),
    "a negative speed": (
        lambda: inverse_kinematics.solve_velocity(ARM, ONE, TOOL, 1e-3, max_velocity=-1.0), ValueError, 
            "max_velocity: expected"
    ),
    "speeds of six joints": (
        lambda: inverse_kinematics.solve_velocity(ARM, ONE, TOOL, 1e-3, max_velocity=jnp.ones(6)),
        ValueError, r"max_velocity: expected one number or shape \[7\]",
    ),
    "a negative step": (
        lambda: inverse_kinematics.follow(ARM, lambda pose: [FrameTask("tool", pose)], POSE[None], ONE, max_step=-0.1),
        ValueError, r"max_step: expected finite numbers of at least 0",
    ),
    "a path's targets instead of a function": (
        lambda: inverse_kinematics.follow(ARM, TOOL, POSE[None], ONE), TypeError, 
            "tasks: expected a function of a point"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls_are_refused(name):
    call, kind, words = WRONG_CALLS[name]
    with pytest.raises(kind, match=words):
        call()
