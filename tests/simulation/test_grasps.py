"""Grasps by friction alone: what closed forms say is held stays to rounding, and what is not slides
as they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Control, Geometry
from tests.support import held_bodies
from tests.support.held_bodies import FRICTION, GRAVITY, WEIGHT

DT, STEPS = 0.005, 1000  # 5 s

#: Forces, as multiples of what is needed.
FACTORS = (0.95, 1.05, 1.2, 1.5, 3.0)

#: How far what is held may move in 5 s [m].
STILL = {"float64": 1e-12, "float32": 1e-7}


def after(grasp: Callable[[Any], tuple], name: str, dtype: str) -> tuple[artix.State, artix.State]:
    """The start and the path of a body under all factors; ``grasp`` gives a scene, states and
    controls."""

    def run(factor):
        scene, states, controls = grasp(factor)
        return states[name], artix.rollout(scene, states, controls, DT, num_steps=STEPS)[name]

    return jax.jit(jax.vmap(run))(jnp.array(FACTORS, dtype))


def check(start: artix.State, path: artix.State, dtype: str) -> None:
    """The first factor does not hold the body, the others do."""
    moved = np.asarray(path.root_pose - start.root_pose[:, None], float)
    assert np.max(np.abs(moved[1:])) < STILL[dtype]
    assert moved[0, 40, 2] < -1e-4


def falls(path: artix.State, dtype: str) -> None:
    """With 5 % too little force, 5 % of the weight is left. After 0.1 s the pads still hold the
    body."""
    expected = -(1 - FACTORS[0]) * GRAVITY * 20 * DT
    tolerance = {"float64": 1e-8, "float32": 1e-3}[dtype]
    np.testing.assert_allclose(path.root_velocity[0, 19, 2], expected, rtol=tolerance)


DTYPES = ["float32", pytest.param("float64", marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_three_fingers_hold_a_sphere(dtype: str) -> None:
    """Each has one contact, on the equator."""
    scene, states = held_bodies.three_fingers(Geometry.sphere(0.03, friction=FRICTION), 0.03, dtype)
    force = WEIGHT / (3 * FRICTION)
    start, path = after(
        lambda factor: (scene, states, held_bodies.inwards(factor * force)), "body", dtype
    )
    check(start, path, dtype)
    falls(path, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_three_fingers_hold_a_cylinder(dtype: str) -> None:
    """By the side of a capsule, with two contacts each."""
    shape = Geometry.capsule(0.03, 0.05, friction=FRICTION)
    scene, states = held_bodies.three_fingers(shape, 0.03, dtype)
    force = WEIGHT / (3 * FRICTION)
    start, path = after(
        lambda factor: (scene, states, held_bodies.inwards(factor * force)), "body", dtype
    )
    check(start, path, dtype)
    falls(path, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offset", "degrees", "dtype", "as_hull"),
    [
        (0.008, 0.0, "float64", False),
        (0.0, 45.0, "float32", False),
        (0.006, 30.0, "float64", False),
        (0.006, 30.0, "float32", False),
        (0.0, 0.0, "float64", True),
        (0.006, 30.0, "float64", True),
        (0.006, 30.0, "float32", True),
    ],
)
def test_pads_off_centre_and_turned(
    offset: float, degrees: float, dtype: str, as_hull: bool
) -> None:
    """Friction of the pads' corners bears the weight and its moment, of a box and of a hull."""
    turn = np.deg2rad(degrees)
    force = held_bodies.needed_by_pads(offset, turn)
    assert force >= WEIGHT / (2 * FRICTION) * (1 - 1e-9)  # what the weight alone needs
    scene, states = held_bodies.pads(turn, dtype, as_hull=as_hull)
    pose = states["cube"].root_pose.at[0].set(offset)
    states["cube"] = states["cube"].replace(root_pose=pose)
    presses = jnp.array([force, -force], dtype)
    too_little = FACTORS[0] * held_bodies.least_of_pads(offset, turn) / force

    def grasp(factor):
        factor = jnp.where(factor < 1, jnp.asarray(too_little, dtype), factor)
        return scene, states, {"hand": Control(joint_force=factor * presses)}

    start, path = after(grasp, "cube", dtype)
    check(start, path, dtype)
    if not offset:
        falls(path, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("offset", "degrees"), [(0.0, 45.0), pytest.param(0.006, 30.0, marks=pytest.mark.slow)]
)
def test_steps_without_a_memory_hold(offset: float, degrees: float, dtype: str) -> None:
    """Each step shares the loads anew, equally. In float32 the cube moves by less than the
    penetration that is allowed; it fell before closed contacts were those that push first."""
    turn = np.deg2rad(degrees)
    scene, states = held_bodies.pads(turn, dtype)
    pose = states["cube"].root_pose.at[0].set(offset)
    states["cube"] = states["cube"].replace(root_pose=pose)
    presses = held_bodies.needed_by_pads(offset, turn) * jnp.array([1.0, -1.0], dtype)

    def poses(factor):
        control = {"hand": Control(joint_force=factor * presses)}

        def step(states, _):
            states = artix.step(scene, states, control, DT)
            return states, states["cube"].root_pose

        return jax.lax.scan(step, states, length=STEPS)[1]

    path = jax.jit(jax.vmap(poses))(jnp.array(FACTORS[1:], dtype))
    assert jnp.max(jnp.abs(path - pose)) < {"float64": 1e-12, "float32": 1e-5}[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_peg_is_held_in_a_hole(dtype: str) -> None:
    """The hole is too tight by as much as four compliant walls with four contacts each need to hold
    the peg."""
    stiffness = 1e4
    depth = WEIGHT / (16 * stiffness * FRICTION)

    def grasp(factor):
        return *held_bodies.peg(factor * depth, dtype, stiffness), None

    start, path = after(grasp, "peg", dtype)
    moved = np.asarray(path.root_pose - start.root_pose[:, None], float)
    # Rounding of poses in float32 shows in depths of 20 um.
    assert np.max(np.abs(moved[1:])) < {"float64": 1e-11, "float32": 1e-7}[dtype]
    expected = -(1 - FACTORS[0]) * GRAVITY * 20 * DT
    np.testing.assert_allclose(
        path.root_velocity[0, 19, 2], expected, rtol={"float64": 1e-6, "float32": 5e-3}[dtype]
    )


@pytest.mark.slow
def test_gradients_of_500_steps() -> None:
    """One pad presses harder, so that hand and cube accelerate together; the derivative of the
    motion is known."""
    scene, states = held_bodies.pads(0.0, "float64")
    force, steps = 3 * WEIGHT / (2 * FRICTION), 500

    def place(share):
        controls = {"hand": Control(joint_force=force * jnp.stack([1 + share, -jnp.ones(())]))}
        end = artix.rollout(scene, states, controls, DT, num_steps=steps)["cube"]
        return end.root_pose[-1, 1]

    value, slope = jax.jit(jax.value_and_grad(place))(jnp.asarray(0.01))
    mass = held_bodies.MASS + 2 * 0.1
    exact = force / mass * DT**2 * steps * (steps + 1) / 2
    np.testing.assert_allclose(value, 0.01 * exact, rtol=1e-8)
    np.testing.assert_allclose(slope, exact, rtol=1e-8)
