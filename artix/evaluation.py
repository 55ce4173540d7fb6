"""How ``jax.vmap`` evaluates functions of an articulation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from artix.constants import split_known
from artix.lanes import batch_last
from artix.topology import Topology

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Without and with lanes (float32, batch 4096, two CPU cores, us): inverse dynamics of trees of 8, 13, 30 and 51 bodies
# 0.35 and 0.15, 0.65 and 0.25, 1.2 and 0.8, 1.5 and 1.4; mass matrices 0.32 and 0.12, 0.55 and 0.31, 1.1 and 0.9, 3.0
# and 3.2; forward dynamics of a chain of 64 31 and 20, but 5.6 s to compile instead of 3.7.
_MOST_BODIES = 40


def in_lanes(*, most_bodies: int = _MOST_BODIES) -> Callable[[_Function], _Function]:
    """Decorates a function of an articulation, pytrees of arrays and static keywords.

    Under ``jax.vmap`` it has the batch as the last axis of all arrays, see :mod:`artix.lanes`, unless the articulation
    has more than ``most_bodies`` or its tree is data. What is known of the articulation stays known.
    """

    def decorator(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapper(articulation, *arguments, **static):
            tree = articulation.topology
            if not isinstance(tree, Topology) or tree.num_bodies > most_bodies:
                return function(articulation, *arguments, **static)
            known, traced = split_known(articulation)

            def of_arrays(traced, *arguments):
                return function(traced if known is None else known, *arguments, **static)

            return batch_last(of_arrays)(traced, *arguments)

        return wrapper  # type: ignore[return-value]

    return decorator
