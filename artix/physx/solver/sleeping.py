"""Sleeping: an articulation that has hardly moved for a while is not stepped any more, as in PhysX.

The counters are a small pytree that users carry along with the state. Sleeping is not
differentiable: a sleeping articulation does not respond to its inputs, and its velocities jump to
zero when it falls asleep.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.kinematics.frames import forward_kinematics
from artix.math import spatial, struct
from artix.math.arrays import check_finite, chosen
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation, State
from artix.model.checks import as_number, check_type, check_vector
from artix.model.states import at_rest
from artix.simulation.common.control import Control

Array = jax.Array

#: PhysX's ``wakeCounterResetValue``: how long a woken link stays awake without moving [s].
WAKE_TIME = 0.4
#: PhysX's default sleep threshold for lengths in metres [m^2/s^2].
SLEEP_THRESHOLD = 5e-3
# Counter of links that came to rest before the others [s].
_ALMOST_ASLEEP = 1e-6


class SleepState(struct.PyTreeNode):
    """The sleep counters of an articulation's links.

    Attributes:
      wake_counter: time for which each link stays awake without moving [s], shape [L]; the
        articulation sleeps when all are zero.
      linear_sum: sum of the velocities of each link's centre of mass over the last steps [m/s], in
        world axes, shape [L, 3].
      angular_sum: the same sum of angular velocities [rad/s], in the axes of the mass frame, shape
        [L, 3].

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> print(artix.wake_up(pole).wake_counter)  # [s]
      [0.4 0.4 0.4]
    """

    wake_counter: Array
    linear_sum: Array
    angular_sum: Array


def wake_up(articulation: Articulation, wake_counter: float | Array = WAKE_TIME) -> SleepState:
    """Wakes an articulation, as PhysX's ``wakeUp`` and ``setWakeCounter`` do.

    Args:
      wake_counter: time for which it stays awake without moving [s].

    Returns:
      The counters of an articulation that is awake.

    Raises:
      ValueError: ``wake_counter`` is negative or not finite. A number that is traced is not
        checked.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> sleep = artix.wake_up(pole, wake_counter=1.0)
      >>> print(sleep.wake_counter, sleep.linear_sum.shape)
      [1. 1. 1.] (3, 3)
    """
    counter = jnp.full_like(articulation.link_mass, as_number("wake_counter", wake_counter, 0))
    zero = jnp.zeros_like(articulation.link_com_pose[:, :3])
    return SleepState(counter, zero, zero)


def put_to_sleep(articulation: Articulation, state: State) -> tuple[State, SleepState]:
    """Stops an articulation and puts it to sleep at once, as PhysX's ``putToSleep`` does.

    Args:
      state: its state.

    Returns:
      The state at rest in the same configuration, and counters that are all zero.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> state, sleep = artix.put_to_sleep(pole, artix.random_state(pole, jax.random.key(0)))
      >>> print(state.joint_velocity, artix.is_sleeping(sleep))
      [0. 0.] True
    """
    return at_rest(state), wake_up(articulation, 0.0)


def is_sleeping(sleep: SleepState) -> Array:
    """Whether an articulation is asleep, as PhysX's ``isSleeping`` returns it.

    Args:
      sleep: its counters.

    Returns:
      Shape [], bool.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> awake, tired = artix.wake_up(pole), artix.wake_up(pole, 0.0)
      >>> print(artix.is_sleeping(awake), artix.is_sleeping(tired))
      False True
    """
    return jnp.all(sleep.wake_counter == 0)


def check_sleep(articulation: Articulation, sleep: SleepState) -> None:
    """Raises unless counters are those of an articulation's links, and finite if they are known.

    Raises:
      TypeError: they are no :class:`SleepState`, or have another dtype; or this is no articulation.
      ValueError: they are of another number of links, or a known number is not finite.
    """
    check_type("articulation", articulation, Articulation)
    check_type("sleep", sleep, SleepState)
    links = articulation.topology.num_links
    shapes = {"wake_counter": (links,), "linear_sum": (links, 3), "angular_sum": (links, 3)}
    for name, shape in shapes.items():
        value = getattr(sleep, name)
        check_vector(f"sleep.{name}", value, shape, articulation.dtype, "L links")
        check_finite(f"sleep.{name}", value)


def sleep_after_step(
    articulation: Articulation,
    state: State,
    end: State,
    sleep: SleepState,
    control: Control | None,
    dt: float | Array,
    sleep_threshold: float | Array,
) -> tuple[State, SleepState]:
    """Applies sleeping to a step from ``state`` to ``end``; see :func:`step_with_sleep`."""
    dt = jnp.asarray(dt, articulation.dtype)
    sleep = woken_by(control, sleep)
    after = _count_down(articulation, end, sleep, dt, jnp.asarray(sleep_threshold, dt.dtype))
    slept, falls_asleep = is_sleeping(sleep), is_sleeping(after)
    end = chosen(falls_asleep, at_rest(end), end)
    return chosen(slept, at_rest(state), end), chosen(slept, sleep, after)


def _count_down(
    articulation: Articulation, end: State, sleep: SleepState, dt: Array, threshold: Array
) -> SleepState:
    """The counters after a step that ended in ``end``."""
    links = forward_kinematics(articulation, end)
    frame = Transforms.from_poses(links.pose) @ Transforms.from_poses(articulation.link_com_pose)
    spin = spatial.rotate_inverse(frame.rotation, links.velocity[:, 3:].T).T
    drowsy = (sleep.wake_counter < WAKE_TIME / 2) | (sleep.wake_counter < dt)
    linear, angular = (
        jnp.where(drowsy[:, None], old + new, old)
        for old, new in ((sleep.linear_sum, links.velocity[:, :3]), (sleep.angular_sum, spin))
    )
    turning = jnp.einsum(
        "li,lij,lj->l",
        angular,
        articulation.link_inertia,
        angular,
        precision=jax.lax.Precision.HIGHEST,
    )
    heavy = articulation.link_mass > 0
    turning = jnp.where(heavy, turning / jnp.where(heavy, articulation.link_mass, 1), 0)
    energy = 0.5 * (jnp.sum(linear**2, axis=1) + turning)
    stirs = drowsy & ~(energy < threshold)  # What has diverged to NaN is not at rest.
    ratio = jnp.where(energy < 2 * threshold, energy / jnp.where(threshold > 0, threshold, 1), 2)
    counter = jnp.where(stirs, ratio * WAKE_TIME / 2, jnp.maximum(sleep.wake_counter - dt, 0))
    counter = jnp.where(jnp.all(counter == 0), counter, jnp.maximum(counter, _ALMOST_ASLEEP))
    return SleepState(
        counter, *(jnp.where(stirs[:, None], 0, total) for total in (linear, angular))
    )


def woken_by(control: Control | None, sleep: SleepState) -> SleepState:
    """The counters, raised to their reset value if the control has a force."""
    forces = [] if control is None else [control.joint_force, control.external_force]
    pushed = [jnp.any(force != 0) for force in forces if force is not None]
    return woken_if(jnp.any(jnp.array(pushed, bool)), sleep)


def woken_if(condition: bool | Array, sleep: SleepState) -> SleepState:
    """The counters, raised to their reset value if the condition holds: PhysX's ``autowake``."""
    awake = jnp.maximum(sleep.wake_counter, WAKE_TIME)
    return sleep.replace(wake_counter=jnp.where(condition, awake, sleep.wake_counter))
