"""Steps with the nearest contacts of a robot that has shapes all over: those of a robot that has no
others."""

from __future__ import annotations

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.contact.selection import lowest

GROUND = artix.Ground.flat(friction=0.8)


@pytest.fixture(scope="module")
def robots() -> tuple[artix.Articulation, artix.Articulation]:
    """A quadruped on its feet, and the same with a sphere on each other link."""
    robot = artix.robots.load("quadruped")
    builder = artix.builder_from_articulation(robot)
    for name in robot.topology.link_names:
        if not name.endswith("foot"):
            builder.add_geometry(name, artix.Geometry.sphere(0.01, friction=0.3))
    drives = robot.drive.replace(stiffness=jnp.full(12, 200.0), damping=jnp.full(12, 10.0))
    return robot.replace(drive=drives), builder.build(robot.dtype).replace(drive=drives)


def standing(robot: artix.Articulation) -> tuple[artix.State, artix.Control]:
    """A tenth of a millimetre above the ground, moving sideways."""
    bent = jnp.array([0.0] * 4 + [0.8] * 4 + [-1.5] * 4, robot.dtype)
    state = artix.neutral_state(robot).replace(joint_position=bent)
    low = jnp.min(artix.geometry_distances(robot, state, GROUND))
    state = state.replace(root_pose=state.root_pose.at[2].add(1e-4 - low))
    return state.replace(root_velocity=state.root_velocity.at[1].set(0.3)), artix.Control(
        drive_target=bent
    )


@pytest.mark.slow
def test_steps_are_those_of_a_robot_without_the_other_shapes(robots, caplog) -> None:
    """Forces, motion and memory over twenty steps, in which the feet land and slide."""
    few, many = robots
    state, control = standing(few)
    options, every = (
        artix.SolverOptions(solver="newton", max_ground_contacts=most) for most in (4, None)
    )
    with caplog.at_level(logging.WARNING, logger="artix"):
        found = artix.rollout(many, state, control, 0.005, options, num_steps=20, ground=GROUND)
    assert "max_ground_contacts=4 keeps the nearest" in caplog.text
    wanted = artix.rollout(few, state, control, 0.005, every, num_steps=20, ground=GROUND)
    np.testing.assert_allclose(found.joint_position, wanted.joint_position, atol=1e-8)
    np.testing.assert_allclose(found.root_velocity, wanted.root_velocity, atol=1e-7)
    last = jax.tree.map(lambda x: x[-1], wanted)
    (_, told), (_, expected) = (
        artix.step_and_report(one, last, control, 0.005, chosen, ground=GROUND)
        for one, chosen in ((many, options), (few, every))
    )
    assert len(told.contacts.geometries) == len(many.topology.geometries)
    np.testing.assert_allclose(told.contacts.link_force, expected.contacts.link_force, atol=1e-6)
    assert float(expected.contacts.link_force[:, 2].sum()) > 10.0
    feet = np.isin(told.contacts.links, expected.contacts.links)
    np.testing.assert_allclose(told.contacts.force[feet], expected.contacts.force, atol=1e-6)
    assert not np.any(told.contacts.force[~feet])
    assert told.contacts.omitted == 0


@pytest.mark.slow
def test_what_is_left_out_is_counted(robots) -> None:
    _, many = robots
    state, control = standing(many)
    low = state.replace(root_pose=state.root_pose.at[2].add(-2e-3))
    scene = artix.Scene(many, ground=GROUND, max_ground_contacts=2)
    _, report = artix.step_and_report(scene, low, control, 0.005)
    assert report.contacts.omitted == 2


@pytest.mark.slow
def test_derivatives_are_those_of_a_robot_without_the_other_shapes(robots) -> None:
    few, many = robots
    state, control = standing(few)
    state = state.replace(root_pose=state.root_pose.at[2].add(-1e-4))

    def speed(robot, options):
        def value(velocity):
            start = state.replace(joint_velocity=velocity)
            return jnp.sum(
                artix.step(robot, start, control, 0.005, options, ground=GROUND).root_velocity
            )

        return jax.jit(jax.grad(value))(state.joint_velocity + 0.1)

    found, wanted = (
        speed(many, artix.SolverOptions(max_ground_contacts=4)),
        speed(few, artix.SolverOptions()),
    )
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    assert np.max(np.abs(wanted)) > 1e-3


@pytest.mark.slow
def test_a_budget_is_told_of(caplog) -> None:
    builder = artix.ArticulationBuilder(name="hedgehog")
    builder.add_link(mass=1.0, inertia=(1e-2, 1e-2, 1e-2), name="body")
    for k in range(65):
        builder.add_geometry("body", artix.Geometry.sphere(0.01, position=(0.01 * k, 0.0, 0.0)))
    robot = builder.build()
    state = artix.neutral_state(robot)
    with caplog.at_level(logging.WARNING, logger="artix"):
        for most in (None, 65, 3):
            scene = artix.Scene(robot, ground=GROUND, max_ground_contacts=most)
            jax.make_jaxpr(lambda state, scene=scene: artix.step(scene, state, None, 0.005))(state)
    assert "max_ground_contacts=3 keeps the nearest" in caplog.text
    assert caplog.text.count("keeps the nearest") == 1


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 46, 100])
def test_the_lowest_columns_in_order(count: int) -> None:
    generator = np.random.default_rng(count)
    heights = generator.integers(0, count, count).astype("float32")  # Many are equal.
    columns = np.stack([heights, generator.normal(size=count), np.arange(count)])
    expected = columns[:, np.argsort(heights, kind="stable")]
    numbers = sorted({1, min(4, count), min(16, count)})
    select = jax.jit(lambda columns: [lowest(columns, most) for most in numbers])
    for most, found in zip(numbers, select(columns), strict=True):
        np.testing.assert_array_equal(found, expected[:, :most])
