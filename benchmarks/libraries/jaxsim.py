"""jaxsim in its mixed representation. As in all libraries, every function starts from positions and
velocities."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.libraries.base import moved_to_centers
from benchmarks.libraries.mixed_coordinates import MixedCoordinates
from benchmarks.libraries.sdf import sdf
from benchmarks.reference import Reference
from benchmarks.robots import Robot


class Jaxsim(MixedCoordinates):
    """One model of jaxsim, read from SDF, its native format, because it needs Gazebo's converter
    for URDF."""

    def __init__(self, robot: Robot, reference: Reference) -> None:
        import jaxsim.api

        # Importing jaxsim turns it on; all here run in float32
        jax.config.update("jax_enable_x64", False)
        self.version = metadata.version("jaxsim")
        self.api = api = jaxsim.api
        self.model = api.model.JaxSimModel.build_from_model_description(
            sdf(robot), is_urdf=False, gravity=9.81
        )
        super().__init__(reference, tuple(self.model.joint_names()))
        children = _children(robot, reference)
        self.links = [self.model.link_names().index(name) for name in children]
        self.levers = reference.levers
        model = self.model
        self.functions = {
            "link poses": lambda *x: api.model.forward_kinematics(model, self._data(*x)),
            "poses and velocities": lambda *x: _kinematics(self._data(*x)),
            "dense Jacobian": lambda *x: self._jacobians(self._data(*x)),
            "mass matrix": lambda *x: api.model.free_floating_mass_matrix(model, self._data(*x))[
                self._joints, self._joints
            ],
            "bias force": lambda *x: api.model.free_floating_bias_forces(model, self._data(*x))[
                self._joints
            ],
            "inverse dynamics": self._inverse,
            **self.forward_dynamics(),
        }

    @property
    def _joints(self) -> slice:
        """jaxsim's generalised vectors always have the base's entries."""
        return slice(6 - self.base, None)

    def _data(
        self, position: Any, quaternion: Any, twist: Any, q: Any, v: Any, a: Any = None
    ) -> Any:
        return self.api.data.JaxSimModelData.build(
            model=self.model,
            base_position=position,
            base_quaternion=quaternion,
            joint_positions=q,
            base_linear_velocity=twist[:3],
            base_angular_velocity=twist[3:],
            joint_velocities=v,
        )

    def _inverse(
        self, position: Any, quaternion: Any, twist: Any, q: Any, v: Any, a: jax.Array
    ) -> jax.Array:
        data = self._data(position, quaternion, twist, q, v)
        base = {"base_acceleration": a[:6]} if self.base else {}
        found = self.api.model.inverse_dynamics(
            self.model, data, joint_accelerations=a[self.base :], **base
        )
        return jnp.concatenate(found)[self._joints]

    def forward(
        self, position: Any, quaternion: Any, twist: Any, q: Any, v: Any, force: jax.Array
    ) -> jax.Array:
        data = self._data(position, quaternion, twist, q, v)
        found = self.api.model.forward_dynamics(self.model, data, joint_forces=force[self.base :])
        return jnp.concatenate(found)[self._joints]

    def _jacobians(self, data: Any) -> tuple[jax.Array, jax.Array]:
        """Jacobians and poses; the poses are needed to convert to centres of mass."""
        jacobians = self.api.model.generalized_free_floating_jacobian(self.model, data)
        return jacobians[:, :, self._joints], data._link_transforms

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        if quantity == "link poses":
            poses = np.asarray(value, float)[:, self.links]
            return np.concatenate([poses[..., :3, 3:], poses[..., :3, :3]], axis=-1)
        if quantity == "poses and velocities":
            poses, twists = (np.asarray(part, float)[:, self.links] for part in value)
            # From the world's origin to the link's
            twists[..., :3] += np.cross(twists[..., 3:], poses[..., :3, 3])
            return moved_to_centers(twists[..., None], poses[..., :3, :3], self.levers)[..., 0]
        if quantity == "dense Jacobian":
            jacobians, poses = (np.asarray(part, float)[:, self.links] for part in value)
            value = moved_to_centers(jacobians, poses[..., :3, :3], self.levers)
        return self.ordered(quantity, value)


def _kinematics(data: Any) -> tuple[jax.Array, jax.Array]:
    return data._link_transforms, data._link_velocities


def _children(robot: Robot, reference: Reference) -> list[str]:
    """The link below each joint."""
    import xml.etree.ElementTree as ElementTree

    joints = ElementTree.fromstring(robot.urdf).findall("joint")
    child = {joint.get("name"): joint.find("child").get("link") for joint in joints}
    return [child[name] for name in reference.joint_names]
