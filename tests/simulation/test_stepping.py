"""Time stepping: conservation laws, bounds, gradients, batches, and error messages."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import artix
from artix import (
    ArticulationBuilder,
    Attachment,
    Control,
    Drive,
    DriveEnvelope,
    FixedTendon,
    Joint,
    JointFriction,
    SolverOptions,
    SpatialTendon,
    TendonJoint,
)
from tests.support import physx_mechanisms as physx
from tests.support.models import random_states, random_tree, state_at

SOLVERS = ("implicit", "pgs", "tgs")


def pendulum(links: int = 1, *, gravity=(0.0, 0.0, -9.81), dtype="float64", couple=None, **options):
    """A chain of bars of 1 kg and 1 m that hang along -z and turn about y; ``options`` are the
    joints'."""
    builder = ArticulationBuilder(fixed_base=True, gravity=gravity, name="pendulum")
    builder.add_link(mass=1.0, inertia=[1.0, 1.0, 1.0], name="base")
    for k in range(links):
        top = [0.0, 0.0, -1.0 if k else 0.0, 0.0, 0.0, 0.0, 1.0]
        joint = Joint.revolute(
            artix.Axis.SWING1, name=f"hinge_{k}", parent_pose=top, wrapped=False, **options
        )
        center = [0.0, 0.0, -0.5, 0.0, 0.0, 0.0, 1.0]
        builder.add_link(
            k, joint, mass=1.0, com_pose=center, inertia=[1 / 12, 1 / 12, 0.01], name=f"bar_{k}"
        )
    if couple is not None:
        couple(builder)
    return builder.build(dtype)


def at(articulation, position, velocity=0.0):
    """A state with these joint positions and velocities."""
    state, n = artix.neutral_state(articulation), articulation.topology.num_dofs
    as_joints = lambda x: jnp.broadcast_to(jnp.asarray(x, articulation.dtype), (n,))  # noqa: E731
    return state.replace(joint_position=as_joints(position), joint_velocity=as_joints(velocity))


rollout = jax.jit(artix.rollout, static_argnames=("options", "num_steps"))
step = jax.jit(artix.step, static_argnames="options")


def last(states):
    return jax.tree.map(lambda leaf: leaf[-1], states)


# --- conservation -------------------------------------------------------------------------------


@functools.cache
def _floating_tree():
    articulation = random_tree(
        5, links=4, fixed_base=False, gravity=(0.0, 0.0, 0.0), dtype="float64"
    )
    return articulation, state_at(random_states(articulation, 1, seed=3, speed=0.5), 0)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["implicit", "pgs"])
def test_momentum_of_a_free_tree(solver: str) -> None:
    """For 10 s in free fall without gravity: momenta to round-off, of the angular one PhysX's law
    keeps the magnitude."""
    articulation, state = _floating_tree()
    start = artix.centroidal_momentum(articulation, state)
    options = SolverOptions(solver=solver, position_iterations=1, velocity_iterations=0)
    end = last(rollout(articulation, state, None, 1 / 240, options, num_steps=2400))
    found = artix.centroidal_momentum(articulation, end)
    np.testing.assert_allclose(found[:3], start[:3], atol=1e-10)
    if solver == "implicit":
        np.testing.assert_allclose(found[3:], start[3:], atol=1e-10)
    else:
        np.testing.assert_allclose(
            jnp.linalg.norm(found[3:]), jnp.linalg.norm(start[3:]), rtol=1e-9
        )
    center = (
        artix.center_of_mass(articulation, end) - artix.center_of_mass(articulation, state)
    ) / 10.0
    np.testing.assert_allclose(center * jnp.sum(articulation.link_mass), start[:3], atol=1e-9)


def test_energy_and_period_of_a_pendulum() -> None:
    """Half the step, half the energy error, without a trend; T = 2 pi sqrt(2 L / (3 g)) for a bar
    about its end."""
    articulation = pendulum()
    state = at(articulation, 2.0)
    energy = jax.jit(
        jax.vmap(
            lambda s: (
                artix.kinetic_energy(articulation, s) + artix.potential_energy(articulation, s)
            )
        )
    )

    def errors(dt: float) -> np.ndarray:
        states = rollout(articulation, state, None, dt, num_steps=2000)
        return np.asarray(energy(states)) - float(artix.potential_energy(articulation, state))

    coarse, fine = errors(5e-3), errors(2.5e-3)
    assert np.abs(coarse).max() < 0.08  # of 9.81 J
    assert 1.8 < np.abs(coarse).max() / np.abs(fine).max() < 2.2
    assert abs(coarse[-1000:].mean()) < 0.1 * np.abs(coarse).max()
    states = rollout(articulation, at(articulation, 1e-3), None, 2e-3, num_steps=2000)
    crossings = np.flatnonzero(np.diff(np.sign(np.asarray(states.joint_position[:, 0]))) != 0)
    period = 4e-3 * np.diff(crossings).mean()
    assert abs(period / (2 * np.pi * np.sqrt(2 / (3 * 9.81))) - 1) < 4e-3


