"""The hopper: its robot against MuJoCo's, its reward against NumPy, its starts and ends, and its
gradients against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.envs.tasks.hopper import ARMATURE, hopper
from tests.support.episodes import assert_gradients_are_differences, random_episodes

#: Gymnasium's hopper with the foot of DFlex's: DOFs, bodies and shapes.
MJCF = """
<mujoco>
  <compiler angle="degree" inertiafromgeom="true"/>
  <default><joint armature="1" damping="2" axis="0 -1 0"/></default>
  <worldbody>
    <body pos="0 0 1.25">
      <joint type="slide" axis="1 0 0" armature="0" damping="0"/>
      <joint type="slide" axis="0 0 1" armature="0" damping="0" ref="1.25"/>
      <joint axis="0 1 0" armature="0" damping="0"/>
      <geom type="capsule" size="0.05 0.2"/>
      <body pos="0 0 -0.2">
        <joint/><geom type="capsule" size="0.05 0.225" pos="0 0 -0.225"/>
        <body pos="0 0 -0.7">
          <joint pos="0 0 0.25"/><geom type="capsule" size="0.04 0.25"/>
          <body pos="0 0 -0.25">
            <joint/><geom type="capsule" size="0.06 0.195" pos="0.06 0 0" euler="0 -90 0"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_the_robot_is_that_of_gymnasium():
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(MJCF)
    data, robot, rng = mujoco.MjData(model), hopper(jnp.float64), np.random.default_rng(0)
    np.testing.assert_array_equal(robot.friction.viscous, model.dof_damping)
    for _ in range(5):
        position, velocity, force = rng.normal(size=(3, 6))
        data.qpos[:], data.qvel[:] = position + np.eye(6)[1] * 1.25, velocity
        data.qfrc_applied[:] = force
        mujoco.mj_forward(model, data)
        state = artix.neutral_state(robot).replace(
            joint_position=jnp.asarray(position), joint_velocity=jnp.asarray(velocity)
        )
        inertia = artix.mass_matrix(robot, state) + np.diag([0, 0, 0] + [ARMATURE] * 3)
        # MuJoCo's acceleration is of all forces: what it takes is those of the bias and damping.
        wanted = force - model.dof_damping * velocity - np.asarray(data.qfrc_bias)
        np.testing.assert_allclose(inertia @ data.qacc, wanted, rtol=1e-9, atol=1e-9)
        bias = artix.inverse_dynamics(robot, state, jnp.zeros(6))
        np.testing.assert_allclose(bias, data.qfrc_bias, rtol=1e-10, atol=1e-10)


@pytest.fixture(scope="module")
def environment():
    return envs.make("hopper", dtype="float64", episode_length=200)


@pytest.fixture(scope="module")
def episodes(environment):
    """128 robots, first and after each of 100 control steps under random torques."""
    return random_episodes(environment, 128, 100, 0.4)


@pytest.mark.slow
def test_it_starts_within_its_limits_and_above_the_ground(environment, episodes):
    robot, first = environment.articulation, episodes[0].articulation_state
    position = np.asarray(first.joint_position)
    assert np.all(position >= robot.joint_lower_limit)
    assert np.all(position <= robot.joint_upper_limit)
    assert np.max(np.abs(position)) < 0.05 and np.max(np.abs(first.joint_velocity)) < 0.05
    scene = artix.Scene(robot, ground=environment.ground)
    gaps = jax.vmap(lambda state: artix.ground_contacts(scene, state).contacts.gap)
    assert np.min(gaps(first)) > 0.01
    assert np.all(np.std(position, axis=0) > 0.01)


def test_a_step_earns_speed_height_and_angle_less_the_effort(environment, episodes):
    _, after, action = episodes
    _, height, angle, *_ = np.moveaxis(np.asarray(after.articulation_state.joint_position), -1, 0)
    speed = np.asarray(after.articulation_state.joint_velocity)[..., 0]
    above = 1.25 + height - 0.95
    upright = 1 - (np.degrees(angle) / 30) ** 2
    tall = np.where(above > 0.3, 0.3, np.where(above > 0, above, -200 * above**2))
    wanted = speed + tall + upright - 0.1 * np.sum(np.asarray(action) ** 2, axis=-1)
    np.testing.assert_allclose(after.reward, wanted, rtol=1e-12, atol=1e-14)
    assert np.any(above < 0) and np.any(above > 0.3)
    np.testing.assert_array_equal(after.done, 1.25 + height < 0.8)
    assert 0 < np.mean(after.done) < 1
    q, v = after.articulation_state.joint_position, after.articulation_state.joint_velocity
    np.testing.assert_array_equal(after.obs, jnp.concatenate([q[..., 1:], v], axis=-1))


@pytest.mark.slow
def test_its_gradients_are_differences(environment, episodes):
    """Of a control step, of robots that fly, stand and fall; with steps that are solved."""
    _, after, action = episodes
    options = artix.SolverOptions(max_newton_steps=60)
    solved = envs.make("hopper", dtype="float64", solver_options=options)
    rows = slice(10, 40, 10)
    states, actions = jax.tree.map(
        lambda x: x[rows, :32].reshape(-1, *x.shape[2:]), (after, 0.9 * action)
    )
    assert_gradients_are_differences(solved, states, actions)
