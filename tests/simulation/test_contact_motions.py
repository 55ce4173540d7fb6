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
from artix.math.arrays import matmul
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


@pytest.mark.slow
@pytest.mark.parametrize(("most", "has_pair"), [(None, True), (5, True), (5, False)])
def test_blocks_and_stiffness_are_those_of_the_jacobian(most: int | None, has_pair: bool) -> None:
    """Within 1e-12 of dense products, with all points and with the nearest as data."""
    one = artix.select_geometry_pairs(robot(), [("forearm", "ball")] if has_pair else [])
    scene = artix.Scene(one, ground=artix.Ground.flat())
    ground, pairs, nv = scene.ground, scene.shape_pairs, one.topology.nv
    assert ground is not None
    groups: list[np.ndarray] = []  # Known while tracing.

    @jax.jit
    def sums(state: artix.State, response: jax.Array, slope: jax.Array) -> tuple[jax.Array, ...]:
        kin = kinematics(one, state)
        every = contacts_with_ground(one, kin, ground)
        nearest = every if most is None else nearest_contacts(one, kin, every, most)
        between = contacts_of_pairs((one,), [kin], pairs, None) if has_pair else None
        touches = Touches((nearest,), between, pairs)
        motions, reach, which = contact_reaches((one,), (state,), touches)
        groups.extend(which)
        jacobian = contact_directions((one,), (state,), touches)
        blocks = contact_blocks(motions, matmul(motions, response.T), reach, which)
        none, slopes = jnp.zeros(len(reach)), slope[: len(reach)]
        coupled = _coupled((one,), touches)
        row = ContactRow(reach, none, none, none, none, none)
        rows = ContactRows(motions, row, tuple(map(tuple, which)), coupled)
        tree = _along_tree(one, kin, nearest)
        along = rows.replace(trees=(tree,), places=((0, 0, len(nearest.contacts.gap)),))
        both = rows.stiffness(slopes), along.stiffness(slopes)
        return motions, reach, jacobian, blocks, slopes, *both

    generator = np.random.default_rng(0)
    response, slope = generator.normal(size=(nv, nv)), generator.normal(size=(100, 3, 3))
    results = sums(artix.random_state(one, jax.random.key(3)), response, slope)
    motions, reach, jacobian, blocks, slopes, *stiffnesses = map(np.asarray, results)
    assert len(slopes) == len(reach)
    np.testing.assert_allclose(reach @ motions, jacobian, atol=1e-12)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(jacobian)))
    wanted = np.einsum("kav,vw,kbw->kab", jacobian, response, jacobian)
    np.testing.assert_allclose(blocks, wanted, atol=1e-12)
    wanted = np.einsum("kav,kab,kbw->vw", jacobian, slopes, jacobian)
    for stiffness in stiffnesses:  # by groups, and along the tree
        np.testing.assert_allclose(stiffness, wanted, atol=1e-12)


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
