"""The solver of a step: what friction holds stays, what slides obeys closed forms, and derivatives
are right."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Axis, Control, Geometry, Ground, Joint, Scene, SolverOptions
from artix.envs.tasks.quadruped_velocity import quadruped
from artix.simulation.common.contact_memory import join_memories
from tests.support.rollouts import reported_rollout

NEWTON = SolverOptions()
GRAVITY = 9.81
DT = 0.005


def box(
    mass: float, half: float, friction: float, dtype: str, name: str = "box"
) -> artix.Articulation:
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name=name)
    builder.add_link(
        mass=mass, inertia=[2 / 3 * mass * half**2] * 3, name=name, angular_damping=0.0
    )
    builder.add_geometry(name, Geometry.box((half,) * 3, friction=friction), name="shape")
    return builder.build(dtype)


def at(body: artix.Articulation, *position: float) -> artix.State:
    state = artix.neutral_state(body)
    return state.replace(root_pose=state.root_pose.at[:3].set(jnp.array(position, body.dtype)))


def grasp(dtype: str, order: int = 1) -> tuple[Scene, dict[str, artix.State]]:
    """Two flat pads of 4 x 4 cm on either side of a cube of 300 g."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0, 0, -GRAVITY), name="hand")
    builder.add_link(name="palm")
    for side, name in ((-1, "left"), (1, "right")):
        slide = Joint.prismatic(Axis.Y, parent_pose=(0, 0.04 * side, 0.5, 0, 0, 0, 1))
        builder.add_link("palm", slide, mass=0.1, inertia=(1e-4,) * 3, name=name)
        builder.add_geometry(name, Geometry.box((0.02, 0.01, 0.02), friction=0.8), name=name)
    cube = box(0.3, 0.03, 0.8, dtype, "cube")
    pairs = [(f"hand/{name}", "cube/shape") for name in ("left", "right")[::order]]
    scene = Scene({"hand": builder.build(dtype), "cube": cube}, pairs=pairs)
    return scene, scene.neutral_state() | {"cube": at(cube, 0, 0, 0.5)}


def simulate(
    scene,
    states,
    controls,
    num_steps: int,
    ground: Ground | None = None,
    options: SolverOptions = NEWTON,
):
    """The states of each step, and the impulses of all contacts."""
    scene = scene.replace(ground=ground)

    def advance(state, _):
        state = artix.step(scene, state, controls, DT, options)
        parts = [state[name].contact_memory for name in scene.names]
        return state, (state, join_memories(scene, parts).impulse)

    start = artix.remember_contacts(scene, states, options=options)
    return jax.lax.scan(advance, start, None, length=num_steps)[1]


