"""Environment steps per second: artix's quadruped beside the same task with MJX's physics.

Both follow Playground's Go1 joystick: five physics steps of 4 ms, the same robot, drives,
observations with noise, terms of the reward, commands and episodes. MJX takes one Newton iteration
(Playground's setting) with four sphere feet, and starts episodes from cached states, as
Playground's wrapper does. artix draws new ones.

Usage: ``python -m benchmarks.environments [--batches 1024 4096] [--skip-mjx]``.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import envs
from artix.envs import commands, rewards
from artix.envs.gait import Gait
from artix.envs.tasks.quadruped_velocity import FEET, ROUGH_REWARDS

Array = jax.Array


class MjxQuadruped:
    """The task of an environment for one robot, with MJX's physics."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.model = mujoco_model(environment)
        self.feet = np.array([self.model.body(name).id for name in FEET])
        self.order = np.array(
            [self.model.joint(name).dofadr[0] - 6 for name in _joints(environment)]
        )

    @functools.cached_property
    def mjx(self) -> Any:
        """The library, which observations alone do not need."""
        from mujoco import mjx

        return mjx

    @functools.cached_property
    def mjx_model(self) -> Any:
        """The robot for MJX."""
        return self.mjx.put_model(self.model)

    def reset(self, key: Array) -> tuple[Any, ...]:
        """MuJoCo's data and the memory of the task."""
        state, memory = self.environment.begin(key)
        data = self.mjx.make_data(self.mjx_model)
        position, x = state.root_pose[:3], state.root_pose[3:]
        joints = jnp.zeros(12).at[self.order].set(state.joint_position)
        qpos = jnp.concatenate([position, x[3:], x[:3], joints])
        data = self.mjx.forward(self.mjx_model, data.replace(qpos=qpos))
        return data, memory, jnp.zeros((), jnp.int32), key

    def step(
        self, state: tuple[Any, ...], first: tuple[Any, ...], action: Array
    ) -> tuple[Any, ...]:
        """A control step; an episode that is done restarts from ``first``."""
        task = self.environment
        data, memory, steps, key = state
        key, draw_key = jax.random.split(key)
        drawn = task.draw(draw_key)
        # Actuators are in artix's order, joints in MuJoCo's
        data = data.replace(ctrl=task.target(action))
        data = jax.lax.fori_loop(0, 5, lambda _, now: self.mjx.step(self.mjx_model, now), data)
        signals = self.signals(data, memory, action)
        gait, first_contact = memory["gait"].moved(
            signals["contact"], signals["feet_height"], task.dt
        )
        signals |= {
            "first_contact": first_contact,
            "air_time": gait.air_time,
            "swing_peak": gait.swing_peak,
        }
        up = signals["up"]
        signals["terminated"] = up[2] < 0
        terms = rewards.weighted_terms(task.rewards, signals)
        reward = jnp.maximum(sum(terms.values()) * task.dt, 0)
        command, left = commands.next_command(
            memory["command"], memory["command_time_left"], drawn["command"], task.dt
        )
        memory = {
            "command": command,
            "command_time_left": left,
            "last_action": action,
            "gait": gait.landed(),
        }
        obs = self.observe(signals, memory, drawn["noise"], data)
        done = (
            signals["terminated"]
            | (steps + 1 >= task.episode_length)
            | ~jnp.all(jnp.isfinite(data.qpos))
        )
        end = (data, memory, steps + 1, key)
        end = jax.tree.map(lambda new, old: jnp.where(done, new, old), first[:3], end[:3])
        return (*end, key), obs, reward, done, terms

    def signals(self, data: Any, memory: dict[str, Any], action: Array) -> dict[str, Any]:
        """The signals that the reward terms need."""
        task, robot = self.environment, self.environment.robot
        axes = data.xmat[1].reshape(3, 3)
        turning = axes @ data.qvel[3:6]
        linear = data.qvel[:3] + jnp.cross(turning, axes @ jnp.array([0.02, 0.0, 0.05]))
        position, velocity = data.qpos[7:][self.order], data.qvel[6:][self.order]
        drive = task.articulation.drive
        force = drive.stiffness * (data.ctrl - position) - drive.damping * velocity
        force = jnp.clip(force, -drive.max_force, drive.max_force)
        places = data.xpos[self.feet]
        arms = places - data.subtree_com[1]
        twist = data.cvel[self.feet]
        lower, upper = task.articulation.joint_lower_limit, task.articulation.joint_upper_limit
        return {
            "command": memory["command"],
            "linear_velocity": axes.T @ linear,
            "angular_velocity": data.qvel[3:6],
            "world_linear_velocity": linear,
            "world_angular_velocity": turning,
            "up": axes[:, 2],
            "gravity": -axes[2],
            "joint_position": position,
            "joint_velocity": velocity,
            "joint_force": force,
            "default_position": robot.default_position,
            "soft_lower": lower + 0.025 * (upper - lower),
            "soft_upper": upper - 0.025 * (upper - lower),
            "pose_weight": robot.pose_weight,
            "action": action,
            "last_action": memory["last_action"],
            "feet_velocity": twist[:, 3:] + jnp.cross(twist[:, :3], arms),
            "feet_height": places[:, 2],
            "contact": places[:, 2] < 0.021,
            "tracking_sigma": task.tracking_sigma,
            "max_foot_height": task.max_foot_height,
        }

    def observe(
        self, signals: dict[str, Any], memory: dict[str, Any], errors: dict[str, Array], data: Any
    ) -> Any:
        """The environment's observations, but with MuJoCo's root accelerations instead of the
        accelerometer.

        ``tests/envs/test_observations.py`` compares all others number by number.
        """
        measured = {
            "linear_velocity": signals["linear_velocity"],
            "gyro": signals["angular_velocity"],
            "gravity": signals["gravity"],
            "joint_position": signals["joint_position"] - signals["default_position"],
            "joint_velocity": signals["joint_velocity"],
        }
        noisy = [value + errors[name] for name, value in measured.items()]
        seen = jnp.concatenate([*noisy, memory["last_action"], memory["command"]])
        gait: Gait = memory["gait"]
        privileged = [
            seen,
            measured["gyro"],
            data.qacc[:3],
            measured["gravity"],
            measured["linear_velocity"],
            signals["world_angular_velocity"],
            measured["joint_position"],
            measured["joint_velocity"],
            signals["joint_force"],
            gait.contact.astype(seen.dtype),
            signals["feet_velocity"].reshape(-1),
            gait.air_time,
        ]
        return {"state": seen, "privileged_state": jnp.concatenate(privileged)}


