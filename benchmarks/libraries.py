"""artix, frax and MJX behind one face: the same states in, one function of one robot per quantity out.

A library's ``convert`` takes results to a common shape for the comparison with Pinocchio; it is not measured.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio

import artix
from artix import Constraint, Constraints
from benchmarks.reference import DAMPING, FOOT, STEP, STIFFNESS, Reference, States, within
from benchmarks.robots import Robot, articulation

QUANTITIES = (
    "mass matrix",
    "bias force",
    "inverse dynamics",
    "link poses",
    "poses and velocities",
    "dense Jacobian",
    "forward dynamics",
    "gradient of forward dynamics",
    "Jacobian of forward dynamics",
    "step",
    "constrained forward dynamics",
    "derivatives of constrained forward dynamics",
)


class Library(Protocol):
    """What the benchmark asks of a library."""

    name: str
    version: str
    functions: dict[str, Callable[..., Any]]

    def inputs(self, states: States) -> tuple[Any, ...]: ...

    def convert(self, quantity: str, value: Any) -> np.ndarray: ...

    def coordinates(
        self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]: ...


def matrices(quaternion_xyzw: np.ndarray) -> np.ndarray:
    """Rotation matrices [..., 3, 3] of quaternions [..., 4]."""
    x, y, z, w = np.moveaxis(np.asarray(quaternion_xyzw, float), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def permuted(value: np.ndarray, axes: tuple[int, ...], base: int, order: list[int]) -> np.ndarray:
    """Reorders the joints along ``axes``, the first ``base`` entries staying where they are."""
    full = [*range(base), *(base + k for k in order)]
    for axis in axes:
        value = np.take(value, full, axis=axis)
    return value


class _Ordered:
    """The order of a library's joints against the reference's."""

    def __init__(self, reference: Reference, joint_names: tuple[str, ...]) -> None:
        self.base = reference.base
        self.nv = reference.model.nv
        self.from_reference = [reference.joint_names.index(name) for name in joint_names]
        self.to_reference = [joint_names.index(name) for name in reference.joint_names]
        self.limits = [jnp.asarray(part[self.from_reference], jnp.float32) for part in reference.limits]

    def ordered(self, quantity: str, value: np.ndarray) -> np.ndarray:
        """Joint axes of generalised quantities in the reference's order."""
        axes = {
            "mass matrix": (-1, -2),
            "gradient of forward dynamics": (-1,),
            "step": (-1,),
            "Jacobian of forward dynamics": (-1, -2),
            "derivatives of constrained forward dynamics": (-1, -2),
            "constrained forward dynamics": (-1,),
            **dict.fromkeys(("bias force", "inverse dynamics", "dense Jacobian", "forward dynamics"), (-1,)),
        }
        base = 0 if " of " in quantity or quantity == "step" else self.base
        return permuted(np.asarray(value, float), axes.get(quantity, ()), base, self.to_reference)

    def joint_forces(self, acceleration: jax.Array) -> jax.Array:
        """Forces on the joints alone, which all libraries understand alike: the numbers of the random acceleration."""
        return acceleration.at[: self.base].set(0)


