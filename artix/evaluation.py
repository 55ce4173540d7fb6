"""How ``jax.vmap`` evaluates functions of an articulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from artix.articulation import Articulation
from artix.batch_rules import BatchEvaluation, with_batch_rule
from artix.batches import evaluate_plainly, in_blocks_of_caches, one_device_of_a_cpu
from artix.constants import is_known
from artix.lanes import evaluate_in_lanes
from artix.topology import Topology

_Result = TypeVar("_Result")

# Without and with lanes (float32, batch 4096, two CPU cores, us): inverse dynamics of trees of 8, 13, 30 and 45 bodies
# 0.35 and 0.15, 0.65 and 0.25, 1.2 and 0.8, 1.5 and 1.4, its derivatives 1.4 and 0.7, 2.9 and 1.5, 6.4 and 7.0, 16 and
# 12; forward dynamics 0.53 and 0.22, 1.1 and 0.5, 1.6 and 1.1, 5.4 and 4.6. A chain of 64: forward dynamics 31 and 20,
# but 5.6 s to compile instead of 3.7, derivatives of inverse dynamics 16 and 22. Steps of 8, 13 and 30 bodies take as
# long, 30 % less and 10 % more, and compile 10 to 20 % longer. Fleets, whose trees are data, gain nothing.
_MOST_BODIES = 50

#: Matrices of more DOFs are put together outside the lanes, whose results have to be turned. Mass matrices of 7, 18,
#: 29, 35 and 64 DOFs take 0.31, 0.61, 1.03, 1.65 and 5.6 us within and 0.36, 0.65, 0.95, 1.42 and 3.6 outside, dense
#: Jacobians of 7, 16, 18 and 29 DOFs 0.14, 0.70, 0.75 and 4.2 us within and 0.23, 0.84, 0.45 and 2.5 outside.
MOST_DOFS_OF_MATRICES = 16

# How many numbers the intermediates of one body have, as XLA keeps them: of dynamics, poses and velocities, and steps.
_IN_DYNAMICS, IN_KINEMATICS, _IN_STEPS = 45, 20, 90


def in_lanes(
    function: Callable[..., _Result], articulation: Articulation, *arguments: Any, numbers_of_body: int = _IN_DYNAMICS
) -> _Result:
    """``function(articulation, *arguments)``, under ``jax.vmap`` with batches as the last axis, large ones in blocks.

    That is for what users call. Within larger programs, functions share their kinematics, and lanes of their own would
    compute them again.

    Args:
      function: a function of an articulation and pytrees of arrays.
      articulation: the articulation; trees of more than 50 bodies have the batch first, those that are data are left
        to ``jax.vmap``.
      arguments: the pytrees.
      numbers_of_body: how many numbers the intermediates of one body have; it decides about blocks.
    """
    tree = articulation.topology
    if not isinstance(tree, Topology):
        return function(articulation, *arguments)
    evaluation: BatchEvaluation = evaluate_in_lanes if tree.num_bodies <= _MOST_BODIES else evaluate_plainly
    evaluation = in_blocks_of_caches(evaluation, numbers_of_body * tree.num_bodies)
    return with_batch_rule(function, evaluation)(articulation, *arguments)


def in_blocks(function: Callable[..., _Result], articulation: Articulation, *arguments: Any) -> _Result:
    """``function(articulation, *arguments)``, of which ``jax.vmap`` evaluates large batches in blocks; for steps.

    Args:
      function: a function of an articulation and pytrees of arrays.
      articulation: the articulation; those that are traced, as arguments of a program, are left to ``jax.vmap``. (Where
        drives are data a step has a condition, and JAX cannot transpose conditions of batches within a ``custom_jvp``.)
      arguments: the pytrees.
    """
    tree = articulation.topology
    if not isinstance(tree, Topology) or not is_known(articulation) or not one_device_of_a_cpu():
        return function(articulation, *arguments)
    evaluation = in_blocks_of_caches(evaluate_plainly, _IN_STEPS * tree.num_bodies)
    return with_batch_rule(function, evaluation)(articulation, *arguments)
