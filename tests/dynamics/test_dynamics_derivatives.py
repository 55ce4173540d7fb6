"""Closed-form derivatives of the dynamics: against Pinocchio and finite differences, and under
JAX's transformations."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support import oracle_derivatives, oracles
from tests.support.bases import BASES_FIXED_WEEKLY
from tests.support.models import nu_of, random_states, state_at, tree_of, with_nu
from tests.support.oracles import ROBOT_FILES

#: Every kind of joint but those with two free axes, along whose velocities ``integrate`` does not
#: move exactly.
KINDS = [
    "spherical_012",
    "revolute_swing1",
    "prismatic_y",
    "fixed",
    "revolute_twist",
    "spherical_1",
]
PARENTS = [0, 1, 1, 2, 3, 2]
ON_PINOCCHIO = [
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("spherical", "panda", "anymal_b", "helical")
    ),
    pytest.param("g1", marks=pytest.mark.exhaustive),
    pytest.param("talos", marks=pytest.mark.exhaustive),
    pytest.param("tiago", marks=pytest.mark.exhaustive),
    # Not iCub: massless fingers make its mass matrix singular (condition 1e17), and forward
    # dynamics meaningless.
]


def relative(found, wanted) -> float:
    """Largest error relative to the largest number."""
    wanted = np.asarray(wanted)
    return float(
        np.max(np.abs(np.asarray(found) - wanted)) / max(1.0, np.max(np.abs(wanted), initial=0.0))
    )


def robot_of(name: str, *, fixed_base: bool):
    """A Pinocchio model and the same articulation."""
    if name == "spherical":
        return oracles.spherical_model(3, fixed_base=fixed_base)
    if name == "helical":
        return oracles.helical_model(fixed_base=fixed_base)
    return oracles.load_robot(ROBOT_FILES[name], fixed_base=fixed_base)


def case(articulation: artix.Articulation, seed: int = 2):
    """A state, an [nv] array and wrenches."""
    rng, topology = np.random.default_rng(seed), articulation.topology
    state = state_at(random_states(articulation, 1, seed=seed), 0)
    return (
        state,
        jnp.asarray(rng.normal(size=topology.nv)),
        jnp.asarray(rng.normal(size=(topology.num_links, 6))),
    )


@functools.cache
def small_tree(fixed_base: bool) -> artix.Articulation:
    """A branching tree with armature and links that gravity pulls at less or not at all."""
    scales = [1.0, 0.5, 1.0, 0.0, 1.0, 0.3, 1.0]
    return tree_of(
        KINDS, PARENTS, fixed_base=fixed_base, armature=0.3, gravity_scale=scales, seed=5
    )


def along_configuration(articulation, state):
    unit = jnp.eye(articulation.topology.nv)
    return lambda k, h: artix.integrate(articulation, state, h * unit[k])


def along_velocity(articulation, state):
    unit = jnp.eye(articulation.topology.nv)
    return lambda k, h: with_nu(articulation, state, nu_of(articulation, state) + h * unit[k])


@BASES_FIXED_WEEKLY
@pytest.mark.parametrize("robot", ON_PINOCCHIO)
def test_first_derivatives_against_pinocchio(robot: str, fixed_base: bool) -> None:
    model, a = robot_of(robot, fixed_base=fixed_base)
    state, x, _ = case(a)
    oracle = oracles.Oracle.at(model, a, state)
    found = jax.jit(artix.inverse_dynamics_derivatives)(a, state, x)
    for have, wanted in zip(
        found, oracle_derivatives.inverse_dynamics_derivatives(oracle, x), strict=True
    ):
        assert relative(have, wanted) <= 1e-12
    force = artix.inverse_dynamics(a, state, x)
    back = oracle_derivatives.to_pinocchio(oracle, found, force, x)
    for have, wanted in zip(
        back, oracle_derivatives.pinocchio_rnea_derivatives(oracle, x), strict=True
    ):
        assert relative(have, wanted) <= 1e-12
    found = jax.jit(artix.forward_dynamics_derivatives)(a, state, force)
    for have, wanted in zip(
        found, oracle_derivatives.forward_dynamics_derivatives(oracle, force), strict=True
    ):
        assert relative(have, wanted) <= 1e-9


@pytest.mark.slow
@BASES_FIXED_WEEKLY
@pytest.mark.parametrize(
    "robot",
    [
        "panda",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("anymal_b", "helical", "spherical")
        ),
    ],
)
def test_second_derivatives_against_pinocchio(robot: str, fixed_base: bool) -> None:
    """Against differences of fourth order of Pinocchio's first derivatives."""
    model, a = robot_of(robot, fixed_base=fixed_base)
    state, x, _ = case(a)

    def first(which):
        def of_state(s):
            oracle = oracles.Oracle.at(model, a, s)
            return oracle_derivatives.inverse_dynamics_derivatives(oracle, x)[which]

        return of_state

    nv, moved, sped = a.topology.nv, along_configuration(a, state), along_velocity(a, state)
    found = jax.jit(artix.inverse_dynamics_second_derivatives)(a, state, x)
    differences = oracle_derivatives.differences
    assert relative(found.configuration_configuration, differences(first(0), moved, nv)) <= 1e-9
    assert relative(found.velocity_velocity, differences(first(1), sped, nv)) <= 1e-9
    assert relative(found.configuration_velocity, differences(first(0), sped, nv)) <= 1e-9
    assert relative(found.acceleration_configuration, differences(first(2), moved, nv)) <= 1e-9


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_against_differences(fixed_base: bool) -> None:
    """What Pinocchio does not have in this form: wrenches, gravity scales, links, centroidal
    momentum."""
    a = small_tree(fixed_base)
    state, x, w = case(a)
    nv, moved, sped = a.topology.nv, along_configuration(a, state), along_velocity(a, state)

    def check(function, by_configuration, by_velocity=None):
        jitted = jax.jit(function)
        assert relative(by_configuration, oracle_derivatives.differences(jitted, moved, nv)) <= 1e-9
        if by_velocity is not None:
            assert relative(by_velocity, oracle_derivatives.differences(jitted, sped, nv)) <= 1e-9

    check(
        lambda s: artix.inverse_dynamics(a, s, x, w),
        *jax.jit(artix.inverse_dynamics_derivatives)(a, state, x, w)[:2],
    )
    check(
        lambda s: artix.forward_dynamics(a, s, x, w),
        *jax.jit(artix.forward_dynamics_derivatives)(a, state, x, w)[:2],
    )
    check(lambda s: artix.gravity_compensation(a, s), jax.jit(artix.gravity_derivatives)(a, state))
    check(
        lambda s: artix.frame_velocity(a, s, offset="com"),
        *artix.frame_velocity_derivatives(a, state, offset="com"),
    )
    links = artix.frame_acceleration_derivatives(a, state, x, offset="com", classical=True)
    check(lambda s: artix.frame_acceleration(a, s, x, offset="com", classical=True), *links[:2])
    centroidal = jax.jit(artix.centroidal_derivatives)(a, state, x)
    check(lambda s: artix.centroidal_momentum(a, s), *centroidal[:2])

    def rate(s):
        matrix, bias = artix.centroidal_momentum_matrix(a, s)
        return matrix @ x + bias

    check(rate, *centroidal[2:4])
    # What is linear: Jacobians, the mass matrix and its inverse.
    matrix, nu = artix.centroidal_momentum_matrix(a, state)[0], nu_of(a, state)
    assert relative(centroidal.rate_by_acceleration, matrix) <= 1e-13
    assert relative(links.acceleration @ nu, artix.frame_velocity(a, state, offset="com")) <= 1e-13


