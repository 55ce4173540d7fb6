"""Sweeps guess what sticks, slides and pushes: few Newton steps are left, and unknown loads stay
equal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Control, Ground, Scene, SolverOptions
from artix.envs.tasks.quadruped_velocity import quadruped
from artix.simulation.implicit.first_guess import held_response
from artix.simulation.implicit.system import Response

DT = 0.004


def thrown(robot: artix.Articulation, scene: Scene, key: jax.Array) -> artix.State:
    """A random state 0.1 m above the ground."""
    state = artix.random_state(robot, key)
    state = state.replace(root_pose=state.root_pose.at[:3].set(0))
    low = jnp.min(artix.geometry_distances(scene, state))
    return state.replace(root_pose=state.root_pose.at[2].add(0.1 - low))


@pytest.mark.slow
def test_three_newton_steps_suffice() -> None:
    """For quadrupeds that tumble, with drives at their limits and dry friction: without sweeps, for
    84 %."""
    model = quadruped("float32")
    robot, control = (
        model.articulation,
        Control(drive_target=jnp.asarray(model.default_position, "float32")),
    )
    scene = Scene(robot, ground=Ground.flat(friction=0.8).astype("float32"))

    def residual(key):
        start = artix.remember_contacts(scene, thrown(robot, scene, key))
        end = jax.lax.fori_loop(
            0, 60, lambda _, state: artix.step(scene, state, control, DT), start
        )
        few = SolverOptions(max_newton_steps=3)
        return artix.step_and_report(scene, end, control, DT, few)[1].velocity_residual.max

    residuals = np.asarray(jax.jit(jax.vmap(residual))(jax.random.split(jax.random.key(0), 256)))
    assert np.mean(residuals < 5e-5) >= 0.96


@pytest.mark.slow
def test_no_landing_takes_many_newton_steps() -> None:
    """Quadrupeds whose feet are above and below the ground, without a memory; a warp waits for the
    slowest.

    Unless steps are shortened, 2 % of the robots need more than twelve.
    """
    robot = artix.robots.load("quadruped", dtype="float32")
    count = robot.topology.num_dofs
    gains = {"stiffness": jnp.full(count, 30.0, "float32"), "damping": jnp.ones(count, "float32")}
    robot = robot.replace(drive=robot.drive.replace(**gains))
    scene = Scene(robot, ground=Ground.flat().astype("float32"))
    start = artix.neutral_state(robot)
    start = start.replace(
        root_pose=start.root_pose.at[2].set(-jnp.min(artix.geometry_distances(scene, start)))
    )
    noise = 0.1 * jax.random.normal(jax.random.key(0), (1024, count), "float32")

    def is_solved(position):
        few = SolverOptions(max_newton_steps=12)
        return artix.step_and_report(
            scene, start.replace(joint_position=position), None, 1 / 120, few
        )[1].is_solved

    solved = np.asarray(jax.jit(jax.vmap(is_solved))(noise))
    assert np.mean(solved) >= 0.998, np.mean(solved)


@pytest.mark.slow
def test_feet_that_stand_alike_carry_alike() -> None:
    """Sweeps take the feet one after the other, but their order does not share the load."""
    model = quadruped("float64")
    robot, scene = model.articulation, Scene(model.articulation, ground=Ground.flat(friction=0.8))
    state = artix.neutral_state(robot).replace(joint_position=jnp.asarray(model.default_position))
    low = jnp.min(artix.geometry_distances(scene, state))
    state = state.replace(root_pose=state.root_pose.at[2].add(-low))
    control = Control(drive_target=jnp.asarray(model.default_position))
    # With the state as data: XLA evaluates what depends on constants alone while it compiles.
    step = jax.jit(lambda state: artix.step_and_report(scene, state, control, DT)[1])
    report = step(state)
    force = np.asarray(report.contacts.force)
    assert np.all(force[:, 2] > 1)
    # Left and right are mirror images.
    np.testing.assert_allclose(force[[0, 2]] * [1, -1, 1], force[[1, 3]], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rank", [3, 1])
def test_responses_while_contacts_hold(dtype: str, rank: int) -> None:
    """Those of a system with equations for what holds: all of it, the normal, or nothing. A contact
    with fewer directions than three holds those that it has.
    """
    rng = np.random.default_rng(0)
    size, count = 8, 3
    matrix = rng.standard_normal((size, size))
    mass = matrix @ matrix.T + size * np.eye(size)
    directions = rng.standard_normal((count, 3, size))
    if rank == 1:  # All of its motions are one.
        directions = directions[:, :, :1] * rng.standard_normal((count, 1, size))
    impulses = np.array([[0.1, 0.2, 1.0], [3.0, 4.0, 1.0], [0.0, 0.0, 0.0]])
    holds = [[0, 1, 2], [2], []]
    moved = np.array([[True, True, False], [False, True, True], [True, True, True]])
    response = np.linalg.inv(mass)
    blocks = np.einsum("kaj,jl,kbl->kab", directions, response, directions)
    expected = np.diag(response)[-3:].copy()
    for dof in range(3):
        for contact in np.flatnonzero(moved[:, dof]):
            if holds[contact]:
                rows = directions[contact, holds[contact]]
                held = rows.T @ np.linalg.pinv(rows @ response @ rows.T, rcond=1e-9) @ rows
                free = response - response @ held @ response
                expected[dof] = min(expected[dof], free[size - 3 + dof, size - 3 + dof])

    def array(values: np.ndarray) -> jax.Array:
        return jnp.asarray(values, dtype)

    each = SimpleNamespace(
        reach=array(np.eye(3 * count).reshape(count, 3, 3 * count)),
        normal=array(blocks[:, 2, 2]),
        tangential=array(np.maximum(blocks[:, 0, 0], blocks[:, 1, 1])),
        friction=array(np.ones(count)),
    )
    rows: Any = SimpleNamespace(
        still=array(np.zeros(size)),
        places=np.arange(size - 3, size),
        dofs=SimpleNamespace(response=array(np.diag(response)[-3:])),
        contacts=SimpleNamespace(each=each, motions=array(directions.reshape(-1, size))),
    )
    held = held_response(rows, Response(None, array(response)), moved, array(impulses))
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(held, expected, rtol=tolerance)


@pytest.mark.parametrize("solver", ["implicit", "tgs", "pgs"])
def test_what_cannot_move_stays(solver: str) -> None:
    """A table, which has no joint, alone and beside a robot."""
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(mass=1.0, inertia=(1, 1, 1), name="table")
    table, arm = builder.build(), artix.robots.load("cart_pole")
    options = SolverOptions(solver=solver)
    state = artix.neutral_state(table)
    alone = artix.step(table, state, None, DT, options)
    np.testing.assert_array_equal(alone.root_pose, state.root_pose)
    assert alone.joint_position.shape == (0,)
    if solver == "implicit":
        scene = Scene({"arm": arm, "table": table})
        both = artix.step(scene, {"arm": artix.neutral_state(arm), "table": state}, None, DT)
        np.testing.assert_array_equal(both["table"].root_pose, state.root_pose)
        assert np.isfinite(both["arm"].joint_velocity).all()
