"""Converts between MuJoCo's coordinates ``qpos`` and ``qvel`` and the state of an articulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from artix.io.mjcf.bodies import BALL, FREE, MjcfNames, joints_of
from artix.math import spatial
from artix.model.articulation import Articulation, State
from artix.model.checks import static_topology
from artix.model.topology import Topology

if TYPE_CHECKING:
    import mujoco

Array = jax.Array


class MujocoCoordinates:
    """Converts between the state of an articulation and the coordinates of the MuJoCo model that it was read from.

    Create it once; it matches joints by name. Its methods are pure functions of arrays and work under ``jax.jit`` and
    ``jax.vmap``. Hinge and slide positions are the same in both. A ball joint has a quaternion wxyz in MuJoCo and a
    rotation vector in artix; its velocity is the same. For a free joint, MuJoCo uses the velocity of the body's origin
    in world axes and the angular velocity in body axes; artix uses the velocity of the centre of mass and the angular
    velocity, both in world axes.

    Args:
      articulation: an articulation from :func:`~artix.load_mjcf` or :func:`~artix.load_mjcf_all`.
      model: the compiled ``mujoco.MjModel`` of the same file.

    Raises:
      ValueError: the model has no joint with the name of one of the articulation's joints.

    Examples:
      >>> import mujoco
      >>> xml = '''
      ... <mujoco>
      ...   <worldbody>
      ...     <body name="ball" pos="0 0 1"><freejoint/><geom size="0.1" mass="1"/></body>
      ...   </worldbody>
      ... </mujoco>'''
      >>> model, ball = mujoco.MjModel.from_xml_string(xml), artix.load_mjcf(xml)
      >>> coordinates = artix.MujocoCoordinates(ball, model)
      >>> state = coordinates.state(jnp.asarray(model.qpos0, ball.dtype), jnp.zeros(6))
      >>> print(state.root_pose)  # xyzw, where qpos has wxyz
      [0. 0. 1. 0. 0. 0. 1.]
    """

    def __init__(self, articulation: Articulation, model: mujoco.MjModel) -> None:
        topology = static_topology(
            articulation, "MujocoCoordinates needs an articulation with a static topology, not one of a fleet"
        )
        names = MjcfNames.of(model)
        self.articulation = articulation
        known = {name: joint for joint, name in enumerate(names.joints)}
        self._num_velocities = int(model.nv)
        scalars: list[tuple[int, int, int]] = []
        self._balls: list[tuple[slice, int, int]] = []
        for link, name in enumerate(topology.joint_names, start=1):
            if not topology.joint_axes[link]:
                continue
            if name not in known:
                raise ValueError(
                    f"the model has no joint called {name!r}; pass the model that the articulation is from"
                )
            dofs, joint = topology.dofs(name), known[name]
            addresses = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
            if model.jnt_type[joint] == BALL:
                self._balls.append((dofs, *addresses))
            else:
                scalars.append((dofs.start, *addresses))
        #: Indices of hinges and slides among the articulation's DOFs, in qpos and in qvel.
        self._scalar_indices = np.array(scalars, int).reshape(-1, 3).T
        self._root = self._free_joint(topology, names, model)

    @staticmethod
    def _free_joint(topology: Topology, names: MjcfNames, model: mujoco.MjModel) -> tuple[int, int] | None:
        """Addresses in qpos and qvel of the root's free joint, if it has one."""
        if topology.fixed_base or topology.link_names[0] not in names.bodies:
            return None
        for joint in joints_of(model, names.bodies.index(topology.link_names[0])):
            if model.jnt_type[joint] == FREE:
                return int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        return None

    def state(self, qpos: Array, qvel: Array) -> State:
        """The state of the articulation.

        Args:
          qpos: MuJoCo's positions, shape [nq].
          qvel: MuJoCo's velocities, shape [nv of the model].

        Returns:
          The state in the articulation's dtype, with the root of a fixed base at the origin.
        """
        dtype, topology = self.articulation.dtype, self.articulation.topology
        qpos, qvel = jnp.asarray(qpos, dtype), jnp.asarray(qvel, dtype)
        position, velocity = jnp.zeros(topology.num_dofs, dtype), jnp.zeros(topology.num_dofs, dtype)
        dofs, in_qpos, in_qvel = self._scalar_indices
        position, velocity = position.at[dofs].set(qpos[in_qpos]), velocity.at[dofs].set(qvel[in_qvel])
        for ball, at, speed in self._balls:
            quaternion = _xyzw(qpos[at : at + 4])
            position = position.at[ball].set(spatial.quaternion_log(quaternion[:, None])[:, 0])
            velocity = velocity.at[ball].set(qvel[speed : speed + 3])
        pose, root_velocity = jnp.zeros(7, dtype).at[6].set(1), jnp.zeros(6, dtype)
        if self._root is not None:
            at, speed = self._root
            pose = jnp.concatenate([qpos[at : at + 3], _xyzw(qpos[at + 3 : at + 7])])
            angular = spatial.rotate(pose[3:, None], qvel[speed + 3 : speed + 6, None])[:, 0]
            linear = qvel[speed : speed + 3] + jnp.cross(angular, self._arm(pose))
            root_velocity = jnp.concatenate([linear, angular])
        return State(pose, root_velocity, position, velocity)

    def qpos_qvel(self, state: State, qpos: Array, qvel: Array | None = None) -> tuple[Array, Array]:
        """MuJoCo's coordinates of a state.

        Args:
          state: a state of the articulation.
          qpos: positions of the rest of the model, shape [nq], such as ``model.qpos0``.
          qvel: velocities of the rest of the model, shape [nv of the model]; ``None`` for zero.

        Returns:
          ``qpos`` and ``qvel`` with this articulation's entries replaced.
        """
        dtype = self.articulation.dtype
        qpos = jnp.asarray(qpos, dtype)
        qvel = jnp.zeros(self._num_velocities, dtype) if qvel is None else jnp.asarray(qvel, dtype)
        dofs, in_qpos, in_qvel = self._scalar_indices
        qpos = qpos.at[in_qpos].set(state.joint_position[dofs])
        qvel = qvel.at[in_qvel].set(state.joint_velocity[dofs])
        for ball, at, speed in self._balls:
            quaternion = spatial.quaternion_exp(state.joint_position[ball][:, None])[:, 0]
            qpos = qpos.at[at : at + 4].set(jnp.roll(quaternion, 1))
            qvel = qvel.at[speed : speed + 3].set(state.joint_velocity[ball])
        if self._root is not None:
            at, speed = self._root
            qpos = qpos.at[at : at + 7].set(jnp.concatenate([state.root_pose[:3], jnp.roll(state.root_pose[3:], 1)]))
            angular = state.root_velocity[3:]
            linear = state.root_velocity[:3] - jnp.cross(angular, self._arm(state.root_pose))
            local = spatial.rotate_inverse(state.root_pose[3:, None], angular[:, None])[:, 0]
            qvel = qvel.at[speed : speed + 6].set(jnp.concatenate([linear, local]))
        return qpos, qvel

    def _arm(self, root_pose: Array) -> Array:
        """Vector from the root's origin to its centre of mass in world axes, shape [3]."""
        return spatial.rotate(root_pose[3:, None], self.articulation.link_com_pose[0, :3, None])[:, 0]


def _xyzw(wxyz: Array) -> Array:
    """A unit quaternion xyzw from MuJoCo's wxyz, which need not have length 1."""
    return spatial.normalize(jnp.roll(wxyz, -1)[:, None])[:, 0]
