"""Contacts between links of one articulation in steps: closed forms, contact laws, finite
differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import Geometry
from artix.math import spatial
from tests.support.rollouts import last, reported_rollout

MASSES = (2.0, 3.0)


def two_bodies(
    a: Geometry, b: Geometry, dtype="float64", gravity=(0.0, 0.0, 0.0)
) -> artix.Articulation:
    """Two free bodies as one articulation: the second hangs on the first by massless links that
    hold nothing."""
    builder = artix.ArticulationBuilder(gravity=gravity, name="two")
    above = builder.add_link(mass=MASSES[0], inertia=(0.05, 0.06, 0.07), name="first")
    for k, axis in enumerate((artix.Axis.X, artix.Axis.Y, artix.Axis.Z)):
        above = builder.add_link(above, artix.Joint.prismatic(axis), name=f"slide_{k}")
    builder.add_link(
        above, artix.Joint.spherical(), mass=MASSES[1], inertia=(0.1, 0.12, 0.09), name="second"
    )
    builder.add_geometry("first", a, name="a")
    builder.add_geometry("second", b, name="b")
    builder.add_geometry_pair("a", "b")
    return builder.build(dtype)


def moving(
    robot: artix.Articulation, position, velocity, spin=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0)
) -> artix.State:
    """The first at rest at the origin; the second at a position, turned, with a velocity and a
    spin."""
    state = artix.neutral_state(robot)
    q, v = jnp.array([*position, *turn], robot.dtype), jnp.array([*velocity, *spin], robot.dtype)
    return state.replace(joint_position=q, joint_velocity=v)


def momentum(robot: artix.Articulation, state: artix.State) -> np.ndarray:
    """Of the whole about the origin, [6]."""
    at_center = np.asarray(artix.centroidal_momentum(robot, state))
    lever = np.cross(np.asarray(artix.center_of_mass(robot, state)), at_center[:3])
    return np.concatenate([at_center[:3], at_center[3:] + lever])


@pytest.mark.slow
def test_two_balls_collide() -> None:
    """Central impact of two masses: momentum stays, the speed of separation is e times that of
    approach."""
    robot = two_bodies(Geometry.sphere(0.1, restitution=0.6), Geometry.sphere(0.1))
    start = moving(robot, (0.2, 0.0, 0.0), (-1.5, 0.0, 0.0))
    end, report = artix.step_and_report(robot, start, None, 1e-3)
    velocity = np.asarray(artix.frame_velocity(robot, end, offset="com"))[[0, -1], 0]
    wanted = np.array([-1.5 * 3 / 5 - 0.6 * 1.5 * 3 / 5, -1.5 * 3 / 5 + 0.6 * 1.5 * 2 / 5])
    np.testing.assert_allclose(velocity, wanted, rtol=1e-12)
    found = report.link_contacts
    np.testing.assert_allclose(found.impulse[0], [0.0, 0.0, 2.0 * -wanted[0]], atol=1e-12)
    np.testing.assert_allclose(found.normal[0], [-1.0, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(
        found.point[0], start.root_pose[:3] + jnp.array([0.1, 0.0, 0.0]), atol=1e-15
    )
    np.testing.assert_allclose(found.link_force.sum(axis=0), 0.0, atol=1e-10)
    assert found.geometries.tolist() == [[0, 1]]
    assert found.links.tolist() == [[0, 4]]
    assert report.contacts is None


SHAPES = {
    "capsules": (Geometry.capsule(0.1, 0.3, friction=0.5), Geometry.capsule(0.08, 0.2)),
    "capsule and box": (Geometry.capsule(0.1, 0.3, friction=0.5), Geometry.box((0.2, 0.15, 0.1))),
    "boxes": (Geometry.box((0.2, 0.3, 0.1), friction=0.5), Geometry.box((0.2, 0.15, 0.1))),
}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", SHAPES)
def test_momentum_and_energy(kinds: str) -> None:
    """Of two bodies that fly into each other obliquely: momentum stays to rounding, contacts add no
    energy."""
    robot = two_bodies(*SHAPES[kinds])
    free = artix.select_geometry_pairs(robot, ())
    start = moving(robot, (0.02, 0.03, 0.7), (0.1, -0.1, -2.0), (0.5, 1.0, -0.5), (0.3, 0.5, 0.2))
    states = artix.rollout(
        robot, start, None, 1e-3, artix.SolverOptions(contact_iterations=4), num_steps=400
    )
    energy_of = jax.vmap(lambda s: artix.kinetic_energy(robot, s))
    energy = np.asarray(energy_of(states))
    every = np.array(
        [momentum(robot, jax.tree.map(lambda x, k=k: x[k], states)) for k in (0, 200, 399)]
    )
    np.testing.assert_allclose(
        every[:, :3], np.broadcast_to(momentum(robot, start)[:3], (3, 3)), atol=1e-12
    )
    # Steps of the same states without contact have the integrator's own errors.
    alone = np.asarray(energy_of(jax.vmap(lambda s: artix.step(free, s, None, 1e-3))(states)))
    assert np.max(energy[1:] - alone[:-1]) < 1e-7 * energy[0]
    assert energy[-1] < 0.9 * energy[0]  # They have met.


def gripper(dtype="float64") -> artix.Articulation:
    """Two fingers on hinges that press their tips together, in no gravity."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0.0, 0.0, 0.0), name="gripper")
    palm = builder.add_link(name="palm")
    for side, name in ((-1, "left"), (1, "right")):
        place = (0.0, 0.05 * side, 0.0, 0.0, 0.0, 0.0, 1.0)
        joint = artix.Joint.revolute(artix.Axis.TWIST, parent_pose=place, name=name)
        builder.add_link(
            palm,
            joint,
            mass=0.1,
            inertia=(1e-4, 1e-4, 1e-5),
            com_pose=(0, 0, 0.05, 0, 0, 0, 1),
            name=name,
        )
        builder.add_geometry(
            name,
            Geometry.capsule(0.01, 0.05, pose=(0, 0, 0.05, 0, 0, 0, 1), friction=0.5),
            name=name,
        )
    builder.add_geometry_pair("left", "right")
    return builder.build(dtype)


