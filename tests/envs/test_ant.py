"""The ant: its robot against MuJoCo's, its reward against SciPy, its starts and ends, and its
gradients against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import artix
from artix import envs
from artix.envs.tasks.ant import ARMATURE, SLIP, ant, limits
from tests.support.episodes import assert_gradients_are_differences, random_episodes


def leg(name: str, x: int, y: int, bend: str) -> str:
    """A leg of Gymnasium's ant."""
    return f"""
      <body pos="{0.2 * x} {0.2 * y} 0">
        <joint name="{name}_hip" axis="0 0 1" range="-40 40"/>
        <geom type="capsule" size="0.08" fromto="0 0 0 {0.2 * x} {0.2 * y} 0"/>
        <body pos="{0.2 * x} {0.2 * y} 0">
          <joint name="{name}_knee" axis="{-x * y} 1 0" range="{bend}"/>
          <geom type="capsule" size="0.08" fromto="0 0 0 {0.4 * x} {0.4 * y} 0"/>
        </body>
      </body>"""


#: Gymnasium's ant as DFlex reads it.
MJCF = f"""
<mujoco>
  <compiler angle="degree"/>
  <default>
    <joint armature="0.05" damping="1" limited="true"/>
    <geom density="1000" contype="0" conaffinity="0"/>
  </default>
  <worldbody>
    <body name="torso" pos="0 0 0.75">
      <freejoint/>
      <geom size="0.25"/>
      <geom type="capsule" size="0.08" fromto="0 0 0 0.2 0.2 0"/>
      <geom type="capsule" size="0.08" fromto="0 0 0 -0.2 0.2 0"/>
      <geom type="capsule" size="0.08" fromto="0 0 0 -0.2 -0.2 0"/>
      <geom type="capsule" size="0.08" fromto="0 0 0 0.2 -0.2 0"/>
      {leg("front_left", 1, 1, "30 100")}
      {leg("back_left", -1, 1, "-100 -30")}
      {leg("back_right", -1, -1, "-100 -30")}
      {leg("front_right", 1, -1, "30 100")}
    </body>
  </worldbody>
</mujoco>
"""


def test_the_robot_is_that_of_gymnasium():
    """Accelerations of the torso and of the joints under random forces."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(MJCF)
    data, robot, rng = mujoco.MjData(model), ant(jnp.float64), np.random.default_rng(0)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT  # Joints beyond their limits.
    both = artix.MujocoCoordinates(robot, model)
    joints = [model.joint(name).dofadr[0] for name in robot.topology.joint_names]
    lower, upper = model.jnt_range[1:].T
    order = np.argsort(joints)
    np.testing.assert_allclose(limits()[:, order], [lower, upper], rtol=1e-12)
    for _ in range(5):
        data.qpos[:], data.qvel[:] = rng.normal(size=15), rng.normal(size=14)
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        force = rng.normal(size=8)
        data.qfrc_applied[joints] = force
        mujoco.mj_forward(model, data)
        state = both.state(data.qpos, data.qvel)
        inertia = artix.mass_matrix(robot, state) + np.diag([0] * 6 + [ARMATURE] * 8)
        bias = artix.inverse_dynamics(robot, state, jnp.zeros(14))
        pushed = np.append(np.zeros(6), force - np.asarray(state.joint_velocity))
        found = np.linalg.solve(inertia, pushed - bias)
        local = Rotation.from_quat(np.asarray(state.root_pose[3:])).inv()
        np.testing.assert_allclose(found[:3], data.qacc[:3], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(local.apply(found[3:6]), data.qacc[3:6], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[6:], data.qacc[joints], rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def environment():
    return envs.make("ant", dtype="float64", episode_length=200)


@pytest.fixture(scope="module")
def episodes(environment):
    """64 robots, first and after each of 120 control steps under random torques."""
    return random_episodes(environment, 64, 120, 1.0)


@pytest.mark.slow
def test_it_starts_within_its_limits_and_above_the_ground(environment, episodes):
    robot, first = environment.articulation, episodes[0].articulation_state
    position, (lower, upper) = np.asarray(first.joint_position), limits()
    assert np.all((position >= lower) & (position <= upper))
    scene = artix.Scene(robot, ground=environment.ground)
    gaps = jax.vmap(lambda state: artix.ground_contacts(scene, state).contacts.gap)(first)
    assert np.min(gaps) > -0.02  # One is a centimetre inside, as in DFlex.
    tilt = Rotation.from_quat(np.asarray(first.root_pose)[:, 3:]).magnitude()
    assert np.max(tilt) <= np.radians(7.5) and np.std(tilt) > 0.01


def test_joints_have_springs_at_their_limits(environment):
    """The torques of DFlex: 1,000 N m/rad, and 10 N m s/rad against what goes on outwards."""
    robot, (lower, upper) = environment.articulation, limits()
    rest, action = artix.neutral_state(robot), jnp.linspace(-1, 1, 8)
    for side, bound, way in ((-1, lower, 1), (1, upper, 1), (1, upper, -1)):
        state = rest.replace(
            joint_position=jnp.asarray(bound + 0.1 * side),
            joint_velocity=jnp.full(8, 2.0 * side * way),
        )
        control, _ = environment.actuate(robot, state, {}, action)
        wanted = 200 * action - side * (100 + (20 if way > 0 else 0))
        np.testing.assert_allclose(control.joint_force, wanted, rtol=1e-12)


def test_a_step_earns_speed_attitude_and_height(environment, episodes):
    _, after, action = episodes
    state = after.articulation_state
    pose, velocity = np.asarray(state.root_pose), np.asarray(state.root_velocity)
    turn = Rotation.from_quat(pose[..., 3:].reshape(-1, 4)).as_matrix().reshape(120, 64, 3, 3)
    height, upright, heading = pose[..., 2], turn[..., 2, 2], turn[..., 0, 0]
    wanted = velocity[..., 0] + 0.1 * upright + heading + height - 0.27
    is_finite = np.asarray(after.metrics["nan"]) == 0
    assert np.all(is_finite)
    np.testing.assert_allclose(after.reward, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(after.done, height < 0.27)
    assert 0 < np.mean(after.done) < 1
    axes = np.stack([upright, heading], axis=-1)
    joints = state.joint_position, 0.1 * state.joint_velocity
    seen = np.concatenate([pose[..., 2:], velocity, *joints, axes, action], axis=-1)
    np.testing.assert_allclose(after.obs, seen, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_its_gradients_are_differences(episodes):
    """Of a control step, of robots that fall and stand; with steps that are solved."""
    _, after, action = episodes
    options = artix.SolverOptions(max_newton_steps=60, smooth_friction=SLIP)
    solved = envs.make("ant", dtype="float64", solver_options=options)
    rows = slice(8, 38, 10)
    states, actions = jax.tree.map(
        lambda x: x[rows, :16].reshape(-1, *x.shape[2:]), (after, 0.9 * action)
    )
    assert_gradients_are_differences(solved, states, actions)
