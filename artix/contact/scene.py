"""A scene: robots and objects, the ground, and what may touch what.

A step, a rollout and everything else that involves contact take a scene. An articulation is a scene
of one without a ground. The state of a scene has the structure of its robots: a
:class:`~artix.State` for one robot, a dictionary of states for robots by name. So do controls and
reports.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.argument_types import register_parameters
from artix.contact.ground import Ground, Plane, check_ground
from artix.contact.height_field import HeightField
from artix.contact.materials import COMBINATIONS_OF_SHAPES, Combination, check_combination
from artix.kinematics.contact_points import moves_links
from artix.math import struct
from artix.model.articulation import Articulation, State
from artix.model.checks import check_count, check_state, check_type, check_vector
from artix.model.geometry import GeometryStructure, GeometryType
from artix.model.hull_faces import HullFaces
from artix.model.states import neutral_state
from artix.model.topology import Topology, checked_shapes

Array = jax.Array

_Function = TypeVar("_Function", bound=Callable[..., Any])


#: The attributes of a scene that limit contacts.
BUDGETS = "max_contacts_per_geometry", "max_ground_contacts", "max_link_contacts"


class Scene(struct.PyTreeNode):
    """Robots and objects in one world, with the ground and the pairs of shapes that may touch.

    Every robot keeps its own parameters and numbering. A free object is a robot with a floating
    base and one link. A scene is a pytree like an articulation: parameters of robots and ground are
    leaves that can be replaced, batched and differentiated; names, pairs and budgets are static.

    Attributes:
      articulations: the robots, as a tuple. To the constructor, give one articulation, whose scene
        has the plain state, controls and reports of a robot, or a dictionary of articulations by
        name, one of which may stand under several names. States, controls and reports are then
        dictionaries with these names.
      ground: what the robots stand on; ``None`` for nothing.
      pairs: the shapes of different robots that touch each other, as ``"robot/shape"``, static. A
        robot's own pairs (:func:`artix.select_geometry_pairs`) act as well.
      max_contacts_per_geometry: the largest number of contacts between one shape and one surface of
        the ground, static; the nearest are kept. ``None`` for all, which are 8 for a box, and 3
        for a sphere on a height field: with 1, other sides of a groove are not sought, nor counted
        as omitted.
      max_ground_contacts: the largest number of contacts of one robot with the ground, static; the
        nearest of all its shapes are kept. ``None`` for all.
      max_link_contacts: the largest number of contacts between shapes of robots, static; the
        nearest are kept. ``None`` for all candidates: one for a pair with a sphere, two with a
        capsule, four for boxes.
      friction_combination: how to combine the friction of two shapes, static: ``max`` as in MuJoCo
        (the default), ``average`` as in PhysX, ``min`` or ``multiply``. The ground has its own.
      restitution_combination: the same for restitution.
      pair_friction: the coefficients of the pairs in ``geometry_pairs``, where they are no
        combination of those of the shapes, as by ``priority`` or ``<pair>`` of an MJCF, [P]; an
        array that can be replaced, batched and differentiated. ``None`` combines them.
      names: the robots' names, static; empty for a scene of one articulation. Not for the
        constructor.

    Raises:
      ValueError: there is no robot, a name is empty or has a slash, a shape is unknown or cannot
        touch, both shapes of a pair belong to one robot or cannot move, a pair is given twice, a
        budget is less than 1, or there is no such way to combine two shapes.
      TypeError: the robots are neither an articulation nor articulations by name, dtypes differ, or
        the ground is no :class:`Ground`.

    Examples:
      >>> quadruped = artix.robots.load("quadruped")
      >>> scene = artix.Scene(quadruped, ground=artix.Ground.flat(friction=0.8))
      >>> state = artix.step(scene, artix.neutral_state(quadruped), None, 0.005)
      >>> builder = artix.ArticulationBuilder(name="cube")
      >>> _ = builder.add_link(mass=0.2, inertia=(8e-5, 8e-5, 8e-5), name="cube")
      >>> builder.add_geometry(
      ...     "cube", artix.Geometry.box((0.03, 0.03, 0.03), friction=0.8), name="cube"
      ... )
      >>> cube = builder.build()
      >>> scene = artix.Scene({"lower": cube, "upper": cube}, pairs=[("upper/cube", "lower/cube")])
      >>> print(scene.names, scene.geometry_names)
      ('lower', 'upper') ('lower/cube', 'upper/cube')
      >>> print(scene["upper"].link_mass)
      [0.2]
    """

    articulations: tuple[Articulation, ...]
    ground: Ground | None = None
    pairs: tuple[tuple[str, str], ...] = struct.field(pytree_node=False, default=())
    max_contacts_per_geometry: int | None = struct.field(pytree_node=False, default=None)
    max_ground_contacts: int | None = struct.field(pytree_node=False, default=None)
    max_link_contacts: int | None = struct.field(pytree_node=False, default=None)
    friction_combination: Combination = struct.field(pytree_node=False, default="max")
    restitution_combination: Combination = struct.field(pytree_node=False, default="max")
    pair_friction: Array | None = None
    names: tuple[str, ...] = struct.field(pytree_node=False, default=())

    if (
        TYPE_CHECKING
    ):  # What the constructor makes of its arguments is more special than what it takes.

        def __init__(
            self,
            articulations: Articulation | Mapping[str, Articulation] | tuple[Articulation, ...],
            ground: Ground | None = None,
            pairs: Sequence[tuple[str, str]] = (),
            max_contacts_per_geometry: int | None = None,
            max_ground_contacts: int | None = None,
            max_link_contacts: int | None = None,
            friction_combination: Combination = "max",
            restitution_combination: Combination = "max",
            pair_friction: Array | None = None,
            names: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check_static()
        members: Any = self.articulations
        is_complete = isinstance(members, tuple) and len(members) == max(1, len(self.names))
        if is_complete or members is None:
            if isinstance(self.pairs, tuple):
                return  # JAX puts together what was checked, perhaps without arrays.
        elif isinstance(members, Articulation):
            self._set(articulations=(members,), names=())
        else:
            _check_members(members)
            self._set(articulations=tuple(members.values()), names=tuple(members))
        if self.ground is not None:
            check_ground(self.ground)
        self._set(pairs=self._checked(self.pairs))

    def _check_static(self) -> None:
        """Also what ``replace`` changes."""
        for name in BUDGETS:
            if getattr(self, name) is not None:
                check_count(
                    name, getattr(self, name), hint="; to exclude a shape, make it a sensor"
                )
        for name in ("friction_combination", "restitution_combination"):
            check_combination(name, getattr(self, name), COMBINATIONS_OF_SHAPES)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls, members: Mapping[str, Articulation], pairs: Sequence[tuple[str, str]] = ()
    ) -> Scene:
        """The former constructor of scenes; write ``Scene(members, pairs=pairs)``."""
        warnings.warn("Scene.of is now Scene(members, pairs=...)", DeprecationWarning, stacklevel=2)
        return cls(members, pairs=pairs)

    def _checked(self, pairs: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
        checked: list[tuple[str, str]] = []
        for pair in pairs:
            first, second = checked_shapes(pair, self.geometry_names, self.geometries)
            if first.split("/")[0] == second.split("/")[0] or not self.names:
                raise ValueError(
                    f"pairs: {first!r} and {second!r} belong to one robot; choose its own pairs by "
                    "artix.select_geometry_pairs before it joins the scene"
                )
            if not any(self._can_move(name) for name in (first, second)):
                raise ValueError(
                    f"pairs: {first!r} and {second!r} do not move against each other: both are on "
                    "fixed bases"
                )
            if (first, second) in checked or (second, first) in checked:
                raise ValueError(f"pairs: {first!r} and {second!r} are given twice")
            checked.append((first, second))
        return tuple(checked)

    def _can_move(self, name: str) -> bool:
        """Whether the link of a shape called ``"robot/shape"`` can move."""
        robot, shape = name.split("/", 1)
        tree = self[robot].topology
        link = tree.geometries[tree.geometry_index(shape)].link
        return not (tree.fixed_base and tree.link_body[link] == 0)

    def __getitem__(self, name: str) -> Articulation:
        """The robot called ``name``; raises ``KeyError`` with the known names."""
        if name not in self.names:
            raise KeyError(f"no robot called {name!r}; choose from: {', '.join(self.names)}")
        return self.articulations[self.names.index(name)]

    @property
    def topologies(self) -> tuple[Topology, ...]:
        """The robots' topologies."""
        return tuple(member.topology for member in self.articulations)

    @property
    def dtype(self) -> Any:
        """The floating-point type of the parameters."""
        return self.articulations[0].dtype

    def astype(self, dtype: Any) -> Scene:
        """The same scene with every array in ``dtype``, as :meth:`artix.Articulation.astype`."""
        members = tuple(member.astype(dtype) for member in self.articulations)
        ground = None if self.ground is None else self.ground.astype(dtype)
        friction = None if self.pair_friction is None else self.pair_friction.astype(dtype)
        return self.replace(articulations=members, ground=ground, pair_friction=friction)

    @property
    def link_names(self) -> tuple[str, ...]:
        """``"robot/link"`` of all links, numbered robot after robot; plain names in a scene of
        one.
        """
        return self._prefixed([tree.link_names for tree in self.topologies])

    @property
    def geometry_names(self) -> tuple[str, ...]:
        """``"robot/shape"`` of all shapes, numbered robot after robot; plain names in a scene of
        one.
        """
        return self._prefixed(
            [[shape.name for shape in tree.geometries] for tree in self.topologies]
        )

    @property
    def geometries(self) -> tuple[GeometryStructure, ...]:
        """The static structures of all shapes, robot after robot."""
        return sum((tree.geometries for tree in self.topologies), ())

    def _prefixed(self, parts: Sequence[Sequence[str]]) -> tuple[str, ...]:
        if not self.names:
            return tuple(parts[0])
        return tuple(
            f"{name}/{part}"
            for name, names in zip(self.names, parts, strict=True)
            for part in names
        )

    @property
    def shape_pairs(self) -> ShapePairs:
        """``geometry_pairs`` by numbers."""
        names = self.geometry_names
        across = [(names.index(a), names.index(b)) for a, b in self.pairs]
        return ShapePairs.of(
            self.topologies,
            across,
            friction=self.friction_combination,
            restitution=self.restitution_combination,
        )

    @property
    def geometry_pairs(self) -> tuple[tuple[str, str], ...]:
        """The names of the pairs of shapes that may touch each other: those of each robot, then
        ``pairs``.
        """
        names = self.geometry_names
        return tuple((names[a], names[b]) for a, b in self.shape_pairs.shapes)

    @property
    def grounded(self) -> tuple[int, ...]:
        """Indices of the robots that touch the ground where they get there; none without a
        ground.
        """
        if self.ground is None:
            return ()
        return tuple(k for k, tree in enumerate(self.topologies) if tree.touching_geometries)

    @property
    def can_touch(self) -> bool:
        """Whether any shapes may touch the ground or each other."""
        return bool(self.grounded or self.pairs) or any(
            tree.geometry_pairs for tree in self.topologies
        )

    def neutral_state(self) -> Any:
        """The neutral state: that of the robot, or those of the robots by name."""
        return self.by_name([neutral_state(member) for member in self.articulations])

    def neutral_states(self) -> dict[str, State]:
        """The former name of :meth:`neutral_state`."""
        warnings.warn(
            "scene.neutral_states() is now scene.neutral_state()", DeprecationWarning, stacklevel=2
        )
        return self.neutral_state()

    def by_name(self, values: Sequence[Any]) -> Any:
        """One value for each robot in the structure of a state: the only one, or a dictionary by
        name.
        """
        return dict(zip(self.names, values, strict=True)) if self.names else values[0]

    def members_of(
        self, what: str, value: Any, missing: Callable[[], Any] | None = None
    ) -> list[tuple[str, Any]]:
        """The parts of a state or a control in the robots' order, each with what messages call it.

        Args:
          what: what messages call the whole.
          value: the part of the only robot, or a dictionary of parts by the robots' names.
          missing: makes what is left out of a dictionary; without it, nothing may be.

        Raises:
          ValueError: a robot's part is left out, or a name is no robot's.
          TypeError: the robots have names, and this is no dictionary.
        """
        if not self.names:
            return [(what, value)]
        if not isinstance(value, Mapping):
            kind = type(value).__name__
            raise TypeError(
                f"{what}: expected a dictionary by the names of the robots, found {kind}"
            )
        unknown = [name for name in value if name not in self.names]
        if unknown:
            known = ", ".join(self.names)
            raise ValueError(
                f"{what}: no robot called {', '.join(map(str, unknown))}; choose from: {known}"
            )
        absent = [name for name in self.names if name not in value]
        if absent and missing is None:
            hint = "scene.neutral_state() has one for each robot"
            raise ValueError(f"{what}: nothing for {', '.join(absent)}; {hint}")
        parts = [value[name] if name in value else missing() for name in self.names]  # type: ignore[misc]
        return [(f"{what}[{name!r}]", part) for name, part in zip(self.names, parts, strict=True)]

    def check_state(self, state: Any, what: str = "state") -> tuple[State, ...]:
        """The states of the robots in their order.

        Raises:
          ValueError: a robot has no state, a name is no robot's, or an array has the wrong shape,
            ``pair_friction`` included.
          TypeError: an array has another dtype than the articulation.
        """
        parts = self.members_of(what, state)
        if self.pair_friction is not None:
            shape = (len(self.shape_pairs),)
            meaning = "one coefficient for each of scene.geometry_pairs"
            check_vector("pair_friction", self.pair_friction, shape, self.dtype, meaning)
        for member, (name, part) in zip(self.articulations, parts, strict=True):
            check_state(member, part, name)
        return tuple(part for _, part in parts)


