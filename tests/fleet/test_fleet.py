"""Fleets: one program for each kind of members. Results equal those of the members, and padding is
exactly zero."""

from __future__ import annotations

import functools
import gc
import itertools
import pickle
import re
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import robots
from artix.compiler import compilation
from artix.compiler.kernels import available as kernels_available
from artix.compiler.quantity import kernels_are_on
from artix.fleet.by_kind import MAX_TRIALS
from artix.fleet.kinds import kinds_of
from tests.support.models import random_tree, tree_of

FUNCTIONS = {
    "mass_matrix": artix.mass_matrix,
    "bias_force": artix.bias_force,
    "coriolis_compensation": artix.coriolis_compensation,
    "gravity_compensation": artix.gravity_compensation,
    "link_poses": artix.frame_pose,
    "link_velocities": functools.partial(artix.frame_velocity, offset="com"),
    "dense_jacobian": artix.physx.dense_jacobian,
    "center_of_mass": artix.center_of_mass,
    "center_of_mass_jacobian": artix.center_of_mass_jacobian,
    "centroidal_momentum_matrix": artix.centroidal_momentum_matrix,
    "centroidal_momentum": artix.centroidal_momentum,
    "kinetic_energy": artix.kinetic_energy,
    "potential_energy": artix.potential_energy,
}


def everything(articulation: artix.Articulation, state: artix.State) -> dict:
    """Every quantity that takes no further argument, in one program."""
    return {name: function(articulation, state) for name, function in FUNCTIONS.items()}


def with_arguments(articulation, state, acceleration, wrench) -> dict:
    return {
        "inverse_dynamics": artix.inverse_dynamics(articulation, state, acceleration, wrench),
        "forward_dynamics": artix.forward_dynamics(articulation, state, acceleration, wrench),
        "link_accelerations": artix.frame_acceleration(
            articulation, state, acceleration, offset="com", classical=True
        ),
        "generalized_external_force": artix.generalized_external_force(articulation, state, wrench),
        "generalized_velocity": artix.generalized_velocity(articulation, state),
        "with_generalized_velocity": artix.generalized_velocity(
            articulation, artix.with_generalized_velocity(articulation, state, acceleration)
        ),
        "integrate": artix.integrate(articulation, state, acceleration),
        "difference": artix.difference(
            articulation, state, artix.integrate(articulation, state, acceleration)
        ),
        "rate": artix.joint_rate_from_velocity(articulation, state, state.joint_velocity),
        "velocity": artix.joint_velocity_from_rate(articulation, state, state.joint_velocity),
    }


def on_the_manifold(articulation, state, there, displacement) -> dict:
    return {
        "squared_distance": artix.squared_distance(articulation, state, there),
        "integrate_derivatives": artix.integrate_derivatives(articulation, state, displacement),
        "difference_derivatives": artix.difference_derivatives(articulation, state, there),
        "configuration_rate_map": artix.configuration_rate_map(articulation, state),
    }


def place(
    padded: tuple[int, ...], alone: tuple[int, ...], topology: artix.Topology, fleet: artix.Fleet
):
    """Where one member's own result lies inside its padded block, axis by axis, given the shapes of
    both.

    An axis as long as the member's own is not padded: the seven of a pose may also be the number of
    a fleet's DOFs.
    """
    skip = fleet.nv - fleet.num_dofs - topology.num_base_dofs
    own = (
        (fleet.nv, skip, skip + topology.nv),
        (fleet.num_dofs, 0, topology.num_dofs),
        (fleet.num_links, 0, topology.num_links),
        (6 * fleet.num_links, skip, 6 * topology.num_links),
        (7 + fleet.num_dofs, 7 if topology.fixed_base else 0, 7 + topology.num_dofs),
    )

    def axis(length: int, wanted: int) -> slice:
        if length == wanted:
            return slice(None)
        (found,) = {
            (low, high) for size, low, high in own if size == length and high - low == wanted
        }
        return slice(*found)

    return tuple(map(axis, padded, alone))


def assert_equal_inside(name, padded, wanted, topology, fleet, tolerance) -> None:
    padded, wanted = np.asarray(padded), np.asarray(wanted)
    where = place(padded.shape, wanted.shape, topology, fleet)
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    assert padded[where].shape == wanted.shape, name
    assert np.max(np.abs(padded[where] - wanted), initial=0.0) <= tolerance * scale, (
        name,
        topology,
    )
    rest = padded.copy()
    rest[where] = 0
    assert not np.any(rest), (name, "padded entries must be exactly zero", topology)