def test_virtual_work_keeps_energy() -> None:
    """An undamped fixed and an undamped spatial tendon between turning bars, without gravity."""

    def couple(builder: ArticulationBuilder) -> None:
        joints = [
            TendonJoint(dof="hinge_0", coefficient=1.0, recip_coefficient=1.0),
            TendonJoint(dof="hinge_1", coefficient=-0.5, recip_coefficient=-0.5, parent=0),
        ]
        builder.add_fixed_tendon(FixedTendon(name="cord", joints=joints, stiffness=4.0))
        points = [
            Attachment(link="base", position=[0.5, 0.0, 0.0]),
            Attachment(link="bar_0", position=[0.1, 0.0, -0.5], parent=0, coefficient=0.7),
            Attachment(link="bar_1", position=[0.1, 0.0, -0.5], parent=1, rest_length=0.5),
        ]
        builder.add_spatial_tendon(SpatialTendon(name="rope", attachments=points, stiffness=6.0))

    articulation = pendulum(2, gravity=(0, 0, 0), couple=couple)

    def energy(state):
        length = state.joint_position[0] - 0.5 * state.joint_position[1]
        place = [jnp.array([0.5, 0.0, 0.0])]
        for link in (1, 2):
            local = jnp.array([0.1, 0.0, -0.5, 0.0, 0.0, 0.0, 1.0])
            place.append(artix.frame_pose(articulation, state, link, local)[:3])
        path = 0.7 * jnp.linalg.norm(place[1] - place[0]) + jnp.linalg.norm(place[2] - place[1])
        return artix.kinetic_energy(articulation, state) + 0.5 * (
            4.0 * length**2 / 2 + 6.0 * (path - 0.5) ** 2
        )

    state = at(articulation, jnp.array([0.4, -0.3]), jnp.array([1.0, 0.5]))
    options = SolverOptions(tendon_law="virtual_work")
    coarse = last(rollout(articulation, state, None, 1e-3, options, num_steps=1000))
    fine = state
    for _ in range(2):
        fine = last(rollout(articulation, fine, None, 5e-4, options, num_steps=1000))
    start, *ends = (float(jax.jit(energy)(one)) for one in (state, coarse, fine))
    # An implicit step takes a little energy, of first order in dt.
    assert abs(ends[0] - start) < 0.05 * start
    assert 1.7 < (ends[0] - start) / (ends[1] - start) < 2.3


@pytest.mark.slow
@pytest.mark.parametrize("law", ["physx", "virtual_work"])
def test_many_tendons_are_one_that_is_as_stiff(law: str) -> None:
    """More tendons than joints, by the sum, and one, by Woodbury's formula."""

    def pulled(count: int) -> artix.Articulation:
        def couple(builder: ArticulationBuilder) -> None:
            joints = [
                TendonJoint(dof="hinge_0", coefficient=1.0, recip_coefficient=1.0),
                TendonJoint(dof="hinge_1", coefficient=-0.5, recip_coefficient=-0.7, parent=0),
            ]
            shares = {"stiffness": 900.0 / count, "damping": 6.0 / count}
            for k in range(count):
                builder.add_fixed_tendon(FixedTendon(name=f"cord_{k}", joints=joints, **shares))

        return pendulum(2, couple=couple)

    options = SolverOptions(tendon_law=law)
    one, five = (
        rollout(robot, at(robot, jnp.array([0.4, -0.3])), None, 0.01, options, num_steps=50)
        for robot in map(pulled, (1, 5))
    )
    np.testing.assert_allclose(five.joint_position, one.joint_position, atol=1e-10)
    assert np.ptp(np.asarray(one.joint_position[:, 0])) > 0.1