def squeeze(factor):
    """Pads that press with ``factor`` times the force which friction needs to hold the cube."""
    force = factor * 0.3 * GRAVITY / (2 * 0.8)
    return {"hand": Control(joint_force=jnp.stack([force, -force]))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "order"),
    [
        ("float32", 1),
        *(pytest.param("float64", order, marks=pytest.mark.slow) for order in (1, -1)),
    ],
)
def test_a_grasp_holds_or_slides(dtype: str, order: int) -> None:
    """With 5 % more than the force that friction needs, the cube stays; with 5 % less, it slides as
    it must."""
    scene, states = grasp(dtype, order)
    factors = jnp.array([0.95, 1.05, 1.2, 1.5, 3.0], dtype)
    run = jax.jit(jax.vmap(lambda factor: simulate(scene, states, squeeze(factor), 200)))
    path, impulses = run(factors)
    moved = np.asarray(path["cube"].root_pose - states["cube"].root_pose, float)
    assert np.max(np.abs(moved[1:, -1, :3])) < {"float64": 1e-15, "float32": 1e-8}[dtype]
    assert np.max(np.abs(moved[1:, -1, 3:6])) < {"float64": 1e-12, "float32": 1e-6}[dtype]
    corners = np.asarray(factors)[1:, None] * 0.3 * GRAVITY / (2 * 0.8) / 4
    wanted = np.broadcast_to(corners, (4, 8))
    tolerance = {"float64": 1e-8, "float32": 0.2}[dtype]
    np.testing.assert_allclose(impulses[1:, -1, :, 2] / DT, wanted, rtol=tolerance)
    # With 5 % too little force, 5 % of the weight is left. After 0.1 s the cube still covers the
    # pads.
    speed = path["cube"].root_velocity[0, 19, 2]
    np.testing.assert_allclose(
        speed, -0.05 * GRAVITY * 0.1, rtol={"float64": 1e-6, "float32": 1e-3}[dtype]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("masses", "dtype"),
    [
        ((1.0, 1000.0), "float64"),
        pytest.param((1.0, 1000.0), "float32", marks=pytest.mark.slow),
        pytest.param((1000.0, 1.0), "float32", marks=pytest.mark.slow),
        pytest.param((1.0, 100.0, 10000.0), "float64", marks=pytest.mark.slow),
        pytest.param((1.0, 100.0, 10000.0), "float32", marks=pytest.mark.slow),
        pytest.param((1.0,) * 7, "float64", marks=pytest.mark.slow),
    ],
)
def test_a_stack_stays(masses: tuple[float, ...], dtype: str) -> None:
    """Boxes on each other, off centre, for 2 s; the lowest mass is the first."""
    bodies = {f"box{k}": box(mass, 0.05, 0.6, dtype, f"box{k}") for k, mass in enumerate(masses)}
    pairs = [(f"box{k + 1}/shape", f"box{k}/shape") for k in range(len(masses) - 1)]
    scene, ground = Scene(bodies, pairs=pairs), Ground.flat(friction=0.6).astype(dtype)
    places = [(0.003 * (-1) ** k, 0.002 * k, 0.05 + 0.1 * k) for k in range(len(masses))]
    states = {
        name: at(body, *place) for (name, body), place in zip(bodies.items(), places, strict=True)
    }
    path, _ = jax.jit(lambda: simulate(scene, states, None, 400, ground))()
    for name in bodies:
        pose = np.asarray(path[name].root_pose, float)
        assert (
            np.max(np.abs(pose[-1, :3] - pose[200, :3])) < {"float64": 1e-8, "float32": 1e-7}[dtype]
        )
        assert np.max(np.abs(pose[-1, :3] - np.asarray(states[name].root_pose[:3], float))) < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_a_block_on_an_incline(dtype: str) -> None:
    """Gravity is tilted by 5 degrees less or more than the angle of friction: no creep, and the
    exact speed."""
    friction, body, ground = 0.7, box(1.0, 0.1, 0.7, dtype), Ground.flat(friction=0.7).astype(dtype)
    angles = np.arctan(friction) + np.deg2rad([-5.0, 5.0])
    pulls = GRAVITY * np.stack([np.sin(angles), 0 * angles, -np.cos(angles)], axis=1)
    run = jax.vmap(
        lambda pull: artix.rollout(
            artix.Scene(body.replace(gravity=pull), ground=ground),
            at(body, 0, 0, 0.1),
            None,
            DT,
            NEWTON,
            num_steps=200,
        )
    )
    path = jax.jit(run)(jnp.asarray(pulls, dtype))
    pose = np.asarray(path.root_pose[:, -1], float)
    assert (
        np.max(np.abs(pose[0, :3] - [0, 0, np.float32(0.1) if dtype == "float32" else 0.1])) < 1e-8
    )
    exact = GRAVITY * (np.sin(angles[1]) - friction * np.cos(angles[1]))
    np.testing.assert_allclose(
        path.root_velocity[1, -1, 0], exact, rtol={"float64": 1e-8, "float32": 1e-5}[dtype]
    )
    assert abs(pose[1, 2] - 0.1) < 1e-7


