"""Budgets of scalar operations for every function, and when functions are recompiled.

Regenerate the tables of budgets, after looking at what changed, with
``python -m tests.compiler.test_programs``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import ArticulationBuilder, Axis, Joint
from artix.compiler import compilation
from tests.support.models import random_states, state_at, tree_of
from tests.support.quantities import FUNCTIONS, QUANTITIES

#: Scalar operations of one robot whose parameters are known, by robot and function: measured plus 5
#: %. -1 stands for a program that is left to XLA.
BUDGETS_FILE = Path(__file__).parents[1] / "data" / "operation_budgets.json"
BUDGETS: dict[str, dict[str, int]] = (
    json.loads(BUDGETS_FILE.read_text()) if BUDGETS_FILE.exists() else {}
)


def _limbs(lengths: list[int], *, fixed_base: bool) -> artix.Articulation:
    kinds, parents = [], []
    for length in lengths:
        for k in range(length):
            parents.append(0 if k == 0 else len(kinds))
            kinds.append(("revolute_twist", "revolute_swing1", "revolute_swing2")[k % 3])
    return tree_of(kinds, parents, fixed_base=fixed_base, dtype="float32")


def _chain() -> artix.Articulation:
    builder = ArticulationBuilder(fixed_base=True, name="chain")
    link = builder.add_link(mass=1.0, inertia=[0.1, 0.1, 0.1])
    for _ in range(64):
        joint = Joint.revolute(Axis.SWING1, parent_pose=[0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        link = builder.add_link(
            link,
            joint,
            mass=1.0,
            com_pose=[0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            inertia=[0.1, 0.1, 0.1],
        )
    builder.add_frame("tool", link)
    return builder.build("float32")


ROBOTS = {
    "arm": lambda: _limbs([7], fixed_base=True),
    "quadruped": lambda: _limbs([3, 3, 3, 3], fixed_base=False),
    "humanoid": lambda: _limbs([6, 6, 3, 7, 7, 1], fixed_base=False),
    "chain": _chain,
}

#: Steps, by solver.
STEPS = {solver: artix.SolverOptions(solver=solver) for solver in ("implicit", "pgs", "rk4")}


def operations(
    function: Callable[..., Any], articulation: artix.Articulation, *arguments: Any
) -> int:
    """Scalar operations of all kernels of a function; -1 if XLA evaluates one of them."""
    costs = artix.explain(function, articulation, *arguments).operations
    return (
        -1 if any(cost.refusal for cost in costs) else sum(sum(cost.operations) for cost in costs)
    )


def counted(robot: str) -> dict[str, Callable[[], int]]:
    """What is counted of a robot, by name."""
    a = ROBOTS[robot]()
    s = state_at(random_states(a, 1), 0)
    x, w = jnp.zeros(a.topology.nv, a.dtype), jnp.zeros((a.topology.num_links, 6), a.dtype)
    functions = FUNCTIONS | (QUANTITIES if robot == "quadruped" else {})
    found = {
        name: functools.partial(operations, function, a, s, x, w)
        for name, function in functions.items()
    }
    for solver, options in STEPS.items():
        found[f"step, {solver}"] = functools.partial(operations, _step(options), a, s)
    found["gradient of forward_dynamics"] = functools.partial(
        operations, _gradient_of_acceleration, a, s, x
    )
    found["gradient of a step"] = functools.partial(operations, _gradient_of_step, a, s)
    return found


def _step(options: artix.SolverOptions) -> Callable[..., Any]:
    return lambda a, s: artix.step(a, s, None, 1 / 240, options)


def _gradient_of_acceleration(a, s, x):
    return jax.grad(lambda q: jnp.sum(artix.forward_dynamics(a, s.replace(joint_position=q), x)))(
        s.joint_position
    )


def _gradient_of_step(a, state):
    def loss(state):
        end = artix.step(a, state, None, 1 / 240)
        return jnp.sum(end.joint_position**2) + jnp.sum(end.joint_velocity**2)

    return jax.grad(loss)(state)


#: Own robots on level ground, with options.
ON_GROUND = {
    "quadruped": artix.SolverOptions(),
    "humanoid": artix.SolverOptions(max_contacts_per_geometry=4),
}


def counted_on_ground(robot: str) -> dict[str, Callable[[], int]]:
    """What is counted of a robot on its feet."""
    a, options, ground = artix.robots.load(robot), ON_GROUND[robot], artix.Ground.flat()
    s, dt = artix.neutral_state(a), jnp.asarray(0.005, a.dtype)
    memory = artix.remember_contacts(artix.Scene(a, ground=ground), s).contact_memory

    def step(a, s, dt=0.005):
        return artix.step(artix.Scene(a, ground=ground), s, None, dt, options)

    def remembering(a, s, memory, dt):
        end = artix.step(
            artix.Scene(a, ground=ground), s.replace(contact_memory=memory), None, dt, options
        )
        return end.replace(contact_memory=None), end.contact_memory

    def gradient(a, s):
        def loss(s):
            end = step(a, s)
            return jnp.sum(end.joint_position**2) + jnp.sum(end.root_velocity**2)

        return jax.grad(loss)(s)

    def in_slow_motion():
        costs = artix.explain(gradient, a, s).operations
        return sum(sum(cost.operations) - cost.until_done for cost in costs)

    counted = {
        "step without ground": lambda: operations(
            lambda a, s, dt: artix.step(a, s, None, dt, options), a, s, dt
        ),
        "step": lambda: operations(step, a, s, dt),
        "step of a known length": lambda: operations(step, a, s),
        "step with memory": lambda: operations(remembering, a, s, memory, dt),
    }
    if robot == "quadruped":
        counted["gradient of a step"] = lambda: operations(gradient, a, s)
        # What is left where no link turns fast, and before Newton's loops.
        counted["gradient of a step outside of loops"] = in_slow_motion
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["quadruped", "humanoid"])
def test_operations_on_the_ground(robot: str) -> None:
    assert within_budgets(f"{robot} on the ground", counted_on_ground(robot)) == {}


@pytest.mark.parametrize(
    "robot",
    [
        pytest.param("quadruped", marks=pytest.mark.slow),
        *(
            pytest.param(robot, marks=pytest.mark.exhaustive)
            for robot in ("arm", "humanoid", "chain")
        ),
    ],
)
def test_operations(robot: str) -> None:
    assert within_budgets(robot, counted(robot)) == {}


def test_operations_of_a_large_robot() -> None:
    """The quantities that every other one contains; the rest of its table is for the exhaustive
    tests."""
    names = ("mass_matrix", "bias_force", "inverse_dynamics", "forward_dynamics")
    functions, budgets = counted("humanoid"), BUDGETS["humanoid"]
    assert {
        name: count for name in names if not 0 < (count := functions[name]()) <= budgets[name]
    } == {}


def within_budgets(
    table: str, functions: dict[str, Callable[[], int]]
) -> dict[str, tuple[int, int]]:
    """Counts and budgets of what exceeds its budget, or has a kernel where none was, or none where
    one was."""
    budgets, excess = BUDGETS[table], {}
    assert set(budgets) == set(functions)
    for name, count in functions.items():
        found = count()
        if found > budgets[name] or (found < 0) != (budgets[name] < 0):
            excess[name] = (found, budgets[name])
    return excess


def test_the_table_covers_the_public_functions() -> None:
    public = {
        name: value
        for name, value in vars(artix).items()
        if callable(value) and name.islower() and name[0] != "_"
    }
    functions = {
        name for name, value in public.items() if not value.__module__.startswith("artix.io")
    }
    small = {
        "neutral_state",
        "random_state",
        "joint_rate_from_velocity",
        "joint_velocity_from_rate",
    }
    inertias = {
        "log_cholesky_from_inertia",
        "log_cholesky_from_articulation",
        "inertia_from_log_cholesky",
    }
    small |= inertias | {
        "with_log_cholesky",
        "with_joint_drift",
        "wake_up",
        "put_to_sleep",
        "is_sleeping",
    }
    small |= {
        "generalized_velocity",
        "with_generalized_velocity",
        "squared_distance",
        "normalize",
        "is_normalized",
        "is_same_configuration",
        "transport",
    }
    small |= {
        "lock_joints",
        "attach_articulation",
        "mimic_map",
        "builder_from_articulation",
        "vmap_in_blocks",
        "keep_zeros",
    }
    small |= {
        "explain",
        "quantity",
        "use_kernels",
        "select_geometry",
        "select_geometry_pairs",
        "possible_geometry_pairs",
    }
    # Counted in tests.contact.test_geometry.
    small |= {"ground_contacts", "geometry_distances", "geometry_pair_distances", "link_contacts"}
    # Counted by solver.
    stepping = {
        "step",
        "step_and_report",
        "rollout",
        "vector_field",
        "step_with_sleep",
        "step_with_joint_drift",
    }
    stepping |= {"remember_contacts"}  # and on the ground
    from tests.constraints.test_constraint_programs import FUNCTIONS as CONSTRAINED

    counted = {name.partition(" of ")[0] for name in (*FUNCTIONS, *QUANTITIES)}
    later = functions - counted - set(CONSTRAINED) - small - stepping
    assert counted <= functions
    assert later == set()


def test_equal_topologies_share_one_compilation() -> None:
    # Others may have compiled bias_force itself.
    jitted = jax.jit(lambda *arguments: artix.bias_force(*arguments))
    first, second = ROBOTS["arm"](), ROBOTS["arm"]()
    assert first.topology is not second.topology
    assert first.topology == second.topology
    assert hash(first.topology) == hash(second.topology)
    state = state_at(random_states(first, 1), 0)
    jitted(first, state)
    jitted(second, state)
    jitted(second.replace(link_mass=2 * second.link_mass, gravity=jnp.zeros(3, "float32")), state)
    assert jitted._cache_size() == 1
    other = _limbs([4, 3], fixed_base=True)
    assert other.topology != first.topology
    jitted(other, state)
    assert jitted._cache_size() == 2


@pytest.mark.slow
def test_no_weak_types() -> None:
    """Whatever a function returns may be fed back without a second compilation."""
    a = ROBOTS["quadruped"]()
    s = state_at(random_states(a, 1), 0)
    x, w = jnp.zeros(a.topology.nv, a.dtype), jnp.zeros((a.topology.num_links, 6), a.dtype)
    for name, function in (FUNCTIONS | QUANTITIES).items():
        for leaf in jax.tree.leaves(jax.eval_shape(function, a, s, x, w)):
            assert leaf.dtype == jnp.float32, name
            assert not leaf.weak_type, name
    for state in (artix.neutral_state(a), artix.random_state(a, jax.random.key(0))):
        assert [leaf.weak_type for leaf in jax.tree.leaves(state)] == [False] * 4
    assert [leaf.weak_type for leaf in jax.tree.leaves(a)] == [False] * len(jax.tree.leaves(a))
    jitted = jax.jit(functools.partial(artix.integrate, a))
    jitted(jitted(s, x), x)
    assert jitted._cache_size() == 1


def test_what_is_left_to_xla_is_named_and_explained(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    robot = artix.robots.load("double_pendulum")
    mass_matrix = artix.quantity(functools.partial(artix.mass_matrix, armature=True))
    (equation,) = jax.make_jaxpr(lambda state: mass_matrix(robot, state))(
        artix.neutral_state(robot)
    ).eqns
    assert equation.params["program"].name == "mass_matrix"
    monkeypatch.setattr(compilation, "_refused", set())
    compilation.refuse("mass_matrix", "TooManyOperations: 400,000 operations")
    compilation.refuse("mass_matrix", "TooManyOperations: 400,000 operations")
    (message,) = caplog.messages  # said once
    assert "mass_matrix is evaluated by XLA" in message and "jax.lax.scan" in message


def _long_permutation(key: jax.Array, _: jax.Array) -> jax.Array:
    return jax.random.permutation(key, jnp.linspace(0, 1, 130, dtype="float32"))


@pytest.mark.parametrize("draw", [jax.random.gamma, _long_permutation])
def test_draws_without_a_kernel_are_named(draw, monkeypatch, caplog) -> None:
    @artix.quantity
    def noisy(articulation, state, words):
        return draw(jax.random.wrap_key_data(words), state.joint_position)

    robot = artix.robots.load("double_pendulum").astype("float32")
    monkeypatch.setattr(compilation, "_refused", set())
    words, positions = jnp.zeros(2, jnp.uint32), jnp.ones(2, "float32")
    state = artix.neutral_state(robot).replace(joint_position=positions)
    result = jax.jit(noisy)(robot, state, words)
    np.testing.assert_array_equal(result, draw(jax.random.wrap_key_data(words), positions))
    assert "draw them outside of the function, and pass them as an argument" in caplog.text


def test_what_a_function_without_a_kernel_calls_has_one(monkeypatch) -> None:
    @artix.quantity
    def inertias(articulation, state):
        return jnp.fft.fft(jnp.diagonal(artix.mass_matrix(articulation, state))).real

    robot = artix.robots.load("double_pendulum").astype("float32")
    monkeypatch.setattr(compilation, "_refused", set())
    states = random_states(robot, 5)
    evaluate = jax.jit(jax.vmap(functools.partial(inertias, robot)))
    assert "custom_call @artix" in evaluate.lower(states).as_text()
    matrices = jax.vmap(functools.partial(artix.mass_matrix, robot))(states)
    expected = np.fft.fft(np.diagonal(matrices, axis1=1, axis2=2)).real
    np.testing.assert_allclose(evaluate(states), expected, rtol=1e-6)
    with artix.use_kernels(False):
        assert (
            "custom_call"
            not in jax.jit(jax.vmap(inertias, (None, 0))).lower(robot, states).as_text()
        )


def main() -> None:
    """Writes the tables."""
    from tests.constraints.test_constraint_programs import counted as counted_of_constraints

    tables = {robot: counted(robot) for robot in ROBOTS} | {"standing": counted_of_constraints()}
    tables |= {f"{robot} on the ground": counted_on_ground(robot) for robot in ON_GROUND}
    budgets: dict[str, dict[str, int]] = {}
    for table, functions in tables.items():
        budgets[table] = {}
        for name, count in functions.items():
            budgets[table][name] = int(1.05 * count())
            print(table, name, budgets[table][name], flush=True)
    BUDGETS_FILE.write_text(json.dumps(budgets, indent=1) + "\n")


if __name__ == "__main__":
    import tests.conftest  # noqa: F401

    main()