# --- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_bounds_hold(solver: str) -> None:
    """A stiff drive against a limit, a weak one, friction that sticks, and a speed limit, all at
    once."""
    builder = ArticulationBuilder(fixed_base=True, gravity=(0, 0, 0), name="bounded")
    builder.add_link(mass=1.0, inertia=[1.0] * 3, name="base")
    joints = {
        "limited": {
            "limits": [(-0.1, 0.2)],
            "drive": Drive(stiffness=400.0, damping=20.0, target=1.0),
        },
        "weak": {"drive": Drive(stiffness=100.0, damping=10.0, max_force=0.5, target=10.0)},
        "stuck": {"friction": JointFriction(static=2.0, dynamic=1.0)},
        "slow": {"max_velocity": 0.3, "drive": Drive(damping=50.0, target_velocity=2.0)},
    }
    for name, options in joints.items():
        builder.add_link(
            0, Joint.revolute(name=name, **options), mass=1.0, inertia=[0.5] * 3, name=f"{name}_arm"
        )
    articulation = builder.build("float64")
    control = Control(joint_force=jnp.array([0.0, 0.0, 1.5, 0.0]))
    states = rollout(
        articulation,
        at(articulation, 0.0),
        control,
        0.01,
        SolverOptions(solver=solver),
        num_steps=100,
    )
    q, qd = np.asarray(states.joint_position), np.asarray(states.joint_velocity)
    assert q[:, 0].max() < 0.2 + 1e-3
    assert abs(q[-1, 0] - 0.2) < 1e-3
    # Torque over inertia
    np.testing.assert_allclose(qd[:, 1], 0.5 / 0.5 * 0.01 * np.arange(1, 101), rtol=1e-6)
    assert np.abs(q[:, 2]).max() < (1e-9 if solver == "implicit" else 0.1)
    assert np.abs(qd[:, 3]).max() < 0.3 * (1 + (1e-9 if solver == "implicit" else 0.05))


@pytest.mark.slow
def test_a_stiff_drive_in_single_precision() -> None:
    """1e6 N m/rad at 60 Hz: at the target and at rest within 20 steps."""
    articulation = pendulum(2, drive=Drive(stiffness=1e6, damping=1e3, target=0.5), dtype="float32")
    final = last(rollout(articulation, at(articulation, 0.0), None, 1 / 60, num_steps=20))
    np.testing.assert_allclose(final.joint_position, 0.5, atol=1e-4)
    np.testing.assert_allclose(final.joint_velocity, 0.0, atol=1e-3)


@functools.cache
def _crowded(sweeps: int):
    """A chain of joints that feel each other strongly, some beyond their limits, and drives that
    reach theirs."""
    articulation = pendulum(
        3,
        drive=Drive(stiffness=400.0, damping=10.0, max_force=8.0, target=0.4),
        limits=[(-0.5, 0.5)],
        friction=JointFriction(static=0.3, dynamic=0.2, viscous=0.1),
        max_velocity=4.0,
    )
    rng = np.random.default_rng(2)
    position, velocity = (
        np.clip(rng.normal(size=(32, 3)), -0.52, 0.52),
        2 * rng.normal(size=(32, 3)),
    )
    states = jax.vmap(lambda q, qd: at(articulation, q, qd))(position, velocity)
    return articulation, states, SolverOptions(position_iterations=sweeps)


def test_laws_hold_beside_drives_at_their_limits() -> None:
    """Also of joints that begin to slide, whose friction is less than what holds them at rest."""
    articulation, states, _ = _crowded(1)
    advance = jax.jit(
        jax.vmap(lambda state: artix.step_and_report(articulation, state, None, 1 / 120))
    )
    ends, report = advance(states)
    assert report.is_solved.all() and report.velocity_residual.max.max() < 1e-11
    speed = np.asarray(ends.joint_velocity)
    assert np.abs(speed).max() < 4.0 * (1 + 1e-9)
    beyond = np.clip(np.abs(states.joint_position) - 0.5, 0, None) * np.sign(states.joint_position)
    back = np.clip(-beyond / 0.025, -1.0, 1.0)  # A time constant of 25 ms, at most 1 rad/s.
    assert (np.where(beyond > 0, speed - back, 0).max() < 1e-6) and (
        np.where(beyond < 0, back - speed, 0).max() < 1e-6
    )