GRIPPER = """<mujoco><compiler angle="radian"/><option gravity="0 0 0" timestep="0.0002" integrator="implicitfast"/>
<worldbody>
  <body pos="0 -0.05 0"><joint name="left" axis="1 0 0"/><inertial pos="0 0 0.05" mass="0.1" diaginertia="1e-4 1e-4 1e-5"/>
    <geom type="capsule" size="0.01 0.05" pos="0 0 0.05" friction="0.5"/></body>
  <body pos="0 0.05 0"><joint name="right" axis="1 0 0"/><inertial pos="0 0 0.05" mass="0.1" diaginertia="1e-4 1e-4 1e-5"/>
    <geom type="capsule" size="0.01 0.05" pos="0 0 0.05" friction="0.5"/></body>
</worldbody></mujoco>"""


@pytest.mark.slow
def test_fingers_press_as_in_mujoco() -> None:
    """The normal force between two fingers at rest under equal torques is MuJoCo's."""
    robot, torque = gripper(), 0.03
    control = artix.Control(joint_force=jnp.array([-torque, torque]))
    end, report = last(
        reported_rollout(robot, artix.neutral_state(robot), control, 2e-3, 500),
    )
    assert np.abs(end.joint_velocity).max() < 1e-9
    found = report.link_contacts
    model = mujoco.MjModel.from_xml_string(GRIPPER)
    data = mujoco.MjData(model)
    data.qfrc_applied[:] = control.joint_force
    for _ in range(10000):
        mujoco.mj_step(model, data)
    force = np.zeros(6)
    total = 0.0
    for k in range(data.ncon):
        mujoco.mj_contactForce(model, data, k, force)
        total += force[0]
    np.testing.assert_allclose(float(found.force[:, 1].sum()), -total, rtol=2e-3)
    np.testing.assert_allclose(end.joint_position, data.qpos, atol=2e-3)
    # The closed form: the torque over the height of the point.
    normal = np.asarray(found.force)[:, 1] @ np.asarray(found.point)[:, 2]
    np.testing.assert_allclose(normal, -torque, rtol=1e-9)
    np.testing.assert_allclose(found.link_force[1] + found.link_force[2], 0.0, atol=1e-12)


