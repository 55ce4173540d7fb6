"""Loop joints in a step: closed mechanisms stay closed, Pinocchio finds the same forces, and
singular ones stay finite."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import artix
from artix import (
    ArticulationBuilder,
    Axis,
    Control,
    Drive,
    Joint,
    LoopJoint,
    LoopJointType,
    SolverOptions,
)
from artix.constraints.frame_pairs import (
    AnchorStructure,
    AnchorType,
    FramePairs,
    anchor_rows,
    loop_anchors,
)
from artix.model.couplings import LoopJoints, LoopJointStructure
from tests.simulation.test_stepping import pendulum
from tests.support import oracle_constraints, oracles
from tests.support.models import nu_of, random_pose, random_states, state_at, with_nu

rollout = jax.jit(artix.rollout, static_argnames=("options", "num_steps"))
report = jax.jit(artix.step_and_report, static_argnames="options")
rows = jax.jit(lambda a, s: anchor_rows(a, s, loop_anchors(a)))
_HALF = np.sqrt(0.5)
#: Turns x of a frame onto y of the world, about which the bars turn.
ABOUT_Y = [0.0, 0.0, _HALF, _HALF]


def four_bar(
    kind: LoopJointType = LoopJointType.REVOLUTE,
    *,
    dtype="float64",
    gravity=(0, 0, -9.81),
    **options,
):
    """A crank, a coupler and a rocker that a loop joint holds to the ground; closed at the zero
    configuration."""
    builder = ArticulationBuilder(fixed_base=True, gravity=gravity, name="four_bar")
    link = builder.add_link(mass=1.0, inertia=[1.0] * 3, name="ground")
    ends = np.array([[0.0, 0, 0], [0.1, 0, 0.5], [0.9, 0, 0.8], [1.0, 0, 0.0]])
    for k, name in enumerate(("crank", "coupler", "rocker")):
        origin = ends[k] - ends[max(k - 1, 0)]
        joint = Joint.revolute(Axis.SWING1, name=name, parent_pose=[*origin, 0, 0, 0, 1], **options)
        middle = (ends[k + 1] - ends[k]) / 2
        inertia = [0.02, 0.02, 0.02]
        link = builder.add_link(
            link, joint, mass=1.0, com_pose=[*middle, 0, 0, 0, 1], inertia=inertia, name=name
        )
    places = {"pose_a": [*ends[3], *ABOUT_Y], "pose_b": [*(ends[3] - ends[2]), *ABOUT_Y]}
    builder.add_loop_joint(
        LoopJoint(name="pivot", link_a=None, link_b="rocker", type=kind, **places)
    )
    return builder.build(dtype)


def largest_error(articulation, states) -> float:
    """The largest closure error of states, evaluated in float64."""
    exact = articulation.astype("float64")
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf, "float64"), states)
    errors = jax.jit(jax.vmap(lambda s: anchor_rows(exact, s, loop_anchors(exact)).error))(states)
    return float(jnp.max(jnp.abs(errors)))


@pytest.mark.slow
def test_a_step_of_a_closed_mechanism_is_a_kernel() -> None:
    a = four_bar(dtype="float32")
    costs = artix.explain(
        lambda a, s: artix.step(a, s, None, 0.01), a, artix.neutral_state(a)
    ).operations
    assert [cost.refusal for cost in costs] == [None]


# --- closed mechanisms --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_four_bar_linkage_stays_closed() -> None:
    """1,000 steps in float32 under gravity and a drive, with three of five rows redundant: 1e-6 m;
    in float64 the same motion, whose energy without the drive is kept to the first order."""
    a = four_bar(dtype="float32")
    drive = a.drive.replace(
        damping=jnp.array([5.0, 0, 0], "float32"), target_velocity=jnp.array([6.0, 0, 0], "float32")
    )
    turned = a.replace(drive=drive)
    states = rollout(turned, artix.neutral_state(a), None, 1 / 240, num_steps=1000)
    assert abs(float(states.joint_position[-1, 0])) > 1.0
    assert largest_error(turned, states) < 1e-6


@pytest.mark.slow
def test_energy_of_a_four_bar_linkage() -> None:
    a = four_bar()
    energy = jax.jit(jax.vmap(lambda s: artix.kinetic_energy(a, s) + artix.potential_energy(a, s)))
    drifts = []
    for steps in (
        200,
        1600,
        3200,
    ):  # With the last two, links turn by less than what counts as fast motion.
        states = rollout(a, artix.neutral_state(a), None, 0.8 / steps, num_steps=steps)
        found = np.asarray(energy(states))
        drifts.append(
            np.abs(found - float(artix.potential_energy(a, artix.neutral_state(a)))).max()
        )
        assert largest_error(a, states) < 1e-6
    assert drifts[0] < 0.2  # of 10 J that are exchanged
    assert 1.7 < drifts[1] / drifts[2] < 2.3


def stewart_platform(dtype):
    """Six legs of a spherical and a prismatic joint; the platform hangs on the first, loop joints
    hold the others."""
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
        leg = builder.add_link(
            base, hip, mass=0.5, com_pose=com, inertia=[0.01, 0.02, 0.02], name=f"leg_{k}"
        )
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
    wrist = Joint.spherical(
        name="wrist", parent_pose=[0, 0, 0, *back], child_pose=[*(heads[0] - center), 0, 0, 0, 1]
    )
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
    """Fifteen held rows on 27 DOFs, the legs driven to and fro under load: 1e-6 m over 1,000 steps
    in float32."""
    a = stewart_platform("float32")
    stretches = np.array([a.topology.dofs(f"stretch_{k}").start for k in range(6)])
    times = np.arange(1000) / 240
    targets = np.zeros((1000, a.topology.num_dofs), "float32")
    targets[:, stretches] = 0.08 * np.sin(3 * times[:, None] + np.arange(6))
    assert largest_error(a, jax.tree.map(lambda leaf: leaf[None], artix.neutral_state(a))) < 1e-6
    states = rollout(a, artix.neutral_state(a), Control(drive_target=jnp.asarray(targets)), 1 / 240)
    assert float(jnp.max(jnp.abs(states.joint_position[:, stretches]))) > 0.05
    assert largest_error(a, states) < 1e-6


# --- Pinocchio ----------------------------------------------------------------------------------


def with_loops(a, ends, state):
    """The articulation with loop joints between links, closed in a state, and a velocity that keeps
    them closed."""
    rng = np.random.default_rng(3)
    kinds = {LoopJointType.SPHERICAL: (Axis.X, Axis.Y, Axis.Z), LoopJointType.FIXED: tuple(Axis)}
    structure = tuple(
        LoopJointStructure(f"loop_{k}", kind, link_a, link_b, kinds[kind])
        for k, (kind, link_a, link_b) in enumerate(ends)
    )
    poses_b = np.array([random_pose(rng, 0.3) for _ in ends])
    links = [oracles.placement_of(pose) for pose in np.asarray(artix.frame_pose(a, state))]
    poses_a = []
    for (_, link_a, link_b), pose in zip(ends, poses_b, strict=True):
        world = links[link_b] * oracles.placement_of(pose)
        poses_a.append(oracles.pose_of(world if link_a < 0 else links[link_a].inverse() * world))
    joints = LoopJoints(
        jnp.asarray(poses_a),
        jnp.asarray(poses_b),
        jnp.zeros(len(ends)),
        jnp.full(len(ends), jnp.inf),
    )
    a = a.replace(
        topology=dataclasses.replace(a.topology, loop_joints=structure), loop_joints=joints
    )
    found = rows(a, state)
    np.testing.assert_allclose(found.error, 0, atol=1e-12)
    nu = nu_of(a, state) - np.linalg.pinv(found.jacobian) @ found.velocity
    return a, with_nu(a, state, nu)


@pytest.mark.slow
@pytest.mark.parametrize("fixed_base", [pytest.param(True, marks=pytest.mark.slow), False])
def test_forces_and_accelerations_are_pinocchios(fixed_base: bool) -> None:
    """``constraintDynamics`` of a tree with a ball to the ground and a weld between links, to 1e-8
    of the largest."""
    model, a = oracles.spherical_model(3, fixed_base=fixed_base)
    state = state_at(random_states(a, 1, seed=2), 0)
    ends = [(LoopJointType.SPHERICAL, -1, 3), (LoopJointType.FIXED, 2, a.topology.num_links - 1)]
    a, state = with_loops(a, ends, state)
    n, base = a.topology.num_dofs, a.topology.num_base_dofs
    force = jnp.asarray(np.random.default_rng(5).normal(size=n))
    _, found = report(a, state, Control(joint_force=force), 1e-4)
    oracle = oracles.Oracle.at(model, a, state)
    points = [
        AnchorStructure(-1, 3, AnchorType.POINT, (0, 1, 2)),
        AnchorStructure(2, ends[1][2], AnchorType.WELD, tuple(range(6))),
    ]
    anchors = FramePairs(tuple(points), a.loop_joints.pose_a, a.loop_joints.pose_b)
    models = oracle_constraints.constraint_models(oracle, anchors)
    data, datas = oracle.model.createData(), pin.StdVec_RigidConstraintData()
    datas.extend(one.createData() for one in models)
    pin.initConstraintDynamics(oracle.model, data, models, datas)
    torque = np.zeros(oracle.model.nv)
    torque[oracle.dof_order[base:]] = force
    settings = pin.ProximalSettings(1e-14, 1e-10, 50)
    acceleration = pin.constraintDynamics(
        oracle.model, data, oracle.q, oracle.v, torque, models, datas, settings
    )
    wanted = np.asarray(acceleration)[oracle.dof_order[base:]]
    np.testing.assert_allclose(found.joint_acceleration, wanted, atol=1e-8 * np.abs(wanted).max())
    poses = [oracles.placement_of(pose) for pose in np.asarray(artix.frame_pose(a, state))]
    for k, (one, structure) in enumerate(zip(datas, points, strict=True)):
        frame = oracles.placement_of(a.loop_joints.pose_a[k])
        frame = frame if structure.link_a < 0 else poses[structure.link_a] * frame
        on_b = -np.concatenate(
            [frame.rotation @ one.contact_force.linear, frame.rotation @ one.contact_force.angular]
        )
        np.testing.assert_allclose(found.loop_joint_force[k], on_b, atol=1e-8 * np.abs(on_b).max())


# --- together with everything else --------------------------------------------------------------


@pytest.mark.slow
def test_a_loop_joint_and_a_mimic_joint_are_one_mechanism() -> None:
    """A parallelogram's rocker follows its crank: with the loop joint alone, or with two mimic
    joints in its place.

    With a stiff drive, a limit on which it comes to rest, dry friction and damping, so that all
    couplings take part.
    """

    def parallelogram(closed: bool):
        builder = ArticulationBuilder(fixed_base=True, name="parallelogram")
        link = builder.add_link(mass=1.0, inertia=[1.0] * 3, name="ground")
        options = {
            "crank": {
                "drive": Drive(stiffness=200.0, damping=8.0, target=1.5),
                "limits": [(-1.0, 1.0)],
            }
        }
        options["rocker"] = {"friction": artix.JointFriction(static=0.5, dynamic=0.4, viscous=0.1)}
        for name, origin, end in (
            ("crank", (0, 0, 0), (0, 0, 0.5)),
            ("coupler", (0, 0, 0.5), (1, 0, 0)),
            ("rocker", (1, 0, 0), (0, 0, -0.5)),
        ):
            joint = Joint.revolute(
                Axis.SWING1, name=name, parent_pose=[*origin, 0, 0, 0, 1], **options.get(name, {})
            )
            com = [*np.array(end) / 2, 0, 0, 0, 1]
            link = builder.add_link(
                link, joint, mass=1.0, com_pose=com, inertia=[0.02] * 3, name=name
            )
        if closed:
            places = {"pose_a": [1.0, 0, 0, 0, 0, 0, 1], "pose_b": [0, 0, -0.5, 0, 0, 0, 1]}
            loop = LoopJoint(
                name="pivot",
                link_a="ground",
                link_b="rocker",
                type=LoopJointType.SPHERICAL,
                **places,
            )
            builder.add_loop_joint(loop)
        else:
            builder.add_mimic("coupler", "crank", 1.0)
            builder.add_mimic("rocker", "crank", -1.0)
        return builder.build("float64")

    options, ends = SolverOptions(position_iterations=100), []
    for closed in (True, False):
        a = parallelogram(closed)
        ends.append(
            rollout(a, artix.neutral_state(a), None, 1e-3, options, num_steps=400).joint_position[
                ::40
            ]
        )
    assert float(ends[0][-1, 0]) == pytest.approx(1.0, abs=1e-6)
    # Mimic joints keep angles, which are those of the closure, so that only their sweeps differ.
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-6)


@pytest.mark.slow
def test_distances_are_bounded_on_both_sides() -> None:
    """A ball on a rope of 1 m that is thrown outwards, and one that falls onto a bar of the same
    length."""

    def ball(**bounds):
        builder = ArticulationBuilder(fixed_base=False, name="ball")
        builder.add_link(mass=2.0, inertia=[0.1] * 3, name="ball")
        builder.add_loop_joint(
            LoopJoint(
                name="rope", link_a=None, link_b="ball", type=LoopJointType.DISTANCE, **bounds
            )
        )
        return builder.build("float64")

    for bounds, position in (
        ({"max_distance": 1.0}, [0.6, 0, -0.8]),
        ({"min_distance": 1.0}, [0.0, 0.1, 1.2]),
    ):
        a = ball(**bounds)
        state = artix.neutral_state(a)
        state = state.replace(root_pose=state.root_pose.at[:3].set(jnp.array(position)))
        distance = np.linalg.norm(
            rollout(a, state, None, 2e-3, num_steps=500).root_pose[:, :3], axis=1
        )
        if "max_distance" in bounds:
            assert distance.max() < 1.0 + 1e-5
            # A pendulum that starts at rest stays on its circle.
            assert distance.min() > 1.0 - 1e-4
        else:
            assert distance.min() > 1.0 - 1e-4
            assert distance.min() < 1.0 + 1e-4
    # A rope that hangs straight carries the weight.
    a = ball(max_distance=1.0)
    state = artix.neutral_state(a)
    state = state.replace(root_pose=state.root_pose.at[2].set(-1.0))
    found = report(a, state, None, 2e-3)[1]
    np.testing.assert_allclose(found.loop_joint_force, [[0, 0, 2.0 * 9.81, 0, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(found.link_acceleration, 0, atol=1e-9)


@pytest.mark.slow
def test_incoming_joint_forces_know_the_loop_joints() -> None:
    """What the ground feels of a four-bar linkage at rest is its weight: through the crank's joint
    and the loop joint."""
    a = four_bar(drive=Drive(stiffness=1e4, damping=1e3))
    state = jax.tree.map(
        lambda leaf: leaf[-1], rollout(a, artix.neutral_state(a), None, 1e-2, num_steps=200)
    )
    found = report(a, state, None, 1e-2)[1]
    assert float(jnp.max(jnp.abs(found.joint_acceleration))) < 1e-6
    # The crank's joint frame is turned about y by the crank's angle.
    angle = state.joint_position[0]
    x, _, z = found.incoming_joint_force[1, :3]
    upwards = z * jnp.cos(angle) - x * jnp.sin(angle)
    assert float(upwards + found.loop_joint_force[0, 2]) == pytest.approx(3 * 9.81, rel=1e-6)
    assert float(
        x * jnp.cos(angle) + z * jnp.sin(angle) + found.loop_joint_force[0, 0]
    ) == pytest.approx(0, abs=1e-5)


# --- by sweeps ----------------------------------------------------------------------------------

SWEEPS = ("pgs", "tgs")


@pytest.mark.parametrize(
    ("fixed_base", "solver"),
    [
        pytest.param(
            fixed,
            solver,
            marks=pytest.mark.slow if fixed == (solver == "pgs") else pytest.mark.exhaustive,
        )
        for fixed in (True, False)
        for solver in SWEEPS
    ],
)
def test_sweeps_find_the_forces_of_the_converged_solver(solver: str, fixed_base: bool) -> None:
    """At rest: in motion, sweeps know the rows at the start of the step alone, as PhysX's do."""
    _, a = oracles.spherical_model(3, fixed_base=fixed_base)
    state = state_at(random_states(a, 1, seed=2), 0)
    a, state = with_loops(
        a,
        [(LoopJointType.SPHERICAL, -1, 3), (LoopJointType.FIXED, 2, a.topology.num_links - 1)],
        state,
    )
    state = with_nu(a, state, jnp.zeros(a.topology.nv))
    force = Control(
        joint_force=jnp.asarray(np.random.default_rng(5).normal(size=a.topology.num_dofs))
    )
    wanted = report(a, state, force, 1e-3)[1]
    found = report(a, state, force, 1e-3, SolverOptions(solver=solver, position_iterations=3000))[1]
    for name in (
        "loop_joint_force",
        "joint_acceleration",
        "link_acceleration",
        "incoming_joint_force",
    ):
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(
            one, other, atol=2e-7 * float(jnp.max(jnp.abs(other))), err_msg=name
        )
    assert found.position_residual.max < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("solver", SWEEPS)
