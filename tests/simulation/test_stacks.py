"""Stacks and a house of cards stay for as long as statics say, and equal corners carry equal loads
at once."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Control, Geometry, Ground, Scene

GRAVITY = 9.81
DT = 0.005


def box(
    half, name: str, dtype: str, *, mass: float = 1.0, friction: float = 0.6, sensor: bool = False
):
    """A homogeneous box."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name=name)
    x, y, z = half
    inertia = tuple(mass / 3 * np.array([y * y + z * z, x * x + z * z, x * x + y * y]))
    builder.add_link(mass=mass, inertia=inertia, name=name, angular_damping=0.0)
    builder.add_geometry(name, Geometry.box(half, friction=friction, sensor=sensor), name="shape")
    return builder.build(dtype)


def at(body: artix.Articulation, place, turn=(0.0, 0.0, 0.0, 1.0)) -> artix.State:
    state = artix.neutral_state(body)
    return state.replace(root_pose=jnp.array([*place, *turn], body.dtype))


def stack(
    half, masses, dtype: str, order=None, shift: float = 0.0
) -> tuple[Scene, dict[str, artix.State]]:
    """Boxes on each other, from the lowest, which alone touches the ground; the scene has them in
    another order."""
    names = [f"box{k}" for k in range(len(masses))]
    bodies = {
        name: box(half, name, dtype, mass=mass, sensor=name != "box0")
        for name, mass in zip(names, masses, strict=True)
    }
    pairs = [(f"{above}/shape", f"{below}/shape") for below, above in itertools.pairwise(names)]
    order = range(len(names)) if order is None else order
    members = {names[k]: bodies[names[k]] for k in order}
    pairs = [pairs[k] for k in order if k < len(pairs)]
    scene = Scene(members, pairs=pairs, ground=Ground.flat(friction=0.6).astype(dtype))
    states = {
        name: at(bodies[name], (shift * (-1) ** k, 0.3 * shift * k, half[2] * (2 * k + 1)))
        for k, name in enumerate(names)
    }
    return scene, states


