"""Motors with states of their own, between controls and joint forces.

Spong, *Modeling and control of elastic joint robots*, ASME Journal of Dynamic Systems, Measurement,
and Control 1987, for series elasticity.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from artix.math import struct
from artix.model.checks import check_positive

Array = jax.Array


class Actuator(struct.PyTreeNode):
    """What turns controls into joint forces, one motor for each actuated DOF.

    Subclass it for motors of your own: a frozen dataclass of arrays with a method ``step`` and, if
    a motor has more or fewer states than one, ``states_per_motor``. The states are appended to
    those of the robot, so that costs and constraints see them as ``knot.actuator_state``, and
    solvers differentiate through them.

    Examples:
      >>> class Saturation(optimal_control.Actuator):  # a smooth limit of 20 N m, without a state
      ...     states_per_motor = 0
      ...
      ...     def step(self, position, velocity, state, control, dt):
      ...         return 20 * jnp.tanh(control / 20), state
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> dynamics = optimal_control.discrete_dynamics(pendulum, 0.02, actuator=Saturation())
      >>> dynamics.num_states, dynamics(jnp.zeros(4), jnp.full(2, 100.0)).shape
      (4, (4,))
    """

    #: How many numbers the state of a motor has.
    states_per_motor = 1

    def step(
        self, position: Array, velocity: Array, state: Array, control: Array, dt: Array
    ) -> tuple[Array, Array]:
        """The forces of a step, and the motors' states after it.

        Args:
          position: positions of the actuated DOFs at the beginning of the step, [m] or [rad], [n].
          velocity: their velocities [m/s or rad/s], [n].
          state: the motors' states, [states_per_motor n].
          control: what is commanded, [n].
          dt: length of the step [s].

        Returns:
          Forces of the DOFs [N or N m], [n], and the states, [states_per_motor n].
        """
        raise NotImplementedError(
            f"{type(self).__name__} needs a method step(position, velocity, state, control, dt)"
        )

    def rest(self, position: Array, velocity: Array) -> Array:
        """The states of motors without force; zeros unless a subclass knows better.

        Args:
          position: positions of the actuated DOFs, [m] or [rad], [n].
          velocity: their velocities [m/s or rad/s], [n].
        """
        return jnp.zeros(self.states_per_motor * len(position), position.dtype)

    def _check(self) -> None:
        """Refuses numbers that no motor has, if they are known."""


class MotorLag(Actuator):
    """Forces that follow their commands with a time constant: ``T df/dt = u - f``, exactly over a
    step.

    The state of a motor is its force [N or N m]; a joint gets its mean over the step.

    Attributes:
      time_constant: T [s], one or [n].

    Examples:
      >>> lag = optimal_control.MotorLag(0.02)
      >>> force, state = lag.step(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1), jnp.ones(1), 0.02)
      >>> print(force, state)  # a command of 1 N m
      [0.368] [0.632]
    """

    time_constant: Any

    def step(
        self, position: Array, velocity: Array, state: Array, control: Array, dt: Array
    ) -> tuple[Array, Array]:
        """See :meth:`Actuator.step`."""
        share = -jnp.expm1(-dt / self.time_constant)
        missing = control - state
        return control - missing * share * self.time_constant / dt, state + share * missing

    def _check(self) -> None:
        check_positive("actuator.time_constant", self.time_constant, "s")


class SeriesElasticity(Actuator):
    """A motor that moves its joint through a spring: ``B d2m/dt2 = u - f`` with
    ``f = K (m - q) + D (dm/dt - dq/dt)``.

    The states are the motors' positions m, then their velocities, both behind the gear and in the
    units of the joints, as the inertia is. The step is that of the robot, semi-implicit Euler,
    which is stable for steps below ``2 / sqrt(K / B + K / M)``, M the inertia that the joint moves.

    Attributes:
      stiffness: K [N m/rad or N/m], one or [n].
      inertia: the motor's inertia B, reflected to the joint [kg m^2 or kg], one or [n].
      damping: D of the spring [N m s/rad or N s/m], one or [n].

    Examples:
      >>> spring = optimal_control.SeriesElasticity(stiffness=300.0, inertia=0.1)
      >>> wound = jnp.array([0.01, 0.0])
      >>> force, state = spring.step(jnp.zeros(1), jnp.zeros(1), wound, jnp.array([3.0]), 0.001)
      >>> print(force, state)  # in equilibrium
      [3.] [0.01 0.  ]
    """

    states_per_motor = 2
    stiffness: Any
    inertia: Any
    damping: Any = 0.0

    def step(
        self, position: Array, velocity: Array, state: Array, control: Array, dt: Array
    ) -> tuple[Array, Array]:
        """See :meth:`Actuator.step`."""
        motor, rate = jnp.split(state, 2)
        force = self.stiffness * (motor - position) + self.damping * (rate - velocity)
        rate = rate + dt * (control - force) / self.inertia
        return force, jnp.concatenate([motor + dt * rate, rate])

    def rest(self, position: Array, velocity: Array) -> Array:
        """See :meth:`Actuator.rest`: motors that move with their joints."""
        return jnp.concatenate([position, velocity])

    def _check(self) -> None:
        check_positive("actuator.stiffness", self.stiffness, "N m/rad")
        check_positive("actuator.inertia", self.inertia, "kg m^2")