@pytest.fixture(scope="module")
def members() -> list[artix.Articulation]:
    """Fixed and floating trees of every joint kind and size, of several shapes that cannot be
    mistaken for each other."""
    return [
        random_tree(seed, links - 1, fixed_base=fixed)
        for seed, links, fixed in (
            (1, 9, False),
            (2, 14, True),
            (3, 5, False),
            (4, 2, True),
            (5, 1, False),
        )
    ]


@pytest.fixture(scope="module")
def fleet(members) -> artix.Fleet:
    return artix.Fleet([members[i] for i in (0, 1, 2, 3, 4, 2)])


@pytest.mark.slow
def test_a_fleet_equals_its_members(fleet, members) -> None:
    state = fleet.random_state(jax.random.key(0))
    found = fleet.evaluate(everything, state)
    for member, kind in enumerate((0, 1, 2, 3, 4, 2)):
        wanted = jax.jit(everything)(members[kind], fleet.member_state(state, member))
        for name in FUNCTIONS:
            for leaf, alone in zip(
                jax.tree.leaves(found[name]), jax.tree.leaves(wanted[name]), strict=True
            ):
                assert_equal_inside(name, leaf[member], alone, members[kind].topology, fleet, 1e-12)


@pytest.mark.slow
def test_functions_with_arguments(fleet, members) -> None:
    state = fleet.random_state(jax.random.key(1))
    rng = np.random.default_rng(0)
    # Entries of links and DOFs that a member lacks, and of the root of a fixed base, must not
    # matter: they are random.
    acceleration = jnp.asarray(rng.normal(size=(6, fleet.nv)))
    wrench = jnp.asarray(rng.normal(size=(6, fleet.num_links, 6)))
    found = fleet.evaluate(with_arguments, state, acceleration, wrench)
    for member, kind in enumerate((0, 1, 2, 3, 4, 2)):
        topology = members[kind].topology
        skip = fleet.nv - fleet.num_dofs - topology.num_base_dofs
        own = acceleration[member, skip : skip + topology.nv], wrench[member, : topology.num_links]
        wanted = jax.jit(with_arguments)(members[kind], fleet.member_state(state, member), *own)
        for name, value in found.items():
            if name == "integrate":
                value = fleet.member_state(value, member)
                for leaf, alone in zip(
                    jax.tree.leaves(value), jax.tree.leaves(wanted[name]), strict=True
                ):
                    np.testing.assert_allclose(leaf, alone, atol=1e-12)
            else:
                where = place(value[member].shape, wanted[name].shape, topology, fleet)
                np.testing.assert_allclose(
                    value[member][where], wanted[name], atol=1e-11, rtol=1e-11
                )


@pytest.mark.slow
def test_jacobians_of_configurations(members) -> None:
    pair = artix.Fleet(members[2:4])
    state, there = (pair.random_state(jax.random.key(k)) for k in range(2))
    displacement = jnp.asarray(np.random.default_rng(0).normal(size=(2, pair.nv)))
    found = pair.evaluate(on_the_manifold, state, there, displacement)
    for member, one in enumerate(members[2:4]):
        skip = pair.nv - pair.num_dofs - one.topology.num_base_dofs
        own = (pair.member_state(x, member) for x in (state, there))
        wanted = jax.jit(on_the_manifold)(
            one, *own, displacement[member, skip : skip + one.topology.nv]
        )
        for name, leaves in found.items():
            for leaf, alone in zip(
                jax.tree.leaves(leaves), jax.tree.leaves(wanted[name]), strict=True
            ):
                assert_equal_inside(name, leaf[member], alone, one.topology, pair, 1e-12)


def chains() -> artix.Fleet:
    """Chains of one and of three revolute joints."""
    return artix.Fleet([tree_of(["revolute_twist"] * n, range(n), fixed_base=True) for n in (1, 3)])


@pytest.mark.slow
@pytest.mark.parametrize("by_kernels", [True, False])
def test_each_member_has_a_key(by_kernels: bool) -> None:
    """Random keys are arguments and results of members like other arrays."""

    def noise(articulation, state, key) -> tuple[jax.Array, jax.Array]:
        first, second = jax.random.split(key)
        return state.joint_position + jax.random.uniform(
            first, state.joint_position.shape, state.joint_position.dtype
        ), second

    members = [robots.load(name) for name in ("double_pendulum", "cart_pole", "arm7")]
    fleet, keys = artix.Fleet(members), jax.random.split(jax.random.key(5), 3)
    states = [artix.neutral_state(member) for member in members]
    expected = [noise(*each) for each in zip(members, states, keys, strict=True)]
    with artix.use_kernels(by_kernels):
        positions, others = fleet.evaluate(noise, fleet.neutral_state(), keys)
        of_kinds = fleet.evaluate_kinds(noise, fleet.neutral_state(), keys)
    assert others.dtype == keys.dtype
    for number, (position, other) in enumerate(expected):
        np.testing.assert_array_equal(positions[number, : len(position)], position)
        assert others[number] == other
        np.testing.assert_array_equal(of_kinds[number][0][0], position)
        assert of_kinds[number][1][0] == other


