"""What is known while JAX traces is computed while it traces.

An articulation that a traced function closes over is a constant of its program. Everything that depends on parameters
alone (joint geometry, lumped inertias) is then computed once, by NumPy, and enters as numbers: the program of inverse
dynamics of a 29-DOF humanoid shrinks from 2,603 instructions to 1,225. (Small programs of their own took 0.4 s to
compile where NumPy takes 2 ms.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_known(tree: Any) -> bool:
    """Whether no leaf of a pytree is traced."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def known_to_be(value, *arrays):
    return False


def split_known(tree):
    return None, tree


def namespace(*arrays: Any) -> Any:
    """NumPy if all arrays are its own, else ``jax.numpy``: by it a formula serves what is known and what is traced."""
    return np if all(isinstance(array, np.ndarray) for array in arrays) else jnp


def computed_early(function):
    return function
