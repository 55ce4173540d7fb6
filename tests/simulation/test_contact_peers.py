"""Contact in steps against MuJoCo with matched compliance, Pinocchio's ADMM, and an oscillator on
rough ground."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import Ground
from artix.kinematics.contact_points import contact_frames
from tests.simulation.test_contact_steps import G, standing_quadruped
from tests.support.oracle_constraints import contact_impulses

FRICTION = np.array([0.5, 0.3, 0.15])
SOFT = 'solref="-4000 -180" solimp=".9 .9 1"'
LEG = f"""
<body name="hip{{k}}" pos="{{x}} {{y}} 0">
  <joint axis="1 0 0"/><joint axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".8" contype="0" conaffinity="0"/>
  <body name="shank{{k}}" pos="0 0 -.2">
    <joint axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".015" mass=".3" contype="0" conaffinity="0"/>
    <geom name="foot{{k}}" size=".02" pos="0 0 -.2" mass=".05" friction="{{mu}}" {SOFT}/>
  </body>
</body>"""
#: A body of 9.5 kg on three legs, whose nine contact rows are independent. A large ``impratio``
#: makes what sticks rigid, to 3e-8.
TRIPOD = f"""
<mujoco>
  <option timestep=".005" cone="elliptic" impratio="1e6" tolerance="0" iterations="200" ls_tolerance="1e-12" ls_iterations="100"/>
  <worldbody>
    <geom type="plane" size="0 0 1" friction="0" {SOFT}/>
    <body name="trunk">
      <freejoint/>
      <geom type="box" size=".2 .15 .05" mass="6" contype="0" conaffinity="0"/>
      {"".join(LEG.format(k=k, x=x, y=y, mu=FRICTION[k]) for k, (x, y) in enumerate([(0.2, 0.12), (0.2, -0.12), (-0.2, 0)]))}
    </body>
  </worldbody>
