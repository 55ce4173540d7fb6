"""Dynamics under constraints: against Pinocchio, by its identities, and through JAX's transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Constraints
from tests import oracle_constraints, oracles
from tests.models import nu_of, random_states, state_at
from tests.oracle_constraints import ConstrainedOracle, point, weld
from tests.test_dynamics_derivatives import BASES, relative, robot_of

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
    assert found["forward"].residual <= 1e-9
    rows = found["jacobian"] @ found["forward"].acceleration + found["bias"]
    np.testing.assert_allclose(rows, 0, atol=1e-9)
    for have, wanted in zip(found["default"], found["forward"], strict=False):
        assert relative(have, wanted) <= 1e-9
    np.testing.assert_allclose(found["inverse"].force, force, atol=1e-8)
    # Pinocchio's impacts do not know of frames b, nor of welds' other ends.
    if all(one.link_b < 0 for one in constraints.anchors.structure):
        for have, wanted in zip(found["impact"], pinocchio.impact(0.3), strict=True):
            assert relative(have, wanted) <= 1e-9
    after, before = found["impact"].velocity, nu_of(a, state)
    np.testing.assert_allclose(found["jacobian"] @ (after + 0.3 * before), 0, atol=1e-9)
