"""Drives, friction, envelopes and couplings: their values in the articulation, and error
messages."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import artix
from artix import (
    Attachment,
    Drive,
    DriveEnvelope,
    FixedTendon,
    Joint,
    JointFriction,
    LoopJoint,
    SpatialTendon,
    TendonJoint,
)
from artix.cli.info import summary
from tests.support import physx_mechanisms as physx


def chain(**options) -> artix.ArticulationBuilder:
    """A base, an arm on a hinge ``hip`` and a hand on a ball ``ball``; the options are the
    ball's."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="chain")
    builder.add_link(mass=1.0, inertia=[1.0, 1.0, 1.0], name="base")
    builder.add_link(
        0, Joint.revolute(name="hip", drive=Drive(stiffness=3.0)), name="arm", linear_damping=0.2
    )
    builder.add_link(
        1, Joint.spherical(name="ball", **options), name="hand", max_angular_velocity=7.0
    )
    return builder


def test_one_descriptor_holds_for_every_axis_and_a_sequence_for_one_each() -> None:
    drive = Drive(
        stiffness=2.0,
        damping=0.5,
        max_force=4.0,
        acceleration=True,
        target=0.3,
        target_velocity=-1.0,
    )
    a = chain(
        drive=[None, drive, drive], friction=0.25, envelope=DriveEnvelope(max_effort=6.0)
    ).build()
    np.testing.assert_array_equal(a.drive.stiffness, [3, 0, 2, 2])
    np.testing.assert_array_equal(a.drive.damping, [0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(a.drive.max_force, [np.inf, np.inf, 4, 4])
    np.testing.assert_array_equal(a.drive.is_acceleration, [0, 0, 1, 1])
    np.testing.assert_array_equal(a.drive.target_position, [0, 0, 0.3, 0.3])
    np.testing.assert_array_equal(a.drive.target_velocity, [0, 0, -1, -1])
    np.testing.assert_array_equal(a.envelope.max_effort, [np.inf, 6, 6, 6])
    np.testing.assert_array_equal(a.envelope.max_actuator_velocity, [np.inf] * 4)
    np.testing.assert_array_equal(a.friction.static, [0, 0.25, 0.25, 0.25])
    np.testing.assert_array_equal(a.friction.dynamic, a.friction.static)
    np.testing.assert_array_equal(a.friction.viscous, np.zeros(4))
    np.testing.assert_array_equal(a.link_linear_damping, [0, 0.2, 0])
    np.testing.assert_array_equal(a.max_link_angular_velocity, [np.inf, np.inf, 7])
    np.testing.assert_array_equal(a.link_cfm_scale, np.full(3, 0.025))
    assert {leaf.dtype for leaf in jax.tree.leaves(a)} == {np.dtype("float64")}


def test_couplings_are_found_by_name() -> None:
    builder = chain()
    builder.add_mimic("ball:1", "hip", 2.0, natural_frequency=5.0, damping_ratio=0.7)
    joints = [TendonJoint(dof="hip", coefficient=1.0, recip_coefficient=0.5)]
    joints.append(TendonJoint(dof="ball:2", coefficient=-1.0, recip_coefficient=-2.0, parent=0))
    builder.add_fixed_tendon(
        FixedTendon(name="cord", stiffness=9.0, limits=(-1.0, 1.0), joints=joints)
    )
    points = [
        Attachment(link="base", position=[0, 0, 1]),
        Attachment(link="arm", position=[1, 0, 0], parent=0, coefficient=2.0),
        Attachment(link="hand", position=[0, 1, 0], parent=1, rest_length=0.5),
        Attachment(link="arm", position=[0, 0, 0], parent=0, rest_length=0.4, limits=(0.1, 0.6)),
    ]
    builder.add_spatial_tendon(SpatialTendon(name="rope", damping=0.1, attachments=points))
    builder.add_loop_joint(LoopJoint(name="latch", link_a=None, link_b="hand", type="revolute"))
    a = builder.build()
    topology = a.topology
    assert topology.mimic_dofs == ((2, 0),)
    assert (topology.fixed_tendons[0].root_link, topology.fixed_tendons[0].dofs) == (0, (0, 3))
    rope = topology.spatial_tendons[0]
    assert (rope.links, rope.parents, rope.leaves, rope.path(2)) == (
        (0, 1, 2, 1),
        (-1, 0, 1, 0),
        (2, 3),
        (2, 1),
    )
    latch = topology.loop_joints[0]
    assert (latch.link_a, latch.link_b, [int(axis) for axis in latch.locked_axes]) == (
        -1,
        2,
        [1, 2, 3, 4, 5],
    )
    np.testing.assert_array_equal(a.fixed_tendons.recip_coefficient, [0.5, -2.0])
    np.testing.assert_array_equal(a.spatial_tendons.rest_length, [0, 0, 0.5, 0.4])
    np.testing.assert_array_equal(a.spatial_tendons.upper_limit, [np.inf, np.inf, np.inf, 0.6])
    np.testing.assert_array_equal(a.mimic.natural_frequency, [5.0])
    assert hash(topology) == hash(builder.build().topology)
    assert topology == builder.build().topology
    assert topology != chain().build().topology
    line = summary(a)
    for text in (
        "1 mimic joint",
        "1 fixed tendon",
        "1 spatial tendon",
        "1 loop joint",
        "1 driven DOF",
    ):
        assert text in line


def test_recorded_mechanisms_have_what_their_names_say() -> None:
    def arrays(name: str) -> artix.Articulation:
        return physx.build(name)

    assert float(arrays("e_drive_accel").drive.is_acceleration.max()) == 1
    assert np.isfinite(arrays("e_drive_envelope").envelope.max_actuator_velocity).all()
    assert float(arrays("e_friction").friction.viscous.max()) > 0
    assert float(arrays("e_damping").link_linear_damping.max()) > 0
    assert np.isfinite(arrays("e_link_max_velocity").max_link_linear_velocity).any()
    assert float(arrays("f_mimic_compliant").mimic.natural_frequency.max()) > 0
    assert len(arrays("g_fixed_tendon_branch").fixed_tendons.coefficient) == 3
    assert len(arrays("h_spatial_tendon_branch").spatial_tendons.coefficient) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Drive(stiffness=-1.0), 
            "drive: stiffness must be finite and not negative; found -1.0"),
        (lambda: Drive(damping=np.inf), "drive: damping must be finite"),
        (lambda: Drive(max_force=np.nan), "drive: max_force must be not negative"),
        (lambda: Drive(target=np.nan), "drive: target must be finite; found nan"),
        (lambda: Drive(stiffness=[1.0]), r"drive: stiffness must be one number; found \[1.0\]"),
        (lambda: DriveEnvelope(max_effort=np.inf), "envelope: max_effort must be finite"),
        (lambda: DriveEnvelope(max_effort=1.0, speed_effort_gradient=-1.0), 
            "envelope: speed_effort_gradient must be"),
        (lambda: JointFriction(static=1.0, dynamic=2.0), r"friction: dynamic friction \(2.0\) must not exceed"),
        (lambda: JointFriction(viscous=-2.0), "friction: viscous must be finite and not negative"),
        (lambda: chain(drive=[Drive()]).build(), 
            "joint 'ball': drive must be one Drive or a sequence with one per free axis"),
        (lambda: chain(friction="much").build(), 
            "joint 'ball': friction must be one JointFriction or float"),
        (lambda: chain(envelope=Drive()).build(), 
            "joint 'ball': envelope must be one DriveEnvelope"),
        (lambda: chain().add_link(1, Joint.fixed(), name="tip", linear_damping=-1.0), 
            "link 'tip': linear_damping must be"),
        (lambda: chain().add_link(1, Joint.fixed(), name="tip", cfm_scale=np.inf), 
            "link 'tip': cfm_scale must be finite"),
        (
            lambda: chain().add_link(1, Joint.fixed(), name="tip", max_linear_velocity=np.nan),
            r"link 'tip': max_linear_velocity must be not negative \(inf for none\)",
        ),
    ],
)  # fmt: skip
def test_refused_descriptors(make, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


HIP = TendonJoint(dof="hip", coefficient=1.0, recip_coefficient=1.0)
LEAF = Attachment(link="arm", position=[0, 0, 0], parent=0, rest_length=1.0)
ROOT = Attachment(link="base", position=[0, 0, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TendonJoint(dof="hip", coefficient=np.nan, recip_coefficient=1.0), 
            "tendon joint on 'hip': coefficient"),
        (lambda: FixedTendon(name="cord", joints=[]), "fixed tendon 'cord': it has no joint"),
        (lambda: FixedTendon(name="cord", joints=[HIP], stiffness=-1.0), 
            "fixed tendon 'cord': stiffness must be"),
        (lambda: FixedTendon(name="cord", joints=[HIP], limits=(1.0, 0.0)), 
            "fixed tendon 'cord': the lower limit 1.0"),
        (
            lambda: FixedTendon(name="cord", joints=[TendonJoint(dof="hip", coefficient=1.0, recip_coefficient=1.0, parent=0)]),
            "fixed tendon 'cord': parent 0 of joint 0 must be -1",
        ),
        (lambda: Attachment(link="arm", position=[0, 0]), r"attachment on link 'arm': position: expected shape \(3,\)"),
        (lambda: SpatialTendon(name="rope", attachments=[ROOT]), 
            "spatial tendon 'rope': it needs a root and at least one leaf"),
        (lambda: SpatialTendon(name="rope", attachments=[LEAF, LEAF]), 
            "attachment 0 on link 'arm': parent 0 must be -1"),
        (lambda: SpatialTendon(name="rope", attachments=[ROOT, ROOT]), 
            "attachment 1 on link 'base': parent -1 must be"),
        (
            lambda: SpatialTendon(name="rope", attachments=[ROOT, Attachment(link="arm", position=[0, 0, 0], parent=0)]),
            "attachment 1 on link 'arm': a leaf needs a rest_length",
        ),
        (
            lambda: SpatialTendon(name="rope", attachments=[ROOT, LEAF, Attachment(link="hand", position=[0, 0, 0], parent=1, rest_length=1.0)]),
            "attachment 1 on link 'arm': only leaves have a rest_length",
        ),
        (lambda: LoopJoint(name="latch", link_a="arm", link_b="arm"), 
            "loop joint 'latch': link_a and link_b must differ"),
        (lambda: LoopJoint(name="latch", link_a=None, link_b="arm", type="d6"), 
            "loop joint 'latch': locked_axes are given"),
        (lambda: LoopJoint(name="latch", link_a=None, link_b="arm", max_distance=1.0), 
            "only a joint of type 'distance'"),
        (lambda: LoopJoint(name="latch", link_a=None, link_b="arm", pose_b=[0] * 7), 
            "'latch': pose_b: the quaternion"),
        (lambda: LoopJoint(name="latch", link_a=None, link_b="arm", type="d6", locked_axes=(3, 1)), 
            "in the order of"),
        (lambda: LoopJoint(name="latch", link_a=None, link_b="arm", type="glue"), 
            "'glue' is not a valid LoopJointType"),
        (lambda: chain().add_mimic("ball:0", "hip", 1.0, natural_frequency=3.0), 
            "mimic joint 'ball:0': natural_frequency and"),
    ],
)  # fmt: skip
def test_refused_couplings(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda b: b.add_mimic("ball", "hip", 1.0), 
            "mimic joint 'ball': joint 'ball' must have exactly one DOF; its DOFs are: ball:0"),
        (lambda b: [b.add_mimic("ball:0", x, 1.0) for x in ("hip", "ball:1")], 
            "mimic joint 'ball:0': it follows two joints"),
        (lambda b: b.add_fixed_tendon(FixedTendon(name="cord", joints=[HIP], root_link="hand")), 
            "fixed tendon 'cord': the joint of 'hip' moves"),
        (lambda b: b.add_fixed_tendon(FixedTendon(name="cord", joints=[HIP], root_link="foot")), 
            "fixed tendon 'cord': no link called 'foot'"),
        (lambda b: b.add_fixed_tendon(FixedTendon(name="cord", joints=[HIP, TendonJoint(dof="knee", coefficient=1.0, recip_coefficient=1.0)])),
         "fixed tendon 'cord': no joint or DOF called 'knee'"),
        (lambda b: b.add_loop_joint(LoopJoint(name="latch", link_a=None, link_b="foot")), 
            "loop joint 'latch': no link called 'foot'"),
        (lambda b: b.add_spatial_tendon(SpatialTendon(name="rope", attachments=[Attachment(link="foot", position=[0, 0, 0]), LEAF])),
         "spatial tendon 'rope': no link called 'foot'"),
        (lambda b: [b.add_loop_joint(LoopJoint(name="latch", link_a=None, link_b="hand")) for _ in range(2)], 
            "loop joint 'latch': the name is taken"),
    ],
)  # fmt: skip
def test_refused_names(add, message: str) -> None:
    def build() -> None:
        builder = chain()
        add(builder)
        builder.build()

    with pytest.raises(ValueError, match=message):
        build()
