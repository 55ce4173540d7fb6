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


@pytest.mark.slow
def test_what_a_long_call_makes_is_old() -> None:
    """Otherwise the next collection of young objects would search all that a compilation has
    made."""
    made = long_call(lambda: [[number] for number in range(1_000)])()
    old = set(map(id, gc.get_objects(generation=2)))
    assert all(id(item) in old for item in made)


def test_a_long_call_leaves_frozen_objects_frozen() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        long_call(list)()
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()
