"""Adapters of environments to other libraries, used by those libraries. Libraries that are not
installed are skipped."""

import abc
import importlib
import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix import envs
from artix.math import struct
from tests.support.point_mass import PointMass
from tests.support.users_types import users_types


@pytest.fixture(scope="module", autouse=True)
def _as_users_have_it():
    with users_types():
        yield


def cart_pole(episode_length=250):
    return envs.make("cart_pole", episode_length=episode_length)


@pytest.mark.parametrize(
    ("library", "adapter"),
    [
        ("gymnasium", "GymnasiumEnv"),
        ("gymnasium", "GymnasiumVectorEnv"),
        ("brax", "BraxEnvironment"),
        ("rejax", "GymnaxEnvironment"),
        ("skrl", "PlaygroundFleet"),
    ],
)
def test_the_name_of_a_task_is_no_environment(library, adapter):
    """As in ``gymnasium.make_vec``."""
    if library == "gymnasium":  # The others need no library until they are used.
        pytest.importorskip("gymnasium")
    module = importlib.import_module(f"artix.envs.adapters.{library}")
    more = {"num_envs": 2} if adapter in ("GymnasiumVectorEnv", "PlaygroundFleet") else {}
    with pytest.raises(
        TypeError,
        match=r"environment: expected artix\.envs\.Environment, found str; artix\.envs\.make",
    ):
        getattr(module, adapter)("cart_pole", **more)
    with pytest.raises(
        TypeError, match=r"environment: expected artix\.envs\.Environment, found str"
    ):
        envs.autoreset("cart_pole")


@pytest.mark.slow
def test_gymnasium_finds_nothing_wrong():
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    from artix.envs.adapters.gymnasium import GymnasiumEnv

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_env(GymnasiumEnv(cart_pole()))
    about = ("minimum value is -infinity", "maximum value is infinity", "not having a spec")
    assert [str(w.message) for w in said if not any(text in str(w.message) for text in about)] == []


def test_a_vector_environment_of_gymnasium_begins_anew_in_the_same_step():
    pytest.importorskip("gymnasium")
    from gymnasium.vector import AutoresetMode

    from artix.envs.adapters.gymnasium import GymnasiumVectorEnv

    env = GymnasiumVectorEnv(PointMass(episode_length=3), 4)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, _ = env.reset(seed=5)
    assert obs in env.observation_space
    again, _ = env.reset(seed=5)
    np.testing.assert_array_equal(again, obs)
    far = np.full((4, 1), 1.0, np.float32)
    for step in range(3):
        obs, reward, terminated, truncated, info = env.step(far)
        assert obs in env.observation_space
        assert reward.shape == (4,)
        assert not terminated.any()
        assert (truncated == (step == 2)).all()
        assert (info["_final_obs"] == truncated).all()
    # The old episodes had gained speed
    assert np.abs(info["final_obs"][:, 1] - obs[:, 1]).min() > 1e-3
    assert np.unique(obs[:, 0]).size == 4
    obs, *_ = env.step(np.zeros((4, 1), np.float32))
    assert obs in env.observation_space


def test_a_single_environment_of_gymnasium_shows_the_last_observation():
    """Also where it is given one that resets itself, whose observation would be of a new start."""
    pytest.importorskip("gymnasium")
    from artix.envs.adapters.gymnasium import GymnasiumEnv

    ends = []
    for pole in (cart_pole(episode_length=3), envs.autoreset(cart_pole(episode_length=3))):
        env = GymnasiumEnv(pole)
        env.reset(seed=0)
        steps = [env.step(np.ones(1, np.float32)) for _ in range(3)]
        assert [truncated for _, _, _, truncated, _ in steps] == [False, False, True]
        ends.append(steps[-1][0])
    np.testing.assert_array_equal(*ends)


def test_brax_resets_what_it_is_given():
    pytest.importorskip("brax")
    from artix.envs.adapters.brax import BraxEnvironment

    point = PointMass(episode_length=2)
    ends = []
    for each in (point, envs.autoreset(point)):
        env = BraxEnvironment(each)
        state = env.reset(jax.random.PRNGKey(0))
        for _ in range(2):
            state = env.step(state, jnp.zeros(1, jnp.float32))
        assert state.info["truncation"] == 1
        ends.append(state.obs)
    np.testing.assert_array_equal(*ends)


class _State(struct.PyTreeNode):
    """Brax's ``State``."""

    pipeline_state: Any
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any


@pytest.mark.parametrize("length", [2, 4, 6])
def test_the_time_limit_of_braxs_own_wrapper_is_no_fall(length, monkeypatch):
    """Its ``EpisodeWrapper`` counts an end as truncation only where the environment says nothing."""
    from artix.envs.adapters import brax

    if importlib.util.find_spec("brax") is None:
        monkeypatch.setattr(brax, "_brax_state", lambda: _State)
    env = brax.BraxEnvironment(PointMass(episode_length=4))
    state = env.reset(jax.random.PRNGKey(0))
    state = state.replace(info=state.info | {"steps": jnp.zeros(())})
    for steps in range(1, length + 1):  # As the wrapper has it.
        state = env.step(state, jnp.zeros(1, jnp.float32))
        truncation = (1 - state.done) * (steps >= length)
        assert (float(state.done), float(truncation)) == (0, steps == length)