def _check_members(members: Any) -> None:
    """Refuses what is no dictionary of articulations by usable names."""
    if not isinstance(members, Mapping):
        kind = type(members).__name__
        raise TypeError(
            f"members: expected an articulation or a dictionary of articulations, found {kind}"
        )
    if not members:
        raise ValueError("a scene needs at least one articulation")
    first = next(iter(members))
    for name, member in members.items():
        if not isinstance(name, str):
            raise TypeError(f"members: names are strings; found {name!r}")
        check_type(f"members[{name!r}]", member, Articulation)
        if not name:
            raise ValueError(
                "a member has an empty name; links and shapes are called 'robot/link' after it"
            )
        if "/" in name:
            raise ValueError(
                f"the name {name!r} of a robot has a slash, which separates it from names of shapes"
            )
        if member.dtype != members[first].dtype:
            raise TypeError(
                f"the members must have one dtype; {first!r} has {members[first].dtype} and "
                f"{name!r} {member.dtype}; convert with astype(...)"
            )


def scene_of(scene: Scene | Articulation) -> Scene:
    """The scene, or the scene of one articulation without a ground."""
    if isinstance(scene, Scene):
        return scene
    check_type("articulation", scene, Articulation)
    return Scene((scene,))


def accepts_articulation(function: _Function) -> _Function:
    """Lets a function of a scene be called with ``articulation=`` for one more release, with a
    ``DeprecationWarning``.
    """

    @functools.wraps(function)
    def with_scene(*args: Any, **keywords: Any) -> Any:
        _rename_articulation(keywords)
        return function(*args, **keywords)

    return cast(_Function, with_scene)


