"""Checks of shapes and dtypes at the public boundary. They run while JAX traces and cost nothing at run time."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

_BATCH = "the function takes one articulation and one state; use jax.vmap over batches"


def check_vector(name: str, value: jax.Array, shape: tuple[int, ...], dtype, meaning: str) -> None:
    """Raises unless ``value`` is an array of exactly this shape and dtype.

    Raises:
      TypeError: the dtype differs; nothing is promoted silently.
      ValueError: the shape differs.
    """
    found = getattr(value, "shape", None)
    if found != shape:
        hint = f"; {_BATCH}" if found is not None and len(found) > len(shape) else ""
        raise ValueError(f"{name}: expected shape {shape} ({meaning}), found {found}{hint}")
    if value.dtype != dtype:
        raise TypeError(
            f"{name}: expected dtype {dtype}, that of the articulation, found {value.dtype}; convert the array, or the "
            "articulation with articulation.astype(...)"
        )


def check_state(articulation: Articulation, state: State) -> None:
    """Checks the shapes and dtypes of a state against its articulation; see :func:`check_vector`."""
    tree, dtype = articulation.topology, articulation.dtype
    n = tree.num_dofs
    check_vector("articulation.link_mass", articulation.link_mass, (tree.num_links,), dtype, "L")
    check_vector("state.root_pose", state.root_pose, (7,), dtype, "position, quaternion xyzw")
    check_vector("state.root_velocity", state.root_velocity, (6,), dtype, "linear, angular")
    check_vector("state.joint_position", state.joint_position, (n,), dtype, "n joint DOFs")
    check_vector("state.joint_velocity", state.joint_velocity, (n,), dtype, "n joint DOFs")


#: Replaces a step of zero length [s]: its effects are below rounding, and division by it stays finite.
_INSTANT = 1e-9


def as_time(articulation: Articulation, dt: float | jax.Array) -> Any:
    """The length of a step in the articulation's dtype; a Python number stays a constant while JAX traces.

    Exactly zero becomes a nanosecond, with the same derivative: a step and its derivatives have a limit there, where
    the formulas would give ``0 / 0``.
    """
    dtype, xp = articulation.dtype, jnp if isinstance(dt, jax.Array) else np
    time = xp.asarray(dt, dtype)
    return time + xp.where(time == 0, np.asarray(_INSTANT, dtype), np.zeros((), dtype))


class _HasTopology(Protocol):
    @property
    def topology(self) -> Any: ...


def static_topology(articulation: _HasTopology, refusal: str) -> Topology:
    """The topology of an articulation whose tree is known while JAX traces.

    Raises:
      TypeError: the tree is data, as for a member of a mixed fleet. The message is ``refusal``, which should say what
        needs a static tree and what to do instead.
    """
    if not isinstance(articulation.topology, Topology):
        raise TypeError(refusal)
    return articulation.topology