@pytest.mark.parametrize(
    "sweeps",
    [pytest.param(4, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.exhaustive)],
)
def test_derivatives_beside_drives_at_their_limits(sweeps: int) -> None:
    """Forward and reverse agree however many sweeps there are; with enough of them, with central
    differences too."""
    articulation, states, options = _crowded(sweeps)

    def loss(parameters, state, dt):
        drive = articulation.drive.replace(
            max_force=parameters["limit"], stiffness=parameters["stiffness"]
        )
        friction = articulation.friction.replace(dynamic=parameters["friction"])
        a = articulation.replace(link_mass=parameters["mass"], drive=drive, friction=friction)
        end = artix.step(a, state, None, dt, options)
        return jnp.sum(jnp.sin(end.joint_position)) + jnp.sum(
            jnp.cos(jnp.arange(3.0)) * end.joint_velocity
        )

    drive = articulation.drive
    parameters = {
        "mass": articulation.link_mass,
        "limit": drive.max_force,
        "stiffness": drive.stiffness,
    }
    parameters["friction"] = articulation.friction.dynamic
    point = (parameters, states, jnp.asarray(1 / 120))
    rng = np.random.default_rng(0)
    along = (jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), parameters), *point[1:])
    along = (
        along[0],
        jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), states),
        jnp.asarray(1e-2),
    )
    axes = (None, 0, None)
    gradients = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1, 2)), in_axes=axes))(*point)
    reverse = jax.vmap(
        lambda g, d: sum(map(jnp.vdot, jax.tree.leaves(g), jax.tree.leaves(d))), in_axes=(0, axes)
    )(gradients, along)
    forward = jax.jit(jax.vmap(lambda p, d: jax.jvp(loss, p, d)[1], in_axes=(axes, axes)))(
        point, along
    )
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)
    if sweeps > 100:
        value = jax.jit(jax.vmap(loss, in_axes=axes))
        moved = [
            value(*jax.tree.map(lambda x, d, h=h: x + h * d, point, along)) for h in (1e-7, -1e-7)
        ]
        np.testing.assert_allclose(forward, (moved[0] - moved[1]) / 2e-7, rtol=1e-5, atol=1e-5)


@pytest.mark.exhaustive
def test_second_derivatives_beside_drives_at_their_limits() -> None:
    """Of converged sweeps, against central differences of the gradient, in states and parameters;
    and symmetric."""
    articulation, states, options = _crowded(400)

    def loss(x):
        q, qd, stiffness, limit, mass = jnp.split(x, 5)
        drive = articulation.drive.replace(stiffness=stiffness, max_force=limit)
        a = articulation.replace(
            drive=drive, link_mass=jnp.concatenate([articulation.link_mass[:1], mass])
        )
        end = artix.step(a, at(a, q, qd), None, 1 / 120, options)
        return jnp.sum(jnp.sin(end.joint_position)) + jnp.sum(end.joint_velocity**2)

    parameters = (
        articulation.drive.stiffness,
        articulation.drive.max_force,
        articulation.link_mass[1:],
    )
    parameters = jnp.broadcast_to(jnp.concatenate(parameters), (32, 9))
    points = jnp.concatenate([states.joint_position, states.joint_velocity, parameters], axis=1)
    direction = np.random.default_rng(0).normal(size=points.shape)
    hessians, gradient = (
        jax.jit(jax.vmap(jax.hessian(loss)))(points),
        jax.jit(jax.vmap(jax.grad(loss))),
    )
    differences = (gradient(points + 1e-6 * direction) - gradient(points - 1e-6 * direction)) / 2e-6
    error = np.abs(np.einsum("bij,bj->bi", hessians, direction) - differences).max(axis=1)
    assert (error < 1e-6 * np.abs(differences).max(axis=1)).all(), error
    np.testing.assert_allclose(
        hessians, np.swapaxes(hessians, 1, 2), atol=1e-10 * np.abs(hessians).max()
    )


# --- derivatives --------------------------------------------------------------------------------


