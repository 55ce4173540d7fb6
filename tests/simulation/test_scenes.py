"""Scenes of several articulations: their members alone, conservation laws, MuJoCo's matrices,
finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import Geometry, Ground, Scene, State
from tests.simulation.test_loop_joints import four_bar, largest_error
from tests.support.rollouts import last, reported_rollout


def body(
    shape: Geometry, mass: float = 1.0, inertia=(0.01, 0.01, 0.01), com=(0.0, 0.0, 0.0), **options
):
    """A free rigid body: an articulation of one link."""
    builder = artix.ArticulationBuilder(name="body", **options)
    builder.add_link(mass=mass, inertia=inertia, com_pose=(*com, 0.0, 0.0, 0.0, 1.0), name="body")
    builder.add_geometry("body", shape, name="shape")
    return builder.build("float64")


def cube(dtype="float64", friction: float = 0.6) -> artix.Articulation:
    """200 grams, edges of 6 cm."""
    return body(Geometry.box((0.03, 0.03, 0.03), friction=friction), 0.2, (1.2e-4,) * 3).astype(
        dtype
    )


def at(robot: artix.Articulation, *position: float, velocity=(0.0,) * 6) -> State:
    state = artix.neutral_state(robot)
    place = state.root_pose.at[:3].set(jnp.array(position, robot.dtype))
    return state.replace(root_pose=place, root_velocity=jnp.array(velocity, robot.dtype))


def momentum(scene: Scene, states: dict[str, State]) -> jax.Array:
    """Of the whole about the origin, [6]."""
    total = jnp.zeros(6, scene.dtype)
    for name in scene.names:
        robot, state = scene[name], states[name]
        own = artix.centroidal_momentum(robot, state)
        total = total + own.at[3:].add(jnp.cross(artix.center_of_mass(robot, state), own[:3]))
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "drift"),
    [({}, 1e-4), pytest.param({"contact_iterations": 6}, 1e-6, marks=pytest.mark.slow)],
)
def test_a_grasp_does_not_drift(options: dict, drift: float) -> None:
    """Two flat pads on free fingers lift a cube, which friction alone keeps from drifting aside
    [m/s]."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="gripper")
    builder.add_link(name="base")
    drive = artix.Drive(stiffness=2000.0, damping=200.0)
    lift = artix.Joint.prismatic(
        artix.Axis.Z, drive=drive, parent_pose=(0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0)
    )
    palm = builder.add_link("base", lift, mass=0.5, inertia=(1e-3,) * 3, name="palm")
    for side, name in ((-1, "left"), (1, "right")):
        slide = artix.Joint.prismatic(
            artix.Axis.Y, parent_pose=(0.0, 0.06 * side, 0.0, 0.0, 0.0, 0.0, 1.0)
        )
        builder.add_link(palm, slide, mass=0.1, inertia=(1e-4,) * 3, name=name)
        below = (0.0, 0.0, -0.27, 0.0, 0.0, 0.0, 1.0)
        builder.add_geometry(
            name, Geometry.box((0.02, 0.01, 0.04), pose=below, friction=0.8, sensor=True), name=name
        )
    held = cube()
    pairs = [("gripper/left", "cube/shape"), ("gripper/right", "cube/shape")]
    scene = Scene({"gripper": builder.build("float64"), "cube": held}, pairs=pairs)
    states = scene.neutral_state() | {"cube": at(held, 0.0, 0.0, 0.03)}
    heights = jnp.interp(
        0.005 * jnp.arange(120.0), jnp.array([0.0, 0.3, 1.0]), jnp.array([0.0, 0.0, 0.2])
    )
    control = artix.Control(
        joint_force=jnp.tile(jnp.array([0.0, 8.0, -8.0]), (120, 1)),
        drive_target=jnp.stack([heights, 0 * heights, 0 * heights], axis=1),
    )
    ground = Ground.flat(friction=0.5).astype("float64")
    path = artix.rollout(
        scene.replace(ground=ground),
        states,
        {"gripper": control},
        0.005,
        artix.SolverOptions(**options),
    )
    end = last(path)["cube"]
    assert end.root_pose[2] > 0.06
    assert jnp.abs(end.root_velocity[1]) < drift


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", ["float64", pytest.param("float32", marks=pytest.mark.exhaustive)]
)
def test_members_that_do_not_touch_step_as_by_themselves(dtype: str) -> None:
    """On hills, also one that is a hundred metres away; and a linkage, whose loop joint makes its
    equations dense."""
    linkage, ball = (
        four_bar(dtype=dtype),
        body(Geometry.sphere(0.1), com=(0.03, 0.0, 0.0)).astype(dtype),
    )
    members = {"linkage": linkage, "ball": ball, "far": ball}
    scene = Scene(members, pairs=[("ball/shape", "far/shape")])
    states = {
        "linkage": artix.neutral_state(linkage),
        "ball": at(ball, 0.0, 0.0, 0.5, velocity=(0.5, 0.0, 0.0, 3.0, 2.0, -1.0)),
        "far": at(ball, 100.0, 0.0, 0.3, velocity=(0.0, 0.5, 0.0, 0.0, 1.0, 2.0)),
    }
    heights = 0.1 * np.sin(np.linspace(0.0, 30.0, 120))[:, None] * np.cos(np.linspace(0.0, 3.0, 8))
    hills = artix.HeightField.of(
        heights, spacing=(1.0, 1.0), origin=(-4.0, -4.0, 0.0), friction=0.5
    )
    ground = Ground((hills,)).astype(dtype)
    found = artix.rollout(scene.replace(ground=ground), states, None, 0.005, num_steps=60)
    assert largest_error(linkage, found["linkage"]) < 1e-6
    for name, robot in members.items():
        own = None if name == "linkage" else ground
        alone = artix.rollout(
            artix.Scene(robot, ground=own), states[name], None, 0.005, num_steps=60
        )
        for here, there in zip(jax.tree.leaves(found[name]), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(
                here, there, rtol=0, atol=1e-12 if dtype == "float64" else 1e-5
            )


@pytest.mark.slow
def test_two_quadrupeds_cost_what_they_cost_alone() -> None:
    """Without pairs, the program of a scene has the operations of its members' and no more."""
    robot, ground = artix.robots.load("quadruped"), Ground.flat()
    scene = Scene({"one": robot, "other": robot})
    (alone,) = artix.explain(
        lambda a, state: artix.step(artix.Scene(a, ground=ground), state, None, 0.005), robot
    ).operations
    (both,) = artix.explain(
        lambda a, states: artix.step(a.replace(ground=ground), states, None, 0.005), scene
    ).operations
    assert sum(both.operations) <= 2 * sum(alone.operations)


@pytest.mark.slow
def test_a_pendulum_hits_a_ball() -> None:
    """The impact that sticks follows from the mass matrix and Jacobians of MuJoCo, which has both
    in one model."""
    text = """<mujoco><option gravity="0 0 0"/><worldbody>
      <body><joint axis="0 1 0"/><inertial pos="0 0 -0.5" mass="1" diaginertia="0.1 0.1 0.01"/>
        <body pos="0 0 -1"><joint axis="0 1 0"/><inertial pos="0 0 -0.4" mass="0.5" diaginertia="0.03 0.03 0.01"/></body>
      </body>
      <body pos="0.2 0 -1.9"><freejoint/><inertial pos="0 0.02 0.01" mass="0.3" diaginertia="2e-3 1e-3 3e-3"/></body>
    </worldbody></mujoco>"""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0.0, 0.0, 0.0), name="pendulum")
    above = builder.add_link(name="world")
    for place, com, mass, inertia in ((0, -0.5, 1.0, 0.1), (-1, -0.4, 0.5, 0.03)):
        joint = artix.Joint.revolute(artix.Axis.SWING1, parent_pose=(0, 0, place, 0, 0, 0, 1))
        pose = (0, 0, com, 0, 0, 0, 1)
        above = builder.add_link(
            above, joint, mass=mass, com_pose=pose, inertia=(inertia, inertia, 0.01)
        )
    builder.add_geometry(
        above, Geometry.sphere(0.1, position=(0, 0, -0.9), friction=2.0), name="tip"
    )
    pendulum = builder.build("float64")
    ball = body(
        Geometry.sphere(0.1), 0.3, (2e-3, 1e-3, 3e-3), (0.0, 0.02, 0.01), gravity=(0.0, 0.0, 0.0)
    )
    scene = Scene({"pendulum": pendulum, "ball": ball}, pairs=[("pendulum/tip", "ball/shape")])
    # The ball's velocity of the centre of mass, and its spin.
    spin = np.array([0.5, -0.2, 0.7])
    states = {
        "pendulum": artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([-1.0, -0.7])),
        "ball": at(ball, 0.2, 0.0, -1.9, velocity=(-0.4, 0.3, 0.2, *spin)),
    }
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    lever = np.array([0.0, 0.02, 0.01])
    data.qvel[:] = [-1.0, -0.7, *(np.array([-0.4, 0.3, 0.2]) - np.cross(spin, lever)), *spin]
    mujoco.mj_forward(model, data)
    matrix, rows = np.zeros((8, 8)), [np.zeros((3, 8)), np.zeros((3, 8))]
    if mujoco.mj_versionString() >= "4":
        mujoco.mj_fullM(model, data, matrix)
    else:
        mujoco.mj_fullM(model, matrix, data.qM)
    for k, row in enumerate(rows):
        mujoco.mj_jac(model, data, row, None, np.array([0.1, 0.0, -1.9]), 2 + k)
    relative = rows[0] - rows[1]
    effect = np.linalg.solve(matrix, relative.T)
    impulse = -np.linalg.solve(relative @ effect, relative @ data.qvel)
    # It presses, and friction holds.
    assert impulse[0] < -0.1 and np.linalg.norm(impulse[1:]) < -2.0 * impulse[0]
    wanted = data.qvel + effect @ impulse
    ends, report = artix.step_and_report(scene, states, None, 1e-9)
    found = report.link_contacts
    np.testing.assert_allclose(ends["pendulum"].joint_velocity, wanted[:2], atol=1e-7)
    np.testing.assert_allclose(ends["ball"].root_velocity[3:], wanted[5:], atol=1e-7)
    np.testing.assert_allclose(
        ends["ball"].root_velocity[:3], wanted[2:5] + np.cross(wanted[5:], lever), atol=1e-7
    )
    np.testing.assert_allclose(found.force[0] * 1e-9, impulse, atol=1e-7)
    names = [scene.link_names[link] for link in found.links[0]]
    assert names == [f"pendulum/{pendulum.topology.link_names[-1]}", "ball/body"]


