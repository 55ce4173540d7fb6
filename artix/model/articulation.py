"""The two central types: an articulation (its parameters) and its state, both JAX pytrees."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.math import struct
from artix.math.arrays import check_finite, check_floating, device_array
from artix.model.coordinates import (
    ORDERS,
    Order,
    check_configurations,
    joint_places,
    joints_from,
    root_from,
)
from artix.model.couplings import FixedTendons, LoopJoints, MimicJoints, SpatialTendons
from artix.model.geometry import Geometries
from artix.model.joints import DriveEnvelopes, Drives, JointFrictions
from artix.model.parts import (
    GROUPS,
    OPTIONAL,
    REQUIRED,
    KnownEntries,
    constant,
    is_absent,
    is_known_to_be_absent,
    names_in,
    shapes_of,
)
from artix.model.topology import Topology


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Articulation:
    """The parameters of one articulation: a static topology and the arrays that the robot has, its
    pytree leaves.

    L links, n joint degrees of freedom (DOFs), F additional frames, K mimic joints. Every array may
    be replaced (``articulation.replace(link_mass=...)``), batched under ``jax.vmap`` and
    differentiated. Nothing derived is stored, so nothing can go stale.

    **What a robot lacks is absent**: friction, drives, limits, damping and so on that it does not
    have are no leaves, and a robot that is an argument costs what it has. Reading them gives
    constants: zeros, infinite limits, a gravity scale of one. Replacing an array gives the robot
    this part, ``None`` takes it away; ``absent`` lists what is missing. Derivatives with respect to
    a robot are those with respect to what it has, ``None`` for the rest: give it what else should
    vary.

    Poses are position [m], then quaternion xyzw. Build an articulation with
    :class:`~artix.ArticulationBuilder` or load one with :func:`~artix.load_urdf`.

    Attributes:
      topology: the static part: tree, joint types and names.
      link_mass: mass of each link [kg], shape [L].
      link_com_pose: mass frame in the link frame: position of the centre of mass and orientation of
        the axes in which ``link_inertia`` is given, shape [L, 7].
      link_inertia: rotational inertia about the centre of mass, in the axes of ``link_com_pose``
        [kg m^2], shape [L, 3, 3].
      joint_parent_pose: inbound joint frame in the parent's link frame, shape [L, 7] (row 0
        unused).
      joint_child_pose: inbound joint frame in the link's own frame, shape [L, 7] (row 0 unused).
      joint_pitch: translation per angle of helical joints [m/rad], shape [n]; ignored by all other
        joints.
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
      max_link_linear_velocity: speed limits of the links' centres of mass, ``inf`` for none [m/s],
        shape [L].
      max_link_angular_velocity: limits of the links' angular velocities, ``inf`` for none [rad/s],
        shape [L].
      link_cfm_scale: PhysX's ``cfmScale``, which softens the constraints on a link's joint, shape
        [L].
      gravity: acceleration of gravity in world axes [m/s^2], shape [3].
      gravity_scale: factor on the gravity of each link (0 is PhysX's ``eDISABLE_GRAVITY``), shape
        [L].
      frame_local_pose: additional frames in their links' frames, shape [F, 7].
      mimic: relations ``q_follower + gear_ratio q_reference + offset = 0``, arrays [K].
      fixed_tendons: tendons that couple joint positions.
      spatial_tendons: tendons that run through points on links.
      loop_joints: joints that close loops.
      geometry: collision shapes on links.

    Limits, drives, friction, damping, couplings and geometry affect time stepping only, not the
    rigid-body quantities.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> print(arm.topology.num_links, arm.topology.num_dofs, arm.link_mass.sum())
      9 7 17.1
      >>> heavier = arm.replace(link_mass=1.2 * arm.link_mass)
      >>> state = artix.neutral_state(arm)
      >>> print(artix.potential_energy(heavier, state) / artix.potential_energy(arm, state))
      1.2
      >>> servos = arm.replace(drive=arm.drive.replace(stiffness=jnp.full(7, 100.0)))
      >>> print("drive.stiffness" in arm.absent, "drive.stiffness" in servos.absent)
      True False
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

    def __init__(self, topology: Topology, **parts: Any) -> None:
        _fill(self, topology, _replace_arrays(topology, {}, parts)[0], {})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _NAMES or "_arrays" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            arrays = [self._array(each) for each in _NAMES[name]]
            return GROUPS[name](*arrays) if name in GROUPS else arrays[0]

    def _array(self, name: str) -> Any:
        """The array with this name; constants if it is absent."""
        arrays, known = self.__dict__["_arrays"], self.__dict__["_known"]
        if name in arrays:
            return known[name].whole(arrays[name]) if name in known else arrays[name]
        mass = arrays["link_mass"]
        if not hasattr(mass, "dtype"):  # A tree of axes or of flags has none.
            return None
        if _is_derivative(self):
            return None
        shape = (*mass.shape[:-1], *shapes_of(self.topology)[name])
        return constant(shape, mass.dtype, OPTIONAL.get(name, 0.0), isinstance(mass, np.ndarray))

    @property
    def arrays(self) -> Mapping[str, Any]:
        """The arrays that the robot has, by names such as ``"drive.stiffness"``, in the order of
        its leaves.
        """
        known = self.__dict__["_known"]
        if not known:
            return MappingProxyType(self.__dict__["_arrays"])
        return {name: self._array(name) for name in self.__dict__["_arrays"]}

    @property
    def absent(self) -> tuple[str, ...]:
        """The names of the arrays that the robot lacks, such as ``"drive.stiffness"``."""
        return tuple(name for name in _PLACES if name not in self.__dict__["_arrays"])

    def replace(self, **updates: Any) -> Articulation:
        """A copy with some fields replaced.

        Args:
          **updates: new fields, also under names such as ``"drive.stiffness"``; ``None`` for what
            the robot then lacks.

        Raises:
          TypeError: there is no such field, or every robot has it and it is ``None``.
        """
        topology = updates.pop("topology", self.topology)
        arrays, changed = _replace_arrays(topology, self.__dict__["_arrays"], updates)
        known = {
            name: known for name, known in self.__dict__["_known"].items() if name not in changed
        }
        return _make(topology, arrays, known)

    def __hash__(self) -> int:
        try:
            return hash((self.topology, *self.__dict__["_arrays"].values()))
        except TypeError:
            raise TypeError(
                "an articulation holds arrays, which have no hash: let jax.jit take it as an "
                "ordinary argument, without static_argnums, or close over it"
            ) from None

    def __repr__(self) -> str:
        """One line, as the arrays of a robot would fill pages."""
        mass = self.__dict__["_arrays"]["link_mass"]
        batch = mass.shape[:-1] if isinstance(mass, jax.Array) else ()
        return f"Articulation({self.topology!r}{f', batch of shape {batch}' if batch else ''})"

    @property
    def dtype(self):
        """The floating-point type of the parameters.

        Raises:
          TypeError: ``link_mass`` is not an array.
        """
        mass = self.__dict__["_arrays"]["link_mass"]
        if not hasattr(mass, "dtype"):
            kind = type(mass).__name__
            raise TypeError(
                f"articulation.link_mass: expected an array, found {kind}; make it one with "
                "jnp.asarray(...)"
            )
        return mass.dtype

    def astype(self, dtype) -> Articulation:
        """The same articulation with every array in ``dtype``: float32 or, in JAX's x64 mode,
        float64.

        Raises:
          TypeError: ``dtype`` is neither float32 nor, in JAX's x64 mode, float64.
        """
        check_floating(dtype)
        return jax.tree.map(
            lambda leaf: device_array(leaf, dtype) if leaf.dtype.kind == "f" else leaf, self
        )


#: The names of the arrays of each field, and the place of each array among the leaves.
_NAMES = {
    one.name: names_in(one.name)
    for one in dataclasses.fields(Articulation)
    if one.name != "topology"
}
_PLACES = {
    name: place for place, name in enumerate(name for names in _NAMES.values() for name in names)
}


def _signature() -> inspect.Signature:
    """The arguments of an articulation, which its ``__init__`` takes by name."""
    topology = inspect.Parameter("topology", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    defaults = {name: inspect.Parameter.empty if name in REQUIRED else None for name in _NAMES}
    by_name = inspect.Parameter.KEYWORD_ONLY
    parts = [
        inspect.Parameter(name, by_name, default=default) for name, default in defaults.items()
    ]
    return inspect.Signature([topology, *parts])


setattr(Articulation, "__signature__", _signature())  # noqa: B010  # For editors and ``help``.


def _fill(
    articulation: Articulation,
    topology: Topology,
    arrays: Mapping[str, Any],
    known: Mapping[str, KnownEntries],
) -> None:
    articulation.__dict__.update(topology=topology, _arrays=arrays, _known=known)


def _make(
    topology: Topology, arrays: Mapping[str, Any], known: Mapping[str, KnownEntries] | None = None
) -> Articulation:
    """An articulation of these arrays; of those that have ``known`` entries, only the others are
    there.
    """
    articulation = object.__new__(Articulation)
    _fill(articulation, topology, arrays, known or {})
    return articulation


def _replace_arrays(
    topology: Topology, arrays: Mapping[str, Any], updates: Mapping[str, Any]
) -> tuple[dict[str, Any], Collection[str]]:
    """The arrays that an articulation has after some of its fields are replaced, and the names of
    these arrays.
    """
    changed: dict[str, Any] = {}
    for field, value in updates.items():
        names = _NAMES.get(field, (field,))
        if field in GROUPS and isinstance(value, GROUPS[field]):
            changed.update((name, getattr(value, name.partition(".")[2])) for name in names)
        elif field in GROUPS and value is not None:  # An axis or a flag for the whole group.
            changed.update((name, value) for name in names if name in arrays)
        else:
            changed.update(dict.fromkeys(names, value))
    for name in changed:
        if name not in _PLACES:
            raise TypeError(
                f"Articulation: there is no field {name!r}; there are {', '.join(_NAMES)}"
            )
    every = {**arrays, **changed}
    # In a tree of axes, None is one.
    is_robot = hasattr(arrays.get("link_mass", changed.get("link_mass")), "dtype")
    absent = [
        name for name, value in changed.items() if is_robot and is_absent(topology, name, value)
    ]
    for name in absent:
        del every[name]
    if missing := REQUIRED - every.keys():
        raise TypeError(f"Articulation: every robot has {', '.join(sorted(missing))}; found none")
    return {name: every[name] for name in sorted(every, key=_PLACES.__getitem__)}, changed


def _is_derivative(articulation: Articulation) -> bool:
    """Whether this is a derivative with respect to a robot rather than a robot, as far as numbers
    tell.

    A constant in place of what the robot lacks would look like a derivative that is zero.
    Quaternions of robots have the length 1.
    """
    memory = articulation.__dict__
    pose = memory["_arrays"]["link_com_pose"]
    if memory.get("_is_robot") or "link_com_pose" in memory["_known"]:
        return False
    if (
        isinstance(pose, jax.core.Tracer)
        or not isinstance(pose, np.ndarray | jax.Array)
        or pose.ndim < 2
    ):
        return False
    if isinstance(pose, jax.Array) and (pose.is_deleted() or not pose.is_fully_addressable):
        return False
    length = np.linalg.norm(np.asarray(pose)[..., 3:], axis=-1)
    memory["_is_robot"] = not (abs(length - 1) > 0.1).any()
    return not memory["_is_robot"]


def _flatten(articulation: Articulation) -> tuple[list[Any], Any]:
    arrays, known = articulation.__dict__["_arrays"], articulation.__dict__["_known"]
    return list(arrays.values()), (articulation.topology, tuple(arrays), tuple(known.items()))


def _flatten_with_keys(articulation: Articulation) -> tuple[list[tuple[Any, Any]], Any]:
    leaves, structure = _flatten(articulation)
    return list(zip(map(jax.tree_util.GetAttrKey, structure[1]), leaves, strict=True)), structure


def _unflatten(
    structure: tuple[Topology, tuple[str, ...], Any], arrays: Iterable[Any]
) -> Articulation:
    topology, names, known = structure
    return _make(topology, dict(zip(names, arrays, strict=True)), dict(known))


jax.tree_util.register_pytree_with_keys(Articulation, _flatten_with_keys, _unflatten, _flatten)


def without(articulation: Articulation, names: Iterable[str]) -> Articulation:
    """The articulation without the arrays of these names, such as those that another one lacks."""
    return articulation.replace(**dict.fromkeys(names))


def without_zeros(articulation: Articulation) -> Articulation:
    """The articulation without arrays that are known and say that there is nothing: zeros, infinite
    limits.
    """
    arrays = articulation.__dict__["_arrays"]
    return without(
        articulation, [name for name, value in arrays.items() if is_known_to_be_absent(name, value)]
    )


def checked_leaves(articulation: Articulation) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """The name of each leaf, the leaf, and the shape that it should have."""
    shapes = shapes_of(articulation.topology)
    known = articulation.__dict__["_known"]
    for name, leaf in articulation.__dict__["_arrays"].items():
        yield name, leaf, known[name].varying_shape if name in known else shapes[name]


def with_known_entries(articulation: Articulation, like: Articulation) -> Articulation:
    """The articulation, in which what is zero, infinite or a plain rotation in ``like`` is known.

    Args:
      articulation: the robot, whose arrays may be traced or have leading axes.
      like: a robot, or several, of the same arrays, whose numbers are known.
    """
    shapes = shapes_of(articulation.topology)
    arrays, known = {}, {}
    for name, array in articulation.arrays.items():
        entries = KnownEntries.of(name, np.asarray(like._array(name)).reshape(-1, *shapes[name]))
        if entries is not None:
            known[name] = entries
        arrays[name] = array if entries is None else entries.varying(array)
    return _make(articulation.topology, arrays, known)


def with_equal_parts(
    articulations: Sequence[Articulation], also: Iterable[str] = ()
) -> list[Articulation]:
    """Articulations of one topology with the same arrays, so that they can be stacked: all that one
    of them has.

    What another one lacks becomes an array of the constants that stand for it, and so do those
    called ``also``. Zeros stay known where all know them.
    """
    has = {*also}.union(*(one.__dict__["_arrays"] for one in articulations))
    names = sorted(has, key=_PLACES.__getitem__)
    first, *others = (one.__dict__["_known"] for one in articulations)
    known = {
        name: each
        for name, each in first.items()
        if all(each == other.get(name) for other in others)
    }
    equal = []
    for one in articulations:
        leaves = one.__dict__["_arrays"]
        arrays = {name: leaves[name] if name in known else one._array(name) for name in names}
        equal.append(_make(one.topology, arrays, known))
    return equal


class State(struct.PyTreeNode):
    """The configuration and velocity of one articulation.

    Attributes:
      root_pose: world pose of the root link's frame: position [m], quaternion xyzw, shape [7].
      root_velocity: velocity of the root link's centre of mass [m/s] and angular velocity [rad/s],
        world axes, shape [6]; ignored for a fixed base.
      joint_position: joint positions [rad or m], shape [n]; the rotation-vector components of a
        spherical joint.
      joint_velocity: joint velocities [rad/s or m/s], shape [n]; for a spherical joint the relative
        angular velocity in the child joint frame, which differs from the rate of its position
        (``artix.joint_rate_from_velocity``).
      contact_memory: what the solver of a step remembers of the last one, from which the next step
        starts; ``None`` to start afresh. Make one with :func:`artix.remember_contacts`. It is
        opaque, belongs to one solver, and has no derivatives.

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

    @classmethod
    def of(
        cls,
        articulation: Articulation,
        position: npt.ArrayLike | jax.Array,
        velocity: npt.ArrayLike | jax.Array | None = None,
        *,
        order: Order = "artix",
        joints: Sequence[str] | None = None,
    ) -> State:
        """States from the configurations and velocities of another library, in its order and its
        axes.

        - ``"artix"``: the root's pose (position, quaternion xyzw) if the base floats, then the
          joints' positions; velocities as ``nu`` (:func:`artix.generalized_velocity`).
        - ``"pinocchio"``: ``q`` and ``v`` of a URDF, with a free-flyer if the base floats: its
          velocity is in axes of the base. Joints are depth-first, siblings by their names.
          Spherical joints have quaternions xyzw, and continuous ones their cosine and sine, as the
          length of ``position`` tells.
        - ``"mujoco"``: ``qpos`` and ``qvel`` of a model with this robot alone, quaternions wxyz.
          Joints are depth-first, siblings as in the file. :class:`artix.MujocoCoordinates` converts
          those of any compiled model.

        Args:
          articulation: the robot.
          position: configurations, shape [..., nq]. Quaternions may have any length but zero.
          velocity: velocities in the same order, shape [..., nv]; at rest when ``None``.
          order: whose conventions these are.
          joints: names of all joints that move, in the order of the coordinates, such as those of a
            file or ``list(model.names)[2:]``; the library's own order when ``None``.

        Returns:
          States in the articulation's dtype with the same leading axes. The root of a fixed base is
          at the origin.

        Raises:
          ValueError: an array has another length, joints are missing or unknown, one has no
            counterpart in the library, or a known number is not finite or a quaternion zero.

        Examples:
          >>> arm = artix.robots.load("arm7")
          >>> joints = arm.topology.dof_names[::-1]  # From the hand to the shoulder.
          >>> states = artix.State.of(arm, jnp.ones((5, 7)) * jnp.arange(7.0), joints=joints)
          >>> print(states.joint_position.shape, states.joint_position[0])
          (5, 7) [6. 5. 4. 3. 2. 1. 0.]
        """
        if order not in ORDERS:
            raise ValueError(
                f"order: expected one of {', '.join(map(repr, ORDERS))}, found {order!r}"
            )
        topology = articulation.topology
        dtype = articulation.dtype
        q = device_array(position, dtype)
        qd = (
            jnp.zeros((*q.shape[:-1], topology.nv), dtype)
            if velocity is None
            else device_array(velocity, dtype)
        )
        if q.ndim == 0 or qd.shape != (*q.shape[:-1], topology.nv):
            raise ValueError(
                f"velocity: expected {topology.nv} numbers for each configuration, so the shape "
                f"{(*q.shape[:-1], topology.nv)}; found {qd.shape}"
            )
        limits = articulation.joint_lower_limit, articulation.joint_upper_limit
        free = [
            np.isinf(x) if not isinstance(x, jax.core.Tracer) else np.zeros(len(x), bool)
            for x in limits
        ]
        is_wheel = tuple((topology.dof_wraps & free[0] & free[1]).tolist())
        places = joint_places(topology, order, joints, is_wheel, q.shape[-1])
        quaternions = [place.position for place in places if place.kind == "quaternion"]
        check_configurations("position", q, quaternions + [3] * (not topology.fixed_base))
        check_finite("velocity", qd)
        joint_position, joint_velocity = joints_from(order, places, topology.num_base_dofs, q, qd)
        pose = jnp.zeros((*q.shape[:-1], 7), dtype).at[..., 6].set(1)
        motion = jnp.zeros((*q.shape[:-1], 6), dtype)
        if not topology.fixed_base:
            pose, motion = root_from(
                order, q[..., :7], qd[..., :6], articulation.link_com_pose[0, :3]
            )
        return cls(pose, motion, joint_position, joint_velocity)

    def astype(self, dtype) -> State:
        """The same state, or batch of states, with every array in ``dtype``, as
        :meth:`artix.Articulation.astype`.

        Raises:
          TypeError: ``dtype`` is neither float32 nor, in JAX's x64 mode, float64.
        """
        check_floating(dtype)
        return jax.tree.map(lambda leaf: device_array(leaf, dtype), self)
