"""Padded fleets on a ground: shapes in places that all members share, against each member by itself."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix

GROUND = artix.Ground.flat(friction=0.6, dtype=jnp.float64)
#: Enough for all contacts here to converge, whatever the order of the rows.
OPTIONS = artix.SolverOptions(contact_iterations=8)


def body(name: str, *shapes: artix.Geometry, fixed_base: bool = False, bars: int = 0) -> artix.Articulation:
    """A link with these shapes, and bars that hang on it, of which the last one has a sphere."""
    builder = artix.ArticulationBuilder(fixed_base=fixed_base, name=name)
    link = builder.add_link(mass=1.0, inertia=[0.01, 0.02, 0.03], name="body")
    for shape in shapes:
        builder.add_geometry("body", shape)
    for k in range(bars):
        pose = artix.Joint.revolute(artix.Axis.SWING1, parent_pose=[0.1, 0, 0, 0, 0, 0, 1])
        link = builder.add_link(link, pose, mass=0.3, inertia=[0.001, 0.001, 0.001], name=f"bar_{k}")
    if bars:
        builder.add_geometry(f"bar_{bars - 1}", artix.Geometry.sphere(0.03, position=(0.1, 0.0, 0.0), friction=0.9))
    return builder.build("float64")


def members() -> list[artix.Articulation]:
    """Every kind of shape, several on a link, sensors, a fixed base, and a robot that cannot touch the ground."""
    corners = [[0.1, 0.0, 0.0], [0.0, 0.1, 0.02], [-0.1, -0.1, 0.0]]
    sensor = artix.Geometry.sphere(0.5, sensor=True)
    return [
        body("box", artix.Geometry.box((0.1, 0.15, 0.05), pose=[0.0, 0.0, 0.01, 0.0, 0.0, 0.6, 0.8]), sensor),
        body("hull", sensor, artix.Geometry.hull(corners, radius=0.02, restitution=0.5), bars=1),
        body("cylinder", artix.Geometry.cylinder(0.1, 0.05)),
        body("capsule", artix.Geometry.capsule(0.05, 0.1, stiffness=1e4, damping=10.0), artix.Geometry.sphere(0.06)),
        body("arm", artix.Geometry.sphere(0.3), fixed_base=True, bars=2),
        artix.robots.load("cart_pole").astype("float64"),
    ]


@pytest.fixture(scope="module")
def fleet() -> artix.Fleet:
    return artix.Fleet(members(), layout="padded")


def falling(fleet: artix.Fleet) -> artix.State:
    """States of which the lowest point of each member touches the ground, unless its root is fixed."""
    state = fleet.random_state(jax.random.key(3), velocity_scale=0.3)
    pose = state.root_pose
    for k, topology in enumerate(fleet.topologies):
        if not topology.fixed_base:
            robot, own = fleet.member(k), fleet.member_state(state, k)
            gaps = artix.ground_contacts(robot, own, GROUND).contacts.gap
            pose = pose.at[k, 2].add(-1e-4 - jnp.min(gaps))
    return state.replace(root_pose=pose)


def assert_members_alike(fleet: artix.Fleet, found: artix.State, wanted: list[artix.State], atol: float) -> None:
    for number, one in enumerate(wanted):
        for leaf, other in zip(jax.tree.leaves(fleet.member_state(found, number)), jax.tree.leaves(one), strict=True):
            np.testing.assert_allclose(leaf, other, atol=atol)


def test_places_have_room_for_the_shapes_of_all(fleet) -> None:
    assert (fleet.padding.hull_points, fleet.padding.cylinders) == ((8, 1), 1)  # a box, or a capsule and a sphere
    tree = fleet.articulation.topology
    np.testing.assert_array_equal(tree.points_of_geometry[:5], [[8, 0, 0], [3, 1, 0], [0, 0, 8], [2, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(tree.link_of_geometry[1::3], [[0, 1, 0], [2, 0, 0]])
    assert not tree.points_of_geometry[5].any()
    assert tree.touching_geometries == (0, 1, 2)


@pytest.mark.slow
def test_members_step_as_by_themselves(fleet) -> None:
    def advance(state: artix.State, memory: artix.ContactMemory):
        return fleet.evaluate(with_memory, state, memory, None, 0.005)

    with_memory = functools.partial(artix.step_with_contact_memory, options=OPTIONS, ground=GROUND)
    state = falling(fleet)
    memory = jax.vmap(lambda robot: artix.ContactMemory.none(robot, GROUND))(fleet.articulation)
    wanted = [fleet.member_state(state, k) for k in range(len(fleet))]
    for _ in range(4):
        state, memory = advance(state, memory)
    for k, robot in enumerate(members()):
        ground = GROUND if robot.topology.touching_geometries else None
        for _ in range(4):
            wanted[k] = artix.step(robot, wanted[k], None, 0.005, OPTIONS, ground=ground)
    assert_members_alike(fleet, state, wanted, 1e-9)


@pytest.mark.slow
def test_reports_say_which_links_the_ground_pushes(fleet) -> None:
    state = falling(fleet)
    report = functools.partial(artix.step_and_report, options=OPTIONS, ground=GROUND)
    _, found = fleet.evaluate(report, state, None, 0.005)
    assert found.contacts.links == ()  # data: fleet.articulation.topology.link_of_geometry
    for k, robot in enumerate(members()[:5]):
        _, wanted = artix.step_and_report(robot, fleet.member_state(state, k), None, 0.005, OPTIONS, ground=GROUND)
        links = robot.topology.num_links
        np.testing.assert_allclose(found.contacts.link_force[k, :links], wanted.contacts.link_force, atol=1e-7)
        assert not found.contacts.link_force[k, links:].any()
        assert float(jnp.min(found.contacts.gap[k])) == pytest.approx(float(jnp.min(wanted.contacts.gap)), abs=1e-12)
    assert not found.contacts.link_force[5].any()


@pytest.mark.slow
def test_derivatives_by_shapes_and_friction() -> None:
    box, can = members()[0], members()[2]
    other = artix.Fleet([box, can], layout="padded")
    state = falling(other)
    on_ground = functools.partial(artix.step, options=OPTIONS, ground=GROUND)

    def of_fleet(size, friction):
        robot = box.replace(geometry=box.geometry.replace(size=size, friction=friction))
        end = artix.Fleet([robot, can], layout="padded").evaluate(on_ground, state, None, 0.005)
        return jnp.sum(end.root_velocity[0] * np.arange(1.0, 7.0))

    def of_member(size, friction):
        robot = box.replace(geometry=box.geometry.replace(size=size, friction=friction))
        end = on_ground(robot, other.member_state(state, 0), None, 0.005)
        return jnp.sum(end.root_velocity * np.arange(1.0, 7.0))

    at = box.geometry.size, box.geometry.friction + 0.7
    found, wanted = (jax.jit(jax.grad(f, argnums=(0, 1)))(*at) for f in (of_fleet, of_member))
    assert all(jnp.any(leaf != 0) for leaf in wanted)
    for leaf, one in zip(found, wanted, strict=True):
        np.testing.assert_allclose(leaf, one, atol=1e-8)


def test_a_member_is_replaced_by_one_with_other_shapes(fleet) -> None:
    on_ground = functools.partial(artix.step, options=OPTIONS, ground=GROUND)
    state = falling(fleet)
    capsule = members()[3]
    other = fleet.replace_member(0, capsule)
    found = other.evaluate(on_ground, state, None, 0.005)
    wanted = [
        on_ground(one, fleet.member_state(state, k), None, 0.005) for k, one in enumerate((capsule, members()[1]))
    ]
    assert_members_alike(other, found, wanted, 1e-9)
    with pytest.raises(ValueError, match=r"needs hull_points=\(8, 8\) \(padding has \(8, 1\)\)"):
        fleet.replace_member(0, body("two", artix.Geometry.box((1, 1, 1)), artix.Geometry.box((1, 1, 1))))
    larger = dataclasses.replace(fleet.padding, hull_points=(8, 8))
    artix.Fleet(members(), padding=larger).replace_member(0, body("box", *[artix.Geometry.box((1, 1, 1))] * 2))


@pytest.mark.slow
def test_only_so_many_points_of_a_shape(fleet) -> None:
    """The nearest four of a box; places have as many contacts for every member."""
    options = dataclasses.replace(OPTIONS, max_contacts_per_geometry=4)
    state = falling(fleet)
    found = fleet.evaluate(functools.partial(artix.step, options=options, ground=GROUND), state, None, 0.005)
    wanted = [
        artix.step(robot, fleet.member_state(state, k), None, 0.005, options, ground=GROUND)
        for k, robot in enumerate(members()[:5])
    ]
    assert_members_alike(fleet, found, wanted, 1e-9)


def test_what_cannot_touch_is_refused(fleet) -> None:
    pendulums = artix.Fleet([artix.robots.load("cart_pole"), artix.robots.load("double_pendulum")], layout="padded")
    on_ground = functools.partial(artix.step, ground=artix.Ground.flat())
    with pytest.raises(ValueError, match="this padded fleet has no geometry that can touch the ground"):
        pendulums.evaluate(on_ground, pendulums.neutral_state(), None, 0.005)
    paired = artix.select_geometry_pairs(body("pair", artix.Geometry.sphere(0.1), bars=2), [("body:0", "bar_1:0")])
    padded = artix.Fleet([paired], layout="padded")
    with pytest.raises(TypeError, match="contacts between links need a static topology"):
        padded.evaluate(artix.step, padded.neutral_state(), None, 0.005)
    with pytest.raises(TypeError, match="has no pairs of shapes: use layout='kinds'"):
        padded.evaluate(artix.link_contacts, padded.neutral_state())
