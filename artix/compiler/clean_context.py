"""Tracing that does not depend on the caller's context: a program traced once serves callers on any mesh of devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
from jax._src import config as _config
from jax._src import core as _core
from jax._src import mesh as _mesh

#: JAX traces a function again where this differs: within a program it consists of operations, elsewhere of programs.
_within_program: Any = jax.make_user_context(False) if hasattr(jax, "make_user_context") else contextlib.nullcontext


@contextlib.contextmanager
def clean_context() -> Iterator[None]:
    """Within this context, JAX traces as it does outside ``jax.shard_map``, without a mesh and by its default rules.

    JAX's public functions can set a mesh while tracing, but not unset it.
    """
    with _mesh.use_abstract_mesh(_mesh.empty_abstract_mesh), jax.numpy_rank_promotion("allow"), _within_program(True):
        yield


def without_varying_check() -> contextlib.AbstractContextManager[Any]:
    """Within this context, ``jax.shard_map`` lets the operands of an operation vary over different devices.

    Programs are traced without devices, so their constants do not vary over any.
    """
    check = getattr(_config, "_check_vma", None)
    return contextlib.nullcontext() if check is None else check(False)


def is_staging() -> bool:
    """Whether JAX is tracing a program (for ``jax.jit``, a loop, ...), possibly below ``vmap`` and ``jvp``."""
    trace: Any = _core.trace_ctx.trace
    while trace is not None:
        if type(trace).__name__ == "DynamicJaxprTrace":
            return True
        trace = getattr(trace, "parent_trace", None)
    return False
