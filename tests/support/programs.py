"""The programs that functions become, and what they give beside what they should."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from artix.compiler.operation import program_p


def programs_in(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The equations of programs in a function."""
    return [
        each for each in jax.make_jaxpr(function)(*arguments).eqns if each.primitive is program_p
    ]


@contextlib.contextmanager
def each_compiled_once() -> Iterator[None]:
    """In this context XLA compiles a program of more than 0.2 s once, although it is traced anew.

    Each training traces its iteration, which takes XLA a second, and most trainings of the tests
    have the same one.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "jax_compilation_cache_dir": folder,
            "jax_persistent_cache_min_compile_time_secs": 0.2,
        }
        before = {name: getattr(jax.config, name) for name in options}
        for name, value in options.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()  # JAX looks at its options once.
        try:
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()


def agree(found: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    """Fails unless two trees have equal leaves, up to a relative and an absolute tolerance."""
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), found, wanted
    )


def rows_of(operands: Sequence[np.ndarray], axes: Sequence[Any]) -> list[np.ndarray]:
    """The operands with one row for each robot, or each item of each robot."""
    sizes, found = [axis.size for axis in axes], []
    for number, operand in enumerate(operands):
        mapped = [axis.mapped[number] for axis in axes]
        own = operand.shape[sum(mapped) :]
        rows = [size if is_mapped else 1 for size, is_mapped in zip(sizes, mapped, strict=True)]
        found.append(
            np.broadcast_to(operand.reshape(*rows, *own), (*sizes, *own)).reshape(
                math.prod(sizes), *own
            )
        )
    return found


def operands_of(jaxpr: Any, leaves: dict[Any, Any], equation: Any) -> list[np.ndarray]:
    """What the equation's operands are, all before it evaluated."""
    place = jaxpr.eqns.index(equation)
    before = jaxpr.jaxpr.replace(
        eqns=jaxpr.jaxpr.eqns[:place], outvars=list(equation.invars), debug_info=None
    )
    return [np.asarray(x) for x in jax.core.eval_jaxpr(before, jaxpr.consts, *leaves.values())]
