"""The two central types: an articulation (its parameters) and its state, both JAX pytrees."""

from __future__ import annotations

from typing import Any

import jax

from artix.math import struct
from artix.math.arrays import check_floating, device_array
from artix.model.couplings import LoopJoints, MimicJoints
from artix.model.geometry import Geometries
from artix.model.joints import DriveEnvelopes, Drives, JointFrictions
from artix.model.tendons import FixedTendons, SpatialTendons
from artix.model.topology import Topology


class Articulation(struct.PyTreeNode):
    """The parameters of one articulation: a static topology and arrays, all of them pytree leaves.

    L links, n joint degrees of freedom (DOFs), F additional frames, K mimic joints. Every array may be replaced
    (``articulation.replace(link_mass=...)``), batched under ``jax.vmap`` and differentiated. Nothing derived is stored,
    so nothing can go stale. Poses are position [m], then quaternion xyzw. Build an articulation with
    :class:`~artix.ArticulationBuilder` or load one with :func:`~artix.load_urdf`.

    Attributes:
      topology: the static part: tree, joint types and names.
      link_mass: mass of each link [kg], shape [L].
      link_com_pose: mass frame in the link frame: position of the centre of mass and orientation of the axes in which
        ``link_inertia`` is given, shape [L, 7].
      link_inertia: rotational inertia about the centre of mass, in the axes of ``link_com_pose`` [kg m^2], shape [L,
        3, 3].
      joint_parent_pose: inbound joint frame in the parent's link frame, shape [L, 7] (row 0 unused).
      joint_child_pose: inbound joint frame in the link's own frame, shape [L, 7] (row 0 unused).
      joint_pitch: translation per angle of helical joints [m/rad], shape [n]; ignored by all other joints.
      armature: inertia that forward and inverse dynamics add to each DOF [kg m^2 or kg], shape [n].
      joint_lower_limit: lower position limits, ``-inf`` for none [rad or m], shape [n].
      joint_upper_limit: upper position limits, ``inf`` for none [rad or m], shape [n].
      max_joint_velocity: speed limits, ``inf`` for none [rad/s or m/s], shape [n].
      max_joint_force: limits of commanded joint forces, ``inf`` for none [N m or N], shape [n].
      drive: springs and dampers of the joints, arrays [n].
      envelope: performance envelopes of the joints' motors, arrays [n].
      friction: friction of the joints, arrays [n].
      link_linear_damping: rate at which each link's linear velocity decays [1/s], shape [L].
      link_angular_damping: rate at which each link's angular velocity decays [1/s], shape [L].
      max_link_linear_velocity: speed limits of the links' centres of mass, ``inf`` for none [m/s], shape [L].
      max_link_angular_velocity: limits of the links' angular velocities, ``inf`` for none [rad/s], shape [L].
      link_cfm_scale: PhysX's ``cfmScale``, which softens the constraints on a link's joint, shape [L].
      gravity: acceleration of gravity in world axes [m/s^2], shape [3].
      gravity_scale: factor on the gravity of each link (0 is PhysX's ``eDISABLE_GRAVITY``), shape [L].
      frame_local_pose: additional frames in their links' frames, shape [F, 7].
      mimic: relations ``q_follower + gear_ratio q_reference + offset = 0``, arrays [K].
      fixed_tendons: tendons that couple joint positions.
      spatial_tendons: tendons that run through points on links.
      loop_joints: joints that close loops.
      geometry: collision shapes on links.

    Limits, drives, friction, damping, couplings and geometry affect time stepping only, not the rigid-body quantities.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> print(arm.topology.num_links, arm.topology.num_dofs, arm.link_mass.sum())
      9 7 17.1
      >>> heavier = arm.replace(link_mass=1.2 * arm.link_mass)
      >>> state = artix.neutral_state(arm)
      >>> print(artix.potential_energy(heavier, state) / artix.potential_energy(arm, state))
      1.2
    """

    topology: Topology
    link_mass: jax.Array
    link_com_pose: jax.Array
    link_inertia: jax.Array
    joint_parent_pose: jax.Array
    joint_child_pose: jax.Array
    joint_pitch: jax.Array
    armature: jax.Array
    joint_lower_limit: jax.Array
    joint_upper_limit: jax.Array
    max_joint_velocity: jax.Array
    max_joint_force: jax.Array
    drive: Drives
    envelope: DriveEnvelopes
    friction: JointFrictions
    link_linear_damping: jax.Array
    link_angular_damping: jax.Array
    max_link_linear_velocity: jax.Array
    max_link_angular_velocity: jax.Array
    link_cfm_scale: jax.Array
    gravity: jax.Array
    gravity_scale: jax.Array
    frame_local_pose: jax.Array
    mimic: MimicJoints
    fixed_tendons: FixedTendons
    spatial_tendons: SpatialTendons
    loop_joints: LoopJoints
    geometry: Geometries

    def __repr__(self) -> str:
        """One line, as the arrays of a robot would fill pages."""
        tree, mass = self.topology, self.link_mass
        batch = mass.shape[:-1] if isinstance(mass, jax.Array) else ()
        return f"Articulation({tree!r}{f', batch of shape {batch}' if batch else ''})"

    @property
    def dtype(self):
        """The floating-point type of the parameters.

        Raises:
          TypeError: ``link_mass`` is no array.
        """
        if not hasattr(self.link_mass, "dtype"):
            kind = type(self.link_mass).__name__
            raise TypeError(
                f"articulation.link_mass: expected an array, found {kind}; make it one with jnp.asarray(...)"
            )
        return self.link_mass.dtype

    def astype(self, dtype) -> Articulation:
        """The same articulation with every array in ``dtype``: float32 or, in JAX's x64 mode, float64.

        Raises:
          TypeError: ``dtype`` is not a floating-point type.
        """
        check_floating(dtype)
        return jax.tree.map(lambda leaf: device_array(leaf, dtype) if leaf.dtype.kind == "f" else leaf, self)


