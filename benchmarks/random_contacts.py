"""Falls from random states, with contact: ``python -m benchmarks.random_contacts``.

Robots start just above level ground, and twelve balls in a box, with random poses. Speeds (0.1 to
1,000 m/s and rad/s), masses (1e-4 to 1e4 times their own) and steps (1e-4 to 0.05 s) are spread
evenly over their logarithms. Over 100 steps without drives, states must be finite, and the energy
(kinetic and potential) must never rise above that of the start, but for what undoing a penetration
at 0.1 m/s adds. What the solver did not solve must be reported. Rows are by the largest angle by
which a link turns in the first step: at more than a radian a step, limbs turn into the ground.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from benchmarks.fast_motion import chain

_ANGLES = 0.0, 0.1, 1.0, np.inf

#: States whose energy may rise by this share of the kinetic energy at the start.
_GAINS = 1e-3


def _with_balls(robot: artix.Articulation) -> artix.Articulation:
    builder = artix.builder_from_articulation(robot)
    for name in robot.topology.link_names:
        builder.add_geometry(name, artix.Geometry.sphere(0.02))
    return builder.build()


def _undriven(robot: artix.Articulation) -> artix.Articulation:
    none = jnp.zeros_like(robot.armature)
    return robot.replace(drive=robot.drive.replace(stiffness=none, damping=none))


def _ball() -> artix.Articulation:
    builder = artix.ArticulationBuilder(name="ball")
    builder.add_link(mass=1.0, inertia=(1e-3,) * 3, name="ball")
    builder.add_geometry("ball", artix.Geometry.sphere(0.05), name="ball")
    return builder.build()


def scenes() -> dict[str, artix.Scene]:
    """The scenes, with friction 0.7 everywhere."""
    robots = {
        "quadruped": artix.robots.load("quadruped"),
        "humanoid": artix.robots.load("humanoid"),
        "rope, 12 links": _with_balls(chain(11, spherical=True, fixed_base=False)),
        "chain, 30 links": _with_balls(chain(29, spherical=False, fixed_base=False)),
    }
    level = artix.Ground.flat(friction=0.7)
    found = {name: artix.Scene(_undriven(robot), ground=level) for name, robot in robots.items()}
    sides = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
    walls = [
        artix.Plane.of(normal=(x, y, 0.0), point=(-0.25 * x, -0.25 * y, 0.0), friction=0.7)
        for x, y in sides
    ]
    ball, names = _ball(), [f"ball{k}" for k in range(12)]
    pairs = [(f"{a}/ball", f"{b}/ball") for a, b in itertools.combinations(names, 2)]
    members = dict.fromkeys(names, ball)
    found["12 balls in a box"] = artix.Scene(
        members, artix.Ground((*level.surfaces, *walls)), pairs
    )
    return found


def scaled(scene: artix.Scene, scale: jax.Array) -> artix.Scene:
    """The scene with all masses and dry friction scaled."""
    parts = "link_mass", "link_inertia", "armature", "friction"
    members = []
    for one in scene.articulations:
        scaled = {
            name: jax.tree.map(lambda leaf: scale * leaf, getattr(one, name)) for name in parts
        }
        members.append(one.replace(**scaled))
    return scene.replace(articulations=tuple(members))


def _start(scene: artix.Scene, key: jax.Array, speed: jax.Array) -> Any:
    """A random state just above the ground; balls stand in rows."""
    states = []
    for number, robot in enumerate(scene.articulations):
        keys = jax.random.split(jax.random.fold_in(key, number), 4)
        dofs, dtype = robot.topology.num_dofs, robot.dtype
        state = artix.random_state(robot, keys[0]).replace(
            joint_velocity=speed * jax.random.normal(keys[1], (dofs,), dtype),
            root_velocity=speed * jax.random.normal(keys[2], (6,), dtype),
        )
        if scene.names:
            row = jnp.array([number % 4, number // 4 % 4, 0.0], dtype)
            place = 0.115 * (row - jnp.array([1.5, 1.0, 0.0], dtype)) + jnp.array(
                [0.0, 0.0, 0.06], dtype
            )
            pose = state.root_pose.at[:3].set(place)
        else:
            above = 0.05 * jax.random.uniform(keys[3], (), dtype)
            low = jnp.min(artix.geometry_distances(scene, state))
            pose = state.root_pose.at[2].add(above - low)
        states.append(state.replace(root_pose=pose))
    return scene.by_name(states)


def measured(
    scene: artix.Scene, count: int, steps: int, seed: int, chunk: int
) -> dict[str, np.ndarray]:
    """Numbers of each state by name."""
    dtype = scene.dtype

    def energy(scene: artix.Scene, state: Any) -> tuple[jax.Array, jax.Array]:
        parts = scene.check_state(state)
        members = list(zip(scene.articulations, parts, strict=True))
        kinetic = sum(artix.kinetic_energy(*member, armature=True) for member in members)
        return kinetic, kinetic + sum(artix.potential_energy(*member) for member in members)

    def depth(scene: artix.Scene, state: Any) -> jax.Array:
        gaps = artix.geometry_distances(scene, state)
        return -jnp.min(jnp.stack(jax.tree.leaves(jax.tree.map(jnp.min, gaps))))

    def one(key: jax.Array) -> dict[str, jax.Array]:
        keys = jax.random.split(key, 4)
        speed = 10 ** jax.random.uniform(keys[0], (), dtype, -1.0, 3.0)
        scale = 10 ** jax.random.uniform(keys[1], (), dtype, -4.0, 4.0)
        dt = 10 ** jax.random.uniform(keys[2], (), dtype, -4.0, float(np.log10(0.05)))
        here, start = scaled(scene, scale), _start(scene, keys[3], speed)
        mass = sum(jnp.sum(member.link_mass) for member in here.articulations)
        kinetic, whole = energy(here, start)

        def step(state: Any, _: None) -> tuple[Any, tuple[jax.Array, ...]]:
            end, report = artix.step_and_report(here, state, None, dt)
            parts = report if not here.names else next(iter(report.members.values()))
            return end, (
                energy(here, end)[1],
                parts.is_solved,
                parts.velocity_residual.max,
                depth(here, end),
            )

        remembering = artix.remember_contacts(here, start)
        end, (energies, is_solved, residual, depths) = jax.lax.scan(
            step, remembering, None, length=steps
        )
        turning = [
            jnp.max(jnp.sum(artix.frame_velocity(*member, offset="com")[:, 3:] ** 2, axis=1))
            for member in zip(here.articulations, here.check_state(start), strict=True)
        ]
        leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(end)]
        return {
            "angle": dt * jnp.sqrt(jnp.max(jnp.stack(turning))),
            "finite": jnp.all(jnp.stack(leaves)) & jnp.all(jnp.isfinite(energies)),
            "gain": (jnp.max(energies) - whole) / (kinetic + mass * 0.1**2),
            "unsolved": jnp.sum(~is_solved),
            "residual": jnp.max(jnp.where(is_solved, 0, residual)) / speed,
            "hidden": jnp.max(jnp.where(is_solved, residual, 0)) / speed,
            "depth": jnp.max(depths),
        }

    run = jax.jit(jax.vmap(one))
    keys = jax.random.split(jax.random.key(seed), count)
    parts = [run(keys[k : k + chunk]) for k in range(0, count - count % chunk, chunk)]
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--scenes", nargs="+")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", options.dtype == "float64")
    print(
        "| | angle per step [rad] | states | not finite | gain at most | gain > 0.1 % | steps not "
        "solved | residual of those, of the speed | of solved ones | deepest [m] |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, scene in scenes().items():
        if options.scenes and name not in options.scenes:
            continue
        begin = time.perf_counter()
        every = measured(
            scene.astype(options.dtype), options.count, options.steps, options.seed, options.chunk
        )
        for least, most in itertools.pairwise(_ANGLES):
            chosen = (every["angle"] >= least) & (every["angle"] < most)
            part = {key: values[chosen] for key, values in every.items()}
            if not len(part["angle"]):
                continue
            gain, bad = part["gain"], int(np.sum(~part["finite"]))
            unsolved = np.mean(part["unsolved"]) / options.steps
            print(
                f"| {name} | {least:g} to {most:g} | {len(gain):,} | {bad} | {np.max(gain):+.1e} "
                f"| {np.sum(gain > _GAINS)} | {100 * unsolved:.3f} % | "
                f"{np.max(part['residual']):.1e} | {np.max(part['hidden']):.1e} | "
                f"{np.max(part['depth']):.2g} |",
                flush=True,
            )
        print(f"<!-- {time.perf_counter() - begin:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
