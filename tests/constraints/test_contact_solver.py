"""Frictional contact: against Pinocchio's solvers, by the laws themselves, and by finite
differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.dynamics.test_dynamics_derivatives import relative
from tests.support.oracle_constraints import contact_impulses
from tests.support.oracle_derivatives import differences

METHODS = pytest.mark.parametrize("method", ["admm", pytest.param("pgs", marks=pytest.mark.slow)])
FRICTION = np.array([0.6, 0.3, 0.0, 0.9])


def problems(count: int, contacts: int = 4):
    """Random problems with contacts that stick, slide and separate."""
    rng = np.random.default_rng(3)
    matrices = rng.normal(size=(count, 3 * contacts, 18))
    velocity = rng.normal(size=(count, 3 * contacts)) - np.tile([0.0, 0.0, 0.7], contacts)
    return jnp.asarray(matrices @ np.swapaxes(matrices, 1, 2)), jnp.asarray(velocity)


@pytest.mark.slow
@METHODS
def test_against_pinocchio(method: str) -> None:
    delassus, velocity = problems(12)
    friction = jnp.asarray(FRICTION)
    solve = jax.jit(
        jax.vmap(
            lambda g, v: artix.solve_contact(g, v, friction, method=method, iterations=5000),
            in_axes=(0, 0),
        )
    )
    found = solve(delassus, velocity)
    assert np.max(found.residual) <= 1e-12
    wanted = [
        contact_impulses(g, v, FRICTION, method) for g, v in zip(delassus, velocity, strict=True)
    ]
    assert relative(found.impulse, wanted) <= 1e-9
    impulse, after = (np.reshape(x, (-1, 3)) for x in (found.impulse, found.velocity))
    bound = np.tile(FRICTION, len(delassus)) * impulse[:, 2]
    pull, slip = np.linalg.norm(impulse[:, :2], axis=1), np.linalg.norm(after[:, :2], axis=1)
    touching = impulse[:, 2] > 1e-9
    # Signorini's and Coulomb's laws, and that the problems have contacts of every kind.
    assert np.all(after[:, 2] >= -1e-9)
    np.testing.assert_allclose(after[touching, 2], 0, atol=1e-9)
    assert np.all(pull <= bound + 1e-9)
    sliding = touching & (slip > 1e-6)
    np.testing.assert_allclose(pull[sliding], bound[sliding], atol=1e-9)
    work = np.sum(impulse[:, :2] * after[:, :2], axis=1)
    np.testing.assert_allclose(work, -pull * slip, atol=1e-9)
    for kind in (~touching, sliding, touching & ~sliding):
        assert 3 <= np.sum(kind) <= len(touching) - 3


@pytest.mark.slow
def test_derivatives_against_differences() -> None:
    """Implicit ones, in both modes, of contacts that stick, slide and separate."""
    delassus, velocity = problems(12)
    friction = jnp.asarray(FRICTION)
    change = problems(1)[0][0] / 20

    def impulse(x, g, v):
        return artix.solve_contact(
            g + x[0] * change, v * (1 + x[1]), friction + x[2] * friction, iterations=5000
        ).impulse

    weights = jnp.cos(jnp.arange(1.0, 13.0))
    values = jax.jit(jax.vmap(impulse, in_axes=(None, 0, 0)))
    forward = jax.jit(jax.vmap(jax.jacfwd(impulse), in_axes=(None, 0, 0)))
    reverse = jax.jit(jax.vmap(jax.grad(lambda *x: impulse(*x) @ weights), in_axes=(None, 0, 0)))
    zero = jnp.zeros(3)
    found = forward(zero, delassus, velocity)
    wanted = differences(
        lambda x: values(x, delassus, velocity), lambda k, h: h * jnp.eye(3)[k], 3, step=1e-5
    )
    assert relative(found, wanted) <= 1e-7
    np.testing.assert_allclose(
        reverse(zero, delassus, velocity), jnp.einsum("j,bjk->bk", weights, found), atol=1e-9
    )


def standing_box(dtype="float64") -> tuple[artix.Articulation, artix.State, artix.Contacts]:
    """A box of 2 kg on a slope, on its four corners: twelve rows, of which six are redundant."""
    builder = artix.ArticulationBuilder(fixed_base=False, gravity=(3.0, 0.0, -9.0))
    builder.add_link(mass=2.0, inertia=[0.1, 0.1, 0.1], name="box")
    a = builder.build(dtype)
    corners = jnp.asarray([[x, y, -0.1] for x in (-0.2, 0.2) for y in (-0.3, 0.3)], dtype)
    normal = jnp.tile(jnp.asarray([0.0, 0.0, 1.0], dtype), (4, 1))
    return (
        a,
        artix.neutral_state(a),
        artix.Contacts((0,) * 4, corners, normal, jnp.full(4, 0.8, dtype), jnp.zeros(4, dtype)),
    )


@pytest.mark.slow
@METHODS
def test_a_box_on_a_slope(method: str, dtype) -> None:
    """It stands where friction holds it, and else slides with ``g_x - mu g_z``; four corners are
    redundant."""
    a, state, contacts = standing_box(dtype)
    step = jax.jit(
        lambda c: artix.contact_forces(
            a, state, jnp.zeros(6, dtype), c, 0.01, method=method, iterations=300
        )
    )
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    found = step(contacts)
    np.testing.assert_allclose(found.velocity, np.zeros(6), atol=tolerance)
    np.testing.assert_allclose(
        jnp.sum(found.force, axis=0), [-6.0, 0.0, 18.0], atol=1e3 * tolerance
    )
    assert found.force.dtype == dtype
    found = step(contacts.replace(friction=0 * contacts.friction + 0.1))
    np.testing.assert_allclose(found.velocity[0], 0.01 * (3.0 - 0.1 * 9.0), atol=tolerance)
    # A hand's breadth above the ground nothing holds it; nearly there it may fall as far as the
    # gap.
    found = step(contacts.replace(gap=0 * contacts.gap + 0.1))
    np.testing.assert_allclose(found.force, 0, atol=tolerance)
    found = step(contacts.replace(gap=0 * contacts.gap + 2e-4))
    np.testing.assert_allclose(found.velocity[2], -0.02, atol=tolerance)


def test_velocities_follow_from_the_forces() -> None:
    """``velocity == nu + dt forward_dynamics`` under what the points carry, whatever the law."""
    robot = artix.robots.load("double_pendulum").astype("float64")
    point, normal, friction = (
        np.array([[0.1, 0.0, -1.0]]),
        np.array([[0.6, 0.0, 0.8]]),
        np.array([0.5]),
    )
    contacts = artix.Contacts(
        (2,), *(jnp.asarray(x) for x in (point, normal, friction, np.zeros(1)))
    )
    state = artix.neutral_state(robot).replace(
        joint_position=jnp.array([0.3, -0.4]), joint_velocity=jnp.array([1.0, 0.5])
    )
    push = jnp.array([0.2, -0.1])
    found = artix.contact_forces(robot, state, push, contacts, 0.01)
    assert jnp.sum(found.force * normal) > 1
    offset = jnp.array([*point[0], 0.0, 0.0, 0.0, 1.0])
    jacobian = artix.frame_jacobian(robot, state, 2, offset)[:3]
    acceleration = artix.forward_dynamics(robot, state, push + jacobian.T @ found.force[0])
    np.testing.assert_allclose(
        found.velocity, state.joint_velocity + 0.01 * acceleration, atol=1e-12
    )


@pytest.mark.slow
def test_gradients_of_redundant_contacts() -> None:
    """The forces are not unique, but their sum is, and so is its derivative by what pushes the
    box."""
    a, state, contacts = standing_box()

    def push(force):
        found = artix.contact_forces(a, state, force, contacts, 0.01, iterations=300)
        return jnp.concatenate([jnp.sum(found.force, axis=0), found.velocity])

    found = jax.jit(jax.jacfwd(push))(jnp.zeros(6))
    np.testing.assert_allclose(found[:3, :3], -np.eye(3), atol=1e-6)
    np.testing.assert_allclose(found[3:], 0, atol=1e-8)


def test_refusals() -> None:
    delassus, velocity = jnp.eye(3), jnp.zeros(3)
    with pytest.raises(ValueError, match="method must be"):
        artix.solve_contact(delassus, velocity, jnp.ones(1), method="newton")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"delassus: expected shape \(6, 6\)"):
        artix.solve_contact(delassus, velocity, jnp.ones(2))
    with pytest.raises(TypeError, match="friction"):
        artix.solve_contact(delassus, velocity, jnp.ones(1, "float32"))
    with pytest.raises(ValueError, match="iterations must be at least 1"):
        artix.solve_contact(delassus, velocity, jnp.ones(1), iterations=0)
    with pytest.raises(
        ValueError, match="penalty: expected one number, finite and positive; found -1"
    ):
        artix.constraints.solve_contact(delassus, velocity, jnp.ones(1), penalty=-1)
    body, force, up = (
        artix.robots.load("double_pendulum"),
        jnp.zeros(2),
        jnp.array([[0.0, 0.0, 1.0]]),
    )
    state, one = artix.neutral_state(body), jnp.zeros(1)
    body, state = (jax.tree.map(lambda x: x.astype(force.dtype), each) for each in (body, state))
    for links, error, message in (
        ((9,), IndexError, "contacts.links: there is no link 9; links are numbered from 0 to 2"),
        ((True,), IndexError, "contacts.links: there is no link True"),
        ((), ValueError, "contacts.links: no contacts were given"),
    ):
        contacts = artix.Contacts(
            links, 0 * up[: len(links)], up[: len(links)], one[: len(links)], one[: len(links)]
        )
        with pytest.raises(error, match=message):
            artix.contact_forces(body, state, force, contacts, 0.01)
    contacts = artix.Contacts((2,), 0 * up, up, one, one)
    with pytest.raises(ValueError, match="dt: expected zero or more seconds"):
        artix.contact_forces(body, state, force, contacts, -0.01)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["admm", "pgs"])
def test_contacts_that_cannot_move_leave_the_others_alone(method: str) -> None:
    """A contact on a fixed root, one along whose normal nothing moves, and all of them together."""
    delassus, velocity = (x[0] for x in problems(1))
    friction = jnp.asarray(FRICTION)

    def solve(delassus, velocity):
        return artix.constraints.solve_contact(
            delassus, velocity, friction, method=method, iterations=300
        ).impulse

    moves = np.ones(12)
    moves[3:6] = 0.0
    found = solve(delassus * moves[:, None] * moves, velocity * moves)
    alone = np.flatnonzero(moves)
    expected = artix.constraints.solve_contact(
        delassus[alone][:, alone],
        velocity[alone],
        friction[np.array([0, 2, 3])],
        method=method,
        iterations=300,
    )
    np.testing.assert_allclose(found[alone], expected.impulse, atol=1e-6)
    for rows in (slice(3, 6), slice(5, 6), slice(0, 12)):
        moves = np.ones(12)
        moves[rows] = 0.0
        problem = delassus * moves[:, None] * moves, velocity * moves
        assert np.all(np.isfinite(solve(*problem)))
        assert all(
            np.all(np.isfinite(x))
            for x in jax.grad(lambda *x: jnp.sum(jnp.sin(solve(*x))), (0, 1))(*problem)
        )
