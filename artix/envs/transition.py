"""The state of an environment between two steps, and what a task sees of a step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

import artix
from artix.math import struct

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
