"""Angles count turns wherever something counts them, and wheels are circles: against closed forms
and recursions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import artix
from artix import Control, FixedTendon, Joint, SolverOptions, TendonJoint, inverse_kinematics
from artix.kinematics.configuration import wrap_angles
from tests.support import usd_stages

INERTIA = 0.04
STIFFNESS, DAMPING, DT = 40.0, 4.0, 2e-3
TURN = 2 * np.pi
SOLVERS = ("implicit", "pgs", "tgs", "rk4")
rollout = jax.jit(artix.rollout, static_argnames=("options", "num_steps"))


def wheels(
    count: int = 1, *, wrapped: bool = True, couple=None, dtype="float64", **options
) -> artix.Articulation:
    """Bodies that turn about vertical axes of the same base, without gravity."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0.0, 0.0, 0.0), name="wheels")
    builder.add_link(name="base")
    for k in range(count):
        hinge = Joint.revolute(artix.Axis.SWING2, name=f"j{k}", wrapped=wrapped, **options)
        builder.add_link(0, hinge, mass=1.0, inertia=[INERTIA] * 3, name=f"wheel_{k}")
    if couple is not None:
        couple(builder)
    return builder.build(dtype)


def at(robot: artix.Articulation, position, velocity=0.0) -> artix.State:
    state, n = artix.neutral_state(robot), robot.topology.num_dofs
    position, velocity = (
        np.broadcast_to(np.asarray(x, robot.dtype), (n,)) for x in (position, velocity)
    )
    return state.replace(joint_position=jnp.asarray(position), joint_velocity=jnp.asarray(velocity))


def servo(**options) -> artix.Articulation:
    return wheels(drive=artix.Drive(stiffness=STIFFNESS, damping=DAMPING), **options)


def driven(position: float, velocity: float, targets: np.ndarray, rate: float) -> np.ndarray:
    """Angles of a servo by backward Euler, the law of ``implicit`` and ``pgs``; no angle is wrapped
    here."""
    angles = []
    for target in targets:
        push = STIFFNESS * (target - position) + DAMPING * rate
        velocity = (INERTIA * velocity + DT * push) / (INERTIA + DT * (DT * STIFFNESS + DAMPING))
        position = position + DT * velocity
        angles.append(position)
    return np.array(angles)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=40)
@given(
    start=st.floats(-60.0, 60.0),
    ahead=st.floats(-30.0, 30.0),
    speed=st.floats(-20.0, 20.0),
    rate=st.floats(-40.0, 40.0),
)
@example(start=6.2, ahead=0.2, speed=0.0, rate=0.0)
@example(start=0.0, ahead=0.0, speed=0.0, rate=40.0)
def test_servos_follow_targets_through_many_turns(solver, start, ahead, speed, rate):
    targets = start + ahead + rate * DT * np.arange(1, 1001)
    control = Control(
        drive_target=jnp.asarray(targets[:, None]),
        drive_target_velocity=jnp.full((len(targets), 1), rate),
    )
    path = rollout(SERVO, at(SERVO, start, speed), control, DT, SolverOptions(solver=solver))
    found = np.asarray(path.joint_position)[:, 0]
    if solver in ("implicit", "pgs"):
        np.testing.assert_allclose(found, driven(start, speed, targets, rate), atol=1e-9)
    # The target of a step is that of its end; explicit methods see it a step early.
    np.testing.assert_allclose(found[-1], targets[-1], atol=1e-6 + abs(rate) * DT)


SERVO = servo()


