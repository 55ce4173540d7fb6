"""MuJoCo XLA without contacts, constraints, actuators and passive forces."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.libraries.base import matrices, sum_gradient
from benchmarks.libraries.mujoco_coordinates import MujocoCoordinates, mujoco_joints, mujoco_model
from benchmarks.reference import DAMPING, STEP, STIFFNESS, Reference, within
from benchmarks.robots import Robot


class Mjx(MujocoCoordinates):
    """One model of MJX."""

    def __init__(self, robot: Robot, reference: Reference) -> None:
        import mujoco
        from mujoco import mjx

        self.version = metadata.version("mujoco-mjx")
        model = mujoco_model(robot)
        super().__init__(reference, mujoco_joints(robot, model))
        self.mjx, self.model, self.data = mjx, mjx.put_model(model), mjx.make_data(model)
        self.bodies = [int(model.joint(name).bodyid[0]) for name in reference.joint_names]
        self.moving = jnp.arange(1, model.nbody)
        m = self.model
        self.functions = {
            "link poses": lambda q, v, a: _poses(mjx.kinematics(m, self.data.replace(qpos=q))),
            "poses and velocities": lambda q, v, a: _velocities(
                m, mjx.com_vel(m, self._placed(q, qvel=v))
            ),
            "dense Jacobian": lambda q, v, a: self._jacobians(q),
            "mass matrix": lambda q, v, a: mjx.full_m(m, mjx.crb(m, self._placed(q))),
            "bias force": lambda q, v, a: (
                mjx.rne(m, mjx.com_vel(m, self._placed(q, qvel=v))).qfrc_bias
            ),
            **self.dynamics(),
            "step": self._step,
            "gradient of step": self._step_gradient,
        }
        model.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        model.dof_damping[self.base :] = DAMPING
        model.jnt_stiffness[0 if robot.fixed_base else 1 :] = STIFFNESS
        model.qpos_spring[self._first :] = self.limits[0]
        model.opt.timestep = STEP
        self.driven, self.start = mjx.put_model(model), mjx.make_data(model)

    def forward(self, q: jax.Array, v: jax.Array, force: jax.Array) -> jax.Array:
        return self.mjx.forward(
            self.model, self.data.replace(qpos=q, qvel=v, qfrc_applied=force)
        ).qacc

    def inverse(self, q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        placed = self.mjx.com_vel(self.model, self._placed(q, qvel=v, qacc=a))
        return self.mjx.rne(self.model, placed, flg_acc=True).qfrc_bias

    def _step(self, q: jax.Array, v: jax.Array, a: jax.Array) -> tuple[jax.Array, ...]:
        q = self._with_joints(q, within(q[self._first :], *self.limits))
        end = self.mjx.step(self.driven, self.start.replace(qpos=q, qvel=v))
        return (end.qvel - v)[self.base :] / STEP, end.qpos, end.qvel

    def _step_gradient(self, q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        def mean_accelerations(joints):
            start = self.start.replace(qpos=self._with_joints(q, joints), qvel=v)
            return (self.mjx.step(self.driven, start).qvel - v)[self.base :] / STEP

        return sum_gradient(mean_accelerations, within(q[self._first :], *self.limits))

    def _jacobians(self, q: jax.Array) -> tuple[jax.Array, ...]:
        data = self._placed(q)
        return jax.vmap(lambda body: self.mjx.jac(self.model, data, data.xipos[body], body))(
            self.moving
        )

    def _placed(self, q: jax.Array, **fields: jax.Array) -> Any:
        data = self.mjx.kinematics(self.model, self.data.replace(qpos=q, **fields))
        return self.mjx.com_pos(self.model, data)

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        if quantity == "step":
            return self.ordered(quantity, value[0])
        if quantity == "link poses":
            position, wxyz = (np.asarray(part, float)[:, self.bodies] for part in value)
            return np.concatenate([position[..., None], matrices(wxyz[..., [1, 2, 3, 0]])], axis=-1)
        if quantity == "poses and velocities":
            return np.asarray(value[2], float)[:, self.bodies]
        if quantity == "dense Jacobian":
            rows = [body - 1 for body in self.bodies]
            value = np.concatenate(
                [np.swapaxes(np.asarray(part, float), 2, 3)[:, rows] for part in value], axis=2
            )
        return self.ordered(quantity, value)


def _poses(data: Any) -> tuple[jax.Array, jax.Array]:
    return data.xpos, data.xquat


def _velocities(model: Any, data: Any) -> tuple[jax.Array, ...]:
    """Poses and the velocities of the centres of mass; MuJoCo's own are about the tree's centre of
    mass."""
    arm = data.xipos - data.subtree_com[np.asarray(model.body_rootid)]
    angular = data.cvel[:, :3]
    velocity = jnp.concatenate([data.cvel[:, 3:] + jnp.cross(angular, arm), angular], axis=1)
    return data.xpos, data.xquat, velocity
