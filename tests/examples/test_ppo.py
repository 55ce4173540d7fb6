"""PPO: its estimates against plain loops, a task it learns, and its error messages."""

import dataclasses
import itertools
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix import envs
from artix.envs.symmetry import SignedPermutation
from artix.examples import actor_critic, policies, ppo
from artix.examples.warm_start import start_from
from tests.support.point_mass import PointMass
from tests.support.programs import each_compiled_once
from tests.support.users_types import users_types

CONFIG = ppo.Config(
    num_envs=64,
    unroll=16,
    minibatches=2,
    policy_layers=(16,),
    critic_layers=(16,),
    learning_rate=3e-3,
    reward_scale=0.1,
)
STEPS = CONFIG.num_envs * CONFIG.unroll


@pytest.fixture(scope="module", autouse=True)
def _as_users_have_it():
    """Optax mixes the types of its counters and rates."""
    with users_types(), each_compiled_once():
        yield


def one_device():
    return jax.devices()[:1]


def train(environment, iterations, config=CONFIG, training=None):
    steps = iterations * config.num_envs * config.unroll
    return list(
        ppo.train(environment, config, steps=steps, training=training, devices=one_device())
    )


@pytest.fixture(scope="module")
def trained():
    return train(PointMass(), 20)


class Symmetric(PointMass):
    """Left and right are alike."""

    mirror = {  # noqa: RUF012
        "action": jnp.negative,
        "obs": jnp.negative,
        "state": jnp.negative,
        "privileged_state": jnp.negative,
    }


@pytest.mark.slow
def test_what_is_learned_of_a_symmetric_robot_is_symmetric(trained):
    """Policy, critic and the moments of observations, to rounding; and it is learned as well."""
    symmetric = train(Symmetric(), 20)
    without = train(Symmetric(), 20, dataclasses.replace(CONFIG, mirror=False))
    learner = symmetric[-1][0].learner
    obs = jax.random.normal(jax.random.key(0), (64, 2), jnp.float32)
    policy, lopsided = (ppo.policy_of(runs[-1][0], CONFIG) for runs in (symmetric, without))
    assert jnp.max(jnp.abs(policy(obs) + policy(-obs))) < 1e-6
    assert jnp.max(jnp.abs(lopsided(obs) + lopsided(-obs))) > 1e-2
    critic = actor_critic.networks(CONFIG, Symmetric())[1]
    values = [critic.at(learner.parameters["critic"], x) for x in (obs, -obs)]
    np.testing.assert_allclose(*values, rtol=1e-5)
    assert learner.observed.mean.tolist() == [0.0, 0.0]
    assert symmetric[-1][1]["return"] > 0.9 * trained[-1][1]["return"]
    # Without it, the environment's symmetry changes nothing.
    jax.tree.map(
        np.testing.assert_array_equal,
        *(leaves(runs[-1][0].learner.parameters) for runs in (without, trained)),
    )
    with pytest.raises(ValueError, match=r"not symmetric.*mirror=False"):
        train(Symmetric(), 21, training=without[-1][0])


@pytest.mark.slow
def test_a_training_run_keeps_its_number_of_environments():
    """Its experience would be that of its own, and the steps those of the other number."""
    environment, config = PointMass(), dataclasses.replace(CONFIG, num_envs=4)
    begun = ppo.started(environment, config, 1)
    more = dataclasses.replace(config, num_envs=8)
    with pytest.raises(ValueError, match="has 4 environments; found num_envs=8"):
        next(ppo.train(environment, more, steps=10_000, training=begun))


@pytest.mark.parametrize("layers", [(8, 8), (5,), ()])
def test_a_symmetric_network_reflects_its_outputs(layers):
    """With permutations and signs of inputs and outputs, and an odd number of hidden units."""
    reflect = SignedPermutation(np.array([1, 0, 2, 3]), np.array([1.0, 1.0, -1.0, 1.0]))
    reflect_output = SignedPermutation(np.array([2, 1, 0]), np.array([-1.0, 1.0, -1.0]))
    network, x = (
        policies.Network(layers, 3),
        jax.random.normal(jax.random.key(0), (20, 4), jnp.float32),
    )

    @jax.jit
    def varied(x):
        return jax.tree.map(
            lambda p: p + jax.random.normal(jax.random.key(2), p.shape, p.dtype),
            network.init(jax.random.key(1), x),
        )

    symmetrize = jax.jit(lambda p: policies.symmetrized(p, reflect, reflect_output))
    symmetric = symmetrize(varied(x))
    outputs = jax.jit(network.at)
    found = np.asarray(outputs(symmetric, reflect(x)))
    np.testing.assert_allclose(found, reflect_output(outputs(symmetric, x)), atol=1e-5)
    assert np.max(np.abs(found)) > 0.1
    again = symmetrize(symmetric)
    jax.tree.map(np.testing.assert_array_equal, symmetric, again)


def leaves(tree):
    return [np.asarray(policies._data(leaf)) for leaf in jax.tree.leaves(tree)]


