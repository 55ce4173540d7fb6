"""``artix demo``: computes, times and checks every quantity for a mixed fleet, or optimises
trajectories.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import artix
from artix import robots, viewer
from artix.cli.gpu import use_of_kernels
from artix.cli.names import check_output, naming
from artix.cli.text import CommandFailure, installed, rate, table
from artix.examples import reach, swing_up
from artix.io.common.atomic_file import write_atomically

#: How many robots ``artix demo --view`` shows, and in how many frames.
SHOWN = 60
FRAMES = 120
COLORS = {
    "kinematics": "#2e86ab",
    "dynamics": "#e4572e",
    "momentum": "#7d4fa8",
    "energy": "#5b8e3c",
}
INK, MUTED, PAPER, GRID = "#1f2933", "#7b8794", "#fbfaf7", "#e4e2dc"
#: From where the row of robots is seen: the front, to the right of the robots [rad].
AZIMUTH = -0.95


def run_demo(
    *, members: int, output: str | None, seed: int, show: bool, trajectory_optimization: bool
) -> int:
    """Runs the demonstration, or the one of :func:`run_trajectory_demo`.

    Args:
      members: number of robots.
      output: path of the plot, a PNG file; ``None`` for one in this folder.
      seed: seed of the random states.
      show: whether some of the fleet is shown in a browser afterwards, until the process is
        interrupted.
      trajectory_optimization: whether to optimise trajectories instead.

    Returns:
      0 if every identity held, 1 otherwise.

    Raises:
      CommandFailure: the plot cannot be written, or the viewer is not installed.
    """
    if trajectory_optimization:
        return run_trajectory_demo(output=output or "artix_trajectories.png", seed=seed)
    output = output or "artix_demo.png"
    check_output(output)
    begin = time.perf_counter()
    kinds = [robots.load(name) for name in robots.names()]
    fleet = artix.Fleet([kinds[member % len(kinds)] for member in range(members)])
    device = jax.devices()[0]
    print(
        f"artix {installed('artix')} on {device.device_kind} ({device.platform}), jax "
        f"{jax.__version__}"
    )
    if device.platform == "gpu" and (line := use_of_kernels()) is not None:
        print(line)
    names = [topology.name for topology in fleet.topologies]
    census = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    print(f"{members} robots in one compiled program per quantity: {census}\n")

    state = fleet.random_state(jax.random.key(seed))
    velocity = np.asarray(fleet.evaluate(artix.generalized_velocity, state))
    # A member has no acceleration where it has no velocity; random velocities are never exactly
    # zero.
    noise = np.random.default_rng(seed).standard_normal(velocity.shape, velocity.dtype)
    acceleration = np.where(velocity == 0, 0, noise).astype(velocity.dtype)
    timings = time_quantities(fleet, state, acceleration)
    identities = check_identities(
        fleet, velocity, acceleration, {one.quantity.name: one.value for one in timings}
    )

    rows = [
        (t.quantity.name, t.shape, *t.rates(members), f"{t.compile_seconds:.2f}") for t in timings
    ]
    print("\n" + table(("quantity", "shape", "robots/s", "us each", "compile s"), rows, align="ll"))
    rows = [
        (i.name, i.formula, f"{i.value:.1e}", i.condition, "ok" if i.holds else "FAILED")
        for i in identities
    ]
    print(
        "\n"
        + table(
            ("verified identity", "formula", "worst of all", "required", ""), rows, align="llrll"
        )
        + "\n"
    )
    with naming(output):
        plot_fleet(fleet, state, timings, identities, output)
    print(f"plot saved to {output} ({time.perf_counter() - begin:.0f} s in total)")
    failed = [identity.name for identity in identities if not identity.holds]
    if failed:
        print(f"artix: these identities do not hold: {', '.join(failed)}", file=sys.stderr)
        return 1
    print("all identities hold")
    if show:
        show_fleet(fleet, state)
    return 0


def show_fleet(fleet: artix.Fleet, state: artix.State) -> None:
    """Shows some of a fleet in a browser, their joints swinging to random positions and back, until
    interrupted.

    Raises:
      CommandFailure: viser is not installed.
    """
    count = min(fleet.num_members, SHOWN)
    some = artix.Fleet([fleet.member(k) for k in range(count)])
    still = some.neutral_state()
    swing = jnp.sin(jnp.linspace(0.0, 2 * jnp.pi, FRAMES, endpoint=False)) ** 2
    joints = swing[:, None, None] * state.joint_position[:count, : still.joint_position.shape[1]]
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (FRAMES, *leaf.shape)), still)
    try:
        shown = viewer.view(some, states.replace(joint_position=joints), 1 / 30, open_browser=True)
    except ImportError as error:
        raise CommandFailure(str(error)) from error
    print(f"{count} of the robots at {shown.url} (press Ctrl-C to stop)", flush=True)
    shown.wait()


# --- quantities ---------------------------------------------------------------------------------


class Quantity(NamedTuple):
    """A function of one robot, its state and, if ``accelerated``, a generalised acceleration."""

    name: str
    function: Callable[..., Any]
    group: str
    accelerated: bool = False


class Timing(NamedTuple):
    """A quantity of the whole fleet, with the times of a usual and of the first call [s]."""

    quantity: Quantity
    value: Any
    seconds: float
    compile_seconds: float

    @property
    def shape(self) -> str:
        """Shapes of the results, the members' axis included."""
        return " ".join(
            "[" + ", ".join(map(str, leaf.shape)) + "]" for leaf in jax.tree.leaves(self.value)
        )

    def rates(self, members: int) -> tuple[str, str]:
        """Robots per second, and microseconds for each."""
        return rate(members / self.seconds), f"{1e6 * self.seconds / members:.2f}"


