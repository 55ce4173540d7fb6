"""Which cases of a test run every day."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_besides(everyday: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """All cases, the others slow because they rarely find what the everyday ones do not."""
    everyday, cases = list(everyday), list(cases)
    assert all(case in cases for case in everyday)
    return [
        case if case in everyday else pytest.param(case, marks=pytest.mark.slow) for case in cases
    ]