@pytest.mark.exhaustive
def test_a_ball_lands_on_a_linkage() -> None:
    """Its loop joint stays closed, and the ball's momentum changes by what the contact reports and
    by its weight."""
    builder = artix.builder_from_articulation(four_bar())
    builder.add_geometry(
        "coupler", Geometry.capsule(0.05, 0.4, pose=(0.4, 0, 0.15, 0, 0.6, 0, 0.8)), name="bar"
    )
    linkage, ball = builder.build("float64"), body(Geometry.sphere(0.1))
    scene = Scene({"linkage": linkage, "ball": ball}, pairs=[("ball/shape", "linkage/bar")])
    states = {
        "linkage": artix.neutral_state(linkage),
        "ball": at(ball, 0.5, 0.0, 0.9, velocity=(0, 0, -1, 0, 0, 0)),
    }
    advance = jax.jit(lambda now: artix.step_and_report(scene, now, None, 0.002))
    pressed = 0
    for _ in range(100):
        ends, report = advance(states)
        change = ends["ball"].root_velocity[:3] - states["ball"].root_velocity[:3]
        given = report.link_contacts.force.sum(axis=0) - jnp.array([0.0, 0.0, 9.81])
        np.testing.assert_allclose(change, 0.002 * given, atol=1e-12)
        np.testing.assert_allclose(report.link_contacts.link_force.sum(axis=0), 0, atol=1e-9)
        pressed, states = pressed + int(report.link_contacts.impulse[0, 2] > 0), ends
        assert largest_error(linkage, jax.tree.map(lambda leaf: leaf[None], ends["linkage"])) < 1e-6
    assert pressed > 10


