"""The size of every compiled program, and when one is compiled again.

Regenerate the table of budgets, after looking at what changed, with ``python -m tests.test_programs``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import artix
from artix import ArticulationBuilder, Axis, Joint
from tests.conftest import FUSION_EMITTERS_ARE_OPTIONAL
from tests.models import random_states, state_at, tree_of
from tests.quantity_programs import QUANTITIES, QUANTITY_BUDGETS

#: Instructions that XLA's CPU backend may emit, all computations of a program counted: measured plus 15 %.
# fmt: off
BUDGETS: dict[str, dict[str, int]] = {
    "arm": {
        "link_poses": 1504,
        "link_velocities": 1667,
        "forward_kinematics": 1986,
        "link_accelerations": 1967,
        "dense_jacobian": 1641,
        "frame_pose": 1691,
        "frame_velocity": 1865,
        "frame_jacobian": 1860,
        "frame_jacobian_rate": 2190,
        "mass_matrix": 2421,
        "gravity_compensation": 1689,
        "coriolis_compensation": 2571,
        "bias_force": 2679,
        "inverse_dynamics": 2793,
        "forward_dynamics": 4749,
        "generalized_external_force": 1683,
        "center_of_mass": 1586,
        "center_of_mass_jacobian": 2326,
        "centroidal_momentum_matrix": 2914,
        "centroidal_momentum": 2525,
        "kinetic_energy": 2348,
        "potential_energy": 1586,
        "integrate": 31,
        "difference": 8,
        "interpolate": 43,
        "distance": 41,
        "difference_derivatives": 17,
        "configuration_rate_map": 8,
        "mass_matrix_cholesky": 3379,
        "mass_matrix_solve": 4072,
        "mass_matrix_inverse": 4059,
        "inverse_dynamics_derivatives": 4359,
        "forward_dynamics_derivatives": 6370,
        "gravity_derivatives": 3510,
        "centroidal_derivatives": 4100,
        "link_velocity_derivatives": 2135,
        "link_acceleration_derivatives": 2818,
        "integrate_derivatives": 10,
        "linearize": 6128,
        "inverse_dynamics_second_derivatives": 8744,
    },
    "quadruped": {
        "link_poses": 1162,
        "link_velocities": 1384,
        "forward_kinematics": 1622,
        "link_accelerations": 1669,
        "dense_jacobian": 1358,
        "frame_pose": 1350,
        "frame_velocity": 1560,
        "frame_jacobian": 1550,
        "frame_jacobian_rate": 1861,
        "mass_matrix": 2217,
        "gravity_compensation": 1436,
        "coriolis_compensation": 2297,
        "bias_force": 2375,
        "inverse_dynamics": 2490,
        "forward_dynamics": 5337,
        "generalized_external_force": 1394,
        "center_of_mass": 1306,
        "center_of_mass_jacobian": 2116,
        "centroidal_momentum_matrix": 2688,
        "centroidal_momentum": 2213,
        "kinetic_energy": 2066,
        "potential_energy": 1306,
        "integrate": 462,
        "difference": 413,
        "interpolate": 1260,
        "distance": 454,
        "difference_derivatives": 2026,
        "configuration_rate_map": 362,
        "mass_matrix_cholesky": 3768,
        "mass_matrix_solve": 4703,
        "mass_matrix_inverse": 4690,
        "inverse_dynamics_derivatives": 4130,
        "forward_dynamics_derivatives": 7006,
        "gravity_derivatives": 3192,
        "centroidal_derivatives": 3924,
        "link_velocity_derivatives": 1841,
        "link_acceleration_derivatives": 2541,
        "integrate_derivatives": 1141,
        "linearize": 8098,
        "inverse_dynamics_second_derivatives": 8592,
    },
    "humanoid": {
        "link_poses": 1304,
        "link_velocities": 1526,
        "forward_kinematics": 1764,
        "link_accelerations": 1811,
        "dense_jacobian": 1499,
        "frame_pose": 1491,
        "frame_velocity": 1701,
        "frame_jacobian": 1691,
        "frame_jacobian_rate": 2003,
        "mass_matrix": 2358,
        "gravity_compensation": 1577,
        "coriolis_compensation": 2439,
        "bias_force": 2517,
        "inverse_dynamics": 2632,
        "forward_dynamics": 6252,
        "generalized_external_force": 1536,
        "center_of_mass": 1447,
        "center_of_mass_jacobian": 2257,
        "centroidal_momentum_matrix": 2830,
        "centroidal_momentum": 2355,
        "kinetic_energy": 2208,
        "potential_energy": 1447,
        "integrate": 462,
        "difference": 413,
        "interpolate": 1260,
        "distance": 454,
        "difference_derivatives": 2026,
        "configuration_rate_map": 362,
        "mass_matrix_cholesky": 4696,
        "mass_matrix_solve": 5618,
        "mass_matrix_inverse": 5603,
        "inverse_dynamics_derivatives": 4272,
        "forward_dynamics_derivatives": 7921,
        "gravity_derivatives": 3333,
        "centroidal_derivatives": 4066,
        "link_velocity_derivatives": 1982,
        "link_acceleration_derivatives": 2682,
        "integrate_derivatives": 1141,
        "linearize": 9012,
        "inverse_dynamics_second_derivatives": 8734,
    },
    "chain": {
        "link_poses": 5800,
        "link_velocities": 5963,
        "forward_kinematics": 6282,
        "link_accelerations": 6264,
        "dense_jacobian": 5937,
        "frame_pose": 5988,
        "frame_velocity": 6161,
        "frame_jacobian": 6157,
        "frame_jacobian_rate": 6487,
        "mass_matrix": 6718,
        "gravity_compensation": 5985,
        "coriolis_compensation": 6867,
        "bias_force": 6975,
        "inverse_dynamics": 7089,
        "forward_dynamics": 10850,
        "generalized_external_force": 5979,
        "center_of_mass": 6028,
        "center_of_mass_jacobian": 6632,
        "centroidal_momentum_matrix": 7313,
        "centroidal_momentum": 6925,
        "kinetic_energy": 6656,
        "potential_energy": 5894,
        "integrate": 31,
        "difference": 8,
        "interpolate": 43,
        "distance": 52,
        "difference_derivatives": 17,
        "configuration_rate_map": 8,
        "mass_matrix_cholesky": 10567,
        "mass_matrix_solve": 10175,
        "mass_matrix_inverse": 10175,
        "inverse_dynamics_derivatives": 8656,
        "forward_dynamics_derivatives": 12465,
        "gravity_derivatives": 7807,
        "centroidal_derivatives": 8508,
        "link_velocity_derivatives": 6431,
        "link_acceleration_derivatives": 7115,
        "integrate_derivatives": 10,
        "linearize": 12230,
        "inverse_dynamics_second_derivatives": 13040,
    },
}
# fmt: on

#: The suite's cheap compiler settings undone: what users get.
DEFAULTS: dict[str, int | bool] = {"xla_backend_optimization_level": 3}
if FUSION_EMITTERS_ARE_OPTIONAL:
    DEFAULTS["xla_cpu_use_fusion_emitters"] = True


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
            link, joint, mass=1.0, com_pose=[0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], inertia=[0.1, 0.1, 0.1]
        )
    builder.add_frame("tool", link)
    return builder.build("float32")


ROBOTS = {
    "arm": lambda: _limbs([7], fixed_base=True),
    "quadruped": lambda: _limbs([3, 3, 3, 3], fixed_base=False),
    "humanoid": lambda: _limbs([6, 6, 3, 7, 7, 1], fixed_base=False),
    "chain": _chain,
}

#: Every public function of the core as a function of articulation, state, an [nv] array and wrenches.
FUNCTIONS = {
    "link_poses": lambda a, s, x, w: artix.link_poses(a, s),
    "link_velocities": lambda a, s, x, w: artix.link_velocities(a, s),
    "forward_kinematics": lambda a, s, x, w: artix.forward_kinematics(a, s),
    "link_accelerations": lambda a, s, x, w: artix.link_accelerations(a, s, x),
    "dense_jacobian": lambda a, s, x, w: artix.dense_jacobian(a, s),
    "frame_pose": lambda a, s, x, w: artix.frame_pose(a, s, "tool"),
    "frame_velocity": lambda a, s, x, w: artix.frame_velocity(a, s, "tool"),
    "frame_jacobian": lambda a, s, x, w: artix.frame_jacobian(a, s, "tool"),
    "frame_jacobian_rate": lambda a, s, x, w: artix.frame_jacobian_rate(a, s, "tool"),
    "mass_matrix": lambda a, s, x, w: artix.mass_matrix(a, s),
    "gravity_compensation": lambda a, s, x, w: artix.gravity_compensation(a, s),
    "coriolis_compensation": lambda a, s, x, w: artix.coriolis_compensation(a, s),
    "bias_force": lambda a, s, x, w: artix.bias_force(a, s),
    "inverse_dynamics": lambda a, s, x, w: artix.inverse_dynamics(a, s, x, w),
    "forward_dynamics": lambda a, s, x, w: artix.forward_dynamics(a, s, x, w),
    "generalized_external_force": lambda a, s, x, w: artix.generalized_external_force(a, s, w),
    "center_of_mass": lambda a, s, x, w: artix.center_of_mass(a, s),
    "center_of_mass_jacobian": lambda a, s, x, w: artix.center_of_mass_jacobian(a, s),
    "centroidal_momentum_matrix": lambda a, s, x, w: artix.centroidal_momentum_matrix(a, s),
    "centroidal_momentum": lambda a, s, x, w: artix.centroidal_momentum(a, s),
    "kinetic_energy": lambda a, s, x, w: artix.kinetic_energy(a, s),
    "potential_energy": lambda a, s, x, w: artix.potential_energy(a, s),
    "integrate": lambda a, s, x, w: artix.integrate(a, s, x),
    "difference": lambda a, s, x, w: artix.difference(a, s, s.replace(joint_position=2 * s.joint_position)),
    "interpolate": lambda a, s, x, w: artix.interpolate(a, s, artix.integrate(a, s, x), 0.5),
    "distance": lambda a, s, x, w: artix.distance(a, s, s.replace(joint_position=2 * s.joint_position)),
    "difference_derivatives": lambda a, s, x, w: artix.difference_derivatives(a, s, artix.integrate(a, s, x)),
    "configuration_rate_map": lambda a, s, x, w: artix.configuration_rate_map(a, s),
    "mass_matrix_cholesky": lambda a, s, x, w: artix.mass_matrix_cholesky(a, s),
    "mass_matrix_solve": lambda a, s, x, w: artix.mass_matrix_solve(a, s, x),
    "mass_matrix_inverse": lambda a, s, x, w: artix.mass_matrix_inverse(a, s),
    "inverse_dynamics_derivatives": lambda a, s, x, w: artix.inverse_dynamics_derivatives(a, s, x, w),
    "forward_dynamics_derivatives": lambda a, s, x, w: artix.forward_dynamics_derivatives(a, s, x, w),
    "gravity_derivatives": lambda a, s, x, w: artix.gravity_derivatives(a, s),
    "centroidal_derivatives": lambda a, s, x, w: artix.centroidal_derivatives(a, s, x),
    "link_velocity_derivatives": lambda a, s, x, w: artix.link_velocity_derivatives(a, s),
    "link_acceleration_derivatives": lambda a, s, x, w: artix.link_acceleration_derivatives(a, s, x),
    "integrate_derivatives": lambda a, s, x, w: artix.integrate_derivatives(a, s, x),
    "linearize": lambda a, s, x, w: artix.linearize(a, s, x, 0.01),
    "inverse_dynamics_second_derivatives": lambda a, s, x, w: artix.inverse_dynamics_second_derivatives(a, s, x),
}
#: The other programs are checked for the quadruped every day, all of them for the small robots by the slow tests.
DERIVATIVES = {name for name in FUNCTIONS if "derivatives" in name or name == "linearize" or "mass_matrix_" in name}


def _program(robot: str, function) -> str:
    a = ROBOTS[robot]()
    s = state_at(random_states(a, 1), 0)
    x, w = jnp.zeros(a.topology.nv, a.dtype), jnp.zeros((a.topology.num_links, 6), a.dtype)
    return jax.jit(function).lower(a, s, x, w).compile(DEFAULTS).as_text()


def instructions(program: str) -> int:
    """Instructions in the text of a compiled program, parameters and constants included."""
    return len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", program, re.MULTILINE))


def _marks(robot: str, functions: str) -> tuple:
    if (robot, functions) == ("quadruped", "values"):
        return ()
    return (pytest.mark.exhaustive if robot in ("humanoid", "chain") else pytest.mark.slow,)


@pytest.mark.parametrize(
    ("robot", "functions"),
    [
        pytest.param(robot, functions, marks=_marks(robot, functions))
        for robot in ROBOTS
        for functions in ("values", "derivatives")
    ],
)
def test_size(robot: str, functions: str) -> None:
    excess, loops = {}, []
    assert set(BUDGETS[robot]) == set(FUNCTIONS)
    for function in [name for name in FUNCTIONS if (name in DERIVATIVES) == (functions == "derivatives")]:
        program = _program(robot, FUNCTIONS[function])
        found = instructions(program)
        assert found > 2
        if found > BUDGETS[robot][function]:
            excess[function] = (found, BUDGETS[robot][function])
        if re.search(r" while\(", program):
            loops.append(function)
    assert (excess, loops) == ({}, [])


#: One of each chapter is looked at every day.
OFTEN = ("coriolis_matrix", "joint_jacobians_second_rate", "joint_torque_regressor")


@pytest.mark.parametrize(
    "functions", [OFTEN, pytest.param(tuple(set(QUANTITIES) - set(OFTEN)), marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_size_of_the_quantities(functions: tuple[str, ...]) -> None:
    """Of the quadruped, which floats."""
    assert set(QUANTITY_BUDGETS) == set(QUANTITIES)
    excess, loops = {}, []
    for name in functions:
        program = _program("quadruped", QUANTITIES[name])
        if not 2 < instructions(program) <= QUANTITY_BUDGETS[name]:
            excess[name] = (instructions(program), QUANTITY_BUDGETS[name])
        if re.search(r" while\(", program):
            loops.append(name)
    assert (excess, loops) == ({}, [])


def test_gradient_of_forward_dynamics_is_small() -> None:
    """Hardly larger than the smallest of the peers, frax 0.1.0, needs for a humanoid of 30 joints: 3,039 instructions.

    It takes a fifteenth of the time of that one. The XLA of jaxlib 0.10 drops the barriers between the levels of the
    tree, and computes some terms again and again.
    """
    a = _limbs([6, 6, 3, 7, 7, 1], fixed_base=True)
    states = random_states(a, 64)
    force = jnp.ones((64, a.topology.nv), a.dtype)

    def loss(q, state, x):
        return jnp.sum(artix.forward_dynamics(a, state.replace(joint_position=q), x))

    gradient = jax.jit(jax.vmap(jax.grad(loss)))
    program = gradient.lower(states.joint_position, states, force).compile(DEFAULTS).as_text()
    assert 1000 < instructions(program) <= (4500 if FUSION_EMITTERS_ARE_OPTIONAL else 3200)
    assert " while(" not in program


#: The same of one step, by solver; the quadruped.
STEP_BUDGETS = {"implicit": 14882, "pgs": 12881, "rk4": 7864}


@pytest.mark.slow
@pytest.mark.parametrize("solver", STEP_BUDGETS)
def test_size_of_a_step(solver: str) -> None:
    a = ROBOTS["quadruped"]()
    s = state_at(random_states(a, 1), 0)
    options = artix.SolverOptions(solver=solver)
    step = jax.jit(lambda a, s: artix.step(a, s, None, 1 / 240, options))
    assert instructions(step.lower(a, s).compile(DEFAULTS).as_text()) <= STEP_BUDGETS[solver]


@pytest.mark.slow
def test_size_of_the_gradient_of_a_step() -> None:
    """It takes derivatives of the equation solved, not of the sweeps that solve it (which made 16,235).

    The step itself, which the loss needs, is in there twice, once in the loop over blocks of its gradient.
    """
    a = ROBOTS["quadruped"]()

    def loss(state):
        end = artix.step(a, state, None, 1 / 240)
        return jnp.sum(end.joint_position**2) + jnp.sum(end.joint_velocity**2)

    program = jax.jit(jax.vmap(jax.grad(loss))).lower(random_states(a, 4096)).compile(DEFAULTS).as_text()
    assert 1000 < instructions(program) <= (12600 if FUSION_EMITTERS_ARE_OPTIONAL else 8300)


#: The same of what PhysX's cache does beyond the functions above; the quadruped.
PHYSX_BUDGETS = {
    "compute_generalized_mass_matrix": 2995,
    "compute_joint_force": 3037,
    "compute_generalized_external_force": 3167,
    "compute_generalized_gravity_force": 3187,
    "compute_joint_acceleration": 5335,
    "compute_coriolis_and_centrifugal_force": 3410,
    "copy_internal_state_to_cache": 1464,
    "apply_cache": 199,
    "get_world_bounds": 1632,
}


#: How those are called that take something else than a simulation and its cache.
PHYSX_CALLS: dict[str, Callable[..., Any]] = {
    "copy_internal_state_to_cache": lambda s, c: artix.physx.copy_internal_state_to_cache(s, c, 2**15 - 1),
    "apply_cache": lambda s, c: artix.physx.apply_cache(s, c, 2**15 - 1),
    "get_world_bounds": lambda s, c: artix.physx.get_world_bounds(
        s, jnp.stack([-c.external_forces[:, :3], c.link_force], 1)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("function", PHYSX_BUDGETS)
def test_size_of_functions_on_the_cache(function: str) -> None:
    simulation = artix.physx.create_simulation(ROBOTS["quadruped"]())
    call = PHYSX_CALLS.get(function, getattr(artix.physx, function))
    program = jax.jit(call).lower(simulation, artix.physx.create_cache(simulation))
    assert 2 < instructions(program.compile(DEFAULTS).as_text()) <= PHYSX_BUDGETS[function]


def test_the_table_covers_the_public_functions() -> None:
    public = {name: value for name, value in vars(artix).items() if callable(value) and name.islower()}
    functions = {name for name, value in public.items() if not value.__module__.startswith("artix.io")}
    small = {"neutral_state", "random_state", "joint_rate_from_velocity", "joint_velocity_from_rate"}
    inertias = {"log_cholesky_from_inertia", "log_cholesky_from_articulation", "inertia_from_log_cholesky"}
    small |= inertias | {
        "with_log_cholesky",
        "without_bounds",
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
    small |= {"lock_joints", "attach_articulation", "mimic_map", "builder_from_articulation", "vmap_in_blocks"}
    # Sized below; sweeps are loops.
    stepping = {"step", "step_and_report", "rollout", "vector_field", "step_with_sleep", "step_with_joint_drift"}
    from tests.test_constraint_programs import FUNCTIONS as CONSTRAINED

    later = functions - set(FUNCTIONS) - set(QUANTITIES) - set(CONSTRAINED) - small - stepping
    assert set(FUNCTIONS) <= functions
    assert later == set()


def test_equal_topologies_share_one_compilation() -> None:
    jitted = jax.jit(artix.bias_force)
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


def main() -> None:
    """Prints the table."""
    for robot in ROBOTS:
        print(f'    "{robot}": {{')
        for function in FUNCTIONS:
            print(
                f'        "{function}": {int(1.15 * instructions(_program(robot, FUNCTIONS[function])))},', flush=True
            )
        print("    },")
    for name, function in QUANTITIES.items():
        print(f'    "{name}": {int(1.15 * instructions(_program("quadruped", function)))},', flush=True)


if __name__ == "__main__":
    import tests.conftest  # noqa: F401

    main()