def test_arguments_of_ambiguous_length_are_refused() -> None:
    """A goal of three coordinates has as many entries as the longer chain has joints."""
    fleet = chains()
    states, goals = fleet.neutral_state(), jnp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def last(a, state, goal):
        return goal["place"][2]

    def last_of_three(a, state, goal):
        if goal["place"].shape != (3,):
            raise ValueError("expected three coordinates")
        return last(a, state, goal)

    def of_three(a, state, goal):
        assert goal["place"].shape == (3,)
        return last(a, state, goal)

    message = r"argument 1\['place'\]: its shape \(2, 3\) may mean several things in this fleet"
    for evaluate in (fleet.evaluate, fleet.evaluate_kinds):
        with pytest.raises(ValueError, match=message):
            evaluate(last, states, {"place": goals})
    for function in (last_of_three, of_three):
        np.testing.assert_array_equal(fleet.evaluate(function, states, {"place": goals}), [3, 6])
    # What does not matter need not be known.
    heights = fleet.evaluate(lambda a, state, _: artix.center_of_mass(a, state), states, goals)
    np.testing.assert_array_equal(heights, fleet.evaluate(artix.center_of_mass, states))


def test_a_function_that_refuses_many_ambiguous_arguments_ends_soon() -> None:
    """The scene of a PhysX fleet has so many arrays that their meanings could not all be tried."""
    fleet, calls = chains(), []

    def refuses(a, state, many):
        calls.append(None)
        raise ValueError("not these")

    many = {k: jnp.zeros((2, 3)) for k in range(40)}
    with pytest.raises(ValueError, match="not these"):
        fleet.evaluate(refuses, fleet.neutral_state(), many)
    assert len(calls) <= MAX_TRIALS


@pytest.mark.parametrize(
    "name", ["integrate", "difference", "generalized_velocity", "with_generalized_velocity"]
)
def test_entries_that_a_member_lacks_are_ignored_and_zero(name: str) -> None:
    fleet, function = chains(), getattr(artix, name)
    states = fleet.random_state(jax.random.key(0))
    noise = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)))
    full = states.replace(joint_position=noise, joint_velocity=noise)
    given = {
        "integrate": (states, noise),
        "difference": (states, full),
        "generalized_velocity": (full,),
        "with_generalized_velocity": (states, noise),
    }[name]
    found = fleet.evaluate(function, *given)
    for member, dofs in enumerate((1, 3)):
        own = [
            fleet.member_state(x, member) if isinstance(x, artix.State) else x[member, :dofs]
            for x in given
        ]
        wanted = function(fleet.member(member), *own)
        for leaf, alone in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(leaf[member, : len(alone)], alone, atol=1e-12)
            assert not np.any(leaf[member, len(alone) :])


@pytest.mark.slow
def test_steps_ignore_entries_that_a_member_lacks() -> None:
    noise, fleet = iter(jnp.asarray(np.random.default_rng(0).normal(size=(5, 2, 3)))), chains()
    states = fleet.neutral_state().replace(joint_position=next(noise), joint_velocity=next(noise))
    control = artix.Control(next(noise), next(noise), next(noise))
    found = fleet.evaluate(artix.step, states, control, 0.01)
    for member, dofs in enumerate((1, 3)):
        own = jax.tree.map(lambda x, k=member, n=dofs: x[k, :n], control)
        wanted = artix.step(fleet.member(member), fleet.member_state(states, member), own, 0.01)
        np.testing.assert_allclose(
            found.joint_velocity[member, :dofs], wanted.joint_velocity, atol=1e-12
        )
        assert not np.any(found.joint_velocity[member, dofs:])


def test_states_are_stacked_where_they_are_traced() -> None:
    fleet = chains()
    one, three = (artix.neutral_state(fleet.member(k)) for k in range(2))
    stacked = jax.jit(lambda q: fleet.stack_states([one.replace(joint_position=q), three]))(
        jnp.ones(1)
    )
    np.testing.assert_array_equal(stacked.joint_position, [[1, 0, 0], [0, 0, 0]])
    with pytest.raises(
        ValueError, match=r"state 0: joint_velocity must have shape \(1,\) for 'tree'; found \(3,\)"
    ):
        fleet.stack_states([one.replace(joint_velocity=jnp.zeros(3)), three])


