"""An articulation in a scene: its step, accessors, sleeping, settings, bounds and loop joints."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Axis, Drive, Joint, LoopJoint, LoopJointType, physx
from artix.constraints.frame_pairs import FramePairs
from artix.physx import ArticulationFlag, ArticulationKinematicFlag, ArticulationMotion
from tests.constraints.test_anchors import four_bar
from tests.support import oracle_constraints, oracles
from tests.support.models import nu_of, random_pose, random_states, state_at, tree_of, with_nu


@pytest.fixture(scope="module")
def scene() -> physx.ArticulationSimulation:
    articulation = tree_of(["revolute_swing1"], [0], fixed_base=False)
    return physx.create_simulation(articulation, state_at(random_states(articulation, 1), 0))


@pytest.mark.slow
def test_simulate_is_a_step_with_a_memory() -> None:
    """The state and report are those of artix.step_and_report; forces persist, link wrenches do
    not."""
    articulation = tree_of(["revolute_swing1", "prismatic_x"], [0, 1], fixed_base=True)
    state = state_at(random_states(articulation, 1), 0)
    simulation = physx.create_simulation(articulation, state)
    assert simulation.options == artix.SolverOptions(solver="pgs")
    loads = {"joint_force": jnp.array([0.3, -0.2]), "external_force": jnp.ones((3, 6))}

    @jax.jit
    def both(simulation):
        wanted = artix.step_and_report(
            simulation.articulation, simulation.state, simulation.control, 0.01, simulation.options
        )
        return physx.simulate(simulation, 0.01), wanted

    after, (end, report) = both(simulation.replace(**loads))
    for found, wanted in zip(
        jax.tree.leaves((after.state, after.report)), jax.tree.leaves((end, report)), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(after.joint_force, loads["joint_force"])
    assert not np.any(after.external_force)
    np.testing.assert_array_equal(
        physx.get_link_acceleration(after, 2), report.link_acceleration[2]
    )
    assert after.solver_residual == (report.position_residual, report.velocity_residual)
    asleep, _ = both(physx.put_to_sleep(simulation.replace(**loads)))
    np.testing.assert_array_equal(asleep.state.joint_position, state.joint_position)
    _assert_nothing_happened(asleep.report)
    awake, _ = both(physx.put_to_sleep(simulation).replace(**loads))
    assert not awake.is_sleeping
    assert np.any(awake.state.joint_velocity)
    for flags in (ArticulationKinematicFlag.POSITION, ArticulationKinematicFlag.VELOCITY):
        cleared = physx.update_kinematic(after, flags)
        _assert_nothing_happened(cleared.report)
        assert all(
            np.array_equal(*pair)
            for pair in zip(jax.tree.leaves(cleared.state), jax.tree.leaves(end), strict=True)
        )
    for bad in (-1, 3):
        with pytest.raises(IndexError, match="links are numbered 0 to 2"):
            physx.get_link_acceleration(after, bad)


def _assert_nothing_happened(report: artix.StepReport) -> None:
    """A report of zeros, of a state that is finite and a step that is solved."""
    assert report.is_finite and report.is_solved
    rest = report.replace(is_finite=jnp.zeros(()), is_solved=jnp.zeros(()))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(rest))


def test_simulations_scan() -> None:
    """A step keeps every shape and type, so that many fit in a scan; also with limits of the
    velocity as a whole."""
    articulation = tree_of(["revolute_swing1"], [0], fixed_base=False, dtype="float32")
    simulation = physx.create_simulation(articulation)
    simulation = physx.set_max_com_linear_velocity(physx.set_wake_counter(simulation, 0.2), 3.0)
    end = jax.eval_shape(
        lambda s: jax.lax.scan(lambda now, _: (physx.simulate(now, 0.01), None), s, length=2)[0],
        simulation,
    )
    for new, old in zip(jax.tree.leaves(end), jax.tree.leaves(simulation), strict=True):
        assert (new.shape, new.dtype) == (old.shape, old.dtype)


def test_root_accessors(scene) -> None:
    asleep = physx.put_to_sleep(scene)
    pose, velocity = jnp.asarray(random_pose(np.random.default_rng(0))), jnp.array([1.0, -2.0, 3.0])
    moved = physx.set_root_global_pose(asleep, pose)
    np.testing.assert_array_equal(moved.root_global_pose, pose)
    assert not moved.is_sleeping
    assert physx.set_root_global_pose(asleep, pose, autowake=False).is_sleeping
    for part, setter, attribute in (
        (slice(0, 3), physx.set_root_linear_velocity, "root_linear_velocity"),
        (slice(3, 6), physx.set_root_angular_velocity, "root_angular_velocity"),
    ):
        faster = setter(scene, velocity)
        wanted = np.array(scene.state.root_velocity)
        wanted[part] = velocity
        np.testing.assert_array_equal(faster.state.root_velocity, wanted)
        np.testing.assert_array_equal(getattr(faster, attribute), velocity)
        assert not setter(asleep, velocity, autowake=False).is_sleeping
        assert setter(asleep, 0 * velocity, autowake=False).is_sleeping
        with pytest.raises(ValueError, match=r"velocity: expected shape \(3,\)"):
            setter(scene, jnp.zeros(6))
    with pytest.raises(TypeError, match="pose: expected dtype float64"):
        physx.set_root_global_pose(scene, pose.astype("float32"))


@pytest.mark.slow
def test_sleeping(scene) -> None:
    assert not scene.is_sleeping
    loaded = scene.replace(
        joint_force=jnp.ones_like(scene.joint_force),
        external_force=jnp.ones_like(scene.external_force),
    )
    asleep = physx.put_to_sleep(loaded)
    assert asleep.is_sleeping
    for leaf in (
        asleep.state.root_velocity,
        asleep.state.joint_velocity,
        asleep.joint_force,
        asleep.external_force,
    ):
        assert not np.any(leaf)
    np.testing.assert_array_equal(asleep.state.joint_position, scene.state.joint_position)
    assert asleep.wake_counter == 0.0
    assert physx.set_wake_counter(asleep, 0.0).is_sleeping
    for awake in (physx.wake_up(asleep), physx.set_wake_counter(asleep, 0.4)):
        assert not awake.is_sleeping
        assert awake.wake_counter == 0.4
    # A tired one falls asleep with the step, and not where its threshold is zero.
    at_rest = physx.set_wake_counter(asleep, 0.01).replace(
        articulation=scene.articulation.replace(gravity=jnp.zeros(3)), options=artix.SolverOptions()
    )
    later = jax.jit(lambda s: physx.simulate(s, 0.01))
    assert later(at_rest).is_sleeping
    assert not later(physx.set_sleep_threshold(at_rest, 0.0)).is_sleeping
    # PhysX's default for a speed of 10 m/s, and back again.
    assert scene.sleep_threshold == pytest.approx(5e-3)
    assert physx.set_sleep_threshold(scene, 0.25).sleep_threshold == 0.25
    for wrong in (-1.0, np.float32("inf"), jnp.array(jnp.nan), np.ones(2)):
        with pytest.raises(
            ValueError, match="sleep_threshold: expected one number, finite and not negative; found"
        ):
            physx.set_sleep_threshold(scene, wrong)


@pytest.mark.slow
def test_flags_and_counts() -> None:
    articulation = tree_of(["revolute_swing1"], [0], fixed_base=False)
    simulation = physx.create_simulation(articulation)
    assert simulation.articulation_flags == ArticulationFlag.DRIVE_LIMITS_ARE_FORCES
    for flags in map(ArticulationFlag, range(8)):
        changed = physx.set_articulation_flags(simulation, flags)
        assert changed.articulation_flags == flags
        assert physx.set_articulation_flags(simulation, int(flags)).articulation_flags == flags
        assert changed.options.drive_limits_are_forces == bool(flags & 2)
        assert physx.create_cache(changed).mass_matrix.shape == ((1, 1) if flags & 1 else (7, 7))
        for flag in ArticulationFlag:
            for value in (False, True):
                one = physx.set_articulation_flag(changed, flag, value)
                assert one.articulation_flags == (flags | flag if value else flags & ~flag)
    fixed = physx.set_articulation_flag(simulation, ArticulationFlag.FIX_BASE, True)
    rebuilt = tree_of(["revolute_swing1"], [0], fixed_base=True)
    assert fixed.topology == rebuilt.topology
    assert physx.create_cache(fixed).version == physx.create_cache(rebuilt).version
    with pytest.raises(ValueError, match="made for another articulation"):
        physx.compute_mass_matrix(fixed, physx.create_cache(simulation))
    assert simulation.solver_iteration_counts == (4, 1)
    assert physx.set_solver_iteration_counts(simulation, 8, 0).solver_iteration_counts == (8, 0)
    with pytest.raises(ValueError, match="at most 255"):
        physx.set_solver_iteration_counts(simulation, 256)
    with pytest.raises(ValueError, match="at least 1"):
        physx.set_solver_iteration_counts(simulation, 0)


@pytest.mark.slow
def test_self_collision_can_be_switched_off() -> None:
    """PhysX's solvers have no contacts between links: a robot with pairs of shapes is stepped
    without them or refused."""
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1), name="root")
    builder.add_link(0, Joint.prismatic(Axis.X), mass=1.0, inertia=(0.1, 0.1, 0.1), name="slider")
    for link in ("root", "slider"):
        builder.add_geometry(link, artix.Geometry.sphere(0.1), name=f"{link} ball")
    plain = physx.create_simulation(builder.build())
    paired = artix.select_geometry_pairs(plain.articulation, [("root ball", "slider ball")])
    simulation = plain.replace(articulation=paired)
    with pytest.raises(ValueError, match="the articulation has pairs of shapes"):
        physx.simulate(simulation, 0.01)
    with warnings.catch_warnings():
        # Such as one of targets for drives without gains, which nobody gave
        warnings.simplefilter("error")
        physx.simulate(plain, 0.01)
    apart = physx.simulate(
        physx.set_articulation_flag(simulation, ArticulationFlag.DISABLE_SELF_COLLISION, True), 0.01
    )
    np.testing.assert_array_equal(
        apart.state.root_velocity, physx.simulate(plain, 0.01).state.root_velocity
    )
    # Which come back with the flag cleared
    assert apart.topology.geometry_pairs == paired.topology.geometry_pairs


def test_links_in_the_order_of_their_creation() -> None:
    builder = artix.ArticulationBuilder()
    root = builder.add_link(mass=1.0, name="root")
    first = builder.add_link(root, Joint.fixed(), name="first")
    builder.add_link(first, Joint.fixed(), name="below")
    builder.add_link(root, Joint.fixed(), name="second")
    articulation = builder.build()
    assert articulation.topology.link_names == ("root", "first", "second", "below")
    names = [articulation.topology.link_names[link] for link in physx.get_links(articulation)]
    assert names == ["root", "first", "below", "second"]


def test_motions_and_drive_types() -> None:
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(mass=1.0)
    drives = [Drive(stiffness=1.0), None, Drive(damping=1.0, acceleration=True)]
    builder.add_link(
        0, Joint.spherical(limits=[None, (-1, 1), None], drive=drives, name="ball"), mass=1.0
    )
    builder.add_link(1, Joint.prismatic(Axis.Y, limits=[(0.0, np.inf)], name="slide"), mass=1.0)
    articulation = builder.build()
    axes = [physx.get_motion(articulation, "ball", axis) for axis in Axis]
    assert axes == [2, 1, 2, 0, 0, 0]
    assert (
        physx.get_motion(physx.create_simulation(articulation), "slide", Axis.Y)
        is ArticulationMotion.LIMITED
    )
    assert [physx.get_drive_type(articulation, "ball", axis).name for axis in list(Axis)[:4]] == [
        "FORCE",
        "NONE",
        "ACCELERATION",
        "NONE",
    ]
    with pytest.raises(KeyError, match="no joint called 'hinge'"):
        physx.get_motion(articulation, "hinge", Axis.X)


def _motion_as_a_whole(
    articulation: artix.Articulation, state: artix.State
) -> tuple[np.ndarray, np.ndarray]:
    """Velocity of the centre of mass and angular momentum over inertia, summed over links in plain
    NumPy."""
    poses, velocity = (
        np.asarray(x)
        for x in (
            artix.frame_pose(articulation, state),
            artix.frame_velocity(articulation, state, offset="com"),
        )
    )
    mass, com = np.asarray(articulation.link_mass), np.asarray(articulation.link_com_pose)
    place, inertia = [], []
    for pose, frame, own in zip(poses, com, np.asarray(articulation.link_inertia), strict=True):
        link = oracles.placement_of(pose) * oracles.placement_of(frame)
        place.append(link.translation)
        inertia.append(link.rotation @ own @ link.rotation.T)
    arm = np.array(place) - mass @ np.array(place) / mass.sum()
    linear = mass @ velocity[:, :3] / mass.sum()
    momentum = sum(
        i @ w + m * np.cross(r, v)
        for i, w, m, r, v in zip(inertia, velocity[:, 3:], mass, arm, velocity[:, :3], strict=True)
    )
    whole = sum(
        i + m * (r @ r * np.eye(3) - np.outer(r, r))
        for i, m, r in zip(inertia, mass, arm, strict=True)
    )
    return linear, np.linalg.solve(whole, momentum)


@pytest.mark.slow
def test_velocities_as_a_whole_are_limited() -> None:
    """Directions and joint velocities stay, magnitudes are those asked for; each limit leaves the
    other alone."""
    articulation = tree_of(
        ["revolute_swing1", "spherical_012", "prismatic_z"], [0, 1, 0], fixed_base=False
    )
    state = state_at(random_states(articulation, 1, speed=3.0), 0)
    simulation = physx.create_simulation(articulation, state)
    linear, angular = _motion_as_a_whole(articulation, state)
    assert np.linalg.norm(linear) > 1
    assert np.linalg.norm(angular) > 1
    assert simulation.com_linear_velocity_limit == simulation.com_angular_velocity_limit == np.inf
    limit = jax.jit(physx.stepping.limit_com_velocity)
    for slow, wanted in (
        (
            physx.set_max_com_linear_velocity(simulation, 0.5),
            (0.5 * linear / np.linalg.norm(linear), angular),
        ),
        (
            physx.set_max_com_angular_velocity(simulation, 0.25),
            (linear, 0.25 * angular / np.linalg.norm(angular)),
        ),
        (physx.set_max_com_angular_velocity(simulation, 1e3), (linear, angular)),
    ):
        after = limit(slow, state)
        np.testing.assert_allclose(_motion_as_a_whole(articulation, after), wanted, atol=1e-10)
        np.testing.assert_array_equal(after.joint_velocity, state.joint_velocity)
    still = state.replace(
        root_velocity=jnp.zeros(6), joint_velocity=jnp.zeros_like(state.joint_velocity)
    )
    np.testing.assert_array_equal(
        limit(physx.set_max_com_linear_velocity(simulation, 0.5), still).root_velocity, 0.0
    )
    with pytest.raises(ValueError, match="finite and not negative"):
        physx.set_max_com_linear_velocity(simulation, -1.0)
    fixed = physx.set_articulation_flag(
        physx.set_max_com_linear_velocity(simulation, 0.5), ArticulationFlag.FIX_BASE, True
    )
    assert physx.stepping.limit_com_velocity(fixed, state) is state


def test_world_bounds() -> None:
    """Against the corners of all boxes, turned one by one."""
    articulation = tree_of(
        ["revolute_swing1", "prismatic_z", "spherical_012"], [0, 1, 0], fixed_base=False
    )
    scene = physx.create_simulation(articulation, state_at(random_states(articulation, 1), 0))
    boxes = np.sort(np.random.default_rng(0).normal(size=(4, 2, 3)), axis=1)
    inverted = boxes[:, ::-1].copy()
    boxes[3] = inverted[3]  # This one does not count.

    @jax.jit
    def found(scene, boxes, inverted):
        bounds = [
            physx.get_world_bounds(scene, boxes, inflation=1.0),
            physx.get_world_bounds(scene, boxes),
        ]
        return (
            artix.frame_pose(scene.articulation, scene.state),
            *bounds,
            physx.get_world_bounds(scene, inverted),
        )

    poses, plain, grown, none = map(
        np.asarray, found(scene, jnp.asarray(boxes), jnp.asarray(inverted))
    )
    picks = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    corners = [
        oracles.placement_of(pose).act(box[pick, range(3)])
        for pose, box in zip(poses[:3], boxes[:3], strict=True)
        for pick in picks
    ]
    lower, upper = np.min(corners, axis=0), np.max(corners, axis=0)
    np.testing.assert_allclose(plain, [lower, upper], atol=1e-12)
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    np.testing.assert_allclose(grown, [middle - 1.01 * half, middle + 1.01 * half], atol=1e-12)
    assert np.all(none[0] == np.inf)
    assert np.all(none[1] == -np.inf)
    with pytest.raises(ValueError, match=r"link_bounds: expected shape \(4, 2, 3\)"):
        physx.get_world_bounds(scene, jnp.zeros((2, 3)))


def _with_loop(
    articulation: artix.Articulation, joint: LoopJoint, a: int, b: int
) -> artix.Articulation:
    structure = artix.model.couplings.LoopJointStructure(
        joint.name, joint.type, a, b, joint.locked_axes
    )
    topology = dataclasses.replace(articulation.topology, loop_joints=(structure,))
    numbers = jax.tree.map(jnp.asarray, artix.model.couplings.LoopJoints.of([joint]))
    return articulation.replace(topology=topology, loop_joints=numbers)


@pytest.mark.slow
@pytest.mark.parametrize("fixed_base", [True, False])
def test_lambda_against_pinocchio(fixed_base: bool) -> None:
    """A spherical loop joint is a point constraint of Pinocchio; its forces by NumPy from
    Pinocchio's matrices."""
    model, articulation = oracles.spherical_model(3, fixed_base=fixed_base)
    last = articulation.topology.num_links - 1
    state = state_at(random_states(articulation, 1, seed=2), 0)
    a, b = (
        oracles.placement_of(pose)
        for pose in np.asarray(artix.frame_pose(articulation, state))[[last, 2]]
    )
    pose_a = random_pose(np.random.default_rng(4))
    pose_b = oracles.pose_of(b.inverse() * a * oracles.placement_of(pose_a))
    anchors = FramePairs((oracle_constraints.point(last, 2),), pose_a[None], pose_b[None])
    joint = LoopJoint(
        name="loop",
        link_a="a",
        link_b="b",
        type=LoopJointType.SPHERICAL,
        pose_a=pose_a,
        pose_b=pose_b,
    )
    looped = _with_loop(articulation, joint, last, 2)
    # Pinocchio's drift is ours where the frames do not move against each other.
    jacobian = oracle_constraints.constraint_kinematics(
        oracles.Oracle.at(model, articulation, state), anchors
    )["jacobian"]
    nu = np.asarray(nu_of(articulation, state))
    state = with_nu(articulation, state, jnp.asarray(nu - np.linalg.pinv(jacobian) @ jacobian @ nu))
    torque = jnp.asarray(np.random.default_rng(5).normal(size=articulation.topology.num_dofs))
    simulation = physx.create_simulation(looped, state)
    cache, converged = jax.jit(physx.compute_lambda)(simulation, physx.create_cache(looped), torque)
    oracle = oracles.Oracle.at(model, articulation, state)
    rows = oracle_constraints.constraint_kinematics(oracle, anchors)
    base = articulation.topology.num_base_dofs
    known = oracle.quantities(
        np.zeros(base + len(torque)), np.zeros((last + 1, 6)), 0, np.r_[0, 0, 0, 0, 0, 0, 1.0]
    )
    matrix, force = (
        known["mass_matrix_armature"],
        np.r_[np.zeros(base), torque] - known["bias_force"],
    )
    inertia = jacobian @ np.linalg.solve(matrix, jacobian.T)
    wanted = -np.linalg.solve(inertia, jacobian @ np.linalg.solve(matrix, force) + rows["bias"])
    assert bool(converged)
    np.testing.assert_allclose(cache.coefficient_matrix, jacobian, atol=1e-11)
    np.testing.assert_allclose(cache.lambda_, wanted, atol=1e-7 * np.max(np.abs(wanted)))
    alone = physx.compute_coefficient_matrix(
        simulation, physx.create_cache(looped)
    ).coefficient_matrix
    np.testing.assert_allclose(alone, cache.coefficient_matrix, atol=1e-14)
    assert (
        physx.get_coefficient_matrix_size(simulation) == alone.size == 3 * articulation.topology.nv
    )


