"""What tells programs from each other in every process, and what is known of them before they are traced."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from artix.evaluation.disk import KernelFiles
from artix.model.topology import Topology


class Signature(NamedTuple):
    """The results of a program."""

    types: tuple[jax.ShapeDtypeStruct, ...]
    """Their shapes and dtypes."""
    structure: Any
    """The pytree that they make."""


def signature_of(results: Any) -> Signature:
    """From a pytree of shapes and dtypes."""
    leaves, structure = jax.tree.flatten(results)
    return Signature(tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves), structure)


def program_key(function: Callable[..., Any], structure: Any, rest: Sequence[Any]) -> bytes | None:
    """A digest of a function of artix, of the structure of its arguments and of what else is static about a call.

    ``None`` where that cannot be told: functions of others, and static arguments that cannot be pickled.
    """
    if not function.__module__.startswith("artix."):
        return None
    content = hashlib.sha256(_source_digest())
    content.update(f"{jax.__version__} {function.__module__}.{function.__qualname__}".encode())
    try:
        _add_structure(content, structure)
        content.update(pickle.dumps([_portable(item) for item in rest]))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return content.digest()


def _add_structure(content: Any, structure: Any) -> None:
    node = structure.node_data()
    if node is None:
        content.update(b"leaf;" if structure.num_leaves else b"none;")
        return
    kind, static = node
    content.update(f"{kind.__module__}.{kind.__qualname__}:".encode())
    content.update(pickle.dumps(_portable(static)))
    for child in structure.children():
        _add_structure(content, child)
    content.update(b";")


def _portable(static: Any) -> Any:
    """Without what a process remembers of it besides."""
    if isinstance(static, Topology):
        return static._content
    if isinstance(static, tuple | list):
        return [_portable(item) for item in static]
    return static


@functools.cache
def _source_digest() -> bytes:
    """Of all modules of artix: a change of one forgets what was compiled."""
    folder = Path(__file__).resolve().parent.parent
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return content.digest()


_files = KernelFiles()


def read_signature(key: bytes | None) -> Signature | None:
    """The signature of a program that this or another process has traced before."""
    kept = None if key is None else _files.read(f"signature_{key.hex()[:40]}")
    if kept is None:
        return None
    return signature_of(pickle.loads(kept))


def write_signature(key: bytes | None, results: Any) -> None:
    """Keeps a signature for other processes."""
    if key is None or _files.folder is None:
        return
    try:
        kept = pickle.dumps(results)
    except (pickle.PicklingError, TypeError, AttributeError):
        return
    _files.write(f"signature_{key.hex()[:40]}", kept)
