"""The gallery: recordings in HTML and pictures of them, made by a few lines each while the site is
built.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import artix
from artix import envs, inverse_kinematics, viewer
from artix.cli.play import episode
from artix.envs.tasks.humanoid import HumanoidStand
from artix.examples import policies

#: The largest recording, with the player [bytes].
MAX_BYTES = 2_000_000


@dataclasses.dataclass(frozen=True)
class Recording:
    """What :func:`artix.viewer.save_html` is given, and which of its frames are in the picture."""

    robots: Any
    states: artix.State
    dt: float
    options: dict[str, Any]
    frames: tuple[int, ...] = (-1,)


def walk() -> Recording:
    """**A trained quadruped walks on command.** This policy comes with artix and took a quarter of
    an hour to train on one core. The arrows are its commands. Make your own with
    `artix play quadruped_velocity --html walk.html`.
    """
    task = envs.make("quadruped_velocity", episode_length=400)
    states, options = episode(task, policies.load("quadruped_velocity"), seed=3)
    return Recording(task.articulation, states, task.dt, options, frames=(0, 130, 260, -1))


def landing() -> Recording:
    """**A humanoid lands on its feet.** It falls from a quarter of a metre. Drives hold its legs,
    but nothing keeps its balance. The arrows are the ground's forces; the plot is their sum divided
    by its weight.
    """
    task, ground = HumanoidStand(), artix.Ground.flat(friction=0.8)
    robot = task.articulation
    start = artix.neutral_state(robot)
    start = start.replace(
        root_pose=start.root_pose.at[2].set(task.robot.height + 0.25),
        joint_position=task.robot.default_position,
    )
    control = artix.Control(drive_target=task.robot.default_position)

    def advance(state, _):
        state, report = artix.step_and_report(
            artix.Scene(robot, ground=ground), state, control, 0.005
        )
        return state, (state, report.contacts)

    _, (states, contacts) = jax.jit(lambda state: jax.lax.scan(advance, state, None, length=280))(
        start
    )
    states, points = jax.tree.map(lambda leaf: leaf[3::4], (states, contacts.point))
    forces = contacts.force.reshape(70, 4, -1, 3).mean(axis=1)  # of the four steps of a frame
    load = jnp.sum(forces[..., 2], axis=-1) / (9.81 * jnp.sum(robot.link_mass))
    options = {
        "ground": ground,
        "contacts": (points, forces),
        "series": {"force of the ground / weight": load},
    }
    return Recording(robot, states, 0.02, options, frames=(0, 30))


def kinds() -> Recording:
    """**Different robots in one fleet.** Sixteen robots of each of three kinds, each kind stepped
    by its own program. Quadrupeds and crates drop to the ground, whose forces are the arrows, while
    the arms go limp.
    """
    builder = artix.ArticulationBuilder(name="crate")
    builder.add_link(mass=12.0, inertia=(0.13, 0.2, 0.25), name="crate")
    builder.add_geometry("crate", artix.Geometry.box((0.2, 0.15, 0.1)))
    crate, arm, quadruped = (
        builder.build(),
        artix.robots.load("arm7"),
        artix.robots.load("quadruped"),
    )
    stance = jnp.array([0.0] * 4 + [0.8] * 4 + [-1.5] * 4)
    drives = quadruped.drive.replace(stiffness=jnp.full(12, 60.0), damping=jnp.full(12, 2.0))
    fleet, ground = (
        artix.Fleet([quadruped.replace(drive=drives), crate, arm] * 16),
        artix.Ground.flat(friction=0.8),
    )

    kind = jnp.arange(48) % 3
    start, still = fleet.random_state(jax.random.key(0)), fleet.neutral_state()
    height = 0.5 + 0.5 * jax.random.uniform(jax.random.key(1), (48,))
    poses = jnp.stack([still.root_pose, start.root_pose, still.root_pose])[kind, jnp.arange(48)]
    poses = poses.at[:, :3].set(0.0).at[:, 2].set(jnp.where(kind < 2, height, 0.0))
    joints = jnp.where((kind == 0)[:, None], 0.0, 0.3 * start.joint_position)
    joints = joints.at[::3, :12].set(stance)
    start = still.replace(joint_position=joints, root_pose=poses)

    def advance(robot, state):
        if robot.topology.fixed_base:  # It touches nothing.
            return artix.step(robot, state, None, 0.005), jnp.zeros((8, 3)), jnp.zeros((8, 3))
        control = artix.Control(drive_target=stance) if robot.topology.num_dofs else None
        state, report = artix.step_and_report(
            artix.Scene(robot, ground=ground), state, control, 0.005
        )
        contacts = report.contacts
        assert contacts is not None
        fill = [
            (0, 8 - len(contacts.links)),
            (0, 0),
        ]  # Fewer points of a quadruped can touch than of a crate.
        return state, jnp.pad(contacts.point, fill), jnp.pad(contacts.force, fill)

    found = [fleet.evaluate(advance, start)]
    for _ in range(299):
        found.append(fleet.evaluate(advance, found[-1][0]))
    states, points, forces = jax.tree.map(lambda *leaves: jnp.stack(leaves), *found[::6])
    return Recording(
        fleet, states, 0.03, {"ground": ground, "contacts": (points, forces)}, frames=(24,)
    )


def reach() -> Recording:
    """**An arm follows a path.** Inverse kinematics for 240 tool poses along a figure of eight,
    each started from the one before. The plot shows the joints.
    """
    arm = artix.robots.load("arm7")
    bent = artix.neutral_state(arm).replace(
        joint_position=jnp.array([0.0, 0.5, 0.0, 1.4, 0.0, 1.0, 0.0])
    )
    middle = artix.frame_pose(arm, bent, "tool")
    angle = jnp.linspace(0.0, 2 * jnp.pi, 240)
    figure = jnp.stack(
        [0.05 * jnp.cos(angle) - 0.05, 0.22 * jnp.sin(angle), 0.13 * jnp.sin(2 * angle)], axis=1
    )

    path = middle + jnp.pad(figure, ((0, 0), (0, 4)))

    def tasks(target):
        return [inverse_kinematics.FrameTask("tool", target)]

    states = jax.jit(lambda: inverse_kinematics.follow(arm, tasks, path, bent))().state
    options = {
        "show": ("visual", "frames"),
        "series": {"joint position [rad]": states.joint_position},
    }
    return Recording(arm, states, 0.025, options, frames=(30, 239))


#: ``ARTIX_GALLERY=0`` leaves them out, for a quick build.
RECORDINGS: tuple[Callable[[], Recording], ...] = (
    () if os.environ.get("ARTIX_GALLERY") == "0" else (walk, landing, kinds, reach)
)


@functools.cache
def pages() -> dict[str, str | bytes]:
    """The page of the gallery, its recordings and their pictures, by their paths on the site."""
    found: dict[str, str | bytes] = {"gallery.md": _page()}
    with tempfile.TemporaryDirectory() as folder:
        for make in RECORDINGS:
            shown, html, png = make(), Path(folder, "shown.html"), Path(folder, "shown.png")
            viewer.save_html(html, shown.robots, shown.states, shown.dt, **shown.options)
            options = {name: value for name, value in shown.options.items() if name != "series"}
            viewer.render_png(
                png, shown.robots, shown.states, frames=shown.frames, size=(720, 420), **options
            )
            if html.stat().st_size > MAX_BYTES:
                raise ValueError(f"the recording {make.__name__!r} has {html.stat().st_size} bytes")
            found[f"gallery/{make.__name__}.html"] = html.read_bytes()
            found[f"gallery/{make.__name__}.png"] = png.read_bytes()
    return found


def _page() -> str:
    lines = [
        "# Gallery",
        "",
        "Click a picture to see it move. Each recording is a single file of at most 2 MB, written "
        "by",
        "[`save_html`](viewer.md) while this site was built. It contains its own player and loads "
        "nothing from the",
        "network, so you can keep it or pass it on.",
        "",
    ]
    for make in RECORDINGS:
        name, code = make.__name__, inspect.getsource(make)
        told = inspect.getdoc(make) or ""
        body = textwrap.dedent(code[code.index('"""', code.index('"""') + 3) + 3 :].strip("\n"))
        lines += [
            f'[![{name}](gallery/{name}.png){{ width="720" }}]'
            f'(gallery/{name}.html){{ target="_blank" }}',
            "",
            " ".join(told.split("\n")),
            "",
            '??? note "How it is made"',
            "",
            "    ```python",
            *(f"    {line}".rstrip() for line in body.splitlines()),
            "    ```",
            "",
        ]
    return "\n".join(lines)