class Artix(_Ordered):
    """artix, with its default options."""

    name = "artix"
    version = "this tree"

    def __init__(self, robot: Robot, reference: Reference) -> None:
        self.articulation = articulation(robot)
        topology = self.articulation.topology
        assert isinstance(topology, artix.Topology)
        super().__init__(reference, topology.dof_names)
        self.fixed_base = topology.fixed_base
        self.links = [int(topology.dof_link[topology.dofs(name)][0]) for name in reference.joint_names]
        bound = self._bound
        self.functions = {
            "mass matrix": bound(artix.mass_matrix),
            "bias force": bound(artix.bias_force),
            "inverse dynamics": bound(artix.inverse_dynamics, accelerated=True),
            "link poses": bound(artix.link_poses),
            "poses and velocities": bound(artix.forward_kinematics),
            "dense Jacobian": bound(artix.dense_jacobian),
            "forward dynamics": lambda s, a: artix.forward_dynamics(self.articulation, s, self.joint_forces(a)),
            "gradient of forward dynamics": lambda s, a: jax.grad(
                lambda q: jnp.sum(self._joint_accelerations(q, s, a))
            )(s.joint_position),
            "Jacobian of forward dynamics": lambda s, a: jax.jacfwd(self._joint_accelerations)(s.joint_position, s, a),
            "step": self._step,
        }
        if reference.feet:
            frames = [topology.link_names[self.links[reference.joint_names.index(name)]] for name in reference.feet]
            pose = [*FOOT, 0, 0, 0, 1]
            feet = [Constraint(frame_a=frame, pose_a=pose, axes="world_aligned") for frame in frames]
            self.standing = Constraints.of(self.articulation, feet)
            self.functions["constrained forward dynamics"] = self._constrained
            self.functions["derivatives of constrained forward dynamics"] = self._constrained_derivatives
        n = topology.num_dofs
        stiffness, damping = (jnp.full(n, gain, jnp.float32) for gain in (STIFFNESS, DAMPING))
        drive = self.articulation.drive.replace(stiffness=stiffness, damping=damping, target_position=self.limits[0])
        self.driven = self.articulation.replace(drive=drive)

    def _step(self, state, acceleration):
        start = state.replace(joint_position=within(state.joint_position, *self.limits))
        end = artix.step(self.driven, start, None, STEP)
        # The configuration is asked for, too; an unused part would be left out of the program.
        return (end.joint_velocity - start.joint_velocity) / STEP, end

    def _constrained(self, state, acceleration):
        force = self.joint_forces(acceleration)
        # The forces are asked for, too; an unused part would be left out of the program.
        return artix.constrained_forward_dynamics(self.articulation, state, force, self.standing)[:2]

    def _constrained_derivatives(self, state, acceleration):
        force = self.joint_forces(acceleration)
        by = artix.constrained_forward_dynamics_derivatives(self.articulation, state, force, self.standing)
        return by.acceleration.configuration[self.base :, self.base :], by.acceleration, by.constraint_force

    def _joint_accelerations(self, q, state, acceleration):
        moved = state.replace(joint_position=q)
        return artix.forward_dynamics(self.articulation, moved, self.joint_forces(acceleration))[self.base :]

    def _bound(self, function: Callable[..., Any], accelerated: bool = False) -> Callable[..., Any]:
        def call(state, acceleration):
            return function(self.articulation, state, *((acceleration,) if accelerated else ()))

        return call

    def inputs(self, states: States) -> tuple[Any, ...]:
        root_velocity, acceleration = np.zeros((len(states.q), 6)), states.acceleration.copy()
        center = np.asarray(self.articulation.link_com_pose[0, :3], float)
        if self.base:
            rotations = matrices(states.root_quaternion)
            for k, (rotation, twist) in enumerate(zip(rotations, states.root_velocity, strict=True)):
                transform, drift = self.coordinates(rotation, twist, center)
                inverse = np.linalg.inv(transform)
                root_velocity[k] = inverse @ twist
                acceleration[k, :6] = inverse @ (acceleration[k, :6] - drift)
        pose = np.concatenate([states.root_position, states.root_quaternion], axis=1)
        joints = (states.q[:, self.from_reference], states.v[:, self.from_reference])
        state = artix.State(*(jnp.asarray(x, jnp.float32) for x in (pose, root_velocity, *joints)))
        return state, jnp.asarray(permuted(acceleration, (1,), self.base, self.from_reference), jnp.float32)

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        if quantity == "step" or "constrained" in quantity:
            return self.ordered(quantity, value[0])
        if quantity == "poses and velocities":
            return np.asarray(value.velocity, float)[:, self.links]
        value = np.asarray(value, float)
        if quantity == "link poses":
            poses = value[:, self.links]
            return np.concatenate([poses[..., :3, None], matrices(poses[..., 3:])], axis=-1)
        if quantity == "dense Jacobian":
            rows = [link - (1 if self.fixed_base else 0) for link in self.links]
            value = value.reshape(len(value), -1, 6, self.nv)[:, rows]
        return self.ordered(quantity, value)

    def coordinates(self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """World axes, linear velocity of the root's centre of mass."""
        transform = np.zeros((6, 6))
        transform[:3, :3] = transform[3:, 3:] = rotation.T
        transform[:3, 3:] = pinocchio.skew(center) @ rotation.T
        linear, angular = twist[:3], twist[3:]
        return transform, np.concatenate([-np.cross(angular, linear + np.cross(angular, center)), np.zeros(3)])


class _WorldLinearBodyAngular(_Ordered):
    """MuJoCo's coordinates, which frax's quaternion base follows: wxyz, world linear, body angular velocity."""

    forward: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

    def dynamics(self) -> dict[str, Callable[..., Any]]:
        """Forward dynamics and its derivatives by the joints, of ``forward(q, v, force)``."""
        first = 7 if self.base else 0

        def joint_accelerations(joints, q, v, a):
            return self.forward(q.at[first:].set(joints), v, self.joint_forces(a))[self.base :]

        return {
            "forward dynamics": lambda q, v, a: self.forward(q, v, self.joint_forces(a)),
            "gradient of forward dynamics": lambda q, v, a: jax.grad(
                lambda joints: jnp.sum(joint_accelerations(joints, q, v, a))
            )(q[first:]),
            "Jacobian of forward dynamics": lambda q, v, a: jax.jacfwd(joint_accelerations)(q[first:], q, v, a),
        }

    def inputs(self, states: States) -> tuple[Any, ...]:
        q, v, a = states.q[:, self.from_reference], states.v[:, self.from_reference], states.acceleration
        a = permuted(a, (1,), self.base, self.from_reference)
        if self.base:
            rotations, wxyz = matrices(states.root_quaternion), states.root_quaternion[:, [3, 0, 1, 2]]
            q = np.concatenate([states.root_position, wxyz, q], axis=1)
            root_velocity, a = states.root_velocity.copy(), a.copy()
            for k, (rotation, twist) in enumerate(zip(rotations, states.root_velocity, strict=True)):
                transform, drift = self.coordinates(rotation, twist, np.zeros(3))
                root_velocity[k] = transform.T @ twist  # the transform is orthogonal
                a[k, :6] = transform.T @ (a[k, :6] - drift)
            v = np.concatenate([root_velocity, v], axis=1)
        return tuple(jnp.asarray(x, jnp.float32) for x in (q, v, a))

    def coordinates(self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        transform = np.eye(6)
        transform[:3, :3] = rotation.T
        return transform, np.concatenate([-np.cross(twist[3:], twist[:3]), np.zeros(3)])


class Frax(_WorldLinearBodyAngular):
    """frax; its Jacobians of all links are reached one level below its public functions."""

    name = "frax"

    def __init__(self, robot: Robot, reference: Reference) -> None:
        from importlib import metadata

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends another JAX and other XLA flags; all here run with the same
            from frax.core.robot import Robot as FraxRobot

        self.version = metadata.version("frax")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            path.write_text(robot.urdf, encoding="utf-8")
            frax = FraxRobot(str(path), floating_base=None if robot.fixed_base else "quaternion")
        super().__init__(reference, tuple(frax.joint_names[reference.base :]))
        gravity = np.array([0, 0, 9.81, 0, 0, 0], np.float32)
        self.functions = {
            "mass matrix": lambda q, v, a: frax.mass_matrix(q),
            "bias force": lambda q, v, a: frax.nonlinear_bias(q, v),
            "inverse dynamics": lambda q, v, a: frax.rnea(q, v, a, jnp.asarray(gravity), None),
            "link poses": lambda q, v, a: frax.joint_to_world_transforms(q),
            "dense Jacobian": lambda q, v, a: _frax_jacobians(frax, q),
        }
        self.forward = lambda q, v, force: frax.forward_dynamics(q, v, force, None)
        self.functions |= self.dynamics()

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        links = [self.base + k for k in self.to_reference]
        if quantity == "link poses":
            transforms = np.asarray(value, float)[:, links]
            return np.concatenate([transforms[..., :3, 3:], transforms[..., :3, :3]], axis=-1)
        if quantity == "dense Jacobian":
            value = np.concatenate([np.asarray(part, float) for part in value], axis=2)[:, links]
        return self.ordered(quantity, value)


def _frax_jacobians(frax: Any, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    transforms = frax.joint_to_world_transforms(q)
    return frax._link_linear_jacobians(transforms), frax._link_angular_jacobians(transforms)


class Mjx(_WorldLinearBodyAngular):
    """MuJoCo XLA without contacts, constraints, actuators and passive forces."""

    name = "MJX"

    def __init__(self, robot: Robot, reference: Reference) -> None:
        from importlib import metadata

        import mujoco
        from mujoco import mjx

        self.version = metadata.version("mujoco-mjx")
        model = mujoco.MjModel.from_xml_string(_for_mujoco(robot))
        model.opt.gravity = (0.0, 0.0, -9.81)
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
        model.dof_damping[:] = 0.0
        names = [model.joint(k).name for k in range(model.njnt)]
        super().__init__(reference, tuple(names[0 if robot.fixed_base else 1 :]))
        self.mjx, self.model, self.data = mjx, mjx.put_model(model), mjx.make_data(model)
        self.bodies = [int(model.jnt_bodyid[names.index(name)]) for name in reference.joint_names]
        moving = jnp.arange(1, model.nbody)
        m = self.model

        def jacobians(q, v, a):
            data = self._placed(q)
            return jax.vmap(lambda body: mjx.jac(m, data, data.xipos[body], body))(moving)

        self.functions = {
            "mass matrix": lambda q, v, a: mjx.full_m(m, mjx.crb(m, self._placed(q))),
            "bias force": lambda q, v, a: mjx.rne(m, mjx.com_vel(m, self._placed(q, qvel=v))).qfrc_bias,
            "inverse dynamics": lambda q, v, a: (
                mjx.rne(m, mjx.com_vel(m, self._placed(q, qvel=v, qacc=a)), flg_acc=True).qfrc_bias
            ),
            "link poses": lambda q, v, a: _poses(mjx.kinematics(m, self.data.replace(qpos=q))),
            "poses and velocities": lambda q, v, a: _velocities(m, mjx.com_vel(m, self._placed(q, qvel=v))),
            "dense Jacobian": jacobians,
        }
        self.functions |= self.dynamics()
        model.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        model.dof_damping[self.base :] = DAMPING
        model.jnt_stiffness[0 if robot.fixed_base else 1 :] = STIFFNESS
        model.qpos_spring[7 if self.base else 0 :] = self.limits[0]
        model.opt.timestep = STEP
        self.driven, self.start = mjx.put_model(model), mjx.make_data(model)
        self.functions["step"] = self._step

    def _step(self, q: jax.Array, v: jax.Array, a: jax.Array) -> tuple[jax.Array, ...]:
        q = q.at[7 if self.base else 0 :].set(within(q[7 if self.base else 0 :], *self.limits))
        end = self.mjx.step(self.driven, self.start.replace(qpos=q, qvel=v))
        return (end.qvel - v)[self.base :] / STEP, end.qpos, end.qvel

    def forward(self, q: jax.Array, v: jax.Array, force: jax.Array) -> jax.Array:
        return self.mjx.forward(self.model, self.data.replace(qpos=q, qvel=v, qfrc_applied=force)).qacc

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
            value = np.concatenate([np.swapaxes(np.asarray(part, float), 2, 3)[:, rows] for part in value], axis=2)
        return self.ordered(quantity, value)


def _poses(data: Any) -> tuple[jax.Array, jax.Array]:
    return data.xpos, data.xquat


def _velocities(model: Any, data: Any) -> tuple[jax.Array, ...]:
    """Poses and the velocities of the centres of mass; MuJoCo's own are about the tree's centre of mass."""
    arm = data.xipos - data.subtree_com[np.asarray(model.body_rootid)]
    angular = data.cvel[:, :3]
    velocity = jnp.concatenate([data.cvel[:, 3:] + jnp.cross(angular, arm), angular], axis=1)
    return data.xpos, data.xquat, velocity


def _for_mujoco(robot: Robot) -> str:
    """The URDF with MuJoCo's compiler options and, for a floating base, the joint to the world that URDF leaves out."""
    import xml.etree.ElementTree as ElementTree

    root = ElementTree.fromstring(robot.urdf)
    options = ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler")
    options.attrib.update(inertiafromgeom="false", balanceinertia="true", boundmass="0", boundinertia="0")
    if not robot.fixed_base:
        children = {joint.find("child").get("link") for joint in root.findall("joint")}
        base = next(link.get("name") for link in root.findall("link") if link.get("name") not in children)
        ElementTree.SubElement(root, "link", name="benchmark_world")
        joint = ElementTree.SubElement(root, "joint", name="benchmark_root", type="floating")
        ElementTree.SubElement(joint, "parent", link="benchmark_world")
        ElementTree.SubElement(joint, "child", link=base)
    return ElementTree.tostring(root, encoding="unicode")


LIBRARIES: tuple[tuple[str, Callable[[Robot, Reference], Library]], ...] = (
    ("artix", Artix),
    ("frax", Frax),
    ("MJX", Mjx),
)