def experience(rng, unroll, number):
    done = rng.random((unroll, number)) < 0.3
    terminated = done & (rng.random((unroll, number)) < 0.5)
    value, next_value, reward = rng.normal(size=(3, unroll, number))
    fields = {
        "value": value,
        "next_value": next_value,
        "reward": reward,
        "done": done * 1.0,
        "terminated": terminated * 1.0,
    }
    return actor_critic.Experience(
        obs=None, action=None, mean=None, **{k: jnp.asarray(v) for k, v in fields.items()}
    )


def test_advantages_are_those_of_the_definition():
    """The sum of discounted temporal differences up to the end of the episode (arXiv 1506.02438,
    equation 16)."""
    with jax.enable_x64(True):
        x = experience(np.random.default_rng(0), 12, 5)
        found = np.asarray(actor_critic.advantages(x, 0.9, 0.8))
    x = jax.tree.map(np.asarray, x)
    for t, n in itertools.product(range(12), range(5)):
        wanted, weight = 0.0, 1.0
        for later in range(t, 12):
            following = 0.0 if x.terminated[later, n] else x.next_value[later, n]
            wanted += weight * (x.reward[later, n] + 0.9 * following - x.value[later, n])
            weight *= 0.9 * 0.8
            if x.done[later, n]:
                break
        np.testing.assert_allclose(found[t, n], wanted, rtol=1e-12)


def test_moments_of_observations_are_those_of_all_of_them():
    rng = np.random.default_rng(1)
    batches = rng.normal(100.0, 3.0, (4, 50, 3)).astype(np.float32)
    observed = policies.Observed.nothing(batches[0, 0]).replace(count=jnp.asarray(0.0, jnp.float32))
    for batch in batches:
        observed = observed.after(observed.moments(batch), len(batch))
    everything = batches.reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(observed.mean, everything.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(observed.variance, everything.var(axis=0), rtol=1e-3)


@pytest.mark.slow
def test_it_learns(trained):
    """A mass that is left alone drifts away; one that is held earns close to 1 in each of 30
    steps."""
    returns = [report["return"] for _, report in trained if not np.isnan(report["return"])]
    assert max(returns[-3:]) > 15
    found = policies.evaluate(
        PointMass(), ppo.policy_of(trained[-1][0], CONFIG), jax.random.key(1), episodes=64
    )
    idle = policies.evaluate(
        PointMass(), lambda obs: jnp.zeros(1, jnp.float32), jax.random.key(1), episodes=256
    )
    assert np.mean(found["return"]) > 20 > 10 > np.mean(idle["return"])
    assert np.all(found["terminated"] == 0)
    assert np.mean(idle["terminated"]) > 0.02
    assert np.all(found["length"] == 30)


def test_reports_count_steps_and_episodes(trained):
    assert [report["steps"] for _, report in trained] == [STEPS * (k + 1) for k in range(20)]
    assert sum(report["episodes"] for _, report in trained) >= 20 * STEPS / 30 * 0.9


@pytest.mark.slow
def test_a_training_goes_on_as_if_it_had_not_been_interrupted(trained, tmp_path):
    """And the same seed has the same result: what is compared was computed by another program."""
    policies.save(tmp_path / "half.npz", trained[9][0], steps=10 * STEPS)
    like = jax.eval_shape(lambda: ppo.start(PointMass(), CONFIG, 1))
    again = train(PointMass(), 20, training=policies.load(tmp_path / "half.npz", like))
    assert len(again) == 10
    assert again[-1][1]["loss"] == trained[-1][1]["loss"]
    for found, wanted in zip(leaves(again[-1][0]), leaves(trained[-1][0]), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_the_same_seed_has_the_same_result_and_another_one_not(trained):
    again = train(PointMass(), 3)
    other = train(PointMass(), 3, dataclasses.replace(CONFIG, seed=1))
    for found, wanted in zip(leaves(again[-1][0]), leaves(trained[2][0]), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert other[-1][1]["loss"] != again[-1][1]["loss"]


@pytest.mark.slow
def test_a_critic_that_knows_more():
    found = train(PointMass(privileged=True), 3)[-1][0]
    kernels = {
        name: found.learner.parameters[name]["params"]["Dense_0"]["kernel"]
        for name in ("policy", "critic")
    }
    assert {name: kernel.shape for name, kernel in kernels.items()} == {
        "policy": (1, 16),
        "critic": (2, 16),
    }
    assert ppo.policy_of(found, CONFIG)(
        {
            "state": jnp.zeros((5, 1), jnp.float32),
            "privileged_state": jnp.zeros((5, 2), jnp.float32),
        }
    ).shape == (5, 1)


@pytest.mark.slow
def test_a_number_that_is_not_finite_stays_in_its_environment():
    environment = envs.make("cart_pole")
    config = dataclasses.replace(CONFIG, num_envs=8, unroll=4, epochs=1)
    training = ppo.start(environment, config, 1)
    state = training.actors.env.articulation_state
    broken = state.replace(joint_velocity=state.joint_velocity.at[3].set(jnp.nan))
    env = training.actors.env.replace(articulation_state=broken)
    ((after, report),) = train(
        environment, 1, config, ppo.Training(training.learner, training.actors.replace(env=env))
    )
    assert report["metrics/nan"] == pytest.approx(1 / 32)
    assert all(np.isfinite(leaf).all() for leaf in leaves(after))


class Impossible(PointMass):
    """Its reward is not finite, which the environments of artix never let happen."""

    def step(self, state, action):
        moved = super().step(state, action)
        return moved.replace(reward=moved.reward / jnp.zeros_like(moved.reward))


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_training():
    with pytest.raises(FloatingPointError, match="iteration 0"):
        train(Impossible(), 1)


@pytest.mark.slow
def test_a_training_that_starts_from_a_policy_acts_as_it_does(trained):
    """In a task with other moments, and an observation that the policy never saw move."""
    policy = ppo.policy_of(trained[-1][0], CONFIG)
    still = policy.observed.replace(variance=policy.observed.variance.at[1].set(1e-7))
    config = dataclasses.replace(CONFIG, num_envs=8, unroll=2, epochs=1)
    obs = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (20, 2)), jnp.float32)
    begun = ppo.policy_of(start_from(policy, PointMass(episode_length=200), config), config)
    assert not np.allclose(begun.observed.mean, policy.observed.mean, rtol=0.01)
    np.testing.assert_allclose(begun(obs), policy(obs), atol=1e-4)
    blind = ppo.policy_of(start_from(policy.replace(observed=still), PointMass(), config), config)
    np.testing.assert_array_equal(blind(obs), blind(obs.at[:, 1].set(0.0)))
    with pytest.raises(ValueError, match="does not fit point_mass"):
        start_from(policy, PointMass(), dataclasses.replace(config, policy_layers=(8,)))


@pytest.mark.slow
def test_a_symmetric_policy_starts_a_symmetric_training():
    policy = ppo.policy_of(ppo.start(Symmetric(), CONFIG, 1), CONFIG)
    parameters = start_from(policy, Symmetric(episode_length=200), CONFIG).learner.parameters
    symmetric = actor_critic.symmetric_learner(Symmetric.mirror, parameters)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), parameters, symmetric)