</mujoco>"""


def mujocos_contacts(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[np.ndarray, ...]:
    """Forces on the three feet in world axes, and the radius, stiffness and damping with which
    artix has its law.

    With ``b = 1 / timestep`` MuJoCo's normal force is that of a spring and a damper at the end of
    the step, as artix's. Two differences are left. Its point lies halfway into the penetration: a
    radius less by that half halves the gap, for which the spring makes up. And its cones are
    convex: what slides at speed v is lifted as if the ground rose at ``friction v``. That enters as
    a relaxation time, which may become negative.
    """
    dt = model.opt.timestep
    force, radius, stiffness, damping = (
        np.zeros((3, 3)),
        np.full(3, 0.02),
        np.full(3, 1e3),
        np.zeros(3),
    )
    for number, contact in enumerate(data.contact):
        foot, row = int(model.geom(contact.geom2).name[-1]), contact.efc_address
        stiff, damp, impedance = data.efc_KBIP[row, :3]
        assert damp == pytest.approx(1 / dt)
        slip = data.efc_J.reshape(-1, model.nv)[row + 1 : row + 3] @ (data.qvel + dt * data.qacc)
        closing = -contact.dist * dt * stiff * impedance + FRICTION[foot] * np.hypot(*slip)
        time = -contact.dist / 2 / closing
        radius[foot] += contact.dist / 2
        stiffness[foot] = 1 / (data.efc_R[row] * dt * time)
        damping[foot] = stiffness[foot] * (time - dt)
        wrench = np.zeros(6)
        mujoco.mj_contactForce(model, data, number, wrench)
        force[foot] = contact.frame.reshape(3, 3).T @ wrench[:3]
    return force, radius, stiffness, damping


def kinds_of(impulse: np.ndarray) -> np.ndarray:
    """Of impulses [..., 3, 3]: 0 for feet that come off, 1 for those that stick, 2 for those that
    slide."""
    pull, most = np.hypot(impulse[..., 0], impulse[..., 1]), FRICTION * impulse[..., 2]
    return np.where(most <= 1e-9, 0, np.where(pull < (1 - 1e-5) * most, 1, 2))


@pytest.mark.slow
@pytest.mark.own_seeds  # artix stops a foot that lands within the step, MuJoCo does not; here none does
def test_against_mujoco() -> None:
    """Of feet that hit the ground the same ones stick, slide and come off as in MuJoCo, by the same
    forces.

    With MuJoCo's lift of sliding feet fixed, a fast foot may stick as well as slide; in these
    states none can.
    """
    model = mujoco.MjModel.from_xml_string(TRIPOD)
    a, ground = (
        artix.load_mjcf(TRIPOD, dtype="float64"),
        Ground.flat(friction=0.0).astype("float64"),
    )
    coordinates, rng = artix.MujocoCoordinates(a, model), np.random.default_rng(0)
    states, contacts = [], []
    for k in range(24):
        data = mujoco.MjData(model)
        turn = rng.uniform(-0.3, 0.3, model.nv)
        turn[:6] *= (0, 0, 0, 0.3, 0.3, 0.3)
        mujoco.mj_integratePos(model, data.qpos, turn, 1.0)
        # Links turn by less than 0.001 rad in the step, so Coriolis forces act at its start.
        data.qvel[:] = np.append(np.full(3, 0.2), np.full(model.nv - 3, 0.02))
        data.qvel[:] *= rng.normal(size=model.nv)
        data.qvel[2] -= 0.3
        # All feet penetrate, by up to three centimetres, or all but one.
        mujoco.mj_kinematics(model, data)
        heights = sorted(data.geom(f"foot{foot}").xpos[2] for foot in range(3))
        data.qpos[2] -= heights[2 if k % 4 else 1] - 0.019
        mujoco.mj_forward(model, data)
        states.append(coordinates.state(data.qpos.copy(), data.qvel.copy()))
        contacts.append(mujocos_contacts(model, data))
    force, radius, stiffness, damping = map(np.array, zip(*contacts, strict=True))
    options = artix.SolverOptions(position_iterations=40, contact_iterations=4)
    axes = np.asarray(contact_frames(jnp.array([[0.0, 0.0, 1.0]])))[0]

    def impulses(state, radius, stiffness, damping):
        size = a.geometry.size.at[:, 0].set(radius)
        soft = a.replace(
            geometry=a.geometry.replace(size=size, stiffness=stiffness, damping=damping)
        )
        dt = model.opt.timestep
        scene = artix.Scene(soft, ground=ground)
        return artix.step(
            scene, artix.remember_contacts(scene, state), None, dt, options
        ).contact_memory.impulse

    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    found = np.asarray(jax.jit(jax.vmap(impulses))(states, radius, stiffness, damping))
    wanted = model.opt.timestep * force @ axes.T
    np.testing.assert_allclose(found, wanted, atol=1e-7 * np.max(wanted))
    kinds = [kinds_of(each) for each in (found, wanted)]
    np.testing.assert_array_equal(*kinds)
    assert min(np.bincount(kinds[0].ravel(), minlength=3)) >= 3


@pytest.mark.slow
def test_against_pinocchio() -> None:
    """The impulses of a step are those of Pinocchio's ADMM on the same Delassus matrix."""
    a, state, _ = standing_quadruped("float64", height=-1e-6)
    n, dt, ground = a.topology.num_dofs, 0.005, Ground.flat(friction=0.6).astype("float64")
    nothing = jax.tree.map(jnp.zeros_like, (a.drive.stiffness, a.friction))
    a = a.replace(
        drive=a.drive.replace(stiffness=nothing[0], damping=nothing[0]), friction=nothing[1]
    )
    options = artix.SolverOptions(position_iterations=40, contact_iterations=4)

    def both(velocity):
        moving = artix.with_generalized_velocity(a, state, velocity)
        contacts = artix.ground_contacts(artix.Scene(a, ground=ground), moving).contacts
        problem = artix.contact_problem(a, moving, jnp.zeros(6 + n), contacts, dt)
        report = artix.step_and_report(artix.Scene(a, ground=ground), moving, None, dt, options)[
            1
        ].contacts
        return problem.delassus, problem.free_velocity, contacts.friction, report

    # Links turn by less than 0.001 rad in the step, so Coriolis forces act at its start.
    scale = jnp.append(jnp.full(3, 0.15), jnp.full(3 + n, 0.02))
    velocities = scale * jax.random.normal(jax.random.key(1), (24, 6 + n)) - 0.2 * jnp.eye(6 + n)[2]
    *problems, found = jax.jit(jax.vmap(both))(velocities)
    wanted = np.array(
        [contact_impulses(*problem) for problem in zip(*map(np.asarray, problems), strict=True)]
    )
    impulse = np.reshape(found.impulse, wanted.shape)
    np.testing.assert_allclose(impulse, wanted, atol=1e-8 * np.max(wanted))
    kinds = [np.sum(kind) for kind in (found.sticks, found.slides, ~found.sticks & ~found.slides)]
    assert min(kinds) >= 3, kinds


