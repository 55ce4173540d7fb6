"""Properties of every environment: seeds, batches, episodes, error messages, and handling of
non-finite numbers."""

import copy
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.envs import random_numbers
from artix.envs.tasks.cart_pole import CartPole

NUM = 6
OTHERS = np.arange(NUM) != 3


@pytest.fixture(scope="module")
def cart():
    return envs.make("cart_pole", episode_length=20, dtype="float32")


@pytest.fixture(scope="module")
def fleet(cart):
    """Batched reset and step of an environment whose episodes follow each other."""
    environment = envs.autoreset(cart)
    return jax.jit(jax.vmap(environment.reset)), jax.jit(jax.vmap(environment.step))


def keys(seed=0, num=NUM):
    return jax.random.split(jax.random.key(seed), num)


def actions(seed=1, num=NUM):
    return jax.random.uniform(jax.random.key(seed), (num, 1), jnp.float32, -1, 1)


def data(tree):
    """A pytree as NumPy arrays, keys by their numbers."""

    def as_numbers(x):
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return jax.tree.map(lambda x: np.asarray(as_numbers(x)), tree)


def same(found, wanted):
    jax.tree.map(np.testing.assert_array_equal, data(found), data(wanted))


def close(found, wanted, atol):
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=0, atol=atol), data(found), data(wanted)
    )


@pytest.mark.slow
def test_one_seed_has_one_result(fleet):
    reset, step = fleet
    same(step(reset(keys()), actions()), step(reset(keys()), actions()))
    assert not np.array_equal(reset(keys(0)).obs, reset(keys(5)).obs)


@pytest.mark.slow
def test_results_do_not_depend_on_the_order_of_a_batch(fleet):
    reset, step = fleet
    order = np.array([4, 2, 0, 5, 1, 3])
    there = step(reset(keys()), actions())
    same(step(reset(keys()[order]), actions()[order]), jax.tree.map(lambda x: x[order], there))


@pytest.mark.slow
def test_a_batch_is_its_members_and_a_scan_its_steps(cart, fleet):
    environment = envs.autoreset(cart)
    reset, step = fleet
    state = reset(keys())
    several = jnp.stack([actions(seed) for seed in range(25)])
    scanned, rewards = jax.jit(lambda state: jax.lax.scan(_stepper(environment), state, several))(
        state
    )
    for action, reward in zip(several, rewards, strict=True):
        state = step(state, action)
        np.testing.assert_allclose(state.reward, reward, atol=1e-6)
    close(scanned, state, atol=2e-5)
    single = environment.reset(keys()[2])
    for action in several[:2]:
        single = environment.step(single, action[2])
    pair = step(step(reset(keys()), several[0]), several[1])
    close(single, jax.tree.map(lambda x: x[2], pair), atol=1e-6)


def _stepper(environment):
    def advance(state, action):
        state = jax.vmap(environment.step)(state, action)
        return state, state.reward

    return advance


