"""Scenes of many bodies, which are stacked: the same steps as those written out, at rest, in
collisions, and under differentiation.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.simulation import contacts
from tests.support.rollouts import last, reported_rollout

BOX = artix.Geometry.box((0.1, 0.1, 0.1), friction=0.6)
BALL = artix.Geometry.sphere(0.1, friction=0.5, restitution=0.4)
ROD = artix.Geometry.capsule(0.05, 0.1, friction=0.6)


def body(shape: artix.Geometry, name: str = "body", mass: float = 1.0) -> artix.Articulation:
    builder = artix.ArticulationBuilder(name=name)
    builder.add_link(mass=mass, inertia=(0.007 * mass,) * 3, name=name)
    builder.add_geometry(name, shape, name="shape")
    return builder.build("float64")


def scene_of(members: dict[str, artix.Articulation], ground: bool = True, **budgets) -> artix.Scene:
    pairs = [(f"{a}/shape", f"{b}/shape") for a, b in itertools.combinations(members, 2)]
    surface = artix.Ground.flat(friction=0.6).astype("float64") if ground else None
    return artix.Scene(members, ground=surface, pairs=pairs, **budgets)


def heap(scene: artix.Scene, seed: int = 0, height: float = 0.15) -> dict[str, artix.State]:
    """Bodies in layers of four, a little turned."""
    draw, states = np.random.default_rng(seed), scene.neutral_state()
    for k, name in enumerate(scene.names):
        turn = np.array([0, 0, 0, 1]) + 0.1 * draw.normal(size=4)
        place = 0.22 * np.array([k % 2, k // 2 % 2, 0]) + 0.01 * draw.normal(size=3)
        pose = np.r_[place + [0, 0, height + 0.25 * (k // 4)], turn / np.linalg.norm(turn)]
        dtype = states[name].root_pose.dtype
        states[name] = states[name].replace(root_pose=jnp.asarray(pose, dtype))
    return states


def largest_difference(a, b) -> float:
    parts = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(
        float(np.max(np.abs(np.asarray(x, float) - np.asarray(y, float))))
        for x, y in parts
        if np.size(x)
    )


#: Programs are kept by their static arguments: this one tells stacks from bodies written out.
STACKED = artix.SolverOptions(max_newton_steps=artix.SolverOptions().max_newton_steps + 1)
WRITTEN_OUT = artix.SolverOptions()


@pytest.fixture
def stacked(monkeypatch):
    """Has all scenes with pairs stacked, however small."""
    monkeypatch.setattr(contacts, "MOST_VELOCITIES", 0)


def arm() -> artix.Articulation:
    """Two links on a fixed base, with a drive, a limit, and a ball at the end."""
    builder = artix.ArticulationBuilder(name="arm", fixed_base=True)
    builder.add_link(name="base")
    upper = artix.Joint.revolute(
        artix.Axis.SWING1,
        parent_pose=(0.1, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0),
        drive=artix.Drive(stiffness=20.0, damping=2.0),
    )
    lower = artix.Joint.revolute(
        artix.Axis.SWING1,
        parent_pose=(0.0, 0.0, -0.2, 0.0, 0.0, 0.0, 1.0),
        limits=[(-0.5, 0.5)],
    )
    builder.add_link(0, upper, mass=0.5, inertia=(2e-3,) * 3, name="upper")
    builder.add_link(1, lower, mass=0.4, inertia=(2e-3,) * 3, name="lower")
    builder.add_geometry("lower", artix.Geometry.sphere(0.06, friction=0.5), name="shape")
    return builder.build("float64")


def mixed() -> artix.Scene:
    members = {
        "box": body(BOX),
        "other": body(BOX, "another", 2.0),
        "arm": arm(),
        "ball": body(BALL),
        "rod": body(ROD),
    }
    return scene_of(members)


@pytest.mark.slow
def test_stacks_take_the_steps_of_bodies_written_out(monkeypatch) -> None:
    scene = mixed()
    start = artix.remember_contacts(scene, heap(scene), None, 0.005)
    written = jax.jit(lambda s: artix.step_and_report(scene, s, None, 0.005, WRITTEN_OUT))
    starts, expected = [start], []
    for _ in range(60):
        states, report = jax.tree.map(np.asarray, written(starts[-1]))
        starts.append(states)
        expected.append((states, report))
    touched = expected[-1][1].link_contacts.force
    assert np.max(np.abs(touched)) > 1  # The heap has come together.
    monkeypatch.setattr(contacts, "MOST_VELOCITIES", 0)
    stacks = jax.jit(lambda s: artix.step_and_report(scene, s, None, 0.005, STACKED))
    alike = []
    for states, (wanted_states, wanted) in zip(starts[:-1], expected, strict=True):
        states, report = jax.tree.map(np.asarray, stacks(states))
        assert report.is_solved
        # Laws hold to 1e-9 m/s. In a heap that rests on itself impulses are not unique, and heaps
        # are solved with other shares.
        for name in scene.names:
            one, other = states[name], wanted_states[name]
            assert largest_difference(one.root_velocity, other.root_velocity) < 3e-8
            assert largest_difference(one.root_pose, other.root_pose) < 3e-10
        alike.append(largest_difference(states, wanted_states) < 1e-9)
        if alike[-1]:
            wanted = wanted.replace(link_contacts=wanted.link_contacts.replace(residual=0.0))
            report = report.replace(link_contacts=report.link_contacts.replace(residual=0.0))
            assert largest_difference(report, wanted) < 1e-6
    assert all(alike[:20])


@pytest.mark.slow
def test_momentum_and_energy_of_many_balls() -> None:
    scene = scene_of({f"ball {k}": body(BALL) for k in range(14)}, ground=False)
    free = tuple(one.replace(gravity_scale=0 * one.gravity_scale) for one in scene.articulations)
    scene = scene.replace(articulations=free)
    states, draw = heap(scene), np.random.default_rng(3)
    for name in scene.names:
        push = jnp.asarray(np.r_[-2 * states[name].root_pose[:3], draw.normal(size=3)])
        states[name] = states[name].replace(root_velocity=push)

    def momentum(states):
        linear = sum(np.asarray(one.root_velocity[..., :3]) for one in states.values())
        angular = sum(
            np.cross(one.root_pose[..., :3], one.root_velocity[..., :3])
            + 0.007 * np.asarray(one.root_velocity[..., 3:])
            for one in states.values()
        )
        return np.concatenate([linear, angular], axis=-1)

    def energy(states):
        return sum(
            0.5 * np.sum(np.asarray(one.root_velocity[..., :3]) ** 2, axis=-1)
            + 0.0035 * np.sum(np.asarray(one.root_velocity[..., 3:]) ** 2, axis=-1)
            for one in states.values()
        )

    path, report = artix.rollout(scene, states, None, 0.002, num_steps=100, with_report=True)
    after = energy(path)
    assert after[-1] < 0.9 * energy(states)  # They have met.
    assert np.all(np.diff(after) < 1e-9)
    # Linear momentum, and angular momentum up to that of the gaps that close in a step.
    np.testing.assert_allclose(momentum(path)[-1, :3], momentum(states)[:3], rtol=0, atol=1e-9)
    np.testing.assert_allclose(momentum(path)[-1, 3:], momentum(states)[3:], rtol=0, atol=2e-2)
    assert bool(jnp.all(report.is_solved))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_heap_at_rest_weighs_what_it_weighs(dtype) -> None:
    scene = scene_of({f"box {k}": body(BOX) for k in range(16)}).astype(dtype)
    states = scene.neutral_state()
    for k, name in enumerate(scene.names):
        place = (0.25 * (k % 2), 0.25 * (k // 2 % 2), 0.1 + 0.2 * (k // 4), 0.0, 0.0, 0.0, 1.0)
        states[name] = states[name].replace(root_pose=jnp.asarray(place, dtype))
    path, reports = reported_rollout(scene, states, None, 0.005, 200)
    assert bool(jnp.all(reports.is_solved))
    end, report = last((path, reports))
    assert largest_difference(
        {k: v.root_pose for k, v in end.items()}, {k: v.root_pose for k, v in states.items()}
    ) < (1e-9 if dtype == "float64" else 1e-5)
    weight = sum(float(one.contacts.force[:, 2].sum()) for one in report.members.values())
    assert weight == pytest.approx(16 * 9.81, rel=1e-9 if dtype == "float64" else 1e-4)
    assert float(jnp.min(report.link_contacts.gap)) > -1e-5
    assert int(report.link_contacts.omitted) == 0


@pytest.mark.slow
def test_order_of_bodies_and_batches(stacked) -> None:
    """XLA compiles a step of seven bodies in half the time of thirteen."""
    members = {f"body {k}": body([BOX, BALL, ROD][k % 3]) for k in range(7)}
    scene = scene_of(members)
    states = heap(scene)
    turned = scene_of(dict(reversed(members.items())))

    def path(scene, states):
        return artix.rollout(scene, states, None, 0.005, STACKED, num_steps=30)

    wanted, other = path(scene, states), path(turned, states)
    others = {name: other[name] for name in scene.names}
    assert largest_difference(others, {name: wanted[name] for name in scene.names}) < 1e-8
    many_states = jax.tree.map(lambda x: jnp.stack([x, x]), states)
    both = jax.vmap(lambda s: path(scene, s))(many_states)
    assert largest_difference(jax.tree.map(lambda x: x[1], both), wanted) < 1e-8


@pytest.mark.slow
def test_gradients_of_stacks(stacked) -> None:
    scene = scene_of({"a": body(BOX), "b": body(BOX), "c": body(BALL)})
    start = heap(scene, height=0.101)

    def loss(push):
        states = dict(start)
        states["b"] = start["b"].replace(root_velocity=start["b"].root_velocity + push)
        end = artix.rollout(scene, states, None, 0.005, STACKED, num_steps=25)
        weight = jnp.array([1.0, 0.7, 0.3])
        return sum(
            jnp.sum(weight * one.root_pose[-1, :3]) + jnp.sum(one.root_velocity[-1])
            for one in end.values()
        )

    push = jnp.array([-0.3, 0.1, -0.5, 0.2, 0.3, 0.1])
    gradient = jax.jit(jax.grad(loss))(push)
    evaluate = jax.jit(loss)
    differences = [
        (evaluate(push + 1e-6 * axis) - evaluate(push - 1e-6 * axis)) / 2e-6 for axis in np.eye(6)
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_what_a_budget_leaves_out_is_reported(caplog) -> None:
    scene = scene_of({f"ball {k}": body(BALL) for k in range(13)}, max_link_contacts=2)
    states = scene.neutral_state()
    for k, name in enumerate(scene.names):
        pose = jnp.array([0.199 * k, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
        states[name] = states[name].replace(root_pose=pose)
    _, report = artix.step_and_report(scene, states, None, 0.005)
    assert report.link_contacts.gap.shape == (2,)
    assert int(report.link_contacts.omitted) == 10
