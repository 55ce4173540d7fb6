"""Smooth dynamics: the vector field against forward dynamics and ODE solvers, Runge-Kutta's order,
and refusals."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import artix
from artix import (
    ArticulationBuilder,
    Control,
    Drive,
    FixedTendon,
    Joint,
    JointFriction,
    SolverOptions,
    TendonJoint,
)
from tests.simulation.test_stepping import at, last, pendulum
from tests.support.models import random_pose, random_states, state_at, tree_of

RK4 = SolverOptions(solver="rk4")
rollout = jax.jit(artix.rollout, static_argnames=("options", "num_steps"))
field = jax.jit(artix.vector_field)


@functools.cache
def _floating():
    """A floating tree with a spherical and a prismatic joint, drives of both types, dampers, and a
    moving state."""
    a = tree_of(
        ["spherical_012", "revolute_swing1", "prismatic_y"],
        [0, 1, 0],
        fixed_base=False,
        armature=0.05,
    )
    rng, n = np.random.default_rng(1), a.topology.num_dofs
    positive = lambda: jnp.asarray(rng.uniform(0.5, 2.0, n))  # noqa: E731
    drive = a.drive.replace(
        stiffness=4 * positive(), damping=0.2 * positive(), target_position=0.3 * positive()
    )
    drive = drive.replace(is_acceleration=jnp.asarray([0.0, 0, 0, 1, 0]))
    a = a.replace(drive=drive, friction=a.friction.replace(viscous=0.1 * positive()))
    a = a.replace(link_linear_damping=jnp.full(4, 0.1), link_angular_damping=jnp.full(4, 0.2))
    control = Control(
        joint_force=jnp.asarray(rng.normal(size=n)),
        external_force=jnp.asarray(rng.normal(size=(4, 6))),
    )
    return a, state_at(random_states(a, 1, seed=2), 0), control


def _embedded(state) -> np.ndarray:
    """A state as one vector in which equal configurations are equal."""
    turn = np.asarray(state.root_pose[3:])
    return np.concatenate(
        [state.root_pose[:3], turn * np.sign(turn[3]), *map(np.ravel, jax.tree.leaves(state)[1:])]
    )


@pytest.mark.slow
def test_the_vector_field_is_forward_dynamics() -> None:
    """Its velocities against a finite difference of the configuration, its accelerations against
    forward dynamics."""
    a, state, control = _floating()
    h, nu = 1e-6, jnp.concatenate([state.root_velocity, state.joint_velocity])
    rate = field(0.0, state, (a, control))
    move = jax.jit(artix.integrate)
    ends = [move(a, state, sign * h * nu) for sign in (1, -1)]
    for name in ("root_pose", "joint_position"):
        difference = (getattr(ends[0], name) - getattr(ends[1], name)) / (2 * h)
        np.testing.assert_allclose(getattr(rate, name), difference, atol=1e-8)
    plain = a.replace(link_linear_damping=jnp.zeros(4), link_angular_damping=jnp.zeros(4))
    off = plain.drive.replace(stiffness=jnp.zeros(5), damping=jnp.zeros(5))
    plain = plain.replace(drive=off, friction=a.friction.replace(viscous=jnp.zeros(5)))
    rate = field(0.0, state, (plain, control))
    force = jnp.concatenate([jnp.zeros(6), control.joint_force])
    wanted = jax.jit(artix.forward_dynamics)(plain, state, force, control.external_force)
    np.testing.assert_allclose(
        jnp.concatenate([rate.root_velocity, rate.joint_velocity]), wanted, rtol=1e-9, atol=1e-9
    )


@pytest.mark.slow
def test_order_four_and_the_solution_of_scipy() -> None:
    """Half the step, a sixteenth of the error, judged by SciPy's Runge-Kutta of order 8 at a
    tolerance of 1e-12."""
    a, state, control = _floating()
    leaves, kind = jax.tree.flatten(state)
    places = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def flat(t, y):
        rates = field(t, jax.tree.unflatten(kind, np.split(y, places)), (a, control))
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(rates)])

    start = np.concatenate([np.ravel(leaf) for leaf in leaves])
    found = scipy.integrate.solve_ivp(
        flat, (0.0, 0.32), start, method="DOP853", rtol=1e-12, atol=1e-12
    )
    exact = _embedded(jax.tree.unflatten(kind, np.split(found.y[:, -1], places)))
    errors = []
    for steps in (16, 32, 64):
        end = _embedded(last(rollout(a, state, control, 0.32 / steps, RK4, num_steps=steps)))
        errors.append(np.max(np.abs(end - exact)))
    assert errors[-1] < 1e-6
    assert 13 < errors[0] / errors[1] < 20, errors
    assert 13 < errors[1] / errors[2] < 20, errors


def test_the_energy_of_a_pendulum_drifts_by_order_five() -> None:
    """Over a swing from 2 rad; the error of the energy of a method of order 4 falls by 32 where a
    trend rules."""
    a = pendulum(2)
    state = at(a, jnp.array([2.0, 0.5]))
    energy = jax.jit(lambda s: artix.kinetic_energy(a, s) + artix.potential_energy(a, s))
    drifts = []
    for steps in (500, 1000):
        end = last(rollout(a, state, None, 2.0 / steps, RK4, num_steps=steps))
        drifts.append(abs(float(energy(end) - energy(state))))
    assert drifts[0] < 5e-6  # of 30 J
    assert 12 < drifts[0] / drifts[1] < 40


@pytest.mark.slow
def test_tendons_and_the_implicit_solver_agree_as_the_step_shrinks() -> None:
    """Springs of tendons and drives are the same forces; the implicit step is of order 1 in the
    step."""

    def couple(builder: ArticulationBuilder) -> None:
        joints = [TendonJoint(dof="hinge_0", coefficient=1.0, recip_coefficient=1.0)]
        joints.append(
            TendonJoint(dof="hinge_1", coefficient=-0.5, recip_coefficient=-0.5, parent=0)
        )
        builder.add_fixed_tendon(
            FixedTendon(name="cord", joints=joints, stiffness=4.0, damping=0.3)
        )

    a = pendulum(2, couple=couple, drive=Drive(stiffness=6.0, damping=0.4, target=0.3))
    state = at(a, jnp.array([0.5, -0.4]), jnp.array([1.0, -0.5]))
    exact = last(rollout(a, state, None, 1e-3, RK4, num_steps=200)).joint_position
    gaps = []
    for steps in (200, 400):
        end = last(rollout(a, state, None, 0.2 / steps, num_steps=steps))
        gaps.append(np.max(np.abs(end.joint_position - exact)))
    assert gaps[0] < 5e-3
    assert 1.8 < gaps[0] / gaps[1] < 2.2


@pytest.mark.slow
def test_diffrax_integrates_the_vector_field() -> None:
    diffrax = pytest.importorskip("diffrax")
    a = pendulum(2, drive=Drive(stiffness=6.0, damping=0.4))
    state = at(a, jnp.array([0.5, -0.4]))

    @jax.jit
    def solve(state):
        term, controller = (
            diffrax.ODETerm(artix.vector_field),
            diffrax.PIDController(rtol=1e-9, atol=1e-9),
        )
        return diffrax.diffeqsolve(
            term,
            diffrax.Tsit5(),
            0.0,
            0.2,
            1e-2,
            state,
            args=(a, None),
            stepsize_controller=controller,
        ).ys

    with jax.numpy_dtype_promotion("standard"):  # It mixes types.
        found = last(solve(state))
    exact = last(rollout(a, state, None, 1e-3, RK4, num_steps=200))
    np.testing.assert_allclose(found.joint_position, exact.joint_position, atol=1e-8)
    np.testing.assert_allclose(found.joint_velocity, exact.joint_velocity, atol=1e-7)


@pytest.mark.slow
def test_gradients_at_rest_and_single_precision() -> None:
    """A spherical joint at the identity, in float32: the end's derivatives by its start are finite
    and right."""
    a = tree_of(["spherical_012"], [0], fixed_base=True, dtype="float32")

    def end(q, a):
        state = artix.neutral_state(a).replace(joint_position=q)
        return artix.step(a, state, None, 0.01, RK4).joint_velocity

    assert jax.eval_shape(end, jnp.zeros(3, "float32"), a).dtype == jnp.float32
    gradient = jax.jit(jax.jacobian(end))(jnp.zeros(3, "float32"), a)
    exact, shifts = a.astype("float64"), 1e-5 * np.concatenate([np.eye(3), -np.eye(3)])
    moved = np.asarray(jax.jit(jax.vmap(end, (0, None)))(jnp.asarray(shifts), exact))
    wanted = ((moved[:3] - moved[3:]) / 2e-5).T
    np.testing.assert_allclose(gradient, wanted, atol=1e-4 * np.abs(wanted).max())


def test_relations_are_refused_by_name() -> None:
    step = functools.partial(artix.step, control=None, dt=0.01, options=RK4)
    a = pendulum(2, couple=lambda b: b.add_mimic("hinge_1", "hinge_0", 1.0))
    with pytest.raises(ValueError, match="cannot have mimic joints"):
        step(a, at(a, 0.0))
    a = pendulum(
        couple=lambda b: b.add_loop_joint(
            artix.LoopJoint(name="latch", link_a=None, link_b="bar_0")
        )
    )
    with pytest.raises(ValueError, match=r"cannot have loop joints \('latch'\)"):
        step(a, at(a, 0.0))
    a = pendulum()
    with pytest.raises(ValueError, match="'rk4' has no report"):
        artix.step_and_report(a, at(a, 0.0), None, 0.01, RK4)
    with pytest.raises(ValueError, match="'rk4' has no contacts"):
        artix.step(artix.Scene(a, ground=artix.Ground.flat()), at(a, 0.0), None, 0.01, RK4)


def test_limits_are_passed_over_whether_an_articulation_is_known_or_an_argument() -> None:
    free = pendulum(2, drive=Drive(stiffness=1.0, target=2.0))
    bounded = free.replace(
        joint_upper_limit=jnp.array([0.1, 0.1]), max_joint_velocity=jnp.array([0.2, 0.2])
    )
    state = at(free, 0.5, 1.0)
    wanted = artix.step(free, state, None, 0.01, RK4)
    known = jax.jit(lambda state: artix.step(bounded, state, None, 0.01, RK4))(state)
    argument = jax.jit(lambda one, state: artix.step(one, state, None, 0.01, RK4))(bounded, state)
    for found in (artix.step(bounded, state, None, 0.01, RK4), known, argument):
        np.testing.assert_allclose(found.joint_position, wanted.joint_position, rtol=1e-12)
        np.testing.assert_allclose(found.joint_velocity, wanted.joint_velocity, rtol=1e-12)


@pytest.mark.slow
def test_bounds_have_no_part_in_smooth_dynamics() -> None:
    free = pendulum(2, drive=Drive(stiffness=1.0, target=2.0))
    bounded = pendulum(
        2,
        drive=Drive(stiffness=1.0, target=2.0, max_force=0.1),
        friction=JointFriction(static=0.1),
        max_velocity=3.0,
    )
    bounded = bounded.replace(joint_upper_limit=jnp.array([0.1, 0.1]))
    state = at(free, 0.5)
    wanted = artix.vector_field(0.0, state, (free, None))
    for field in (artix.vector_field, jax.jit(artix.vector_field)):
        for found, expected in zip(
            jax.tree.leaves(field(0.0, state, (bounded, None))),
            jax.tree.leaves(wanted),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.slow
def test_a_fleet_of_different_robots_takes_runge_kutta_steps() -> None:
    builder = ArticulationBuilder(fixed_base=False, name="brick")
    builder.add_link(
        mass=2.0,
        com_pose=random_pose(np.random.default_rng(0)),
        inertia=[0.1, 0.2, 0.25],
        name="brick",
    )
    joint = Joint.revolute(name="lid", drive=Drive(stiffness=3.0, target=0.5))
    builder.add_link(0, joint, mass=0.5, inertia=[0.02, 0.02, 0.03], name="lid")
    members = [builder.build("float64"), pendulum(2)]
    fleet = artix.Fleet(members)
    alone = [state_at(random_states(members[0], 1), 0), at(members[1], 0.4, 0.2)]
    together = fleet.evaluate(artix.step, fleet.stack_states(alone), None, dt=0.01, options=RK4)
    for k, member in enumerate(members):
        wanted = jax.jit(artix.step, static_argnames="options")(member, alone[k], None, 0.01, RK4)
        for found, expected in zip(
            jax.tree.leaves(fleet.member_state(together, k)), jax.tree.leaves(wanted), strict=True
        ):
            np.testing.assert_allclose(found, expected, atol=1e-12)
