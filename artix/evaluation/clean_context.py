"""Tracing without what surrounds it: a program is traced once, and then serves callers on any mesh of devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax

try:
    from jax._src import mesh as _mesh
except ImportError:  # pragma: no cover
    _mesh: Any = None  # type: ignore[no-redef]


@contextlib.contextmanager
def clean_context() -> Iterator[None]:
    """Within it, JAX traces as it does outside ``jax.shard_map`` and without a mesh that is set.

    Public functions set a mesh, but none unsets it for the arrays of a trace.
    """
    if _mesh is None or not hasattr(_mesh, "use_abstract_mesh") or not hasattr(_mesh, "empty_abstract_mesh"):
        yield
        return
    with _mesh.use_abstract_mesh(_mesh.empty_abstract_mesh):
        yield


def is_staging() -> bool:
    """Whether JAX traces a program (for ``jax.jit``, a loop, ...), however many ``vmap`` and ``jvp`` lie between."""
    from jax._src import core

    trace: Any = core.trace_ctx.trace
    while trace is not None:
        if type(trace).__name__ == "DynamicJaxprTrace":
            return True
        trace = getattr(trace, "parent_trace", None)
    return False
