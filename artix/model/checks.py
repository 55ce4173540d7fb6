"""Checks of arguments at the public boundary: shapes and dtypes, and values that are known. They
run while JAX traces and cost nothing at run time.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.argument_types import register_check
from artix.math.arrays import check_finite, known_values
from artix.model.articulation import Articulation, State, checked_leaves
from artix.model.geometry import check_known_material

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Half precision has three digits at most, too few for dynamics.
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

_BATCH = "the function takes one articulation and one state; use jax.vmap over batches"


_BASE = (
    "; the base of this robot floats, and the first six numbers are the base's; if it should be "
    "fixed, read the robot with fixed_base=True"
)


def check_vector(name: str, value: jax.Array, shape: tuple[int, ...], dtype, meaning: str) -> None:
    """Raises unless ``value`` is an array of exactly this shape and dtype.

    Raises:
      TypeError: it is not an array, or the dtype differs; nothing is promoted silently.
      ValueError: the shape differs.
    """
    actual = getattr(value, "shape", None)
    if actual is None:
        raise TypeError(
            f"{name}: expected an array of shape {shape} ({meaning}), found "
            f"{type(value).__name__}; make it one with jnp.asarray(...)"
        )
    if actual != shape:
        hint = f"; {_BATCH}" if len(actual) > len(shape) else ""
        if meaning == "nv" and len(actual) == 1 and actual[0] + 6 == shape[0]:
            hint = _BASE
        raise ValueError(f"{name}: expected shape {shape} ({meaning}), found {actual}{hint}")
    if value.dtype != dtype:
        raise TypeError(
            f"{name}: expected dtype {dtype}, that of the articulation, found {value.dtype}; "
            "convert it, or the articulation with articulation.astype(...)"
        )


def check_count(name: str, value: Any, least: int = 1, hint: str = "") -> None:
    """Raises unless ``value`` is a whole number of at least ``least``.

    Raises:
      TypeError: it is not a whole number, or traced: numbers of iterations and sizes are static.
      ValueError: it is smaller.
    """
    if not isinstance(value, int | np.integer):
        text = (
            "a traced value, which must be static"
            if isinstance(value, jax.core.Tracer)
            else repr(value)
        )
        raise TypeError(f"{name}: expected a whole number, found {text}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; found {value}{hint}")


def as_number(
    name: str,
    value: Any,
    least: float = -math.inf,
    most: float = math.inf,
    *,
    positive: bool = False,
) -> Any:
    """One finite number between two bounds, as a Python number, which takes on the dtype of the
    arrays it meets.

    A number that JAX traces is returned as it is, and only its shape is checked.

    Raises:
      ValueError: it is not one number, not finite, or out of bounds.
    """
    is_traced = isinstance(value, jax.core.Tracer)
    is_one = np.shape(value) == () and (is_traced or np.asarray(value).dtype.kind in "fiub")
    if is_one and (
        is_traced
        or (math.isfinite(value) and least <= value <= most and (value > 0 or not positive))
    ):
        return value if is_traced else float(value)
    rule = f"from {least:g} to {most:g}" if most < math.inf else "finite"
    rule += (
        " and positive"
        if positive
        else " and not negative"
        if (least, most) == (0, math.inf)
        else ""
    )
    raise ValueError(f"{name}: expected one number, {rule}; found {value}")


def known(value: Any) -> np.ndarray | None:
    """The values of an array, or ``None`` if JAX traces it."""
    return None if isinstance(value, jax.core.Tracer) else np.asarray(value)


def as_array(
    name: str, value: Any, shape: tuple[int | str, ...], dtype: Any, meaning: str
) -> jax.Array:
    """An array of this shape and dtype.

    Args:
      name: what the user calls it.
      value: a JAX or NumPy array.
      shape: sizes of its axes; a name such as ``"T"`` stands for any size.
      dtype: the articulation's.
      meaning: what it holds, for the message.

    Returns:
      The array.

    Raises:
      TypeError: it is not an array, or has another dtype; nothing is promoted silently.
      ValueError: it has another shape.
    """
    wanted = f"[{', '.join(map(str, shape))}]"
    if not isinstance(value, jax.Array | np.ndarray):
        raise TypeError(
            f"{name}: expected an array of shape {wanted}, {meaning}; found {type(value).__name__}"
        )
    array = jnp.asarray(value)
    sizes = zip(shape, array.shape, strict=False)
    if array.ndim != len(shape) or any(
        size != other for size, other in sizes if not isinstance(size, str)
    ):
        hint = "; use jax.vmap over batches" if array.ndim > len(shape) else ""
        raise ValueError(f"{name}: expected shape {wanted}, {meaning}; found {array.shape}{hint}")
    if array.dtype != dtype:
        raise TypeError(
            f"{name}: expected dtype {dtype}, that of the articulation; found {array.dtype}. "
            "Convert the array, or the articulation with articulation.astype(...)"
        )
    return array


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raises unless a string is one of several."""
    if value not in choices:
        raise ValueError(
            f"{name}: expected one of {', '.join(map(repr, choices))}; found {value!r}"
        )


