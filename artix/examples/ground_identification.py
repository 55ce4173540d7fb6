"""Identification of friction, a mass, the ground's height and the motors' strength from a
quadruped's walk, by gradients through contact.

The drives follow a clock, and the robot trots on slippery ground. :func:`artix.step` predicts short
windows of the recorded states, including contact, and the Levenberg-Marquardt method finds the
parameters whose predictions fit best. The windows are short because long predictions are too
sensitive: if a contact begins slightly earlier, the rest of the walk changes.

The walk may also be MuJoCo's (:func:`record_mujoco`), by the policy that comes with artix: then the
model that is fitted is not the one that made the recording.

``python -m artix.examples.ground_identification`` prints the estimates of every iteration, with
``mujoco`` behind it those from MuJoCo's walk.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import deployment
from artix.envs.tasks.quadruped_velocity import QuadrupedVelocity
from artix.examples import deploy_mujoco, policies, trot

Array = jax.Array
DT = 0.005
#: The high separation speed resolves any penetration within a step, so the depth always has a
#: derivative.
OPTIONS = artix.SolverOptions(max_separation_speed=100.0, smooth_friction=0.05)


class Unknowns(NamedTuple):
    """The parameters to identify."""

    friction: Array
    """Friction coefficient of the ground."""
    trunk: Array
    """Mass of the trunk [kg]."""
    height: Array
    """Height of the ground [m]."""
    motor: Array
    """Torque of the motors as a multiple of what their drives ask for, such as the torque constant
    by the one that the current controller believes in."""


class Recording(NamedTuple):
    """States at N + 1 times, every array with a leading axis, and the drive targets between them,
    [N, 12] [rad].
    """

    states: artix.State
    targets: Array


def walker() -> artix.Articulation:
    """The quadruped in float64, with a drive on every joint."""
    robot = artix.robots.load("quadruped", dtype="float64")
    drive = robot.drive.replace(stiffness=jnp.full(12, 80.0), damping=jnp.full(12, 3.0))
    return robot.replace(drive=drive)


def targets(count: int) -> Array:
    """Joint positions of a clocked trot, [count, 12] [rad]: the thighs swing, and the knees bend
    during the swing.
    """
    phase = (
        2 * jnp.pi * (2.0 * DT * jnp.arange(count, dtype=float)[:, None] + jnp.array(trot.OFFSETS))
    )
    lifted = jnp.maximum(jnp.sin(phase), 0.0)
    return jnp.concatenate(
        [jnp.zeros_like(phase), 0.8 + 0.2 * jnp.cos(phase), -1.5 - 0.5 * lifted], axis=1
    )


def step(
    robot: artix.Articulation, unknowns: Unknowns, state: artix.State, target: Array
) -> artix.State:
    """One step of the robot with these parameters."""
    drive = robot.drive.replace(
        stiffness=unknowns.motor * robot.drive.stiffness,
        damping=unknowns.motor * robot.drive.damping,
    )
    heavy = robot.replace(link_mass=robot.link_mass.at[0].set(unknowns.trunk), drive=drive)
    plane = artix.Plane.of().replace(height=unknowns.height, friction=unknowns.friction)
    ground = artix.Ground((jax.tree.map(lambda leaf: jnp.asarray(leaf, robot.dtype), plane),))
    return artix.step(
        artix.Scene(heavy, ground=ground), state, artix.Control(drive_target=target), DT, OPTIONS
    )


def predict(
    robot: artix.Articulation, unknowns: Unknowns, start: artix.State, targets: Array
) -> artix.State:
    """The states after each step; every array has a leading axis."""

    def body(state: artix.State, target: Array) -> tuple[artix.State, artix.State]:
        after = step(robot, unknowns, state, target)
        return after, after

    return jax.lax.scan(body, start, targets)[1]


def record(robot: artix.Articulation, unknowns: Unknowns, count: int) -> Recording:
    """Records a walk of ``count`` steps, starting one centimetre above the ground."""
    start = trot.standing(robot)
    start = start.replace(root_pose=start.root_pose.at[2].add(unknowns.height + 0.01))
    asked = targets(count)
    after = predict(robot, unknowns, start, asked)
    return Recording(
        jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, after), asked
    )


def record_mujoco(
    unknowns: Unknowns, count: int, *, stiff: bool = True, timestep: float = 0.001
) -> tuple[artix.Articulation, Recording]:
    """Records a walk of ``count`` steps at 0.6 m/s in MuJoCo.

    Args:
      unknowns: the parameters of MuJoCo's model.
      count: the number of steps of :data:`DT`.
      stiff: whether contacts are as stiff as MuJoCo's step allows, rather than MuJoCo's default.
      timestep: MuJoCo's step [s].

    Returns:
      The robot as artix knows it, without these parameters, and the recording.
    """
    import mujoco

    environment = QuadrupedVelocity(dtype="float64").undisturbed()
    robot, description = environment.articulation, deployment.describe(environment)
    model = mujoco.MjModel.from_xml_string(deployment.scene(environment))
    model.opt.timestep = timestep
    model.body("trunk").mass = unknowns.trunk
    model.actuator_gainprm[:] *= unknowns.motor
    model.actuator_biasprm[:] *= unknowns.motor
    floor = model.geom("floor")
    floor.friction[0], floor.pos[2] = unknowns.friction, unknowns.height
    if stiff:
        floor.solref[:], floor.solimp[:2] = [2 * timestep, 1.0], [0.99, 0.999]
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    mujoco.mj_resetDataKeyframe(model, data, model.key("default").id)
    data.qpos[2] += unknowns.height
    joints = [model.joint(name) for name in description["joints"]]
    positions = [int(joint.qposadr[0]) for joint in joints]
    velocities = [int(joint.dofadr[0]) for joint in joints]
    policy = jax.jit(policies.load("quadruped_velocity"))
    controller = deploy_mujoco.Controller(description, lambda obs: np.asarray(policy(obs)))
    states, asked = [], []
    for k in range(count + 1):
        mujoco.mj_forward(model, data)
        turned = data.body("trunk").xmat.reshape(3, 3) @ data.qvel[3:6]
        pose = data.qpos[[0, 1, 2, 4, 5, 6, 3]]
        moved = np.concatenate([data.qvel[:3], turned])  # The trunk's centre of mass is its origin.
        states.append((pose, moved, data.qpos[positions], data.qvel[velocities]))
        if k % round(environment.dt / DT) == 0:
            measured = {
                "linear_velocity": data.sensor("imu_velocity").data,
                "gyro": data.sensor("imu_gyro").data,
                "quaternion": data.sensor("imu_quat").data,
                "joint_position": data.qpos[positions],
                "joint_velocity": data.qvel[velocities],
            }
            data.ctrl[:] = controller.targets(measured, np.array([0.6, 0.0, 0.0]))
        asked.append(data.ctrl.copy())
        mujoco.mj_step(model, data, round(DT / timestep))
    columns = (jnp.asarray(np.stack(column)) for column in zip(*states, strict=True))
    return robot, Recording(artix.State(*columns), jnp.asarray(np.stack(asked[:-1])))


def errors(
    robot: artix.Articulation, unknowns: Unknowns, recorded: Recording, window: int
) -> Array:
    """Errors of the predictions of all windows, step by step, [N * 18] [m and rad]."""
    starts = jnp.arange(0, len(recorded.targets) - window + 1, window)

    def one(start: Array) -> Array:
        begin = jax.tree.map(lambda leaf: leaf[start], recorded.states)
        seen = jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start + 1, window), recorded.states
        )
        asked = jax.lax.dynamic_slice_in_dim(recorded.targets, start, window)
        estimates = predict(robot, unknowns, begin, asked)
        return jax.vmap(lambda here, there: artix.difference(robot, here, there))(seen, estimates)

    return jax.vmap(one)(starts).ravel()


def identify(
    robot: artix.Articulation,
    guess: Unknowns,
    recorded: Recording,
    *,
    known: Sequence[str] = (),
    window: int = 20,
    iterations: int = 15,
) -> Unknowns:
    """Fits the parameters to the errors of all windows with the Levenberg-Marquardt method.

    Args:
      robot: the robot; its own trunk mass is ignored.
      guess: the initial parameters.
      recorded: the walk.
      known: names of the parameters that stay as they are in the guess. Legs mostly carry the
        trunk, so its mass and the motors' torque are found together only as well as the rest of the
        model is right: weigh the robot, or measure its motors.
      window: the number of steps in a window.
      iterations: the number of iterations.

    Returns:
      The parameters after each iteration; every array has a leading axis.

    Raises:
      ValueError: there is no parameter of a name in ``known``.
    """
    for name in known:
        if name not in Unknowns._fields:
            raise ValueError(f"known: expected names among {Unknowns._fields}; found {name!r}")
    scale = jnp.stack(guess)
    is_free = np.array([name not in known for name in Unknowns._fields], scale.dtype)

    def residual(relative: Array) -> Array:
        return errors(robot, Unknowns(*(relative * scale)), recorded, window)

    def improve(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        relative, damping = carry
        error, slope = residual(relative), jax.jacfwd(residual)(relative) * is_free
        matrix = slope.T @ slope + np.diag(1 - is_free)
        change = jnp.linalg.solve(matrix + damping * jnp.diag(jnp.diag(matrix)), slope.T @ error)
        trial = relative - jnp.clip(change, -0.3, 0.3)
        better = jnp.sum(residual(trial) ** 2) < jnp.sum(error**2)
        relative = jnp.where(better, trial, relative)
        return (relative, damping * jnp.where(better, 0.1, 10.0)), relative

    begin = jnp.ones_like(scale), jnp.asarray(1e-2, robot.dtype)
    return Unknowns(*(jax.lax.scan(improve, begin, length=iterations)[1] * scale).T)


def example(robot: artix.Articulation) -> tuple[Unknowns, Unknowns]:
    """The true parameters, and a guess that is wrong by 30 %."""
    true = Unknowns(*map(jnp.asarray, (0.4, 1.2 * robot.link_mass[0], 0.02, 0.85)))
    return true, Unknowns(
        *(each * factor for each, factor in zip(true, (1.3, 0.7, 0.7, 1.3), strict=True))
    )


def main() -> None:
    """Finds friction, mass, height and the motors' strength from 1.5 s of walking, starting from a
    guess that is wrong by 30 %.
    """
    jax.config.update("jax_enable_x64", True)
    robot = walker()
    true, guess = example(robot)
    if "mujoco" in sys.argv:
        robot, recorded = record_mujoco(true, 300)
    else:
        recorded = jax.jit(lambda unknowns: record(robot, unknowns, 300))(true)
    estimates = jax.jit(lambda guess, recorded: identify(robot, guess, recorded))(guess, recorded)
    print(f"it went {float(recorded.states.root_pose[-1, 0]):.2f} m")
    for name, value, values in zip(true._fields, true, estimates, strict=True):
        print(f"{name}: {float(value):.4f}, found {values}")


if __name__ == "__main__":
    main()
