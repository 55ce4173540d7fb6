"""A residual policy: one that is trained acts, and another one learns what to add to its actions.

A walker of level ground knows most of what a walker of rough ground needs. The action is

    clip(base(what it knows of the observation) + residual(the whole observation), -1, 1)

where ``base`` stays as it is. The last layer of the residual begins at zero, so training begins
with what ``base`` does. Both together are one network again (:meth:`Base.plus`), which is
played, verified and exported like any other policy.

Silver et al., *Residual Policy Learning* (arXiv 1812.06298); Johannink et al., *Residual
Reinforcement Learning for Robot Control* (ICRA 2019, arXiv 1812.03201).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs import Environment, EnvState, observation_terms
from artix.envs.environment import Wrapper
from artix.envs.observation_terms import Entry
from artix.envs.tasks.legged import LeggedVelocity
from artix.examples.policies import Network, Policy

Array = jax.Array
Training = TypeVar("Training")

#: What the task that a policy knows must share with the one that it comes to, and the option of the
#: latter that makes it so; ``None`` where only another robot would.
_SAME: dict[str, tuple[str | None, Callable[[LeggedVelocity], Any]]] = {
    "joints": (None, lambda task: task.articulation.topology.dof_names),
    "default positions": (
        None,
        lambda task: np.asarray(task.robot.default_position, float).tolist(),
    ),
    "scales of actions": (
        "action_scale",
        lambda task: np.asarray(task.action_scale, float).tolist(),
    ),
    "control periods": ("dt", lambda task: task.dt),
}


class OptionsDifferError(ValueError):
    """A policy does not fit a task, but would if some options of the task had other values.

    Attributes:
      assignments: the options, as ``artix train --set`` takes them, such as
        ``"gait_frequency=2.5"``.
    """

    def __init__(self, message: str, *assignments: str) -> None:
        super().__init__(message)
        self.assignments = assignments


class Base(NamedTuple):
    """A policy that stays as it is, under a residual.

    Attributes:
      policy: the policy.
      known: where in the environment's observation (``"state"`` of a dictionary) that of the policy
        is, in its order; :func:`base_for` finds the places.
    """

    policy: Policy
    known: tuple[int, ...]

    def action(self, obs: Any) -> Array:
        """The mean action [..., action_size] for an observation, not yet clipped."""
        seen = (obs["state"] if isinstance(obs, dict) else obs)[..., np.array(self.known, int)]
        network = Network(self.policy.layers, self.policy.action_size)
        return network.at(self.policy.parameters, self.policy.observed.normalize(seen)[0])

    def plus(self, residual: Policy) -> Policy:
        """This policy and a residual as one policy, whose layers have the units of both.

        It normalises observations as the residual does; the first layer of the base policy changes
        so that its actions stay the same. Two things differ from what was trained, where they
        happen: what lies further from the mean than ten deviations is cut off by the residual's
        deviations, and a residual beyond -1 to 1 is cut off only after it was added.
        """
        known = self.policy.renormalized(residual.observed, self.known)
        base, both = known.parameters["params"], {}
        sizes = tuple(zip(self.policy.layers, residual.layers, strict=True))
        orders = [_paired(*each) for each in sizes]
        for k in range(len(sizes) + 1):
            one, other = base[f"Dense_{k}"], residual.parameters["params"][f"Dense_{k}"]
            bias = jnp.concatenate([one["bias"], other["bias"]])
            if k == 0:
                kernel = jnp.concatenate([one["kernel"], other["kernel"]], axis=1)
            else:
                kernel = jax.scipy.linalg.block_diag(one["kernel"], other["kernel"])[orders[k - 1]]
            if k < len(sizes):
                kernel, bias = kernel[:, orders[k]], bias[orders[k]]
            else:  # the sum of both
                kernel = kernel[:, : self.policy.action_size] + kernel[:, self.policy.action_size :]
                bias = one["bias"] + other["bias"]
            both[f"Dense_{k}"] = {"kernel": kernel, "bias": bias}
        layers = tuple(one + other for one, other in sizes)
        return Policy({"params": both}, residual.observed, layers, residual.action_size)


def base_for(environment: Environment, policy: Policy, level: Environment) -> Base:
    """A policy for another legged task as the base of a residual, by the names of what it observes.

    Args:
      environment: the task that it comes to, which may show more.
      policy: the policy.
      level: the task that it knows, such as ``envs.make("quadruped_velocity")``.

    Raises:
      OptionsDifferError: an observation that the policy needs is missing or differs, or scales of
        actions, control periods or clocks do; the message and ``assignments`` say which options of
        the task mend it.
      ValueError: no option would help: a task has no observations by name, the robots differ, or an
        observation has another size or is a function of the user's own.

    Example:
      >>> from artix import envs
      >>> from artix.examples import policies
      >>> from artix.examples.residual import base_for
      >>> level = envs.make("quadruped_velocity")
      >>> rough = envs.make("quadruped_rough", gait_frequency=2.5)
      >>> base = base_for(rough, policies.load("quadruped_velocity"), level)
      >>> base.known[45:], rough.observation_size["state"]
      ((45, 46, 47, 83, 84), 85)
    """
    for each in (level, environment):
        if not isinstance(each, LeggedVelocity):
            raise ValueError(
                "a residual is for legged robots that follow commands, whose observations have "
                f"names; {each.name} is another task"
            )
    assert isinstance(level, LeggedVelocity)
    assert isinstance(environment, LeggedVelocity)
    for what, (option, get) in _SAME.items():
        expected = get(level)
        if get(environment) == expected:
            continue
        text = (
            f"the base policy was trained with other {what}: {expected}; {environment.name} has "
            f"{get(environment)}"
        )
        if option is None:
            raise ValueError(text)
        raise OptionsDifferError(
            f"{text}: give it {option}={expected}", f"{option}={expected}".replace(" ", "")
        )
    if level.gait_frequency not in (None, environment.gait_frequency):
        its = "none" if environment.gait_frequency is None else f"{environment.gait_frequency} Hz"
        assignment = f"gait_frequency={level.gait_frequency}"
        raise OptionsDifferError(
            f"the base policy walks by a clock of {level.gait_frequency} Hz; {environment.name} "
            f"has {its}: give it {assignment}",
            assignment,
        )
    there = {one.name: one for one in environment.layout}
    known: list[int] = []
    for one in level.layout:
        same = there.get(one.name)
        if same is None or _seen(one) != _seen(same):
            _refuse(one, same, environment.name)
        if _code(level, one.name) != _code(environment, one.name):
            raise ValueError(
                f"the base policy sees {one.name!r}, which {environment.name} shows by another "
                "function"
            )
        known += range(same.start, same.start + same.size * same.history)
    return Base(policy, tuple(known))


def _code(task: LeggedVelocity, name: str) -> Any:
    """What computes a term, equal for functions that were made by the same lines."""
    function = task.observations[name].function
    return getattr(function, "__code__", function)


def _seen(entry: Entry) -> tuple[int, float, int]:
    return entry.size, entry.scale, entry.history


def _refuse(one: Entry, same: Entry | None, task: str) -> NoReturn:
    """Raises the error for what a policy sees and a task shows otherwise, or not at all."""
    if same is None:
        text = f"the base policy sees {one.name!r}, which {task} does not show"
    else:
        text = (
            f"the base policy sees {one.name!r} with size {one.size}, scale {one.scale} and "
            f"history {one.history}; {task} shows it with {same.size}, {same.scale} and "
            f"{same.history}"
        )
    if one.name not in observation_terms.TERMS or (same is not None and one.size != same.size):
        raise ValueError(text)
    term = f"observations.{one.name}"
    assignments = f"{term}={one.scale}", *([f"{term}.history={one.history}"] * (one.history > 1))
    raise OptionsDifferError(
        f"{text}: change the term {one.name!r} of its option observations", *assignments
    )


class Residual(Wrapper):
    """An environment whose actions are added to those of a policy that stays as it is.

    All else is the given environment's. Any learner trains in it.

    Args:
      environment: the environment.
      base: the policy that acts in it.

    Raises:
      ValueError: ``base`` has another number of actions than the environment, or of observations
        than places for them, or one of the places is not in the environment's observation.

    Example::

        config, steps, options, always = learners.settings("quadruped_rough", "shac")
        rough, level = envs.make("quadruped_rough", **options, **always), "quadruped_velocity"
        base = residual.base_for(rough, policies.load(level), envs.make(level))
        environment = residual.Residual(rough, base)
        training = residual.begin(base, shac.start(environment, config))
        for training, report in shac.train(environment, config, steps=steps, training=training):
            print(report["steps"], report["return"])
        policy = base.plus(shac.policy_of(training, config))
    """

    overrides = ("unwrapped", "base", "step")

    def __init__(self, environment: Environment, base: Base) -> None:
        size = environment.observation_size
        size = size["state"] if isinstance(size, dict) else size
        policy, known = base
        if policy.action_size != environment.action_size:
            raise ValueError(
                f"{environment.name} has {environment.action_size} actions; the base policy "
                f"returns {policy.action_size}"
            )
        expected = policy.observed.mean.shape[0]
        if len(known) != expected or not all(0 <= k < size for k in known):
            raise ValueError(
                f"the base policy needs {expected} places among the {size} observations of "
                f"{environment.name}; found {known}"
            )
        super().__init__(environment)
        vars(self)["base"] = base

    def step(self, state: EnvState, action: Array) -> EnvState:
        """Advances by one control period with the base policy's action plus this one.

        The sum is clipped, but has the gradient of what is not.
        """
        total = self.base.action(state.obs).astype(action.dtype) + action
        clipped = jnp.clip(total, -1, 1)
        return self.unwrapped.step(state, total + jax.lax.stop_gradient(clipped - total))


def begin(base: Base, training: Training) -> Training:
    """A new training run whose residual is zero, so that it begins with what the base policy does.

    Args:
      base: the policy under the residual.
      training: a new training run of any method, from its ``start``.

    Raises:
      ValueError: the residual has another number of layers than the base policy, so that both
        together would be no such network.
    """
    places = [_name(where) for where, _ in jax.tree_util.tree_leaves_with_path(training)]
    mine = {name for name in places if "parameters/policy/params/Dense_" in name}
    count, expected = len(mine) // 2, len(base.policy.layers) + 1
    if count != expected:
        raise ValueError(
            f"the residual needs {expected - 1} hidden layers, as many as the base policy, such as "
            f"policy_layers={list(base.policy.layers)}; found {count - 1}"
        )

    def zero(where: Any, leaf: Any) -> Any:
        is_last = f"parameters/policy/params/Dense_{count - 1}/" in _name(where)
        return jnp.zeros_like(leaf) if is_last else leaf

    return jax.tree_util.tree_map_with_path(zero, training)


def _name(where: Any) -> str:
    return jax.tree_util.keystr(where, simple=True, separator="/")


def _paired(first: int, second: int) -> np.ndarray:
    """The order of the units of two layers in which the halves of the whole are the first and
    second halves of both, as in a symmetric network (:func:`artix.examples.policies.symmetrized`).
    """
    one, other = np.arange(first), first + np.arange(second)
    halves = [(x[: len(x) // 2], x[len(x) // 2 : 2 * (len(x) // 2)]) for x in (one, other)]
    odd = [x[2 * (len(x) // 2) :] for x in (one, other)]
    return np.concatenate([halves[0][0], halves[1][0], halves[0][1], halves[1][1], *odd])
