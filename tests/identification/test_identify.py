"""Identification beside MuJoCo's motions, Pinocchio's regressors, and random noise."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import identification
from artix.identification import Log, cross_validate, excitation, exciting_trajectory, identify

PENDULUM = artix.robots.load("double_pendulum")


def driven(robot: artix.Articulation, motion: Log, terms: dict[str, np.ndarray]) -> np.ndarray:
    """Torques of a motion in double precision, with armatures and friction, [N, n]."""
    with jax.enable_x64(True):
        precise = dataclasses.replace(motion, robot=robot.astype("float64"))
        of_one = functools.partial(artix.inverse_dynamics, precise.robot, armature=False)
        torque = np.asarray(
            jax.jit(jax.vmap(of_one))(precise.states, jnp.asarray(motion.acceleration))
        )
    torque = (
        torque
        + terms.get("armature", 0) * motion.acceleration
        + terms.get("viscous", 0) * motion.velocity
    )
    return torque + terms.get("coulomb", 0) * np.sign(motion.velocity)


TERMS = {
    "armature": np.array([0.03, 0.02]),
    "viscous": np.array([0.2, 0.1]),
    "coulomb": np.array([0.3, 0.4]),
}


@functools.cache
def motion_of(seed: int) -> Log:
    return exciting_trajectory(PENDULUM, 4.0, period=0.01, iterations=0, seed=seed)


def heavier(robot: artix.Articulation, factor: float = 1.3) -> artix.Articulation:
    return robot.replace(
        link_mass=factor * robot.link_mass, link_inertia=factor * robot.link_inertia
    )


@pytest.mark.slow
def test_without_noise_the_torques_of_any_motion_are_predicted() -> None:
    log = dataclasses.replace(motion_of(0), torque=driven(PENDULUM, motion_of(0), TERMS))
    result = identify(heavier(PENDULUM), log)
    assert result.converged
    for term in ("viscous", "coulomb"):
        values = result.values[[name.endswith(term) for name in result.names]]
        np.testing.assert_allclose(values, TERMS[term], atol=1e-6)
    other = motion_of(1)
    robot = result.robot
    identified = {
        "armature": np.asarray(robot.armature),
        "viscous": np.asarray(robot.friction.viscous),
        "coulomb": np.asarray(robot.friction.dynamic),
    }
    expected = driven(PENDULUM, other, TERMS)
    # The identified robot is in single precision, as the guess is.
    np.testing.assert_allclose(
        driven(robot, other, identified), expected, atol=1e-5 * np.abs(expected).max()
    )
    assert robot.dtype == PENDULUM.dtype


@pytest.mark.parametrize(
    "unknown",
    [{"armature": False}, {"friction": ("coulomb",)}, {"friction": ("viscous",)}, {"friction": ()}],
    ids=str,
)
def test_armatures_and_friction_that_are_known_count(unknown) -> None:
    coulomb = jnp.asarray(TERMS["coulomb"], PENDULUM.dtype)
    friction = PENDULUM.friction.replace(
        viscous=jnp.asarray(TERMS["viscous"], PENDULUM.dtype), static=coulomb, dynamic=coulomb
    )
    armature = jnp.asarray(TERMS["armature"], PENDULUM.dtype)
    true = PENDULUM.replace(friction=friction, armature=armature)
    torque = driven(true, motion_of(0), TERMS)
    result = identify(heavier(true), dataclasses.replace(motion_of(0), torque=torque), **unknown)
    robot = result.robot
    assert result.converged and (result.residual < 1e-4 * np.abs(torque).max()).all()
    identified = {
        "armature": np.asarray(robot.armature),
        "viscous": np.asarray(robot.friction.viscous),
        "coulomb": np.asarray(robot.friction.dynamic),
    }
    expected = driven(true, motion_of(1), TERMS)
    np.testing.assert_allclose(
        driven(robot, motion_of(1), identified), expected, atol=1e-4 * np.abs(expected).max()
    )


@pytest.mark.slow
def test_standard_errors_are_those_of_repeated_recordings() -> None:
    torque = driven(PENDULUM, motion_of(0), TERMS)
    generator = np.random.default_rng(0)
    results = []
    for _ in range(30):
        noisy = torque + np.array([0.3, 0.1]) * generator.normal(size=torque.shape)
        results.append(identify(PENDULUM, dataclasses.replace(motion_of(0), torque=noisy)))
    frictions = np.array(
        [name.split(".")[1] in ("viscous", "coulomb") for name in results[0].names]
    )
    spread = np.std([result.values[frictions] for result in results], axis=0)
    stated = np.mean([result.standard_errors[frictions] for result in results], axis=0)
    assert ((stated / spread > 0.6) & (stated / spread < 1.7)).all()
    np.testing.assert_allclose(
        np.mean([result.noise for result in results], axis=0), [0.3, 0.1], rtol=0.1
    )


@pytest.mark.slow
def test_base_parameters_are_those_of_pinocchio() -> None:
    """The rank of Pinocchio's regressors at random states."""
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(str(artix.robots.path("arm7")))
    data = model.createData()
    generator = np.random.default_rng(0)
    rows = []
    for _ in range(60):
        q, v, a = (generator.normal(size=model.nv) for _ in range(3))
        rows.append(pin.computeJointTorqueRegressor(model, data, q, v, a).copy())
    sizes = np.linalg.svd(np.concatenate(rows), compute_uv=False)
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    arm = artix.robots.load("arm7")
    motion = exciting_trajectory(arm, 5.0, period=0.02, iterations=0)
    assert excitation(arm, motion, friction=False, armature=False)[0] == rank