@pytest.mark.slow
def test_eight_devices_need_no_communication():
    """Each computes its part of the batch, and the numbers are those of one device."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.envs.sharded_environment"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "8 devices, 0 collectives, equal" in done.stdout


def test_episodes_begin_afresh(cart):
    """Whose first states are cached would begin each episode alike."""
    environment = envs.autoreset(envs.make("cart_pole", episode_length=1, dtype="float32"))
    state = environment.reset(jax.random.key(0))
    advance = lambda state, _: (environment.step(state, jnp.zeros(1, jnp.float32)),) * 2  # noqa: E731
    _, states = jax.lax.scan(advance, state, length=50)
    starts = np.asarray(states.articulation_state.joint_position)
    assert len(np.unique(starts[:, 0])) == 50
    assert abs(np.std(starts[:, 0]) / 0.05 - 1) < 0.3
    assert np.all(np.asarray(states.done) == 1)
    assert np.all(np.asarray(states.info["steps"]) == 0)


def test_the_step_that_ends_an_episode_keeps_its_outcome(cart, fleet):
    reset, step = fleet
    state = reset(keys())
    for number in range(20):
        before, state = state, step(state, actions(number))
    alone = {name: value for name, value in before.info.items() if name != "final_obs"}
    last = jax.jit(jax.vmap(cart.step))(before.replace(info=alone), actions(19))
    same(
        (state.reward, state.done, state.info["truncation"]),
        (last.reward, jnp.ones(NUM, "float32"), last.done),
    )
    same(state.info["final_obs"], last.obs)
    assert not np.any(np.all(np.asarray(state.obs) == np.asarray(last.obs), axis=1))
    after = step(state, actions(20))
    assert np.all(np.asarray(after.done) == 0)
    assert np.all(np.asarray(after.info["steps"]) == 1)


def test_numbers_that_are_not_finite_stay_where_they_are(fleet):
    reset, step = fleet
    state = step(reset(keys()), actions())
    clean = step(state, actions(7))
    where = state.articulation_state
    broken = state.replace(
        articulation_state=where.replace(joint_velocity=where.joint_velocity.at[3].set(np.nan))
    )
    for found in (step(broken, actions(7)), step(state, actions(7).at[3].set(np.nan))):
        assert all(
            np.all(np.isfinite(x)) for x in jax.tree.leaves(data(found)) if x.dtype.kind == "f"
        )
        np.testing.assert_array_equal(found.metrics["nan"], np.arange(NUM) == 3)
        np.testing.assert_array_equal(found.done, np.arange(NUM) == 3)
        assert found.reward[3] == 0
        assert found.info["steps"][3] == 0
        same(*(jax.tree.map(lambda x: x[OTHERS], each) for each in (found, clean)))


def test_without_autoreset_the_last_good_state_stays(cart):
    state = cart.reset(jax.random.key(0))
    found = jax.jit(cart.step)(state, jnp.full(1, jnp.nan, "float32"))
    same(found.articulation_state, state.articulation_state)
    assert found.done == 1
    assert found.info["truncation"] == 0


def test_names_may_be_shortened():
    names = ("quadruped", "quadruped_get_up", "humanoid", "cart")
    assert [envs.full_name(name) for name in names] == [
        "quadruped_velocity",
        "quadruped_get_up",
        "humanoid_stand",
        "cart_pole",
    ]


def test_what_is_refused(cart):
    state = cart.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"expected an action of shape \(1,\), found \(2,\).*vmap"):
        cart.step(state, jnp.zeros(2, "float32"))
    with pytest.raises(ValueError, match="action must be finite"):
        cart.step(state, jnp.array([jnp.nan], "float32"))
    with pytest.raises(ValueError, match=r"no task called 'cartpole'.*cart_pole"):
        envs.make("cartpole")
    robot = artix.robots.load("cart_pole")
    with pytest.raises(ValueError, match="multiple of physics_dt"):
        envs.Environment("it", robot, action_size=1, dt=0.02, physics_dt=0.015, episode_length=10)
    with pytest.raises(ValueError, match="at least 1"):
        envs.Environment("it", robot, action_size=1, dt=0.02, physics_dt=0.01, episode_length=0)
    for solver in ("pgs", "tgs"):
        with pytest.raises(
            ValueError, match=rf"must be 'implicit' on a ground.*found '{solver}'; artix.step has"
        ):
            envs.make("quadruped_velocity", solver_options=artix.SolverOptions(solver=solver))
    with pytest.raises(TypeError, match=r"JAX random key.*found 0"):
        cart.reset(0)
    change = envs.Change("ground.surfaces.0.friction", "absolute", (0.4, 1.0))
    with pytest.raises(ValueError, match="there is no ground"):
        envs.make("cart_pole", randomization=[change])


class _Changed(CartPole):
    """The cart-pole with other parts of its outcome."""

    def __init__(self, more=None, **changed):
        super().__init__(dtype="float32")
        self.first = {"force": jnp.zeros(1, "float32"), **(more or {})}
        self.changed = changed

    def begin(self, key):
        return super().begin(key)[0], self.first

    def outcome(self, transition):
        return super().outcome(transition)._replace(**self.changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reward": jnp.zeros(1)}, r"'reward' of the outcome must be a scalar; found shape \(1,\)"),
        ({"terminated": jnp.zeros(2, bool)}, r"'terminated' of the outcome must be a scalar"),
        ({"metrics": {"speed": jnp.zeros(3)}}, r"'speed' of the outcome must be a scalar"),
        ({"memory": {}}, r"'force' is float32\[1\] at the start and absent after a step"),
        (
            {"memory": {"force": jnp.zeros(2, "float32")}},
            r"'force' is float32\[1\] .* float32\[2\] after",
        ),
        (
            {"memory": {"force": jnp.zeros(1, "float32"), "age": jnp.zeros(())}},
            r"'age' is absent at the start",
        ),
        (
            {"more": {"steps": jnp.zeros((), "int32")}},
            "the memory 'steps' is the environment's own",
        ),
        (
            {"more": {"final_obs": jnp.zeros(5, "float32")}},
            "the memory 'final_obs' is the environment's own",
        ),
        ({"metrics": {"nan": jnp.zeros(())}}, "the metric 'nan' is the environment's own"),
        (
            {"reward": jnp.zeros(2), "metrics": {"reward": jnp.zeros(())}},
            r"'reward' of the outcome must be a scalar",
        ),
    ],
)
def test_outcomes_that_do_not_fit_are_refused_by_name(changed, message):
    with pytest.raises(ValueError, match=message):
        _Changed(**changed).reset(jax.random.key(0))


def test_outcomes_may_be_python_numbers():
    numbers = {"reward": 0.5, "terminated": False, "metrics": {"one": 1}}
    task = _Changed({"age": 0}, memory={"force": np.zeros(1, "float32"), "age": 1}, **numbers)
    end = task.step(task.reset(jax.random.key(0)), jnp.zeros(1))
    found = end.reward, end.done, end.metrics["one"], end.info["age"], end.reward.dtype
    assert found == (0.5, 0.0, 1.0, 1, "float32")


def test_automatic_resets_are_added_once(cart):
    once = envs.autoreset(cart)
    assert envs.autoreset(once) is once


def test_automatic_resets_change_nothing_else(cart):
    environment, key = copy.copy(envs.autoreset(cart)), jax.random.key(0)
    same(environment.begin(key), cart.begin(key))
    assert environment.observation_size == cart.observation_size
    start = environment.reset(key)
    where, action = start.articulation_state, jnp.ones(1, "float32")
    same(
        environment.actuate(cart.articulation, where, {}, action),
        cart.actuate(cart.articulation, where, {}, action),
    )
    same(
        environment.observe(
            envs.Transition(cart.articulation, None, where, where, None, {}, action, ())
        ),
        start.obs,
    )
    # What the wrapper adds to the state is no memory of the task.
    same(environment.renew(key, start).obs, start.obs)
    same(cart.step(start, action).obs, environment.step(start, action).obs)


@pytest.mark.slow
def test_what_is_compiled_cannot_change():
    """A copy may change, and acts as it says; kernels of the first one would ignore the change."""
    cart, key, still = envs.make("cart_pole"), jax.random.key(0), jnp.zeros(1, "float32")
    cart.episode_length = 3  # Before the first reset, it may.
    start = cart.reset(key)
    assert float(cart.step(start, still).done) == 0
    with pytest.raises(AttributeError, match="'episode_length' cannot change after the first"):
        cart.episode_length = 1
    short = copy.copy(cart)
    short.episode_length = 1
    assert float(short.step(start, still).done) == 1
    assert float(jax.jit(short.step)(start, still).done) == 1
    assert float(cart.step(start, still).done) == 0 and cart.episode_length == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"physics_dt": 0.003}, "dt must be a multiple of physics_dt; found .* physics_dt=0.003"),
        ({"dt": 0.0}, "dt must be a multiple of physics_dt"),
        ({"episode_length": 0}, "episode_length must be at least 1"),
        ({"randomization": (envs.Change("link_mass", "add", (-9.0, 1.0)),)}, "makes it negative"),
    ],
)
def test_attributes_that_do_not_fit_are_refused_at_the_first_reset(change, message):
    environment = envs.make("cart_pole")
    for name, value in change.items():
        setattr(environment, name, value)
    with pytest.raises(ValueError, match=message):
        environment.reset(jax.random.key(0))


def test_automatic_resets_pass_changes_on():
    cart = envs.make("cart_pole")
    again = envs.autoreset(cart)
    again.episode_length = 2
    assert cart.episode_length == 2
    again.reset(jax.random.key(0))
    with pytest.raises(AttributeError, match="cannot change"):
        again.episode_length = 1
    short = copy.copy(again)
    short.episode_length = 1
    end = short.step(short.reset(jax.random.key(0)), jnp.zeros(1, "float32"))
    assert (float(end.done), cart.episode_length) == (1, 2)


@pytest.mark.parametrize("leave", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_an_environment_that_was_used_can_be_copied_and_pickled(cart, leave):
    """Libraries copy their settings, and send environments to workers."""
    obs = cart.reset(jax.random.key(0)).obs
    np.testing.assert_array_equal(leave(cart).reset(jax.random.key(0)).obs, obs)


def test_tasks_with_terms_can_be_copied():
    reach = envs.make("arm_reach")
    assert copy.deepcopy({"environment": reach})["environment"].rewards == reach.rewards


@pytest.mark.slow
def test_rewards_change_in_a_copy_only():
    reach = envs.make("arm_reach")
    with pytest.raises(TypeError, match="does not support item assignment"):
        reach.rewards["near"] = (2.0, jnp.sum)
    start, action = reach.reset(jax.random.key(0)), jnp.zeros(reach.action_size, "float32")
    none = copy.copy(reach)
    none.rewards = {"dof_vel": 0.0}
    assert float(reach.step(start, action).reward) != 0
    assert float(none.step(start, action).reward) == 0


def test_actions_beyond_one_are_clipped(cart):
    state = cart.reset(jax.random.key(0))
    same(
        cart.step(state, jnp.array([3.0], "float32")), cart.step(state, jnp.array([1.0], "float32"))
    )


@pytest.mark.slow
def test_the_gradient_of_an_episode_is_its_difference(cart):
    environment = envs.make("cart_pole", dtype="float64")
    state = environment.reset(jax.random.key(0))

    def total(action):
        final, rewards = jax.lax.scan(
            lambda s, a: ((n := environment.step(s, a)), n.reward), state, action
        )
        return jnp.sum(rewards) + final.obs[1]

    action = 0.3 * jnp.sin(jnp.arange(5.0))[:, None]
    gradient = jax.jit(jax.grad(total))(action)
    total = jax.jit(total)
    step = 1e-6
    differences = [
        (total(action.at[k].add(step)) - total(action.at[k].add(-step))) / (2 * step)
        for k in range(5)
    ]
    np.testing.assert_allclose(gradient[:, 0], differences, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "key", [jax.random.key(3), jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")], ids=str
)
def test_random_numbers_are_uniform_with_every_kind_of_key(key):
    uniform = np.asarray(random_numbers.uniform(key, 20001, jnp.float32))
    assert uniform.shape == (20001,)
    assert 0 <= uniform.min() < 1e-3
    assert 1 - 1e-3 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 4 / np.sqrt(12 * 20001)
    assert np.all(np.abs(np.histogram(uniform, 20, (0, 1))[0] / 20001 - 0.05) < 0.008)
    parts = [
        np.asarray(random_numbers.uniform(part, 3, jnp.float32))
        for part in random_numbers.split(key, 5)
    ]
    assert len(np.unique(np.stack(parts))) == 15


def test_a_state_with_resets_goes_on_without_them(cart):
    """It keeps its structure, which a scan's carry must."""
    state, action = (
        envs.autoreset(cart).reset(jax.random.key(0)),
        jnp.zeros(cart.action_size, "float32"),
    )
    end = jax.lax.scan(lambda s, _: (cart.step(s, action), None), state, length=2)[0]
    same(end.info["final_obs"], end.obs)
