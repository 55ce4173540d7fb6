"""Dry friction in steps acts exactly once, for every solver, number of sweeps and treatment of
external forces."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import (
    Articulation,
    ArticulationBuilder,
    Axis,
    Joint,
    JointFriction,
    SolverOptions,
    State,
)
from tests.support.models import random_link, random_pose

OPTIONS = {
    "implicit": SolverOptions(),
    "pgs": SolverOptions(solver="pgs", velocity_iterations=2),
    "tgs": SolverOptions(solver="tgs", position_iterations=32, velocity_iterations=2),
    **{
        f"tgs, forces every iteration, {count} velocity iterations": SolverOptions(
            solver="tgs",
            position_iterations=32,
            velocity_iterations=count,
            external_forces_every_iteration=True,
        )
        for count in (0, 1, 3)
    },
}
QUICK = ("implicit", "tgs, forces every iteration, 1 velocity iterations")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, options in OPTIONS.items()
    ],
)
def test_a_sliding_wheel_loses_what_its_friction_takes(options: SolverOptions) -> None:
    """By ``dynamic dt / inertia`` in every step, as in real PhysX, which a step of Coulomb's law
    demands as well."""
    friction, inertia, dt = JointFriction(static=0.6, dynamic=0.4, viscous=0.0), 2.0, 0.01
    builder = ArticulationBuilder(fixed_base=True, gravity=[0.0, 0.0, 0.0])
    builder.add_link(mass=1.0, inertia=[1.0, 1.0, 1.0])
    builder.add_link(
        0, Joint.revolute(Axis.TWIST, friction=friction), mass=1.0, inertia=[inertia, 1.5, 1.5]
    )
    wheel = builder.build(np.float64)
    state = artix.neutral_state(wheel).replace(joint_velocity=jnp.ones(1))
    for number in (1, 2, 3):
        state = artix.step(wheel, state, None, dt, options)
        np.testing.assert_allclose(
            state.joint_velocity, 1.0 - number * 0.4 * dt / inertia, rtol=1e-13
        )


def _brushed_tree(*, fixed_base: bool) -> Articulation:
    """Six links on joints with friction."""
    rng = np.random.default_rng(3)
    builder = ArticulationBuilder(fixed_base=fixed_base)
    builder.add_link(**random_link(rng))
    for link in range(1, 7):
        joint = Joint.revolute(
            (Axis.TWIST, Axis.SWING1, Axis.SWING2)[link % 3],
            parent_pose=random_pose(rng, 0.2),
            child_pose=random_pose(rng, 0.1),
            friction=JointFriction(static=0.4, dynamic=0.3, viscous=0.02),
            armature=0.1,
        )
        builder.add_link(max(0, link - int(rng.integers(1, 4))), joint, **random_link(rng))
    return builder.build(np.float64)


@functools.partial(jax.jit, static_argnames=("options", "count"))
def _position_after(
    articulation: Articulation, state: State, options: SolverOptions, count: int
) -> jax.Array:
    """Joint positions after 40 ms in ``count`` steps."""
    return artix.rollout(
        articulation, state, None, 0.04 / count, options, num_steps=count
    ).joint_position[-1]


@pytest.mark.slow
def test_derivatives_of_what_slides_with_a_heavy_follower() -> None:
    """A light wheel, slow on the scale of its own friction, is carried along by a heavy one that
    follows it: ``v' = v - dynamic dt / (sum of the inertias)``."""
    dt, friction, inertias = 0.01, JointFriction(static=0.5, dynamic=0.3), (0.01, 1.0)
    builder = ArticulationBuilder(fixed_base=True, gravity=[0.0, 0.0, 0.0])
    builder.add_link(mass=1.0, inertia=[1.0, 1.0, 1.0])
    for name, inertia, dry in (("light", inertias[0], friction), ("heavy", inertias[1], None)):
        joint = Joint.revolute(Axis.TWIST, name=name, friction=dry or JointFriction())
        builder.add_link(0, joint, mass=1.0, inertia=[inertia, 1.0, 1.0])
    builder.add_mimic("heavy", "light", -1.0)
    wheels = builder.build(np.float64)

    def end(speed: jax.Array, dynamic: jax.Array) -> jax.Array:
        own = wheels.friction.replace(dynamic=wheels.friction.dynamic.at[0].set(dynamic))
        state = artix.neutral_state(wheels).replace(joint_velocity=jnp.full(2, speed))
        return artix.step(wheels.replace(friction=own), state, None, dt).joint_velocity[0]

    arguments, lost = (jnp.float64(0.1), jnp.float64(friction.dynamic)), dt / sum(inertias)
    np.testing.assert_allclose(end(*arguments), 0.1 - lost * friction.dynamic, rtol=1e-12)
    for derivative in (jax.jacfwd, jax.jacrev):
        by_speed, by_friction = derivative(end, (0, 1))(*arguments)
        np.testing.assert_allclose([by_speed, by_friction], [1.0, -lost], rtol=1e-9)


@pytest.mark.parametrize(
    "fixed_base",
    [pytest.param(True, marks=pytest.mark.slow), pytest.param(False, marks=pytest.mark.exhaustive)],
)
def test_all_solvers_converge_to_one_motion_of_a_tree_with_friction(fixed_base: bool) -> None:
    """Friction that acted twice would keep TGS with forces in every iteration 1e-3 rad away,
    whatever the step."""
    tree = _brushed_tree(fixed_base=fixed_base)
    speed = np.random.default_rng(1).normal(size=tree.topology.num_dofs)
    state = artix.neutral_state(tree).replace(joint_velocity=jnp.asarray(speed))
    temporal = SolverOptions(solver="tgs", position_iterations=4)
    solvers = {
        "pgs": SolverOptions(solver="pgs", position_iterations=8),
        "tgs": temporal,
        "forces every iteration": dataclasses.replace(
            temporal, external_forces_every_iteration=True
        ),
    }
    implicit = SolverOptions(position_iterations=8)
    wanted = {count: _position_after(tree, state, implicit, count) for count in (10, 40)}
    errors = {
        name: [
            float(np.abs(_position_after(tree, state, options, count) - wanted[count]).max())
            for count in wanted
        ]
        for name, options in solvers.items()
    }
    assert errors["pgs"][1] < 1e-5 and errors["tgs"][1] < 1e-5, errors
    coarse, fine = errors["forces every iteration"]
    # Of first order: positions lag by half a substep
    assert fine < 3e-3 and 3.5 < coarse / fine < 4.5, errors
