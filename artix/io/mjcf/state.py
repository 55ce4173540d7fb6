"""Converts between MuJoCo's coordinates ``qpos`` and ``qvel`` and the state of an articulation, and
its ``ctrl`` to a control.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.io.common.diagnostics import listed
from artix.io.mjcf.controls import Commands, control_of, read_commands
from artix.io.mjcf.source import BALL, FREE, MjcfNames, joints_of
from artix.math import spatial
from artix.math.arrays import check_finite, device_array
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector
from artix.model.coordinates import check_configurations, root_from
from artix.model.topology import Topology
from artix.simulation.common.control import Control

if TYPE_CHECKING:
    import mujoco

Array = jax.Array


class MujocoCoordinates:
    """Converts between the state of an articulation and the coordinates of the MuJoCo model that it
    was read from.

    Create it once; it matches joints by name. Its methods are pure functions of arrays and work
    under ``jax.jit`` and ``jax.vmap``. Hinge and slide positions are the same in both. A ball joint
    has a quaternion wxyz in MuJoCo and a rotation vector in artix; its velocity is the same. For a
    free joint, MuJoCo uses the velocity of the body's origin in world axes and the angular velocity
    in body axes; artix uses the velocity of the centre of mass and the angular velocity, both in
    world axes.

    Args:
      articulation: an articulation from :func:`~artix.load_mjcf` or :func:`~artix.load_world`.
      model: the compiled ``mujoco.MjModel`` of the same file.

    Raises:
      ValueError: the model has no joint with the name of one of the articulation's joints, or one
        of another kind.
      TypeError: ``model`` is not a compiled model, or the articulation belongs to a mixed fleet.

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
        topology = articulation.topology
        if not hasattr(model, "jnt_type"):
            raise TypeError(
                f"model: expected a mujoco.MjModel, found {type(model).__name__}; "
                "compile a file by mujoco.MjModel.from_xml_path(...)"
            )
        names = MjcfNames.of(model)
        self.articulation = articulation
        known = {name: joint for joint, name in enumerate(names.joints)}
        self._num_positions, self._num_velocities = int(model.nq), int(model.nv)
        scalars: list[tuple[int, int, int]] = []
        balls: list[tuple[int, int, int]] = []
        for link, name in enumerate(topology.joint_names, start=1):
            if not topology.joint_axes[link]:
                continue
            if name not in known:
                raise ValueError(
                    f"the model has no joint called {name!r}; pass the model that the "
                    "articulation is from"
                )
            joint = known[name]
            is_ball = bool(model.jnt_type[joint] == BALL)
            if is_ball != (len(topology.joint_axes[link]) == 3):
                raise ValueError(
                    f"the model's joint {name!r} is of another kind; pass the articulation's own "
                    "model"
                )
            of_kind = balls if is_ball else scalars
            of_kind.append(
                (
                    topology.dofs(name).start,
                    int(model.jnt_qposadr[joint]),
                    int(model.jnt_dofadr[joint]),
                )
            )
        root = self._free_joint(topology, names, model)
        self._places = _Places(topology.num_dofs, tuple(scalars), tuple(balls), root)
        self._model = model

    @staticmethod
    def _free_joint(
        topology: Topology, names: MjcfNames, model: mujoco.MjModel
    ) -> tuple[int, int] | None:
        """Addresses in qpos and qvel of the root's free joint, if it has one."""
        root = topology.link_names[0]
        if topology.fixed_base:
            return None
        if root not in names.bodies:
            raise ValueError(
                f"the model has no body called {root!r}, the root of the articulation; pass the "
                "model that the articulation is from"
            )
        for joint in joints_of(model, names.bodies.index(root)):
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

        Raises:
          ValueError: an array has another shape, or a known number is not finite or a quaternion
            zero.
        """
        qpos, qvel = self._arrays(qpos, qvel)
        check_configurations("qpos", qpos, self._places.quaternions())
        check_finite("qvel", qvel)
        return _state(self._places, self.articulation.link_com_pose, qpos, qvel)

    def qpos_qvel(
        self, state: State, qpos: Array, qvel: Array | None = None
    ) -> tuple[Array, Array]:
        """MuJoCo's coordinates of a state.

        Args:
          state: a state of the articulation.
          qpos: positions of the rest of the model, shape [nq], such as ``model.qpos0``.
          qvel: velocities of the rest of the model, shape [nv of the model]; ``None`` for zero.

        Returns:
          ``qpos`` and ``qvel`` with this articulation's entries replaced.

        Raises:
          ValueError: an array, or one of the state, has another shape.
          TypeError: an array of the state has another dtype than the articulation.
        """
        check_state(self.articulation, state)
        qpos, qvel = self._arrays(qpos, np.zeros(self._num_velocities) if qvel is None else qvel)
        return _qpos_qvel(self._places, self.articulation.link_com_pose, state, qpos, qvel)

    @functools.cached_property
    def _commands(self) -> Commands:
        return read_commands(self._model, self.articulation.topology)

    @functools.cached_property
    def _control(self) -> Callable[[Articulation, Array, State | None], Control]:
        return jax.jit(functools.partial(control_of, self._commands), inline=True)

    def control(self, ctrl: Array, state: State | None = None) -> Control:
        """The control that exerts what MuJoCo's actuators exert.

        With gear g, gain k and bias (b0, b1, b2), the force of an actuator at its joint is
        ``g (k u + b0 + g b1 q + g b2 qd)``. Servos, with b1 or b2, are drives of artix, which are
        implicit: their targets are ``(k u + b0) / (-b1 g)``, or velocities ``(k u + b0) / (-b2 g)``
        where b1 is zero. A drive that holds the joint's spring as well, of stiffness K and
        reference r, has the target ``(g k u + g b0 + K r) / (-b1 g^2 + K)``. Motors, without b1 and
        b2, are joint forces ``g (k u + b0)``, those on fixed tendons at each joint of the tendon;
        motors on sites, such as propellers, are wrenches on links. Controls are clipped to
        ``ctrlrange`` and forces of motors to ``forcerange``, as in MuJoCo.

        Args:
          ctrl: MuJoCo's controls [rad, m, N m, ... as their actuators have them], shape [nu].
          state: the state of the articulation. Needed for motors on sites alone, whose forces turn
            with their links.

        Returns:
          The control; what no actuator commands is ``None``, or the articulation's own target.

        Raises:
          ValueError: ``ctrl`` has another shape, a known number is not finite, or ``state`` is
            missing.

        Warns:
          UserWarning: actuators of the articulation have no counterpart, such as muscles, and their
            controls are left out.

        Examples:
          >>> import mujoco
          >>> xml = '''
          ... <mujoco>
          ...   <worldbody>
          ...     <body><joint name="hinge"/><geom size="0.1" mass="1"/></body>
          ...   </worldbody>
          ...   <actuator><position joint="hinge" kp="20" kv="2" ctrlrange="-1 1"/></actuator>
          ... </mujoco>'''
          >>> robot = artix.load_mjcf(xml)
          >>> coordinates = artix.MujocoCoordinates(robot, mujoco.MjModel.from_xml_string(xml))
          >>> control = coordinates.control(jnp.array([3.0]))
          >>> state = artix.step(robot, artix.neutral_state(robot), control, 0.002)
          >>> print(control.drive_target)  # within ctrlrange
          [1.]
        """
        ctrl = device_array(ctrl, self.articulation.dtype)
        shape = (int(self._model.nu),)
        check_vector("ctrl", ctrl, shape, self.articulation.dtype, "nu of the model")
        check_finite("ctrl", ctrl)
        commands = self._commands
        if state is not None:
            check_state(self.articulation, state)
        elif len(commands.motors.site_link):
            raise ValueError(
                "state: needed, as motors on sites turn with their links; pass the state of the "
                "articulation"
            )
        if commands.unread:
            warnings.warn(
                f"the controls of {listed(commands.unread)} are left out: these actuators have no "
                "counterpart in artix",
                stacklevel=2,
            )
        return self._control(self.articulation, ctrl, state)

    def _arrays(self, qpos: Any, qvel: Any) -> tuple[Array, Array]:
        """Both in the articulation's dtype."""
        dtype = self.articulation.dtype
        qpos, qvel = (device_array(x, dtype) for x in (qpos, qvel))
        check_vector("qpos", qpos, (self._num_positions,), dtype, "nq of the model")
        check_vector("qvel", qvel, (self._num_velocities,), dtype, "nv of the model")
        return qpos, qvel


