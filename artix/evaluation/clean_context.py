"""Tracing independent of the caller's context: a program is traced once, and serves callers on any mesh of devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jax._src import config as _config
from jax._src import core as _core
from jax._src import mesh as _mesh


@contextlib.contextmanager
def clean_context() -> Iterator[None]:
    """Within it, JAX traces as outside of ``jax.shard_map`` and without a mesh.

    JAX's public functions can set a mesh but not unset it while tracing.
    """
    with _mesh.use_abstract_mesh(_mesh.empty_abstract_mesh):
        yield


def all_devices_alike() -> contextlib.AbstractContextManager[Any]:
    """Within it, ``jax.shard_map`` does not require that the operands of an operation vary over the same devices.

    Programs are traced without devices, so that their constants vary over none.
    """
    check = getattr(_config, "_check_vma", None)
    return contextlib.nullcontext() if check is None else check(False)


def is_staging() -> bool:
    """Whether JAX traces a program (for ``jax.jit``, a loop, ...), also through any number of ``vmap`` and ``jvp``."""
    trace: Any = _core.trace_ctx.trace
    while trace is not None:
        if type(trace).__name__ == "DynamicJaxprTrace":
            return True
        trace = getattr(trace, "parent_trace", None)
    return False
