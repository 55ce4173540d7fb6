"""SHAC: its gradients against differences of another implementation, robots whose gradients
explode, and learning."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.examples import learners, policies, shac
from tests.support.point_mass import PointMass
from tests.support.programs import each_compiled_once
from tests.support.users_types import users_types

CONFIG = shac.Config(
    num_envs=32,
    horizon=6,
    minibatches=2,
    policy_layers=(16,),
    critic_layers=(16,),
    learning_rate=3e-3,
    noise=0.1,
)
STEPS = CONFIG.num_envs * CONFIG.horizon


@pytest.fixture(scope="module", autouse=True)
def _as_users_have_it():
    """Optax mixes the types of its counters and rates."""
    with users_types(), each_compiled_once():
        yield


def train(environment, iterations, config=CONFIG, training=None):
    return list(shac.train(environment, config, steps=iterations * STEPS, training=training))


@pytest.fixture(scope="module")
def trained():
    return train(PointMass(), 60)


def linear(environment):
    """Settings without layers or noise, and the start of a run with known gains and values, all at
    the first step."""
    config = dataclasses.replace(CONFIG, policy_layers=(), critic_layers=(), noise=0.0)
    training = shac.start(environment, config)
    gains = np.array([-0.3, -0.2])
    policy = {"kernel": jnp.asarray(gains[:, None], jnp.float32), "bias": jnp.zeros(1, jnp.float32)}
    value = {"kernel": jnp.asarray([[-0.5], [0.25]], jnp.float32), "bias": jnp.ones(1, jnp.float32)}
    training = training._replace(
        parameters=training.parameters | {"policy": {"params": {"Dense_0": policy}}},
        target={"params": {"Dense_0": value}},
        env=training.env.replace(
            info=training.env.info | {"steps": jnp.zeros(config.num_envs, jnp.int32)}
        ),
    )
    return config, training, gains


def earned(training, gains, config, moves):
    """The rewards of each mass, and the critic's value of where it ends, in NumPy and float64."""
    position, velocity = np.asarray(training.env.articulation_state, float).T
    rewards = 0.0
    for k, move in enumerate(moves):
        velocity = velocity + 0.1 * (gains @ [position, velocity] + move)
        position = position + 0.1 * velocity
        rewards = rewards + config.discount**k * (1 - np.abs(position) - 0.1 * np.abs(velocity))
    return rewards, config.discount ** len(moves) * (1 - 0.5 * position + 0.25 * velocity)


def are_slopes_of_the_return(gradient, training, gains, config):
    """Fails unless a gradient of actions agrees with central differences in NumPy."""
    moves, step = np.zeros((config.horizon, config.num_envs)), 1e-6
    for k in range(config.horizon):
        ahead, behind = moves.copy(), moves.copy()
        ahead[k] += step
        behind[k] -= step
        slope = (
            sum(earned(training, gains, config, ahead))
            - sum(earned(training, gains, config, behind))
        ) / (2 * step)
        np.testing.assert_allclose(gradient[k, :, 0], slope, rtol=2e-4, atol=2e-6)


@pytest.mark.slow
def test_gradients_of_actions_are_differences_of_the_return():
    """They include that the policy answers to what its actions change."""
    config, training, gains = linear(PointMass())
    play = shac.make_play(PointMass(), config)
    still = jnp.zeros((config.horizon, config.num_envs, 1), jnp.float32)
    gradient = jax.jit(jax.grad(lambda moves: play(moves, training, jax.random.key(0))[0]))(still)
    are_slopes_of_the_return(gradient, training, gains, config)


class Falling(PointMass):
    """Every episode ends with a fall after its second step."""

    def step(self, state, action):
        end = super().step(state, action)
        done = (end.info["steps"] >= 2).astype(jnp.float32)
        return end.replace(done=done, info=end.info | {"truncation": jnp.zeros_like(done)})