class _Places(NamedTuple):
    """Where an articulation's coordinates are in ``qpos`` and ``qvel``; static."""

    num_dofs: int
    scalars: tuple[tuple[int, int, int], ...]
    """Of each hinge and slide: its DOF, and its addresses in qpos and qvel."""
    balls: tuple[tuple[int, int, int], ...]
    """The same of each ball joint, with the first of its three DOFs."""
    root: tuple[int, int] | None
    """The addresses of the root's free joint, if it has one."""

    def quaternions(self) -> list[int]:
        """Where quaternions begin in ``qpos``."""
        root = [] if self.root is None else [self.root[0] + 3]
        return [at for _, at, _ in self.balls] + root

    def scalar_indices(self) -> np.ndarray:
        """Those of all hinges and slides: rows of DOFs, addresses in qpos and addresses in qvel."""
        return np.array(self.scalars, int).reshape(-1, 3).T


# Outside jit, 40 small programs would take seconds.
@functools.partial(jax.jit, static_argnums=0, inline=True)
def _state(places: _Places, com_pose: Array, qpos: Array, qvel: Array) -> State:
    dofs, in_qpos, in_qvel = places.scalar_indices()
    zero = jnp.zeros(places.num_dofs, qpos.dtype)
    position, velocity = zero.at[dofs].set(qpos[in_qpos]), zero.at[dofs].set(qvel[in_qvel])
    for first, at, speed in places.balls:
        quaternion = _xyzw(qpos[at : at + 4])
        ball = slice(first, first + 3)
        position = position.at[ball].set(spatial.quaternion_log(quaternion[:, None])[:, 0])
        velocity = velocity.at[ball].set(qvel[speed : speed + 3])
    pose = jnp.zeros(7, qpos.dtype).at[6].set(1)
    root_velocity = jnp.zeros(6, qpos.dtype)
    if places.root is not None:
        at, speed = places.root
        motion = qvel[speed : speed + 6]
        pose, root_velocity = root_from("mujoco", qpos[at : at + 7], motion, com_pose[0, :3])
    return State(pose, root_velocity, position, velocity)


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _qpos_qvel(
    places: _Places, com_pose: Array, state: State, qpos: Array, qvel: Array
) -> tuple[Array, Array]:
    dofs, in_qpos, in_qvel = places.scalar_indices()
    qpos = qpos.at[in_qpos].set(state.joint_position[dofs])
    qvel = qvel.at[in_qvel].set(state.joint_velocity[dofs])
    for first, at, speed in places.balls:
        ball = slice(first, first + 3)
        quaternion = spatial.quaternion_exp(state.joint_position[ball][:, None])[:, 0]
        qpos = qpos.at[at : at + 4].set(jnp.roll(quaternion, 1))
        qvel = qvel.at[speed : speed + 3].set(state.joint_velocity[ball])
    if places.root is not None:
        at, speed = places.root
        qpos = qpos.at[at : at + 7].set(
            jnp.concatenate([state.root_pose[:3], jnp.roll(state.root_pose[3:], 1)])
        )
        angular = state.root_velocity[3:]
        linear = state.root_velocity[:3] - jnp.cross(angular, _arm(state.root_pose, com_pose))
        local = spatial.rotate_inverse(state.root_pose[3:, None], angular[:, None])[:, 0]
        qvel = qvel.at[speed : speed + 6].set(jnp.concatenate([linear, local]))
    return qpos, qvel


def _arm(root_pose: Array, com_pose: Array) -> Array:
    """Vector from the root's origin to its centre of mass in world axes, shape [3]."""
    return spatial.rotate(root_pose[3:, None], com_pose[0, :3, None])[:, 0]


def _xyzw(wxyz: Array) -> Array:
    """A unit quaternion xyzw from MuJoCo's wxyz, which need not have length 1."""
    return spatial.normalize(jnp.roll(wxyz, -1)[:, None])[:, 0]
