"""Tracing without what surrounds it: a program is traced once, and then serves callers on any mesh of devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jax._src import config as _config
from jax._src import core as _core
from jax._src import mesh as _mesh


@contextlib.contextmanager
def clean_context() -> Iterator[None]:
    """Within it, JAX traces as it does outside ``jax.shard_map`` and without a mesh that is set.

    Public functions set a mesh, but none unsets it for the arrays of a trace.
    """
    with _mesh.use_abstract_mesh(_mesh.empty_abstract_mesh):
        yield


def all_devices_alike() -> contextlib.AbstractContextManager[Any]:
    """Within it, ``jax.shard_map`` does not ask that operands of an operation vary over the same devices.

    Programs are traced without devices; what they compute from constants varies over none.
    """
    check = getattr(_config, "_check_vma", None)
    return contextlib.nullcontext() if check is None else check(False)


def is_staging() -> bool:
    """Whether JAX traces a program (for ``jax.jit``, a loop, ...), however many ``vmap`` and ``jvp`` lie between."""
    trace: Any = _core.trace_ctx.trace
    while trace is not None:
        if type(trace).__name__ == "DynamicJaxprTrace":
            return True
        trace = getattr(trace, "parent_trace", None)
    return False
