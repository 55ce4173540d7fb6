"""The programs that functions become, and what they give beside what they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from artix.compiler.operation import program_p


def programs_in(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The equations of programs in a function."""
    return [each for each in jax.make_jaxpr(function)(*arguments).eqns if each.primitive is program_p]


def agree(found: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    """Fails unless two trees have equal leaves, up to a relative and an absolute tolerance."""
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), found, wanted)
