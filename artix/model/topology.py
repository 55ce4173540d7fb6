"""The static part of an articulation: its tree, joint types, names and index arrays.

A tree consists of two kinds of parts. *Links* are what users name. *Bodies* are what moves: links
connected by fixed joints form one body, and body 0 contains the root. The algorithms run on bodies,
so links that only mark a place (sensors, flanges, shells) cost nothing. Pairs of shapes may collide
if their bodies move against each other.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from artix.compiler.argument_types import register_content
from artix.model.couplings import FixedTendonStructure, LoopJointStructure, SpatialTendonStructure
from artix.model.geometry import Geometry, GeometryStructure, GeometryType
from artix.model.hull_faces import MOST_POINTS
from artix.model.joints import Axis, JointType


def read_only(values, dtype) -> np.ndarray:
    """A read-only array."""
    array = np.asarray(values, dtype)
    array.setflags(write=False)
    return array


def level_schedule(parent: np.ndarray) -> tuple[np.ndarray, ...]:
    """Groups the nodes of a forest by depth: one index array per depth below the roots,
    ascending.
    """
    depth = np.zeros(len(parent), int)
    for node, above in enumerate(parent):
        depth[node] = 0 if above < 0 else depth[above] + 1
    return tuple(np.flatnonzero(depth == level) for level in range(1, depth.max(initial=0) + 1))


def pointer_table(parent: np.ndarray) -> np.ndarray:
    """The node with which each node is composed in each round of pointer jumping, shape
    [rounds, N].

    Entries are node numbers plus one; 0 stands for "no ancestor". After ceil(log2(depth + 1))
    rounds of ``x[i] = x[table[round, i]] * x[i]`` every node holds the product along its path from
    the root.
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


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """The static part of an articulation, hashed and compared by content.

    Articulations with equal topologies share one compilation of every function. Links are in
    breadth-first order from the root (link 0), siblings in the order in which they were added; the
    degrees of freedom (DOFs) follow the links and, within a joint, PhysX's axis order. All arrays
    are read-only NumPy arrays.

    Attributes:
      parent: parent link of each link, -1 for the root; length L.
      joint_types: type of each link's inbound joint, ``FIX`` for the root; length L.
      joint_axes: free axes of each link's inbound joint; length L.
      fixed_base: whether the root is fixed to the world.
      link_names: names of the links; length L.
      joint_names: names of the inbound joints of links 1 .. L-1; length L-1.
      creation_index: position of each link in the order of the ``add_link`` calls; length L.
      frame_names: names of the additional frames.
      frame_links: the link that each additional frame is fixed to.
      mimic_dofs: pairs (follower DOF, reference DOF), one per mimic joint.
      fixed_tendons: static structure of the fixed tendons.
      spatial_tendons: static structure of the spatial tendons.
      loop_joints: static structure of the joints that close loops.
      geometries: static structure of the shapes on links, ordered by the links.
      geometry_pairs: pairs of names of shapes that collide with each other.
      name: the articulation's name.
      drawn_shapes: names of links and shapes on them, as a viewer draws them where
        :func:`artix.select_geometry` left some out of contact; not compared, and lost in files.

    Examples:
      >>> topology = artix.robots.load("arm7").topology
      >>> print(topology.num_links, topology.num_dofs, topology.nv)
      9 7 7
      >>> print(topology.link_index("hand"), topology.dofs("elbow"))
      7 slice(3, 4, None)
      >>> print(topology == artix.robots.load("arm7").topology)  # by content
      True
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
    geometry_pairs: tuple[tuple[str, str], ...] = ()
    name: str = "articulation"
    drawn_shapes: tuple[tuple[str, Geometry], ...] = dataclasses.field(default=(), compare=False)

    # --- identity --------------------------------------------------------------------------------

    @cached_property
    def _content(self) -> tuple:
        return tuple(
            getattr(self, field.name) for field in dataclasses.fields(self) if field.compare
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self._content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, type(self))
            and self._hash == other._hash
            and self._content == other._content
        )

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: another process hashes names otherwise."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __repr__(self) -> str:
        base = "fixed" if self.fixed_base else "floating"
        return (
            f"{type(self).__name__}({self.name!r}, {base} base, {self.num_links} links, "
            f"{self.num_dofs} DOFs)"
        )

    # --- sizes and names -------------------------------------------------------------------------

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
        """0 for a fixed base, 6 for a floating one: the offset of the joint entries in a
        generalised velocity.
        """
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
        return _find(self.link_names, name, "link", self)

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
          KeyError: there is no such DOF, or the joint does not have exactly one; the message lists
            the DOFs.
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

    # --- degrees of freedom ----------------------------------------------------------------------

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
        """Whether each DOF is an angle of a wheel, a circle of 4 pi, if it has no stiffness and no
        limit, shape [n].

        Mimic joints and fixed tendons count the turns of the joints that they couple.
        """
        wheels = np.array(
            [self.joint_types[link] is JointType.REVOLUTE for link in self.dof_link], bool
        )
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

    # --- bodies ----------------------------------------------------------------------------------

    @cached_property
    def body_link(self) -> np.ndarray:
        """The link whose inbound joint moves each body (the root for body 0), shape [B]."""
        return read_only(
            [link for link, axes in enumerate(self.joint_axes) if link == 0 or axes], int
        )

    @property
    def num_bodies(self) -> int:
        """Number B of bodies, sets of links that cannot move relative to each other."""
        return len(self.body_link)

    @cached_property
    def link_body(self) -> np.ndarray:
        """The body of each link, shape [L]."""
        body = {int(link): index for index, link in enumerate(self.body_link)}
        result: list[int] = []
        for link, above in enumerate(self.parent):
            result.append(body[link] if link in body else result[above])
        return read_only(result, int)

    @cached_property
    def touching_geometries(self) -> tuple[int, ...]:
        """Indices of the shapes that can touch the ground: neither sensors nor fixed to the
        world.
        """
        return tuple(
            k
            for k, one in enumerate(self.geometries)
            if not one.sensor and not (self.fixed_base and self.link_body[one.link] == 0)
        )

    @cached_property
    def body_parent(self) -> np.ndarray:
        """Parent body of each body, -1 for body 0, shape [B]."""
        parents = [self.parent[link] for link in self.body_link]
        return read_only([-1 if above < 0 else self.link_body[above] for above in parents], int)

    @cached_property
    def body_parent_link(self) -> np.ndarray:
        """The link to which each body's joint attaches it, 0 for body 0, shape [B]."""
        return read_only([max(self.parent[link], 0) for link in self.body_link], int)

    @cached_property
    def dof_body(self) -> np.ndarray:
        """Body moved by each DOF, shape [n]."""
        return read_only(self.link_body[self.dof_link] if self.num_dofs else [], int)

    @cached_property
    def body_dofs(self) -> np.ndarray:
        """The DOFs of each body's joint, padded with ``num_dofs``, shape [3, B].

        Row k holds the DOF about axis k of a spherical joint; row 0 the only DOF of any other
        joint.
        """
        table = np.full((3, self.num_bodies), self.num_dofs)
        table[self.dof_column, self.dof_body] = np.arange(self.num_dofs)
        return read_only(table, int)

    @cached_property
    def link_in_body(self) -> np.ndarray:
        """``[l, b]``: whether link l is part of body b, shape [L, B]."""
        return read_only(self.link_body[:, None] == np.arange(self.num_bodies), bool)

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
        return read_only(
            [link > 0 and self.joint_types[link] in types for link in self.body_link], bool
        )

    @cached_property
    def body_is_revolute(self) -> np.ndarray:
        """Whether each body's joint has one rotation, helical joints included, shape [B]."""
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
    def dof_is_spherical(self) -> np.ndarray:
        """Whether each DOF belongs to a spherical joint, shape [n]."""
        return read_only(self.body_is_spherical[self.dof_body], bool)

    @cached_property
    def body_axis(self) -> np.ndarray:
        """Unit axis of each body's joint in the joint frame, shape [3, B]: the x axis if the joint
        is spherical.
        """
        axes = np.zeros(self.num_bodies, int)
        axes[self.dof_body] = np.where(self.dof_is_spherical, 0, self.dof_axis % 3)
        return read_only(np.eye(3)[:, axes], float)

    # --- masks and schedules ---------------------------------------------------------------------

    @cached_property
    def body_ancestors(self) -> np.ndarray:
        """``[a, b]``: whether body a is body b or one of its ancestors, shape [B, B]."""
        return read_only(ancestor_mask(self.body_parent), bool)

    @cached_property
    def dof_moves_body(self) -> np.ndarray:
        """``[d, b]``: whether DOF d moves body b, shape [n, B]."""
        return read_only(self.body_ancestors[self.dof_body], bool)

    @cached_property
    def dof_moves_link(self) -> np.ndarray:
        """``[d, l]``: whether DOF d moves link l, shape [n, L]."""
        return read_only(self.dof_moves_body[:, self.link_body], bool)

    @cached_property
    def dof_ancestors(self) -> np.ndarray:
        """``[d, e]``: whether DOF d moves the body that DOF e moves, shape [n, n]."""
        return read_only(self.dof_moves_body[:, self.dof_body], bool)

    @cached_property
    def bodies_below(self) -> np.ndarray:
        """Column 0 is true; ``[b, 1 + d]``: whether DOF d moves body b, shape [B, 1 + n]."""
        return read_only(
            np.concatenate([np.ones((self.num_bodies, 1), bool), self.dof_moves_body.T], axis=1),
            bool,
        )

    @cached_property
    def mass_matrix_halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the upper half (with the diagonal) and the lower half of the mass matrix may not be
        zero, [nv, nv].
        """
        mask = np.pad(
            self.dof_ancestors,
            ((self.num_base_dofs, 0), (self.num_base_dofs, 0)),
            constant_values=True,
        )
        return read_only(np.triu(mask), bool), read_only(np.triu(mask, 1).T, bool)

    @cached_property
    def body_levels(self) -> tuple[np.ndarray, ...]:
        """Bodies by depth below body 0."""
        return level_schedule(self.body_parent)

    @cached_property
    def rigid_parent(self) -> np.ndarray:
        """Parent of each link attached by a fixed joint, -1 for the first link of a body, shape
        [L].
        """
        heads = set(self.body_link.tolist())
        return read_only(
            [-1 if link in heads else above for link, above in enumerate(self.parent)], int
        )

    @cached_property
    def rigid_pointers(self) -> np.ndarray:
        """Pointer-jumping table over the links of each body, shape [rounds, L]; see
        :func:`pointer_table`.
        """
        return read_only(pointer_table(self.rigid_parent), int)

    @cached_property
    def link_is_rigid(self) -> np.ndarray:
        """Whether each link is attached to its parent by a fixed joint, shape [L]."""
        return read_only(self.rigid_parent >= 0, bool)


def frame_index(tree: Topology, name: str) -> tuple[int, int | None]:
    """The link that a frame is fixed to, and the frame's index among the additional frames.

    A link's name stands for its own frame, without an index; raises ``KeyError`` listing the known
    names.
    """
    if name in tree.frame_names:
        frame = tree.frame_names.index(name)
        return tree.frame_links[frame], frame
    known = tree.link_names + tree.frame_names
    return _find(known, name, "link or frame" if tree.frame_names else "link", tree), None


def _find(names: tuple[str, ...], name: str, kind: str, tree: Topology | None = None) -> int:
    """The index of a name. The tree is given where a joint's name may be meant for its link's, as
    Pinocchio has a frame for each joint.
    """
    if name in names:
        return names.index(name)
    joint = ""
    if tree is not None and name in tree.joint_names:
        link = tree.link_names[tree.joint_names.index(name) + 1]
        joint = f"the joint of this name moves link {link!r}; "
    raise KeyError(f"no {kind} called {name!r}; {joint}choose from: {', '.join(names) or 'none'}")


register_content(Topology, lambda topology: topology._content)


# --- pairs of shapes ----------------------------------------------------------------------------


def is_paired(shape: GeometryStructure | Geometry) -> bool:
    """Whether a shape can touch others."""
    return not refusal_of(shape)


def refusal_of(shape: GeometryStructure | Geometry) -> str:
    """Why a shape touches no other shape, and what to do."""
    if shape.type is not GeometryType.HULL:
        return ""
    structure = shape.structure("", 0) if isinstance(shape, Geometry) else shape
    if structure.num_points > MOST_POINTS:
        return (
            f"is a hull of {structure.num_points} points, and one of more than {MOST_POINTS} does "
            "not touch other shapes: give it fewer points, or add a hull of fewer as a sensor"
        )
    if not structure.faces.loops:
        return (
            "is a hull whose points are on a line, which does not touch other shapes: use a sphere "
            "or a capsule instead"
        )
    return ""


def checked_pairs(
    topology: Topology, pairs: Sequence[Sequence[str]]
) -> tuple[tuple[str, str], ...]:
    """Checks pairs of shape names and returns them as tuples.

    Raises:
      ValueError: a pair does not consist of two names, a name is unknown, the two do not move
        relative to each other, their distance cannot be computed, or a pair is given twice.
    """
    names = [shape.name for shape in topology.geometries]
    checked = []
    for pair in pairs:
        first, second = checked_shapes(pair, names, topology.geometries)
        links = [
            topology.geometries[topology.geometry_index(name)].link for name in (first, second)
        ]
        if topology.link_body[links[0]] == topology.link_body[links[1]]:
            raise ValueError(
                f"geometry_pairs: {first!r} and {second!r} do not move against each other"
            )
        if (first, second) in checked or (second, first) in checked:
            raise ValueError(f"geometry_pairs: {first!r} and {second!r} are given twice")
        checked.append((first, second))
    return tuple(checked)


def checked_shapes(
    pair: Sequence[str], names: Sequence[str], shapes: Sequence[GeometryStructure]
) -> tuple[str, str]:
    """The two names of a pair, both of shapes that have distances from each other.

    Raises:
      ValueError: there are not two names, one is unknown, or there is no distance between their
        kinds.
    """
    if isinstance(pair, str) or len(pair) != 2:
        raise ValueError(f"geometry_pairs: a pair has two names of shapes; found {pair!r}")
    for name in pair:
        if name not in names:
            raise ValueError(
                f"geometry_pairs: no geometry called {name!r}; choose from: {', '.join(names)}"
            )
        shape = shapes[list(names).index(name)]
        refusal = refusal_of(shape)
        if refusal:
            raise ValueError(f"geometry_pairs: {name!r} {refusal}")
    return pair[0], pair[1]


def candidate_pairs(topology: Topology) -> tuple[tuple[str, str], ...]:
    """All pairs of shapes that could collide, except on neighbouring bodies, whose shapes usually
    overlap.

    Two bodies are neighbours if one is the nearest ancestor of the other that has shapes. Sensors,
    and kinds of shapes without distances, are left out.
    """
    shapes = [shape for shape in topology.geometries if is_paired(shape) and not shape.sensor]
    bodies = [int(topology.link_body[shape.link]) for shape in shapes]
    above = {body: next((a for a in _above(topology, body) if a in bodies), -1) for body in bodies}
    return tuple(
        (shapes[j].name, shapes[k].name)
        for j, k in itertools.combinations(range(len(shapes)), 2)
        if bodies[j] != bodies[k]
        and above[bodies[j]] != bodies[k]
        and above[bodies[k]] != bodies[j]
    )


def _above(topology: Topology, body: int) -> Iterator[int]:
    """The ancestors of a body, nearest first."""
    while body > 0:
        body = int(topology.body_parent[body])
        yield body


def moving_pairs(topology: Topology) -> tuple[tuple[str, str], ...]:
    """The topology's pairs whose shapes still move relative to each other, after joints between
    them may be locked.
    """

    def body(name: str) -> int:
        return int(topology.link_body[topology.geometries[topology.geometry_index(name)].link])

    return tuple((a, b) for a, b in topology.geometry_pairs if body(a) != body(b))
