"""The factorisations of the mass matrix, on random trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

import artix
from artix.compiler.program import trace
from artix.compiler.scalarize import scalarize
from artix.dynamics import factorization
from artix.dynamics.factorization import Paths, eliminate, factorize_dense
from artix.dynamics.forward import mass_product
from artix.kinematics.forward import kinematics
from tests.support.bases import BASES, BASES_FIXED_WEEKLY
from tests.support.marks import slow_besides
from tests.support.models import random_states, state_at, tree_of, zoo

Array = jax.Array


def parents(seed: int, size: int) -> tuple[int, ...]:
    """A random forest."""
    rng = np.random.default_rng(seed)
    return tuple(int(rng.integers(max(-1, k - 4), k)) for k in range(size))


def matrix_of(paths: Paths, seed: int = 0) -> Array:
    """A positive definite matrix with the pattern of a mass matrix."""
    size = len(paths.parent)
    moved = np.eye(size, dtype=bool)  # By entry j: what it moves.
    for k in range(size - 1, 0, -1):
        if paths.parent[k] >= 0:
            moved[paths.parent[k]] |= moved[k]
    rows = np.random.default_rng(seed).normal(size=(size, 3, size)) * moved.T[:, None]
    return jnp.asarray(np.einsum("kci,kcj->ij", rows, rows) + np.eye(size))


@pytest.mark.slow
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
def test_factors_of_random_trees(seed: int, size: int) -> None:
    paths = Paths(parents(seed, size))
    matrix, added = np.asarray(matrix_of(paths, seed)), np.arange(1.0, size + 1)
    right = np.random.default_rng(seed).normal(size=(size, 3))
    one = np.eye(size)

    @jax.jit
    def numbers(matrix, added, right, one):
        """Compiled as a whole: operation by operation, every tree takes seconds."""
        return [
            {
                "upper": factors.upper,
                "diagonal": 1 / factors.inverse_diagonal,
                "solve_upper": factors.solve_upper(one),
                "solve_upper_transposed": factors.solve_upper_transposed(one),
                "inverse": factorization.inverse_of(factors),
                "solve": factorization.solve(factors, right[:, 0]),
                "solve_columns": factorization.solve_columns(factors, right),
                "half": factorization.half_solve(factors, right.T),
                "finished": factorization.finish_solve(
                    factors, factorization.half_solve(factors, right.T)[0]
                ),
            }
            for factors in (
                eliminate(paths, jnp.triu(matrix), added),
                factorize_dense(matrix, added),
            )
        ]

    whole = matrix + np.diag(added)
    wanted = np.linalg.solve(whole, right)
    every = jax.tree.map(np.asarray, numbers(matrix, added, right, one))
    for found in every:
        upper, half = found["upper"], found["half"]
        np.testing.assert_allclose(
            upper @ np.diag(found["diagonal"]) @ upper.T, whole, atol=1e-12 * size
        )
        np.testing.assert_allclose(upper @ found["solve_upper"], one, atol=1e-11)
        np.testing.assert_allclose(
            found["solve_upper_transposed"], np.linalg.inv(upper.T), atol=1e-11
        )
        np.testing.assert_allclose(found["inverse"], np.linalg.inv(whole), atol=1e-11)
        np.testing.assert_allclose(upper, every[1]["upper"], atol=1e-12)
        np.testing.assert_allclose(found["solve"], wanted[:, 0], atol=1e-12)
        np.testing.assert_allclose(found["solve_columns"], wanted, atol=1e-12)
        np.testing.assert_allclose(half @ half.T, right.T @ wanted, atol=1e-11)
        np.testing.assert_allclose(found["finished"], wanted[:, 0], atol=1e-12)


@pytest.mark.slow
def test_derivatives_of_the_factors() -> None:
    paths = Paths((-1, 0, 0, 2, 1))
    point = matrix_of(paths), jnp.arange(1.0, 6)
    pattern = jnp.where(point[0] == 0, 0.0, 1.0)

    def symmetric(matrix):
        return pattern * 0.5 * (matrix + matrix.T)

    def parts(matrix, added):
        factors = eliminate(paths, symmetric(matrix), added)
        return (
            factors.upper,
            factors.solve_upper(jnp.eye(5)),
            factors.inverse_diagonal,
            factorization.solve(factors, added),
        )

    def inverse(matrix, added):
        return factorization.inverse_of_unsymmetric(symmetric(matrix) + jnp.diag(added))

    for function in (parts, inverse):
        check_grads(jax.jit(function), point, order=2, modes=("fwd", "rev"), atol=1e-6, rtol=1e-6)


@pytest.fixture
def all_trees_are_deep(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A function from whose call on, articulated bodies solve for all trees."""

    def deep() -> None:
        monkeypatch.setattr(factorization, "DEEPEST_PATH", 0)
        monkeypatch.setattr(factorization, "DEEPEST_PATH_OF_MANY", 0)
        factorization._is_deep.cache_clear()

    yield deep
    factorization._is_deep.cache_clear()


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_articulated_bodies_move_as_their_elimination_does(
    fixed_base: bool, all_trees_are_deep
) -> None:
    articulation = zoo(fixed_base=fixed_base, armature=0.2)
    states = random_states(articulation, 3)
    force = jnp.ones(articulation.topology.nv)

    def quantities():
        def acceleration(state, force):
            return artix.forward_dynamics(articulation, state, force)

        def moved(state):
            derivatives = artix.forward_dynamics_derivatives(articulation, state, force)
            responses = jax.jacfwd(acceleration, 1)(state, force)
            gradients = jax.grad(lambda *x: jnp.sum(acceleration(*x) ** 2), (0, 1))(state, force)
            after = artix.step(articulation, state, None, 0.01)
            return acceleration(state, force), derivatives, responses, gradients, after

        one = state_at(states, 0)
        inverse = artix.mass_matrix_inverse(articulation, one)
        cholesky = artix.mass_matrix_cholesky(articulation, one)
        return jax.jit(jax.vmap(moved))(states), inverse, cholesky

    wanted = quantities()
    all_trees_are_deep()
    found = quantities()
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9 * max(float(jnp.max(jnp.abs(b))), 1e-3))