def test_gymnasium_is_told_what_is_wrong():
    gymnasium = pytest.importorskip("gymnasium")
    from artix.envs.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv

    pole = envs.make("cart_pole")
    single, vector = GymnasiumEnv(pole), GymnasiumVectorEnv(pole, 3)
    for env in (single, vector):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            env.step(env.action_space.sample())
    vector.reset(seed=0)
    with pytest.raises(ValueError, match=r"expected actions of shape \(3, 1\), found \(1,\)"):
        vector.step(np.zeros(1))
    with pytest.raises(ValueError, match="num_envs must be at least 1; found 0"):
        GymnasiumVectorEnv(pole, 0)


def test_gymnasium_sees_parts_of_observations():
    pytest.importorskip("gymnasium")
    from artix.envs.adapters.gymnasium import GymnasiumEnv

    env = GymnasiumEnv(PointMass(privileged=True))
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    assert set(env.observation_space) == {"state", "privileged_state"}


def test_rejax_sees_an_environment_of_gymnax():
    from artix.envs.adapters.rejax import GymnaxEnvironment

    env = GymnaxEnvironment(PointMass(episode_length=2))
    obs, state = env.reset(jax.random.key(0))
    first = obs
    for step in range(2):
        obs, state, _, done, info = env.step(jax.random.key(1), state, jnp.zeros(1, jnp.float32))
        assert bool(done) == (step == 1)
        assert set(info) == {"distance", "nan"}
    assert not np.allclose(obs, first)


def test_brax_gets_fresh_starts_and_sums_of_episodes():
    pytest.importorskip("brax")
    from artix.envs.adapters.brax import BraxEnvironment, wrap_for_training

    env = wrap_for_training(BraxEnvironment(PointMass(episode_length=2)), episode_length=2)
    state = env.reset(jax.random.split(jax.random.PRNGKey(0), 3))
    first, rewards = state.obs, []
    for _ in range(2):
        state = env.step(state, jnp.zeros((3, 1), jnp.float32))
        rewards.append(state.reward)
    assert (state.info["truncation"] == 1).all()
    assert (state.info["steps"] == 2).all()
    np.testing.assert_allclose(state.info["episode_metrics"]["sum_reward"], sum(rewards), rtol=1e-6)
    assert not np.isclose(state.obs, first).any()
    state = env.step(state, jnp.zeros((3, 1), jnp.float32))
    np.testing.assert_allclose(state.info["episode_metrics"]["sum_reward"], state.reward, rtol=1e-6)
    assert (state.info["steps"] == 1).all()


def test_brax_cannot_say_what_the_environment_says():
    from artix.envs.adapters.brax import BraxEnvironment, wrap_for_training

    with pytest.raises(ValueError, match="30; found 1000"):
        wrap_for_training(BraxEnvironment(PointMass()), episode_length=1000)
    with pytest.raises(ValueError, match="action_repeat"):
        wrap_for_training(BraxEnvironment(PointMass()), episode_length=30, action_repeat=2)


PAGE = (Path(__file__).parents[2] / "docs/adapters.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("library", ["gymnasium", "brax", "rejax", "skrl"])
def test_the_example_of_the_page_trains(library, tmp_path, monkeypatch):
    """Each has a claim of its own: that the policy got better."""
    pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (section,) = (text for text in sections if text.lower().startswith(library))
    names = {}
    for block in re.findall(r"```python\n(.*?)```", sections[0] + section, re.DOTALL):
        exec(compile(block, "adapters.md", "exec"), names)


@pytest.mark.slow
def test_rsl_rl_steps_tensors_that_are_the_arrays():
    torch = pytest.importorskip("torch")
    pytest.importorskip("tensordict")
    from artix.envs.adapters.rsl_rl import RslRlVecEnv

    env = RslRlVecEnv(PointMass(episode_length=5, privileged=True), 8)
    obs = env.get_observations()
    assert obs["policy"].shape == (8, 1)
    assert obs["critic"].shape == (8, 2)
    assert env._tensor(env._state.reward).data_ptr() == env._state.reward.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match=r"expected actions of shape \(8, 1\), found \(3, 1\)"):
        env.step(torch.zeros(3, 1))
    env.episode_length_buf = torch.full((8,), 3)
    for step in range(2):
        obs, reward, done, extras = env.step(torch.zeros(8, 1))
        assert reward.shape == (8,)
        assert (done == (step == 1)).all()
        assert (extras["time_outs"] == (step == 1)).all()
    assert (env.episode_length_buf == 0).all()


