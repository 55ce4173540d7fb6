"""What users pay beyond a known robot's program: parameters of their own, calls outside ``jax.jit``, mixed fleets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.evaluation.compilation import scalars_of
from artix.evaluation.scalar_program import Op


def operations(function: Callable[..., Any], *arguments: Any) -> int:
    return sum(sum(cost.operations) for cost in artix.explain(function, *arguments).operations)


@pytest.mark.slow
def test_parameters_of_its_own_cost_a_robot_a_bounded_share() -> None:
    """Forward dynamics of a quadruped: masses as arguments 2 % more operations, all parameters 115 %."""
    robot = artix.robots.load("quadruped")
    rest = artix.neutral_state(robot), jnp.zeros(robot.topology.nv, robot.dtype)
    known = operations(artix.forward_dynamics, robot, *rest)
    masses = operations(
        lambda robot, masses, state, force: artix.forward_dynamics(robot.replace(link_mass=masses), state, force),
        robot,
        robot.link_mass,
        *rest,
    )
    everything = operations(lambda _, own, state, force: artix.forward_dynamics(own, state, force), robot, robot, *rest)
    assert known < masses < 1.05 * known
    assert masses < everything < 2.3 * known


@pytest.mark.slow
def test_a_call_outside_jit_is_traced_and_compiled_once() -> None:
    """Other states of the same shapes reach a program that is ready."""
    robot = artix.robots.load("cart_pole")
    force = jnp.zeros(2, robot.dtype)
    calls = (
        lambda state: artix.mass_matrix(robot, state),
        lambda state: artix.forward_dynamics(robot, state, force),
        lambda state: artix.step(robot, state, None, 0.01),
    )
    states = [artix.neutral_state(robot).replace(joint_position=jnp.full(2, k, robot.dtype)) for k in (0.0, 0.1, 0.2)]
    for call in calls:
        call(states[0]), call(states[1])
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    try:
        for call in calls:
            call(states[2])
        assert not [name for name in events if "trace" in name or "compile" in name]
        jax.jit(lambda x: x + 1)(force)
        assert [name for name in events if "compile" in name]  # it is heard
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.slow
def test_a_mixed_fleet_costs_what_its_members_cost() -> None:
    """The mass matrix by kinds: each kind's rows run the program of the robot by itself."""
    robots = [artix.robots.load(name) for name in ("cart_pole", "double_pendulum")]
    fleet = artix.Fleet(robots * 3)
    state = fleet.random_state(jax.random.key(0))
    (call,) = jax.make_jaxpr(lambda state: fleet.evaluate(artix.mass_matrix, state))(state).eqns
    (rows,) = call.params["jaxpr"].eqns
    programs = rows.params["programs"].programs
    assert [each.rows.tolist() for each in programs] == [[0, 2, 4], [1, 3, 5]]
    for each, robot in zip(programs, robots, strict=True):
        scalars = scalars_of(each.program, each.levels)
        found = int(np.count_nonzero(scalars.operations > Op.CONSTANT))
        assert 0 < found <= operations(artix.mass_matrix, robot, artix.neutral_state(robot))