def energies(robot: artix.Articulation, state: artix.State) -> tuple[jax.Array, jax.Array]:
    """Kinetic and potential energy."""
    return artix.kinetic_energy(robot, state), artix.potential_energy(robot, state)


def potential_energy_slope(robot: artix.Articulation, state: artix.State) -> jax.Array:
    """Derivative of the potential energy with respect to the joint positions, by autodiff, shape
    [n].
    """
    energy = lambda position: artix.potential_energy(robot, state.replace(joint_position=position))  # noqa: E731
    return jax.grad(energy)(state.joint_position)


QUANTITIES = (
    Quantity("link poses, velocities", artix.forward_kinematics, "kinematics"),
    Quantity("dense Jacobian", artix.physx.dense_jacobian, "kinematics"),
    Quantity("mass matrix", artix.mass_matrix, "dynamics"),
    Quantity("gravity compensation", artix.gravity_compensation, "dynamics"),
    Quantity("Coriolis compensation", artix.coriolis_compensation, "dynamics"),
    Quantity("bias force", artix.bias_force, "dynamics"),
    Quantity("inverse dynamics", artix.inverse_dynamics, "dynamics", accelerated=True),
    Quantity("center of mass", artix.center_of_mass, "momentum"),
    Quantity("centroidal matrix, bias", artix.centroidal_momentum_matrix, "momentum"),
    Quantity("centroidal momentum", artix.centroidal_momentum, "momentum"),
    Quantity("kinetic, potential energy", energies, "energy"),
    Quantity("gradient of the potential", potential_energy_slope, "energy"),
)