def _rename_articulation(keywords: dict[str, Any]) -> None:
    if "articulation" in keywords:
        warnings.warn("articulation= is now scene=", DeprecationWarning, stacklevel=3)
        keywords["scene"] = keywords.pop("articulation")


def accepts_ground(function: _Function) -> _Function:
    """Lets a function of a scene take ``ground=`` for one more release, with a
    ``DeprecationWarning``; otherwise as :func:`accepts_articulation`.

    The ground may also be the third argument, and ``max_per_geometry=`` a budget, as functions had
    them.
    """

    @functools.wraps(function)
    def with_scene(*args: Any, **keywords: Any) -> Any:
        _rename_articulation(keywords)
        is_third = isinstance(args[2] if len(args) > 2 else None, Ground | Plane | HeightField)
        if not is_third and "ground" not in keywords:
            return function(*args, **keywords)
        name = function.__name__
        warnings.warn(
            f"artix.{name}(robot, ..., ground=ground) is now artix.{name}(artix.Scene(robot, "
            "ground=ground), ...); ground= leaves with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        scene, *others = args or (keywords.pop("scene"),)
        ground = others.pop(1) if is_third else keywords.pop("ground")
        if ground is not None:
            check_ground(ground)
        changes = {"ground": ground}
        if "max_per_geometry" in keywords:
            changes["max_contacts_per_geometry"] = keywords.pop("max_per_geometry")
        return function(scene_of(scene).replace(**changes), *others, **keywords)

    return cast(_Function, with_scene)


def num_points(a: GeometryType, b: GeometryType) -> int:
    """The number of points of a pair of shapes of these types."""
    if GeometryType.SPHERE in (a, b) or GeometryType.ELLIPSOID in (a, b):
        return 1
    return 2 if GeometryType.CAPSULE in (a, b) else 4


@dataclasses.dataclass(frozen=True)
class ShapePairs:
    """P pairs of shapes. Shapes, links and velocities are numbered articulation by articulation.

    Attributes:
      topologies: topologies of the articulations.
      shapes: the two shapes of each pair.
      friction: how the coefficients of the two combine.
      restitution: the same for restitution.
    """

    topologies: tuple[Topology, ...]
    shapes: tuple[tuple[int, int], ...]
    friction: Combination = "max"
    restitution: Combination = "max"

    @classmethod
    def of(
        cls,
        topologies: Sequence[Topology],
        across: Sequence[tuple[int, int]] = (),
        **combinations: Combination,
    ) -> ShapePairs:
        """Each articulation's own pairs, then those ``across`` articulations, given by the indices
        of their shapes; ``combinations`` are those of materials.
        """
        pairs, first = [], 0
        for tree in topologies:
            pairs += [
                (first + tree.geometry_index(a), first + tree.geometry_index(b))
                for a, b in tree.geometry_pairs
            ]
            first += len(tree.geometries)
        return cls(tuple(topologies), (*pairs, *across), **combinations)

    def __len__(self) -> int:
        return len(self.shapes)

    @cached_property
    def numbers(self) -> np.ndarray:
        """Indices of the two shapes of each pair, [P, 2]."""
        return np.array(self.shapes, int).reshape(-1, 2)

    @cached_property
    def kinds(self) -> list[tuple[GeometryType, GeometryType]]:
        """The types of the two shapes of each pair."""
        types = [shape.type for tree in self.topologies for shape in tree.geometries]
        return [(types[a], types[b]) for a, b in self.numbers]

    @cached_property
    def faces(self) -> list[tuple[HullFaces, HullFaces]]:
        """The faces of the two shapes of each pair, which only hulls have."""
        faces = [shape.faces for tree in self.topologies for shape in tree.geometries]
        return [(faces[a], faces[b]) for a, b in self.numbers]

    @cached_property
    def candidate_pairs(self) -> np.ndarray:
        """The pair of each candidate, [C]."""
        return np.repeat(np.arange(len(self)), [num_points(*kind) for kind in self.kinds])

    @cached_property
    def links(self) -> np.ndarray:
        """The links of each pair, [P, 2]."""
        return self._shape_links[self.numbers]

    @cached_property
    def moves(self) -> np.ndarray:
        """How the generalised velocities move the first link of each candidate relative to the
        second, [C, nv].

        1 and -1 for velocities that move one of them, 0 for those that move both or none.
        """
        columns = np.cumsum([0, *(tree.nv for tree in self.topologies)])
        every = []
        for k, tree in enumerate(self.topologies):
            moving = moves_links(tree, np.arange(tree.num_links)).astype(int)
            every.append(np.pad(moving, ((0, 0), (columns[k], columns[-1] - columns[k + 1]))))
        moved = np.concatenate(every)
        first, second = self.links[self.candidate_pairs].T
        return moved[first] - moved[second]

    @cached_property
    def _shape_links(self) -> np.ndarray:
        links, first = [], 0
        for tree in self.topologies:
            links += [first + shape.link for shape in tree.geometries]
            first += tree.num_links
        return np.array(links, int)


def friction_of_pairs(scene: Scene) -> np.ndarray:
    """The coefficients of the pairs in ``geometry_pairs``, of known numbers, [P]."""
    if scene.pair_friction is not None:
        return np.asarray(scene.pair_friction)
    of_shapes = np.concatenate([member.geometry.friction for member in scene.articulations])
    combine = COMBINATIONS_OF_SHAPES[scene.friction_combination]
    return combine(*(of_shapes[side] for side in scene.shape_pairs.numbers.T))


def _examples(scene: Scene) -> dict[str, Callable[[], Any]]:
    """Examples of the arguments of functions of a scene, by their names in artix."""
    none = lambda: None  # noqa: E731
    return {
        "state": scene.neutral_state,
        "states": scene.neutral_state,
        "control": none,
        "controls": none,
        "dt": lambda: jnp.asarray(0.01, scene.dtype),
    }


# A program knows the parameters of its robots. The ground stays an argument, since it is what users
# vary.
register_parameters(Scene, _examples, children=1)
