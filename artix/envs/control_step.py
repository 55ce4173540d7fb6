"""A control step: the states before and after it, what a task sees of it, and its kernels, one of
the physics and others of the task's rewards, observations and resets.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix.envs import random_numbers
from artix.math import struct
from artix.math.arrays import chosen

Array = jax.Array


class EnvState(struct.PyTreeNode):
    """The state of an environment between two steps; Brax's ``State`` with artix's physics in it.

    Attributes:
      articulation_state: where the robot is (Brax: ``pipeline_state``, Playground: ``data``).
      obs: what the policy sees, shape [observation_size], or
        ``{"state": ..., "privileged_state": ...}``.
      reward: reward of the last step, [].
      done: 1 if the last step ended the episode, by termination or by time, [].
      metrics: scalars to log: each reward term as ``"reward/NAME"``, and ``"nan"``, which is 1 if
        the episode was ended because a value was not finite.
      info: ``"truncation"`` (1 if only time ended the episode), ``"steps"`` since the start, the
        random ``"key"`` for future draws, ``"contact_memory"``, ``"randomized"`` leaves, and the
        task's own memory.

    Examples:
      >>> state = envs.make("cart_pole").reset(jax.random.key(0))
      >>> print(state.reward, state.done, state.info["steps"])
      0.0 0.0 0
    """

    articulation_state: artix.State
    obs: Any
    reward: Array
    done: Array
    metrics: dict[str, Array]
    info: dict[str, Any]


class Transition(struct.PyTreeNode):
    """A control step as a task sees it when computing its reward and observation.

    Attributes:
      articulation: the robot, with its randomised parameters.
      ground: the ground, with its randomised parameters; ``None`` if there is none.
      before: the state before the last physics step.
      state: the state at the end. At a reset both are the first state.
      impulse: contact impulses of the last physics step, two tangential components and then the
        normal one, [K, 3] [N s]; ``None`` without a ground.
      memory: the task's memory, from :meth:`Environment.begin` or its last :class:`Outcome`.
      action: the action, within [-1, 1], [action_size].
      drawn: the random numbers of this step, from :meth:`Environment.draw`.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> state = artix.neutral_state(pole)
      >>> still = envs.Transition(pole, None, state, state, None, {}, jnp.zeros(1), None)
      >>> print(still.ground, still.action.shape)
      None (1,)
    """

    articulation: artix.Articulation
    ground: Any
    before: artix.State
    state: artix.State
    impulse: Any
    memory: dict[str, Any]
    action: Array
    drawn: Any


class Outcome(NamedTuple):
    """What a task returns for a control step.

    Attributes:
      reward: the reward, []. Scalars may be Python numbers.
      terminated: whether the episode ends here, [] (bool).
      memory: the task's memory from now on, with the keys, shapes and dtypes of
        :meth:`Environment.begin`. The keys of ``info`` that are listed in :class:`EnvState`, and
        ``"final_obs"``, are the environment's own.
      metrics: scalars to log, except ``"nan"``.

    Examples:
      >>> upright = envs.Outcome(jnp.array(1.0), jnp.array(False), {}, {"angle": jnp.array(0.0)})
      >>> print(upright.reward, upright.terminated)
      1.0 False
    """

    reward: Array
    terminated: Array
    memory: dict[str, Any]
    metrics: dict[str, Array]


class Task:
    """An environment as a static argument of kernels, equal only to itself.

    It cannot be pickled: a task can contain any user function, so its kernels must not outlive the
    process.
    """

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    def __reduce__(self) -> Any:
        raise TypeError("a task that is a static argument cannot leave its process")


class Moved(NamedTuple):
    """The states before and after the last physics step of a control step."""

    before: artix.State
    state: artix.State
    contacts: Any
    memory: dict[str, Any]


class End(NamedTuple):
    """The end of a control step."""

    state: artix.State
    contact_memory: Any
    memory: dict[str, Any]
    obs: Any
    reward: Array
    done: Array
    truncation: Array
    steps: Array
    metrics: dict[str, Array]


class Start(NamedTuple):
    """The start of an episode, and the random numbers for its first observation."""

    state: artix.State
    contact_memory: Any
    memory: dict[str, Any]
    randomized: tuple[Array, ...]
    drawn: Any

    def first_parts(self, ground: artix.Ground | None, action: Array) -> TransitionParts:
        """Input for the observation at a reset, as if after a step in which nothing moved."""
        moved = Moved(self.state, self.state, self.contact_memory, self.memory)
        return TransitionParts(ground, self.randomized, moved, action, self.drawn)


class TransitionParts(NamedTuple):
    """The parts of a task's :class:`Transition`, with randomised leaves still separate from robot
    and ground.
    """

    ground: artix.Ground | None
    randomized: tuple[Array, ...]
    moved: Moved
    action: Array
    drawn: Any


def transition_of(environment: Any, inputs: TransitionParts) -> Transition:
    """The transition that a task sees, with the randomised leaves inserted into the robot and the
    ground.
    """
    moved = inputs.moved
    articulation, ground = environment.model(inputs.ground, inputs.randomized)
    impulse = None if moved.contacts is None else moved.contacts.impulse
    return Transition(
        articulation,
        ground,
        moved.before,
        moved.state,
        impulse,
        moved.memory,
        inputs.action,
        inputs.drawn,
    )


@artix.quantity
def stepped(
    task: Task,
    ground: artix.Ground | None,
    randomized: tuple[Array, ...],
    state: artix.State,
    contacts: Any,
    control: artix.Control,
) -> tuple[artix.State, Any]:
    """A physics step of a randomised robot, whose leaves are inserted inside the kernel."""
    articulation, ground = task.environment.model(ground, randomized)
    return task.environment._step(articulation, ground, state, contacts, control)


@artix.quantity
def observed(task: Task, ground: artix.Ground | None, start: Start) -> tuple[Any, dict[str, Any]]:
    """The observation at a reset, and what the task remembers of it."""
    environment = task.environment
    action = jnp.zeros(environment.action_size, start.state.joint_position.dtype)
    transition = transition_of(environment, start.first_parts(ground, action))
    kept = environment.remember(transition, is_first=True)
    return environment.observe(transition.replace(memory=transition.memory | kept)), kept


@artix.quantity
def begun(task: Task, ground: artix.Ground | None, key: Array) -> tuple[Start, Array]:
    """The start of an episode, and the key for its first step."""
    return task.environment._on(ground)._started(key, None)


@artix.quantity
def renewed(
    task: Task, ground: artix.Ground | None, key: Array, after: EnvState
) -> tuple[Start, Any, Array, Array]:
    """State, observation, step count and key after a step, replaced by those of a new episode if
    this one is done.

    A kernel draws and evaluates the start only where a robot of a vector needs one. XLA would do
    that for all robots, write the results to memory, then read them back to choose.
    """
    environment, info = task.environment._on(ground), after.info
    start, key = environment._started(key, after)
    fresh, kept = observed(task, ground, start)
    begins = start._replace(drawn=(), memory=start.memory | kept)
    goes_on = Start(
        after.articulation_state,
        info["contact_memory"],
        environment._memory(info),
        info["randomized"],
        (),
    )
    new = begins, fresh, jnp.zeros_like(info["steps"]), key
    return chosen(after.done > 0, new, (goes_on, after.obs, info["steps"], info["key"]))


class Ready(NamedTuple):
    """What a control step begins with."""

    key: Array
    state: artix.State
    memory: dict[str, Any]
    randomized: tuple[Array, ...]
    drawn: Any


@artix.quantity
def readied(
    task: Task,
    ground: artix.Ground | None,
    key: Array,
    before: Start,
    action: Array,
) -> Ready:
    """The beginning of a control step: its random numbers, the state once it is disturbed, and what
    the task prepares.
    """
    environment = task.environment._on(ground)
    key, draw_key, change_key = random_numbers.split(key, 3)
    drawn = environment.draw(draw_key)
    randomized = environment._drawn_again(change_key, before.randomized)
    state = environment.disturb(before.state, drawn)
    memory = environment.prepare(state, before.memory, action)
    return Ready(key, state, memory, randomized, drawn)


@artix.quantity
def evaluated(
    task: Task, inputs: TransitionParts, start: artix.State, action_is_finite: Array, steps: Array
) -> End:
    """The end of a control step that began at ``start``. If a value is not finite, the robot stays
    at ``start``.
    """
    environment = task.environment
    dtype = inputs.action.dtype
    moved = inputs.moved
    physics_is_finite = _are_finite((moved.before, moved.state, moved.contacts))
    before, state = chosen(physics_is_finite, (moved.before, moved.state), (start, start))
    transition = transition_of(
        environment, inputs._replace(moved=moved._replace(before=before, state=state))
    )
    # A task may return Python numbers, such as ``False``.
    reward, terminated, memory, metrics = jax.tree.map(jnp.asarray, environment.outcome(transition))
    memory = memory | environment.remember(transition.replace(memory=memory), is_first=False)
    obs = environment.observe(transition.replace(memory=memory))
    is_finite = action_is_finite & physics_is_finite & _are_finite((obs, reward, memory, metrics))
    terminated = terminated.astype(bool) | ~is_finite
    truncated = (steps + 1 >= environment.episode_length) & ~terminated
    metrics = {name: jnp.asarray(value, dtype) for name, value in metrics.items()}
    return End(
        state=chosen(is_finite, moved.state, start),
        contact_memory=chosen(
            is_finite, moved.contacts, jax.tree.map(jnp.zeros_like, moved.contacts)
        ),
        memory=chosen(is_finite, memory, _finite(moved.memory)),
        obs=_finite(obs),
        reward=jnp.where(is_finite, reward, 0).astype(dtype),
        done=(terminated | truncated).astype(dtype),
        truncation=truncated.astype(dtype),
        steps=steps + 1,
        metrics=_finite(metrics) | {"nan": (~is_finite).astype(dtype)},
    )


def _finite(tree: Any) -> Any:
    """The tree with zeros where numbers are not finite."""
    return jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0) if _is_real(x) else x, tree)


def _are_finite(tree: Any) -> Array:
    leaves = [x for x in jax.tree.leaves(tree) if _is_real(x)]
    return functools.reduce(
        jnp.logical_and, (jnp.all(jnp.isfinite(x)) for x in leaves), jnp.array(True)
    )


def _is_real(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)
