"""Loop joints in a step: closed mechanisms stay closed, Pinocchio finds the same forces, and singular ones stay finite."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import artix
from artix import ArticulationBuilder, Axis, Control, Drive, Joint, LoopJoint, LoopJointType
from artix.constraints.anchors import Anchors, AnchorStructure, AnchorType, anchor_rows, loop_anchors
from artix.couplings import LoopJoints, LoopJointStructure
from tests import oracle_constraints, oracles
from tests.models import nu_of, random_pose, random_states, state_at, with_nu

rollout = jax.jit(artix.rollout, static_argnames=("options", "num_steps"))
report = jax.jit(artix.step_and_report, static_argnames="options")
rows = jax.jit(lambda a, s: anchor_rows(a, s, loop_anchors(a)))
_HALF = np.sqrt(0.5)
#: Turns x of a frame onto y of the world, about which the bars turn.
ABOUT_Y = [0.0, 0.0, _HALF, _HALF]


def four_bar(kind: LoopJointType = LoopJointType.REVOLUTE, *, dtype="float64", gravity=(0, 0, -9.81), **options):
    """A crank, a coupler and a rocker that a loop joint holds to the ground; closed at the zero configuration."""
    builder = ArticulationBuilder(fixed_base=True, gravity=gravity, name="four_bar")
    link = builder.add_link(mass=1.0, inertia=[1.0] * 3, name="ground")
    ends = np.array([[0.0, 0, 0], [0.1, 0, 0.5], [0.9, 0, 0.8], [1.0, 0, 0.0]])
    for k, name in enumerate(("crank", "coupler", "rocker")):
        origin = ends[k] - ends[max(k - 1, 0)]
        joint = Joint.revolute(Axis.SWING1, name=name, parent_pose=[*origin, 0, 0, 0, 1], **options)
        middle = (ends[k + 1] - ends[k]) / 2
        inertia = [0.02, 0.02, 0.02]
        link = builder.add_link(link, joint, mass=1.0, com_pose=[*middle, 0, 0, 0, 1], inertia=inertia, name=name)
    places = {"pose_a": [*ends[3], *ABOUT_Y], "pose_b": [*(ends[3] - ends[2]), *ABOUT_Y]}
    builder.add_loop_joint(LoopJoint(name="pivot", link_a=None, link_b="rocker", type=kind, **places))
    return builder.build(dtype)


def largest_error(articulation, states) -> float:
    """The largest closure error of states, evaluated in float64."""
    exact = articulation.astype("float64")
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf, "float64"), states)
    errors = jax.jit(jax.vmap(lambda s: anchor_rows(exact, s, loop_anchors(exact)).error))(states)
    return float(jnp.max(jnp.abs(errors)))


# --- closed mechanisms ------------------------------------------------------------------------------------------------


def test_a_four_bar_linkage_stays_closed() -> None:
    """1,000 steps in float32 under gravity and a drive, with three of five rows redundant: 1e-6 m; in float64 the same
    motion, whose energy without the drive is kept to the first order."""
    a = four_bar(dtype="float32")
    drive = a.drive.replace(
        damping=jnp.array([5.0, 0, 0], "float32"), target_velocity=jnp.array([6.0, 0, 0], "float32")
    )
    turned = a.replace(drive=drive)
    states = rollout(turned, artix.neutral_state(a), None, 1 / 240, num_steps=1000)
    assert abs(float(states.joint_position[-1, 0])) > 1.0
    assert largest_error(turned, states) < 1e-6


def test_energy_of_a_four_bar_linkage() -> None:
    a = four_bar()
    energy = jax.jit(jax.vmap(lambda s: artix.kinetic_energy(a, s) + artix.potential_energy(a, s)))
    drifts = []
    for steps in (200, 400):
        states = rollout(a, artix.neutral_state(a), None, 0.8 / steps, num_steps=steps)
        found = np.asarray(energy(states))
        drifts.append(np.abs(found - float(artix.potential_energy(a, artix.neutral_state(a)))).max())
        assert largest_error(a, states) < 1e-6
    assert drifts[0] < 0.2  # of 10 J that are exchanged
    assert 1.7 < drifts[0] / drifts[1] < 2.3


def stewart_platform(dtype):
    """Six legs of a spherical and a prismatic joint; the platform hangs on the first, loop joints hold the others."""
    builder = ArticulationBuilder(fixed_base=True, name="stewart")
    base = builder.add_link(mass=1.0, inertia=[1.0] * 3, name="base")
    angles = np.deg2rad([[5, 25], [115, 35], [125, 145], [235, 155], [245, 265], [355, 275]])
    feet, heads = (
        np.stack([r * np.cos(t), r * np.sin(t), 0 * t + z], 1)
        for r, t, z in ((1.0, angles[:, 0], 0), (0.6, angles[:, 1], 0.9))
    )
    center, rods = np.array([0.0, 0.0, 0.9]), []
    for k, (foot, head) in enumerate(zip(feet, heads, strict=True)):
        along = (head - foot) / np.linalg.norm(head - foot)
        turn = np.array([*np.cross([1.0, 0, 0], along), 1 + along[0]])
        turn /= np.linalg.norm(turn)
        hip = Joint.spherical(name=f"hip_{k}", parent_pose=[*foot, *turn])
        com = [0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        leg = builder.add_link(base, hip, mass=0.5, com_pose=com, inertia=[0.01, 0.02, 0.02], name=f"leg_{k}")
        stretch = Joint.prismatic(
            Axis.X,
            name=f"stretch_{k}",
            parent_pose=[np.linalg.norm(head - foot), 0, 0, 0, 0, 0, 1],
            drive=Drive(stiffness=2e4, damping=500.0),
        )
        rods.append(
            (
                builder.add_link(
                    leg,
                    stretch,
                    mass=0.3,
                    com_pose=[-0.2, 0, 0, 0, 0, 0, 1],
                    inertia=[0.005, 0.01, 0.01],
                    name=f"rod_{k}",
                ),
                turn,
            )
        )
    rod, turn = rods[0]
    back = [*-turn[:3], turn[3]]
    wrist = Joint.spherical(name="wrist", parent_pose=[0, 0, 0, *back], child_pose=[*(heads[0] - center), 0, 0, 0, 1])
    builder.add_link(rod, wrist, mass=5.0, inertia=[0.5, 0.5, 0.9], name="platform")
    for k in range(1, 6):
        joint = LoopJoint(
            name=f"head_{k}",
            link_a="platform",
            link_b=f"rod_{k}",
            pose_a=[*(heads[k] - center), 0, 0, 0, 1],
            type=LoopJointType.SPHERICAL,
        )
        builder.add_loop_joint(joint)
    return builder.build(dtype)


@pytest.mark.slow
def test_a_stewart_platform_stays_closed() -> None:
    """Fifteen held rows on 27 DOFs, the legs driven to and fro under load: 1e-6 m over 1,000 steps in float32."""
    a = stewart_platform("float32")
    stretches = np.array([a.topology.dofs(f"stretch_{k}").start for k in range(6)])
    times = np.arange(1000) / 240
    targets = np.zeros((1000, a.topology.num_dofs), "float32")
    targets[:, stretches] = 0.08 * np.sin(3 * times[:, None] + np.arange(6))
    assert largest_error(a, jax.tree.map(lambda leaf: leaf[None], artix.neutral_state(a))) < 1e-6
    states = rollout(a, artix.neutral_state(a), Control(drive_target=jnp.asarray(targets)), 1 / 240)
    assert float(jnp.max(jnp.abs(states.joint_position[:, stretches]))) > 0.05
    assert largest_error(a, states) < 1e-6


# --- Pinocchio --------------------------------------------------------------------------------------------------------


def with_loops(a, ends, state):
    """The articulation with loop joints between links, closed in a state, and a velocity that keeps them closed."""
    rng = np.random.default_rng(3)
    kinds = {LoopJointType.SPHERICAL: (Axis.X, Axis.Y, Axis.Z), LoopJointType.FIXED: tuple(Axis)}
    structure = tuple(
        LoopJointStructure(f"loop_{k}", kind, link_a, link_b, kinds[kind])
        for k, (kind, link_a, link_b) in enumerate(ends)
    )
    poses_b = np.array([random_pose(rng, 0.3) for _ in ends])
    links = [oracles.placement_of(pose) for pose in np.asarray(artix.link_poses(a, state))]
    poses_a = []
    for (_, link_a, link_b), pose in zip(ends, poses_b, strict=True):
        world = links[link_b] * oracles.placement_of(pose)
        poses_a.append(oracles.pose_of(world if link_a < 0 else links[link_a].inverse() * world))
    joints = LoopJoints(jnp.asarray(poses_a), jnp.asarray(poses_b), jnp.zeros(len(ends)), jnp.full(len(ends), jnp.inf))
    a = a.replace(topology=dataclasses.replace(a.topology, loop_joints=structure), loop_joints=joints)
    found = rows(a, state)
    np.testing.assert_allclose(found.error, 0, atol=1e-12)
    nu = nu_of(a, state) - np.linalg.pinv(found.jacobian) @ found.velocity
    return a, with_nu(a, state, nu)


@pytest.mark.parametrize("fixed_base", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_forces_and_accelerations_are_pinocchios(fixed_base: bool) -> None:
    """``constraintDynamics`` of a tree with a ball to the ground and a weld between links, to 1e-8 of the largest."""
    model, a = oracles.spherical_model(3, fixed_base=fixed_base)
    state = state_at(random_states(a, 1, seed=2), 0)
    ends = [(LoopJointType.SPHERICAL, -1, 3), (LoopJointType.FIXED, 2, a.topology.num_links - 1)]
    a, state = with_loops(a, ends, state)
    n, base = a.topology.num_dofs, a.topology.num_base_dofs
    force = jnp.asarray(np.random.default_rng(5).normal(size=n))
    _, found = report(a, state, Control(joint_force=force), 1e-3)
    oracle = oracles.Oracle.at(model, a, state)
    points = [
        AnchorStructure(-1, 3, AnchorType.POINT, (0, 1, 2)),
        AnchorStructure(2, ends[1][2], AnchorType.WELD, tuple(range(6))),
    ]
    anchors = Anchors(tuple(points), a.loop_joints.pose_a, a.loop_joints.pose_b)
    models = oracle_constraints.constraint_models(oracle, anchors)
    data, datas = oracle.model.createData(), pin.StdVec_RigidConstraintData()
    datas.extend(one.createData() for one in models)
    pin.initConstraintDynamics(oracle.model, data, models, datas)
    torque = np.zeros(oracle.model.nv)
    torque[oracle.dof_order[base:]] = force
    settings = pin.ProximalSettings(1e-14, 1e-10, 50)
    acceleration = pin.constraintDynamics(oracle.model, data, oracle.q, oracle.v, torque, models, datas, settings)
    wanted = np.asarray(acceleration)[oracle.dof_order[base:]]
    np.testing.assert_allclose(found.joint_acceleration, wanted, atol=1e-8 * np.abs(wanted).max())
    poses = [oracles.placement_of(pose) for pose in np.asarray(artix.link_poses(a, state))]
    for k, (one, structure) in enumerate(zip(datas, points, strict=True)):
        frame = oracles.placement_of(a.loop_joints.pose_a[k])
        frame = frame if structure.link_a < 0 else poses[structure.link_a] * frame
        on_b = -np.concatenate([frame.rotation @ one.contact_force.linear, frame.rotation @ one.contact_force.angular])
        np.testing.assert_allclose(found.loop_joint_force[k], on_b, atol=1e-8 * np.abs(on_b).max())
