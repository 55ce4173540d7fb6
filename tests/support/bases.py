"""Parametrisations by ``fixed_base``. A floating base has all that a fixed one has, and more, so a
fixed one may run less often."""

from __future__ import annotations

import pytest


def _bases(*marks: pytest.MarkDecorator) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "fixed_base", [pytest.param(True, marks=marks), False], ids=["fixed", "floating"]
    )


BASES = _bases()
BASES_FIXED_SLOW = _bases(pytest.mark.slow)
BASES_FIXED_WEEKLY = _bases(pytest.mark.exhaustive)