def test_the_excitation_of_another_robot_is_refused() -> None:
    arm, pendulum = artix.robots.load("arm7"), artix.robots.load("double_pendulum")
    rest = artix.neutral_state(arm)
    locked = artix.lock_joints(arm, rest, arm.topology.dof_names[2:])
    motion = exciting_trajectory(pendulum, 5.0, iterations=0)
    assert locked.topology.num_dofs == pendulum.topology.num_dofs
    with pytest.raises(ValueError, match="other degrees of freedom"):
        excitation(locked, motion)


@pytest.mark.slow
def test_motor_constants_from_a_known_link() -> None:
    """Currents alone determine the constants if the mass of one link is known."""
    torque = driven(PENDULUM, motion_of(0), TERMS)
    constants = np.array([0.7, 1.6])
    log = dataclasses.replace(motion_of(0), current=torque / constants)
    unknown = PENDULUM.topology.link_names[1]
    guess = heavier(PENDULUM).replace(
        link_mass=heavier(PENDULUM).link_mass.at[2].set(PENDULUM.link_mass[2]),
        link_inertia=heavier(PENDULUM).link_inertia.at[2].set(PENDULUM.link_inertia[2]),
    )
    result = identify(guess, log, links=[unknown])
    np.testing.assert_allclose(result.motor_constants, constants, rtol=1e-4)
    np.testing.assert_allclose(result.robot.friction.dynamic, TERMS["coulomb"], rtol=1e-3)


def test_stribeck_friction() -> None:
    motion = motion_of(0)
    extra = 0.2 * np.sign(motion.velocity) * np.exp(-((motion.velocity / 0.3) ** 2))
    log = dataclasses.replace(motion, torque=driven(PENDULUM, motion, TERMS) + extra)
    result = identify(PENDULUM, log, stribeck_speed=0.3)
    np.testing.assert_allclose(
        result.robot.friction.static - result.robot.friction.dynamic, 0.2, rtol=1e-4
    )
    without = identify(PENDULUM, log, armature=False)
    assert (without.residual > 10 * result.residual).all()


def test_held_out_parts_are_predicted() -> None:
    generator = np.random.default_rng(1)
    torque = driven(PENDULUM, motion_of(0), TERMS)
    log = dataclasses.replace(
        motion_of(0), torque=torque + 0.05 * generator.normal(size=torque.shape)
    )
    errors = cross_validate(heavier(PENDULUM), log, folds=2)
    assert errors.shape == (2, 2)
    assert (errors < 0.07).all() and (errors > 0.03).all()


