"""What the readers of all formats can be asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy.typing as npt

from artix.io.common.meshes import Meshes, Packages


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """The options of readers and checkers, as :func:`artix.load` describes them; a format has some of them.

    Attributes:
      root: the root of the articulation, where a file has several: a body of MJCF, the path of a prim of USD.
      fixed_base: whether the root is fixed to the world; ``None`` follows the file.
      merge_fixed_joints: whether links on fixed joints become part of their parent.
      skip: kinds of elements that a strict reader leaves out all the same.
      repair: repairs of invalid numbers, by name; one name alone is a tuple of it.
      strict: whether to refuse what is otherwise read with a warning.
      meshes: replacement for collision meshes; ``None`` leaves them out.
      packages: folders of ROS packages by name.
      self_contact: whether the shapes of one articulation touch each other.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3]; that of the file when ``None``.
      dtype: floating-point type of the arrays; JAX's default when ``None``.

    Raises:
      ValueError: a repair is not one of ``known_repairs``, or the replacement for meshes is unknown.
    """

    root: str | None = None
    fixed_base: bool | None = None
    merge_fixed_joints: bool = False
    skip: frozenset[str] = frozenset()
    repair: Collection[str] = ()
    strict: bool = False
    meshes: Meshes | None = None
    packages: Packages | None = None
    self_contact: bool = False
    gravity: npt.ArrayLike | None = None
    dtype: Any = None
    known_repairs: dataclasses.InitVar[tuple[str, ...]] = ("inertia",)

    def __post_init__(self, known_repairs: tuple[str, ...]) -> None:
        if self.meshes not in (None, "hull", "capsule"):
            raise ValueError(f"meshes must be 'hull', 'capsule' or None, which leaves them out; found {self.meshes!r}")
        names = (self.repair,) if isinstance(self.repair, str) else tuple(self.repair)
        unknown = [name for name in names if name not in known_repairs]
        if unknown:
            known = ", ".join(known_repairs)
            raise ValueError(f"unknown repair {unknown[0]!r}; known repairs: {known}")
        object.__setattr__(self, "repair", names)

    @property
    def repairs_inertia(self) -> bool:
        """Whether impossible inertias are repaired."""
        return "inertia" in self.repair


#: What a reader does unless it is asked for anything.
DEFAULT_OPTIONS = ReadOptions()
