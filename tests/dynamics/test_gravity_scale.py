"""Gravity scaled for each link, where welded links have scales of their own, against MuJoCo's
``gravcomp``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

import artix

#: ``one`` is welded to the root and ``two`` to ``arm``; all have different scales.
MODEL = """
<mujoco><compiler angle="radian"/><option gravity="1 2 -9"/><worldbody>
  <body name="root" pos="0 0 1"><freejoint/><inertial pos=".1 .2 .3" mass="2" diaginertia=".1 .2 .25"/>
    <body name="one" pos=".1 .3 .2" gravcomp="0.7"><inertial pos=".1 0 .3" mass="1.5" diaginertia=".1 .2 .25"/>
      <body name="arm" pos=".3 0 .1" quat="0.7 0.1 0.2 0.3" gravcomp="0.3"><joint axis="0 1 0" pos="0.1 0 0"/>
        <inertial pos="0 .1 .3" mass="1" diaginertia=".1 .2 .25"/>
        <body name="two" pos="0 .2 .2" quat="0.7 0.4 0.2 0.3"><inertial pos="0 .1 .1" mass="3" diaginertia=".1 .1 .15"/>
          <body name="slider" pos="0 .2 .2" quat="0.7 0.4 0.2 0.3" gravcomp="0.9"><joint type="slide" axis="1 0 0"/>
            <inertial pos="0 .1 .1" mass=".7" diaginertia=".1 .1 .15"/></body></body></body></body></body>
</worldbody></mujoco>
"""


def test_forces_that_hold_welded_links_of_different_gravity_scale() -> None:
    model = mujoco.MjModel.from_xml_string(MODEL)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    pose, joints = rng.normal(size=7), rng.normal(size=2)
    pose[3:] /= np.linalg.norm(pose[3:])
    data.qpos[:] = [*pose[:3], pose[6], *pose[3:6], *joints]
    mujoco.mj_forward(model, data)
    # The root's torque is about another point
    wanted = (data.qfrc_bias - data.qfrc_gravcomp)[[0, 1, 2, 6, 7]]

    robot = artix.load_mjcf(MODEL, dtype="float64")
    state = artix.State(jnp.asarray(pose), jnp.zeros(6), jnp.asarray(joints), jnp.zeros(2))
    assert robot.topology.num_bodies < robot.topology.num_links
    found = {
        "closed over": jax.jit(lambda s: artix.bias_force(robot, s))(state),
        "as an argument": jax.jit(artix.bias_force)(robot, state),
        "compensation": artix.gravity_compensation(robot, state),
    }
    for name, force in found.items():
        np.testing.assert_allclose(
            force[np.array([0, 1, 2, 6, 7])], wanted, rtol=0, atol=1e-13, err_msg=name
        )
    np.testing.assert_allclose(found["as an argument"], found["compensation"], rtol=0, atol=1e-13)