def time_quantities(
    fleet: artix.Fleet, state: artix.State, acceleration: np.ndarray
) -> list[Timing]:
    """Compiles every quantity for the whole fleet, two at a time, and then times each."""

    def call(quantity: Quantity) -> tuple[Any, float]:
        begin = time.perf_counter()
        arguments = (state, acceleration) if quantity.accelerated else (state,)
        value = jax.block_until_ready(fleet.evaluate(quantity.function, *arguments))
        return value, time.perf_counter() - begin

    compile_seconds = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for number, (quantity, (_, seconds)) in enumerate(
            zip(QUANTITIES, pool.map(call, QUANTITIES), strict=True)
        ):
            print(
                f"  {number + 1:2d}/{len(QUANTITIES)}  {quantity.name:<25} compiled in "
                f"{seconds:5.2f} s",
                flush=True,
            )
            compile_seconds.append(seconds)
    timings = []
    for quantity, first in zip(QUANTITIES, compile_seconds, strict=True):
        value, seconds = call(quantity)
        repeats = min(10, math.ceil(0.1 / seconds))
        seconds = float(np.median([seconds, *(call(quantity)[1] for _ in range(repeats))]))
        timings.append(Timing(quantity, value, seconds, first))
    return timings


# --- identities between quantities that come from different algorithms --------------------------


