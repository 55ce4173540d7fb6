"""Frame pairs: against Pinocchio's rigid constraints and against finite differences."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import ArticulationBuilder, Axis, Joint, LoopJoint, LoopJointType
from artix.constraints.frame_pairs import (
    AnchorStructure,
    AnchorType,
    FramePairs,
    anchor_rows,
    loop_anchors,
)
from tests.dynamics.test_dynamics_derivatives import KINDS, PARENTS, along_configuration, relative
from tests.support import oracle_constraints, oracles
from tests.support.bases import BASES_FIXED_WEEKLY
from tests.support.models import nu_of, random_states, state_at, tree_of
from tests.support.oracle_constraints import point, weld
from tests.support.oracle_derivatives import differences

COUNTS = [*itertools.combinations(range(3, 6), 1), *itertools.combinations(range(3, 6), 2)]


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_points_and_welds_against_pinocchio(fixed_base: bool) -> None:
    model, a = oracles.spherical_model(3, fixed_base=fixed_base)
    links = a.topology.num_links
    ends = [(links - 1, -1), (2, 5), (-1, 3), (links - 1, 0)]
    structure = [
        make(*pair, axes)
        for make in (point, weld)
        for axes in ("local", "world_aligned")
        for pair in ends
    ]
    anchors = oracle_constraints.random_anchors(structure, 4)
    state = state_at(random_states(a, 1, seed=2), 0)
    found = jax.jit(anchor_rows)(a, state, anchors)
    oracle = oracles.Oracle.at(model, a, state)
    wanted = oracle_constraints.constraint_kinematics(oracle, anchors)
    for name in ("jacobian", "bias"):
        assert relative(getattr(found, name), wanted[name]) <= 1e-11, name
    np.testing.assert_allclose(found.velocity, found.jacobian @ nu_of(a, state), atol=1e-12)
    # Pinocchio leaves errors in the axes of frame a.
    local = np.array([structure[k].axes == "local" for k in anchors.row_anchor])
    np.testing.assert_allclose(np.asarray(found.error)[local], wanted["error"][local], atol=1e-11)
    sizes = [
        np.linalg.norm(np.asarray(found.error)[anchors.row_anchor == k][:3])
        for k in range(len(structure))
    ]
    lengths = [
        np.linalg.norm(wanted["error"][anchors.row_anchor == k][:3]) for k in range(len(structure))
    ]
    np.testing.assert_allclose(sizes, lengths, atol=1e-11)


def joints_of(links: int, rows) -> list[AnchorStructure]:
    return [
        AnchorStructure(links - 1, k % 3 - 1, AnchorType.JOINT, tuple(one))
        for k, one in enumerate(rows)
    ]


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_joints_and_distances_against_differences(fixed_base: bool) -> None:
    """Rates of the errors, and rates of those, wherever the free axes have gone."""
    a = tree_of(KINDS, PARENTS, fixed_base=fixed_base, seed=5)
    structure = joints_of(a.topology.num_links, [(0, 1, 2, *locked) for locked in COUNTS])
    structure.append(AnchorStructure(-1, 4, AnchorType.DISTANCE, (0,)))
    structure.append(AnchorStructure(2, 5, AnchorType.DISTANCE, (0,)))
    anchors = oracle_constraints.random_anchors(structure, 6)
    state = state_at(random_states(a, 1, seed=3), 0)
    rows = jax.jit(lambda s: anchor_rows(a, s, anchors))
    found = rows(state)
    jacobian = differences(
        lambda s: rows(s).error, along_configuration(a, state), a.topology.nv, step=1e-4
    )
    assert relative(found.jacobian, jacobian) <= 1e-9
    along = lambda _, h: artix.integrate(a, state, h * nu_of(a, state))  # noqa: E731
    assert (
        relative(found.bias, differences(lambda s: rows(s).velocity, along, 1, step=1e-4)[:, 0])
        <= 1e-9
    )
    np.testing.assert_allclose(found.velocity, found.jacobian @ nu_of(a, state), atol=1e-12)


def four_bar(kind: LoopJointType, **options) -> artix.Articulation:
    """Three bars in a row and a loop joint that returns to the base at the zero configuration."""
    builder = ArticulationBuilder(fixed_base=True)
    link = builder.add_link(mass=1.0, inertia=np.eye(3), name="base")
    for name, where in (("left", 0.0), ("top", 1.0), ("right", 1.0)):
        joint = Joint.revolute(Axis.SWING1, parent_pose=[where, 0, 0, 0, 0, 0, 1])
        link = builder.add_link(link, joint, mass=1.0, inertia=np.eye(3), name=name)
    ends = {"pose_a": [3.0, 0, 0, 0, 0, 0, 1], "pose_b": [1.0, 0, 0, 0, 0, 0, 1]}
    builder.add_loop_joint(
        LoopJoint(name="loop", link_a=None, link_b="right", type=kind, **ends, **options)
    )
    return builder.build()


ROWS = {
    LoopJointType.FIXED: (0, 1, 2, 3, 4, 5),
    LoopJointType.REVOLUTE: (0, 1, 2, 4, 5),
    LoopJointType.SPHERICAL: (0, 1, 2),
    LoopJointType.PRISMATIC: (1, 2, 3, 4, 5),
    LoopJointType.DISTANCE: (0,),
}


@pytest.mark.slow
def test_loop_joints() -> None:
    for kind, rows in ROWS.items():
        a = four_bar(kind)
        anchors = loop_anchors(a)
        assert anchors.structure[0].rows == rows
        found = anchor_rows(a, artix.neutral_state(a), anchors)
        np.testing.assert_allclose(found.error, np.zeros(len(rows)), atol=1e-15)
        assert found.jacobian.shape == (len(rows), 3)
    a = four_bar(LoopJointType.D6, locked_axes=(Axis.SWING1, Axis.Z))
    anchors = loop_anchors(a)
    assert anchors.structure[0].rows == (2, 4)
    state = artix.neutral_state(a).replace(joint_position=jnp.array([0.1, 0.2, 0.3]))
    found = anchor_rows(a, state, anchors)
    # A turn about y sinks the end of a bar: 1 sin(0.1) + 1 sin(0.3) + 1 sin(0.6), and the world is
    # frame a.
    height = np.sin(0.1) + np.sin(0.3) + np.sin(0.6)
    np.testing.assert_allclose(found.error, [height, -0.6], atol=1e-14)
    np.testing.assert_allclose(found.jacobian[1], [-1.0, -1.0, -1.0], atol=1e-14)
    assert loop_anchors(tree_of(["fixed"], [0], fixed_base=True)).num_rows == 0


@pytest.mark.slow
def test_errors_have_finite_derivatives() -> None:
    """At coinciding frames and at half turns; in both modes."""
    structure = joints_of(1, [(0, 1, 2, *locked) for locked in [(), *COUNTS, (3, 4, 5)]])
    structure += [
        weld(0),
        weld(0, axes="world_aligned"),
        AnchorStructure(0, -1, AnchorType.DISTANCE, (0,)),
    ]
    structure = [dataclasses.replace(one, link_a=0, link_b=-1) for one in structure]
    identity = jnp.zeros((len(structure), 7)).at[:, 6].set(1.0)
    anchors = FramePairs(tuple(structure), identity, identity)
    a = tree_of([], [], fixed_base=False)
    half = 0.5 * np.array([0.0, 0.3, np.pi])
    zero = np.zeros_like(half)
    turns = {"x": (np.sin(half), zero, zero), "xz": (0.6 * np.sin(half), zero, 0.8 * np.sin(half))}
    poses = np.concatenate(
        [np.stack([zero, zero, zero, *turn, np.cos(half)], axis=1) for turn in turns.values()]
    )
    state = state_at(random_states(a, 1), 0)

    def rows(pose):
        found = anchor_rows(a, state.replace(root_pose=pose), anchors)
        return jnp.concatenate([jnp.ravel(part) for part in found])

    weights = jnp.cos(jnp.arange(1.0, rows(jnp.asarray(poses[0])).size + 1))
    both = jax.jit(
        jax.vmap(lambda pose: (jax.jacfwd(rows)(pose), jax.grad(lambda x: rows(x) @ weights)(pose)))
    )
    forward, reverse = both(jnp.asarray(poses))
    assert np.all(np.isfinite(forward))
    np.testing.assert_allclose(jnp.einsum("i,bij->bj", weights, forward), reverse, atol=1e-9)


def test_constraints_of_another_robot() -> None:
    long, short = (tree_of(["revolute_twist"] * n, list(range(n)), fixed_base=True) for n in (3, 1))
    constraints = artix.Constraints.of(
        long, [artix.Constraint(frame_a=long.topology.link_names[3])]
    )
    with pytest.raises(ValueError, match="constraints: there is no link 3 in this articulation"):
        artix.constraint_jacobian(short, artix.neutral_state(short), constraints)


def test_descriptors_are_no_constraints() -> None:
    robot = tree_of(["revolute_twist"], [0], fixed_base=True)
    state, held = artix.neutral_state(robot), artix.Constraint(frame_a="link_1")
    zero = jnp.zeros(robot.topology.nv)
    calls = (
        lambda x: artix.delassus_matrix(robot, state, x),
        lambda x: artix.operational_space_inertia(robot, state, x),
        lambda x: artix.constraint_jacobian(robot, state, x),
        lambda x: artix.constraint_kinematics(robot, state, x),
        lambda x: artix.constraint_bias(robot, state, x),
        lambda x: artix.constrained_solve(robot, state, x, zero, zero),
        lambda x: artix.constrained_forward_dynamics(robot, state, zero, x),
        lambda x: artix.constrained_forward_dynamics_derivatives(robot, state, zero, x),
        lambda x: artix.constrained_inverse_dynamics(robot, state, zero, x),
        lambda x: artix.constraint_derivatives(robot, state, zero, x),
        lambda x: artix.impulse_dynamics(robot, state, x),
        lambda x: artix.impulse_dynamics_derivatives(robot, state, x),
    )
    for call in calls:
        for descriptors, kind in ((held, "Constraint"), ([held], "list")):
            with pytest.raises(
                TypeError,
                match=rf"constraints: expected artix\.Constraints, found {kind}; make them with "
                r"artix\.Constraints\.of",
            ):
                call(descriptors)


def test_a_descriptor_is_a_static_argument() -> None:
    """Equal ones share a program, and others do not."""
    robot = tree_of(["revolute_twist"] * 2, [0, 1], fixed_base=True)
    traced = []

    @functools.partial(jax.jit, static_argnames="constraint")
    def jacobian(state: artix.State, constraint: artix.Constraint) -> jax.Array:
        traced.append(constraint)
        constraints = artix.Constraints.of(robot, [constraint])
        return artix.constraint_jacobian(robot, state, constraints)

    state, pose = artix.neutral_state(robot), np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    held = artix.Constraint(frame_a="link_2", pose_a=pose, position_gain=jnp.float32(4.0))
    same = artix.Constraint(frame_a="link_2", pose_a=pose.tolist(), position_gain=4)
    assert held == same and hash(held) == hash(same)
    np.testing.assert_array_equal(jacobian(state, held), jacobian(state, same))
    assert len(traced) == 1
    assert jacobian(state, artix.Constraint(frame_a="link_1")).shape == (3, 2)
    assert len(traced) == 2
