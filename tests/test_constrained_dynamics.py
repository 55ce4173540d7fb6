"""Dynamics under constraints: against Pinocchio, by its identities, and through JAX's transformations."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Constraints
from artix.constraints.anchors import AnchorStructure, AnchorType
from tests import oracle_constraints, oracles
from tests.models import nu_of, random_states, state_at
from tests.oracle_constraints import ConstrainedOracle, point, weld
from tests.oracle_derivatives import differences
from tests.test_dynamics_derivatives import (
    BASES,
    along_configuration,
    along_velocity,
    relative,
    robot_of,
    small_tree,
)
from tests.test_dynamics_derivatives import case as dynamics_case

#: Rows on links by name of their joint: feet of the quadruped, the hand of the arm, loops; in both kinds of axes.
CASES = {
    "anymal_b": [(point, "LF_KFE"), (point, "RF_KFE", None, "world_aligned"), (point, "LH_KFE"), (point, "RH_KFE")],
    "panda": [(weld, "panda_joint7", None, "world_aligned")],
    "spherical": [(point, "fingertip"), (weld, "wrist", "camera"), (point, "slider", None, "world_aligned")],
}
GAINS = [(4.0, 3.0), (0.0, 2.0), (5.0, 0.0), (1.0, 1.0)]


def constraints_of(a: artix.Articulation, anchors, gains) -> Constraints:
    """Anchors with gains."""
    position, velocity = np.array(gains).T
    return Constraints(anchors, jnp.asarray(position), jnp.asarray(velocity), jnp.zeros(anchors.num_rows))


def case(robot: str, fixed_base: bool):
    model, a = robot_of(robot, fixed_base=fixed_base)
    links = {None: -1} | {name: 1 + k for k, name in enumerate(a.topology.joint_names)}
    structure = [make(links[one], *(links.get(x, x) for x in rest)) for make, one, *rest in CASES[robot]]
    anchors = oracle_constraints.random_anchors(structure, 3)
    gains = GAINS[: len(structure)]
    state = state_at(random_states(a, 1, seed=2), 0)
    force = jnp.asarray(np.random.default_rng(5).normal(size=a.topology.nv))
    return oracles.Oracle.at(model, a, state), a, state, force, constraints_of(a, anchors, gains), gains


@jax.jit
def quantities(a, state, force, constraints):
    exact = {"damping": 0.0, "iterations": 1}
    found = artix.constrained_forward_dynamics(a, state, force, constraints, **exact)
    return {
        "forward": found,
        "impact": artix.impulse_dynamics(a, state, constraints, 0.3, **exact),
        "default": artix.constrained_forward_dynamics(a, state, force, constraints),
        "delassus": artix.delassus_matrix(a, state, constraints),
        "inertia": artix.operational_space_inertia(a, state, constraints),
        "bias": artix.constraint_bias(a, state, constraints),
        "jacobian": artix.constraint_jacobian(a, state, constraints),
        "inverse": artix.constrained_inverse_dynamics(
            a, state, found.acceleration, constraints, constraint_force=found.constraint_force
        ),
    }


@BASES
@pytest.mark.parametrize("robot", CASES)
def test_against_pinocchio(robot: str, fixed_base: bool) -> None:
    oracle, a, state, force, constraints, gains = case(robot, fixed_base)
    found = quantities(a, state, force, constraints)
    pinocchio = ConstrainedOracle(oracle, constraints.anchors, gains)
    for have, wanted in zip(found["forward"], pinocchio.forward_dynamics(force), strict=False):
        assert relative(have, wanted) <= 1e-9
    assert relative(found["delassus"], pinocchio.delassus()) <= 1e-11
    if all(one.axes == "local" for one in constraints.anchors.structure):
        assert relative(found["delassus"], pinocchio.local_delassus()) <= 1e-11
    np.testing.assert_allclose(found["inertia"] @ found["delassus"], np.eye(constraints.num_rows), atol=1e-9)
    kept = found["jacobian"] @ found["forward"].acceleration
    assert relative(kept, -found["bias"]) <= 1e-10
    np.testing.assert_allclose(found["forward"].residual, np.max(np.abs(kept + found["bias"])), rtol=1e-3)
    for have, wanted in zip(found["default"], found["forward"], strict=False):
        assert relative(have, wanted) <= 1e-9
    np.testing.assert_allclose(found["inverse"].force, force, atol=1e-8)
    # Pinocchio's impacts do not know of frames b, nor of welds' other ends.
    if all(one.link_b < 0 for one in constraints.anchors.structure):
        for have, wanted in zip(found["impact"], pinocchio.impact(0.3), strict=True):
            assert relative(have, wanted) <= 1e-9
    after, before = found["impact"].velocity, nu_of(a, state)
    np.testing.assert_allclose(found["jacobian"] @ (after + 0.3 * before), 0, atol=1e-9)


@BASES
@pytest.mark.parametrize("robot", CASES)
def test_derivatives_against_pinocchio(robot: str, fixed_base: bool) -> None:
    oracle, a, state, force, constraints, gains = case(robot, fixed_base)
    found = exact_derivatives(a, state, force, constraints)
    pinocchio = ConstrainedOracle(oracle, constraints.anchors, gains)
    pinocchio.forward_dynamics(force)
    wanted = pinocchio.forward_dynamics_derivatives(force)
    for part, numbers in zip((found.acceleration, found.constraint_force), wanted, strict=True):
        for have, number in zip(part, numbers, strict=True):
            assert relative(have, number) <= 1e-9


@jax.jit
def exact_derivatives(a, state, force, constraints):
    exact = {"damping": 0.0, "iterations": 1}
    return artix.constrained_forward_dynamics_derivatives(a, state, force, constraints, **exact)


@BASES
def test_derivatives_against_differences(fixed_base: bool) -> None:
    """Every type of anchor, both kinds of axes, wrenches, armature and gravity scales; impacts and rows, too."""
    a = small_tree(fixed_base)
    state, force, w = dynamics_case(a)
    structure = [weld(6, 4, "world_aligned"), weld(5), AnchorStructure(4, -1, AnchorType.JOINT, (1, 4, 5))]
    structure += [point(3, -1, "world_aligned"), AnchorStructure(6, -1, AnchorType.DISTANCE, (0,))]
    structure[0] = dataclasses.replace(structure[0], rows=(0, 2, 4))
    structure[1] = dataclasses.replace(structure[1], rows=(1, 5))
    structure[3] = dataclasses.replace(structure[3], rows=(0,))
    anchors = oracle_constraints.random_anchors(structure, 3)
    constraints = constraints_of(a, anchors, [*GAINS, (2.0, 0.5)])
    # More rows than a fixed base leaves free, so that the damped system is that of the proximal method.
    options = {"damping": 0.1, "iterations": 1}

    @jax.jit
    def values(s):
        found = artix.constrained_forward_dynamics(a, s, force, constraints, w, **options)
        impact = artix.impulse_dynamics(a, s, constraints, 0.3, **options)
        rows = artix.constraint_kinematics(a, s, constraints)
        acceleration = rows.jacobian @ force + artix.constraint_bias(a, s, constraints)
        return jnp.concatenate([*found[:2], *impact, rows.error, rows.velocity, acceleration])

    @jax.jit
    def derivatives(s):
        forward = artix.constrained_forward_dynamics_derivatives(a, s, force, constraints, w, **options)
        impact = artix.impulse_dynamics_derivatives(a, s, constraints, 0.3, **options)
        rows = artix.constraint_derivatives(a, s, force, constraints)
        by_q = [
            forward.acceleration.configuration,
            forward.constraint_force.configuration,
            impact.velocity_by_configuration,
            impact.impulse_by_configuration,
            rows.error_by_configuration,
            rows.velocity_by_configuration,
            rows.acceleration_by_configuration,
        ]
        by_v = [
            forward.acceleration.velocity,
            forward.constraint_force.velocity,
            impact.velocity_by_velocity,
            impact.impulse_by_velocity,
            jnp.zeros_like(rows.jacobian),
            rows.jacobian,
            rows.acceleration_by_velocity,
        ]
        return jnp.concatenate(by_q), jnp.concatenate(by_v)

    nv = a.topology.nv
    found = derivatives(state)
    assert relative(found[0], differences(values, along_configuration(a, state), nv, step=2e-4)) <= 1e-9
    assert relative(found[1], differences(values, along_velocity(a, state), nv, step=2e-4)) <= 1e-9
