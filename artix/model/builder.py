"""Builds an articulation link by link; each call reports the mistakes in its own arguments.

At the end, descriptions become arrays of parameters, and the names in couplings become indices.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.math.arrays import check_floating, device_array
from artix.model.articulation import Articulation, without_zeros
from artix.model.couplings import (
    FixedTendon,
    FixedTendons,
    FixedTendonStructure,
    LoopJoint,
    LoopJoints,
    LoopJointStructure,
    MimicJoint,
    MimicJoints,
    SpatialTendon,
    SpatialTendons,
    SpatialTendonStructure,
)
from artix.model.geometry import Geometries, Geometry
from artix.model.joints import (
    IDENTITY_POSE,
    CompositeJoint,
    Drive,
    DriveEnvelope,
    DriveEnvelopes,
    Drives,
    Joint,
    JointFriction,
    JointFrictions,
    JointType,
)
from artix.model.topology import Topology, checked_pairs
from artix.model.validation import (
    finite_array,
    impossible_inertia,
    interval,
    is_index,
    number,
    rotational_inertia,
    unit_pose,
)


@dataclasses.dataclass(frozen=True)
class LinkParameters:
    """The description of one link; ``numbers`` has the keys of ``LINK_NUMBERS``."""

    name: str
    parent: int
    joint: Joint
    mass: float
    com_pose: np.ndarray
    inertia: np.ndarray
    numbers: dict[str, float]


#: Scalars of a link that become arrays [L]: argument of ``add_link``, array, lower bound, whether
#: it may be infinite.
LINK_NUMBERS = {
    "gravity_scale": ("gravity_scale", -np.inf, False),
    "linear_damping": ("link_linear_damping", 0.0, False),
    "angular_damping": ("link_angular_damping", 0.0, False),
    "max_linear_velocity": ("max_link_linear_velocity", 0.0, True),
    "max_angular_velocity": ("max_link_angular_velocity", 0.0, True),
    "cfm_scale": ("link_cfm_scale", 0.0, False),
}


def link_number(argument: str, value: float, where: str) -> float:
    """One of ``LINK_NUMBERS``, checked; raises ``ValueError`` if it is out of range."""
    _, low, infinite = LINK_NUMBERS[argument]
    result = number(value, f"{where}: {argument}")
    if not (result >= low and (infinite or np.isfinite(result))):
        rule = (
            "finite"
            if low < 0
            else "not negative (inf for none)"
            if infinite
            else "finite and not negative"
        )
        raise ValueError(f"{where}: {argument} must be {rule}; found {result}")
    return result


def link_parameters(links: Sequence[LinkParameters]) -> dict[str, Any]:
    """The per-link arrays of an articulation, as NumPy arrays."""
    parameters = {
        name: np.array([link.numbers[key] for link in links])
        for key, (name, *_) in LINK_NUMBERS.items()
    }
    return parameters | {
        "link_mass": np.array([link.mass for link in links]),
        "link_com_pose": np.array([link.com_pose for link in links]),
        "link_inertia": np.array([link.inertia for link in links]),
    }


def joint_parameters(joints: Sequence[Joint]) -> dict[str, Any]:
    """The per-joint and per-DOF arrays of an articulation, as NumPy arrays.

    Raises:
      ValueError: a number is out of range, or their count differs from the joint's free axes.
    """
    limits = np.array([pair for joint in joints for pair in _limits(joint)]).reshape(-1, 2)
    return {
        "joint_parent_pose": np.array([joint.parent_pose for joint in joints]),
        "joint_child_pose": np.array([joint.child_pose for joint in joints]),
        "joint_pitch": np.array([joint.pitch for joint in joints for _ in joint.axes], float),
        "armature": _per_dof(joints, "armature"),
        "max_joint_velocity": _per_dof(joints, "max_velocity"),
        "max_joint_force": _per_dof(joints, "max_force"),
        "joint_lower_limit": limits[:, 0],
        "joint_upper_limit": limits[:, 1],
        "drive": Drives.of(_per_axis(joints, "drive", Drive)),
        "envelope": DriveEnvelopes.of(_per_axis(joints, "envelope", DriveEnvelope)),
        "friction": JointFrictions.of(_frictions(joints)),
    }


def _per_dof(joints: Sequence[Joint], field: str) -> np.ndarray:
    """Expands a non-negative number per joint, or one per axis, to one per DOF."""
    values = []
    for joint in joints:
        count = len(joint.axes)
        value = np.asarray(getattr(joint, field), float)
        if value.shape not in ((), (count,)):
            raise ValueError(
                f"joint {joint.name!r}: {field} must be a number or have length {count}"
            )
        if not np.all(value >= 0.0):
            raise ValueError(
                f"joint {joint.name!r}: {field} must lie in [0, inf]; found {value.tolist()}"
            )
        values.append(np.broadcast_to(value, (count,)))
    return np.concatenate(values)


def _per_axis(joints: Sequence[Joint], field: str, *kinds: type) -> list:
    """Expands a descriptor per joint, or one per axis, to one per DOF."""
    values: list = []
    for joint in joints:
        value = getattr(joint, field)
        count = len(joint.axes)
        entries = list(value) if isinstance(value, (list, tuple)) else [value] * count
        if len(entries) != count or not all(
            entry is None or isinstance(entry, kinds) for entry in entries
        ):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(
                f"joint {joint.name!r}: {field} must be one {names} or a sequence with one per "
                f"free axis ({count}); found {value!r}"
            )
        values += entries
    return values


def _frictions(joints: Sequence[Joint]) -> list[JointFriction]:
    values = _per_axis(joints, "friction", JointFriction, float, int)
    return [
        value
        if isinstance(value, JointFriction)
        else JointFriction(static=value or 0.0, dynamic=value or 0.0)
        for value in values
    ]


def _limits(joint: Joint) -> list[tuple[float, float]]:
    if joint.limits is not None and not isinstance(joint.limits, Iterable):
        raise ValueError(
            f"joint {joint.name!r}: limits must have one pair per free axis; found {joint.limits!r}"
        )
    limits = [None] * len(joint.axes) if joint.limits is None else list(joint.limits)
    if len(limits) != len(joint.axes):
        raise ValueError(
            f"joint {joint.name!r}: limits must have one entry per free axis; found {len(limits)}"
        )
    pairs = [interval(pair, f"joint {joint.name!r}") for pair in limits]
    for pair in pairs:
        if joint.type is JointType.SPHERICAL and any(np.pi + 1e-6 < abs(x) < np.inf for x in pair):
            raise ValueError(
                f"joint {joint.name!r}: limits of a spherical joint must lie within [-pi, pi]"
            )
    return pairs


def mimic_dofs(topology: Topology, mimics: Sequence[MimicJoint]) -> tuple[tuple[int, int], ...]:
    """The pairs (follower DOF, reference DOF); refuses two relations for one follower."""
    pairs: list[tuple[int, int]] = []
    for mimic in mimics:
        where = f"mimic joint {mimic.follower!r}"
        follower, reference = (
            _dof(topology, name, where) for name in (mimic.follower, mimic.reference)
        )
        if follower == reference:
            raise ValueError(f"{where}: a joint cannot follow itself")
        if follower in (known for known, _ in pairs):
            raise ValueError(f"{where}: it follows two joints; give each follower one reference")
        pairs.append((follower, reference))
    return tuple(pairs)


def fixed_tendon(topology: Topology, tendon: FixedTendon) -> FixedTendonStructure:
    """The static part of a fixed tendon; refuses a tendon whose joints do not follow the links of
    the tree.
    """
    where = f"fixed tendon {tendon.name!r}"
    dofs = [_dof(topology, joint.dof, where) for joint in tendon.joints]
    links = [int(topology.dof_link[dof]) for dof in dofs]
    root = (
        topology.parent[links[0]]
        if tendon.root_link is None
        else _link(topology, tendon.root_link, where)
    )
    for joint, link in zip(tendon.joints, links, strict=True):
        above = root if joint.parent < 0 else links[joint.parent]
        if topology.parent[link] != above:
            raise ValueError(
                f"{where}: the joint of {joint.dof!r} moves link {topology.link_names[link]!r} on "
                f"{topology.link_names[topology.parent[link]]!r}, but the tendon comes from "
                f"{topology.link_names[above]!r}; a tendon follows the links, one joint after "
                "another"
            )
    return FixedTendonStructure(
        tendon.name, root, tuple(dofs), tuple(joint.parent for joint in tendon.joints)
    )


def spatial_tendon(topology: Topology, tendon: SpatialTendon) -> SpatialTendonStructure:
    """The static part of a spatial tendon."""
    where = f"spatial tendon {tendon.name!r}"
    points = tendon.attachments
    return SpatialTendonStructure(
        name=tendon.name,
        links=tuple(_link(topology, point.link, where) for point in points),
        parents=tuple(point.parent for point in points),
        attachment_names=tuple(point.name for point in points),
    )


def loop_joint(topology: Topology, joint: LoopJoint) -> LoopJointStructure:
    """The static part of a loop joint."""
    where = f"loop joint {joint.name!r}"
    return LoopJointStructure(
        name=joint.name,
        type=joint.type,
        link_a=-1 if joint.link_a is None else _link(topology, joint.link_a, where),
        link_b=_link(topology, joint.link_b, where),
        locked_axes=tuple(joint.locked_axes or ()),
    )


def link_index(links: Sequence[str], link: int | str, where: str) -> int:
    """The index of a link that a builder has, given its index or its name.

    Raises:
      ValueError: there is no such link; for a name, the message lists the links.
    """
    if isinstance(link, str) and link not in links:
        raise ValueError(
            f"{where}: there is no link {link!r}; choose from: {', '.join(links) or 'none'}"
        )
    number = links.index(link) if isinstance(link, str) else link
    if not (is_index(number) and 0 <= number < len(links)):
        raise ValueError(f"{where}: link {link!r} is not a link; there are {len(links)}")
    return number


def geometry_place(
    links: Sequence[str], known: Sequence[str], link: int | str, name: str | None
) -> tuple[str, int]:
    """The name of a new shape and the index of its link; refuses unknown links and names that are
    taken.

    Args:
      links: names of the links.
      known: names of the shapes so far.
      link: index or name of the link.
      name: the shape's name, ``None`` for ``<link>:<k>``.
    """
    where = "geometry" if name is None else f"geometry {name!r}"
    number = link_index(links, link, where)
    if name is None:
        free = (f"{links[number]}:{k}" for k in itertools.count())
        return next(candidate for candidate in free if candidate not in known), number
    if name in known:
        raise ValueError(f"{where}: the name is taken; give every geometry its own name")
    return name, number


def _dof(topology: Topology, name: str, where: str) -> int:
    try:
        return topology.dof_index(name)
    except KeyError as error:
        raise ValueError(f"{where}: {error.args[0]}") from None


def _link(topology: Topology, name: str, where: str) -> int:
    try:
        return topology.link_index(name)
    except KeyError as error:
        raise ValueError(f"{where}: {error.args[0]}") from None


# --- the builder --------------------------------------------------------------------------------


STANDARD_GRAVITY = (0.0, 0.0, -9.81)


class ArticulationBuilder:
    """Collects links and joints and builds an :class:`~artix.Articulation`.

    Add links in any order in which parents come first; ``build`` renumbers them breadth-first.

    Args:
      fixed_base: whether the root is fixed to the world.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3].
      name: the articulation's name.
      strict: whether to refuse inertias that are physically impossible but give well-defined
        dynamics: one principal moment above the sum of the others, or inertia without mass. File
        readers accept them with a warning; pass ``strict=False`` for numbers that you did not
        choose, such as identified ones.

    Examples:
      >>> builder = artix.ArticulationBuilder(fixed_base=True, name="pendulum")
      >>> base = builder.add_link(name="base")
      >>> top = (0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0)  # of the rod: position, quaternion xyzw
      >>> hinge = artix.Joint.revolute(artix.Axis.SWING1, child_pose=top, name="hinge")
      >>> rod = builder.add_link(base, hinge, mass=1.0, inertia=(0.083, 0.083, 0.001), name="rod")
      >>> pendulum = builder.build()
      >>> # 0.083 + 1 kg (0.5 m)^2
      >>> print(artix.mass_matrix(pendulum, artix.neutral_state(pendulum)))
      [[0.333]]
    """

    def __init__(
        self,
        *,
        fixed_base: bool = False,
        gravity: npt.ArrayLike = STANDARD_GRAVITY,
        name: str = "articulation",
        strict: bool = True,
    ) -> None:
        self.name = name
        self.strict = bool(strict)
        self.fixed_base = bool(fixed_base)
        self.gravity = finite_array(gravity, (3,), f"{name!r}: gravity")
        self._links: list[LinkParameters] = []
        self._names: set[str] = set()
        self._joint_names: set[str] = set()
        self._frames: list[tuple[str, int, np.ndarray]] = []
        self._mimics: list[MimicJoint] = []
        self._fixed_tendons: list[FixedTendon] = []
        self._spatial_tendons: list[SpatialTendon] = []
        self._loop_joints: list[LoopJoint] = []
        self._geometries: list[tuple[str, int, Geometry]] = []
        self._geometry_pairs: list[tuple[str, str]] = []

    def add_link(
        self,
        parent: int | str | None = None,
        joint: Joint | CompositeJoint | None = None,
        *,
        mass: float = 0.0,
        com_pose: npt.ArrayLike = IDENTITY_POSE,
        inertia: npt.ArrayLike | None = None,
        gravity_scale: float = 1.0,
        linear_damping: float = 0.0,
        angular_damping: float = 0.0,
        max_linear_velocity: float = np.inf,
        max_angular_velocity: float = np.inf,
        cfm_scale: float = 0.025,
        name: str | None = None,
    ) -> int:
        """Adds a link and the joint to its parent.

        Args:
          parent: the parent's number as returned by this method, or its name; ``None`` for the
            root, which comes first.
          joint: the joint to the parent; ``None`` for the root. A composite joint first adds
            massless links of its own.
          mass: mass [kg], zero for a massless link.
          com_pose: mass frame in the link frame: position of the centre of mass [m], quaternion
            xyzw, shape [7].
          inertia: rotational inertia about the centre of mass in the axes of ``com_pose`` [kg m^2],
            shape [3, 3], or its diagonal, shape [3]; zero when ``None``.
          gravity_scale: factor on gravity for this link, 0 to disable it.
          linear_damping: rate at which stepping lets the linear velocity decay [1/s].
          angular_damping: rate at which stepping lets the angular velocity decay [1/s].
          max_linear_velocity: speed limit of the centre of mass in stepping [m/s], ``inf`` for
            none.
          max_angular_velocity: limit of the angular velocity in stepping [rad/s], ``inf`` for none.
          cfm_scale: PhysX's ``setCfmScale``: softens the solver's rows on this link's joint.
          name: the link's name; ``link_<number>`` when ``None``.

        Returns:
          The link's number, counted in the order of the calls.

        Raises:
          ValueError: a wrong shape, a non-finite number, a negative mass, damping or limit, an
            inertia that is not symmetric or has a negative moment (moments negative by rounding
            become zero), a duplicate name, an unknown parent; if the builder is strict, an inertia
            that breaks the triangle inequality or has no mass.
          TypeError: ``joint`` is not a joint.
        """
        name = f"link_{len(self._links)}" if name is None else name
        where = f"link {name!r}"
        first_joints: Sequence[Joint] = ()
        if isinstance(joint, CompositeJoint):
            *first_joints, joint = joint.named_joints(name)
        mass = number(mass, f"{where}: mass")
        if not (np.isfinite(mass) and mass >= 0.0):
            raise ValueError(f"{where}: mass must be finite and not negative [kg]; found {mass}")
        inertia = rotational_inertia(inertia, mass, where)
        problem = impossible_inertia(mass, inertia)
        if problem is not None and self.strict:
            raise ValueError(
                f"{where}: {problem}; correct it, or compute with it as given: "
                "ArticulationBuilder(strict=False)"
            )
        numbers = {
            "gravity_scale": gravity_scale,
            "linear_damping": linear_damping,
            "angular_damping": angular_damping,
            "max_linear_velocity": max_linear_velocity,
            "max_angular_velocity": max_angular_velocity,
            "cfm_scale": cfm_scale,
        }
        inertial = {
            "mass": mass,
            "com_pose": unit_pose(com_pose, f"{where}: com_pose"),
            "inertia": inertia,
        }
        checked = {key: link_number(key, value, where) for key, value in numbers.items()}
        count = len(self._links)
        if isinstance(parent, str):
            parent = link_index([each.name for each in self._links], parent, where)
        try:
            for part in first_joints:
                parent = self.add_link(parent, part, name=f"{name}:{part.name}")
            return self._append(parent, joint, name, numbers=checked, **inertial)
        except (TypeError, ValueError):  # A refused link leaves nothing behind.
            added = self._links[count:]
            self._names -= {link.name for link in added}
            self._joint_names -= {str(link.joint.name) for link in added}
            del self._links[count:]
            raise

    def _append(self, parent: int | None, joint: Joint | None, name: str, **parameters: Any) -> int:
        index = len(self._links)
        joint = self._checked_joint(parent, joint, name)
        self._names.add(name)
        if index:
            self._joint_names.add(str(joint.name))
        number = -1 if parent is None else int(parent)
        self._links.append(LinkParameters(name=name, parent=number, joint=joint, **parameters))
        return index

    def _checked_joint(self, parent: int | None, joint: Joint | None, name: str) -> Joint:
        """Checks a joint's place in the tree; returns it with a name and unit poses, or a fixed
        joint for the root.
        """
        where = f"link {name!r}"
        count = len(self._links)
        if name in self._names:
            raise ValueError(f"{where}: the name is taken; give every link its own name")
        if (parent is None) != (count == 0) or (parent is None) != (joint is None):
            raise ValueError(
                f"{where}: the first link is the root and has neither parent nor joint; every "
                "other link needs both"
            )
        if parent is not None and not (is_index(parent) and 0 <= parent < count):
            raise ValueError(
                f"{where}: parent {parent!r} is not a link yet; links so far are 0 to {count - 1}"
            )
        if joint is None:
            return Joint.fixed()
        if not isinstance(joint, Joint):
            raise TypeError(
                f"{where}: expected an artix.Joint or artix.CompositeJoint, found "
                f"{type(joint).__name__}"
            )
        joint = dataclasses.replace(
            joint,
            name=f"{name}_joint" if joint.name is None else joint.name,
            parent_pose=unit_pose(joint.parent_pose, f"{where}: joint.parent_pose"),
            child_pose=unit_pose(joint.child_pose, f"{where}: joint.child_pose"),
        )
        if joint.name in self._joint_names:
            raise ValueError(
                f"{where}: the joint name {joint.name!r} is taken; give every joint its own name"
            )
        return joint

    def add_frame(self, name: str, link: int | str, pose: npt.ArrayLike = IDENTITY_POSE) -> None:
        """Adds a named frame to a link.

        Args:
          name: the frame's name, unique among links and frames.
          link: the link's number as returned by :meth:`add_link`, or its name.
          pose: the frame in the link's frame, position [m] and quaternion xyzw, shape [7].

        Raises:
          ValueError: the name is taken, there is no such link, or the pose is malformed.
        """
        if name in self._names:
            raise ValueError(
                f"frame {name!r}: the name is taken; give every link and frame its own name"
            )
        index = link_index([each.name for each in self._links], link, f"frame {name!r}")
        self._frames.append((name, index, unit_pose(pose, f"frame {name!r}: pose")))
        self._names.add(name)

    def add_geometry(self, link: int | str, geometry: Geometry, name: str | None = None) -> None:
        """Adds a shape to a link; shapes are numbered link by link, and within a link in the order
        of the calls.

        Args:
          link: the link's number as returned by :meth:`add_link`, or its name.
          geometry: the shape.
          name: its name; ``<link>:<k>`` with the smallest unused k when ``None``.

        Raises:
          ValueError: there is no such link (the message lists the links), or the name is taken.
          TypeError: ``geometry`` is not a shape.
        """
        if not isinstance(geometry, Geometry):
            raise TypeError(f"geometry: expected artix.Geometry, found {type(geometry).__name__}")
        links = [each.name for each in self._links]
        known = [shape for shape, _, _ in self._geometries]
        self._geometries.append((*geometry_place(links, known, link, name), geometry))

    def add_geometry_pair(self, first: str, second: str) -> None:
        """Lets two shapes on links that move relative to each other collide, in steps with
        ``solver="implicit"``.

        Args:
          first: the name of a sphere, capsule or box. A sensor, on which the ground exerts no
            force, collides in its pairs like any other shape.
          second: the name of another; normals point from it towards the first.

        :meth:`build` raises ``ValueError`` if a name is unknown or the two cannot collide.
        """
        self._geometry_pairs.append((first, second))

    def add_mimic(
        self,
        follower: str,
        reference: str,
        gear_ratio: float,
        offset: float = 0.0,
        natural_frequency: float = 0.0,
        damping_ratio: float = 0.0,
    ) -> None:
        """Couples two DOFs by ``q_follower + gear_ratio q_reference + offset = 0``.

        Args:
          follower: name of a DOF (``topology.dof_names``), or of a joint with one DOF.
          reference: name of the DOF or joint to follow.
          gear_ratio: the negative of the follower's rate divided by the reference's.
          offset: constant term of the relation [rad or m].
          natural_frequency: of a compliant relation [rad/s]; 0 for a hard one.
          damping_ratio: of a compliant relation; 0 for a hard one.

        Raises:
          ValueError: a number is not finite, or negative where it must not be, or the follower is
            the reference.
        """
        self._mimics.append(
            MimicJoint(
                follower=follower,
                reference=reference,
                gear_ratio=gear_ratio,
                offset=offset,
                natural_frequency=natural_frequency,
                damping_ratio=damping_ratio,
            )
        )

    def add_fixed_tendon(self, tendon: FixedTendon) -> None:
        """Adds a tendon that couples joint positions; raises ``ValueError`` if its name is
        taken.
        """
        self._add_named(self._fixed_tendons, tendon, "fixed tendon")

    def add_spatial_tendon(self, tendon: SpatialTendon) -> None:
        """Adds a tendon that runs through points on links; raises ``ValueError`` if its name is
        taken.
        """
        self._add_named(self._spatial_tendons, tendon, "spatial tendon")

    def add_loop_joint(self, joint: LoopJoint) -> None:
        """Adds a joint that closes a loop; raises ``ValueError`` if its name is taken."""
        self._add_named(self._loop_joints, joint, "loop joint")

    def remove_loop_joint(self, name: str) -> None:
        """Removes a loop joint, PhysX's ``removeLoopJoint``; the others keep their order.

        Raises:
          KeyError: no loop joint has this name.
        """
        names = [joint.name for joint in self._loop_joints]
        if name not in names:
            raise KeyError(
                f"{self.name!r}: there is no loop joint {name!r}; there are "
                f"{', '.join(names) or 'none'}"
            )
        del self._loop_joints[names.index(name)]

    def _add_named(self, known: list, new: Any, kind: str) -> None:
        if new.name in (each.name for each in known):
            raise ValueError(
                f"{kind} {new.name!r}: the name is taken; give every {kind} its own name"
            )
        known.append(new)

    def build(self, dtype: Any = None) -> Articulation:
        """Builds the articulation.

        Args:
          dtype: floating-point type of the arrays; JAX's default (float32, or float64 in x64 mode)
            when ``None``.

        Raises:
          ValueError: no link was added; a joint's number is out of range; a mimic joint, tendon or
            loop joint names a link, joint or DOF that does not exist, or a joint that does not have
            exactly one DOF; or a pair of shapes cannot collide.
          TypeError: ``dtype`` is neither float32 nor, in JAX's x64 mode, float64.
        """
        dtype = jnp.result_type(float) if dtype is None else dtype
        check_floating(dtype)
        if not self._links:
            raise ValueError(f"{self.name!r}: there is no link; add the root with add_link()")
        order = self._breadth_first()
        number = {old: new for new, old in enumerate(order)}
        links = [self._links[old] for old in order]
        shapes = sorted(self._geometries, key=lambda named: number[named[1]])
        topology = Topology(
            parent=tuple(-1 if link.parent < 0 else number[link.parent] for link in links),
            joint_types=tuple(link.joint.type for link in links),
            joint_axes=tuple(link.joint.axes for link in links),
            fixed_base=self.fixed_base,
            link_names=tuple(link.name for link in links),
            joint_names=tuple(str(link.joint.name) for link in links[1:]),
            creation_index=tuple(order),
            frame_names=tuple(name for name, _, _ in self._frames),
            frame_links=tuple(number[link] for _, link, _ in self._frames),
            name=self.name,
        )
        topology = dataclasses.replace(
            topology,
            mimic_dofs=mimic_dofs(topology, self._mimics),
            fixed_tendons=tuple(fixed_tendon(topology, tendon) for tendon in self._fixed_tendons),
            spatial_tendons=tuple(
                spatial_tendon(topology, tendon) for tendon in self._spatial_tendons
            ),
            loop_joints=tuple(loop_joint(topology, joint) for joint in self._loop_joints),
            geometries=tuple(
                geometry.structure(name, number[link]) for name, link, geometry in shapes
            ),
        )
        topology = dataclasses.replace(
            topology, geometry_pairs=checked_pairs(topology, self._geometry_pairs)
        )
        parameters = link_parameters(links) | joint_parameters([link.joint for link in links])
        parameters |= {
            "gravity": self.gravity,
            "frame_local_pose": np.reshape([pose for _, _, pose in self._frames], (-1, 7)),
            "mimic": MimicJoints.of(self._mimics),
            "fixed_tendons": FixedTendons.of(self._fixed_tendons),
            "spatial_tendons": SpatialTendons.of(self._spatial_tendons),
            "loop_joints": LoopJoints.of(self._loop_joints),
            "geometry": Geometries.of([geometry for _, _, geometry in shapes]),
        }
        robot = without_zeros(Articulation(topology=topology, **parameters))
        return jax.tree.map(lambda leaf: device_array(leaf, dtype), robot)

    def _breadth_first(self) -> list[int]:
        children: list[list[int]] = [[] for _ in self._links]
        for index, link in enumerate(self._links[1:], start=1):
            children[link.parent].append(index)
        order = [0]
        for index in order:
            order += children[index]
        return order