class _VecEnv(abc.ABC):  # noqa: B024, they follow
    """What Stable-Baselines3 2.9.2 asks of a ``VecEnv``, and what its constructor does."""

    def __init__(self, num_envs, observation_space, action_space):
        self.num_envs, self.observation_space, self.action_space = (
            num_envs,
            observation_space,
            action_space,
        )
        self.reset_infos, self._seeds = [{} for _ in range(num_envs)], [None] * num_envs
        self.render_mode = self.get_attr("render_mode")[0]

    def _reset_seeds(self):
        self._seeds = [None] * self.num_envs

    def _get_indices(self, indices):
        return (
            range(self.num_envs)
            if indices is None
            else [indices]
            if isinstance(indices, int)
            else indices
        )

    def seed(self, seed=None):
        self._seeds = [seed + k for k in range(self.num_envs)]

    def step(self, actions):
        self.step_async(actions)
        return self.step_wait()


for _name in ("reset", "step_async", "step_wait", "close", "has_attr", "get_attr", "set_attr", "env_method",
              "env_is_wrapped"):  # fmt: skip
    setattr(_VecEnv, _name, abc.abstractmethod(lambda self: None))
_VecEnv.__abstractmethods__ = frozenset(
    name for name, value in vars(_VecEnv).items() if getattr(value, "__isabstractmethod__", False)
)


@pytest.fixture(scope="module")
def stable_baselines():
    """The adapter, on Stable-Baselines3's own class if it is installed."""
    sys.modules.pop("artix.envs.adapters.stable_baselines3", None)
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("stable_baselines3") is None:
            base = types.SimpleNamespace(VecEnv=_VecEnv)
            for name in ("stable_baselines3", "stable_baselines3.common"):
                patch.setitem(sys.modules, name, types.ModuleType(name))
            patch.setitem(sys.modules, "stable_baselines3.common.vec_env", base)
        yield importlib.import_module("artix.envs.adapters.stable_baselines3").StableBaselinesVecEnv
    sys.modules.pop("artix.envs.adapters.stable_baselines3", None)


def test_stable_baselines_gets_what_it_asks_for(stable_baselines):
    pytest.importorskip("gymnasium")
    env = stable_baselines(PointMass(episode_length=4), 3)
    with pytest.raises(RuntimeError, match=r"call reset\(\) before step"):
        env.step(np.zeros((3, 1)))
    first = env.reset()
    assert (first.shape, first.dtype, env.observation_space.shape) == ((3, 2), np.float32, (2,))
    assert not np.array_equal(first, env.reset())  # Another start.
    env.seed(0)
    np.testing.assert_array_equal(env.reset(), first)
    total = np.zeros(3)
    for step in range(4):
        obs, reward, done, infos = env.step(np.zeros((3, 1), np.float32))
        total += reward
        assert done.tolist() == [step == 3] * 3
    assert (reward.shape, done.dtype, len(infos)) == ((3,), bool, 3)
    for k, info in enumerate(infos):
        assert info["TimeLimit.truncated"]
        assert info["episode"] == {"r": pytest.approx(total[k], rel=1e-5), "l": 4}
        assert info["terminal_observation"].shape == (2,)
        assert not np.array_equal(info["terminal_observation"], obs[k])
    *_, infos = env.step(np.zeros((3, 1)))
    assert infos == [{"TimeLimit.truncated": False}] * 3
    assert env.get_attr("episode_length", [0, 2]) == [4, 4]
    assert env.has_attr("episode_length") and not env.has_attr("nothing")
    with pytest.raises(ValueError, match=r"expected actions of shape \(3, 1\)"):
        env.step(np.zeros((2, 1)))
    with pytest.raises(AttributeError, match="cannot change"):
        env.set_attr("episode_length", 3)
    both = stable_baselines(PointMass(privileged=True), 2, part="state")
    assert both.reset().shape == (2, 1)
    assert set(stable_baselines(PointMass(privileged=True), 2).reset()) == {
        "state",
        "privileged_state",
    }
    with pytest.raises(ValueError, match="part: point_mass observes"):
        stable_baselines(PointMass(), 2, part="state")


def test_without_stable_baselines_it_is_said(monkeypatch):
    name = "artix.envs.adapters.stable_baselines3"
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    monkeypatch.delitem(sys.modules, name, raising=False)
    adapter = importlib.import_module(name)
    with pytest.raises(ImportError, match="pip install stable-baselines3"):
        adapter.StableBaselinesVecEnv(PointMass(), 2)
    sys.modules.pop(name)


def test_gymnasium_records_what_is_drawn():
    gymnasium = pytest.importorskip("gymnasium")
    from artix.envs.adapters.gymnasium import GymnasiumEnv

    def picture(state):
        shade = int(127 * (1 + float(state.obs[0]) / 4))
        return np.full((6, 8, 3), shade, np.uint8)

    env = GymnasiumEnv(PointMass(episode_length=5), picture=picture)
    assert (env.render_mode, env.metadata["render_fps"]) == ("rgb_array", 10)
    recorded = gymnasium.wrappers.RenderCollection(env)
    recorded.reset(seed=0)
    for _ in range(5):
        *_, truncated, _ = recorded.step(np.ones(1, np.float32))
    frames = recorded.render()
    assert truncated and len(frames) == 6 and frames[0].shape == (6, 8, 3)
    assert len({int(frame[0, 0, 0]) for frame in frames}) > 1
    assert GymnasiumEnv(PointMass()).render() is None
