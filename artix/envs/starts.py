"""Random initial states: terms by name that vary a pose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

import artix
from artix.envs import random_numbers
from artix.envs.terms import check_known, check_mapping, pair_of
from artix.model.checks import as_number

Array = jax.Array

#: Varies a state: robot, random key, state and size, to the new state.
Reset: TypeAlias = Callable[[artix.Articulation, Array, artix.State, float], artix.State]

Resets = Mapping[str, "float | tuple[float, Reset] | None"]
"""How starts vary, in order: the largest change of each term by name; a term of your own is
``(size, function)``."""


def standing(
    articulation: artix.Articulation, joint_position: Array, height: float | Array
) -> artix.State:
    """A pose above the origin, level and at rest.

    Args:
      articulation: the robot.
      joint_position: the pose [rad], [n].
      height: height of the root [m].
    """
    dtype = articulation.dtype
    place = jnp.zeros(7, dtype).at[2].set(height).at[6].set(1.0)
    joints = jnp.asarray(joint_position, dtype)
    return artix.State(place, jnp.zeros(6, dtype), joints, jnp.zeros_like(joints))


def place(
    articulation: artix.Articulation, key: Array, state: artix.State, size: float
) -> artix.State:
    """Both horizontal coordinates of the root [m]."""
    moved = state.root_pose[:2] + size * _random(key, 2, articulation)
    return state.replace(root_pose=jnp.concatenate([moved, state.root_pose[2:]]))


def heading(
    articulation: artix.Articulation, key: Array, state: artix.State, size: float
) -> artix.State:
    """Heading of the root [rad]."""
    half = 0.5 * size * _random(key, 1, articulation)
    return _turned(state, jnp.array([0, 0, 1], articulation.dtype), half[0])


def tilt(
    articulation: artix.Articulation, key: Array, state: artix.State, size: float
) -> artix.State:
    """Angle of the root to the horizontal [rad], about a random horizontal axis."""
    random = _random(key, 2, articulation)
    angle = jnp.pi * random[0]
    axis = jnp.stack([jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle)])
    return _turned(state, axis, 0.5 * size * random[1])


def velocity(
    articulation: artix.Articulation, key: Array, state: artix.State, size: float
) -> artix.State:
    """Each component of the root's velocity [m/s, rad/s]."""
    return state.replace(root_velocity=state.root_velocity + size * _random(key, 6, articulation))


def joint_position(
    articulation: artix.Articulation, key: Array, state: artix.State, size: float
) -> artix.State:
    """Joint positions [rad or m], within their limits."""
    moved = state.joint_position + size * _random(key, len(state.joint_position), articulation)
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    return state.replace(joint_position=jnp.clip(moved, lower, upper))


def joint_velocity(
    articulation: artix.Articulation, key: Array, state: artix.State, size: float
) -> artix.State:
    """Joint velocities [rad/s or m/s]."""
    random = _random(key, len(state.joint_position), articulation)
    return state.replace(joint_velocity=state.joint_velocity + size * random)


#: All terms by name.
TERMS: dict[str, Reset] = {
    term.__name__: term for term in (place, heading, tilt, velocity, joint_position, joint_velocity)
}

#: Those after which the feet have to be put on the ground again, as after terms of the user's.
_MOVES_FEET = ("tilt", "joint_position")


def check_resets(resets: Resets) -> dict[str, tuple[float, Reset]]:
    """The terms with their functions; those that are ``None`` or zero are left out.

    Raises:
      TypeError: ``resets`` is no mapping.
      ValueError: there is no term of a name, or a size is negative or not finite.
    """
    check_mapping("resets", resets, "'tilt': 0.1")
    terms = {}
    for name, term in resets.items():
        if term is None:
            continue
        if not isinstance(term, tuple):
            check_known("resets", name, TERMS, "(size, function)")
        size, function = pair_of("resets", name, term, TERMS, "(size, function)")
        size = as_number(f"resets: {name!r}", size, 0)
        if size:
            terms[name] = (size, function)
    return terms