@pytest.mark.slow
def test_exciting_motions_respect_limits_and_determine_more() -> None:
    arm = artix.robots.load("arm7")
    options: dict[str, Any] = {
        "duration": 6.0,
        "period": 0.02,
        "max_speed": 1.5,
        "max_acceleration": 6.0,
        "seed": 3,
    }
    random = exciting_trajectory(arm, iterations=0, **options)
    best = exciting_trajectory(arm, iterations=30, **options)
    for motion in (random, best):
        assert (motion.position > np.asarray(arm.joint_lower_limit)).all()
        assert (motion.position < np.asarray(arm.joint_upper_limit)).all()
        assert np.abs(motion.velocity).max() <= 1.5 + 1e-9
        assert np.abs(motion.acceleration).max() <= 6.0 + 1e-9
        slope = np.gradient(motion.position, motion.time, axis=0)[1:-1]
        np.testing.assert_allclose(motion.velocity[1:-1], slope, atol=0.01)
    assert excitation(arm, best)[1] < excitation(arm, random)[1]


@pytest.mark.slow
def test_a_recording_of_mujoco() -> None:
    """An arm tracks a motion in MuJoCo, with armatures and friction; its noisy log is filtered and
    identified."""
    mujoco = pytest.importorskip("mujoco")
    arm = artix.robots.load("arm7")
    generator = np.random.default_rng(0)
    terms = {
        "armature": generator.uniform(0.05, 0.2, 7),
        "viscous": generator.uniform(0.2, 1.0, 7),
        "coulomb": generator.uniform(0.3, 1.0, 7),
    }
    spec = mujoco.MjSpec.from_file(str(artix.robots.path("arm7")))
    for k, joint in enumerate(spec.joints):
        joint.armature, joint.frictionloss = terms["armature"][k], terms["coulomb"][k]
        joint.damping = [terms["viscous"][k], 0, 0]
        # MuJoCo's dry friction is a stiff damper at low speed; this one is stiffer.
        joint.solref_friction = [0.004, 1]
    model = spec.compile()
    model.opt.timestep, model.opt.integrator = 1e-3, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    motion = exciting_trajectory(arm, 10.0, period=1e-3, iterations=0)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = motion.position[0], motion.velocity[0]
    positions, torques = [], []
    for position, velocity in zip(motion.position, motion.velocity, strict=True):
        torque = 400 * (position - data.qpos) + 40 * (velocity - data.qvel)
        positions.append(data.qpos.copy())
        torques.append(torque)
        data.qfrc_applied[:] = torque
        mujoco.mj_step(model, data)
    shape = motion.position.shape
    table = {"time": motion.time}
    for k, name in enumerate(arm.topology.dof_names):
        table[f"position_{name}"] = np.array(positions)[:, k] + 1e-5 * generator.normal(
            size=shape[0]
        )
        table[f"torque_{name}"] = np.array(torques)[:, k] + 0.05 * generator.normal(size=shape[0])
    log = (
        identification.read_log(arm, table, torque="torque_{joint}")
        .filtered(20.0)
        .between(0.2, 9.8)
    )
    result = identify(heavier(arm), log)
    assert result.converged
    friction = result.robot.friction
    np.testing.assert_allclose(friction.viscous, terms["viscous"], rtol=0.1)
    np.testing.assert_allclose(friction.dynamic, terms["coulomb"], rtol=0.1)
    # Those of the first two joints are inertias of the links as well.
    np.testing.assert_allclose(result.robot.armature[2:], terms["armature"][2:], rtol=0.1)
    other = exciting_trajectory(arm, 10.0, period=0.05, iterations=0, seed=7)
    inertial = {"armature": terms["armature"]}
    expected = driven(arm, other, inertial)
    predicted = driven(result.robot, other, {"armature": np.asarray(result.robot.armature)})
    error = np.sqrt(np.mean((predicted - expected) ** 2, axis=0))
    assert (error < 0.03 * np.sqrt(np.mean(expected**2, axis=0)) + 0.05).all()


