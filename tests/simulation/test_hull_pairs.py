"""Hulls that rest, tip, roll and are held: against closed forms, and against boxes."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Geometry, Scene
from tests.simulation.test_cylinders import at, fixed
from tests.support.rollouts import last, reported_rollout

GRAVITY, DT, MASS = 9.81, 0.005, 1.0


def corners(half) -> np.ndarray:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * half


def prism(sides: int, radius: float, half: float) -> np.ndarray:
    """A prism along z, whose first side looks along -y."""
    angles = 2 * np.pi * (np.arange(sides) + 0.5) / sides - np.pi / 2
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1) * radius
    return np.array([(x, y, z) for x, y in around for z in (-half, half)])


#: A tetrahedron whose centre is at the origin, with its base below.
TETRAHEDRON = np.array(
    [(0.0, 0.0, 0.09), (0.1, 0.0, -0.03), (-0.05, 0.08, -0.03), (-0.05, -0.08, -0.03)]
)


def body(points: np.ndarray, dtype: str, friction: float = 0.6) -> artix.Articulation:
    """A free hull, a sensor for the ground."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name="body")
    builder.add_link(mass=MASS, inertia=(2e-3,) * 3, name="body", angular_damping=0.0)
    shape = Geometry.hull(points, friction=friction, sensor=True)
    builder.add_geometry("body", shape, name="shape")
    return builder.build(dtype)


def on(under: Geometry, points: np.ndarray, dtype: str, place) -> tuple[Scene, dict]:
    """A hull on a shape that does not move."""
    members = {"base": fixed({"top": under}, dtype), "body": body(points, dtype)}
    scene = Scene(members, pairs=[("body/shape", "base/top")])
    states = scene.neutral_state()
    states["body"] = at(states["body"], place)
    return scene, states


