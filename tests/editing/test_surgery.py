"""Locked joints, attached articulations and mimic maps: against Pinocchio, and against
articulations from a builder."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import ArticulationBuilder, Joint, LoopJoint, State, viewer
from artix.editing import surgery
from artix.model.parts import PER_DOF, PER_LINK
from tests.io.test_archive import with_couplings
from tests.kinematics.test_configuration import close
from tests.support import oracles
from tests.support.bases import BASES_FIXED_SLOW
from tests.support.models import nu_of, random_pose, random_states, state_at, with_nu, zoo

pin = oracles.pin


def entries(a: artix.Articulation, names) -> np.ndarray:
    """Places in ``nu`` of the base and of joints by name."""
    topology, base = a.topology, a.topology.num_base_dofs
    joints = [base + np.arange(topology.num_dofs)[topology.dofs(name)] for name in names]
    return np.concatenate([np.arange(base), *joints])


@jax.jit
def dynamics(a, state, acceleration):
    """What tells two articulations apart."""
    force = artix.inverse_dynamics(a, state, acceleration)
    return (
        artix.mass_matrix(a, state, armature=True),
        force,
        artix.center_of_mass_jacobian(a, state),
    )


def same_dynamics(one: artix.Articulation, other: artix.Articulation, root_pose) -> None:
    """Compares two articulations with joints of the same names in a random state, whatever the
    order of their DOFs."""
    names = [
        name
        for name, axes in zip(
            other.topology.joint_names, other.topology.joint_axes[1:], strict=True
        )
        if axes
    ]
    first, second = entries(one, names), entries(other, names)
    assert len(first) == len(second) == one.topology.nv == other.topology.nv
    start = state_at(random_states(one, 1, seed=3), 0).replace(root_pose=root_pose)
    acceleration = jnp.asarray(np.random.default_rng(2).normal(size=one.topology.nv))
    base = one.topology.num_base_dofs
    order = np.zeros(len(first), int)
    order[second] = first
    there = with_nu(other, start, nu_of(one, start)[order])
    there = there.replace(joint_position=start.joint_position[order[base:] - base])
    matrix, force, jacobian = dynamics(one, start, acceleration)
    have = matrix[np.ix_(order, order)], force[order]
    wanted = dynamics(other, there, acceleration[order])
    close(have[0], wanted[0], 1e-11)
    close(have[1], wanted[1], 1e-11)
    if base:  # Pinocchio drops what is fixed to the world.
        close(jacobian[:, order], wanted[2], 1e-11)


def model_with_frames(seed: int, *, fixed_base: bool):
    """A random model with the joint frames that Pinocchio's own surgery crashes without, and the
    same articulation."""
    model, a = oracles.spherical_model(seed, fixed_base=fixed_base)
    for joint in range(1, model.njoints):
        model.addJointFrame(joint, -1)
    return model, a


@pytest.mark.slow
@BASES_FIXED_SLOW
def test_locked_joints_against_pinocchio(fixed_base: bool) -> None:
    model, a = model_with_frames(4, fixed_base=fixed_base)
    state = state_at(random_states(a, 1, seed=1), 0)
    # Not on the root, whose centre of mass would be another.
    joints = ["wrist", "finger", "rail"] if fixed_base else ["wrist", "slider"]
    q = oracles.Oracle.at(model, a, state).q
    reduced = pin.buildReducedModel(model, [model.getJointId(name) for name in joints], q)
    found = artix.lock_joints(a, state, joints)
    assert found.topology.link_names == a.topology.link_names
    assert found.topology.num_bodies == a.topology.num_bodies - len(joints)
    root = None
    if fixed_base:
        root = pin.Inertia(
            float(a.link_mass[0]), np.asarray(a.link_com_pose[0, :3]), np.asarray(a.link_inertia[0])
        )
    same_dynamics(found, oracles.articulation_from_pinocchio(reduced, root=root), state.root_pose)


@pytest.mark.slow
def test_gradient_through_a_locked_joint() -> None:
    _, a = oracles.spherical_model(4, fixed_base=False)
    state = state_at(random_states(a, 1, seed=1), 0)
    rest = jnp.zeros(a.topology.num_dofs - 4)

    @jax.jit
    def height(q):
        locked = artix.lock_joints(a, state.replace(joint_position=q), ["shoulder", "slider"])
        return artix.center_of_mass(
            locked, State(state.root_pose, state.root_velocity, rest, rest)
        )[2]

    direction = jnp.asarray(np.random.default_rng(0).normal(size=a.topology.num_dofs))
    change = jax.grad(height)(state.joint_position) @ direction
    h = 1e-5
    ends = [height(state.joint_position + sign * h * direction) for sign in (1, -1)]
    assert abs(change - (ends[0] - ends[1]) / (2 * h)) <= 1e-9
    assert abs(change) > 1e-3


@pytest.mark.slow
@BASES_FIXED_SLOW
def test_attached_articulation_against_pinocchio(fixed_base: bool) -> None:
    rng = np.random.default_rng(0)
    model, a = model_with_frames(4, fixed_base=fixed_base)
    other, _ = model_with_frames(6, fixed_base=True)
    b = oracles.articulation_from_pinocchio(other)
    for joint in range(1, other.njoints):
        name = other.names[joint]
        other.frames[other.getFrameId(name)].name = other.names[joint] = f"b_{name}"
    wrist, pose = model.getJointId("elbow"), random_pose(rng)
    frame = model.addFrame(pin.Frame("mount", wrist, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    whole = pin.appendModel(model, other, frame, oracles.placement_of(pose))
    whole.gravity = model.gravity  # pin 4.1's appendModel drops the gravity and the armature.
    for part in (model, other):
        for joint in range(1, part.njoints):
            there, size = whole.getJointId(part.names[joint]), part.nvs[joint]
            first, second = part.idx_vs[joint], whole.idx_vs[there]
            whole.armature[second : second + size] = part.armature[first : first + size]
    found = artix.attach_articulation(
        a, f"body_{wrist}", b, Joint.fixed(parent_pose=pose), prefix="b_"
    )
    assert found.topology.num_dofs == whole.nv - (0 if fixed_base else 6)
    state = state_at(random_states(a, 1, seed=1), 0)
    same_dynamics(found, oracles.articulation_from_pinocchio(whole), state.root_pose)


def hand(
    builder: ArticulationBuilder, parent: int | None, joint: Joint | None, prefix: str = ""
) -> None:
    """A hand with every kind of coupling, on a link or by itself."""
    palm = builder.add_link(parent, joint, name=f"{prefix}palm", mass=1.0, inertia=[0.1, 0.2, 0.15])
    links = {"palm": palm}
    for name, above in (("thumb", "palm"), ("index", "palm"), ("tip", "index"), ("nail", "tip")):
        made = Joint.revolute(
            name=f"{prefix}{name} joint",
            parent_pose=[0.1, 0.02, 0.0, 0.0, 0.6, 0.0, 0.8],
            drive=artix.Drive(stiffness=float(len(links)), damping=0.1),
            friction=0.01,
            armature=0.1 * len(links),
        )
        links[name] = builder.add_link(
            links[above], made, name=f"{prefix}{name}", mass=0.1, inertia=[0.01] * 3
        )
    builder.add_frame(f"{prefix}grasp", palm, [0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    builder.add_mimic(f"{prefix}thumb joint", f"{prefix}index joint", gear_ratio=-2.0, offset=0.1)
    pulleys = [
        artix.TendonJoint(
            dof=f"{prefix}{name} joint", coefficient=1.0, recip_coefficient=1.0, parent=k - 1
        )
        for k, name in enumerate(("tip", "nail"))
    ]
    builder.add_fixed_tendon(
        artix.FixedTendon(name=f"{prefix}cable", joints=pulleys, stiffness=5.0)
    )
    points = [
        artix.Attachment(link=f"{prefix}palm", position=(0.0, 0.0, 0.1)),
        artix.Attachment(link=f"{prefix}tip", position=(0.1, 0.0, 0.0), parent=0, rest_length=0.1),
    ]
    builder.add_spatial_tendon(
        artix.SpatialTendon(name=f"{prefix}cord", attachments=points, stiffness=3.0)
    )
    builder.add_loop_joint(
        LoopJoint(name=f"{prefix}loop", link_a=f"{prefix}thumb", link_b=f"{prefix}nail")
    )


def arm(builder: ArticulationBuilder) -> None:
    base = builder.add_link(name="base", mass=1.0)
    for side in ("left", "right"):
        hip = builder.add_link(
            base, Joint.revolute(name=f"{side} hip"), name=f"{side} thigh", mass=1.0
        )
        builder.add_link(
            hip,
            Joint.prismatic(name=f"{side} slide"),
            name=f"{side} foot",
            mass=1.0,
            inertia=[1, 1, 1],
        )


def test_attached_articulation_is_what_a_builder_builds() -> None:
    mount = Joint.spherical(
        name="wrist", parent_pose=[0.0, 0.3, 0.0, 0.6, 0.0, 0.0, 0.8], armature=0.3
    )
    parts = [
        ArticulationBuilder(fixed_base=True, name="robot"),
        ArticulationBuilder(),
        ArticulationBuilder(),
    ]
    arm(parts[0])
    hand(parts[1], None, None)
    whole = ArticulationBuilder(fixed_base=True, name="robot")
    arm(whole)
    hand(whole, 1, mount, "my ")
    hand(whole, 2, Joint.fixed(name="her palm_joint"), "her ")
    robot, palm = parts[0].build(), parts[1].build()
    found = artix.attach_articulation(robot, "left thigh", palm, mount, prefix="my ")
    found = artix.attach_articulation(found, "left foot", palm, prefix="her ")
    wanted = whole.build()
    assert found.topology == wanted.topology
    paths = jax.tree_util.tree_leaves_with_path(wanted)
    for (path, want), have in zip(paths, jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(have, want, err_msg=jax.tree_util.keystr(path))
    assert found.dtype == robot.dtype


@pytest.mark.parametrize(
    "make",
    [
        with_couplings,
        lambda: zoo(fixed_base=True, armature=0.2),
        lambda: oracles.helical_model(fixed_base=False)[1],
    ],
    ids=["couplings", "zoo", "helical"],
)
def test_back_to_a_builder(make) -> None:
    a = make()
    builder = artix.builder_from_articulation(a)
    again = builder.build(a.dtype)
    assert again.topology == a.topology
    paths = jax.tree_util.tree_leaves_with_path(a)
    for (path, want), have in zip(paths, jax.tree.leaves(again), strict=True):
        # The length of a quaternion is taken off once more.
        np.testing.assert_allclose(
            have, want, rtol=1e-15, atol=1e-15, err_msg=jax.tree_util.keystr(path)
        )
    link = builder.add_link(
        a.topology.creation_index[-1], Joint.revolute(name="new joint"), name="new", mass=1.0
    )
    builder.add_frame("new frame", link)
    more = builder.build()
    assert set(more.topology.link_names) == {*a.topology.link_names, "new"}
    assert more.topology.parent[more.topology.link_index("new")] == a.topology.num_links - 1
    with pytest.raises(ValueError, match="a batch of articulations is not one robot"):
        artix.builder_from_articulation(jax.tree.map(lambda leaf: leaf[None], a))


@pytest.mark.slow
def test_locking_takes_couplings_along() -> None:
    builder = ArticulationBuilder(fixed_base=True)
    hand(builder, None, None)
    a = builder.build()
    rest = artix.neutral_state(a)
    locked = artix.lock_joints(a, rest, ["thumb joint", "index joint"])
    assert locked.topology.mimic_dofs == () and locked.mimic.gear_ratio.shape == (0,)
    assert [one.dofs for one in locked.topology.fixed_tendons] == [(0, 1)]
    close(locked.drive.stiffness, a.drive.stiffness[2:])
    locked = artix.lock_joints(a, rest, ["tip joint", "nail joint"])
    assert locked.topology.mimic_dofs == a.topology.mimic_dofs
    assert locked.topology.fixed_tendons == () and locked.fixed_tendons.coefficient.shape == (0,)
    assert locked.topology.spatial_tendons == a.topology.spatial_tendons
    with pytest.raises(
        ValueError,
        match=r"mimic joint 'thumb joint' couples \['thumb joint'\], to be locked, to \['in",
    ):
        artix.lock_joints(a, rest, ["thumb joint"])
    with pytest.raises(ValueError, match=r"fixed tendon 'cable' couples \['nail joint'\]"):
        artix.lock_joints(a, rest, ["nail joint"])
    with pytest.raises(KeyError, match="no joint called 'toe'"):
        artix.lock_joints(a, rest, ["toe"])
    with pytest.raises(TypeError, match="sequence of names; found the one string 'thumb joint'"):
        artix.lock_joints(a, rest, "thumb joint")


def test_every_array_is_taken_along() -> None:
    fields = {field.name for field in dataclasses.fields(artix.Articulation)} - {
        "topology",
        "gravity",
    }
    assert fields == {*PER_LINK, *PER_DOF, *surgery._LISTED}


def robot_of_one_link() -> artix.Articulation:
    builder = ArticulationBuilder(fixed_base=True)
    builder.add_link(name="base", mass=1.0)
    return builder.build()


def test_what_cannot_be_attached() -> None:
    base, builder = robot_of_one_link(), ArticulationBuilder()
    hand(builder, None, None)
    palm = builder.build()
    two = artix.attach_articulation(base, "base", palm)
    with pytest.raises(
        ValueError,
        match=r"fixed tendon names of parent and child must differ; both have cable; give a",
    ):
        artix.attach_articulation(two, "base", palm)
    with pytest.raises(
        ValueError,
        match=r"link or frame names of parent and child must differ; both have base; give a",
    ):
        artix.attach_articulation(base, "base", base)
    with pytest.raises(KeyError, match="no link called 'elbow'"):
        artix.attach_articulation(base, "elbow", palm)
    with pytest.raises(TypeError, match="one dtype; found float64 and float32"):
        artix.attach_articulation(base, "base", palm.astype("float32"))
    with pytest.raises(TypeError, match="joint must be one Joint, found CompositeJoint"):
        artix.attach_articulation(base, "base", palm, artix.CompositeJoint.planar())
    builder.add_loop_joint(LoopJoint(name="anchor", link_a=None, link_b="palm"))
    with pytest.raises(ValueError, match="loop joint 'anchor' ties the child to the world"):
        artix.attach_articulation(base, "base", builder.build())


@pytest.mark.parametrize("robot", ["panda", pytest.param("tiago_pro", marks=pytest.mark.slow)])
def test_mimic_map_against_pinocchio(robot: str) -> None:
    path = str(
        oracles.ROBOTS
        / {**oracles.ROBOT_FILES, "tiago_pro": "tiago_pro_description/robots/tiago_pro.urdf"}[robot]
    )
    model, a = pin.buildModelFromUrdf(path, mimic=True), artix.load_urdf(path, fixed_base=True)
    assert a.topology.mimic_dofs
    mimic = artix.mimic_map(a)
    names = [a.topology.dof_names[dof] for dof in mimic.independent]
    order = np.array([model.idx_vs[model.getJointId(name)] for name in names])
    assert len(order) == model.nv == a.topology.num_dofs - len(a.topology.mimic_dofs)
    rng = np.random.default_rng(0)
    position, velocity, acceleration = (
        jnp.asarray(rng.uniform(-1.0, 1.0, model.nv)) for _ in range(3)
    )
    rest = artix.neutral_state(a)
    state = rest.replace(joint_position=position, joint_velocity=velocity)

    @jax.jit
    def reduced(state, acceleration):
        whole, matrix = mimic.expand(state), mimic.matrix
        force = artix.inverse_dynamics(a, whole, matrix @ acceleration)
        return (
            matrix.T @ artix.mass_matrix(a, whole) @ matrix,
            matrix.T @ force,
            artix.frame_pose(a, whole),
        )

    matrix, force, poses = reduced(state, acceleration)
    q, v, rate = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
    for name, x in zip(names, position, strict=True):
        joint = model.getJointId(name)
        q[model.idx_qs[joint] :][: model.nqs[joint]] = (
            x if model.nqs[joint] == 1 else (np.cos(x), np.sin(x))
        )
    v[order], rate[order] = velocity, acceleration
    data = model.createData()
    close(force, pin.rnea(model, data, q, v, rate)[order], 1e-10)
    mass = np.triu(pin.crba(model, data, q))
    close(matrix, (mass + np.triu(mass, 1).T)[np.ix_(order, order)], 1e-10)
    pin.framesForwardKinematics(model, data, q)
    for name, pose in zip(a.topology.link_names, poses, strict=True):
        if model.existFrame(name):
            placement = data.oMf[model.getFrameId(name, pin.FrameType.BODY)]
            close(oracles.placement_of(pose).homogeneous, placement.homogeneous, 1e-11)
    assert artix.is_same_configuration(
        a, mimic.expand(mimic.reduce(mimic.expand(state))), mimic.expand(state)
    )


def test_mimic_map_of_chains() -> None:
    def fingers(*relations) -> artix.Articulation:
        builder = ArticulationBuilder(fixed_base=False)
        builder.add_link(name="base", mass=1.0, inertia=[1, 1, 1])
        for k in range(4):
            builder.add_link(k, Joint.revolute(name=f"joint {k}"), mass=1.0, inertia=[1, 1, 1])
        builder.add_link(0, Joint.spherical(name="ball"), mass=1.0, inertia=[1, 1, 1])
        for follower, reference, ratio, offset in relations:
            builder.add_mimic(follower, reference, ratio, offset)
        return builder.build()

    a = fingers(("joint 1", "joint 3", 2.0, 0.1), ("joint 0", "joint 1", -3.0, 0.2))
    mimic = artix.mimic_map(a)
    state = mimic.reduce(state_at(random_states(a, 1), 0))
    whole = mimic.expand(state)
    q, qd = (
        dict(zip(a.topology.dof_names, x, strict=True))
        for x in (whole.joint_position, whole.joint_velocity)
    )
    assert abs(q["joint 1"] + 2.0 * q["joint 3"] + 0.1) <= 1e-15
    assert abs(q["joint 0"] - 3.0 * q["joint 1"] + 0.2) <= 1e-15
    assert abs(qd["joint 0"] + 6.0 * qd["joint 3"]) <= 1e-15
    close(nu_of(a, whole), mimic.matrix @ nu_of(a, state))
    with pytest.raises(ValueError, match="in a circle: joint 1 -> joint 2 -> joint 1"):
        artix.mimic_map(fingers(("joint 1", "joint 2", 1.0, 0.0), ("joint 2", "joint 1", 1.0, 0.0)))
    with pytest.raises(
        ValueError,
        match="mimic joint 'joint 1': a joint of several DOFs has no linear map; see 'ball:0'",
    ):
        artix.mimic_map(fingers(("joint 1", "ball:0", 1.0, 0.0)))


def test_what_is_drawn_of_both_parts_is_drawn_of_the_whole() -> None:
    arm, walker = artix.robots.load("arm7"), artix.robots.load("quadruped")
    feet = artix.select_geometry(walker, ["front_left_foot"])

    def drawn(robot: artix.Articulation) -> list[str]:
        return sorted(robot.topology.link_names[one.link] for one in viewer.visuals_of(robot))

    for name in ("arm7", "another"):  # One of artix's own has surfaces of its own.
        named = dataclasses.replace(arm.topology, name=name)
        arm = arm.replace(topology=named)
        wanted = drawn(artix.attach_articulation(arm, "tool", walker, prefix="w_"))
        assert {"w_front_left_foot", "w_rear_right_foot"} < {*wanted}
        for parts in ((arm, feet), (artix.select_geometry(arm, []), walker)):
            whole = artix.attach_articulation(parts[0], "tool", parts[1], prefix="w_")
            assert drawn(whole) == wanted
