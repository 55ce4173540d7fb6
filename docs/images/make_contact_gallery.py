"""Makes the plots of the page *Contact: a gallery*: ``python docs/images/make_contact_gallery.py``,
from the root.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from matplotlib.figure import Figure

import artix
from artix import Geometry, Ground, Joint, Plane

FOLDER = Path(__file__).parent
G = 9.81
SOLID, DOTTED = {"color": "#3949ab"}, {"color": "#e07b39", "linestyle": "--"}


def plot(name: str, across: str, up: str, *lines: tuple, log: bool = False) -> None:
    """Writes a picture of lines, each with its two coordinates, label and style, and prints how
    large it is.
    """
    figure = Figure(figsize=(4.6, 2.7), layout="constrained")
    axes = figure.subplots()
    for x, y, label, style in lines:
        axes.plot(x, y, label=label, linewidth=1.6, **style)
    axes.set(xlabel=across, ylabel=up, yscale="log" if log else "linear")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    path = FOLDER / f"contact_{name}.png"
    figure.savefig(path, dpi=120)
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


def block(
    friction: float = 0.7, half: tuple[float, float, float] = (0.2, 0.3, 0.1)
) -> artix.Articulation:
    """A free box of two kilograms."""
    builder = artix.ArticulationBuilder(name="block")
    x, y, z = (2 / 3 * size**2 for size in half)
    builder.add_link(mass=2.0, inertia=[y + z, x + z, x + y], name="block")
    builder.add_geometry("block", Geometry.box(half, friction=friction))
    return builder.build("float64")


def ball(**material: float) -> artix.Articulation:
    """A free solid ball of one kilogram and 0.1 m."""
    builder = artix.ArticulationBuilder(name="ball")
    builder.add_link(mass=1.0, inertia=[0.004] * 3, name="ball")
    builder.add_geometry("ball", Geometry.sphere(0.1, **material))
    return builder.build("float64")


def at(
    robot: artix.Articulation, height: float, velocity: tuple[float, ...] = (0.0, 0.0, 0.0)
) -> artix.State:
    """A state at this height."""
    state = artix.neutral_state(robot)
    return state.replace(
        root_pose=state.root_pose.at[2].set(height),
        root_velocity=state.root_velocity.at[:3].set(jnp.array(velocity)),
    )


def incline() -> None:
    """A block on inclines of all angles: its speed after a second; and how it creeps elsewhere."""
    robot, degrees = block(), np.linspace(20.0, 50.0, 61)

    def speed(angle):
        normal = jnp.array([jnp.sin(angle), 0.0, jnp.cos(angle)])
        half = 0.5 * angle
        pose = jnp.concatenate([0.1 * normal, jnp.array([0.0, jnp.sin(half), 0.0, jnp.cos(half)])])
        ground = Ground((Plane.of(normal=normal, friction=0.0, dtype="float64"),))
        start = artix.neutral_state(robot).replace(root_pose=pose)
        path = artix.rollout(artix.Scene(robot, ground=ground), start, None, 0.005, num_steps=200)
        return path.root_velocity[-1, :3] @ jnp.array([jnp.cos(angle), 0.0, -jnp.sin(angle)])

    found = np.asarray(jax.jit(jax.vmap(speed))(jnp.deg2rad(degrees)))
    angle = np.deg2rad(degrees)
    wanted = np.maximum(G * (np.sin(angle) - 0.7 * np.cos(angle)), 0)
    lines = (degrees, found, "artix", SOLID), (degrees, wanted, "g (sin - 0.7 cos) t", DOTTED)
    plot("incline", "angle [degrees]", "speed after 1 s [m/s]", *lines)
    text = """<mujoco><option gravity="4.905 0 -8.496" timestep="0.005"/><worldbody>
      <geom type="plane" size="0 0 1"/>
      <body pos="0 0 0.1">
        <freejoint/><geom type="box" size="0.2 0.3 0.1" mass="2" friction="0.7"/>
      </body>
    </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data, moved = mujoco.MjData(model), []
    model.geom_friction[:, 0] = 0.7
    for _ in range(400):
        mujoco.mj_step(model, data)
        moved.append(data.qpos[0])
    leaning = robot.replace(gravity=jnp.array([4.905, 0.0, -8.496]))
    ground = Ground.flat(friction=0.0).astype("float64")
    path = artix.rollout(
        artix.Scene(leaning, ground=ground), at(leaning, 0.1), None, 0.005, num_steps=400
    )
    time = 0.005 * np.arange(1, 401)
    own = np.maximum(np.abs(np.asarray(path.root_pose[:, 0])), 1e-17)
    lines = (
        (time, own, "artix", SOLID),
        (time, np.abs(moved), "MuJoCo, as it is by default", DOTTED),
    )
    plot("creep", "time [s]", "moved at 30 degrees [m]", *lines, log=True)