def check_positive(name: str, value: Any, unit: str) -> None:
    """Raises unless a number is positive and finite, if it is known."""
    values = known(value)
    if values is not None and not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"{name}: expected a positive number [{unit}]; found {value}")


def check_not_negative(name: str, value: Any) -> None:
    """Raises unless a number is finite and not negative, if it is known."""
    values = known(value)
    if values is not None and not np.all((values >= 0) & np.isfinite(values)):
        raise ValueError(f"{name}: expected a number that is not negative; found {value}")


def check_names(name: str, names: Any) -> None:
    """Raises unless names are a sequence of different strings."""
    if isinstance(names, str):
        raise TypeError(
            f"{name}: expected a sequence of names; found the string {names!r}: write [{names!r}]"
        )
    repeated = {each for each in names if list(names).count(each) > 1}
    if repeated:
        raise ValueError(f"{name}: {', '.join(map(repr, sorted(repeated)))} occurs more than once")


#: How far the length of a quaternion may be from one: as with three digits typed by hand, or left
#: by an ODE solver.
_QUATERNION_TOLERANCE = 1e-3


def check_quaternion(name: str, poses: Any, *, any_length: bool = False) -> None:
    """Raises ``ValueError`` if quaternions of poses [..., 7] are known, and one has not length 1.

    Args:
      name: what the user calls the poses.
      poses: position and quaternion xyzw.
      any_length: whether only a length of zero, or one that is not finite, is wrong.
    """
    values = known_values(poses)
    if values is None or values.shape[-1:] != (7,):
        return
    quaternions = values[..., 3:]
    # One quaternion is the common case, and the product of two vectors is faster than other sums.
    if values.ndim == 1 and abs(quaternions.dot(quaternions) - 1) < _QUATERNION_TOLERANCE:
        return
    squares = np.einsum("...i,...i", quaternions, quaternions)
    lengths = np.sqrt(squares).ravel()
    for wrong, fix in (
        (lengths == 0, "no rotation is (0, 0, 0, 1)"),
        (
            ~(abs(lengths - 1) <= _QUATERNION_TOLERANCE),
            "divide it by its length, as artix.normalize does in a state",
        ),
    ):
        if wrong.any() and not (any_length and np.all((lengths > 0) & np.isfinite(lengths))):
            length = f"{lengths[wrong][0]:.6g}" if lengths.all() else "zero"
            raise ValueError(
                f"{name}: expected a quaternion xyzw of length 1 in the last four entries; found "
                f"one of length {length}; {fix}"
            )


def beyond_limits(
    articulation: Articulation, positions: Any, slack: float = 1e-5
) -> np.ndarray | None:
    """Which of known joint positions [S, n] are outside the limits; ``None`` if JAX traces
    something.
    """
    limits = articulation.joint_lower_limit, articulation.joint_upper_limit
    values, lower, upper = map(known_values, (positions, *limits))
    if values is None or lower is None or upper is None:
        return None
    slacks = slack * (1 + np.abs(values))
    return (values < lower - slacks) | (values > upper + slacks)