def test_sweeps_keep_a_four_bar_linkage_closed(solver: str) -> None:
    """Errors of the second order in the step, of which a part is taken out again; the motion is of
    the first order."""
    a, options = four_bar(), SolverOptions(solver=solver, position_iterations=8)
    start, errors, differences = artix.neutral_state(a), [], []
    for steps in (100, 400):
        states = rollout(a, start, None, 0.4 / steps, options, num_steps=steps)
        wanted = rollout(a, start, None, 0.4 / steps, num_steps=steps)
        errors.append(largest_error(a, states))
        differences.append(
            float(jnp.max(jnp.abs(states.joint_position[-1] - wanted.joint_position[-1])))
        )
    assert errors[0] < 5e-4
    assert errors[1] < errors[0] / 10
    assert differences[1] < differences[0] / 3


@pytest.mark.slow
@pytest.mark.parametrize("solver", SWEEPS)
def test_sweeps_bound_distances(solver: str) -> None:
    """A ball on a rope that starts taut, and one that hangs straight."""
    builder = ArticulationBuilder(fixed_base=False, name="ball")
    builder.add_link(mass=2.0, inertia=[0.1] * 3, name="ball")
    kind = LoopJointType.DISTANCE
    builder.add_loop_joint(
        LoopJoint(name="rope", link_a=None, link_b="ball", type=kind, max_distance=1.0)
    )
    a, options = builder.build("float64"), SolverOptions(solver=solver)
    state = artix.neutral_state(a)
    thrown = state.replace(root_pose=state.root_pose.at[:3].set(jnp.array([0.6, 0, -0.8])))
    distance = np.linalg.norm(
        rollout(a, thrown, None, 2e-3, options, num_steps=500).root_pose[:, :3], axis=1
    )
    assert distance.max() < 1.0 + 1e-4
    assert distance.min() > 1.0 - 1e-3
    hanging = state.replace(root_pose=state.root_pose.at[2].set(-1.0))
    found = report(a, hanging, None, 2e-3, options)[1]
    np.testing.assert_allclose(found.loop_joint_force, [[0, 0, 2.0 * 9.81, 0, 0, 0]], atol=1e-9)
    # Slack, it does nothing.
    slack = state.replace(root_pose=state.root_pose.at[2].set(-0.5))
    found = report(a, slack, None, 2e-3, options)[1]
    np.testing.assert_allclose(found.loop_joint_force, 0, atol=0)


