"""Controls of MuJoCo models: accelerations beside MuJoCo's, and what has no counterpart."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from tests.support.mujoco_oracle import joint_efforts

#: A floating trunk with an arm on a hinge, a ball joint, two fingers on slides, and a site.
MODEL = """<mujoco>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="trunk" pos="0 0 1"><freejoint/><geom size="0.1" mass="1"/>
      <body name="arm" pos="0 0 0.1">
        <joint name="hinge" axis="1 0 0" stiffness="{stiffness}" springref="0.2"/>
        <geom size="0.05" mass="0.5" pos="0 0.1 0.02"/>
        <body name="thumb" pos="0.1 0 0"><joint name="thumb" type="slide" axis="0 1 0" ref="0.1"/>
          <geom size="0.03" mass="0.1"/></body>
        <body name="finger" pos="-0.1 0 0"><joint name="finger" type="slide" axis="0 -1 0"/>
          <geom size="0.03" mass="0.1"/></body>
        <body name="eye" pos="0 0.1 0.1"><joint name="ball" type="ball"/><geom size="0.02" pos="0.05 0 0" mass="0.2"/></body>
      </body>
      <body name="mount" pos="0 -0.2 0"><geom size="0.02" mass="0.1"/>
        <site name="rotor" pos="0.1 0.2 0.3" quat="1 0.2 0.3 0.4"/></body>
    </body>
  </worldbody>
  {rest}
