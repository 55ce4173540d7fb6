"""The session that measures everything on a GPU, without one: its order, its lines, and what ends
it."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.gpu import session
from benchmarks.gpu.session import Failure, Session, Task, run


class Stub:
    """A session of given measurements."""

    def __init__(self, *measures: Callable[[], dict[str, Any]]) -> None:
        self._measures = measures

    def tasks(self) -> Iterator[Task]:
        for number, measure in enumerate(self._measures):
            yield Task({"what": str(number)}, measure)


def lines_of(file: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.getvalue().splitlines()]


def fail() -> dict[str, Any]:
    raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")


def lack() -> dict[str, Any]:
    raise ImportError("no warp")


def never() -> None:
    pytest.fail("not asked to")


def test_every_measurement_is_a_line_and_none_is_made_twice() -> None:
    file, done = io.StringIO(), set[str]()
    stub: Any = Stub(lambda: {"us": 1}, lack, fail, lambda: {"us": 2})
    until = time.time() + 100
    with pytest.raises(Failure):
        run(stub, file, until, done, never)
    run(stub, file, until, done, never)  # As the process that follows a failure.
    first, second, third, fourth = lines_of(file)
    assert first["us"] == 1 and first["seconds"] >= 0
    assert "no warp" in second["skipped"]
    assert "ILLEGAL_ADDRESS" in third["error"]
    assert fourth["us"] == 2 and fourth["task"] == {"what": "3"}


def test_a_measurement_that_does_not_end_is_a_line_and_the_session_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "LONGEST", 0.2)
    file, restarted = io.StringIO(), threading.Event()

    def hang() -> dict[str, Any]:
        assert restarted.wait(30)
        return {}

    stub: Any = Stub(hang)
    run(stub, file, time.time() + 100, set(), restarted.set)
    assert "not done after 0 s" in lines_of(file)[0]["error"]


def test_no_measurement_begins_after_the_end() -> None:
    file = io.StringIO()
    stub: Any = Stub(fail)
    run(stub, file, time.time() - 1, set(), never)
    assert not lines_of(file)


def test_the_most_important_measurements_come_first() -> None:
    """Eight minutes are enough for some fifty measurements with kernels."""
    names = [task.name for task in Session(is_dry=False).tasks()]
    assert [name["what"] for name in names[:2]] == ["device", "verdict"]
    first = [json.dumps(name) for name in names[:50]]

    def place(**wanted: Any) -> int:
        (number,) = (
            k for k, name in enumerate(first) if wanted.items() <= json.loads(name).items()
        )
        return number

    for batch in (4096, 65536):
        kernel = {"what": "time", "library": "artix", "kernels": True, "batch": batch}
        place(**kernel, robot="arm7", function="mass matrix")
        for robot in ("quadruped", "humanoid"):
            for function in ("step at rest", "step on the ground", "step", "inverse dynamics"):
                place(**kernel, robot=robot, function=function)
        for library in ("mjx", "mjx-warp"):
            for function in ("step at rest", "step"):
                place(
                    what="time", library=library, robot="quadruped", function=function, batch=batch
                )
    assert place(what="training") < place(what="memory", kernels=True) < 50
    by_xla = [
        k
        for k, name in enumerate(names)
        if name.get("kernels") is False and name.get("library") == "artix"
    ]
    assert by_xla[0] > place(what="training")
