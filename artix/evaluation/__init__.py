"""How ``jax.vmap`` evaluates functions of an articulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

from artix.articulation import Articulation
from artix.batch_rules import BatchEvaluation, with_batch_rule
from artix.batches import evaluate_plainly, in_blocks_of_caches, one_device_of_a_cpu
from artix.derivative_programs import derivative_along
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
#: Jacobians of 7, 16, 18 and 29 DOFs 0.14, 0.70, 0.75 and 4.2 us within and 0.23, 0.84, 0.45 and 2.5 outside; products
#: of n x n and n x 2n matrices of 7, 12, 18, 29 and 50 DOFs 0.18, 0.7, 2.1, 6.7 and 28 us within, turned, and 0.18,
#: 0.13, 0.75, 2.0 and 5.7 outside.
MOST_DOFS_OF_MATRICES = 16

# Without and with lanes (as above): gradients of forward dynamics of trees of 8, 13 and 31 bodies 1.3 and 0.6, 2.7 and
# 1.2, 9.4 and 4.8 us, Jacobians 2.4 and 0.7, 4.6 and 1.9, 20 and 10, Hessians 26 and 11, 73 and 29, 450 and 250. With
# jaxlib 0.10, whose XLA drops the barriers in programs, it is the other way round: 1.9 and 7.9, 11 and 63.
_DERIVATIVES_IN_LANES = jax.__version_info__ >= (0, 11)

# How many numbers the intermediates of one body have, as XLA keeps them: of dynamics, poses and velocities, and steps.
# Of derivatives they are twice as many, and a quarter more for every tangent (or cotangent) that they go along.
_IN_DYNAMICS, IN_KINEMATICS, _IN_STEPS = 45, 20, 90


def in_lanes(
    function: Callable[..., Any],
    articulation: Articulation,
    *arguments: Any,
    numbers_of_body: int = _IN_DYNAMICS,
    finish: Callable[[Any], Any] | None = None,
) -> Any:
    """``function(articulation, *arguments)``, under ``jax.vmap`` with batches as the last axis, large ones in blocks.

    That is for what users call. Within larger programs, functions share their kinematics, and lanes of their own would
    compute them again.

    Args:
      function: a function of an articulation and pytrees of arrays.
      articulation: the articulation; trees of more than 50 bodies have the batch first, those that are data are left
        to ``jax.vmap``.
      arguments: the pytrees.
      numbers_of_body: how many numbers the intermediates of one body have; it decides about blocks.
      finish: what makes the result of that of the function: products of matrices, which where they are large have the
        batch first.
    """
    tree = articulation.topology
    if not isinstance(tree, Topology):
        result = function(articulation, *arguments)
        return result if finish is None else finish(result)
    numbers = numbers_of_body * tree.num_bodies
    evaluation: BatchEvaluation = evaluate_in_lanes if tree.num_bodies <= _MOST_BODIES else evaluate_plainly
    if finish is None:
        return _with_evaluation(function, evaluation, numbers)(articulation, *arguments)
    if tree.nv > MOST_DOFS_OF_MATRICES:
        function, evaluation = _with_evaluation(function, evaluation, numbers), evaluate_plainly
    return _with_evaluation(lambda *all: finish(function(*all)), evaluation, numbers)(articulation, *arguments)


def in_blocks(function: Callable[..., _Result], articulation: Articulation, *arguments: Any) -> _Result:
    """``function(articulation, *arguments)``, of which ``jax.vmap`` evaluates large batches in blocks; for steps.

    Args:
      function: a function of an articulation and pytrees of arrays.
      articulation: the articulation; those whose trees are data are left to ``jax.vmap``.
      arguments: the pytrees.
    """
    tree = articulation.topology
    if not isinstance(tree, Topology) or not one_device_of_a_cpu():
        return function(articulation, *arguments)
    return _with_evaluation(function, evaluate_plainly, _IN_STEPS * tree.num_bodies)(articulation, *arguments)


def _with_evaluation(function: Callable[..., _Result], evaluation: BatchEvaluation, numbers: int):
    """The same function, of which batches and batches of first derivatives are evaluated so, large ones in blocks."""

    def of_derivatives(tangents: int) -> BatchEvaluation:
        of_block = evaluation if _DERIVATIVES_IN_LANES else evaluate_plainly
        return in_blocks_of_caches(of_block, (8 + tangents) * numbers // 4)

    def derivative(function: Callable[..., Any], arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return derivative_along(function, of_derivatives, arrays, tangents)

    return with_batch_rule(function, in_blocks_of_caches(evaluation, numbers), derivative)