#: The fields of an articulation with one row per link, and those with one per DOF.
PER_LINK = (
    *("link_mass", "link_com_pose", "link_inertia", "joint_parent_pose", "joint_child_pose", "gravity_scale"),
    *("link_linear_damping", "link_angular_damping", "max_link_linear_velocity", "max_link_angular_velocity"),
    "link_cfm_scale",
)
PER_DOF = (
    *("joint_pitch", "armature", "joint_lower_limit", "joint_upper_limit", "max_joint_velocity", "max_joint_force"),
    *("drive", "envelope", "friction"),
)


class State(struct.PyTreeNode):
    """The configuration and velocity of one articulation.

    Attributes:
      root_pose: world pose of the root link's frame: position [m], quaternion xyzw, shape [7].
      root_velocity: velocity of the root link's centre of mass [m/s] and angular velocity [rad/s], world axes, shape
        [6]; ignored for a fixed base.
      joint_position: joint positions [rad or m], shape [n]; the rotation-vector components of a spherical joint.
      joint_velocity: joint velocities [rad/s or m/s], shape [n]; for a spherical joint the relative angular velocity in
        the child joint frame, which differs from the rate of its position (``artix.joint_rate_from_velocity``).
      contact_memory: what the solver of a step remembers of the last one, from which the next step starts;
        ``None`` to start afresh. Make one with :func:`artix.remember_contacts`. It is opaque, belongs to one
        solver, and has no derivatives.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.neutral_state(robot)
      >>> knee = robot.topology.dofs("front_left_knee")
      >>> bent = state.replace(joint_position=state.joint_position.at[knee].set(-1.0))
      >>> print(bent.root_pose.shape, bent.root_velocity.shape, bent.joint_position.shape)
      (7,) (6,) (12,)
    """

    root_pose: jax.Array
    root_velocity: jax.Array
    joint_position: jax.Array
    joint_velocity: jax.Array
    contact_memory: Any = None

    def astype(self, dtype) -> State:
        """The same state, or batch of states, with every array in ``dtype``, as :meth:`artix.Articulation.astype`.

        Raises:
          TypeError: ``dtype`` is not a floating-point type.
        """
        check_floating(dtype)
        return jax.tree.map(lambda leaf: device_array(leaf, dtype), self)
