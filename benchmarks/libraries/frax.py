"""frax. The Jacobians of all links are one level below its public functions."""

from __future__ import annotations

import tempfile
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.libraries.mujoco_coordinates import MujocoCoordinates
from benchmarks.reference import Reference
from benchmarks.robots import Robot


class Frax(MujocoCoordinates):
    """One robot of frax; its quaternion base follows MuJoCo's coordinates."""

    def __init__(self, robot: Robot, reference: Reference) -> None:
        with warnings.catch_warnings():
            # It recommends another JAX and other XLA flags; all here run with the same
            warnings.simplefilter("ignore")
            from frax.core.robot import Robot as FraxRobot

        self.version = metadata.version("frax")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            path.write_text(robot.urdf, encoding="utf-8")
            frax = FraxRobot(str(path), floating_base=None if robot.fixed_base else "quaternion")
        super().__init__(reference, tuple(frax.joint_names[reference.base :]))
        gravity = np.array([0, 0, 9.81, 0, 0, 0], np.float32)
        self.forward = lambda q, v, force: frax.forward_dynamics(q, v, force, None)
        self.inverse = lambda q, v, a: frax.rnea(q, v, a, jnp.asarray(gravity), None)
        self.functions = {
            "link poses": lambda q, v, a: frax.joint_to_world_transforms(q),
            "dense Jacobian": lambda q, v, a: _jacobians(frax, q),
            "mass matrix": lambda q, v, a: frax.mass_matrix(q),
            "bias force": lambda q, v, a: frax.nonlinear_bias(q, v),
            **self.dynamics(),
        }

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        links = [self.base + k for k in self.to_reference]
        if quantity == "link poses":
            transforms = np.asarray(value, float)[:, links]
            return np.concatenate([transforms[..., :3, 3:], transforms[..., :3, :3]], axis=-1)
        if quantity == "dense Jacobian":
            value = np.concatenate([np.asarray(part, float) for part in value], axis=2)[:, links]
        return self.ordered(quantity, value)


def _jacobians(frax: Any, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    transforms = frax.joint_to_world_transforms(q)
    return frax._link_linear_jacobians(transforms), frax._link_angular_jacobians(transforms)
