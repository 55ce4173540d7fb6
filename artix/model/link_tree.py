"""Links, joints and degrees of freedom: names, index arrays, and which DOF moves which link."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from artix.model.couplings import LoopJointStructure
from artix.model.geometry import Geometry, GeometryStructure
from artix.model.joints import Axis, JointType
from artix.model.tendons import FixedTendonStructure, SpatialTendonStructure


def read_only(values, dtype) -> np.ndarray:
    """A read-only array."""
    array = np.asarray(values, dtype)
    array.setflags(write=False)
    return array


def level_schedule(parent: np.ndarray) -> tuple[np.ndarray, ...]:
    """Groups the nodes of a forest by depth: one index array per depth below the roots, ascending."""
    depth = np.zeros(len(parent), int)
    for node, above in enumerate(parent):
        depth[node] = 0 if above < 0 else depth[above] + 1
    return tuple(np.flatnonzero(depth == level) for level in range(1, depth.max(initial=0) + 1))


def pointer_table(parent: np.ndarray) -> np.ndarray:
    """The node with which each node is composed in each round of pointer jumping, shape [rounds, N].

    Entries are node numbers plus one; 0 stands for "no ancestor". After ceil(log2(depth + 1)) rounds of
    ``x[i] = x[table[round, i]] * x[i]`` every node holds the product along its path from the root.
    """
    pointer = np.asarray(parent, int) + 1
    rounds = []
    while np.any(pointer):
        rounds.append(pointer)
        pointer = np.concatenate([[0], pointer])[pointer]
    return np.array(rounds, int).reshape(len(rounds), len(parent))


def ancestor_mask(parent: np.ndarray) -> np.ndarray:
    """``mask[a, b]``: whether node a is node b or one of its ancestors."""
    mask = np.eye(len(parent), dtype=bool)
    for node, above in enumerate(parent):
        if above >= 0:
            mask[:, node] |= mask[:, above]
    return mask


@dataclasses.dataclass(frozen=True, eq=False)
class LinkTree:
    """The part of :class:`~artix.Topology` that describes links, joints and degrees of freedom; its base class."""

    parent: tuple[int, ...]
    joint_types: tuple[JointType, ...]
    joint_axes: tuple[tuple[Axis, ...], ...]
    fixed_base: bool
    link_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    creation_index: tuple[int, ...]
    frame_names: tuple[str, ...] = ()
    frame_links: tuple[int, ...] = ()
    mimic_dofs: tuple[tuple[int, int], ...] = ()
    fixed_tendons: tuple[FixedTendonStructure, ...] = ()
    spatial_tendons: tuple[SpatialTendonStructure, ...] = ()
    loop_joints: tuple[LoopJointStructure, ...] = ()
    geometries: tuple[GeometryStructure, ...] = ()
    geometry_pairs: tuple[tuple[str, str], ...] = ()
    name: str = "articulation"
    drawn_shapes: tuple[tuple[str, Geometry], ...] = dataclasses.field(default=(), compare=False)

    # --- identity -----------------------------------------------------------------------------------------------

    @cached_property
    def _content(self) -> tuple:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)

    @cached_property
    def _hash(self) -> int:
        return hash(self._content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, type(self)) and self._hash == other._hash and self._content == other._content

    def __repr__(self) -> str:
        base = "fixed" if self.fixed_base else "floating"
        return f"{type(self).__name__}({self.name!r}, {base} base, {self.num_links} links, {self.num_dofs} DOFs)"

    # --- sizes and names ----------------------------------------------------------------------------------------

    @property
    def num_links(self) -> int:
        """Number of links L, the root included."""
        return len(self.parent)

    @property
    def num_dofs(self) -> int:
        """Number n of joint degrees of freedom."""
        return len(self.dof_link)

    @property
    def num_base_dofs(self) -> int:
        """0 for a fixed base, 6 for a floating one: the offset of the joint entries in a generalised velocity."""
        return 0 if self.fixed_base else 6

    @property
    def nv(self) -> int:
        """Length of the generalised velocity: ``num_base_dofs + num_dofs``."""
        return self.num_base_dofs + self.num_dofs

    @cached_property
    def dof_names(self) -> tuple[str, ...]:
        """The joint's name, or ``joint:k`` with the axis number k for spherical joints."""
        names = []
        for link in range(1, self.num_links):
            axes = self.joint_axes[link]
            joint = self.joint_names[link - 1]
            several = self.joint_types[link] is JointType.SPHERICAL
            names += [f"{joint}:{int(axis)}" if several else joint for axis in axes]
        return tuple(names)

    def link_index(self, name: str) -> int:
        """The index of the link called ``name``; raises ``KeyError`` listing the known names."""
        return _find(self.link_names, name, "link")

    def dofs(self, joint: str) -> slice:
        """The slice of the DOFs of the joint called ``joint``, for joint-sized arrays [n].

        Add ``num_base_dofs`` to both ends for generalised velocities and forces [nv].
        """
        link = _find(self.joint_names, joint, "joint") + 1
        first = int(np.searchsorted(self.dof_link, link))
        return slice(first, first + len(self.joint_axes[link]))

    def dof_index(self, name: str) -> int:
        """The DOF called ``name``, or the only DOF of the joint with that name.

        Raises:
          KeyError: there is no such DOF, or the joint does not have exactly one; the message lists the DOFs.
        """
        if name in self.joint_names:
            dofs = self.dofs(name)
            if dofs.stop - dofs.start != 1:
                known = ", ".join(self.dof_names[dofs]) or "none"
                raise KeyError(f"joint {name!r} must have exactly one DOF; its DOFs are: {known}")
            return dofs.start
        return _find(self.dof_names, name, "joint or DOF")

    def geometry_index(self, name: str) -> int:
        """The index of the shape called ``name``; raises ``KeyError`` listing the known names."""
        return _find(tuple(shape.name for shape in self.geometries), name, "geometry")

    def geometry_links(self, geometries: Sequence[int]) -> np.ndarray:
        """The links of shapes with these indices, shape [K]."""
        return np.array([self.geometries[k].link for k in geometries], int)

    # --- degrees of freedom -------------------------------------------------------------------------------------

    @cached_property
    def dof_link(self) -> np.ndarray:
        """Link moved by each DOF, shape [n]."""
        return read_only([link for link, axes in enumerate(self.joint_axes) for _ in axes], int)

    @cached_property
    def dof_axis(self) -> np.ndarray:
        """Axis number (:class:`~artix.Axis`) of each DOF in its joint frame, shape [n]."""
        return read_only([int(axis) for axes in self.joint_axes for axis in axes], int)

    @cached_property
    def dof_column(self) -> np.ndarray:
        """The axis (0, 1 or 2) of each DOF of a spherical joint, 0 for other DOFs, shape [n]."""
        spherical = [self.joint_types[link] is JointType.SPHERICAL for link in self.dof_link]
        return read_only(np.where(spherical, self.dof_axis, 0), int)

    @cached_property
    def dof_is_linear(self) -> np.ndarray:
        """Whether each DOF translates, shape [n]."""
        return read_only(self.dof_axis >= int(Axis.X), bool)

    @cached_property
    def dof_wraps(self) -> np.ndarray:
        """Whether each DOF is an angle of a wheel, a circle of 4 pi, if it has no stiffness and no limit, shape [n].

        Mimic joints and fixed tendons count the turns of the joints that they couple.
        """
        wheels = np.array([self.joint_types[link] is JointType.REVOLUTE for link in self.dof_link], bool)
        wheels[[dof for pair in self.mimic_dofs for dof in pair]] = False
        wheels[[dof for tendon in self.fixed_tendons for dof in tendon.dofs]] = False
        return read_only(wheels, bool)

    @cached_property
    def dof_parent_link(self) -> np.ndarray:
        """Parent link of the joint of each DOF, shape [n]."""
        return read_only(np.array(self.parent)[self.dof_link], int)

    @cached_property
    def dof_is_one_of_several(self) -> np.ndarray:
        """Whether each DOF's joint has several DOFs, as spherical joints may, shape [n]."""
        return read_only([len(self.joint_axes[link]) > 1 for link in self.dof_link], bool)

    @cached_property
    def link_ancestors(self) -> np.ndarray:
        """``[a, b]``: whether link a is link b or one of its ancestors, shape [L, L]."""
        return read_only(ancestor_mask(np.array(self.parent)), bool)

    @cached_property
    def depth_first_links(self) -> np.ndarray:
        """The links in depth-first order, children by index, shape [L]."""
        children: list[list[int]] = [[] for _ in self.parent]
        for link, above in enumerate(self.parent[1:], start=1):
            children[above].append(link)
        order = []
        stack = [0]
        while stack:
            link = stack.pop()
            order.append(link)
            stack += reversed(children[link])
        return read_only(order, int)

    @cached_property
    def depth_first_dofs(self) -> np.ndarray:
        """The DOFs in depth-first order of their links: the order of PhysX's solver, shape [n]."""
        order = [np.flatnonzero(self.dof_link == link) for link in self.depth_first_links]
        return read_only(np.concatenate(order), int)


def frame_index(tree: LinkTree, name: str) -> tuple[int, int | None]:
    """The link that a frame is fixed to, and the frame's index among the additional frames.

    A link's name stands for its own frame, without an index; raises ``KeyError`` listing the known names.
    """
    if name in tree.frame_names:
        frame = tree.frame_names.index(name)
        return tree.frame_links[frame], frame
    known = tree.link_names + tree.frame_names
    return _find(known, name, "link or frame" if tree.frame_names else "link"), None


def _find(names: tuple[str, ...], name: str, kind: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise KeyError(f"no {kind} called {name!r}; choose from: {', '.join(names) or 'none'}") from None
