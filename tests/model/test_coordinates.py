"""States from the coordinates of other libraries: link poses and velocities beside Pinocchio's and
MuJoCo's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pinocchio as pin
import pytest

import artix

#: Two arms whose names are out of order, a wheel without limits, a sensor on a fixed joint.
URDF = """
<robot name="cart">
  <link name="body"><inertial><origin xyz="0.1 0.2 -0.05"/><mass value="4"/>
    <inertia ixx="0.3" iyy="0.2" izz="0.4" ixy="0.01" ixz="0" iyz="0"/></inertial></link>
  {links}
  {joints}
</robot>
"""
_LINK = """<link name="{0}"><inertial><origin xyz="0.05 0 -0.1"/><mass value="1"/>
  <inertia ixx="0.02" iyy="0.03" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
_JOINT = """<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><origin xyz="{4}" rpy="0.1 0.2 0.3"/>
  <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="9" velocity="9"/></joint>"""
_JOINTS = (
    ("z_shoulder", "revolute", "body", "upper", "0 0.3 0"),
    ("elbow", "revolute", "upper", "lower", "0 0 -0.4"),
    ("a_wheel", "continuous", "body", "wheel", "0.2 0 -0.1"),
    ("m_rail", "prismatic", "body", "slider", "0 -0.3 0"),
)


def cart() -> str:
    names = [joint[3] for joint in _JOINTS]
    return URDF.format(
        links="\n".join(_LINK.format(name) for name in names),
        joints="\n".join(_JOINT.format(*one) for one in _JOINTS),
    )


@pytest.mark.slow
@pytest.mark.parametrize("floating", [True, False])
def test_pinocchio(floating: bool) -> None:
    text = cart()
    root = [pin.JointModelFreeFlyer()] if floating else []
    model = pin.buildModelFromXML(text, *root)
    data, rng = model.createData(), np.random.default_rng(0)
    lower, upper = np.full(model.nq, -1.0), np.full(model.nq, 1.0)
    q = np.stack([pin.randomConfiguration(model, lower, upper) for _ in range(6)])
    v = rng.normal(size=(6, model.nv))
    robot = artix.load_urdf(text, fixed_base=not floating).astype("float64")
    assert (model.nq, model.nv) == (robot.topology.nv + 1 + floating, robot.topology.nv)
    states = artix.State.of(robot, q, v, order="pinocchio")
    names = list(model.names)[1 + floating :]
    assert names != sorted(names, key=robot.topology.joint_names.index)
    jax.tree.map(
        np.testing.assert_array_equal,
        artix.State.of(robot, q, v, order="pinocchio", joints=names),
        states,
    )
    for link in ("body", "upper", "lower", "wheel", "slider"):
        poses = jax.vmap(lambda state, link=link: artix.frame_pose(robot, state, link))(states)
        motions = jax.vmap(
            lambda state, link=link: artix.frame_velocity(robot, state, link, axes="local")
        )(states)
        for k in range(len(q)):
            pin.forwardKinematics(model, data, q[k], v[k])
            frame = model.getFrameId(link)
            wanted = pin.SE3ToXYZQUAT(pin.updateFramePlacement(model, data, frame))
            turned = np.sign(wanted[3:] @ poses[k, 3:])
            np.testing.assert_allclose(poses[k], np.r_[wanted[:3], turned * wanted[3:]], atol=1e-12)
            twist = pin.getFrameVelocity(model, data, frame, pin.ReferenceFrame.LOCAL)
            np.testing.assert_allclose(motions[k], twist.vector, atol=1e-12)


MJCF = """
<mujoco>
  <worldbody>
    <body name="trunk" pos="0 0 1"><freejoint/><geom type="box" size="0.2 0.1 0.05" pos="0.1 0.02 0" mass="3"/>
      <body name="z" pos="0 0.2 0"><joint name="z_hip" axis="0 1 0"/><geom size="0.05" pos="0 0 -0.1" mass="1"/>
        <body name="foot" pos="0 0 -0.3"><joint name="ankle" type="ball"/><geom size="0.04" pos="0.1 0 0" mass="0.5"/>
        </body></body>
      <body name="a" pos="0 -0.2 0"><joint name="a_hip" type="slide" axis="1 0 1"/><geom size="0.05" mass="1"/></body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.slow
def test_mujoco() -> None:
    model = mujoco.MjModel.from_xml_string(MJCF)
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    robot = artix.load_mjcf(MJCF).astype("float64")
    q, v = rng.normal(size=(5, model.nq)), rng.normal(size=(5, model.nv))
    states = artix.State.of(robot, q, v, order="mujoco")
    coordinates = artix.MujocoCoordinates(robot, model)
    for k in range(len(q)):
        data.qpos, data.qvel = q[k], v[k]
        mujoco.mj_forward(model, data)
        state = jax.tree.map(lambda x, k=k: x[k], states)
        for ours, theirs in zip(
            jax.tree.leaves(state), jax.tree.leaves(coordinates.state(q[k], v[k])), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-14)
        for body in ("trunk", "z", "foot", "a"):
            pose, wanted = artix.frame_pose(robot, state, body), data.body(body)
            np.testing.assert_allclose(pose[:3], wanted.xpos, atol=1e-12)
            np.testing.assert_allclose(abs(jnp.roll(pose[3:], 1) @ wanted.xquat), 1, atol=1e-12)
            speed = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, wanted.id, speed, 0)
            ours = artix.frame_velocity(robot, state, body, axes="world_aligned")
            np.testing.assert_allclose(ours, np.r_[speed[3:], speed[:3]], atol=1e-12)


def test_own_order_and_refusals() -> None:
    robot = artix.load_urdf(cart(), fixed_base=False)
    nq, nv = 7 + robot.topology.num_dofs, robot.topology.nv
    state = artix.random_state(robot, jax.random.key(0))
    position = jnp.concatenate([state.root_pose, state.joint_position])
    again = artix.State.of(robot, position, artix.generalized_velocity(robot, state))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), again, state)
    assert not artix.State.of(robot, position).joint_velocity.any()
    inside = jax.jit(lambda q, v: artix.State.of(robot, q, v, order="mujoco"))(
        jnp.ones(nq), jnp.ones(nv)
    )
    assert inside.root_pose.shape == (7,)
    with pytest.raises(
        ValueError,
        match="position: expected 11 numbers in the order of artix, found 4; seven of them",
    ):
        artix.State.of(robot, jnp.zeros(4))
    with pytest.raises(
        ValueError,
        match="expected 11 numbers, or 12 with cosines and sines, in the order of pinocchio",
    ):
        artix.State.of(robot, jnp.zeros(4), order="pinocchio")
    with pytest.raises(ValueError, match=r"velocity: expected 10 numbers .*; found \(4,\)"):
        artix.State.of(robot, jnp.zeros(nq), jnp.zeros(4))
    with pytest.raises(ValueError, match=r"joints: .* missing \['elbow'\], unknown \['elbov'\]"):
        artix.State.of(robot, jnp.zeros(nq), joints=["z_shoulder", "elbov", "a_wheel", "m_rail"])
    with pytest.raises(
        ValueError, match="order: expected one of 'artix', 'pinocchio', 'mujoco', found 'drake'"
    ):
        artix.State.of(robot, jnp.zeros(nq), order="drake")
