"""The gait: contacts, times in the air and on the ground, and swing heights of the feet."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.math import struct

Array = jax.Array


class Gait(struct.PyTreeNode):
    """Memory of K feet from one control step to the next.

    Attributes:
      air_time: time since each foot last touched the ground [s], [K].
      swing_peak: peak height of each foot since then [m], [K].
      contact: whether each foot touched the ground at the last step, [K] (bool).
      contact_time: time since each foot was last in the air [s], [K].
    """

    air_time: Array
    swing_peak: Array
    contact: Array
    contact_time: Array

    @classmethod
    def standing(cls, num_feet: int, dtype) -> Gait:
        """The gait before the first step."""
        zeros = jnp.zeros(num_feet, dtype)
        return cls(zeros, zeros, jnp.zeros(num_feet, bool), zeros)

    def moved(self, contact: Array, height: Array, dt: float) -> tuple[Gait, Array]:
        """The gait one control step later, and which feet have landed, counted as in Playground's Go1.

        A foot lands when it has been in the air and touches the ground now or did so at the last step.

        Args:
          contact: whether each foot touches the ground, [K] (bool).
          height: height of each foot above the ground [m], [K].
          dt: the control period [s].

        Returns:
          The gait, whose times and peaks still include the swing that just ended (see :meth:`landed`), and whether each
          foot landed, [K] (bool).
        """
        first_contact = (self.air_time > 0) & (contact | self.contact)
        moved = Gait(self.air_time + dt, jnp.maximum(self.swing_peak, height), contact, self.contact_time + dt)
        return moved, first_contact

    def landed(self) -> Gait:
        """Resets the air time and peak of feet on the ground, and the contact time of feet in the air."""
        return self.replace(
            air_time=jnp.where(self.contact, 0, self.air_time),
            swing_peak=jnp.where(self.contact, 0, self.swing_peak),
            contact_time=jnp.where(self.contact, self.contact_time, 0),
        )
