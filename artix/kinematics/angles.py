"""Where the angle of a joint is a circle, and where it is a count of turns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.articulation import Articulation
from artix.model.topology import Topology

Array = jax.Array

#: Angles this far apart are the same where they are a circle [rad], as in PhysX.
CIRCUMFERENCE = 4 * np.pi


def wrap_angles(articulation: Articulation, q: Array) -> Array:
    """Brings the positions [n] of wheels back into [-2 pi, 2 pi] by steps of 4 pi, as PhysX does.

    A wheel is a joint of type ``REVOLUTE`` whose turns nothing counts: it has no drive stiffness, no
    limit, no mimic joint and no fixed tendon. All other positions count turns and stay as they are.
    Without wrapping, the angle of a wheel would lose its digits in float32.
    """
    wraps = articulation.topology.dof_wraps
    if isinstance(articulation.topology, Topology) and not np.any(wraps):
        return q
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    is_read = (articulation.drive.stiffness != 0) | jnp.isfinite(lower) | jnp.isfinite(upper)
    wrapped = q - CIRCUMFERENCE * jnp.round(q / CIRCUMFERENCE)
    return jnp.where(jnp.asarray(wraps) & ~is_read, wrapped, q)