class Identity(NamedTuple):
    """An identity in words and symbols, the worst residual of all members, and its upper (or
    ``lower``) bound.
    """

    name: str
    formula: str
    value: float
    bound: float
    lower: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value respects the bound; never true for a NaN."""
        return self.value > self.bound if self.lower else self.value <= self.bound

    @property
    def condition(self) -> str:
        """The bound in words."""
        return f"> {self.bound:g}" if self.lower else f"<= {self.bound:.1e}"


def check_identities(
    fleet: artix.Fleet, velocity: Any, acceleration: Any, values: dict[str, Any]
) -> list[Identity]:
    """Checks the identities in float64, relative to the members' largest entries.

    Args:
      fleet: the fleet.
      velocity: generalised velocities, shape [N, nv].
      acceleration: generalised accelerations, shape [N, nv].
      values: the quantities by name.
    """
    double = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), values)
    nu = np.asarray(velocity, np.float64)
    nu_rate = np.asarray(acceleration, np.float64)
    order = list(dict.fromkeys(fleet.topologies))
    kinds = np.array([order.index(topology) for topology in fleet.topologies])
    floating = np.array([not topology.fixed_base for topology in fleet.topologies])
    base = fleet.nv - fleet.num_dofs
    bound = 256 * float(np.finfo(fleet.dtype).eps)

    def close(
        name: str, formula: str, value: np.ndarray, reference: np.ndarray, rows: Any = slice(None)
    ) -> Identity:
        return Identity(name, formula, _residual(value[rows], reference[rows], kinds[rows]), bound)

    def times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return np.matmul(matrix, vector[:, :, None])[:, :, 0]

    def parameter(name: str, width: int) -> np.ndarray:
        table = np.zeros((len(fleet), width))
        for members in fleet.kinds:  # Those of a kind are equal.
            numbers = np.asarray(getattr(fleet.member(int(members[0])), name))
            table[members, : len(numbers)] = numbers
        return table

    links = double["link poses, velocities"]
    M = double["mass matrix"]
    kinetic, _ = double["kinetic, potential energy"]
    g = double["gravity compensation"]
    c = double["Coriolis compensation"]
    b = double["bias force"]
    tau = double["inverse dynamics"]
    A, A_bias = double["centroidal matrix, bias"]
    h = double["centroidal momentum"]
    armature = np.pad(parameter("armature", fleet.num_dofs), ((0, 0), (base, 0)))
    # A fixed base has no rows in the dense Jacobian.
    moving = links.velocity if base else links.velocity[:, 1:]
    link_momentum = np.sum(
        parameter("link_mass", fleet.num_links)[:, :, None] * links.velocity[:, :, :3], axis=1
    )
    length = np.linalg.norm(links.pose[:, :, 3:], axis=2)
    sizes = np.array([topology.num_links for topology in fleet.topologies])
    # Links that a member lacks have zeros.
    unit = 1.0 * (np.arange(length.shape[1]) < sizes[:, None])
    jacobian_nu = times(double["dense Jacobian"], nu).reshape(moving.shape)
    slope = double["gradient of the potential"]
    force = times(M, nu_rate) + armature * nu_rate + c + g
    root_force = (tau - g)[:, :3]
    momentum_rate = (times(A, nu_rate) + A_bias)[:, :3]
    return [
        close("quaternions have length one", "|quaternion| = 1", length, unit),
        close("Jacobian gives the link velocities", "J ν = v", jacobian_nu, moving),
        close(
            "mass matrix gives the kinetic energy",
            "½ ν·Mν = T",
            np.sum(nu * times(M, nu), axis=1) / 2,
            kinetic,
        ),
        close("mass matrix is symmetric", "M = Mᵀ", M, np.swapaxes(M, 1, 2)),
        Identity(
            "mass matrix is positive definite",
            "λ(M scaled) > 0",
            _smallest_eigenvalue(M),
            0.0,
            lower=True,
        ),
        close("bias force is gravity and Coriolis", "b = g + c", b, g + c),
        close("inverse dynamics adds up", "τ = (M + armature) ν' + c + g", tau, force),
        close("gravity is the slope of potential energy", "g = ∂V/∂q", g[:, base:], slope),
        close("centroidal matrix gives the momentum", "A ν = h", times(A, nu), h),
        close("links sum to the momentum", "Σ m v = h", link_momentum, h[:, :3]),
        close(
            "force on a floating root moves all",
            "Σ F = A ν' + bias",
            root_force,
            momentum_rate,
            floating,
        ),
    ]


def _residual(value: np.ndarray, reference: np.ndarray, kinds: np.ndarray) -> float:
    """The largest difference of all members, relative to a member's largest entry or, if larger,
    its kind's mean.
    """
    if not len(value):
        return 0.0
    value = value.reshape(len(value), -1)
    reference = reference.reshape(len(value), -1)
    scale = np.maximum(np.abs(value), np.abs(reference)).max(axis=1)
    mean = np.bincount(kinds, weights=scale) / np.maximum(np.bincount(kinds), 1)
    scale = np.maximum(scale, mean[kinds])
    return float(np.max(np.abs(value - reference).max(axis=1) / np.where(scale == 0, 1.0, scale)))


def _smallest_eigenvalue(matrix: np.ndarray) -> float:
    """The smallest eigenvalue of all matrices scaled to a unit diagonal; missing coordinates count
    as one.
    """
    if not np.all(np.isfinite(matrix)):
        return float("nan")
    diagonal = np.diagonal(matrix, axis1=1, axis2=2)
    scale = 1 / np.sqrt(np.where(diagonal == 0, 1, np.abs(diagonal)))
    scaled = (
        matrix * scale[:, :, None] * scale[:, None, :]
        + np.eye(matrix.shape[1]) * (diagonal == 0)[:, None]
    )
    return float(np.linalg.eigvalsh(scaled).min())


# --- the plot -----------------------------------------------------------------------------------


def plot_fleet(
    fleet: artix.Fleet,
    state: artix.State,
    timings: list[Timing],
    identities: list[Identity],
    output: str,
) -> None:
    """Draws the fleet, the throughput and the identities, and saves them as a PNG file."""
    figure = Figure(figsize=(16, 9), dpi=120, facecolor=PAPER)
    device = jax.devices()[0].device_kind
    count = (
        f"{fleet.num_members:,} robots of {len(set(fleet.topologies))} kinds, one compiled "
        "program per quantity"
    )
    figure.text(0.02, 0.94, "artix", fontsize=30, fontweight="bold", color=INK, va="center")
    figure.text(0.105, 0.937, f"{count}, on {device}", fontsize=15, color=MUTED, va="center")
    _draw_fleet(figure.add_axes((0.02, 0.565, 0.96, 0.335)), fleet, state)

    axes = figure.add_axes((0.13, 0.06, 0.36, 0.37))
    rates = [fleet.num_members / timing.seconds for timing in timings]
    axes.barh(
        range(len(rates)),
        rates,
        color=[COLORS[t.quantity.group] for t in timings],
        height=0.68,
        zorder=2,
    )
    for place, timing in enumerate(timings):
        label = " {}/s   {} µs".format(*timing.rates(fleet.num_members))
        axes.text(rates[place], place, label, va="center", ha="left", fontsize=10.5, color=INK)
    axes.set(xlim=(0, 1.32 * max(rates)))
    axes.xaxis.set_major_formatter(lambda value, _: rate(value))
    _style(
        axes, "Throughput: robots per second, and time for each", [t.quantity.name for t in timings]
    )

    axes = figure.add_axes((0.665, 0.06, 0.31, 0.37))
    shown = [identity for identity in identities if not identity.lower]
    for place, identity in enumerate(shown):
        color = COLORS["energy"] if identity.holds else COLORS["dynamics"]
        value = max(identity.value, 1e-9) if np.isfinite(identity.value) else 1.0
        axes.plot([1e-9, value], [place, place], color=color, linewidth=2, alpha=0.45, zorder=2)
        axes.plot(value, place, "o", color=color, markersize=9, zorder=3)
        axes.plot(identity.bound, place, "|", color=INK, markersize=15, markeredgewidth=2, zorder=3)
    axes.set(xscale="log", xlim=(1e-9, 1e-3))
    _style(
        axes,
        "Identities: worst residual (dot) and bound (bar)",
        [identity.formula for identity in shown],
    )
    write_atomically(output, lambda part: _save(figure, part, facecolor=PAPER))


def _save(figure: Figure, part: Path, **options: Any) -> None:
    """Saves a picture in the format of the file's suffix."""
    figure.savefig(part, format=part.suffix[1:].lower() or "png", **options)


