"""Policies: small networks that map observations to actions. Play, evaluate, save, load and export
them.

:mod:`artix.examples.ppo` and :mod:`artix.examples.shac` train them, and ``artix play`` plays them.
Files are NumPy archives (``.npz``) with one array per leaf, named by its path, and a JSON header.
Reading a file executes nothing in it and needs no further package.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from artix.envs import Environment, EnvState, autoreset
from artix.io.common.atomic_file import write_atomically

Array = jax.Array
Tree = TypeVar("Tree")
#: Observations further from their mean than this many deviations are cut off.
_WIDEST = 10.0
_HEADER = "header.json"
_BUILT_IN = Path(__file__).parent / "checkpoints"


class Network(linen.Module):
    """A multilayer perceptron. Its last layer starts small, so a new policy or critic returns about
    0.

    Attributes:
      layers: sizes of the hidden layers.
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
        """Defines the network for Flax. To evaluate it, call :meth:`at`."""
        for size in self.layers:
            x = linen.swish(linen.Dense(size, kernel_init=linen.initializers.orthogonal(2**0.5))(x))
        return linen.Dense(self.outputs, kernel_init=linen.initializers.orthogonal(0.01))(x)

    def at(self, parameters: Any, x: Array) -> Array:
        """The outputs [..., outputs] for inputs [..., n], with parameters from ``init``."""
        return jnp.asarray(self.apply(parameters, x))


class Observed(flax.struct.PyTreeNode):
    """Running statistics of the observations: their count, mean and variance, in float32."""

    count: Array
    mean: Any
    variance: Any

    @staticmethod
    def nothing(obs: Any) -> Observed:
        """The statistics before the first observation. ``obs`` gives the shapes."""
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), obs)
        return Observed(jnp.asarray(1.0, jnp.float32), zeros, jax.tree.map(jnp.ones_like, zeros))

    def normalize(self, obs: Any) -> tuple[Array, Array]:
        """The inputs of policy and critic, with means of about 0 and variances of about 1.

        They are the same unless an observation is a dictionary. Then the critic may see more than
        the policy (an *asymmetric* critic).
        """

        def one(x: Array, mean: Array, variance: Array) -> Array:
            return jnp.clip(
                (x.astype(jnp.float32) - mean) / jnp.sqrt(variance + 1e-6), -_WIDEST, _WIDEST
            )

        seen = jax.tree.map(one, obs, self.mean, self.variance)
        return (seen["state"], seen["privileged_state"]) if isinstance(seen, dict) else (seen, seen)

    def of_policy(self) -> Observed:
        """The statistics of the policy's input alone, without what only the critic sees."""
        if not isinstance(self.mean, dict):
            return self
        return Observed(self.count, self.mean["state"], self.variance["state"])

    def moments(self, obs: Any) -> tuple[Any, Any]:
        """Means, over the first axis of ``obs``, of the deviations from the current mean and of
        their squares.

        After the first ones, what is cut off when it is normalised counts as much as it does there:
        one robot that is flung away would otherwise hide for good what the others measure.
        """
        is_known = self.count > 1

        def one(x: Array, mean: Array, variance: Array) -> Array:
            widest = jnp.where(is_known, _WIDEST * jnp.sqrt(variance + 1e-6), jnp.inf)
            return jnp.clip(x.astype(jnp.float32) - mean, -widest, widest)

        apart = jax.tree.map(one, obs, self.mean, self.variance)
        return jax.tree.map(lambda x: jnp.mean(x, axis=0), apart), jax.tree.map(
            lambda x: jnp.mean(x**2, axis=0), apart
        )

    def after(self, moments: tuple[Any, Any], number: int) -> Observed:
        """The statistics after ``number`` more observations with these moments."""
        count = self.count + number
        share = number / count
        mean = jax.tree.map(lambda mean, first: mean + share * first, self.mean, moments[0])
        variance = jax.tree.map(
            lambda old, first, second: (1 - share) * old + share * second - (share * first) ** 2,
            self.variance,
            *moments,
        )
        return Observed(count, mean, variance)


