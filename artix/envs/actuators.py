"""Actuator models between a command and a joint: delays, and networks fitted to motors.

PD control with force limits is the articulation's ``drive``, and a DC motor's torque-speed curve is
its ``envelope``; both are part of every physics step. The models here are for a task's ``actuate``,
which is called once per physics step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs import random_numbers
from artix.math import struct
from artix.model.checks import check_count

Array = jax.Array


class Delay(struct.PyTreeNode):
    """A buffer that delays commands by some steps.

    Attributes:
      commands: the commands of the last steps, newest first, [T, n].
      lag: the delay in steps, from 0 to T - 1, [] (int32).

    Examples:
      >>> from artix.envs.actuators import Delay
      >>> delay = Delay.of(jnp.zeros(1), most_steps=2, lag=1)
      >>> delay = delay.then(jnp.array([5.0]))
      >>> float(delay.arrived[0]), float(delay.then(jnp.array([7.0])).arrived[0])
      (0.0, 5.0)
    """

    commands: Array
    lag: Array

    @classmethod
    def of(cls, command: Array, *, most_steps: int, lag: int | Array = 0) -> Delay:
        """A delay whose buffer is filled with one command.

        Args:
          command: the command, [n].
          most_steps: the largest lag.
          lag: the delay in steps; :func:`random_lag` draws one at random. An array is not checked,
            and acts as the nearest lag that the buffer has.

        Raises:
          ValueError: ``most_steps`` or ``lag`` is negative, or the lag is the larger one.
          TypeError: one is no whole number.
        """
        check_count("most_steps", most_steps, 0)
        if not isinstance(lag, jax.Array):
            check_count("lag", lag, 0)
            if lag > most_steps:
                raise ValueError(f"lag: expected most_steps={most_steps} at most, found {lag}")
        return cls(
            jnp.broadcast_to(command, (most_steps + 1, *command.shape)), jnp.asarray(lag, jnp.int32)
        )

    def then(self, command: Array) -> Delay:
        """The delay one step later, after receiving this command [n]."""
        return self.replace(commands=jnp.concatenate([command[None], self.commands[:-1]]))

    @property
    def arrived(self) -> Array:
        """The command that arrives now, [n]."""
        return self.commands[jnp.clip(self.lag, 0, len(self.commands) - 1)]


def check_delay(name: str, delay: Any, dt: float) -> None:
    """Refuses delays that cannot be drawn.

    Args:
      name: what the user calls it.
      delay: the smallest and the largest delay [s].
      dt: how long a step takes [s].

    Raises:
      ValueError: they are not two times, the first of which is not negative and not the larger one,
        or both are less than half a step, so that nothing would be delayed.
    """
    is_pair = np.shape(delay) == (2,) and all(isinstance(one, int | float) for one in delay)
    least, most = delay if is_pair else (math.nan, math.nan)
    if not 0 <= least <= most < math.inf:
        raise ValueError(f"{name} needs 0 <= least <= largest [s]; found {delay}")
    if most and not round(most / dt):
        raise ValueError(
            f"{name}: delays are whole physics steps of {dt:g} s, to which {most:g} s is rounded "
            "down to none; take shorter steps, or leave it out"
        )


def random_lag(key: Array, least: float, most: float, dt: float) -> Array:
    """Draws a lag between two times [s], uniformly in steps of ``dt`` [s], [] (int32).

    Raises:
      ValueError: a time is negative, or ``least`` exceeds ``most``.

    Examples:
      >>> from artix.envs import actuators
      >>> 1 <= int(actuators.random_lag(jax.random.key(0), 0.004, 0.012, 0.004)) <= 3
      True
    """
    if not 0 <= least <= most:
        raise ValueError(f"a lag needs times with 0 <= least <= most [s]; found {least} and {most}")
    low, high = round(least / dt), round(most / dt)
    uniform = random_numbers.uniform(key, 1, jnp.float32)[0]
    return low + jnp.minimum(jnp.floor((high - low + 1) * uniform).astype(jnp.int32), high - low)


def actuator_network(params: Sequence[tuple[Array, Array]], history: Array) -> Array:
    """Joint forces by a network fitted to a motor (Hwangbo et al., *Learning agile and dynamic
    motor skills*, 2019).

    Args:
      params: weights [inputs, outputs] and biases [outputs] of each layer, with ``x / (1 + |x|)``
        between layers. One network serves all joints.
      history: the inputs for each joint, [n, inputs]: position errors [rad] and velocities [rad/s]
        of the last steps, in the order and scale for which the network was fitted.

    Returns:
      Forces [N m], [n].

    Raises:
      ValueError: the shapes of the layers do not match each other or the history.

    Examples:
      >>> from artix.envs import actuators
      >>> spring = [(jnp.array([[30.0], [-1.0]]), jnp.zeros(1))]
      >>> actuators.actuator_network(spring, jnp.array([[0.1, 0.0], [0.0, 2.0]])).tolist()
      [3.0, -2.0]
    """
    width = history.shape[-1]
    for number, (weight, bias) in enumerate(params):
        if weight.shape[0] != width or bias.shape != weight.shape[1:]:
            raise ValueError(
                f"actuator network: layer {number} gets {width} numbers, but has weights "
                f"{weight.shape} and biases {bias.shape}"
            )
        width = weight.shape[1]
    if width != 1:
        raise ValueError(
            f"actuator network: the last layer must have one output, the force; found {width}"
        )
    x = history
    for number, (weight, bias) in enumerate(params):
        x = jnp.matmul(x, weight, precision="highest") + bias
        x = x if number == len(params) - 1 else jax.nn.soft_sign(x)
    return x[:, 0]
