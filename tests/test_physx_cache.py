"""PhysX's cache: recorded numbers through it, what each flag moves, packing of joint data, and what is refused."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import physx
from artix.physx import ArticulationCacheFlag as Flag
from tests import physx_mechanisms as mechanisms
from tests.models import random_states, state_at, tree_of, zoo

#: Those that the recording states (``tests/data/physx/README.md``).
TOLERANCES = {
    "id_joint_acceleration": 5e-6,
    "id_external_force": 5e-6,
    "id0_external_force": 5e-6,
    "dep_gravity": 5e-5,
    "dep0_gravity": 5e-5,
}
TOLERANCE = 2e-6


def _compute(simulation: physx.ArticulationSimulation, given: dict) -> dict:
    """Every recorded array of one mechanism in one state, each by the calls that recorded it."""
    cache = physx.create_cache(simulation)
    cache = physx.copy_internal_state_to_cache(simulation, cache, Flag.ALL)
    cache = cache.replace(joint_acceleration=given["in_qdd"], external_forces=given["in_ext"])
    forced = cache.replace(joint_force=given["in_tau"])
    still = simulation.replace(
        state=jax.tree.map(lambda x: x, simulation.state).replace(
            root_velocity=jnp.zeros(6), joint_velocity=jnp.zeros_like(cache.joint_velocity)
        )
    )
    jacobian, rows, columns = physx.compute_dense_jacobian(simulation, cache)
    assert jacobian.dense_jacobian.shape == (rows, columns)
    centroidal = physx.compute_centroidal_momentum_matrix(simulation, cache)
    compat = {"physx_compat": True}
    return {
        "st_link_velocity": cache.link_velocity,
        "st_jacobian": jacobian.dense_jacobian,
        "st_mass_matrix": physx.compute_mass_matrix(simulation, cache).mass_matrix,
        "st_coriolis": physx.compute_coriolis_compensation(simulation, cache).coriolis_force,
        "st_gravity": physx.compute_gravity_compensation(simulation, cache, **compat).gravity_compensation_force,
        "st_com_world": physx.compute_articulation_com(simulation),
        "st_com_root": physx.compute_articulation_com(simulation, root_frame=True),
        "st_centroidal_matrix": centroidal.centroidal_momentum_matrix,
        "st_centroidal_bias": centroidal.centroidal_momentum_bias,
        "dep_mass_matrix": physx.compute_generalized_mass_matrix(simulation, cache).mass_matrix,
        "dep_coriolis": physx.compute_coriolis_and_centrifugal_force(simulation, cache).joint_force,
        "dep_gravity": physx.compute_generalized_gravity_force(simulation, cache, **compat).joint_force,
        "dep0_gravity": physx.compute_generalized_gravity_force(still, cache, **compat).joint_force,
        "id_joint_force": physx.compute_joint_force(simulation, cache, **compat).joint_force,
        "id0_joint_force": physx.compute_joint_force(still, cache).joint_force,
        "id_external_force": physx.compute_generalized_external_force(simulation, cache, **compat).joint_force,
        "id0_external_force": physx.compute_generalized_external_force(still, cache).joint_force,
        "id_joint_acceleration": physx.compute_joint_acceleration(simulation, forced).joint_acceleration,
    }  # fmt: skip


@pytest.fixture(scope="module")
def everything() -> tuple[artix.Fleet, dict]:
    """All 40 mechanisms in their four states as one padded fleet in one program."""
    fleet = artix.Fleet([mechanisms.build(name) for name in mechanisms.NAMES])
    padding = fleet.padding
    states, given = [], []
    for sample in range(4):
        states.append(fleet.stack_states([state_at(mechanisms.states(name), sample) for name in mechanisms.NAMES]))
        rows = {}
        for key, shape in (("in_qdd", (padding.dofs,)), ("in_tau", (padding.dofs,)), ("in_ext", (padding.links, 6))):
            rows[key] = np.zeros((len(fleet), *shape))
            for number, name in enumerate(mechanisms.NAMES):
                value = mechanisms.recorded(name)[key][sample]
                rows[key][(number, *map(slice, value.shape))] = value
        given.append(rows)

    def compute(articulation, state, given):
        return _compute(physx.create_simulation(articulation, state), given)

    over_states = jax.vmap(jax.vmap(compute), in_axes=(None, 0, 0))
    stack = functools.partial(jax.tree.map, lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]))
    found = jax.jit(over_states)(fleet.articulation, stack(*states), stack(*given))
    return fleet, jax.tree.map(np.asarray, found)


def _own_part(topology: artix.Topology, key: str, padded: np.ndarray) -> np.ndarray:
    """What a member has of a padded array [4, ...]: without the root's entries for a fixed base, and without padding."""
    skip, n, nv, links = 6 - topology.num_base_dofs, topology.num_dofs, topology.nv, topology.num_links
    generalized = slice(skip, skip + nv)
    if key in ("st_com_world", "st_com_root", "st_centroidal_bias"):
        return padded
    if key == "st_jacobian":
        return padded[:, skip : 6 * links, generalized]
    if key == "st_mass_matrix":
        return padded[:, generalized, generalized]
    if key == "st_link_velocity":
        return padded[:, :links]
    if key in ("st_coriolis", "st_gravity", "st_centroidal_matrix"):
        return padded[..., generalized]
    if key == "dep_mass_matrix":
        return padded[:, :n, :n]
    return padded[:, :n]


@pytest.mark.parametrize("name", mechanisms.NAMES)
def test_recorded_numbers_through_the_cache(everything, name: str) -> None:
    """Defects where PhysX has them, on request; the functions themselves are held to more in test_physx_golden.py."""
    fleet, found = everything
    member = mechanisms.NAMES.index(name)
    data = mechanisms.recorded(name) | mechanisms.recorded_inverse_dynamics(name)
    expected = {key for key in data if key.startswith(("st_", "dep", "id"))} - {"st_link_pose"}
    assert len(expected) >= 12
    errors = {}
    for key in sorted(expected):
        value = _own_part(fleet.topologies[member], key, found[key][:, member])
        assert value.shape == data[key].shape, key
        error = np.max(np.abs(value - data[key]), initial=0.0) / max(1.0, np.max(np.abs(data[key]), initial=0.0))
        if error > TOLERANCES.get(key, TOLERANCE):
            errors[key] = error
    assert errors == {}