def test_tumbling_adds_no_energy() -> None:
    """Cubes thrown onto the ground: twenty at once, for 1 s."""
    body, ground = box(1.0, 0.1, 0.5, "float64"), Ground.flat(friction=0.5).astype("float64")
    random = np.random.default_rng(0)
    turns = random.normal(size=(20, 4))
    poses = np.concatenate(
        [np.tile([0, 0, 0.35], (20, 1)), turns / np.linalg.norm(turns, axis=1)[:, None]], axis=1
    )
    velocities = random.normal(size=(20, 6)) * [1, 1, 1, 5, 5, 5]

    def energies(pose, velocity):
        start = artix.State(
            root_pose=pose, root_velocity=velocity, joint_position=none, joint_velocity=none
        )
        path = artix.rollout(
            artix.Scene(body, ground=ground), start, None, DT, NEWTON, num_steps=200
        )
        return jax.vmap(lambda s: artix.kinetic_energy(body, s) + artix.potential_energy(body, s))(
            path
        )

    none = jnp.zeros(0)
    found = np.asarray(jax.jit(jax.vmap(energies))(jnp.asarray(poses), jnp.asarray(velocities)))
    assert np.max(np.diff(found, axis=1)) < 1e-6
    assert np.all(found[:, -1] < 0.7 * found[:, 0])  # They have hit the ground.


def slider(**options) -> artix.Articulation:
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0, 0, 0), name="slider")
    builder.add_link(name="rail")
    builder.add_link(
        "rail", Joint.prismatic(Axis.X, **options), mass=2.0, inertia=(0.1,) * 3, name="sled"
    )
    return builder.build("float64")


@pytest.mark.parametrize(
    ("options", "velocity", "force", "expected"),
    [
        ({"drive": artix.Drive(stiffness=1e4, max_force=6.0)}, 0.0, 0.0, 6.0 * DT / 2),
        ({"limits": [(-1.0, 0.001)]}, 3.0, 0.0, 0.001 / DT),
        ({"friction": artix.JointFriction(static=5.0, dynamic=2.0)}, 0.0, 4.9, 0.0),
        ({"friction": artix.JointFriction(static=5.0, dynamic=2.0)}, 0.0, 5.1, 3.1 * DT / 2),
        ({"friction": artix.JointFriction(static=2.0, dynamic=2.0)}, 1.0, 0.0, 1.0 - 2.0 * DT / 2),
        ({"friction": artix.JointFriction(static=2.0, dynamic=2.0)}, 1e-3, 0.0, 0.0),
    ],
)
def test_rows_of_a_joint(options: dict, velocity: float, force: float, expected: float) -> None:
    """Saturation, limits and dry friction of one DOF, in closed form."""
    sled = slider(**options)
    state = artix.neutral_state(sled).replace(joint_velocity=jnp.array([velocity]))
    control = Control(joint_force=jnp.array([force]), drive_target=jnp.ones(1))
    end = artix.step(sled, state, control, DT, NEWTON)
    # The tolerance of a step
    np.testing.assert_allclose(end.joint_velocity[0], expected, atol=1e-8)


@pytest.mark.slow
def test_what_is_not_solved_is_reported() -> None:
    """A cube that lands on an edge, slides and spins takes more than one Newton step; the rest
    gains no energy."""
    body, ground = box(1.0, 0.1, 0.5, "float64"), Ground.flat(friction=0.5).astype("float64")
    turned = at(body, 0, 0, 0.12).replace(root_velocity=jnp.array([2.0, 1.0, -8.0, 3.0, 2.0, 5.0]))
    turn = jnp.array([0.5, 0.1, 0.0, 1.0])
    turned = turned.replace(root_pose=turned.root_pose.at[3:].set(turn / jnp.linalg.norm(turn)))
    residuals = []
    for most in (1, 60):
        options = SolverOptions(max_newton_steps=most)
        end, report = artix.step_and_report(Scene(body, ground=ground), turned, None, DT, options)
        residuals.append(float(report.velocity_residual.max))
        assert report.is_solved == (most > 1)
        assert artix.kinetic_energy(body, end) < artix.kinetic_energy(body, turned)
    assert residuals[0] > 1e-3
    assert residuals[1] < 1e-8


