"""Building an articulation link by link, with every mistake refused where it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from artix.articulation import Articulation
from artix.joints import IDENTITY_POSE, Joint, JointType
from artix.topology import Topology

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclasses.dataclass(frozen=True)
class _Link:
    name: str
    parent: int
    joint: Joint
    mass: float
    com_pose: np.ndarray
    inertia: np.ndarray
    gravity_scale: float


class ArticulationBuilder:
    """Collects links and joints and builds an :class:`~artix.articulation.Articulation`.

    Links may be added in any order in which parents come first; ``build`` renumbers them breadth-first.

    Args:
      fixed_base: whether the root is fixed to the world.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3].
      name: the articulation's name.
    """

    def __init__(
        self, *, fixed_base: bool = False, gravity: npt.ArrayLike = STANDARD_GRAVITY, name: str = "articulation"
    ) -> None:
        self.name = name
        self.fixed_base = bool(fixed_base)
        self.gravity = _array(gravity, (3,), f"{name!r}: gravity")
        self._links: list[_Link] = []
        self._names: set[str] = set()
        self._joint_names: set[str] = set()
        self._frames: list[tuple[str, int, np.ndarray]] = []
        self._mimics: list[tuple[str, str, float, float]] = []

    def add_link(
        self,
        parent: int | None = None,
        joint: Joint | None = None,
        *,
        mass: float = 0.0,
        com_pose: npt.ArrayLike = IDENTITY_POSE,
        inertia: npt.ArrayLike | None = None,
        gravity_scale: float = 1.0,
        name: str | None = None,
    ) -> int:
        """Adds a link and the joint to its parent.

        Args:
          parent: the parent's number as returned by this method; ``None`` for the root, which comes first.
          joint: the joint to the parent; ``None`` for the root.
          mass: mass [kg], zero for a massless link.
          com_pose: mass frame in the link frame: position of the centre of mass [m], quaternion xyzw, shape [7].
          inertia: rotational inertia about the centre of mass in the axes of ``com_pose`` [kg m^2], shape [3, 3], or
            its diagonal, shape [3]; zero when ``None``.
          gravity_scale: factor on gravity for this link, 0 to disable it.
          name: the link's name; ``link_<number>`` when ``None``.

        Returns:
          The link's number in the order of creation.

        Raises:
          ValueError: a wrong shape, a non-finite number, a negative mass, an inertia that is not symmetric, not
            positive semi-definite or breaks the triangle inequality, a duplicate name, an unknown parent.
        """
        number = len(self._links)
        name = f"link_{number}" if name is None else name
        where = f"link {name!r}"
        if name in self._names:
            raise ValueError(f"{where}: the name is taken; give every link its own name")
        if (parent is None) != (number == 0) or (parent is None) != (joint is None):
            raise ValueError(
                f"{where}: the first link is the root and has neither parent nor joint; every other link needs both"
            )
        if parent is not None and not 0 <= parent < number:
            raise ValueError(f"{where}: parent {parent} is not a link yet; links so far are 0 to {number - 1}")
        inertia = _inertia(inertia, where)
        mass = float(mass)
        if not (np.isfinite(mass) and mass >= 0.0):
            raise ValueError(f"{where}: mass must be finite and not negative [kg]; found {mass}")
        if mass == 0.0 and np.any(inertia):
            raise ValueError(f"{where}: a link without mass cannot have inertia; found {inertia.tolist()}")
        joint = Joint.fixed() if joint is None else joint
        named = dataclasses.replace(
            joint,
            name=f"{name}_joint" if joint.name is None else joint.name,
            parent_pose=_pose(joint.parent_pose, f"{where}: joint.parent_pose"),
            child_pose=_pose(joint.child_pose, f"{where}: joint.child_pose"),
        )
        if number and named.name in self._joint_names:
            raise ValueError(f"{where}: the joint name {named.name!r} is taken; give every joint its own name")
        self._names.add(name)
        if number:
            self._joint_names.add(str(named.name))
        self._links.append(
            _Link(
                name=name,
                parent=-1 if parent is None else int(parent),
                joint=named,
                mass=mass,
                com_pose=_pose(com_pose, f"{where}: com_pose"),
                inertia=inertia,
                gravity_scale=float(_array(gravity_scale, (), f"{where}: gravity_scale")),
            )
        )
        return number

    def add_frame(self, name: str, link: int, pose: npt.ArrayLike = IDENTITY_POSE) -> None:
        """Adds a named frame that rides on ``link`` at ``pose`` (position, quaternion xyzw) in the link's frame."""
        if name in self._names:
            raise ValueError(f"frame {name!r}: the name is taken; give every link and frame its own name")
        if not 0 <= link < len(self._links):
            raise ValueError(f"frame {name!r}: link {link} is not a link; there are {len(self._links)}")
        self._frames.append((name, link, _pose(pose, f"frame {name!r}: pose")))
        self._names.add(name)

    def add_mimic(self, follower: str, reference: str, gear_ratio: float, offset: float = 0.0) -> None:
        """Couples two joints of one DOF by ``q_follower + gear_ratio q_reference + offset = 0``."""
        for value, label in ((gear_ratio, "gear_ratio"), (offset, "offset")):
            _array(value, (), f"mimic joint {follower!r}: {label}")
        if follower == reference:
            raise ValueError(f"mimic joint {follower!r}: a joint cannot follow itself")
        self._mimics.append((follower, reference, float(gear_ratio), float(offset)))

    def build(self, dtype: Any = None) -> Articulation:
        """Builds the articulation.

        Args:
          dtype: floating-point type of the arrays; JAX's default (float32, or float64 in x64 mode) when ``None``.

        Raises:
          ValueError: no link was added, or a mimic joint names a joint that is unknown or has not exactly one DOF.
        """
        if not self._links:
            raise ValueError(f"{self.name!r}: there is no link; add the root with add_link()")
        order = self._breadth_first()
        number = {old: new for new, old in enumerate(order)}
        links = [self._links[old] for old in order]
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
        topology = dataclasses.replace(topology, mimic_dofs=tuple(self._mimic_dofs(topology)))
        joints = [link.joint for link in links]
        per_dof = {
            "armature": _per_dof(joints, "armature", 0.0, np.inf),
            "max_joint_velocity": _per_dof(joints, "max_velocity", 0.0, np.inf),
            "max_joint_force": _per_dof(joints, "max_force", 0.0, np.inf),
            "joint_damping": _per_dof(joints, "damping", 0.0, np.inf),
            "joint_friction": _per_dof(joints, "friction", 0.0, np.inf),
        }
        limits = np.array([pair for joint in joints for pair in _limits(joint)]).reshape(-1, 2)
        arrays = {
            "link_mass": [link.mass for link in links],
            "link_com_pose": [link.com_pose for link in links],
            "link_inertia": [link.inertia for link in links],
            "joint_parent_pose": [joint.parent_pose for joint in joints],
            "joint_child_pose": [joint.child_pose for joint in joints],
            **per_dof,
            "joint_lower_limit": limits[:, 0],
            "joint_upper_limit": limits[:, 1],
            "gravity": self.gravity,
            "gravity_scale": [link.gravity_scale for link in links],
            "frame_local_pose": np.reshape([pose for _, _, pose in self._frames], (-1, 7)),
            "mimic_gear_ratio": [ratio for _, _, ratio, _ in self._mimics],
            "mimic_offset": [offset for _, _, _, offset in self._mimics],
        }
        dtype = jnp.zeros(()).dtype if dtype is None else dtype
        return Articulation(topology=topology, **{name: jnp.asarray(v, dtype) for name, v in arrays.items()})

    def _breadth_first(self) -> list[int]:
        children: list[list[int]] = [[] for _ in self._links]
        for number, link in enumerate(self._links[1:], start=1):
            children[link.parent].append(number)
        order = [0]
        for number in order:
            order += children[number]
        return order

    def _mimic_dofs(self, topology: Topology) -> list[tuple[int, int]]:
        pairs = []
        for follower, reference, _, _ in self._mimics:
            dofs = []
            for joint in (follower, reference):
                if joint not in topology.joint_names:
                    raise ValueError(f"mimic joint {follower!r}: there is no joint called {joint!r}")
                found = topology.dofs(joint)
                if found.stop - found.start != 1:
                    raise ValueError(f"mimic joint {follower!r}: joint {joint!r} must have exactly one DOF")
                dofs.append(found.start)
            pairs.append((dofs[0], dofs[1]))
        return pairs


