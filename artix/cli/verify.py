"""``artix verify``: the same policy and commands in artix and in MuJoCo, side by side."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import envs
from artix.cli.names import naming
from artix.cli.play import load_played
from artix.cli.text import CommandFailure, table
from artix.cli.training_files import title_of
from artix.envs import commands, deployment, observations
from artix.envs.gait import gait_statistics
from artix.envs.tasks.legged import LeggedVelocity
from artix.examples import deploy_mujoco, policies
from artix.io.common.atomic_file import write_atomically

Records = dict[str, np.ndarray]

#: The simulators, with the longest physics step of MuJoCo [s] and whether its contacts are as stiff
#: as that step allows.
MUJOCO: dict[str, tuple[float, bool]] = {
    "MuJoCo, stiff": (0.001, True),
    "MuJoCo, default": (0.002, False),
}
ARTIX = "artix"
#: The task with physics steps as short as those of MuJoCo with stiff contacts, which shows how much
#: of a difference comes from the length of the steps that the policy was trained with.
FINE = "artix, 1 ms"
FINE_STEP = 0.001
#: Commands to walk straight ahead, back or sideways, whose paths are compared.
STRAIGHT = ("forward", "fast", "backward", "left")
#: Shorter paths [m] are not compared.
_SHORTEST = 0.1
#: Colours of the simulators in the plot.
_COLORS = {
    ARTIX: "tab:blue",
    FINE: "tab:cyan",
    "MuJoCo, stiff": "tab:orange",
    "MuJoCo, default": "tab:green",
}
#: A robot has fallen if its root is lower than this fraction of its height, or its z axis is tilted
#: beyond this cosine.
_LOW, _TILT = 0.5, 0.5
#: How much of the steady gait is shown in the plots of feet and torques [s].
_CLOSE = 1.0


def run_verify(checkpoint: str, *, seconds: float, output: str) -> int:
    """Compares a policy in artix and in MuJoCo and prints a table of what it does in each.

    Both start from the default pose at rest, without noise, pushes and randomisation. In MuJoCo,
    the exported scene is driven by the loop that a robot would use
    (:mod:`artix.examples.deploy_mujoco`). If the task has longer physics steps than MuJoCo's, artix
    runs with those, too: what remains different is not the length of the steps.

    Args:
      checkpoint: as for :func:`artix.cli.play.run_play`.
      seconds: length of each run [s].
      output: the PNG file for paths, heights, feet and torques.

    Returns:
      0 if the robot falls nowhere, 1 if it falls.

    Raises:
      CommandFailure: the checkpoint cannot be read, its robot does not follow commands, or MuJoCo
        is not installed.
    """
    header, environment, policy = load_played(checkpoint)
    environment = getattr(environment, "unwrapped", environment)
    if not isinstance(environment, LeggedVelocity):
        raise CommandFailure(
            f"{environment.name} cannot be verified: only legged robots that follow velocity "
            "commands, such as that of quadruped_velocity, have a scene for MuJoCo"
        )
    try:
        import mujoco
    except ImportError as error:
        raise CommandFailure("MuJoCo is not installed: pip install 'artix[mjcf]'") from error
    runs = scenarios(environment, seconds)
    try:
        # First, since it refuses what a robot does not measure
        there = in_mujoco(environment, policy, runs)
        results = {ARTIX: in_artix(environment, policy, runs)}
        if environment.physics_dt > FINE_STEP:
            fine = deployment.dividing_step(environment.dt, FINE_STEP)
            results[FINE] = in_artix(with_physics_step(environment, fine), policy, runs)
        results |= there
    except ValueError as error:
        raise CommandFailure(f"{title_of(header)} cannot be verified in MuJoCo: {error}") from error
    print(
        f"{title_of(header)}: {seconds:g} s of each command from rest, in artix and MuJoCo "
        f"{mujoco.__version__}\n"
    )
    text, falls = compared(environment, results)
    print(text)
    if differences := path_differences(results):
        print(f"\n{differences}")
    with naming(output):
        save_plot(output, environment, results)
    print(f"\nplot saved to {output}")
    return 1 if falls else 0


def scenarios(environment: LeggedVelocity, seconds: float) -> dict[str, np.ndarray]:
    """Commands by name, [T, 3] each: standing, walking each way, turning, and all of them in
    turn.
    """
    drawn, steps = environment.velocity_commands, round(seconds / environment.dt)
    most = np.array(
        drawn.largest if isinstance(drawn, commands.VelocityCommands) else (1.0, 0.5, 1.0), float
    )
    if steps < 1:
        raise CommandFailure(
            f"--seconds: expected at least one control step, {environment.dt:g} s; found "
            f"{seconds:g}"
        )
    ways = {
        "stand": (0, 0, 0),
        "forward": (0.67, 0, 0),
        "fast": (1, 0, 0),
        "backward": (-0.67, 0, 0),
        "left": (0, 0.6, 0),
        "turn": (0, 0, 0.8),
        "curve": (0.5, 0, 0.5),
    }
    ways = {
        name: way for name, way in ways.items() if name == "stand" or np.any(most * np.abs(way))
    }
    runs = {name: np.tile(most * way, (steps, 1)) for name, way in ways.items()}
    each = np.array_split(np.arange(steps), len(ways))
    mixed = [
        np.tile(most * way, (len(part), 1)) for part, way in zip(each, ways.values(), strict=True)
    ]
    return runs | ({"in turn": np.concatenate(mixed)} if len(ways) > 1 else {})


def with_physics_step(environment: LeggedVelocity, physics_dt: float) -> LeggedVelocity:
    """The task with other physics steps [s], for :func:`in_artix`."""
    changed = copy.copy(environment)
    changed.physics_dt = physics_dt
    return changed


def in_artix(
    environment: LeggedVelocity, policy: policies.Policy, runs: Mapping[str, np.ndarray]
) -> dict[str, Records]:
    """What happens in artix, by command, as :func:`artix.examples.deploy_mujoco.run` records it."""
    quiet = environment.undisturbed()
    robot, feet, imu = quiet.articulation, quiet.robot.feet, quiet.robot.imu
    told = next((one for one in quiet.layout if one.name == "command"), None)

    def commanded(state: envs.EnvState, command: Any, newest: int = 1) -> envs.EnvState:
        """The state with another command, which the policy sees as the ``newest`` ones."""
        info = state.info | {
            "command": command,
            "command_time_left": jnp.full_like(command[0], 1e9),
        }
        obs = state.obs
        if told is not None:
            seen = jnp.tile(told.scale * command, (newest, 1))
            end = told.start + seen.size
            obs = obs | {"state": obs["state"].at[told.start : end].set(seen.ravel())}
            if told.history > 1:
                past = info["seen"]["command"].at[:newest].set(seen)
                info["seen"] = info["seen"] | {"command": past}
        return state.replace(info=info, obs=obs)

    def advance(state: envs.EnvState, command: Any) -> tuple[envs.EnvState, dict[str, Any]]:
        state = commanded(state, command)
        action = policy(state.obs).astype(robot.dtype)
        end = quiet.step(state, action)
        where = end.articulation_state
        return end, {
            "root_pose": where.root_pose[jnp.array([0, 1, 2, 6, 3, 4, 5])],
            "velocity": observations.linear_velocity(robot, where, imu),
            "angular_velocity": observations.angular_velocity(robot, where, imu),
            "joint_position": where.joint_position,
            "joint_velocity": where.joint_velocity,
            "joint_force": observations.drive_forces(robot, where, quiet.target(action)),
            "joint_work": drive_work(quiet, state, action),
            "command": command,
            "contact": end.info["gait"].contact,
            "feet_position": observations.frame_positions(robot, where, feet),
            "feet_velocity": observations.frame_velocities(robot, where, feet),
        }

    def one(way: Any) -> dict[str, Any]:
        start = quiet.reset(jax.random.key(0))
        if told is not None:  # A robot that starts has been told nothing else.
            start = commanded(start, way[0], told.history)
        return jax.lax.scan(advance, start, way)[1]

    every = jax.jit(jax.vmap(one))(jnp.asarray(np.stack(list(runs.values())), robot.dtype))
    time = quiet.dt * np.arange(1, 1 + len(next(iter(runs.values()))))
    return {
        name: {"time": time, **{what: np.asarray(value[k]) for what, value in every.items()}}
        for k, name in enumerate(runs)
    }


def drive_work(environment: LeggedVelocity, state: envs.EnvState, action: Any) -> Any:
    """Work of the drives in a control step [J], [n]: its physics steps once more, one by one."""
    robot, target = environment.articulation, environment.target(action)
    control = artix.Control(drive_target=target)

    def one(moved: Any, _: None) -> tuple[Any, Any]:
        where, contacts = environment._step(robot, environment.ground, moved[0], moved[1], control)
        force = observations.drive_forces(robot, where, target)
        return (where, contacts), environment.physics_dt * force * where.joint_velocity

    start = state.articulation_state, state.info["contact_memory"]
    return jnp.sum(
        jax.lax.scan(one, start, length=round(environment.dt / environment.physics_dt))[1], axis=0
    )


def in_mujoco(
    environment: LeggedVelocity, policy: policies.Policy, runs: Mapping[str, np.ndarray]
) -> dict[str, dict[str, Records]]:
    """What happens in MuJoCo, by its contacts and by command."""
    description = deployment.describe(environment)
    act, seconds = jax.jit(policy), environment.dt * len(next(iter(runs.values())))
    results: dict[str, dict[str, Records]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.xml"
        path.write_text(deployment.scene(environment), encoding="utf-8")
        for name, (timestep, stiff) in MUJOCO.items():
            step = deployment.dividing_step(environment.dt, timestep)
            model = deploy_mujoco.load_scene(path, step, stiff)
            results[name] = {}
            for run, told in runs.items():
                results[name][run] = deploy_mujoco.run(
                    model,
                    description,
                    lambda obs: np.asarray(act(obs)),
                    _command(told, environment.dt),
                    seconds,
                )
    return results


def _command(told: np.ndarray, dt: float) -> Callable[[float], np.ndarray]:
    """The command at a time."""
    return lambda time: told[min(round(time / dt), len(told) - 1)]


def has_fallen(environment: LeggedVelocity, record: Mapping[str, np.ndarray]) -> bool:
    """Whether the robot fell: low, or tilted by more than 60 degrees."""
    _, x, y, _ = record["root_pose"][:, 3:].T
    is_low = record["root_pose"][:, 2] < _LOW * environment.robot.height
    return bool(np.any(is_low | (1 - 2 * (x * x + y * y) < _TILT)))


def compared(
    environment: LeggedVelocity, results: Mapping[str, Mapping[str, Records]]
) -> tuple[str, int]:
    """A table of all runs, and how many fell."""
    articulation = environment.articulation
    weight = float(np.sum(articulation.link_mass)) * float(np.linalg.norm(articulation.gravity))
    rows, falls = [], 0
    for run in results[ARTIX]:
        for simulator, runs in results.items():
            record, reference = runs[run], results[ARTIX][run]
            one = gait_statistics(record, environment.dt, weight)
            fell = has_fallen(environment, record)
            falls += fell
            apart = np.linalg.norm(
                record["root_pose"][:, :2] - reference["root_pose"][:, :2], axis=1
            ).max()
            rows.append((
                run if simulator == ARTIX else "",
                simulator,
                f"{one['distance']:.2f}",
                f"{one['displacement']:.3f}",
                "" if simulator == ARTIX else f"{apart:.2f}",
                f"{one['velocity_error']:.3f}",
                f"{one['yaw_rate_error']:.3f}",
                f"{one['height']:.3f}",
                " ".join(f"{share:.2f}" for share in one["duty"]),
                f"{one['stride_frequency']:.1f}",
                f"{1e3 * np.mean(one['clearance']):.0f}",
                f"{one['slip']:.2f}",
                f"{one['torque_peak'].max():.0f}",
                "" if np.isinf(one["cost_of_transport"]) else f"{one['cost_of_transport']:.2f}",
                "fell" if fell else "no",
            ))  # fmt: skip
    feet = " ".join(_short(environment.robot.feet))
    head = (
        "command",
        "simulator",
        "way",
        "moved",
        "apart",
        "v err",
        "yaw err",
        "height",
        f"duty {feet}",
        "steps",
        "lift",
    )
    units = ("", "", "m", "m", "m", "m/s", "rad/s", "m", "", "1/s", "mm", "m/s", "N m", "", "")
    return table((*head, "slip", "torque", "CoT", "fell"), [units, *rows], align="ll"), falls


def path_differences(results: Mapping[str, Mapping[str, Records]]) -> str:
    """A table of how much longer straight paths are in MuJoCo, from the least to the most; empty if
    no robot has gone :data:`_SHORTEST` anywhere.
    """
    paths = {
        simulator: {name: _length(runs[name]) for name in STRAIGHT if name in runs}
        for simulator, runs in results.items()
    }
    walks = [
        name for name in paths[ARTIX] if min(each[name] for each in paths.values()) > _SHORTEST
    ]
    if not walks:
        return ""
    references = [name for name in (ARTIX, FINE) if name in results]
    rows = []
    for simulator in MUJOCO:
        longer = [
            [100 * (paths[simulator][walk] / paths[reference][walk] - 1) for walk in walks]
            for reference in references
        ]
        rows.append((simulator, *(f"{min(each):+.1f} to {max(each):+.1f} %" for each in longer)))
    head = f"paths of {', '.join(walks)}"
    return table((head, *(f"than {name}" for name in references)), rows, align="l")


def _length(record: Mapping[str, np.ndarray]) -> float:
    """The length of the path of the root [m]."""
    return float(np.sum(np.linalg.norm(np.diff(record["root_pose"][:, :2], axis=0), axis=1)))


def _short(feet: tuple[str, ...]) -> list[str]:
    """Initials of the feet: FL for front_left_foot and FL_foot, L for left_ankle_roll_link."""
    sides = ("front", "rear", "hind", "middle", "left", "right")
    initials = []
    for foot in feet:
        parts = [part for part in foot.split("_") if part.lower() != "foot"]
        initials.append(
            "".join(
                x if x.isupper() else x[0].upper()
                for x in parts
                if x.isupper() or x.lower() in sides
            )
        )
    return initials if len({*initials}) == len(feet) and all(initials) else list(feet)


def save_plot(
    path: str, environment: LeggedVelocity, results: Mapping[str, Mapping[str, Records]]
) -> None:
    """Draws the paths of all commands, and height, feet and torques of one of them, in all
    simulators.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    run = "forward" if "forward" in results[ARTIX] else next(iter(results[ARTIX]))
    figure = Figure(figsize=(11, 8), layout="constrained")
    FigureCanvasAgg(figure)
    (path_panel, height_panel), (feet_panel, force_panel) = figure.subplots(2, 2)
    joint = int(np.argmax(np.abs(results[ARTIX][run]["joint_force"]).max(axis=0)))
    for simulator, runs in results.items():
        style = {"color": _COLORS[simulator], "lw": 2.2 if simulator == ARTIX else 1.1}
        style |= {"ls": "-" if simulator == ARTIX else "--"}
        for name, record in runs.items():
            x, y = record["root_pose"][:, :2].T
            path_panel.plot(x, y, **style, label=simulator if name == run else None)
            if simulator == ARTIX and np.hypot(x[-1], y[-1]) > 0.5:
                path_panel.annotate(
                    name, (x[-1], y[-1]), textcoords="offset points", xytext=(4, 4), fontsize=8
                )
        record = runs[run]
        time = record["time"]
        height_panel.plot(time, record["root_pose"][:, 2], **style)
        close = time > time[-1] - _CLOSE
        for k in range(record["feet_position"].shape[1]):
            lowest = results[ARTIX][run]["feet_position"][:, k, 2].min()
            lift = record["feet_position"][close, k, 2] - lowest
            feet_panel.plot(time[close], 1e3 * lift - 150 * k, **style)
        force_panel.plot(time[close], record["joint_force"][close, joint], **style)
    feet = _short(environment.robot.feet)
    name = environment.articulation.topology.dof_names[joint]
    path_panel.set(xlabel="x [m]", ylabel="y [m]", title="paths of the root")
    path_panel.set_aspect("equal", adjustable="datalim")
    path_panel.legend(fontsize=8)
    height_panel.set(xlabel="time [s]", ylabel="height of the root [m]", title=run)
    feet_panel.set(
        xlabel="time [s]",
        ylabel="lift of the feet, 150 mm apart",
        title=f"{run}, the last {_CLOSE:g} s",
    )
    feet_panel.set_yticks([-150 * k for k in range(len(feet))], feet)
    force_panel.set(xlabel="time [s]", ylabel="torque [N m]", title=f"{run}: {name}")
    for panel in (path_panel, height_panel, feet_panel, force_panel):
        panel.grid(alpha=0.3)
    figure.suptitle(f"{environment.name}: {environment.articulation.topology.name}")
    write_atomically(path, lambda part: figure.savefig(part, dpi=120, format="png"))