@pytest.mark.slow
def test_impulses_are_those_of_another_solver() -> None:
    """ADMM on Delassus' matrix, with Jacobians by finite differences of points that ride on the
    links."""
    robot = two_bodies(*SHAPES["capsules"])
    state, dt = (
        moving(robot, (0.1, 0.14, 0.05), (0.3, -1.0, 0.2), (1.0, 0.5, 0.2), (0.4, 0.3, 0.1)),
        2e-3,
    )
    _, report = artix.step_and_report(
        robot, state, None, dt, artix.SolverOptions(contact_iterations=6)
    )
    found = report.link_contacts
    poses = artix.frame_pose(robot, state)

    def relative(velocity, point):
        """The velocity of a point of the first link against that of the second."""
        moved = artix.integrate(robot, state, velocity)
        ends = []
        for link in (0, -1):
            before, after = poses[link], artix.frame_pose(robot, moved)[link]
            local = spatial.rotate_inverse(before[3:, None], (point - before[:3])[:, None])
            ends.append(after[:3] + spatial.rotate(after[3:, None], local)[:, 0])
        return ends[0] - ends[1]

    jacobian = jnp.concatenate(
        [jax.jacfwd(lambda v, p=p: relative(v, p))(jnp.zeros(12)) for p in found.point]
    )
    frames = artix.kinematics.contact_points.contact_frames(found.normal)
    rows = jax.scipy.linalg.block_diag(*frames) @ jacobian
    delassus = rows @ artix.mass_matrix_inverse(robot, state) @ rows.T
    now = artix.generalized_velocity(robot, state)
    free = rows @ (now + dt * artix.forward_dynamics(robot, state, jnp.zeros(12)))
    gap = jnp.where(found.gap > 0, found.gap, 0.8 * jnp.minimum(found.gap + 1e-5, 0))
    speed = jnp.maximum(gap / dt, -0.1)
    free = free + jnp.stack([0 * speed, 0 * speed, speed], axis=1).ravel()
    wanted = artix.constraints.solve_contact(
        delassus, free, jnp.full(len(speed), 0.5), iterations=2000
    )
    assert float(wanted.impulse.max()) > 0.1
    np.testing.assert_allclose(found.impulse.ravel(), wanted.impulse, atol=1e-8)
    assert float(found.residual) < 1e-9


@pytest.mark.parametrize(
    ("kinds", "friction"),
    [
        pytest.param(
            kinds,
            friction,
            marks=pytest.mark.slow if often else pytest.mark.exhaustive,
            id=f"{kinds}-{name}",
        )
        for kinds in SHAPES
        for name, friction in (("slides", 0.05), ("sticks", 2.0))
        for often in [(kinds, name) == ("boxes", "slides")]
    ],
)
def test_derivatives_of_a_step(kinds: str, friction: float) -> None:
    """By positions and velocities, friction and sizes, forwards and backwards: against
    differences."""
    robot = two_bodies(*SHAPES[kinds])
    state = moving(robot, (0.06, 0.04, 0.0), (0.4, 0.1, -1.0), (0.3, 0.2, -0.1), (0.4, 0.5, 0.2))
    options = artix.SolverOptions(contact_iterations=8, restitution_threshold=10.0)

    def gap(z):
        moved = state.replace(joint_position=state.joint_position.at[2].set(z))
        return artix.link_contacts(robot, moved).gap

    # Half a millimetre apart, so that the step closes the gap.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(gap(middle).min()) < 5e-4 else (low, middle)
    state = state.replace(joint_position=state.joint_position.at[2].set(high))

    def end(x):
        geometry = robot.geometry.replace(
            friction=robot.geometry.friction.at[0].set(x[12]),
            size=robot.geometry.size.at[1].add(x[13:]),
        )
        before = state.replace(joint_position=x[:6], joint_velocity=x[6:12])
        after = artix.step(robot.replace(geometry=geometry), before, None, 2e-3, options)
        return jnp.concatenate([after.joint_velocity, after.root_velocity, after.joint_position])

    x = jnp.concatenate(
        [state.joint_position, state.joint_velocity, jnp.array([friction, 0.0, 0.0, 0.0])]
    )
    moved = jnp.abs(end(x)[:6] - state.joint_velocity).max()
    assert moved > 0.1
    step = 1e-6 * jnp.eye(16)
    near = jax.jit(jax.vmap(lambda d: end(x + d)))(jnp.concatenate([step, -step]))
    wanted = (near[:16] - near[16:]).T / 2e-6
    scale = float(jnp.abs(wanted).max())
    np.testing.assert_allclose(jax.jit(jax.jacfwd(end))(x) / scale, wanted / scale, atol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.jacrev(end))(x) / scale, wanted / scale, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", ["float64", pytest.param("float32", marks=pytest.mark.exhaustive)]
)
def test_the_nearest_of_many(dtype: str) -> None:
    """A step with the nearest contacts of many pairs is that with all of them, where the rest is
    far."""
    robot = artix.robots.load("quadruped").astype(dtype)
    pairs = artix.editing.possible_geometry_pairs(robot)
    robot = artix.select_geometry_pairs(robot, pairs)
    state = artix.neutral_state(robot)
    apart = artix.link_contacts(robot, state).gap.min()  # Left and right feet, which shall touch.
    size = robot.geometry.size.at[:, 0].add(0.5 * apart + 1e-4)
    robot = robot.replace(geometry=robot.geometry.replace(size=size), gravity=jnp.zeros(3, dtype))
    ends = [
        artix.step_and_report(
            robot,
            state,
            None,
            2e-3,
            artix.SolverOptions(
                max_link_contacts=most, contact_iterations=0, position_iterations=50
            ),
        )
        for most in (None, 3)
    ]
    (every, report), (some, fewer) = ends
    assert float(report.link_contacts.impulse[:, 2].max()) > 0
    tolerance = 1e-5 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(some.joint_velocity, every.joint_velocity, atol=tolerance)
    np.testing.assert_allclose(
        fewer.link_contacts.link_force, report.link_contacts.link_force, atol=tolerance * 1e3
    )


