"""The gait of feet over time: contacts, times in the air, and heights of swings."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math import struct

Array = jax.Array


class Gait(struct.PyTreeNode):
    """What is remembered of K feet from one control step to the next.

    Attributes:
      air_time: time since each foot last touched the ground [s], [K].
      swing_peak: greatest height of each since then [m], [K].
      contact: whether each touched the ground at the last step, [K] (bool).
      contact_time: time since each was last in the air [s], [K].
    """

    air_time: Array
    swing_peak: Array
    contact: Array
    contact_time: Array

    @classmethod
    def standing(cls, num_feet: int, dtype) -> Gait:
        """Before the first step."""
        zeros = jnp.zeros(num_feet, dtype)
        return cls(zeros, zeros, jnp.zeros(num_feet, bool), zeros)

    def moved(self, contact: Array, height: Array, dt: float) -> tuple[Gait, Array]:
        """The gait a control step later, and which feet have landed, as Playground's Go1 counts them.

        A foot lands when it touches now or did at the last step, after a time in the air.

        Args:
          contact: whether each foot touches the ground, [K] (bool).
          height: of each foot above the ground [m], [K].
          dt: the control period [s].

        Returns:
          The gait, whose times and peaks still include this step (see :meth:`landed`), and whether each foot landed,
          [K] (bool).
        """
        first_contact = (self.air_time > 0) & (contact | self.contact)
        moved = Gait(self.air_time + dt, jnp.maximum(self.swing_peak, height), contact, self.contact_time + dt)
        return moved, first_contact

    def landed(self) -> Gait:
        """The gait in which feet on the ground have no time in the air and no peak, and feet in the air no contact."""
        return self.replace(
            air_time=jnp.where(self.contact, 0, self.air_time),
            swing_peak=jnp.where(self.contact, 0, self.swing_peak),
            contact_time=jnp.where(self.contact, self.contact_time, 0),
        )
