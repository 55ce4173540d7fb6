"""Every quantity of the core against Pinocchio, on real robots, fixed and floating, in float64 and
float32."""

from __future__ import annotations

import functools
import os
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support import oracles
from tests.support.bases import BASES_FIXED_WEEKLY
from tests.support.models import random_pose, random_states, state_at

pytest.importorskip("pinocchio")

#: Every robot costs two compilations per base; one is among the slow tests, the rest are among the
#: exhaustive ones.
SLOW = {("anymal_b", False)}


def _mark(robot: str, fixed_base: bool) -> pytest.MarkDecorator:
    return pytest.mark.slow if (robot, fixed_base) in SLOW else pytest.mark.exhaustive


STATES = 3
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}
FAR = 1000.0


@functools.partial(jax.jit, static_argnames="link")
def quantities(articulation, states, accelerations, wrenches, offset, link):
    """Everything that :meth:`tests.support.oracles.Oracle.quantities` has, in one program."""

    def one(state, acceleration, wrench):
        a, s = articulation, state
        fk = artix.forward_kinematics(a, s)
        matrix, bias = artix.centroidal_momentum_matrix(a, s)
        found = {
            "link_poses": fk.pose,
            "link_velocities": fk.velocity,
            "link_accelerations": artix.frame_acceleration(
                a, s, acceleration, offset="com", classical=True
            ),
            "dense_jacobian": artix.physx.dense_jacobian(a, s),
            "frame_pose": artix.frame_pose(a, s, link, offset),
            "frame_velocity": artix.frame_velocity(a, s, link, offset),
            "mass_matrix": artix.mass_matrix(a, s),
            "mass_matrix_armature": artix.mass_matrix(a, s, armature=True),
            "gravity_compensation": artix.gravity_compensation(a, s),
            "coriolis_compensation": artix.coriolis_compensation(a, s),
            "bias_force": artix.bias_force(a, s),
            "generalized_external_force": artix.generalized_external_force(a, s, wrench),
            "inverse_dynamics": artix.inverse_dynamics(a, s, acceleration, wrench),
            "center_of_mass": artix.center_of_mass(a, s),
            "center_of_mass_jacobian": artix.center_of_mass_jacobian(a, s),
            "centroidal_momentum_matrix": matrix,
            "centroidal_momentum_bias": bias,
            "centroidal_momentum": artix.centroidal_momentum(a, s),
            "kinetic_energy": artix.kinetic_energy(a, s),
            "kinetic_energy_armature": artix.kinetic_energy(a, s, armature=True),
            "potential_energy": artix.potential_energy(a, s),
        }
        for axes in ("world_aligned", "local", "world"):
            found[f"frame_jacobian_{axes}"] = artix.frame_jacobian(a, s, link, offset, axes=axes)
            found[f"frame_jacobian_rate_{axes}"] = artix.frame_jacobian_rate(
                a, s, link, offset, axes=axes
            )
        return found

    return jax.vmap(one)(states, accelerations, wrenches)


def worst_errors(model, articulation, dtype: str, distance: float) -> dict[str, float]:
    """The largest error of each quantity, relative to its largest entry."""
    exact = articulation
    articulation = articulation.astype(dtype)
    rng = np.random.default_rng(zlib.crc32(articulation.topology.name.encode()))
    topology = articulation.topology
    states = random_states(articulation, STATES, seed=3, distance=distance)
    link = topology.num_links - 1
    accelerations = jnp.asarray(rng.normal(size=(STATES, topology.nv)), dtype)
    wrenches = jnp.asarray(rng.normal(size=(STATES, topology.num_links, 6)), dtype)
    offset = jnp.asarray(random_pose(rng, 0.3), dtype)
    found = quantities(articulation, states, accelerations, wrenches, offset, link)
    errors: dict[str, float] = {}
    for k in range(STATES):
        oracle = oracles.Oracle.at(model, exact, state_at(states, k))
        wanted = oracle.quantities(accelerations[k], wrenches[k], link, offset)
        assert set(wanted) == set(found)
        for name, value in wanted.items():
            computed = np.asarray(found[name][k])
            assert computed.dtype == dtype
            assert computed.shape == value.shape
            if name in ("link_poses", "frame_pose"):
                same = np.sign(np.sum(value[..., 3:] * computed[..., 3:], axis=-1, keepdims=True))
                value = np.concatenate([value[..., :3], value[..., 3:] * same], axis=-1)
            error = np.max(np.abs(computed - value)) / np.max(np.abs(value))
            errors[name] = max(errors.get(name, 0.0), float(error))
    return errors