def test_a_fall_is_worth_nothing_but_the_critic_leads_away_from_it():
    config, training, gains = linear(Falling())
    play = shac.make_play(Falling(), dataclasses.replace(config, horizon=2))
    still = jnp.zeros((2, config.num_envs, 1), jnp.float32)
    total, gradient = jax.jit(
        jax.value_and_grad(lambda moves: play(moves, training, jax.random.key(0))[0])
    )(still)
    rewards, _ = earned(training, gains, config, np.zeros((2, config.num_envs)))
    np.testing.assert_allclose(total, rewards.sum(), rtol=1e-5)
    for k in range(2):
        ahead, behind = np.zeros((2, config.num_envs)), np.zeros((2, config.num_envs))
        ahead[k], behind[k] = 1e-6, -1e-6
        slope = (
            sum(earned(training, gains, config, ahead))
            - sum(earned(training, gains, config, behind))
        ) / 2e-6
        np.testing.assert_allclose(gradient[k, :, 0], slope, rtol=2e-4, atol=2e-6)


def test_a_gradient_counts_at_most_a_few_times_the_median():
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=(5, 8, 3)).astype(np.float32)
    gradient[1, 2], gradient[3, 4], gradient[0, 0, 1], gradient[4, 4, 0] = (
        1e12,
        np.inf,
        np.nan,
        1e30,
    )
    lost = np.zeros((5, 8), bool)
    lost[3, 4] = lost[0, 0] = lost[4, 4] = (
        True  # The square of 1e30 is not finite in float32 either.
    )
    with np.errstate(invalid="ignore"):
        norm = np.where(lost, 0, np.linalg.norm(gradient.astype(float), axis=2))
    median = np.median(norm[norm > 0])
    wanted = np.where(lost[..., None], 0, gradient) / np.maximum(median, norm / 3)[..., None]
    bounded, report = shac.limited(jnp.asarray(gradient), 3.0)
    np.testing.assert_allclose(bounded, wanted, rtol=1e-5)
    np.testing.assert_allclose(report["gradient"], median, rtol=1e-5)
    np.testing.assert_allclose(report["largest_gradient"], norm.max(), rtol=1e-5)
    np.testing.assert_allclose(report["lost"], lost.mean(), rtol=1e-6)
    assert np.linalg.norm(bounded, axis=2).max() < 3.00001


@pytest.mark.slow
def test_it_learns(trained):
    """Masses that are left alone earn 1.5 of 30; the best policies that PPO finds earn a little
    more than 20."""
    policy = shac.policy_of(trained[-1][0], CONFIG)
    found = policies.evaluate(PointMass(), policy, jax.random.key(1), episodes=64)
    assert float(found["return"].mean()) > 17


class Exploding(PointMass):
    """The rewards of some masses have infinite slopes."""

    def step(self, state, action):
        end = super().step(state, action)
        position = end.articulation_state[0]
        # 0, or 1 without a slope
        steep = jnp.where(position > 0.5, position - jax.lax.stop_gradient(position), 1)
        return end.replace(reward=end.reward + jnp.sqrt(steep) - jnp.where(position > 0.5, 0, 1))


@pytest.mark.slow
def test_robots_whose_gradients_are_not_finite_cost_only_their_own(trained):
    runs = train(Exploding(), 60)
    assert any(report["lost"] > 0 for _, report in runs)
    for training, report in runs:
        assert np.isfinite(
            [report[x] for x in ("gradient", "largest_gradient", "value_error")]
        ).all()
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(training.parameters))
    policy = shac.policy_of(runs[-1][0], CONFIG)
    found = policies.evaluate(PointMass(), policy, jax.random.key(1), episodes=32)
    assert float(found["return"].mean()) > 15


def check_norms(reports):
    """No gradient of an action is lost, and none grows while a robot learns: the largest of the
    later iterations is like that of the first ones."""
    assert not any(report["lost"] for report in reports)
    assert not any(report["metrics/nan"] for report in reports)
    median, largest = (
        np.array([report[name] for report in reports]) for name in ("gradient", "largest_gradient")
    )
    assert np.all(median > 0) and np.all(median <= largest)
    quarter = len(reports) // 4
    for norms in (median, largest):
        assert np.median(norms[-quarter:]) < 5 * np.median(norms[:quarter])


