"""A residual on a policy: it begins with what that does, gradients go through both, and both are one
policy again."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix import envs
from artix.envs.observation_terms import ObservationTerm
from artix.envs.tasks.legged import OBSERVATIONS
from artix.examples import learners, policies, ppo, residual, shac
from artix.examples.policies import Network, Observed, Policy
from tests.examples.test_shac import CONFIG, are_slopes_of_the_return, linear
from tests.support.point_mass import PointMass
from tests.support.users_types import users_types


@pytest.fixture(scope="module", autouse=True)
def _as_users_have_it():
    """Optax mixes the types of its counters and rates."""
    with users_types():
        yield


def random_policy(seed, layers, inputs, outputs):
    """By NumPy, since every operation of JAX on arrays of new shapes is compiled."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(
        Network(layers, outputs).init, jax.random.key(0), jnp.zeros(inputs, jnp.float32)
    )
    noise = jax.tree.map(
        lambda leaf: jnp.asarray(0.5 * rng.normal(size=leaf.shape), jnp.float32), shapes
    )
    mean, variance = jnp.asarray(rng.uniform(0.1, 2.0, (2, inputs)), jnp.float32)
    observed = Observed(jnp.asarray(9.0, jnp.float32), mean, variance)
    return Policy(noise, observed, layers, outputs)


@pytest.mark.slow
def test_both_are_one_policy():
    """Against the sum of both networks, which know three and five observations."""
    base = residual.Base(random_policy(0, (6, 9), 3, 2), (4, 0, 2))
    added = random_policy(1, (8, 5), 5, 2)
    obs = jax.random.normal(jax.random.key(2), (50, 5), jnp.float32)
    mean = Network(added.layers, 2).at(added.parameters, added.observed.normalize(obs)[0])
    both = base.plus(added)
    assert both.layers == (14, 14)
    wanted = np.clip(base.action(obs) + mean, -1, 1)
    assert 0.1 < np.mean(np.abs(wanted) == 1) < 0.9
    np.testing.assert_allclose(both(obs), wanted, atol=3e-6)
    assert np.abs(both(obs) - base.policy(obs[:, base.known])).max() > 0.1


