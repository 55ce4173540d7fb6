"""Identities between the quantities, on trees of every joint kind with parameters and states that
hypothesis draws.

One tree has one topology, so every example runs the same compiled program.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import artix
from tests.support.bases import BASES_FIXED_WEEKLY
from tests.support.models import JOINT_KINDS, nu_of, random_states, state_at, tree_of, with_nu, zoo

SEEDS = st.integers(0, 2**31)
STEP = 1e-5


def assert_equal(pairs: dict, tolerance: float) -> None:
    """Fails with all pairs (found, wanted) whose error exceeds the tolerance, relative to the
    largest wanted entry."""
    excess = {}
    for name, (found, wanted) in pairs.items():
        found, wanted = np.asarray(found), np.asarray(wanted)
        assert found.shape == wanted.shape, name
        assert np.all(np.isfinite(found)), name
        error = np.max(np.abs(found - wanted)) / max(1.0, np.max(np.abs(wanted)))
        if not error <= tolerance:
            excess[name] = float(error)
    assert excess == {}


def draw(seed: int, *, fixed_base: bool, two_axes: bool, count: int = 2):
    """A zoo with random parameters, states, accelerations and wrenches."""
    rng = np.random.default_rng(seed)
    size = (len(JOINT_KINDS) if two_axes else len(JOINT_KINDS) - 3) + 1
    scales = [0.0 if k % 5 == 3 else 1.0 + 0.1 * (k % 3) for k in range(size)]
    articulation = zoo(
        fixed_base=fixed_base,
        two_axes=two_axes,
        seed=seed,
        armature=float(rng.uniform(0.1, 1.0)),
        gravity_scale=scales,
    )
    states = random_states(articulation, count, seed)
    accelerations = jnp.asarray(rng.normal(size=(count, articulation.topology.nv)))
    wrenches = jnp.asarray(rng.normal(size=(count, articulation.topology.num_links, 6)))
    return articulation, states, accelerations, wrenches


@jax.jit
def _algebra(articulation, states, accelerations, wrenches):
    def one(s, acceleration, wrench):
        a, nu = articulation, nu_of(articulation, s)
        base = a.topology.num_base_dofs
        velocities = artix.frame_velocity(a, s, offset="com")
        jacobian = artix.physx.dense_jacobian(a, s)
        mass, heavy = artix.mass_matrix(a, s), artix.mass_matrix(a, s, armature=True)
        coriolis, gravity = artix.coriolis_compensation(a, s), artix.gravity_compensation(a, s)
        bias, external = artix.bias_force(a, s), artix.generalized_external_force(a, s, wrench)
        matrix, momentum_bias = artix.centroidal_momentum_matrix(a, s)
        armature = jnp.diag(jnp.concatenate([jnp.zeros(base), a.armature]))
        drift = artix.frame_acceleration(a, s, jnp.zeros_like(nu), offset="com", classical=True)
        rows = 0 if base else 1
        total = jnp.sum(a.link_mass)
        pairs = {
            "J nu = link velocities": (jacobian @ nu, velocities[rows:].reshape(-1)),
            "J a + dJ nu = link accelerations": (
                (jacobian @ acceleration).reshape(-1, 6) + drift[rows:],
                artix.frame_acceleration(a, s, acceleration, offset="com", classical=True)[rows:],
            ),
            "nu M nu / 2 = kinetic energy": (nu @ mass @ nu / 2, artix.kinetic_energy(a, s)),
            "with armature": (nu @ heavy @ nu / 2, artix.kinetic_energy(a, s, armature=True)),
            "armature on the diagonal": (heavy - mass, armature),
            "M symmetric": (mass, mass.T),
            "c + g = bias": (coriolis + gravity, bias),
            "ID(a) = M a + bias": (
                artix.inverse_dynamics(a, s, acceleration),
                heavy @ acceleration + bias,
            ),
            "ID without armature": (
                artix.inverse_dynamics(a, s, acceleration, wrench, armature=False),
                mass @ acceleration + bias - external,
            ),
            "J^T w": (external, jacobian.T @ wrench[rows:].reshape(-1)),
            "A nu = h": (matrix @ nu, artix.centroidal_momentum(a, s)),
            "A = m J_com": (matrix[:3], total * artix.center_of_mass_jacobian(a, s)),
            "frame velocity = J nu": (
                artix.frame_velocity(a, s, "tool"),
                artix.frame_jacobian(a, s, "tool") @ nu,
            ),
            "coriolis is quadratic": (
                artix.coriolis_compensation(a, with_nu(a, s, -2 * nu)),
                4 * coriolis,
            ),
            "momentum bias is quadratic": (
                artix.centroidal_momentum_matrix(a, with_nu(a, s, -2 * nu))[1],
                4 * momentum_bias,
            ),
            "rate(velocity(rate)) = rate": (
                artix.joint_rate_from_velocity(
                    a, s, artix.joint_velocity_from_rate(a, s, s.joint_velocity)
                ),
                s.joint_velocity,
            ),
            "velocity(rate(velocity)) = velocity": (
                artix.joint_velocity_from_rate(
                    a, s, artix.joint_rate_from_velocity(a, s, s.joint_velocity)
                ),
                s.joint_velocity,
            ),
        }
        if base:
            linear = jnp.asarray([2.0, -3.0, 1.0, 0.0, 0.0, 0.0])
            moving = s.replace(root_velocity=s.root_velocity + linear)
            pairs["coriolis does not see the root's linear velocity"] = (
                artix.coriolis_compensation(a, moving),
                coriolis,
            )
        return pairs, jnp.linalg.eigvalsh(mass)

    return jax.vmap(one)(states, accelerations, wrenches)


@pytest.mark.slow
@BASES_FIXED_WEEKLY
@settings(max_examples=8)
@given(seed=SEEDS)
def test_algebra(fixed_base: bool, seed: int) -> None:
    pairs, eigenvalues = _algebra(*draw(seed, fixed_base=fixed_base, two_axes=True))
    assert_equal(pairs, 1e-11)
    assert np.min(eigenvalues) > 0.0


@jax.jit
def _rates(articulation, states, accelerations):
    """Quantities and central differences along a motion with the states' velocities and given
    accelerations."""
    a = articulation

    def quantities(s):
        return {
            "pose": artix.frame_pose(a, s),
            "frame": artix.frame_pose(a, s, "tool"),
            "velocity": artix.frame_velocity(a, s, offset="com"),
            "momentum": artix.centroidal_momentum(a, s),
            "center": artix.center_of_mass(a, s),
            "potential": artix.potential_energy(a, s),
            "kinetic": artix.kinetic_energy(a, s, armature=True),
            "q": s.joint_position,
            **{
                axes: artix.frame_jacobian(a, s, "tool", axes=axes)
                for axes in ("world_aligned", "local", "world")
            },
        }

    def one(s, acceleration):
        nu = nu_of(a, s)

        def moved(time):
            # The mid-point velocity carries the configuration: the path has the wanted acceleration
            # to O(time^2).
            there = artix.integrate(a, s, time * (nu + 0.5 * time * acceleration))
            return quantities(with_nu(a, there, nu + time * acceleration))

        here, ahead, behind = quantities(s), moved(STEP), moved(-STEP)
        rate = jax.tree.map(lambda x, y: (x - y) / (2 * STEP), ahead, behind)
        matrix, bias = artix.centroidal_momentum_matrix(a, s)
        spin = artix.frame_velocity(a, s, "tool")
        x, y, z, w = here["frame"][3:]
        product = jnp.asarray([[w, z, -y], [-z, w, x], [y, -x, w], [-x, -y, -z]])
        force = artix.inverse_dynamics(a, s, acceleration)
        pairs = {
            "frame position": (rate["frame"][:3], spin[:3]),
            "frame orientation": (rate["frame"][3:], 0.5 * product @ spin[3:]),
            "link accelerations": (
                rate["velocity"],
                artix.frame_acceleration(a, s, acceleration, offset="com", classical=True),
            ),
            "momentum": (rate["momentum"], matrix @ acceleration + bias),
            "centre of mass": (rate["center"], artix.center_of_mass_jacobian(a, s) @ nu),
            "gravity is the gradient of the potential": (
                rate["potential"],
                artix.gravity_compensation(a, s) @ nu,
            ),
            "power": (rate["kinetic"] + rate["potential"], force @ nu),
            "joint rates": (rate["q"], artix.joint_rate_from_velocity(a, s, s.joint_velocity)),
        }
        for axes in ("world_aligned", "local", "world"):
            pairs[f"frame Jacobian, {axes}"] = (
                rate[axes],
                artix.frame_jacobian_rate(a, s, "tool", axes=axes),
            )
        return pairs

    return jax.vmap(one)(states, accelerations)


@pytest.mark.slow
@BASES_FIXED_WEEKLY
@settings(max_examples=5)
@given(seed=SEEDS)
def test_rates(fixed_base: bool, seed: int) -> None:
    articulation, states, accelerations, _ = draw(seed, fixed_base=fixed_base, two_axes=False)
    assert_equal(_rates(articulation, states, accelerations), 1e-7)


@functools.partial(jax.jit)
def _manifold(articulation, states, displacements):
    def one(s, d):
        there = artix.integrate(articulation, s, d)
        again = artix.integrate(articulation, s, artix.difference(articulation, s, there))
        back = artix.integrate(articulation, there, artix.difference(articulation, there, s))
        poses = [artix.frame_pose(articulation, x) for x in (there, again, s, back)]
        return there, artix.difference(articulation, s, there), poses

    return jax.vmap(one)(states, displacements)


@BASES_FIXED_WEEKLY
@settings(max_examples=8)
@given(seed=SEEDS)
def test_integrate_and_difference_are_inverse(fixed_base: bool, seed: int) -> None:
    articulation, states, _, _ = draw(seed, fixed_base=fixed_base, two_axes=False, count=4)
    rng = np.random.default_rng(seed)
    displacements = jnp.asarray(rng.uniform(-1.2, 1.2, size=(4, articulation.topology.nv)))
    there, displaced, poses = _manifold(articulation, states, displacements)
    assert_equal({"difference(integrate)": (displaced, displacements)}, 1e-12)
    there_pose, again, start, back = (np.asarray(pose) for pose in poses)
    for found, wanted in ((again, there_pose), (back, start)):
        same = np.sign(np.sum(found[..., 3:] * wanted[..., 3:], axis=-1, keepdims=True))
        np.testing.assert_allclose(found[..., :3], wanted[..., :3], atol=1e-11)
        np.testing.assert_allclose(found[..., 3:] * same, wanted[..., 3:], atol=1e-11)
    np.testing.assert_allclose(np.linalg.norm(there.root_pose[:, 3:], axis=1), 1.0, atol=1e-14)


def test_wrapping_is_that_of_physx() -> None:
    articulation = tree_of(["revolute_twist", "unwrapped_twist"], [0, 1], fixed_base=True)
    state = artix.neutral_state(articulation).replace(joint_position=jnp.asarray([6.2, 6.2]))
    moved = artix.integrate(articulation, state, jnp.asarray([0.2, 0.2]))
    np.testing.assert_allclose(moved.joint_position, [6.4 - 4 * np.pi, 6.4], atol=1e-14)
    moved = artix.integrate(articulation, state, jnp.asarray([-12.6, -12.6]))
    np.testing.assert_allclose(moved.joint_position, [-6.4 + 4 * np.pi, -6.4], atol=1e-14)


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_permuting_siblings_permutes_the_result(fixed_base: bool) -> None:
    kinds = ["revolute_swing1", "spherical_012", "prismatic_z", "fixed", "unwrapped_twist"]
    parents = [0, 0, 0, 2, 4]
    first = tree_of(kinds, parents, fixed_base=fixed_base, armature=0.3)
    second = tree_of(kinds, parents, fixed_base=fixed_base, armature=0.3, order=[3, 2, 1, 4, 5])
    ours, theirs = first.topology, second.topology
    assert ours.link_names != theirs.link_names
    dofs = [theirs.dof_names.index(name) for name in ours.dof_names]
    base = list(range(ours.num_base_dofs))
    nv, links = (
        base + [len(base) + dof for dof in dofs],
        [theirs.link_names.index(name) for name in ours.link_names],
    )
    state = state_at(random_states(first, 1), 0)
    order = np.argsort(dofs)
    other = state.replace(
        joint_position=state.joint_position[order], joint_velocity=state.joint_velocity[order]
    )
    assert_equal(
        {
            "poses": (
                artix.frame_pose(second, other)[np.array(links)],
                artix.frame_pose(first, state),
            ),
            "mass": (
                artix.mass_matrix(second, other)[np.ix_(nv, nv)],
                artix.mass_matrix(first, state),
            ),
            "bias": (artix.bias_force(second, other)[np.array(nv)], artix.bias_force(first, state)),
        },
        1e-12,
    )


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_a_fixed_joint_is_a_rigid_weld(fixed_base: bool) -> None:
    """Merging by hand a link that a fixed joint attaches changes nothing but the number of
    links."""
    split = tree_of(["revolute_swing2", "fixed", "spherical_012"], [0, 1, 1], fixed_base=fixed_base)
    split = split.replace(gravity_scale=jnp.ones(4))
    names = list(split.topology.link_names)
    arm, welded = names.index("link_1"), names.index("link_2")

    def transform(pose):
        x, y, z, w = np.asarray(pose[3:])
        rotation = np.eye(3) + 2 * w * _skew([x, y, z]) + 2 * _skew([x, y, z]) @ _skew([x, y, z])
        return np.block(
            [[rotation, np.asarray(pose[:3])[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]]
        )

    placement = transform(split.joint_parent_pose[welded]) @ np.linalg.inv(
        transform(split.joint_child_pose[welded])
    )
    parts = []
    for link, frame in ((arm, np.eye(4)), (welded, placement)):
        com = frame @ transform(split.link_com_pose[link])
        parts.append(
            (
                float(split.link_mass[link]),
                com[:3, 3],
                com[:3, :3] @ split.link_inertia[link] @ com[:3, :3].T,
            )
        )
    mass = sum(part[0] for part in parts)
    center = sum(part[0] * part[1] for part in parts) / mass
    inertia = sum(
        about + m * (np.dot(c - center, c - center) * np.eye(3) - np.outer(c - center, c - center))
        for m, c, about in parts
    )
    keep = np.array([k for k in range(4) if k != welded])
    merged_tree = tree_of(["revolute_swing2", "spherical_012"], [0, 1], fixed_base=fixed_base)
    fields = ("link_mass", "link_com_pose", "link_inertia", "joint_parent_pose", "joint_child_pose")
    merged = merged_tree.replace(**{name: getattr(split, name)[keep] for name in fields})
    merged = merged.replace(
        link_mass=merged.link_mass.at[1].set(mass),
        link_com_pose=merged.link_com_pose.at[1].set(jnp.asarray([*center, 0.0, 0.0, 0.0, 1.0])),
        link_inertia=merged.link_inertia.at[1].set(jnp.asarray(inertia)),
    )
    state = state_at(random_states(split, 1), 0)
    acceleration = jnp.arange(1.0, split.topology.nv + 1.0)
    functions = {
        "mass": artix.mass_matrix,
        "bias": artix.bias_force,
        "inverse dynamics": lambda a, s: artix.inverse_dynamics(a, s, acceleration),
        "momentum": lambda a, s: artix.centroidal_momentum_matrix(a, s)[0],
        "energy": artix.potential_energy,
        "poses": lambda a, s: artix.frame_pose(a, s)[np.array([0, 1, a.topology.num_links - 1])],
    }
    assert names[-1] == "link_3"
    assert_equal(
        {
            name: (function(merged, state), function(split, state))
            for name, function in functions.items()
        },
        1e-12,
    )


def _skew(v):
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


@pytest.mark.slow
def test_jit_vmap_and_scan_agree_with_plain_calls() -> None:
    articulation = tree_of(
        ["revolute_twist", "spherical_012", "prismatic_y"], [0, 1, 1], fixed_base=False
    )
    states = random_states(articulation, 3)
    plain = [artix.bias_force(articulation, state_at(states, k)) for k in range(3)]
    batched = jax.jit(jax.vmap(artix.bias_force, (None, 0)))(articulation, states)
    heavy = jax.vmap(lambda scale: articulation.replace(link_mass=articulation.link_mass * scale))(
        jnp.arange(1.0, 4.0)
    )
    both = jax.vmap(artix.bias_force)(heavy, states)
    third = artix.bias_force(
        articulation.replace(link_mass=articulation.link_mass * 3.0), state_at(states, 2)
    )
    _, scanned = jax.lax.scan(
        lambda carry, s: (carry, artix.bias_force(articulation, s)), 0, states
    )
    assert_equal(
        {"vmap": (batched, plain), "scan": (scanned, plain), "parameters": (both[2], third)}, 1e-12
    )


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_gravity_is_the_same_whether_or_not_its_scale_is_known(scale: float) -> None:
    kinds = ["revolute_twist", "spherical_012", "prismatic_y", "fixed", "revolute_twist"]
    a = tree_of(kinds, [0, 1, 1, 2, 0], fixed_base=False, gravity_scale=[1.0] * 5 + [scale])
    s = state_at(random_states(a, 1), 0)
    acceleration = jnp.linspace(-1, 1, a.topology.nv, dtype=a.dtype)
    known = jax.jit(lambda s, x: artix.inverse_dynamics(a, s, x))(s, acceleration)
    traced = jax.jit(artix.inverse_dynamics)(a, s, acceleration)
    np.testing.assert_allclose(known, traced, rtol=1e-12, atol=1e-12)


@BASES_FIXED_WEEKLY
def test_random_states_lie_within_limits(fixed_base: bool, dtype: np.dtype) -> None:
    articulation = zoo(fixed_base=fixed_base, dtype=dtype)
    n = articulation.topology.num_dofs
    articulation = articulation.replace(
        joint_lower_limit=jnp.full(n, -0.3, dtype), joint_upper_limit=jnp.full(n, 0.1, dtype)
    )
    states = jax.vmap(lambda key: artix.random_state(articulation, key))(
        jax.random.split(jax.random.key(0), 50)
    )
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(states))
    assert np.all((states.joint_position >= -0.3) & (states.joint_position <= 0.1))
    assert np.ptp(states.joint_position) > 0.35
    np.testing.assert_allclose(np.linalg.norm(states.root_pose[:, 3:], axis=1), 1.0, atol=1e-6)
    assert bool(np.any(states.root_velocity)) is not fixed_base


@pytest.mark.slow
def test_a_robot_that_cannot_move() -> None:
    """Without degrees of freedom, results have axes of length zero, and what holds the robot
    carries all forces."""
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(name="base")
    builder.add_link(0, artix.Joint.fixed(), mass=2.0, inertia=(0.1, 0.2, 0.3), name="tool")
    robot = builder.build("float64")
    state, none = artix.neutral_state(robot), jnp.zeros(0)
    tool = artix.constraints.Constraint(frame_a="tool")
    held = artix.Constraints.of(robot, [tool])
    up = jnp.array([[0.0, 0.0, 1.0]])
    contacts = artix.Contacts((1,), 0 * up, up, jnp.ones(1), jnp.zeros(1))
    shapes = {
        "regressor": (artix.joint_torque_regressor(robot, state, none), (0, 20)),
        "inertias": (artix.dynamics.articulated_body_inertias(robot, state), (2, 6, 6)),
        "jacobian": (artix.constraints.constraint_jacobian(robot, state, held), (3, 0)),
        "delassus": (artix.constraints.delassus_matrix(robot, state, held), (3, 3)),
        "acceleration": (
            artix.constrained_forward_dynamics(robot, state, none, held).acceleration,
            (0,),
        ),
        "forces": (artix.contact_forces(robot, state, none, contacts, 0.01).force, (1, 3)),
        "tangents": (artix.kinematics.transport(robot, state, none, jnp.zeros((0, 3))), (0, 3)),
    }
    for name, (found, shape) in shapes.items():
        assert found.shape == shape and np.all(np.isfinite(found)), name
    np.testing.assert_allclose(shapes["inertias"][0][1, 0, 0], 2.0)
    np.testing.assert_array_equal(shapes["delassus"][0], 0.0)