def _style(axes: Any, title: str, names: list[str]) -> None:
    axes.set(facecolor=PAPER, ylim=(len(names) - 0.3, -0.7))
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=10)
    axes.set_yticks(range(len(names)), names, fontsize=11, color=INK)
    axes.grid(axis="x", color=GRID, linewidth=1, zorder=0)
    axes.tick_params(length=0, labelcolor=INK)
    for side in axes.spines.values():
        side.set_visible(False)


def _draw_fleet(axes: Any, fleet: artix.Fleet, state: artix.State) -> None:
    """Draws one robot of each kind in its neutral position before some of its relatives, in a row
    to one scale.
    """
    still = fleet.neutral_state()
    # The program that was compiled for the measurement serves here, too.
    neutral, moved = (
        np.asarray(
            fleet.evaluate(artix.forward_kinematics, still.replace(joint_position=joints)).pose,
            float,
        )
        for joints in (still.joint_position, 0.3 * state.joint_position)
    )
    across = np.array([-np.sin(AZIMUTH), np.cos(AZIMUTH), 0.0])
    crowds = list[viewer.Crowd]()
    middles = list[np.ndarray]()
    place = 0.0
    order = list(dict.fromkeys(fleet.topologies))
    for number, topology in enumerate(order):
        first, *others = (k for k, one in enumerate(fleet.topologies) if one == topology)
        visuals = viewer.colored(viewer.visuals_of(fleet.member(first)), number)
        poses = np.stack([neutral[first], *moved[others[:4]]])[None, :, : topology.num_links]
        opacities = np.where(np.arange(poses.shape[1]) == 0, 1.0, 0.12)
        crowd = viewer.Crowd(topology.name, topology.link_names, visuals, (), poses, opacities)
        points = crowd.corners()[:, 0]  # Of each surface and robot.
        low = points[..., 2].min() if topology.fixed_base else points[:, 0, :, 2].min()
        along = points @ across
        width = max(float(np.ptp(along)), 2.0)  # Room for a label [m].
        poses[..., :3] += (place + 0.5 * (width - np.ptp(along)) - along.min()) * across - [
            0.0,
            0.0,
            low,
        ]
        crowds.append(crowd)
        middles.append((place + 0.5 * width) * across)
        place += width + 0.2
    scene = viewer.scene_of(crowds)
    width, height = axes.get_figure().get_size_inches() * 120 * axes.get_position().size
    size = (round(width), round(height))
    view: dict[str, Any] = {
        "azimuth": AZIMUTH,
        "elevation": 0.2,
        "aspect": size[0] / size[1],
        "fov": 0.25,
    }
    camera = viewer.Camera.around(scene.corners(), margin=1.0, **view)
    axes.imshow(viewer.draw_scene(scene, size=size, camera=camera), interpolation="none")
    axes.axis("off")
    label: dict[str, Any] = {
        "xycoords": "data",
        "textcoords": "offset points",
        "ha": "center",
        "va": "top",
    }
    for crowd, topology, middle in zip(scene.crowds, order, middles, strict=True):
        below = (float(camera.project(middle, size)[0]), size[1])
        colors = [one.color for one in crowd.visuals if one.color is not None]
        accent = max(colors, key=lambda color: max(color) - min(color))  # The most colourful.
        base = "fixed base" if topology.fixed_base else "floating base"
        detail = f"{topology.num_links} links, {topology.num_dofs} DOFs, {base}"
        name = topology.name.replace("_", " ")
        axes.annotate(name, below, (0, -2), fontsize=15, fontweight="bold", color=accent, **label)
        axes.annotate(detail, below, (0, -24), fontsize=9.5, color=MUTED, **label)


