"""MuJoCo's coordinates, which Brax and frax's quaternion base follow: wxyz, world linear, body
angular velocity."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
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
from benchmarks.robots import Robot


class MujocoCoordinates(JaxLibrary):
    """A library whose functions take ``q``, ``v`` and an acceleration in MuJoCo's coordinates."""

    forward: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    inverse: Callable[[jax.Array, jax.Array, jax.Array], jax.Array] | None = None

    def dynamics(self) -> dict[str, Callable[..., Any]]:
        """Forward and inverse dynamics and their derivatives by the joints, of ``forward`` and
        ``inverse``."""
        functions: dict[str, Callable[..., Any]] = {
            "forward dynamics": lambda q, v, a: self.forward(q, v, self.joint_forces(a)),
            "forward dynamics derivatives": lambda q, v, a: self._by_joints(
                self.forward, q, v, self.joint_forces(a)
            ),
            "gradient of forward dynamics": lambda q, v, a: sum_gradient(
                self._accelerations(q, v, a), q[self._first :]
            ),
            "Jacobian of forward dynamics": lambda q, v, a: jax.jacfwd(
                self._accelerations(q, v, a)
            )(q[self._first :]),
        }
        if self.inverse is not None:
            functions["inverse dynamics"] = self.inverse
            functions["inverse dynamics derivatives"] = lambda q, v, a: self._by_joints(
                self.inverse, q, v, a
            )
        return functions

    @property
    def _first(self) -> int:
        return 7 if self.base else 0

    def _with_joints(self, q: jax.Array, joints: jax.Array) -> jax.Array:
        return jnp.concatenate([q[: self._first], joints])

    def _accelerations(
        self, q: jax.Array, v: jax.Array, a: jax.Array
    ) -> Callable[[jax.Array], jax.Array]:
        """Joint accelerations as a function of joint positions."""
        return lambda joints: self.forward(self._with_joints(q, joints), v, self.joint_forces(a))[
            self.base :
        ]

    def _by_joints(self, function: Any, q: jax.Array, v: jax.Array, last: jax.Array) -> jax.Array:
        def of_joints(joints, rates):
            return function(
                self._with_joints(q, joints), jnp.concatenate([v[: self.base], rates]), last
            )[self.base :]

        return derivatives_by_joints(of_joints, q[self._first :], v[self.base :])

    def inputs(self, states: States) -> tuple[Any, ...]:
        q, v, a = (
            states.q[:, self.from_reference],
            states.v[:, self.from_reference],
            states.acceleration,
        )
        a = permuted(a, (1,), self.base, self.from_reference)
        if self.base:
            rotations, wxyz = (
                matrices(states.root_quaternion),
                states.root_quaternion[:, [3, 0, 1, 2]],
            )
            q = np.concatenate([states.root_position, wxyz, q], axis=1)
            root_velocity, a = states.root_velocity.copy(), a.copy()
            for k, (rotation, twist) in enumerate(
                zip(rotations, states.root_velocity, strict=True)
            ):
                transform, drift = self.coordinates(rotation, twist, np.zeros(3))
                root_velocity[k] = transform.T @ twist  # the transform is orthogonal
                a[k, :6] = transform.T @ (a[k, :6] - drift)
            v = np.concatenate([root_velocity, v], axis=1)
        return tuple(jnp.asarray(x, jnp.float32) for x in (q, v, a))

    def coordinates(
        self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        transform = np.eye(6)
        transform[:3, :3] = rotation.T
        return transform, np.concatenate([-np.cross(twist[3:], twist[:3]), np.zeros(3)])


def mujoco_model(robot: Robot) -> Any:
    """MuJoCo's model of the robot: no contacts, constraints and passive forces."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(_with_options(robot))
    model.opt.gravity = (0.0, 0.0, -9.81)
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
    )
    model.dof_damping[:] = 0.0
    return model


def mujoco_joints(robot: Robot, model: Any) -> tuple[str, ...]:
    """Joint names in MuJoCo's order, without the root's."""
    return tuple(model.joint(k).name for k in range(0 if robot.fixed_base else 1, model.njnt))


def _with_options(robot: Robot) -> str:
    """The URDF with MuJoCo's compiler options and, for a floating base, a free joint to the
    world."""
    root = ElementTree.fromstring(robot.urdf)
    options = ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler")
    options.attrib.update(
        inertiafromgeom="false", balanceinertia="true", boundmass="0", boundinertia="0"
    )
    if not robot.fixed_base:
        children = {joint.find("child").get("link") for joint in root.findall("joint")}
        base = next(
            link.get("name") for link in root.findall("link") if link.get("name") not in children
        )
        ElementTree.SubElement(root, "link", name="benchmark_world")
        joint = ElementTree.SubElement(root, "joint", name="benchmark_root", type="floating")
        ElementTree.SubElement(joint, "parent", link="benchmark_world")
        ElementTree.SubElement(joint, "child", link=base)
    return ElementTree.tostring(root, encoding="unicode")