def mujoco_model(environment: Any) -> Any:
    """The robot of an environment as a MuJoCo model with a floor, position actuators and
    Playground's options."""
    import mujoco

    robot = environment.articulation
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        artix.save(robot, path)
        spec = mujoco.MjSpec.from_file(str(path))
    spec.option.timestep, spec.option.iterations, spec.option.ls_iterations = (
        environment.physics_dt,
        1,
        5,
    )
    for geom in spec.geoms:
        geom.contype, geom.conaffinity = 0, 1
    floor = spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[0.8, 0.005, 0.0001]
    )
    floor.contype, floor.conaffinity = 1, 0
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    for name, stiffness, damping, limit in zip(
        _joints(environment),
        robot.drive.stiffness,
        robot.drive.damping,
        robot.drive.max_force,
        strict=True,
    ):
        joint = spec.joint(name)
        joint.damping = np.asarray(joint.damping) + float(damping)
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=float(stiffness))
        actuator.forcerange, actuator.forcelimited = [-float(limit), float(limit)], True
    return spec.compile()


def _joints(environment: Any) -> tuple[str, ...]:
    return environment.articulation.topology.dof_names


def best_times(
    rows: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], seconds: float = 8.0
) -> dict[str, Any]:
    """For each row, the time to its first result [s] and the shortest time of a call [s].

    Rows take turns, so that other load on the machine affects all of them alike.
    """
    first, least = {}, dict.fromkeys(rows, np.inf)
    for name, (function, arguments) in rows.items():
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        first[name] = time.perf_counter() - start
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds * len(rows):
        for name, (function, arguments) in rows.items():
            turn = time.perf_counter()
            while time.perf_counter() - turn < 0.1:
                start = time.perf_counter()
                jax.block_until_ready(function(*arguments))
                least[name] = min(least[name], time.perf_counter() - start)
    return {name: (first[name], least[name]) for name in rows}


def measure(batch: int, with_mjx: bool) -> None:
    """Prints the rows of one batch."""
    # The peer has no clock
    inner = envs.make("quadruped_velocity", gait_frequency=None, rewards=ROUGH_REWARDS)
    environment = envs.autoreset(inner)
    keys = jax.random.split(jax.random.key(0), batch)
    action = jax.random.uniform(jax.random.key(1), (batch, 12), minval=-1, maxval=1)
    state = jax.jit(jax.vmap(environment.reset))(keys)

    def physics(state: envs.EnvState, action: Array) -> artix.State:
        """The physics steps of a control step alone."""
        control = artix.Control(drive_target=inner.target(action))

        scene = artix.Scene(inner.articulation, ground=inner.ground)

        def step(_: int, now: artix.State) -> artix.State:
            return artix.step(scene, now, control, inner.physics_dt, inner.solver_options)

        start = state.articulation_state.replace(contact_memory=state.info["contact_memory"])
        return jax.lax.fori_loop(0, 5, step, start)

    rows = {
        "artix, physics alone": (physics, (state, action)),
        "artix": (environment.step, (state, action)),
    }
    if with_mjx:
        peer = MjxQuadruped(inner)
        assert peer.mjx_model is not None  # made here, not while JAX traces
        first = jax.jit(jax.vmap(peer.reset))(keys)
        rows["mjx"] = (functools.partial(_mjx_step, peer), (first, first, action))
    compiled = {
        name: (jax.jit(jax.vmap(function)), arguments)
        for name, (function, arguments) in rows.items()
    }
    for name, (compile_time, step_time) in best_times(compiled).items():
        rate = batch / step_time
        print(
            f"| {batch:,} | {name} | {1e6 / rate:.2f} | {rate:,.0f} | {compile_time:.1f} |",
            flush=True,
        )


def _mjx_step(peer: MjxQuadruped, state: Any, first: Any, action: Array) -> Any:
    return peer.step(state, first, action)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--skip-mjx", action="store_true")
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}, load "
        f"{os.getloadavg()[0]:.1f}"
    )
    print(
        "| batch | | us a control step of one robot | control steps/s | first call [s] "
        "|\n|---|---|---|---|---|"
    )
    for batch in options.batches:
        measure(batch, not options.skip_mjx)


if __name__ == "__main__":
    main()