@pytest.mark.slow
def test_redundant_rows_push_nothing() -> None:
    """Out of its plane nothing moves a four-bar linkage, and no rounding error becomes a force."""
    a = four_bar()
    state = state_at(rollout(a, artix.neutral_state(a), None, 2e-3, num_steps=100), -1)
    for options in (SolverOptions(), *(SolverOptions(solver=solver) for solver in SWEEPS)):
        force = report(a, state, None, 2e-3, options)[1].loop_joint_force[0]
        assert float(jnp.max(jnp.abs(force[jnp.array([0, 2])]))) > 1
        np.testing.assert_allclose(force[jnp.array([1, 3, 4, 5])], 0, atol=1e-9)


# --- singular ones ------------------------------------------------------------------------------


def _straight(dtype):
    """Two bars of the same length, stretched along the ground between their ends: no motion and
    every motion at once.

    All limits act, a drive is stiff, the coordinates of the loop joint are redundant, and a
    distance joint has none.
    """
    stiff = Drive(stiffness=1e6, damping=1e3, target=0.5)

    def couple(builder: ArticulationBuilder) -> None:
        places = {"pose_a": [0, 0, -2.0, *ABOUT_Y], "pose_b": [0, 0, -1.0, *ABOUT_Y]}
        loop = LoopJoint(
            name="pivot", link_a=None, link_b="bar_1", type=LoopJointType.REVOLUTE, **places
        )
        builder.add_loop_joint(loop)
        builder.add_loop_joint(
            LoopJoint(name="cord", link_a="base", link_b="bar_0", type="distance", max_distance=0.0)
        )

    return pendulum(2, dtype=dtype, couple=couple, drive=stiff, limits=[(0.0, 0.0)], friction=1.0)