@functools.cache
def _everything():
    """A small robot with every feature, in a state in which all act and none is about to switch."""

    def couple(builder: ArticulationBuilder) -> None:
        builder.add_mimic("hinge_2", "hinge_1", 0.5, 0.1, natural_frequency=8.0, damping_ratio=0.5)
        joint = TendonJoint(dof="hinge_0", coefficient=0.8, recip_coefficient=1.1)
        builder.add_fixed_tendon(
            FixedTendon(name="cord", joints=[joint], stiffness=3.0, damping=0.2)
        )
        points = [Attachment(link="base", position=[0.2, 0.1, 0.1])]
        points.append(
            Attachment(link="bar_1", position=[0.1, 0.0, -0.4], parent=0, rest_length=0.3)
        )
        builder.add_spatial_tendon(
            SpatialTendon(name="rope", attachments=points, stiffness=5.0, damping=0.1)
        )

    articulation = pendulum(
        3,
        couple=couple,
        drive=Drive(stiffness=6.0, damping=0.4, max_force=50.0, target=0.3),
        friction=JointFriction(static=0.02, dynamic=0.01, viscous=0.05),
        limits=[(-2.0, 2.0)],
        armature=0.05,
    )
    return articulation, at(articulation, jnp.array([0.5, 0.4, -0.6]), jnp.array([1.0, -0.8, 0.7]))


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "num_steps"), [("implicit", 100), ("pgs", 10), ("tgs", 10)])
def test_gradients_agree_with_central_differences(solver: str, num_steps: int) -> None:
    """The longer one without dry friction, which would switch, and with a joint that its drive
    holds beyond a limit."""
    articulation, state = _everything()
    options = SolverOptions(solver=solver)
    if solver == "implicit":
        smooth = articulation.friction.replace(static=jnp.zeros(3), dynamic=jnp.zeros(3))
        drive = articulation.drive.replace(target_position=jnp.array([1.5, 0.3, 0.3]))
        limit = jnp.array([0.49, 2.0, 2.0])
        articulation = articulation.replace(friction=smooth, drive=drive, joint_upper_limit=limit)

    def loss(parameters, state, force, dt):
        a = articulation.replace(
            link_mass=parameters["mass"],
            drive=articulation.drive.replace(stiffness=parameters["stiffness"]),
            friction=articulation.friction.replace(viscous=parameters["viscous"]),
            spatial_tendons=articulation.spatial_tendons.replace(position=parameters["position"]),
        )
        ends = artix.rollout(a, state, Control(joint_force=force), dt, options, num_steps=num_steps)
        return jnp.sum(jnp.sin(ends.joint_position[-1])) + jnp.sum(ends.joint_velocity[-1] ** 2)

    parameters = {
        "mass": articulation.link_mass,
        "stiffness": articulation.drive.stiffness,
        "viscous": articulation.friction.viscous,
        "position": articulation.spatial_tendons.position,
    }
    arguments = (parameters, state, jnp.array([0.1, -0.2, 0.3]), jnp.asarray(1 / 120))
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(*arguments)
    rng, value = np.random.default_rng(0), jax.jit(loss)
    for _ in range(3):
        direction = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), arguments)
        direction = (*direction[:3], 1e-2 * direction[3])
        step = lambda size: jax.tree.map(lambda x, d: x + size * d, arguments, direction)  # noqa: E731, B023
        wanted = (value(*step(1e-5)) - value(*step(-1e-5))) / 2e-5
        found = sum(
            jnp.sum(g * d)
            for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver", ["implicit", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pgs", "tgs"))]
)
def test_the_gradient_of_a_pendulum(solver: str) -> None:
    """In every entry of the state and of the drive, against central differences."""
    articulation = pendulum(1, drive=Drive(stiffness=6.0, damping=0.4, target=0.3))
    options = SolverOptions(solver=solver, position_iterations=2)

    def loss(position, velocity, gains):
        a = articulation.replace(
            drive=articulation.drive.replace(stiffness=gains[:1], damping=gains[1:])
        )
        end = artix.rollout(a, at(a, position, velocity), None, 0.01, options, num_steps=5)
        return end.joint_position[-1, 0] + end.joint_velocity[-1, 0] ** 2

    value, arguments = (
        jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2))),
        [np.array(x) for x in (0.4, -0.7, [6.0, 0.4])],
    )
    _, gradient = value(*arguments)
    for k, entry in ((0, ()), (1, ()), (2, 0), (2, 1)):
        moved = []
        for sign in (1, -1):
            changed = [x.copy() for x in arguments]
            changed[k][entry] += sign * 1e-5
            moved.append(value(*changed)[0])
        np.testing.assert_allclose(gradient[k][entry], (moved[0] - moved[1]) / 2e-5, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["implicit", "pgs", "tgs"])