@pytest.mark.slow
def test_lambda_of_redundant_rows() -> None:
    """A plane four-bar linkage needs two of the five rows of its hinge: the least forces, under
    which it stays closed."""
    articulation = four_bar(LoopJointType.REVOLUTE)
    q = jnp.array([-1.2, 0.9, 0.8])
    state = artix.neutral_state(articulation).replace(joint_position=q)

    @jax.jit
    def tip(q):
        return artix.frame_pose(
            articulation, state.replace(joint_position=q), 3, jnp.array([1.0, 0, 0, 0, 0, 0, 1])
        )

    turned = jnp.array([0, 0, 0.5**0.5, 0.5**0.5])  # A hinge about y, like the others.
    hinge, end = (
        jnp.concatenate([tip(q)[:3], turned])[None],
        jnp.concatenate([jnp.array([1.0, 0, 0]), turned])[None],
    )
    loops = articulation.loop_joints.replace(pose_a=hinge, pose_b=end)
    articulation = articulation.replace(loop_joints=loops)
    plane = np.array([tip(q + h) - tip(q - h) for h in 1e-6 * np.eye(3)])[:, [0, 2]]
    # The only motion that leaves the tip at rest.
    speed = np.cross(*plane.T) / np.linalg.norm(np.cross(*plane.T))
    simulation = physx.create_simulation(
        articulation, state.replace(joint_velocity=jnp.asarray(speed))
    )
    torque = jnp.array([0.3, -0.1, 0.2])
    cache, converged = jax.jit(physx.compute_lambda)(
        simulation, physx.create_cache(simulation), torque
    )
    assert bool(converged)
    jacobian, matrix = (
        np.asarray(cache.coefficient_matrix),
        np.asarray(artix.mass_matrix(articulation, state)),
    )
    assert np.linalg.matrix_rank(jacobian, tol=1e-9) == 2
    force = np.asarray(torque - artix.bias_force(articulation, simulation.state))
    acceleration = np.linalg.solve(matrix, force + jacobian.T @ np.asarray(cache.lambda_))
    h = 1e-4
    ahead, behind = (tip(q + speed * t + acceleration * t**2 / 2) for t in (h, -h))
    np.testing.assert_allclose((ahead - 2 * tip(q) + behind)[:3] / h**2, 0.0, atol=1e-6)
    free = np.linalg.solve(matrix, force)
    ahead, behind = (tip(q + speed * t + free * t**2 / 2) for t in (h, -h))
    assert np.linalg.norm(ahead - 2 * tip(q) + behind) / h**2 > 0.1
    # The least forces have no part that the linkage does not feel, but for rounding over the
    # damping, a quarter of the square root of its unit, in each of six iterations.
    unfelt = np.linalg.svd(jacobian.T)[2][2:]
    np.testing.assert_allclose(unfelt @ np.asarray(cache.lambda_), 0.0, atol=1e-5)


def test_loop_joints_that_are_no_equations_are_refused() -> None:
    simulation = physx.create_simulation(four_bar(LoopJointType.DISTANCE))
    cache = jax.eval_shape(
        physx.compute_coefficient_matrix, simulation, physx.create_cache(simulation)
    )
    assert cache.coefficient_matrix.shape == (1, 3)
    with pytest.raises(ValueError, match="loop joints of type 'distance' are inequalities"):
        jax.eval_shape(
            physx.compute_lambda, simulation, physx.create_cache(simulation), jnp.zeros(3)
        )
    chain = physx.create_simulation(tree_of(["revolute_swing1"], [0], fixed_base=True))
    cache, _ = jax.eval_shape(physx.compute_lambda, chain, physx.create_cache(chain), jnp.zeros(1))
    assert (cache.coefficient_matrix.shape, cache.lambda_.shape) == ((0, 1), (0,))