def _array(value: npt.ArrayLike, shape: tuple[int, ...], where: str) -> np.ndarray:
    array = np.asarray(value, float)
    if array.shape != shape:
        raise ValueError(f"{where}: expected shape {shape}, found {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{where}: every number must be finite; found {array.tolist()}")
    return array


def _pose(value: npt.ArrayLike, where: str) -> np.ndarray:
    pose = _array(value, (7,), where)
    norm = float(np.linalg.norm(pose[3:]))
    if abs(norm - 1.0) > 1e-5:
        raise ValueError(f"{where}: the quaternion (xyzw) must have length 1; found length {norm:.6g}")
    return np.concatenate([pose[:3], pose[3:] / norm])


def _inertia(value: npt.ArrayLike | None, where: str) -> np.ndarray:
    if value is None:
        return np.zeros((3, 3))
    array = np.asarray(value, float)
    array = _array(np.diag(array) if array.shape == (3,) else array, (3, 3), f"{where}: inertia")
    size = np.abs(array).max()
    if np.abs(array - array.T).max() > 1e-9 * size:
        raise ValueError(f"{where}: the inertia must be symmetric; found {array.tolist()}")
    least, middle, largest = np.linalg.eigvalsh(array)
    # Recorded and CAD inertias carry float32 rounding, so both bounds give way by a few units of it.
    if least < -1e-6 * size or least + middle < largest * (1.0 - 1e-6):
        raise ValueError(
            f"{where}: no mass distribution has the principal inertias "
            f"({least:.6g}, {middle:.6g}, {largest:.6g}); they "
            "must not be negative and no one may exceed the sum of the others"
        )
    return 0.5 * (array + array.T)