TABLE = Geometry.box((0.3, 0.3, 0.1), friction=0.6)
TABLES = {"box": TABLE, "hull": Geometry.hull(corners((0.3, 0.3, 0.1)), friction=0.6)}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "under", [pytest.param("box"), pytest.param("hull", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("points", "height"),
    [(corners((0.05, 0.04, 0.06)), 0.06), (TETRAHEDRON, 0.03), (prism(8, 0.06, 0.05), 0.05)],
    ids=["box", "tetrahedron", "prism"],
)
def test_a_hull_stands_on_a_table(points, height, under, dtype: str) -> None:
    """On equal forces, and stays where it is."""
    scene, states = on(TABLES[under], points, dtype, (0.02, 0.01, 0.1 + height))
    end, report = last(reported_rollout(scene, states, None, DT, 200))
    moved = np.abs(end["body"].root_pose - states["body"].root_pose)
    assert np.max(moved) < {"float32": 1e-7, "float64": 1e-14}[dtype]
    assert np.max(np.abs(end["body"].root_velocity)) < {"float32": 1e-6, "float64": 1e-8}[dtype]
    force = np.asarray(report.link_contacts.force)
    force = force[force[:, 2] > 1e-3]
    count = 3 if points is TETRAHEDRON else 4
    wanted = np.tile([0.0, 0.0, MASS * GRAVITY / count], (count, 1))
    np.testing.assert_allclose(force, wanted, atol={"float32": 2e-2, "float64": 1e-9}[dtype])


def test_a_tetrahedron_tips_over_an_edge() -> None:
    """When its centre is beyond the edge of the table, in any attitude."""
    scene, states = on(TABLE, TETRAHEDRON, "float64", (0.3, 0.0, 0.13))

    def run(shift, angle):
        turn = jnp.stack([0 * angle, 0 * angle, jnp.sin(angle / 2), jnp.cos(angle / 2)])
        start = jnp.concatenate([states["body"].root_pose[:3].at[0].add(shift), turn])
        every = states | {"body": states["body"].replace(root_pose=start)}
        path = artix.rollout(scene, every, None, DT, num_steps=100)
        return path["body"].root_pose[-1] - start

    angles = jnp.tile(jnp.linspace(0, 2 * np.pi / 3, 7), 2)
    moved = jax.jit(jax.vmap(run))(jnp.repeat(jnp.array([-0.005, 0.005]), 7), angles)
    assert np.max(np.abs(moved[:7])) < 1e-10
    assert np.all(moved[7:, 2] < -0.01)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_stack_of_three_hulls_stays(order, dtype: str) -> None:
    """For 5 s, whatever the order of the bodies; where rounding does not disturb how corners share
    loads, with equal forces at all of them."""
    points, half = corners((0.05, 0.05, 0.04)), 0.04
    bodies = [body(points, dtype) for _ in range(3)]
    members = {"base": fixed({"top": TABLE}, dtype)} | {f"body{k}": bodies[k] for k in order}
    pairs = [("body0/shape", "base/top"), ("body0/shape", "body1/shape")]
    pairs.append(("body2/shape", "body1/shape"))
    scene = Scene(members, pairs=pairs)
    states = scene.neutral_state()
    for k in range(3):
        states[f"body{k}"] = at(states[f"body{k}"], (0.0, 0.0, 0.1 + (2 * k + 1) * half))
    end, report = last(reported_rollout(scene, states, None, DT, 1000))
    for k in range(3):
        moved = np.abs(end[f"body{k}"].root_pose - states[f"body{k}"].root_pose)
        assert np.max(moved) < {"float32": 1e-6, "float64": 1e-12}[dtype]
    force = np.abs(np.asarray(report.link_contacts.force)[:, 2])
    wanted = np.repeat(np.array([3, 2, 1]) * MASS * GRAVITY / 4, 4)
    if dtype == "float64":
        np.testing.assert_allclose(force, wanted, atol=1e-8)
    np.testing.assert_allclose(
        force.reshape(3, 4).sum(axis=1), wanted.reshape(3, 4).sum(axis=1), rtol=1e-3
    )


@pytest.mark.slow
def test_hulls_thrown_at_each_other_gain_no_energy() -> None:
    """A tetrahedron and a prism meet a box of points at random, without gravity."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, 0), name="body")
    builder.add_link(mass=MASS, inertia=(2e-3,) * 3, name="body", angular_damping=0.0)
    robots = []
    for points in (TETRAHEDRON, prism(8, 0.06, 0.05)):
        one = artix.builder_from_articulation(builder.build("float64"))
        one.add_geometry("body", Geometry.hull(points, friction=0.6), name="shape")
        robots.append(one.build("float64"))
    scene = Scene(dict(zip("ab", robots, strict=True)), pairs=[("a/shape", "b/shape")])
    states = scene.neutral_state()

    def run(key):
        keys = jax.random.split(key, 4)
        start = {}
        for k, (name, robot) in enumerate(zip("ab", robots, strict=True)):
            state = artix.random_state(robot, keys[k])
            place = jnp.array([0.3 * (1 - 2 * k), 0.0, 0.0])
            spin = 5 * jax.random.normal(keys[2 + k], (3,))
            velocity = jnp.concatenate([jnp.array([2.0 * k - 1.0, 0.0, 0.0]), spin])
            pose = jnp.concatenate([place, state.root_pose[3:]])
            start[name] = states[name].replace(root_pose=pose, root_velocity=velocity)
        path = artix.rollout(scene, start, None, 0.002, num_steps=250)
        return sum(
            0.5 * MASS * jnp.sum(path[name].root_velocity[:, :3] ** 2, axis=1)
            + 1e-3 * jnp.sum(path[name].root_velocity[:, 3:] ** 2, axis=1)
            for name in "ab"
        )

    energy = np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 64)))
    assert np.all(np.isfinite(energy))
    assert np.sum(energy[:, -1] < 0.98 * energy[:, 0]) > 20  # They met.
    assert np.max(np.diff(energy, axis=1)) < 1e-3 * np.max(energy)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["box", "hull"])
def test_heaps_come_to_rest(kind: str) -> None:
    """Three bodies that fall on each other in random attitudes, 96 times: within 3 s, unless one
    rocks on a corner, which nothing damps."""
    rng = np.random.default_rng(0)
    members = {}
    for k in range(3):
        points = rng.normal(size=(6 + k, 3))
        points = points / np.linalg.norm(points, axis=1)[:, None] * (0.06, 0.05, 0.04)
        half = rng.uniform(0.03, 0.07, 3)
        shape = Geometry.hull(points, friction=0.6)
        if kind == "box":
            shape = Geometry.box(tuple(half), friction=0.6)
        builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name="body")
        inertia = MASS / 3 * (np.sum(half**2) - half**2)
        builder.add_link(mass=MASS, inertia=tuple(inertia), name="body", angular_damping=0.0)
        builder.add_geometry("body", shape, name="shape")
        members[f"body{k}"] = builder.build("float64")
    pairs = [(f"{a}/shape", f"{b}/shape") for a, b in itertools.combinations(members, 2)]
    scene = Scene(members, ground=artix.Ground.flat(friction=0.6), pairs=pairs)
    states = {}
    for k, (name, state) in enumerate(scene.neutral_state().items()):
        turn = rng.normal(size=(96, 4))
        turn = turn / np.linalg.norm(turn, axis=1)[:, None]
        place = np.c_[0.02 * rng.normal(size=(96, 2)), np.full(96, 0.1 + 0.13 * k)]
        state = jax.tree.map(lambda x: jnp.broadcast_to(x, (96, *x.shape)), state)
        states[name] = state.replace(root_pose=jnp.asarray(np.c_[place, turn]))

    def end(start):
        return jax.tree.map(
            lambda x: x[-1], artix.rollout(scene, start, None, 0.002, num_steps=1500)
        )

    ends = jax.jit(jax.vmap(end))(states)
    speed = np.max([np.abs(one.root_velocity).max(axis=1) for one in ends.values()], axis=0)
    assert np.sum(speed > 1e-4) <= 1