@pytest.mark.slow
def test_articulated_bodies_solve_in_parts() -> None:
    articulation = zoo(fixed_base=False, armature=0.2)
    state = state_at(random_states(articulation, 1), 0)
    nv = articulation.topology.nv
    rights = jnp.asarray(np.random.default_rng(0).normal(size=(2, nv)))

    def parts(state: artix.State, rights: Array):
        motions, _, inertias, added = mass_product(articulation, kinematics(articulation, state))
        factors = factorization.factorize_articulated(
            articulation.topology, motions, inertias, added
        )
        half = factorization.half_solve(factors, rights)
        alike = jax.vmap(lambda right: factorization.solve(factors, right))(rights)
        return factors, half, factorization.finish_solve(factors, half[0]), alike

    factors, half, solution, solutions = jax.jit(parts)(state, rights)
    matrix = artix.mass_matrix(articulation, state, armature=True)
    wanted, scale = np.linalg.solve(matrix, rights.T).T, float(jnp.max(jnp.abs(matrix)))
    upper, diagonal = factors.upper, 1 / factors.inverse_diagonal
    np.testing.assert_allclose(upper @ jnp.diag(diagonal) @ upper.T, matrix, atol=1e-12 * scale)
    np.testing.assert_array_equal(jnp.tril(upper), np.eye(nv))
    np.testing.assert_allclose(half @ half.T, rights @ wanted.T, rtol=1e-9)
    np.testing.assert_allclose(solution, wanted[0], atol=1e-11 * np.abs(wanted).max())
    np.testing.assert_allclose(solutions, wanted, atol=1e-11 * np.abs(wanted).max())
    batch = jax.vmap(parts, (0, None))(jax.tree.map(lambda x: x[None], state), rights)
    for a, b in zip(
        jax.tree.leaves(batch), jax.tree.leaves((factors, half, solution, solutions)), strict=True
    ):
        np.testing.assert_allclose(a[0], b, atol=1e-11 * float(jnp.max(jnp.abs(b))))


@pytest.mark.slow
@BASES
def test_a_chain_of_64_in_float32(fixed_base: bool) -> None:
    """Halving, of matrices that are as wrong as all of float32, is wrong by 5e-4 to 2e-3 in such
    chains."""
    exact = tree_of(["revolute_twist", "revolute_swing1"] * 32, range(64), fixed_base=fixed_base)
    states = random_states(exact, 8)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), (exact, states))
    wanted, found = (
        jax.jit(
            jax.vmap(lambda s, a=a: artix.forward_dynamics(a, s, jnp.ones(a.topology.nv, a.dtype)))
        )(states)
        for a, states in ((exact, states), single)
    )
    assert factorization._is_deep(exact.topology, True)
    assert found.dtype == jnp.float32
    wrong = np.abs(np.asarray(found, float) - wanted).max(axis=1) / np.abs(wanted).max(axis=1)
    assert wrong.max() < 4e-4


