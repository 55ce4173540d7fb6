"""The coordinates of adam and jaxsim: linear velocity of the base frame's origin, then angular, in
world axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.libraries.base import (
    JaxLibrary,
    derivatives_by_joints,
    matrices,
    permuted,
    sum_gradient,
)
from benchmarks.reference import States


class MixedCoordinates(JaxLibrary):
    """A library whose functions take base and joint coordinates separately.

    Its inputs are the base's position [3], quaternion wxyz [4] and velocity [6], joint positions
    and velocities [n], and an acceleration [nv].
    """

    forward: Callable[..., jax.Array]

    def forward_dynamics(self) -> dict[str, Callable[..., Any]]:
        """Forward dynamics and its derivatives by the joints; ``forward`` takes the inputs, with a
        force last."""

        def joints(position, quaternion, twist, q, v, a):
            return self.forward(position, quaternion, twist, q, v, self.joint_forces(a))[
                self.base :
            ]

        return {
            "forward dynamics": lambda p, h, t, q, v, a: self.forward(
                p, h, t, q, v, self.joint_forces(a)
            ),
            "forward dynamics derivatives": lambda p, h, t, q, v, a: derivatives_by_joints(
                lambda moved, rates: joints(p, h, t, moved, rates, a), q, v
            ),
            "gradient of forward dynamics": lambda p, h, t, q, v, a: sum_gradient(
                lambda moved: joints(p, h, t, moved, v, a), q
            ),
            "Jacobian of forward dynamics": lambda p, h, t, q, v, a: jax.jacfwd(
                lambda moved: joints(p, h, t, moved, v, a)
            )(q),
        }

    def inputs(self, states: States) -> tuple[Any, ...]:
        twist, a = np.zeros((len(states.q), 6)), states.acceleration
        a = permuted(a, (1,), self.base, self.from_reference)
        if self.base:
            rotations, a = matrices(states.root_quaternion), a.copy()
            for k, (rotation, local) in enumerate(
                zip(rotations, states.root_velocity, strict=True)
            ):
                transform, drift = self.coordinates(rotation, local, np.zeros(3))
                twist[k] = transform.T @ local  # the transform is orthogonal
                a[k, :6] = transform.T @ (a[k, :6] - drift)
        quaternion = states.root_quaternion[:, [3, 0, 1, 2]]
        joints = (states.q[:, self.from_reference], states.v[:, self.from_reference])
        return tuple(
            jnp.asarray(x, jnp.float32)
            for x in (states.root_position, quaternion, twist, *joints, a)
        )

    def coordinates(
        self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        transform = np.zeros((6, 6))
        transform[:3, :3] = transform[3:, 3:] = rotation.T
        return transform, np.concatenate([-np.cross(twist[3:], twist[:3]), np.zeros(3)])