def slider(stiffness: float) -> artix.Articulation:
    """Two kilograms on a spring along x that lie on the ground by their weight."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0.0, 0.0, -G), name="slider")
    base = builder.add_link(name="base")
    rod = builder.add_link(
        base, artix.Joint.prismatic(artix.Axis.Z, name="height"), mass=0.5, inertia=[1e-3] * 3
    )
    joint = artix.Joint.prismatic(
        artix.Axis.X, name="slide", drive=artix.Drive(stiffness=stiffness)
    )
    builder.add_link(rod, joint, mass=1.5, inertia=[1e-3] * 3, name="block")
    builder.add_geometry("block", artix.Geometry.sphere(0.1, friction=0.3))
    return builder.build("float64")


@pytest.mark.slow
def test_an_oscillator_on_rough_ground() -> None:
    """A spring pulled at speed V moves a block once ``k V t = mu N``, which then starts and stops
    with the period ``2 pi sqrt(m / k)``, at speeds of up to 2 V. Let loose, it loses ``2 mu N / k``
    of its amplitude in each half of a period, and stays where friction holds the spring.
    """
    k, dt, count, pull = 80.0, 1e-4, 25000, 0.05
    a, ground = slider(k), Ground.flat(friction=0.0).astype("float64")
    hold, period = 0.3 * 2.0 * G, 2 * np.pi * np.sqrt(1.5 / k)
    lying = artix.neutral_state(a).replace(joint_position=jnp.array([0.1, 0.0]))
    time = dt * np.arange(1, count + 1)

    def run(place, target):
        start = lying.replace(joint_position=lying.joint_position.at[1].set(place))
        targets = artix.Control(drive_target=jnp.stack([jnp.zeros(count), target], axis=1))
        path = artix.rollout(artix.Scene(a, ground=ground), start, targets, dt)
        return path.joint_position[:, 1], path.joint_velocity[:, 1]

    both = jax.jit(jax.vmap(run))(jnp.array([0.0, 0.3]), jnp.stack([pull * time, 0 * time]))
    (pulled, loose), (speed, turning) = np.asarray(both[0]), np.asarray(both[1])
    begins = time[np.argmax(speed > 1e-9)]
    np.testing.assert_allclose(begins, hold / (k * pull), atol=2 * dt)
    # What holds is a spring about the last impulse, whose stiffness rounding limits.
    assert np.max(np.abs(speed[time < begins])) <= 1e-14
    assert np.max(np.abs(pulled[time < begins])) <= 1e-14
    top = np.argmax(speed)
    np.testing.assert_allclose([time[top] - begins, speed[top]], [period / 2, 2 * pull], rtol=3e-3)
    # The implicit step takes 0.2 % of the amplitude in a period.
    low = np.argmin(speed[top:]) + top
    np.testing.assert_allclose(time[low] - begins, period, rtol=3e-3)
    assert 0 <= speed[low] <= 3e-3 * pull
    turns = [np.argmax(turning > 0), np.argmax((time > 0.6 * period) & (np.abs(turning) < 1e-12))]
    np.testing.assert_allclose(time[turns], [period / 2, period], atol=2e-3 * period)
    np.testing.assert_allclose(loose[turns], [2 * hold / k - 0.3, 0.3 - 4 * hold / k], atol=1e-3)
    assert np.max(np.abs(turning[turns[1] + 1 :])) <= 1e-12
