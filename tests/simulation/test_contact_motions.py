"""Sums over contacts by the motions that they share: those of all contacts' Jacobians."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.contact.ground_contacts import (
    GroundContacts,
    contacts_with_ground,
    nearest_contacts,
)
from artix.contact.link_contacts import contacts_of_pairs
from artix.kinematics.contact_points import contact_frames, contact_points
from artix.kinematics.forward import Kinematics, kinematics
from artix.simulation.implicit.contact_motions import (
    Touches,
    contact_blocks,
    contact_directions,
    contact_reaches,
)
from artix.simulation.implicit.contact_rows import _coupled
from artix.simulation.implicit.contact_stiffness import TreeContacts, tree_contacts
from artix.simulation.implicit.resolvents import ContactRow
from artix.simulation.implicit.rows import ContactRows


def robot() -> artix.Articulation:
    """A sphere and a box on one link, a box on the next, a capsule on a branch, and a pair."""
    builder = artix.ArticulationBuilder(name="branches")
    inertia = (1e-2, 2e-2, 3e-2)
    builder.add_link(mass=1.0, inertia=inertia, name="body")
    for name, parent, axis in (
        ("thigh", "body", artix.Axis.TWIST),
        ("foot", "thigh", artix.Axis.SWING1),
        ("arm", "body", artix.Axis.SWING2),
    ):
        joint = artix.Joint.revolute(axis=axis, parent_pose=(0.1, 0.2, -0.3, 0.0, 0.0, 0.0, 1.0))
        builder.add_link(parent=parent, joint=joint, mass=0.5, inertia=inertia, name=name)
    builder.add_geometry("body", artix.Geometry.sphere(0.1), name="ball")
    builder.add_geometry("foot", artix.Geometry.box((0.1, 0.05, 0.02)), name="sole")
    builder.add_geometry("foot", artix.Geometry.sphere(0.05), name="heel")
    builder.add_geometry("arm", artix.Geometry.capsule(0.05, 0.1), name="forearm")
    return builder.build(jnp.float64)


@pytest.mark.parametrize(("most", "has_pair"), [(None, True), (5, True), (5, False)])
def test_blocks_and_stiffness_are_those_of_the_jacobian(most: int | None, has_pair: bool) -> None:
    """Within 1e-12 of dense products, with all points and with the nearest as data."""
    one = artix.select_geometry_pairs(robot(), [("forearm", "ball")] if has_pair else [])
    state = artix.random_state(one, jax.random.key(3))
    kin, scene = kinematics(one, state), artix.Scene(one, ground=artix.Ground.flat())
    assert scene.ground is not None
    every = contacts_with_ground(one, kin, scene.ground)
    nearest = every if most is None else nearest_contacts(one, kin, every, most)
    pairs = scene.shape_pairs
    between = contacts_of_pairs((one,), [kin], pairs, None) if has_pair else None
    touches = Touches((nearest,), between, pairs)
    motions, reach, groups = contact_reaches((one,), (state,), touches)
    jacobian = np.asarray(contact_directions((one,), (state,), touches))
    np.testing.assert_allclose(reach @ motions, jacobian, atol=1e-12)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(jacobian)))

    generator = np.random.default_rng(0)
    nv = jacobian.shape[2]
    response, slopes = generator.normal(size=(nv, nv)), generator.normal(size=(len(reach), 3, 3))
    blocks = contact_blocks(motions, motions @ response.T, reach, groups)
    wanted = np.einsum("kav,vw,kbw->kab", jacobian, response, jacobian)
    np.testing.assert_allclose(blocks, wanted, atol=1e-12)

    none = jnp.zeros(len(reach))
    of_groups, coupled = tuple(map(tuple, groups)), _coupled((one,), touches)
    rows = ContactRows(motions, ContactRow(reach, *[none] * 5), of_groups, coupled)
    wanted = np.einsum("kav,kab,kbw->vw", jacobian, slopes, jacobian)
    np.testing.assert_allclose(rows.stiffness(jnp.asarray(slopes)), wanted, atol=1e-12)

    tree = _along_tree(one, kin, nearest)
    count = len(nearest.contacts.gap)
    rows = rows.replace(trees=(tree,), places=((0, 0, count),))
    np.testing.assert_allclose(rows.stiffness(jnp.asarray(slopes)), wanted, atol=1e-12)


def _along_tree(one: artix.Articulation, kin: Kinematics, ground: GroundContacts) -> TreeContacts:
    """Where the contacts are on the tree, whether or not that takes fewer products."""
    numbers = np.arange(one.topology.num_bodies)
    frames = contact_frames(ground.contacts.normal)
    if ground.body is not None:
        on_bodies = (ground.body[:, None] == numbers.astype(float)).astype(float)
        return tree_contacts(one, kin, on_bodies, ground.contacts.point.T, frames)
    links = one.topology.geometry_links(ground.geometries)
    on_bodies = jnp.asarray(one.topology.link_body[links][:, None] == numbers, float)
    place = contact_points(one, kin, links, ground.contacts.point)
    return tree_contacts(one, kin, on_bodies, place, frames)
