"""Energy of fast motion without contact: ``python -m benchmarks.fast_motion``.

Robots, chains and single bodies start from random states: speeds, masses and time steps are spread
evenly over their logarithms. After 100 steps without gravity, states must be finite, and the
kinetic energy must never have been above that of the start. Rows are by the largest angle by which
a link turns in the first step.
"""

from __future__ import annotations

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np

import artix

_ANGLES = 0.0, 0.01, 0.1, 1.0, np.inf


def chain(links: int, *, spherical: bool, fixed_base: bool) -> artix.Articulation:
    """A chain of rods of 0.1 m and 50 g."""
    builder = artix.ArticulationBuilder(fixed_base=fixed_base)
    rod = {"mass": 0.05, "inertia": (4e-5, 4e-5, 3e-6), "com_pose": (0, 0, -0.05, 0, 0, 0, 1)}
    builder.add_link(**rod)
    for link in range(links):
        above = (0, 0, -0.1, 0, 0, 0, 1)
        axis = artix.Axis.SWING1 if link % 2 else artix.Axis.SWING2
        joint = (
            artix.Joint.spherical
            if spherical
            else lambda *, axis=axis, **options: artix.Joint.revolute(axis, **options)
        )
        builder.add_link(link, joint(parent_pose=above), **rod)
    return builder.build()


def body() -> artix.Articulation:
    """A rigid body with three different moments of inertia."""
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=(0.01, 0.02, 0.025))
    return builder.build()


def robots() -> dict[str, artix.Articulation]:
    """The articulations, without gravity, limits, damping and friction."""
    every = {
        "body": body(),
        "double pendulum": artix.robots.load("double_pendulum"),
        "rope, 12 links": chain(12, spherical=True, fixed_base=True),
        "chain, 30 links": chain(29, spherical=False, fixed_base=False),
        "quadruped": artix.robots.load("quadruped"),
        "humanoid": artix.robots.load("humanoid"),
    }
    return {name: _free(robot) for name, robot in every.items()}


def _free(robot: artix.Articulation) -> artix.Articulation:
    none, much = jnp.zeros_like(robot.armature), jnp.full_like(robot.armature, jnp.inf)
    friction = jax.tree.map(jnp.zeros_like, robot.friction)
    return robot.replace(
        gravity=jnp.zeros_like(robot.gravity),
        drive=robot.drive.replace(stiffness=none, damping=none),
        friction=friction,
        joint_lower_limit=-much,
        joint_upper_limit=much,
        max_joint_velocity=much,
    )


def measured(
    robot: artix.Articulation, count: int, steps: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angles per step, whether all is finite, and the largest ratio of kinetic energies to the one
    at the start."""
    dtype, dofs = robot.dtype, robot.topology.num_dofs

    def one(key: jax.Array) -> tuple[jax.Array, ...]:
        keys = jax.random.split(key, 6)
        speed = 10 ** jax.random.uniform(keys[0], (), dtype, -1.0, 3.0)
        scale = 10 ** jax.random.uniform(keys[1], (), dtype, -4.0, 4.0)
        dt = 10 ** jax.random.uniform(keys[2], (), dtype, -4.0, float(np.log10(0.05)))
        heavy = robot.replace(
            link_mass=scale * robot.link_mass, link_inertia=scale * robot.link_inertia
        )
        start = artix.random_state(robot, keys[3]).replace(
            joint_velocity=speed * jax.random.normal(keys[4], (dofs,), dtype),
            root_velocity=speed
            * jax.random.normal(keys[5], (6,), dtype)
            * (0.0 if robot.topology.fixed_base else 1.0),
        )

        def step(state: artix.State, _: None) -> tuple[artix.State, jax.Array]:
            end = artix.step(heavy, state, None, dt)
            return end, artix.kinetic_energy(heavy, end, armature=True)

        turning = artix.frame_velocity(heavy, start, offset="com")[:, 3:]
        angle = dt * jnp.sqrt(jnp.max(jnp.sum(turning**2, axis=1)))
        end, energies = jax.lax.scan(step, start, None, length=steps)
        finite = jnp.all(jnp.isfinite(energies)) & jnp.all(jnp.isfinite(end.joint_position))
        return angle, finite, jnp.max(energies) / artix.kinetic_energy(heavy, start, armature=True)

    angle, finite, ratio = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), count))
    return np.asarray(angle), np.asarray(finite), np.asarray(ratio)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--robots", nargs="+")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", options.dtype == "float64")
    print("| | angle per step [rad] | states | not finite | energy at most, of that at the start |")
    print("|---|---|---|---|---|")
    for name, robot in robots().items():
        if options.robots and name not in options.robots:
            continue
        results = measured(robot.astype(options.dtype), options.count, options.steps, options.seed)
        for least, most in itertools.pairwise(_ANGLES):
            angle, finite, ratio = (x[(results[0] >= least) & (results[0] < most)] for x in results)
            gain = np.max(ratio[finite], initial=0.0) - 1
            row = f"{least:g} to {most:g} | {len(angle):,} | {np.sum(~finite)} | 1 {gain:+.1e}"
            print(f"| {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
