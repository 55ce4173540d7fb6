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
      last_air_time: how long each foot was last in the air [s], [K]; zero before its first landing.
      last_contact_time: how long each foot last stood [s], [K]; zero before it first leaves the
        ground.
    """

    air_time: Array
    swing_peak: Array
    contact: Array
    contact_time: Array
    last_air_time: Array
    last_contact_time: Array

    @classmethod
    def standing(cls, num_feet: int, dtype) -> Gait:
        """The gait before the first step."""
        zeros = jnp.zeros(num_feet, dtype)
        return cls(zeros, zeros, jnp.zeros(num_feet, bool), zeros, zeros, zeros)

    def moved(self, contact: Array, height: Array, dt: float) -> tuple[Gait, Array]:
        """The gait one control step later, and which feet have landed, counted as in Playground's
        Go1.

        A foot lands when it has been in the air and touches the ground now or did so at the last
        step.

        Args:
          contact: whether each foot touches the ground, [K] (bool).
          height: height of each foot above the ground [m], [K].
          dt: the control period [s].

        Returns:
          The gait, whose times and peaks still include the swing that just ended (see
          :meth:`landed`), and whether each foot landed, [K] (bool).
        """
        first_contact = (self.air_time > 0) & (contact | self.contact)
        leaves = (self.contact_time > 0) & ~contact
        moved = self.replace(
            air_time=self.air_time + dt,
            swing_peak=jnp.maximum(self.swing_peak, height),
            contact=contact,
            contact_time=self.contact_time + dt,
            last_air_time=jnp.where(first_contact, self.air_time + dt, self.last_air_time),
            last_contact_time=jnp.where(leaves, self.contact_time, self.last_contact_time),
        )
        return moved, first_contact

    def landed(self) -> Gait:
        """Resets the air time and peak of feet on the ground, and the contact time of feet in the
        air.
        """
        return self.replace(
            air_time=jnp.where(self.contact, 0, self.air_time),
            swing_peak=jnp.where(self.contact, 0, self.swing_peak),
            contact_time=jnp.where(self.contact, self.contact_time, 0),
        )