def test_one_topology_stays_on_the_static_path() -> None:
    arm = robots.load("arm7")
    heavy = arm.replace(link_mass=2 * arm.link_mass)
    fleet = artix.Fleet([arm, heavy, arm])
    assert fleet.articulation.link_mass.shape == (3, 9)
    state = fleet.neutral_state()
    gravity = fleet.evaluate(artix.gravity_compensation, state)
    np.testing.assert_allclose(gravity[1], 2 * gravity[0], rtol=1e-12)
    np.testing.assert_array_equal(gravity[0], gravity[2])
    for _ in range(2):  # What the first trace makes and the fleet keeps is no tracer.
        by_vmap = jax.jit(
            lambda state: jax.vmap(artix.gravity_compensation)(fleet.articulation, state)
        )(state)
        np.testing.assert_allclose(by_vmap, gravity, atol=1e-12)


@pytest.mark.slow
def test_states_are_stacked_and_taken_apart(fleet, members) -> None:
    kinds = (0, 1, 2, 3, 4, 2)
    states = [artix.random_state(members[k], jax.random.key(i)) for i, k in enumerate(kinds)]
    stacked = fleet.stack_states(states)
    for member, state in enumerate(states):
        for leaf, own in zip(
            jax.tree.leaves(fleet.member_state(stacked, member)),
            jax.tree.leaves(state),
            strict=True,
        ):
            np.testing.assert_array_equal(leaf, own)


def test_refusals(fleet, members) -> None:
    with pytest.raises(ValueError, match="at least one"):
        artix.Fleet([])
    with pytest.raises(ValueError, match="one dtype"):
        artix.Fleet([members[0], members[1].astype(jnp.float32)])
    with pytest.raises(ValueError, match="single articulations"):
        artix.Fleet([jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), members[0])])
    with pytest.raises(IndexError, match="no member 6"):
        fleet.replace_member(6, members[0])
    with pytest.raises(
        ValueError, match=r"5 topologies and so no common articulation; use fleet\.evaluate"
    ):
        _ = fleet.articulation
    with pytest.raises(ValueError, match="expected 6 states"):
        fleet.stack_states([artix.neutral_state(members[0])])
    with pytest.raises(KeyError, match="no link or frame called 'base'"):
        fleet.evaluate(functools.partial(artix.frame_pose, frame="base"), fleet.neutral_state())


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    fleet = artix.Fleet([cart, pendulum] * 3)
    state = fleet.neutral_state()
    few = jax.tree.map(lambda leaf: leaf[:4], state)
    wide = state.replace(joint_position=jnp.zeros((6, 3)))
    given = {
        r"state.root_pose: expected shape \(6, 7\).*found \(4, 7\)": (
            artix.mass_matrix,
            (few,),
            {},
        ),
        r"state.joint_position: expected shape \(6, 2\).*found \(6, 3\)": (
            artix.mass_matrix,
            (wide,),
            {},
        ),
        r"argument 1: expected a leading axis of 6 .* \(5, 2\)": (
            artix.inverse_dynamics,
            (state, jnp.zeros((5, 2))),
            {},
        ),
        r"argument 1.joint_force: expected a leading axis of 6": (
            artix.step,
            (state, artix.Control(joint_force=jnp.zeros(2)), 0.01),
            {},
        ),
        r"argument 1: expected an array or a number, found str.*by keyword": (
            artix.frame_pose,
            (state, "tip"),
            {},
        ),
        r"static and must be hashable.*functools.partial": (
            artix.step,
            (state, None),
            {"dt": jnp.full(6, 0.01)},
        ),
    }
    for message, (function, arguments, options) in given.items():
        with pytest.raises((TypeError, ValueError), match=message):
            fleet.evaluate(function, *arguments, **options)
    with pytest.raises(TypeError, match="found a single one"):
        artix.Fleet(cart)
    with pytest.raises(TypeError, match="member 1: expected an Articulation, found str"):
        artix.Fleet([cart, "quadruped"])
    with pytest.raises(ValueError, match=r"one dtype; found float32 \('cart_pole'\), float64"):
        fleet.replace_member(1, cart.astype("float32"))
    for number in (-1, 6):
        with pytest.raises(IndexError, match=f"no member {number}"):
            fleet.member_state(state, number)