@pytest.mark.slow
def test_a_pendulum_pushes_a_ball_as_in_mujoco() -> None:
    """Over a whole motion, from touch until long after they have parted: 3e-7 m.

    Without friction, and with the compliance that MuJoCo's force has at the end of a step if its
    damping is one over the time step, the laws are the same. With friction MuJoCo's contacts that
    stick would creep, see ``test_contact_peers.py``. A contact that closes within a step only
    pushes in the next one in MuJoCo, so they begin in touch.
    """
    text = """<mujoco><option timestep="0.002" tolerance="0" iterations="100"/>
    <default><geom condim="1" solref="-4000 -450" solimp=".9 .9 1"/></default>
    <worldbody>
      <body><joint axis="0 1 0"/><inertial pos="0 0 -0.4" mass="0.8" diaginertia="0.05 0.05 0.01"/>
        <geom size="0.1" pos="0 0 -0.9"/></body>
      <body pos="-0.19 0.03 -0.85"><freejoint/><inertial pos="0 0 0" mass="0.3" diaginertia="2e-3 2e-3 2e-3"/>
        <geom size="0.1"/></body>
    </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data, dt = mujoco.MjData(model), model.opt.timestep
    data.qvel[0] = 0.5
    mujoco.mj_forward(model, data)
    spring, damping, impedance, _ = data.efc_KBIP[0]
    np.testing.assert_allclose(damping * dt, 1.0)
    stiffness = spring * impedance / data.efc_R[0]
    soft = {"stiffness": stiffness, "damping": 1 / (dt * data.efc_R[0]) - stiffness * dt}
    builder = artix.ArticulationBuilder(fixed_base=True, name="pendulum")
    place, joint = (0, 0, -0.4, 0, 0, 0, 1), artix.Joint.revolute(artix.Axis.SWING1)
    arm = builder.add_link(
        builder.add_link(), joint, mass=0.8, com_pose=place, inertia=(0.05, 0.05, 0.01)
    )
    builder.add_geometry(arm, Geometry.sphere(0.1, position=(0, 0, -0.9), **soft), name="tip")
    pendulum, ball = builder.build("float64"), body(Geometry.sphere(0.1), 0.3, (2e-3,) * 3)
    scene = Scene({"pendulum": pendulum, "ball": ball}, pairs=[("pendulum/tip", "ball/shape")])
    swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([0.5]))
    states = {"pendulum": swinging, "ball": at(ball, -0.19, 0.03, -0.85)}
    path = artix.rollout(scene, states, None, dt, num_steps=200)
    places, touching = [], []
    for _ in range(200):
        mujoco.mj_step(model, data)
        places.append(data.qpos[:4].copy())
        touching.append(data.ncon)
    assert 20 < sum(touching) < 100
    found = np.concatenate([path["pendulum"].joint_position, path["ball"].root_pose[:, :3]], axis=1)
    np.testing.assert_allclose(found, places, atol=3e-7)


@pytest.mark.slow
def test_momentum_and_energy() -> None:
    """Of two bodies that fly into each other obliquely: momentum stays to rounding, energy never
    rises."""
    weightless = {"gravity": (0.0, 0.0, 0.0)}
    capsule = body(Geometry.capsule(0.1, 0.3, friction=0.5), 2.0, (0.05, 0.05, 0.05), **weightless)
    box = body(
        Geometry.box((0.2, 0.15, 0.1)), 3.0, (0.1, 0.1, 0.1), (0.02, 0.01, -0.03), **weightless
    )
    scene = Scene({"capsule": capsule, "box": box}, pairs=[("capsule/shape", "box/shape")])
    flying = at(box, 0.02, 0.03, 0.7, velocity=(0.1, -0.1, -2.0, 0.5, 1.0, -0.5))
    turned = flying.root_pose.at[3:].set(jnp.array([0.15, 0.25, 0.1, 0.95]))
    states = {
        "capsule": artix.neutral_state(capsule),
        "box": artix.normalize(box, flying.replace(root_pose=turned)),
    }
    options = artix.SolverOptions(contact_iterations=4)
    path = artix.rollout(scene, states, None, 1e-3, options, num_steps=400)
    every = np.asarray(jax.vmap(lambda now: momentum(scene, now))(path))
    np.testing.assert_allclose(
        every, np.broadcast_to(momentum(scene, states), every.shape), atol=1e-12
    )

    def energy(now: dict[str, State]) -> jax.Array:
        return sum(artix.kinetic_energy(scene[name], now[name]) for name in scene.names)

    energies = np.asarray(jax.vmap(energy)(path))
    assert np.max(np.diff(energies)) < 1e-10
    assert energies[-1] < 0.9 * float(energy(states))  # They have met.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "place", "most"), [("float64", 0.0, 1e-15), ("float32", 50.0, 1e-7)]
)
def test_stacked_cubes_do_not_creep(dtype, place: float, most: float) -> None:
    """Three cubes, each a little beside the one below, ten seconds, also far from the origin."""
    names, ground = ("low", "middle", "high"), Ground.flat(friction=0.6).astype(dtype)
    pairs = [("middle/shape", "low/shape"), ("high/shape", "middle/shape")]
    scene = Scene(dict.fromkeys(names, cube(dtype)), pairs=pairs)
    states = {
        name: at(scene[name], place + 0.004 * k, 0.0, 0.03 + 0.06 * k)
        for k, name in enumerate(names)
    }
    options = artix.SolverOptions(max_contacts_per_geometry=4)
    path = artix.rollout(scene.replace(ground=ground), states, None, 0.005, options, num_steps=2000)
    for name in names:
        moved = np.abs(np.asarray(path[name].root_pose[1000:] - path[name].root_pose[999], float))
        assert moved.max() < most
        assert np.abs(path[name].root_pose[-1] - states[name].root_pose).max() < 1e-6


@pytest.mark.slow
def test_a_row_of_thirteen_balls() -> None:
    """More bodies than the step eliminates column by column: one runs into a row of twelve, all go
    on as one, and each contact passes on what those behind it need."""
    ball, count, speed = body(Geometry.sphere(0.05), gravity=(0.0, 0.0, 0.0)), 13, 0.26
    names = [f"ball{k}" for k in range(count)]
    pairs = [(f"{a}/shape", f"{b}/shape") for k, a in enumerate(names) for b in names[k + 1 :]]
    scene = Scene(dict.fromkeys(names, ball), pairs=pairs)
    states = {name: at(ball, 0.1 * k, 0.0, 0.0) for k, name in enumerate(names)}
    states[names[0]] = at(ball, 0.0, 0.0, 0.0, velocity=(speed, *(0.0,) * 5))
    after, report = jax.jit(lambda states: artix.step_and_report(scene, states, None, 0.01))(states)
    speeds = np.array([after[name].root_velocity for name in names])
    np.testing.assert_allclose(speeds, [[speed / count, *(0.0,) * 5]] * count, atol=1e-12)
    touching = np.array([abs(b - a) == 1 for a in range(count) for b in range(a + 1, count)])
    forces = np.abs(report.link_contacts.force[:, 0])
    passed_on = speed / 0.01 * np.arange(count - 1, 0, -1) / count
    np.testing.assert_allclose(forces[touching], passed_on, atol=1e-9)
    assert np.all(forces[~touching] == 0)


@pytest.mark.slow
def test_a_hand_pushes_a_cube() -> None:
    """Along the floor by the closed form: both accelerate as one, less the friction of the cube."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="pusher")
    slide = artix.Joint.prismatic(artix.Axis.X, parent_pose=(0, 0, 0.03, 0, 0, 0, 1))
    builder.add_link(
        builder.add_link(name="rail"), slide, mass=0.5, inertia=(1e-3,) * 3, name="hand"
    )
    builder.add_geometry("hand", Geometry.sphere(0.02, sensor=True), name="palm")
    pusher, pushed = builder.build("float64"), cube(friction=0.0)
    scene = Scene({"pusher": pusher, "cube": pushed}, pairs=[("pusher/palm", "cube/shape")])
    states = {"pusher": artix.neutral_state(pusher), "cube": at(pushed, 0.05, 0.0, 0.03)}
    ground, force = (
        Ground.flat(friction=0.4),
        {"pusher": artix.Control(joint_force=jnp.array([2.0]))},
    )
    scene = scene.replace(ground=ground)
    ends, report = last(reported_rollout(scene, states, force, 0.002, 100))
    acceleration = (2.0 - 0.4 * 0.2 * 9.81) / 0.7
    np.testing.assert_allclose(ends["pusher"].joint_velocity[0], 0.2 * acceleration, rtol=1e-6)
    np.testing.assert_allclose(ends["cube"].root_velocity[0], 0.2 * acceleration, rtol=1e-6)
    np.testing.assert_allclose(
        report.link_contacts.force[0], [0.5 * acceleration - 2.0, 0.0, 0.0], atol=1e-6
    )
    np.testing.assert_allclose(
        report.members["cube"].contacts.link_force[0],
        [-0.4 * 0.2 * 9.81, 0.0, 0.2 * 9.81],
        atol=1e-6,
    )
    # The joint transmits what the hand's acceleration and the contact leave of the commanded force.
    sideways = report.members["pusher"].incoming_joint_force[1]
    np.testing.assert_allclose(sideways[2], 0.5 * 9.81, atol=1e-6)


