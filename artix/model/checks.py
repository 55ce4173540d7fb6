"""Checks of shapes and dtypes at the public boundary. They run while JAX traces and cost nothing at run time."""

from __future__ import annotations

import numbers
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

#: Half precision has three digits at most, too few for dynamics.
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

_BATCH = "the function takes one articulation and one state; use jax.vmap over batches"


def check_vector(name: str, value: jax.Array, shape: tuple[int, ...], dtype, meaning: str) -> None:
    """Raises unless ``value`` is an array of exactly this shape and dtype.

    Raises:
      TypeError: it is no array, or the dtype differs; nothing is promoted silently.
      ValueError: the shape differs.
    """
    found = getattr(value, "shape", None)
    if found is None:
        raise TypeError(
            f"{name}: expected an array of shape {shape} ({meaning}), found {type(value).__name__}; make it one with "
            "jnp.asarray(...)"
        )
    if found != shape:
        hint = f"; {_BATCH}" if len(found) > len(shape) else ""
        raise ValueError(f"{name}: expected shape {shape} ({meaning}), found {found}{hint}")
    if value.dtype != dtype:
        raise TypeError(
            f"{name}: expected dtype {dtype}, that of the articulation, found {value.dtype}; convert the array, or the "
            "articulation with articulation.astype(...)"
        )


def check_count(name: str, value: Any, least: int = 1, hint: str = "") -> None:
    """Raises unless ``value`` is a whole number of at least ``least``.

    Raises:
      TypeError: it is no whole number, or traced: numbers of iterations and sizes are static.
      ValueError: it is smaller.
    """
    if not isinstance(value, int | np.integer):
        found = "a traced value, which must be static" if isinstance(value, jax.core.Tracer) else repr(value)
        raise TypeError(f"{name}: expected a whole number, found {found}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; found {value}{hint}")


def check_type(name: str, value: object, kind: type) -> None:
    """Raises ``TypeError`` unless ``value`` is of this kind, for instance where arguments are out of order."""
    if not isinstance(value, kind):
        found = "an array" if isinstance(value, jax.Array) else type(value).__name__
        raise TypeError(f"{name}: expected artix.{kind.__name__}, found {found}")


def check_state(articulation: Articulation, state: State, name: str = "state") -> None:
    """Checks the shapes and dtypes of a state, called ``name``, against its articulation; see :func:`check_vector`."""
    check_type("articulation", articulation, Articulation)
    check_type(name, state, State)
    tree, dtype = articulation.topology, articulation.dtype
    if dtype not in _DTYPES:
        raise TypeError(
            f"articulation: artix computes in float32 or float64, found {dtype}; convert it with "
            "articulation.astype('float32'), and convert the state, too"
        )
    n = tree.num_dofs
    check_vector("articulation.link_mass", articulation.link_mass, (tree.num_links,), dtype, "L")
    check_vector(f"{name}.root_pose", state.root_pose, (7,), dtype, "position, quaternion xyzw")
    check_vector(f"{name}.root_velocity", state.root_velocity, (6,), dtype, "linear, angular")
    check_vector(f"{name}.joint_position", state.joint_position, (n,), dtype, "n joint DOFs")
    check_vector(f"{name}.joint_velocity", state.joint_velocity, (n,), dtype, "n joint DOFs")


#: Replaces a step of zero length [s]: its effects are below rounding, and division by it stays finite.
_INSTANT = 1e-9


def check_key(key: Any) -> None:
    """Raises unless this is one random key.

    Raises:
      TypeError: it is no array, for instance a seed.
      ValueError: it is an array of keys.
    """
    if not hasattr(key, "dtype"):
        raise TypeError(f"key: expected a random key, found {type(key).__name__}; make one with jax.random.key(seed)")
    is_typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    if is_typed and key.shape:
        raise ValueError(f"key: expected one random key, found an array of shape {key.shape}; use jax.vmap over keys")


def as_time(articulation: Articulation, dt: float | jax.Array, *, backward: bool = False) -> Any:
    """The length of a step in the articulation's dtype; a Python number stays a constant while JAX traces.

    Exactly zero becomes a nanosecond, with the same derivative: the value and derivatives of a step have a limit at
    zero, where the formulas would be ``0 / 0``.

    Raises:
      TypeError: it is not a number.
      ValueError: it is an array of numbers, or a Python number that is not finite or, unless the solver can step
        ``backward`` in time, negative.
    """
    if not isinstance(dt, numbers.Real | np.ndarray | jax.Array):
        raise TypeError(f"dt: expected a number of seconds, found {type(dt).__name__}")
    if np.shape(dt):
        raise ValueError(f"dt: expected one number of seconds, found an array of shape {np.shape(dt)}")
    if isinstance(dt, numbers.Real) and not np.isfinite(dt):
        raise ValueError(f"dt: expected a finite number of seconds, found {dt}")
    if isinstance(dt, numbers.Real) and dt < 0 and not backward:
        raise ValueError(f"dt: expected zero or more seconds, found {dt}; only solver='rk4' steps back in time")
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