</mujoco>"""
TENDON = """<tendon><fixed name="grasp"><joint joint="thumb" coef="0.5"/><joint joint="finger" coef="0.4"/>
  </fixed></tendon>"""
COUPLED = '<equality><joint joint1="thumb" joint2="finger" polycoef="0.02 1.5 0 0 0"/></equality>'
CASES = {
    "motors": (
        '<motor joint="hinge" gear="-3" ctrlrange="-1 1"/><motor joint="thumb" forcerange="-0.5 0.2"/>'
        '<motor joint="ball" gear="0.1 0.2 0.3"/>',
        "",
        [4.0, 3.0, 2.0],
    ),
    "servos": (
        '<position joint="hinge" kp="5" kv="0.2" gear="2" ctrlrange="-0.5 0.5"/><velocity joint="finger" kv="3" gear="0.5"/>'
        '<general joint="thumb" gainprm="4" biastype="affine" biasprm="0.5 -30 -0.2" gear="-2"/>',
        "",
        [1.0, 0.7, 0.2],
    ),
    "a servo of position and one of velocity": (
        '<position joint="hinge" kp="5" kv="0.3"/><velocity joint="hinge" kv="0.4"/><motor joint="hinge"/>',
        "",
        [0.3, 0.6, 0.2],
    ),
    "a limited servo": ('<position joint="hinge" kp="50" forcerange="-0.3 0.3"/>', "", [-2.0]),
    "a motor with a constant force": (
        '<general joint="hinge" gainprm="3" biastype="affine" biasprm="2 0 0" ctrlrange="-1 1" gear="2"/>',
        "",
        [1.0],
    ),
    "motors on a tendon and on its joint": (
        '<motor tendon="grasp" gear="2" forcerange="-1 0.5"/><motor joint="thumb" ctrlrange="-1 1"/>',
        TENDON,
        [3.0, 2.0],
    ),
    "motors on sites": (
        '<motor site="rotor" gear="0.1 0.2 1 0.3 -0.1 0.02"/><motor site="rotor" gear="0 0 -2" ctrlrange="0 1"/>',
        "",
        [2.0, 3.0],
    ),
    "a servo on the tendon of a gripper": (
        '<general tendon="grasp" gainprm="0.3" biastype="affine" biasprm="0.1 -20 -2" ctrlrange="0 15"/>',
        COUPLED + TENDON,
        [20.0],
    ),
    "a limited servo on the tendon of a gripper": (
        '<position tendon="grasp" kp="200" forcerange="-2 2" gear="3"/>',
        COUPLED + TENDON,
        [-1.0],
    ),
}


def read(
    actuators: str, rest: str, stiffness: float = 0.0, **options: bool
) -> tuple[artix.Articulation, mujoco.MjModel, mujoco.MjData]:
    """The model in both, at a random state in which coupled fingers are where they must be."""
    text = MODEL.format(stiffness=stiffness, rest=f"{rest}<actuator>{actuators}</actuator>")
    model = mujoco.MjModel.from_xml_string(text)
    model.eq_solref[:], model.eq_solimp[:] = (-1e8, -1e5), (0.9999, 0.9999, 0.001, 0.5, 2)
    data, rng = mujoco.MjData(model), np.random.default_rng(3)
    mujoco.mj_integratePos(model, data.qpos, rng.normal(0.0, 0.3, model.nv), 1.0)
    data.qvel[:] = rng.normal(0.0, 0.1, model.nv)
    if model.neq:
        data.joint("thumb").qpos = 0.12 + 1.5 * data.joint("finger").qpos
        data.joint("thumb").qvel = 1.5 * data.joint("finger").qvel
    return artix.load_mjcf(text, dtype="float64", **options), model, data


@pytest.mark.parametrize("stiffness", [0.0, 2.0])
@pytest.mark.parametrize("case", CASES)
def test_efforts_are_mujocos(case: str, stiffness: float) -> None:
    """To 1e-12, with and without a spring beside the hinge's drive; of coupled fingers, those that
    do the same work."""
    actuators, rest, numbers = CASES[case]
    robot, model, data = read(actuators, rest, stiffness)
    coordinates = artix.MujocoCoordinates(robot, model)
    state = coordinates.state(data.qpos, data.qvel)
    with jax.disable_jit():  # Each model would compile its own program.
        control = coordinates.control(np.array(numbers), state)
    efforts = joint_efforts(*jax.tree.map(np.asarray, (robot, state, control)))
    if control.external_force is not None:
        wrench = artix.generalized_external_force(robot, state, control.external_force)
        efforts = efforts + wrench[6:]
    data.ctrl[:] = numbers
    mujoco.mj_forward(model, data)
    for name in ("hinge", "ball"):
        place = np.atleast_1d(data.joint(name).qfrc_actuator + data.joint(name).qfrc_passive)
        np.testing.assert_allclose(efforts[robot.topology.dofs(name)], place, atol=1e-12)
    work = {"thumb": 1.5, "finger": 1.0}
    found = {name: efforts[robot.topology.dof_index(name)] for name in work}
    wanted = {name: data.joint(name).qfrc_actuator[0] for name in work}
    if model.neq:
        found, wanted = ({"both": sum(work[k] * one[k] for k in work)} for one in (found, wanted))
    for name, effort in found.items():
        np.testing.assert_allclose(effort, wanted[name], atol=1e-12)


@pytest.mark.slow
def test_accelerations_are_mujocos() -> None:
    """By a step of 1e-8 s, to 1e-5 of the largest, with and without a spring beside the hinge's
    drive. One program steps all models of one topology."""
    cases = [(case, stiffness) for case in CASES for stiffness in (0.0, 2.0)]
    robots, states, controls, every = [], [], [], []
    for case, stiffness in cases:
        actuators, rest, numbers = CASES[case]
        robot, model, data = read(actuators, rest, stiffness)
        coordinates = artix.MujocoCoordinates(robot, model)
        robots.append(robot)
        states.append(coordinates.state(data.qpos, data.qvel))
        with jax.disable_jit():  # Each model would compile its own program.
            controls.append(dense(robot, coordinates.control(np.array(numbers), states[-1])))
        every.append((coordinates, data, numbers))
    fleet = artix.Fleet(robots)
    state, control = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) for trees in (states, controls)
    )
    after = fleet.evaluate(lambda robot, s, u: artix.step(robot, s, u, 1e-8), state, control)
    for k, (coordinates, data, numbers) in enumerate(every):
        one = jax.tree.map(lambda x, k=k: x[k], after)
        velocity = coordinates.qpos_qvel(one, data.qpos)[1]
        acceleration = (np.asarray(velocity) - data.qvel) / 1e-8
        for controlled in (False, True):
            data.ctrl[:] = numbers if controlled else 0.0
            mujoco.mj_forward(data.model, data)
            error = np.abs(acceleration - data.qacc).max() / np.abs(data.qacc).max()
            assert error < 1e-5 if controlled else error > 1e-3, cases[k]


def dense(robot: artix.Articulation, control: artix.Control) -> artix.Control:
    """The control with every part."""
    n, links = robot.topology.num_dofs, robot.topology.num_links
    parts = {
        "joint_force": jnp.zeros(n),
        "drive_target": robot.drive.target_position,
        "drive_target_velocity": robot.drive.target_velocity,
        "external_force": jnp.zeros((links, 6)),
    }
    known = {name: getattr(control, name) for name in parts}
    return artix.Control(**{k: parts[k] if v is None else v for k, v in known.items()})


@pytest.mark.parametrize("merge", [False, True])
def test_motors_on_sites_of_merged_bodies(merge: bool) -> None:
    actuators, rest, controls = CASES["motors on sites"]
    robot, model, data = read(actuators, rest, merge_fixed_joints=merge)
    coordinates = artix.MujocoCoordinates(robot, model)
    state = coordinates.state(data.qpos, data.qvel)
    assert ("mount" in robot.topology.link_names) is not merge
    control = coordinates.control(jnp.asarray(controls), state)
    force = artix.generalized_external_force(robot, state, control.external_force)
    data.ctrl[:] = controls
    mujoco.mj_forward(model, data)
    order = [data.joint(name).qfrc_actuator for name in ("hinge", "thumb", "finger", "ball")]
    np.testing.assert_allclose(force[6:], np.concatenate(order), atol=1e-12)
    np.testing.assert_allclose(force[:3], data.qfrc_actuator[:3], atol=1e-12)


def test_under_transformations() -> None:
    """Compiled, batched and differentiated: the slope of a target is the gain by the stiffness."""
    robot, model, _ = read(*CASES["servos"][:2])
    coordinates = artix.MujocoCoordinates(robot, model)
    controls = jnp.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    batch = jax.jit(jax.vmap(coordinates.control))(controls)
    for k in range(2):
        one = coordinates.control(controls[k])
        np.testing.assert_allclose(batch.drive_target[k], one.drive_target, rtol=1e-15)
    slope = jax.jacfwd(lambda u: coordinates.control(u).drive_target)(controls[0])
    dof = robot.topology.dof_index("thumb")
    np.testing.assert_allclose(slope[dof], [0.0, 0.0, 4.0 / (30.0 * -2.0)], rtol=1e-12)
    assert coordinates.control(controls[0]).joint_force is None


def test_what_has_no_counterpart_is_said() -> None:
    with pytest.warns(UserWarning, match="left out"):
        robot, model, _ = read(
            '<motor joint="thumb"/><muscle name="biceps" joint="hinge" lengthrange="0 1"/>', ""
        )
    coordinates = artix.MujocoCoordinates(robot, model)
    with pytest.warns(UserWarning, match="controls of biceps are left out"):
        control = coordinates.control(np.array([2.0, 1.0]))
    assert control.joint_force[robot.topology.dof_index("thumb")] == 2.0


@pytest.mark.skipif(
    not hasattr(mujoco.MjModel, "actuator_ctrladr"), reason="before MuJoCo 4 each has one control"
)
def test_actuators_after_one_with_two_controls_have_their_own() -> None:
    """A PID has two, so that numbers of controls are not those of actuators."""
    actuators = """<pid name="pid" joint="hinge"/><motor joint="thumb" gear="2" ctrlrange="-1 1"/>
      <position joint="finger" kp="20" kv="2" ctrlrange="-0.3 0.3"/>"""
    with pytest.warns(UserWarning, match="gaintype pid"):
        robot, model, data = read(actuators, "")
    assert model.nu == 4
    thumb, finger = map(robot.topology.dof_index, ("thumb", "finger"))
    assert robot.max_joint_force[thumb] == 2.0
    coordinates = artix.MujocoCoordinates(robot, model)
    data.ctrl[:] = [0.5, 0.5, 3.0, 0.7]
    mujoco.mj_forward(model, data)
    with pytest.warns(UserWarning, match="controls of pid are left out"):
        control = coordinates.control(data.ctrl)
    np.testing.assert_allclose(control.joint_force[thumb], data.joint("thumb").qfrc_actuator[0])
    np.testing.assert_allclose(control.drive_target[finger], 0.3)
    with pytest.raises(ValueError, match=r"ctrl: expected shape \(4,\)"):
        coordinates.control(np.zeros(3))


def test_refusals() -> None:
    actuators, rest, controls = CASES["motors on sites"]
    robot, model, data = read(actuators, rest)
    coordinates = artix.MujocoCoordinates(robot, model)
    with pytest.raises(ValueError, match="state: needed, as motors on sites turn"):
        coordinates.control(np.array(controls))
    with pytest.raises(ValueError, match=r"ctrl: expected shape \(2,\)"):
        coordinates.control(np.zeros(3))
    with pytest.raises(ValueError, match="ctrl"):
        coordinates.control(np.array([0.0, np.nan]), coordinates.state(data.qpos, data.qvel))


def test_actuators_of_other_articulations_are_not_mentioned(recwarn) -> None:
    text = """<mujoco><worldbody>
      <body name="a"><freejoint/><geom size="0.1"/><body><joint name="one"/><geom size="0.1"/></body></body>
      <body name="b" pos="2 0 0"><freejoint/><geom size="0.1"/><body><joint name="two"/><geom size="0.1"/></body></body>
      </worldbody><actuator><motor joint="one"/><muscle joint="two" lengthrange="0 1"/>
      <position joint="two" kp="3"/></actuator></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    robot = artix.load_mjcf(text, body="a")
    recwarn.clear()
    control = artix.MujocoCoordinates(robot, model).control(np.ones(3))
    assert control.drive_target is None
    np.testing.assert_array_equal(control.joint_force, [1.0])
    assert not recwarn.list