def hopper() -> artix.Articulation:
    """A trunk on a leg whose flat foot is light."""
    drive = artix.Drive(stiffness=200.0, damping=4.0, max_force=40.0)
    builder = artix.ArticulationBuilder(name="hopper")
    link = builder.add_link(mass=10.0, inertia=(0.2, 0.2, 0.1), name="trunk")
    above, below = (0.0, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, -0.15, 0.0, 0.0, 0.0, 1.0)
    for axis, mass, size in (
        (Axis.SWING1, 2.0, 0.02),
        (Axis.SWING1, 1.0, 0.01),
        (Axis.TWIST, 0.1, 1e-4),
    ):
        hinge = Joint.revolute(
            axis, parent_pose=below, child_pose=above, drive=drive, armature=1e-3
        )
        link = builder.add_link(link, hinge, mass=mass, inertia=(size, size, size))
    builder.add_geometry(link, Geometry.box((0.1, 0.05, 0.02)), name="foot")
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize(
    "most", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_what_is_not_solved_adds_no_energy(most: int) -> None:
    """Falls of a robot whose drives are at their limits, with few Newton steps: only the drives
    work."""
    robot, options, dt = hopper(), SolverOptions(max_newton_steps=most), 0.004
    scene = Scene(robot, ground=Ground.flat(friction=0.8), max_contacts_per_geometry=4)
    force = robot.drive.max_force

    def energy(state: artix.State) -> jax.Array:
        kinetic = artix.kinetic_energy(robot, state, armature=True)
        return kinetic + artix.potential_energy(robot, state)

    def fall(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(key, 5)
        joints = jax.random.normal(keys[0], (3, len(force)), robot.dtype)
        state = artix.random_state(robot, keys[1]).replace(
            joint_position=0.5 * joints[0],
            joint_velocity=2 * joints[1],
            root_velocity=2 * jax.random.normal(keys[2], (6,), robot.dtype),
        )
        above = 0.005 - jnp.min(artix.geometry_distances(scene, state))
        start = state.replace(root_pose=state.root_pose.at[2].add(above))
        control = Control(drive_target=0.5 * joints[2])

        def advance(state: artix.State, _: None) -> tuple[artix.State, tuple[jax.Array, jax.Array]]:
            end, report = artix.step_and_report(scene, state, control, dt, options)
            fastest = jnp.maximum(jnp.abs(state.joint_velocity), jnp.abs(end.joint_velocity))
            most_work = dt * jnp.sum(force * fastest)
            return end, (energy(end) - energy(state) - most_work, report.is_solved)

        return jax.lax.scan(advance, artix.remember_contacts(scene, start), length=50)[1]

    gain, is_solved = jax.jit(jax.vmap(fall))(jax.random.split(jax.random.key(0), 128))
    assert np.mean(~np.asarray(is_solved)) > 0.001
    # Steps err by the order of dt. It was 200 J with two Newton steps.
    assert np.max(gain) < 0.1


def difference(function, x: float, step: float = 1e-6) -> float:
    jitted = jax.jit(function)
    return float((jitted(jnp.asarray(x + step)) - jitted(jnp.asarray(x - step))) / (2 * step))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.5, pytest.param(0.8, marks=pytest.mark.slow)])