@pytest.mark.slow
def test_halves_of_a_linearization() -> None:
    """The velocity after a step changes as forward dynamics do."""
    a, dt = (
        tree_of(["revolute_swing1", "prismatic_y"], [0, 1], fixed_base=False, armature=0.3),
        0.01,
    )
    state, force, _ = case(a)
    nv, linear = a.topology.nv, artix.linearize(a, state, force, dt)
    by = artix.forward_dynamics_derivatives(a, state, force)
    np.testing.assert_allclose(linear.state_matrix[nv:, :nv], dt * by.configuration, atol=1e-12)
    np.testing.assert_allclose(
        linear.state_matrix[nv:, nv:], np.eye(nv) + dt * by.velocity, atol=1e-12
    )
    np.testing.assert_allclose(linear.input_matrix[nv:], dt * by.force, atol=1e-12)


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_linearization(fixed_base: bool) -> None:
    a, dt = small_tree(fixed_base), 0.01
    state, x, w = case(a)
    nv = a.topology.nv

    def step(deviation, push):
        moved = artix.integrate(a, state, deviation[:nv])
        nu = nu_of(a, state) + deviation[nv:]
        nu = nu + dt * artix.forward_dynamics(a, with_nu(a, moved, nu), x + push, w)
        return artix.integrate(a, moved, dt * nu), nu

    end, _ = step(jnp.zeros(2 * nv), jnp.zeros(nv))

    @jax.jit
    def deviation_of(z):
        after, nu = step(z[: 2 * nv], z[2 * nv :])
        return jnp.concatenate([artix.difference(a, end, after), nu])

    found = jax.jit(artix.linearize)(a, state, x, dt, w)
    unit = jnp.eye(3 * nv)
    wanted = oracle_derivatives.differences(deviation_of, lambda k, h: h * unit[k], 3 * nv)
    assert relative(jnp.concatenate(found, axis=1), wanted) <= 1e-9


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_factors_and_solves(fixed_base: bool) -> None:
    a = small_tree(fixed_base)
    state, x, _ = case(a)
    matrix = np.asarray(artix.mass_matrix(a, state, armature=True))
    upper, diagonal = artix.mass_matrix_cholesky(a, state)
    np.testing.assert_array_equal(np.where(a.topology.mass_matrix_halves[0], 0, upper), 0)
    np.testing.assert_array_equal(upper, np.triu(upper))
    np.testing.assert_array_equal(np.diagonal(upper), 1)
    np.testing.assert_allclose(upper * diagonal[None] @ upper.T, matrix, atol=1e-13)
    np.testing.assert_allclose(
        artix.mass_matrix_inverse(a, state) @ matrix, np.eye(len(matrix)), atol=1e-12
    )
    np.testing.assert_allclose(matrix @ artix.mass_matrix_solve(a, state, x), x, atol=1e-12)
    bare = artix.mass_matrix(a, state)
    np.testing.assert_allclose(
        bare @ artix.mass_matrix_solve(a, state, x, armature=False), x, atol=1e-11
    )


