"""Steps of a robot with shapes all over, first with the nearest few: those with all at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.simulation.contacts import touching_of

GROUND = artix.Ground.flat(friction=0.8)
DT = 0.005


@pytest.fixture(scope="module")
def robot() -> artix.Articulation:
    """A quadruped with three spheres on each link that is no foot, 46 in all."""
    one = artix.robots.load("quadruped", dtype=jnp.float64)
    builder = artix.builder_from_articulation(one)
    for name in one.topology.link_names:
        if not name.endswith("foot"):
            for place in (-0.04, 0.0, 0.04):
                sphere = artix.Geometry.sphere(0.02, position=(place, 0.0, 0.0))
                builder.add_geometry(name, sphere)
    bent = jnp.array([0.0] * 4 + [0.8] * 4 + [-1.5] * 4)
    drives = one.drive.replace(
        stiffness=jnp.full(12, 200.0), damping=jnp.full(12, 10.0), target_position=bent
    )
    return builder.build(jnp.float64).replace(drive=drives)


@pytest.fixture(scope="module")
def states(robot: artix.Articulation) -> artix.State:
    """Four on their feet, sliding, and four on their sides, after they have fallen a little."""
    bent = robot.drive.target_position
    neutral = artix.neutral_state(robot).replace(joint_position=bent)
    every = []
    for number, key in enumerate(jax.random.split(jax.random.key(0), 8)):
        state = neutral.replace(
            joint_position=bent + 0.02 * jax.random.normal(key, (12,), jnp.float64)
        )
        if number >= 4:
            turn = jnp.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
            state = state.replace(root_pose=state.root_pose.at[3:].set(turn))
        low = jnp.min(artix.geometry_distances(artix.Scene(robot, ground=GROUND), state))
        state = state.replace(root_pose=state.root_pose.at[2].add(1e-4 - low))
        every.append(state.replace(root_velocity=state.root_velocity.at[1].set(0.3)))
    return jax.tree.map(lambda *each: jnp.stack(each), *every)


def scenes(robot: artix.Articulation) -> tuple[artix.Scene, artix.Scene]:
    """Without a budget, and with one that is no less than all points."""
    return (
        artix.Scene(robot, ground=GROUND),
        artix.Scene(robot, ground=GROUND, max_ground_contacts=46),
    )


def last_of(scene: artix.Scene, states: artix.State, count: int) -> artix.State:
    step = jax.jit(jax.vmap(lambda state: artix.step(scene, state, None, DT)))
    for _ in range(count):
        states = step(states)
    return states


@pytest.mark.slow
def test_steps_reports_and_memory_are_those_with_all_points(robot, states) -> None:
    """Forces within 1e-6 N, also where many points push, which the nearest few are not all of."""
    first, every = scenes(robot)
    later = last_of(every, states, 40)
    later = jax.vmap(lambda state: artix.remember_contacts(every, state))(later)
    (found, told), (wanted, expected) = (
        jax.jit(jax.vmap(lambda state, one=one: artix.step_and_report(one, state, None, DT)))(later)
        for one in (first, every)
    )
    pushes = np.sum(np.asarray(expected.contacts.force[..., 2]) > 1e-6, axis=1)
    assert np.min(pushes) <= 8 < np.max(pushes)
    for name in ("root_pose", "root_velocity", "joint_velocity"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-9)
    np.testing.assert_allclose(told.contacts.force, expected.contacts.force, atol=1e-6)
    impulses = found.contact_memory.impulse, wanted.contact_memory.impulse
    np.testing.assert_allclose(*impulses, atol=1e-8)
    assert np.all(told.is_solved == expected.is_solved)
    np.testing.assert_allclose(told.contacts.residual, expected.contacts.residual, atol=1e-8)


@pytest.mark.slow
def test_derivatives_are_those_with_all_points(robot, states) -> None:
    """In reverse mode; and those of finite differences on four feet. Where robots lie, the laws leave
    velocities open, and differences tell how the solution depends on where the solver starts.
    """
    first, every = scenes(robot)
    later = last_of(every, states, 40)

    def height(scene: artix.Scene, velocity: jax.Array, state: artix.State) -> jax.Array:
        end = artix.step(scene, state.replace(joint_velocity=velocity), None, DT)
        return jnp.sum(end.root_velocity) + jnp.sum(end.joint_velocity**2)

    speed = later.joint_velocity + 0.05
    found, wanted = (
        jax.jit(jax.vmap(jax.grad(lambda v, s, one=one: height(one, v, s))))(speed, later)
        for one in (first, every)
    )
    np.testing.assert_allclose(found, wanted, atol=1e-7)
    value = jax.jit(jax.vmap(lambda v, s: height(first, v, s)))
    direction = np.random.default_rng(0).normal(size=12)
    change = value(speed + 1e-6 * direction, later) - value(speed - 1e-6 * direction, later)
    np.testing.assert_allclose((found @ direction)[:4], change[:4] / 2e-6, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("links", "is_tried"), [(40, True), (100, False)])
def test_large_trees_solve_for_all_points_at_once(links: int, is_tried: bool) -> None:
    """Rows of 105 DOFs for chosen points would be more than those of a hundred known ones."""
    builder = artix.ArticulationBuilder()
    for number in range(links):
        parent = number - 1 if number else None
        joint = artix.Joint.revolute() if number else None
        link = builder.add_link(parent, joint, mass=1.0, inertia=(0.01, 0.01, 0.01))
        builder.add_geometry(link, artix.Geometry.sphere(0.02))
    chain = builder.build(jnp.float64)
    scene, state = artix.Scene(chain, ground=GROUND), artix.neutral_state(chain)
    touching = touching_of(scene, [state], artix.SolverOptions(), None)
    assert (touching.nearest is not None) == is_tried