@pytest.mark.slow
def test_of_symmetric_policies_it_is_symmetric():
    def odd(policy):
        parameters = policies.symmetrized(policy.parameters, jnp.negative, jnp.negative)
        observed = policy.observed.replace(mean=0 * policy.observed.mean)
        return policy.replace(parameters=parameters, observed=observed)

    base = residual.Base(odd(random_policy(0, (6, 4), 2, 2)), (1, 2))
    both = base.plus(odd(random_policy(1, (8, 2), 3, 2))).parameters
    again = policies.symmetrized(both, jnp.negative, jnp.negative)
    for one, other in zip(jax.tree.leaves(both), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_gradients_go_through_both():
    """With gains in the base policy and a residual of zero, against differences in NumPy."""
    config, training, gains = linear(PointMass())
    observed = Observed.nothing(jnp.zeros(2, jnp.float32))
    base = residual.Base(Policy(training.parameters["policy"], observed, (), 1), (0, 1))
    training = residual.begin(base, training)
    play = shac.make_play(residual.Residual(PointMass(), base), config)
    still = jnp.zeros((config.horizon, config.num_envs, 1), jnp.float32)
    gradient = jax.jit(jax.grad(lambda moves: play(moves, training, jax.random.key(0))[0]))(still)
    are_slopes_of_the_return(gradient, training, gains, config)


@pytest.mark.slow
@pytest.mark.parametrize("method", [shac, ppo], ids=["shac", "ppo"])
def test_training_begins_with_the_base_policy_and_changes_it(method):
    """A base that pushes the mass the wrong way, and a residual that mends it."""
    kernel = jnp.asarray([[0.2], [0.2]], jnp.float32)
    zero = jnp.zeros(1, jnp.float32)
    params = {
        "Dense_0": {"kernel": jnp.eye(2, dtype=jnp.float32), "bias": jnp.zeros(2, jnp.float32)},
        "Dense_1": {"kernel": kernel, "bias": zero},
    }
    observed = Observed.nothing(jnp.zeros(2, jnp.float32))
    base = residual.Base(Policy({"params": params}, observed, (2,), 1), (0, 1))
    environment = residual.Residual(PointMass(), base)
    config = CONFIG
    if method is ppo:
        config = ppo.Config(
            num_envs=32, unroll=8, minibatches=2, policy_layers=(16,), critic_layers=(16,)
        )
    training = residual.begin(base, method.start(environment, config, 1))
    first = base.plus(method.policy_of(training, config))
    obs = jax.random.normal(jax.random.key(0), (20, 2), jnp.float32)
    np.testing.assert_allclose(first(obs), base.policy(obs), atol=1e-6)
    state = PointMass().reset(jax.random.key(1))
    one, other = (
        PointMass().step(state, base.policy(state.obs)),
        environment.step(state, jnp.zeros(1, jnp.float32)),
    )
    np.testing.assert_array_equal(one.obs, other.obs)
    before = jax.tree.map(np.asarray, base)
    options = {"devices": jax.local_devices()[:1]} if method is ppo else {}
    steps = 60 * 32 * (config.horizon if method is shac else config.unroll)
    *_, (training, _) = method.train(environment, config, steps=steps, training=training, **options)
    jax.tree.map(np.testing.assert_array_equal, before, base)
    last = base.plus(method.policy_of(training, config))
    assert np.abs(last(obs) - first(obs)).max() > 0.1
    returns = [
        np.mean(policies.evaluate(PointMass(), each, jax.random.key(2), episodes=64)["return"])
        for each in (first, last)
    ]
    assert returns[1] > returns[0] + 1


def _with_own_gyro(factor):
    def gyro(angular_velocity):
        return factor * angular_velocity

    return {**OBSERVATIONS, "gyro": ObservationTerm(function=gyro)}


@pytest.mark.slow
def test_bad_combinations_are_refused():
    level, walker = envs.make("quadruped_velocity"), policies.load("quadruped_velocity")
    clock = {"gait_frequency": level.gait_frequency}
    rough = envs.make("quadruped_rough", **clock)
    for environment, policy, task, message in (
        (envs.make("quadruped_rough"), walker, level, "2.5 Hz; .* has none: give it"),
        (
            envs.make("quadruped_rough", gait_frequency=2.0),
            walker,
            level,
            "clock of 2.5 Hz.*2.0 Hz",
        ),
        (envs.make("cart_pole"), walker, level, "cart_pole is another task"),
        (rough, walker, envs.make("arm_reach"), "arm_reach is another task"),
        (rough, walker, envs.make("quadruped_velocity", dt=0.04), "control periods: 0.04"),
        (rough, walker, envs.make("humanoid_stand"), "other joints"),
        (
            envs.make("quadruped_rough", **clock, observations={"gyro": 2.0}),
            walker,
            envs.make("quadruped_velocity", observations={"gyro": 1.0}),
            "'gyro' with size 3, scale 1.0.*shows it with 3, 2.0",
        ),
        (rough, walker, envs.make("quadruped_velocity", observations={"height": 1.0}), "'height'"),
        (
            envs.make("quadruped_rough", **clock, observations=_with_own_gyro(0.1)),
            walker,
            level,
            "'gyro', which quadruped_rough shows by another function",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            residual.base_for(environment, policy, task)
    mine, again = (
        envs.make("quadruped_velocity", observations=_with_own_gyro(0.1)) for _ in range(2)
    )
    assert residual.base_for(mine, walker, again).known == tuple(range(50))
    base = residual.base_for(rough, walker, level)
    with pytest.raises(ValueError, match="50 places among the 85 observations"):
        residual.Residual(rough, base._replace(known=base.known[:-1]))
    with pytest.raises(ValueError, match="has 7 actions; the base policy returns 12"):
        residual.Residual(envs.make("arm_reach"), base)
    training = jax.eval_shape(
        lambda: shac.start(PointMass(), dataclasses.replace(CONFIG, policy_layers=(4,)))
    )
    with pytest.raises(ValueError, match=r"needs 2 hidden layers.*\[128, 128\]; found 1"):
        residual.begin(base, training)


@pytest.mark.slow
def test_the_walker_begins_on_rough_ground_as_on_level_ground():
    """The combined policy acts as the shipped one, wherever it walks in its first second."""
    _, _, _, always = learners.settings("quadruped_rough", "shac")
    level, rough = envs.make("quadruped_velocity"), envs.make("quadruped_rough", **always)
    base = residual.base_for(rough, policies.load("quadruped_velocity"), level)
    size = rough.observation_size["state"]
    added = random_policy(0, (8, 8), size, rough.action_size)
    last = jax.tree.map(jnp.zeros_like, added.parameters["params"]["Dense_2"])
    params = added.parameters["params"] | {"Dense_2": last}
    both = base.plus(added.replace(parameters={"params": params}))
    start = jax.jit(jax.vmap(rough.reset))(jax.random.split(jax.random.key(0), 8))
    state, seen = start.obs["state"], np.array(base.known)
    np.testing.assert_allclose(both(state), base.policy(state[:, seen]), atol=2e-5)
