"""Ellipsoids on, under and between other shapes, against closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Axis, Control, Geometry, Joint, Scene
from tests.simulation.test_cylinders import BLOCKS, at, fixed

GRAVITY, DT = 9.81, 0.005
MASS = 1.0


def egg(semi_axes, dtype: str, friction: float = 0.8, restitution: float = 0.0):
    """A homogeneous ellipsoid, a sensor for the ground."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name="egg")
    square = np.square(semi_axes)
    inertia = MASS / 5 * (np.sum(square) - square)
    builder.add_link(mass=MASS, inertia=tuple(inertia), name="egg", angular_damping=0.0)
    shape = Geometry.ellipsoid(semi_axes, friction=friction, restitution=restitution, sensor=True)
    builder.add_geometry("egg", shape, name="shape")
    return builder.build(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("block", list(BLOCKS))
def test_an_egg_rocks_on_a_box(block: str) -> None:
    """On its flat side, as fast as its curvature says: the height of the centre above the contact
    restores it, ``(I + m c^2) theta'' = -m g (a^2 / c - c) theta``."""
    a, c = 0.2, 0.1
    top = BLOCKS[block]((1.0, 1.0, 0.1), friction=1.0)
    members = {"base": fixed({"top": top}, "float64"), "egg": egg((a, a, c), "float64", 1.0)}
    scene = Scene(members, pairs=[("egg/shape", "base/top")])
    tilt, states = 0.01, scene.neutral_state()
    # The lowest point of a tilted ellipsoid is this far below its centre.
    height = 0.1 + np.hypot(c * np.cos(tilt), a * np.sin(tilt))
    turn = (0.0, np.sin(tilt / 2), 0.0, np.cos(tilt / 2))
    states["egg"] = at(states["egg"], (0.0, 0.0, height), turn)
    dt, steps = 1e-3, 1000
    path = jax.jit(lambda s: artix.rollout(scene, s, None, dt, num_steps=steps))(states)["egg"]
    angle = 2 * np.asarray(path.root_pose[:, 4])
    crossings = np.flatnonzero(angle[1:] * angle[:-1] < 0)
    measured = np.pi * (len(crossings) - 1) / (dt * (crossings[-1] - crossings[0]))
    inertia = MASS / 5 * (a**2 + c**2) + MASS * c**2
    wanted = np.sqrt(MASS * GRAVITY * (a**2 / c - c) / inertia)
    np.testing.assert_allclose(measured, wanted, rtol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("block", list(BLOCKS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_pads_hold_an_egg(dtype: str, block: str) -> None:
    """From 1.05 times the force that its weight needs; at 0.95 times it slides as the closed form
    says."""
    half = 0.04
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0, 0, -GRAVITY), name="hand")
    builder.add_link(name="palm")
    for side, name in ((-1, "left"), (1, "right")):
        slide = Joint.prismatic(Axis.Y, parent_pose=(0, (half + 0.01) * side, 0, 0, 0, 0, 1))
        builder.add_link("palm", slide, mass=0.1, inertia=(1e-4,) * 3, name=name)
        builder.add_geometry(name, BLOCKS[block]((0.03, 0.01, 0.03), friction=0.8), name=name)
    members = {"hand": builder.build(dtype), "egg": egg((0.03, half, 0.06), dtype)}
    scene = Scene(members, pairs=[("egg/shape", "hand/left"), ("egg/shape", "hand/right")])
    states, needed = scene.neutral_state(), MASS * GRAVITY / (2 * 0.8)

    def run(factor):
        control = {"hand": Control(joint_force=factor * needed * jnp.array([1.0, -1.0], dtype))}
        return artix.rollout(scene, states, control, DT, num_steps=200)["egg"]

    path = jax.jit(jax.vmap(run))(jnp.array([0.95, 1.05, 3.0], dtype))
    moved = np.abs(path.root_pose[1:, :, :3] - states["egg"].root_pose[:3])
    assert np.max(moved) < {"float32": 1e-6, "float64": 1e-12}[dtype]
    speed = -0.05 * GRAVITY * 20 * DT
    np.testing.assert_allclose(path.root_velocity[0, 19, 2], speed, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eggs_that_meet_keep_their_momentum(dtype: str) -> None:
    """Linear and angular momentum, and without friction and with restitution 1 their energy."""
    members = {
        "a": egg((0.1, 0.06, 0.08), dtype, 0.0, 1.0),
        "b": egg((0.05, 0.12, 0.07), dtype, 0.0, 1.0),
    }
    members = {name: robot.replace(gravity=0 * robot.gravity) for name, robot in members.items()}
    scene = Scene(members, pairs=[("a/shape", "b/shape")])
    states = scene.neutral_state()
    states["a"] = at(
        states["a"], (-0.3, 0.02, 0.03), np.array([0.1, 0.5, -0.3, 0.8]) / np.sqrt(0.99)
    )
    states["b"] = at(
        states["b"], (0.3, -0.01, 0.0), np.array([0.4, -0.2, 0.1, 0.9]) / np.sqrt(1.02)
    )
    velocity = jnp.array([1.0, 0.0, 0.0, 0.5, -1.0, 2.0], dtype)
    states["a"] = states["a"].replace(root_velocity=velocity)
    states["b"] = states["b"].replace(root_velocity=-0.7 * velocity)

    def quantities(states):
        linear, angular, energy = 0.0, 0.0, 0.0
        for name, robot in members.items():
            state = states[name]
            speed = MASS * state.root_velocity[:3]
            spin = artix.centroidal_momentum(robot, state)[3:]
            linear += speed
            angular += spin + jnp.cross(state.root_pose[:3], speed)
            energy += artix.kinetic_energy(robot, state)
        return jnp.concatenate([linear, angular, energy[None]])

    path = jax.jit(lambda s: artix.rollout(scene, s, None, 1e-3, num_steps=600))(states)
    end = jax.tree.map(lambda x: x[-1], path)
    before, after = quantities(states), quantities(end)
    tolerance = {"float32": 3e-5, "float64": 1e-9}[dtype]
    assert np.max(np.abs(end["a"].root_velocity - velocity)) > 0.3
    np.testing.assert_allclose(after[:6], before[:6], atol=tolerance)
    # A free body that turns keeps its energy to the first order of the time step.
    np.testing.assert_allclose(after[6], before[6], rtol=3e-3)


@pytest.mark.slow
def test_several_eggs_are_one_kernel() -> None:
    """Also pairs of the same kinds, each of which searches for as long as it has to."""
    top = Geometry.box((1.0, 1.0, 0.1), friction=1.0)
    one = egg((0.1, 0.06, 0.08), "float32")
    members = {"base": fixed({"top": top}, "float32"), "a": one, "b": one}
    pairs = [("a/shape", "base/top"), ("b/shape", "base/top"), ("a/shape", "b/shape")]
    scene = Scene(members, pairs=pairs)
    costs = artix.explain(artix.step, scene, scene.neutral_state(), None, DT).operations
    assert costs and not any(cost.refusal for cost in costs)