class Policy(flax.struct.PyTreeNode, eq=False):
    """A trained policy, which maps an observation to an action.

    ``jax.jit(policy)`` compiles its numbers in. To change them without compiling again, pass the
    policy as an argument: ``jax.jit(Policy.__call__)(policy, obs)``. Two policies are equal only if
    they are the same object.

    Attributes:
      parameters: parameters of its network.
      observed: statistics that normalise the policy's observations.
      layers: sizes of the hidden layers.
      action_size: the number of actions.

    Example:
      >>> from artix.examples import policies
      >>> policy = policies.load("arm_reach")
      >>> jax.jit(policy)(jnp.zeros((3, 43), "float32")).shape
      (3, 7)
    """

    parameters: Any
    observed: Observed
    layers: tuple[int, ...] = flax.struct.field(pytree_node=False)
    action_size: int = flax.struct.field(pytree_node=False)

    def __call__(self, obs: Any) -> Array:
        """The action [..., action_size], from -1 to 1, for observations [..., n] or a dictionary
        with ``"state"``.
        """
        seen = self.observed.normalize(obs["state"] if isinstance(obs, dict) else obs)[0]
        mean = Network(self.layers, self.action_size).at(self.parameters, seen)
        return jnp.clip(mean, -1.0, 1.0)

    def renormalized(self, observed: Observed, known: Sequence[int] | None = None) -> Policy:
        """The policy with the same actions that normalises observations by other statistics, except
        where either cuts off.

        Args:
          observed: the statistics of m observations.
          known: where in them those of this policy are; ``None`` if they are the same.
        """
        places = np.arange(len(observed.mean)) if known is None else np.array(known, int)
        deviation = jnp.sqrt(self.observed.variance + 1e-6)
        ratio = jnp.sqrt(observed.variance[places] + 1e-6) / deviation
        shift = (observed.mean[places] - self.observed.mean) / deviation
        layers = self.parameters["params"]
        kernel, bias = (layers["Dense_0"][name] for name in ("kernel", "bias"))
        none = jnp.zeros((len(observed.mean), kernel.shape[1]), kernel.dtype)
        first = {
            "kernel": none.at[places].set(ratio[:, None] * kernel),
            "bias": bias + jnp.matmul(shift, kernel, precision="highest"),
        }
        parameters = {**self.parameters, "params": {**layers, "Dense_0": first}}
        return self.replace(parameters=parameters, observed=observed)


def symmetrized(
    parameters: Any, reflect: Callable[[Array], Array], reflect_output: Callable[[Array], Array]
) -> Any:
    """The parameters closest to these of a symmetric :class:`Network`, whose outputs mirror images
    have as theirs.

    Its hidden units come in pairs that are each other's mirror images: they exchange their values
    where the robot and its surroundings are mirrored. It costs as much as any other network of its
    size, and remains one.

    Args:
      parameters: parameters of a network, or a gradient with respect to them.
      reflect: the mirror image of the inputs [..., n], such as an
        :class:`artix.envs.symmetry.SignedPermutation`.
      reflect_output: the mirror image of the outputs [..., m].

    Example:
      >>> from artix.examples.policies import Network, symmetrized
      >>> network, x = Network((8, 8), 2), jnp.array([0.3, -0.7, 0.5], "float32")
      >>> parameters = network.init(jax.random.key(0), x)
      >>> odd = symmetrized(parameters, jnp.negative, jnp.negative)
      >>> bool(jnp.allclose(network.at(odd, -x), -network.at(odd, x)))
      True
    """
    layers, symmetric = parameters["params"], {}
    for k in range(len(layers)):
        kernel, bias = (layers[f"Dense_{k}"][name] for name in ("kernel", "bias"))
        into = reflect if k == 0 else _exchanged
        out = reflect_output if k == len(layers) - 1 else _exchanged
        symmetric[f"Dense_{k}"] = {
            "kernel": 0.5 * (kernel + out(into(kernel.T).T)),
            "bias": 0.5 * (bias + out(bias)),
        }
    return {**parameters, "params": symmetric}