@pytest.mark.parametrize(
    "solver",
    [
        *(pytest.param(solver, marks=pytest.mark.slow) for solver in ("implicit", "tgs")),
        pytest.param("pgs", marks=pytest.mark.exhaustive),
    ],
)
def test_singular_closures_have_finite_states_and_gradients(solver: str) -> None:
    dtype, options = "float32", SolverOptions(solver=solver)
    a = _straight(dtype)
    state = artix.neutral_state(a).replace(joint_velocity=jnp.array([0.3, -0.2], dtype))

    def loss(articulation, state, dt):
        end = artix.rollout(articulation, state, None, dt, options, num_steps=3)
        return jnp.sum(end.joint_position) + jnp.sum(end.joint_velocity)

    value, gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(
        a, state, jnp.asarray(0.01, dtype)
    )
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(leaf))
        assert leaf.dtype == dtype


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["implicit", *SWEEPS])
def test_gradients_through_a_four_bar_linkage(solver: str) -> None:
    """Redundant rows and all: against central differences, in the state along its manifold and in
    the parameters."""
    options = SolverOptions(solver=solver)
    a = four_bar(
        drive=Drive(stiffness=20.0, damping=1.0, target=0.4),
        friction=artix.JointFriction(static=0.0, dynamic=0.0, viscous=0.1),
    )

    @jax.jit
    def loss(mass, stiffness, target, scale):
        moved = a.replace(link_mass=mass, drive=a.drive.replace(stiffness=stiffness))
        found = rows(moved, artix.neutral_state(a))
        # A velocity that keeps the loop closed: across the two rows in the plane.
        speed = jnp.cross(found.jacobian[1], found.jacobian[2])
        state = artix.neutral_state(a).replace(joint_velocity=scale * speed)
        end = artix.rollout(
            moved, state, Control(drive_target=target), 1 / 120, options, num_steps=20
        )
        return jnp.sum(jnp.sin(end.joint_position[-1])) + jnp.sum(end.joint_velocity[-1] ** 2)

    arguments = (a.link_mass, a.drive.stiffness, jnp.array([0.4, 0.1, -0.2]), jnp.asarray(0.7))
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(*arguments)
    for k, argument in enumerate(arguments):
        step = 1e-5 * jnp.cos(jnp.arange(1.0, 1.0 + argument.size)).reshape(argument.shape)
        up, down = (
            loss(*arguments[:k], argument + sign * step, *arguments[k + 1 :]) for sign in (1, -1)
        )
        np.testing.assert_allclose(jnp.sum(gradient[k] * step), (up - down) / 2, rtol=1e-5)


@pytest.mark.slow
def test_loop_joints_are_taken_away_by_name() -> None:
    """Of a mechanism that is built, by way of its builder; the rest is the mechanism without
    them."""
    builder = artix.builder_from_articulation(four_bar())
    (name,) = (joint.name for joint in four_bar().topology.loop_joints)
    with pytest.raises(KeyError, match=f"no loop joint 'shut'; there are {name}"):
        builder.remove_loop_joint("shut")
    builder.remove_loop_joint(name)
    opened = builder.build("float64")
    assert opened.topology == dataclasses.replace(four_bar().topology, loop_joints=())
    assert opened.loop_joints.pose_a.shape == (0, 7)
    with pytest.raises(KeyError, match="there are none"):
        builder.remove_loop_joint(name)
