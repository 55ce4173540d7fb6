"""Keys that identify programs across processes, and signatures that spare other processes the tracing."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from artix.compiler.argument_types import portable
from artix.compiler.disk import KernelFiles


class Signature(NamedTuple):
    """Types and pytree structure of a program's results."""

    types: tuple[jax.ShapeDtypeStruct, ...]
    structure: Any


def signature_of(results: Any) -> Signature:
    """The signature of a pytree of shapes and dtypes."""
    leaves, structure = jax.tree.flatten(results)
    return Signature(tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves), structure)


def program_key(function: Callable[..., Any], structure: Any, rest: Sequence[Any]) -> bytes | None:
    """A digest of a function of artix, the structure of its arguments and everything else that is static in a call.

    It is ``None`` for functions outside artix and for static arguments that cannot be pickled.
    """
    if not (function.__module__ or "").startswith("artix."):  # Functions defined by ``exec`` have no module.
        return None
    content = hashlib.sha256(_source_digest())
    content.update(f"{jax.__version__} {function.__module__}.{function.__qualname__}".encode())
    try:
        _add_structure(content, structure)
        content.update(pickle.dumps([portable(item) for item in rest]))
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
    content.update(pickle.dumps(portable(static)))
    for child in structure.children():
        _add_structure(content, child)
    content.update(b";")


@functools.cache
def _source_digest() -> bytes:
    """The digest of all modules of artix: a change in any of them invalidates everything stored."""
    folder = Path(__file__).resolve().parent.parent
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return content.digest()


_files = KernelFiles()


def read_signature(key: bytes | None) -> Signature | None:
    """The signature of a program that this or another process traced earlier."""
    content = None if key is None else _files.read(f"signature_{key.hex()[:40]}")
    return None if content is None else signature_of(pickle.loads(content))


def write_signature(key: bytes | None, results: Any) -> None:
    """Writes a signature for other processes."""
    if key is None or _files.folder is None:
        return
    try:
        content = pickle.dumps(results)
    except (pickle.PicklingError, TypeError, AttributeError):
        return
    _files.write(f"signature_{key.hex()[:40]}", content)
