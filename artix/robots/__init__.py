"""Small built-in robots without meshes, for learning and testing."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artix.model.articulation import Articulation

#: The robots, and whether their base is fixed by default.
FIXED_BASE = {
    "arm7": True,
    "cart_pole": True,
    "double_pendulum": True,
    "humanoid": False,
    "quadruped": False,
}


def names() -> tuple[str, ...]:
    """The names of the robots that :func:`load` knows.

    Examples:
      >>> print(artix.robots.names())
      ('arm7', 'cart_pole', 'double_pendulum', 'humanoid', 'quadruped')
    """
    return tuple(FIXED_BASE)


def path(name: str) -> Path:
    """The path of a robot's URDF.

    Args:
      name: as for :func:`load`.

    Returns:
      The file, which comes with artix.

    Raises:
      ValueError: there is no robot of this name; the message lists the names.

    Examples:
      >>> print(artix.robots.path("arm7").name)
      arm7.urdf
    """
    if name not in FIXED_BASE:
        raise ValueError(
            f"no robot called {name!r}; choose from: {', '.join(names())}; artix.load reads the "
            "files of others"
        )
    return Path(str(importlib.resources.files(__name__) / f"{name}.urdf"))


def load(name: str, **options: Any) -> Articulation:
    """Loads one of the built-in robots.

    Args:
      name: ``"cart_pole"`` or ``"double_pendulum"`` (2 DOFs), ``"arm7"`` (7), ``"quadruped"`` (12)
        or ``"humanoid"`` (25).
      **options: options of :func:`~artix.load_urdf`. The quadruped and the humanoid have a floating
        base unless ``fixed_base=True``; the others have a fixed base.

    Returns:
      The articulation.

    Raises:
      ValueError: there is no robot of this name; the message lists the names.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> print(arm.topology.dof_names[:2])
      ('shoulder_yaw', 'shoulder_pitch')
      >>> fixed = artix.robots.load("quadruped", fixed_base=True)
      >>> print(fixed.topology.nv)
      12
    """
    from artix.io.urdf.reader import load_urdf  # With JAX, which names and paths do not need.

    return load_urdf(path(name), **{"fixed_base": FIXED_BASE.get(name), **options})