@pytest.mark.parametrize("solver", ["implicit", "pgs"])
@settings(max_examples=40)
@given(
    multiplier=st.floats(-4.0, 4.0),
    offset=st.floats(-9.0, 9.0),
    start=st.floats(-30.0, 30.0),
    speed=st.floats(-30, 30),
)
@example(multiplier=0.5, offset=0.0, start=0.0, speed=20.0)
@example(multiplier=-3.0, offset=0.0, start=6.0, speed=20.0)
@example(multiplier=1 / 3, offset=0.0, start=6.0, speed=20.0)
def test_followers_turn_with_their_reference(solver, multiplier, offset, start, speed):
    """Both turn uniformly: ``q0 = start + speed t`` and ``q1 = multiplier q0 + offset``."""
    mimic = MIMIC.mimic.replace(gear_ratio=jnp.array([-multiplier]), offset=jnp.array([-offset]))
    moving = MIMIC.replace(mimic=mimic)
    state = at(moving, [start, multiplier * start + offset], [speed, multiplier * speed])
    path = rollout(moving, state, None, 5e-3, SolverOptions(solver=solver), num_steps=400)
    expected = start + speed * 5e-3 * np.arange(1, 401)
    expected = np.stack([expected, multiplier * expected + offset], axis=1)
    np.testing.assert_allclose(path.joint_position, expected, atol=1e-9)
    np.testing.assert_allclose(path.joint_velocity, [[speed, multiplier * speed]] * 400, atol=1e-9)


MIMIC = wheels(2, couple=lambda builder: builder.add_mimic("j1", "j0", gear_ratio=1.0))


def tendon(builder: artix.ArticulationBuilder) -> None:
    joints = [
        TendonJoint(dof=f"j{k}", coefficient=c, recip_coefficient=c)
        for k, c in enumerate((0.7, -1.3))
    ]
    builder.add_fixed_tendon(
        FixedTendon(name="t", stiffness=9.0, damping=0.5, limit_stiffness=0.0, joints=joints)
    )


def compliant(builder: artix.ArticulationBuilder) -> None:
    builder.add_mimic("j1", "j0", 1 / 3, 0.1, natural_frequency=30.0, damping_ratio=0.7)


PUSH = artix.Drive(stiffness=30.0, damping=2.0, acceleration=True, target=40.0)
READERS = {
    "fixed tendon": ({"couple": tendon}, ("implicit", "pgs", "rk4")),
    "compliant mimic joint": ({"couple": compliant}, ("implicit", "pgs")),
    "limits": ({"limits": [(-15.0, 15.0)]}, ("implicit", "pgs")),
    "acceleration drive": ({"drive": PUSH}, ("implicit", "tgs")),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "solver"),
    [
        pytest.param(name, each, marks=pytest.mark.slow if each in ("pgs", "rk4") else ())
        for name in READERS
        for each in READERS[name][1]
    ],
)
def test_what_is_counted_moves_like_joints_that_never_wrap(name, solver):
    """The path of joints of type REVOLUTE is that of REVOLUTE_UNWRAPPED."""
    options, paths = READERS[name][0], []
    for wrapped in (True, False):
        turning = wheels(2, wrapped=wrapped, **options)
        assert not turning.topology.dof_wraps.any() or wrapped
        state = at(turning, [6.0, -6.1], [13.0, 7.0])
        paths.append(
            rollout(turning, state, None, 5e-3, SolverOptions(solver=solver), num_steps=300)
        )
    np.testing.assert_allclose(paths[0].joint_position, paths[1].joint_position, atol=1e-12)
    assert np.abs(paths[0].joint_position).max() > 7.0  # Beyond the turn at which wheels wrap.


@pytest.mark.parametrize("solver", SOLVERS)
def test_wheels_are_circles(solver):
    """Nothing counts their turns: the angle stays within two turns, and is that of the closed
    form."""
    path = rollout(
        WHEEL, at(WHEEL, 6.0, 31.0), None, DT, SolverOptions(solver=solver), num_steps=1000
    )
    found, expected = path.joint_position[:, 0], 6.0 + 31.0 * DT * np.arange(1, 1001)
    assert np.abs(found).max() <= TURN + 1e-9
    turns = (expected - found) / (2 * TURN)
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-9)
    assert turns[-1] > 4


WHEEL = wheels()


def test_a_velocity_drive_does_not_count_turns():
    spinning = wheels(drive=artix.Drive(damping=2.0, target_velocity=25.0))
    path = rollout(spinning, at(spinning, 0.0), None, DT, num_steps=1000)
    assert np.abs(path.joint_position).max() <= TURN + 1e-9
    np.testing.assert_allclose(path.joint_velocity[-1], 25.0, rtol=1e-6)


