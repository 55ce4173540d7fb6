"""Policies: small networks from observations to actions; played, evaluated, written to a file, read again and exported.

What :mod:`artix.examples.ppo` and :mod:`artix.examples.shac` train, and ``artix play`` plays. Files are NumPy's
``.npz``: an array for each leaf, named by its path, and a line of JSON. Nothing in one is executed when it is read,
and no further package is needed.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from artix.envs import Environment, EnvState, autoreset

Array = jax.Array
Tree = TypeVar("Tree")
_HEADER = "header.json"


class Network(linen.Module):
    """A multilayer perceptron; its last layer starts small, so that a policy begins at rest and a critic at 0.

    Attributes:
      layers: the numbers of units of its hidden layers.
      outputs: the number of outputs.

    Example:
      >>> from artix.examples.policies import Network
      >>> network = Network((8, 8), 2)
      >>> parameters = network.init(jax.random.key(0), jnp.zeros(3, "float32"))
      >>> network.at(parameters, jnp.ones((5, 3), "float32")).shape
      (5, 2)
    """

    layers: Sequence[int]
    outputs: int

    @linen.compact
    def __call__(self, x: Array) -> Array:
        """Flax's way to say what the network is; to evaluate it, call :meth:`at`."""
        for size in self.layers:
            x = linen.swish(linen.Dense(size, kernel_init=linen.initializers.orthogonal(2**0.5))(x))
        return linen.Dense(self.outputs, kernel_init=linen.initializers.orthogonal(0.01))(x)

    def at(self, parameters: Any, x: Array) -> Array:
        """The outputs [..., outputs] for inputs [..., n], with parameters such as ``init`` makes."""
        return jnp.asarray(self.apply(parameters, x))


class Observed(flax.struct.PyTreeNode):
    """What has been observed so far: how much, and mean and variance in the shape of an observation, in float32."""

    count: Array
    mean: Any
    variance: Any

    @staticmethod
    def nothing(obs: Any) -> Observed:
        """Before the first observation; ``obs`` is one of them."""
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), obs)
        return Observed(jnp.asarray(1.0, jnp.float32), zeros, jax.tree.map(jnp.ones_like, zeros))

    def normalize(self, obs: Any) -> tuple[Array, Array]:
        """What the policy sees and what the critic sees, with means of about 0 and variances of about 1.

        They are the same, unless an observation is a dictionary: then the critic may know more (an *asymmetric*
        critic).
        """

        def one(x: Array, mean: Array, variance: Array) -> Array:
            return jnp.clip((x.astype(jnp.float32) - mean) / jnp.sqrt(variance + 1e-6), -10.0, 10.0)

        seen = jax.tree.map(one, obs, self.mean, self.variance)
        return (seen["state"], seen["privileged_state"]) if isinstance(seen, dict) else (seen, seen)

    def of_policy(self) -> Observed:
        """That of what the policy sees, an array, without what the critic alone knows."""
        if not isinstance(self.mean, dict):
            return self
        return Observed(self.count, self.mean["state"], self.variance["state"])

    def moments(self, obs: Any) -> tuple[Any, Any]:
        """Means of differences from the mean so far and of their squares, over the first axis of ``obs``."""
        apart = jax.tree.map(lambda x, mean: x.astype(jnp.float32) - mean, obs, self.mean)
        return jax.tree.map(lambda x: jnp.mean(x, axis=0), apart), jax.tree.map(lambda x: jnp.mean(x**2, axis=0), apart)

    def after(self, moments: tuple[Any, Any], number: int) -> Observed:
        """With ``number`` further observations of these moments."""
        count = self.count + number
        share = number / count
        mean = jax.tree.map(lambda mean, first: mean + share * first, self.mean, moments[0])
        variance = jax.tree.map(
            lambda old, first, second: (1 - share) * old + share * second - (share * first) ** 2,
            self.variance,
            *moments,
        )
        return Observed(count, mean, variance)


class Policy(flax.struct.PyTreeNode):
    """A policy that has been learned: an observation in, an action out.

    Attributes:
      parameters: of its network.
      observed: by what observations are normalised, of what the policy sees alone.
      layers: the numbers of units of the hidden layers.
      action_size: the number of actions.
    """

    parameters: Any
    observed: Observed
    layers: tuple[int, ...] = flax.struct.field(pytree_node=False)
    action_size: int = flax.struct.field(pytree_node=False)

    def __call__(self, obs: Any) -> Array:
        """The action [..., action_size], from -1 to 1, for observations [..., n] or a dictionary with ``"state"``."""
        seen = self.observed.normalize(obs["state"] if isinstance(obs, dict) else obs)[0]
        mean = Network(self.layers, self.action_size).at(self.parameters, seen)
        return jnp.clip(mean, -1.0, 1.0)


def play(environment: Environment, policy: Callable[[Any], Array], key: Array) -> EnvState:
    """One episode.

    Args:
      environment: the environment.
      policy: from an observation to an action.
      key: what the episode's start and its noise are drawn from.

    Returns:
      The states after each of ``episode_length`` control steps, every array with that leading axis. After an episode
      that ended early another one begins: ``done`` says where.
    """
    environment = autoreset(environment)

    def advance(state: EnvState, _: None) -> tuple[EnvState, EnvState]:
        moved = environment.step(state, policy(state.obs).astype(state.reward.dtype))
        return moved, moved

    return jax.lax.scan(advance, environment.reset(key), length=environment.episode_length)[1]