@pytest.mark.slow
def test_gradients_by_parameters_of_which_a_fleet_is_made() -> None:
    """Members made inside the differentiated function; a single kind and several."""
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    for others in ([cart, pendulum], [pendulum]):
        states = artix.Fleet([*others, pendulum]).random_state(jax.random.key(0))

        def energy(mass, others=others, states=states):
            fleet = artix.Fleet([*others, pendulum.replace(link_mass=mass)])
            return jnp.sum(fleet.evaluate(artix.kinetic_energy, states))

        last = artix.Fleet([*others, pendulum]).member_state(states, len(others))
        alone = jax.grad(
            lambda mass, last=last: artix.kinetic_energy(pendulum.replace(link_mass=mass), last)
        )
        found = jax.jit(jax.grad(energy))(pendulum.link_mass)
        assert np.linalg.norm(found) > 0.01
        np.testing.assert_allclose(found, alone(pendulum.link_mass), rtol=1e-12)


def test_parameters_that_members_share_are_constants() -> None:
    """Only masses that differ are operands of a kind's program, so it has few operations more than
    a single robot's."""
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    heavy = pendulum.replace(link_mass=2 * pendulum.link_mass)
    kinds = kinds_of([cart, pendulum, heavy], np.array([0, 1, 2, 1]))
    paths = [
        jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(pendulum)
    ]
    assert not any(kinds[0].differs)
    assert [path for path, flag in zip(paths, kinds[1].differs, strict=True) if flag] == [
        ".link_mass"
    ]
    np.testing.assert_array_equal(kinds[1].articulation.link_mass[1], heavy.link_mass)
    assert len(pickle.loads(pickle.dumps(artix.Fleet([cart, heavy])))) == 2


# --- kind by kind -------------------------------------------------------------------------------