@pytest.mark.slow
def test_ten_thousand_turns_in_float32():
    """A wheel for 52 minutes; then a servo and a pair of wheels that have turned as often."""
    wheel, omega, dt = wheels(dtype="float32"), 20.0, 5e-3
    count = int(TURN * 1e4 / omega / dt)

    @jax.jit
    def turned(state):
        return jax.lax.fori_loop(0, count, lambda _, now: artix.step(wheel, now, None, dt), state)

    end = turned(at(wheel, 0.0, omega))
    error = np.angle(np.exp(1j * (float(end.joint_position[0]) - omega * dt * count)))
    assert abs(error) < 0.05
    assert end.joint_velocity[0] == omega

    start = np.float32(TURN * 1e4)
    assert np.spacing(start) == np.float32(2**-8)
    single = servo(dtype="float32")
    targets = (start + np.linspace(0, 40.0, 2000)).astype(np.float32)
    control = Control(drive_target=jnp.asarray(targets[:, None]))
    path = rollout(single, at(single, start), control, DT, num_steps=None)
    lag = DAMPING / STIFFNESS * 40.0 / (1999 * DT)  # The target has no velocity.
    error = np.asarray(path.joint_position[500:, 0], float) + lag - targets[500:]
    # Each step is rounded to a multiple of the spacing, which the servo makes up for by its speed.
    rounding = 2**-8 + DAMPING / STIFFNESS * 2**-9 / DT
    assert np.abs(error).max() < rounding + 2**-8
    held = Control(drive_target=jnp.asarray(targets[-1:]))
    path = rollout(single, at(single, start), held, DT, num_steps=2000)
    assert abs(path.joint_position[-1, 0] - targets[-1]) <= rounding

    pair = MIMIC.replace(mimic=MIMIC.mimic.replace(gear_ratio=jnp.array([3.0]))).astype("float32")
    path = rollout(
        pair, at(pair, [start, -3 * start], [omega, -3 * omega]), None, dt, num_steps=1000
    )
    follower, reference = np.asarray(path.joint_position, float).T[::-1]
    assert np.abs(follower + 3 * reference).max() <= 2**-6
    np.testing.assert_allclose(path.joint_velocity, [[omega, -3 * omega]] * 1000, rtol=1e-3)


@pytest.mark.parametrize("solver", ["implicit", "rk4"])
def test_gradients_through_turns(solver):
    """A servo is linear: its end moves with the target and the start as the recursion says, however
    often it turns."""

    def end(start, target):
        state = artix.neutral_state(SERVO).replace(joint_position=start[None])
        options = SolverOptions(solver=solver)
        return artix.rollout(
            SERVO, state, Control(drive_target=target[None]), DT, options, num_steps=50
        ).joint_position[-1, 0]

    slopes = jax.jit(jax.grad(end, (0, 1)))
    by_start, by_target = slopes(jnp.asarray(6.2), jnp.asarray(30.0))
    np.testing.assert_allclose(by_start + by_target, 1.0, atol=1e-12)
    # Backward Euler is an approximation of the continuous motion.
    exact = 1e-2 if solver == "rk4" else 1e-12
    np.testing.assert_allclose(by_target, driven(0.0, 0.0, np.ones(50), 0.0)[-1], atol=exact)
    near = slopes(jnp.asarray(0.1), jnp.asarray(0.3))
    np.testing.assert_allclose(near, (by_start, by_target), atol=1e-12)


def test_joint_drift_counts_turns():
    options, drift, state = SolverOptions(solver="pgs"), jnp.zeros((2, 3)), at(SERVO, 6.2)
    control, angles = Control(drive_target=jnp.array([6.4])), []
    for _ in range(60):
        state, drift, _ = artix.step_with_joint_drift(SERVO, state, drift, control, DT, options)
        angles.append(float(state.joint_position[0]))
    np.testing.assert_allclose(angles, driven(6.2, 0.0, np.full(60, 6.4), 0.0), atol=1e-12)


