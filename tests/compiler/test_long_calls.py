"""Long calls are not slowed down by how CPython keeps its frames and finds its garbage."""

from __future__ import annotations

import gc

import pytest

from artix.compiler.jax_internals import long_call

resource = pytest.importorskip("resource", reason="page faults are counted only there")


def _leaf() -> None:
    pass


def _calls(count: int) -> int:
    """Page faults of a loop of calls."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        _leaf()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _nested(depth: int) -> int:
    return _nested(depth - 1) if depth else _calls(1000)


def test_calls_at_any_depth_need_no_memory_of_the_system() -> None:
    """Up to a page fault a call at one depth in fifty, without the decorator."""
    assert max(long_call(_nested)(depth) for depth in range(200)) < 100


def test_garbage_is_collected_afterwards() -> None:
    @long_call
    def fails() -> None:
        assert not gc.isenabled()
        raise LookupError

    with pytest.raises(LookupError):
        fails()
    assert gc.isenabled()
    gc.disable()
    try:
        assert not long_call(gc.isenabled)()
        assert not gc.isenabled()
    finally:
        gc.enable()
