"""adam: algorithms unrolled over links; quantities of all links are computed frame by frame, as it
offers them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.libraries.base import moved_to_centers
from benchmarks.libraries.mixed_coordinates import MixedCoordinates
from benchmarks.reference import Reference
from benchmarks.robots import Robot


class Adam(MixedCoordinates):
    """One robot of adam. Its base always floats; for a fixed base, the part of the joints is taken
    and solved."""

    def __init__(self, robot: Robot, reference: Reference) -> None:
        from adam import Representations
        from adam.jax import KinDynComputations

        self.version = metadata.version("adam-robotics")
        super().__init__(reference, reference.joint_names)
        gravity = jnp.array([0, 0, -9.81, 0, 0, 0], jnp.float32)
        self.adam = KinDynComputations(
            robot.urdf, list(reference.joint_names), dtype=jnp.float32, gravity=gravity
        )
        self.adam.rbdalgos.math.factory._device = (
            None  # jnp.asarray(..., device=...) of a tracer fails in JAX 0.10
        )
        self.adam.set_frame_velocity_representation(Representations.MIXED_REPRESENTATION)
        child = {
            joint.get("name"): joint.find("child").get("link")
            for joint in ElementTree.fromstring(robot.urdf).findall("joint")
        }
        self.frames = [child[name] for name in reference.joint_names]
        self.levers = reference.levers
        self._skip = 6 - self.base
        self.functions = {
            "link poses": lambda p, h, t, q, v, a: self._poses(_homogeneous(p, h), q),
            "dense Jacobian": lambda p, h, t, q, v, a: self._jacobians(_homogeneous(p, h), q),
            "mass matrix": lambda p, h, t, q, v, a: self._mass_matrix(_homogeneous(p, h), q),
            "bias force": lambda p, h, t, q, v, a: self._bias(_homogeneous(p, h), t, q, v),
            **self.forward_dynamics(),
        }

    def _mass_matrix(self, base: jax.Array, q: jax.Array) -> jax.Array:
        return self.adam.mass_matrix(base, q)[self._skip :, self._skip :]

    def _bias(self, base: jax.Array, twist: jax.Array, q: jax.Array, v: jax.Array) -> jax.Array:
        return self.adam.bias_force(base, q, twist, v)[self._skip :]

    def forward(
        self, p: Any, h: Any, twist: Any, q: jax.Array, v: jax.Array, force: jax.Array
    ) -> jax.Array:
        base = _homogeneous(p, h)
        if self.base:
            return self.adam.aba(base, q, twist, v, force[6:])
        return jnp.linalg.solve(self._mass_matrix(base, q), force - self._bias(base, twist, q, v))

    def _poses(self, base: jax.Array, q: jax.Array) -> jax.Array:
        return jnp.stack([self.adam.forward_kinematics(frame, base, q) for frame in self.frames])

    def _jacobians(self, base: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Jacobians and poses; the poses are needed to convert to centres of mass."""
        jacobians = jnp.stack(
            [self.adam.jacobian(frame, base, q)[:, self._skip :] for frame in self.frames]
        )
        return jacobians, self._poses(base, q)

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        if quantity == "link poses":
            poses = np.asarray(value, float)
            return np.concatenate([poses[..., :3, 3:], poses[..., :3, :3]], axis=-1)
        if quantity == "dense Jacobian":
            jacobians, poses = (np.asarray(part, float) for part in value)
            value = moved_to_centers(jacobians, poses[..., :3, :3], self.levers)
        return self.ordered(quantity, value)


def _homogeneous(position: jax.Array, wxyz: jax.Array) -> jax.Array:
    """The homogeneous matrix [4, 4] that adam expects."""
    w, x, y, z = wxyz
    rotation = jnp.stack([
        jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
        jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
        jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
    ])  # fmt: skip
    top = jnp.concatenate([rotation, position[:, None]], axis=1)
    return jnp.concatenate([top, jnp.array([[0, 0, 0, 1]], top.dtype)])