def check(model: oracles.pin.Model, articulation: artix.Articulation) -> None:
    excess = {}
    report = os.environ.get("ARTIX_TEST_ERRORS")  # a file to append every measured error to
    for dtype, distance in (("float64", 0.0), ("float32", 0.0), ("float32", FAR)):
        for name, error in worst_errors(model, articulation, dtype, distance).items():
            if report:
                with open(report, "a") as file:
                    file.write(
                        f"{articulation.topology.name} {dtype} {distance:g} {name} {error:.3g}\n"
                    )
            if not error <= TOLERANCE[dtype]:
                excess[f"{name}, {dtype}, {distance:g} m from the origin"] = error
    assert excess == {}


@pytest.mark.parametrize(
    ("robot", "fixed_base"),
    [
        pytest.param(
            robot,
            fixed,
            marks=_mark(robot, fixed),
            id=f"{robot}-{'fixed' if fixed else 'floating'}",
        )
        for robot in oracles.ROBOT_FILES
        for fixed in (True, False)
    ],
)
def test_robot(robot: str, fixed_base: bool) -> None:
    model, articulation = oracles.load_robot(oracles.ROBOT_FILES[robot], fixed_base=fixed_base)
    model.name = robot
    model.armature = np.where(
        np.arange(model.nv) < (0 if fixed_base else 6), 0.0, 0.05 + 0.01 * np.arange(model.nv)
    )
    root = articulation
    articulation = oracles.articulation_from_pinocchio(model)
    fields = ("link_mass", "link_com_pose", "link_inertia")  # a fixed base's root keeps its inertia
    articulation = articulation.replace(**{name: getattr(root, name) for name in fields})
    check(model, articulation)


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_spherical_joints(fixed_base: bool) -> None:
    check(*oracles.spherical_model(1, fixed_base=fixed_base))


def test_the_map_between_conventions() -> None:
    """T maps Pinocchio's velocity to the root's COM velocity in world axes, and b is what is left
    of its rate."""
    model, articulation = oracles.spherical_model(2, fixed_base=False)
    state = state_at(random_states(articulation, 1, seed=5), 0)
    oracle = oracles.Oracle.at(model, articulation, state)
    step, data = 1e-6, model.createData()

    def center(q):
        oracles.pin.forwardKinematics(model, data, q)
        return data.oMi[1].act(model.inertias[1].lever).copy()

    forward, backward = (
        center(oracles.pin.integrate(model, oracle.q, sign * step * oracle.v)) for sign in (1, -1)
    )
    np.testing.assert_allclose(
        (oracle.twist_map @ oracle.v)[:3], (forward - backward) / (2 * step), atol=1e-8
    )
    # With constant nu_pin, nu changes at the rate b.
    later, earlier = (
        oracles.Oracle(
            model,
            articulation,
            oracles.pin.integrate(model, oracle.q, sign * step * oracle.v),
            oracle.v,
            False,
        )
        for sign in (1, -1)
    )
    rate = (later.twist_map @ oracle.v - earlier.twist_map @ oracle.v) / (2 * step)
    np.testing.assert_allclose(rate, oracle.twist_map_drift, atol=1e-8)
    np.testing.assert_allclose(
        (later.twist_map - earlier.twist_map)[:6] / (2 * step),
        oracle._twist_map_rate()[:6],
        atol=1e-8,
    )
    np.testing.assert_allclose((oracle.twist_map @ oracle.v)[:6], state.root_velocity, atol=1e-12)
