"""``artix demo``: every quantity for a mixed fleet of built-in robots, timed, verified and drawn."""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp

import artix
from artix import robots, viewer
from artix.cli.demo_plot import save_plot
from artix.cli.identities import verified_identities
from artix.cli.measurements import measured
from artix.cli.names import check_output, naming
from artix.cli.text import CommandFailure, installed, rate, table

#: How many robots ``artix demo --view`` shows, and in how many frames.
SHOWN, FRAMES = 60, 120


def run_demo(*, members: int, output: str, seed: int, show: bool) -> int:
    """Runs the demonstration.

    Args:
      members: number of robots.
      output: path of the plot, a PNG file.
      seed: seed of the random states.
      show: whether some of the fleet is shown in a browser afterwards, until the process is interrupted.

    Returns:
      0 if every identity held, 1 otherwise.

    Raises:
      CommandFailure: the plot cannot be written, or the viewer is not installed.
    """
    check_output(output)
    begin = time.perf_counter()
    kinds = [robots.load(name) for name in robots.names()]
    fleet = artix.Fleet([kinds[member % len(kinds)] for member in range(members)])
    device = jax.devices()[0]
    print(f"artix {installed('artix')} on {device.device_kind} ({device.platform}), jax {jax.__version__}")
    names = [topology.name for topology in fleet.topologies]
    census = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    print(f"{members} robots in one compiled program per quantity: {census}\n")

    state_key, acceleration_key = jax.random.split(jax.random.key(seed))
    state = fleet.random_state(state_key)
    velocity = fleet.evaluate(artix.generalized_velocity, state)
    # A member has no acceleration where it has no velocity; random velocities are never exactly zero.
    noise = jax.random.normal(acceleration_key, velocity.shape, velocity.dtype)
    acceleration = jnp.where(velocity == 0, 0, noise)
    measurements = measured(fleet, state, acceleration)
    values = {measurement.quantity.name: measurement.value for measurement in measurements}
    identities = verified_identities(fleet, state, acceleration, values)
    rows = [
        (
            m.quantity.name,
            m.shape,
            rate(members / m.seconds),
            f"{1e6 * m.seconds / members:.2f}",
            f"{m.compile_seconds:.2f}",
        )
        for m in measurements
    ]
    print("\n" + table(("quantity", "shape", "robots/s", "us each", "compile s"), rows, align="ll"))
    rows = [(i.name, i.formula, f"{i.value:.1e}", i.condition, "ok" if i.holds else "FAILED") for i in identities]
    print("\n" + table(("verified identity", "formula", "worst of all", "required", ""), rows, align="llrll") + "\n")
    with naming(output):
        save_plot(fleet, state, measurements, identities, output)
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
    """Shows some of a fleet in a browser, their joints swinging to random positions and back, until interrupted.

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
