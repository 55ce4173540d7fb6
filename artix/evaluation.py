"""How ``jax.vmap`` evaluates functions of an articulation."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from artix.articulation import Articulation
from artix.batch_rules import with_batch_rule
from artix.batches import evaluate_in_blocks, one_device_of_a_cpu
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

# Steps of 30 bodies in blocks of 256, 512, 1,024, 2,048 and 4,096 take 4.9, 4.7, 4.4, 5.7 and 7.9 us on two cores, of
# 46 bodies 11.6, 11, 12.3, 20 and 19 us. Their intermediates, 0.36 kB a body, are above 32 MB from the smallest batch
# on; below, blocks only take longer (13 bodies, batch 4096: 2.9 instead of 2.6 us).
_BODIES_OF_BLOCK = 16_000 * (os.cpu_count() or 1)
_BODIES_OF_SMALLEST_BATCH = 90_000


def in_lanes(
    function: Callable[..., _Result], articulation: Articulation, *arguments: Any, most_bodies: int = _MOST_BODIES
) -> _Result:
    """``function(articulation, *arguments)``, under ``jax.vmap`` with the batch as the last axis.

    That is for what users call. Within larger programs, functions share their kinematics, and lanes of their own would
    compute them again.

    Args:
      function: a function of an articulation and pytrees of arrays.
      articulation: the articulation.
      arguments: the pytrees.
      most_bodies: trees with more are left to ``jax.vmap``, as are those that are data.
    """
    tree = articulation.topology
    if not isinstance(tree, Topology) or tree.num_bodies > most_bodies:
        return function(articulation, *arguments)
    return with_batch_rule(function, evaluate_in_lanes)(articulation, *arguments)


def in_blocks(function: Callable[..., _Result], articulation: Articulation, *arguments: Any) -> _Result:
    """``function(articulation, *arguments)``, under ``jax.vmap`` in blocks where a CPU gains by it.

    That is for steps, whose intermediates are large. Of other functions batches of 4,096 gain nothing; beyond, they
    would (inverse dynamics of 30 bodies, batch 32,768: 1.1 instead of 2.2 us), but XLA compiles a loop that consists of
    element-wise operations into a function that runs on one core (jaxlib 0.12), and there may be many.

    Args:
      function: a function of an articulation and pytrees of arrays.
      articulation: the articulation; those that are traced, as arguments of a program, are left to ``jax.vmap``. (Where
        drives are data a step has a condition, and JAX cannot transpose conditions of batches within a ``custom_jvp``.)
      arguments: the pytrees.
    """
    tree = articulation.topology
    if not isinstance(tree, Topology) or not is_known(articulation) or not one_device_of_a_cpu():
        return function(articulation, *arguments)
    evaluation = functools.partial(
        evaluate_in_blocks,
        block=max(_BODIES_OF_BLOCK // tree.num_bodies, 1),
        smallest_batch=_BODIES_OF_SMALLEST_BATCH // tree.num_bodies,
    )
    return with_batch_rule(function, evaluation)(articulation, *arguments)