@pytest.fixture(scope="module")
def walker():
    """A policy of 0.3 million steps."""
    chosen = learners.settings("quadruped_velocity", "shac")
    environment = envs.make("quadruped_velocity", **chosen.options, **chosen.always)
    runs = list(shac.train(environment, chosen.config, steps=300_000))
    check_norms([report for _, report in runs])
    return shac.policy_of(runs[-1][0], chosen.config)


@pytest.mark.slow  # 15 s of compilation, 15 s of training
def test_gradients_do_not_grow_while_a_hopper_learns():
    """2,000 iterations of few robots, whose steps halve in 500."""
    config = shac.Config(num_envs=16, horizon=8, epochs=1, minibatches=1, half_life=500)
    steps = 2000 * config.num_envs * config.horizon
    reports, run = [], None
    for run in shac.train(envs.make("hopper"), config, steps=steps):
        reports.append(run[1])
    check_norms(reports)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run[0].parameters))


@pytest.mark.slow  # 22 s of compilation, 10 s of training
def test_a_quadruped_walks_and_hardly_ever_falls(walker):
    """With the task's own commands, starts and noise, for 10 s."""
    always = learners.settings("quadruped_velocity", "shac").always
    test = envs.make("quadruped_velocity", episode_length=500, **always)
    found = policies.evaluate(test, walker, jax.random.key(1), episodes=256)
    assert float(found["velocity_error"].mean()) < 0.15
    assert float(found["terminated"].mean()) < 0.025


@pytest.mark.slow  # 15 s of compilation
def test_gradients_of_a_walking_quadruped_are_differences(walker):
    """Of a control step in double precision, at states of a trained policy.

    Steps are solved: the derivative of one that is cut off after fewer Newton steps is that of its
    solution.
    """
    with jax.enable_x64(True):
        _check_gradients(walker)


def _check_gradients(walker):
    chosen = learners.settings("quadruped_velocity", "shac")
    options = {
        **chosen.options,
        **chosen.always,
        "solver_options": artix.SolverOptions(max_newton_steps=60),
    }
    environment = envs.autoreset(envs.make("quadruped_velocity", dtype=jnp.float64, **options))

    def advance(states, _):
        return jax.vmap(environment.step)(states, walker(states.obs).astype(jnp.float64)), None

    def outcome(action, before):
        after = environment.step(before, action)
        state = after.articulation_state
        velocities = jnp.concatenate([state.root_velocity, state.joint_velocity])
        return (
            after.reward
            + jnp.sum(jnp.sin(velocities))
            + jnp.sum(state.root_pose)
            + jnp.sum(state.joint_position)
        )

    count, change = 32, 1e-6
    states = jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), count))
    states = jax.jit(lambda states: jax.lax.scan(advance, states, length=80)[0])(states)
    actions = jnp.clip(walker(states.obs).astype(jnp.float64), -0.999, 0.999)
    ways = np.random.default_rng(0).normal(size=actions.shape)
    slopes = np.sum(jax.jit(jax.vmap(jax.grad(outcome)))(actions, states) * ways, axis=1)
    outcomes = jax.jit(jax.vmap(outcome))
    differences = (
        outcomes(actions + change * ways, states) - outcomes(actions - change * ways, states)
    ) / (2 * change)
    np.testing.assert_allclose(slopes, differences, rtol=1e-6, atol=1e-6)


def test_a_run_continues_as_if_it_had_never_stopped(trained):
    again = train(PointMass(), 3, training=trained[0][0])
    jax.tree.map(np.testing.assert_array_equal, again[-1][0].parameters, trained[2][0].parameters)


def test_methods_and_settings():
    assert learners.method_of(CONFIG) == "shac"
    with pytest.raises(
        TypeError,
        match=r"config must be an artix.examples.ppo.Config or artix.examples.shac.Config",
    ):
        learners.method_of(1)
    with pytest.raises(
        ValueError,
        match="SHAC has settings for cart_pole, arm_reach, hopper, ant, quadruped_velocity, "
        "quadruped_rough only",
    ):
        learners.settings("humanoid_velocity", "shac")
    for options, message in (
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"action_step": 0.0}, "action_step must be positive"),
        (
            {"num_envs": 3, "horizon": 5},
            "must be a multiple of minibatches, 4; found num_envs=3, horizon=5",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            shac.Config(**options)
