"""Fleets: one program for different trees. Results equal those of the members, and padding is exactly zero."""

from __future__ import annotations

import dataclasses
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
from artix.evaluation.compilation import kernels_are_on
from artix.evaluation.kernels import available as kernels_available
from artix.fleet.argument_axes import MAX_TRIALS
from artix.fleet.kinds import kinds_of
from tests.support.models import random_tree, tree_of

FUNCTIONS = {
    "mass_matrix": artix.mass_matrix,
    "bias_force": artix.bias_force,
    "coriolis_compensation": artix.coriolis_compensation,
    "gravity_compensation": artix.gravity_compensation,
    "link_poses": artix.link_poses,
    "link_velocities": artix.link_velocities,
    "dense_jacobian": artix.dense_jacobian,
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
        "link_accelerations": artix.link_accelerations(articulation, state, acceleration),
        "generalized_external_force": artix.generalized_external_force(articulation, state, wrench),
        "generalized_velocity": artix.generalized_velocity(articulation, state),
        "with_generalized_velocity": artix.generalized_velocity(
            articulation, artix.with_generalized_velocity(articulation, state, acceleration)
        ),
        "integrate": artix.integrate(articulation, state, acceleration),
        "difference": artix.difference(articulation, state, artix.integrate(articulation, state, acceleration)),
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


def place(padded: tuple[int, ...], alone: tuple[int, ...], topology: artix.Topology, tree: artix.PaddedTopology):
    """Where one member's own result lies inside its padded block, axis by axis, given the shapes of both.

    An axis as long as the member's own is not padded: the seven of a pose may also be the number of a fleet's DOFs.
    """
    skip = tree.num_base_dofs - topology.num_base_dofs
    own = (
        (tree.nv, skip, skip + topology.nv),
        (tree.num_dofs, 0, topology.num_dofs),
        (tree.num_links, 0, topology.num_links),
        (6 * tree.num_links, skip, 6 * topology.num_links),
        (7 + tree.num_dofs, 7 if topology.fixed_base else 0, 7 + topology.num_dofs),
    )

    def axis(length: int, wanted: int) -> slice:
        if length == wanted:
            return slice(None)
        (found,) = {(low, high) for size, low, high in own if size == length and high - low == wanted}
        return slice(*found)

    return tuple(map(axis, padded, alone))


def assert_equal_inside(name, padded, wanted, topology, tree, tolerance) -> None:
    padded, wanted = np.asarray(padded), np.asarray(wanted)
    where = place(padded.shape, wanted.shape, topology, tree)
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    assert padded[where].shape == wanted.shape, name
    assert np.max(np.abs(padded[where] - wanted), initial=0.0) <= tolerance * scale, (name, topology)
    rest = padded.copy()
    rest[where] = 0
    assert not np.any(rest), (name, "padded entries must be exactly zero", topology)


@pytest.fixture(scope="module")
def members() -> list[artix.Articulation]:
    """Fixed and floating trees of every joint kind and size, of several shapes that cannot be mistaken for each other."""
    return [
        random_tree(seed, links - 1, fixed_base=fixed)
        for seed, links, fixed in ((1, 9, False), (2, 14, True), (3, 5, False), (4, 2, True), (5, 1, False))
    ]


@pytest.fixture(scope="module")
def fleet(members) -> artix.Fleet:
    return artix.Fleet([members[i] for i in (0, 1, 2, 3, 4, 2)], layout="padded")


@pytest.mark.slow
def test_a_fleet_equals_its_members(fleet, members) -> None:
    state = fleet.random_state(jax.random.key(0))
    found = fleet.evaluate(everything, state)
    tree = fleet.articulation.topology
    for member, kind in enumerate((0, 1, 2, 3, 4, 2)):
        wanted = jax.jit(everything)(members[kind], fleet.member_state(state, member))
        for name in FUNCTIONS:
            for leaf, alone in zip(jax.tree.leaves(found[name]), jax.tree.leaves(wanted[name]), strict=True):
                assert_equal_inside(name, leaf[member], alone, members[kind].topology, tree, 1e-12)


@pytest.mark.slow
def test_functions_with_arguments(fleet, members) -> None:
    state = fleet.random_state(jax.random.key(1))
    tree, rng = fleet.articulation.topology, np.random.default_rng(0)
    # Entries of padded links and DOFs, and of the root of a fixed base, must not matter: they are random too.
    acceleration = jnp.asarray(rng.normal(size=(6, tree.nv)))
    wrench = jnp.asarray(rng.normal(size=(6, tree.num_links, 6)))
    found = fleet.evaluate(with_arguments, state, acceleration, wrench)
    for member, kind in enumerate((0, 1, 2, 3, 4, 2)):
        topology = members[kind].topology
        skip = tree.num_base_dofs - topology.num_base_dofs
        own = acceleration[member, skip : skip + topology.nv], wrench[member, : topology.num_links]
        wanted = jax.jit(with_arguments)(members[kind], fleet.member_state(state, member), *own)
        for name, value in found.items():
            if name == "integrate":
                value = fleet.member_state(value, member)
                for leaf, alone in zip(jax.tree.leaves(value), jax.tree.leaves(wanted[name]), strict=True):
                    np.testing.assert_allclose(leaf, alone, atol=1e-12)
            else:
                where = place(value[member].shape, wanted[name].shape, topology, tree)
                np.testing.assert_allclose(value[member][where], wanted[name], atol=1e-11, rtol=1e-11)


@pytest.mark.slow
def test_jacobians_of_configurations(members) -> None:
    pair = artix.Fleet(members[2:4], layout="padded")
    tree = pair.articulation.topology
    state, there = (pair.random_state(jax.random.key(k)) for k in range(2))
    displacement = jnp.asarray(np.random.default_rng(0).normal(size=(2, tree.nv)))
    found = pair.evaluate(on_the_manifold, state, there, displacement)
    for member, one in enumerate(members[2:4]):
        skip = tree.num_base_dofs - one.topology.num_base_dofs
        own = (pair.member_state(x, member) for x in (state, there))
        wanted = jax.jit(on_the_manifold)(one, *own, displacement[member, skip : skip + one.topology.nv])
        for name, leaves in found.items():
            for leaf, alone in zip(jax.tree.leaves(leaves), jax.tree.leaves(wanted[name]), strict=True):
                assert_equal_inside(name, leaf[member], alone, one.topology, tree, 1e-12)


def test_a_new_member_that_fits_needs_no_compilation() -> None:
    calls = []

    def counted(articulation, state):
        calls.append(1)
        return artix.gravity_compensation(articulation, state)

    new = random_tree(9, 5, fixed_base=False)
    padding = artix.Padding.covering([SMALL.topology, new.topology])
    fleet = artix.Fleet([SMALL, SMALL], padding=dataclasses.replace(padding, parents=None))
    fleet.evaluate(counted, fleet.neutral_state())
    other = fleet.replace_member(1, new)
    state = other.random_state(jax.random.key(0))
    result = other.evaluate(counted, state)
    assert len(calls) == 1
    wanted = artix.gravity_compensation(new, other.member_state(state, 1))
    np.testing.assert_allclose(result[1, : len(wanted)], wanted, atol=1e-12)


def test_a_new_member_whose_links_have_other_parents_is_refused() -> None:
    chain, fork, other = (
        tree_of(["revolute_twist"] * 3, parents, fixed_base=False) for parents in ([0, 1, 2], [0, 1, 1], [0, 0, 1])
    )
    message = r"link 2 \('link_2'\) has the parent 0, and the padding admits 1; .*parents=None"
    with pytest.raises(ValueError, match=message):
        artix.Fleet([chain, fork]).replace_member(1, other)


def test_what_is_no_padding_is_refused_by_name() -> None:
    arm = robots.load("arm7")
    with pytest.raises(TypeError, match=r"expected topologies, found Articulation; .*arm\.topology"):
        artix.Padding.covering([arm])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"padding must be an artix\.Padding; found 12"):
        artix.Fleet([arm], padding=12)  # type: ignore[arg-type]


