"""Equal parts of a robot on neighbouring threads: the same results from fewer operations."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import artix
from artix.compiler import lanes
from artix.compiler.batch_axes import groups_of, levels_of, merged
from artix.compiler.compilation import scalars_of
from artix.compiler.kernels import available
from artix.compiler.kernels.gpu_layout import Layout, Mapped
from artix.compiler.lanes import in_lanes
from artix.compiler.operation import program_p
from artix.compiler.scalar_order import fewest_live
from artix.compiler.scalar_program import Op, ScalarProgram
from tests.support.gpu_threads import run_threads
from tests.support.programs import operands_of, rows_of
from tests.support.scalar_interpreter import check_program, interpret

COUNT = 9


@pytest.fixture(autouse=True)
def _of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LEAST", 0)


def traced(robot: artix.Articulation, name: str) -> tuple[ScalarProgram, list[np.ndarray]]:
    """The program of a function of random states, and its operands, one row for each."""
    scene = artix.Scene(robot, ground=artix.Ground.flat(dtype=robot.dtype))
    functions: dict[str, Any] = {
        "inverse dynamics": lambda s, x: artix.inverse_dynamics(robot, s, x),
        "forward dynamics": lambda s, x: artix.forward_dynamics(robot, s, x),
        "step": lambda s, x: artix.step(robot, s, None, 1 / 120),
        "step on the ground": lambda s, x: artix.step(scene, s, None, 1 / 120),
    }
    keys = jax.random.split(jax.random.key(2), COUNT)
    states = jax.vmap(functools.partial(artix.random_state, robot))(keys)
    forces = jax.random.normal(jax.random.key(3), (COUNT, robot.topology.nv), robot.dtype)
    jaxpr = jax.make_jaxpr(jax.vmap(functions[name]))(states, forces)
    (equation,) = [each for each in jaxpr.eqns if each.primitive is program_p]
    axes = merged(groups_of(equation.params["axes"], equation.params["program"].num_operand_values))
    leaves = dict(zip(jaxpr.jaxpr.invars, jax.tree.leaves((states, forces)), strict=True))
    rows = rows_of(operands_of(jaxpr, leaves, equation), axes)
    return scalars_of(equation.params["program"], levels_of(axes, len(rows))), rows


def check(
    robot: artix.Articulation, name: str, count: int, share: float, ulps: float
) -> ScalarProgram:
    """The program of a lane beside the program, by NumPy; all lanes of a robot have the same
    results, bit for bit."""
    program, rows = traced(robot, name)
    shared, number = in_lanes(program)
    assert number == count
    assert shared.size <= share * program.size
    check_program(fewest_live(shared))
    expected = interpret(program, rows)
    results = interpret(fewest_live(shared), [np.repeat(row, count, axis=0) for row in rows], count)
    for one, other in zip(results, expected, strict=True):
        by_lane = one.reshape(COUNT, count, *one.shape[1:])
        np.testing.assert_array_equal(by_lane, np.broadcast_to(by_lane[:, :1], by_lane.shape))
        if np.issubdtype(other.dtype, np.floating):
            unit = np.finfo(other.dtype).eps * np.abs(other).max(initial=1e-3)
            np.testing.assert_allclose(by_lane[:, 0] / unit, other / unit, atol=ulps)
        else:
            np.testing.assert_array_equal(by_lane[:, 0], other)
    return shared


def load(name: str, dtype: str = "float32") -> artix.Articulation:
    return artix.robots.load(name, dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_legs_of_a_quadruped(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        check(load("quadruped", dtype), "inverse dynamics", 4, 0.33, 40)
        check(load("quadruped", dtype), "forward dynamics", 4, 0.35, 400)


def test_sides_of_a_humanoid() -> None:
    check(load("humanoid"), "inverse dynamics", 2, 0.6, 40)


def test_a_robot_without_equal_parts_has_one_thread() -> None:
    program, _ = traced(load("arm7"), "forward dynamics")
    same, count = in_lanes(program)
    assert count == 1
    assert same is program


def test_short_programs_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LEAST", 8192)
    program, _ = traced(load("quadruped"), "inverse dynamics")
    assert in_lanes(program)[1] == 1


def test_legs_of_other_lengths_are_no_lanes() -> None:
    """Only the kind of what differs matters: masses may differ from leg to leg, and then there are
    fewer lanes."""
    robot = load("quadruped")
    front = np.array(["front" in name for name in robot.topology.link_names])
    heavier = robot.replace(
        link_mass=robot.link_mass * np.where(front, 1.5, 1.0).astype(np.float32)
    )
    check(heavier, "inverse dynamics", 2, 0.6, 40)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("step", 0.42), ("step on the ground", 0.56)])
def test_steps(name: str, most: float) -> None:
    # A Newton step on the ground solves twice with its factors, which legs do not share; so there
    # are fewer of them. What follows from impulses of contacts that sweeps solve one after the
    # other is no leg's own either.
    # Newton's method ends where it is exact enough; sums in another order may take it elsewhere
    # within that.
    shared = check(load("quadruped"), name, 4, most, 4000)
    assert any(loop.has_condition for loop in shared.loops)
    assert np.count_nonzero(shared.operations == Op.SHUFFLE) > 100


@pytest.mark.slow
@pytest.mark.skipif(available() is not None, reason=f"no kernels here: {available()}")
def test_threads_that_run_at_the_same_time() -> None:
    program, rows = traced(load("quadruped"), "step")
    shared, count = in_lanes(program)
    layout = Layout(fewest_live(shared), [Mapped(True, False)] * len(rows), False, count)
    for one, other in zip(run_threads(layout, rows, COUNT), interpret(program, rows), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5 * np.abs(other).max(initial=1e-3))