def test_the_gradient_of_a_body_without_joints(solver: str) -> None:
    """By the velocity of its root, against a central difference."""
    body = random_tree(5, 0, fixed_base=False, dtype="float64")
    state = state_at(random_states(body, 1), 0)
    options = SolverOptions(solver=solver)

    def loss(velocity):
        end = artix.step(body, state.replace(root_velocity=velocity), None, 0.01, options)
        return jnp.sum(jnp.sin(end.root_pose)) + jnp.sum(end.root_velocity**2)

    direction = jnp.arange(1.0, 7.0)
    moved = [loss(state.root_velocity + sign * 1e-5 * direction) for sign in (1, -1)]
    slope = jnp.vdot(jax.grad(loss)(state.root_velocity), direction)
    np.testing.assert_allclose(slope, (moved[0] - moved[1]) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(s, marks=pytest.mark.exhaustive if s == "tgs" else pytest.mark.slow)
        for s in SOLVERS
    ],
)
def test_gradients_are_finite_where_nothing_is_smooth(solver: str) -> None:
    """At rest on every limit, with a tendon of no length, an envelope that is used up and friction
    that sticks."""

    def couple(builder: ArticulationBuilder) -> None:
        points = [Attachment(link="base", position=[0.0, 0.0, 0.0])]
        points.append(Attachment(link="bar_0", position=[0.0, 0.0, 0.0], parent=0, rest_length=0.0))
        builder.add_spatial_tendon(SpatialTendon(name="rope", attachments=points, stiffness=5.0))
        builder.add_mimic("hinge_1", "hinge_0", 1.0)

    articulation = pendulum(
        2,
        couple=couple,
        drive=Drive(stiffness=100.0, target=2.0),
        envelope=DriveEnvelope(
            max_effort=1.0, max_actuator_velocity=1.0, speed_effort_gradient=1.0
        ),
        friction=1.0,
        limits=[(0.0, 0.0)],
        max_velocity=0.0,
    )

    def loss(articulation, state, dt):
        end = last(
            artix.rollout(articulation, state, None, dt, SolverOptions(solver=solver), num_steps=3)
        )
        return jnp.sum(end.joint_position) + jnp.sum(end.joint_velocity)

    gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))
    stiff = articulation.replace(drive=articulation.drive.replace(stiffness=jnp.full(2, 1e6)))
    for one in (articulation, stiff):
        assert all(
            np.isfinite(leaf).all()
            for leaf in jax.tree.leaves(gradient(one, at(articulation, 0.0), 0.01))
        )


# --- batches, dtypes, arguments -----------------------------------------------------------------


@pytest.mark.slow
def test_a_fleet_of_one_topology_steps_with_different_parameters(dtype) -> None:
    drive = Drive(stiffness=20.0, damping=1.0)
    members = [pendulum(2, drive=drive, dtype=dtype), pendulum(2, gravity=(0, 0, 0), dtype=dtype)]
    fleet = artix.Fleet(members)
    states = fleet.stack_states([at(member, 0.3) for member in members])
    together = fleet.evaluate(artix.step, states, None, dt=0.01)
    assert together.joint_position.dtype == dtype
    for k, member in enumerate(members):
        alone = step(member, at(member, 0.3), None, 0.01)
        np.testing.assert_allclose(together.joint_position[k], alone.joint_position, rtol=1e-6)