def test_gradients_through_a_grasp(factor: float) -> None:
    """One pad presses harder, so that hand and cube accelerate together; with 0.8, the cube slides
    as well."""
    scene, states = grasp("float64")

    def place(factor):
        force = factor * 0.3 * GRAVITY / (2 * 0.8)
        controls = {"hand": Control(joint_force=jnp.stack([1.1 * force, -force]))}
        end = jax.tree.map(
            lambda x: x[-1], artix.rollout(scene, states, controls, DT, NEWTON, num_steps=10)
        )
        return (
            end["cube"].root_pose[1] + end["cube"].root_velocity[1] + end["cube"].root_velocity[2]
        )

    np.testing.assert_allclose(
        jax.jit(jax.grad(place))(jnp.asarray(factor)), difference(place, factor), rtol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("push", [5.0, 20.0])
def test_gradients_through_a_stack(push: float) -> None:
    """A push on the uppermost of three boxes, which holds it or slides."""
    bodies = {f"box{k}": box(1.0 + k, 0.05, 0.6, "float64", f"box{k}") for k in range(3)}
    scene = Scene(bodies, pairs=[("box1/shape", "box0/shape"), ("box2/shape", "box1/shape")])
    ground = Ground.flat(friction=0.6).astype("float64")
    states = {name: at(body, 0, 0, 0.05 + 0.1 * k) for k, (name, body) in enumerate(bodies.items())}

    def speed(push):
        controls = {"box2": Control(external_force=jnp.zeros((1, 6)).at[0, 1].set(push))}
        end = artix.rollout(
            scene.replace(ground=ground), states, controls, DT, NEWTON, num_steps=10
        )
        return (
            end["box2"].root_velocity[-1, 1]
            + end["box2"].root_pose[-1, 1]
            + end["box0"].root_velocity[-1, 1]
        )

    wanted = difference(speed, push)
    np.testing.assert_allclose(
        jax.jit(jax.grad(speed))(jnp.asarray(push)), wanted, rtol=1e-6, atol=1e-9
    )
    assert (abs(wanted) > 1e-3) == (push > 10)


@pytest.mark.slow
def test_a_quadruped_stands() -> None:
    """Feet on drives: after 2 s the ground carries its weight, and it does not move."""
    task = quadruped("float64")
    robot, posture, ground = (
        task.articulation,
        task.default_position,
        Ground.flat(friction=0.8).astype("float64"),
    )
    drive = robot.drive.replace(
        stiffness=jnp.full(12, 80.0), damping=jnp.full(12, 3.0), target_position=posture
    )
    robot = robot.replace(drive=drive)
    start = artix.neutral_state(robot).replace(joint_position=posture)
    start = start.replace(root_pose=start.root_pose.at[2].set(task.height))
    scene = artix.Scene(robot, ground=ground)
    path, reports = reported_rollout(scene, start, None, DT, 600, NEWTON)
    weight = GRAVITY * float(jnp.sum(robot.link_mass))
    np.testing.assert_allclose(jnp.sum(reports.contacts.force[-1, :, 2]), weight, rtol=1e-6)
    assert np.max(np.abs(path.root_pose[-1] - path.root_pose[-100])) < 1e-8


@pytest.mark.slow
def test_large_trees_are_kernels() -> None:
    """Balls that slide, 66 velocities in all: none couples to others, so eliminating them takes few
    operations."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name="ball")
    builder.add_link(mass=1.0, inertia=(0.004,) * 3, name="ball")
    builder.add_geometry("ball", Geometry.sphere(0.1, friction=0.5))
    ball = builder.build("float64")
    scene = Scene({f"ball{k}": ball for k in range(11)}, ground=Ground.flat(friction=0.5))
    speeds = 1.0 + np.arange(11)
    states = {name: at(ball, 0, 0, 0.1) for name in scene.names}
    for name, speed in zip(scene.names, speeds, strict=True):
        states[name] = states[name].replace(root_velocity=jnp.zeros(6).at[0].set(speed))

    def ends(scene: Scene, states: dict[str, artix.State]) -> dict[str, artix.State]:
        return artix.step(scene, states, None, DT)

    (cost,) = artix.explain(ends, scene, states).operations
    assert cost.refusal is None
    after = ends(scene, states)
    found = [float(after[name].root_velocity[0]) for name in scene.names]
    np.testing.assert_allclose(found, speeds - 0.5 * GRAVITY * DT, rtol=1e-9)