def test_revolute_joints_of_usd_without_limits():
    """A drive in degrees; PhysX would turn back by two turns at 360 degrees."""
    drive = "float drive:angular:physics:stiffness = 2\nfloat drive:angular:physics:damping = 0.2\n"
    stage = usd_stages.robot(
        *(usd_stages.body("a"), usd_stages.body("b")),
        usd_stages.joint("fix", None, "a", kind="Fixed"),
        usd_stages.joint("j", "a", "b", drive, "Revolute", '"PhysicsDriveAPI:angular"'),
    )
    hinge = artix.load_usd(stage, dtype="float64")
    assert hinge.topology.joint_types[1] is artix.JointType.REVOLUTE
    hinge = hinge.replace(gravity=jnp.zeros(3))
    path = rollout(
        hinge, at(hinge, 6.2), Control(drive_target=jnp.array([20.0])), 1e-2, num_steps=3000
    )
    np.testing.assert_allclose(path.joint_position[-1], 20.0, atol=1e-6)
    assert np.abs(np.diff(path.joint_position[:, 0])).max() < 1.0


@pytest.mark.slow
def test_a_spherical_joint_of_one_axis_takes_the_shortest_way():
    """Its position is a rotation, at most half a turn: 3.2 rad is -3.08 rad."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0.0, 0.0, 0.0))
    builder.add_link(name="base")
    joint = Joint.spherical(
        (artix.Axis.SWING2,), drive=artix.Drive(stiffness=STIFFNESS, damping=DAMPING)
    )
    builder.add_link(0, joint, mass=1.0, inertia=[INERTIA] * 3)
    ball = builder.build("float64")
    for solver in ("implicit", "pgs"):
        control = Control(drive_target=jnp.array([3.2]))
        path = rollout(
            ball, at(ball, 3.1), control, DT, SolverOptions(solver=solver), num_steps=1000
        )
        np.testing.assert_allclose(path.joint_position[-1], 3.2 - TURN, atol=1e-6)
        assert np.abs(path.joint_velocity).max() < 2.0


def test_which_joints_are_wheels():
    def wraps(robot: artix.Articulation) -> list[bool]:
        return (wrap_angles(robot, jnp.full(robot.topology.num_dofs, 7.0)) != 7.0).tolist()

    assert wraps(WHEEL) == [True]
    assert (
        wraps(wheels(wrapped=False))
        == wraps(SERVO)
        == wraps(wheels(limits=[(-np.inf, 8.0)]))
        == [False]
    )
    assert wraps(wheels(3, couple=lambda b: b.add_mimic("j2", "j0", 1.0))) == [False, True, False]
    assert wraps(wheels(2, couple=tendon)) == [False, False]


def test_the_manifold_counts_what_steps_count():
    for robot, moved, apart in ((SERVO, 6.4, 14.0), (WHEEL, 6.4 - 2 * TURN, 14.0 - 2 * TURN)):
        end = artix.integrate(robot, at(robot, 6.2), jnp.array([0.2]))
        np.testing.assert_allclose(end.joint_position, [moved], atol=1e-14)
        np.testing.assert_allclose(
            artix.difference(robot, at(robot, 0.0), at(robot, 14.0)), [apart], atol=1e-14
        )
        half = artix.interpolate(robot, at(robot, 0.0), at(robot, 14.0), 0.5)
        np.testing.assert_allclose(half.joint_position, [apart / 2], atol=1e-14)


@pytest.mark.slow
def test_inverse_kinematics_stays_on_the_turn_of_its_seed():
    """Also for joints that are wheels, since whoever drives them counts turns."""
    arm = artix.robots.load("double_pendulum").astype("float64")
    assert arm.topology.dof_wraps.all()
    wanted = jnp.array([6.4, 0.9])
    frame = arm.topology.link_names[-1]
    goal = artix.frame_pose(arm, at(arm, wanted), frame)
    seeds = jax.tree.map(lambda x: x[None], at(arm, [6.2, 0.7]))
    found = inverse_kinematics.solve(arm, [inverse_kinematics.FrameTask(frame, goal)], seeds)
    assert found.solved
    np.testing.assert_allclose(found.state.joint_position, wanted, atol=1e-4)