@pytest.mark.slow
def test_torques_in_another_unit_or_of_another_sign_are_pointed_out(
    recwarn: pytest.WarningsRecorder,
) -> None:
    torque = driven(PENDULUM, motion_of(0), TERMS)
    log = dataclasses.replace(motion_of(0), torque=torque).between(1.0, 2.0)
    identify(heavier(PENDULUM, 3.0), log)
    assert not recwarn.list
    for wrong, message in (
        (
            1e3 * log.torque,
            r"torque: recorded torques are 1.*e\+03 times those of the guess; check their unit",
        ),
        (
            -log.torque,
            "torque: recorded torques of 'shoulder', 'elbow' are opposed to those of the guess",
        ),
    ):
        with pytest.warns(UserWarning, match=message):
            identify(PENDULUM, dataclasses.replace(log, torque=wrong))


def test_a_joint_without_a_motor_has_no_torque() -> None:
    """The torques of the shoulder of a pendulum whose elbow swings freely, so that its equations
    say that nothing acts there."""
    state = artix.neutral_state(PENDULUM).replace(joint_position=jnp.array([0.4, -0.8]))
    time = np.arange(0, 3, 0.002)
    push = jnp.asarray(2 * np.sin(4 * time)[:, None] * np.array([1.0, 0.0]), PENDULUM.dtype)
    free = PENDULUM.astype("float64")

    def step(state: artix.State, force: jax.Array) -> tuple[artix.State, tuple]:
        acceleration = artix.forward_dynamics(free, state, force)
        moved = artix.integrate(free, state, 0.002 * state.joint_velocity)
        velocity = state.joint_velocity + 0.002 * acceleration
        row = state.joint_position, state.joint_velocity, acceleration
        return moved.replace(joint_velocity=velocity), row

    rows = jax.lax.scan(step, state.astype("float64"), push.astype("float64"))[1]
    log = Log(PENDULUM, time, *map(np.asarray, rows), torque=np.asarray(push, float))
    result = identify(heavier(PENDULUM, 1.05), log)
    assert result.converged and np.isfinite(result.values).all()
    assert (result.residual < 1e-3).all()


def test_what_is_refused() -> None:
    log = dataclasses.replace(motion_of(0), torque=driven(PENDULUM, motion_of(0), TERMS))
    with pytest.raises(ValueError, match="no column torque"):
        identify(PENDULUM, motion_of(0))
    with pytest.raises(ValueError, match='friction: expected some of "viscous" and "coulomb"'):
        identify(PENDULUM, log, friction=("dry",))
    with pytest.raises(ValueError, match="stribeck_speed"):
        identify(PENDULUM, log, friction=("viscous",), stribeck_speed=0.1)
    with pytest.raises(ValueError, match="guess_deviation: expected a positive number"):
        identify(PENDULUM, log, guess_deviation=0.0)
    with pytest.raises(KeyError, match="nose"):
        identify(PENDULUM, log, links=["nose"])
    with pytest.raises(ValueError, match="other degrees of freedom"):
        identify(artix.robots.load("arm7"), log)
    with pytest.raises(ValueError, match="at least one log"):
        identify(PENDULUM, [])
    with pytest.raises(ValueError, match="folds"):
        cross_validate(PENDULUM, log, folds=1)
    with pytest.raises(ValueError, match="duration: expected a positive number"):
        exciting_trajectory(PENDULUM, 0.0)
    with pytest.raises(ValueError, match="max_speed: expected a positive number; found -1"):
        exciting_trajectory(PENDULUM, max_speed=-1)
    with pytest.raises(ValueError, match="margin: expected a share from 0 to less"):
        exciting_trajectory(PENDULUM, margin=0.6)
    with pytest.raises(ValueError, match="torque: all samples are zero; check the recording"):
        identify(PENDULUM, dataclasses.replace(log, torque=0 * log.torque))