def unsigned(reflect: Callable[[Array], Array], x: Array) -> Array:
    """What has no sign, such as variances [n], where the numbers they belong to are mirrored."""
    return reflect(x) * reflect(jnp.ones_like(x))


def _exchanged(hidden: Array) -> Array:
    """Hidden units [..., n] with their two halves exchanged; an odd one at the end stays."""
    half = hidden.shape[-1] // 2
    return jnp.concatenate(
        [hidden[..., half : 2 * half], hidden[..., :half], hidden[..., 2 * half :]], axis=-1
    )


def play(environment: Environment, policy: Callable[[Any], Array], key: Array) -> EnvState:
    """Plays one episode.

    Args:
      environment: the environment.
      policy: a function that maps an observation to an action.
      key: random key for the start of the episode and its noise.

    Returns:
      The states after each of ``episode_length`` control steps; every array has that leading axis.
      If the episode ends early, another one begins: ``done`` shows where.
    """
    environment = autoreset(environment)

    def advance(state: EnvState, _: None) -> tuple[EnvState, EnvState]:
        moved = environment.step(state, policy(state.obs).astype(state.reward.dtype))
        return moved, moved

    return jax.lax.scan(advance, environment.reset(key), length=environment.episode_length)[1]


def evaluate(
    environment: Environment, policy: Callable[[Any], Array], key: Array, *, episodes: int
) -> dict[str, Array]:
    """Plays several episodes, each up to its end, and returns their statistics.

    Args:
      environment: the environment.
      policy: a function that maps an observation to an action, such as a :class:`Policy`.
      key: random key for all episodes.
      episodes: number of episodes.

    Returns:
      For each episode, arrays of shape [episodes]: ``"return"``, the sum of rewards; ``"length"``
      in control steps; ``"terminated"``, 1 if the episode ended early; the mean of each of the
      environment's metrics; and each metric's last value as ``"final/NAME"``.
    """

    def one(key: Array) -> dict[str, Array]:
        states = play(environment, policy, key)
        # Number of episodes that ended before each step
        over = jnp.cumsum(states.done) - states.done
        alive = (over == 0).astype(states.reward.dtype)
        length = jnp.sum(alive)
        metrics = {name: jnp.sum(alive * value) / length for name, value in states.metrics.items()}
        last = jnp.sum(alive).astype(jnp.int32) - 1
        metrics |= {f"final/{name}": value[last] for name, value in states.metrics.items()}
        terminated = jnp.sum(alive * states.done * (1 - states.info["truncation"]))
        return {
            **metrics,
            "return": jnp.sum(alive * states.reward),
            "length": length,
            "terminated": terminated,
        }

    return jax.jit(jax.vmap(one))(jax.random.split(key, episodes))