@pytest.mark.slow
def test_factors_of_a_long_chain_and_of_branches() -> None:
    """Against NumPy's solver, on matrices of many blocks."""
    for kinds, parents in (
        (["revolute_swing1"] * 40, list(range(40))),
        (
            ["revolute_swing1", "spherical_012", "prismatic_y", "spherical_02"] * 5,
            [0, 0, 0, 1, 2, 3] + list(range(4, 18)),
        ),
    ):
        a = tree_of(kinds, parents, fixed_base=False, armature=0.1, seed=3)
        state, x, _ = case(a)
        matrix = np.asarray(artix.mass_matrix(a, state, armature=True))
        found = jax.jit(artix.mass_matrix_solve)(a, state, x)
        np.testing.assert_allclose(
            found, np.linalg.solve(matrix, x), rtol=1e-9, atol=1e-9 * np.max(np.abs(found))
        )


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_rules_agree_with_plain_differentiation(fixed_base: bool) -> None:
    """The rules that ``jvp`` and ``grad`` use, against JAX's own differentiation of the same
    programs."""
    from artix.dynamics.mass_matrix import inertia_matrix
    from artix.dynamics.newton_euler import required_forces
    from artix.kinematics.forward import kinematics

    # Joints with two free axes, too: their rotation vectors also turn them about the locked one.
    kinds = ["spherical_12", "revolute_swing1", "prismatic_y", "fixed", "spherical_02"]
    a = tree_of(kinds, [0, 1, 1, 2, 3], fixed_base=fixed_base, armature=0.3, seed=7)
    state, x, w = case(a)

    def ruled(a, s, x, w):
        return jnp.concatenate(
            [
                artix.inverse_dynamics(a, s, x, w),
                jnp.ravel(artix.mass_matrix(a, s)),
                artix.kinetic_energy(a, s)[None],
            ]
        )

    def plain(a, s, x, w):
        force = required_forces(True, a, s, x, w)
        force = force.at[a.topology.num_base_dofs :].add(a.armature * x[a.topology.num_base_dofs :])
        matrix, velocity = inertia_matrix(a, kinematics(a, s)), nu_of(a, s)
        return jnp.concatenate([force, jnp.ravel(matrix), (velocity @ matrix @ velocity / 2)[None]])

    weights = jnp.cos(jnp.arange(1.0, ruled(a, state, x, w).size + 1.0))
    gradients = [
        jax.jit(jax.grad(lambda *inputs, f=f: f(*inputs) @ weights, argnums=(0, 1, 2, 3)))(
            a, state, x, w
        )
        for f in (ruled, plain)
    ]
    # Many directions at once take another formula than one.
    columns = [jax.jit(jax.jacrev(f, argnums=(1, 2, 3)))(a, state, x, w) for f in (ruled, plain)]
    for pair in (gradients, columns):
        for one, other in zip(*map(jax.tree.leaves, pair), strict=True):
            np.testing.assert_allclose(
                one, other, atol=1e-11 * max(1.0, np.max(np.abs(other), initial=0.0))
            )