# --- trajectories -------------------------------------------------------------------------------

#: A swing-up has converged if the tip stays above this fraction of the full height.
UPRIGHT = 0.95
#: And if the joints end slower than this [rad/s].
SLOW = 1.0
#: A reach has converged at this distance [m], angle [rad] and speed [rad/s] of the tool.
REACHED = 1e-2


class Solved(NamedTuple):
    """A trajectory: what to print and to draw.

    Attributes:
      converged: whether it does what it should.
      rows: results in words.
      curves: what to draw over time, by title: names of the curves and their values [T, C].
      costs: the cost after each iteration, a column for each start.
      dt: length of a step [s].
    """

    converged: bool
    rows: list[tuple[str, str]]
    curves: dict[str, tuple[tuple[str, ...], Any]]
    costs: np.ndarray
    dt: float


def run_trajectory_demo(*, output: str, seed: int) -> int:
    """Runs the demonstration.

    Args:
      output: path of the plot, a PNG file.
      seed: seed of the swing-up's random starts.

    Returns:
      0 if both optimisations converged, 1 otherwise.

    Raises:
      CommandFailure: the plot cannot be written.
    """
    check_output(output)
    begin = time.perf_counter()
    print(
        "Swing-up of the double pendulum: Adam through the simulation, all starts at once ...",
        flush=True,
    )
    swung = solve_swing_up(seed)
    print(table(("swing-up", ""), swung.rows, align="ll"), flush=True)
    print("\nReach of the seven-axis arm: iLQR on artix.linearize ...", flush=True)
    reached = solve_reach()
    print(table(("reach", ""), reached.rows, align="ll"), flush=True)
    with naming(output):
        plot_trajectories({"swing-up": swung, "reach": reached}, output)
    print(f"\nplot saved to {output} ({time.perf_counter() - begin:.0f} s in total)")
    failed = [
        name for name, one in (("the swing-up", swung), ("the reach", reached)) if not one.converged
    ]
    if failed:
        print(f"artix: did not converge: {', '.join(failed)}; try another --seed", file=sys.stderr)
        return 1
    print("both converged")
    return 0