@pytest.mark.slow
def test_a_fleet_of_different_robots_steps() -> None:
    """Every member as if it were alone, padded entries exactly zero."""
    names = ("e_combo", "f_mimic_mixed")
    members = [physx.build(name) for name in names]
    fleet = artix.Fleet(members)
    states = fleet.stack_states([state_at(physx.states(name), 1) for name in names])
    together, report = fleet.evaluate(artix.step_and_report, states, None, dt=0.005)
    for k, member in enumerate(members):
        alone, wanted = jax.jit(artix.step_and_report)(
            member, fleet.member_state(states, k), None, 0.005
        )
        for found, expected in zip(
            jax.tree.leaves(fleet.member_state(together, k)), jax.tree.leaves(alone), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
        n, links = member.topology.num_dofs, member.topology.num_links
        np.testing.assert_allclose(
            report.link_velocity[k, :links], wanted.link_velocity, rtol=1e-7, atol=1e-9
        )
        np.testing.assert_allclose(
            report.incoming_joint_force[k, :links],
            wanted.incoming_joint_force,
            rtol=1e-6,
            atol=1e-6,
        )
        assert not np.any(together.joint_velocity[k, n:])
        assert not np.any(together.joint_position[k, n:])
        assert not np.any(report.incoming_joint_force[k, links:])


@pytest.mark.slow
def test_controls_replace_the_parameters_and_are_limited() -> None:
    articulation = pendulum(
        gravity=(0, 0, 0), drive=Drive(stiffness=10.0, damping=1.0), max_force=2.0
    )
    state = at(articulation, 0.0)
    aimed = step(articulation, state, Control(drive_target=jnp.array([0.4])), 0.01)
    told = articulation.replace(drive=articulation.drive.replace(target_position=jnp.array([0.4])))
    np.testing.assert_array_equal(
        aimed.joint_velocity, step(told, state, None, 0.01).joint_velocity
    )
    pushes = [
        step(articulation, state, Control(joint_force=jnp.array([f])), 0.01) for f in (2.0, 50.0)
    ]
    np.testing.assert_array_equal(pushes[0].joint_velocity, pushes[1].joint_velocity)
    assert float(pushes[0].joint_velocity[0]) > 0


def test_a_rollout_is_its_steps_with_one_control_each() -> None:
    articulation = pendulum(2)
    forces = jnp.asarray(np.random.default_rng(1).normal(size=(4, 2)))
    state = at(articulation, 0.2)
    states = rollout(articulation, state, Control(joint_force=forces), 0.01)
    for k, force in enumerate(forces):
        state = step(articulation, state, Control(joint_force=force), 0.01)
        np.testing.assert_allclose(states.joint_position[k], state.joint_position, rtol=1e-12)


@pytest.mark.slow
def test_substeps_are_steps() -> None:
    articulation = pendulum(2, drive=artix.Drive(stiffness=30.0, damping=1.0))
    state, control = at(articulation, 0.4, 1.0), Control(drive_target=jnp.array([0.1, -0.2]))
    for solver in ("implicit", "rk4"):
        whole = step(articulation, state, control, 0.03, SolverOptions(solver=solver, substeps=3))
        parts = last(
            rollout(articulation, state, control, 0.01, SolverOptions(solver=solver), num_steps=3)
        )
        np.testing.assert_allclose(whole.joint_position, parts.joint_position, rtol=1e-13)
        np.testing.assert_allclose(whole.joint_velocity, parts.joint_velocity, rtol=1e-13)


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param("implicit", marks=pytest.mark.slow),
        *(pytest.param(solver, marks=pytest.mark.exhaustive) for solver in ("pgs", "tgs", "rk4")),
    ],
)
def test_the_derivative_by_the_step_is_the_vector_field_where_the_step_is_zero(solver: str) -> None:
    for dtype, tolerance in (("float64", 2e-6), ("float32", 1e-4)):
        arm = pendulum(
            dtype=dtype, drive=artix.Drive(stiffness=30.0, damping=2.0), max_velocity=50.0
        )
        state, options, zero = at(arm, 0.2, 0.7), SolverOptions(solver=solver), jnp.zeros((), dtype)
        wanted = artix.vector_field(0.0, state, (arm, Control()))
        kept, moved = state.joint_position, wanted.joint_position
        after = jax.jit(lambda dt: artix.step(arm, state, None, dt, options))  # noqa: B023
        reverse = jax.jacrev(after)(zero)
        with artix.use_kernels(dtype == "float64"):
            still, forward = after(zero), jax.jacfwd(after)(zero)
        np.testing.assert_allclose(still.joint_position, kept, rtol=1e-6)
        np.testing.assert_allclose(still.joint_velocity, state.joint_velocity, rtol=1e-6)
        for rate in (forward, reverse):
            np.testing.assert_allclose(rate.joint_position, moved, rtol=tolerance)
            np.testing.assert_allclose(rate.joint_velocity, wanted.joint_velocity, rtol=tolerance)


