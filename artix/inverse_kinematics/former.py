"""The function of the last release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from artix import Articulation, State
from artix.inverse_kinematics.configurations import Solution, solve
from artix.inverse_kinematics.tasks import FrameTask
from artix.model.checks import as_array, check_names


def inverse_kinematics(
    articulation: Articulation,
    frames: Sequence[str],
    targets: jax.Array,
    seeds: State,
    *,
    rotation_weight: float | jax.Array = 0.3,
    **options: Any,
) -> Solution:
    """:func:`artix.inverse_kinematics.solve` of frames.

    Args:
      articulation: the articulation.
      frames: names of F links or additional frames.
      targets: their world poses, position [m] and quaternion xyzw, shape [F, 7].
      seeds: configurations to start from.
      rotation_weight: the orientation cost of all frames.
      **options: other arguments of :func:`artix.inverse_kinematics.solve`.

    Returns:
      The solution; its units are m and rad.
    """
    check_names("frames", frames)
    names = tuple(frames)
    targets = as_array(
        "targets", targets, (len(names), 7), articulation.dtype, f"a pose for each of {list(names)}"
    )
    tasks = [FrameTask(name, targets[k], 1.0, rotation_weight) for k, name in enumerate(names)]
    return solve(articulation, tasks, seeds, **options)
