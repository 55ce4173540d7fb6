"""The state of environments between two steps, and what tasks see of a step."""

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
      obs: what the policy sees, shape [observation_size], or ``{"state": ..., "privileged_state": ...}``.
      reward: of the step that led here, [].
      done: 1 where the episode ended with that step, by termination or by time, [].
      metrics: scalars to log: every term of the reward under ``"reward/NAME"``, and ``"nan"``, which is 1 where a
        number stopped being finite and the episode was ended for it.
      info: ``"truncation"`` (1 where only time ended the episode), ``"steps"`` since the start, ``"key"`` for what is
        still to be drawn, ``"contact_memory"``, ``"randomized"`` leaves, and what the task itself remembers.

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
    """What a task sees of a control step, for its reward and its observation.

    Attributes:
      articulation: the robot, with whatever is randomised of it.
      ground: what it stands on, likewise; ``None`` for nothing.
      before: the state before the last physics step.
      state: the state at the end. At a reset both are the first state.
      impulse: impulses of the contacts in the last physics step, two tangential components, then the normal one,
        [K, 3] [N s]; ``None`` without ground.
      memory: what the task remembers, as its :meth:`Environment.begin` and its last :class:`Outcome` have it.
      action: the action, within [-1, 1], [action_size].
      drawn: random numbers of this step, from :meth:`Environment.draw`.

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
    """What a task returns of a control step.

    Examples:
      >>> upright = envs.Outcome(jnp.array(1.0), jnp.array(False), {}, {"angle": jnp.array(0.0)})
      >>> print(upright.reward, upright.terminated)
      1.0 False
    """

    reward: Array
    """The reward, []."""
    terminated: Array
    """Whether the episode ends here, [] (bool)."""
    memory: dict[str, Any]
    """What the task remembers from now on, with the keys, shapes and dtypes of :meth:`Environment.begin`."""
    metrics: dict[str, Array]
    """Scalars to log."""
