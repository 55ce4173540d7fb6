"""What a policy sees: terms by name, each a function of named signals, with scale and history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs.terms import call, check_known, check_mapping, check_signals
from artix.model.checks import as_number, check_count

Array = jax.Array

#: How a term changes in the mirror: one of :data:`KINDS`, or a permutation and signs of its
#: numbers.
Reflection: TypeAlias = "str | tuple[Sequence[int], Sequence[float]]"

#: Kinds of terms: what their numbers are, and so what a reflection at the sagittal plane does to
#: them.
KINDS = {
    "scalar": "numbers that stay, such as a height",
    "vector": "x, y, z, such as a velocity: y changes its sign",
    "axial": "x, y, z of a rotation, such as an angular velocity: x and z change their signs",
    "command": "velocities forward and to the left and yaw rate: the last two change their signs",
    "joints": "one number a joint",
    "feet": "one number a foot",
    "feet_vectors": "x, y, z of each foot",
    "clock": (
        "cosine and sine of the phase of the gait: the feet of one side have that of the other"
    ),
}


class ObservationTerm(NamedTuple):
    """One term of an observation.

    Attributes:
      scale: factor of its numbers, after noise.
      history: of how many control steps the policy sees it, newest first.
      function: computes it from signals, which its parameters name, [size]; ``None`` for that of
        :data:`TERMS`.
      mirror: one of :data:`KINDS`, or a permutation and signs; ``None`` for that of :data:`TERMS`.
        Learners that use the symmetry of the robot need it.

    Examples:
      >>> from artix import envs
      >>> from artix.envs.observation_terms import ObservationTerm
      >>> def knees(joint_position):
      ...     return joint_position[8:]
      >>> seen = {
      ...     "gyro": 0.25,
      ...     "joint_position": ObservationTerm(history=3),
      ...     "knees": ObservationTerm(function=knees),
      ... }
      >>> envs.make("quadruped_velocity", observations=seen).observation_size["state"]
      45
    """

    scale: float = 1.0
    history: int = 1
    function: Callable[..., Array] | None = None
    mirror: Reflection | None = None


Terms = Mapping[str, "float | ObservationTerm | None"]
"""Terms in their order, by name: a scale, an :class:`ObservationTerm`, or ``None`` for a term that
is left out."""


def linear_velocity(linear_velocity: Array) -> Array:
    """Velocity of the IMU in its axes [m/s]."""
    return linear_velocity


def gyro(angular_velocity: Array) -> Array:
    """Angular velocity of the IMU in its axes [rad/s]."""
    return angular_velocity


def gravity(projected_gravity: Array) -> Array:
    """Direction of gravity in the axes of the IMU."""
    return projected_gravity


def joint_position(joint_position: Array, default_position: Array) -> Array:
    """Joint positions relative to the default pose [rad]."""
    return joint_position - default_position


def joint_velocity(joint_velocity: Array) -> Array:
    """Joint velocities [rad/s]."""
    return joint_velocity


def last_action(last_action: Array) -> Array:
    """The last action."""
    return last_action


def command(command: Array) -> Array:
    """The commanded velocities [m/s, m/s, rad/s]."""
    return command


def clock(phase: Array) -> Array:
    """Cosine and sine of the phase of the gait, of the first group of feet."""
    return jnp.stack([jnp.cos(phase), jnp.sin(phase)])


def accelerometer(accelerometer: Array) -> Array:
    """Acceleration minus gravity in the axes of the IMU [m/s^2]."""
    return accelerometer


def world_angular_velocity(world_angular_velocity: Array) -> Array:
    """Angular velocity of the root in world axes [rad/s]."""
    return world_angular_velocity


def joint_force(joint_force: Array) -> Array:
    """Forces of the drives [N m]."""
    return joint_force


def contact(contact: Array, joint_position: Array) -> Array:
    """1 for each foot that touches the ground."""
    return contact.astype(joint_position.dtype)


def feet_velocity(feet_velocity: Array) -> Array:
    """Velocities of the feet in world axes [m/s]."""
    return feet_velocity.reshape(-1)


def air_time(air_time: Array) -> Array:
    """Time since each foot last touched the ground [s]."""
    return air_time


def height(height: Array) -> Array:
    """Height of the root above the ground [m]."""
    return height[None]


#: All terms by name: their functions and kinds.
TERMS: dict[str, tuple[Callable[..., Array], str]] = {
    "linear_velocity": (linear_velocity, "vector"),
    "gyro": (gyro, "axial"),
    "gravity": (gravity, "vector"),
    "joint_position": (joint_position, "joints"),
    "joint_velocity": (joint_velocity, "joints"),
    "last_action": (last_action, "joints"),
    "command": (command, "command"),
    "clock": (clock, "clock"),
    "accelerometer": (accelerometer, "vector"),
    "world_angular_velocity": (world_angular_velocity, "axial"),
    "joint_force": (joint_force, "joints"),
    "contact": (contact, "feet"),
    "feet_velocity": (feet_velocity, "feet_vectors"),
    "air_time": (air_time, "feet"),
    "height": (height, "scalar"),
}


def check_terms(what: str, terms: Terms, signals: Iterable[str]) -> dict[str, ObservationTerm]:
    """The terms in full, with functions and kinds; refuses terms that do not exist or lack a
    signal.

    Args:
      what: what the terms are of, for messages.
      terms: the terms; those that are ``None`` are left out.
      signals: names of the task's signals.

    Raises:
      TypeError: ``terms`` is no mapping.
      ValueError: there is no term of a name, a term needs a signal that the task does not have, a
        scale is not finite, or the history or the kind of a term is none.
    """
    check_mapping(what, terms, "'gyro': 1.0")
    known = tuple(signals)
    return {
        name: _in_full(what, name, term, known) for name, term in terms.items() if term is not None
    }


def _in_full(
    what: str, name: str, term: float | ObservationTerm, signals: tuple[str, ...]
) -> ObservationTerm:
    where = f"{what}: {name!r}"
    if not isinstance(term, ObservationTerm):
        term = ObservationTerm(scale=as_number(f"{where}: scale", term))
    if term.function is None:
        check_known(what, name, TERMS, "ObservationTerm(function=...)")
    usual, kind = TERMS.get(name, (None, None))
    function = usual if term.function is None else term.function
    mirror = term.mirror if term.mirror is not None or term.function is not None else kind
    assert function is not None
    check_signals(where, function, signals)
    check_count(f"{where}: history", term.history)
    if isinstance(mirror, str) and mirror not in KINDS:
        raise ValueError(f"{where}: mirror must be one of {', '.join(KINDS)}; found {mirror!r}")
    return ObservationTerm(as_number(f"{where}: scale", term.scale), term.history, function, mirror)


def evaluate(terms: Mapping[str, ObservationTerm], signals: Mapping[str, Any]) -> dict[str, Array]:
    """The terms without noise, scale and history, by name, [size] each.

    Raises:
      ValueError: a term is no vector.
    """
    values = {}
    for name, term in terms.items():
        assert term.function is not None
        value = call(term.function, signals)
        if jnp.ndim(value) != 1:
            raise ValueError(
                f"the observation {name!r} must be a vector [size]; its shape is {jnp.shape(value)}"
            )
        values[name] = value
    return values


class Entry(NamedTuple):
    """Where a term is in an observation."""

    name: str
    start: int
    size: int
    """Length of the term at one time; in the observation it has ``history * size`` numbers, newest
    first."""
    scale: float
    history: int
    mirror: Reflection | None


def layout(terms: Mapping[str, ObservationTerm], sizes: Mapping[str, int]) -> tuple[Entry, ...]:
    """Where the terms are in the observation that joins them."""
    entries, start = [], 0
    for name, term in terms.items():
        entries.append(Entry(name, start, sizes[name], term.scale, term.history, term.mirror))
        start += term.history * sizes[name]
    return tuple(entries)


def reflection(
    name: str, kind: Reflection | None, size: int, joints: tuple[Any, Any], feet: Any
) -> tuple[np.ndarray, np.ndarray]:
    """How the mirror image of a robot sees a term: permutation and signs,
    ``x'[i] = sign[i] * x[permutation[i]]``.

    Args:
      name: name of the term, for messages.
      kind: its kind.
      size: its length.
      joints: permutation and signs of the joints.
      feet: permutation of the feet.

    Raises:
      ValueError: the term says nothing of its kind, or its size is not that of its kind.
    """
    if kind is None:
        raise ValueError(
            f"the observation {name!r} does not say how it looks in the mirror: give "
            f"ObservationTerm(mirror=...), one of {', '.join(KINDS)}, or a permutation and signs"
        )
    if not isinstance(kind, str):
        permutation, sign = np.asarray(kind[0], int), np.asarray(kind[1], float)
    else:
        vector = np.array([1.0, -1.0, 1.0])
        axes = 3 * np.asarray(feet, int)[:, None] + np.arange(3)
        known = {
            "vector": (np.arange(3), vector),
            "axial": (np.arange(3), -vector),
            "command": (np.arange(3), np.array([1.0, -1.0, -1.0])),
            "joints": (np.asarray(joints[0], int), np.asarray(joints[1], float)),
            "feet": (np.asarray(feet, int), np.ones(len(feet))),
            "feet_vectors": (axes.ravel(), np.tile(vector, len(feet))),
            "clock": (np.arange(2), -np.ones(2)),
            "scalar": (np.arange(size), np.ones(size)),
        }
        permutation, sign = known[kind]
    if sorted(permutation) != list(range(size)) or sign.shape != (size,):
        raise ValueError(
            f"the observation {name!r} has {size} numbers, which does not fit its mirror, {kind!r}"
        )
    return permutation, sign
