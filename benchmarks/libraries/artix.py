"""artix, with its default options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio

import artix
from artix import Constraint, Constraints
from benchmarks.libraries.base import JaxLibrary, JaxProgram, matrices, permuted, sum_gradient
from benchmarks.reference import DAMPING, FOOT, STEP, STIFFNESS, Reference, States, within
from benchmarks.robots import Robot, articulation


class Artix(JaxLibrary):
    """One articulation with a static topology."""

    version = "this tree"

    def __init__(self, robot: Robot, reference: Reference) -> None:
        self.articulation = articulation(robot)
        topology = self.articulation.topology
        super().__init__(reference, topology.dof_names)
        self.fixed_base = topology.fixed_base
        self.links = [
            int(topology.dof_link[topology.dofs(name)][0]) for name in reference.joint_names
        ]
        bound = self._bound
        self.functions = {
            "link poses": bound(artix.frame_pose),
            "poses and velocities": bound(artix.forward_kinematics),
            "dense Jacobian": bound(artix.physx.dense_jacobian),
            "mass matrix": bound(artix.mass_matrix),
            "bias force": bound(artix.bias_force),
            "inverse dynamics": lambda s, a: artix.inverse_dynamics(self.articulation, s, a),
            "forward dynamics": lambda s, a: artix.forward_dynamics(
                self.articulation, s, self.joint_forces(a)
            ),
            "inverse dynamics derivatives": lambda s, a: artix.inverse_dynamics_derivatives(
                self.articulation, s, a
            ),
            "forward dynamics derivatives": lambda s, a: artix.forward_dynamics_derivatives(
                self.articulation, s, self.joint_forces(a)
            ),
            "gradient of forward dynamics": lambda s, a: sum_gradient(
                self._accelerations(s, a), s.joint_position
            ),
            "Jacobian of forward dynamics": lambda s, a: jax.jacfwd(self._accelerations(s, a))(
                s.joint_position
            ),
            "step": self._step,
            "gradient of step": self._step_gradient,
        }
        if reference.feet:
            self.functions["constrained forward dynamics"] = self._constrained
            self.functions["constrained forward dynamics derivatives"] = (
                self._constrained_derivatives
            )
            links = {
                name: topology.link_names[k]
                for name, k in zip(reference.joint_names, self.links, strict=True)
            }
            pose = [*FOOT, 0, 0, 0, 1]
            feet = [
                Constraint(frame_a=links[foot], pose_a=pose, axes="world_aligned")
                for foot in reference.feet
            ]
            self.standing = Constraints.of(self.articulation, feet)
        n = topology.num_dofs
        stiffness, damping = (jnp.full(n, gain, jnp.float32) for gain in (STIFFNESS, DAMPING))
        unlimited = jnp.full(n, jnp.inf, jnp.float32)  # joint speeds, which MuJoCo does not limit
        drive = self.articulation.drive.replace(
            stiffness=stiffness, damping=damping, target_position=self.limits[0]
        )
        self.driven = self.articulation.replace(drive=drive, max_joint_velocity=unlimited)

    def _accelerations(
        self, state: artix.State, acceleration: jax.Array
    ) -> Callable[[jax.Array], jax.Array]:
        """Joint accelerations as a function of joint positions."""

        def joint_accelerations(q):
            moved = state.replace(joint_position=q)
            return artix.forward_dynamics(
                self.articulation, moved, self.joint_forces(acceleration)
            )[self.base :]

        return joint_accelerations

    def _constrained(
        self, state: artix.State, acceleration: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        force = self.joint_forces(acceleration)
        # The feet's forces are asked for, too; an unused part would be left out of the program.
        return artix.constrained_forward_dynamics(self.articulation, state, force, self.standing)[
            :2
        ]

    def _constrained_derivatives(
        self, state: artix.State, acceleration: jax.Array
    ) -> tuple[Any, Any]:
        force = self.joint_forces(acceleration)
        by = artix.constrained_forward_dynamics_derivatives(
            self.articulation, state, force, self.standing
        )
        return by.acceleration, by.constraint_force

    def _step(self, state: artix.State, acceleration: jax.Array) -> tuple[jax.Array, artix.State]:
        start = state.replace(joint_position=within(state.joint_position, *self.limits))
        end = artix.step(self.driven, start, None, STEP)
        # The configuration is asked for, too; an unused part would be left out of the program.
        return (end.joint_velocity - start.joint_velocity) / STEP, end

    def _step_gradient(self, state: artix.State, acceleration: jax.Array) -> jax.Array:
        def mean_accelerations(q):
            end = artix.step(self.driven, state.replace(joint_position=q), None, STEP)
            return (end.joint_velocity - state.joint_velocity) / STEP

        return sum_gradient(mean_accelerations, within(state.joint_position, *self.limits))

    def _bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda state, acceleration: function(self.articulation, state)

    def program(self, quantity: str, batch: int) -> JaxProgram:
        program, function = super().program(quantity, batch), self.functions[quantity]
        # XLA does not look into kernels.
        one = jax.tree.map(lambda leaf: leaf[0], self._inputs)
        costs = artix.explain(
            lambda _, *inputs: function(*inputs), self.articulation, *one
        ).operations
        if not any(cost.refusal for cost in costs):
            program.facts["operations"] = float(batch * sum(sum(cost.operations) for cost in costs))
        return program

    def inputs(self, states: States) -> tuple[Any, ...]:
        root_velocity, acceleration = np.zeros((len(states.q), 6)), states.acceleration.copy()
        center = np.asarray(self.articulation.link_com_pose[0, :3], float)
        if self.base:
            rotations = matrices(states.root_quaternion)
            for k, (rotation, twist) in enumerate(
                zip(rotations, states.root_velocity, strict=True)
            ):
                transform, drift = self.coordinates(rotation, twist, center)
                inverse = np.linalg.inv(transform)
                root_velocity[k] = inverse @ twist
                acceleration[k, :6] = inverse @ (acceleration[k, :6] - drift)
        pose = np.concatenate([states.root_position, states.root_quaternion], axis=1)
        joints = (states.q[:, self.from_reference], states.v[:, self.from_reference])
        state = artix.State(*(jnp.asarray(x, jnp.float32) for x in (pose, root_velocity, *joints)))
        return state, jnp.asarray(
            permuted(acceleration, (1,), self.base, self.from_reference), jnp.float32
        )

    def convert(self, quantity: str, value: Any) -> np.ndarray:
        if quantity == "step" or "constrained" in quantity:
            value = value[0]
        if quantity == "poses and velocities":
            return np.asarray(value.velocity, float)[:, self.links]
        if quantity.endswith("dynamics derivatives"):
            both = np.stack([value.configuration, value.velocity], axis=2)
            return self.ordered(quantity, both[:, self.base :, :, self.base :])
        value = np.asarray(value, float)
        if quantity == "link poses":
            poses = value[:, self.links]
            return np.concatenate([poses[..., :3, None], matrices(poses[..., 3:])], axis=-1)
        if quantity == "dense Jacobian":
            rows = [link - (1 if self.fixed_base else 0) for link in self.links]
            value = value.reshape(len(value), -1, 6, self.nv)[:, rows]
        return self.ordered(quantity, value)

    def coordinates(
        self, rotation: np.ndarray, twist: np.ndarray, center: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """World axes, linear velocity of the root's centre of mass."""
        transform = np.zeros((6, 6))
        transform[:3, :3] = transform[3:, 3:] = rotation.T
        transform[:3, 3:] = pinocchio.skew(center) @ rotation.T
        linear, angular = twist[:3], twist[3:]
        return transform, np.concatenate(
            [-np.cross(angular, linear + np.cross(angular, center)), np.zeros(3)]
        )