def evaluate(
    environment: Environment, policy: Callable[[Any], Array], key: Array, *, episodes: int
) -> dict[str, Array]:
    """Statistics of episodes, each up to its end.

    Args:
      environment: the environment.
      policy: from an observation to an action, such as a :class:`Policy`.
      key: what all episodes are drawn from.
      episodes: their number.

    Returns:
      For each episode, arrays of shape [episodes]: ``"return"``, the sum of rewards; ``"length"`` in control steps;
      ``"terminated"``, 1 where it ended before its time; the mean of each of the environment's metrics, and its last
      value as ``"final/NAME"``.
    """

    def one(key: Array) -> dict[str, Array]:
        states = play(environment, policy, key)
        over = jnp.cumsum(states.done) - states.done  # episodes that had ended before a step
        alive = (over == 0).astype(states.reward.dtype)
        length = jnp.sum(alive)
        metrics = {name: jnp.sum(alive * value) / length for name, value in states.metrics.items()}
        last = jnp.sum(alive).astype(jnp.int32) - 1
        metrics |= {f"final/{name}": value[last] for name, value in states.metrics.items()}
        terminated = jnp.sum(alive * states.done * (1 - states.info["truncation"]))
        return {**metrics, "return": jnp.sum(alive * states.reward), "length": length, "terminated": terminated}

    return jax.jit(jax.vmap(one))(jax.random.split(key, episodes))


def save(path: str | os.PathLike[str], tree: Any, **header: Any) -> None:
    """Writes all arrays of a tree to a file, in one piece: what was there before stays until the new file is complete.

    Args:
      path: the file, ``.npz``.
      tree: arrays in any structure of JAX's, keys of random numbers included.
      **header: what else shall be in the file, as JSON has it.

    Raises:
      OSError: the file cannot be written, for instance because the disk is full; what was there before is still there.
    """
    named: dict[str, Any] = {_name(where): _data(leaf) for where, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    named[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content = io.BytesIO()
    np.savez_compressed(content, **named)
    part = Path(f"{os.fspath(path)}.part")
    try:
        with part.open("wb") as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str], like: Tree) -> Tree:
    """Reads from a file what has the structure of a tree; the file may hold more.

    Args:
      path: a file that :func:`save` wrote.
      like: the structure, with arrays or ``jax.ShapeDtypeStruct`` for leaves.

    Returns:
      The tree with the arrays of the file.

    Raises:
      ValueError: the file is none of :func:`save`'s, is damaged, or lacks an array of this name and shape.
    """
    found = _read(path)

    def one(where: Any, leaf: Any) -> Any:
        name = _name(where)
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        wanted = jax.eval_shape(jax.random.key_data, leaf) if is_key else leaf
        if name not in found:
            raise ValueError(f"{os.fspath(path)!r} has no array {name!r}; it is of another kind of training or task")
        value = found[name]
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            expected, was = f"{wanted.dtype}{list(wanted.shape)}", f"{value.dtype}{list(value.shape)}"
            raise ValueError(
                f"{os.fspath(path)!r}: {name!r} should be {expected}; found {was}; were the options others?"
            )
        return jax.random.wrap_key_data(jnp.asarray(value)) if is_key else jnp.asarray(value)

    return jax.tree_util.tree_map_with_path(one, like)


def load_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What else was given to :func:`save`; raises as :func:`load`."""
    return json.loads(_read(path)[_HEADER].tobytes())


def export(policy: Policy) -> bytes:
    """A policy as StableHLO for any platform, without artix and without flax; ``jax.export.deserialize`` reads it.

    Args:
      policy: the policy.

    Returns:
      The serialised function from observations [batch, n] in float32, for any batch, to actions [batch, action_size].

    Raises:
      ImportError: the package ``flatbuffers``, in which JAX writes, is not installed.
    """
    try:
        import flatbuffers  # noqa: F401
    except ImportError as error:
        raise ImportError("jax.export writes with flatbuffers: pip install 'artix[rl]'") from error
    (batch,) = jax.export.symbolic_shape("batch")
    obs = jax.ShapeDtypeStruct((batch, *policy.observed.mean.shape), jnp.float32)
    exported = jax.export.export(jax.jit(policy.__call__), platforms=("cpu", "cuda", "tpu"))(obs)
    return bytes(exported.serialize())


def _name(where: Any) -> str:
    return jax.tree_util.keystr(where, simple=True, separator="/")


def _data(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    os.stat(path)  # What is not there is said as such.
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{os.fspath(path)!r} is damaged, or no checkpoint: it is no archive of arrays (.npz)")
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zipfile.error, KeyError, AttributeError) as error:
        reason = "it holds Python objects" if "allow_pickle" in str(error) else error
        raise ValueError(f"{os.fspath(path)!r} is damaged, or no checkpoint: {reason}") from error
    if _HEADER not in found:
        raise ValueError(f"{os.fspath(path)!r} is no checkpoint: it has no {_HEADER!r}")
    return found
