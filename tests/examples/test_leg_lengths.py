"""Leg lengths by gradients: dimensions, derivatives, and costs in artix and MuJoCo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.envs import deployment
from artix.envs.tasks.quadruped_velocity import QuadrupedVelocity, quadruped
from artix.examples import deploy_mujoco, leg_lengths, policies

#: A design on the way of the descent.
LENGTHS = (1.05, 0.97)


def test_the_robots_have_these_legs():
    robot = artix.robots.load("quadruped", dtype="float64")
    longer = leg_lengths.designed(robot, jnp.array(LENGTHS))
    state = artix.neutral_state(robot)
    places = (artix.frame_pose(each, state, "rear_left_foot")[:3] for each in (robot, longer))
    np.testing.assert_allclose(np.subtract(*places), [0, 0, 0.21 * (0.05 - 0.03)], atol=1e-12)
    mass = longer.link_mass.sum() - robot.link_mass.sum()
    np.testing.assert_allclose(mass, 4 * (0.05 * 1.0 - 0.03 * 0.2), rtol=1e-12)
    shank = robot.topology.link_names.index("rear_left_shank")
    scale = np.diag(longer.link_inertia[shank]) / np.diag(robot.link_inertia[shank])
    np.testing.assert_allclose(scale, [0.97**3, 0.97**3, 0.97], rtol=1e-12)
    np.testing.assert_allclose(longer.link_com_pose[shank, 2], -0.1 * 0.97, rtol=1e-12)


@pytest.mark.slow
def test_derivatives_of_the_cost_are_differences():
    """Through 120 control steps of policy, 600 physics steps and their contacts."""
    environment, policy = leg_lengths.walker()
    value = jax.vmap(
        lambda lengths: leg_lengths.cost(environment, policy, lengths, jnp.asarray(0.6))[0]
    )
    designs = jnp.array([[1.0, 1.0], LENGTHS, [0.95, 1.0]])
    value, slope = jax.jit(value), jax.jit(lambda x, v: jax.jvp(value, (x,), (v,))[1])
    for axis in np.eye(2):
        direction = jnp.broadcast_to(jnp.asarray(axis), designs.shape)
        difference = (value(designs + 1e-7 * direction) - value(designs - 1e-7 * direction)) / 2e-7
        np.testing.assert_allclose(slope(designs, direction), difference, rtol=1e-6)


def cost_in_mujoco(lengths, speed):
    """The cost of transport from 0.8 s to 2.4 s, by the work of MuJoCo's motors."""
    mujoco = pytest.importorskip("mujoco")
    robot = quadruped("float64")
    articulation = leg_lengths.designed(robot.articulation, jnp.asarray(lengths))
    robot = robot._replace(articulation=articulation)
    environment = QuadrupedVelocity(robot=robot).undisturbed()
    model = mujoco.MjModel.from_xml_string(deployment.scene(environment))
    policy = jax.jit(policies.load("quadruped_velocity"))
    description = deployment.describe(environment)
    log = deploy_mujoco.run(
        model, description, lambda obs: np.asarray(policy(obs)), lambda _: [speed, 0, 0], 2.4
    )
    distance = log["root_pose"][-1, 0] - log["root_pose"][39, 0]
    return np.abs(log["joint_work"][40:]).sum() / (description["mass"] * 9.81 * distance)


@pytest.mark.slow
def test_a_descent_makes_walking_cheaper():
    """Also at other speeds than its own, which the robot still follows; and in MuJoCo."""
    environment, policy = leg_lengths.walker()
    # Walks amplify rounding: after two more steps, designs of two builds differ by 0.5 %.
    designs, costs = jax.jit(lambda: leg_lengths.improve(environment, policy, jnp.ones(2), 6))()
    assert costs[-1] < 0.95 * costs[0]
    speeds = jnp.array([0.5, 0.7, 0.9])
    walks = jax.jit(
        jax.vmap(
            lambda lengths, speed: leg_lengths.cost(environment, policy, lengths, speed), (None, 0)
        )
    )
    (before, _), (after, reached) = (
        walks(lengths, speeds) for lengths in (designs[0], designs[-1])
    )
    assert jnp.mean(after) < 0.945 * jnp.mean(before)
    np.testing.assert_allclose(reached, speeds, atol=0.08)  # The policy's own errors are as large.
    before, after = (
        np.mean([cost_in_mujoco(lengths, float(speed)) for speed in speeds])
        for lengths in (designs[0], designs[-1])
    )
    assert after < 0.97 * before