def describe_beyond(articulation: Articulation, positions: Any, dof: int) -> str:
    """Says that a joint position is outside its limits."""
    topology: Any = articulation.topology
    limits = articulation.joint_lower_limit, articulation.joint_upper_limit
    value, lower, upper = (np.asarray(each)[dof] for each in (positions, *limits))
    units = "; positions are in radians and metres" if abs(value) > 2 * np.pi else ""
    return (
        f"{topology.dof_names[dof]!r} is at {value:.6g}, outside [{lower:.6g}, {upper:.6g}]{units}"
    )


def warn_of_positions(name: str, articulation: Articulation, positions: Any) -> None:
    """Warns of known joint positions [S, n] far outside the limits, as those in degrees are."""
    beyond = beyond_limits(articulation, positions, slack=0.1)
    if beyond is not None and beyond.any():
        row, dof = (int(k) for k in np.argwhere(beyond)[0])
        warnings.warn(f"{name}: {describe_beyond(articulation, positions[row], dof)}", stacklevel=4)


#: The likeliest reason of a state that is not finite.
_DIVERGED = (
    "; if a step made it, the motion diverged: find the first such state, and take shorter steps"
)


def check_known_state(name: str, state: Any, *, any_length: bool = False) -> None:
    """Raises ``ValueError`` if a state is known and has a number that is not finite, or a
    quaternion not of length 1.

    It sees the values only outside of ``jax.jit``, ``jax.vmap`` and ``jax.grad``, and takes some
    ten microseconds.

    Args:
      name: what the user calls the state.
      state: the state, or several with leading axes; what is not a state is not checked.
      any_length: as for :func:`check_quaternion`.
    """
    if not isinstance(state, State):
        return
    check_finite(f"{name}.root_pose", state.root_pose, _DIVERGED)
    check_finite(f"{name}.root_velocity", state.root_velocity, _DIVERGED)
    check_finite(f"{name}.joint_position", state.joint_position, _DIVERGED)
    check_finite(f"{name}.joint_velocity", state.joint_velocity, _DIVERGED)
    check_quaternion(f"{name}.root_pose", state.root_pose, any_length=any_length)


#: What to write instead of NaN.
_UNKNOWN = "; no limit is inf, and what is not there is zero"


def check_known_parameters(articulation: Articulation) -> None:
    """Raises ``ValueError`` if a number of a robot is known and NaN, or a material of its shapes is
    out of range.

    NaN compares as false, so a step would take it for a limit or a friction that does not act. It
    remembers robots that are as they should be.
    """
    memory = articulation.__dict__
    if memory.get("_has_numbers"):
        return
    for name, array, _ in checked_leaves(articulation):
        check_finite(f"articulation.{name}", array, _UNKNOWN, infinite=True)
    if articulation.topology.geometries:
        check_known_material("articulation.geometry", articulation.geometry)
    memory["_has_numbers"] = True


#: The attribute that marks functions of quaternions of any length.
_ANY_QUATERNION = "takes_any_quaternion"


def any_quaternion(function: _Function) -> _Function:
    """Marks a function of quaternions of any length but zero; put it below ``@quantity``."""
    setattr(function, _ANY_QUATERNION, True)
    return function


def _check_argument(name: str, state: Any, function: Callable[..., Any]) -> None:
    check_known_state(name, state, any_length=hasattr(function, _ANY_QUATERNION))


register_check(State, _check_argument)


#: What to do with things that hold articulations, by the names of their types.
_INSTEAD = {
    "Scene": "; take one robot of it, such as scene['name'] or scene.articulations[0]",
    "Fleet": "; use fleet.evaluate(function, state), or one member, fleet.member(0)",
    "str": "; load it with artix.load or artix.robots.load",
    "tuple": "; artix.load_world returns a scene and its states",
}


def check_type(name: str, value: object, kind: type) -> None:
    """Raises ``TypeError`` unless ``value`` is of this kind, for instance where arguments are out
    of order.
    """
    if not isinstance(value, kind):
        actual = "an array" if isinstance(value, jax.Array) else type(value).__name__
        instead = _INSTEAD.get(actual, "") if kind is Articulation else ""
        raise TypeError(f"{name}: expected artix.{kind.__name__}, found {actual}{instead}")


