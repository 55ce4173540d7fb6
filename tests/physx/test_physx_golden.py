"""Every static quantity against numbers recorded from the PhysX SDK 5.6.1
(``tests/data/physx/README.md``)."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support import physx_mechanisms as physx

TOLERANCE = 2e-6  # PhysX's float32 noise
TOLERANCE_EXTERNAL_FORCE = 5e-6


@functools.partial(jax.jit, static_argnames="floating")
def _quantities(articulation, states, external_force, floating):
    def one(state, wrenches):
        # PhysX's gravity compensation ignores eDISABLE_GRAVITY.
        heavy = articulation.replace(gravity_scale=jnp.ones_like(articulation.gravity_scale))
        fk = artix.forward_kinematics(articulation, state)
        found = {
            "st_link_pose": fk.pose,
            "st_link_velocity": fk.velocity,
            "st_com_world": artix.center_of_mass(articulation, state),
            "st_com_root": artix.center_of_mass(articulation, state, "root"),
            "st_jacobian": artix.physx.dense_jacobian(articulation, state),
            "st_mass_matrix": artix.mass_matrix(articulation, state),
            "st_coriolis": artix.coriolis_compensation(articulation, state),
            "st_gravity": artix.gravity_compensation(heavy, state),
        }
        if floating:
            matrix, bias = artix.centroidal_momentum_matrix(articulation, state)
            found |= {"st_centroidal_matrix": matrix, "st_centroidal_bias": bias}
        else:
            found["id_external_force"] = -artix.generalized_external_force(
                articulation, state, wrenches
            )
        return found

    return jax.vmap(one)(states, external_force)


#: These have every kind of joint and both bases.
EVERYDAY = ("d_mixed_fixed", "d_mixed_floating")


def _mark_of(name: str) -> Any:
    """Slow ones have every kind of frame and axis; drives, limits, mimic joints and tendons change
    no static quantity.

    All 40 are in one program in test_physx_cache.py.
    """
    if name in EVERYDAY:
        return ()
    return pytest.mark.slow if name[0] in "bcd" else pytest.mark.exhaustive


@pytest.mark.parametrize("name", [pytest.param(name, marks=_mark_of(name)) for name in physx.NAMES])
def test_static_quantities(name: str) -> None:
    articulation, data = physx.build(name), physx.recorded(name)
    floating = not articulation.topology.fixed_base
    found = dict(
        _quantities(articulation, physx.states(name), jnp.asarray(data["in_ext"]), floating)
    )
    expected = {key for key in data if key.startswith("st_")} | (
        set() if floating else {"id_external_force"}
    )
    assert set(found) == expected
    wanted = data["st_link_pose"]
    same = np.sign(np.sum(wanted[..., 3:] * found["st_link_pose"][..., 3:], axis=-1, keepdims=True))
    wanted = np.concatenate([wanted[..., :3], wanted[..., 3:] * same], axis=-1)
    errors = {
        key: physx.error(value, wanted if key == "st_link_pose" else data[key])
        for key, value in found.items()
    }
    bounds = {
        key: TOLERANCE if key.startswith("st_") else TOLERANCE_EXTERNAL_FORCE for key in errors
    }
    assert {key: value for key, value in errors.items() if not value <= bounds[key]} == {}


def test_the_recording_is_complete() -> None:
    assert len(physx.NAMES) == 40
    kinds = {
        link["joint"]["type"]
        for name in physx.NAMES
        for link in physx.specification(name)["links"]
        if link["joint"]
    }
    assert kinds == {"fix", "prismatic", "revolute", "revolute_unwrapped", "spherical"}
    floating = [name for name in physx.NAMES if not physx.specification(name)["fixed_base"]]
    assert 0 < len(floating) < len(physx.NAMES)


@pytest.mark.slow
def test_names_and_orders_are_those_of_physx() -> None:
    for name in physx.NAMES:
        topology, spec = physx.build(name).topology, physx.specification(name)
        assert list(topology.link_names) == spec["link_names"]
        assert list(topology.dof_names) == spec["dof_names"]