def drifts(scene: Scene, states: dict[str, artix.State], steps: int = 400) -> tuple[float, float]:
    """How far the bodies move in all, and in the second half."""
    path = jax.jit(lambda: artix.rollout(scene, states, None, DT, num_steps=steps))()
    paths = np.stack([np.asarray(path[name].root_pose, float) for name in scene.names])
    starts = np.stack([np.asarray(states[name].root_pose, float) for name in scene.names])
    return np.max(np.abs(paths[:, -1] - starts)), np.max(
        np.abs(paths[:, -1] - paths[:, steps // 2])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("half", "count", "dtype"),
    [
        ((0.05,) * 3, 10, "float32"),
        ((0.05,) * 3, 10, "float64"),
        ((0.1, 0.1, 0.0025), 5, "float32"),
    ],
    ids=["ten boxes, float32", "ten boxes, float64", "thin plates, float32"],
)
def test_a_stack_stays(half, count: int, dtype: str) -> None:
    """For 2 s, off centre. What a body drifts in the second half, it would drift ten times in 10
    s."""
    scene, states = stack(half, (1.0,) * count, dtype, shift=0.003)
    moved, late = drifts(scene, states)
    assert moved < {"float64": 1e-12, "float32": 2e-6}[dtype]
    assert 10 * late < {"float64": 1e-12, "float32": 1e-5}[dtype]


def house(angle: float, friction: float, dtype: str) -> tuple[Scene, dict[str, artix.State]]:
    """Two cards that lean by an angle against an upright one, from both sides."""
    half = thickness, _, height = 0.002, 0.05, 0.1
    names = ("left", "middle", "right")
    cards = {name: box(half, name, dtype, mass=0.1, friction=friction) for name in names}
    sine, cosine = np.sin(angle), np.cos(angle)
    reach, above = thickness * (1 + cosine) + height * sine, thickness * sine + height * cosine
    turn = np.sin(angle / 2)
    states = {
        "left": at(cards["left"], (-reach, 0, above), (0, turn, 0, np.cos(angle / 2))),
        "middle": at(cards["middle"], (0, 0, height)),
        "right": at(cards["right"], (reach, 0, above), (0, -turn, 0, np.cos(angle / 2))),
    }
    pairs = [("left/shape", "middle/shape"), ("right/shape", "middle/shape")]
    return Scene(cards, pairs=pairs, ground=Ground.flat(friction=friction).astype(dtype)), states


def needed_friction(angle: float) -> float:
    """The friction that a leaning card needs at both of its edges, which slip together: the
    ladder's closed form.

    Forces of the floor ``(F, N)`` and of the wall ``(-N2, mu N2)``: ``F = mu N = N2`` and
    ``N + mu N2 = W`` give ``N = W / (1 + mu^2)``. Moments about the lower edge:
    ``W a = N2 b + mu N2 c``, with the centre ``a`` beside it and the upper edge ``b`` above and
    ``c`` beside it.
    """
    thickness, height = 0.002, 0.1
    sine, cosine = np.sin(angle), np.cos(angle)
    beside, up, along = height * sine - thickness * cosine, 2 * height * cosine, 2 * height * sine
    # W a = mu N (b + mu c) with N = W / (1 + mu^2): a (1 + mu^2) = mu b + mu^2 c
    roots = np.roots([along - beside, up, -beside])
    return float(roots[roots > 0][0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_house_of_cards_stands_by_friction(dtype: str) -> None:
    """With 5 % more friction than a leaning card needs it stands, with 5 % less it slides apart."""
    angle = 0.35
    least = needed_friction(angle)

    def run(factor):
        scene, states = house(angle, 1.0, dtype)
        friction = factor * least
        ground = scene.ground.replace(
            surfaces=(scene.ground.surfaces[0].replace(friction=friction),)
        )
        cards = []
        for card in scene.articulations:
            geometry = card.geometry
            cards.append(
                card.replace(
                    geometry=geometry.replace(friction=friction * jnp.ones_like(geometry.friction))
                )
            )
        scene = scene.replace(articulations=tuple(cards), ground=ground)
        path = artix.rollout(scene, states, None, DT, num_steps=400)
        poses = jnp.stack([path[name].root_pose for name in scene.names])
        return poses - jnp.stack([states[name].root_pose for name in scene.names])[:, None]

    moved = jax.jit(jax.vmap(run))(jnp.array([0.95, 1.05, 1.5], dtype))
    moved = np.abs(np.asarray(moved, float)).max(axis=(1, 3))
    assert moved[1:].max() < {"float64": 1e-12, "float32": 1e-6}[dtype]
    assert moved[0, 40] > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "dtype"), [((0, 1, 2), "float64"), ((2, 0, 1), "float64"), ((2, 0, 1), "float32")]
)
def test_corners_are_equal_without_a_memory(order, dtype: str) -> None:
    """In the first step, whatever the order of bodies and pairs."""
    masses = np.array([3.0, 1.0, 2.0])
    scene, states = stack((0.05, 0.05, 0.05), masses, dtype, order)
    first = jax.jit(lambda: artix.remember_contacts(scene, states, None, DT, repetitions=1))()
    for k in range(3):
        normal = np.asarray(first[f"box{k}"].contact_memory.impulse[:, 2], float)
        loaded = np.sort(normal)[-4:]  # Of the lowest box, four corners are up.
        tolerance = {"float64": 1e-8, "float32": 1e-3}[dtype]
        np.testing.assert_allclose(loaded, masses[k:].sum() * GRAVITY * DT / 4, rtol=tolerance)
        assert len(normal) == (8 if k == 0 else 4)


@pytest.mark.slow
def test_gradients_of_500_steps() -> None:
    """A push moves a stack of three as a whole; the derivative of its motion is known."""
    masses, steps = (3.0, 2.0, 1.0), 500
    scene, states = stack((0.05, 0.05, 0.05), masses, "float64")

    def place(push):
        controls = {"box0": Control(external_force=jnp.zeros((1, 6)).at[0, 1].set(push))}
        end = artix.rollout(scene, states, controls, DT, num_steps=steps)
        return end["box2"].root_pose[-1, 1]

    push, held = 45.0, 0.6 * sum(masses) * GRAVITY
    value, slope = jax.jit(jax.value_and_grad(place))(jnp.asarray(push))
    exact = DT**2 * steps * (steps + 1) / 2 / sum(masses)
    np.testing.assert_allclose(value, (push - held) * exact, rtol=1e-6)
    np.testing.assert_allclose(slope, exact, rtol=1e-6)
