"""Fast motion without contact: energy, momenta, accuracy beside closed forms and MuJoCo, gradients,
reports."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import artix
from artix import Articulation, ArticulationBuilder, Joint, SolverOptions, State
from benchmarks.fast_motion import measured, robots
from tests.support.models import random_states, random_tree, state_at

rollout = jax.jit(artix.rollout, static_argnames=("options", "num_steps"))


def chain(
    links: int, *, spherical: bool, mass: float, length: float, dtype: str = "float64"
) -> Articulation:
    """A chain of thin rods that hangs from a fixed base along -z."""
    builder = ArticulationBuilder(fixed_base=True)
    inertia = (mass * length**2 / 12, mass * length**2 / 12, mass * length**2 / 200)
    builder.add_link(mass=1.0, inertia=(1.0, 1.0, 1.0))
    for link in range(links):
        above = (0, 0, -length if link else 0, 0, 0, 0, 1)
        kind = (
            Joint.spherical if spherical else functools.partial(Joint.revolute, artix.Axis.SWING1)
        )
        center = (0, 0, -length / 2, 0, 0, 0, 1)
        builder.add_link(link, kind(parent_pose=above), mass=mass, inertia=inertia, com_pose=center)
    return builder.build(dtype)


@functools.cache
def body() -> Articulation:
    """A rigid body in weightlessness."""
    builder = ArticulationBuilder(gravity=(0, 0, 0))
    builder.add_link(mass=1.0, inertia=(1.0, 2.0, 3.0))
    return builder.build("float64")


def spinning(omega: np.ndarray) -> State:
    """The body in flight with an angular velocity."""
    state = artix.neutral_state(body())
    return state.replace(root_velocity=jnp.asarray([1.0, 2.0, 3.0, *omega]))


def energies(articulation: Articulation, states: State) -> np.ndarray:
    """Kinetic plus potential energy of a batch of states."""
    total = functools.partial(artix.mechanical_energy, armature=True)
    return np.asarray(jax.jit(jax.vmap(total, (None, 0)))(articulation, states))


# --- closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", [(1.0, 0.1, 0.1), (0.1, 1.0, 0.1), (0.1, 0.1, 1.0)])
@pytest.mark.parametrize("dt", [5e-4, 0.05])
def test_a_free_body_at_1000_radians_per_second(direction: tuple[float, ...], dt: float) -> None:
    """By 0.5 rad a step, energy and momenta stay. By 50 rad, energy is never gained, and little is
    lost."""
    start = spinning(1000.0 * np.asarray(direction))
    path = rollout(body(), start, None, dt, num_steps=200)
    change = energies(body(), path) / float(artix.mechanical_energy(body(), start)) - 1
    assert change.min() > -1e-2
    assert change.max() < 1e-12
    momentum = np.asarray(jax.vmap(artix.centroidal_momentum, (None, 0))(body(), path))
    before = np.asarray(artix.centroidal_momentum(body(), start))
    np.testing.assert_allclose(momentum[:, :3], np.broadcast_to(before[:3], (200, 3)), rtol=1e-12)
    size = np.linalg.norm(before[3:])
    if dt < 0.01:
        assert np.abs(change).max() < 1e-10
        assert np.abs(momentum[:, 3:] - before[3:]).max() < 1e-10 * size
    else:  # Steps by nearly an odd multiple of pi may lose angular momentum.
        assert np.linalg.norm(momentum[:, 3:], axis=1).max() < (1 + 1e-12) * size


@pytest.mark.parametrize("mass", [1e-9, 1e-7, 1e7])
@pytest.mark.parametrize("solver", ["implicit", "tgs"])
def test_the_mass_of_a_free_body_does_not_matter(solver: str, mass: float) -> None:
    """In single precision: the determinant of the inertia of a cube of water of less than a
    millimetre is no number of it."""
    velocity = jnp.array([1.0, 2.0, 3.0, 3.0, 2.0, 1.0], jnp.float32)

    def turned(scale: float, speed: float) -> np.ndarray:
        builder = ArticulationBuilder()
        size = scale * (1e-4 if scale < 1 else 0.1) ** 2
        builder.add_link(mass=scale, inertia=(size, 1.5 * size, 2 * size), angular_damping=0.0)
        one = builder.build("float32")
        start = artix.neutral_state(one).replace(root_velocity=speed * velocity)
        options = SolverOptions(solver=solver)
        return np.asarray(artix.rollout(one, start, None, 1e-3, options, num_steps=5).root_velocity)

    for speed in (1.0, 300.0):
        np.testing.assert_allclose(turned(mass, speed), turned(1.0, speed), rtol=1e-5 * speed**0.5)


def test_order_of_a_free_body() -> None:
    """A body that flips as Dzhanibekov's, beside Euler's equations: the error falls as the square
    of the step."""
    inertia, omega = np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 1.0])

    def euler(_: float, x: np.ndarray) -> np.ndarray:
        pose, spin = x[:4], x[4:]
        vector = 0.5 * (pose[3] * spin + np.cross(pose[:3], spin))
        return np.array(
            [*vector, -0.5 * pose[:3] @ spin, *(np.cross(inertia * spin, spin) / inertia)]
        )

    exact = solve_ivp(euler, (0, 1), [0, 0, 0, 1, *omega], rtol=1e-11, atol=1e-11).y[:4, -1]
    errors = []
    for steps in (200, 400):
        end = rollout(body(), spinning(omega), None, 1 / steps, num_steps=steps).root_pose[-1, 3:]
        errors.append(min(np.abs(end - exact).max(), np.abs(end + exact).max()))
    assert errors[0] < 2e-3  # 6e-2 with explicit gyroscopic forces
    assert 3.5 < errors[0] / errors[1] < 4.5


# --- beside MuJoCo ------------------------------------------------------------------------------

_DOUBLE = """
<mujoco><option timestep="{dt}" integrator="{integrator}"/><worldbody><body>
  <joint axis="0 1 0"/><inertial pos="0 0 -.5" mass="1" diaginertia=".08333333333 .08333333333 .005"/>
  <body pos="0 0 -1">
    <joint axis="0 1 0"/><inertial pos="0 0 -.5" mass="1" diaginertia=".08333333333 .08333333333 .005"/>
  </body></body></worldbody></mujoco>