@pytest.mark.slow
def test_two_quadrupeds_bump_into_each_other() -> None:
    """In the air: what one gets the other loses, linear and angular momentum to rounding. Their hips
    and two of their knees are locked, which halves what there is to compile."""
    robot = artix.robots.load("quadruped").astype("float64").replace(gravity=jnp.zeros(3))
    locked = [name for name in robot.topology.dof_names if "hip" in name or "right" in name]
    robot = artix.lock_joints(robot, artix.neutral_state(robot), locked)
    feet = [
        ("one/front_left_foot", "other/rear_left_foot"),
        ("one/front_right_foot", "other/rear_right_foot"),
    ]
    scene = Scene({"one": robot, "other": robot}, pairs=feet)
    start = artix.frame_pose(robot, artix.neutral_state(robot))
    front, rear = (
        start[robot.topology.link_index(f"{end}_left_foot"), 0] for end in ("front", "rear")
    )
    apart = float(front - rear) + 0.06
    states = {
        "one": at(robot, 0.0, 0.0, 0.0, velocity=(1.0, 0, 0, 0, 0, 0)),
        "other": at(robot, apart, 0.01, 0.0),
    }
    path = artix.rollout(scene, states, None, 0.002, num_steps=100)
    every = np.asarray(jax.vmap(lambda now: momentum(scene, now))(path))
    np.testing.assert_allclose(
        every, np.broadcast_to(momentum(scene, states), every.shape), atol=1e-9
    )
    assert artix.centroidal_momentum(robot, last(path)["other"])[0] > 0.01