BATCHED = (
    "root_pose",
    "joint_position",
    "joint_velocity",
    "link_mass",
    "armature",
    "gravity",
    "force",
)


@pytest.mark.parametrize("what", slow_besides(["joint_position", "link_mass", "force"], BATCHED))
def test_a_batch_of_one_argument_alone(what: str) -> None:
    articulation = zoo(fixed_base=False, armature=0.2)
    states, force = random_states(articulation, 2), jnp.ones(articulation.topology.nv)
    state = state_at(states, 0)

    def moved(scale):
        a, s, f = articulation, state, force
        if what == "force":
            f = scale * f
        elif hasattr(s, what):
            s = s.replace(**{what: scale * getattr(s, what)})
        else:
            a = a.replace(**{what: scale * getattr(a, what)})
        return artix.forward_dynamics(a, s, f)

    scales, move = jnp.asarray([1.0, 1.3, 0.7]), jax.jit(moved)
    wanted = jnp.stack([move(scale) for scale in scales])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(moved))(scales), wanted, atol=1e-10 * float(jnp.max(jnp.abs(wanted)))
    )


@pytest.mark.slow
def test_inside_a_batched_condition() -> None:
    articulation = zoo(fixed_base=False, armature=0.2)
    states, force = random_states(articulation, 3), jnp.ones(articulation.topology.nv)

    def acceleration(free, position, state):
        state = state.replace(joint_position=position)
        return jax.lax.cond(
            free,
            lambda s: artix.forward_dynamics(articulation, s, force),
            lambda s: artix.mass_matrix_solve(articulation, s, force),
            state,
        )

    free = jnp.asarray([True, False, True])
    for function in (acceleration, jax.jacfwd(acceleration, 1)):
        found = jax.jit(jax.vmap(function))(free, states.joint_position, states)
        one = jax.jit(function)
        alone = [one(free[k], states.joint_position[k], state_at(states, k)) for k in range(3)]
        np.testing.assert_allclose(found, jnp.stack(alone), atol=1e-8)


def test_levels_are_slices_of_the_order() -> None:
    # Two paths from one root: one of four entries below it, one of two.
    paths = Paths((-1, 0, 0, 1, 2, 3, 5))
    assert paths.levels == ((0,), (1, 2), (3, 4), (5,), (6,))
    assert [paths.order[level].tolist() for level in paths.slices] == [
        list(level) for level in paths.levels
    ]
    assert paths.parents(2).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("function", "length"),
    [(artix.forward_dynamics, length) for length in (4, 16)]
    + [pytest.param(artix.forward_dynamics, length, marks=pytest.mark.slow) for length in (8, 12)]
    + [
        pytest.param(artix.forward_dynamics_derivatives, length, marks=pytest.mark.slow)
        for length in (4, 8)
    ],
)
def test_the_algorithm_is_that_of_fewer_operations(
    function: Callable[..., object], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = tree_of(["revolute_swing1"] * length, range(length), fixed_base=True, dtype="float32")
    leaves, structure = jax.tree.flatten((artix.neutral_state(chain), jnp.zeros(length)))

    def operations() -> int:
        def of_arrays(*arrays):  # JAX remembers what it has traced
            return function(chain, *jax.tree.unflatten(structure, arrays))

        factorization._is_deep.cache_clear()
        jaxpr, _ = trace(of_arrays, [jax.ShapeDtypeStruct(x.shape, "float32") for x in leaves])
        return scalarize(jaxpr, [1] * len(leaves), {}, max_operations=100_000).size

    found, others = operations(), []
    for deepest in (0, 100):
        monkeypatch.setattr(factorization, "DEEPEST_PATH", deepest)
        monkeypatch.setattr(factorization, "DEEPEST_PATH_OF_MANY", deepest)
        others.append(operations())
    factorization._is_deep.cache_clear()
    assert others[0] != others[1]
    assert found == min(others)