@pytest.mark.slow
def test_smooth_friction_follows_its_law_and_has_derivatives_at_rest() -> None:
    static, dynamic, speed, inertia = 0.6, 0.4, 0.05, 1 / 3
    articulation = pendulum(
        gravity=(0.0, 0.0, 0.0), friction=artix.JointFriction(static=static, dynamic=dynamic)
    )
    options = SolverOptions(smooth_friction=speed)

    def rate(t, y):
        return [y[1], -dynamic * y[1] / np.hypot(y[1], speed) / inertia]

    wanted = solve_ivp(rate, (0.0, 0.9), [0.0, 1.0], rtol=1e-10, atol=1e-12).y[:, -1]
    errors = []
    for count in (450, 900):
        end = last(
            rollout(
                articulation,
                at(articulation, 0.0, 1.0),
                None,
                0.9 / count,
                options,
                num_steps=count,
            )
        )
        errors.append(abs(float(end.joint_position[0]) - wanted[0]))
    assert errors[1] < 1e-3
    assert 1.8 < errors[0] / errors[1] < 2.2  # of first order

    def after(force):
        control = Control(joint_force=force[None])
        return step(articulation, at(articulation, 0.0), control, 0.01, options).joint_velocity[0]

    for derivative in (jax.grad, jax.jacfwd):
        found = derivative(after)(jnp.zeros(()))
        np.testing.assert_allclose(found, 0.01 / (inertia + 0.01 * dynamic / speed), rtol=1e-12)
    assert np.isfinite(jax.jacfwd(jax.grad(after))(jnp.zeros(())))


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_joint_without_friction_can_be_pushed_from_rest(solver: str) -> None:
    """At rest and without loads every impulse is zero, which must not be taken for sticking."""
    articulation, options = pendulum(gravity=(0.0, 0.0, 0.0)), SolverOptions(solver=solver)

    def after(force):
        return step(
            articulation, at(articulation, 0.0), Control(joint_force=force), 0.01, options
        ).joint_velocity

    for derivative in (jax.jacrev, jax.jacfwd):
        np.testing.assert_allclose(derivative(after)(jnp.zeros(1)), [[0.03]], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"substeps": 0}, "substeps must be at least 1; found 0"),
        ({"smooth_friction": -1.0}, "smooth_friction must be finite and at least 0; found -1.0"),
        (
            {"smooth_friction": 0.1, "solver": "pgs"},
            "smooth_friction needs solver='implicit'; found solver='pgs'",
        ),
        ({"solver": "euler"}, "solver must be 'implicit', 'pgs', 'tgs' or 'rk4'; found 'euler'"),
        ({"position_iterations": 0}, "position_iterations must be at least 1; found 0"),
        ({"velocity_iterations": -1}, "velocity_iterations must be at least 0; found -1"),
        (
            {"external_forces_every_iteration": True},
            "external_forces_every_iteration needs solver='tgs'",
        ),
        ({"tendon_law": "ideal"}, "tendon_law must be 'physx' or 'virtual_work'"),
        (
            {"tendon_law": "virtual_work", "solver": "pgs"},
            "tendon_law='virtual_work' needs solver='implicit' or 'rk4'",
        ),
    ],
)
def test_refused_options(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SolverOptions(**options)


def test_counts_are_whole_numbers() -> None:
    a = pendulum()
    with pytest.raises(TypeError, match=r"substeps: expected a whole number, found 2\.5"):
        SolverOptions(substeps=2.5)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError,
        match="num_steps: expected a whole number, found a traced value, which must be static",
    ):
        jax.jit(lambda n: artix.rollout(a, at(a, 0.0), None, 0.01, num_steps=n))(3)
    assert SolverOptions(substeps=np.int64(2)) == SolverOptions(substeps=2)


def test_refused_arguments() -> None:
    articulation = pendulum()
    state = at(articulation, 0.0)
    with pytest.raises(ValueError, match=r"control.joint_force: expected shape \(1,\)"):
        artix.step(articulation, state, Control(joint_force=jnp.zeros(2)), 0.01)
    with pytest.raises(ValueError, match=r"control.external_force: expected shape \(2, 6\)"):
        artix.step(articulation, state, Control(external_force=jnp.zeros(6)), 0.01)
    with pytest.raises(TypeError, match=r"control\.drive_target: expected dtype float64"):
        artix.step(articulation, state, Control(drive_target=jnp.zeros(1, "float32")), 0.01)
    with pytest.raises(ValueError, match="give num_steps, or a control with a leading axis"):
        artix.rollout(articulation, state, None, 0.01)
    for shape, num_steps, message in [
        ((10, 1), 10, "an axis .* leave num_steps out"),
        ((1,), None, "no axis .* give"),
    ]:
        control = Control(joint_force=jnp.zeros(shape))
        with pytest.raises(ValueError, match=r"control\.joint_force: shape \(.*\) has " + message):
            artix.rollout(articulation, state, control, 0.01, num_steps=num_steps)
    with pytest.raises(ValueError, match="num_steps must be at least 0; found -1"):
        artix.rollout(articulation, state, None, 0.01, num_steps=-1)