@pytest.mark.slow
def test_gradients() -> None:
    """Of ten steps of a ball that slides on a box in flight, pushed out of it: differences of the
    same steps."""
    ball = body(Geometry.sphere(0.1), 1.0, (0.004,) * 3)
    cart = body(Geometry.box((0.3, 0.2, 0.05), friction=0.3), 2.0, (0.03, 0.06, 0.08))
    scene = Scene({"ball": ball, "cart": cart}, pairs=[("ball/shape", "cart/shape")])
    states = {
        "ball": at(ball, 0.02, 0.01, 0.2, velocity=(1.0, 0.2, 0.0, 0.3, 0.0, 0.5)),
        "cart": at(cart, 0.0, 0.0, 0.3, velocity=(0.0, 0.1, 0.3, 0.1, 0.0, 0.2)),
    }
    options = artix.SolverOptions(
        contact_iterations=6, max_contacts_per_geometry=1, max_separation_speed=1.0
    )

    def cost(scale: jax.Array) -> jax.Array:
        mass, friction, speed, turn = scale
        moving = {
            name: s.replace(root_velocity=s.root_velocity * jnp.array([speed] * 3 + [turn] * 3))
            for name, s in states.items()
        }
        light = scene.articulations[0].replace(link_mass=mass * ball.link_mass)
        rough = cart.replace(
            geometry=cart.geometry.replace(friction=friction * cart.geometry.friction)
        )
        changed = scene.replace(articulations=(light, rough))
        ends = last(artix.rollout(changed, moving, None, 0.005, options, num_steps=10))
        return sum(
            jnp.sum(jnp.sin(3 * s.root_pose)) + jnp.sum(jnp.cos(s.root_velocity))
            for s in ends.values()
        )

    evaluate, at_one = jax.jit(cost), jnp.ones(4)
    found = jax.grad(cost)(at_one)
    steps = 1e-6 * np.eye(4)
    wanted = [(evaluate(at_one + h) - evaluate(at_one - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7)
    assert np.abs(found).min() > 1e-4


@pytest.mark.slow
def test_gradients_of_two_robots_with_joints() -> None:
    """The DOFs of two floating robots do not follow each other: differences of the same step."""
    builder = artix.ArticulationBuilder(name="duo")
    builder.add_link(mass=1.0, inertia=(0.01, 0.02, 0.03), name="trunk")
    builder.add_geometry("trunk", Geometry.sphere(0.1, friction=0.4), name="shape")
    hinge = artix.Joint.revolute(artix.Axis.SWING1, name="hinge")
    tip = (0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    builder.add_link("trunk", hinge, mass=0.5, com_pose=tip, inertia=(0.002,) * 3, name="arm")
    duo = builder.build("float64")
    scene = Scene({"low": duo, "high": duo}, pairs=[("high/shape", "low/shape")])
    states = {
        "low": at(duo, 0.0, 0.0, 0.0, velocity=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6)),
        "high": at(duo, 0.02, 0.01, 0.1985, velocity=(0.3, 0.0, -0.5, 0.2, 0.1, 0.0)),
    }

    def end(speeds: jax.Array) -> jax.Array:
        moving = {
            name: state.replace(joint_velocity=speeds[k : k + 1])
            for k, (name, state) in enumerate(states.items())
        }
        ends = artix.step(scene, moving, None, 0.004)
        each = [(one.root_velocity, one.joint_velocity) for one in ends.values()]
        return jnp.concatenate([part for parts in each for part in parts])

    speeds, steps = jnp.array([0.7, -0.4]), 1e-6 * np.eye(2)
    wanted = np.stack([(end(speeds + h) - end(speeds - h)) / 2e-6 for h in steps], axis=1)
    assert np.abs(wanted[:7, 1]).max() > 1e-3  # Each moves the other.
    np.testing.assert_allclose(jax.jacfwd(end)(speeds), wanted, atol=1e-8)
    np.testing.assert_allclose(jax.jacrev(end)(speeds), wanted, atol=1e-8)


@pytest.mark.slow
def test_the_gradient_of_two_boxes_is_a_kernel() -> None:
    """With all of their 24 contacts: 86,000 operations, of which the elimination along the tree is
    a small part."""
    box, ground = cube("float32"), Ground.flat().astype("float32")
    scene = Scene({"low": box, "high": box}, pairs=[("high/shape", "low/shape")])

    def height(scene: Scene, states: dict[str, State]) -> jax.Array:
        ends = artix.step(scene.replace(ground=ground), states, None, 0.005)
        return ends["high"].root_pose[2]

    gradient = artix.explain(jax.grad(height, argnums=1), scene, scene.neutral_state()).operations[
        -1
    ]
    assert gradient.refusal is None
    assert sum(gradient.operations) < 90_000


@pytest.mark.slow
def test_a_batch_of_scenes() -> None:
    """``vmap`` over states and parameters is one call for each."""
    ball = body(Geometry.sphere(0.1, friction=0.5))
    scene, ground = (
        Scene({"low": ball, "high": ball}, pairs=[("high/shape", "low/shape")]),
        Ground.flat(),
    )
    heights = jnp.array([0.29, 0.3, 0.31])

    def stacked(height: jax.Array) -> dict[str, State]:
        high = at(ball, 0.01, 0.0, 0.3)
        return {
            "low": at(ball, 0.0, 0.0, 0.1),
            "high": high.replace(root_pose=high.root_pose.at[2].set(height)),
        }

    step = lambda states: artix.step(scene.replace(ground=ground), states, None, 0.005)  # noqa: E731
    together = jax.vmap(step)(jax.vmap(stacked)(heights))
    for k, height in enumerate(heights):
        alone = step(stacked(height))
        for here, there in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(here[k], there, atol=1e-13)


REFUSED = {
    "no member": ({}, (), ValueError, "at least one"),
    "a slash": ({"a/b": "ball"}, (), ValueError, "slash"),
    "unknown shape": (
        {"a": "ball", "b": "ball"},
        [("a/shape", "b/hand")],
        ValueError,
        "no geometry called 'b/hand'",
    ),
    "one member": (
        {"a": "two", "b": "ball"},
        [("a/one", "a/two")],
        ValueError,
        "belong to one robot",
    ),
    "two tables": (
        {"a": "table", "b": "table", "c": "ball"},
        [("a/shape", "c/shape"), ("a/shape", "b/shape")],
        ValueError,
        "'a/shape' and 'b/shape' do not move against each other: both are on fixed bases",
    ),
    "twice": (
        {"a": "ball", "b": "ball"},
        [("a/shape", "b/shape"), ("b/shape", "a/shape")],
        ValueError,
        "given twice",
    ),
    "line": (
        {"a": "ball", "b": "line"},
        [("a/shape", "b/shape")],
        ValueError,
        "'b/shape' is a hull whose points are on a line",
    ),
    "dtypes": ({"a": "ball", "b": "ball32"}, (), TypeError, "one dtype"),
    "number": ({0: "ball"}, (), TypeError, "members: names are strings; found 0"),
    "no name": ({"": "ball"}, (), ValueError, "a member has an empty name"),
}


def by_kind(kind: str) -> artix.Articulation:
    if kind == "two":
        builder = artix.builder_from_articulation(body(Geometry.sphere(0.1)))
        builder.add_geometry("body", Geometry.sphere(0.1), name="one")
        builder.add_geometry("body", Geometry.sphere(0.1), name="two")
        return builder.build("float64")
    if kind == "table":
        builder = artix.ArticulationBuilder(fixed_base=True)
        builder.add_link(name="table")
        builder.add_geometry("table", Geometry.box((1.0, 1.0, 0.1)), name="shape")
        return builder.build("float64")
    shape = Geometry.sphere(0.1)
    if kind == "line":
        shape = Geometry.hull(np.array([(0.0, 0.0, 0.0), (0.1, 0.0, 0.0)]))
    return body(shape).astype("float32" if kind == "ball32" else "float64")


@pytest.mark.parametrize("case", REFUSED)
def test_bad_scenes_are_refused(case: str) -> None:
    members, pairs, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        Scene({name: by_kind(kind) for name, kind in members.items()}, pairs=pairs)


def test_bad_arguments_are_refused() -> None:
    ball = body(Geometry.sphere(0.1))
    scene = Scene({"a": ball, "b": ball})
    states = scene.neutral_state()
    with pytest.raises(KeyError, match="no robot called 'c'; choose from: a, b"):
        scene["c"]
    with pytest.raises(ValueError, match=r"state: nothing for b; scene\.neutral_state"):
        artix.step(scene, {"a": states["a"]}, None, 0.01)
    with pytest.raises(ValueError, match="control: no robot called c; choose from: a, b"):
        artix.step(scene, states, {"c": artix.Control()}, 0.01)
    flat = states["b"].replace(root_pose=jnp.zeros(6))
    with pytest.raises(ValueError, match=r"state\['b'\]\.root_pose: expected shape \(7,\)"):
        artix.step(scene, states | {"b": flat}, None, 0.01)
    pushed = {"b": artix.Control(external_force=jnp.zeros((2, 6)))}
    with pytest.raises(
        ValueError, match=r"control\['b'\]\.external_force: expected shape \(1, 6\)"
    ):
        artix.step(scene, states, pushed, 0.01)
    with pytest.raises(
        TypeError, match="state: expected a dictionary by the names of the robots, found State"
    ):
        artix.rollout(scene, states["a"], None, 0.01, num_steps=2)
    with pytest.raises(TypeError, match=r"state: expected artix\.State, found dict"):
        artix.step(ball, states, None, 0.01)
    with pytest.raises(TypeError, match=r"articulation: expected artix\.Articulation, found str"):
        artix.step("ball", states, None, 0.01)
    with pytest.raises(
        TypeError,
        match="members: expected an articulation or a dictionary of articulations, found li",
    ):
        Scene([ball])
    with pytest.raises(
        TypeError,
        match="members: expected an articulation or a dictionary of articulations, found tu",
    ):
        Scene((ball, ball))
    with pytest.raises(TypeError, match=r"ground: expected artix\.Ground, found Plane"):
        Scene(ball, ground=artix.Plane.of())
    with pytest.raises(ValueError, match="max_link_contacts must be at least 1; found 0"):
        Scene(ball, max_link_contacts=0)
    with pytest.raises(ValueError, match="solver='tgs' does not support contact between robots"):
        artix.step(scene, states, None, 0.01, artix.SolverOptions(solver="tgs"))
    with pytest.raises(ValueError, match="give num_steps"):
        artix.rollout(scene, states, None, 0.01)
    level = Ground.flat().astype("float64")
    other = artix.remember_contacts(scene.replace(ground=level), states)
    with pytest.raises(
        ValueError, match=r"state\.contact_memory\.impulse: expected shape \(4, 3\)"
    ):
        artix.step(
            scene.replace(ground=level.replace(surfaces=level.surfaces * 2)), other, None, 0.01
        )


@pytest.mark.parametrize("solver", ["implicit", "tgs"])
def test_what_cannot_touch_the_ground_moves_as_without_it(solver: str) -> None:
    pole, options = artix.robots.load("cart_pole"), artix.SolverOptions(solver=solver)
    state = artix.neutral_state(pole).replace(joint_position=jnp.array([0.0, 0.3], pole.dtype))
    with pytest.warns(UserWarning, match="no shape of 'cart_pole' can touch the ground") as caught:
        found = artix.step(Scene(pole, ground=Ground.flat()), state, None, 0.01, options)
    assert [warning.filename for warning in caught] == [__file__]
    for one, other in zip(
        jax.tree.leaves(found),
        jax.tree.leaves(artix.step(pole, state, None, 0.01, options)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
