"""Rollouts whose steps are reported: one program, where a rollout and a step after it are two."""

from __future__ import annotations

from typing import Any

import jax

import artix


def reported_rollout(
    scene: artix.Articulation | artix.Scene,
    start: Any,
    control: Any,
    dt: float,
    num_steps: int,
    options: artix.SolverOptions | None = None,
) -> tuple[Any, Any]:
    """The states after each step, and the report of each step, with a leading axis [T]; the control
    is the same for all.
    """
    options = artix.SolverOptions() if options is None else options

    @jax.jit
    def run(state: Any) -> tuple[Any, Any]:
        def advance(state: Any, _: None) -> tuple[Any, Any]:
            end, report = artix.step_and_report(scene, state, control, dt, options)
            return end, (end, report)

        before = artix.remember_contacts(scene, state, control, dt, options)
        return jax.lax.scan(advance, before, length=num_steps)[1]

    return run(start)


def last(tree: Any) -> Any:
    """The last entries of all arrays."""
    return jax.tree.map(lambda x: x[-1], tree)