@pytest.mark.slow
def test_kinds_step_as_their_members_do() -> None:
    """With loop joints and PhysX's solvers."""
    arm, mechanism = robots.load("arm7"), small_mechanism()
    fleet = artix.Fleet([arm, mechanism, arm])
    state = fleet.random_state(jax.random.key(0))
    for solver in ("implicit", "pgs"):
        options = artix.SolverOptions(solver=solver)
        found = fleet.evaluate(artix.step, state, None, 0.01, options=options)
        for number, one in enumerate((arm, mechanism, arm)):
            wanted = artix.step(one, fleet.member_state(state, number), None, 0.01, options)
            own = fleet.member_state(found, number)
            for leaf, other in zip(jax.tree.leaves(own), jax.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(leaf, other, atol=1e-10)


@pytest.mark.slow
def test_kinds_land_on_the_ground_that_they_share() -> None:
    """Of two kinds with one sphere each, whose steps all members take on one ground."""
    ball, flail = (rolling(num_links) for num_links in (1, 2))
    fleet = artix.Fleet([flail, ball, ball, flail])
    state = fleet.neutral_state()
    velocity = jnp.array([1.0, 0.0, -2.0, 0.0, 0.0, 0.0])
    state = state.replace(
        root_pose=state.root_pose.at[:, 2].set(0.1), root_velocity=jnp.tile(velocity, (4, 1))
    )
    ground = artix.Ground.flat(friction=0.8)

    def on_ground(robot, *arguments):
        return artix.step(artix.Scene(robot, ground=ground), *arguments)

    found = fleet.evaluate(on_ground, state, None, 0.01)
    # A ball that rolls
    np.testing.assert_allclose(found.root_velocity[1], [5 / 7, 0, 0, 0, 50 / 7, 0], atol=1e-6)
    for number, one in enumerate((flail, ball, ball, flail)):
        wanted = on_ground(one, fleet.member_state(state, number), None, 0.01)
        own = fleet.member_state(found, number)
        for leaf, other in zip(jax.tree.leaves(own), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(leaf, other, atol=1e-10)


def rolling(num_links: int) -> artix.Articulation:
    """A solid ball of 1 kg and 0.1 m, and pendulums that hang on it."""
    builder = artix.ArticulationBuilder(fixed_base=False, name=f"ball_{num_links}")
    link = builder.add_link(mass=1.0, inertia=[0.004, 0.004, 0.004], name="ball")
    builder.add_geometry("ball", artix.Geometry.sphere(0.1))
    for k in range(1, num_links):
        joint = artix.Joint.revolute(artix.Axis.SWING1)
        link = builder.add_link(
            link, joint, mass=0.2, inertia=[0.001, 0.001, 0.001], name=f"bar_{k}"
        )
    return builder.build("float64")


@pytest.mark.slow
def test_gradients_kind_by_kind(members) -> None:
    fleet = artix.Fleet([members[2], members[3]])
    state = fleet.random_state(jax.random.key(1))

    def energy(position):
        return jnp.sum(
            fleet.evaluate(artix.potential_energy, state.replace(joint_position=position))
        )

    gradient = jax.grad(energy)(state.joint_position)
    for number, one in enumerate(members[2:4]):
        own = fleet.member_state(state, number)
        wanted = jax.grad(
            lambda q, one=one, own=own: artix.potential_energy(one, own.replace(joint_position=q))
        )
        n = one.topology.num_dofs
        np.testing.assert_allclose(gradient[number, :n], wanted(own.joint_position), atol=1e-11)
        assert not np.any(gradient[number, n:])


@pytest.mark.slow
def test_kernels_write_the_rows_of_their_members() -> None:
    """Nothing is gathered or joined, in whatever order members come; XLA's way gives the same
    numbers."""
    cart, pendulum = (
        robots.load(name).astype("float64") for name in ("cart_pole", "double_pendulum")
    )
    locked = artix.lock_joints(
        pendulum, artix.neutral_state(pendulum), [pendulum.topology.dof_names[1]]
    )
    heavy = cart.replace(link_mass=2 * cart.link_mass)
    order = [(cart, locked, heavy)[k] for k in np.random.default_rng(2).permutation(39) % 3]
    fleet = artix.Fleet(order)
    state = fleet.random_state(jax.random.key(4))
    force = jnp.asarray(np.random.default_rng(3).normal(size=(39, fleet.num_dofs)))
    rows = jax.jit(lambda state, force: fleet.evaluate(acceleration_and_poses, state, force))
    if kernels_can_run():
        text = rows.lower(state, force).compile().as_text()
        assert text.count("custom_call_target") == 1
        assert not re.search(r" (gather|concatenate|scatter)\(", text)
    with artix.use_kernels(False):
        wanted = artix.Fleet(order).evaluate(acceleration_and_poses, state, force)
    for got, want in zip(rows(state, force), wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-9)
    has_one_joint = np.array([member is locked for member in order])
    assert not np.any(rows(state, force)[0][has_one_joint, 1:])
    twice = jax.vmap(lambda force: fleet.evaluate(acceleration_and_poses, state, force)[0])(
        jnp.stack([force, -force])
    )
    np.testing.assert_allclose(twice[0], wanted[0], atol=1e-9)
    direction = jax.jvp(lambda force: rows(state, force), (force,), (force,))[1]
    step = fleet.evaluate(acceleration_and_poses, state, 2 * force)[0] - wanted[0]
    np.testing.assert_allclose(direction[0], step, atol=1e-9)  # Accelerations are affine in forces.
    assert not np.any(direction[1])
    linear = lambda force: fleet.evaluate(artix.joint_rate_from_velocity, state, force)  # noqa: E731
    velocity, rate = state.joint_velocity, linear(state.joint_velocity)
    (back,) = jax.linear_transpose(linear, velocity)(rate)
    np.testing.assert_allclose(jnp.vdot(back, velocity), jnp.vdot(rate, rate), rtol=1e-12)


def test_a_member_of_a_mixed_fleet_costs_what_it_costs_alone() -> None:
    members = [robots.load("arm7"), robots.load("quadruped")]
    fleet = artix.Fleet(members * 4)

    def of_fleet(_, state):
        return fleet.evaluate(artix.mass_matrix, state)

    together = artix.explain(of_fleet, members[0], fleet.neutral_state()).operations
    alone = [artix.explain(artix.mass_matrix, member).operations[0] for member in members]
    assert sorted(cost.operations for cost in together) == sorted(cost.operations for cost in alone)


@pytest.mark.slow
@pytest.mark.parametrize("by_kernels", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_kinds_have_results_of_their_own_size(by_kernels: bool) -> None:
    cart, pendulum = (
        robots.load(name).astype("float64") for name in ("cart_pole", "double_pendulum")
    )
    locked = artix.lock_joints(
        pendulum, artix.neutral_state(pendulum), [pendulum.topology.dof_names[1]]
    )
    fleet = artix.Fleet([(cart, locked)[k] for k in (0, 1, 1, 0, 1)])
    state = fleet.random_state(jax.random.key(4))
    force = jnp.asarray(np.random.default_rng(3).normal(size=(5, 2)))
    assert [members.tolist() for members in fleet.kinds] == [[0, 3], [1, 2, 4]]
    with artix.use_kernels(by_kernels):
        function = jax.jit(lambda *inputs: fleet.evaluate_kinds(names_and_accelerations, *inputs))
        found = function(state, force)
        # The rest is not evaluated
        (slope,) = jax.jit(lambda *inputs: list(function(*inputs)[1].values()))(state, force)
    if by_kernels and kernels_can_run():
        text = function.lower(state, force).compile().as_text()
        assert text.count("custom_call_target") == 1
        # Nothing is gathered, and what XLA computed itself would make a cheap call an asynchronous
        # one.
        assert not re.search(r" (gather|concatenate|scatter|slice|iota|fusion)\(", text)
    np.testing.assert_array_equal(slope, found[1][locked.topology.dof_names[0]])
    for one, members, of_kind in zip((cart, locked), fleet.kinds, found, strict=True):
        assert list(of_kind) == sorted(one.topology.dof_names)
        for number, member in enumerate(members.tolist()):
            own = fleet.member_state(state, member), force[member, : one.topology.num_dofs]
            for name, wanted in names_and_accelerations(one, *own).items():
                np.testing.assert_allclose(of_kind[name][number], wanted, atol=1e-11)
    with pytest.raises(ValueError, match=r"return different structures.*evaluate_kinds"):
        fleet.evaluate(names_and_accelerations, state, force)
    (alone,) = artix.Fleet([cart, cart]).evaluate_kinds(
        artix.mass_matrix, artix.Fleet([cart, cart]).neutral_state()
    )
    np.testing.assert_allclose(
        alone[0], artix.mass_matrix(cart, artix.neutral_state(cart)), atol=1e-12
    )


def names_and_accelerations(articulation, state, force):
    return dict(
        zip(
            articulation.topology.dof_names,
            artix.forward_dynamics(articulation, state, force),
            strict=True,
        )
    )


def acceleration_and_poses(articulation, state, force):
    return artix.forward_dynamics(articulation, state, force), artix.frame_pose(articulation, state)


def kernels_can_run() -> bool:
    return kernels_available() is None and kernels_are_on()


def test_a_new_member_is_evaluated_by_its_kind(members) -> None:
    """Whether it is of a kind that the fleet has or not; the fleet grows and shrinks with its
    largest members."""
    small, large = members[4], members[2]
    fleet = artix.Fleet([small, small])
    for place, new, wanted in (
        (0, large, large),
        (1, large, large),
        (0, small, large),
        (1, small, small),
    ):
        fleet = fleet.replace_member(place, new)
        assert (fleet.num_links, fleet.nv) == (wanted.topology.num_links, wanted.topology.nv)
        state = fleet.random_state(jax.random.key(0))
        found = fleet.evaluate(artix.mass_matrix, state)
        assert found.shape == (2, fleet.nv, fleet.nv)
        for number in range(2):
            wanted = artix.mass_matrix(fleet.member(number), fleet.member_state(state, number))
            np.testing.assert_allclose(
                found[number, : len(wanted), : len(wanted)], wanted, atol=1e-12
            )


@pytest.mark.slow
def test_only_new_kinds_are_compiled(monkeypatch) -> None:
    """Twenty kinds, more than trees as data once allowed; then one of them is replaced by a robot
    of another kind."""
    if not kernels_can_run():
        pytest.skip("there are no kernels on this machine")
    compiled, scalars_of = [], compilation.scalars_of
    monkeypatch.setattr(
        compilation, "scalars_of", lambda *given: compiled.append(1) or scalars_of(*given)
    )
    parents = itertools.islice(itertools.product([0], range(2), range(3), range(4)), 21)
    robots = [tree_of(["revolute_twist"] * 4, each, fixed_base=True, seed=100) for each in parents]
    assert len({robot.topology for robot in robots}) == 21
    fleet = artix.Fleet(robots[:20])
    state = fleet.random_state(jax.random.key(0))
    fleet.evaluate(height_and_names, state)
    assert len(compiled) == 20
    fleet = fleet.replace_member(3, robots[20])
    found = fleet.evaluate(height_and_names, state)
    assert len(compiled) == 21
    for number in range(20):
        wanted = height_and_names(fleet.member(number), fleet.member_state(state, number))
        np.testing.assert_allclose(found[number], wanted, atol=1e-12)


def height_and_names(articulation, state):
    """A function of a user, who reads the topology as it pleases."""
    height = artix.frame_pose(articulation, state)[-1, 2]
    return height + len(articulation.topology.dof_names) * jnp.sum(state.joint_position**2)


@pytest.mark.slow
def test_nothing_that_is_traced_is_kept() -> None:
    fleet = artix.Fleet([robots.load("cart_pole"), robots.load("double_pendulum")])
    state = fleet.random_state(jax.random.key(0))
    gc.freeze()  # JAX searches all objects, after each trace.
    with jax.checking_leaks():
        fleet.evaluate(lambda *robot: artix.mass_matrix(*robot), state)
        fleet.evaluate_kinds(lambda *robot: artix.kinetic_energy(*robot), state)
    gc.unfreeze()


def test_members_that_leave_are_not_kept() -> None:
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    fleet = artix.Fleet([cart, cart, pendulum])
    gc.freeze()  # What other tests have left need not be searched.
    guests = [pendulum.replace(gravity=scale * pendulum.gravity) for scale in (1.0, 2.0, 3.0)]
    references = [weakref.ref(guest) for guest in guests]
    while guests:
        fleet = fleet.replace_member(0, guests.pop())
    gc.collect()
    gc.unfreeze()
    assert [reference() is None for reference in references] == [False, True, True]
    assert fleet.member(0) is references[0]()
    assert fleet.member(1) is cart


@pytest.mark.slow
def test_each_device_evaluates_its_members_kind_by_kind(members) -> None:
    if len(jax.devices("cpu")) < 2:
        pytest.skip("needs several devices; tests/conftest.py asks XLA for them")
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("members",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("members"))
    heavy = members[3].replace(link_mass=2 * members[3].link_mass)
    fleet = artix.Fleet([members[2], members[3], members[2], heavy])
    sharded = fleet.shard(sharding)
    state = fleet.random_state(jax.random.key(3))
    on_devices = jax.device_put(state, sharding)
    for function, given in (
        (artix.mass_matrix, ()),
        (artix.forward_dynamics, (jnp.ones((4, fleet.nv)),)),
    ):
        found = sharded.evaluate(function, on_devices, *given)
        assert found.sharding.is_equivalent_to(sharding, found.ndim)
        np.testing.assert_allclose(found, fleet.evaluate(function, state, *given), atol=1e-12)
    for of_kind, wanted in zip(
        sharded.evaluate_kinds(artix.frame_pose, on_devices),
        fleet.evaluate_kinds(artix.frame_pose, state),
        strict=True,
    ):
        np.testing.assert_allclose(of_kind, wanted, atol=1e-12)
    compiled = sharded._compiled[artix.mass_matrix, (), True]
    text = compiled.func.lower(*compiled.args, on_devices).compile().as_text()
    assert not re.search("all-gather|all-reduce|collective-permute|all-to-all", text)
    with pytest.raises(ValueError, match="would hold different kinds"):
        sharded.replace_member(0, members[3])
    sharded.replace_member(0, members[2])


def test_layouts_and_paddings_say_what_took_their_place(members) -> None:
    with pytest.warns(DeprecationWarning, match="layout='kinds' is deprecated"):
        artix.Fleet(members[:1], layout="kinds")
    with pytest.raises(
        ValueError, match="layout='padded' is not supported: trees are no longer data"
    ):
        artix.Fleet(members, layout="padded")
    with pytest.raises(TypeError, match="padding is no longer an argument"):
        artix.Fleet(members, padding=12)
    fleet = artix.Fleet(members)
    with pytest.raises(AttributeError, match=r"no longer have 'padding': use fleet\.num_links"):
        _ = fleet.padding
    assert not hasattr(fleet, "layout")
    for name in ("Padding", "PaddedTopology"):
        with pytest.raises(AttributeError, match=f"artix.* {name}.*kind by kind"):
            getattr(artix, name)
        with pytest.raises(AttributeError, match=f"artix.model.* {name}.*kind by kind"):
            getattr(artix.model, name)
    with pytest.raises(AttributeError, match="module 'artix' has no attribute 'Paddings'"):
        _ = artix.Paddings


def test_results_and_arguments_of_other_sizes_are_refused(members) -> None:
    fleet = artix.Fleet(members[2:4])
    with pytest.raises(ValueError, match="axis 0 of result 0 has the lengths"):
        fleet.evaluate(odd_sizes, fleet.neutral_state())
    with pytest.raises(ValueError, match="acceleration"):
        fleet.evaluate(artix.inverse_dynamics, fleet.neutral_state(), jnp.zeros((2, 3)))


def small_mechanism() -> artix.Articulation:
    """A floating robot of which a loop joint holds the tip to the world."""
    builder = artix.ArticulationBuilder(fixed_base=False, name="mechanism")
    base = builder.add_link(mass=2.0, inertia=[0.1, 0.1, 0.1], name="base")
    pose = [0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    tip = base
    for k in range(3):
        joint = artix.Joint.revolute(artix.Axis.SWING1, parent_pose=pose)
        tip = builder.add_link(tip, joint, mass=1.0, inertia=[0.1, 0.1, 0.1], name=f"link_{k}")
    builder.add_loop_joint(
        artix.LoopJoint(name="latch", link_a=None, link_b="link_2", type="spherical")
    )
    return builder.build("float64")


def odd_sizes(articulation, state):
    return jnp.zeros(2 * articulation.topology.num_dofs + 1)