def save(path: str | os.PathLike[str], tree: Any, **header: Any) -> None:
    """Saves all arrays of a tree to a file, atomically: an existing file stays until the new one is
    complete.

    Args:
      path: the file, ``.npz``.
      tree: a pytree of arrays; random keys are allowed.
      **header: further entries for the file, which JSON must be able to express.

    Raises:
      OSError: the file cannot be written, for example because the disk is full. An existing file is
        kept.
    """
    named: dict[str, Any] = {
        _name(where): _data(leaf) for where, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
    named[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content = io.BytesIO()
    np.savez_compressed(content, **named)
    write_atomically(path, lambda part: part.write_bytes(content.getbuffer()))


@overload
def load(path: str | os.PathLike[str]) -> Policy: ...


@overload
def load(path: str | os.PathLike[str], like: Tree) -> Tree: ...


def load(path: str | os.PathLike[str], like: Any = None) -> Any:
    """Loads a policy, or another tree of arrays, from a file.

    Args:
      path: a file that :func:`save` wrote, such as ``policy.npz`` or ``checkpoint.npz`` of
        ``artix train``; or the name of a built-in policy (:func:`built_in`), if there is no such
        file.
      like: a tree of the same structure, with arrays or ``jax.ShapeDtypeStruct`` as leaves. The
        file may hold more. Without it, the file's policy is loaded.

    Returns:
      The policy, or the tree with the arrays of the file.

    Raises:
      FileNotFoundError: there is neither such a file nor a built-in policy of that name.
      ValueError: the file was not written by :func:`save`, is damaged, holds no policy, or has no
        array of a name and shape in ``like``.

    Example:
      >>> from artix.examples import policies
      >>> policy = policies.load("quadruped_velocity")
      >>> policy.action_size
      12
    """
    path = _file_of(path)
    if like is None:
        return _policy_in(path)
    arrays = _read(path)

    def one(where: Any, leaf: Any) -> Any:
        name = _name(where)
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        wanted = jax.eval_shape(jax.random.key_data, leaf) if is_key else leaf
        if name not in arrays:
            raise ValueError(
                f"{os.fspath(path)!r} has no array {name!r}; it has a policy alone, or is of "
                "another task or version"
            )
        value = arrays[name]
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            expected, was = (
                f"{wanted.dtype}{list(wanted.shape)}",
                f"{value.dtype}{list(value.shape)}",
            )
            raise ValueError(
                f"{os.fspath(path)!r}: {name!r} should be {expected}; found {was}; was it saved "
                "with other options?"
            )
        return jax.random.wrap_key_data(jnp.asarray(value)) if is_key else jnp.asarray(value)

    return jax.tree_util.tree_map_with_path(one, like)


def load_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header that :func:`save` was given. Raises the same errors as :func:`load`."""
    return json.loads(_read(_file_of(path))[_HEADER].tobytes())


def built_in() -> tuple[str, ...]:
    """The names of the policies that come with artix, for :func:`load`: tasks, or robots with what
    they do.

    Example:
      >>> from artix.examples import policies
      >>> "quadruped_velocity" in policies.built_in()
      True
    """
    return tuple(sorted(path.stem for path in _BUILT_IN.glob("*.npz")))


def export(policy: Policy) -> bytes:
    """Exports a policy as StableHLO, which runs on any platform without artix or Flax.

    Args:
      policy: the policy.

    Returns:
      The serialised function, for ``jax.export.deserialize``. It maps float32 observations
      [batch, n], for any batch size, to actions [batch, action_size].

    Raises:
      ImportError: the package ``flatbuffers``, which JAX needs for serialising, is not installed.
    """
    try:
        import flatbuffers  # noqa: F401
    except ImportError as error:
        raise ImportError("jax.export needs flatbuffers: pip install 'artix[rl]'") from error
    (batch,) = jax.export.symbolic_shape("batch")
    obs = jax.ShapeDtypeStruct((batch, *policy.observed.mean.shape), jnp.float32)
    exported = jax.export.export(jax.jit(policy.__call__), platforms=("cpu", "cuda", "tpu"))(obs)
    return bytes(exported.serialize())


def export_onnx(policy: Policy) -> bytes:
    """Exports a policy as ONNX, which runs in ONNX Runtime, TensorRT and OpenVINO, and on robots.

    Args:
      policy: the policy.

    Returns:
      The model, with the input ``obs`` [batch, n] and the output ``action`` [batch, action_size] in
      float32. It normalises observations itself.

    Raises:
      ImportError: the package ``onnx`` is not installed.

    Example:
      >>> from artix.examples import policies
      >>> model = policies.export_onnx(policies.load("quadruped_velocity"))
      >>> 70_000 < len(model) < 120_000
      True
    """
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise ImportError("the export as ONNX needs onnx: pip install 'artix[rl]'") from error
    numbers: dict[str, Any] = {
        "mean": np.asarray(policy.observed.mean),
        "deviation": np.sqrt(np.asarray(policy.observed.variance) + np.float32(1e-6)),
        "least": np.float32(-10),
        "most": np.float32(10),
        "minus_one": np.float32(-1),
        "one": np.float32(1),
    }
    nodes = [
        helper.make_node("Sub", ["obs", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "deviation"], ["scaled"]),
        helper.make_node("Clip", ["scaled", "least", "most"], ["x0"]),
    ]
    layers = policy.parameters["params"]
    for k in range(len(layers)):
        for name in ("kernel", "bias"):
            numbers[f"{name}{k}"] = np.asarray(layers[f"Dense_{k}"][name])
        nodes.append(helper.make_node("Gemm", [f"x{k}", f"kernel{k}", f"bias{k}"], [f"y{k}"]))
        if k < len(policy.layers):  # swish
            nodes.append(helper.make_node("Sigmoid", [f"y{k}"], [f"s{k}"]))
            nodes.append(helper.make_node("Mul", [f"y{k}", f"s{k}"], [f"x{k + 1}"]))
    nodes.append(helper.make_node("Clip", [f"y{len(layers) - 1}", "minus_one", "one"], ["action"]))
    sizes = {"obs": policy.observed.mean.shape[0], "action": policy.action_size}
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
        for name, size in sizes.items()
    ]
    constants = [
        numpy_helper.from_array(np.asarray(x, np.float32), name) for name, x in numbers.items()
    ]
    graph = helper.make_graph(nodes, "policy", ends[:1], ends[1:], constants)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, producer_name="artix", opset_imports=opset, ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _file_of(path: str | os.PathLike[str]) -> Path:
    """The file of that path, or of the built-in policy of that name."""
    file = Path(path)
    if file.exists() or str(path) not in built_in():
        return file
    return _BUILT_IN / f"{path}.npz"


def _policy_in(path: Path) -> Policy:
    """The policy that a file holds, alone or beside a training run. Its shapes follow from its
    arrays.
    """
    arrays = _read(path)
    prefix = "policy/" if any(name.startswith("policy/") for name in arrays) else ""
    parameters: dict[str, Any] = {}
    for name, value in arrays.items():
        if name.startswith(f"{prefix}parameters/"):
            *folders, leaf = name.removeprefix(f"{prefix}parameters/").split("/")
            branch = parameters
            for folder in folders:
                branch = branch.setdefault(folder, {})
            branch[leaf] = jnp.asarray(value)
    statistics = [arrays.get(f"{prefix}observed/{name}") for name in ("count", "mean", "variance")]
    layers = parameters.get("params", {})
    names = [f"Dense_{index}" for index in range(len(layers))]
    if not layers or set(layers) != set(names) or any(value is None for value in statistics):
        raise ValueError(
            f"{os.fspath(path)!r} holds no policy; name the structure of what it holds with like="
        )
    sizes = [layers[name]["kernel"].shape[1] for name in names]
    return Policy(
        parameters,
        Observed(*(jnp.asarray(value) for value in statistics)),
        tuple(sizes[:-1]),
        sizes[-1],
    )


def _name(where: Any) -> str:
    return jax.tree_util.keystr(where, simple=True, separator="/")


def _data(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    os.stat(path)  # Raises FileNotFoundError if there is no such file.
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{os.fspath(path)!r} is not a checkpoint, or is damaged: it is not a NumPy archive "
            "(.npz)"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        zipfile.error,
        KeyError,
        AttributeError,
    ) as error:
        reason = "it holds Python objects" if "allow_pickle" in str(error) else error
        raise ValueError(
            f"{os.fspath(path)!r} is not a checkpoint, or is damaged: {reason}"
        ) from error
    if not isinstance(
        arrays.get(_HEADER), np.ndarray
    ):  # The archive of a robot has one that is text.
        raise ValueError(f"{os.fspath(path)!r} is not a checkpoint: it has no array {_HEADER!r}")
    return arrays
