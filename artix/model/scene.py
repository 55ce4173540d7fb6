"""Several articulations that touch each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from artix.compiler.argument_types import register_parameters
from artix.math import struct
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_type
from artix.model.geometry import GeometryStructure
from artix.model.geometry_pairs import checked_shapes
from artix.model.states import neutral_state
from artix.model.topology import Topology


class Scene(struct.PyTreeNode):
    """Several articulations in one world: a hand and a cube, two robots.

    Each member keeps its own state, parameters and numbering; :func:`artix.scene_step` moves them all. Members touch
    each other through the scene's pairs of shapes, and the ground by themselves. A free rigid body is an articulation
    with a floating base and one link.

    Attributes:
      articulations: the members' parameters, in the order of ``names``.
      names: the members' names, static.
      pairs: the shapes of different members that touch each other, as ``"member/shape"``, static.

    Examples:
      >>> builder = artix.ArticulationBuilder(name="cube")
      >>> _ = builder.add_link(mass=0.2, inertia=(8e-5, 8e-5, 8e-5), name="cube")
      >>> builder.add_geometry("cube", artix.Geometry.box((0.03, 0.03, 0.03), friction=0.8), name="cube")
      >>> cube = builder.build()
      >>> scene = artix.Scene.of({"lower": cube, "upper": cube}, pairs=[("upper/cube", "lower/cube")])
      >>> print(scene.names, scene.geometry_names)
      ('lower', 'upper') ('lower/cube', 'upper/cube')
      >>> print(scene["upper"].link_mass)
      [0.2]
    """

    articulations: tuple[Articulation, ...]
    names: tuple[str, ...] = struct.field(pytree_node=False)
    pairs: tuple[tuple[str, str], ...] = struct.field(pytree_node=False)

    @classmethod
    def of(cls, members: Mapping[str, Articulation], pairs: Sequence[tuple[str, str]] = ()) -> Scene:
        """A scene of named articulations.

        Args:
          members: the articulations by name. One articulation may appear under several names.
          pairs: two shapes of different members each, as ``"member/shape"``: spheres, capsules or boxes. A member's own
            pairs (:func:`artix.select_geometry_pairs`) act as well.

        Raises:
          ValueError: there is no member, a name is empty or has a slash, a shape is unknown or cannot touch, both
            shapes of a pair belong to one member, or a pair is given twice.
          TypeError: the members are not articulations by name, or dtypes differ.
        """
        if not isinstance(members, Mapping):
            raise TypeError(f"members: expected a dictionary of articulations, found {type(members).__name__}")
        names, articulations = tuple(members), tuple(members.values())
        if not names:
            raise ValueError("a scene needs at least one articulation")
        for name, member in members.items():
            if not isinstance(name, str):
                raise TypeError(f"members: names are strings; found {name!r}")
            check_type(f"members[{name!r}]", member, Articulation)
            if not name:
                raise ValueError("a member has an empty name; links and shapes are called 'member/link' after it")
            if "/" in name:
                raise ValueError(f"the member's name {name!r} has a slash, which separates it from those of its shapes")
            if member.dtype != articulations[0].dtype:
                raise TypeError(
                    f"the members must have one dtype; {names[0]!r} has {articulations[0].dtype} and {name!r} "
                    f"{member.dtype}; convert with astype(...)"
                )
        scene = cls(articulations, names, ())
        return scene.replace(pairs=scene._checked(pairs))

    def _checked(self, pairs: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        for pair in pairs:
            first, second = checked_shapes(pair, self.geometry_names, self.geometries)
            if first.split("/")[0] == second.split("/")[0]:
                raise ValueError(
                    f"pairs: {first!r} and {second!r} belong to one member; choose its own pairs by "
                    "artix.select_geometry_pairs before it joins the scene"
                )
            if (first, second) in found or (second, first) in found:
                raise ValueError(f"pairs: {first!r} and {second!r} are given twice")
            found.append((first, second))
        return tuple(found)

    def __getitem__(self, name: str) -> Articulation:
        """The member called ``name``; raises ``KeyError`` with the known names."""
        if name not in self.names:
            raise KeyError(f"no member called {name!r}; choose from: {', '.join(self.names)}")
        return self.articulations[self.names.index(name)]

    @property
    def topologies(self) -> tuple[Topology, ...]:
        """The members' topologies."""
        return tuple(member.topology for member in self.articulations)

    @property
    def dtype(self) -> Any:
        """The floating-point type of the parameters."""
        return self.articulations[0].dtype

    @property
    def link_names(self) -> tuple[str, ...]:
        """``"member/link"`` of all links, numbered member after member."""
        return self._prefixed([tree.link_names for tree in self.topologies])

    @property
    def geometry_names(self) -> tuple[str, ...]:
        """``"member/shape"`` of all shapes, numbered member after member."""
        return self._prefixed([[shape.name for shape in tree.geometries] for tree in self.topologies])

    @property
    def geometries(self) -> tuple[GeometryStructure, ...]:
        """The static structures of all shapes, member after member."""
        return sum((tree.geometries for tree in self.topologies), ())

    def _prefixed(self, parts: Sequence[Sequence[str]]) -> tuple[str, ...]:
        return tuple(f"{name}/{part}" for name, own in zip(self.names, parts, strict=True) for part in own)

    def neutral_states(self) -> dict[str, State]:
        """The neutral state of each member, by name."""
        return {name: neutral_state(one) for name, one in zip(self.names, self.articulations, strict=True)}

    def check_states(self, states: Mapping[str, State]) -> tuple[State, ...]:
        """The states in the members' order.

        Raises:
          ValueError: a member has no state, a state is no member's, or an array has the wrong shape.
        """
        self.check_names("states", states)
        missing = [name for name in self.names if name not in states]
        if missing:
            raise ValueError(
                f"states: no state of {', '.join(missing)}; scene.neutral_states() has one for each member"
            )
        for name in self.names:
            check_state(self[name], states[name], f"states[{name!r}]")
        return tuple(states[name] for name in self.names)

    def check_names(self, what: str, given: Mapping[str, Any]) -> None:
        """Raises ``ValueError`` for names that no member has."""
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise ValueError(f"{what}: no member called {', '.join(unknown)}; choose from: {', '.join(self.names)}")


register_parameters(
    Scene,
    lambda scene: {
        "states": scene.neutral_states,
        "controls": lambda: None,
        "dt": lambda: jnp.asarray(0.01, scene.dtype),
    },
)
