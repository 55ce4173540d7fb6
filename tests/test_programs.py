"""The size of every compiled program, and when one is compiled again.

Regenerate the table of budgets, after looking at what changed, with ``python -m tests.test_programs``.
"""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import pytest

import artix
from artix import ArticulationBuilder, Axis, Joint
from tests.conftest import FUSION_EMITTERS_ARE_OPTIONAL
from tests.models import random_states, state_at, tree_of

#: Instructions that XLA's CPU backend may emit, all computations of a program counted: measured plus 15 %.
# fmt: off
BUDGETS: dict[str, dict[str, int]] = {
    "arm": {
        "link_poses": 1554,
        "link_velocities": 1997,
        "forward_kinematics": 2257,
        "link_accelerations": 2329,
        "dense_jacobian": 1843,
        "frame_pose": 1757,
        "frame_velocity": 2018,
        "frame_jacobian": 2013,
        "frame_jacobian_rate": 2508,
        "mass_matrix": 2845,
        "gravity_compensation": 1882,
        "coriolis_compensation": 2950,
        "bias_force": 3071,
        "inverse_dynamics": 3428,
        "forward_dynamics": 3765,
        "generalized_external_force": 2010,
        "center_of_mass": 2484,
        "center_of_mass_jacobian": 2722,
        "centroidal_momentum_matrix": 3352,
        "centroidal_momentum": 2925,
        "kinetic_energy": 2806,
        "potential_energy": 1761,
        "integrate": 31,
        "difference": 8,
    },
    "quadruped": {
        "link_poses": 1205,
        "link_velocities": 1662,
        "forward_kinematics": 1922,
        "link_accelerations": 2019,
        "dense_jacobian": 1486,
        "frame_pose": 1400,
        "frame_velocity": 1774,
        "frame_jacobian": 1764,
        "frame_jacobian_rate": 2212,
        "mass_matrix": 2566,
        "gravity_compensation": 1559,
        "coriolis_compensation": 2633,
        "bias_force": 2754,
        "inverse_dynamics": 3132,
        "forward_dynamics": 3574,
        "generalized_external_force": 1664,
        "center_of_mass": 2134,
        "center_of_mass_jacobian": 2474,
        "centroidal_momentum_matrix": 3133,
        "centroidal_momentum": 2594,
        "kinetic_energy": 2474,
        "potential_energy": 1405,
        "integrate": 736,
        "difference": 523,
    },
    "humanoid": {
        "link_poses": 1543,
        "link_velocities": 2000,
        "forward_kinematics": 2260,
        "link_accelerations": 2357,
        "dense_jacobian": 1825,
        "frame_pose": 1738,
        "frame_velocity": 2211,
        "frame_jacobian": 2201,
        "frame_jacobian_rate": 2550,
        "mass_matrix": 2904,
        "gravity_compensation": 1897,
        "coriolis_compensation": 2971,
        "bias_force": 3092,
        "inverse_dynamics": 3470,
        "forward_dynamics": 3912,
        "generalized_external_force": 2002,
        "center_of_mass": 2472,
        "center_of_mass_jacobian": 2812,
        "centroidal_momentum_matrix": 3471,
        "centroidal_momentum": 2932,
        "kinetic_energy": 2812,
        "potential_energy": 1743,
        "integrate": 736,
        "difference": 523,
    },
    "chain": {
        "link_poses": 2313,
        "link_velocities": 2756,
        "forward_kinematics": 3016,
        "link_accelerations": 3088,
        "dense_jacobian": 2602,
        "frame_pose": 2516,
        "frame_velocity": 2777,
        "frame_jacobian": 2772,
        "frame_jacobian_rate": 3267,
        "mass_matrix": 3604,
        "gravity_compensation": 2641,
        "coriolis_compensation": 3709,
        "bias_force": 3830,
        "inverse_dynamics": 4187,
        "forward_dynamics": 4524,
        "generalized_external_force": 2769,
        "center_of_mass": 3444,
        "center_of_mass_jacobian": 3490,
        "centroidal_momentum_matrix": 4206,
        "centroidal_momentum": 3784,
        "kinetic_energy": 3576,
        "potential_energy": 2532,
        "integrate": 31,
        "difference": 8,
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
}


def _program(robot: str, function: str) -> str:
    a = ROBOTS[robot]()
    s = state_at(random_states(a, 1), 0)
    x, w = jnp.zeros(a.topology.nv, a.dtype), jnp.zeros((a.topology.num_links, 6), a.dtype)
    return jax.jit(FUNCTIONS[function]).lower(a, s, x, w).compile(DEFAULTS).as_text()


def instructions(program: str) -> int:
    """Instructions in the text of a compiled program, parameters and constants included."""
    return len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", program, re.MULTILINE))


@pytest.mark.parametrize(
    "robot", [pytest.param(r, marks=pytest.mark.slow if r in ("humanoid", "chain") else ()) for r in ROBOTS]
)
def test_size(robot: str) -> None:
    excess, loops = {}, []
    assert set(BUDGETS[robot]) == set(FUNCTIONS)
    for function in FUNCTIONS:
        program = _program(robot, function)
        found = instructions(program)
        assert found > 2
        if found > BUDGETS[robot][function]:
            excess[function] = (found, BUDGETS[robot][function])
        if re.search(r" while\(", program):
            loops.append(function)
    assert (excess, loops) == ({}, [])


def test_the_table_covers_the_public_functions() -> None:
    functions = {name for name in vars(artix) if callable(getattr(artix, name)) and name.islower()}
    small = {"neutral_state", "random_state", "joint_rate_from_velocity", "joint_velocity_from_rate"}
    readers = {"load", "load_urdf", "check_urdf"}
    inertias = {"log_cholesky_from_inertia", "log_cholesky_from_articulation", "inertia_from_log_cholesky"}
    small |= inertias | {"with_log_cholesky"}
    later = functions - set(FUNCTIONS) - small - readers
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
    for name, function in FUNCTIONS.items():
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
            print(f'        "{function}": {int(1.15 * instructions(_program(robot, function)))},', flush=True)
        print("    },")


if __name__ == "__main__":
    import tests.conftest  # noqa: F401

    main()