def varied(
    articulation: artix.Articulation,
    key: Array,
    state: artix.State,
    resets: Mapping[str, tuple[float, Reset]],
    ground: artix.Ground | None = None,
) -> artix.State:
    """A state that terms have varied one after the other.

    Args:
      articulation: the robot.
      key: a JAX random key.
      state: the state to vary.
      resets: the terms, from :func:`check_resets`.
      ground: if a term moves the feet, the robot is put on this ground again.

    Examples:
      >>> from artix.envs import starts
      >>> robot = artix.robots.load("quadruped")
      >>> still = starts.standing(robot, jnp.zeros(12, robot.dtype), 0.44)
      >>> terms = starts.check_resets({"heading": 3.14, "joint_position": 0.1})
      >>> state = starts.varied(robot, jax.random.key(0), still, terms)
      >>> bool(jnp.all(jnp.abs(state.joint_position) <= 0.1))
      True
    """
    keys = random_numbers.split(key, max(len(resets), 1))
    for one, (size, function) in zip(keys, resets.values(), strict=False):
        state = function(articulation, one, state, size)
    moves = any(
        name in _MOVES_FEET or TERMS.get(name) is not term for name, (_, term) in resets.items()
    )
    if ground is None or not moves:
        return state
    height = on_ground(articulation, state, ground, 0.0)
    return state.replace(root_pose=state.root_pose.at[2].set(height))


#: Steps of Newton's method that find the height of a robot over rough ground.
_SEARCH_STEPS = 6


@artix.quantity
def on_ground(
    articulation: artix.Articulation, state: artix.State, ground: artix.Ground, gap: float | Array
) -> Array:
    """The height of the root at which the robot's closest contact point is ``gap`` above the
    ground, [] [m].

    On a slope, lowering the robot reduces a gap only by the cosine of the slope angle; this is
    taken into account.

    Args:
      articulation: the robot.
      state: its configuration; the height of the root is ignored.
      ground: what it stands on.
      gap: the distance [m].

    Examples:
      >>> from artix.envs import starts
      >>> robot, ground = artix.robots.load("quadruped"), artix.Ground.flat()
      >>> height = starts.on_ground(robot, artix.neutral_state(robot), ground, 0.01)
      >>> state = artix.neutral_state(robot)
      >>> state = state.replace(root_pose=state.root_pose.at[2].set(height))
      >>> print(artix.geometry_distances(artix.Scene(robot, ground=ground), state).min())
      0.01
    """
    scene = artix.Scene(articulation, ground=ground)

    def closer(height: Array) -> Array:
        placed = state.replace(root_pose=state.root_pose.at[2].set(height))
        contacts = artix.ground_contacts(scene, placed).contacts
        return height + jnp.max((gap - contacts.gap) / contacts.normal[:, 2])

    if all(isinstance(surface, artix.Plane) for surface in ground.surfaces):
        return closer(state.root_pose[2])
    # Gaps are those of the nearest points, so the search begins close to the ground: as high above
    # what is below the root as the robot would stand on level ground.
    level = artix.Scene(articulation, ground=artix.Ground.flat(dtype=articulation.dtype))
    lowest = jnp.min(artix.ground_contacts(level, state).contacts.gap)
    above = [
        surface.heights_below(state.root_pose[:3], jnp.zeros_like(lowest, shape=(3, 1)))
        for surface in ground.surfaces
    ]
    ground_height = state.root_pose[2] - jnp.min(jnp.concatenate(above))
    start = ground_height + state.root_pose[2] + gap - lowest
    # Beside an edge the search may go to and fro; the higher place is outside of the ground.
    return jnp.maximum(
        *jax.lax.fori_loop(
            0, _SEARCH_STEPS + 1, lambda _, last: (last[1], closer(last[1])), (start, start)
        )
    )


def _random(key: Array, count: int, articulation: Any) -> Array:
    """Uniform numbers from -1 to 1."""
    return 2 * random_numbers.uniform(key, count, articulation.dtype) - 1


def _turned(state: artix.State, axis: Array, half: Array) -> artix.State:
    """The state after a rotation of the root about an axis through its origin, in world axes."""
    ax, ay, az = jnp.sin(half) * axis
    aw = jnp.cos(half)
    x, y, z, w = state.root_pose[3:]
    turned = [
        aw * x + ax * w + ay * z - az * y,
        aw * y - ax * z + ay * w + az * x,
        aw * z + ax * y - ay * x + az * w,
        aw * w - ax * x - ay * y - az * z,
    ]
    return state.replace(root_pose=jnp.concatenate([state.root_pose[:3], jnp.stack(turned)]))
