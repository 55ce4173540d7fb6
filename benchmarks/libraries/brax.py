"""Brax's generalised pipeline: its kinematics, inertias and inverse dynamics without contacts and
constraints."""

from __future__ import annotations

import warnings
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.libraries.base import matrices, moved_to_centers
from benchmarks.libraries.mujoco_coordinates import MujocoCoordinates, mujoco_joints, mujoco_model
from benchmarks.reference import Reference
from benchmarks.robots import Robot


class Brax(MujocoCoordinates):
    """One system of Brax, made from MuJoCo's model, as in Brax itself."""

    def __init__(self, robot: Robot, reference: Reference) -> None:
        from brax import kinematics
        from brax.generalized import constraint, dynamics, mass
        from brax.generalized.base import State
        from brax.io import mjcf

        self.version = metadata.version("brax")
        model = mujoco_model(robot)
        super().__init__(reference, mujoco_joints(robot, model))
        self.links = [int(model.joint(name).bodyid[0]) - 1 for name in reference.joint_names]
        self.levers = reference.levers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that Brax is no longer maintained
            self.system = mjcf.load_model(model)
        self._modules, self._state = (kinematics, dynamics, mass, constraint), State
        self.functions = {
            "link poses": lambda q, v, a: kinematics.forward(self.system, q, v)[0],
            "poses and velocities": lambda q, v, a: kinematics.forward(self.system, q, v),
            "dense Jacobian": lambda q, v, a: self._jacobians(q, v),
            "mass matrix": lambda q, v, a: mass.matrix(self.system, self._placed(q, v)),
            "bias force": lambda q, v, a: dynamics.inverse(self.system, self._placed(q, v)),
            **self.dynamics(),
        }

    def _placed(self, q: jax.Array, v: jax.Array) -> Any:
        kinematics, dynamics, _, _ = self._modules
        return dynamics.transform_com(
            self.system, self._state.init(q, v, *kinematics.forward(self.system, q, v))
        )

    def forward(self, q: jax.Array, v: jax.Array, force: jax.Array) -> jax.Array:
        _, dynamics, mass, _ = self._modules
        # No iterations: the exact inverse
        state = mass.matrix_inv(self.system, self._placed(q, v), 0)
        return state.mass_mx_inv @ dynamics.forward(self.system, state, force)

    def _jacobians(self, q: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = self._placed(q, v)
        centers = state.x.vmap().do(self.system.link.inertia.transform).pos

        def jacobian(position, link):
            return self._modules[3].point_jacobian(
                self.system, state.root_com, state.cdof, position, link
            )

        motion = jax.vmap(jacobian)(centers, jnp.arange(self.system.num_links()))
        return motion.vel, motion.ang

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        if quantity == "link poses":
            return np.concatenate(
                [np.asarray(value.pos, float)[..., None], self._rotations(value)], axis=-1
            )[:, self.links]
        if quantity == "poses and velocities":
            pose, motion = value
            twist = np.concatenate(
                [np.asarray(motion.vel, float), np.asarray(motion.ang, float)], axis=-1
            )
            rotations = self._rotations(pose)[:, self.links]
            return moved_to_centers(twist[:, self.links, :, None], rotations, self.levers)[..., 0]
        if quantity == "dense Jacobian":
            value = np.concatenate(
                [np.asarray(part, float).swapaxes(2, 3) for part in value], axis=2
            )[:, self.links]
        return self.ordered(quantity, value)

    def _rotations(self, pose: Any) -> np.ndarray:
        return matrices(np.asarray(pose.rot)[..., [1, 2, 3, 0]])