@pytest.mark.slow
def test_unused_parts_are_not_computed() -> None:
    """The gradient by the velocity of a known articulation needs no program for parameters; no loop
    anywhere."""
    a = small_tree(True).astype("float32")
    state, x, _ = case(a)

    def loss(articulation, s):
        return jnp.sum(artix.forward_dynamics(articulation, s, x.astype("float32")) ** 2)

    known = jax.jit(jax.grad(lambda s: loss(a, s))).lower(state).compile().as_text()
    traced = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(a, state).compile().as_text()
    assert known.count(" = ") < 0.75 * traced.count(" = ")
    assert " while(" not in known
    assert " while(" not in traced


@pytest.mark.slow
def test_mixed_fleets_differentiate() -> None:
    """Different trees in one fleet have the derivatives that each has on its own."""
    arms = [
        tree_of(["revolute_twist", "prismatic_x"], [0, 1], fixed_base=True, armature=0.1, seed=1)
    ]
    arms.append(
        tree_of(["revolute_swing1", "revolute_twist", "fixed"], [0, 1, 1], fixed_base=False, seed=2)
    )
    fleet = artix.Fleet(arms)
    states = [state_at(random_states(arm, 1, seed=k), 0) for k, arm in enumerate(arms)]
    padded = fleet.stack_states(states)

    def loss(articulation, state):
        force = jnp.ones(articulation.topology.nv, articulation.dtype)
        return jnp.sum(artix.forward_dynamics(articulation, state, force) ** 2)

    together = fleet.evaluate(jax.grad(loss, argnums=1), padded)
    for k, (arm, state) in enumerate(zip(arms, states, strict=True)):
        alone = jax.grad(loss, argnums=1)(arm, state)
        n = arm.topology.num_dofs
        for name in ("joint_position", "joint_velocity"):
            np.testing.assert_allclose(
                getattr(together, name)[k, :n], getattr(alone, name), atol=1e-10
            )