def slide() -> None:
    """How far a block slides until it stops, and the derivative of that by its speed."""
    robot, ground = block(friction=0.5), Ground.flat(friction=0.0).astype("float64")

    def distance(speed):
        start = at(robot, 0.1)
        start = start.replace(root_velocity=start.root_velocity.at[0].set(speed))
        scene = artix.Scene(robot, ground=ground)
        return artix.rollout(scene, start, None, 0.001, num_steps=500).root_pose[-1, 0]

    speeds = jnp.linspace(0.2, 2.0, 19)
    found, slope = jax.jit(jax.vmap(jax.value_and_grad(distance)))(speeds)
    lines = (
        (speeds, found, "distance [m]", SOLID),
        (speeds, speeds**2 / (2 * 0.5 * G), "v^2 / (2 mu g)", DOTTED),
        (speeds, slope, "its gradient [s]", {"color": "#00897b"}),
        (speeds, speeds / (0.5 * G), "v / (mu g)", {"color": "#ad1457", "linestyle": ":"}),
    )
    plot("slide", "speed at the start [m/s]", "until it stops", *lines)


def bounce_and_roll() -> None:
    """A ball that bounces at 0.7 of its speed, and one that slides until it rolls."""
    ground, time = Ground.flat(friction=0.3).astype("float64"), 1e-3 * np.arange(1, 3001)
    robot = ball(restitution=0.7)
    path = artix.rollout(
        artix.Scene(robot, ground=ground), at(robot, 1.1), None, 1e-3, num_steps=3000
    )
    peaks = 0.7 ** (2 * np.arange(6))
    fall = np.sqrt(2 / G)
    turns = fall * (1 + 2 * np.cumsum(0.7 ** np.arange(1, 6)) - 0.7 ** np.arange(1, 6))
    lines = (
        (time, path.root_pose[:, 2] - 0.1, "artix", SOLID),
        ([0, *turns], peaks, "0.49^n at its time", {**DOTTED, "marker": "o", "linestyle": ""}),
    )
    plot("bounce", "time [s]", "height [m]", *lines)
    robot = ball()
    path = artix.rollout(
        artix.Scene(robot, ground=ground),
        at(robot, 0.1, (1.4, 0.0, 0.0)),
        None,
        1e-3,
        num_steps=300,
    )
    lines = (
        (time[:300], path.root_velocity[:, 0], "speed", SOLID),
        (time[:300], 0.1 * path.root_velocity[:, 4], "radius times spin", {"color": "#00897b"}),
        (time[:300], np.full(300, 1.0), "5/7 of the speed at the start", DOTTED),
    )
    plot("roll", "time [s]", "[m/s]", *lines)


def stick_slip() -> None:
    """A block on a spring whose end moves at a constant speed."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="slider")
    base = builder.add_link(name="base")
    rod = builder.add_link(base, Joint.prismatic(artix.Axis.Z), mass=0.5, inertia=[1e-3] * 3)
    joint = Joint.prismatic(artix.Axis.X, drive=artix.Drive(stiffness=80.0))
    builder.add_link(rod, joint, mass=1.5, inertia=[1e-3] * 3, name="block")
    builder.add_geometry("block", Geometry.sphere(0.1, friction=0.3))
    robot, ground = builder.build("float64"), Ground.flat(friction=0.0).astype("float64")
    time = 2e-4 * np.arange(1, 17501)
    targets = jnp.stack([jnp.zeros(len(time)), jnp.asarray(0.05 * time)], axis=1)
    start = artix.neutral_state(robot).replace(joint_position=jnp.array([0.1, 0.0]))
    path = artix.rollout(
        artix.Scene(robot, ground=ground), start, artix.Control(drive_target=targets), 2e-4
    )
    begins, rate = 0.3 * 2.0 * G / (80.0 * 0.05), np.sqrt(80.0 / 1.5)
    wanted = np.where(time > begins, 0.05 * (1 - np.cos(rate * (time - begins))), 0)
    lines = (time, path.joint_velocity[:, 1], "artix", SOLID), (time, wanted, "closed form", DOTTED)
    plot("stick_slip", "time [s]", "speed of the block [m/s]", *lines)


def standing() -> None:
    """A quadruped in float32 that is put on its feet: how far it is from where it stands at the
    end.
    """
    robot = artix.robots.load("quadruped")
    drives = robot.drive.replace(stiffness=jnp.full(12, 200.0), damping=jnp.full(12, 10.0))
    robot, ground = robot.replace(drive=drives), Ground.flat(friction=0.8)
    bent = jnp.array([0.0] * 4 + [0.8] * 4 + [-1.5] * 4)
    state = artix.neutral_state(robot).replace(joint_position=bent)
    low = jnp.min(artix.geometry_distances(robot, state, ground))
    state = state.replace(root_pose=state.root_pose.at[2].add(1e-3 - low))
    scene = artix.Scene(robot, ground=ground)
    path = artix.rollout(scene, state, artix.Control(drive_target=bent), 0.005, num_steps=3000)
    off = np.abs(np.asarray(path.root_pose[:, :3] - path.root_pose[-1, :3])).max(axis=1)
    time = 0.005 * np.arange(1, 3001)
    plot(
        "standing",
        "time [s]",
        "off where it ends [m]",
        (time, np.maximum(off, 1e-9), "float32", SOLID),
        log=True,
    )


def main() -> None:
    """All of them."""
    jax.config.update("jax_enable_x64", True)
    for draw in (incline, slide, bounce_and_roll, stick_slip, standing):
        draw()


if __name__ == "__main__":
    main()