def check_one(articulation: Articulation) -> None:
    """Raises ``ValueError`` if the articulation is a batch, ``TypeError`` if it is none."""
    check_type("articulation", articulation, Articulation)
    name, mass, shape = next(checked_leaves(articulation))
    check_vector(f"articulation.{name}", mass, shape, articulation.dtype, "L")


def check_parameters(articulation: Articulation) -> None:
    """Checks the shapes and dtypes of an articulation's arrays against its topology; see
    :func:`check_vector`.
    """
    check_one(articulation)
    dtype = articulation.dtype
    for name, leaf, shape in checked_leaves(articulation):
        if getattr(leaf, "shape", None) != shape or leaf.dtype != dtype:
            check_vector(f"articulation.{name}", leaf, shape, dtype, "its topology's")


def check_state(articulation: Articulation, state: State, name: str = "state") -> None:
    """Checks the shapes and dtypes of a state, called ``name``, and of its articulation; see
    :func:`check_vector`.
    """
    check_type("articulation", articulation, Articulation)
    check_type(name, state, State)
    tree = articulation.topology
    dtype = articulation.dtype
    if dtype not in _DTYPES:
        raise TypeError(
            f"articulation: artix computes in float32 or float64, found {dtype}; convert it with "
            "articulation.astype('float32'), and the state likewise"
        )
    n = tree.num_dofs
    check_parameters(articulation)
    check_vector(f"{name}.root_pose", state.root_pose, (7,), dtype, "position, quaternion xyzw")
    check_vector(f"{name}.root_velocity", state.root_velocity, (6,), dtype, "linear, angular")
    check_vector(f"{name}.joint_position", state.joint_position, (n,), dtype, "n joint DOFs")
    check_vector(f"{name}.joint_velocity", state.joint_velocity, (n,), dtype, "n joint DOFs")


#: Replaces a step of zero length [s]: its effects are below rounding, and division by it stays
#: finite.
_INSTANT = 1e-9


def check_key(key: Any) -> None:
    """Raises unless this is one random key.

    Raises:
      TypeError: it is not a key, for instance a seed.
      ValueError: it is an array of keys.
    """
    is_typed = hasattr(key, "dtype") and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not hasattr(key, "dtype") or not (is_typed or key.shape):
        raise TypeError(
            f"key: expected a random key, found {type(key).__name__}; make one with "
            "jax.random.key(seed)"
        )
    if is_typed and key.shape:
        raise ValueError(
            f"key: expected one random key, found an array of shape {key.shape}; use jax.vmap "
            "over keys"
        )


def as_time(articulation: Articulation, dt: float | jax.Array, *, backward: bool = False) -> Any:
    """The length of a step in the articulation's dtype; a Python number stays a constant while JAX
    traces.

    Exactly zero becomes a nanosecond, with the same derivative: the value and derivatives of a step
    have a limit at zero, where the formulas would be ``0 / 0``.

    Raises:
      TypeError: it is not a number.
      ValueError: it is an array of numbers, or it is not traced and not finite or, unless the
        solver can step ``backward`` in time, negative.
    """
    if not isinstance(dt, numbers.Real | np.ndarray | jax.Array):
        raise TypeError(f"dt: expected a number of seconds, found {type(dt).__name__}")
    if np.shape(dt):
        raise ValueError(
            f"dt: expected one number of seconds, found an array of shape {np.shape(dt)}"
        )
    if not isinstance(dt, jax.core.Tracer) and (
        not isinstance(dt, jax.Array) or dt.is_fully_replicated
    ):
        number = np.asarray(dt)
        if number.dtype.kind not in "fiu" or not np.isfinite(number):
            raise ValueError(f"dt: expected a finite number of seconds, found {dt}")
        if number < 0 and not backward:
            raise ValueError(
                f"dt: expected zero or more seconds, found {dt}; only artix.step's 'rk4' goes back"
            )
    dtype = articulation.dtype
    xp = jnp if isinstance(dt, jax.Array) else np
    time = xp.asarray(dt, dtype)
    return time + xp.where(time == 0, np.asarray(_INSTANT, dtype), np.zeros((), dtype))