def chains(**options) -> artix.Fleet:
    """Chains of one and of three revolute joints."""
    return artix.Fleet([tree_of(["revolute_twist"] * n, range(n), fixed_base=True) for n in (1, 3)], **options)


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
    np.testing.assert_array_equal(chains(layout="padded").evaluate(last, states, {"place": goals}), [3, 6])
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


@pytest.mark.parametrize("name", ["integrate", "difference", "generalized_velocity", "with_generalized_velocity"])
def test_entries_that_a_member_lacks_are_ignored_and_zero(name: str) -> None:
    fleets = chains(), chains(layout="padded")
    states = fleets[0].random_state(jax.random.key(0))
    noise = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)))
    full = states.replace(joint_position=noise, joint_velocity=noise)
    given = {
        "integrate": (states, noise),
        "difference": (states, full),
        "generalized_velocity": (full,),
        "with_generalized_velocity": (states, noise),
    }[name]
    by_kind, padded = (fleet.evaluate(getattr(artix, name), *given) for fleet in fleets)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-12), by_kind, padded)


@pytest.mark.parametrize("solver", ["implicit", pytest.param("rk4", marks=pytest.mark.slow)])
def test_steps_ignore_entries_that_a_member_lacks(solver: str) -> None:
    noise = iter(jnp.asarray(np.random.default_rng(0).normal(size=(5, 2, 3))))
    fleets = chains(), chains(layout="padded")
    states = fleets[0].neutral_state().replace(joint_position=next(noise), joint_velocity=next(noise))
    control = artix.Control(next(noise), next(noise), next(noise))
    options = artix.SolverOptions(solver=solver)
    by_kind, padded = (fleet.evaluate(artix.step, states, control, 0.01, options=options) for fleet in fleets)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-12), by_kind, padded)


