"""Many steps in time."""

from __future__ import annotations

from typing import Any

import jax

from artix.contact.ground import Ground
from artix.evaluation.devices import scan
from artix.model.articulation import Articulation, State
from artix.simulation.common.options import Control, SolverOptions
from artix.simulation.remembered import no_memory
from artix.simulation.step import DEFAULT_OPTIONS, step, step_with_contact_memory

Array = jax.Array


def rollout(
    articulation: Articulation,
    state: State,
    control: Control | None,
    dt: float | Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    num_steps: int | None = None,
    ground: Ground | None = None,
) -> State:
    """Many steps in one ``jax.lax.scan``.

    Args:
      articulation: the articulation.
      state: where it starts.
      control: with ``num_steps``, the control that holds during all steps (or ``None``); without, one control per
        step, every array with a leading axis [T].
      dt: the step [s].
      options: solver and iterations; static.
      num_steps: number of steps T under a constant control.
      ground: as for :func:`step`; the steps remember their contacts, as by :func:`step_with_contact_memory`.

    Returns:
      The states after each step, every array with a leading axis [T].

    Raises:
      ValueError: neither ``num_steps`` nor an array in ``control`` says how many steps there are; and as :func:`step`.
      TypeError: as :func:`step`.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> start = artix.neutral_state(pendulum).replace(joint_position=jnp.array([0.3, 0.0]))
      >>> states = artix.rollout(pendulum, start, None, 0.01, num_steps=200)
      >>> print(states.joint_position.shape, jnp.abs(states.joint_position[:, 0]).max() < 0.4)
      (200, 2) True
      >>> torques = artix.Control(joint_force=jnp.zeros((50, 2)))  # or a control for each step
      >>> print(artix.rollout(pendulum, start, torques, 0.01).joint_position.shape)
      (50, 2)
    """
    if num_steps is None and not jax.tree.leaves(control):
        raise ValueError("give num_steps, or a control with a leading axis over the steps")

    memory = no_memory(articulation, ground, options)

    def advance(now: tuple[State, Any], now_control: Control | None) -> tuple[tuple[State, Any], State]:
        given = control if num_steps is not None else now_control
        before, remembered = now
        if remembered is None:
            end = step(articulation, before, given, dt, options)
        else:
            end, remembered = step_with_contact_memory(
                articulation, before, remembered, given, dt, options, ground=ground
            )
        return (end, remembered), end

    return scan(advance, (state, memory), None if num_steps is not None else control, length=num_steps)[1]
