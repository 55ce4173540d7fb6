"""What users pay beyond a known robot's program: parameters of their own, calls outside
``jax.jit``, mixed fleets, and what comes before the first quantity."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.compiler import kernels
from artix.compiler.compilation import scalars_of
from artix.compiler.quantity import call_of
from artix.compiler.scalar_program import Op


def operations(function: Callable[..., Any], *arguments: Any) -> int:
    return sum(sum(cost.operations) for cost in artix.explain(function, *arguments).operations)


@pytest.mark.slow
def test_parameters_of_its_own_cost_a_robot_a_bounded_share() -> None:
    """Forward dynamics of a quadruped: masses as arguments 2 % more operations, all parameters 115
    %."""
    robot = artix.robots.load("quadruped")
    rest = artix.neutral_state(robot), jnp.zeros(robot.topology.nv, robot.dtype)
    known = operations(artix.forward_dynamics, robot, *rest)
    masses = operations(
        lambda robot, masses, state, force: artix.forward_dynamics(
            robot.replace(link_mass=masses), state, force
        ),
        robot,
        robot.link_mass,
        *rest,
    )
    everything = operations(
        lambda _, own, state, force: artix.forward_dynamics(own, state, force), robot, robot, *rest
    )
    assert known < masses < 1.05 * known
    assert masses < everything < 2.3 * known


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """The names of what JAX traces and compiles meanwhile."""
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    try:
        yield events
    finally:
        jax.monitoring.clear_event_listeners()


def compilations(call: Callable[[], Any]) -> int:
    """How many programs a call compiles, when nothing has been compiled before."""
    jax.clear_caches()
    with heard() as events:
        call()
    return sum("backend_compile" in name for name in events)


@pytest.mark.slow
def test_setting_up_compiles_nothing(tmp_path: Path) -> None:
    """Each of some 70 arrays of a robot would cost 10 ms or more. What computes is one program."""
    robot, arm = artix.robots.load("quadruped"), artix.robots.load("arm7")
    files = [tmp_path / f"robot.{suffix}" for suffix in ("urdf", "xml", "usda", "npz")]
    state, fleet, joint = (
        artix.neutral_state(robot),
        artix.Fleet([robot, arm]),
        robot.topology.joint_names[0],
    )
    states, parameters = fleet.neutral_state(), artix.dynamic_parameters(robot)
    artix.save(robot, files[1])
    mujoco = pytest.importorskip("mujoco").MjModel.from_xml_path(str(files[1]))
    key, coordinates = jax.random.key(0), artix.MujocoCoordinates(robot, mujoco)
    nothing = {
        "load": lambda: artix.robots.load("humanoid"),
        "neutral state": lambda: artix.neutral_state(robot),
        "save": lambda: [artix.save(robot, file) for file in files],
        "load files": lambda: [artix.load(file) for file in files],
        "convert": lambda: robot.astype("float64").astype("float32"),
        "fleet": lambda: artix.Fleet([robot, arm] * 2),
        "fleet's states": lambda: (
            fleet.neutral_state(),
            fleet.stack_states([state, artix.neutral_state(arm)]),
        ),
        "member": lambda: (
            fleet.member(1),
            fleet.member_state(states, 1),
            fleet.replace_member(1, robot),
        ),
        "attach": lambda: artix.attach_articulation(
            robot, robot.topology.link_names[0], arm, prefix="arm_"
        ),
        "builder": lambda: artix.builder_from_articulation(robot).build(),
        "ground": lambda: (
            artix.Ground.flat(),
            artix.HeightField.of(np.zeros((3, 3)), spacing=(1.0, 1.0)),
        ),
        "contact memory": lambda: artix.remember_contacts(
            artix.Scene(robot, ground=artix.Ground.flat()), state
        ),
        "task": lambda: [envs.make(name) for name in ("quadruped_velocity", "arm_reach")],
    }
    assert {name: compilations(call) for name, call in nothing.items()} == dict.fromkeys(nothing, 0)
    one = {
        "random state": lambda: artix.random_state(robot, key),
        "lock": lambda: artix.lock_joints(robot, state, [joint]),
        "mimic map": lambda: artix.mimic_map(robot),
        "MuJoCo's coordinates": lambda: coordinates.state(mujoco.qpos0, np.zeros(mujoco.nv)),
        "dynamic parameters": lambda: artix.with_dynamic_parameters(robot, parameters),
    }
    # So they are heard.
    assert {name: compilations(call) for name, call in one.items()} == dict.fromkeys(one, 1)


@pytest.mark.slow
def test_a_call_outside_jit_is_traced_and_compiled_once() -> None:
    """Other states of the same shapes, and other numbers, reach a program that is ready."""
    robot = artix.robots.load("cart_pole")
    force = jnp.zeros(2, robot.dtype)
    calls = (
        lambda state: artix.mass_matrix(robot, state),
        lambda state: artix.forward_dynamics(robot, state, force),
        lambda state: artix.step(robot, state, None, 0.01 + float(state.joint_position[0])),
        lambda state: artix.interpolate(
            robot, artix.neutral_state(robot), state, float(state.joint_position[0])
        ),
    )
    states = [
        artix.neutral_state(robot).replace(joint_position=jnp.full(2, k, robot.dtype))
        for k in (0.0, 0.1, 0.2)
    ]
    for call in calls:
        call(states[0]), call(states[1])
    with heard() as events:
        for call in calls:
            call(states[2])
        assert not [name for name in events if "trace" in name or "compile" in name]
        jax.jit(lambda x: x + 1)(force)
        assert [name for name in events if "compile" in name]  # it is heard


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


def test_explaining_says_what_a_first_call_costs() -> None:
    """The processor time that it takes to compile is within a factor of four of the estimate, which
    grows with it."""
    robot = artix.robots.load("humanoid")
    program = call_of(artix.mass_matrix, robot, artix.neutral_state(robot)).program
    scalars = scalars_of(program, (1,) * len(program.traced))
    start = time.process_time()
    kernels.build(scalars)
    seconds, estimate = time.process_time() - start, kernels.seconds_per_operation() * scalars.size
    # What does not depend on the program's size
    assert estimate < 4 * seconds and seconds < 4 * estimate + 0.2
    explained = artix.explain(artix.mass_matrix, robot)
    assert explained.first_call > estimate
    assert f"first call: about {explained.first_call:.1g} s of processor time" in str(explained)


def test_explaining_asks_for_what_it_cannot_guess() -> None:
    arm = artix.robots.load("arm7")
    with pytest.raises(ValueError, match="give an example of the argument 'frame' of"):
        artix.explain(artix.supported_inertia, arm)


def test_a_function_that_closes_over_its_robot_is_explained() -> None:
    arm = artix.robots.load("arm7")
    state = artix.neutral_state(arm)
    wanted = artix.explain(artix.mass_matrix, arm).operations
    assert artix.explain(lambda state: artix.mass_matrix(arm, state), state).operations == wanted
    (operand,) = artix.explain(
        lambda state, arm: artix.mass_matrix(arm, state), state, arm
    ).operations
    assert sum(operand.operations) > sum(wanted[0].operations)  # Its parameters are not known.
    energy = jax.jit(jax.grad(lambda state: artix.kinetic_energy(arm, state)))
    assert [cost.refusal for cost in artix.explain(energy, state).operations] == [None, None]
    assert artix.explain(jnp.sin, jnp.zeros(3)).operations == ()


def test_the_environment_switches_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    pole = artix.robots.load("cart_pole")
    monkeypatch.setenv("ARTIX_KERNELS", "0")
    (cost,) = artix.explain(artix.mass_matrix, pole).operations
    assert cost.refusal == "kernels are switched off"
    monkeypatch.setenv("ARTIX_KERNELS", "false")
    with pytest.raises(
        ValueError, match="the environment variable ARTIX_KERNELS must be 0 or 1, found 'false'"
    ):
        artix.explain(artix.mass_matrix, pole)


@pytest.mark.slow
def test_bytes_are_those_of_arrays_that_are_needed() -> None:
    """Whole arrays, though not those on which nothing depends; of an array loaded by index, the
    entries loaded."""
    arm = artix.robots.load("arm7")
    size, state = np.dtype(arm.dtype).itemsize, artix.neutral_state(arm)
    (gravity,) = artix.explain(artix.gravity_compensation, arm).operations
    (bias,) = artix.explain(artix.bias_force, arm).operations
    assert (gravity.bytes_read, bias.bytes_read) == (
        14 * size,
        21 * size,
    )  # the pose of the base, too
    (masses,) = artix.explain(
        lambda arm, mass: artix.gravity_compensation(arm.replace(link_mass=mass), state),
        arm,
        arm.link_mass,
    ).operations
    assert masses.bytes_read == arm.link_mass.nbytes
    heights = jnp.zeros((100, 90), arm.dtype)

    def distances(arm, state, heights):
        ground = artix.Ground((artix.HeightField.of(heights, spacing=(0.1, 0.1), dtype=arm.dtype),))
        return artix.geometry_distances(artix.Scene(arm, ground=ground), state)

    (field,) = artix.explain(distances, arm, state, heights).operations
    assert 7 * size < field.bytes_read < heights.nbytes / 10


def test_explaining_takes_names() -> None:
    arm = artix.robots.load("arm7")
    (parameters,) = artix.explain(artix.dynamic_parameters, arm).operations
    assert parameters.refusal == "it only moves numbers"
    by_name, by_number = (
        artix.explain(artix.frame_pose, arm, artix.neutral_state(arm), x) for x in ("upper_arm", 3)
    )
    assert by_name == by_number and sum(by_name.operations[0].operations) > 0


def test_what_is_known_is_not_compiled_by_xla() -> None:
    """Its numbers are those of NumPy; where little leads to them, XLA can fuse it with others."""

    def sines(known, x, count):
        for _ in range(count):
            known = jnp.sin(known) + 1
        return known, x

    known, quantity = jnp.arange(3.0), artix.quantity(sines)
    wanted = np.arange(3.0)
    for _ in range(60):
        wanted = np.sin(wanted) + 1
    for count, has_kernel in ((60, True), (2, False)):
        program = jax.jit(lambda x, count=count: quantity(known, x, count)).lower(jnp.ones(3))
        assert (program.as_text().count("sine") == 0) == has_kernel
        if has_kernel:
            found, x = program.compile()(jnp.ones(3))
            np.testing.assert_allclose(found, wanted, rtol=1e-14)
            np.testing.assert_array_equal(x, 1)