def solve_swing_up(seed: int) -> Solved:
    """Swings the built-in double pendulum up."""
    begin = time.perf_counter()
    task = swing_up.SwingUp(robots.load("double_pendulum"))
    shooting = jax.block_until_ready(swing_up.solve(task, seed=seed))
    seconds = time.perf_counter() - begin
    costs = np.asarray(shooting.costs)
    torques = task.torques(shooting.best)
    states = jax.jit(task.states)(torques)
    height = np.asarray(task.tips(states)[:, 2])
    held = float(height[task.held].min()) / swing_up.FULL_HEIGHT
    speed = float(np.abs(states.joint_velocity[-1]).max())
    peak = np.abs(torques).max(axis=0)
    rows = [
        (
            "tip at the end",
            f"{100 * held:.1f} % of full height or more over the last {task.hold * 100:.0f} % of "
            "the time",
        ),
        ("speed at the end", f"{speed:.2f} rad/s"),
        (
            "largest torques",
            f"shoulder {peak[0]:.1f}, elbow {peak[1]:.1f} N m; holding it level takes 19.6 and 4.9",
        ),
        (
            "cost",
            f"{np.median(costs[0]):.3g} -> {np.nanmin(costs[-1]):.3g}, the best of "
            f"{costs.shape[1]} starts",
        ),
        (
            "work",
            f"{len(costs)} iterations of {costs.shape[1]} x {task.steps} steps in {seconds:.1f} s "
            "with compilation",
        ),
    ]
    curves = {
        "torque [N m]": (("shoulder", "elbow"), torques),
        "height of the tip [m]": (("tip",), height[:, None]),
    }
    return Solved(held > UPRIGHT and speed < SLOW, rows, curves, costs, task.dt)


def solve_reach() -> Solved:
    """Brings the tool of the built-in seven-axis arm to a target."""
    begin = time.perf_counter()
    task = reach.Reach(robots.load("arm7"))
    solution = reach.solve(task)
    seconds = time.perf_counter() - begin
    costs = np.asarray(solution.costs)
    apart = jax.vmap(task.tool_error)(solution.states).reshape(-1, 2, 3)  # position, then angle
    errors = np.asarray(jnp.linalg.norm(apart, axis=2))
    effort = np.asarray(solution.forces / task.arm.max_joint_force)
    speed = float(np.abs(solution.states.joint_velocity[-1]).max())
    rows = [
        (
            "tool at the end",
            f"{1e3 * errors[-1, 0]:.2f} mm and {1e3 * errors[-1, 1]:.2f} mrad from its target",
        ),
        ("speed at the end", f"{speed:.1g} rad/s"),
        ("largest torque", f"{100 * np.abs(effort).max():.0f} % of its limit"),
        ("cost", f"{costs[0]:.4g} -> {costs[-1]:.4g}"),
        (
            "work",
            f"{len(costs) - 1} iterations of {task.steps} steps in {seconds:.1f} s with "
            "compilation",
        ),
    ]
    curves = {
        "torque [% of the limit]": (task.arm.topology.dof_names, 100 * effort),
        "distance from the target [m], [rad]": (("position", "angle"), errors),
    }
    return Solved(
        bool(errors[-1].max() < REACHED) and speed < REACHED, rows, curves, costs[:, None], task.dt
    )


def plot_trajectories(solved: dict[str, Solved], output: str) -> None:
    """Saves a picture of the curves and costs, with a row for each trajectory."""
    figure = Figure(figsize=(16, 9), dpi=100, layout="constrained")
    for row, (name, result) in zip(figure.subplots(len(solved), 3), solved.items(), strict=True):
        for axes, (title, (labels, values)) in zip(row, result.curves.items(), strict=False):
            axes.plot(result.dt * np.arange(1, len(values) + 1), np.asarray(values), label=labels)
            axes.set(title=f"{name}: {title}", xlabel="time [s]")
            axes.legend(frameon=False, fontsize=8)
        row[2].semilogy(result.costs)
        row[2].set(title=f"{name}: cost", xlabel="iteration")
    write_atomically(output, lambda part: _save(figure, part))