def _per_dof(joints: Sequence[Joint], field: str, low: float, high: float) -> np.ndarray:
    values = []
    for joint in joints:
        count = len(joint.axes)
        value = np.asarray(getattr(joint, field), float)
        if value.shape not in ((), (count,)):
            raise ValueError(f"joint {joint.name!r}: {field} must be a number or have length {count}")
        if not np.all((value >= low) & (value <= high)):
            raise ValueError(f"joint {joint.name!r}: {field} must lie in [{low}, {high}]; found {value.tolist()}")
        values.append(np.broadcast_to(value, (count,)))
    return np.concatenate(values)


def _limits(joint: Joint) -> list[tuple[float, float]]:
    free = (-np.inf, np.inf)
    limits = [None] * len(joint.axes) if joint.limits is None else list(joint.limits)
    if len(limits) != len(joint.axes):
        raise ValueError(f"joint {joint.name!r}: limits must have one entry per free axis; found {len(limits)}")
    pairs = [free if pair is None else (float(pair[0]), float(pair[1])) for pair in limits]
    for low, high in pairs:
        if not low <= high:
            raise ValueError(f"joint {joint.name!r}: the lower limit {low} must not exceed the upper limit {high}")
        if joint.type is JointType.SPHERICAL and any(np.pi + 1e-6 < abs(x) < np.inf for x in (low, high)):
            raise ValueError(f"joint {joint.name!r}: limits of a spherical joint must lie within [-pi, pi]")
    return pairs
