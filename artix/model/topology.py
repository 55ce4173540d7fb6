"""What is known of an articulation before any number flows: its tree, joint types, names and index arrays.

Two levels of parts appear here. *Links* are what users name. *Bodies* are what moves: the links that fixed joints
join rigidly make up one body, and body 0 holds the root. The algorithms run on bodies, so that the links that
only mark a place (sensors, flanges, shells) cost nothing.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

import jax
import numpy as np

from artix.model.couplings import LoopJointStructure
from artix.model.geometry import GeometryStructure
from artix.model.joints import Axis, JointType
from artix.model.tendons import FixedTendonStructure, SpatialTendonStructure


def _frozen(values, dtype) -> np.ndarray:
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
    """The nodes to compose with in each round of pointer jumping through a forest, shape [rounds, N].

    Entries are node numbers plus one; 0 stands for "nothing above". After ceil(log2(depth + 1)) rounds of
    ``x[i] = x[table[round, i]] * x[i]`` every node holds the product along its path.
    """
    pointer, rounds = np.asarray(parent, int) + 1, []
    while np.any(pointer):
        rounds.append(pointer)
        pointer = np.concatenate([[0], pointer])[pointer]
    return np.array(rounds, int).reshape(len(rounds), len(parent))


def ancestor_mask(parent: np.ndarray) -> np.ndarray:
    """``mask[a, b]`` tells whether node a is node b or above it."""
    mask = np.eye(len(parent), dtype=bool)
    for node, above in enumerate(parent):
        if above >= 0:
            mask[:, node] |= mask[:, above]
    return mask


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False)
class Topology:
    """The static part of an articulation, hashed and compared by content.

    Two articulations with equal topologies share one compilation of every function. Links are in breadth-first order
    from the root (link 0), siblings in the order in which they were added; the degrees of freedom (DOFs) follow the
    links and, within a joint, PhysX's axis order. All arrays are NumPy and read-only.

    Attributes:
      parent: parent link of each link, -1 for the root; length L.
      joint_types: type of each link's inbound joint, ``FIX`` for the root; length L.
      joint_axes: free axes of each link's inbound joint; length L.
      fixed_base: whether the root is fixed to the world.
      link_names: names of the links; length L.
      joint_names: names of the inbound joints of links 1 .. L-1; length L-1.
      creation_index: position of each link in the order in which the builder was given them; length L.
      frame_names: names of the additional frames that ride on links.
      frame_links: the link on which each additional frame rides.
      mimic_dofs: pairs (follower DOF, reference DOF), one per mimic joint.
      fixed_tendons: what is static of the fixed tendons.
      spatial_tendons: what is static of the spatial tendons.
      loop_joints: what is static of the joints that close loops.
      geometries: what is static of the shapes on links, ordered by the links.
      name: the articulation's name.
    """

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
    name: str = "articulation"

    # --- identity -----------------------------------------------------------------------------------------------

    @cached_property
    def _content(self) -> tuple:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @cached_property
    def _hash(self) -> int:
        return hash(self._content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Topology) and self._hash == other._hash and self._content == other._content

    def __repr__(self) -> str:
        base = "fixed" if self.fixed_base else "floating"
        return f"Topology({self.name!r}, {base} base, {self.num_links} links, {self.num_dofs} DOFs)"

    # A padded topology has these as data; here nothing is padded and the base is what ``fixed_base`` says.
    dof_is_live = None
    link_is_live = None
    base_is_free = None

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
        """The joint's name for joints of one DOF, ``joint:k`` with k the axis number for the others."""
        names = []
        for link in range(1, self.num_links):
            axes, joint = self.joint_axes[link], self.joint_names[link - 1]
            several = self.joint_types[link] is JointType.SPHERICAL
            names += [f"{joint}:{int(axis)}" if several else joint for axis in axes]
        return tuple(names)

    def link_index(self, name: str) -> int:
        """The index of the link called ``name``; raises ``KeyError`` with the known names."""
        return _find(self.link_names, name, "link")

    def dofs(self, joint: str) -> slice:
        """The slice of the DOFs of the joint called ``joint``, for joint-sized arrays [n].

        Add ``num_base_dofs`` to both ends for generalised velocities and forces [nv].
        """
        link = _find(self.joint_names, joint, "joint") + 1
        first = int(np.searchsorted(self.dof_link, link))
        return slice(first, first + len(self.joint_axes[link]))

    def dof_index(self, name: str) -> int:
        """The DOF called ``name``, or the one DOF of the joint called so.

        Raises:
          KeyError: there is none, or the joint has not exactly one DOF; the message lists the DOFs.
        """
        if name in self.joint_names:
            dofs = self.dofs(name)
            if dofs.stop - dofs.start != 1:
                known = ", ".join(self.dof_names[dofs]) or "none"
                raise KeyError(f"joint {name!r} must have exactly one DOF; its DOFs are: {known}")
            return dofs.start
        return _find(self.dof_names, name, "joint or DOF")

    def geometry_index(self, name: str) -> int:
        """The number of the shape called ``name``; raises ``KeyError`` with the known names."""
        return _find(tuple(one.name for one in self.geometries), name, "geometry")

    # --- degrees of freedom -------------------------------------------------------------------------------------

    @cached_property
    def dof_link(self) -> np.ndarray:
        """Link moved by each DOF, shape [n]."""
        return _frozen([link for link, axes in enumerate(self.joint_axes) for _ in axes], int)

    @cached_property
    def dof_axis(self) -> np.ndarray:
        """Axis number (:class:`~artix.Axis`) of each DOF in its joint frame, shape [n]."""
        return _frozen([int(axis) for axes in self.joint_axes for axis in axes], int)

    @cached_property
    def dof_column(self) -> np.ndarray:
        """Position of each DOF within its joint, shape [n]."""
        return _frozen([k for axes in self.joint_axes for k, _ in enumerate(axes)], int)

    @cached_property
    def dof_is_linear(self) -> np.ndarray:
        """Whether each DOF translates, shape [n]."""
        return _frozen(self.dof_axis >= int(Axis.X), bool)

    @cached_property
    def dof_wraps(self) -> np.ndarray:
        """Whether each DOF is an angle that ``integrate`` keeps within [-2 pi, 2 pi], shape [n]."""
        return _frozen([self.joint_types[link] is JointType.REVOLUTE for link in self.dof_link], bool)

    @cached_property
    def dof_parent_link(self) -> np.ndarray:
        """Link on which the joint of each DOF sits, shape [n]."""
        return _frozen(np.array(self.parent)[self.dof_link], int)

    @cached_property
    def dof_is_one_of_several(self) -> np.ndarray:
        """Whether each DOF's joint has others, as spherical joints may, shape [n]."""
        return _frozen([len(self.joint_axes[link]) > 1 for link in self.dof_link], bool)

    @cached_property
    def link_ancestors(self) -> np.ndarray:
        """``[a, b]``: whether link a is link b or above it, shape [L, L]."""
        return _frozen(ancestor_mask(np.array(self.parent)), bool)

    @cached_property
    def depth_first_dofs(self) -> np.ndarray:
        """The DOFs in depth-first order of their links, children by index: the order of PhysX's solver, shape [n]."""
        children: list[list[int]] = [[] for _ in self.parent]
        for link, above in enumerate(self.parent[1:], start=1):
            children[above].append(link)
        order, stack = [], [0]
        while stack:
            link = stack.pop()
            order += np.flatnonzero(self.dof_link == link).tolist()
            stack += reversed(children[link])
        return _frozen(order, int)

    # --- bodies -------------------------------------------------------------------------------------------------

    @cached_property
    def body_link(self) -> np.ndarray:
        """The link whose inbound joint moves each body (the root for body 0), shape [B]."""
        return _frozen([link for link, axes in enumerate(self.joint_axes) if link == 0 or axes], int)

    @property
    def num_bodies(self) -> int:
        """Number B of bodies: sets of links without freedom between them."""
        return len(self.body_link)

    @cached_property
    def link_body(self) -> np.ndarray:
        """The body of each link, shape [L]."""
        body = {int(link): index for index, link in enumerate(self.body_link)}
        result: list[int] = []
        for link, above in enumerate(self.parent):
            result.append(body[link] if link in body else result[above])
        return _frozen(result, int)

    @cached_property
    def body_parent(self) -> np.ndarray:
        """Parent body of each body, -1 for body 0, shape [B]."""
        parents = [self.parent[link] for link in self.body_link]
        return _frozen([-1 if above < 0 else self.link_body[above] for above in parents], int)

    @cached_property
    def body_parent_link(self) -> np.ndarray:
        """The link to which each body's joint attaches it, 0 for body 0, shape [B]."""
        return _frozen([max(self.parent[link], 0) for link in self.body_link], int)

    @cached_property
    def dof_body(self) -> np.ndarray:
        """Body moved by each DOF, shape [n]."""
        return _frozen(self.link_body[self.dof_link] if self.num_dofs else [], int)

    @cached_property
    def body_dofs(self) -> np.ndarray:
        """The DOFs of each body's joint by place within the joint, ``num_dofs`` where there is none, shape [3, B]."""
        table = np.full((3, self.num_bodies), self.num_dofs)
        table[self.dof_column, self.dof_body] = np.arange(self.num_dofs)
        return _frozen(table, int)

    @cached_property
    def link_in_body(self) -> np.ndarray:
        """``[l, b]``: whether link l is part of body b, shape [L, B]."""
        return _frozen(self.link_body[:, None] == np.arange(self.num_bodies), bool)

    @property
    def has_rigid_links(self) -> bool:
        """Whether any body has several links."""
        return self.num_bodies < self.num_links

    @property
    def has_spherical(self) -> bool:
        """Whether any joint is spherical."""
        return JointType.SPHERICAL in self.joint_types

    @property
    def has_prismatic(self) -> bool:
        """Whether any joint is prismatic."""
        return JointType.PRISMATIC in self.joint_types

    @property
    def has_helical(self) -> bool:
        """Whether any joint is helical."""
        return JointType.HELICAL in self.joint_types

    def _bodies_of(self, *types: JointType) -> np.ndarray:
        return _frozen([link > 0 and self.joint_types[link] in types for link in self.body_link], bool)

    @cached_property
    def body_is_revolute(self) -> np.ndarray:
        """Whether each body's joint has one rotation, of a screw or by itself, shape [B]."""
        return self._bodies_of(JointType.REVOLUTE, JointType.REVOLUTE_UNWRAPPED, JointType.HELICAL)

    @cached_property
    def body_is_prismatic(self) -> np.ndarray:
        """Whether each body's joint has one translation, shape [B]."""
        return self._bodies_of(JointType.PRISMATIC)

    @cached_property
    def body_is_helical(self) -> np.ndarray:
        """Whether each body's joint is helical, shape [B]."""
        return self._bodies_of(JointType.HELICAL)

    @cached_property
    def body_is_spherical(self) -> np.ndarray:
        """Whether each body's joint is spherical, shape [B]."""
        return self._bodies_of(JointType.SPHERICAL)

    @cached_property
    def body_axes(self) -> np.ndarray:
        """Quaternion that turns each body's joint frame so that its free axes come first, shape [4, B]."""
        turns = [AXES_FIRST[tuple(int(axis) % 3 for axis in self.joint_axes[link])] for link in self.body_link]
        return _frozen(np.transpose(turns), float)

    # --- masks and schedules ------------------------------------------------------------------------------------

    @cached_property
    def body_ancestors(self) -> np.ndarray:
        """``[a, b]``: whether body a is body b or above it, shape [B, B]."""
        return _frozen(ancestor_mask(self.body_parent), bool)

    @cached_property
    def dof_moves_body(self) -> np.ndarray:
        """``[d, b]``: whether DOF d moves body b, shape [n, B]."""
        return _frozen(self.body_ancestors[self.dof_body], bool)

    @cached_property
    def dof_moves_link(self) -> np.ndarray:
        """``[d, l]``: whether DOF d moves link l, shape [n, L]."""
        return _frozen(self.dof_moves_body[:, self.link_body], bool)

    @cached_property
    def dof_ancestors(self) -> np.ndarray:
        """``[d, e]``: whether DOF d moves the body that DOF e moves, shape [n, n]."""
        return _frozen(self.dof_moves_body[:, self.dof_body], bool)

    @cached_property
    def bodies_below(self) -> np.ndarray:
        """``[b, 0]`` is true and ``[b, 1 + d]`` tells whether DOF d moves body b, shape [B, 1 + n]."""
        return _frozen(np.concatenate([np.ones((self.num_bodies, 1), bool), self.dof_moves_body.T], axis=1), bool)

    @cached_property
    def mass_matrix_halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the upper half (with the diagonal) and the lower half of the mass matrix may not be zero, [nv, nv]."""
        mask = np.pad(self.dof_ancestors, ((self.num_base_dofs, 0), (self.num_base_dofs, 0)), constant_values=True)
        return _frozen(np.triu(mask), bool), _frozen(np.triu(mask, 1).T, bool)

    @cached_property
    def body_levels(self) -> tuple[np.ndarray, ...]:
        """Bodies by depth below body 0."""
        return level_schedule(self.body_parent)

    @cached_property
    def rigid_parent(self) -> np.ndarray:
        """Parent of each link that a fixed joint attaches, -1 for the head of a body, shape [L]."""
        heads = set(self.body_link.tolist())
        return _frozen([-1 if link in heads else above for link, above in enumerate(self.parent)], int)

    @cached_property
    def rigid_pointers(self) -> np.ndarray:
        """Pointer-jumping table over the links of each body, shape [rounds, L]; see :func:`pointer_table`."""
        return _frozen(pointer_table(self.rigid_parent), int)

    @cached_property
    def link_is_rigid(self) -> np.ndarray:
        """Whether a fixed joint attaches each link to its parent, shape [L]."""
        return _frozen(self.rigid_parent >= 0, bool)


_HALF = 0.5
_ROOT_HALF = float(np.sqrt(0.5))

#: For each set of free axes of a joint frame, the quaternion (xyzw) of the frame whose first axes they are.
AXES_FIRST: dict[tuple[int, ...], tuple[float, float, float, float]] = {
    (): (0.0, 0.0, 0.0, 1.0),
    (0,): (0.0, 0.0, 0.0, 1.0),
    (1,): (_HALF, _HALF, _HALF, _HALF),
    (2,): (-_HALF, -_HALF, -_HALF, _HALF),
    (0, 1): (0.0, 0.0, 0.0, 1.0),
    (1, 2): (_HALF, _HALF, _HALF, _HALF),
    (0, 2): (_ROOT_HALF, 0.0, 0.0, _ROOT_HALF),
    (0, 1, 2): (0.0, 0.0, 0.0, 1.0),
}


def _find(names: tuple[str, ...], name: str, kind: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise KeyError(f"no {kind} called {name!r}; there are: {', '.join(names)}") from None