@pytest.mark.exhaustive
def test_memory_and_ground() -> None:
    """A box on a box on the ground rests, and remembers all impulses; each bears what is above
    it."""
    robot = two_bodies(
        Geometry.box((0.2, 0.3, 0.1), friction=0.5),
        Geometry.box((0.2, 0.15, 0.1)),
        gravity=(0.0, 0.0, -9.81),
    )
    # The upper box does not feel the ground.
    robot = artix.select_geometry(robot, ["a"], sensors=["b"])
    ground = artix.Ground.flat(dtype="float64")
    state = moving(robot, (0.0, 0.0, 0.2), (0.0, 0.0, 0.0))
    state = state.replace(root_pose=state.root_pose.at[2].set(0.1))
    scene = artix.Scene(robot, ground=ground)
    state = artix.remember_contacts(scene, state)
    assert state.contact_memory.impulse.shape == (12, 3)
    step = jax.jit(lambda state: artix.step(scene, state, None, 2e-3))
    for _ in range(50):
        state = step(state)
    impulse = state.contact_memory.impulse
    np.testing.assert_allclose(impulse[:8, 2].sum(), 5.0 * 9.81 * 2e-3, rtol=1e-9)
    np.testing.assert_allclose(impulse[8:, 2].sum(), 3.0 * 9.81 * 2e-3, rtol=1e-9)
    assert np.abs(state.joint_velocity).max() < 1e-10
    _, report = artix.step_and_report(
        artix.Scene(robot, ground=ground),
        state,
        None,
        2e-3,
        artix.SolverOptions(contact_iterations=6),
    )
    np.testing.assert_allclose(report.contacts.link_force[0, 2], 5.0 * 9.81, rtol=1e-6)
    np.testing.assert_allclose(report.link_contacts.link_force[4, 2], 3.0 * 9.81, rtol=1e-6)


@pytest.mark.slow
def test_the_gradient_of_a_rollout() -> None:
    """Two fingers that close and press: 100 steps, against differences."""
    robot = gripper()
    state = artix.neutral_state(robot)

    def loss(torque):
        control = artix.Control(joint_force=jnp.array([-torque[0], torque[1]]))
        end = artix.rollout(
            robot, state, control, 2e-3, artix.SolverOptions(contact_iterations=4), num_steps=100
        )
        return jnp.sum(end.joint_position[-1] * jnp.array([1.0, -2.0])) + jnp.sum(
            end.joint_velocity[-1]
        )

    torque, h = jnp.array([0.2, 0.25]), 1e-6
    run = jax.jit(jax.value_and_grad(loss))
    found = run(torque)[1]
    near = [(run(torque.at[k].add(h))[0] - run(torque.at[k].add(-h))[0]) / (2 * h) for k in (0, 1)]
    np.testing.assert_allclose(found, near, rtol=1e-6)