"""


@pytest.mark.slow
def test_a_fast_double_pendulum_beside_mujoco() -> None:
    """At 35 rad/s, with the same steps: nearer to the exact motion than MuJoCo's Euler and implicit
    integrators."""
    a, dt = chain(2, spherical=False, mass=1.0, length=1.0), 2e-3
    start = artix.neutral_state(a)
    start = start.replace(
        joint_position=jnp.array([1.5, 0.7]), joint_velocity=jnp.array([20.0, -35.0])
    )
    fine = rollout(a, start, None, 5e-5, SolverOptions(solver="rk4"), num_steps=10_000)
    path = rollout(a, start, None, dt, num_steps=250)

    def error_of(position: np.ndarray) -> float:
        turns = np.exp(1j * np.asarray(position - fine.joint_position[-1]))
        return np.abs(np.angle(turns)).max()

    error = error_of(path.joint_position[-1])
    assert error < 0.2
    for integrator in ("Euler", "implicit", "implicitfast"):
        model = mujoco.MjModel.from_xml_string(_DOUBLE.format(dt=dt, integrator=integrator))
        data = mujoco.MjData(model)
        data.qpos, data.qvel = start.joint_position, start.joint_velocity
        mujoco.mj_step(model, data, nstep=250)
        assert error < 0.4 * error_of(data.qpos), integrator
    energy = energies(a, path) - float(artix.mechanical_energy(a, start))
    assert energy.max() < 1e-4 * float(artix.kinetic_energy(a, start))
    assert energy.min() > -5e-3 * float(artix.kinetic_energy(a, start))


@pytest.mark.slow
def test_a_rope_of_light_links() -> None:
    """Twelve links of 50 g swing from the horizontal with steps of 2 ms, which explicit Coriolis
    forces explode."""
    a = chain(12, spherical=True, mass=0.05, length=0.1, dtype="float32")
    start = artix.neutral_state(a)
    start = start.replace(
        joint_position=start.joint_position.at[:3].set(jnp.array([0, 1.5, 0.1], a.dtype))
    )
    path = rollout(a, start, None, 2e-3, num_steps=1000)
    energy = energies(a, path) - float(artix.mechanical_energy(a, start))
    fall = 12 * 0.05 * 9.81 * 0.6
    assert np.abs(energy).max() < 0.02 * fall
    assert np.abs(path.joint_velocity).max() > 50  # It whips.


# --- the law of energy --------------------------------------------------------------------------


@functools.cache
def _energy_path(seed: int, fixed_base: bool):
    """A random tree in weightlessness; of a state and dt, kinetic energies and momenta of 100
    steps."""
    a = random_tree(seed, links=4, fixed_base=fixed_base, gravity=(0.0, 0.0, 0.0), dtype="float64")

    @jax.jit
    def path(state: State, dt: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(now: State, _: None) -> tuple[State, tuple[jax.Array, jax.Array]]:
            end = artix.step(a, now, None, dt)
            energy = artix.kinetic_energy(a, end, armature=True)
            return end, (energy, artix.centroidal_momentum(a, end))

        return jax.lax.scan(step, state, length=100)[1]

    return a, path


@pytest.mark.slow
@pytest.mark.parametrize("fixed_base", [True, False])
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    seed=st.integers(0, 10_000),
    angle=st.floats(-1.0, 1.5),
    dt=st.floats(-4.0, -1.3),
)
def test_random_trees_gain_no_energy(fixed_base: bool, seed: int, angle: float, dt: float) -> None:
    """All kinds of joints, from 0.1 to 30 rad a step: finite, never more energy than before,
    momentum conserved."""
    a, path = _energy_path(1, fixed_base)
    dt, angle = 10**dt, 10**angle
    state = state_at(random_states(a, 1, seed=seed, speed=1.0), 0)
    turning = jnp.linalg.norm(artix.frame_velocity(a, state, offset="com")[:, 3:], axis=1).max()
    faster = angle / dt / turning
    state = state.replace(
        joint_velocity=faster * state.joint_velocity, root_velocity=faster * state.root_velocity
    )
    energy, momentum = map(np.asarray, path(state, jnp.asarray(dt)))
    every = np.append(artix.kinetic_energy(a, state, armature=True), energy)
    assert np.isfinite(every).all()
    assert np.diff(every).max() <= 1e-9 * every[0]
    if not fixed_base:
        linear = np.asarray(artix.centroidal_momentum(a, state))[:3]
        assert np.abs(momentum[:, :3] - linear).max() < 1e-9 * np.sqrt(
            2 * every[0] * np.sum(a.link_mass)
        )


@pytest.mark.slow
def test_slow_double_pendulums_gain_no_energy() -> None:
    """Without damping, Coriolis forces at the start of a step add to the energy in every step: up
    to 0.9 % in 100, if the measures begin at a hundredth of a radian."""
    angle, finite, ratio = measured(
        robots()["double pendulum"].astype("float32"), 2000, 100, seed=5
    )
    slow = angle < 0.1
    assert finite.all()
    assert slow.sum() > 1000
    assert ratio[slow].max() < 1 + 5e-4


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "most"), [("float32", 5e-4), ("float64", 1e-6)])
def test_chains_of_light_links_gain_no_energy(dtype: str, most: float) -> None:
    """A floating chain whose mass matrix has a condition of 1e7. Before, where the whole had most
    of the energy, the motion of its joints could not pay for an error of 0.1 % in any dtype; and
    in float32, in which the energy was a difference of large numbers, 39 of these states gained
    more than 0.05 % in 100 steps, up to 0.44 %."""
    robot = robots()["chain, 30 links"].astype(dtype)
    angle, finite, ratio = measured(robot, 10_000, 100, seed=0)
    assert finite.all()
    fast = angle > 0.0015
    assert fast.sum() > 9000
    assert ratio[fast].max() < 1 + most
    assert ratio.max() < 1 + 5e-4


def test_work_of_forces() -> None:
    """A fast arm is driven: its energy grows by no more than the work of the drives and of
    gravity."""
    a = chain(3, spherical=False, mass=1.0, length=0.5)
    state = artix.neutral_state(a).replace(joint_velocity=jnp.array([30.0, -50.0, 80.0]))
    force = jnp.array([40.0, -20.0, 10.0])
    path = rollout(a, state, artix.Control(joint_force=force), 2e-3, num_steps=200)
    speeds = np.concatenate([state.joint_velocity[None], path.joint_velocity])
    energy = np.append(artix.mechanical_energy(a, state), energies(a, path))
    work = 2e-3 * (0.5 * (speeds[1:] + speeds[:-1])) @ np.asarray(force)
    assert np.abs(np.diff(energy) - work).max() < 0.02 * energy[0]
    assert abs(energy[-1] - energy[0] - work.sum()) < 0.02 * energy[0]
    assert np.abs(work).sum() > 0.5 * energy[0]


# --- slow motion, reports and derivatives -------------------------------------------------------


@pytest.mark.slow
def test_reports_and_mixed_batches() -> None:
    """Slow steps are left alone, fast ones report what they add; both give the same in one batch as
    alone."""
    a = random_tree(3, links=4, fixed_base=False, dtype="float64")
    slow, fast = (state_at(random_states(a, 1, seed=5, speed=speed), 0) for speed in (0.1, 100.0))
    still = slow.replace(
        joint_velocity=jnp.zeros_like(slow.joint_velocity), root_velocity=jnp.zeros(6)
    )
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), slow, fast, still)
    step = jax.jit(jax.vmap(lambda state: artix.step_and_report(a, state, None, 2e-3)))
    ends, report = step(both)
    assert report.energy_correction[0] == report.energy_correction[2] == 0
    assert report.energy_correction[1] != 0
    for k, state in enumerate((slow, fast, still)):
        alone, _ = step(jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), state))
        for leaf, other in zip(jax.tree.leaves(ends), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(leaf[k], other[0])


@pytest.mark.slow
@pytest.mark.parametrize("fixed_base", [True, False])
def test_derivatives(fixed_base: bool) -> None:
    """By configuration, velocity, masses, armature, forces and dt, at rest, between slow and fast,
    and fast."""
    a = random_tree(3, links=4, fixed_base=fixed_base, dtype="float64")
    base, rng = a.topology.num_base_dofs, np.random.default_rng(0)

    def end(state: State, inputs: tuple[jax.Array, ...]) -> jax.Array:
        moved, faster, heavier, armature, force, longer = inputs
        velocity = artix.generalized_velocity(a, state) + faster
        state = artix.integrate(a, state, moved).replace(joint_velocity=velocity[base:])
        state = state.replace(root_velocity=velocity[:6]) if base else state
        robot = a.replace(link_mass=a.link_mass * (1 + heavier), armature=a.armature + armature)
        after = artix.step(robot, state, artix.Control(joint_force=force), 4e-3 * (1 + longer))
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(after)])

    nv, n, links = a.topology.nv, a.topology.num_dofs, a.topology.num_links
    at = tuple(jnp.zeros(size) for size in (nv, nv, links, n, n))
    at = (*at, jnp.zeros(()))
    along = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), at)
    value = jax.jit(end)
    forward = jax.jit(lambda state: jax.jvp(functools.partial(end, state), (at,), (along,))[1])
    weights = jnp.asarray(rng.normal(size=value(state_at(random_states(a, 1), 0), at).shape))
    reverse = jax.jit(jax.grad(lambda inputs, state: jnp.sum(weights * end(state, inputs))))

    def difference(state: State, h: float) -> jax.Array:
        ends = [
            value(state, jax.tree.map(lambda x, d, s=sign: x + s * h * d, at, along))
            for sign in (1, -1)
        ]
        return (ends[0] - ends[1]) / (2 * h)

    for speed in (0.0, 1.0, 1.3, 4.0, 20.0, 200.0):
        state = state_at(random_states(a, 1, seed=5, speed=1.0), 0)
        state = state.replace(
            joint_velocity=speed * state.joint_velocity, root_velocity=speed * state.root_velocity
        )
        expected = (4 * difference(state, 5e-7) - difference(state, 1e-6)) / 3
        found = forward(state)
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
        products = zip(jax.tree.leaves(reverse(at, state)), jax.tree.leaves(along), strict=True)
        total = sum(jnp.sum(gradient * change) for gradient, change in products)
        np.testing.assert_allclose(total, jnp.sum(weights * found), rtol=1e-8)


@pytest.mark.slow
def test_reports_of_a_body_without_rows_have_derivatives() -> None:
    """Residuals of nothing are zero and remain so."""
    state = spinning(np.array([1.0, 0.0, 0.0]))

    def report(velocity: jax.Array) -> artix.StepReport:
        moved = state.replace(root_velocity=velocity)
        return artix.step_and_report(body(), moved, artix.Control(), 4e-3)[1]

    velocity = state.root_velocity
    _, tangents = jax.jvp(report, (velocity,), (jnp.ones_like(velocity),))
    assert tangents.velocity_residual.max == tangents.position_residual.max == 0.0
    for leaf in jax.tree.leaves(tangents):
        if leaf.dtype != jax.dtypes.float0:
            assert np.all(np.isfinite(leaf))


@pytest.mark.slow
def test_a_body_without_joints_has_derivatives_in_both_modes() -> None:
    """A body that turns fast: forward, reverse and second derivatives beside differences of each."""
    state = spinning(np.array([20.0, 1.0, -4.0]))

    @jax.jit
    def end(faster: jax.Array) -> jax.Array:
        moved = state.replace(root_velocity=state.root_velocity + faster)
        return artix.step(body(), moved, artix.Control(), 4e-3).root_velocity

    def differences(function, h: float) -> np.ndarray:
        columns = [(function(h * e) - function(-h * e)) / (2 * h) for e in jnp.eye(6)]
        return np.stack(columns, axis=-1)

    still, forward = jnp.zeros(6), jax.jit(jax.jacfwd(end))
    expected = differences(end, 1e-5)
    np.testing.assert_allclose(forward(still), expected, atol=1e-7)
    np.testing.assert_allclose(jax.jit(jax.jacrev(end))(still), forward(still), atol=1e-12)
    second = jax.jit(jax.jacfwd(forward))(still)
    np.testing.assert_allclose(second, differences(forward, 1e-5), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_joint_at_its_limit_is_not_beyond_it_by_rounding(dtype: str) -> None:
    """What joints beyond their limits spare from the bound on the energy would come and go."""
    robot = artix.robots.load("double_pendulum", dtype=dtype)
    limit = np.asarray(0.5, dtype)
    robot = robot.replace(joint_lower_limit=jnp.asarray([limit, -np.inf], dtype))
    start = artix.neutral_state(robot)
    start = start.replace(joint_velocity=jnp.asarray([0, 6], dtype))

    def end(angle: jax.Array) -> jax.Array:
        state = start.replace(joint_position=jnp.stack([angle, jnp.full_like(angle, 0.3)]))
        return artix.step(robot, state, None, jnp.asarray(0.01, dtype)).joint_velocity

    angles = jnp.asarray([np.nextafter(limit, np.asarray(0, dtype)), limit])
    below, at = jax.jit(jax.vmap(end))(angles)
    np.testing.assert_allclose(below, at, rtol=64 * np.finfo(dtype).eps)