@pytest.mark.parametrize("name", ["num_envs", "unroll", "epochs", "minibatches"])
def test_numbers_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1; found 0"):
        ppo.Config(**{name: 0})


@pytest.mark.parametrize(
    ("name", "value"),
    [("discount", 1.1), ("gae_lambda", -0.1), ("clip", 0.0), ("initial_noise", 0.0)]
    + [("max_gradient_norm", 0.0), ("learning_rate", -1e-3), ("desired_kl", float("nan"))],
)
def test_numbers_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*; found {value}"):
        ppo.Config(**{name: value})


def test_environments_are_shared_out_evenly():
    with pytest.raises(ValueError, match="num_envs=63, unroll=16"):
        next(
            ppo.train(PointMass(), dataclasses.replace(CONFIG, num_envs=63, minibatches=5), steps=1)
        )


@pytest.mark.slow
def test_a_quadruped_that_has_fallen_gets_up():
    """What the page says of all of 64 episodes, in 16."""
    environment = envs.make("quadruped_get_up", chance_of_fall=1.0)
    policy = policies.load("quadruped_get_up")
    found = policies.evaluate(environment, policy, jax.random.key(1), episodes=16)
    assert found["final/stands"].tolist() == [1.0] * 16
    assert np.mean(found["stands"]) > 0.6  # it takes a second or two of six


class Elsewhere:
    """A device of another process."""

    process_index = 1


def test_devices_of_other_processes_are_refused():
    with pytest.raises(ValueError, match=r"devices=jax.local_devices\(\).*ppo.on_mesh.*many_hosts"):
        next(ppo.train(PointMass(), CONFIG, steps=1, devices=[*one_device(), Elsewhere()]))


EIGHT_DEVICES = """
import jax
from tests.support.point_mass import PointMass
from tests.examples.test_ppo import CONFIG
from artix.examples import ppo
import numpy as np
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
mapped = ppo.on_mesh(mesh, PointMass(), CONFIG)
shapes = jax.eval_shape(lambda: ppo.start(PointMass(), CONFIG, 8))
print(jax.jit(mapped).lower(*shapes).compile().as_text())
reports = [report for _, report in ppo.train(PointMass(), CONFIG, steps=25 * CONFIG.num_envs * CONFIG.unroll)]
print("RETURNS", len(jax.devices()), reports[2]["return"], reports[-1]["return"])
"""


@pytest.mark.exhaustive
def test_devices_tell_each_other_one_sum_a_gradient_step():
    surroundings = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    command = [sys.executable, "-c", EIGHT_DEVICES]
    text = subprocess.run(
        command, env=surroundings, check=True, capture_output=True, text=True
    ).stdout
    collectives = re.findall(
        r"= \S+ (all-\w+|collective-\w+|reduce-scatter\w*|ragged-\w+)[\w-]*\(", text
    )
    assert collectives == ["all-reduce"]
    devices, first, last = re.search(r"RETURNS (\d+) (\S+) (\S+)", text).groups()
    assert devices == "8"
    assert float(first) < 10 < 12 < float(last)
