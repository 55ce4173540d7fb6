"""The implicit solver's laws against closed forms, and its first-order steps against fine
integration.

Two integrators of first order differ by as much as each errs, so a difference from PhysX's step
says nothing about a law until the step is refined.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import artix
from artix import ArticulationBuilder, Axis, FixedTendon, Joint, SolverOptions, State, TendonJoint
from tests.support import physx_mechanisms as physx

INERTIA, DAMPING, LIMIT_STIFFNESS, LIMIT = 0.02, 1.3, 47.0, 0.1


def _wheel_on_a_tendon() -> artix.Articulation:
    """A wheel on a fixed tendon that has limits and a damper, but no spring."""
    builder = ArticulationBuilder(fixed_base=True, gravity=[0.0, 0.0, 0.0])
    builder.add_link(mass=1.0, inertia=[1.0, 1.0, 1.0], name="base")
    builder.add_link(
        0, Joint.revolute(Axis.TWIST, name="axle"), mass=1.0, inertia=[INERTIA] * 3, name="wheel"
    )
    member = TendonJoint(dof="axle", coefficient=1.0, recip_coefficient=1.0)
    gains = {"stiffness": 0.0, "damping": DAMPING, "limit_stiffness": LIMIT_STIFFNESS}
    builder.add_fixed_tendon(
        FixedTendon(name="t", root_link="base", joints=[member], limits=(-LIMIT, LIMIT), **gains)
    )
    return builder.build(np.float64)


def _turning(wheel: artix.Articulation, position: float, velocity: float) -> State:
    state = artix.neutral_state(wheel)
    return state.replace(joint_position=jnp.full(1, position), joint_velocity=jnp.full(1, velocity))


@pytest.mark.slow
@pytest.mark.parametrize(("position", "velocity"), [(0.3, -2.0), (-0.2, 1.0), (0.05, 0.5)])
def test_a_step_with_a_tendon_that_has_limits_alone_is_implicit_euler(
    position: float, velocity: float
) -> None:
    """PhysX's limit springs, and so those of ``"pgs"``, are explicit instead; their dampers are
    implicit, too."""
    wheel, dt = _wheel_on_a_tendon(), 1 / 240
    beyond = max(position - LIMIT, 0.0) + min(position + LIMIT, 0.0)
    stiffness = LIMIT_STIFFNESS if beyond else 0.0
    for solver, implicit in (("implicit", 1.0), ("pgs", 0.0)):
        options = SolverOptions(solver=solver, position_iterations=100)
        end = artix.step(wheel, _turning(wheel, position, velocity), None, dt, options)
        felt = INERTIA + dt * DAMPING + implicit * dt**2 * stiffness
        wanted = (INERTIA * velocity - dt * stiffness * beyond) / felt
        np.testing.assert_allclose(end.joint_velocity, wanted, rtol=1e-10)
        np.testing.assert_allclose(end.joint_position, position + dt * wanted, rtol=1e-10)


@pytest.mark.slow
def test_steps_with_a_tendon_that_has_limits_alone_converge() -> None:
    wheel, start, time = _wheel_on_a_tendon(), (0.3, -2.0), 0.2

    def rate(_, y):
        beyond = max(y[0] - LIMIT, 0.0) + min(y[0] + LIMIT, 0.0)
        return [y[1], -(DAMPING * y[1] + LIMIT_STIFFNESS * beyond) / INERTIA]

    wanted = solve_ivp(rate, (0.0, time), start, rtol=1e-10, atol=1e-12, max_step=1e-3).y[0, -1]
    errors = []
    for count in (100, 200):
        states = artix.rollout(wheel, _turning(wheel, *start), None, time / count, num_steps=count)
        errors.append(abs(float(states.joint_position[-1, 0]) - wanted))
    assert errors[1] < 2e-3 and 1.8 < errors[0] / errors[1] < 2.2, errors


@functools.partial(jax.jit, static_argnames=("options", "parts", "count"))
def _places(
    articulation, states, options: SolverOptions, parts: int, count: int
) -> tuple[jax.Array, jax.Array]:
    """Links' places and joint positions of several runs of ``count`` steps of 1/240 s, each in
    ``parts``."""

    def run(state):
        end = artix.rollout(
            articulation, state, None, 1 / 240 / parts, options, num_steps=count * parts
        )
        end = jax.tree.map(lambda leaf: leaf[-1], end)
        return artix.frame_pose(articulation, end)[:, :3], end.joint_position

    return jax.vmap(run)(states)


@pytest.mark.slow
def test_spherical_joints_of_a_floating_tree_move_as_they_do_in_small_steps() -> None:
    """A step of 1/240 s errs by 1.4e-2 m and 1.6e-2 rad after 100 steps, as PhysX's does by as much
    again."""
    articulation, states = (
        jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), made)
        for made in (physx.build("d_mixed_floating"), physx.states("d_mixed_floating"))
    )
    unit = states.root_pose[:, 3:] / jnp.linalg.norm(states.root_pose[:, 3:], axis=1, keepdims=True)
    states = states.replace(root_pose=states.root_pose.at[:, 3:].set(unit))
    fine = _places(articulation, states, SolverOptions(solver="rk4"), 4, 100)
    # From 1/15,360 s on, links turn by less than what counts as fast motion.
    coarse, finer = (
        _places(articulation, states, SolverOptions(), parts, 100) for parts in (64, 256)
    )
    whole = _places(articulation, states, SolverOptions(), 1, 100)
    for truth, found in zip(fine, whole, strict=True):
        assert np.abs(found - truth).max() < 2e-2
    for truth, one, quarter in zip(fine, coarse, finer, strict=True):
        error, refined = (
            np.abs(found - truth).reshape(len(truth), -1).max(axis=1) for found in (one, quarter)
        )
        assert np.all(error < 2e-2), error
        np.testing.assert_allclose(error / refined, 4.0, rtol=0.03)  # of first order
