"""``artix demo``: every quantity for a mixed fleet of built-in robots, timed, verified and drawn."""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp

import artix
from artix import robots, viewer
from artix.cli.demo_plot import save_plot
from artix.cli.identities import Identity, verified_identities
from artix.cli.measurements import Measurement, compile_all, measure
from artix.cli.names import check_output
from artix.cli.text import CommandFailure, rate, table

Array = jax.Array

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
      CommandFailure: the plot's folder does not exist.
    """
    begin = time.perf_counter()
    check_output(output)
    fleet = mixed_fleet(members)
    print(f"artix {version()} on {_device_text()}")
    print(f"{fleet.num_members} robots in one compiled program per quantity: {_census(fleet)}\n")

    state_key, acceleration_key = jax.random.split(jax.random.key(seed))
    state = fleet.random_state(state_key)
    acceleration = random_acceleration(fleet, state, acceleration_key)
    programs = compile_all(fleet, state, acceleration)
    measurements = [measure(program, state, acceleration) for program in programs]
    values = {measurement.quantity.name: measurement.value for measurement in measurements}
    identities = verified_identities(fleet, state, acceleration, values)
    print(f"\n{_throughput_table(measurements, members)}\n\n{_identity_table(identities)}\n")
    save_plot(fleet, state, measurements, identities, output)
    failed = [identity.name for identity in identities if not identity.holds]
    print(f"plot saved to {output} ({time.perf_counter() - begin:.0f} s in total)")
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
    width = some.neutral_state().joint_position.shape[1]
    swing = jnp.sin(jnp.linspace(0.0, 2 * jnp.pi, FRAMES, endpoint=False)) ** 2
    joints = swing[:, None, None] * state.joint_position[:count, :width]
    still = some.neutral_state()
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (FRAMES, *leaf.shape)), still)
    try:
        shown = viewer.view(some, states.replace(joint_position=joints), 1 / 30, open_browser=True)
    except ImportError as error:
        raise CommandFailure(str(error)) from error
    print(f"{count} of the robots at {shown.url} (press Ctrl-C to stop)", flush=True)
    shown.wait()


def mixed_fleet(members: int) -> artix.Fleet:
    """A fleet in which the built-in robots alternate."""
    kinds = [robots.load(name) for name in robots.names()]
    return artix.Fleet([kinds[member % len(kinds)] for member in range(members)])


def random_acceleration(fleet: artix.Fleet, state: artix.State, key: Array) -> Array:
    """Normally distributed generalised accelerations, zero where a member has no such coordinate, [N, nv]."""
    velocity = fleet.evaluate(artix.generalized_velocity, state)
    keep = (velocity != 0).astype(velocity.dtype)  # normal draws are never exactly zero, padding always is
    return keep * jax.random.normal(key, velocity.shape, velocity.dtype)


def version() -> str:
    """The installed version of artix."""
    from importlib import metadata

    try:
        return metadata.version("artix")
    except metadata.PackageNotFoundError:  # run from a source tree without installation
        return "(not installed)"


def _device_text() -> str:
    device = jax.devices()[0]
    return f"{device.device_kind} ({device.platform}), jax {jax.__version__}"


def _census(fleet: artix.Fleet) -> str:
    names = [topology.name for topology in fleet.topologies]
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


def _throughput_table(measurements: list[Measurement], members: int) -> str:
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
    return table(("quantity", "shape", "robots/s", "us each", "compile s"), rows, align="ll")


def _identity_table(identities: list[Identity]) -> str:
    rows = [(i.name, i.formula, f"{i.value:.1e}", i.condition, "ok" if i.holds else "FAILED") for i in identities]
    return table(("verified identity", "formula", "worst of all", "required", ""), rows, align="llrll")