def test_a_padded_fleet_of_bodies_without_joints() -> None:
    builder = artix.ArticulationBuilder(name="cube")
    builder.add_link(mass=2.0, inertia=(1.0, 2.0, 2.0))
    fleet = artix.Fleet([builder.build()] * 2, layout="padded")
    found = fleet.evaluate(artix.mass_matrix, fleet.neutral_state())
    np.testing.assert_allclose(found, [np.diag([2, 2, 2, 1, 2, 2])] * 2)
    falling = fleet.evaluate(artix.step, fleet.neutral_state(), None, 0.1)
    np.testing.assert_allclose(falling.root_velocity[:, 2], -0.981, rtol=1e-6)


def test_states_are_stacked_where_they_are_traced() -> None:
    fleet = chains()
    one, three = (artix.neutral_state(fleet.member(k)) for k in range(2))
    stacked = jax.jit(lambda q: fleet.stack_states([one.replace(joint_position=q), three]))(jnp.ones(1))
    np.testing.assert_array_equal(stacked.joint_position, [[1, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match=r"state 0: joint_velocity must have shape \(1,\) for 'tree'; found \(3,\)"):
        fleet.stack_states([one.replace(joint_velocity=jnp.zeros(3)), three])


def test_paddings_that_admit_no_parent_are_refused() -> None:
    for parents, message in (
        (((0,),), "parents must list those of 2 links, all but the root; found 1"),
        (((0,), ()), r"parents of link 2 must be among links 1 to 1 \(reach=1\)"),
        (((0,), (0, 1)), "parents of link 2 must be among links 1 to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            artix.Padding(links=3, dofs=2, reach=1, parents=parents)


def test_paddings_with_wrong_sizes_are_refused_and_lists_are_welcome() -> None:
    for wrong, message in (
        ({"cylinders": -1}, "cylinders must be a whole number, not negative; found -1"),
        ({"dofs": 2.5}, "dofs must be a whole number, not negative; found 2.5"),
        ({"hull_points": 8}, r"hull_points must be .* such as \(8, 2, 1\); found 8"),
        ({"hull_points": (8, 0)}, r"hull_points must be .* found \(8, 0\)"),
        ({"hull_points": (1, 8)}, r"hull_points must be .* in descending order, .* found \(1, 8\)"),
        ({"hull_points": (8.0,)}, r"hull_points must be .* whole numbers .* found \(8\.0,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            artix.Padding(**({"links": 2, "dofs": 2, "reach": 1} | wrong))
    lists = artix.Padding(links=2, dofs=1, reach=1, hull_points=[8, 1], parents=[[0]])  # type: ignore[arg-type]
    assert lists == artix.Padding(links=2, dofs=1, reach=1, hull_points=(8, 1), parents=((0,),))
    assert hash(lists)


def test_one_topology_stays_on_the_static_path() -> None:
    arm = robots.load("arm7")
    heavy = arm.replace(link_mass=2 * arm.link_mass)
    fleet = artix.Fleet([arm, heavy, arm])
    assert fleet.padding is None
    assert isinstance(fleet.articulation.topology, artix.Topology)
    state = fleet.neutral_state()
    gravity = fleet.evaluate(artix.gravity_compensation, state)
    np.testing.assert_allclose(gravity[1], 2 * gravity[0], rtol=1e-12)
    np.testing.assert_array_equal(gravity[0], gravity[2])
    padded = artix.Fleet([arm, heavy], padding=artix.Padding.of(arm.topology))
    again = padded.evaluate(artix.gravity_compensation, padded.neutral_state())
    np.testing.assert_allclose(again, gravity[:2], atol=1e-12)


def test_states_are_stacked_and_taken_apart(fleet, members) -> None:
    kinds = (0, 1, 2, 3, 4, 2)
    states = [artix.random_state(members[k], jax.random.key(i)) for i, k in enumerate(kinds)]
    stacked = fleet.stack_states(states)
    for member, state in enumerate(states):
        for leaf, own in zip(jax.tree.leaves(fleet.member_state(stacked, member)), jax.tree.leaves(state), strict=True):
            np.testing.assert_array_equal(leaf, own)


@pytest.mark.slow
def test_gradients_reach_the_parameters_of_each_member(fleet) -> None:
    state = fleet.random_state(jax.random.key(2))

    def energy(mass):
        articulation = fleet.articulation.replace(link_mass=mass)
        return jnp.sum(jax.vmap(artix.kinetic_energy)(articulation, state))

    mass = fleet.articulation.link_mass
    gradient = jax.grad(energy)(mass)
    assert np.all(np.isfinite(gradient))
    step = 1e-6
    for member, link in ((0, 3), (1, 5), (2, 0)):
        up, down = (energy(mass.at[member, link].add(sign * step)) for sign in (1, -1))
        np.testing.assert_allclose(gradient[member, link], (up - down) / (2 * step), rtol=1e-6, atol=1e-8)


def test_refusals(fleet, members) -> None:
    with pytest.raises(ValueError, match="at least one"):
        artix.Fleet([])
    with pytest.raises(ValueError, match="one dtype"):
        artix.Fleet([members[0], members[1].astype(jnp.float32)])
    with pytest.raises(ValueError, match="single articulations"):
        artix.Fleet([jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), members[0])])
    big = random_tree(7, 29, fixed_base=True)
    with pytest.raises(ValueError, match=r"does not fit .* links=30 \(padding has 14\)"):
        fleet.replace_member(0, big)
    with pytest.raises(IndexError, match="no member 6"):
        fleet.replace_member(6, members[0])
    alone = artix.Fleet([members[0], members[0]])
    with pytest.raises(ValueError, match="another topology"):
        alone.replace_member(0, members[1])
    with pytest.raises(ValueError, match="expected 6 states"):
        fleet.stack_states([artix.neutral_state(members[0])])
    with pytest.raises(KeyError, match="members of a fleet name their links differently"):
        fleet.evaluate(functools.partial(artix.frame_pose, frame="base"), fleet.neutral_state())


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    fleet = artix.Fleet([cart, pendulum] * 3)
    state = fleet.neutral_state()
    few = jax.tree.map(lambda leaf: leaf[:4], state)
    wide = state.replace(joint_position=jnp.zeros((6, 3)))
    given = {
        r"state.root_pose: expected shape \(6, 7\).*found \(4, 7\)": (artix.mass_matrix, (few,), {}),
        r"state.joint_position: expected shape \(6, 2\).*found \(6, 3\)": (artix.mass_matrix, (wide,), {}),
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
        r"argument 1: expected an array or a number, found str.*by keyword": (artix.frame_pose, (state, "tip"), {}),
        r"static and must be hashable.*functools.partial": (artix.step, (state, None), {"dt": jnp.full(6, 0.01)}),
    }
    for layout in ("kinds", "padded"):
        other = artix.Fleet([cart, pendulum] * 3, layout=layout)
        for message, (function, arguments, options) in given.items():
            with pytest.raises((TypeError, ValueError), match=message):
                other.evaluate(function, *arguments, **options)
    with pytest.raises(TypeError, match="found a single one"):
        artix.Fleet(cart)
    with pytest.raises(TypeError, match="member 1: expected an Articulation, found str"):
        artix.Fleet([cart, "quadruped"])
    with pytest.raises(ValueError, match=r"one dtype; found float32 \('cart_pole'\), float64"):
        fleet.replace_member(1, cart.astype("float32"))
    for number in (-1, 6):
        with pytest.raises(IndexError, match=f"no member {number}"):
            fleet.member_state(state, number)


@pytest.mark.parametrize("layout", ["kinds", "padded"])
def test_gradients_by_parameters_of_which_a_fleet_is_made(layout: str) -> None:
    """Members made inside the differentiated function; a single kind and several."""
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    for others in ([cart, pendulum], [pendulum]):
        states = artix.Fleet([*others, pendulum]).random_state(jax.random.key(0))

        def energy(mass, others=others, states=states):
            fleet = artix.Fleet([*others, pendulum.replace(link_mass=mass)], layout=layout)
            return jnp.sum(fleet.evaluate(artix.kinetic_energy, states))

        last = artix.Fleet([*others, pendulum]).member_state(states, len(others))
        alone = jax.grad(lambda mass, last=last: artix.kinetic_energy(pendulum.replace(link_mass=mass), last))
        found = jax.jit(jax.grad(energy))(pendulum.link_mass)
        assert np.linalg.norm(found) > 0.01
        np.testing.assert_allclose(found, alone(pendulum.link_mass), rtol=1e-12)


def test_parameters_that_members_share_are_constants() -> None:
    """Only masses that differ are operands of a kind's program, so it has few operations more than a single robot's."""
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    heavy = pendulum.replace(link_mass=2 * pendulum.link_mass)
    kinds = kinds_of([cart, pendulum, heavy], np.array([0, 1, 2, 1]))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(pendulum)]
    assert not any(kinds[0].differs)
    assert [path for path, flag in zip(paths, kinds[1].differs, strict=True) if flag] == [".link_mass"]
    np.testing.assert_array_equal(kinds[1].articulation.link_mass[1], heavy.link_mass)
    assert len(pickle.loads(pickle.dumps(artix.Fleet([cart, heavy])))) == 2


def test_sharding_over_devices_needs_no_communication(fleet) -> None:
    devices = jax.devices("cpu")
    if len(devices) < 2:
        pytest.skip("needs several devices; tests/conftest.py asks XLA for them")
    mesh = jax.sharding.Mesh(np.array(devices[:2]), ("members",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("members"))
    sharded, state = fleet.shard(sharding), jax.device_put(fleet.random_state(jax.random.key(3)), sharding)
    compiled = jax.jit(jax.vmap(artix.mass_matrix)).lower(sharded.articulation, state).compile()
    text = compiled.as_text()
    assert not any(word in text for word in ("all-gather", "all-reduce", "collective-permute", "all-to-all"))
    wanted = fleet.evaluate(artix.mass_matrix, fleet.random_state(jax.random.key(3)))
    np.testing.assert_allclose(compiled(sharded.articulation, state), wanted, atol=1e-12)


#: The smaller member below: its links' numbers are links of both.
SMALL = random_tree(2, 4, fixed_base=True)


def quantities(articulation, state, acceleration) -> dict:
    """What Pinocchio's ``Data`` holds; not articulated-body inertias, which need a tree that is known."""
    a, s, links = articulation, state, articulation.topology.num_links
    regressor = artix.joint_torque_regressor(a, s, acceleration)
    names = SMALL.topology.link_names
    held = [
        artix.Constraint(frame_a=names[3], type="weld", rows=(0, 2, 4)),
        artix.Constraint(frame_a=names[1], frame_b=names[2], rows=(1,)),
    ]
    held = artix.Constraints.of(SMALL, held)
    return {
        "joint_placements": artix.joint_placements(a, s),
        "link_frame_accelerations": artix.link_frame_accelerations(a, s, acceleration, axes="world"),
        "joint_jacobians_second_rate": artix.joint_jacobians_second_rate(a, s, acceleration),
        "joint_motion_derivatives": artix.joint_motion_derivatives(a, s, acceleration),
        "subtree_center_of_mass_jacobian": artix.subtree_center_of_mass_jacobian(a, s, 1),
        "composite_spatial_inertias": artix.composite_spatial_inertias(a, s),
        "coriolis_matrix": artix.coriolis_matrix(a, s),
        "joint_wrenches": artix.joint_wrenches(a, s, acceleration),
        "centroidal_momentum_matrix_rate": artix.centroidal_momentum_matrix_rate(a, s),
        "joint_torque_regressor": regressor.reshape(-1, links, 10),
        "constraint_jacobian": artix.constraint_jacobian(a, s, held),
        "operational_space_inertia": artix.operational_space_inertia(a, s, held, damping=0.1),
    }


def test_what_needs_one_topology_says_so() -> None:
    """Nothing is compiled: padded trees are refused while tracing."""
    members = [random_tree(1, 8, fixed_base=False), SMALL]
    fleet = artix.Fleet(members, layout="padded")
    state, force = fleet.random_state(jax.random.key(0)), jnp.zeros((2, fleet.articulation.topology.nv))
    frame = artix.Constraint(frame_a=members[0].topology.link_names[3])
    held = artix.Constraints.of(members[0], [frame])
    refused = {
        "articulated-body inertias": lambda a, s, x: artix.articulated_body_inertias(a, s),
        "padded fleet with spherical joints": lambda a, s, x: artix.constrained_forward_dynamics(a, s, x, held),
        "log-Cholesky": lambda a, s, x: artix.log_cholesky_from_articulation(a),
        "mimic_map needs a static topology": lambda a, s, x: artix.mimic_map(a).matrix,
        "make constraints of one": lambda a, s, x: artix.Constraints.of(a, [frame]),
    }
    for message, function in refused.items():
        with pytest.raises((TypeError, ValueError), match=message):
            fleet.evaluate(function, state, force)


@pytest.mark.slow
def test_quantities_of_a_fleet() -> None:
    """A member with every array as large as the padding's and a smaller one with the other kind of base."""
    members = [random_tree(1, 8, fixed_base=False), SMALL]
    fleet = artix.Fleet(members, layout="padded")
    state, tree = fleet.random_state(jax.random.key(4)), fleet.articulation.topology
    acceleration = jax.random.normal(jax.random.key(5), (2, tree.nv))
    own = [acceleration[0], acceleration[1, 6 : 6 + members[1].topology.nv]]
    acceleration = acceleration.at[1].set(jnp.zeros(tree.nv).at[6 : 6 + len(own[1])].set(own[1]))
    found = fleet.evaluate(quantities, state, acceleration)
    for k, member in enumerate(members):
        wanted = jax.jit(quantities)(member, fleet.member_state(state, k), own[k])
        for name, value in wanted.items():
            for leaf, alone in zip(jax.tree.leaves(found[name]), jax.tree.leaves(value), strict=True):
                assert_equal_inside(name, leaf[k], alone, member.topology, tree, 1e-12)


# --- kind by kind ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_kinds_equal_padded_trees(members) -> None:
    heavy = members[3].replace(link_mass=2 * members[3].link_mass)
    several = [members[3], members[2], heavy, members[2], members[3]]
    by_kind, padded = artix.Fleet(several), artix.Fleet(several, layout="padded")
    assert by_kind.layout == "kinds"
    state, rng = padded.random_state(jax.random.key(0)), np.random.default_rng(0)
    tree = padded.articulation.topology
    arguments = jnp.asarray(rng.normal(size=(5, tree.nv))), jnp.asarray(rng.normal(size=(5, tree.num_links, 6)))
    for function, given in ((everything, ()), (with_arguments, arguments)):
        found, wanted = (fleet.evaluate(function, state, *given) for fleet in (by_kind, padded))
        states = {name: found.pop(name) for name in list(found) if name == "integrate"}
        for number, (name, value) in itertools.product(range(5), states.items()):
            own, other = (by_kind.member_state(x, number) for x in (value, wanted[name]))
            for leaf, want in zip(jax.tree.leaves(own), jax.tree.leaves(other), strict=True):
                np.testing.assert_allclose(leaf, want, atol=1e-11)
        alone = []
        for number, one in enumerate(several):
            skip = tree.num_base_dofs - one.topology.num_base_dofs
            ranges = slice(skip, skip + one.topology.nv), slice(one.topology.num_links)
            own = (x[number, of_member] for x, of_member in zip(given, ranges, strict=False))
            alone.append(jax.eval_shape(function, one, padded.member_state(state, number), *own))
        for number, name in itertools.product(range(5), found):
            for leaf, other, own in zip(
                *(jax.tree.leaves(x[name]) for x in (found, wanted, alone[number])), strict=True
            ):
                where = place(leaf[number].shape, own.shape, several[number].topology, tree)
                np.testing.assert_allclose(leaf[number][where], other[number][where], atol=1e-11, err_msg=name)
                assert not np.any(np.delete(np.asarray(leaf[number]).ravel(), _flat(where, leaf[number].shape))), name


def _flat(where: tuple[slice, ...], shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape)[where].ravel()


@pytest.mark.slow
def test_padded_chains_step_as_their_members_do() -> None:
    """Of chains alone, a body can have only one parent, which is known although the trees are data."""

    def chain(links: int) -> artix.Articulation:
        builder, above = artix.ArticulationBuilder(), None
        for _ in range(links):
            joint = (
                None if above is None else artix.Joint.revolute(artix.Axis.TWIST, parent_pose=(0, 0, 0.3, 0, 0, 0, 1))
            )
            above = builder.add_link(above, joint, mass=0.7, inertia=(0.01, 0.02, 0.02))
        return builder.build("float64")

    fleet = artix.Fleet([chain(2), chain(3), chain(4)], layout="padded")
    assert isinstance(fleet.articulation.topology.body_parent, np.ndarray)
    states = fleet.random_state(jax.random.key(0))
    stepped = fleet.evaluate(artix.step, states, None, 0.005)
    for k, links in enumerate((2, 3, 4)):
        state = fleet.member_state(states, k)
        own = artix.step(chain(links), state, None, 0.005)
        np.testing.assert_allclose(stepped.joint_velocity[k, : links - 1], own.joint_velocity, atol=1e-12)


@pytest.mark.slow
def test_kinds_step_as_their_members_do() -> None:
    """With tendons, loop joints and PhysX's solvers, which trees that are data do not have."""
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
    state = state.replace(root_pose=state.root_pose.at[:, 2].set(0.1), root_velocity=jnp.tile(velocity, (4, 1)))
    on_ground = functools.partial(artix.step, ground=artix.Ground.flat(friction=0.8))
    found = fleet.evaluate(on_ground, state, None, 0.01)
    np.testing.assert_allclose(found.root_velocity[1], [5 / 7, 0, 0, 0, 50 / 7, 0], atol=1e-6)  # a ball that rolls
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
        link = builder.add_link(link, joint, mass=0.2, inertia=[0.001, 0.001, 0.001], name=f"bar_{k}")
    return builder.build("float64")


def test_gradients_kind_by_kind(members) -> None:
    fleet = artix.Fleet([members[2], members[3]])
    state = fleet.random_state(jax.random.key(1))

    def energy(position):
        return jnp.sum(fleet.evaluate(artix.potential_energy, state.replace(joint_position=position)))

    gradient = jax.grad(energy)(state.joint_position)
    for number, one in enumerate(members[2:4]):
        own = fleet.member_state(state, number)
        wanted = jax.grad(lambda q, one=one, own=own: artix.potential_energy(one, own.replace(joint_position=q)))
        n = one.topology.num_dofs
        np.testing.assert_allclose(gradient[number, :n], wanted(own.joint_position), atol=1e-11)
        assert not np.any(gradient[number, n:])


@pytest.mark.slow
def test_kernels_write_the_rows_of_their_members() -> None:
    """Nothing is gathered or joined, in whatever order members come; XLA's way gives the same numbers."""
    cart, pendulum = (robots.load(name).astype("float64") for name in ("cart_pole", "double_pendulum"))
    locked = artix.lock_joints(pendulum, artix.neutral_state(pendulum), [pendulum.topology.dof_names[1]])
    heavy = cart.replace(link_mass=2 * cart.link_mass)
    order = [(cart, locked, heavy)[k] for k in np.random.default_rng(2).permutation(39) % 3]
    fleet = artix.Fleet(order)
    state = fleet.random_state(jax.random.key(4))
    force = jnp.asarray(np.random.default_rng(3).normal(size=(39, fleet.padding.dofs)))
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
    twice = jax.vmap(lambda force: fleet.evaluate(acceleration_and_poses, state, force)[0])(jnp.stack([force, -force]))
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
    """Padded to a common tree, the mass matrices of these two need six times their mean."""
    members = [robots.load("arm7"), robots.load("quadruped")]
    fleet = artix.Fleet(members * 4)

    def of_fleet(_, state):
        return fleet.evaluate(artix.mass_matrix, state)

    together = artix.explain(of_fleet, members[0], fleet.neutral_state()).operations
    alone = [artix.explain(artix.mass_matrix, member).operations[0] for member in members]
    assert sorted(cost.operations for cost in together) == sorted(cost.operations for cost in alone)


@pytest.mark.parametrize("by_kernels", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_kinds_have_results_of_their_own_size(by_kernels: bool) -> None:
    cart, pendulum = (robots.load(name).astype("float64") for name in ("cart_pole", "double_pendulum"))
    locked = artix.lock_joints(pendulum, artix.neutral_state(pendulum), [pendulum.topology.dof_names[1]])
    fleet = artix.Fleet([(cart, locked)[k] for k in (0, 1, 1, 0, 1)])
    state = fleet.random_state(jax.random.key(4))
    force = jnp.asarray(np.random.default_rng(3).normal(size=(5, 2)))
    assert [members.tolist() for members in fleet.kinds] == [[0, 3], [1, 2, 4]]
    with artix.use_kernels(by_kernels):
        function = jax.jit(lambda *inputs: fleet.evaluate_kinds(names_and_accelerations, *inputs))
        found = function(state, force)
        (slope,) = jax.jit(lambda *inputs: list(function(*inputs)[1].values()))(
            state, force
        )  # the rest is not evaluated
    if by_kernels and kernels_can_run():
        text = function.lower(state, force).compile().as_text()
        assert text.count("custom_call_target") == 1
        # Nothing is gathered, and what XLA computed itself would make a cheap call an asynchronous one.
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
    with pytest.raises(ValueError, match="layout='padded' has no kinds"):
        artix.Fleet([cart, locked], layout="padded").evaluate_kinds(artix.kinetic_energy, state)
    (alone,) = artix.Fleet([cart, cart]).evaluate_kinds(artix.mass_matrix, artix.Fleet([cart, cart]).neutral_state())
    np.testing.assert_allclose(alone[0], artix.mass_matrix(cart, artix.neutral_state(cart)), atol=1e-12)


def names_and_accelerations(articulation, state, force):
    return dict(zip(articulation.topology.dof_names, artix.forward_dynamics(articulation, state, force), strict=True))


def acceleration_and_poses(articulation, state, force):
    return artix.forward_dynamics(articulation, state, force), artix.link_poses(articulation, state)


def kernels_can_run() -> bool:
    return kernels_available() is None and kernels_are_on()


def test_a_new_member_is_evaluated_by_its_kind(members) -> None:
    fleet = artix.Fleet([members[2], members[3]])
    other = fleet.replace_member(0, members[3])
    state = other.random_state(jax.random.key(0))
    found = other.evaluate(artix.potential_energy, state)
    for number in range(2):
        own = other.member_state(state, number)
        np.testing.assert_allclose(found[number], artix.potential_energy(members[3], own), atol=1e-12)


def test_members_that_leave_are_not_kept() -> None:
    cart, pendulum = robots.load("cart_pole"), robots.load("double_pendulum")
    fleet = artix.Fleet([cart, cart, pendulum])
    guests = [pendulum.replace(gravity=scale * pendulum.gravity) for scale in (1.0, 2.0, 3.0)]
    references = [weakref.ref(guest) for guest in guests]
    while guests:
        fleet = fleet.replace_member(0, guests.pop())
    gc.collect()
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
    assert sharded.layout == "kinds"
    state = fleet.random_state(jax.random.key(3))
    on_devices = jax.device_put(state, sharding)
    for function, given in (
        (artix.mass_matrix, ()),
        (artix.forward_dynamics, (jnp.ones((4, fleet.padding.dofs + 6)),)),
    ):
        found = sharded.evaluate(function, on_devices, *given)
        assert found.sharding.is_equivalent_to(sharding, found.ndim)
        np.testing.assert_allclose(found, fleet.evaluate(function, state, *given), atol=1e-12)
    for of_kind, wanted in zip(
        sharded.evaluate_kinds(artix.link_poses, on_devices), fleet.evaluate_kinds(artix.link_poses, state), strict=True
    ):
        np.testing.assert_allclose(of_kind, wanted, atol=1e-12)
    compiled = sharded._compiled[artix.mass_matrix, (), True]
    text = compiled.func.lower(*compiled.args, on_devices).compile().as_text()
    assert not re.search("all-gather|all-reduce|collective-permute|all-to-all", text)
    with pytest.warns(UserWarning, match="different kinds"):
        assert sharded.replace_member(0, members[3]).layout == "padded"
    assert sharded.replace_member(0, members[2]).layout == "kinds"


def test_layouts_are_chosen_and_refused(members) -> None:
    assert artix.Fleet([random_tree(k, 3, fixed_base=True) for k in range(40, 57)]).layout == "padded"
    with pytest.raises(ValueError, match="'kinds' or 'padded'"):
        artix.Fleet(members, layout="rows")
    with pytest.raises(ValueError, match="leave the padding out"):
        artix.Fleet(members, layout="kinds", padding=artix.Padding.covering([one.topology for one in members]))
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
    builder.add_loop_joint(artix.LoopJoint(name="latch", link_a=None, link_b="link_2", type="spherical"))
    return builder.build("float64")


def odd_sizes(articulation, state):
    return jnp.zeros(2 * articulation.topology.num_dofs + 1)
